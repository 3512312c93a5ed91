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
from typing import Any, Literal, get_args

from trimtab.advise.rescale_adjustments import ADJUSTMENTS, KEPT, Move, Rule, Setting, Size, effective
from trimtab.config import Config, ConfigError, nearest_divisors
from trimtab.core import markup
from trimtab.core.fields import option
from trimtab.core.options import Options
from trimtab.core.wording import nearest

Auxiliary = Literal["constant", "paper"]
RULES: tuple[Rule, ...] = get_args(Rule)


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
        """Whether the value is another one."""
        return bool(self.before != self.after)


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


@dataclass(frozen=True, kw_only=True)
class RescaleOptions(Options):
    """The new size, and how the rest follows."""

    num_envs: int | None = option(None, low=1)
    """New N (default: stays)."""
    num_steps: int | None = option(None, low=1)
    """New T (default: stays)."""
    minibatch_size: int | None = option(None, low=1)
    """New samples per gradient step (default: the number of minibatches stays)."""
    num_minibatches: int | None = option(None, low=1)
    """New minibatches per epoch (default: their number stays)."""
    devices: int | None = option(None, low=1)
    """New number of data-parallel devices; N grows with them, so that each keeps its environments (default: stays)."""
    devices_before: int | None = option(None, low=1)
    """Devices that share the environments now (default: those of the configuration)."""
    rule: Rule = "invariant"
    """How the rest follows: by section 4 of the paper (invariant); the same, but Adam's step size in proportion to the
    batch, as in its Appendix D (linear); only the sizes change (none); minibatch and step size stay, and the number of
    minibatches changes, as in arXiv 2603.06009 (fixed-inner)."""
    skip: Collection[str] = option((), metavar="NAMES")
    """Adjustments to leave out, separated by commas."""
    adam_betas: bool = False
    """Also raise Adam's β₁ and β₂ to the power 1/c_opt, which the paper does not do."""
    noise_scale: float | None = None
    """Noise scale in samples, beyond which a warning is given (default: that of the run's newest probe)."""
    auxiliary: Auxiliary = "constant"
    """What PPG's auxiliary phase does: keep its settings (constant), or follow the numbers of workers (paper)."""
    workers: int | None = option(None, low=1)
    """Workers after the change, for auxiliary paper (default: the devices)."""
    workers_before: int | None = option(None, low=1)
    """Workers before the change, for auxiliary paper (default: the devices)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        words = self.skip.replace(",", " ").split() if isinstance(self.skip, str) else self.skip
        object.__setattr__(self, "skip", tuple(words))
        for name in self.skip:
            if name not in ADJUSTMENTS:
                close = nearest(name, ADJUSTMENTS, count=2, cutoff=0.4) or list(ADJUSTMENTS)
                raise ConfigError("skip", name, f"must be a collection of adjustments; nearest: {', '.join(close)}")
        if self.noise_scale is not None and self.noise_scale <= 0:
            raise ConfigError("noise_scale", self.noise_scale, "must be a number of samples above 0")
        if self.adam_betas and (self.rule == "none" or "adam_betas" in self.skip):
            raise ConfigError("adam_betas", True, "is requested and skipped at once; nearest: false")
        if self.auxiliary == "paper" and (self.rule == "none" or "auxiliary" in self.skip):
            raise ConfigError("auxiliary", "paper", "is requested and skipped at once; nearest: constant")


def rescale(config: Config, options: RescaleOptions | None = None, **given: Any) -> Rescaled:
    """Move a configuration to a new size and adjust the rest, so that it learns the same per environment step.

    Args:
        config: the configuration.
        options: the new size, and how the rest follows.
        given: fields of `RescaleOptions`, in place of `options`.

    Returns:
        The configuration, every change with its reason, and warnings.
    """
    request = RescaleOptions(**given) if options is None else options
    if request.adam_betas and not ADJUSTMENTS["adam_betas"].applies(config):
        raise ConfigError("adam_betas", True, "needs optimizer=adam; nearest: false")
    size, reason = _new_size(config, request)
    move = Move(config, size, request.rule, request.adam_betas, _workers(config, request))
    values = _size_fields(config, size, request)
    if not values and move.workers[0] == move.workers[1]:
        return Rescaled(config, [], [])
    settings = _settings(move, request.skip, values)
    new = config.replace(**values)
    rows = [Change(s.field, effective(config, s.field), effective(new, s.field), s.rule, s.why) for s in settings]
    return Rescaled(
        new,
        [*_size_rows(config, new, reason), *rows, *_unchanged_rows(config, new)],
        [
            *_warnings(config, new, request.rule, request.noise_scale),
            *filter(None, (s.clamped or s.warning for s in settings)),
        ],
        float(move.c_opt),
        float(move.c_iter),
        exact=not any(s.clamped for s in settings),
    )


def _settings(move: Move, skip: Collection[str], values: dict[str, Any]) -> list[Setting]:
    """What every adjustment makes of its fields; adds the new ones to `values`."""
    settings: list[Setting] = []
    for adjustment in ADJUSTMENTS.values():
        if not adjustment.applies(move.old):
            continue
        if move.rule == "none" or adjustment.name in skip:
            skipped = ("none", "the rule adjusts nothing") if move.rule == "none" else ("skipped", "skipped on request")
            settings += [Setting(name, *skipped) for name in adjustment.fields]
        else:
            settings += adjustment.settle(move, values)
        values |= {setting.field: setting.value for setting in settings if setting.value is not KEPT}
    return settings


# The new size ----------------------------------------------------------------------------------------------


def _new_size(config: Config, request: RescaleOptions) -> tuple[Size, str]:
    """The new size, and why N is what it is; sizes that do not divide are refused with the nearest that do."""
    envs = config.num_envs if request.num_envs is None else request.num_envs
    steps = config.num_steps if request.num_steps is None else request.num_steps
    blamed, value, reason = "num_envs", envs, "requested"
    if request.num_steps is not None and request.num_envs is None:
        blamed, value = "num_steps", steps
    if request.devices is not None:
        envs, reason = _data_parallel(config, request.num_envs, request.devices, _devices_before(config, request))
        blamed, value = "devices", request.devices
    batch = envs * steps
    if request.rule == "fixed-inner":
        _check_fixed_inner(config, request, batch)
        _check_multiple(blamed, value, batch // value, config.minibatch, "minibatch_size")
        return Size(envs, steps, batch // config.minibatch), reason
    for name in ("minibatch_size", "num_minibatches"):
        size = getattr(request, name)
        if size is not None and (size > batch or batch % size):
            near = ", ".join(map(str, nearest_divisors(batch, min(size, batch))))
            raise ConfigError(name, size, f"does not divide the batch {batch}; nearest: {near}")
    number, size = request.num_minibatches, request.minibatch_size
    if size is not None:
        if number not in (None, batch // size):
            problem = f"minibatch_size={size} makes it {batch // size}; give one of the two"
            raise ConfigError("num_minibatches", number, problem)
        return Size(envs, steps, batch // size), reason
    if number is None:
        _check_multiple(blamed, value, batch // value, config.minibatches, "num_minibatches")
    return Size(envs, steps, number or config.minibatches), reason


def _devices_before(config: Config, request: RescaleOptions) -> int:
    return config.devices if request.devices_before is None else request.devices_before


def _check_fixed_inner(config: Config, request: RescaleOptions, batch: int) -> None:
    sizes = {"minibatch_size": config.minibatch, "num_minibatches": batch // config.minibatch}
    for name, kept in sizes.items():
        if getattr(request, name) not in (None, kept):
            problem = f"rule fixed-inner keeps minibatch_size; nearest: {kept}"
            raise ConfigError(name, getattr(request, name), problem)


def _data_parallel(config: Config, num_envs: int | None, now: int, before: int) -> tuple[int, str]:
    """N on `now` devices when `before` devices shared the environments there are: environments per device stay."""
    if num_envs is not None:
        raise ConfigError("devices", now, "multiplies num_envs; give one of the two")
    if config.num_envs % before:
        near = ", ".join(map(str, nearest_divisors(config.num_envs, min(before, config.num_envs))))
        raise ConfigError("devices_before", before, f"does not divide num_envs={config.num_envs}; nearest: {near}")
    each = config.num_envs // before
    return each * now, f"data-parallel: devices {before} -> {now}, {each} environments on each as before"


def _check_multiple(name: str, value: int, unit: int, divisor: int, divisor_name: str) -> None:
    """A batch of value × unit samples must be a multiple of `divisor`, which is kept."""
    if value * unit % divisor == 0:
        return
    step = divisor // math.gcd(divisor, unit)
    near = sorted({max(step, value // step * step), (value // step + 1) * step})
    problem = f"a batch of {value * unit} is no multiple of {divisor_name}={divisor}, which stays"
    raise ConfigError(name, value, f"{problem}; nearest: {', '.join(map(str, near))}, or give another {divisor_name}")


def _size_fields(config: Config, size: Size, request: RescaleOptions) -> dict[str, Any]:
    """The fields of the new size; the minibatch is written the way it was given: now, or else in the configuration."""
    fields: dict[str, Any] = {}
    if size != Size(config.num_envs, config.num_steps, config.minibatches):
        given = request if request.minibatch_size or request.num_minibatches else config
        by_size, by_number = given.minibatch_size is not None, given.num_minibatches is not None
        fields = {
            "num_envs": size.num_envs,
            "num_steps": size.num_steps,
            "num_minibatches": size.minibatches if by_number or not by_size else None,
            "minibatch_size": size.minibatch if by_size else None,
        }
    if request.devices not in (None, config.devices):
        fields["devices"] = request.devices
    return fields


def _workers(config: Config, request: RescaleOptions) -> tuple[int, int]:
    """(before, now), both 1 unless the auxiliary phase follows the paper; devices are workers if none are given."""
    before, now, auxiliary = request.workers_before, request.workers, request.auxiliary
    for name, value in (("workers", now), ("workers_before", before)):
        if value is not None and (auxiliary != "paper" or not config.is_ppg):
            raise ConfigError(name, value, "needs algo=ppg or ppg-ewma and auxiliary=paper; nearest: none")
    if auxiliary == "constant":
        return 1, 1
    if not config.is_ppg:
        raise ConfigError("auxiliary", auxiliary, "needs algo=ppg or ppg-ewma; nearest: constant")
    if now is None and before is None and request.devices is not None:
        return _devices_before(config, request), request.devices
    if now is None or before is None:
        raise ConfigError("workers", now, "auxiliary=paper needs workers and workers_before, for example 1 and 4")
    return before, now


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


def _unchanged_rows(old: Config, new: Config) -> list[Change]:
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
