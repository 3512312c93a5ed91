"""Hyperparameters of Stable-Baselines3, carried over and trained: python examples/from_stable_baselines.py."""

import sys

import trimtab


def main(total_timesteps: int = 50_000) -> trimtab.Run:
    translated = trimtab.translate("sb3", {"n_envs": 8, "n_steps": 128, "batch_size": 256, "learning_rate": 1e-3})
    for note in translated.notes:
        print(note)
    config = translated.config("CartPole-v1").replace(total_timesteps=total_timesteps)
    for finding in trimtab.plan(config):
        print(f"{finding.verdict}: {finding.check}: {finding.seen}")
    run = trimtab.train(config)
    print(run)
    return run


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
