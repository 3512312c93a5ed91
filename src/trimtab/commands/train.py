"""`trimtab train`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from trimtab import presets
from trimtab.commands.shared import Output, add_source, config_from, filled, parser, preset_of
from trimtab.config import Config, ConfigError

if TYPE_CHECKING:
    from trimtab.envs import Spec


@dataclass
class RunFlags:
    """Where a run goes and what else it writes."""

    run_dir: str | None = None
    """Directory of the run (default: runs/ENV/ALGO-seedS-K)."""
    seeds: int = 1
    """Train this many seeds, counting up from --seed, one per core at a time."""
    checkpoints: int = 20
    """Checkpoints over the run, evenly spaced."""
    tensorboard: bool = False
    """Also write TensorBoard events."""
    track: bool = False
    """Also log to Weights & Biases (WANDB_MODE=offline works)."""


def train(argv: list[str]) -> int:
    made = parser("train", RunFlags, Output, Config)
    add_source(made)
    given = made.parse(argv)
    options, output = filled(RunFlags, given), filled(Output, given)
    config = config_from(given)
    refuse_no_checkpoints(options.checkpoints)
    if options.seeds < 1:
        raise ConfigError("seeds", options.seeds, "must be at least 1; nearest: 1")
    if options.seeds > 1:
        from trimtab.studies.seeds import train_seeds

        summaries = train_seeds(config, options, quiet=output.quiet or output.json)
        return _finish_seeds(summaries, output)

    from trimtab.runs import loop

    quiet = output.quiet or output.json
    run = loop.train(
        config,
        options.run_dir,
        quiet=quiet,
        announce=(lambda *_: None) if quiet else partial(describe, preset_of(given)),
        checkpoints=options.checkpoints,
        tensorboard=options.tensorboard,
        track=options.track,
    )
    return finish(run, output)


def refuse_no_checkpoints(count: int) -> None:
    if count < 1:
        raise ConfigError("checkpoints", count, "must be at least 1; nearest: 1")


def describe(preset: str | None, config: Config, spec: Spec) -> None:
    """Where the configuration comes from and what follows from it, before a run starts."""
    from rich.console import Console

    from trimtab.envs.table import action_in_words, observation_in_words
    from trimtab.nets.choice import choose_network

    network = choose_network(config.network, spec.obs_shape)
    why = "" if config.network == network else f" (auto: observes {observation_in_words(spec)})"
    rows = {"backend": spec.backend, "actions": action_in_words(spec.action), "network": network + why}
    Console(stderr=True).print(derived_table(preset, config, rows))


def derived_table(preset: str | None, config: Config, more: dict[str, str]):
    from rich.table import Table

    title = f"{config.algo} on {config.env_id}, seed {config.seed}"
    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in {**more, "preset": presets.described(preset, config.env_id), **config.derived()}.items():
        table.add_row(name, value)
    return table


def finish(run, output: Output) -> int:
    summary = run.summary()
    if output.json:
        print(json.dumps(summary))
    else:
        steps, mean, episodes = run.timing["steps"], summary["ep_rew_mean"], min(run.episodes.height, 100)
        took = (
            f"{steps:,} steps in {summary['seconds']:.1f} s ({summary['fps']:,.0f} steps/s, "
            f"compiling {summary['compile_seconds']:.1f} s)"
        )
        done = took if steps else f"already complete: {summary['total_timesteps']:,} steps"
        returned = "no episode finished" if mean is None else f"mean return of the last {episodes} episodes: {mean:.4g}"
        print(f"{done}; {returned}")
        print(f"run: {run.path}    look at it: trimtab show {run.path}")
    return 0


def _finish_seeds(summaries: list[dict[str, Any]], output: Output) -> int:
    if output.json:
        print(json.dumps(summaries))
    else:
        from rich.console import Console
        from rich.table import Table

        table = Table("seed", "return", "steps/s", "run", title=f"{len(summaries)} seeds", title_justify="left")
        for s in summaries:
            mean = s["ep_rew_mean"]
            table.add_row(str(s["seed"]), "none" if mean is None else f"{mean:.4g}", f"{s['fps']:,.0f}", s["run"])
        Console().print(table)
        print(f"all seeds together: {summaries[0]['aggregate_fps']:,.0f} steps/s")
    return 0
