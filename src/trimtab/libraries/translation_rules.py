"""How a hyperparameter is carried over: the rules that a library's declaration is made of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from trimtab.config import Config, from_dict
from trimtab.core.fields import choices_of, types_of


@dataclass
class Translated:
    """Fields here, remarks on what is not the same, and what has no counterpart."""

    fields: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def config(self, env_id: str | None) -> Config:
        return from_dict(({"env_id": env_id} if env_id else {}) | self.fields)


Rule = Callable[[Any, Translated], None]
PROBE = 2.5  # a value that comes out as it went in where a rule only renames


@dataclass(frozen=True)
class Library:
    """One library's hyperparameters."""

    rules: dict[str, Rule]
    """By its own names."""
    silent: dict[str, Any]
    """What it does where its user says nothing, if it is not what happens here."""
    fixed: dict[str, Any] = field(default_factory=dict)
    """Fields here that its users cannot choose."""
    always: tuple[str, ...] = ()
    """Remarks on every translation."""
    sizes: tuple[str, ...] = ()
    """Names that mean something only together, read and removed by `prepare`."""
    prepare: Callable[[dict[str, Any], Translated], None] = lambda values, to: None
    finish: Callable[[Translated], None] = lambda to: None


class NoCounterpart(Exception):
    """Why a hyperparameter is left out."""


def same(name: str) -> Rule:
    """Another name for the same thing."""

    def rule(value: Any, to: Translated) -> None:
        to.fields[name] = value

    return rule


def whole(name: str) -> Rule:
    """A whole number, written as any number."""
    return lambda value, to: same(name)(int(float(value)), to)


def times(name: str, factor: float, why: str) -> Rule:
    """The same thing in another unit."""

    def rule(value: Any, to: Translated) -> None:
        if value is not None:
            to.fields[name] = value * factor
            to.notes.append(f"{name}: {value:g} there is {value * factor:g} here, {why}")

    return rule


def nothing(why: str) -> Rule:
    """A field without counterpart; `why` says what happens instead."""

    def rule(value: Any, to: Translated) -> None:
        raise NoCounterpart(why)

    return rule


def names_of(library: Library) -> dict[str, str]:
    """Fields here that are the same thing there under a name of its own."""
    names: dict[str, str] = {}
    for theirs, rule in library.rules.items():
        to = Translated()
        with suppress(NoCounterpart, TypeError, ValueError, AttributeError):
            rule(PROBE, to)
        if list(to.fields.values()) == [PROBE]:
            names.setdefault(next(iter(to.fields)), theirs)
    return names


# Rules of several libraries --------------------------------------------------------------------------------


def step_size(value: Any, to: Translated) -> None:
    """A number, or RL Zoo's lin_3e-4: linear to 0."""
    text = str(value)
    to.fields["learning_rate"] = float(text.removeprefix("lin_"))
    if text.startswith("lin_"):
        to.fields["anneal_lr"] = "linear"


def normalized(value: Any, to: Translated) -> None:
    to.fields["norm_adv"] = "minibatch" if value else "none"
    if value:
        to.notes.append(
            "norm_adv: over each minibatch there, so kept; batch is the default here and couples no samples"
        )


def value_clip(value: Any, to: Translated) -> None:
    """A switch; the range is clip_coef."""
    if value:
        to.fields["clip_vloss"] = "clip_coef"


def activation(value: Any, to: Translated) -> None:
    """One of the functions here, under any library's name for it."""
    name = {"swish": "silu"}.get(str(value).lower(), str(value).lower())
    if name not in (choices_of(types_of(Config)["activation"]) or []):
        raise NoCounterpart("not one of the activations here")
    to.fields["activation"] = name


def schedule(value: Any, to: Translated) -> None:
    """rsl_rl's and brax's: adaptive, by the KL of each minibatch, or fixed."""
    adaptive = str(value).lower() in ("adaptive", "adaptive_kl")
    to.fields["anneal_lr"] = "adaptive" if adaptive else "constant"
