"""Linear-quadratic systems as compiled environments: for a linear policy, what a probe estimates has a closed form.

`trimtab.gradient.exact_lqr` computes it. Episodes end after `horizon` steps, as a termination: nothing follows.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, PRNGKeyArray

from trimtab.envs.backends import EnvRequest
from trimtab.envs.base import Continuous, EnvError, Spec, refuse_bad_time_limit, refuse_unknown_options
from trimtab.envs.lqr_system import SYSTEMS, LinearQuadratic
from trimtab.envs.time_limit import Timed


class _LQRState(NamedTuple):
    """The state of the system, and the steps taken."""

    x: Float[Array, " n"]
    t: Int[Array, ""]


@dataclass(frozen=True)
class _LQREnv(Timed):
    """One system as a `CompiledEnv`; `time_limit` truncates before the horizon."""

    env_id: str
    system: LinearQuadratic
    time_limit: int | None = None
    truncates: bool = True
    spec: Spec = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        refuse_bad_time_limit(self.env_id, self.time_limit)
        unbounded = (np.inf,) * self.system.num_controls
        action = Continuous(tuple(-bound for bound in unbounded), unbounded)
        horizon = self.system.horizon
        limit = min(self.time_limit or horizon, horizon) if self.truncates else None
        spec = Spec(self.env_id, "lqr", (self.system.num_states,), "float32", action, limit, True)
        object.__setattr__(self, "spec", spec)

    def first(self, key: PRNGKeyArray) -> tuple[_LQRState, Float[Array, " n"]]:
        x = self.system.start * jax.random.normal(key, (self.system.num_states,))
        return _LQRState(x, jnp.zeros((), jnp.int32)), x

    def following(
        self, key: PRNGKeyArray, game: _LQRState, action: Num[Array, " m"]
    ) -> tuple[Any, Array, Array, Array]:
        A, B, Q, R = (jnp.asarray(self.system.matrix(name), jnp.float32) for name in "ABQR")
        x, control = game.x, action.astype(jnp.float32)
        reward = -(x @ Q @ x + control @ R @ control)
        new = A @ x + B @ control + self.system.noise * jax.random.normal(key, x.shape)
        return _LQRState(new, game.t + 1), new, reward, game.t + 1 >= self.system.horizon

    def without_time_limit(self) -> _LQREnv:
        """The same dynamics and the same state, never truncated."""
        return dataclasses.replace(self, truncates=False)


def make(request: EnvRequest) -> _LQREnv:
    """The system of an id, with `env_kwargs` in place of its own fields."""
    valid = {item.name for item in dataclasses.fields(LinearQuadratic)}
    refuse_unknown_options(request.env_id, request.options, valid)
    if request.env_id not in SYSTEMS:
        raise EnvError(f"env_id: there is no linear-quadratic system {request.env_id}; nearest: {', '.join(SYSTEMS)}")
    return _LQREnv(request.env_id, SYSTEMS[request.env_id].with_options(request.options), request.time_limit)
