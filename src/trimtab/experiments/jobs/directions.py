"""Where gradients point, over many replicates: pairs along and across trajectories, samples and batches.

A probe looks at the pairs of one batch and the means of five. What a picture of five batches shows may be chance, so
this job looks at many, and keeps besides the picture the numbers that a verdict can be drawn from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from trimtab.experiments.jobs.probing import Lens, lens_at
from trimtab.gradient.probe_options import ProbeOptions
from trimtab.studies.job import JobContext, OfRun, register

if TYPE_CHECKING:
    import numpy as np

LAGS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 60, 80, 120)
SHOWN_LAGS = (1, 3, 5, 7, 10, 40)  # whose distributions are kept
SHOWN_BATCHES = 5  # of the heat maps and of batch 0 against others
VALUES = 1200  # of a distribution over all replicates together
ESTIMATES = ("variance", "individual", "covariance", "grad_sq")
COLUMNS = ("quantity", "step", "num_envs", "num_steps", "gae_lambda", "replicate", "lag", "value", "lo", "hi")


@register
@dataclass(frozen=True)
class Directions(OfRun):
    """Batches of N × T from checkpoints of a run: the variance's parts, the bias, and all kinds of cosines."""

    kind: ClassVar[str] = "directions"
    at: tuple[int, ...]
    num_envs: int
    num_steps: int
    replicates: int = 32
    looked: int = 8  # replicates whose pairs of samples are looked at
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
        import polars as pl

        from trimtab.training.records import write_parquet

        options = ProbeOptions(
            num_envs=self.num_envs,
            num_steps=self.num_steps,
            replicates=self.replicates,
            start=self.start,
            bias=self.bias,
            correlations=False,
        )
        rows: list[tuple] = []
        lambdas = self.gae_lambda or (self.config.lambda_used,)
        for k, step in enumerate(self.at):
            lens = lens_at(context.inputs[self.run.identity], step, options, context.engines)
            for j, gae_lambda in enumerate(lambdas):
                place = (step, self.num_envs, self.num_steps, gae_lambda)
                rows += [(name, *place, *rest) for name, *rest in self._look(lens, gae_lambda)]
                context.tick(self.steps * (k * len(lambdas) + j + 1) // (len(self.at) * len(lambdas)))
        schema = dict(zip(COLUMNS, (pl.String, pl.Int64, pl.Int64, pl.Int64, pl.Float64, pl.Int64, pl.Int64)))
        schema |= {name: pl.Float64 for name in ("value", "lo", "hi")}
        write_parquet(context.place / "directions.parquet", pl.DataFrame(rows, schema=schema, orient="row"))
        return {"rows": len(rows)}

    def _look(self, lens: Lens, gae_lambda: float) -> Iterator[tuple]:
        """(quantity, replicate, lag, value, lo, hi) at the checkpoint the lens looks at."""
        from trimtab.gradient import bias as biases
        from trimtab.gradient.variance import decompose_rows

        measured = lens.prober.measured(gae_lambda)
        parts = decompose_rows(measured.rows, self.num_envs)
        for name in ESTIMATES:
            e = getattr(parts, name)
            yield name, None, None, e.value, e.lo, e.hi
        if measured.differences is not None and measured.reference is not None:
            e = biases.bias_sq(measured.differences)
            yield "bias_sq", None, None, e.value, e.lo, e.hi
            e = biases.squared_norm_of_mean(measured.reference @ measured.reference.T)
            yield "true_grad_sq", None, None, e.value, e.lo, e.hi
        yield from between_batches(measured.means)
        for replicate in range(self.looked):
            yield from look_at_pairs(lens, replicate, gae_lambda, measured.means, VALUES // self.looked)


def between_batches(means: np.ndarray) -> Iterator[tuple]:
    """Cosines of the means of every pair of replicates."""
    import numpy as np

    from trimtab.gradient.correlation import cosine_matrix

    cosines = cosine_matrix(means @ means.T)
    for i, j in zip(*np.triu_indices(len(means), 1)):
        yield "batch_cosine", int(i), int(j), float(cosines[i, j]), None, None


def look_at_pairs(lens: Lens, replicate: int, gae_lambda: float, means: np.ndarray, values: int) -> Iterator[tuple]:
    """What the samples of one replicate say of each other, of their own mean and of other batches' means."""
    import numpy as np

    from trimtab.gradient import correlation

    rows = lens.prober.rows(replicate, gae_lambda)
    gram = lens.gram(rows)
    episode, valid = np.asarray(rows.episode).T, np.asarray(rows.valid).T
    rng = np.random.default_rng(replicate)
    some = lambda numbers: numbers if len(numbers) <= values else rng.choice(numbers, values, replace=False)

    advantage = np.asarray(rows.samples.advantage).T[valid]
    yield "advantage_variance", replicate, None, float(advantage.var()), None, None
    cosine = correlation.cosine_correlation(gram, episode, valid)
    yield "cosine_across", replicate, None, cosine.across.mean, None, None
    yield from (("cosine_across_value", replicate, None, float(v), None, None) for v in some(cosine.across.values))
    for lag in (k for k in LAGS if k <= len(cosine.lags) and cosine.lags[k - 1].num_pairs):
        yield "cosine_within", replicate, lag, cosine.lags[lag - 1].mean, None, None
        if lag in SHOWN_LAGS:
            cosines = some(cosine.lags[lag - 1].values)
            yield from (("cosine_within_value", replicate, lag, float(v), None, None) for v in cosines)
    if len(episode) > 1:
        covariance = correlation.covariance_correlation(gram, episode, valid)
        yield "covariance_across", replicate, None, covariance.across, None, None
        for lag in (k for k in LAGS if k < len(covariance.lags) and np.isfinite(covariance.lags[k])):
            yield "covariance_within", replicate, lag, float(covariance.lags[lag]), None, None
    products = lens.vectors(rows) @ means.T
    yield from _with_means(correlation.alignment(products, np.diag(gram), means, valid.reshape(-1)), replicate, some)
    yield from _along_trajectories(gram, episode, valid, replicate)


def _with_means(cosines: np.ndarray, replicate: int, some) -> Iterator[tuple]:
    """cos(g_i, mean of batch j), [j, i]: its own (j = replicate, of which g_i is a part) and the others."""
    import numpy as np

    for j, own in enumerate(cosines):
        here = own[np.isfinite(own)]
        if len(here):
            yield "sample_batch_cosine", replicate, j, float(here.mean()), None, None
    here = cosines[replicate][np.isfinite(cosines[replicate])]
    if len(here):
        yield "sample_own_size", replicate, None, float(np.abs(here).mean()), None, None
    yield from (("sample_own_value", replicate, None, float(v), None, None) for v in some(here))
    if replicate == 0:
        for j, own in enumerate(cosines[:SHOWN_BATCHES]):
            for i in np.flatnonzero(np.isfinite(own))[:256]:
                yield "sample_batch_value", int(j), int(i), float(own[i]), None, None


def _along_trajectories(gram, episode, valid, replicate: int) -> Iterator[tuple]:
    """Mean of cos(g_t, trajectory mean) of every trajectory, with its length as lag; the course of the first rows.

    `trajectory_chance` is what orthogonal gradients of these norms have: mean_t |g_t| / √Σ|g_t|², at most 1/√L.
    """
    import numpy as np

    from trimtab.gradient.correlation import trajectory_alignment

    alignment = trajectory_alignment(gram, episode, valid)
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0)).reshape(episode.shape)
    for n in range(len(episode)):
        for number in np.unique(episode[n]):
            here = (episode[n] == number) & np.isfinite(alignment.cosine[n])
            if here.sum() > 1:
                length, own = int(here.sum()), norms[n][here]
                yield "trajectory_cosine", replicate, length, float(alignment.cosine[n][here].mean()), None, None
                yield "trajectory_chance", replicate, length, float(own.mean() / np.linalg.norm(own)), None, None
        if replicate == 0 and n < SHOWN_BATCHES:
            for t in np.flatnonzero((episode[n] == episode[n][0]) & np.isfinite(alignment.cosine[n])):
                yield "trajectory_course", n, int(t), float(alignment.cosine[n, t]), None, None
