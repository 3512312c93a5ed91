"""Exact moments of policy gradients on linear-quadratic systems with Gaussian linear policies. NumPy only.

The policy is u = K x + σ e with e standard normal. Everything that is random in T steps from a reset, the first state,
the exploration e_t and the noise w_t, is one standard normal vector z. States and actions are linear in z, rewards
quadratic, and so is the generalized advantage of a quadratic critic V(x) = x'Px + p:

    A_t = z' M_t z + c_t,     d log π / dK_ij = e_i x_j / σ = z' S_tij z,     d log π / d log σ_i = e_i² - 1

A per-sample gradient g_t = A_t ∇ log π(u_t|x_t) is a product of quadratic forms, and its mean and covariances follow
from joint cumulants, κ(q_1, ..., q_k) = 2^(k-1) Σ over cyclic orders of tr(M_1 M_σ2 ... M_σk). The approach follows
arXiv 2602.01460; the cumulants replace its explicit moments up to order six.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from jaxtyping import Float

from trimtab.envs.lqr_system import LinearQuadratic

Form = tuple[Float[np.ndarray, "D D"], float]  # z'Mz + c, M symmetric


@dataclass(frozen=True)
class LQRGradient:
    """The policy gradient of one row: `num_steps` steps from a reset, of a linear Gaussian policy.

    Args:
        system: the dynamics, costs and horizon.
        gain: K [m, n]; the mean of the policy is K x.
        std: σ, the standard deviation of every action.
        gamma, gae_lambda: discount and λ of the advantages.
        critic: (P [n, n], p) of the critic x'Px + p; zero if not given.
        num_steps: T, at most the horizon (the row ends by bootstrapping from the critic, or at the horizon with 0).
    """

    system: LinearQuadratic
    gain: Float[np.ndarray, "m n"]
    std: float = 1.0
    gamma: float = 1.0
    gae_lambda: float = 1.0
    critic: tuple[Float[np.ndarray, "n n"], float] | None = None
    num_steps: int | None = None

    @property
    def steps(self) -> int:
        """T."""
        return self.system.horizon if self.num_steps is None else min(self.num_steps, self.system.horizon)

    @cached_property
    def _linear(self) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
        """x_t, u_t and e_t as matrices [rows, D] that multiply z; x has one more entry."""
        n, m, steps = self.system.num_states, self.system.num_controls, self.steps
        size = n + steps * (m + n)
        A, B = self.system.matrix("A"), self.system.matrix("B")
        x = np.zeros((n, size))
        x[:, :n] = self.system.start * np.eye(n)
        states, controls, explorations = [x], [], []
        for t in range(steps):
            first = n + t * (m + n)
            e, w = np.zeros((m, size)), np.zeros((n, size))
            e[:, first : first + m], w[:, first + m : first + m + n] = np.eye(m), np.eye(n)
            control = self.gain @ states[-1] + self.std * e
            states.append(A @ states[-1] + B @ control + self.system.noise * w)
            controls.append(control)
            explorations.append(e)
        return states, controls, explorations

    @cached_property
    def rewards(self) -> list[Form]:
        """Rewards of the T steps as quadratic forms."""
        Q, R = self.system.matrix("Q"), self.system.matrix("R")
        states, controls, _ = self._linear
        return [(-(x.T @ Q @ x + u.T @ R @ u), 0.0) for x, u in zip(states, controls)]

    @cached_property
    def advantages(self) -> list[Form]:
        """Generalized advantages Σ_l (γλ)^l δ_{t+l} as quadratic forms."""
        n = self.system.num_states
        curvature, constant = (np.zeros((n, n)), 0.0) if self.critic is None else self.critic
        states, _, _ = self._linear
        values = [(x.T @ curvature @ x, constant) for x in states]
        if self.steps == self.system.horizon:
            values[-1] = (np.zeros_like(values[-1][0]), 0.0)  # nothing follows the horizon
        advantage: Form = (np.zeros_like(values[0][0]), 0.0)
        backwards = []
        for t in reversed(range(self.steps)):
            matrix, shift = (
                reward + self.gamma * following - value + self.gamma * self.gae_lambda * later  # type: ignore[operator]
                for reward, following, value, later in zip(self.rewards[t], values[t + 1], values[t], advantage)
            )
            advantage = (matrix, shift)
            backwards.append(advantage)
        return backwards[::-1]

    @cached_property
    def scores(self) -> list[list[Form]]:
        """The quadratic part of ∇ log π(u_t|x_t), [T][parameters]: K row by row, then log σ of each action."""
        states, _, explorations = self._linear
        every = []
        for x, e in zip(states, explorations):
            gains = [(_symmetric(np.outer(ei, xj)) / self.std, 0.0) for ei in e for xj in x]
            every.append([*gains, *((np.outer(ei, ei), -1.0) for ei in e)])
        return every

    @cached_property
    def sample_means(self) -> Float[np.ndarray, "T P"]:
        """E[g_t]: of K row by row, log σ, and the offset of the mean, which is 0 by symmetry."""
        pairs = zip(self.scores, self.advantages)
        zeros = [0.0] * self.system.num_controls
        return np.array([[*(_mean_of_product((score, a)) for score in scores), *zeros] for scores, a in pairs])

    @cached_property
    def sample_covariances(self) -> Float[np.ndarray, "T T P"]:
        """Cov(g_s, g_t), parameter by parameter."""
        out = np.zeros((self.steps, self.steps, self.sample_means.shape[1]))
        for s in range(self.steps):
            for t in range(s, self.steps):
                out[s, t] = out[t, s] = self._products(s, t) - self.sample_means[s] * self.sample_means[t]
        return out

    def _products(self, s: int, t: int) -> Float[np.ndarray, " P"]:
        """E[g_s g_t], parameter by parameter. The score of the offset is e/σ: two of them make one quadratic form."""
        advantages = self.advantages[s], self.advantages[t]
        even = [_mean_of_product((a, b, *advantages)) for a, b in zip(self.scores[s], self.scores[t])]
        explorations = self._linear[2]
        pairs = zip(explorations[s], explorations[t])
        offset = [((_symmetric(np.outer(a, b)) / self.std**2), 0.0) for a, b in pairs]
        return np.array([*even, *(_mean_of_product((each, *advantages)) for each in offset)])

    @property
    def mean(self) -> Float[np.ndarray, " P"]:
        """E[G_B]: the mean over the T samples of a row."""
        return self.sample_means.mean(axis=0)

    def variance(self, num_envs: int = 1) -> tuple[float, float, float]:
        """tr Cov(G_B) of `num_envs` independent rows.

        Returns:
            (variance, individual, within rows): the second and third add up to the first.
        """
        traces = self.sample_covariances.sum(axis=-1)
        scale = num_envs * self.steps**2
        total, individual = float(traces.sum()) / scale, float(np.trace(traces)) / scale
        return total, individual, total - individual

    def noise_to_signal(self, num_envs: int = 1) -> float:
        """tr Cov(G_B) / |E[G_B]|²."""
        return self.variance(num_envs)[0] / float(self.mean @ self.mean)

    @property
    def expected_return(self) -> float:
        """E[Σ γ^t r_t] over the T steps."""
        return float(sum(self.gamma**t * np.trace(matrix) for t, (matrix, _) in enumerate(self.rewards)))


def _symmetric(matrix: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
    return (matrix + matrix.T) / 2


def _mean_of_product(forms: Sequence[Form]) -> float:
    """E[Π (z'M_i z + c_i)] for a standard normal z: the sum over partitions of products of joint cumulants."""
    matrices, constants = zip(*forms)
    products = (
        np.prod([_cumulant(matrices, constants, block) for block in blocks]) for blocks in _partitions(len(forms))
    )
    return float(sum(products))


def _cumulant(matrices: Sequence[np.ndarray], constants: Sequence[float], block: tuple[int, ...]) -> float:
    """Joint cumulant of the forms of a block."""
    if len(block) == 1:
        return float(np.trace(matrices[block[0]]) + constants[block[0]])
    first, *others = block
    total = 0.0
    for order in permutations(others):
        product = matrices[first]
        for k in order:
            product = product @ matrices[k]
        total += np.trace(product)
    return float(2 ** (len(block) - 1) * total)


def _partitions(size: int) -> Iterator[list[tuple[int, ...]]]:
    """All ways to divide 0, ..., size - 1 into blocks."""
    if size == 0:
        yield []
        return
    for smaller in _partitions(size - 1):
        last = size - 1
        yield [*smaller, (last,)]
        for k, block in enumerate(smaller):
            yield [*smaller[:k], (*block, last), *smaller[k + 1 :]]
