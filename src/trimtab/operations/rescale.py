"""`trimtab rescale`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from trimtab import presets
from trimtab.advise import rescaling
from trimtab.advise.rescaling import Rescaled, RescaleOptions
from trimtab.config import Config, ConfigError
from trimtab.core.answers import print_json
from trimtab.core.errors import RunError, UserError
from trimtab.core.fields import Need, option, written
from trimtab.core.options import Options, part
from trimtab.core.terminal import new_console
from trimtab.envs import EnvError
from trimtab.libraries.common import translation as translating
from trimtab.libraries.common.rescale_settings import RescaledFile, rescale_file
from trimtab.operations.declaration import Call, Operation, operation
from trimtab.operations.sources import Source, configure, run_of
from trimtab.training.run import Run
from trimtab.training.run_dir import RunDir

SIZES = ("num_envs", "num_steps", "minibatch_size", "num_minibatches", "devices", "workers")


@dataclass(frozen=True)
class Rescale(RescaleOptions):
    """What to rescale."""

    source: Source
    """Run directory, YAML file of fields, environment or preset; settings of another library (RL Zoo's YAML, agent.yaml
    of Isaac Lab), which are answered in their own format; in Python also a Config or a Run."""
    hyperparameters: Mapping[str, Any] = field(
        default_factory=dict, metadata=written(position=True, pairs=True, metavar="NAME=VALUE")
    )
    """Options that such a file does not contain, by their names there: num_envs=4096; in Python a mapping."""
    env_id: str | None = option(None, metavar="ID")
    """Environment whose settings to take from a file for several (default: none)."""


@dataclass(frozen=True)
class RescaleFlags(Options):
    """Where the new configuration goes."""

    out: str | None = option(None, metavar="FILE")
    """Write the new configuration or settings file here (default: it is only shown)."""
    force: bool = option(False, Need(lambda flags: flags.out is not None, "needs --out"))
    """Let --out overwrite a file."""


def _show(result: Rescaled, call: Call) -> None:
    source, out = call.given["source"], call.flags.out
    if out:
        _write(out, _text(result, source), call.flags.force)
    if call.json:
        print_json({"source": source, "out": out, **result.as_dict()})
        return
    _print(result, source)
    if isinstance(result, RescaledFile):
        print(f"written: {out}, for {result.library}" if out else "write it: add --out FILE")
        return
    print(f"train it: trimtab train --config {out}" if out else "write it: add --out FILE")


def _command(declared: Operation, call: Call) -> int | None:
    """A command line has to name a new size."""
    options = call.options()
    if not call.given.keys() & {*SIZES}:
        raise UserError("name a new size, for example --num-envs 64; the others: see --help")
    return declared.show(declared.function(options), call)


@operation("rescale", Rescale, _show, flags=RescaleFlags, command=_command)
def rescale(options: Rescale) -> Rescaled:
    """Move a configuration to another batch size, and adjust the rest so that it learns the same per environment step.

    The rules are those of Hilton, Cobbe & Schulman 2021, arXiv 2110.00641 ("the paper"). The number of minibatches
    stays unless a minibatch is given. A noise scale only leads to warnings.

    Returns:
        The new configuration, every change with its reason, and warnings.
    """
    source, request = options.source, part(options, RescaleOptions)
    if isinstance(source, str | PathLike) and Path(source).is_file() and translating.is_foreign(source):
        return rescale_file(Path(source), request, options.env_id, dict(options.hyperparameters))
    for name, value in (("env_id", options.env_id), *options.hyperparameters.items()):
        if value is not None:
            raise ConfigError(name, value, "is for settings files of other libraries; leave it out")
    if (
        request.noise_scale is None
        and not isinstance(source, Config)
        and (isinstance(source, Run) or RunDir.began(source))
    ):
        newest = run_of(source).newest("noise_scale")
        request = dataclasses.replace(request, noise_scale=newest["value"] if newest else None)
    try:
        config = configure(source)
    except EnvError as error:
        raise _unknown(source, error) from None
    return rescaling.rescale(config, request)


def _unknown(source: Source, error: EnvError) -> ConfigError | RunError:
    """What is said of a source that is nothing known."""
    if Path(str(source)).is_dir():
        return RunError(f"{source} is not a run directory")
    problem = f"is no run directory, file or preset; {str(error).removeprefix('env_id: ')}"
    return ConfigError("source", str(source), problem)


def _print(result: Rescaled, source: str) -> None:
    """What changes, what notably stays, and what to look out for."""
    from rich.table import Column, Table

    def show(value: Any) -> str:
        return f"{value:,}" if type(value) is int else f"{value:.6g}" if isinstance(value, float) else str(value)

    title = f"{source}: c_opt = {result.c_opt:.6g}, c_iter = {result.c_iter:.6g}"
    file = result if isinstance(result, RescaledFile) else None
    name = Column(f"option of {file.library}" if file else "field", no_wrap=True)  # it is what one types
    table = Table(name, "from", "to", "rule", "why", title=title, title_justify="left")
    for unchanged in (False, True):
        for row in (row for row in (file.options if file else result.changes) if row.changed != unchanged):
            style = "dim" if unchanged else None
            table.add_row(row.field, show(row.before), show(row.after), row.rule, row.why, style=style)
        table.add_section()
    console = new_console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 140
    console.print(table)
    console.print("the paper: Hilton, Cobbe & Schulman 2021, arXiv 2110.00641", style="dim")
    for note in file.notes if file else ():
        console.print(f"note: {note}", style="cyan", soft_wrap=True)
    for warning in result.warnings:
        console.print(f"warning: {warning}", style="yellow", soft_wrap=True)


def _names_env(source: str) -> bool:
    """Whether a source says for which environment it is: some files and the quick starts do not."""
    if Path(source).is_file():
        return "env_id" in presets.read_file(source)
    name = presets.full_name(source)
    return name not in presets.names() or "env_id" in presets.load(name)


def _text(result: Rescaled, source: str) -> str:
    """A settings file, or a file that `trimtab train --config` takes, without an environment if the source has none."""
    if isinstance(result, RescaledFile):
        return result.text
    names_env = _names_env(source)
    fields = {name: value for name, value in result.config.as_dict().items() if name != "env_id" or names_env}
    return f"# trimtab rescale, from {source!r}\n" + yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)


def _write(out: str, text: str, force: bool) -> None:
    from trimtab.core.writing import write_atomically

    if Path(out).is_dir():
        raise ConfigError("out", out, f"is a directory; nearest: {Path(out) / 'config.yaml'}")
    if Path(out).exists() and not force:
        raise ConfigError("out", out, "already exists; give another name, or --force")
    try:
        write_atomically(Path(out), text.encode())
    except OSError as error:
        raise ConfigError("out", out, error.strerror or "cannot be written") from None
