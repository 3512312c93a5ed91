"""`trimtab adopt`."""

from __future__ import annotations

from trimtab.answers import print_json
from trimtab.commands import flags
from trimtab.commands.shared import Output, filled, pairs, parser, refuse_two_environments
from trimtab.config import Config


def adopt(argv: list[str]) -> int:
    command_parser = parser("adopt", Output, Config)
    command_parser.add_argument(
        "policy", help="file: SB3's .zip, PyTorch's .pt or .pth, .safetensors or .npz of a state_dict"
    )
    command_parser.add_argument("env", help="environment id, the same as --env-id")
    command_parser.add_argument("fields", nargs="*", metavar="FIELD=VALUE", help="hyperparameters by their names there")
    command_parser.add_argument(
        "--normalizer", metavar="FILE", help=".npz with obs_mean, obs_var and reward_var, where it has one"
    )
    command_parser.add_argument("--run-dir", metavar="DIR", help="where to (default: runs/ENV/ALGO-seedS-K)")
    arguments = command_parser.parse(argv)
    refuse_two_environments(arguments)
    fields = {name: value for name, value in flags.values(Config, arguments).items() if name != "env_id"}
    from trimtab.api import adopt as make

    run = make(
        arguments.policy,
        arguments.env,
        arguments.run_dir,
        normalizer=arguments.normalizer,
        hyperparameters=pairs(arguments.fields),
        **fields,
    )
    if filled(Output, arguments).json:
        print_json({"run": str(run.path), "taken": run.files.manifest()["started_from"]["taken"]})
        return 0
    print(f"{run.path}: now `trimtab eval`, `probe`, `watch`, `export` it, or train it on by `trimtab resume`")
    return 0
