"""Adapters with the real libraries: SB3, sb3-contrib, rsl_rl, skrl, and a loop like CleanRL's."""

import csv
import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from sb3_contrib import RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from torch import nn

from trimtab.gradient.meter_report import read_reports
from trimtab.torch import Meter, MeterError, RslRlMeter, SB3Callback, SkrlMeter

ENVS, STEPS = 4, 16


def learn(algorithm, callback, env="CartPole-v1", policy="MlpPolicy", iterations=9, **options):
    model = algorithm(policy, make_vec_env(env, ENVS, seed=1), n_steps=STEPS, seed=3, device="cpu", **options)
    return model.learn(iterations * ENVS * STEPS, callback=callback)


def same(one, other):
    pairs = zip(one.state_dict().items(), other.state_dict().items())
    return all(name == again and torch.equal(a, b) for (name, a), (again, b) in pairs)


@pytest.mark.parametrize(
    ("algorithm", "policy", "options"),
    [
        (PPO, "MlpPolicy", {"batch_size": 32, "n_epochs": 2}),
        (A2C, "MlpPolicy", {}),
        (RecurrentPPO, "MlpLstmPolicy", {"batch_size": 32, "n_epochs": 2, "policy_kwargs": {"lstm_hidden_size": 16}}),
    ],
)
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_training_with_the_callback_is_the_same_bit_for_bit(algorithm, policy, options, env, tmp_path):
    callback = SB3Callback(every=2, path=tmp_path)
    plain = learn(algorithm, None, env, policy, **options)
    metered = learn(algorithm, callback, env, policy, **options)
    assert same(plain.policy, metered.policy)
    *_, last = read_reports(tmp_path)
    assert last.as_dict() == callback.report.as_dict() and last.iterations == 4 and last.rows == 4 * ENVS
    assert (last.num_envs, last.num_steps, last.step) == (ENVS, STEPS, 8 * ENVS * STEPS)
    assert 0 < last.variance.lo < last.variance.value < last.variance.hi
    assert last.variance.value == pytest.approx(last.individual.value + last.covariance.value)
    assert not any(part._forward_hooks for part in metered.policy.modules())


def test_the_models_own_logger_gets_the_numbers(tmp_path):
    from stable_baselines3.common.logger import configure

    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", ENVS, seed=1), n_steps=STEPS, batch_size=32, device="cpu")
    model.set_logger(configure(str(tmp_path), ["csv", "tensorboard"]))
    model.learn(10 * ENVS * STEPS, callback=SB3Callback(every=1, lags=(1, 5)))
    rows = list(csv.DictReader((tmp_path / "progress.csv").open()))
    assert {"grad/variance", "grad/variance_lo", "grad/ess", "grad/cosine_lag5"} <= rows[0].keys()
    assert any(float(row["grad/variance"] or "nan") > 0 for row in rows)
    assert read_reports(tmp_path)[-1].minibatch_size == 32


def test_policies_without_rollouts_are_refused():
    model = DQN("MlpPolicy", gym.make("CartPole-v1"), device="cpu")
    with pytest.raises(MeterError, match="DQN: has no rollout buffer"):
        model.learn(10, callback=SB3Callback())
    with pytest.raises(MeterError, match="1 more row"):
        PPO("MlpPolicy", gym.make("CartPole-v1"), n_steps=16, device="cpu").learn(32, callback=SB3Callback(every=1))


class Agent(nn.Module):
    """As in CleanRL's ppo_continuous_action.py."""

    def __init__(self, obs_dim, action_dim):
        super().__init__()
        layer = lambda *sizes: nn.Linear(*sizes)
        self.critic = nn.Sequential(layer(obs_dim, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1))
        self.actor_mean = nn.Sequential(layer(obs_dim, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, action_dim))
        self.actor_logstd = nn.Parameter(torch.zeros(1, action_dim))

    def get_action_and_value(self, x, action=None):
        mean = self.actor_mean(x)
        probs = torch.distributions.Normal(mean, torch.exp(self.actor_logstd.expand_as(mean)))
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)


def cleanrl(meter_every: int | None, num_iterations=4) -> tuple[Agent, Meter | None]:
    torch.manual_seed(0)
    envs = gym.make_vec("Pendulum-v1", ENVS, vectorization_mode="sync")
    agent, shape = Agent(3, 1), (STEPS, ENVS)
    optimizer = torch.optim.Adam(agent.parameters(), 3e-4, eps=1e-5)
    meter = Meter(agent, rows=ENVS) if meter_every else None
    obs, actions = torch.zeros(*shape, 3), torch.zeros(*shape, 1)
    logprobs, rewards, values = (torch.zeros(shape) for _ in range(3))
    state = torch.as_tensor(envs.reset(seed=1)[0])
    for iteration in range(1, num_iterations + 1):
        for t in range(STEPS):
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(state)
            obs[t], actions[t], logprobs[t], values[t] = state, action, logprob, value.flatten()
            state, reward, *_ = envs.step(action.numpy())
            state, rewards[t] = torch.as_tensor(state), torch.as_tensor(reward, dtype=torch.float32)
        with torch.no_grad():
            last = agent.critic(state).flatten()
            advantages, tail = torch.zeros(shape), 0.0
            for t in reversed(range(STEPS)):
                delta = rewards[t] + 0.99 * (values[t + 1] if t + 1 < STEPS else last) - values[t]
                advantages[t] = tail = delta + 0.99 * 0.95 * tail
        b_obs, b_actions, b_advantages = obs.flatten(0, 1), actions.flatten(0, 1), advantages.flatten()
        if meter_every and iteration % meter_every == 0:
            _, newlogprob, _, _ = agent.get_action_and_value(b_obs, b_actions)
            meter.add(newlogprob, b_advantages)
        for _ in range(2):
            for index in torch.randperm(len(b_obs)).split(32):
                _, newlogprob, _, newvalue = agent.get_action_and_value(b_obs[index], b_actions[index])
                ratio = (newlogprob - logprobs.flatten()[index]).exp()
                loss = -(ratio * b_advantages[index]).mean() + newvalue.square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return agent, meter


def test_a_loop_like_cleanrl_needs_two_lines():
    plain, _ = cleanrl(None)
    metered, meter = cleanrl(2)
    assert same(plain, metered)
    report = meter.report()
    assert report.iterations == 2 and report.rows == 8 and report.step == 2 * STEPS * ENVS and report.variance.value > 0


class PendulumForRslRl:
    """Gymnasium's Pendulum as rsl_rl wants environments."""

    def __init__(self):
        make = lambda: gym.make("Pendulum-v1")
        self.envs = SyncVectorEnv([make] * ENVS, autoreset_mode=AutoresetMode.SAME_STEP)
        self.num_envs, self.num_actions, self.max_episode_length = ENVS, 1, 200
        self.episode_length_buf, self.device, self.cfg = torch.zeros(ENVS, dtype=torch.long), "cpu", {}
        self.obs = self.envs.reset(seed=1)[0]

    def get_observations(self):
        from tensordict import TensorDict

        return TensorDict({"policy": torch.as_tensor(self.obs)}, batch_size=[ENVS])

    def step(self, actions):
        self.obs, reward, terminated, truncated, _ = self.envs.step(actions.clamp(-2, 2).numpy())
        extras = {"time_outs": torch.as_tensor(truncated)}
        reward = torch.as_tensor(reward, dtype=torch.float32)
        return self.get_observations(), reward, torch.as_tensor(terminated | truncated).long(), extras


def rsl_rl_runner(folder):
    from rsl_rl.runners import OnPolicyRunner

    network = {"class_name": "MLPModel", "hidden_dims": [16], "activation": "elu"}
    gaussian = {"class_name": "GaussianDistribution", "init_std": 1.0}
    config = {
        "num_steps_per_env": STEPS,
        "save_interval": 1000,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": network | {"distribution_cfg": gaussian},
        "critic": dict(network),
        "algorithm": {"class_name": "PPO", "num_mini_batches": 2, "num_learning_epochs": 2, "desired_kl": None},
        "logger": "tensorboard",
        "run_name": "x",
        "experiment_name": "x",
    }
    torch.manual_seed(0)
    return OnPolicyRunner(PendulumForRslRl(), config, log_dir=str(folder), device="cpu")


def test_rsl_rl_runners(tmp_path):
    plain = rsl_rl_runner(tmp_path / "plain")
    plain.learn(6)
    runner = rsl_rl_runner(tmp_path / "metered")
    meter = RslRlMeter(runner, every=1)
    runner.learn(6)
    meter.close()
    assert same(plain.alg.actor, runner.alg.actor)
    report = read_reports(tmp_path / "metered")[-1]
    assert report.iterations == 6 and report.rows == 6 * ENVS and report.minibatch_size == ENVS * STEPS // 2
    assert 0 < report.variance.lo < report.variance.hi


def skrl_agent(folder, updates=6):
    from skrl.agents.torch.ppo import PPO as SkrlPPO
    from skrl.agents.torch.ppo import PPO_CFG
    from skrl.envs.wrappers.torch import wrap_env
    from skrl.memories.torch import RandomMemory
    from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
    from skrl.trainers.torch import SequentialTrainer

    class Policy(GaussianMixin, Model):
        def __init__(self, env):
            Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device="cpu")
            GaussianMixin.__init__(self)
            self.net = nn.Sequential(nn.Linear(3, 16), nn.ELU(), nn.Linear(16, 1))
            self.log_std_parameter = nn.Parameter(torch.zeros(1))

        def compute(self, inputs, role):
            return self.net(inputs["observations"]), {"log_std": self.log_std_parameter}

    class Value(DeterministicMixin, Model):
        def __init__(self, env):
            Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device="cpu")
            DeterministicMixin.__init__(self)
            self.net = nn.Sequential(nn.Linear(3, 16), nn.ELU(), nn.Linear(16, 1))

        def compute(self, inputs, role):
            return self.net(inputs["observations"]), {}

    torch.manual_seed(0)
    np.random.seed(0)
    env = wrap_env(gym.make_vec("Pendulum-v1", ENVS, vectorization_mode="sync"), verbose=False)
    config = PPO_CFG(rollouts=STEPS, learning_epochs=2, mini_batches=2)
    config.experiment.directory, config.experiment.experiment_name = str(folder), "run"
    config.experiment.write_interval, config.experiment.checkpoint_interval = 16, 0
    agent = SkrlPPO(
        models={"policy": Policy(env), "value": Value(env)},
        memory=RandomMemory(memory_size=STEPS, num_envs=ENVS, device="cpu"),
        observation_space=env.observation_space,
        state_space=None,
        action_space=env.action_space,
        device="cpu",
        cfg=config,
    )
    trainer = SequentialTrainer(
        env=env, agents=agent, cfg={"timesteps": STEPS * updates, "headless": True, "disable_progressbar": True}
    )
    return agent, trainer


def test_skrl_agents(tmp_path):
    plain, trainer = skrl_agent(tmp_path / "plain")
    trainer.train()
    agent, trainer = skrl_agent(tmp_path / "metered")
    meter = SkrlMeter(agent, every=1)
    trainer.train()
    meter.close()
    assert same(plain.policy, agent.policy)
    report = meter.report
    assert report.iterations == 6 and report.rows == 6 * ENVS and report.minibatch_size == ENVS * STEPS // 2
    assert read_reports(tmp_path / "metered" / "run")[-1].as_dict() == report.as_dict()
    assert math.isfinite(report.variance.value) and report.variance.lo > 0
