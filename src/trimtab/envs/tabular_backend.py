"""Finite MDPs: exact dynamics as arrays, and the compiled environment that samples them.

Termination belongs to an outcome, not to a state, and an outcome is not its next state: slippery CliffWalking
reaches the start both by falling (-100) and by walking (-1). So outcomes are kept as Gymnasium lists them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from trimtab.envs.backends import EnvRequest
from trimtab.envs.base import (
    Discrete,
    EnvError,
    Fresh,
    Spec,
    Step,
    refuse_bad_time_limit,
    refuse_unknown_options,
    reset_key,
)
from trimtab.envs.jax_game import end_step
from trimtab.envs.known_ids import TABULAR_IDS


@dataclass(frozen=True, eq=False)
class FiniteMDP:
    """S states, A actions, up to K outcomes of each pair; unused outcomes have probability 0.

    `rho` is the distribution of the first state. `time_limit` truncates; it is no part of the dynamics.
    """

    prob: Float[np.ndarray, "S A K"]
    next_state: Int[np.ndarray, "S A K"]
    reward: Float[np.ndarray, "S A K"]
    terminated: Bool[np.ndarray, "S A K"]
    rho: Float[np.ndarray, " S"]
    time_limit: int | None
    name: str

    def __post_init__(self) -> None:
        """Refuse what is not an MDP, and freeze the arrays: the hash is of their contents."""
        refuse_bad_time_limit(self.name, self.time_limit)
        if (self.prob < 0).any() or not np.allclose(self.prob.sum(-1), 1.0):
            raise EnvError(f"prob: the outcomes of every state and action of {self.name} must sum to 1")
        if (self.rho < 0).any() or not np.isclose(self.rho.sum(), 1.0):
            raise EnvError(f"rho: the first-state probabilities of {self.name} must sum to 1")
        if (self.next_state < 0).any() or (self.next_state >= self.num_states).any():
            raise EnvError(f"next_state: {self.name} has states 0 to {self.num_states - 1}")
        for array in self._arrays:
            array.setflags(write=False)

    @classmethod
    def from_arrays(
        cls,
        prob: Any,
        next_state: Any,
        reward: Any,
        terminated: Any,
        rho: Any,
        time_limit: int | None = None,
        name: str = "mdp",
    ) -> FiniteMDP:
        """Build from anything array-like; `next_state`, `reward`, `terminated` broadcast against `prob`."""
        prob = np.array(prob, np.float64)

        def filled(values: Any, dtype: Any) -> np.ndarray:
            return np.array(np.broadcast_to(np.asarray(values, dtype), prob.shape))

        return cls(
            prob=prob,
            next_state=filled(next_state, np.int32),
            reward=filled(reward, np.float64),
            terminated=filled(terminated, np.bool_),
            rho=np.array(rho, np.float64),
            time_limit=time_limit,
            name=name,
        )

    @classmethod
    def from_gymnasium(cls, env_id: str, **kwargs: Any) -> FiniteMDP:
        """Read the table `P` of a toy-text environment, and the time limit `gymnasium.make` adds."""
        env = _open_toy_text(env_id, kwargs)
        try:
            table, rho = env.unwrapped.P, env.unwrapped.initial_state_distrib
            prob, next_state, reward, terminated = _table_arrays(table)
            limit = env.spec.max_episode_steps
            return cls.from_arrays(prob, next_state, reward, terminated, rho, limit, env_id)
        finally:
            env.close()

    @property
    def num_states(self) -> int:
        return self.prob.shape[0]

    @property
    def num_actions(self) -> int:
        return self.prob.shape[1]

    @property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.prob, self.next_state, self.reward, self.terminated, self.rho

    @cached_property
    def _digest(self) -> bytes:
        digest = hashlib.sha256(repr((self.name, self.time_limit, self.prob.shape)).encode())
        for array in self._arrays:
            digest.update(array.tobytes())
        return digest.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FiniteMDP) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)


def _open_toy_text(env_id: str, kwargs: dict[str, Any]) -> Any:
    """`gymnasium.make`, after checking that the table will be the whole dynamics."""
    import gymnasium

    if env_id not in TABULAR_IDS:
        raise EnvError(f"env_id: {env_id} has no transition table; those that have: {', '.join(TABULAR_IDS)}")
    creator = gymnasium.envs.registration.load_env_creator(str(gymnasium.spec(env_id).entry_point))
    refuse_unknown_options(env_id, kwargs, set(inspect.signature(creator).parameters) - {"render_mode"})
    if kwargs.get("fickle_passenger"):
        raise EnvError("env_kwargs: Taxi's fickle_passenger acts outside the transition table; use backend gymnasium")
    if kwargs.get("map_name", "4x4") is None and kwargs.get("desc") is None:
        raise EnvError("env_kwargs: map_name None is another map each time one is made; nearest: 4x4, 8x8, or a desc")
    return gymnasium.make(env_id, **kwargs)


def _table_arrays(table: dict[int, dict[int, list[tuple]]]) -> tuple[np.ndarray, ...]:
    """P[s][a] = [(probability, next state, reward, terminated), ...] -> four [S, A, K] arrays."""
    num_states, num_actions = len(table), len(table[0])
    most = max(len(outcomes) for actions in table.values() for outcomes in actions.values())
    padded = np.zeros((num_states, num_actions, most, 4))
    for state, actions in table.items():
        for action, outcomes in actions.items():
            padded[state, action, : len(outcomes)] = outcomes
    prob, next_state, reward, terminated = np.moveaxis(padded, -1, 0)
    return prob, next_state.astype(np.int32), reward, terminated.astype(np.bool_)


class TabularState(NamedTuple):
    """Where one environment is: its state, and the steps since its reset."""

    state: Int[Array, ""]
    time: Int[Array, ""]


@dataclass(frozen=True)
class TabularEnv:
    """A `FiniteMDP` as a compiled environment; observations are one-hot states, float32 [S].

    `time_limit` overrides the limit of the MDP; None keeps it.
    """

    mdp: FiniteMDP
    time_limit: int | None = None

    def __post_init__(self) -> None:
        refuse_bad_time_limit(self.mdp.name, self.time_limit)

    @property
    def spec(self) -> Spec:
        return Spec(
            env_id=self.mdp.name,
            backend="tabular",
            obs_shape=(self.mdp.num_states,),
            obs_dtype="float32",
            action=Discrete(self.mdp.num_actions),
            time_limit=self.mdp.time_limit if self.time_limit is None else self.time_limit,
            compiled=True,
        )

    def state_obs(self) -> Float[Array, "S S"]:
        """The observation of every state, for computations that visit them all."""
        return jnp.eye(self.mdp.num_states, dtype=jnp.float32)

    def reset(self, key: PRNGKeyArray) -> tuple[TabularState, Float[Array, " S"]]:
        state = _draw(key, jnp.asarray(_cumulative(self.mdp.rho)))
        return TabularState(state, jnp.zeros((), jnp.int32)), self._observe(state)

    def step(
        self, key: PRNGKeyArray, env_state: TabularState, action: Int[Array, ""], fresh: Fresh | None = None
    ) -> tuple[TabularState, Step]:
        pair = (env_state.state, action)
        outcome = _draw(key, jnp.asarray(_cumulative(self.mdp.prob))[pair])
        next_state = jnp.asarray(self.mdp.next_state, jnp.int32)[pair][outcome]
        reward = jnp.asarray(self.mdp.reward, jnp.float32)[pair][outcome]
        terminated = jnp.asarray(self.mdp.terminated)[pair][outcome]
        state = TabularState(next_state, env_state.time + 1)
        fresh = self.reset(reset_key(key)) if fresh is None else fresh
        return end_step(self.spec.time_limit, state, self._observe(next_state), reward, terminated, fresh)

    def without_time_limit(self) -> TabularEnv:
        """The same dynamics and the same state, never truncated."""
        return TabularEnv(dataclasses.replace(self.mdp, time_limit=None))

    def _observe(self, state: Int[Array, ""]) -> Float[Array, " S"]:
        return jax.nn.one_hot(state, self.mdp.num_states, dtype=jnp.float32)


def _cumulative(prob: Float[np.ndarray, "*batch K"]) -> Float[np.ndarray, "*batch K"]:
    """Cumulative probabilities, exactly 1 from the last possible outcome on, so that rounding adds none."""
    cumulative = np.cumsum(prob, axis=-1)
    beyond: np.ndarray = np.cumsum((prob > 0)[..., ::-1], axis=-1)[..., ::-1] - (prob > 0) == 0
    return np.where(beyond, 1.0, cumulative).astype(np.float32)


def _draw(key: PRNGKeyArray, cumulative: Float[Array, " K"]) -> Int[Array, ""]:
    """Sample an index by inverting the cumulative distribution; impossible ones are never drawn."""
    uniform = jax.random.uniform(key, dtype=jnp.float32)
    return (cumulative <= uniform).sum(dtype=jnp.int32)


def make(request: EnvRequest) -> TabularEnv:
    """The environment of an id, from Gymnasium's transition table."""
    return TabularEnv(FiniteMDP.from_gymnasium(request.env_id, **request.options), request.time_limit)
