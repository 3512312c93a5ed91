"""`trimtab split`: how should a batch be split into N environments × T steps?

Trains (or takes) a run, probes every split at several points of it, trains every split from scratch on a few seeds, and
weighs what it found. All the work happens in `trimtab train` and `trimtab probe` processes, one per core. What each of
them printed is kept, so that an interrupted split goes on with what is left.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from trimtab import config as configuration
from trimtab import stats
from trimtab.anatomy.noise import predict_variance
from trimtab.anatomy.options import SplitOptions
from trimtab.config import Config, ConfigError
from trimtab.runs.progress import Progress
from trimtab.runs.records import RunDir, RunError, write_atomically, write_json
from trimtab.runs.run import learning_frame, load
from trimtab.studies.weighing import marginal, name_of, recommend
from trimtab.studies.workers import Task, run_all, train_task

ESTIMATES = ("variance", "individual", "covariance", "bias_sq", "mse", "grad_sq", "ess")
SPEC = "split.json"  # in the directory of a split: what was asked
MOST_ROWS = 2048  # rows per probe: enough for tight intervals, few enough for a bootstrap in a second


def parse_splits(text: str, batch: int) -> list[tuple[int, int]]:
    """4x256,16x64 as pairs; each must multiply to the batch."""
    pairs = []
    for word in text.replace(" ", "").split(","):
        try:
            num_envs, num_steps = (int(part) for part in word.lower().replace("×", "x").split("x"))
        except ValueError:
            raise ConfigError("splits", word, "must look like 4x256") from None
        if num_envs * num_steps != batch:
            divisors = [d for d in range(1, batch + 1) if batch % d == 0]
            near = min(divisors, key=lambda d: abs(d - max(num_envs, 1)))
            raise ConfigError(
                "splits", word, f"does not multiply to the batch {batch}; nearest: {near}x{batch // near}"
            )
        pairs.append((num_envs, num_steps))
    return sorted(set(pairs))


def default_splits(batch: int, quick: bool) -> list[tuple[int, int]]:
    """N from 4 up in factors of 4 while T stays at least 4 (three of them if quick);
    all divisors where there are few."""
    found = [(n, batch // n) for n in (4**k for k in range(1, 10)) if batch % n == 0 and batch // n >= 4]
    if len(found) < 2:
        divisors = [d for d in range(1, batch + 1) if batch % d == 0]
        chosen = divisors[:: max(1, len(divisors) // 4)]
        found = [(n, batch // n) for n in chosen]
    return [found[0], found[1], found[-1]] if quick and len(found) > 3 else found


@dataclass(frozen=True)
class Spec:
    """All that was asked of a split."""

    config: Config
    batch: int
    options: SplitOptions
    command: str


def split(spec: Spec, out: Path, quiet: bool) -> dict[str, Any]:
    """Do it all in a new directory `out`; returns what `--json` prints."""
    given = spec.options.run
    options = dataclasses.replace(spec.options, run=str(Path(given).resolve()) if given else None)
    asked = {"config": spec.config.as_dict(), "batch": spec.batch, "options": vars(options), "command": spec.command}
    _Plan(spec, out)  # refuses what cannot be, before anything is written
    write_json(out / SPEC, asked)
    try:
        return resume(out, quiet)
    except RunError:
        if not (out / "outputs").exists():  # nothing was done: an environment that is not there, say
            shutil.rmtree(out)
        raise


def began(path: str | Path) -> bool:
    """Whether a directory holds a split, finished or not."""
    return (Path(path) / SPEC).is_file()


def resume(out: Path, quiet: bool) -> dict[str, Any]:
    """Do what is left of a split, and write its page, figures and table."""
    asked = json.loads((out / SPEC).read_text())
    config, options = configuration.from_dict(asked["config"]), SplitOptions(**asked["options"])
    spec = Spec(config, asked["batch"], options, asked["command"])
    plan = _Plan(spec, out)
    tasks = plan.tasks()
    try:
        with Progress(len(tasks), f"split {config.env_id}, batch {spec.batch}", quiet, unit="tasks") as bar:
            bar.start()
            tick = lambda done, running: bar.update(len(done), f"now: {', '.join(sorted(running)) or 'reading'};")
            outputs = run_all(tasks, tick=tick, kept=out / "outputs")
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"`trimtab resume {out}` does what is left") from None
    return _answer(plan, outputs, spec)


class _Plan:
    """The commands of a split, in the order they should run."""

    def __init__(self, spec: Spec, out: Path):
        options, batch = spec.options, spec.batch
        self.splits = parse_splits(options.splits, batch) if options.splits else default_splits(batch, options.quick)
        self.asked, self.out, self.options = spec.config, out, options
        self.checkpoints = max(2, options.points + 1)
        if options.run:
            self.base, self.config = Path(options.run), load(options.run).config
            self.points = self._chosen([c.step for c in load(options.run).checkpoints if c.step > 0])
        else:
            self.base, self.config = out / "base", self._as(self.asked, self.splits[0])
            ends = {round(k * self.config.iterations / self.checkpoints) for k in range(1, self.checkpoints + 1)}
            self.points = self._chosen([i * self.config.batch for i in sorted(ends) if i > 0])
        self.seeds = range(self.asked.seed, self.asked.seed + options.seeds)

    def tasks(self) -> list[Task]:
        """Runs that were begun are resumed; the configurations of new ones are written."""
        base = [] if self.options.run else [self._train("base", self.config, self.base, self.checkpoints)]
        scratch = [
            self._train(
                f"train {n}x{t} seed {s}", self._as(self.asked, (n, t)).replace(seed=s), self.trained(n, t, s), 1
            )
            for s in self.seeds
            for n, t in self.splits
        ]
        ready = tuple(task.name for task in base)
        probes = [self._probe(n, t, ready, first=(n, t) == self.splits[0]) for n, t in self.splits]
        # The base run gates the probes, so training from scratch fills the other cores meanwhile.
        return base + scratch[: len(self.splits)] + probes + scratch[len(self.splits) :]

    def _as(self, config: Config, split: tuple[int, int]) -> Config:
        num_envs, num_steps = split
        return config.replace(num_envs=num_envs, num_steps=num_steps)

    def _chosen(self, steps: list[int]) -> list[int]:
        """As many points as asked for, spread over training, the untrained policy left out."""
        if not steps:
            raise ConfigError("run", str(self.base), "has no checkpoint after the first step")
        count = min(self.options.points, len(steps))
        return sorted({steps[round((k + 0.5) * len(steps) / count - 0.5)] for k in range(count)})

    def trained(self, n: int, t: int, seed: int) -> Path:
        return self.out / "runs" / f"{n}x{t}-seed{seed}"

    def _train(self, name: str, config: Config, path: Path, checkpoints: int) -> Task:
        return train_task(name, config.as_dict(), path, self.out / "configs", checkpoints)

    def _probe(self, n: int, t: int, after: tuple[str, ...], first: bool) -> Task:
        replicates = max(8, min(self.options.replicates, MOST_ROWS // n))
        argv = ["probe", str(self.base), "--num-envs", str(n), "--num-steps", str(t), "--replicates", str(replicates)]
        argv += ["--at", *map(str, self.points), "--json"]
        blocks = self.between() if first else []
        if blocks:
            argv += ["--blocks", *map(str, blocks)]
        if self.options.quick and not first:
            argv += ["--correlations", "false"]
        return Task(f"probe {n}x{t}", argv, after)

    def between(self) -> list[int]:
        """Smaller T that divide the longest measured one and are not measured themselves."""
        if self.config.algo == "reinforce" and not self.config.baseline:
            return []  # it learns from whole episodes only
        longest = self.splits[0][1]
        measured = {t for _, t in self.splits}
        found = [t for t in (longest >> k for k in range(1, 12)) if t >= 1 and longest % t == 0 and t not in measured]
        return found[:1] if self.options.quick else found[:3]


# Weighing what was found -----------------------------------------------------------------------------------


def _answer(plan: _Plan, outputs: dict[str, str], spec: Spec) -> dict[str, Any]:
    from trimtab.report import style
    from trimtab.report.split import page

    config, middle = plan.config, plan.points[len(plan.points) // 2]
    gae_lambda = 1.0 if config.algo == "reinforce" else config.gae_lambda
    found = {(n, t): json.loads(outputs[f"probe {n}x{t}"]) for n, t in plan.splits}
    probes = {n_t: probed["probes"] for n_t, probed in found.items()}
    tables = [plan.base / "probes" / Path(probed["table"]).name for probed in found.values()]
    measurements = pl.concat([pl.read_parquet(table) for table in tables])
    rows = [_row(plan, n, t, next(p for p in probes[n, t] if p["step"] == middle), outputs) for n, t in plan.splits]
    _relative(rows)
    weighed = recommend(rows)
    result = {
        "env_id": config.env_id,
        "algo": config.algo,
        "batch": spec.batch,
        "gamma": config.gamma,
        "gae_lambda": gae_lambda,
        "horizon_gamma": _horizon(config.gamma),
        "horizon_gamma_lambda": _horizon(config.gamma * gae_lambda),
        "steps": plan.points,
        "at": middle,
        "rows": rows,
        "predicted": _predicted(plan, probes, middle, spec.batch),
        **weighed,
        "marginal": marginal(next(r for r in rows if name_of(r) == weighed["recommended"])),
        "command": spec.command,
        "run": str(plan.out),
        "page": str(plan.out / "page.html"),
    }
    write_json(plan.out / "result.json", result)
    measurements.write_parquet(plan.out / "measurements.parquet")
    drawn = result | {
        "config": config.as_dict(),
        "derived": config.derived(),
        "measurements": measurements,
        "curves": learning_frame([(f"{n}x{t}", s, plan.trained(n, t, s)) for n, t in plan.splits for s in plan.seeds]),
        "manifest": RunDir.open(plan.base).manifest(),
    }
    write_atomically(plan.out / "page.html", page.split_page(drawn).encode())
    for name, chart in page.figures(drawn).items():
        for suffix in (".svg", ".png", ".pdf"):
            style.save(chart, plan.out / "figures" / f"{name}{suffix}")
    return result


def _horizon(discount: float) -> float | None:
    return None if discount >= 1 else 1 / (1 - discount)


def _row(plan: _Plan, n: int, t: int, probe: dict[str, Any], outputs: dict[str, str]) -> dict[str, Any]:
    summaries = [json.loads(outputs[f"train {n}x{t} seed {s}"]) for s in plan.seeds]
    areas = [load(plan.trained(n, t, s)).area for s in plan.seeds]
    return {
        "num_envs": n,
        "num_steps": t,
        **{name: probe[name] for name in ESTIMATES},
        "true_grad_sq": probe["true_grad_sq"],
        "exact": probe.get("exact") or {},
        "lag_covariance": probe["lag_covariance"],
        "fps": _over_seeds([s["fps"] for s in summaries]),
        "auc": _over_seeds([a for a in areas if a is not None]),
        "final_return": _over_seeds([s["ep_rew_mean"] for s in summaries if s["ep_rew_mean"] is not None]),
        "improved": any(improved(plan.trained(n, t, s)) for s in plan.seeds),
        "seeds": len(summaries),
    }


def improved(path: Path) -> bool:
    """Whether the last quarter of a run's episodes returned more than the first, by three standard errors."""
    returns = RunDir.open(path).episodes()["return"].to_numpy()
    quarter = len(returns) // 4
    if quarter < 2:
        return False
    return stats.difference(returns[:quarter], returns[-quarter:]).lo > 0


def _over_seeds(values: list[float]) -> dict[str, Any]:
    """Mean over seeds with its 95% interval; not resolved below two seeds."""
    return stats.mean_interval(values).as_dict()


def _relative(rows: list[dict[str, Any]]) -> None:
    """Divide MSE by |G_T|², which all splits share: the best-resolved estimate of it (or the exact one)."""
    exact = [r["exact"]["true_grad_sq"] for r in rows if r["exact"]]
    usable = [r["true_grad_sq"] for r in rows if r["true_grad_sq"]["resolved"]]
    shared = exact[0] if exact else None
    if shared is None and usable:
        shared = min(usable, key=lambda e: (e["hi"] - e["lo"]) / e["value"])["value"]
    for row in rows:
        mse = row["mse"]
        scaled = shared is not None and mse["resolved"]
        row["mse_relative"] = {
            k: mse[k] / shared if scaled and mse[k] is not None else None for k in ("value", "lo", "hi")
        }
        row["mse_relative"]["resolved"] = scaled
        row["shared_grad_sq"] = shared


def _predicted(plan: _Plan, probes, middle: int, batch: int) -> list[dict[str, Any]]:
    """Variances at splits not measured: blocks of the longest rows for smaller T, extrapolation for larger."""
    longest = plan.splits[0]
    probe = next(p for p in probes[longest] if p["step"] == middle)
    found = [
        {"num_envs": batch // int(t), "num_steps": int(t), "variance": e, "extrapolated": False}
        for t, e in probe.get("predicted", {}).items()
        if batch % int(t) == 0
    ]
    for factor in (2, 4):
        n, t = longest[0] // factor, longest[1] * factor
        if n >= 1 and longest[0] % factor == 0:
            value = predict_variance(probe["lag_covariance"], n, t).value
            estimate = {"value": value, "lo": None, "hi": None, "resolved": False}
            found.append({"num_envs": n, "num_steps": t, "variance": estimate, "extrapolated": True})
    return sorted(found, key=lambda p: p["num_envs"])
