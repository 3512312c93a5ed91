"""`trimtab throughput`: how many environments are fast here?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.commands.shared import Output, add_source, config_from, filled, parser, refuse_unknown_environment
from trimtab.config import Config, ConfigError

LONG = 1 << 30  # steps of a run that is never finished: only its speed is looked at


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
    made = parser("throughput", ThroughputOptions, Output, Config)
    add_source(made)
    given = made.parse(argv)
    options, output, config = filled(ThroughputOptions, given), filled(Output, given), config_from(given)
    if options.seconds <= 0:
        raise ConfigError("seconds", options.seconds, "must be above 0")
    if options.repeats < 1:
        raise ConfigError("repeats", options.repeats, "must be at least 1; nearest: 1")
    refuse_unknown_environment(config)
    config = config.replace(total_timesteps=LONG)
    counts = _counts(options.counts, config)
    answer = _measured(config, counts, options, output)
    if options.save:
        from trimtab.report import style

        style.save(answer.pop("chart"), Path(options.save))
        answer["save"] = options.save
    answer.pop("chart", None)
    if output.json:
        print(json.dumps(answer))
    else:
        _show(answer)
    return 0


def _counts(text: str | None, config: Config) -> list[int]:
    if text is None:
        from trimtab.envs import choose

        compiled = choose(config.env_id, config.backend) in ("native", "tabular")
        return [1, 4, 16, 64, 256, 1024] if compiled else [1, 4, 16, 64]
    try:
        counts = sorted({int(word) for word in text.split(",")})
    except ValueError:
        raise ConfigError("counts", text, "must be numbers, for example 1,8,64") from None
    if counts[0] < 1:
        raise ConfigError("counts", counts[0], "must be at least 1; nearest: 1")
    return counts


def _measured(config: Config, counts: list[int], options: ThroughputOptions, output: Output) -> dict[str, Any]:
    """Every N in turn, and the number to take."""
    import polars as pl

    from trimtab.runs.progress import Progress
    from trimtab.runs.throughput import measure
    from trimtab.studies.notes.throughput import enough, fastest

    rows: list[dict[str, Any]] = []
    with Progress(len(counts) * options.repeats, f"throughput {config.env_id}", output.quiet or output.json) as bar:
        bar.start()
        for repeat in range(options.repeats):
            for num_envs in counts:
                found = measure(_resized(config, num_envs), options.seconds)
                rows.append({"environment": config.env_id, "repeat": repeat} | found)
                bar.count(len(rows), len(counts) * options.repeats, f"{found['steps_per_second']:,.0f} steps/s,")
    table = pl.DataFrame(rows)
    answer: dict[str, Any] = {
        "env_id": config.env_id,
        "num_steps": config.num_steps,
        "rows": rows,
        "fastest": fastest(table),
        "recommended": enough(table),
    }
    if options.save:
        from trimtab.report.studies.throughput import speed

        answer["chart"] = speed(table)
    return answer


def _resized(config: Config, num_envs: int) -> Config:
    """N environments; as many minibatches as before where they divide the batch, else the default number."""
    keep = config.minibatches if (num_envs * config.num_steps) % config.minibatches == 0 else None
    return config.replace(num_envs=num_envs, num_minibatches=keep, minibatch_size=None)


def _show(answer: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("N", "steps/s", "load", "memory", "environment", "policy", "update")
    for row in answer["rows"]:
        shares = [f"{row[f'{name}_share']:.0%}" for name in ("environment", "policy", "update")]
        speed, memory = f"{row['steps_per_second']:,.0f}", f"{row['memory'] / 2**20:,.0f} MiB"
        table.add_row(str(row["num_envs"]), speed, f"{row['load']:.0%}", memory, *shares)
    console = Console()
    console.print(table)
    best, chosen = answer["fastest"], answer["recommended"]
    note = "the fastest" if best == chosen else f"the fewest environments within 10% of the fastest (N = {best})"
    told = [
        f"Take num_envs={chosen}: {note}.",
        f"Next: trimtab split {answer['env_id']} --batch {chosen * answer['num_steps']}",
    ]
    console.print("\n".join(told), highlight=False)
