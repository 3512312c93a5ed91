"""Exact answers for finite MDPs: true gradients and the expectation of every finite-T, λ estimator.

Termination belongs to an outcome, not to a state. C(s'|s,a) is the probability of going on to s', τ(s,a) that of
terminating, ρ the initial distribution. Everything is float64 NumPy; policies enter as tables π [S, A] and per-state
scores ∇ log π [S, A, P], so tabular and neural policies are the same thing here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Problem:
    """A finite MDP under a policy, with a discount and (or not) a time limit."""

    going: Float[np.ndarray, "S A S"]  # C(s'|s,a)
    ending: Float[np.ndarray, "S A"]  # τ(s,a)
    reward: Float[np.ndarray, "S A"]
    rho: Float[np.ndarray, " S"]
    policy: Float[np.ndarray, "S A"]
    gamma: float
    time_limit: int | None = None

    @property
    def kernel(self) -> Float[np.ndarray, "S S"]:
        """C_π: to s' without terminating."""
        return np.einsum("sa,sat->st", self.policy, self.going)

    @property
    def stop(self) -> Float[np.ndarray, " S"]:
        """τ_π."""
        return np.einsum("sa,sa->s", self.policy, self.ending)

    @property
    def mean_reward(self) -> Float[np.ndarray, " S"]:
        return np.einsum("sa,sa->s", self.policy, self.reward)


class NotErgodic(ValueError):
    """More than one recurrent class: a stationary distribution depends on where one starts."""


def problem(mdp, policy: Float[np.ndarray, "S A"], gamma: float, time_limit: int | None = None) -> Problem:
    """From a FiniteMDP's outcomes (prob, next_state, reward, terminated, each [S, A, K])."""
    prob = np.asarray(mdp.prob, np.float64)
    num_states, num_actions, _ = prob.shape
    going = np.zeros((num_states, num_actions, num_states))
    alive = prob * ~np.asarray(mdp.terminated, bool)
    s, a = np.indices(prob.shape[:2])
    for k in range(prob.shape[2]):
        np.add.at(going, (s, a, np.asarray(mdp.next_state)[:, :, k]), alive[:, :, k])
    return Problem(
        going,
        (prob * np.asarray(mdp.terminated, bool)).sum(-1),
        (prob * np.asarray(mdp.reward, np.float64)).sum(-1),
        np.asarray(mdp.rho, np.float64),
        np.asarray(policy, np.float64),
        gamma,
        time_limit,
    )


def values(p: Problem) -> Float[np.ndarray, " S"]:
    """V = (I - γ C_π)⁻¹ r_π."""
    return np.linalg.solve(np.eye(len(p.rho)) - p.gamma * p.kernel, p.mean_reward)


def action_values(p: Problem, value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "S A"]:
    """Q = r + γ C V."""
    return p.reward + p.gamma * p.going @ value


def stationary(p: Problem) -> Float[np.ndarray, "*K S"]:
    """The stationary distribution of the restarting process:
    d(s), or d(k, s) with a time limit (k steps into an episode).

    Without a limit: d = d (C_π + τ_π ρᵀ). With one: d(k, s) ∝ (ρ C_πᵏ)(s) for k < L.
    """
    if p.time_limit is not None:
        mass, rows = p.rho.copy(), []
        kernel = p.kernel
        for _ in range(p.time_limit):
            rows.append(mass)
            mass = mass @ kernel
        table = np.array(rows)
        return table / table.sum()
    restarting = p.kernel + np.outer(p.stop, p.rho)
    _refuse_several_classes(restarting)
    size = len(p.rho)
    system = np.vstack([restarting.T - np.eye(size), np.ones(size)])
    d, *_ = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)
    return np.maximum(d, 0.0) / np.maximum(d, 0.0).sum()


def _refuse_several_classes(kernel: Float[np.ndarray, "S S"]) -> None:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(csr_matrix(kernel > 1e-14), directed=True, connection="strong")
    leaves = np.zeros(count, bool)
    source, target = np.nonzero(kernel > 1e-14)
    leaves[label[source[label[source] != label[target]]]] = True
    if (~leaves).sum() > 1:
        raise NotErgodic(f"the policy's chain has {(~leaves).sum()} recurrent classes; give a time limit")


def visits(p: Problem) -> Float[np.ndarray, " S"]:
    """d(s), summed over time into the episode."""
    d = stationary(p)
    return d.sum(0) if d.ndim == 2 else d


def _gradient(weight: Float[np.ndarray, "S A"], score: Float[np.ndarray, "S A P"]) -> Float[np.ndarray, " P"]:
    return np.einsum("sa,sap->p", weight, score)


def true_gradient(p: Problem, score: Float[np.ndarray, "S A P"]) -> Float[np.ndarray, " P"]:
    """G_T = Σ_s d(s) Σ_a π(a|s) A(s,a) ∇ log π(a|s): the infinite-data limit of G_B with exact advantages."""
    value = values(p)
    advantage = action_values(p, value) - value[:, None]
    return _gradient(visits(p)[:, None] * p.policy * advantage, score)


def return_gradient(p: Problem, score: Float[np.ndarray, "S A P"]) -> Float[np.ndarray, " P"]:
    """∇ J_γ, J_γ = ρ V: states weighted by discounted visits from the start."""
    visits_from_start = np.linalg.solve(np.eye(len(p.rho)) - p.gamma * p.kernel.T, p.rho)
    value = values(p)
    advantage = action_values(p, value) - value[:, None]
    return _gradient(visits_from_start[:, None] * p.policy * advantage, score)


def expected_advantages(
    p: Problem, critic: Float[np.ndarray, " S"], gae_lambda: float, horizon: int
) -> Float[np.ndarray, "h S A"]:
    """E[A | s, a, h] of the finite-T, λ estimator when h = 1..horizon steps remain, under any critic.

    E[A|s,a,h] = r + γ C V̂ - V̂(s) + γ λ Σ_s' C(s'|s,a) u_{h-1}(s'),  u_0 = 0,  u_h(s) = Σ_a π E[A|s,a,h]
    """
    delta = p.reward + p.gamma * p.going @ critic - critic[:, None]
    carried, table = np.zeros(len(critic)), []
    for _ in range(horizon):
        expected = delta + p.gamma * gae_lambda * (p.going @ carried)
        carried = np.einsum("sa,sa->s", p.policy, expected)
        table.append(expected)
    return np.array(table)


def expected_gradient(
    p: Problem,
    score: Float[np.ndarray, "S A P"],
    critic: Float[np.ndarray, " S"],
    gae_lambda: float,
    num_steps: int,
) -> Float[np.ndarray, " P"]:
    """E[G_B] for rows of T steps from stationary starts.

    1/T Σ_{h=1..T} Σ_s d(s) Σ_a π E[A|s,a,h] ∇ log π; with a time limit L a sample k steps into its episode has at most
    L - k steps of it left, so E[A|s,a,h,k] = E[A|s,a,min(h, L-k)].
    """
    table = expected_advantages(p, critic, gae_lambda, num_steps)
    d = stationary(p)
    if d.ndim == 1:
        return _gradient(d[:, None] * p.policy * table.mean(0), score)
    limit = len(d)
    remaining = np.minimum(np.arange(1, num_steps + 1)[:, None], limit - np.arange(limit)[None, :])
    # How often a state is met with each number of steps left: counts [T, S] by summing d(k, ·) over (h, k).
    counts = np.zeros((num_steps, len(p.rho)))
    for k in range(limit):
        left = np.bincount(remaining[:, k] - 1, minlength=num_steps)
        counts += left[:, None] * d[k]
    weight = np.einsum("hs,hsa->sa", counts / num_steps, table)
    return _gradient(p.policy * weight, score)


def expected_gradient_along_rows(
    p: Problem,
    score: Float[np.ndarray, "S A P"],
    critic: Float[np.ndarray, " S"],
    gae_lambda: float,
    num_steps: int,
    start: Float[np.ndarray, "*K S"] | None = None,
) -> Float[np.ndarray, " P"]:
    """E[G_B] step by step along rows from any start: 1/T Σ_t Σ_s d_t(s) Σ_a π E[A|s,a,T-t] ∇ log π, d_t = d_0 Kᵗ.

    From stationary starts d_t stays where it is, and this is `expected_gradient` by another way.
    """
    table = expected_advantages(p, critic, gae_lambda, num_steps)
    d = np.atleast_2d(stationary(p) if start is None else start)  # [1, S] without a time limit
    weight = np.zeros(p.policy.shape)
    for t in range(num_steps):
        left = np.full(len(d), num_steps - t)
        if p.time_limit is not None:
            left = np.minimum(left, p.time_limit - np.arange(p.time_limit))
        weight += np.einsum("ks,ksa->sa", d, table[left - 1])
        d = _one_step(p, d)
    return _gradient(p.policy * weight / num_steps, score)


def _one_step(p: Problem, d: Float[np.ndarray, "K S"]) -> Float[np.ndarray, "K S"]:
    """Where the restarting process is one step later; [K, S], k steps into the episode."""
    going = d @ p.kernel
    ended = float((d @ p.stop).sum())
    if p.time_limit is None:
        return going + ended * p.rho
    following = np.zeros_like(d)
    following[1:] = going[:-1]
    following[0] = (ended + going[-1].sum()) * p.rho
    return following


def lockstep_gradients(
    p: Problem,
    score: Float[np.ndarray, "S A P"],
    critic: Float[np.ndarray, " S"],
    gae_lambda: float,
    num_steps: int,
    start: Float[np.ndarray, "L S"] | None = None,
) -> Float[np.ndarray, "phases P"]:
    """E[G_B | phase] where all environments start alike, at every phase k T mod L that iterations start at.

    A row starts L + (k T mod L) steps after `start` (a common reset): d_0 Kᵗ of `expected_gradient_along_rows`.
    """
    if p.time_limit is None:
        raise ValueError("time_limit: none, so there is no cycle of phases")
    if start is None:
        start = np.zeros((p.time_limit, len(p.rho)))
        start[0] = p.rho
    for _ in range(p.time_limit):
        start = _one_step(p, start)
    gradients = []
    for time in range(p.time_limit):
        if time % math.gcd(p.time_limit, num_steps) == 0:
            gradients.append(expected_gradient_along_rows(p, score, critic, gae_lambda, num_steps, start))
        start = _one_step(p, start)
    return np.array(gradients)


def between_rows(gradients: Float[np.ndarray, "phases P"]) -> float:
    """C = Var_phase(E[G_B | phase]), the covariance of two rows of one iteration."""
    return float(np.sum((gradients - gradients.mean(axis=0)) ** 2) / len(gradients))


def bias_sq(
    p: Problem, score: Float[np.ndarray, "S A P"], critic: Float[np.ndarray, " S"], gae_lambda: float, num_steps: int
) -> float:
    """|E[G_B] - G_T|²."""
    gap = expected_gradient(p, score, critic, gae_lambda, num_steps) - true_gradient(p, score)
    return float(gap @ gap)


def policy_tables(agent, params, obs: Float[np.ndarray, " S *shape"]):
    """(π [S, A], ∇ log π [S, A, P]) of a categorical agent on every state's observation."""
    policy, score = _tables_of(agent)(params.policy, obs)
    return np.asarray(policy, np.float64), np.asarray(score, np.float64)


@lru_cache(maxsize=8)
def _tables_of(agent):
    """The compiled tables of an agent, once for all its checkpoints."""
    import jax
    import jax.numpy as jnp

    def logp(policy, o, a):
        return agent.dist.logp(agent.policy(policy, o[None]), a[None])[0]

    scores = jax.vmap(jax.vmap(jax.grad(logp), in_axes=(None, None, 0)), in_axes=(None, 0, None))
    return jax.jit(
        lambda policy, obs: (
            jax.nn.softmax(agent.policy(policy, obs)),
            scores(policy, obs, jnp.arange(agent.dist.n)),
        )
    )


def critic_table(algorithm, state, obs: Float[np.ndarray, " S *shape"]) -> Float[np.ndarray, " S"]:
    """V̂ on every state's observation, in the units of rewards."""
    import jax.numpy as jnp

    return np.asarray(algorithm.critic(state, jnp.asarray(obs)[None])[0], np.float64)
