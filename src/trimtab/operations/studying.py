"""Operations that are studies: many jobs, in a directory that `trimtab resume` continues."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from trimtab.core.fields import Place, option
from trimtab.core.options import part
from trimtab.core.writing import numbered_path
from trimtab.operations.declaration import python_call
from trimtab.operations.sources import Progressing
from trimtab.studies import study_engine
from trimtab.studies.study_engine import ExecutionOptions, Study
from trimtab.studies.study_result import StudyResult

R = TypeVar("R", bound=StudyResult)


@dataclass(frozen=True, kw_only=True)
class Studying(ExecutionOptions, Progressing):
    """Where jobs are done; the results do not depend on it."""

    command: str | None = option(None, shown=False)
    """The command that the page gives as its source (default: this call)."""

    def source_command(self, function: str) -> str:
        """What pages give as how they were made: the command that was typed, or the call of a Python function."""
        return self.command or python_call(function, self)

    def carry_out(self, study: Study[R], name: str, run_dir: Place | None) -> R:
        """Carry out a study in a new directory.

        Args:
            study: the study.
            name: of the directory under runs/, where none is given.
            run_dir: the directory.

        Returns:
            The answer.
        """
        out = Path(run_dir) if run_dir else numbered_path(Path("runs"), name.replace("/", "-"))
        where = part(self, ExecutionOptions)
        return study_engine.run_study(study, out, where, getattr(study, "command", ""), self.silent)
