"""Iterations one after the other, and sketches of gradients."""

import numpy as np
import pytest

from trimtab.anatomy import IterationStream, decompose, gradient_statistics, gram_matrix, noise_scale, sketch
from trimtab.gradient import variance
from trimtab.gradient.inner_products import BlockProducts, Products
from trimtab.gradient.sketches import relative_error, with_sketch_error
from trimtab.gradient.streams import pooled_statistics


def iterations(count=5, rows=6, steps=4, parameters=3):
    """Policies that drift: every iteration has another mean."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=(rows, steps, parameters)) + rng.normal(size=parameters) for _ in range(count)]


def stream_of(batches, **options):
    stream = IterationStream(**options)
    for batch in batches:
        stream.add(batch)
    return stream


def test_terms_and_squares_are_means_over_iterations():
    batches = iterations()
    pooled = stream_of(batches).pooled().decompose()
    alone = [decompose(batch, 6) for batch in batches]
    for name in ("variance", "individual", "covariance", "grad_sq"):
        assert getattr(pooled, name).value == pytest.approx(np.mean([getattr(a, name).value for a in alone])), name
    np.testing.assert_allclose(pooled.lag_covariance, np.mean([a.lag_covariance for a in alone], axis=0))
    scale = stream_of(batches).pooled().noise_scale()
    assert scale.grad_sq.value == pytest.approx(pooled.grad_sq.value)
    if scale.trajectory.resolved:
        assert scale.trajectory.value == pytest.approx(24 * pooled.variance.value / pooled.grad_sq.value)


def test_one_iteration_is_what_decompose_says():
    (batch,) = iterations(count=1, rows=12)
    pooled, alone = stream_of([batch]).pooled(), decompose(batch, 12)
    for name in ("variance", "individual", "covariance", "ess", "grad_sq"):
        a, b = getattr(pooled.decompose(), name), getattr(alone, name)
        assert (a.value, a.lo, a.hi) == pytest.approx((b.value, b.lo, b.hi), rel=1e-6), name
    a, b = pooled.noise_scale().trajectory, noise_scale(batch).trajectory
    assert (a.value, a.lo, a.hi) == pytest.approx((b.value, b.lo, b.hi), nan_ok=True)


def test_the_squared_mean_is_that_of_rows_without_a_common_direction():
    """Rows written into coordinates of their own iteration, as vectors."""
    batches = iterations(count=3)
    sums = [batch.sum(axis=1) for batch in batches]
    wide = np.zeros((18, 9))
    for k, own in enumerate(sums):
        wide[6 * k : 6 * k + 6, 3 * k : 3 * k + 3] = own
    mean = wide.mean(axis=0)
    centred = wide - np.repeat([part.mean(axis=0) for part in np.split(wide, 3)], 6, axis=0)
    pooled = pooled_statistics([gradient_statistics(batch) for batch in batches])
    expected = Products.of(centred)
    assert pooled.mean_sq == pytest.approx(mean @ mean / 16)
    np.testing.assert_allclose(pooled.along_mean, centred @ mean / 4)
    np.testing.assert_allclose(pooled.residuals.diagonal, expected.diagonal)
    weights = np.random.default_rng(1).normal(size=(7, 18))
    np.testing.assert_allclose(pooled.residuals.times(weights), expected.times(weights))
    assert pooled.residuals.sum_of_squares == pytest.approx(expected.sum_of_squares)
    assert pooled.residuals.scaled(3.0).sum_of_squares == pytest.approx(81 * expected.sum_of_squares)
    assert len(BlockProducts(np.ones((2, 3, 3)))) == 6


def test_intervals_hold_the_mean_square_of_drifting_policies():
    rng, held = np.random.default_rng(3), []
    means = rng.normal(size=(6, 4)) * 0.3
    for _ in range(40):
        stream = stream_of(rng.normal(size=(6, 8, 2, 4)) + means[:, None, None])
        found = stream.pooled().decompose().grad_sq
        held.append(found.lo <= np.mean(np.sum(means**2, axis=1)) <= found.hi)
    assert np.mean(held) >= 0.85


def test_all_ways_to_add_an_iteration_agree():
    batches = iterations()
    by_gram, by_sums, by_arrays = IterationStream(), IterationStream(), stream_of(batches)
    for batch in batches:
        by_gram.add_gram(gram_matrix(batch), 6, 4)
        sums = batch.sum(axis=1)
        by_sums.add_row_sums(sums @ sums.T, np.einsum("mtp,ntp->mn", batch, batch), 4)
    expected = by_arrays.pooled().decompose()
    for stream in (by_gram, by_sums):
        found = stream.pooled().decompose()
        for name in ("variance", "covariance", "grad_sq"):
            a, b = getattr(found, name), getattr(expected, name)
            assert (a.value, a.lo, a.hi) == pytest.approx((b.value, b.lo, b.hi), rel=1e-6), name


def test_the_window_is_bounded_and_starts_anew_with_other_rows():
    batches = iterations(count=9)
    assert stream_of(batches, window=4).pooled().decompose().variance.value == pytest.approx(
        stream_of(batches[5:]).pooled().decompose().variance.value
    )
    stream = stream_of(batches)
    stream.add(iterations(count=1, rows=7)[0])
    assert len(stream) == 1
    with pytest.raises(ValueError, match="no iteration was added"):
        IterationStream().pooled()
    with pytest.raises(ValueError, match="they must be equal in all"):
        pooled_statistics([gradient_statistics(batch) for batch in (batches[0], iterations(count=1, rows=7)[0])])


def test_a_sketch_keeps_inner_products_within_its_error():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40, 5000))
    small = sketch(vectors, 256, seed=1)
    lengths = np.sum(small**2, axis=1) / np.sum(vectors**2, axis=1)
    assert np.abs(lengths - 1).max() < 4 * relative_error(256)
    assert lengths.std() == pytest.approx(relative_error(256), rel=0.5)
    np.testing.assert_allclose(sketch(vectors[0] + vectors[1], 256, seed=1), small[0] + small[1])
    assert np.abs(sketch(vectors[:1], 256, seed=2) - small[:1]).max() > 0.1


def test_intervals_of_a_sketch_hold_what_the_gradients_say():
    rng = np.random.default_rng(5)
    gradients = rng.normal(size=(32, 3, 1500)) * np.linspace(0, 1, 1500) ** 8 + 0.05
    exact = decompose(gradients, 8)
    held = []
    for seed in range(10):
        parts = with_sketch_error(decompose(sketch(gradients, 64, seed), 8), 64)
        estimates = (parts.variance, parts.individual, parts.ess, parts.grad_sq, parts.covariance)
        truths = (exact.variance, exact.individual, exact.ess, exact.grad_sq, exact.covariance)
        held.append([e.lo <= truth.value <= e.hi for e, truth in zip(estimates, truths)])
        assert parts.variance.hi - parts.variance.lo > 2 * 1.9 * relative_error(64) * parts.variance.value
    assert np.all(np.mean(held, axis=0) >= 0.8)


def test_statistics_are_computed_once(monkeypatch):
    """What all estimators share is an argument: the gradients are read once."""
    rows = gradient_statistics(iterations(count=1, rows=12)[0])
    monkeypatch.setattr(variance, "row_moments", None)
    assert variance.decompose_rows(rows, 4).variance.value > 0
    assert noise_scale(rows).row_variance.value > 0
