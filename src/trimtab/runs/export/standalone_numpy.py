"""A trained policy in NumPy, and nothing else: `act(weights, observation)`.

weights = load("policy.npz")
action = act(weights, observation)                                 # one observation, or a batch of them
action = act(weights, observation, np.random.default_rng(0))       # with the exploration of training
"""

import numpy as np

ACTIVATIONS: dict = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0.0)}


def load(path):
    """Weights by name."""
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def act(weights, observation, generator=None):
    """The most likely action, or one drawn with `generator`: a whole number, or a vector within its box."""
    shape = tuple(weights["obs.shape"])
    observation = np.asarray(observation)
    one = observation.shape == shape
    out = outputs(weights, observation.reshape(-1, *shape))
    if "log_std" in weights:
        if generator is not None:
            out = out + np.exp(weights["log_std"]) * generator.standard_normal(out.shape, np.float32)
        action = np.clip(out, weights["low"], weights["high"])
    else:
        action = np.argmax(out if generator is None else out + generator.gumbel(size=out.shape), axis=-1)
    return action[0] if one else action


def outputs(weights, observations):
    """What the network says of each observation: scores of the choices, or means of the actions."""
    x = np.asarray(observations, np.float32)
    if "obs.mean" in weights:
        limit = weights["obs.clip"]
        x = np.clip((x - weights["obs.mean"]) / weights["obs.std"], -limit, limit)
    if "stacks.0.entry.weight" in weights:
        x = _images(weights, x * weights["obs.scale"])
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
