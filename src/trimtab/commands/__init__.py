"""What each command does, one module per command; a command loads only its own."""

from __future__ import annotations

from importlib import import_module

HELP = {
    "train": "train an agent",
    "resume": "go on with an interrupted run or study",
    "split": "how should a batch be split into environments × steps?",
    "probe": "measure the gradient of a run: variance, covariance, correlation, noise scale, bias",
    "doctor": "what a run's records say: what to act on, what to watch, what to try next",
    "tune": "tune by the playbook, one field at a time, and compare with the start on new seeds",
    "study": "studies of the sources' claims: list, run NAME, show DIR",
    "throughput": "how many environments are fast here? steps/s, load, memory, where the time goes",
    "plan": "what a configuration comes to, and what the rules of thumb say, before it runs",
    "eval": "evaluate a run with exploration off",
    "compare": "several runs side by side: fields that differ, returns, curves, findings",
    "watch": "play episodes with a run's policy and write them as a GIF or MP4, or show them in a window",
    "export": "write a run's policy for NumPy, ONNX or PyTorch, checked against the run",
    "show": "show a run: table and learning curve",
    "repeat": "run a configuration again and compare every metric bit for bit",
    "translate": "hyperparameters of Stable-Baselines3, CleanRL or RLlib in this library's words",
    "rescale": "move a configuration to another batch size, and say what changes and why",
    "envs": "list environments, and why one is not available",
    "presets": "list presets, or print one",
    "view": "look at the runs and studies under a directory in a browser, as they grow",
    "completion": "print the completion script of a shell",
}


def run(name: str, argv: list[str]) -> int | None:
    return getattr(import_module(f"trimtab.commands.{name}"), name)(argv)
