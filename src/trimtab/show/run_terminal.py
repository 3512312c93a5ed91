"""A run in a terminal: a table and a learning curve drawn with characters. Starts in a blink: no JAX, no figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.config import Config
from trimtab.core.answers import print_json
from trimtab.core.terminal import new_console
from trimtab.show.terminal_plot import WIDTH, draw
from trimtab.training.records import Evaluation, MetricsRow
from trimtab.training.run_dir import RunDir

if TYPE_CHECKING:
    from rich.table import Table


def show_run(path: str, as_json: bool, save: str | None, page: str | None = None) -> int:
    """A run in a terminal, or its last row and evaluations as JSON; `save` is a file for its learning curve."""
    run = RunDir.open(path)
    config, rows, evaluations = run.config(), run.metrics(), run.all_evaluations()
    if save:
        from trimtab.show import style

        style.save(
            style.learning_curve_of(rows, title=f"{config.env_id}, {config.algo}"),
            Path(save),
        )
    if as_json:
        answer: dict[str, Any] = {"run": str(run.path), "last": rows[-1] if rows else {}, "evaluations": evaluations}
        print_json(answer | ({"page": page} if page else {}))
        return 0
    console = new_console()
    console.print(_table(run, config, rows, evaluations))
    points = [(row.step, row.mean_return) for row in rows if row.mean_return is not None]
    if points:
        console.print("\nreturn of the last 100 episodes, by environment steps")
        print(draw(points, min(WIDTH, max(20, console.width - 12))))
    else:
        console.print("no episode has finished yet")
    if save:
        console.print(f"saved: {save}")
    if page:
        console.print(f"page: {page}", soft_wrap=True)
    return 0


def _table(run: RunDir, config: Config, rows: list[MetricsRow], evaluations: list[Evaluation]) -> Table:
    from rich.table import Table

    last = rows[-1] if rows else MetricsRow(0, 0)
    table = Table(title=str(run.path), show_header=False, title_justify="left")
    checkpoints = run.checkpoints()
    table.add_row("run", f"{config.algo} on {config.env_id}, seed {config.seed}")
    table.add_row("batch", f"{config.num_envs} × {config.num_steps} = {config.batch}")
    table.add_row("progress", f"iteration {last.iteration} of {config.iterations}, {last.step:,} steps")
    table.add_row("speed", f"{last.fps:,.0f} steps/s")
    table.add_row(
        "checkpoints",
        f"{len(checkpoints)}, the last at step {checkpoints[-1].step:,}" if checkpoints else "none",
    )
    for name in (
        "rollout/ep_rew_mean",
        "rollout/ep_len_mean",
        "train/approx_kl",
        "train/clip_fraction",
        "train/entropy_loss",
        "train/explained_variance",
        "train/grad_norm",
        "train/learning_rate",
    ):
        if name in last.numbers:
            table.add_row(name, f"{last.numbers[name]:.5g}")
    if evaluations:
        e = evaluations[-1]
        table.add_row(
            "last evaluation",
            f"mean {e.mean_reward:.4g}, IQR {e.iqr_low:.4g} to {e.iqr_high:.4g} at step {e.step:,}"
            if e.median_reward is None
            else f"mean {e.mean_reward:.4g}, median {e.median_reward:.4g}, "
            f"IQR {e.iqr_low:.4g} to {e.iqr_high:.4g} at step {e.step:,}",
        )
    return table
