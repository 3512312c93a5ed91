"""`make mutations`: break estimators on purpose, one at a time, and see which test goes red.

Each mutant is a copy of the package with one edit, tested in a folder of its own. Writes docs/results/estimators.md. A
mutant that stays green, or an edit that no longer applies, fails the command. `python -m benchmarks.mutations WORDS`
tries only those whose name holds one of the words, and writes nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Mutant(NamedTuple):
    """What is broken, in which file, by which edits, and the tests that should see it."""

    name: str
    file: str
    edits: tuple[tuple[str, str], ...]
    tests: str


MUTANTS = [
    Mutant(
        "M for M − 1",
        "gradient/variance.py",
        (("terms = squares * size / (size - 1)", "terms = squares * 1.0"),),
        "tests/gradient/test_variance.py",
    ),
    Mutant(
        "what rows share, without the noise of their means",
        "gradient/variance.py",
        (
            (
                "self._unbiased(means) - self._within(self.row_squares, means * self.num_envs**2) / self.num_envs",
                "self._unbiased(means)",
            ),
        ),
        "tests/gradient/test_between_rows.py",
    ),
    Mutant(
        "K for K − 1 iterations",
        "gradient/variance.py",
        (("means = self._unbiased(shared / self.num_envs**2)", "means = shared / self.num_envs**2"),),
        "tests/gradient/test_between_rows.py",
    ),
    Mutant(
        "positions pooled (one mean for all t)",
        "gradient/variance.py",
        (("gradients - gradient, 0.0) - means", "gradients - gradient, 0.0) - means.mean(axis=0)"),),
        "tests/gradient/test_variance.py",
    ),
    Mutant(
        "C_k cut at episode ends",
        "gradient/moments.py",
        (
            ("samples, reference, valid, mean = inputs", "samples, reference, valid, episode, mean = inputs"),
            (
                "lag_sums(centred @ centred.T)",
                "lag_sums((centred @ centred.T) * (episode[:, None] == episode[None, :]))",
            ),
            ("by_row(rows.valid), means if", "by_row(rows.valid), by_row(rows.episode), means if"),
        ),
        "tests/gradient/test_probe.py::test_lag_covariances_add_up_to_the_variance",
    ),
    Mutant(
        "correlations not cut at episode ends",
        "gradient/correlation.py",
        (
            (
                "same = episode[:, : num_steps - lag] == episode[:, lag:]",
                "same = np.ones((num_envs, num_steps - lag), dtype=bool)",
            ),
        ),
        "tests/gradient/test_correlation.py",
    ),
    Mutant(
        "a percentile interval for |G|²",
        "gradient/squared_means.py",
        (
            (
                "        low, high = percentile(errors / reported)\n",
                "        mean = self.directions.mean\n"
                "        drawn = mean @ mean + self.under(mean[None])[0][:, 0]\n"
                "        return Estimate(self.value, *map(float, percentile(drawn)))\n",
            ),
        ),
        "tests/gradient/test_bias.py tests/gradient/test_squares.py",
    ),
    Mutant(
        "an interval for |G|² that takes the mean's direction as known",
        "gradient/squared_means.py",
        (("np.where((root <= length)[:, None], shorter, stretched(right))", "shorter"),),
        "tests/gradient/test_squares.py",
    ),
    Mutant(
        "autoreset rows counted",
        "gradient/variance.py",
        (("    return gradients, valid\n", "    return gradients, np.ones_like(valid)\n"),),
        "tests/gradient/test_variance.py",
    ),
    Mutant(
        "rows pooled under carry",
        "gradient/variance.py",
        (
            (
                "moments = [row_moments(gradients[:, n], sums[n], valid[:, n], gradient) for n in range(num_envs)]",
                "pooled = sum(sums[1:], start=sums[0])\n"
                "    moments = [row_moments(gradients[:, n], pooled, valid[:, n], gradient) for n in range(num_envs)]",
            ),
        ),
        "tests/gradient/test_variance.py",
    ),
    Mutant(
        "lag covariances of masked rows by position, not by sample",
        "gradient/variance.py",
        (
            (
                "self._unbiased(self.lag_products) / (lags - np.arange(lags)) * (lags / self.mean_steps) ** 2",
                "self._unbiased(self.lag_products) / (lags - np.arange(lags))",
            ),
        ),
        "tests/gradient/test_variance.py",
    ),
    Mutant(
        "a light probe whose rows all count as whole ones",
        "training/light_probe.py",
        (("weight.sum(0)[:, None] * mean[None]", "num_steps * mean[None]"),),
        "tests/test_gradients.py",
    ),
    Mutant(
        "the spread of advantages as E[x²] − mean²",
        "math/normalize.py",
        (
            (
                "    return AdvantageMoments(*merge(decayed_moments, advantage.reshape(-1), weight.reshape(-1)))\n",
                "    sums = weight.sum(), (weight * advantage).sum(), (weight * advantage**2).sum()\n"
                "    before = decayed_moments.count, decayed_moments.count * decayed_moments.mean, "
                "decayed_moments.deviation + decayed_moments.count * decayed_moments.mean**2\n"
                "    count, total, square = (a + b for a, b in zip(before, sums))\n"
                "    return AdvantageMoments(count, total / count, square - total**2 / count)\n",
            ),
        ),
        "tests/test_normalize.py",
    ),
    Mutant(
        "GAE without λ",
        "math/returns.py",
        (("gamma * gae_lambda * keep", "gamma * keep"),),
        "tests/test_returns.py",
    ),
    Mutant(
        "truncation as termination",
        "math/returns.py",
        (("jnp.where(terminated, 0.0, next_value)", "jnp.where(terminated | truncated, 0.0, next_value)"),),
        "tests/test_returns.py",
    ),
    Mutant(
        "what lies behind an end is multiplied by 0",
        "math/returns.py",
        (("jnp.where(terminated, 0.0, next_value)", "(1.0 - terminated) * next_value"),),
        "tests/test_returns.py",
    ),
    Mutant(
        "value targets of a probe in units of rewards",
        "gradient/row_sampling.py",
        (("algorithm.in_units_of_values(state, target)", "target"),),
        "tests/test_options.py",
    ),
    Mutant(
        "an adaptive step size moved by rounding",
        "training/update.py",
        (("jnp.where(learner.has_moved, steered, adaptive)", "steered"),),
        "tests/test_options.py",
    ),
    Mutant(
        "a critic taken over without its moments",
        "training/warm_start.py",
        (("return agent.rescale_value(value, stats.std, stats.mean), None", "return value, None"),),
        "tests/test_lengths.py",
    ),
    Mutant(
        "the bias of the exact estimator ignores the time limit",
        "gradient/exact.py",
        (("left = np.minimum(left, p.time_limit - np.arange(p.time_limit))", "pass"),),
        "tests/gradient/test_exact.py",
    ),
    Mutant(
        "reference rollouts stop at the time limit",
        "gradient/row_sampling.py",
        (("env.without_time_limit(), env_state", "env, env_state"),),
        "tests/gradient/test_exact.py",
    ),
    Mutant(
        "an outcome is lost",
        "studies/local_workers.py",
        (
            (
                "yield queue.settle(Outcome(job, store.place(job), message.result, message.seconds))",
                "queue.settle(Outcome(job, store.place(job), message.result, message.seconds))",
            ),
        ),
        "tests/studies/test_executor.py::test_every_outcome_comes_once_after_what_it_needs",
    ),
    Mutant(
        "a job is done twice",
        "studies/executor.py",
        (("if outcome is not None:", "if False:"),),
        "tests/studies/test_executor.py::test_two_studies_that_share_a_store_do_a_job_once",
    ),
    Mutant(
        "a stale program is reused for other static fields",
        "config/run_config.py",
        (('if part_of(f) == "static")', 'if part_of(f) == "static" and f.name != "update_epochs")'),),
        "tests/studies/test_executor.py::test_programs_are_kept_by_shape_and_by_nothing_less",
    ),
    Mutant(
        "a job starts before what it needs",
        "studies/executor.py",
        (("if all(need.identity in self.outcomes for need in job.needs)", "if True"),),
        "tests/studies/test_executor.py::test_every_outcome_comes_once_after_what_it_needs",
    ),
    Mutant(
        "one effect of many contradicts a claim by chance",
        "experiments/claims.py",
        (("surely = [beyond(e, least, len(part)) for e in part]", "surely = [beyond(e, least) for e in part]"),),
        "tests/experiments/test_claims.py",
    ),
    Mutant(
        "half of a claim's parts are enough",
        "experiments/claims.py",
        (
            (
                "words = [_word(part, least) for part in parts]",
                "words = [_word([e for part in parts for e in part], least)]",
            ),
        ),
        "tests/experiments/test_notes.py",
    ),
    Mutant(
        "a diverged run keeps its last return",
        "training/learning_curve.py",
        (("np.full(len(rest), self.value[0])", "np.full(len(rest), self.value[-1])"),),
        "tests/studies/test_study.py::test_a_run_that_diverged_counts_with_the_return_it_began_with",
    ),
    Mutant(
        "the last observation is the environment's own array",
        "envs/contract_checks.py",
        (("return np.array(obs)  #", "return np.asarray(obs)  #"),),
        "tests/envs/test_own.py",
    ),
    Mutant(
        "rows after a lost life are learned from",
        "envs/envpool_backend.py",
        (("valid = step.valid & ~self._ended", "valid = step.valid"),),
        "tests/envs/test_pool.py::test_after_a_lost_life_the_row_that_resets_is_not_experience",
    ),
    Mutant(
        "groups of images are summed, not averaged",
        "training/update.py",
        (("g * (size / count)", "g * 1.0"),),
        "tests/test_algos.py::test_a_gradient_group_by_group_is_that_of_the_whole_minibatch",
    ),
    Mutant(
        "samples with a common baseline count as independent",
        "gradient/group_baselines.py",
        (("[4 * (sizes - 2) / pairs, 2 / pairs]", "[4 / sizes, 0 / pairs]"),),
        "tests/gradient/test_groups.py",
    ),
    Mutant(
        "pairs with a common sample count as different pairs",
        "gradient/group_baselines.py",
        (("total_sq * pairs**2 - 4 * square_sums + 2 * pair_squares", "total_sq * pairs**2 - 4 * square_sums"),),
        "tests/gradient/test_groups.py",
    ),
    Mutant(
        "what varies within groups also counts as between",
        "gradient/groups.py",
        (("self.parts.row_terms - np.array([t.excess for t in self.terms])", "self.parts.row_terms"),),
        "tests/gradient/test_groups.py",
    ),
    Mutant(
        "halves of a group are not disjoint",
        "gradient/group_baselines.py",
        (("products[:, 0], weights[:, 1]", "products[:, 0], weights[:, 0]"),),
        "tests/gradient/test_groups.py",
    ),
    Mutant(
        "iterations share a direction",
        "gradient/streams.py",
        (("found.grad_sq.times(count)", "found.grad_sq"),),
        "tests/gradient/test_streams.py",
    ),
]


def caught(mutant: Mutant) -> str | None:
    """The first test that fails on a mutant; None if all pass."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", Path(folder) / "src")
        shutil.copytree(ROOT / "tests", Path(folder) / "tests")
        shutil.copy(ROOT / "pyproject.toml", folder)
        path = Path(folder) / "src" / "trimtab" / mutant.file
        source = path.read_text()
        for old, new in mutant.edits:
            if old not in source:
                raise SystemExit(f"{mutant.name}: the edit no longer applies to {mutant.file}")
            source = source.replace(old, new)
        path.write_text(source)
        command = [sys.executable, "-m", "pytest", "-x", "-n", "0", "-p", "no:cacheprovider", *mutant.tests.split()]
        environment = os.environ | {"PYTHONPATH": f"{folder}/src", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    failed = [line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    return failed[0].split(" - ")[0] if failed else None


def page(found: dict[str, str | None]) -> str:
    """Every mutant, and the test that saw it."""
    lines = [
        "# Broken on purpose",
        "",
        "Made by `make mutations`: each estimator broken in one way, and the first test that went red.",
        "",
        "| broken | in | caught by |",
        "|---|---|---|",
    ]
    for mutant in MUTANTS:
        name, test = mutant.name.replace("|", "\\|"), found[mutant.name]
        lines.append(f"| {name} | `{mutant.file}` | {f'`{test}`' if test else '**nothing**'} |")
    return "\n".join([*lines, ""])


def main() -> None:
    chosen = [m for m in MUTANTS if not sys.argv[1:] or any(word in m.name for word in sys.argv[1:])]
    found: dict[str, str | None] = {}
    for mutant in chosen:
        found[mutant.name] = caught(mutant)
        print(f"{mutant.name}: {found[mutant.name] or 'SURVIVED'}", flush=True)
    if chosen == MUTANTS:
        (ROOT / "docs" / "results" / "estimators.md").write_text(page(found))
    sys.exit(1 if None in found.values() else 0)


if __name__ == "__main__":
    main()
