"""One run in detail: configuration, findings of the doctor, evaluations, probes; and the answer of a study."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.advise.diagnosis import Diagnosis, diagnose
from trimtab.config import Config
from trimtab.core import reading
from trimtab.core.errors import UnreadableFile, UserError
from trimtab.core.quantities import ESTIMATES
from trimtab.extras.live_view.run_tree import FileStamp, Place, leads_inside, link_out
from trimtab.training.run import load
from trimtab.training.run_dir import RunDir

KEPT = 64  # runs whose details are kept
REST = 20.0  # a diagnosis that took a second is made again after so many seconds at the earliest
EVALUATIONS = 100  # the newest ones
ANSWER = ("sentence", "recommended", "reasons", "doubts", "env_id", "batch", "command")  # of a study's result.json
MANIFEST = ("trimtab", "python", "machine", "command", "determinism")
PROBED = ("split", "quantity", "step", "value", "lo", "hi", "resolved", "unit")
READ_FROM = ("config.yaml", "metrics.jsonl", "evaluations.jsonl", "evaluated.jsonl", "probes")
UNREADABLE = (UserError, OSError, ValueError)  # half-written, damaged, or of another version


@dataclass(frozen=True)
class _RunDetails:
    """Everything the page shows of one run; `problem` says why a part is missing."""

    id: str
    config: Config | None
    manifest: dict[str, Any]
    diagnosis: Diagnosis | None
    evaluations: list[dict[str, Any]]
    probes: list[dict[str, Any]]
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        values, usual = self.config.as_dict() if self.config else {}, Config().as_dict()
        found = self.diagnosis
        names = ("check", "verdict", "seen", "advice")
        return {
            "id": self.id,
            "config": values,
            "changed": [name for name, value in values.items() if value != usual[name]],
            "derived": self.config.derived() if self.config else {},
            "manifest": {name: self.manifest.get(name) for name in MANIFEST},
            "findings": [{name: getattr(f, name) for name in names} for f in found.findings] if found else [],
            "sentence": found.sentence if found else self.problem and f"This run cannot be diagnosed: {self.problem}",
            "next": found.command if found else None,
            "evaluations": self.evaluations,
            "probes": self.probes,
        } | ({"problem": self.problem} if self.problem else {})


@dataclass(frozen=True)
class _Known:
    """Details, the files they were made from, and when they may be made again."""

    stamps: list[FileStamp]
    again: float
    details: _RunDetails


class Details:
    """Details of runs, made again only when their files have changed and not too often."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._answers: dict[Path, tuple[FileStamp, dict[str, Any]]] = {}

    def of(self, place: Place) -> _RunDetails:
        """Everything the page shows of one run."""
        stamps = [FileStamp.of(place.path / name) for name in READ_FROM]
        with self._lock:
            known = self._known.pop(place.id, None)
            if known is None or (known.stamps != stamps and time.monotonic() >= known.again):
                start = time.monotonic()
                details = _details(place, link_out(self._root, place.path))
                took = time.monotonic() - start
                known = _Known(stamps, start + took + REST * took, details)
            self._known[place.id] = known
            while len(self._known) > KEPT:
                del self._known[next(iter(self._known))]
            return known.details

    def answer(self, path: Path) -> dict[str, Any]:
        """The answer of a study, as it is in result.json; empty before there is one."""
        stamp = FileStamp.of(path / "result.json")
        if stamp == FileStamp() or not leads_inside(self._root, path / "result.json"):
            return {}
        known = self._answers.get(path)
        if known is None or known[0] != stamp:
            known = self._answers[path] = (stamp, _answer(path))
        return known[1]


def read_config(place: Place) -> Config | None:
    """The configuration of a run; None where it is damaged or of another version."""
    try:
        return RunDir(place.path).config()
    except UNREADABLE:
        return None


def _answer(path: Path) -> dict[str, Any]:
    try:
        result = reading.read_json_object(path / "result.json")
    except UnreadableFile:
        return {}
    return {"sentence": None, **{name: result[name] for name in ANSWER if name in result}}


def _details(place: Place, link: str | None) -> _RunDetails:
    if link is not None:
        problem = f"{link} is a link to a place outside of the directory shown here, and is not followed"
        return _RunDetails(place.id, None, {}, None, [], [], problem)
    with reading.collect_problems() as damaged:
        try:
            run = load(place.path)
            config, manifest = run.config, run.files.manifest().as_dict()
        except UNREADABLE as error:
            return _RunDetails(place.id, None, {}, None, [], [], str(error))
        evaluations = [evaluation.as_dict() for evaluation in run.files.all_evaluations()[-EVALUATIONS:]]
        diagnosis, problem = None, ""
        try:
            diagnosis = diagnose(run) if run.files.metrics() else None
        except UNREADABLE as error:
            problem = str(error)
        probes = _probes(run.files)
    return _RunDetails(place.id, config, manifest, diagnosis, evaluations, probes, problem or "; ".join(damaged))


def _probes(files: RunDir) -> list[dict[str, Any]]:
    """The latest measurement of every quantity with an interval, by split, as rows for JSON."""
    import polars as pl

    order = [quantity.name for quantity in ESTIMATES]
    table = files.measurements().filter(pl.col("quantity").is_in(order) & pl.col("lag").is_null())
    newest = table.sort("step", maintain_order=True, nulls_last=False).unique(["split", "quantity"], keep="last")
    rows = newest.select(PROBED).rows(named=True)
    return sorted(rows, key=lambda row: (row["split"] or "", order.index(row["quantity"])))
