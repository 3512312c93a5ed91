"""Policies of other libraries: their weights under the names they have here, and how they see observations. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.config import ConfigError
from trimtab.libraries import LIBRARIES
from trimtab.libraries.common.foreign_options import Values
from trimtab.libraries.common.library import Library, NetworkNames

Array = NDArray[Any]
Arrays = dict[str, Array]
RSL_RL_EPSILON = 1e-2  # added to deviations of observations there
SKRL_CLIP = 5.0
REWARD_SCALING = ("norm_reward_gamma", "clip_reward")
LEAST_STD = 1e-6  # as rsl_rl has it
BESIDE = ("optimizer", "optimizer_state_dict", "scaler", "rnd_state_dict", "rnd_optimizer_state_dict")  # of training
UNBOUNDED = 1e6  # a clip that nothing reaches
COUNT = 1e6  # samples that statistics are taken to rest on where nobody says
PREFIXES = ("policy.", "model_state_dict.")  # of a model that holds more than its policy


# How observations are seen ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Observed:
    """How a policy sees observations: (x − mean) / √variance, clipped; and the variance that rewards are scaled by."""

    mean: Array | None = None
    variance: Array | None = None
    clip: float = 10.0
    reward_variance: float | None = None
    count: float = COUNT
    reward_scaling: dict[str, float] = field(default_factory=dict)  # fields here, where rewards are scaled

    @property
    def fields(self) -> Values:
        """The fields here that follow from it."""
        clip = {"clip_obs": self.clip} if self.mean is not None else {}
        scaled = {"norm_reward": self.reward_variance is not None, **self.reward_scaling}
        return {"norm_obs": self.mean is not None, **clip, **scaled}

    def tensors(self) -> Arrays:
        """The normalizers of a checkpoint, by name."""
        tensors: Arrays = {}
        if self.mean is not None and self.variance is not None:
            tensors |= self.moments("state.obs_stats", self.mean, self.variance)
        if self.reward_variance is not None:
            tensors |= self.moments("state.reward_scale.stats", np.zeros(()), np.asarray(self.reward_variance))
        return tensors

    def moments(self, prefix: str, mean: Array, variance: Array) -> Arrays:
        """Statistics as a checkpoint has them: a count, a mean and a sum of squared deviations."""
        parts = {"count": np.asarray(self.count), "mean": mean, "deviation": self.count * variance}
        return {f"{prefix}.{name}": np.asarray(part, np.float32) for name, part in parts.items()}


def observed_by(normalizer: Any) -> Observed:
    """What a normalizer knows.

    Args:
        normalizer: Stable-Baselines3's VecNormalize, or a mapping with obs_mean, obs_var and reward_var.

    Returns:
        Its statistics; what cannot be used is refused.
    """
    if isinstance(normalizer, Mapping):
        names = {"obs_mean", "obs_var", "reward_var", "clip_obs", *REWARD_SCALING}
        if not normalizer.keys() or normalizer.keys() - names:
            shown = ", ".join(map(str, normalizer)) or "nothing"
            raise ConfigError("normalizer", shown, f"must hold some of {', '.join(sorted(names))}")
        values = dict(normalizer)
    elif hasattr(normalizer, "ret_rms"):
        values = _of_vecnormalize(normalizer)
    else:
        problem = "must be a VecNormalize, or a mapping (.npz) with obs_mean, obs_var and reward_var"
        raise ConfigError("normalizer", type(normalizer).__name__, problem)
    if ("obs_mean" in values) != ("obs_var" in values):
        raise ConfigError("normalizer", "obs_mean or obs_var", "has no meaning without the other")
    arrays = {name: _number(name, value) for name, value in values.items()}
    mean, variance, reward = (arrays.get(name) for name in ("obs_mean", "obs_var", "reward_var"))
    clip, count = (float(arrays.get(name, usual)) for name, usual in (("clip_obs", Observed.clip), ("count", COUNT)))
    scaling = {name: float(arrays[name]) for name in REWARD_SCALING if name in arrays and reward is not None}
    return Observed(mean, variance, clip, None if reward is None else float(reward), max(2.0, count), scaling)


def _of_vecnormalize(normalizer: Any) -> Values:
    values: Values = {}
    if normalizer.norm_reward:
        values = {"reward_var": normalizer.ret_rms.var}
        values |= {"norm_reward_gamma": normalizer.gamma, "clip_reward": normalizer.clip_reward}
    if not normalizer.norm_obs:
        return values
    statistics = normalizer.obs_rms
    if isinstance(statistics, dict):
        raise ConfigError(
            "normalizer", type(normalizer).__name__, "normalizes several observations; trimtab supports one"
        )
    about = {"clip_obs": normalizer.clip_obs, "count": statistics.count}
    return values | about | {"obs_mean": statistics.mean, "obs_var": statistics.var}


def _number(name: str, value: Any) -> Array:
    """Statistics as numbers that can be ones."""
    try:
        array = np.asarray(value, np.float32)
    except (TypeError, ValueError):
        raise ConfigError("normalizer", f"{name}={value!r:.40}", "must be numbers") from None
    if not np.isfinite(array).all() or (name.endswith("var") and (array < 0).any()):
        raise ConfigError("normalizer", name, "must be finite, and variances not negative")
    if not name.startswith("obs") and array.size != 1:
        raise ConfigError("normalizer", name, "must be one number")
    return array if name.startswith("obs") else array.reshape(())


# Networks ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Networks:
    """Networks of another library under the names they have here."""

    library: Library
    hidden_sizes: tuple[int, ...]
    policy: Arrays
    value: Arrays
    observed: Observed
    values: Observed  # the units of the critic's outputs

    def tensors(self) -> Arrays:
        """The parameters of a checkpoint, by name."""
        networks = {"policy": self.policy, "value": self.value}
        tensors = {f"params.{name}.{path}": array for name, parts in networks.items() for path, array in parts.items()}
        if self.values.mean is None or self.values.variance is None:
            return tensors
        return tensors | self.values.moments("state.value_stats", self.values.mean[0], self.values.variance[0])


def networks_of(weights: Mapping[str, Any]) -> Networks:
    """The networks of a policy that another library trained.

    Args:
        weights: by name: a state_dict, or several in one mapping.

    Returns:
        Their layers here. Weights that would be forgotten, or that are not of dense networks, are refused.
    """
    arrays = {_bare(name): array for name, array in _flat(weights, "")}
    library, names = _recognized(arrays)
    policy, widths = _network(arrays, names.policy, names.policy_head)
    value, other = _network(arrays, names.value, names.value_head)
    _refuse_unusable(arrays, library, names)
    if widths != other:
        problem = f"the policy has layers of {list(widths)}, the critic of {list(other)}; in trimtab both have the same"
        raise ConfigError("policy", library.title, problem)
    policy |= _deviation(arrays, library, names, outputs=len(policy["head.bias"]))
    observed = _observed(arrays, names.observed)
    value |= _in_terms_of(value, _observed(arrays, names.observed_by_critic), observed)
    return Networks(library, widths, policy, value, observed, _observed(arrays, (names.values,)))


def _flat(weights: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Array]]:
    """Every array with its name, also in mappings within; what is no array (counters, an optimizer) is left out."""
    for name, value in weights.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif hasattr(value, "shape"):
            array = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
            yield f"{prefix}{name}", array.astype(np.float32)


def _bare(name: str) -> str:
    return next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), name)


def _recognized(arrays: Arrays) -> tuple[Library, NetworkNames]:
    """The library whose names these are; of several, the one whose names explain most."""
    known = [(library, names) for library in LIBRARIES.values() for names in library.networks]
    candidates = [(library, names) for library, names in known if _has_layers(arrays, names)]
    if not candidates:
        titles = ", ".join(dict.fromkeys(library.title for library, _ in known))
        shown = ", ".join(list(arrays)[:4]) or "nothing"
        raise ConfigError("policy", shown, f"these are not the names of a dense policy of {titles}")
    return min(candidates, key=lambda candidate: len(_unexplained(arrays, candidate[1])))


def _has_layers(arrays: Arrays, names: NetworkNames) -> bool:
    heads = [f"{head}.weight" for head in (names.policy_head, names.value_head) if head]
    layers = heads or [f"{network}.0.weight" for network in (names.policy, names.value)]
    spread = names.std + names.log_std
    return all(name in arrays for name in layers) and (not names.needs_spread or any(n in arrays for n in spread))


def _unexplained(arrays: Arrays, names: NetworkNames) -> list[str]:
    """Weights that are none of a library's dense policy."""
    heads = (names.policy_head, names.value_head, names.values)
    prefixes = (names.policy, names.value, *filter(None, heads), *names.observed, *names.observed_by_critic)
    prefixes += (*names.log_std, *names.std, *BESIDE)
    return [name for name in arrays if not any(name == p or name.startswith(f"{p}.") for p in prefixes)]


def _refuse_unusable(arrays: Arrays, library: Library, names: NetworkNames) -> None:
    """Weights that would be forgotten (an extractor of features, a memory), and numbers that are none."""
    for name in _unexplained(arrays, names):
        problem = f"is not a dense layer of a policy of {library.title}; trimtab imports those only"
        raise ConfigError("policy", name, problem)
    for name, array in arrays.items():
        if not np.isfinite(array).all() and not name.startswith(BESIDE):
            raise ConfigError("policy", name, "is not finite")


def _deviation(arrays: Arrays, library: Library, names: NetworkNames, outputs: int) -> Arrays:
    """The logarithm of a Gaussian policy's deviation, one for each action in every state."""
    for name in (name for name in (*names.log_std, *names.std) if name in arrays):
        if arrays[name].size != outputs:
            raise ConfigError("policy", library.title, f"{name} depends on the state; in trimtab it does not")
        spread = arrays[name].reshape(-1)
        return {"log_std": spread if name in names.log_std else np.log(np.maximum(spread, LEAST_STD))}
    return {}


def _network(arrays: Arrays, prefix: str, head: str) -> tuple[Arrays, tuple[int, ...]]:
    """A network's layers and head under the names here, and the widths of its layers; PyTorch's are [out, in]."""
    matches = [re.fullmatch(rf"{re.escape(prefix)}\.(\d+)\.weight", name) for name in arrays]
    layers = [f"{prefix}.{k}" for k in sorted(int(match[1]) for match in matches if match)]
    layers, head = (layers, head) if head else (layers[:-1], layers[-1])
    here = {f"trunk.layers[{k}]": name for k, name in enumerate(layers)} | {"head": head}
    odd = next((name for name in here.values() if arrays[f"{name}.weight"].ndim != 2), None)
    if odd:
        raise ConfigError("policy", odd, "is not a dense layer; trimtab imports dense networks only")
    parts = {f"{to}.weight": arrays[f"{name}.weight"].T for to, name in here.items()}
    zeros = {name: np.zeros(len(arrays[f"{name}.weight"]), np.float32) for name in here.values()}  # where it has none
    parts |= {f"{to}.bias": arrays.get(f"{name}.bias", zeros[name]) for to, name in here.items()}
    return parts, tuple(arrays[f"{name}.weight"].shape[0] for name in layers)


def _observed(arrays: Arrays, prefixes: tuple[str, ...]) -> Observed:
    """Statistics that are stored with the weights, under the first prefix that holds any.

    rsl_rl's are (x − mean) / (std + 0.01), not clipped; skrl's (x − mean) / √variance, clipped at 5.
    """
    for prefix in prefixes:
        if (mean := arrays.get(f"{prefix}._mean")) is not None:
            variance = (arrays[f"{prefix}._std"] + RSL_RL_EPSILON) ** 2
            return _statistics(mean, variance, UNBOUNDED, arrays.get(f"{prefix}.count"))
        if (mean := arrays.get(f"{prefix}.running_mean")) is not None:
            variance = arrays[f"{prefix}.running_variance"]
            return _statistics(mean, variance, SKRL_CLIP, arrays.get(f"{prefix}.current_count"))
    return Observed()


def _statistics(mean: Array, variance: Array, clip: float, count: Array | None) -> Observed:
    counted = COUNT if count is None else max(2.0, float(count))
    return Observed(mean.reshape(-1), variance.reshape(-1), clip, count=counted)


def _in_terms_of(network: Arrays, its_own: Observed, shared: Observed) -> Arrays:
    """A first layer that makes of z = (x − μ)/σ, shared, what it made of its own (x − m)/s.

    W z' + b with z' = (σ z + μ − m)/s, so W' = σ/s W and b' = b + (μ − m)/s W.
    """
    layer = "trunk.layers[0]" if "trunk.layers[0].weight" in network else "head"
    weight, bias = network[f"{layer}.weight"], network[f"{layer}.bias"]
    (own_mean, own_std), (mean, std) = (_moments_of(observed, len(weight)) for observed in (its_own, shared))
    if not len(own_mean) == len(mean) == len(weight):
        return {}  # it sees other observations altogether
    moved = ((mean - own_mean) / own_std) @ weight
    return {f"{layer}.weight": (std / own_std)[:, None] * weight, f"{layer}.bias": bias + moved}


def _moments_of(observed: Observed, size: int) -> tuple[Array, Array]:
    if observed.mean is None or observed.variance is None:
        return np.zeros(size, np.float32), np.ones(size, np.float32)
    return observed.mean, np.sqrt(observed.variance)
