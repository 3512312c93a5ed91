"""Hyperparameters of other libraries as fields here, and fields here as options there."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from trimtab.advise.remedies import Dictionary, Wording
from trimtab.config import Config, ConfigError, from_dict
from trimtab.core import reading
from trimtab.core.fields import base_of, declared_of, nearest_divisors, types_of
from trimtab.core.wording import nearest
from trimtab.libraries import LIBRARIES
from trimtab.libraries.common.foreign_options import NOT_SET, NoCounterpart, Option, Translated, Values
from trimtab.libraries.common.library import Library

FIELDS = {item.name for item in dataclasses.fields(Config)}
# Names of options, by field, that no library above has.
_ALSO_CALLED = {
    "algo": "algorithm",
    "env_id": "env env_name gym_id",
    "num_envs": "n_env num_workers",
    "num_steps": "nsteps horizon rollout_length",
    "num_minibatches": "nminibatches",
    "minibatch_size": "mini_batch_size",
    "update_epochs": "epochs nepoch noptepochs ppo_epochs",
    "total_timesteps": "steps timesteps total_steps total_env_steps",
    "time_limit": "max_episode_steps",
    "learning_rate": "step_size",
    "gamma": "discount",
    "clip_coef": "clip clip_ratio cliprange clip_eps",
    "clip_vloss": "value_clip",
    "ent_coef": "ent_coeff",
    "vf_coef": "value_coef",
    "max_grad_norm": "grad_norm_clip max_gradient_norm",
    "hidden_sizes": "net_arch hidden_size hidden_dim",
    "norm_obs": "normalize_obs",
    "norm_reward": "normalize_reward",
    "eval_every": "eval_freq",
    "eval_episodes": "n_eval_episodes",
    "run_dir": "logdir log_dir out output_dir",
    "track": "wandb",
}
ALIASES = {name: field for field, names in _ALSO_CALLED.items() for name in names.split()}
# Names whose answer is a sentence: an option here, and what to know about it.
SENTENCES = {
    "batch_size": "minibatch_size, or num_envs × num_steps: it is the minibatch in Stable-Baselines3 "
    "and N × T in CleanRL",
    "train_batch_size": "num_envs × num_steps",
    "max_steps": "total_timesteps (of the run) or time_limit (of an episode)",
    "kl_target": "target_kl (stops an iteration; there is no adaptive penalty)",
    "tensorboard_log": "tensorboard (events go into the run's directory)",
}


# Translating ------------------------------------------------------------------------------------------------


def library_named(name: str) -> Library:
    """A library by the name one types; an unknown one is refused with the nearest."""
    if name not in LIBRARIES:
        close = nearest(name, LIBRARIES, count=1, cutoff=0.3)
        hint = f"; nearest: {close[0]}" if close else ""
        raise ConfigError("library", name, f"must be one of {', '.join(LIBRARIES)}{hint}")
    return LIBRARIES[name]


def translate(library: str, fields: Mapping[str, Any], defaults: bool = True) -> Translated:
    """Translate hyperparameters of another library.

    Args:
        library: its name, as in LIBRARIES.
        fields: hyperparameters by their names there, with underscores or dashes; fields of trimtab's own are kept.
        defaults: also translate what the library does where nothing is given.

    Returns:
        Fields here, remarks on what differs, and options without counterpart.
    """
    theirs = library_named(library)
    to = Translated(fields=dict(theirs.fixed) if defaults else {}, notes=list(theirs.always))
    given = {spelled(name, value, theirs): value for name, value in fields.items()}
    values = (theirs.defaults() if defaults else {}) | given
    own = {name: values.pop(name) for name in list(values) if name not in theirs.options}
    theirs.prepare(values, to)
    for name, option in theirs.options.items():
        if name not in values:
            continue
        try:
            option.carry_over(values[name], to)
        except NoCounterpart as why:
            to.left_out[name] = str(why)
        except (TypeError, ValueError, AttributeError):
            raise ConfigError(name, values[name], "cannot be read as a value of this field") from None
    if to.fields.get("clip_vloss") == "clip_coef":
        to.fields["clip_vloss"] = to.fields.get("clip_coef", Config.clip_coef)
    theirs.finish(to)
    if to.fields.get("norm_adv") == "none":
        to.fields.pop("norm_adv_ddof", None)
    to.fields |= own
    return to


def spelled(name: str, value: Any, library: Library) -> str:
    """An option as the library's table has it: --num-envs is num_envs."""
    plain = name.lstrip("-").replace("-", "_")
    for known in (name, plain):
        if known in library.options or known in FIELDS:
            return known
    close = nearest(plain, library.options)
    raise ConfigError(plain, value, f"{library.name} has no such field; nearest: {', '.join(close) or 'see the docs'}")


def fit_minibatches(fields: Values, batch: int) -> tuple[Config, list[str]]:
    """A configuration whose minibatches divide its batch, as they need not elsewhere.

    Args:
        fields: fields here; the minibatch may be of any size.
        batch: N × T.

    Returns:
        The configuration with the nearest minibatch that divides the batch, and a remark if it is another.
    """
    number, size = fields.pop("num_minibatches", None), fields.pop("minibatch_size", None)
    for name, value in (("num_minibatches", number), ("minibatch_size", size)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ConfigError(name, value, "must be a whole number of at least 1; nearest: 1")
    size = size or batch // int(number or 1)
    near = min(nearest_divisors(batch, min(max(1, size), batch)), key=lambda divisor: abs(divisor - size))
    note = f"{batch:,} samples do not divide into minibatches of {size:,}: read as minibatches of {near:,}"
    return from_dict(fields | {"minibatch_size": near}), [note] if near != size else []


def into_range(fields: Values) -> list[str]:
    """Move numbers that no configuration here takes to the nearest that one does; returns remarks on them."""
    notes = []
    for name, value in fields.items():
        declared = declared_of(Config, name)
        is_number = base_of(types_of(Config)[name]) is float and isinstance(value, int | float)
        if is_number and not declared.low <= value <= declared.high:
            near = fields[name] = float(min(max(value, declared.low), declared.high))
            notes.append(f"{name}={value:g} is outside trimtab's range: read as {near:g}")
    return notes


# In the words of a library ----------------------------------------------------------------------------------


def dictionary_of(library: Library) -> Dictionary:
    """Fields under the names of a library's options, for advice to its users."""

    def wording(name: str, value: Any, config: Config) -> Wording | None:
        if name == "num_minibatches" and library.option_for(name) is None:
            name, value = "minibatch_size", value and config.batch // value
        theirs = library.option_for(name)
        there = _value_there(library.options[theirs], value, config) if theirs else NOT_SET
        if theirs and there is not NOT_SET:
            return Wording(theirs, there)
        phrase = library.phrases.get(name)
        return Wording(name, phrase=phrase.format(value=value, **vars(config))) if phrase else None

    return wording


def _value_there(option: Option, value: Any, config: Config) -> Any:
    """What an option is set to for a field to have a value; of a schedule, only its number."""
    if isinstance(value, bool | str):
        with suppress(ConfigError):
            return option.of(from_dict({option.field: value}, config))
    return option.there(value)


def field_here(name: str) -> str | None:
    """The field for an option of another library, or a sentence about it; None for an unknown name."""
    plain = name.lower().lstrip("-").replace("-", "_")
    if answer := SENTENCES.get(plain) or ALIASES.get(plain):
        return answer
    fields = (library.options[plain].field for library in LIBRARIES.values() if plain in library.options)
    return next((field for field in fields if field and field != plain), None)


def option_here(flag: str, options: Iterable[str]) -> str | None:
    """What a flag of another library is called on the command line here, if this command has it.

    Args:
        flag: as it was typed, with its value or without.
        options: the options of the command.

    Returns:
        The option, or a sentence that begins with one.
    """
    answer = field_here(flag.partition("=")[0])
    if answer is None:
        return None
    known = {*FIELDS, "run_dir", "track", "tensorboard"}
    spelled = re.sub(r"\w+", lambda word: f"--{word[0].replace('_', '-')}" if word[0] in known else word[0], answer)
    return spelled if re.split(r"[, ]", spelled)[0] in options else None


# Files and command lines ------------------------------------------------------------------------------------


def read_settings(library: Library, file: str | PathLike[str], env_id: str | None = None) -> Values:
    """Read a file of hyperparameters.

    Args:
        library: whose file it is: RL Zoo's YAML, Isaac Lab's agent.yaml, or plain fields.
        file: its path.
        env_id: for which environment, where the file holds several.

    Returns:
        Hyperparameters by their names there.
    """
    return library.settings(reading.read_yaml_mapping(Path(file), python_tags=True), env_id)


def is_foreign(file: str | PathLike[str]) -> bool:
    """Whether a file holds settings of another library: tables, or names that are no fields here."""
    values = reading.read_yaml_mapping(Path(file), python_tags=True)
    if not values or values.keys() <= FIELDS:
        return False
    return max(_options_in(values, library) for library in LIBRARIES.values()) > len(values.keys() & FIELDS)


def library_of_file(file: str | PathLike[str]) -> Library:
    """The library whose hyperparameters a file holds, recognized by their names."""
    return recognize(reading.read_yaml_mapping(Path(file), python_tags=True), file)


def recognize(values: Values, file: str | PathLike[str]) -> Library:
    """The library that most of these names are options of."""
    scores = {name: _options_in(values, library) for name, library in LIBRARIES.items()}
    best = max(scores.values())
    names = [name for name, score in scores.items() if score == best]
    if not best or len(names) > 1:
        hint = f"options of {' and '.join(names)}" if best else f"options of none of {', '.join(LIBRARIES)}"
        raise ConfigError("library", str(file), f"the file holds {hint}; name its library")
    return LIBRARIES[names[0]]


def _options_in(values: Values, library: Library) -> int:
    """How many of a library's options a file holds, for the environment that has most of them."""
    some = next(iter(values), None) if all(isinstance(value, dict) for value in values.values()) else None
    try:
        settings = library.settings(values, some)
    except (ConfigError, AttributeError, TypeError):
        return 0
    return sum(name.replace("-", "_") in library.options for name in settings)


def parse_hyperparameters(words: Iterable[str]) -> Values:
    """Hyperparameters as the users of any library type them.

    Args:
        words: NAME=VALUE, --NAME VALUE, --NAME=VALUE, --SWITCH or --no-SWITCH.

    Returns:
        Values by name.
    """
    values: Values = {}
    rest = list(words)
    while rest:
        name, equals, text = rest.pop(0).partition("=")
        if not equals and not name.startswith("--"):
            raise ConfigError("fields", name, "must look like n_steps=2048")
        if not equals and rest and not rest[0].startswith("--") and "=" not in rest[0]:
            text = rest.pop(0)
        elif not equals:
            text = "false" if name.startswith("--no-") else "true"
            name = name.replace("--no-", "--", 1)
        values[name] = _parsed(text)
    return values


def _parsed(text: str) -> Any:
    """A value as YAML reads it, and 3e-4 as the number it is."""
    try:
        number = re.fullmatch(r"[+-]?[\d.]+e[+-]?\d+", text, re.IGNORECASE)
        return float(text) if number else reading.parse_yaml(text)
    except (ValueError, yaml.YAMLError):
        return text
