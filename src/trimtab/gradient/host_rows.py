"""Rows to measure from host environments: cut out of one long walk, because single environments cannot be held back."""

from __future__ import annotations

from collections import deque
from functools import partial

import jax
import numpy as np
from jaxtyping import Bool, Int, PRNGKeyArray

from trimtab.envs.base import derived_seed
from trimtab.gradient.row_sampling import (
    UNLIMITED_BURN_IN,
    CompiledSampler,
    Rows,
    phase_step,
    phases_of,
    rows_of,
    with_lambda,
)
from trimtab.training import rollout
from trimtab.training.algorithm import Algorithm
from trimtab.training.rollout import Carry, Rollout
from trimtab.training.state import Hypers, State


class Cutter:
    """Where rows of T steps begin in the walk of each environment, so that they are stationary and independent.

    At the end of an episode a time k is drawn, uniformly up to the limit; if the next episode lasts that long, a row
    begins there. That is (s, k) with its stationary probability, exactly. After a row the next episode is waited for,
    so that no row knows of another. A sample that is not experience (next-step autoreset) is the first of its episode.
    Without a limit, rows are UNLIMITED_BURN_IN steps apart.
    """

    def __init__(self, num_envs: int, num_steps: int, limit: int | None, rng: np.random.Generator):
        self.num_steps, self.limit, self.rng = num_steps, limit, rng
        self._now = 0
        self._time = np.zeros(num_envs, int)  # into the episode; without a limit, of the walk
        self._left = np.zeros(num_envs, int)  # steps a row still needs
        self._first = np.zeros(num_envs, int)
        self._wanted = np.full(num_envs, -1)  # the time at which the next row begins
        if limit is None:
            self._wanted = UNLIMITED_BURN_IN + rng.integers(0, UNLIMITED_BURN_IN, num_envs)

    def follow(self, done: Bool[np.ndarray, "steps N"]) -> list[tuple[int, int]]:
        """Rows that are complete now: (environment, the step of the walk at which the row began)."""
        complete = []
        for ended in done:
            begins = self._wanted == self._time
            self._left[begins], self._first[begins], self._wanted[begins] = self.num_steps, self._now, -1
            under_way = self._left > 0
            self._left -= under_way
            whole = under_way & (self._left == 0)
            complete += [(int(n), int(self._first[n])) for n in np.flatnonzero(whole)]
            self._now += 1
            self._time += 1
            if self.limit is None:
                self._wanted[whole] = self._time[whole] + UNLIMITED_BURN_IN
            else:
                self._begin_episodes(ended, self.limit)
        return complete

    def _begin_episodes(self, ended: Bool[np.ndarray, " N"], limit: int) -> None:
        self._time[ended] = 0
        times: Int[np.ndarray, " N"] = self.rng.integers(0, limit + 1, len(ended))
        self._wanted[ended] = np.where(self._left > 0, -1, times)[ended]


class HostSampler:
    """Rows from a host environment: stepped in Python, never continued past its limit, so no reference."""

    tail = None

    def __init__(
        self, algorithm: Algorithm, state: State, hypers, num_envs: int, num_steps: int, start: str, reference: bool
    ):
        self.algorithm, self.hypers = algorithm, hypers
        self.num_envs, self.num_steps, self.start = num_envs, num_steps, start
        self._env = None
        self._act = jax.jit(algorithm.act)
        self._finish = jax.jit(partial(rows_of, algorithm))
        self.at(state)

    def at(self, state: State, hypers: Hypers | None = None) -> None:
        """Draw from another checkpoint; what was drawn before is another policy's."""
        self.state, self.hypers = state, self.hypers if hypers is None else hypers
        ages = np.asarray(state.env.episode_length)
        self.phases = phases_of(ages, self.num_envs, restorable=False) if self.start == "training" else None
        self._walk: Walk | LockstepWalk | None = None
        self._kept: dict[tuple[int, int], Rollout] = {}
        self._phases: dict[tuple[int, int], int] = {}

    @property
    def env(self):
        """The environments, made when they are first needed after a close."""
        if self._env is None:
            self._env = self.algorithm.make_env(self.num_envs)
        return self._env

    def close(self) -> None:
        """Let go of the environments and of what was drawn; what is compiled stays."""
        if self._env is not None:
            self._env.close()
        self._env, self._walk = None, None
        self._kept.clear()

    def draw(
        self, seed: int, replicate: int, gae_lambda: float | None = None, device: jax.Device | None = None
    ) -> Rows:
        """Host environments cannot be replayed, so rollouts are kept, and a replicate is always the same rows."""
        if (seed, replicate) not in self._kept:
            self._kept[seed, replicate] = self._collect(seed, replicate)
        rows = jax.device_put(self._kept[seed, replicate], device)
        return self._finish(self.state, with_lambda(self.hypers, gae_lambda), rows)

    def _collect(self, seed: int, replicate: int) -> Rollout:
        first = derived_seed(seed, replicate)
        if self.start == "reset":
            return self.steps(seed, replicate, rollout.begun(self.env.reset(first)))[1]
        if self._walk is None:
            walk = LockstepWalk if self.phases == "lockstep" else Walk
            self._walk = walk(self, seed, self.env.reset(first))
        rows = self._walk.rows()
        if isinstance(self._walk, LockstepWalk) and self._walk.phase is not None:
            self._phases[seed, replicate] = self._walk.phase
        return rows

    def phase(self, seed: int, replicate: int) -> int | None:
        """Steps into the cycle of phases at which a replicate started; None where there is no cycle."""
        return self._phases.get((seed, replicate))

    def steps(self, seed: int, count: int, carry: Carry, num_steps: int | None = None) -> tuple[Carry, Rollout]:
        """num_steps (T) steps of the policy from `carry`; `count` tells one stretch's randomness from another's."""
        key: PRNGKeyArray = jax.random.fold_in(jax.random.key(seed), count)
        noise = np.asarray(self.algorithm.dist.noise(key, (num_steps or self.num_steps, self.num_envs)))
        act_hypers = {name: self.hypers[name] for name in ("clip_obs",) if name in self.hypers}
        act = partial(self._act, self.state.params, self.state.obs_stats)
        return rollout.collect_host(
            self.env, self.algorithm.dist, lambda obs, noise: act(obs, noise, act_hypers), noise, carry
        )


class Walk:
    """One long walk of a sampler's environments, and the rows cut out of it that have not been used yet."""

    def __init__(self, sampler: HostSampler, seed: int, obs: np.ndarray):
        self.sampler, self.seed, self.stretches = sampler, seed, 0
        self.carry = rollout.begun(obs)
        limit = sampler.env.spec.time_limit
        self.cutter = Cutter(sampler.num_envs, sampler.num_steps, limit, np.random.default_rng(seed))
        self.waiting: list[deque[Rollout]] = [deque() for _ in range(sampler.num_envs)]
        self._recent: Rollout | None = None

    def rows(self) -> Rollout:
        """The next row of every environment, as one rollout; walks until there is one."""
        while not all(self.waiting):
            self._go_on()
        next_rows = [rows.popleft() for rows in self.waiting]
        return jax.tree.map(lambda *columns: np.stack(columns, axis=1), *next_rows)

    def _go_on(self) -> None:
        """T more steps. A row that ends in them began in them or in the T before."""
        num_steps = self.sampler.num_steps
        self.carry, stretch = self.sampler.steps(self.seed, self.stretches, self.carry)
        self.stretches += 1
        recent = stretch if self._recent is None else self._recent  # before the first stretch nothing begins
        both = jax.tree.map(lambda *halves: np.concatenate(halves), recent, stretch)
        offset = (self.stretches - 2) * num_steps  # of `both` in the walk
        for env, first in self.cutter.follow(np.asarray(stretch.terminated | stretch.truncated)):
            row = slice(first - offset, first - offset + num_steps)
            self.waiting[env].append(jax.tree.map(lambda x, row=row, env=env: x[row, env].copy(), both))
        self._recent = stretch


class LockstepWalk:
    """One long walk of environments that reset together, and whole iterations cut out of it.

    Between two of them all episodes end, and the next iteration starts at a phase k T mod L of a random k: none knows
    of the one before. Without a limit, iterations are at least UNLIMITED_BURN_IN steps apart.
    """

    def __init__(self, sampler: HostSampler, seed: int, obs: np.ndarray):
        self.sampler, self.seed, self.stretches = sampler, seed, 0
        self.carry, self.rng = rollout.begun(obs), np.random.default_rng(seed)
        self.phase: int | None = None  # of the last iteration

    def rows(self) -> Rollout:
        """The next iteration."""
        num_steps, left = self.sampler.num_steps, self._gap()
        while left > 0:
            size = min(left, num_steps)
            self._walk(size)
            left -= size
        return self._walk(num_steps)

    def _walk(self, num_steps: int) -> Rollout:
        self.carry, stretch = self.sampler.steps(self.seed, self.stretches, self.carry, num_steps)
        self.stretches += 1
        return stretch

    def _gap(self) -> int:
        """Steps to where the next iteration starts: to the end of the episodes, then a random number of iterations."""
        limit, num_steps = self.sampler.env.spec.time_limit, self.sampler.num_steps
        if limit is None:
            least = -(-UNLIMITED_BURN_IN // num_steps)
            return num_steps * int(self.rng.integers(least, 2 * least + 1))
        ages, counts = np.unique(np.asarray(self.carry.episode_length), return_counts=True)
        step = phase_step(num_steps, limit)
        self.phase = step * int(self.rng.integers(0, limit // step))
        return int(-ages[counts.argmax()] % limit) + self.phase


def sampler(
    algorithm: Algorithm, state: State, hypers: Hypers, num_envs: int, num_steps: int, start: str, reference: bool
) -> CompiledSampler | HostSampler:
    """Rows from the algorithm's environment, of either kind."""
    make = CompiledSampler if algorithm.env.spec.compiled else HostSampler
    return make(algorithm, state, hypers, num_envs, num_steps, start, reference)
