"""What is read of each type of file, and what it must give: the parts that are undamaged, or a one-line error."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import yaml

import trimtab
from benchmarks.fuzz import corpus, damage
from benchmarks.fuzz.damage import Damage
from trimtab import cli
from trimtab.core import reading
from trimtab.core.errors import RunError, UserError
from trimtab.core.writing import DIGEST
from trimtab.extras.live_view.listing import Watch
from trimtab.libraries.common.foreign_log import read_log
from trimtab.studies.job import Train
from trimtab.studies.store import Store
from trimtab.training import compilation_cache
from trimtab.training.records import Evaluation, MetricsRow
from trimtab.training.run_dir import RunDir

SECONDS = 60  # a reading that takes longer hangs
Read = Callable[[Path], Any]
Check = Callable[[bytes, bytes, Any, Any], str]  # undamaged and damaged bytes, and what was read of each


class Wrong(Exception):
    """An answer that undamaged data would not give."""


@dataclass(frozen=True)
class Subject:
    """A type of file: an example below the corpus, how its values are damaged, what reads it, what that must give."""

    name: str
    file: str
    damages: tuple[Damage, ...]
    read: Read
    check: Check
    commands: tuple[tuple[str, ...], ...] = ()


# Checks: a text that says what is wrong, empty where nothing is ------------------------------------------------


def same_or_refused(before: bytes, after: bytes, whole: Any, found: Any) -> str:
    """For files with a checksum: what is read is what was written."""
    return "" if found == whole or _unsigned(before, after) else f"read {found!r:.150}, not {whole!r:.150}"


def _unsigned(before: bytes, after: bytes) -> bool:
    """Whether the damage took the checksum out of a file, as if an earlier version had written it."""
    return DIGEST.encode() in before and DIGEST.encode() not in after


def anything(before: bytes, after: bytes, whole: Any, found: Any) -> str:
    """For values that are whole in themselves: no traceback is all there is to ask."""
    return ""


def undamaged_lines(parse: Callable[[bytes], Any], before: bytes, after: bytes, whole: Any, found: Any) -> str:
    """Lines that are still as they were written are all read, in order; no more rows than lines."""
    known = {line for line in before.split(b"\n") if line}
    lines = after.split(b"\n")[:-1]
    expected = [parse(line) for line in lines if line in known]
    rest = iter(found)
    for row in expected:
        if not any(row == other for other in rest):
            return f"the undamaged row {row!r:.100} is not read"
    return f"{len(found)} rows of {len(lines)} lines" if len(found) > len(lines) else ""


def as_safe_yaml(before: bytes, after: bytes, whole: Any, found: Any) -> str:
    """A configuration that is read says what a plain YAML reader sees."""
    values = yaml.safe_load(after)
    for name, value in values.items():
        read = getattr(found, name)
        read = list(read) if isinstance(read, tuple) else read
        same = read == value or (isinstance(value, str) and _number(value) == read)
        if not same and not (name == "anneal_lr" and isinstance(value, bool)):
            return f"{name} is read as {read!r:.60}, the file says {value!r:.60}"
    return ""


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def undamaged_entries(before: bytes, after: bytes, whole: Any, found: Any) -> str:
    """Entries of a manifest that are as they were written are read so."""
    was, now = json.loads(before), json.loads(after)
    for name in was.keys() & now.keys():
        same = json.dumps(was[name]) == json.dumps(now[name]) and name not in ("schema", *_twice(after))
        if same and getattr(found, name) != getattr(whole, name):
            return f"{name} is read as {getattr(found, name)!r:.80}"
    return ""


def _twice(data: bytes) -> set[str]:
    """Names that a JSON file gives twice, of which any may be read."""
    names = re.findall(r'"(\w+)":', data.decode(errors="replace"))
    return {name for name in names if names.count(name) > 1}


# Readings --------------------------------------------------------------------------------------------------


def _frame(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(repr(value) for value in row) for row in frame.rows()]


def _checkpoints(root: Path) -> Any:
    run = RunDir.open(root / "run")
    last = run.checkpoint_at(None)
    tensors = run.read_checkpoint(last)
    return (last.step, last.iteration, dict(last.lengths)), {n: (a.dtype.str, a.tolist()) for n, a in tensors.items()}


def _policy(root: Path) -> Any:
    run = trimtab.load(root / "run")
    policy = run.policy()
    run.files.has_checkpoint(corpus.ITERATIONS * corpus.BATCH)
    return policy.outputs([[0.1, -0.2, 0.3, -0.4]]).tolist()


def _episodes(root: Path) -> Any:
    return _frame(RunDir.open(root / "run").episodes())


def _measurements(root: Path) -> Any:
    return _frame(RunDir.open(root / "run").measurements())


def rows_or_none(before: bytes, after: bytes, whole: Any, found: Any) -> str:
    """Of two shards the damaged one is read whole or not at all."""
    half = len(whole) // 2
    return "" if found in (whole, whole[:half], whole[half:]) else f"{len(found)} rows, some of them other ones"


def _listing(root: Path) -> Any:
    """The list of `trimtab view`: runs beside the damaged one are as they were."""
    watch = Watch(root)
    rows = json.loads(watch.listing().json)["runs"]
    place = watch.place("run")
    if place is not None:
        watch.curve(place, [])
        json.dumps(watch.details.of(place).as_dict())
    return {row["id"]: {k: v for k, v in row.items() if k != "label"} for row in rows if row["id"] != "run"}


def _log(folder: str, root: Path) -> Any:
    log = read_log(root / folder)
    rows = [row.as_dict() for row in log.rows]
    return rows, log.details.returns.tolist(), log.details.hyperparameters, log.details.evaluations.tolist()


def log_rows(before: bytes, after: bytes, whole: Any, found: Any) -> str:
    """Rows of undamaged lines of a table of progress are read with the same numbers (their number may change)."""
    known = {line for line in before.split(b"\n") if line}
    if after.split(b"\n")[0] != before.split(b"\n")[0]:
        return ""  # other columns
    kept = {int(line.split(b",")[1]) for line in after.split(b"\n")[1:-1] if line in known and line[:1].isdigit()}
    lines = [line.split(b",") for line in after.split(b"\n")[1:]]
    often = [cells[1] for cells in lines if len(cells) > 1]
    was = {row["time/total_timesteps"]: row for row in whole[0]}
    now = {row["time/total_timesteps"]: row for row in found[0]}
    for step in kept:
        if often.count(str(step).encode()) > 1 or len(often) != len(set(often)):
            continue
        if step not in now or any(now[step][k] != v for k, v in was[step].items() if k != "iteration"):
            return f"row {step} is read as {now.get(step)!r:.200}"
    return ""


def monitor_rows(before: bytes, after: bytes, whole: Any, found: Any) -> str:
    """Episodes of undamaged lines are read."""
    if after.split(b"\n")[:2] != before.split(b"\n")[:2]:
        return ""
    known = {line for line in before.split(b"\n") if line}
    kept = sorted(
        float(line.split(b",")[0]) for line in after.split(b"\n")[2:-1] if line in known and line[:1].isdigit()
    )
    returns = sorted(found[1])
    missing = [value for value in set(kept) if returns.count(value) < kept.count(value)]
    return f"episodes {missing[:3]} are not read" if missing else ""


def subset_of_rows(before: bytes, after: bytes, whole: Any, found: Any) -> str:
    """Of records with checksums, those that are read are as they were written."""
    was = {row["time/total_timesteps"]: row for row in whole[0]}
    for row in found[0]:
        known = was.get(row["time/total_timesteps"])
        if known is None or any(known.get(k) != v for k, v in row.items() if k != "iteration"):
            return f"a row is read as {row!r:.200}"
    return ""


def same_hyperparameters(before: bytes, after: bytes, whole: Any, found: Any) -> str:
    """A saved model's archive carries checksums: its values are read as they were, or not at all."""
    from_table = {"n_epochs", "learning_rate"}
    other = {k: v for k, v in found[2].items() if k not in from_table and whole[2].get(k) != v}
    return f"hyperparameters are read as {other!r:.200}" if other or found[0] != whole[0] else ""


def same_evaluations(before: bytes, after: bytes, whole: Any, found: Any) -> str:
    return "" if found[3] in (whole[3], []) and found[:3] == whole[:3] else f"evaluations are read as {found[3]!r:.200}"


def _outcome(root: Path) -> Any:
    found = Store(root / "store").outcome(corpus.JOBS[0])
    return found and (found.result, found.seconds)


def same_outcome(before: bytes, after: bytes, whole: Any, found: Any) -> str:
    return "" if found in (None, whole) or _unsigned(before, after) else f"the result is read as {found!r:.200}"


def _resumed_study(root: Path) -> Any:
    """What is left of a finished study is nothing; where its files ask for other jobs, none is done here."""
    return command(root, ("resume", "study", "--on", "inline", "--json"))


def _not_done(*arguments: Any) -> dict[str, Any]:
    raise RunError("no job is done here")


def _program(root: Path) -> Any:
    return compilation_cache.without_digest(reading.read_bytes(root / "program.bin"))


def _answer(*words: str) -> Read:
    return lambda root: command(root, words)


# Commands --------------------------------------------------------------------------------------------------


@contextmanager
def bounded(seconds: int = SECONDS) -> Iterator[None]:
    """Raise where the block hangs."""

    def hang(*_: Any) -> None:
        raise Wrong(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def command(root: Path, words: tuple[str, ...]) -> Any:
    """The answer of a command in this process; UserError where it ends in one line with code 2."""
    out, errors = io.StringIO(), io.StringIO()
    code: Any = 0
    with contextlib.chdir(root), contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        reading._reported.clear()
        try:
            code = cli.main(list(words))
        except SystemExit as end:
            code = end.code
    text = errors.getvalue()
    if code == 1 and "trimtab: failed: " in text:  # a job of a study, which is reported
        raise UserError(text.strip().splitlines()[-1])
    if "Traceback" in text + out.getvalue() or code not in (0, 2):
        raise Wrong(f"{' '.join(words)} ends with {code}: {text[-300:]}")
    if code == 2:
        last = text.strip().splitlines()[-1:] or [""]
        if not last[0].startswith("trimtab: "):
            raise Wrong(f"{' '.join(words)} does not end in one line: {text[-300:]!r}")
        raise UserError(last[0])
    return json.loads(out.getvalue()) if "--json" in words else out.getvalue()


def rebuild(root: Path, place: Path) -> None:
    """A run with what can be read of root/run, written anew at a plain path."""
    run = RunDir.open(root / "run")
    shutil.rmtree(place, ignore_errors=True)
    clean = RunDir.create(place, run.config(), run.manifest())
    clean.append_metrics(run.metrics())
    for evaluation in run.evaluations():
        clean.append_evaluation(evaluation)
    for evaluation in reading.read_json_lines(run.path / "evaluated.jsonl", Evaluation.from_dict):
        clean.keep_evaluation(evaluation)
    frame = run.episodes()
    if len(frame):
        clean.write_episodes(0, {name: frame[name].to_numpy() for name in frame.columns})
    for table in run.probes():
        with contextlib.suppress(UserError):
            reading.read_parquet(table)
            (place / "probes").mkdir(exist_ok=True)
            shutil.copy(table, place / "probes" / table.name)
    shutil.copytree(
        run.path / "checkpoints", place / "checkpoints", dirs_exist_ok=True, symlinks=True, ignore=_special_files
    )


def _special_files(folder: str, names: list[str]) -> list[str]:
    """Pipes, which cannot be copied."""
    return [name for name in names if Path(folder, name).is_fifo()]


def answers_as_undamaged(root: Path, words: tuple[str, ...]) -> None:
    """A command gives of a damaged run what it gives of its readable parts, written anew."""
    found = command(root, words)
    shutil.rmtree(root / "plain", ignore_errors=True)
    (root / "plain").mkdir()
    try:
        rebuild(root, root / "plain" / "run")
        shutil.copytree(root / "other", root / "plain" / "other")
        expected = command(root / "plain", words)
    finally:
        shutil.rmtree(root / "plain", ignore_errors=True)
    if found != expected:
        raise Wrong(f"{' '.join(words)} answers {_difference(found, expected)}")


def _difference(one: Any, other: Any) -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        name = next((k for k in [*one, *other] if one.get(k) != other.get(k)), "?")
        return f"{name}: {_difference(one.get(name), other.get(name))}"
    if isinstance(one, list) and isinstance(other, list):
        return next((_difference(a, b) for a, b in zip(one, other) if a != b), f"{len(one)} and {len(other)} entries")
    return f"{one!r:.150} for {other!r:.150}"


# Subjects --------------------------------------------------------------------------------------------------

OF_RUNS = (("show", "run", "--json"), ("doctor", "run", "--json"), ("compare", "run", "other", "--json"))
OF_LOGS = (("doctor", "log", "--json"),)
CHECKPOINT = f"run/checkpoints/{corpus.ITERATIONS * corpus.BATCH:012d}"
_metrics = partial(undamaged_lines, lambda line: MetricsRow.from_dict(json.loads(line)))
_evaluations = partial(undamaged_lines, lambda line: Evaluation.from_dict(json.loads(line)))
TEXT = (*damage.BYTES, damage.change_number)
JSON = (*TEXT, damage.change_json, damage.change_json)
LINES = (*TEXT, damage.change_line, damage.change_line)
YAML = (*TEXT, damage.change_yaml, damage.change_yaml)
CSV = (*TEXT, damage.change_cell, damage.change_cell)


def _run(name: str, file: str, damages: tuple[Damage, ...], read: Callable[[RunDir], Any], check: Check) -> Subject:
    return Subject(name, f"run/{file}", damages, lambda root: read(RunDir.open(root / "run")), check, OF_RUNS)


SUBJECTS: tuple[Subject, ...] = (
    Subject(
        "config.yaml", "run/config.yaml", YAML, lambda root: RunDir.open(root / "run").config(), as_safe_yaml, OF_RUNS
    ),
    _run("manifest.json", "manifest.json", JSON, RunDir.manifest, undamaged_entries),
    _run("metrics.jsonl", "metrics.jsonl", LINES, RunDir.metrics, _metrics),
    _run("evaluations.jsonl", "evaluations.jsonl", LINES, RunDir.evaluations, _evaluations),
    Subject(
        "evaluated.jsonl",
        "run/evaluated.jsonl",
        LINES,
        lambda r: RunDir.open(r / "run").all_evaluations(),
        anything,
        OF_RUNS,
    ),
    Subject("episodes", "run/episodes/0000000000.parquet", damage.BYTES, _episodes, rows_or_none, OF_RUNS),
    Subject(
        "episodes, values", "run/episodes/0000000000.parquet", (damage.change_table,), _episodes, anything, OF_RUNS
    ),
    Subject("probes", "run/probes/step1024.parquet", damage.BYTES, _measurements, rows_or_none, OF_RUNS),
    Subject("probes, values", "run/probes/step1024.parquet", (damage.change_table,), _measurements, anything, OF_RUNS),
    Subject("checkpoint.json", f"{CHECKPOINT}/checkpoint.json", JSON, _checkpoints, same_or_refused, OF_RUNS[:1]),
    Subject(
        "state.safetensors",
        f"{CHECKPOINT}/state.safetensors",
        (*damage.BYTES, damage.change_header),
        _checkpoints,
        same_or_refused,
    ),
    Subject(
        "policy", f"{CHECKPOINT}/state.safetensors", (*damage.BYTES, damage.change_header), _policy, same_or_refused
    ),
    Subject("config.yaml, view", "run/config.yaml", YAML, _listing, same_or_refused),
    Subject("manifest.json, view", "run/manifest.json", JSON, _listing, same_or_refused),
    Subject("metrics.jsonl, view", "run/metrics.jsonl", LINES, _listing, same_or_refused),
    Subject("study.json, view", "study/study.json", JSON, _listing, anything),
    Subject("outcome.json", "store/*of-0*/outcome.json", JSON, _outcome, same_outcome),
    Subject("job.json", "store/*of-0*/job.json", JSON, _outcome, same_outcome),
    Subject("study.json", "study/study.json", JSON, _resumed_study, anything, (("study", "show", "study"),)),
    Subject("result.json", "study/result.json", JSON, _listing, anything, (("study", "show", "study"),)),
    Subject("progress.csv", "log/progress.csv", CSV, partial(_log, "log"), log_rows, OF_LOGS),
    Subject("monitor.csv", "log/0.monitor.csv", CSV, partial(_log, "log"), monitor_rows, OF_LOGS),
    Subject("model.zip", "log/model.zip", damage.BYTES, partial(_log, "log"), same_hyperparameters, OF_LOGS),
    Subject("evaluations.npz", "log/evaluations.npz", damage.BYTES, partial(_log, "log"), same_evaluations, OF_LOGS),
    Subject("tfevents", "events/events.out.tfevents.1", damage.BYTES, partial(_log, "events"), subset_of_rows),
    Subject(
        "zoo.yaml",
        "zoo.yaml",
        YAML,
        _answer("translate", "zoo.yaml", "--env-id", "CartPole-v1", "--json"),
        anything,
        (("translate", "zoo.yaml", "--env-id", "CartPole-v1"),),
    ),
    Subject("own.yaml", "own.yaml", YAML, _answer("plan", "--config", "own.yaml", "--json"), anything),
    Subject("cached program", "program.bin", damage.BYTES, _program, same_outcome),
)


def prepare(root: Path) -> Path:
    """The corpus, with what only readings need."""
    corpus.make(root)
    (root / "program.bin").write_bytes(compilation_cache.with_digest(bytes(range(256)) * 8))
    return root


@contextmanager
def without_training() -> Iterator[None]:
    """Jobs that damaged studies ask for fail instead of being done."""
    before, Train.do = Train.do, _not_done  # type: ignore[method-assign]
    try:
        yield
    finally:
        Train.do = before  # type: ignore[method-assign]
