"""Training and resuming a run: step, record, evaluate, checkpoint."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.config import Config, ConfigError
from trimtab.config.device_shares import check_move, with_devices
from trimtab.core.errors import EnvError, RunError
from trimtab.core.writing import numbered_path
from trimtab.envs.base import Spec, derived_seed
from trimtab.envs.own_environments import Constructor, hand_over, name_of
from trimtab.envs.procgen import normalized_return
from trimtab.training import hosts, resource_estimates, snapshot
from trimtab.training.engine import Engine, Waiting
from trimtab.training.engine_setup import build_engine_checked, count_parameters, prepare_jax, restore_newest
from trimtab.training.evaluation import EVALUATION_SEEDS, Evaluator, longest_episode
from trimtab.training.manifest import make_manifest
from trimtab.training.progress import Progress, Sink, TensorBoard, WandB, require_packages
from trimtab.training.records import MetricsRow, StartedFrom, Timing, extend_segments
from trimtab.training.run import Run
from trimtab.training.run_dir import DirectoryNotEmpty, RunDir
from trimtab.training.state import Info, State
from trimtab.training.warm_start import WarmStart, transferred_parts, warm_start

if TYPE_CHECKING:
    from trimtab.training.engine_cache import EngineCache

WINDOW = 100  # episodes in rollout/ep_rew_mean
MOST_PENDING = 10_000  # iterations whose episodes are kept in memory until they are written


class NonFinite(RunError):
    """A number was infinite or not a number; the run stopped, and its last checkpoint is good."""


def to_stderr(text: str) -> None:
    print(text, file=sys.stderr)


def _ignore(*_: Any) -> None:
    pass


@dataclass(frozen=True)
class RunOptions:
    """How a run is carried out and shown; none of these changes its numbers."""

    quiet: bool = True
    """Show no progress."""
    checkpoints: int | None = None
    """How many, evenly spaced; if not given 20, or fewer where they are large."""
    tensorboard: bool = False
    """Also write TensorBoard events."""
    track: bool = False
    """Also log to Weights & Biases."""
    until: int | None = None
    """Stop after this many environment steps, with a checkpoint."""
    say: Callable[[str], None] = to_stderr
    """Is given messages for a person."""
    tick: Callable[[int], None] = _ignore
    """Is given the environment steps recorded so far."""
    engines: EngineCache | None = None
    """Keeps compiled programs between runs."""

    def __post_init__(self) -> None:
        if self.checkpoints is not None and self.checkpoints < 1:
            raise ConfigError("checkpoints", self.checkpoints, "must be at least 1; nearest: 1")
        require_packages(self.tensorboard, self.track)


# Beginning and resuming ------------------------------------------------------------------------------------


def train(
    config: Config,
    run_dir: str | PathLike[str] | None = None,
    env: Constructor | None = None,
    *,
    start: WarmStart | None = None,
    announce: Callable[[Config, Spec], None] = _ignore,
    **options: Any,
) -> Run:
    """Train from the beginning, in a new run directory.

    Args:
        config: what to train.
        run_dir: the directory; the first free runs/ENV/ALGO-seedS-K if None.
        env: a function or class that makes the environment (a gymnasium.Env) in place of config.env_id, which becomes
            its name. A run whose `env` cannot be imported by that name (one in __main__, a lambda) can only be resumed
            with `env` given again.
        start: parameters to begin with.
        announce: is given the configuration and the environment once nothing can be refused any more.
        options: fields of `RunOptions`.

    Returns:
        The run.
    """
    choices = RunOptions(**options)
    if env is not None:
        config = config.replace(env_id=name_of(env))
    prepare_jax(config, env)
    with closing(build_engine_checked(config, env, choices.engines)) as engine:
        started_from = _started_from(engine, start) if start else None
        run = _create(Path(run_dir) if run_dir else None, config, engine, started_from)
        announce(config, engine.algorithm.env.spec)
        with run.writing(), _recording_errors(run):
            state = engine.init(config.seed)
            if start and started_from:
                state = warm_start(engine, state, start, started_from.taken)
                parts = ", ".join(started_from.taken)
                choices.say(f"starting from {start.place}, taking: {parts}; everything else starts from zero")
            return _Loop(config, engine, run, choices).train(state)


def _started_from(engine: Engine, start: WarmStart) -> StartedFrom:
    return StartedFrom(start.reference, start.place, tuple(transferred_parts(engine, start)))


@contextmanager
def _recording_errors(run: RunDir) -> Iterator[None]:
    """Keep the error that ends a run in its manifest; an interrupt carries the command that resumes it."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"`trimtab resume {quote(str(run.path))}` resumes from the last checkpoint") from None
    except Exception as error:
        run.write_manifest(ended=" ".join(str(error).split()))
        raise


def _create(path: Path | None, config: Config, engine: Engine, started_from: StartedFrom | None) -> RunDir:
    """A run at `path`, or under the first free name: another process may take a name between looking and making."""
    run_dir_class, manifest = hosts.run_dir_class(), make_manifest(config, engine, started_from)
    while True:
        name = f"{config.env_id.replace('/', '-')}/{config.algo}-seed{config.seed}"
        try:
            return run_dir_class.create(path or numbered_path(Path("runs"), name), config, manifest)
        except DirectoryNotEmpty:
            if path:
                raise


def resume(
    run_dir: str | PathLike[str],
    env: Constructor | None = None,
    *,
    total_timesteps: int | None = None,
    devices: int | None = None,
    **options: Any,
) -> Run:
    """Resume a run from its newest good checkpoint.

    From the checkpoint on, whatever follows the length of training (annealing of the step size, the clip range and the
    entropy bonus) follows the new length, as if it had been requested from the beginning; what was learned before
    stays.

    Args:
        run_dir: the run.
        env: makes the environment, where the run was given one that cannot be imported.
        total_timesteps: a new length of the run.
        devices: a new number of devices.
        options: fields of `RunOptions`.

    Returns:
        The run.
    """
    choices, run = RunOptions(**options), hosts.run_dir_class().open(run_dir)
    old = run.config()
    config = _resumed_config(run, old, total_timesteps, devices)
    if env is not None:
        hand_over(config.env_id, env)
    prepare_jax(config, env)
    with run.writing(), closing(build_engine_checked(config, env, choices.engines)) as engine:
        state = restore_newest(run, config, engine, choices.say)  # refuses before anything is changed
        with _recording_errors(run):
            hosts.meet("restored")  # other processes read what the rewinding left
            _record_resume(run, old, config, engine, int(state.iteration) * config.batch, choices.say)
            return _Loop(config, engine, run, choices).train(state)


def _resumed_config(run: RunDir, old: Config, total_timesteps: int | None, devices: int | None) -> Config:
    """The configuration of a resumed run, which may not become shorter than it is."""
    config = old if total_timesteps is None else old.replace(total_timesteps=total_timesteps)
    if config != old and config.iterations == old.iterations:
        problem = f"iterations of {config.batch:,} steps make {config.steps:,} of it, as before"
        raise ConfigError("total_timesteps", total_timesteps, f"{problem}; nearest: {config.steps + config.batch}")
    done = max((checkpoint.step for checkpoint in run.checkpoints()), default=0)
    if config.steps < done:
        raise ConfigError("total_timesteps", config.total_timesteps, f"{done} are done already; nearest: {done}")
    if devices is None:
        return config
    check_move(config, devices)
    return with_devices(config, devices)


def _record_resume(
    run: RunDir, old: Config, config: Config, engine: Engine, step: int, say: Callable[[str], None]
) -> None:
    """Write what a resume changes of a run's configuration and manifest."""
    manifest = run.manifest()
    if manifest.ended:
        run.write_manifest(ended=None)
    before = manifest.segments_of(old)
    if config != old:
        run.write_manifest(segments=before)  # a run of an older version has none yet
        run.write_config(config)
        say(_describe_change(config, old, step))
    segments = extend_segments(before, step, config, engine.exact)
    if step < config.steps and segments != before:
        run.write_manifest(segments=segments)


def _describe_change(config: Config, old: Config, step: int) -> str:
    """What a new length or number of devices does to the rest of the run."""
    sentences = [_describe_schedules(config, old, step)] if config.total_timesteps != old.total_timesteps else []
    if config.devices != old.devices:
        sentences.append(f"devices {old.devices} -> {config.devices}: from step {step:,} on not bit for bit as before")
    return "; ".join(sentences)


def _describe_schedules(config: Config, old: Config, step: int) -> str:
    """What a new length does to the schedules that depend on it."""
    length = f"{step:,} of {old.total_timesteps:,} steps are done; from here the run has {config.total_timesteps:,}"
    following = [f"the {config.anneal_lr} step size"] * (config.anneal_lr in ("linear", "cosine"))
    following += ["the clip range"] * (config.clip_anneal != "constant")
    following += ["the entropy bonus"] * (config.ent_anneal > 0)
    if not following:
        return f"{length}; no schedule depends on it"
    before, now = (f"{step / one.steps:.0%}" for one in (old, config))
    names = ", ".join(following)
    return f"{length}; annealed over the new length from here on: {names} ({before} of the way before, {now} now)"


def train_or_resume(config: Config, run_dir: Path, **options: Any) -> Run:
    """Resume the run in a directory if there is one; else remove what a kill left there, and train.

    Args:
        config: what to train, if there is no run yet.
        run_dir: the directory.
        options: fields of `RunOptions`.

    Returns:
        The run.
    """
    if RunDir.began(run_dir):
        return resume(run_dir, **options)
    shutil.rmtree(run_dir, ignore_errors=True)
    return train(config, run_dir, **options)


# The loop --------------------------------------------------------------------------------------------------


class _Loop:
    """One pass from a state to the end of training, recording on the way."""

    def __init__(self, config: Config, engine: Engine, run: RunDir, options: RunOptions):
        self.config, self.engine, self.run, self.options = config, engine, run, options
        until = config.steps if options.until is None else options.until
        self.last = min(until // config.batch, config.iterations)
        self.window: deque[tuple[float, float]] = deque(maxlen=WINDOW)  # returns and lengths of the last episodes
        self.pending: list[dict[str, np.ndarray]] = []  # episodes that are not on disk yet
        self.pending_from = 0
        self.passed_threshold = config.eval_threshold is None
        self.sinks: list[Sink] = []
        self.start_time, self.first, self.outside_seconds = 0.0, 0, 0.0
        self.evaluations = config.evaluation_iterations()
        self.evaluator: Evaluator | None = None

    def train(self, state: State) -> Run:
        """Train to the end, and close what was opened."""
        self._restore_window()
        self.first = self.pending_from = int(state.iteration)
        self.start_time = time.perf_counter()
        title = f"{self.config.env_id} {self.config.algo} seed {self.config.seed}"
        try:
            with Progress(self.config.steps, title, self.options.quiet) as bar:
                if self.first < self.last:
                    self._open_sinks()
                    self.engine.compile(state)
                bar.start(self.first * self.config.batch)
                self._begin(state)
                self._iterate(state, bar)
            self._report_evaluations()
        finally:
            if self.evaluator is not None:
                self.evaluator.close()
            for sink in self.sinks:
                sink.close()
        return Run(self.run.path, self._timing())

    def _begin(self, state: State) -> None:
        """Evaluate and keep the policy that a new run starts from; an adopted policy has a checkpoint already."""
        if self.first == 0:
            if self.evaluations and not self.run.evaluations():
                self.outside_seconds += self._evaluate(state, 0)
            if not self.run.has_checkpoint(0):
                self._checkpoint(state)

    def _iterate(self, state: State, bar: Progress) -> None:
        """Launch chunks of iterations, and record each while the next is computed."""
        engine, iteration = self.engine, self.first
        stops = self._checkpoint_iterations()
        finish: Callable[[], None] = _ignore
        while iteration < self.last:
            until = min(next(stop for stop in stops if stop > iteration), self._next_evaluation(iteration))
            count = min(until - iteration, engine.chunk)
            state, wait = engine.launch(state, count)
            finish()  # the iterations before these
            finish = partial(self._finish, iteration, wait, bar)
            iteration += count
            if engine.ahead and iteration < until:
                continue
            finish()
            finish = _ignore
            # Evaluate first: the checkpoint then records the evaluation too.
            if iteration == self._next_evaluation(iteration - 1):
                self.outside_seconds += self._evaluate(state, iteration)
            if iteration in stops:
                self._checkpoint(state)

    def _finish(self, first: int, wait: Waiting, bar: Progress) -> None:
        """Wait for the iterations that began at `first`, record and show them."""
        info, seconds = wait(), self._training_seconds()
        done = first + len(next(iter(info.finite.values())))
        fps = (done - self.first) * self.config.batch / seconds
        self._record(first, info, fps, seconds)
        mean = f"return {self._window_means()[0]:.4g}" if self.window else "no episode yet"
        bar.update(done * self.config.batch, f"{fps:,.0f} steps/s, {mean},")
        self.options.tick(done * self.config.batch)

    def _training_seconds(self) -> float:
        """Seconds of training so far, without those of compiling and evaluating."""
        elapsed = time.perf_counter() - self.start_time
        return max(elapsed - self.outside_seconds - self.engine.compile_seconds, 1e-9)

    def _timing(self) -> Timing:
        """How long this process took; a run that was complete already keeps the speed it recorded."""
        elapsed, training = time.perf_counter() - self.start_time, self._training_seconds()
        steps, interval = (self.last - self.first) * self.config.batch, (time.time() - training, time.time())
        if not steps:
            return Timing(steps, interval)
        return Timing(steps, interval, steps / training, elapsed, self.engine.compile_seconds)

    def _open_sinks(self) -> None:
        if self.options.tensorboard and hosts.is_first():
            self.sinks.append(TensorBoard(self.run.path))
        if self.options.track and hosts.is_first():
            self.sinks.append(WandB(self.run.path, self.config.as_dict()))

    def _checkpoint_iterations(self) -> list[int]:
        """The iterations after which to write a checkpoint, in order; the last one of this pass among them."""
        count = self.options.checkpoints
        if count is None:
            size = resource_estimates.checkpoint_bytes(self.config, count_parameters(self.engine))
            count = resource_estimates.default_checkpoint_count(size)
        return sorted({*resource_estimates.checkpoint_iterations(self.config.iterations, count), self.last})

    def _next_evaluation(self, iteration: int) -> int:
        """The first iteration after `iteration` at whose end the policy is evaluated."""
        return next((due for due in self.evaluations if due > iteration), self.config.iterations + 1)

    # Recording -------------------------------------------------------------------------------------------

    def _restore_window(self) -> None:
        """Fill the window of last episodes, and whether the threshold was passed, from the run's records."""
        episodes = self.run.episodes()
        self.window.extend(zip(episodes["return"].to_list()[-WINDOW:], episodes["length"].to_list()[-WINDOW:]))
        self.passed_threshold = self.passed_threshold or any(map(self._passes_threshold, self.run.metrics()))

    def _passes_threshold(self, row: MetricsRow) -> bool:
        threshold, mean = self.config.eval_threshold, row.mean_return
        return threshold is None or (mean is not None and mean >= threshold)

    def _record(self, first: int, info: Info, fps: float, seconds: float) -> None:
        """Write the iterations of one launch; stop at the first that is not finite."""
        metrics = {name: values.tolist() for name, values in info.metrics.items()}
        count = len(next(iter(info.finite.values())))
        rows = [self._row(first + k, k, info, metrics, fps, seconds) for k in range(count)]
        broken = tuple(name for name, finite in info.finite.items() if not finite.all())
        if broken:
            rows[-1] = MetricsRow(rows[-1].iteration, rows[-1].step, rows[-1].numbers, broken)
        self.run.append_metrics(rows)
        for row in rows:
            for sink in self.sinks:
                sink.write(row.step, {"time/total_timesteps": row.step, **row.numbers})
        if broken:
            last = max((checkpoint.step for checkpoint in self.run.checkpoints()), default=0)
            raise NonFinite(
                f"{', '.join(broken)} not finite at iteration {rows[-1].iteration} (step {rows[-1].step}); "
                f"the last good checkpoint is at step {last}; try a lower learning_rate or max_grad_norm"
            )

    def _row(
        self, iteration: int, k: int, info: Info, metrics: dict[str, list[float]], fps: float, seconds: float
    ) -> MetricsRow:
        """The row of iteration k of a launch, which is `iteration` of the run."""
        self._add_episodes(iteration, info, k)
        numbers = {"time/fps": round(fps, 1), "time/elapsed": round(seconds, 3)}
        if self.window:
            mean, length = self._window_means()
            numbers |= {"rollout/ep_rew_mean": mean, "rollout/ep_len_mean": length}
            if (share := normalized_return(self.config.env_id, mean)) is not None:
                numbers["rollout/normalized_return"] = share
        numbers |= {name: values[k] for name, values in metrics.items() if math.isfinite(values[k])}
        row = MetricsRow(iteration + 1, (iteration + 1) * self.config.batch, numbers)
        self.passed_threshold = self.passed_threshold or self._passes_threshold(row)
        return row

    def _window_means(self) -> tuple[float, float]:
        """Mean return and length of the last episodes."""
        returns, lengths = zip(*self.window)
        return math.fsum(returns) / len(returns), math.fsum(lengths) / len(lengths)

    def _add_episodes(self, iteration: int, info: Info, k: int) -> None:
        """Keep the finished episodes of an iteration, in the order they finished, with the step at which they did."""
        t, env = np.nonzero(info.done[k])
        if not len(t):
            return
        returns, lengths = (np.asarray(x[k])[t, env] for x in (info.episode_return, info.episode_length))
        self.window.extend(zip(returns.tolist(), lengths.tolist()))
        step = iteration * self.config.batch + (t + 1) * self.config.num_envs
        columns = {"return": returns.astype(np.float64), "length": lengths.astype(np.int64)}
        self.pending.append({"step": step, "env": env} | columns)
        if len(self.pending) >= MOST_PENDING:
            self._write_episodes(iteration + 1)

    def _write_episodes(self, iteration: int) -> None:
        """Write the episodes before an iteration that are not on disk yet."""
        if self.pending:
            columns = {name: np.concatenate([part[name] for part in self.pending]) for name in self.pending[0]}
            self.run.write_episodes(self.pending_from, columns)
        self.pending, self.pending_from = [], iteration

    def _checkpoint(self, state: State) -> None:
        """Write episodes, buffers, and the checkpoint that relies on them."""
        iteration = int(state.iteration)
        self._write_episodes(iteration)
        earlier = [c.iteration for c in self.run.checkpoints() if c.sha256 and c.iteration < iteration]
        snapshot.save_buffers(self.run, self.config, state, max(earlier, default=0))
        tensors = snapshot.pack(self.engine.algorithm, state)
        self.run.write_checkpoint(iteration * self.config.batch, iteration, tensors)

    def _stop_evaluating(self, reason: str) -> None:
        self.evaluations = {}
        self.options.say(f"no evaluations ({reason}); the learning curve is that of training episodes")

    def _report_evaluations(self) -> None:
        """What evaluations cost on environments that are stepped in Python."""
        if self.evaluator is None or self.options.quiet or self.engine.algorithm.env.spec.compiled:
            return
        steps, seconds = self.evaluator.env_steps, self.evaluator.seconds
        training = (self.last - self.first) * self.config.batch
        self.options.say(
            f"evaluations: {steps:,} environment steps in {seconds:.1f} s, beside {training:,} steps of training in "
            f"{self._training_seconds():.1f} s; --eval-every 0 skips them"
        )

    def _evaluate(self, state: State, iteration: int) -> float:
        """Evaluate if the threshold has been passed; returns the seconds it took."""
        if not self.passed_threshold:
            return 0.0
        start_time = time.perf_counter()
        # By the number of the evaluation: runs of one seed and different batches share start states.
        seed = derived_seed(EVALUATION_SEEDS, self.config.seed, self.evaluations[iteration])
        if self.evaluator is None:
            longest = longest_episode(self.config.total_timesteps)
            self.evaluator = Evaluator(self.engine.algorithm, self.config.eval_episodes, longest)
        try:
            episodes = self.evaluator.play(state, self.engine.hypers, seed)
        except EnvError as error:
            if self.config.eval_every is not None:
                raise
            self._stop_evaluating(str(error))
            return time.perf_counter() - start_time
        if not episodes.any_ended and self.config.eval_every is None and not self.run.evaluations():
            self._stop_evaluating(
                f"no episode ended within {self.evaluator.longest:,} steps, and there is no time limit"
            )
            return time.perf_counter() - start_time
        evaluation = episodes.summary(iteration * self.config.batch, iteration)
        self.run.append_evaluation(evaluation)
        for sink in self.sinks:
            sink.write(evaluation.step, evaluation.metrics())
        return time.perf_counter() - start_time
