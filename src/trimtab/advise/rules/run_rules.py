"""Whether a run reached its goal, ended well and left all its records; what probes and evaluations measured of it."""

from __future__ import annotations

from shlex import quote

from trimtab.advise import solved
from trimtab.advise.evidence import Evidence
from trimtab.advise.remedies import Remedy, larger_batch
from trimtab.advise.rules import Observation, rule

FAR = 10.0  # a batch this many times the noise scale, or this fraction of it, is worth a word


@rule("goal", "run", "returns")
def _goal(evidence: Evidence) -> Observation | None:
    """Never; reports whether the run reached its target return."""
    target = solved.goal(evidence.config)
    last = float(evidence.evaluations[-1]) if len(evidence.evaluations) else None
    returns = evidence.returns if len(evidence.returns) else evidence.mean_returns[-1:].repeat(solved.WINDOW)
    done = None if evidence.not_finite else solved.reached(evidence.config, returns, last)
    if done is not None:
        return Observation("solved", done.words, value=done.value)
    if target is None or not len(returns):
        return None
    mean = float(returns[-solved.WINDOW :].mean())
    seen = f"mean return {mean:.4g} over the last episodes; {target.threshold:g} counts as solved ({target.source})"
    return Observation("note", seen, value=mean)


@rule("ended", "run", "files", serious=True)
def _ended(evidence: Evidence) -> Observation | None:
    """An error ended the run early.

    Try: what the error says.
    """
    files = evidence.files
    if files is None or not files.ended or evidence.not_finite:
        return None
    resume = f"fix it, then continue with `trimtab resume {quote(str(files.path))}`"
    return Observation("act", f"an error ended the run early: {files.ended}", resume)


@rule("records", "run", "files", serious=True)
def _records(evidence: Evidence) -> Observation | None:
    """Checkpoints are newer than the logs, so files are missing or truncated."""
    recorded = evidence.iterations * evidence.config.batch
    if evidence.files is None or recorded >= evidence.files.last_checkpoint:
        return None
    seen = f"logs end at step {recorded:,}, the newest checkpoint is at step {evidence.files.last_checkpoint:,}"
    return Observation("act", seen, "files are missing or truncated; the other findings use what remains")


@rule("noise scale", "measurements", "probes")
def _noise_scale(evidence: Evidence) -> Observation | None:
    """The batch is ten times larger or smaller than the noise scale a probe measured.

    Try: another batch size.
    """
    measured, batch = evidence.noise_scale, evidence.config.batch
    if measured is None:
        if evidence.files is None:
            return None
        command = f"measure it: `trimtab probe {quote(str(evidence.files.path))}`"
        return Observation("unknown", "no probe has measured it, or only inconclusively", command)
    value, lo, hi = measured.value, measured.lo, measured.hi
    seen = f"{value:.3g} samples ({lo:.2g} to {hi:.2g}) at step {evidence.noise_scale_step:,}; the batch has {batch:,}"
    if lo > FAR * batch:
        meaning = "the gradient of a batch is mostly noise: twice the batch nearly halves its variance"
        return Observation("watch", seen, meaning, (larger_batch(evidence.config),), value, lo, hi)
    if hi < batch / FAR:
        meaning = "the batch has far more samples than its gradient needs: with fewer, a sample teaches more"
        smaller = Remedy("lower", "num_envs", words="take a smaller batch (lower {name})")
        return Observation("watch", seen, meaning, (smaller,), value, lo, hi)
    return Observation("fine", seen, value=value, lo=lo, hi=hi)


@rule("evaluation", "measurements", "files", "notes")
def _evaluation(evidence: Evidence) -> Observation | None:
    """The return without exploration is below the return in training."""
    if evidence.files is None:
        return None
    last = evidence.evaluation
    if last is None:
        command = f"evaluate it: `trimtab eval {quote(str(evidence.files.path))}`"
        return Observation("unknown", "never evaluated without exploration", command)
    seen = f"mean return {last.mean:.4g} without exploration, quartiles {last.lo:.4g} to {last.hi:.4g}"
    seen += f", at step {last.step:,}"
    if last.in_training is None or last.hi >= last.in_training:
        return Observation("fine", seen, value=last.mean, lo=last.lo, hi=last.hi)
    meaning = f"below the mean return in training, {last.in_training:.4g}: the policy depends on its exploration noise"
    return Observation("watch", seen, meaning, (), last.mean, last.lo, last.hi)
