"""What a run needs is estimated from its configuration, agrees with what is allocated, and is refused when too much."""

import math

import jax
import pytest

from trimtab.config import Config, ConfigError
from trimtab.envs.base import Continuous, Discrete, Spec
from trimtab.training import loop, resource_estimates
from trimtab.training.algorithm import Algorithm
from trimtab.training.engine_setup import build_engine

IMAGES = Spec("procgen/StarPilot", "envpool", (64, 64, 3), "uint8", Discrete(15), 1000, False)
BOX = Spec("Box", "native", (3,), "float32", Continuous((-1.0, -1.0), (1.0, 1.0)), 200, True)
PAPER = Config(
    algo="ppg", network="impala", num_envs=256, num_steps=256, num_minibatches=8, total_timesteps=100_000_000
)
GB = 10**9


def test_the_papers_phase_is_26_gigabytes():
    needed = resource_estimates.estimate_memory(PAPER, IMAGES, 1_250_000)
    assert 24e9 < needed.parts["PPG phase"] < 30e9
    assert needed.total == sum(needed.parts.values()) > needed.parts["PPG phase"]


def test_every_part_by_hand():
    config = Config(algo="ppo", num_envs=2, num_steps=4, staleness=3, num_minibatches=1)
    parts = resource_estimates.estimate_memory(config, BOX, 100).parts
    # obs and next_obs 3, action 2, distribution 4, logp, reward, episode return and length: floats; three flags
    assert parts["rollout"] == 8 * (4 * (3 + 3 + 2 + 4 + 1 + 3) + 3)
    # obs 3, action 2, distribution 4, logp, value, target, advantage, weight
    assert parts["batch"] == 8 * 4 * (3 + 2 + 4 + 5)
    assert parts["staleness queue"] == 3 * parts["batch"]
    assert parts["parameters and optimizer"] == 100 * 4 * 4  # parameters, gradient, two moments
    assert set(parts) == {"rollout", "batch", "staleness queue", "parameters and optimizer"}


@pytest.mark.parametrize(
    "config",
    [
        Config(algo="ppo", env_id="CartPole-v1", staleness=3, norm_obs=True),
        Config(algo="ppo", env_id="Pendulum-v1", staleness=2),
        Config(algo="ppg", env_id="CartPole-v1", policy_iterations=4),
    ],
)
def test_buffers_agree_with_what_is_allocated(config):
    engine = build_engine(config)
    algorithm: Algorithm = engine.algorithm
    needed = resource_estimates.estimate_memory(config, algorithm.env.spec, 0)
    size = lambda tree: sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(tree))
    state = jax.eval_shape(lambda: engine.algorithm.init(jax.random.key(0), engine.hypers))
    assert needed.parts["batch"] == size(algorithm.abstract_batch())
    assert needed.parts.get("staleness queue", 0) == size(state.queue)
    assert needed.parts.get("PPG phase", 0) == size(state.phase)
    _, rows = jax.eval_shape(lambda s: algorithm.collect(s, engine.hypers), state)
    assert needed.parts["rollout"] == size(rows)


def test_a_phase_too_large_is_refused_with_the_estimate_and_what_would_fit():
    with pytest.raises(ConfigError) as error:
        resource_estimates.check_memory(PAPER, IMAGES, 1_250_000, 8 * GB)
    message = str(error.value)
    assert error.value.field == "policy_iterations"
    assert "PPG phase 25.8 GB" in message and "8 GB are available" in message and "\n" not in message
    fits = int(message.rpartition("nearest: ")[2])
    assert resource_estimates.estimate_memory(PAPER.replace(policy_iterations=fits), IMAGES, 1_250_000).total <= 8 * GB
    assert (
        resource_estimates.estimate_memory(PAPER.replace(policy_iterations=fits + 1), IMAGES, 1_250_000).total > 8 * GB
    )


def test_what_fits_is_not_refused():
    needed = resource_estimates.estimate_memory(PAPER, IMAGES, 1_250_000).total
    resource_estimates.check_memory(PAPER, IMAGES, 1_250_000, needed)
    with pytest.raises(ConfigError):
        resource_estimates.check_memory(PAPER, IMAGES, 1_250_000, needed - 1)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (PAPER.replace(algo="ppo", policy_iterations=32, staleness=8), "staleness"),
        (PAPER.replace(algo="ppo"), "num_envs"),
        (PAPER.replace(aux_minibatch_size=65_536 * 4), "policy_iterations"),
    ],
)
def test_the_dominating_field_is_named_with_a_value_that_is_valid_and_fits(config, name):
    available = resource_estimates.estimate_memory(config, IMAGES, 0).total // 2
    with pytest.raises(ConfigError) as error:
        resource_estimates.check_memory(config, IMAGES, 0, available)
    assert error.value.field == name
    nearest = config.replace(**{name: int(str(error.value).rpartition("nearest: ")[2])})
    resource_estimates.check_memory(nearest, IMAGES, 0, available)


def test_when_one_iteration_is_too_much_fewer_environments_are_named():
    available = resource_estimates.estimate_memory(PAPER.replace(policy_iterations=1), IMAGES, 0).total // 2
    with pytest.raises(ConfigError) as error:
        resource_estimates.check_memory(PAPER, IMAGES, 0, available)
    assert error.value.field == "num_envs"


def test_networks_too_large_and_nothing_that_fits():
    with pytest.raises(ConfigError, match=r"hidden_sizes=.*no value fits"):
        resource_estimates.check_memory(PAPER.replace(algo="ppo"), BOX, 10**10, GB)
    with pytest.raises(ConfigError, match="no value fits"):
        resource_estimates.check_memory(PAPER, IMAGES, 0, 1000)


def test_available_memory():
    host = resource_estimates.host_memory()
    assert host is None or 10**7 < host < 10**15
    stats = lambda value: type("Device", (), {"memory_stats": lambda self: value})()
    assert resource_estimates.device_memory(stats(None)) is None
    assert resource_estimates.device_memory(stats({"bytes_limit": 100, "bytes_in_use": 30})) == 70


def test_training_is_refused_before_anything_is_written(runs, monkeypatch):
    config = Config(total_timesteps=2048, num_envs=4, num_steps=128)
    monkeypatch.setattr(resource_estimates, "host_memory", lambda: 1000)
    with pytest.raises(ConfigError, match=r"needs at least .* and 1 kB are available"):
        loop.train(config, runs / "run")
    assert not (runs / "run").exists()
