"""Random configurations over all fields and backends: trained for a few iterations, or refused in one line.

Configurations are drawn so that every pair of choices occurs. Each one that `Config` accepts is trained with one seed,
and some a second time in two parts, which must give the same numbers.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from benchmarks.fuzz.ledger import HASH, ROOT, Cases, Tally
from trimtab.config import Config
from trimtab.core.errors import UserError
from trimtab.core.fields import base_of, choices_of, declared_of, optional, part_of, types_of

# An environment of each kind, by backend: discrete, continuous, image; the first of each is quick to compile.
ENVIRONMENTS: tuple[tuple[str, str], ...] = (
    *(("native", "CartPole-v1"), ("native", "Pendulum-v1"), ("native", "Breakout-MinAtar")),
    *(("tabular", "FrozenLake-v1"), ("tabular", "CliffWalking-v1"), ("lqr", "LQR-v0")),
    *(("envpool", "CartPole-v1"), ("envpool", "Pendulum-v1"), ("gymnasium", "Acrobot-v1")),
    *(("gymnasium", "MountainCarContinuous-v0"), ("pgx", "2048"), ("xminigrid", "MiniGrid-Empty-5x5")),
)
FIXED = {"env_id", "backend", "env_kwargs", "devices", "actor_obs", "critic_obs", "total_timesteps", "hidden_sizes"}
FIXED |= {"impala_channels", "num_envs", "num_steps", "num_minibatches", "minibatch_size", "eval_episodes", "network"}
ITERATIONS = 3
TRACED_PER_SHAPE = 9  # further configurations of a shape, which differ in numbers and compile nothing
ATTEMPTS = 60  # to draw a configuration that is accepted
CANDIDATES = 8  # of which the one with most new pairs is trained


def choices() -> dict[str, tuple[Any, ...]]:
    """Every field that has a choice of words, or that can be given or not, with what it may be."""
    found: dict[str, tuple[Any, ...]] = {"backend": tuple(dict.fromkeys(backend for backend, _ in ENVIRONMENTS))}
    for name, kind in types_of(Config).items():
        if name in FIXED:
            continue
        if words := choices_of(kind):
            found[name] = tuple(words)
        elif base_of(kind) is bool:
            found[name] = (False, True)
        elif optional(kind)[1]:
            found[name] = ("none", "given")
    return found


CHOICES = choices()


def levels(config: Config) -> dict[str, Any]:
    """Which of its choices a configuration makes."""
    made = {name: getattr(config, name) for name in CHOICES}
    for name, options in CHOICES.items():
        if options == ("none", "given"):
            made[name] = "none" if made[name] is None else "given"
    return made


def pairs(made: dict[str, Any]) -> set[str]:
    """The pairs of choices of a configuration, as hashes."""
    return {_hash((a, b)) for a, b in itertools.combinations(sorted(made.items(), key=lambda item: item[0]), 2)}


def _hash(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:HASH]


# Drawing ---------------------------------------------------------------------------------------------------


def draw(rng: random.Random, fixed: dict[str, Any] | None = None) -> Config | None:
    """A configuration that is accepted; what is refused is drawn again, up to a limit."""
    for _ in range(ATTEMPTS):
        values = _values(rng) | (fixed or {})
        for _ in range(40):
            try:
                return Config(**values)
            except UserError as error:
                name = getattr(error, "field", None)
                if name is None or name not in values or (fixed and name in fixed):
                    break
                del values[name]  # what has no effect beside the rest stays at its default
    return None


def _values(rng: random.Random) -> dict[str, Any]:
    backend, env_id = rng.choice(ENVIRONMENTS)
    num_envs, num_steps = rng.choice((1, 2, 4)), rng.choice((1, 4, 8))
    values: dict[str, Any] = {
        "env_id": env_id,
        "backend": backend,
        "num_envs": num_envs,
        "num_steps": num_steps,
        "total_timesteps": num_envs * num_steps * ITERATIONS,
        "hidden_sizes": tuple(rng.choice((1, 3, 8)) for _ in range(rng.choice((1, 1, 2)))),
        "eval_episodes": 1,
        "policy_iterations": rng.choice((1, 2, 3)),
        "aux_minibatch_size": rng.choice((None, num_envs * num_steps)),
    }
    for item in dataclasses.fields(Config):
        if item.name in values or item.name in FIXED or rng.random() < 0.4:
            continue
        values[item.name] = _value(item.name, rng)
    return values


def _value(name: str, rng: random.Random) -> Any:
    kind, declared = types_of(Config)[name], declared_of(Config, name)
    if words := choices_of(kind):
        return rng.choice(words)
    if optional(kind)[1] and rng.random() < 0.3:
        return None
    if base_of(kind) is bool:
        return rng.random() < 0.5
    if base_of(kind) is int:
        return rng.choice((1, 2, 3, 8, 64)) if part_of(_field(name)) != "around" else rng.choice((0, 1, 7, 2**31 - 1))
    low, high = max(declared.low, -10.0), min(declared.high, 1000.0)
    return rng.choice((low, high, rng.uniform(low, min(high, low + 1)), rng.uniform(low, min(high, low + 1))))


def _field(name: str) -> dataclasses.Field[Any]:
    return next(item for item in dataclasses.fields(Config) if item.name == name)


def other_numbers(config: Config, rng: random.Random) -> Config:
    """A configuration of the same shape with other traced numbers, or the same where none is accepted."""
    names = [item.name for item in dataclasses.fields(Config) if part_of(item) == "traced" and item.name not in FIXED]
    for name in rng.sample(names, 6):
        try:
            changed = config.replace(**{name: _value(name, rng)}, seed=rng.randrange(2**31))
        except UserError:
            continue
        config = changed if changed.shape == config.shape else config
    return config


# Training --------------------------------------------------------------------------------------------------


def run(cases: Cases, tally: Tally) -> None:
    """Train random configurations in this process; a case is a shape and further configurations of it."""
    from trimtab.training.engine_cache import EngineCache

    shapes, covered = tally.members.setdefault("shapes", set()), tally.members.setdefault("pairs", set())
    with tempfile.TemporaryDirectory() as folder:
        for case, rng in cases:
            drawn = [config for _ in range(CANDIDATES) if (config := draw(rng)) is not None]
            if not drawn:
                continue
            config = max(drawn, key=lambda c: len(pairs(levels(c)) - covered))
            engines = EngineCache()
            for number in range(1 + (TRACED_PER_SHAPE if config.backend in ("native", "tabular", "lqr") else 1)):
                tally.counts["configurations"] += 1
                outcome = _trained(config, Path(folder), rng, engines, number == 1)
                if outcome.startswith("wrong"):
                    tally.problem(f"{case}.{number}", f"{outcome}: {_told(config)}")
                    break
                tally.counts[outcome] += 1
                shapes.add(_hash(config.shape))
                covered |= pairs(levels(config))
                config = other_numbers(config, rng)


def _told(config: Config) -> dict[str, Any]:
    usual = Config()
    return {name: value for name, value in config.as_dict().items() if value != getattr(usual, name)}


def _trained(config: Config, folder: Path, rng: random.Random, engines: Any, in_parts: bool) -> str:
    """What comes of a configuration: trained, or a one-line error; `wrong` with what is wrong."""
    from trimtab.training import loop

    path = folder / "run"
    options: dict[str, Any] = {"engines": engines, "say": lambda text: None, "checkpoints": ITERATIONS}
    try:
        run = loop.train(config, path, **options)
        rows = [row.as_dict() for row in run.files.metrics()]
        if len(rows) != config.iterations or run.files.config() != config:
            return f"wrong: {len(rows)} rows of {config.iterations} iterations"
        if in_parts and config.backend in ("native", "tabular", "lqr"):
            loop.train(config, folder / "parts", until=config.batch, **options)
            resumed = [row.as_dict() for row in loop.resume(folder / "parts", **options).files.metrics()]
            if _timeless(resumed) != _timeless(rows):
                return "wrong: training in two parts gives other numbers"
        return "trained"
    except UserError as error:
        return "wrong: an error of several lines" if "\n" in str(error) else "refused or ended in one line"
    except Exception as error:
        where = traceback.format_exc().strip().splitlines()[-3:-1]
        return f"wrong: {type(error).__name__}: {str(error)[:300]} at {' '.join(where)}"
    finally:
        for made in ("run", "parts"):
            shutil.rmtree(folder / made, ignore_errors=True)


def _timeless(rows: list[dict[str, Any]]) -> str:
    return repr([{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows])


def run_commands(cases: Cases, tally: Tally) -> None:
    """Train random configurations as a user does: `trimtab train --config FILE`."""
    import yaml

    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        for case, rng in cases:
            config = draw(rng)
            if config is None:
                continue
            Path(folder, "own.yaml").write_text(yaml.safe_dump(config.as_dict()))
            words = [sys.executable, "-m", "trimtab", "train", "--config", "own.yaml", "--run-dir", "run", "--quiet"]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=environment, timeout=600)
            tally.counts["configurations by the command line"] += 1
            if "Traceback" in done.stderr or done.returncode not in (0, 2):
                tally.problem(case, f"ends with {done.returncode}: {done.stderr[-300:]}: {_told(config)}")
            shutil.rmtree(Path(folder, "run"), ignore_errors=True)


def reachable_pairs(seed: int = 0) -> tuple[set[str], list[tuple[Any, Any]]]:
    """Pairs of choices that some accepted configuration makes, and those for which none was found."""
    found, missing, rng = set[str](), [], random.Random(seed)
    options = [(name, value) for name, values in CHOICES.items() for value in values]
    for one, other in itertools.combinations(sorted(options, key=repr), 2):
        if one[0] == other[0]:
            continue
        pair = _hash(tuple(sorted((one, other))))
        if pair in found:
            continue
        for _ in range(20):
            fixed = {n: v for n, v in (one, other) if v not in ("none", "given")}
            fixed |= {n: None for n, v in (one, other) if v == "none"}
            fixed |= {n: _given(n, rng) for n, v in (one, other) if v == "given"}
            if "backend" in fixed:
                fixed["env_id"] = rng.choice([e for b, e in ENVIRONMENTS if b == fixed["backend"]])
            config = draw(rng, fixed)
            if config is not None:
                found |= pairs(levels(config))
            if pair in found:
                break
        else:
            missing.append((one, other))
    return found, missing


def _given(name: str, rng: random.Random) -> Any:
    return next(value for _ in range(100) if (value := _value(name, rng)) is not None)
