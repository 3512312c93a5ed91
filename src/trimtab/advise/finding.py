"""Suggestions that a configuration can take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from trimtab.config import Config, ConfigError, from_dict
from trimtab.core.finding import VERDICTS, Finding, Verdict, ordered

__all__ = ["VERDICTS", "Finding", "Verdict", "feasible", "ordered"]


def feasible(findings: Iterable[Finding], config: Config) -> Iterator[Finding]:
    """The same findings; a change that this configuration refuses, or has made already, is not suggested."""
    for finding in findings:
        try:
            changes_nothing = from_dict(finding.change, config) == config
        except ConfigError:
            changes_nothing = True
        yield replace(finding, change={}) if changes_nothing else finding
