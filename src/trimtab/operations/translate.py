"""`trimtab translate`."""

from __future__ import annotations

from typing import Any

import yaml

from trimtab import presets
from trimtab.config import ConfigError
from trimtab.core.answers import print_json
from trimtab.core.wording import nearest
from trimtab.libraries import LIBRARIES
from trimtab.operations.shared import Output, filled, pairs, parser


def translate(argv: list[str]) -> int:
    command_parser = parser("translate", Output, positional="library", help=f"one of {', '.join(LIBRARIES)}")
    command_parser.add_argument(
        "fields", nargs="*", metavar="FIELD=VALUE", help="hyperparameters, for example n_steps=2048"
    )
    command_parser.add_argument(
        "--file", metavar="FILE", help="YAML file of hyperparameters, under the ones given here"
    )
    command_parser.add_argument(
        "--env-id", metavar="ID", help="environment id; in a file of several, whose hyperparameters"
    )
    command_parser.add_argument("--no-defaults", action="store_true", help="leave out what the library does by default")
    arguments = command_parser.parse(argv)
    from trimtab.libraries.common.translation import translate as carry_over

    values = _named(presets.read_file(arguments.file), arguments.env_id, arguments.file) if arguments.file else {}
    translation = carry_over(arguments.library, values | pairs(arguments.fields), not arguments.no_defaults)
    config = translation.config(arguments.env_id)
    fields = ({"env_id": arguments.env_id} if arguments.env_id else {}) | translation.fields
    if filled(Output, arguments).json:
        about = {"fields": fields, "notes": translation.notes, "left_out": translation.left_out}
        print_json(about | {"derived": config.derived()})
        return 0
    for note in translation.notes:
        print(f"# {note}")
    for name, why in translation.left_out.items():
        print(f"# not carried over: {name} ({why})")
    print(yaml.safe_dump(fields, sort_keys=False), end="")
    if not arguments.no_defaults:
        rest = {name: value for name, value in config.as_dict().items() if name not in ("env_id", *fields)}
        other = {"minibatch_size": "num_minibatches", "num_minibatches": "minibatch_size"}
        print("# the rest, so that no preset is laid under it")
        print(yaml.safe_dump({n: v for n, v in rest.items() if other.get(n) not in fields}, sort_keys=False), end="")
    return 0


def _named(values: dict[str, Any], env_id: str | None, file: str) -> dict[str, Any]:
    """RL Zoo's files hold the hyperparameters of many environments by id."""
    if not all(isinstance(value, dict) for value in values.values()):
        return values
    if env_id not in values:
        near = nearest(env_id or "", values) or list(values)[:3]
        raise ConfigError("env_id", env_id, f"{file} holds several; nearest: {', '.join(near)}")
    return values[env_id]
