"""Rows to measure: T steps in N environments under a frozen policy, again and again, each draw from its own key.

One draw is one replicate, of fixed shape, so the number of replicates never compiles anything again.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from trimtab import normalize, returns
from trimtab.algos import rollout
from trimtab.algos.algorithm import Algorithm
from trimtab.algos.gradients import Samples
from trimtab.algos.rollout import Carry, Rollout
from trimtab.algos.state import State
from trimtab.anatomy import exact
from trimtab.envs.base import derived_seed
from trimtab.nets.heads import clip_action

UNLIMITED_BURN_IN = 1000  # steps of burn-in where episodes have no time limit
TAIL = 1e-3  # a reference rollout goes on until the discount has fallen to this
LONGEST_TAIL = 5000


class Rows(NamedTuple):
    """One replicate; leading axes [T, N]. `reference` are the advantages of the paired long rollout, if simulated."""

    samples: Samples
    reference: Float[Array, "T N"] | None
    valid: Bool[Array, "T N"]
    episode: Int[Array, "T N"]
    first_phase: Float[Array, " N"]
    rollout: Rollout


def tail_length(gamma: float) -> int | None:
    """Steps until γⁿ ≤ 1e-3; None where that is too long to simulate."""
    if gamma <= 0:
        return 1
    if gamma >= 1:
        return None
    steps = math.ceil(math.log(TAIL) / math.log(gamma))
    return steps if steps <= LONGEST_TAIL else None


class CompiledSampler:
    """Rows from a compiled environment."""

    def __init__(
        self, algorithm: Algorithm, state: State, hypers, num_envs: int, num_steps: int, start: str, reference: bool
    ):
        self.algorithm, self.hypers = algorithm, hypers
        self.num_envs, self.num_steps, self.start = num_envs, num_steps, start
        gamma = float(hypers["gamma"])
        self.tail = tail_length(gamma) if reference and algorithm.config.needs_value else None
        self._draw = jax.jit(self._rows)
        self.at(state)

    def at(self, state: State) -> None:
        """Draw from another checkpoint."""
        self.state = state
        self._starts = self._stationary_table() if self.start == "stationary" else None

    def draw(self, seed: int, replicate: int, gae_lambda: float | None = None) -> Rows:
        """Replicate number `replicate`; the same numbers for every λ."""
        key = jax.random.fold_in(jax.random.key(seed), replicate)
        hypers = self.hypers
        if gae_lambda is not None and "gae_lambda" in hypers:
            hypers = hypers | {"gae_lambda": jnp.float32(gae_lambda)}
        return self._draw(self.state, hypers, key, self._starts)

    def close(self) -> None:
        pass

    # Where rows start ---------------------------------------------------------------------------------------

    def _stationary_table(self):
        """Finite MDPs: the cumulative stationary distribution over (time, state),
        from which starts are drawn exactly."""
        env = self.algorithm.env
        if env.spec.backend != "tabular":
            return None
        seen = self.algorithm.seen(self.state.obs_stats, env.state_obs(), self.hypers)
        policy = np.asarray(jax.nn.softmax(self.algorithm.agent.policy(self.state.params.policy, seen)), np.float64)
        gamma = float(self.hypers["gamma"])
        d = exact.stationary(exact.problem(env.mdp, policy, gamma, env.spec.time_limit))
        cumulative = np.cumsum(d.reshape(-1))
        return jnp.asarray(cumulative / cumulative[-1])

    def _begin(self, state: State, hypers, key: PRNGKeyArray, table) -> Carry:
        env, num_envs = self.algorithm.env, self.num_envs
        if self.start == "carry":
            return state.env
        reset_key, burn_key = jax.random.split(key)
        carry = rollout.start(env, reset_key, num_envs)
        if self.start == "reset":
            return carry
        if table is not None:
            drawn = jnp.searchsorted(table, jax.random.uniform(burn_key, (num_envs,)), side="right")
            drawn = jnp.minimum(drawn, table.shape[0] - 1).astype(jnp.int32)
            num_states = env.mdp.num_states
            where = type(carry.env_state)(drawn % num_states, drawn // num_states)
            return carry._replace(env_state=where, obs=env.state_obs()[drawn % num_states])
        return self._burn_in(state, hypers, carry, burn_key)

    def _burn_in(self, state: State, hypers, carry: Carry, key: PRNGKeyArray) -> Carry:
        """One time limit of steps plus a random phase, acting by the policy: every row ends up at an iid phase."""
        env, limit = self.algorithm.env, self.algorithm.env.spec.time_limit or UNLIMITED_BURN_IN
        phase_key, key = jax.random.split(key)
        length = limit + jax.random.randint(phase_key, (self.num_envs,), 0, limit)
        policy, dist = self.algorithm.policy(state.params, state.obs_stats, hypers), self.algorithm.dist

        def step(t, carry: Carry) -> Carry:
            noise_key, env_key = jax.random.split(jax.random.fold_in(key, t))
            action = dist.sample(policy(carry.obs), dist.noise(noise_key, (self.num_envs,)))
            keys = jax.random.split(env_key, self.num_envs)
            env_state, out = jax.vmap(env.step)(keys, carry.env_state, clip_action(dist, action))
            done = out.terminated | out.truncated
            new = Carry(env_state, out.obs, carry.episode_return, jnp.where(done, 0.0, carry.episode_length + 1))
            return jax.tree.map(lambda a, b: rollout.where_rows(t < length, a, b), new, carry)

        return jax.lax.fori_loop(0, 2 * limit, step, carry)

    # Rows and their advantages ------------------------------------------------------------------------------

    def _rows(self, state: State, hypers, key: PRNGKeyArray, table) -> Rows:
        algorithm = self.algorithm
        start_key, collect_key, tail_key = jax.random.split(key, 3)
        carry = self._begin(state, hypers, start_key, table)
        policy = algorithm.policy(state.params, state.obs_stats, hypers)
        env = _Remembering(algorithm.env) if self.tail else algorithm.env
        _, rows = rollout.collect(env, algorithm.dist, policy, carry, collect_key, self.num_steps)
        before, rows = (rows.next_obs[1], rows._replace(next_obs=rows.next_obs[0])) if self.tail else (None, rows)
        advantage, target, value, valid, obs = algorithm.advantages(state, rows, hypers)
        reference = self._reference(state, hypers, rows, value, before, tail_key) if self.tail else None
        done = (rows.terminated | rows.truncated).astype(jnp.int32)
        return Rows(
            samples=Samples(obs, rows.action, advantage, target),
            reference=reference,
            valid=valid,
            episode=jnp.cumsum(done, axis=0) - done,
            first_phase=carry.episode_length,
            rollout=rows,
        )

    def _reference(self, state: State, hypers, rows: Rollout, value, before, key: PRNGKeyArray):
        """λ = 1 advantages whose cuts (time limits, the end of the row) are continued instead of bootstrapped."""
        algorithm, env = self.algorithm, self.algorithm.env
        limit, num_steps = env.spec.time_limit, self.num_steps
        last = jnp.arange(num_steps)[:, None] == num_steps - 1
        cut = rows.truncated | (last & ~rows.terminated)
        slots = min(num_steps, 1 if limit is None else num_steps // limit + 2)
        where = jax.vmap(lambda c: jnp.nonzero(c, size=slots, fill_value=num_steps)[0], in_axes=1)(cut)  # [N, slots]
        inside = jnp.minimum(where, num_steps - 1)
        env_index = jnp.arange(self.num_envs)[:, None]
        pick = lambda x: x[inside, env_index].reshape(-1, *x.shape[2:])
        action = clip_action(algorithm.dist, pick(rows.action))
        env_state, keys = jax.tree.map(pick, before)
        tails = self._continue(state, hypers, env.without_time_limit(), env_state, keys, action, key)
        seen = algorithm.seen(state.obs_stats, rows.next_obs, hypers)
        next_value = algorithm.critic(state, seen)
        padded = jnp.concatenate([next_value, jnp.zeros((1, self.num_envs))])  # unused slots write to the last row
        next_value = padded.at[where, env_index].set(tails.reshape(self.num_envs, slots))[:num_steps]
        reward = self._reward(state, hypers, rows.reward)
        return returns.gae(
            reward, value, next_value, rows.terminated, rows.truncated, hypers["gamma"], 1.0, rows.valid
        )[0]

    def _reward(self, state: State, hypers, reward):
        if state.reward_scale is None:
            return reward
        return normalize.scale_reward(reward, state.reward_scale, hypers["clip_reward"])

    def _continue(self, state: State, hypers, env, env_state, keys, action, key) -> Float[Array, " B"]:
        """Discounted sums of what follows after taking `action`, without a time limit, over `tail` steps."""
        count = action.shape[0]
        env_state, out = jax.vmap(env.step)(keys, env_state, action)
        noise_key, step_key = jax.random.split(key)
        policy = self.algorithm.policy(state.params, state.obs_stats, hypers)

        def step(carry, t):
            env_state, obs, alive, discount, total = carry
            noise = self.algorithm.dist.noise(jax.random.fold_in(noise_key, t), (count,))
            action = clip_action(self.algorithm.dist, self.algorithm.dist.sample(policy(obs), noise))
            keys = jax.random.split(jax.random.fold_in(step_key, t), count)
            env_state, out = jax.vmap(env.step)(keys, env_state, action)
            total = total + alive * discount * self._reward(state, hypers, out.reward[None])[0]
            return (env_state, out.obs, alive * ~out.terminated, discount * hypers["gamma"], total), None

        begin = (env_state, out.next_obs, jnp.ones(count), jnp.ones(()), jnp.zeros(count))
        (_, obs, alive, discount, total), _ = jax.lax.scan(step, begin, jnp.arange(self.tail))
        rest = self.algorithm.critic(state, self.algorithm.seen(state.obs_stats, obs, hypers)[None])[0]
        return total + alive * discount * rest


class _Remembering:
    """An environment whose `next_obs` also carries the state and key from before the step, to branch off later."""

    def __init__(self, env):
        self.env, self.spec, self.reset = env, env.spec, env.reset

    def step(self, key: PRNGKeyArray, env_state: Any, action, fresh=None):
        following, out = self.env.step(key, env_state, action, fresh)
        return following, out._replace(next_obs=(out.next_obs, (env_state, key)))


class HostSampler:
    """Rows from a host environment: stepped in Python, never continued past its limit, so no reference."""

    tail = None

    def __init__(
        self, algorithm: Algorithm, state: State, hypers, num_envs: int, num_steps: int, start: str, reference: bool
    ):
        self.algorithm, self.hypers = algorithm, hypers
        self.num_envs, self.num_steps, self.start = num_envs, num_steps, start
        self.env = algorithm.make_env(num_envs)
        self._act = jax.jit(lambda params, stats, obs, noise: algorithm.act(params, stats, obs, noise, hypers))
        self._finish = jax.jit(self._advantages)
        self.at(state)

    def at(self, state: State) -> None:
        """Draw from another checkpoint; what was drawn before is another policy's."""
        self.state = state
        self._carry: Carry | None = None
        self._kept: dict[tuple[int, int], tuple[Rollout, np.ndarray]] = {}

    def close(self) -> None:
        self.env.close()

    def draw(self, seed: int, replicate: int, gae_lambda: float | None = None) -> Rows:
        """Host environments cannot be replayed, so rollouts are kept, and a replicate is always the same rows."""
        if (seed, replicate) not in self._kept:
            self._kept[seed, replicate] = self._collect(seed, replicate)
        rows, phase = self._kept[seed, replicate]
        hypers = self.hypers
        if gae_lambda is not None and "gae_lambda" in hypers:
            hypers = hypers | {"gae_lambda": jnp.float32(gae_lambda)}
        return self._finish(self.state, hypers, jax.tree.map(jnp.asarray, rows), jnp.asarray(phase))

    def _collect(self, seed: int, replicate: int) -> tuple[Rollout, np.ndarray]:
        zeros = lambda: np.zeros(self.num_envs, np.float32)
        measured, before = jax.random.split(jax.random.fold_in(jax.random.key(seed), replicate))
        if self._carry is None or self.start == "reset":
            self._carry = Carry((), self.env.reset(derived_seed(seed, replicate)), zeros(), zeros())
            if self.start == "stationary":
                self._spread(before, seed)
        elif self.start == "stationary":
            self._pass(before, self._limit)  # a gap, so that replicates are independent
        phase = np.array(self._carry.episode_length)
        return self._walk(measured, self.num_steps), phase

    @property
    def _limit(self) -> int:
        return self.env.spec.time_limit or UNLIMITED_BURN_IN

    def _walk(self, key: PRNGKeyArray, steps: int) -> Rollout:
        noise = np.asarray(self.algorithm.dist.noise(key, (steps, self.num_envs)))
        act = partial(self._act, self.state.params, self.state.obs_stats)
        self._carry, rows = rollout.collect_host(self.env, act, noise, self._carry)
        return rows

    def _pass(self, key: PRNGKeyArray, steps: int) -> None:
        """Steps that only bring the environments elsewhere; never more of them in memory than are measured at once."""
        for begin in range(0, steps, self.num_steps):
            self._walk(jax.random.fold_in(key, begin), min(self.num_steps, steps - begin))

    def _spread(self, key: PRNGKeyArray, seed: int) -> None:
        """Bring episodes out of step: each environment is reset once at a random moment of a burn-in."""
        phase = np.random.default_rng(seed).integers(0, self._limit, self.num_envs)
        now = 0
        for t in np.unique(phase).tolist():
            self._pass(jax.random.fold_in(key, t), t - now)
            now = t
            obs = self.env.reset_some(phase == t)
            length = np.where(phase == t, 0.0, self._carry.episode_length).astype(np.float32)
            self._carry = Carry((), obs, self._carry.episode_return, length)
        self._pass(jax.random.fold_in(key, self._limit), 2 * self._limit - now)

    def _advantages(self, state: State, hypers, rows: Rollout, phase) -> Rows:
        advantage, target, _, valid, obs = self.algorithm.advantages(state, rows, hypers)
        done = (rows.terminated | rows.truncated).astype(jnp.int32)
        episode = jnp.cumsum(done, axis=0) - done
        return Rows(Samples(obs, rows.action, advantage, target), None, valid, episode, phase, rows)


def sampler(algorithm: Algorithm, *args, **kwargs) -> CompiledSampler | HostSampler:
    return (CompiledSampler if algorithm.env.spec.compiled else HostSampler)(algorithm, *args, **kwargs)
