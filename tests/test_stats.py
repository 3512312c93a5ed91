import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from trimtab import stats

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


def test_bootstrap_interval_is_seeded_and_stratified():
    x = np.random.default_rng(0).normal(size=(10, 2)) + np.array([0, 1000])
    first = stats.bootstrap_interval(x, np.mean, num_resamples=300, seed=1)
    assert first == stats.bootstrap_interval(x, np.mean, num_resamples=300, seed=1)
    assert first != stats.bootstrap_interval(x, np.mean, num_resamples=300, seed=2)
    assert first.lo < first.value < first.hi
    assert first.hi - first.lo < 3  # tasks never mix
    narrow = stats.bootstrap_interval(x, np.mean, confidence=0.5, num_resamples=300, seed=1)
    assert narrow.hi - narrow.lo < first.hi - first.lo


def test_mean_interval_covers_with_three_seeds():
    rng = np.random.default_rng(0)
    intervals = [stats.mean_interval(x) for x in rng.normal(2.0, 1.0, (2000, 3))]
    assert np.mean([i.lo <= 2 <= i.hi for i in intervals]) == pytest.approx(0.95, abs=0.02)
    with pytest.raises(ValueError, match="values"):
        stats.mean_interval([1.0])


def test_array_statistics_import_no_jax():
    modules = "trimtab.stats, trimtab.anatomy.variance, trimtab.anatomy.noise, trimtab.anatomy.bias"
    code = f"import sys, {modules}, trimtab.anatomy.correlation; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
