"""`trimtab translate`."""

from __future__ import annotations

from typing import Any

import yaml

from trimtab import presets
from trimtab.answers import print_json
from trimtab.commands.shared import (
    Output,
    filled,
    pairs,
    parser,
)
from trimtab.config import ConfigError
from trimtab.wording import nearest


def translate(argv: list[str]) -> int:
    made = parser(
        "translate", Output, positional="library", help="sb3 (also RL Zoo's), cleanrl, rllib, rsl_rl, brax or ppo-ewma"
    )
    made.add_argument("fields", nargs="*", metavar="FIELD=VALUE", help="hyperparameters, for example n_steps=2048")
    made.add_argument("--file", metavar="FILE", help="YAML file of hyperparameters, under the ones given here")
    made.add_argument("--env-id", metavar="ID", help="environment id; in a file of several, whose hyperparameters")
    made.add_argument("--no-defaults", action="store_true", help="leave out what the library does by default")
    given = made.parse(argv)
    from trimtab.playbook.translate import translate as carry_over

    values = _named(presets.read_file(given.file), given.env_id, given.file) if given.file else {}
    found = carry_over(given.library, values | pairs(given.fields), not given.no_defaults)
    config = found.config(given.env_id)
    fields = ({"env_id": given.env_id} if given.env_id else {}) | found.fields
    if filled(Output, given).json:
        about = {"fields": fields, "notes": found.notes, "left_out": found.left_out}
        print_json(about | {"derived": config.derived()})
        return 0
    for note in found.notes:
        print(f"# {note}")
    for name, why in found.left_out.items():
        print(f"# not carried over: {name} ({why})")
    print(yaml.safe_dump(fields, sort_keys=False), end="")
    if not given.no_defaults:
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
