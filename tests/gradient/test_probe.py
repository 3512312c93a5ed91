"""Probes of real runs: what is in them, what they agree with, and what they refuse."""

import dataclasses
import inspect
import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
import tiny

import trimtab
from trimtab import cli
from trimtab.config import Config, ConfigError
from trimtab.gradient import exact
from trimtab.gradient.anatomy import ExactAnswers
from trimtab.gradient.probe_options import ProbeOptions
from trimtab.gradient.probing import Prober, probe
from trimtab.gradient.row_sampling import tail_length
from trimtab.training.engine_setup import build_engine, load_engine
from trimtab.training.loop import train

TINY = dict(num_minibatches=2, update_epochs=2, hidden_sizes=(8, 8), total_timesteps=512)


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    config = Config(env_id="Pendulum-v1", num_envs=4, num_steps=32, gamma=0.9, ent_coef=0.0, time_limit=50, **TINY)
    return train(config, tmp_path_factory.mktemp("runs") / "pendulum", checkpoints=2)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    config = Config(env_id="FrozenLake-v1", num_envs=8, num_steps=16, gamma=0.95, **TINY)
    return train(config, tmp_path_factory.mktemp("runs") / "lake", checkpoints=1)


@pytest.fixture(scope="module")
def found(pendulum):
    return trimtab.probe(pendulum, replicates=8)


def test_a_probe_measures_everything_with_intervals(found):
    d = found.decomposition
    for estimate in (d.variance, d.individual, d.ess, found.mse):
        assert estimate.resolved and estimate.lo <= estimate.value <= estimate.hi
    assert d.variance.value == pytest.approx(d.individual.value + d.covariance.value + d.between_rows.value)
    assert np.shape(found.replicate_cosines) == (5, 5)
    assert np.allclose(np.diag(found.replicate_cosines), 1)
    assert found.minibatch.drift and found.minibatch.clip_bias
    ratio = found.minibatch.subsampling_measured / found.minibatch.subsampling_formula
    assert 0.7 < ratio < 1.4
    assert found.reset_synchrony == pytest.approx(1.0, abs=1e-3)  # Pendulum's environments reset in lockstep


def test_a_probe_ends_with_what_doubling_the_batch_would_buy(found):
    assert "Your batch of 128 (4 × 32) is worth" in found.sentence and found.as_dict()["sentence"] == found.sentence
    lags = np.array(found.lag_covariance)
    later = np.arange(1, 32) / 64  # twice the steps: (C_0 + 2 Σ (1 − k/64) C_k) / (2 · 4 · 32)
    twice = (lags[0] + 2 * ((1 - later) * lags[1:]).sum()) / (2 * 4 * 32)
    along_rows = found.individual.value + found.covariance.value  # what is between rows is not significant here
    assert found.worth.steps_ratio == pytest.approx(twice / along_rows, rel=1e-4)


def test_lag_covariances_add_up_to_the_variance(found):
    d, num_steps = found.decomposition, found.num_steps
    taper = 2 * (1 - np.arange(num_steps) / num_steps)
    taper[0] = 1
    total = taper @ d.lag_covariance / (found.num_envs * num_steps)
    assert total == pytest.approx(d.individual.value + d.covariance.value, rel=1e-6)


def test_the_first_minibatch_gradient_points_along_the_batch_gradient(found):
    """At the first update nothing is clipped, and later ones are measured at drifted parameters."""
    assert found.minibatch.clip_bias[0] < 1e-4
    assert len(found.minibatch.drift) == 4


def test_another_lambda_reaches_the_minibatch_effects_too(pendulum):
    short, long = probe(pendulum, gae_lambda=[0.0, 1.0], replicates=2, save=False, bias=False)
    assert not np.allclose(short.minibatch.drift, long.minibatch.drift, atol=1e-3)


def test_measurements_are_saved_with_the_run_as_one_long_table(pendulum, found):
    files = list((pendulum.path / "probes").glob("*.parquet"))
    assert files
    frame = pl.read_parquet(files[0])
    assert {"quantity", "split", "step", "lag", "value", "lo", "hi", "resolved", "unit"} <= set(frame.columns)
    row = frame.filter(pl.col("quantity") == "variance").row(0, named=True)
    assert row["value"] == pytest.approx(found.variance.value)
    assert frame.equals(found.frame) or frame.height == found.frame.height


def test_other_splits_several_checkpoints_and_several_lambdas(pendulum):
    several = probe(
        pendulum, at="all", gae_lambda=[0.0, 1.0], num_envs=8, num_steps=16, replicates=4, save=False, bias=False
    )
    assert [(a.step, a.gae_lambda) for a in several] == [(s, lam) for s in (0, 256, 512) for lam in (0.0, 1.0)]
    assert {a.split for a in several} == {"8x16"}
    assert several[-1].decomposition.individual.value != several[-2].decomposition.individual.value


def test_another_run_of_the_same_shapes_compiles_nothing(pendulum, found, tmp_path, caplog):
    """Seeds and traced numbers differ; programs are those of the first probe of this process."""
    other = train(
        pendulum.config.replace(seed=5, learning_rate=1e-3, gae_lambda=0.8), tmp_path / "other", checkpoints=2
    )
    with jax.log_compiles(), caplog.at_level("WARNING", logger="jax"):
        again = [probe(other, at=at, replicates=4, save=False) for at in ("last", 256)]
    assert not [r for r in caplog.records if "XLA compilation" in r.getMessage()]
    assert again[0].gae_lambda == 0.8 and again[0].variance.value != found.variance.value
    alone = prober_at(other, 512, replicates=4).anatomy(512)
    assert again[0].variance == alone.variance and again[0].bias_sq == alone.bias_sq


def test_a_prober_refuses_a_run_of_other_shapes(pendulum):
    prober = prober_at(pendulum, 512, replicates=4)
    with pytest.raises(ValueError, match="not those of this prober"):
        prober.at(prober.sampler.state, pendulum.config.replace(gamma=0.99))


def test_progress_counts_every_batch_of_both_passes(pendulum):
    told = []
    probe(pendulum, at="last", replicates=4, blocks=(16,), save=False, tick=lambda *now: told.append(now))
    done, totals, doing = zip(*told)
    assert list(done) == list(range(17)) and set(totals) == {16}
    assert "compiling" in doing[0] and "means of replicate 4" in doing[4] and "blocks of 16" in doing[-1]


def test_the_public_function_says_every_option_with_its_default():
    parameters = inspect.signature(trimtab.probe).parameters
    stated = {name: p.default for name, p in parameters.items()}
    assert {f.name: f.default for f in dataclasses.fields(ProbeOptions)}.items() <= stated.items()
    assert all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in parameters.values())


def test_an_anatomy_is_shown_in_a_line_and_in_a_notebook(found):
    assert repr(found).startswith("Anatomy of 4x32 at step") and "\n" not in repr(found) and len(repr(found)) < 400
    assert found._repr_html_().count("<tr>") == len(found.estimates) and "|G|²" in found._repr_html_()


def test_the_number_of_replicates_compiles_nothing_again(pendulum):
    config, engine, state, step = load_engine(pendulum.path, None)
    prober = Prober(config, engine.algorithm, state, ProbeOptions(replicates=2))
    prober.anatomy(step)
    programs = lambda: (
        prober.sampler._draw._cache_size(),
        prober.measurer._first._cache_size(),
        prober.measurer._second._cache_size(),
    )
    before = programs()
    object.__setattr__(prober.options, "replicates", 5)
    prober.anatomy(step)
    assert programs() == before == (1, 1, 1)


def test_blocks_predict_what_a_probe_of_shorter_rows_measures(pendulum):
    long = probe(
        pendulum, num_envs=4, num_steps=32, replicates=64, blocks=(8,), correlations=False, bias=False, save=False
    )
    short = probe(pendulum, num_envs=16, num_steps=8, replicates=64, correlations=False, bias=False, save=False)
    predicted, measured = long.predicted[8], short.variance
    assert predicted.lo <= measured.hi and measured.lo <= predicted.hi
    assert predicted.value == pytest.approx(measured.value, rel=0.35)


def test_finite_mdps_come_with_exact_answers(lake):
    found = probe(lake, replicates=64, correlations=False, save=False)
    assert found.exact.bias_sq >= 0 and -1 <= found.exact.cosine_true_return <= 1
    width = found.bias_sq.hi - found.bias_sq.lo
    assert found.bias_sq.lo - width <= found.exact.bias_sq <= found.bias_sq.hi + width


def test_carried_states_and_resets_are_starts_too(pendulum):
    for start in ("carry", "reset"):
        found = probe(pendulum, start=start, replicates=8, correlations=False, bias=False, save=False)
        assert found.variance.value > 0


def test_host_environments_are_sampled_by_the_checkpoint_that_is_measured(tmp_path):
    """One prober at two checkpoints: the rows of each are its own policy's, and other seeds give other rows."""
    config = tiny.config(backend="envpool", norm_obs=True, total_timesteps=64, learning_rate=0.3, time_limit=20)
    run = train(config, tmp_path / "run", checkpoints=1)
    options = ProbeOptions(replicates=2, advantages="fixed", correlations=False)
    prober, drawn = None, []
    for step in (0, 64):
        config, engine, state, _ = load_engine(run.path, step)
        prober = prober.at(state) if prober else Prober(config, engine.algorithm, state, options)
        rows = prober.sampler.draw(0, 0).rollout
        seen = engine.algorithm.normalized_obs(state.obs_stats, rows.obs, engine.hypers).reshape(-1, 4)
        dist = engine.algorithm.agent.policy(state.params.policy, seen).reshape(rows.dist.shape)
        np.testing.assert_allclose(engine.algorithm.dist.logp(dist, rows.action), rows.logp, atol=1e-4)
        assert not np.array_equal(prober.sampler.draw(1, 0).rollout.obs, rows.obs)
        fixed = {lam: prober.rows(0, lam) and prober._fixed[lam] for lam in (0.0, 1.0)}
        drawn.append((np.asarray(rows.logp), fixed))
        engine.close()
    prober.close()
    assert np.abs(drawn[0][0] - drawn[1][0]).max() > 1e-2
    assert len({moments for _, fixed in drawn for moments in fixed.values()}) == 4


def test_advantages_are_standardized_over_experience_only(tmp_path):
    """With EnvPool some samples are not experience; a batch's own moments leave them out."""
    run = train(tiny.config(backend="envpool", num_steps=64, total_timesteps=256), tmp_path / "run", checkpoints=1)
    config, engine, state, _ = load_engine(run.path, None)
    prober = Prober(config, engine.algorithm, state, ProbeOptions(advantages="batch", replicates=2))
    rows = prober.rows(0, None)
    advantage = np.asarray(rows.samples.advantage)[np.asarray(rows.valid)]
    assert not rows.valid.all()
    assert advantage.mean() == pytest.approx(0, abs=1e-5) and advantage.std() == pytest.approx(1, abs=1e-5)
    engine.close()
    prober.close()


def test_what_a_run_cannot_give_is_refused(tmp_path):
    host = train(tiny.config(backend="gymnasium"), tmp_path / "host", checkpoints=1)
    with pytest.raises(ConfigError, match=r"start='carry'.*nearest: stationary, reset"):
        probe(host, start="carry", replicates=8)
    plain = train(tiny.config(algo="reinforce", num_minibatches=1), tmp_path / "plain", checkpoints=1)
    with pytest.raises(ConfigError, match=r"gae_lambda.*leave it out"):
        probe(plain, gae_lambda=0.9)


def test_batch_normalized_advantages_report_only_what_whole_batches_show(pendulum):
    found = probe(pendulum, advantages="batch", replicates=8, correlations=False, save=False)
    assert found.variance.resolved and not found.decomposition.individual.resolved
    assert not found.bias_sq.resolved


def test_full_objective_and_every_method_run(pendulum):
    base = probe(pendulum, replicates=4, correlations=False, bias=False, save=False)
    chunks = probe(pendulum, replicates=4, correlations=False, bias=False, save=False, method="chunks")
    assert chunks.variance.value == pytest.approx(base.variance.value, rel=1e-3)
    full = probe(pendulum, replicates=4, correlations=False, bias=False, save=False, objective="full")
    assert full.method == "chunks"
    projected = probe(pendulum, replicates=4, correlations=False, bias=False, save=False, method="projection")
    assert projected.variance.value == pytest.approx(base.variance.value, rel=0.2)


def test_a_host_environment_can_be_probed_but_its_bias_is_not_resolved(tmp_path):
    config = Config(env_id="CartPole-v1", backend="gymnasium", num_envs=4, num_steps=16, time_limit=30, **TINY)
    run = train(config, tmp_path / "host", checkpoints=1)
    found = probe(run, replicates=8, correlations=False, save=False)
    assert found.variance.value > 0 and not found.bias_sq.resolved
    assert any("cannot be continued" in note for note in found.notes)


def test_a_probe_with_the_seed_of_the_run_draws_other_samples_than_the_run_did():
    config = Config(env_id="CartPole-v1", num_envs=4, num_steps=16, seed=0, **TINY)
    engine = build_engine(config)
    state = engine.init(0)
    _, rollout = jax.jit(engine.algorithm.collect)(state, engine.hypers)
    prober = Prober(config, engine.algorithm, state, ProbeOptions(start="carry", bias=False, seed=0))
    drawn = [np.asarray(prober.rows(k, None).rollout.action) for k in range(5)]
    again = np.asarray(prober.sampler.draw(0, 3, None).rollout.action)
    np.testing.assert_array_equal(again, rollout.action)  # what the run's own seed would give
    assert not any(np.array_equal(actions, rollout.action) for actions in drawn)


def test_a_light_probe_is_taken_every_so_many_iterations(tmp_path):
    config = Config(env_id="Pendulum-v1", num_envs=4, num_steps=32, ent_coef=0.0, probe_every=2, **TINY)
    rows = train(config, tmp_path / "light", checkpoints=1).files.metrics()
    assert "grad/variance" not in rows[0].numbers and "grad/variance" in rows[1].numbers
    assert -1 <= rows[1].numbers["grad/cosine_lag1"] <= 1


def test_exact_answers_know_a_normalized_value_head():
    """With PopArt the network's output is not the value; the exact bias is that of the critic that is used."""
    config = Config(env_id="FrozenLake-v1", num_envs=8, num_steps=16, gamma=0.95, norm_value="popart", **TINY)
    engine = build_engine(config)
    state = engine.init(1)
    stats = state.value_stats._replace(count=jnp.float32(100), mean=jnp.float32(3.0), deviation=jnp.float32(400.0))
    obs = engine.algorithm.env.state_obs()
    table = exact.critic_table(engine.algorithm, replace(state, value_stats=stats), obs)
    head = np.asarray(engine.algorithm.agent.value(state.params, jnp.asarray(obs)))
    np.testing.assert_allclose(table, 3.0 + 2.0 * head, rtol=1e-4)


def test_tails_are_as_long_as_the_discount_needs():
    assert tail_length(0.99) == 688 and tail_length(1.0) is None and tail_length(0.0) == 1


@pytest.mark.parametrize(
    "options",
    [{"at": []}, {"replicates": 1}, {"start": "middle"}, {"num_steps": 0}, {"start": "carry", "replicates": 4}],
)
def test_what_means_nothing_is_refused(pendulum, options):
    with pytest.raises(ConfigError):
        probe(pendulum, **options)


def test_the_command_prints_one_object(pendulum, capsys):
    words = ["probe", str(pendulum.path), "--replicates", "4", "--json", "--quiet"]
    assert cli.main(words) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["probes"][0]["variance"]["value"] > 0
    with pytest.raises(SystemExit) as stopped:
        cli.main([*words, "--at", "7"])
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and "nearest: 0, 256" in said and len(said.splitlines()) == 1


@pytest.mark.parametrize(
    "options, field",
    [
        (dict(blocks=[8], advantages="fixed"), "advantages"),
        (dict(blocks=(8,), start="reset"), "start"),
        (dict(gae_lambda=1.5), "gae_lambda"),
        (dict(at="middle"), "at"),
    ],
)
def test_what_would_be_ignored_or_misunderstood_is_refused(lake, options, field):
    with pytest.raises(ConfigError) as refused:
        probe(lake, replicates=8, **options)
    assert refused.value.field == field


def test_a_single_environment_has_figures_too(lake):
    found = probe(lake, num_envs=1, num_steps=8, replicates=8, bias=False, save=False)
    for name, chart in found.charts().items():
        assert json.dumps(chart.to_dict(), allow_nan=False, default=str), name


def prober_at(run, step: int, **options) -> Prober:
    """A prober of its own at a checkpoint, which no other probe has used."""
    config, engine, state, _ = load_engine(run.path, step)
    return Prober(config, engine.algorithm, state, ProbeOptions(**options))


def prober_of(config: Config, **options) -> Prober:
    """A prober of the untrained policy: nothing is trained, and nothing compiled before it measures."""
    engine = build_engine(config)
    return Prober(config, engine.algorithm, engine.init(1), ProbeOptions(**options))


# REINFORCE without a baseline: every rollout starts at reset, what comes after its first episode is masked.
WHOLE = Config(env_id="FrozenLake-v1", algo="reinforce", baseline=False, num_steps=20, time_limit=20, hidden_sizes=(8,))


def test_whole_episodes_are_measured_from_reset_whatever_is_asked():
    few = dict(replicates=16, bias=False, correlations=False)
    plain, carried = (prober_of(WHOLE, start=start, **few).anatomy(0) for start in ("stationary", "carry"))
    assert plain.decomposition.num_masked > 0
    assert carried.variance == plain.variance and carried.options.start == "reset"


@pytest.mark.parametrize("options", [dict(num_steps=10), dict(blocks=(10,)), dict(objective="full")])
def test_whole_episodes_cannot_be_cut(options):
    with pytest.raises(ConfigError):
        prober_of(WHOLE, **options)


def test_reinforce_is_measured_at_its_own_lambda():
    assert prober_of(WHOLE.replace(baseline=True)).lambda_of(None) == 1.0
    assert prober_of(Config(env_id="FrozenLake-v1", gae_lambda=0.9)).lambda_of(None) == 0.9


def test_exact_answers_are_given_only_for_what_they_are_exact_about():
    lake = Config(env_id="FrozenLake-v1", hidden_sizes=(8,))
    assert prober_of(lake).exactly(0.95)
    for options in (dict(start="reset"), dict(advantages="batch"), dict(objective="full")):
        assert prober_of(lake, **options).exactly(0.95) == ExactAnswers()
