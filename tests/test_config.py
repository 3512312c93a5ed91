"""Configurations: refusals in one line, derived numbers, random ones that validate and train, layers of sources."""

import dataclasses
from typing import get_args

import numpy as np
import pytest
import tiny
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trimtab import envs, operations
from trimtab.config import Config, ConfigError, from_dict
from trimtab.config.algorithms import ALGORITHMS, Name
from trimtab.envs.base import Discrete, Spec
from trimtab.training import engine_setup
from trimtab.training.algorithm import hypers_of


@pytest.mark.parametrize(
    "changes, field, says",
    [
        ({"num_envs": 0}, "num_envs", "nearest: 1"),
        ({"gamma": 1.5}, "gamma", "nearest: 1"),
        ({"gamma": float("nan")}, "gamma", "number"),
        ({"learning_rate": "fast"}, "learning_rate", "number"),
        ({"num_envs": 2.5}, "num_envs", "whole number"),
        ({"num_envs": True}, "num_envs", "whole number"),
        ({"seed": None}, "seed", "needed"),
        ({"algo": "pppo"}, "algo", "nearest: ppo"),
        ({"hidden_sizes": 64}, "hidden_sizes", "list of widths"),
        ({"hidden_sizes": (0,)}, "hidden_sizes", "list of widths"),
        ({"norm_obs": 1}, "norm_obs", "true or false"),
        ({"env_kwargs": [1]}, "env_kwargs", "mapping"),
        ({"env_id": ""}, "env_id", "name"),
        ({"minibatch_size": 100}, "minibatch_size", "nearest: 64, 128"),
        ({"num_minibatches": 5}, "num_minibatches", "nearest: 4, 8"),
        ({"minibatch_by": "rows", "num_envs": 6, "num_minibatches": 4}, "num_minibatches", "nearest: 3, 6"),
        ({"minibatch_by": "rows", "num_envs": 6, "minibatch_size": 96}, "minibatch_size", "nearest: 64, 128"),
        ({"num_minibatches": 4, "minibatch_size": 64}, "minibatch_size", "makes it 128"),
        ({"total_timesteps": 100}, "total_timesteps", "nearest: 512"),
        ({"clip_obs": 0.0, "norm_obs": True}, "clip_obs", "above 0"),
        ({"max_grad_norm": 0.0}, "max_grad_norm", "none switches it off"),
        ({"algo": "ppg", "aux_minibatch_size": 100}, "aux_minibatch_size", "nearest"),
        ({"algo": "ppg", "policy_iterations": 5000}, "policy_iterations", "nearest: 976"),
        ({"staleness": 976}, "staleness", "nearest: 975"),
        ({"algo": "reinforce", "baseline": False, "time_limit": 200}, "num_steps", "whole episodes"),
    ],
)
def test_impossible_values_are_refused_with_the_field_and_the_nearest_valid_ones(changes, field, says):
    with pytest.raises(ConfigError) as error:
        Config(**changes)
    assert error.value.field == field and says in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"kl_coef": 2.0},
        {"surrogate": "kl", "clip_coef": 0.1},
        {"baseline": False},
        {"value_epochs": 2, "arch": "shared"},
        {"adam_eps": 1e-8, "optimizer": "sgd"},
        {"momentum": 0.9},
        {"desired_kl": 0.02},
        {"surrogate": "kl", "clip_anneal": "linear"},
        {"value_learning_rate": 0.1, "arch": "shared"},
        {"network": "impala", "ortho_init": False},
        {"algo": "reinforce", "baseline": False, "norm_value": "popart"},
        {"impala_channels": (8,)},
        {"clip_obs": 5.0},
        {"clip_reward": 5.0},
        {"norm_reward_gamma": 0.9},
        {"prox_com": 4.0},
        {"staleness_loss": "recent"},
        {"beta_clone": 2.0},
        {"eval_episodes": 3, "eval_every": 0},
        {"eval_threshold": 3.0, "eval_every": 0},
        {"norm_adv_span": 3.0},
        {"algo": "reinforce", "gae_lambda": 0.9},
        {"algo": "reinforce", "target_kl": 0.1},
        {"algo": "reinforce", "baseline": False, "vf_coef": 1.0},
        {"algo": "reinforce", "baseline": False, "stagger_resets": True},
        {"algo": "ppg", "staleness": 1},
        {"algo": "ppo-ewma", "staleness": 1, "staleness_loss": "recent"},
    ],
)
def test_an_option_that_would_be_ignored_is_refused(changes):
    with pytest.raises(ConfigError) as error:
        Config(**changes)
    assert error.value.field in changes


@pytest.mark.parametrize(
    "changes",
    [
        {"network": "impala"},
        {"log_std_init": -1.0},
        {"algo": "reinforce", "baseline": False},
        {"algo": "reinforce", "baseline": False, "num_steps": 500, "backend": "gymnasium"},
    ],
)
def test_what_an_environment_cannot_have_is_refused(changes):
    with pytest.raises(ConfigError) as error:
        engine_setup.build_engine(Config(**changes))
    assert error.value.field in {*changes, "num_steps"}


def test_unknown_fields_are_refused_with_the_nearest_known_one():
    with pytest.raises(ConfigError, match="num_envs"):
        from_dict({"num_env": 3})
    with pytest.raises(ConfigError, match="no such field"):
        from_dict({7: 3})


def test_derived_numbers_follow_from_the_fields():
    c = Config(num_envs=8, num_steps=32, minibatch_size=64, total_timesteps=1000, update_epochs=3, algo="ppo-ewma")
    assert (c.batch, c.minibatches, c.minibatch, c.iterations, c.steps) == (256, 4, 64, 3, 768)
    assert c.gradient_steps == 36 and c.proximal_com == 12.0 and c.proximal_decay == pytest.approx(12 / 13)
    assert Config(num_envs=3, num_steps=5, total_timesteps=15).minibatches == 3
    assert Config(num_envs=10, num_steps=2, minibatch_by="rows").minibatches == 2
    assert c.traced()["prox_com"] == 12.0 and "clip_vloss" not in c.traced()


def test_every_algorithm_is_declared():
    assert tuple(ALGORITHMS) == get_args(Name)


def test_a_configuration_survives_yaml():
    config = Config(hidden_sizes=(3, 5), clip_vloss=0.1, env_kwargs={"a": [1, 2]}, adam_eps=1e-8, max_grad_norm=None)
    assert from_dict(yaml.safe_load(yaml.safe_dump(config.as_dict()))) == config


# Layers ----------------------------------------------------------------------------------------------------


def layered(preset=None, file=None, **flags):
    words = [
        word for name, value in flags.items() for word in (f"--{name}", *([value] if isinstance(value, str) else value))
    ]
    words += [
        word for name, value in (("preset", preset), ("config", file)) if value for word in (f"--{name}", str(value))
    ]
    return operations.load("plan").read(words).options().configuration()


def test_flags_go_over_the_file_and_the_file_over_the_preset(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("gamma: 0.8\nnum_envs: 16\n")
    config = layered("ppo/CartPole-v1", str(file), num_envs="32")
    assert (config.num_envs, config.gamma, config.vf_coef, config.env_id) == (32, 0.8, 0.25, "CartPole-v1")


def test_an_environment_brings_its_preset_unless_told_otherwise():
    assert layered(env_id="CartPole-v1").anneal_lr == "linear"
    assert layered("none", env_id="CartPole-v1").anneal_lr == Config().anneal_lr
    assert layered(env_id="CartPole-v1", algo="reinforce").learning_rate == 0.003


def test_a_minibatch_size_replaces_the_number_of_minibatches_below_it(tmp_path):
    config = layered(env_id="CartPole-v1", minibatch_size="256")
    assert config.num_minibatches is None and config.minibatches == 2
    file = tmp_path / "c.yaml"
    file.write_text("env_id: CartPole-v1\nminibatch_size: 64\n")
    assert layered(None, str(file)).minibatches == 8
    assert layered(None, str(file), num_minibatches="2").minibatches == 2
    assert from_dict({"minibatch_size": 256}, Config(num_minibatches=4)).minibatches == 2


# Random configurations -------------------------------------------------------------------------------------

CHOICES = {
    "algo": ["reinforce", "ppo", "ppo-ewma", "ppg", "ppg-ewma"],
    "env_id": ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"],
    "num_envs": [1, 2, 3, 4],
    "num_steps": [1, 4, 8],
    "total_timesteps": [16, 33, 64],
    "num_minibatches": [None, 1, 2, 3],
    "minibatch_size": [None, 4],
    "update_epochs": [1, 2],
    "minibatch_by": ["samples", "rows"],
    "value_epochs": [None, 1, 2, 3],
    "surrogate": ["clip", "kl"],
    "clip_vloss": [None, 0.2],
    "clip_vloss_form": ["larger", "clipped"],
    "target_kl": [None, 0.01],
    "norm_adv": ["none", "batch", "minibatch", "ewma"],
    "norm_adv_ddof": [0, 1],
    "norm_adv_span": [1.0, 4.0],
    "baseline": [True, False],
    "optimizer": ["adam", "sgd"],
    "momentum": [0.0, 0.9],
    "anneal_lr": ["constant", "linear", "cosine", "adaptive"],
    "value_learning_rate": [None, 0.001],
    "activation": ["tanh", "relu", "elu", "silu", "gelu"],
    "ortho_init": [True, False],
    "clip_anneal": ["constant", "linear"],
    "norm_value": ["none", "popart"],
    "max_grad_norm": [None, 0.5],
    "hidden_sizes": [(4,), (), (4, 3)],
    "arch": ["dual", "shared", "detach"],
    "norm_obs": [False, True],
    "norm_reward": [False, True],
    "stagger_resets": [False, True],
    "staleness": [0, 1],
    "staleness_loss": ["decoupled", "behavior", "recent"],
    "policy_iterations": [32, 1, 2],
    "aux_epochs": [6, 0, 1],
    "aux_minibatch_size": [None, 2],
    "gamma": [0.99, 1.0, 0.0],
    "time_limit": [None, 3],
}


@st.composite
def values(draw, most=8):
    """Mostly small changes to a base that fits every algorithm, so that a fair share validates."""
    algo = draw(st.sampled_from(CHOICES["algo"]))
    base = {"num_envs": 2, "num_steps": 8, "total_timesteps": 64, "hidden_sizes": (4,), "update_epochs": 1}
    base |= {"policy_iterations": 2, "aux_epochs": 1} if algo.startswith("ppg") else {}
    names = draw(st.lists(st.sampled_from(sorted(set(CHOICES) - {"algo"})), max_size=most, unique=True))
    return base | {name: draw(st.sampled_from(CHOICES[name])) for name in names} | {"algo": algo}


@settings(suppress_health_check=list(HealthCheck))
@given(
    values(),
    st.dictionaries(
        st.sampled_from([f.name for f in dataclasses.fields(Config)]),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-5, 10**12),
            st.floats(),
            st.text(max_size=5),
            st.lists(st.integers(-1, 3)),
        ),
        max_size=2,
    ),
)
def test_any_values_make_a_configuration_or_a_refusal_of_one_line(chosen, noise):
    try:
        config = from_dict(chosen | noise)
    except ConfigError as error:
        assert "\n" not in str(error) and error.field in str(error)
    else:
        assert config.minibatch * config.minibatches == config.batch and config.iterations >= 1
        assert from_dict(yaml.safe_load(yaml.safe_dump(config.as_dict()))) == config
        assert all(line for line in config.derived().values())


trained = []


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(values(most=6))
def test_random_configurations_train_or_are_refused(chosen):
    try:
        config = from_dict(chosen)
        env = envs.make(config.env_id, num_envs=config.num_envs, time_limit=config.time_limit)
        engine_setup.check_environment(config, env.spec)
    except ConfigError:
        return
    states, infos = tiny.bench(config).run(config, min(2, config.iterations))
    trained.append(config)
    assert all(ok.all() for info in infos for ok in info.finite.values())
    assert np.isfinite(states[-1].params.policy).all() and hypers_of(config)


def test_a_fair_share_of_the_random_configurations_was_trained():
    assert not trained or len(trained) >= 4


def test_images_refuse_what_only_dense_networks_follow_also_where_the_network_is_chosen_for_them():
    images = Spec("Game", "gymnasium", (84, 84, 4), "uint8", Discrete(6), None, False)
    for name, value in (("ortho_init", False), ("activation", "relu")):
        with pytest.raises(ConfigError, match=name):
            engine_setup.check_environment(Config(**{name: value}), images)
    engine_setup.check_environment(Config(), images)
