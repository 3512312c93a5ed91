"""`trimtab throughput`: how many environments are fast here?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from trimtab.config import ConfigError
from trimtab.core.answers import print_json
from trimtab.core.fields import option
from trimtab.core.options import Options
from trimtab.core.terminal import new_console
from trimtab.envs import choose
from trimtab.operations.declaration import Call, operation
from trimtab.operations.sources import Configured, Progressing, describe_preset


def _counts(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise ConfigError("counts", text, "must be numbers, for example 1,8,64") from None


@dataclass(frozen=True)
class Throughput(Configured, Progressing):
    """What to measure."""

    counts: Sequence[int] | None = option(None, metavar="N,N,...", read=_counts)
    """Numbers of environments to try, for example 1,8,64 (default: powers of 4 up to 1024; of Python environments 64).
    """
    _: KW_ONLY
    seconds: float = 1.0
    """Seconds of training at each."""
    repeats: int = 1
    """Times that every number is measured."""


@dataclass(frozen=True)
class ThroughputFlags(Options):
    """Picture."""

    save: str | None = option(None, metavar="FILE")
    """Write the picture here, as .png, .svg, .pdf or .html (default: not written)."""


def _show(answer: dict[str, Any], call: Call) -> None:
    if call.flags.save:
        _draw(answer, Path(call.flags.save))
        answer["save"] = call.flags.save
    if call.json:
        print_json(answer)
    else:
        _print(answer)


def _draw(answer: dict[str, Any], path: Path) -> None:
    import polars as pl

    from trimtab.experiments.notes.throughput_study import speed_chart
    from trimtab.show import style

    style.save(speed_chart(pl.DataFrame(answer["rows"])), path)


def _print(answer: dict[str, Any]) -> None:
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


@operation("throughput", Throughput, _show, flags=ThroughputFlags, before_help=describe_preset)
def throughput(options: Throughput) -> dict[str, Any]:
    """Measure how many environments are fast here.

    Returns:
        `rows` (steps per second, load, memory, shares of time), the `fastest` number, and the one `recommended`: the
        fewest within 10% of it.
    """
    from trimtab.studies.throughputs import measured

    config = options.configuration()
    choose(config.env_id, config.backend)  # refuses an id that no backend has
    return measured(config, options.counts, options.seconds, options.repeats, options.silent)
