"""`trimtab tune`: what a sweep keeps, what the end says, and the whole job at a tiny size."""

import json
import shlex
from dataclasses import replace

import pytest
import yaml

from trimtab import cli
from trimtab.config import Config, ConfigError, from_dict
from trimtab.core.errors import RunError
from trimtab.core.estimate import Estimate
from trimtab.show import tune_page as report
from trimtab.studies import tune_study
from trimtab.studies.store import Outcome, Store
from trimtab.studies.study_engine import _drive
from trimtab.studies.tune_result import Finalist, SweepResult, TuneResult
from trimtab.studies.tune_study import PHASES, Tune, TuneOptions, _sweeps_of, _Trial


class Formula:
    """An executor whose runs learn what a formula says: best at a learning rate of 1e-3 with two epochs."""

    workers = 1

    def run(self, jobs, store, tick=lambda job, steps: None):
        for job in jobs:
            c = job.config
            area = (c.learning_rate == 1e-3) * 10 + (c.update_epochs == 2) * 3 - c.gamma + c.seed
            end = -float(c.learning_rate == 1e-3)  # what learns most ends worst
            path = store.place(job).with_name(f"step size {c.learning_rate}")
            yield Outcome(job, path, {"area": area, "fps": 1.0, "ep_rew_mean": end})


@pytest.fixture(autouse=True)
def doctor(monkeypatch):
    """A doctor who acts on step sizes of 1e-3 where there are no records to look at."""
    asked = tune_study._acts
    formula = lambda path: ["clip fraction"] if path.name == "step size 0.001" else []
    monkeypatch.setattr(tune_study, "_acts", lambda path: asked(path) if path.exists() else formula(path))


def tuned(tmp_path, config=None, **options):
    answer, outcomes = _drive(Tune(config or Config(), TuneOptions(**options)), tmp_path, Formula(), Store(tmp_path))
    return answer, outcomes


def test_each_sweep_starts_from_what_the_ones_before_it_kept(tmp_path):
    answer, _ = tuned(tmp_path, phases="stability")
    kept = {sweep.field: sweep.kept for sweep in answer.sweeps}
    assert kept == {"learning_rate": 1e-3, "update_epochs": 2, "max_grad_norm": 0.5}
    assert answer.changes == {"learning_rate": 1e-3, "update_epochs": 2} and answer.better


def test_the_value_rate_is_tried_at_one_and_two_times_the_policys_where_it_can_differ(tmp_path):
    fields = lambda config: {s.field: s.trials for s in tuned(tmp_path, config, phases="variance")[0].sweeps}
    tried = [t.value for t in fields(Config(learning_rate=1e-3))["value_learning_rate"]]
    assert tried == [2e-3, None], "none is the policy's own"
    assert len(fields(Config(arch="shared"))["value_learning_rate"]) == 1, "one network has one step size"


def test_single_fields_can_be_swept_and_each_is_swept_once():
    def swept(phases):
        return [(sweep.phase, sweep.name) for sweep in _sweeps_of(TuneOptions(phases=phases), Config())]

    assert swept("gamma,learning_rate") == [("horizon", "gamma"), ("stability", "learning_rate")]
    assert [name for _, name in swept("update_epochs,stability")] == ["update_epochs", "learning_rate", "max_grad_norm"]


def test_values_of_ones_own_are_tried_alone_or_after_the_phases(tmp_path):
    own = {"gae_lambda": [0.9, "9e-1", 1], "hidden_sizes": [[8], [16, 16]]}
    answer, _ = tuned(tmp_path, sweep=own)
    tried = [(s.phase, s.field, [t.value for t in s.trials]) for s in answer.sweeps]
    assert tried == [("own", "gae_lambda", [0.9, 0.95, 1.0]), ("own", "hidden_sizes", [(8,), (16, 16), None])]
    answer, _ = tuned(tmp_path, phases="stability", sweep={"learning_rate": [2e-3], "clip_coef": [0.1]})
    tried = {s.field: [t.value for t in s.trials] for s in answer.sweeps}
    assert list(tried) == ["learning_rate", "update_epochs", "max_grad_norm", "clip_coef"]
    assert tried["learning_rate"] == [2.5e-4, 2e-3], "in place of the playbook's"


def test_the_start_is_kept_where_nothing_is_better(tmp_path):
    answer, _ = tuned(tmp_path, phases="polish")
    assert [sweep.kept for sweep in answer.sweeps] == ["constant", False, 0.0] and not answer.better


def test_the_last_comparison_uses_new_seeds_and_has_the_start_in_it(tmp_path):
    answer, outcomes = tuned(tmp_path, phases="stability,horizon", seeds=2, final_seeds=3)
    final = answer.final
    assert final[0].changes == {} and len(final) == 4
    assert all(min(row.areas) > 900 for row in final), "the formula adds the seed: these no sweep has seen"
    seeds = {o.job.config.seed for o in outcomes.values()}
    assert seeds == {1, 2, 1001, 1002, 1003}


def test_the_last_comparison_may_be_longer_and_has_as_many_as_asked_for(tmp_path):
    config = Config(total_timesteps=10_240)
    study = Tune(config, TuneOptions(phases="stability", final_seeds=2, final_timesteps=20_480, finalists=1))
    answer, outcomes = _drive(study, tmp_path, Formula(), Store(tmp_path))
    assert len(answer.final) == 2
    lengths = {(o.job.config.seed > 1000, o.job.config.total_timesteps) for o in outcomes.values()}
    assert lengths == {(False, 10_240), (True, 20_480)}
    assert answer.tuned["total_timesteps"] == answer.final_timesteps == 20_480, "as it was compared"
    trained = sum(o.job.steps for o in outcomes.values())
    assert 0 <= study.expected_steps() - trained <= 2 * 2 * config.steps, "but for values that were tried before"


def test_a_comparison_shorter_than_what_one_means_to_train_says_so(tmp_path):
    options = TuneOptions(phases="stability", final_seeds=2, finalists=1)
    shorter, whole = (Tune(Config(total_timesteps=10_240), options, own_steps=steps) for steps in (51_200, 10_240))
    answer, _ = _drive(shorter, tmp_path / "shorter", Formula(), Store(tmp_path))
    assert "over 10,240 of the 51,200 steps" in answer.sentence and "--final-timesteps 51200" in answer.sentence
    assert answer.tuned["total_timesteps"] == 51_200, "what is to be trained"
    assert Tune.again(shorter.asked()) == shorter
    answer, _ = _drive(whole, tmp_path / "whole", Formula(), Store(tmp_path))
    assert "Compared over" not in answer.sentence


def test_the_last_comparison_says_how_runs_end_and_what_the_doctor_makes_of_them(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    answer, _ = tuned(tmp_path, phases="stability", final_seeds=3)
    start, best = answer.final[0], next(r for r in answer.final if r.changes == answer.changes)
    assert (start.end.value, best.end.value) == (0.0, -1.0)
    assert (start.act, best.act) == ("", "clip fraction in 3 of 3")
    assert answer.sentence.endswith("The doctor would act on its clip fraction in 3 of 3 runs.")
    report.print_tuning(answer)
    assert "clip fraction in 3 of 3" in capsys.readouterr().out


@pytest.mark.parametrize(
    "env_id, tried", [("CartPole-v1", [0, 0.003, 0.01, 0.03]), ("Pendulum-v1", [0, 3e-4, 1e-3, 3e-3])]
)
def test_where_there_is_no_bonus_the_first_ones_are_the_notes_for_these_actions(tmp_path, env_id, tried):
    answer, _ = tuned(tmp_path, Config(env_id=env_id, ent_coef=0.0), phases="horizon")
    assert [t.value for t in answer.sweeps[1].trials] == tried


def test_values_an_algorithm_refuses_are_left_out(tmp_path):
    answer, _ = tuned(tmp_path, Config(algo="reinforce", num_envs=1), phases="throughput")
    assert [trial.value for trial in answer.sweeps[0].trials] == [1, 2, 4], "half an environment is none"


class Diverging(Formula):
    """The same, but runs with the largest steps fail."""

    def run(self, jobs, store, tick=lambda job, steps: None):
        for outcome in super().run(jobs, store, tick):
            fails = outcome.job.config.learning_rate >= 3e-3
            yield replace(outcome, error="not finite: the loss") if fails else outcome


def test_a_value_that_fails_takes_nothing_with_it_and_is_told(tmp_path, capsys):
    study = Tune(Config(), TuneOptions(phases="stability"))
    answer, _ = _drive(study, tmp_path, Diverging(), Store(tmp_path))
    assert answer.changes == {"learning_rate": 1e-3, "update_epochs": 2}
    assert list(answer.failed) == ["learning_rate 0.003: not finite: the loss"]
    report.print_tuning(answer)
    assert "0.003: failed" in capsys.readouterr().out
    assert report._sweeps_chart(answer) is not None


class Endless(Formula):
    """With twice the environments no episode ends within the steps of a trial."""

    def run(self, jobs, store, tick=lambda job, steps: None):
        for outcome in super().run(jobs, store, tick):
            endless = outcome.job.config.num_envs > 4
            yield replace(outcome, result=outcome.result | {"area": None}) if endless else outcome


def test_values_whose_runs_end_no_episode_are_told_and_take_nothing_with_them(tmp_path):
    answer, _ = _drive(Tune(Config(), TuneOptions(phases="throughput")), tmp_path, Endless(), Store(tmp_path))
    assert list(answer.failed) == [f"num_envs {n}: no episode finished within 500,000 steps" for n in (8, 16)]
    with pytest.raises(RunError, match="give more --total-timesteps"):
        _drive(Tune(Config(num_envs=8), TuneOptions(phases="throughput")), tmp_path, Endless(), Store(tmp_path))


def test_a_start_that_fails_ends_it_with_why(tmp_path):
    with pytest.raises(RunError, match="not finite"):
        _drive(Tune(Config(learning_rate=3e-3), TuneOptions()), tmp_path, Diverging(), Store(tmp_path))


def test_only_what_is_better_takes_the_place_of_the_start(tmp_path):
    better, _ = tuned(tmp_path, phases="stability")
    assert better.better and better.tuned == better.found
    worse, _ = tuned(tmp_path, Config(learning_rate=1e-3), phases="learning_rate")
    assert not worse.better and worse.tuned["learning_rate"] == 1e-3 != worse.found["learning_rate"]


def test_a_sweep_of_nothing_is_refused_before_anything_is_trained():
    with pytest.raises(ConfigError, match="no value to try"):
        Tune(Config(), TuneOptions(sweep={"gae_lambda": [0.95]})).refuse()
    Tune(Config(), TuneOptions(sweep={"gae_lambda": [0.9]})).refuse()


def test_the_next_command_is_one_that_a_shell_takes():
    command = """trimtab tune CartPole-v1 --sweep '{gae_lambda: [0.9]}' --final-seeds 2 --run-dir 'my runs/a'"""
    sweeps, final = (SweepResult("horizon", "gae_lambda", 0.95, 0.9),), (Finalist(0, {}, (1.0, 2.0), 1.5, 1.0, 2.0),)
    about = {"env_id": "CartPole-v1", "algo": "ppo", "total_timesteps": 1, "final_timesteps": 1, "changes": {}}
    result = TuneResult(
        **about, gain=Estimate(0, -1, 1), better=False, sweeps=sweeps, final=final, command=command, run="my runs/a"
    )
    words = shlex.split(report._next(result)[0])
    assert words[2:5] == ["CartPole-v1", "--sweep", "{gae_lambda: [0.9]}"]
    assert words[5:] == ["--final-seeds", "4", "--store", "my runs/a/store"]


def test_where_there_is_nothing_to_try_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(PHASES, "variance", {"norm_reward": lambda c: (c.norm_reward,)})
    with pytest.raises(ConfigError, match="no value to try"):
        tuned(tmp_path, phases="variance")


@pytest.mark.parametrize(
    "gain, said", [((1, 0.5, 1.5), "Better"), ((-1, -2, -0.5), "Worse"), ((1, -0.5, 2.5), "No significant difference")]
)
def test_the_sentence_claims_no_more_than_the_interval(gain, said):
    best, start = _Trial(1, {"gamma": 0.9}, [2.0, 3.0]), _Trial(0, {}, [1.0, 1.0])
    assert tune_study._sentence(best, start, Estimate(*gain), 3).startswith(said)


def test_an_outlier_does_not_hide_that_all_seeds_are_above():
    start, gain = _Trial(0, {}, [1.0, -9.0]), Estimate(6.5, -60.0, 73.0)
    assert tune_study._sentence(_Trial(1, {}, [2.0, 3.0]), start, gain, 3).endswith("is above every seed of the start.")
    assert "every seed" not in tune_study._sentence(_Trial(1, {}, [1.0, 3.0]), start, gain, 3)


def test_every_field_swept_is_a_field_of_the_configuration_and_its_values_are_valid():
    for fields in PHASES.values():
        for name, values in fields.items():
            tried = [v for v in values(Config()) if v != 0 or name != "num_envs"]
            assert len(set(tried)) > 1 and all(Config().replace(**{name: v}) for v in tried)


@pytest.mark.parametrize(
    "options",
    [
        {"seeds": 0},
        {"final_seeds": 1},
        {"finalists": 0},
        {"final_timesteps": 0},
        {"phases": "stabilty"},
        {"phases": ""},
        {"phases": "stability,learning_rat"},
        {"sweep": {"seed": [1, 2]}},
        {"sweep": {"gamma": 0.9}},
        {"sweep": {"gamma": []}},
        {"sweep": {"gamma": [1.5]}},
        {"sweep": {"gama": [0.9]}},
        {"sweep": "gamma"},
    ],
)
def test_efforts_that_mean_nothing_are_refused(options):
    with pytest.raises(ConfigError):
        _sweeps_of(TuneOptions(**options), Config())


def test_the_whole_job_writes_a_configuration_a_page_and_one_object_and_can_be_resumed(tmp_path, capsys):
    out = tmp_path / "out"
    words = "tune FrozenLake-v1 --preset none --phases horizon --seeds 1 --final-seeds 2 --total-timesteps 640"
    words += f" --num-envs 4 --num-steps 16 --hidden-sizes 8 --on inline --run-dir {out} --json"
    assert cli.main(words.split()) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(s["field"], [t["value"] for t in s["trials"]]) for s in result["sweeps"]] == [
        ("gamma", [0.98, 0.99, 0.995]),
        ("ent_coef", [0.003, 0.01, 0.03]),
        ("ent_anneal", [0.0, 0.5, 0.8]),
    ]
    assert {"value", "lo", "hi", "resolved"} == set(result["gain"]) and isinstance(result["better"], bool)
    assert TuneResult.from_dict(result | {"run": ""}).as_dict() == {
        k: v for k, v in result.items() if k not in ("run", "config")
    }
    assert len(result["final"]) == 4 and all(len(row["areas"]) == 2 for row in result["final"])
    assert from_dict(yaml.safe_load((out / "tuned.yaml").read_text())).hidden_sizes == (8,)
    assert "<html" in (out / "page.html").read_text() and (out / "figures" / "sweeps.png").exists()
    times = {file: file.stat().st_mtime_ns for file in out.glob("store/*/outcome.json")}
    assert cli.main(["resume", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result
    assert times == {file: file.stat().st_mtime_ns for file in out.glob("store/*/outcome.json")}


def test_a_bonus_that_is_not_there_is_not_made_to_fall():
    values = tune_study.PHASES["horizon"]["ent_anneal"]
    assert set(values(Config(ent_coef=0.0))) == {0.0}
    assert len(set(values(Config(ent_coef=0.01)))) > 2
