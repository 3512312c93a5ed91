"""Finding environments by name: the order of backends, the errors, and what importing costs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import gymnasium
import pytest

from trimtab import envs
from trimtab.envs import id_table
from trimtab.envs.base import EnvError
from trimtab.envs.envpool_backend import PoolEnv

LIGHT = """
import sys
from trimtab import envs
heavy = {"jax", "gymnax", "gymnasium", "envpool"} & set(sys.modules)
assert not heavy, heavy
rows = envs.list_environments()
heavy = {"jax", "gymnax", "envpool"} & set(sys.modules)
assert not heavy, heavy
assert len(rows) > 1700
for env_id in ("Pong-v5", "CartPole-v1", "Taxi-v4", "2048", "CheetahRun-v1"):
    envs.look(env_id)
heavy = {"jax", "gymnax", "envpool"} & set(sys.modules)
assert not heavy, heavy
"""


def test_import_is_light_and_the_catalogue_needs_no_jax():
    subprocess.run([sys.executable, "-c", LIGHT], check=True)


def test_catalogue_rows():
    rows = {(row.env_id, row.backend): row for row in envs.list_environments()}
    assert len(rows) == len(envs.list_environments())
    assert all(row.available == (row.reason == "") for row in rows.values())
    for key in (
        ("FrozenLake-v1", "tabular"),
        ("CartPole-v1", "native"),
        ("StarpilotHard-v0", "envpool"),
        ("MountainCarContinuous-v0", "gymnasium"),
    ):
        assert rows[key].available
    assert "left wall" in rows["MountainCarContinuous-v0", "native"].reason
    assert "gymnasium[box2d]" in rows["LunarLander-v3", "gymnasium"].reason
    assert "another package" in rows["Hopper-v3", "gymnasium"].reason


@pytest.mark.parametrize(
    "env_id, backend",
    [
        ("FrozenLake8x8-v1", "tabular"),
        ("CartPole-v1", "native"),
        ("procgen/maze-easy", "envpool"),
        ("CartPole-v0", "envpool"),
        ("MountainCarContinuous-v0", "gymnasium"),
    ],
)
def test_auto_order(env_id, backend):
    assert envs.choose(env_id, "auto") == backend


def test_ids_registered_by_the_user_run_on_gymnasium(monkeypatch):
    monkeypatch.setitem(gymnasium.registry, "mine/Game-v0", gymnasium.spec("CartPole-v1"))
    assert envs.choose("mine/Game-v0", "auto") == "gymnasium"


def without(monkeypatch, package: str) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))


def test_a_missing_package_is_named(monkeypatch):
    without(monkeypatch, "envpool")
    for asked in ("auto", "envpool"):
        with pytest.raises(EnvError, match=r"pip install 'trimtab\[envpool\]'"):
            envs.make("procgen/starpilot-hard", num_envs=1, backend=asked)
    assert envs.choose("Ant-v4", "auto") == "gymnasium"
    rows = {(row.env_id, row.backend): row for row in envs.list_environments()}
    assert not rows["StarpilotHard-v0", "envpool"].available


def test_a_half_installed_gymnax_is_an_error_not_another_backend(monkeypatch):
    without(monkeypatch, "six")
    with pytest.raises(EnvError, match="needs six: pip install six"):
        envs.make("CartPole-v1", num_envs=1)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"env_id": "CartPol-v1"}, "nearest: CartPole-v1"),
        ({"env_id": "procgen/starpilot"}, "nearest: procgen/starpilot-hard|nearest: procgen/starpilot-easy"),
        ({"env_id": "Zzzzqqq"}, "trimtab envs"),
        ({"env_id": "CartPole-v1", "backend": "tabular"}, "native, envpool, gymnasium has it"),
        ({"env_id": "Breakout-MinAtar", "backend": "gymnasium"}, "backend: gymnasium does not have"),
        ({"env_id": "CartPole-v1", "backend": "gymnax"}, f"none of auto, {', '.join(envs.BACKENDS)}$"),
        ({"env_id": "CartPole-v1", "num_envs": 0}, "num_envs"),
        ({"env_id": "CartPole-v1", "time_limit": 0}, "time_limit"),
    ],
)
def test_errors_name_the_field_and_what_would_work(kwargs, message):
    with pytest.raises(EnvError, match=message):
        envs.make(**{"num_envs": 1, **kwargs})


def test_the_table_is_what_envpool_says():
    """All ids and families; of each family the spaces of its first and last."""
    import envpool

    assert envpool.__version__ == id_table.ENVPOOL_VERSION
    known, listed = envpool.registration.registry.specs, id_table.by_id("envpool")
    assert set(listed) == set(envpool.list_all_envs())
    assert all(known[i][0] == f"envpool.{row.family}" for i, row in listed.items())
    ends = {}
    for row in listed.values():
        if row.observation:
            ends.setdefault(row.family, [row.env_id, row.env_id])[1] = row.env_id
    for env_id in {i for pair in ends.values() for i in pair}:
        assert id_table.row_of(PoolEnv(env_id, 1).spec, listed[env_id].family) == listed[env_id]


@pytest.mark.parametrize("env_id", ["Breakout-MinAtar", "PointRobot-misc", "2048", "MiniGrid-Empty-5x5"])
def test_the_table_is_what_compiled_environments_say(env_id):
    spec, row = envs.make(env_id, num_envs=1).spec, envs.look(env_id)
    assert (spec.obs_shape, spec.time_limit, spec.backend) == (row.obs_shape, row.time_limit, row.backend)
    assert id_table.action_in_words(spec.action) == id_table.action_in_words(row.action)


def test_looking_follows_the_backend_the_limit_and_ones_own_environments():
    assert envs.look("Taxi-v4").obs_shape == (500,) and envs.look("Taxi-v4").backend == "tabular"
    assert envs.look("CheetahRun-v1", time_limit=7).time_limit == 7
    assert [part.name for part in envs.look("CheetahRun-v1").parts] == ["position", "velocity"]
    assert envs.look("x:y", constructor=lambda: gymnasium.make("CartPole-v1")).obs_shape == (4,)
    with pytest.raises(EnvError, match="several players"):
        envs.look("Go9x9-v1")


@pytest.mark.parametrize("env_id, why", [("Cig-v1", "other players"), ("Sudoku-v0", "puzzles")])
def test_what_envpool_lists_and_cannot_make_is_refused_before_it_ends_the_process(env_id, why):
    row = next(row for row in envs.list_environments() if row.env_id == env_id)
    assert not row.available and why in row.reason
    with pytest.raises(EnvError, match=why):
        envs.make(env_id, num_envs=1, backend="envpool")


def test_options_that_change_what_is_seen_are_followed_before_anything_is_made():
    seen = envs.look("Pong-v5", env_kwargs={"img_height": 64, "img_width": 64, "stack_num": 2})
    assert seen.obs_shape == (64, 64, 2) and envs.look("Pong-v5").obs_shape == (84, 84, 4)
    with pytest.raises(EnvError, match="img_heigth"):
        envs.look("Pong-v5", env_kwargs={"img_heigth": 64})


def test_an_environment_that_no_installed_version_can_make_is_not_called_available(monkeypatch):
    """Pusher-v4 asks for a MuJoCo below 3."""
    module = sys.modules["trimtab.envs.env_listing"]
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: name)
    for installed, reason in (("3.2.1", "needs mujoco below 3; nearest: Pusher-v5"), ("2.3.7", "")):
        monkeypatch.setattr(module, "version", lambda name, installed=installed: installed)
        assert module._gymnasium_reason("gymnasium.envs.mujoco.pusher_v4:PusherEnv") == reason
        assert module._gymnasium_reason("gymnasium.envs.mujoco.pusher_v5:PusherEnv") == ""
