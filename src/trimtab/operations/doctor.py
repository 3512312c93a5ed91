"""`trimtab doctor`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from trimtab.advise import diagnosis
from trimtab.advise.diagnosis import Diagnosis, FolderDiagnosis
from trimtab.config import ConfigError
from trimtab.core import trust
from trimtab.core.answers import print_json
from trimtab.core.errors import UserError
from trimtab.core.fields import Place, option, written
from trimtab.core.json_values import to_json
from trimtab.core.options import Options
from trimtab.libraries.common.log_doctor import Examined, examine
from trimtab.operations.declaration import Call, Operation, operation
from trimtab.operations.sources import run_of
from trimtab.training.run import Run


@dataclass(frozen=True)
class Diagnose(Options):
    """What to diagnose."""

    run: Run | Place = field(metadata=written(position=True, nargs="?"))
    """Run directory, finished or not; a log of SB3, CleanRL, rsl_rl, skrl or rl_games; SB3's .zip; or a folder of any
    of them; in Python also a Run."""
    hyperparameters: Mapping[str, Any] | None = option(None, position=True, pairs=True, metavar="NAME=VALUE")
    """Hyperparameters that the log of another library does not contain, by their names there."""

    def __post_init__(self) -> None:
        super().__post_init__()
        trust.trust_named((self.hyperparameters or {}).get("env_id"))


@dataclass(frozen=True)
class DoctorFlags(Options):
    """What else to show."""

    cheatsheet: bool = False
    """Show symptoms, where to look and what to try; needs no run."""
    page: str | None = option(None, metavar="FILE", nargs="?", const="")
    """Also write a page, with its figures beside it (default: RUN/doctor.html, or cheatsheet.html)."""
    watch: float | None = option(None, metavar="SECONDS", nargs="?", const="10")
    """Diagnose again whenever the records have grown, at most this often, until interrupted (default: 10)."""


def _command(declared: Operation, call: Call) -> None:
    """The command can also watch records that grow, and show the cheat sheet."""
    if call.flags.cheatsheet:
        if "run" in call.given:
            raise UserError("--cheatsheet needs no run; leave one of them out")
        _cheatsheet(call)
        return
    if "run" not in call.given:
        raise UserError("name a run directory, for example: trimtab doctor runs/CartPole-v1/ppo-seed1-1")
    options: Diagnose = call.options()
    if call.flags.watch is not None:
        _watch(options, call)
    else:
        _show_examined(examine(call.given["run"], dict(options.hyperparameters or {})), call)


def _watch(options: Diagnose, call: Call) -> None:
    """Show every new diagnosis of records that grow; the last one as JSON."""
    from trimtab.libraries.common.log_watch import watch_place

    last, place, seconds = None, call.given["run"], call.flags.watch
    try:
        for look in watch_place(place, dict(options.hyperparameters or {}), seconds):
            if isinstance(look, str):
                print(f"trimtab: {look}", file=sys.stderr)
                continue
            last = look
            if not call.json:
                _print(last)
                print(f"watching {place} every {seconds:g} s; Ctrl-C ends it", flush=True)
    except KeyboardInterrupt:
        if call.json and last is not None:
            print_json(to_json(last))


def _show_examined(examined: Examined, call: Call) -> None:
    """A diagnosis in the terminal, as JSON, and on a page."""
    where = None if call.flags.page is None else _write_page(examined, call.flags.page)
    if call.json:
        print_json(to_json(examined.diagnosis) | ({"page": str(where)} if where else {}))
        return
    _print(examined.diagnosis)
    if where is not None:
        print(f"page: {where}")


def _write_page(examined: Examined, page: str) -> Path:
    """The page of one run."""
    from trimtab.advise.cheatsheet import CHEATSHEET
    from trimtab.show import run_page
    from trimtab.show.page_files import write_page

    if examined.described is None:
        raise UserError("--page needs one run; name a run of the folder")
    where, view = Path(page or examined.folder / "doctor.html"), examined.described()
    write_page(where, run_page.doctor_page(view, CHEATSHEET), run_page.figures(view))
    return where


def _print(diagnosis: Diagnosis | FolderDiagnosis) -> None:
    """The findings of a run, or one line for each run of a folder."""
    from trimtab.show.findings import print_findings, print_folder

    if isinstance(diagnosis, FolderDiagnosis):
        print_folder(diagnosis)
        return
    print_findings(diagnosis.findings, diagnosis.run)
    print(diagnosis.sentence)
    if diagnosis.command:
        print(f"next: {diagnosis.command}")


def _cheatsheet(call: Call) -> None:
    from trimtab.advise.cheatsheet import CHEATSHEET

    where = None if call.flags.page is None else Path(call.flags.page or "cheatsheet.html")
    if where is not None:
        from trimtab.show.page_files import write_page
        from trimtab.show.run_page import cheatsheet_page

        write_page(where, cheatsheet_page(CHEATSHEET), {})
    if call.json:
        print_json({"symptoms": to_json(CHEATSHEET)} | ({"page": str(where)} if where else {}))
        return
    from trimtab.show.findings import print_cheatsheet

    print_cheatsheet(CHEATSHEET)
    if where is not None:
        print(f"page: {where}")


def _show(result: Diagnosis | FolderDiagnosis, call: Call) -> None:
    _print(result)


@operation("doctor", Diagnose, _show, flags=DoctorFlags, command=_command)
def diagnose(options: Diagnose) -> Diagnosis | FolderDiagnosis:
    """Judge a run's records by every rule that applies to them.

    Returns:
        The findings, the most pressing first, and the next thing to try; of a folder, those of every run.
    """
    if isinstance(options.run, str | PathLike):
        return examine(options.run, dict(options.hyperparameters or {})).diagnosis
    if options.hyperparameters:
        problem = "a run of this library knows its own; leave them out"
        raise ConfigError("hyperparameters", options.hyperparameters, problem)
    return diagnosis.diagnose(run_of(options.run))
