"""The answer of `trimtab split` in a terminal."""

from __future__ import annotations

from typing import Any

from trimtab.report.numbers import estimate, power_of, raised, times
from trimtab.wording import steps

# Columns of the two tables; gradients squared are tiny numbers, so the first four are shown in a power of ten.
ERROR = {"variance": "variance", "individual": "individual", "covariance": "covariance", "bias_sq": "bias²"}
OUTCOME = {"mse_relative": "MSE / |G|²", "ess": "effective samples", "fps": "steps/s", "auc": "AUC"}


def print_split(result: dict[str, Any]) -> None:
    """The table of splits (two where a terminal is narrow), the recommendation, its doubts."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print(
        f"\n{result['env_id']}, batch {result['batch']}, measured at step {result['at']:,} of training "
        f"(γ = {result['gamma']:g}, λ = {result['gae_lambda']:g}; "
        f"horizons 1/(1-γ) = {steps(result['horizon_gamma'])}, "
        f"1/(1-γλ) = {steps(result['horizon_gamma_lambda'])})"
    )
    power = power_of([row[name]["value"] for row in result["rows"] for name in ERROR])
    for columns in [ERROR | OUTCOME] if console.width >= 140 else [ERROR, OUTCOME]:
        console.print(_table(result, columns, power))
    unit = f"in {raised(power)} gradient²" if power else "in gradient²"
    console.print(f"Variance, its two terms and bias² {unit}. Second lines: 95% intervals.\n", style="dim")
    for row in result["predicted"]:
        kind = "extrapolated" if row["extrapolated"] else "from blocks of the measured rows"
        value, _, spread = estimate(times(row["variance"], 10.0**-power), "no interval").partition("\n")
        found = f"{value} ({spread})" if spread else value
        console.print(f"predicted at {row['num_envs']} × {row['num_steps']} ({kind}): variance {found}")
    console.print(f"\n[bold]{result['sentence']}[/bold]")
    if result.get("stage_sentence"):
        console.print(result["stage_sentence"])
    console.print(result["marginal"])
    for doubt in result["doubts"]:
        console.print(f"Doubt: {doubt}.")
    console.print(f"\npage: {result['page']}", soft_wrap=True)


def _table(result: dict[str, Any], columns: dict[str, str], power: int) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("N × T", no_wrap=True)
    for title in columns.values():
        table.add_column(title, justify="right")
    for row in result["rows"]:
        chosen = f"{row['num_envs']}x{row['num_steps']}" == result["recommended"]
        cells = [cell(row[name], 10.0**-power if name in ERROR else 1.0, name in ("fps", "auc")) for name in columns]
        mark = " ←" if chosen else ""
        table.add_row(f"{row['num_envs']} × {row['num_steps']}{mark}", *cells, style="bold" if chosen else None)
    return table


def cell(found: dict[str, Any], scale: float = 1.0, trained: bool = False) -> str:
    """A value over its interval, or what is known of it; a dash where nothing was trained."""
    if trained and found["value"] is None:
        return "-"
    return estimate(times(found, scale), "one seed" if trained else None)
