"""One run looked at closely: its configuration, what the doctor finds, its evaluations and probes; a study's answer."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from trimtab.config import Config, ConfigError, from_dict
from trimtab.training.records import RunDir, RunError

HELD = 32  # runs whose details are kept
REST = 20.0  # a doctor who took a second is asked again after so many
SHOWN = (  # of a probe, in this order
    "variance",
    "individual",
    "covariance",
    "ess",
    "grad_sq",
    "bias_sq",
    "mse",
    "noise_scale",
    "noise_scale_trajectory",
    "noise_scale_environments",
)
COLUMNS = ("split", "quantity", "step", "value", "lo", "hi", "resolved", "unit")


class Details:
    """Details of runs, computed again only when their files have changed and not too often."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Any, float, dict[str, Any]]] = {}
        self._answers: dict[Path, tuple[Any, dict[str, Any]]] = {}

    def of(self, id: str, path: Path) -> dict[str, Any]:
        """Everything the page shows of one run."""
        files = RunDir(path)
        stamp = [
            _stamp(file) for file in (files.log, path / "evaluations.jsonl", path / "evaluated.jsonl", path / "probes")
        ]
        with self._lock:
            entry = self._known.get(id)
            if entry and (entry[0] == stamp or time.monotonic() < entry[1]):
                return entry[2]
            start = time.monotonic()
            body = {"id": id, **_described(files), **_diagnosed(path), "probes": _probed(files)}
            again = time.monotonic() + REST * (time.monotonic() - start)
            self._known.pop(id, None)
            self._known[id] = (stamp, again, body)
            while len(self._known) > HELD:
                del self._known[next(iter(self._known))]
            return body

    def answer(self, path: Path) -> dict[str, Any]:
        """What a study found, once it has; empty before."""
        stamp = _stamp(path / "result.json")
        if stamp is None:
            return {}
        entry = self._answers.get(path)
        if entry is None or entry[0] != stamp:
            entry = self._answers[path] = (stamp, _answer(path))
        return entry[1]


def _stamp(path: Path) -> tuple[float, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime, stat.st_size


def _answer(path: Path) -> dict[str, Any]:
    try:
        result = json.loads((path / "result.json").read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(result, dict):
        return {}
    names = ("sentence", "recommended", "reasons", "doubts", "env_id", "batch", "command")
    return {"sentence": None, **{name: result[name] for name in names if name in result}}


def _described(files: RunDir) -> dict[str, Any]:
    """The configuration: every field, which are not the default, and what follows from them."""
    try:
        config = from_dict(files.config())
        manifest = files.manifest()
    except (ConfigError, RunError, OSError) as error:
        return {"problem": str(error), "config": {}, "changed": [], "derived": {}, "manifest": {}}
    plain = config.as_dict()
    usual = Config().as_dict()
    return {
        "config": plain,
        "changed": [field.name for field in fields(Config) if plain[field.name] != usual[field.name]],
        "derived": config.derived(),
        "manifest": {name: manifest.get(name) for name in ("trimtab", "python", "machine", "command", "determinism")},
    }


def _diagnosed(path: Path) -> dict[str, Any]:
    """What the doctor says of the records so far."""
    from trimtab.advise.diagnosis import diagnose
    from trimtab.training.run import load

    nothing: dict[str, Any] = {"findings": [], "sentence": None, "next": None, "evaluations": []}
    try:
        run = load(path)
        evaluations = run.files.all_evaluations()[-100:]
        if not run.files.metrics():
            return nothing | {"evaluations": evaluations}
        diagnosis = diagnose(run)
    except (ConfigError, RunError, OSError, ValueError) as error:  # it may be half-written, or from another version
        return nothing | {"sentence": f"cannot be diagnosed: {error}"}
    findings = [
        {name: getattr(finding, name) for name in ("check", "verdict", "seen", "advice")}
        for finding in diagnosis.findings
    ]
    return {"findings": findings, "sentence": diagnosis.sentence, "next": diagnosis.command, "evaluations": evaluations}


def _probed(files: RunDir) -> list[dict[str, Any]]:
    """The latest measurement of every quantity, by split."""
    import polars as pl

    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for table in files.probes():
        try:
            rows = pl.read_parquet(table).filter(pl.col("quantity").is_in(SHOWN) & pl.col("lag").is_null())
        except (pl.exceptions.PolarsError, OSError):
            continue  # not a table of measurements
        for row in rows.iter_rows(named=True):
            previous = newest.get((row["split"], row["quantity"]))
            if previous is None or (row["step"] or 0) >= (previous["step"] or 0):
                newest[row["split"], row["quantity"]] = row
    order = sorted(newest, key=lambda key: (key[0], SHOWN.index(key[1])))
    return [{name: newest[key][name] for name in COLUMNS} for key in order]
