"""Studies of the post: verdicts on tables whose right verdict is known, and the job they are drawn from."""

import math

import numpy as np
import polars as pl
import pytest
import tiny

from trimtab.experiments.catalogue import KINDS
from trimtab.experiments.jobs import Directions, ExactBias, IndependentDraws, MinibatchNoise
from trimtab.experiments.jobs.gradient_jobs import _bias_distances
from trimtab.experiments.post import (
    bias_by_steps,
    env_step_split,
    frozenlake,
    gae_lambda,
    gradient_correlation,
    minibatches,
    pendulum_runs,
)
from trimtab.experiments.source_study import SIZES, SourceStudy
from trimtab.experiments.trained_runs import step_at
from trimtab.gradient.probe_options import ProbeOptions
from trimtab.studies.executor import JobRunner
from trimtab.studies.job import Probe, Train, from_dict
from trimtab.studies.store import Store

DECLARED = [kind for kind in KINDS.values() if issubclass(kind, SourceStudy)]
SEEDS = range(1, 5)


def verdicts(study, tables):
    return {v.claim.id: v for v in study.judge(study.tables.of(tables))}


# Declarations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.kind)
@pytest.mark.parametrize("size", SIZES)
def test_jobs_can_be_sent_and_are_the_same_again(kind, size):
    study = kind(size=size)
    for job in study.jobs():
        assert from_dict(job.as_dict()).identity == job.identity
    assert type(study).again(study.asked()).jobs() == study.jobs()


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.kind)
def test_every_claim_has_its_rule_and_notes_say_what_differs(kind):
    assert all(claim.rule and claim.where for claim in kind.claims)
    assert not kind.claims or kind(size="quick").notes()


def test_a_study_counts_the_runs_its_jobs_need_once():
    study = minibatches.Minibatch(size="quick")
    trained = pendulum_runs.SEEDS["quick"] * pendulum_runs.pendulum("quick", 1).steps
    assert study.expected_steps() == trained + sum(job.steps for job in study.jobs())


def test_the_posts_steps_are_checkpoints_of_its_schedule():
    config = pendulum_runs.pendulum("default", 1)
    assert (
        step_at(config, pendulum_runs.FIRST, pendulum_runs.CHECKPOINTS),
        step_at(config, pendulum_runs.SECOND, pendulum_runs.CHECKPOINTS),
    ) == (399_360, 450_560)


# post/correlation ------------------------------------------------------------------------------------------


def cosines(gap: float) -> pl.DataFrame:
    """Within minus across is `gap`, give or take a little from seed to seed."""
    rows = []
    for stage, lags in gradient_correlation.LAGS.items():
        for seed in SEEDS:
            rows.append((stage, seed, "cosine_across", None, -0.01))
            rows += [(stage, seed, "cosine_within", lag, -0.01 + gap + 0.001 * seed) for lag in lags]
    return pl.DataFrame(rows, schema=["stage", "seed", "quantity", "lag", "value"], orient="row")


def covariances(near: float, spread: float, noise: float = 0.0) -> pl.DataFrame:
    rows = []
    for seed in SEEDS:
        for step in range(10):
            sign = 1 if step % 2 else -1
            rows.append((step, seed, "covariance_across", None, 0.0001 * sign, 0.0))
            for lag in (1, 2, 3, 5, 10, 40):
                value = near / lag + sign * spread / lag + 1e-4 * seed
                rows.append((step, seed, "covariance_within", lag, value, (1 + 0.1 * seed) * noise / lag**2))
    return pl.DataFrame(rows, schema=["step", "seed", "quantity", "lag", "value", "noise"], orient="row")


@pytest.mark.parametrize(("gap", "word"), [(0.2, "holds"), (-0.2, "contradicted"), (-0.0025, "no effect of that size")])
def test_more_alike_within_than_across(gap, word):
    tables = {"cosines": cosines(gap), "covariances": covariances(0.02, 0.05)}
    found = verdicts(gradient_correlation.Correlation(size="quick"), tables)["P4"]
    assert found.word == word and bool(found.needed) == (word == "inconclusive")


@pytest.mark.parametrize(
    ("near", "noise", "word"),
    [(0.02, 0.0, "holds"), (0.4, 0.0, "contradicted"), (0.02, 0.05**2 * 10 / 9, "contradicted")],
)
def test_covariance_correlation_near_zero(near, noise, word):
    """The last one's spread over checkpoints is that of its estimates, no more."""
    tables = {"cosines": cosines(0.2), "covariances": covariances(near, 0.05, noise)}
    assert verdicts(gradient_correlation.Correlation(size="quick"), tables)["P5"].word == word


def test_noise_of_checkpoints_that_share_their_randomness():
    """Replicates have randomness in common at all checkpoints: only the rest of it makes checkpoints differ."""
    rng = np.random.default_rng(0)
    steps, replicates, rows = 200, 8, []
    common, true = 3.0 * rng.normal(size=replicates), 0.5 * rng.normal(size=steps)
    for step in range(steps):
        values = true[step] + common + 1.2 * rng.normal(size=replicates)
        rows += [(step, 1, "covariance_within", 1, r, v) for r, v in enumerate(values)]
        rows += [(step, 1, "covariance_across", None, r, 0.1 * v) for r, v in enumerate(values)]
    names = ["step", "seed", "quantity", "lag", "replicate", "value"]
    found = gradient_correlation._with_noise(pl.DataFrame(rows, schema=names, orient="row"))
    within = found.filter(pl.col("lag") == 1)
    assert len(found) == 2 * steps and within["noise"].n_unique() == 1
    assert within["noise"][0] == pytest.approx(1.2**2 / replicates, rel=0.1)
    assert gradient_correlation._true_spread(within) == pytest.approx(0.5, rel=0.15)
    across = found.filter(pl.col("quantity") == "covariance_across")
    assert across["noise"][0] == pytest.approx(0.12**2 / replicates, rel=0.1)


# post/split ------------------------------------------------------------------------------------------------


def variances(share: float) -> pl.DataFrame:
    """At 4 × 256 covariance is this share of the variance; individual terms grow with T."""
    rows = []
    for stage in ("early", "at 450,560"):
        for seed in SEEDS:
            for (n, t), individual in {(4, 256): 2.0, (16, 64): 1.5, (64, 16): 1.0, (4, 512): 1.0}.items():
                jitter = 1 + 0.01 * seed
                total = jitter * individual / (1 - share * math.sqrt(t / 256))
                parts = {"individual": jitter * individual, "variance": total}
                parts["covariance"] = total - parts["individual"]
                rows += [(stage, f"{n}x{t}", seed, name, value) for name, value in parts.items()]
    return pl.DataFrame(rows, schema=["stage", "split", "seed", "quantity", "value"], orient="row")


def batches(long: float, short: float) -> pl.DataFrame:
    rng, rows = np.random.default_rng(0), []
    for seed in SEEDS:
        for name, spread in (("4x256", long), ("16x64", short)):
            values = rng.uniform(-spread, spread, 100)
            rows += [("at 450,560", name, seed, 0, k + 1, v) for k, v in enumerate(values)]
    return pl.DataFrame(rows, schema=["stage", "split", "seed", "i", "j", "value"], orient="row")


def test_splits_with_a_large_covariance_term():
    found = verdicts(env_step_split.PostSplit(size="quick"), {"variance": variances(0.5), "batches": batches(0.9, 0.2)})
    assert {name: v.word for name, v in found.items()} == dict.fromkeys(("P1", "P2", "P3", "P6", "P17"), "holds")
    assert "+50%" in found["P1"].sentence


def test_a_negative_covariance_term_is_large_too():
    found = verdicts(
        env_step_split.PostSplit(size="quick"), {"variance": variances(-0.5), "batches": batches(0.2, 0.9)}
    )
    assert found["P1"].word == "holds" and "-50%" in found["P1"].sentence
    assert found["P6"].word == "contradicted"
    assert found["P17"].word == "contradicted", "where steps cancel, more of them are better than more environments"


def test_a_small_covariance_term_is_not_large():
    found = verdicts(
        env_step_split.PostSplit(size="quick"), {"variance": variances(0.02), "batches": batches(0.5, 0.5)}
    )
    assert found["P1"].word == "contradicted"


# post/lambda -----------------------------------------------------------------------------------------------


def over_lambda(short_power: float = 1.0) -> dict[str, pl.DataFrame]:
    """Variance e^λ and bias² 1 − λ at both splits; `short_power` changes the former at 16 × 64."""
    rows = []
    for seed in SEEDS:
        jitter = 1 + 0.01 * seed
        for value in gae_lambda.LAMBDAS:
            for (n, t), power in {(4, 256): 1.0, (16, 64): short_power}.items():
                place = (seed, f"{n}x{t}", n, t, value)
                rows += [
                    (*place, "variance", jitter * math.exp(power * value)),
                    (*place, "bias_sq", jitter * (1 - value)),
                ]
                rows.append((*place, "individual", jitter * math.exp(value) / 1024))
                rows += [(*place, "cosine_within", 0.1 * jitter), (*place, "cosine_across", 0.0)]
                rows.append((*place, "sample_own_size", jitter * (0.5 - 0.3 * value)))
        rows.append((seed, "64x16", 64, 16, 0.95, "individual", jitter * math.exp(0.7) / 1024))
        rows.append((seed, "64x16", 64, 16, 0.95, "bias_sq", jitter * 0.5))
        rows.append((seed, "1x1024", 1, 1024, 0.95, "individual", jitter * math.exp(0.95) / 1024))
    schema = ["seed", "split", "num_envs", "num_steps", "gae_lambda", "quantity", "value"]
    cosine = [
        (seed, name, value, 0, 1, 0.5 - 0.3 * value + 0.01 * seed)
        for seed in SEEDS
        for name in ("4x256", "16x64")
        for value in gae_lambda.LAMBDAS
    ]
    return {
        "numbers": gae_lambda._per_sample(pl.DataFrame(rows, schema=schema, orient="row")),
        "batches": pl.DataFrame(cosine, schema=["seed", "split", "gae_lambda", "i", "j", "value"], orient="row"),
    }


def test_lambda_as_the_post_says():
    found = verdicts(gae_lambda.Lambda(size="quick"), over_lambda())
    assert {v.word for v in found.values()} == {"holds"}


def test_lambda_that_does_more_to_short_rows():
    assert verdicts(gae_lambda.Lambda(size="quick"), over_lambda(short_power=9.0))["P12"].word == "contradicted"


def test_the_lambda_of_equal_variance():
    curve = {0.0: 1.0, 0.5: 2.0, 1.0: 4.0}
    assert gae_lambda._equal_lambda(curve, 3.0) == 0.75 and gae_lambda._equal_lambda(curve, 9.0) == 1.0
    assert gae_lambda._equal_lambda({0.0: 1.0, 0.5: 0.9, 1.0: 3.0}, 2.0) == 0.75, "noise must not turn it around"


# post/bias -------------------------------------------------------------------------------------------------


def biases(fall: float) -> dict[str, pl.DataFrame]:
    exact = [
        ("FrozenLake-v1", seed, step, t, 1.0 * (1 + 0.1 * seed) / t**fall, 1e-15 if t <= 16 else None)
        for seed in SEEDS
        for step in (1, 2)
        for t in bias_by_steps.LENGTHS
    ]
    sampled = [
        ("Pendulum-v1", seed, 1, n, t, name, value * (1 + 0.01 * seed))
        for seed in SEEDS
        for n, t in bias_by_steps.SPLITS
        for name, value in (
            ("bias_sq", 1.0 / t**fall),
            ("individual", 0.001),
            ("variance", 1.0),
            ("covariance", t / 512 * (1 + 0.01 * seed)),
        )
    ]
    drawn = [
        {"environment": "Pendulum-v1", "seed": s, "step": 1, "rows": 1.0, "single": 1.0, "gap": 0.001 * s, "unit": 9.0}
        for s in SEEDS
    ]
    names = ["environment", "seed", "step", "num_steps", "bias_sq", "row_gap_sq"]
    more = ["environment", "seed", "step", "num_envs", "num_steps", "quantity", "value"]
    return {
        "exact": pl.DataFrame(exact, schema=names, orient="row", infer_schema_length=None),
        "sampled": pl.DataFrame(sampled, schema=more, orient="row"),
        "draws": pl.DataFrame(drawn),
    }


@pytest.mark.parametrize(("fall", "word"), [(1.0, "holds"), (-1.0, "contradicted")])
def test_bias_over_the_length_of_rows(fall, word):
    found = verdicts(bias_by_steps.Bias(size="quick"), biases(fall))
    assert found["P7"].word == word and found["P8"].word == "holds"
    assert found["N1"].word == word, "samples of longer rows are more correlated here; the rest is P7"


def test_distances_are_without_the_bias_of_squaring_noise():
    rng = np.random.default_rng(0)
    found = [_bias_distances(rng.normal(0.5, 1, (40, 8)), rng.normal(0.5, 3, (60, 8))) for _ in range(400)]
    for name, expected in {"rows": 2.0, "single": 2.0, "gap": 0.0}.items():
        values = np.array([f[name] for f in found])
        assert abs(values.mean() - expected) < 4 * values.std() / 20


# post/minibatch and post/frozenlake ------------------------------------------------------------------------


def cut(rows_over_shuffled: float) -> pl.DataFrame:
    found = []
    for split_ in ("4x256", "16x64"):
        for stage in minibatches.STAGES:
            for seed in SEEDS:
                jitter, place = 1 + 0.01 * seed, (stage, split_, seed)
                found.append((*place, "batch_variance", None, None, None, 0.0 + 1e-9))
                found.append((*place, "subsampling", minibatches.SHUFFLED, 32, None, 1.0))
                found.append((*place, "subsampling", minibatches.ROWS, 32, None, rows_over_shuffled * jitter))
                found += [(*place, "drift", None, None, epoch, 0.5 - 0.1 * epoch * jitter) for epoch in range(3)]
                found += [(*place, "clip_bias", None, None, epoch, 0.1 * epoch * jitter) for epoch in range(3)]
    schema = ["stage", "split", "seed", "quantity", "way", "size", "epoch", "value"]
    return pl.DataFrame(found, schema=schema, orient="row", infer_schema_length=None)


@pytest.mark.parametrize(("ratio", "word"), [(2.0, "holds"), (0.5, "contradicted")])
def test_shuffling_removes_correlation_where_rows_are_noisier(ratio, word):
    found = verdicts(minibatches.Minibatch(size="quick"), {"minibatches": cut(ratio)})
    assert found["P16"].word == word and found["P9"].word == "holds"


def test_the_drafts_claims_on_known_tables():
    rng = np.random.default_rng(0)
    episodes = [(s, u, 25, 0.6 + 0.01 * s, 0.1) for s in SEEDS for u in frozenlake.EPISODES for _ in range(3)]
    aligned = [
        (s, name, 100, 0, k, float(rng.normal(0, spread)))
        for s in SEEDS
        for name, spread in (("4x32", 0.4), ("32x4", 0.1))
        for k in range(40)
    ]
    noise = [(s, 100, t, t * (1 + 0.01 * s)) for s in SEEDS for t in (4, 32)]
    tables = {
        "episodes": pl.DataFrame(episodes, schema=["seed", "update", "length", "value", "chance"], orient="row"),
        "alignments": pl.DataFrame(
            aligned, schema=["seed", "split", "update", "replicate", "lag", "value"], orient="row"
        ),
        "advantages": pl.DataFrame(noise, schema=["seed", "update", "num_steps", "value"], orient="row"),
    }
    found = verdicts(frozenlake.FrozenLake(size="quick"), tables)
    assert (found["D1"].word, found["D2"].word, found["D3"].word) == ("holds", "holds", "contradicted")
    assert "0.20 (1/√L)" in found["D1"].sentence and found["D1"].evidence[0].effect.value == pytest.approx(0.525)


# The jobs, at a tiny size ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A workshop, its store, and a tiny run on a finite MDP."""
    store, runner = Store(tmp_path_factory.mktemp("store")), JobRunner()
    run = Train(tiny.config(env_id="FrozenLake-v1", num_envs=2, num_steps=8, total_timesteps=64), 2)
    runner.do(run, store)
    return lambda job: runner.do(job, store), run


def test_directions_agree_with_a_probe(shop):
    do, run = shop
    place = do(Directions(run, (64,), 2, 8, replicates=8, looked=3, gae_lambda=(0.95, 0.0))).path
    table = pl.read_parquet(place / "directions.parquet")
    assert set(table["gae_lambda"]) == {0.95, 0.0}
    table = table.filter(pl.col("gae_lambda") == 0.95)
    probe = do(Probe(run, (64,), ProbeOptions(num_envs=2, num_steps=8, replicates=8, start="stationary"))).result[
        "probes"
    ][0]
    value = lambda name: table.filter(pl.col("quantity") == name)["value"]
    for name in ("variance", "individual", "covariance", "bias_sq"):
        assert value(name)[0] == pytest.approx(probe[name]["value"], rel=1e-5, abs=1e-12)
    assert len(value("batch_cosine")) == 8 * 7 // 2
    first = table.filter((pl.col("quantity") == "cosine_within") & (pl.col("replicate") == 0) & (pl.col("lag") == 1))
    assert first["value"][0] == pytest.approx(probe["cosine"]["lags"][0], rel=1e-5)
    pair = table.filter((pl.col("quantity") == "batch_cosine") & (pl.col("replicate") == 0) & (pl.col("lag") == 1))
    assert pair["value"][0] == pytest.approx(probe["replicate_cosines"][0][1], rel=1e-5)
    chance = table.filter(pl.col("quantity") == "trajectory_chance")
    assert len(chance) == len(value("trajectory_cosine")) and (chance["value"] <= 1 / chance["lag"].sqrt() + 1e-9).all()


def test_exact_bias_is_that_of_a_probe_and_the_same_along_rows(shop):
    do, run = shop
    table = pl.read_parquet(do(ExactBias(run, (64,), (1, 8), (0.95,))).path / "exact.parquet")
    probe = do(Probe(run, (64,), ProbeOptions(num_envs=2, num_steps=8, replicates=8, start="stationary"))).result[
        "probes"
    ][0]
    row = table.filter(pl.col("num_steps") == 8).row(0, named=True)
    assert row["bias_sq"] == pytest.approx(probe["exact"]["bias_sq"], rel=1e-6)
    assert (table["row_gap_sq"] / table["bias_sq"]).max() < 1e-10


def test_minibatches_and_draws_of_a_run(shop):
    do, run = shop
    table = pl.read_parquet(do(MinibatchNoise(run, (64,), 2, 8, (4, 8), 4)).path / "minibatches.parquet")
    ways = table.filter(pl.col("quantity") == "subsampling").group_by("way", "size").agg(pl.col("value").mean())
    assert len(ways) == 6 and (ways["value"] >= 0).all()
    assert set(table["quantity"]) >= {"batch_variance", "sample_variance", "drift", "clip_bias"}
    found = do(IndependentDraws(run, (64,), 4, 8, 4)).result["found"][0]
    assert set(found) == {"step", "rows", "single", "gap", "unit"} and found["unit"] > 0
