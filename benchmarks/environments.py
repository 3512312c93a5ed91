"""Every environment that `trimtab envs` calls available is stepped; one of each kind trains a tiny iteration.

`python -m benchmarks.environments` writes docs/results/environments.md; with a family (`atari`) it prints the same for
that family alone; with `--table` it writes the table of spaces that `trimtab envs` reads, from the packages themselves.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from trimtab import envs
from trimtab.envs import id_table
from trimtab.envs.base import ActionSpace, EnvError, numbers_in
from trimtab.envs.known_ids import NATIVE_IDS, PGX_IDS, PLAYGROUND_IDS, XMINIGRID_IDS
from trimtab.training.device import cores, processor

PAGE = Path(__file__).parent.parent / "docs" / "results" / "environments.md"
STEPS, NUM_ENVS = 100, 2
AT_ONCE = 60  # environments that share a process: EnvPool keeps what it has loaded
PATIENCE = 3600  # seconds for such a group; other work may share the machine

# The table -------------------------------------------------------------------------------------------------


def write_table() -> None:
    """Ask every package for its ids and spaces."""
    import envpool

    rows = [id_table.row_of(envs.make(i, num_envs=1, backend="native").spec, "gymnax") for i in NATIVE_IDS]
    rows += [id_table.row_of(envs.make(i, num_envs=1, backend="pgx").spec, "pgx") for i in PGX_IDS]
    rows += [id_table.row_of(envs.make(i, num_envs=1, backend="xminigrid").spec, "xminigrid") for i in XMINIGRID_IDS]
    rows += [
        id_table.row_of(envs.make(i, num_envs=1, backend="playground").spec, "dm_control_suite") for i in PLAYGROUND_IDS
    ]
    for env_id in envpool.list_all_envs():
        family = envpool.registration.registry.specs[env_id][0].removeprefix("envpool.")
        rows.append(_pool_row(env_id, family))
    id_table.write(rows)
    print(f"{len(rows)} environments in {id_table.FILE}")


def _pool_row(env_id: str, family: str) -> id_table.TableRow:
    from trimtab.envs.envpool_backend import PoolEnv

    try:
        return id_table.row_of(PoolEnv(env_id, 1).spec, family)
    except EnvError as error:
        reason = str(error).removeprefix(f"env_id: {env_id} ")
    except RuntimeError:  # ViZDoom's own scenario is a file the user brings
        reason = "needs a scenario file of one's own"
    return id_table.TableRow("envpool", family, env_id, "", "", "", reason)


# The sweep -------------------------------------------------------------------------------------------------


def walk(env_id: str, backend: str) -> None:
    """Random actions for STEPS steps; raises for what is not as its Spec says."""
    import numpy as np

    env = envs.make(env_id, num_envs=NUM_ENVS, backend=backend)
    step = _stepper(env)
    for t in range(STEPS):
        out = step(t, random_actions(env.spec.action, np.random.default_rng(t)))
        shape = (NUM_ENVS, *env.spec.obs_shape)
        if out.obs.shape != shape or out.obs.dtype != env.spec.obs_dtype:
            raise EnvError(f"observations are {out.obs.shape} {out.obs.dtype}, not {shape} {env.spec.obs_dtype}")
        if not (np.isfinite(out.obs).all() and np.isfinite(out.reward).all()):
            raise EnvError(f"an observation or reward is not finite at step {t}")
    if not env.spec.compiled:
        env.close()


def _stepper(env) -> Any:
    """From the time and actions to what a step gives, after a reset."""
    if not env.spec.compiled:
        env.reset(0)
        return lambda t, actions: env.step(actions)
    import jax

    carried, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), NUM_ENVS))
    states, compiled = [carried], jax.jit(jax.vmap(env.step))

    def step(t, actions):
        states[0], out = compiled(jax.random.split(jax.random.key(t), NUM_ENVS), states[0], actions)
        return out

    return step


def random_actions(action: ActionSpace, rng) -> Any:
    """Uniform actions of NUM_ENVS environments, in NumPy: compiling would take longer than the steps."""
    import numpy as np

    if isinstance(action, envs.Continuous):
        low, high = np.clip(action.low, -1.0, None), np.clip(action.high, None, 1.0)
        return rng.uniform(low, np.maximum(low, high), (NUM_ENVS, len(low))).astype(np.float32)
    sizes = {envs.Discrete: lambda a: a.n, envs.MultiDiscrete: lambda a: a.sizes}.get(type(action), lambda a: 2)(action)
    shape = () if isinstance(action, envs.Discrete) else (numbers_in(action),)
    return rng.integers(0, sizes, (NUM_ENVS, *shape)).astype(np.int32)


def train_tiny(env_id: str, backend: str) -> None:
    """One iteration."""
    import trimtab

    config = trimtab.Config(
        env_id=env_id, backend=backend, num_envs=NUM_ENVS, num_steps=4, total_timesteps=8, num_minibatches=1
    )
    with tempfile.TemporaryDirectory() as folder:
        trimtab.train(config.replace(update_epochs=1, hidden_sizes=(8,)), Path(folder) / "run", checkpoints=1)


def work(job: str, chosen: list[list[str]]) -> None:
    """One line of JSON for each environment; what a package prints itself goes elsewhere."""
    for env_id, backend in chosen:
        begun, problem = time.perf_counter(), ""
        print(json.dumps({"begun": env_id}), flush=True)
        try:
            (walk if job == "walk" else train_tiny)(env_id, backend)
        except Exception as error:  # any failure is a finding
            problem = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        print(json.dumps({"env_id": env_id, "problem": problem, "seconds": time.perf_counter() - begun}), flush=True)


def in_processes(job: str, chosen: list[tuple[str, str]]) -> dict[str, str]:
    """Problems by id, of groups that share a process, on all cores."""
    groups, problems = [chosen[k : k + AT_ONCE] for k in range(0, len(chosen), AT_ONCE)], {}
    with ThreadPoolExecutor(cores()) as pool:
        for found in pool.map(lambda group: _in_one_process(job, group), groups):
            problems |= found
            print(f"{job}: {len(problems)} of {len(chosen)}", flush=True)
    return problems


def _in_one_process(job: str, left: list[tuple[str, str]]) -> dict[str, str]:
    """A process that dies takes only the environment it was at: the rest have another one."""
    problems: dict[str, str] = {}
    while left:
        words = [sys.executable, "-m", "benchmarks.environments", "--work", job, json.dumps(left)]
        try:
            ended = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
            printed, how = ended.stdout, f"its process ended with code {ended.returncode}"
        except subprocess.TimeoutExpired as expired:
            printed, how = (expired.stdout or b"").decode(), f"not done after {PATIENCE} s"
        told = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
        problems |= {row["env_id"]: row["problem"] for row in told if "env_id" in row}
        died = [row["begun"] for row in told if "begun" in row and row["begun"] not in problems]
        problems |= dict.fromkeys(died[:1] if told else [left[0][0]], how)
        left = [pair for pair in left if pair[0] not in problems]
    return problems


def kinds(chosen: list[tuple[str, str]]) -> dict[tuple[str, str, str], tuple[str, str]]:
    """One environment of each pair of spaces on each backend."""
    found: dict[tuple[str, str, str], tuple[str, str]] = {}
    for env_id, backend in chosen:
        try:
            spec = envs.look(env_id, backend)
        except EnvError:  # it was not stepped either, and is told there
            continue
        key = (backend, id_table.observation_in_words(spec), id_table.action_in_words(spec.action))
        found.setdefault(key, (env_id, backend))
    return found


def sweep(family: str = "") -> None:
    """All environments, or those of a family; the page is written for all."""
    rows = envs.list_environments()
    available = [(row.env_id, row.backend) for row in rows if row.available and family in row.family]
    families = {(row.env_id, row.backend): f"{row.backend} {row.family}" for row in rows}
    walked = {
        backend: in_processes("walk", [pair for pair in available if pair[1] == backend])
        for backend in sorted({backend for _, backend in available})
    }
    walks = {pair: walked[pair[1]][pair[0]] for pair in available}
    trained = {
        backend: in_processes("train", [p for p in kinds(available).values() if p[1] == backend])
        for backend in sorted({backend for _, backend in available})
    }
    trains = {(env_id, backend): problem for backend, told in trained.items() for env_id, problem in told.items()}
    text = page(families, walks, trains, [row for row in envs.list_environments() if not row.available])
    if family:
        print(text)
    else:
        PAGE.write_text(text)


def page(families: dict, walks: dict, trains: dict, left_out: list) -> str:
    """The result in Markdown."""
    good = [pair for pair, problem in walks.items() if not problem]
    taught = [pair for pair, problem in trains.items() if not problem]
    lines = [
        "# Every environment, stepped",
        "",
        f"Made by `make envs` on {processor()}, {cores()} cores. {len(good):,} of {len(walks):,} "
        f"environments that `trimtab envs` calls available took {STEPS} steps of random actions with "
        "finite observations and rewards of the declared shape and type. One "
        f"environment for each pair of observation and action on each backend trained one tiny iteration: "
        f"{len(taught):,} of {len(trains):,}.",
        "",
        "| backend and family | stepped | of | trained | of |",
        "|---|---|---|---|---|",
    ]
    counts: dict[str, Counter] = defaultdict(Counter)
    for name, results in (("walk", walks), ("train", trains)):
        for pair, problem in results.items():
            counts[families[pair]][name] += 1
            counts[families[pair]][f"{name} good"] += not problem
    for family, count in sorted(counts.items()):
        row = (family, count["walk good"], count["walk"], count["train good"], count["train"])
        lines.append(f"| {' | '.join(map(str, row))} |")
    lines += ["", "## Which did not, and why", ""]
    for what, results in (("stepping", walks), ("training", trains)):
        lines += [f"- {e} ({b}), {what}: {problem}" for (e, b), problem in sorted(results.items()) if problem]
    lines += ["", "## Left out of the list, and why", ""]
    reasons: dict[str, list[str]] = defaultdict(list)
    for row in left_out:
        reasons[f"{row.backend}: {row.reason}"].append(row.env_id)
    for reason, ids in sorted(reasons.items()):
        lines.append(f"- {reason}: {len(ids)} ({', '.join(ids[:4])}{', ...' if len(ids) > 4 else ''})")
    return "\n".join(lines) + "\n"


def main(argv: list[str]) -> Any:
    parser = argparse.ArgumentParser(prog="benchmarks.environments", description=__doc__)
    parser.add_argument("family", nargs="?", default="", help="only families with this in their name, and no page")
    parser.add_argument("--table", action="store_true", help="write the table of spaces instead")
    parser.add_argument("--work", nargs=2, metavar=("JOB", "IDS"), help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.table:
        return write_table()
    if asked.work:
        return work(asked.work[0], json.loads(asked.work[1]))
    return sweep(asked.family)


if __name__ == "__main__":
    main(sys.argv[1:])
