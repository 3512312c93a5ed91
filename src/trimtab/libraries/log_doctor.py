"""`trimtab doctor` of a run of another library: its log held against the same rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from shlex import quote
from typing import Any

from trimtab.advise import solved
from trimtab.advise.diagnosis import Diagnosis, in_view_of_the_goal, sentence_of, usual_length
from trimtab.advise.finding import Finding
from trimtab.advise.record_rules import check_signs
from trimtab.advise.size_rules import Length, check_sizes
from trimtab.core.wording import plain
from trimtab.libraries import LIBRARIES
from trimtab.libraries.foreign_log import Log
from trimtab.libraries.translation_rules import names_of

RECORDED = {  # what a rule reads
    "gradient": "train/grad_norm",
    "clipping": "train/clip_fraction",
    "advantages": "train/adv_std",
    "critic": "train/explained_variance",
    "importance": "train/importance_ess",
    "entropy": "train/entropy_loss",
    "step size": "train/learning_rate",
}
OF_EPISODES = ("learning", "lasting", "swings", "lockstep")
MEAN = "rollout/ep_rew_mean"


def diagnose_log(log: Log) -> Diagnosis:
    """What another library's log says, by every rule that it records enough for; fields under their names there."""
    records = log.evidence
    recorded = {name for row in log.rows for name in row}
    signs = list(check_signs(records))
    missing = [f.check for f in signs if f.check in RECORDED and RECORDED[f.check] not in recorded]
    episodes = len(log.details.returns) > 0
    findings = [f for f in signs if f.check not in missing and (episodes or f.check not in OF_EPISODES)]
    findings += [] if episodes else _trend(log)
    findings += _sizes(log)
    findings += [Finding("read as", "note", note) for note in log.notes]
    if missing:
        findings.append(Finding("not recorded", "note", f"{log.format.title} logs nothing for {', '.join(missing)}"))
    findings = [_in_their_words(f, log) for f in in_view_of_the_goal(records, findings)]
    return Diagnosis(str(log.path), findings, sentence_of(findings), None)


def _trend(log: Log) -> Iterator[Finding]:
    """How returns went, where only means over the last episodes are recorded: without an interval."""
    means = log.series(MEAN)
    if len(means) < 4:
        yield Finding("learning", "unknown", "no returns are recorded")
        return
    quarter = max(1, len(means) // 4)
    first, last = float(means[:quarter].mean()), float(means[-quarter:].mean())
    statement = f"the mean return went from {first:.4g} to {last:.4g}; single episodes are not recorded, so no interval"
    advice = "" if last > first else "it did not rise: look at the step size first"
    yield Finding(
        "learning", "note" if last > first else "watch", statement, advice, source="notes", series=tuple(means)
    )


def _sizes(log: Log) -> Iterator[Finding]:
    """The rules about sizes, where the log says them or its reader does."""
    if log.knows_sizes:
        means = log.series("rollout/ep_len_mean")
        length = usual_length(log.details.lengths) or (Length(float(means[-1])) if len(means) else None)
        yield from check_sizes(log.config, log.details.action, length)
        return
    theirs = names_of(LIBRARIES[log.format.library])
    sizes = [theirs[name] for name in ("num_envs", "num_steps", "minibatch_size", "num_minibatches") if name in theirs]
    statement = f"the log does not say {', '.join(sizes)}"
    pairs = " ".join(f"{name}=…" for name in sizes)
    yield Finding("sizes", "unknown", statement, f"give them: trimtab doctor {log.path} {pairs}")


def _in_their_words(finding: Finding, log: Log) -> Finding:
    """The fields to change under the names they have there."""
    theirs = names_of(LIBRARIES[log.format.library])
    change: dict[str, Any] = {}
    for name, value in finding.change.items():
        if name == "num_minibatches" and name not in theirs:
            name, value = "minibatch_size", log.config.batch // value
        change[theirs.get(name, name)] = value
    return replace(finding, change=change)


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
