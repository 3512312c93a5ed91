"""The meter against a twin that takes one backward pass for each sample, and what it must leave alone."""

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import trimtab.torch
from peers.policies import Conv, Dense, Gated, Recurrent, Seeing, Tokens, Words, batch, log_probabilities, twin
from trimtab.anatomy import IterationStream, cosine_correlation, gram_matrix
from trimtab.torch import Meter, MeterError

T, N = 12, 4
TERMS = ("variance", "individual", "covariance", "grad_sq")


def meter_cosines(report):
    return [each.cosine.value for each in report.cosines]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("policy", [Dense, Conv, Words, Tokens, Recurrent, Gated, Seeing])
def test_terms_agree_with_one_backward_pass_for_each_sample(policy, dtype):
    torch.set_default_dtype(dtype)
    module = policy()
    in_sequence = False if policy is Tokens else None  # its attention stays within a sample
    meter, stream = Meter(module, rows=N, positions=T, in_sequence=in_sequence), IterationStream()
    for _ in range(3):
        x, a, advantages = batch(module, T, N)
        logprob = log_probabilities(module, x, a)
        meter.add(logprob, advantages)
        stream.add(twin(module, logprob, advantages))
    found, wanted = meter.report(), stream.pooled().decompose()
    for name in TERMS:
        scale = wanted.variance.value
        assert getattr(found, name).value == pytest.approx(getattr(wanted, name).value, abs=1e-5 * scale), name
        if np.isfinite(getattr(wanted, name).lo):
            assert getattr(found, name).lo == pytest.approx(getattr(wanted, name).lo, abs=1e-4 * scale), name


def test_cosines_are_those_of_the_gram_matrix():
    module = Dense()
    x, a, advantages = batch(module, T, N)
    starts = torch.zeros(T, N)
    starts[7, 1] = starts[3, 2] = 1
    meter = Meter(module, rows=N, lags=(1, 2, 5))
    logprob = log_probabilities(module, x, a)
    meter.add(logprob, advantages, episode_starts=starts)
    episodes = np.cumsum(starts.numpy().T, axis=1)
    cosines = cosine_correlation(gram_matrix(twin(module, logprob, advantages)), episodes).lags
    rows = meter._cosines[0]
    pairs = np.array([[np.sum(row[k:] == row[:-k]) for k in (1, 2, 5)] for row in episodes])
    mean = np.nansum(rows * pairs, axis=0) / pairs.sum(axis=0)
    assert mean == pytest.approx([cosines[k - 1].mean for k in (1, 2, 5)], abs=1e-5)


def test_little_memory_gives_the_same_numbers():
    module = Conv()
    x, a, advantages = batch(module, T, N)
    reports = []
    for memory in (1 << 30, 1 << 18, 1 << 10):
        meter = Meter(module, rows=N, memory=memory)
        meter.add(log_probabilities(module, x, a), advantages)
        reports.append(meter.report())
    for place in (1, 2):
        assert meter_cosines(reports[0]) == pytest.approx(meter_cosines(reports[place]), abs=1e-5)
    for name in TERMS:
        assert getattr(reports[0], name).value == pytest.approx(getattr(reports[1], name).value, rel=1e-4)


def test_rows_of_some_environments_measure_the_batch_of_all():
    module = Dense()
    x, a, advantages = batch(module, T, N)
    part, whole = Meter(module, rows=N, num_envs=8 * N), Meter(module, rows=N)
    for meter in (part, whole):
        meter.add(module(x, a), advantages)
    found, wanted = part.report(), whole.report()
    assert found.variance.value == pytest.approx(wanted.variance.value / 8) and found.num_envs == 8 * N
    assert found.ess.value == pytest.approx(8 * wanted.ess.value) and found.step == 8 * wanted.step


@pytest.mark.parametrize("order", ["time", "rows"])
def test_flat_batches_in_either_order(order):
    module = Dense()
    x, a, advantages = batch(module, T, N)
    arrange = (lambda v: v.flatten(0, 1)) if order == "time" else (lambda v: v.transpose(0, 1).flatten(0, 1))
    flat, square = Meter(module, rows=N, order=order), Meter(module, rows=N)
    flat.add(module(arrange(x), arrange(a)), arrange(advantages))
    square.add(module(x, a), advantages)
    assert flat.report().covariance.value == pytest.approx(square.report().covariance.value, rel=1e-4)


def test_a_choice_of_rows_estimates_the_same_variance():
    module = Dense()
    x, a, advantages = batch(module, 4, 256)
    part, whole = Meter(module, rows=256, max_rows=128), Meter(module, rows=256, max_rows=256)
    for meter in (part, whole):
        meter.add(log_probabilities(module, x, a), advantages)
    found, wanted = part.report(), whole.report()
    assert found.rows == 128 and any("128 of 256 rows" in note for note in found.notes)
    assert found.variance.lo < wanted.variance.value < found.variance.hi


def test_some_steps_of_a_recurrent_policy_estimate_the_individual_term():
    module = Recurrent()
    some, all_ = Meter(module, rows=N, positions=4), Meter(module, rows=N, positions=T)
    for _ in range(20):
        x, a, advantages = batch(module, T, N)
        for meter in (some, all_):
            meter.add(log_probabilities(module, x, a), advantages)
    found, wanted = some.report(), all_.report()
    assert found.variance == wanted.variance
    assert found.individual.lo < wanted.individual.value < found.individual.hi
    assert found.individual.value != wanted.individual.value


def test_parameters_gradients_and_random_state_stay():
    module = Dense()
    x, a, advantages = batch(module, T, N)
    module(x, a).mean().backward()
    before = (
        [copy.deepcopy(p) for p in module.parameters()],
        [p.grad.clone() for p in module.parameters() if p.grad is not None],
    )
    meter = Meter(module, rows=N)
    logprob = log_probabilities(module, x, a)
    state = torch.get_rng_state(), np.random.get_state()[1].copy()
    meter.add(logprob, advantages)
    meter.report()
    assert torch.equal(torch.get_rng_state(), state[0]) and np.array_equal(np.random.get_state()[1], state[1])
    assert all(torch.equal(p, q) for p, q in zip(module.parameters(), before[0]))
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    assert len(grads) == len(before[1]) and all(torch.equal(p, q) for p, q in zip(grads, before[1]))
    logprob.sum().backward()  # the graph is still there


def test_hooks_change_no_bit_of_training_and_keep_nothing():
    """Also where an input is changed in place, and with an optimizer."""
    states = []
    for metered in (False, True):
        torch.manual_seed(1)
        module = Dense()
        meter = Meter(module, rows=N) if metered else None
        optimizer = torch.optim.Adam(module.parameters())
        x, a, advantages = batch(module, T, N)
        for _ in range(5):
            if meter is not None:
                meter.add(module(x, a), advantages)
            loss = -(module(x, a) * advantages).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        states.append(module.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert meter._recorder._calls is None


def test_closed_meters_leave_no_hooks():
    module = Dense()
    meter = Meter(module, rows=N)
    meter.close()
    assert not any(part._forward_hooks for part in module.modules())
    with meter.recording():
        assert any(part._forward_hooks for part in module.modules())
        torch.rand(3)
    assert not any(part._forward_hooks for part in module.modules())


def test_mixed_precision_in_bfloat16():
    module = Dense()
    x, a, advantages = batch(module, T, 64)
    exact, mixed = Meter(module, rows=64), Meter(module, rows=64)
    exact.add(module(x, a), advantages)
    with torch.autocast("cpu", torch.bfloat16):
        logprob = module(x, a)
    mixed.add(logprob, advantages)
    assert mixed.report().variance.value == pytest.approx(exact.report().variance.value, rel=0.02)


def test_compiled_modules():
    """Uncompiled calls of the module inside are measured; calls of the compiled one are refused in one line."""
    module = Dense()
    compiled = torch.compile(module, backend="eager")
    x, a, advantages = batch(module, T, N)
    meter = Meter(compiled, rows=N)
    assert meter.module is module
    meter.add(module(x, a), advantages)
    with pytest.raises(MeterError, match=r"torch\.compile"):
        meter.add(compiled(x, a), advantages)
    assert meter.report().iterations == 1


def test_distributed_data_parallel(tmp_path):
    """The module inside is measured, and the reduction of gradients goes on."""
    code = f"""
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from peers.policies import Dense, batch
from trimtab.torch import Meter
dist.init_process_group("gloo", init_method="file://{tmp_path}/store", rank=0, world_size=1)
module = Dense()
wrapped = DistributedDataParallel(module, find_unused_parameters=True)
x, a, advantages = batch(module, {T}, {N})
meter = Meter(wrapped, rows={N})
for _ in range(3):
    meter.add(module(x, a), advantages)
    wrapped(x, a).mean().backward()
assert meter.report().rows == {3 * N}
assert module.mean.weight.grad is not None
dist.destroy_process_group()
print("done")
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said.stdout.endswith("done\n"), said.stderr


class Shared(nn.Module):
    """Uses a weight twice, once outside of its layer."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        return nn.functional.linear(self.inner(x).tanh(), self.inner.weight).sum(-1)


class Normalized(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))

    def forward(self, x):
        return self.net(x.flatten(0, 1)).view(x.shape[:2])


class Large(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.other = nn.Parameter(torch.randn(3, 300)), nn.Linear(3, 1)

    def forward(self, x):
        return (x @ self.table).sum(-1) + self.other(x)[..., 0]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Meter(Shared(), N), r"inner.weight, inner.bias: .* shared"),
        (lambda: Meter(Large(), N), "table: 900 numbers are used outside"),
        (lambda: Meter(Normalized(), N), "BatchNorm1d in training mode"),
        (lambda: Meter(nn.Linear(3, 1), 1), "1 more row"),
        (lambda: Meter(nn.Linear(3, 1), 5), "not a multiple of rows=5"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(make, says):
    x = torch.randn(T, N, 3)
    with pytest.raises(MeterError, match=says) as refused:
        meter = make()
        logprob = meter.module(x)
        meter.add(logprob.view(T, N), torch.randn(T, N))
    assert "\n" not in str(refused.value)


def test_other_refusals():
    module = Dense()
    x, a, advantages = batch(module, T, N)
    meter = Meter(module, rows=N)
    with torch.no_grad():
        logprob = module(x, a)
    with pytest.raises(MeterError, match="no graph"):
        meter.add(logprob, advantages)
    with pytest.raises(MeterError, match="advantages: 4 given"):
        meter.add(module(x, a), advantages[0])
    with pytest.raises(MeterError, match="finite"):
        meter.add(module(x, a), advantages * torch.inf)
    with pytest.raises(MeterError, match="no batch"):
        meter.report()
    with pytest.raises(MeterError, match="does not depend"):
        meter.add((torch.randn(T, N, requires_grad=True) * 2), advantages)


def test_few_rows_say_how_many_more_are_needed():
    module = Dense()
    x, a, advantages = batch(module, T, 2)
    meter = Meter(module, rows=2)
    meter.add(module(x, a), advantages)
    report = meter.report()
    assert report.rows_needed == 6 and not report.variance.resolved and "needs about 6 more rows" in report.sentence


def test_nothing_imports_jax():
    code = "import sys, trimtab.torch as t; [getattr(t, n) for n in t.__all__]; assert 'jax' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
    assert set(trimtab.torch.__all__) <= set(dir(trimtab.torch))
