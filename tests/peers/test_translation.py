"""Translated settings in the real libraries: the same update on one buffer, files that they load, scripts that run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import yaml
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure

import trimtab
from trimtab import presets
from trimtab.libraries.common.export_settings import export
from trimtab.training.algorithm import hypers_of
from trimtab.training.engine_setup import load_engine
from trimtab.training.state import Batch

SETTINGS = {"n_steps": 64, "batch_size": 256, "n_epochs": 6, "learning_rate": 0.01, "ent_coef": 0.01, "vf_coef": 0.7}


def looked_at(model, obs):
    """The parameters that outputs depend on: means, values and the deviation."""
    with torch.no_grad():
        mean = model.policy.get_distribution(torch.as_tensor(obs)).distribution.mean.numpy()
        return (
            mean,
            model.policy.predict_values(torch.as_tensor(obs)).numpy()[:, 0],
            model.policy.log_std.numpy().copy(),
        )


def of_buffer(model):
    """A whole rollout of Stable-Baselines3 as one batch here."""
    buffer = model.rollout_buffer
    flat = lambda x: np.asarray(x).swapaxes(0, 1).reshape(-1, *x.shape[2:])
    mean, _, log_std = looked_at(model, flat(buffer.observations).copy())
    return Batch(
        obs=flat(buffer.observations),
        action=flat(buffer.actions),
        dist=np.concatenate([mean, np.broadcast_to(log_std, mean.shape)], axis=1),
        logp=flat(buffer.log_probs),
        value=flat(buffer.values),
        target=flat(buffer.returns),
        advantage=flat(buffer.advantages),
        weight=np.ones(buffer.values.size, np.float32),
    )


@pytest.mark.parametrize("clip_range_vf", [None, 0.1])
def test_an_adopted_model_makes_the_update_that_stable_baselines3_makes(clip_range_vf, tmp_path):
    env = make_vec_env("Pendulum-v1", 4, seed=1)
    model = PPO("MlpPolicy", env, clip_range_vf=clip_range_vf, seed=1, device="cpu", **SETTINGS)
    model.set_logger(configure(None, []))
    _, callback = model._setup_learn(256)
    model.collect_rollouts(env, callback, model.rollout_buffer, 64)
    batch = jax.tree.map(jnp.asarray, of_buffer(model))
    run = trimtab.adopt(model, "Pendulum-v1", tmp_path / "run", quiet=True)
    config, engine, state, _ = load_engine(run.path, None)
    algorithm, hypers = engine.algorithm, hypers_of(config)
    collected, rows = jax.jit(algorithm.collect)(state, hypers)
    algorithm.batch_of = lambda state, rows, hypers: batch
    after, _ = jax.jit(algorithm.learn)(collected, rows, hypers)
    engine.close()
    before = looked_at(model, np.asarray(batch.obs))
    model.train()
    theirs = looked_at(model, np.asarray(batch.obs))
    dist, value = jax.jit(algorithm.agent.both)(after.params, batch.obs)
    ours = np.asarray(dist)[:, :1], np.asarray(value), np.asarray(dist)[0, 1:]
    for name, first, there, here in zip(("mean", "value", "log_std"), before, theirs, ours):
        difference = np.linalg.norm(here - there) / np.linalg.norm(there - first)
        assert difference < 1e-5, (name, difference)


def test_a_script_for_stable_baselines3_runs():
    config = presets.layered({"env_id": "Pendulum-v1", "num_envs": 2, "num_steps": 64, "total_timesteps": 256})
    scope = {}
    exec(compile(export(config, "sb3").text, "train.py", "exec"), scope)
    model = scope["model"]
    assert (model.n_envs, model.n_steps, model.batch_size, model.gamma) == (2, 64, config.minibatch, config.gamma)
    assert model.num_timesteps >= 256 and model.lr_schedule(0.5) == pytest.approx(0.5 * config.learning_rate)


def test_skrl_takes_the_agent_of_a_written_file():
    from skrl.agents.torch.ppo import PPO_CFG

    config = presets.layered({"env_id": "Pendulum-v1"})
    agent = yaml.safe_load(export(config, "skrl").text)["agent"]
    assert agent.keys() - {"class"} <= PPO_CFG.__dataclass_fields__.keys()


def test_rsl_rl_takes_the_algorithm_of_a_written_file():
    import inspect

    from rsl_rl.algorithms import PPO as RslPPO

    algorithm = yaml.safe_load(export(presets.layered({"env_id": "Pendulum-v1"}), "rsl_rl").text)["algorithm"]
    assert algorithm.keys() - {"class_name"} <= inspect.signature(RslPPO.__init__).parameters.keys()
