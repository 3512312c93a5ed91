"""Warm worker processes on this machine, one per core.

`python -m trimtab.studies.local_workers` is a worker process. It reads one JSON object per line ({"job", "store"}) and
answers with lines: {"steps"} while a job runs, then {"result", "seconds"} or {"error"}. Its standard error
receives what jobs print. A worker exits when its input closes, because the process that started it has ended.
"""

from __future__ import annotations

import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.core import trust
from trimtab.core.json_values import from_json
from trimtab.studies.executor import JobRunner, Queue, Tick, error_summary, throttled
from trimtab.studies.job import Job, from_dict, kind_modules
from trimtab.studies.store import Outcome, Store
from trimtab.training.device import cores, limits

TRIES = 2  # a job whose worker died runs once more, from its checkpoint


class Local:
    """Worker processes that are kept between jobs and studies: started when first needed, ended by `close`."""

    def __init__(self, workers: int | None = None):
        self.workers = workers or cores()
        self._workers: list[_Worker] = []

    def run(self, jobs: Iterable[Job], store: Store, tick: Tick = lambda job, steps: None) -> Iterator[Outcome]:
        queue, tries = Queue(jobs), dict[str, int]()
        try:
            yield from queue.kept(store)
            share = max(1, cores() // max(1, min(self.workers, len(queue.waiting))))
            while queue.waiting or self._busy():
                yield from queue.skip_unrunnable(store)
                busy = self._busy()
                room = self.workers - sum(worker.devices for worker in busy)
                for job in queue.ready(room, [worker.job for worker in busy if worker.job]):
                    self._idle(job, share).begin(job, store)
                for worker, job in self._speaking():
                    message = worker.hear()
                    if message.died:
                        self._workers.remove(worker)
                        tries[job.identity] = tries.get(job.identity, 1) + 1
                        if tries[job.identity] <= TRIES:
                            queue.waiting[job.identity] = job
                            continue
                    if message.steps is not None:
                        tick(job, message.steps)
                    elif message.error is not None:
                        yield queue.settle(Outcome(job, store.place(job), {}, error=message.error))
                    elif message.result is not None:
                        yield queue.settle(Outcome(job, store.place(job), message.result, message.seconds))
        except BaseException:  # interrupted, or the caller stopped: running jobs are stopped
            self.close()
            raise

    def _busy(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.job is not None]

    def _idle(self, job: Job, share: int) -> _Worker:
        """An idle worker with the threads and devices of a job; if there is none, a new one replaces an idle one.

        JAX keeps the threads and devices it starts with. `share` are the threads of a job that sets no number.
        """
        threads = job.threads or share
        idle = [worker for worker in self._workers if worker.job is None]
        choice = next((worker for worker in idle if (worker.threads, worker.devices) == (threads, job.devices)), None)
        if choice is None:
            if len(self._workers) >= self.workers:
                idle[0].end()
                self._workers.remove(idle[0])
            choice = _Worker(threads, job.devices)
            self._workers.append(choice)
        return choice

    def _speaking(self) -> list[tuple[_Worker, Job]]:
        """The busy workers that have sent something, or died, and their jobs; waits for one."""
        busy = [(worker, worker.job) for worker in self._workers if worker.job is not None]
        ready = [(worker, job) for worker, job in busy if worker.has_line()]
        if ready or not busy:
            return ready
        with selectors.DefaultSelector() as selector:
            for worker, job in busy:
                selector.register(worker.output, selectors.EVENT_READ, (worker, job))
            return [key.data for key, _ in selector.select(timeout=1.0)]

    def close(self) -> None:
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.end()
        self._workers = []


@dataclass(frozen=True)
class _Message:
    """A line from a worker: how far its job is, or what came of it; empty if there is none yet."""

    steps: int | None = None
    result: dict[str, Any] | None = None
    seconds: float = 0.0
    error: str | None = None
    died: bool = False


class _Worker:
    """One worker process and its job."""

    def __init__(self, threads: int, devices: int = 1):
        self.threads, self.devices = threads, devices
        self.job: Job | None = None
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by end)
        environment = os.environ | limits(threads) | {"PYTHONUNBUFFERED": "1"}
        paths = [path for path in sys.path if path]  # workers find an environment's module as this process does
        environment["PYTHONPATH"] = os.pathsep.join([*paths, os.getcwd()])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "trimtab.studies.local_workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            start_new_session=True,
        )
        assert self.process.stdin is not None and self.process.stdout is not None  # they are pipes
        self._input, self.output = self.process.stdin, self.process.stdout
        self._heard = b""
        os.set_blocking(self.output.fileno(), False)

    def begin(self, job: Job, store: Store) -> None:
        self.job = job
        allowed = {"trusted": [*trust.trusted(), *kind_modules(job)]}
        request = json.dumps({"job": job.as_dict(), "store": str(store.path.resolve())} | allowed)
        with suppress(BrokenPipeError):  # it died while idle: `hear` reports that
            self._input.write(request.encode() + b"\n")
            self._input.flush()

    def has_line(self) -> bool:
        return b"\n" in self._heard

    def hear(self) -> _Message:
        """Its next message; of a worker that died, why, and it is ended."""
        if not self.has_line():
            read = self.output.read()
            if read == b"":
                error = self._last_words()
                self.end()
                return _Message(error=error, died=True)
            self._heard += read or b""
        if not self.has_line():
            return _Message()
        line, _, self._heard = self._heard.partition(b"\n")
        message = from_json(_Message, json.loads(line))
        if message.steps is None:
            self.job = None
        return message

    def _last_words(self) -> str:
        """Why it ended, and the last line it wrote."""
        code = self.process.wait()
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()
        how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return f"its worker {how}" + (f": {lines[-1]}" if lines else "")

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()
        for close in (self._input.close, self.output.close, self._log.close):
            with suppress(BrokenPipeError):
                close()


# The worker process ------------------------------------------------------------------------------------------------


def _main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what jobs print is not an answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's interrupt is for the process that started this one
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    runner = JobRunner()

    def say(**words: Any) -> None:
        answers.write(json.dumps(words) + "\n")

    while True:
        request = json.loads(requests.get())
        try:
            tick = throttled(lambda steps: say(steps=steps))
            trust.trust(*request.get("trusted", ()))
            outcome = runner.do(from_dict(request["job"]), Store(Path(request["store"])), tick)
            say(result=outcome.result, seconds=outcome.seconds)
        except Exception as error:
            traceback.print_exc()
            say(error=error_summary(error))


def _listen(requests: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


if __name__ == "__main__":
    _main()
