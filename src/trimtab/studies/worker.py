"""Doing jobs one after another in one process, warm: JAX, environments and compiled programs stay.

`python -m trimtab.studies.worker` is such a process for the local executor. It reads one JSON object per line
({"job", "store"}) and answers with lines of its own: {"steps"} as it goes and {"result", "seconds"} or {"error"} at the
end. What jobs print goes to standard error. When its input ends, because who started it is gone, it ends at once.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from trimtab.studies.job import Bench, Job, from_dict
from trimtab.studies.store import Outcome, Store
from trimtab.training.engine_cache import Engines

OFTEN = 0.1  # seconds between two words about progress


class Workshop:
    """What does jobs, and what it keeps between them."""

    def __init__(self) -> None:
        self.engines = Engines()

    def do(self, job: Job, store: Store, tick: Callable[[int], None] = lambda steps: None) -> Outcome:
        """A job's outcome: the one that is kept, or a new one."""
        with store.doing(job):
            outcome = store.outcome(job)
            if outcome is not None:
                return outcome
            start = time.perf_counter()
            inputs = {need.identity: store.place(need) for need in job.needs}
            result = job.do(Bench(store.place(job), inputs, self.engines, tick))
            return store.keep(job, result, time.perf_counter() - start)


def words_of(error: BaseException) -> str:
    """One line about what went wrong: a user's mistake in its own words, anything else with where it happened."""
    from trimtab.config import ConfigError
    from trimtab.envs import EnvError
    from trimtab.training.records import RunError

    if isinstance(error, ConfigError | EnvError | RunError | OSError):
        return " ".join(str(error).split())
    where = traceback.extract_tb(error.__traceback__)[-1]
    message = " ".join(str(error).split())[:500]
    return f"{type(error).__name__}: {message} ({Path(where.filename).name}:{where.lineno})"


def sparing(tell: Callable[[int], None]) -> Callable[[int], None]:
    """`tell`, but not more often than a person could see."""
    last = 0.0

    def tick(steps: int) -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= OFTEN:
            last = now
            tell(steps)

    return tick


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever jobs print is not an answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's interrupt is for who started this
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    workshop = Workshop()
    say = lambda **words: answers.write(json.dumps(words) + "\n")
    while True:
        request = json.loads(requests.get())
        try:
            tick = sparing(lambda steps: say(steps=steps))
            outcome = workshop.do(from_dict(request["job"]), Store(Path(request["store"])), tick)
            say(result=outcome.result, seconds=outcome.seconds)
        except Exception as error:
            traceback.print_exc()
            say(error=words_of(error))


def _listen(requests: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
