"""The fields of a run: type, default, range, what each needs to have any effect, and one sentence of help.

A field is *static* when it sets a shape or chooses code (changing it compiles again) and *traced* when it is
only a number (a sweep over it compiles once). What no program reads is *around* it. `Config` is made of these fields;
functions and commands that make a configuration take each of them as an option (`Overrides`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from trimtab.config.algorithms import Name, those
from trimtab.core.fields import FieldSpec, Need, around, static, traced
from trimtab.core.options import if_given
from trimtab.envs.backends import BackendName
from trimtab.math.optimizers import OPTIMIZERS, OptimizerName
from trimtab.math.surrogates import SURROGATES, SurrogateName
from trimtab.nets.families import AUTOMATIC, FAMILIES, NetworkName

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
VALUE_CLIPPED = Need(lambda c: c.clip_vloss is not None, "needs clip_vloss")
ADV_NORMALIZED = Need(lambda c: c.norm_adv != "none", "needs norm_adv=batch, minibatch or ewma")
ADV_EWMA = Need(lambda c: c.norm_adv == "ewma", "needs norm_adv=ewma")
ADAPTIVE = Need(lambda c: c.anneal_lr == "adaptive", "needs anneal_lr=adaptive")
NORM_OBS = Need(lambda c: c.norm_obs, "needs norm_obs=true")
NORM_REWARD = Need(lambda c: c.norm_reward, "needs norm_reward=true")
EWMA = Need(lambda c: c.is_ewma, f"needs algo={those(lambda a: a.ewma)}")
PPG = Need(lambda c: c.is_ppg, f"needs algo={those(lambda a: a.phasic)}")
STALE = Need(lambda c: c.traits.may_be_stale, f"needs algo={those(lambda a: a.may_be_stale)}")
STALENESS = Need(lambda c: c.staleness > 0, "needs staleness above 0")
EVALUATED = Need(lambda c: c.eval_every != 0, "needs eval_every above 0")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run can be told, in the groups of `--help`."""

    env_id: str = static("CartPole-v1", group="environment")
    """Environment id as Gymnasium, gymnax, EnvPool, pgx, xminigrid, Playground know it; one's own is module:Env-v0."""
    backend: BackendName = static("auto")
    """Where the environment comes from; auto prefers compiled ones."""
    env_kwargs: dict[str, Any] = field(default_factory=dict, metadata={"declared": FieldSpec()})
    """Options handed to the environment, as YAML, for example '{is_slippery: false}'."""
    time_limit: int | None = static(None, low=1, high=MANY)
    """Truncate episodes after this many steps; the environment's own limit if not given."""
    algo: Name = static("ppo", group="run")
    """The algorithm."""
    seed: int = around(1, low=0, high=MANY)
    """Seed of everything random in the run."""
    total_timesteps: int = traced(500_000, low=1, high=MANY)
    """Environment steps to take, over all environments."""

    num_envs: int = static(4, low=1, high=1 << 20, group="batch")
    """N: environments stepped in parallel."""
    num_steps: int = static(128, low=1, high=1 << 20)
    """T: steps taken in each environment per iteration."""
    devices: int = static(1, low=1, high=1 << 16)
    """Devices that share the run: each steps N / devices environments and gives its share to every minibatch."""
    stagger_resets: bool = static(False, CARRIED)
    """Spread the phases of the first episodes by stepping each environment a random number of random steps."""

    num_minibatches: int | None = static(None, low=1, high=1 << 30, group="minibatches")
    """Minibatches per epoch (4 if neither this nor minibatch_size is given)."""
    minibatch_size: int | None = static(None, low=1, high=1 << 30)
    """Samples of one gradient step; the other way to give num_minibatches."""
    minibatch_by: Literal["samples", "rows"] = static("samples")
    """What is shuffled into minibatches: samples, or whole rows (cut in time only where rows are too few)."""
    update_epochs: int = static(4, low=1, high=10_000)
    """Passes of the policy over each batch; every pass visits every sample once."""
    value_epochs: int | None = static(None, CRITIC, DUAL, low=1, high=10_000)
    """Passes of the value function over each batch, if different (needs arch dual)."""

    surrogate: SurrogateName = static(
        "clip", SURROGATE, explained={s.name: s.summary for s in SURROGATES.values()}, group="objective"
    )
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
    clip_vloss_form: Literal["larger", "clipped"] = static("larger", VALUE_CLIPPED)
    """Loss with clip_vloss: the larger of the clipped and unclipped loss, or (as in SB3 and skrl) the clipped one."""
    vf_coef: float = traced(0.5, CRITIC, low=0.0, high=1e6)
    """Weight of the value loss mean((V - target)²)."""
    ent_coef: float = traced(0.01, low=0.0, high=1e6)
    """Weight of the entropy bonus."""
    ent_anneal: float = traced(0.0, low=0.0, high=1.0)
    """Fraction of training, at its end, over which the entropy bonus falls linearly to 0."""
    target_kl: float | None = traced(None, SURROGATE, low=0.0, positive=True)
    """Stop updating in an iteration once the approximate KL to the behavior policy passes 1.5 times this."""
    gamma: float = traced(0.99, low=0.0, high=1.0, group="advantages")
    """Discount."""
    gae_lambda: float = traced(0.95, ADVANTAGES, low=0.0, high=1.0)
    """λ of generalized advantage estimation."""
    norm_adv: Literal["none", "batch", "minibatch", "ewma"] = static("batch")
    """Over what advantages are normalized; minibatch couples samples, ewma spans iterations."""
    norm_adv_ddof: int = static(0, ADV_NORMALIZED, low=0, high=1)
    """Divide advantages by the standard deviation with n - this: 1 as in PyTorch (SB3, CleanRL, rsl_rl, skrl)."""
    norm_adv_span: float = traced(1.0, ADV_EWMA, low=1.0, high=1e9)
    """Span, in iterations, of the advantage moments (norm_adv ewma); 1 is the whole-batch normalization."""
    baseline: bool = static(True, OPTIONAL_CRITIC)
    """REINFORCE: subtract a learned value baseline."""

    optimizer: OptimizerName = static(
        "adam", explained={kind.name: kind.summary for kind in OPTIMIZERS.values()}, group="optimizer"
    )
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

    network: NetworkName = static("auto", explained={f.name: f.summary for f in FAMILIES.values()}, group="network")
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
    norm_obs: bool = static(False, group="normalization")
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

    prox_com: float | None = traced(None, EWMA, low=0.0, high=1e9, group="proximal policy and staleness")
    """Centre of mass, in gradient steps, of the proximal EWMA; minibatches × epochs of an iteration if not given."""
    staleness: int = static(0, STALE, low=0, high=10_000)
    """Iterations a batch waits before it is used (an experiment)."""
    staleness_loss: Literal["decoupled", "behavior", "recent"] = traced("decoupled", STALENESS)
    """Which policies stale data is weighted by and kept near."""

    policy_iterations: int = static(32, PPG, low=1, high=1_000_000, group="PPG")
    """PPG: iterations N_π per policy phase."""
    aux_epochs: int = static(6, PPG, low=0, high=1_000)
    """PPG: passes over the phase's data in the auxiliary phase."""
    aux_minibatch_size: int | None = static(None, PPG, low=1, high=1 << 30)
    """PPG: samples per auxiliary gradient step (minibatch_size if not given)."""
    aux_learning_rate: float = traced(5e-4, PPG, low=0.0, high=1e3)
    """PPG: step size of the auxiliary phase."""
    beta_clone: float = traced(1.0, PPG, low=0.0, high=1e6)
    """PPG: weight of the KL that keeps the policy during the auxiliary phase."""

    eval_every: int | None = around(None, low=0, high=MANY, group="evaluation and probes")
    """Evaluate the policy every this many environment steps, and before the first; 20 times if not given, 0: never."""
    eval_episodes: int = around(10, EVALUATED, low=1, high=100_000)
    """Episodes per evaluation with sampled actions, for the learning curve, and as many with exploration off."""
    eval_threshold: float | None = around(None, EVALUATED)
    """Start evaluating only once the training return has passed this."""
    probe_every: int = static(0, low=0, high=MANY)
    """Take a light probe of the gradient every this many iterations (0: never)."""


if TYPE_CHECKING:
    Overrides = Settings
else:
    Overrides = if_given(Settings)
