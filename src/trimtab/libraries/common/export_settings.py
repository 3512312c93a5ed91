"""A configuration in the words of another library: its options, its file or command, and every difference as a note."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from trimtab.config import Config, ConfigError
from trimtab.core.fields import declared_of, part_of
from trimtab.core.wording import nearest, plain
from trimtab.libraries.common.foreign_options import NOT_SET, Values, effective, tidy
from trimtab.libraries.common.library import Library
from trimtab.libraries.common.translation import fit_minibatches, library_named, translate

# Fields that no update depends on, or that others below stand for.
_NOT_COMPARED = {"env_id", "backend", "devices", "probe_every", "num_minibatches", "value_epochs"}


@dataclass(frozen=True)
class Exported:
    """A configuration as the settings of another library."""

    library: str
    fields: Values
    """Hyperparameters by their names there."""
    text: str
    """The file, command or script."""
    notes: list[str] = field(default_factory=list)
    """Differences between the training there and here."""


def export(config: Config, name: str, form: str | None = None) -> Exported:
    """Write a configuration in the words of another library.

    Args:
        config: the configuration.
        name: the library.
        form: one of the library's forms, if not its first.

    Returns:
        Its settings there. An algorithm that the library does not have is refused.
    """
    library = library_named(name)
    if not library.forms:
        able = ", ".join(each for each in _writable())
        raise ConfigError("to", name, f"trimtab reads its files but does not write them; nearest: {able}")
    form = form or next(iter(library.forms))
    if form not in library.forms:
        close = nearest(form, library.forms, count=1, cutoff=0.0)
        raise ConfigError("form", form, f"{library.title} has {', '.join(library.forms)}; nearest: {close[0]}")
    values = values_there(library, config)
    notes = [
        f"{d.field}: {plain(d.here)} in trimtab, {plain(d.there)} in {library.title}{d.phrase}"
        for d in differences(library, config, values)
    ]
    per_rank = per_rank_counts(library, values, config.devices)
    outside = [text.format(value=per_rank[option]) for option, text in library.outside.items() if option in per_rank]
    return Exported(library.name, per_rank, library.forms[form](per_rank, config), [*outside, *notes, *library.always])


def _writable() -> list[str]:
    from trimtab.libraries import LIBRARIES

    return [library.name for library in LIBRARIES.values() if library.forms]


def values_there(library: Library, config: Config, given: Collection[str] = ()) -> Values:
    """The options of a library that a configuration means.

    Args:
        library: the library.
        config: the configuration.
        given: names that are preferred where several options mean one field.

    Returns:
        Values by name, in the order of the library's options. Counts are those of all ranks together.
    """
    found: Values = {}
    done: set[str] = set()
    for name in sorted(library.options, key=lambda name: name not in given):
        option = library.options[name]
        if option.field in done or (option.field and not _applies(config, option.field)):
            continue
        value = option.of(config)
        if value is NOT_SET or (value is None and option.default in (NOT_SET, None)):
            continue
        found[name] = list(value) if isinstance(value, tuple) else tidy(value) if isinstance(value, float) else value
        done |= {option.field} - {""}
    library.complete(found, config)
    return {name: found[name] for name in library.options if name in found}


def _applies(config: Config, name: str) -> bool:
    """Whether a field has any effect in a configuration."""
    return all(need.holds(config) for need in declared_of(Config, name).needs)


def per_rank_counts(library: Library, values: Values, ranks: int) -> Values:
    """Counts of each of the processes that train together, where the library counts so.

    Args:
        library: the library.
        values: its options, for all processes together.
        ranks: the number of processes.

    Returns:
        The options as each process gets them.
    """
    return {name: value // ranks if name in library.per_rank else value for name, value in values.items()}


@dataclass(frozen=True)
class Difference:
    """A field that the library trains with another value."""

    field: str
    here: Any
    there: Any
    phrase: str
    """How to get the effect there; empty where nobody knows."""


def differences(library: Library, config: Config, values: Values) -> list[Difference]:
    """Every field that the library does not train with the same value.

    The values are read back, so whatever the library cannot say is found without a list of it.

    Args:
        library: the library.
        config: the configuration.
        values: its options there.

    Returns:
        The fields, in order. An algorithm that the library does not have is refused.
    """
    back = _read_back(library, config, values)
    if back.algo != config.algo:
        raise ConfigError("algo", config.algo, f"{library.title} has no such algorithm; nearest: {back.algo}")
    return [_difference(library, config, name, back) for name in _differing(config, back)]


def _read_back(library: Library, config: Config, values: Values) -> Config:
    fields = translate(library.name, values).fields | {"env_id": config.env_id}
    sizes = {"num_envs": config.num_envs, "num_steps": config.num_steps, "total_timesteps": config.total_timesteps}
    fields = sizes | fields
    batch = int(fields["num_envs"]) * int(fields["num_steps"])
    return fit_minibatches({**fields, "total_timesteps": max(batch, int(fields["total_timesteps"]))}, batch)[0]


def _differing(config: Config, back: Config) -> Iterator[str]:
    for item in dataclasses.fields(Config):
        if item.name in _NOT_COMPARED or part_of(item) == "around" or not _applies(config, item.name):
            continue
        ours, theirs = _compared(config, item.name), _compared(back, item.name)
        is_number = isinstance(ours, float) and isinstance(theirs, float)
        if not (math.isclose(ours, theirs, rel_tol=1e-9) if is_number else ours == theirs):
            yield item.name


def _compared(config: Config, name: str) -> Any:
    """What counts of a field: whole iterations, the widths that a network really has."""
    return config.steps if name == "total_timesteps" else effective(config, name)


def _difference(library: Library, config: Config, name: str, back: Config) -> Difference:
    ours, theirs = _compared(config, name), _compared(back, name)
    phrase = library.phrases.get(name, "")
    if not ours or (isinstance(ours, str) and "{value}" not in phrase):  # a phrase for another choice
        phrase = ""
    return Difference(name, ours, theirs, phrase and f"; use {phrase.format(**vars(config) | {'value': ours})}")
