"""No field is parsed and forgotten: changing any one changes the result, or the recorded files, or is refused."""

import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest
import tiny

from trimtab.config import Config, ConfigError
from trimtab.core.fields import part_of
from trimtab.training import loop

HOT = {"update_epochs": 2, "learning_rate": 0.05}  # policies move far enough for clips and caps to bind
LIMITED = HOT | {"clip_vloss": 10.0, "target_kl": 10.0, "value_learning_rate": 0.01}  # numbers that may be absent
RETURNS = {"algo": "reinforce", "num_minibatches": 1, "time_limit": 5}
GAUSSIAN = {"env_id": "Pendulum-v1", "norm_obs": True, "norm_reward": True, "update_epochs": 2}
PPG = {"algo": "ppg", "policy_iterations": 2, "aux_epochs": 1}
IMAGE = {"env_id": "Breakout-MinAtar", "network": "impala", "impala_channels": (2,)}
PARTS = {"env_id": "CheetahRun-v1"}
EVAL = {"eval_every": 16, "eval_episodes": 2}

# field: (base, alternative value). Bases are few, and one field's alternative is another's base: fewer programs.
SHAPES = {
    "env_id": ({}, "Acrobot-v1"),
    "network": ({"env_id": "Breakout-MinAtar"}, "impala"),
    "hidden_sizes": ({}, (4,)),
    "impala_channels": (IMAGE, (3,)),
    "arch": ({}, "shared"),
    "actor_obs": (PARTS, ("velocity",)),
    "critic_obs": (PARTS, ("velocity",)),
}
RESULTS = {
    "env_kwargs": (HOT, {"gravity": 3.0}),
    "time_limit": (RETURNS, 3),
    "algo": (HOT, "ppo-ewma"),
    "seed": (HOT, 7),
    "total_timesteps": (HOT | {"ent_anneal": 1.0}, 128),
    "num_envs": (HOT, 4),
    "num_steps": (HOT, 16),
    "stagger_resets": (HOT, True),
    "num_minibatches": (HOT, 4),
    "minibatch_size": (HOT | {"num_minibatches": None, "minibatch_size": 8}, 4),
    "minibatch_by": (HOT, "rows"),
    "update_epochs": (HOT, 1),
    "value_epochs": (HOT, 1),
    "surrogate": (HOT, "kl"),
    "clip_coef": (HOT, 0.01),
    "clip_anneal": (HOT | {"clip_coef": 0.01}, "linear"),
    "kl_coef": (HOT | {"surrogate": "kl"}, 50.0),
    "imp_samp_max": (HOT, 1.0),
    "clip_vloss": (LIMITED, 0.001),
    "clip_vloss_form": (HOT | {"clip_vloss": 0.001}, "clipped"),
    "vf_coef": (HOT, 5.0),
    "ent_coef": (HOT, 1.0),
    "ent_anneal": (HOT, 1.0),
    "target_kl": (LIMITED, 1e-6),
    "gamma": (HOT, 0.5),
    "gae_lambda": (HOT, 0.1),
    "norm_adv": (HOT, "none"),
    "norm_adv_ddof": (HOT, 1),
    "norm_adv_span": (HOT | {"norm_adv": "ewma"}, 9.0),
    "baseline": (RETURNS, False),
    "optimizer": (HOT, "sgd"),
    "learning_rate": (HOT, 0.001),
    "value_learning_rate": (LIMITED, 0.001),
    "anneal_lr": (HOT, "adaptive"),
    "desired_kl": (HOT | {"anneal_lr": "adaptive"}, 1e-9),
    "warmup_steps": (HOT, 64),
    "adam_beta1": (HOT, 0.1),
    "adam_beta2": (HOT, 0.1),
    "adam_eps": (HOT, 0.5),
    "momentum": (HOT | {"optimizer": "sgd"}, 0.9),
    "weight_decay": (HOT, 0.5),
    "max_grad_norm": (HOT, 0.01),
    "activation": (HOT, "relu"),
    "ortho_init": (HOT, False),
    "log_std_init": (GAUSSIAN, -1.0),
    "norm_obs": (GAUSSIAN, False),
    "norm_reward": (GAUSSIAN, False),
    "norm_value": (GAUSSIAN, "popart"),
    "clip_obs": (GAUSSIAN, 0.1),
    "clip_reward": (GAUSSIAN, 0.01),
    "norm_reward_gamma": (GAUSSIAN, 0.1),
    "prox_com": (HOT | {"algo": "ppo-ewma", "prox_com": 4.0}, 100.0),
    "staleness": (HOT, 1),
    "staleness_loss": (HOT | {"staleness": 1}, "recent"),
    "policy_iterations": (PPG, 1),
    "aux_epochs": (PPG, 2),
    "aux_minibatch_size": (PPG, 4),
    "aux_learning_rate": (PPG, 0.05),
    "beta_clone": (PPG, 0.0),
}
# what changes the recorded files, or the environment's implementation
FILES = {
    "backend": "gymnasium",
    "eval_every": 32,
    "eval_episodes": 3,
    "eval_threshold": 1e9,
    "probe_every": 2,
}
# what this process cannot have; tests/test_devices.py starts ones that can
REFUSED = {"devices": 2}


def test_every_field_is_in_one_of_the_tables():
    tables = [*SHAPES, *RESULTS, *FILES, *REFUSED]
    assert sorted(tables) == sorted(f.name for f in dataclasses.fields(Config))


@pytest.mark.parametrize("field", SHAPES)
def test_changing_a_field_changes_the_shapes_of_the_weights(field):
    base, value = SHAPES[field]
    config = tiny.config(**base)
    shapes = []
    for each in (config, config.replace(**{field: value})):
        agent = tiny.Bench(each).algorithm.agent
        shapes.append([p.shape for p in jax.eval_shape(agent.init, jax.random.key(0))])
    assert shapes[0] != shapes[1]


results: dict[str, list[np.ndarray]] = {}


def learned(config: Config) -> list[np.ndarray]:
    """Parameters after each of three iterations."""
    if repr(config) not in results:
        states, _ = tiny.bench(config).run(config, 3, seed=config.seed)
        results[repr(config)] = [np.asarray(p) for s in states[1:] for p in s.params]
    return results[repr(config)]


@pytest.mark.parametrize("field", RESULTS)
def test_changing_a_field_changes_what_is_learned(field):
    base, value = RESULTS[field]
    config = tiny.config(**base)
    changed = config.replace(**{field: value})
    assert not all(np.array_equal(a, b) for a, b in zip(learned(config), learned(changed), strict=True))
    if part_of(Config.__dataclass_fields__[field]) == "traced":
        assert tiny.bench(config) is tiny.bench(changed)  # and compiles nothing


def recorded(config: Config, path: Path) -> tuple:
    """What a run's files hold, but for times."""
    files = loop.train(config, path).files
    metrics = [
        {k: v for k, v in row.items() if not k.startswith("time/")}
        for row in (each.as_dict() for each in files.metrics())
    ]
    return metrics, files.evaluations(), sorted(p.name for p in path.glob("probes/*"))


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return recorded(tiny.config(**EVAL), tmp_path_factory.mktemp("usual") / "run")


def test_the_same_fields_record_the_same(usual, tmp_path):
    """Without this the next test could not fail."""
    assert str(recorded(tiny.config(**EVAL), tmp_path / "run")) == str(usual)


@pytest.mark.parametrize("field", FILES)
def test_changing_a_field_changes_what_is_recorded(field, usual, tmp_path):
    changed = tiny.config(**EVAL).replace(**{field: FILES[field]})
    assert str(recorded(changed, tmp_path / "run")) != str(usual)


@pytest.mark.parametrize("field", REFUSED)
def test_what_cannot_be_done_here_is_refused(field, tmp_path):
    assert len(jax.devices()) == 1  # and once JAX has begun, no more
    with pytest.raises(ConfigError, match=f"{field}={REFUSED[field]}: "):
        loop.train(tiny.config(**{field: REFUSED[field]}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
