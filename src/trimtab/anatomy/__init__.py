"""What the gradient of a batch is made of, from gradients of any program. Needs NumPy and SciPy; never imports JAX.

| you have | use |
|---|---|
| per-sample gradients of independent rows, `[rows, T, P]` | `decompose`, `noise_scale` |
| whole iterations of one policy, K of N rows | `decompose(..., iterations=K)`, which adds the term between rows |
| inner products of all samples | `decompose_gram` |
| rows that start from a run's own states, `[replicates, N, T, P]` | `decompose_carry` |
| iterations of training, one after the other | `IterationStream` |
| gradients too long to keep | `sketch`, then any of the above and `with_sketch_error` |
| completions of prompts, or other samples in groups | `groups` |
| paired differences to a reference | `bias_sq`, `mse` |

A row is the T samples of one environment. `gradient_statistics` and its siblings compute what all estimators share:
pass the result to `decompose_rows`, `noise_scale` and `mse`.
"""

from __future__ import annotations

from trimtab.core.estimate import Estimate
from trimtab.gradient.bias import bias_sq, mse, squared_norm_of_mean
from trimtab.gradient.correlation import cosine_correlation, covariance_correlation, gram_matrix
from trimtab.gradient.groups import GroupError, Groups, groups
from trimtab.gradient.noise import NoiseScale, noise_scale, predict_variance, split_blocks, subsampling_variance
from trimtab.gradient.sketches import sketch, with_sketch_error
from trimtab.gradient.streams import IterationStream, Pooled, pooled_statistics
from trimtab.gradient.variance import (
    Decomposition,
    IterationStatistics,
    RowStatistics,
    carry_statistics,
    decompose,
    decompose_carry,
    decompose_gram,
    decompose_rows,
    gradient_statistics,
    gram_statistics,
    iteration_statistics,
    summed_gram_statistics,
)

__all__ = [
    "Decomposition",
    "Estimate",
    "GroupError",
    "Groups",
    "IterationStatistics",
    "IterationStream",
    "NoiseScale",
    "Pooled",
    "RowStatistics",
    "bias_sq",
    "carry_statistics",
    "cosine_correlation",
    "covariance_correlation",
    "decompose",
    "decompose_carry",
    "decompose_gram",
    "decompose_rows",
    "gradient_statistics",
    "gram_matrix",
    "gram_statistics",
    "groups",
    "iteration_statistics",
    "mse",
    "noise_scale",
    "pooled_statistics",
    "predict_variance",
    "sketch",
    "split_blocks",
    "squared_norm_of_mean",
    "subsampling_variance",
    "summed_gram_statistics",
    "with_sketch_error",
]
