"""From log-probabilities with their graph to the inner products of all per-sample gradients of an iteration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trimtab.gradient.correlation import SMALLEST_NORM
from trimtab.torch.batch_layout import Layout
from trimtab.torch.layer_gradients import BUDGET, Inner, Vectors
from trimtab.torch.layers import Parts, Recorded, gradients_of, not_adding_up
from trimtab.torch.meter_errors import MeterError
from trimtab.torch.recording import Call, Recorder

TOLERANCE, MIXED_TOLERANCE = 1e-2, 0.25
MOST_LOOSE = 512  # numbers in parameters outside of layers, for each of which there is a small backward pass


@dataclass(frozen=True)
class Iteration:
    """Inner products of one iteration, and its mean gradient.

    `inner` is `Inner`; where samples of a row are not distinguished its `positions` is an estimate from some steps, and
    it has no squares, lags nor products with the mean.
    """

    inner: Inner
    mean: Tensor
    rows: int
    steps: int
    positions_used: int


def measure(
    recorder: Recorder,
    layout: Layout,
    logprob: Tensor,
    advantages: Tensor,
    lags: Sequence[int],
    positions: Sequence[int],
    budget: int = BUDGET,
) -> Iteration:
    """Inner products of the gradients A ∇ log π of all samples of the chosen rows.

    Args:
        recorder: that saw the forward pass behind `logprob`.
        layout: of the batch.
        logprob: of every sample, with its graph.
        advantages: of every sample; constants.
        lags: of products within rows.
        positions: steps whose gradients estimate Σ_t where samples of a row are not distinguished.
        budget: numbers to hold at once.

    Returns:
        Sums over all parameters.
    """
    weights = _weights(layout, advantages.detach().to(logprob.dtype))
    scores = layout.matrix(logprob)
    steps = [slice(None), *(slice(t, t + 1) for t in positions)] if layout.in_sequence else [slice(None)]
    passes: list[dict[torch.nn.Module, list[Call]]] = []
    grads: dict[str, Tensor] = {}
    for number, step in enumerate(steps):
        by_layer, found = recorder.backward((weights[:, step] * scores[:, step]).sum())
        passes.append(by_layer)
        grads = grads if number else found
    if not grads:
        raise MeterError("logprob: does not depend on a parameter of the module; compute it with gradients enabled")
    chosen = layout.rows if layout.chosen is None else len(layout.chosen)
    parts = [*_layer_parts(recorder, layout, passes, grads)]
    parts += _loose_parts(recorder.loose(passes[0]), layout, logprob, weights, steps, grads)
    count = chosen * layout.steps
    total = torch.cat([mean for _, _, mean in parts]) / count
    if layout.in_sequence:
        _check(parts, grads, chosen, _tolerance(passes[0]))
        return Iteration(
            _row_products(parts, chosen, layout.steps, budget), total, chosen, layout.steps, len(positions)
        )
    inner = [gradients.inner(lags, mean / count, budget) for gradients, _, mean in parts]
    _check(parts, grads, chosen, _tolerance(passes[0]))
    return Iteration(_sum(inner), total, chosen, layout.steps, layout.steps)


def _weights(layout: Layout, advantages: Tensor) -> Tensor:
    """`[N, T]` advantages, 0 in rows that are not measured."""
    values = layout.matrix(advantages)
    if layout.chosen is None:
        return values
    kept = torch.zeros(layout.rows, 1, dtype=values.dtype, device=values.device)
    kept[layout.chosen] = 1
    return values * kept


def _sum(inner: Sequence[Inner]) -> Inner:
    total = inner[0]
    for other in inner[1:]:
        total = total + other
    return total


def _row_products(parts: Parts, rows: int, steps: int, budget: int) -> Inner:
    """Products of rows, from the first backward pass; of positions, from the others: T times their mean."""
    products = sum(gradients.row_products(budget) for gradients, _, _ in parts)
    blocks = [products[k : k + rows, k : k + rows] for k in range(0, len(products), rows)]
    positions = torch.stack(blocks[1:]).mean(0) * steps
    empty = products.new_zeros(rows, 0)
    return Inner(blocks[0], positions, empty, empty, ())


def _layer_parts(
    recorder: Recorder, layout: Layout, passes: list[dict[torch.nn.Module, list[Call]]], grads: dict[str, Tensor]
) -> Iterator[tuple]:
    for layer, calls in passes[0].items():
        name = recorder.layers[layer]
        own = {
            n: grads[full] for n, _ in layer.named_parameters() if (full := f"{name}.{n}".removeprefix(".")) in grads
        }
        if own:
            found = [_completed(calls, by_layer.get(layer, [])) for by_layer in passes]
            yield from gradients_of(Recorded(layer, name, found, own), layout)


def _completed(calls: list[Call], found: list[Call]) -> list[Call]:
    """The same calls as in the first pass; what a later pass did not reach has derivative 0."""
    by_number = {call.number: call for call in found}
    completed = []
    for call in calls:
        own = by_number[call.number].derivatives if call.number in by_number else {}
        missing = {k: torch.zeros_like(d) for k, d in call.derivatives.items() if k not in own}
        completed.append(Call(call.layer, call.inputs, call.options, call.number, own | missing))
    return completed


def _loose_parts(
    loose: dict[str, Tensor],
    layout: Layout,
    logprob: Tensor,
    weights: Tensor,
    steps: Sequence[slice],
    grads: dict[str, Tensor],
) -> Parts:
    """Parameters outside of layers, such as a standard deviation: ∂ log π_i / ∂p by differentiating twice.

    h(w) = ∂/∂p Σ_i w_i log π_i is linear in w, so ∂h/∂w_i is what one sample contributes.
    """
    names = [name for name in loose if name in grads]
    count = sum(loose[name].numel() for name in names)
    if count > MOST_LOOSE:
        raise MeterError(
            f"{', '.join(names)}: {count:,} numbers are used outside of a layer's own forward, {MOST_LOOSE} can be "
            "measured; move them into a module that is called"
        )
    if not names:
        return []
    w = torch.ones_like(logprob, requires_grad=True)
    found = torch.autograd.grad((w * logprob).sum(), [loose[n] for n in names], create_graph=True)
    flat = torch.cat([g.flatten() for g in found])
    each = [torch.autograd.grad(h, w, retain_graph=True, allow_unused=True)[0] for h in flat]
    scores = torch.stack([layout.matrix(torch.zeros_like(w) if g is None else g) for g in each], 2)
    vectors = scores * weights[:, :, None]
    if layout.in_sequence:
        vectors = torch.cat([vectors[:, step].sum(1, keepdim=True) for step in steps])
    if layout.chosen is not None:
        starts = torch.arange(0, len(vectors), layout.rows, device=vectors.device)
        vectors = vectors[(starts[:, None] + layout.chosen).flatten()]
    mean = torch.cat([grads[name].flatten() for name in names])
    return [(Vectors.of(vectors), tuple(names), mean)]


def _tolerance(calls: dict[torch.nn.Module, list[Call]]) -> float:
    """Of sums of gradients: autograd adds up in the precision of the layer."""
    kinds = {d.dtype for own in calls.values() for call in own for d in call.derivatives.values()}
    return MIXED_TOLERANCE if torch.bfloat16 in kinds else TOLERANCE


def _check(parts: Parts, grads: dict[str, Tensor], rows: int, tolerance: float) -> None:
    """Every parameter must be covered, and its per-sample gradients must add up to autograd's."""
    covered = {name for _, names, _ in parts for name in names}
    missing = [name for name in grads if name not in covered]
    if missing:
        raise MeterError(
            f"{missing[0]}: used outside of a recorded call of its layer; compute logprob with the module's own "
            "layers, after the meter was made and without torch.compile"
        )
    wrong = not_adding_up(parts, rows, tolerance)
    if wrong:
        raise MeterError(
            f"{wrong}: per-sample gradients do not add up to the gradient of the batch; are weights shared, or is "
            "dropout inside of the layer?"
        )


def cosine_sums(inner: Inner, mean_sq: float, episodes: np.ndarray | None, lags: Sequence[int]) -> np.ndarray:
    """`[rows, lags]`, the mean over a row's pairs of one trajectory of cos(g_t − ḡ, g_{t+k} − ḡ); NaN without pairs.

    Args:
        inner: products of the samples.
        mean_sq: |ḡ|².
        episodes: `[rows, T]` numbers of episodes; None: each row is one trajectory.
        lags: k.

    Returns:
        Means.
    """
    squares, along = (value.double().cpu().numpy() for value in (inner.squares, inner.along))
    norms = np.sqrt(np.maximum(squares - 2 * along + mean_sq, 0))
    usable = (norms > 0) & (squares >= SMALLEST_NORM**2)
    means = np.full((len(squares), len(lags)), np.nan)
    for place, (k, products) in enumerate(zip(lags, inner.lags)):
        centred = products.double().cpu().numpy() - along[:, k:] - along[:, :-k] + mean_sq
        pairs = usable[:, k:] & usable[:, :-k]
        if episodes is not None:
            pairs &= episodes[:, k:] == episodes[:, :-k]
        cosines = centred / np.where(pairs, norms[:, k:] * norms[:, :-k], 1.0)
        counts = pairs.sum(1)
        sums = np.where(pairs, np.clip(cosines, -1, 1), 0.0).sum(1)
        means[:, place] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return means
