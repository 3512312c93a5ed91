"""`notes/reproducible`: do two runs of one configuration give identical curves?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from trimtab.config import Config
from trimtab.experiments.claims import UNDECIDED, Claim, Verdict, Word
from trimtab.experiments.figures import Chart, Figure
from trimtab.experiments.jobs import RepeatedRun
from trimtab.experiments.measures import exactly
from trimtab.experiments.source_study import Size, SourceStudy, Tables
from trimtab.studies.job import Train
from trimtab.studies.store import Outcome
from trimtab.studies.study_engine import Outcomes

STEPS: dict[Size, int] = {"quick": 16_384, "default": 102_400, "full": 1_024_000}

N5 = Claim(
    "N5",
    "Two runs of one configuration give identical curves.",
    "notes, rules of thumb; ground rules, determinism",
    "Every metric of every iteration, but those of time, is the same bit for bit in a second run, in every "
    "configuration tried. One difference and it does not hold there.",
)


SCHEMA = {
    "configuration": pl.String,
    "identical": pl.Boolean,
    "iterations": pl.Int64,
    "compared": pl.Int64,
    "first_difference": pl.String,
}


@dataclass(frozen=True)
class RepeatTables(Tables):
    """A row for every configuration: whether its two runs were identical, and how many numbers were compared."""

    repeats: pl.DataFrame


class Reproducible(SourceStudy[RepeatTables]):
    """One configuration per kind of environment and algorithm, each run twice."""

    kind = "notes/reproducible"
    summary = "Do two runs of one configuration give identical curves?"
    source = "notes: rules of thumb; ground rules"
    claims = (N5,)
    different = (
        "The notes compare graphs by eye, where a difference in the last digit cannot be seen; here every metric of "
        "every iteration is compared bit for bit, on one machine."
    )

    def jobs(self) -> list[RepeatedRun]:
        return [RepeatedRun(Train(config)) for config in self._configs()]

    def _configs(self) -> list[Config]:
        steps = STEPS[self.size]
        common = Config(num_envs=4, num_steps=128, total_timesteps=steps, seed=self.seed)
        cart_pole = common.replace(env_id="CartPole-v1")
        configs = [
            cart_pole,
            common.replace(env_id="Pendulum-v1", norm_obs=True, norm_reward=True),
            common.replace(env_id="FrozenLake8x8-v1", algo="ppo-ewma"),
            cart_pole.replace(backend="gymnasium", total_timesteps=steps // 4),
        ]
        more = [cart_pole.replace(algo="ppg", policy_iterations=8), cart_pole.replace(algo="reinforce")]
        return configs if self.size == "quick" else configs + more

    def measure(self, outcomes: Outcomes) -> RepeatTables:
        rows = [_row(job.config, outcomes[job.identity]) for job in self.jobs()]
        return RepeatTables(pl.DataFrame(rows, schema=SCHEMA, orient="row"))

    def judge(self, tables: RepeatTables) -> list[Verdict]:
        pairs = tables.repeats.drop_nulls("identical")
        evidence = tuple(
            exactly(name, float(same), 2) for name, same in pairs.select("configuration", "identical").iter_rows()
        )
        alike, total, compared = pairs["identical"].sum(), len(pairs), pairs["compared"].sum()
        word: Word = "holds" if alike == total else "contradicted" if alike == 0 else "depends"
        apart = pairs.filter(identical=False).select(pl.format("{} ({})", "configuration", "first_difference"))
        sentence = f"{alike} of {total} configurations repeat exactly: {compared:,} numbers the same."
        sentence += f" Different: {'; '.join(apart.to_series())}." if len(apart) else ""
        needed = "" if total else "no pair of runs was finished; run the study again"
        word = word if total else UNDECIDED
        return [Verdict(N5, word, "1: every metric identical", evidence, sentence, needed)]

    def figures(self, tables: RepeatTables) -> dict[str, Figure]:
        caption = "The number of values compared. A pair of runs that differ is orange."
        return {"repeats": Figure(_repeats_chart(tables.repeats), caption)}

    def answer(self, tables: RepeatTables, verdicts: list[Verdict]) -> str:
        return f"Two runs of one configuration give identical curves: {verdicts[0].word}. {verdicts[0].sentence}"

    def notes(self) -> list[str]:
        return [
            "The notes compare wandb graphs by eye; here every metric of every iteration is compared bit for bit.",
            "Both runs are on one machine, with the same versions; another processor may round otherwise.",
        ]


def _row(config: Config, outcome: Outcome) -> tuple[str, bool | None, int | None, int | None, str]:
    """A row of SCHEMA."""
    name = f"{config.env_id}, {config.algo}" + (f", {config.backend}" if config.backend != "auto" else "")
    result: Mapping[str, Any] = outcome.result if outcome.done else {}
    first = result.get("first_difference")
    difference = f"{first['metric']} at iteration {first['iteration']}" if first else outcome.error or ""
    return name, result.get("identical"), result.get("iterations"), result.get("compared"), difference


def _repeats_chart(table: pl.DataFrame) -> Chart:
    """Numbers compared by configuration, coloured by whether all were the same."""
    import altair as alt

    from trimtab.show import style

    same, other = "identical", "different"
    outcome = pl.when(pl.col("identical")).then(pl.lit(same)).otherwise(pl.lit(other))
    data = table.select("configuration", pl.col("compared").fill_null(0), outcome=outcome)
    axis = alt.Axis(domain=False, ticks=False, labelLimit=260)
    bars = (
        alt.Chart(data)
        .mark_bar(height=alt.RelativeBandSize(0.6))
        .encode(
            y=alt.Y("configuration:N", sort=None, title=None, axis=axis),
            x=alt.X("compared:Q", title="numbers compared"),
            color=style.colored("outcome", [same, other], [style.BLUE, style.ORANGE], symbolType="square"),
            tooltip=["configuration:N", "compared:Q", "outcome:N"],
        )
    )
    return style.themed(
        bars.properties(width=380, height=style.ROW * max(1, len(data))),
        "Two runs of one configuration",
        "Every metric of every iteration, but those of time, compared bit for bit.",
    )
