"""Where metrics go besides the run directory: TensorBoard events and Weights & Biases."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol


class MissingPackage(Exception):
    """An optional package is needed; the message says which."""


class Sink(Protocol):
    def write(self, step: int, metrics: dict[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Events beside the run, for `tensorboard --logdir`."""

    def __init__(self, path: Path):
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise MissingPackage("--tensorboard needs a package: pip install 'trimtab[tensorboard]'") from None
        self._writer = SummaryWriter(str(path / "tensorboard"))

    def write(self, step: int, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WandB:
    """Weights & Biases; WANDB_MODE=offline keeps everything on disk."""

    def __init__(self, path: Path, config: dict[str, Any], project: str = "trimtab"):
        try:
            import wandb
        except ImportError:
            raise MissingPackage("--track needs a package: pip install 'trimtab[wandb]'") from None
        self._run = wandb.init(project=project, dir=str(path), config=config, name=path.name)

    def write(self, step: int, metrics: dict[str, float]) -> None:
        self._run.log(metrics, step=step)

    def close(self) -> None:
        self._run.finish()
