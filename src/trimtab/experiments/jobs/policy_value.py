"""What a trained policy is worth: episodes with exploration off, or exactly, on a finite MDP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from trimtab.studies.job import JobContext, OfRun, register


@register
@dataclass(frozen=True)
class Evaluation(OfRun):
    """Mean return of episodes with exploration off."""

    kind: ClassVar[str] = "evaluation"
    episodes: int = 20

    @property
    def steps(self) -> int:
        return 200 * self.episodes

    def do(self, context: JobContext) -> dict[str, Any]:
        from trimtab.training.evaluation import evaluate_run

        return {"value": evaluate_run(context.inputs[self.run.identity], self.episodes)["eval/mean_reward"]}


@register
@dataclass(frozen=True)
class GreedyValue(OfRun):
    """Discounted value of the greedy policy from the start, solved on the MDP (no time limit)."""

    kind: ClassVar[str] = "greedy-value"
    steps: ClassVar[int] = 1

    def do(self, context: JobContext) -> dict[str, Any]:
        import numpy as np

        from trimtab.gradient import exact
        from trimtab.training.opening import opened

        config, engine, state, _ = opened(context.inputs[self.run.identity], None)
        algorithm, env = engine.algorithm, engine.algorithm.env
        obs = algorithm.normalized_obs(state.obs_stats, env.state_obs(), engine.hypers)
        greedy = np.asarray(algorithm.dist.mode(algorithm.agent.policy(state.params.policy, obs)))
        problem = exact.problem(env.mdp, np.eye(env.mdp.num_actions)[greedy], config.gamma)
        return {"value": float(problem.rho @ exact.values(problem))}
