"""A trained policy in NumPy, and nothing else: `act(weights, observation)`.

weights = load("policy.npz")
action = act(weights, observation)                                 # one observation, or a batch of them
action = act(weights, observation, np.random.default_rng(0))       # with the exploration of training
"""

import math

import numpy as np

ERF = np.vectorize(math.erf, otypes=[np.float32])
ACTIVATIONS: dict = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
    "silu": lambda x: x * (0.5 + 0.5 * np.tanh(0.5 * x)),
    "gelu": lambda x: 0.5 * x * (1.0 + ERF(x * np.float32(0.5**0.5))),
}


def load(path):
    """Weights by name."""
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def act(weights, observation, generator=None):
    """The most likely action, or one drawn with `generator`: a whole number, several, or a vector within its box."""
    shape = tuple(weights["obs.shape"])
    observation = np.asarray(observation)
    one = observation.shape == shape
    out = outputs(weights, observation.reshape(-1, *shape))
    if "log_std" in weights:
        if generator is not None:
            out = out + np.exp(weights["log_std"]) * generator.standard_normal(out.shape, np.float32)
        action = np.clip(out, weights["low"], weights["high"])
    elif "switches" in weights:
        action = ((out if generator is None else out + generator.logistic(size=out.shape)) > 0).astype(np.int64)
    else:
        action = _chosen(weights, out if generator is None else out + generator.gumbel(size=out.shape))
    return action[0] if one else action


def _chosen(weights, scores):
    """The choice of the highest score; where there are several choices, of each."""
    if "choices" not in weights:
        return np.argmax(scores, axis=-1)
    each = np.split(scores, np.cumsum(weights["choices"])[:-1], axis=-1)
    return np.stack([np.argmax(one, axis=-1) for one in each], axis=-1)


def outputs(weights, observations):
    """What the network says of each observation: scores of the choices, or means of the actions."""
    x = np.asarray(observations, np.float32)
    if "obs.mean" in weights:
        limit = weights["obs.clip"]
        x = np.clip((x - weights["obs.mean"]) / weights["obs.std"], -limit, limit)
    if "obs.scale" in weights:
        x = x * weights["obs.scale"]
    if "obs.parts" in weights:  # what the policy sees of the vector
        x = np.concatenate([x[:, start:stop] for start, stop in weights["obs.parts"]], axis=1)
    if "stacks.0.entry.weight" in weights:
        x = _images(weights, x)
    if "convolutions.0.weight" in weights:
        x = _cells(weights, x)
    x, k = x.reshape(len(x), -1), 0
    while f"layers.{k}.weight" in weights:
        x = ACTIVATIONS[str(weights["activation"])](x @ weights[f"layers.{k}.weight"] + weights[f"layers.{k}.bias"])
        k += 1
    return x @ weights["head.weight"] + weights["head.bias"]


def _images(weights, x):
    """The convolutional stacks: convolution, pooling, two residual blocks, each."""
    relu, k = ACTIVATIONS["relu"], 0
    conv = lambda x, name: _convolve(x, weights[f"{name}.weight"], weights[f"{name}.bias"])
    while f"stacks.{k}.entry.weight" in weights:
        x = _pool(conv(x, f"stacks.{k}.entry"))
        for block in (f"stacks.{k}.residual.0", f"stacks.{k}.residual.1"):
            x = x + conv(relu(conv(relu(x), f"{block}.0")), f"{block}.1")
        k += 1
    return relu(x)


def _cells(weights, x):
    """Convolutions without padding, each followed by a relu."""
    for k, stride in enumerate(weights["strides"]):
        weight, bias = weights[f"convolutions.{k}.weight"], weights[f"convolutions.{k}.bias"]
        size = weight.shape[0]
        h, w = ((length - size) // stride * stride + 1 for length in x.shape[1:3])
        shifts = ((i, j) for i in range(size) for j in range(size))
        x = sum(x[:, i : i + h : stride, j : j + w : stride] @ weight[i, j] for i, j in shifts) + bias
        x = ACTIVATIONS["relu"](x)
    return x


def _convolve(x, weight, bias):
    """3 × 3, stride 1, zero padding; images as [batch, height, width, channels]."""
    height, width = x.shape[1:3]
    x = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return sum(x[:, i : i + height, j : j + width] @ weight[i, j] for i in range(3) for j in range(3)) + bias


def _pool(x):
    """The largest of 3 × 3, stride 2, odd sizes halved upward."""
    h, w = -(-x.shape[1] // 2), -(-x.shape[2] // 2)
    pad = ((0, 0), (x.shape[1] % 2, 1), (x.shape[2] % 2, 1), (0, 0))
    x = np.pad(x, pad, constant_values=-np.inf)
    return np.max([x[:, i : i + 2 * h - 1 : 2, j : j + 2 * w - 1 : 2] for i in range(3) for j in range(3)], axis=0)


if __name__ == "__main__":
    from pathlib import Path

    policy = load(Path(__file__).with_name("policy.npz"))
    blank = np.zeros(policy["obs.shape"])
    print("action for an observation of zeros:", act(policy, blank))
