"""What the meter refuses, in one line."""

from __future__ import annotations

from trimtab.core.errors import UserError


class MeterError(UserError, ValueError):
    """A policy or a batch that cannot be measured; the message says what would do."""
