"""Whether a run has reached what its environment asks for: then nothing about it needs to change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab import config as configuration
from trimtab import presets
from trimtab.config import Config
from trimtab.math import stats

# Return that counts as solved, and the time limit it is meant for, as Gymnasium registers them. A copy, so that nothing
# has to be imported to look; a test holds it against the registry.
REGISTERED: dict[str, tuple[float, int]] = {
    "Acrobot-v1": (-100.0, 500),
    "Ant-v4": (6000.0, 1000),
    "Ant-v5": (6000.0, 1000),
    "BipedalWalker-v3": (300.0, 1600),
    "BipedalWalkerHardcore-v3": (300.0, 2000),
    "CarRacing-v3": (900.0, 1000),
    "CartPole-v0": (195.0, 200),
    "CartPole-v1": (475.0, 500),
    "FrozenLake-v1": (0.7, 100),
    "FrozenLake8x8-v1": (0.85, 200),
    "HalfCheetah-v4": (4800.0, 1000),
    "HalfCheetah-v5": (4800.0, 1000),
    "Hopper-v4": (3800.0, 1000),
    "Hopper-v5": (3800.0, 1000),
    "InvertedDoublePendulum-v4": (9100.0, 1000),
    "InvertedDoublePendulum-v5": (9100.0, 1000),
    "InvertedPendulum-v4": (950.0, 1000),
    "InvertedPendulum-v5": (950.0, 1000),
    "LunarLander-v3": (200.0, 1000),
    "LunarLanderContinuous-v3": (200.0, 1000),
    "MountainCar-v0": (-110.0, 200),
    "MountainCarContinuous-v0": (90.0, 999),
    "Pusher-v4": (0.0, 100),
    "Pusher-v5": (0.0, 100),
    "Reacher-v4": (-3.75, 50),
    "Reacher-v5": (-3.75, 50),
    "Swimmer-v4": (360.0, 1000),
    "Swimmer-v5": (360.0, 1000),
    "Taxi-v4": (8.0, 200),
}
# Environments without a registered return: what this project holds its own presets to, and the time limit of that.
OWN: dict[str, tuple[float, int]] = {"Pendulum-v1": (-200.0, 200)}
# What presets are held to where that is far from solved: a run of the preset that gets there is in order.
PRESETS: dict[str, float] = {"ppo/HalfCheetah-v4": 1400.0, "ppo/Breakout-MinAtar": 20.0}
WINDOW = 100  # episodes a mean is taken over, as Gymnasium's thresholds mean it
FEWEST = 32  # episodes without which nothing is called solved


class Goal(NamedTuple):
    """What an environment asks for, and who says so."""

    threshold: float
    source: str


class Reached(NamedTuple):
    """That a run solved its environment: in words, and the return that did."""

    words: str
    value: float


def goal(config: Config) -> Goal | None:
    """The return at which this environment counts as solved; None where nobody says, or it was changed."""
    for table, source in ((REGISTERED, "Gymnasium's registration"), (OWN, "this project's own mark")):
        threshold, limit = table.get(config.env_id, (None, None))
        if threshold is not None and not config.env_kwargs and config.time_limit in (None, limit):
            return Goal(threshold, source)
    return None


def reached(config: Config, returns: np.ndarray, evaluation: float | None) -> Reached | None:
    """Solved by the mean of the last 100 episodes or the last evaluation; where nobody says, by their ceiling."""
    target = goal(config)
    if target is not None:
        if len(returns) >= FEWEST and returns[-WINDOW:].mean() >= target.threshold:
            mean, count = float(returns[-WINDOW:].mean()), min(len(returns), WINDOW)
            return Reached(f"mean return {mean:.4g} over the last {count} episodes; {_asked(target)}", mean)
        if evaluation is not None and evaluation >= target.threshold:
            return Reached(f"mean return {evaluation:.4g} in the last evaluation; {_asked(target)}", evaluation)
        return None  # short of what is asked, however steady
    return _ceiling(returns)


def as_known(config: Config, returns: np.ndarray) -> bool:
    """Whether this is a run of a shipped preset that returns what the preset is known to return."""
    name = presets.find(config.env_id, config.algo)
    if name not in PRESETS or len(returns) < FEWEST or returns[-WINDOW:].mean() < PRESETS[name]:
        return False
    shipped = configuration.from_dict(presets.load(name))
    return config.replace(seed=shipped.seed, total_timesteps=shipped.total_timesteps) == shipped


def _asked(target: Goal) -> str:
    return f"{target.threshold:g} counts as solved ({target.source})"


def _ceiling(returns: np.ndarray) -> Reached | None:
    """Every episode of the last quarter returned the most that any did, and it was learned: earlier ones did not."""
    quarter = len(returns) // 4
    if quarter < FEWEST:
        return None
    first, last, most = returns[:quarter], returns[-quarter:], float(returns.max())
    if not np.allclose(last, most, rtol=1e-6, atol=0) or stats.difference(first, last).lo <= 0:
        return None
    return Reached(f"each of the last {quarter:,} episodes returned {most:.4g}, the most that any has", most)
