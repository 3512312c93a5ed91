"""The labelled set for the doctor: healthy configurations, faults put into healthy ones, and the two halves."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trimtab import presets
from trimtab.advise.remedies import Direction
from trimtab.config import Config, from_dict
from trimtab.libraries.common.translation import fit_minibatches, translate

Half = Literal["design", "held-out"]
SPLIT_SEED = "doctor-validation 1"  # fixed before any rule was changed
STEPS = {"CartPole-v1": 60_000, "Acrobot-v1": 80_000, "Pendulum-v1": 100_000, "FrozenLake-v1": 100_000}
# Presets that train in seconds, besides those of the environments above, with their steps.
OTHER_PRESETS = {
    ("LunarLander-v3", "ppo"): 120_000,
    ("CliffWalking-v1", "ppo"): 150_000,
    ("MountainCar-v0", "ppo"): 200_000,
    ("MountainCarContinuous-v0", "ppo"): 150_000,
    ("CartPole-v1", "ppo-ewma"): 60_000,
    ("Pendulum-v1", "ppo-ewma"): 100_000,
    ("CartPole-v1", "ppg"): 100_000,
    ("CartPole-v1", "reinforce"): 150_000,
}
# DLR-RM/rl-baselines3-zoo, hyperparams/ppo.yml, without gSDE.
RL_ZOO: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"n_envs": 8, "n_timesteps": 60_000, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8}
    | {"gamma": 0.98, "n_epochs": 20, "ent_coef": 0.0, "learning_rate": "lin_0.001", "clip_range": "lin_0.2"},
    "Pendulum-v1": {"n_envs": 4, "n_timesteps": 100_000, "n_steps": 1024, "gae_lambda": 0.95, "gamma": 0.9}
    | {"n_epochs": 10, "ent_coef": 0.0, "learning_rate": 1e-3, "clip_range": 0.2},
    "Acrobot-v1": {"normalize": True, "n_envs": 16, "n_timesteps": 150_000, "n_steps": 256, "gae_lambda": 0.94}
    | {"gamma": 0.99, "n_epochs": 4, "ent_coef": 0.0},
    "MountainCar-v0": {"normalize": True, "n_envs": 16, "n_timesteps": 200_000, "n_steps": 16, "gae_lambda": 0.98}
    | {"gamma": 0.99, "n_epochs": 4, "ent_coef": 0.0},
    "LunarLander-v3": {"n_envs": 16, "n_timesteps": 200_000, "n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98}
    | {"gamma": 0.999, "n_epochs": 4, "ent_coef": 0.01},
}
_CLEANRL = {"total_timesteps": 150_000}  # of ppo.py's 500,000; everything else is its default
_CLEANRL_CONTINUOUS = {  # ppo_continuous_action.py
    **{"num_envs": 1, "num_steps": 2048, "num_minibatches": 32, "update_epochs": 10, "learning_rate": 3e-4},
    **{"ent_coef": 0.0, "total_timesteps": 100_000, "norm_obs": True, "norm_reward": True},
}
CLEANRL: dict[str, dict[str, Any]] = {
    "CartPole-v1": _CLEANRL,
    "Acrobot-v1": _CLEANRL,
    "FrozenLake-v1": _CLEANRL,
    "LunarLander-v3": {"total_timesteps": 200_000},
    "Pendulum-v1": _CLEANRL_CONTINUOUS,
}


# Faults -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """Something wrong with a configuration, and the advice that names it."""

    name: str
    change: Callable[[Config], Mapping[str, Any]]
    answers: tuple[tuple[str, Direction], ...]
    """Fields and directions, any of which names the fault; the first is the field that was changed."""


def _whole_batch(config: Config) -> dict[str, Any]:
    return {"num_minibatches": 1, "minibatch_size": None, "update_epochs": 1}


FAULTS = (
    Fault("learning rate x 30", lambda c: {"learning_rate": 30 * c.learning_rate}, (("learning_rate", "lower"),)),
    Fault("learning rate / 30", lambda c: {"learning_rate": c.learning_rate / 30}, (("learning_rate", "raise"),)),
    Fault("value coefficient x 100", lambda c: {"vf_coef": 100 * c.vf_coef}, (("vf_coef", "lower"),)),
    Fault("gamma 0.5", lambda c: {"gamma": 0.5}, (("gamma", "raise"),)),
    Fault(
        "gamma 1, lambda 1", lambda c: {"gamma": 1.0, "gae_lambda": 1.0}, (("gamma", "lower"), ("gae_lambda", "lower"))
    ),
    Fault("entropy bonus of 1", lambda c: {"ent_coef": 1.0, "ent_anneal": 0.0}, (("ent_coef", "lower"),)),
    Fault("one minibatch", _whole_batch, (("num_minibatches", "raise"), ("update_epochs", "raise"))),
    Fault("50 epochs", lambda c: {"update_epochs": 50}, (("update_epochs", "lower"),)),
    Fault(
        "clip range of 10",
        lambda c: {"clip_coef": 10.0, "update_epochs": 20},
        (("clip_coef", "lower"), ("update_epochs", "lower")),
    ),
    Fault(
        "raw advantages",
        lambda c: {"norm_adv": "none", "norm_reward": False, "norm_reward_gamma": 0.99, "clip_reward": 10.0},
        (("norm_adv", "set"), ("norm_reward", "set")),
    ),
    Fault(
        "rollouts of 2 steps",
        lambda c: {"num_steps": 2, "num_minibatches": None},
        (("num_steps", "raise"), ("num_envs", "raise")),
    ),
    Fault("narrow policy", lambda c: {"log_std_init": -4.0}, (("log_std_init", "raise"), ("ent_coef", "raise"))),
)


# Cases ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A configuration of the set, one for each of its seeds."""

    name: str
    group: str
    """preset, RL Zoo, CleanRL, or the fault."""
    config: Config
    seeds: int
    half: Half
    fault: Fault | None = None


def _preset(env_id: str, algo: str, steps: int) -> Config:
    return presets.layered({"env_id": env_id, "algo": algo, "total_timesteps": steps})


def reference_of(config: Config) -> Config:
    """The healthy run that a run is compared with: the preset of its environment, for as many steps."""
    return _preset(config.env_id, "ppo", config.total_timesteps)


def _translated(library: str, env_id: str, values: Mapping[str, Any]) -> Config:
    fields = translate(library, values).fields | {"env_id": env_id}
    return fit_minibatches(fields, int(fields["num_envs"]) * int(fields["num_steps"]))[0]


def _cleanrl(env_id: str) -> Config:
    values = {"num_envs": 4, "num_steps": 128, "num_minibatches": 4, "update_epochs": 4, "learning_rate": 2.5e-4}
    return _translated("cleanrl", env_id, values | {"ent_coef": 0.01} | CLEANRL[env_id])


def _faulty() -> list[tuple[str, str, Config, Fault | None]]:
    named: list[tuple[str, str, Config, Fault | None]] = []
    for fault in FAULTS:
        for env_id, steps in STEPS.items():
            if fault.name == "narrow policy" and env_id != "Pendulum-v1":
                continue  # only continuous actions have a width
            healthy = _preset(env_id, "ppo", steps)
            named.append(
                (f"{env_id}, {fault.name}", fault.name, from_dict(dict(fault.change(healthy)), healthy), fault)
            )
    return named


def _healthy() -> list[tuple[str, str, Config, Fault | None]]:
    named: list[tuple[str, str, Config, Fault | None]] = []
    for env_id, steps in STEPS.items():
        named.append((f"{env_id}, preset", "preset", _preset(env_id, "ppo", steps), None))
    for (env_id, algo), steps in OTHER_PRESETS.items():
        named.append((f"{env_id}, preset {algo}", "preset", _preset(env_id, algo, steps), None))
    named += [
        (f"{env_id}, RL Zoo", "RL Zoo", _translated("sb3", env_id, values), None) for env_id, values in RL_ZOO.items()
    ]
    named += [(f"{env_id}, CleanRL", "CleanRL", _cleanrl(env_id), None) for env_id in CLEANRL]
    return named


def cases(design_seeds: int = 1, held_out_seeds: int = 2) -> list[Case]:
    """All cases; half of each group, drawn by a fixed seed, is for the design of the rules, the rest is held out.

    Args:
        design_seeds: runs of each case that rules may be designed on.
        held_out_seeds: runs of each case that is only counted.

    Returns:
        Cases in the order of their declaration.
    """
    every = [*_healthy(), *_faulty()]
    seeds: dict[Half, int] = {"design": design_seeds, "held-out": held_out_seeds}
    halves = _halves([(name, group) for name, group, _, _ in every])
    return [Case(name, group, config, seeds[halves[name]], halves[name], fault) for name, group, config, fault in every]


def _halves(named: Sequence[tuple[str, str]]) -> dict[str, Half]:
    """Every second case of a group, in the order of hashes of their names; odd groups take turns."""
    rank = lambda name: hashlib.sha256(f"{SPLIT_SEED}/{name}".encode()).hexdigest()
    order = sorted(named, key=lambda pair: (pair[1], rank(pair[0])))
    return {name: ("design" if k % 2 else "held-out") for k, (name, _) in enumerate(order)}
