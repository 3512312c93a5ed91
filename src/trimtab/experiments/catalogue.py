"""Every kind of study, and opening a directory of one."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

from trimtab.core import reading
from trimtab.core.errors import RunError
from trimtab.experiments.notes import NOTES
from trimtab.experiments.own import OWN
from trimtab.experiments.paper import PAPER
from trimtab.experiments.post import POST
from trimtab.experiments.source_study import SourceStudy
from trimtab.studies import study_engine as study
from trimtab.studies.seeds_study import Seeds
from trimtab.studies.split_study import Split
from trimtab.studies.study_engine import DEFAULT_EXECUTION, SPEC, ExecutionOptions, Study
from trimtab.studies.study_result import StudyResult
from trimtab.studies.tune_study import Tune

# Studies of the sources and of this library's own claims, in the order they are listed.
DECLARED: dict[str, type[SourceStudy[Any]]] = {study.kind: study for study in (*POST, *PAPER, *NOTES, *OWN)}
KINDS: dict[str, type[Study[Any]]] = {kind.kind: kind for kind in (Seeds, Split, Tune)}
KINDS |= DECLARED


def read(out: Path) -> dict[str, Any]:
    """The request of a study, from its directory."""
    spec = reading.read_json_object(out / SPEC)
    schema, kind, store = spec.get("schema"), spec.get("kind"), spec.get("store")
    if schema != study.SCHEMA or not isinstance(kind, str) or kind not in KINDS:
        known = f"this version knows schema {study.SCHEMA} and the studies seeds, split, tune and those of `study list`"
        raise RunError(f"{out / SPEC} has schema {schema!r:.40}, kind {kind!r:.40}; {known}")
    if not isinstance(store, str | None):
        raise RunError(f"{out / SPEC}: its store is no directory: {store!r:.40}")
    return spec | {"store": store}


def _load_study(out: Path) -> Study[Any]:
    """The study of a directory."""
    spec = read(out)
    with reading.interpreting(out / SPEC):
        return KINDS[spec["kind"]].again(spec["asked"])


def read_answer(out: Path) -> StudyResult:
    """The answer of a finished study, from its directory."""
    return study.read_result(KINDS[read(out)["kind"]], out)


def resume(out: Path, where: ExecutionOptions = DEFAULT_EXECUTION, quiet: bool = True) -> StudyResult:
    """Resume a study. The store that its file names is used only if this user made the study."""
    spec = read(out)
    ours, store = study.trust_if_ours(spec), spec["store"] if where.store is None else None
    if store is not None and not ours:
        raise RunError(
            f"{out / SPEC} names the store {store}, and was changed or not made by you here; to use that store, "
            f"name it yourself: trimtab resume {quote(str(out))} --store {quote(store)}"
        )
    return study.resume_study(_load_study(out), out, where, store, quiet)
