"""Hyperparameters of other libraries in this one's words, and what they do differently. Pure."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from trimtab.config import Config, ConfigError, from_dict
from trimtab.core.fields import nearest_divisors
from trimtab.core.wording import nearest
from trimtab.libraries import LIBRARIES
from trimtab.libraries.translation_rules import NoCounterpart, Translated


def translate(library: str, fields: dict[str, Any], defaults: bool = True) -> Translated:
    """Fields of another library here. With `defaults`, what it does where nothing is given is translated too."""
    if library not in LIBRARIES:
        raise ConfigError("library", library, f"must be one of {', '.join(LIBRARIES)}")
    theirs = LIBRARIES[library]
    to = Translated(fields=dict(theirs.fixed) if defaults else {}, notes=list(theirs.always))
    values = (theirs.silent if defaults else {}) | fields
    theirs.prepare(values, to)
    for name, value in values.items():
        if name not in theirs.rules:
            close = nearest(name, [*theirs.rules, *theirs.sizes])
            problem = f"{library} has no such field; nearest: {', '.join(close) or 'see the docs'}"
            raise ConfigError(name, value, problem)
        try:
            theirs.rules[name](value, to)
        except NoCounterpart as why:
            to.left_out[name] = str(why)
        except (TypeError, ValueError):
            raise ConfigError(name, value, "cannot be read as a value of this field") from None
    if to.fields.get("clip_vloss") == "clip_coef":
        to.fields["clip_vloss"] = to.fields.get("clip_coef", Config.clip_coef)
    theirs.finish(to)
    return to


def fitting(fields: dict[str, Any], batch: int) -> tuple[Config, list[str]]:
    """A configuration whose minibatches divide its batch, as they need not elsewhere."""
    number, size = fields.pop("num_minibatches", None), fields.pop("minibatch_size", None)
    for name, value in (("num_minibatches", number), ("minibatch_size", size)):
        if value is not None and (not isinstance(value, Integral) or value < 1):
            raise ConfigError(name, value, "must be a whole number of at least 1; nearest: 1")
    size = size or batch // int(number or 1)
    near = min(nearest_divisors(batch, int(size)), key=lambda n: abs(n - size))
    note = f"{batch:,} samples do not divide into minibatches of {size:,}: read as minibatches of {near:,}"
    return from_dict(fields | {"minibatch_size": near}), [note] if near != size else []
