"""`trimtab probe`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from trimtab.config import ConfigError
from trimtab.core.answers import print_json
from trimtab.operations import flags
from trimtab.operations.shared import Output, add_page, filled, parser


def probe(argv: list[str]) -> int:
    from trimtab.gradient.probe_options import ProbeOptions

    command_parser = parser("probe", ProbeOptions, Output, positional="run", help="run directory")
    command_parser.add_argument(
        "--at",
        nargs="+",
        metavar="STEP",
        help="checkpoints to measure: steps, last or all (default: the last after which the return still changed)",
    )
    command_parser.add_argument(
        "--gae-lambda", nargs="+", type=float, metavar="λ", help="λ to measure (default: the run's own)"
    )
    command_parser.add_argument(
        "--save", metavar="DIR", help="also save every figure there (.png, .svg, .pdf and .html)"
    )
    add_page(command_parser, "RUN/probes.html")
    arguments = command_parser.parse(argv)
    everything = getattr(arguments, "devices", None) == "all"
    if everything:
        del arguments.devices
    output, options = filled(Output, arguments), filled(ProbeOptions, arguments)
    at: Any = None
    if arguments.at:
        named = arguments.at in (["all"], ["last"])
        if not named and {"all", "last"} & set(arguments.at):
            raise ConfigError("at", " ".join(arguments.at), "last and all stand alone; or give steps only")
        at = arguments.at[0] if named else [flags.parse("at", int, step) for step in arguments.at]
    if arguments.save and Path(arguments.save).is_file():
        raise ConfigError("save", arguments.save, "is a file; name a directory")
    from trimtab.gradient.probe_options import check

    check(options)
    from trimtab.gradient.measurements import frame_of, write
    from trimtab.gradient.probing import probe as measure
    from trimtab.training.progress import Progress

    if everything:
        from trimtab.training.engine_setup import count_all_devices
        from trimtab.training.run import load

        options = dataclasses.replace(options, devices=count_all_devices(load(arguments.run).config))
    with Progress(1, "probe", output.quiet or output.json, unit="batches") as bar:

        def tick(done: int, total: int, doing: str) -> None:
            if done == 1:
                bar.start(1)  # the first batch was compiling
            bar.count(done, total, doing)

        anatomies = measure(arguments.run, at, arguments.gae_lambda, save=False, tick=tick, **vars(options))
    anatomies = anatomies if isinstance(anatomies, list) else [anatomies]
    table = write(Path(arguments.run), anatomies)
    from trimtab.show.probe_tables import print_anatomy

    if output.json:
        print_json({"run": arguments.run, "table": str(table), "probes": [a.as_dict() for a in anatomies]})
    else:
        for anatomy in anatomies:
            print_anatomy(anatomy)
        print(f"table: {table}")
    if arguments.page is not None:
        where = _page(arguments.run, arguments.page, frame_of(anatomies))
        if not output.json:
            print(f"page: {where}")
    if arguments.save:
        from trimtab.show import probe_figures, style

        style.save_all(probe_figures.of_frame(frame_of(anatomies)), Path(arguments.save), (*style.PRINTED, ".html"))
        if not output.json:
            print(f"figures: {arguments.save}")
    return 0


def _page(path: str, page: str, frame: Any) -> Path:
    """Write the page of some probes of a run; returns where it is."""
    from trimtab.show import probe_figures
    from trimtab.show.page_files import write_page
    from trimtab.show.probe_page import probe_page
    from trimtab.training.run import load

    run = load(path)
    where = Path(page or run.path / "probes.html")
    text = probe_page(frame, run.config.as_dict(), run.files.manifest().as_dict())
    write_page(where, text, probe_figures.of_frame(frame))
    return where
