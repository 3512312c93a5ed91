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

Files are read through `trimtab.core.reading`, as those of a stranger: a damaged line or shard is reported and skipped,
and nothing in a file names another file to change.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from trimtab.core import reading, trust
from trimtab.core.errors import RunError, UnreadableFile
from trimtab.core.writing import write_atomically, write_json, write_parquet

__all__ = ["RunDir", "RunError"]

SCHEMA = 1
LOGS = ("metrics.jsonl", "evaluations.jsonl")  # appended to, and cut back by a resume
LARGEST = 2**53  # a count of steps or iterations that a file may hold; more is damage


class Taken(RunError):
    """A directory that already holds something."""


class Damaged(RunError):
    """A checkpoint whose contents are not what was written."""


class Checkpoint(NamedTuple):
    """A checkpoint on disk and what its checkpoint.json says; `sha256` is empty where that cannot be read."""

    step: int
    path: Path
    iteration: int
    sha256: str = ""
    lengths: dict[str, int] = {}  # noqa: RUF012  bytes of each log that the checkpoint speaks for


def _checkpoint_from(path: Path) -> Checkpoint:
    """The checkpoint of a directory, with an empty checksum where its description is missing or damaged."""
    step, damaged = int(path.name), Checkpoint(int(path.name), path, 0)
    try:
        values = reading.read_json_object(path / "checkpoint.json")
    except UnreadableFile:
        return damaged
    lengths, sha256 = values.get("lengths"), values.get("sha256")
    if not isinstance(lengths, dict) or not isinstance(sha256, str) or not set(lengths) <= set(LOGS):
        return damaged
    if values.get("step") != step or not all(map(_is_count, (values.get("iteration"), *lengths.values()))):
        return damaged
    return Checkpoint(step, path, values["iteration"], sha256, lengths)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= LARGEST if isinstance(value, int) else math.isfinite(value)


def accepted_metrics(row: Any) -> dict[str, Any] | None:
    """A row of metrics.jsonl with its numbers, and the tensors that were not finite; None for anything else."""
    if not isinstance(row, dict) or not all(_is_count(row.get(name)) for name in ("iteration", "time/total_timesteps")):
        return None
    broken = row.get("not_finite")
    names = isinstance(broken, list) and all(isinstance(name, str) for name in broken)
    return {k: v for k, v in row.items() if _is_number(v)} | ({"not_finite": broken} if names else {})


def accepted_evaluation(row: Any) -> dict[str, Any] | None:
    """A row of evaluations.jsonl or evaluated.jsonl with its numbers; None without a step or a mean return."""
    if not isinstance(row, dict) or not _is_count(row.get("time/total_timesteps")):
        return None
    return {k: v for k, v in row.items() if _is_number(v)} if all(_is_number(row.get(k)) for k in EVALUATED) else None


EVALUATED = ("eval/mean_reward", "eval/iqr_low", "eval/iqr_high")  # what every evaluation records


def _number_of(shard: Path) -> int:
    """The iteration in a shard's name; -1 for a name that holds none."""
    digits = shard.stem.rpartition("-")[2]
    return int(digits) if re.fullmatch(r"\d{1,15}", digits) else -1


def _is_environment(value: Any) -> bool:
    """What `runs.manifest` says of an environment, as far as reading commands rely on it."""
    if not isinstance(value, dict) or not isinstance(value.get("action", {}), dict):
        return False
    action, limit = value.get("action", {"kind": "", "size": 1}), value.get("time_limit")
    size_holds = _is_count(action.get("size")) and action["size"] > 0 and isinstance(action.get("kind"), str)
    return size_holds and (limit is None or _is_count(limit)) and isinstance(value.get("observation", {}), dict)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


_EXAMPLE_START = {"run": "", "step": 0, "sha256": "", "optimizer": False}  # the fields of `runs.start.Start`


def _is_start(value: Any) -> bool:
    return _is_object(value) and {k: type(v) for k, v in value.items()} == {
        k: type(v) for k, v in _EXAMPLE_START.items()
    }


_MANIFEST = {
    "machine": _is_object,
    "packages": _is_object,
    "environment": _is_environment,
    "segments": lambda value: (
        isinstance(value, list)
        and all(_is_object(s) and _is_count(s.get("step")) and _is_count(s.get("total_timesteps")) for s in value)
    ),
    "started_from": lambda value: (
        _is_object(value) and isinstance(value.get("place"), str) and _is_start(value.get("start", _EXAMPLE_START))
    ),
    "ended": lambda value: value is None or isinstance(value, str),
    "command": lambda value: isinstance(value, str),
    "determinism": lambda value: isinstance(value, str),
}


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
        ours = {"id": trust.enlist(trust.environment_of(config))} if trust.names_module(config) else {}
        write_json(run.path / "manifest.json", {"schema": SCHEMA, **ours, **manifest})
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
            inside = sorted(str(file.parent.relative_to(run.path)) for file in islice(config_files, 100))
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
        """The fields of config.yaml. A module that it names is trusted if this user made the run."""
        config = reading.read_yaml_mapping(self.path / "config.yaml")
        if trust.names_module(config) and trust.is_ours(self._id(), trust.environment_of(config)):
            trust.trust_named(config["env_id"])
        return config

    def _id(self) -> Any:
        """What runs of modules are listed by in the user's state directory."""
        try:
            return self.manifest().get("id")
        except UnreadableFile:
            return None

    def enlist(self) -> None:
        """List the run as this user's: one that a worker made elsewhere, of a module that is trusted here."""
        config = reading.read_yaml_mapping(self.path / "config.yaml")
        if trust.names_module(config) and config["env_id"].rpartition(":")[0] in trust.trusted():
            trust.enlist_again(str(self._id()), trust.environment_of(config))

    def manifest(self) -> dict[str, Any]:
        """The entries of manifest.json; a known entry of another type than this library writes is left out."""
        file = self.path / "manifest.json"
        values = reading.read_json_object(file)
        wrong = [name for name, holds in _MANIFEST.items() if name in values and not holds(values[name])]
        if wrong:
            reading.report(f"{file}: {', '.join(wrong)} damaged and left out")
        return {name: value for name, value in values.items() if name not in wrong}

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
        """The rows of metrics.jsonl, one per iteration."""
        return reading.read_json_lines(self.log, accepted_metrics)

    def evaluations(self) -> list[dict[str, Any]]:
        """The evaluations that training made."""
        return reading.read_json_lines(self.path / "evaluations.jsonl", accepted_evaluation)

    def all_evaluations(self) -> list[dict[str, Any]]:
        """Those of training and those that were asked for later, in order of steps; of one step the latest last."""
        later = reading.read_json_lines(self.path / "evaluated.jsonl", accepted_evaluation)
        return sorted([*self.evaluations(), *later], key=lambda row: row["time/total_timesteps"])

    def keep_evaluation(self, row: dict[str, Any]) -> None:
        """Remember what `trimtab eval` saw; where nothing can be written, it was seen all the same."""
        with suppress(OSError):
            self._append("evaluated.jsonl", [row])

    def write_episodes(self, first_iteration: int, columns: dict[str, np.ndarray]) -> None:
        """One shard of finished episodes: step, environment, return, length."""
        import polars as pl

        write_parquet(self.path / "episodes" / f"{first_iteration:010d}.parquet", pl.DataFrame(columns))

    def episodes(self):
        """All finished episodes as a polars frame."""
        import polars as pl

        schema = {"step": pl.Int64, "env": pl.Int64, "return": pl.Float64, "length": pl.Int64}
        return reading.read_parquet_shards(sorted((self.path / "episodes").glob("*.parquet")), schema)

    def probes(self) -> list[Path]:
        """Tables of measurements, oldest name first."""
        return sorted((self.path / "probes").glob("*.parquet"))

    def measurements(self):
        """What all probes of the run estimated, as one polars frame."""
        import polars as pl

        words = dict.fromkeys(("quantity", "split", "unit"), pl.String)
        numbers = dict.fromkeys(("step", "lag"), pl.Int64) | dict.fromkeys(("value", "lo", "hi"), pl.Float64)
        schema = words | numbers | {"resolved": pl.Boolean}
        needed = ("quantity", "value", "resolved")
        return reading.read_parquet_shards(self.probes(), schema, [name for name in schema if name not in needed])

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
            "lengths": {name: self._synced_length(name) for name in LOGS},
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
        """Checkpoints in order of steps, damaged ones among them."""
        folders = (self.path / "checkpoints").glob("[0-9]*")
        return [_checkpoint_from(path) for path in sorted(folders) if re.fullmatch(r"\d{1,15}", path.name)]

    def read_checkpoint(self, checkpoint: Checkpoint) -> dict[str, np.ndarray]:
        """The tensors of a checkpoint, checked against what was written."""
        file = checkpoint.path / "state.safetensors"
        try:
            data = reading.read_bytes(file)
            if hashlib.sha256(data).hexdigest() != checkpoint.sha256:
                raise Damaged(f"checkpoint {checkpoint.step} is damaged (its checksum does not match)")
            return reading.parse_safetensors(data, file)
        except UnreadableFile as error:
            raise Damaged(f"checkpoint {checkpoint.step}: {error}") from None

    def checkpoint_at(self, step: int) -> Checkpoint:
        """The checkpoint at exactly `step`; the error names the nearest ones."""
        by_step = {c.step: c for c in self.checkpoints()}
        if step not in by_step:
            near = sorted(by_step, key=lambda s: abs(s - step))[:2]
            raise RunError(f"no checkpoint at step {step} in {self.path}; nearest: {', '.join(map(str, sorted(near)))}")
        return by_step[step]

    def rewind(self, checkpoint: Checkpoint) -> None:
        """Forget everything recorded after `checkpoint`; nothing is changed where its records are not all there."""
        self._refuse_missing_records(checkpoint)
        for name, length in checkpoint.lengths.items():
            path = self.path / name
            if path.exists():
                os.truncate(path, length)
        for shard in (self.path / "episodes").glob("*"):
            if shard.suffix != ".parquet" or _number_of(shard) >= checkpoint.iteration:
                shard.unlink()
        for other in self.checkpoints():
            if other.step > checkpoint.step:
                shutil.rmtree(other.path)
        for shard in (self.path / "buffers").glob("*"):  # host environments will collect other data now
            if shard.suffix != ".safetensors" or _number_of(shard) >= checkpoint.iteration:
                shard.unlink()
        for leftover in (self.path / "checkpoints").glob(".*.tmp"):
            shutil.rmtree(leftover, ignore_errors=True)

    def _refuse_missing_records(self, checkpoint: Checkpoint) -> None:
        """Raise where a log is shorter than the checkpoint recorded: a partial copy, or a file that was deleted."""
        for name, length in checkpoint.lengths.items():
            path = self.path / name
            size = path.stat().st_size if path.is_file() else 0
            if size < length:
                there = f"has {size:,}" if path.exists() else "is missing; it had all"
                raise RunError(
                    f"{path} {there} of the {length:,} bytes that the checkpoint at step {checkpoint.step:,} recorded; "
                    "nothing was changed. Restore the file, or start a new run from these parameters: "
                    f"trimtab train --from {self.path}"
                )

    # Buffers: large parts of State kept beside the checkpoints -------------------------------------------

    def write_buffer(self, kind: str, iteration: int, tensors: dict[str, np.ndarray]) -> None:
        from safetensors.numpy import save

        write_atomically(self._buffer(kind, iteration), save({k: np.asarray(v, order="C") for k, v in tensors.items()}))

    def read_buffer(self, kind: str, iteration: int) -> dict[str, np.ndarray]:
        try:
            return reading.read_safetensors(self._buffer(kind, iteration))
        except UnreadableFile as error:
            raise Damaged(str(error)) from None

    def has_buffer(self, kind: str, iteration: int) -> bool:
        return self._buffer(kind, iteration).exists()

    def prune_buffers(self, kind: str, oldest: int) -> None:
        """Drop shards of iterations before `oldest`."""
        for path in (self.path / "buffers").glob(f"{kind}-*.safetensors"):
            if 0 <= _number_of(path) < oldest:
                path.unlink()

    def _buffer(self, kind: str, iteration: int) -> Path:
        return self.path / "buffers" / f"{kind}-{iteration:010d}.safetensors"
