"""What an environment is here: two protocols, and the plain types they share.

Nothing in this module imports JAX, so that commands which only look at names stay light.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Num, Shaped

from trimtab.core.errors import EnvError
from trimtab.core.wording import nearest

if TYPE_CHECKING:
    from jaxtyping import Array, PRNGKeyArray

LARGEST = float(np.finfo(np.float32).max)  # of what is observed and learned from


class Discrete(NamedTuple):
    """Actions 0, 1, ..., n - 1."""

    n: int


class Continuous(NamedTuple):
    """A box of actions, one entry per action dimension."""

    low: tuple[float, ...]
    high: tuple[float, ...]


class MultiDiscrete(NamedTuple):
    """Several choices at once: entry k is one of 0, 1, ..., sizes[k] - 1."""

    sizes: tuple[int, ...]


class MultiBinary(NamedTuple):
    """Several switches at once, each 0 or 1."""

    switches: int


ActionSpace = Discrete | Continuous | MultiDiscrete | MultiBinary


def kind_of(action: ActionSpace) -> str:
    """The kind of an action space in a word."""
    kinds = {Discrete: "discrete", MultiDiscrete: "multi-discrete", MultiBinary: "multi-binary"}
    return kinds.get(type(action), "continuous")


def numbers_in(action: ActionSpace) -> int:
    """Numbers an action consists of."""
    if isinstance(action, Discrete):
        return 1
    if isinstance(action, MultiBinary):
        return action.switches
    return len(action.sizes if isinstance(action, MultiDiscrete) else action.low)


def outputs_of(action: ActionSpace) -> int:
    """Numbers a policy puts out for an action: a logit per choice or switch, a mean per dimension."""
    if isinstance(action, Discrete):
        return action.n
    return sum(action.sizes) if isinstance(action, MultiDiscrete) else numbers_in(action)


class Part(NamedTuple):
    """Where a named part of a Dict or Tuple observation lies in the flat vector: [start, stop)."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True)
class Spec:
    """What a network and a rollout need to know about an environment.

    `obs_shape` is the shape the policy sees: images are height x width x channels and stay uint8, everything
    else is float32. A Dict or Tuple is one flat vector of its `parts`: keys in sorted order at every level, entries in
    theirs, arrays row by row, indices (Discrete) one-hot. `time_limit` is the step at which an episode is truncated,
    None if it never is.
    """

    env_id: str
    backend: str
    obs_shape: tuple[int, ...]
    obs_dtype: Literal["float32", "uint8"]
    action: ActionSpace
    time_limit: int | None
    compiled: bool
    parts: tuple[Part, ...] = ()

    def slices(self, field: str, names: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
        """Where the named parts lie, in their order in the vector; a name stands for all parts inside it too."""
        inside = lambda part, name: part.name == name or part.name.startswith(f"{name}.")
        for name in names:
            if not any(inside(part, name) for part in self.parts):
                part_names = sorted({part.name for part in self.parts})
                near = nearest(name, part_names) or part_names
                offered = f"nearest: {', '.join(near)}" if part_names else "its observation has no parts; leave it out"
                raise EnvError(f"{field}: {self.env_id} has no observation {name!r}; {offered}")
        return tuple((part.start, part.stop) for part in self.parts if any(inside(part, name) for name in names))


class Step(NamedTuple):
    """One transition of one compiled environment.

    `obs` is what the policy sees next, after any reset; `next_obs` is the observation the action really led
    to, before any reset. At most one of `terminated` and `truncated` is true.
    """

    obs: Shaped[Array, " ..."]
    next_obs: Shaped[Array, " ..."]
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


# An environment's state and first observation at the start of an episode.
Fresh = tuple[Any, "Shaped[Array, ' ...']"]


class HostStep(NamedTuple):
    """One transition of N host environments; the fields of `Step`, and `valid`. NumPy's arrays, in a `Stream` JAX's.

    A sample with `valid` false is not experience: the environment was resetting, or had run out of time.
    """

    obs: Shaped[np.ndarray, "N ..."]
    next_obs: Shaped[np.ndarray, "N ..."]
    reward: Float[np.ndarray, " N"]
    terminated: Bool[np.ndarray, " N"]
    truncated: Bool[np.ndarray, " N"]
    valid: Bool[np.ndarray, " N"]


@runtime_checkable
class CompiledEnv(Protocol):
    """One environment as pure functions of a key, to be vmapped and scanned by the caller.

    It resets itself in the step that ends an episode: to `fresh`, an outcome of `reset`, if the caller has drawn one
    ahead (one large draw is cheaper than many small ones), else to one drawn from `reset_key(key)`. Either way the key
    alone decides where the action leads. It is hashable by value, so a compiled function may close over it or take it
    as a static argument. Discrete actions are int32 scalars, continuous ones float32 [d], already clipped to the box.
    """

    spec: Spec

    def reset(self, key: PRNGKeyArray) -> Fresh: ...

    def step(
        self, key: PRNGKeyArray, env_state: Any, action: Num[Array, " ..."], fresh: Fresh | None = None
    ) -> tuple[Any, Step]: ...

    def without_time_limit(self) -> CompiledEnv:
        """The same environment, with the same state type, that never truncates."""
        ...


class Stream(Protocol):
    """Host environments in parts, each stepped from inside a compiled program while the policy acts in the others.

    Every call takes a part's handle and returns the one the next call takes: that is what keeps them in order. After an
    episode's end come rows that are not valid until the next one has begun.
    """

    handles: tuple[Any, ...]

    def send(self, part: int, handle: Array, actions: Num[Array, "n ..."]) -> Array: ...

    def recv(self, part: int, handle: Array) -> tuple[Array, HostStep]: ...


@runtime_checkable
class HostEnv(Protocol):
    """N environments stepped outside JAX."""

    spec: Spec
    num_envs: int

    def reset(self, seed: int | None = None) -> Shaped[np.ndarray, "N ..."]:
        """Start every environment anew; the same seed gives the same episodes (None: the seed of `make`)."""
        ...

    def step(self, actions: Num[np.ndarray, "N ..."]) -> HostStep: ...

    def begin(self, actions: Num[np.ndarray, "N ..."]) -> Callable[[], HostStep]:
        """Begin a step; what is returned waits for it. In between the caller has time for something else."""
        ...

    def reset_some(self, mask: Bool[np.ndarray, " N"]) -> Shaped[np.ndarray, "N ..."]:
        """Reset the environments of `mask`; returns the current observations of all of them."""
        ...

    def stream(self) -> Stream | None:
        """The same environments for compiled programs, where that is possible; good until the next `reset`."""
        ...

    def close(self) -> None: ...


class AtOnce:
    """A `HostEnv` whose steps are done when they are requested."""

    def begin(self, actions: Num[np.ndarray, "N ..."]) -> Callable[[], HostStep]:
        out = self.step(actions)  # type: ignore[attr-defined]
        return lambda: out


def refuse_unknown_options(env_id: str, options: Iterable[str], valid: Iterable[str]) -> None:
    """Raise for the first option that is not among `valid`, naming the nearest ones."""
    valid = sorted(valid)
    for name in options:
        if name not in valid:
            offered = ", ".join(nearest(name, valid) or valid) or "it takes none"
            raise EnvError(f"env_kwargs: {env_id} has no option {name!r}; nearest: {offered}")


def reset_key(key: PRNGKeyArray) -> PRNGKeyArray:
    """The key of the reset in a step, when none was drawn ahead; far from the ones a step splits off its own."""
    import jax

    return jax.random.fold_in(key, 2**31 - 1)


def refuse_bad_time_limit(env_id: str, time_limit: int | None) -> None:
    """Raise unless the time limit is absent or at least one step."""
    if time_limit is not None and time_limit < 1:
        raise EnvError(f"time_limit: {env_id} cannot be cut after {time_limit} steps; the least is 1")


def derived_seed(*parts: int) -> int:
    """A seed for one purpose of a run, unrelated to those of other parts: seed + 1 would be the next run's."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint32)[0] & 0x7FFFFFFF)


def spread_seeds(seed: int, num_envs: int) -> list[int]:
    """One seed per environment, unrelated between neighbouring seeds.

    seed, seed + 1, ... would share all but one environment between run 0 and run 1.
    """
    words = np.random.SeedSequence(seed).generate_state(num_envs, np.uint32)
    return [int(word & 0x7FFFFFFF) for word in words]
