"""Policies of other libraries where they lie: weights, normalizers and hyperparameters out of files and live objects.

What is pickled is read by PyTorch with `weights_only`, which runs nothing, or not at all.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from trimtab.config import ConfigError
from trimtab.core import reading
from trimtab.core.errors import MissingPackage, UnreadableFile
from trimtab.libraries import LIBRARIES, rsl_rl_log, skrl_log, translation_rules
from trimtab.libraries.sb3_log import said_by_model
from trimtab.libraries.translation_rules import NoCounterpart, Translated

# Classes of torch.nn that may stand between layers.
FUNCTIONS = {"Tanh", "ReLU", "ELU", "SiLU", "GELU", "LeakyReLU", "SELU", "CELU", "Softplus", "Sigmoid", "Mish", "PReLU"}
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


def hyperparameters_of(policy: Any, library: str) -> dict[str, Any]:
    """What a policy says of its training, by the names there: itself, or what lies beside its file."""
    if isinstance(policy, str | PathLike):
        return _beside(Path(policy), library)
    values: dict[str, Any] = {
        name: value
        for name in LIBRARIES[library].rules
        if isinstance(value := getattr(policy, name, None), int | float)
    }
    if total := getattr(policy, "_total_timesteps", 0):
        values["total_timesteps"] = total
    for name, attribute in (("learning_rate", "lr_schedule"), ("clip_range",) * 2, ("clip_range_vf",) * 2):
        if callable(schedule := getattr(policy, attribute, None)):
            values[name] = f"{'lin_' if schedule(0.0) < 0.5 * schedule(1.0) else ''}{float(schedule(1.0))!r}"
    return values


def _beside(file: Path, library: str) -> dict[str, Any]:
    with reading.interpreting(file):
        if library == "sb3":
            return said_by_model(file)[0]
        if library == "rsl_rl":
            return rsl_rl_log.hyperparameters_in(file.parent)
        return skrl_log.hyperparameters_in(file.parent) if library == "skrl" else {}


def activation_of(policy: Any) -> str | None:
    """The function between a live module's layers, under its name here; what is none of ours is refused."""
    module = getattr(policy, "policy", policy)
    function = getattr(module, "activation_fn", None)
    names = {function.__name__} if function else set()
    if not names and callable(modules := getattr(module, "modules", None)):
        names = {type(part).__name__ for part in modules()} & FUNCTIONS
    if not names:
        return None
    translated, name = Translated(), ", ".join(sorted(names))
    try:
        translation_rules.activation(name, translated)
    except NoCounterpart as why:
        raise ConfigError("activation", name, str(why)) from None
    return translated.fields["activation"]


def read(field: str, source: str | PathLike[str]) -> Any:
    """What a file of weights or statistics holds."""
    path = Path(source)
    if path.suffix == ".pkl":
        raise ConfigError(field, str(path), PICKLED)
    try:
        if path.suffix == ".npz":
            return reading.read_npz_arrays(path)
        if path.suffix == ".safetensors":
            return reading.read_safetensors(path)
        return _of_torch(path)
    except MissingPackage:
        raise
    except UnreadableFile as error:
        problem = f"holds no weights that can be read without running what is in it: {error}"
        raise ConfigError(field, str(path), problem) from None
    except Exception:  # whatever a damaged file makes of a reader
        problem = "holds no weights that can be read without running what is in it"
        raise ConfigError(field, str(path), problem) from None


def _of_torch(path: Path) -> Any:
    content = reading.read_bytes(path)
    if not content.startswith((b"PK", b"\x80")):  # an archive, or a pickle of before PyTorch 1.6
        raise ValueError("not of PyTorch")
    try:
        import torch
    except ImportError:
        problem = "files of PyTorch: pip install 'trimtab[torch]', or save the state_dict as .safetensors or .npz"
        raise MissingPackage(problem) from None
    if path.suffix == ".zip":
        content = reading.read_zip_member(path, "policy.pth", reading.MOST_BINARY) or b""
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
