"""Runs made longer, runs started from others, and the same done again bit for bit."""

import json
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from test_runs import Killed, assert_same, compile_once, die_at, recorded  # noqa: F401

from trimtab import cli
from trimtab.config import ConfigError
from trimtab.core.errors import RunError
from trimtab.training import loop
from trimtab.training.engine_setup import load_engine
from trimtab.training.records import Segment, extend_segments
from trimtab.training.repeat_run import repeat
from trimtab.training.run_dir import RunDir
from trimtab.training.warm_start import WarmStart

CONFIG = tiny.config(
    anneal_lr="linear", ent_anneal=0.5, norm_obs=True, norm_reward=True, time_limit=7, total_timesteps=64
)
silent = {"say": lambda text: None}


def rates(path):
    return [row.numbers["train/learning_rate"] for row in RunDir.open(path).metrics()]


def totals(path):
    return [(s.step, s.total_timesteps) for s in RunDir.open(path).manifest().segments]


def test_a_longer_run_done_again_is_the_same_bit_for_bit(tmp_path):
    """The two steps done again by hand, and by repeat; annealing follows each length where it holds."""
    for name in ("one", "two"):
        loop.train(CONFIG, tmp_path / name, checkpoints=4)
        loop.resume(tmp_path / name, total_timesteps=128, checkpoints=8, **silent)
    assert_same(tmp_path / "one", tmp_path / "two")
    assert repeat(tmp_path / "one", tmp_path / "three").identical
    assert recorded(tmp_path / "one")[2] == recorded(tmp_path / "three")[2]
    assert totals(tmp_path / "one") == totals(tmp_path / "three") == [(0, 64), (64, 128)]
    share = [1 - k / 4 for k in range(4)] + [1 - k / 8 for k in range(4, 8)]
    np.testing.assert_allclose(rates(tmp_path / "one"), CONFIG.learning_rate * np.array(share), rtol=1e-5)
    assert RunDir.open(tmp_path / "one").config().total_timesteps == 128


def test_an_unfinished_run_made_longer_is_repeated_from_where_it_was(tmp_path):
    loop.train(CONFIG, tmp_path / "one", checkpoints=4, until=32)
    loop.resume(tmp_path / "one", total_timesteps=128, **silent)
    assert totals(tmp_path / "one") == [(0, 64), (32, 128)]
    assert repeat(tmp_path / "one", tmp_path / "two").identical
    whole = loop.train(CONFIG.replace(total_timesteps=128), tmp_path / "whole")
    assert rates(whole.path)[2:] == rates(tmp_path / "one")[2:] and rates(whole.path) != rates(tmp_path / "one")


def test_a_stop_beyond_the_end_is_the_end(tmp_path):
    run = loop.train(CONFIG, tmp_path / "run", checkpoints=1, until=10 * CONFIG.total_timesteps)
    assert run.files.checkpoints()[-1].step == CONFIG.steps


def test_a_kill_while_a_run_is_made_longer_loses_nothing(tmp_path, monkeypatch):
    loop.train(CONFIG, tmp_path / "short", checkpoints=2)
    shutil.copytree(tmp_path / "short", tmp_path / "long")
    with monkeypatch.context() as patch:
        calls = die_at(patch, 0)
        loop.resume(tmp_path / "long", total_timesteps=128, checkpoints=4, **silent)
    for moment in range(1, calls[0] + 1):
        path = tmp_path / f"killed{moment}"
        shutil.copytree(tmp_path / "short", path)
        with monkeypatch.context() as patch, pytest.raises(Killed):
            die_at(patch, moment)
            loop.resume(path, total_timesteps=128, checkpoints=4, **silent)
        loop.resume(path, total_timesteps=128, checkpoints=4, **silent)
        assert_same(path, tmp_path / "long")
        assert totals(path) == [(0, 64), (64, 128)], moment
        shutil.rmtree(path)


def test_segments_end_where_the_run_fell_back_to():
    plain = lambda segments: [(s.step, s.total_timesteps) for s in segments]
    longer = tiny.config(total_timesteps=128)
    two = Segment(0, 64), Segment(64, 128)
    assert plain(extend_segments(two, 96, longer, exact=True)) == [(0, 64), (64, 128)]
    assert plain(extend_segments(two, 48, longer, exact=True)) == [(0, 64), (48, 128)]
    assert plain(extend_segments(two, 96, longer, exact=False)) == [(0, 64), (64, 128), (96, 128)]
    assert plain(extend_segments(two, 0, longer, exact=True)) == [(0, 128)]


def test_a_run_starts_from_anothers_parameters_and_says_what_it_takes(tmp_path):
    first = loop.train(CONFIG, tmp_path / "first", checkpoints=2)
    said = []
    other = CONFIG.replace(learning_rate=1e-3, total_timesteps=32)
    begun = loop.train(other, tmp_path / "begun", start=WarmStart.from_run(first.path), say=said.append)
    old, new = (dict(RunDir.open(p).read_checkpoint(c)) for p, c in _ends(first, begun))
    params = [name for name in old if name.startswith(("params.", "state.obs_stats", "state.reward_scale.stats"))]
    assert len(params) > 8 and all((old[name] == new[name]).all() for name in params)
    assert new["state.iteration"] == 0 and not new["state.optimizer.policy.mu"].any()
    assert (
        "policy, value function, observation normalizer, reward normalizer; everything else starts from zero" in said[0]
    )
    assert begun.files.manifest().started_from.start.step == 64
    shutil.rmtree(first.path)  # a repetition needs only the run itself
    assert repeat(begun.path, tmp_path / "again").identical


@pytest.mark.parametrize("before", ["none", "popart"])
@pytest.mark.parametrize("after", ["none", "popart"])
def test_a_critic_says_the_same_in_a_run_that_starts_from_it(before, after, tmp_path):
    far = tiny.config(env_id="Pendulum-v1", time_limit=7, total_timesteps=64)
    first = loop.train(far.replace(norm_value=before), tmp_path / "first", checkpoints=1)
    begun = loop.train(
        far.replace(norm_value=after), tmp_path / "begun", start=WarmStart.from_run(first.path), until=0, **silent
    )
    obs = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    said = []
    for path, step in ((first.path, None), (begun.path, 0)):
        _, engine, state, _ = load_engine(path, step)
        said.append(np.asarray(engine.algorithm.critic(state, jnp.asarray(obs[:, None])))[:, 0])
        engine.close()
    np.testing.assert_allclose(*said, rtol=1e-4, atol=1e-4)


def test_normalizers_that_differ_are_not_mixed(tmp_path):
    first = loop.train(CONFIG, tmp_path / "first", until=0)
    with pytest.raises(ConfigError, match=r"norm_obs=False: .*nearest: true"):
        loop.train(CONFIG.replace(norm_obs=False), tmp_path / "no", start=WarmStart.from_run(first.path))
    said = []
    other = CONFIG.replace(norm_reward=False)
    loop.train(other, tmp_path / "raw", start=WarmStart.from_run(first.path), until=0, say=said.append)
    assert "policy, observation normalizer; everything else starts from zero" in said[0]


def _ends(first, begun):
    return (first.path, first.checkpoints[-1]), (begun.path, begun.checkpoints[0])


def test_the_optimizer_comes_along_if_asked_for(tmp_path):
    first = loop.train(CONFIG, tmp_path / "first", checkpoints=2)
    begun = loop.train(CONFIG, tmp_path / "begun", start=WarmStart.from_run(first.path, None, True), **silent)
    old, new = (RunDir.open(p).read_checkpoint(c) for p, c in _ends(first, begun))
    moments = [name for name in old if name.startswith("state.optimizer.")]
    assert moments and all((old[name] == new[name]).all() for name in moments)
    assert old["state.optimizer.policy.mu"].any()
    assert repeat(begun.path, tmp_path / "again").identical


def test_a_start_killed_before_its_first_checkpoint_resumes_from_the_same_parameters(tmp_path):
    first = loop.train(CONFIG, tmp_path / "first", checkpoints=2)
    start = WarmStart.from_run(first.path)
    whole = loop.train(CONFIG, tmp_path / "whole", start=start, checkpoints=2, **silent)
    loop.train(CONFIG, tmp_path / "killed", start=start, checkpoints=2, until=0, **silent)
    shutil.rmtree(tmp_path / "killed" / "checkpoints" / f"{0:012d}")
    loop.resume(tmp_path / "killed", checkpoints=2)
    assert_same(tmp_path / "killed", whole.path)
    loop.train(CONFIG, tmp_path / "lost", start=start, until=0, **silent)
    shutil.rmtree(tmp_path / "lost" / "checkpoints" / f"{0:012d}")
    shutil.rmtree(first.path)
    with pytest.raises(RunError, match="not a run directory"):
        loop.resume(tmp_path / "lost")


def test_what_does_not_fit_is_refused_and_writes_nothing(tmp_path):
    first = loop.train(CONFIG, tmp_path / "first", until=0)
    for changes, says in (
        ({"hidden_sizes": (16,)}, "hidden_sizes.*nearest"),
        ({"env_id": "Acrobot-v1", "time_limit": None}, "env_id.*nearest: CartPole-v1"),
    ):
        with pytest.raises(ConfigError, match=says):
            loop.train(CONFIG.replace(**changes), tmp_path / "no", start=WarmStart.from_run(first.path))
    with pytest.raises(ConfigError, match=r"optimizer.*nearest: adam"):
        sgd = CONFIG.replace(optimizer="sgd")
        loop.train(sgd, tmp_path / "no", start=WarmStart.from_run(first.path, None, True))
    assert not (tmp_path / "no").exists()


def test_the_command_line_lengthens_and_starts(runs, capsys):
    loop.train(CONFIG, runs / "r", checkpoints=2)
    assert cli.main(["resume", "r", "--total-timesteps", "128", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["total_timesteps"] == 128
    assert "annealed over the new length from here on: the linear step size, the entropy bonus" in said.err
    for changes, says in {
        ("adaptive", "linear"): "the clip range (",
        ("adaptive", "constant"): "no schedule depends on it",
    }.items():
        moved = CONFIG.replace(anneal_lr=changes[0], clip_anneal=changes[1], ent_anneal=0.0)
        assert says in loop._describe_schedules(moved.replace(total_timesteps=128), moved, 64)
    for line, says in {
        "resume r --total-timesteps 64": "128 are done already; nearest: 128",
        "train --from r --take-optimizer --seeds 2": "seeds=2",
        "train CartPole-v1 --take-optimizer": "give --from RUN",
        "train --from nowhere": "not a run directory",
    }.items():
        with pytest.raises(SystemExit):
            cli.main(line.split())
        assert says in capsys.readouterr().err
    assert cli.main(["train", "--from", "r", "--total-timesteps", "64", "--run-dir", "s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total_timesteps"] == 64
    assert RunDir.open("s").config() == RunDir.open("r").config().replace(total_timesteps=64)
