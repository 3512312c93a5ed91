"""Engines kept between runs, so that a configuration of a known shape compiles nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING

from trimtab.config import Config

if TYPE_CHECKING:
    from trimtab.training.engine import Engine

MOST_ENGINES = 8  # programs and environments of a few shapes, not of a whole sweep over shapes


class EngineCache:
    """Engines by the shape of their configuration; the least recently used is dropped first.

    Only engines on compiled environments are kept: those hold nothing of the run before.
    """

    def __init__(self, most: int = MOST_ENGINES):
        self.most = most
        self._kept: OrderedDict[Hashable, Engine] = OrderedDict()

    def get(self, config: Config) -> Engine:
        """An engine for a configuration, already compiled where its shape is known."""
        from trimtab.training.engine_setup import build_engine  # JAX: jobs that train nothing do without it

        shape = config.shape
        engine = self._kept.pop(shape, None)
        if engine is None:
            engine = build_engine(config)
        else:
            engine.reconfigure(config)
        if engine.reusable:
            self._kept[shape] = engine
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
        return engine
