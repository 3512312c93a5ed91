"""Variance of REINFORCE's episode gradients on finite MDPs, computed: whole returns, reward to go, baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from trimtab.config import Config
from trimtab.studies.job import JobContext, OfRun, register


@register
@dataclass(frozen=True)
class EpisodicVariance(OfRun):
    """Tr Cov of one episode's gradient at checkpoints of a run, by estimator; the learned baseline is the run's own."""

    kind: ClassVar[str] = "episodic-variance"
    at: tuple[int, ...]

    @property
    def steps(self) -> int:
        return 0

    @property
    def label(self) -> str:
        return f"{self.config.env_id} seed {self.config.seed}"

    def do(self, context: JobContext) -> dict[str, Any]:
        from trimtab.training.opening import opened

        rows = []
        for step in self.at:
            config, engine, state, _ = opened(context.inputs[self.run.identity], step, context.engines)
            rows += [{"step": step} | row for row in variances(config, engine.algorithm, state)]
            engine.close()
        return {"found": rows}


def variances(config: Config, algorithm: Any, state: Any) -> list[dict[str, Any]]:
    """Every estimator's variance and |mean|²; all have the same mean."""
    from trimtab.gradient import exact, exact_episodes
    from trimtab.training.algorithm import hypers_of

    env = algorithm.env
    obs = algorithm.normalized_obs(state.obs_stats, env.state_obs(), hypers_of(config))
    policy, score = exact.policy_tables(algorithm.agent, state.params, obs)
    problem = (env.mdp, policy, score, config.gamma, env.spec.time_limit)
    best = exact_episodes.visited_returns(env.mdp, policy, config.gamma, env.spec.time_limit)
    estimators = {
        "whole return": exact_episodes.whole_return(*problem),
        "reward to go": exact_episodes.reward_to_go(*problem),
        "learned baseline": exact_episodes.reward_to_go(*problem, exact.critic_table(algorithm, state, obs)),
        "mean returns as baseline": exact_episodes.reward_to_go(*problem, best),
    }
    return [
        {"estimator": name, "variance": e.variance, "grad_sq": float(e.mean @ e.mean)} for name, e in estimators.items()
    ]
