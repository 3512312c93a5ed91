"""One run by several processes, on one machine or many: JAX's own runtime connects them, one of them writes.

Every process runs the same program on its share of the devices. If one is lost, the runtime of the others ends them
without giving Python a word (a process that was stopped in the middle of a sum cannot go on). So each works in a child
that its parent only waits for, to say in one line what happened.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from typing import Any, NoReturn

import numpy as np

from trimtab.config import Config, ConfigError
from trimtab.core.errors import UserError
from trimtab.training.records import Checkpoint, Manifest
from trimtab.training.run_dir import RunDir, Tensors

LOST = 3  # exit code of a process that lost another
HEARTBEAT = 10  # seconds without a sign of life after which a process counts as lost
SHUTDOWN = 120  # seconds that finished processes wait for the one that writes


@dataclass(frozen=True)
class Hosts:
    """How processes find each other; what is None is found as Slurm, Kubernetes and others say it."""

    coordinator: str | None = None
    num_processes: int | None = None
    process_id: int | None = None

    def __post_init__(self) -> None:
        settings = {"coordinator": self.coordinator, "num_processes": self.num_processes, "process_id": self.process_id}
        absent = [name for name, value in settings.items() if value is None]
        if absent and len(absent) < len(settings):
            raise ConfigError(absent[0], None, "coordinator, num_processes and process_id belong together; give all")
        if self.num_processes is None or self.process_id is None:
            return
        if self.num_processes < 1:
            raise ConfigError("num_processes", self.num_processes, "must be at least 1; nearest: 1")
        if not 0 <= self.process_id < self.num_processes:
            near = min(max(self.process_id, 0), self.num_processes - 1)
            raise ConfigError("process_id", self.process_id, f"must be below num_processes; nearest: {near}")


def join(hosts: Hosts) -> None:
    """Meet the other processes; call before JAX's first computation."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            hosts.coordinator,
            hosts.num_processes,
            hosts.process_id,
            heartbeat_timeout_seconds=HEARTBEAT,
            shutdown_timeout_seconds=SHUTDOWN,
        )
    except ValueError as error:  # no flags, and no cluster that JAX knows
        problem = "not found in the environment; give --coordinator HOST:PORT, --num-processes and --process-id"
        raise ConfigError("coordinator", hosts.coordinator, problem) from error


def process_count() -> int:
    """Processes that share this run, without starting JAX's devices."""
    if "jax" not in sys.modules:
        return 1
    return _connected().num_processes or 1


def is_first() -> bool:
    """Whether this process is the one that writes and speaks."""
    return "jax" not in sys.modules or _connected().process_id == 0


def _connected() -> Any:
    from jax._src.distributed import global_state  # jax.process_count() would start the devices

    return global_state


def meet(name: str) -> None:
    """Wait here for all processes."""
    if process_count() > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(name)


class _ReadOnlyRunDir(RunDir):
    """A run directory that another process writes: what is there is read, nothing is written."""

    def __init__(self, path: str | PathLike[str]):
        super().__init__(path)
        self._kept: set[tuple[str, int]] = set()  # buffers that the writing process has by now
        self._before = 0

    @classmethod
    def create(cls, path: str | PathLike[str], config: Config, manifest: Manifest) -> RunDir:
        return cls(path)

    @contextmanager
    def writing(self) -> Iterator[None]:
        yield

    def write_config(self, config: Config) -> None: ...

    def write_manifest(self, **changes: Any) -> None: ...

    def _append(self, name: str, rows: list[dict[str, Any]]) -> None: ...

    def write_episodes(self, first_iteration: int, columns: dict[str, np.ndarray]) -> None: ...

    def write_checkpoint(self, step: int, iteration: int, tensors: Tensors) -> None: ...

    def rewind(self, checkpoint: Checkpoint) -> None:
        self._before = checkpoint.iteration

    def write_buffer(self, kind: str, iteration: int, tensors: Tensors) -> None:
        self._kept.add((kind, iteration))

    def has_buffer(self, kind: str, iteration: int) -> bool:
        return iteration < self._before or (kind, iteration) in self._kept

    def prune_buffers(self, kind: str, oldest: int) -> None: ...


def run_dir_class() -> type[RunDir]:
    """How this process sees run directories."""
    return RunDir if is_first() else _ReadOnlyRunDir


# Ending together -------------------------------------------------------------------------------------------


def in_child() -> int | None:
    """None in a new process that is to do the work; in this one, how that ended, after saying so if it was lost."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _die_with_parent()
        _quiet_runtime()
        return None
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells the child too
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code in (LOST, -signal.SIGABRT):
        print("trimtab: another process of this run was lost; resume it from the last checkpoint", file=sys.stderr)
        return LOST
    return code if code >= 0 else 128 - code


def _die_with_parent() -> None:
    """A killed parent must not leave its child at work (Linux; elsewhere the heartbeat ends the others only)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _quiet_runtime() -> None:
    """Python keeps its output; what the runtime itself writes, traces of its own ending among it, goes nowhere."""
    sys.stdout, sys.stderr = (os.fdopen(os.dup(number), "w", buffering=1) for number in (1, 2))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """A process that fails must not wait for the others: they wait for it."""
    import jax

    try:
        yield
    except (UserError, OSError) as error:
        _leave("trimtab: " + " ".join(str(error).split()), 2)
    except KeyboardInterrupt as interrupt:
        _leave("; ".join(["trimtab: interrupted", *filter(None, interrupt.args)]), 130)
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        if isinstance(error, ValueError) and "Gloo" not in str(error):  # in a small program it raises this instead
            raise
        if "RESOURCE_EXHAUSTED" in str(error):
            _leave(f"trimtab: this process is out of memory: {str(error).splitlines()[0]}", 1)
        os._exit(LOST)  # a sum that another process did not answer


def _leave(message: str, code: int) -> NoReturn:
    print(message, file=sys.stderr, flush=True)
    os._exit(code)
