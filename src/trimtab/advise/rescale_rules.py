"""The adjustments of a rescaling, one function each: what it sets, by which rule, and why.

Source: Hilton, Cobbe & Schulman 2021 (arXiv 2110.00641), "the paper", unless a rule says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from trimtab.config import Config, nearest_divisors
from trimtab.core.fields import declared_of

Rule = Literal["invariant", "linear", "none", "fixed-inner"]


@dataclass(frozen=True)
class Change:
    """One row of the table: a field (or a quantity that follows from fields), before and after, and the reason."""

    field: str
    before: Any
    after: Any
    rule: str
    why: str

    @property
    def changed(self) -> bool:
        return self.before != self.after


class Size(NamedTuple):
    """N, T and minibatches per epoch; the rest follows."""

    num_envs: int
    num_steps: int
    minibatches: int

    @property
    def batch(self) -> int:
        return self.num_envs * self.num_steps

    @property
    def minibatch(self) -> int:
        return self.batch // self.minibatches


@dataclass
class Work:
    """What the adjustments read (old, factors) and write (values, reasons, warnings)."""

    old: Config
    size: Size
    rule: Rule
    adam_betas: bool
    workers: tuple[int, int]
    values: dict[str, Any] = field(default_factory=dict)
    reasons: dict[str, tuple[str, str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    exact: bool = True

    @property
    def c_opt(self) -> Fraction:
        return Fraction(self.old.minibatch, self.size.minibatch)

    @property
    def c_iter(self) -> Fraction:
        return Fraction(self.old.batch, self.size.batch)

    def set(self, name: str, value: Any, rule: str, why: str) -> None:
        self.values[name] = value
        self.reasons[name] = (rule, why)

    def clamp(self, name: str, rule_value: Fraction | float, got: float, why: str) -> None:
        """Say that a rule asked for what cannot be had."""
        self.exact = False
        self.warnings.append(f"{name}: the rule gives {float(rule_value):.6g}, {got:.6g} is used: {why}")

    def rows(self, new: Config) -> list[Change]:
        named = self.reasons.items()
        return [Change(name, effective(self.old, name), effective(new, name), *reason) for name, reason in named]


def effective(config: Config, name: str) -> Any:
    """A field's value, or what stands in for one that is not given."""
    stand_in = {
        "num_minibatches": "minibatches",
        "minibatch_size": "minibatch",
        "prox_com": "proximal_com",
        "aux_minibatch_size": "aux_minibatch",
    }
    return getattr(config, stand_in.get(name, name))


def _step_divisor(work: Work, c: Fraction) -> tuple[float, str]:
    """√c for Adam, c for SGD (the paper, section 3 and Appendix D) and for Adam under `linear`."""
    linear = work.old.optimizer_kind.step_divisor == "c" or work.rule == "linear"
    return (float(c), "c") if linear else (math.sqrt(c), "√c")


def _learning_rate(work: Work) -> None:
    """α / √c_opt for Adam, α / c_opt for SGD: the paper, section 4; `linear` divides Adam's by c_opt too."""
    divisor, symbol = _step_divisor(work, work.c_opt)
    linear = "the linear ablation for Adam (the paper, Appendix D: worse at small batches)"
    why = work.old.optimizer_kind.why if symbol == work.old.optimizer_kind.step_divisor else linear
    for name in ("learning_rate", "value_learning_rate"):
        if getattr(work.old, name) is not None:
            work.set(name, getattr(work.old, name) / divisor, f"÷ {symbol}_opt", why)
    if work.old.anneal_lr == "adaptive":
        start = "where it starts; the schedule itself moves it from then on, by the KL"
        work.set("learning_rate", work.values["learning_rate"], f"÷ {symbol}_opt", start)


def _adam_betas(work: Work) -> None:
    """β^(1/c_opt): averages over the same number of samples (the paper, Appendix E; it leaves them alone otherwise)."""
    for name in ("adam_beta1", "adam_beta2"):
        highest = declared_of(Config, name).high
        if not work.adam_betas:
            work.reasons[name] = (
                "kept",
                "as in the paper; adam_betas=true raises it to the power 1/c_opt (Appendix E)",
            )
            continue
        beta = getattr(work.old, name) ** float(1 / work.c_opt)
        if beta > highest:
            work.clamp(name, beta, highest, "the highest allowed")
        why = "the moments average over the same samples (the paper, Appendix E)"
        work.set(name, min(beta, highest), "power 1/c_opt", why)


def _prox_com(work: Work) -> None:
    """COM × c_opt: the proximal policy's age in environment steps stays (the paper, section 4)."""
    after = float(Fraction(work.old.proximal_com) * work.c_opt)
    standing = work.old.prox_com is None and after == work.size.minibatches * work.old.update_epochs
    why = "the proximal policy's age stays, in environment steps (the paper, section 4)"
    work.set("prox_com", None if standing else after, "× c_opt", why)


def _norm_adv(work: Work) -> None:
    """Span × c_iter, at least 1: moments over the same number of samples (the paper, section 4).

    Span 1 is whole-batch normalization: `batch` counts as span 1, and a span that comes out as 1 is written as `batch`.
    """
    scaled_span = Fraction(work.old.norm_adv_span) * work.c_iter
    span = max(1.0, float(scaled_span))
    if scaled_span < 1 and not math.isclose(scaled_span, 1.0, rel_tol=1e-12):
        work.clamp("norm_adv_span", scaled_span, 1.0, "no fewer than one iteration, the whole batch")
    if math.isclose(span, 1.0, rel_tol=1e-12):
        span = 1.0
    kind = work.old.norm_adv if work.c_iter == 1 else "batch" if span == 1.0 else "ewma"
    why = "as many samples behind the advantages' mean and deviation (the paper, section 4)"
    work.set("norm_adv", kind, "by span", "a span of 1 iteration is the whole batch, longer ones are an EWMA")
    work.set("norm_adv_span", span, "× c_iter", why)


def _policy_iterations(work: Work) -> None:
    """N_π × c_iter, a whole number of at least 1: the phase batch stays (the paper, section 4)."""
    scaled_count = work.old.policy_iterations * work.c_iter
    most = max(1, work.old.total_timesteps // work.size.batch)
    count = min(max(1, round(scaled_count)), most)
    if count != scaled_count:
        phase = f"the phase batch becomes {count * work.size.batch:,} samples (was {work.old.phase_batch:,})"
        work.clamp("policy_iterations", scaled_count, count, phase)
    work.set("policy_iterations", count, "× c_iter", "the phase batch stays (the paper, section 4)")


def _auxiliary(work: Work) -> None:
    """`constant`: minibatch and step size stay. `paper`: minibatch per worker stays, step size by √ (Appendix B)."""
    before, now = work.workers
    c = Fraction(before, now)
    scaled_size = work.old.aux_minibatch / c
    phase = work.size.batch * work.values.get("policy_iterations", work.old.policy_iterations)
    size = min(nearest_divisors(phase, max(1, round(scaled_size))), key=lambda d: abs(d - scaled_size))
    if size != scaled_size:
        work.clamp("aux_minibatch_size", scaled_size, size, f"it must divide the phase batch {phase:,}")
    standing = work.old.aux_minibatch_size is None and size == work.size.minibatch
    divisor, symbol = _step_divisor(work, c)
    why = "small auxiliary minibatches would take too long (the paper, Appendix B)"
    rule = f"× {now}/{before} workers" if c != 1 else "kept"
    work.set("aux_minibatch_size", None if standing else size, rule, f"{why}: samples per worker stay")
    rule = f"÷ {symbol}, c = {before}/{now} workers" if c != 1 else "kept"
    why = "follows the auxiliary minibatch, which only workers change (the paper, Appendix B)"
    work.set("aux_learning_rate", work.old.aux_learning_rate / divisor, rule, why)


def _max_grad_norm(work: Work) -> None:
    """× √c_opt: the norm of a gradient that is mostly noise grows so. Not from the paper."""
    why = "the norm of a noisy gradient grows so; not from the paper, which does not clip"
    work.set("max_grad_norm", work.old.max_grad_norm * math.sqrt(work.c_opt), "× √c_opt", why)
    if work.old.is_ppg and work.c_opt != 1:
        work.warnings.append(
            "max_grad_norm also clips the auxiliary phase, whose minibatch does not follow; skip it to keep it"
        )


def _weight_decay(work: Work) -> None:
    """÷ √c_opt where the step size is, so that step size × decay falls by c_opt; a step size ÷ c_opt does so alone."""
    if _step_divisor(work, work.c_opt)[1] == "c":
        work.reasons["weight_decay"] = ("kept", "the step size, which multiplies it, falls by c_opt already")
        return
    why = "step size × decay falls by c_opt, and shrinks weights as much per sample; not from the paper"
    work.set("weight_decay", work.old.weight_decay / math.sqrt(work.c_opt), "÷ √c_opt", why)


class Adjustment(NamedTuple):
    """What can be skipped by name: the fields it sets, the configurations it is for, and how."""

    fields: tuple[str, ...]
    applies: Callable[[Config], bool]
    adjust: Callable[[Work], None]


ADJUSTMENTS: dict[str, Adjustment] = {
    "learning_rate": Adjustment(("learning_rate", "value_learning_rate"), lambda c: True, _learning_rate),
    "adam_betas": Adjustment(
        ("adam_beta1", "adam_beta2"), lambda c: "adam_beta1" in c.optimizer_kind.fields, _adam_betas
    ),
    "prox_com": Adjustment(("prox_com",), lambda c: c.is_ewma, _prox_com),
    "norm_adv": Adjustment(("norm_adv", "norm_adv_span"), lambda c: c.norm_adv in ("batch", "ewma"), _norm_adv),
    "policy_iterations": Adjustment(("policy_iterations",), lambda c: c.is_ppg, _policy_iterations),
    "auxiliary": Adjustment(("aux_minibatch_size", "aux_learning_rate"), lambda c: c.is_ppg, _auxiliary),
    "max_grad_norm": Adjustment(("max_grad_norm",), lambda c: c.max_grad_norm is not None, _max_grad_norm),
    "weight_decay": Adjustment(("weight_decay",), lambda c: c.weight_decay > 0, _weight_decay),
}
