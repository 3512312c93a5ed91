"""A policy as an ONNX graph, node by node: no other framework is asked to trace it."""

from __future__ import annotations

from typing import Any

import numpy as np

OPSET, IR = 18, 10


def to_onnx(weights: dict[str, np.ndarray], obs_dtype: str) -> Any:
    """Input `observation` [batch, ...]; outputs `action` (most likely) and `outputs` (scores, or means)."""
    from onnx import TensorProto, checker, helper

    graph = _Graph()
    x = graph.add("Cast", "observation", to=TensorProto.FLOAT)
    if "obs.mean" in weights:
        limit = weights["obs.clip"]
        x = graph.add("Div", graph.add("Sub", x, weights["obs.mean"]), weights["obs.std"])
        x = graph.add("Clip", x, np.asarray(-limit, np.float32), np.asarray(limit, np.float32))
    if "obs.scale" in weights:
        x = graph.add("Mul", x, weights["obs.scale"])
    if "obs.parts" in weights:
        columns = np.concatenate([np.arange(start, stop) for start, stop in weights["obs.parts"]])
        x = graph.add("Gather", x, columns.astype(np.int64), axis=1)
    if "stacks.0.entry.weight" in weights:
        x = _images(graph, weights, x)
    if "convolutions.0.weight" in weights:
        x = _cells(graph, weights, x)
    x = graph.add("Flatten", x, axis=1)
    k = 0
    while f"layers.{k}.weight" in weights:
        x = graph.add("Gemm", x, weights[f"layers.{k}.weight"], weights[f"layers.{k}.bias"])
        x = _activated(graph, str(weights["activation"]), x)
        k += 1
    out = graph.add("Gemm", x, weights["head.weight"], weights["head.bias"], output="outputs")
    numbers = _act(graph, weights, out)
    kind = TensorProto.UINT8 if obs_dtype == "uint8" else TensorProto.FLOAT
    size = int(weights["head.bias"].shape[0])
    acts = TensorProto.FLOAT if "log_std" in weights else TensorProto.INT64
    shown = [
        helper.make_tensor_value_info("action", acts, ["batch", *numbers]),
        helper.make_tensor_value_info("outputs", TensorProto.FLOAT, ["batch", size]),
    ]
    model_input = helper.make_tensor_value_info("observation", kind, ["batch", *map(int, weights["obs.shape"])])
    graph_proto = helper.make_graph(graph.nodes, "policy", [model_input], shown, graph.constants)
    model = helper.make_model(
        graph_proto, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="trimtab"
    )
    checker.check_model(model, full_check=True)
    return model


class _Graph:
    """Nodes and constants as they are added; `add` returns the name of what the node makes."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, *inputs: str | np.ndarray, output: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        output = output or f"{kind.lower()}_{len(self.nodes)}"
        names = [one if isinstance(one, str) else self._constant(one) for one in inputs]
        self.nodes.append(helper.make_node(kind, names, [output], **attributes))
        return output

    def _constant(self, value: np.ndarray) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name


def _activated(graph: _Graph, name: str, x: str) -> str:
    """x after an activation; two are made of others in this set of operators."""
    if name == "silu":
        return graph.add("Mul", x, graph.add("Sigmoid", x))
    if name == "gelu":
        bent = graph.add("Erf", graph.add("Mul", x, np.asarray(0.5**0.5, np.float32)))
        half = graph.add("Mul", x, np.asarray(0.5, np.float32))
        return graph.add("Mul", half, graph.add("Add", bent, np.asarray(1.0, np.float32)))
    return graph.add({"tanh": "Tanh", "relu": "Relu", "elu": "Elu"}[name], x)


def _act(graph: _Graph, weights: dict[str, np.ndarray], out: str) -> list[int]:
    """The most likely action from the network's outputs, named `action`; how many numbers it is, if not one."""
    from onnx import TensorProto

    size = int(weights["head.bias"].shape[0])
    if "log_std" in weights:  # a clip takes numbers, these are vectors
        graph.add("Min", graph.add("Max", out, weights["low"]), weights["high"], output="action")
        return [size]
    if "switches" in weights:
        on = graph.add("Greater", out, np.asarray(0.0, np.float32))
        graph.add("Cast", on, output="action", to=TensorProto.INT64)
        return [size]
    if "choices" not in weights:
        graph.add("ArgMax", out, output="action", axis=-1, keepdims=0)
        return []
    ends = np.cumsum(weights["choices"])
    scores = [graph.add("Gather", out, np.arange(b - n, b), axis=1) for n, b in zip(weights["choices"], ends)]
    graph.add("Concat", *(graph.add("ArgMax", one, axis=-1, keepdims=1) for one in scores), output="action", axis=-1)
    return [len(ends)]


def _cells(graph: _Graph, weights: dict[str, np.ndarray], x: str) -> str:
    """Convolutions without padding, each followed by a relu."""
    x = graph.add("Transpose", x, perm=[0, 3, 1, 2])
    for k, stride in enumerate(map(int, weights["strides"])):
        kernel = np.ascontiguousarray(weights[f"convolutions.{k}.weight"].transpose(3, 2, 0, 1))
        convolution = graph.add("Conv", x, kernel, weights[f"convolutions.{k}.bias"], strides=[stride, stride])
        x = graph.add("Relu", convolution)
    return graph.add("Transpose", x, perm=[0, 2, 3, 1])


def _images(graph: _Graph, weights: dict[str, np.ndarray], x: str) -> str:
    """The convolutional stacks, channels first within, as ONNX wants them."""
    x = graph.add("Transpose", x, perm=[0, 3, 1, 2])
    height, width, _ = map(int, weights["obs.shape"])

    def conv(x: str, name: str) -> str:
        weight, bias = weights[f"{name}.weight"].transpose(3, 2, 0, 1), weights[f"{name}.bias"]
        return graph.add("Conv", x, np.ascontiguousarray(weight), bias, kernel_shape=[3, 3], pads=[1, 1, 1, 1])

    k = 0
    while f"stacks.{k}.entry.weight" in weights:
        pads = [height % 2, width % 2, 1, 1]
        x = graph.add("MaxPool", conv(x, f"stacks.{k}.entry"), kernel_shape=[3, 3], strides=[2, 2], pads=pads)
        height, width = -(-height // 2), -(-width // 2)
        for block in range(2):
            name = f"stacks.{k}.residual.{block}"
            inner = graph.add("Relu", conv(graph.add("Relu", x), f"{name}.0"))
            x = graph.add("Add", x, conv(inner, f"{name}.1"))
        k += 1
    return graph.add("Transpose", graph.add("Relu", x), perm=[0, 2, 3, 1])
