"""Whether another version of this library computes the same numbers, bit for bit.

    python -m benchmarks.compare_versions /path/to/other/tree              # every case
    python -m benchmarks.compare_versions /path/to/other/tree train-ppo    # the cases that these words begin

Every case is a list of commands. They run in both trees, each in a directory and with a program cache of its own, and
what they leave is compared: metrics and evaluations outside time/, episodes, checkpoints, tables of measurements, the
JSON that commands print. A case may begin in the other tree only: then this tree continues a run that the other made.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
TRAIN = ("--preset", "none", "--checkpoints", "4", "--quiet", "--run-dir", "run")
SMALL = ("--num-envs", "4", "--num-steps", "32", "--total-timesteps", "1024", "--hidden-sizes", "16")
VOLATILE = (  # of printed JSON: what depends on the time a command took
    *("seconds", "compile_seconds", "fps", "aggregate_fps", "interval", "elapsed", "steps/s", "clock", "work", "time"),
)
JSON_FLAG = "--json"


@dataclass(frozen=True)
class Case:
    """Commands that run one after another in one directory, without the leading `trimtab`.

    `before` runs in the other tree only and its directory is copied for both; `halve` then removes the later half of
    the checkpoints of the run, so that a resume has something left to do.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    before: tuple[tuple[str, ...], ...] = ()
    halve: bool = False


def _training(name: str, env_id: str, *flags: str) -> Case:
    return Case(f"train-{name}", (("train", env_id, *TRAIN, *SMALL, *flags),))


def _asking(name: str, *command: str) -> Case:
    """One command about a small run, which both trees train themselves; its JSON is compared."""
    train = ("train", "CartPole-v1", *TRAIN, *SMALL, "--eval-every", "0")
    return Case(f"command-{name}", (train, (*command, JSON_FLAG)))


def _resuming(name: str, env_id: str, *flags: str) -> Case:
    """This tree continues the other's run from its middle; the other tree's own run, uninterrupted, is the standard."""
    train = ("train", env_id, *TRAIN, *SMALL, *flags)
    return Case(f"resume-{name}", (("resume", "run", "--checkpoints", "4", "--quiet"),), before=(train,), halve=True)


PHASIC = ("--algo", "ppg", "--policy-iterations", "3", "--aux-epochs", "2")
NORMALIZED = ("--norm-obs", "true", "--norm-reward", "true", "--norm-value", "popart", "--norm-adv", "ewma")
STALE = ("--staleness", "2", "--staleness-loss", "recent", "--target-kl", "0.01")
WATCHED = ("--eval-every", "512", "--eval-episodes", "3", "--probe-every", "2")
EPISODES = ("--algo", "reinforce", "--baseline", "false", "--time-limit", "32", "--num-minibatches", "1")

STUDY = ("CartPole-v1", "--preset", "none", *SMALL[4:], "--on", "inline", "--run-dir", "study", "--eval-every", "0")
FEW = ("--replicates", "8", "--num-steps", "16", "--correlations", "false")

CASES = (
    _training("ppo-cartpole", "CartPole-v1", *WATCHED),
    _training("ppo-pendulum", "Pendulum-v1", *NORMALIZED, "--norm-adv-span", "3", "--stagger-resets", "true"),
    _training("kl", "CartPole-v1", "--surrogate", "kl", "--anneal-lr", "adaptive", "--optimizer", "adam"),
    _training("spo", "CartPole-v1", "--surrogate", "spo", "--clip-anneal", "linear", "--clip-vloss", "0.2"),
    _training("ppo-ewma", "Pendulum-v1", "--algo", "ppo-ewma", "--norm-adv", "minibatch", "--anneal-lr", "cosine"),
    _training("ppg", "Pendulum-v1", *PHASIC, "--arch", "shared", "--aux-minibatch-size", "64"),
    _training("ppg-ewma", "CartPole-v1", *PHASIC, "--algo", "ppg-ewma", "--minibatch-by", "rows"),
    _training("stale", "CartPole-v1", *STALE, "--optimizer", "sgd", "--momentum", "0.5"),
    _training("reinforce", "FrozenLake-v1", "--algo", "reinforce", "--ent-anneal", "0.5", "--warmup-steps", "256"),
    _training("episodes", "CartPole-v1", *EPISODES),
    _training("host", "CartPole-v1", "--backend", "gymnasium", "--arch", "detach", "--eval-every", "512"),
    _training("devices", "CartPole-v1", "--devices", "2", "--norm-obs", "true", "--norm-reward", "true"),
    _training("host-devices", "CartPole-v1", "--devices", "2", "--backend", "gymnasium"),
    _asking("probe", "probe", "run", *FEW, "--at", "last", "--gae-lambda", "0.5", "1.0"),
    _asking("doctor", "doctor", "run"),
    _asking("show", "show", "run"),
    _asking("eval", "eval", "run", "--episodes", "3", "--seed", "7"),
    _asking("rescale", "rescale", "run", "--num-envs", "8", "--skip", "max_grad_norm", "--out", "config.yaml"),
    _asking("plan", "plan", "Pendulum-v1", "--num-envs", "16", "--minibatch-size", "64"),
    _asking("translate", "translate", "sb3", "n_steps=64", "--learning-rate", "1e-3", "--env-id", "CartPole-v1"),
    _asking("repeat", "repeat", "run", "--run-dir", "again"),
    _asking("export", "export", "run", "--to", "numpy"),
    Case(
        "command-compare",
        (
            ("train", "CartPole-v1", *TRAIN, *SMALL, "--eval-every", "0"),
            ("train", "CartPole-v1", *TRAIN[:-1], "other", *SMALL, "--gamma", "0.9", "--eval-every", "0"),
            ("compare", "run", "other", JSON_FLAG),
        ),
    ),
    Case("command-split", (("split", *STUDY, "--batch", "64", "--quick", "--seeds", "1", "--points", "1", JSON_FLAG),)),
    Case(
        "command-tune",
        (("tune", *STUDY, "--phases", "learning_rate", "--seeds", "1", "--final-seeds", "2", JSON_FLAG),),
    ),
    _resuming("ppo", "CartPole-v1", *WATCHED, *NORMALIZED),
    _resuming("ppg-ewma", "Pendulum-v1", *PHASIC, "--algo", "ppg-ewma"),
    _resuming("stale", "CartPole-v1", *STALE),
)


@dataclass(frozen=True)
class Version:
    """A source tree and where it keeps compiled programs."""

    name: str
    root: Path
    cache: Path

    def run(self, command: tuple[str, ...], directory: Path) -> Any:
        """What the command prints as JSON, or None; raises where it fails."""
        environment = os.environ | {"PYTHONPATH": str(self.root / "src"), "TRIMTAB_CACHE": str(self.cache)}
        done = subprocess.run(
            [sys.executable, "-m", "trimtab", *command], cwd=directory, env=environment, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}: trimtab {' '.join(command)} ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout) if JSON_FLAG in command else None


def _halve(run: Path) -> None:
    """Remove the later half of a run's checkpoints."""
    checkpoints = sorted((run / "checkpoints").iterdir())
    for later in checkpoints[len(checkpoints) // 2 + 1 :]:
        shutil.rmtree(later)


def outputs(directory: Path) -> dict[str, Any]:
    """Everything below a directory that must not depend on the version, by file."""
    found: dict[str, Any] = {}
    for file in sorted(path for path in directory.rglob("*") if path.is_file() and not path.name.startswith(".")):
        name = str(file.relative_to(directory))
        if file.suffix == ".jsonl":
            found[name] = [_timeless(json.loads(line)) for line in file.read_text().splitlines()]
        elif file.suffix == ".parquet":
            found[name] = pl.read_parquet(file).to_dicts()
        elif file.suffix == ".safetensors":
            found[name] = file.read_bytes()
        elif file.name == "config.yaml":
            found[name] = file.read_text()
    return found


def _timeless(value: Any) -> Any:
    """A JSON value without what depends on the time it took, and without where it was made."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k not in VOLATILE and not k.startswith("time/")}
        return {k: _timeless(v) for k, v in kept.items()}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def _first_difference(one: Any, other: Any, where: str = "") -> str:
    """Where two values differ first, and how; empty where they are the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in one or key not in other:
                return f"{where} {key}: only in the {'other tree' if key in other else 'first'}".strip()
            if found := _first_difference(one[key], other[key], f"{where} {key}".strip()):
                return found
        return ""
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return f"{where}: {len(one)} and {len(other)} entries"
        return next(
            filter(None, (_first_difference(a, b, f"{where}[{k}]") for k, (a, b) in enumerate(zip(one, other)))), ""
        )
    same = one == other or (one != one and other != other)  # NaN
    return "" if same else f"{where}: {_short(one)} and {_short(other)}"


def _short(value: Any) -> str:
    return f"{len(value)} bytes" if isinstance(value, bytes) else repr(value)[:60]


def compare(case: Case, other: Version, this: Version, place: Path) -> Iterator[tuple[str, str]]:
    """Every output of a case with its first difference (empty where it is the same)."""
    begun = place / "begun"
    begun.mkdir(parents=True)
    for command in case.before:
        other.run(command, begun)
    results = []
    for version in (other, this):
        directory = place / version.name
        shutil.copytree(begun, directory)
        if case.before and version is other:
            results.append(outputs(directory))  # uninterrupted
            continue
        if case.halve:
            _halve(directory / "run")
        printed = [_timeless(version.run(command, directory)) for command in case.commands]
        results.append(outputs(directory) | {"printed": printed})
    theirs, ours = results
    for name in [*theirs, *(name for name in ours if name not in theirs and name != "printed")]:
        if name not in ours or name not in theirs:
            yield name, "only in the other tree" if name in theirs else "only in this tree"
        else:
            yield name, _first_difference(theirs[name], ours[name])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare_versions", description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="a source tree of another version (the folder that holds src)")
    parser.add_argument("cases", nargs="*", help="beginnings of the names of cases; all if none is given")
    arguments = parser.parse_args()
    chosen = [case for case in CASES if not arguments.cases or case.name.startswith(tuple(arguments.cases))]
    table, different, console = Table("case", "outputs", "result"), 0, Console()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        other = Version("other", arguments.other.resolve(), place / "other-cache")
        this = Version("this", ROOT, place / "this-cache")
        for case in chosen:
            found = dict(compare(case, other, this, place / case.name))
            differences = [f"{name}: {what}" for name, what in found.items() if what]
            different += bool(differences)
            table.add_row(case.name, str(len(found)), "\n".join(differences[:4]) or "same")
            console.print(f"{case.name}: {'different' if differences else 'same'}")
    console.print(table)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
