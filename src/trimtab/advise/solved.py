"""Whether a run has reached the target return of its environment: then nothing about it needs to change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab import config as configuration
from trimtab import presets
from trimtab.advise.evidence import Numbers
from trimtab.config import Config
from trimtab.math import stats

# Return that counts as solved, and the time limit it is meant for, as Gymnasium registers them. A copy, so that nothing
# has to be imported; a test compares it with the registry.
_REGISTERED = """
Acrobot-v1 -100 500, Ant-v4 6000 1000, Ant-v5 6000 1000, BipedalWalker-v3 300 1600,
BipedalWalkerHardcore-v3 300 2000, CarRacing-v3 900 1000, CartPole-v0 195 200, CartPole-v1 475 500,
FrozenLake-v1 0.7 100, FrozenLake8x8-v1 0.85 200, HalfCheetah-v4 4800 1000, HalfCheetah-v5 4800 1000,
Hopper-v4 3800 1000, Hopper-v5 3800 1000, InvertedDoublePendulum-v4 9100 1000,
InvertedDoublePendulum-v5 9100 1000, InvertedPendulum-v4 950 1000, InvertedPendulum-v5 950 1000,
LunarLander-v3 200 1000, LunarLanderContinuous-v3 200 1000, MountainCar-v0 -110 200,
MountainCarContinuous-v0 90 999, Pusher-v4 0 100, Pusher-v5 0 100, Reacher-v4 -3.75 50, Reacher-v5 -3.75 50,
Swimmer-v4 360 1000, Swimmer-v5 360 1000, Taxi-v4 8 200
"""
REGISTERED: dict[str, tuple[float, int]] = {
    env_id: (float(threshold), int(limit)) for env_id, threshold, limit in map(str.split, _REGISTERED.split(","))
}
# Environments without a registered return: trimtab's own target, and the time limit it is meant for.
OWN: dict[str, tuple[float, int]] = {"Pendulum-v1": (-200.0, 200)}
# Returns that shipped presets are known to reach, far from solved; a run of the preset that reaches it is in order.
PRESETS: dict[str, float] = {"ppo/HalfCheetah-v4": 1400.0, "ppo/Breakout-MinAtar": 20.0}
WINDOW = 100  # episodes a mean is taken over, as Gymnasium's thresholds mean it
FEWEST = 32  # episodes needed to call a run solved


class _Goal(NamedTuple):
    """The return that counts as solved, and who says so."""

    threshold: float
    source: str


class _Reached(NamedTuple):
    """That a run solved its environment: in words, and the return that did."""

    words: str
    value: float


def goal(config: Config) -> _Goal | None:
    """The target return of an environment.

    Args:
        config: a configuration.

    Returns:
        The return that counts as solved; None where nobody says, or where the environment was changed.
    """
    for table, source in ((REGISTERED, "Gymnasium's threshold"), (OWN, "trimtab's own target")):
        threshold, limit = table.get(config.env_id, (None, None))
        if threshold is not None and not config.env_kwargs and config.time_limit in (None, limit):
            return _Goal(threshold, source)
    return None


def reached(config: Config, returns: Numbers, evaluation: float | None) -> _Reached | None:
    """Whether a run solved its environment.

    Args:
        config: its configuration.
        returns: of its episodes, in order.
        evaluation: the mean return of its last evaluation, if it had one.

    Returns:
        By what: the mean of the last 100 episodes, or the evaluation, against the target; without a target, episodes
        that all return the highest value seen. None if it did not.
    """
    target = goal(config)
    if target is None:
        return _ceiling(returns)
    asked = f"{target.threshold:g} counts as solved ({target.source})"
    mean = _last_mean(returns)
    if mean is not None and mean >= target.threshold:
        count = min(len(returns), WINDOW)
        return _Reached(f"mean return {mean:.4g} over the last {count} episodes; {asked}", mean)
    if evaluation is not None and evaluation >= target.threshold:
        return _Reached(f"mean return {evaluation:.4g} in the last evaluation; {asked}", evaluation)
    return None


def as_known(config: Config, returns: Numbers) -> bool:
    """Whether this is a run of a shipped preset that returns what the preset is known to return."""
    name, mean = presets.find(config.env_id, config.algo), _last_mean(returns)
    if name not in PRESETS or mean is None or mean < PRESETS[name]:
        return False
    shipped = configuration.from_dict(presets.load(name))
    return config.replace(seed=shipped.seed, total_timesteps=shipped.total_timesteps) == shipped


def _last_mean(returns: Numbers) -> float | None:
    """The mean of the last episodes, if there are enough of them."""
    return float(returns[-WINDOW:].mean()) if len(returns) >= FEWEST else None


def _ceiling(returns: Numbers) -> _Reached | None:
    """Every episode of the last quarter returned the most that any did, and it was learned: earlier ones did not."""
    quarter = len(returns) // 4
    if quarter < FEWEST:
        return None
    first, last, most = returns[:quarter], returns[-quarter:], float(returns.max())
    if not np.allclose(last, most, rtol=1e-6, atol=0) or stats.difference(first, last).lo <= 0:
        return None
    return _Reached(f"each of the last {quarter:,} episodes returned {most:.4g}, the highest value seen", most)
