"""Runs side by side: what was different, what came of it, what the rules say of each. No JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trimtab.advise.diagnosis import diagnose
from trimtab.config import ConfigError
from trimtab.core import markup
from trimtab.training.run import Run

SHOWN = ("act", "watch")  # verdicts worth a row
LONG = 24  # characters of a name
RESULTS = {
    "steps": "total_timesteps",
    "return, last 100 episodes": "ep_rew_mean",
    "area under the curve": "area",
    "evaluation": "evaluation",
    "steps/s": "fps",
}


@dataclass(frozen=True)
class Comparison:
    """One entry per run, of plain values: name, path, config, metrics (rows), findings, summary."""

    runs: list[dict[str, Any]]

    @property
    def names(self) -> list[str]:
        return [run["name"] for run in self.runs]

    @property
    def differing(self) -> dict[str, list[Any]]:
        """Fields that are not the same everywhere, with each run's value."""
        fields = {name: [run["config"].get(name) for run in self.runs] for name in self.runs[0]["config"]}
        return {name: values for name, values in fields.items() if any(value != values[0] for value in values)}

    @property
    def results(self) -> dict[str, list[Any]]:
        """What came of each run, by the name of the number."""
        return {label: [run["summary"][name] for run in self.runs] for label, name in RESULTS.items()}

    @property
    def findings(self) -> dict[str, list[str]]:
        """Every check that some run has to act on or to watch, with each run's verdict and what was seen."""
        checks: dict[str, list[str]] = {}
        for k, run in enumerate(self.runs):
            for finding in run["findings"]:
                row = checks.setdefault(finding["check"], [""] * len(self.runs))
                row[k] = f"{finding['verdict']}: {finding['seen']}"
        return {check: row for check, row in checks.items() if any(cell.startswith(SHOWN) for cell in row)}

    @property
    def curves(self) -> dict[str, list[tuple[int, float]]]:
        """Mean return of the last episodes by environment steps, for each run."""
        point = lambda row: (row["time/total_timesteps"], row["rollout/ep_rew_mean"])
        return {run["name"]: [point(r) for r in run["metrics"] if "rollout/ep_rew_mean" in r] for run in self.runs}

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; metrics stay with the runs."""
        return {
            "runs": self.names,
            "differing": self.differing,
            "results": self.results,
            "findings": {run["name"]: run["findings"] for run in self.runs},
        }

    def __repr__(self) -> str:
        cells = lambda values: ", ".join(plain(value) for value in values)
        lines = [f"  {name}: {cells(values)}" for name, values in (self.differing | self.results).items()]
        return "\n".join([f"<Comparison of {', '.join(self.names)}", *lines]) + ">"

    def _repr_html_(self) -> str:
        """For notebooks: fields, results, findings, a curve each."""
        rows = lambda table: [(name, *map(plain, values)) for name, values in table.items()]
        head = ("", *self.names)
        parts = [
            markup.table("fields that differ", rows(self.differing), head),
            markup.table("results", rows(self.results), head),
            markup.table("findings", rows(self.findings), head),
        ]
        curves = [f"<div>{name}</div>{markup.curve(points)}" for name, points in self.curves.items()]
        return "".join([*parts, *curves])


def compare(runs: list[Run]) -> Comparison:
    """Everything `Comparison` shows, read from the runs' records."""
    if len(runs) < 2:
        raise ConfigError("runs", [str(run.path) for run in runs], "name at least two to compare")
    names = _names(runs)
    return Comparison([_entry(name, run) for name, run in zip(names, runs)])


def _entry(name: str, run: Run) -> dict[str, Any]:
    evaluations = run.files.all_evaluations()
    last = evaluations[-1].mean_reward if evaluations else None
    return {
        "name": name,
        "path": str(run.path),
        "config": run.config.as_dict(),
        "metrics": [row.as_dict() for row in run.files.metrics()],
        "findings": [finding.as_dict() for finding in diagnose(run).findings],
        "summary": run.summary().as_dict() | {"area": run.area, "evaluation": last},
    }


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
