"""Why splits learn differently, in words."""

from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.studies.explanation import explanations
from trimtab.studies.split_result import SplitRow


def row(n, areas, individual=1.0, between=0.0, bias=0.2, **more):
    parts = {"individual": individual, "covariance": 0.0, "between_rows": between, "bias_sq": bias}
    errors = {"variance": individual + between, "mse": individual + between + bias}
    estimates = {name: Estimate(value, value - 0.1, value + 0.1) for name, value in (parts | errors).items()}
    return SplitRow(num_envs=n, num_steps=1024 // n, areas=areas, **estimates | more)


BEST = row(16, (10.0, 11.0))


def test_each_part_that_differs_is_named():
    worse = row(256, (1.0, 2.0), individual=0.5, between=1.5, bias=0.6)
    (text,) = explanations([BEST, worse], (), horizon=6.9, staggered=False)
    assert text.startswith("Compared with 16x64, which learned most, the gradient of 256x4 differs: ")
    assert "its noise within rows is 0.5 times as large" in text
    assert "75% of its variance is between rows" in text and "--stagger-resets true" in text
    assert "its bias² is 3 times as large (T = 4 against a horizon 1/(1−γλ) of 6.9 steps)" in text
    assert "as many updates" in text and "smaller error" not in text


def test_staggered_resets_are_advised_only_where_they_would_help():
    worse = row(256, (1.0, 2.0), between=1.5)
    assert "stagger" not in explanations([BEST, worse], (), 6.9, staggered=True)[0]
    none = row(256, (1.0, 2.0), between=0.05)
    text = explanations([BEST, none], (), 6.9, staggered=False)[0]
    assert "not significant (5% of the variance)" in text and "stagger" not in text


def test_a_split_with_less_error_that_learned_less_is_explained():
    better = row(256, (1.0, 2.0), individual=0.2, bias=0.1)
    assert "has the smaller error and learned less all the same" in explanations([BEST, better], (), 6.9, False)[0]


def test_only_the_splits_that_learned_less_are_explained():
    middle, least = row(64, (9.0, 10.0)), row(256, (1.0, 2.0))
    assert len(explanations([BEST, middle, least], (), 6.9, False)) == 1
    assert len(explanations([BEST, middle, least], ("64x16", "256x4"), 6.9, False)) == 2
    assert explanations([BEST, row(64, ())], (), 6.9, False) == ()


def test_what_was_not_measured_is_said():
    unknown = row(256, (1.0,), between_rows=UNRESOLVED, bias_sq=UNRESOLVED)
    text = explanations([BEST, unknown], (), 6.9, False)[0]
    assert "its noise between rows was not measured" in text and "its bias² is inconclusive" in text
