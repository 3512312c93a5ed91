"""Runs on disk: kills at every write, resumes bit for bit, refusals, damaged checkpoints, evaluations, repeats."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
import tiny

from trimtab import api, cli
from trimtab.core.errors import MissingPackage, RunError
from trimtab.envs import envpool_backend
from trimtab.training import device, engine_setup, loop, snapshot
from trimtab.training.algorithm import hypers_of
from trimtab.training.engine import HostEngine
from trimtab.training.engine_setup import build_engine
from trimtab.training.evaluation import evaluate_run
from trimtab.training.repeat_run import repeat
from trimtab.training.run_dir import RunDir

KINDS = {
    "ppo": {"eval_every": 32, "eval_episodes": 2, "norm_obs": True, "time_limit": 7, "total_timesteps": 96},
    "ppg-ewma": {"algo": "ppg-ewma", "policy_iterations": 3, "aux_epochs": 1, "total_timesteps": 112},
    "stale": {"staleness": 2, "total_timesteps": 96, "norm_adv": "ewma", "norm_adv_span": 3.0},
}
_engines: dict = {}


@pytest.fixture(autouse=True)
def compile_once(monkeypatch):
    """Give every run of one configuration the same compiled engine."""
    build_engine = engine_setup.build_engine

    def remembered(config, env=None):
        if env is not None:
            return build_engine(config, env)
        engine = _engines.get(repr(config)) or build_engine(config)
        if engine.exact:  # environments of the host keep a state of their own
            _engines[repr(config)] = engine
        return engine

    monkeypatch.setattr(engine_setup, "build_engine", remembered)


def recorded(path):
    """Everything of a run that must be the same between identical runs."""
    run = RunDir.open(path)
    timeless = lambda rows: [
        {k: v for k, v in row.as_dict().items() if not k.startswith("time/") or k == "time/total_timesteps"}
        for row in rows
    ]
    tensors = {c.step: run.read_checkpoint(c) for c in run.checkpoints()}
    return timeless(run.metrics()), timeless(run.evaluations()), run.episodes().to_dicts(), tensors


def assert_same(path, reference):
    *tables, tensors = recorded(path)
    *wanted, wanted_tensors = recorded(reference)
    assert tables == wanted
    assert tensors.keys() == wanted_tensors.keys()
    for step, values in tensors.items():
        assert values.keys() == wanted_tensors[step].keys()
        for name, value in values.items():
            assert value.tobytes() == wanted_tensors[step][name].tobytes(), (step, name)


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the engine catches it, and nothing after it is written."""


def die_at(monkeypatch, moment):
    """Die at the n-th call of os.fsync or os.replace; returns the counter."""
    calls = [0]

    def dying(original):
        def call(*arguments, **options):
            calls[0] += 1
            if calls[0] == moment:
                raise Killed
            return original(*arguments, **options)

        return call

    monkeypatch.setattr(os, "fsync", dying(os.fsync))
    monkeypatch.setattr(os, "replace", dying(os.replace))
    return calls


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_killed_at_any_write_resumes_to_the_same_bits(kind, tmp_path, monkeypatch):
    config = tiny.config(**KINDS[kind])
    loop.train(config, tmp_path / "before", checkpoints=3)  # what it compiles is kept from here on
    with monkeypatch.context() as patch:
        calls = die_at(patch, 0)
        loop.train(config, tmp_path / "whole", checkpoints=3)
    assert calls[0] > 20
    resumed = 0
    for moment in range(1, calls[0] + 1):
        path = tmp_path / f"killed{moment}"
        with monkeypatch.context() as patch, pytest.raises(Killed):
            die_at(patch, moment)
            loop.train(config, path, checkpoints=3)
        if (path / "config.yaml").exists():
            loop.resume(path, checkpoints=3)
            assert_same(path, tmp_path / "whole")
            assert not list(path.rglob("*.tmp")) or moment < 12
            resumed += 1
        shutil.rmtree(path)
    assert resumed > 15


def test_a_run_killed_twice_resumes_to_the_same_bits(tmp_path, monkeypatch):
    config = tiny.config(**KINDS["ppg-ewma"])
    loop.train(config, tmp_path / "whole", checkpoints=4)
    for moment, step in ((25, loop.train), (9, loop.resume)):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            die_at(patch, moment)
            step(*([config] if step is loop.train else []), tmp_path / "run", checkpoints=4)
    loop.resume(tmp_path / "run", checkpoints=4)
    assert_same(tmp_path / "run", tmp_path / "whole")


def flags_of(config):
    given = [f"--{name}={value}" for name, value in tiny.BASE.items() if name != "hidden_sizes"]
    return ["CartPole-v1", "--preset", "none", "--hidden-sizes", "8", *given, *config]


def trimtab(*arguments, script=("-m", "trimtab"), given=os.environ, **options):
    paths = [str(Path(__file__).parent), given.get("PYTHONPATH", "")]
    environment = given | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, *script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900, **options)


def one_line(result):
    """The message of a refusal: exit code 2, one line, no traceback."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("trimtab: "), result.stderr
    return lines[0]


def test_a_process_killed_with_sigkill_resumes_to_the_same_bits(tmp_path):
    """In the middle of a checkpoint; a second process is refused while one writes, and a new run into its directory."""
    loop.train(tiny.config(), tmp_path / "whole", checkpoints=3)
    arguments = ["train", *flags_of([]), "--run-dir", tmp_path / "run", "--checkpoints", "3", "--quiet"]
    killed = trimtab(15, *arguments, script=(Path(__file__).parent / "killed.py",))
    assert killed.returncode == -signal.SIGKILL
    assert list((tmp_path / "run" / "checkpoints").glob(".*.tmp"))
    assert "already exists" in one_line(trimtab(*arguments))
    with RunDir(tmp_path / "run").writing():
        assert "another process" in one_line(trimtab("resume", tmp_path / "run"))
    result = trimtab("resume", tmp_path / "run", "--checkpoints", "3", "--quiet")
    assert result.returncode == 0, result.stderr
    assert_same(tmp_path / "run", tmp_path / "whole")


def test_a_process_killed_while_it_trains_resumes_to_the_same_bits(tmp_path):
    """Compiled as for a user, where all other tests compile cheaply."""
    plain = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    changes = ["--total-timesteps", "64000", "--num-envs", "16", "--num-steps", "16"]
    arguments = ["train", *flags_of(changes), "--checkpoints", "250", "--quiet"]
    assert trimtab(*arguments, "--run-dir", tmp_path / "whole", given=plain).returncode == 0
    command = [sys.executable, "-m", "trimtab", *map(str, arguments), "--run-dir", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=plain)
    deadline = time.time() + 600
    while len(list((tmp_path / "run" / "checkpoints").glob("[0-9]*"))) < 8 and time.time() < deadline:
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert trimtab("resume", tmp_path / "run", "--checkpoints", "250", "--quiet", given=plain).returncode == 0
    assert_same(tmp_path / "run", tmp_path / "whole")


def test_a_run_none_of_whose_checkpoints_can_be_read_keeps_its_records(tmp_path):
    run = loop.train(tiny.config(), tmp_path / "run", checkpoints=2).files
    for checkpoint in run.checkpoints():
        (checkpoint.path / "state.safetensors").write_bytes(b"damaged")
    before = (tmp_path / "run" / "metrics.jsonl").read_text()
    with pytest.raises(RunError, match=r"no checkpoint of .* can be read, and its records would be lost"):
        loop.resume(tmp_path / "run", say=lambda text: None)
    assert before and (tmp_path / "run" / "metrics.jsonl").read_text() == before
    assert len(run.checkpoints()) == 3


def test_runs_of_the_first_version_are_read(tmp_path):
    """Their moments of advantages were sums; a checkpoint in its words goes on as one in ours does."""
    loop.train(tiny.config(norm_adv="ewma", norm_adv_span=5.0), tmp_path / "run", checkpoints=2)
    _, engine, state, _ = engine_setup.load_engine(tmp_path / "run", None)
    now = snapshot.pack(engine.algorithm, state)
    count, mean, deviation = (np.float64(now.pop(f"state.advantages.{n}")) for n in ("count", "mean", "deviation"))
    sums = {"count": count, "total": count * mean, "square": deviation + count * mean**2}
    then = now | {f"state.advantages.{name}": np.float32(value) for name, value in sums.items()}
    back = snapshot.unpack(engine.algorithm, state, then).advantages
    np.testing.assert_allclose([back.count, back.mean, back.std], [count, mean, state.advantages.std], rtol=1e-3)


def test_a_damaged_checkpoint_is_passed_over_with_a_message(tmp_path):
    config, said = tiny.config(**KINDS["ppo"]), []
    loop.train(config, tmp_path / "whole", checkpoints=3)
    shutil.copytree(tmp_path / "whole", tmp_path / "run")
    newest = RunDir(tmp_path / "run").checkpoints()[-1]
    file = newest.path / "state.safetensors"
    data = bytearray(file.read_bytes())
    data[-10] ^= 0xFF
    file.write_bytes(data)
    loop.resume(tmp_path / "run", checkpoints=3, say=said.append)
    assert len(said) == 1 and f"checkpoint {newest.step}" in said[0] and "falling back" in said[0]
    assert_same(tmp_path / "run", tmp_path / "whole")


def test_buffers_collected_after_the_checkpoint_resumed_from_are_forgotten(tmp_path):
    config = tiny.config(**KINDS["stale"])
    loop.train(config, tmp_path / "run", checkpoints=3)
    run = RunDir(tmp_path / "run")
    before = run.checkpoints()[-2]
    assert run.has_buffer("queue", before.iteration)
    run.rewind(before)
    assert not run.has_buffer("queue", before.iteration)
    assert run.has_buffer("queue", before.iteration - 1)


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    config = tiny.config(**KINDS["ppo"])
    loop.train(config, tmp_path / "run", checkpoints=3)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    assert loop.resume(tmp_path / "run", checkpoints=3).finished
    assert_same(tmp_path / "run", tmp_path / "copy")


def test_a_second_writer_and_a_full_directory_are_refused(tmp_path):
    loop.train(tiny.config(), tmp_path / "run", checkpoints=1)
    with RunDir(tmp_path / "run").writing(), pytest.raises(RunError, match="another process"):
        loop.resume(tmp_path / "run")
    with pytest.raises(RunError, match="not empty"):
        loop.train(tiny.config(), tmp_path / "run")
    with pytest.raises(RunError, match="not a run directory"):
        loop.resume(tmp_path)


def test_an_absurd_step_size_stops_the_run_and_leaves_a_good_checkpoint(tmp_path, capsys, monkeypatch):
    """Weights overflow within a few steps of this size; the message names what broke."""
    config = tiny.config(learning_rate=1e3, optimizer="sgd", max_grad_norm=None, vf_coef=1e6, total_timesteps=640)
    path = str(tmp_path / "run")
    with pytest.raises(loop.NonFinite, match="not finite at iteration"):
        loop.train(config, path, checkpoints=40)
    run = RunDir.open(path)
    assert "gradient" in run.metrics()[-1].not_finite, "the record says why it ends"
    last = run.checkpoints()[-1]
    assert all(np.isfinite(v).all() for v in run.read_checkpoint(last).values() if v.dtype.kind == "f")
    assert math.isfinite(evaluate_run(path, 2).mean_reward)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["resume", path, "--quiet"])
    message = capsys.readouterr().err
    assert stopped.value.code == 2 and message.count("\n") == 1 and "Traceback" not in message
    assert any(name in message for name in ("value", "parameters", "gradient", "advantage"))
    assert f"step {last.step}" in message


def test_host_environments_are_not_stepped_by_a_broken_policy(tmp_path, monkeypatch):
    """The update that breaks is the last thing that happens, also between two checkpoints."""
    launches, launch = [], HostEngine.launch
    monkeypatch.setattr(HostEngine, "launch", lambda *a: launches.append(1) or launch(*a))
    config = tiny.config(
        backend="gymnasium", learning_rate=1e3, optimizer="sgd", max_grad_norm=None, vf_coef=1e6, total_timesteps=640
    )
    with pytest.raises(loop.NonFinite, match="not finite at iteration") as stopped:
        loop.train(config, tmp_path / "run", checkpoints=1)
    assert f"at iteration {len(launches)} " in str(stopped.value) and len(launches) < config.iterations


def test_a_poisoned_reward_is_named(tmp_path):
    config = tiny.config(env_kwargs={"gravity": math.inf})
    with pytest.raises(loop.NonFinite, match=r"observation|reward"):
        loop.train(config, tmp_path / "run")


def test_evaluations_follow_their_schedule(tmp_path):
    config = tiny.config(eval_every=40, eval_episodes=3, total_timesteps=160)
    run = loop.train(config, tmp_path / "run")
    rows = run.files.evaluations()
    assert [row.step for row in rows] == [0, 48, 80, 128, 160]  # first iterations past 40, 80, 120, 160
    assert all(row.episodes == 3 and row.mean_reward == row.mean_ep_length for row in rows)
    assert run.evaluations.height == 5 and all(row.env_steps >= 6 * 8 for row in rows)


def test_an_evaluation_that_was_asked_for_is_remembered_beside_the_run(tmp_path):
    run = loop.train(tiny.config(total_timesteps=32, num_steps=8, num_envs=2), tmp_path / "run")
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    assert "never evaluated" in next(f for f in api.diagnose(run).findings if f.check == "evaluation").seen
    result = api.evaluate(run, episodes=2)
    finding = next(f for f in api.diagnose(run).findings if f.check == "evaluation")
    assert finding.value == result["eval/mean_reward"] and run.evaluations.height == 1
    assert run.files.evaluations() == [] and (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


def test_evaluations_wait_for_the_threshold(tmp_path):
    config = tiny.config(eval_every=16, eval_episodes=1, eval_threshold=1e9)
    assert loop.train(config, tmp_path / "never").files.evaluations() == []
    config = config.replace(eval_threshold=6.5, time_limit=7, total_timesteps=96)
    rows = loop.train(config, tmp_path / "some").files
    passed = [row.iteration for row in rows.metrics() if (row.mean_return or 0) >= 6.5]
    assert passed and [evaluation.iteration for evaluation in rows.evaluations()] == list(range(passed[0], 7))


def test_metrics_are_json_objects_and_episodes_a_table_of_sums(tmp_path):
    config = tiny.config(num_steps=32, total_timesteps=512, time_limit=20)
    run = loop.train(config, tmp_path / "run", checkpoints=3)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 8 and all(isinstance(row, dict) for row in rows)
    assert [row["time/total_timesteps"] for row in rows] == [64 * k for k in range(1, 9)]
    episodes = run.episodes
    assert (episodes["return"] == episodes["length"]).all()  # CartPole pays 1 a step
    assert episodes["length"].max() <= 20 and episodes.height > 10
    for env in (0, 1):
        mine = episodes.filter(episodes["env"] == env)
        assert (mine["step"] == 2 * mine["length"].cum_sum()).all()  # steps of both environments, no gap
    last = rows[-1]
    assert last["rollout/ep_rew_mean"] == pytest.approx(episodes["return"].tail(100).mean())


def test_repeat_finds_a_run_identical_and_names_the_first_metric_that_is_not(runs):
    loop.train(tiny.config(), runs / "run")
    result = repeat(runs / "run")
    assert result.identical and result.iterations == 4 and result.compared > 40
    first, second = (recorded(path)[0] for path in (runs / "run", result.run))
    assert first == second
    file = runs / "run" / "metrics.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[2]["train/value_loss"] += 1e-9
    rows[3]["train/approx_kl"] += 1.0
    rows[1]["time/fps"] = -1.0
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = repeat(runs / "run")
    assert not result.identical
    assert (result.first_difference.metric, result.first_difference.iteration) == ("train/value_loss", 3)
    assert cli.main(["repeat", str(runs / "run"), "--quiet"]) == 1


def test_tensorboard_events_are_written(tmp_path):
    from tensorboardX.proto import event_pb2
    from tensorboardX.record_writer import RecordWriter  # noqa: F401  (the format's own package is installed)

    loop.train(tiny.config(eval_every=32), tmp_path / "run", tensorboard=True)
    data = next((tmp_path / "run" / "tensorboard").glob("events*")).read_bytes()
    events, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "little")
        events.append(event_pb2.Event.FromString(data[at + 12 : at + 12 + size]))
        at += 12 + size + 4
    scalars = {(e.step, v.tag): v.simple_value for e in events for v in e.summary.value}
    rows = RunDir.open(tmp_path / "run").metrics()
    assert scalars[64, "train/value_loss"] == pytest.approx(rows[-1].numbers["train/value_loss"], rel=1e-5)
    assert (32, "eval/mean_reward") in scalars


def test_track_without_its_package_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    import importlib.util

    original = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "wandb" else original(name, *a))
    with pytest.raises(MissingPackage, match=r"--track needs a package: pip install 'trimtab\[wandb\]'"):
        loop.train(tiny.config(), tmp_path / "run", track=True)
    assert not (tmp_path / "run").exists()


def test_several_seeds_are_several_runs(tmp_path):
    result = trimtab("train", *flags_of([]), "--seeds", "2", "--seed", "5", "--run-dir", tmp_path / "all", "--json")
    assert result.returncode == 0, result.stderr
    summaries = json.loads(result.stdout)
    assert [s["seed"] for s in summaries] == [5, 6] and summaries[0]["aggregate_fps"] > 0
    five, six = (recorded(summary["run"])[0] for summary in summaries)
    assert len(five) == len(six) == 4 and five != six
    loop.train(tiny.config(seed=5), tmp_path / "alone")
    assert recorded(tmp_path / "alone")[0] == five
    assert "already exists" in one_line(
        trimtab("train", *flags_of([]), "--seeds", "2", "--seed", "6", "--run-dir", tmp_path / "all")
    )


@pytest.mark.parametrize("backend", ["native", "gymnasium", "envpool"])
def test_episodes_under_way_when_a_run_begins_are_counted_whole(backend, tmp_path):
    """Pendulum ends at its limit only: staggered or not, no recorded episode is shorter."""
    config = tiny.config(
        env_id="Pendulum-v1", backend=backend, stagger_resets=True, time_limit=20, num_steps=32, total_timesteps=128
    )
    episodes = loop.train(config, tmp_path / "run", checkpoints=1).episodes
    assert episodes.height and set(episodes["length"].to_list()) == {20}, "nothing of an episode is forgotten"


def test_a_run_killed_before_its_first_step_staggers_its_environments_anew(tmp_path):
    """They were reset, and the checkpoint's observations are those of environments that had walked on."""
    config = tiny.config(
        env_id="Pendulum-v1", backend="gymnasium", stagger_resets=True, time_limit=20, num_steps=32, total_timesteps=128
    )
    loop.train(config, tmp_path / "run", checkpoints=1, until=0)
    episodes = loop.resume(tmp_path / "run", say=lambda text: None).episodes
    assert set(episodes["length"].to_list()) == {20}
    assert len(set(episodes["step"].to_list())) == episodes.height, "out of step"


def test_rewards_of_other_episodes_do_not_count_where_every_iteration_restarts():
    config = tiny.config(algo="reinforce", baseline=False, norm_reward=True, time_limit=8, num_steps=8)
    bench = tiny.bench(config)
    state = bench.init(jax.random.key(0), hypers_of(config))
    scale = state.reward_scale._replace(total=state.reward_scale.total + 7.0)
    state, _ = bench.collect(replace(state, reward_scale=scale), hypers_of(config))
    assert not state.reward_scale.total.any()


@pytest.mark.parametrize("backend", ["gymnasium", "envpool"])
def test_host_environments_train_resume_and_evaluate(backend, tmp_path, monkeypatch):
    pytest.importorskip(backend)
    config = tiny.config(
        backend=backend,
        norm_reward=True,
        stagger_resets=True,
        time_limit=60,
        total_timesteps=480,
        eval_every=480,
        num_steps=40,
    )
    loop.train(config, tmp_path / "whole", checkpoints=3)
    run = RunDir.open(tmp_path / "whole")
    assert len(run.metrics()) == 6 and len(run.evaluations()) == 2 and run.episodes().height > 5
    masked = sum(row.numbers["rollout/masked"] for row in run.metrics())
    assert (masked > 0) == (backend == "envpool")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        die_at(patch, 30)  # in the third checkpoint
        loop.train(config, tmp_path / "run", checkpoints=3)
    loop.resume(tmp_path / "run", checkpoints=3)
    run = RunDir.open(tmp_path / "run")
    assert [row.iteration for row in run.metrics()] == list(range(1, 7))
    assert "new episodes" in run.manifest().determinism
    assert repeat(tmp_path / "whole", tmp_path / "again").identical


@pytest.mark.parametrize("backend, num_envs", [("gymnasium", 2), ("envpool", 2), ("envpool", 3)])
@pytest.mark.parametrize("arch", ["shared", "detach", "dual"])
def test_a_shared_trunk_says_values_while_acting(arch, backend, num_envs):
    """The same that the critic says afterwards, which is then not asked; in EnvPool in halves and whole."""
    engine = build_engine(tiny.config(backend=backend, num_envs=num_envs, total_timesteps=48, arch=arch))
    state = engine.init(1)
    engine.compile(state)
    noise = engine._draw(state.key)[1]
    _, rows = engine._collect(state.params, state.obs_stats, state.env, noise, engine._act_hypers)
    if arch == "dual":
        assert rows.value is None
    else:
        wanted = engine.algorithm.values(state.params, rows.obs)
        np.testing.assert_allclose(rows.value, wanted, rtol=1e-5, atol=1e-6)
    assert all(np.all(x) for x in engine.launch(state, 1)[1]().finite.values())
    engine.close()


def test_stepping_inside_a_compiled_program_changes_no_run(tmp_path, monkeypatch):
    """CartPole in EnvPool, no episode cut: the same metrics as stepped from Python."""
    config = tiny.config(backend="envpool", norm_obs=True, total_timesteps=480, num_steps=40)
    loop.train(config, tmp_path / "streamed")
    monkeypatch.setattr(envpool_backend.PoolEnv, "stream", lambda self: None)
    loop.train(config, tmp_path / "stepped")
    streamed, stepped = (recorded(tmp_path / name)[0] for name in ("streamed", "stepped"))
    assert len(streamed) == len(stepped) == 6
    for here, there in zip(streamed, stepped):
        assert here == pytest.approx(there, rel=1e-3, abs=1e-4)


def test_environments_are_not_closed_under_a_program_that_steps_them():
    """As an interrupt may ask for: closing waits until the program is done."""
    engine = build_engine(tiny.config(backend="envpool", num_envs=8, num_steps=16384, total_timesteps=131072))
    state = engine.init(0)
    engine.compile(state)
    _, noise = engine._draw(state.key)
    _, rows = engine._collect(state.params, state.obs_stats, state.env, noise, {})
    assert not rows.obs.is_ready()
    engine.close()
    assert rows.obs.is_ready()


def test_two_runs_started_at_once_take_two_names(runs, monkeypatch):
    """Both look before either makes its directory: the later one takes the next name."""
    first, looks = loop.numbered_path(Path("runs"), "CartPole-v1/ppo-seed1"), []
    look = loop.numbered_path
    monkeypatch.setattr(loop, "numbered_path", lambda *a: looks.append(1) or (first if len(looks) < 3 else look(*a)))
    names = [loop.train(tiny.config(total_timesteps=16)).path.name for _ in range(2)]
    assert names == ["ppo-seed1-1", "ppo-seed1-2"] and len(looks) == 3


def test_programs_of_one_process_are_not_kept():
    """Only what is compiled outside `not_cached` is found in the compilation cache."""

    def compiled(name: str) -> bool:
        function = lambda x: x + 1.0
        function.__name__ = name
        jax.jit(function).lower(jax.ShapeDtypeStruct((3,), np.float32)).compile()
        return any(Path(jax.config.jax_compilation_cache_dir).glob(f"jit_{name}-*"))

    unique, least = f"p{os.getpid()}_{time.time_ns()}", jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    try:
        with device.not_cached():
            assert not compiled(f"{unique}_alone")
        assert compiled(f"{unique}_kept")
    finally:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", least)


def test_a_run_read_back_is_the_configuration_it_was_given(tmp_path):
    import trimtab as package

    config = tiny.config(**KINDS["stale"], hidden_sizes=(8, 4), env_kwargs={"gravity": 5.0}, clip_vloss=0.1)
    run = loop.train(config, tmp_path / "run", checkpoints=2)
    opened = package.load(tmp_path / "run")
    assert opened.config == config == RunDir(tmp_path / "run").config() and opened.finished
    assert [c.step for c in run.checkpoints] == [0, 48, 96]
    assert opened.metrics.height == 6


def test_a_run_that_goes_on_forgets_what_had_ended_it(tmp_path):
    run = loop.train(tiny.config(total_timesteps=64), tmp_path / "run", until=0)
    run.files.write_manifest(ended="an error")
    assert "ended by an error: an error" in repr(run)
    resumed = loop.resume(tmp_path / "run", say=lambda text: None)
    assert not resumed.files.manifest().ended and "ended" not in repr(resumed)


def test_a_resume_that_is_refused_changes_nothing(tmp_path, capsys):
    loop.train(tiny.config(), tmp_path / "run", checkpoints=2)
    run = RunDir(tmp_path / "run")
    os.truncate(run.log, run.log.stat().st_size // 2)
    read = lambda: {f: f.read_bytes() for f in run.path.rglob("*") if f.is_file() and f.name != ".lock"}
    before = read()
    with pytest.raises(SystemExit) as ended:
        cli.main(["resume", str(run.path), "--total-timesteps", "128", "--quiet"])
    assert ended.value.code == 2 and read() == before
    assert "nothing was changed" in capsys.readouterr().err
