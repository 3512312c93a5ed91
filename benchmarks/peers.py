"""`trimtab.torch` with the libraries it is for: its tests, its agreement with `trimtab probe`, what it costs.

Needs the extra `peers`. Agreement: policies of Stable-Baselines3 at two stages of training, frozen; the meter pools
iterations of SB3's own rollouts from staggered starts, the probe draws rows from the adopted policy in trimtab's
environments. Cost: processor time inside the callback as a share of that of `model.learn`. Writes
docs/results/peers.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
STAGES, SPLITS = (2048, 16384), ((8, 16), (8, 64))
WINDOW, BURN_IN = 32, 400
QUANTITIES = ("variance", "individual", "covariance", "ess", "grad_sq")
HYPERS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"gamma": 0.98, "gae_lambda": 0.8},
    "Pendulum-v1": {"gamma": 0.9, "gae_lambda": 0.95},
}
PLANNED = len(HYPERS) * len(STAGES) * len(SPLITS) * len(QUANTITIES)
MOST_COST = 0.03


@dataclass(frozen=True)
class Comparison:
    """One quantity by the meter and by the probe; `agree`: their difference is within the interval of a difference."""

    env_id: str
    stage: int
    split: str
    quantity: str
    meter: str
    probe: str
    agree: bool


@dataclass(frozen=True)
class Cost:
    """Processor seconds of training with the callback, and those spent inside of it."""

    work: str
    rollouts: int
    measurements: int
    seconds: float
    meter_seconds: float

    @property
    def share(self) -> float:
        return self.meter_seconds / self.seconds


def staggered(env_id: str):
    """Environments whose first episode ends at a random step, so that they do not reset together."""
    import gymnasium as gym

    class Staggered(gym.Wrapper):
        left = -1

        def reset(self, **options):
            if self.left < 0:
                self.left = int(self.env.unwrapped.np_random.integers(1, 200)) if self.left == -2 else -2
            return self.env.reset(**options)

        def step(self, action):
            obs, reward, terminated, truncated, info = self.env.step(action)
            self.left -= self.left > 0
            cut = self.left == 0
            self.left = math.inf if cut else self.left
            return obs, reward, terminated, truncated or cut, info

    return lambda: Staggered(gym.make(env_id))


def frozen_policy(env_id: str, stage: int, folder: Path):
    """A policy that SB3 trained for `stage` steps, saved."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.env_util import make_vec_env

    env = make_vec_env(env_id, 8, seed=1)
    model = sb3.PPO("MlpPolicy", env, n_steps=128, batch_size=256, seed=2, device="cpu", **HYPERS[env_id])
    model.learn(stage)
    path = folder / f"{env_id}-{stage}.zip"
    model.save(path)
    return path


def metered(path: Path, env_id: str, split: tuple[int, int]):
    """The meter's report on rollouts of a policy that does not learn."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.vec_env import DummyVecEnv

    from trimtab.torch import SB3Callback

    num_envs, num_steps = split
    env = DummyVecEnv([staggered(env_id)] * num_envs)
    env.seed(5)
    model = sb3.PPO.load(path, env=env, device="cpu", n_steps=num_steps, custom_objects={"n_envs": num_envs})
    model.n_steps, model.n_envs = num_steps, num_envs
    model._setup_model_parameters = None
    parameters = model.policy.state_dict()
    model._setup_model()
    model.policy.load_state_dict(parameters)
    model.train = lambda: None
    skipped = -(-BURN_IN // num_steps)
    callback = SB3Callback(every=1, window=WINDOW)
    model.learn((WINDOW + skipped) * num_envs * num_steps, callback=callback)
    return callback.report


def probed(path: Path, env_id: str, split: tuple[int, int], folder: Path):
    """What `trimtab probe` says of the adopted policy."""
    import trimtab

    num_envs, num_steps = split
    run = trimtab.adopt(path, env_id, folder, quiet=True, num_envs=num_envs, num_steps=num_steps)
    return trimtab.probe(run, replicates=WINDOW, correlations=False, bias=False, save=False)


def compare() -> list[Comparison]:
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for env_id in HYPERS:
            for stage in STAGES:
                path = frozen_policy(env_id, stage, Path(scratch))
                for number, split in enumerate(SPLITS):
                    meter = metered(path, env_id, split)
                    probe = probed(path, env_id, split, Path(scratch) / f"{env_id}-{stage}-{number}")
                    pairs = {name: (getattr(meter, name), getattr(probe, name)) for name in QUANTITIES}
                    where = (env_id, stage, "x".join(map(str, split)))
                    for name, (a, b) in pairs.items():
                        found.append(Comparison(*where, name, written(a), written(b), bool(agree(a, b))))
                        print(found[-1], flush=True)
    return found


def written(estimate: Any) -> str:
    """Value and interval, also where it is not resolved."""
    return f"{estimate.value:.3g} [{estimate.lo:.3g}, {estimate.hi:.3g}]"


def agree(a: Any, b: Any) -> bool:
    """Whether a − b is within the 95% interval of a difference of independent estimates."""
    low, high = (a, b) if a.value < b.value else (b, a)
    return high.value - low.value <= math.hypot(low.hi - low.value, high.value - high.lo)


class Timed:
    """Processor seconds inside of a callback's measurements."""

    def __init__(self, callback: Any):
        self.seconds, self.count = 0.0, 0
        self._inner, callback._on_rollout_end = callback._on_rollout_end, self._measure
        self._end, callback._on_training_end = callback._on_training_end, self._finish

    def _measure(self) -> None:
        self._run(self._inner)
        self.count += 1

    def _finish(self) -> None:
        self._run(self._end)

    def _run(self, what: Any) -> None:
        begun = time.process_time()
        what()
        self.seconds += time.process_time() - begun


def cost(work: str, env: Any, policy: str, rollouts: int, **options: Any) -> Cost:
    import stable_baselines3 as sb3

    from trimtab.torch import SB3Callback

    model = sb3.PPO(policy, env, seed=1, device="cpu", **options)
    callback = SB3Callback(every=10)
    timed = Timed(callback)
    begun = time.process_time()
    model.learn(rollouts * env.num_envs * options["n_steps"], callback=callback)
    found = Cost(work, timed.count, timed.count // 10, time.process_time() - begun, timed.seconds)
    print(found, flush=True)
    return found


def costs() -> list[Cost]:
    """RL Zoo's sizes for CartPole and Pendulum; 84 × 84 × 4 random images of Atari's size with its sizes."""
    import gymnasium as gym
    import numpy as np
    import torch
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv

    class Images(gym.Env):
        observation_space = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
        action_space = gym.spaces.Discrete(4)
        shown = np.random.default_rng(0).integers(0, 255, (64, 4, 84, 84), dtype=np.uint8)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.shown[0], {}

        def step(self, action):
            k = int(self.np_random.integers(64))
            return self.shown[k], float(action == k % 4), k == 0, False, {}

    torch.set_num_threads(1)
    cartpole = {"n_steps": 32, "batch_size": 256, "n_epochs": 20, "gae_lambda": 0.8, "gamma": 0.98}
    pendulum = {"n_steps": 1024, "batch_size": 64, "n_epochs": 10, "gae_lambda": 0.95, "gamma": 0.9}
    images = {"n_steps": 32, "batch_size": 64, "n_epochs": 4}
    return [
        cost("CartPole-v1, 8 × 32", make_vec_env("CartPole-v1", 8, seed=1), "MlpPolicy", 320, **cartpole),
        cost("Pendulum-v1, 4 × 1024", make_vec_env("Pendulum-v1", 4, seed=1), "MlpPolicy", 40, **pendulum),
        cost("images of Atari's size, 8 × 32", DummyVecEnv([Images] * 8), "CnnPolicy", 10, **images),
    ]


def tests() -> tuple[int, int, float]:
    """Tests, failures and seconds of tests/peers."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-q", "tests/peers", f"--junitxml={report}"]
        subprocess.run(command, cwd=ROOT, check=False)
        (suite,) = ElementTree.parse(report).getroot().iter("testsuite")
    failed = sum(int(suite.get(name, 0)) for name in ("failures", "errors", "skipped"))
    return int(suite.get("tests", 0)), failed, float(suite.get("time", 0))


def page(result: dict[str, Any]) -> str:
    comparisons, shares = result["comparisons"], result["costs"]
    agreeing = sum(c["agree"] for c in comparisons)
    where = "{processor}, {cores} cores".format(**result["machine"])
    lines = [
        "# The gradient meter with the libraries it is for",
        "",
        f"`make test-peers`, on {result['date']}, {where}.",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in result["versions"].items()) + ".",
        "",
        f"**Tests**: {result['tests']} with real PPO, A2C, RecurrentPPO, rsl_rl, skrl and a loop like CleanRL's; "
        f"{result['failed']} failed; {result['test_seconds']:.0f} s. They compare the meter with one backward pass for "
        "each sample (dense, convolutional, embedding, attention, LSTM, GRU), and training with and without it, bit by "
        "bit.",
        "",
        "## Cost",
        "",
        f"Share of the processor time of `model.learn` with `SB3Callback(every=10)`, one thread. The aim is at most "
        f"{MOST_COST:.0%}.",
        "",
        "| training | rollouts | measurements | training, s | meter, s | share |",
        "|---|---|---|---|---|---|",
    ]
    for c in shares:
        share = c["meter_seconds"] / c["seconds"]
        times = f"{c['seconds']:.1f} | {c['meter_seconds']:.2f} | {share:.1%}"
        lines.append(f"| {c['work']} | {c['rollouts']} | {c['measurements']} | {times} |")
    lines += [
        "",
        "## Agreement with `trimtab probe`",
        "",
        "Policies of Stable-Baselines3 at two stages of training, frozen. The meter pools "
        f"{WINDOW} rollouts of SB3 from staggered starts; the probe draws as many rows of the adopted policy. "
        f"{agreeing} of {len(comparisons)} pairs differ by less than the 95% interval of their difference. "
        + ("" if len(comparisons) == PLANNED else f"The command compares {PLANNED}; this run was cut short."),
        "",
        "| environment | steps trained | N × T | quantity | meter | probe | agree |",
        "|---|---|---|---|---|---|---|",
    ]
    for c in comparisons:
        where = f"{c['env_id']} | {c['stage']:,} | {c['split'].replace('x', ' × ')}"
        lines.append(f"| {where} | {c['quantity']} | {c['meter']} | {c['probe']} | {'yes' if c['agree'] else 'no'} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=("tests", "costs", "compare"), help="print one part and write nothing")
    only = parser.parse_args().only
    if only:
        print(globals()[only]())
        return
    from trimtab.training.device import machine

    count, failed, seconds = tests()
    names = ("torch", "stable-baselines3", "sb3-contrib", "rsl-rl-lib", "skrl")
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "versions": {name: metadata.version(name) for name in names},
        "tests": count,
        "failed": failed,
        "test_seconds": seconds,
        "costs": [asdict(c) for c in costs()],
        "comparisons": [asdict(c) for c in compare()],
    }
    (RESULTS / "peers.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "peers.md").write_text(page(result))
    if failed:
        sys.exit(f"{failed} of {count} tests failed")


if __name__ == "__main__":
    main()
