"""Small finite MDPs with known structure, for tests."""

from __future__ import annotations

import numpy as np

from trimtab.envs.tabular_backend import FiniteMDP


def sticky_chain(stay: float = 0.9, tilt: float = 0.05, time_limit: int | None = None) -> FiniteMDP:
    """Three states on a ring that tend to stay where they are; action 1 tilts the drift forward, 0 backward.

    Rewards differ by state, no outcome terminates, and every state reaches every other.
    """
    states = np.arange(3)
    next_state = np.stack([states, (states + 1) % 3, (states - 1) % 3], axis=-1)
    half = (1 - stay) / 2
    drift = np.array([[stay, half - tilt / 2, half + tilt / 2], [stay, half + tilt / 2, half - tilt / 2]])
    prob = np.broadcast_to(drift, (3, 2, 3))
    reward = np.array([0.0, 1.0, -0.5])[:, None, None]
    return FiniteMDP.from_arrays(
        prob, next_state[:, None, :], reward, False, np.full(3, 1 / 3), time_limit, "sticky-chain"
    )
