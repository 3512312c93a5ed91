"""Studies of the notes: verdicts on known tables, one whole study at a tiny size, and the command for throughput."""

import json
import math

import polars as pl
import pytest
from studies.small import small_variances

from trimtab import cli
from trimtab.core.estimate import Estimate
from trimtab.experiments import catalogue, costs
from trimtab.experiments.claims import Claim, EffectEstimate, explained, judge_all
from trimtab.experiments.notes import learning_rate, minibatch_size, reproducible, reward_to_go
from trimtab.experiments.notes import throughput_study as speeds
from trimtab.studies.study_engine import ExecutionOptions, run_study
from trimtab.training import speed as measuring

SEEDS = range(1, 5)
CLAIM = Claim("N1", "a claim", "somewhere", "a rule")


def word(study, tables, name: str) -> str:
    return {v.claim.id: v.word for v in study.judge(study.tables.of(tables))}[name]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["up", "up"], "holds"),
        (["up", "down"], "contradicted"),
        (["up", "open"], "inconclusive"),
        (["up", "both"], "depends"),
        (["down", "open"], "contradicted"),
    ],
)
def test_a_claim_of_several_parts_needs_all_of_them(parts, expected):
    effects = {"up": [(1, 0.5, 2)], "down": [(-1, -2, -0.5)], "open": [(0.5, -1, 2)]}
    effects["both"] = effects["up"] + effects["down"]
    given = [[EffectEstimate("here", Estimate(*e), 3) for e in effects[part]] for part in parts]
    found = judge_all(CLAIM, "an effect", given, "a sentence")
    assert found.word == expected and bool(found.needed) == (expected == "inconclusive")
    assert len(found.evidence) == sum(map(len, given))


def test_what_does_not_hold_says_what_was_different():
    parts = {"up": Estimate(1, 0.5, 2), "down": Estimate(-1, -2, -0.5)}
    verdicts = [judge_all(CLAIM, "", [[EffectEstimate("here", e, 3)]], "Seen.") for e in parts.values()]
    assert [v.differs for v in explained(verdicts, "Another setting.")] == ["", "Another setting."]


@pytest.mark.parametrize(("second", "expected"), [(True, "holds"), (False, "depends")])
def test_repeats(second, expected):
    rows = [("CartPole-v1, ppo", True, 8, 100, ""), ("Pendulum-v1, ppo", second, 8, 100, "loss at iteration 3")]
    schema = ["configuration", "identical", "iterations", "compared", "first_difference"]
    tables = {"repeats": pl.DataFrame(rows, schema=schema, orient="row")}
    found = reproducible.Reproducible(size="quick").judge(reproducible.RepeatTables.of(tables))[0]
    assert found.word == expected and ("loss at iteration 3" in found.sentence) == (not second)


@pytest.mark.parametrize(("to_go", "expected"), [(0.5, "holds"), (1.0 + 1e-15, "contradicted"), (2.0, "contradicted")])
def test_reward_to_go_must_reduce_and_not_only_equal(to_go, expected):
    rows = [
        ("FrozenLake-v1", "late", seed, name, value * (1 + 0.01 * seed * (name == "learned baseline")))
        for seed in SEEDS
        for name, value in (("whole return", 1.0), ("reward to go", to_go), ("learned baseline", to_go / 2))
    ]
    table = pl.DataFrame(rows, schema=["environment", "stage", "seed", "estimator", "variance"], orient="row")
    study = reward_to_go.RewardToGo(size="quick")
    assert word(study, {"variances": table}, "N2") == expected
    assert word(study, {"variances": table}, "N3") == "holds"


def learned(area) -> dict[str, pl.DataFrame]:
    rows = [
        ("CartPole-v1", split, count, seed, area(count, split) + seed)
        for split, counts in (("8x128", minibatch_size.COUNTS["quick"]), ("1x1024", (4,)))
        for count in counts
        for seed in SEEDS
    ]
    noise = [("CartPole-v1", seed, "batch_variance", None, None, 0.001) for seed in SEEDS]
    noise += [
        ("CartPole-v1", seed, "subsampling", "shuffled samples", size, 1 / size + 1e-5 * seed)
        for seed in SEEDS
        for size in (16, 256)
    ]
    learning = pl.DataFrame(rows, schema=["environment", "split", "minibatches", "seed", "area"], orient="row")
    return {
        "learning": learning,
        "noise": pl.DataFrame(
            noise,
            schema=["environment", "seed", "quantity", "way", "size", "value"],
            orient="row",
            infer_schema_length=None,
        ),
    }


def test_a_hill_over_minibatches_is_what_the_notes_say():
    hill = learned(lambda count, split: 100 - 20 * abs(math.log2(count) - 3.5) - 50 * (split == "1x1024"))
    study = minibatch_size.NotesMinibatch(size="quick")
    assert word(study, hill, "N4") == "holds" and word(study, hill, "N7") == "holds"


def test_where_the_largest_minibatch_learns_best_it_does_not_slow_learning():
    slope = learned(lambda count, split: 100 - 20 * math.log2(count))
    assert word(minibatch_size.NotesMinibatch(size="quick"), slope, "N4") == "contradicted"


@pytest.mark.parametrize(("kept", "expected"), [(1.0, "holds"), (0.5, "contradicted")])
def test_linear_scaling(kept, expected):
    rows = [
        ("CartPole-v1", factor, rule, seed, 20 + 200 * (1.0 if rule == "base" else kept) + seed)
        for factor, rule in [(1, "base"), *((f, r) for f in learning_rate.FACTORS for r in learning_rate.RULES)]
        for seed in SEEDS
    ]
    table = pl.DataFrame(rows, schema=["environment", "factor", "rule", "seed", "area"], orient="row")
    assert word(learning_rate.LearningRate(size="quick"), {"learning": table}, "N8") == expected


def test_learning_rates_by_rule():
    rate = lambda factor, rule: learning_rate._scaled("CartPole-v1", factor, rule, 49_152, 1)
    assert rate(16, "sqrt").learning_rate == pytest.approx(4 * 3e-4)
    assert rate(16, "linear").learning_rate == pytest.approx(16 * 3e-4) and rate(16, "none").learning_rate == 3e-4
    assert rate(16, "none").batch == 16 * rate(1, "base").batch


@pytest.mark.parametrize(("load", "expected"), [(0.9, "holds"), (0.4, "contradicted")])
def test_throughput_until_the_processor_is_loaded(load, expected):
    rows = [
        ("CartPole-v1", repeat, n, speed * (1 + 0.001 * repeat), load + 0.001 * repeat)
        for repeat in range(3)
        for n, speed in ((1, 100.0), (8, 950.0), (64, 1000.0))
    ]
    schema = ["environment", "repeat", "num_envs", "steps_per_second", "load"]
    table = pl.DataFrame(rows, schema=schema, orient="row")
    assert speeds.enough(table) == 8 and speeds.fastest(table) == 64
    assert word(speeds.NotesThroughput(size="quick"), {"throughput": table}, "N6") == expected


# A whole study ---------------------------------------------------------------------------------------------


def test_a_whole_study_at_a_tiny_size(tmp_path, monkeypatch):
    out = tmp_path / "study"
    answer = run_study(small_variances(monkeypatch), out, ExecutionOptions(on="inline"))
    assert not answer.failed and [v.id for v in answer.verdicts] == ["N2", "N3"]
    table = pl.read_parquet(out / "tables" / "variances.parquet")
    assert len(table) == 2 * 2 * 4 or len(table) == 2 * 3 * 4
    wide = table.pivot(on="estimator", index=["seed", "stage"], values="variance")
    one_reward = wide["whole return"] / wide["reward to go"]
    assert one_reward.to_list() == pytest.approx([1.0] * len(wide)), "FrozenLake has one reward, at the end"
    assert (wide["mean returns as baseline"] <= wide["reward to go"] * (1 + 1e-9)).all()
    assert (out / "figures" / "variances.svg").is_file() and (out / "page.html").is_file()
    assert isinstance(catalogue._load_study(out), reward_to_go.RewardToGo)


def test_the_plan_knows_how_long_measuring_takes(monkeypatch):
    monkeypatch.setattr(costs, "_measured", lambda config: 1.0)
    study = speeds.NotesThroughput(size="quick")
    cost = costs.cost_of(study, ExecutionOptions())
    assert all(row.speed == "as long as asked" for row in cost.rows)
    measures = sum(len(job.num_envs) for job in study.jobs()) * speeds.REPEATS["quick"]
    assert 0.3 * 2 * measures < 3600 * cost.hours < 10 * measures


# trimtab throughput ----------------------------------------------------------------------------------------


def test_throughput_recommends_the_fewest_environments_that_are_fast(monkeypatch, capsys, tmp_path):
    speed = {1: 100.0, 8: 950.0, 64: 1000.0}
    found = lambda config, seconds: {
        "num_envs": config.num_envs,
        "steps_per_second": speed[config.num_envs],
        "load": 0.5,
        "machine_load": 0.5,
        "memory": 2**28,
        "environment_share": 0.2,
        "policy_share": 0.3,
        "update_share": 0.5,
        "batch": config.batch,
    }
    monkeypatch.setattr(measuring, "measure", found)
    picture = tmp_path / "speed.svg"
    words = ["throughput", "CartPole-v1", "--counts", "1,8,64", "--save", str(picture)]
    assert cli.main([*words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["recommended"], answer["fastest"]) == (8, 64) and picture.is_file()
    assert cli.main(words) == 0
    assert "num_envs=8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "field"), [(["--counts", "0"], "counts"), (["--counts", "a"], "counts"), (["--seconds", "0"], "seconds")]
)
def test_throughput_refuses_what_means_nothing(words, field, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["throughput", "CartPole-v1", *words])
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and field in said and said.count("\n") == 1


@pytest.mark.parametrize("backend", ["auto", "envpool", "gymnasium"])
def test_measured_throughput_adds_up(backend):
    """Of environments in the program, stepped by it, and stepped from Python."""
    import tiny

    found = measuring.measure(tiny.config(total_timesteps=1 << 20, backend=backend), seconds=0.05)
    shares = [found[f"{name}_share"] for name in ("environment", "policy", "update")]
    assert found["steps_per_second"] > 0 and found["memory"] > 0 and sum(shares) == pytest.approx(1.0)
    assert found["load"] >= 0 and all(share >= 0 for share in shares)
