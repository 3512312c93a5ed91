"""The adjustments of a rescaling: one declaration each, with what it sets, by which rule, and why.

Source: Hilton, Cobbe & Schulman 2021 (arXiv 2110.00641), "the paper", unless an adjustment says otherwise. To add one,
add a function under the decorator `_adjustment` and test it: its name is then an option of `--skip`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from trimtab.config import Config, nearest_divisors
from trimtab.core.fields import declared_of

Rule = Literal["invariant", "linear", "none", "fixed-inner"]
KEPT: Any = object()  # in place of a value: the field stays as it is
STAND_IN = {  # what a field that is not given comes to
    "num_minibatches": "minibatches",
    "minibatch_size": "minibatch",
    "prox_com": "proximal_com",
    "aux_minibatch_size": "aux_minibatch",
}


class Size(NamedTuple):
    """N, T and minibatches per epoch; the rest follows."""

    num_envs: int
    num_steps: int
    minibatches: int

    @property
    def batch(self) -> int:
        """N × T."""
        return self.num_envs * self.num_steps

    @property
    def minibatch(self) -> int:
        """Samples of a gradient step."""
        return self.batch // self.minibatches


@dataclass(frozen=True)
class Move:
    """From a configuration to a new size, and how."""

    old: Config
    size: Size
    rule: Rule
    adam_betas: bool
    workers: tuple[int, int]  # of the auxiliary phase, before and after

    @property
    def c_opt(self) -> Fraction:
        """Old minibatch over new one."""
        return Fraction(self.old.minibatch, self.size.minibatch)

    @property
    def c_iter(self) -> Fraction:
        """Old batch over new one."""
        return Fraction(self.old.batch, self.size.batch)

    def step_divisor(self, c: Fraction) -> tuple[float, str]:
        """√c for Adam, c for SGD (the paper, section 3 and Appendix D) and for Adam under `linear`."""
        linear = self.old.optimizer_kind.step_divisor == "c" or self.rule == "linear"
        return (float(c), "c") if linear else (math.sqrt(c), "√c")


@dataclass(frozen=True)
class Setting:
    """What an adjustment makes of one field."""

    field: str
    rule: str
    why: str
    value: Any = KEPT
    clamped: str = ""
    """Why the value is not what the rule gives; the way back then does not lead back."""
    warning: str = ""


def effective(config: Config, name: str) -> Any:
    """A field's value, or what a field that is not given comes to."""
    return getattr(config, STAND_IN.get(name, name))


def _clamped(name: str, asked: Fraction | float, got: float, problem: str) -> str:
    return f"{name}: the rule gives {float(asked):.6g}, {got:.6g} is used: {problem}"


Settle = Callable[[Move, Mapping[str, Any]], Iterator[Setting]]


@dataclass(frozen=True)
class _Adjustment:
    """What can be skipped by name: the fields it sets, the configurations it is for, and how."""

    name: str
    fields: tuple[str, ...]
    applies: Callable[[Config], bool]
    settle: Settle
    """From the move and the values set so far to the settings."""


def _adjustment(
    name: str, *fields: str, applies: Callable[[Config], bool] = lambda config: True
) -> Callable[[Settle], _Adjustment]:
    """Declare a function as an adjustment; the arguments are the fields of `_Adjustment`."""
    return lambda settle: _Adjustment(name, fields or (name,), applies, settle)


@_adjustment("learning_rate", "learning_rate", "value_learning_rate")
def _learning_rate(move: Move, done: Mapping[str, Any]) -> Iterator[Setting]:
    """α / √c_opt for Adam, α / c_opt for SGD: the paper, section 4; `linear` divides Adam's by c_opt too."""
    divisor, symbol = move.step_divisor(move.c_opt)
    kind = move.old.optimizer_kind
    linear = "the linear ablation for Adam (the paper, Appendix D: worse at small batches)"
    why = kind.why if symbol == kind.step_divisor else linear
    start = "its first value; then the schedule moves it by the KL"
    for name in ("learning_rate", "value_learning_rate"):
        rate = getattr(move.old, name)
        adapts = name == "learning_rate" and move.old.anneal_lr == "adaptive"
        if rate is not None:
            yield Setting(name, f"÷ {symbol}_opt", start if adapts else why, rate / divisor)


@_adjustment("adam_betas", "adam_beta1", "adam_beta2", applies=lambda c: "adam_beta1" in c.optimizer_kind.fields)
def _adam_betas(move: Move, done: Mapping[str, Any]) -> Iterator[Setting]:
    """β^(1/c_opt): averages over the same number of samples (the paper, Appendix E; it leaves them alone otherwise)."""
    why = "the moments average over the same samples (the paper, Appendix E)"
    for name in ("adam_beta1", "adam_beta2"):
        highest, beta = declared_of(Config, name).high, getattr(move.old, name) ** float(1 / move.c_opt)
        if move.adam_betas:
            clamped = _clamped(name, beta, highest, "the highest allowed") if beta > highest else ""
            yield Setting(name, "power 1/c_opt", why, min(beta, highest), clamped)
        else:
            kept = "as in the paper; adam_betas=true raises it to the power 1/c_opt (Appendix E)"
            yield Setting(name, "kept", kept)


@_adjustment("prox_com", applies=lambda c: c.is_ewma)
def _prox_com(move: Move, done: Mapping[str, Any]) -> Iterator[Setting]:
    """COM × c_opt: the proximal policy's age in environment steps stays (the paper, section 4)."""
    after = float(Fraction(move.old.proximal_com) * move.c_opt)
    is_default = move.old.prox_com is None and after == move.size.minibatches * move.old.update_epochs
    why = "the proximal policy's age stays, in environment steps (the paper, section 4)"
    yield Setting("prox_com", "× c_opt", why, None if is_default else after)


@_adjustment("norm_adv", "norm_adv", "norm_adv_span", applies=lambda c: c.norm_adv in ("batch", "ewma"))
def _norm_adv(move: Move, done: Mapping[str, Any]) -> Iterator[Setting]:
    """Span × c_iter, at least 1: moments over the same number of samples (the paper, section 4).

    Span 1 is whole-batch normalization: `batch` counts as span 1, and a span that comes out as 1 is written as `batch`.
    """
    asked = Fraction(move.old.norm_adv_span) * move.c_iter
    is_nearly_one = math.isclose(asked, 1.0, rel_tol=1e-12)
    is_one = asked < 1 or is_nearly_one
    span = 1.0 if is_one else float(asked)
    kind = move.old.norm_adv if move.c_iter == 1 else "batch" if is_one else "ewma"
    yield Setting("norm_adv", "by span", "a span of 1 iteration is the whole batch, longer ones are an EWMA", kind)
    why = "as many samples behind the advantages' mean and deviation (the paper, section 4)"
    problem = "no fewer than one iteration, the whole batch"
    clamped = _clamped("norm_adv_span", asked, span, problem) if asked < 1 and not is_nearly_one else ""
    yield Setting("norm_adv_span", "× c_iter", why, span, clamped)


@_adjustment("policy_iterations", applies=lambda c: c.is_ppg)
def _policy_iterations(move: Move, done: Mapping[str, Any]) -> Iterator[Setting]:
    """N_π × c_iter, a whole number of at least 1: the phase batch stays (the paper, section 4)."""
    asked = move.old.policy_iterations * move.c_iter
    most = max(1, move.old.total_timesteps // move.size.batch)
    count = min(max(1, round(asked)), most)
    phase = f"the phase batch becomes {count * move.size.batch:,} samples (was {move.old.phase_batch:,})"
    clamped = _clamped("policy_iterations", asked, count, phase) if count != asked else ""
    yield Setting("policy_iterations", "× c_iter", "the phase batch stays (the paper, section 4)", count, clamped)


@_adjustment("auxiliary", "aux_minibatch_size", "aux_learning_rate", applies=lambda c: c.is_ppg)
def _auxiliary(move: Move, done: Mapping[str, Any]) -> Iterator[Setting]:
    """`constant`: minibatch and step size stay. `paper`: minibatch per worker stays, step size by √ (Appendix B)."""
    before, now = move.workers
    c = Fraction(before, now)
    asked = move.old.aux_minibatch / c
    phase = move.size.batch * done.get("policy_iterations", move.old.policy_iterations)
    size = min(nearest_divisors(phase, max(1, round(asked))), key=lambda divisor: abs(divisor - asked))
    rule = f"× {now}/{before} workers" if c != 1 else "kept"
    why = "small auxiliary minibatches would take too long (the paper, Appendix B): samples per worker stay"
    problem = f"it must divide the phase batch {phase:,}"
    clamped = _clamped("aux_minibatch_size", asked, size, problem) if size != asked else ""
    is_default = move.old.aux_minibatch_size is None and size == move.size.minibatch
    yield Setting("aux_minibatch_size", rule, why, None if is_default else size, clamped)
    divisor, symbol = move.step_divisor(c)
    rule = f"÷ {symbol}, c = {before}/{now} workers" if c != 1 else "kept"
    why = "follows the auxiliary minibatch, which only workers change (the paper, Appendix B)"
    yield Setting("aux_learning_rate", rule, why, move.old.aux_learning_rate / divisor)


@_adjustment("max_grad_norm", applies=lambda c: c.max_grad_norm is not None)
def _max_grad_norm(move: Move, done: Mapping[str, Any]) -> Iterator[Setting]:
    """× √c_opt: the norm of a gradient that is mostly noise grows so. Not from the paper."""
    assert move.old.max_grad_norm is not None
    why = "the norm of a noisy gradient grows so; not from the paper, which does not clip"
    also = "max_grad_norm also clips the auxiliary phase, whose minibatch does not follow; skip it to keep it"
    warning = also if move.old.is_ppg and move.c_opt != 1 else ""
    yield Setting("max_grad_norm", "× √c_opt", why, move.old.max_grad_norm * math.sqrt(move.c_opt), warning=warning)


@_adjustment("weight_decay", applies=lambda c: c.weight_decay > 0)
def _weight_decay(move: Move, done: Mapping[str, Any]) -> Iterator[Setting]:
    """÷ √c_opt where the step size is, so that step size × decay falls by c_opt; a step size ÷ c_opt does so alone."""
    if move.step_divisor(move.c_opt)[1] == "c":
        yield Setting("weight_decay", "kept", "the step size, which multiplies it, falls by c_opt already")
        return
    why = "step size × decay falls by c_opt, and shrinks weights as much per sample; not from the paper"
    yield Setting("weight_decay", "÷ √c_opt", why, move.old.weight_decay / math.sqrt(move.c_opt))


ADJUSTMENTS = {each.name: each for each in list(vars().values()) if isinstance(each, _Adjustment)}
