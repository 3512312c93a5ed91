"""`trimtab`: the command. Nothing heavy is imported until a command needs it."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from io import TextIOWrapper

from trimtab.core.terminal import safe_streams
from trimtab.operations import GROUPS, HELP
from trimtab.operations.flags import fail


def main(argv: list[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # for letters that a terminal lacks, and paths that are not UTF-8
            stream.reconfigure(errors="backslashreplace" if "utf" in stream.encoding.lower() else "replace")
    if not argv or argv[0] in ("-h", "--help", "help"):
        print("usage: trimtab COMMAND [options]\n\nTrain policy-gradient agents and measure how to spend the batch.\n")
        for title, group in GROUPS.items():
            print("\n".join([f"{title}:", *(f"  {name:<12}{text}" for name, text in group.items()), ""]))
        print("`trimtab COMMAND --help` explains a command's options.")
        return 0
    if argv[0] == "--version":
        from trimtab import __version__

        print(__version__)
        return 0
    name, rest = argv[0], argv[1:]
    if name not in HELP:
        from trimtab.core.wording import nearest

        close = nearest(name, HELP, count=2, cutoff=0.4)
        fail(f"{name}: no such command; nearest: {', '.join(close) or ', '.join(HELP)}")
    with safe_streams():
        return _guarded(name, rest)


def _guarded(name: str, rest: list[str]) -> int:
    """Run a command; what a user can cause ends in one line and code 2, without a traceback."""
    from trimtab import operations
    from trimtab.core import answers
    from trimtab.core.errors import UserError

    try:
        with answers.alone() if _asks_for_json(rest) else nullcontext():
            return operations.run(name, rest) or 0
    except UserError as error:
        fail(error)
    except KeyboardInterrupt as interrupt:  # it may carry the command that goes on
        print("; ".join(["trimtab: interrupted", *filter(None, interrupt.args)]), file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
    except OSError as error:  # a directory that is a file, may not be written, is full
        fail(f"{error.filename}: {error.strerror}" if error.filename else error)


def _asks_for_json(words: list[str]) -> bool:
    return any(word == "--json" and after != "false" for word, after in zip(words, [*words[1:], ""])) or (
        "--json=true" in words
    )


if __name__ == "__main__":
    sys.exit(main())
