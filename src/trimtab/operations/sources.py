"""Where a configuration or a run comes from: an environment id, a preset, a path, a Config or a Run.

The one place that turns a source into what is needed: `configure` gives a Config, `run_of` a Run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from trimtab import config as configuration
from trimtab import presets
from trimtab.config import Config, ConfigError
from trimtab.config.settings import Overrides, Settings
from trimtab.core import trust
from trimtab.core.errors import RunError, UserError
from trimtab.core.fields import Place, option, written
from trimtab.core.options import Options, given
from trimtab.envs.own_environments import Constructor
from trimtab.operations import flags
from trimtab.operations.declaration import python_function
from trimtab.operations.flags import Parser
from trimtab.training.progress import interactive
from trimtab.training.run import Run, load
from trimtab.training.run_dir import RunDir

Source = Config | Run | Place


class EnvironmentId(str):
    """An environment's id as it is typed on the command line, where it is neither a path nor a preset."""


@dataclass(frozen=True, kw_only=True)
class Progressing(Options):
    """Progress."""

    quiet: bool | None = option(None, shown=False)
    """Show no progress (default: it is shown in notebooks and at prompts only)."""

    @property
    def silent(self) -> bool:
        """Whether to hide progress: the option, or by default whether nobody is there to see it."""
        return not interactive() if self.quiet is None else self.quiet


@dataclass(frozen=True, kw_only=True)
class Configured(Overrides, Options):
    """Where the configuration comes from."""

    source: Source | None = field(kw_only=False, metadata=written(nargs="?", metavar="env", read=EnvironmentId))
    """Environment id; in Python also a preset, a YAML file, a run's directory, a Config or a Run."""
    preset: str | None = option(None, metavar="NAME", read=str)
    """Preset to start from (default: the environment's own; none: no preset)."""
    config: Place | None = option(None, metavar="FILE")
    """YAML file of fields; they override the preset's, and the other options override them."""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a run that were given."""
        fields = given(self, Settings)
        if isinstance(self.source, EnvironmentId):
            if fields.get("env_id", self.source) != self.source:
                problem = f"the environment was given twice; the other is {self.source}"
                raise ConfigError("env_id", fields["env_id"], problem)
            fields["env_id"] = str(self.source)
        return fields

    @property
    def is_typed(self) -> bool:
        """Whether the configuration comes from a command line: an environment's id or nothing, a preset, a file."""
        return self.source is None or isinstance(self.source, EnvironmentId)

    @property
    def file(self) -> dict[str, Any]:
        """The fields of the YAML file."""
        return presets.read_file(self.config) if self.config else {}

    @property
    def chosen_preset(self) -> str | None:
        """The preset to start from: as asked, else the environment's own for the algorithm, if there is one."""
        return presets.chosen(self.file, self.fields, preset=self.preset)

    def configuration(
        self, env: Constructor | None = None, base: dict[str, Any] | None = None, **changes: Any
    ) -> Config:
        """The requested configuration.

        Args:
            env: makes the environment.
            base: fields below the preset's.
            changes: fields over all others.

        Returns:
            The configuration. An unknown field, preset or environment raises ConfigError with the nearest.
        """
        fields = self.fields | changes
        if self.is_typed:
            named = self.preset or (None if base is None else "none")
            preset = presets.chosen(self.file, fields, preset=named)
            layers = (presets.load(preset) if preset else {}, base or {}, self.file, fields)
            if not any("env_id" in layer for layer in layers):
                raise UserError("name an environment, for example: trimtab train CartPole-v1")
            return presets.layered(self.file, fields, preset=preset or "none", base=base)
        assert self.source is not None
        return _of_source(self.source, self.preset, self.file, fields, env)

    def own_sizes(self) -> tuple[int, int]:
        """N and T without the fields that were given: the preset's or file's, else the defaults."""
        if self.is_typed:
            preset = self.chosen_preset
            fields = (presets.load(preset) if preset else {}) | self.file
            return fields.get("num_envs", Config.num_envs), fields.get("num_steps", Config.num_steps)
        assert self.source is not None
        return _of_source(self.source, self.preset, self.file, {}, None).split


def _of_source(
    source: Source, preset: str | None, file: dict[str, Any], changes: dict[str, Any], env: Constructor | None
) -> Config:
    """The configuration of a source, with some fields changed.

    An environment id and a YAML file of fields lie over the environment's own preset. A Config, a Run and its directory
    are complete. Where `env` makes the environment the id is only a name, and the quick start for its spaces is taken.
    """
    if env is not None and not callable(env):
        raise ConfigError("env", env, "must be a class or function that makes the environment")
    base = _complete(source)
    trust.trust_named(source, source.env_id if isinstance(source, Config) else None, changes.get("env_id"))
    if base is not None:
        if preset not in (None, "none"):
            raise ConfigError("preset", preset, "a run or Config is complete; give an environment id, or leave it out")
        return configuration.from_dict(file | changes, base)
    if str(source) in presets.names():
        if preset is not None:
            raise ConfigError("preset", preset, f"{source} is one already; leave it out")
        return presets.layered(file, changes, preset=str(source))
    layer = presets.read_file(str(source)) if Path(str(source)).is_file() else {"env_id": str(source)}
    return presets.layered(layer, file, changes, preset=preset, env=env)


def _complete(source: Source) -> Config | None:
    """The Config of a source that has all of one."""
    if isinstance(source, Config):
        return source
    if isinstance(source, Run):
        return source.config
    if not isinstance(source, str | PathLike):
        raise ConfigError("source", source, "must be an environment id, a preset, a path, a Config or a Run")
    return load(source).config if RunDir.began(source) else None


@dataclass(frozen=True)
class Configure(Configured):
    """What to configure."""

    env: Constructor | None = field(default=None, kw_only=True)
    """A class or function that makes the environment; the source is then only its name."""


@python_function(Configure)
def configure(options: Configure) -> Config:
    """Make a configuration.

    An environment id and a YAML file of fields override the environment's own preset, as on the command line. A Config,
    a Run and its directory are complete. An unknown field is refused with the nearest.

    Returns:
        The configuration.
    """
    return options.configuration(options.env)


def run_of(source: Run | Place) -> Run:
    """The run of a source.

    Args:
        source: a run, or its directory.

    Returns:
        The run. What is none raises RunError.
    """
    if isinstance(source, Run):
        return source
    if isinstance(source, Config):
        raise RunError("a Config is not a run; `trimtab.train` makes one of it")
    if not isinstance(source, str | PathLike):
        raise RunError(f"{type(source).__name__} {source!r:.40} is not a run; give a Run or its directory")
    if not Path(source).exists():
        raise RunError(f"{source} is not a run directory; `trimtab.train` makes one")
    return load(source)


def describe_preset(parser: Parser, words: list[str]) -> None:
    """Where the words name an environment, show the values of its preset in the help.

    Args:
        parser: of a command that makes a configuration.
        words: the other words of the command.
    """
    arguments = parser.loosely(words)
    if arguments is None or not (hasattr(arguments, "source") or hasattr(arguments, "env_id")):
        parser.epilog = "Name an environment to see the values its preset gives."
        return
    read = flags.values(Settings, arguments)
    env_id = read.setdefault("env_id", getattr(arguments, "source", None))
    file = getattr(arguments, "config", None)
    preset = presets.chosen(presets.read_file(file) if file else {}, read, preset=getattr(arguments, "preset", None))
    if preset is None:
        parser.epilog = f"{env_id}: no preset for this algorithm, or --preset none; the defaults are used."
        return
    parser.epilog = f"The preset is {preset}; --preset none leaves it out."
    values = presets.load(preset)
    for action in parser._actions:
        if action.dest in values and action.dest not in ("env_id", "algo"):  # which chose the preset
            text, _, default = (action.help or "").rpartition(" (default: ")
            value, default = flags.shown(values[action.dest]), default.removesuffix(")")
            otherwise = f"; otherwise {default}" if text and default != value else ""
            action.help = f"{text or action.help} (preset: {value}{otherwise})"
