"""`trimtab resume`."""

from __future__ import annotations

from pathlib import Path

from trimtab.commands import flags
from trimtab.commands.shared import Output, filled, parser
from trimtab.commands.train import finish, refuse_no_checkpoints
from trimtab.config import ConfigError
from trimtab.runs.records import RunDir


def resume(argv: list[str]) -> int:
    made = parser("resume", Output, positional="run", help="directory of a run, a split or a tuning")
    made.add_argument("--tensorboard", action="store_true", help="also write TensorBoard events")
    made.add_argument("--track", action="store_true", help="also log to Weights & Biases")
    made.add_argument("--checkpoints", type=int, default=20, help="checkpoints over the run, as in train")
    made.add_argument(
        "--total-timesteps",
        metavar="INT",
        help="make a run this long; from its last checkpoint on, annealing follows the new length",
    )
    given = made.parse(argv)
    total = flags.parse("total_timesteps", "int", given.total_timesteps)
    output = filled(Output, given)
    refuse_no_checkpoints(given.checkpoints)
    from trimtab.studies import split

    if total is not None and not RunDir.began(given.run) and Path(given.run).exists():
        raise ConfigError("total_timesteps", total, "only a run can be made longer; leave it out")
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
        total_timesteps=total,
        quiet=output.quiet or output.json,
        checkpoints=given.checkpoints,
        tensorboard=given.tensorboard,
        track=given.track,
    )
    return finish(run, output)
