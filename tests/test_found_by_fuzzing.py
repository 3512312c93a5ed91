"""Defects that the tools of `make fuzz` found, each as a user meets it."""

import json
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from benchmarks.fuzz import corpus
from trimtab.cli import main
from trimtab.core import reading, writing
from trimtab.core.errors import UserError
from trimtab.studies.store import Store
from trimtab.training.run_dir import RunDir


@pytest.fixture
def files(runs):
    """Undamaged files of every type, in the working directory."""
    return corpus.make(runs)


def error_of(capsys, *words: str) -> str:
    """The one line that a command ends in."""
    with pytest.raises(SystemExit, match="2"):
        main(list(words))
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize("target", ["nowhere", "model.zip"])
def test_a_link_to_no_model_beside_a_log_costs_the_model_only(files, target, capsys):
    model = files / "log" / "model.zip"
    model.unlink()
    model.symlink_to(target)
    assert main(["doctor", "log", "--json"]) == 0
    captured = capsys.readouterr()
    assert "model.zip cannot be read" in captured.err and json.loads(captured.out)["findings"]


@pytest.mark.parametrize(
    "change",
    [{"store": 5}, {"asked": {}}, {"asked": {"config": {}, "count": 0}}, {"asked": {"config": {}, "count": 2**31}}],
)
def test_a_damaged_study_ends_in_one_line(files, change, capsys):
    study = Path("study/study.json")
    study.write_text(json.dumps(json.loads(study.read_text()) | change))
    error = error_of(capsys, "resume", "study", "--on", "inline")
    assert "study.json" in error or "seeds=" in error


def test_the_result_of_a_study_without_runs_is_shown(files, capsys):
    Path("study/result.json").write_text(json.dumps({"runs": [], "failed": ["seed 1: diverged"]}))
    assert main(["study", "show", "study"]) == 1
    assert "failed: seed 1: diverged" in capsys.readouterr().err


def test_a_study_that_names_no_store_keeps_its_jobs_itself(files, capsys):
    study = Path("study/study.json")
    study.write_text(json.dumps({k: v for k, v in json.loads(study.read_text()).items() if k != "store"}))
    assert main(["resume", "study", "--on", "inline", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["env_id", "algo", "backend"])
def test_a_configuration_with_a_mapping_for_a_word_is_refused_in_one_line(files, name, capsys):
    own = {"env_id": "CartPole-v1", name: {"a": 1}}
    Path("own.yaml").write_text(yaml.safe_dump(own))
    assert name in error_of(capsys, "plan", "--config", "own.yaml")


def test_returns_too_large_for_their_variance_are_diagnosed(files, capsys):
    """Both bounds of how many more episodes are needed were infinite, and rounding them up failed."""
    monitor = files / "log" / "0.monitor.csv"
    rows = "".join(f"{(-1) ** k * 1e200},20,1.5\n" for k in range(60))
    monitor.write_text('#{"env_id": "CartPole-v1"}\nr,l,t\n' + rows)
    with np.errstate(all="ignore"):
        assert main(["doctor", "log", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"]


def test_an_outcome_without_what_a_study_needs_ends_in_one_line(files, capsys):
    for outcome in Path("study/store").glob("*/outcome.json"):
        record = reading.read_json_object(outcome)
        del record["result"]["compile_seconds"]
        writing.write_json_with_digest(outcome, record)
    assert "cannot be used: damaged, or of another version" in error_of(
        capsys, "resume", "study", "--on", "inline", "--quiet"
    )


def test_a_flipped_digit_in_an_outcome_is_found_and_the_job_done_again(files):
    store = Store(files / "store")
    place = store.place(corpus.JOBS[2])
    record = json.loads((place / "outcome.json").read_text())
    (place / "outcome.json").write_text(json.dumps(record | {"result": {"square": 5}}))
    with reading.collect_problems() as problems:
        assert store.outcome(corpus.JOBS[2]) is None
    assert "checksum does not match" in problems[0]
    del record[writing.DIGEST]  # as version 0.1.0 wrote it
    (place / "outcome.json").write_text(json.dumps(record))
    assert store.outcome(corpus.JOBS[2]).result == {"square": 4}


def test_a_table_whose_digest_lost_its_name_is_damaged(files):
    shard = Path("run/episodes/0000000000.parquet")
    shard.write_bytes(shard.read_bytes().replace(writing.DIGEST.encode(), b"x" * len(writing.DIGEST)))
    with pytest.raises(UserError, match="its checksum is damaged"):
        reading.read_parquet(shard)


def test_episodes_do_not_wait_in_memory_for_a_checkpoint_that_is_far_away(runs, monkeypatch):
    """Memory grew by 3% in 200,000 iterations; the same episodes are now written in shards between checkpoints."""
    from trimtab.training import loop

    config = corpus.CONFIG.replace(env_id="FrozenLake-v1", total_timesteps=64 * 12, eval_every=0)
    whole = loop.train(config, "whole", checkpoints=1)
    monkeypatch.setattr(loop, "MOST_PENDING", 3)
    parts = loop.train(config, "parts", checkpoints=1)
    assert len(list(Path("parts/episodes").iterdir())) > len(list(Path("whole/episodes").iterdir()))
    assert parts.episodes.equals(whole.episodes) and len(whole.episodes) > 20
    first = loop.train(config, "halves", checkpoints=1, until=64 * 7)
    assert loop.resume(first.path, checkpoints=1).episodes.equals(whole.episodes)


def test_a_lone_sign_in_yaml_is_a_one_line_error():
    with pytest.raises(yaml.YAMLError, match="index out of range"):
        reading.parse_yaml("a: !!int ''")


def test_messages_quote_paths_as_a_shell_needs_them(files):
    Path("run").rename("a [1]")
    run = RunDir.open("a [1]")
    run.log.unlink()
    with pytest.raises(UserError, match=r"trimtab train --from 'a \[1\]'"):
        run.rewind(run.checkpoints()[-1])


@pytest.mark.parametrize("lost", ["a log", "tensors"])
def test_a_run_without_a_readable_checkpoint_is_not_begun_anew_over_its_records(files, lost, capsys):
    """Its checkpoints hold no state of training here. Without metrics.jsonl it was trained again from step 0."""
    if lost == "a log":
        Path("run/metrics.jsonl").unlink()
    before = sorted((path, path.read_bytes()) for path in Path("run").rglob("*") if path.is_file())
    with pytest.raises(SystemExit, match="2"):
        main(["resume", "run", "--total-timesteps", "2048"])
    assert "no checkpoint of run can be read" in capsys.readouterr().err
    after = sorted((path, path.read_bytes()) for path in Path("run").rglob("*") if path.is_file())
    assert [item for item in after if item[0].name != ".lock"] == before


def test_a_checkpoint_with_other_shapes_is_damaged_whatever_its_checksum_says(files):
    """Whoever changes the arrays can compute the checksum too."""
    from trimtab.training import snapshot
    from trimtab.training.run_dir import Damaged

    with pytest.raises(Damaged, match=r"params.policy.w has shape \(3,\), not \(2, 3\)"):
        snapshot._refuse_others({"params.policy.w": (2, 3)}, {"params.policy.w": np.zeros(3)})


def test_a_flipped_bit_in_a_buffer_is_found(tmp_path):
    """A resume of PPG or of stale data would train on other numbers."""
    run = RunDir(tmp_path / "run")
    run.write_buffer("phase", 3, {"obs": np.arange(6.0)})
    assert run.read_buffer("phase", 3)["obs"].tolist() == [0, 1, 2, 3, 4, 5]
    (file,) = (tmp_path / "run" / "buffers").iterdir()
    data = file.read_bytes()
    for at in range(len(data) - 48, len(data)):
        file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(UserError, match="checksum does not match"):
            run.read_buffer("phase", 3)


def test_archives_unpack_to_no_more_than_their_size_explains(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("policy.pth", b"0" * 50_000_000)
    with pytest.raises(UserError, match="unpacks to more than"):
        reading.read_zip_member(tmp_path / "bomb.zip", "policy.pth", reading.MOST_BINARY)


def test_a_full_disk_leaves_no_temporary_file(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        writing.write_json(tmp_path / "a.json", {})
    assert not list(tmp_path.iterdir())


def test_a_resume_removes_what_a_kill_left_of_a_file(files):
    run = RunDir.open("run")
    (run.path / ".config.yaml.0a1b2c3d.tmp").write_text("half")
    run.rewind(run.checkpoints()[-1])
    assert not list(run.path.glob(".*.tmp"))


# Attempts against what SECURITY.md states ------------------------------------------------------------------


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl", "evaluations.jsonl", "episodes", "checkpoints", "buffers"])
def test_a_resume_does_not_write_through_links_out_of_a_run(files, name):
    """`.lock` was emptied, logs were cut, and files beside the shards were removed, wherever a link led."""
    outside = files / "outside"
    if "." in name:
        outside.write_text("precious\n" * 5000)
    else:
        outside.mkdir()
        (outside / "precious.txt").write_text("precious")
    run = RunDir.open("run")
    place = run.path / name
    if place.is_dir():
        place.rename(files / "moved")
    place.unlink(missing_ok=True)
    place.symlink_to(outside)
    with pytest.raises(UserError, match=f"{name} is a link to a place outside of the run"), run.writing():
        run.rewind(run.checkpoints()[0])
    assert (outside if "." in name else outside / "precious.txt").read_text().startswith("precious")


def test_evaluations_and_probes_are_not_written_through_links_out_of_a_run(files):
    from trimtab.gradient import measurements

    outside, run = files / "outside.jsonl", RunDir.open("run")
    outside.write_text("")
    (run.path / "evaluated.jsonl").unlink()
    (run.path / "evaluated.jsonl").symlink_to(outside)
    with pytest.raises(UserError, match="outside of the run"):
        run.keep_evaluation(run.evaluations()[0])
    with pytest.raises(UserError, match="outside of the run"):
        measurements.write(run.path, [SimpleNamespace(step=1, split="1x1")])
    assert outside.read_text() == ""


def test_links_within_a_run_are_followed(files):
    run = RunDir.open("run")
    (run.path / "episodes").rename(run.path / "elsewhere")
    (run.path / "episodes").symlink_to("elsewhere")
    with run.writing():
        run.rewind(run.checkpoints()[0])
    assert len(run.episodes())


def test_very_many_different_metrics_cost_no_more_than_some(files, capsys):
    """Every name was a column over all rows: 600,000 of them kept `doctor` busy for minutes."""
    with open("run/metrics.jsonl", "a") as log:
        for row in range(17, 67):
            names = ", ".join(f'"train/x{row}_{k}": 1' for k in range(1000))
            log.write(f'{{"iteration": {row}, "time/total_timesteps": {row * 64}, {names}}}\n')
    begin = time.process_time()
    assert main(["doctor", "run", "--json"]) == 0
    assert time.process_time() - begin < 10 and "50,008 different metrics" in capsys.readouterr().err
