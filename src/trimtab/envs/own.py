"""Environments that users bring: `module:Env-v0`, `module:ClassOrFunction`, or a function handed over in Python.

A name is enough for every process that works on a run: the module is imported where the work is done, with the current
directory on the path, as `python -m` puts it.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from .base import EnvError, nearest

Constructor = Callable[..., Any]
_NOT_CLOSED: set[str] = set()  # of which it has been said: they are made and closed several times
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
    points = {"vector_entry_point" if is_vector else "entry_point": constructor}
    return EnvSpec(id=re.sub(r"[^\w.-]", "", name) or "environment", **{"entry_point": None, **points})


def name_of(constructor: Constructor) -> str:
    """`module:name` of a constructor; other processes can import it from there unless it is in __main__ or inside.

    Lambdas, partials and what is made inside functions share names: they are numbered. This process knows it by its
    name from now on.
    """
    if not callable(constructor):
        raise EnvError(f"env: {constructor!r:.60} is not a class or function that makes an environment")
    plain = isinstance(constructor, type) or inspect.isfunction(constructor)
    inner = constructor.__qualname__ if plain else type(constructor).__qualname__
    first = f"{constructor.__module__ if plain else '__main__'}:{inner}"
    if not plain or "<" in inner:
        names = itertools.chain([first], (f"{first}#{k}" for k in itertools.count(2)))
        first = next(name for name in names if _HANDED_OVER.get(name, constructor) is constructor)
    hand_over(first, constructor)
    return first


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
            "(trimtab.resume(run, env=...)), or move it to a module"
        )
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
        raise EnvError(f"env_id: {env_id}: importing {module_name} raised {told(error)}") from error


def _attribute(module: Any, name: str) -> Any:
    for part in name.split("."):
        if "<" in part:
            raise EnvError(f"env_id: {module.__name__}:{name} is inside a function: give it again with env=...")
        module = getattr(module, part, None)
    return module


def _lives_in(spec: Any, module_name: str) -> bool:
    point = spec.entry_point or spec.vector_entry_point
    where = point.split(":")[0] if isinstance(point, str) else getattr(point, "__module__", "")
    return where == module_name or where.startswith(f"{module_name}.")


def _is_environment(value: Any) -> bool:
    import gymnasium

    is_class = isinstance(value, type) and issubclass(value, gymnasium.Env | gymnasium.vector.VectorEnv)
    return is_class and value.__module__.split(".")[0] != "gymnasium"


def close_quietly(env_id: str, close: Callable[[], Any]) -> None:
    """Close an environment; what that raises is told in one line and fails nothing: all it was made for is done."""
    try:
        close()
    except (Exception, SystemExit) as error:  # whatever the environment's own code raises
        if env_id not in _NOT_CLOSED:
            _NOT_CLOSED.add(env_id)
            print(f"trimtab: closing {env_id} raised {told(error)}", file=sys.stderr)


def told(error: BaseException) -> str:
    """An exception in one line."""
    try:
        words = " ".join(str(error).split())
    except Exception:  # of a class of the user's
        words = ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
