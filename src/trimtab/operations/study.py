"""`trimtab study`: the sources' experiments as studies: list, run, show, and the verdicts on their claims."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path

from trimtab.config import ConfigError
from trimtab.core.answers import print_json
from trimtab.core.wording import nearest
from trimtab.operations.flags import Parser
from trimtab.operations.shared import Output, as_typed, filled, numbered, parser
from trimtab.studies.study_engine import ExecutionOptions
from trimtab.studies.study_result import StudyResult


@dataclass
class SizeFlags:
    """How large."""

    quick: bool = False
    """A first answer in minutes."""
    full: bool = False
    """The source's own scale, for a cluster."""
    only: str | None = None
    """Only these environments, separated by commas (study learning)."""
    plan: bool = False
    """Only say what it would cost: runs, environment steps, and hours by a short calibration on this machine."""
    seed: int = 1
    """The first of its seeds."""
    run_dir: str | None = None
    """Where results go (default: runs/study-NAME-K)."""


def study(argv: list[str]) -> int:
    verbs = {"list": _list, "run": _run, "show": _show, "claims": _claims}
    if Parser.describing:
        _described(verbs).parse(argv)
    if not argv or argv[0] in ("-h", "--help"):
        print("usage: trimtab study list | run NAME [--quick|--full] [--plan] | show DIR | claims [DIR ...]\n")
        print("The sources' experiments as studies, each with the claims it judges by a rule declared beforehand.")
        return 0
    if argv[0] not in verbs:
        near = ", ".join(nearest(argv[0], verbs) or verbs)
        raise ConfigError("study", argv[0], f"must be one of {', '.join(verbs)}; nearest: {near}")
    return verbs[argv[0]](argv[1:])


def _described(verbs: Collection[str]) -> Parser:
    """What completion and the documentation see: the verbs and the options of all of them."""
    command_parser = parser("study", SizeFlags, Output, ExecutionOptions)
    command_parser.add_argument("verb", metavar="|".join(verbs), help="what to do")
    _add_names(command_parser)
    _add_page(command_parser)
    return command_parser


def _add_names(command_parser: Parser) -> None:
    command_parser.add_argument("--names", action="store_true", help="only the names, one a line")


def _add_page(command_parser: Parser) -> None:
    command_parser.add_argument("--page", metavar="FILE", help="also write the table as a page")


def _list(argv: list[str]) -> int:
    command_parser = parser("study list", Output)
    _add_names(command_parser)
    arguments = command_parser.parse(argv)
    output = filled(Output, arguments)
    from trimtab.experiments.catalogue import DECLARED

    if arguments.names:
        print("\n".join(DECLARED))
        return 0
    if output.json:
        about = lambda s: {"name": s.kind, "summary": s.summary, "source": s.source, "claims": [c.id for c in s.claims]}
        print_json([about(study) for study in DECLARED.values()])
        return 0
    from trimtab.experiments.ledger import print_studies

    print_studies()
    print(
        "\n`trimtab study run NAME --quick` for a first answer. Without --quick a study of the sources takes up to half"
        "\nan hour on two cores, paper/invariance and paper/table5 (they share runs) an hour or two; --plan says more."
    )
    return 0


def _run(argv: list[str]) -> int:
    command_parser = parser(
        "study run",
        SizeFlags,
        Output,
        ExecutionOptions,
        positional="name",
        help="study, as `trimtab study list` names it",
    )
    arguments = command_parser.parse(argv)
    size, output, where = filled(SizeFlags, arguments), filled(Output, arguments), filled(ExecutionOptions, arguments)
    from trimtab.experiments.catalogue import DECLARED
    from trimtab.experiments.source_study import Size
    from trimtab.studies.study_engine import run_study

    if arguments.name not in DECLARED:
        near = ", ".join(nearest(arguments.name, DECLARED) or DECLARED)
        raise ConfigError("study", arguments.name, f"no such study; nearest: {near}")
    if size.quick and size.full:
        raise ConfigError("full", True, "a study is quick or full, not both")
    name: Size = "quick" if size.quick else "full" if size.full else "default"
    command = as_typed("study run", argv)
    declaration = DECLARED[arguments.name](
        size=name, seed=size.seed, command=command, **_chosen(arguments.name, size.only)
    )
    if size.plan:
        from trimtab.experiments.costs import cost_of, print_cost

        cost = cost_of(declaration, where)
        print_json(cost.as_dict()) if output.json else print_cost(cost)
        return 0
    out = Path(size.run_dir) if size.run_dir else numbered(f"study-{arguments.name.replace('/', '-')}")
    return finish_study(run_study(declaration, out, where, command, output.quiet or output.json), output)


def _chosen(name: str, only: str | None) -> dict[str, tuple[str, ...]]:
    """The argument for the environments that were asked for, of studies that let one choose."""
    from trimtab.experiments.catalogue import DECLARED

    if only is None:
        return {}
    choosers = [kind for kind, study in DECLARED.items() if "only" in {f.name for f in fields(study)}]
    if name not in choosers:
        raise ConfigError("only", only, f"study {name} cannot be run in part; nearest: {', '.join(choosers)}")
    return {"only": tuple(word.strip() for word in only.split(",") if word.strip())}


def _show(argv: list[str]) -> int:
    arguments = parser("study show", Output, positional="dir", help="directory of a study").parse(argv)
    from trimtab.experiments import catalogue

    return finish_study(catalogue.read_answer(Path(arguments.dir)), filled(Output, arguments))


def _claims(argv: list[str]) -> int:
    command_parser = parser("study claims", Output)
    command_parser.add_argument(
        "dirs", nargs="*", metavar="DIR", help="directories of studies, or that hold some (default: runs)"
    )
    _add_page(command_parser)
    arguments = command_parser.parse(argv)
    from trimtab.experiments.ledger import claims_page, gathered, print_ledger

    for place in arguments.dirs:
        if not Path(place).is_dir():
            raise ConfigError("claims", place, "is not a directory")
    rows = gathered([Path(d) for d in arguments.dirs] or [Path("runs")])
    if arguments.page:
        from trimtab.core.writing import write_atomically

        write_atomically(Path(arguments.page), claims_page(rows, Path(arguments.page).parent).encode())
    if filled(Output, arguments).json:
        print_json(rows)
    else:
        print_ledger(rows)
        if arguments.page:
            print(f"page: {arguments.page}")
    return 0


def finish_study(answer: StudyResult, output: Output) -> int:
    """Show the answer of a study as its own command does."""
    from trimtab.operations import split, train, tune
    from trimtab.studies.seeds_study import SeedsResult
    from trimtab.studies.source_result import SourceResult
    from trimtab.studies.split_result import SplitResult
    from trimtab.studies.tune_result import TuneResult

    if isinstance(answer, SeedsResult):
        return train.finish_seeds(answer, output)
    if isinstance(answer, SplitResult):
        return split.finish_split(answer, output)
    if isinstance(answer, TuneResult):
        return tune.finish_tuning(answer, output)
    assert isinstance(answer, SourceResult)
    if output.json:
        print_json(answer)
        return 0
    from trimtab.experiments.ledger import print_answer

    print_answer(answer)
    return 0
