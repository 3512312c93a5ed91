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
from functools import cached_property
from math import comb

import numpy as np
from jaxtyping import Float
from scipy.sparse import coo_array, csr_array, diags_array


@dataclass(frozen=True)
class Episodic:
    """E[Z] and Tr Cov(Z) of one episode's gradient from the initial states."""

    mean: Float[np.ndarray, " P"]
    variance: float


@dataclass(frozen=True)
class _Outcomes:
    """Every (state, action, outcome) with its probability under the policy, flattened to one axis of O.

    Nothing dense has the shape [O, P]: scores of one-hot states are nearly all zeros.
    """

    sums: csr_array  # [S, O]: π(a|s) p(outcome|s,a) of each state's outcomes
    state: np.ndarray
    action: np.ndarray
    following: np.ndarray
    reward: Float[np.ndarray, " O"]
    alive: Float[np.ndarray, " O"]

    def gathered(self, values: Float[np.ndarray, " O"]) -> Float[np.ndarray, " S"]:
        """Σ over outcomes of each state of weight × values."""
        return self.sums @ values

    def flow(self, factor: Float[np.ndarray, " O"] | float = 1.0) -> csr_array:
        """[S, S]: of values of states to come, Σ over outcomes of each state of weight × factor × the value there."""
        leads = csr_array(
            (self.alive * factor, self.following, np.arange(len(self.state) + 1)), shape=self.sums.T.shape
        )
        return self.sums @ leads


@dataclass(frozen=True)
class _Scores:
    """x = ∇ log π(a|s) of every outcome."""

    outcomes: _Outcomes
    x: csr_array  # [O, P]

    @cached_property
    def squared(self) -> Float[np.ndarray, " O"]:
        return self.x.power(2).sum(axis=1)

    def gathered(self, factor: Float[np.ndarray, " O"]) -> Float[np.ndarray, "S P"]:
        """Σ over outcomes of each state of weight × factor × x."""
        return (self.outcomes.sums @ (diags_array(factor) @ self.x)).toarray()

    def dot(self, values: Float[np.ndarray, "S P"]) -> Float[np.ndarray, " O"]:
        """x · the values of the state that follows; 0 after an end."""
        of, entry = self._entries.coords
        products = self._entries.data * values[self.outcomes.following[of], entry]
        return self.outcomes.alive * np.bincount(of, products, minlength=len(self.outcomes.state))

    @cached_property
    def _entries(self) -> coo_array:
        return self.x.tocoo()


def _outcomes(mdp, policy: Float[np.ndarray, "S A"]) -> _Outcomes:
    prob = np.asarray(mdp.prob, np.float64) * np.asarray(policy)[:, :, None]
    s, a, k = np.nonzero(prob)
    return _Outcomes(
        csr_array((prob[s, a, k], (s, np.arange(len(s)))), shape=(prob.shape[0], len(s))),
        s,
        a,
        np.asarray(mdp.next_state)[s, a, k],
        np.asarray(mdp.reward, np.float64)[s, a, k],
        1.0 - np.asarray(mdp.terminated, np.float64)[s, a, k],
    )


def _scores(o: _Outcomes, score: Float[np.ndarray, "S A P"]) -> _Scores:
    rows = csr_array(score.reshape(-1, score.shape[2]))
    return _Scores(o, rows[o.state * score.shape[1] + o.action])


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
    x = _scores(o, score)
    to, alive, r = o.following, o.alive, o.reward
    b = np.zeros(len(r)) if baseline is None else np.asarray(baseline)[o.state]
    on, on_with_reward = o.flow(), o.flow(r)
    num_states, _, width = score.shape
    g1, g2, square = np.zeros(num_states), np.zeros(num_states), np.zeros(num_states)
    z, gz = np.zeros((num_states, width)), np.zeros((num_states, width))
    for _ in range(time_limit):
        e1 = r + gamma * alive * g1[to]  # E[G | outcome]
        e2 = r**2 + 2 * gamma * r * alive * g1[to] + gamma**2 * alive * g2[to]
        along = (r - b) * x.dot(z) + gamma * x.dot(gz)  # E[(G − b) x·Z' | outcome]
        square = o.gathered(x.squared * (e2 - 2 * b * e1 + b**2) + 2 * along + alive * square[to])
        gz = x.gathered(e2 - b * e1) + on_with_reward @ z + gamma * (on @ gz)
        z = x.gathered(e1 - b) + on @ z
        g1, g2 = o.gathered(e1), o.gathered(e2)
    return _from_start(mdp, z, square)


def whole_return(
    mdp, policy: Float[np.ndarray, "S A"], score: Float[np.ndarray, "S A P"], gamma: float, time_limit: int
) -> Episodic:
    """Z = G_0 Σ_t x_t: every action credited with the whole episode's return.

    E[Φ Gⁱ] and E[|Φ|² Gⁱ] for i ≤ 2, with Gⁱ = Σ_j C(i,j) r^(i−j) γʲ G'ʲ and |Φ|² = |x|² + 2 x·Φ' + |Φ'|²
    """
    o = _outcomes(mdp, policy)
    x = _scores(o, score)
    (num_states, _, width), to, alive = score.shape, o.following, o.alive
    g = [np.ones(num_states), np.zeros(num_states), np.zeros(num_states)]
    phi = [np.zeros((num_states, width)) for _ in range(3)]
    square = [np.zeros(num_states) for _ in range(3)]
    powers = [[comb(i, j) * o.reward ** (i - j) * gamma**j for j in range(i + 1)] for i in range(3)]
    flows = [[o.flow(factor) for factor in row] for row in powers]
    for _ in range(time_limit):
        # What follows, jointly with powers of the return that follows; after an end both are 0.
        g_next = [np.where(alive > 0, g[j][to], float(j == 0)) for j in range(3)]
        square_next = [alive * square[j][to] + 2 * x.dot(phi[j]) for j in range(3)]
        g_here = [_mixed(row, g_next) for row in powers]
        square = [o.gathered(x.squared * g_here[i] + _mixed(powers[i], square_next)) for i in range(3)]
        phi = [x.gathered(g_here[i]) + sum(flow @ phi[j] for j, flow in enumerate(flows[i])) for i in range(3)]
        g = [o.gathered(here) for here in g_here]
    return _from_start(mdp, phi[1], square[2])


def visited_returns(mdp, policy: Float[np.ndarray, "S A"], gamma: float, time_limit: int) -> Float[np.ndarray, " S"]:
    """E[G_t | s_t = s] over the visits of an episode that is cut: the best baseline that does not know the time.

    Σ_k m_k(s) V_{L−k}(s) / Σ_k m_k(s), V_h the return of h more steps, m_k where the episode is after k steps
    """
    o = _outcomes(mdp, policy)
    rho = np.asarray(mdp.rho, np.float64)
    to_come = [np.zeros_like(rho)]
    for _ in range(time_limit):
        to_come.append(o.gathered(o.reward + gamma * o.alive * to_come[-1][o.following]))
    here, visits, total, on = rho, np.zeros_like(rho), np.zeros_like(rho), o.flow()
    for k in range(time_limit):
        visits, total = visits + here, total + here * to_come[time_limit - k]
        here = here @ on
    return np.divide(total, visits, out=np.zeros_like(total), where=visits > 0)


def _mixed(factors: list[np.ndarray], parts: list[np.ndarray]) -> np.ndarray:
    """Σ_j factor_j part_j."""
    return sum((factor * part for factor, part in zip(factors, parts)), start=np.zeros(1))


def _from_start(mdp, first: Float[np.ndarray, "S P"], second: Float[np.ndarray, " S"]) -> Episodic:
    rho = np.asarray(mdp.rho, np.float64)
    mean = rho @ first
    return Episodic(mean, float(rho @ second - mean @ mean))
