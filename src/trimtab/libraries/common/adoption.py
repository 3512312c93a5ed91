"""Policies that other libraries trained, as runs: to evaluate, probe, watch, export and continue training.

What is pickled is read by PyTorch with `weights_only`, which runs nothing, or not at all.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any

from trimtab.config import Config, ConfigError
from trimtab.core import reading
from trimtab.core.errors import MissingPackage, UnreadableFile
from trimtab.envs.own_environments import Constructor
from trimtab.libraries.common.foreign_options import NoCounterpart, Translated, Values, activation_here
from trimtab.libraries.common.library import Library
from trimtab.libraries.common.policy_networks import Networks, Observed, networks_of, observed_by
from trimtab.libraries.common.translation import fit_minibatches, into_range, translate
from trimtab.training.run import Run

# Classes of torch.nn that may stand between layers.
FUNCTIONS = {"Tanh", "ReLU", "ELU", "SiLU", "GELU", "LeakyReLU", "SELU", "CELU", "Softplus", "Sigmoid", "Mish", "PReLU"}
PICKLED = (
    "is pickled, and opening it would run what it holds; load it where you trust it and hand it over in Python "
    "(normalizer=VecNormalize.load(...)), or save obs_mean, obs_var and reward_var as .npz"
)
EXPORT = """import gymnasium, numpy
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
seen = VecNormalize.load({file!r}, DummyVecEnv([lambda: gymnasium.make({env_id!r})]))
statistics = dict(obs_mean=seen.obs_rms.mean, obs_var=seen.obs_rms.var, reward_var=seen.ret_rms.var)
numpy.savez("vecnormalize.npz", **statistics)"""
SIZES = frozenset({"num_minibatches", "minibatch_size"})  # two ways to say one thing


def adopt_policy(
    policy: Any,
    env_id: str,
    run_dir: str | PathLike[str] | None = None,
    *,
    normalizer: Any = None,
    hyperparameters: Mapping[str, Any] | None = None,
    env: Constructor | None = None,
    fields: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Run:
    """Make a run, at step 0, of a policy with dense networks that another library trained.

    Args:
        policy: its model, module or state_dict, or a file of one.
        env_id: its environment.
        run_dir: where to; a new directory under runs/ if not given.
        normalizer: what it sees observations through: VecNormalize, or obs_mean, obs_var and reward_var in a mapping
            or .npz.
        hyperparameters: of its training by their names there, over what the model says of them itself.
        env: makes the environment, in place of its id.
        fields: fields here, over both.
        say: takes one line at a time: what was read, and what is not the same here.

    Returns:
        The run. What cannot be adopted is refused, and nothing is written.
    """
    from trimtab.training import loop
    from trimtab.training.warm_start import WarmStart

    own = dict(fields or {})
    networks = networks_of(_weights_of(policy))
    library = networks.library
    if isinstance(normalizer, str | PathLike):
        normalizer = read_arrays("normalizer", normalizer)
    observed = networks.observed if normalizer is None else observed_by(normalizer)
    training = hyperparameters_of(policy, library) | dict(hyperparameters or {})
    translated = translate(library.name, training)
    _refuse_missing_statistics(translated, observed)
    from_policy = _fields_of_policy(networks, observed, translated, activation_of(policy), own)
    _refuse_contradictions(from_policy, own)
    config, notes = _configuration(translated, from_policy | {"env_id": env_id}, own)
    layers = f"{config.activation} between layers of {list(networks.hidden_sizes)}"
    say(f"read as a policy of {library.title}, {layers}")
    for note in (*translated.notes, *_not_carried_over(translated, training), *notes):
        say(note)
    for note in _pickled_statistics(policy, env_id) if normalizer is None else ():
        say(note)
    place = str(policy) if isinstance(policy, str | PathLike) else f"a policy of {library.title}"
    start = WarmStart(place, config, networks.tensors() | observed.tensors())
    return loop.train(config, run_dir, env, start=start, until=0, say=say)


# Its configuration ------------------------------------------------------------------------------------------


def _refuse_missing_statistics(translated: Translated, observed: Observed) -> None:
    """A policy that was trained on normalized observations is another one without their statistics."""
    for field, what, statistics in (
        ("norm_obs", "observations were normalized", observed.mean),
        ("norm_reward", "rewards were scaled, so that its critic predicts other units", observed.reward_variance),
    ):
        if translated.fields.get(field) and statistics is None:
            raise ConfigError(
                "normalizer", None, f"its hyperparameters say that {what}; add the statistics (normalizer)"
            )


def _fields_of_policy(
    networks: Networks, observed: Observed, translated: Translated, activation: str | None, own: Values
) -> Values:
    """Fields that follow from the policy itself."""
    activation = activation or own.get("activation") or translated.fields.get("activation")
    unknown = [name for name in translated.left_out if "activation" in name]
    if activation is None and (unknown or not networks.library.activation_known):
        problem = (
            f"{unknown[0]}: trimtab does not have it"
            if unknown
            else "its file does not contain it; add activation=elu or another"
        )
        raise ConfigError("activation", None, problem)
    return {
        "network": "mlp",
        "arch": "dual",
        "hidden_sizes": networks.hidden_sizes,
        "norm_value": "popart" if networks.values.mean is not None else "none",
        **({"activation": activation} if activation else {}),
        **observed.fields,
    }


def _refuse_contradictions(from_policy: Values, own: Values) -> None:
    for name in from_policy.keys() & own.keys():
        value = tuple(own[name]) if isinstance(own[name], list) else own[name]
        if from_policy[name] != value:
            raise ConfigError(name, value, f"the policy has {from_policy[name]}; leave it out")


def _not_carried_over(translated: Translated, training: Values) -> list[str]:
    """What has no counterpart here, except what was not used there either."""
    unused = {name for name, value in training.items() if value in (False, None, -1)}
    return [f"not carried over: {name} ({why})" for name, why in translated.left_out.items() if name not in unused]


def _pickled_statistics(policy: Any, env_id: str) -> Iterator[str]:
    """How to export the statistics that Stable-Baselines3 pickles and RL Zoo leaves beside a policy's file."""
    if not isinstance(policy, str | PathLike):
        return
    file = Path(policy)
    places = (file.parent, file.with_suffix(""))  # RL Zoo keeps them in a folder of the environment's name
    for pickle in (place / "vecnormalize.pkl" for place in places if (place / "vecnormalize.pkl").is_file()):
        yield (
            f"{pickle} is beside the policy. It is a pickle, which trimtab does not open. If the policy was trained "
            "with it, export its statistics by the Python below and adopt again with --normalizer vecnormalize.npz\n"
            + EXPORT.format(file=str(pickle), env_id=env_id)
        )


def _configuration(translated: Translated, from_policy: Values, own: Values) -> tuple[Config, list[str]]:
    """Its configuration: the defaults of its library, overridden by its own settings, then by the given fields."""
    theirs = {k: v for k, v in translated.fields.items() if k not in SIZES or not SIZES & own.keys()}
    notes = into_range(theirs)
    values = {"num_envs": Config.num_envs, "num_steps": Config.num_steps} | theirs | from_policy | own
    for name in ("num_envs", "num_steps"):
        if not isinstance(values[name], Integral) or values[name] < 1:
            raise ConfigError(name, values[name], "must be a whole number of at least 1; nearest: 1")
    batch = int(values["num_envs"]) * int(values["num_steps"])
    values["total_timesteps"] = max(batch, values.get("total_timesteps") or Config.total_timesteps)
    config, more = fit_minibatches(values, batch)
    return config, notes + more


# Policies and files -----------------------------------------------------------------------------------------


def _weights_of(policy: Any) -> Mapping[str, Any]:
    """Weights by name: of a mapping, a module, a model that has one, or a file."""
    if isinstance(policy, str | PathLike):
        policy = read_arrays("policy", policy)
    if isinstance(policy, Mapping):
        return policy
    for module in (getattr(policy, "policy", None), policy):
        if callable(state_dict := getattr(module, "state_dict", None)):
            weights: Mapping[str, Any] = state_dict()
            return weights
    raise ConfigError("policy", type(policy).__name__, "must be a model, a module, a state_dict or a file of one")


def hyperparameters_of(policy: Any, library: Library) -> Values:
    """What a policy says of its training.

    Args:
        policy: a live model, or a file.
        library: the one that trained it.

    Returns:
        Hyperparameters by their names there, of the model itself or out of files beside it.
    """
    if isinstance(policy, str | PathLike):
        with reading.interpreting(Path(policy)):
            return library.beside(Path(policy))
    values: Values = {
        name: value for name in library.options if isinstance(value := getattr(policy, name, None), int | float)
    }
    if total := getattr(policy, "_total_timesteps", 0):
        values["total_timesteps"] = total
    for name, attribute in (("learning_rate", "lr_schedule"), ("clip_range",) * 2, ("clip_range_vf",) * 2):
        if callable(schedule := getattr(policy, attribute, None)):
            values[name] = f"{'lin_' if schedule(0.0) < 0.5 * schedule(1.0) else ''}{float(schedule(1.0))!r}"
    return values


def activation_of(policy: Any) -> str | None:
    """The function between a live module's layers, under its name here; others are refused, none is None."""
    module = getattr(policy, "policy", policy)
    function = getattr(module, "activation_fn", None)
    names = {function.__name__} if function else set()
    if not names and callable(modules := getattr(module, "modules", None)):
        names = {type(part).__name__ for part in modules()} & FUNCTIONS
    if not names:
        return None
    name = ", ".join(sorted(names))
    try:
        return activation_here(name)
    except NoCounterpart as why:
        raise ConfigError("activation", name, str(why)) from None


def read_arrays(field: str, source: str | PathLike[str]) -> Any:
    """The contents of a file of weights or statistics.

    Args:
        field: what the file is given as, for messages.
        source: .npz, .safetensors, or a file of PyTorch.

    Returns:
        Arrays by name. A pickle other than PyTorch's is refused.
    """
    path = Path(source)
    if path.suffix == ".pkl":
        raise ConfigError(field, str(path), PICKLED)
    problem = "holds no weights that can be read without running what is in it"
    try:
        if path.suffix == ".npz":
            return reading.read_npz_arrays(path)
        if path.suffix == ".safetensors":
            return reading.read_safetensors(path)
        return _of_torch(path)
    except MissingPackage:
        raise
    except UnreadableFile as error:
        raise ConfigError(field, str(path), f"{problem}: {error}") from None
    except Exception:  # whatever a damaged file makes of a reader
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
