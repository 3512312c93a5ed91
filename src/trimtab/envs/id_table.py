"""What EnvPool, gymnax, pgx, xminigrid and Playground have, kept in `id_table.csv`: asking them would import JAX.

`python -m benchmarks.environments --table` writes the file anew; tests compare it with what the packages say.
"""

from __future__ import annotations

import csv
import math
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from trimtab.envs.base import (
    ActionSpace,
    Continuous,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Part,
    Spec,
    kind_of,
)

FILE = Path(__file__).with_name("id_table.csv")
ENVPOOL_VERSION = "1.2.5"  # the one the table was written with


class TableRow(NamedTuple):
    """One environment: its spaces in words, its limit ("" for none), and why it cannot be run ("" if it can)."""

    backend: str
    family: str
    env_id: str
    observation: str
    action: str
    limit: str
    reason: str

    def spec(self, compiled: bool) -> Spec | None:
        """The row as a Spec (bounds of actions are not kept); None where its spaces are not known."""
        if not self.observation:
            return None
        shape, dtype, parts = _read_observation(self.observation)
        limit = int(self.limit) if self.limit else None
        return Spec(self.env_id, self.backend, shape, dtype, _read_action(self.action), limit, compiled, parts)


@cache
def rows() -> tuple[TableRow, ...]:
    with FILE.open(newline="") as file:
        return tuple(TableRow(*row) for row in csv.reader(file))


@cache
def by_id(backend: str) -> dict[str, TableRow]:
    """The rows of a backend."""
    return {row.env_id: row for row in rows() if row.backend == backend}


def write(new: list[TableRow]) -> None:
    with FILE.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(sorted(new))


def row_of(spec: Spec, family: str) -> TableRow:
    """A Spec in words."""
    limit = "" if spec.time_limit is None else str(spec.time_limit)
    observation, action = observation_in_words(spec, True), action_in_words(spec.action)
    return TableRow(spec.backend, family, spec.env_id, observation, action, limit, "")


def observation_in_words(spec: Spec, with_parts: bool = False) -> str:
    """84x84x4 uint8; 17 float32, and where its parts lie."""
    words = f"{'x'.join(map(str, spec.obs_shape)) or '1'} {spec.obs_dtype}"
    parts = ";".join(f"{part.name}:{part.stop - part.start}" for part in spec.parts)
    return f"{words} {parts}" if with_parts and parts else words


def action_in_words(action: ActionSpace) -> str:
    """discrete 6; continuous 3; multi-discrete 40x20; multi-binary 4."""
    if isinstance(action, MultiDiscrete):
        return f"multi-discrete {'x'.join(map(str, action.sizes))}"
    sizes = {Discrete: "n", MultiBinary: "switches"}
    size = len(action.low) if isinstance(action, Continuous) else getattr(action, sizes[type(action)])
    return f"{kind_of(action)} {size}"


def _read_observation(words: str) -> tuple[tuple[int, ...], Literal["float32", "uint8"], tuple[Part, ...]]:
    size, dtype, *rest = words.split(" ", 2)
    ends, read = 0, []
    for part in rest[0].split(";") if rest else ():
        name, _, width = part.rpartition(":")
        read.append(Part(name, ends, ends := ends + int(width)))
    return tuple(map(int, size.split("x"))), "uint8" if dtype == "uint8" else "float32", tuple(read)


def _read_action(words: str) -> ActionSpace:
    kind, size = words.split(" ")
    if kind == "multi-discrete":
        return MultiDiscrete(tuple(map(int, size.split("x"))))
    if kind == "continuous":
        return Continuous((-math.inf,) * int(size), (math.inf,) * int(size))
    return Discrete(int(size)) if kind == "discrete" else MultiBinary(int(size))
