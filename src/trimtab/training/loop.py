"""The only loop: step, record, checkpoint, go on."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from trimtab import config as configuration
from trimtab.config import Config, ConfigError
from trimtab.config.device_shares import check_move, with_devices
from trimtab.core.writing import numbered_path
from trimtab.envs.base import Spec, derived_seed
from trimtab.envs.own_environments import hand_over, name_of
from trimtab.envs.procgen import normalized_return
from trimtab.training import hosts, resource_estimates, snapshot
from trimtab.training.engine import Engine, Waiting
from trimtab.training.engine_cache import EngineCache
from trimtab.training.engine_setup import build_engine_checked, count_parameters, prepare_jax, restore_newest
from trimtab.training.evaluation import EVALUATION_SEEDS, evaluate
from trimtab.training.manifest import manifest
from trimtab.training.progress import Progress, Sink, TensorBoard, WandB, require_packages
from trimtab.training.records import RunDir, RunError, Taken
from trimtab.training.run import Run
from trimtab.training.state import Info, State
from trimtab.training.warm_start import (
    ForeignParameters,
    StartCheckpoint,
    extend_segments,
    first_segment,
    segments_of,
    transferred_parts,
    warm_start,
)

WINDOW = 100  # episodes in rollout/ep_rew_mean


class NonFinite(RunError):
    """A number was infinite or not a number; the run stopped, its last checkpoint stands."""


def to_stderr(text: str) -> None:
    print(text, file=sys.stderr)


def _nothing(config: Config, spec: Spec) -> None:
    pass


def _no_steps(steps: int) -> None:
    pass


@dataclass(frozen=True)
class Options:
    """How a run is carried out and shown; nothing here changes its results."""

    quiet: bool = True
    checkpoints: int | None = None  # None: 20, or fewer where they are large (`runs.disk`)
    tensorboard: bool = False
    track: bool = False
    tick: Callable[[int], None] = _no_steps  # told the steps recorded so far

    def __post_init__(self) -> None:
        if self.checkpoints is not None and self.checkpoints < 1:
            raise ConfigError("checkpoints", self.checkpoints, "must be at least 1; nearest: 1")
        require_packages(self.tensorboard, self.track)


def train(
    config: Config,
    run_dir: str | PathLike[str] | None = None,
    env: Callable[..., Any] | None = None,
    *,
    quiet: bool = True,
    checkpoints: int | None = None,
    tensorboard: bool = False,
    track: bool = False,
    start: StartCheckpoint | ForeignParameters | None = None,
    until: int | None = None,
    say: Callable[[str], None] = to_stderr,
    announce: Callable[[Config, Spec], None] = _nothing,
    tick: Callable[[int], None] = _no_steps,
    engines: EngineCache | None = None,
) -> Run:
    """Train from the beginning in a new run directory (runs/ENV/ALGO-seedS-K if none is named).

    `env` makes the environment (a function or class that returns a gymnasium.Env) in place of config.env_id, which
    becomes its name. A run whose `env` cannot be imported by that name (one in __main__, a lambda) can only be resumed
    with `env` given again.
    `quiet` shows no progress; `checkpoints` are evenly spaced (20, or fewer where they are large); `tensorboard` and
    `track` also write there. `start` brings the parameters of another run, or arrays. `until` stops after so many
    steps, as a kill would, but with a checkpoint. `say` is told what a person should know, `announce` the configuration
    and what the environment is, once nothing can be refused, `tick` the steps recorded so far. `engines` keeps compiled
    programs between runs.
    """
    if env is not None:
        config = config.replace(env_id=name_of(env))
    options = Options(quiet, checkpoints, tensorboard, track, tick)
    prepare_jax(config, env)
    with closing(build_engine_checked(config, env, engines)) as engine:
        about = _beginning(engine, config, start)
        run = _new_run(Path(run_dir) if run_dir else None, config, engine, about)
        announce(config, engine.algorithm.env.spec)
        with run.writing(), _remembered(run):
            state = engine.init(config.seed)
            if start:
                state = warm_start(engine, state, start)
                parts = ", ".join(about["started_from"]["taken"])
                say(f"starting from {start.place}, taking: {parts}; all else is new")
            return _Loop(config, engine, run, options, until).go(state)


def _beginning(engine: Engine, config: Config, start: StartCheckpoint | ForeignParameters | None) -> dict[str, Any]:
    """What the manifest says of how a run begins."""
    about: dict[str, Any] = {"segments": [first_segment(config)]}
    if start is None:
        return about
    at = {"start": asdict(start)} if isinstance(start, StartCheckpoint) else {}
    return about | {"started_from": at | {"place": start.place, "taken": transferred_parts(engine, start)}}


@contextmanager
def _remembered(run: RunDir) -> Iterator[None]:
    """What ends a run stays in its manifest until it goes on; an interrupt carries the command that does that."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"`trimtab resume {run.path}` goes on from the last checkpoint") from None
    except Exception as error:
        run.write_manifest(ended=" ".join(str(error).split()))
        raise


def _new_run(path: Path | None, config: Config, engine: Engine, about: dict[str, Any]) -> RunDir:
    """A run at `path`, or under the first free name: another process may take a name between looking and making."""
    while True:
        target = path or numbered_path(
            Path("runs"), f"{config.env_id.replace('/', '-')}/{config.algo}-seed{config.seed}"
        )
        try:
            return hosts.directory().create(target, config.as_dict(), manifest(config, engine) | about)
        except Taken:
            if path:
                raise


def resume(
    run_dir: str | PathLike[str],
    env: Callable[..., Any] | None = None,
    *,
    total_timesteps: int | None = None,
    devices: int | None = None,
    quiet: bool = True,
    checkpoints: int | None = None,
    tensorboard: bool = False,
    track: bool = False,
    until: int | None = None,
    say: Callable[[str], None] = to_stderr,
    tick: Callable[[int], None] = _no_steps,
    engines: EngineCache | None = None,
) -> Run:
    """Go on from the newest good checkpoint, to `total_timesteps` if another length is asked for, on as many `devices`.

    From the checkpoint on, everything that follows the length of training (annealing of the step size, the clip range
    and the entropy bonus) follows the new one, as if it had been asked for from the beginning: what was learned before
    stays. The other arguments are those of `train`.
    """
    run, options = hosts.directory().open(run_dir), Options(quiet, checkpoints, tensorboard, track, tick)
    old = configuration.from_dict(run.config())
    config = old if total_timesteps is None else old.replace(total_timesteps=total_timesteps)
    if config != old and config.iterations == old.iterations:
        problem = f"iterations of {config.batch:,} steps make {config.steps:,} of it, as before"
        raise ConfigError("total_timesteps", total_timesteps, f"{problem}; nearest: {config.steps + config.batch}")
    _refuse_shorter(run, config)
    if devices is not None:
        check_move(config, devices)
        config = with_devices(config, devices)
    if env is not None:
        hand_over(config.env_id, env)
    prepare_jax(config, env)
    with run.writing(), closing(build_engine_checked(config, env, engines)) as engine:
        state = restore_newest(run, config, engine, say)  # refuses before anything is changed
        with _remembered(run):
            hosts.meet("restored")  # what others read of the run is what is left of it
            if run.manifest().get("ended"):
                run.write_manifest(ended=None)
            step = int(state.iteration) * config.batch
            segments = extend_segments(segments_of(run, old), step, config, engine.exact)
            if config != old:
                run.write_manifest(segments=segments_of(run, old))  # a run of an older version has none yet
                run.write_config(config.as_dict())
                say(_about_change(config, old, step))
            if step < config.steps and segments != segments_of(run, old):
                run.write_manifest(segments=segments)
            return _Loop(config, engine, run, options, until).go(state)


def _refuse_shorter(run: RunDir, config: Config) -> None:
    """A run may not become shorter than it is."""
    done = max((checkpoint.step for checkpoint in run.checkpoints()), default=0)
    if config.steps < done:
        raise ConfigError("total_timesteps", config.total_timesteps, f"{done} are done already; nearest: {done}")


def _about_change(config: Config, old: Config, step: int) -> str:
    """What a new length or number of devices does to what follows."""
    sentences = [_about_schedules(config, old, step)] if config.total_timesteps != old.total_timesteps else []
    if config.devices != old.devices:
        sentences.append(f"devices {old.devices} -> {config.devices}: from step {step:,} on not bit for bit as before")
    return "; ".join(sentences)


def _about_schedules(config: Config, old: Config, step: int) -> str:
    """What a new length does to what follows it."""
    length = f"{step:,} of {old.total_timesteps:,} steps are done; from here the run has {config.total_timesteps:,}"
    following = [f"the {config.anneal_lr} step size"] * (config.anneal_lr in ("linear", "cosine"))
    following += ["the clip range"] * (config.clip_anneal != "constant")
    following += ["the entropy bonus"] * (config.ent_anneal > 0)
    if not following:
        return f"{length}; no schedule depends on it"
    before, now = (f"{step / one.steps:.0%}" for one in (old, config))
    names = ", ".join(following)
    return f"{length}; annealed over the new length from here on: {names} ({before} of the way before, {now} now)"


def train_or_resume(
    config: Config,
    run_dir: Path,
    *,
    checkpoints: int | None,
    tensorboard: bool,
    track: bool,
    tick: Callable[[int], None],
    engines: EngineCache,
) -> Run:
    """Go on with the run in `run_dir` if it was begun, else begin it; what a kill left before it was a run goes."""
    how = partial(train, config)
    if RunDir.began(run_dir):
        how = resume
    else:
        shutil.rmtree(run_dir, ignore_errors=True)
    return how(run_dir, checkpoints=checkpoints, tensorboard=tensorboard, track=track, tick=tick, engines=engines)


class _Loop:
    """One pass from a state to the end of training, recording on the way."""

    def __init__(self, config: Config, engine: Engine, run: RunDir, options: Options, until: int | None = None):
        self.config, self.engine, self.run, self.options = config, engine, run, options
        self.last = config.iterations if until is None else min(until // config.batch, config.iterations)
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
        if iteration == 0 and not self.run.has_checkpoint(0):  # an adopted policy lies in one already
            self._checkpoint(state)
        self.begun, self.first, self.outside = time.perf_counter(), iteration, 0.0
        try:
            if iteration < self.last:
                self._open_sinks()
            with Progress(config.steps, f"{config.env_id} {config.algo} seed {config.seed}", self.options.quiet) as bar:
                if iteration < self.last:
                    engine.compile(state)
                bar.start(iteration * config.batch)
                settle = lambda: None
                while iteration < self.last:
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
            for sink in self.sinks:
                sink.close()
        return Run(self.run.path, self._timing())

    def _timing(self) -> dict[str, Any]:
        """How long this process took; a run that was complete already keeps the speed it recorded."""
        steps = (self.last - self.first) * self.config.batch
        seconds, training = time.perf_counter() - self.begun, self._clock()
        timing = {"steps": steps, "interval": [time.time() - training, time.time()]}
        if steps:
            compiling = self.engine.compile_seconds
            timing |= {"fps": steps / training, "seconds": seconds, "compile_seconds": compiling}
        return timing

    def _open_sinks(self) -> None:
        if not hosts.is_first():
            return
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
        self.options.tick(done * self.config.batch)

    # When things happen ----------------------------------------------------------------------------------

    def _checkpoint_iterations(self) -> set[int]:
        num_checkpoints = self.options.checkpoints
        if num_checkpoints is None:
            size = resource_estimates.checkpoint_bytes(self.config, count_parameters(self.engine))
            num_checkpoints = resource_estimates.default_checkpoint_count(size)
        return {*resource_estimates.checkpoint_iterations(self.config.iterations, num_checkpoints), self.last}

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
        if not self.passed_threshold:
            recorded = (row.get("rollout/ep_rew_mean", -math.inf) for row in self.run.metrics())
            self.passed_threshold = any(value >= self.config.eval_threshold for value in recorded)

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
        earlier = [c.iteration for c in self.run.checkpoints() if c.sha256 and c.iteration < iteration]
        snapshot.save_buffers(self.run, self.config, state, max(earlier, default=0))
        tensors = snapshot.pack(self.engine.algorithm, state)
        self.run.write_checkpoint(iteration * self.config.batch, iteration, tensors)

    def _evaluate(self, state: State, iteration: int) -> float:
        """Evaluate if the threshold has been passed; returns the seconds it took."""
        if not self.passed_threshold:
            return 0.0
        start_time = time.perf_counter()
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
        return time.perf_counter() - start_time

    def _note(self, rate: float) -> str:
        mean = f"return {self._window_means()[0]:.4g}" if self.window else "no episode yet"
        return f"{rate:,.0f} steps/s, {mean},"
