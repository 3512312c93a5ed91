"""Are the estimates right? Probes of finite MDPs, repeated, against exact answers.

A cell is one MDP, one T, one λ, with or without its time limit, under a small neural policy and a wrong critic. Each
repetition draws fresh rows; the share of 95% intervals that hold the truth is the coverage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import numpy as np

from trimtab.config import Config
from trimtab.envs.tabular_backend import FiniteMDP, TabularEnv
from trimtab.gradient import bias, exact
from trimtab.gradient.moments import Measurer, measure
from trimtab.gradient.row_sampling import CompiledSampler
from trimtab.gradient.variance import decompose_rows
from trimtab.nets.agent import Params
from trimtab.training.algorithm import Algorithm, hypers_of
from trimtab.training.sample_gradients import PerSample

QUANTITIES = ("variance", "individual", "covariance", "grad_sq", "bias_sq")


@dataclass(frozen=True)
class Cell:
    """What is calibrated."""

    mdp: FiniteMDP
    num_steps: int
    gae_lambda: float
    limited: bool
    gamma: float = 0.95
    num_rows: int = 1024
    iterations: int | None = None  # in lockstep that the rows are of; None: independent rows

    @property
    def name(self) -> str:
        limit = "lockstep" if self.iterations else "limit" if self.limited else "no limit"
        return f"{self.mdp.name} T={self.num_steps} λ={self.gae_lambda:g} {limit}"

    @property
    def quantities(self) -> tuple[str, ...]:
        """What is estimated in it."""
        return (*QUANTITIES, "variance_floor") if self.iterations else QUANTITIES


class Outcome(NamedTuple):
    """Per repetition and quantity: value, lo, hi [repetitions, quantities, 3];
    the exact squares; the mean-gradient check."""

    estimates: np.ndarray
    exact_bias_sq: float
    exact_grad_sq: float
    mean_error_sq: tuple[float, float, float]  # unbiased |sampled mean - exact E[G_B]|² with its interval
    exact_floor: float | None = None  # C, the covariance between rows, where rows are of iterations in lockstep


def sticky_chain() -> FiniteMDP:
    """Three states that tend to stay, where what an action is worth depends on the state.

    Gradients of one state then point one way for as long as it lasts: at T = 4 the covariance term is about a third of
    the variance, so that errors in it show.
    """
    stay, tilt = 0.9, 0.05
    prob = np.full((3, 2, 3), (1 - stay - tilt) / 2)
    worth = np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])  # of an action, by state
    level = np.array([0.0, 1.0, -1.0])  # of a state
    for s in range(3):
        for a in range(2):
            prob[s, a, s] = stay
            prob[s, a, (s + 1 + a) % 3] += tilt
    states = np.broadcast_to(np.arange(3), prob.shape)
    reward = np.broadcast_to((worth + level[:, None])[:, :, None], prob.shape)
    return FiniteMDP.from_arrays(prob, states, reward, False, np.full(3, 1 / 3), time_limit=20, name="sticky chain")


class Bench:
    """One cell, compiled once, drawn many times."""

    def __init__(self, cell: Cell, seed: int = 7, critic_error: float = 0.5):
        self.cell = cell
        env = TabularEnv(cell.mdp)
        env = env if cell.limited else env.without_time_limit()
        config = Config(
            env_id="FrozenLake-v1",
            hidden_sizes=(8,),
            gamma=cell.gamma,
            gae_lambda=cell.gae_lambda,
            num_envs=cell.num_rows,
            num_steps=cell.num_steps,
            num_minibatches=1,
            total_timesteps=cell.num_rows * cell.num_steps,
        )
        self.algorithm, self.hypers = Algorithm(config, env), hypers_of(config)
        state = jax.jit(self.algorithm.init)(jax.random.key(seed), self.hypers)
        key = jax.random.key(seed + 1)
        # A policy well away from uniform, and a critic that is wrong: random parameters of ordinary size.
        policy = state.params.policy + 0.5 * jax.random.normal(key, state.params.policy.shape)
        error = jax.random.normal(jax.random.fold_in(key, 1), state.params.value.shape)
        value = state.params.value + critic_error * error
        params = Params(policy, value)
        state = replace(state, params=params)
        start, num_envs = ("training", cell.num_rows // cell.iterations) if cell.iterations else ("stationary", None)
        self.num_envs = num_envs or cell.num_rows
        self.sampler = CompiledSampler(
            self.algorithm, state, self.hypers, self.num_envs, cell.num_steps, start, reference=True
        )
        self.measurer = Measurer(PerSample(self.algorithm.agent), params, by_iteration=num_envs)
        obs = np.asarray(env.state_obs())
        policy_table, self.score = exact.policy_tables(self.algorithm.agent, params, obs)
        self.critic = exact.critic_table(self.algorithm, state, obs)
        self.problem = exact.problem(cell.mdp, policy_table, cell.gamma, env.spec.time_limit)

    @property
    def by_phase(self) -> np.ndarray:
        """E[G_B] at every phase that iterations in lockstep start at; of stationary rows there is one."""
        cell = self.cell
        given = (self.problem, self.score, self.critic, cell.gae_lambda, cell.num_steps)
        return exact.lockstep_gradients(*given) if cell.iterations else exact.expected_gradient(*given)[None]

    @property
    def expected(self) -> np.ndarray:
        return self.by_phase.mean(axis=0)

    def repetition(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """([quantities, 3] of value, lo, hi; row means [M, P])."""
        count = self.cell.iterations or 1
        rows = [self.sampler.draw(seed, k) for k in range(count)]
        measured = measure(self.measurer, lambda k: rows[k], count)
        assert measured.differences is not None and measured.reference is not None, "the sampler simulates them"
        parts = decompose_rows(measured.rows, self.num_envs if self.cell.iterations else 1, seed)
        known = {"bias_sq": bias.bias_sq(measured.differences, seed)}
        estimates = [known.get(name) or getattr(parts, name) for name in self.cell.quantities]
        return np.array([[e.value, e.lo, e.hi] for e in estimates]), measured.reference + measured.differences

    def run(self, repetitions: int, first_seed: int = 0, tick=lambda: None) -> Outcome:
        all_estimates, sums = [], []
        expected = self.expected
        for k in range(repetitions):
            estimates, means = self.repetition(first_seed + k)
            all_estimates.append(estimates)
            sums.append((means - expected).mean(0))  # repetitions are iid: their means are rows too
            tick()
        centred = np.array(sums)
        error = bias.squared_norm_of_mean(centred @ centred.T)
        gap = expected - exact.true_gradient(self.problem, self.score)
        return Outcome(
            np.array(all_estimates),
            float(gap @ gap),
            float(expected @ expected),
            (error.value, error.lo, error.hi),
            exact.between_rows(self.by_phase) if self.cell.iterations else None,
        )


def coverage(outcome: Outcome) -> dict[str, float]:
    """Share of intervals that hold the truth: exact for the squares, the mean over all repetitions for the variances.

    What is 0 by construction (the covariance term at T = 1) has nothing to cover and is NaN.
    """
    values = outcome.estimates[:, :, 0]
    truth: dict[str, float] = dict(zip(QUANTITIES, values.mean(0)))
    rounding = 1e-6 * truth["variance"]  # gradients are float32
    truth |= {"grad_sq": outcome.exact_grad_sq, "bias_sq": outcome.exact_bias_sq}
    truth |= {} if outcome.exact_floor is None else {"variance_floor": outcome.exact_floor}
    shares = {}
    for i, name in enumerate(truth):
        _, lo, hi = outcome.estimates[:, i].T
        held = ~((truth[name] < lo - rounding) | (truth[name] > hi + rounding))  # no interval claims nothing
        shares[name] = float(held.mean()) if np.abs(values[:, i]).max() > rounding else float("nan")
    return shares


def clock(limit: int = 12) -> FiniteMDP:
    """The state is the time into the episode, and what an action is worth changes half-way: all phases differ."""
    prob = np.zeros((limit, 2, limit))
    prob[np.arange(limit), :, (np.arange(limit) + 1) % limit] = 1.0
    worth = np.where(np.arange(limit)[:, None] < limit / 2, [[1.0, -1.0]], [[-2.0, 2.0]])
    reward = np.broadcast_to(worth[:, :, None], prob.shape)
    return FiniteMDP.from_arrays(prob, np.arange(limit), reward, False, np.eye(limit)[0], limit, "clock")


def cells() -> list[Cell]:
    """FrozenLake 4x4 and 8x8 and the sticky chain; T in {1, 4, 32}; λ in {0, 0.9, 1}; with and without the limit.

    One step has one advantage whatever λ is, so T = 1 comes once. Then the clock, the chain and the lake by iterations
    of environments that reset together.
    """
    mdps = [FiniteMDP.from_gymnasium("FrozenLake-v1"), FiniteMDP.from_gymnasium("FrozenLake8x8-v1"), sticky_chain()]
    independent = [
        Cell(mdp, num_steps, gae_lambda, limited)
        for mdp in mdps
        for num_steps in (1, 4, 32)
        for gae_lambda in (0.0, 0.9, 1.0)
        for limited in (True, False)
        if num_steps > 1 or gae_lambda == 0.0
    ]
    together = [
        Cell(mdp, num_steps, 0.9, True, iterations=32)
        for mdp in (clock(), sticky_chain(), mdps[0])
        for num_steps in (1, 4)
    ]
    return independent + together
