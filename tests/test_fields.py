"""No field is parsed and forgotten: changing any one changes the result, or the recorded files, or is refused."""

import dataclasses

import numpy as np
import pytest
import tiny
from tiny import forget_programs  # noqa: F401

from trimtab.config import Config
from trimtab.fields import is_traced
from trimtab.runs import loop

PPG = {"algo": "ppg", "policy_iterations": 2, "aux_epochs": 1}
HOT = {"update_epochs": 2, "learning_rate": 0.05}  # policies move far enough for clips and caps to bind
GAUSSIAN = {"env_id": "Pendulum-v1", "norm_obs": True, "norm_reward": True, "update_epochs": 2}
IMAGE = {"env_id": "Breakout-MinAtar", "network": "impala", "impala_channels": (2,), "num_steps": 4}
PARTS = {"env_id": "CheetahRun-v1", "num_steps": 2, "total_timesteps": 8}
EVAL = {"eval_every": 16, "eval_episodes": 2}

# field: (base, alternative value)
RESULTS = {
    "env_id": ({}, "Acrobot-v1"),
    "env_kwargs": ({}, {"gravity": 3.0}),
    "time_limit": ({}, 3),
    "algo": ({}, "ppo-ewma"),
    "seed": ({}, 7),
    "total_timesteps": ({"anneal_lr": "linear"}, 128),
    "num_envs": ({}, 4),
    "num_steps": ({}, 16),
    "stagger_resets": ({}, True),
    "num_minibatches": ({}, 4),
    "minibatch_size": ({"num_minibatches": None}, 2),
    "minibatch_by": ({}, "rows"),
    "update_epochs": ({}, 2),
    "value_epochs": ({}, 2),
    "surrogate": (HOT, "kl"),
    "clip_coef": (HOT, 0.01),
    "clip_anneal": (HOT | {"clip_coef": 0.05}, "linear"),
    "kl_coef": (HOT | {"surrogate": "kl"}, 50.0),
    "imp_samp_max": (HOT, 1.0),
    "clip_vloss": (HOT | {"clip_vloss": 10.0}, 0.001),
    "vf_coef": ({}, 5.0),
    "ent_coef": ({}, 1.0),
    "ent_anneal": ({}, 1.0),
    "target_kl": (HOT | {"target_kl": 10.0}, 1e-6),
    "gamma": ({}, 0.5),
    "gae_lambda": ({}, 0.1),
    "norm_adv": (HOT, "none"),
    "norm_adv_span": ({"norm_adv": "ewma"}, 9.0),
    "baseline": ({"algo": "reinforce", "num_minibatches": 1, "time_limit": 5}, False),
    "optimizer": ({}, "sgd"),
    "learning_rate": ({}, 0.001),
    "value_learning_rate": ({"value_learning_rate": 0.01}, 0.001),
    "anneal_lr": ({}, "cosine"),
    "desired_kl": (HOT | {"anneal_lr": "adaptive"}, 1e-9),
    "warmup_steps": ({}, 64),
    "adam_beta1": ({}, 0.1),
    "adam_beta2": ({}, 0.1),
    "adam_eps": ({}, 0.5),
    "momentum": ({"optimizer": "sgd"}, 0.9),
    "weight_decay": ({}, 0.5),
    "max_grad_norm": ({}, 0.01),
    "network": ({"env_id": "Breakout-MinAtar", "num_steps": 4}, "impala"),
    "hidden_sizes": ({}, (4,)),
    "impala_channels": (IMAGE, (3,)),
    "activation": ({}, "relu"),
    "ortho_init": ({}, False),
    "arch": ({}, "shared"),
    "log_std_init": (GAUSSIAN, -1.0),
    "norm_obs": ({}, True),
    "norm_reward": (GAUSSIAN, False),
    "norm_value": (GAUSSIAN, "popart"),
    "clip_obs": (GAUSSIAN, 0.1),
    "clip_reward": (GAUSSIAN, 0.01),
    "norm_reward_gamma": (GAUSSIAN, 0.1),
    "prox_com": (HOT | {"algo": "ppo-ewma", "prox_com": 4.0}, 100.0),
    "staleness": ({}, 1),
    "staleness_loss": (HOT | {"staleness": 1}, "recent"),
    "policy_iterations": (PPG, 1),
    "aux_epochs": (PPG, 2),
    "aux_minibatch_size": (PPG, 4),
    "aux_learning_rate": (PPG, 0.05),
    "beta_clone": (PPG, 0.0),
}
# what changes the recorded files, or the environment's implementation
FILES = {
    "backend": ({}, "gymnasium"),
    "eval_every": (EVAL, 32),
    "eval_episodes": (EVAL, 3),
    "eval_threshold": (EVAL, 1e9),
    "probe_every": ({}, 2),
    "actor_obs": (PARTS, ("velocity",)),
    "critic_obs": (PARTS, ("velocity",)),
}


def test_every_field_is_in_one_of_the_tables():
    assert {*RESULTS, *FILES} == {f.name for f in dataclasses.fields(Config)}


@pytest.mark.parametrize("field", RESULTS)
def test_changing_a_field_changes_what_is_learned(field):
    base, value = RESULTS[field]
    config = tiny.config(**base)
    changed = config.replace(**{field: value})
    results = []
    for each in (config, changed):
        states, _ = tiny.bench(each).run(each, 3, seed=each.seed)
        results.append([np.asarray(p) for s in states[1:] for p in s.params])
    shapes = [[p.shape for p in result] for result in results]
    assert shapes[0] != shapes[1] or not all(np.array_equal(a, b) for a, b in zip(*results))
    if is_traced(Config.__dataclass_fields__[field]):
        assert tiny.bench(config) is tiny.bench(changed)  # and compiles nothing


@pytest.mark.parametrize("field", FILES)
def test_changing_a_field_changes_what_is_recorded(field, tmp_path):
    base, value = FILES[field]
    contents = []
    for name, config in (("a", tiny.config(**base)), ("b", tiny.config(**base).replace(**{field: value}))):
        files = loop.train(config, tmp_path / name).files
        metrics = [{k: v for k, v in row.items() if not k.startswith("time/")} for row in files.metrics()]
        probes = sorted(p.name for p in (tmp_path / name).glob("probes/*"))
        contents.append((metrics, files.evaluations(), probes))
    assert contents[0] != contents[1]
