"""Jobs: typed descriptions of work, each with an identity. Imports no JAX until a job runs.

A job's identity is a hash of its kind, its full configuration, its options, and the identities of the jobs it needs.
Equal requests therefore give the same job, and a finished job never runs again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trimtab import config as configuration
from trimtab.config import Config
from trimtab.core import trust
from trimtab.gradient.probe_options import ProbeOptions
from trimtab.training.device import network_of, threads_for
from trimtab.training.run import load

if TYPE_CHECKING:
    from trimtab.training.engine_cache import EngineCache

VERSION = 2  # of identities; another version makes every job a new one (2: runs are evaluated)


@dataclass
class JobContext:
    """What a running job may use, and where it reports its progress."""

    place: Path  # its directory, made by the job; complete once its outcome is written
    inputs: Mapping[str, Path]  # directories of the jobs that it needs, by identity
    engines: EngineCache  # compiled programs and environments, kept from job to job
    tick: Callable[[int], None] = field(default=lambda steps: None)  # called with the environment steps done so far


@dataclass(frozen=True)
class Job:
    """Work that is done once. Subclasses are frozen dataclasses of plain values, Configs and other jobs."""

    kind: ClassVar[str]

    @property
    def needs(self) -> tuple[Job, ...]:
        """Jobs that must finish before this one starts."""
        return tuple(v for f in dataclasses.fields(self) if isinstance(v := getattr(self, f.name), Job))

    @property
    def steps(self) -> int:
        """Environment steps it takes, for progress and cost estimates."""
        raise NotImplementedError

    @property
    def seconds_planned(self) -> float | None:
        """Its duration, if that does not depend on its steps."""
        return None

    @property
    def threads(self) -> int | None:
        """XLA threads that it needs: one, or None for its process's share of the cores."""
        return None

    @property
    def devices(self) -> int:
        """JAX devices that its process needs."""
        return 1

    @property
    def shape(self) -> Hashable:
        """What its compiled programs depend on, if known; jobs of one shape share compiled programs."""
        return None

    @property
    def label(self) -> str:
        """Its name for people, after the kind."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.kind} {self.label}"

    def do(self, context: JobContext) -> dict[str, Any]:
        """Run it in `context.place`, or resume it there; returns plain values."""
        raise NotImplementedError

    def as_dict(self) -> dict[str, Any]:
        """Plain values from which `from_dict` makes the same job."""
        return {"kind": self.kind} | {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}

    @cached_property
    def identity(self) -> str:
        content: dict[str, Any] = {"version": VERSION, "kind": self.kind}
        for f in dataclasses.fields(self):
            content[f.name] = _identifying(getattr(self, f.name))
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def _identifying(value: Any) -> Any:
    """What of a value enters the identity: of a Config or of options, the fields that are not at their default.

    A field that a later version adds, at its default, therefore keeps the identities of finished jobs.
    """
    if isinstance(value, Job):
        return value.identity
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(v) for f in dataclasses.fields(value) if (v := getattr(value, f.name)) != _default(f)}
    return _plain(value)


def _default(item: dataclasses.Field[Any]) -> Any:
    return item.default_factory() if item.default_factory is not dataclasses.MISSING else item.default


def _plain(value: Any) -> Any:
    if isinstance(value, Job | Config):
        return value.as_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Train(Job):
    """Train a configuration. Its directory is the run."""

    kind: ClassVar[str] = "train"
    config: Config
    checkpoints: int | None = None
    tensorboard: bool = False
    track: bool = False

    @property
    def steps(self) -> int:
        return self.config.steps

    @property
    def threads(self) -> int | None:
        return threads_for(network_of(self.config), self.config.devices)

    @property
    def devices(self) -> int:
        return self.config.devices

    @cached_property
    def shape(self) -> Hashable:
        return self.config.shape

    @property
    def label(self) -> str:
        c = self.config
        shared = f" on {c.devices} devices" if c.devices > 1 else ""
        return f"{c.env_id} {c.algo} {c.num_envs}x{c.num_steps}{shared} seed {c.seed}"

    def do(self, context: JobContext) -> dict[str, Any]:
        from trimtab.training.loop import train_or_resume

        run = train_or_resume(
            self.config,
            context.place,
            checkpoints=self.checkpoints,
            tensorboard=self.tensorboard,
            track=self.track,
            tick=context.tick,
            engines=context.engines,
        )
        curve = run.curve
        summary = run.summary().as_dict() | {"area": curve.area, "measure": curve.measure}
        del summary["run"]  # the place is not part of the result
        return summary


@dataclass(frozen=True)
class OfRun(Job):
    """Work on a trained run; subclasses define it."""

    run: Train

    @property
    def config(self) -> Config:
        return self.run.config

    @property
    def threads(self) -> int | None:
        return self.run.threads

    @property
    def label(self) -> str:
        return self.run.label


@dataclass(frozen=True)
class Probe(Job):
    """Probe checkpoints of a run: the run of a job, or an existing run by its path.

    `sha256` are the checksums of the checkpoints of an existing run: if it is trained again, the probe is a new job.
    """

    kind: ClassVar[str] = "probe"
    run: Train | str
    at: tuple[int, ...]
    options: ProbeOptions = field(default_factory=ProbeOptions)
    gae_lambda: tuple[float, ...] = ()
    sha256: tuple[str, ...] = ()

    @cached_property
    def config(self) -> Config:
        return self.run.config if isinstance(self.run, Train) else load(self.run).config

    @property
    def steps(self) -> int:
        """Two passes over the replicates, and burning in about as much again."""
        config, o = self.config, self.options
        rows = o.replicates * (o.num_envs or config.num_envs)
        return 2 * len(self.at) * max(1, len(self.gae_lambda)) * rows * (o.num_steps or config.num_steps)

    @property
    def threads(self) -> int | None:
        return threads_for(network_of(self.config), self.options.devices)

    @property
    def devices(self) -> int:
        return self.options.devices

    @property
    def label(self) -> str:
        n, t = self.options.num_envs or self.config.num_envs, self.options.num_steps or self.config.num_steps
        return f"{self.config.env_id} {self.config.algo} {n}x{t} seed {self.config.seed}"

    def do(self, context: JobContext) -> dict[str, Any]:
        from trimtab.core.writing import write_parquet
        from trimtab.gradient.measurements import frame_of
        from trimtab.gradient.probing import measure

        path = context.inputs[self.run.identity] if isinstance(self.run, Job) else Path(self.run)
        total = self.steps
        tell = lambda done, of, doing: context.tick(total * done // max(of, 1))
        anatomies = measure(load(path), self.at, self.gae_lambda or (None,), self.options, tell)
        write_parquet(context.place / "measurements.parquet", frame_of(anatomies))
        return {"probes": [anatomy.as_dict() for anatomy in anatomies]}


KINDS: dict[str, type[Job]] = {cls.kind: cls for cls in (Train, Probe)}


def register(cls: type[Job]) -> type[Job]:
    """Register a kind of job, so that workers can run it; a decorator."""
    KINDS[cls.kind] = cls
    return cls


def kind_modules(job: Job) -> list[str]:
    """The modules of a user's own kinds of jobs; other processes may import what this one has imported."""
    own = [job.kind.partition(":")[0]] if ":" in job.kind else []
    return own + [module for need in job.needs for module in kind_modules(need)]


def _kind(name: str) -> type[Job]:
    """A kind by its name; `module:Class` is a user's own kind, imported when needed."""
    module, _, cls = name.partition(":")
    if cls:
        trust.refuse_untrusted(name)
        found: type[Job] = getattr(import_module(module), cls)
        return found
    if name not in KINDS:
        import_module("trimtab.experiments.catalogue")  # the studies bring kinds of their own
    return KINDS[name]


def from_dict(values: Mapping[str, Any]) -> Job:
    """The job that `as_dict` described."""
    values = dict(values)
    cls = _kind(values.pop("kind"))
    if "config" in values:
        values["config"] = configuration.from_dict(values["config"])
    if cls is Probe:
        options = values["options"]
        values["options"] = ProbeOptions(**options | {"blocks": tuple(options["blocks"])})
    for name, value in values.items():
        if isinstance(value, dict) and "kind" in value:
            values[name] = from_dict(value)
        elif isinstance(value, list):
            values[name] = tuple(value)
    return cls(**values)
