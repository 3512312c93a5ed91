"""`trimtab doctor` of a run of another library: its log judged by the same rules, in that library's words."""

from __future__ import annotations

from shlex import quote
from typing import Any

from trimtab.advise import solved
from trimtab.advise.diagnosis import Diagnosis, find, sentence_of
from trimtab.advise.remedies import Wording
from trimtab.advise.rules import RULES, Rule, observe
from trimtab.config import Config
from trimtab.core.finding import Finding, ordered
from trimtab.core.wording import plain
from trimtab.libraries import LIBRARIES
from trimtab.libraries.foreign_log import Log
from trimtab.libraries.translation_rules import names_of

OWN = ("files", "probes", "disk")  # what only runs of this library have
MEAN = "rollout/ep_rew_mean"


def diagnose_log(log: Log) -> Diagnosis:
    """Judge another library's log.

    Args:
        log: a log that was read.

    Returns:
        The findings of every rule that the log records enough for; options have their names there.
    """
    rules, missing = _usable(log)
    findings = find(log.evidence, observe(log.evidence, rules), _dictionary(log))
    findings += [] if log.knows_sizes else [_unknown_sizes(log)]
    findings += [Finding("read as", "note", note) for note in log.notes]
    if missing:
        findings.append(Finding("not recorded", "note", f"{log.format.title} logs nothing for {', '.join(missing)}"))
    findings = ordered(findings)
    return Diagnosis(str(log.path), findings, sentence_of(findings))


def _usable(log: Log) -> tuple[list[Rule], list[str]]:
    """The rules that the log records enough for, and the names of those whose metric it lacks."""
    recorded = {name for row in log.rows for name in row}
    absent = {*OWN, *([] if log.knows_sizes else ["sizes"]), *([] if len(log.details.returns) else ["episodes"])}
    rules = [rule for rule in RULES if rule.reads not in absent]
    unrecorded = [rule for rule in rules if rule.reads.startswith("train/") and rule.reads not in recorded]
    missing = [rule.name for rule in unrecorded if (seen := rule.observe(log.evidence)) and seen.seen]
    return [rule for rule in rules if rule not in unrecorded], missing


def _unknown_sizes(log: Log) -> Finding:
    """How to tell the doctor the sizes that the log does not contain."""
    theirs = names_of(LIBRARIES[log.format.library])
    sizes = [theirs[name] for name in ("num_envs", "num_steps", "minibatch_size", "num_minibatches") if name in theirs]
    pairs = " ".join(f"{name}=…" for name in sizes)
    advice = f"add them: trimtab doctor {quote(str(log.path))} {pairs}"
    return Finding("sizes", "unknown", f"the log does not contain {', '.join(sizes)}", advice)


def _dictionary(log: Log):
    """Fields under the names they have there."""
    theirs = names_of(LIBRARIES[log.format.library])

    def wording(name: str, value: Any, config: Config) -> Wording | None:
        if name == "num_minibatches" and name not in theirs:
            name, value = "minibatch_size", value and log.config.batch // value
        return Wording(theirs[name], value) if name in theirs else None

    return wording


def _translation(log: Log) -> str:
    """The command that carries its hyperparameters over."""
    text = lambda value: str(value) if isinstance(value, list) else plain(value)
    pairs = " ".join(f"{name}={quote(text(value))}" for name, value in log.details.hyperparameters.items())
    return f"trimtab translate {log.format.library} {pairs} --env-id {quote(log.config.env_id)} > here.yaml"


def described_log(log: Log, diagnosis: Diagnosis) -> dict[str, Any]:
    """A log as the plain dictionary that pages of runs are made from."""
    goal = solved.goal(log.config)
    return {
        "name": f"{log.format.title}, {log.path.name}",
        "path": str(log.path),
        "config": log.config.as_dict(),
        "manifest": {},
        "metrics": log.rows,
        "evaluations": [],
        "checkpoints": [],
        "findings": [finding.as_dict() | {"series": finding.series} for finding in diagnosis.findings],
        "sentence": diagnosis.sentence,
        "command": None,
        "next": (_translation(log), "The same hyperparameters here, to train with and to measure gradients of."),
        "summary": {"ep_rew_mean": log.rows[-1].get(MEAN)},
        "goal": goal.threshold if goal else None,
    }
