"""The answer of `trimtab split` in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.core.quantities import quantity
from trimtab.core.terminal import new_console, styled
from trimtab.core.wording import steps
from trimtab.show import split_columns
from trimtab.show.numbers import estimate, raised
from trimtab.studies.split_result import SplitResult

if TYPE_CHECKING:
    from rich.table import Table


def print_split(result: SplitResult) -> None:
    """The table of splits (two where a terminal is narrow), the recommendation, its doubts."""
    console = new_console()
    console.print(
        f"\n{result.env_id}, batch {result.batch}, measured at step {result.at:,} of training "
        f"(γ = {result.gamma:g}, λ = {result.gae_lambda:g}; "
        f"horizons 1/(1-γ) = {steps(result.horizon_gamma)}, 1/(1-γλ) = {steps(result.horizon_gamma_lambda)} steps)"
    )
    power = split_columns.power(result.rows)
    for names in [split_columns.ALL] if console.width >= 150 else [split_columns.ERROR, split_columns.OUTCOME]:
        console.print(_table(result, names, power))
    unit = f"in {raised(power)} gradient²" if power else "in gradient²"
    console.print(
        f"Variance, its terms and bias² {unit}. {split_columns.starts(result)}Second lines: 95% intervals.\n",
        style="dim",
    )
    for row in result.predicted:
        kind = "extrapolated" if row.extrapolated else "from blocks of the measured rows"
        value, _, spread = estimate(row.variance.times(10.0**-power), "no interval").partition("\n")
        console.print(f"predicted at {row.label} ({kind}): variance {value}{f' ({spread})' if spread else ''}")
    console.print(styled("\n", (result.sentence, "bold")))
    for stage in result.stages:
        console.print(f"{stage.stage.capitalize()} (step {stage.step:,}): {stage.sentence}.")
    if result.stage_sentence:
        console.print(result.stage_sentence)
    console.print(result.marginal)
    for text in result.explanations:
        console.print(text)
    for doubt in result.doubts:
        console.print(f"Doubt: {doubt}.")
    console.print(f"\npage: {result.page}", soft_wrap=True)


def _table(result: SplitResult, names: tuple[str, ...], power: int) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("N × T", no_wrap=True)
    for name in names:
        table.add_column(quantity(name).label, justify="right")
    for row in result.rows:
        chosen = row.name == result.recommended
        cells = [split_columns.cell(row, name, power) for name in names]
        table.add_row(f"{row.label}{' ←' if chosen else ''}", *cells, style="bold" if chosen else None)
    return table
