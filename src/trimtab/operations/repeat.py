"""`trimtab repeat`."""

from __future__ import annotations

from trimtab.core.answers import print_json
from trimtab.operations.shared import Output, filled, parser


def repeat(argv: list[str]) -> int:
    command_parser = parser("repeat", Output, positional="run", help="run directory")
    command_parser.add_argument("--run-dir", metavar="DIR", help="where the repetition goes (default: beside the run)")
    arguments = command_parser.parse(argv)
    output = filled(Output, arguments)
    from trimtab.training.repeat_run import repeat as repeat_run

    result = repeat_run(arguments.run, arguments.run_dir, quiet=output.quiet or output.json)
    if output.json:
        print_json(result)
    elif result.identical:
        print(f"identical, bit for bit: {result.compared} metrics over {result.iterations} iterations")
    elif first := result.first_difference:
        print(
            f"not identical: {first.metric} differs first, at iteration {first.iteration}: {first.was} then {first.now}"
        )
    return 0 if result.identical else 1
