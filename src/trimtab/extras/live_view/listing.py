"""Every run and study under a directory with its status. What has not changed is not read again."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from trimtab.core import reading
from trimtab.core.errors import UnreadableFile
from trimtab.extras.live_view.growing_log import Log
from trimtab.extras.live_view.run_details import Details
from trimtab.extras.live_view.run_labels import Fields, count_of, flat_fields, labels, value_of
from trimtab.extras.live_view.run_tree import FileStamp, Locks, Place, RunTree, leads_inside
from trimtab.training.records import MetricsRow
from trimtab.training.run_dir import RunDir

RETURN, STEPS = "rollout/ep_rew_mean", "time/total_timesteps"
LAST = ("iteration", STEPS, RETURN, "time/fps", "not_finite")  # what the list needs of a run's last row
SPARKS, POINTS = 48, 320  # rows of a small curve and of a large one
OPEN = 32  # runs whose large curves are kept; the one looked at longest ago is dropped first
GLANCE = 1.0  # seconds between two looks at the directories
RECENT = 60.0  # a run on another machine counts as running if it wrote so many seconds ago
MOST_CONFIG = 65_536  # bytes of a configuration


def _accepted_metrics(row: Any) -> dict[str, Any] | None:
    """A row of metrics.jsonl with its numbers; None for anything else."""
    try:
        return MetricsRow.from_dict(row).as_dict()
    except ValueError:
        return None


@dataclass(frozen=True)
class RunEntry:
    """One run of the list.

    Args:
        id: its path below the root.
        group: id of the study that it belongs to, otherwise its folder.
        label: what tells it apart from the other runs of its group.
        status: running, finished, interrupted, or "not finite".
    """

    id: str
    group: str
    label: str
    env_id: str
    algo: str
    seed: int | None
    batch: tuple[int | None, int | None]
    step: int
    total: int
    mean_return: float | None
    fps: float | None
    status: str
    modified: float

    @cached_property
    def json(self) -> str:
        """The entry as JSON; written once, because a list may hold thousands."""
        values = asdict(self)
        values["return"] = values.pop("mean_return")
        return json.dumps(values)


@dataclass(frozen=True)
class _StudyEntry:
    """One study of the list: its kind, how many of its runs are done, and its answer once it has one."""

    id: str
    kind: str
    status: str
    runs: int
    done: int
    sentence: str | None
    page: bool
    modified: float


@dataclass(frozen=True)
class Listing:
    """What there is under a directory; studies newest first."""

    root: str
    runs: tuple[RunEntry, ...]
    studies: tuple[_StudyEntry, ...]

    @cached_property
    def json(self) -> str:
        studies = json.dumps([asdict(study) for study in self.studies])
        runs = ", ".join(run.json for run in self.runs)
        return f'{{"root": {json.dumps(self.root)}, "runs": [{runs}], "studies": {studies}}}'


@dataclass(frozen=True)
class _Curve:
    """Metrics of a run over its steps, and the names of all metrics that it records."""

    id: str
    step: list[int | None]
    metrics: dict[str, list[float | None]]
    names: list[str]


@dataclass(frozen=True)
class _Files:
    """The files of a run that the list looks at; their paths are made once, which saves most of the time."""

    config: Path
    log: Path
    lock: Path

    @classmethod
    def of(cls, place: Place) -> _Files:
        run = RunDir(place.path)
        return cls(run.path / "config.yaml", run.log, run.lock)


@dataclass(frozen=True)
class _Known:
    """An entry, and what it was made from."""

    made_from: tuple[object, ...]
    entry: RunEntry


class Watch:
    """The runs and studies under a directory. Several threads may use it."""

    def __init__(self, root: Path):
        self.root = root.resolve()
        self.tree = RunTree(self.root)
        self.details = Details(self.root)
        self._lock = threading.Lock()
        self._looked = -GLANCE
        self._places: dict[str, Place] = {}
        self._files: dict[str, _Files] = {}
        self._groups: dict[str, str] = {}
        self._labels: dict[str, tuple[object, dict[str, str]]] = {}
        self._configs: dict[str, tuple[FileStamp, Fields]] = {}
        self._tails: dict[str, tuple[FileStamp, Log]] = {}
        self._entries: dict[str, _Known] = {}
        self._sparks: dict[str, Log] = {}
        self._curves: OrderedDict[str, Log] = OrderedDict()
        self._listing = Listing(str(self.root), (), ())
        self._gone = 0  # bytes read by logs that are no longer kept

    @property
    def bytes_read(self) -> int:
        """Bytes of logs read so far."""
        kept = [*(log for _, log in self._tails.values()), *self._sparks.values(), *self._curves.values()]
        return self._gone + sum(log.bytes_read for log in kept)

    # The list --------------------------------------------------------------------------------------------

    def listing(self) -> Listing:
        """Every run and study, with status and last numbers; the same object while nothing changes."""
        with self._lock:
            self._look()
            places = [place for place in self._places.values() if place.is_run]
            names, locks = self._labels_of(places), Locks()
            runs = tuple(self._entry(place, names[place.id], locks) for place in places)
            now = Listing(str(self.root), runs, tuple(self._studies(runs)))
            if now != self._listing:
                self._listing = now
            return self._listing

    def place(self, id: str) -> Place | None:
        """A run or study by its id; ids of anything that was not found under the root give None."""
        with self._lock:
            self._look()
            return self._places.get(id)

    def _look(self) -> None:
        if time.monotonic() - self._looked < GLANCE:
            return
        places = self.tree.places()
        self._looked = time.monotonic()
        if places == list(self._places.values()):
            return
        self._places = {place.id: place for place in places}
        self._files = {place.id: _Files.of(place) for place in places if place.is_run}
        self._groups = {id: self._group(id) for id in self._files}
        for store in (self._configs, self._tails, self._entries, self._sparks, self._curves):
            for gone in store.keys() - self._places.keys():
                del store[gone]

    def _group(self, id: str) -> str:
        """The innermost study around a run, or its folder."""
        return next(self._studies_around(id), PurePosixPath(id).parent.as_posix())

    def _studies_around(self, id: str) -> Iterator[str]:
        around = (parent.as_posix() for parent in PurePosixPath(id).parents)
        return (parent for parent in around if parent in self._places and not self._places[parent].is_run)

    def _labels_of(self, places: Iterable[Place]) -> dict[str, str]:
        """The label of every run; those of a group are made again when one of its configurations has changed."""
        groups: dict[str, dict[str, Fields]] = {}
        for place in places:
            groups.setdefault(self._groups[place.id], {})[place.id] = self._config(place)
        found: dict[str, str] = {}
        kept = {}
        for group, runs in groups.items():
            made_from = [(id, self._configs[id][0]) for id in runs]
            known = self._labels.get(group)
            kept[group] = known if known and known[0] == made_from else (made_from, labels(runs))
            found |= kept[group][1]
        self._labels = kept
        return found

    def _entry(self, place: Place, label: str, locks: Locks) -> RunEntry:
        files = self._files[place.id]
        log, lock = FileStamp.of(files.log), FileStamp.of(files.lock)
        is_held = locks.hold(files.lock, lock)
        made_from = (log, lock, is_held, label, self._configs[place.id][0], self._groups[place.id])
        known = self._entries.get(place.id)
        if known is None or known.made_from != made_from or known.entry.status == "running":
            last = self._last(place, log)
            status = self._status(place, last, log, is_held, bool(lock.inode) and locks.are_known)
            known = _Known(made_from, self._made(place, label, last, status, log.time))
            self._entries[place.id] = known
        return known.entry

    def _made(self, place: Place, label: str, last: dict[str, Any], status: str, modified: float) -> RunEntry:
        fields = self._configs[place.id][1]
        return RunEntry(
            id=place.id,
            group=self._groups[place.id],
            label=label,
            env_id=str(value_of(fields.get("env_id", "")) or "?"),
            algo=str(value_of(fields.get("algo", "")) or "?"),
            seed=count_of(fields.get("seed")),
            batch=(count_of(fields.get("num_envs")), count_of(fields.get("num_steps"))),
            step=last.get(STEPS, 0),
            total=self._total(place),
            mean_return=last.get(RETURN),
            fps=last.get("time/fps"),
            status=status,
            modified=modified,
        )

    def _status(self, place: Place, last: dict[str, Any], log: FileStamp, is_held: bool, was_here: bool) -> str:
        """`was_here`: a process of this machine held the run; nobody does now, so it has ended."""
        total = self._total(place)
        if is_held:
            return "running"
        if total and last.get(STEPS, 0) >= total:
            return "finished"
        if "not_finite" in last:
            return "not finite"
        return "running" if time.time() - log.time < RECENT and not was_here else "interrupted"

    def _total(self, place: Place) -> int:
        """Environment steps that a run will take: whole iterations only."""
        fields = self._configs[place.id][1]
        envs, steps, total = (count_of(fields.get(name)) for name in ("num_envs", "num_steps", "total_timesteps"))
        return total // (envs * steps) * envs * steps if envs and steps and total else 0

    def _config(self, place: Place) -> Fields:
        file = self._files[place.id].config
        stamp, known = FileStamp.of(file), self._configs.get(place.id)
        if known is None or known[0] != stamp:
            try:
                fields = flat_fields(reading.read_text(file, MOST_CONFIG)) if leads_inside(self.root, file) else {}
            except UnreadableFile:
                fields = {}
            known = self._configs[place.id] = (stamp, fields)
        return known[1]

    def _last(self, place: Place, stamp: FileStamp) -> dict[str, Any]:
        """A run's last row; read again only if the log has changed."""
        known = self._tails.get(place.id)
        log = known[1] if known else Log(self._files[place.id].log, 0, LAST, _accepted_metrics)
        if known is None or known[0] != stamp:
            if leads_inside(self.root, log.path):
                log.refresh()
            self._tails[place.id] = (stamp, log)
        return log.last or {}

    def _studies(self, runs: Iterable[RunEntry]) -> list[_StudyEntry]:
        inside: dict[str, list[RunEntry]] = {}
        for run in runs:
            for study in self._studies_around(run.id):
                inside.setdefault(study, []).append(run)
        places = (place for place in self._places.values() if not place.is_run)
        return sorted((self._study(place, inside.get(place.id, [])) for place in places), key=lambda s: -s.modified)

    def _study(self, place: Place, runs: list[RunEntry]) -> _StudyEntry:
        statuses = [run.status for run in runs]
        answer = self.details.answer(place.path)
        return _StudyEntry(
            id=place.id,
            kind=place.kind,
            status="finished" if answer else "running" if "running" in statuses else "unfinished",
            runs=len(runs),
            done=statuses.count("finished"),
            sentence=answer.get("sentence"),
            page=(place.path / "page.html").is_file(),
            modified=max((run.modified for run in runs), default=0.0),
        )

    # Curves ----------------------------------------------------------------------------------------------

    def curve(self, place: Place, names: list[str], small: bool = False) -> _Curve:
        """Some metrics of a run over its steps; `small` for about as many points as a small curve shows."""
        with self._lock:
            log = self._spark(place) if small else self._curve(place)
            if leads_inside(self.root, log.path):
                log.refresh()
            rows = log.curve()
        recorded = sorted({name for row in rows[:1] + rows[-1:] for name in row} - {STEPS, "iteration", "not_finite"})
        metrics = {name: [row.get(name) for row in rows] for name in names or [RETURN]}
        return _Curve(place.id, [row.get(STEPS) for row in rows], metrics, recorded)

    def _spark(self, place: Place) -> Log:
        return self._sparks.setdefault(
            place.id, Log(self._files[place.id].log, SPARKS, (STEPS, RETURN), _accepted_metrics)
        )

    def _curve(self, place: Place) -> Log:
        log = self._curves.pop(place.id, None) or Log(self._files[place.id].log, POINTS, None, _accepted_metrics)
        self._curves[place.id] = log
        while len(self._curves) > OPEN:
            self._gone += self._curves.popitem(last=False)[1].bytes_read
        return log
