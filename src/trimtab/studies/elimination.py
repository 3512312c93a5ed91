"""What the measurements of several splits say: which are ruled out and by what, which are left, and which of those to
take.

A row holds what was found of one split: its areas and speeds by seed, and estimates of its gradient at every stage of
training as {"value", "lo", "hi", "resolved"}. A split is ruled out by one of four things, in this order:

0. *did not finish*: all its runs failed, and not all of some other split's did. One with some failed runs is judged by
   the others, which flatters it, so it is taken only if nothing else is left; so is one whose runs ended no episode.
1. *learned less*: another split's area under the learning curve is larger, by Welch's t-test at a level shared by all
   ordered pairs of splits and all times one looks (so that of many tests hardly one errs).
2. *larger error*: at every stage where it is resolved, the mean squared error of its gradient is at least twice the
   lowest one's, beyond both intervals. Those speak of one run's policies, and another run's differ: hence twice.
3. *slower*: it takes at least twice as long a step as the fastest that is left, on every seed.

Nothing orders what is left. The tie-break is stated and does not look at measurements, so it does not move with them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trimtab.core.wording import split_name
from trimtab.gradient.noise import predict_variance
from trimtab.math import stats

ERRS = 0.02  # chance that learning rules out any split wrongly, over all pairs and looks
FACTOR = 2.0  # how much larger an error, or longer a step, must be to rule out

Row = dict[str, Any]


def name_of(row: Row) -> str:
    """A split as people write it."""
    return split_name(row["num_envs"], row["num_steps"])


def weigh(rows: list[Row], own: int, looks: int = 1) -> dict[str, Any]:
    """What is ruled out, what is left, and which of those to take: the one nearest to `own` environments."""
    out: dict[str, dict[str, str]] = {}
    for by, rule in RULES:
        left = [r for r in rows if name_of(r) not in out]
        for name, reason in rule(left, rows, looks).items():
            out[name] = {"split": name, "by": by, "reason": reason}
    left = [r for r in rows if name_of(r) not in out]
    judged = [r for r in left if r["areas"]] or left
    whole = [r for r in judged if not r["failed"]] or judged
    best = min(whole, key=lambda r: (abs(math.log2(r["num_envs"] / own)), r["num_envs"]))
    for row in rows:
        row["verdict"] = "recommended" if row is best else "ruled out" if name_of(row) in out else "left"
    tie_break = _tie_break(best, left, own)
    return {
        "recommended": name_of(best),
        "recommended_set": [name_of(r) for r in left],
        "ruled_out": list(out.values()),
        "decided": len(left) == 1,
        "tie_break": tie_break,
        "sentence": _sentence(best, left, list(out.values()), tie_break),
        "reasons": [entry["reason"] for entry in out.values()],
        "doubts": _doubts(rows, left),
    }


def contenders(rows: list[Row], looks: int) -> list[Row]:
    """The splits that learning and error have not ruled out: where more seeds may still decide something."""
    out = _unfinished(rows, rows, looks) | _learned_less(rows, rows, looks)
    left = [r for r in rows if name_of(r) not in out]
    return [r for r in left if name_of(r) not in _larger_error(left, rows, looks)]


def _unfinished(left: list[Row], rows: list[Row], looks: int) -> dict[str, str]:
    if not any(r["seeds"] for r in rows):
        return {}
    broken = [r for r in left if r["failed"] and not r["seeds"]]
    return {name_of(r): f"no run of {name_of(r)} came to its end ({r['failed']} failed)" for r in broken}


def _learned_less(left: list[Row], rows: list[Row], looks: int) -> dict[str, str]:
    trained = [r for r in rows if len(r["areas"]) >= 2]
    if not any(r["improved"] for r in trained):
        return {}
    level = ERRS / max(1, len(trained) * (len(trained) - 1)) / looks
    out = {}
    for row in (r for r in left if r in trained):
        gaps = [(_least_gap(other["areas"], row["areas"], level), other) for other in trained if other is not row]
        gap, better = max(gaps, key=lambda g: g[0], default=(-math.inf, row))
        if gap > 0:
            means = [float(np.mean(r["areas"])) for r in (row, better)]
            out[name_of(row)] = (
                f"{name_of(row)} learned less: area under the learning curve {means[0]:.4g}, "
                f"against {means[1]:.4g} of {name_of(better)} ({len(row['areas'])} and {len(better['areas'])} seeds)"
            )
    return out


def _least_gap(x: list[float], y: list[float], level: float) -> float:
    """Lower end of Welch's one-sided interval of mean(x) − mean(y) at a level."""
    return stats.contrast([x, y], [1.0, -1.0], confidence=1 - 2 * level).lo


def _larger_error(left: list[Row], rows: list[Row], looks: int) -> dict[str, str]:
    out = {}
    for row in left:
        verdicts, worst = [], 0.0
        for stage in range(len(row["stages"])):
            mine = row["stages"][stage]["mse"]
            others = [r["stages"][stage]["mse"] for r in left if r["stages"][stage]["mse"]["resolved"]]
            if not mine["resolved"] or not others:
                continue
            lowest = min(others, key=lambda e: e["value"])
            verdicts.append(mine["lo"] > FACTOR * lowest["hi"])
            worst = max(worst, mine["value"] / lowest["value"])
        if verdicts and all(verdicts):
            out[name_of(row)] = (
                f"the gradient of {name_of(row)} has at least {FACTOR:g} times the mean squared error of the best at "
                f"every stage where both are resolved (up to {worst:.2g} times)"
            )
    return out


def _slower(left: list[Row], rows: list[Row], looks: int) -> dict[str, str]:
    timed = [r for r in left if r["speeds"]]
    if len(timed) < 2:
        return {}
    fastest = max(timed, key=lambda r: np.mean(r["speeds"]))
    least = min(fastest["speeds"])
    return {
        name_of(r): f"{name_of(r)} takes {np.mean(r['speeds']):,.0f} steps/s, {name_of(fastest)} "
        f"{np.mean(fastest['speeds']):,.0f}"
        for r in timed
        if FACTOR * max(r["speeds"]) < least
    }


RULES = (
    ("did not finish", _unfinished),
    ("learned less", _learned_less),
    ("larger error", _larger_error),
    ("slower", _slower),
)


# Words ---------------------------------------------------------------------------------------------------------


def _tie_break(best: Row, left: list[Row], own: int) -> str:
    if len(left) == 1:
        return ""
    why = "what the configuration has" if best["num_envs"] == own else f"nearest to the configuration's {own}"
    return f"of those left, the number of environments that is {why}: nothing measured says to change it"


def _sentence(best: Row, left: list[Row], out: list[dict[str, str]], tie_break: str) -> str:
    names = lambda rows: ", ".join(rows)
    gone: dict[str, list[str]] = {}
    for entry in out:
        gone.setdefault(entry["by"], []).append(entry["split"])
    same = {"did not finish": "did not finish", "learned less": "learned less"}
    words = same | {"larger error": "have a larger error", "slower": "are slower"}
    single = same | {"larger error": "has a larger error", "slower": "is slower"}
    ruled = "; ".join(f"{names(who)} {(single if len(who) == 1 else words)[by]}" for by, who in gone.items())
    size = f"{best['num_envs']} environments × {best['num_steps']} steps"
    if len(left) == 1:
        return f"Use {size}: {ruled}." if out else f"Use {size}: it is the only one measured."
    apart = f"{names(name_of(r) for r in left)} are not told apart"
    start = f"{apart}, and {ruled}" if out else apart
    return f"{start[0].upper()}{start[1:]}. Take {size}: {tie_break}."


def _doubts(rows: list[Row], left: list[Row]) -> list[str]:
    some = [name_of(r) for r in left if r["failed"]]
    doubts = [f"some runs of {', '.join(some)} failed: what is said of it is said of the others"] if some else []
    endless = [name_of(r) for r in left if r["seeds"] and len(r["areas"]) < r["seeds"]]
    if endless:
        doubts.append(f"runs of {', '.join(endless)} ended no episode: what they learned is not known")
    trained = [r for r in rows if r["areas"]]
    if trained and not any(r["improved"] for r in trained):
        doubts.append("no split's returns rose within these steps: learning decides nothing yet")
    elif trained and any(len(r["areas"]) < 2 for r in trained):
        doubts.append("a single seed decides nothing about learning")
    elif not any(r["seeds"] for r in rows):
        doubts.append("nothing was trained: only gradients are compared")
    unresolved = [name_of(r) for r in left if not any(s["mse"]["resolved"] for s in r["stages"])]
    if unresolved:
        doubts.append(f"the mean squared error of {', '.join(unresolved)} is not resolved: it may be larger")
    vague = [name_of(r) for r in rows if not any(s["variance"]["resolved"] for s in r["stages"])]
    if vague:
        doubts.append(f"the variance of {', '.join(vague)} is not resolved: a few rows carry it all")
    return doubts


def say_stage(rows: list[Row]) -> str:
    """One stage in words: covariance and effective samples of the longest rows, and who has the least error."""
    longest = max(rows, key=lambda r: r["num_steps"])
    share, ess = longest["covariance_share"], longest["ess"]
    nonzero = share["resolved"] and share["lo"] is not None and (share["lo"] > 0 or share["hi"] < 0)
    covariance = f"covariance is {share['value']:.0%} of the variance" if nonzero else "covariance is not told from 0"
    samples = f", {ess['value']:,.0f} samples are effective" if ess["resolved"] else ""
    best = _least_error(rows)
    error = f"the least error is that of {' or '.join(best)}" if best else "no split's error is resolved"
    error = "no split's error is told from another's" if len(best) == len(rows) > 1 else error
    return f"at {name_of(longest)} {covariance}{samples}; {error}"


def stage_sentence(stages: list[dict[str, Any]]) -> str:
    """Whether another split would be better early than late."""
    resolved_stages = [(stage["stage"], names) for stage in stages if (names := _least_error(stage["rows"]))]
    if len(resolved_stages) < 2:
        return "Whether another split would be better early or late is not resolved."
    shared = [name for name in resolved_stages[0][1] if all(name in names for _, names in resolved_stages)]
    if len(shared) == len(stages[0]["rows"]) > 1:
        return "No split's error of the gradient is told from another's, early or late."
    if shared:
        where = (
            "throughout"
            if len(resolved_stages) == len(stages)
            else f"where it is resolved ({' and '.join(w for w, _ in resolved_stages)})"
        )
        return f"Early and late the same: {' or '.join(shared)} has the least error of the gradient {where}."
    by_stage = ", ".join(f"{' or '.join(names)} {when}" for when, names in resolved_stages)
    return f"Another split has the least error at another stage of training: {by_stage}."


def _least_error(rows: list[Row]) -> list[str]:
    """The splits whose mean squared error is the lowest, or not told apart from the lowest."""
    resolved = [r for r in rows if r["mse"]["resolved"]]
    if not resolved:
        return []
    lowest = min(resolved, key=lambda r: r["mse"]["value"])["mse"]
    return [name_of(r) for r in resolved if r["mse"]["lo"] <= lowest["hi"]]


def marginal(row: dict[str, Any]) -> str:
    """What one more environment buys against one more step, per sample, by the variance alone."""
    n, t = row["num_envs"], row["num_steps"]
    variance = row["variance"]["value"]
    if not variance or not row["variance"]["resolved"]:
        return "The variance is not resolved here, so what one more environment or step buys cannot be said."
    if t < 2:
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
    more, less = ("an environment", "a step") if ratio > 1 else ("a step", "an environment")
    return text + f"Per sample, {more} lowers it {max(ratio, 1 / ratio):.2f} times as much as {less}."
