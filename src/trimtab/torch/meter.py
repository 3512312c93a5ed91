"""The gradient meter: takes a batch of any PyTorch loop before its update, and says what the batch is worth."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.gradient.bootstrap import MIN_ROWS, bootstrap_weights, resample, studentized
from trimtab.gradient.meter_report import LagCosine, MeterReport
from trimtab.gradient.streams import WINDOW, IterationStream
from trimtab.gradient.variance import summed_gram_statistics
from trimtab.torch.batch_layout import Layout
from trimtab.torch.layer_gradients import BUDGET
from trimtab.torch.meter_errors import MeterError
from trimtab.torch.recording import Recorder
from trimtab.torch.sample_products import Iteration, cosine_sums, measure

LAGS = (1, 2, 5, 10, 20, 40)
MAX_ROWS = 128  # of an iteration; more are a random choice of so many
REPORT_EVERY = 16  # measurements
POSITIONS = 8  # steps whose gradients are taken one by one where samples of a row depend on each other


class Meter:
    """Measures the policy gradient of a training loop; parameters, `.grad` and random state stay as they are."""

    def __init__(
        self,
        module: nn.Module,
        rows: int,
        *,
        order: str = "time",
        window: int = WINDOW,
        lags: Sequence[int] = LAGS,
        max_rows: int = MAX_ROWS,
        positions: int = POSITIONS,
        in_sequence: bool | None = None,
        minibatch_size: int | None = None,
        num_envs: int | None = None,
        memory: int = 4 * BUDGET,
        seed: int = 0,
    ):
        """
        Args:
            module: the policy: every parameter that log-probabilities depend on is in it.
            rows: num_envs; a row is the samples of one environment in one iteration.
            order: of flat batches: "time", sample (t, n) at t N + n, as CleanRL; "rows", at n T + t, as SB3.
            window: iterations over which estimates are averaged.
            lags: of cosines.
            max_rows: most rows of an iteration that are measured, a random choice of them.
            positions: where samples of a row depend on each other (recurrent policies): steps per iteration whose
                gradients are measured one by one.
            in_sequence: whether samples of a row depend on each other; by default, whether the module has recurrent
                or attention layers.
            minibatch_size: samples of a gradient step, to compare with the noise scale.
            num_envs: environments of the training batch, where `add` gets the rows of some of them only.
            memory: bytes to hold at once on the module's device, beside the graph of the forward pass; layers whose
                gradients are not outer products (convolutions, normalization) also keep those of the last steps, as
                many as the largest lag.
            seed: of the choices of rows and steps; PyTorch's and NumPy's global generators are not used.
        """
        if rows < 1 or order not in ("time", "rows"):
            raise MeterError(f'rows={rows}, order={order!r}: rows must be at least 1 and order "time" or "rows"')
        self._recorder = Recorder(module)
        self._rows, self._by_time, self._max_rows = rows, order == "time", max(2, max_rows)
        self._lags, self._positions = tuple(sorted(lags)), positions
        self._in_sequence = self._recorder.in_sequence if in_sequence is None else in_sequence
        self._budget, self._minibatch = max(1, memory // 4), minibatch_size
        self._num_envs = num_envs or rows
        self._rng = np.random.default_rng(seed)
        self._stream, self._cosines = IterationStream(window), deque[np.ndarray](maxlen=window)
        self._num_steps, self._step, self._count = 0, 0, 0

    def __len__(self) -> int:
        return len(self._cosines)

    @property
    def is_report_due(self) -> bool:
        """Whether an adapter should report now; intervals take a tenth of a second, so not after every batch."""
        return self._count in (4, 8) or (self._count > 0 and self._count % REPORT_EVERY == 0)

    @property
    def module(self) -> nn.Module:
        """The policy, without wrappers."""
        return self._recorder.module

    def close(self) -> None:
        """Remove the hooks from the module; `recording` adds them for a while."""
        self._recorder.close()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Hooks for the forward pass and `add` inside, where they are not there all the time; random state is kept."""
        was_open = self._recorder.is_open
        self._recorder.open()
        try:
            with untouched(self.module):
                yield
        finally:
            if not was_open:
                self.close()

    def add(
        self,
        logprob: Tensor,
        advantages: Tensor,
        *,
        episode_starts: Tensor | np.ndarray | None = None,
        step: int | None = None,
    ) -> None:
        """Measure the batch of an iteration, before the update.

        Args:
            logprob: `[T, N]`, or flat in the meter's order: log-probabilities of the actions taken, computed with
                gradients enabled from the parameters that took them.
            advantages: the same shape.
            episode_starts: the same shape, true at the first sample of an episode; cosines leave out pairs across.
            step: environment steps so far; counted if not given.
        """
        layout = self._layout(logprob, advantages)
        lags = () if self._in_sequence else tuple(k for k in self._lags if k < layout.steps)
        count = min(self._positions, layout.steps) if self._in_sequence else 0
        positions = sorted(self._rng.choice(layout.steps, count, replace=False).tolist())
        device = logprob.device.type
        with torch.enable_grad(), torch.autocast(device, enabled=False):
            found = measure(self._recorder, layout, logprob, advantages, lags, positions, self._budget)
        self._keep(layout, found, lags, episode_starts)
        self._count += 1
        self._step = self._step + self._num_envs * layout.steps if step is None else step

    def _layout(self, logprob: Tensor, advantages: Tensor) -> Layout:
        """Rows and steps of a batch; a random choice of rows if there are many."""
        if logprob.numel() != advantages.numel():
            raise MeterError(f"advantages: {advantages.numel()} given, but {logprob.numel()} log-probabilities")
        if not logprob.requires_grad:
            raise MeterError("logprob: has no graph; compute it with gradients enabled, outside of torch.no_grad()")
        steps, rest = divmod(logprob.numel(), self._rows)
        if rest or not steps:
            raise MeterError(f"logprob: {logprob.numel()} samples are not a multiple of rows={self._rows}")
        if not bool(torch.isfinite(advantages).all()):
            raise MeterError("advantages: not all numbers are finite")
        if self._rows < 2:
            raise MeterError("rows: 1 given; a variance between rows needs at least 1 more row (num_envs of 2 or more)")
        chosen = None
        if self._rows > self._max_rows:
            picked = np.sort(self._rng.choice(self._rows, self._max_rows, replace=False))
            chosen = torch.as_tensor(picked, device=logprob.device)
        return Layout(self._rows, steps, self._by_time, self._in_sequence, chosen)

    def _keep(self, layout: Layout, found: Iteration, lags: Sequence[int], episode_starts) -> None:
        rows, positions = (value.cpu().numpy() for value in (found.inner.rows, found.inner.positions))
        if not (np.isfinite(rows).all() and np.isfinite(positions).all()):
            raise MeterError("logprob: gradients are not finite")
        if self._num_steps != layout.steps:  # another split: earlier iterations say nothing of it
            self._cosines.clear()
            self._stream = IterationStream(self._cosines.maxlen or WINDOW)
        self._num_steps = layout.steps
        self._stream.add_statistics(summed_gram_statistics(rows, positions, layout.steps))
        cosines = np.full((found.rows, len(self._lags)), np.nan)
        if lags:
            mean_sq = float(found.mean.double().square().sum())
            cosines[:, : len(lags)] = cosine_sums(found.inner, mean_sq, _episodes(layout, episode_starts), lags)
        self._cosines.append(cosines)

    def report(self) -> MeterReport:
        """What the iterations of the window say.

        Returns:
            Means over the window; raises MeterError before the first `add`.
        """
        if not self._cosines:
            raise MeterError("add: no batch was measured yet")
        pooled = self._stream.pooled()
        parts, noise = pooled.decompose(self._num_envs), pooled.noise_scale()
        return MeterReport(
            step=self._step,
            num_envs=self._num_envs,
            num_steps=self._num_steps,
            iterations=len(self._cosines),
            rows=pooled.statistics.num_rows,
            variance=parts.variance,
            individual=parts.individual,
            covariance=parts.covariance,
            ess=parts.ess,
            grad_sq=parts.grad_sq,
            noise_scale=noise.simple,
            noise_scale_trajectory=noise.trajectory,
            noise_scale_environments=noise.environments,
            cosines=self._lag_cosines(),
            minibatch_size=self._minibatch,
            notes=tuple(self._notes()),
        )

    def _lag_cosines(self) -> tuple[LagCosine, ...]:
        """Means over rows with bootstrap-t intervals."""
        values = np.concatenate(list(self._cosines))
        return tuple(
            LagCosine(lag, _mean(values[:, k]))
            for k, lag in enumerate(self._lags)
            if lag < self._num_steps and not self._in_sequence
        )

    def _notes(self) -> Iterator[str]:
        yield "between rows: unknown, for the policy changes between iterations; the variance leaves it out"
        if self._rows > self._max_rows:
            yield f"measured on {self._max_rows} of {self._rows} rows, chosen at random in each iteration"
        if self._in_sequence:
            used = min(self._positions, self._num_steps)
            yield f"individual: from {used} of {self._num_steps} steps of each iteration"


def _episodes(layout: Layout, starts: Tensor | np.ndarray | None) -> np.ndarray | None:
    """`[rows, T]` numbers of episodes."""
    if starts is None:
        return None
    numbers = np.cumsum(layout.matrix(torch.as_tensor(starts).detach().cpu()).numpy().astype(bool), axis=1)
    return numbers if layout.chosen is None else numbers[layout.chosen.cpu().numpy()]


def _mean(values: np.ndarray) -> Estimate:
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return UNRESOLVED
    columns = resample(values[:, None], bootstrap_weights(len(values), 0))
    lo, hi = studentized(*columns)
    return Estimate(float(columns.mean[0]), float(lo[0]), float(hi[0]), len(values) >= MIN_ROWS)


@contextmanager
def untouched(module: nn.Module) -> Iterator[None]:
    """Leave PyTorch's random state, the training mode of modules and `.grad` as they were.

    Args:
        module: whose forward pass runs inside.
    """
    devices = sorted({p.device.index or 0 for p in module.parameters() if p.device.type == "cuda"})
    modes = [(part, part.training) for part in module.modules()]
    with torch.random.fork_rng(devices):
        try:
            yield
        finally:
            for part, training in modes:
                part.training = training
