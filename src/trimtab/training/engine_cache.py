"""EngineCache kept between runs: a configuration of a known shape pays for nothing but its work."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from trimtab.config import Config

if TYPE_CHECKING:
    from trimtab.training.engine import Engine

MOST = 8  # engines kept: programs and environments of a few shapes, not of a whole sweep over shapes


class EngineCache:
    """EngineCache by the shape of their configuration, the least recently used forgotten first.

    Only engines on compiled environments are kept: those hold nothing of the run before.
    """

    def __init__(self, most: int = MOST):
        self.most = most
        self._kept: OrderedDict[tuple, Engine] = OrderedDict()

    def get(self, config: Config) -> Engine:
        """An engine for a configuration, compiled already where its shape is known."""
        from trimtab.training.engine import build  # JAX, which jobs that train nothing do without

        shape = config.shape
        engine = self._kept.pop(shape, None)
        if engine is None:
            engine = build(config)
        else:
            engine.take(config)
        if engine.reusable:
            self._kept[shape] = engine
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
        return engine
