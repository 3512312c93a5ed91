"""REINFORCE (Williams 1992): what followed each action, or how much better it was than a learned baseline."""

from __future__ import annotations

from jaxtyping import Array, Bool, Float

from trimtab.math import returns
from trimtab.training.rollout import Rollout


def advantages(
    rollout: Rollout,
    reward: Float[Array, "T N"],
    value: Float[Array, "T N"] | None,
    next_value: Float[Array, "T N"] | None,
    gamma: Float[Array, ""],
) -> tuple[Float[Array, "T N"], Float[Array, "T N"], Bool[Array, "T N"]]:
    """(advantage, value target, which samples count).

    With a baseline a cut rollout is bootstrapped (λ = 1). Without one, only the first episode of each row counts: rows
    start from reset and are at least as long as the time limit, so those episodes are whole, and long ones are not
    left out more often than short ones.
    """
    if value is not None and next_value is not None:
        advantage, target = returns.gae(
            reward, value, next_value, rollout.terminated, rollout.truncated, gamma, 1.0, rollout.valid
        )
        return advantage, target, rollout.valid
    whole = (returns.episode_index(rollout.terminated, rollout.truncated) == 0) & rollout.valid
    followed = returns.reward_to_go(reward, rollout.terminated, rollout.truncated, gamma)
    return followed, followed, whole
