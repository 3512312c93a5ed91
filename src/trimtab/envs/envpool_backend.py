"""Environments in C++: EnvPool, with its next-step autoreset made visible.

After a row that ended an episode EnvPool ignores the next action, resets, and returns a row whose
`elapsed_step` is 0: that row is marked not valid. On the row that ended the episode the observation is the
true final one.

EnvPool calls whatever ends at its limit a truncation, also a fall at the very last step. Where its limit is a
mere counter it is therefore moved one step out of reach and kept here. Some families have a limit of their own
that cannot be moved (moving EnvPool's changes nothing, or only what endings are called): a longer one is refused.
A shorter one than EnvPool's is kept here in all of them.

EnvPool's own Python around a step takes a tenth of a millisecond: names are looked up once here, and arrays go to its
functions as they are (`_Direct`).

Calls from Python cost up to as much as the steps they ask for, so most environments can be stepped inside a compiled
program (`stream`). Those of classic control, whose steps cost next to nothing, are then kept in two halves, unless
threads are requested: while one steps, the policy acts in the other.

ViZDoom's engine leaves its settings in the directory it is started in: it is started in one of its own.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Num, Shaped

from trimtab.envs.backends import EnvRequest
from trimtab.envs.base import EnvError, HostStep, Spec, refuse_bad_time_limit, refuse_unknown_options, spread_seeds
from trimtab.envs.known_ids import canonical
from trimtab.envs.layout import FlatLayout, Layout, actions_of, layout_of_space, without_precision_warnings

if TYPE_CHECKING:
    from jaxtyping import Array

# Families whose limit does nothing but end the episode.
_CLASSIC = "envpool.classic_control"
_COUNTED_FAMILIES = (_CLASSIC, "envpool.mujoco.gym", "envpool.atari", "envpool.box2d")
_FIXED_FAMILIES = ("envpool.procgen", "envpool.highway", "envpool.jumanji")  # they end by a limit of their own
_ENDLESS = ("LaneKeeping-v0", "lane-keeping-v0")  # EnvPool 1.2.5 does not end them at all
# Families (by how their names begin) whose steps in a compiled program were seen to equal those from Python.
_STREAMED_FAMILIES = (*_COUNTED_FAMILIES, "envpool.mujoco", "envpool.procgen", "envpool.highway")
_VIZDOOM = "envpool.vizdoom"
# What we set ourselves, or what would change the meaning of a step.
_RESERVED = {"num_envs", "batch_size", "seed", "env_seed", "max_num_players", "gym_reset_return_info"}
_NO_LIMIT = 2**31 - 2
# What EnvPool 1.2.5 lists and cannot make: without other players ViZDoom ends the process.
_CANNOT = dict.fromkeys(("Cig-v1", "MultiDuel-v1"), "waits for other players; one is supported") | dict.fromkeys(
    ("Sudoku-v0", "Sudoku-very-easy-v0", "Jumanji/Sudoku-v0", "Jumanji/Sudoku-very-easy-v0"),
    "needs puzzles that are not in EnvPool's package",
)
_THREADING = {"num_threads", "thread_affinity_offset"}
_FILES = {"cfg_path", "wad_path"}  # of ViZDoom, which a user may bring


class PoolEnv:
    """N EnvPool environments as a `HostEnv`."""

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        env_kwargs: dict[str, Any] | None = None,
        time_limit: int | None = None,
        seed: int = 0,
        streamed: bool = False,
    ) -> None:
        self.num_envs = num_envs
        self._task = canonical(env_id)
        self._seed = seed
        self._pools: list[Any] = []
        self._direct: list[_Direct] = []
        self._stream: _PoolStream | None = None
        options = dict(env_kwargs or {})
        if self._task in _CANNOT:
            raise EnvError(f"env_id: {env_id} {_CANNOT[self._task]}")
        defaults = _spec_of(self._task, {})
        refuse_unknown_options(env_id, options, set(defaults.config._fields) - _RESERVED)
        option_limit = options.pop("max_episode_steps", None)
        limit, pool_limit = _limits(self._task, defaults, option_limit if time_limit is None else time_limit)
        classic, asks_threads = _family(self._task) == _CLASSIC, bool(options.keys() & _THREADING)
        if classic:
            options.setdefault("num_threads", 1)  # their steps cost less than waking a second thread
        self._keeps_limit = limit is not None and limit < pool_limit
        self._config = {**options, "max_episode_steps": pool_limit}
        if _family(self._task) == _VIZDOOM:
            self._config |= {name: os.path.abspath(options[name]) for name in _FILES & options.keys()}
        described = _spec_of(self._task, self._config)
        with without_precision_warnings():
            observed, acted = described.gymnasium_observation_space, described.gymnasium_action_space
        if described.config.max_num_players > 1:
            raise EnvError(f"env_id: {env_id} has several players; one is supported")
        self._layout = layout_of_space(env_id, observed)
        self._actions = actions_of(env_id, acted)
        self._streamed = streamed and self._can_stream()
        self._halved = self._streamed and classic and num_envs % 2 == 0 and not asks_threads
        shape, dtype, parts = self._layout.shape, self._layout.dtype, self._layout.parts
        self.spec = Spec(env_id, "envpool", shape, dtype, self._actions.space, limit, compiled=False, parts=parts)

    def reset(self, seed: int | None = None) -> Shaped[np.ndarray, "N ..."]:
        """Build the pools anew: EnvPool takes a seed only at construction."""
        self.close()
        seeds = spread_seeds(self._seed if seed is None else seed, self.num_envs)
        parts = np.split(np.array(seeds), 2 if self._halved else 1)
        make = lambda seeds: _import_envpool().make(
            self._task, env_type="gymnasium", num_envs=len(seeds), seed=seeds, **self._config
        )
        with without_precision_warnings(), _started_in(_family(self._task)), _errors_in_one_line(self.spec.env_id):
            self._pools = [make(part.tolist()) for part in parts]
            self._obs = np.concatenate([self._layout.convert(pool.reset()[0]) for pool in self._pools])
        self._direct = [_Direct(pool, self._layout) for pool in self._pools]
        self._ended = np.zeros(self.num_envs, bool)
        return self._obs

    def step(self, actions: Num[np.ndarray, "N ..."]) -> HostStep:
        return self.begin(actions)()

    def begin(self, actions: Num[np.ndarray, "N ..."]) -> Callable[[], HostStep]:
        """The environments step in EnvPool's threads until they are waited for."""
        actions = self._actions.convert(actions)
        for direct, part in zip(self._direct, self._split(actions)):
            direct.send(part)
        return self._finished

    def _finished(self) -> HostStep:
        parts = [self.read(direct.recv()) for direct in self._direct]
        step = parts[0] if len(parts) == 1 else HostStep(*map(np.concatenate, zip(*parts)))
        valid = step.valid & ~self._ended  # a lost life (Atari, episodic_life) goes on counting the steps
        step = step._replace(valid=valid, terminated=step.terminated & valid, truncated=step.truncated & valid)
        self._obs, self._ended = step.next_obs, step.terminated | step.truncated
        if self._keeps_limit:
            self.reset_some(step.truncated)
        return step._replace(obs=self._obs)

    def read(self, received: tuple) -> HostStep:
        """What EnvPool returned, NumPy's arrays or JAX's, as a step that has not been reset."""
        obs, reward, terminated, truncated, info = received
        obs = self._layout.convert(obs)
        elapsed = info["elapsed_step"]
        truncated, valid = truncated & ~terminated, elapsed > 0
        if self._keeps_limit:
            limit = self.spec.time_limit
            truncated, valid = truncated | ((elapsed == limit) & ~terminated), valid & (elapsed <= limit)
        return HostStep(obs, obs, reward.astype(np.float32), terminated & valid, truncated & valid, valid)

    def reset_some(self, mask: Bool[np.ndarray, " N"]) -> Shaped[np.ndarray, "N ..."]:
        if not mask.any():
            return self._obs
        self._obs, self._ended = self._obs.copy(), self._ended & ~mask
        for pool, part, obs in zip(self._pools, self._split(mask), self._split(self._obs)):
            if part.any():
                fresh, info = pool.reset(np.flatnonzero(part).astype(np.int32))
                obs[info["env_id"]] = self._layout.convert(fresh)
        return self._obs

    def _split(self, rows: Shaped[np.ndarray, "N ..."]) -> list[Shaped[np.ndarray, "n ..."]]:
        return np.split(rows, len(self._pools))

    def _can_stream(self) -> bool:
        """Whether a compiled program here can do all that stepping takes: it cannot reset what EnvPool does not."""
        import jax

        here = sys.platform == "linux" and jax.default_backend() == "cpu"
        resets = not self._keeps_limit or _family(self._task) in _COUNTED_FAMILIES
        lives = self._config.get("episodic_life", False)
        numbers = isinstance(self._layout, Layout) or not any(leaf.choices for leaf in self._layout.leaves)
        return here and _family(self._task).startswith(_STREAMED_FAMILIES) and resets and not lives and numbers

    def stream(self) -> _PoolStream | None:
        if self._streamed and self._stream is None:
            self._stream = _PoolStream(self)
        return self._stream

    def close(self) -> None:
        if self._stream is not None:
            self._stream.wait()
        for pool in self._pools:
            pool.close()
        self._pools, self._direct, self._stream = [], [], None


class _Direct:
    """A pool's compiled functions, with as little around them as its observations allow."""

    def __init__(self, pool: Any, layout: Layout | FlatLayout) -> None:
        self._pool = pool
        self._ids = np.arange(len(pool), dtype=np.int32)
        self.dtype = pool.spec.action_array_spec[pool._action_keys[-1]].dtype
        names = list(pool._state_keys)
        plain = isinstance(layout, Layout) and "obs" in names and len(pool._action_keys) == 3
        keys = ("obs", "reward", "done", "trunc", "elapsed_step")
        self._places = tuple(map(names.index, keys)) if plain else None

    def send(self, actions: Num[np.ndarray, "n ..."]) -> None:
        if self._places is None:
            self._pool.send(actions)
        else:
            self._pool._send([self._ids, self._ids, np.ascontiguousarray(actions, self.dtype)])

    def recv(self) -> tuple:
        """As EnvPool's `recv`: observations, rewards, terminated, truncated, and the steps of each episode."""
        if self._places is None:
            return self._pool.recv()
        values = self._pool._recv()
        obs, reward, done, truncated, elapsed = (values[place] for place in self._places)
        return obs, reward, done & ~truncated, truncated, {"elapsed_step": elapsed}


class _PoolStream:
    """A `Stream` of EnvPool's own functions for compiled programs, which carry the address of their pool.

    An episode cut by the limit kept here cannot be reset in such a program. It runs one step too far, where EnvPool
    ends it and resets it in the next: two rows that are not valid.
    """

    def __init__(self, env: PoolEnv) -> None:
        self._env, self._dtype = env, env._direct[0].dtype
        with _doubles():
            functions = [pool.xla() for pool in env._pools]
        self.handles = tuple(handle for handle, *_ in functions)
        self._recv = [recv for _, recv, _, _ in functions]
        self._send = [send for _, _, send, _ in functions]

    def wait(self) -> None:
        """Until no program is stepping these pools, as one may be after an interrupt: they must not go before it."""
        import jax

        jax.effects_barrier()

    def send(self, part: int, handle: Array, actions: Num[Array, "n ..."]) -> Array:
        with _doubles():
            return self._send[part](handle, self._env._actions.convert(actions).astype(self._dtype))

    def recv(self, part: int, handle: Array) -> tuple[Array, HostStep]:
        with _doubles():
            handle, received = self._recv[part](handle)
            return handle, self._env.read(received)


def _doubles() -> contextlib.AbstractContextManager[None]:
    """EnvPool observes and acts in float64 where its environments do; without this a program would take float32."""
    import jax

    return jax.enable_x64(True)


def make(request: EnvRequest) -> PoolEnv:
    """N environments of an id."""
    env_id, num_envs, options, time_limit, seed, streamed = request
    return PoolEnv(env_id, num_envs, dict(options), time_limit, seed, streamed)


def pool_ids() -> list[str]:
    """Every id EnvPool knows."""
    return list(_import_envpool().list_all_envs())


def _import_envpool() -> Any:
    try:
        import envpool
    except ImportError as error:
        raise EnvError(f"backend: envpool is not usable ({error}); pip install 'trimtab[envpool]'") from error
    return envpool


def _spec_of(task: str, config: dict[str, Any]) -> Any:
    """EnvPool's description of a task; loading its family is where a system library may be missing."""
    envpool = _import_envpool()
    try:
        with without_precision_warnings():
            return envpool.make_spec(task, **config)
    except AssertionError as error:
        raise EnvError(f"env_id: EnvPool does not have {task}") from error
    except (ImportError, OSError) as error:
        hint = "; install the Debian package libqt5gui5" if "libQt5" in str(error) else ""
        raise EnvError(f"env_id: EnvPool cannot load {task}: {error}{hint}") from error


@contextlib.contextmanager
def _errors_in_one_line(env_id: str) -> Iterator[None]:
    """Report what EnvPool cannot make as a one-line error."""
    try:
        yield
    except RuntimeError as error:
        raise EnvError(f"env_id: {env_id} cannot be made by EnvPool: {error}") from error


def _started_in(family: str) -> contextlib.AbstractContextManager[None]:
    """Where a family's engines start: here, or in a directory for the files that they write when they end."""
    if family != _VIZDOOM:
        return contextlib.nullcontext()
    place = os.path.join(tempfile.gettempdir(), f"vizdoom-{os.getuid()}")
    os.makedirs(place, exist_ok=True)
    return contextlib.chdir(place)


def _family(task: str) -> str:
    """The EnvPool module that implements a task."""
    return _import_envpool().registration.registry.specs[task][0]


def _limits(task: str, defaults: Any, time_limit: int | None) -> tuple[int | None, int]:
    """(the limit kept here, the limit given to EnvPool)."""
    refuse_bad_time_limit(task, time_limit)
    own = int(defaults.config.max_episode_steps)
    limit = own if time_limit is None else time_limit
    family = _family(task)
    if family in _FIXED_FAMILIES and limit > own:
        raise EnvError(f"time_limit: {task} ends after {own} steps by itself; {limit} is beyond it")
    if limit >= _NO_LIMIT:
        return None, max(own, limit)
    return limit, limit + 1 if family in _COUNTED_FAMILIES or task in _ENDLESS else max(own, limit)
