"""Linear-quadratic systems as compiled environments: for a linear policy, what a probe estimates has a closed form.

`trimtab.gradient.exact_lqr` computes it. Episodes end after `horizon` steps, as a termination: nothing follows.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, PRNGKeyArray

from trimtab.envs.base import Continuous, EnvError, Spec, refuse_unknown_options
from trimtab.envs.jax_game import JaxGame
from trimtab.envs.lqr_system import SYSTEMS, LinearQuadratic


class _LQRState(NamedTuple):
    """The state of the system, and the steps taken."""

    x: Float[Array, " n"]
    t: Int[Array, ""]


@dataclass(frozen=True)
class _LQREnv(JaxGame):
    """One system; `options` take the place of its own fields, and `time_limit` truncates before the horizon."""

    @cached_property
    def system(self) -> LinearQuadratic:
        valid = {item.name for item in dataclasses.fields(LinearQuadratic)}
        refuse_unknown_options(self.env_id, dict(self.options), valid)
        if self.env_id not in SYSTEMS:
            raise EnvError(f"env_id: there is no linear-quadratic system {self.env_id}; nearest: {', '.join(SYSTEMS)}")
        return SYSTEMS[self.env_id].with_options(dict(self.options))

    @cached_property
    def spec(self) -> Spec:
        unbounded = (np.inf,) * self.system.num_controls
        action = Continuous(tuple(-bound for bound in unbounded), unbounded)
        horizon = self.system.horizon
        limit = min(self.time_limit or horizon, horizon) if self.truncates else None
        return Spec(self.env_id, "lqr", (self.system.num_states,), "float32", action, limit, True)

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


make = _LQREnv.of
