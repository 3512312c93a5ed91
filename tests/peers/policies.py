"""Small policies, and the slow twin of the meter: one backward pass for each sample."""

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical, Normal


class Dense(nn.Module):
    """With layer normalization, a ReLU in place, and a standard deviation outside of any layer."""

    sample = (3,)

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(3, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, 8, bias=False), nn.ReLU(inplace=True)
        )
        self.mean, self.value = nn.Linear(8, 2), nn.Linear(8, 1)
        self.log_std = nn.Parameter(torch.zeros(1, 2))

    def forward(self, x, a):
        mean = self.mean(self.net(x))
        return Normal(mean, self.log_std.expand_as(mean).exp()).log_prob(a).sum(-1)


class Conv(nn.Module):
    sample = (3, 10, 10)

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, groups=2), nn.GroupNorm(2, 4)),
            *(nn.Flatten(), nn.Linear(4 * 9, 4)),
        )

    def forward(self, x, a):
        return Categorical(logits=self.net(x)).log_prob(a)


class Words(nn.Module):
    """An embedding of the state, as for toy text."""

    sample = ()

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(20, 6), nn.Linear(6, 4)

    def forward(self, x, a):
        return Categorical(logits=self.head(torch.tanh(self.table(x)))).log_prob(a)


class Tokens(nn.Module):
    """Several tokens to a sample: dense layers are applied more than once, and attention joins the tokens."""

    sample = (5, 3)

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x, a):
        h = self.inner(x)
        h = h + self.attention(h, h, h, need_weights=False)[0]
        return Categorical(logits=self.head(h.mean(1))).log_prob(a)


class Recurrent(nn.Module):
    """`[T, N, ...]`: samples of a row depend on each other."""

    sample, kind = (3,), nn.LSTM

    def __init__(self):
        super().__init__()
        self.enc, self.rnn, self.head = nn.Linear(3, 6), self.kind(6, 5, num_layers=2), nn.Linear(5, 2)
        self.log_std = nn.Parameter(torch.zeros(2))

    def forward(self, x, a):
        h, _ = self.rnn(torch.tanh(self.enc(x)))
        return Normal(self.head(h), self.log_std.exp()).log_prob(a).sum(-1)


class Seeing(Recurrent):
    """Convolutions below a recurrent layer."""

    sample = (1, 6, 6)

    def __init__(self):
        super().__init__()
        self.eyes = nn.Conv2d(1, 3, 6)

    def forward(self, x, a):
        seen = torch.tanh(self.eyes(x.flatten(0, 1))).view(*x.shape[:2], 3)
        return super().forward(seen, a)


class Gated(Recurrent):
    kind = nn.GRU


def batch(module, num_steps, num_envs):
    """Observations, actions and advantages `[T, N, ...]`."""
    shape = (num_steps, num_envs)
    x = torch.randint(0, 20, shape) if isinstance(module, Words) else torch.randn(*shape, *module.sample)
    discrete = isinstance(module, Conv | Words | Tokens)
    a = torch.randint(0, 4, shape) if discrete else torch.randn(*shape, 2)
    return x, a, torch.randn(*shape)


def log_probabilities(module, x, a):
    """`[T, N]`, of flat batches where samples are independent."""
    if isinstance(module, Recurrent):
        return module(x, a)
    return module(x.flatten(0, 1), a.flatten(0, 1)).view(x.shape[:2])


def twin(module, logprob, advantages) -> np.ndarray:
    """`[rows, T, P]`: the gradient of every sample, one backward pass each."""
    parameters = [p for p in module.parameters() if p.requires_grad]

    def gradient(t, n):
        found = torch.autograd.grad(logprob[t, n] * advantages[t, n], parameters, retain_graph=True, allow_unused=True)
        parts = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found)]
        return torch.cat([part.flatten() for part in parts])

    num_steps, num_envs = logprob.shape
    rows = [torch.stack([gradient(t, n) for t in range(num_steps)]) for n in range(num_envs)]
    return torch.stack(rows).numpy()
