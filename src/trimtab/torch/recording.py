"""What layers got and the derivatives of what they gave, recorded by hooks during one backward pass.

A forward hook attaches a hook to every output tensor. That hook holds the input of the layer and belongs to the graph,
so nothing outlives the graph and nothing is kept where no measurement follows. Hooks change no value: training computes
the same bits with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from trimtab.torch.meter_errors import MeterError

WHOLE = (nn.RNNBase, nn.MultiheadAttention)  # that use parameters of their children, or call no children
MIXING = (nn.modules.batchnorm._BatchNorm,)  # in training mode a sample's output depends on all samples
IN_SEQUENCE = (nn.RNNBase, nn.MultiheadAttention)  # a sample's output may depend on other samples of its row


@dataclass
class Call:
    """One call of a layer: its arguments, and the derivatives of its outputs once they arrive."""

    layer: nn.Module
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    number: int
    derivatives: dict[int, Tensor] = field(default_factory=dict)


class Recorder:
    """Hooks on all layers of a module that have parameters of their own."""

    def __init__(self, module: nn.Module):
        """
        Args:
            module: the policy; it may be wrapped by DistributedDataParallel or torch.compile.
        """
        self.module = unwrapped(module)
        self.layers = dict(_layers(self.module))
        self.in_sequence = any(isinstance(layer, IN_SEQUENCE) for layer in self.module.modules())
        self._calls: dict[int, Call] | None = None
        self._number = 0
        self._handles: list[Any] = []
        self.open()

    def loose(self, called: Iterable[nn.Module]) -> dict[str, Tensor]:
        """Parameters that no layer's own forward uses, by name.

        Args:
            called: layers that were called; others of the user's own classes are taken for holders of parameters.
        """
        known = set(called)
        layers = [layer for layer in self.layers if layer in known or type(layer).__module__.startswith("torch.nn")]
        owned = {id(p) for layer in layers for p in layer.parameters()}
        return {n: p for n, p in self.module.named_parameters() if id(p) not in owned and p.requires_grad}

    @property
    def is_open(self) -> bool:
        """Whether the hooks are there."""
        return bool(self._handles)

    def open(self) -> None:
        """Add the hooks, unless they are there."""
        if not self._handles:
            self._handles = [layer.register_forward_hook(self._forward, with_kwargs=True) for layer in self.layers]

    def close(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _forward(self, layer: nn.Module, inputs: tuple, kwargs: dict, output: Any) -> Any:
        if not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return None
        if isinstance(output, Tensor) and output._is_view():
            output = output.clone()  # a view that is changed in place afterwards loses its hooks
        self._number += 1
        options = {name: _detached(value) for name, value in kwargs.items()}
        call = Call(layer, _detached(inputs), options, self._number)
        for place, tensor in enumerate(_tensors(output)):
            if tensor.requires_grad:
                tensor.register_hook(partial(self._backward, call, place))
        return output

    def _backward(self, call: Call, place: int, derivative: Tensor) -> None:
        if self._calls is not None:
            call.derivatives[place] = derivative.detach()
            self._calls[call.number] = call

    def backward(self, objective: Tensor) -> tuple[dict[nn.Module, list[Call]], dict[str, Tensor]]:
        """Differentiate a sum over samples, and record; no `.grad` changes.

        Args:
            objective: Σ advantage · log-probability, with its graph, which stays usable.

        Returns:
            The calls of each layer that the objective depends on, in their order; the gradient of every parameter that
            it depends on, by name.
        """
        names = {n: p for n, p in self.module.named_parameters() if p.requires_grad}
        self._calls = {}
        try:
            found = torch.autograd.grad(objective, list(names.values()), retain_graph=True, allow_unused=True)
            calls = sorted(self._calls.values(), key=lambda call: call.number)
        finally:
            self._calls = None
        by_layer: dict[nn.Module, list[Call]] = {}
        for call in calls:
            by_layer.setdefault(call.layer, []).append(Call(**(vars(call) | {"derivatives": dict(call.derivatives)})))
            call.derivatives.clear()
        return by_layer, {name: grad for name, grad in zip(names, found) if grad is not None}


def unwrapped(module: nn.Module) -> nn.Module:
    """The module itself, without DistributedDataParallel and torch.compile around it.

    Args:
        module: any module.

    Returns:
        The innermost one.
    """
    while True:
        if isinstance(module, nn.parallel.DistributedDataParallel):
            module = module.module
        elif isinstance(getattr(module, "_orig_mod", None), nn.Module):  # torch.compile's
            module = module._orig_mod
        else:
            return module


def _layers(module: nn.Module, name: str = "") -> Iterator[tuple[nn.Module, str]]:
    """Modules whose parameters are used in their own forward only, with their names."""
    own = [p for p in module.parameters(recurse=False) if p.requires_grad]
    if isinstance(module, WHOLE) or (own and not any(True for _ in module.children())):
        if isinstance(module, MIXING) and module.training:
            raise MeterError(
                f"{name}: {type(module).__name__} in training mode makes samples depend on each other, so they have no "
                "gradients of their own; use evaluation mode or another normalization"
            )
        if any(p.requires_grad for p in module.parameters()):
            yield module, name
        return
    for child_name, child in module.named_children():
        yield from _layers(child, f"{name}.{child_name}".removeprefix("."))


def _tensors(output: Any) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, tuple | list):
        for part in output:
            yield from _tensors(part)


def _detached(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, tuple | list):
        return tuple(_detached(part) for part in value)
    return value
