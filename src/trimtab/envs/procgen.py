"""Returns of the Procgen games on one scale, so that games can be averaged. No JAX.

Minimum and maximum returns per game are those of Cobbe et al. 2020, "Leveraging Procedural Generation to Benchmark
Reinforcement Learning" (arXiv 1912.01588), appendix C: the minimum is what a policy without sight of the game gets.
"""

from __future__ import annotations

from trimtab.envs.known_ids import PROCGEN_ALIASES, canonical

# (minimum, maximum) in hard mode, then in easy mode
RANGES: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "coinrun": ((5.0, 10.0), (5.0, 10.0)),
    "starpilot": ((1.5, 35.0), (2.5, 64.0)),
    "caveflyer": ((2.0, 13.4), (3.5, 12.0)),
    "dodgeball": ((1.5, 19.0), (1.5, 19.0)),
    "fruitbot": ((-0.5, 27.2), (-1.5, 32.4)),
    "chaser": ((0.5, 14.2), (0.5, 13.0)),
    "miner": ((1.5, 20.0), (1.5, 13.0)),
    "jumper": ((1.0, 10.0), (1.0, 10.0)),
    "leaper": ((1.5, 10.0), (1.5, 10.0)),
    "maze": ((4.0, 10.0), (5.0, 10.0)),
    "bigfish": ((0.0, 40.0), (1.0, 40.0)),
    "heist": ((2.0, 10.0), (3.5, 10.0)),
    "climber": ((1.0, 12.6), (2.0, 12.6)),
    "plunder": ((3.0, 30.0), (4.5, 30.0)),
    "ninja": ((2.0, 10.0), (3.5, 10.0)),
    "bossfight": ((0.5, 13.0), (0.5, 13.0)),
}

_BY_ID = {
    PROCGEN_ALIASES[f"procgen/{game}-{mode}"]: limits
    for game, both in RANGES.items()
    for mode, limits in zip(("hard", "easy"), both)
}


def normalized_return(env_id: str, value: float) -> float | None:
    """(R - minimum) / (maximum - minimum) of a game in hard or easy mode, under either of its ids; None for others."""
    limits = _BY_ID.get(canonical(env_id))
    return None if limits is None else (value - limits[0]) / (limits[1] - limits[0])
