"""`trimtab translate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from trimtab.config import Config, ConfigError
from trimtab.core.answers import print_json
from trimtab.core.fields import Need, Place, option, written
from trimtab.core.json_values import to_json
from trimtab.core.options import Options
from trimtab.libraries import LIBRARIES
from trimtab.libraries.common import translation as translating
from trimtab.libraries.common.export_settings import Exported, export
from trimtab.libraries.common.foreign_options import Translated
from trimtab.libraries.common.library import Library
from trimtab.operations.declaration import Call, operation
from trimtab.operations.sources import Source, configure
from trimtab.training.run import Run


@dataclass(frozen=True)
class Translate(Options):
    """What to translate."""

    library: Source = field(metadata=written({"Libraries": ", ".join(LIBRARIES)}))
    """The library, or a file of hyperparameters of one; with --to also a run directory, a YAML file of fields, a preset
    or an environment id, in Python a Config or a Run."""
    fields: Mapping[str, Any] = field(
        default_factory=dict, metadata=written(position=True, pairs=True, metavar="FIELD=VALUE")
    )
    """Hyperparameters by their names there: n_steps=2048, num-steps=128 or --num-envs 4; in Python a mapping."""
    _: KW_ONLY
    defaults: bool = option(True, flag="--no-defaults")
    """Also carry over what the library does by default (--no-defaults: only what is given)."""
    file: Place | None = option(None, metavar="FILE")
    """YAML file of hyperparameters; the ones given here override it (default: none)."""
    env_id: str | None = option(None, metavar="ID")
    """Environment id; in a file for several environments, whose hyperparameters to take (default: none)."""
    to: str | None = option(None, metavar="LIBRARY")
    """Write settings of this library: its file, command or script (default: a configuration of trimtab)."""
    form: str | None = option(None, Need(lambda options: options.to is not None, "needs --to"))
    """Its form, where the library has several: python or yaml for sb3 (default: its usual one)."""

    def source(self) -> tuple[Library, Place | None]:
        """The library, and the file of its hyperparameters."""
        if isinstance(self.library, Config | Run):
            raise ConfigError("to", None, "a configuration is translated to a library; give its name, for example sb3")
        if self.library in LIBRARIES or not Path(self.library).is_file():
            return translating.library_named(str(self.library)), self.file
        if self.file is not None:
            raise ConfigError("file", self.file, f"{self.library} is a file too; give one of them")
        return translating.library_of_file(self.library), self.library

    def translated(self) -> Translated:
        """The hyperparameters as fields here."""
        library, file = self.source()
        values = translating.read_settings(library, file, self.env_id) if file else {}
        return translating.translate(library.name, values | dict(self.fields), self.defaults)

    def configuration(self) -> Config:
        """The configuration of the source: another library's settings, or what `train` would take."""
        source = self.library
        if isinstance(source, str | PathLike) and (
            source in LIBRARIES or (Path(source).is_file() and translating.is_foreign(source))
        ):
            return self.translated().config(self.env_id)
        fields: dict[str, Any] = {"env_id": self.env_id} if self.env_id else {}
        return configure(source, **fields, **self.fields)


def _show(result: Translated | Exported, call: Call) -> None:
    if isinstance(result, Exported):
        _show_exported(result, call)
        return
    options: Translate = call.options()
    config = result.config(options.env_id)
    fields = ({"env_id": options.env_id} if options.env_id else {}) | result.fields
    if call.json:
        about = {"library": options.source()[0].name, "fields": fields, "notes": result.notes}
        print_json(about | {"left_out": result.left_out, "derived": config.derived()})
        return
    for note in result.notes:
        print(f"# {note}")
    for name, why in result.left_out.items():
        print(f"# not carried over: {name} ({why})")
    print(yaml.safe_dump(fields, sort_keys=False), end="")
    if options.defaults:
        _print_rest(config.as_dict(), fields)


def _show_exported(result: Exported, call: Call) -> None:
    if call.json:
        print_json(to_json(result))
        return
    for note in result.notes:
        print(f"# {note}")
    print(result.text, end="")


def _print_rest(values: dict[str, Any], fields: dict[str, Any]) -> None:
    """All other fields, so that the file is complete."""
    rest = {name: value for name, value in values.items() if name not in ("env_id", *fields)}
    other = {"minibatch_size": "num_minibatches", "num_minibatches": "minibatch_size"}
    print("# all other fields, so that no preset is applied")
    print(yaml.safe_dump({n: v for n, v in rest.items() if other.get(n) not in fields}, sort_keys=False), end="")


@operation("translate", Translate, _show, foreign=True)
def translate(options: Translate) -> Translated | Exported:
    """Translate hyperparameters of another library to the fields here, or a configuration to another library.

    Returns:
        Fields here, notes on differences, and options without a counterpart; `.config(env_id)` makes a Config of them.
        With `to`, the settings of that library: `fields` by its names, `text` as its users write them, and `notes`.
    """
    if options.to is not None:
        return export(options.configuration(), options.to, options.form)
    return options.translated()
