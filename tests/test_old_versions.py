"""Runs, splits, studies and jobs that earlier versions wrote are opened; what a newer version wrote is refused.

`old_versions/0.1.0` was made by the first version, `old_versions/0.1.0-studies` by the last tree of that version, which
had studies and a store. Both trained CartPole-v1 for 640 steps; pages and most checkpoints were removed.
"""

import json
import shutil
from pathlib import Path

import pytest

import trimtab
from trimtab import cli
from trimtab.core.errors import RunError
from trimtab.extras.live_view.listing import Watch
from trimtab.training.run_dir import RunDir

VERSIONS = ("0.1.0", "0.1.0-studies")
EPISODES = {"0.1.0": 22, "0.1.0-studies": 27}
RETURNS = {"0.1.0": 24.91, "0.1.0-studies": 22.78}


@pytest.fixture(params=VERSIONS)
def version(request, runs) -> str:
    """A version, whose files are in the working directory."""
    shutil.copytree(Path(__file__).parent / "old_versions" / request.param, runs, dirs_exist_ok=True)
    return request.param


def answer(capsys, *words: str):
    assert cli.main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_everything_that_was_recorded_is_read(version):
    run = RunDir.open("run")
    assert [row.step for row in run.metrics()] == [64 * k for k in range(1, 11)]
    assert len(run.episodes()) == EPISODES[version]
    assert run.metrics()[-1].mean_return == pytest.approx(RETURNS[version], abs=0.01)
    assert {checkpoint.step for checkpoint in run.checkpoints()} == {0, 320, 640}
    assert all(run.read_checkpoint(checkpoint) for checkpoint in run.checkpoints())
    assert "variance" in run.measurements()["quantity"].to_list()
    assert run.config().hidden_sizes == (8,) and run.manifest().trimtab == "0.1.0"


def test_commands_that_read_say_what_it_was(version, capsys):
    assert answer(capsys, "show", "run")
    assert {finding["check"] for finding in answer(capsys, "doctor", "run")["findings"]} >= {"learning", "finite"}
    shutil.copytree("run", "other")
    assert answer(capsys, "compare", "run", "other")["results"]["steps"] == [640, 640]
    assert answer(capsys, "rescale", "run", "--num-envs", "8")
    assert cli.main(["show", "run", "--page"]) == 0 and Path("run/page.html").stat().st_size > 10_000


def test_the_policy_is_there_or_what_it_lacks_is_said(version):
    run = trimtab.load("run")
    if version == "0.1.0":
        with pytest.raises(RunError, match="does not record what observations look like"):
            run.policy()
    else:
        assert run.policy()([0.0, 0.1, 0.0, -0.1]) in (0, 1)


def test_the_page_of_runs_lists_them(version):
    watch = Watch(Path.cwd())
    listed = json.loads(watch.listing().json)
    assert next(run for run in listed["runs"] if run["id"] == "run")["status"] == "finished"
    assert watch.details.of(watch.place("run")).as_dict()["findings"]
    if version == "0.1.0-studies":
        assert {study["id"] for study in listed["studies"]} == {"seeds", "split"}


def test_a_run_is_resumed_and_evaluated(version, capsys):
    if version == "0.1.0":
        assert answer(capsys, "resume", "run", "--total-timesteps", "768")["total_timesteps"] == 768
        assert [row.step for row in RunDir.open("run").metrics()] == [64 * k for k in range(1, 13)]
    else:
        assert answer(capsys, "eval", "run", "--episodes", "1")


def test_a_split_from_before_there_were_studies_says_what_can_be_done(runs, capsys):
    shutil.copytree(Path(__file__).parent / "old_versions" / "0.1.0" / "split", "split")
    with pytest.raises(SystemExit, match="2"):
        cli.main(["resume", "split"])
    assert "was made by an earlier version" in capsys.readouterr().err


def test_studies_are_shown(runs, capsys):
    shutil.copytree(Path(__file__).parent / "old_versions" / "0.1.0-studies", runs, dirs_exist_ok=True)
    for name in ("seeds", "split"):
        assert cli.main(["study", "show", name]) == 0
    shown = capsys.readouterr().out
    assert "ppo-2x16-seed-1" in shown and "2 × 16" in shown


@pytest.mark.parametrize(
    "words, file", [(("show", "run"), "run/manifest.json"), (("resume", "seeds"), "seeds/study.json")]
)
def test_what_a_newer_version_wrote_is_refused_in_one_line(runs, words, file, capsys):
    shutil.copytree(Path(__file__).parent / "old_versions" / "0.1.0-studies", runs, dirs_exist_ok=True)
    Path(file).write_text(json.dumps(json.loads(Path(file).read_text()) | {"schema": 2}))
    with pytest.raises(SystemExit, match="2"):
        cli.main(list(words))
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "schema 2" in error and "this version" in error
