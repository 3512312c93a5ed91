"""What a run is: one frozen dataclass, one sentence per field.

A field is *static* when it sets a shape or chooses code (changing it compiles again) and *traced* when it is
only a number (a sweep over it compiles once). `Config.traced()` collects the second kind.
"""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass, field
from typing import Any, Literal

from trimtab.validation import ConfigError, check_type, choices_of, nearest_divisors, validate

__all__ = ["Config", "ConfigError", "check_type", "choices_of", "from_dict", "nearest_divisors"]


def static(default):
    """A field that sets a shape or selects code."""
    return field(default=default, metadata={"traced": False})


def traced(default):
    """A field that is only a number inside the compiled program."""
    return field(default=default, metadata={"traced": True})


@dataclass(frozen=True)
class Config:
    """A training run. Derived quantities (batch, iterations, ...) are properties."""

    env_id: str = static("CartPole-v1")
    """Environment id as Gymnasium, gymnax, EnvPool, pgx or xminigrid know it, or of one's own: module:Env-v0."""
    backend: Literal["auto", "native", "tabular", "pgx", "xminigrid", "envpool", "gymnasium"] = static("auto")
    """Where the environment comes from; auto prefers compiled ones."""
    env_kwargs: dict[str, Any] = field(default_factory=dict, metadata={"traced": False})
    """Options handed to the environment, as YAML, for example '{is_slippery: false}'."""
    time_limit: int | None = static(None)
    """Truncate episodes after this many steps; the environment's own limit if not given."""
    algo: Literal["reinforce", "ppo", "ppo-ewma", "ppg", "ppg-ewma"] = static("ppo")
    """The algorithm."""
    seed: int = static(1)
    """Seed of everything random in the run."""
    total_timesteps: int = traced(500_000)
    """Environment steps to take, over all environments."""

    num_envs: int = static(4)
    """N: environments stepped in parallel."""
    num_steps: int = static(128)
    """T: steps taken in each environment per iteration."""
    stagger_resets: bool = static(False)
    """Spread the phases of the first episodes by stepping each environment a random number of random steps."""

    num_minibatches: int | None = static(None)
    """Minibatches per epoch (4 if neither this nor minibatch_size is given)."""
    minibatch_size: int | None = static(None)
    """Samples of one gradient step; the other way to give num_minibatches."""
    update_epochs: int = static(4)
    """Passes of the policy over each batch; every pass visits every sample once."""
    value_epochs: int | None = static(None)
    """Passes of the value function over each batch, if different (needs arch dual)."""

    surrogate: Literal["clip", "kl"] = static("clip")
    """How updates are kept near the proximal policy: clipping the ratio or a KL penalty."""
    clip_coef: float = traced(0.2)
    """Clip the ratio to the proximal policy to 1 ± this."""
    kl_coef: float = traced(1.0)
    """Weight of the KL penalty (surrogate kl)."""
    imp_samp_max: float = traced(100.0)
    """Cap on the importance ratio of current to behavior policy."""
    clip_vloss: float | None = traced(None)
    """Clip the change of the value prediction to ± this (off if not given)."""
    vf_coef: float = traced(0.5)
    """Weight of the value loss mean((V - target)²)."""
    ent_coef: float = traced(0.01)
    """Weight of the entropy bonus."""
    ent_anneal: float = traced(0.0)
    """Fraction of training, at its end, over which the entropy bonus falls linearly to 0."""
    target_kl: float | None = traced(None)
    """Stop updating in an iteration once the approximate KL to the behavior policy passes 1.5 times this."""
    gamma: float = traced(0.99)
    """Discount."""
    gae_lambda: float = traced(0.95)
    """λ of generalized advantage estimation."""
    norm_adv: Literal["none", "batch", "minibatch", "ewma"] = static("batch")
    """Over what advantages are normalized; minibatch couples samples, ewma spans iterations."""
    norm_adv_span: float = traced(1.0)
    """Span, in iterations, of the advantage moments (norm_adv ewma); 1 is the whole-batch normalization."""
    baseline: bool = static(True)
    """REINFORCE: subtract a learned value baseline."""

    optimizer: Literal["adam", "sgd"] = static("adam")
    """The optimizer."""
    learning_rate: float = traced(2.5e-4)
    """Step size."""
    anneal_lr: Literal["constant", "linear", "cosine"] = static("constant")
    """How the step size falls to 0 over training."""
    warmup_steps: int = traced(0)
    """Environment steps over which the step size rises linearly from 0."""
    adam_beta1: float = traced(0.9)
    """Decay of Adam's first moment."""
    adam_beta2: float = traced(0.999)
    """Decay of Adam's second moment."""
    adam_eps: float = traced(1e-5)
    """Adam's ε."""
    momentum: float = traced(0.0)
    """Momentum of SGD."""
    weight_decay: float = traced(0.0)
    """Decoupled weight decay."""
    max_grad_norm: float | None = traced(0.5)
    """Clip the global norm of the gradient (none: off)."""

    network: Literal["auto", "mlp", "nature", "impala"] = static("auto")
    """Network family; auto takes nature (Mnih et al. 2015) for images of 36 × 36 and more, mlp for all else."""
    hidden_sizes: tuple[int, ...] | None = static(None)
    """Widths of the dense layers; if not given 64 64 (mlp), 512 after nature's convolutions, 256 after impala's."""
    impala_channels: tuple[int, ...] = static((16, 32, 32))
    """Channels of the IMPALA stacks."""
    activation: Literal["tanh", "relu"] = static("tanh")
    """Nonlinearity of the MLP."""
    arch: Literal["dual", "shared", "detach"] = static("dual")
    """Separate policy and value networks, one shared trunk, or a shared trunk the value loss does not train."""
    log_std_init: float = static(0.0)
    """Initial log standard deviation of Gaussian policies."""

    actor_obs: tuple[str, ...] = static(())
    """Parts of a Dict or Tuple observation that the policy sees, by key; all of them if not given."""
    critic_obs: tuple[str, ...] = static(())
    """Parts of a Dict or Tuple observation that the value function sees (needs arch dual if not the policy's)."""
    norm_obs: bool = static(False)
    """Normalize observations by running mean and standard deviation."""
    norm_reward: bool = static(False)
    """Divide rewards by the running standard deviation of their discounted sum."""
    clip_obs: float = traced(10.0)
    """Clip normalized observations to ± this."""
    clip_reward: float = traced(10.0)
    """Clip normalized rewards to ± this."""
    norm_reward_gamma: float = traced(0.99)
    """Discount of the sum whose deviation normalizes rewards."""

    prox_com: float | None = traced(None)
    """Centre of mass, in gradient steps, of the proximal EWMA; gradient steps per iteration and epoch if not given."""
    staleness: int = static(0)
    """Iterations a batch waits before it is used (an experiment)."""
    staleness_loss: Literal["decoupled", "behavior", "recent"] = static("decoupled")
    """Which policies stale data is weighted by and kept near."""

    policy_iterations: int = static(32)
    """PPG: iterations N_π per policy phase."""
    aux_epochs: int = static(6)
    """PPG: passes over the phase's data in the auxiliary phase."""
    aux_minibatch_size: int | None = static(None)
    """PPG: samples per auxiliary gradient step (minibatch_size if not given)."""
    aux_learning_rate: float = traced(5e-4)
    """PPG: step size of the auxiliary phase."""
    beta_clone: float = traced(1.0)
    """PPG: weight of the KL that keeps the policy during the auxiliary phase."""

    eval_every: int = static(0)
    """Evaluate every this many environment steps (0: only on request)."""
    eval_episodes: int = static(10)
    """Episodes per evaluation, exploration off."""
    eval_threshold: float | None = static(None)
    """Start evaluating only once the training return has passed this."""
    probe_every: int = static(0)
    """Take a light probe of the gradient every this many iterations (0: never)."""

    def __post_init__(self):
        for item in dataclasses.fields(self):
            check_type(item.name, str(item.type), getattr(self, item.name))
        validate(self)

    # What follows from the fields ------------------------------------------------------------------------

    @property
    def batch(self) -> int:
        """Samples of one iteration, N × T."""
        return self.num_envs * self.num_steps

    @property
    def minibatches(self) -> int:
        """Minibatches per epoch."""
        if self.minibatch_size is not None:
            return self.batch // self.minibatch_size
        return self.num_minibatches or default_minibatches(self.batch, self.algo)

    @property
    def minibatch(self) -> int:
        """Samples of one gradient step."""
        return self.batch // self.minibatches

    @property
    def iterations(self) -> int:
        """Alternations of sampling and optimizing."""
        return self.total_timesteps // self.batch

    @property
    def steps(self) -> int:
        """Environment steps really taken: whole iterations only."""
        return self.iterations * self.batch

    @property
    def epochs_of_value(self) -> int:
        return self.update_epochs if self.value_epochs is None else self.value_epochs

    @property
    def gradient_steps(self) -> int:
        """Policy gradient steps of the whole run."""
        return max(0, self.iterations - self.staleness) * self.minibatches * self.update_epochs

    @property
    def is_ewma(self) -> bool:
        return self.algo.endswith("ewma")

    @property
    def is_ppg(self) -> bool:
        return self.algo.startswith("ppg")

    @property
    def needs_value(self) -> bool:
        """Whether a critic exists at all."""
        return self.algo != "reinforce" or self.baseline

    @property
    def proximal_com(self) -> float:
        """Centre of mass of the proximal EWMA in gradient steps (paper: minibatches per policy iteration)."""
        return float(self.minibatches * self.update_epochs) if self.prox_com is None else self.prox_com

    @property
    def proximal_decay(self) -> float:
        """β of the proximal EWMA: COM / (1 + COM)."""
        return self.proximal_com / (1.0 + self.proximal_com)

    @property
    def adv_decay(self) -> float:
        """β of the advantage moments: 1 - 2/(span + 1)."""
        return 1.0 - 2.0 / (self.norm_adv_span + 1.0)

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
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.metadata.get("traced", False)}
        values["prox_com"] = self.proximal_com
        values["iterations"] = values.pop("total_timesteps") // self.batch
        return {name: float(value) for name, value in values.items() if value is not None}

    def static_key(self) -> tuple:
        """Everything the compiled program depends on except the traced numbers (but whether they are given)."""
        return tuple(
            (f.name, repr(getattr(self, f.name)))
            if not f.metadata.get("traced")
            else (f.name, getattr(self, f.name) is None)
            for f in dataclasses.fields(self)
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, in the order of the fields, for YAML."""
        return {
            f.name: list(v) if isinstance(v := getattr(self, f.name), tuple) else v for f in dataclasses.fields(self)
        }

    def derived(self) -> dict[str, Any]:
        """What a user should see before a run starts."""
        rows: dict[str, Any] = {
            "batch (N × T)": f"{self.num_envs} × {self.num_steps} = {self.batch:,}",
            "minibatch": f"{self.minibatch:,} × {self.minibatches} per epoch",
            "iterations": f"{self.iterations:,}",
            "environment steps": f"{self.steps:,}"
            + ("" if self.steps == self.total_timesteps else f" (of {self.total_timesteps:,}: whole iterations)"),
            "policy gradient steps": f"{self.gradient_steps:,}",
            "each sample is used": (
                f"{self.update_epochs} × by the policy, {self.epochs_of_value} × by the value function"
                if self.needs_value
                else f"{self.update_epochs} ×"
            ),
            "horizons": f"1/(1-γ) = {_horizon(self.gamma)}"
            + ("" if self.algo == "reinforce" else f", 1/(1-γλ) = {_horizon(self.gamma * self.gae_lambda)}"),
        }
        if self.is_ewma:
            age = self.proximal_com / (self.minibatches * self.update_epochs) * self.batch
            rows["proximal EWMA"] = (
                f"COM {self.proximal_com:g} gradient steps (β = {self.proximal_decay:.4g}, age {age:,.0f} steps)"
            )
        if self.is_ppg:
            rows["PPG phase"] = f"{self.policy_iterations} iterations = {self.phase_batch:,} samples"
        return rows


def default_minibatches(batch: int, algo: str) -> int:
    """Four per epoch where that divides the batch, else the largest divisor below; REINFORCE takes whole batches."""
    if algo == "reinforce":
        return 1
    return next(n for n in (4, 3, 2, 1) if batch % n == 0)


def from_dict(values: dict[str, Any], base: Config | None = None) -> Config:
    """A Config from plain values over `base`; unknown names are refused with the nearest known ones."""
    names = [f.name for f in dataclasses.fields(Config)]
    for name, value in values.items():
        if name not in names:
            close = difflib.get_close_matches(str(name), names, n=3)
            raise ConfigError(str(name), value, f"no such field; nearest: {', '.join(close) or 'see --help'}")
    values = dict(values)
    for name in ("hidden_sizes", "impala_channels", "actor_obs", "critic_obs"):
        if isinstance(values.get(name), list):
            values[name] = tuple(values[name])
    for item in dataclasses.fields(Config):  # YAML 1.1 reads 3e-4 as text
        if item.name in values and isinstance(values[item.name], str) and str(item.type).startswith("float"):
            values[item.name] = _number(values[item.name])
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


def _horizon(discount: float) -> str:
    return "∞" if discount >= 1.0 else f"{1 / (1 - discount):.3g}"


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
