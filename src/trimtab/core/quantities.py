"""Every measured quantity, written once: its name in tables and JSON, symbol, unit, meaning, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

GRADIENT_SQ = "gradient²"  # tiny numbers: tables show them in a power of ten that their columns share
EXACT, SINGLE = "exact_", "_value"  # of a name: computed, not measured; the single values of a distribution


@dataclass(frozen=True)
class Quantity:
    """One measured quantity; `format` is what Python and Vega both understand."""

    name: str
    label: str
    meaning: str
    symbol: str = ""
    unit: str = "1"
    format: str = ".3g"
    scale: Literal["linear", "log"] = "linear"

    @property
    def axis(self) -> str:
        """The title of an axis of it: label and unit."""
        title = self.label if self.unit == "1" or self.unit in self.label else f"{self.label}, {self.unit}"
        return f"{title}, logarithmic" if self.scale == "log" else title

    def shown(self, value: float) -> str:
        return format(value, self.format)


ESTIMATES = (
    Quantity(
        "variance", "variance", "noise of the batch gradient: the trace of its covariance", "Var(G_B)", GRADIENT_SQ
    ),
    Quantity(
        "individual", "individual", "what the variance would be if samples were independent", "Term 1", GRADIENT_SQ
    ),
    Quantity("covariance", "within rows", "what correlation along rows adds to the variance", "Term 2", GRADIENT_SQ),
    Quantity(
        "between_rows",
        "between rows",
        "what environments share adds to the variance: in lockstep all are at the same phase of their episodes",
        "(1 − 1/N) C, C = Cov(R_r, R_s)",
        GRADIENT_SQ,
    ),
    Quantity(
        "variance_floor",
        "variance floor",
        "variance that remains with ever more environments at this T",
        "C",
        GRADIENT_SQ,
    ),
    Quantity(
        "ess",
        "effective samples",
        "independent samples that would do as well; fewer when steps repeat each other",
        "N T × Term 1 / Var(G_B)",
        "samples",
    ),
    Quantity(
        "grad_sq", "|G|²", "the signal; a batch with variance above it points mostly at noise", "|E G_B|²", GRADIENT_SQ
    ),
    Quantity("bias_sq", "bias²", "from cut and bootstrapped advantages", "|E G_B − G_T|²", GRADIENT_SQ),
    Quantity("mse", "mean squared error", "variance + bias²", "E|G_B − G_T|²", GRADIENT_SQ),
    Quantity(
        "true_grad_sq", "|true gradient|²", "the signal without bias, which all splits share", "|G_T|²", GRADIENT_SQ
    ),
    Quantity(
        "noise_scale",
        "noise scale, independent",
        "batch at which noise equals signal, if samples were independent",
        "(1/T) Σ_t Tr Cov(g_t) / |G|²",
        "samples",
        scale="log",
    ),
    Quantity(
        "noise_scale_trajectory",
        "noise scale, as correlated",
        "batch at which noise equals signal, with the correlation along rows",
        "N T Var(G_B) / |G|²",
        "samples",
        scale="log",
    ),
    Quantity(
        "noise_scale_environments",
        "noise scale, in environments",
        "environments at which noise equals signal, at the measured T",
        "N Var(G_B) / |G|²",
        "environments",
        scale="log",
    ),
    Quantity(
        "noise_floor",
        "noise floor",
        "noise relative to the signal that remains with ever more environments at this T",
        "C / |G|²",
    ),
    Quantity(
        "phase_autocorrelation",
        "correlation of successive iterations",
        "of their gradients, through the phases that they visit in order; below 0, errors cancel over a cycle",
        "Cov(E[G_B|φ], E[G_B|φ + T]) / Var(G_B)",
        format=".2f",
    ),
)

BY_LAG = (
    Quantity("lag_covariance", "lag covariance", "covariance of gradients k steps apart in a row", "C_k", GRADIENT_SQ),
    Quantity(
        "predicted_variance",
        "predicted variance",
        "variance of the same batch as rows of fewer steps, from blocks of the measured rows",
        "Var(G_B) at T'",
        GRADIENT_SQ,
    ),
)

DIRECTIONS = (
    Quantity(
        "cosine_within",
        "cosine along trajectories",
        "mean cosine, about the batch mean, of gradients k steps apart in one trajectory; 1: the same way",
        format=".2f",
    ),
    Quantity(
        "cosine_across",
        "cosine across environments",
        "the same for pairs of different environments: the baseline",
        format=".2f",
    ),
    Quantity(
        "covariance_within",
        "correlation along rows",
        "covariance of gradients k steps apart over the variance of one: as it enters the noise",
        "E[(g_i − μ)·(g_j − μ)] / E|g − μ|²",
        format=".2f",
    ),
    Quantity(
        "covariance_across", "correlation across environments", "the same for pairs of different rows", format=".2f"
    ),
    Quantity(
        "cosine_trajectory_mean", "cosine with trajectory", "of g_t with the mean of its trajectory", format=".2f"
    ),
    Quantity("cosine_batch_mean", "cosine with batch", "of g_i with the mean of its batch", format=".2f"),
    Quantity("cosine_replicate_mean", "cosine with replicates", "of g_i with the means of other batches", format=".2f"),
    Quantity(
        "replicate_cosine", "cosine between batches", "of the mean gradients of independent batches", format=".2f"
    ),
    Quantity(
        "zero_gradients",
        "zero gradients",
        "samples without a direction, left out of cosines",
        unit="samples",
        format="d",
    ),
    Quantity(
        "reset_synchrony",
        "reset synchrony",
        "1: all environments of the run reset together; 0: spread out",
        "|mean of e^(2πi phase)|",
        format=".2f",
    ),
    Quantity(
        "cosine_expected_true", "cos(G, true)", "how far bias turns the gradient away from the true one", format=".3f"
    ),
    Quantity(
        "cosine_true_return",
        "cos(true, ∇ return)",
        "how far the true gradient is from that of the discounted return",
        format=".3f",
    ),
)

MINIBATCHES = (
    Quantity("minibatch_size", "minibatch", "samples of one gradient step", unit="samples", format="d"),
    Quantity(
        "minibatch_subsampling_formula",
        "sub-sampling variance, by formula",
        "what drawing minibatches adds to each step, by the finite-population formula",
        unit=GRADIENT_SQ,
    ),
    Quantity(
        "minibatch_subsampling_measured",
        "sub-sampling variance",
        "what drawing minibatches adds to each step, measured",
        unit=GRADIENT_SQ,
    ),
    Quantity(
        "minibatch_subsampling_rows_formula",
        "sub-sampling variance by rows, by formula",
        "the same with minibatches of whole rows (minibatch_by rows), by the finite-population formula",
        unit=GRADIENT_SQ,
    ),
    Quantity(
        "minibatch_subsampling_rows_measured",
        "sub-sampling variance by rows",
        "the same with minibatches of whole rows (minibatch_by rows), measured",
        unit=GRADIENT_SQ,
    ),
    Quantity(
        "minibatch_drift",
        "drift",
        "cosine of each minibatch gradient with the batch gradient, over the updates of an iteration",
        format=".2f",
    ),
    Quantity(
        "minibatch_clip_bias",
        "clip bias",
        "how far clipping moves the gradient, relative to it, over the updates of an iteration",
        format=".1%",
    ),
)

SPLITS = (
    Quantity("mse_relative", "MSE / |G|²", "mean squared error relative to the signal all splits share"),
    Quantity("fps", "steps/s", "environment steps of training per second", unit="steps/s", format=",.0f"),
    Quantity("auc", "mean return (AUC)", "area under the learning curve: mean return over training", unit="return"),
    Quantity("final_return", "final return", "mean return of the last episodes of training", unit="return"),
)

NOTE = Quantity("note", "note", "a remark in words; it has no value")

QUANTITIES = {q.name: q for q in (*ESTIMATES, *BY_LAG, *DIRECTIONS, *MINIBATCHES, *SPLITS, NOTE)}


def quantity(name: str) -> Quantity:
    """By name; `exact_` in front and `_value` behind do not change what is measured."""
    return QUANTITIES[name.removeprefix(EXACT).removesuffix(SINGLE)]


def labels(*names: str) -> dict[str, str]:
    """Names with their labels, in this order."""
    return {name: quantity(name).label for name in names}


def glossary() -> str:
    """The table of docs/glossary.md."""
    cells = [(q.label, f"`{q.name}`", q.symbol, q.unit.removeprefix("1"), q.meaning) for q in QUANTITIES.values()]
    rows = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in cells]
    return "\n".join(
        ["| quantity | name | formula | unit | meaning |", "|---|---|---|---|---|", *(f"| {r} |" for r in rows)]
    )
