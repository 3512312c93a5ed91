"""Jobs and where they are done: identity, order, failure, death, interrupts, and the same records everywhere."""

import dataclasses
import json
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import tiny

from studies.jobs import Add, Count, Die, Fail, Greedy, Needy, Wide
from trimtab import config as configuration
from trimtab.config import ConfigError
from trimtab.core import trust
from trimtab.gradient.probe_options import ProbeOptions
from trimtab.studies import local_workers as local
from trimtab.studies.executor import Inline, Queue, executor
from trimtab.studies.job import Probe, Train, from_dict
from trimtab.studies.local_workers import Local
from trimtab.studies.store import Store
from trimtab.training.engine_cache import EngineCache
from trimtab.training.run_dir import RunDir


@pytest.fixture(autouse=True)
def ends():
    """A test that hangs ends."""
    signal.alarm(900)
    yield
    signal.alarm(0)


@pytest.fixture(params=["inline", "local"])
def place(request):
    doer = Inline() if request.param == "inline" else Local(2)
    yield doer
    doer.close()


def done(store: Store) -> list[str]:
    file = store.path / "done.log"
    return sorted(file.read_text().splitlines()) if file.exists() else []


def test_two_workers_compile_two_shapes_before_either_compiles_the_others():
    jobs = [Train(tiny.config(num_envs=n, seed=seed)) for n in (2, 4) for seed in (1, 2)]
    queue = Queue(jobs)
    assert queue.ready(2) == [jobs[0], jobs[2]]
    assert queue.ready(1, under_way=[jobs[2]]) == [jobs[1]]
    assert queue.ready(2, under_way=[jobs[2]]) == [jobs[3]], "where nothing else is left"
    numbers = [Train(tiny.config(learning_rate=rate)).shape for rate in (1e-3, 1e-4)]
    assert numbers[0] == numbers[1], "numbers are swapped in"


def test_a_job_alone_has_all_the_cores(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "cores", lambda: 4)
    doer = Local(2)
    for numbers, share in (([0], 4), ([1, 2, 3], 2), ([0, 4], 4)):  # the last finds one of its two done
        given = {o.job.number: o.result["threads"] for o in doer.run(map(Greedy, numbers), Store(tmp_path))}
        assert given[numbers[-1]] == share
    doer.close()


def test_jobs_on_several_devices_take_as_many_places_and_have_workers_of_their_own(tmp_path):
    queue = Queue([Wide(0), Wide(1), Wide(2, 1), Wide(3, 1), Wide(4, 1)])
    given = [[job.number for job in queue.ready(free)] for free in (-1, 0, 2, 1, 2)]
    assert given == [[], [], [0], [1], [2, 3]]
    local = Local(2)
    try:
        (first,), (second,), (third,) = (
            list(local.run([job], Store(tmp_path))) for job in (Wide(0), Wide(1), Wide(2, 1))
        )
    finally:
        local.close()
    assert first.result["process"] == second.result["process"] != third.result["process"]


# Identity ------------------------------------------------------------------------------------------------------


def test_a_job_survives_being_written_and_read():
    train = Train(tiny.config(hidden_sizes=(8, 8), env_kwargs={"a": 1}), checkpoints=3)
    probe = Probe(train, (16, 32), ProbeOptions(replicates=4, blocks=(2,)), (0.0, 0.95))
    trust.trust("studies.jobs")
    for job in (train, probe, Add(Count(2), Count(3))):
        again = from_dict(json.loads(json.dumps(job.as_dict())))
        assert again == job and again.identity == job.identity


def test_whatever_changes_a_job_changes_its_identity_and_nothing_else_does():
    config = tiny.config()
    first = Train(config)
    assert Train(tiny.config()).identity == first.identity
    others = [
        Train(config.replace(seed=2)),
        Train(config.replace(learning_rate=0.02)),
        Train(config, checkpoints=3),
        Probe(first, (16,)),
        Probe(first, (32,)),
        Probe(Train(config.replace(seed=2)), (16,)),
        Probe(first, (16,), ProbeOptions(replicates=5)),
        Probe(first, (16,), gae_lambda=(0.5,)),
    ]
    assert len({first.identity, *(job.identity for job in others)}) == len(others) + 1


# Doing ---------------------------------------------------------------------------------------------------------


def test_every_outcome_comes_once_after_what_it_needs(place, tmp_path):
    store, a, b = Store(tmp_path), Count(3), Count(4)
    steps: dict = {}
    outcomes = list(place.run([Add(a, b), Add(a, Count(5)), b], store, lambda job, n: steps.__setitem__(str(job), n)))
    order = [str(o.job).split(":")[1] for o in outcomes]
    assert sorted(order) == ["Add 3+4", "Add 3+5", "Count 3", "Count 4", "Count 5"]
    assert order.index("Add 3+4") > max(order.index("Count 3"), order.index("Count 4"))
    assert {o.job.label: o.result["sum"] for o in outcomes}["3+5"] == 21
    assert done(store) == ["add 3+4", "add 3+5", "count 3", "count 4", "count 5"]


def test_what_is_done_is_not_done_again_also_not_for_another_study(place, tmp_path):
    store = Store(tmp_path)
    list(place.run([Count(3)], store))
    again = list(place.run([Add(Count(3), Count(2))], store))
    assert len(again) == 3 and done(store) == ["add 3+2", "count 2", "count 3"]


def test_a_job_that_fails_takes_nothing_with_it_but_what_needs_it(place, tmp_path):
    outcomes = {str(o.job): o for o in place.run([Needy(Fail()), Count(2)], Store(tmp_path))}
    failed = {name: o.error for name, o in outcomes.items() if not o.done}
    assert len(outcomes) == 3 and len(failed) == 2
    assert failed["studies.jobs:Fail on purpose"] == "num_envs: 0 is not positive"
    assert "needs studies.jobs:Fail on purpose, which failed" in failed["studies.jobs:Needy needy"]
    assert Store(tmp_path).outcome(Fail()) is None


@pytest.mark.parametrize("times, survives", [(1, True), (2, False)])
def test_a_worker_that_dies_costs_one_try(times, survives, tmp_path):
    local = Local(1)
    try:
        (outcome,) = local.run([Die(times)], Store(tmp_path))
        (after,) = local.run([Count(1)], Store(tmp_path))  # and another worker stands in for it
    finally:
        local.close()
    assert outcome.done is survives and after.done
    assert survives or outcome.error == "its worker ended by SIGKILL: last words"


def test_workers_killed_at_random_lose_nothing_and_do_nothing_twice(tmp_path):
    """Twenty kills in the middle of jobs that take checkpoints: they go on where they were, each is done once."""
    local, store, rng, kills = Local(2), Store(tmp_path), random.Random(0), 0
    jobs = [Count(8, 0.04, f"{k}") for k in range(24)]
    moments = {job.identity: rng.randrange(1, 5) for job in rng.sample(jobs, 20)}  # each dies once, somewhere

    def shoot(job, steps):
        nonlocal kills
        if steps >= moments.get(job.identity, 99):
            del moments[job.identity]
            next(w for w in local._busy() if w.job == job).process.kill()
            kills += 1

    try:
        outcomes = list(local.run(jobs, store, shoot))
    finally:
        local.close()
    assert kills == 20 and {o.result["sum"] for o in outcomes} == {36} and len(outcomes) == len(jobs)
    assert done(store) == sorted(f"count {job.label}" for job in jobs)


def test_two_studies_that_share_a_store_do_a_job_once(tmp_path):
    both, jobs = [Local(1), Local(1)], [Count(20, 0.02)]
    found: list = []
    threads = [threading.Thread(target=lambda d=d: found.extend(d.run(jobs, Store(tmp_path)))) for d in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for doer in both:
        doer.close()
    assert [o.result["sum"] for o in found] == [210, 210] and done(Store(tmp_path)) == ["count 20"]


def test_workers_end_with_who_started_them(tmp_path):
    """Killed outright, a parent cannot end its workers: they see that nobody listens any more."""
    code = f"""
from studies.jobs import Count
from trimtab.studies.local_workers import Local
from trimtab.studies.store import Store

local = Local(1)
say = lambda job, steps: print(local._workers[0].process.pid, flush=True)
list(local.run([Count(10_000, 0.01)], Store({str(tmp_path)!r}), say))
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
    )
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    deadline = time.time() + 120
    while time.time() < deadline and _alive(worker):
        time.sleep(0.05)
    assert not _alive(worker)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("on, workers", [("moon", None), ("local:here", None), ("local", 0)])
def test_places_that_are_none_are_refused(on, workers):
    with pytest.raises(ConfigError):
        executor(on, workers)


# Training ------------------------------------------------------------------------------------------------------


def recorded(path: Path) -> list[dict]:
    rows = RunDir.open(path).metrics()
    return [{k: v for k, v in row.as_dict().items() if not k.startswith("time/")} for row in rows]


def test_inline_and_local_give_the_same_records_and_a_killed_run_goes_on(tmp_path):
    config = tiny.config(env_id="FrozenLake-v1", total_timesteps=64_000, num_steps=16)
    jobs = [Train(config.replace(seed=s), checkpoints=20) for s in (1, 2)]
    local, stores = Local(1), (Store(tmp_path / "a"), Store(tmp_path / "b"))
    try:
        shot = []

        def shoot_once(job, steps):
            if steps > 3_000 and not shot:
                shot.append(steps)
                local._workers[0].process.kill()

        outcomes = list(local.run(jobs, stores[0], shoot_once))
    finally:
        local.close()
    assert shot and all(o.done for o in outcomes)
    inline = list(Inline().run(jobs, stores[1]))
    for job, there in zip(jobs, inline):
        assert recorded(stores[0].place(job)) == recorded(there.path)


def test_programs_are_kept_by_shape_and_by_nothing_less():
    config = tiny.config(env_id="FrozenLake-v1")
    static = {"hidden_sizes": (4,), "num_envs": 4, "update_epochs": 2, "surrogate": "kl", "norm_obs": True}
    for name, value in static.items():
        assert config.replace(**{name: value}).shape != config.shape, name
    assert config.replace(target_kl=0.1).shape != config.shape, "whether a number is there chooses code"
    around = {"seed": 9, "eval_every": 8, "eval_episodes": 2, "eval_threshold": 0.5}
    assert config.replace(learning_rate=0.5, total_timesteps=320, **around).shape == config.shape
    by_size = configuration.from_dict({"minibatch_size": config.minibatch}, config)
    assert by_size != config and by_size.shape == config.shape, "either way of giving the minibatch"
    engines = EngineCache(most=1)
    first = engines.get(config)
    second = engines.get(config.replace(learning_rate=0.5, seed=3))
    assert second is first and float(first.hypers["learning_rate"]) == 0.5 and first.algorithm.config.seed == 3
    assert engines.get(config.replace(num_envs=4)) is not first
    assert engines.get(config) is not first, "only so many are kept"


def test_every_field_of_a_job_is_plain():
    for cls in (Train, Probe):
        assert dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen
