"""Every kind of study, and opening a directory of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trimtab.experiments.notes import NOTES
from trimtab.experiments.own import OWN
from trimtab.experiments.paper import PAPER
from trimtab.experiments.post import POST
from trimtab.experiments.source_study import Declared
from trimtab.studies import study_engine as study
from trimtab.studies.seeds_study import Seeds
from trimtab.studies.split_study import Split
from trimtab.studies.study_engine import DEFAULT_EXECUTION, SPEC, Answer, ExecutionOptions, Study
from trimtab.studies.tune_study import Tune
from trimtab.training.records import RunError

# Studies of the sources and of this library's own claims, in the order they are listed.
DECLARED: dict[str, type[Declared]] = {study.kind: study for study in (*POST, *PAPER, *NOTES, *OWN)}
KINDS: dict[str, type[Study]] = {kind.kind: kind for kind in (Seeds, Split, Tune)} | DECLARED


def read(out: Path) -> dict[str, Any]:
    """What a study's directory says was asked."""
    try:
        spec = json.loads((out / SPEC).read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise RunError(f"{out / SPEC} cannot be read: {error}") from None
    if spec.get("schema") != study.SCHEMA or spec.get("kind") not in KINDS:
        raise RunError(f"{out / SPEC}: schema {spec.get('schema')}, kind {spec.get('kind')!r} is not known here")
    return spec


def load_study(out: Path) -> Study:
    """The study of a directory."""
    spec = read(out)
    return KINDS[spec["kind"]].again(spec["asked"])


def resume(out: Path, where: ExecutionOptions = DEFAULT_EXECUTION, quiet: bool = True) -> Answer:
    """Do what is left of a study."""
    return study.resume_study(load_study(out), out, where, read(out)["store"], quiet)
