"""The one place that validates: types, ranges, and which options apply to which algorithm.

Every refusal is one line that names the field, the value and the nearest valid ones.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.config import Config


class ConfigError(ValueError):
    """A configuration no run can have; the message is one line and names the field and nearby valid values."""

    def __init__(self, name: str, value: Any, problem: str):
        self.field = name
        super().__init__(f"{name}={value!r}: {problem}")


_RANGES: dict[str, tuple[float, float]] = {  # inclusive
    "seed": (0, 2**31 - 1),
    "total_timesteps": (1, 2**31 - 1),
    "num_envs": (1, 1 << 20),
    "num_steps": (1, 1 << 20),
    "num_minibatches": (1, 1 << 30),
    "minibatch_size": (1, 1 << 30),
    "update_epochs": (1, 10_000),
    "value_epochs": (1, 10_000),
    "time_limit": (1, 2**31 - 1),
    "clip_coef": (0.0, math.inf),
    "kl_coef": (0.0, math.inf),
    "imp_samp_max": (1.0, math.inf),
    "clip_vloss": (0.0, math.inf),
    "vf_coef": (0.0, 1e6),
    "ent_coef": (0.0, 1e6),
    "ent_anneal": (0.0, 1.0),
    "target_kl": (0.0, math.inf),
    "gamma": (0.0, 1.0),
    "gae_lambda": (0.0, 1.0),
    "norm_adv_span": (1.0, 1e9),
    "learning_rate": (0.0, 1e3),
    "warmup_steps": (0, 2**31 - 1),
    "adam_beta1": (0.0, 0.999999),
    "adam_beta2": (0.0, 0.99999999),
    "adam_eps": (0.0, 1.0),
    "momentum": (0.0, 0.999999),
    "weight_decay": (0.0, 1e3),
    "max_grad_norm": (0.0, math.inf),
    "log_std_init": (-10.0, 5.0),
    "clip_obs": (0.0, math.inf),
    "clip_reward": (0.0, math.inf),
    "norm_reward_gamma": (0.0, 1.0),
    "prox_com": (0.0, 1e9),
    "staleness": (0, 10_000),
    "policy_iterations": (1, 1_000_000),
    "aux_epochs": (0, 1_000),
    "aux_minibatch_size": (1, 1 << 30),
    "aux_learning_rate": (0.0, 1e3),
    "beta_clone": (0.0, 1e6),
    "eval_every": (0, 2**31 - 1),
    "eval_episodes": (1, 100_000),
    "probe_every": (0, 2**31 - 1),
}

_POSITIVE = ("imp_samp_max", "clip_obs", "clip_reward", "clip_vloss", "target_kl", "max_grad_norm")


def choices_of(type_name: str) -> list[str] | None:
    """The words a Literal type allows; None for other types."""
    if type_name.startswith("Literal["):
        return [part.strip().strip("\"'") for part in type_name[len("Literal[") : -1].split(",")]
    return None


def check_type(name: str, type_name: str, value: Any) -> None:
    """Types by hand: values come from YAML and from code, and a wrong one must be named, not crash later."""
    choices = choices_of(type_name)
    if choices is not None:
        if value not in choices:
            close = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.3)
            hint = f"; nearest: {close[0]}" if close else ""
            raise ConfigError(name, value, f"must be one of {', '.join(choices)}{hint}")
        return
    if value is None:
        if "None" in type_name:
            return
        raise ConfigError(name, value, "a value is needed")
    kind = type_name.replace(" | None", "")
    if kind == "tuple[int, ...]":
        if not isinstance(value, tuple) or not all(isinstance(v, int) and 1 <= v <= 65_536 for v in value):
            raise ConfigError(name, value, "must be a list of widths from 1 to 65536, for example 64 64")
    elif kind == "tuple[str, ...]":
        if not isinstance(value, tuple) or not all(isinstance(v, str) and v for v in value):
            raise ConfigError(name, value, "must be a list of names, for example state")
    elif kind == "bool":
        if not isinstance(value, bool):
            raise ConfigError(name, value, "must be true or false")
    elif kind == "int":
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(name, value, "must be a whole number")
    elif kind == "float":
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise ConfigError(name, value, "must be a number")
    elif kind == "str":
        if not isinstance(value, str) or not value:
            raise ConfigError(name, value, "must be a name")
    elif kind.startswith("dict") and not isinstance(value, dict):
        raise ConfigError(name, value, "must be a mapping, for example {is_slippery: false}")


def nearest_divisors(total: int, wanted: int) -> list[int]:
    """The divisors of `total` on either side of `wanted`."""
    divisors = sorted({d for k in range(1, math.isqrt(total) + 1) if total % k == 0 for d in (k, total // k)})
    below = [d for d in divisors if d <= wanted][-1:]
    above = [d for d in divisors if d >= wanted][:1]
    return sorted({*below, *above})


def validate(c: Config) -> None:
    """Refuse what no run can have, naming the field and the nearest valid values."""
    for name, (low, high) in _RANGES.items():
        value = getattr(c, name)
        if value is None:
            continue
        if not low <= value <= high:
            raise ConfigError(
                name, value, f"must be from {low:,.9g} to {high:,.9g}; nearest: {min(max(value, low), high):.9g}"
            )
    for name in _POSITIVE:
        if getattr(c, name) == 0:
            optional = type(c).__dataclass_fields__[name].default is None or name == "max_grad_norm"
            raise ConfigError(name, 0, "must be above 0" + ("; none switches it off" if optional else ""))
    if c.total_timesteps < c.batch:
        raise ConfigError("total_timesteps", c.total_timesteps, f"less than one batch; nearest: {c.batch}")
    _validate_minibatches(c)
    _validate_applicability(c)
    if c.algo == "reinforce" and not c.baseline and c.time_limit is not None and c.num_steps < c.time_limit:
        raise ConfigError(
            "num_steps",
            c.num_steps,
            "REINFORCE without a baseline needs whole episodes; "
            f"nearest: {c.time_limit} (the time limit), or baseline=true",
        )
    if c.norm_adv != "ewma" and c.norm_adv_span != 1.0:
        raise ConfigError("norm_adv_span", c.norm_adv_span, "needs norm_adv=ewma; nearest: 1")
    if c.is_ewma and c.staleness_loss != "decoupled":
        raise ConfigError(
            "staleness_loss",
            c.staleness_loss,
            f"{c.algo} has a proximal policy of its own; nearest: decoupled",
        )
    if c.staleness >= c.iterations:
        raise ConfigError(
            "staleness",
            c.staleness,
            f"nothing would be learned in {c.iterations} iterations; nearest: {c.iterations - 1}",
        )
    if c.is_ppg:
        if c.iterations < c.policy_iterations:
            raise ConfigError(
                "policy_iterations",
                c.policy_iterations,
                f"no phase would end in {c.iterations} iterations; nearest: {c.iterations}",
            )
        if c.phase_batch % c.aux_minibatch:
            raise ConfigError(
                "aux_minibatch_size",
                c.aux_minibatch,
                f"does not divide the phase batch {c.phase_batch}; nearest: "
                + ", ".join(map(str, nearest_divisors(c.phase_batch, c.aux_minibatch))),
            )


def _validate_minibatches(c: Config) -> None:
    for name in ("num_minibatches", "minibatch_size"):
        value = getattr(c, name)
        if value is not None and (value > c.batch or c.batch % value):
            near = ", ".join(map(str, nearest_divisors(c.batch, min(value, c.batch))))
            raise ConfigError(name, value, f"does not divide the batch {c.batch}; nearest: {near}")
    if c.num_minibatches and c.minibatch_size and c.num_minibatches * c.minibatch_size != c.batch:
        raise ConfigError(
            "minibatch_size",
            c.minibatch_size,
            f"num_minibatches={c.num_minibatches} makes it {c.batch // c.num_minibatches}; give one of the two",
        )


def _validate_applicability(c: Config) -> None:
    """An option that would be ignored is refused, so that nothing is parsed and forgotten."""
    defaults = {f.name: f.default for f in dataclasses.fields(c)}
    surrogates = c.algo != "reinforce"

    def needs(names: str, condition: bool, what: str) -> None:
        for name in names.split():
            if not condition and getattr(c, name) != defaults[name]:
                raise ConfigError(name, getattr(c, name), f"{what}; nearest: {defaults[name]}")

    needs("surrogate imp_samp_max target_kl gae_lambda", surrogates, "does not apply to reinforce")
    needs(
        "clip_coef",
        surrogates and c.surrogate == "clip",
        "needs surrogate=clip and an algorithm with a proximal policy",
    )
    needs("kl_coef", surrogates and c.surrogate == "kl", "needs surrogate=kl")
    needs("baseline", not surrogates, "only REINFORCE can go without")
    needs("vf_coef clip_vloss value_epochs arch", c.needs_value, "there is no value function without a baseline")
    needs("value_epochs", c.arch == "dual", "needs arch=dual (separate networks)")
    needs("stagger_resets", surrogates or c.baseline, "every iteration starts from reset without a baseline")
    needs("adam_beta1 adam_beta2 adam_eps", c.optimizer == "adam", "needs optimizer=adam")
    needs("momentum", c.optimizer == "sgd", "needs optimizer=sgd")
    needs("impala_channels", c.network == "impala", "needs network=impala")
    needs("activation", c.network in ("auto", "mlp"), "needs network=mlp (image networks use relu)")
    needs("critic_obs", c.needs_value, "there is no value function without a baseline")
    needs("clip_obs", c.norm_obs, "needs norm_obs=true")
    needs("clip_reward norm_reward_gamma", c.norm_reward, "needs norm_reward=true")
    needs("prox_com", c.is_ewma, "needs algo=ppo-ewma or ppg-ewma")
    needs("staleness", surrogates and not c.is_ppg, "needs algo=ppo or ppo-ewma")
    needs("staleness_loss", c.staleness > 0, "needs staleness above 0")
    needs(
        "policy_iterations aux_epochs aux_minibatch_size aux_learning_rate beta_clone",
        c.is_ppg,
        "needs algo=ppg or ppg-ewma",
    )
    needs("eval_episodes eval_threshold", c.eval_every > 0, "needs eval_every above 0")
