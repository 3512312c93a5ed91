"""Operations, one module each: a command, and the Python function of the same options. A command loads only its own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimtab.operations.declaration import Operation
    from trimtab.operations.flags import Parser

GROUPS = {
    "train": {
        "train": "train an agent",
        "resume": "resume an interrupted run or study, or extend a run",
        "plan": "check a configuration before it runs: what follows from it, and the rules of thumb",
        "throughput": "how many environments are fast here? steps/s, load, memory, where the time goes",
    },
    "look": {
        "show": "show a run: table and learning curve",
        "view": "show the runs and studies under a directory in a browser, as they grow",
        "compare": "compare runs side by side: fields that differ, returns, curves, findings",
        "doctor": "diagnose a run: problems to act on, signs to watch, and what to try next",
        "eval": "evaluate a run with exploration off",
        "repeat": "run a configuration again and compare every metric bit for bit",
    },
    "measure how to spend the batch": {
        "split": "how should a batch be split into environments × steps?",
        "probe": "measure the gradient of a run: variance, covariance, correlation, noise scale, bias",
        "rescale": "adjust a configuration to another batch size, and show what changes and why",
        "tune": "tune by the playbook, one field at a time, and compare with the start on new seeds",
        "study": "reproduce the sources' experiments: list, run NAME, show DIR, claims",
    },
    "use a policy": {
        "adopt": "import a policy that Stable-Baselines3, CleanRL, rsl_rl or skrl trained, as a run",
        "watch": "play episodes with a run's policy: a GIF, an MP4, or a window",
        "export": "write a run's policy for NumPy, ONNX or PyTorch, checked against the run",
    },
    "know what there is": {
        "envs": "list environments, and why one is not available",
        "presets": "list presets and where they come from, or print one",
        "translate": "translate hyperparameters of other libraries (sb3, cleanrl, rsl_rl, skrl, rl_games, ...)",
        "completion": "print the completion script of a shell",
    },
}
HELP = {name: text for group in GROUPS.values() for name, text in group.items()}


def load(name: str) -> Operation | None:
    """The declaration of a command; None for one with verbs, each of which has its own."""
    things = vars(import_module(f"trimtab.operations.{name}")).values()
    declared = (thing.operation for thing in things if hasattr(thing, "operation"))
    return next((operation for operation in declared if operation.name == name), None)


def run(name: str, argv: list[str]) -> int | None:
    """Do what a command line says; returns an exit code."""
    operation = load(name)
    return import_module(f"trimtab.operations.{name}").main(argv) if operation is None else operation.run(argv)


def parser_of(name: str) -> Parser:
    """What a command reads its words with: for its help, shell completion and the documentation."""
    operation = load(name)
    return import_module(f"trimtab.operations.{name}").parser() if operation is None else operation.parser()


def parsers() -> dict[str, Parser]:
    """The parser of every command by its name."""
    return {name: parser_of(name) for name in HELP}
