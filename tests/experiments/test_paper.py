"""The paper's studies: verdicts and tables on made-up finals with known effects, and two studies as they are run."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from studies.small import small_grid

from trimtab.config import Config
from trimtab.core.estimate import Estimate
from trimtab.experiments.jobs import step_jobs as steps
from trimtab.experiments.paper import (
    adam_step_size,
    batch_sizes,
    ewma_comparison,
    proximal_age,
    published,
    staleness,
    suite,
    table5,
)
from trimtab.experiments.paper.ablations import Betas, Linear
from trimtab.experiments.paper.invariance import Invariance, _differences
from trimtab.experiments.paper.trained import Groups
from trimtab.math import stats
from trimtab.nets.agent import Agent
from trimtab.nets.heads import Categorical
from trimtab.studies import job as jobs
from trimtab.studies.study_engine import ExecutionOptions, run_study
from trimtab.training.sample_gradients import PerSample, Samples

GAMES = [f"game {k}" for k in range(8)]
SIZES = suite.BATCHES["default"]
SEEDS = (1, 2, 3)


def made(
    loss, games=GAMES, sizes=SIZES, seeds=SEEDS, variants=(batch_sizes.ADJUSTED, *batch_sizes.ABLATIONS), spread=0.01
):
    """Finals of 0.8 less `loss(variant, num_envs, game)`, with a little noise of each run's own."""
    rng, rows = np.random.default_rng(0), []
    shared: dict[tuple, float] = {}
    for game, variant, n, seed in itertools.product(games, variants, sizes, seeds):
        same = batch_sizes.NO_EWMA if variant == batch_sizes.NO_EWMA else ""
        run = (game, n, seed, same if n == sizes[0] else variant)  # nothing is adjusted at the largest batch
        value = shared.setdefault(run, 0.8 - loss(variant, n, game) + spread * rng.standard_normal())
        rows.append({"environment": game, "variant": variant, "num_envs": n, "seed": seed, "score": value})
    return pl.DataFrame(rows)


def with_reference(finals, value=0.2):
    rows = [
        {"environment": g, "variant": batch_sizes.WEAK, "num_envs": SIZES[0], "seed": s, "score": value + 0.01 * s}
        for g in GAMES
        for s in SEEDS
    ]
    return pl.concat([finals, pl.DataFrame(rows)])


def oscillation(factor):
    rows = [{"environment": g, "num_envs": n, "seed": 1, "factor": factor(g, n)} for g in GAMES for n in SIZES]
    return pl.DataFrame(rows)


def judge_of(study, tables):
    return study.judge(study.tables.of(tables))


def verdicts_of(study, tables):
    return study.verdicts(study.tables.of(tables))


def words(verdicts):
    return {v.claim.id: v.word for v in verdicts}


# Table 5 ---------------------------------------------------------------------------------------------------


def costs(variant, n, game):
    """(a) costs 0.3 at every smaller batch, (b) 0.2 at the smallest, (c) and (d) nothing."""
    if n == SIZES[0]:
        return 0.0
    return {batch_sizes.NO_STEP_SIZE: 0.3, batch_sizes.NO_NORMALIZATION: 0.2 * (n == 1)}.get(variant, 0.0)


def test_table_5_finds_the_cells_that_have_an_effect_and_no_others():
    table = table5._table5(made(costs), SIZES)
    cells = {(row["ablation"], row["num_envs"]): row for row in table.iter_rows(named=True)}
    assert len(cells) == 4 * 3
    significant = {cell for cell, row in cells.items() if row["z"] > table5.THRESHOLD}
    assert significant == {(batch_sizes.NO_STEP_SIZE, n) for n in SIZES[1:]} | {(batch_sizes.NO_NORMALIZATION, 1)}
    assert cells[batch_sizes.NO_STEP_SIZE, 4]["effect"] == pytest.approx(0.3, abs=0.02)
    assert cells[batch_sizes.NO_NORMALIZATION, 1]["effect"] == pytest.approx(0.2, abs=0.02)
    assert cells[batch_sizes.NO_EWMA, 1]["effect"] == pytest.approx(0.0, abs=0.02)


def test_table_5_is_van_elteren_on_the_losses_of_seeds():
    finals = made(costs)
    groups = Groups(finals, "variant", "num_envs")
    losses = lambda g, v: np.subtract(groups(g, v, 64), groups(g, v, 4))
    strata = [(losses(g, batch_sizes.NO_EWMA), losses(g, batch_sizes.ADJUSTED)) for g in GAMES]
    row = table5._table5(finals, SIZES).filter((pl.col("ablation") == batch_sizes.NO_EWMA) & (pl.col("num_envs") == 4))
    expected = stats.van_elteren(strata, "greater")
    assert row["z"].item() == pytest.approx(expected.z) and row["p"].item() == pytest.approx(expected.p)
    assert row["max_z"].item() == pytest.approx(stats.max_attainable_z(strata))


def test_the_threshold_is_the_papers():
    assert pytest.approx(3.84, abs=0.005) == table5.THRESHOLD


@pytest.mark.parametrize(
    ("loss", "word"),
    [
        (lambda v, n, g: 0.3 * (v != batch_sizes.ADJUSTED and n < 64), "holds"),
        (costs, "depends"),
        (lambda v, n, g: 0.0, "inconclusive"),
        (lambda v, n, g: 0.3 * (v == batch_sizes.ADJUSTED and n < 64), "contradicted"),
    ],
)
def test_the_claim_of_table_5_is_judged_at_the_smallest_batch(loss, word):
    study = table5.Table5()
    [verdict] = judge_of(study, {"table5": table5._table5(made(loss), SIZES)})
    assert verdict.word == word and (verdict.needed != "") == (word == "inconclusive")


def test_seeds_are_paired_with_themselves_where_a_run_is_missing():
    """Losses are those of runs of one seed; a seed that lacks a run counts in no pair."""
    finals = made(costs, games=GAMES[:1])
    gone = (pl.col("seed") == SEEDS[0]) & (pl.col("num_envs") == SIZES[0])
    groups = batch_sizes.grouped(finals.filter(~gone))
    losses = table5._losses(groups, GAMES[0], batch_sizes.ADJUSTED, SIZES[0], SIZES[-1])
    whole = table5._losses(batch_sizes.grouped(finals), GAMES[0], batch_sizes.ADJUSTED, SIZES[0], SIZES[-1])
    assert losses == whole[1:]


def test_too_few_runs_cannot_resolve_table_5_and_it_says_how_many_could():
    separated = made(lambda v, n, g: 0.5 * (v != batch_sizes.ADJUSTED and n < 64), games=GAMES[:2])
    [verdict] = judge_of(table5.Table5(), {"table5": table5._table5(separated, SIZES)})
    assert verdict.word == "inconclusive"
    seeds = table5._seeds_for(2)
    assert f"at least {seeds} seeds in each of 2 environments" in verdict.needed
    reach = lambda k: stats.max_attainable_z([(range(k), range(k))] * 2)
    assert reach(seeds) > table5.THRESHOLD >= reach(seeds - 1)


def test_where_nothing_could_have_been_significant_an_effect_below_nothing_is_not_resolved_either():
    worse = made(lambda v, n, g: 0.5 * (v == batch_sizes.ADJUSTED and n < 64), games=GAMES[:2])
    table = table5._table5(worse, SIZES)
    assert table["hi"].min() < 0 and table["max_z"].min() <= table5.THRESHOLD
    assert judge_of(table5.Table5(), {"table5": table})[0].word == "inconclusive"


# Invariance and its ablations ------------------------------------------------------------------------------


def test_invariance_holds_where_finals_do_not_depend_on_the_batch():
    tables = {"finals": with_reference(made(costs)), "oscillation": oscillation(lambda g, n: 20.0 if n == 1 else 2.0)}
    found = words(judge_of(Invariance(), tables))
    assert found["H4"] == "holds" and found["H5"] == "holds" and found["H6"] == "holds" and found["H9"] == "holds"
    assert found["H7"] in ("inconclusive", "depends", "no effect of that size")  # (c) and (d) cost nothing here


def test_one_environment_does_not_make_a_claim_hold_that_all_together_leave_open():
    scattered = made(lambda v, n, g: 0.0, spread=0.5)
    calm = made(lambda v, n, g: 0.0, games=["calm"], spread=0.001)
    tables = {"finals": with_reference(pl.concat([scattered, calm])), "oscillation": oscillation(lambda g, n: 2.0)}
    verdict = judge_of(Invariance(), tables)[0]
    assert verdict.word == "inconclusive" and "seeds" in verdict.needed


def test_invariance_does_not_hold_where_small_batches_lose():
    lost = lambda v, n, g: 0.5 * (n == 1)
    tables = {"finals": with_reference(made(lost)), "oscillation": oscillation(lambda g, n: 20.0)}
    verdict = verdicts_of(Invariance(), tables)[0]
    assert verdict.word == "contradicted" and "IMPALA" in verdict.differs, "says what was different"


def test_normalization_must_matter_only_where_estimates_are_noisy():
    everywhere = lambda v, n, g: 0.3 * (v == batch_sizes.NO_NORMALIZATION and n < 64)
    tables = {"finals": with_reference(made(everywhere)), "oscillation": oscillation(lambda g, n: 2.0)}
    assert words(judge_of(Invariance(), tables))["H6"] == "contradicted"


def test_normalization_is_not_judged_where_nothing_is_noisy():
    tables = {"finals": with_reference(made(lambda v, n, g: 0.0)), "oscillation": oscillation(lambda g, n: 2.0)}
    verdict = judge_of(Invariance(), tables)[2]
    assert verdict.word == "inconclusive" and "oscillate" in verdict.needed


def test_the_step_size_must_cost_more_than_the_largest_of_the_others():
    other = lambda v, n, g: (n < 64) * {batch_sizes.NO_STEP_SIZE: 0.1, batch_sizes.NO_EWMA_ADJUSTMENT: 0.3}.get(v, 0.0)
    tables = {"finals": with_reference(made(other)), "oscillation": oscillation(lambda g, n: 2.0)}
    found = words(judge_of(Invariance(), tables))
    assert found["H5"] == "contradicted"


def test_a_weak_penalty_above_the_rest_is_no_lower_bound():
    tables = {"finals": with_reference(made(costs), 0.95), "oscillation": oscillation(lambda g, n: 2.0)}
    assert words(judge_of(Invariance(), tables))["H9"] == "contradicted"


@pytest.mark.parametrize(("linear", "word"), [(0.3, "holds"), (-0.3, "contradicted"), (0.0, "inconclusive")])
def test_the_square_root_rule_against_the_linear_one(linear, word):
    finals = made(
        lambda v, n, g: linear * (v == batch_sizes.LINEAR and n == 1),
        variants=(batch_sizes.ADJUSTED, batch_sizes.LINEAR),
    )
    assert words(judge_of(Linear(), {"finals": finals}))["H12"] == word


@pytest.mark.parametrize(("gain", "word"), [(0.0, "holds"), (0.2, "contradicted"), (-0.2, "holds")])
def test_betas_help_only_by_more_than_a_little(gain, word):
    variants = (batch_sizes.ADJUSTED, batch_sizes.ONLY_BETA2, batch_sizes.BOTH_BETAS)
    finals = made(lambda v, n, g: -gain * (v != batch_sizes.ADJUSTED and n == 1), variants=variants)
    assert words(judge_of(Betas(), {"finals": finals}))["H13"] == word


@pytest.mark.parametrize("variant", [batch_sizes.ADJUSTED, batch_sizes.NO_STEP_SIZE])
@pytest.mark.parametrize("size", SIZES)
def test_cells_none_of_whose_runs_finished_leave_the_rest_judged(variant, size):
    variants = (
        batch_sizes.ADJUSTED,
        *batch_sizes.ABLATIONS,
        batch_sizes.LINEAR,
        batch_sizes.ONLY_BETA2,
        batch_sizes.BOTH_BETAS,
    )
    gone = pl.col("variant").is_in([variant, batch_sizes.LINEAR, batch_sizes.ONLY_BETA2]) & (pl.col("num_envs") == size)
    finals = with_reference(made(costs, variants=variants)).filter(~gone)
    tables = {"finals": finals, "oscillation": oscillation(lambda g, n: 2.0), "table5": table5._table5(finals, SIZES)}
    for study in (Invariance(), Linear(), Betas(), table5.Table5()):
        assert all(verdict.word for verdict in verdicts_of(study, tables))


def test_smallness_of_an_effect_has_the_interval_that_follows():
    assert Estimate(-0.02, -0.05, 0.01).within(0.1) == Estimate(0.08, pytest.approx(0.05), 0.1)
    assert Estimate(0.3, 0.2, 0.4).within(0.1).hi == pytest.approx(-0.1)


# Configurations --------------------------------------------------------------------------------------------


def test_an_ablation_leaves_out_one_adjustment_and_no_other():
    base, whole = (batch_sizes.at(batch_sizes.ADJUSTED, "CartPole-v1", n, "default") for n in (64, 1))
    assert whole.learning_rate == pytest.approx(base.learning_rate / 8) and whole.prox_com == 64 * base.prox_com
    assert whole.norm_adv_span == 64 and whole.policy_iterations == 64 * base.policy_iterations
    kept = {
        batch_sizes.NO_STEP_SIZE: {"learning_rate": base.learning_rate},
        batch_sizes.NO_NORMALIZATION: {"norm_adv_span": 1.0},
        batch_sizes.NO_EWMA_ADJUSTMENT: {"prox_com": base.prox_com},
        batch_sizes.NO_EWMA: {"algo": "ppg", "prox_com": None},
    }
    for ablation, fields in kept.items():
        assert batch_sizes.at(ablation, "CartPole-v1", 1, "default") == whole.replace(**fields)
        if ablation != batch_sizes.NO_EWMA:
            assert batch_sizes.at(ablation, "CartPole-v1", 64, "default") == base
    only = batch_sizes.at(batch_sizes.ONLY_BETA2, "CartPole-v1", 1, "default")
    assert only.replace(adam_beta2=0.999) == whole and only.adam_beta2 == pytest.approx(0.999 ** (1 / 64), rel=1e-9)
    assert batch_sizes.at(batch_sizes.LINEAR, "CartPole-v1", 1, "default").learning_rate == pytest.approx(
        base.learning_rate / 64
    )


@pytest.mark.parametrize("size", ["quick", "default", "full"])
def test_studies_of_the_batch_share_their_runs(size):
    of = lambda study: {job.identity for job in study(size=size).jobs()}
    whole = of(Invariance)
    assert of(table5.Table5) < whole
    assert len(of(Linear) & whole) > len(of(Linear)) // 2 and of(Betas) & whole and of(ewma_comparison.Ewma) & whole


def test_at_full_size_the_configuration_is_the_papers():
    ppg, ppo = suite.phasic(suite.procgen("heist"), "full"), suite.clipped(suite.procgen("heist"), "full")
    assert (ppg.num_envs, ppg.num_steps, ppg.minibatches, ppg.total_timesteps) == (256, 256, 8, 100_000_000)
    assert (ppg.learning_rate, ppg.policy_iterations, ppg.aux_epochs, ppg.proximal_com) == (5e-4, 32, 6, 8)
    assert (ppo.update_epochs, ppo.arch, ppo.ent_coef, ppo.gamma) == (3, "shared", 0.01, 0.999)
    assert len(suite.environments("full")) == 16 and len(suite.environments("default")) >= 8


def test_the_cost_of_an_ewma_is_counted_as_in_the_papers_footnote():
    ppg, ppo = suite.phasic(suite.procgen("heist"), "full"), suite.clipped(suite.procgen("heist"), "full")
    assert ewma_comparison._overhead(ppo) == pytest.approx(0.30) and ewma_comparison._overhead(ppg) == pytest.approx(
        1 / 44
    )


# Staleness, EWMA, proximal age -----------------------------------------------------------------------------


def stale_finals(value):
    rows, rng = [], np.random.default_rng(1)
    for game, (regime, waits) in itertools.product(GAMES[:3], staleness.WAITS["default"].items()):
        for k, loss, seed in itertools.product(waits, staleness.LOSSES, SEEDS):
            normalized = (0.8 if k == 0 else value(loss, k)) + 0.005 * rng.standard_normal() * (k > 0)
            about = {"environment": game, "regime": regime, "loss": loss, "staleness": k, "seed": seed}
            rows.append(about | {"score": normalized, "iterations": 100} | dict.fromkeys(staleness.WATCHED, 0.5))
    finals = pl.DataFrame(rows)
    tables = {"change": staleness._changes(finals), "distance": staleness._distances(finals)}
    return {"finals": finals, **tables}


def test_staleness_as_in_the_papers_figure():
    like = {"recent": lambda k: 0.2, "decoupled": lambda k: 0.79 if k <= 8 else 0.3, "behavior": lambda k: 0.6}
    verdicts = judge_of(staleness.Staleness(), stale_finals(lambda loss, k: like[loss](k)))
    assert words(verdicts) == {"H1": "holds", "H2": "holds", "H3": "holds"}
    assert verdicts[0].evidence[0].effect.value == pytest.approx(0.8 - 0.2, abs=0.01)
    assert verdicts[1].evidence[0].effect.value == pytest.approx(0.79 - 0.8, abs=0.01)
    early, late = (next(e for e in verdicts[2].evidence if mark in e.environment) for mark in ("small", "staleness 16"))
    assert early.effect.value == pytest.approx(0.79 - 0.6, abs=0.01)
    assert late.effect.value == pytest.approx(0.6 - 0.3, abs=0.01)


def test_a_decoupled_loss_that_falls_at_once_contradicts_the_figure():
    verdicts = judge_of(staleness.Staleness(), stale_finals(lambda loss, k: 0.3))
    assert words(verdicts)["H2"] == "contradicted"


def test_staleness_that_does_no_harm_contradicts_the_figure():
    verdicts = judge_of(staleness.Staleness(), stale_finals(lambda loss, k: 0.8 + 0.02 * (loss == "behavior")))
    found = words(verdicts)
    assert found["H1"] == "contradicted" and found["H2"] == "holds" and found["H3"] == "no effect of that size"
    assert "nats" in verdicts[0].differs, "says why: how far iterations move the policy"


def test_only_runs_of_as_many_iterations_as_the_papers_are_judged():
    tables = stale_finals(lambda loss, k: {"recent": 0.2, "decoupled": 0.79 if k <= 8 else 0.3, "behavior": 0.6}[loss])
    spoiled = pl.when((pl.col("regime") != staleness.MANY) & (pl.col("staleness") > 0)).then(0.0)
    finals = tables["finals"].with_columns(spoiled.otherwise(pl.col("score")).alias("score"))
    verdicts = judge_of(staleness.Staleness(), tables | {"finals": finals})
    assert words(verdicts)["H2"] == "holds" and f"{staleness.FEW} -0.8" in verdicts[1].sentence


def test_distance_is_told_apart_from_what_it_costs():
    """Stale minus fresh score beside the KL of the same runs, for losses whose weights know who acted."""
    rows = [
        {"environment": e, "regime": "r", "loss": loss, "staleness": k, "seed": seed, "score": 0.9 - cost * k}
        | {"approx_kl": 0.001 if k < 8 else 0.3}
        for e in ("a", "b")
        for loss, cost in (("decoupled", 0.01), ("behavior", 0.02), ("recent", 0.1))
        for k in (0, 1, 2, 8, 9)
        for seed in (1, 2)
    ]
    found = staleness._distances(pl.DataFrame(rows))
    assert set(found["loss"]) == {"decoupled", "behavior"} and set(found["staleness"]) == {1, 2, 8, 9}
    mine = found.filter((pl.col("loss") == "behavior") & (pl.col("staleness") == 8)).row(0, named=True)
    assert mine["nats"] == pytest.approx(0.3) and mine["change"] == pytest.approx(-0.16)
    said = staleness._by_distance(found)
    assert (
        "-0.015 [" in said
        and "-0.085 [" in said
        and "less than 0.01 nats from its data (4 cases in 2 environments)" in said
    )


def test_slower_runs_take_steps_as_much_smaller():
    study = staleness.Staleness()
    few, many, once = (study.base("CartPole-v1", regime) for regime in (staleness.FEW, staleness.MANY, staleness.ONCE))
    assert (few.iterations, many.iterations, once.iterations) == (96, 1536, 1536)
    assert many.learning_rate == pytest.approx(few.learning_rate / 4), "a sixteenth of the batch"
    assert once.learning_rate == 2 * many.learning_rate and (many.update_epochs, once.update_epochs) == (3, 1)


def test_fresh_data_has_one_loss():
    base = staleness.Staleness(size="quick").base("CartPole-v1", staleness.MANY)
    assert len({staleness.stale(base, 0, loss) == base for loss in staleness.LOSSES}) == 1
    assert staleness.stale(base, 2, "recent").staleness_loss == "recent"


def test_bands_lie_along_diagonals_of_equal_product():
    side = 4
    product = [[math.sin(i - j)] * 2 for i in range(side) for j in range(side)]
    assert proximal_age._banding(product, side) > 0.1
    assert proximal_age._banding([[math.sin(i + j)] * 2 for i in range(side) for j in range(side)], side) < -0.1
    study = proximal_age.ProximalAge(size="quick")
    for cell in study.cells():
        i, j = cell.labels["row"], cell.labels["column"]
        first = study.cells()[0].labels
        scale = (cell.labels["com"] * cell.labels["kl_coef"]) / (first["com"] * first["kl_coef"])
        assert scale == pytest.approx(proximal_age.FACTOR ** (i - j)), "equal products have equal i − j"


@pytest.mark.parametrize(("shape", "word"), [(lambda i, j: i - j, "holds"), (lambda i, j: i + j, "contradicted")])
def test_banding_is_judged_against_its_interval(shape, word):
    rng = np.random.default_rng(2)
    rows = [
        {"environment": "game", "row": i, "column": j, "seed": s, "score": shape(i, j) / 5 + 0.02 * rng.normal()}
        for i, j, s in itertools.product(range(4), range(4), SEEDS)
    ]
    assert words(judge_of(proximal_age.ProximalAge(), {"finals": pl.DataFrame(rows)}))["H14"] == word


# Mechanisms ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def population():
    """A small agent and samples: per-sample gradients can be written out."""
    agent = Agent((3,), "float32", Categorical(2), network="mlp", hidden_sizes=(4,), activation="tanh", arch="dual")
    params = agent.init(jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 3)
    samples = Samples(
        jax.random.normal(keys[0], (32, 3)),
        jax.random.bernoulli(keys[1], 0.5, (32,)).astype(jnp.int32),
        jax.random.normal(keys[2], (32,)),
        jnp.zeros(32),
    )
    return PerSample(agent), params, samples


def test_squares_and_two_steps_equal_those_written_out(population):
    per_sample, params, samples = population
    config = Config(
        env_id="CartPole-v1", num_envs=1, num_steps=8, num_minibatches=1, total_timesteps=8, learning_rate=0.1
    )
    sizes, key = (4, 8, 16), jax.random.key(3)
    measure = jax.jit(steps._program(per_sample, sizes, config))
    squares, apart, rate, mean = measure(params, samples, key)
    order = jax.random.permutation(key, 32)
    vectors = np.asarray(per_sample.vectors(params, samples))[np.asarray(order)]
    np.testing.assert_allclose(mean, vectors.mean(0), atol=1e-6)
    for k, n in enumerate(sizes):
        groups = [vectors[i : i + n].mean(0) for i in range(0, 32, n)]
        np.testing.assert_allclose(squares[k], np.mean([g**2 for g in groups]), rtol=1e-4)
    lengths = [np.linalg.norm(vectors[i : i + 8].mean(0)) for i in range(0, 32, 8)]
    np.testing.assert_allclose(rate, 0.23 * 0.1 * np.sqrt(vectors.shape[1]) / np.mean(lengths) / 8, rtol=1e-4)
    # Two steps of 4 and one of 8 samples, by the objective of importance weights.
    agent, alpha = per_sample.agent, float(rate) * 4
    first, second = (jax.tree.map(lambda x, i=i: x[order][i : i + 4], samples) for i in (0, 4))
    logp = lambda policy, s: agent.dist.logp(agent.policy(policy, s.obs), s.action)
    gain = lambda policy, s: (jnp.exp(logp(policy, s) - logp(params.policy, s)) * s.advantage).mean()
    step = lambda policy, s: policy + alpha * jax.grad(gain)(policy, s)
    two = step(step(params.policy, first), second)
    both = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, second)
    one = params.policy + 2 * alpha * jax.grad(gain)(params.policy, both)
    np.testing.assert_allclose(apart[0], jnp.linalg.norm(two - one), rtol=1e-2, atol=1e-6)


def test_moments_give_back_the_variance_and_signal_they_were_made_from():
    rng, parameters, sizes = np.random.default_rng(4), 50, (4, 8, 16)
    signal = np.full(parameters, 0.1)
    draws = signal + rng.standard_normal((4000, 32, parameters))
    means = draws.mean(1)
    square = np.array([[(d.reshape(-1, n, parameters).mean(1) ** 2).mean() for n in sizes] for d in draws])
    assert steps._sample_variance(square, sizes, means) == pytest.approx(parameters, rel=0.02)
    assert steps._unbiased_square(means) == pytest.approx(signal @ signal, rel=0.1)
    assert steps._unbiased_square(np.array([[1.0, 2.0], [3.0, 4.0]])) == pytest.approx(1 * 3 + 2 * 4)


def test_the_slope_is_fitted_well_below_the_noise_scale():
    scale = 64.0
    rms = [math.sqrt(1 + scale / n) for n in adam_step_size.SIZES]
    rows = pl.DataFrame({"size": adam_step_size.SIZES, "rms": rms})
    assert adam_step_size.slope(rows, scale) == pytest.approx(-0.45, abs=0.03)
    assert adam_step_size.slope(rows, math.inf) > -0.35, "sizes beyond it bend the line"


def mechanisms(exponent, apart):
    rows = [
        {
            "environment": "game",
            "stage": "late",
            "seed": s,
            "size": n,
            "rms": n**exponent * (1 + 0.001 * s),
            "apart": apart,
        }
        for s in SEEDS
        for n in adam_step_size.SIZES
    ]
    noise = [{"environment": "game", "stage": "late", "seed": s, "noise_scale": 2000.0, "minibatch": 64} for s in SEEDS]
    return {"steps": pl.DataFrame(rows), "noise": pl.DataFrame(noise)}


def test_mechanisms_are_judged():
    assert words(judge_of(adam_step_size.Adam(), mechanisms(-0.5, 0.01))) == {"H15": "holds", "H16": "holds"}
    assert words(judge_of(adam_step_size.Adam(), mechanisms(-0.1, 2.0))) == {
        "H15": "contradicted",
        "H16": "contradicted",
    }


# Figures ---------------------------------------------------------------------------------------------------


def curves_of(finals):
    steps = pl.DataFrame({"step": [100, 200, 300], "rise": [0.2, 0.6, 1.0]})
    return finals.join(steps, how="cross").with_columns((pl.col("score") * pl.col("rise")).alias("normalized"))


def invariance_tables():
    finals = with_reference(made(costs))
    estimates = [
        {"environment": g, "num_envs": n, "share": k / 3, "value": 1.0 + k}
        for g in GAMES
        for n in SIZES
        for k in range(3)
    ]
    return {
        "finals": finals,
        "curves": curves_of(finals),
        "differences": _differences(finals, SIZES),
        "deviations": pl.DataFrame(estimates),
    }


def algorithm_tables(score=lambda algorithm: 0.5):
    names = [
        ewma_comparison.PPO,
        ewma_comparison.PPO_EWMA,
        ewma_comparison.PPG,
        ewma_comparison.PPG_EWMA,
        *ewma_comparison.SMALLER_PAIR,
    ]
    rows = [
        {"environment": g, "algorithm": a, "seed": s, "score": score(a) + 0.01 * s, "fps": 1000.0 + s}
        | {"early_kl": 0.03 if a == ewma_comparison.PPO_EWMA else 0.01, "final_normalized": 1.0}
        for g, a, s in itertools.product(GAMES, names, SEEDS)
    ]
    finals = pl.DataFrame(rows)
    found = {"finals": finals, "curves": curves_of(finals), "differences": ewma_comparison._differences(finals)}
    return found | {
        "change": ewma_comparison._change(finals),
        "costs": ewma_comparison.Ewma(size="quick")._costs(finals),
    }


def test_where_the_ewma_falls_behind_it_is_said_how_far_iterations_go_and_what_smaller_steps_change():
    behind = algorithm_tables(
        lambda a: 0.2 if a == ewma_comparison.PPO_EWMA else 0.9 if a == ewma_comparison.PPO_EWMA_SMALLER else 0.5
    )
    gain = judge_of(ewma_comparison.Ewma(), behind)[0]
    assert gain.word == "contradicted"
    assert "moves the policy 3 to 3 times as far" in gain.differs
    assert "With 1/4 of the step size the difference is 0.4 [" in gain.differs
    assert "pair" in behind["differences"].columns and behind["differences"]["pair"].n_unique() == 3


@pytest.mark.parametrize(
    ("study", "tables"),
    [
        (Invariance(), invariance_tables),
        (table5.Table5(), lambda: {"table5": table5._table5(made(costs), SIZES)}),
        (Linear(), lambda: _with_curves(made(costs, variants=(batch_sizes.ADJUSTED, batch_sizes.LINEAR)))),
        (Betas(), lambda: _with_curves(made(costs, variants=Betas().variants()))),
        (ewma_comparison.Ewma(), algorithm_tables),
        (staleness.Staleness(), lambda: stale_finals(lambda loss, k: 0.5)),
        (adam_step_size.Adam(), lambda: mechanisms(-0.5, 0.01)),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_every_figure_is_drawn_from_its_tables(study, tables):
    figures = study.figures(study.tables.of(tables()))
    assert figures
    for figure in figures.values():
        assert figure.chart.to_dict()["config"] and figure.caption.endswith(".")


def _with_curves(finals):
    return {"finals": finals, "curves": curves_of(finals)}


# Studies as they are run -----------------------------------------------------------------------------------


def test_published_curves_say_that_ppg_beats_ppo(tmp_path):
    answer = run_study(published.Published(size="quick"), tmp_path / "study", ExecutionOptions(on="inline"))
    table = pl.read_parquet(tmp_path / "study" / "tables" / "comparisons.parquet")
    first = table.row(0, named=True)
    assert first["z"] > 7 and first["max_z"] == pytest.approx(math.sqrt(16) * 3 * 3 / 7 / 2 / math.sqrt(9 / 7 / 12))
    assert first["improvement_lo"] > 0.9 and table["p"][1] > 0.05, "a KL penalty in place of clipping changes little"
    page = (tmp_path / "study" / "page.html").read_text()
    assert "MIT licence" in page and "7.43" in answer.sentence
    assert (tmp_path / "study" / "figures" / "comparisons.svg").is_file()


def test_published_returns_are_normalized_by_the_papers_ranges():
    curves = published._published()
    row = curves.filter((pl.col("environment") == "starpilot") & (pl.col("seed") == 0)).row(0, named=True)
    assert row["normalized"] == pytest.approx((row["return"] - 1.5) / 33.5)
    assert len(curves) == 4800 and len(published._finals_of(curves)) == 4 * 3 * 16


def test_a_study_trains_judges_and_draws_at_a_tiny_size(tmp_path, monkeypatch):
    answer = run_study(small_grid(monkeypatch), tmp_path / "study", ExecutionOptions(on="inline"))
    assert answer.jobs == 8 and not answer.failed
    [verdict] = answer.verdicts
    assert verdict.word in ("holds", "contradicted", "inconclusive") and verdict.id == "H14"
    finals = pl.read_csv(tmp_path / "study" / "tables" / "finals.csv")
    assert len(finals) == 8 and finals["final"].min() > 5
    assert (tmp_path / "study" / "figures" / "grid.png").is_file() and "H14" in (
        tmp_path / "study" / "page.html"
    ).read_text()


def test_workers_know_the_kinds_of_jobs_that_studies_bring():
    run = jobs.Train(suite.phasic("CartPole-v1", "quick"), checkpoints=1)
    job = steps.GradientSteps(run, (4, 8))
    assert jobs.from_dict(job.as_dict()) == job and jobs.from_dict(job.as_dict()).identity == job.identity
