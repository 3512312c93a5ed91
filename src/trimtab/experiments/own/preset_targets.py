"""What `learning` trains: presets on seeds, what they should reach, and what others published of PPO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trimtab import presets
from trimtab.config import Config, from_dict

CLEANRL, ZOO = "CleanRL's documentation", "RL Baselines3 Zoo's benchmark"
RPO = "CleanRL's documentation of RPO, its PPO column"
MINATAR = "gymnax's checkpoints"


@dataclass(frozen=True)
class _Bar:
    """What a row should reach: at least this on average, or on `on` of its seeds.

    With `times_first` it counts in the mean return of the first episodes, of a policy that has learned nothing yet.
    """

    least: float
    on: int | None = None
    times_first: bool = False

    def __str__(self) -> str:
        least = f"more than {self.least:g} times the first episodes'" if self.times_first else f"≥ {self.least:g}"
        return f"{least} on {self.on} seeds" if self.on else f"mean {least}"

    def is_met(self, values: Sequence[float], first: float) -> bool:
        """Whether these final returns reach it; `first` is the mean return of the first episodes."""
        least = self.least * first if self.times_first else self.least
        if self.on is not None:
            return sum(value >= least for value in values) >= self.on
        return bool(values) and sum(values) / len(values) >= least


@dataclass(frozen=True)
class Row:
    """A preset on so many seeds; `published` is (value, where) of PPO elsewhere."""

    env_id: str
    algo: str = "ppo"
    seeds: int = 5
    measure: str = "last 100 episodes"
    published: tuple[str, str] = ("", "")
    bar: _Bar | None = None
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> Config:
        name = presets.chosen({"env_id": self.env_id, "algo": self.algo})
        return from_dict(
            (presets.load(name) if name else {}) | {"env_id": self.env_id, "algo": self.algo} | self.changes
        )

    @property
    def name(self) -> str:
        return f"{self.env_id} {self.algo}"


def _million(env_id: str, published: tuple[str, str], least: float | None = None, seeds: int = 3) -> Row:
    bar = None if least is None else _Bar(least)
    return Row(env_id, seeds=seeds, published=published, bar=bar, changes={"total_timesteps": 1_000_000})


CLASSIC = (
    Row("CartPole-v1", seeds=10, published=("490 ± 6 at 500k", CLEANRL), bar=_Bar(490)),
    Row("Pendulum-v1", seeds=10, measure="evaluation", published=("-172 at 100k", ZOO), bar=_Bar(-200, on=8)),
    Row("Acrobot-v1", seeds=10, published=("-86.4 ± 1.3 at 500k", CLEANRL), bar=_Bar(-86.4)),
    Row(
        "FrozenLake8x8-v1",
        measure="exact greedy value",
        published=("0.412, the optimum", "solved exactly"),
        bar=_Bar(0.37, on=5),
    ),
    Row("CartPole-v1", "reinforce", bar=_Bar(475, on=4)),
    *(Row("CartPole-v1", algo, 10, bar=_Bar(475, on=9)) for algo in ("ppo-ewma", "ppg", "ppg-ewma")),
    *(Row("Pendulum-v1", algo, measure="evaluation") for algo in ("ppo-ewma", "ppg", "ppg-ewma")),
)
QUICK = (
    Row("CartPole-v1", seeds=3, published=CLASSIC[0].published, bar=CLASSIC[0].bar),
    Row("Pendulum-v1", seeds=3, measure="evaluation", published=CLASSIC[1].published, bar=_Bar(-200, on=2)),
    Row(
        "FrozenLake8x8-v1", seeds=3, measure="exact greedy value", published=CLASSIC[3].published, bar=_Bar(0.37, on=3)
    ),
)
CHEAP = (
    Row("LunarLander-v3", published=("242 at 1M (v2)", ZOO), bar=_Bar(200, on=4)),
    Row("MountainCarContinuous-v0", seeds=3, published=("88.3 at 20k", ZOO), bar=_Bar(90)),
    _million("InvertedPendulum-v4", ("963 ± 22 at 1M", CLEANRL), 963),
)
BREAKOUT = Row(
    "Breakout-MinAtar", published=("28 at 10M", MINATAR), bar=_Bar(20), changes={"total_timesteps": 2_000_000}
)
LONG = (
    _million("Hopper-v4", ("2383 ± 272 at 1M; 2410 at 1M (v3)", f"{CLEANRL}; {ZOO}"), 2383),
    _million("Walker2d-v4", ("2288 ± 572 at 1M; 3479 at 1M (v3)", f"{CLEANRL}; {ZOO}"), 2288),
    # Final returns of seeds differ by a factor of three: three seeds say little.
    _million("HalfCheetah-v4", ("1443 ± 46 at 1M; 5819 at 1M (v3)", f"{CLEANRL}; {ZOO}"), 1443, seeds=10),
    _million("Humanoid-v4", ("716 ± 49 at 1M", CLEANRL), 716),
    _million("Ant-v4", ("1824 ± 906 at 8M; 1327 at 1M (v3)", f"{RPO}; {ZOO}"), 1327),
    _million("Swimmer-v4", ("125 ± 22 at 8M; 282 at 1M (v3)", f"{RPO}; {ZOO}"), 125),
    _million("Reacher-v4", ("-4.65 ± 0.96 at 8M", RPO), -5.61),
    _million("LunarLanderContinuous-v3", ("271 at 1M (v2)", ZOO), 200),
    _million("BipedalWalker-v3", ("172 ± 96 at 8M; 288 at 5M", f"{RPO}; {ZOO}"), 172),
    _million("CheetahRun-v1", ("433 ± 83", CLEANRL)),
    _million("WalkerWalk-v1", ("393 ± 56", CLEANRL)),
    Row("Go1JoystickFlatTerrain-v1", seeds=3, bar=_Bar(2, times_first=True), changes={"total_timesteps": 500_000}),
    # Over the 10M steps of its preset the step size would hardly fall in the first million.
    Row(
        "Pong-v5",
        seeds=3,
        published=("-20.7, random play; 20.4 ± 0.2 at 10M", f"Mnih et al. 2015; {CLEANRL}"),
        bar=_Bar(-15.7),
        changes={"total_timesteps": 1_000_000, "anneal_lr": "constant"},
    ),
)
GAMES = (
    Row("Breakout-MinAtar", seeds=3, published=BREAKOUT.published, bar=BREAKOUT.bar),
    Row("Asterix-MinAtar", seeds=3, published=("15 at 10M", MINATAR)),
    Row("Freeway-MinAtar", seeds=3, published=("58 at 10M", MINATAR)),
    Row("SpaceInvaders-MinAtar", seeds=3, published=("131 at 10M", MINATAR)),
)
DEFAULT = (*CLASSIC, BREAKOUT, *CHEAP)
FULL = (*CLASSIC, *CHEAP, *LONG, *GAMES)
SIZES = {"quick": QUICK, "default": DEFAULT, "full": FULL}
