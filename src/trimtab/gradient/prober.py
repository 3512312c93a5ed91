"""The compiled pieces of a probe, and what is measured with them at one checkpoint."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from trimtab.config import Config, ConfigError
from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.envs.backends import BACKENDS
from trimtab.envs.base import derived_seed
from trimtab.gradient import bias as biases
from trimtab.gradient import correlation, exact, minibatch_effects, noise, probe_memory
from trimtab.gradient.anatomy import (
    Anatomy,
    CosineMeans,
    CovarianceMeans,
    Directions,
    ExactAnswers,
    MinibatchEffects,
    finite,
    finite_numbers,
)
from trimtab.gradient.bootstrap import MIN_ROWS, bootstrap_weights, positive_estimate, resample
from trimtab.gradient.host_rows import sampler
from trimtab.gradient.moments import Measured, Measurer, flat, measure
from trimtab.gradient.phase_cycle import phase_autocorrelation
from trimtab.gradient.probe_options import ProbeOptions
from trimtab.gradient.row_sampling import Rows, rows_of, tail_length, with_lambda
from trimtab.gradient.variance import Decomposition, decompose_rows, gradient_statistics
from trimtab.math.step_sizes import anneal
from trimtab.nets.agent import Params
from trimtab.training.algorithm import Algorithm, hypers_of
from trimtab.training.rollout import Rollout
from trimtab.training.sample_gradients import FullObjective, PerSample, Samples, by_chunks
from trimtab.training.sharding import first_devices
from trimtab.training.state import Hypers, State

CORRELATED = 2048  # samples whose pairwise products are looked at
SHOWN_REPLICATES = 5
MOST_TIMES = 8  # as many replicates as planned, to reach a precision
PROBES = 2_000_000  # what seeds of probes are derived with where they must not be a run's


def static_key(config: Config, options: ProbeOptions, iteration: int) -> tuple:
    """What the compiled pieces of a probe depend on: runs, checkpoints and options with equal keys share a prober."""
    return (
        config.shape,
        tail_length(config.gamma),
        _full(config, options, iteration),
        dataclasses.replace(options, replicates=2),
    )


def _full(config: Config, options: ProbeOptions, iteration: int) -> FullObjective | None:
    """The other terms of the objective as the trainer weighs them in this iteration, where they are requested."""
    if options.objective != "full":
        return None
    left = anneal(jnp.asarray(iteration / config.iterations), jnp.asarray(config.ent_anneal))
    return FullObjective(config.ent_coef * float(left), config.vf_coef)


class Prober:
    """Compiled pieces for one split of runs that share a `static_key`, used at many checkpoints and many λ."""

    def __init__(self, config: Config, algorithm: Algorithm, state: State, options: ProbeOptions):
        self.config, self.algorithm = config, algorithm
        self.num_envs = options.num_envs or config.num_envs
        self.num_steps = options.num_steps or config.num_steps
        dataclasses.replace(options, num_steps=self.num_steps)  # refuses blocks that do not divide these rows
        if options.start == "carry" and options.replicates < 8:
            raise ConfigError("replicates", options.replicates, "carried states need at least 8; nearest: 8")
        if algorithm.restarts:
            self._refuse_for_whole_episodes(options)
            options = dataclasses.replace(options, start="reset")
        if options.objective == "full" and not config.needs_value:
            raise ConfigError("objective", "full", "there is no critic to have a value term; nearest: policy")
        self.options = options
        self.key = static_key(config, options, int(state.iteration))
        if options.start == "carry" and self.num_envs != config.num_envs:
            raise ConfigError(
                "num_envs", self.num_envs, f"carried states are the run's own; nearest: {config.num_envs}"
            )
        spec = algorithm.env.spec
        if options.start == "carry" and not spec.compiled:
            raise ConfigError("start", "carry", f"states of {spec.env_id} cannot be saved; nearest: stationary, reset")
        self.hypers = hypers_of(config)
        full = _full(config, options, int(state.iteration))
        try:
            self.per_sample = PerSample(algorithm.agent, options.method, full, seed=options.seed)
        except ValueError as error:
            raise ConfigError("method", options.method, str(error).split(": ", 1)[-1]) from None
        needs_reference = options.bias and options.objective == "policy" and options.advantages == "raw"
        self.sampler = sampler(
            algorithm, state, self.hypers, self.num_envs, self.num_steps, options.start, needs_reference
        )
        together = self.num_envs if options.start == "training" else None
        self.measurer = Measurer(self.per_sample, state.params, by_env=options.start == "carry", by_iteration=together)
        self._devices = first_devices(options.devices) if options.devices > 1 else [None]
        self._cut: dict[int, Any] = {}
        self._fixed: dict[float | None, tuple[float, float]] = {}
        self._some = jax.jit(self._products)
        self._refuse_what_cannot_fit()

    def _refuse_for_whole_episodes(self, options: ProbeOptions) -> None:
        """Without a baseline an algorithm learns from whole episodes, which start at reset."""
        limit = self.algorithm.env.spec.time_limit
        if limit is not None and self.num_steps < limit:
            reason = f"{self.config.traits.title} without a baseline needs whole episodes; nearest: {limit}"
            raise ConfigError("num_steps", self.num_steps, reason)
        if options.blocks:
            reason = f"{self.config.traits.title} without a baseline cannot be cut into blocks; leave it out"
            raise ConfigError("blocks", options.blocks[0], reason)

    def _refuse_what_cannot_fit(self, replicates: int | None = None) -> None:
        bias, training = self.sampler.tail is not None, self.options.start == "training"
        rows = 1 if training else self.num_envs  # of an iteration only sums over its rows are kept
        replicates = replicates or self.options.replicates
        probe_memory.refuse_what_cannot_fit(replicates, rows, self.num_steps, self.per_sample.width, bias)

    def _fits(self, replicates: int) -> bool:
        try:
            self._refuse_what_cannot_fit(replicates)
        except ConfigError:
            return False
        return True

    def at(self, state: State, config: Config | None = None, replicates: int | None = None) -> Prober:
        """The same prober on another checkpoint, also of another run with this static key; nothing compiles again."""
        if replicates is not None and replicates != self.options.replicates:
            self.options = dataclasses.replace(self.options, replicates=replicates)
            self._refuse_what_cannot_fit()
        if config is not None:
            if static_key(config, self.options, int(state.iteration)) != self.key:
                raise ValueError("config: its programs are not those of this prober")
            self.config, self.hypers = config, hypers_of(config)
        self.sampler.at(state, self.hypers)
        self.measurer.params = state.params
        self._fixed.clear()
        return self

    def close(self) -> None:
        self.sampler.close()

    def _seed(self, seed: int) -> int:
        """Of what is drawn: the run's own seed would draw again what the run learned from."""
        return derived_seed(PROBES, seed) if seed == self.config.seed else seed

    def rows(self, replicate: int, gae_lambda: float | None) -> Rows:
        device = self._devices[replicate % len(self._devices)]
        rows = self.sampler.draw(self._seed(self.options.seed), replicate, gae_lambda, device)
        if self.options.advantages == "raw":
            return rows
        if self.options.advantages == "fixed" and gae_lambda not in self._fixed:
            self._fixed[gae_lambda] = moments(self.sampler.draw(self._seed(self.options.seed + 1), 0, gae_lambda))
        mean, std = self._fixed[gae_lambda] if self.options.advantages == "fixed" else moments(rows)
        advantage = (rows.samples.advantage - mean) / std
        return rows._replace(samples=rows.samples._replace(advantage=advantage))

    @property
    def passes(self) -> int:
        """Batches that one anatomy goes through: two passes over the replicates, for each T."""
        return 2 * self.options.replicates * (1 + len(self.options.blocks))

    def anatomy(
        self, step: int, gae_lambda: float | None = None, tick: Callable[[str], None] = lambda doing: None
    ) -> Anatomy:
        """Everything, at the sampler's current checkpoint; `tick` is called after each of `passes` batches."""
        config, planned = self.config, self.options.replicates
        try:
            measured = self._precise(gae_lambda, tick)
            return self._anatomy(step, gae_lambda, measured, config, tick)
        finally:
            self.options = dataclasses.replace(self.options, replicates=planned)

    def _precise(self, gae_lambda: float | None, tick: Callable[[str], None]) -> Measured:
        """Both passes over the replicates, with twice as many until the variance is as precise as requested."""
        most = MOST_TIMES * self.options.replicates
        while True:
            measured = self.measured(gae_lambda, tick)
            variance = decompose_rows(measured.rows, self.num_envs, self.options.seed).variance
            wanted, replicates = self.options.precision, 2 * self.options.replicates
            if wanted is None or variance.hi - variance.lo <= 2 * wanted * variance.value or replicates > most:
                return measured
            if not self._fits(replicates):
                return measured
            self.options = dataclasses.replace(self.options, replicates=replicates)

    def _anatomy(
        self, step: int, gae_lambda: float | None, measured: Measured, config: Config, tick: Callable[[str], None]
    ) -> Anatomy:
        options = self.options
        decomposition = decompose_rows(measured.rows, self.num_envs, options.seed)
        scales = noise.noise_scale(measured.rows, options.seed)
        if options.advantages == "batch":  # samples are coupled: only whole batches can be compared
            decomposition = between_batches(decomposition, measured.means, options.seed)
            scales = noise.NoiseScale(*7 * [UNRESOLVED])
        bias_sq, mse, true_grad_sq = UNRESOLVED, UNRESOLVED, UNRESOLVED
        if measured.differences is not None and len(measured.differences) == measured.rows.num_rows:
            shape = (
                (options.replicates, self.num_envs, -1) if options.start == "carry" else (measured.rows.num_rows, -1)
            )
            differences = biases.difference_statistics(measured.differences.reshape(shape))
            bias_sq = biases.bias_sq(differences, options.seed)
            if measured.reference is not None:
                true_grad_sq = biases.squared_mean_of(biases.difference_statistics(measured.reference), options.seed)
                mse = biases.mse(measured.rows, differences, self.num_envs, options.seed)
        lam = self.lambda_of(gae_lambda)
        synchronous = synchrony(np.asarray(self.sampler.state.env.episode_length), self.algorithm.env.spec.time_limit)
        return Anatomy(
            step=step,
            num_envs=self.num_envs,
            num_steps=self.num_steps,
            gamma=config.gamma,
            gae_lambda=lam,
            options=options,
            method=self.per_sample.method,
            relative_error=self.per_sample.relative_error,
            reset_synchrony=finite(synchronous),
            phases=self.sampler.phases,
            decomposition=decomposition,
            variance=decomposition.variance,
            individual=decomposition.individual,
            covariance=decomposition.covariance,
            between_rows=decomposition.between_rows,
            variance_floor=decomposition.variance_floor,
            ess=decomposition.ess,
            grad_sq=decomposition.grad_sq,
            lag_covariance=finite_numbers(decomposition.lag_covariance),
            lag_covariance_interval=tuple(map(finite_numbers, decomposition.lag_interval)),
            noise=scales,
            noise_scale=scales.simple,
            noise_scale_trajectory=scales.trajectory,
            noise_scale_environments=scales.environments,
            noise_floor=scales.floor,
            phase_autocorrelation=self._phase_autocorrelation(measured),
            bias_sq=bias_sq,
            mse=mse,
            true_grad_sq=true_grad_sq,
            exact=self.exactly(lam),
            predicted={t: self.predicted(t, gae_lambda, tick) for t in options.blocks},
            notes=self._notes(measured),
            **(self._pairs(measured, gae_lambda) if options.correlations else {}),
        )

    def lambda_of(self, gae_lambda: float | None) -> float:
        """The λ that is measured: the one given, or what the algorithm uses."""
        return self.config.lambda_used if gae_lambda is None else gae_lambda

    def _pairs(self, measured: Measured, gae_lambda: float | None) -> dict[str, Any]:
        """What pairs of samples, replicates and minibatches show, on the first replicate."""
        first = self.rows(0, gae_lambda)
        shown = measured.means[:SHOWN_REPLICATES]
        keep = self._kept_rows()
        means = np.zeros((SHOWN_REPLICATES, shown.shape[1]), np.float32)  # one shape for any number of replicates
        means[: len(shown)] = shown
        gram, along = (np.asarray(x, np.float64) for x in self._some(self.measurer.params, first.samples, means))
        episode, valid = np.asarray(first.episode).T[:keep], np.asarray(first.valid).T[:keep]
        alignment = correlation.alignment(along[:, : len(shown)], np.diag(gram), shown, valid.reshape(-1))
        cosines = correlation.cosine_correlation(gram, episode, valid, self.options.seed)
        covariances = correlation.covariance_correlation(gram, episode, valid) if len(episode) > 1 else None
        trajectories = correlation.trajectory_alignment(gram, episode, valid)
        return {
            "directions": Directions(cosines, covariances, trajectories, alignment),
            "cosine": CosineMeans(
                finite_numbers(lag.mean for lag in cosines.lags), finite(cosines.across.mean), cosines.num_left_out
            ),
            "covariance_correlation": covariances
            and CovarianceMeans(finite_numbers(covariances.lags), finite(covariances.across)),
            "replicate_cosines": tuple(map(finite_numbers, correlation.cosine_matrix(shown @ shown.T))),
            "minibatch": self._minibatch(first, gram, bool(valid.all()), self._hypers(gae_lambda)),
        }

    def _kept_rows(self) -> int:
        """As many whole rows as make CORRELATED samples, and at least two."""
        return min(self.num_envs, max(2, CORRELATED // self.num_steps))

    def _products(self, params: Params, samples: Samples, means: Float[Array, "batches width"]):
        """Of the samples whose pairs are looked at: their Gram matrix, and inner products with some batch means."""
        some = flat(jax.tree.map(lambda x: x[:, : self._kept_rows()], samples))
        along = by_chunks(self.per_sample, params, some, lambda vectors: vectors @ means.T)
        return self.per_sample.gram(params, some), along

    def _hypers(self, gae_lambda: float | None) -> Hypers:
        """The run's hyperparameters, with another λ if one is given."""
        return with_lambda(self.hypers, gae_lambda)

    def _minibatch(self, rows: Rows, gram: np.ndarray, whole: bool, hypers: Hypers) -> MinibatchEffects:
        """Sub-sampling (where every sample is experience) and the updates of one iteration (at the run's own split)."""
        config = self.config
        size = max(1, self.num_envs * self.num_steps // config.minibatches)
        measurements: dict[str, Any] = {"minibatch_size": size}
        if whole and 1 < gram.shape[0] == self.num_envs * self.num_steps and size <= gram.shape[0]:
            measurements |= minibatch_effects.subsampling(
                gram, self.num_envs, self.num_steps, config.minibatches, self.options.seed
            )
        if (self.num_envs, self.num_steps) == (
            config.num_envs,
            config.num_steps,
        ) and self.options.objective == "policy":
            measurements |= minibatch_effects.effects(
                self.algorithm, self.sampler.state, rows.rollout, hypers, self.options.seed
            )
        numbers: dict[str, Any] = {k: finite_numbers(v) if np.ndim(v) else v for k, v in measurements.items()}
        return MinibatchEffects(**numbers)

    def measured(self, gae_lambda: float | None, tick: Callable[[str], None] = lambda doing: None) -> Measured:
        """Both passes over the replicates, at the sampler's current checkpoint."""
        return self._measured(lambda r: self.rows(r, gae_lambda), tick)

    def _measured(self, draw: Callable[[int], Rows], tick: Callable[[str], None], what: str = "") -> Measured:
        done = itertools.count(1)

        def tick_replicate() -> None:
            at, of = next(done), self.options.replicates
            tick(f"{what}{'means' if at <= of else 'moments'} of replicate {(at - 1) % of + 1}")

        return measure(self.measurer, draw, self.options.replicates, tick_replicate, len(self._devices))

    def predicted(
        self, num_steps: int, gae_lambda: float | None, tick: Callable[[str], None] = lambda doing: None
    ) -> Estimate:
        """Var(G_B) of the same batch as rows of fewer steps: blocks of the measured rows, advantages computed anew.

        Blocks of one row are not independent, so the interval resamples rows, each with the mean of its blocks. In the
        phases of training a block of all rows is an iteration of fewer steps, and what is resampled are iterations.
        """
        if self.num_steps % num_steps or self.config.whole_episodes:
            return UNRESOLVED
        count = self.num_steps // num_steps
        if num_steps not in self._cut:
            self._cut[num_steps] = jax.jit(partial(self._blocks, num_steps=num_steps))
        hypers = self._hypers(gae_lambda)
        cut = lambda r: self._cut[num_steps](self.sampler.state, self.rows(r, gae_lambda).rollout, hypers)
        rows = self._measured(cut, tick, f"blocks of {num_steps}, ").rows
        if rows.rows_per_batch == 1:  # one environment: what several share is unknown
            return UNRESOLVED
        terms = rows.variance_terms(self.num_envs * count) / rows.mean_steps**2
        terms = terms.reshape(self.options.replicates, count, -1).mean(1).reshape(-1)
        columns = resample(terms[:, None], bootstrap_weights(len(terms), self.options.seed))
        return positive_estimate(columns, 0, len(terms))

    def _blocks(self, state: State, rollout: Rollout, hypers: Hypers, num_steps: int) -> Rows:
        """A rollout [T, N] as [T', (T/T') N], column b N + n being block b of row n."""
        cut = lambda x: jnp.moveaxis(x.reshape(-1, num_steps, *x.shape[1:]), 0, 1).reshape(num_steps, -1, *x.shape[2:])
        return rows_of(self.algorithm, state, hypers, jax.tree.map(cut, rollout))

    def exactly(self, gae_lambda: float) -> ExactAnswers:
        """For finite MDPs: what the sampled numbers estimate, computed; for stationary starts, and for lockstep."""
        env, config, options = self.algorithm.env, self.config, self.options
        stationary = options.start == "stationary" or self.sampler.phases == "spread"
        together = self.sampler.phases in ("lockstep", "recorded") and env.spec.time_limit is not None
        if (options.advantages, options.objective) != ("raw", "policy") or not (stationary or together):
            return ExactAnswers()
        if not BACKENDS[env.spec.backend].exact or not config.needs_value or config.norm_reward:
            return ExactAnswers()
        state = self.sampler.state
        obs = self.algorithm.normalized_obs(state.obs_stats, env.state_obs(), self.hypers)
        policy, score = exact.policy_tables(self.algorithm.agent, state.params, np.asarray(obs))
        critic = exact.critic_table(self.algorithm, state, np.asarray(obs))
        p = exact.problem(env.mdp, policy, config.gamma, env.spec.time_limit)
        true, returns = exact.true_gradient(p, score), exact.return_gradient(p, score)
        if together:
            by_phase = exact.lockstep_gradients(p, score, critic, gae_lambda, self.num_steps, self._recorded_starts(p))
        else:
            by_phase = exact.expected_gradient(p, score, critic, gae_lambda, self.num_steps)[None]
        expected = by_phase.mean(axis=0)
        cosine = lambda a, b: float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-300))
        return ExactAnswers(
            bias_sq=float((expected - true) @ (expected - true)),
            grad_sq=float(expected @ expected),
            true_grad_sq=float(true @ true),
            cosine_true_return=cosine(true, returns),
            cosine_expected_true=cosine(expected, true),
            variance_floor=exact.between_rows(by_phase) if self.sampler.phases in ("lockstep", "spread") else None,
        )

    def _recorded_starts(self, p: exact.Problem) -> Float[np.ndarray, "L S"] | None:
        """How often the run's own environments are at each time and state; None where others start from a reset."""
        if self.sampler.phases != "recorded" or p.time_limit is None:
            return None
        recorded, starts = self.sampler.state.env.env_state, np.zeros((p.time_limit, len(p.rho)))
        np.add.at(starts, (np.asarray(recorded.time), np.asarray(recorded.state)), 1 / self.num_envs)
        return starts

    def _phase_autocorrelation(self, measured: Measured) -> Estimate:
        """How alike successive iterations are, where environments go through a cycle of phases."""
        limit = self.algorithm.env.spec.time_limit
        if limit is None or self.options.start != "training":
            return UNRESOLVED
        seed, replicates = self._seed(self.options.seed), range(self.options.replicates)
        phases = [self.sampler.phase(seed, replicate) for replicate in replicates]
        return phase_autocorrelation(measured.means, phases, self.num_steps, limit, self.options.seed)

    def _notes(self, measured: Measured) -> tuple[str, ...]:
        notes = []
        sizes = np.sort(measured.rows.residuals.diagonal)[::-1]
        few = int(np.searchsorted(np.cumsum(sizes), sizes.sum() / 2)) + 1
        if len(sizes) >= MIN_ROWS and few < len(sizes) / 16:
            units = "rows" if measured.rows.rows_per_batch is None else "iterations"
            notes.append(f"heavy tails: half of the variance comes from {few} of {len(sizes)} {units}")
        config, tail = self.config, tail_length(self.config.gamma)
        if self.options.bias and measured.differences is None:
            if not self.algorithm.env.spec.compiled:
                notes.append("bias unknown: this environment cannot be continued past its limit")
            elif tail is None:
                notes.append(f"bias unknown: γ = {config.gamma:g} needs too long a reference rollout")
        if self.per_sample.method == "projection":
            notes.append(
                f"gradients sketched: inner products carry a relative error of {self.per_sample.relative_error:.2%}"
            )
        num_rows = self._kept_rows()
        if num_rows < self.num_envs and self.options.correlations:
            notes.append(f"correlations from {num_rows} of {self.num_envs} rows")
        if self.options.bias and (self.options.advantages, self.options.objective) != ("raw", "policy"):
            notes.append("bias not measured: its reference is for raw advantages and the policy term")
        elif self.options.bias and self.options.start == "carry":
            notes.append("mean squared error not measured: rows from carried states are not alike")
        if self.options.advantages == "batch":
            notes.append("advantages couple the samples of a batch: only the variance between batches is known")
        if self.algorithm.restarts:
            notes.append(f"starts at reset: without a baseline {config.traits.title} learns from whole episodes")
        if measured.rows.num_masked:
            notes.append(f"{measured.rows.num_masked:,} samples were not experience and are left out")
        return tuple(notes)


def moments(rows: Rows) -> tuple[float, float]:
    """Mean and standard deviation of the advantages, as training takes them: over experience only."""
    advantage = np.asarray(rows.samples.advantage)[np.asarray(rows.valid)]
    return float(advantage.mean()), float(advantage.std()) + 1e-8


def between_batches(decomposition: Decomposition, means: np.ndarray, seed: int) -> Decomposition:
    """Only the variance between whole batches, where advantages couple the samples within one."""
    whole = decompose_rows(gradient_statistics(means[:, None, :]), 1, seed)
    return dataclasses.replace(
        decomposition,
        variance=whole.variance,
        individual=UNRESOLVED,
        covariance=UNRESOLVED,
        between_rows=UNRESOLVED,
        variance_floor=UNRESOLVED,
        ess=UNRESOLVED,
        grad_sq=whole.grad_sq,
        lag_covariance=np.full_like(decomposition.lag_covariance, math.nan),
        lag_interval=np.full_like(decomposition.lag_interval, math.nan),
    )


def synchrony(episode_length: np.ndarray, time_limit: int | None) -> float:
    """|mean of e^(2πi phase)| over environments, phase = time into the episode / limit: 1 is lockstep, 0 is spread."""
    if time_limit is None or len(episode_length) < 2:
        return math.nan
    return float(np.abs(np.exp(2j * np.pi * np.asarray(episode_length) / time_limit).mean()))
