"""`trimtab train`."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal

from trimtab.config import Config, ConfigError
from trimtab.core.answers import print_json
from trimtab.core.fields import Need, Place, option
from trimtab.core.options import NOT_GIVEN, Options, given, if_given
from trimtab.core.terminal import new_console
from trimtab.core.writing import numbered_path
from trimtab.envs.own_environments import Constructor
from trimtab.operations.declaration import Call, Operation, operation
from trimtab.operations.plan import derived_table
from trimtab.operations.sources import Configured, Progressing, describe_preset, run_of
from trimtab.studies.study_engine import ExecutionOptions
from trimtab.training.run import Run

if TYPE_CHECKING:
    from trimtab.envs import Spec
    from trimtab.studies.seeds_study import SeedsResult

    ExecutionIfGiven = ExecutionOptions
else:
    ExecutionIfGiven = if_given(ExecutionOptions)

HOSTS = Need(lambda flags: flags.hosts, "needs --hosts; leave it out, or add that")
STARTS = Need(
    lambda options: options.start_from is not None, "there is no run to take it from; give --from RUN (start_from)"
)


@dataclass(frozen=True)
class Train(Configured, Progressing):
    """Where a run goes and what else it writes."""

    run_dir: Place | None = option(None, metavar="DIR")
    """Directory of the run (default: runs/ENV/ALGO-seedS-K)."""
    _: KW_ONLY
    env: Constructor | None = option(None, shown=False)
    """A class or function that makes the environment (a gymnasium.Env) in place of the source's id. Resuming needs it
    again, unless its module can be imported under its name."""
    start_from: Run | Place | None = option(None, flag="--from", metavar="RUN")
    """Run whose last parameters and normalizers this one starts from (default: none). On the command line its
    configuration provides the defaults, instead of a preset's. Schedules restart."""
    take_optimizer: bool = option(False, STARTS)
    """Also start from the optimizer state of that run."""
    checkpoints: int | None = option(None, low=1)
    """Checkpoints over the run, evenly spaced; if not given 20, or fewer where they would take more than 512 MB."""
    tensorboard: bool = False
    """Also write TensorBoard events."""
    track: bool = False
    """Also log to Weights & Biases (WANDB_MODE=offline works)."""
    devices: int | Literal["all"] = option(NOT_GIVEN)  # type: ignore[assignment]


@dataclass(frozen=True)
class HostFlags(Options):
    """Several processes or machines."""

    hosts: bool = False
    """Share the run with other processes, each started with this; under Slurm and Kubernetes nothing more is needed."""
    coordinator: str | None = option(None, HOSTS)
    """HOST:PORT of process 0, where the processes meet (with --hosts)."""
    num_processes: int | None = option(None, HOSTS)
    """How many processes there are (with --hosts)."""
    process_id: int | None = option(None, HOSTS)
    """Which of them this is, from 0; process 0 writes the run (with --hosts)."""

    def share(self, work: Callable[[bool], None]) -> int:
        """Do the work with the other processes, if there are any.

        Args:
            work: receives whether this process writes files and shows progress.

        Returns:
            The exit code.
        """
        if not self.hosts:
            work(True)
            return 0
        from trimtab.training import hosts

        meeting = hosts.Hosts(self.coordinator, self.num_processes, self.process_id)
        ended = hosts.in_child()
        if ended is not None:
            return ended
        with hosts.ending_at_once():
            hosts.join(meeting)
            work(hosts.is_first())
        return 0


@dataclass(frozen=True)
class TrainFlags(HostFlags, ExecutionIfGiven):
    """Several seeds."""

    seeds: int = option(1, low=1)
    """Train this many seeds, counting up from --seed, one per core at a time."""


def _command(declared: Operation, call: Call) -> int | None:
    """The command also trains several seeds, and shares one run between processes."""
    options, flags = call.options(), call.flags
    if flags.seeds > 1 and options.start_from is not None:
        raise ConfigError("seeds", flags.seeds, "one run starts from another; nearest: 1")
    if flags.seeds > 1 and (flags.hosts or options.devices == "all"):
        raise ConfigError("seeds", flags.seeds, "one run at a time has many devices; nearest: 1")
    if flags.seeds > 1:
        return _train_seeds(options, call)
    refuse_for_one_run(flags)
    config, all_devices = _configuration(options)
    all_devices |= flags.hosts and config.devices == 1
    return flags.share(partial(_train_and_show, options, config, all_devices, call))


def _train_and_show(options: Train, config: Config, all_devices: bool, call: Call, speaks: bool) -> None:
    quiet = call.quiet or not speaks
    announce = None if quiet else partial(_describe, options.chosen_preset)
    run = _train(dataclasses.replace(options, quiet=quiet), config, all_devices, announce)
    if speaks:
        show_trained(run, call)


def _train_seeds(options: Train, call: Call) -> int:
    from trimtab.studies.seeds_study import Seeds
    from trimtab.studies.study_engine import run_study

    config, count = _configuration(options)[0], call.flags.seeds
    name = f"{config.env_id.replace('/', '-')}/{config.algo}-seeds{config.seed}to{config.seed + count - 1}"
    out = Path(options.run_dir) if options.run_dir else numbered_path(Path("runs"), name)
    study = Seeds(config, count, options.checkpoints, options.tensorboard, options.track)
    where = ExecutionOptions(**given(call.flags, ExecutionOptions))
    return show_seeds(run_study(study, out, where, call.typed, quiet=call.quiet), call.json)


def refuse_for_one_run(flags: ExecutionOptions) -> None:
    """Options that say where many jobs are done do nothing for one run."""
    for name, value in given(flags, ExecutionOptions).items():
        raise ConfigError(name, value, "is for many jobs; leave it out, or give --seeds")


def show_trained(run: Run, call: Call) -> None:
    """Print the summary of a run that was trained or resumed."""
    summary = run.summary()
    if call.json:
        print_json(summary)
        return
    steps = run.timing.steps if run.timing else 0
    mean, episodes = summary.ep_rew_mean, min(run.episodes.height, 100)
    took = (
        f"{steps:,} steps in {summary.seconds:.1f} s ({summary.fps:,.0f} steps/s, "
        f"compiling {summary.compile_seconds:.1f} s)"
    )
    done = took if steps else f"already complete: {summary.total_timesteps:,} steps"
    returned = "no episode finished" if mean is None else f"mean return of the last {episodes} episodes: {mean:.4g}"
    print(f"{done}; {returned}")
    print(f"run: {run.path}    look at it: trimtab show {quote(str(run.path))}")


def show_seeds(answer: SeedsResult, as_json: bool) -> int:
    """Print the summaries of several seeds; returns 1 where one failed."""
    summaries = answer.runs
    if as_json:
        print_json(summaries)
    else:
        from rich.table import Table

        table = Table("seed", "return", "steps/s", "run", title=f"{len(summaries)} seeds", title_justify="left")
        for s in summaries:
            mean = "none" if s.ep_rew_mean is None else f"{s.ep_rew_mean:.4g}"
            table.add_row(str(s.seed), mean, f"{s.fps:,.0f}", Path(s.run).name)
        new_console().print(table)
        for first in summaries[:1]:
            print(f"all seeds together: {first.aggregate_fps:,.0f} steps/s    study: {answer.run}")
            print(f"look at them: trimtab view {quote(str(Path(first.run).parent))}")
    for failure in answer.failed:
        print(f"trimtab: failed: {failure}", file=sys.stderr)
    return 1 if answer.failed else 0


@operation("train", Train, show_trained, flags=TrainFlags, command=_command, before_help=describe_preset)
def train(options: Train) -> Run:
    """Train an agent, in a new directory.

    Returns:
        The run.
    """
    return _train(options, *_configuration(options))


def _configuration(options: Train) -> tuple[Config, bool]:
    """The configuration, and whether the run is to use all devices, whose number is known once JAX has started."""
    all_devices = options.devices == "all"
    if all_devices:
        options = dataclasses.replace(options, devices=NOT_GIVEN)
    start = options.start_from if options.is_typed else None
    base = None if start is None else run_of(start).config.as_dict()
    return options.configuration(options.env, base), all_devices


def _train(
    options: Train, config: Config, all_devices: bool, announce: Callable[[Config, Spec], None] | None = None
) -> Run:
    from trimtab.training import loop
    from trimtab.training.warm_start import WarmStart

    if all_devices:
        from trimtab.training.engine_setup import use_all_devices

        config = use_all_devices(config)
    start = options.start_from
    return loop.train(
        config,
        options.run_dir,
        options.env,
        quiet=options.silent,
        announce=announce or (lambda *_: None),
        checkpoints=options.checkpoints,
        tensorboard=options.tensorboard,
        track=options.track,
        start=None if start is None else WarmStart.from_run(run_of(start).path, None, options.take_optimizer),
    )


def _describe(preset: str | None, config: Config, spec: Spec) -> None:
    """Where the configuration comes from and what follows from it, before a run starts."""
    from trimtab.envs.id_table import action_in_words, observation_in_words
    from trimtab.nets.families import choose_network

    network = choose_network(config.network, spec.obs_shape)
    why = "" if config.network == network else f" (auto: observes {observation_in_words(spec)})"
    rows = {"backend": spec.backend, "actions": action_in_words(spec.action), "network": network + why}
    new_console(stderr=True).print(derived_table(preset, config, rows))
