"""Policies that other libraries trained, as runs: to evaluate, probe, watch, export and train on."""

from __future__ import annotations

from numbers import Integral
from os import PathLike
from typing import Any, Unpack

from trimtab.config import Config, ConfigError
from trimtab.config.keywords import Fields
from trimtab.envs.own_environments import Constructor
from trimtab.libraries.policy_names import Networks, Observed, networks_of, observed_by
from trimtab.libraries.translation import fitting, translate
from trimtab.libraries.translation_rules import Translated
from trimtab.libraries.weight_files import activation_of, hyperparameters_of, read, weights_of
from trimtab.operations.source import Place
from trimtab.training.run import Run


def adopt(
    policy: Any,
    environment: str,
    run_dir: Place | None = None,
    *,
    normalizer: Any = None,
    hyperparameters: dict[str, Any] | None = None,
    env: Constructor | None = None,
    quiet: bool = False,
    **fields: Unpack[Fields],
) -> Run:
    """A run, at step 0, of a policy with dense networks that another library trained: SB3, CleanRL, rsl_rl or skrl.

    It can be evaluated, probed, watched, exported and, by `resume`, trained on. `environment` is an id.
    `policy` is its model, module or state_dict, or a file of one (SB3's .zip, PyTorch's .pt or .pth with
    `trimtab[torch]`, .safetensors, .npz). `normalizer` is what it sees observations through: VecNormalize, or obs_mean,
    obs_var and reward_var in a mapping or .npz. `hyperparameters` are those of its training by their names there, over
    what the model says of them itself; `fields` are fields here, over both. `env` makes the environment. What was
    taken, and what is not the same here, is said on standard error unless `quiet`.
    """
    from trimtab.training import loop
    from trimtab.training.warm_start import ForeignParameters

    networks = networks_of(weights_of(policy))
    if isinstance(normalizer, str | PathLike):
        normalizer = read("normalizer", normalizer)
    observed = networks.observed if normalizer is None else observed_by(normalizer)
    training = hyperparameters_of(policy, networks.names.library) | (hyperparameters or {})
    translated = translate(networks.names.library, training)
    _refuse_other_eyes(translated, observed)
    own = _own_fields(networks, observed, translated, activation_of(policy), dict(fields))
    _refuse_contradictions(own, dict(fields))
    config, notes = _configured(translated, own | {"env_id": environment}, dict(fields))
    say = (lambda text: None) if quiet else loop.to_stderr
    layers = f"{config.activation} between layers of {list(networks.hidden_sizes)}"
    say(f"read as a policy of {networks.names.title}, {layers}")
    for note in (*translated.notes, *_not_carried_over(translated, training), *notes):
        say(note)
    place = str(policy) if isinstance(policy, str | PathLike) else f"a policy of {networks.names.title}"
    start = ForeignParameters(place, config, networks.tensors() | observed.tensors())
    return loop.train(config, run_dir, env, start=start, until=0, say=say)


def _refuse_other_eyes(translated: Translated, observed: Observed) -> None:
    """A policy that was trained on normalized observations is another one without their statistics."""
    for field, what, statistics in (
        ("norm_obs", "observations were normalized", observed.mean),
        ("norm_reward", "rewards were scaled, so that its critic counts in other units", observed.reward_variance),
    ):
        if translated.fields.get(field) and statistics is None:
            raise ConfigError("normalizer", None, f"its hyperparameters say that {what}; give the statistics")


def _own_fields(
    networks: Networks, observed: Observed, translated: Translated, activation: str | None, fields: dict[str, Any]
) -> dict[str, Any]:
    """Fields that follow from the policy itself."""
    activation = activation or fields.get("activation") or translated.fields.get("activation")
    unknown = [name for name in translated.left_out if "activation" in name]
    if activation is None and (unknown or networks.names.library == "skrl"):
        problem = f"{unknown[0]}: it is not one of those here" if unknown else "its file does not say it; give it"
        raise ConfigError("activation", None, problem)
    return {
        "network": "mlp",
        "arch": "dual",
        "hidden_sizes": networks.hidden_sizes,
        "norm_value": "popart" if networks.values.mean is not None else "none",
        **({"activation": activation} if activation else {}),
        **observed.fields,
    }


def _refuse_contradictions(own: dict[str, Any], fields: dict[str, Any]) -> None:
    for name in own.keys() & fields.keys():
        value = tuple(fields[name]) if isinstance(fields[name], list) else fields[name]
        if own[name] != value:
            raise ConfigError(name, value, f"the policy has {own[name]}; leave it out")


def _not_carried_over(translated: Translated, training: dict[str, Any]) -> list[str]:
    """What has no counterpart here, but for what was not used there either."""
    unused = {name for name, value in training.items() if value in (False, None, -1)}
    return [f"not carried over: {name} ({why})" for name, why in translated.left_out.items() if name not in unused]


def _configured(translated: Translated, own: dict[str, Any], fields: dict[str, Any]) -> tuple[Config, list[str]]:
    """Its configuration here: what its library does, what it says of itself, and what was asked for."""
    sizes = {"num_minibatches", "minibatch_size"}  # two ways to say one thing
    theirs = {k: v for k, v in translated.fields.items() if k not in sizes or not sizes & fields.keys()}
    values = {"num_envs": Config.num_envs, "num_steps": Config.num_steps} | theirs | own | fields
    for name in ("num_envs", "num_steps"):
        if not isinstance(values[name], Integral) or values[name] < 1:
            raise ConfigError(name, values[name], "must be a whole number of at least 1; nearest: 1")
    batch = int(values["num_envs"]) * int(values["num_steps"])
    return fitting(
        values | {"total_timesteps": max(batch, values.get("total_timesteps") or Config.total_timesteps)}, batch
    )
