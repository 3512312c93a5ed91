"""Prompts and completions short enough to enumerate: the exact answers that `groups` estimates.

The policy writes strings of L tokens out of V, one after the other, from a prompt x_j and the token before:

    logits = A x_j + M[token before] + tanh(H x_j) · C

A prompt has a target; the reward counts the tokens that equal it, and the last token earns a bonus on some prompts. All
V^L strings are listed with their probabilities, score vectors and rewards, so every moment is a finite sum.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from trimtab.gradient.group_baselines import standardized

HIDDEN = 3


@dataclass(frozen=True)
class ExactTerms:
    """Exact B, W(K) and |G|² for groups of K samples, where prompts are drawn independently."""

    between: float
    within: float
    grad_sq: float


@dataclass(frozen=True, eq=False)
class StringTask:
    """All strings of every prompt: probabilities `[J, S]`, score vectors `[J, S, P]`, rewards `[J, S]`."""

    probability: Float[np.ndarray, "J S"]
    score: Float[np.ndarray, "J S P"]
    reward: Float[np.ndarray, "J S"]

    @classmethod
    def create(
        cls,
        prompts: int = 16,
        tokens: int = 3,
        length: int = 2,
        seed: int = 0,
        binary: bool = False,
        spread: float = 1.0,
    ) -> StringTask:
        """A task with random parameters.

        Args:
            prompts: how many prompts there are; each is drawn with the same probability.
            tokens: V.
            length: L.
            seed: of the parameters, prompts and targets.
            binary: whether the reward is 1 for the whole target and 0 otherwise.
            spread: how far prompts differ.

        Returns:
            The task, all strings listed.
        """
        rng = np.random.default_rng(seed)
        features = np.concatenate([np.ones((prompts, 1)), spread * rng.normal(size=(prompts, 2))], axis=1)
        matrix = 0.5 * rng.normal(size=(tokens, 3))
        before = 0.7 * rng.normal(size=(tokens + 1, tokens))
        hidden, out = rng.normal(size=(HIDDEN, 3)), 0.7 * rng.normal(size=(HIDDEN, tokens))
        target = rng.integers(0, tokens, size=(prompts, length))
        bonus = rng.random(prompts) < 0.5
        strings = np.array(list(itertools.product(range(tokens), repeat=length)))
        listed = [_listed(x, strings, matrix, before, hidden, out) for x in features]
        equal = strings[None] == target[:, None]
        reward = equal.all(axis=2) * 1.0 if binary else equal.sum(axis=2) + 1.5 * bonus[:, None] * equal[:, :, -1]
        return cls(np.stack([p for p, _ in listed]), np.stack([s for _, s in listed]), reward)

    def draw(
        self, num_groups: int, size: int, seed: int
    ) -> tuple[Float[np.ndarray, "samples P"], Int[np.ndarray, " samples"], Float[np.ndarray, " samples"]]:
        """Groups as an optimizer would see them.

        Args:
            num_groups: prompts drawn, with replacement.
            size: strings per prompt.
            seed: of the draw.

        Returns:
            Score vectors, numbers of groups and rewards.
        """
        rng = np.random.default_rng(seed)
        prompt = rng.integers(0, len(self.probability), num_groups)
        string = np.array([rng.choice(self.reward.shape[1], size, p=self.probability[j]) for j in prompt])
        flat = np.repeat(prompt, size), string.ravel()
        return self.score[flat], np.repeat(np.arange(num_groups), size), self.reward[flat]

    @cached_property
    def baseline(self) -> float:
        """A baseline from outside the groups: the mean reward over prompts."""
        return float((self.probability * self.reward).sum(axis=1).mean())

    def exact(self, advantages: str, size: int) -> ExactTerms:
        """B, W and |G|² by enumeration of everything that can happen.

        Args:
            advantages: as in `groups`; "none" takes `baseline` off every reward.
            size: K.

        Returns:
            The exact terms.
        """
        means, within = zip(*(self._group_moments(j, advantages, size) for j in range(len(self.probability))))
        gradient = np.mean(means, axis=0)
        between = np.mean([mean @ mean for mean in means]) - gradient @ gradient
        return ExactTerms(float(between), float(np.mean(within)), float(gradient @ gradient))

    def _group_moments(self, j: int, advantages: str, size: int) -> tuple[np.ndarray, float]:
        """E[U | prompt j] and Var(U | prompt j)."""
        p, s, r = self.probability[j], self.score[j], self.reward[j]
        if advantages == "none":
            g = (r - self.baseline)[:, None] * s
            mean = p @ g
            return mean, float(p @ np.sum(g**2, axis=1) - mean @ mean) / size
        if advantages in ("rloo", "mean"):
            h = 0.5 * (r[:, None] - r)[:, :, None] * (s[:, None] - s)
            mean = np.einsum("k,l,klp->p", p, p, h)
            one = np.einsum("l,klp->kp", p, h)
            one_sq = p @ np.sum(one**2, axis=1) - mean @ mean
            two_sq = np.einsum("k,l,klp->", p, p, h**2) - mean @ mean
            return mean, float(4 * (size - 2) * one_sq + 2 * two_sq) / (size * (size - 1))
        outcomes = np.array(list(itertools.product(range(len(p)), repeat=size)))
        chance = p[outcomes].prod(axis=1)
        weights = standardized(r[outcomes]) / size
        counts = np.zeros((len(outcomes), len(p)))
        for k in range(size):
            np.add.at(counts, (np.arange(len(outcomes)), outcomes[:, k]), weights[:, k])
        mean = chance @ counts @ s
        return mean, float(chance @ np.einsum("ol,lm,om->o", counts, s @ s.T, counts, optimize=True) - mean @ mean)


def _listed(x, strings, matrix, before, hidden, out) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and score vectors of all strings after one prompt."""
    active = np.tanh(hidden @ x)
    logits = matrix @ x + before + active @ out  # [token before, token]
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    chance, scores = np.zeros(len(strings)), []
    for i, string in enumerate(strings):
        parts = [np.zeros_like(matrix), np.zeros_like(before), np.zeros_like(hidden), np.zeros_like(out)]
        last = len(before) - 1  # nothing was written yet
        for token in string:
            chance[i] += log_p[last, token]
            miss = -np.exp(log_p[last])
            miss[token] += 1
            parts[0] += np.outer(miss, x)
            parts[1][last] += miss
            parts[2] += np.outer((out @ miss) * (1 - active**2), x)
            parts[3] += np.outer(active, miss)
            last = token
        scores.append(np.concatenate([part.ravel() for part in parts]))
    return np.exp(chance), np.array(scores)
