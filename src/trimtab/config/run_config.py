"""The configuration of a run: its fields (`Settings`) checked together, and what follows from them."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from trimtab.config import device_shares
from trimtab.config.algorithms import ALGORITHMS, Traits
from trimtab.config.settings import Settings
from trimtab.core import fields, markup
from trimtab.core.fields import ConfigError, divisors, nearest_divisors, neighbours, part_of, static
from trimtab.core.wording import horizon, nearest, steps
from trimtab.math.optimizers import OPTIMIZERS, OptimizerKind
from trimtab.math.surrogates import SURROGATES, Surrogate

__all__ = ["Config", "ConfigError", "from_dict", "nearest_divisors"]


EVALUATIONS = 20  # of a run, where it does not say


@dataclass(frozen=True)
class Config(Settings):
    """A training run. Derived quantities (batch, iterations, ...) are properties."""

    env_id: str = static("CartPole-v1", group="environment")  # again, as it may also be given by position

    def __post_init__(self):
        fields.check_types(self)
        object.__setattr__(self, "env_kwargs", fields.as_written("env_kwargs", self.env_kwargs))
        fields.check_ranges(self)
        self._check_sizes()
        fields.check_needs(self)
        self._check_iterations()

    def _check_sizes(self) -> None:
        """Batch and minibatches are whole."""
        if self.total_timesteps < self.batch:
            raise ConfigError("total_timesteps", self.total_timesteps, f"less than one batch; nearest: {self.batch}")
        for name in ("num_minibatches", "minibatch_size"):
            value = getattr(self, name)
            if value is not None and (value > self.batch or self.batch % value):
                near = ", ".join(map(str, nearest_divisors(self.batch, min(value, self.batch))))
                raise ConfigError(name, value, f"does not divide the batch {self.batch}; nearest: {near}")
        number, size = self.num_minibatches, self.minibatch_size
        if number and size and number * size != self.batch:
            mismatch = f"num_minibatches={number} makes it {self.batch // number}; give one of the two"
            raise ConfigError("minibatch_size", size, mismatch)
        if self.minibatch_by == "rows" and self.minibatches not in (valid := self._minibatches_of_rows()):
            name, value = ("num_minibatches", number) if number else ("minibatch_size", self.minibatch)
            near = ", ".join(map(str, neighbours(valid if number else [self.batch // n for n in valid], value)))
            problem = f"does not make whole rows of num_envs={self.num_envs}, num_steps={self.num_steps}"
            raise ConfigError(name, value, f"{problem} (minibatch_by=rows); nearest: {near}")
        device_shares.check_shares(self)

    def _check_iterations(self) -> None:
        """What iterations and phases must hold."""
        if self.whole_episodes and self.time_limit is not None and self.num_steps < self.time_limit:
            problem = f"{self.traits.title} without a baseline needs whole episodes"
            near = f"{self.time_limit} (the time limit), or baseline=true"
            raise ConfigError("num_steps", self.num_steps, f"{problem}; nearest: {near}")
        if self.is_ewma and self.staleness_loss != "decoupled":
            problem = f"{self.algo} has a proximal policy of its own; nearest: decoupled"
            raise ConfigError("staleness_loss", self.staleness_loss, problem)
        if self.staleness >= self.iterations:
            problem = f"nothing would be learned in {self.iterations} iterations; nearest: {self.iterations - 1}"
            raise ConfigError("staleness", self.staleness, problem)
        if self.is_ppg and self.iterations < self.policy_iterations:
            problem = f"no phase would end in {self.iterations} iterations; nearest: {self.iterations}"
            raise ConfigError("policy_iterations", self.policy_iterations, problem)
        if self.is_ppg and self.phase_batch % self.aux_minibatch:
            near = ", ".join(map(str, nearest_divisors(self.phase_batch, self.aux_minibatch)))
            problem = f"does not divide the phase batch {self.phase_batch}; nearest: {near}"
            raise ConfigError("aux_minibatch_size", self.aux_minibatch, problem)

    # What follows from the fields ------------------------------------------------------------------------

    @property
    def batch(self) -> int:
        """Samples of one iteration, N × T."""
        return self.num_envs * self.num_steps

    @property
    def split(self) -> tuple[int, int]:
        """(N, T)."""
        return self.num_envs, self.num_steps

    @property
    def minibatches(self) -> int:
        """Minibatches per epoch."""
        if self.minibatch_size is not None:
            return self.batch // self.minibatch_size
        return self.num_minibatches or self._default_minibatches()

    @property
    def minibatch(self) -> int:
        """Samples of one gradient step."""
        return self.batch // self.minibatches

    @property
    def rows_of_minibatch(self) -> float:
        """Rows, or part of one, in a minibatch of rows."""
        return self.minibatch / self.num_steps

    def _default_minibatches(self) -> int:
        """As many per epoch as the algorithm wants if they make whole minibatches, else as many as do below."""
        each = self.batch // math.gcd(self.num_envs, self.devices)  # a device's share
        valid = divisors(each) if self.minibatch_by == "samples" else self._minibatches_of_rows()
        return max(n for n in valid if n <= self.traits.minibatches)

    def _minibatches_of_rows(self) -> list[int]:
        """How many minibatches whole rows of every device can make."""
        return minibatches_of_rows(self.num_envs // math.gcd(self.num_envs, self.devices), self.num_steps)

    @property
    def iterations(self) -> int:
        """Alternations of sampling and optimizing."""
        return self.total_timesteps // self.batch

    @property
    def steps(self) -> int:
        """Environment steps really taken: whole iterations only."""
        return self.iterations * self.batch

    def evaluation_iterations(self) -> dict[int, int]:
        """The iterations after which the policy is evaluated, each with its number; 0 is before the first.

        Runs of one length have evaluations with the same numbers at the same steps, as far as their batches allow.
        """
        if self.eval_every == 0:
            return {}
        if self.eval_every is None:
            ends = (-(-k * self.iterations // EVALUATIONS) for k in range(EVALUATIONS + 1))
        else:
            count = -(-self.steps // self.eval_every)
            ends = (min(-(-k * self.eval_every // self.batch), self.iterations) for k in range(count + 1))
        return {end: number for number, end in enumerate(ends)}

    @property
    def epochs_of_value(self) -> int:
        return self.update_epochs if self.value_epochs is None else self.value_epochs

    @property
    def gradient_steps(self) -> int:
        """Policy gradient steps of the whole run."""
        return max(0, self.iterations - self.staleness) * self.minibatches * self.update_epochs

    @property
    def traits(self) -> Traits:
        """What the algorithm is."""
        return ALGORITHMS[self.algo]

    @property
    def is_ewma(self) -> bool:
        return self.traits.ewma

    @property
    def is_ppg(self) -> bool:
        return self.traits.phasic

    @property
    def needs_value(self) -> bool:
        """Whether a critic exists at all."""
        return self.baseline or not self.traits.may_lack_critic

    @property
    def has_surrogate(self) -> bool:
        """Whether updates weigh samples by a ratio of policies and are kept near a proximal one."""
        return self.traits.surrogate

    @property
    def uses_gae(self) -> bool:
        """Whether λ means anything."""
        return self.traits.gae

    @property
    def optimizer_kind(self) -> OptimizerKind:
        """How gradients become steps."""
        return OPTIMIZERS[self.optimizer]

    @property
    def surrogate_kind(self) -> Surrogate | None:
        """What keeps updates near the proximal policy; None for algorithms that have none."""
        return SURROGATES[self.surrogate] if self.has_surrogate else None

    @property
    def whole_episodes(self) -> bool:
        """Without a critic nothing stands for what a cut leaves out: rows start from reset and hold whole episodes."""
        return not self.needs_value

    @property
    def lambda_used(self) -> float:
        """λ of the advantages; returns without generalized advantage estimation are its case 1."""
        return self.gae_lambda if self.uses_gae else 1.0

    @property
    def horizon(self) -> float:
        """1/(1-γ): how far returns look."""
        return horizon(self.gamma)

    @property
    def advantage_horizon(self) -> float:
        """1/(1-γλ): how far advantages look before the critic."""
        return horizon(self.gamma * self.lambda_used)

    @property
    def proximal_com(self) -> float:
        """Centre of mass of the proximal EWMA in gradient steps (paper: minibatches per policy iteration)."""
        return float(self.minibatches * self.update_epochs) if self.prox_com is None else self.prox_com

    @property
    def proximal_decay(self) -> float:
        """β of the proximal EWMA: COM / (1 + COM)."""
        return self.proximal_com / (1.0 + self.proximal_com)

    @property
    def aux_minibatch(self) -> int:
        return self.minibatch if self.aux_minibatch_size is None else self.aux_minibatch_size

    @property
    def phase_batch(self) -> int:
        """Samples of one PPG phase."""
        return self.batch * self.policy_iterations

    def replace(self, **changes: Any) -> Config:
        return dataclasses.replace(self, **changes)

    def traced(self) -> dict[str, float]:
        """The numbers the compiled program takes as arguments; absent ones (None) are left out."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if part_of(f) == "traced"}
        values["prox_com"] = self.proximal_com
        values["iterations"] = values.pop("total_timesteps") // self.batch
        loss = values.pop("staleness_loss")
        if self.staleness:  # whether the policy at the start of the iteration takes the place of the one that acted
            values |= {"recent_is_proximal": loss != "behavior", "recent_is_behavior": loss == "recent"}
        return {name: float(value) for name, value in values.items() if value is not None}

    @property
    def shape(self) -> tuple[tuple[str, Any], ...]:
        """What a compiled program depends on: static fields, and of traced numbers whether they are given.

        Either way of giving the minibatch is the same program.
        """
        same = {"num_minibatches": self.minibatches, "minibatch_size": None}
        values = {f: same.get(f.name, getattr(self, f.name)) for f in dataclasses.fields(self)}
        static = ((f.name, repr(value)) for f, value in values.items() if part_of(f) == "static")
        return (*static, *((f.name, value is None) for f, value in values.items() if part_of(f) == "traced"))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, in the order of the fields, for YAML."""
        return {
            f.name: list(v) if isinstance(v := getattr(self, f.name), tuple) else v for f in dataclasses.fields(self)
        }

    def changed(self) -> dict[str, Any]:
        """The fields that differ from their defaults, and the environment."""
        default = {f.name: {} if f.default is dataclasses.MISSING else f.default for f in dataclasses.fields(self)}
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if name == "env_id" or value != default[name]}

    def __repr__(self) -> str:
        """What differs from the defaults, as it would be written."""
        return f"Config({', '.join(f'{name}={value!r}' for name, value in self.changed().items())})"

    def _repr_html_(self) -> str:
        """For notebooks: what was chosen, and what follows from it."""
        title = f"{self.algo} on {self.env_id}, seed {self.seed}"
        return markup.table(title, self.derived().items()) + markup.table(
            "fields that differ from the defaults", self.changed().items()
        )

    def derived(self) -> dict[str, Any]:
        """What a user should see before a run starts."""
        rows: dict[str, Any] = {
            "batch (N × T)": f"{self.num_envs} × {self.num_steps} = {self.batch:,}",
            "minibatch": f"{self.minibatch:,} × {self.minibatches} per epoch"
            + (f", each of {self.rows_of_minibatch:.3g} rows" if self.minibatch_by == "rows" else ""),
            "iterations": f"{self.iterations:,}",
            "environment steps": f"{self.steps:,}"
            + ("" if self.steps == self.total_timesteps else f" (of {self.total_timesteps:,}: whole iterations)"),
            "policy gradient steps": f"{self.gradient_steps:,}",
            "each sample is used": (
                f"{self.update_epochs} × by the policy, {self.epochs_of_value} × by the value function"
                if self.needs_value
                else f"{self.update_epochs} ×"
            ),
            "horizons": f"1/(1-γ) = {steps(self.horizon)}"
            + (f", 1/(1-γλ) = {steps(self.advantage_horizon)}" if self.uses_gae else ""),
        }
        if self.is_ewma:
            age = self.proximal_com / (self.minibatches * self.update_epochs) * self.batch
            rows["proximal EWMA"] = (
                f"COM {self.proximal_com:g} gradient steps (β = {self.proximal_decay:.4g}, age {age:,.0f} steps)"
            )
        if self.is_ppg:
            rows["PPG phase"] = f"{self.policy_iterations} iterations = {self.phase_batch:,} samples"
        return rows | ({"devices": device_shares.describe_shares(self)} if self.devices > 1 else {})


def minibatches_of_rows(num_envs: int, num_steps: int) -> list[int]:
    """How many minibatches whole rows can make: a divisor of N, or N times a divisor of T (rows cut in time)."""
    return sorted({*divisors(num_envs), *(num_envs * pieces for pieces in divisors(num_steps))})


def from_dict(values: dict[str, Any], base: Config | None = None) -> Config:
    """A Config from plain values over `base`; unknown names are refused with the nearest known ones."""
    names = [f.name for f in dataclasses.fields(Config)]
    for name, value in values.items():
        if name not in names:
            close = nearest(name, names)
            near = ", ".join(close) or "none; `trimtab train --help` lists all"
            raise ConfigError(str(name), value, f"no such field; nearest: {near}")
    values = {
        name: fields.as_declared(fields.base_of(fields.types_of(Config)[name]), value) for name, value in values.items()
    }
    if isinstance(values.get("anneal_lr"), bool):
        values["anneal_lr"] = "linear" if values["anneal_lr"] else "constant"
    if base is None:
        return Config(**values)
    # One way of giving the minibatch replaces the other.
    if values.get("minibatch_size") is not None and "num_minibatches" not in values:
        values["num_minibatches"] = None
    if values.get("num_minibatches") is not None and "minibatch_size" not in values:
        values["minibatch_size"] = None
    return base.replace(**values)
