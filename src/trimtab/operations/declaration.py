"""One declaration per operation: its options, a function of them, and how the result is shown.

    @dataclass(frozen=True)
    class Repeat(Options): ...                       # fields: type, default, range, needs, and the help below each

    @operation("repeat", Repeat, show=_show)
    def repeat(options: Repeat) -> Repetition: ...   # `trimtab.repeat(run, run_dir=None, ...)` in Python

From it follow the parser, `--help`, completion, the Python function with its signature, types and documentation, and
the pages of the reference. Type checkers take the parameters from the dataclass.
"""

from __future__ import annotations

import dataclasses
import inspect
import shlex
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, cast

from trimtab.config import ConfigError
from trimtab.config.settings import Settings
from trimtab.core.fields import declaration, types_of
from trimtab.core.options import NOT_GIVEN, Options
from trimtab.core.wording import nearest
from trimtab.operations import HELP, flags
from trimtab.operations.flags import Parser

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")
NOT_ASKED = (
    "run_dir",
    "on",
    "workers",
    "store",
    "quiet",
    "command",
)  # where and how, which the answer does not depend on


@dataclass(frozen=True)
class Output(Options):
    """Progress and output."""

    quiet: bool = False
    """Show no progress."""
    json: bool = False
    """End with one JSON value on standard output: an object, or a list where there are several."""


@dataclass(frozen=True)
class Call:
    """A command line that was read."""

    operation: Operation
    given: dict[str, Any]
    """The options that were given, by name."""
    flags: Any
    """Options that only the command line has."""
    output: Output
    typed: str
    """The command, as it can be typed again."""

    def options(self, **more: Any) -> Any:
        """The options of the operation; raises where they are not as they may be."""
        names = {item.name for item in dataclasses.fields(self.operation.options)}
        always = {"quiet": self.quiet, "command": self.typed}
        return self.operation.options(**{n: v for n, v in always.items() if n in names} | self.given | more)

    @property
    def json(self) -> bool:
        """Whether the result is printed as JSON."""
        return self.output.json

    @property
    def quiet(self) -> bool:
        """Whether no progress is shown."""
        return self.output.quiet or self.output.json


def new_parser(name: str, epilog: str = "") -> Parser:
    """A parser without options, but for those that every command has.

    Args:
        name: the command, with its verb.
        epilog: what its help ends with.

    Returns:
        The parser.
    """
    summary = HELP[name.split()[0]]
    about = summary[0].upper() + summary[1:] + ("" if summary.endswith("?") else ".")
    made = Parser(prog=f"trimtab {name}", description=about, epilog=epilog or None, allow_abbrev=False)
    made.add_argument(
        "--trust",
        action="append",
        metavar="MODULE",
        help="allow this module to be imported, where a run or study of somebody else names it as its environment",
    )
    return made


@dataclass(frozen=True)
class NoFlags:
    """Nothing that only the command line has."""


@dataclass(frozen=True)
class Operation:
    """What an operation is asked, what it does, and how its result is shown."""

    name: str
    """The command."""
    options: type
    function: Callable[[Any], Any]
    """From options to a result."""
    show: Callable[[Any, Call], int | None]
    """Prints a result as text or JSON and writes its pages; may return an exit code."""
    flags: type = NoFlags
    command: Callable[[Operation, Call], int | None] | None = None
    """What the command does, where that is more than showing the result."""
    epilog: str = ""
    before_help: Callable[[Parser, list[str]], None] | None = None
    """Adds to the help what is known from the other words."""
    foreign: bool = False
    """Whether options that the command does not have are another library's."""

    def parser(self) -> Parser:
        """Reads the words of the command."""
        made = new_parser(self.name, self.epilog)
        for cls in (self.options, self.flags, Output):
            flags.add_options(made, cls)
        if flags.has_settings(self.options):
            flags.add_settings(made, self.options)
            made.before_help = self.before_help
        return made

    def read(self, argv: list[str]) -> Call:
        """The words of a command."""
        parser = self.parser()
        words: list[str] = []
        pairs = [item.name for item in dataclasses.fields(self.options) if declaration(item).word.pairs]
        if pairs:
            arguments, words = parser.parse_with_words(argv, self.foreign)
        else:
            arguments = parser.parse(argv)
        given = flags.values(self.options, arguments)
        if "source" in (item.name for item in dataclasses.fields(self.options)):
            given.setdefault("source", None)
        for name in pairs:
            given[name] = _hyperparameters([*getattr(arguments, name, ()), *words])
        made = [cls(**flags.values(cls, arguments)) for cls in (self.flags, Output)]
        return Call(self, given, made[0], made[1], f"trimtab {self.name} {shlex.join(argv)}")

    def run(self, argv: list[str]) -> int | None:
        """Do what a command line says."""
        call = self.read(argv)
        if self.command is not None:
            return self.command(self, call)
        return self.show(self.function(call.options()), call)


def operation(
    name: str,
    options: Callable[P, S],
    show: Callable[[Any, Call], int | None],
    **more: Any,
) -> Callable[[Callable[[S], R]], Callable[P, R]]:
    """Declare an operation; a decorator of the function that does it.

    Args:
        name: the command.
        options: the dataclass of its options.
        show: prints a result, and writes its pages.
        more: other fields of `Operation`.

    Returns:
        What makes the Python function, which takes the options as parameters.
    """

    def decorate(function: Callable[[S], R]) -> Callable[P, R]:
        made = python_function(options)(function)
        cast(Any, made).operation = Operation(name, cast(type, options), function, show, **more)
        return made

    return decorate


def python_function(options: Callable[P, S]) -> Callable[[Callable[[S], R]], Callable[P, R]]:
    """A decorator: the function of options becomes one that takes them as parameters, with their documentation."""
    cls = cast(type, options)

    def decorate(function: Callable[[S], R]) -> Callable[P, R]:
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            _refuse_unknown(cls, function.__name__, kwargs)
            return function(options(*args, **kwargs))

        call.__name__, call.__qualname__, call.__module__ = function.__name__, function.__name__, function.__module__
        call.__signature__ = signature(cls, inspect.signature(function).return_annotation)  # type: ignore[attr-defined]
        call.__annotations__, call.options = types_of(cls), cls  # type: ignore[attr-defined]
        call.__doc__ = _documented(function.__doc__ or "", cls)
        return call

    return decorate


def parameters(cls: type) -> list[dataclasses.Field]:
    """The options of a dataclass in the order of a signature: by position, then its own, its bases', those of a run."""
    order = [name for names in flags.declared_by_class(cls, hidden=True).values() for name in names]
    rank = {name: place for place, name in enumerate(order)}
    return sorted(
        dataclasses.fields(cls), key=lambda item: (item.kw_only, item.kw_only and rank.get(item.name, len(rank)))
    )


def signature(cls: type, returns: Any) -> inspect.Signature:
    """The parameters of the Python function that takes the options of a dataclass.

    Args:
        cls: the dataclass.
        returns: what the function returns.

    Returns:
        The signature, with resolved types. `...` is the default of a field of a run: that of its preset.
    """
    kinds = types_of(cls)
    made = []
    for item in parameters(cls):
        default = _default(item)
        kind = inspect.Parameter.KEYWORD_ONLY if item.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        shown = ... if default is NOT_GIVEN else default
        made.append(inspect.Parameter(item.name, kind, default=shown, annotation=kinds[item.name]))
    return inspect.Signature(made, return_annotation=returns)


def _default(item: dataclasses.Field) -> Any:
    """The default of an option; `inspect.Parameter.empty` if there is none."""
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return inspect.Parameter.empty if item.default is dataclasses.MISSING else item.default


def _documented(text: str, cls: type) -> str:
    """A docstring with the options as its arguments."""
    about, _, returns = inspect.cleandoc(text).partition("\nReturns:")
    lines = ["Args:"]
    runs_own = {item.name for item in dataclasses.fields(Settings)} if flags.has_settings(cls) else set()
    for item in parameters(cls):
        if item.name not in runs_own:
            line = f"{item.name}: {flags.help_of(cls, item)}"
            lines += textwrap.wrap(line, 100, initial_indent="    ", subsequent_indent=" " * 8)
    if runs_own:
        lines.append("    Any field of `trimtab.Config` by its name, for example learning_rate=3e-4.")
    return "\n".join([about.rstrip(), "", *lines, *(["", f"Returns:{returns}"] if returns else [])])


def _refuse_unknown(cls: type, name: str, given: dict[str, Any]) -> None:
    """Raise for a keyword that is no option, with the nearest one."""
    known = [item.name for item in dataclasses.fields(cls)]
    for unknown in (word for word in given if word not in known):
        if unknown == "env":
            own = getattr(given["env"], "__name__", "MyEnv")
            problem = f"only `trimtab.train` takes it; give it by name, for example 'mymodule:{own}'"
            raise ConfigError("env", given["env"], problem)
        from trimtab.libraries.common.translation import field_here  # late: only for a mistake

        near = ", ".join(nearest(unknown, known)) or ", ".join(known[:8])
        if not flags.has_settings(cls):
            raise TypeError(f"{name}() has no argument {unknown!r}; nearest: {near}")
        here = field_here(unknown)
        problem = f"no such field; here it is {here}" if here else f"no such field; nearest: {near}"
        raise ConfigError(unknown, given[unknown], problem)


def _hyperparameters(words: list[str]) -> dict[str, Any]:
    from trimtab.libraries.common.translation import parse_hyperparameters  # late: few operations take them

    return parse_hyperparameters(words)


def python_call(function: str, options: Any) -> str:
    """A call as one would type it, without what has its default; pages give it as how they were made.

    Args:
        function: its name.
        options: what it was given.

    Returns:
        For example trimtab.tune('CartPole-v1', finalists=1).
    """
    words, by_position = [], True
    for item in parameters(type(options)):
        value = getattr(options, item.name)
        if item.name in NOT_ASKED or (value == _default(item)):
            by_position = False
            continue
        by_position &= not item.kw_only
        words.append(_typed(value) if by_position else f"{item.name}={_typed(value)}")
    return f"trimtab.{function}({', '.join(words)})"


def _typed(value: Any) -> str:
    from trimtab.config import Config
    from trimtab.training.run import Run

    if isinstance(value, Run):
        return f"trimtab.load({str(value.path)!r})"
    return "config" if isinstance(value, Config) else repr(str(value) if hasattr(value, "__fspath__") else value)
