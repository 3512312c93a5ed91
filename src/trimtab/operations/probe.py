"""`trimtab probe`."""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trimtab.config import ConfigError
from trimtab.core.answers import print_json
from trimtab.core.fields import Place, option
from trimtab.core.options import Options, part
from trimtab.gradient.probe_options import ProbeOptions
from trimtab.operations import flags
from trimtab.operations.declaration import Call, Operation, operation
from trimtab.operations.sources import Progressing, run_of
from trimtab.training.progress import Progress
from trimtab.training.run import Run

if TYPE_CHECKING:
    import polars as pl

    from trimtab.gradient.anatomy import Anatomy


def _steps(words: list[str]) -> str | list[int]:
    if words in (["all"], ["last"]):
        return words[0]
    if {"all", "last"} & set(words):
        raise ConfigError("at", " ".join(words), "last and all stand alone; or give steps only")
    return [flags.parse("at", int, word) for word in words]


def _lambdas(words: list[str]) -> list[float]:
    return [flags.parse("gae_lambda", float, word) for word in words]


@dataclass(frozen=True)
class Probe(ProbeOptions, Progressing):
    """What to probe."""

    run: Run | Place
    """Run directory; in Python also a Run."""
    at: int | list[int] | Literal["last", "all"] | None = option(None, nargs="+", metavar="STEP", read=_steps)
    """Checkpoints to measure: steps, last or all (default: the last after which the return still changed)."""
    gae_lambda: float | list[float] | None = option(None, nargs="+", metavar="λ", read=_lambdas)
    """λ to measure (default: the run's own)."""
    _: KW_ONLY
    devices: int | Literal["all"] = option(1, low=1)  # type: ignore[assignment]
    """Devices that share the replicates; the numbers do not depend on it."""
    save: bool = option(True, shown=False)
    """Keep the table of measurements with the run."""


@dataclass(frozen=True)
class ProbeFlags(Options):
    """Pictures."""

    save: str | None = option(None, metavar="DIR")
    """Also save every figure there, as .png, .svg, .pdf and .html (default: none)."""
    page: str | None = option(None, metavar="FILE", nargs="?", const="")
    """Also write a page, with its figures beside it (default: RUN/probes.html)."""

    def __post_init__(self) -> None:
        if self.save and Path(self.save).is_file():
            raise ConfigError("save", self.save, "is a file; name a directory")


def _show(result: Anatomy | list[Anatomy], call: Call) -> None:
    from trimtab.gradient.measurements import frame_of, write
    from trimtab.show.probe_tables import print_anatomy

    run, anatomies = call.given["run"], result if isinstance(result, list) else [result]
    table, frame = write(Path(run), anatomies), frame_of(anatomies)
    if call.json:
        print_json({"run": run, "table": str(table), "probes": [anatomy.as_dict() for anatomy in anatomies]})
    else:
        for anatomy in anatomies:
            print_anatomy(anatomy)
        print(f"table: {table}")
    pictures = call.flags
    written = {"page": _write_page(run, pictures.page, frame)} if pictures.page is not None else {}
    if pictures.save:
        from trimtab.show import probe_figures, style

        style.save_all(probe_figures.of_frame(frame), Path(pictures.save), (*style.PRINTED, ".html"))
        written["figures"] = pictures.save
    for name, place in written.items() if not call.json else ():
        print(f"{name}: {place}")


def _write_page(path: str, page: str, frame: pl.DataFrame) -> str:
    """Write the page of some probes of a run; returns where it is."""
    from trimtab.show import probe_figures
    from trimtab.show.page_files import write_page
    from trimtab.show.probe_page import probe_page
    from trimtab.training.run import load

    run = load(path)
    where = Path(page or run.path / "probes.html")
    text = probe_page(frame, run.config, run.files.manifest())
    write_page(where, text, probe_figures.of_frame(frame))
    return str(where)


def _command(declared: Operation, call: Call) -> int | None:
    """The command writes the table itself, to say where it is."""
    return declared.show(declared.function(call.options(save=False)), call)


@operation("probe", Probe, _show, flags=ProbeFlags, command=_command)
def probe(options: Probe) -> Anatomy | list[Anatomy]:
    """Measure the gradient at checkpoints of a run: variance, covariance, correlation, noise scale and bias.

    Returns:
        What was measured; a list where several checkpoints or several λ are requested.
    """
    from trimtab.gradient.probing import probe as measure

    run: Any = run_of(options.run)
    if options.devices == "all":
        from trimtab.training.engine_setup import count_all_devices

        options = dataclasses.replace(options, devices=count_all_devices(run.config))
    with Progress(1, "probe", options.silent, unit="batches") as bar:

        def tick(done: int, total: int, doing: str) -> None:
            if done == 1:
                bar.start(1)  # the first batch was compiling
            bar.count(done, total, doing)

        chosen = part(options, ProbeOptions)
        return measure(run, options.at, options.gae_lambda, chosen, save=options.save, tick=tick)
