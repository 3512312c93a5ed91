"""What the page shows, from what is on disk, in bounded work and memory: what has not changed is not read again."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import yaml

from trimtab.extras.live_view import details
from trimtab.extras.live_view.growing_log import Log
from trimtab.extras.live_view.tree import Place, is_held, locks, places
from trimtab.training.records import RunDir

RETURN, STEPS = "rollout/ep_rew_mean", "time/total_timesteps"
LAST = ("iteration", STEPS, RETURN, "time/fps", "not_finite")  # what the list needs of a run's last row
SPARKS, POINTS = 48, 320  # rows of a small curve and of a large one
OPEN = 32  # runs whose large curves are held; the one looked at longest ago goes first
GLANCE = 1.0  # seconds in which the tree is not walked twice
RECENT = 60.0  # a run on another machine is taken to be running if it wrote so many seconds ago
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Watch:
    """The runs and studies under a directory. Safe to ask from several threads."""

    def __init__(self, root: Path):
        self.root = root.resolve()
        self._lock = threading.Lock()
        self._places: dict[str, Place] = {}
        self._walked = -GLANCE
        self._configs: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._tails: dict[str, tuple[Any, Log]] = {}
        self._sparks: dict[str, Log] = {}
        self._curves: OrderedDict[str, Log] = OrderedDict()
        self.details = details.Details()
        self._gone = 0  # bytes read by logs that are no longer held

    @property
    def bytes_read(self) -> int:
        """Bytes of logs read so far."""
        held = [*(log for _, log in self._tails.values()), *self._sparks.values(), *self._curves.values()]
        return self._gone + sum(log.bytes_read for log in held)

    # The list --------------------------------------------------------------------------------------------

    def listing(self) -> dict[str, Any]:
        """Every run and study, with status and last numbers."""
        with self._lock:
            self._walk()
            held = locks()
            runs = [self._run(place, held) for place in self._places.values() if place.kind == "run"]
            studies = [self._study(place, runs) for place in self._places.values() if place.kind != "run"]
        newest_first = sorted(studies, key=lambda study: -study["modified"])
        return {"root": str(self.root), "runs": runs, "studies": newest_first}

    def _walk(self) -> None:
        if time.monotonic() - self._walked < GLANCE:
            return
        self._places = {place.id: place for place in places(self.root)}
        self._walked = time.monotonic()
        for store in (self._configs, self._tails, self._sparks, self._curves):
            for gone in store.keys() - self._places.keys():
                del store[gone]

    def place(self, id: str) -> Place | None:
        """A run or study by its id; only what a walk has found can be asked for."""
        with self._lock:
            self._walk()
            return self._places.get(id)

    def _run(self, place: Place, held: set[tuple[int, int]] | None) -> dict[str, Any]:
        files = RunDir(place.path)
        config, last = self._config(place), self._last(place)
        total = _steps(config)
        step = last.get(STEPS, 0)
        return {
            "id": place.id,
            "env_id": config.get("env_id", "?"),
            "algo": config.get("algo", "?"),
            "seed": config.get("seed"),
            "batch": [config.get("num_envs"), config.get("num_steps")],
            "step": step,
            "total": total,
            "return": last.get(RETURN),
            "fps": last.get("time/fps"),
            "status": self._status(files, last, total, held),
            "modified": _stamp(files.log)[0],
        }

    def _status(self, files: RunDir, last: dict[str, Any], total: int, held: set[tuple[int, int]] | None) -> str:
        if is_held(files, held):
            return "running"
        if total and last.get(STEPS, 0) >= total:
            return "finished"
        if "not_finite" in last:
            return "not finite"
        here = files.lock.exists()  # nobody holds it: whoever did has ended, unless on another machine
        recent = time.time() - _stamp(files.log)[0] < RECENT
        return "running" if recent and not (here and held is not None) else "interrupted"

    def _config(self, place: Place) -> dict[str, Any]:
        file = place.path / "config.yaml"
        stamp, entry = _stamp(file), self._configs.get(place.id)
        if entry is None or entry[0] != stamp:
            try:
                values = yaml.load(file.read_bytes(), _LOADER)
            except (OSError, yaml.YAMLError):
                values = {}
            entry = self._configs[place.id] = (stamp, values if isinstance(values, dict) else {})
        return entry[1]

    def _last(self, place: Place) -> dict[str, Any]:
        """A run's last row; read again only if the log has changed."""
        files = RunDir(place.path)
        stamp, entry = _stamp(files.log), self._tails.get(place.id)
        log = entry[1] if entry else Log(files.log, 0, LAST)
        if entry is None or entry[0] != stamp:
            log.refresh()
            self._tails[place.id] = (stamp, log)
        return log.last or {}

    def _study(self, place: Place, runs: list[dict[str, Any]]) -> dict[str, Any]:
        inside = [run for run in runs if run["id"].startswith(f"{place.id}/") or place.id == "."]
        statuses = [run["status"] for run in inside]
        answer = self.details.answer(place.path)
        status = "finished" if answer else "running" if "running" in statuses else "unfinished"
        return {
            "id": place.id,
            "kind": place.kind,
            "status": status,
            "runs": len(inside),
            "done": statuses.count("finished"),
            "sentence": answer.get("sentence") if answer else None,
            "page": (place.path / "page.html").is_file(),
            "modified": max((run["modified"] for run in inside), default=0.0),
        }

    def config(self, place: Place) -> dict[str, Any]:
        """The fields of a run."""
        with self._lock:
            return self._config(place)

    # Curves ----------------------------------------------------------------------------------------------

    def curve(self, place: Place, names: list[str], small: bool = False) -> dict[str, Any]:
        """Some metrics of a run over its steps, and the names of all of them."""
        with self._lock:
            log = self._spark(place) if small else self._curve(place)
            log.refresh()
            rows = log.curve()
        recorded = sorted({name for row in rows[:1] + rows[-1:] for name in row} - {STEPS, "iteration", "not_finite"})
        return {
            "id": place.id,
            "step": [row.get(STEPS) for row in rows],
            "metrics": {name: [row.get(name) for row in rows] for name in names or [RETURN]},
            "names": recorded,
        }

    def _spark(self, place: Place) -> Log:
        return self._sparks.setdefault(place.id, Log(RunDir(place.path).log, SPARKS, (STEPS, RETURN)))

    def _curve(self, place: Place) -> Log:
        log = self._curves.pop(place.id, None) or Log(RunDir(place.path).log, POINTS)
        self._curves[place.id] = log
        while len(self._curves) > OPEN:
            self._gone += self._curves.popitem(last=False)[1].bytes_read
        return log


def _steps(config: dict[str, Any]) -> int:
    """Environment steps a run will really take: whole iterations only."""
    try:
        batch = config["num_envs"] * config["num_steps"]
        return config["total_timesteps"] // batch * batch
    except (KeyError, TypeError, ZeroDivisionError):
        return 0


def _stamp(path: Path) -> tuple[float, int, int]:
    """When a file was last written, its size and which file it is."""
    try:
        stat = path.stat()
    except OSError:
        return 0.0, 0, 0
    return stat.st_mtime, stat.st_size, stat.st_ino
