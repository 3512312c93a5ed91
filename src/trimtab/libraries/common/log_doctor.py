"""`trimtab doctor` of a run of another library: its log judged by the same rules, in that library's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from shlex import quote

from trimtab.advise.diagnosis import Diagnosis, FolderDiagnosis, diagnose, find, sentence_of, with_commands
from trimtab.advise.rules import RULES, Rule, observe
from trimtab.advise.run_summary import RunView, describe
from trimtab.config import ConfigError
from trimtab.core import trust
from trimtab.core.errors import RunError, UserError
from trimtab.core.finding import Finding, ordered
from trimtab.core.wording import plain
from trimtab.libraries.common.foreign_log import Log, is_log, read_log
from trimtab.libraries.common.foreign_options import Values
from trimtab.libraries.common.translation import dictionary_of
from trimtab.training.run import load
from trimtab.training.run_dir import RunDir

DEPTH = 3  # folders below the one that is searched for runs
MOST_RUNS = 200
WANTED = (
    "a run directory (config.yaml), a folder of runs, progress.csv, monitor.csv, TensorBoard events, or a model that "
    "Stable-Baselines3 saved (.zip)"
)


@dataclass(frozen=True)
class Examined:
    """The diagnosis of a path, and what its page shows."""

    diagnosis: Diagnosis | FolderDiagnosis
    folder: Path
    """Where its page goes."""
    described: Callable[[], RunView] | None = None
    """What a page shows of it; None for a folder of runs."""


def examine(place: str | PathLike[str], hyperparameters: Values | None = None) -> Examined:
    """Judge whatever is at a path, and keep what a page of it needs.

    Args:
        place: a run of trimtab, a log of another library, or a folder of any of them.
        hyperparameters: of a log, by their names there, where it does not contain them.

    Returns:
        A diagnosis, or those of all runs in a folder. A path with none of them raises RunError.
    """
    path = Path(place)
    trust.trust_named((hyperparameters or {}).get("env_id"))  # the user typed it
    if RunDir.began(path):
        if hyperparameters:
            name = next(iter(hyperparameters))
            problem = "a run of trimtab has its own hyperparameters; they are for logs of other libraries"
            raise ConfigError(name, hyperparameters[name], problem)
        run = load(path)
        return Examined(diagnose(run), run.path, partial(describe, run))
    if is_log(path):
        log = read_log(path, hyperparameters)
        diagnosis = diagnose_log(log)
        folder = log.path if log.path.is_dir() else log.path.parent
        return Examined(diagnosis, folder, partial(described_log, log, diagnosis))
    return Examined(_diagnose_folder(path, hyperparameters), path)


def diagnose_place(place: str | PathLike[str], hyperparameters: Values | None = None) -> Diagnosis | FolderDiagnosis:
    """Judge whatever is at a path; arguments of `examine`.

    Args:
        place: a run of trimtab, a log of another library, or a folder of any of them.
        hyperparameters: of a log, by their names there.

    Returns:
        A diagnosis, or those of all runs in a folder.
    """
    return examine(place, hyperparameters).diagnosis


def _diagnose_folder(path: Path, hyperparameters: Values | None) -> FolderDiagnosis:
    """All runs and logs in a folder; one that cannot be read is listed as a problem."""
    if not path.exists():
        raise RunError(f"{path}: no such file or directory; `trimtab doctor` takes {WANTED}")
    runs = list(islice(_runs_below(path, DEPTH), MOST_RUNS)) if path.is_dir() else []
    if not runs:
        where = f", {DEPTH} folders deep" if path.is_dir() else ""
        raise RunError(f"{path}: nothing to diagnose; looked for {WANTED}{where}")
    diagnoses, problems = [], []
    for run in runs:
        try:
            diagnoses.append(diagnose(load(run)) if RunDir.began(run) else diagnose_log(read_log(run, hyperparameters)))
        except UserError as error:
            problems.append(f"{run}: {error}")
    return FolderDiagnosis.of(path, diagnoses, problems)


def _runs_below(folder: Path, depth: int) -> Iterator[Path]:
    """Runs and logs in a folder, without what lies inside them; links are not followed."""
    for child in sorted(folder.iterdir()):
        if child.is_symlink() or not child.is_dir() or child.name.startswith("."):
            continue
        if RunDir.began(child) or is_log(child):
            yield child
        elif depth > 1:
            yield from _runs_below(child, depth - 1)


def diagnose_log(log: Log) -> Diagnosis:
    """Judge another library's log.

    Args:
        log: a log that was read.

    Returns:
        The findings of every rule that the log records enough for; options have their names there.
    """
    rules, missing = _usable(log)
    findings = find(log.evidence, observe(log.evidence, rules), dictionary_of(log.library))
    findings += [] if log.knows_sizes else [_unknown_sizes(log)]
    findings += [Finding("gradient meter", "note", log.meter.sentence)] if log.meter is not None else []
    findings += [Finding("read as", "note", note) for note in log.notes]
    if missing:
        findings.append(Finding("not recorded", "note", f"{log.library.title} logs nothing for {', '.join(missing)}"))
    findings = with_commands(ordered(findings), partial(_command, log))
    return Diagnosis(str(log.path), findings, sentence_of(findings))


def _usable(log: Log) -> tuple[list[Rule], list[str]]:
    """The rules that the log records enough for, and the names of those whose metric it lacks."""
    unknown = {"sizes": not log.knows_sizes, "probes": not log.knows_sizes, "episodes": not len(log.details.returns)}
    rules = [rule for rule in RULES if not unknown.get(rule.reads)]
    unrecorded = [rule for rule in rules if rule.reads.startswith("train/") and rule.reads not in log.recorded]
    missing = [rule.name for rule in unrecorded if rule.applies(log.evidence)]
    return [rule for rule in rules if rule not in unrecorded], missing


def _unknown_sizes(log: Log) -> Finding:
    """How to tell the doctor the sizes that the log does not contain."""
    names = ("num_envs", "num_steps", "minibatch_size", "num_minibatches")
    sizes = [option for name in names if (option := log.library.option_for(name))]
    pairs = " ".join(f"{name}=…" for name in sizes)
    advice = f"add them: trimtab doctor {quote(str(log.path))} {pairs}"
    return Finding("sizes", "unknown", f"the log does not contain {', '.join(sizes)}", advice)


def _command(log: Log, finding: Finding) -> str:
    """The same run in trimtab, with the suggestion taken."""
    return f"{_translation(log, finding.change)} && trimtab train --config here.yaml" if finding.change else ""


def _translation(log: Log, change: Values | None = None) -> str:
    """The command that carries its hyperparameters over, with a change."""
    values = (log.details.hyperparameters | (change or {})).items()
    texts = {name: str(value) if isinstance(value, list) else plain(value) for name, value in values}
    pairs = " ".join(f"{name}={quote(text)}" for name, text in texts.items())
    return f"trimtab translate {log.library.name} {pairs} --env-id {quote(log.config.env_id)} > here.yaml"


def described_log(log: Log, diagnosis: Diagnosis) -> RunView:
    """What pages show of a log.

    Args:
        log: a log that was read.
        diagnosis: what the rules say of it.

    Returns:
        The same as of a run of trimtab, with the command that translates its hyperparameters.
    """
    follow = _translation(log), "Train with the same hyperparameters in trimtab, and measure the gradients."
    name = f"{log.library.title}, {log.path.name}"
    return RunView(name, str(log.path), log.config, diagnosis, log.rows, [], next=follow)
