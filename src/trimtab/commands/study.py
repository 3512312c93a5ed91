"""`trimtab study`: list, run and show studies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trimtab.commands.shared import Output, filled, parser
from trimtab.config import ConfigError
from trimtab.runs.records import RunError

VERBS = ("list", "run", "show")


def study(argv: list[str]) -> int:
    made = parser("study", Output, positional="verb", help="list, run NAME, or show DIR")
    if not argv or argv[0] not in VERBS:
        if argv and argv[0] in ("-h", "--help"):
            made.print_help()
            return 0
        raise ConfigError("verb", argv[0] if argv else "", f"must be one of {', '.join(VERBS)}")
    return {"list": _list, "run": _run, "show": _show}[argv[0]](argv[1:])


def finish_study(kind: str, answer: dict[str, Any], output: Output) -> int:
    """Show the answer of a study as its own command does."""
    if kind == "seeds":
        from trimtab.commands.train import finish_seeds

        return finish_seeds(answer, output)
    if kind == "split":
        from trimtab.commands.split import finish_split

        return finish_split(answer, output)
    if kind == "tune":
        from trimtab.commands.tune import finish_tuning

        return finish_tuning(answer, output)
    raise RunError(f"{kind}: no such kind of study")


def _show(argv: list[str]) -> int:
    made = parser("study", Output, positional="dir", help="directory of a study")
    given = made.parse(argv)
    from trimtab.studies import catalogue

    path = Path(given.dir)
    spec = catalogue.read(path)
    file = path / "result.json"
    if not file.is_file():
        raise RunError(f"{path} is not finished; `trimtab resume {path}` does what is left")
    answer = json.loads(file.read_text()) | {"run": str(path), "page": str(path / "page.html")}
    return finish_study(spec["kind"], answer, filled(Output, given))
