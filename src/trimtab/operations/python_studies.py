"""Studies from Python: many jobs, in a directory that `resume` on the command line goes on with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from trimtab.config import Config, ConfigError
from trimtab.config.keywords import Fields
from trimtab.core.writing import numbered_path
from trimtab.operations.source import Place, Source, configure, is_quiet, refuse_constructor
from trimtab.training.run import Run

if TYPE_CHECKING:
    from trimtab.studies.study_result import StudyResult


def split(
    source: Source,
    batch: int | None = None,
    run_dir: Place | None = None,
    *,
    splits: str | Sequence[str] | None = None,
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
    **fields: Unpack[Fields],
) -> StudyResult:
    """How should a batch be split into environments × steps? The answer of `trimtab split`, whose options these are.

    `batch` is N × T in every split (default: what the source has). A Run as source is also what is probed. `splits`:
    "4x256,16x64", or a list of such. `on`, `workers` and `store` say where jobs are done and kept.
    """
    from trimtab.studies.split_study import Split, effort, longest, refuse_other_fields, shortened

    refuse_constructor(fields)
    chosen = splits if splits is None or isinstance(splits, str) else ",".join(splits)
    for name in ("num_envs", "num_steps"):
        if name in fields:
            raise ConfigError(name, fields[name], "is what a split varies; use splits")
    own = configure(source, preset=preset)
    probed = str(source.path) if isinstance(source, Run) else None
    if probed:
        refuse_other_fields(own, probed, dict(fields))
    option_values = {"splits": chosen, "run": probed, "seeds": seeds, "max_seeds": max_seeds, "budget": budget}
    option_values |= {"points": points, "replicates": replicates, "quick": quick}
    options = effort({name: value for name, value in option_values.items() if value is not None})
    batch = own.batch if batch is None else batch
    num_envs, num_steps = longest(batch, chosen)
    config = configure(source, preset=preset, **fields | {"num_envs": num_envs, "num_steps": num_steps})
    if "total_timesteps" not in fields:
        config = shortened(config, batch, quick)
    asked: dict[str, Any] = {
        "splits": splits,
        "seeds": seeds,
        "max_seeds": max_seeds,
        "budget": budget,
        "points": points,
    }
    asked |= {"replicates": replicates, "quick": quick, "preset": preset, **fields}
    study = Split(config, batch, own.num_envs, options, _call(split, source, batch, **asked))
    return _studied(study, run_dir, f"split-{own.env_id}", on, workers, store, quiet)


def tune(
    source: Source,
    run_dir: Place | None = None,
    *,
    phases: str | None = None,
    sweep: dict[str, Sequence[Any]] | None = None,
    seeds: int = 2,
    final_seeds: int = 5,
    final_timesteps: int | None = None,
    finalists: int = 3,
    on: str = "local",
    workers: int | None = None,
    store: Place | None = None,
    quiet: bool | None = None,
    preset: str | None = None,
    **fields: Unpack[Fields],
) -> StudyResult:
    """The playbook's sweeps and a comparison with the start on new seeds: `trimtab tune`, whose options these are.

    `sweep` is for values of your own, of any field: `sweep={"gae_lambda": [0.9, 0.98]}`.
    """
    from trimtab.studies.tune_study import Tune, TuneOptions, shortened

    refuse_constructor(fields)
    config = configure(source, preset=preset, **fields)
    own_steps = config.total_timesteps
    if "total_timesteps" not in fields:
        config = shortened(config)
    options = TuneOptions(phases, sweep or {}, seeds, final_seeds, final_timesteps, finalists)
    asked: dict[str, Any] = {
        "phases": phases,
        "sweep": sweep,
        "seeds": seeds,
        "final_seeds": final_seeds,
        "final_timesteps": final_timesteps,
    }
    asked |= {"finalists": finalists, "preset": preset, **fields}
    study = Tune(config, options, _call(tune, source, **asked), own_steps)
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
) -> StudyResult:
    """A study of the sources by its name (`trimtab study list`), at one of its sizes."""
    from trimtab.core.wording import nearest
    from trimtab.experiments.catalogue import DECLARED
    from trimtab.experiments.source_study import Size

    if name not in DECLARED:
        near = ", ".join(nearest(name, DECLARED) or DECLARED)
        raise ConfigError("study", name, f"no such study; nearest: {near}")
    if size not in (sizes := get_args(Size)):
        raise ConfigError("size", size, f"must be one of {', '.join(sizes)}")
    declaration = DECLARED[name](size=size, seed=seed, command=_call(study, name, size=size, seed=seed))
    return _studied(declaration, run_dir, f"study-{name}", on, workers, store, quiet)


def _call(function: Callable[..., Any], source: Source, *positional: Any, **options: Any) -> str:
    """A call as one would type it: without what has its default, which pages give as how they were made."""
    defaults = inspect.signature(function).parameters
    named = {n: v for n, v in options.items() if n not in defaults or v != defaults[n].default}
    words = [_typed(source), *map(repr, positional), *(f"{name}={value!r}" for name, value in named.items())]
    return f"trimtab.{function.__name__}({', '.join(words)})"


def _typed(source: Source) -> str:
    if isinstance(source, Run):
        return f"trimtab.load({str(source.path)!r})"
    return "config" if isinstance(source, Config) else repr(str(source))


def throughput(
    source: Source,
    counts: Sequence[int] | None = None,
    *,
    seconds: float = 1.0,
    repeats: int = 1,
    quiet: bool | None = None,
    preset: str | None = None,
    **fields: Unpack[Fields],
) -> dict[str, Any]:
    """How many environments are fast here? `seconds` of training at each of `counts`, `repeats` times.

    Returns `rows` (steps per second, load, memory, shares of time), the `fastest` number and the one `recommended`:
    the fewest within 10% of it. `source`, `preset` and `fields` say what, as in `configure`.
    """
    from trimtab.studies.throughputs import measured

    refuse_constructor(fields)
    return measured(configure(source, preset=preset, **fields), counts, seconds, repeats, is_quiet(quiet))


def _studied(study, run_dir, name: str, on: str, workers: int | None, store, quiet: bool | None) -> StudyResult:
    from trimtab.studies.study_engine import ExecutionOptions, run_study

    out = Path(run_dir) if run_dir else numbered_path(Path("runs"), name.replace("/", "-"))
    where = ExecutionOptions(on, workers, str(store) if store else None)
    return run_study(study, out, where, study.command, is_quiet(quiet))
