"""Errors that a user can cause. Each is one line; the command line prints it and exits with code 2."""

from __future__ import annotations


class UserError(Exception):
    """A mistake in what was asked or in a file that was read. Its text is one line without a traceback."""


class RunError(UserError):
    """A run directory, study or log that cannot be used as requested."""


class EnvError(UserError, ValueError):
    """An environment that cannot be made as requested; the message says what can."""


class UnreadableFile(RunError):
    """A file that is missing, damaged, too large or not of the expected type."""


class MissingPackage(UserError):
    """An optional package that is needed is not installed; the message says how to install it."""


def one_line(error: BaseException) -> str:
    """The message of any exception on one line, or its type where it has no message."""
    return " ".join(str(error).split()) or type(error).__name__
