import itertools

import naive
import numpy as np
import pytest

from trimtab.gradient import variance
from trimtab.gradient.correlation import gram_matrix
from trimtab.gradient.variance import decompose, decompose_carry, decompose_gram, decompose_rows


def autoregressive(rng, rows, steps, parameters, rho, scale=1.0):
    """Stationary rows with Cov(x_t, x_s) = rho^|t − s|, times a scale per row."""
    noise = rng.normal(size=(rows, steps, parameters))
    for t in range(1, steps):
        noise[:, t] = rho * noise[:, t - 1] + np.sqrt(1 - rho**2) * noise[:, t]
    return noise * scale


def lag_sum(rho, steps):
    return sum(rho ** abs(t - s) for t, s in itertools.product(range(steps), repeat=2))


@pytest.fixture
def drifting():
    """Correlated rows whose mean moves with the position."""
    rng = np.random.default_rng(0)
    drift = np.arange(5)[:, None] * np.array([1.0, -2.0, 0.5])
    return autoregressive(rng, 12, 5, 3, 0.6) + drift


def assert_same(a, b, lags=True):
    for name in ("variance", "individual", "covariance", "ess", "grad_sq"):
        x, y = getattr(a, name), getattr(b, name)
        ends = lambda e: (e.value, e.lo, e.hi)
        assert ends(x) == pytest.approx(ends(y), rel=1e-8, abs=1e-10) and x.resolved == y.resolved, name
    if lags:
        np.testing.assert_allclose(a.lag_covariance, b.lag_covariance, atol=1e-10)
        np.testing.assert_allclose(a.lag_interval, b.lag_interval, atol=1e-8)


def test_equals_the_naive_twin(drifting):
    result = decompose(drifting, num_envs=4)
    individual, covariance = naive.decompose(drifting, 4)
    assert result.individual.value == pytest.approx(individual)
    assert result.covariance.value == pytest.approx(covariance)
    assert result.variance.value == pytest.approx(individual + covariance)
    assert result.ess.value == pytest.approx(4 * 5 * individual / (individual + covariance))
    assert result.grad_sq.value == pytest.approx(naive.squared_mean(drifting.mean(axis=1)))
    np.testing.assert_allclose(result.lag_covariance, naive.lag_covariance(drifting))


def test_gradients_gram_and_sums_agree(drifting):
    expected = decompose(drifting, num_envs=4, seed=3)
    assert_same(decompose_gram(gram_matrix(drifting), 12, 5, num_envs=4, seed=3), expected)
    sums = drifting.sum(axis=1)
    position_gram = sum(drifting[:, t] @ drifting[:, t].T for t in range(5))
    rows = variance.summed_gram_statistics(sums @ sums.T, position_gram, num_steps=5)
    assert_same(decompose_rows(rows, 4, seed=3), expected, lags=False)


def test_chunks_of_rows_agree_with_all_at_once(drifting):
    mask = np.random.default_rng(1).random((12, 5)) < 0.8
    chunks = [slice(0, 5), slice(5, 6), slice(6, 12)]
    sums = [variance.position_sums(drifting[c], mask[c]) for c in chunks]
    positions = sums[0] + sums[1] + sums[2]
    moments = [variance.row_moments(drifting[c], positions, mask[c]) for c in chunks]
    rows = variance.row_statistics(moments, positions.mean)
    assert_same(decompose_rows(rows, 4), decompose(drifting, 4, mask=mask))


def test_float32_gradients_are_summed_in_float64(drifting):
    big = (drifting + 1e3).astype(np.float32)
    assert_same(decompose(big, 4), decompose(big.astype(np.float64), 4))


def test_long_rows_by_fft(drifting, monkeypatch):
    expected = decompose(drifting, 4)
    monkeypatch.setattr(variance, "LONG_ROW", 1)
    assert_same(decompose(drifting, 4), expected)


def test_a_common_gradient_changes_only_its_square(drifting):
    moved, result = decompose(drifting + 7.0, 4), decompose(drifting, 4)
    assert moved.variance.value == pytest.approx(result.variance.value)
    assert moved.covariance.hi == pytest.approx(result.covariance.hi)
    assert moved.grad_sq.value > 100 and moved.grad_sq.resolved


@pytest.mark.parametrize("rho", [0.8, -0.5])
def test_effective_sample_size_of_an_autoregressive_row(rho):
    steps, num_envs = 8, 4
    gradients = autoregressive(np.random.default_rng(3), 2048, steps, 4, rho)
    result = decompose(gradients, num_envs)
    exact = num_envs * steps * steps / lag_sum(rho, steps)
    assert (exact > num_envs * steps) == (rho < 0)
    assert result.ess.lo <= exact <= result.ess.hi
    assert result.ess.value == pytest.approx(exact, rel=0.08)
    assert (result.covariance.hi < 0) if rho < 0 else (result.covariance.lo > 0)
    np.testing.assert_allclose(result.lag_covariance, 4 * rho ** np.arange(steps), atol=0.2)


def test_single_step_rows_have_no_covariance():
    result = decompose(np.random.default_rng(0).normal(size=(64, 1, 3)), num_envs=8)
    assert result.covariance.value == pytest.approx(0, abs=1e-12)
    assert result.ess.value == pytest.approx(8)


def chain_trajectories():
    """Every 4-step trajectory of a sticky 3-state chain: probabilities and gradients [trajectories, 4, 2]."""
    rng = np.random.default_rng(5)
    policy = rng.dirichlet([2, 2], size=3)
    moves = 0.8 * np.eye(3)[:, None] + 0.2 * rng.dirichlet([1, 1, 1], size=(3, 2))
    vectors = rng.normal(size=(3, 2, 2)) + np.arange(3)[:, None, None]
    probabilities, gradients = [], []
    for states in itertools.product(range(3), repeat=4):
        for actions in itertools.product(range(2), repeat=4):
            p = 1 / 3 * np.prod([policy[s, a] for s, a in zip(states, actions)])
            p *= np.prod([moves[states[t], actions[t], states[t + 1]] for t in range(3)])
            probabilities.append(p)
            gradients.append([vectors[s, a] for s, a in zip(states, actions)])
    return np.array(probabilities), np.array(gradients)


@pytest.fixture(scope="module")
def chain():
    """Trajectories with the exact Var(G_B), Term 1, |G|² and lag covariances at N = 2."""
    probabilities, gradients = chain_trajectories()
    assert probabilities.sum() == pytest.approx(1)
    centred = gradients - np.einsum("i,itp->tp", probabilities, gradients)
    products = np.einsum("i,itp,isp->ts", probabilities, centred, centred)
    mean = np.einsum("i,itp->p", probabilities, gradients) / 4
    exact = {
        "variance": products.sum() / (2 * 16),
        "individual": np.trace(products) / (2 * 16),
        "covariance": (products.sum() - np.trace(products)) / (2 * 16),
        "grad_sq": mean @ mean,
    }
    lags = np.array([np.trace(products, k) / (4 - k) for k in range(4)])
    return probabilities, gradients, exact, lags


def test_exact_on_an_enumerated_chain(chain):
    probabilities, gradients, exact, lags = chain
    drawn = np.random.default_rng(0).choice(len(gradients), 2048, p=probabilities)
    result = decompose(gradients[drawn], num_envs=2)
    assert exact["covariance"] > 0.3 * exact["variance"]
    for name, value in exact.items():
        estimate = getattr(result, name)
        assert estimate.lo <= value <= estimate.hi, name
        assert estimate.hi - estimate.lo < 0.4 * value, name
    assert np.all((result.lag_interval[:, 0] <= lags) & (lags <= result.lag_interval[:, 1]))


def test_unbiased_with_few_rows(chain):
    probabilities, gradients, exact, lags = chain
    rng = np.random.default_rng(1)
    values, lag_values = [], []
    for _ in range(600):
        rows = variance.gradient_statistics(gradients[rng.choice(len(gradients), 4, p=probabilities)])
        total, individual = rows.row_terms.mean() / 32, rows.individual_terms.mean() / 32
        grad_sq = rows.mean_sq - total * 2 / 4
        values.append([total, individual, total - individual, grad_sq])
        lag_values.append(rows.lag_terms.mean(axis=0))
    for measured, truth in ((np.array(values), list(exact.values())), (np.array(lag_values), lags)):
        error = measured.std(axis=0) / np.sqrt(len(measured))
        assert np.all(np.abs(measured.mean(axis=0) - truth) < 4 * error)


def test_masked_samples_do_not_count(drifting):
    rng = np.random.default_rng(1)
    mask = rng.random((12, 5)) < 0.7
    spoilt = np.where(mask[:, :, None], drifting, np.nan)
    result = decompose(spoilt, 4, mask=mask)
    expected, gradient = naive.masked_variance(drifting, mask, 4)
    assert result.variance.value == pytest.approx(expected)
    noise = expected * 4 / 12
    assert result.grad_sq.value == pytest.approx(gradient @ gradient - noise)
    assert result.num_masked == np.sum(~mask)
    assert_same(decompose(drifting, 4, mask=np.ones((12, 5))), decompose(drifting, 4))


def test_lag_covariances_of_masked_rows_add_up_to_the_variance(drifting):
    gradients = np.asarray(drifting)
    mask = np.random.default_rng(4).random(gradients.shape[:2]) < 0.3
    found, num_steps = decompose(gradients, num_envs=3, mask=mask), gradients.shape[1]
    taper = 2 * (1 - np.arange(num_steps) / num_steps)
    taper[0] = 1
    assert taper @ found.lag_covariance / (3 * num_steps) == pytest.approx(found.variance.value, rel=1e-6)


def test_masked_variance_is_that_of_the_ratio():
    """Batches drawn with random masks: the variance of their ratio means is the predicted one."""
    rng = np.random.default_rng(2)
    gradients = rng.normal(size=(2, 20000, 3, 2)) * np.array([1.0, 2.0, 3.0])[:, None] + 1.0
    mask = rng.random((20000, 3)) < np.array([0.9, 0.5, 0.7])
    batches = (gradients[0] * mask[:, :, None]).reshape(500, 40, 3, 2).sum(axis=(1, 2))
    ratios = batches / mask.reshape(500, 40, 3).sum(axis=(1, 2))[:, None]
    measured = ratios.var(axis=0, ddof=1).sum()
    predicted = decompose(gradients[0, :2000], 40, mask=mask[:2000]).variance.value
    assert predicted == pytest.approx(measured, rel=0.15)


def test_carried_rows_are_centred_per_environment():
    rng = np.random.default_rng(4)
    offsets = 10 * rng.normal(size=(6, 1, 1))
    gradients = autoregressive(rng, 9 * 6, 4, 3, 0.5).reshape(9, 6, 4, 3) + offsets
    result = decompose_carry(gradients)
    total, individual = naive.carry(gradients)
    assert result.variance.value == pytest.approx(total)
    assert result.individual.value == pytest.approx(individual)
    assert result.variance.value < 0.1 * decompose(gradients.reshape(54, 4, 3), 6).variance.value
    mean = gradients.mean(axis=(0, 1, 2))
    assert result.grad_sq.value == pytest.approx(mean @ mean - total / 9)
    assert result.variance.lo < total < result.variance.hi < 3 * total
    with pytest.raises(ValueError, match="replicates: 7"):
        decompose_carry(gradients[:7])


def test_carry_interval_covers():
    rng = np.random.default_rng(6)
    offsets = 10 * rng.normal(size=(16, 1, 1))
    exact = 2 * lag_sum(0.5, 3) / (16 * 9)
    found = [
        decompose_carry(autoregressive(rng, 8 * 16, 3, 2, 0.5).reshape(8, 16, 3, 2) + offsets, seed=i).variance
        for i in range(120)
    ]
    assert 0.88 < np.mean([e.lo <= exact <= e.hi for e in found]) < 0.995


@pytest.mark.parametrize("shape", [(1, 3, 2), (4, 3), (0, 3, 2)])
def test_refuses_what_has_no_variance(shape):
    with pytest.raises(ValueError, match="rows"):
        decompose(np.ones(shape), 2)


def test_refuses_what_is_not_finite():
    with pytest.raises(ValueError, match="finite"):
        decompose(np.full((4, 3, 2), np.nan), 2)


def test_few_rows_resolve_nothing():
    result = decompose(np.random.default_rng(0).normal(size=(4, 3, 2)), 2)
    assert not result.variance.resolved and not result.covariance.resolved


def test_constant_gradients_have_no_variance():
    result = decompose(np.ones((16, 3, 2)), 2)
    assert (result.variance.value, result.variance.hi) == (0, 0)
    assert result.grad_sq.value == pytest.approx(2) and not result.ess.resolved


@pytest.mark.parametrize("heavy", [False, True])
def test_intervals_cover(heavy):
    rng = np.random.default_rng(7)
    mean = np.array([0.1, -0.05, 0.0])
    exact = {"variance": 3 * lag_sum(0.5, 2) / 16, "individual": 6 / 16, "grad_sq": mean @ mean}
    exact["covariance"] = exact["variance"] - exact["individual"]
    exact["ess"] = 8 * exact["individual"] / exact["variance"]
    hits = {name: [] for name in exact}
    for seed in range(120):
        scale = np.exp(0.6 * rng.normal(size=(512, 1, 1)) - 0.36) if heavy else 1.0
        result = decompose(autoregressive(rng, 512, 2, 3, 0.5, scale) + mean, num_envs=4, seed=seed)
        for name, value in exact.items():
            estimate = getattr(result, name)
            hits[name].append(estimate.lo <= value <= estimate.hi)
    for name, hit in hits.items():
        assert 0.88 <= np.mean(hit) <= 0.995, (name, np.mean(hit))


def test_gradients_that_are_all_zero_resolve_nothing():
    """A policy that met no reward: its variance of 0 is not an estimate."""
    result = decompose(np.zeros((16, 3, 2)), 2)
    assert not result.variance.resolved and not result.covariance.resolved and not result.ess.resolved


@pytest.mark.parametrize("seed", range(12))
def test_few_sparse_rows_give_an_interval_or_none(seed):
    """Resampled means can be negative, whose logarithm is no number: then nothing is claimed, and no NaN is."""
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(8, 4, 3)) * (rng.random((8, 1, 1)) < 0.3) * 10
    with np.errstate(all="raise", under="ignore"):
        result = decompose(gradients, 2)
    for estimate in (result.variance, result.individual, result.ess):
        assert not estimate.resolved or np.isfinite([estimate.lo, estimate.hi]).all()


def test_one_step_has_no_covariance():
    result = decompose(np.random.default_rng(0).normal(size=(64, 1, 5)), 4)
    assert (result.covariance.value, result.covariance.lo, result.covariance.hi) == (0, 0, 0)


def test_what_cannot_be_decomposed_is_refused_in_words():
    gradients = np.ones((8, 2, 3))
    with pytest.raises(ValueError, match="num_envs"):
        decompose(gradients, 0)
    with pytest.raises(ValueError, match="no sample is valid"):
        decompose(gradients, 2, mask=np.zeros((8, 2), bool))
