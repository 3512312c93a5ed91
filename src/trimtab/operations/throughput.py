"""`trimtab throughput`: how many environments are fast here?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.config import Config, ConfigError
from trimtab.core.answers import print_json
from trimtab.core.terminal import new_console
from trimtab.envs import choose
from trimtab.operations.shared import Output, add_source, config_from, filled, parser


@dataclass
class ThroughputOptions:
    """What to measure."""

    counts: str | None = None
    """Numbers of environments to try, for example 1,8,64 (default: powers of 4 up to 1024; 64 in Python)."""
    seconds: float = 1.0
    """Seconds of training at each."""
    repeats: int = 1
    """Times that every number is measured."""
    save: str | None = None
    """Write the picture here (.png, .svg, .pdf, .html)."""


def throughput(argv: list[str]) -> int:
    command_parser = parser("throughput", ThroughputOptions, Output, Config)
    add_source(command_parser)
    arguments = command_parser.parse(argv)
    options, output, config = filled(ThroughputOptions, arguments), filled(Output, arguments), config_from(arguments)
    choose(config.env_id, config.backend)  # refuses an id that no backend has
    from trimtab.studies.throughputs import measured

    answer = measured(config, _counts(options.counts), options.seconds, options.repeats, output.quiet or output.json)
    if options.save:
        _draw(answer, Path(options.save))
        answer["save"] = options.save
    if output.json:
        print_json(answer)
    else:
        _show(answer)
    return 0


def _counts(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise ConfigError("counts", text, "must be numbers, for example 1,8,64") from None


def _draw(answer: dict[str, Any], path: Path) -> None:
    import polars as pl

    from trimtab.experiments.notes.throughput_study import speed_chart
    from trimtab.show import style

    style.save(speed_chart(pl.DataFrame(answer["rows"])), path)


def _show(answer: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table("N", "steps/s", "load", "memory", "environment", "policy", "update")
    for row in answer["rows"]:
        shares = [f"{row[f'{name}_share']:.0%}" for name in ("environment", "policy", "update")]
        speed, memory = f"{row['steps_per_second']:,.0f}", f"{row['memory'] / 2**20:,.0f} MiB"
        table.add_row(str(row["num_envs"]), speed, f"{row['load']:.0%}", memory, *shares)
    console = new_console()
    console.print(table)
    best, chosen = answer["fastest"], answer["recommended"]
    note = "the fastest" if best == chosen else f"the fewest environments within 10% of the fastest (N = {best})"
    advice = [
        f"Take num_envs={chosen}: {note}.",
        f"Next: trimtab split {answer['env_id']} --batch {chosen * answer['num_steps']}",
    ]
    console.print("\n".join(advice))
