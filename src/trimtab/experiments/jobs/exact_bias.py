"""Bias of finite-T, λ estimators on finite MDPs, computed instead of sampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from trimtab.config import Config
from trimtab.studies.job import JobContext, OfRun, register

LONGEST = 16  # steps of rows that are followed step by step, to compare with independent draws


@register
@dataclass(frozen=True)
class ExactBias(OfRun):
    """Squared bias of the batch gradient at checkpoints of a run on a finite MDP, for every T and λ."""

    kind: ClassVar[str] = "exact-bias"
    at: tuple[int, ...]
    num_steps: tuple[int, ...]
    gae_lambda: tuple[float, ...] = (0.95,)

    @property
    def steps(self) -> int:
        return 0

    @property
    def label(self) -> str:
        return f"{self.config.env_id} seed {self.config.seed}"

    def do(self, context: JobContext) -> dict[str, Any]:
        import polars as pl

        from trimtab.training.opening import opened
        from trimtab.training.records import write_parquet

        rows = []
        for step in self.at:
            config, engine, state, _ = opened(context.inputs[self.run.identity], step, context.engines)
            rows += [row | {"step": step} for row in self._at(config, engine.algorithm, state)]
            engine.close()
        write_parquet(context.place / "exact.parquet", pl.DataFrame(rows))
        return {"rows": len(rows)}

    def _at(self, config: Config, algorithm: Any, state: Any) -> list[dict[str, Any]]:
        """bias², |G_T|² and how far the expectation along rows is from that of independent draws, by T and λ."""
        from trimtab.gradient import exact
        from trimtab.training.algorithm import hypers_of

        env = algorithm.env
        obs = algorithm.normalized_obs(state.obs_stats, env.state_obs(), hypers_of(config))
        policy, score = exact.policy_tables(algorithm.agent, state.params, obs)
        critic = exact.critic_table(algorithm, state, obs)
        p = exact.problem(env.mdp, policy, config.gamma, env.spec.time_limit)
        true, rows = exact.true_gradient(p, score), []
        for gae_lambda in self.gae_lambda:
            for num_steps in self.num_steps:
                expected = exact.expected_gradient(p, score, critic, gae_lambda, num_steps)
                gap = None
                if num_steps <= LONGEST:
                    along = exact.expected_gradient_along_rows(p, score, critic, gae_lambda, num_steps)
                    gap = float((along - expected) @ (along - expected))
                rows.append(
                    {
                        "num_steps": num_steps,
                        "gae_lambda": gae_lambda,
                        "bias_sq": float((expected - true) @ (expected - true)),
                        "true_grad_sq": float(true @ true),
                        "row_gap_sq": gap,
                    }
                )
        return rows
