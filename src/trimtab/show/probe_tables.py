"""The result of a probe as a table in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean
from typing import Any

from trimtab.core.quantities import quantity
from trimtab.core.terminal import new_console
from trimtab.core.wording import horizon, steps
from trimtab.gradient.anatomy import Anatomy, Numbers

_Row = tuple[str, str, str]  # label, value, meaning
_SHOWN = (1, 2, 5, 10, 40)  # lags in the table
PHASES = {
    "recorded": "the run's environments as recorded",
    "lockstep": "environments reset together",
    "spread": "environments at independent phases",
}


def print_anatomy(anatomy: Anatomy) -> None:
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
    console.print(a.sentence, soft_wrap=True)


def _title(a: Anatomy) -> str:
    parts = [f"{a.num_envs} × {a.num_steps} = {a.num_envs * a.num_steps:,} samples", f"λ = {a.gae_lambda:g}"]
    options = a.options
    where = f" ({PHASES[a.phases]})" if a.phases else ""
    parts += [f"starts {options.start}{where}", f"advantages {options.advantages}", f"{options.replicates} replicates"]
    return f"Gradient at step {a.step:,}: " + ", ".join(parts)


def _measured(name: str, text: Any, more: str = "", indent: str = "") -> _Row:
    """A row of the table: label, value, meaning."""
    described = quantity(name)
    return indent + described.label, str(text), described.meaning + more


def _variance(a: Anatomy) -> Iterator[_Row]:
    estimates = a.estimates
    yield _measured("variance", estimates["variance"])
    yield _measured("individual", estimates["individual"], indent="  ")
    yield _measured("covariance", estimates["covariance"], _share(a, "covariance"), indent="  ")
    if a.between_rows.known:
        yield _measured("between_rows", a.between_rows, _share(a, "between_rows"), indent="  ")
        yield _measured("variance_floor", a.variance_floor)
    else:
        yield _measured("between_rows", f"not measured with starts {a.options.start}", indent="  ")
    yield _measured("ess", estimates["ess"], f" (of {a.num_envs * a.num_steps:,})")
    yield _measured("grad_sq", estimates["grad_sq"])
    for num_steps, e in a.predicted.items():
        yield f"variance at T = {num_steps}", str(e), "at the same batch, from blocks of these rows"


def _share(a: Anatomy, name: str) -> str:
    part = a.estimates[name]
    usable = part.resolved and a.variance.resolved and a.variance.value > 0
    return f" ({part.value / a.variance.value:+.0%} of it)" if usable else ""


def _bias(a: Anatomy) -> Iterator[_Row]:
    for name in ("bias_sq", "mse", "true_grad_sq"):
        yield _measured(name, a.estimates[name] if a.options.bias else "not measured")
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


def _noise(a: Anatomy) -> Iterator[_Row]:
    for name in ("noise_scale", "noise_scale_trajectory", "noise_scale_environments"):
        e = a.estimates[name]
        yield _measured(name, f"{e} {quantity(name).unit}" if e.resolved else e)
    if a.between_rows.known:
        yield _measured("noise_floor", a.noise_floor)
        yield _measured("phase_autocorrelation", a.phase_autocorrelation)


def _at_lags(name: str, values: dict[int, float]) -> _Row:
    text = ", ".join(quantity(name).shown(value) for value in values.values())
    return _measured(name, text or "no pairs", f" (lags {', '.join(map(str, values))})" if values else "")


def _directions(a: Anatomy) -> Iterator[_Row]:
    if a.directions is not None:
        lags, across = a.directions.cosines.lags, a.directions.cosines.across
        yield _at_lags(
            "cosine_within", {k: lags[k - 1].mean for k in _SHOWN if k <= len(lags) and lags[k - 1].num_pairs}
        )
        yield _measured(
            "cosine_across", quantity("cosine_across").shown(across.mean) if across.num_pairs else "no pairs"
        )
        if a.directions.cosines.num_left_out:
            yield _measured("zero_gradients", f"{a.directions.cosines.num_left_out:,} samples")
    if a.covariance_correlation is not None:
        known = {k: value for k, value in enumerate(a.covariance_correlation.lags) if k in _SHOWN and value is not None}
        yield _at_lags("covariance_within", known)
    size = len(a.replicate_cosines)
    if size > 1:
        pairs = [c for i in range(size) for c in a.replicate_cosines[i][:i] if c is not None]
        text = quantity("replicate_cosine").shown(mean(pairs)) if pairs else "no pairs"
        yield _measured("replicate_cosine", text, f" (mean of {len(pairs)} pairs)")
    if a.reset_synchrony is not None:
        yield _measured("reset_synchrony", quantity("reset_synchrony").shown(a.reset_synchrony))


def _minibatch(a: Anatomy) -> Iterator[_Row]:
    effects = a.minibatch
    if effects.subsampling_measured is not None:
        both = f"{effects.subsampling_measured:.3g} measured, {effects.subsampling_formula:.3g} by formula"
        yield _measured("minibatch_subsampling_measured", both, f" (minibatches of {effects.minibatch_size:,})")
    if effects.subsampling_rows_measured is not None:
        both = f"{effects.subsampling_rows_measured:.3g} measured, {effects.subsampling_rows_formula:.3g} by formula"
        yield _measured("minibatch_subsampling_rows_measured", both)
    if effects.drift:
        some = max(1, len(effects.drift) // 8)
        ends = [_mean_shown("minibatch_drift", part) for part in (effects.drift[:some], effects.drift[-some:])]
        yield _measured("minibatch_drift", f"{ends[0]} first, {ends[1]} last")
        clipped = _mean_shown("minibatch_clip_bias", (effects.clip_bias or ())[-some:])
        yield _measured("minibatch_clip_bias", f"{clipped} in the last updates")


def _mean_shown(name: str, values: Numbers) -> str:
    known = [value for value in values if value is not None]
    return quantity(name).shown(mean(known)) if known else "no pairs"
