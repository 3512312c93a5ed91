"""The parser of every command, without running any: for shell completion and the documentation."""

from __future__ import annotations

import contextlib
import io

from trimtab import operations
from trimtab.operations.flags import Described, Parser


def parser_of(name: str) -> Parser | None:
    """What a command would parse its words with; None for one that reads them itself."""
    if (operation := operations.load(name)) is not None:
        return operation.parser()
    Parser.describing = True
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            operations.run(name, [])
    except Described as described:
        return described.args[0]
    except SystemExit:
        return None
    finally:
        Parser.describing = False
    return None


def parsers() -> dict[str, Parser]:
    """Every command's parser by its name."""
    by_name = {name: parser_of(name) for name in operations.HELP}
    return {name: command_parser for name, command_parser in by_name.items() if command_parser is not None}
