"""The result of a probe as a table in a terminal."""

from __future__ import annotations

from statistics import mean
from typing import Any

from trimtab.core.quantities import quantity
from trimtab.core.terminal import new_console
from trimtab.core.wording import horizon, steps

SHOWN = (1, 2, 5, 10, 40)  # lags in the table


def print_anatomy(anatomy: Any) -> None:
    """What was measured, its value with a 95% interval, and what it means."""
    from rich import box
    from rich.table import Table

    console, a = new_console(), anatomy
    table = Table(title=_title(a), title_justify="left", pad_edge=False, box=box.SIMPLE_HEAD)
    table.add_column("what", width=28)
    table.add_column("value [95% interval]", width=26)
    table.add_column("meaning", style="dim", width=min(70, max(20, console.width - 60)))
    for rows in (_variance(a), _bias(a), _noise(a), _directions(a), _minibatch(a)):
        for row in rows:
            table.add_row(*row)
        table.add_section()
    console.print(table)
    for note in a.notes:
        console.print(f"Note: {note}.")


def _title(a: Any) -> str:
    parts = [f"{a.num_envs} × {a.num_steps} = {a.num_envs * a.num_steps:,} samples", f"λ = {a.gae_lambda:g}"]
    options = a.options
    parts += [f"starts {options.start}", f"advantages {options.advantages}", f"{options.replicates} replicates"]
    return f"Gradient at step {a.step:,}: " + ", ".join(parts)


def _told(name: str, text: Any, more: str = "", indent: str = "") -> tuple[str, str, str]:
    """A row of the table: label, what was found, meaning."""
    described = quantity(name)
    return indent + described.label, str(text), described.meaning + more


def _variance(a: Any):
    estimates = a.estimates
    yield _told("variance", estimates["variance"])
    yield _told("individual", estimates["individual"], indent="  ")
    yield _told("covariance", estimates["covariance"], _share(a), indent="  ")
    yield _told("ess", estimates["ess"], f" (of {a.num_envs * a.num_steps:,})")
    yield _told("grad_sq", estimates["grad_sq"])
    for num_steps, e in a.predicted.items():
        yield f"variance at T = {num_steps}", str(e), "at the same batch, from blocks of these rows"


def _share(a: Any) -> str:
    usable = a.covariance.resolved and a.variance.resolved and a.variance.value > 0
    return f" ({a.covariance.value / a.variance.value:+.0%} of it)" if usable else ""


def _bias(a: Any):
    for name in ("bias_sq", "mse", "true_grad_sq"):
        yield _told(name, a.estimates[name] if a.options.bias else "not measured")
    for name, value in a.exact.as_dict().items():
        described = quantity(name)
        yield f"{described.label}, exact", described.shown(value), "computed from the transition table"
    yield "γ, horizon 1/(1-γ)", f"{a.gamma:g}, {steps(horizon(a.gamma))} steps", "how far returns look"
    gl = a.gamma * a.gae_lambda
    yield (
        "γλ, horizon 1/(1-γλ)",
        f"{gl:.4g}, {steps(horizon(gl))} steps",
        "how far advantages look before the critic takes over",
    )


def _noise(a: Any):
    for name in ("noise_scale", "noise_scale_trajectory", "noise_scale_environments"):
        e = a.estimates[name]
        yield _told(name, f"{e} {quantity(name).unit}" if e.resolved else e)


def _at_lags(name: str, values: dict[int, float]) -> tuple[str, str, str]:
    text = ", ".join(quantity(name).shown(value) for value in values.values())
    return _told(name, text or "no pairs", f" (lags {', '.join(map(str, values))})" if values else "")


def _directions(a: Any):
    if a.directions is not None:
        lags, across = a.directions.cosines.lags, a.directions.cosines.across
        yield _at_lags(
            "cosine_within", {k: lags[k - 1].mean for k in SHOWN if k <= len(lags) and lags[k - 1].num_pairs}
        )
        yield _told("cosine_across", quantity("cosine_across").shown(across.mean) if across.num_pairs else "no pairs")
        if a.directions.cosines.num_left_out:
            yield _told("zero_gradients", f"{a.directions.cosines.num_left_out:,} samples")
    if a.covariance_correlation is not None:
        lags = a.covariance_correlation.lags
        yield _at_lags("covariance_within", {k: lags[k] for k in SHOWN if k < len(lags) and lags[k] is not None})
    size = len(a.replicate_cosines)
    if size > 1:
        pairs = [c for i in range(size) for c in a.replicate_cosines[i][:i] if c is not None]
        text = quantity("replicate_cosine").shown(mean(pairs)) if pairs else "no pairs"
        yield _told("replicate_cosine", text, f" (mean of {len(pairs)} pairs)")
    if a.reset_synchrony is not None:
        yield _told("reset_synchrony", quantity("reset_synchrony").shown(a.reset_synchrony))


def _minibatch(a: Any):
    minibatch = a.minibatch.as_dict()
    if "subsampling_measured" in minibatch:
        both = f"{minibatch['subsampling_measured']:.3g} measured, {minibatch['subsampling_formula']:.3g} by formula"
        yield _told("minibatch_subsampling_measured", both, f" (minibatches of {minibatch['minibatch_size']:,})")
    if "subsampling_rows_measured" in minibatch:
        both = (
            f"{minibatch['subsampling_rows_measured']:.3g} measured, "
            f"{minibatch['subsampling_rows_formula']:.3g} by formula"
        )
        yield _told("minibatch_subsampling_rows_measured", both)
    if len(minibatch.get("drift", ())):
        some = max(1, len(minibatch["drift"]) // 8)
        shown = quantity("minibatch_drift").shown
        ends = f"{shown(mean(minibatch['drift'][:some]))} first, {shown(mean(minibatch['drift'][-some:]))} last"
        yield _told("minibatch_drift", ends)
        clipped = quantity("minibatch_clip_bias").shown(mean(minibatch["clip_bias"][-some:]))
        yield _told("minibatch_clip_bias", f"{clipped} in the last updates")
