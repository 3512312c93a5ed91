"""Typed values survive a round trip through JSON."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from trimtab.core.estimate import Estimate
from trimtab.core.json_values import from_json, to_json


@dataclass(frozen=True)
class Row:
    name: str
    sizes: tuple[int, int]
    estimate: Estimate
    by_lag: dict[int, float] = field(default_factory=dict)
    path: Path | None = None


@dataclass(frozen=True)
class Table:
    rows: tuple[Row, ...]
    note: str | None = None


def test_a_round_trip_gives_the_same_value():
    table = Table((Row("a", (4, 256), Estimate(1.0, 0.5, 1.5), {1: 0.25}, Path("x")),), "said")
    assert from_json(Table, json.loads(json.dumps(to_json(table)))) == table


def test_numbers_of_numpy_and_values_without_an_interval():
    row = Row("b", (np.int64(1), 2), Estimate(2.0, math.nan, math.nan, False))  # type: ignore[arg-type]
    back = from_json(Row, json.loads(json.dumps(to_json(row))))
    assert back.sizes == (1, 2) and math.isnan(back.estimate.lo) and not back.estimate.resolved


def test_unknown_keys_are_ignored_and_missing_ones_take_their_default():
    assert from_json(Table, {"rows": [], "newer": 1}) == Table(())


@pytest.mark.parametrize("value", [3, [], {"rows": 3}, {"rows": [{"name": "a", "sizes": [1, 2, 3], "estimate": {}}]}])
def test_another_shape_is_refused(value):
    with pytest.raises((ValueError, TypeError)):
        from_json(Table, value)
