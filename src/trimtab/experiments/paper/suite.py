"""Environments, base configurations and sizes of the paper's studies.

At full size the paper's own: the 16 Procgen games, hard, with the presets' hyperparameters (Tables 1 to 4). Below that
a suite of compiled environments that a small network learns in well under a million steps: one policy epoch, 8
minibatches, Adam without gradient clipping, rewards normalized, and for PPG the KL-penalized objective with
coefficient 1, all as in the paper. Step sizes were raised until runs of 64 environments learned no faster. Of MinAtar,
Freeway is left out because its episodes of 2,500 steps hardly ever end, and Asterix because it barely moves in so few
steps.

Returns are normalized to (R − lowest) / (highest − lowest): on Procgen by the ranges of Cobbe et al. 2019, here from
a policy that acts at random to what the base configuration reaches at default size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trimtab import presets
from trimtab.advise.rescaling import rescale
from trimtab.config import Config, from_dict
from trimtab.experiments.source_study import Size


@dataclass(frozen=True)
class _Environment:
    """An environment of the suite: its range, how long it is trained by size, and what its configuration changes."""

    env_id: str
    lowest: float
    highest: float
    quick_steps: int
    steps: int
    changes: dict[str, Any] = field(default_factory=dict)


PENDULUM: dict[str, Any] = {"learning_rate": 4e-3, "norm_obs": True, "gamma": 0.95, "ent_coef": 0.0}
SUITE = (
    _Environment("CartPole-v1", 22.0, 500.0, 65_536, 196_608, {"learning_rate": 1.1e-2, "norm_obs": True}),
    _Environment("Catch-bsuite", -0.6, 1.0, 32_768, 131_072, {"learning_rate": 1.1e-2}),
    _Environment("Acrobot-v1", -499.0, -85.0, 131_072, 294_912, {"norm_obs": True}),
    _Environment("Pendulum-v1", -1250.0, -400.0, 196_608, 393_216, PENDULUM),
    _Environment("FrozenLake-v1", 0.015, 0.75, 131_072, 196_608),
    _Environment("FrozenLake8x8-v1", 0.002, 0.9, 131_072, 393_216),
    _Environment("UmbrellaChain-bsuite", 0.0, 1.0, 98_304, 196_608),
    _Environment("Breakout-MinAtar", 0.5, 8.0, 131_072, 393_216, {"learning_rate": 2.8e-3}),
    _Environment("SpaceInvaders-MinAtar", 3.0, 30.0, 131_072, 393_216),
)
QUICK = 2  # environments of a quick study
SEEDS = 3  # of every configuration, as in the paper where it says nothing else
HARD_RANGES = {
    "coinrun": (5, 10),
    "starpilot": (1.5, 35),
    "caveflyer": (2, 13.4),
    "dodgeball": (1.5, 19),
    "fruitbot": (-0.5, 27.2),
    "chaser": (0.5, 14.2),
    "miner": (1.5, 20),
    "jumper": (1, 10),
    "leaper": (1.5, 10),
    "maze": (4, 10),
    "bigfish": (0, 40),
    "heist": (2, 10),
    "climber": (1, 12.6),
    "plunder": (3, 30),
    "ninja": (2, 10),
    "bossfight": (0.5, 13),
}
RANGES = {e.env_id: (e.lowest, e.highest) for e in SUITE}

# What the small environments' configurations share; the step size is that of 64 environments.
COMMON: dict[str, Any] = {
    "num_envs": 64,
    "num_steps": 32,
    "num_minibatches": 8,
    "update_epochs": 1,
    "learning_rate": 5.6e-3,
    "adam_eps": 1e-8,
    "max_grad_norm": None,
    "norm_adv": "ewma",  # with a span of 1 iteration the whole batch's, and the same program at every span
    "norm_reward": True,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "ent_coef": 0.01,
    "hidden_sizes": (64, 64),
}
PHASIC: dict[str, Any] = {
    "surrogate": "kl",
    "kl_coef": 1.0,
    "policy_iterations": 8,
    "aux_epochs": 3,
    "aux_minibatch_size": 1024,
}
PPO_EPOCHS = 3  # the paper's, Table 2
PPO_RATE_FACTOR = 2  # step sizes are as much smaller with these epochs than with one
AUX_RATE = 1e-3
PROX_COM = 8.0  # the paper's for both EWMA variants, Appendix B
BATCHES: dict[Size, tuple[int, ...]] = {"quick": (16, 4, 1), "default": (64, 16, 4, 1), "full": (256, 64, 16, 4, 1)}


def procgen(game: str) -> str:
    """The id of a Procgen game at the paper's difficulty."""
    return f"procgen/{game}-hard"


def environments(size: Size) -> tuple[str, ...]:
    """Ids of the environments of a study of this size."""
    if size == "full":
        return tuple(map(procgen, HARD_RANGES))
    return tuple(e.env_id for e in SUITE[: QUICK if size == "quick" else None])


def final_share(size: Size) -> float:
    """The share of training, at its end, that is "final": the paper's last 4%, or a tenth of the short runs."""
    return 0.04 if size == "full" else 0.1


def normalizer(env_id: str) -> Callable[[float], float]:
    """From returns to normalized returns."""
    game = env_id.removeprefix("procgen/").removesuffix("-hard")
    lowest, highest = RANGES.get(env_id) or HARD_RANGES[game]
    return lambda value: (value - lowest) / (highest - lowest)


# Base configurations, at the largest batch -----------------------------------------------------------------


def phasic(env_id: str, size: Size, ewma: bool = True) -> Config:
    """PPG-EWMA or PPG at the largest batch of this size."""
    return _base(env_id, size, "ppg-ewma" if ewma else "ppg", PHASIC)


def clipped(env_id: str, size: Size, ewma: bool = False) -> Config:
    """PPO or PPO-EWMA at the largest batch of this size, three epochs."""
    return _base(env_id, size, "ppo-ewma" if ewma else "ppo", {"update_epochs": PPO_EPOCHS})


def _base(env_id: str, size: Size, algo: str, changes: dict[str, Any]) -> Config:
    if size == "full":
        objective = {"surrogate": "kl", "kl_coef": 1.0} if "surrogate" in changes else {}
        return from_dict(presets.load(f"{algo}/procgen") | objective | {"env_id": env_id, "norm_adv": "ewma"})
    about = next(e for e in SUITE if e.env_id == env_id)
    steps = about.quick_steps if size == "quick" else about.steps
    config = from_dict(COMMON | {"env_id": env_id, "algo": algo, "total_timesteps": steps} | changes | about.changes)
    if not config.is_ppg:
        config = config.replace(learning_rate=config.learning_rate / PPO_RATE_FACTOR)
    if config.is_ewma:
        config = config.replace(prox_com=PROX_COM)
    if config.is_ppg:
        config = config.replace(aux_learning_rate=AUX_RATE)
    return _at_batch(config, BATCHES[size][0])


def _at_batch(config: Config, num_envs: int) -> Config:
    """The same at another number of environments that is to count as the largest: only what it needs is adjusted."""
    return rescale(config, num_envs=num_envs, skip=("prox_com", "norm_adv")).config
