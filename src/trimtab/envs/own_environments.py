"""Users' own environments: `module:Env-v0`, `module:ClassOrFunction`, or a function passed in Python.

A name is enough for every process that works on a run: the module is imported where the work is done, with the current
directory on the path, as `python -m` puts it.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import re
import sys
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePath
from types import CodeType
from typing import Any

from trimtab.core import trust
from trimtab.envs.base import EnvError, nearest, refuse_unknown_options

Constructor = Callable[..., Any]
_PROGRAM = uuid.uuid4().hex
_SAID: set[str] = set()  # lines about environments, which are made and closed several times
_HANDED_OVER: dict[str, Constructor] = {}  # by their names: what was made in a notebook can be made again there


def registered(env_id: str) -> Any:
    """Gymnasium's description (EnvSpec) of an id, of a name in a module, or of a `gymnasium.vector` entry point."""
    import gymnasium

    module_name, colon, name = env_id.rpartition(":")
    if env_id in _HANDED_OVER:
        return described(_HANDED_OVER[env_id], name)
    if not colon:
        try:
            return gymnasium.spec(env_id)
        except gymnasium.error.Error as error:
            raise EnvError(f"env_id: Gymnasium does not have {env_id}: {error}") from error
    module = _imported(env_id, module_name)
    if name in gymnasium.registry:
        return gymnasium.registry[name]
    constructor = _attribute(module, name)
    if callable(constructor):
        return described(constructor, name)
    offered = [i for i, spec in gymnasium.registry.items() if _lives_in(spec, module_name)]
    offered += [n for n, value in vars(module).items() if _is_environment(value)]
    near = nearest(name, offered) or offered[:3]
    hint = f"; nearest: {', '.join(f'{module_name}:{n}' for n in near)}" if near else ""
    raise EnvError(f"env_id: {module_name} registers no {name!r} and has no class or function of that name{hint}")


def described(constructor: Constructor, name: str) -> Any:
    """A constructor as Gymnasium describes environments; one that makes vectors of them is an entry point for these."""
    from gymnasium.envs.registration import EnvSpec
    from gymnasium.vector import VectorEnv

    is_vector = isinstance(constructor, type) and issubclass(constructor, VectorEnv)
    env_id = re.sub(r"[^\w.-]", "", name) or "environment"
    if is_vector:
        return EnvSpec(env_id, entry_point=None, vector_entry_point=constructor)
    return EnvSpec(env_id, entry_point=constructor)


def name_of(constructor: Constructor) -> str:
    """`module:name` of a constructor; other processes can import it from there unless it is in __main__ or inside.

    Lambdas, partials and what is made inside functions share names: a digest of what they are made of tells them
    apart, also in another program. This process knows it by its name from now on.
    """
    if not callable(constructor):
        raise EnvError(f"env: {constructor!r:.60} is not a class or function that makes an environment")
    plain = isinstance(constructor, type) or inspect.isfunction(constructor)
    inner = constructor.__qualname__ if plain else type(constructor).__qualname__
    first = f"{constructor.__module__ if plain else '__main__'}:{inner}"
    if not plain or "<" in inner:
        first += f"#{hashlib.sha256(_made_of(constructor).encode()).hexdigest()[:8]}"
    hand_over(first, constructor)
    return first


def _made_of(value: Any) -> str:
    """What a constructor without a name is made of: its code and all that went into it."""
    if isinstance(value, partial):
        return f"partial {_made_of((value.func, value.args, *sorted(value.keywords.items())))}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_made_of, value))})"
    if isinstance(value, CodeType):
        return f"{value.co_code.hex()} {value.co_names} {_made_of(value.co_consts)}"
    if inspect.isfunction(value) and ("<" in value.__qualname__ or value.__module__ == "__main__"):
        return _made_of((value.__code__, value.__defaults__ or (), *_outside(value)))
    if inspect.isfunction(value) or isinstance(value, type):
        return f"{value.__module__}:{value.__qualname__}"
    if inspect.ismodule(value):
        return value.__name__
    text = repr(value)  # where that is an address, it is of this program alone
    return f"{text} {_PROGRAM}" if " at 0x" in text else text


def _outside(function: Any) -> list[tuple[str, Any]]:
    """The variables that a function takes from around it; of other functions their names are enough."""
    try:
        variables = inspect.getclosurevars(function)
    except ValueError:  # one has no value yet
        return [("unknown", _PROGRAM)]
    used = {**variables.nonlocals, **variables.globals}
    return sorted((name, value.__qualname__ if inspect.isfunction(value) else value) for name, value in used.items())


def refuse_of_this_program(env_id: str) -> None:
    """Raise for an environment that no other process can import, before work is given to one."""
    module, _, name = env_id.partition(":")
    if module in ("__main__", "__mp_main__") or "<" in name:
        problem = "and jobs are done in others: move it to a module and give its name, for example mymodule:MyEnv"
        raise EnvError(f"env_id: {env_id} exists only in the Python program that made it, {problem}")


def hand_over(name: str, constructor: Constructor) -> None:
    """This process makes environments of that name by this constructor."""
    _HANDED_OVER[name] = constructor


def _imported(env_id: str, module_name: str) -> Any:
    if module_name == "__main__":
        raise EnvError(
            f"env_id: {env_id} exists only in the Python program that made it: give it again "
            "(trimtab.load(run, env=...)), or move it to a module"
        )
    if module_name.endswith(".py") or "/" in module_name:
        stem = PurePath(module_name).stem
        problem = f"a module, not a file: from the directory of {stem}.py give {stem}:{env_id.rpartition(':')[2]}"
        raise EnvError(f"env_id: {env_id} must name {problem}")
    trust.refuse_untrusted(env_id)
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.split(".")[0] == error.name.split(".")[0]:
            problem = f"there is no module {error.name!r} in the current directory or on Python's path"
            raise EnvError(f"env_id: {env_id}: {problem}") from error
        raise EnvError(f"env_id: {env_id}: {module_name} needs the package {error.name!r}") from error
    except (Exception, SystemExit) as error:  # whatever the user's module raises
        raise EnvError(f"env_id: {env_id}: importing {module_name} raised {describe_error(error)}") from error


def _attribute(module: Any, name: str) -> Any:
    for part in name.split("."):
        if "<" in part:
            problem = "is inside a function: give it again (trimtab.load(run, env=...))"
            raise EnvError(f"env_id: {module.__name__}:{name} {problem}")
        module = getattr(module, part, None)
    return module


def _lives_in(spec: Any, module_name: str) -> bool:
    point = spec.entry_point or spec.vector_entry_point
    where = point.split(":")[0] if isinstance(point, str) else getattr(point, "__module__", "")
    return where == module_name or where.startswith(f"{module_name}.")


def takes(entry_point: Any, name: str) -> bool:
    """Whether what makes an environment takes an argument of this name."""
    parameters = _parameters(entry_point)
    return name in parameters or _takes_any(parameters)


def refuse_unknown_arguments(env_id: str, entry_point: Any, options: dict[str, Any]) -> None:
    """Check options against the constructor, unless it takes any."""
    if not options:
        return
    try:
        parameters = _parameters(entry_point)
    except (Exception, SystemExit) as error:  # whatever the environment's own module raises
        raise EnvError(f"env_id: Gymnasium cannot make {env_id}: {describe_error(error)}") from error
    if not _takes_any(parameters):
        refuse_unknown_options(env_id, options, parameters)


def _parameters(entry_point: Any) -> Mapping[str, inspect.Parameter]:
    from gymnasium.envs.registration import load_env_creator

    return inspect.signature(load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point).parameters


def _takes_any(parameters: Mapping[str, inspect.Parameter]) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def _is_environment(value: Any) -> bool:
    import gymnasium

    is_class = isinstance(value, type) and issubclass(value, gymnasium.Env | gymnasium.vector.VectorEnv)
    return is_class and value.__module__.split(".")[0] != gymnasium.__name__


def close_quietly(env_id: str, close: Callable[[], Any]) -> None:
    """Close an environment; an error is reported in one line and stops nothing, because all work is done."""
    try:
        close()
    except (Exception, SystemExit) as error:  # whatever the environment's own code raises
        warn_once(f"closing {env_id} raised {describe_error(error)}")


def warn_once(line: str) -> None:
    """Print a warning the first time it occurs."""
    if line not in _SAID:
        _SAID.add(line)
        print(f"trimtab: {line}", file=sys.stderr)


def describe_error(error: BaseException) -> str:
    """An exception in one line, with its type."""
    try:
        words = " ".join(str(error).split())
    except Exception:  # of a class of the user's
        words = ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
