"""Studies: interrupted and resumed, with jobs that fail, sharing a store, and what they would cost."""

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import polars as pl
import pytest
import tiny

from studies.jobs import Add, Count, Fail, Needy
from studies.test_executor import done
from trimtab.config import Config
from trimtab.core.errors import RunError
from trimtab.envs import EnvError
from trimtab.experiments import catalogue, costs, trained_runs
from trimtab.experiments.source_study import SourceStudy, Tables
from trimtab.studies import study_engine
from trimtab.studies.executor import Inline
from trimtab.studies.job import Train
from trimtab.studies.seeds_study import Seeds
from trimtab.studies.split_study import Split, SplitOptions
from trimtab.studies.store import Outcome, Store
from trimtab.studies.study_engine import ExecutionOptions, Outcomes, Study
from trimtab.studies.study_result import StudyResult, StudyTime
from trimtab.studies.tune_study import Tune, TuneOptions
from trimtab.training import loop

INLINE = ExecutionOptions(on="inline")


@dataclass(frozen=True, kw_only=True, repr=False)
class SumsResult(StudyResult):
    sum: int


@dataclass(frozen=True)
class Sums(Study[SumsResult]):
    """Count, then add the two largest sums: a second round that follows from the first."""

    kind: ClassVar[str] = "sums"
    result: ClassVar[type[SumsResult]] = SumsResult
    title: ClassVar[str] = "sums"
    numbers: tuple[int, ...] = (2, 3)

    def asked(self):
        return {"numbers": list(self.numbers)}

    @classmethod
    def again(cls, asked):
        return cls(tuple(asked["numbers"]))

    def work(self, out):
        counts = [Count(n) for n in self.numbers]
        outcomes = yield counts
        largest = sorted(counts, key=lambda c: outcomes.of(c).result["sum"])[-2:]
        total = Add(*largest)
        outcomes = yield [total]
        return SumsResult(sum=outcomes.of(total).result["sum"])

    def present(self, answer, outcomes, out):
        (out / "page.html").write_text(f"{answer.sum} from {len(outcomes)} jobs")


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setitem(catalogue.KINDS, "sums", Sums)


def interrupted(monkeypatch, after: int):
    """An interrupt (as Ctrl-C is) in the middle of the job after so many."""
    count, do = 0, Count.do

    def once(self, context):
        nonlocal count
        if (count := count + 1) > after:
            monkeypatch.setattr(Count, "do", do)
            raise KeyboardInterrupt
        return do(self, context)

    monkeypatch.setattr(Count, "do", once)


def test_rounds_follow_from_outcomes_until_there_is_an_answer(tmp_path):
    answer = study_engine.run_study(Sums((2, 3, 4)), tmp_path / "out", INLINE, command="trimtab sums")
    assert answer.sum == 6 + 10 and answer.page == str(tmp_path / "out" / "page.html")
    assert (tmp_path / "out" / "page.html").read_text() == "16 from 4 jobs"
    assert json.loads((tmp_path / "out" / "result.json").read_text())["sum"] == 16
    assert catalogue.read_answer(tmp_path / "out") == answer
    with pytest.warns(DeprecationWarning, match="use result.sum"):
        assert answer["sum"] == 16, "as in 0.1.0, where answers were dictionaries"
    asked = json.loads((tmp_path / "out" / "study.json").read_text())
    assert asked.pop("id") and asked == {
        "schema": 1,
        "kind": "sums",
        "asked": {"numbers": [2, 3, 4]},
        "store": None,
    } | {"command": "trimtab sums"}
    with pytest.raises(RunError, match="already exists and is not empty"):
        study_engine.run_study(Sums(), tmp_path / "out", INLINE)


@pytest.mark.parametrize("store", [None, "elsewhere"])
def test_an_interrupted_study_says_how_to_go_on_and_does_what_is_left(store, tmp_path, monkeypatch):
    """The store it began with is the one it goes on with, wherever it is resumed from."""
    monkeypatch.chdir(tmp_path)
    out, kept = tmp_path / "out", Store(tmp_path / (store or "out/store"))
    interrupted(monkeypatch, after=1)
    with pytest.raises(KeyboardInterrupt, match=rf"`trimtab resume {out}` continues from the finished jobs"):
        study_engine.run_study(Sums((2, 3, 4)), out, ExecutionOptions(on="inline", store=store))
    assert study_engine.began(out) and not (out / "result.json").exists() and done(kept) == ["count 2"]
    (tmp_path / "another").mkdir()
    monkeypatch.chdir(tmp_path / "another")
    assert catalogue.resume(out, INLINE).sum == 16
    assert done(kept) == ["add 3+4", "count 2", "count 3", "count 4"], "what was done is not done again"
    assert catalogue.resume(out, INLINE).sum == 16 and len(done(kept)) == 4


def test_the_time_of_interrupted_attempts_counts(tmp_path, monkeypatch):
    """On the clock, and the work of all jobs, whoever did them."""
    clock = iter([100.0, 130.0, 500.0, 507.5])
    monkeypatch.setattr(study_engine.time, "monotonic", lambda: next(clock))
    interrupted(monkeypatch, after=1)
    with pytest.raises(KeyboardInterrupt):
        study_engine.run_study(Sums((2, 3)), tmp_path / "out", INLINE)
    assert study_engine.time_of(tmp_path / "out") == StudyTime(work=0.0, clock=30.0)
    catalogue.resume(tmp_path / "out", INLINE)
    taken = study_engine.time_of(tmp_path / "out")
    jobs = [json.loads(f.read_text())["seconds"] for f in (tmp_path / "out" / "store").glob("*/outcome.json")]
    assert taken.clock == 37.5 and taken.work == pytest.approx(sum(jobs), abs=0.01)


def test_studies_that_share_a_store_do_a_job_once(tmp_path):
    where = ExecutionOptions(on="inline", store=str(tmp_path / "store"))
    assert study_engine.run_study(Sums((2, 3)), tmp_path / "a", where).sum == 9
    assert study_engine.run_study(Sums((3, 4)), tmp_path / "b", where).sum == 16
    assert done(Store(tmp_path / "store")) == ["add 2+3", "add 3+4", "count 2", "count 3", "count 4"]
    assert not (tmp_path / "a" / "store").exists()


def test_what_was_done_with_another_default_is_not_taken_for_the_same(tmp_path):
    """An identity does not hold what is at its default; a default that has changed since is seen all the same."""
    store, job = Store(tmp_path), Train(tiny.config())
    store.keep(job, {"area": 1.0}, 1.0)
    assert store.outcome(job).result == {"area": 1.0}
    file = store.place(job) / "job.json"
    kept = json.loads(file.read_text())
    kept["config"] |= {"gamma": 0.5, "a_field_of_then": 1}
    file.write_text(json.dumps(kept))
    with pytest.raises(RunError, match=r"was made with gamma 0.5, the default at that time; the default is now 0.99"):
        store.outcome(job)


def test_a_directory_of_no_known_study_is_refused(tmp_path):
    with pytest.raises(RunError, match="cannot be read"):
        catalogue.read(tmp_path)
    (tmp_path / "study.json").write_text('{"schema": 1, "kind": "astrology", "asked": {}}')
    with pytest.raises(RunError, match="kind 'astrology'; this version knows"):
        catalogue.resume(tmp_path, INLINE)


# Failed jobs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SumTables(Tables):
    sums: pl.DataFrame


@dataclass(frozen=True)
class Some(SourceStudy):
    """A declared study of which jobs fail; it measures the others."""

    kind: ClassVar[str] = "test/some"
    summary: ClassVar[str] = "Counting where some jobs fail."
    source: ClassVar[str] = "none"
    tables = SumTables

    def jobs(self):
        return [Count(2), Needy(Fail()), Count(3)]

    def measure(self, outcomes: Outcomes):
        sums = [o.result["sum"] for o in outcomes.values() if o.done]
        return SumTables(pl.DataFrame({"sum": sums}))

    def judge(self, tables):
        return []

    def figures(self, tables):
        return {}

    def answer(self, tables, verdicts):
        return f"{tables.sums['sum'].sum()} in all."


def test_jobs_that_fail_are_told_with_their_words_and_the_others_are_measured(tmp_path):
    answer = study_engine.run_study(Some(), tmp_path / "out", INLINE)
    assert answer.sentence == "9 in all." and answer.jobs == 4
    assert sorted(answer.failed) == [
        "studies.jobs:Fail on purpose: num_envs: 0 is not positive",
        "studies.jobs:Needy needy: needs studies.jobs:Fail on purpose, which failed: num_envs: 0 is not positive",
    ]
    page = (tmp_path / "out" / "page.html").read_text()
    assert "num_envs: 0 is not positive" in page
    assert (tmp_path / "out" / "tables" / "sums.csv").read_text().split() == ["sum", "3", "6"]


def test_an_answer_that_needs_a_failed_job_is_none(tmp_path):
    outcomes = Outcomes({o.job.identity: o for o in Inline().run([Fail()], Store(tmp_path))})
    with pytest.raises(RunError, match="on purpose failed: num_envs: 0 is not positive"):
        outcomes.of(Fail())


# Costs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trains(Some):
    """Two shapes of training, one of them with three seeds, and a job that is no training."""

    kind: ClassVar[str] = "test/trains"

    def jobs(self):
        small = tiny.config(env_id="FrozenLake-v1", total_timesteps=640)
        large = small.replace(num_envs=8, total_timesteps=1280)
        return [*(Train(small.replace(seed=s)) for s in (1, 2, 3)), Train(large), Train(large), Count(5)]


def test_the_cost_is_jobs_and_steps_of_every_shape_and_hours_at_the_measured_speed(monkeypatch, capsys):
    measured = {2: 0.5, 8: 0.25}
    monkeypatch.setattr(costs, "_measured", lambda config: measured[config.num_envs])
    cost = costs.cost_of(Trains(), ExecutionOptions(workers=4))
    names = ("train FrozenLake-v1 ppo 2x8 in 2", "train FrozenLake-v1 ppo 8x8 in 2")
    hours = dict(zip(names, (3 * 640 * 0.5 / 3600, 1280 * 0.25 / 3600)))
    hours["studies.jobs:Count"] = 5 * 0.25 / 3600  # what looks at no run takes as long as training does
    assert {row.what: row.hours for row in cost.rows} == pytest.approx(hours)
    assert {row.what: row.jobs for row in cost.rows} == dict(zip(hours, (3, 1, 1))), "a job asked twice is one"
    assert cost.jobs == 5 and cost.steps == 3 * 640 + 1280 + 5
    assert cost.hours == pytest.approx(sum(hours.values()))
    assert cost.hours_with_workers == pytest.approx(cost.hours / 4)
    assert [row.hours for row in cost.rows] == sorted(hours.values(), reverse=True)
    costs.print_cost(cost)
    said = capsys.readouterr().out
    assert "5 jobs, 3,205 environment steps" in said and "4 workers" in said


def test_batches_between_two_that_were_timed_cost_a_share_per_environment():
    speeds = costs._Speeds()
    base = tiny.config(env_id="FrozenLake-v1", num_envs=4, total_timesteps=1280)
    speeds.timed[costs._kind(base)] = {1: 9.0, 16: 1.5}  # 1 + 8/N
    assert speeds.step(base) == (pytest.approx(3.0), "between measured")
    assert speeds.step(base.replace(num_envs=16)) == (1.5, "measured")
    assert speeds.step(base.replace(env_id="Taxi-v4")) == (pytest.approx(3.0), "as others")


def test_nothing_more_is_timed_when_patience_is_used_up_but_one_speed_is_always_known(monkeypatch):
    timed = []
    monkeypatch.setattr(costs, "PATIENCE", -1.0)
    monkeypatch.setattr(costs, "_measured", lambda config: timed.append(config.env_id) or 0.5)
    configs = [tiny.config(env_id=env_id) for env_id in ("FrozenLake-v1", "Taxi-v4")]
    assert costs._calibrate(configs).step(configs[1]) == (0.5, "as others") and len(timed) == 1


def test_the_speed_is_that_of_a_short_run_of_the_same_shape():
    seconds = costs._measured(tiny.config(env_id="FrozenLake-v1", total_timesteps=10_000_000))
    assert seconds is not None and 0 < seconds < 0.1
    assert costs._measured(tiny.config(env_id="NoSuch-v9")) is None


def test_a_run_that_diverged_counts_with_the_return_it_began_with(tmp_path):
    """Half of a run that stopped being finite: later bins are as good as the first; other failures count nothing."""
    config = tiny.config(num_steps=32, total_timesteps=640)
    job = Train(config.replace(total_timesteps=1280), 1)
    run = loop.train(config, tmp_path / "run")
    failed = Outcome(job, run.path, {}, error="not finite")
    assert trained_runs.course(failed) is None, "it may have failed for any reason"
    run.files.append_metrics([replace(run.files.metrics()[-1], not_finite=("loss",))])
    curve, whole = trained_runs.course(failed), trained_runs.course(Outcome(Train(config, 1), run.path, {}))
    assert len(curve.step) == 100 and curve.step[-1] > 1200 and whole.area == run.area
    first = curve.value[0]
    np.testing.assert_array_equal(curve.value[50:], first)
    assert curve.area == pytest.approx((whole.area + first) / 2) and (curve.value[:50] != first).any()
    assert trained_runs.course(Outcome(job, tmp_path / "nowhere", {}, error="its worker ended")) is None


def test_an_unknown_environment_leaves_no_study_behind(tmp_path):
    for asked in (
        Seeds(Config(env_id="Nope-v0"), 2),
        Tune(Config(env_id="Nope-v0"), TuneOptions()),
        Split(Config(env_id="Nope-v0"), 512, 4, SplitOptions()),
    ):
        with pytest.raises(EnvError, match="no environment is called 'Nope-v0'"):
            study_engine.run_study(asked, tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_an_environment_of_this_program_alone_is_refused_before_any_job(tmp_path):
    for env_id in ("__main__:E", "mymodule:make.<locals>.E"):
        with pytest.raises(EnvError, match="jobs are done in others: move it to a module"):
            study_engine.run_study(Seeds(Config(env_id=env_id), 2), tmp_path / "out")
    assert not (tmp_path / "out").exists()
