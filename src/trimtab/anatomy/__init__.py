"""Gradient anatomy: what the gradient of a batch is made of. Names load their module when first used."""

from __future__ import annotations

from importlib import import_module

_HOME = {
    "Estimate": "trimtab.estimate",
    "Decomposition": "trimtab.anatomy.variance",
    "decompose": "trimtab.anatomy.variance",
    "decompose_carry": "trimtab.anatomy.variance",
    "decompose_gram": "trimtab.anatomy.variance",
    "decompose_rows": "trimtab.anatomy.variance",
    "NoiseScale": "trimtab.anatomy.noise",
    "noise_scale": "trimtab.anatomy.noise",
    "predict_variance": "trimtab.anatomy.noise",
    "split_blocks": "trimtab.anatomy.noise",
    "subsampling_variance": "trimtab.anatomy.noise",
    "bias_sq": "trimtab.anatomy.bias",
    "mse": "trimtab.anatomy.bias",
    "squared_norm_of_mean": "trimtab.anatomy.bias",
    "cosine_correlation": "trimtab.anatomy.correlation",
    "covariance_correlation": "trimtab.anatomy.correlation",
    "gram_matrix": "trimtab.anatomy.correlation",
}

__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
