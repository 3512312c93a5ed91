"""What the command line does, as functions. A source is an environment id, a preset, a path, a Config or a Run.

The one place that turns a source into what is needed is here: `configure` gives a Config, `run_of` a Run.
"""

from __future__ import annotations

from functools import wraps
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trimtab import config as configuration
from trimtab import presets
from trimtab.config import Config, ConfigError
from trimtab.playbook import doctor
from trimtab.playbook import plan as planning
from trimtab.playbook import rescale as rescaling
from trimtab.playbook import translate as translating
from trimtab.playbook.compare import Comparison
from trimtab.playbook.compare import compare as compare_runs
from trimtab.playbook.finding import Finding
from trimtab.runs.progress import Progress, interactive
from trimtab.runs.records import RunDir, RunError, free_name
from trimtab.runs.run import Run, load

if TYPE_CHECKING:
    from trimtab.anatomy.probe import Anatomy
    from trimtab.envs.own import Constructor
    from trimtab.studies.study import Studied

Place = str | PathLike[str]  # a directory or a file
Source = Config | Run | Place

__all__ = [
    "compare",
    "configure",
    "diagnose",
    "evaluate",
    "export",
    "load",
    "plan",
    "probe",
    "repeat",
    "rescale",
    "resume",
    "run_of",
    "split",
    "study",
    "train",
    "translate",
    "tune",
    "watch",
]


def configure(source: Source, *, preset: str | None = None, **fields: Any) -> Config:
    """The configuration of a source, with some fields changed.

    An environment id and a YAML file of fields lie over the environment's own preset, as on the command line; `preset`
    names another, "none" is none. A Config, a Run and its directory are taken as they are. `fields` are those of
    `Config`; an unknown one is refused with the nearest.
    """
    base = _complete(source)
    if isinstance(source, Config | Run) or base is not None:
        if preset not in (None, "none"):
            raise ConfigError("preset", preset, "a run or Config is complete; give an environment id, or leave it out")
        return configuration.from_dict(fields, base)
    if str(source) in presets.names():
        return presets.layered(fields, preset=str(source))
    layer = presets.read_file(source) if Path(source).is_file() else {"env_id": str(source)}
    return presets.layered(layer, fields, preset=preset)


def _complete(source: Source) -> Config | None:
    """The Config of a source that has all of one."""
    if isinstance(source, Config):
        return source
    if isinstance(source, Run):
        return source.config
    return load(source).config if RunDir.began(source) else None


def run_of(source: Run | Place) -> Run:
    """The run of a source: itself, or the directory it is in."""
    if isinstance(source, Run):
        return source
    if isinstance(source, Config):
        raise RunError("a Config is not a run; `trimtab.train` makes one of it")
    if not Path(source).exists():
        raise RunError(f"{source} is not a run directory; `trimtab.train` makes one")
    return load(source)


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
    **fields: Any,
) -> Run:
    """Train, in a new directory (`run_dir`, or the first free runs/ENV/ALGO-seedS-K).

    `source`, `preset` and `fields` say what, as in `configure`. `env` is a function or class that makes the environment
    (a gymnasium.Env) in place of the source's id, and must be given again to resume, unless its module can be imported
    under its name. `start_from` is a run whose last parameters and normalizers this one begins with (and its optimizer
    state, if `take_optimizer`); schedules begin anew. `quiet` shows no progress; by default notebooks and prompts do.
    `checkpoints` are evenly spaced (20, or fewer where they are large); `tensorboard` and `track` write there too.
    """
    from trimtab.runs import loop
    from trimtab.runs.start import Start

    if take_optimizer and start_from is None:
        raise ConfigError("take_optimizer", True, "there is no run to take it from; give start_from")
    return loop.train(
        configure(source, preset=preset, **fields),
        run_dir,
        env,
        quiet=_quiet(quiet),
        checkpoints=checkpoints,
        tensorboard=tensorboard,
        track=track,
        start=Start.at(run_of(start_from).path, None, take_optimizer) if start_from is not None else None,
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
    from trimtab.runs import loop

    return loop.resume(
        run_of(run).path,
        env,
        total_timesteps=total_timesteps,
        devices=devices,
        quiet=_quiet(quiet),
        checkpoints=checkpoints,
        tensorboard=tensorboard,
        track=track,
    )


def repeat(run: Run | Place, run_dir: Place | None = None, quiet: bool | None = None) -> dict[str, Any]:
    """Run a configuration again (beside the run, or in `run_dir`) and compare every metric bit for bit."""
    from trimtab.runs.repeat import repeat as again

    return again(run_of(run).path, run_dir, _quiet(quiet))


def evaluate(run: Run | Place, episodes: int = 10, *, at: int | None = None, seed: int | None = None) -> dict[str, Any]:
    """Play one episode in each of `episodes` environments with exploration off, and summarize the returns.

    `at` is the step of a checkpoint (default: the last), `seed` that of the episodes (default: 1000000 + the run's).
    """
    for name, value, least in (("episodes", episodes, 1), ("seed", seed, 0)):
        if value is not None and value < least:
            raise ConfigError(name, value, f"must be at least {least}; nearest: {least}")
    from trimtab.runs.evaluate import evaluate_run

    return evaluate_run(run_of(run).path, episodes, at, seed)


def probe(
    run: Run | Place,
    at: int | list[int] | Literal["last", "all"] | None = None,
    gae_lambda: float | list[float] | None = None,
    *,
    num_envs: int | None = None,
    num_steps: int | None = None,
    replicates: int = 32,
    start: Literal["stationary", "reset", "carry"] = "stationary",
    advantages: Literal["raw", "fixed", "batch"] = "raw",
    objective: Literal["policy", "full"] = "policy",
    method: Literal["auto", "layers", "chunks", "projection"] = "auto",
    bias: bool = True,
    blocks: tuple[int, ...] = (),
    correlations: bool = True,
    seed: int = 0,
    save: bool = True,
    quiet: bool | None = None,
) -> Anatomy | list[Anatomy]:
    """Measure what the gradient of a run's checkpoints is made of; a list if several are asked for.

    `at`: one step, several, "last" or "all" (default: the last checkpoint after which the return still changed).
    `gae_lambda`: one λ or several (default: the run's own). `num_envs`, `num_steps`: N and T to measure at (the run's
    own). `replicates`: independent batches to draw. `start`: where rows start. `advantages`: as they are, standardized
    by an independent sample, or by their own batch. `objective`: the policy term, or all terms. `method`: how
    per-sample gradients are computed. `bias`: also simulate the paired reference. `blocks`: also predict the variance
    at these smaller T. `correlations`: also look at pairs of samples. `seed`: of replicates and bootstraps. `save`:
    keep the table with the run.
    """
    from trimtab.anatomy.probe import probe as measure

    with Progress(1, "probe", _quiet(quiet), unit="checkpoints") as bar:
        return measure(
            run_of(run),
            at,
            gae_lambda,
            num_envs=num_envs,
            num_steps=num_steps,
            replicates=replicates,
            start=start,
            advantages=advantages,
            objective=objective,
            method=method,
            bias=bias,
            blocks=blocks,
            correlations=correlations,
            seed=seed,
            save=save,
            tick=bar.count,
        )


@wraps(rescaling.rescale)
def rescale(config: Source, **sizes: Any) -> rescaling.Rescaled:
    if isinstance(config, Run) or (not isinstance(config, Config) and RunDir.began(config)):
        newest = run_of(config).newest("noise_scale")  # a run's own probes may know it
        sizes.setdefault("noise_scale", newest["value"] if newest else None)
    return rescaling.rescale(configure(config), **sizes)


def diagnose(run: Run | Place) -> doctor.Diagnosis:
    """What a run's records say, by every rule that applies to it, and the next thing to try."""
    return doctor.diagnose(run_of(run))


def plan(source: Source, *, preset: str | None = None, **fields: Any) -> list[Finding]:
    """What the rules of thumb say of a configuration before it runs, most pressing first; arguments of `configure`."""
    return planning.plan(configure(source, preset=preset, **fields))


def translate(library: str, fields: dict[str, Any], *, defaults: bool = True) -> translating.Translated:
    """Hyperparameters of sb3 (also RL Zoo's), cleanrl or rllib here; `.config(env_id)` makes a Config of them.

    With `defaults`, what the library does where nothing is given is carried over too.
    """
    return translating.translate(library, fields, defaults)


def compare(*runs: Run | Place) -> Comparison:
    """Runs side by side: fields that differ, returns and areas, curves, findings."""
    return compare_runs([run_of(run) for run in runs])


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
    from trimtab.runs.export.writing import export as write

    files = run_of(run).files
    return write(files, to, Path(out) if out else files.path / "export" / str(to), at, force)


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
    from trimtab.runs import watch as watching

    found = run_of(run)
    target = Path(out) if out else found.path / "watch.gif"
    return watching.watch(found, target, episodes=episodes, step=at, seed=seed, sample=sample, longest=steps)


def _quiet(quiet: bool | None) -> bool:
    return not interactive() if quiet is None else quiet


# Studies: many jobs, in a directory that `resume` on the command line goes on with ------------------------------


def split(
    source: Source,
    batch: int,
    run_dir: Place | None = None,
    *,
    splits: str | None = None,
    seeds: int | None = None,
    max_seeds: int | None = None,
    budget: float | None = None,
    points: int | None = None,
    replicates: int | None = None,
    quick: bool = False,
    on: str = "local",
    workers: int | None = None,
    store: Place | None = None,
    quiet: bool | None = None,
    preset: str | None = None,
    **fields: Any,
) -> Studied:
    """How should a batch be split into environments × steps? The answer of `trimtab split`, whose options these are.

    A Run as source is also what is probed. `on`, `workers` and `store` say where jobs are done and kept.
    """
    from trimtab.studies.split import QUICK, Split, SplitOptions, default_splits, parse_splits

    own = configure(source, preset=preset)
    given = {"seeds": seeds, "max_seeds": max_seeds, "points": points, "replicates": replicates}
    effort = (QUICK if quick else {}) | {name: value for name, value in given.items() if value is not None}
    if max_seeds is None and seeds is not None:
        effort["max_seeds"] = max(seeds, effort.get("max_seeds", SplitOptions.max_seeds))
    probed = str(source.path) if isinstance(source, Run) else None
    options = SplitOptions(splits=splits, run=probed, budget=budget, quick=quick, **effort)
    first = (parse_splits(splits, batch) if splits else default_splits(batch, quick=False))[0]
    config = configure(source, preset=preset, **fields | {"num_envs": first[0], "num_steps": first[1]})
    if "total_timesteps" not in fields:
        most = 100_000 if quick else 200_000
        config = config.replace(total_timesteps=max(batch, min(config.total_timesteps, most)))
    study = Split(config, batch, own.num_envs, options, f"trimtab.split({own.env_id!r}, {batch})")
    return _studied(study, run_dir, f"split-{own.env_id}", on, workers, store, quiet)


def tune(
    source: Source,
    run_dir: Place | None = None,
    *,
    phases: str | None = None,
    seeds: int = 2,
    final_seeds: int = 5,
    on: str = "local",
    workers: int | None = None,
    store: Place | None = None,
    quiet: bool | None = None,
    preset: str | None = None,
    **fields: Any,
) -> Studied:
    """The playbook's sweeps and a comparison with the start on new seeds: `trimtab tune`, whose options these are."""
    from trimtab.studies.tune import PHASES, SHORT, Tune, TuneOptions

    config = configure(source, preset=preset, **fields)
    if "total_timesteps" not in fields:
        config = config.replace(total_timesteps=min(config.total_timesteps, SHORT))
    options = TuneOptions(phases or ",".join(PHASES), seeds, final_seeds)
    study = Tune(config, options, f"trimtab.tune({config.env_id!r})")
    return _studied(study, run_dir, f"tune-{config.env_id}", on, workers, store, quiet)


def study(
    name: str,
    run_dir: Place | None = None,
    *,
    size: Literal["quick", "default", "full"] = "default",
    seed: int = 1,
    on: str = "local",
    workers: int | None = None,
    store: Place | None = None,
    quiet: bool | None = None,
) -> Studied:
    """A study of the sources by its name (`trimtab study list`), at one of its sizes."""
    from trimtab.studies.catalogue import DECLARED
    from trimtab.wording import nearest

    if name not in DECLARED:
        near = ", ".join(nearest(name, DECLARED) or DECLARED)
        raise ConfigError("study", name, f"no such study; nearest: {near}")
    asked = DECLARED[name](size=size, seed=seed, command=f"trimtab.study({name!r}, size={size!r})")
    return _studied(asked, run_dir, f"study-{name}", on, workers, store, quiet)


def _studied(study, run_dir, name: str, on: str, workers: int | None, store, quiet: bool | None) -> Studied:
    from trimtab.studies.study import Studied, Where, begin

    out = Path(run_dir) if run_dir else free_name(Path("runs"), name)
    where = Where(on, workers, str(store) if store else None)
    return Studied(begin(study, out, where, study.command, _quiet(quiet)))
