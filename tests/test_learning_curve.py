"""Learning curves: credited returns against a slow twin, and areas that do not depend on the number of environments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.training.learning_curve import BINS, credited_curve, evaluated_curve


def slow(ends, lengths, returns, num_envs, steps, bins):
    """Episode by episode and bin by bin."""
    bins = min(bins, steps)
    edges = np.arange(bins + 1) * steps / bins
    total, weight = np.zeros(bins), np.zeros(bins)
    for end, length, value in zip(ends, lengths, returns):
        start = max(end - length * num_envs, 0)
        for k in range(bins):
            overlap = max(min(end, edges[k + 1]) - max(start, edges[k]), 0) / (end - start)
            total[k] += overlap * value
            weight[k] += overlap
    return total, weight


@st.composite
def runs(draw):
    num_envs = draw(st.sampled_from([1, 2, 5]))
    steps = draw(st.integers(10, 300))
    ends = sorted(draw(st.lists(st.integers(1, steps), min_size=1, max_size=30)))
    lengths = [draw(st.integers(1, max(1, end // num_envs))) for end in ends]
    returns = draw(st.lists(st.integers(-50, 50), min_size=len(ends), max_size=len(ends)))
    return ends, lengths, returns, num_envs, steps, draw(st.sampled_from([1, 2, 7, BINS]))


@given(runs())
def test_credited_returns_are_their_slow_twin(run):
    curve, (total, weight) = credited_curve(*run[:5], bins=run[5]), slow(*run)
    seen = weight > 1e-6
    assert (curve.seen[seen]).all()
    np.testing.assert_allclose(curve.value[seen], total[seen] / weight[seen], rtol=1e-6, atol=1e-6)


def play(num_envs, steps, value_at, length_of, staggered, seed=0):
    """Training episodes of a policy whose expected return after s steps is value_at(s): (ends, lengths, returns)."""
    rng, ends, lengths, returns = np.random.default_rng(seed), [], [], []
    for _ in range(num_envs):
        now = -int(rng.integers(length_of(rng))) if staggered else 0
        while True:
            length = length_of(rng)
            span = np.arange(max(now, 0), now + length)
            now += length
            if now * num_envs > steps:
                break
            if len(span) < length:
                continue  # it began before training
            ends.append(now * num_envs)
            lengths.append(length)
            returns.append(np.mean([value_at(t * num_envs) for t in span[:: max(1, length // 20)]]) + rng.normal())
    order = np.argsort(ends)
    return np.array(ends)[order], np.array(lengths)[order], np.array(returns)[order]


def by_ends(ends, returns, steps, bins=BINS):
    """The definition of earlier versions: the mean return of the episodes that end in a bin."""
    where = np.clip((ends - 1) * bins // steps, 0, bins - 1)
    values = [returns[where == k].mean() if (where == k).any() else None for k in range(bins)]
    filled, last = [], next(v for v in values if v is not None)
    for value in values:
        last = last if value is None else value
        filled.append(last)
    return float(np.mean(filled))


@pytest.mark.parametrize("staggered", [False, True])
@pytest.mark.parametrize("num_envs", [1, 4, 16, 64, 256])
def test_the_credited_area_of_a_frozen_policy_does_not_depend_on_n(num_envs, staggered):
    steps = 200_000
    for length_of in (lambda rng: 200, lambda rng: int(rng.integers(20, 200))):
        ends, lengths, returns = play(num_envs, steps, lambda s: 5.0, length_of, staggered)
        curve = credited_curve(ends, lengths, returns, num_envs, steps)
        assert curve.area == pytest.approx(5.0, abs=0.25)


def test_a_policy_that_improves_is_credited_where_it_plays_and_lags_by_ends():
    """On a line from 0 to 10 the area is 5: by ends, 256 environments lose a sixth of it."""
    steps, line = 400_000, lambda s: 10.0 * s / 400_000
    areas, old = {}, {}
    for num_envs in (4, 256):
        ends, lengths, returns = play(num_envs, steps, line, lambda rng: 200, False)
        areas[num_envs] = credited_curve(ends, lengths, returns, num_envs, steps).area
        old[num_envs] = by_ends(ends, returns, steps)
    assert areas[4] == pytest.approx(5.0, abs=0.1) and areas[256] == pytest.approx(5.0, abs=0.4)
    assert abs(old[256] - old[4]) > 2 * abs(areas[256] - areas[4])


def test_evaluations_give_the_trapezoid():
    curve = evaluated_curve([100, 0, 50], [4.0, 0.0, 1.0])
    assert curve.measure == "evaluated" and curve.step.tolist() == [0, 50, 100]
    assert curve.area == pytest.approx((0.5 * 50 + 2.5 * 50) / 100)


def test_nothing_is_known_without_episodes():
    curve = credited_curve([], [], [], 4, 100)
    assert curve.area is None and np.isnan(curve.value).all() and curve.unseen == 1
