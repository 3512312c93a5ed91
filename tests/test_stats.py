import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, norm, ttest_ind

from trimtab.math import stats

WITH_TIES = [
    ([1, 2, 2, 3, 5], [2, 4, 5, 6]),
    ([10, 12, 13], [11, 14, 15, 15, 18]),
    ([0, 0, 1, 2, 2, 3], [1, 3, 3, 4]),
]
WITHOUT_TIES = [([1.1, 2.3, 3.7, 0.4], [2.9, 4.2, 5.5]), ([10, 12, 13], [11, 14, 15, 18])]


@pytest.mark.parametrize(("strata", "z", "p"), [(WITH_TIES, -2.6851557, 0.0072496), (WITHOUT_TIES, -2.25, 0.0244489)])
def test_van_elteren_known_answers(strata, z, p):
    result = stats.van_elteren(strata)
    assert tuple(result) == pytest.approx((z, p), abs=1e-6)
    z, p = result
    assert stats.van_elteren(strata, "less").p == pytest.approx(p / 2)
    assert stats.van_elteren(strata, "greater").p == pytest.approx(1 - p / 2)


groups = st.lists(st.integers(0, 6), min_size=2, max_size=9)


@given(groups, groups, st.sampled_from(stats.ALTERNATIVES))
def test_one_stratum_is_the_rank_sum_test(x, y, alternative):
    if len(set([*x, *y])) == 1:
        assert stats.van_elteren([(x, y)]) == (0.0, 1.0)
        return
    expected = mannwhitneyu(x, y, alternative=alternative, method="asymptotic", use_continuity=False)
    assert stats.van_elteren([(x, y)], alternative).p == pytest.approx(min(expected.pvalue, 1.0))


def test_largest_attainable_z():
    assert stats.max_attainable_z([(range(3), range(3))] * 3) == pytest.approx(3.40, abs=0.005)
    separated = [(range(10, 15), range(5))] * 4
    assert stats.max_attainable_z(separated) == pytest.approx(5.22, abs=0.005)
    assert stats.van_elteren(separated).z == pytest.approx(stats.max_attainable_z(separated))


@pytest.mark.parametrize("strata", [[], [([], [1.0])], [([1.0, np.nan], [2.0])]])
def test_van_elteren_refuses(strata):
    with pytest.raises(ValueError, match="strata"):
        stats.van_elteren(strata)


def test_van_elteren_refuses_an_unknown_alternative():
    with pytest.raises(ValueError, match="alternative"):
        stats.van_elteren(WITH_TIES, "both")


def test_iqm():
    assert stats.iqm([0, 1, 2, 3, 4, 5, 6, 1000]) == pytest.approx(3.5)
    assert stats.iqm(np.arange(8).reshape(4, 2)) == pytest.approx(3.5)


def test_the_bootstrap_is_seeded_and_stratified():
    rng = np.random.default_rng(0)
    groups = [rng.normal(size=10), 1000 + rng.normal(size=6)]
    mean = lambda groups: float(np.mean([g.mean() for g in groups]))
    first = stats.stratified_bootstrap(groups, mean, num_resamples=300, seed=1)
    assert first == stats.stratified_bootstrap(groups, mean, num_resamples=300, seed=1)
    assert first != stats.stratified_bootstrap(groups, mean, num_resamples=300, seed=2)
    assert first.value == pytest.approx(mean(groups)) and first.lo < first.value < first.hi
    assert first.hi - first.lo < 3  # environments never mix
    narrow = stats.stratified_bootstrap(groups, mean, confidence=0.5, num_resamples=300, seed=1)
    assert narrow.hi - narrow.lo < first.hi - first.lo
    assert not stats.stratified_bootstrap([*groups, [1.0]], mean).resolved


@pytest.mark.parametrize("seeds, environments", [(3, 8), (8, 4)])
def test_a_bootstrapped_mean_covers_with_few_seeds(seeds, environments):
    """Drawing as many as there are, the usual bootstrap covers 87% with three seeds."""
    rng = np.random.default_rng(seeds)
    held = 0
    for _ in range(400):
        groups = rng.normal(np.arange(environments), 1.0, (seeds, environments)).T
        mean = stats.stratified_bootstrap(groups, np.mean, num_resamples=300, seed=int(rng.integers(1 << 30)))
        held += mean.lo <= np.arange(environments).mean() <= mean.hi
    assert held / 400 == pytest.approx(0.94, abs=0.03)


def test_the_interquartile_mean_of_lists_has_an_interval():
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(200):
        groups = [rng.normal(0.5, 0.2, 6) for _ in range(5)]
        found = stats.stratified_bootstrap(groups, stats.iqm, num_resamples=200)
        held += found.lo <= 0.5 <= found.hi
    assert held / 200 == pytest.approx(0.94, abs=0.045)


def test_probability_of_improvement_counts_pairs():
    found = stats.probability_of_improvement([([2, 3], [1, 2]), ([0, 0], [5, 6])])
    assert found.value == pytest.approx((3.5 / 4 + 0) / 2)
    assert 0 <= found.lo <= found.value <= found.hi <= 1
    x, y = np.random.default_rng(0).normal(size=(2, 7))
    rank_sum = mannwhitneyu(x, y).statistic / 49
    assert stats.probability_of_improvement([(x, y)]).value == pytest.approx(rank_sum)


def test_probability_of_improvement_covers():
    rng, truth = np.random.default_rng(1), norm.cdf(0.5 / np.sqrt(2))
    held = 0
    for _ in range(200):
        strata = [(rng.normal(0.5, 1, 8), rng.normal(0, 1, 8)) for _ in range(4)]
        found = stats.probability_of_improvement(strata, num_resamples=200)
        held += found.lo <= truth <= found.hi
    assert held / 200 == pytest.approx(0.94, abs=0.04)


def test_the_effect_size_is_a_difference_of_differences():
    one = stats.Ablation([0.9, 0.7], [0.7, 0.7], [0.8, 0.8], [0.3, 0.1])  # 0.1 originally, 0.6 ablated
    two = stats.Ablation([1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.9, 0.7])  # 0.0 originally, 0.2 ablated
    found = stats.effect_size([one, two])
    assert found.value == pytest.approx((0.5 + 0.2) / 2)
    assert found.lo < found.value < found.hi
    assert not stats.effect_size([stats.Ablation([1.0], [1.0], [1.0], [0.5])]).resolved


def test_runs_on_both_sides_of_an_effect_cancel():
    """Where an ablation changes nothing at the largest batch its runs are the same ones, and add no spread."""
    large, small, ablated = [0.1, 0.9, 0.5], [0.4, 0.5, 0.6], [0.2, 0.3, 0.1]
    found = stats.effect_size([stats.Ablation(large, small, large, ablated)])
    alone = stats.contrast([small, ablated], [1, -1])
    assert (found.value, found.lo, found.hi) == pytest.approx((alone.value, alone.lo, alone.hi))


def test_effect_sizes_cover_with_three_seeds_and_unlike_spreads():
    rng, held = np.random.default_rng(2), 0
    for _ in range(1000):
        environments = [
            stats.Ablation(*(rng.normal(m, s, 3) for m, s in ((0.9, 0.05), (0.8, 0.1), (0.9, 0.05), (0.4, 0.3))))
            for _ in range(3)
        ]
        found = stats.effect_size(environments)
        held += found.lo <= 0.4 <= found.hi
    assert held / 1000 == pytest.approx(0.95, abs=0.025)


def test_a_contrast_of_two_groups_is_welchs_test():
    rng = np.random.default_rng(5)
    x, y = rng.normal(1, 1, 5), rng.normal(0, 3, 8)
    expected = ttest_ind(x, y, equal_var=False).confidence_interval(0.9)
    found = stats.contrast([x, y], [1, -1], confidence=0.9)
    assert (found.lo, found.hi) == pytest.approx((expected.low, expected.high))


def test_bonferroni_of_sixteen_hypotheses():
    assert stats.z_needed(0.001, 16) == pytest.approx(3.84, abs=0.005)  # as the paper states
    assert [stats.bonferroni(p, 3) for p in (0.001, 0.04, 0.5)] == pytest.approx([0.003, 0.12, 1.0])
    assert stats.max_attainable_z([(range(3), range(3))] * 3) < stats.z_needed(0.001, 16)


def test_seeds_needed_are_those_of_the_textbooks():
    """Two groups, 5% two-sided, 80% power: 17 for one standard deviation, 64 for a half."""
    assert [stats.seeds_needed(1.0, d) for d in (1.0, 0.5)] == [17, 64]
    assert stats.seeds_needed(10.0, -5.0) == 64 and stats.seeds_needed(0.0, 1.0) == 2
    assert stats.seeds_needed(1.0, 100.0) == 2
    with pytest.raises(ValueError, match="difference"):
        stats.seeds_needed(1.0, 0.0)


@pytest.mark.parametrize("enough", [True, False])
def test_so_many_seeds_resolve_the_difference_that_often_and_fewer_do_not(enough):
    n = stats.seeds_needed(2.0, 3.0, power=0.9) - (0 if enough else 2)
    x, y = np.random.default_rng(0).normal([[[3.0]], [[0.0]]], 2.0, (2, 20_000, n))
    share = np.mean(ttest_ind(x, y, axis=1).pvalue < 0.05)
    assert (share > 0.895) == enough


def test_mean_interval_covers_with_three_seeds():
    rng = np.random.default_rng(0)
    intervals = [stats.mean_interval(x) for x in rng.normal(2.0, 1.0, (2000, 3))]
    assert np.mean([i.lo <= 2 <= i.hi for i in intervals]) == pytest.approx(0.95, abs=0.02)
    assert stats.mean_interval([1.0]).value == 1.0 and not stats.mean_interval([1.0]).resolved
    assert not stats.mean_interval([]).known
    with pytest.raises(ValueError, match="values"):
        stats.mean_interval([[1.0, 2.0]])


def test_array_statistics_import_no_jax():
    modules = "trimtab.math.stats, trimtab.gradient.variance, trimtab.gradient.noise, trimtab.gradient.bias"
    code = f"import sys, {modules}, trimtab.gradient.correlation; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
