"""`post/frozenlake`: the draft's figures on FrozenLake 8x8, 4 × 32 against 32 × 4, with its slider over updates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from trimtab.experiments.claims import Claim, Verdict, judge, judge_all
from trimtab.experiments.figures import Chart, Figure, labels_in, lines, zero_rule
from trimtab.experiments.jobs import Directions
from trimtab.experiments.measures import (
    SPLIT_TEXT,
    difference,
    gathered,
    intervals,
    log_ratio,
    mean_of,
    number,
    over_seeds,
    with_split,
)
from trimtab.experiments.post.pendulum_runs import CLEANRL_VALUE_LOSS, SEEDS, Split
from trimtab.experiments.source_study import Size, SourceStudy, Tables
from trimtab.experiments.trained_runs import base_config
from trimtab.studies.job import Train
from trimtab.studies.study_engine import Outcomes

LONG, SHORT = (4, 32), (32, 4)
SPLITS = {"4x32": "4 × 32", "32x4": "32 × 4"}  # names, and how people read them
UPDATES, EVERY = 1500, 50
CHECKPOINTS = UPDATES // EVERY
SHOWN: dict[Size, tuple[int, ...]] = {
    "quick": (100, 400, 700, 1100, 1500),
    "default": tuple(range(100, 1501, 100)),
    "full": tuple(range(100, 1501, 100)),
}
EPISODES = (150, 250)  # the draft's two episodes
WHOLE = (8, 200)  # rows as long as the time limit, from reset: their first episodes are whole
LENGTHS = ((32, 4), (16, 8), (8, 16), (4, 32), (2, 64))  # splits of 128 samples, for the noise of advantages
FIRST_SHOWN = 400

D1 = Claim(
    "D1",
    "Along one FrozenLake 8x8 episode, cos(g_t, trajectory mean) stays high.",
    "draft, figures at updates 150 and 250",
    "Over many episodes, the mean cosine of g_t with the mean of its trajectory, minus what L independent gradients of "
    "the same lengths have with their own mean (1/√L where all are as long), is above 0 beyond the interval over "
    "seeds, at updates 150 and 250, each.",
    matters=0.05,  # of a cosine
)
D2 = Claim(
    "D2",
    "4 × 32: gradients of batch 0 align with other batches' means in both directions; 32 × 4: consistently.",
    "draft, slider over updates 100 to 1500",
    "Over many batches, the mean over samples of cos(g_i of one batch, mean of another) spreads more (standard "
    "deviation over pairs of batches, mean over updates) at 4 × 32 than at 32 × 4, beyond the interval over seeds.",
    matters=0.05,  # of a cosine
)
D3 = Claim(
    "D3",
    "Advantage estimates at small T are noisier because of bootstrapping.",
    "draft, Effect of Batch Size on Bias",
    "The logarithm of the variance of advantages at T = 4 over that at T = 32, both means over updates, is above 0 "
    "beyond the interval over seeds.",
    matters=math.log(1.25),  # a quarter of the variance
)


@dataclass(frozen=True)
class _Tables(Tables):
    """Cosines between batches, of batch 0, of episodes and along the first ones, and the variance of advantages."""

    alignments: pl.DataFrame
    batch_0: pl.DataFrame
    episodes: pl.DataFrame
    course: pl.DataFrame
    advantages: pl.DataFrame


class FrozenLake(SourceStudy[_Tables]):
    """FrozenLake 8x8 trained as 4 × 32 and as 32 × 4."""

    kind = "post/frozenlake"
    summary = "Do gradients on FrozenLake agree?"
    source = "draft: episodes at updates 150 and 250; slider over updates 100 to 1500"
    claims = (D1, D2, D3)
    leads = ("D1", "D3")
    different = (
        "The draft shows single episodes and five batches of one run, of settings that it does not give; here many "
        "episodes and batches of several seeds, slippery ice, one-hot states, γ 0.99, λ 0.95 and CleanRL's rates."
    )

    def _runs(self, split: Split) -> list[Train]:
        changes: dict[str, Any] = {"learning_rate": 2.5e-4, "gamma": 0.99, "gae_lambda": 0.95, "ent_coef": 0.01}
        seeds = range(self.seed, self.seed + SEEDS[self.size])
        config = lambda seed: base_config(
            "FrozenLake8x8-v1", split, UPDATES * 128, seed, **changes | CLEANRL_VALUE_LOSS
        )
        return [Train(config(seed), CHECKPOINTS) for seed in seeds]

    def jobs(self) -> list[Directions]:
        return [*self._batches(), *self._episodes(), *self._advantages()]

    def _look(self, run: Train, updates: tuple[int, ...], split: Split, count: int, **options: Any) -> Directions:
        at = tuple(update * 128 for update in updates)
        return Directions(run, at, *split, replicates=max(2, count), bias=False, **{"looked": count} | options)

    def _batches(self) -> list[Directions]:
        """Each split on its own runs, at the updates of the slider."""
        count = {"quick": 12, "default": 32, "full": 128}[self.size]
        return [
            self._look(run, SHOWN[self.size], split, count, looked=count // 3)
            for split in (LONG, SHORT)
            for run in self._runs(split)
        ]

    def _episodes(self) -> list[Directions]:
        count = {"quick": 3, "default": 8, "full": 32}[self.size]
        return [self._look(run, EPISODES, WHOLE, count, start="reset") for run in self._runs(LONG)]

    def _advantages(self) -> list[Directions]:
        updates = SHOWN[self.size][:: 4 if self.size == "quick" else 3]
        splits = LENGTHS[::2] if self.size == "quick" else LENGTHS
        return [self._look(run, updates, split, 8) for run in self._runs(LONG) for split in splits if split != LONG]

    def measure(self, outcomes: Outcomes) -> _Tables:
        look = lambda jobs: with_split(gathered(jobs, outcomes, "directions.parquet")).with_columns(
            update=pl.col("step") // 128
        )
        batches, episodes = look(self._batches()), look(self._episodes())
        long = batches.filter(split="4x32")  # the runs of 32 × 4 are other policies
        noise = pl.concat([long, look(self._advantages())]).filter(quantity="advantage_variance")
        others = batches.filter(pl.col("replicate") != pl.col("lag"), quantity="sample_batch_cosine")
        lengths = episodes.filter(quantity="trajectory_cosine")
        chance = episodes.filter(quantity="trajectory_chance")["value"].alias("chance")
        shown = batches.filter(quantity="sample_batch_value", seed=self.seed)
        course = episodes.filter(quantity="trajectory_course", seed=self.seed)
        return _Tables(
            alignments=others.select("seed", "split", "update", "replicate", "lag", "value"),
            batch_0=shown.select("split", "update", batch="replicate", sample="lag", value="value"),
            episodes=lengths.select("seed", "update", length="lag", value="value").with_columns(chance),
            course=course.select("update", episode="replicate", t="lag", value="value"),
            advantages=noise.group_by("seed", "update", "num_steps", maintain_order=True).agg(pl.col("value").mean()),
        )

    # Verdicts ------------------------------------------------------------------------------------------------

    def judge(self, tables: _Tables) -> list[Verdict]:
        return [self._along(tables.episodes), self._others(tables.alignments), self._noise(tables.advantages)]

    def _along(self, episodes: pl.DataFrame) -> Verdict:
        evidence, phrases = [], []
        above = pl.col("value") - pl.col("chance")
        table = episodes.with_columns(above=above, independent=1 / pl.col("length").sqrt())
        for update in EPISODES:
            here = table.filter(update=update)
            effect = over_seeds(f"FrozenLake8x8-v1, update {update}", here, lambda own: mean_of(own, "above"))
            evidence.append([effect])
            mean, chance, uneven = (mean_of(here, name) or math.nan for name in ("value", "independent", "chance"))
            phrases.append(
                f"at update {update} {mean:.2f}, against {chance:.2f} (1/√L) and {uneven:.2f} (as long as these)"
            )
        sentence = (
            f"Mean cosine of gradients with the mean of their episode, over {len(episodes):,} episodes, against that "
            f"of independent gradients: {'; '.join(phrases)}."
        )
        measured = "mean cosine with the trajectory's mean, minus that of independent gradients"
        return judge_all(D1, measured, evidence, sentence)

    def _others(self, alignments: pl.DataFrame) -> Verdict:
        cosine = pl.col("value")
        keys = ["seed", "split", "update"]
        spread = alignments.group_by(keys, maintain_order=True).agg(cosine.std(), negative=(cosine < 0).mean())
        more = lambda own: difference(*(mean_of(own, split=name) for name in SPLITS))
        effect = over_seeds("FrozenLake8x8-v1", spread, more)
        at = lambda name, column: mean_of(spread, column, split=name) or math.nan
        spreads = "; ".join(
            f"{text}: {at(name, 'value'):.3f}, {at(name, 'negative'):.0%} of pairs negative"
            for name, text in SPLITS.items()
        )
        sentence = f"Standard deviation over pairs of batches of the mean cosine with the other's mean. {spreads}."
        return judge(D2, "spread of alignments, 4 × 32 minus 32 × 4", [effect], sentence)

    def _noise(self, advantages: pl.DataFrame) -> Verdict:
        def short_over_long(own: pl.DataFrame) -> float | None:
            short, long = own.filter(num_steps=4), own.filter(num_steps=32)
            both = short.join(long, on="update", suffix="_long")  # the updates that have both
            return log_ratio(number(both["value"].sum()), number(both["value_long"].sum()))

        effect = over_seeds("FrozenLake8x8-v1", advantages, short_over_long)
        sentence = f"Variance of advantages at T = 4 over that at T = 32: {math.exp(effect.effect.value):.2f}."
        return judge(D3, "log ratio of the variance of advantages, T = 4 over T = 32", [effect], sentence)

    # What is shown -------------------------------------------------------------------------------------------

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        updates = sorted(set(tables.batch_0["update"]))
        frames = tuple((f"update {u:,}", against_others(tables.batch_0, u)) for u in updates)
        first = updates.index(FIRST_SHOWN) if FIRST_SHOWN in updates else 0
        return {
            "batch_0": Figure(
                frames[first][1],
                "The draft's columns: 4 × 32 left, 32 × 4 right. Move the slider: are lines of batches 1 to 4 on both "
                "sides of 0 more often on the left?",
                frames,
            ),
            "spread": Figure(
                _spreads_chart(tables.alignments),
                "The same over many batches and seeds. A higher line: cosines differ more between batches.",
            ),
            "course": Figure(
                _courses_chart(tables.course),
                "Dashed: what independent gradients, all as long, have with their own mean: 1/√L.",
            ),
            "episodes": Figure(
                _episodes_chart(tables.episodes),
                "Points above the line: more similar than by chance.",
            ),
            "advantages": Figure(
                _advantages_chart(tables.advantages), "A line that falls to the right: small T is noisier."
            ),
        }

    def notes(self) -> list[str]:
        return [
            "The draft says only FrozenLake 8x8, 4 × 32 and 32 × 4. Inferred: CleanRL's PPO (4 epochs × 4 minibatches, "
            "2.5e-4 falling linearly to 0, γ 0.99, λ 0.95, entropy 0.01, value loss as there), 1,500 updates, slippery "
            "ice, one-hot states.",
            "Each split is probed on runs trained with it, as in the draft; the noise of advantages on the runs of "
            "4 × 32 at every T.",
            *([] if self.size == "quick" else ["Update 1000, which the draft leaves out, is in the slider."]),
            "Episodes for D1 are those of rows of 200 steps from reset; the last one of a row is cut by its end.",
        ]


def against_others(values: pl.DataFrame, update: int) -> Chart:
    """cos(g_i of batch 0, mean of batch j): a row for each j from 0 to 4, a column for each split."""
    import altair as alt

    from trimtab.show import style

    data = values.filter(update=update).select(
        SPLIT_TEXT.alias("column"), pl.format("batch {}", "batch").alias("row"), "sample", pl.col("value").round(3)
    )
    x = alt.X("sample:Q", title="sample", axis=alt.Axis(grid=False, tickCount=4), scale=alt.Scale(nice=False))
    axis = alt.Axis(values=[-0.5, 0.5], format="~g")
    y = alt.Y("value:Q", title="cosine", stack=None, scale=alt.Scale(domain=[-1, 1]), axis=axis)
    sign = alt.condition("datum.value < 0", alt.value(style.RED), alt.value(style.BLUE))
    bars = alt.Chart(data).mark_bar(width=2).encode(x=x, y=y, color=sign)
    cells = alt.layer(bars, zero_rule().encode(y=alt.datum(0)), data=data)
    header = alt.Header(labelAngle=0, labelAlign="left")
    columns = list(SPLITS.values())
    grid = cells.properties(width=280, height=56).facet(
        column=alt.Column("column:N", sort=columns, title=None),
        row=alt.Row("row:N", sort=sorted(set(data["row"])), title=None, header=header),
        spacing=8,
    )
    return style.themed(
        grid.properties(usermeta={"columns": len(columns), "labels": 34}),
        f"Batch 0 against the means of batches 0 to 4, update {update:,}",
        "Cosine of each sample's gradient in batch 0 with the mean gradient of batch j. Blue agrees, red opposes.",
    )


def _spreads_chart(alignments: pl.DataFrame) -> Chart:
    """Standard deviation over pairs of batches of the mean alignment, by update."""
    by_seed = alignments.group_by("seed", "split", "update", maintain_order=True).agg(pl.col("value").std())
    data = intervals(by_seed.with_columns(SPLIT_TEXT), "update", series="split")
    return lines(
        data.with_columns(pl.col("lo").clip(lower_bound=0.0)),  # no spread is below 0
        "update",
        "update",
        "standard deviation of mean cosines",
        "How much batches differ in agreeing with one another",
        "Over pairs of independent batches: spread of the mean cosine of one's samples with the other's mean; over "
        "seeds with its 95% interval.",
        series=list(SPLITS.values()),
    )


def _courses_chart(course: pl.DataFrame) -> Chart:
    """cos(g_t, trajectory mean) along the first episodes of one seed, a panel for each update."""
    import altair as alt

    from trimtab.show import style

    label = pl.format("update {}, {} episodes", "update", pl.col("episode").n_unique().over("update"))
    length = pl.len().over("update", "episode")
    data = course.with_columns(label.alias("panel"), length=length, chance=1 / length.sqrt())
    y = alt.Y("value:Q", title="cosine", scale=alt.Scale(domain=[-1, 1]))
    x = alt.X("t:Q", title="step of the episode", axis=alt.Axis(grid=False))
    base = alt.Chart(data)
    line = base.mark_line(strokeWidth=1.4, opacity=0.8, color=style.BLUE).encode(x=x, y=y, detail="episode:N")
    chance = base.mark_line(strokeDash=[5, 4], color=style.GREY).encode(x=x, y="chance:Q", detail="episode:N")
    layers = alt.layer(line, chance, zero_rule().encode(y=alt.datum(0)), data=data)
    return style.themed(
        style.paneled(layers, labels_in(data, "panel"), height=200),
        "How a gradient agrees with its trajectory, along single episodes",
        "Cosine of g_t with the mean gradient of its episode (solid), and 1/√L for its length L (dashed).",
    )


def _episodes_chart(episodes: pl.DataFrame) -> Chart:
    """Mean cosine of an episode against its length, many episodes, over 1/√L."""
    import altair as alt

    from trimtab.show import style

    data = episodes.sample(min(len(episodes), 1500), seed=0).with_columns(
        pl.format("update {}", "update").alias("series"), pl.lit("episodes").alias("kind")
    )
    labels = sorted(set(data["series"]))
    lengths = pl.DataFrame({"length": range(2, int(max(number(data["length"].max()) or 2, 4)) + 1)})
    curve = lengths.with_columns(value=1 / pl.col("length").sqrt())
    x = alt.X("length:Q", title="steps of the episode (logarithmic)", scale=alt.Scale(type="log", nice=False))
    y = alt.Y("value:Q", title="mean cosine with the trajectory's mean")
    color = style.colored("series", labels, [style.BLUE, style.ORANGE][: len(labels)], symbolType="circle")
    points = alt.Chart(data).mark_point(filled=True, size=16, opacity=0.35).encode(x=x, y=y, color=color)
    line = alt.Chart(curve).mark_line(color="#23282f", strokeDash=[5, 4]).encode(x=x, y="value:Q")
    return style.themed(
        alt.layer(points, line).properties(width=520, height=260),
        "Similarity within an episode, and what chance gives",
        "Each point an episode; dashed, 1/√L: the cosine that L independent gradients have with their own mean.",
    )


def _advantages_chart(advantages: pl.DataFrame) -> Chart:
    """Variance of advantages against T."""
    return lines(
        intervals(advantages, "num_steps"),
        "num_steps",
        "T, steps of a row (logarithmic)",
        "variance of advantages",
        "How noisy advantages are, by the length of rows",
        "Raw advantages of batches of 128 samples, mean over updates and seeds with its 95% interval.",
        log_x=True,
    )
