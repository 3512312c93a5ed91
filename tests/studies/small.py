"""Two studies of the sources at sizes that take seconds."""

import re
from pathlib import Path

import polars as pl

from trimtab.experiments.notes import reward_to_go
from trimtab.experiments.paper import proximal_age, suite


def small_grid(patch):
    """`paper/proximal-age`: eight short runs of PPG-EWMA."""
    patch.setattr(suite, "COMMON", suite.COMMON | {"num_steps": 8, "hidden_sizes": (4,), "num_minibatches": 2})
    phases = {"policy_iterations": 2, "aux_epochs": 1, "aux_minibatch_size": 8}
    patch.setattr(suite, "PHASIC", suite.PHASIC | phases)
    patch.setattr(suite, "SUITE", (suite._Environment("CartPole-v1", 0.0, 500.0, 8192, 8192),))
    patch.setitem(suite.BATCHES, "quick", (8, 2))
    patch.setitem(proximal_age.SIDE, "quick", 2)
    patch.setattr(suite, "SEEDS", 2)
    return proximal_age.ProximalAge(size="quick")


def small_variances(patch):
    """`notes/reward-to-go`: exact variances along two short runs."""
    patch.setitem(reward_to_go.STEPS, "quick", 1024)
    patch.setitem(reward_to_go.SEEDS, "quick", 2)
    patch.setattr(reward_to_go, "LIMITS", {"FrozenLake-v1": 20})
    return reward_to_go.RewardToGo(size="quick")


def shown(out: Path):
    """All that a study's directory shows, but for the time it took."""
    page = re.sub(r"[^>]* of work, [^<]* on the clock", "", (out / "page.html").read_text())
    tables = {file.name: pl.read_parquet(file).to_dicts() for file in sorted((out / "tables").glob("*.parquet"))}
    return page, tables, (out / "result.json").read_text()
