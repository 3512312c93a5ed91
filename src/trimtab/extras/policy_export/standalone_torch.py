"""A trained policy as a PyTorch module (pip install torch safetensors): `Policy.load(path)`.

`policy(observations)` gives the scores of the choices (logits) or the means of the actions and trains as any module
does; `policy.act(observations)` gives the most likely actions. Observations come in batches, images as
[batch, height, width, channels].
"""

import json

import torch
from safetensors.torch import load_file
from torch import nn


class Stack(nn.Module):
    """Convolution, pooling and two residual blocks."""

    def __init__(self, inputs, outputs):
        super().__init__()
        conv = lambda inputs: nn.Conv2d(inputs, outputs, 3, padding=1)
        self.entry = conv(inputs)
        self.residual = nn.ModuleList(nn.ModuleList([conv(outputs), conv(outputs)]) for _ in range(2))

    def forward(self, x):
        x = self.entry(x)
        pad = (x.shape[3] % 2, 1, x.shape[2] % 2, 1)
        x = nn.functional.max_pool2d(nn.functional.pad(x, pad, value=-torch.inf), 3, 2)
        for first, second in self.residual:
            x = x + second(torch.relu(first(torch.relu(x))))
        return x


ACTIVATIONS = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "elu": nn.functional.elu,
    "silu": nn.functional.silu,
    "gelu": nn.functional.gelu,
}


class Policy(nn.Module):
    """Normalized observations, convolutions if they are images, dense layers, the head."""

    def __init__(self, weights, about):
        super().__init__()
        stacks = sum(name.endswith("entry.weight") for name in weights)
        layers = sum(name.startswith("layers.") and name.endswith(".weight") for name in weights)
        entries = [weights[f"stacks.{k}.entry.weight"].shape for k in range(stacks)]
        dense = [weights[f"layers.{k}.weight"].shape for k in range(layers)]
        self.strides = json.loads(about.get("strides", "[]"))
        kernels = [weights[f"convolutions.{k}.weight"].shape for k in range(len(self.strides))]
        self.stacks = nn.ModuleList(Stack(shape[1], shape[0]) for shape in entries)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(shape[1], shape[0], shape[2], stride) for shape, stride in zip(kernels, self.strides)
        )
        self.layers = nn.ModuleList(nn.Linear(shape[1], shape[0]) for shape in dense)
        self.head = nn.Linear(weights["head.weight"].shape[1], weights["head.weight"].shape[0])
        for name in ("obs_mean", "obs_std", "obs_clip", "obs_scale", "low", "high"):
            self.register_buffer(name, torch.empty_like(weights[name]) if name in weights else None)
        self.log_std = nn.Parameter(torch.empty_like(weights["log_std"])) if "log_std" in weights else None
        self.activation = ACTIVATIONS[about["activation"]]
        self.parts, self.choices = json.loads(about.get("obs_parts", "[]")), json.loads(about.get("choices", "[]"))
        self.switches = "switches" in about

    @classmethod
    def load(cls, path):
        """The policy of a file, which says in its header what it is."""
        from safetensors import safe_open

        weights = load_file(path)
        with safe_open(path, "pt") as file:
            policy = cls(weights, file.metadata())
        policy.load_state_dict(weights)
        return policy.eval()

    def forward(self, observations):
        x = observations.to(torch.float32)
        if self.obs_mean is not None:
            x = ((x - self.obs_mean) / self.obs_std).clamp(-self.obs_clip, self.obs_clip)
        if self.obs_scale is not None:
            x = x * self.obs_scale
        if self.parts:  # what the policy sees of the vector
            x = torch.cat([x[:, start:stop] for start, stop in self.parts], 1)
        if len(self.stacks) or len(self.convolutions):
            x = x.permute(0, 3, 1, 2)
            for stack in self.stacks:
                x = stack(x)
            for convolution in self.convolutions:
                x = torch.relu(convolution(x))
            x = torch.relu(x).permute(0, 2, 3, 1)
        x = x.flatten(1)
        for layer in self.layers:
            x = self.activation(layer(x))
        return self.head(x)

    def act(self, observations):
        with torch.no_grad():
            outputs = self(observations)
        if self.switches:
            return (outputs > 0).long()
        if self.choices:
            return torch.stack([one.argmax(-1) for one in outputs.split(self.choices, -1)], -1)
        if self.log_std is None:
            return outputs.argmax(-1)
        return torch.minimum(torch.maximum(outputs, self.low), self.high)


if __name__ == "__main__":
    from pathlib import Path

    policy = Policy.load(Path(__file__).with_name("policy.safetensors"))
    print(policy)
