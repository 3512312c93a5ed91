"""How the calls of a layer become per-sample gradients: one rule for each kind of layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from trimtab.torch.batch_layout import Layout
from trimtab.torch.layer_gradients import LayerGradients, OuterProducts, Vectors, sums_of_outer_products
from trimtab.torch.meter_errors import MeterError
from trimtab.torch.recording import Call
from trimtab.torch.recurrent import replayed

PATCHES = 1 << 20  # numbers
LARGEST_VOCABULARY = 1 << 14  # rows of an embedding up to which indices become one-hot inputs

Parts = list[tuple[LayerGradients, tuple[str, ...], Tensor]]
"""Per-sample gradients, the parameters they belong to, and the sum of the gradients as autograd gave it."""


@dataclass(frozen=True)
class Recorded:
    """A layer with its calls in each backward pass.

    Attributes:
        layer: the module.
        name: of the layer.
        passes: its calls, for every backward pass.
        grads: gradients of the first pass, by the names of the layer's parameters.
    """

    layer: nn.Module
    name: str
    passes: list[list[Call]]
    grads: Mapping[str, Tensor]

    def matrix(self, weight: str = "weight", bias: str = "bias") -> Tensor:
        """The gradient of weights, flattened to `[outputs, inputs]`, with that of the bias as last column."""
        columns = [self.grads[weight].flatten(1)] if weight in self.grads else []
        columns += [self.grads[bias][:, None]] if bias in self.grads else []
        return torch.cat(columns, 1)

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(f"{self.name}.{name}".removeprefix(".") for name in self.grads)


def gradients_of(recorded: Recorded, layout: Layout) -> Parts:
    """Per-sample gradients of one layer, `[passes · rows, T, P]`.

    Args:
        recorded: the layer and its calls.
        layout: where rows and steps are.

    Returns:
        One part, or several that no sample's product joins.
    """
    layer = recorded.layer
    if isinstance(layer, nn.Linear):
        return [_dense(recorded, layout, lambda x: x)]
    if isinstance(layer, nn.Embedding) and layer.num_embeddings <= LARGEST_VOCABULARY and layer.max_norm is None:
        return [_embedding(recorded, layout)]
    if isinstance(layer, nn.Conv2d) and _is_plain(layer):
        return _convolution(recorded, layout)
    if isinstance(layer, nn.RNNBase):
        return _recurrent(recorded, layout)
    return [_any(recorded, layout)]


def _is_plain(layer: nn.Conv2d) -> bool:
    """Whether `unfold` gives the inputs that its weights are multiplied with."""
    return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)


def _joined(recorded: Recorded, layout: Layout, tensor: Callable[[Call], Tensor]) -> Tensor:
    """`[passes · rows, T, L, ...]` of all calls."""
    return torch.cat([layout.joined([tensor(call) for call in calls], recorded.name) for calls in recorded.passes])


def _derivatives(recorded: Recorded, layout: Layout) -> Tensor:
    return _joined(recorded, layout, lambda call: _floating(call.derivatives[0], recorded.name))


def _dense(recorded: Recorded, layout: Layout, prepare: Callable[[Tensor], Tensor]):
    d = _derivatives(recorded, layout)
    x = prepare(_joined(recorded, layout, lambda call: call.inputs[0]))
    x = x.to(d.dtype).flatten(2, -2)
    d = d.flatten(2, -2)
    ones = [torch.ones_like(x[..., :1])] if "bias" in recorded.grads else []
    x = torch.cat([*([x] if "weight" in recorded.grads else []), *ones], -1)
    return sums_of_outer_products(x, d, layout.in_sequence), recorded.parameters, recorded.matrix().flatten()


def _embedding(recorded: Recorded, layout: Layout):
    layer = recorded.layer
    d = _derivatives(recorded, layout)
    indices = _joined(recorded, layout, lambda call: call.inputs[0]).flatten(2)
    d = d.reshape(*indices.shape, d.shape[-1])
    if layer.padding_idx is not None:
        d = d * (indices != layer.padding_idx)[..., None]
    x = functional.one_hot(indices, layer.num_embeddings).to(d.dtype)
    gradients = sums_of_outer_products(x, d, layout.in_sequence)
    return gradients, recorded.parameters, recorded.grads["weight"].T.flatten()


def _convolution(recorded: Recorded, layout: Layout) -> Parts:
    layer = recorded.layer
    d = _derivatives(recorded, layout).flatten(-2)  # [rows, T, L, outputs, positions]
    x = _joined(recorded, layout, lambda call: call.inputs[0])
    size = max(1, PATCHES // (layer.weight[0].numel() * d.shape[4]))  # images whose patches fit into a cache
    form = {name: getattr(layer, name) for name in ("kernel_size", "dilation", "padding", "stride")}

    def make(start: int, stop: int) -> Tensor:
        images, out = x[:, start:stop], d[:, start:stop]
        each = lambda i, o: o @ functional.unfold(i.to(d.dtype), **form).transpose(1, 2)
        if images.shape[2] == 1:
            pairs = zip(images.flatten(0, 2).split(size), out.flatten(0, 2).split(size))
            return torch.cat([each(i, o) for i, o in pairs]).view(*images.shape[:2], -1)
        sums = [each(i, o).sum(0) for i, o in zip(images.flatten(0, 1), out.flatten(0, 1))]
        return torch.stack(sums).view(*images.shape[:2], -1)

    names = recorded.parameters
    found: Parts = []
    if "weight" in recorded.grads:
        mean = recorded.grads["weight"].flatten()
        held = (layer.weight[0].numel() + 2 * d.shape[3]) * d.shape[4] * d.shape[2]
        found.append((Vectors(d.shape[0], d.shape[1], len(mean), held, make), names[:1], mean))
    if "bias" in recorded.grads:
        found.append((Vectors.of(d.sum((2, 4))), names[-1:], recorded.grads["bias"]))
    return found


def _recurrent(recorded: Recorded, layout: Layout) -> Parts:
    layer = recorded.layer
    if not layout.in_sequence:
        raise MeterError(f"{recorded.name}: {type(layer).__name__} needs in_sequence=True")
    if layer.bidirectional or getattr(layer, "proj_size", 0) or (layer.dropout and layer.training):
        kind = f"bidirectional, projected or dropped-out {type(layer).__name__}"
        raise MeterError(f"{recorded.name}: the meter does not measure a {kind}")
    factors = replayed(layer, recorded.passes, layout.rows, layout.chosen)
    parts: Parts = []
    for place, (inputs, hidden, to_inputs, to_hidden) in enumerate(factors):
        for x, d, kind in ((inputs, to_inputs, "ih"), (hidden, to_hidden, "hh")):
            names = [name for name in (f"weight_{kind}_l{place}", f"bias_{kind}_l{place}") if name in recorded.grads]
            if len(names) == 2 or (names and not layer.bias):
                x = torch.cat([x, torch.ones_like(x[..., :1])], -1) if layer.bias else x
                whole = tuple(f"{recorded.name}.{name}".removeprefix(".") for name in names)
                mean = recorded.matrix(f"weight_{kind}_l{place}", f"bias_{kind}_l{place}").flatten()
                parts.append((OuterProducts(x, d), whole, mean))
            elif names:
                raise MeterError(f"{recorded.name}: freeze weights and biases of a layer together")
    return parts


def _any(recorded: Recorded, layout: Layout):
    """torch.func's derivative of the layer alone, sample by sample."""
    layer, names = recorded.layer, list(recorded.grads)
    batch_first = getattr(layer, "batch_first", True)
    arrange = lambda value: value if batch_first else value.transpose(0, 1)
    d = _joined(recorded, layout, lambda call: arrange(_floating(call.derivatives[0], recorded.name)))
    given, options = recorded.passes[0][0].inputs, recorded.passes[0][0].options
    if not isinstance(given[0] if given else None, Tensor) or any(isinstance(v, Tensor) for v in options.values()):
        kind = type(layer).__name__
        raise MeterError(f"{recorded.name}: {kind} is measured with tensors as positional arguments only")
    places = [k for k, value in enumerate(given) if isinstance(value, Tensor) and value.ndim]
    take = lambda k: lambda call: arrange(call.inputs[k])
    inputs = [_joined(recorded, layout, take(k)) for k in places]
    frozen = {n: p.detach() for n, p in layer.named_parameters() if n not in names} | dict(layer.named_buffers())
    own = {n: p.detach() for n, p in layer.named_parameters() if n in names}

    def one(derivative: Tensor, *tensors: Tensor) -> Tensor:
        arguments = list(given)
        for k, tensor in zip(places, tensors):
            arguments[k] = arrange(tensor[None])

        def output(parameters: dict[str, Tensor]) -> Tensor:
            found = torch.func.functional_call(layer, parameters | frozen, tuple(arguments), options)
            return found if isinstance(found, Tensor) else found[0]

        value, pullback = torch.func.vjp(output, own)
        return torch.cat([g.flatten() for g in pullback(arrange(derivative[None]).reshape(value.shape))[0].values()])

    def make(start: int, stop: int) -> Tensor:
        parts = [value[:, start:stop].flatten(0, 2).contiguous() for value in (d, *inputs)]
        vectors = torch.func.vmap(one)(*parts)
        return vectors.view(*d[:, start:stop].shape[:3], -1).sum(2)

    mean = torch.cat([recorded.grads[name].flatten() for name in own])
    held = 2 * d[0, 0].numel() * 4
    return Vectors(d.shape[0], d.shape[1], len(mean), held, make), recorded.parameters, mean


def _floating(derivative: Tensor, name: str) -> Tensor:
    """In single precision at least; half precision loses small derivatives."""
    if derivative.dtype == torch.float16:
        raise MeterError(
            f"{name}: float16 loses small gradients; compute the meter's log-probabilities in bfloat16 or float32"
        )
    return derivative.float() if derivative.dtype == torch.bfloat16 else derivative


def not_adding_up(parts: Parts, rows: int, tolerance: float) -> str | None:
    """The first parameters whose per-sample gradients do not add up to autograd's gradient, if any.

    Args:
        parts: of all layers.
        rows: of the first backward pass.
        tolerance: relative.

    Returns:
        Their names; None if all add up.
    """
    for gradients, names, mean in parts:
        total = gradients.total(rows)
        scale = torch.linalg.vector_norm(mean)
        if torch.linalg.vector_norm(total - mean) > tolerance * scale + 1e-6:
            return ", ".join(names)
    return None
