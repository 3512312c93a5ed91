"""`trimtab tune`: the phases of the tuning notes, one field at a time, and a fair comparison at the end.

Each sweep trains a few values of one field on a few seeds, everything else as found so far, and keeps the value with
the largest area under the learning curve. With so few seeds the winner of many trials is partly luck, so the end
decides: the best few configurations and the one it started from are trained on seeds that no sweep has seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from trimtab import config as configuration
from trimtab import stats
from trimtab.config import Config, ConfigError
from trimtab.estimate import Estimate
from trimtab.playbook import ladders
from trimtab.report import tune as report
from trimtab.runs.progress import Progress
from trimtab.runs.records import RunDir, RunError, write_atomically, write_json
from trimtab.runs.run import learning_frame, load
from trimtab.studies.workers import Task, run_all, train_task

SPEC = "tune.json"  # in the directory of a tuning: what was asked
FRESH = 1_000  # seeds of the last comparison start so far above those of the sweeps
FINALISTS = 3  # configurations in it, beside the one it started from

Values = Callable[[Config], tuple[Any, ...]]


PHASES: dict[str, dict[str, Values]] = {
    "throughput": {"num_envs": lambda c: (c.num_envs // 2, c.num_envs, 2 * c.num_envs, 4 * c.num_envs)},
    "stability": {
        "learning_rate": lambda c: (*ladders.LEARNING_RATES, c.learning_rate),
        "update_epochs": lambda c: (*ladders.EPOCHS, c.update_epochs),
        "max_grad_norm": lambda c: (*ladders.CLIP_NORMS, c.max_grad_norm),
    },
    "variance": {"norm_reward": lambda c: (False, True)},
    "horizon": {
        "gamma": lambda c: ladders.around(c.gamma, ladders.GAMMAS),
        "ent_coef": lambda c: tuple(
            float(f"{k * (c.ent_coef or ladders.ENTROPY['discrete']):.3g}") for k in ladders.ENTROPY_FACTORS
        ),
    },
    "polish": {
        "anneal_lr": lambda c: ("constant", "linear", "cosine"),
        "norm_obs": lambda c: (False, True),
        "weight_decay": lambda c: (0.0, 1e-4),
    },
}


@dataclass
class TuneOptions:
    """How much effort to spend."""

    phases: str = ",".join(PHASES)
    """Phases to go through, in order."""
    seeds: int = 2
    """Seeds of every trial."""
    final_seeds: int = 5
    """New seeds on which the best few and the start are compared at the end."""


@dataclass
class Trial:
    """One configuration and what it learned: the area under the learning curve and the speed on every seed."""

    number: int
    changes: dict[str, Any]
    areas: list[float] = field(default_factory=list)
    fps: list[float] = field(default_factory=list)

    @property
    def area(self) -> float:
        return float(np.mean(self.areas)) if self.areas else -np.inf


def check(options: TuneOptions) -> list[str]:
    """The phases asked for; refuses efforts that mean nothing."""
    for name, least in (("seeds", 1), ("final_seeds", 2)):
        if getattr(options, name) < least:
            raise ConfigError(name, getattr(options, name), f"must be at least {least}; nearest: {least}")
    wanted = [name for name in options.phases.replace(" ", "").split(",") if name]
    unknown = [name for name in wanted if name not in PHASES]
    if unknown or not wanted:
        raise ConfigError("phases", options.phases, f"must be some of {', '.join(PHASES)}")
    return wanted


def tune(config: Config, out: Path, options: TuneOptions, quiet: bool, command: str) -> dict[str, Any]:
    """Tune from `config` in a new directory; returns what `--json` prints."""
    check(options)
    write_json(out / SPEC, {"config": config.as_dict(), "options": asdict(options), "command": command})
    return resume(out, quiet)


def began(path: str | Path) -> bool:
    """Whether a directory holds a tuning, finished or not."""
    return (Path(path) / SPEC).is_file()


def resume(out: Path, quiet: bool) -> dict[str, Any]:
    """Do what is left of a tuning. Trials are numbered in the order they are met, so what was done is found again."""
    asked = json.loads((out / SPEC).read_text())
    config, options = configuration.from_dict(asked["config"]), TuneOptions(**asked["options"])
    work = _Work(config, out, options)
    try:
        with Progress(work.expected(), f"tune {config.env_id}", quiet, unit="runs") as work.bar:
            work.bar.start()
            sweeps = work.sweep_all()
            final = work.compare()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"`trimtab resume {out}` does what is left") from None
    return _answer(work, sweeps, final, asked["command"])


class _Work:
    """Trials met so far, and how they are run."""

    def __init__(self, config: Config, out: Path, options: TuneOptions):
        self.start, self.out, self.options = config, out, options
        self.phases = check(options)
        self.trials: list[Trial] = []
        self.best = self._trial({})
        self.fresh_seeds = self._seeds(FRESH, options.final_seeds)
        self.bar: Progress | None = None
        self.done = 0

    def config_of(self, trial: Trial) -> Config:
        return configuration.from_dict(trial.changes, self.start)

    def expected(self) -> int:
        """Runs there will be, more or less: a value that a sweep starts from is not trained twice."""
        values = [len(set(values(self.start))) for phase in self.phases for values in PHASES[phase].values()]
        return (1 + sum(n - 1 for n in values)) * self.options.seeds + (1 + FINALISTS) * self.options.final_seeds

    # Sweeps ----------------------------------------------------------------------------------------------

    def sweep_all(self) -> list[dict[str, Any]]:
        """Every sweep of every phase: the field, its trials, and the value that was kept."""
        self._train([self.best], self._seeds(0, self.options.seeds))
        return [self._sweep(phase, name) for phase in self.phases for name in PHASES[phase]]

    def _sweep(self, phase: str, name: str) -> dict[str, Any]:
        now = self.config_of(self.best)
        values = sorted(set(PHASES[phase][name](now)), key=lambda value: (value is None, value))
        tried = [(value, trial) for value in values if (trial := self._changed(name, value)) is not None]
        self._train([trial for _, trial in tried], self._seeds(0, self.options.seeds))
        before = self.best
        self.best = max([before, *(trial for _, trial in tried)], key=lambda t: t.area)
        return {
            "phase": phase,
            "field": name,
            "before": getattr(now, name),
            "kept": getattr(self.config_of(self.best), name),
            "trials": [{"value": value, "trial": t.number, "areas": t.areas, "fps": t.fps} for value, t in tried],
        }

    def _changed(self, name: str, value: Any) -> Trial | None:
        """The trial that has this value, everything else as found so far; None where the value is refused."""
        if getattr(self.config_of(self.best), name) == value:
            return self.best
        try:
            changes = self.best.changes | {name: value}
            configuration.from_dict(changes, self.start)
        except ConfigError:
            return None
        return self._trial(changes)

    def _trial(self, changes: dict[str, Any]) -> Trial:
        known = next((t for t in self.trials if t.changes == changes), None)
        if known is None:
            known = Trial(len(self.trials), changes)
            self.trials.append(known)
        return known

    # The comparison at the end ---------------------------------------------------------------------------

    def compare(self) -> list[Trial]:
        """The start and the best few on new seeds."""
        if len(self.trials) == 1:
            raise ConfigError("phases", self.options.phases, "holds no value to try beside the start's own")
        ranked = sorted(self.trials[1:], key=lambda t: -t.area)[:FINALISTS]
        final = [Trial(t.number, t.changes) for t in [self.trials[0], *ranked]]
        self._train(final, self.fresh_seeds)
        return final

    # Running ---------------------------------------------------------------------------------------------

    def _seeds(self, above: int, count: int) -> range:
        return range(self.start.seed + above, self.start.seed + above + count)

    def path(self, trial: Trial, seed: int) -> Path:
        return self.out / "trials" / f"{trial.number:03d}-seed{seed}"

    def _train(self, trials: list[Trial], seeds: range) -> None:
        """Train what has not been trained; areas and speeds end up in the trials."""
        fresh = [t for t in trials if not t.areas]
        tasks = {(t.number, s): self._task(t, s) for t in fresh for s in seeds}
        tick = lambda done, running: self.bar.update(self.done + len(done), f"best area {self.best.area:.4g};")
        outputs = run_all(list(tasks.values()), tick=tick, kept=self.out / "outputs") if tasks else {}
        self.done += len(tasks)
        for trial in fresh:
            for seed in seeds:
                found = load(self.path(trial, seed)).area
                if found is None:
                    steps = self.start.total_timesteps
                    raise RunError(f"no episode finished within {steps:,} steps; give more --total-timesteps")
                trial.areas.append(found)
                trial.fps.append(json.loads(outputs[tasks[trial.number, seed].name])["fps"])

    def _task(self, trial: Trial, seed: int) -> Task:
        values = self.config_of(trial).replace(seed=seed).as_dict()
        return train_task(f"trial {trial.number:03d} seed {seed}", values, self.path(trial, seed), self.out / "configs")


def _answer(work: _Work, sweeps: list[dict[str, Any]], final: list[Trial], command: str) -> dict[str, Any]:
    start, *others = final
    best = max(others, key=lambda t: t.area)
    gain = stats.mean_interval(np.subtract(best.areas, start.areas))
    config = work.config_of(best).replace(seed=work.start.seed)
    write_atomically(work.out / "tuned.yaml", yaml.safe_dump(config.as_dict(), sort_keys=False).encode())
    result = {
        "env_id": config.env_id,
        "algo": config.algo,
        "total_timesteps": config.total_timesteps,
        "changes": best.changes,
        "gain": gain.as_dict(),
        "better": gain.lo > 0,
        "sentence": _sentence(best, start, gain),
        "sweeps": sweeps,
        "final": [
            {"trial": t.number, "changes": t.changes, "areas": t.areas, **_interval(t.areas)} for t in (start, *others)
        ],
        "config": str(work.out / "tuned.yaml"),
        "page": str(work.out / "page.html"),
        "run": str(work.out),
        "command": command,
    }
    write_json(work.out / "result.json", result)
    runs = [(name, s, work.path(t, s)) for name, t in (("start", start), ("tuned", best)) for s in work.fresh_seeds]
    report.write_page(result, learning_frame(runs), RunDir.open(runs[0][2]).manifest(), work.out)
    return result


def _interval(areas: list[float]) -> dict[str, float]:
    found = stats.mean_interval(areas)
    return {"area": found.value, "lo": found.lo, "hi": found.hi}


def _sentence(best: Trial, start: Trial, gain: Estimate) -> str:
    """What the comparison on new seeds says, no more."""
    areas = f"the area under the learning curve is {best.area:.4g}, against {start.area:.4g} at the start"
    difference = f"{gain.value:+.3g} ({gain.lo:+.3g} to {gain.hi:+.3g}) on {len(best.areas)} new seeds"
    said = f"with {report.changed(best.changes)} {areas}: {difference}"
    if gain.lo > 0:
        return f"Better: {said}."
    if gain.hi < 0:
        return f"Worse, so keep the start: {said}."
    return f"Not told apart from the start: {said}."
