"""`trimtab translate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from trimtab.config import ConfigError
from trimtab.core.answers import print_json
from trimtab.libraries import LIBRARIES
from trimtab.operations.shared import Output, filled, parser


def translate(argv: list[str]) -> int:
    command_parser = parser("translate", Output)
    command_parser.add_argument(
        "library", help=f"a library ({', '.join(LIBRARIES)}), or a file of hyperparameters of one of them"
    )
    command_parser.add_argument(
        "fields", nargs="*", metavar="FIELD=VALUE", help="hyperparameters: n_steps=2048, num-steps=128 or --num-envs 4"
    )
    command_parser.add_argument(
        "--file", metavar="FILE", help="YAML file of hyperparameters, under the ones given here"
    )
    command_parser.add_argument(
        "--env-id", metavar="ID", help="environment id; in a file of several, whose hyperparameters"
    )
    command_parser.add_argument("--no-defaults", action="store_true", help="leave out what the library does by default")
    arguments, words = command_parser.parse_with_words(argv, foreign=True)
    from trimtab.libraries.common import translation as translating

    given = translating.parse_hyperparameters([*arguments.fields, *words])
    file = arguments.file
    if arguments.library not in LIBRARIES and Path(arguments.library).is_file():
        if file is not None:
            raise ConfigError("file", file, f"{arguments.library} is a file too; give one of them")
        file, library = arguments.library, translating.library_of_file(arguments.library)
    else:
        library = translating.library_named(arguments.library)
    values = translating.read_settings(library, file, arguments.env_id) if file else {}
    translation = translating.translate(library.name, values | given, not arguments.no_defaults)
    config = translation.config(arguments.env_id)
    fields = ({"env_id": arguments.env_id} if arguments.env_id else {}) | translation.fields
    if filled(Output, arguments).json:
        about = {"library": library.name, "fields": fields, "notes": translation.notes}
        print_json(about | {"left_out": translation.left_out, "derived": config.derived()})
        return 0
    for note in translation.notes:
        print(f"# {note}")
    for name, why in translation.left_out.items():
        print(f"# not carried over: {name} ({why})")
    print(yaml.safe_dump(fields, sort_keys=False), end="")
    if not arguments.no_defaults:
        _print_rest(config.as_dict(), fields)
    return 0


def _print_rest(values: dict[str, Any], fields: dict[str, Any]) -> None:
    """All other fields, so that the file is complete."""
    rest = {name: value for name, value in values.items() if name not in ("env_id", *fields)}
    other = {"minibatch_size": "num_minibatches", "num_minibatches": "minibatch_size"}
    print("# all other fields, so that no preset is applied")
    print(yaml.safe_dump({n: v for n, v in rest.items() if other.get(n) not in fields}, sort_keys=False), end="")
