"""The answer of `trimtab split` in a terminal."""

from __future__ import annotations

from typing import Any


def print_split(result: dict[str, Any]) -> None:
    """The table of splits, the recommendation, its doubts."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    horizon = lambda x: "∞" if x is None else f"{x:.3g}"
    console.print(
        f"\n{result['env_id']}, batch {result['batch']}, measured at step {result['at']:,} of training "
        f"(γ = {result['gamma']:g}, λ = {result['gae_lambda']:g}; "
        f"horizons 1/(1-γ) = {horizon(result['horizon_gamma'])}, "
        f"1/(1-γλ) = {horizon(result['horizon_gamma_lambda'])})"
    )
    table = Table("N × T", "variance", "individual", "covariance", "bias²", "MSE / |G|²", "ESS", "steps/s", "AUC")
    for row in result["rows"]:
        name = f"{row['num_envs']}x{row['num_steps']}"
        cells = [cell(row[k]) for k in ("variance", "individual", "covariance", "bias_sq", "mse_relative", "ess")]
        speed = row["fps"]["value"]
        style = "bold" if name == result["recommended"] else None
        mark = " ←" if name == result["recommended"] else ""
        table.add_row(name + mark, *cells, f"{speed:,.0f}" if speed else "-", cell(row["auc"]), style=style)
    console.print(table)
    for row in result["predicted"]:
        kind = "extrapolated" if row["extrapolated"] else "from blocks of the measured rows"
        console.print(f"  predicted at {row['num_envs']}x{row['num_steps']} ({kind}): variance {cell(row['variance'])}")
    console.print(f"\n[bold]{result['sentence']}[/bold]")
    console.print(result["marginal"])
    for doubt in result["doubts"]:
        console.print(f"Doubt: {doubt}.")
    console.print(f"\npage: {result['page']}")


def cell(estimate: dict[str, Any]) -> str:
    """value [lo, hi], or what is known of it."""
    value, lo, hi = (estimate.get(k) for k in ("value", "lo", "hi"))
    if value is None:
        return "not resolved"
    if lo is None or hi is None:
        return f"{value:.3g} (no interval)"
    text = f"{value:.3g} [{lo:.3g}, {hi:.3g}]"
    return text if estimate.get("resolved", True) else f"not resolved {text}"
