"""Where metrics go besides the run directory: TensorBoard events and Weights & Biases."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, Protocol

from trimtab.core.errors import UserError

EXTRAS = {"tensorboardX": "tensorboard", "wandb": "wandb"}


class MissingPackage(UserError):
    """An optional package is needed; the message says which."""


def require_packages(tensorboard: bool, track: bool) -> None:
    """Refuse what cannot be written before anything is."""
    for enabled, package, flag in ((tensorboard, "tensorboardX", "tensorboard"), (track, "wandb", "track")):
        if enabled and importlib.util.find_spec(package) is None:
            raise MissingPackage(f"--{flag} needs a package: pip install 'trimtab[{EXTRAS[package]}]'")


class Sink(Protocol):
    def write(self, step: int, metrics: dict[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Events beside the run, for `tensorboard --logdir`."""

    def __init__(self, path: Path):
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(path / "tensorboard"))

    def write(self, step: int, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WandB:
    """Weights & Biases; WANDB_MODE=offline keeps everything on disk."""

    def __init__(self, path: Path, config: dict[str, Any], project: str = "trimtab"):
        import wandb

        self._run = wandb.init(project=project, dir=str(path), config=config, name=path.name)

    def write(self, step: int, metrics: dict[str, float]) -> None:
        self._run.log(metrics, step=step)

    def close(self) -> None:
        self._run.finish()
