"""Gradient anatomy: what the gradient of a batch is made of. Names load their module when first used."""

from __future__ import annotations

from importlib import import_module

_HOME = {
    "Estimate": "estimate",
    "Decomposition": "variance",
    "decompose": "variance",
    "decompose_carry": "variance",
    "decompose_gram": "variance",
    "decompose_rows": "variance",
    "NoiseScale": "noise",
    "noise_scale": "noise",
    "predict_variance": "noise",
    "split_blocks": "noise",
    "subsampling_variance": "noise",
    "bias_sq": "bias",
    "mse": "bias",
    "squared_norm_of_mean": "bias",
    "cosine_correlation": "correlation",
    "covariance_correlation": "correlation",
    "gram_matrix": "correlation",
}

__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
