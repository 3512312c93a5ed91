"""What a study would cost: its runs, their environment steps, and hours from a short calibration on this machine.

Of every environment and algorithm the largest and the smallest batch are trained for a moment; a step of a batch in
between costs a + b/N, through these two. Image networks are timed on a batch of a few hundred samples: their time goes
into samples, not into launching. Games of one suite cost what the first of them costs. What the calibration has no time
for is taken to cost what the others do on average, and what is not training (probes, evaluations) what a step of the
run it looks at does; what is computed without a step is not counted. All of these are marked.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trimtab.config import Config
from trimtab.core.terminal import new_console
from trimtab.core.wording import duration
from trimtab.envs import EnvError
from trimtab.experiments.source_study import SourceStudy
from trimtab.studies.executor import Inline, Queue
from trimtab.studies.job import Job, Train
from trimtab.studies.store import Store
from trimtab.studies.study_engine import ExecutionOptions
from trimtab.training.device import cores, machine, sees_images

PATIENCE = 60.0  # seconds after which nothing more is timed
STEPS = 8_192  # environment steps that are timed, at least two iterations
IMAGES: dict[str, Any] = {"num_envs": 4, "num_steps": 64, "num_minibatches": 4, "minibatch_size": None}
SHOWN = 10  # rows that are printed

Kind = tuple[str, str]  # a suite or environment, and an algorithm: what costs alike but for the batch


@dataclass(frozen=True)
class _CostRow:
    """Jobs of one shape: their environment steps, and the hours they take one after another."""

    what: str
    jobs: int
    steps: int
    hours: float
    speed: str  # how the speed is known


@dataclass(frozen=True)
class Cost:
    """What a study would cost, on one worker and on several."""

    study: str
    size: str
    jobs: int
    steps: int
    hours: float
    workers: int
    hours_with_workers: float
    machine: dict[str, Any]
    rows: tuple[_CostRow, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def cost_of(study: SourceStudy[Any], where: ExecutionOptions) -> Cost:
    """Runs and steps of every shape of training, and the hours they would take at the speed measured here."""
    jobs = list(Queue(study.jobs()).waiting.values())
    speeds = _calibrate([job.config for job in jobs if isinstance(job, Train)])
    shapes: dict[str, list[Job]] = {}
    for job in jobs:
        shapes.setdefault(_words(job), []).append(job)
    rows = sorted((_row(what, same, speeds) for what, same in shapes.items()), key=lambda row: -row.hours)
    hours, workers, steps = sum(row.hours for row in rows), where.workers or cores(), sum(job.steps for job in jobs)
    here = machine() | {"device": _device()}
    return Cost(study.kind, study.size, len(jobs), steps, hours, workers, hours / workers, here, tuple(rows))


def _words(job: Job) -> str:
    config = _config_of(job)
    if config is None:
        return job.kind
    if not isinstance(job, Train):
        return f"{job.kind} {config.env_id}"
    shape = f"{config.num_envs}x{config.num_steps} in {config.minibatches}"
    return f"{job.kind} {config.env_id} {config.algo} {shape}"


def _config_of(job: Job) -> Config | None:
    """The configuration a job trains, or that of the run it looks at."""
    config = getattr(job, "config", None)
    if isinstance(config, Config):
        return config
    return next((config for need in job.needs if (config := _config_of(need)) is not None), None)


def _row(what: str, jobs: list[Job], speeds: _Speeds) -> _CostRow:
    config, steps = _config_of(jobs[0]), sum(job.steps for job in jobs)
    seconds, how = speeds.step(config) if config is not None else (speeds.usual(), "as others")
    if not isinstance(jobs[0], Train):
        how = "as a step of its run" if steps else "computed, not counted"
    planned = [job.seconds_planned for job in jobs if job.seconds_planned is not None]
    if len(planned) == len(jobs):
        return _CostRow(what, len(jobs), steps, sum(planned) / 3600, "as long as asked")
    return _CostRow(what, len(jobs), steps, seconds * steps / 3600, how)


# Calibration -----------------------------------------------------------------------------------------------


class _Speeds:
    """Seconds of one environment step, by kind and number of environments."""

    def __init__(self) -> None:
        self.timed: dict[Kind, dict[int, float]] = {}

    def usual(self, num_envs: int | None = None) -> float:
        """Mean over kinds, at a number of environments or at the largest that was timed."""
        every = [_between(sizes, num_envs or max(sizes)) for sizes in self.timed.values()]
        return sum(every) / len(every) if every else 0.0

    def step(self, config: Config) -> tuple[float, str]:
        """Seconds of a step of this configuration, and how they are known."""
        sizes = self.timed.get(_kind(config))
        if sizes is None:
            return self.usual(config.num_envs), "as others"
        basis = "measured" if config.num_envs in sizes or sees_images(config) else "between measured"
        return _between(sizes, config.num_envs), basis


def _between(sizes: dict[int, float], num_envs: int) -> float:
    """a + b/N through the smallest and the largest number of environments that were timed."""
    (n, few), (m, many) = min(sizes.items()), max(sizes.items())
    return many if n == m else many + (few - many) * (1 / num_envs - 1 / m) / (1 / n - 1 / m)


def _kind(config: Config) -> Kind:
    return config.env_id.partition("/")[0], config.algo


def _calibrate(configs: Sequence[Config]) -> _Speeds:
    """Time the largest and smallest batches, what most steps go into first, until patience ends."""
    kinds: dict[Kind, list[Config]] = {}
    for config in configs:
        kinds.setdefault(_kind(config), []).append(config)
    order = sorted(kinds.items(), key=lambda item: -sum(c.steps for c in item[1]))
    speeds, until = _Speeds(), time.monotonic() + PATIENCE
    for kind, same in order:
        if speeds.timed and time.monotonic() > until:
            break
        few, many = (pick(same, key=lambda c: c.num_envs) for pick in (min, max))
        extremes = {c.num_envs: c for c in ((few, many) if not sees_images(many) else (many,))}
        sizes = {num_envs: seconds for num_envs, c in extremes.items() if (seconds := _measured(c))}
        if sizes:
            speeds.timed[kind] = sizes
    return speeds


def _measured(config: Config) -> float | None:
    """Seconds of one environment step of such a run, compiling not counted; None where it does not run."""
    try:
        job = Train(_shortened(config), checkpoints=1)
    except EnvError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        outcome = next(iter(Inline().run([job], Store(Path(folder)))))
    return 1.0 / outcome.result["fps"] if outcome.done and outcome.result["fps"] else None


def _shortened(config: Config) -> Config:
    """The same work for a moment: two iterations or two phases at least."""
    if sees_images(config):
        phase = {"policy_iterations": 1} if config.is_ppg else {}
        config = config.replace(**IMAGES, **phase)
        return config.replace(total_timesteps=2 * config.batch)
    phases = 2 * config.batch * (config.policy_iterations if config.is_ppg else 1)
    return config.replace(total_timesteps=max(STEPS, phases))


def _device() -> str:
    import jax

    device = jax.devices()[0]
    return f"{device.platform} ({device.device_kind})"


# Words -----------------------------------------------------------------------------------------------------


def print_cost(cost: Cost) -> None:
    """The largest shapes and the whole, in a terminal."""
    from rich.table import Table

    table = Table("what", "jobs", "steps", "time", "speed", box=None, pad_edge=False)
    shown, rest = cost.rows[:SHOWN], cost.rows[SHOWN:]
    if rest:
        jobs, steps, hours = (sum(getattr(row, name) for row in rest) for name in ("jobs", "steps", "hours"))
        shown += (_CostRow(f"{len(rest)} other shapes", jobs, steps, hours, ""),)
    for row in shown:
        table.add_row(row.what, f"{row.jobs:,}", f"{row.steps:,}", duration(3600 * row.hours), row.speed)
    console = new_console()
    console.print(f"\n{cost.study} ({cost.size}): {cost.jobs:,} jobs, {cost.steps:,} environment steps\n")
    console.print(table)
    alone, together = duration(3600 * cost.hours), duration(3600 * cost.hours_with_workers)
    console.print(
        f"\nabout {alone} one after another, {together} with {cost.workers} workers as fast as this one: "
        f"{cost.machine['device']}, {cost.machine['processor']}; starting and compiling not counted"
    )
