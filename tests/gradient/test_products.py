"""Inner products held as rows or as a matrix are the same, and what cannot fit in memory is refused."""

import numpy as np
import pytest

from trimtab.config import ConfigError
from trimtab.gradient import inner_products, probe_memory
from trimtab.gradient.inner_products import Products


@pytest.mark.parametrize("width", [3, 50])
def test_products_are_those_of_the_matrix(width, monkeypatch):
    monkeypatch.setattr(inner_products, "BLOCK", 5 * width)  # blocks of five rows
    rows = np.random.default_rng(0).normal(size=(17, width))
    gram, found = 4 * rows @ rows.T, Products.of(rows).scaled(2.0)
    assert (found.matrix is None) == (width < 17) and len(found) == 17
    np.testing.assert_allclose(found.diagonal, np.diagonal(gram))
    weights = np.random.default_rng(1).normal(size=(6, 17))
    np.testing.assert_allclose(found.times(weights), weights @ gram)
    np.testing.assert_allclose(found.times(weights[0]), weights[0] @ gram)
    assert found.sum_of_squares == pytest.approx(np.sum(gram**2))


def test_many_short_rows_need_no_matrix():
    """256 × 4 with 256 replicates of a small network: the matrix alone would be 34 GB."""
    assert probe_memory.needed(65_536, 4, 4610, bias=True) < 12e9
    assert 8 * 65_536**2 > 34e9


def test_what_cannot_fit_is_refused_with_what_can():
    with pytest.raises(ConfigError, match=r"replicates=256: 65,536 rows .* 1 GB .*; nearest: \d+") as refused:
        probe_memory.refuse_what_cannot_fit(256, 256, 4, 4610, True, available=10**9)
    near = int(str(refused.value).rsplit(" ", 1)[1])
    probe_memory.refuse_what_cannot_fit(near, 256, 4, 4610, True, available=10**9)
    with pytest.raises(ConfigError):
        probe_memory.refuse_what_cannot_fit(near + 1, 256, 4, 4610, True, available=10**9)
    with pytest.raises(ConfigError, match="num_envs=1000000"):
        probe_memory.refuse_what_cannot_fit(2, 10**6, 4, 4610, True, available=10**9)
