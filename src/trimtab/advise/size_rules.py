"""What can be said of a configuration before it runs: sizes and horizons against the rules of thumb."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from trimtab.advise import ladders
from trimtab.advise.finding import Finding, feasible
from trimtab.config import Config
from trimtab.core.wording import steps

FEWEST_MINIBATCHES = 4
MOST_PASSES = 2  # over a batch, where no ratio corrects for the policy having moved on
SAMPLES_PER_ACTION = 10  # least samples of a minibatch per action dimension
EPISODIC_BATCH = {
    "discrete": (2_000, 8_000),
    "continuous": (5_000, 20_000),
}  # of REINFORCE; several choices at once: discrete
CONTINUOUS_BATCH = (2_000, 10_000)
EPISODES_PER_BATCH = (16, 64)
SHARES_OF_EPISODE = (0.25, 1.0)  # where 1/(1-γ) should lie, in lengths of an episode
NEARLY = 2.0  # within this factor of a range is as good as inside


class Action(NamedTuple):
    """What the policy chooses: how many actions, or how many numbers."""

    kind: str
    size: int


class Length(NamedTuple):
    """How long episodes are: as measured, or, where none has finished, at most as long as the time limit."""

    steps: float
    is_limit: bool = False

    def __str__(self) -> str:
        return f"{'at most ' * self.is_limit}{steps(self.steps)}"


def check_sizes(config: Config, action: Action | None, length: Length | None) -> Iterator[Finding]:
    """Every rule about sizes; `length` of episodes, where it is known."""
    return feasible(_rules(config, action, length), config)


def _rules(config: Config, action: Action | None, length: Length | None) -> Iterator[Finding]:
    if not config.has_surrogate:
        yield _passes(config)
    yield _minibatches(config)
    yield _minibatch(config, action)
    yield _mixture(config)
    yield from _batch(config, action)
    if config.uses_gae:
        yield _rollout(config)
    else:
        yield _episodes(config, length)
    yield _discount(config, length)


def _minibatches(config: Config) -> Finding:
    count = config.minibatches
    statement = f"{count} per epoch, of {config.minibatch:,} samples"
    if count >= FEWEST_MINIBATCHES or not config.has_surrogate:
        return Finding("minibatches", "fine", statement, source="notes", value=count)
    divisor = next((n for n in range(FEWEST_MINIBATCHES, 33) if config.batch % n == 0), None)
    change = {} if divisor is None else {"num_minibatches": divisor}
    return Finding("minibatches", "watch", statement, "use at least 4 to 10 per epoch", change, "notes", count)


def _passes(config: Config) -> Finding:
    count = config.update_epochs
    statement = f"{count} over each batch"
    if count <= MOST_PASSES:
        return Finding("passes", "fine", statement, source="notes", value=count)
    advice = (
        f"prefer 1 or {MOST_PASSES}: nothing corrects {config.traits.title} for samples of a policy it has left behind"
    )
    return Finding("passes", "watch", statement, advice, {"update_epochs": 1}, "notes", count)


def _minibatch(config: Config, action: Action | None) -> Finding:
    if action is None:
        return Finding("minibatch", "unknown", "the action space of this environment is not known without loading it")
    least = SAMPLES_PER_ACTION * action.size
    outputs = "1 policy output" if action.size == 1 else f"{action.size} policy outputs"
    statement = f"{config.minibatch:,} samples for {outputs}"
    if config.minibatch >= least:
        return Finding("minibatch", "fine", statement, source="notes", value=config.minibatch)
    advice = f"take at least {least} samples (10 per output) in a gradient step"
    count = max(
        (n for n in range(1, config.batch + 1) if config.batch % n == 0 and config.batch // n >= least), default=0
    )
    return Finding(
        "minibatch", "act", statement, advice, {"num_minibatches": count} if count else {}, "notes", config.minibatch
    )


def _mixture(config: Config) -> Finding:
    if config.minibatch_by == "rows":
        held = max(1.0, config.rows_of_minibatch)
    else:
        held = config.num_envs * (1 - (1 - 1 / config.num_envs) ** config.minibatch)
    statement = f"a minibatch holds samples of {held:.3g} of {config.num_envs} environments on average"
    if config.num_envs > 1:
        return Finding("mixture", "fine", statement, source="notes", value=held)
    advice = "with one environment a batch is one trajectory: its samples share their luck"
    return Finding("mixture", "watch", statement, advice, {"num_envs": 8}, "notes", held)


def _batch(config: Config, action: Action | None) -> Iterator[Finding]:
    if action is None:
        return
    if not config.uses_gae:
        low, high = EPISODIC_BATCH.get(action.kind, EPISODIC_BATCH["discrete"])
    elif action.kind == "continuous":
        low, high = CONTINUOUS_BATCH
    else:
        return
    statement = f"{config.batch:,} samples per update; {action.kind} control usually takes {low:,} to {high:,}"
    if low <= config.batch <= high:
        yield Finding("batch", "fine", statement, source="notes", value=config.batch)
    elif config.batch < low:
        factor = -(-low // config.batch)
        advice = (
            f"noisy updates are likely; {factor} times the environments reach it (trimtab rescale adjusts the rest)"
        )
        yield Finding(
            "batch", "watch", statement, advice, {"num_envs": config.num_envs * factor}, "notes", config.batch
        )
    else:
        advice = "few updates per sample: if learning crawls, halve the batch"
        yield Finding("batch", "watch", statement, advice, source="notes", value=config.batch)


def _episodes(config: Config, length: Length | None) -> Finding:
    if not length:
        return Finding("episodes", "unknown", "no episode has finished, so episodes per batch are not known")
    count = config.batch / length.steps
    low, high = EPISODES_PER_BATCH
    statement = f"{'at least ' * length.is_limit}{count:.3g} episodes of {length} steps in a batch"
    if count >= low:
        return Finding("episodes", "fine", statement, source="notes", value=count)
    advice = f"take {low} to {high}: fewer long episodes dominate a batch"
    if length.is_limit:
        return Finding("episodes", "note", statement, f"{advice}; a run shows how long they are", {}, "notes", count)
    factor = -(-low // max(count, 1e-9))
    return Finding("episodes", "watch", statement, advice, {"num_envs": int(config.num_envs * factor)}, "notes", count)


def _rollout(config: Config) -> Finding:
    reach = config.advantage_horizon
    if math.isinf(reach):
        statement = f"T = {config.num_steps} with γλ = 1: advantages reach to the end of the episode"
        advice = "every cut leaves the rest to the critic; trimtab probe measures the bias"
        return Finding("rollout", "watch", statement, advice, source="post")
    statement = f"T = {config.num_steps} against the reach of an advantage, 1/(1-γλ) = {reach:.3g} steps"
    share = config.num_steps / reach
    if share >= 1:
        return Finding("rollout", "fine", statement, source="post", value=share)
    advice = "most advantages are cut short and lean on the critic: bias; trimtab split measures what that costs"
    longer = 2 ** math.ceil(math.log2(reach))
    return Finding("rollout", "watch", statement, advice, {"num_steps": longer}, "post", share)


def _discount(config: Config, length: Length | None) -> Finding:
    if not length:
        return Finding("discount", "unknown", "no episode has finished and there is no time limit")
    horizon = config.horizon
    low, high = (share * length.steps for share in SHARES_OF_EPISODE)
    least = 0.0 if length.is_limit else low  # episodes may be far shorter than their limit
    statement = f"1/(1-γ) = {steps(horizon)} steps; episodes last {length}"
    fitting = [g for g in ladders.GAMMAS if low <= 1 / (1 - g) <= high * 1.0001]
    if least / NEARLY <= horizon <= high * NEARLY:
        return Finding("discount", "fine", statement, source="notes", value=horizon)
    change = {"gamma": min(fitting, key=lambda g: abs(g - config.gamma))} if fitting else {}
    way = "too short-sighted is cured by a higher γ" if horizon < low else "fuzzy credit is cured by a lower γ"
    advice = f"a quarter to all of an episode is usual ({steps(low)} to {steps(high)}): {way}"
    return Finding("discount", "watch", statement, advice, change, "notes", horizon)
