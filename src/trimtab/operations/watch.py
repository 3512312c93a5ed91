"""`trimtab watch`."""

from __future__ import annotations

from pathlib import Path

from trimtab.config import ConfigError
from trimtab.core.answers import print_json
from trimtab.core.json_values import to_json
from trimtab.operations.shared import Output, filled, parser


def watch(argv: list[str]) -> int:
    command_parser = parser("watch", Output, positional="run", help="run directory")
    command_parser.add_argument("--out", metavar="FILE", help=".gif or .mp4 (default: RUN/watch.gif)")
    command_parser.add_argument("--window", action="store_true", help="show it in a window instead")
    command_parser.add_argument("--episodes", type=int, default=1, help="episodes to play (default: 1)")
    command_parser.add_argument(
        "--steps", type=int, default=500, help="steps of an episode to show at most (default: 500)"
    )
    command_parser.add_argument("--at", type=int, metavar="STEP", help="checkpoint to play (default: the last)")
    command_parser.add_argument("--seed", type=int, default=0, help="seed of the first episode (default: 0)")
    command_parser.add_argument(
        "--sample", action="store_true", help="draw actions as in training, instead of the most likely"
    )
    arguments = command_parser.parse(argv)
    if arguments.out and arguments.window:
        raise ConfigError("out", arguments.out, "a window writes no file; leave out one of them")
    from trimtab.extras.play_episodes import watch as play
    from trimtab.training.run import load

    run = load(arguments.run)
    out = None if arguments.window else Path(arguments.out) if arguments.out else run.path / "watch.gif"
    result = play(
        run,
        out,
        episodes=arguments.episodes,
        step=arguments.at,
        seed=arguments.seed,
        sample=arguments.sample,
        longest=arguments.steps,
    )
    if filled(Output, arguments).json:
        print_json(to_json(result))
        return 0
    returns = ", ".join(f"{value:.4g}" for value in result.returns)
    cut = f" (cut after {arguments.steps} steps)" if result.cut else ""
    print(f"policy of step {result.step:,}, {result.shown}: return {returns}{cut}")
    if out is not None:
        print(f"{result.frames} frames: {out}")
    return 0
