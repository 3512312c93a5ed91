"""Every preset is a configuration, and every environment finds the one for it."""

import pytest
import yaml

from trimtab import cli, envs, operations, presets
from trimtab.config import Config, from_dict
from trimtab.nets.families import choose_network


@pytest.mark.parametrize("name", presets.names())
def test_a_preset_is_a_configuration_of_its_algorithm_that_its_environment_can_have(name):
    values = presets.load(name)
    assert presets.origin(name), "it says where it comes from"
    algo, _, last = name.partition("/")
    config = from_dict(values)
    assert config.algo == algo and ("env_id" in values) == (last not in presets.QUICK_STARTS)
    if "env_id" in values:
        spec = envs.look(config.env_id, config.backend, config.env_kwargs, config.time_limit)
        for field in ("actor_obs", "critic_obs"):
            spec.slices(field, getattr(config, field))
        assert not (config.norm_obs and spec.obs_dtype == "uint8")
        assert config.log_std_init == 0 or isinstance(spec.action, envs.Continuous)
        assert config.activation == "tanh" or choose_network(config.network, spec.obs_shape) == "mlp"
        assert presets.find(config.env_id, algo) == name


@pytest.mark.parametrize(
    "env_id, name",
    [
        ("CartPole-v1", "ppo/CartPole-v1"),
        ("CartPole-v0", "ppo/CartPole-v1"),
        ("Pong-v5", "ppo/atari"),
        ("procgen/maze-easy", "ppo/procgen"),
        ("StarpilotHard-v0", "ppo/procgen"),
        ("Hopper-v5", "ppo/mujoco"),
        ("Swimmer-v5", "ppo/Swimmer-v4"),
        ("LunarLander-v2", "ppo/LunarLander-v3"),
        ("WalkerWalk-v1", "ppo/dm_control"),
        ("MiniGrid-DoorKey-5x5-v0", "ppo/minigrid"),
        ("2048", None),
    ],
)
def test_environments_find_their_preset(env_id, name):
    assert presets.find(env_id, "ppo") == name


@pytest.mark.parametrize(
    "env_id, kind",
    [("2048", "discrete"), ("BinPack-v2", "discrete"), ("FetchReach-v4", "continuous"), ("CarRacing-v3", "images")],
)
def test_what_has_no_preset_starts_by_its_spaces_and_is_told(env_id, kind):
    name = presets.quick_start(env_id, ["ppo"])
    assert name == f"ppo/{kind}" and presets.full_name(kind) == name
    assert "no preset is for" in presets.described(name, Config(env_id=env_id))
    assert presets.quick_start(env_id, ["reinforce"]) == (None if kind == "images" else f"reinforce/{kind}")


@pytest.mark.parametrize(
    "algo, env_id, name",
    [
        ("ppo-ewma", "CartPole-v1", "ppo-ewma/CartPole-v1"),
        ("ppo-ewma", "Hopper-v4", "ppo/mujoco"),
        ("ppg-ewma", "Hopper-v4", "ppo/mujoco"),
        ("ppg-ewma", "2048", "ppo/discrete"),
        ("reinforce", "Hopper-v4", "reinforce/continuous"),
    ],
)
def test_an_algorithm_without_a_preset_takes_one_of_its_kin_and_says_so(algo, env_id, name):
    assert presets.chosen({"env_id": env_id, "algo": algo}) == name
    config = presets.layered({"env_id": env_id, "algo": algo})
    assert config.algo == algo
    told = f"{algo} has none of its own" in presets.described(name, config)
    assert told is not name.startswith(f"{algo}/")


def test_a_whole_configuration_needs_no_preset(runs):
    """A worker's file, or a run's config.yaml, says everything already."""
    preset_of = lambda words: operations.load("plan").read(words).options().chosen_preset
    (runs / "all.yaml").write_text(yaml.safe_dump(Config(env_id="mine:Env-v0").as_dict()))
    (runs / "some.yaml").write_text("env_id: CartPole-v1")
    assert preset_of(["--config", "all.yaml"]) is None
    assert preset_of(["--config", "some.yaml"]) == "ppo/CartPole-v1"


def test_presets_are_listed_with_where_they_come_from_and_printed_whole(capsys):
    cli.main(["presets", "frozenlake"])
    listed = capsys.readouterr().out
    assert "ppo/FrozenLake-v1" in listed and "trimtab tune FrozenLake-v1" in " ".join(listed.split())
    assert "CartPole" not in listed
    cli.main(["presets", "ppo/FrozenLake-v1"])
    printed = capsys.readouterr().out
    assert printed.startswith("# What") and yaml.safe_load(printed) == presets.load("ppo/FrozenLake-v1")
    with pytest.raises(SystemExit):
        cli.main(["presets", "FrozenLakes"])
    assert "nearest: ppo/FrozenLake" in capsys.readouterr().err
