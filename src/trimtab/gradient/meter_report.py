"""What a meter in somebody's training loop reports, as a typed record and as a line of JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

from trimtab.core import reading
from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.core.json_values import from_json, to_json
from trimtab.core.quantities import GRADIENT_SQ, Quantity, quantity
from trimtab.gradient.batch_sentence import BatchWorth
from trimtab.gradient.bootstrap import MIN_ROWS

FILE = "meter.jsonl"
KIND = "trimtab meter"
SCHEMA_VERSION = 1
ESTIMATES = (
    *("variance", "individual", "covariance", "between_rows", "ess", "grad_sq"),
    *("noise_scale", "noise_scale_trajectory", "noise_scale_environments"),
)
BETWEEN = Quantity(
    "between_rows", "between rows", "what correlation between rows adds to the variance", "Term 3", GRADIENT_SQ
)


@dataclass(frozen=True)
class LagCosine:
    """The mean cosine of gradients `lag` steps apart in one trajectory, about the batch mean."""

    lag: int
    cosine: Estimate


@dataclass(frozen=True)
class MeterReport:
    """What a window of iterations says of the gradient of one batch.

    Attributes:
        step: environment steps so far.
        num_envs: N.
        num_steps: T.
        iterations: iterations in the window.
        rows: rows in the window.
        variance: of the batch gradient, terms within rows only: individual + covariance.
        individual: what the variance would be if samples were independent.
        covariance: what correlation within rows adds.
        between_rows: what correlation between rows of one iteration adds; unresolved where it is unknown.
        ess: effective samples.
        grad_sq: |G|².
        noise_scale: in samples, if they were independent.
        noise_scale_trajectory: in samples, as correlated within rows.
        noise_scale_environments: in environments.
        cosines: by lag.
        minibatch_size: samples of a gradient step, if it is known.
        notes: what to keep in mind.
    """

    step: int
    num_envs: int
    num_steps: int
    iterations: int
    rows: int
    variance: Estimate
    individual: Estimate
    covariance: Estimate
    ess: Estimate
    grad_sq: Estimate
    noise_scale: Estimate
    noise_scale_trajectory: Estimate
    noise_scale_environments: Estimate
    between_rows: Estimate = UNRESOLVED
    cosines: tuple[LagCosine, ...] = ()
    minibatch_size: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def batch(self) -> int:
        """N T."""
        return self.num_envs * self.num_steps

    @property
    def rows_needed(self) -> int | None:
        """How many more rows would resolve |G|² and with it the noise scale; 0 where it is, None where no one can say.

        The interval of |G|² shrinks with the root of the number of rows.
        """
        if self.rows < MIN_ROWS:
            return MIN_ROWS - self.rows
        if self.noise_scale_trajectory.resolved:
            return 0
        value, below = self.grad_sq.value, self.grad_sq.value - self.grad_sq.lo
        if not (value > 0 and math.isfinite(below)):
            return None
        return max(1, math.ceil(self.rows * ((1.1 * below / value) ** 2 - 1)))

    @property
    def worth(self) -> BatchWorth:
        """The batch, for one sentence about it."""
        return BatchWorth(self.num_envs, self.num_steps, self.ess, self.noise_scale_trajectory, self._envs_ratio)

    @property
    def _envs_ratio(self) -> float:
        """Twice the environments halve the terms within rows and leave the covariance of any two rows."""
        between = self.between_rows
        if not (between.resolved and self.variance.value > 0) or self.num_envs < 2:
            return 0.5
        pair = max(between.value, 0.0) * self.num_envs / (self.num_envs - 1)
        doubled = self.variance.value / 2 + pair * (2 * self.num_envs - 1) / (2 * self.num_envs)
        return doubled / (self.variance.value + max(between.value, 0.0))

    @property
    def sentence(self) -> str:
        """The answer in words."""
        text, needed = self.worth.sentence, self.rows_needed
        if needed == 0:
            return text + self._minibatch
        more = "more rows" if needed is None else f"about {needed:,} more rows (iterations × environments)"
        return f"{text} The noise scale needs {more}; {self.rows:,} were measured."

    @property
    def _minibatch(self) -> str:
        if self.minibatch_size is None:
            return ""
        share = self.minibatch_size / self.noise_scale_trajectory.value
        return f" Your minibatch of {self.minibatch_size:,} is {share:.2g} times the noise scale."

    @property
    def metrics(self) -> dict[str, float]:
        """Numbers for a logger: `grad/NAME`, with `_lo` and `_hi` of its interval; only what is resolved."""
        found = {name: getattr(self, name) for name in ESTIMATES}
        found |= {f"cosine_lag{each.lag}": each.cosine for each in self.cosines}
        numbers: dict[str, float] = {}
        for name, estimate in found.items():
            if estimate.resolved:
                ends = zip(("", "_lo", "_hi"), (estimate.value, estimate.lo, estimate.hi))
                numbers |= {f"grad/{name}{end}": float(value) for end, value in ends}
        return numbers | {"grad/rows": float(self.rows)}

    @property
    def table(self) -> list[tuple[str, str, str]]:
        """Label, value with its interval, meaning, for every number."""
        rows = []
        for name in ESTIMATES:
            estimate, described = getattr(self, name), BETWEEN if name == BETWEEN.name else quantity(name)
            rows.append((described.label, str(estimate) if estimate.known else "unknown", described.meaning))
        for each in self.cosines:
            label = f"cosine at lag {each.lag}"
            rows.append((label, str(each.cosine), f"of gradients {each.lag} steps apart in one trajectory"))
        return rows

    def __str__(self) -> str:
        lines = [
            f"gradient of {self.num_envs} × {self.num_steps} = {self.batch:,} samples at step {self.step:,}, from "
        ]
        lines[0] += f"{self.rows:,} rows of {self.iterations} iterations"
        lines += [f"  {label:32} {value}" for label, value, _ in self.table]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join([*lines, self.sentence])

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        values = {item.name: to_json(getattr(self, item.name)) for item in fields(self)}
        return {"kind": KIND, "schema": SCHEMA_VERSION, **values, "sentence": self.sentence}

    def append_to(self, path: str | PathLike[str]) -> None:
        """Add a line of JSON to a file.

        Args:
            path: of the file; a folder gets `meter.jsonl`.
        """
        place = Path(path)
        place = place / FILE if place.is_dir() or not place.suffix else place
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.as_dict(), allow_nan=False) + "\n")


def read_reports(path: str | PathLike[str]) -> list[MeterReport]:
    """Reports of a meter.

    Args:
        path: the file, or the folder of its `meter.jsonl`.

    Returns:
        All that can be read, in their order; what cannot is reported. A missing file raises UnreadableFile.
    """
    place = Path(path)
    return reading.read_json_lines(place / FILE if place.is_dir() else place, _accepted)


def _accepted(value: Any) -> MeterReport | None:
    if not isinstance(value, dict) or value.get("kind") != KIND:
        return None
    try:
        return from_json(MeterReport, value)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
