"""`trimtab split`: how should a batch be split into N environments × T steps?

Trains (or takes) a run, probes every split at several points of it, trains every split from scratch on a few seeds, and
weighs what it found. All the work happens in `trimtab train` and `trimtab probe` processes, one per core.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from trimtab import stats
from trimtab.anatomy.noise import predict_variance
from trimtab.anatomy.options import SplitOptions
from trimtab.config import Config, ConfigError
from trimtab.progress import Progress
from trimtab.records import RunDir, write_atomically
from trimtab.run import load
from trimtab.workers import Task, run_all

ESTIMATES = ("variance", "individual", "covariance", "bias_sq", "mse", "grad_sq", "ess")
SAME_SPEED = 0.1  # speeds that differ by less are called the same: they differ as much from one minute to the next
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


def split(config: Config, batch: int, out: Path, options: SplitOptions, quiet: bool, command: str) -> dict[str, Any]:
    """Do it all; returns what `--json` prints and writes the page, figures and table under `out`."""
    splits = parse_splits(options.splits, batch) if options.splits else default_splits(batch, options.quick)
    if options.quick:
        options.seeds, options.points, options.replicates = min(options.seeds, 1), 1, min(options.replicates, 16)
    out.mkdir(parents=True, exist_ok=True)
    plan = _Plan(config, splits, out, options)
    with Progress(len(plan.tasks), f"split {config.env_id}, batch {batch}", quiet, unit="tasks") as bar:
        bar.start()
        tick = lambda done, running: bar.update(len(done), f"now: {', '.join(sorted(running)) or 'reading'};")
        outputs = run_all(plan.tasks, tick=tick)
    return _answer(plan, outputs, batch, command)


class _Plan:
    """The commands of a split, in the order they should run."""

    def __init__(self, config: Config, splits: list[tuple[int, int]], out: Path, options: SplitOptions):
        self.splits, self.out, self.options = splits, out, options
        longest = splits[0]
        self.config = self._as(config, longest)
        self.base = Path(options.run) if options.run else out / "base"
        self.tasks: list[Task] = []
        if options.run:
            self.config = load(options.run).config
            self.points = self._chosen([c.step for c in load(options.run).checkpoints if c.step > 0])
            ready: tuple[str, ...] = ()
        else:
            self.tasks.append(self._train("base", self.config, self.base, checkpoints=max(2, options.points + 1)))
            count = max(2, options.points + 1)
            iterations = sorted({round(k * self.config.iterations / count) for k in range(1, count + 1)})
            self.points = self._chosen([i * self.config.batch for i in iterations])
            ready = ("base",)
        scratch = [
            self._train(f"train {n}x{t} seed {s}", self._as(config, (n, t)).replace(seed=s), self.trained(n, t, s))
            for s in range(config.seed, config.seed + options.seeds)
            for n, t in splits
        ]
        probes = [self._probe(n, t, ready, first=(n, t) == longest) for n, t in splits]
        # The base run gates the probes, so training from scratch fills the other cores meanwhile.
        self.tasks += scratch[: len(splits)] + probes + scratch[len(splits) :]

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

    def _train(self, name: str, config: Config, path: Path, checkpoints: int = 1) -> Task:
        file = self.out / "configs" / f"{name.replace(' ', '-')}.yaml"
        write_atomically(file, yaml.safe_dump(config.as_dict(), sort_keys=False).encode())
        argv = ["train", "--config", str(file), "--run-dir", str(path), "--checkpoints", str(checkpoints), "--json"]
        return Task(name, argv)

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
        longest = self.splits[0][1]
        measured = {t for _, t in self.splits}
        found = [t for t in (longest >> k for k in range(1, 12)) if t >= 1 and longest % t == 0 and t not in measured]
        return found[:1] if self.options.quick else found[:3]


# Weighing what was found -----------------------------------------------------------------------------------


def _answer(plan: _Plan, outputs: dict[str, str], batch: int, command: str) -> dict[str, Any]:
    from trimtab.report import build, charts

    config, middle = plan.config, plan.points[len(plan.points) // 2]
    probes = {n_t: json.loads(outputs[f"probe {n_t[0]}x{n_t[1]}"])["probes"] for n_t in plan.splits}
    frames = [pl.read_parquet(p) for p in sorted((plan.base / "probes").glob("*.parquet"))]
    measurements = pl.concat(frames)
    rows = [_row(plan, n, t, next(p for p in probes[n, t] if p["step"] == middle), outputs) for n, t in plan.splits]
    _relative(rows)
    weighed = recommend(rows)
    result = {
        "env_id": config.env_id,
        "algo": config.algo,
        "batch": batch,
        "gamma": config.gamma,
        "gae_lambda": config.gae_lambda,
        "horizon_gamma": _horizon(config.gamma),
        "horizon_gamma_lambda": _horizon(config.gamma * config.gae_lambda),
        "steps": plan.points,
        "at": middle,
        "rows": rows,
        "predicted": _predicted(plan, rows, probes, middle, batch),
        **weighed,
        "marginal": marginal(next(r for r in rows if _name(r) == weighed["recommended"]), probes, middle),
        "command": command,
        "run": str(plan.out),
        "page": str(plan.out / "page.html"),
    }
    write_atomically(plan.out / "result.json", (json.dumps(result, indent=2) + "\n").encode())
    measurements.write_parquet(plan.out / "measurements.parquet")
    drawn = result | {
        "config": config.as_dict(),
        "derived": config.derived(),
        "measurements": measurements,
        "curves": _curves(plan),
        "manifest": RunDir.open(plan.base).manifest(),
    }
    write_atomically(plan.out / "page.html", build.split_page(drawn).encode())
    for name, chart in build.figures(drawn).items():
        for suffix in (".svg", ".png", ".pdf"):
            charts.save(chart, plan.out / "figures" / f"{name}{suffix}")
    return result


def _horizon(discount: float) -> float | None:
    return None if discount >= 1 else 1 / (1 - discount)


def _name(row: dict[str, Any]) -> str:
    return f"{row['num_envs']}x{row['num_steps']}"


def _row(plan: _Plan, n: int, t: int, probe: dict[str, Any], outputs: dict[str, str]) -> dict[str, Any]:
    seeds = range(plan.config.seed, plan.config.seed + plan.options.seeds)
    summaries = [json.loads(outputs[f"train {n}x{t} seed {s}"]) for s in seeds]
    areas = [area(plan.trained(n, t, s)) for s in seeds]
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
        "improved": any(improved(plan.trained(n, t, s)) for s in seeds),
        "seeds": len(summaries),
    }


def area(path: Path) -> float | None:
    """Area under the learning curve over the steps it spans: every step counts with the return of its episode.

    Finished episodes weighted by their lengths; unlike a running mean, this does not lag more with more environments.
    """
    episodes = RunDir.open(path).episodes()
    steps = float(episodes["length"].sum())
    return float((episodes["return"] * episodes["length"]).sum()) / steps if steps else None


def improved(path: Path) -> bool:
    """Whether the last quarter of a run's episodes returned more than the first, by three standard errors."""
    returns = RunDir.open(path).episodes()["return"].to_numpy()
    quarter = len(returns) // 4
    if quarter < 2:
        return False
    first, last = returns[:quarter], returns[-quarter:]
    error = math.sqrt((first.var(ddof=1) + last.var(ddof=1)) / quarter)
    return bool(last.mean() - first.mean() > 3 * error)


def _over_seeds(values: list[float]) -> dict[str, Any]:
    """Mean over seeds with its 95% interval; not resolved below two seeds."""
    if not values:
        return {"value": None, "lo": None, "hi": None, "resolved": False}
    if len(values) == 1:
        return {"value": values[0], "lo": None, "hi": None, "resolved": False}
    mean, lo, hi = stats.mean_interval(values)
    return {"value": mean, "lo": lo, "hi": hi, "resolved": True}


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


def _predicted(plan: _Plan, rows, probes, middle: int, batch: int) -> list[dict[str, Any]]:
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


def recommend(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The split to use, why, and how sure.

    Splits than which no other learned measurably more are kept; of these, those whose MSE is not resolved to be worse
    than the lowest; of these, the fastest. Speeds within a tenth of it are as good, and then more learned counts.
    """
    reasons, doubts = ["it is the only one measured"] if len(rows) == 1 else [], []
    left = list(rows)
    trained = [r for r in left if r["auc"]["value"] is not None]
    if trained and not any(r["improved"] for r in trained):
        doubts.append("no split's returns rose within these steps: learning decides nothing yet")
    elif trained and all(r["auc"]["resolved"] for r in trained):
        left = [r for r in trained if not any(_learned_more(other, r) for other in trained)]
        dropped = [_name(r) for r in trained if r not in left]
        if dropped:
            reasons.append(f"{', '.join(dropped)} learned measurably less (area under the learning curve)")
        else:
            doubts.append("no split's learning curve is distinguishable from the best one's on so few seeds")
    elif trained:
        left = _far_behind_dropped(trained, reasons)
        doubts.append(
            "learning was tried on one seed only: it rules out what fell far behind, and decides nothing else"
        )
    measured = [r for r in left if r["mse"]["resolved"]]
    if measured:
        lowest = min(measured, key=lambda r: r["mse"]["value"])
        close = [r for r in left if r["mse"]["lo"] is None or r["mse"]["lo"] <= lowest["mse"]["hi"]]
        worse = [_name(r) for r in left if r not in close]
        if worse:
            reasons.append(f"the gradient of {', '.join(worse)} has a larger mean squared error, beyond the intervals")
        unresolved = [_name(r) for r in close if r in measured and not r["bias_sq"]["resolved"]]
        if unresolved:
            doubts.append(f"the bias of {', '.join(unresolved)} is not resolved, so its error rests on the variance")
        unknown = [_name(r) for r in close if r not in measured]
        if unknown:
            doubts.append(f"the mean squared error of {', '.join(unknown)} is not resolved: it may be larger")
        if len(close) > 1:
            doubts.append(f"the mean squared errors of {', '.join(map(_name, close))} are not told apart")
        left = close
    else:
        doubts.append("the bias could not be measured, so splits are compared by variance alone")
        left = _by_variance(left, reasons)
    best = _by_speed(left, reasons)
    _say_terms(best, rows, reasons)
    vague = [_name(r) for r in rows if not r["variance"]["resolved"]]
    if vague:
        doubts.append(f"the variance of {', '.join(vague)} is not resolved: a few rows carry it all")
    sentence = f"Use {best['num_envs']} environments × {best['num_steps']} steps: {'; '.join(reasons)}."
    return {"recommended": _name(best), "sentence": sentence, "reasons": reasons, "doubts": doubts}


def _learned_more(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether the AUC of a is above that of b by more than the interval of their difference."""
    width = lambda r: (r["auc"]["hi"] - r["auc"]["lo"]) / 2
    return a["auc"]["value"] - b["auc"]["value"] > math.hypot(width(a), width(b))


def _far_behind_dropped(trained: list[dict[str, Any]], reasons: list[str]) -> list[dict[str, Any]]:
    """With one seed there is no interval: leave out only splits in the lower half of a wide range of AUCs."""
    values = [r["auc"]["value"] for r in trained]
    best, worst = max(values), min(values)
    if best - worst <= 0.2 * abs(best):
        return trained
    kept = [r for r in trained if r["auc"]["value"] >= (best + worst) / 2]
    behind = [_name(r) for r in trained if r not in kept]
    reasons.append(f"{', '.join(behind)} learned far less on its one seed (area under the learning curve)")
    return kept


def _by_speed(left: list[dict[str, Any]], reasons: list[str]) -> dict[str, Any]:
    """The fastest; of those that are about as fast, the one that learned most, or has the lowest variance."""
    speed = lambda r: r["fps"]["value"] or 0.0
    variance = lambda r: r["variance"]["value"] if r["variance"]["resolved"] else math.inf
    fastest = max(map(speed, left))
    tied = [r for r in left if speed(r) >= (1 - SAME_SPEED) * fastest]
    if any(r["improved"] for r in tied):
        learned = [r for r in tied if r["auc"]["value"] is not None]
        best, merit = max(learned, key=lambda r: r["auc"]["value"]), "learned most, if not measurably so"
    else:
        best, merit = min(tied, key=variance), "has the lowest variance"
    if len(left) == 1:
        return best
    if not fastest:
        reasons.append(f"of {', '.join(map(_name, left))}, which are not told apart, it {merit}")
        return best
    rate = f"{speed(best):,.0f} steps/s"
    if len(tied) == 1:
        slowest = min(speed(r) for r in left)
        ratio = f", {fastest / slowest:.1f} times the slowest" if slowest else ""
        reasons.append(f"of {len(left)} that are as good otherwise it is the fastest ({rate}{ratio})")
    else:
        names = ", ".join(_name(r) for r in tied if r is not best)
        reasons.append(f"of those about as fast ({rate}; also {names}) it {merit}")
    return best


def _by_variance(left: list[dict[str, Any]], reasons: list[str]) -> list[dict[str, Any]]:
    resolved = [r for r in left if r["variance"]["resolved"]]
    if not resolved:
        reasons.append("no split's variance is resolved at this point of training")
        return left
    lowest = min(resolved, key=lambda r: r["variance"]["value"])
    close = [r for r in resolved if r["variance"]["lo"] <= lowest["variance"]["hi"]]
    if len(close) < len(resolved):
        reasons.append("its variance is the lowest, or not told apart from the lowest")
    return close


def _say_terms(best: dict[str, Any], rows: list[dict[str, Any]], reasons: list[str]) -> None:
    """Where the error of the gradient comes from, at the recommended split and at the others' ends."""
    variance, covariance = best["variance"]["value"], best["covariance"]["value"]
    if variance and covariance is not None and best["variance"]["resolved"]:
        reasons.append(f"the covariance term is {covariance / variance:.0%} of its variance")
    share = lambda r: r["bias_sq"]["value"] / (r["bias_sq"]["value"] + r["variance"]["value"])
    biased = [r for r in rows if r["bias_sq"]["resolved"] and r["variance"]["value"]]
    if best in biased:
        reasons.append(f"bias is {share(best):.0%} of its squared error")
    most = max(biased, key=lambda r: r["bias_sq"]["value"], default=best)
    if most is not best:
        shorter = "short rollouts pay in bias: " if most["num_steps"] < best["num_steps"] else ""
        reasons.append(f"{shorter}at {_name(most)} bias is {share(most):.0%} of the squared error")


def marginal(row: dict[str, Any], probes, middle: int) -> str:
    """What one more environment buys against one more step, per sample, by the variance alone."""
    n, t = row["num_envs"], row["num_steps"]
    variance = row["variance"]["value"]
    if not variance or t < 2:
        return (
            "One more environment lowers the variance by 1/(N+1); one more step cannot be judged from rows of one step."
        )
    lag = np.asarray(row["lag_covariance"], float)
    longer = predict_variance(lag, n, t + 1).value
    per_env, per_step = variance / (n + 1) / t, (variance - longer) / n
    text = (
        f"At {n}x{t}, one more environment ({t} more samples) lowers the variance by {1 / (n + 1):.1%}; "
        f"one more step ({n} more samples) by {(variance - longer) / variance:.1%} "
        f"if covariances beyond lag {t - 1} are 0. "
    )
    if per_step <= 0:
        return text + "Per sample, environments are what lowers the variance."
    ratio = per_env / per_step
    if math.isclose(ratio, 1, rel_tol=0.05):
        return text + "Per sample the two are worth the same; only the step also lowers the bias."
    more, less = ("environment", "step") if ratio > 1 else ("step", "environment")
    return text + f"Per sample, an {more} lowers it {max(ratio, 1 / ratio):.2f} times as much as a {less}.".replace(
        "an step", "a step"
    ).replace("a environment", "an environment")


def _curves(plan: _Plan) -> pl.DataFrame:
    """Learning curves of every split and seed."""
    frames = []
    for n, t in plan.splits:
        for s in range(plan.config.seed, plan.config.seed + plan.options.seeds):
            rows = [r for r in RunDir.open(plan.trained(n, t, s)).metrics() if "rollout/ep_rew_mean" in r]
            frames.append(
                pl.DataFrame(
                    {
                        "series": [f"{n}x{t}"] * len(rows),
                        "seed": [s] * len(rows),
                        "step": [r["time/total_timesteps"] for r in rows],
                        "return": [r["rollout/ep_rew_mean"] for r in rows],
                    },
                    schema={"series": pl.String, "seed": pl.Int64, "step": pl.Int64, "return": pl.Float64},
                )
            )
    empty = pl.DataFrame(schema={"series": pl.String, "seed": pl.Int64, "step": pl.Int64, "return": pl.Float64})
    return pl.concat([empty, *frames])
