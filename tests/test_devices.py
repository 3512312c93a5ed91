"""One run on several devices: the same update as on one, kills and resumes, other numbers of devices, refusals."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import jax
import numpy as np
import polars as pl
import pytest
from test_runs import assert_same, flags_of, one_line, recorded, trimtab

from trimtab import cli
from trimtab.advise.rescaling import rescale
from trimtab.config import Config, ConfigError
from trimtab.config.device_shares import averaged_gradients, with_devices
from trimtab.envs.base import Discrete, Spec
from trimtab.experiments.own.devices_learning import COLUMNS, Devices, _differences
from trimtab.training import hosts, resource_estimates
from trimtab.training.records import Checkpoint
from trimtab.training.run_dir import RunDir

HERE = Path(__file__).parent
SHARED = [
    "--num-envs",
    "4",
    "--devices",
    "2",
    "--staleness",
    "1",
    "--total-timesteps",
    "128",
    "--checkpoints",
    "4",
    "--quiet",
]


@pytest.mark.parametrize(("count", "case"), [(4, "ewma"), (2, "phasic"), (2, "episodes"), (2, "host")])
def test_the_first_update_is_that_of_one_device_on_the_same_samples(count, case):
    result = trimtab(count, case, script=(HERE / "sharded.py",))
    assert result.returncode == 0, result.stderr


def test_the_numbers_of_a_probe_do_not_depend_on_the_number_of_devices():
    result = trimtab(2, "probe", script=(HERE / "sharded.py",))
    assert result.returncode == 0, result.stderr


def test_a_killed_run_resumes_to_the_same_bits_on_as_many_devices_and_goes_on_with_others(tmp_path):
    whole = trimtab("train", *flags_of(SHARED), "--run-dir", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    manifest = RunDir.open(tmp_path / "whole").manifest()
    assert manifest.machine.devices == 2
    assert manifest.determinism == "a resumed run continues bit for bit on as many devices"
    arguments = [35, "train", *flags_of(SHARED), "--run-dir", tmp_path / "run"]
    assert trimtab(*arguments, script=(HERE / "killed.py",)).returncode == -signal.SIGKILL
    assert 0 < RunDir(tmp_path / "run").checkpoints()[-1].step < 96
    shutil.copytree(tmp_path / "run", tmp_path / "other")
    resumed = trimtab("resume", tmp_path / "run", "--checkpoints", "4", "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    assert_same(tmp_path / "run", tmp_path / "whole")

    moved = trimtab("resume", tmp_path / "other", "--devices", "1", "--checkpoints", "4", "--quiet")
    assert moved.returncode == 0, moved.stderr
    assert "devices 2 -> 1: from step 64 on not bit for bit as before" in moved.stderr
    other = RunDir.open(tmp_path / "other")
    assert other.config().devices == 1 and len(other.metrics()) == 4
    first, second = other.manifest().segments
    assert (first.devices, second.step, "devices 2 -> 1" in second.not_bit_for_bit) == (2, 64, True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_envs": 5}, "num_envs=5: 2 devices cannot share it equally; nearest: 4, 6"),
        ({"num_envs": 1}, "num_envs=1: 2 devices cannot share it equally; nearest: 2"),
        ({"num_envs": 2, "num_steps": 9, "minibatch_size": 9}, "minibatch_size=9: 2 devices .*nearest: 6, 18"),
        ({"num_envs": 2, "num_steps": 9, "num_minibatches": 2}, "num_minibatches=2: 2 devices .*nearest: 1, 3"),
        ({"algo": "ppg", "num_envs": 2, "num_steps": 9, "aux_minibatch_size": 9}, "aux_minibatch_size=9: 2 .*: 8, 12"),
        ({"minibatch_by": "rows", "num_minibatches": 4, "num_envs": 4, "num_steps": 5}, "num_minibatches=4: does not"),
        ({"devices": 0}, "devices=0: must be from 1"),
    ],
)
def test_what_devices_cannot_share_is_refused_with_the_nearest(fields, message):
    with pytest.raises(ConfigError, match=message):
        Config(**{"devices": 2} | fields)


def test_defaults_are_made_of_whole_shares():
    config = Config(devices=4, num_envs=4, num_steps=6)
    assert (config.minibatches, config.minibatch) == (3, 8)  # of 6 samples each, where one device would take 4 of 24
    assert (
        config.derived()["devices"] == "4, each with 1 environments and 2 samples of every minibatch, its own shuffled"
    )
    assert "devices" not in Config().derived()
    assert with_devices(config, 1).minibatches == 3


def test_missing_devices_are_refused(tmp_path, capsys):
    assert jax.device_count() == 1  # JAX has started here, with one
    with pytest.raises(SystemExit):
        cli.main(["train", *flags_of(["--num-envs", "4", "--devices", "2"]), "--run-dir", str(tmp_path / "a")])
    assert "devices=2: JAX has 1 in this process" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_the_study_of_learning_compares_two_devices_with_one_over_seeds():
    study = Devices(size="quick")
    jobs = study.jobs()
    assert len(jobs) == 2 * 3 * study.seeds and {job.devices for job in jobs} == {1, 2}
    rows = [("CartPole-v1", count, seed, 10.0 * count + seed, None) for count in (1, 2) for seed in range(3)]
    (found,) = _differences(pl.DataFrame(rows, schema=COLUMNS, orient="row")).to_dicts()
    assert (found["one device"], found["two devices"], found["seeds"]) == (11.0, 21.0, 3)
    assert found["lo"] < found["difference"] == 10.0 < found["hi"]


def test_rescaling_to_devices_and_back_leads_back():
    one = Config(algo="ppo-ewma", num_envs=16, num_steps=64, learning_rate=1e-3)
    four = rescale(one, devices=4).config
    assert (four.num_envs, four.devices, four.minibatches) == (64, 4, one.minibatches)
    assert four.learning_rate == pytest.approx(2e-3)
    back = rescale(four, devices=1)
    assert (back.config.num_envs, back.config.devices) == (16, 1)
    assert back.config.learning_rate == pytest.approx(one.learning_rate)
    assert [row.after for row in back.changes if row.field == "devices"] == [1]


def test_memory_of_a_device_is_its_share_and_all_parameters(capsys):
    spec = Spec("Box", "native", (3,), "float32", Discrete(2), 200, True)
    one, two = Config(num_envs=8), Config(num_envs=8, devices=2)
    each, whole = (
        resource_estimates.estimate_device_memory(two, spec, 1000),
        resource_estimates.estimate_memory(one, spec, 1000),
    )
    assert each.parts["rollout"] * 2 == whole.parts["rollout"]
    assert each.parts["parameters and optimizer"] == whole.parts["parameters and optimizer"]
    assert resource_estimates.estimate_memory(two, spec, 1000).total == 2 * each.total
    resource_estimates.check_memory(two, spec, 1000, each.total)  # an accelerator's memory is for its share
    with pytest.raises(ConfigError, match="needs at least"):
        resource_estimates.check_memory(two, spec, 1000, each.total - 1)
    assert cli.main(["plan", "CartPole-v1", "--num-envs", "8", "--devices", "2", "--json"]) == 0
    derived = json.loads(capsys.readouterr().out)["derived"]
    assert {"devices", "each of the devices", "averaged between them"} <= derived.keys()


def test_gradients_that_are_averaged_are_those_of_the_epochs_and_of_the_auxiliary_phases():
    config = Config(num_envs=2, num_steps=8, num_minibatches=4, update_epochs=1, value_epochs=3, total_timesteps=64)
    assert averaged_gradients(config) == 4 * 4 * 3
    phasic = config.replace(algo="ppg", policy_iterations=2, aux_epochs=5, aux_minibatch_size=16)
    assert averaged_gradients(phasic) == 4 * 4 * 3 + 2 * 5 * 2


# Several processes -----------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def pair(*arguments):
    """Two processes that share a run."""
    meeting = ["--hosts", "--coordinator", f"127.0.0.1:{free_port()}", "--num-processes", "2"]
    command = [sys.executable, "-m", "trimtab.cli", *map(str, arguments), *meeting]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [subprocess.Popen([*command, "--process-id", str(number)], **output) for number in range(2)]


def finished(processes):
    ended = [(process.communicate(timeout=900), process.returncode) for process in processes]
    assert [code for _, code in ended] == [0, 0], ended
    return [output for output, _ in ended]


def test_two_processes_give_the_records_of_one_with_two_devices_and_end_together(tmp_path):
    flags = [*flags_of(SHARED), "--eval-every", "64", "--eval-episodes", "2"]
    one = trimtab("train", *flags, "--run-dir", tmp_path / "one")
    assert one.returncode == 0, one.stderr
    (spoken, silent) = finished(pair("train", *flags, "--run-dir", tmp_path / "two"))
    assert "128 steps in" in spoken[0] and silent == ("", "")
    assert_close(recorded(tmp_path / "two"), recorded(tmp_path / "one"))

    long = [*flags_of(SHARED), "--total-timesteps", "320000", "--checkpoints", "1000", "--run-dir", tmp_path / "long"]
    for lost in (0, 1):
        processes = pair(*(["train", *long] if lost == 0 else ["resume", tmp_path / "long", "--quiet"]))
        reached = (RunDir(tmp_path / "long").checkpoints() or [Checkpoint(0, tmp_path, {})])[-1].step
        wait_for(lambda reached=reached: RunDir(tmp_path / "long").checkpoints()[-1].step > reached)
        processes[lost].kill()
        _, said = processes[1 - lost].communicate(timeout=300)
        assert processes[1 - lost].returncode == 3
        assert said.strip() == "trimtab: another process of this run was lost; resume it from the last checkpoint"
        processes[lost].communicate(timeout=300)


def test_every_process_steps_host_environments_of_its_own(tmp_path):
    flags = [*flags_of(SHARED), "--backend", "gymnasium", "--eval-every", "64", "--eval-episodes", "2"]
    one = trimtab("train", *flags, "--run-dir", tmp_path / "one")
    assert one.returncode == 0, one.stderr
    assert "a resumed run starts new episodes" in RunDir.open(tmp_path / "one").manifest().determinism
    finished(pair("train", *flags, "--run-dir", tmp_path / "two"))
    (metrics, evaluations, _, one), (more, _, _, two) = recorded(tmp_path / "one"), recorded(tmp_path / "two")
    assert len(more) == len(metrics) == 4 and len(evaluations) == 3
    first, seen = min(step for step in one if step), "state.env.obs"
    np.testing.assert_allclose(two[first][seen][:2], one[first][seen][:2], rtol=1e-4)  # those of the first process
    assert not np.isclose(two[first][seen][2:], one[first][seen][2:]).all(axis=1).any()


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        ("ValueError('UNKNOWN: Gloo AllGather failed: Read error')", 3, ""),
        ("jax.errors.JaxRuntimeError('INTERNAL: x')", 3, ""),
        ("ConfigError('devices', 2, 'no')", 2, "trimtab: devices=2: no"),
        ("KeyboardInterrupt('go on')", 130, "trimtab: interrupted; go on"),
    ],
)
def test_whatever_ends_a_process_of_many_ends_it_at_once_with_a_line_or_none(raised, code, said, capfd):
    child = os.fork()
    if child == 0:
        try:
            with hosts.ending_at_once():
                raise eval(raised)
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code
    assert capfd.readouterr().err.strip() == said


def wait_for(happened, seconds: float = 600) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(IndexError, OSError):
            if happened():
                return
        time.sleep(0.2)
    raise TimeoutError


def assert_close(found, wanted):
    """Records up to rounding."""
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_meetings_that_cannot_be_are_refused():
    refused = lambda *flags: one_line(trimtab("train", "CartPole-v1", *flags))
    assert "process_id=1: needs --hosts" in refused("--process-id", "1")
    half = refused("--hosts", "--coordinator", "127.0.0.1:1")
    assert half.endswith("num_processes=None: coordinator, num_processes and process_id belong together; give all")
    beyond = refused("--hosts", "--coordinator", "127.0.0.1:1", "--num-processes", "2", "--process-id", "2")
    assert beyond.endswith("process_id=2: must be below num_processes; nearest: 1")
