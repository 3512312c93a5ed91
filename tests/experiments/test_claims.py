"""Verdicts by the common rule: what is beyond its interval, on which side, and how often."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from trimtab.core.estimate import Estimate, unresolved
from trimtab.experiments.catalogue import DECLARED
from trimtab.experiments.claims import Claim, EffectEstimate, beyond, explained, judge, judge_all
from trimtab.experiments.source_study import SIZES

CLAIM = Claim("P1", "text", "where", "rule")
ABOVE, BELOW, NEITHER = Estimate(1.0, 0.5, 1.5), Estimate(-1.0, -1.5, -0.5), Estimate(0.5, -0.5, 1.5)


@pytest.mark.parametrize("freedom, contradicts", [(4.0, True), (2.0, False), (None, False)])
def test_intervals_are_widened_by_their_own_degrees_of_freedom(freedom, contradicts):
    """t at 1 - 0.025/10 over t at 0.975: 2.0 with 4 degrees, 3.3 with 2, as with a mean over 3 seeds."""
    effect = EffectEstimate("a", Estimate(-0.39, -0.54, -0.24, freedom=freedom), 3)
    assert beyond(effect, 0.0, among=10) == (-1 if contradicts else 0)
    assert beyond(effect, 0.0) == -1


@pytest.mark.parametrize(
    "effects, word",
    [
        ([ABOVE, ABOVE], "holds"),
        ([ABOVE, NEITHER], "holds"),
        ([ABOVE, NEITHER, NEITHER], "inconclusive"),
        ([BELOW, BELOW, NEITHER], "contradicted"),
        ([ABOVE, BELOW, NEITHER, NEITHER, NEITHER], "depends"),
        ([NEITHER], "inconclusive"),
        ([], "inconclusive"),
        ([Estimate(1.0, 0.5, 1.5, resolved=False)], "inconclusive"),
    ],
)
def test_verdicts_follow_the_rule(effects, word):
    evidence = [EffectEstimate(f"env {k}", effect, 4) for k, effect in enumerate(effects)]
    assert judge(CLAIM, "effect", evidence, "").word == word


def test_one_effect_of_many_that_is_barely_on_the_other_side_contradicts_nothing():
    """Of 20 effects one is beyond its 95% interval by chance; jointly it is not."""
    barely = Estimate(-1.0, -1.9, -0.1)
    assert judge(CLAIM, "effect", [EffectEstimate("env", barely, 10)], "").word == "contradicted"
    evidence = [EffectEstimate(f"env {k}", effect, 10) for k, effect in enumerate([barely, *[ABOVE] * 19])]
    assert judge(CLAIM, "effect", evidence, "").word == "holds"
    certain = [EffectEstimate("env 0", Estimate(-1.0, -1.1, -0.9), 10), *evidence[1:]]
    assert judge(CLAIM, "effect", certain, "").word == "depends"


@pytest.mark.parametrize(
    "pooled, single, word",
    [
        (ABOVE, [NEITHER, NEITHER, NEITHER], "holds"),
        (ABOVE, [NEITHER, Estimate(-1.0, -1.01, -0.99)], "depends"),
        (NEITHER, [ABOVE, ABOVE, NEITHER], "inconclusive"),
        (BELOW, [NEITHER, NEITHER], "contradicted"),
    ],
)
def test_an_effect_over_all_environments_decides_and_single_ones_can_only_contradict(pooled, single, word):
    evidence = [
        EffectEstimate("all", pooled, 4, pooled=True),
        *(EffectEstimate(f"env {k}", e, 4) for k, e in enumerate(single)),
    ]
    assert judge(CLAIM, "effect", evidence, "").word == word


@pytest.mark.parametrize("seeds", [3, 5, 10, 20])
def test_the_size_named_would_do_four_times_out_of_five(seeds):
    """Effects of 0.3 standard deviations, measured as they are: drawn again at the size named, most are resolved."""
    rng = np.random.default_rng(0)
    half = special.stdtrit(seeds - 1, 0.975) / seeds**0.5
    named = judge(CLAIM, "effect", [EffectEstimate("env", Estimate(0.3, 0.3 - half, 0.3 + half), seeds)], "").needed
    if "about" not in named:
        assert seeds < 4, "from three seeds a t of 4.3 asks for more than 100"
        return
    count = int(named.split()[1])
    draws = rng.normal(0.3, 1.0, (2000, count))
    lo = draws.mean(1) - special.stdtrit(count - 1, 0.975) * draws.std(1, ddof=1) / count**0.5
    assert (lo > 0).mean() > 0.75


def test_what_is_not_resolved_says_what_would_resolve_it():
    """An interval of ±1 around 0.5 on 4 seeds: half as wide, it is above 0; so 4 times as many, and one more."""
    verdict = judge(CLAIM, "effect", [EffectEstimate("env", NEITHER, 4)], "")
    assert verdict.needed == "about 17 seeds (4 here)"
    assert judge(CLAIM, "effect", [EffectEstimate("env", ABOVE, 4)], "").needed == ""


def test_the_size_is_the_one_at_which_enough_effects_decide():
    """Two of three must be told from 0: the second nearest counts, at 4 (1/0.25)² seeds and one more."""
    near, far = Estimate(0.5, -0.5, 1.5), Estimate(0.25, -0.75, 1.25)
    evidence = [
        EffectEstimate(f"env {k}", effect, 4) for k, effect in enumerate([near, far, Estimate(0.01, -0.99, 1.01)])
    ]
    assert judge(CLAIM, "effect", evidence, "").needed == "about 65 seeds (4 here)"


def test_of_several_parts_the_size_is_that_of_the_one_that_needs_most():
    parts = [[EffectEstimate("env", Estimate(value, value - 1, value + 1), 4)] for value in (0.5, 0.25, 0.4)]
    assert judge_all(CLAIM, "effect", parts, "").needed == "about 65 seeds (4 here)"


def test_a_size_nobody_can_run_is_called_out_of_reach():
    """100 seeds instead of 4 make an interval of ±1 one of ±0.2."""
    small = EffectEstimate("env", Estimate(0.01, -0.99, 1.01), 4)
    needed = judge(CLAIM, "effect", [small], "").needed
    assert needed.startswith("out of reach: over 100 seeds; the effect may be nil") and "one of 0.2)" in needed
    assert "no size can be named" in judge(CLAIM, "effect", [EffectEstimate("env", unresolved(1.0), 1)], "").needed


def test_what_was_different_is_said_where_a_claim_does_not_hold():
    fails = judge(CLAIM, "effect", [EffectEstimate("env", BELOW, 4)], "Found.")
    holds = judge(CLAIM, "effect", [EffectEstimate("env", ABOVE, 4)], "Found.")
    told = explained([fails, holds, replace(fails, differs="Its own reason.")], "Other settings.")
    assert [v.differs for v in told] == ["Other settings.", "", "Its own reason."]
    assert told[0].sentence == "Found."


@pytest.mark.parametrize("kind", [kind for kind, study in DECLARED.items() if study.claims])
def test_every_study_says_what_differs_from_its_source(kind):
    for size in SIZES:
        assert len(DECLARED[kind](size=size).differs) > 60


SIZED = replace(CLAIM, matters=1.0)


@pytest.mark.parametrize(
    "effects, word",
    [
        ([Estimate(0.1, -0.5, 0.7)], "no effect of that size"),
        ([Estimate(0.5, 0.2, 0.8)], "no effect of that size"),  # above 0, and too small to matter
        ([Estimate(-0.4, -1.3, 0.5)], "no effect of that size"),  # none of that size in the claimed direction
        ([Estimate(1.0, 0.2, 1.8)], "holds"),
        ([Estimate(-1.0, -1.8, -0.2)], "contradicted"),
        ([Estimate(0.5, -0.5, 1.5)], "inconclusive"),
        ([Estimate(2.0, 1.5, 2.5), Estimate(-0.2, -0.4, -0.1)], "holds"),  # the second is too small to contradict
        ([Estimate(2.0, 1.5, 2.5), Estimate(-2.0, -2.1, -1.9)], "depends"),
    ],
)
def test_the_smallest_effect_that_matters_decides_what_is_no_effect(effects, word):
    evidence = [EffectEstimate(f"env {k}", effect, 10) for k, effect in enumerate(effects)]
    assert judge(SIZED, "effect", evidence, "").word == word


def test_verdicts_are_also_given_for_half_and_twice_the_smallest_effect():
    verdict = judge(SIZED, "effect", [EffectEstimate("env", Estimate(0.0, -0.7, 0.7), 10)], "")
    assert (verdict.word, verdict.with_half) == ("no effect of that size", "inconclusive")
    assert verdict.with_double == "no effect of that size"
    assert judge(CLAIM, "effect", [EffectEstimate("env", ABOVE, 10)], "").with_half is None


def test_error_rates_of_verdicts_in_simulation():
    """A true effect of 0: found at most 2.5% of the time; one of exactly the smallest size is excluded as rarely."""
    rng, seeds, repeats = np.random.default_rng(0), 10, 2000
    t = special.stdtrit(seeds - 1, 0.975)
    counts = {}
    for true in (0.0, 1.0):
        samples = rng.normal(true, 1.0, (repeats, seeds))
        half = t * samples.std(axis=1, ddof=1) / np.sqrt(seeds)
        intervals = [Estimate(m, m - h, m + h) for m, h in zip(samples.mean(axis=1), half)]
        words = [judge(SIZED, "effect", [EffectEstimate("env", e, seeds)], "").word for e in intervals]
        counts[true] = {word: words.count(word) / repeats for word in set(words)}
    assert counts[0.0].get("holds", 0) < 0.035 and counts[0.0].get("contradicted", 0) < 0.035
    assert counts[1.0].get("no effect of that size", 0) < 0.035 and counts[1.0]["holds"] > 0.7
