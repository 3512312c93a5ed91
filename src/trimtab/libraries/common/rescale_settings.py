"""A settings file of another library at another batch size, in its own format and words; the rest of it stays."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from trimtab.advise.rescaling import Change, Rescaled, RescaleOptions, rescale
from trimtab.config import Config, ConfigError
from trimtab.core import reading
from trimtab.core.wording import plain
from trimtab.libraries.common.export_settings import differences, per_rank_counts, values_there
from trimtab.libraries.common.foreign_options import NOT_SET, Values, effective
from trimtab.libraries.common.library import Library, environment_in, table_in
from trimtab.libraries.common.translation import fit_minibatches, into_range, recognize, spelled, translate
from trimtab.libraries.common.yaml_edit import YamlFile

_ENOUGH = 1_000  # iterations that a run is taken to have where its file does not say


@dataclass(frozen=True)
class RescaledFile(Rescaled):
    """A settings file of another library at its new size; the configuration is that of all processes together."""

    library: str = ""
    """Its title."""
    text: str = ""
    """The whole file, with the changed values."""
    options: list[Change] = field(default_factory=list)
    """Options there that change, each with its value before and after, the rule and the reason."""
    notes: list[str] = field(default_factory=list)
    """What the file cannot say, and what was assumed."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        options = [asdict(change) for change in self.options]
        about = {"library": self.library, "options": options, "notes": self.notes, "text": self.text}
        return super().as_dict() | about


def rescale_file(
    file: Path, request: RescaleOptions, env_id: str | None = None, given: Values | None = None
) -> RescaledFile:
    """Move a settings file of another library to another batch size.

    Args:
        file: YAML of RL Zoo, rsl_rl, skrl, rl_games or Isaac Lab.
        request: the new size and the rule. Counts of each process there are so here, and `devices` are the processes.
        env_id: for which environment, where the file holds several.
        given: options that the file does not hold, by their names there: num_envs=4096.

    Returns:
        The text of the new file, what changed in it, and what it cannot say.
    """
    contents = YamlFile(reading.read_text(file))
    values = contents.values
    library = recognize(values, file)
    settings = library.settings(values, env_id)
    extra = {spelled(name, value, library): value for name, value in (given or {}).items()}
    every = _sizes_of_isaac_lab(file, library, settings) | settings | extra
    notes = _assumed(library, every, file)
    before = request.devices_before or 1
    key = environment_in(values, env_id) if not library.tables else None
    old, has_length, remarks = _configuration(library, every, before, key or env_id or "unknown")
    result = rescale(old, _of_all_ranks(library, request, before))
    was, becomes = (values_there(library, config, every) for config in (old, result.config))
    lost = _lost(library, old, was, result.config, becomes)
    was, becomes = per_rank_counts(library, was, before), per_rank_counts(library, becomes, request.devices or before)
    unknown = set() if has_length else _lengths(library, old)
    changed = {n: value for n, value in becomes.items() if was.get(n) != value and n not in unknown}
    for name, value in changed.items():
        if name in library.outside and name not in settings:
            notes.append(library.outside[name].format(value=value))
        else:
            contents = contents.set(_place(library, values, key, name), value, was.get(name))
    rows = [row for row in result.changes if has_length or row.field != "total_timesteps"]
    return RescaledFile(
        result.config,
        rows,
        result.warnings,
        result.c_opt,
        result.c_iter,
        result.exact,
        library=library.title,
        text=contents.text,
        options=[_change(library, rows, name, was.get(name), value) for name, value in changed.items()],
        notes=[*notes, *remarks, *lost],
    )


def _change(library: Library, rows: list[Change], name: str, before: Any, after: Any) -> Change:
    """A row of the table in the words of the library, with the reason of the field here."""
    row = next((row for row in rows if row.field == library.options[name].field), None)
    steps = "the run keeps its environment steps"
    return Change(name, before, after, row.rule if row else "size", row.why if row else steps)


def _sizes_of_isaac_lab(file: Path, library: Library, settings: Values) -> Values:
    """The number of environments out of env.yaml, which Isaac Lab writes beside agent.yaml."""
    name, beside = library.option_for("num_envs"), file.parent / "env.yaml"
    if name is None or name in settings or not library.tables or not beside.is_file():
        return {}
    count = table_in(reading.read_yaml(beside, python_tags=True), "scene").get("num_envs")
    return {name: count} if type(count) is int else {}


def _assumed(library: Library, settings: Values, file: Path) -> list[str]:
    """The sizes that neither the file nor its user gives: the library's defaults, or a refusal where it has none."""
    notes = []
    for field_here in ("num_envs", "num_steps"):
        name = library.option_for(field_here)
        if name is None or settings.get(name) not in (None, -1):
            continue
        default = library.defaults().get(name)
        if default is None:
            raise ConfigError(name, None, f"{file} does not hold it; add {name}=… with its value before")
        notes.append(f"{name}: not in the file; {default}, the default of {library.title}, is assumed")
    return notes


def _configuration(library: Library, settings: Values, ranks: int, env_id: str) -> tuple[Config, bool, list[str]]:
    """The configuration of all processes together, and whether the length of the run is known."""
    defaults = {name: value for name, value in library.defaults().items() if name in library.per_rank}
    counts = {name: int(value) * ranks for name, value in (defaults | settings).items() if name in library.per_rank}
    fields = translate(library.name, settings | counts).fields | {"env_id": env_id}
    remarks = into_range(fields)
    batch = int(fields["num_envs"]) * int(fields["num_steps"])
    has_length = "total_timesteps" in fields
    fields["total_timesteps"] = max(batch, fields.get("total_timesteps", _ENOUGH * batch))
    config, more = fit_minibatches(fields, batch)
    return config, has_length, remarks + more


def _lengths(library: Library, config: Config) -> set[str]:
    """The options that count how long a run is."""
    twice = values_there(library, config.replace(total_timesteps=2 * config.total_timesteps))
    return {name for name, value in values_there(library, config).items() if twice[name] != value}


def _of_all_ranks(library: Library, request: RescaleOptions, ranks: int) -> RescaleOptions:
    """The new size for all processes together, where the library counts for each."""
    if not library.per_rank:
        return request
    envs, size = (None if n is None else n * ranks for n in (request.num_envs, request.minibatch_size))
    return replace(request, devices_before=ranks, num_envs=envs, minibatch_size=size)


def _lost(library: Library, old: Config, was: Values, new: Config, becomes: Values) -> list[str]:
    """Adjustments that the library has no option for."""
    known = {difference.field: difference.here for difference in differences(library, old, was)}
    return [
        f"{d.field} {plain(effective(old, d.field))} -> {plain(d.here)}: {library.title} has no option for it{d.phrase}"
        for d in differences(library, new, becomes)
        if known.get(d.field, NOT_SET) != d.here
    ]


def _place(library: Library, values: Values, key: str | None, name: str) -> tuple[str | int, ...]:
    """Where an option stands in a file, or where it belongs."""
    if not library.tables:
        return (key, name) if key else (name,)
    table = library.options[name].at
    beside = {name} if any(name in table_in(values, path) for path in library.tables) else _options_at(library, table)
    for path in library.tables:
        if beside & table_in(values, path).keys():
            table = path
    return (*(int(part) if part.isdigit() else part for part in table.split(".") if part), name)


def _options_at(library: Library, table: str) -> set[str]:
    return {name for name, option in library.options.items() if option.at == table}
