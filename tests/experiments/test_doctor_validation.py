"""The labelled set for the doctor: its cases and halves, logs as other libraries write them, labels and counts."""

from dataclasses import asdict

import polars as pl
import pytest
import tiny

from trimtab.experiments.own import doctor_validation
from trimtab.experiments.own.doctor_cases import FAULTS, cases
from trimtab.experiments.own.doctor_validation import _counts, _faults, _label, _Reference, _rules
from trimtab.experiments.own.foreign_logs import WRITERS, write_log
from trimtab.libraries.common.foreign_log import read_log
from trimtab.math.stats import wilson
from trimtab.training.loop import train


def test_the_set_is_large_enough_and_half_of_every_group_is_held_out():
    every = cases()
    assert sum(case.seeds for case in every if case.fault is None) >= 30
    assert sum(case.seeds for case in every if case.fault) >= 60 and len(FAULTS) >= 10
    for group in {case.group for case in every}:
        halves = [case.half for case in every if case.group == group]
        assert abs(halves.count("design") - halves.count("held-out")) <= 1, group
    assert len({case.name for case in every}) == len(every)


def test_a_fault_is_repaired_by_moving_its_field_back():
    for case in cases():
        if case.fault is None:
            continue
        healthy = doctor_validation.reference_of(case.config)
        field, direction = case.fault.answers[0]
        before, now = (getattr(config, field) for config in (healthy, case.config))
        if direction == "set" or field == "num_minibatches":
            continue
        assert (before < now) == (direction == "lower"), case.name


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    config = tiny.config(num_envs=4, num_steps=16, total_timesteps=64 * 12, learning_rate=0.004, vf_coef=0.75)
    return train(config.replace(norm_adv="batch"), tmp_path_factory.mktemp("logged") / "run")


@pytest.mark.parametrize("library", WRITERS)
def test_a_run_is_read_back_from_the_log_of_another_library(run, library, tmp_path):
    log = read_log(write_log(run, library, tmp_path / library))
    config = log.config
    assert log.library.name == library and log.knows_sizes
    assert (config.num_envs, config.num_steps, config.minibatches) == (4, 16, run.config.minibatches)
    assert config.learning_rate == pytest.approx(0.004) and config.vf_coef == pytest.approx(0.75)
    ours = {row.step: row.numbers for row in run.files.metrics()}
    assert [row.step for row in log.rows] == list(ours)
    scale = 0.5 if library == "cleanrl" else 0.75 if library == "skrl" else 1.0  # as their losses are recorded
    last = log.rows[-1]
    assert last.numbers["train/value_loss"] == pytest.approx(scale * ours[last.step]["train/value_loss"], rel=1e-5)
    assert ("train/clip_fraction" in last.numbers) == (library != "skrl")
    assert "train/grad_norm" not in last.numbers and (len(log.details.returns) > 0) == (library == "cleanrl")


def test_a_run_is_labelled_by_what_it_gained():
    reference = _Reference(-100.0, 100.0)
    ill = next(case for case in cases() if case.fault)
    published = next(case for case in cases() if case.group == "RL Zoo")
    assert [_label(ill, reference.closed(final)) for final in (60.0, 59.0)] == ["healthy", "ill"]
    assert [_label(published, reference.closed(final)) for final in (-49.0, -51.0)] == ["healthy", "unlabelled"]
    assert _label(ill, _Reference(0.0, 0.0).closed(0.0)) == "unlabelled"


def made_up(label, acts, first, right, library="trimtab", counted=True):
    row = doctor_validation._Judged(
        case="c", group="g", half="held-out", seed=0, label=label, library=library, counted=counted, final=0.0,
        closed=0.0, acts=acts, watches="" if acts else first, first=first, moves="", right=right, said="",
    )  # fmt: skip
    return asdict(row)


def test_counts_are_those_of_the_rows():
    rows = [made_up("healthy", "", "", False)] * 18 + [made_up("healthy", "clipping", "clipping", False)] * 2
    rows += [made_up("ill", "epochs, clipping", "epochs", True)] * 9 + [made_up("ill", "", "clipping", False)]
    rows += [made_up("ill", "", "", False, library="skrl", counted=False)]
    table = pl.DataFrame(rows)
    counts = {row["library"]: row for row in _counts(table).filter(half="held-out").iter_rows(named=True)}
    pooled, skrl = counts["pooled"], counts["skrl"]
    assert [pooled[name] for name in ("healthy", "act", "ill", "right_first")] == [20, 2, 10, 9]
    assert (pooled["act_lo"], pooled["act_hi"]) == (wilson(2, 20).lo, wilson(2, 20).hi)
    assert (skrl["healthy"], skrl["ill"], skrl["right_first"]) == (0, 1, 0)
    rules = {row["rule"]: row["trimtab"] for row in _rules(table).iter_rows(named=True)}
    assert rules == {"epochs": "0 + 0 of 20, 9 + 0 of 10, 9 of 9", "clipping": "2 + 0 of 20, 9 + 1 of 10, 0 of 1"}
    assert _faults(table)["trimtab"].to_list() == [9]


def test_wilsons_interval_is_that_of_the_textbook():
    """Newcombe 1998, Table I: 81 of 263 has 0.2553 to 0.3662; 0 of 20 has 0 to 0.1611."""
    share = wilson(81, 263)
    assert (share.lo, share.hi) == (pytest.approx(0.2553, abs=1e-4), pytest.approx(0.3662, abs=1e-4))
    assert wilson(0, 20).lo == pytest.approx(0.0, abs=1e-9) and wilson(0, 20).hi == pytest.approx(0.1611, abs=1e-4)
    assert not wilson(0, 0).resolved
