"""Rows to measure: T steps in N compiled environments under a frozen policy, again and again, each from its own key.

One draw is one replicate, of fixed shape, so the number of replicates never compiles anything again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from trimtab.envs.backends import BACKENDS
from trimtab.gradient import exact
from trimtab.math import normalize, returns
from trimtab.nets.heads import clip_action
from trimtab.training import rollout
from trimtab.training.algorithm import Algorithm
from trimtab.training.rollout import Carry, Rollout
from trimtab.training.sample_gradients import Samples
from trimtab.training.state import Hypers, State

UNLIMITED_BURN_IN = 1000  # steps of burn-in where episodes have no time limit
PATIENCE = 36  # time limits after which a row that has not found its start is left where it is
KEPT_BYTES = 1 << 28  # of starts: every replicate is drawn at least twice, and its start is the costly part
TAIL = 1e-3  # a reference rollout goes on until the discount has fallen to this
LONGEST_TAIL = 5000


Phases = Literal["recorded", "lockstep", "spread"]


class Rows(NamedTuple):
    """One replicate; leading axes [T, N]. `reference` are the advantages of the paired long rollout, if simulated."""

    samples: Samples
    reference: Float[Array, "T N"] | None
    valid: Bool[Array, "T N"]
    episode: Int[Array, "T N"]
    rollout: Rollout


def rows_of(
    algorithm: Algorithm,
    state: State,
    hypers: Hypers,
    rollout: Rollout,
    reference: Callable[[Float[Array, "T N"]], Float[Array, "T N"]] | None = None,
) -> Rows:
    """A rollout as rows to measure, with advantages and value targets as training has them.

    `reference` makes the advantages of the paired long rollout from the values.
    """
    advantage, target, value, valid, obs = algorithm.advantages(state, rollout, hypers)
    samples = Samples(obs, rollout.action, advantage, algorithm.in_units_of_values(state, target))
    episode = returns.episode_index(rollout.terminated, rollout.truncated)
    return Rows(samples, reference(value) if reference else None, valid, episode, rollout)


def with_lambda(hypers: Hypers, gae_lambda: float | None) -> Hypers:
    """The same numbers with another λ, where one is given and the algorithm has one."""
    if gae_lambda is None or "gae_lambda" not in hypers:
        return hypers
    return hypers | {"gae_lambda": jnp.float32(gae_lambda)}


def tail_length(gamma: float) -> int | None:
    """Steps until γⁿ ≤ 1e-3; None where that is too long to simulate."""
    if gamma <= 0:
        return 1
    if gamma >= 1:
        return None
    steps = math.ceil(math.log(TAIL) / math.log(gamma))
    return steps if steps <= LONGEST_TAIL else None


def phases_of(ages: Float[np.ndarray, " N"], num_envs: int, restorable: bool = True) -> Phases:
    """How num_envs environments stand to each other in training, from the episode ages that a checkpoint recorded.

    The run's own environments continue from the recorded states, where these can be restored. Otherwise all
    environments reset together if more than half of the recorded ages are equal, and independently if not.
    """
    if restorable and num_envs == len(ages):
        return "recorded"
    _, counts = np.unique(np.asarray(ages), return_counts=True)
    return "lockstep" if 2 * counts.max() > len(ages) else "spread"


def phase_step(num_steps: int, limit: int) -> int:
    """Iterations start at multiples of gcd(T, L) steps into the episode, if episodes last up to the limit L."""
    return math.gcd(num_steps, limit)


class CompiledSampler:
    """Rows from a compiled environment."""

    def __init__(
        self, algorithm: Algorithm, state: State, hypers, num_envs: int, num_steps: int, start: str, reference: bool
    ):
        self.algorithm, self.hypers = algorithm, hypers
        self.num_envs, self.num_steps, self.start = num_envs, num_steps, start
        gamma = float(hypers["gamma"])
        self.tail = tail_length(gamma) if reference and algorithm.config.needs_value else None
        self._begin, self._draw = jax.jit(self._first, static_argnames="phases"), jax.jit(self._rows)
        self.at(state)

    def at(self, state: State, hypers: Hypers | None = None) -> None:
        """Draw from another checkpoint, of this run or (then with its `hypers`) of another."""
        self.state, self.hypers = state, self.hypers if hypers is None else hypers
        training = self.start == "training"
        self.phases = phases_of(np.asarray(state.env.episode_length), self.num_envs) if training else None
        stationary = self.start == "stationary" or self.phases == "spread"
        self._table = self._stationary_table() if stationary else None
        self._starts: dict[tuple[int, int], Carry] = {}

    def draw(
        self, seed: int, replicate: int, gae_lambda: float | None = None, device: jax.Device | None = None
    ) -> Rows:
        """Replicate number `replicate`; the same numbers for every λ, and on every device."""
        key = jax.random.fold_in(jax.random.key(seed), replicate)
        key = key if device is None else jax.device_put(key, device)  # what is computed from it is computed there
        if (seed, replicate) not in self._starts:
            start = self._begin(self.state, self.hypers, key, self._table, phases=self.phases)
            if (len(self._starts) + 1) * sum(leaf.nbytes for leaf in jax.tree.leaves(start)) > KEPT_BYTES:
                self._starts.clear()
            self._starts[seed, replicate] = start
        return self._draw(self.state, with_lambda(self.hypers, gae_lambda), key, self._starts[seed, replicate])

    def close(self) -> None:
        pass

    # Where rows start ---------------------------------------------------------------------------------------

    def _stationary_table(self):
        """Finite MDPs: the cumulative stationary distribution over (time, state),
        from which starts are drawn exactly."""
        env = self.algorithm.env
        if not BACKENDS[env.spec.backend].exact:
            return None
        obs = self.algorithm.normalized_obs(self.state.obs_stats, env.state_obs(), self.hypers)
        policy = np.asarray(jax.nn.softmax(self.algorithm.agent.policy(self.state.params.policy, obs)), np.float64)
        gamma = float(self.hypers["gamma"])
        d = exact.stationary(exact.problem(env.mdp, policy, gamma, env.spec.time_limit))
        cumulative = np.cumsum(d.reshape(-1))
        return jnp.asarray(cumulative / cumulative[-1])

    def _first(
        self,
        state: State,
        hypers: Hypers,
        key: PRNGKeyArray,
        table: Float[Array, " starts"] | None,
        phases: Phases | None = None,
    ) -> Carry:
        env, num_envs = self.algorithm.env, self.num_envs
        if self.start == "carry":
            return state.env
        reset_key, start_key = jax.random.split(jax.random.split(key, 3)[0])
        if phases == "recorded":
            return self._shifted(state, hypers, state.env, start_key)
        carry = rollout.start(env, reset_key, num_envs)
        if phases == "lockstep":
            return self._shifted(state, hypers, carry, start_key)
        if self.start == "reset":
            return carry
        if table is not None:
            index = jnp.searchsorted(table, jax.random.uniform(start_key, (num_envs,)), side="right")
            index = jnp.minimum(index, table.shape[0] - 1).astype(jnp.int32)
            at, time = index % env.mdp.num_states, index // env.mdp.num_states
            return Carry(
                type(carry.env_state)(at, time), env.state_obs()[at], carry.episode_return, time.astype(jnp.float32)
            )
        if env.spec.time_limit is None:
            return self._walked(state, hypers, carry, start_key)
        return self._stationary(state, hypers, carry, start_key, env.spec.time_limit)

    def _stationary(self, state: State, hypers: Hypers, carry: Carry, key: PRNGKeyArray, limit: int) -> Carry:
        """Every row somewhere in the policy's own stationary process, exactly: at a uniform time of some episode.

        A time k is drawn uniformly below the limit L and an episode followed up to it; if the episode ends before, both
        are drawn anew. What is accepted is at (s, k) with probability ∝ (ρ C_πᵏ)(s), which is d(s, k). It takes L /
        E[length] tries of at most E[length] steps, so at most L steps in expectation whatever the policy does, and more
        than 3 j L with probability below 2⁻ʲ: of the rows, at most 2^(−PATIENCE / 3) stay where they happen to be.
        """
        time_key, key = jax.random.split(key)
        draw_time = lambda t: jax.random.randint(jax.random.fold_in(time_key, t), (self.num_envs,), 0, limit)
        act = self._acting(state, hypers, key)

        def looking(loop) -> Bool[Array, ""]:
            t, carry, time = loop
            return (t < PATIENCE * limit) & (carry.episode_length != time).any()

        def step(loop):
            t, carry, time = loop
            there = carry.episode_length == time
            new, done = act(t, carry)
            carry = jax.tree.map(lambda a, b: rollout.where_rows(~there, a, b), new, carry)
            return t + 1, carry, jnp.where(done & ~there, draw_time(t + 1), time)

        return jax.lax.while_loop(looking, step, (0, carry, draw_time(0)))[1]

    def _shifted(self, state: State, hypers: Hypers, carry: Carry, key: PRNGKeyArray) -> Carry:
        """All environments some iterations later, the same number for all, under the frozen policy.

        With a limit L the shift is L + (k T mod L) steps, k uniform: every phase that iterations start at, after every
        environment has reset at least once. Without one it is k T steps, from UNLIMITED_BURN_IN to twice as many.
        """
        length_key, key = jax.random.split(key)
        act = self._acting(state, hypers, key)
        return jax.lax.fori_loop(0, self._shift(length_key), lambda t, carry: act(t, carry)[0], carry)

    def _shift(self, key: PRNGKeyArray) -> Int[Array, ""]:
        """Steps of a shift."""
        limit = self.algorithm.env.spec.time_limit
        if limit is None:
            least = -(-UNLIMITED_BURN_IN // self.num_steps)
            return self.num_steps * jax.random.randint(key, (), least, 2 * least + 1)
        step = phase_step(self.num_steps, limit)
        return limit + step * jax.random.randint(key, (), 0, limit // step)

    def phase(self, seed: int, replicate: int) -> int | None:
        """Steps into the cycle of phases at which a replicate starts; None where there is no cycle."""
        limit = self.algorithm.env.spec.time_limit
        if self.phases not in ("recorded", "lockstep") or limit is None:
            return None
        start_key = jax.random.split(jax.random.split(jax.random.fold_in(jax.random.key(seed), replicate), 3)[0])[1]
        return int(self._shift(jax.random.split(start_key)[0])) % limit

    def _walked(self, state: State, hypers: Hypers, carry: Carry, key: PRNGKeyArray) -> Carry:
        """Without a limit nothing bounds an episode: rows walk UNLIMITED_BURN_IN steps and up to as many more.

        What is left of the start is what the process remembers after so many steps.
        """
        length_key, key = jax.random.split(key)
        length = UNLIMITED_BURN_IN + jax.random.randint(length_key, (self.num_envs,), 0, UNLIMITED_BURN_IN)
        act = self._acting(state, hypers, key)
        step = lambda t, carry: jax.tree.map(lambda a, b: rollout.where_rows(t < length, a, b), act(t, carry)[0], carry)
        return jax.lax.fori_loop(0, 2 * UNLIMITED_BURN_IN, step, carry)

    def _acting(self, state: State, hypers: Hypers, key: PRNGKeyArray):
        """(t, carry) -> (carry one step of the policy later, which episodes ended)."""
        env, dist = self.algorithm.env, self.algorithm.dist
        policy = self.algorithm.policy(state.params, state.obs_stats, hypers)

        def act(t, carry: Carry) -> tuple[Carry, Bool[Array, " N"]]:
            noise_key, env_key = jax.random.split(jax.random.fold_in(key, t))
            action = dist.sample(policy(carry.obs), dist.noise(noise_key, (self.num_envs,)))
            keys = jax.random.split(env_key, self.num_envs)
            env_state, out = jax.vmap(env.step)(keys, carry.env_state, clip_action(dist, action))
            done = out.terminated | out.truncated
            return Carry(env_state, out.obs, carry.episode_return, jnp.where(done, 0.0, carry.episode_length + 1)), done

        return act

    # Rows and their advantages ------------------------------------------------------------------------------

    def _rows(self, state: State, hypers: Hypers, key: PRNGKeyArray, carry: Carry) -> Rows:
        algorithm = self.algorithm
        _, collect_key, tail_key = jax.random.split(key, 3)
        policy = algorithm.policy(state.params, state.obs_stats, hypers)
        env = _Remembering(algorithm.env) if self.tail else algorithm.env
        _, rows = rollout.collect(env, algorithm.dist, policy, carry, collect_key, self.num_steps)
        before, rows = (rows.next_obs[1], rows._replace(next_obs=rows.next_obs[0])) if self.tail else (None, rows)
        continued = lambda value: self._reference(state, hypers, rows, value, before, tail_key)
        return rows_of(algorithm, state, hypers, rows, continued if self.tail else None)

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
        next_obs = algorithm.normalized_obs(state.obs_stats, rows.next_obs, hypers)
        next_value = algorithm.critic(state, next_obs)
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
        rest = self.algorithm.critic(state, self.algorithm.normalized_obs(state.obs_stats, obs, hypers)[None])[0]
        return total + alive * discount * rest


class _Remembering:
    """An environment whose `next_obs` also carries the state and key from before the step, to branch off later."""

    def __init__(self, env):
        self.env, self.spec, self.reset = env, env.spec, env.reset

    def step(self, key: PRNGKeyArray, env_state: Any, action, fresh=None):
        following, out = self.env.step(key, env_state, action, fresh)
        return following, out._replace(next_obs=(out.next_obs, (env_state, key)))
