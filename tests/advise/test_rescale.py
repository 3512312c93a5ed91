"""Every row of the table with exact numbers, the paper's ladder, there and back, and what is refused or warned of."""

import json
import math
import subprocess
import sys

import polars as pl
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

import trimtab
from trimtab import cli, presets
from trimtab import config as configuration
from trimtab.advise.rescale_adjustments import ADJUSTMENTS, effective
from trimtab.advise.rescaling import RULES, rescale
from trimtab.config import Config, ConfigError
from trimtab.training.records import Manifest
from trimtab.training.run_dir import RunDir

# The paper's PPG-EWMA on Procgen: 4 workers x 64 environments, 16 auxiliary minibatches per iteration of a phase.
PAPER = Config(
    env_id="procgen/StarPilot",
    algo="ppg-ewma",
    total_timesteps=100_000_000,
    num_envs=256,
    num_steps=256,
    num_minibatches=8,
    update_epochs=1,
    learning_rate=5e-4,
    gamma=0.999,
    max_grad_norm=None,
    policy_iterations=32,
    aux_minibatch_size=4096,
    aux_learning_rate=5e-4,
)
SMALL = Config(num_envs=16, num_steps=128, num_minibatches=4, update_epochs=1, learning_rate=1e-3, norm_adv="none")


def row(result, name):
    (found,) = [change for change in result.changes if change.field == name]
    return found


def warned(result, text):
    return any(text in warning for warning in result.warnings)


# The table -------------------------------------------------------------------------------------------------


def test_public_names_are_the_function_and_its_result():
    assert callable(trimtab.rescale)
    assert isinstance(trimtab.rescale(SMALL, num_envs=4), trimtab.Rescaled)


def test_changing_envs_keeps_the_number_of_minibatches_so_both_factors_agree():
    result = rescale(SMALL, num_envs=4)
    assert (result.c_opt, result.c_iter) == (4.0, 4.0)
    assert (result.config.minibatches, result.config.minibatch) == (4, 128)


def test_a_minibatch_alone_moves_only_c_opt():
    result = rescale(SMALL, minibatch_size=128)
    assert (result.c_opt, result.c_iter) == (4.0, 1.0)
    assert (result.config.minibatches, result.config.batch) == (16, SMALL.batch)


def test_envs_with_the_minibatch_held_move_only_c_iter():
    result = rescale(PAPER.replace(norm_adv="ewma", norm_adv_span=2.0), num_envs=64, minibatch_size=8192)
    assert (result.c_opt, result.c_iter) == (1.0, 4.0)
    new = result.config
    assert (new.learning_rate, new.proximal_com) == (5e-4, 8.0)
    assert (new.norm_adv_span, new.policy_iterations) == (8.0, 128)


def test_adam_step_size_falls_by_the_root_and_sgd_by_the_whole():
    assert rescale(SMALL, num_envs=4).config.learning_rate == pytest.approx(5e-4, rel=1e-15)
    sgd = SMALL.replace(optimizer="sgd")
    assert rescale(sgd, num_envs=4).config.learning_rate == pytest.approx(2.5e-4, rel=1e-15)


def test_adam_betas_stay_unless_asked_for():
    kept = rescale(SMALL, num_envs=4)
    assert (kept.config.adam_beta1, kept.config.adam_beta2) == (0.9, 0.999)
    assert not row(kept, "adam_beta1").changed
    moved = rescale(SMALL, num_envs=4, adam_betas=True).config
    assert moved.adam_beta1 == pytest.approx(0.9**0.25, rel=1e-14)
    assert moved.adam_beta2 == pytest.approx(0.999**0.25, rel=1e-14)


def test_proximal_age_stays_in_environment_steps():
    config = SMALL.replace(algo="ppo-ewma", prox_com=3.0)
    new = rescale(config, num_envs=4).config
    assert new.prox_com == 12.0
    age = lambda c: c.proximal_com * c.minibatch
    assert age(new) == age(config)
    assert rescale(config.replace(prox_com=None), num_envs=4).config.prox_com == 16.0


def test_advantages_over_the_batch_become_an_ewma_of_as_many_samples():
    new = rescale(SMALL.replace(norm_adv="batch"), num_envs=4).config
    assert (new.norm_adv, new.norm_adv_span) == ("ewma", 4.0)
    back = rescale(new, num_envs=16).config
    assert (back.norm_adv, back.norm_adv_span) == ("batch", 1.0)


def test_a_span_below_one_iteration_is_clamped_and_reported():
    result = rescale(SMALL.replace(norm_adv="ewma", norm_adv_span=2.0), num_envs=64)
    assert (result.config.norm_adv, result.config.norm_adv_span) == ("batch", 1.0)
    assert not result.exact and warned(result, "norm_adv_span: the rule gives 0.5, 1 is used")


def test_policy_iterations_keep_the_phase_batch():
    result = rescale(PAPER, num_envs=64)
    assert result.config.policy_iterations == 128
    assert result.config.phase_batch == PAPER.phase_batch
    assert row(result, "phase_batch").after == PAPER.phase_batch


def test_policy_iterations_are_whole_and_at_least_one():
    rounded = rescale(PAPER.replace(policy_iterations=5), num_envs=512)
    assert rounded.config.policy_iterations in (2, 3)
    assert not rounded.exact and warned(rounded, "policy_iterations: the rule gives 2.5")
    clamped = rescale(PAPER.replace(policy_iterations=1), num_envs=512)
    assert clamped.config.policy_iterations == 1
    assert not clamped.exact and warned(clamped, "policy_iterations: the rule gives 0.5, 1 is used")


def test_rounding_up_never_asks_for_more_iterations_than_there_are():
    config = PAPER.replace(total_timesteps=65_536 * 5, policy_iterations=5)
    result = rescale(config, num_envs=128, num_steps=384)  # c_iter = 4/3: 6.67 iterations of the 6 there are
    assert result.config.iterations == result.config.policy_iterations == 6


def test_auxiliary_minibatch_and_step_size_stay_in_samples():
    implicit = PAPER.replace(aux_minibatch_size=None)
    for config, size in ((PAPER, 4096), (implicit, 8192)):
        new = rescale(config, num_envs=16).config
        assert (new.aux_minibatch_size, new.aux_learning_rate) == (size, 5e-4)


def test_an_auxiliary_minibatch_that_no_longer_divides_is_moved_and_reported():
    config = PAPER.replace(num_envs=6, policy_iterations=3, aux_minibatch_size=2304)
    result = rescale(config, num_envs=4, skip={"policy_iterations"})
    assert result.config.phase_batch % result.config.aux_minibatch == 0
    assert not result.exact and warned(result, "aux_minibatch_size: the rule gives 2304")


def test_max_grad_norm_grows_by_the_root_and_says_it_is_not_from_the_paper():
    result = rescale(SMALL.replace(max_grad_norm=0.5), num_envs=4)
    assert result.config.max_grad_norm == 1.0
    assert "not from the paper" in row(result, "max_grad_norm").why
    assert rescale(SMALL.replace(max_grad_norm=None), num_envs=4).config.max_grad_norm is None
    assert warned(rescale(PAPER.replace(max_grad_norm=0.5), num_envs=64), "also clips the auxiliary phase")


def test_weight_decay_times_step_size_falls_by_c():
    config = SMALL.replace(weight_decay=0.01)
    new = rescale(config, num_envs=4).config
    assert new.weight_decay == pytest.approx(0.005, rel=1e-15)
    for old, rule in ((config, "invariant"), (config.replace(optimizer="sgd"), "invariant"), (config, "linear")):
        new = rescale(old, num_envs=4, rule=rule).config
        assert new.weight_decay * new.learning_rate == pytest.approx(0.01 * 1e-3 / 4, rel=1e-14)


def test_schedules_and_coefficients_stay():
    config = SMALL.replace(anneal_lr="linear", warmup_steps=10_000, eval_every=5_000, ent_anneal=0.5, clip_vloss=0.2)
    new = rescale(config, num_envs=4).config
    fields = (
        "total_timesteps anneal_lr warmup_steps eval_every ent_anneal gamma gae_lambda clip_coef kl_coef clip_vloss"
    )
    for name in f"{fields} vf_coef ent_coef target_kl update_epochs adam_eps imp_samp_max".split():
        assert getattr(new, name) == getattr(config, name), name


@pytest.mark.parametrize(
    ("envs", "rate", "com", "span", "iterations"),
    [
        (64, 5e-4 / 2, 32.0, 4.0, 128),
        (16, 5e-4 / 4, 128.0, 16.0, 512),
        (4, 5e-4 / 8, 512.0, 64.0, 2048),
        (1, 5e-4 / 16, 2048.0, 256.0, 8192),
    ],
)
def test_the_papers_ladder(envs, rate, com, span, iterations):
    """256 environments down to 1, workers from 4 to 1 in the first step (section 5.2, Appendix B)."""
    result = rescale(PAPER, num_envs=envs, auxiliary="paper", workers=1, workers_before=4)
    new = result.config
    assert new.learning_rate == pytest.approx(rate, rel=1e-15)
    assert (new.prox_com, new.policy_iterations, new.minibatches) == (com, iterations, 8)
    assert (new.norm_adv, new.norm_adv_span) == ("ewma", span)
    assert new.phase_batch == PAPER.phase_batch and result.exact
    assert (new.aux_minibatch_size, new.aux_learning_rate) == (1024, pytest.approx(2.5e-4, rel=1e-15))
    assert (new.adam_beta1, new.adam_beta2) == (0.9, 0.999)


def test_the_ladder_step_by_step_is_the_ladder_at_once():
    config = PAPER
    for envs in (64, 16, 4, 1):
        config = rescale(config, num_envs=envs).config
    assert equivalent(config, rescale(PAPER, num_envs=1).config)


# There and back --------------------------------------------------------------------------------------------


def equivalent(one: Config, other: Config) -> bool:
    """Integers and names exactly, floats to 1e-12; what stands in for an absent value counts as that value."""
    for name in one.as_dict():
        a, b = effective(one, name), effective(other, name)
        same = math.isclose(a, b, rel_tol=1e-12) if isinstance(a, float) and isinstance(b, float) else a == b
        if not same and not (name == "norm_adv" and whole_batch(one) and whole_batch(other)):
            return False
    return True


def whole_batch(config: Config) -> bool:
    """An EWMA over one iteration is the whole batch, whichever of the two names it has."""
    return math.isclose(config.norm_adv_span, 1.0, rel_tol=1e-12)


@st.composite
def configs(draw):
    algo = draw(st.sampled_from(["reinforce", "ppo", "ppo-ewma", "ppg", "ppg-ewma"]))
    envs, steps = draw(st.integers(1, 96)), draw(st.sampled_from([16, 60, 128]))
    count = draw(st.sampled_from([n for n in (1, 2, 3, 4, 6, 8) if envs * steps % n == 0]))
    by = draw(st.sampled_from(["num_minibatches", "minibatch_size"]))
    norm = draw(st.sampled_from(["none", "batch", "minibatch", "ewma"]))
    values = {
        "algo": algo,
        "num_envs": envs,
        "num_steps": steps,
        by: count if by == "num_minibatches" else envs * steps // count,
        "total_timesteps": 50_000_000,
        "update_epochs": draw(st.integers(1, 4)),
        "learning_rate": draw(st.floats(1e-6, 1.0)),
        "optimizer": draw(st.sampled_from(["adam", "sgd"])),
        "max_grad_norm": draw(st.none() | st.floats(0.01, 100.0)),
        "weight_decay": draw(st.sampled_from([0.0, 0.013])),
        "norm_adv": norm,
        "norm_adv_span": draw(st.floats(1.0, 100.0)) if norm == "ewma" else 1.0,
    }
    if algo.endswith("ewma"):
        values["prox_com"] = draw(st.none() | st.floats(0.1, 1000.0))
    if algo.startswith("ppg"):
        values["policy_iterations"] = draw(st.integers(1, 64))
    return Config(**values)


@given(
    configs(),
    st.integers(1, 96),
    st.sampled_from(RULES),
    st.booleans(),
    st.sets(st.sampled_from(sorted(set(ADJUSTMENTS) - {"auxiliary", "adam_betas"}))),
)
def test_there_and_back_gives_the_same_configuration(config, envs, rule, betas, skip):
    options = {"rule": rule, "skip": skip, "adam_betas": betas and config.optimizer == "adam" and rule != "none"}
    try:
        there = rescale(config, num_envs=envs, **options)
    except ConfigError:
        assume(False)
    assume(there.exact)
    back = rescale(there.config, num_envs=config.num_envs, **options)
    assert back.exact
    assert equivalent(back.config, config), (config, back.config)


@given(configs(), st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12]))
def test_there_and_back_by_the_minibatch_alone(config, count):
    assume(config.batch % count == 0)
    there = rescale(config, num_minibatches=count)
    back = rescale(there.config, minibatch_size=config.minibatch)
    assert there.exact and back.exact and back.config.minibatches == config.minibatches
    assert equivalent(back.config, config)


def test_workers_there_and_back():
    there = rescale(PAPER, num_envs=64, auxiliary="paper", workers=1, workers_before=4)
    back = rescale(there.config, num_envs=256, auxiliary="paper", workers=4, workers_before=1)
    assert equivalent(back.config, PAPER)


def test_no_new_size_changes_nothing():
    assert rescale(PAPER, num_envs=256).config is PAPER
    assert rescale(PAPER).changes == []


# Rules, skipping, devices ----------------------------------------------------------------------------------


def test_linear_divides_adams_step_size_by_c_and_nothing_else_differs():
    new, usual = rescale(PAPER, num_envs=16, rule="linear").config, rescale(PAPER, num_envs=16).config
    assert new.learning_rate == 5e-4 / 16
    assert new.replace(learning_rate=usual.learning_rate) == usual


def test_none_changes_only_the_sizes():
    result = rescale(PAPER, num_envs=64, rule="none")
    assert result.config == PAPER.replace(num_envs=64)
    assert warned(result, "nothing makes up for it")


def test_fixed_inner_keeps_minibatch_and_step_size():
    result = rescale(SMALL.replace(algo="ppo-ewma"), num_envs=64, rule="fixed-inner")
    new = result.config
    assert (new.minibatch, new.minibatches, new.learning_rate) == (SMALL.minibatch, 16, SMALL.learning_rate)
    assert (new.proximal_com, new.max_grad_norm) == (4.0, SMALL.max_grad_norm)
    assert (result.c_opt, result.c_iter) == (1.0, 0.25)


SKIPPED = {
    "learning_rate": "learning_rate",
    "prox_com": "prox_com",
    "norm_adv": "norm_adv norm_adv_span",
    "policy_iterations": "policy_iterations",
    "max_grad_norm": "max_grad_norm",
    "weight_decay": "weight_decay",
    "auxiliary": "aux_minibatch_size aux_learning_rate",
    "adam_betas": "adam_beta1 adam_beta2",
}


@pytest.mark.parametrize("name", ADJUSTMENTS)
def test_each_adjustment_can_be_left_out_by_name(name):
    config = PAPER.replace(max_grad_norm=0.5, weight_decay=0.1, aux_minibatch_size=None, prox_com=8.0)
    others = rescale(config, num_envs=64)
    result = rescale(config, num_envs=64, skip={name})
    for item in config.as_dict():
        expected = config if item in SKIPPED[name].split() else others.config
        assert getattr(result.config, item) == getattr(expected, item), item
    for item in SKIPPED[name].split():
        assert row(result, item).rule == "skipped"


def test_devices_multiply_the_environments():
    result = rescale(SMALL, devices=4)
    assert result.config.num_envs == 64
    assert "devices 1 -> 4, 16 environments on each" in row(result, "num_envs").why
    assert result.config.learning_rate == pytest.approx(2e-3, rel=1e-15)
    assert rescale(result.config, devices=1, devices_before=4).config.num_envs == 16


def test_devices_are_the_workers_of_the_auxiliary_phase():
    new = rescale(PAPER, devices=1, devices_before=4, auxiliary="paper").config
    assert (new.num_envs, new.aux_minibatch_size) == (64, 1024)


# What is refused and warned of -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, "num_envs=0: must be at least 1; nearest: 1"),
        ({"num_envs": 2.5}, "num_envs=2.5: must be a whole number"),
        ({"num_envs": 3, "num_steps": 5}, "num_envs=3: a batch of 15 is no multiple of num_minibatches=4.*nearest: 4,"),
        ({"num_envs": 7, "num_steps": 2}, "nearest: 6, 8, or give another num_minibatches"),
        ({"minibatch_size": 300}, "minibatch_size=300: does not divide the batch 2048; nearest: 256, 512"),
        ({"num_minibatches": 3}, "num_minibatches=3: does not divide the batch 2048; nearest: 2, 4"),
        ({"num_minibatches": 4, "minibatch_size": 256}, "makes it 8; give one of the two"),
        ({"num_envs": 4, "devices": 2}, "devices=2: multiplies num_envs; give one"),
        ({"devices": 2, "devices_before": 3}, "devices_before=3: does not divide num_envs=16; nearest: 2, 4"),
        ({"num_envs": 6, "rule": "fixed-inner"}, "no multiple of minibatch_size=512, which stays; nearest: 4, 8"),
        ({"num_envs": 8, "minibatch_size": 256, "rule": "fixed-inner"}, "fixed-inner keeps .*nearest: 512"),
        ({"num_envs": 8192}, "total_timesteps=500000: less than one batch"),
        ({"num_envs": 8, "rule": "invarient"}, "rule='invarient': .*nearest: invariant"),
        ({"num_envs": 8, "skip": {"lerning_rate"}}, "skip='lerning_rate': .*nearest: learning_rate"),
        ({"num_envs": 8, "skip": {"adam_betas"}, "adam_betas": True}, "requested and skipped at once"),
        ({"num_envs": 8, "rule": "none", "adam_betas": True}, "requested and skipped at once"),
        ({"num_envs": 8, "noise_scale": 0.0}, "noise_scale=0.0: must be a number of samples above 0"),
        ({"num_envs": 8, "auxiliary": "paper"}, "auxiliary='paper': needs algo=ppg"),
        ({"num_envs": 8, "workers": 2}, "workers=2: needs algo=ppg"),
    ],
)
def test_refused_in_one_line_with_the_nearest(options, message):
    with pytest.raises(ConfigError, match=message) as error:
        rescale(SMALL, **options)
    assert "\n" not in str(error.value)


def test_paper_auxiliary_needs_workers_and_may_not_be_left_out():
    with pytest.raises(ConfigError, match="needs workers and workers_before"):
        rescale(PAPER, num_envs=64, auxiliary="paper")
    with pytest.raises(ConfigError, match="requested and skipped at once"):
        rescale(PAPER, num_envs=64, auxiliary="paper", workers=1, workers_before=4, skip={"auxiliary"})


def test_a_phase_that_could_not_end_is_refused():
    config = PAPER.replace(total_timesteps=PAPER.phase_batch)
    with pytest.raises(ConfigError, match="policy_iterations=32: no phase would end in 8 iterations; nearest: 8"):
        rescale(config, num_envs=1024, rule="none")


@pytest.mark.parametrize(
    ("changes", "options", "text"),
    [
        ({"update_epochs": 3}, {"num_envs": 4}, "update_epochs=3: the paper's argument covers one policy epoch"),
        ({}, {"num_envs": 4, "noise_scale": 100.0}, "minibatch_size=512 (before) is beyond the noise scale of 100"),
        ({}, {"num_envs": 64, "noise_scale": 1e3}, "minibatch_size=2048 (after) is beyond the noise scale of 1,000"),
        ({}, {"num_envs": 64}, "c is below 1 (a larger batch)"),
        ({}, {"num_steps": 64}, "look at gae_lambda=0.95"),
        ({}, {"num_envs": 4}, "ppo-ewma can keep it"),
        ({"anneal_lr": "adaptive"}, {"num_envs": 4}, "from then on the KL sets it (desired_kl=0.01)"),
        ({"norm_adv": "minibatch"}, {"num_envs": 4}, "norm_adv=minibatch ties"),
        ({"staleness": 2}, {"num_envs": 4}, "staleness=2 counts iterations: in environment steps it goes from 4,096"),
        ({}, {"num_envs": 4, "rule": "fixed-inner"}, "proposed for growing N"),
    ],
)
def test_warned_of(changes, options, text):
    assert warned(rescale(SMALL.replace(**changes), **options), text)


def test_minibatches_of_rows_stay_and_must_be_whole():
    config = Config(num_envs=8, num_steps=16, minibatch_by="rows", num_minibatches=8)
    found = rescale(config, num_steps=32)
    assert found.config.minibatch_by == "rows" and warned(found, "its rows (1 before, 1 after)")
    assert next(c for c in found.changes if c.field == "minibatch_by").rule == "kept"
    with pytest.raises(ConfigError, match=r"minibatch_by=rows\); nearest: 6, 12"):
        rescale(config, num_envs=6)


def test_the_value_networks_own_step_size_follows_the_policys():
    config = Config(num_envs=16, num_steps=16, value_learning_rate=1e-3, anneal_lr="adaptive")
    found = rescale(config, num_envs=4)
    assert found.config.value_learning_rate == pytest.approx(1e-3 / 2)
    assert "its first value" in next(c.why for c in found.changes if c.field == "learning_rate")
    kept = Config(num_envs=16, num_steps=16, norm_value="popart", clip_anneal="linear")
    rules = {c.field: c.rule for c in rescale(kept, num_envs=4).changes}
    assert rules["norm_value"] == rules["clip_anneal"] == "kept"


def test_nothing_to_warn_of_in_the_papers_own_case():
    config = PAPER.replace(total_timesteps=65_536 * 1024)
    assert rescale(config, num_envs=16, noise_scale=1e5).warnings == []


# The command -----------------------------------------------------------------------------------------------


def run(capsys, *argv):
    try:
        code = cli.main(["rescale", *argv])
    except SystemExit as end:
        code = end.code
    out = capsys.readouterr()
    return code, out.out, out.err


def source(folder, config=PAPER):
    path = folder / "source.yaml"
    path.write_text(yaml.safe_dump(config.as_dict(), sort_keys=False))
    return str(path)


def test_command_shows_the_table_and_writes_a_file_that_trains(runs, capsys):
    code, out, _ = run(capsys, source(runs), "--num-envs", "64", "--out", "new.yaml")
    assert code == 0
    for text in ("learning_rate", "0.00025", "÷ √c_opt", "section 4", "warning:", "trimtab train --config new.yaml"):
        assert text in out
    written = yaml.safe_load((runs / "new.yaml").read_text())
    assert configuration.from_dict(written) == rescale(PAPER, num_envs=64).config


def test_command_without_out_writes_nothing(runs, capsys):
    before = source(runs), sorted(runs.iterdir())
    code, out, _ = run(capsys, before[0], "--num-envs", "64")
    assert code == 0 and "--out FILE" in out and sorted(runs.iterdir()) == before[1]


def test_command_does_not_overwrite_unless_forced(runs, capsys):
    (runs / "new.yaml").write_text("mine")
    code, _, err = run(capsys, source(runs), "--num-envs", "64", "--out", "new.yaml")
    assert code == 2 and "already exists" in err and (runs / "new.yaml").read_text() == "mine"
    assert run(capsys, source(runs), "--num-envs", "64", "--out", "new.yaml", "--force")[0] == 0
    assert "num_envs: 64" in (runs / "new.yaml").read_text()


def test_command_takes_a_preset_and_prints_json(runs, capsys):
    code, out, _ = run(capsys, "ppo/CartPole-v1", "--num-envs", "1", "--json", "--skip", "norm_adv,max_grad_norm")
    shown, preset = json.loads(out), presets.load("ppo/CartPole-v1")
    assert code == 0 and shown["c_opt"] == 4.0 and shown["config"]["max_grad_norm"] == preset["max_grad_norm"]
    assert shown["config"]["norm_adv"] == "batch"
    assert shown["config"]["learning_rate"] == pytest.approx(preset["learning_rate"] / 2)


def test_command_passes_every_option_on(runs, capsys):
    options = (
        "--num-envs 64 --num-minibatches 4 --rule linear --adam-betas --auxiliary paper --workers 1 --workers-before 4"
    )
    code, out, _ = run(capsys, source(runs), *options.split(), "--noise-scale", "10", "--json")
    expected = rescale(
        PAPER,
        num_envs=64,
        num_minibatches=4,
        rule="linear",
        adam_betas=True,
        noise_scale=10.0,
        auxiliary="paper",
        workers=1,
        workers_before=4,
    )
    assert code == 0 and json.loads(out)["config"] == expected.config.as_dict()
    assert json.loads(out)["warnings"] == expected.warnings
    code, out, _ = run(capsys, source(runs), "--devices", "1", "--devices-before", "4", "--num-steps", "128", "--json")
    assert (json.loads(out)["config"]["num_envs"], json.loads(out)["config"]["num_steps"]) == (64, 128)


def test_infinite_numbers_are_valid_json_and_yaml(runs, capsys):
    path = source(runs, PAPER.replace(clip_coef=math.inf))
    code, out, _ = run(capsys, path, "--num-envs", "64", "--json", "--out", "new.yaml")
    assert code == 0 and json.loads(out)["config"]["clip_coef"] == "inf"
    assert configuration.from_dict(yaml.safe_load((runs / "new.yaml").read_text())).clip_coef == math.inf


def test_a_source_without_an_environment_gives_a_file_without_one(runs, capsys):
    (runs / "part.yaml").write_text("num_envs: 8\n")
    assert run(capsys, "part.yaml", "--num-envs", "4", "--out", "new.yaml")[0] == 0
    assert "env_id" not in yaml.safe_load((runs / "new.yaml").read_text())


def test_command_uses_the_noise_scale_a_runs_probes_resolved(runs, capsys):
    RunDir.create(runs / "run", SMALL, Manifest())
    assert "noise scale" not in run(capsys, "run", "--num-envs", "4")[1]
    (runs / "run" / "probes").mkdir()
    (runs / "run" / "probes" / "b.parquet").write_text("no table")
    table = pl.DataFrame(
        {
            "quantity": ["noise_scale", "noise_scale", "variance", "noise_scale"],
            "value": [77.0, 33.0, 5.0, 11.0],
            "resolved": [True, True, True, False],
            "step": [20, 10, 30, 40],
        }
    )
    table.write_parquet(runs / "run" / "probes" / "a.parquet")
    pl.DataFrame({"quantity": ["variance"]}).write_parquet(runs / "run" / "probes" / "c.parquet")
    assert "beyond the noise scale of 77 samples" in run(capsys, "run", "--num-envs", "4")[1]
    assert "beyond" not in run(capsys, "run", "--num-envs", "4", "--noise-scale", "1e6")[1]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["nothing", "--num-envs", "4"], "source='nothing': is no run directory, file or preset"),
        (["ppo/CartPole-v1"], "name a new size"),
        (["ppo/CartPole-v1", "--num-envs", "many"], "num_envs='many': must be a whole number"),
        (["ppo/CartPole-v1", "--num-envs", "3", "--num-steps", "3"], "num_envs=3: a batch of 9 is no multiple"),
        (["ppo/CartPole-v1", "--num-envs", "8", "--rule", "sqrt"], "rule='sqrt': must be one of"),
        (["ppo/CartPole-v1", "--num-envs", "8", "--skip", "gamma"], "skip='gamma'"),
        (["ppo/CartPole-v1", "--num-envs", "8", "--out", "."], "is a directory"),
        ([".", "--num-envs", "8"], "is not a run directory"),
    ],
)
def test_command_errors_are_one_line_and_code_2(runs, capsys, argv, text):
    code, out, err = run(capsys, *argv)
    assert code == 2 and out == "" and text in err and err.count("\n") == 1


def test_command_does_not_import_jax(tmp_path):
    code = (
        "import sys; from trimtab.cli import main; "
        "main(['rescale', 'ppo/CartPole-v1', '--num-envs', '8', '--out', sys.argv[1]]); "
        "import trimtab, trimtab.training.resource_estimates; "
        "assert 'jax' not in sys.modules and 'equinox' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "new.yaml")], check=True, capture_output=True)


def test_the_command_and_python_read_a_file_alike(runs, capsys):
    """Over the environment's preset, as `train --config` does."""
    (runs / "own.yaml").write_text("env_id: CartPole-v1\nlearning_rate: 0.001\n")
    code, out, _ = run(capsys, "own.yaml", "--num-envs", "2", "--json")
    assert code == 0 and json.loads(out)["config"] == trimtab.rescale("own.yaml", num_envs=2).config.as_dict()
    assert json.loads(out)["config"]["gamma"] == presets.load("ppo/CartPole-v1")["gamma"]
