"""Procgen: normalized returns, presets at the paper's settings, every game, and StarPilot training end to end."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from trimtab import cli, envs, presets
from trimtab.config import ConfigError, from_dict
from trimtab.envs import procgen
from trimtab.envs.known_ids import PROCGEN_MODES
from trimtab.training import loop, resource_estimates
from trimtab.training.engine_setup import build_engine
from trimtab.training.run_dir import RunDir

ALGOS = ("ppo", "ppo-ewma", "ppg", "ppg-ewma")
TINY = {
    "total_timesteps": 96,
    "num_envs": 4,
    "num_steps": 8,
    "num_minibatches": 2,
    "impala_channels": (4, 8),
    "hidden_sizes": (16,),
}
TINY_PPG = {"policy_iterations": 2, "aux_epochs": 1, "aux_minibatch_size": 16}


def tiny(algo, **changes):
    values = presets.load(f"{algo}/procgen") | TINY | (TINY_PPG if algo.startswith("ppg") else {})
    return from_dict(values | changes)


def refusal(capsys, command):
    """The one line a command is refused with."""
    with pytest.raises(SystemExit) as stopped:
        cli.main(command.split())
    line = capsys.readouterr().err
    assert stopped.value.code == 2 and line.count("\n") == 1
    return line


# Normalized returns ----------------------------------------------------------------------------------------


def test_normalized_returns_are_zero_and_one_at_the_limits():
    assert set(procgen.RANGES) == {game.lower() for game in PROCGEN_MODES}
    assert procgen.normalized_return("procgen/starpilot-hard", 1.5) == 0.0
    assert procgen.normalized_return("procgen/starpilot-hard", 35.0) == 1.0
    assert procgen.normalized_return("StarpilotEasy-v0", 64.0) == 1.0
    assert procgen.normalized_return("procgen/fruitbot-hard", 13.35) == pytest.approx(0.5)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "procgen/starpilot-extreme", "procgen/nothing-hard"])
def test_other_environments_have_no_normalized_return(env_id):
    assert procgen.normalized_return(env_id, 1.0) is None


# Presets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ALGOS)
def test_presets_are_the_papers_settings(algo):
    assert presets.find("procgen/coinrun-easy", algo) == presets.find("CoinrunEasy-v0", algo) == f"{algo}/procgen"
    config = from_dict(presets.load(f"{algo}/procgen"))
    assert (config.batch, config.minibatch, config.total_timesteps) == (65_536, 8192, 100_000_000)
    assert (config.learning_rate, config.adam_eps, config.max_grad_norm) == (5e-4, 1e-8, None)
    assert (config.gamma, config.gae_lambda, config.clip_coef) == (0.999, 0.95, 0.2)
    assert (config.vf_coef, config.ent_coef) == (0.5, 0.01)
    assert (config.norm_reward, config.norm_reward_gamma, config.clip_reward) == (True, 0.99, 10.0)
    assert (config.network, config.impala_channels, config.hidden_sizes) == ("impala", (16, 32, 32), (256,))
    assert not config.is_ewma or config.proximal_com == 8.0
    if config.is_ppg:
        assert (config.arch, config.update_epochs, config.epochs_of_value) == ("dual", 1, 1)
        assert (config.policy_iterations, config.aux_epochs, config.beta_clone) == (32, 6, 1.0)
        assert (config.aux_minibatch, config.aux_learning_rate) == (4096, 5e-4)
    else:
        assert (config.arch, config.update_epochs) == ("shared", 3)


def test_the_papers_phase_is_refused_where_it_does_not_fit(runs, monkeypatch, capsys):
    monkeypatch.setattr(resource_estimates, "host_memory", lambda: 16 * 10**9)
    line = refusal(capsys, "train procgen/starpilot-hard --algo ppg-ewma")
    for part in ("policy_iterations=32", "PPG phase 25.8 GB", "16 GB are available", "nearest: "):
        assert part in line
    near = int(line.rsplit("nearest: ", 1)[1])
    config = from_dict(presets.load("ppg-ewma/procgen") | {"policy_iterations": near})
    spec = envs.make("procgen/starpilot-hard", num_envs=1).spec
    resource_estimates.check_memory(config, spec, 1_300_000, 16 * 10**9)
    with pytest.raises(ConfigError):
        resource_estimates.check_memory(config.replace(policy_iterations=near + 1), spec, 1_300_000, 16 * 10**9)


# The games -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["hard", "easy"])
@pytest.mark.parametrize("game", sorted(procgen.RANGES))
def test_every_game_can_be_made_and_stepped(game, mode):
    env = envs.make(f"procgen/{game}-{mode}", num_envs=2)
    obs = env.reset(0)
    assert obs.shape == (2, 64, 64, 3) and obs.dtype == np.uint8
    assert env.spec.action.n == 15
    out = env.step(np.array([0, 7]))
    assert out.obs.shape == obs.shape and out.obs.dtype == np.uint8
    env.close()


def test_a_missing_library_names_its_package_in_one_line(runs, monkeypatch, capsys):
    import envpool

    def broken(*_, **__):
        raise ImportError("libQt5Gui.so.5: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(envpool, "make_spec", broken)
    assert "Debian package libqt5gui5" in refusal(capsys, "train procgen/starpilot-hard --num-envs 4")
    assert not list(runs.iterdir())


# Training --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ["ppo", "ppg-ewma"])
def test_starpilot_trains_checkpoints_and_resumes(algo, runs):
    config = tiny(algo, env_id="procgen/starpilot-easy", time_limit=6)
    run = loop.train(config, "r", checkpoints=3)
    rows = RunDir.open("r").metrics()
    assert [row.iteration for row in rows] == [1, 2, 3]
    last = rows[-1].numbers
    mean = last["rollout/ep_rew_mean"]
    assert last["rollout/normalized_return"] == pytest.approx((mean - 2.5) / 61.5)
    assert rows[0].numbers["train/first_ratio_error"] < 1e-4  # acting and learning see the same network
    assert last["train/grad_norm"] > 0
    if algo == "ppg-ewma":
        assert rows[1].numbers["aux/value_loss"] > 0
    tensors = run.files.read_checkpoint(run.files.checkpoints()[-1])
    # A run that lost its last checkpoint goes on from the one before, in new episodes.
    newest = run.files.checkpoints()[-1].path
    weights = newest if newest.is_file() else next(newest.glob("*.safetensors"))
    weights.write_bytes(b"damaged")
    loop.resume("r", say=lambda text: None)
    again = RunDir.open("r")
    assert [row.iteration for row in again.metrics()] == [1, 2, 3]
    assert again.metrics()[:2] == rows[:2]
    assert again.read_checkpoint(again.checkpoints()[-1]).keys() == tensors.keys()
    assert "starts new episodes" in json.loads((again.path / "manifest.json").read_text())["determinism"]


def test_images_stay_bytes_until_the_network(runs):
    engine = build_engine(tiny("ppg"))
    state = engine.init(1)
    assert state.env.obs.dtype == jnp.uint8
    assert state.phase.obs.dtype == jnp.uint8
    assert engine.algorithm.abstract_batch().obs.dtype == jnp.uint8
    engine.close()
