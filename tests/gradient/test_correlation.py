import naive
import numpy as np
import pytest

from trimtab.gradient import correlation
from trimtab.gradient.correlation import gram_matrix


@pytest.fixture
def batch():
    """Gradients [4, 6, 3], episodes that end inside rows, masked samples, and one gradient that is zero."""
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(4, 6, 3)) + rng.normal(size=(4, 1, 3)) + 0.5
    gradients[1, 2] = 0.0
    episode = np.array([[0] * 6, [1, 1, 1, 2, 2, 2], [3, 4, 4, 4, 4, 5], [6] * 4 + [7] * 2])
    valid = np.ones((4, 6), dtype=bool)
    valid[2, 3] = valid[3, 4] = False
    return gradients, episode, valid


def test_cosine_correlation_equals_the_naive_twin(batch):
    gradients, episode, valid = batch
    result = correlation.cosine_correlation(gram_matrix(gradients), episode, valid)
    within, across = naive.cosine_correlation(gradients, episode, valid)
    assert result.num_left_out == 1
    assert [d.num_pairs for d in result.lags] == [len(within.get(k, [])) for k in range(1, 6)]
    for lag, values in within.items():
        np.testing.assert_allclose(np.sort(result.lags[lag - 1].values), np.sort(values), atol=1e-9)
        assert result.lags[lag - 1].mean == pytest.approx(np.mean(values))
    np.testing.assert_allclose(np.sort(result.across.values), np.sort(across), atol=1e-9)
    np.testing.assert_allclose(result.across.quantiles, np.quantile(across, correlation.QUANTILES), atol=1e-9)


def test_covariance_correlation_equals_the_naive_twin(batch):
    gradients, episode, valid = batch
    result = correlation.covariance_correlation(gram_matrix(gradients), episode, valid)
    within, across = naive.covariance_correlation(gradients, episode, valid)
    np.testing.assert_allclose(result.lags, [within.get(k, np.nan) for k in range(6)], atol=1e-9)
    assert result.lags[0] == pytest.approx(1)
    assert result.across == pytest.approx(across)


def test_what_stands_at_masked_samples_is_never_seen(batch):
    gradients, episode, valid = batch
    spoilt = gram_matrix(np.where(valid[:, :, None], gradients, np.nan))
    for function in (correlation.cosine_correlation, correlation.covariance_correlation):
        clean, dirty = function(gram_matrix(gradients), episode, valid), function(spoilt, episode, valid)
        assert str(clean) == str(dirty)


def test_pairs_of_different_episodes_are_not_pairs():
    """Each sample is an episode of its own, with signs that alternate: no lag has a pair."""
    gradients = np.array([1.0, -1.0, 1.0, -1.0])[None, :, None] * np.array([1.0, 0.5, 2.0])[:, None, None]
    episode = np.arange(12).reshape(3, 4)
    result = correlation.cosine_correlation(gram_matrix(gradients), episode)
    assert [d.num_pairs for d in result.lags] == [0, 0, 0]
    whole = correlation.cosine_correlation(gram_matrix(gradients), np.zeros((3, 4), int))
    assert [d.mean for d in whole.lags] == pytest.approx([-1, 1, -1])


def test_across_environments_the_mean_inner_product_is_minus_the_variance():
    """Independent samples: E[(g_i − ḡ)·(g_j − ḡ)] = −Var(G_B)."""
    rng = np.random.default_rng(1)
    gradients = rng.normal(size=(300, 8, 2, 3))
    centred = gradients - gradients.mean(axis=(1, 2), keepdims=True)
    pairs = np.einsum("rntp,rmsp->rnm", centred, centred)[:, ~np.eye(8, dtype=bool)].mean() / 4
    assert pairs == pytest.approx(-3 / 16, rel=0.05)
    baseline = [
        correlation.cosine_correlation(gram_matrix(g), np.zeros((8, 2), int)).across.mean for g in gradients[:100]
    ]
    assert np.mean(baseline) == pytest.approx(-1 / 15, rel=0.25)


def test_kept_values_are_a_seeded_choice(batch, monkeypatch):
    gradients, episode, valid = batch
    monkeypatch.setattr(correlation, "MAX_VALUES", 20)
    first, again, other = (
        correlation.cosine_correlation(gram_matrix(gradients), episode, valid, seed).across for seed in (0, 0, 1)
    )
    assert len(first.values) == 20 < first.num_pairs
    assert first.values.tolist() == again.values.tolist() != other.values.tolist()
    assert first.mean == other.mean


def test_trajectory_alignment_equals_the_naive_twin(batch):
    gradients, episode, valid = batch
    result = correlation.trajectory_alignment(gram_matrix(gradients), episode, valid)
    expected = naive.trajectory_alignment(gradients, episode, valid)
    assert set(zip(*np.nonzero(~np.isnan(result.cosine)))) == set(expected)
    for index, value in expected.items():
        assert result.cosine[index] == pytest.approx(value)
    assert result.step[1].tolist() == [0, 1, 2, 0, 1, 2]
    assert result.num_left_out == 1


def test_alignment_with_batch_means(batch):
    gradients, _, valid = batch
    other = np.random.default_rng(2).normal(size=gradients.shape)
    both, mask = np.stack([gradients, other]), np.stack([valid, np.ones_like(valid)])
    gram = gram_matrix(both)
    means = np.stack([gradients[valid].mean(axis=0), other.mean(axis=(0, 1))])
    cosines = correlation.replicate_cosines(gram, 2, mask)
    assert cosines[0, 1] == pytest.approx(naive.cosine(*means)) and cosines[1, 1] == pytest.approx(1)
    vectors = gradients.reshape(-1, gradients.shape[-1])
    squares = (vectors**2).sum(1)
    aligned = correlation.alignment(vectors @ means.T, squares, means, valid.reshape(-1)).reshape(2, 4, 6)
    assert np.isnan(aligned[:, 1, 2]).all() and np.isnan(aligned[:, 2, 3]).all()
    for j in range(2):
        assert aligned[j, 0, 3] == pytest.approx(naive.cosine(gradients[0, 3], means[j]))


def test_refuses_shapes_that_do_not_belong_together(batch):
    gradients, episode, _ = batch
    with pytest.raises(ValueError, match="gram"):
        correlation.cosine_correlation(gram_matrix(gradients), episode[:2])
    with pytest.raises(ValueError, match="num_replicates"):
        correlation.replicate_cosines(gram_matrix(gradients), 5)
