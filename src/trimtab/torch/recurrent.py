"""LSTM, GRU and RNN layers step by step: what weights are multiplied with, and the derivatives of the products."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from trimtab.torch.recording import Call


class Factors(NamedTuple):
    """Of one layer of a recurrent network, `[passes · rows, applications, ...]`."""

    inputs: Tensor
    hidden: Tensor
    to_inputs: Tensor
    to_hidden: Tensor


class _Step(NamedTuple):
    inputs: Tensor
    hidden: Tensor
    from_inputs: Tensor
    from_hidden: Tensor


def replayed(layer: nn.RNNBase, passes: list[list[Call]], num_rows: int, chosen: Tensor | None) -> list[Factors]:
    """Run the calls again with the products of weights as variables, and differentiate with respect to these.

    Args:
        layer: an LSTM, GRU or RNN in one direction.
        passes: its calls in each backward pass; the same calls with other derivatives.
        num_rows: N.
        chosen: the rows to measure; None: all.

    Returns:
        Factors of the gradients of every layer's weights: each is a sum of outer products over applications.
    """
    by_layer: list[list[list[Tensor]]] = [[] for _ in range(layer.num_layers)]
    for number, first in enumerate(passes[0]):
        calls = [found[number] for found in passes]
        for place, tensors in enumerate(_replay(layer, first, calls, num_rows, chosen)):
            by_layer[place].append(tensors)
    return [Factors(*(torch.cat(parts, 1) for parts in zip(*calls))) for calls in by_layer]


def _replay(layer, first: Call, calls: list[Call], num_rows: int, chosen: Tensor | None) -> list[list[Tensor]]:
    """One call: `[passes · rows, steps, ...]` of inputs, hidden states and both derivatives, for every layer."""
    by_time = lambda x: x.transpose(0, 1) if layer.batch_first else x
    pick = lambda x: x if chosen is None else x[:, chosen]
    repeated = lambda x: pick(x).repeat(1, len(calls), *[1] * (x.ndim - 2))
    x = repeated(by_time(first.inputs[0]))
    x = x.to(layer.weight_hh_l0.dtype)
    given = first.inputs[1] if len(first.inputs) > 1 else first.options.get("hx")
    zero = x.new_zeros(layer.num_layers, x.shape[1], layer.hidden_size)
    states = [zero, zero] if given is None else [repeated(s) for s in (given if isinstance(given, tuple) else (given,))]
    with torch.enable_grad():
        outputs, final, steps = _run(layer, x, states)
    targets, derivatives = [], []
    shapes = (outputs, *final)
    for place, value in enumerate(shapes):
        arrange = by_time if place == 0 else (lambda d: d)
        size = calls[0].inputs[0].shape[0 if layer.batch_first else 1]
        missing = value.new_zeros(value.shape[0], size, value.shape[2])
        found = [pick(arrange(c.derivatives[place]) if place in c.derivatives else missing) for c in calls]
        targets.append(value)
        derivatives.append(torch.cat(found, 1).to(value.dtype))
    leaves = [leaf for own in steps for step in own for leaf in (step.from_inputs, step.from_hidden)]
    gradients = iter(torch.autograd.grad(targets, leaves, derivatives, allow_unused=True))
    found = []
    for own in steps:
        pairs = [(step, next(gradients), next(gradients)) for step in own]
        stacked = [(s.inputs, s.hidden, *(_or_zero(g, s.from_inputs) for g in gs)) for s, *gs in pairs]
        found.append([torch.stack(parts, 1).detach() for parts in zip(*stacked)])
    return found


def _or_zero(gradient: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if gradient is None else gradient


def _run(layer: nn.RNNBase, x: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor], list[list[_Step]]]:
    """Outputs `[steps, rows, H]`, final states `[layers, rows, H]`, and the steps of every layer."""
    finals: list[list[Tensor]] = []
    steps: list[list[_Step]] = []
    sequence = list(x)
    for place in range(layer.num_layers):
        weights = [getattr(layer, f"{name}_l{place}").detach() for name in ("weight_ih", "weight_hh")]
        biases = [getattr(layer, f"{name}_l{place}").detach() if layer.bias else 0 for name in ("bias_ih", "bias_hh")]
        state, own, outputs = [s[place] for s in states], [], []
        for value in sequence:
            width = weights[0].shape[0]
            zeros = [value.new_zeros(len(value), width, requires_grad=True) for _ in range(2)]
            own.append(_Step(value.detach(), state[0].detach(), *zeros))
            from_inputs = value @ weights[0].T + biases[0] + zeros[0]
            from_hidden = state[0] @ weights[1].T + biases[1] + zeros[1]
            state = _cell(layer, from_inputs, from_hidden, state)
            outputs.append(state[0])
        steps.append(own)
        finals.append(state)
        sequence = outputs
    return torch.stack(sequence), [torch.stack(parts) for parts in zip(*finals)], steps


def _cell(layer: nn.RNNBase, a: Tensor, b: Tensor, state: list[Tensor]) -> list[Tensor]:
    """The next state, from the products with inputs a and with the hidden state b."""
    if isinstance(layer, nn.LSTM):
        i, f, g, o = (a + b).chunk(4, -1)
        cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        return [o.sigmoid() * cell.tanh(), cell]
    if isinstance(layer, nn.GRU):
        (ar, az, an), (br, bz, bn) = a.chunk(3, -1), b.chunk(3, -1)
        z = (az + bz).sigmoid()
        return [(1 - z) * (an + (ar + br).sigmoid() * bn).tanh() + z * state[0]]
    return [torch.relu(a + b) if layer.nonlinearity == "relu" else torch.tanh(a + b)]
