"""N × T samples from a policy, with the true next observation of every step kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from trimtab.envs.base import HostStep
from trimtab.math.prng import unrolled
from trimtab.nets.heads import Distribution, clip_action


class Rollout(NamedTuple):
    """All [T, N, ...]. `dist` are the behavior policy's distribution parameters; episode sums are read where done.

    `value` is what the critic said while acting, where it shares the policy's trunk; else it is asked afterwards.
    """

    obs: Array
    next_obs: Array
    action: Array
    dist: Float[Array, "T N outputs"]
    logp: Float[Array, "T N"]
    reward: Float[Array, "T N"]
    terminated: Bool[Array, "T N"]
    truncated: Bool[Array, "T N"]
    valid: Bool[Array, "T N"]
    episode_return: Float[Array, "T N"]
    episode_length: Float[Array, "T N"]
    value: Float[Array, "T N"] | None = None


class Acted(NamedTuple):
    """One step in N environments: actions, the distributions they were drawn from, values where they cost nothing."""

    action: Array
    dist: Float[Array, "N outputs"]
    value: Float[Array, " N"] | None = None


class Carry(NamedTuple):
    """What environments keep between iterations."""

    env_state: Any
    obs: Array
    episode_return: Float[Array, " N"]
    episode_length: Float[Array, " N"]


_LATER: Any = None  # computed for all steps at once, after the loop over steps
Policy = Callable[[Array], Float[Array, "N outputs"]]
Act = Callable[[Array, Array], Acted]  # of observations and noise


def start(env, key: PRNGKeyArray, num_envs: int) -> Carry:
    """Fresh episodes in every environment of a compiled backend."""
    env_state, obs = jax.vmap(env.reset)(jax.random.split(key, num_envs))
    return Carry(env_state, obs, jnp.zeros(num_envs), jnp.zeros(num_envs))


def begun(obs: Shaped[np.ndarray, "N ..."]) -> Carry:
    """Host environments whose episodes begin with these observations."""
    sums: tuple[Any, Any] = np.zeros(len(obs), np.float32), np.zeros(len(obs), np.float32)
    return Carry((), obs, *sums)  # type: ignore[arg-type]  # NumPy's arrays, until a program takes them


def stagger(env, dist: Distribution, carry: Carry, key: PRNGKeyArray, longest: int) -> Carry:
    """Step each environment a random number (below `longest`) of steps with random actions."""
    num_envs = carry.obs.shape[0]
    phase_key, key = jax.random.split(key)
    phase = jax.random.randint(phase_key, (num_envs,), 0, longest)

    def step(t, carry: Carry) -> Carry:
        action_key, step_key = jax.random.split(jax.random.fold_in(key, t))
        action = dist.uniform(action_key, num_envs)
        env_state, out = jax.vmap(env.step)(jax.random.split(step_key, num_envs), carry.env_state, action)
        moved = _carried(env_state, out, carry.episode_return + out.reward, carry.episode_length + 1.0)
        return jax.tree.map(lambda new, old: where_rows(t < phase, new, old), moved, carry)

    return jax.lax.fori_loop(0, longest, step, carry)


def _carried(env_state: Any, out: Any, total: Float[Array, " N"], length: Float[Array, " N"]) -> Carry:
    """What environments keep after a step: the sums of an episode that ended start over."""
    done = out.terminated | out.truncated
    return Carry(env_state, out.obs, jnp.where(done, 0.0, total), jnp.where(done, 0.0, length))


def where_rows(mask: Bool[Array, " N"], new: Array, old: Array) -> Array:
    return jnp.where(mask.reshape(mask.shape + (1,) * (new.ndim - 1)), new, old)


def collect(
    env, dist: Distribution, policy: Policy, carry: Carry, key: PRNGKeyArray, num_steps: int
) -> tuple[Carry, Rollout]:
    """T steps in N compiled environments. All randomness is drawn ahead: one large draw is far cheaper than T small."""
    num_envs = carry.obs.shape[0]
    noise_key, env_key, reset_key = jax.random.split(unrolled(key), 3)
    noise = dist.noise(noise_key, (num_steps, num_envs))
    keys = jax.random.split(env_key, (num_steps, num_envs))
    fresh = jax.vmap(jax.vmap(env.reset))(jax.random.split(reset_key, (num_steps, num_envs)))

    def step(carry: Carry, inputs):
        noise, key, fresh = inputs
        params = policy(carry.obs)
        action = dist.sample(params, noise)
        env_state, out = jax.vmap(env.step)(key, carry.env_state, clip_action(dist, action), fresh)
        total, length = carry.episode_return + out.reward, carry.episode_length + 1.0
        row = _row(carry.obs, Acted(action, params), out, _LATER, total, length)
        return _carried(env_state, out, total, length), row

    carry, rows = jax.lax.scan(step, carry, (noise, keys, fresh), unroll=2)
    return carry, rows._replace(logp=dist.logp(rows.dist, rows.action), valid=jnp.ones_like(rows.terminated))


def _row(obs: Any, acted: Acted, out: Any, valid: Any, total: Any, length: Any) -> Rollout:
    """One step of N environments, as NumPy's arrays or JAX's; its log-probabilities are computed later."""
    return Rollout(
        obs=obs,
        next_obs=out.next_obs,
        action=acted.action,
        dist=acted.dist,
        logp=_LATER,
        reward=out.reward,
        terminated=out.terminated,
        truncated=out.truncated,
        valid=valid,
        episode_return=total,
        episode_length=length,
        value=acted.value,
    )


def collect_stream(
    stream, dist: Distribution, act: Act, carry: Carry, noise: Float[Array, "T N ..."]
) -> tuple[Carry, Rollout]:
    """The same for host environments that a compiled program can step: the policy acts in one part of them while the
    other parts are under way."""
    parts = range(len(stream.handles))
    split = lambda x: jnp.split(x, len(parts))
    logp = lambda rows: dist.logp(rows.dist, rows.action)

    def send(part: int, carry: Carry, noise: Array):
        acted = act(carry.obs, noise)
        handle = stream.send(part, carry.env_state, clip_action(dist, acted.action))
        return carry._replace(env_state=handle), acted

    def recv(part: int, carry: Carry, acted: Acted) -> tuple[Carry, Rollout]:
        handle, out = stream.recv(part, carry.env_state)
        total, length = carry.episode_return + jnp.where(out.valid, out.reward, 0.0), carry.episode_length + out.valid
        return _carried(handle, out, total, length), _row(carry.obs, acted, out, out.valid, total, length)

    if len(parts) == 1:  # nothing to overlap, and no rows to put together: images would fill memory twice
        step = lambda carry, noise: recv(0, *send(0, carry, noise))
        carry, rows = jax.lax.scan(step, carry._replace(env_state=stream.handles[0]), noise)
        return carry._replace(env_state=()), rows._replace(logp=logp(rows))

    def step_parts(sent: list, noise: Array):
        rows = []
        for part, its_noise in zip(parts, split(noise)):
            its_carry, row = recv(part, *sent[part])
            sent[part] = send(part, its_carry, its_noise)
            rows.append(row)
        return sent, rows

    carries = map(Carry, stream.handles, *map(split, carry[1:]))
    sent = [send(part, *inputs) for part, inputs in zip(parts, zip(carries, split(noise[0])))]
    sent, but_last = jax.lax.scan(step_parts, sent, noise[1:])
    carries, last = zip(*(recv(part, *sent[part]) for part in parts))
    by_part = [jax.tree.map(lambda xs, x: jnp.concatenate([xs, x[None]]), *pair) for pair in zip(but_last, last)]
    rows = jax.tree.map(lambda *xs: jnp.concatenate(xs, axis=1), *by_part)
    carry = jax.tree.map(lambda *xs: jnp.concatenate(xs), *(carry._replace(env_state=()) for carry in carries))
    return carry, rows._replace(logp=logp(rows))


def collect_host(
    env,
    dist: Distribution,
    act: Act,
    noise: Float[np.ndarray, "T N ..."],
    carry: Carry,
) -> tuple[Carry, Rollout]:
    """The same for a host vector environment: a Python loop around one compiled call per step.

    Samples that are not experience (`valid` false) count nothing. A step is written while the environments take the
    next.
    """
    obs: Any = np.asarray(carry.obs)
    book = _Book(len(noise), carry)
    row: tuple[int, Any, Acted, HostStep] | None = None
    for t, step_noise in enumerate(noise):
        acted = act(obs, step_noise)
        action: Any = np.asarray(acted.action)
        finished = env.begin(clip_action(dist, action))
        if row is not None:
            book.write(*row)
        out = finished()
        row = t, obs, acted._replace(action=action), out
        obs = out.obs
    if row is not None:
        book.write(*row)
    rows = book.rollout
    logp: Any = np.asarray(_logp(dist, rows.dist, rows.action))
    return Carry((), obs, book.total, book.length), rows._replace(logp=logp)


@partial(jax.jit, static_argnums=0)
def _logp(dist: Distribution, params: Float[Array, "T N outputs"], action: Array) -> Float[Array, "T N"]:
    return dist.logp(params, action)


class _Book:
    """The rollout of host environments as it grows, and the sums of their episodes under way: NumPy's arrays."""

    rollout: Any = None

    def __init__(self, num_steps: int, carry: Carry):
        self.num_steps = num_steps
        self.total: Any = np.array(carry.episode_return)
        self.length: Any = np.array(carry.episode_length)

    def write(self, t: int, obs: np.ndarray, acted: Acted, out: HostStep) -> None:
        """Row t."""
        self.total += np.where(out.valid, out.reward, 0.0)
        self.length += out.valid
        row = _row(obs, acted, out, out.valid, self.total, self.length)
        if self.rollout is None:
            self.rollout = jax.tree.map(lambda x: np.empty((self.num_steps, *x.shape), x.dtype), row)
        for column, x in zip(self.rollout, row):
            if x is not None:
                column[t] = x
        done = out.terminated | out.truncated
        self.total[done], self.length[done] = 0.0, 0.0
