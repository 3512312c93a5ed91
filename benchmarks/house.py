"""`make house`: the size and shape of the source, as a table, to be compared between versions.

    python -m benchmarks.house                 # this tree
    python -m benchmarks.house --before REV    # REV beside it (its source is read with git, nothing is run)

Code lines are lines that hold code: no docstrings, comments or blank lines. A public name is a module-level function
or class without a leading underscore. Set-up functions are the different functions of this library that
`train CartPole-v1` calls before the first compiled program is launched; `--no-setup` leaves that run out.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
SMALL = 100  # lines of a small file
VARIANTS = {  # names of variants that only their own definition should compare with
    "surrogates": ("clip", "kl"),
    "optimizers": ("adam", "sgd"),
    "networks": ("mlp", "nature", "impala"),
    "backends": ("native", "tabular", "pgx", "xminigrid", "playground", "envpool", "gymnasium"),
}


@dataclass(frozen=True)
class Source:
    """One Python file of the library."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def docstring_lines(self) -> int:
        holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        nodes = [n.body[0] for n in ast.walk(self.tree) if isinstance(n, holders) and ast.get_docstring(n, clean=False)]
        below = [n for n in _strings_below_fields(self.tree)]
        return sum((n.end_lineno or n.lineno) - n.lineno + 1 for n in [*nodes, *below])

    @property
    def code_lines(self) -> int:
        skipped = (
            tokenize.COMMENT,
            tokenize.NL,
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.ENDMARKER,
        )
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in skipped:
                lines.update(range(token.start[0], token.end[0] + 1))
        return len(lines) - self.docstring_lines

    @property
    def public_names(self) -> list[str]:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return [node.name for node in self.tree.body if isinstance(node, kinds) and not node.name.startswith("_")]

    @property
    def functions(self) -> list[ast.FunctionDef]:
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]


def _strings_below_fields(tree: ast.Module) -> list[ast.Expr]:
    """The strings that document fields of dataclasses."""
    found = []
    for cls in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for field, below in zip(cls.body, cls.body[1:]):
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if isinstance(field, ast.AnnAssign) and is_text and isinstance(below.value.value, str):
                found.append(below)
    return found


def sources(root: Path) -> list[Source]:
    """All Python files below src/trimtab of a tree."""
    base = root / "src" / "trimtab"
    files = sorted(base.rglob("*.py"))
    return [Source(f.relative_to(base), text := f.read_text(), ast.parse(text)) for f in files]


def measure(root: Path) -> dict[str, str]:
    """The rows of the table that follow from the source alone."""
    files = sources(root)
    text = [line for source in files for line in source.text.splitlines()]
    code, docs = sum(s.code_lines for s in files), sum(s.docstring_lines for s in files)
    names = Counter(s.path.name for s in files if s.path.name != "__init__.py")
    repeated = {name: count for name, count in names.items() if count > 1}
    functions = [f for s in files for f in s.functions]
    documented = [
        f for f in functions if re.search(r"^\s*Args:|^\s*Returns:", ast.get_docstring(f) or "", re.MULTILINE)
    ]
    by_string = sum(
        isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant) and isinstance(n.slice.value, str)
        for s in files
        for n in ast.walk(s.tree)
    )
    return {
        "lines of source": f"{len(text):,}",
        "lines of code": f"{code:,}",
        "files": f"{len(files):,}",
        f"files under {SMALL} lines": f"{sum(len(s.text.splitlines()) < SMALL for s in files):,}",
        "public module-level names": f"{sum(len(s.public_names) for s in files):,}",
        "file names that occur more than once": f"{len(repeated):,}",
        "lines with dict\\[str, Any]": f"{sum('dict[str, Any]' in line for line in text):,}",
        "subscripts by string": f"{by_string:,}",
        "docstring lines per line of code": f"{docs / code:.2f}",
        "functions": f"{len(functions):,}",
        "functions that document arguments or returns": f"{len(documented):,}",
        **{
            f"files that compare with names of {kind}": str(_comparing(files, words))
            for kind, words in VARIANTS.items()
        },
        "rules of mypy switched off for packages": str(_exemptions(root)),
    }


def _comparing(files: list[Source], words: tuple[str, ...]) -> int:
    """Files in which something is compared with one of these words."""

    def compares(tree: ast.Module) -> bool:
        sides = (side for n in ast.walk(tree) if isinstance(n, ast.Compare) for side in (n.left, *n.comparators))
        constants = (c.value for side in sides for c in ast.walk(side) if isinstance(c, ast.Constant))
        return any(value in words for value in constants if isinstance(value, str))

    return sum(compares(source.tree) for source in files)


def _exemptions(root: Path) -> int:
    """Error codes that pyproject.toml disables for whole packages, and packages whose errors are ignored."""
    import tomllib

    overrides = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["mypy"].get("overrides", [])
    counts = lambda o: len(o.get("disable_error_code", ())) + bool(o.get("ignore_errors"))
    return sum(len(o["module"]) * counts(o) for o in overrides if isinstance(o["module"], list))


_SETUP = """
import os, sys, tempfile
calls = set()
def look(frame, event, argument):
    code = frame.f_code
    if event == "call" and ROOT in code.co_filename and not code.co_name.startswith("<"):
        calls.add((code.co_filename, code.co_firstlineno, code.co_name))
from trimtab import cli
from trimtab.training import engine
class Launched(BaseException):
    pass
def launch(*_):
    raise Launched
engine.CompiledEngine.launch = launch
os.chdir(tempfile.mkdtemp())
sys.setprofile(look)
try:
    cli.main(["train", "CartPole-v1", "--quiet"])
except Launched:
    sys.setprofile(None)
print(len(calls), len({name for name, _, _ in calls}))
"""


def setup_functions(root: Path) -> str:
    """How many functions in how many files run before the first launch; a run of this tree."""
    source = str(root / "src" / "trimtab")
    script = f"ROOT = {source!r}\n{_SETUP}"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    words = run.stdout.split()
    return f"{words[-2]} in {words[-1]} files" if run.returncode == 0 and len(words) >= 2 else "not measured"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.house", description=__doc__.splitlines()[0])
    parser.add_argument("--before", metavar="REV", help="also measure this commit")
    parser.add_argument("--no-setup", action="store_true", help="do not count set-up functions")
    arguments = parser.parse_args()
    columns = {"this tree": measure(ROOT)}
    if arguments.before:
        archive = subprocess.run(
            ["git", "archive", arguments.before, "src", "pyproject.toml"], cwd=ROOT, capture_output=True, check=True
        )
        with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            tar.extractall(folder, filter="data")
            columns = {arguments.before: measure(Path(folder)), **columns}
    if not arguments.no_setup:
        columns["this tree"]["set-up functions before the first launch"] = setup_functions(ROOT)
    table = Table("", *columns)
    for name in columns["this tree"]:
        table.add_row(name, *(column.get(name, "") for column in columns.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
