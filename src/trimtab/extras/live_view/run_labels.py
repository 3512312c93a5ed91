"""Short names for the runs of a group, made of the fields in which they differ: `64 × 16, seed 4`."""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from trimtab.core import reading
from trimtab.core.wording import plain, split_text

Fields = Mapping[str, str]  # the fields of a configuration as the text they have in its file

SPLIT = ("num_envs", "num_steps")
FIRST, LAST = (*SPLIT, "env_id", "algo"), ("seed",)
FOLLOWS = ("num_minibatches", "minibatch_size")  # where the split differs, they follow from it
VALUE_ONLY = ("env_id", "algo")  # the value alone says which field it is
_FIELD = re.compile(r"^(\w+):(.*(?:\n[ -].*)*)", re.MULTILINE)  # a name, and its value with the lines that continue it


def flat_fields(text: str) -> Fields:
    """The top-level fields of a YAML file as text; values are not parsed, which would take most of the time."""
    return {name: sys.intern(value.strip()) for name, value in _FIELD.findall(text)}


@functools.lru_cache(4096)
def value_of(text: str) -> Any:
    """The value of one field; None where it is damaged."""
    if text.isdecimal() and len(text) < 18:
        return int(text)
    try:
        return reading.parse_yaml(text)
    except yaml.YAMLError:
        return None


def count_of(text: str | None) -> int | None:
    """The value of a field that is a whole number; None for any other."""
    value = value_of(text) if text else None
    return value if type(value) is int else None


def labels(runs: Mapping[str, Fields]) -> dict[str, str]:
    """A label for each run of a group.

    Args:
        runs: the fields of each run, by its id.

    Returns:
        By id, the values of the fields that tell the runs apart. A value that most runs share is left out, except
        the split and the seed. A label may be empty, and two runs of one configuration have the same label.
    """
    names = _telling(list(runs.values()))
    common = {name: _common(name, list(runs.values())) for name in names}
    return {id: ", ".join(_words(fields, names, common)) for id, fields in runs.items()}


def _telling(runs: Sequence[Fields]) -> list[str]:
    """Fields that differ between runs, in order; one that separates no further runs is left out."""
    differing = [name for name in _all_names(runs) if len({fields.get(name) for fields in runs}) > 1]
    if any(name in differing for name in SPLIT):
        differing = [*(name for name in differing if name not in (*SPLIT, *FOLLOWS)), *SPLIT]
    middle = [name for name in differing if name not in (*FIRST, *LAST)]
    order = [name for name in (*FIRST, *LAST, *middle) if name in differing]
    kept: list[str] = []
    groups = 1
    for name in order:
        separated = len({tuple(fields.get(each) for each in (*kept, name)) for fields in runs})
        if separated > groups or name in FIRST:
            kept.append(name)
            groups = separated
    return sorted(kept, key=lambda name: (name in LAST, order.index(name)))


def _all_names(runs: Sequence[Fields]) -> list[str]:
    return list(dict.fromkeys(name for fields in runs for name in fields))


def _common(name: str, runs: Sequence[Fields]) -> str | None:
    """The value that more than half of the runs share, of fields that are shown only where they are special."""
    if name in (*FIRST, *LAST):
        return None
    value, count = Counter(fields.get(name, "") for fields in runs).most_common(1)[0]
    return value if 2 * count > len(runs) else None


def _words(fields: Fields, names: Sequence[str], common: Mapping[str, str | None]) -> list[str]:
    """The parts of one label."""
    words = []
    if SPLIT[0] in names:
        words.append(split_text(*(count_of(fields.get(name)) or 0 for name in SPLIT)))
    for name in names:
        text = fields.get(name)
        if name not in SPLIT and text is not None and text != common[name]:
            value = plain(value_of(text))
            words.append(value if name in VALUE_ONLY else f"{name} {value}")
    return words
