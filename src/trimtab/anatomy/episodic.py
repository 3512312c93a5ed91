"""Exact means and variances of REINFORCE's episode gradients on finite MDPs, by recursion over the steps that remain.

An episode's gradient is Z = Σ_t ∇ log π(a_t|s_t) Ψ_t, with Ψ the whole return, the reward to go, or that minus a
baseline b(s_t). Its second moment follows from moments of what comes after each state, jointly with the return G from
there; with x = ∇ log π and primes for what follows an outcome (reward r, ended or not):

    G = r + γ G',   Z = x (G − b) + Z'                          reward to go, with a baseline or b = 0
    Φ = x + Φ',     Z = G_0 Σ_t x_t = G Φ  from the start       whole returns: moments of Φ, |Φ|² with G, G²

Episodes end by termination or are cut at the time limit (no bootstrap): whole episodes, as REINFORCE has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_matrix


@dataclass(frozen=True)
class Episodic:
    """E[Z] and Tr Cov(Z) of one episode's gradient from the initial states."""

    mean: Float[np.ndarray, " P"]
    variance: float


@dataclass(frozen=True)
class _Outcomes:
    """Every (state, action, outcome) with its probability under the policy, flattened to one axis of O."""

    sums: Any  # [S, O], sparse: π(a|s) p(outcome|s,a) of each state's outcomes
    state: np.ndarray
    action: np.ndarray
    following: np.ndarray
    reward: Float[np.ndarray, " O"]
    alive: Float[np.ndarray, " O"]
    num_states: int

    def gathered(self, values: np.ndarray) -> np.ndarray:
        """Σ over outcomes of each state of weight × values [O, ...]."""
        return self.sums @ values


def _outcomes(mdp, policy: Float[np.ndarray, "S A"]) -> _Outcomes:
    prob = np.asarray(mdp.prob, np.float64) * np.asarray(policy)[:, :, None]
    s, a, k = np.nonzero(prob)
    return _Outcomes(
        csr_matrix((prob[s, a, k], (s, np.arange(len(s)))), shape=(prob.shape[0], len(s))),
        s,
        a,
        np.asarray(mdp.next_state)[s, a, k],
        np.asarray(mdp.reward, np.float64)[s, a, k],
        1.0 - np.asarray(mdp.terminated, np.float64)[s, a, k],
        prob.shape[0],
    )


def reward_to_go(
    mdp,
    policy: Float[np.ndarray, "S A"],
    score: Float[np.ndarray, "S A P"],
    gamma: float,
    time_limit: int,
    baseline: Float[np.ndarray, " S"] | None = None,
) -> Episodic:
    """Z = Σ_t x_t (G_t − b(s_t)).

    |Z|² = |x|² (G − b)² + 2 (G − b) x·Z' + |Z'|²,   G Z = x G (G − b) + G Z'
    """
    o = _outcomes(mdp, policy)
    b = (np.zeros(o.num_states) if baseline is None else np.asarray(baseline))[o.state]
    x = score[o.state, o.action]  # [O, P]
    x_sq = np.einsum("op,op->o", x, x)
    width = score.shape[2]
    g1, g2, square = np.zeros(o.num_states), np.zeros(o.num_states), np.zeros(o.num_states)
    z, gz = np.zeros((o.num_states, width)), np.zeros((o.num_states, width))
    for _ in range(time_limit):
        to, alive, r = o.following, o.alive, o.reward
        e1 = r + gamma * alive * g1[to]  # E[G | outcome]
        e2 = r**2 + 2 * gamma * r * alive * g1[to] + gamma**2 * alive * g2[to]
        z_next, gz_next = alive[:, None] * z[to], alive[:, None] * gz[to]
        g_z_next = r[:, None] * z_next + gamma * gz_next  # E[G Z' | outcome]
        along = np.einsum("op,op->o", x, g_z_next) - b * np.einsum("op,op->o", x, z_next)
        square, g1_new, g2_new = (
            o.gathered(x_sq * (e2 - 2 * b * e1 + b**2) + 2 * along + alive * square[to]),
            o.gathered(e1),
            o.gathered(e2),
        )
        gz = o.gathered(x * (e2 - b * e1)[:, None] + g_z_next)
        z = o.gathered(x * (e1 - b)[:, None] + z_next)
        g1, g2 = g1_new, g2_new
    return _from_start(mdp, z, square)


def whole_return(
    mdp, policy: Float[np.ndarray, "S A"], score: Float[np.ndarray, "S A P"], gamma: float, time_limit: int
) -> Episodic:
    """Z = G_0 Σ_t x_t: every action credited with the whole episode's return.

    E[Φ Gⁱ] and E[|Φ|² Gⁱ] for i ≤ 2, with Gⁱ = Σ_j C(i,j) r^(i−j) γʲ G'ʲ and |Φ|² = |x|² + 2 x·Φ' + |Φ'|²
    """
    o = _outcomes(mdp, policy)
    x = score[o.state, o.action]
    x_sq = np.einsum("op,op->o", x, x)
    width, to, alive = score.shape[2], o.following, o.alive
    g = [np.ones(o.num_states), np.zeros(o.num_states), np.zeros(o.num_states)]
    phi = [np.zeros((o.num_states, width)) for _ in range(3)]
    square = [np.zeros(o.num_states) for _ in range(3)]
    powers = [[comb(i, j) * o.reward ** (i - j) * gamma**j for j in range(i + 1)] for i in range(3)]
    for _ in range(time_limit):
        # What follows, jointly with powers of the return that follows; after an end both are 0.
        g_next = [np.where(alive > 0, g[j][to], float(j == 0)) for j in range(3)]
        phi_next = [alive[:, None] * phi[j][to] for j in range(3)]
        square_next = [alive * square[j][to] for j in range(3)]
        g_here = [_mixed(powers[i], g_next) for i in range(3)]
        square_here = [_mixed(powers[i], square_next) for i in range(3)]
        phi_here = [_mixed([c[:, None] for c in powers[i]], phi_next) for i in range(3)]
        g = [o.gathered(g_here[i]) for i in range(3)]
        square = [
            o.gathered(x_sq * g_here[i] + 2 * np.einsum("op,op->o", x, phi_here[i]) + square_here[i]) for i in range(3)
        ]
        phi = [o.gathered(x * g_here[i][:, None] + phi_here[i]) for i in range(3)]
    return _from_start(mdp, phi[1], square[2])


def visited_returns(mdp, policy: Float[np.ndarray, "S A"], gamma: float, time_limit: int) -> Float[np.ndarray, " S"]:
    """E[G_t | s_t = s] over the visits of an episode that is cut: the best baseline that does not know the time.

    Σ_k m_k(s) V_{L−k}(s) / Σ_k m_k(s), V_h the return of h more steps, m_k where the episode is after k steps
    """
    o = _outcomes(mdp, policy)
    to_come = [np.zeros(o.num_states)]
    for _ in range(time_limit):
        to_come.append(o.gathered(o.reward + gamma * o.alive * to_come[-1][o.following]))
    here, visits, total = np.asarray(mdp.rho, np.float64), np.zeros(o.num_states), np.zeros(o.num_states)
    flow = csr_matrix((o.alive, (np.arange(len(o.state)), o.following)), shape=(len(o.state), o.num_states))
    for k in range(time_limit):
        visits, total = visits + here, total + here * to_come[time_limit - k]
        here = (here @ o.sums) @ flow
    return np.divide(total, visits, out=np.zeros_like(total), where=visits > 0)


def _mixed(factors: list[np.ndarray], parts: list[np.ndarray]) -> np.ndarray:
    """Σ_j factor_j part_j."""
    return sum((factor * part for factor, part in zip(factors, parts)), start=np.zeros(1))


def _from_start(mdp, first: Float[np.ndarray, "S P"], second: Float[np.ndarray, " S"]) -> Episodic:
    rho = np.asarray(mdp.rho, np.float64)
    mean = rho @ first
    return Episodic(mean, float(rho @ second - mean @ mean))
