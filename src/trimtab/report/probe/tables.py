"""What a probe found, as a table in a terminal and as plain numbers."""

from __future__ import annotations

import math
from typing import Any

from trimtab.wording import horizon, steps

SHOWN = (1, 2, 5, 10, 40)  # lags in the table


def print_anatomy(anatomy: Any) -> None:
    """What was measured, its value with a 95% interval, and what it means."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console, a = Console(markup=False), anatomy
    table = Table(title=_title(a), title_justify="left", pad_edge=False, box=box.SIMPLE_HEAD)
    table.add_column("what", width=26)
    table.add_column("value [95% interval]", width=26)
    table.add_column("meaning", style="dim", width=min(70, max(20, console.width - 58)))
    for rows in (_variance(a), _bias(a), _noise(a), _directions(a), _minibatch(a)):
        for row in rows:
            table.add_row(*row)
        table.add_section()
    console.print(table)
    for note in a.notes:
        console.print(f"Note: {note}.", highlight=False)


def _title(a: Any) -> str:
    given = [f"{a.num_envs} × {a.num_steps} = {a.num_envs * a.num_steps:,} samples", f"λ = {a.gae_lambda:g}"]
    options = a.options
    given += [f"starts {options.start}", f"advantages {options.advantages}", f"{options.replicates} replicates"]
    return f"Gradient at step {a.step:,}: " + ", ".join(given)


def _variance(a: Any):
    d = a.decomposition
    yield "variance of G", str(d.variance), "noise of the batch gradient (trace of its covariance)"
    yield "  individual", str(d.individual), "what it would be with independent samples"
    yield "  covariance", str(d.covariance), f"what correlation along rows adds{_share(d)}"
    batch = a.num_envs * a.num_steps
    yield "effective samples", str(d.ess), f"of {batch:,}; fewer when steps repeat each other"
    yield "|G|²", str(d.grad_sq), "the signal; a batch with variance above it points mostly at noise"
    for num_steps, e in a.predicted.items():
        yield f"variance at T = {num_steps}", str(e), "at the same batch, from blocks of these rows"


def _share(d: Any) -> str:
    usable = d.covariance.resolved and d.variance.resolved and d.variance.value > 0
    return f" ({d.covariance.value / d.variance.value:+.0%} of the variance)" if usable else ""


def _bias(a: Any):
    shown = str if a.options.bias else lambda estimate: "not measured"
    yield "|bias|²", shown(a.bias_sq), "from cut and bootstrapped advantages"
    yield "mean squared error", shown(a.mse), "variance + |bias|²"
    yield "|true gradient|²", shown(a.true_grad_sq), "without bias; what splits share"
    words = {
        "bias_sq": "|bias|², exact",
        "grad_sq": "|G|², exact",
        "true_grad_sq": "|true gradient|², exact",
        "cosine_expected_true": "cos(G, true), exact",
        "cosine_true_return": "cos(true, ∇ return), exact",
    }
    for name, value in a.exact.items():
        yield words.get(name, f"{name}, exact"), f"{value:.3g}", "computed from the transition table"
    yield "γ, horizon 1/(1-γ)", f"{a.gamma:g}, {steps(horizon(a.gamma))} steps", "how far returns look"
    gl = a.gamma * a.gae_lambda
    yield (
        "γλ, horizon 1/(1-γλ)",
        f"{gl:.4g}, {steps(horizon(gl))} steps",
        "how far advantages look before the critic takes over",
    )


def _noise(a: Any):
    n = a.noise
    yield "noise scale, independent", _units(n.simple, "samples"), "batch at which noise equals signal, if independent"
    yield (
        "noise scale, as correlated",
        _units(n.trajectory, "samples"),
        f"the same with correlation, at T = {a.num_steps}",
    )
    yield "noise scale, environments", _units(n.environments, "environments"), f"in rows of {a.num_steps} steps"


def _units(e: Any, unit: str) -> str:
    return f"{e} {unit}" if e.resolved else str(e)


def _directions(a: Any):
    if a.cosine_correlation is not None:
        lags = [k for k in SHOWN if k <= len(a.cosine_correlation.lags) and a.cosine_correlation.lags[k - 1].num_pairs]
        text = ", ".join(f"{a.cosine_correlation.lags[k - 1].mean:.2f}" for k in lags)
        yield "cosine along trajectories", text or "no pairs", f"at lags {', '.join(map(str, lags))}; 1: the same way"
        across = f"{a.cosine_correlation.across.mean:.2f}" if a.cosine_correlation.across.num_pairs else "no pairs"
        yield "cosine across environments", across, "the baseline to compare with"
        if a.cosine_correlation.num_left_out:
            yield (
                "zero gradients",
                f"{a.cosine_correlation.num_left_out:,} samples",
                "have no direction; left out of cosines",
            )
    if a.covariance_correlation is not None:
        lags = [
            k
            for k in SHOWN
            if k < len(a.covariance_correlation.lags) and math.isfinite(a.covariance_correlation.lags[k])
        ]
        text = ", ".join(f"{a.covariance_correlation.lags[k]:.2f}" for k in lags)
        yield (
            "correlation along them",
            text or "no pairs",
            f"at lags {', '.join(map(str, lags))}, as it enters the noise",
        )
    size = len(a.replicate_cosines)
    if size > 1:
        pairs = [float(a.replicate_cosines[i, j]) for i in range(size) for j in range(i)]
        yield "cosine between batches", f"{sum(pairs) / len(pairs):.2f}", f"mean over {len(pairs)} pairs of replicates"
    if math.isfinite(a.reset_synchrony):
        yield "reset synchrony", f"{a.reset_synchrony:.2f}", "1: all environments reset together; 0: spread out"


def _minibatch(a: Any):
    found = a.minibatch
    if "subsampling_measured" in found:
        both = f"{found['subsampling_measured']:.3g} measured, {found['subsampling_formula']:.3g} by formula"
        yield "sub-sampling variance", both, f"what minibatches of {found['minibatch_size']:,} add to each step"
    if "subsampling_rows_measured" in found:
        both = f"{found['subsampling_rows_measured']:.3g} measured, {found['subsampling_rows_formula']:.3g} by formula"
        yield "sub-sampling by rows", both, "the same with minibatches of whole rows (minibatch_by rows)"
    if len(found.get("drift", ())):
        some = max(1, len(found["drift"]) // 8)
        first, last = float(found["drift"][:some].mean()), float(found["drift"][-some:].mean())
        clipped = float(found["clip_bias"][-some:].mean())
        yield "drift", f"{first:.2f} first, {last:.2f} last", "cosine of minibatch and batch gradients over the updates"
        yield "clip bias", f"{clipped:.1%} in the last updates", "how far the clip or KL penalty moves the gradient"


# Plain numbers ---------------------------------------------------------------------------------------------


def as_json(anatomy: Any) -> dict[str, Any]:
    """Plain numbers only; what is not a finite number is None."""
    a, d, n = anatomy, anatomy.decomposition, anatomy.noise
    estimates = {name: getattr(d, name) for name in ("variance", "individual", "covariance", "ess", "grad_sq")}
    estimates |= {"bias_sq": a.bias_sq, "mse": a.mse, "true_grad_sq": a.true_grad_sq}
    estimates |= {
        "noise_scale": n.simple,
        "noise_scale_trajectory": n.trajectory,
        "noise_scale_environments": n.environments,
    }
    return {
        "step": a.step,
        "num_envs": a.num_envs,
        "num_steps": a.num_steps,
        "gamma": a.gamma,
        "gae_lambda": a.gae_lambda,
        "horizon_gamma": _number(horizon(a.gamma)),
        "horizon_gamma_lambda": _number(horizon(a.gamma * a.gae_lambda)),
        "options": {k: list(v) if isinstance(v, tuple) else v for k, v in vars(a.options).items()},
        "method": a.method,
        "relative_error": _number(a.relative_error),
        "reset_synchrony": _number(a.reset_synchrony),
        **{name: _estimate(e) for name, e in estimates.items()},
        "exact": {name: _number(value) for name, value in a.exact.items()},
        "predicted": {str(num_steps): _estimate(e) for num_steps, e in a.predicted.items()},
        "lag_covariance": _numbers(d.lag_covariance),
        "lag_covariance_interval": [_numbers(pair) for pair in d.lag_interval],
        "cosine": _cosines(a.cosine_correlation),
        "covariance_correlation": None
        if a.covariance_correlation is None
        else {"lags": _numbers(a.covariance_correlation.lags), "across": _number(a.covariance_correlation.across)},
        "replicate_cosines": [_numbers(row) for row in a.replicate_cosines],
        "minibatch": {k: _numbers(v) if getattr(v, "ndim", 0) else _number(v) for k, v in a.minibatch.items()},
        "notes": list(a.notes),
    }


def _cosines(cosine: Any) -> dict[str, Any] | None:
    if cosine is None:
        return None
    return {
        "lags": [_number(lag.mean) for lag in cosine.lags],
        "across": _number(cosine.across.mean),
        "left_out": int(cosine.num_left_out),
    }


def _estimate(e: Any) -> dict[str, Any]:
    return {"value": _number(e.value), "lo": _number(e.lo), "hi": _number(e.hi), "resolved": bool(e.resolved)}


def _number(value: Any) -> float | int | None:
    if isinstance(value, int):
        return value
    return float(value) if math.isfinite(float(value)) else None


def _numbers(values: Any) -> list[float | int | None]:
    return [_number(value) for value in values]
