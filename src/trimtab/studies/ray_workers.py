"""The same workers as Ray actors: on this machine, or on the cluster at an address.

Nodes need not share a file system. A job runs in a scratch directory of its node; the outcomes that it needs are copied
there, and its own outcome is copied back into the study's store. The jobs of a lost node run once more elsewhere.
"""

from __future__ import annotations

import io
import os
import shutil
import socket
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from trimtab.core import trust
from trimtab.core.errors import MissingPackage, RunError
from trimtab.studies.executor import JobRunner, Queue, Tick, error_summary
from trimtab.studies.job import Job, from_dict, kind_modules
from trimtab.studies.local_workers import TRIES
from trimtab.studies.store import Outcome, Store
from trimtab.training.device import cores, limits
from trimtab.training.run_dir import RunDir

LOOK = 0.5  # seconds between two looks at how far jobs are


def _pack(place: Path) -> bytes:
    """A job's directory as one archive; locks stay behind."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz", compresslevel=1) as archive:
        archive.add(place, arcname=".", filter=lambda item: None if item.name.endswith(".lock") else item)
    return data.getvalue()


def _unpack(data: bytes, place: Path) -> None:
    """An archive as a job's directory: whole, or not there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}.tmp")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        archive.extractall(temporary, filter="data")
    shutil.rmtree(place, ignore_errors=True)
    os.replace(temporary, place)


class _Actor:
    """The process on a node: a job runner, its scratch directory, and the progress of its job."""

    def __init__(self, study: str):
        self._runner, self._steps = JobRunner(), 0
        self._store = Store(Path(tempfile.gettempdir()) / f"trimtab-{study}")

    def do(self, description: dict[str, Any], inputs: dict[str, Any], trusted: list[str]) -> dict[str, Any]:
        """The archive of a job's directory, or its error; `inputs` are archives in Ray's store."""
        import ray

        trust.trust(*trusted)
        job, self._steps = from_dict(description), 0
        try:
            for need in job.needs:
                with self._store.doing(need):  # actors of one node share the directory
                    if self._store.outcome(need) is None:
                        _unpack(ray.get(inputs[need.identity]), self._store.place(need))
            outcome = self._runner.do(job, self._store, self._tick)
            return {"archive": _pack(outcome.path)}
        except Exception as error:
            return {"error": error_summary(error)}

    def _tick(self, steps: int) -> None:
        self._steps = steps

    def steps(self) -> int:
        return self._steps

    def forget(self) -> None:
        """Remove the scratch directory."""
        shutil.rmtree(self._store.path, ignore_errors=True)


class OnRay:
    """Ray actors that are kept between the jobs of a study."""

    def __init__(self, address: str | None = None, workers: int | None = None):
        try:
            import ray
        except ImportError:
            raise MissingPackage("on: ray needs the package ray: pip install 'trimtab[ray]'") from None
        self._ray: Any = ray  # its functions have no types
        self._mine = not ray.is_initialized()
        if self._mine:
            _start(ray, address, workers)
        self.workers = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._study = uuid.uuid4().hex[:12]
        self._actors: dict[Any, Any] = {}  # with their first answer, which an actor without a processor does not give
        self._devices: dict[Any, int] = {}  # of each actor: JAX starts with a number of them, and keeps it
        self._sent: dict[str, Any] = {}  # archives of finished jobs that others need, in Ray's store

    def run(self, jobs: Iterable[Job], store: Store, tick: Tick = lambda job, steps: None) -> Iterator[Outcome]:
        ray, queue = self._ray, Queue(jobs)
        tries, under_way = dict[str, int](), dict[Any, tuple[Any, Job]]()
        try:
            yield from queue.kept(store)
            while queue.waiting or under_way:
                yield from queue.skip_unrunnable(store)
                going = [job for _, job in under_way.values()]
                for job in queue.ready(self._room() - sum(job.devices for job in going), going):
                    actor = self._idle([busy for busy, _ in under_way.values()], job.devices)
                    trusted = [*trust.trusted(), *kind_modules(job)]
                    under_way[actor.do.remote(job.as_dict(), self._inputs(job, store), trusted)] = (actor, job)
                done, _ = ray.wait(list(under_way), timeout=LOOK)
                for reference in done:
                    actor, job = under_way.pop(reference)
                    outcome = self._settle(reference, actor, job, store, tries)
                    if outcome is None:
                        queue.waiting[job.identity] = job
                    else:
                        yield queue.settle(outcome)
                self._look(under_way, tick)
                for job in self._withdrawn(under_way):
                    queue.waiting[job.identity] = job
        except BaseException:  # interrupted, or nobody wants the rest
            self.close()
            raise

    def _settle(self, reference: Any, actor: Any, job: Job, store: Store, tries: dict[str, int]) -> Outcome | None:
        """The outcome of a job; None if it runs once more."""
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:  # its process or its node is gone
            self._bury(actor)
            tries[job.identity] = tries.get(job.identity, 1) + 1
            if tries[job.identity] <= TRIES:
                return None
            why = str(error).strip().splitlines()
            return Outcome(job, store.place(job), {}, error=f"its worker ended: {why[0] if why else 'no message'}")
        if "error" in answer:
            return Outcome(job, store.place(job), {}, error=answer["error"])
        with store.doing(job):  # another study may share the store
            if store.outcome(job) is None:
                _unpack(answer["archive"], store.place(job))
                if RunDir.began(store.place(job)):
                    RunDir(store.place(job)).enlist()
        outcome = store.outcome(job)
        if outcome is None:
            raise RunError(f"{job}: its results did not arrive complete")
        return outcome

    def _room(self) -> int:
        """Actors that fit: a lost node takes its processors along."""
        return max(1, min(self.workers, int(self._ray.cluster_resources().get("CPU", 1))))

    def _idle(self, busy: list[Any], devices: int) -> Any:
        """An actor with so many devices; idle ones with others make room for a new one."""
        idle = [actor for actor in self._actors if actor not in busy]
        for actor in idle:
            if self._devices[actor] == devices:
                return actor
        if sum(self._devices[actor] for actor in self._actors) + devices > self._room():
            for actor in idle:
                self._ray.kill(actor)
                del self._actors[actor]
        # Two threads: one does the job, one says how far it is.
        share = min(devices, self._room())  # one that asks for more than there is would wait without end
        new_actor: Any = self._ray.remote(_Actor).options(num_cpus=share, max_concurrency=2).remote(self._study)
        self._actors[new_actor], self._devices[new_actor] = new_actor.steps.remote(), devices
        return new_actor

    def _bury(self, actor: Any) -> None:
        """Remove a dead actor, and idle ones of the same lost node."""
        self._actors.pop(actor, None)
        others = {other.steps.remote(): other for other in self._actors}
        answered, _ = self._ray.wait(list(others), num_returns=len(others), timeout=LOOK) if others else ([], [])
        for reference in answered:
            try:
                self._ray.get(reference)
            except self._ray.exceptions.RayError:
                self._actors.pop(others[reference])

    def _withdrawn(self, under_way: dict[Any, tuple[Any, Job]]) -> Iterator[Job]:
        """Jobs of actors that cannot begin, because a node was lost before it was known to be."""
        for reference, (actor, job) in list(under_way.items()):
            if len(self._actors) <= self._room():
                return
            begun, _ = self._ray.wait([self._actors[actor]], timeout=0) if actor in self._actors else (True, None)
            if not begun:
                self._ray.kill(actor)
                del under_way[reference], self._actors[actor]
                yield job

    def _inputs(self, job: Job, store: Store) -> dict[str, Any]:
        for need in job.needs:
            if need.identity not in self._sent:
                self._sent[need.identity] = self._ray.put(_pack(store.place(need)))
        return {need.identity: self._sent[need.identity] for need in job.needs}

    def _look(self, under_way: dict[Any, tuple[Any, Job]], tick: Tick) -> None:
        jobs = {actor.steps.remote(): job for actor, job in under_way.values()}
        answered, _ = self._ray.wait(list(jobs), num_returns=len(jobs), timeout=0.1) if jobs else ([], [])
        for reference in answered:
            try:
                tick(jobs[reference], self._ray.get(reference))
            except self._ray.exceptions.RayError:
                continue  # it is gone: its job will say so

    def close(self) -> None:
        gone = [actor.forget.remote() for actor in self._actors]
        if gone:
            self._ray.wait(gone, num_returns=len(gone), timeout=2.0)
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors, self._sent = {}, {}
        if self._mine and self._ray.is_initialized():
            self._ray.shutdown()


def _start(ray: Any, address: str | None, workers: int | None) -> None:
    """Join the cluster at an address, or begin one on this machine, for this process and on loopback only."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    paths = os.pathsep.join([*(path for path in sys.path if path), os.getcwd()])
    threads = limits(1)
    quiet = {"log_to_driver": False, "logging_level": "error"}
    if address:
        _refuse_silence(address)
        try:
            ray.init(address=address, runtime_env={"env_vars": threads}, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise RunError(f"on: no Ray cluster at {address} ({str(error).splitlines()[0]})") from None
        return
    ray.init(
        num_cpus=workers or cores(),
        include_dashboard=False,
        runtime_env={"env_vars": threads | {"PYTHONPATH": paths}},
        _node_ip_address="127.0.0.1",
        **quiet,
    )


def _refuse_silence(address: str) -> None:
    """An address at which nobody listens is refused at once; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return  # "auto", or whatever else Ray knows
    try:
        socket.create_connection((host or "127.0.0.1", int(port)), timeout=5.0).close()
    except OSError as error:
        raise RunError(f"on: no Ray cluster listens at {address} ({error.strerror or error})") from None
