"""Policies that other libraries trained, as runs: to evaluate, probe, watch, export and train on."""

from __future__ import annotations

from os import PathLike
from typing import Any, Unpack

from trimtab.api.source import Place
from trimtab.config import Config, ConfigError
from trimtab.envs.own import Constructor
from trimtab.keywords import Fields
from trimtab.playbook.policies import Networks, Observed, networks_of, observed_by
from trimtab.playbook.translate import fitting, translate
from trimtab.playbook.weights import hyperparameters_of, read, weights_of
from trimtab.runs.run import Run


def adopt(
    policy: Any,
    environment: str,
    run_dir: Place | None = None,
    *,
    normalizer: Any = None,
    hyperparameters: dict[str, Any] | None = None,
    env: Constructor | None = None,
    **fields: Unpack[Fields],
) -> Run:
    """A run, at step 0, of a policy with dense networks that another library trained: SB3, CleanRL, rsl_rl or skrl.

    It can be evaluated, probed, watched, exported and, by `resume`, trained on. `environment` is an id.
    `policy` is its model, module or state_dict, or a file of one (SB3's .zip, PyTorch's .pt or .pth with
    `trimtab[torch]`, .safetensors, .npz). `normalizer` is what it sees observations through: VecNormalize, or obs_mean,
    obs_var and reward_var in a mapping or .npz. `hyperparameters` are those of its training by their names there, over
    what the model says of them itself; `fields` are fields here, over both. `env` makes the environment.
    """
    from trimtab.runs import loop
    from trimtab.runs.start import Arrays

    networks = networks_of(weights_of(policy))
    if isinstance(normalizer, str | PathLike):
        normalizer = read("normalizer", normalizer)
    observed = networks.observed if normalizer is None else observed_by(normalizer)
    training = hyperparameters_of(policy) | (hyperparameters or {})
    config, notes = _configured(networks, observed, environment, training, dict(fields))
    for note in notes:
        loop.to_stderr(note)
    place = str(policy) if isinstance(policy, str | PathLike) else f"a policy of {networks.names.title}"
    start = Arrays(place, config, networks.tensors() | observed.tensors())
    return loop.train(config, run_dir, env, start=start, until=0)


def _configured(
    networks: Networks, observed: Observed, env_id: str, hyperparameters: dict[str, Any], fields: dict[str, Any]
) -> tuple[Config, list[str]]:
    """Its configuration here: what its library does, what it says of itself, and what was asked for."""
    translated = translate(networks.names.library, hyperparameters)
    if "activation" not in fields:  # with another function between its layers it would be another policy
        for name in (name for name in translated.left_out if "activation" in name):
            raise ConfigError("activation", name, "it is not one of those here")
    sizes = {"num_minibatches", "minibatch_size"}  # two ways to say one thing
    theirs = {k: v for k, v in translated.fields.items() if k not in sizes or not sizes & fields.keys()}
    values = theirs | {
        "env_id": env_id,
        "network": "mlp",
        "arch": "dual",
        "hidden_sizes": networks.hidden_sizes,
        "norm_obs": observed.mean is not None,
        "norm_reward": observed.reward_variance is not None,
        **({"clip_obs": observed.clip} if observed.mean is not None else {}),
        **fields,
    }
    batch = int(values.get("num_envs", Config.num_envs)) * int(values.get("num_steps", Config.num_steps))
    config, notes = fitting(values | {"total_timesteps": max(batch, values.get("total_timesteps") or 0)}, batch)
    return config, [*translated.notes, *notes]
