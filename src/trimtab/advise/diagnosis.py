"""`trimtab doctor`: a run's records held against every rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any

import numpy as np

from trimtab.advise import solved
from trimtab.advise.evidence import Evidence
from trimtab.advise.finding import Finding, ordered
from trimtab.advise.record_rules import check_signs
from trimtab.advise.size_rules import Action, Length, check_sizes
from trimtab.training.run import Run

FAR = 10.0  # batches so many times the noise scale, or such a fraction of it, are worth a word


@dataclass(frozen=True)
class Diagnosis:
    """All findings, most pressing first, and the next thing to try."""

    run: str
    findings: list[Finding]
    sentence: str
    command: str | None

    @property
    def acts(self) -> list[str]:
        """What is to be acted on."""
        return [finding.check for finding in self.findings if finding.verdict == "act"]

    def __repr__(self) -> str:
        """The sentence and what is behind it, one line each; the series stay with the findings."""
        notable = [f for f in self.findings if f.verdict in ("solved", "act", "watch")]
        lines = [f"  {f.verdict:<7} {f.check}: {f.seen}" for f in notable]
        return "\n".join([f"<Diagnosis of {self.run}: {self.sentence}", *lines]) + ">"

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        from trimtab.show.findings import findings_html

        return findings_html(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "sentence": self.sentence,
            "command": self.command,
            "findings": [finding.as_dict() for finding in self.findings],
        }


def diagnose(run: Run) -> Diagnosis:
    """What a run's records say, by every rule that applies to it."""
    records = evidence(run)
    length = usual_length(run.episodes["length"].to_numpy()) or _limit(run)
    findings = [*_ended(run, records), *check_signs(records), *check_sizes(records.config, records.action, length)]
    findings += [_noise(run), _evaluation(run)]
    findings = in_view_of_the_goal(records, findings)
    first = next((f for f in findings if f.verdict in ("act", "watch")), None)
    return Diagnosis(str(run.path), findings, sentence_of(findings), _command(run, first))


def tally(acts: Sequence[Sequence[str]]) -> str:
    """What is to be acted on in several runs, and in how many of them; empty where there is nothing."""
    counts = Counter(check for checks in acts for check in checks)
    return ", ".join(f"{check} in {count} of {len(acts)}" for check, count in counts.most_common())


def usual_length(lengths: np.ndarray) -> Length | None:
    """The median length of the later half of the episodes."""
    return Length(float(np.median(lengths[len(lengths) // 2 :]))) if len(lengths) else None


def in_view_of_the_goal(records: Evidence, findings: list[Finding]) -> list[Finding]:
    """In order, the goal first; where it is reached, or a preset did what it is known for, less is to be done."""
    if _reached(records):
        findings = [_eased(finding) for finding in findings]
    elif solved.as_known(records.config, records.returns):
        findings = [replace(f, verdict="watch") if f.verdict == "act" else f for f in findings]
    return ordered([*_goal(records), *findings])


def _reached(records: Evidence) -> solved.Reached | None:
    """Whether the environment is solved; not if the run broke off."""
    last = float(records.evaluations[-1]) if len(records.evaluations) else None
    return None if records.not_finite else solved.reached(records.config, records.returns, last)


def _goal(records: Evidence) -> Iterator[Finding]:
    """What the environment asks for, where that is known, and whether the run has reached it."""
    done, target = _reached(records), solved.goal(records.config)
    if done is not None:
        yield Finding("goal", "solved", done.words, value=done.value)
    elif target is not None and len(records.returns):
        mean = float(records.returns[-solved.WINDOW :].mean())
        statement = f"{mean:.4g} over the last episodes; {target.threshold:g} counts as solved ({target.source})"
        yield Finding("goal", "note", statement, value=mean)


def _eased(finding: Finding) -> Finding:
    """What is unusual or not measured about a run that solved its environment is worth knowing, and nothing to do."""
    if finding.verdict == "unknown":
        return replace(finding, verdict="note", advice="", change={})
    if finding.verdict not in ("act", "watch"):
        return finding
    return replace(finding, verdict="note", advice="unusual, and it learned all the same", change={})


def evidence(run: Run) -> Evidence:
    """The run's records as arrays."""
    rows, episodes = run.files.metrics(), run.episodes
    names = sorted({name for row in rows for name in row if name.startswith("train/")})
    action = run.files.manifest().get("environment", {}).get("action")
    return Evidence(
        config=run.config,
        metrics={name: np.array([row.get(name, np.nan) for row in rows], float) for name in names},
        iterations=rows[-1]["iteration"] if rows else 0,
        returns=episodes["return"].to_numpy(),
        steps=episodes["step"].to_numpy(),
        action=Action(action["kind"], action["size"]) if action else None,
        not_finite=tuple(rows[-1].get("not_finite", ())) if rows else (),
        evaluations=np.array([row["eval/mean_reward"] for row in run.files.evaluations()], float),
    )


def _ended(run: Run, records: Evidence) -> Iterator[Finding]:
    """What ended the run before its time, and records that its checkpoints have and its logs have not."""
    ended = run.files.manifest().get("ended")
    if ended and not records.not_finite:
        yield Finding("ended", "act", f"by an error: {ended}", f"mend that, then `trimtab resume {run.path}` goes on")
    last = max((checkpoint.step for checkpoint in run.checkpoints), default=0)
    recorded = records.iterations * records.config.batch
    if recorded < last:
        statement = f"logs end at step {recorded:,}, the newest checkpoint is at step {last:,}"
        yield Finding(
            "records", "act", statement, "files are missing or were cut: what is said below rests on what is left"
        )


def _limit(run: Run) -> Length | None:
    limit = run.files.manifest().get("environment", {}).get("time_limit")
    return Length(limit, is_limit=True) if limit else None


def _noise(run: Run) -> Finding:
    """The batch against the noise scale, where a probe has resolved it."""
    batch = run.config.batch
    newest = run.newest("noise_scale_trajectory")
    if newest is None:
        return Finding(
            "noise scale",
            "unknown",
            "not measured, or not resolved",
            f"trimtab probe {quote(str(run.path))} measures it",
        )
    value, lo, hi = newest["value"], newest["lo"], newest["hi"]
    statement = f"{value:.3g} samples ({lo:.2g} to {hi:.2g}) at step {newest['step']:,}; a batch has {batch:,}"
    numbers = {"value": value, "lo": lo, "hi": hi}
    if lo > FAR * batch:
        advice = "a batch is mostly noise: twice the batch nearly halves the variance of an update"
        return Finding("noise scale", "watch", statement, advice, {"num_envs": 2 * run.config.num_envs}, **numbers)
    if hi < batch / FAR:
        advice = "a batch has far more samples than its gradient needs: smaller ones would learn from fewer samples"
        return Finding("noise scale", "watch", statement, advice, **numbers)
    return Finding("noise scale", "fine", statement, **numbers)


def _evaluation(run: Run) -> Finding:
    rows = run.files.all_evaluations()
    if not rows:
        command = f"trimtab eval {quote(str(run.path))}"
        return Finding("evaluation", "unknown", "never evaluated with exploration off", command)
    last = rows[-1]
    statement = (
        f"mean {last['eval/mean_reward']:.4g}, IQR {last['eval/iqr_low']:.4g} to {last['eval/iqr_high']:.4g} "
        f"at step {last['time/total_timesteps']:,}"
    )
    where = {"value": last["eval/mean_reward"], "lo": last["eval/iqr_low"], "hi": last["eval/iqr_high"]}
    trained = run.files.metrics()[-1].get("rollout/ep_rew_mean")
    if trained is None or last["eval/iqr_high"] >= trained:
        return Finding("evaluation", "fine", statement, source="notes", **where)
    advice = f"below the return in training ({trained:.4g}): the policy leans on its own noise"
    return Finding("evaluation", "watch", statement, advice, source="notes", **where)


def sentence_of(findings: list[Finding]) -> str:
    """One sentence for all of it."""
    if findings[0].verdict == "solved":
        return f"Solved: {findings[0].seen}. Nothing to act on."
    count = {verdict: [f.check for f in findings if f.verdict == verdict] for verdict in ("act", "watch")}
    if count["act"]:
        return f"To act on: {', '.join(count['act'])}. Change one thing at a time."
    if count["watch"]:
        return f"Nothing is wrong; worth a try: {', '.join(count['watch'])}."
    return "Nothing stands out."


def _command(run: Run, first: Finding | None) -> str | None:
    """The same run with the first suggestion taken."""
    if first is None or not first.change:
        return None
    words = [f"--{name.replace('_', '-')} {str(value).lower()}" for name, value in first.change.items()]
    return f"trimtab train --config {quote(f'{run.path}/config.yaml')} {' '.join(words)}"
