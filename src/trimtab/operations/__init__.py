"""What each command does, one module per command; a command loads only its own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimtab.operations.declaration import Operation

GROUPS = {
    "train": {
        "train": "train an agent",
        "resume": "go on with an interrupted run or study, or make a run longer",
        "plan": "what a configuration comes to, and what the rules of thumb say, before it runs",
        "throughput": "how many environments are fast here? steps/s, load, memory, where the time goes",
    },
    "look": {
        "show": "a run: table and learning curve",
        "view": "the runs and studies under a directory in a browser, as they grow",
        "compare": "several runs side by side: fields that differ, returns, curves, findings",
        "doctor": "what a run's records say: what to act on, what to watch, what to try next",
        "eval": "evaluate a run with exploration off",
        "repeat": "run a configuration again and compare every metric bit for bit",
    },
    "measure how to spend the batch": {
        "split": "how should a batch be split into environments × steps?",
        "probe": "measure the gradient of a run: variance, covariance, correlation, noise scale, bias",
        "rescale": "move a configuration to another batch size, and say what changes and why",
        "tune": "tune by the playbook, one field at a time, and compare with the start on new seeds",
        "study": "the sources' experiments and claims: list, run NAME, show DIR, claims",
    },
    "use a policy": {
        "adopt": "make a run of a policy that Stable-Baselines3, CleanRL, rsl_rl or skrl trained",
        "watch": "play episodes with a run's policy: a GIF, an MP4, or a window",
        "export": "write a run's policy for NumPy, ONNX or PyTorch, checked against the run",
    },
    "know what there is": {
        "envs": "list environments, and why one is not available",
        "presets": "list presets and where they come from, or print one",
        "translate": "hyperparameters of other libraries (sb3, cleanrl, rsl_rl, skrl, rl_games, ...) in our words",
        "completion": "print the completion script of a shell",
    },
}
HELP = {name: text for group in GROUPS.values() for name, text in group.items()}


def load(name: str) -> Operation | None:
    """The declaration of a command; None where its module reads the words itself."""
    things = vars(import_module(f"trimtab.operations.{name}")).values()
    declared = (thing.operation for thing in things if hasattr(thing, "operation"))
    return next((operation for operation in declared if operation.name == name), None)


def run(name: str, argv: list[str]) -> int | None:
    """Do what a command line says; returns an exit code."""
    operation = load(name)
    if operation is not None:
        return operation.run(argv)
    return getattr(import_module(f"trimtab.operations.{name}"), name)(argv)
