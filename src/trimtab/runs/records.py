"""The run directory: its files, written and read. No JAX, no pickle.

    config.yaml        what was run
    manifest.json      with which versions, on what machine, how repeatable
    metrics.jsonl      one object per iteration; only keys under time/ may differ between identical runs
    episodes/          Parquet shards of finished episodes
    evaluations.jsonl  one object per evaluation of training
    evaluated.jsonl    the same, of `trimtab eval`: no part of the run, which does not know of it
    checkpoints/STEP/  state.safetensors and checkpoint.json
    buffers/           data an unfinished PPG phase or staleness queue still needs, one shard per iteration
    probes/            measurements, one Parquet table each

The two logs are appended to, and a resume cuts them back to what the newest good checkpoint knew. Everything else is
written to a temporary name, synced and renamed, so a kill leaves either the old or the new.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

SCHEMA = 1


class RunError(Exception):
    """A run directory that cannot be used as asked; one line."""


class Taken(RunError):
    """A directory that already holds something."""


class Damaged(RunError):
    """A checkpoint whose contents are not what was written."""


class Checkpoint(NamedTuple):
    """A checkpoint on disk: environment steps, and what checkpoint.json says."""

    step: int
    path: Path
    meta: dict[str, Any]


def write_atomically(path: Path, data: bytes) -> None:
    """All of `data` under `path`, or what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def write_json(path: Path, value: Any) -> None:
    write_atomically(path, (json.dumps(value, indent=2) + "\n").encode())


def write_parquet(path: Path, frame, **metadata: str) -> None:
    """A polars frame under `path`, whole or not at all."""
    data = io.BytesIO()
    frame.write_parquet(data, metadata=metadata)
    write_atomically(path, data.getvalue())


def new_path(root: Path, env_id: str, algo: str, seed: int) -> Path:
    """runs/ENV/ALGO-seedS-K with the first free K."""
    base = root / re.sub(r"[^\w.-]", "-", env_id)
    return first_free(base / f"{algo}-seed{seed}-{k}" for k in count(1))


def free_name(root: Path, name: str) -> Path:
    """ROOT/NAME-K with the first free K; what a file system may not like becomes a dash."""
    words = re.sub(r"[^\w./-]", "-", name) if "/" in name else re.sub(r"[^\w.-]", "-", name)
    return first_free(root / f"{words}-{k}" for k in count(1))


def first_free(candidates: Iterable[Path]) -> Path:
    """The first path that does not exist yet."""
    return next(path for path in candidates if not path.exists())


class RunDir:
    """One run on disk."""

    def __init__(self, path: str | PathLike[str]):
        self.path = Path(path)

    # Making and opening ----------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: str | PathLike[str], config: dict[str, Any], manifest: dict[str, Any]) -> RunDir:
        """A new run; an existing directory with anything in it is refused."""
        run = cls(path)
        if run.path.exists() and not run.path.is_dir():
            raise Taken(f"{run.path} is a file; give another --run-dir")
        refusal = Taken(f"{run.path} already exists and is not empty; give another --run-dir, or resume it")
        if run.path.exists() and any(run.path.iterdir()):
            raise refusal
        try:
            (run.path / "checkpoints").mkdir(parents=True)  # of two processes here at once, one makes it
        except FileExistsError:
            raise refusal from None
        (run.path / "episodes").mkdir()
        write_json(run.path / "manifest.json", {"schema": SCHEMA, **manifest})
        (run.path / "metrics.jsonl").touch()
        run.write_config(config)  # last: now it is a run
        return run

    @classmethod
    def began(cls, path: str | PathLike[str]) -> bool:
        """Whether there is a run here, finished or not."""
        return (Path(path) / "config.yaml").is_file()

    @classmethod
    def open(cls, path: str | PathLike[str]) -> RunDir:
        run = cls(path)
        if not cls.began(path):
            config_files = (file for depth in ("*", "*/*") for file in run.path.glob(f"{depth}/config.yaml"))
            inside = sorted(str(file.parent.relative_to(run.path)) for file in config_files)
            hint = f"; there are runs in it: {', '.join(inside[:8])}" if inside else " (no config.yaml)"
            if (run.path / "progress.csv").is_file() or any(run.path.glob("*tfevents*")):
                hint = ", but holds a log of another library: `trimtab doctor` reads some of them"
            raise RunError(f"{run.path} is not a run directory{hint}")
        schema = run.manifest().get("schema")
        if schema != SCHEMA:
            raise RunError(f"{run.path} has schema {schema}; this version reads schema {SCHEMA}")
        return run

    @property
    def log(self) -> Path:
        """Where metrics are appended."""
        return self.path / "metrics.jsonl"

    @property
    def lock(self) -> Path:
        """Held by the process that writes the run; holds its number."""
        return self.path / ".lock"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the run for writing; a second writer is refused. The lock dies with the process."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.lock, "a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                holder = file.read().strip() or "unknown"
                raise RunError(f"{self.path} is being written by another process (pid {holder})") from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def config(self) -> dict[str, Any]:
        try:
            values = yaml.safe_load((self.path / "config.yaml").read_text())
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise RunError(f"{self.path}/config.yaml cannot be read: {' '.join(str(error).split())}") from None
        if not isinstance(values, dict):
            raise RunError(f"{self.path}/config.yaml holds no fields")
        return values

    def manifest(self) -> dict[str, Any]:
        try:
            return json.loads((self.path / "manifest.json").read_text())
        except (OSError, json.JSONDecodeError) as error:
            raise RunError(f"{self.path}/manifest.json cannot be read: {error}") from None

    def write_config(self, config: dict[str, Any]) -> None:
        write_atomically(self.path / "config.yaml", yaml.safe_dump(config, sort_keys=False).encode())

    def write_manifest(self, **changes: Any) -> None:
        """The manifest with some entries changed."""
        write_json(self.path / "manifest.json", self.manifest() | changes)

    # Metrics and episodes --------------------------------------------------------------------------------

    def append_metrics(self, rows: list[dict[str, Any]]) -> None:
        self._append("metrics.jsonl", rows)

    def append_evaluation(self, row: dict[str, Any]) -> None:
        self._append("evaluations.jsonl", [row])

    def _append(self, name: str, rows: list[dict[str, Any]]) -> None:
        with open(self.path / name, "a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))

    def metrics(self) -> list[dict[str, Any]]:
        return self._read("metrics.jsonl")

    def evaluations(self) -> list[dict[str, Any]]:
        return self._read("evaluations.jsonl")

    def all_evaluations(self) -> list[dict[str, Any]]:
        """Those of training and those that were asked for later, in order of steps; of one step the latest last."""
        return sorted(
            [*self.evaluations(), *self._read("evaluated.jsonl")], key=lambda row: row["time/total_timesteps"]
        )

    def keep_evaluation(self, row: dict[str, Any]) -> None:
        """Remember what `trimtab eval` saw; where nothing can be written, it was seen all the same."""
        with suppress(OSError):
            self._append("evaluated.jsonl", [row])

    def _read(self, name: str) -> list[dict[str, Any]]:
        """Whole lines only: a kill may leave the last one unfinished."""
        path = self.path / name
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def write_episodes(self, first_iteration: int, columns: dict[str, np.ndarray]) -> None:
        """One shard of finished episodes: step, environment, return, length."""
        import polars as pl

        write_parquet(self.path / "episodes" / f"{first_iteration:010d}.parquet", pl.DataFrame(columns))

    def episodes(self):
        """All finished episodes as a polars frame."""
        import polars as pl

        shards = sorted((self.path / "episodes").glob("*.parquet"))
        empty = pl.DataFrame(schema={"step": pl.Int64, "env": pl.Int64, "return": pl.Float64, "length": pl.Int64})
        return pl.concat([empty, *(pl.read_parquet(shard) for shard in shards)])

    def probes(self) -> list[Path]:
        """Tables of measurements, oldest name first."""
        return sorted((self.path / "probes").glob("*.parquet"))

    # Checkpoints -----------------------------------------------------------------------------------------

    def write_checkpoint(self, step: int, iteration: int, tensors: dict[str, np.ndarray]) -> Path:
        """A checkpoint, whole or not at all. Metrics written so far are synced first, and their length is kept."""
        from safetensors.numpy import save

        data = save({name: np.asarray(value, order="C") for name, value in tensors.items()})
        meta = {
            "schema": SCHEMA,
            "step": step,
            "iteration": iteration,
            "sha256": hashlib.sha256(data).hexdigest(),
            "lengths": {name: self._synced_length(name) for name in ("metrics.jsonl", "evaluations.jsonl")},
        }
        final = self.path / "checkpoints" / f"{step:012d}"
        temporary = final.with_name(f".{final.name}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        write_atomically(temporary / "state.safetensors", data)
        write_json(temporary / "checkpoint.json", meta)
        if final.exists():
            shutil.rmtree(final)
        os.replace(temporary, final)
        return final

    def _synced_length(self, name: str) -> int:
        path = self.path / name
        if not path.exists():
            return 0
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        return path.stat().st_size

    def has_checkpoint(self, step: int) -> bool:
        """Whether there is one of this step that can be read."""
        try:
            return any(self.read_checkpoint(c) for c in self.checkpoints() if c.step == step)
        except Damaged:
            return False

    def checkpoints(self) -> list[Checkpoint]:
        """Checkpoints in order of steps; ones whose description cannot be read are listed with empty meta."""
        checkpoints = []
        for path in sorted((self.path / "checkpoints").glob("[0-9]*")):
            try:
                meta = json.loads((path / "checkpoint.json").read_text())
            except (OSError, json.JSONDecodeError):
                meta = {}
            checkpoints.append(Checkpoint(int(path.name), path, meta))
        return checkpoints

    def read_checkpoint(self, checkpoint: Checkpoint) -> dict[str, np.ndarray]:
        """The tensors of a checkpoint, checked against what was written."""
        from safetensors.numpy import load

        try:
            data = (checkpoint.path / "state.safetensors").read_bytes()
        except OSError as error:
            raise Damaged(f"checkpoint {checkpoint.step}: {error.strerror}") from None
        if hashlib.sha256(data).hexdigest() != checkpoint.meta.get("sha256"):
            raise Damaged(f"checkpoint {checkpoint.step} is damaged (its checksum does not match)")
        return load(data)

    def checkpoint_at(self, step: int) -> Checkpoint:
        """The checkpoint at exactly `step`; the error names the nearest ones."""
        by_step = {c.step: c for c in self.checkpoints()}
        if step not in by_step:
            near = sorted(by_step, key=lambda s: abs(s - step))[:2]
            raise RunError(f"no checkpoint at step {step} in {self.path}; nearest: {', '.join(map(str, sorted(near)))}")
        return by_step[step]

    def rewind(self, checkpoint: Checkpoint) -> None:
        """Forget everything recorded after `checkpoint`."""
        for name, length in checkpoint.meta["lengths"].items():
            path = self.path / name
            if path.exists():
                os.truncate(path, length)
        for shard in (self.path / "episodes").glob("*"):
            if shard.suffix != ".parquet" or int(shard.stem) >= checkpoint.meta["iteration"]:
                shard.unlink()
        for other in self.checkpoints():
            if other.step > checkpoint.step:
                shutil.rmtree(other.path)
        for shard in (self.path / "buffers").glob("*"):  # host environments will collect other data now
            if shard.suffix != ".safetensors" or int(shard.stem.split("-")[-1]) >= checkpoint.meta["iteration"]:
                shard.unlink()
        for leftover in (self.path / "checkpoints").glob(".*.tmp"):
            shutil.rmtree(leftover, ignore_errors=True)

    # Buffers: large parts of State kept beside the checkpoints -------------------------------------------

    def write_buffer(self, kind: str, iteration: int, tensors: dict[str, np.ndarray]) -> None:
        from safetensors.numpy import save

        write_atomically(self._buffer(kind, iteration), save({k: np.asarray(v, order="C") for k, v in tensors.items()}))

    def read_buffer(self, kind: str, iteration: int) -> dict[str, np.ndarray]:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            return load(self._buffer(kind, iteration).read_bytes())
        except (OSError, SafetensorError):
            raise Damaged(f"{self._buffer(kind, iteration).name} is missing or damaged") from None

    def has_buffer(self, kind: str, iteration: int) -> bool:
        return self._buffer(kind, iteration).exists()

    def prune_buffers(self, kind: str, oldest: int) -> None:
        """Drop shards of iterations before `oldest`."""
        for path in (self.path / "buffers").glob(f"{kind}-*.safetensors"):
            if int(path.stem.removeprefix(f"{kind}-")) < oldest:
                path.unlink()

    def _buffer(self, kind: str, iteration: int) -> Path:
        return self.path / "buffers" / f"{kind}-{iteration:010d}.safetensors"
