"""What can be said of a configuration before it runs: sizes, horizons and disk space against the rules of thumb."""

from __future__ import annotations

import math

from trimtab.advise.evidence import Evidence
from trimtab.advise.remedies import GAMMAS, Remedy, larger_batch
from trimtab.advise.rules import Observation, rule
from trimtab.config import Config
from trimtab.core.wording import steps
from trimtab.training.resource_estimates import format_bytes

MOST_PASSES = 2  # over a batch, where no ratio corrects for samples of an earlier policy
SAMPLES_PER_OUTPUT = 10  # of a minibatch, per policy output, as the notes have it
EPISODIC_BATCH = {  # samples per batch of REINFORCE
    "discrete": (2_000, 8_000),
    "continuous": (5_000, 20_000),
}
CONTINUOUS_BATCH = (2_000, 10_000)
EPISODES_PER_BATCH = (16, 64)
SHARES_OF_EPISODE = (0.25, 1.0)  # where 1/(1-γ) should be, in lengths of an episode
NEARLY = 2.0  # within this factor of a range is as good as inside


@rule("passes", "sizes", "sizes", "notes", applies=lambda evidence: not evidence.config.has_surrogate)
def _passes(evidence: Evidence) -> Observation:
    """REINFORCE with more than 2 epochs per batch."""
    config, count = evidence.config, evidence.config.update_epochs
    seen = f"{count} epochs over each batch" if count > 1 else "1 epoch over each batch"
    if count <= MOST_PASSES:
        return Observation("fine", seen, value=count)
    meaning = f"{config.traits.title} does not correct for samples of an earlier policy"
    fewer = Remedy("lower", "update_epochs", 1, f"use 1 or {MOST_PASSES} epochs ({{name}})")
    return Observation("watch", seen, meaning, (fewer,), count)


@rule(
    "minibatch",
    "sizes",
    "sizes",
    "notes",
    unknown="the action space of this environment is not known without loading it",
)
def _minibatch(evidence: Evidence) -> Observation | None:
    """Never; reports whether it has the 10 samples per policy output of the notes, which
    [our study](results/notes-minibatch.md) contradicts.
    """
    size, action = evidence.config.minibatch, evidence.action
    if action is None:
        return None
    outputs = "1 policy output" if action.size == 1 else f"{action.size} policy outputs"
    seen = f"{size:,} samples for {outputs}"
    if size >= SAMPLES_PER_OUTPUT * action.size:
        return Observation("fine", seen, value=size)
    meaning = (
        f"the tuning notes ask for {SAMPLES_PER_OUTPUT * action.size}, but in our study smaller minibatches learned "
        "faster at the same learning rate; no action needed"
    )
    return Observation("note", seen, meaning, value=size)


@rule("mixture", "sizes", "sizes", "notes")
def _mixture(evidence: Evidence) -> Observation:
    """One environment, so that a minibatch holds samples of one trajectory."""
    config = evidence.config
    if config.minibatch_by == "rows":
        held = max(1.0, config.rows_of_minibatch)
    else:
        held = config.num_envs * (1 - (1 - 1 / config.num_envs) ** config.minibatch)
    seen = f"a minibatch holds samples of {held:.3g} of {config.num_envs} environments on average"
    if config.num_envs > 1:
        return Observation("fine", seen, value=held)
    return Observation(
        "watch", seen, "samples of one trajectory are correlated", (Remedy("raise", "num_envs", 8),), held
    )


def _usual_batch(config: Config, kind: str) -> tuple[int, int] | None:
    """Samples of a batch, as the notes have it; several choices at once count as discrete."""
    if not config.uses_gae:
        return EPISODIC_BATCH.get(kind, EPISODIC_BATCH["discrete"])
    return CONTINUOUS_BATCH if kind == "continuous" else None


@rule("batch", "sizes", "sizes", "notes")
def _batch(evidence: Evidence) -> Observation | None:
    """REINFORCE outside 2,000 to 8,000 samples (discrete) or 5,000 to 20,000 (continuous); other algorithms with
    continuous actions outside 2,000 to 10,000.
    """
    config, action = evidence.config, evidence.action
    usual = _usual_batch(config, action.kind) if action else None
    if action is None or usual is None:
        return None
    low, high = usual
    seen = f"{config.batch:,} samples per batch; {action.kind} control usually takes {low:,} to {high:,}"
    if low <= config.batch <= high:
        return Observation("fine", seen, value=config.batch)
    if config.batch > high:
        smaller = Remedy("lower", "num_envs", words="if learning is slow, halve the batch (lower {name})")
        return Observation("watch", seen, "few updates per sample", (smaller,), config.batch)
    larger = larger_batch(config, -(-low // config.batch))
    return Observation("watch", seen, "updates are likely to be noisy", (larger,), config.batch)


@rule(
    "episodes",
    "sizes",
    "sizes",
    "notes",
    unknown="no episode has finished, so episodes per batch are not known",
    applies=lambda evidence: not evidence.config.uses_gae,
)
def _episodes(evidence: Evidence) -> Observation | None:
    """REINFORCE with fewer than 16 episodes per batch."""
    config, length = evidence.config, evidence.length
    if not length:
        return None
    count = config.batch / length.steps
    low, high = EPISODES_PER_BATCH
    seen = f"{'at least ' * length.is_limit}{count:.3g} episodes of {length} steps in a batch"
    if count >= low:
        return Observation("fine", seen, value=count)
    meaning = f"{low} to {high} are usual; with fewer, single long episodes dominate the gradient"
    if length.is_limit:
        return Observation("note", seen, f"{meaning}; a run shows how long episodes are", value=count)
    larger = larger_batch(config, int(-(-low // max(count, 1e-9))))
    return Observation("watch", seen, meaning, (larger,), count)


@rule("rollout", "sizes", "sizes", "post", applies=lambda evidence: evidence.config.uses_gae)
def _rollout(evidence: Evidence) -> Observation:
    """T below 1/(1 − γλ), the number of steps an advantage looks ahead."""
    config, reach = evidence.config, evidence.config.advantage_horizon
    if math.isinf(reach):
        seen = f"T = {config.num_steps} with γλ = 1: advantages reach to the end of the episode"
        return Observation(
            "watch", seen, "every rollout that ends before relies on the critic; measure the bias by a probe"
        )
    seen = f"T = {config.num_steps}; an advantage looks 1/(1-γλ) = {reach:.3g} steps ahead"
    share = config.num_steps / reach
    if share >= 1:
        return Observation("fine", seen, value=share)
    meaning = "the rollout cuts most advantages short, so they rely on the critic, which biases the gradient"
    longer = Remedy("raise", "num_steps", 2 ** math.ceil(math.log2(reach)), "take longer rollouts (raise {name})")
    return Observation("watch", seen, meaning, (longer,), share)


@rule("discount", "sizes", "sizes", "notes", unknown="no episode has finished and there is no time limit")
def _discount(evidence: Evidence) -> Observation | None:
    """1/(1 − γ) below a quarter of an episode or above a whole one, by more than a factor of 2; before any episode
    has ended, only above the time limit.
    """
    config, length = evidence.config, evidence.length
    if not length:
        return None
    low, high = (share * length.steps for share in SHARES_OF_EPISODE)
    least = 0.0 if length.is_limit else low  # episodes may be far shorter than their limit
    horizon = config.horizon
    seen = f"1/(1-γ) = {steps(horizon)} steps; episodes last {length} steps"
    if least / NEARLY <= horizon <= high * NEARLY:
        return Observation("fine", seen, value=horizon)
    fitting = [gamma for gamma in GAMMAS if low <= 1 / (1 - gamma) <= high * 1.0001]
    value = min(fitting, key=lambda gamma: abs(gamma - config.gamma), default=None)
    usual = f"a quarter to all of an episode is usual, {steps(low)} to {steps(high)} steps"
    if horizon < low:
        meaning = f"{usual}; the policy ignores later rewards"
        return Observation("watch", seen, meaning, (Remedy("raise", "gamma", value),), horizon)
    meaning = f"{usual}; returns are noisier than they need to be"
    return Observation("watch", seen, meaning, (Remedy("lower", "gamma", value),), horizon)


@rule("disk", "plan", "disk")
def _disk(evidence: Evidence) -> Observation | None:
    """Never; reports the disk space for checkpoints and logs (plan only)."""
    need = evidence.disk
    if need is None:
        return None
    seen = f"about {format_bytes(need.total)}: {need.checkpoints} checkpoints and the start, "
    seen += f"{format_bytes(need.checkpoint)} each ({need.parameters:,} parameters)"
    if need.checkpoints >= min(need.usual_checkpoints, evidence.config.iterations):
        return Observation("fine", seen, value=need.total)
    meaning = f"fewer than the usual {need.usual_checkpoints}, because they are large; --checkpoints changes the number"
    return Observation("note", seen, meaning, value=need.total)
