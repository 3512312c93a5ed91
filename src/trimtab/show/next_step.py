"""The command to type next, spelled out from a configuration."""

from __future__ import annotations

import shlex
from typing import Any

from trimtab import config as configuration
from trimtab import presets
from trimtab.config import Config

ASIDE = ("env_id", "seed", "total_timesteps")  # what a study sets for itself
EITHER = ("num_minibatches", "minibatch_size")  # one follows from the other, and is none


def train_command(config: dict[str, Any], **changes: Any) -> str:
    """`trimtab train` for a configuration: the environment's preset and whatever differs from it."""
    env_id, algo = config["env_id"], config.get("algo", Config.algo)
    preset = presets.find(env_id, algo)
    usual = configuration.from_dict(presets.load(preset)).as_dict() if preset else Config().as_dict()
    fields = config | changes
    if fields.get("num_minibatches") is not None and usual.get("minibatch_size") is not None:
        usual = usual | {"minibatch_size": None}
    flags = [
        _flag(name, value)
        for name, value in fields.items()
        if (value is not None or name not in EITHER)
        and (name in changes or (name not in ASIDE and value != usual.get(name)) or _algo(name, value))
    ]
    return " ".join([f"trimtab train {env_id}", *dict.fromkeys(flags)])


def _algo(name: str, value: Any) -> bool:
    return name == "algo" and value != Config.algo


def _flag(name: str, value: Any) -> str:
    if value is None:
        text = "none"
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, list | tuple):
        text = " ".join(map(str, value))
    else:
        text = shlex.quote(f"{value:g}" if isinstance(value, float) else str(value))
    return f"--{name.replace('_', '-')} {text}"
