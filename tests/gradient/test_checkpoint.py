"""Which checkpoint is measured when none is named."""

import numpy as np
import polars as pl
import pytest

from trimtab.core.errors import RunError
from trimtab.gradient.checkpoint_choice import choose
from trimtab.training.records import Checkpoint


class FakeRun:
    """Checkpoints every 100 steps, and an episode every 2 steps with a return of its time."""

    path = "somewhere"

    def __init__(self, level, steps=(0, 100, 200, 300, 400)):
        at = np.arange(1, 401, 2)
        noise = np.random.default_rng(0).normal(size=len(at))
        self.episodes = pl.DataFrame({"step": at, "return": np.vectorize(level, otypes=[float])(at) + noise})
        self.checkpoints = [Checkpoint(step, None, {}) for step in steps]


@pytest.mark.parametrize(
    "level, step, said",
    [
        (lambda t: 0.1 * t, 400, "still changing"),
        (lambda t: 0.1 * min(t, 200), 200, "the last checkpoint after which"),
        (lambda t: 20.0 * (t > 350), 400, "still changing"),
        (lambda t: 20.0 * (t > 50), 100, "the last checkpoint after which"),
        (lambda t: 0.1 * min(t, 40), 100, "the last checkpoint after which"),
        (lambda t: 7.0, 400, "never measurably changed"),
        (lambda t: -0.1 * max(t - 250, 0), 400, "still changing"),
    ],
)
def test_the_last_one_after_which_the_return_changed(level, step, said):
    chosen = choose(FakeRun(level))
    assert chosen.step == step and said in chosen.reason and f"step {step:,}" in chosen.reason


def test_a_run_with_few_checkpoints_or_none():
    assert choose(FakeRun(lambda t: 20.0 * (t > 200), steps=(0, 400))).step == 400
    assert choose(FakeRun(lambda t: 1.0 * t, steps=(0,))).step == 0
    with pytest.raises(RunError, match="no checkpoint"):
        choose(FakeRun(lambda t: 0.0, steps=()))
