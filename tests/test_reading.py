"""Reading files of strangers: bounded, nothing executed, a damaged part costs that part and is reported."""

import json
import os
import resource
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from trimtab.config import Config
from trimtab.core import reading, writing
from trimtab.core.errors import RunError, UnreadableFile
from trimtab.training.records import Manifest, MetricsRow
from trimtab.training.run_dir import RunDir

CONFIG = Config(env_id="CartPole-v1", total_timesteps=4096)
ROWS = [MetricsRow(k, 512 * k, {"rollout/ep_rew_mean": 10.0 * k}) for k in range(1, 6)]


def a_run(path: Path, episodes: int = 5) -> RunDir:
    """A run directory as training leaves it, without training."""
    run = RunDir.create(path, CONFIG, Manifest())
    run.append_metrics(ROWS)
    ends = np.arange(1, episodes + 1) * 100
    run.write_episodes(
        0, {"step": ends, "env": ends * 0, "return": ends / 10.0, "length": np.full(episodes, 20, np.int64)}
    )
    run.write_checkpoint(2560, 5, {"params.policy.w": np.ones(3, np.float32)})
    return run


def tree(path: Path) -> dict[str, bytes]:
    """Every file below a directory and its content."""
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


# Logs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"{not json",
        b'{"iteration": 3}',
        b'{"iteration": [3], "time/total_timesteps": 1536}',
        b'{"iteration": 3, "time/total_timesteps": "many"}',
        b'{"iteration": true, "time/total_timesteps": 1536}',
        b"[1, 2]",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"iteration": 3, "time/total_timesteps": ' + b"9" * 5000 + b"}",
        b"x" * (reading.MOST_LINE * 2 + 5),
    ],
    ids=lambda line: repr(line[:20]),
)
def test_one_damaged_line_costs_one_line(tmp_path, line):
    run = a_run(tmp_path / "run")
    lines = run.log.read_bytes().splitlines()
    run.log.write_bytes(b"\n".join([*lines[:2], line, *lines[3:]]) + b"\n")
    with reading.collect_problems() as problems:
        assert run.metrics() == [*ROWS[:2], *ROWS[3:]]
    assert len(problems) == 1 and "line 3 damaged and skipped" in problems[0]


def test_values_that_are_no_numbers_are_left_out_of_a_row(tmp_path):
    run = a_run(tmp_path / "run")
    extra = {"train/loss": [1.0], "train/kl": float("nan"), "train/std": 0.5, "not_finite": ["params"]}
    with open(run.log, "a") as file:
        file.write(json.dumps(ROWS[0].as_dict() | extra) + "\n")
    row = run.metrics()[-1]
    assert row.numbers == {**ROWS[0].numbers, "train/std": 0.5} and row.not_finite == ("params",)


def test_an_unfinished_last_line_is_left_out_without_a_word(tmp_path):
    run = a_run(tmp_path / "run")
    with open(run.log, "a") as file:
        file.write('{"iteration": 6')
    with reading.collect_problems() as problems:
        assert run.metrics() == ROWS
    assert not problems


@pytest.mark.parametrize("size", [0, 1, 7, 40, 10**6])
@pytest.mark.parametrize("damage", ["", "last", "unfinished", "all", "junk before"])
def test_the_last_row_is_that_of_reading_all_rows(tmp_path, monkeypatch, size, damage):
    monkeypatch.setattr(reading, "MB", max(size, 1))  # bytes read at a time
    log = tmp_path / "log"
    lines = [json.dumps(row.as_dict()) for row in ROWS]
    text = {"": "", "last": "{broken\n", "unfinished": '{"iteration": 9', "all": "", "junk before": ""}[damage]
    lines = ["junk"] * 5 if damage == "all" else ["junk", *lines] if damage == "junk before" else lines
    log.write_text("\n".join(lines) + "\n" + text)
    with reading.collect_problems():
        rows = reading.read_json_lines(log, MetricsRow.from_dict)
    assert reading.read_last_json_line(log, MetricsRow.from_dict) == (rows[-1] if rows else None)
    log.write_text("")
    assert reading.read_last_json_line(log, MetricsRow.from_dict) is None


def test_a_sparse_log_costs_no_memory(tmp_path):
    run = a_run(tmp_path / "run")
    os.truncate(run.log, 2_000_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with reading.collect_problems():
        assert run.metrics() == ROWS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_a_sparse_checkpoint_costs_no_memory(tmp_path):
    run = a_run(tmp_path / "run")
    os.truncate(run.checkpoints()[-1].path / "state.safetensors", 1_000_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RunError, match="checksum does not match"):
        run.read_checkpoint(run.checkpoints()[-1])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


# Tables ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a[1]", "a*", "a?", "~", "a{1,2}"])
def test_a_path_is_a_path_and_no_pattern(tmp_path, name):
    a_run(tmp_path / "a1", episodes=3)
    run = a_run(tmp_path / name, episodes=7)
    assert len(run.episodes()) == 7
    frame = pl.DataFrame({"quantity": ["variance"], "value": [1.0]})
    with open(tmp_path / name / "table.parquet", "wb") as file:
        frame.write_parquet(file)
    assert reading.read_parquet(tmp_path / name / "table.parquet").equals(frame)


@pytest.mark.parametrize(
    "damage", ["empty", "junk after", "cut", "other columns", "text column", "dangling", "directory"]
)
def test_a_damaged_shard_costs_one_shard(tmp_path, damage):
    run = a_run(tmp_path / "run")
    shard = run.path / "episodes" / "0000000005.parquet"
    good = (run.path / "episodes" / "0000000000.parquet").read_bytes()
    if damage == "dangling":
        shard.symlink_to(tmp_path / "nowhere")
    elif damage == "directory":
        shard.mkdir()
    elif damage == "other columns":
        pl.DataFrame({"a": [1]}).write_parquet(shard)
    elif damage == "text column":
        pl.DataFrame({"step": ["x"], "env": ["y"], "return": ["z"], "length": ["w"]}).write_parquet(shard)
    else:
        shard.write_bytes({"empty": b"", "junk after": good + b"junk", "cut": good[:-20]}[damage])
    with reading.collect_problems() as problems:
        assert len(run.episodes()) == 5
    assert len(problems) == 1 and shard.name in problems[0] and "left out" in problems[0]


def test_a_flipped_bit_in_a_table_is_found(tmp_path):
    """Parquet has no checksums of its own here: without a digest, flipped bits are read as other numbers."""
    run = a_run(tmp_path / "run")
    shard = run.path / "episodes" / "0000000000.parquet"
    whole, data = run.episodes(), shard.read_bytes()
    read = []
    for at in range(0, len(data), 7):
        shard.write_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        with reading.collect_problems():
            episodes = run.episodes()
        read.append(len(episodes) > 0)
        assert len(episodes) == 0 or episodes.equals(whole)
    assert not all(read)


def test_a_table_that_holds_the_place_of_a_digest_itself_is_read_as_it_was_written(tmp_path):
    frame = pl.DataFrame({"text": [writing.BLANK, writing.DIGEST, "x"] * 50})
    writing.write_parquet(tmp_path / "t.parquet", frame, other="words")
    assert reading.read_parquet(tmp_path / "t.parquet").equals(frame)


def test_tables_of_earlier_versions_have_no_digest_and_are_read(tmp_path):
    frame = pl.DataFrame({"a": [1, 2]})
    frame.write_parquet(tmp_path / "t.parquet")
    assert reading.read_parquet(tmp_path / "t.parquet").equals(frame)


@pytest.mark.parametrize(
    "row",
    [(100, 0, float("inf"), 20), (100, 0, float("nan"), 20), (-1, 0, 1.0, 20), (2**60, 0, 1.0, 20), (5, 0, 1.0, 0)],
)
def test_rows_that_are_no_episodes_are_left_out_and_reported(tmp_path, row):
    run = a_run(tmp_path / "run")
    run.write_episodes(5, {n: np.array([v]) for n, v in zip(("step", "env", "return", "length"), row)})
    with reading.collect_problems() as problems:
        assert len(run.episodes()) == 5
    assert len(problems) == 1 and "1 rows are damaged" in problems[0]


def test_a_table_of_too_many_rows_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    file = tmp_path / "bomb.parquet"
    pl.DataFrame({"a": np.zeros(100_000)}).write_parquet(file)
    monkeypatch.setattr(reading, "MOST_ROWS", 1_000)
    with pytest.raises(UnreadableFile, match="100,000 rows of 1 columns are too many"):
        reading.read_parquet(file)


# YAML and JSON ---------------------------------------------------------------------------------------------


def laughs(levels: int) -> str:
    """Aliases of aliases: 9^levels values in a few hundred bytes."""
    first = "a0: &a0 [x, x, x, x, x, x, x, x, x]"
    return "\n".join([first, *(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, levels))])


@pytest.mark.parametrize(
    "text, problem",
    [
        (laughs(9), "expands to more than"),
        ("&a [*a]", "expands to more than"),
        ("[" * 500_000, "nested deeper than"),
        ("x: &a {k: 1}\n" + "y: {<<: [" + ", ".join(["*a"] * 300_000) + "]}", "expands to more than"),
        ("num_envs: 1\nnum_envs: 2", "num_envs is given twice"),
        ("a: !!python/object/apply:os.system [true]", "could not determine a constructor"),
        ("a: 2020-99-99", "month must be in 1..12"),
        ("a: " + "9" * 5000, "4300 digits"),
        ("[1]: 2\n? {a: 1}\n: 2", "unhashable"),
        ("a: !!int ''", "index out of range"),
    ],
)
def test_yaml_that_would_hang_or_run_something_is_refused(tmp_path, text, problem):
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(UnreadableFile, match=problem) as caught:
        reading.read_yaml_mapping(file)
    assert "\n" not in str(caught.value) and str(file) in str(caught.value)


def test_yaml_with_anchors_and_merge_keys_is_read():
    text = "base: &base {n_steps: 2048, gamma: 0.99}\nPendulum-v1:\n  <<: *base\n  gamma: 0.9"
    assert reading.parse_yaml(text)["Pendulum-v1"] == {"n_steps": 2048, "gamma": 0.9}


def test_python_objects_of_other_libraries_are_read_as_nothing():
    assert reading.parse_yaml("f: !!python/name:os.system\na: 1", python_tags=True) == {"f": None, "a": 1}


def test_ordinary_yaml_is_read_as_by_the_safe_loader():
    text = yaml.safe_dump({"a": [1, 2.5, None, True], "b": {"c": "text", "d": [[1], {}]}, "e": "2020-01-01"})
    assert reading.parse_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 200_000, b"{", b"[1]", b"9" * 5000])
def test_a_damaged_manifest_is_a_one_line_error(tmp_path, content):
    run = a_run(tmp_path / "run")
    (run.path / "manifest.json").write_bytes(content)
    with pytest.raises(UnreadableFile, match=r"manifest\.json cannot be read") as caught:
        RunDir.open(run.path)
    assert "\n" not in str(caught.value)


def test_entries_of_a_manifest_that_have_the_wrong_type_are_left_out(tmp_path):
    run = a_run(tmp_path / "run")
    run.write_manifest(segments=5, environment={"action": [1]}, ended="by an error", machine="x", newer=1)
    with reading.collect_problems() as problems:
        assert run.manifest() == Manifest(ended="by an error")
    assert "machine, environment, segments damaged" in problems[0]


# Kinds of files --------------------------------------------------------------------------------------------


def test_pipes_and_devices_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path, Path("a\0b")):
        with pytest.raises(UnreadableFile):
            reading.read_bytes(path)


def test_a_file_above_the_limit_is_refused_before_it_is_read(tmp_path):
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 10_000_000_000)
    with pytest.raises(UnreadableFile, match="10,000 MB is more than the limit of 16 MB"):
        reading.read_text(tmp_path / "large")


def test_a_member_of_an_archive_is_unpacked_up_to_a_limit(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data", b"0" * 50_000_000)
        archive.writestr("small", b"{}")
    assert reading.read_zip_member(tmp_path / "bomb.zip", "small") == b"{}"
    assert reading.read_zip_member(tmp_path / "bomb.zip", "absent") is None
    with pytest.raises(UnreadableFile, match="unpacks to more than 16 MB"):
        reading.read_zip_member(tmp_path / "bomb.zip", "data")


# Resuming --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["shorter", "deleted"])
def test_a_log_that_is_shorter_than_recorded_is_neither_padded_nor_restarted(tmp_path, damage):
    run = a_run(tmp_path / "run")
    if damage == "shorter":
        os.truncate(run.log, 50)
    else:
        run.log.unlink()
    before = tree(run.path)
    with pytest.raises(RunError, match=r"metrics\.jsonl (has 50|is missing).*nothing was changed.*--from"):
        run.rewind(run.checkpoints()[-1])
    assert tree(run.path) == before


def test_a_checkpoint_cannot_name_other_files_to_cut(tmp_path):
    run, outside = a_run(tmp_path / "run"), tmp_path / "outside.txt"
    outside.write_text("precious")
    file = run.checkpoints()[-1].path / "checkpoint.json"
    writing.write_json_with_digest(file, reading.read_json_object(file) | {"lengths": {"../outside.txt": 0}})
    checkpoint = run.checkpoints()[-1]
    assert checkpoint.sha256 == "" and not checkpoint.lengths
    with pytest.raises(RunError, match="damaged"):
        run.read_checkpoint(checkpoint)
    run.rewind(checkpoint)
    assert outside.read_text() == "precious"


@pytest.mark.parametrize(
    "change", [{"lengths": {"metrics.jsonl": -1}}, {"lengths": {"metrics.jsonl": 2**80}}, {"lengths": []}, {"step": 1}]
)
def test_a_checkpoint_with_impossible_numbers_is_damaged(tmp_path, change):
    run = a_run(tmp_path / "run")
    file = run.checkpoints()[-1].path / "checkpoint.json"
    writing.write_json_with_digest(file, reading.read_json_object(file) | change)
    with pytest.raises(RunError, match="damaged"):
        run.read_checkpoint(run.checkpoints()[-1])


@pytest.mark.parametrize("change", [{"iteration": 4}, {"lengths": {"metrics.jsonl": 10, "evaluations.jsonl": 0}}])
def test_a_flipped_digit_in_a_checkpoints_description_is_found(tmp_path, change):
    """A resume would cut the logs at a wrong length."""
    run = a_run(tmp_path / "run")
    file = run.checkpoints()[-1].path / "checkpoint.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(RunError, match="damaged"):
        run.read_checkpoint(run.checkpoints()[-1])


def test_names_that_no_checkpoint_has_are_passed_over(tmp_path):
    run = a_run(tmp_path / "run")
    for name in ("12abc", "1e5", "9" * 400):
        if len(name) < 255:
            (run.path / "checkpoints" / name).mkdir()
    assert [checkpoint.step for checkpoint in run.checkpoints()] == [2560]
