"""Which modules may be imported because an environment is called `module:Name`.

Importing a module runs it, and the name may come from a file that somebody else wrote. So a module is imported only if

- the user names it: on the command line, in a configuration passed there, in Python, or with `--trust MODULE`; or
- the run or study that names it was made by this user. Such runs and studies are listed by their id in the user's
  state directory, with a digest of what they say, so that a changed or foreign file is not taken for them.

Everything else is refused in one line. `refuse_untrusted` is asked right before each import.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from trimtab.core.errors import UserError

_NAME = re.compile(r"([^\W\d][\w.]*):[^\W\d]\S*")  # module:Name
_IDENTITY = re.compile(r"[0-9a-f]{32}")
_trusted: set[str] = set()  # modules, in this process


class Untrusted(UserError):
    """A module that a file names and that the user did not allow."""


def trust(*modules: str) -> None:
    """Allow modules to be imported in this process for environments that files name.

    Args:
        modules: names such as "mypackage.envs", without the environment.
    """
    _trusted.update(modules)


def trusted() -> list[str]:
    """The modules allowed in this process, to pass on to one that works for it."""
    return sorted(_trusted)


def trust_named(*words: Any) -> None:
    """Allow the modules of names that the user gave: `module:Name`, alone or after `=`; other words are ignored."""
    for word in words:
        if isinstance(word, str) and (match := _NAME.fullmatch(word.rpartition("=")[2])):
            trust(match[1])


def refuse_untrusted(name: str) -> None:
    """Raise Untrusted for `module:Name` whose module is not allowed."""
    module = name.rpartition(":")[0]
    if module not in _trusted:
        raise Untrusted(
            f"{name}: a file names the module {module}, which is not imported, because that would run it; "
            f"if you trust it, add --trust {module} (in Python: trimtab.trust({module!r}))"
        )


# Runs and studies of this user ------------------------------------------------------------------------------


def _state_dir() -> Path:
    """Where the runs and studies of this user are listed (TRIMTAB_STATE overrides)."""
    default = Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local" / "state")) / "trimtab"
    return Path(os.environ.get("TRIMTAB_STATE", default))


def enlist(content: Any) -> str:
    """List what is being made here under a new id, which its files keep.

    Args:
        content: what the files say, as JSON; only with the same content is it ours later.

    Returns:
        The id. Where nothing can be written the id is not listed, and `--trust` will be needed.
    """
    identity = uuid.uuid4().hex
    enlist_again(identity, content)
    return identity


def enlist_again(identity: str, content: Any) -> None:
    """List what another process of this user made, such as a worker on another machine."""
    place = _state_dir() / "made"
    if _IDENTITY.fullmatch(identity):
        with suppress(OSError):
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            (place / identity).write_text(_digest(content))


def is_ours(identity: Any, content: Any) -> bool:
    """Whether this id is listed with this content."""
    if not isinstance(identity, str) or not _IDENTITY.fullmatch(identity):
        return False
    try:
        return (_state_dir() / "made" / identity).read_text() == _digest(content)
    except (OSError, ValueError):
        return False


def _digest(content: Any) -> str:
    try:
        text = json.dumps(content, sort_keys=True, default=str)
    except TypeError:  # keys that cannot be sorted, which YAML allows
        text = repr(content)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()


def environment_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What of a configuration decides which code its environment runs."""
    return {name: config.get(name) for name in ("env_id", "backend", "env_kwargs")}


def names_module(config: Mapping[str, Any]) -> bool:
    """Whether the environment of a configuration is one of a module."""
    return isinstance(config.get("env_id"), str) and ":" in config["env_id"]


def names_in(value: Any) -> Iterable[str]:
    """Every `module:Name` in plain values."""
    if isinstance(value, str):
        yield from [value] if _NAME.fullmatch(value) else []
    elif isinstance(value, Mapping):
        yield from (name for item in value.values() for name in names_in(item))
    elif isinstance(value, list | tuple):
        yield from (name for item in value for name in names_in(item))
