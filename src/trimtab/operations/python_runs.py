"""Runs from Python: training, going on, looking into them, taking their policies away."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from trimtab.advise import diagnosis
from trimtab.advise.comparison import Comparison
from trimtab.advise.comparison import compare as compare_runs
from trimtab.config import ConfigError
from trimtab.config.keywords import Fields
from trimtab.core import trust
from trimtab.core.json_values import to_json
from trimtab.libraries.common.log_doctor import diagnose_place
from trimtab.operations.source import Place, Source, configure, is_quiet, run_of
from trimtab.training.run import Run

if TYPE_CHECKING:
    from trimtab.envs.own_environments import Constructor


def train(
    source: Source,
    run_dir: Place | None = None,
    *,
    preset: str | None = None,
    env: Constructor | None = None,
    start_from: Run | Place | None = None,
    take_optimizer: bool = False,
    quiet: bool | None = None,
    checkpoints: int | None = None,
    tensorboard: bool = False,
    track: bool = False,
    **fields: Unpack[Fields],
) -> Run:
    """Train, in a new directory (`run_dir`, or the first free runs/ENV/ALGO-seedS-K).

    `source`, `preset` and `fields` say what, as in `configure`. `env` is a function or class that makes the environment
    (a gymnasium.Env) in place of the source's id, and must be given again to resume, unless its module can be imported
    under its name. `start_from` is a run whose last parameters and normalizers this one begins with (and its optimizer
    state, if `take_optimizer`); schedules begin anew. `quiet` shows no progress; by default notebooks and prompts do.
    `checkpoints` are evenly spaced (20, or fewer where they are large); `tensorboard` and `track` write there too.
    """
    from trimtab.training import loop
    from trimtab.training.warm_start import WarmStart

    if run_dir is not None and not isinstance(run_dir, str | PathLike):
        raise ConfigError("run_dir", run_dir, "must be a directory; fields of a run are given by name")
    if take_optimizer and start_from is None:
        raise ConfigError("take_optimizer", True, "there is no run to take it from; give start_from")
    return loop.train(
        configure(source, preset=preset, env=env, **fields),
        run_dir,
        env,
        quiet=is_quiet(quiet),
        checkpoints=checkpoints,
        tensorboard=tensorboard,
        track=track,
        start=WarmStart.from_run(run_of(start_from).path, None, take_optimizer) if start_from is not None else None,
    )


def resume(
    run: Run | Place,
    *,
    env: Constructor | None = None,
    total_timesteps: int | None = None,
    devices: int | None = None,
    quiet: bool | None = None,
    checkpoints: int | None = None,
    tensorboard: bool = False,
    track: bool = False,
) -> Run:
    """Go on with a run from its newest checkpoint, to its end or to `total_timesteps` if given, on other `devices`.

    With another length, annealing follows the new one from the checkpoint on; what was learned before stays. `env` is
    needed again where the run was given one that no other process can import. The other arguments are those of `train`.
    """
    from trimtab.training import loop

    return loop.resume(
        run_of(run).path,
        env,
        total_timesteps=total_timesteps,
        devices=devices,
        quiet=is_quiet(quiet),
        checkpoints=checkpoints,
        tensorboard=tensorboard,
        track=track,
    )


def repeat(run: Run | Place, run_dir: Place | None = None, quiet: bool | None = None) -> dict[str, Any]:
    """Run a configuration again (beside the run, or in `run_dir`) and compare every metric bit for bit."""
    from trimtab.training.repeat_run import repeat as again

    return again(run_of(run).path, run_dir, is_quiet(quiet)).as_dict()


def evaluate(run: Run | Place, episodes: int = 10, *, at: int | None = None, seed: int | None = None) -> dict[str, Any]:
    """Play one episode in each of `episodes` environments with exploration off, and summarize the returns.

    `at` is the step of a checkpoint (default: the last), `seed` that of the episodes (default: 1000000 + the run's).
    """
    for name, value, least in (("episodes", episodes, 1), ("seed", seed, 0)):
        if value is not None and (type(value) is bool or not isinstance(value, Integral)):
            raise ConfigError(name, value, "must be a whole number")
        if value is not None and value < least:
            raise ConfigError(name, value, f"must be at least {least}; nearest: {least}")
    from trimtab.training.evaluation import evaluate_run

    evaluation = evaluate_run(run_of(run).path, episodes, at, seed)
    return {"step": evaluation.step, **evaluation.metrics()}


def diagnose(
    run: Run | Place, hyperparameters: dict[str, Any] | None = None
) -> diagnosis.Diagnosis | diagnosis.FolderDiagnosis:
    """What a run's records say, by every rule that applies to it, and the next thing to try.

    `run` may be the log of a run of SB3, CleanRL, rsl_rl, skrl or rl_games: its directory, progress.csv, TensorBoard
    events or saved model; or a folder of runs and logs. `hyperparameters` are what such a log does not say, by the
    names they have there.
    """
    trust.trust_named((hyperparameters or {}).get("env_id"))
    if isinstance(run, str | PathLike):
        return diagnose_place(run, hyperparameters)
    if hyperparameters:
        raise ConfigError("hyperparameters", hyperparameters, "a run of this library knows its own; leave them out")
    return diagnosis.diagnose(run_of(run))


def compare(*runs: Run | Place | Sequence[Run | Place]) -> Comparison:
    """Runs side by side, one by one or in a list: fields that differ, returns and areas, curves, findings."""
    each: list[Any] = []
    for one_or_several in runs:
        each += one_or_several if isinstance(one_or_several, list | tuple) else [one_or_several]
    return compare_runs([run_of(run) for run in each])


def export(
    run: Run | Place,
    to: Literal["numpy", "onnx", "torch"],
    out: Place | None = None,
    *,
    at: int | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Write a run's policy (of the checkpoint `at`, the last by default) for other programs, and check it.

    Into `out`, or RUN/export/FORM; `force` writes into a directory that holds something. Returns what was written and
    how far it is from the original on observations of the run's own environment.
    """
    from trimtab.extras.policy_export.export_files import export as write

    files = run_of(run).files
    return to_json(write(files, to, Path(out) if out else files.path / "export" / str(to), at, force))


def watch(
    run: Run | Place,
    out: Place | None = None,
    *,
    episodes: int = 1,
    at: int | None = None,
    seed: int = 0,
    sample: bool = False,
    steps: int = 500,
) -> dict[str, Any]:
    """Play episodes with a run's policy and write them as .gif or .mp4 (`out`, or RUN/watch.gif).

    `at` is the step of a checkpoint (default: the last), `seed` that of the episodes; with `sample` actions are drawn
    as in training; at most `steps` steps of an episode are shown. Returns the file and the returns of the episodes.
    """
    from trimtab.extras import play_episodes as watching

    opened_run = run_of(run)
    target = Path(out) if out else opened_run.path / "watch.gif"
    played = watching.watch(opened_run, target, episodes=episodes, step=at, seed=seed, sample=sample, longest=steps)
    return to_json(played)
