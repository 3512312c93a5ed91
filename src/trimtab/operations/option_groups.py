"""What the options of a training run are about: the groups `--help` shows them in, in this order."""

from __future__ import annotations

import dataclasses

from trimtab.config.settings import Settings
from trimtab.core.fields import declaration

GROUPS: dict[str, tuple[str, ...]] = {}
for _item in dataclasses.fields(Settings):
    _title = declaration(_item).group or list(GROUPS)[-1]
    GROUPS[_title] = (*GROUPS.get(_title, ()), _item.name)
