"""`notes/minibatch`: how large should minibatches be? Learning over minibatch sizes at fixed data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from trimtab.config import Config
from trimtab.core.estimate import UNRESOLVED
from trimtab.experiments.claims import Claim, Evidence, Verdict, judge_all
from trimtab.experiments.jobs import MinibatchNoise
from trimtab.experiments.notes.trained_runs import areas_of, contrast
from trimtab.experiments.post.pendulum_runs import effect_over_seeds, gathered, step_at
from trimtab.experiments.run_scores import BROKEN
from trimtab.experiments.source_study import Declared, Figure, Size
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
ONE_ENVIRONMENT = (1, 1024)
SPLIT = (8, 128)

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
DIFFERENT = (
    "The notes name no environment and give ranges for problems that run for long. Here one learning rate serves every "
    "size, so more minibatches are more gradient steps in the same training, and on these easy problems that learns "
    "faster."
)


@dataclass(frozen=True)
class NotesMinibatch(Declared):
    """PPO over numbers of minibatches, the batch and everything else the same."""

    kind: ClassVar[str] = "notes/minibatch"
    summary: ClassVar[str] = "How many minibatches?"
    source: ClassVar[str] = "notes: Batch size, rules of thumb"
    claims: ClassVar[tuple[Claim, ...]] = (N4, N7)
    different: ClassVar[str] = DIFFERENT

    @property
    def environments(self) -> tuple[str, ...]:
        return ("CartPole-v1",) if self.size == "quick" else tuple(OUTPUTS)

    def _train(self, env_id: str, split: tuple[int, int], count: int, k: int) -> Train:
        return Train(_learner(env_id, split, count, STEPS[self.size], self.seed + k), 10)

    def _runs(self) -> dict[tuple[str, str, int], list[Train]]:
        """By environment, split and number of minibatches."""
        seeds = range(SEEDS[self.size])
        runs = {
            (env_id, "8x128", count): [self._train(env_id, SPLIT, count, k) for k in seeds]
            for env_id in self.environments
            for count in COUNTS[self.size]
        }
        for env_id in self.environments:
            runs[env_id, "1x1024", FEWEST] = [self._train(env_id, ONE_ENVIRONMENT, FEWEST, k) for k in seeds]
        return runs

    def _noise(self) -> list[MinibatchNoise]:
        sizes = (8, 16, 32, 64, 128, 256, 512)
        runs = [run for env_id in self.environments for run in self._runs()[env_id, "8x128", FEWEST]]
        return [MinibatchNoise(run, (step_at(run.config, 0.5, 10),), *SPLIT, sizes, 8) for run in runs]

    def jobs(self) -> list[Job]:
        return [*(run for runs in self._runs().values() for run in runs), *self._noise()]

    def measure(self, outcomes: Outcomes) -> dict[str, pl.DataFrame]:
        rows = []
        for (env_id, split, count), runs in self._runs().items():
            for row in areas_of(runs, outcomes):
                about = {"environment": env_id, "split": split, "minibatches": count, "minibatch": BATCH // count}
                rows.append(about | row)
        noise = gathered(self._noise(), outcomes, "minibatches.parquet")
        keys = ["environment", "seed", "quantity", "way", "size"]
        selection = noise.filter(
            (pl.col("way") == "shuffled samples") | pl.col("quantity").is_in(["batch_variance", "sample_variance"])
        )
        return {
            "learning": pl.DataFrame(rows),
            "noise": selection.group_by(keys, maintain_order=True).agg(pl.col("value").mean()),
        }

    # Verdicts ------------------------------------------------------------------------------------------------

    def judge(self, tables: dict[str, pl.DataFrame]) -> list[Verdict]:
        return [self._sizes(tables), self._thresholds(tables["learning"])]

    def _sizes(self, tables: dict[str, pl.DataFrame]) -> Verdict:
        noise, slow = [], []
        for (environment,), here in tables["noise"].group_by("environment", maintain_order=True):
            e, seeds = effect_over_seeds(here, lambda own: _log_noise(own, 16, 256))
            noise.append(Evidence(f"{environment}, noise of 16 over 256", e, seeds))
        phrases = []
        for environment in self.environments:
            learned = _own(tables["learning"], environment)
            means = learned.group_by("minibatches").agg(pl.col("area").mean()).sort("area", descending=True)
            best = int(means["minibatches"][0])
            e = contrast(_areas(learned, [FEWEST]), _areas(learned, [1]))
            slow.append(Evidence(f"{environment}, {FEWEST} minibatches over 1", e, SEEDS[self.size]))
            phrases.append(f"{environment}: best with {best} ({BATCH // best} samples each)")
        sentence = f"By area under the learning curve, {'; '.join(phrases)}."
        return judge_all(N4, "log variance ratio; difference of area under the learning curve", [noise, slow], sentence)

    def _thresholds(self, learning: pl.DataFrame) -> Verdict:
        parts: list[list[Evidence]] = [[], [], [], []]  # a rule each
        for environment in self.environments:
            here = _own(learning, environment)
            counts = COUNTS[self.size]
            inside = [c for c in counts if FEWEST <= c <= MOST]
            sides = {
                f"{FEWEST} to {MOST} minibatches against fewer": (inside, [c for c in counts if c < FEWEST]),
                f"{FEWEST} to {MOST} minibatches against more": (inside, [c for c in counts if c > MOST]),
            }
            least = PER_OUTPUT * OUTPUTS[environment]
            sides[f"minibatches of {least} or more against fewer samples"] = (
                [c for c in counts if BATCH // c >= least],
                [c for c in counts if BATCH // c < least],
            )
            for rule, (name, (good, bad)) in zip(parts, sides.items()):
                e = contrast(_areas(here, good), _areas(here, bad)) if good and bad else UNRESOLVED
                rule.append(Evidence(f"{environment}, {name}", e, SEEDS[self.size]))
            one = learning.filter((pl.col("environment") == environment) & (pl.col("split") == "1x1024"))
            e = contrast(_areas(here, [FEWEST]), [one["area"].to_list()])
            parts[-1].append(Evidence(f"{environment}, several environments against one", e, SEEDS[self.size]))
        effects = "; ".join(f"{e.environment}: {e.effect}" for rule in parts for e in rule)
        sentence = f"Area inside minus outside. {effects}."
        return judge_all(N7, "area under the learning curve, inside minus outside a rule", parts, sentence)

    # What is shown -------------------------------------------------------------------------------------------

    def figures(self, tables: dict[str, pl.DataFrame]) -> dict[str, Figure]:
        from trimtab.experiments.notes import notes_figures as notes

        return {
            "learning": Figure(
                notes.learning_over_minibatches(tables["learning"]),
                "A hill: too few and too many minibatches both learn less. The rule's range is 4 to 32.",
            ),
            "noise": Figure(
                notes.noise_over_size(tables["noise"]), "A line that falls until the batch's own noise is left."
            ),
        }

    def answer(self, tables: dict[str, pl.DataFrame], verdicts: list[Verdict]) -> str:
        return verdicts[0].sentence

    def notes(self) -> list[str]:
        return [
            f"Batches of {BATCH} as 8 × 128, 4 epochs, the same learning rate for every size (3e-4 falling linearly to "
            "0): what a larger minibatch could gain by a larger step is the study of learning rates.",
            "The notes give no environments; these are the ones that learn in minutes.",
            BROKEN,
        ]


def _learner(env_id: str, split: tuple[int, int], count: int, steps: int, seed: int) -> Config:
    scaled = env_id == "Pendulum-v1"
    return Config(
        env_id=env_id,
        num_envs=split[0],
        num_steps=split[1],
        num_minibatches=count,
        update_epochs=4,
        learning_rate=3e-4,
        anneal_lr="linear",
        ent_coef=0.0 if scaled else 0.01,
        norm_obs=scaled,
        norm_reward=scaled,
        total_timesteps=steps,
        seed=seed,
    )


def _own(learning: pl.DataFrame, environment: str) -> pl.DataFrame:
    return learning.filter((pl.col("environment") == environment) & (pl.col("split") == "8x128"))


def _areas(table: pl.DataFrame, counts: list[int]) -> list[list[float]]:
    return [table.filter(pl.col("minibatches") == count)["area"].to_list() for count in counts]


def _log_noise(own: pl.DataFrame, small: int, large: int) -> float | None:
    at = lambda size: own.filter((pl.col("quantity") == "subsampling") & (pl.col("size") == size))["value"]
    between = own.filter(pl.col("quantity") == "batch_variance")["value"]
    if not (len(at(small)) and len(at(large)) and len(between)):
        return None
    return math.log((at(small)[0] + between[0]) / (at(large)[0] + between[0]))
