"""Pages written from the program itself when the site is built: every command from its parser, the functions of
operations from their options, other public names from their docstrings, and the two documents that live at the root."""

from __future__ import annotations

import ast
import inspect
import os
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = {
        "commands.md": commands_page,
        "api.md": api_page,
        "changes.md": lambda: _at_root("CHANGELOG.md"),
        "contributing.md": lambda: _at_root("CONTRIBUTING.md"),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text()))
    return files


def _at_root(name: str) -> str:
    """A document of the repository's root, with links that work from docs/."""
    return ROOT.joinpath(name).read_text(encoding="utf-8").replace("](docs/", "](")


def commands_page() -> str:
    """What every command's `--help` says."""
    os.environ["COLUMNS"] = "100"
    from trimtab.operations import HELP, parsers

    lines = [
        "# Commands",
        "",
        "`trimtab COMMAND --help` prints the same. `trimtab train Pendulum-v1 --help` also shows the values of that",
        "environment's preset. A mistake gives a one-line error and exit code 2. `--json` ends a command with one JSON",
        "value.",
        "",
    ]
    lines += [f"- [`{name}`](#{name}): {text}" for name, text in HELP.items()]
    for name, parser in parsers().items():
        lines += ["", f"## {name}", "", "```text", parser.format_help().rstrip(), "```"]
    return "\n".join(lines) + "\n"


def api_page() -> str:
    """Every public name, where it really lives."""
    import trimtab

    things = {name: getattr(trimtab, name) for name in trimtab.__all__ if not name.startswith("_")}
    lines = ["# Python", "", "The public names of `trimtab`. Each is imported when it is first used.", "", "## Names"]
    for name, thing in things.items():
        if hasattr(thing, "options"):
            lines += _operation(name, thing)
        elif not isinstance(thing, ModuleType):
            lines += [_shown(thing, name)]
    for module in (thing for thing in things.values() if isinstance(thing, ModuleType)):
        lines += ["", f"## {module.__name__}", "", module.__doc__ or ""]
        lines += [_shown(getattr(module, name), name) for name in _public(module)]
    lines += ["", "## trimtab.torch", "", "Needs the extra `torch`; see [the guide](howto/torch.md)."]
    lines += [f"\n::: {module}.{name}" for name, module in _torch_names().items()]
    return "\n".join(lines) + "\n"


def _torch_names() -> dict[str, str]:
    """The public names of `trimtab.torch` and where they live, read from its source: PyTorch may not be installed."""
    source = ast.parse((ROOT / "src/trimtab/torch/__init__.py").read_text(encoding="utf-8"))
    tables = [
        node.value for node in source.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_PUBLIC"
    ]
    return ast.literal_eval(tables[0])


def _operation(name: str, function: Any) -> list[str]:
    """The signature and documentation of a function that is made from its options; fields of a run are left out."""
    from trimtab.config.settings import Settings
    from trimtab.operations.flags import has_settings

    runs_own = Settings.__dataclass_fields__ if has_settings(function.options) else {}
    given = inspect.signature(function).parameters.values()
    lines = [f"    {parameter}," for parameter in given if parameter.name not in runs_own]
    lines += ["    **fields of Config,"] if runs_own else []
    return ["", f"### {name}", "", "```python", f"{name}(", *lines, ")", "```", "", "```text", function.__doc__, "```"]


def _shown(thing: Any, name: str) -> str:
    return f"\n::: {thing.__module__}.{name}"


def _public(module: ModuleType) -> list[str]:
    """What a module means to be used: the names it lists, or its own functions and classes."""
    named = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    own = lambda thing: str(getattr(thing, "__module__", "")).startswith(
        module.__name__ if not hasattr(module, "__all__") else "trimtab"
    )
    return [name for name in named if callable(getattr(module, name)) and own(getattr(module, name))]
