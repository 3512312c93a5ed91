"""The executor on a Ray cluster of two nodes on this machine: the same outcomes as in this process, and a lost node."""

import os
import signal
import socket
import sys

import pytest
import tiny

from studies.jobs import Add, Count, Fail, Needy
from studies.small import shown, small_grid, small_variances
from studies.test_executor import recorded
from trimtab.core.errors import RunError
from trimtab.core.writing import write_json
from trimtab.studies.executor import Inline
from trimtab.studies.job import Train
from trimtab.studies.ray_workers import OnRay, _pack, _refuse_silence, _unpack
from trimtab.studies.store import Store
from trimtab.studies.study_engine import ExecutionOptions, _drive, run_study


@pytest.fixture(autouse=True)
def ends():
    """A test that hangs ends."""
    signal.alarm(900)
    yield
    signal.alarm(0)


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one processor each; their processes find what this one finds."""
    from ray.cluster_utils import Cluster

    paths = os.pathsep.join(path for path in sys.path if path)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("PYTHONPATH", paths), ("RAY_USAGE_STATS_ENABLED", "0")):
            patch.setenv(name, value)
        soon = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 3}
        head = {"num_cpus": 1, "include_dashboard": False, "_system_config": soon}  # soon: until a lost node is known
        made = Cluster(initialize_head=True, head_node_args=head)
        made.second = made.add_node(num_cpus=1)
        yield made
        made.shutdown()


@pytest.fixture(scope="module")
def on_ray(cluster):
    doer = OnRay(cluster.address)
    yield doer
    doer.close()


def told(outcomes):
    return {str(o.job): (o.done, o.result, o.error) for o in outcomes}


def test_outcomes_are_those_of_this_process(on_ray, tmp_path):
    jobs = [Add(Count(3), Count(4)), Add(Count(3), Count(5)), Needy(Fail())]
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    outcomes = list(on_ray.run(jobs, there))
    assert on_ray.workers == 2 and len(outcomes) == 7
    assert told(outcomes) == told(Inline().run(jobs, here))
    for job in (job for job in (*jobs[:2], Count(3)) if there.outcome(job)):
        assert sorted(f.name for f in there.place(job).iterdir()) == sorted(f.name for f in here.place(job).iterdir())
    assert told(on_ray.run(jobs[:2], there)) == told(Inline().run(jobs[:2], there)), "what the store has is not done"


def test_training_there_writes_what_training_here_writes(on_ray, tmp_path):
    job = Train(tiny.config(env_id="FrozenLake-v1", total_timesteps=640), checkpoints=2)
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    (twin,) = Inline().run([job], here)  # compiles what the other then finds compiled
    (outcome,) = on_ray.run([job], there)
    assert outcome.done, outcome.error
    assert recorded(outcome.path) == recorded(twin.path) and recorded(outcome.path)
    assert outcome.path == there.place(job) and outcome.result["area"] == twin.result["area"]


@pytest.mark.parametrize("small", [small_grid, small_variances])
def test_a_study_there_shows_what_it_shows_here(small, on_ray, tmp_path, monkeypatch):
    """Page, tables and answer, byte for byte apart from the time it took."""
    study = small(monkeypatch)
    run_study(study, tmp_path / "here", ExecutionOptions(on="inline"))
    answer, outcomes = _drive(study, tmp_path / "there", on_ray, Store(tmp_path / "there" / "store"))
    write_json(tmp_path / "there" / "result.json", answer.as_dict())
    study.present(answer, outcomes, tmp_path / "there")
    assert answer.verdicts and shown(tmp_path / "there") == shown(tmp_path / "here")


def test_a_lost_node_loses_nothing(on_ray, cluster, tmp_path):
    jobs, lost = [Count(20, 0.05, f"{k}") for k in range(6)], []

    def lose(job, steps):
        if steps > 3 and not lost:
            lost.append(job)
            cluster.remove_node(cluster.second, allow_graceful=False)

    outcomes = list(on_ray.run(jobs, Store(tmp_path), lose))
    assert lost and sorted(o.job.label for o in outcomes) == sorted(job.label for job in jobs)
    assert [o.error or o.result["sum"] for o in outcomes] == [210] * len(jobs)


def test_an_archive_is_whole_and_leaves_locks_behind(tmp_path):
    place = tmp_path / "job"
    (place / "deep").mkdir(parents=True)
    (place / "deep" / "a.txt").write_text("a")
    (place / "x.lock").touch()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "old.txt").touch()
    _unpack(_pack(place), tmp_path / "there")
    assert [str(f.relative_to(tmp_path / "there")) for f in sorted((tmp_path / "there").rglob("*"))] == [
        "deep",
        "deep/a.txt",
    ]


def test_an_address_where_nobody_listens_is_refused_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(RunError, match="no Ray cluster listens"):
        _refuse_silence(f"127.0.0.1:{port}")
