"""`trimtab probe`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from trimtab.answers import print_json
from trimtab.commands import flags
from trimtab.commands.shared import Output, add_page, filled, parser
from trimtab.config import ConfigError


def probe(argv: list[str]) -> int:
    from trimtab.anatomy.options import ProbeOptions

    made = parser("probe", ProbeOptions, Output, positional="run", help="run directory")
    made.add_argument(
        "--at",
        nargs="+",
        metavar="STEP",
        help="checkpoints to measure: steps, last or all (default: the last after which the return still changed)",
    )
    made.add_argument("--gae-lambda", nargs="+", type=float, metavar="λ", help="λ to measure (default: the run's own)")
    made.add_argument("--save", metavar="DIR", help="also save every figure there (.png, .svg, .pdf and .html)")
    add_page(made, "RUN/probes.html")
    given = made.parse(argv)
    everything = getattr(given, "devices", None) == "all"
    if everything:
        del given.devices
    output, options = filled(Output, given), filled(ProbeOptions, given)
    at: Any = None
    if given.at:
        named = given.at in (["all"], ["last"])
        if not named and {"all", "last"} & set(given.at):
            raise ConfigError("at", " ".join(given.at), "last and all stand alone; or give steps only")
        at = given.at[0] if named else [flags.parse("at", int, step) for step in given.at]
    if given.save and Path(given.save).is_file():
        raise ConfigError("save", given.save, "is a file; name a directory")
    from trimtab.anatomy.options import check

    check(options)
    from trimtab.anatomy.probe import probe as measure
    from trimtab.anatomy.table import frame_of, write
    from trimtab.runs.progress import Progress

    if everything:
        from trimtab.runs.opening import all_devices
        from trimtab.runs.run import load

        options = dataclasses.replace(options, devices=all_devices(load(given.run).config))
    with Progress(1, "probe", output.quiet or output.json, unit="batches") as bar:

        def tick(done: int, total: int, doing: str) -> None:
            if done == 1:
                bar.start(1)  # the first batch was compiling
            bar.count(done, total, doing)

        found = measure(given.run, at, given.gae_lambda, save=False, tick=tick, **vars(options))
    found = found if isinstance(found, list) else [found]
    table = write(Path(given.run), found)
    from trimtab.report.probe.tables import as_json, print_anatomy

    if output.json:
        print_json({"run": given.run, "table": str(table), "probes": [as_json(a) for a in found]})
    else:
        for anatomy in found:
            print_anatomy(anatomy)
        print(f"table: {table}")
    if given.page is not None:
        where = _page(given.run, given.page, frame_of(found))
        if not output.json:
            print(f"page: {where}")
    if given.save:
        from trimtab.report import style
        from trimtab.report.probe import figures

        style.save_all(figures.of_frame(frame_of(found)), Path(given.save), (*style.PRINTED, ".html"))
        if not output.json:
            print(f"figures: {given.save}")
    return 0


def _page(path: str, page: str, frame: Any) -> Path:
    """Write the page of some probes of a run; returns where it is."""
    from trimtab.report.files import write_page
    from trimtab.report.probe import figures
    from trimtab.report.probe.page import probe_page
    from trimtab.runs.run import load

    run = load(path)
    where = Path(page or run.path / "probes.html")
    text = probe_page(frame, run.config.as_dict(), run.files.manifest())
    write_page(where, text, figures.of_frame(frame))
    return where
