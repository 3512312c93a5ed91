"""From one batch size to another: what changes with it, by how much, by which rule and why. Pure; no JAX.

Two factors say how much smaller things become:

    c_opt = old minibatch / new minibatch        c_iter = old batch / new batch

Changing N with the number of minibatches fixed makes both equal: the c of Hilton, Cobbe & Schulman 2021, "Batch
size-invariance for policy optimization" (arXiv 2110.00641), section 4. Below, "the paper".
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from trimtab.advise.rescale_rules import ADJUSTMENTS, Change, Rule, Size, Work, effective
from trimtab.config import Config, ConfigError, nearest_divisors
from trimtab.core import markup
from trimtab.core.wording import nearest

Auxiliary = Literal["constant", "paper"]
RULES = ("invariant", "linear", "none", "fixed-inner")
AUXILIARY = ("constant", "paper")


@dataclass(frozen=True)
class Rescaled:
    """A configuration at its new size. `exact`: nothing was rounded or clamped, so the way back leads back."""

    config: Config
    changes: list[Change]
    warnings: list[str]
    c_opt: float = 1.0
    c_iter: float = 1.0
    exact: bool = True

    def __repr__(self) -> str:
        """The factors and every field that changes, one line each."""
        changed = [f"  {row.field}: {_plain(row.before)} → {_plain(row.after)}" for row in self.changes if row.changed]
        head = f"<Rescaled: c_opt = {self.c_opt:.6g}, c_iter = {self.c_iter:.6g}, {len(self.warnings)} warnings"
        return "\n".join([head, *changed]) + ">"

    def _repr_html_(self) -> str:
        """For notebooks: what changes, by which rule and why, and what to look out for."""
        rows = [(r.field, _plain(r.before), _plain(r.after), r.rule, r.why) for r in self.changes if r.changed]
        title = f"c_opt = {self.c_opt:.6g}, c_iter = {self.c_iter:.6g}"
        shown = markup.table(title, rows, ("field", "from", "to", "rule", "why"))
        return shown + (markup.table("warnings", [(text,) for text in self.warnings]) if self.warnings else "")

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


def _plain(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def rescale(
    config: Config,
    *,
    num_envs: int | None = None,
    num_steps: int | None = None,
    minibatch_size: int | None = None,
    num_minibatches: int | None = None,
    devices: int | None = None,
    devices_before: int | None = None,
    rule: Rule = "invariant",
    skip: Collection[str] = (),
    adam_betas: bool = False,
    noise_scale: float | None = None,
    auxiliary: Auxiliary = "constant",
    workers: int | None = None,
    workers_before: int | None = None,
) -> Rescaled:
    """The configuration at a new size, everything else adjusted so that it learns the same per environment step.

    The number of minibatches stays unless a minibatch is given. `devices` is data-parallel: environments per device
    stay, so N grows from the configuration's devices (or `devices_before`, where it does not say) to these. `skip`
    names adjustments to leave out (ADJUSTMENTS), `adam_betas` adds one the paper leaves out. A `noise_scale` (in
    samples) is only warned about. `auxiliary` is what PPG's auxiliary phase does: `constant`, or `paper` with the
    numbers of `workers`. Rules:

    invariant    section 4 of the paper
    linear       the same, but Adam's step size is divided by c (the paper's Appendix D ablation)
    none         only the sizes change
    fixed-inner  minibatch and step size stay, the number of minibatches changes (Beukman et al. 2026, arXiv
                 2603.06009); the rest as `invariant`, where c_opt is then 1
    """
    _check_choices(config, rule, skip, adam_betas, noise_scale)
    if auxiliary == "paper" and (rule == "none" or "auxiliary" in skip):
        raise ConfigError("auxiliary", "paper", "is both asked for and left out; nearest: constant")
    shared = (devices, config.devices if devices_before is None else devices_before)
    size, reason = _new_size(config, (num_envs, num_steps, minibatch_size, num_minibatches), shared, rule)
    if size == Size(config.num_envs, config.num_steps, config.minibatches):
        size_fields: dict[str, int | None] = {}
    else:
        size_fields = _size_fields(config, size, minibatch_size, num_minibatches)
    if devices not in (None, config.devices):
        size_fields["devices"] = devices
    work = Work(config, size, rule, adam_betas, _workers(config, auxiliary, (workers, workers_before), shared))
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


def _new_size(config: Config, sizes: tuple, devices: tuple[int | None, int], rule: Rule) -> tuple[Size, str]:
    """The size asked for, and why N is what it is; sizes that do not divide are refused with the nearest that do."""
    num_envs, num_steps, minibatch_size, num_minibatches = sizes
    names = ("num_envs", "num_steps", "minibatch_size", "num_minibatches", "devices", "devices_before")
    for name, value in zip(names, (*sizes, *devices)):
        _check_count(name, value)
    envs, reason = config.num_envs if num_envs is None else num_envs, "asked for"
    steps = config.num_steps if num_steps is None else num_steps
    blamed, value = ("num_envs", envs) if num_steps is None or num_envs is not None else ("num_steps", steps)
    if devices[0] is not None:
        envs, reason = _data_parallel(config, num_envs, *devices)
        blamed, value = "devices", devices[0]
    batch = envs * steps
    if rule == "fixed-inner":
        for name, size, rule_size in (
            ("minibatch_size", minibatch_size, config.minibatch),
            ("num_minibatches", num_minibatches, batch // config.minibatch),
        ):
            if size not in (None, rule_size):
                raise ConfigError(name, size, f"rule fixed-inner keeps minibatch_size; nearest: {rule_size}")
        _check_multiple(blamed, value, batch // value, config.minibatch, "minibatch_size")
        return Size(envs, steps, batch // config.minibatch), reason
    for name, size in (("minibatch_size", minibatch_size), ("num_minibatches", num_minibatches)):
        if size is not None and (size > batch or batch % size):
            near = ", ".join(map(str, nearest_divisors(batch, min(size, batch))))
            raise ConfigError(name, size, f"does not divide the batch {batch}; nearest: {near}")
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
        raise ConfigError("devices", now, "multiplies num_envs; give one of the two")
    if config.num_envs % before:
        near = ", ".join(map(str, nearest_divisors(config.num_envs, min(before, config.num_envs))))
        raise ConfigError("devices_before", before, f"does not divide num_envs={config.num_envs}; nearest: {near}")
    each = config.num_envs // before
    return each * now, f"data-parallel: devices {before} -> {now}, {each} environments on each as before"


def _check_count(name: str, value: Any) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ConfigError(name, value, "must be a whole number of at least 1; nearest: 1")


def _check_multiple(name: str, value: int, unit: int, divisor: int, divisor_name: str) -> None:
    """A batch of value × unit samples must be a multiple of `divisor`, which is kept."""
    if value * unit % divisor == 0:
        return
    step = divisor // math.gcd(divisor, unit)
    near = sorted({max(step, value // step * step), (value // step + 1) * step})
    problem = f"a batch of {value * unit} is no multiple of {divisor_name}={divisor}, which stays"
    raise ConfigError(name, value, f"{problem}; nearest: {', '.join(map(str, near))}, or give another {divisor_name}")


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
        close = nearest(rule, RULES, count=1, cutoff=0.0)
        raise ConfigError("rule", rule, f"must be one of {', '.join(RULES)}; nearest: {close[0]}")
    for name in [skip] if isinstance(skip, str) else skip:
        if name not in ADJUSTMENTS or isinstance(skip, str):
            close = nearest(name, ADJUSTMENTS, count=2, cutoff=0.4) or ADJUSTMENTS
            raise ConfigError("skip", name, f"must be a collection of adjustments; nearest: {', '.join(close)}")
    if adam_betas:
        if "adam_beta1" not in config.optimizer_kind.fields:
            raise ConfigError("adam_betas", True, "needs optimizer=adam; nearest: false")
        if rule == "none" or "adam_betas" in skip:
            raise ConfigError("adam_betas", True, "is both asked for and left out; nearest: false")
    if noise_scale is not None and not (isinstance(noise_scale, int | float) and noise_scale > 0):
        raise ConfigError("noise_scale", noise_scale, "must be a number of samples above 0")


# What is shown beside them ---------------------------------------------------------------------------------


def _size_rows(old: Config, new: Config, reason: str) -> list[Change]:
    number = "stays" if old.minibatches == new.minibatches else "changes"
    rows = [
        ("num_envs", "size", reason if old.num_envs != new.num_envs else "stays"),
        ("num_steps", "size", "moves the GAE cut" if old.num_steps != new.num_steps else "stays"),
        ("devices", "size", "share environments and minibatches" if new.devices > 1 else "one does everything"),
        ("batch", "N × T", "samples of one iteration; before / after is c_iter"),
        ("num_minibatches", "size", f"the number of minibatches {number}"),
        ("minibatch_size", "size", "samples of one gradient step; before / after is c_opt"),
    ]
    rows = [row for row in rows if row[0] != "devices" or max(old.devices, new.devices) > 1]
    return [Change(name, effective(old, name), effective(new, name), rule, why) for name, rule, why in rows]


def _staying(old: Config, new: Config) -> list[Change]:
    """Notable fields that no rule moves, and the phase batch, which should stay."""
    steps, fixed = "counted in environment steps, which stay", "no rule moves coefficients"
    rows = [
        ("total_timesteps", "kept", steps, True),
        ("minibatch_by", "kept", "whole rows keep their covariance together", old.minibatch_by == "rows"),
        ("anneal_lr", "kept", "over the same environment steps", old.anneal_lr in ("linear", "cosine")),
        ("desired_kl", "kept", "what the step size steers to", old.anneal_lr == "adaptive"),
        ("clip_anneal", "kept", "over the same environment steps", old.clip_anneal != "constant"),
        ("norm_value", "kept", "its moments count samples, of which there are as many", old.norm_value != "none"),
        ("warmup_steps", "kept", steps, old.warmup_steps > 0),
        ("gamma", "kept", fixed, True),
        ("gae_lambda", "kept", fixed, old.uses_gae),
        *((limit.coefficient, "kept", fixed, True) for limit in [old.surrogate_kind] if limit is not None),
        ("ent_coef", "kept", fixed, True),
        ("vf_coef", "kept", fixed, old.needs_value),
        *((name, "kept", why, getattr(old, name) > 0) for name, why in old.optimizer_kind.kept),
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
        scale_text = "is not known" if noise_scale is None else f"is {noise_scale:,.4g} samples"
        yield f"c is below 1 (a larger batch): the rules hold well below the noise scale, which {scale_text}"
    if rule == "fixed-inner" and new.batch < old.batch:
        yield "rule fixed-inner was proposed for growing N (Beukman et al. 2026); here the batch shrinks"
    if new.num_steps != old.num_steps:
        cut = f"the GAE cut (look at gae_lambda={old.gae_lambda:g}) is" if old.uses_gae else "returns' cut is"
        yield f"num_steps {old.num_steps} -> {new.num_steps}: {cut} moved, and no rule makes up for it"
    yield from _iteration_warnings(old, new)


def _iteration_warnings(old: Config, new: Config) -> Iterator[str]:
    """What is counted in iterations or minibatches and cannot be rescaled."""
    if old.anneal_lr == "adaptive" and new.minibatch != old.minibatch:
        yield (
            f"anneal_lr=adaptive: learning_rate is only where it starts; from then on the KL sets it (desired_kl="
            f"{old.desired_kl:g}), which grows with the noise of a step: no rule says how it should change"
        )
    if old.norm_adv == "minibatch":
        yield "norm_adv=minibatch ties results to the minibatch; batch and ewma can be rescaled"
    if old.minibatch_by == "rows" and new.num_steps != old.num_steps:
        rows = f"{old.rows_of_minibatch:.3g} before, {new.rows_of_minibatch:.3g} after"
        yield f"minibatch_by=rows: the noise of a minibatch follows its rows ({rows}); c_opt counts samples"
    if new.batch == old.batch:
        return
    if old.traits.with_ewma:
        yield (
            f"algo={old.algo}: the proximal policy is the one that acted, so its age changes with the batch; "
            f"{old.traits.with_ewma} can keep it"
        )
    if old.staleness:
        steps = f"{old.staleness * old.batch:,} to {old.staleness * new.batch:,}"
        yield f"staleness={old.staleness} counts iterations: in environment steps it goes from {steps}"
    if old.steps != new.steps:
        yield (
            f"whole iterations make {new.steps:,} environment steps of total_timesteps={old.total_timesteps:,} "
            f"(before: {old.steps:,})"
        )
