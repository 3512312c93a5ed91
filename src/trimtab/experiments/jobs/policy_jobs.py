"""Jobs that look at trained policies: their return, exact gradients on finite MDPs, and the same run done again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import polars as pl

from trimtab.core.writing import write_parquet
from trimtab.studies.job import JobContext, OfRun, register

if TYPE_CHECKING:
    from trimtab.config import Config
    from trimtab.training.algorithm import Algorithm
    from trimtab.training.state import State

LONGEST = 16  # steps of rows that are followed step by step, to compare with independent draws


@register
@dataclass(frozen=True)
class Evaluation(OfRun):
    """Mean return of episodes without exploration."""

    kind: ClassVar[str] = "evaluation"
    episodes: int = 20

    @property
    def steps(self) -> int:
        return 200 * self.episodes

    def do(self, context: JobContext) -> dict[str, Any]:
        from trimtab.training.evaluation import evaluate_run

        return {"value": evaluate_run(context.inputs[self.run.identity], self.episodes).mean_reward}


@register
@dataclass(frozen=True)
class RepeatedRun(OfRun):
    """A second run of a finished one's configuration; every metric but those of time is compared bit for bit."""

    kind: ClassVar[str] = "repeated"

    @property
    def steps(self) -> int:
        return self.run.steps

    def do(self, context: JobContext) -> dict[str, Any]:
        import shutil

        from trimtab.training.repeat_run import repeat

        again = context.place / "again"
        shutil.rmtree(again, ignore_errors=True)  # of an attempt that was interrupted
        comparison = repeat(context.inputs[self.run.identity], again).as_dict()
        return {name: value for name, value in comparison.items() if name != "run"}


# Finite MDPs, exactly --------------------------------------------------------------------------------------


class _Policy(NamedTuple):
    """A checkpoint on a finite MDP, and what its policy sees in every state."""

    config: Config
    algorithm: Algorithm
    state: State
    obs: Any  # an array of JAX, which the functions of `exact` take as one of NumPy

    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """π [S, A] and ∇ log π [S, A, P]."""
        from trimtab.gradient import exact

        return exact.policy_tables(self.algorithm.agent, self.state.params, self.obs)

    def critic(self) -> np.ndarray:
        """The run's own values, [S]."""
        from trimtab.gradient import exact

        return exact.critic_table(self.algorithm, self.state, self.obs)


def _policies(job: OfRun, context: JobContext, at: tuple[int | None, ...]) -> Iterator[tuple[int, _Policy]]:
    """The steps of checkpoints (None: the last) with their policies."""
    from trimtab.training.algorithm import hypers_of
    from trimtab.training.engine_setup import load_engine

    for step in at:
        config, engine, state, here = load_engine(context.inputs[job.run.identity], step, context.engines)
        algorithm = engine.algorithm
        obs = algorithm.normalized_obs(state.obs_stats, algorithm.env.state_obs(), hypers_of(config))
        yield here, _Policy(config, algorithm, state, obs)
        engine.close()


@register
@dataclass(frozen=True)
class GreedyValue(OfRun):
    """Discounted value of the greedy policy from the start, solved on the MDP (no time limit)."""

    kind: ClassVar[str] = "greedy-value"
    steps: ClassVar[int] = 1

    def do(self, context: JobContext) -> dict[str, Any]:
        from trimtab.gradient import exact

        [(_, policy)] = _policies(self, context, (None,))
        algorithm, mdp = policy.algorithm, policy.algorithm.env.mdp
        greedy = np.asarray(algorithm.dist.mode(algorithm.agent.policy(policy.state.params.policy, policy.obs)))
        problem = exact.problem(mdp, np.eye(mdp.num_actions)[greedy], policy.config.gamma)
        return {"value": float(problem.rho @ exact.values(problem))}


@dataclass(frozen=True)
class _Exact(OfRun):
    """Something computed from transition tables, without a step, at checkpoints of a run."""

    at: tuple[int, ...]

    @property
    def steps(self) -> int:
        return 0

    @property
    def label(self) -> str:
        return f"{self.config.env_id} seed {self.config.seed}"


@register
@dataclass(frozen=True)
class ExactBias(_Exact):
    """Squared bias of the batch gradient at checkpoints of a run on a finite MDP, for every T and λ.

    Writes `exact.parquet`: num_steps, gae_lambda, bias_sq, true_grad_sq, row_gap_sq, step.
    """

    kind: ClassVar[str] = "exact-bias"
    num_steps: tuple[int, ...]
    gae_lambda: tuple[float, ...] = (0.95,)

    def do(self, context: JobContext) -> dict[str, Any]:
        rows = [
            row | {"step": step} for step, policy in _policies(self, context, self.at) for row in self._rows(policy)
        ]
        write_parquet(context.place / "exact.parquet", pl.DataFrame(rows))
        return {"rows": len(rows)}

    def _rows(self, policy: _Policy) -> Iterator[dict[str, Any]]:
        """bias², |G_T|² and how far the expectation along rows is from that of independent draws, by T and λ."""
        from trimtab.gradient import exact

        env, critic, (table, score) = policy.algorithm.env, policy.critic(), policy.tables()
        p = exact.problem(env.mdp, table, policy.config.gamma, env.spec.time_limit)
        true = exact.true_gradient(p, score)
        square = lambda gap: float(gap @ gap)
        for gae_lambda in self.gae_lambda:
            for num_steps in self.num_steps:
                expected = exact.expected_gradient(p, score, critic, gae_lambda, num_steps)
                gap = None
                if num_steps <= LONGEST:
                    along = exact.expected_gradient_along_rows(p, score, critic, gae_lambda, num_steps)
                    gap = square(along - expected)
                about = {"num_steps": num_steps, "gae_lambda": gae_lambda, "bias_sq": square(expected - true)}
                yield about | {"true_grad_sq": square(true), "row_gap_sq": gap}


@register
@dataclass(frozen=True)
class EpisodicVariance(_Exact):
    """Tr Cov of REINFORCE's gradient of one episode, by estimator; the learned baseline is the run's own critic."""

    kind: ClassVar[str] = "episodic-variance"

    def do(self, context: JobContext) -> dict[str, Any]:
        rows = [
            {"step": step} | row for step, policy in _policies(self, context, self.at) for row in _variances(policy)
        ]
        return {"found": rows}


def _variances(policy: _Policy) -> Iterator[dict[str, Any]]:
    """Every estimator's variance and |mean|²; all have the same mean."""
    from trimtab.gradient import exact_episodes

    env, gamma, (table, score) = policy.algorithm.env, policy.config.gamma, policy.tables()
    problem = (env.mdp, table, score, gamma, env.spec.time_limit)
    best = exact_episodes.visited_returns(env.mdp, table, gamma, env.spec.time_limit)
    estimators = {
        "whole return": exact_episodes.whole_return(*problem),
        "reward to go": exact_episodes.reward_to_go(*problem),
        "learned baseline": exact_episodes.reward_to_go(*problem, policy.critic()),
        "mean returns as baseline": exact_episodes.reward_to_go(*problem, best),
    }
    for name, e in estimators.items():
        yield {"estimator": name, "variance": e.variance, "grad_sq": float(e.mean @ e.mean)}
