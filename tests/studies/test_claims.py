"""Verdicts by the common rule: what is beyond its interval, on which side, and how often."""

import pytest

from trimtab.estimate import Estimate
from trimtab.studies.claims import Claim, Evidence, judge

CLAIM = Claim("P1", "text", "where", "rule")
ABOVE, BELOW, NEITHER = Estimate(1.0, 0.5, 1.5), Estimate(-1.0, -1.5, -0.5), Estimate(0.5, -0.5, 1.5)


@pytest.mark.parametrize(
    "effects, word",
    [
        ([ABOVE, ABOVE], "holds"),
        ([ABOVE, NEITHER], "holds"),
        ([ABOVE, NEITHER, NEITHER], "not resolved at this size"),
        ([BELOW, BELOW, NEITHER], "does not hold"),
        ([ABOVE, BELOW, NEITHER, NEITHER, NEITHER], "depends"),
        ([NEITHER], "not resolved at this size"),
        ([], "not resolved at this size"),
        ([Estimate(1.0, 0.5, 1.5, resolved=False)], "not resolved at this size"),
    ],
)
def test_verdicts_follow_the_rule(effects, word):
    evidence = [Evidence(f"env {k}", effect, 4) for k, effect in enumerate(effects)]
    assert judge(CLAIM, "effect", evidence, "").word == word


def test_what_is_not_resolved_says_what_would_resolve_it():
    """An interval of ±1 around 0.5 on 4 seeds: half as wide, it is above 0; so 4 times as many, and one more."""
    verdict = judge(CLAIM, "effect", [Evidence("env", NEITHER, 4)], "")
    assert "about 17 seeds on env" in verdict.needed
    assert judge(CLAIM, "effect", [Evidence("env", ABOVE, 4)], "").needed == ""
