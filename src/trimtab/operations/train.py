"""`trimtab train`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from trimtab import presets
from trimtab.config import Config, ConfigError
from trimtab.core.answers import print_json
from trimtab.core.terminal import new_console
from trimtab.operations.host_processes import HostFlags, asked, together
from trimtab.operations.shared import Output, add_source, as_typed, config_from, filled, numbered, parser, preset_of
from trimtab.studies.study_engine import ExecutionOptions

if TYPE_CHECKING:
    from trimtab.envs import Spec
    from trimtab.studies.seeds_study import SeedsResult


@dataclass
class RunFlags:
    """Where a run goes and what else it writes."""

    run_dir: str | None = None
    """Directory of the run (default: runs/ENV/ALGO-seedS-K)."""
    seeds: int = 1
    """Train this many seeds, counting up from --seed, one per core at a time."""
    checkpoints: int | None = None
    """Checkpoints over the run, evenly spaced; if not given 20, or fewer where they would take more than 512 MB."""
    tensorboard: bool = False
    """Also write TensorBoard events."""
    track: bool = False
    """Also log to Weights & Biases (WANDB_MODE=offline works)."""


def train(argv: list[str]) -> int:
    command_parser = parser("train", RunFlags, HostFlags, Output, ExecutionOptions, Config)
    add_source(command_parser)
    command_parser.add_argument(
        "--from",
        dest="start_from",
        metavar="RUN",
        help="start from the last parameters and normalizers of this run; its fields, not a preset's, lie under the "
        "flags, and schedules begin anew",
    )
    command_parser.add_argument(
        "--take-optimizer", action="store_true", help="with --from: also take its optimizer state"
    )
    arguments = command_parser.parse(argv)
    options, output = filled(RunFlags, arguments), filled(Output, arguments)
    hosts, base = asked(arguments), _base(arguments)
    everything = getattr(arguments, "devices", None) == "all"
    if everything:
        del arguments.devices  # how many that is, is known once JAX has started
    config = config_from(arguments, base)
    everything |= hosts.hosts and config.devices == 1
    refuse_no_checkpoints(options.checkpoints)
    if options.seeds < 1:
        raise ConfigError("seeds", options.seeds, "must be at least 1; nearest: 1")
    if options.seeds > 1 and (hosts.hosts or everything):
        raise ConfigError("seeds", options.seeds, "one run at a time has many devices; nearest: 1")
    if options.seeds == 1:
        refuse_for_one_run(arguments)
    else:
        return _train_seeds(config, options, output, filled(ExecutionOptions, arguments), as_typed("train", argv))

    work = partial(_train_one, arguments, config, options, output, everything)
    return together(hosts, work) if hosts.hosts else work(True)


def _train_one(arguments, config: Config, options: RunFlags, output: Output, everything: bool, speaks: bool) -> int:
    from trimtab.training import loop
    from trimtab.training.engine_setup import use_all_devices
    from trimtab.training.warm_start import WarmStart

    if everything:
        config = use_all_devices(config)
    quiet = output.quiet or output.json or not speaks
    run = loop.train(
        config,
        options.run_dir,
        quiet=quiet,
        announce=(lambda *_: None) if quiet else partial(describe, preset_of(arguments)),
        checkpoints=options.checkpoints,
        tensorboard=options.tensorboard,
        track=options.track,
        start=WarmStart.from_run(arguments.start_from, None, arguments.take_optimizer)
        if arguments.start_from
        else None,
    )
    return finish(run, output) if speaks else 0


def _train_seeds(config: Config, options: RunFlags, output: Output, where: ExecutionOptions, command: str) -> int:
    from trimtab.studies.seeds_study import Seeds
    from trimtab.studies.study_engine import run_study

    name = f"{config.env_id.replace('/', '-')}/{config.algo}-seeds{config.seed}to{config.seed + options.seeds - 1}"
    out = Path(options.run_dir) if options.run_dir else numbered(name)
    study = Seeds(config, options.seeds, options.checkpoints, options.tensorboard, options.track)
    return finish_seeds(run_study(study, out, where, command, quiet=output.quiet or output.json), output)


def _base(arguments) -> dict[str, Any] | None:
    """The fields of the run that this one starts from; a preset lies over them only if it is named."""
    if arguments.start_from is None:
        if arguments.take_optimizer:
            raise ConfigError("take_optimizer", True, "there is no run to take it from; give --from RUN")
        return None
    if getattr(arguments, "seeds", "1") != "1":
        raise ConfigError("seeds", arguments.seeds, "one run starts from another; nearest: 1")
    from trimtab.training.run import load

    arguments.preset = arguments.preset or "none"
    return load(arguments.start_from).config.as_dict()


def refuse_for_one_run(arguments) -> None:
    """Options that say where many jobs are done do nothing for one run."""
    for name in (each.name for each in fields(ExecutionOptions)):
        if hasattr(arguments, name):
            raise ConfigError(name, getattr(arguments, name), "is for many jobs; leave it out, or give --seeds")


def refuse_no_checkpoints(count: int | None) -> None:
    if count is not None and count < 1:
        raise ConfigError("checkpoints", count, "must be at least 1; nearest: 1")


def describe(preset: str | None, config: Config, spec: Spec) -> None:
    """Where the configuration comes from and what follows from it, before a run starts."""
    from trimtab.envs.id_table import action_in_words, observation_in_words
    from trimtab.nets.families import choose_network

    network = choose_network(config.network, spec.obs_shape)
    why = "" if config.network == network else f" (auto: observes {observation_in_words(spec)})"
    rows = {"backend": spec.backend, "actions": action_in_words(spec.action), "network": network + why}
    new_console(stderr=True).print(derived_table(preset, config, rows))


def derived_table(preset: str | None, config: Config, more: dict[str, str]):
    from rich.table import Table

    title = f"{config.algo} on {config.env_id}, seed {config.seed}"
    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in {**more, "preset": presets.described(preset, config), **config.derived()}.items():
        table.add_row(name, value)
    return table


def finish(run, output: Output) -> int:
    summary = run.summary()
    if output.json:
        print_json(summary)
    else:
        steps, mean, episodes = run.timing.steps, summary.ep_rew_mean, min(run.episodes.height, 100)
        took = (
            f"{steps:,} steps in {summary.seconds:.1f} s ({summary.fps:,.0f} steps/s, "
            f"compiling {summary.compile_seconds:.1f} s)"
        )
        done = took if steps else f"already complete: {summary.total_timesteps:,} steps"
        returned = "no episode finished" if mean is None else f"mean return of the last {episodes} episodes: {mean:.4g}"
        print(f"{done}; {returned}")
        print(f"run: {run.path}    look at it: trimtab show {quote(str(run.path))}")
    return 0


def finish_seeds(answer: SeedsResult, output: Output) -> int:
    summaries = answer.runs
    if output.json:
        print_json(summaries)
    else:
        from rich.table import Table

        table = Table("seed", "return", "steps/s", "run", title=f"{len(summaries)} seeds", title_justify="left")
        for s in summaries:
            mean = "none" if s.ep_rew_mean is None else f"{s.ep_rew_mean:.4g}"
            table.add_row(str(s.seed), mean, f"{s.fps:,.0f}", Path(s.run).name)
        new_console().print(table)
        print(f"all seeds together: {summaries[0].aggregate_fps:,.0f} steps/s    study: {answer.run}")
        print(f"look at them: trimtab view {quote(str(Path(summaries[0].run).parent))}")
    for failure in answer.failed:
        print(f"trimtab: failed: {failure}", file=sys.stderr)
    return 1 if answer.failed else 0
