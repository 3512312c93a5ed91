"""Settings far outside what is used anywhere: each is a cause, so these rules come before those that read symptoms.

A threshold lies outside every preset here, RL Zoo's tuned hyperparameters and the defaults of the libraries in
`libraries/`. What is unusual but works stays a word: `act` becomes `watch` where returns rise, and `note` where the run
reached its goal.
"""

from __future__ import annotations

import math

import numpy as np

from trimtab.advise.evidence import Evidence
from trimtab.advise.remedies import ENTROPY, Remedy
from trimtab.advise.rules import Observation, rule
from trimtab.advise.rules.stability_rules import clips_much
from trimtab.config import Config

RATES = (2e-5, 6e-3)  # Adam's step sizes; RL Zoo's lowest is 2.06e-5
USUAL_RATES = (3e-4, 1e-3)  # what to try instead of a lower, of a higher one
WIDEST_CLIP, USUAL_CLIP = 0.5, 0.2
MOST_EPOCHS, USUAL_EPOCHS = 30, 10  # RL Zoo's most are 20
FEW_STEPS, USUAL_STEPS, FEWEST_MINIBATCHES = 8, 16, 4  # gradient steps on a batch; minibatches of an epoch
VALUE_COEFFICIENTS, USUAL_VALUE_COEFFICIENT = 10.0, 0.5
LARGEST_BONUS = {"discrete": 0.2, "continuous": 0.1}
SHORTEST_HORIZON = 5.0  # steps, 1/(1 - γ): every tuned γ of RL Zoo is at least 0.9
LONGEST_REACH = 2_000.0  # steps, 1/(1 - γλ)
SHORT_ROLLOUT = 0.5  # of the steps that an advantage looks ahead
FEWEST_STEPS = 8  # of a rollout
SCALES = (0.05, 20.0)  # of advantages, where nothing normalizes them
NARROWEST = -3.0  # initial log standard deviation of Gaussian actions


def _surrogate(evidence: Evidence) -> bool:
    return evidence.config.has_surrogate


@rule(
    "learning rate",
    "settings",
    "settings",
    applies=lambda e: _surrogate(e) and e.config.anneal_lr != "adaptive" and e.config.optimizer_kind.scale_free,
)
def _learning_rate(evidence: Evidence) -> Observation | None:
    """Above 6e-3 or below 2e-5 (Adam).

    Try: 1e-3; 3e-4.
    """
    rate, (low, high) = evidence.config.learning_rate, RATES
    if low <= rate <= high:
        return None
    lowest, highest = USUAL_RATES
    seen = f"the learning rate is {rate:.2g}; with Adam, 1e-4 to 3e-3 is usual"
    if rate > high:
        return Observation("act", seen, "updates are too large", (Remedy("lower", "learning_rate", highest),), rate)
    return Observation("act", seen, "updates are too small", (Remedy("raise", "learning_rate", lowest),), rate)


@rule(
    "clip range",
    "settings",
    "settings",
    applies=lambda e: e.config.surrogate_kind is not None and e.config.surrogate_kind.clips,
)
def _clip_range(evidence: Evidence) -> Observation | None:
    """Above 0.5.

    Try: 0.2.
    """
    coefficient = evidence.config.clip_coef
    if coefficient <= WIDEST_CLIP:
        return None
    seen = f"ratios are clipped to 1 ± {coefficient:g}; 0.1 to 0.4 is usual"
    narrower = Remedy("lower", "clip_coef", USUAL_CLIP)
    return Observation("act", seen, "nothing limits how far an update moves the policy", (narrower,), coefficient)


@rule("epochs", "settings", "settings", applies=_surrogate)
def _epochs(evidence: Evidence) -> Observation | None:
    """More than 30.

    Try: 10.
    """
    count = evidence.config.update_epochs
    if count <= MOST_EPOCHS:
        return None
    seen = f"{count} epochs over each batch; 1 to 20 is usual"
    return Observation(
        "act", seen, "updates fit single batches", (Remedy("lower", "update_epochs", USUAL_EPOCHS),), count
    )


def _more_minibatches(config: Config) -> int | None:
    """The fewest minibatches that divide the batch and give the usual number of gradient steps."""
    fewest = max(FEWEST_MINIBATCHES, -(-USUAL_STEPS // config.update_epochs))
    return next((n for n in range(fewest, config.batch + 1) if config.batch % n == 0), None)


@rule("gradient steps", "settings", "sizes", applies=_surrogate)
def _gradient_steps(evidence: Evidence) -> Observation | None:
    """Fewer than 8 on each batch (minibatches × epochs), or (watch) fewer than 16 and fewer than 4 minibatches, while
    few updates are clipped: [in our study](results/notes-minibatch.md) more steps at the same learning rate learned
    faster.

    Try: smaller minibatches.
    """
    config = evidence.config
    count = config.minibatches * config.update_epochs
    number = f"{config.minibatches} {'minibatch' if config.minibatches == 1 else 'minibatches'}"
    seen = f"{count} gradient {'step' if count == 1 else 'steps'} on each batch of {config.batch:,} samples "
    seen += f"({number} × {config.update_epochs} {'epoch' if config.update_epochs == 1 else 'epochs'})"
    few = count < FEW_STEPS or (count < USUAL_STEPS and config.minibatches < FEWEST_MINIBATCHES)
    if not few or clips_much(evidence):
        return Observation("fine", seen, value=count)
    smaller = Remedy("raise", "num_minibatches", _more_minibatches(config), "use smaller minibatches ({name})")
    meaning = f"{USUAL_STEPS} and more learned faster at the same learning rate"
    return Observation("act" if count < FEW_STEPS else "watch", seen, meaning, (smaller,), count)


@rule("value coefficient", "settings", "settings", applies=lambda e: e.config.needs_value)
def _value_coefficient(evidence: Evidence) -> Observation | None:
    """Above 10.

    Try: 0.5.
    """
    weight = evidence.config.vf_coef
    if weight <= VALUE_COEFFICIENTS:
        return None
    seen = f"the value loss counts {weight:g} times; 0.2 to 2.5 is usual"
    meaning = "gradient clipping leaves almost nothing of the policy's gradient"
    smaller = Remedy("lower", "vf_coef", USUAL_VALUE_COEFFICIENT)
    return Observation("act", seen, meaning, (smaller,), weight)


@rule("entropy bonus", "settings", "settings")
def _entropy_bonus(evidence: Evidence) -> Observation | None:
    """Above 0.2 (discrete actions) or 0.1 (continuous).

    Try: 0.01; 0.001.
    """
    kind = evidence.action.kind if evidence.action and evidence.action.kind in ENTROPY else "discrete"
    weight, most = evidence.config.ent_coef, LARGEST_BONUS[kind]
    if weight <= most:
        return None
    seen = f"the entropy bonus counts {weight:g} times; {ENTROPY[kind]:g} is usual for {kind} actions"
    return Observation("act", seen, "it rewards random actions", (Remedy("lower", "ent_coef", ENTROPY[kind]),), weight)


@rule("short horizon", "settings", "settings")
def _short_horizon(evidence: Evidence) -> Observation | None:
    """1/(1 − γ) is below 5 steps, and episodes are more than twice as long.

    Try: γ = 0.99.
    """
    horizon, length = evidence.config.horizon, evidence.length
    if horizon >= SHORTEST_HORIZON or (length and not length.is_limit and length.steps <= 2 * horizon):
        return None
    seen = f"γ = {evidence.config.gamma:g} looks {horizon:.2g} steps ahead"
    return Observation("act", seen, "the policy ignores later rewards", (Remedy("raise", "gamma", 0.99),), horizon)


@rule("long reach", "settings", "settings", applies=lambda e: e.config.uses_gae)
def _long_reach(evidence: Evidence) -> Observation | None:
    """1/(1 − γλ) is above 2,000 steps.

    Try: λ = 0.95.
    """
    config, reach = evidence.config, evidence.config.advantage_horizon
    if reach <= LONGEST_REACH:
        return None
    seen = f"γλ = {config.gamma * config.gae_lambda:.5g}: advantages sum rewards to the end of the episode"
    shorter = Remedy("lower", "gae_lambda", 0.95)
    return Observation("act", seen, "advantages are very noisy", (shorter,), None if math.isinf(reach) else reach)


@rule("short rollouts", "settings", "sizes", "post", applies=lambda e: e.config.uses_gae)
def _short_rollouts(evidence: Evidence) -> Observation | None:
    """T is below 8, and below half of the 1/(1 − γλ) steps that an advantage looks ahead.

    Try: longer rollouts.
    """
    config, reach = evidence.config, min(evidence.config.advantage_horizon, 128.0)
    if config.num_steps >= FEWEST_STEPS or config.num_steps >= SHORT_ROLLOUT * reach:
        return None
    seen = f"rollouts have {config.num_steps} steps; an advantage looks {reach:.3g} steps ahead"
    longer = Remedy("raise", "num_steps", 2 ** math.ceil(math.log2(2 * reach)), "take longer rollouts (raise {name})")
    return Observation(
        "act", seen, "advantages rely on the critic, which biases the gradient", (longer,), config.num_steps
    )


@rule("raw advantages", "settings", "settings", applies=lambda e: _surrogate(e) and e.config.norm_adv == "none")
def _raw_advantages(evidence: Evidence) -> Observation | None:
    """They are not normalized, and their standard deviation (else the root of the value loss) is above 20 or below
    0.05.

    Try: normalize them.
    """
    scale = _advantage_scale(evidence)
    if scale is None or SCALES[0] <= scale <= SCALES[1]:
        return None
    seen = f"advantages are not normalized, and their standard deviation is about {scale:.2g} instead of 1"
    ways = ("batch", "minibatch")  # some libraries have only the second
    normalized = tuple(Remedy("set", "norm_adv", way, "normalize advantages ({name})") for way in ways)
    return Observation("act", seen, "the size of updates follows that of the rewards", normalized, scale)


def _advantage_scale(evidence: Evidence) -> float | None:
    """The median standard deviation of advantages; where it is not recorded, the root of the value loss."""
    if len(recorded := evidence.settled("train/adv_std")):
        return float(np.median(recorded))
    losses = evidence.settled("train/value_loss")
    return float(np.sqrt(max(np.median(losses), 0.0))) if len(losses) else None


@rule("initial width", "settings", "settings", applies=lambda e: e.action is not None and e.action.kind == "continuous")
def _initial_width(evidence: Evidence) -> Observation | None:
    """Gaussian actions start with a log standard deviation below −3.

    Try: 0.
    """
    width = evidence.config.log_std_init
    if width >= NARROWEST:
        return None
    seen = f"actions start with a standard deviation of {math.exp(width):.2g}"
    wider = Remedy("raise", "log_std_init", 0.0, "start with a wider policy (raise {name})")
    return Observation("act", seen, "the policy hardly explores", (wider,), width)
