"""Options by the names other libraries give them, and what to say here instead."""

from __future__ import annotations

import re

ELSEWHERE: dict[str, str] = {
    "env": "--env-id",
    "env-name": "--env-id",
    "gym-id": "--env-id",
    "algorithm": "--algo",
    "n-envs": "--num-envs",
    "num-envs-per-env-runner": "--num-envs",
    "n-env": "--num-envs",
    "num-workers": "--num-envs",
    "num-env-runners": "--num-envs",
    "n-steps": "--num-steps",
    "nsteps": "--num-steps",
    "horizon": "--num-steps",
    "rollout-length": "--num-steps",
    "unroll-length": "--num-steps",
    "rollout-fragment-length": "--num-steps",
    "rollouts": "--num-steps",
    "horizon-length": "--num-steps",
    "num-steps-per-env": "--num-steps",
    "num-actors": "--num-envs",
    "batch-size": "--minibatch-size, or --num-envs × --num-steps: it is the minibatch in Stable-Baselines3 "
    "and N × T in CleanRL",
    "train-batch-size": "--num-envs × --num-steps",
    "nminibatches": "--num-minibatches",
    "mini-batches": "--num-minibatches",
    "num-mini-batches": "--num-minibatches",
    "sgd-minibatch-size": "--minibatch-size",
    "mini-batch-size": "--minibatch-size",
    "epochs": "--update-epochs",
    "n-epochs": "--update-epochs",
    "num-epochs": "--update-epochs",
    "nepoch": "--update-epochs",
    "noptepochs": "--update-epochs",
    "ppo-epochs": "--update-epochs",
    "num-sgd-iter": "--update-epochs",
    "mini-epochs": "--update-epochs",
    "learning-epochs": "--update-epochs",
    "num-learning-epochs": "--update-epochs",
    "steps": "--total-timesteps",
    "timesteps": "--total-timesteps",
    "n-timesteps": "--total-timesteps",
    "num-timesteps": "--total-timesteps",
    "total-steps": "--total-timesteps",
    "total-env-steps": "--total-timesteps",
    "max-steps": "--total-timesteps (of the run) or --time-limit (of an episode)",
    "max-episode-steps": "--time-limit",
    "lr": "--learning-rate",
    "step-size": "--learning-rate",
    "lr-schedule": "--anneal-lr",
    "kl-threshold": "--desired-kl",
    "discount": "--gamma",
    "discount-factor": "--gamma",
    "lambda": "--gae-lambda",
    "lam": "--gae-lambda",
    "clip": "--clip-coef",
    "clip-range": "--clip-coef",
    "clip-param": "--clip-coef",
    "clip-ratio": "--clip-coef",
    "cliprange": "--clip-coef",
    "clip-eps": "--clip-coef",
    "e-clip": "--clip-coef",
    "ratio-clip": "--clip-coef",
    "value-clip": "--clip-vloss",
    "clip-range-vf": "--clip-vloss",
    "ent-coeff": "--ent-coef",
    "entropy-coef": "--ent-coef",
    "entropy-coeff": "--ent-coef",
    "entropy-cost": "--ent-coef",
    "entropy-loss-scale": "--ent-coef",
    "value-loss-scale": "--vf-coef",
    "critic-coef": "--vf-coef",
    "value-coef": "--vf-coef",
    "value-loss-coef": "--vf-coef",
    "vf-loss-coeff": "--vf-coef",
    "kl-target": "--target-kl (stops an iteration; there is no adaptive penalty)",
    "grad-clip": "--max-grad-norm",
    "grad-norm": "--max-grad-norm",
    "grad-norm-clip": "--max-grad-norm",
    "max-gradient-norm": "--max-grad-norm",
    "net-arch": "--hidden-sizes",
    "hidden-size": "--hidden-sizes",
    "hidden-dim": "--hidden-sizes",
    "normalize-advantage": "--norm-adv",
    "normalize-obs": "--norm-obs",
    "normalize-input": "--norm-obs",
    "normalize-reward": "--norm-reward",
    "eval-freq": "--eval-every",
    "n-eval-episodes": "--eval-episodes",
    "logdir": "--run-dir",
    "log-dir": "--run-dir",
    "out": "--run-dir",
    "output-dir": "--run-dir",
    "tensorboard-log": "--tensorboard (events go into the run's directory)",
    "wandb": "--track",
}


def field_here(name: str) -> str | None:
    """What a field by another library's name is called in Python here."""
    answer = ELSEWHERE.get(name.lower().replace("_", "-"))
    return None if answer is None else re.sub(r"--([a-z-]+)", lambda m: m[1].replace("-", "_"), answer)


def here(flag: str, options: list[str]) -> str | None:
    """What a flag of another library is called here, if this command has it."""
    answer = ELSEWHERE.get(flag.lstrip("-").partition("=")[0].lower())
    if answer is None or answer.split(",")[0].split(" ")[0] not in options:
        return None
    return answer
