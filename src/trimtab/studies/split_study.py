"""`trimtab split`: how should a batch be split into N environments × T steps?

Every split is trained from scratch on a few seeds, and the gradient of every split is probed at several stages of one
of these runs. What that does not decide gets more seeds, and only the splits that are still in question, until one is
left, the seeds are used up, or the time is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from trimtab import config as configuration
from trimtab.config import Config, ConfigError
from trimtab.core import reading
from trimtab.core.estimate import UNRESOLVED, Estimate, unresolved
from trimtab.core.fields import divisors
from trimtab.core.options import Options
from trimtab.core.writing import write_parquet
from trimtab.envs import choose
from trimtab.envs.own_environments import refuse_of_this_program
from trimtab.gradient.anatomy import ProbeResult, finite, shared_variance
from trimtab.gradient.measurements import with_start
from trimtab.gradient.noise import predict_variance
from trimtab.gradient.probe_options import ProbeOptions
from trimtab.math import stats
from trimtab.studies.elimination import (
    contenders,
    eliminate_splits,
    marginal,
    say_stage,
    stage_sentence,
)
from trimtab.studies.explanation import explanations
from trimtab.studies.job import Probe, Train
from trimtab.studies.split_result import (
    GradientEstimates,
    PredictedSplit,
    SplitEvidence,
    SplitResult,
    SplitRow,
    Stage,
    StageRow,
    estimates_of,
)
from trimtab.studies.store import Outcome
from trimtab.studies.study_engine import Outcomes, Study, Work
from trimtab.training.device import cores
from trimtab.training.resource_estimates import checkpoint_iterations
from trimtab.training.run import Run, learning_frame, load
from trimtab.training.run_dir import RunDir

LEAST_REPLICATES = 8  # iterations that a variance needs
PRECISION = 0.5  # of the variance: relative half-width of its interval, to which a probe draws more batches
CHECKPOINTS = 10  # of every run; stages are chosen among them
STAGES = {1: ("middle",), 2: ("early", "late"), 3: ("early", "middle", "late")}
MORE = 2  # seeds that a round adds to every split in question
MOST_SEEDS = 64  # of a split, where time is what is limited


@dataclass(frozen=True, kw_only=True)
class SplitOptions(Options):
    """How much effort to spend."""

    splits: str | None = None
    """Splits to measure, for example 4x256,16x64 (default: a ladder in factors of 4)."""
    run: str | None = None
    """Probe this run instead of training one."""
    seeds: int = 3
    """Seeds to train each split from scratch with at first (0: do not train)."""
    max_seeds: int = 9
    """Largest number of seeds for each undecided split."""
    budget: float | None = None
    """Time budget in minutes, using all cores, for extra seeds of undecided splits; replaces max_seeds."""
    points: int = 3
    """Stages of training at which every split is probed."""
    replicates: int = 32
    """Batches per probe, at least (more where the variance is imprecise)."""
    quick: bool = False
    """A first answer within a minute: fewer splits, 2 seeds, 2 stages and 16 replicates unless you give others."""


QUICK = {"seeds": 2, "max_seeds": 2, "points": 2, "replicates": 16}  # of a quick split, by default


SHORT, SHORTEST = 200_000, 100_000  # steps of a run by default, and of a quick split's


def effort(options: dict[str, Any]) -> SplitOptions:
    """Options of which only some were given; a quick split has less of the rest, and more seeds raise their limit."""
    chosen = (QUICK if options.get("quick") else {}) | options
    if "seeds" in options and "max_seeds" not in options:
        chosen["max_seeds"] = max(options["seeds"], chosen.get("max_seeds", SplitOptions.max_seeds))
    return SplitOptions(**chosen)


def longest(batch: int, splits: str | None) -> tuple[int, int]:
    """The split with the longest rows, which a configuration must fit first."""
    if batch < 4:
        raise ConfigError("batch", batch, "is too small to split; nearest: 4")
    return (_parse_splits(splits, batch) if splits else default_splits(batch, quick=False))[0]


def shortened(config: Config, batch: int, quick: bool) -> Config:
    """The configuration with as many steps as an answer needs, at most."""
    most = SHORTEST if quick else SHORT
    return config.replace(total_timesteps=max(batch, min(config.total_timesteps, most)))


def refuse_other_fields(config: Config, path: str, fields: dict[str, Any]) -> None:
    """Where a run is probed, its own configuration is what is trained; only the length may be another."""
    for name, value in fields.items():
        own = getattr(config, name)
        if name != "total_timesteps" and value != own:
            raise ConfigError(name, value, f"the run {path} has {own}; leave it out, or leave out the run")


def _check_split(options: SplitOptions) -> None:
    """Refuse efforts that mean nothing."""
    for name, least in (("seeds", 0), ("points", 1), ("replicates", 2)):
        if getattr(options, name) < least:
            raise ConfigError(name, getattr(options, name), f"must be at least {least}; nearest: {least}")
    if options.points > max(STAGES):
        raise ConfigError("points", options.points, f"there are {max(STAGES)} stages; nearest: {max(STAGES)}")
    if options.budget is not None and options.budget <= 0:
        raise ConfigError("budget", options.budget, "must be above 0 minutes; leave it out to use max_seeds")
    if options.max_seeds < options.seeds:
        raise ConfigError("max_seeds", options.max_seeds, f"must be at least seeds; nearest: {options.seeds}")


def _parse_splits(text: str, batch: int) -> list[tuple[int, int]]:
    """4x256,16x64 as pairs; each must multiply to the batch."""
    pairs = []
    for word in text.replace(" ", "").split(","):
        try:
            num_envs, num_steps = (int(part) for part in word.lower().replace("×", "x").split("x"))
        except ValueError:
            raise ConfigError("splits", word, "must look like 4x256") from None
        if num_envs * num_steps != batch:
            near = min(divisors(batch), key=lambda d: abs(d - max(num_envs, 1)))
            raise ConfigError(
                "splits", word, f"does not multiply to the batch {batch}; nearest: {near}x{batch // near}"
            )
        pairs.append((num_envs, num_steps))
    return sorted(set(pairs))


def default_splits(batch: int, quick: bool) -> list[tuple[int, int]]:
    """N from 4 up in factors of 4 while T stays at least 4 (three of them if quick);
    all divisors where there are few."""
    splits = [(n, batch // n) for n in (4**k for k in range(1, 10)) if batch % n == 0 and batch // n >= 4]
    if len(splits) < 2:
        every = divisors(batch)
        splits = [(n, batch // n) for n in every[:: max(1, len(every) // 4)]]
    return [splits[0], splits[1], splits[-1]] if quick and len(splits) > 3 else splits


@dataclass(frozen=True)
class Split(Study[SplitResult]):
    """Splits of one batch, of a configuration whose own number of environments is `own`."""

    kind: ClassVar[str] = "split"
    result: ClassVar[type[SplitResult]] = SplitResult
    config: Config
    batch: int
    own: int
    options: SplitOptions
    command: str = ""

    def __post_init__(self) -> None:
        _check_split(self.options)
        _ = self._steps_probed  # refuses a run that has nothing to probe

    @property
    def title(self) -> str:
        return f"split {self.config.env_id}, batch {self.batch}"

    def asked(self) -> dict[str, Any]:
        options = dataclasses.replace(self.options, run=self.base if isinstance(self.base, str) else None)
        config, values = self.config.as_dict(), dataclasses.asdict(options)
        return {"config": config, "batch": self.batch, "own": self.own, "options": values, "command": self.command}

    @classmethod
    def again(cls, values: dict[str, Any]) -> Split:
        config, options = configuration.from_dict(values["config"]), SplitOptions(**values["options"])
        return cls(config, values["batch"], values["own"], options, values["command"])

    def refuse(self) -> None:
        refuse_of_this_program(self.config.env_id)
        choose(self.config.env_id, self.config.backend)

    # What is done ------------------------------------------------------------------------------------------

    @cached_property
    def splits(self) -> list[tuple[int, int]]:
        options = self.options
        return (
            _parse_splits(options.splits, self.batch) if options.splits else default_splits(self.batch, options.quick)
        )

    def trained(self, split: tuple[int, int], seed: int) -> Train:
        """One split from scratch; `seed` counts from the configuration's."""
        num_envs, num_steps = split
        config = self.config.replace(num_envs=num_envs, num_steps=num_steps, seed=self.config.seed + seed)
        return Train(config, CHECKPOINTS)

    @cached_property
    def base(self) -> Train | str:
        """The run that is probed: the one that was named, or the longest split's first seed."""
        run = self.options.run
        return str(Path(run).resolve()) if run else self.trained(self.splits[0], 0)

    @cached_property
    def _base_config(self) -> Config:
        return load(self.base).config if isinstance(self.base, str) else self.base.config

    @cached_property
    def _steps_probed(self) -> list[int]:
        """The checkpoints of the stages: early is the first that was trained, late the last."""
        if isinstance(self.base, str):
            run = load(self.base)
            trained = run.files.manifest().started_from is not None  # before its first step
            steps = [c.step for c in run.checkpoints if c.step > 0 or trained]
            if not steps:
                raise ConfigError("run", self.base, "has no checkpoint after the first step")
        else:
            config = self.base.config
            steps = [k * config.batch for k in checkpoint_iterations(config.iterations, CHECKPOINTS)]
        middle = steps[(len(steps) - 1) // 2]
        chosen = {1: [middle], 2: [steps[0], steps[-1]], 3: [steps[0], middle, steps[-1]]}[self.options.points]
        return sorted(set(chosen))

    @cached_property
    def probes(self) -> dict[tuple[int, int], list[Probe]]:
        """Probes of every split at every stage. Shorter rows are predicted from the longest at one stage, the one that
        the table shows."""
        steps = self._steps_probed
        probes = {split: [self._probe(split, steps)] for split in self.splits}
        if blocks := tuple(self.between()):
            first, shown = self.splits[0], steps[len(steps) // 2]
            others = [step for step in steps if step != shown]
            probes[first] = [self._probe(first, [shown], blocks), *([self._probe(first, others)] if others else [])]
        return probes

    def _probe(self, split: tuple[int, int], steps: list[int], blocks: tuple[int, ...] = ()) -> Probe:
        num_envs, num_steps = split
        first = split == self.splits[0]
        options = ProbeOptions(
            num_envs=num_envs,
            num_steps=num_steps,
            replicates=max(LEAST_REPLICATES, self.options.replicates),
            precision=PRECISION,
            blocks=blocks,
            correlations=first or not self.options.quick,
        )
        return Probe(self.base, tuple(steps), options, sha256=self._checksums(steps))

    def _checksums(self, steps: list[int]) -> tuple[str, ...]:
        """Of the checkpoints of a run that is there already: trained again, its probes are other ones."""
        if not isinstance(self.base, str):
            return ()
        run = load(self.base).files
        return tuple(run.checkpoint_at(step).sha256 for step in steps)

    def _probed(self, split: tuple[int, int], outcomes: Outcomes) -> list[ProbeResult]:
        """The results of the probes of a split, stage by stage."""
        entries = [entry for job in self.probes[split] for entry in outcomes.of(job).result["probes"]]
        return sorted(map(ProbeResult.from_dict, entries), key=lambda probe: probe.step)

    def between(self) -> list[int]:
        """Smaller T that divide the longest measured one and are not measured themselves."""
        if self.config.whole_episodes:
            return []
        longest = self.splits[0][1]
        measured = {t for _, t in self.splits}
        smaller = [t for t in (longest >> k for k in range(1, 12)) if t >= 1 and longest % t == 0 and t not in measured]
        return smaller[:1] if self.options.quick else smaller[:3]

    def expected_steps(self) -> int:
        probes = [probe for each in self.probes.values() for probe in each]
        runs = sum(self.trained(s, 0).steps for s in self.splits) * self.options.seeds
        return (
            runs + sum(p.steps for p in probes) + (0 if self.options.seeds or self.options.run else self.config.steps)
        )

    # Rounds ------------------------------------------------------------------------------------------------

    @property
    def looks(self) -> int:
        """Times at which learning may rule something out, at the most."""
        return 1 + max(0, -(-(self._most - self.options.seeds) // MORE))

    @property
    def _most(self) -> int:
        """Seeds of a split, at the most."""
        return MOST_SEEDS if self.options.budget else self.options.max_seeds

    def work(self, out: Path) -> Work[SplitResult]:
        probes = [probe for each in self.probes.values() for probe in each]
        seeds = {split: self.options.seeds for split in self.splits}
        first = [self.trained(split, s) for s in range(self.options.seeds) for split in self.splits]
        # Probes need the base run only, so they come where other runs still fill the other cores.
        outcomes = yield [*first[: len(self.splits)], *probes, *first[len(self.splits) :]]
        while True:
            rows = [self._evidence(split, seeds[split], outcomes) for split in self.splits]
            undecided = contenders(rows, self.looks)
            open_ = [r for r in undecided if self._may_go_on(r, outcomes)]
            if len(undecided) < 2 or not open_ or not self.options.seeds:
                return self._answer(rows, seeds, outcomes)
            for row in open_:
                seeds[row.num_envs, row.num_steps] += min(MORE, self._most - row.seeds - row.failed)
            outcomes = yield [self.trained(split, s) for split in self.splits for s in range(seeds[split])]

    def _may_go_on(self, row: SplitEvidence, outcomes: Outcomes) -> bool:
        """Whether a split may have more seeds: of seeds, or of time as the jobs themselves took it."""
        spent = sum(outcome.seconds for outcome in outcomes.values()) / cores()
        timely = self.options.budget is None or spent < 60 * self.options.budget
        return timely and row.seeds + row.failed < self._most

    def _finished(self, split: tuple[int, int], seeds: int, outcomes: Outcomes) -> list[Outcome]:
        """The runs of a split that did not fail."""
        return [o for s in range(seeds) if (o := outcomes[self.trained(split, s).identity]).done]

    def _evidence(self, split: tuple[int, int], seeds: int, outcomes: Outcomes) -> SplitEvidence:
        runs = self._finished(split, seeds, outcomes)
        return SplitEvidence(
            num_envs=split[0],
            num_steps=split[1],
            areas=_numbers(runs, "area"),
            speeds=_numbers(runs, "fps"),
            stages=tuple(map(GradientEstimates.of, self._probed(split, outcomes))),
            improved=any(Run(o.path).improved for o in runs),
            seeds=len(runs),
            failed=seeds - len(runs),
        )

    # The answer --------------------------------------------------------------------------------------------

    def _answer(self, rows: list[SplitEvidence], seeds: dict[tuple[int, int], int], outcomes: Outcomes) -> SplitResult:
        config, steps = self._base_config, self._steps_probed
        failed = tuple(f"{o.job} failed and is not compared: {o.error}" for o in outcomes.values() if not o.done)
        middle = len(steps) // 2
        shown = [self._probed(split, outcomes)[middle] for split in self.splits]
        elimination, shared = eliminate_splits(rows, self.own, self.looks), _shared_signal(shown)
        table = [
            SplitRow(
                num_envs=row.num_envs,
                num_steps=row.num_steps,
                areas=row.areas,
                speeds=row.speeds,
                improved=row.improved,
                seeds=row.seeds,
                failed=row.failed,
                fps=_over_seeds(row.speeds),
                auc=_over_seeds(row.areas),
                final_return=_over_seeds(_numbers(self._finished(split, seeds[split], outcomes), "ep_rew_mean")),
                true_grad_sq=probe.true_grad_sq,
                exact=probe.exact,
                phases=probe.phases,
                lag_covariance=probe.lag_covariance,
                mse_relative=probe.mse.over(shared) if shared and probe.mse.resolved else UNRESOLVED,
                shared_grad_sq=shared,
                verdict=elimination.verdict_on(row.name),
                **estimates_of(probe),
            )
            for split, row, probe in zip(self.splits, rows, shown)
        ]
        stages = _stages(rows, steps)
        less = [entry.split for entry in elimination.ruled_out if entry.by == "learned less"]
        return SplitResult(
            env_id=config.env_id,
            algo=config.algo,
            batch=self.batch,
            gamma=config.gamma,
            gae_lambda=config.lambda_used,
            horizon_gamma=finite(config.horizon),
            horizon_gamma_lambda=finite(config.advantage_horizon),
            steps=tuple(steps),
            at=steps[middle],
            rows=tuple(table),
            stages=stages,
            stage_sentence=stage_sentence(stages),
            predicted=self._predicted(shown[0]),
            recommended=elimination.recommended,
            recommended_set=elimination.recommended_set,
            ruled_out=elimination.ruled_out,
            decided=elimination.decided,
            tie_break=elimination.tie_break,
            sentence=elimination.sentence,
            reasons=elimination.reasons,
            doubts=(*elimination.doubts, *failed),
            marginal=marginal(next(row for row in table if row.name == elimination.recommended)),
            explanations=explanations(table, less, config.advantage_horizon, config.stagger_resets),
            start=shown[0].options.start,
            failed=failed,
            command=self.command,
        )

    def _predicted(self, probe: ProbeResult) -> tuple[PredictedSplit, ...]:
        """Variances at splits not measured: blocks of the longest rows for smaller T, extrapolation for larger.

        Extrapolated: as if environments shared as much as at the measured T, and longer lags had no covariance.
        """
        (num_envs, num_steps), batch = self.splits[0], self.batch
        rows = [
            PredictedSplit(num_envs=batch // t, num_steps=t, variance=variance, extrapolated=False)
            for t, variance in probe.predicted.items()
            if batch % t == 0
        ]
        for factor in (2, 4):
            n, t = num_envs // factor, num_steps * factor
            if n >= 1 and num_envs % factor == 0:
                variance = predict_variance(np.asarray(probe.lag_covariance, float), n, t).value
                variance += (1 - 1 / n) * shared_variance(probe.variance_floor)
                rows.append(PredictedSplit(num_envs=n, num_steps=t, variance=unresolved(variance), extrapolated=True))
        return tuple(sorted(rows, key=lambda row: row.num_envs))

    def present(self, answer: SplitResult, outcomes: Outcomes, out: Path) -> None:
        from trimtab.show import (
            split_page,
            style,  # figures take long to import, and a study that only asks draws none
        )
        from trimtab.show.page_files import write_page

        probes = [probe for each in self.probes.values() for probe in each]
        tables = [outcomes.of(probe).path / "measurements.parquet" for probe in probes]
        measurements = pl.concat([with_start(reading.read_parquet(table)) for table in tables])
        write_parquet(out / "measurements.parquet", measurements)
        runs = [
            (f"{n}x{t}", s, outcomes.of(job).path)
            for n, t in self.splits
            for s in range(self._most)
            if (job := self.trained((n, t), s)).identity in outcomes and outcomes[job.identity].done
        ]
        base = Path(self.base) if isinstance(self.base, str) else outcomes.of(self.base).path
        manifest = RunDir.open(base).manifest()
        report = split_page.SplitReport(answer, self._base_config, manifest, measurements, learning_frame(runs))
        with style.drawing():
            figures = split_page.figures(report)
            write_page(out / "page.html", split_page.split_page(report, figures), figures)


def _numbers(runs: Sequence[Outcome], name: str) -> tuple[float, ...]:
    """A number of every run's summary that has it."""
    return tuple(o.result[name] for o in runs if o.result[name] is not None)


def _over_seeds(values: Sequence[float]) -> Estimate:
    """Mean over seeds with its 95% interval; inconclusive below two seeds."""
    if len(values) < 2:
        return unresolved(values[0]) if values else UNRESOLVED
    return stats.mean_interval(values)


def _stages(rows: Sequence[SplitEvidence], steps: Sequence[int]) -> tuple[Stage, ...]:
    """What was measured of every split at every stage."""
    stages = []
    for k, (stage, step) in enumerate(zip(STAGES[len(steps)], steps)):
        here = tuple(
            StageRow(
                num_envs=r.num_envs,
                num_steps=r.num_steps,
                covariance_share=_share(r.stages[k]),
                **estimates_of(r.stages[k]),
            )
            for r in rows
        )
        stages.append(Stage(stage, step, here, say_stage(here)))
    return tuple(stages)


def _share(estimates: GradientEstimates) -> Estimate:
    """The covariance term's share of the variance, the interval that of the covariance."""
    variance, covariance = estimates.variance, estimates.covariance
    if not variance.resolved or not variance.value or not covariance.known:
        return UNRESOLVED
    return covariance.over(variance.value)


def _shared_signal(probes: Sequence[ProbeResult]) -> float | None:
    """|G_T|², which all splits share: exact, or its estimate with the narrowest interval."""
    exact = [probe.exact.true_grad_sq for probe in probes if probe.exact]
    estimates = [probe.true_grad_sq for probe in probes if probe.true_grad_sq.resolved]
    if exact or not estimates:
        return exact[0] if exact else None
    return min(estimates, key=lambda e: (e.hi - e.lo) / e.value).value
