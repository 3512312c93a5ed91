"""Is the doctor right? Healthy and ill runs, labelled by their returns; half are held out from the rules' design."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from trimtab.advise.diagnosis import Diagnosis, diagnose
from trimtab.advise.rules import RULES
from trimtab.config import Config, ConfigError, from_dict
from trimtab.core.finding import Finding
from trimtab.core.wording import plain
from trimtab.experiments.claims import Verdict
from trimtab.experiments.figures import Chart, Figure
from trimtab.experiments.own.doctor_cases import Case, cases, reference_of
from trimtab.experiments.own.foreign_logs import WRITERS, write_log
from trimtab.experiments.source_study import SourceStudy, Tables
from trimtab.libraries.common.foreign_log import read_log
from trimtab.libraries.common.log_doctor import diagnose_log
from trimtab.math import stats
from trimtab.studies.job import Job, Train
from trimtab.studies.store import Outcome
from trimtab.studies.study_engine import Outcomes
from trimtab.training.run import Run, load
from trimtab.training.run_dir import RunDir

REFERENCES = 2  # seeds of the healthy run that others are compared with
END = 0.25  # of training, over which the final return is averaged
HEALTHY = 0.8  # of what the reference gained
LEARNED = 0.25  # of it, of a preset or a published setting
LIBRARIES = ("trimtab", *WRITERS)
Label = Literal["healthy", "ill", "unlabelled"]


@dataclass(frozen=True)
class _Reference:
    """Returns of the healthy run of an environment, mean over its seeds."""

    start: float
    final: float

    def closed(self, final: float) -> float:
        """What a run gained, as a share of what the healthy run gained; NaN where that gained nothing."""
        gain = self.final - self.start
        return (final - self.start) / gain if gain > 0 else float("nan")


@dataclass(frozen=True)
class _Judged:
    """One run in one library's words: a row of the table `findings`."""

    case: str
    group: str
    half: str
    seed: int
    label: Label
    library: str
    counted: bool
    """Whether the pooled counts use this library for this run: each run counts once."""
    final: float
    closed: float
    acts: str
    watches: str
    first: str
    moves: str
    right: bool
    said: str


@dataclass(frozen=True)
class _Followed:
    """The first advice on an ill run, taken: a row of the table `advice`."""

    case: str
    group: str
    half: str
    first: str
    change: str
    closed: float
    """Share of the healthy gain before."""
    after: float
    """And with the advice."""
    right: bool


@dataclass(frozen=True)
class _Results:
    """What `gather` hands to `measure`."""

    judged: list[_Judged]
    followed: list[_Followed]


@dataclass(frozen=True)
class _Tables(Tables):
    """Counts by half and library, by rule and by fault; the advice that was followed; the findings behind all of it."""

    counts: pl.DataFrame
    rules: pl.DataFrame
    faults: pl.DataFrame
    advice: pl.DataFrame
    findings: pl.DataFrame


class Validation(SourceStudy[_Tables]):
    """The set, the doctor's findings in the words of four libraries, and what following the first advice gains."""

    kind = "doctor-validation"
    summary = "Is the doctor right?"
    source = "this library's own doctor"

    def cases(self) -> list[Case]:
        """The cases of this size; `quick` has those of CartPole only, one seed each."""
        if self.size == "quick":
            return [case for case in cases(1, 1) if case.config.env_id == "CartPole-v1"]
        return cases(*{"default": (1, 2), "full": (5, 5)}[self.size])

    def trained(self, config: Config, seeds: int) -> list[Train]:
        """The same configuration on consecutive seeds."""
        return [Train(config.replace(seed=self.seed + k), checkpoints=1) for k in range(seeds)]

    def _references(self, config: Config) -> list[Train]:
        return self.trained(reference_of(config), 1 if self.size == "quick" else REFERENCES)

    def jobs(self) -> list[Job]:
        """The first seed of every case before the second of any."""
        every = sorted(self.cases(), key=lambda case: case.half)
        jobs: list[Job] = []
        for k in range(max(case.seeds for case in every)):
            for case in every:
                jobs += self.trained(case.config, case.seeds)[k : k + 1]
                jobs += self._references(case.config)[k : k + 1]
        return list({job.identity: job for job in jobs}.values())

    def gather(self, out: Path) -> Generator[Sequence[Job], Outcomes, _Results]:
        """All runs; then, of the first seed of every held-out ill case, the run that takes the first advice."""
        outcomes = yield self.jobs()
        judged, taken = [], {}
        for case in self.cases():
            reference = _reference([outcomes[job.identity] for job in self._references(case.config)])
            for k, job in enumerate(self.trained(case.config, case.seeds)):
                outcome = outcomes[job.identity]
                if not RunDir.began(outcome.path):
                    continue
                rows = list(_judged(case, outcome, reference, k))
                judged += rows
                follows = k == 0 and rows[0].label == "ill" and case.half == "held-out"
                follower = _following(job.config, outcome) if follows else None
                if follower is not None:
                    taken[case.name] = (rows[0], follower, reference)
        outcomes = yield [follower for _, follower, _ in taken.values()]
        followed = [_followed(row, outcomes[job.identity], reference) for row, job, reference in taken.values()]
        return _Results(judged, followed)

    def measure(self, results: _Results) -> _Tables:
        findings = pl.DataFrame([asdict(row) for row in results.judged], infer_schema_length=None)
        advice = pl.DataFrame([asdict(row) for row in results.followed], infer_schema_length=None)
        return _Tables(_counts(findings), _rules(findings), _faults(findings), advice, findings)

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        if tables.advice.is_empty():
            return {}
        caption = "Each line is one ill run: the share of the healthy gain before and after the first advice was taken."
        return {"advice": Figure(_regained_chart(tables.advice), caption)}

    def answer(self, tables: _Tables, verdicts: list[Verdict]) -> str:
        [row] = tables.counts.filter(half="held-out", library="pooled").iter_rows(named=True)
        advice = tables.advice
        words = f"On the held-out half, the doctor says act on {row['act']} of {row['healthy']} healthy runs"
        words += _range(row["act_lo"], row["act_hi"])
        words += f", and names the right fault first on {row['right_first']} of {row['ill']} ill runs"
        words += _range(row["right_lo"], row["right_hi"])
        if advice.is_empty():
            return f"{words}."
        gain = stats.mean_interval((advice["after"] - advice["closed"]).to_list())
        regained = f"{gain.value:.0%} of the healthy gain in return" + _range(gain.lo, gain.hi)
        return f"{words}. Following the first advice once regains {regained} on average, in {advice.height} ill runs."

    def notes(self) -> list[str]:
        return [
            "A run is labelled by its final return, the mean over the last quarter of its evaluations. A run with a "
            f"fault is ill if it gained less than {HEALTHY:.0%} of what the environment's preset gains in as many "
            f"steps (mean of {REFERENCES} seeds); a fault that does not hurt is healthy.",
            "Presets and published settings are healthy, also where they learn slowly; those that gained less than "
            f"{LEARNED:.0%} of that are not counted.",
            "Half of the cases of every group is held out, by hashes of their names with a seed that was fixed before "
            "any rule was changed. All seeds of a case are in the same half. Held-out cases have the same faults on "
            "other environments, so the counts say nothing of other or milder faults.",
            "All runs are trained by trimtab. For the other libraries their metrics are written in the files and with "
            "the names of that library, without what it does not record. In pooled counts every run counts in one "
            "library, in turns; counts of one library have all runs.",
            "The right fault is named if the first finding with act or watch moves the field that was changed back, or "
            "a field that repairs the same.",
            "Cells of the table of rules: act + watch on healthy runs, act + watch on ill runs, and of the ill runs on "
            "which the rule comes first, those with the right fault.",
        ]


# Labels -----------------------------------------------------------------------------------------------------


def _final(run: Run) -> float | None:
    return run.curve.final(END)


def _reference(outcomes: Sequence[Outcome]) -> _Reference:
    curves = [load(outcome.path).curve for outcome in outcomes if outcome.done]
    finals = [final for curve in curves if (final := curve.final(END)) is not None]
    return _Reference(float(np.mean([curve.value[0] for curve in curves])), float(np.mean(finals)))


def _label(case: Case, closed: float) -> Label:
    if closed >= (HEALTHY if case.fault else LEARNED):
        return "healthy"
    return "ill" if case.fault and closed < HEALTHY else "unlabelled"


def _judged(case: Case, outcome: Outcome, reference: _Reference, k: int) -> Iterator[_Judged]:
    """One run, in the words of every library."""
    run = load(outcome.path)
    final = _final(run) if outcome.done else reference.start
    final = reference.start if final is None else final
    closed = reference.closed(final)
    label = _label(case, closed)
    counted = LIBRARIES[(_place(case.name) + k) % len(LIBRARIES)]
    for library in LIBRARIES:
        diagnosis = _diagnosis(run, library)
        first = next((f for f in diagnosis.findings if f.verdict in ("act", "watch")), None)
        yield _Judged(
            case=case.name,
            group=case.group,
            half=case.half,
            seed=k,
            label=label,
            library=library,
            counted=library == counted,
            final=final,
            closed=closed,
            acts=", ".join(diagnosis.acts),
            watches=", ".join(f.check for f in diagnosis.findings if f.verdict == "watch"),
            first=first.check if first else "",
            moves=first.moves if first else "",
            right=_is_right(case, first),
            said=first.seen if first else "",
        )


def _place(name: str) -> int:
    """The case's place in the list, so that libraries take turns."""
    return next(k for k, case in enumerate(cases()) if case.name == name)


def _diagnosis(run: Run, library: str) -> Diagnosis:
    if library == "trimtab":
        return diagnose(run)
    with tempfile.TemporaryDirectory() as folder:
        log = read_log(write_log(run, library, Path(folder) / run.config.env_id), {"env_id": run.config.env_id})
        return diagnose_log(log)


def _is_right(case: Case, first: Finding | None) -> bool:
    """Whether the first finding repairs what was put wrong."""
    if case.fault is None or first is None:
        return False
    return first.moves in {f"{direction} {field}" for field, direction in case.fault.answers}


# Advice -----------------------------------------------------------------------------------------------------


def _following(config: Config, outcome: Outcome) -> Train | None:
    """The run that takes the first advice, where there is one."""
    change = _first_change(outcome)
    try:
        return Train(from_dict(change, config), checkpoints=1) if change else None
    except ConfigError:
        return None


def _first_change(outcome: Outcome) -> dict[str, Any]:
    findings = diagnose(load(outcome.path)).findings
    first = next((f for f in findings if f.verdict in ("act", "watch") and f.change), None)
    return first.change if first else {}


def _followed(row: _Judged, outcome: Outcome, reference: _Reference) -> _Followed:
    final = _final(load(outcome.path)) if outcome.done else None
    after = reference.closed(reference.start if final is None else final)
    config = outcome.job.config if isinstance(outcome.job, Train) else None
    before = next(case.config for case in cases() if case.name == row.case)
    changed = [n for n, v in config.as_dict().items() if v != before.as_dict()[n] and n != "seed"] if config else []
    change = ", ".join(f"{name} {plain(getattr(config, name))}" for name in changed)
    return _Followed(row.case, row.group, row.half, row.first, change, row.closed, after, row.right)


# Tables -----------------------------------------------------------------------------------------------------


def _counts(findings: pl.DataFrame) -> pl.DataFrame:
    """Both counts by half and library, and pooled, with Wilson's intervals: act on healthy runs, right fault on ill."""
    rows = []
    for half in ("design", "held-out"):
        mine = findings.filter(pl.col("half") == half)
        for library in ("pooled", *LIBRARIES):
            part = mine.filter(pl.col("counted") if library == "pooled" else pl.col("library") == library)
            healthy, ill = (part.filter(pl.col("label") == label) for label in ("healthy", "ill"))
            acts, rights = int((healthy["acts"] != "").sum()), int(ill["right"].sum())
            act, right = stats.wilson(acts, healthy.height), stats.wilson(rights, ill.height)
            row: dict[str, Any] = {"half": half, "library": library, "healthy": healthy.height, "act": acts}
            row |= {"act_lo": act.lo, "act_hi": act.hi, "act_or_watch": int((healthy["first"] != "").sum())}
            row |= {"ill": ill.height, "right_first": rights, "right_lo": right.lo, "right_hi": right.hi}
            rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def _rules(findings: pl.DataFrame) -> pl.DataFrame:
    """For each rule and library, on the held-out half: act + watch on healthy runs, on ill runs, and right of first."""
    mine = findings.filter(pl.col("half") == "held-out")
    cells = {library: mine.filter(pl.col("library") == library) for library in LIBRARIES}
    rows = [{"rule": check} | {lib: _confusion(check, part) for lib, part in cells.items()} for check in _checks(mine)]
    return pl.DataFrame(rows, schema=["rule", *LIBRARIES])


def _confusion(check: str, findings: pl.DataFrame) -> str:
    """1 + 2 of 20, 3 + 0 of 12, 3 of 3: act + watch on healthy runs, the same on ill runs, right where it is first."""
    texts = []
    for label in ("healthy", "ill"):
        runs = findings.filter(pl.col("label") == label)
        acts, watches = (sum(check in text.split(", ") for text in runs[name]) for name in ("acts", "watches"))
        texts.append(f"{acts} + {watches} of {runs.height}")
    first = findings.filter((pl.col("label") == "ill") & (pl.col("first") == check))
    return ", ".join([*texts, f"{int(first['right'].sum())} of {first.height}"])


def _checks(findings: pl.DataFrame) -> list[str]:
    """The rules that said anything, in the order of work."""
    texts = [*findings["acts"], *findings["watches"]]
    said = {check for text in texts for check in text.split(", ") if check}
    return [rule.name for rule in RULES if rule.name in said]


def _faults(findings: pl.DataFrame) -> pl.DataFrame:
    """By fault and half: how many runs are ill, and on how many the right fault comes first, by library."""
    rows = []
    for (group, half), part in findings.group_by("group", "half", maintain_order=True):
        runs = part.filter(pl.col("library") == "trimtab")
        row: dict[str, Any] = {"group": group, "half": half, "runs": runs.height}
        row |= {label: int((runs["label"] == label).sum()) for label in ("healthy", "ill", "unlabelled")}
        ill = part.filter(pl.col("label") == "ill")
        row |= {library: int(ill.filter(pl.col("library") == library)["right"].sum()) for library in LIBRARIES}
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def _range(lo: float | None, hi: float | None) -> str:
    """A 95% interval of a share in words; nothing where there is none."""
    return "" if lo is None or hi is None else f" (95% interval {lo:.0%} to {hi:.0%})"


def _regained_chart(table: pl.DataFrame) -> Chart:
    """What following the first advice regains, a line for each ill run."""
    import altair as alt

    from trimtab.show import style

    y = alt.Y("case:N", title=None, sort=list(table.sort("after")["case"]), axis=alt.Axis(ticks=False, labelLimit=300))
    base = alt.Chart(table).encode(y=y)
    x = alt.X("closed:Q", title="share of the healthy gain in return")
    line = base.mark_rule(color=style.GREY).encode(x=x, x2="after:Q")
    before = base.mark_point(size=40, color=style.GREY).encode(x=x)
    after = base.mark_point(filled=True, size=50, color=style.BLUE).encode(x=alt.X("after:Q"))
    chart = alt.layer(line, before, after).properties(width=420)
    return style.themed(chart, "What following the first advice gains", "Open: before; filled: with the advice.")
