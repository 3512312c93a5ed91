"""The only loop: build, step, record, checkpoint, resume."""

from __future__ import annotations

import math
import os
import platform
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

import trimtab
from trimtab import config as configuration
from trimtab import device, memory, snapshot
from trimtab.algos.state import Info, State
from trimtab.config import Config
from trimtab.engine import Engine, Waiting, build
from trimtab.envs.base import Discrete, derived_seed
from trimtab.evaluate import evaluate
from trimtab.procgen import normalized_return
from trimtab.progress import Progress
from trimtab.records import Checkpoint, Damaged, RunDir, RunError, Taken, new_path
from trimtab.run import Run
from trimtab.sinks import Sink, TensorBoard, WandB, require_packages

WINDOW = 100  # episodes in rollout/ep_rew_mean
EVALUATION_SEEDS = 1_000_000  # `trimtab eval` starts here plus the run's seed, away from the seeds of training


class NonFinite(RunError):
    """A number was infinite or not a number; the run stopped, its last checkpoint stands."""


@dataclass
class Options:
    """How a run is carried out and shown; nothing here changes its results."""

    run_dir: Path | None = None
    quiet: bool = True
    checkpoints: int = 20
    tensorboard: bool = False
    track: bool = False
    say: Callable[[str], None] = field(default=lambda text: print(text, file=sys.stderr))
    announce: Callable[[Config, str], None] = field(default=lambda config, backend: None)  # nothing is refused after it


def train(config: Config, run_dir: str | Path | None = None, **options: Any) -> Run:
    """Train from the beginning in a new run directory."""
    opts = Options(run_dir=Path(run_dir) if run_dir else None, **options)
    require_packages(opts.tensorboard, opts.track)
    device.prepare(device.threads_for(config.network))
    engine = _fitting(config)
    run = _new_run(opts.run_dir, config, engine)
    opts.announce(config, engine.algorithm.env.spec.backend)
    with run.writing(), _saying_how_to_go_on(run.path):
        state = engine.init(config.seed)
        return _Loop(config, engine, run, opts).go(state)


@contextmanager
def _saying_how_to_go_on(path: Path) -> Iterator[None]:
    """An interrupt carries the command that goes on."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"`trimtab resume {path}` goes on from the last checkpoint") from None


def _new_run(path: Path | None, config: Config, engine: Engine) -> RunDir:
    """A run at `path`, or under the first free name: another process may take a name between looking and making."""
    while True:
        target = path or new_path(Path("runs"), config.env_id, config.algo, config.seed)
        try:
            return RunDir.create(target, config.as_dict(), manifest(config, engine))
        except Taken:
            if path:
                raise


def _fitting(config: Config) -> Engine:
    """The engine, before it allocates anything; what cannot fit in memory is refused."""
    engine = build(config)
    agent = engine.algorithm.agent
    layouts = (*agent.policy_layout.values(), *agent.value_layout.values())
    parameters = sum(math.prod(shape) for shape in layouts)
    try:
        available = memory.device_memory(jax.devices()[0])
        memory.refuse_what_cannot_fit(config, engine.algorithm.env.spec, parameters, available)
    except configuration.ConfigError:
        engine.close()
        raise
    return engine


def resume(run_dir: str | Path, **options: Any) -> Run:
    """Go on from the newest good checkpoint."""
    run = RunDir.open(run_dir)
    opts = Options(run_dir=run.path, **options)
    require_packages(opts.tensorboard, opts.track)
    config = configuration.from_dict(run.config())
    device.prepare(device.threads_for(config.network))
    with run.writing(), _saying_how_to_go_on(run.path):
        engine = _fitting(config)
        state = _restore(run, config, engine, opts.say)
        return _Loop(config, engine, run, opts).go(state)


def _restore(run: RunDir, config: Config, engine: Engine, say: Callable[[str], None]) -> State:
    """The newest state that can be read; damaged checkpoints are passed over with a message."""
    template = engine.init(config.seed)
    for checkpoint in reversed(run.checkpoints()):
        try:
            state = snapshot.unpack(engine.algorithm, template, run.read_checkpoint(checkpoint))
            state = snapshot.load_buffers(run, config, state)
        except Damaged as error:
            say(f"{error}; falling back to the one before")
            continue
        run.rewind(checkpoint)
        iteration = int(state.iteration)
        return engine.adopt(state, iteration) if iteration else state
    run.rewind(Checkpoint(0, run.path, {"lengths": {"metrics.jsonl": 0, "evaluations.jsonl": 0}, "iteration": 0}))
    return template


def opened(path: str | Path, step: int | None) -> tuple[Config, Engine, State, int]:
    """A run's engine and the state of one of its checkpoints (the last if `step` is None), for measuring."""
    run = RunDir.open(path)
    config = configuration.from_dict(run.config())
    device.prepare(device.threads_for(config.network))
    found = run.checkpoints()
    if not found:
        raise RunError(f"{run.path} has no checkpoint")
    checkpoint = found[-1] if step is None else run.checkpoint_at(step)
    engine = build(config)
    state = snapshot.unpack(engine.algorithm, engine.init(config.seed), run.read_checkpoint(checkpoint))
    return config, engine, state, checkpoint.step


def evaluate_run(path: str | Path, episodes: int, step: int | None = None, seed: int | None = None) -> dict[str, Any]:
    """Evaluate a checkpoint with exploration off."""
    config, engine, state, at = opened(path, step)
    seed = EVALUATION_SEEDS + config.seed if seed is None else seed
    try:
        return {"step": at, **evaluate(engine.algorithm, state, engine.hypers, episodes, seed).summary()}
    finally:
        engine.close()


def repeat(path: str | Path, run_dir: str | Path | None = None, quiet: bool = True) -> dict[str, Any]:
    """Run a configuration again and compare every metric outside time/, bit for bit."""
    first = RunDir.open(path)
    config = configuration.from_dict(first.config())
    target = Path(run_dir) if run_dir else new_path(first.path.parent, "", f"{first.path.name}-repeat", config.seed)
    again = train(config, target, quiet=quiet)
    was, now = first.metrics(), again.files.metrics()
    compared = 0
    for a, b in zip(was, now):
        for name in sorted(a.keys() | b.keys()):
            if name.startswith("time/"):
                continue
            compared += 1
            if a.get(name) != b.get(name):
                difference = {
                    "metric": name,
                    "iteration": a["iteration"],
                    "was": a.get(name),
                    "now": b.get(name),
                }
                return {"identical": False, "first_difference": difference, "run": str(again.path)}
    if len(was) != len(now):
        difference = {
            "metric": "number of iterations",
            "iteration": min(len(was), len(now)),
            "was": len(was),
            "now": len(now),
        }
        return {"identical": False, "first_difference": difference, "run": str(again.path)}
    return {"identical": True, "compared": compared, "iterations": len(was), "run": str(again.path)}


class _Loop:
    """One pass from a state to the end of training, recording on the way."""

    def __init__(self, config: Config, engine: Engine, run: RunDir, options: Options):
        self.config, self.engine, self.run, self.options = config, engine, run, options
        self.window: deque[tuple[float, float]] = deque(maxlen=WINDOW)
        self.pending: list[dict[str, np.ndarray]] = []
        self.shard_from = 0
        self.passed_threshold = config.eval_threshold is None
        self.sinks: list[Sink] = []

    def go(self, state: State) -> Run:
        config, engine = self.config, self.engine
        self._recall()
        iteration = self.shard_from = int(state.iteration)
        stops = self._checkpoint_iterations()
        if iteration == 0:
            self._checkpoint(state)
        if iteration < config.iterations:
            self._open_sinks()
        self.begun, self.first, self.outside = time.perf_counter(), iteration, 0.0
        try:
            with Progress(config.steps, f"{config.env_id} {config.algo} seed {config.seed}", self.options.quiet) as bar:
                if iteration < config.iterations:
                    engine.compile(state)
                bar.start(iteration * config.batch)
                settle = lambda: None
                while iteration < config.iterations:
                    until = min(self._next(stops, iteration), self._next_evaluation(iteration))
                    count = min(until - iteration, engine.chunk)
                    state, wait = engine.launch(state, count)
                    settle()  # the iterations before these, while these are computed
                    iteration += count
                    settle = partial(self._settle, iteration - count, wait, bar)
                    if engine.ahead and iteration < until:
                        continue
                    settle()
                    settle = lambda: None
                    # Evaluate first: the checkpoint then speaks for the evaluation too.
                    if iteration == self._next_evaluation(iteration - 1):
                        self.outside += self._evaluate(state, iteration)
                    if iteration in stops:
                        self._checkpoint(state)
        finally:
            engine.close()
            for sink in self.sinks:
                sink.close()
        return Run(self.run.path, self._timing())

    def _timing(self) -> dict[str, Any]:
        """How long this process took; a run that was complete already keeps the speed it recorded."""
        steps = (self.config.iterations - self.first) * self.config.batch
        seconds, training = time.perf_counter() - self.begun, self._clock()
        timing = {"steps": steps, "interval": [time.time() - training, time.time()]}
        if steps:
            compiling = self.engine.compile_seconds
            timing |= {"fps": steps / training, "seconds": seconds, "compile_seconds": compiling}
        return timing

    def _open_sinks(self) -> None:
        if self.options.tensorboard:
            self.sinks.append(TensorBoard(self.run.path))
        if self.options.track:
            self.sinks.append(WandB(self.run.path, self.config.as_dict()))

    def _clock(self) -> float:
        """Seconds of training: compiling and evaluating are not counted in steps/s."""
        return max(time.perf_counter() - self.begun - self.outside - self.engine.compile_seconds, 1e-9)

    def _settle(self, first: int, wait: Waiting, bar: Progress) -> None:
        """Wait for iterations that start at `first`, record and show them."""
        info, clock = wait(), self._clock()
        done = first + len(next(iter(info.finite.values())))
        rate = (done - self.first) * self.config.batch / clock
        self._record(first, info, rate, clock)
        bar.update(done * self.config.batch, self._note(rate))

    # When things happen ----------------------------------------------------------------------------------

    def _checkpoint_iterations(self) -> set[int]:
        count = max(1, min(self.options.checkpoints, self.config.iterations))
        return {round(k * self.config.iterations / count) for k in range(1, count + 1)}

    def _next(self, stops: set[int], iteration: int) -> int:
        return min(s for s in stops if s > iteration)

    def _next_evaluation(self, iteration: int) -> int:
        """The first iteration after `iteration` at whose end a multiple of eval_every has been passed."""
        every, batch = self.config.eval_every, self.config.batch
        if every == 0:
            return self.config.iterations + 1
        due = (iteration * batch // every + 1) * every
        return max(iteration + 1, min(math.ceil(due / batch), self.config.iterations))

    # What is written -------------------------------------------------------------------------------------

    def _recall(self) -> None:
        """Take up the episode window where the recorded run left it."""
        episodes = self.run.episodes()
        self.window.extend(zip(episodes["return"].to_list()[-WINDOW:], episodes["length"].to_list()[-WINDOW:]))
        self.passed_threshold |= any(
            self.config.eval_threshold is not None
            and row.get("rollout/ep_rew_mean", -math.inf) >= self.config.eval_threshold
            for row in self.run.metrics()
        )

    def _record(self, first: int, info: Info, fps: float, clock: float) -> None:
        """Write the iterations of one call; stop at the first that is not finite."""
        rows = []
        names = list(info.finite)
        metrics = {name: values.tolist() for name, values in info.metrics.items()}
        for k in range(len(info.finite[names[0]])):
            self._episodes(first + k, info, k)
            row: dict[str, Any] = {
                "iteration": first + k + 1,
                "time/total_timesteps": (first + k + 1) * self.config.batch,
                "time/fps": round(fps, 1),
                "time/elapsed": round(clock, 3),
            }
            if self.window:
                row["rollout/ep_rew_mean"], row["rollout/ep_len_mean"] = self._window_means()
                if (share := normalized_return(self.config.env_id, row["rollout/ep_rew_mean"])) is not None:
                    row["rollout/normalized_return"] = share
            row |= {name: values[k] for name, values in metrics.items() if math.isfinite(values[k])}
            rows.append(row)
            if self.config.eval_threshold is not None:
                self.passed_threshold |= row.get("rollout/ep_rew_mean", -math.inf) >= self.config.eval_threshold
        broken = [name for name in names if not info.finite[name].all()]
        self.run.append_metrics([*rows[:-1], rows[-1] | {"not_finite": broken}] if broken else rows)
        for row in rows:
            numbers = {name: value for name, value in row.items() if name != "iteration"}
            for sink in self.sinks:
                sink.write(row["time/total_timesteps"], numbers)
        if broken:
            last = max((c.step for c in self.run.checkpoints()), default=0)
            raise NonFinite(
                f"{', '.join(broken)} not finite at iteration {rows[-1]['iteration']} (step "
                f"{rows[-1]['time/total_timesteps']}); the last good checkpoint is at step {last}; "
                "try a lower learning_rate or max_grad_norm"
            )

    def _window_means(self) -> tuple[float, float]:
        """Mean return and length of the last episodes."""
        returns, lengths = zip(*self.window)
        return math.fsum(returns) / len(returns), math.fsum(lengths) / len(lengths)

    def _episodes(self, iteration: int, info: Info, k: int) -> None:
        """Finished episodes in the order they finished, with the step at which they did."""
        t, env = np.nonzero(info.done[k])
        if not len(t):
            return
        returns, lengths = info.episode_return[k][t, env], info.episode_length[k][t, env]
        self.window.extend(zip(returns.tolist(), lengths.tolist()))
        self.pending.append(
            {
                "step": iteration * self.config.batch + (t + 1) * self.config.num_envs,
                "env": env,
                "return": returns.astype(np.float64),
                "length": lengths.astype(np.int64),
            }
        )

    def _checkpoint(self, state: State) -> None:
        """Episodes first, then the checkpoint that speaks for them."""
        iteration = int(state.iteration)
        if self.pending:
            columns = {key: np.concatenate([p[key] for p in self.pending]) for key in self.pending[0]}
            self.run.write_episodes(self.shard_from, columns)
        self.pending, self.shard_from = [], iteration
        earlier = [
            c.meta["iteration"] for c in self.run.checkpoints() if c.meta.get("iteration", iteration) < iteration
        ]
        snapshot.save_buffers(self.run, self.config, state, max(earlier, default=0))
        tensors = snapshot.pack(self.engine.algorithm, state)
        self.run.write_checkpoint(iteration * self.config.batch, iteration, tensors)

    def _evaluate(self, state: State, iteration: int) -> float:
        """Evaluate if the threshold has been passed; returns the seconds it took."""
        if not self.passed_threshold:
            return 0.0
        begun = time.perf_counter()
        result = evaluate(
            self.engine.algorithm,
            state,
            self.engine.hypers,
            self.config.eval_episodes,
            derived_seed(EVALUATION_SEEDS, self.config.seed, iteration),
        )
        step = iteration * self.config.batch
        row = {"iteration": iteration, "time/total_timesteps": step, **result.summary()}
        self.run.append_evaluation(row)
        for sink in self.sinks:
            sink.write(step, result.summary())
        return time.perf_counter() - begun

    def _note(self, rate: float) -> str:
        mean = f"return {self._window_means()[0]:.4g}" if self.window else "no episode yet"
        return f"{rate:,.0f} steps/s, {mean},"


def manifest(config: Config, engine: Engine) -> dict[str, Any]:
    """Versions, machine, seed and how repeatable the run is."""
    spec = engine.algorithm.env.spec
    packages = ("jax", "jaxlib", "equinox", "optax", "numpy", "gymnax", "gymnasium", "envpool")
    return {
        "trimtab": trimtab.__version__,
        "python": platform.python_version(),
        "packages": {p: v for p in packages if (v := _version(p))},
        "machine": {
            "platform": platform.platform(),
            "processor": device.processor(),
            "device": str(jax.devices()[0]),
        },
        "threads": os.environ.get("NPROC", "all"),
        "seed": config.seed,
        "environment": {
            "id": spec.env_id,
            "backend": spec.backend,
            "time_limit": spec.time_limit,
            "action": {"kind": "discrete", "size": spec.action.n}
            if isinstance(spec.action, Discrete)
            else {"kind": "continuous", "size": len(spec.action.low)},
        },
        "determinism": "a resumed run continues bit for bit"
        if engine.exact
        else "environment states cannot be saved: a resumed run starts new episodes",
        "command": " ".join(Path(a).name if i == 0 else a for i, a in enumerate(sys.argv)),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
