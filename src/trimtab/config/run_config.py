"""What a run is: one frozen dataclass, one sentence per field.

A field is *static* when it sets a shape or chooses code (changing it compiles again) and *traced* when it is
only a number (a sweep over it compiles once). `Config.traced()` collects the second kind. What no program reads is
*around* it. What a field may hold, and what it needs to have any effect, stands on the field.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from trimtab.config import device_shares
from trimtab.config.algorithms import ALGORITHMS, Name, Traits, those
from trimtab.core import fields, markup
from trimtab.core.fields import (
    ConfigError,
    FieldSpec,
    Need,
    around,
    divisors,
    nearest_divisors,
    neighbours,
    part_of,
    static,
    traced,
)
from trimtab.core.wording import horizon, nearest, steps
from trimtab.envs.backends import BackendName
from trimtab.math.optimizers import OPTIMIZERS, OptimizerKind, OptimizerName
from trimtab.math.surrogates import SURROGATES, Surrogate, SurrogateName
from trimtab.nets.families import AUTOMATIC, FAMILIES, NetworkName

__all__ = ["Config", "ConfigError", "from_dict", "nearest_divisors"]


MANY = 2**31 - 1

# When an option has any effect, and what is said where it has none.
SURROGATE = Need(lambda c: c.has_surrogate, f"does not apply to {those(lambda a: not a.surrogate)}")
ADVANTAGES = Need(lambda c: c.uses_gae, f"does not apply to {those(lambda a: not a.gae)}")


def _only_of(name: str) -> Need:
    """For a field that only some optimizers use."""
    names = " or ".join(kind.name for kind in OPTIMIZERS.values() if name in kind.fields)
    return Need(lambda c: name in OPTIMIZERS[c.optimizer].fields, f"needs optimizer={names}")


def _only_of_networks(name: str) -> Need:
    """For a field that only some families of networks use; `auto` is held to it once the observation is known."""
    names = [family.name for family in FAMILIES.values() if name in family.fields]
    usable = {*names, *(["auto"] if set(names) & {*AUTOMATIC} else [])}
    return Need(lambda c: c.network in usable, f"needs network={' or '.join(names)}")


def _limited_by(name: str) -> Need:
    """For a field that only the surrogates whose coefficient it is use."""
    names = " or ".join(s.name for s in SURROGATES.values() if s.coefficient == name)
    holds = lambda c: c.has_surrogate and SURROGATES[c.surrogate].coefficient == name
    return Need(holds, f"needs surrogate={names} and an algorithm with a proximal policy")


CLIPPED, PENALIZED = _limited_by("clip_coef"), _limited_by("kl_coef")
OPTIONAL_CRITIC = Need(lambda c: c.traits.may_lack_critic, f"only {those(lambda a: a.may_lack_critic)} can go without")
CRITIC = Need(lambda c: c.needs_value, "there is no value function without a baseline")
DUAL = Need(lambda c: c.arch == "dual", "needs arch=dual (separate networks)")
CARRIED = Need(lambda c: not c.whole_episodes, "every iteration starts from reset without a baseline")
ADV_EWMA = Need(lambda c: c.norm_adv == "ewma", "needs norm_adv=ewma")
ADAPTIVE = Need(lambda c: c.anneal_lr == "adaptive", "needs anneal_lr=adaptive")
NORM_OBS = Need(lambda c: c.norm_obs, "needs norm_obs=true")
NORM_REWARD = Need(lambda c: c.norm_reward, "needs norm_reward=true")
EWMA = Need(lambda c: c.is_ewma, f"needs algo={those(lambda a: a.ewma)}")
PPG = Need(lambda c: c.is_ppg, f"needs algo={those(lambda a: a.phasic)}")
STALE = Need(lambda c: c.traits.may_be_stale, f"needs algo={those(lambda a: a.may_be_stale)}")
STALENESS = Need(lambda c: c.staleness > 0, "needs staleness above 0")
EVALUATIONS = 20  # of a run, where it does not say
EVALUATED = Need(lambda c: c.eval_every != 0, "needs eval_every above 0")


@dataclass(frozen=True)
class Config:
    """A training run. Derived quantities (batch, iterations, ...) are properties."""

    env_id: str = static("CartPole-v1")
    """Environment id as Gymnasium, gymnax, EnvPool, pgx, xminigrid, Playground know it; one's own is module:Env-v0."""
    backend: BackendName = static("auto")
    """Where the environment comes from; auto prefers compiled ones."""
    env_kwargs: dict[str, Any] = field(default_factory=dict, metadata={"declared": FieldSpec()})
    """Options handed to the environment, as YAML, for example '{is_slippery: false}'."""
    time_limit: int | None = static(None, low=1, high=MANY)
    """Truncate episodes after this many steps; the environment's own limit if not given."""
    algo: Name = static("ppo")
    """The algorithm."""
    seed: int = around(1, low=0, high=MANY)
    """Seed of everything random in the run."""
    total_timesteps: int = traced(500_000, low=1, high=MANY)
    """Environment steps to take, over all environments."""

    num_envs: int = static(4, low=1, high=1 << 20)
    """N: environments stepped in parallel."""
    num_steps: int = static(128, low=1, high=1 << 20)
    """T: steps taken in each environment per iteration."""
    devices: int = static(1, low=1, high=1 << 16)
    """Devices that share the run: each steps N / devices environments and gives its share to every minibatch."""
    stagger_resets: bool = static(False, CARRIED)
    """Spread the phases of the first episodes by stepping each environment a random number of random steps."""

    num_minibatches: int | None = static(None, low=1, high=1 << 30)
    """Minibatches per epoch (4 if neither this nor minibatch_size is given)."""
    minibatch_size: int | None = static(None, low=1, high=1 << 30)
    """Samples of one gradient step; the other way to give num_minibatches."""
    minibatch_by: Literal["samples", "rows"] = static("samples")
    """What is shuffled into minibatches: samples, or whole rows (cut in time only where rows are too few)."""
    update_epochs: int = static(4, low=1, high=10_000)
    """Passes of the policy over each batch; every pass visits every sample once."""
    value_epochs: int | None = static(None, CRITIC, DUAL, low=1, high=10_000)
    """Passes of the value function over each batch, if different (needs arch dual)."""

    surrogate: SurrogateName = static("clip", SURROGATE, explained={s.name: s.summary for s in SURROGATES.values()})
    """How updates are kept near the proximal policy."""
    clip_coef: float = traced(0.2, CLIPPED, low=0.0)
    """Keep the ratio to the proximal policy within 1 ± this."""
    clip_anneal: Literal["constant", "linear"] = static("constant", CLIPPED)
    """How clip_coef falls to 0 over training."""
    kl_coef: float = traced(1.0, PENALIZED, low=0.0)
    """Weight of the KL penalty."""
    imp_samp_max: float = traced(100.0, SURROGATE, low=1.0)
    """Cap on the importance ratio of current to behavior policy."""
    clip_vloss: float | None = traced(None, CRITIC, low=0.0, positive=True)
    """Clip the change of the value prediction to ± this (off if not given)."""
    vf_coef: float = traced(0.5, CRITIC, low=0.0, high=1e6)
    """Weight of the value loss mean((V - target)²)."""
    ent_coef: float = traced(0.01, low=0.0, high=1e6)
    """Weight of the entropy bonus."""
    ent_anneal: float = traced(0.0, low=0.0, high=1.0)
    """Fraction of training, at its end, over which the entropy bonus falls linearly to 0."""
    target_kl: float | None = traced(None, SURROGATE, low=0.0, positive=True)
    """Stop updating in an iteration once the approximate KL to the behavior policy passes 1.5 times this."""
    gamma: float = traced(0.99, low=0.0, high=1.0)
    """Discount."""
    gae_lambda: float = traced(0.95, ADVANTAGES, low=0.0, high=1.0)
    """λ of generalized advantage estimation."""
    norm_adv: Literal["none", "batch", "minibatch", "ewma"] = static("batch")
    """Over what advantages are normalized; minibatch couples samples, ewma spans iterations."""
    norm_adv_span: float = traced(1.0, ADV_EWMA, low=1.0, high=1e9)
    """Span, in iterations, of the advantage moments (norm_adv ewma); 1 is the whole-batch normalization."""
    baseline: bool = static(True, OPTIONAL_CRITIC)
    """REINFORCE: subtract a learned value baseline."""

    optimizer: OptimizerName = static("adam", explained={kind.name: kind.summary for kind in OPTIMIZERS.values()})
    """The optimizer."""
    learning_rate: float = traced(2.5e-4, low=0.0, high=1e3)
    """Step size."""
    value_learning_rate: float | None = traced(None, CRITIC, DUAL, low=0.0, high=1e3)
    """Step size of the value network (learning_rate if not given; needs arch dual)."""
    anneal_lr: Literal["constant", "linear", "cosine", "adaptive"] = static("constant")
    """How the step size falls to 0 over training; adaptive moves it, minibatch by minibatch, to keep the KL desired."""
    desired_kl: float = traced(0.01, ADAPTIVE, low=0.0, positive=True)
    """KL[behavior, current] that anneal_lr adaptive steers to: ÷ 1.5 above twice this, × 1.5 below half of it."""
    warmup_steps: int = traced(0, low=0, high=MANY)
    """Environment steps over which the step size rises linearly from 0."""
    adam_beta1: float = traced(0.9, _only_of("adam_beta1"), low=0.0, high=0.999999)
    """Decay of Adam's first moment."""
    adam_beta2: float = traced(0.999, _only_of("adam_beta2"), low=0.0, high=0.9999999)  # more would be 1 in float32
    """Decay of Adam's second moment."""
    adam_eps: float = traced(1e-5, _only_of("adam_eps"), low=0.0, high=1.0)
    """Adam's ε."""
    momentum: float = traced(0.0, _only_of("momentum"), low=0.0, high=0.999999)
    """Momentum of SGD."""
    weight_decay: float = traced(0.0, low=0.0, high=1e3)
    """Decoupled weight decay."""
    max_grad_norm: float | None = traced(0.5, low=0.0, positive=True)
    """Clip the global norm of the gradient (none: off)."""

    network: NetworkName = static("auto", explained={f.name: f.summary for f in FAMILIES.values()})
    """Network family; auto takes nature (Mnih et al. 2015) for images of 36 × 36 and more, mlp for all else."""
    hidden_sizes: tuple[int, ...] | None = static(None)
    """Widths of the dense layers; if not given 64 64 (mlp), 512 after nature's convolutions, 256 after impala's."""
    impala_channels: tuple[int, ...] = static((16, 32, 32), _only_of_networks("impala_channels"))
    """Channels of the IMPALA stacks."""
    activation: Literal["tanh", "relu", "elu", "silu", "gelu"] = static("tanh", _only_of_networks("activation"))
    """Nonlinearity of the MLP."""
    ortho_init: bool = static(True, _only_of_networks("ortho_init"))
    """Start from orthogonal weights (gains √2, 0.01 for actions, 1 for values), or as PyTorch: U(±1/√inputs)."""
    arch: Literal["dual", "shared", "detach"] = static("dual", CRITIC)
    """Separate policy and value networks, one shared trunk, or a shared trunk the value loss does not train."""
    log_std_init: float = static(0.0, low=-10.0, high=5.0)
    """Initial log standard deviation of Gaussian policies."""

    actor_obs: tuple[str, ...] = static(())
    """Parts of a Dict or Tuple observation that the policy sees, by key; all of them if not given."""
    critic_obs: tuple[str, ...] = static((), CRITIC)
    """Parts of a Dict or Tuple observation that the value function sees (needs arch dual if not the policy's)."""
    norm_obs: bool = static(False)
    """Normalize observations by running mean and standard deviation."""
    norm_reward: bool = static(False)
    """Divide rewards by the running standard deviation of their discounted sum."""
    norm_value: Literal["none", "popart"] = static("none", CRITIC)
    """popart: values are learned with mean 0 and deviation 1, which clip_vloss counts in; predictions are kept."""
    clip_obs: float = traced(10.0, NORM_OBS, low=0.0, positive=True)
    """Clip normalized observations to ± this."""
    clip_reward: float = traced(10.0, NORM_REWARD, low=0.0, positive=True)
    """Clip normalized rewards to ± this."""
    norm_reward_gamma: float = traced(0.99, NORM_REWARD, low=0.0, high=1.0)
    """Discount of the sum whose deviation normalizes rewards."""

    prox_com: float | None = traced(None, EWMA, low=0.0, high=1e9)
    """Centre of mass, in gradient steps, of the proximal EWMA; minibatches × epochs of an iteration if not given."""
    staleness: int = static(0, STALE, low=0, high=10_000)
    """Iterations a batch waits before it is used (an experiment)."""
    staleness_loss: Literal["decoupled", "behavior", "recent"] = traced("decoupled", STALENESS)
    """Which policies stale data is weighted by and kept near."""

    policy_iterations: int = static(32, PPG, low=1, high=1_000_000)
    """PPG: iterations N_π per policy phase."""
    aux_epochs: int = static(6, PPG, low=0, high=1_000)
    """PPG: passes over the phase's data in the auxiliary phase."""
    aux_minibatch_size: int | None = static(None, PPG, low=1, high=1 << 30)
    """PPG: samples per auxiliary gradient step (minibatch_size if not given)."""
    aux_learning_rate: float = traced(5e-4, PPG, low=0.0, high=1e3)
    """PPG: step size of the auxiliary phase."""
    beta_clone: float = traced(1.0, PPG, low=0.0, high=1e6)
    """PPG: weight of the KL that keeps the policy during the auxiliary phase."""

    eval_every: int | None = around(None, low=0, high=MANY)
    """Evaluate the policy every this many environment steps, and before the first; 20 times if not given, 0: never."""
    eval_episodes: int = around(10, EVALUATED, low=1, high=100_000)
    """Episodes per evaluation with sampled actions, for the learning curve, and as many with exploration off."""
    eval_threshold: float | None = around(None, EVALUATED)
    """Start evaluating only once the training return has passed this."""
    probe_every: int = static(0, low=0, high=MANY)
    """Take a light probe of the gradient every this many iterations (0: never)."""

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
