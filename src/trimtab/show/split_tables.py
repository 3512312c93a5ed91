"""The answer of `trimtab split` in a terminal."""

from __future__ import annotations

from typing import Any

from trimtab.core.estimate import Estimate
from trimtab.core.quantities import quantity
from trimtab.core.terminal import new_console, styled
from trimtab.core.wording import split_name, steps
from trimtab.show import split_columns
from trimtab.show.numbers import estimate, raised


def print_split(result: dict[str, Any]) -> None:
    """The table of splits (two where a terminal is narrow), the recommendation, its doubts."""
    console = new_console()
    console.print(
        f"\n{result['env_id']}, batch {result['batch']}, measured at step {result['at']:,} of training "
        f"(γ = {result['gamma']:g}, λ = {result['gae_lambda']:g}; "
        f"horizons 1/(1-γ) = {steps(result['horizon_gamma'])}, "
        f"1/(1-γλ) = {steps(result['horizon_gamma_lambda'])})"
    )
    power = split_columns.power(result["rows"])
    for names in [split_columns.ALL] if console.width >= 140 else [split_columns.ERROR, split_columns.OUTCOME]:
        console.print(_table(result, names, power))
    unit = f"in {raised(power)} gradient²" if power else "in gradient²"
    console.print(f"Variance, its two terms and bias² {unit}. Second lines: 95% intervals.\n", style="dim")
    for row in result["predicted"]:
        kind = "extrapolated" if row["extrapolated"] else "from blocks of the measured rows"
        value, _, spread = estimate(Estimate.from_dict(row["variance"]).times(10.0**-power), "no interval").partition(
            "\n"
        )
        variance = f"{value} ({spread})" if spread else value
        console.print(f"predicted at {row['num_envs']} × {row['num_steps']} ({kind}): variance {variance}")
    console.print(styled("\n", (result["sentence"], "bold")))
    for stage in result.get("stages", ()):
        console.print(f"{stage['stage'].capitalize()} (step {stage['step']:,}): {stage['sentence']}.")
    if result.get("stage_sentence"):
        console.print(result["stage_sentence"])
    console.print(result["marginal"])
    for doubt in result["doubts"]:
        console.print(f"Doubt: {doubt}.")
    console.print(f"\npage: {result['page']}", soft_wrap=True)


def _table(result: dict[str, Any], names: tuple[str, ...], power: int) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("N × T", no_wrap=True)
    for name in names:
        table.add_column(quantity(name).label, justify="right")
    for row in result["rows"]:
        chosen = split_name(row["num_envs"], row["num_steps"]) == result["recommended"]
        cells = [split_columns.cell(row, name, power) for name in names]
        mark = " ←" if chosen else ""
        table.add_row(f"{row['num_envs']} × {row['num_steps']}{mark}", *cells, style="bold" if chosen else None)
    return table
