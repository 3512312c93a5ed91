"""Finding environments by name: the order of backends, the errors, and what importing costs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import gymnasium
import pytest

from trimtab import envs
from trimtab.envs.base import EnvError

LIGHT = """
import sys
from trimtab import envs
heavy = {"jax", "gymnax", "gymnasium", "envpool"} & set(sys.modules)
assert not heavy, heavy
rows = envs.catalogue()
heavy = {"jax", "gymnax", "envpool"} & set(sys.modules)
assert not heavy, heavy
assert len(rows) > 250
"""


def test_import_is_light_and_the_catalogue_needs_no_jax():
    subprocess.run([sys.executable, "-c", LIGHT], check=True)


def test_catalogue_rows():
    rows = {(row.env_id, row.backend): row for row in envs.catalogue()}
    assert len(rows) == len(envs.catalogue())
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
    assert envs._choose(env_id, "auto") == backend


def test_ids_registered_by_the_user_run_on_gymnasium(monkeypatch):
    monkeypatch.setitem(gymnasium.registry, "mine/Game-v0", gymnasium.spec("CartPole-v1"))
    assert envs._choose("mine/Game-v0", "auto") == "gymnasium"


def without(monkeypatch, package: str) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))


def test_a_missing_package_is_named(monkeypatch):
    without(monkeypatch, "envpool")
    for asked in ("auto", "envpool"):
        with pytest.raises(EnvError, match=r"pip install 'trimtab\[envpool\]'"):
            envs.make("procgen/starpilot-hard", num_envs=1, backend=asked)
    assert envs._choose("Ant-v4", "auto") == "gymnasium"
    rows = {(row.env_id, row.backend): row for row in envs.catalogue()}
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
        ({"env_id": "CartPole-v1", "backend": "gymnax"}, "none of auto, tabular, native, envpool, gymnasium"),
        ({"env_id": "CartPole-v1", "num_envs": 0}, "num_envs"),
        ({"env_id": "CartPole-v1", "time_limit": 0}, "time_limit"),
    ],
)
def test_errors_name_the_field_and_what_would_work(kwargs, message):
    with pytest.raises(EnvError, match=message):
        envs.make(**{"num_envs": 1, **kwargs})
