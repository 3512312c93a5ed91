"""What the measurements of several splits say: which one to use, why, how sure, and what one more sample buys.

A row holds what was found of one split: estimates as {"value", "lo", "hi", "resolved"}, and if it learned anything.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trimtab.anatomy.noise import predict_variance

SAME_SPEED = 0.1  # speeds that differ by less are called the same: they differ as much from one minute to the next


def name_of(row: dict[str, Any]) -> str:
    """A split as people write it."""
    return f"{row['num_envs']}x{row['num_steps']}"


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
        dropped = [name_of(r) for r in trained if r not in left]
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
        worse = [name_of(r) for r in left if r not in close]
        if worse:
            reasons.append(f"the gradient of {', '.join(worse)} has a larger mean squared error, beyond the intervals")
        unresolved = [name_of(r) for r in close if r in measured and not r["bias_sq"]["resolved"]]
        if unresolved:
            doubts.append(f"the bias of {', '.join(unresolved)} is not resolved, so its error rests on the variance")
        unknown = [name_of(r) for r in close if r not in measured]
        if unknown:
            doubts.append(f"the mean squared error of {', '.join(unknown)} is not resolved: it may be larger")
        if len(close) > 1:
            doubts.append(f"the mean squared errors of {', '.join(map(name_of, close))} are not told apart")
        left = close
    else:
        doubts.append("the bias could not be measured, so splits are compared by variance alone")
        left = _by_variance(left, reasons)
    best = _by_speed(left, reasons)
    _say_terms(best, rows, reasons)
    vague = [name_of(r) for r in rows if not r["variance"]["resolved"]]
    if vague:
        doubts.append(f"the variance of {', '.join(vague)} is not resolved: a few rows carry it all")
    reasons = reasons or ["nothing that was measured tells the splits apart"]
    sentence = f"Use {best['num_envs']} environments × {best['num_steps']} steps: {'; '.join(reasons)}."
    return {"recommended": name_of(best), "sentence": sentence, "reasons": reasons, "doubts": doubts}


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
    behind = [name_of(r) for r in trained if r not in kept]
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
        reasons.append(f"of {', '.join(map(name_of, left))}, which are not told apart, it {merit}")
        return best
    rate = f"{speed(best):,.0f} steps/s"
    if len(tied) == 1:
        slowest = min(speed(r) for r in left)
        ratio = f", {fastest / slowest:.1f} times the slowest" if slowest else ""
        reasons.append(f"of {len(left)} that are as good otherwise it is the fastest ({rate}{ratio})")
    else:
        names = ", ".join(name_of(r) for r in tied if r is not best)
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
        reasons.append(f"{shorter}at {name_of(most)} bias is {share(most):.0%} of the squared error")


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
