"""`trimtab adopt`."""

from __future__ import annotations

from trimtab.config import Config
from trimtab.core.answers import print_json
from trimtab.operations import flags
from trimtab.operations.shared import Output, filled, parser, refuse_two_environments


def adopt(argv: list[str]) -> int:
    command_parser = parser("adopt", Output, Config)
    command_parser.before_help = None  # presets have no say in this
    command_parser.epilog = "What neither the policy nor you say is as its library has it by default."
    command_parser.add_argument(
        "policy", help="file: SB3's .zip, PyTorch's .pt or .pth, .safetensors or .npz of a state_dict"
    )
    command_parser.add_argument("env", nargs="?", help="environment id, the same as --env-id")
    command_parser.add_argument(
        "fields", nargs="*", metavar="FIELD=VALUE", help="hyperparameters by their names there, for example n_steps=256"
    )
    command_parser.add_argument(
        "--normalizer", metavar="FILE", help=".npz with obs_mean, obs_var and reward_var, where it has one"
    )
    command_parser.add_argument("--run-dir", metavar="DIR", help="where to (default: runs/ENV/ALGO-seedS-K)")
    arguments, words = command_parser.parse_with_words(argv)
    if arguments.env is not None:
        refuse_two_environments(arguments)
    fields, output = flags.values(Config, arguments), filled(Output, arguments)
    env_id = arguments.env or fields.get("env_id")
    if env_id is None:
        flags.fail("name its environment, for example: trimtab adopt model.zip CartPole-v1")
    from trimtab.libraries.common.translation import parse_hyperparameters
    from trimtab.operations.adopt_policy import adopt as make

    run = make(
        arguments.policy,
        env_id,
        arguments.run_dir,
        normalizer=arguments.normalizer,
        hyperparameters=parse_hyperparameters([*arguments.fields, *words]),
        quiet=output.quiet,
        **{name: value for name, value in fields.items() if name != "env_id"},
    )
    if output.json:
        start = run.files.manifest().started_from
        print_json({"run": str(run.path), "taken": list(start.taken) if start else []})
    else:
        print(f"{run.path}: now `trimtab eval`, `probe`, `watch`, `export` it, or train it on by `trimtab resume`")
    return 0
