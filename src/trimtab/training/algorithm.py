"""One iteration of any algorithm: collect a batch, turn it into advantages, update, account."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from trimtab.config import Config
from trimtab.math import across_devices, ewma, normalize, returns
from trimtab.math.normalize import Moments
from trimtab.math.step_sizes import anneal, schedule, warmup
from trimtab.nets.agent import Agent, Params, distribution_for
from trimtab.nets.families import choose_network, widths
from trimtab.training import auxiliary_phase, reinforce, rollout, update
from trimtab.training.light_probe import light_probe
from trimtab.training.rollout import Acted, Carry, Rollout
from trimtab.training.state import Batch, Hypers, Info, Optimizer, Phase, Rates, State, absent


def hypers_of(config: Config) -> Hypers:
    """The traced numbers as arrays; pass them to `step`, so that changing one does not compile again."""
    return {name: jnp.asarray(value, jnp.float32) for name, value in config.traced().items()}


def _no_more(count: int) -> Any:
    raise RuntimeError("this algorithm was given environments, and no way to make more")


class Algorithm:
    """Pure functions of State for one environment and one Config; numbers that are traced come in as `hypers`."""

    def __init__(self, config: Config, env, make_env: Callable[[int], Any] | None = None):
        """`make_env(n)` makes n more environments like `env`, for those who step them on the host."""
        self.config, self.env = config, env
        self.make_env: Callable[[int], Any] = make_env or _no_more
        self.programs: dict[Any, Callable] = {}  # compiled by others for this algorithm, kept so that they compile once
        spec = env.spec
        self.dist = distribution_for(spec.action)
        network = choose_network(config.network, spec.obs_shape)
        self.agent = Agent(
            spec.obs_shape,
            spec.obs_dtype,
            self.dist,
            network=network,
            hidden_sizes=widths(network, config.hidden_sizes),
            impala_channels=config.impala_channels,
            activation=config.activation,
            arch=config.arch,
            critic=config.needs_value,
            auxiliary=config.is_ppg,
            log_std_init=config.log_std_init,
            ortho_init=config.ortho_init,
            actor_parts=spec.slices("actor_obs", config.actor_obs),
            critic_parts=spec.slices("critic_obs", config.critic_obs),
        )
        self.restarts = config.whole_episodes  # so every iteration starts from reset

    # Starting --------------------------------------------------------------------------------------------

    def init(self, key: PRNGKeyArray, hypers: Hypers, carry: Carry | None = None) -> State:
        """A state before the first iteration; host environments bring their own `carry`."""
        config = self.config
        params_key, env_key, stagger_key, key = jax.random.split(key, 4)
        params = self.agent.init(params_key)
        if carry is None:
            carry = rollout.start(self.env, env_key, config.num_envs)
            if config.stagger_resets:
                carry = rollout.stagger(
                    self.env, self.dist, carry, stagger_key, self.env.spec.time_limit or config.num_steps
                )
        state = State(
            params=params,
            optimizer=self._optimizer(params),
            prox=ewma.init(params.policy) if config.is_ewma else None,
            obs_stats=normalize.moments(self.env.spec.obs_shape) if config.norm_obs else None,
            reward_scale=normalize.RewardScale(jnp.zeros(config.num_envs), normalize.moments())
            if config.norm_reward
            else None,
            advantages=normalize.advantage_moments(),
            env=carry,
            key=key,
            iteration=jnp.zeros((), jnp.int32),
            gradient_steps=jnp.zeros((), jnp.int32),
            auxiliary=self._optimizer(params) if config.is_ppg else None,
            learning_rate=hypers["learning_rate"] if config.anneal_lr == "adaptive" else None,
            value_stats=normalize.moments() if config.norm_value == "popart" else None,
        )
        return self._with_buffers(state)

    def _optimizer(self, params: Params) -> Optimizer:
        init = self.config.optimizer_kind.init
        return Optimizer(init(params.policy), init(params.value))

    def _with_buffers(self, state: State) -> State:
        """Room for the staleness queue and the PPG phase, sized from an abstract batch."""
        config = self.config
        if not config.staleness and not config.is_ppg:
            return state
        batch = self.abstract_batch()
        room = lambda n, tree: jax.tree.map(lambda x: jnp.zeros((n, *x.shape), x.dtype), tree)
        queue = room(config.staleness, batch) if config.staleness else None
        phase = room(config.policy_iterations, Phase(batch.obs, batch.target, batch.weight)) if config.is_ppg else None
        return replace(state, queue=queue, phase=phase)

    def abstract_batch(self) -> Batch:
        """Shapes and types of one batch, without computing it."""
        config, spec = self.config, self.env.spec
        size = config.batch
        obs_dtype = jnp.float32 if config.norm_obs else spec.obs_dtype
        array: Any = jax.ShapeDtypeStruct  # in place of arrays
        scalar = array((size,), jnp.float32)
        return Batch(
            obs=array((size, *spec.obs_shape), obs_dtype),
            action=array((size, *self.dist.action_shape), self.dist.action_dtype),
            dist=array((size, self.dist.num_params), jnp.float32),
            logp=scalar,
            value=scalar,
            target=scalar,
            advantage=scalar,
            weight=scalar,
        )

    # Acting ----------------------------------------------------------------------------------------------

    def normalized_obs(self, obs_stats: Moments | None, obs: Array, hypers: Hypers) -> Array:
        """Observations as the networks see them."""
        return obs if obs_stats is None else normalize.normalize_obs(obs, obs_stats, hypers["clip_obs"])

    def policy(self, params: Params, obs_stats: Moments | None, hypers: Hypers) -> rollout.Policy:
        """From observations to distribution parameters, for many calls with the same weights."""
        acting = self.agent.acting(params.policy)
        return lambda obs: acting(self.normalized_obs(obs_stats, obs, hypers))

    def collect(self, state: State, hypers: Hypers) -> tuple[State, Rollout]:
        """One batch from compiled environments."""
        key, *keys = jax.random.split(state.key, 3)
        collect_key, reset_key = map(across_devices.fold_in_device, keys)
        if self.restarts:
            state = self._restarted(state, reset_key)
        policy = self.policy(state.params, state.obs_stats, hypers)
        carry, rows = rollout.collect(self.env, self.dist, policy, state.env, collect_key, self.config.num_steps)
        return replace(state, env=carry, key=key), rows

    def _restarted(self, state: State, key: PRNGKeyArray) -> State:
        """New episodes in every environment: nothing of the old ones counts any more."""
        scale = state.reward_scale
        if scale is not None:
            scale = scale._replace(total=jnp.zeros_like(scale.total))
        return replace(state, env=rollout.start(self.env, key, len(state.env.obs)), reward_scale=scale)

    def noise(self, key: PRNGKeyArray) -> tuple[PRNGKeyArray, Array]:
        """The randomness of one batch of actions in host environments."""
        key, noise_key = jax.random.split(key)
        return key, self.dist.noise(noise_key, (self.config.num_steps, self.config.num_envs))

    def collect_stream(self, stream, params: Params, obs_stats: Moments | None, carry: Carry, noise, hypers: Hypers):
        """One batch from host environments that a compiled program can step."""
        return rollout.collect_stream(stream, self.dist, self.acting(params, obs_stats, hypers), carry, noise)

    @property
    def values_while_acting(self) -> bool:
        """Whether the critic's word costs nothing while acting: it reads the policy's features."""
        return self.config.needs_value and self.config.arch != "dual"

    def act(self, params: Params, obs_stats: Moments | None, obs: Array, noise: Array, hypers: Hypers) -> Acted:
        """One step in host environments."""
        return self.acting(params, obs_stats, hypers)(obs, noise)

    def acting(self, params: Params, obs_stats: Moments | None, hypers: Hypers) -> rollout.Act:
        """`act` for many calls with the same weights."""
        both: Callable[[Array], tuple[Array, Array | None]]
        if self.values_while_acting:
            both = self.agent.acting_and_judging(params)
        else:
            policy = self.agent.acting(params.policy)
            both = lambda obs: (policy(obs), None)

        def act(obs: Array, noise: Array) -> Acted:
            dist, value = both(self.normalized_obs(obs_stats, obs, hypers))
            return Acted(self.dist.sample(dist, noise), dist, value)

        return act

    def act_greedily(self, params: Params, obs_stats: Moments | None, obs: Array, hypers: Hypers) -> Array:
        """Actions with exploration off."""
        dist = self.agent.policy(params.policy, self.normalized_obs(obs_stats, obs, hypers))
        return rollout.clip_action(self.dist, self.dist.mode(dist))

    # Learning --------------------------------------------------------------------------------------------

    def values(self, params: Params, obs: Float[Array, "T N *shape"]) -> Float[Array, "T N"]:
        """The critic over a rollout; image networks go row by row, to bound memory."""
        if self.agent.sees_images:
            return jax.lax.map(lambda row: self.agent.value(params, row), obs)
        return self.agent.value(params, obs.reshape(-1, *obs.shape[2:])).reshape(obs.shape[:2])

    def critic(self, state: State, obs: Float[Array, "T N *shape"]) -> Float[Array, "T N"]:
        """`values` in the units of rewards."""
        return self._in_units_of_rewards(state, self.values(state.params, obs))

    def _in_units_of_rewards(self, state: State, value: Array) -> Array:
        return value if state.value_stats is None else state.value_stats.mean + state.value_stats.std * value

    def _next_values(self, state: State, rows: Rollout, value: Float[Array, "T N"], hypers: Hypers):
        """The critic after every step: the next row's value, but for the last row and where an episode was truncated.

        Those are evaluated, or everything if some environment was truncated more than once. What is said of a terminal
        observation is never used.
        """
        evaluate = lambda obs: self.critic(state, self.normalized_obs(state.obs_stats, obs, hypers))
        next_values = jnp.concatenate([value[1:], evaluate(rows.next_obs[-1:])])
        cut = rows.truncated & ~rows.terminated

        def patch():
            at = cut.argmax(axis=0), jnp.arange(cut.shape[1])
            return next_values.at[at].set(jnp.where(cut[at], evaluate(rows.next_obs[at][None])[0], next_values[at]))

        return jax.lax.cond(cut.sum(axis=0).max() <= 1, patch, lambda: evaluate(rows.next_obs))

    def advantages(self, state: State, rows: Rollout, hypers: Hypers):
        """(raw advantage, value target, value, valid, observations as seen), all [T, N, ...]."""
        obs = self.normalized_obs(state.obs_stats, rows.obs, hypers)
        reward = rows.reward
        if state.reward_scale is not None:
            reward = normalize.scale_reward(reward, state.reward_scale, hypers["clip_reward"])
        value = next_value = None
        if self.config.needs_value:
            value = self.critic(state, obs) if rows.value is None else self._in_units_of_rewards(state, rows.value)
            next_value = self._next_values(state, rows, value, hypers)
        if value is None or next_value is None or not self.config.uses_gae:
            advantage, target, valid = reinforce.advantages(rows, reward, value, next_value, hypers["gamma"])
        else:
            valid = rows.valid
            advantage, target = returns.gae(
                reward,
                value,
                next_value,
                rows.terminated,
                rows.truncated,
                hypers["gamma"],
                hypers["gae_lambda"],
                valid,
            )
        return advantage, target, jnp.zeros_like(advantage) if value is None else value, valid, obs

    def batch_of(self, state: State, rows: Rollout, hypers: Hypers) -> Batch:
        """A rollout as samples [B] with values and advantages of this moment.

        Weights are 0 on samples that are not experience and otherwise batch / (number of valid samples), so that in
        every minibatch sums are divided by the same expected count and mean(g_i) is the batch gradient.
        """
        advantage, target, value, valid, obs = self.advantages(state, rows, hypers)
        mask = valid.astype(jnp.float32)
        weight = mask / jnp.maximum(across_devices.pmean_tree(mask.mean()), 1e-8)
        flat = lambda x: x.reshape(-1, *x.shape[2:])
        return Batch(*map(flat, (obs, rows.action, rows.dist, rows.logp, value, target, advantage, weight)))

    def learn(self, state: State, rows: Rollout, hypers: Hypers) -> tuple[State, Info]:
        """Everything of an iteration after collection."""
        config = self.config
        key, *keys = jax.random.split(state.key, 3)
        update_key, aux_key = map(across_devices.fold_in_device, keys)  # so that each device shuffles its own samples
        fresh = self.batch_of(state, rows, hypers)
        state = self.keep_values(replace(state, key=key), fresh)
        probed = self._probe(state, fresh, rows)
        if config.staleness:
            slot = state.iteration % config.staleness
            batch = jax.tree.map(lambda q: q[slot], state.queue)
            state = replace(state, queue=jax.tree.map(lambda q, x: q.at[slot].set(x), state.queue, fresh))
            state, metrics = jax.lax.cond(
                state.iteration >= config.staleness,
                lambda s: self._update(s, batch, hypers, update_key),
                self._wait,
                state,
            )
        else:
            state, metrics = self._update(state, fresh, hypers, update_key)
        if config.is_ppg:
            state, aux_metrics = self._phase(state, fresh, hypers, aux_key)
            metrics |= aux_metrics
        metrics |= self._account(fresh) | probed
        info = Info(
            metrics=metrics,
            done=rows.terminated | rows.truncated,
            episode_return=rows.episode_return,
            episode_length=rows.episode_length,
            finite=self._finite(state, rows, fresh, metrics),
        )
        return self._advance(state, rows, hypers), info

    def step(self, state: State, hypers: Hypers) -> tuple[State, Info]:
        """One iteration on compiled environments."""
        state, rows = self.collect(state, hypers)
        return self.learn(state, rows, hypers)

    def _probe(self, state: State, batch: Batch, rows: Rollout) -> dict[str, Array]:
        """Look at the batch before it is learned from, in the iterations whose turn it is."""
        if not self.config.probe_every:
            return {}
        look = lambda: light_probe(self.agent, state.params, batch, rows)
        return jax.lax.cond((state.iteration + 1) % self.config.probe_every == 0, look, lambda: absent(look))

    def share(self, state: State, hypers: Hypers) -> Float[Array, ""]:
        """Share of every step size in this iteration: schedule and warm-up."""
        env_steps = state.iteration.astype(jnp.float32) * self.config.batch
        left = schedule(self.config.anneal_lr, state.iteration / hypers["iterations"])
        return left * warmup(env_steps, hypers["warmup_steps"], self.config.batch)

    def rates(self, state: State, hypers: Hypers) -> Rates:
        """Step sizes and entropy coefficient of this iteration."""
        bonus, share = anneal(state.iteration / hypers["iterations"], hypers["ent_anneal"]), self.share(state, hypers)
        rate = hypers["learning_rate"] * share
        value_rate = hypers["value_learning_rate"] * share if "value_learning_rate" in hypers else rate
        return Rates(rate, hypers["ent_coef"] * bonus, value_rate, share)

    def annealed(self, state: State, hypers: Hypers) -> Hypers:
        """The numbers of this iteration: the clip range falls with training if asked."""
        if self.config.clip_anneal == "constant":
            return hypers
        left = schedule(self.config.clip_anneal, state.iteration / hypers["iterations"])
        return hypers | {"clip_coef": hypers["clip_coef"] * left}

    def keep_values(self, state: State, fresh: Batch) -> State:
        """Add the fresh targets to the moments of values, and rescale the heads so that every prediction stays."""
        if state.value_stats is None:
            return state
        stats = normalize.merge(state.value_stats, fresh.target, (fresh.weight > 0).astype(jnp.float32))
        change = normalize.popart(state.value_stats, stats)
        policy = self.agent.rescale_auxiliary(state.params.policy, *change)
        value = self.agent.rescale_value(state.params.value, *change)
        return replace(state, params=Params(policy, value), value_stats=stats)

    def in_units_of_values(self, state: State, value: Array) -> Array:
        """Rewards' units to those the value network learns in."""
        stats = state.value_stats
        return value if stats is None else (value - stats.mean) / stats.std

    def prepared(
        self, state: State, batch: Batch, hypers: Hypers
    ) -> tuple[Batch, update.Proximal, normalize.AdvantageMoments]:
        """The batch, its advantages and values normalized as asked; its proximal policy; the moments from now on."""
        decay = 1.0 - 2.0 / (hypers["norm_adv_span"] + 1.0) if self.config.norm_adv == "ewma" else 0.0
        valid = (batch.weight > 0).astype(jnp.float32)
        moments = normalize.update_advantage_moments(state.advantages, batch.advantage, valid, decay)
        if self.config.norm_adv in ("batch", "ewma"):
            std = normalize.with_ddof(moments.std, moments.count, self.config.norm_adv_ddof)
            batch = batch._replace(advantage=normalize.standardize(batch.advantage, moments.mean, std))
        target, value = (self.in_units_of_values(state, x) for x in (batch.target, batch.value))
        return *self._proximal(state, batch._replace(target=target, value=value), hypers), moments

    def learner(self, state: State) -> update.Learner:
        """What the gradient steps of an iteration start from."""
        return update.Learner(
            state.params,
            state.optimizer,
            state.prox,
            state.gradient_steps,
            stopped=jnp.zeros((), bool),
            has_moved=jnp.asarray(self.config.staleness > 0),
            learning_rate=state.learning_rate,
        )

    def _update(self, state: State, batch: Batch, hypers: Hypers, key: PRNGKeyArray):
        """Normalize advantages, place the proximal policy, take the epochs."""
        config = self.config
        valid = (batch.weight > 0).astype(jnp.float32)
        this = normalize.update_advantage_moments(normalize.advantage_moments(), batch.advantage, valid, 0.0)
        batch, proximal, moments = self.prepared(state, batch, hypers)
        hypers = self.annealed(state, hypers)
        rates, learner = self.rates(state, hypers), self.learner(state)
        learner, watched = update.update(config, self.agent, hypers, rates, learner, batch, proximal, key)
        moved = learner.learning_rate  # by the adaptive schedule
        metrics = {f"train/{name}": value for name, value in watched.items()}
        metrics |= {
            "train/learning_rate": rates.learning_rate if moved is None else moved * rates.share,
            "train/ent_coef": rates.ent_coef,
            "train/adv_mean": this.mean,
            "train/adv_std": this.std,
            "train/adv_mean_ewma": moments.mean,
            "train/adv_std_ewma": moments.std,
        }
        if config.clip_anneal != "constant":
            metrics["train/clip_range"] = hypers["clip_coef"]
        if learner.prox is not None:
            age = learner.prox.age
            metrics["train/prox_age_updates"] = age
            metrics["train/prox_age_steps"] = age * (config.batch / (config.minibatches * config.update_epochs))
        state = replace(
            state,
            params=learner.params,
            optimizer=learner.optimizer,
            prox=learner.prox,
            gradient_steps=learner.gradient_steps,
            advantages=moments,
            learning_rate=learner.learning_rate,
        )
        return state, metrics

    def _wait(self, state: State):
        """An iteration that only fills the staleness queue: no update, so nothing to report of one."""
        oldest = lambda s: jax.tree.map(lambda q: q[0], s.queue)
        return state, absent(lambda s: self._update(s, oldest(s), hypers_of(self.config), s.key)[1], state)

    def _proximal(self, state: State, batch: Batch, hypers: Hypers) -> tuple[Batch, update.Proximal]:
        """The proximal policy of each sample (an EWMA replaces it step by step), and the batch as it is weighted."""
        acted = update.Proximal(batch.dist, batch.logp)
        if not self.config.staleness or self.config.is_ewma:
            return batch, acted
        dist = self.agent.policy(state.params.policy, batch.obs)
        recent = update.Proximal(dist, self.dist.logp(dist, batch.action))
        proximal = jax.tree.map(lambda r, a: jnp.where(hypers["recent_is_proximal"] > 0, r, a), recent, acted)
        return batch._replace(logp=jnp.where(hypers["recent_is_behavior"] > 0, recent.logp, batch.logp)), proximal

    def _phase(self, state: State, batch: Batch, hypers: Hypers, key: PRNGKeyArray):
        """Keep this batch for the auxiliary phase, and run that phase after every N_π iterations."""
        config = self.config
        position = state.iteration % config.policy_iterations
        entry = Phase(batch.obs, batch.target, batch.weight)
        phase = jax.tree.map(lambda p, x: p.at[position].set(x), state.phase, entry)
        state = replace(state, phase=phase)
        share = self.share(state, hypers)
        units = phase._replace(target=self.in_units_of_values(state, phase.target))

        def run(state: State):
            optimizer: Any = state.auxiliary  # PPG has one
            params, optimizer, watched = auxiliary_phase.auxiliary_phase(
                config, self.agent, hypers, state.params, optimizer, units, key, share
            )
            # The weights have moved a lot: the average starts over with the next policy phase.
            prox = ewma.init(params.policy) if config.is_ewma else None
            return replace(state, params=params, auxiliary=optimizer, prox=prox), watched

        skip = lambda state: (state, jnp.full(len(auxiliary_phase.METRICS), jnp.nan))
        if config.aux_epochs == 0:
            state, watched = skip(state)
        else:
            state, watched = jax.lax.cond(position == config.policy_iterations - 1, run, skip, state)
        metrics = {f"aux/{name}": value for name, value in zip(auxiliary_phase.METRICS, watched)}
        return state, metrics | {"aux/phase_position": position.astype(jnp.float32)}

    def _account(self, fresh: Batch) -> dict[str, Array]:
        """What the fresh data itself shows."""
        metrics = {"rollout/masked": across_devices.psum_tree((fresh.weight == 0).sum().astype(jnp.float32))}
        if self.config.needs_value:
            mean = lambda x: across_devices.pmean_tree((fresh.weight * x).mean())
            variance = lambda x: mean((x - mean(x)) ** 2)
            left = variance(fresh.target - fresh.value)
            metrics["train/explained_variance"] = 1.0 - left / jnp.maximum(variance(fresh.target), 1e-12)
        return metrics

    def _finite(self, state: State, rows: Rollout, fresh: Batch, metrics) -> dict[str, Array]:
        """Whether each named tensor is finite; sums propagate NaN and infinity."""
        norm = metrics["train/grad_norm"]
        waiting = state.iteration < self.config.staleness
        finite = {
            "observation": jnp.isfinite(jnp.sum(rows.obs.astype(jnp.float32))),
            "reward": jnp.isfinite(jnp.sum(rows.reward)),
            "log-probability": jnp.isfinite(jnp.sum(rows.logp)),
            "value": jnp.isfinite(jnp.sum(fresh.value)),
            "advantage": jnp.isfinite(jnp.sum(fresh.advantage)),
            "gradient": jnp.isfinite(norm) | waiting,
            "policy parameters": jnp.isfinite(jnp.sum(state.params.policy)),
            "value parameters": jnp.isfinite(jnp.sum(state.params.value)),
        }
        return across_devices.pall_flags(finite)

    def _advance(self, state: State, rows: Rollout, hypers: Hypers) -> State:
        """Update the frozen statistics and count the iteration."""
        valid = rows.valid
        obs_stats, reward_scale = state.obs_stats, state.reward_scale
        if obs_stats is not None:
            flat = rows.obs.reshape(-1, *rows.obs.shape[2:]).astype(jnp.float32)
            obs_stats = normalize.merge(obs_stats, flat, valid.reshape(-1).astype(jnp.float32))
        if reward_scale is not None:
            done = rows.terminated | rows.truncated
            reward_scale = normalize.update_reward_scale(
                reward_scale, rows.reward, done, valid, hypers["norm_reward_gamma"]
            )
        return replace(state, obs_stats=obs_stats, reward_scale=reward_scale, iteration=state.iteration + 1)
