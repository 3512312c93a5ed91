"""What each command does, and its options."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from trimtab import config as configuration
from trimtab import flags, presets
from trimtab.cli import HELP
from trimtab.config import Config, ConfigError
from trimtab.flags import Parser, fail
from trimtab.records import RunError


@dataclass
class Output:
    """How a command shows itself."""

    quiet: bool = False
    """Show no progress."""
    json: bool = False
    """End with one JSON object on standard output."""


@dataclass
class RunFlags:
    """Where a run goes and what else it writes."""

    run_dir: str | None = None
    """Directory of the run (default: runs/ENV/ALGO-seedS-K)."""
    seeds: int = 1
    """Train this many seeds, counting up from --seed, one per core at a time."""
    checkpoints: int = 20
    """Checkpoints over the run, evenly spaced."""
    tensorboard: bool = False
    """Also write TensorBoard events."""
    track: bool = False
    """Also log to Weights & Biases (WANDB_MODE=offline works)."""


def parser(name: str, *classes: type, positional: str | None = None, help: str = "") -> Parser:
    made = Parser(prog=f"trimtab {name}", description=HELP[name][0].upper() + HELP[name][1:] + ".", allow_abbrev=False)
    if positional:
        made.add_argument(positional, help=help)
    for cls in classes:
        flags.add_fields(made.add_argument_group(cls.__name__), cls)
    return made


def filled(cls: type, given) -> Any:
    """An options dataclass with what was given."""
    return cls(**flags.values(cls, given))


# Training --------------------------------------------------------------------------------------------------


def layered_config(given, base: dict[str, Any] | None = None) -> Config:
    """Flags over file over preset."""
    chosen = flags.values(Config, given)
    file = read_yaml(given.config) if given.config else {}
    env_id = chosen.get("env_id", file.get("env_id"))
    algo = chosen.get("algo", file.get("algo", "ppo"))
    name = given.preset
    if name is None and not given.config and env_id is not None:
        name = presets.find(env_id, algo)
    layers = [presets.load(name) if name and name != "none" else {}, file, chosen]
    if env_id is None and "env_id" not in layers[0]:
        raise ConfigError("env_id", None, "name an environment, for example: trimtab train CartPole-v1")
    merged: dict[str, Any] = dict(base or {})
    for layer in layers:
        merged |= layer
        for one, other in (("minibatch_size", "num_minibatches"), ("num_minibatches", "minibatch_size")):
            if layer.get(one) is not None and other not in layer:
                merged.pop(other, None)
    return configuration.from_dict(merged)


def read_yaml(path: str) -> dict[str, Any]:
    try:
        values = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise ConfigError("config", path, error.strerror or "cannot be read") from None
    except UnicodeDecodeError:
        raise ConfigError("config", path, "is not text") from None
    except yaml.YAMLError as error:
        raise ConfigError("config", path, f"is not YAML ({error})") from None
    if not isinstance(values, dict):
        raise ConfigError("config", path, "must hold fields and values, for example 'num_envs: 8'")
    return values


def train(argv: list[str]) -> int:
    made = parser("train", RunFlags, Output, Config)
    made.add_argument("env", nargs="?", default=None, help="environment id, the same as --env-id")
    made.add_argument(
        "--preset", metavar="NAME", help="preset to start from; the environment's own by default, or none"
    )
    made.add_argument("--config", metavar="FILE", help="YAML file of fields, over the preset, under the flags")
    given = made.parse(argv)
    if given.env is not None:
        if getattr(given, "env_id", given.env) != given.env:
            fail(f"env_id={given.env_id!r}: the environment was given twice ({given.env})")
        given.env_id = given.env
    options, output = filled(RunFlags, given), filled(Output, given)
    config = layered_config(given)
    if options.checkpoints < 1:
        raise ConfigError("checkpoints", options.checkpoints, "must be at least 1; nearest: 1")
    if options.seeds < 1:
        raise ConfigError("seeds", options.seeds, "must be at least 1; nearest: 1")
    if options.seeds > 1:
        from trimtab.seeds import train_seeds

        summaries = train_seeds(config, options, quiet=output.quiet or output.json)
        return _finish_seeds(summaries, output)

    from trimtab import training

    if not output.quiet and not output.json:
        describe(config)
    run = training.train(
        config,
        options.run_dir,
        quiet=output.quiet or output.json,
        checkpoints=options.checkpoints,
        tensorboard=options.tensorboard,
        track=options.track,
    )
    return _finish(run, output)


def describe(config: Config) -> None:
    """The derived quantities, before a run starts."""
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=f"{config.algo} on {config.env_id}, seed {config.seed}", show_header=False, title_justify="left"
    )
    for name, value in config.derived().items():
        table.add_row(name, value)
    Console(stderr=True).print(table)


def _finish(run, output: Output) -> int:
    summary = run.summary()
    if output.json:
        print(json.dumps(summary))
    elif not output.quiet:
        mean = summary["ep_rew_mean"]
        print(
            f"{summary['total_timesteps']:,} steps in {summary['seconds']:.1f} s ({summary['fps']:,.0f} steps/s, "
            f"compiling {summary['compile_seconds']:.1f} s); return of the last 100 episodes: "
            + ("no episode finished" if mean is None else f"{mean:.4g}")
        )
        print(f"run: {run.path}    look at it: trimtab show {run.path}")
    return 0


def _finish_seeds(summaries: list[dict[str, Any]], output: Output) -> int:
    if output.json:
        print(json.dumps(summaries))
    elif not output.quiet:
        from rich.console import Console
        from rich.table import Table

        table = Table("seed", "return", "steps/s", "run", title=f"{len(summaries)} seeds", title_justify="left")
        for s in summaries:
            mean = s["ep_rew_mean"]
            table.add_row(str(s["seed"]), "none" if mean is None else f"{mean:.4g}", f"{s['fps']:,.0f}", s["run"])
        Console().print(table)
        print(f"all seeds together: {summaries[0]['aggregate_fps']:,.0f} steps/s")
    return 0


def resume(argv: list[str]) -> int:
    made = parser("resume", Output, positional="run", help="run directory")
    made.add_argument("--tensorboard", action="store_true", help="also write TensorBoard events")
    made.add_argument("--checkpoints", type=int, default=20, help="checkpoints over the run, as in train")
    given = made.parse(argv)
    output = filled(Output, given)
    from trimtab import training

    run = training.resume(
        given.run,
        quiet=output.quiet or output.json,
        checkpoints=max(1, given.checkpoints),
        tensorboard=given.tensorboard,
    )
    return _finish(run, output)


# Rescaling -------------------------------------------------------------------------------------------------


@dataclass
class RescaleFlags:
    """The new size, and how the rest follows."""

    num_envs: int | None = None
    """New N."""
    num_steps: int | None = None
    """New T."""
    minibatch_size: int | None = None
    """New samples per gradient step (the number of minibatches stays if neither is given)."""
    num_minibatches: int | None = None
    """New minibatches per epoch."""
    num_devices: int | None = None
    """Data-parallel devices: environments per device stay, so N grows with them."""
    devices_before: int = 1
    """Devices that share the environments there are."""
    rule: Literal["invariant", "linear", "none", "fixed-inner"] = "invariant"
    """How the rest follows."""
    skip: str = ""
    """Adjustments to leave out, with commas between."""
    adam_betas: bool = False
    """Also raise Adam's β₁ and β₂ to the power 1/c_opt."""
    noise_scale: float | None = None
    """Noise scale in samples, to be warned beyond it; a run's own probes if they resolved one."""
    auxiliary: Literal["constant", "paper"] = "constant"
    """What PPG's auxiliary phase does."""
    workers: int | None = None
    """Workers after (auxiliary paper)."""
    workers_before: int | None = None
    """Workers before (auxiliary paper)."""


def rescale(argv: list[str]) -> int:
    made = parser(
        "rescale", RescaleFlags, Output, positional="source", help="run directory, YAML file of fields, or preset"
    )
    made.add_argument("--out", metavar="FILE", help="write the new configuration, for `trimtab train --config FILE`")
    made.add_argument("--force", action="store_true", help="let --out overwrite a file")
    given = made.parse(argv)
    asked, output = flags.values(RescaleFlags, given), filled(Output, given)
    if not asked.keys() & {"num_envs", "num_steps", "minibatch_size", "num_minibatches", "num_devices", "workers"}:
        raise ConfigError("num_envs", None, "name a new size, for example --num-envs 64; the others: see --help")
    asked["skip"] = [name for name in asked.get("skip", "").replace(",", " ").split()]
    values, measured = _rescale_source(given.source)
    if "noise_scale" not in asked:
        asked["noise_scale"] = measured
    from trimtab.rescaling import rescale as move

    result = move(configuration.from_dict(values), **asked)
    if given.out:
        _write_config(given.out, result.config.as_dict(), "env_id" in values, given.force, given.source)
    if output.json:
        print(json.dumps({"source": given.source, "out": given.out, **_finite(result.as_dict())}, allow_nan=False))
    elif not output.quiet:
        _show_rescaled(result, given.source)
        print(f"train it: trimtab train --config {given.out}" if given.out else "write it: add --out FILE")
    return 0


def _show_rescaled(result, source: str) -> None:
    """What changes, what notably stays, and what to look out for."""
    from rich.console import Console
    from rich.table import Table

    def show(value: Any) -> str:
        return f"{value:,}" if type(value) is int else f"{value:.6g}" if isinstance(value, float) else str(value)

    title = f"{source}: c_opt = {result.c_opt:.6g}, c_iter = {result.c_iter:.6g}"
    table = Table("field", "from", "to", "rule", "why", title=title, title_justify="left")
    for kept in (False, True):
        for row in (row for row in result.changes if row.changed != kept):
            style = "dim" if kept else None
            table.add_row(row.field, show(row.before), show(row.after), row.rule, row.why, style=style)
        table.add_section()
    console = Console()
    if not console.is_terminal:
        console.width = 140
    console.print(table)
    console.print("the paper: Hilton, Cobbe & Schulman 2021, arXiv 2110.00641", style="dim", highlight=False)
    for warning in result.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False, highlight=False, soft_wrap=True)


def _rescale_source(source: str) -> tuple[dict[str, Any], float | None]:
    """The fields of a run, file or preset, and the noise scale a run's probes resolved, if any."""
    from trimtab.records import RunDir

    if Path(source).is_dir():
        run = RunDir.open(source)
        return run.config(), _measured_noise_scale(run.path)
    if Path(source).is_file():
        return read_yaml(source), None
    try:
        return presets.load(source), None
    except ConfigError as error:
        near = str(error).rpartition("nearest: ")[2]
        raise ConfigError("source", source, f"is no run directory, file or preset; nearest presets: {near}") from None


def _measured_noise_scale(run: Path) -> float | None:
    """The newest resolved noise scale, in samples, among the tables of a run's probes."""
    import polars as pl

    newest: tuple[float, float] | None = None
    for table in sorted((run / "probes").glob("*.parquet")):
        try:
            found = pl.read_parquet(table).filter((pl.col("quantity") == "noise_scale") & pl.col("resolved"))
        except (pl.exceptions.PolarsError, OSError):
            continue  # not a table of measurements
        for row in found.iter_rows(named=True):
            step, value = row.get("step") or 0, row.get("value") or 0.0
            if value > 0 and (newest is None or step >= newest[0]):
                newest = (step, float(value))
    return None if newest is None else newest[1]


def _write_config(out: str, values: dict[str, Any], names_env: bool, force: bool, source: str) -> None:
    """A file `trimtab train --config` takes; a source without an environment gives a file without one."""
    from trimtab.records import write_atomically

    if Path(out).is_dir():
        raise ConfigError("out", out, f"is a directory; nearest: {Path(out) / 'config.yaml'}")
    if Path(out).exists() and not force:
        raise ConfigError("out", out, "already exists; give another name, or --force")
    kept = {name: value for name, value in values.items() if name != "env_id" or names_env}
    text = f"# trimtab rescale, from {source!r}\n" + yaml.safe_dump(kept, sort_keys=False, allow_unicode=True)
    try:
        write_atomically(Path(out), text.encode())
    except OSError as error:
        raise ConfigError("out", out, error.strerror or "cannot be written") from None


def _finite(value: Any) -> Any:
    """JSON has no infinity: such numbers become text."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


# Measuring -------------------------------------------------------------------------------------------------


def probe(argv: list[str]) -> int:
    from trimtab.anatomy.options import ProbeOptions

    made = parser("probe", ProbeOptions, Output, positional="run", help="run directory")
    made.add_argument(
        "--at", nargs="+", metavar="STEP", help="checkpoints to measure: steps, or all (default: the last)"
    )
    made.add_argument("--gae-lambda", nargs="+", type=float, metavar="λ", help="λ to measure (default: the run's own)")
    made.add_argument("--save", metavar="DIR", help="also save every figure there (.png, .svg, .pdf and .html)")
    given = made.parse(argv)
    output, options = filled(Output, given), filled(ProbeOptions, given)
    at: Any = None
    if given.at:
        at = "all" if given.at == ["all"] else [flags.parse("at", "int", step) for step in given.at]
    for value in given.gae_lambda or []:
        if not 0 <= value <= 1:
            raise ConfigError("gae_lambda", value, f"must be from 0 to 1; nearest: {min(max(value, 0), 1):g}")
    from trimtab.anatomy.options import check

    check(options)
    from trimtab.anatomy.probe import probe as measure
    from trimtab.progress import Progress

    with Progress(1, "probe", output.quiet or output.json, unit="checkpoints") as bar:
        found = measure(given.run, at, given.gae_lambda, tick=bar.count, **vars(options))
    found = found if isinstance(found, list) else [found]
    from trimtab.report.anatomy_tables import as_json, print_anatomy

    if output.json:
        print(json.dumps({"run": given.run, "probes": [as_json(a) for a in found]}))
    else:
        for anatomy in found:
            print_anatomy(anatomy)
    if given.save:
        from trimtab.anatomy.table import frame_of
        from trimtab.report import anatomy_charts, charts

        for name, chart in anatomy_charts.of_frame(frame_of(found)).items():
            for suffix in (".png", ".svg", ".pdf", ".html"):
                charts.save(chart, Path(given.save) / f"{name}{suffix}")
        if not output.json:
            print(f"figures: {given.save}")
    return 0


def split(argv: list[str]) -> int:
    from trimtab.anatomy.options import SplitOptions

    made = parser("split", SplitOptions, Output, Config, positional="env", help="environment id")
    made.add_argument("--batch", required=True, metavar="N×T", help="samples per iteration to split")
    made.add_argument("--preset", metavar="NAME", help="preset to start from (default: the environment's own)")
    made.add_argument("--config", metavar="FILE", help="YAML file of fields, over the preset")
    made.add_argument("--run-dir", metavar="DIR", help="where results go (default: runs/split-ENV-K)")
    given = made.parse(argv)
    given.env_id = given.env
    for name in ("num_envs", "num_steps"):
        if hasattr(given, name):
            raise ConfigError(name, getattr(given, name), "is what a split varies; use --splits")
    batch = flags.parse("batch", "int", given.batch)
    if batch < 4:
        raise ConfigError("batch", batch, "is too small to split; nearest: 4")
    options, output = filled(SplitOptions, given), filled(Output, given)
    out = Path(given.run_dir) if given.run_dir else _new_split(given.env_id)
    if out.exists() and any(out.iterdir()):
        raise RunError(f"{out} already exists and is not empty; give another --run-dir")
    from trimtab.anatomy import split as splitting

    first = (
        splitting.parse_splits(options.splits, batch) if options.splits else splitting.default_splits(batch, False)
    )[0]
    given.num_envs, given.num_steps = map(str, first)
    config = layered_config(given)
    if not hasattr(given, "total_timesteps"):
        most = 100_000 if options.quick else 200_000
        config = config.replace(total_timesteps=max(batch, min(config.total_timesteps, most)))
    command = "trimtab split " + " ".join(argv)
    result = splitting.split(config, batch, out, options, output.quiet or output.json, command)
    if output.json:
        print(json.dumps(result))
    else:
        from trimtab.report.split_tables import print_split

        print_split(result)
    return 0


def _new_split(env_id: str) -> Path:
    root = Path("runs")
    return next(p for k in range(1, 100_000) if not (p := root / f"split-{env_id.replace('/', '-')}-{k}").exists())


# Looking ---------------------------------------------------------------------------------------------------


def eval(argv: list[str]) -> int:
    made = parser("eval", Output, positional="run", help="run directory")
    made.add_argument("--episodes", type=int, default=10, help="episodes, one per environment (default: 10)")
    made.add_argument("--at", type=int, default=None, metavar="STEP", help="checkpoint to evaluate (default: the last)")
    made.add_argument("--seed", type=int, default=0, help="seed of the episodes (default: 0)")
    given = made.parse(argv)
    if given.episodes < 1:
        raise ConfigError("episodes", given.episodes, "must be at least 1; nearest: 1")
    output = filled(Output, given)
    from trimtab.training import evaluate_run

    result = {"run": given.run, **evaluate_run(given.run, given.episodes, given.at, given.seed)}
    if output.json:
        print(json.dumps(result))
    else:
        print(
            f"{result['eval/episodes']} episodes at step {result['step']:,}: mean {result['eval/mean_reward']:.4g}, "
            f"median {result['eval/median_reward']:.4g}, IQR {result['eval/iqr_low']:.4g} to {result['eval/iqr_high']:.4g}"
        )
    return 0


def show(argv: list[str]) -> int:
    made = parser("show", Output, positional="run", help="run directory")
    made.add_argument("--save", metavar="FILE", help="also save the learning curve (.png, .svg, .pdf or .html)")
    given = made.parse(argv)
    from trimtab.report.terminal import show_run

    return show_run(given.run, filled(Output, given).json, given.save)


def repeat(argv: list[str]) -> int:
    made = parser("repeat", Output, positional="run", help="run directory")
    made.add_argument("--run-dir", metavar="DIR", help="where the repetition goes (default: beside the run)")
    given = made.parse(argv)
    output = filled(Output, given)
    from trimtab.training import repeat as repeat_run

    result = repeat_run(given.run, given.run_dir, quiet=output.quiet or output.json)
    if output.json:
        print(json.dumps(result))
    elif result["identical"]:
        print(f"identical, bit for bit: {result['compared']} metrics over {result['iterations']} iterations")
    else:
        first = result["first_difference"]
        print(
            f"not identical: {first['metric']} differs first, at iteration {first['iteration']}: {first['was']} then {first['now']}"
        )
    return 0 if result["identical"] else 1


def envs(argv: list[str]) -> int:
    made = parser("envs", Output)
    made.add_argument("filter", nargs="?", default="", help="only ids that contain this")
    made.add_argument("--backend", default=None, help="only this backend")
    given = made.parse(argv)
    from trimtab.envs import catalogue

    rows = [
        row
        for row in catalogue()
        if given.filter.lower() in row.env_id.lower() and given.backend in (None, row.backend)
    ]
    if filled(Output, given).json:
        print(json.dumps([row._asdict() for row in rows]))
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table("environment", "backend", "available")
    for row in rows:
        table.add_row(row.env_id, row.backend, "yes" if row.available else f"no: {row.reason}")
    Console().print(table)
    return 0


def presets_(argv: list[str]) -> int:
    made = parser("presets")
    made.add_argument("name", nargs="?", help="print this preset")
    given = made.parse(argv)
    if given.name:
        print(yaml.safe_dump(presets.load(given.name), sort_keys=False), end="")
    else:
        print("\n".join(presets.names()))
    return 0


COMMANDS = {
    "train": train,
    "resume": resume,
    "probe": probe,
    "split": split,
    "eval": eval,
    "show": show,
    "repeat": repeat,
    "rescale": rescale,
    "envs": envs,
    "presets": presets_,
}


def run(name: str, argv: list[str]) -> int | None:
    return COMMANDS[name](argv)
