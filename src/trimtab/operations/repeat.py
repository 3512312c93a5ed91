"""`trimtab repeat`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.core.answers import print_json
from trimtab.core.fields import Place, option
from trimtab.operations.declaration import Call, operation
from trimtab.operations.sources import Progressing, run_of
from trimtab.training.run import Run

if TYPE_CHECKING:
    from trimtab.training.repeat_run import Repetition


@dataclass(frozen=True)
class Repeat(Progressing):
    """What to repeat."""

    run: Run | Place
    """Run directory; in Python also a Run."""
    run_dir: Place | None = option(None, metavar="DIR")
    """Directory of the repetition (default: beside the run)."""


def _show(result: Repetition, call: Call) -> int:
    if call.json:
        print_json(result)
    elif result.identical:
        print(f"identical, bit for bit: {result.compared} metrics over {result.iterations} iterations")
    elif first := result.first_difference:
        print(
            f"not identical: {first.metric} differs first, at iteration {first.iteration}: {first.was} then {first.now}"
        )
    return 0 if result.identical else 1


@operation("repeat", Repeat, _show)
def repeat(options: Repeat) -> Repetition:
    """Run a configuration again, and compare every metric bit for bit.

    Returns:
        Whether the runs are identical, or where they differ first.
    """
    from trimtab.training.repeat_run import repeat as repeat_run

    return repeat_run(run_of(options.run).path, options.run_dir, options.silent)
