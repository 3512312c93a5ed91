"""Whether presets train: what counts as reached, what was chosen, and what is said of rows that were not run."""

import polars as pl
import pytest

from trimtab import presets
from trimtab.config import ConfigError
from trimtab.experiments.own.preset_learning import RETURNS, Learning, _summarized
from trimtab.experiments.own.preset_targets import FULL, _Bar


@pytest.mark.parametrize(
    "bar, values, first, met",
    [
        (_Bar(10), [9, 12], 0, True),
        (_Bar(10), [9, 10], 0, False),
        (_Bar(10), [], 0, False),
        (_Bar(10, on=2), [10, 11, 0], 0, True),
        (_Bar(10, on=2), [100, 9, 9], 0, False),
        (_Bar(2, times_first=True), [5], 2, True),
        (_Bar(2, times_first=True), [5], 3, False),
    ],
)
def test_a_bar_is_met_on_average_or_on_so_many_seeds(bar, values, first, met):
    assert bar.is_met(values, first) is met


def test_environments_are_chosen_and_first_seeds_come_first():
    study = Learning(size="full", only=("Hopper-v4", "LunarLander-v3"))
    jobs = [(job.config.env_id, job.config.seed) for job in study.jobs()]
    assert jobs[:3] == [("LunarLander-v3", 1), ("Hopper-v4", 1), ("LunarLander-v3", 2)] and len(jobs) == 8
    assert Learning.again(study.asked()) == study
    with pytest.raises(ConfigError, match=r"nearest: .*Hopper-v4"):
        Learning(size="full", only=("Hoper-v4",))


def summarized(returns, rows):
    return _summarized(returns, rows, pl.DataFrame())


def test_what_was_not_run_is_said():
    study = Learning(size="full", only=("Hopper-v4",))
    steps = study.rows[0].config.steps
    rows = [("Hopper-v4", "ppo", seed, steps, value, 20.0, "") for seed, value in ((1, 2400.0), (2, 2300.0))]
    returns = pl.DataFrame(rows, schema=RETURNS, orient="row")
    tables = summarized(returns, study.rows)
    summary, left = tables.summary, tables.not_run
    assert summary["seeds"].to_list() == ["2 of 3"] and summary["met"].to_list() == ["no, so far"]
    assert left.height == len(FULL) - 1 and "Hopper-v4" not in left["env_id"]
    said = study.answer(tables, [])
    assert said.startswith("0 of 1 presets reach what is wanted of them, not Hopper-v4 ppo")
    assert said.endswith(f"{left.height} rows of the full size were not run.")


@pytest.mark.parametrize("values, word", [([250.0] * 4, "yes"), ([250.0, 0.0], "open"), ([250.0, 0.0, 0.0], "no")])
def test_seeds_that_are_not_run_leave_open_what_depends_on_them(values, word):
    study = Learning(size="full", only=("LunarLander-v3",))
    steps = study.rows[0].config.steps
    rows = [("LunarLander-v3", "ppo", k, steps, value, 0.0, "") for k, value in enumerate(values)]
    returns = pl.DataFrame(rows, schema=RETURNS, orient="row")
    assert summarized(returns, study.rows).summary["met"].to_list() == [word]


@pytest.mark.parametrize(
    "acts, said, well",
    [
        (["", "", ""], "nothing", "in 1 of 1"),
        (["clipping", "clipping, minibatch", ""], "clipping in 2 of 3, minibatch in 1 of 3", "in 0 of 1"),
    ],
)
def test_what_the_doctor_finds_in_runs_of_a_preset_is_said(acts, said, well):
    study = Learning(size="full", only=("Hopper-v4",))
    steps = study.rows[0].config.steps
    rows = [("Hopper-v4", "ppo", seed, steps, 2400.0, 20.0, act) for seed, act in enumerate(acts, 1)]
    tables = summarized(pl.DataFrame(rows, schema=RETURNS, orient="row"), study.rows)
    assert tables.summary["doctor"].to_list() == [said]
    assert f"The doctor finds nothing to act on {well}" in study.answer(tables, [])


def test_a_page_keeps_what_was_published_and_not_done_again():
    study = Learning(size="full", only=("Hopper-v4",))
    steps = {row.env_id: row.config.steps for row in FULL}
    known = [("Hopper-v4", 1, 7.0), ("Hopper-v4", 2, 2300.0), ("Pong-v5", 1, -3.0)]
    frame = lambda rows: pl.DataFrame(
        [(env_id, "ppo", seed, steps[env_id], value, 0.0, "") for env_id, seed, value in rows], RETURNS, orient="row"
    )
    tables = summarized(frame([("Hopper-v4", 1, 2400.0)]), study.rows)
    written = pl.read_csv(frame(known).write_csv().encode())
    summary = study.joined(tables, study.tables.of({"returns": written})).summary
    assert summary.select("env_id", "value", "seeds").rows() == [
        ("Hopper-v4", 2350.0, "2 of 3"),
        ("Pong-v5", -3.0, "1 of 3"),
    ]
    assert study.joined(tables, study.tables.of({})).returns.equals(tables.returns)
    rows = summarized(frame([("Hopper-v4", 2, 9.0), ("Ant-v4", 1, 5.0)]), FULL).summary
    whole = study.joined(tables, study.tables.of({"summary": pl.read_csv(rows.write_csv().encode())}))
    assert whole.summary.select("env_id", "value").rows() == [("Hopper-v4", 2400.0), ("Ant-v4", 5.0)]
    assert not {"Hopper-v4", "Ant-v4"} & set(whole.not_run["env_id"]) and whole.not_run.height == len(FULL) - 2
    assert "in 2 of 2" in study.answer(whole, [])


def test_every_row_trains_a_shipped_preset():
    for row in FULL:
        name = presets.chosen({"env_id": row.env_id, "algo": row.algo})
        assert name is not None and row.config.env_id == row.env_id
