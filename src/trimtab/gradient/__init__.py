"""Gradient anatomy: what the gradient of a batch is made of. Names load their module when first used."""

from __future__ import annotations

from importlib import import_module

_HOME = {
    "Estimate": "trimtab.core.estimate",
    "Decomposition": "trimtab.gradient.variance",
    "decompose": "trimtab.gradient.variance",
    "decompose_carry": "trimtab.gradient.variance",
    "decompose_gram": "trimtab.gradient.variance",
    "decompose_rows": "trimtab.gradient.variance",
    "NoiseScale": "trimtab.gradient.noise",
    "noise_scale": "trimtab.gradient.noise",
    "predict_variance": "trimtab.gradient.noise",
    "split_blocks": "trimtab.gradient.noise",
    "subsampling_variance": "trimtab.gradient.noise",
    "bias_sq": "trimtab.gradient.bias",
    "mse": "trimtab.gradient.bias",
    "squared_norm_of_mean": "trimtab.gradient.bias",
    "cosine_correlation": "trimtab.gradient.correlation",
    "covariance_correlation": "trimtab.gradient.correlation",
    "gram_matrix": "trimtab.gradient.correlation",
}

__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
