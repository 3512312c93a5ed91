"""`trimtab resume`."""

from __future__ import annotations

from pathlib import Path

from trimtab.commands.shared import Output, filled, parser
from trimtab.commands.train import finish, refuse_no_checkpoints


def resume(argv: list[str]) -> int:
    made = parser("resume", Output, positional="run", help="directory of a run, a split or a tuning")
    made.add_argument("--tensorboard", action="store_true", help="also write TensorBoard events")
    made.add_argument("--track", action="store_true", help="also log to Weights & Biases")
    made.add_argument("--checkpoints", type=int, default=None, help="checkpoints over the run, as in train")
    given = made.parse(argv)
    output = filled(Output, given)
    refuse_no_checkpoints(given.checkpoints)
    from trimtab.studies import split

    if split.began(given.run):
        from trimtab.commands.split import finish_split

        return finish_split(split.resume(Path(given.run), output.quiet or output.json), output)
    from trimtab.studies import tune

    if tune.began(given.run):
        from trimtab.commands.tune import finish_tuning

        return finish_tuning(tune.resume(Path(given.run), output.quiet or output.json), output)
    from trimtab.runs import loop

    run = loop.resume(
        given.run,
        quiet=output.quiet or output.json,
        checkpoints=given.checkpoints,
        tensorboard=given.tensorboard,
        track=given.track,
    )
    return finish(run, output)
