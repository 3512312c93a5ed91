"""Make a run longer, and start another from its parameters: python examples/longer_and_further.py."""

import sys

import trimtab


def main(total_timesteps: int = 50_000) -> trimtab.Comparison:
    run = trimtab.train("CartPole-v1", total_timesteps=total_timesteps)
    # Train twice as long. From here on, the annealed learning rate follows the new length.
    run = trimtab.resume(run, total_timesteps=2 * total_timesteps)
    # Another run from its parameters, with a smaller learning rate. Counters and schedules restart.
    fine = trimtab.train(run, start_from=run, learning_rate=1e-4, total_timesteps=total_timesteps)
    comparison = trimtab.compare(run, fine)
    print(comparison)
    return comparison


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
