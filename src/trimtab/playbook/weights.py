"""Policies of other libraries where they lie: weights, normalizers and hyperparameters out of files and live objects.

What is pickled is read by PyTorch with `weights_only`, which runs nothing, or not at all.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.config import ConfigError
from trimtab.playbook.libraries.sb3 import LIBRARY as SB3
from trimtab.playbook.logs import rsl_rl
from trimtab.playbook.logs.sb3 import said_by_model
from trimtab.runs.sinks import MissingPackage

PICKLED = (
    "is pickled, and opening it would run what it holds; load it where you trust it and hand it over in Python "
    "(normalizer=VecNormalize.load(...)), or save obs_mean, obs_var and reward_var as .npz"
)


def weights_of(policy: Any) -> Mapping[str, Any]:
    """Weights by name: of a mapping, a module, a model that has one, or a file."""
    if isinstance(policy, str | PathLike):
        policy = read("policy", policy)
    if isinstance(policy, Mapping):
        return policy
    for module in (getattr(policy, "policy", None), policy):
        if callable(state_dict := getattr(module, "state_dict", None)):
            return state_dict()
    raise ConfigError("policy", type(policy).__name__, "must be a model, a module, a state_dict or a file of one")


def hyperparameters_of(policy: Any) -> dict[str, Any]:
    """What a policy says of its training: a model of Stable-Baselines3, or what lies beside a file of rsl_rl."""
    if isinstance(policy, str | PathLike):
        file = Path(policy)
        return said_by_model(file)[0] if file.suffix == ".zip" else rsl_rl.hyperparameters_in(file.parent)
    if not hasattr(policy, "clip_range"):
        return {}
    values: dict[str, Any] = {
        name: value for name in SB3.rules if isinstance(value := getattr(policy, name, None), int | float)
    }
    for name, schedule in (("learning_rate", "lr_schedule"), ("clip_range", "clip_range")):
        if callable(value := getattr(policy, schedule, None)):
            values[name] = float(value(1.0))
    activation = getattr(getattr(policy, "policy", None), "activation_fn", None)
    return values | ({"policy_kwargs": f"dict(activation_fn=nn.{activation.__name__})"} if activation else {})


def read(field: str, source: str | PathLike[str]) -> Any:
    """What a file of weights or statistics holds."""
    path = Path(source)
    if path.suffix == ".pkl":
        raise ConfigError(field, str(path), PICKLED)
    try:
        if path.suffix == ".npz":
            return dict(np.load(path, allow_pickle=False))
        if path.suffix == ".safetensors":
            from safetensors.numpy import load

            return load(path.read_bytes())
        return _of_torch(path)
    except MissingPackage:
        raise
    except OSError as error:
        raise ConfigError(field, str(path), error.strerror or "cannot be read") from None
    except Exception:  # whatever a damaged file makes of a reader
        problem = "holds no weights that can be read without running what is in it"
        raise ConfigError(field, str(path), problem) from None


def _of_torch(path: Path) -> Any:
    content = path.read_bytes()
    try:
        import torch
    except ImportError:
        problem = "files of PyTorch: pip install 'trimtab[torch]', or save the state_dict as .safetensors or .npz"
        raise MissingPackage(problem) from None
    if path.suffix == ".zip":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            content = archive.read("policy.pth")
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
