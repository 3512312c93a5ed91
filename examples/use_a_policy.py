"""Train CartPole, take the policy out, and play it in Gymnasium with NumPy alone: python examples/use_a_policy.py."""

import sys

import gymnasium

import trimtab


def play(policy, episodes: int = 3) -> list[float]:
    """Returns of episodes with the most likely actions."""
    env, returns = gymnasium.make("CartPole-v1"), []
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(policy(observation))
            total, over = total + reward, terminated or truncated
        returns.append(total)
    return returns


def main(total_timesteps: int = 100_000) -> list[float]:
    run = trimtab.train("CartPole-v1", total_timesteps=total_timesteps)
    print(run)
    returns = play(run.policy())
    print("returns:", returns)
    report = trimtab.export(run, "numpy")
    print(f"for other programs: {report['file']}, off by at most {report['largest_difference']:.1e}")
    return returns


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
