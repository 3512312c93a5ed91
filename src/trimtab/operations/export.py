"""`trimtab export`."""

from __future__ import annotations

from pathlib import Path

from trimtab.core.answers import print_json
from trimtab.core.json_values import to_json
from trimtab.operations.shared import Output, filled, parser


def export(argv: list[str]) -> int:
    command_parser = parser("export", Output, positional="run", help="run directory")
    command_parser.add_argument("--to", required=True, metavar="numpy|onnx|torch", help="the form to write")
    command_parser.add_argument("--out", metavar="DIR", help="where to (default: RUN/export/FORM)")
    command_parser.add_argument("--at", type=int, metavar="STEP", help="checkpoint to export (default: the last)")
    command_parser.add_argument(
        "--force", action="store_true", help="let --out write into a directory that holds something"
    )
    arguments = command_parser.parse(argv)
    from trimtab.extras.policy_export.export_files import export as write
    from trimtab.training.run_dir import RunDir

    run = RunDir.open(arguments.run)
    out = Path(arguments.out) if arguments.out else run.path / "export" / arguments.to
    report = write(run, arguments.to, out, arguments.at, arguments.force)
    if filled(Output, arguments).json:
        print_json(to_json(report))
        return 0
    print(f"policy of step {report.step:,}: {report.file}")
    print(
        f"checked by {report.checked_by} on {report.checked_on}: outputs differ by at most "
        f"{report.largest_difference:.2g} (they reach {report.largest_output:.3g})"
    )
    print(f"how to use it: {report.example}")
    return 0
