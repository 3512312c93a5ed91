"""The learning curve against a slow twin: equal bins, means of the episodes that end in them, gaps carried forward."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.training.run import BINS, learning_curve


def slow(ends, returns, steps, bins):
    """Bin by bin with exact edges: a step belongs to the bin (k, k + 1]·steps/bins that it ends in."""
    bins = min(bins, steps)
    edges = [Fraction(k * steps, bins) for k in range(bins + 1)]
    means = []
    for low, high in pairwise(edges):
        inside = [r for e, r in zip(ends, returns) if low <= e - 1 < high]
        means.append(sum(inside) / len(inside) if inside else None)
    first = next((m for m in means if m is not None), None)
    values, last = [], first
    for mean in means:
        last = last if mean is None else mean
        values.append(last)
    return [float(low + high) / 2 for low, high in pairwise(edges)], values, [m is not None for m in means]


@st.composite
def runs(draw):
    steps = draw(st.integers(1, 300))
    ends = sorted(draw(st.lists(st.integers(1, steps), max_size=30)))
    returns = draw(st.lists(st.integers(-50, 50), min_size=len(ends), max_size=len(ends)))
    return ends, returns, steps, draw(st.sampled_from([1, 2, 7, BINS]))


@given(runs())
def test_the_curve_is_its_slow_twin(run):
    ends, returns, steps, bins = run
    curve, (middles, values, ended) = learning_curve(ends, returns, steps, bins), slow(*run)
    np.testing.assert_allclose(curve.step, middles)
    assert curve.ended.tolist() == ended
    if not ends:
        assert curve.area is None and np.isnan(curve.value).all()
        return
    np.testing.assert_allclose(curve.value, values)
    assert curve.area == pytest.approx(np.mean(values))
    assert curve.staircase == (2 * sum(ended) < len(ended))


def test_gaps_repeat_what_came_before_and_the_start_what_comes_first():
    curve = learning_curve([30, 31, 70], [2.0, 4.0, 9.0], steps=100, bins=10)
    assert curve.value.tolist() == [2, 2, 2, 4, 4, 4, 9, 9, 9, 9]
    assert curve.ended.tolist() == [k in (2, 3, 6) for k in range(10)]
    assert curve.area == pytest.approx(5.4) and curve.staircase


@pytest.mark.parametrize("num_envs", [1, 8, 64, 256])
def test_more_environments_do_not_lag_more(num_envs):
    """Returns that equal the share of the run played so far: every bin shows its own middle, whoever plays."""
    steps, length = 64_000, 10
    rounds = steps // num_envs
    ends = np.array([(t + 1) * num_envs for t in range(rounds) for env in range(num_envs) if (t + env) % length == 0])
    curve = learning_curve(ends, ends / steps, steps)
    assert curve.ended.all()
    np.testing.assert_allclose(curve.value, curve.step / steps, atol=0.5 / BINS)
    assert curve.area == pytest.approx(0.5, abs=0.25 / BINS)
