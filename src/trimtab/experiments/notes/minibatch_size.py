"""`notes/minibatch`: how large should minibatches be? Learning over minibatch sizes at fixed data."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from trimtab.core.estimate import UNRESOLVED, Estimate
from trimtab.experiments.claims import Claim, EffectEstimate, Verdict, judge_all
from trimtab.experiments.figures import Chart, Figure, labels_in, lines
from trimtab.experiments.jobs import MinibatchNoise
from trimtab.experiments.measures import gathered, intervals, log_ratio, mean_of, over_seeds
from trimtab.experiments.source_study import Size, SourceStudy, Tables
from trimtab.experiments.trained_runs import BROKEN, areas_of, contrast, small_ppo, step_at
from trimtab.studies.job import Job, Train
from trimtab.studies.study_engine import Outcomes

BATCH = 1024
COUNTS: dict[Size, tuple[int, ...]] = {
    "quick": (1, 4, 32, 128),
    "default": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "full": (1, 2, 4, 8, 16, 32, 64, 128, 256),
}
SEEDS: dict[Size, int] = {"quick": 3, "default": 6, "full": 20}
STEPS: dict[Size, int] = {"quick": 51_200, "default": 204_800, "full": 512_000}
FEWEST, MOST = 4, 32
PER_OUTPUT = 10
OUTPUTS = {"CartPole-v1": 2, "Pendulum-v1": 1}
SEVERAL, ONE = "8x128", "1x1024"  # environments in a minibatch
SPLITS = {SEVERAL: (8, 128), ONE: (1, 1024)}

N4 = Claim(
    "N4",
    "Larger minibatches lower the variance of the gradient, too large ones slow learning.",
    "notes, Batch size",
    "Two parts, both needed, beyond the interval over seeds: the variance of a minibatch gradient of 16 samples over "
    "that of 256 is above 1 (its logarithm above 0); the area under the learning curve with the whole batch as one "
    f"minibatch is below that with {FEWEST}, the fewest that the notes advise, by environment.",
)
N7 = Claim(
    "N7",
    "PPO with 4 to 32 minibatches, a minibatch of at least 10 × the action dimension, samples of several environments "
    "in each.",
    "notes, Batch size, rules of thumb",
    "Each rule, all needed, by environment: the mean area under the learning curve on its inside minus that on its "
    "outside is above 0 beyond Welch's interval over seeds. Rules: 4 to 32 minibatches, against fewer and against "
    "more; at least 10 samples per policy output, against fewer; 8 × 128 against 1 × 1024, whose minibatches have one "
    "environment.",
)


@dataclass(frozen=True)
class _Tables(Tables):
    """Areas under learning curves by split and number of minibatches, and variances of minibatch gradients by size."""

    learning: pl.DataFrame
    noise: pl.DataFrame


class NotesMinibatch(SourceStudy[_Tables]):
    """PPO over numbers of minibatches, the batch and everything else the same."""

    kind = "notes/minibatch"
    summary = "How many minibatches?"
    source = "notes: Batch size, rules of thumb"
    claims = (N4, N7)
    leads = ("N4",)
    different = (
        "The notes name no environment and give ranges for problems that run for long. Here one learning rate serves "
        "every size, so more minibatches are more gradient steps in the same training, and on these easy problems "
        "that learns faster."
    )

    @property
    def environments(self) -> tuple[str, ...]:
        return ("CartPole-v1",) if self.size == "quick" else tuple(OUTPUTS)

    def _trained(self, env_id: str, split: str, count: int) -> list[Train]:
        seeds = range(self.seed, self.seed + SEEDS[self.size])
        config = lambda seed: small_ppo(env_id, SPLITS[split], STEPS[self.size], seed, num_minibatches=count)
        return [Train(config(seed), 10) for seed in seeds]

    def _runs(self) -> dict[tuple[str, str, int], list[Train]]:
        """By environment, split and number of minibatches."""
        several = [(env_id, SEVERAL, count) for env_id in self.environments for count in COUNTS[self.size]]
        one = [(env_id, ONE, FEWEST) for env_id in self.environments]
        return {setting: self._trained(*setting) for setting in (*several, *one)}

    def _noise(self) -> list[MinibatchNoise]:
        sizes = (8, 16, 32, 64, 128, 256, 512)
        runs = [run for env_id in self.environments for run in self._trained(env_id, SEVERAL, FEWEST)]
        return [MinibatchNoise(run, (step_at(run.config, 0.5, 10),), *SPLITS[SEVERAL], sizes, 8) for run in runs]

    def jobs(self) -> list[Job]:
        return [*(run for runs in self._runs().values() for run in runs), *self._noise()]

    def measure(self, outcomes: Outcomes) -> _Tables:
        areas = [
            areas_of(runs, outcomes, environment=env_id, split=split, minibatches=count, minibatch=BATCH // count)
            for (env_id, split, count), runs in self._runs().items()
        ]
        noise = gathered(self._noise(), outcomes, "minibatches.parquet")
        batches = pl.col("quantity").is_in(["batch_variance", "sample_variance"])
        shown = noise.filter((pl.col("way") == "shuffled samples") | batches)
        keys = ["environment", "seed", "quantity", "way", "size"]
        return _Tables(
            learning=pl.concat(table for table in areas if len(table)),
            noise=shown.group_by(keys, maintain_order=True).agg(pl.col("value").mean()),
        )

    # Verdicts ------------------------------------------------------------------------------------------------

    def judge(self, tables: _Tables) -> list[Verdict]:
        return [self._sizes(tables), self._thresholds(tables.learning)]

    def _learning(self, name: str, effect: Estimate) -> EffectEstimate:
        return EffectEstimate(name, effect, SEEDS[self.size])

    def _sizes(self, tables: _Tables) -> Verdict:
        noise = [
            over_seeds(f"{environment}, noise of 16 over 256", here, _log_noise)
            for (environment,), here in tables.noise.group_by("environment", maintain_order=True)
        ]
        slow, phrases = [], []
        for environment in self.environments:
            learned = tables.learning.filter(environment=environment, split=SEVERAL)
            means = learned.group_by("minibatches").agg(pl.col("area").mean()).sort("area", descending=True)
            best = int(means["minibatches"][0])
            more = contrast(_areas(learned, [FEWEST]), _areas(learned, [1]))
            slow.append(self._learning(f"{environment}, {FEWEST} minibatches over 1", more))
            phrases.append(f"{environment}: best with {best} ({BATCH // best} samples each)")
        sentence = f"By area under the learning curve, {'; '.join(phrases)}."
        return judge_all(N4, "log variance ratio; difference of area under the learning curve", [noise, slow], sentence)

    def _thresholds(self, learning: pl.DataFrame) -> Verdict:
        """Every rule is a part: the settings inside it against those outside."""
        parts: list[list[EffectEstimate]] = [[], [], [], []]
        counts = COUNTS[self.size]
        inside = [c for c in counts if FEWEST <= c <= MOST]
        for environment in self.environments:
            here = learning.filter(environment=environment, split=SEVERAL)
            least = PER_OUTPUT * OUTPUTS[environment]
            large = [c for c in counts if BATCH // c >= least]
            rules = {
                f"{FEWEST} to {MOST} minibatches against fewer": (inside, [c for c in counts if c < FEWEST]),
                f"{FEWEST} to {MOST} minibatches against more": (inside, [c for c in counts if c > MOST]),
                f"minibatches of {least} or more against fewer samples": (large, [c for c in counts if c not in large]),
            }
            for part, (name, (good, bad)) in zip(parts, rules.items()):
                more = contrast(_areas(here, good), _areas(here, bad)) if good and bad else UNRESOLVED
                part.append(self._learning(f"{environment}, {name}", more))
            one = learning.filter(environment=environment, split=ONE)["area"].to_list()
            more = contrast(_areas(here, [FEWEST]), [one])
            parts[-1].append(self._learning(f"{environment}, several environments against one", more))
        effects = "; ".join(f"{e.environment}: {e.effect}" for part in parts for e in part)
        sentence = f"Area inside minus outside. {effects}."
        return judge_all(N7, "area under the learning curve, inside minus outside a rule", parts, sentence)

    # What is shown -------------------------------------------------------------------------------------------

    def figures(self, tables: _Tables) -> dict[str, Figure]:
        return {
            "learning": Figure(
                _learning_chart(tables.learning),
                "A hill means that too few and too many minibatches both learn less. The rule says 4 to 32.",
            ),
            "noise": Figure(_noise_chart(tables.noise), "The line falls to the noise of the whole batch."),
        }

    def notes(self) -> list[str]:
        return [
            f"Batches of {BATCH} as 8 × 128, 4 epochs, the same learning rate for every size (3e-4 falling linearly to "
            "0): what a larger minibatch could gain by a larger step is the study of learning rates.",
            "The notes give no environments; these are the ones that learn in minutes.",
            BROKEN,
        ]


def _areas(table: pl.DataFrame, counts: list[int]) -> list[list[float]]:
    return [table.filter(minibatches=count)["area"].to_list() for count in counts]


def _log_noise(own: pl.DataFrame) -> float | None:
    """The log of the variance of a minibatch gradient of 16 samples over that of 256."""
    between = mean_of(own, quantity="batch_variance")
    small, large = (mean_of(own, quantity="subsampling", size=size) for size in (16, 256))
    if between is None or small is None or large is None:
        return None
    return log_ratio(small + between, large + between)


def _learning_chart(learning: pl.DataFrame) -> Chart:
    """Area under the learning curve against minibatches per epoch, a panel for each environment."""
    data = intervals(learning.filter(split=SEVERAL), "minibatches", column="area", panel="environment")
    return lines(
        data,
        "minibatches",
        "minibatches per epoch (logarithmic)",
        "mean return over training",
        "Learning, by the number of minibatches at fixed data",
        "Area under the learning curve, mean over seeds with its 95% interval; batches of 1,024 samples.",
        panels=labels_in(data, "panel"),
        log_x=True,
        zero=False,
    )


def _noise_chart(noise: pl.DataFrame) -> Chart:
    """Variance of a minibatch gradient against its size, relative to the batch's."""
    keys = ["environment", "seed"]
    unit = noise.filter(quantity="batch_variance").select(*keys, unit="value")
    cut = noise.filter(quantity="subsampling").join(unit, on=keys, maintain_order="left")
    cut = cut.with_columns(relative=pl.col("value") / pl.col("unit") + 1)
    data = intervals(cut, "size", column="relative", series="environment")
    return lines(
        data.with_columns(pl.col("lo").clip(lower_bound=1e-3)),
        "size",
        "samples of a minibatch (logarithmic)",
        "variance over the batch's (logarithmic)",
        "The noise of a minibatch gradient, by its size",
        "Variance of one shuffled minibatch's gradient over that of the whole batch; mean over seeds with its 95% "
        "interval.",
        log_x=True,
        log_y=True,
    )
