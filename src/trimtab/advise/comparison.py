"""Runs side by side: their differences, their results, and what the rules say of each. No JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trimtab.advise.run_summary import RunView, describe
from trimtab.config import ConfigError
from trimtab.core import markup
from trimtab.training.run import Run

SHOWN = ("act", "watch")  # verdicts worth a row
LONG = 24  # characters of a name


@dataclass(frozen=True)
class Comparison:
    """Runs side by side: fields that differ, results, findings, learning curves."""

    runs: list[RunView]

    @property
    def names(self) -> list[str]:
        """What each run is called."""
        return [run.name for run in self.runs]

    @property
    def differing(self) -> dict[str, list[Any]]:
        """Fields that are not the same everywhere, with each run's value."""
        configs = [run.config.as_dict() for run in self.runs]
        fields = {name: [config[name] for config in configs] for name in configs[0]}
        return {name: values for name, values in fields.items() if any(value != values[0] for value in values)}

    @property
    def results(self) -> dict[str, list[float | int | None]]:
        """The result of each run, by the name of the number."""
        return {
            "steps": [run.steps for run in self.runs],
            "return, last 100 episodes": [run.mean_return for run in self.runs],
            "area under the curve": [run.area for run in self.runs],
            "evaluation": [run.evaluations[-1].mean_reward if run.evaluations else None for run in self.runs],
            "steps/s": [run.fps for run in self.runs],
        }

    @property
    def findings(self) -> dict[str, list[str]]:
        """Every check that some run has to act on or to watch, with each run's verdict and evidence."""
        checks: dict[str, list[str]] = {}
        for k, run in enumerate(self.runs):
            for finding in run.diagnosis.findings:
                row = checks.setdefault(finding.check, [""] * len(self.runs))
                row[k] = f"{finding.verdict}: {finding.seen}"
        return {check: row for check, row in checks.items() if any(cell.startswith(SHOWN) for cell in row)}

    @property
    def curves(self) -> dict[str, list[tuple[int, float]]]:
        """Mean return of the last episodes by environment steps, for each run."""
        return {
            run.name: [(row.step, row.mean_return) for row in run.metrics if row.mean_return is not None]
            for run in self.runs
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; metrics stay with the runs."""
        return {
            "runs": self.names,
            "differing": self.differing,
            "results": self.results,
            "findings": {run.name: [finding.as_dict() for finding in run.diagnosis.findings] for run in self.runs},
        }

    def __repr__(self) -> str:
        rows = (self.differing | self.results).items()
        lines = [f"  {name}: {', '.join(map(plain, values))}" for name, values in rows]
        return "\n".join([f"<Comparison of {', '.join(self.names)}", *lines]) + ">"

    def _repr_html_(self) -> str:
        """For notebooks: fields, results, findings, a curve each."""
        tables = {"fields that differ": self.differing, "results": self.results, "findings": self.findings}
        parts = [
            markup.table(title, [(name, *map(plain, values)) for name, values in table.items()], ("", *self.names))
            for title, table in tables.items()
        ]
        return "".join(parts + [f"<div>{name}</div>{markup.curve(points)}" for name, points in self.curves.items()])


def compare(runs: list[Run]) -> Comparison:
    """Put runs side by side.

    Args:
        runs: two or more.

    Returns:
        Everything that `Comparison` shows, read from the runs' records.
    """
    if len(runs) < 2:
        raise ConfigError("runs", [str(run.path) for run in runs], "name at least two to compare")
    return Comparison([describe(run, name) for name, run in zip(_names(runs), runs)])


def _names(runs: list[Run]) -> list[str]:
    """The last part of each path, and as many before it as tell them apart; long ones without what all begin with."""
    parts = [run.path.resolve().parts for run in runs]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return _shortened(names)
    raise ConfigError("runs", str(runs[0].path), "the same run is named twice")


def _shortened(names: list[str]) -> list[str]:
    """Whole words that all names begin with are left out where a name is too long for the head of a column."""
    if max(map(len, names)) <= LONG:
        return names
    words = [name.split("-") for name in names]
    same = 0
    while all(len(w) > same + 1 and w[same] == words[0][same] for w in words):
        same += 1
    shared = same - 1 if same and all(w[same].isdigit() for w in words) else same  # seed-1, not 1
    return ["-".join(w[shared:]) for w in words]


def plain(value: Any) -> str:
    """A number or a field as a person reads it."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return f"{value:,}" if type(value) is int else str(value)
