"""`trimtab study`: the sources' experiments as studies: list, run, show, and the verdicts on their claims."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from trimtab.config import ConfigError
from trimtab.core.answers import print_json
from trimtab.core.fields import Need, Place, option
from trimtab.core.options import Options, part
from trimtab.core.wording import nearest
from trimtab.experiments import catalogue
from trimtab.experiments.source_study import SourceStudy
from trimtab.operations.declaration import Call, Operation, Output, new_parser, operation
from trimtab.operations.flags import Parser, add_options
from trimtab.operations.studying import Studying
from trimtab.studies.seeds_study import SeedsResult
from trimtab.studies.source_result import SourceResult
from trimtab.studies.split_result import SplitResult
from trimtab.studies.study_engine import ExecutionOptions
from trimtab.studies.study_result import StudyResult
from trimtab.studies.tune_result import TuneResult

SIZE = Need(lambda flags: not flags.quick, "a study is quick or full, not both")


@dataclass(frozen=True)
class StudyRun(Studying):
    """What to run."""

    name: str
    """Study, as `trimtab study list` names it."""
    run_dir: Place | None = option(None, metavar="DIR")
    """Directory of the results (default: runs/study-NAME-K)."""
    _: KW_ONLY
    size: Literal["quick", "default", "full"] = option("default", shown=False)
    """A first answer in minutes (quick), or the source's own scale, for a cluster (full)."""
    only: str | None = None
    """Only these environments, separated by commas (study learning; default: all)."""
    seed: int = 1
    """The first of its seeds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name not in catalogue.DECLARED:
            near = ", ".join(nearest(self.name, catalogue.DECLARED) or catalogue.DECLARED)
            raise ConfigError("study", self.name, f"no such study; nearest: {near}")
        choosers = [kind for kind, study in catalogue.DECLARED.items() if "only" in {f.name for f in fields(study)}]
        if self.only is not None and self.name not in choosers:
            problem = f"study {self.name} cannot be run in part; nearest: {', '.join(choosers)}"
            raise ConfigError("only", self.only, problem)

    def declared(self) -> Any:
        """The study."""
        words = None if self.only is None else tuple(w.strip() for w in self.only.split(",") if w.strip())
        command = self.source_command("study")
        chosen: dict[str, Any] = {} if words is None else {"only": words}
        return catalogue.DECLARED[self.name](size=self.size, seed=self.seed, command=command, **chosen)


@dataclass(frozen=True)
class SizeFlags(Options):
    """How large."""

    quick: bool = False
    """A first answer in minutes."""
    full: bool = option(False, SIZE)
    """The source's own scale, for a cluster."""
    plan: bool = False
    """Only say what it would cost: runs, environment steps, and hours by a short calibration on this machine."""


@dataclass(frozen=True)
class StudyList(Options):
    """Which list."""


@dataclass(frozen=True)
class ListFlags(Options):
    """How to list."""

    names: bool = False
    """Only the names, one a line."""


@dataclass(frozen=True)
class StudyShow(Options):
    """What to show."""

    dir: Place
    """Directory of a study."""


@dataclass(frozen=True)
class StudyClaims(Options):
    """Whose claims to show."""

    dirs: tuple[str, ...] = option((), position=True, nargs="*", metavar="DIR")
    """Directories of studies, or that hold some (default: runs)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for place in self.dirs:
            if not Path(place).is_dir():
                raise ConfigError("claims", place, "is not a directory")


@dataclass(frozen=True)
class ClaimsFlags(Options):
    """Page."""

    page: str | None = option(None, metavar="FILE")
    """Also write the table as a page (default: not written)."""


def main(argv: list[str]) -> int | None:
    """Do what a verb and its words say."""
    verbs = _verbs()
    if not argv or argv[0] in ("-h", "--help"):
        print("usage: trimtab study list | run NAME [--quick|--full] [--plan] | show DIR | claims [DIR ...]\n")
        print("The sources' experiments as studies, each with the claims it judges by a rule declared beforehand.")
        return 0
    if argv[0] not in verbs:
        near = ", ".join(nearest(argv[0], verbs) or verbs)
        raise ConfigError("study", argv[0], f"must be one of {', '.join(verbs)}; nearest: {near}")
    return verbs[argv[0]].run(argv[1:])


def parser() -> Parser:
    """What completion and the documentation see: the verbs, and the options of all of them."""
    made = new_parser("study")
    made.add_argument("verb", metavar="|".join(_verbs()), help="What to do.")
    for cls in (StudyRun, SizeFlags, ListFlags, ClaimsFlags, Output):
        add_options(made, cls)
    return made


def _verbs() -> dict[str, Operation]:
    functions: tuple[Any, ...] = (list_studies, study, show_results, claims)
    return {function.operation.name.split()[1]: function.operation for function in functions}


def _show_list(studies: list[type[SourceStudy]], call: Call) -> None:
    if call.flags.names:
        print("\n".join(study.kind for study in studies))
        return
    if call.json:
        about = lambda s: {"name": s.kind, "summary": s.summary, "source": s.source, "claims": [c.id for c in s.claims]}
        print_json([about(study) for study in studies])
        return
    from trimtab.experiments.ledger import print_studies

    print_studies()
    print(
        "\n`trimtab study run NAME --quick` for a first answer. Without --quick a study of the sources takes up to half"
        "\nan hour on two cores, paper/invariance and paper/table5 (they share runs) an hour or two; --plan says more."
    )


@operation("study list", StudyList, _show_list, flags=ListFlags)
def list_studies(options: StudyList) -> list[type[SourceStudy]]:
    """List the studies.

    Returns:
        The studies, in order.
    """
    return list(catalogue.DECLARED.values())


def _run(declared: Operation, call: Call) -> int | None:
    """The command can also say what a study would cost."""
    flags = call.flags
    options: StudyRun = call.options(size="quick" if flags.quick else "full" if flags.full else "default")
    if flags.plan:
        from trimtab.experiments.costs import cost_of, print_cost

        cost = cost_of(options.declared(), part(options, ExecutionOptions))
        print_json(cost.as_dict()) if call.json else print_cost(cost)
        return 0
    return show_study(declared.function(options), call.json)


def _show(result: StudyResult, call: Call) -> int:
    return show_study(result, call.json)


@operation("study run", StudyRun, _show, flags=SizeFlags, command=_run)
def study(options: StudyRun) -> StudyResult:
    """Run a study of the sources at one of its sizes; `trimtab study list` names them.

    Returns:
        The verdicts on its claims; `.sentence` says the answer.
    """
    return options.carry_out(options.declared(), f"study-{options.name}", options.run_dir)


@operation("study show", StudyShow, _show)
def show_results(options: StudyShow) -> StudyResult:
    """Read the answer of a finished study.

    Returns:
        The answer.
    """
    return catalogue.read_answer(Path(options.dir))


def _show_claims(rows: list[Any], call: Call) -> None:
    from trimtab.experiments.ledger import claims_page, print_ledger

    page = call.flags.page
    if page:
        from trimtab.core.writing import write_atomically

        write_atomically(Path(page), claims_page(rows, Path(page).parent).encode())
    if call.json:
        print_json(rows)
        return
    print_ledger(rows)
    if page:
        print(f"page: {page}")


@operation("study claims", StudyClaims, _show_claims, flags=ClaimsFlags)
def claims(options: StudyClaims) -> list[Any]:
    """Collect the verdicts of studies on their claims.

    Returns:
        One row for each claim.
    """
    from trimtab.experiments.ledger import gathered

    return gathered([Path(place) for place in options.dirs] or [Path("runs")])


def show_study(answer: StudyResult, as_json: bool) -> int:
    """Show the answer of a study as its own command does; returns an exit code."""
    from trimtab.operations import split, train, tune

    if isinstance(answer, SeedsResult):
        return train.show_seeds(answer, as_json)
    if isinstance(answer, SplitResult):
        split.show_split(answer, as_json)
    elif isinstance(answer, TuneResult):
        tune.show_tuning(answer, as_json)
    elif as_json:
        print_json(answer)
    else:
        assert isinstance(answer, SourceResult)
        from trimtab.experiments.ledger import print_answer

        print_answer(answer)
    return 0
