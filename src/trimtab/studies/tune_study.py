"""`trimtab tune`: the phases of the tuning notes, one field at a time, and a fair comparison at the end.

Each sweep trains a few values of one field on a few seeds, with the values that earlier sweeps kept, and keeps the
value with the largest area under the learning curve. With so few seeds the winner of many trials is partly luck, so a
final comparison decides: the best configurations and the start are trained on seeds that no sweep used, for longer if
asked (the fastest learner need not be the best at the end), and the doctor checks these runs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
import yaml

from trimtab import config as configuration
from trimtab.advise import remedies
from trimtab.advise.diagnosis import diagnose, tally
from trimtab.config import Config, ConfigError
from trimtab.core.errors import RunError
from trimtab.core.estimate import Estimate
from trimtab.core.options import Options
from trimtab.core.wording import nearest
from trimtab.core.writing import write_atomically
from trimtab.envs import Continuous, choose, look
from trimtab.envs.own_environments import refuse_of_this_program
from trimtab.math import stats
from trimtab.studies.job import Job, Train
from trimtab.studies.study_engine import Outcomes, Study, Work
from trimtab.studies.tune_result import Finalist, SweepResult, TriedValue, TuneResult, changed
from trimtab.training.run import learning_frame, load
from trimtab.training.run_dir import RunDir

SHORT = 100_000  # steps of a trial, by default
FRESH = 1_000  # seeds of the last comparison start so far above those of the sweeps
OWN = "own"  # the phase of values that the user gave
NOT_SWEPT = ("env_id", "backend", "env_kwargs", "time_limit", "seed", "total_timesteps")  # areas would not compare

Values = Callable[[Config], tuple[Any, ...]]


def _first_bonus(config: Config) -> float:
    """Where there is no entropy bonus yet: the one the notes begin with, by the actions."""
    action = look(config.env_id, config.backend, config.env_kwargs).action
    return remedies.ENTROPY["continuous" if isinstance(action, Continuous) else "discrete"]


PHASES: dict[str, dict[str, Values]] = {
    "throughput": {"num_envs": lambda c: (c.num_envs // 2, c.num_envs, 2 * c.num_envs, 4 * c.num_envs)},
    "stability": {
        "learning_rate": lambda c: (*remedies.LEARNING_RATES, c.learning_rate),
        "update_epochs": lambda c: (*remedies.EPOCHS, c.update_epochs),
        "max_grad_norm": lambda c: (*remedies.CLIP_NORMS, c.max_grad_norm),
    },
    "variance": {
        "norm_reward": lambda c: (False, True),
        "norm_value": lambda c: ("none", "popart"),
        "value_learning_rate": lambda c: tuple(
            k * c.learning_rate if k > 1 else None for k in remedies.VALUE_RATE_FACTORS
        ),
    },
    "horizon": {
        "gamma": lambda c: remedies.around(c.gamma, remedies.GAMMAS),
        "ent_coef": lambda c: (
            *(float(f"{k * (c.ent_coef or _first_bonus(c)):.3g}") for k in remedies.ENTROPY_FACTORS),
            c.ent_coef,
        ),
        # without a bonus there is nothing to let fall
        "ent_anneal": lambda c: (*(remedies.ENTROPY_ANNEALED if c.ent_coef else ()), c.ent_anneal),
    },
    "polish": {
        "anneal_lr": lambda c: ("constant", "linear", "cosine"),
        "norm_obs": lambda c: (False, True),
        "weight_decay": lambda c: (0.0, 1e-4),
    },
}


@dataclass(frozen=True, kw_only=True)
class TuneOptions(Options):
    """How much effort to spend."""

    phases: str | None = None
    """Phases to go through, in order, or single fields of them, as learning_rate (default: throughput, stability,
    variance, horizon, polish; none where sweep is given)."""
    sweep: dict[str, Any] = field(default_factory=dict)
    """Values of your own to try, of any field, as YAML: '{gae_lambda: [0.9, 0.98]}'; after the phases, if any."""
    seeds: int = 2
    """Seeds of every trial."""
    final_seeds: int = 5
    """New seeds for the final comparison of the best trials with the start."""
    final_timesteps: int | None = None
    """Steps of each run of the final comparison (default: those of a trial)."""
    finalists: int = 3
    """Number of best trials to compare with the start."""


@dataclass
class _Trial:
    """One configuration, and the area under the learning curve and the speed of every seed."""

    number: int
    changes: dict[str, Any]
    areas: list[float] = field(default_factory=list)
    fps: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)  # mean returns of the last episodes
    act: str = ""  # what the doctor would act on in its runs
    failed: str = ""  # why one of its runs failed

    @property
    def area(self) -> float:
        return float(np.mean(self.areas)) if self.areas else -np.inf


class _Trials(list[_Trial]):
    """Trials in the order of their first use, each set of changes once."""

    def of(self, changes: dict[str, Any]) -> _Trial:
        trial = next((t for t in self if t.changes == changes), None)
        if trial is None:
            trial = _Trial(len(self), changes)
            self.append(trial)
        return trial

    def best(self, count: int) -> list[_Trial]:
        """The best trials, without the start."""
        return sorted((t for t in self[1:] if not t.failed), key=lambda t: -t.area)[:count]


class _Sweep(NamedTuple):
    """One field, and its values to try from a configuration."""

    phase: str
    name: str
    values: Values


def _sweeps_of(options: TuneOptions, start: Config) -> list[_Sweep]:
    """The requested sweeps; refuses options that cannot work and values that the start cannot take."""
    for name, least in (("seeds", 1), ("final_seeds", 2), ("final_timesteps", 1), ("finalists", 1)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise ConfigError(name, value, f"must be at least {least}; nearest: {least}")
    every = [_Sweep(phase, name, values) for phase, fields in PHASES.items() for name, values in fields.items()]
    phases = options.phases if options.phases is not None else "" if options.sweep else ",".join(PHASES)
    sweeps: dict[str, _Sweep] = {}
    for word in [word for word in phases.replace(" ", "").split(",") if word]:
        chosen = [sweep for sweep in every if word in (sweep.phase, sweep.name)]
        if not chosen:
            near = nearest(word, [*PHASES, *(sweep.name for sweep in every)])
            like = f"; nearest: {', '.join(near)}" if near else ""
            raise ConfigError("phases", word, f"must be some of {', '.join(PHASES)}, or fields of them{like}")
        sweeps |= {sweep.name: sweep for sweep in chosen}
    sweeps |= {sweep.name: sweep for sweep in _own(options.sweep, start)}
    if not sweeps:
        raise ConfigError("phases", options.phases, f"must be some of {', '.join(PHASES)}, or fields of them")
    return list(sweeps.values())


def _own(sweep: dict[str, Any], start: Config) -> Iterator[_Sweep]:
    """The sweeps of the user's own values."""
    if not isinstance(sweep, dict):
        raise ConfigError("sweep", sweep, "must be a mapping of fields to values, as {gae_lambda: [0.9, 0.98]}")
    for name, values in sweep.items():
        if name in NOT_SWEPT:
            raise ConfigError("sweep", name, "cannot be swept: areas under the learning curve would not be comparable")
        if not isinstance(values, list | tuple) or not values:
            raise ConfigError("sweep", {name: values}, "must give each field a list of values, as [0.9, 0.98]")
        own = tuple(getattr(configuration.from_dict({name: value}, start), name) for value in values)
        yield _Sweep(OWN, name, partial(_beside, own, name))


def _beside(own: tuple[Any, ...], name: str, config: Config) -> tuple[Any, ...]:
    """The user's own values and the current one."""
    return (*own, getattr(config, name))


def shortened(config: Config) -> Config:
    """The configuration with the length of a trial, where none was given."""
    return config.replace(total_timesteps=min(config.total_timesteps, SHORT))


@dataclass(frozen=True)
class Tune(Study[TuneResult]):
    """The playbook's sweeps from a configuration, and the final comparison."""

    kind: ClassVar[str] = "tune"
    result: ClassVar[type[TuneResult]] = TuneResult
    start: Config
    options: TuneOptions
    command: str = ""
    own_steps: int = 0  # of the configuration itself, where trials are shorter

    def __post_init__(self) -> None:
        _sweeps_of(self.options, self.start)
        steps, batch = self.options.final_timesteps, self.start.batch
        if steps is not None and steps < batch:
            raise ConfigError("final_timesteps", steps, f"is less than one batch; nearest: {batch}")

    @property
    def title(self) -> str:
        return f"tune {self.start.env_id}"

    def asked(self) -> dict[str, Any]:
        about = {"command": self.command, "own_steps": self.own_steps}
        return {"config": self.start.as_dict(), "options": asdict(self.options), **about}

    @classmethod
    def again(cls, values: dict[str, Any]) -> Tune:
        config, options = configuration.from_dict(values["config"]), TuneOptions(**values["options"])
        return cls(config, options, values["command"], values.get("own_steps", 0))

    def refuse(self) -> None:
        refuse_of_this_program(self.start.env_id)
        choose(self.start.env_id, self.start.backend)
        if all(
            {getattr(self.start, s.name)} >= set(s.values(self.start)) for s in _sweeps_of(self.options, self.start)
        ):
            self._refuse_nothing_to_try()

    def _refuse_nothing_to_try(self) -> NoReturn:
        name, given = ("phases", self.options.phases) if self.options.phases else ("sweep", self.options.sweep)
        raise ConfigError(name, given, "has no value to try other than the current one")

    def expected_steps(self) -> int:
        """An estimate: a value that a sweep starts from is not trained twice."""
        options = self.options
        values = [len(set(sweep.values(self.start))) for sweep in _sweeps_of(options, self.start)]
        trials = (1 + sum(n - 1 for n in values)) * options.seeds * self.start.steps
        return trials + (1 + options.finalists) * options.final_seeds * self.compared.steps

    # What is done ------------------------------------------------------------------------------------------

    def config_of(self, trial: _Trial) -> Config:
        return configuration.from_dict(trial.changes, self.start)

    @property
    def compared(self) -> Config:
        """The start with the length of the final comparison."""
        return self.start.replace(total_timesteps=self.options.final_timesteps or self.start.total_timesteps)

    def runs(self, trial: _Trial) -> list[Train]:
        """The runs of a trial on the seeds of the sweeps."""
        return [Train(self.config_of(trial).replace(seed=seed), checkpoints=1) for seed in self.sweep_seeds]

    def final_runs(self, trial: _Trial) -> list[Train]:
        """The runs of a trial on new seeds, as long as the last comparison asks for."""
        config = configuration.from_dict(trial.changes, self.compared)
        return [Train(config.replace(seed=seed), checkpoints=1) for seed in self.fresh_seeds]

    @property
    def sweep_seeds(self) -> range:
        return range(self.start.seed, self.start.seed + self.options.seeds)

    @property
    def fresh_seeds(self) -> range:
        return range(self.start.seed + FRESH, self.start.seed + FRESH + self.options.final_seeds)

    def work(self, out: Path) -> Work[TuneResult]:
        """Sweep after sweep, each from the values that earlier sweeps kept; then the comparison on new seeds."""
        trials = _Trials()
        best = trials.of({})
        yield from self._train([best], self.runs)
        sweeps = []
        for sweep in _sweeps_of(self.options, self.start):
            tried = self._tried(trials, best, sweep)
            yield from self._train([trial for _, trial in tried], self.runs)
            before, best = best, max([best, *(trial for _, trial in tried)], key=lambda t: t.area)
            sweeps.append(self._swept(sweep, before, best, tried))
        if len(trials) == 1:
            self._refuse_nothing_to_try()
        best_few = trials.best(self.options.finalists)
        if not best_few:
            raise RunError(f"every tried value failed; the last: {trials[-1].failed}")
        final = [_Trial(t.number, t.changes) for t in [trials[0], *best_few]]
        outcomes = yield from self._train(final, self.final_runs)
        for trial in final:
            if not trial.failed:
                trial.act = tally([_acts(outcomes.of(job).path) for job in self.final_runs(trial)])
        return self._answer(sweeps, final, trials)

    def _train(
        self, trials: list[_Trial], runs_of: Callable[[_Trial], list[Train]]
    ) -> Generator[Sequence[Job], Outcomes, Outcomes]:
        """Train the new trials and record their areas. Only the start must not fail."""
        fresh = [t for t in trials if not t.areas and not t.failed]
        outcomes = yield [job for trial in fresh for job in runs_of(trial)]
        for trial in fresh:
            jobs = runs_of(trial)
            errors = [e for job in jobs if (e := outcomes[job.identity].error)]
            if errors and trial.changes:
                trial.failed = errors[0]
                continue
            results = [outcomes.of(job).result for job in jobs]
            if any(result["area"] is None for result in results):
                problem = f"no episode finished within {jobs[0].config.total_timesteps:,} steps"
                if not trial.changes:
                    raise RunError(f"{problem}; give more --total-timesteps")
                trial.failed = problem
                continue
            trial.areas, trial.fps = [r["area"] for r in results], [r["fps"] for r in results]
            trial.ends = [r["ep_rew_mean"] for r in results]
        return outcomes

    def _tried(self, trials: _Trials, best: _Trial, sweep: _Sweep) -> list[tuple[Any, _Trial]]:
        """The values of one field, each with its trial; values that the configuration refuses are left out."""
        now, name = self.config_of(best), sweep.name
        values = sorted(set(sweep.values(now)), key=lambda value: (value is None, value))
        candidates = []
        for value in values:
            if getattr(now, name) == value:
                candidates.append((value, best))
                continue
            changes = best.changes | {name: value}
            try:
                configuration.from_dict(changes, self.start)
            except ConfigError:
                continue
            candidates.append((value, trials.of(changes)))
        return candidates

    def _swept(self, sweep: _Sweep, before: _Trial, best: _Trial, tried: Sequence[tuple[Any, _Trial]]) -> SweepResult:
        old, kept = (getattr(self.config_of(trial), sweep.name) for trial in (before, best))
        values = (TriedValue(value, t.number, tuple(t.areas), tuple(t.fps), t.failed) for value, t in tried)
        return SweepResult(sweep.phase, sweep.name, old, kept, tuple(values))

    # The answer --------------------------------------------------------------------------------------------

    def _answer(self, sweeps: Sequence[SweepResult], final: list[_Trial], trials: _Trials) -> TuneResult:
        start, *others = final = [t for t in final if not t.failed]
        if not others:
            raise RunError("all finalists failed on the new seeds; keep the start")
        best = max(others, key=lambda t: t.area)
        # The best of several is picked by the areas it is then judged by: the interval allows for the choice.
        gain = stats.mean_interval(np.subtract(best.areas, start.areas), 1 - 0.05 / len(others))
        config, better = configuration.from_dict(best.changes, self.compared), gain.lo > 0
        found, tuned = (
            each.replace(total_timesteps=max(each.total_timesteps, self.own_steps)).as_dict()
            for each in (config, config if better else self.compared)
        )
        return TuneResult(
            env_id=config.env_id,
            algo=config.algo,
            total_timesteps=self.start.total_timesteps,
            final_timesteps=config.total_timesteps,
            changes=best.changes,
            gain=gain,
            better=better,
            sentence=_sentence(best, start, gain, len(others)) + self._length(),
            sweeps=tuple(sweeps),
            final=tuple(map(_compared, final)),
            failed=tuple(f"{changed(t.changes)}: {t.failed}" for t in trials if t.failed),
            found=found,
            tuned=tuned,
            command=self.command,
        )

    def _length(self) -> str:
        """A note if the comparison is shorter than the training that the configuration asks for."""
        steps = self.compared.total_timesteps
        if steps >= self.own_steps:
            return ""
        short = f" Compared over {steps:,} of the {self.own_steps:,} steps that this configuration trains"
        return f"{short}: the fastest learner need not be the best at the end (--final-timesteps {self.own_steps})."

    def present(self, answer: TuneResult, outcomes: Outcomes, out: Path) -> None:
        from trimtab.show.tune_page import write_page

        for name, fields in (("tuned", answer.tuned), ("found", answer.found)):
            write_atomically(out / f"{name}.yaml", yaml.safe_dump(dict(fields), sort_keys=False).encode())
        chosen = {"start": _Trial(0, {}), "best trial": _Trial(1, dict(answer.changes))}
        runs = [
            (name, job.config.seed, outcomes.of(job).path)
            for name, trial in chosen.items()
            for job in self.final_runs(trial)
        ]
        write_page(answer, learning_frame(runs), RunDir.open(runs[0][2]).manifest())


def _acts(path: Path) -> list[str]:
    """What the doctor would act on in a run."""
    return diagnose(load(path)).acts


def _compared(trial: _Trial) -> Finalist:
    """A configuration of the last comparison: what was changed, what it learned, what the doctor says."""
    area, end = stats.mean_interval(trial.areas), stats.mean_interval(trial.ends)
    areas, ends = tuple(trial.areas), tuple(trial.ends)
    return Finalist(trial.number, trial.changes, areas, area.value, area.lo, area.hi, ends, end, trial.act)


def _sentence(best: _Trial, start: _Trial, gain: Estimate, among: int) -> str:
    """The result of the comparison on new seeds in a sentence."""
    areas = f"the area under the learning curve is {best.area:.4g}, against {start.area:.4g} at the start"
    difference = f"{gain.value:+.3g} ({gain.lo:+.3g} to {gain.hi:+.3g}) on {len(best.areas)} new seeds"
    difference += f", in an interval that allows for picking the best of {among}" if among > 1 else ""
    comparison = f"with {changed(best.changes)} {areas}: {difference}"
    doctor = f" The doctor would act on its {best.act} runs." if best.act else ""
    if gain.lo > 0:
        return f"Better: {comparison}.{doctor}"
    if gain.hi < 0:
        return f"Worse, so keep the start: {comparison}."
    apart = "; every seed of it is above every seed of the start" if min(best.areas) > max(start.areas) else ""
    return f"No significant difference from the start: {comparison}{apart}.{doctor}"
