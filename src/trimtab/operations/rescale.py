"""`trimtab rescale`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from trimtab import presets
from trimtab.config import ConfigError
from trimtab.core.answers import print_json
from trimtab.core.errors import RunError
from trimtab.core.terminal import new_console
from trimtab.envs import EnvError
from trimtab.operations import flags
from trimtab.operations.shared import Output, filled, parser


@dataclass
class RescaleFlags:
    """The new size, and how the rest follows."""

    num_envs: int | None = None
    """New N."""
    num_steps: int | None = None
    """New T."""
    minibatch_size: int | None = None
    """New samples per gradient step (the number of minibatches stays if neither is given)."""
    num_minibatches: int | None = None
    """New minibatches per epoch."""
    devices: int | None = None
    """Data-parallel devices: environments per device stay, so N grows with them."""
    devices_before: int | None = None
    """Devices that share the environments there are, if not those of the configuration."""
    rule: Literal["invariant", "linear", "none", "fixed-inner"] = "invariant"
    """How the rest follows."""
    skip: str = ""
    """Adjustments to leave out, with commas between."""
    adam_betas: bool = False
    """Also raise Adam's β₁ and β₂ to the power 1/c_opt."""
    noise_scale: float | None = None
    """Noise scale in samples, to be warned beyond it; a run's own probes if they resolved one."""
    auxiliary: Literal["constant", "paper"] = "constant"
    """What PPG's auxiliary phase does."""
    workers: int | None = None
    """Workers after (auxiliary paper)."""
    workers_before: int | None = None
    """Workers before (auxiliary paper)."""


def rescale(argv: list[str]) -> int:
    command_parser = parser(
        "rescale",
        RescaleFlags,
        Output,
        positional="source",
        help="run directory, YAML file of fields, environment or preset",
    )
    command_parser.add_argument(
        "--out", metavar="FILE", help="write the new configuration, for `trimtab train --config FILE`"
    )
    command_parser.add_argument("--force", action="store_true", help="let --out overwrite a file")
    arguments = command_parser.parse(argv)
    keywords, output = flags.values(RescaleFlags, arguments), filled(Output, arguments)
    if not keywords.keys() & {"num_envs", "num_steps", "minibatch_size", "num_minibatches", "devices", "workers"}:
        flags.fail("name a new size, for example --num-envs 64; the others: see --help")
    keywords["skip"] = [name for name in keywords.get("skip", "").replace(",", " ").split()]
    from trimtab.operations.python_settings import rescale as move

    try:
        result = move(arguments.source, **keywords)
    except EnvError as error:
        raise _unknown(arguments.source, error) from None
    if arguments.out:
        _write_config(
            arguments.out, result.config.as_dict(), _names_env(arguments.source), arguments.force, arguments.source
        )
    if output.json:
        print_json({"source": arguments.source, "out": arguments.out, **result.as_dict()})
    else:
        _show_rescaled(result, arguments.source)
        print(f"train it: trimtab train --config {arguments.out}" if arguments.out else "write it: add --out FILE")
    return 0


def _show_rescaled(result, source: str) -> None:
    """What changes, what notably stays, and what to look out for."""
    from rich.table import Column, Table

    def show(value: Any) -> str:
        return f"{value:,}" if type(value) is int else f"{value:.6g}" if isinstance(value, float) else str(value)

    title = f"{source}: c_opt = {result.c_opt:.6g}, c_iter = {result.c_iter:.6g}"
    field = Column("field", no_wrap=True)  # it is what one types
    table = Table(field, "from", "to", "rule", "why", title=title, title_justify="left")
    for unchanged in (False, True):
        for row in (row for row in result.changes if row.changed != unchanged):
            style = "dim" if unchanged else None
            table.add_row(row.field, show(row.before), show(row.after), row.rule, row.why, style=style)
        table.add_section()
    console = new_console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 140
    console.print(table)
    console.print("the paper: Hilton, Cobbe & Schulman 2021, arXiv 2110.00641", style="dim")
    for warning in result.warnings:
        console.print(f"warning: {warning}", style="yellow", soft_wrap=True)


def _names_env(source: str) -> bool:
    """Whether a source says for which environment it is: some files and the quick starts do not."""
    if Path(source).is_file():
        return "env_id" in presets.read_file(source)
    name = presets.full_name(source)
    return name not in presets.names() or "env_id" in presets.load(name)


def _unknown(source: str, error: EnvError) -> ConfigError | RunError:
    """What is said of a source that is nothing known."""
    if Path(source).is_dir():
        return RunError(f"{source} is not a run directory")
    return ConfigError("source", source, f"is no run directory, file or preset; {str(error).removeprefix('env_id: ')}")


def _write_config(out: str, values: dict[str, Any], names_env: bool, force: bool, source: str) -> None:
    """A file `trimtab train --config` takes; a source without an environment gives a file without one."""
    from trimtab.core.writing import write_atomically

    if Path(out).is_dir():
        raise ConfigError("out", out, f"is a directory; nearest: {Path(out) / 'config.yaml'}")
    if Path(out).exists() and not force:
        raise ConfigError("out", out, "already exists; give another name, or --force")
    fields = {name: value for name, value in values.items() if name != "env_id" or names_env}
    text = f"# trimtab rescale, from {source!r}\n" + yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)
    try:
        write_atomically(Path(out), text.encode())
    except OSError as error:
        raise ConfigError("out", out, error.strerror or "cannot be written") from None
