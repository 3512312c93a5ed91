"""From one batch size to another: what changes with it, by how much, by which rule and why. Pure; no JAX.

Two factors say how much smaller things become:

    c_opt = old minibatch / new minibatch        c_iter = old batch / new batch

Changing N with the number of minibatches fixed makes both equal: the c of Hilton, Cobbe & Schulman 2021, "Batch
size-invariance for policy optimization" (arXiv 2110.00641), section 4. Below, "the paper".
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from trimtab.config import Config, ConfigError, nearest_divisors

Rule = Literal["invariant", "linear", "none", "fixed-inner"]
Auxiliary = Literal["constant", "paper"]
RULES = ("invariant", "linear", "none", "fixed-inner")
AUXILIARY = ("constant", "paper")


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


@dataclass(frozen=True)
class Rescaled:
    """A configuration at its new size. `exact`: nothing was rounded or clamped, so the way back leads back."""

    config: Config
    changes: list[Change]
    warnings: list[str]
    c_opt: float = 1.0
    c_iter: float = 1.0
    exact: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "c_opt": self.c_opt,
            "c_iter": self.c_iter,
            "exact": self.exact,
            "changes": [{**asdict(change), "changed": change.changed} for change in self.changes],
            "warnings": list(self.warnings),
            "config": self.config.as_dict(),
        }


def rescale(
    config: Config,
    *,
    num_envs: int | None = None,
    num_steps: int | None = None,
    minibatch_size: int | None = None,
    num_minibatches: int | None = None,
    num_devices: int | None = None,
    devices_before: int = 1,
    rule: Rule = "invariant",
    skip: Collection[str] = (),
    adam_betas: bool = False,
    noise_scale: float | None = None,
    auxiliary: Auxiliary = "constant",
    workers: int | None = None,
    workers_before: int | None = None,
) -> Rescaled:
    """The configuration at a new size, everything else adjusted so that it learns the same per environment step.

    The number of minibatches stays unless a minibatch is given. `num_devices` is data-parallel: environments per device
    stay, so N grows with the devices. `skip` names adjustments to leave out (ADJUSTMENTS), `adam_betas` adds one the
    paper leaves out. A `noise_scale` (in samples) is only warned about. `auxiliary` is what PPG's auxiliary phase does:
    `constant`, or `paper` with the numbers of `workers`. Rules:

    invariant    section 4 of the paper
    linear       the same, but Adam's step size is divided by c (the paper's Appendix D ablation)
    none         only the sizes change
    fixed-inner  minibatch and step size stay, the number of minibatches changes (Beukman et al. 2026, arXiv
                 2603.06009); the rest as `invariant`, where c_opt is then 1
    """
    _check_choices(config, rule, skip, adam_betas, noise_scale)
    if auxiliary == "paper" and (rule == "none" or "auxiliary" in skip):
        raise ConfigError("auxiliary", "paper", "is both asked for and left out; nearest: constant")
    devices = (num_devices, devices_before)
    size, reason = _new_size(config, (num_envs, num_steps, minibatch_size, num_minibatches), devices, rule)
    if size == Size(config.num_envs, config.num_steps, config.minibatches):
        size_fields: dict[str, int | None] = {}
    else:
        size_fields = _size_fields(config, size, minibatch_size, num_minibatches)
    work = _Work(config, size, rule, adam_betas, _workers(config, auxiliary, (workers, workers_before), devices))
    work.values.update(size_fields)
    if not size_fields and work.workers[0] == work.workers[1]:
        return Rescaled(config, [], [])
    for name, adjustment in ADJUSTMENTS.items():
        if not adjustment.applies(config):
            continue
        if rule == "none" or name in skip:
            label, why = ("none", "the rule adjusts nothing") if rule == "none" else ("skipped", "left out, as asked")
            for item in adjustment.fields:
                work.reasons[item] = (label, why)
        else:
            adjustment.adjust(work)
    new = config.replace(**work.values)
    return Rescaled(
        new,
        _size_rows(config, new, reason) + work.rows(new) + _staying(config, new),
        [*_warnings(config, new, rule, noise_scale), *work.warnings],
        float(work.c_opt),
        float(work.c_iter),
        work.exact,
    )


# The new size ----------------------------------------------------------------------------------------------


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


def _new_size(config: Config, asked: tuple, devices: tuple[int | None, int], rule: Rule) -> tuple[Size, str]:
    """The size asked for, and why N is what it is; sizes that do not divide are refused with the nearest that do."""
    num_envs, num_steps, minibatch_size, num_minibatches = asked
    names = ("num_envs", "num_steps", "minibatch_size", "num_minibatches", "num_devices", "devices_before")
    for name, value in zip(names, (*asked, *devices)):
        _check_count(name, value)
    envs, reason = config.num_envs if num_envs is None else num_envs, "asked for"
    steps = config.num_steps if num_steps is None else num_steps
    blamed, value = ("num_envs", envs) if num_steps is None or num_envs is not None else ("num_steps", steps)
    if devices[0] is not None:
        envs, reason = _data_parallel(config, num_envs, *devices)
        blamed, value = "num_devices", devices[0]
    batch = envs * steps
    if rule == "fixed-inner":
        for name, given, kept in (
            ("minibatch_size", minibatch_size, config.minibatch),
            ("num_minibatches", num_minibatches, batch // config.minibatch),
        ):
            if given not in (None, kept):
                raise ConfigError(name, given, f"rule fixed-inner keeps minibatch_size; nearest: {kept}")
        _check_multiple(blamed, value, batch // value, config.minibatch, "minibatch_size")
        return Size(envs, steps, batch // config.minibatch), reason
    for name, given in (("minibatch_size", minibatch_size), ("num_minibatches", num_minibatches)):
        if given is not None and (given > batch or batch % given):
            near = ", ".join(map(str, nearest_divisors(batch, min(given, batch))))
            raise ConfigError(name, given, f"does not divide the batch {batch}; nearest: {near}")
    if minibatch_size is not None:
        if num_minibatches not in (None, batch // minibatch_size):
            problem = f"minibatch_size={minibatch_size} makes it {batch // minibatch_size}; give one of the two"
            raise ConfigError("num_minibatches", num_minibatches, problem)
        return Size(envs, steps, batch // minibatch_size), reason
    if num_minibatches is None:
        _check_multiple(blamed, value, batch // value, config.minibatches, "num_minibatches")
    return Size(envs, steps, num_minibatches or config.minibatches), reason


def _data_parallel(config: Config, num_envs: int | None, now: int, before: int) -> tuple[int, str]:
    """N on `now` devices when `before` devices shared the environments there are: environments per device stay."""
    if num_envs is not None:
        raise ConfigError("num_devices", now, "multiplies num_envs; give one of the two")
    if config.num_envs % before:
        near = ", ".join(map(str, nearest_divisors(config.num_envs, min(before, config.num_envs))))
        raise ConfigError("devices_before", before, f"does not divide num_envs={config.num_envs}; nearest: {near}")
    each = config.num_envs // before
    return each * now, f"data-parallel: devices {before} -> {now}, {each} environments on each as before"


def _check_count(name: str, value: Any) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ConfigError(name, value, "must be a whole number of at least 1; nearest: 1")


def _check_multiple(name: str, value: int, unit: int, divisor: int, kept: str) -> None:
    """A batch of value × unit samples must be a multiple of `divisor`, which is kept."""
    if value * unit % divisor == 0:
        return
    step = divisor // math.gcd(divisor, unit)
    near = sorted({max(step, value // step * step), (value // step + 1) * step})
    problem = f"a batch of {value * unit} is no multiple of {kept}={divisor}, which stays"
    raise ConfigError(name, value, f"{problem}; nearest: {', '.join(map(str, near))}, or give another {kept}")


def _size_fields(config: Config, size: Size, minibatch_size: int | None, num_minibatches: int | None):
    """The minibatch is written the way it was given: now, or else in the configuration."""
    if minibatch_size is not None or num_minibatches is not None:
        by_size, by_number = minibatch_size is not None, num_minibatches is not None
    else:
        by_size = config.minibatch_size is not None
        by_number = config.num_minibatches is not None or not by_size
    return {
        "num_envs": size.num_envs,
        "num_steps": size.num_steps,
        "num_minibatches": size.minibatches if by_number else None,
        "minibatch_size": size.minibatch if by_size else None,
    }


def _workers(config: Config, auxiliary: str, workers: tuple, devices: tuple) -> tuple[int, int]:
    """(before, now), both 1 unless the auxiliary phase follows the paper; devices are workers if not told otherwise."""
    now, before = workers
    for name, value in (("workers", now), ("workers_before", before)):
        _check_count(name, value)
        if value is not None and (auxiliary != "paper" or not config.is_ppg):
            raise ConfigError(name, value, "needs algo=ppg or ppg-ewma and auxiliary=paper; nearest: none")
    if auxiliary not in AUXILIARY:
        raise ConfigError("auxiliary", auxiliary, f"must be one of {', '.join(AUXILIARY)}; nearest: constant")
    if auxiliary == "constant":
        return 1, 1
    if not config.is_ppg:
        raise ConfigError("auxiliary", auxiliary, "needs algo=ppg or ppg-ewma; nearest: constant")
    if now is None and before is None and devices[0] is not None:
        return devices[1], devices[0]
    if now is None or before is None:
        raise ConfigError("workers", now, "auxiliary=paper needs workers and workers_before, for example 1 and 4")
    return before, now


def _check_choices(config: Config, rule: str, skip: Collection[str], adam_betas: bool, noise_scale: Any) -> None:
    if rule not in RULES:
        close = difflib.get_close_matches(str(rule), RULES, n=1, cutoff=0.0)
        raise ConfigError("rule", rule, f"must be one of {', '.join(RULES)}; nearest: {close[0]}")
    for name in [skip] if isinstance(skip, str) else skip:
        if name not in ADJUSTMENTS or isinstance(skip, str):
            close = difflib.get_close_matches(name, ADJUSTMENTS, n=2, cutoff=0.4) or ADJUSTMENTS
            raise ConfigError("skip", name, f"must be a collection of adjustments; nearest: {', '.join(close)}")
    if adam_betas:
        if config.optimizer != "adam":
            raise ConfigError("adam_betas", True, "needs optimizer=adam; nearest: false")
        if rule == "none" or "adam_betas" in skip:
            raise ConfigError("adam_betas", True, "is both asked for and left out; nearest: false")
    if noise_scale is not None and not (isinstance(noise_scale, int | float) and noise_scale > 0):
        raise ConfigError("noise_scale", noise_scale, "must be a number of samples above 0")


# The adjustments -------------------------------------------------------------------------------------------


@dataclass
class _Work:
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

    def clamp(self, name: str, wanted: Fraction | float, got: float, why: str) -> None:
        """Say that a rule asked for what cannot be had."""
        self.exact = False
        self.warnings.append(f"{name}: the rule gives {float(wanted):.6g}, {got:.6g} is used: {why}")

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


def _step_divisor(work: _Work, c: Fraction) -> tuple[float, str]:
    """√c for Adam, c for SGD (the paper, section 3 and Appendix D) and for Adam under `linear`."""
    linear = work.old.optimizer == "sgd" or work.rule == "linear"
    return (float(c), "c") if linear else (math.sqrt(c), "√c")


def _learning_rate(work: _Work) -> None:
    """α / √c_opt for Adam, α / c_opt for SGD: the paper, section 4; `linear` divides Adam's by c_opt too."""
    divisor, symbol = _step_divisor(work, work.c_opt)
    why = {
        "√c": "Adam's own denominator takes the other √c (the paper, section 4, Appendix D)",
        "c": "SGD's step is proportional to the minibatch (the paper, section 3)"
        if work.old.optimizer == "sgd"
        else "the linear ablation for Adam (the paper, Appendix D: worse at small batches)",
    }[symbol]
    work.set("learning_rate", work.old.learning_rate / divisor, f"÷ {symbol}_opt", why)


def _adam_betas(work: _Work) -> None:
    """β^(1/c_opt): averages over the same number of samples (the paper, Appendix E; it leaves them alone otherwise)."""
    for name, highest in (("adam_beta1", 0.999999), ("adam_beta2", 0.99999999)):
        if not work.adam_betas:
            work.reasons[name] = (
                "kept",
                "as in the paper; adam_betas=true raises it to the power 1/c_opt (Appendix E)",
            )
            continue
        wanted = getattr(work.old, name) ** float(1 / work.c_opt)
        if wanted > highest:
            work.clamp(name, wanted, highest, "the highest allowed")
        why = "the moments average over the same samples (the paper, Appendix E)"
        work.set(name, min(wanted, highest), "power 1/c_opt", why)


def _prox_com(work: _Work) -> None:
    """COM × c_opt: the proximal policy's age in environment steps stays (the paper, section 4)."""
    after = float(Fraction(work.old.proximal_com) * work.c_opt)
    standing = work.old.prox_com is None and after == work.size.minibatches * work.old.update_epochs
    why = "the proximal policy's age stays, in environment steps (the paper, section 4)"
    work.set("prox_com", None if standing else after, "× c_opt", why)


def _norm_adv(work: _Work) -> None:
    """Span × c_iter, at least 1: moments over the same number of samples (the paper, section 4).

    Span 1 is whole-batch normalization: `batch` counts as span 1, and a span that comes out as 1 is written as `batch`.
    """
    wanted = Fraction(work.old.norm_adv_span) * work.c_iter
    span = max(1.0, float(wanted))
    if wanted < 1 and not math.isclose(wanted, 1.0, rel_tol=1e-12):
        work.clamp("norm_adv_span", wanted, 1.0, "no fewer than one iteration, the whole batch")
    if math.isclose(span, 1.0, rel_tol=1e-12):
        span = 1.0
    kind = work.old.norm_adv if work.c_iter == 1 else "batch" if span == 1.0 else "ewma"
    why = "as many samples behind the advantages' mean and deviation (the paper, section 4)"
    work.set("norm_adv", kind, "by span", "a span of 1 iteration is the whole batch, longer ones are an EWMA")
    work.set("norm_adv_span", span, "× c_iter", why)


def _policy_iterations(work: _Work) -> None:
    """N_π × c_iter, a whole number of at least 1: the phase batch stays (the paper, section 4)."""
    wanted = work.old.policy_iterations * work.c_iter
    most = max(1, work.old.total_timesteps // work.size.batch)
    count = min(max(1, round(wanted)), most)
    if count != wanted:
        phase = f"the phase batch becomes {count * work.size.batch:,} samples (was {work.old.phase_batch:,})"
        work.clamp("policy_iterations", wanted, count, phase)
    work.set("policy_iterations", count, "× c_iter", "the phase batch stays (the paper, section 4)")


def _auxiliary(work: _Work) -> None:
    """`constant`: minibatch and step size stay. `paper`: minibatch per worker stays, step size by √ (Appendix B)."""
    before, now = work.workers
    c = Fraction(before, now)
    wanted = work.old.aux_minibatch / c
    phase = work.size.batch * work.values.get("policy_iterations", work.old.policy_iterations)
    size = min(nearest_divisors(phase, max(1, round(wanted))), key=lambda d: abs(d - wanted))
    if size != wanted:
        work.clamp("aux_minibatch_size", wanted, size, f"it must divide the phase batch {phase:,}")
    standing = work.old.aux_minibatch_size is None and size == work.size.minibatch
    divisor, symbol = _step_divisor(work, c)
    why = "small auxiliary minibatches would take too long (the paper, Appendix B)"
    rule = f"× {now}/{before} workers" if c != 1 else "kept"
    work.set("aux_minibatch_size", None if standing else size, rule, f"{why}: samples per worker stay")
    rule = f"÷ {symbol}, c = {before}/{now} workers" if c != 1 else "kept"
    why = "follows the auxiliary minibatch, which only workers change (the paper, Appendix B)"
    work.set("aux_learning_rate", work.old.aux_learning_rate / divisor, rule, why)


def _max_grad_norm(work: _Work) -> None:
    """× √c_opt: the norm of a gradient that is mostly noise grows so. Not from the paper."""
    why = "the norm of a noisy gradient grows so; not from the paper, which does not clip"
    work.set("max_grad_norm", work.old.max_grad_norm * math.sqrt(work.c_opt), "× √c_opt", why)
    if work.old.is_ppg and work.c_opt != 1:
        work.warnings.append(
            "max_grad_norm also clips the auxiliary phase, whose minibatch does not follow; skip it to keep it"
        )


def _weight_decay(work: _Work) -> None:
    """÷ √c_opt with Adam, so that step size × decay falls by c_opt; SGD's step size falls by c_opt on its own."""
    if work.old.optimizer == "sgd":
        work.reasons["weight_decay"] = ("kept", "SGD's step size, which multiplies it, falls by c_opt already")
        return
    why = "step size × decay falls by c_opt, and shrinks weights as much per sample; not from the paper"
    work.set("weight_decay", work.old.weight_decay / math.sqrt(work.c_opt), "÷ √c_opt", why)


class Adjustment(NamedTuple):
    """What can be skipped by name: the fields it sets, the configurations it is for, and how."""

    fields: tuple[str, ...]
    applies: Callable[[Config], bool]
    adjust: Callable[[_Work], None]


ADJUSTMENTS: dict[str, Adjustment] = {
    "learning_rate": Adjustment(("learning_rate",), lambda c: True, _learning_rate),
    "adam_betas": Adjustment(("adam_beta1", "adam_beta2"), lambda c: c.optimizer == "adam", _adam_betas),
    "prox_com": Adjustment(("prox_com",), lambda c: c.is_ewma, _prox_com),
    "norm_adv": Adjustment(("norm_adv", "norm_adv_span"), lambda c: c.norm_adv in ("batch", "ewma"), _norm_adv),
    "policy_iterations": Adjustment(("policy_iterations",), lambda c: c.is_ppg, _policy_iterations),
    "auxiliary": Adjustment(("aux_minibatch_size", "aux_learning_rate"), lambda c: c.is_ppg, _auxiliary),
    "max_grad_norm": Adjustment(("max_grad_norm",), lambda c: c.max_grad_norm is not None, _max_grad_norm),
    "weight_decay": Adjustment(("weight_decay",), lambda c: c.weight_decay > 0, _weight_decay),
}


# What is shown beside them ---------------------------------------------------------------------------------


def _size_rows(old: Config, new: Config, reason: str) -> list[Change]:
    number = "stays" if old.minibatches == new.minibatches else "changes"
    rows = [
        ("num_envs", "size", reason if old.num_envs != new.num_envs else "stays"),
        ("num_steps", "size", "moves the GAE cut" if old.num_steps != new.num_steps else "stays"),
        ("batch", "N × T", "samples of one iteration; before / after is c_iter"),
        ("num_minibatches", "size", f"the number of minibatches {number}"),
        ("minibatch_size", "size", "samples of one gradient step; before / after is c_opt"),
    ]
    return [Change(name, effective(old, name), effective(new, name), rule, why) for name, rule, why in rows]


def _staying(old: Config, new: Config) -> list[Change]:
    """Notable fields that no rule moves, and the phase batch, which should stay."""
    steps, fixed = "counted in environment steps, which stay", "no rule moves coefficients"
    rows = [
        ("total_timesteps", "kept", steps, True),
        ("anneal_lr", "kept", "over the same environment steps", old.anneal_lr != "constant"),
        ("warmup_steps", "kept", steps, old.warmup_steps > 0),
        ("gamma", "kept", fixed, True),
        ("gae_lambda", "kept", fixed, old.algo != "reinforce"),
        ("clip_coef" if old.surrogate == "clip" else "kl_coef", "kept", fixed, old.algo != "reinforce"),
        ("ent_coef", "kept", fixed, True),
        ("vf_coef", "kept", fixed, old.needs_value),
        ("momentum", "kept", "left alone, as Adam's β", old.optimizer == "sgd" and old.momentum > 0),
        ("probe_every", "kept", "counted in iterations; only measures", old.probe_every > 0),
        ("phase_batch", "N_π × batch", "samples of one PPG phase", old.is_ppg),
    ]
    return [Change(name, getattr(old, name), getattr(new, name), rule, why) for name, rule, why, used in rows if used]


def _warnings(old: Config, new: Config, rule: Rule, noise_scale: float | None) -> Iterator[str]:
    """Where the argument behind the rules does not reach."""
    if rule == "none":
        yield "rule none: only the sizes changed; nothing makes up for it"
    elif old.update_epochs > 1:
        yield f"update_epochs={old.update_epochs}: the paper's argument covers one policy epoch, not several"
    largest = max(old.minibatch, new.minibatch)
    if noise_scale is not None and largest > noise_scale:
        when = "after" if new.minibatch == largest else "before"
        yield (
            f"minibatch_size={largest} ({when}) is beyond the noise scale of {noise_scale:,.4g} samples: "
            "the rules hold well below it"
        )
    elif new.batch > old.batch or new.minibatch > old.minibatch:
        known = "is not known" if noise_scale is None else f"is {noise_scale:,.4g} samples"
        yield f"c is below 1 (a larger batch): the rules hold well below the noise scale, which {known}"
    if rule == "fixed-inner" and new.batch < old.batch:
        yield "rule fixed-inner was proposed for growing N (Beukman et al. 2026); here the batch shrinks"
    if new.num_steps != old.num_steps:
        cut = (
            "returns' cut is" if old.algo == "reinforce" else f"the GAE cut (look at gae_lambda={old.gae_lambda:g}) is"
        )
        yield f"num_steps {old.num_steps} -> {new.num_steps}: {cut} moved, and no rule makes up for it"
    yield from _iteration_warnings(old, new)


def _iteration_warnings(old: Config, new: Config) -> Iterator[str]:
    """What is counted in iterations or minibatches and cannot be rescaled."""
    if old.norm_adv == "minibatch":
        yield "norm_adv=minibatch ties results to the minibatch; batch and ewma can be rescaled"
    if new.batch == old.batch:
        return
    if not old.is_ewma and old.algo != "reinforce":
        yield (
            f"algo={old.algo}: the proximal policy is the one that acted, so its age changes with the batch; "
            f"{old.algo}-ewma can keep it"
        )
    if old.staleness:
        steps = f"{old.staleness * old.batch:,} to {old.staleness * new.batch:,}"
        yield f"staleness={old.staleness} counts iterations: in environment steps it goes from {steps}"
    if old.steps != new.steps:
        yield (
            f"whole iterations make {new.steps:,} environment steps of total_timesteps={old.total_timesteps:,} "
            f"(before: {old.steps:,})"
        )
