"""A job: what gradient steps of different minibatch sizes are like at a frozen policy (section 3.1, Appendix D)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from trimtab.config import Config
from trimtab.studies.job import JobContext, OfRun, register

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    from trimtab.nets.agent import Agent, Params
    from trimtab.training.algorithm import Algorithm
    from trimtab.training.sample_gradients import PerSample, Samples
    from trimtab.training.state import State

ADAM_LENGTH = 0.23  # of Adam's direction per parameter where gradients are mostly noise: √((1 − β₁)/(1 + β₁)), β₁ = 0.9


@register
@dataclass(frozen=True)
class GradientSteps(OfRun):
    """At the end of a run, for every size n of minibatch: the root mean square of its gradient, and where two SGD steps
    of size n and α lead, against one of size 2n and 2α."""

    kind: ClassVar[str] = "steps"
    sizes: tuple[int, ...]
    replicates: int = 32

    @property
    def steps(self) -> int:
        return self.replicates * 2 * max(self.sizes)

    @property
    def label(self) -> str:
        return f"{self.run.label} {self.config.total_timesteps}"

    def do(self, context: JobContext) -> dict[str, Any]:
        import jax

        from trimtab.training.engine_setup import load_engine
        from trimtab.training.sample_gradients import PerSample

        config, engine, state, _ = load_engine(context.inputs[self.run.identity], None, context.engines)
        algorithm, per_sample = engine.algorithm, PerSample(engine.algorithm.agent)
        shape = (self.sizes, config.minibatch, config.learning_rate)
        measure = _kept(algorithm, ("steps", *shape), lambda: jax.jit(_program(per_sample, self.sizes, config)))
        draw = _kept(algorithm, ("rows", self.sizes), lambda: _Drawing(algorithm, state, config, self.sizes))
        draws = []
        for r in range(self.replicates):
            key = jax.random.fold_in(jax.random.key(config.seed), r)
            samples = draw(state, config, r)
            draws.append([np.asarray(x, np.float64) for x in measure(state.params, samples, key)])
            context.tick(len(draws) * 2 * max(self.sizes))
        square, apart, rates, whole = (np.array(series) for series in zip(*draws))
        if not engine.reusable:
            draw.close()
            engine.close()
        variance = _sample_variance(square, self.sizes, whole)
        noise = rates[:, None] * np.sqrt(2 * np.array(self.sizes) * max(variance, 0.0))  # of a step 2n and 2α, α ∝ n
        return {
            "square": square.mean(axis=0).tolist(),
            "apart": (apart / noise).mean(axis=0).tolist(),
            "variance": variance,
            "grad_sq": _unbiased_square(whole),
            "parameters": int(whole.shape[1]),
        }


def _kept(algorithm: Algorithm, name: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """A program of this algorithm: made once, for all the runs that share its shape."""
    if name not in algorithm.programs:
        algorithm.programs[name] = make()
    return algorithm.programs[name]


class _Drawing:
    """Batches of twice the largest size from the policy of a state, advantages standardized."""

    def __init__(self, algorithm: Algorithm, state: State, config: Config, sizes: tuple[int, ...]):
        from trimtab.gradient.host_rows import sampler
        from trimtab.training.algorithm import hypers_of

        num_envs = max(1, 2 * max(sizes) // config.num_steps)
        self._hypers_of = hypers_of
        self._sampler = sampler(
            algorithm, state, hypers_of(config), num_envs, config.num_steps, "stationary", reference=False
        )

    def __call__(self, state: State, config: Config, replicate: int) -> Samples:
        from trimtab.gradient.moments import flat

        if self._sampler.state is not state:
            self._sampler.at(state, self._hypers_of(config))
        samples = flat(self._sampler.draw(config.seed, replicate).samples)
        centred = samples.advantage - samples.advantage.mean()
        return samples._replace(advantage=centred / (samples.advantage.std() + 1e-8))

    def close(self) -> None:
        self._sampler.close()


def _program(per_sample: PerSample, sizes: tuple[int, ...], config: Config) -> Callable[..., tuple[Array, ...]]:
    """A function of (parameters, samples, key). By size: the mean square of a minibatch gradient's components, and how
    far apart two steps and one end up; then the step size per sample, and the batch's mean gradient."""
    import jax
    import jax.numpy as jnp

    smallest = sizes[0]
    usual = min(sizes, key=lambda n: abs(n - config.minibatch))
    weight = jnp.full(smallest, 1 / smallest)

    def measure(params: Params, samples: Samples, key: Array) -> tuple[Array, ...]:
        order = jax.random.permutation(key, samples.advantage.shape[0])
        shuffled = jax.tree.map(lambda x: x[order], samples)
        groups = jax.tree.map(lambda x: x.reshape(-1, smallest, *x.shape[1:]), shuffled)
        means = jax.lax.map(lambda group: per_sample.mean_gradient(params, group, weight), groups)
        by_size = {n: means.reshape(-1, n // smallest, means.shape[1]).mean(1) for n in sizes}
        # α is proportional to n, and at the configured minibatch a step is as long as Adam's.
        length = ADAM_LENGTH * config.learning_rate * means.shape[1] ** 0.5
        rate = length / jnp.linalg.norm(by_size[usual], axis=1).mean() / usual
        part = lambda i, n: jax.tree.map(lambda x: x[i * n : (i + 1) * n], shuffled)
        apart = [_apart(per_sample.agent, params.policy, part(0, n), part(1, n), rate * n) for n in sizes]
        squares = [(gradient**2).mean() for gradient in by_size.values()]
        return jnp.stack(squares), jnp.stack(apart), rate, means.mean(0)

    return measure


def _apart(agent: Agent, policy: Float[Array, " P"], first: Samples, second: Samples, rate: Array) -> Float[Array, ""]:
    """|θ after a step on each − θ after one on both| = α |g₂(θ₁) − g₂(θ₀)|, of the importance-weighted objective."""
    import jax
    import jax.numpy as jnp

    def gradient(at: Array, samples: Samples) -> Array:
        acted = agent.dist.logp(agent.policy(policy, samples.obs), samples.action)
        ratio = lambda at: jnp.exp(agent.dist.logp(agent.policy(at, samples.obs), samples.action) - acted)
        return jax.grad(lambda at: (ratio(at) * samples.advantage).mean())(at)

    moved = policy + rate * gradient(policy, first)
    return rate * jnp.linalg.norm(gradient(moved, second) - gradient(policy, second))


def _sample_variance(square: np.ndarray, sizes: tuple[int, ...], whole: np.ndarray) -> float:
    """Tr Σ: n times what the mean square at the smallest size has above that of the whole batch."""
    batch = 2 * max(sizes)
    above = (square[:, 0].mean() - (whole**2).mean()) * whole.shape[1]
    return float(above / (1 / sizes[0] - 1 / batch))


def _unbiased_square(means: np.ndarray) -> float:
    """|E g|² from independent batch means: products of different ones only."""
    count = len(means)
    return float(((means.sum(0) ** 2).sum() - (means**2).sum()) / (count * (count - 1)))
