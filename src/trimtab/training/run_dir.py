"""The run directory: its files, written and read. No JAX, no pickle.

    config.yaml        what was run
    manifest.json      with which versions, on what machine, how repeatable
    metrics.jsonl      one object per iteration; only keys under time/ may differ between identical runs
    episodes/          Parquet shards of finished episodes
    evaluations.jsonl  one object per evaluation of training
    evaluated.jsonl    the same of `trimtab eval`; training neither reads nor changes it
    checkpoints/STEP/  state.safetensors and checkpoint.json
    buffers/           data that an unfinished PPG phase or staleness queue still needs, one shard per iteration
    probes/            measurements, one Parquet table each

The two logs of training are appended to, and a resume truncates them to the lengths that the newest good checkpoint
recorded. Everything else is written under a temporary name, synced and renamed, so that a kill leaves either the old
file or the new one.

Files are read through `trimtab.core.reading`, since a run may come from a stranger: a damaged line or shard is
reported and skipped, and nothing in a file names another file to change.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from os import PathLike
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import yaml

from trimtab import config as configuration
from trimtab.config import Config
from trimtab.core import reading, trust
from trimtab.core.errors import RunError, UnreadableFile
from trimtab.core.json_values import to_json
from trimtab.core.writing import (
    serialized,
    write_atomically,
    write_json,
    write_json_with_digest,
    write_parquet,
    write_safetensors,
)
from trimtab.training.learning_curve import LearningCurve, curve_of
from trimtab.training.records import LARGEST_COUNT, SCHEMA, Checkpoint, Evaluation, Manifest, MetricsRow, is_count

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

LOGS = ("metrics.jsonl", "evaluations.jsonl")  # appended to, and truncated by a resume

Tensors = Mapping[str, "np.ndarray"]


class DirectoryNotEmpty(RunError):
    """A directory for a new run that already holds something."""


class Damaged(RunError):
    """A checkpoint or buffer whose contents are not what was written."""


class RunDir:
    """One run on disk."""

    def __init__(self, path: str | PathLike[str]):
        self.path = Path(path)

    # Creating and opening --------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: str | PathLike[str], config: Config, manifest: Manifest) -> RunDir:
        """A new run; an existing directory with anything in it is refused."""
        run = cls(path)
        if run.path.exists() and not run.path.is_dir():
            raise DirectoryNotEmpty(f"{run.path} is a file; give another --run-dir")
        refusal = DirectoryNotEmpty(f"{run.path} already exists and is not empty; give another --run-dir, or resume it")
        if run.path.exists() and any(run.path.iterdir()):
            raise refusal
        try:
            (run.path / "checkpoints").mkdir(parents=True)  # of two processes that get here at once, one makes it
        except FileExistsError:
            raise refusal from None
        (run.path / "episodes").mkdir()
        fields = config.as_dict()
        if trust.names_module(fields):
            manifest = replace(manifest, id=trust.enlist(trust.environment_of(fields)))
        write_json(run.path / "manifest.json", manifest.as_dict())
        run.log.touch()
        run.write_config(config)  # last: a directory with a config.yaml is a run
        return run

    @classmethod
    def began(cls, path: str | PathLike[str]) -> bool:
        """Whether a directory holds a run, finished or not."""
        return (Path(path) / "config.yaml").is_file()

    @classmethod
    def open(cls, path: str | PathLike[str]) -> RunDir:
        """The run in a directory; anything else is refused with what the directory holds instead."""
        run = cls(path)
        if not cls.began(path):
            config_files = (file for depth in ("*", "*/*") for file in run.path.glob(f"{depth}/config.yaml"))
            inside = sorted(str(file.parent.relative_to(run.path)) for file in islice(config_files, 100))
            hint = f"; there are runs in it: {', '.join(inside[:8])}" if inside else " (no config.yaml)"
            if (run.path / "progress.csv").is_file() or any(run.path.glob("*tfevents*")):
                hint = ", but holds a log of another library: `trimtab doctor` reads some of them"
            raise RunError(f"{run.path} is not a run directory{hint}")
        schema = reading.read_json_object(run._manifest_file).get("schema")
        if schema != SCHEMA:
            raise RunError(f"{run.path} has schema {schema}; this version reads schema {SCHEMA}")
        return run

    @property
    def log(self) -> Path:
        """The file that metrics are appended to."""
        return self.path / "metrics.jsonl"

    @property
    def lock(self) -> Path:
        """The file that the writing process locks; it holds that process's id."""
        return self.path / ".lock"

    @property
    def _manifest_file(self) -> Path:
        return self.path / "manifest.json"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the run for writing; a second writer is refused. The lock ends with the process, whose id it holds."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.refuse_links_out()
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

    def refuse_links_out(self) -> None:
        """Raise where something that is written, cut or removed is a link to a place outside of the run.

        A run may come from a stranger; what its links lead to is not theirs to change.
        """
        inside = self.path.resolve()
        for name in (self.lock.name, *LOGS, "evaluated.jsonl", "episodes", "checkpoints", "buffers", "probes"):
            path = self.path / name
            if path.is_symlink() and not path.resolve().is_relative_to(inside):
                raise RunError(
                    f"{path} is a link to a place outside of the run, which is not written to; put what it leads to "
                    "in its place"
                )

    # Configuration and manifest --------------------------------------------------------------------------

    def config(self) -> Config:
        """The configuration in config.yaml. A module that it names is trusted if this user made the run."""
        fields = self._fields()
        if trust.names_module(fields) and trust.is_ours(self._id(), trust.environment_of(fields)):
            trust.trust_named(fields["env_id"])
        return configuration.from_dict(fields)

    def _fields(self) -> dict[str, Any]:
        return reading.read_yaml_mapping(self.path / "config.yaml")

    def _id(self) -> str | None:
        """What a run of a module's environment is listed by in the user's state directory."""
        try:
            return self.manifest().id
        except UnreadableFile:
            return None

    def enlist(self) -> None:
        """List the run as this user's: one that a worker made elsewhere, of a module that is trusted here."""
        fields = self._fields()
        if trust.names_module(fields) and fields["env_id"].rpartition(":")[0] in trust.trusted():
            trust.enlist_again(str(self._id()), trust.environment_of(fields))

    def manifest(self) -> Manifest:
        """What manifest.json holds; damaged entries are reported and left out."""
        manifest, damaged = Manifest.read(reading.read_json_object(self._manifest_file))
        if damaged:
            reading.report(f"{self._manifest_file}: {', '.join(damaged)} damaged and left out")
        return manifest

    def write_config(self, config: Config) -> None:
        """Replace config.yaml."""
        write_atomically(self.path / "config.yaml", yaml.safe_dump(config.as_dict(), sort_keys=False).encode())

    def write_manifest(self, **changes: Any) -> None:
        """Change some entries of the manifest; entries of newer versions stay."""
        values = reading.read_json_object(self._manifest_file)
        write_json(self._manifest_file, values | {name: to_json(value) for name, value in changes.items()})

    # Metrics and episodes --------------------------------------------------------------------------------

    def append_metrics(self, rows: list[MetricsRow]) -> None:
        self._append(LOGS[0], [row.as_dict() for row in rows])

    def append_evaluation(self, evaluation: Evaluation) -> None:
        """Record an evaluation that training made."""
        self._append(LOGS[1], [evaluation.as_dict()])

    def keep_evaluation(self, evaluation: Evaluation) -> None:
        """Record an evaluation of `trimtab eval`, unless the directory cannot be written."""
        self.refuse_links_out()
        with suppress(OSError):
            self._append("evaluated.jsonl", [evaluation.as_dict()])

    def _append(self, name: str, rows: list[dict[str, Any]]) -> None:
        with open(self.path / name, "a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))

    def metrics(self) -> list[MetricsRow]:
        """The recorded iterations."""
        return reading.read_json_lines(self.log, MetricsRow.from_dict)

    def last_metrics(self) -> MetricsRow | None:
        """The last recorded iteration, without reading those before."""
        return reading.read_last_json_line(self.log, MetricsRow.from_dict)

    def evaluations(self) -> list[Evaluation]:
        """The evaluations that training made."""
        return reading.read_json_lines(self.path / LOGS[1], Evaluation.from_dict)

    def all_evaluations(self) -> list[Evaluation]:
        """Those of training and of `trimtab eval`, in order of steps; of one step the latest last."""
        later = reading.read_json_lines(self.path / "evaluated.jsonl", Evaluation.from_dict)
        return sorted([*self.evaluations(), *later], key=lambda evaluation: evaluation.step)

    def learning_curve(self) -> LearningCurve:
        """The learning curve over the steps taken so far."""
        rows = self.metrics()
        return curve_of(self.evaluations(), self.episodes(), self.config().num_envs, rows[-1].step if rows else 0)

    def write_episodes(self, first_iteration: int, columns: dict[str, np.ndarray]) -> None:
        """One shard of finished episodes: step, env, return, length."""
        import polars as pl

        write_parquet(self.path / "episodes" / f"{first_iteration:010d}.parquet", pl.DataFrame(columns))

    def episodes(self) -> pl.DataFrame:
        """All finished episodes: step, env, return, length. Rows that can be none are reported and left out."""
        import polars as pl

        schema = {"step": pl.Int64, "env": pl.Int64, "return": pl.Float64, "length": pl.Int64}
        rows = reading.read_parquet_shards(sorted((self.path / "episodes").glob("*.parquet")), schema)
        counts = [pl.col(name).is_between(low, LARGEST_COUNT) for name, low in (("step", 0), ("env", 0), ("length", 1))]
        episodes = rows.filter(pl.col("return").is_finite(), *counts)
        if len(episodes) < len(rows):
            reading.report(f"{self.path / 'episodes'}: {len(rows) - len(episodes):,} rows are damaged and left out")
        return episodes

    def probes(self) -> list[Path]:
        """Tables of measurements, oldest name first."""
        return sorted((self.path / "probes").glob("*.parquet"))

    def measurements(self) -> pl.DataFrame:
        """The estimates of all probes of the run."""
        import polars as pl

        words = dict.fromkeys(("quantity", "split", "start", "unit"), pl.String)
        numbers = dict.fromkeys(("step", "lag"), pl.Int64) | dict.fromkeys(("value", "lo", "hi"), pl.Float64)
        schema = words | numbers | {"resolved": pl.Boolean}
        needed = ("quantity", "value", "resolved")
        return reading.read_parquet_shards(self.probes(), schema, [name for name in schema if name not in needed])

    # Checkpoints -----------------------------------------------------------------------------------------

    def write_checkpoint(self, step: int, iteration: int, tensors: Tensors) -> None:
        """Write a checkpoint, whole or not at all, after syncing the logs, whose lengths it records."""
        data = serialized(tensors)
        meta = {
            "schema": SCHEMA,
            "step": step,
            "iteration": iteration,
            "sha256": hashlib.sha256(data).hexdigest(),
            "lengths": {name: _synced_length(self.path / name) for name in LOGS},
        }
        final = self.path / "checkpoints" / f"{step:012d}"
        temporary = final.with_name(f".{final.name}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        write_atomically(temporary / "state.safetensors", data)
        write_json_with_digest(temporary / "checkpoint.json", meta)
        if final.exists():
            shutil.rmtree(final)
        os.replace(temporary, final)

    def has_checkpoint(self, step: int) -> bool:
        """Whether a checkpoint of this step can be read."""
        try:
            return any(self.read_checkpoint(c) for c in self.checkpoints() if c.step == step)
        except Damaged:
            return False

    def checkpoints(self) -> list[Checkpoint]:
        """Checkpoints in order of steps, damaged ones among them."""
        folders = (self.path / "checkpoints").glob("[0-9]*")
        return [_checkpoint_in(path) for path in sorted(folders) if re.fullmatch(r"\d{1,15}", path.name)]

    def checkpoint_at(self, step: int | None) -> Checkpoint:
        """The checkpoint of exactly this step, the last one if None; the error names the nearest ones."""
        checkpoints = self.checkpoints()
        if not checkpoints:
            raise RunError(f"{self.path} has no checkpoint")
        if step is None:
            return checkpoints[-1]
        by_step = {checkpoint.step: checkpoint for checkpoint in checkpoints}
        if step not in by_step:
            near = sorted(by_step, key=lambda s: abs(s - step))[:2]
            raise RunError(f"no checkpoint at step {step} in {self.path}; nearest: {', '.join(map(str, sorted(near)))}")
        return by_step[step]

    def read_checkpoint(self, checkpoint: Checkpoint) -> dict[str, np.ndarray]:
        """The tensors of a checkpoint, checked against its checksum."""
        file = checkpoint.path / "state.safetensors"
        try:
            if reading.sha256_of(file) != checkpoint.sha256:  # before it is held in memory, whatever its size
                raise Damaged(f"checkpoint {checkpoint.step} is damaged (its checksum does not match)")
            return reading.read_safetensors(file)
        except UnreadableFile as error:
            raise Damaged(f"checkpoint {checkpoint.step}: {error}") from None

    def rewind(self, checkpoint: Checkpoint) -> None:
        """Remove everything recorded after a checkpoint; nothing is changed where its records are incomplete."""
        self._check_logs(checkpoint)
        for name, length in checkpoint.lengths.items():
            if (log := self.path / name).exists():
                os.truncate(log, length)
        for other in self.checkpoints():
            if other.step > checkpoint.step:
                shutil.rmtree(other.path)
        for folder, suffix in (("episodes", ".parquet"), ("buffers", ".safetensors")):
            for shard in (self.path / folder).glob("*"):  # host environments will collect other data from here on
                if shard.suffix != suffix or _shard_iteration(shard) >= checkpoint.iteration:
                    shard.unlink()
        for leftover in (self.path / "checkpoints").glob(".*.tmp"):
            shutil.rmtree(leftover, ignore_errors=True)
        for leftover in self.path.glob(".*.tmp"):  # of a kill
            leftover.unlink(missing_ok=True)

    def _check_logs(self, checkpoint: Checkpoint) -> None:
        """Raise where a log is shorter than the checkpoint recorded: a partial copy, or a file that was deleted."""
        for name, length in checkpoint.lengths.items():
            log = self.path / name
            size = log.stat().st_size if log.is_file() else 0
            if size < length:
                there = f"has {size:,}" if log.exists() else "is missing; it had all"
                raise RunError(
                    f"{log} {there} of the {length:,} bytes that the checkpoint at step {checkpoint.step:,} recorded; "
                    "nothing was changed. Restore the file, or start a new run from these parameters: "
                    f"trimtab train --from {quote(str(self.path))}"
                )

    # Buffers: large parts of State kept beside the checkpoints -------------------------------------------

    def write_buffer(self, kind: str, iteration: int, tensors: Tensors) -> None:
        write_safetensors(self._buffer(kind, iteration), tensors)

    def read_buffer(self, kind: str, iteration: int) -> dict[str, np.ndarray]:
        try:
            return reading.read_safetensors(self._buffer(kind, iteration))
        except UnreadableFile as error:
            raise Damaged(str(error)) from None

    def has_buffer(self, kind: str, iteration: int) -> bool:
        return self._buffer(kind, iteration).exists()

    def prune_buffers(self, kind: str, oldest: int) -> None:
        """Remove the shards of iterations before `oldest`."""
        for path in (self.path / "buffers").glob(f"{kind}-*.safetensors"):
            if 0 <= _shard_iteration(path) < oldest:
                path.unlink()

    def _buffer(self, kind: str, iteration: int) -> Path:
        return self.path / "buffers" / f"{kind}-{iteration:010d}.safetensors"


def _checkpoint_in(path: Path) -> Checkpoint:
    """The checkpoint of a directory, without a checksum where its description is missing or damaged."""
    step = int(path.name)
    damaged = Checkpoint(step, path, 0)
    try:
        values = reading.read_json_object(path / "checkpoint.json")
    except UnreadableFile:
        return damaged
    lengths, sha256 = values.get("lengths"), values.get("sha256")
    if not isinstance(lengths, dict) or not isinstance(sha256, str) or not set(lengths) <= set(LOGS):
        return damaged
    if values.get("step") != step or not all(map(is_count, (values.get("iteration"), *lengths.values()))):
        return damaged
    return Checkpoint(step, path, values["iteration"], sha256, lengths)


def _synced_length(log: Path) -> int:
    """Bytes of a log after everything written so far has reached the disk."""
    if not log.exists():
        return 0
    with open(log, "rb") as file:
        os.fsync(file.fileno())
    return log.stat().st_size


def _shard_iteration(shard: Path) -> int:
    """The iteration in a shard's name; -1 for a name without one."""
    digits = shard.stem.rpartition("-")[2]
    return int(digits) if re.fullmatch(r"\d{1,15}", digits) else -1
