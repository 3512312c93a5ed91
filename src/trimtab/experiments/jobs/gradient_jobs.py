"""Jobs that look at per-sample gradients of a run's checkpoints: directions, minibatches, independent draws.

A probe looks at the pairs of one batch and the means of five. What a picture of five batches shows may be chance, so
these jobs draw many batches, and keep the numbers that a verdict needs besides the pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
import polars as pl

from trimtab.core.writing import write_parquet
from trimtab.gradient.probe_options import ProbeOptions
from trimtab.studies.job import JobContext, OfRun, register

if TYPE_CHECKING:
    from trimtab.gradient.prober import Prober
    from trimtab.gradient.row_sampling import Rows
    from trimtab.training.engine_cache import EngineCache

LAGS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 60, 80, 120)
SHOWN_LAGS = (1, 3, 5, 7, 10, 40)  # whose distributions are kept
SHOWN_BATCHES = 5  # of the heat maps and of batch 0 against others
VALUES = 1200  # of a distribution over all replicates together
ESTIMATES = ("variance", "individual", "covariance", "grad_sq")


class _Lens:
    """A prober of one checkpoint, with the per-sample gradients of a replicate and their inner products."""

    def __init__(self, prober: Prober):
        import jax

        from trimtab.training.sample_gradients import chunked_vectors

        self.prober = prober
        self._gram = jax.jit(prober.per_sample.gram)
        self._vectors = jax.jit(lambda params, samples: chunked_vectors(prober.per_sample, params, samples))

    def gram(self, rows: Rows) -> np.ndarray:
        """Inner products of all samples of a replicate, sample (n, t) at n T + t: [N T, N T]."""
        return self._applied(self._gram, rows)

    def vectors(self, rows: Rows) -> np.ndarray:
        """The per-sample gradients of a replicate, [N T, P]."""
        return self._applied(self._vectors, rows)

    def _applied(self, program: Callable[..., Any], rows: Rows) -> np.ndarray:
        from trimtab.gradient.moments import flat

        return np.asarray(program(self.prober.measurer.params, flat(rows.samples)), np.float64)


def _lens_at(path: Path, step: int, options: ProbeOptions, engines: EngineCache) -> _Lens:
    """A lens at a checkpoint. Runs that differ only in their seed share its compiled programs."""
    from trimtab.gradient.prober import Prober
    from trimtab.training.engine_setup import load_engine

    config, engine, state, _ = load_engine(path, step, engines)
    engine.close()
    programs: dict[Any, Any] = engine.algorithm.programs
    key = ("lens", options, tuple(config.traced().items()))
    if not engine.reusable or key not in programs:
        programs[key] = _Lens(Prober(config, engine.algorithm, state, options))
        return programs[key]
    programs[key].prober.at(state)
    return programs[key]


@dataclass(frozen=True)
class _Batches(OfRun):
    """Batches of N × T, drawn afresh from the policies of a run's checkpoints `at` these steps."""

    at: tuple[int, ...]
    num_envs: int
    num_steps: int

    @property
    def label(self) -> str:
        return f"{self.config.env_id} {self.num_envs}x{self.num_steps} seed {self.config.seed}"

    def _lenses(self, context: JobContext, replicates: int, **options: Any) -> Iterator[tuple[int, _Lens]]:
        """Every step with its lens; correlations are left to the job itself."""
        split: dict[str, Any] = {"num_envs": self.num_envs, "num_steps": self.num_steps}
        options = {"start": "stationary"} | options
        chosen = ProbeOptions(**split, replicates=replicates, correlations=False, **options)
        for k, step in enumerate(self.at):
            yield step, _lens_at(context.inputs[self.run.identity], step, chosen, context.engines)
            context.tick(self.steps * (k + 1) // len(self.at))


# Directions ------------------------------------------------------------------------------------------------


class _Direction(NamedTuple):
    """One number: of a replicate (or of a pair of replicates, the second as lag), at a lag, where it has one."""

    quantity: str
    value: float
    replicate: int | None = None
    lag: int | None = None
    lo: float | None = None
    hi: float | None = None


@register
@dataclass(frozen=True)
class Directions(_Batches):
    """The parts of the variance, the bias, and all kinds of cosines between gradients.

    Args:
        run, at, num_envs, num_steps: the run, the checkpoints, and the split of a batch.
        replicates: independent batches.
        looked: replicates whose pairs of samples are looked at.
        gae_lambda: the λ of the advantages; by default the run's own.
        bias: whether the bias is estimated too.
        start: where rows start.

    Writes `directions.parquet`: quantity, step, num_envs, num_steps, gae_lambda, replicate, lag, value, lo, hi.
    """

    kind: ClassVar[str] = "directions"
    replicates: int = 32
    looked: int = 8
    gae_lambda: tuple[float, ...] = ()
    bias: bool = True
    start: Literal["stationary", "reset"] = "stationary"

    @property
    def steps(self) -> int:
        batches = 2 * self.replicates + self.looked
        return len(self.at) * max(1, len(self.gae_lambda)) * batches * self.num_envs * self.num_steps

    @property
    def label(self) -> str:
        c = self.config
        return f"{c.env_id} {c.algo} {self.num_envs}x{self.num_steps} seed {c.seed}"

    def do(self, context: JobContext) -> dict[str, Any]:
        rows: list[tuple[Any, ...]] = []
        lambdas = self.gae_lambda or (self.config.lambda_used,)
        for step, lens in self._lenses(context, self.replicates, bias=self.bias, start=self.start):
            for k, gae_lambda in enumerate(lambdas):
                about = (step, self.num_envs, self.num_steps, gae_lambda)
                found = self._look(lens, gae_lambda)
                rows += [(r.quantity, *about, r.replicate, r.lag, r.value, r.lo, r.hi) for r in found]
                done = self.at.index(step) + (k + 1) / len(lambdas)
                context.tick(round(self.steps * done / len(self.at)))
        schema = {"quantity": pl.String, "step": pl.Int64, "num_envs": pl.Int64, "num_steps": pl.Int64}
        schema |= {"gae_lambda": pl.Float64, "replicate": pl.Int64, "lag": pl.Int64}
        schema |= dict.fromkeys(("value", "lo", "hi"), pl.Float64)
        write_parquet(context.place / "directions.parquet", pl.DataFrame(rows, schema=schema, orient="row"))
        return {"rows": len(rows)}

    def _look(self, lens: _Lens, gae_lambda: float) -> Iterator[_Direction]:
        """Everything at the checkpoint of a lens."""
        from trimtab.gradient import bias as biases
        from trimtab.gradient.variance import decompose_rows

        measured = lens.prober.measured(gae_lambda)
        parts = decompose_rows(measured.rows, self.num_envs)
        estimates = {name: getattr(parts, name) for name in ESTIMATES}
        if measured.differences is not None and measured.reference is not None:
            estimates["bias_sq"] = biases.bias_sq(measured.differences)
            estimates["true_grad_sq"] = biases.squared_norm_of_mean(measured.reference @ measured.reference.T)
        for name, e in estimates.items():
            yield _Direction(name, e.value, lo=e.lo, hi=e.hi)
        yield from _between_batches(measured.means)
        for replicate in range(self.looked):
            yield from _look_at_pairs(lens, replicate, gae_lambda, measured.means, VALUES // self.looked)


def _between_batches(means: np.ndarray) -> Iterator[_Direction]:
    """Cosines of the means of every pair of replicates."""
    from trimtab.gradient.correlation import cosine_matrix

    cosines = cosine_matrix(means @ means.T)
    for i, j in zip(*np.triu_indices(len(means), 1)):
        yield _Direction("batch_cosine", float(cosines[i, j]), int(i), int(j))


def _look_at_pairs(
    lens: _Lens, replicate: int, gae_lambda: float, means: np.ndarray, values: int
) -> Iterator[_Direction]:
    """How the samples of one replicate agree with each other, with their own mean and with other batches' means."""
    from trimtab.gradient import correlation

    rows = lens.prober.rows(replicate, gae_lambda)
    gram = lens.gram(rows)
    episode, valid = np.asarray(rows.episode).T, np.asarray(rows.valid).T
    rng = np.random.default_rng(replicate)
    some = lambda numbers: numbers if len(numbers) <= values else rng.choice(numbers, values, replace=False)

    advantage = np.asarray(rows.samples.advantage).T[valid]
    yield _Direction("advantage_variance", float(advantage.var()), replicate)
    cosine = correlation.cosine_correlation(gram, episode, valid)
    yield _Direction("cosine_across", cosine.across.mean, replicate)
    yield from (_Direction("cosine_across_value", float(v), replicate) for v in some(cosine.across.values))
    for lag in (k for k in LAGS if k <= len(cosine.lags) and cosine.lags[k - 1].num_pairs):
        yield _Direction("cosine_within", cosine.lags[lag - 1].mean, replicate, lag)
        shown = some(cosine.lags[lag - 1].values) if lag in SHOWN_LAGS else ()
        yield from (_Direction("cosine_within_value", float(v), replicate, lag) for v in shown)
    if len(episode) > 1:
        covariance = correlation.covariance_correlation(gram, episode, valid)
        yield _Direction("covariance_across", covariance.across, replicate)
        for lag in (k for k in LAGS if k < len(covariance.lags) and np.isfinite(covariance.lags[k])):
            yield _Direction("covariance_within", float(covariance.lags[lag]), replicate, lag)
    products = lens.vectors(rows) @ means.T
    yield from _with_means(correlation.alignment(products, np.diag(gram), means, valid.reshape(-1)), replicate, some)
    yield from _along_trajectories(gram, episode, valid, replicate)


def _with_means(cosines: np.ndarray, replicate: int, some: Callable[[np.ndarray], np.ndarray]) -> Iterator[_Direction]:
    """cos(g_i, mean of batch j), [j, i]: its own (j = replicate, of which g_i is a part) and the others."""
    for j, own in enumerate(cosines):
        here = own[np.isfinite(own)]
        if len(here):
            yield _Direction("sample_batch_cosine", float(here.mean()), replicate, j)
    here = cosines[replicate][np.isfinite(cosines[replicate])]
    if len(here):
        yield _Direction("sample_own_size", float(np.abs(here).mean()), replicate)
    yield from (_Direction("sample_own_value", float(v), replicate) for v in some(here))
    if replicate == 0:
        for j, own in enumerate(cosines[:SHOWN_BATCHES]):
            for i in np.flatnonzero(np.isfinite(own))[:256]:
                yield _Direction("sample_batch_value", float(own[i]), j, int(i))


def _along_trajectories(
    gram: np.ndarray, episode: np.ndarray, valid: np.ndarray, replicate: int
) -> Iterator[_Direction]:
    """Mean of cos(g_t, trajectory mean) of every trajectory, with its length as lag; the course of the first rows.

    `trajectory_chance` is what orthogonal gradients of these norms have: mean_t |g_t| / √Σ|g_t|², at most 1/√L.
    """
    from trimtab.gradient.correlation import trajectory_alignment

    alignment = trajectory_alignment(gram, episode, valid)
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0)).reshape(episode.shape)
    for n in range(len(episode)):
        for number in np.unique(episode[n]):
            here = (episode[n] == number) & np.isfinite(alignment.cosine[n])
            if here.sum() > 1:
                length, own = int(here.sum()), norms[n][here]
                yield _Direction("trajectory_cosine", float(alignment.cosine[n][here].mean()), replicate, length)
                chance = float(own.mean() / np.linalg.norm(own))
                yield _Direction("trajectory_chance", chance, replicate, length)
        if replicate == 0 and n < SHOWN_BATCHES:
            for t in np.flatnonzero((episode[n] == episode[n][0]) & np.isfinite(alignment.cosine[n])):
                yield _Direction("trajectory_course", float(alignment.cosine[n, t]), n, int(t))


# Independent draws -----------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class IndependentDraws(_Batches):
    """bias² from whole rows, from one sample of every row, and the squared distance between the two biases."""

    kind: ClassVar[str] = "draws"
    replicates: int

    @property
    def steps(self) -> int:
        return 3 * len(self.at) * self.replicates * self.num_envs * self.num_steps

    def do(self, context: JobContext) -> dict[str, Any]:
        rows = []
        for step, lens in self._lenses(context, self.replicates):
            differences = lens.prober.measured(None).differences
            if differences is None:
                raise RuntimeError(f"{self.config.env_id} cannot be continued past its cuts, so its bias is not known")
            rows.append({"step": step} | _bias_distances(differences, self._single(lens)))
        return {"found": rows}

    def _single(self, lens: _Lens) -> np.ndarray:
        """(A − A_ref) ∇ log π of one sample at a random position of each row of other replicates, [rows, P]."""
        rng, singles = np.random.default_rng(0), []
        for replicate in range(self.replicates, 2 * self.replicates):
            rows = lens.prober.rows(replicate, None)
            assert rows.reference is not None  # the differences are known, so rows are continued past their cuts
            gap = rows.samples._replace(advantage=rows.samples.advantage - rows.reference)
            vectors = lens.vectors(rows._replace(samples=gap)).reshape(self.num_envs, self.num_steps, -1)
            singles.append(vectors[np.arange(self.num_envs), rng.integers(0, self.num_steps, self.num_envs)])
        return np.concatenate(singles)


def _bias_distances(rows: np.ndarray, single: np.ndarray) -> dict[str, float]:
    """|E rows|², |E single|² and |E rows − E single|², each without the bias of squaring noise, and a unit to compare.

    |E a − E b|² = |E a|² + |E b|² − 2 E a · E b, squares by pairs of different rows only.

    Args:
        rows: [rows, P], an error of the gradient per row.
        single: [draws, P], that of an independent sample.

    Returns:
        `rows`, `single`, `gap`, and `unit`: the mean square of a single draw.
    """
    square = lambda x: float(((x.sum(0) ** 2).sum() - (x**2).sum()) / (len(x) * (len(x) - 1)))
    rows_sq, single_sq = square(rows), square(single)
    gap = rows_sq + single_sq - 2 * float(rows.mean(0) @ single.mean(0))
    return {"rows": rows_sq, "single": single_sq, "gap": gap, "unit": float((single**2).sum() / len(single))}


# Minibatches -----------------------------------------------------------------------------------------------


class _MinibatchNumber(NamedTuple):
    """One number of `minibatches.parquet`, with what it was measured for."""

    quantity: str
    value: float
    way: str | None = None
    size: int | None = None
    epoch: int | None = None
    replicate: int | None = None


@register
@dataclass(frozen=True)
class MinibatchNoise(_Batches):
    """How much noise cutting a batch into minibatches adds, by way and size; drift and clip bias of one iteration.

    Writes `minibatches.parquet`: step, quantity, way, size, epoch, replicate, value.
    """

    kind: ClassVar[str] = "minibatches"
    sizes: tuple[int, ...]
    replicates: int

    @property
    def steps(self) -> int:
        return 2 * len(self.at) * self.replicates * self.num_envs * self.num_steps

    def do(self, context: JobContext) -> dict[str, Any]:
        rows: list[tuple[Any, ...]] = []
        for step, lens in self._lenses(context, self.replicates, bias=False):
            rows += [(step, r.quantity, r.way, r.size, r.epoch, r.replicate, r.value) for r in self._look(lens)]
        schema = {"step": pl.Int64, "quantity": pl.String, "way": pl.String, "size": pl.Int64, "epoch": pl.Int64}
        schema |= {"replicate": pl.Int64, "value": pl.Float64}
        write_parquet(context.place / "minibatches.parquet", pl.DataFrame(rows, schema=schema, orient="row"))
        return {"rows": len(rows)}

    def _look(self, lens: _Lens) -> Iterator[_MinibatchNumber]:
        from trimtab.gradient import minibatch_effects

        config, means = self.config, []
        for r in range(self.replicates):
            rows = lens.prober.rows(r, None)
            gram = lens.gram(rows)
            means.append(lens.vectors(rows).mean(0))
            spread = (np.trace(gram) - gram.sum() / len(gram)) / (len(gram) - 1)
            yield _MinibatchNumber("sample_variance", float(spread), replicate=r)
            for way in minibatch_effects.WAYS:
                for size in self.sizes:
                    parts = minibatch_effects.parts_of(way, self.num_envs, self.num_steps, size, r)
                    added = minibatch_effects.subsampling_measured(gram, parts)
                    yield _MinibatchNumber("subsampling", added, way, size, replicate=r)
            if (self.num_envs, self.num_steps) == (config.num_envs, config.num_steps):
                yield from self._follow(lens.prober, rows, r)
        batch = np.array(means)
        yield _MinibatchNumber("batch_variance", float(batch.var(axis=0, ddof=1).sum()))
        square = (batch.sum(0) ** 2).sum() - (batch**2).sum()
        yield _MinibatchNumber("grad_sq", float(square / (len(batch) * (len(batch) - 1))))

    def _follow(self, prober: Prober, rows: Rows, replicate: int) -> Iterator[_MinibatchNumber]:
        """Drift and clip bias of the updates of one iteration, means by epoch."""
        from trimtab.gradient import minibatch_effects

        state, hypers = prober.sampler.state, prober.hypers
        effects = minibatch_effects.effects(prober.algorithm, state, rows.rollout, hypers, replicate)
        for name, values in effects.items():
            for epoch, value in enumerate(values.reshape(self.config.update_epochs, -1).mean(1)):
                yield _MinibatchNumber(name, float(value), epoch=epoch, replicate=replicate)
