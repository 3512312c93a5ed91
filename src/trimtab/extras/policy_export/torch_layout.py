"""Weights as PyTorch lays them out: dense [outputs, inputs], convolutions [outputs, inputs, 3, 3]."""

from __future__ import annotations

import json

import numpy as np

_HEADER = ("obs.shape", "obs.parts", "strides", "choices", "switches")  # whole numbers that say what a module is


def to_torch(weights: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Tensors by the names of standalone_torch.Policy's state_dict, and the header of the file."""
    left_out = (*_HEADER, "activation")
    tensors = {_renamed(name): _turned(value) for name, value in weights.items() if name not in left_out}
    header = {_renamed(name): json.dumps(weights[name].tolist()) for name in _HEADER if name in weights}
    return tensors, {"activation": str(weights["activation"]), **header}


def from_torch(tensors: dict[str, np.ndarray], header: dict[str, str]) -> dict[str, np.ndarray]:
    """The way back, to check a file where PyTorch is not installed."""
    weights = {_named(name): _turned_back(value) for name, value in tensors.items()}
    weights |= {n: np.array(json.loads(header[_renamed(n)]), np.int64) for n in _HEADER if _renamed(n) in header}
    weights["activation"] = np.asarray(header["activation"])
    return weights


def _renamed(name: str) -> str:
    return name.replace("obs.", "obs_")


def _named(name: str) -> str:
    return name.replace("obs_", "obs.")


def _turned(value: np.ndarray) -> np.ndarray:
    axes = {2: (1, 0), 4: (3, 2, 0, 1)}.get(value.ndim)
    return np.ascontiguousarray(value.transpose(axes)) if axes else np.asarray(value)


def _turned_back(value: np.ndarray) -> np.ndarray:
    axes = {2: (1, 0), 4: (2, 3, 1, 0)}.get(value.ndim)
    return np.ascontiguousarray(value.transpose(axes)) if axes else value
