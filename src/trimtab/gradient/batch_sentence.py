"""What a batch is worth, in one sentence: effective samples, batch against noise scale, and what doubling it buys.

With x = Var(G_B) / |G|² the expected progress of a step of the best size is in proportion to 1 / (1 + x). A batch that
has ρ times the variance therefore makes (1 + x) / (1 + ρ x) of the progress per step.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.core.estimate import UNRESOLVED, Estimate


@dataclass(frozen=True)
class BatchWorth:
    """A batch of N environments × T steps and what was measured of its gradient.

    Attributes:
        num_envs: N.
        num_steps: T.
        ess: effective samples.
        noise_scale: in samples, with the correlation along rows, at this N and T.
        envs_ratio: variance with twice the environments, over the variance now; 1/2 where rows are independent.
        steps_ratio: the same with twice the steps; None: unknown.
    """

    num_envs: int
    num_steps: int
    ess: Estimate
    noise_scale: Estimate
    envs_ratio: float = 0.5
    steps_ratio: float | None = None

    @property
    def batch(self) -> int:
        return self.num_envs * self.num_steps

    def progress(self, ratio: float) -> Estimate:
        """Progress of a step with `ratio` times the variance, over that of a step now.

        Args:
            ratio: of the variances.

        Returns:
            (1 + x) / (1 + ρ x), unresolved where the noise scale is.
        """
        if not self.noise_scale.resolved:
            return UNRESOLVED
        gain = lambda scale: (1 + scale / self.batch) / (1 + ratio * scale / self.batch)
        ends = sorted(gain(end) for end in (self.noise_scale.lo, self.noise_scale.hi))
        return Estimate(gain(self.noise_scale.value), *ends)

    @property
    def short(self) -> str:
        """The answer in a few words."""
        if not self.ess.resolved:
            return "Effective samples are inconclusive"
        return f"{self.batch:,} samples are worth {_ranged(self.ess, ',')} independent ones"

    @property
    def sentence(self) -> str:
        """The answer in words."""
        head = f"Your batch of {self.batch:,} ({self.num_envs} × {self.num_steps}) is worth {self._worth}"
        if not self.noise_scale.resolved:
            return f"{head}; its size against the noise scale is inconclusive: measure more rows."
        share = Estimate(
            self.batch / self.noise_scale.value, self.batch / self.noise_scale.hi, self.batch / self.noise_scale.lo
        )
        text = f"{head} and is {_ranged(share, '.2g')} times the noise scale: doubling the environments would "
        text += self._doubling(self.envs_ratio)
        if self.steps_ratio is not None:
            text += f"; doubling the steps would {self._doubling(self.steps_ratio)}"
        return f"{text}."

    @property
    def _worth(self) -> str:
        if not self.ess.resolved:
            return "an unknown number of independent samples (inconclusive)"
        return f"{_ranged(self.ess, ',')} independent samples"

    def _doubling(self, ratio: float) -> str:
        gain = self.progress(ratio)
        percent = Estimate(100 * (gain.value - 1), 100 * (gain.lo - 1), 100 * (gain.hi - 1))
        variance = "halve the variance" if abs(ratio - 0.5) < 0.02 else f"change the variance by {ratio - 1:+.0%}"
        return f"{variance} and raise the progress of a step by about {_ranged(percent, '.0f', '%')}"


def _ranged(estimate: Estimate, form: str, unit: str = "") -> str:
    """1,500 (1,300 to 1,700)."""
    write = (lambda x: f"{float(f'{x:.3g}'):,.0f}") if form == "," else (lambda x: format(x, form))
    return f"{write(estimate.value)}{unit} ({write(estimate.lo)} to {write(estimate.hi)})"
