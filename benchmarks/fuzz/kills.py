"""Training killed at random moments and at every call that writes, resumed, and compared with an undisturbed run.

Each process is a fork of this one, which has imported everything but started no JAX backend, so a kill costs a second.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trimtab.training.run_dir as run_directories
from benchmarks.fuzz.ledger import Cases, Tally
from trimtab.config import Config
from trimtab.core import writing
from trimtab.training import loop
from trimtab.training.run_dir import RunDir

SMALL = {"env_id": "FrozenLake-v1", "num_envs": 2, "num_steps": 8, "hidden_sizes": (4,), "num_minibatches": 2}
SMALL |= {"update_epochs": 1, "eval_episodes": 1, "total_timesteps": 192, "eval_every": 64, "norm_obs": True}
KINDS: dict[str, Config] = {
    "ppo": Config(**SMALL),
    "ppg-ewma": Config(**SMALL, algo="ppg-ewma", policy_iterations=4, aux_epochs=1, aux_minibatch_size=64),
    "stale": Config(**SMALL, staleness=2, norm_adv="ewma", norm_adv_span=3.0),
    "reinforce": Config(**SMALL | {"env_id": "CartPole-v1"}, algo="reinforce", probe_every=3),
}
CHECKPOINTS = 4
WRITES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"}
MOST_KILLS = 4  # in one case, before the run is left alone
SECONDS = 300  # for one process


def train(kind: str, path: Path) -> None:
    """Train, or resume what is there, as workers of studies do."""
    loop.train_or_resume(KINDS[kind], path, checkpoints=CHECKPOINTS, say=lambda text: None)


def write_digests(path: Path, out: Path) -> None:
    """Digests of everything of a run that must be the same between identical runs. In a fork: polars starts threads."""
    run = RunDir.open(path)
    rows = [
        {k: v for k, v in row.as_dict().items() if k == "time/total_timesteps" or not k.startswith("time/")}
        for row in run.metrics()
    ]
    tensors = {
        c.step: sorted((n, a.dtype.str, a.tobytes()) for n, a in run.read_checkpoint(c).items())
        for c in run.checkpoints()
    }
    values = {
        "metrics": rows,
        "evaluations": [evaluation.as_dict() for evaluation in run.evaluations()],
        "episodes": run.episodes().rows(),
        "checkpoints": tensors,
        "files": sorted(str(f.relative_to(path)) for f in path.rglob("*") if f.is_file() and f.name != ".lock"),
    }
    digests = {name: hashlib.sha256(repr(value).encode()).hexdigest() for name, value in values.items()}
    out.write_text(json.dumps(digests))


# Processes -------------------------------------------------------------------------------------------------


def forked(work: Callable[[], None], kill_after: float | None = None, report: Path | None = None) -> int:
    """Run `work` in a fork; returns its exit code, or minus the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            if report is not None:
                report.write_text(traceback.format_exc())
        finally:
            os._exit(code)
    deadline = time.monotonic() + SECONDS
    kill_at = time.monotonic() + kill_after if kill_after is not None else deadline
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > kill_at:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


class Counter:
    """Counts the calls that write below a directory, and kills this process at one of them."""

    def __init__(self, place: Path, at: int, how: str, counted: Path | None = None):
        self.place, self.at, self.how, self.count, self.counted = str(place), at, how, 0, counted
        self.pid = os.getpid()

    def install(self) -> None:
        sys.addaudithook(self._seen)
        synced = os.fsync
        os.fsync = lambda descriptor: (self._next(), synced(descriptor))[1]
        for module in (writing, run_directories):
            module.open = self._open  # type: ignore[attr-defined]

    def _seen(self, event: str, arguments: tuple[Any, ...]) -> None:
        below = arguments and isinstance(arguments[0], str | os.PathLike) and str(arguments[0]).startswith(self.place)
        if below and event in WRITES:
            self._next()

    def _next(self) -> None:
        self.count += 1
        if self.counted is not None:
            self.counted.write_text(str(self.count))
        if self.count == self.at:
            os.kill(self.pid, signal.SIGKILL)

    def _open(self, path: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
        """Opening for writing counts; a torn write leaves a part of the data behind."""
        if not set(mode) & set("wax+") or not str(path).startswith(self.place):
            return open(path, mode, *more, **options)
        if self.how == "torn" and self.count + 1 == self.at:
            return Torn(open(path, mode, *more, **options), self._next)
        self._next()
        return open(path, mode, *more, **options)


class Torn:
    """A file of which only a part is written before the process ends."""

    def __init__(self, file: Any, end: Callable[[], None]):
        self._file, self._end = file, end

    def __enter__(self) -> Torn:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: Any) -> None:
        self._file.write(data[: random.Random(len(data)).randrange(len(data) + 1)])
        self._file.flush()
        self._end()


def recorded(path: Path, root: Path) -> dict[str, Any]:
    """Digests of a run, taken in another process."""
    out = root / "digests"
    out.unlink(missing_ok=True)
    forked(lambda: write_digests(path, out), report=root / "error")
    return json.loads(out.read_text()) if out.exists() else {"reading": _text(root / "error")[-600:]}


# Cases -----------------------------------------------------------------------------------------------------


class Reference:
    """An undisturbed run of every kind, how many calls wrote it, and how long it took."""

    def __init__(self, root: Path):
        self.recorded, self.calls, self.seconds = {}, {}, {}
        for kind in KINDS:
            for name in ("first", "whole"):  # the first one compiles
                path, begin = root / kind / name, time.monotonic()
                path.parent.mkdir(exist_ok=True)
                counter = lambda path=path: Counter(path, 0, "count", path.with_name("calls")).install()
                code = forked(
                    lambda path=path, kind=kind, counter=counter: (counter(), train(kind, path))[1],
                    report=root / "error",
                )
                if code:
                    raise RuntimeError(f"{kind} does not train ({code}): {_text(root / 'error')}")
                self.seconds[kind] = time.monotonic() - begin
            self.recorded[kind] = recorded(root / kind / "whole", root)
            self.calls[kind] = int((root / kind / "calls").read_text())


def run(cases: Cases, tally: Tally) -> None:
    """Kill runs, resume them, kill them again, and compare what they end with."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        reference = Reference(root)
        tally.measures["calls that write, by kind"] = dict(reference.calls)
        for case, rng in cases:
            kind = rng.choice(list(KINDS))
            path = root / "runs" / case.replace(":", "-")
            error = root / "error"
            error.unlink(missing_ok=True)
            for _ in range(rng.randrange(1, MOST_KILLS + 1)):
                _killed(kind, path, rng, reference, tally, error)
            code = forked(lambda kind=kind, path=path: train(kind, path), report=error)
            if code:
                tally.problem(case, f"{kind} does not resume ({code}): {_text(error)[-600:]}")
            elif difference := _differs(reference.recorded[kind], recorded(path, root)):
                tally.problem(case, f"{kind} differs from the undisturbed run in {difference}")
            tally.counts["killed runs compared"] += 1
            _remove(path)


def _killed(kind: str, path: Path, rng: random.Random, reference: Reference, tally: Tally, error: Path) -> None:
    """One attempt that ends by a kill, or by itself where the moment comes too late."""
    how = rng.choice(("call", "call", "torn", "moment"))
    at = rng.randrange(1, reference.calls[kind] + 1)
    after = rng.uniform(0, reference.seconds[kind]) if how == "moment" else None

    def work() -> None:
        if how != "moment":
            Counter(path, at, how).install()
        train(kind, path)

    code = forked(work, after, error)
    if code == -signal.SIGKILL:
        tally.counts["kills"] += 1
        tally.counts[f"kills at a {'moment' if how == 'moment' else 'writing call'}"] += 1


def _differs(one: dict[str, Any], other: dict[str, Any]) -> str:
    return ", ".join(f"{name} {other.get('reading', '')}" for name in one if one[name] != other.get(name))


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _remove(path: Path) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)
