"""`make mutations`: break estimators on purpose, one at a time, and see which test goes red.

Each mutant is a copy of the package with one function changed, tested in a folder of its own. The function is found by
its name, and what is replaced in it by its syntax, so mutants survive moves and formatting. Writes
docs/results/estimators.md. A mutant that stays green, or an edit that no longer applies, fails the command.
`python -m benchmarks.mutations WORDS` tries only those whose name holds one of the words, and writes nothing.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Mutant(NamedTuple):
    """One way of breaking the package.

    `symbol` is "file:function" or "file:Class.method"; file names are unique in the package, so no folder is needed.
    Each edit replaces one expression or statement of it by another, or by several statements.
    """

    name: str
    symbol: str
    edits: tuple[tuple[str, str], ...]
    tests: str

    @property
    def file(self) -> Path:
        """The file that has the symbol."""
        (file,) = (ROOT / "src" / "trimtab").rglob(self.symbol.partition(":")[0] + ".py")
        return file

    def source(self) -> str:
        """The file's text with the edits made; ValueError where one does not apply exactly once."""
        text = self.file.read_text()
        tree = ast.parse(text)
        node = _definition(tree, self.symbol.partition(":")[2])
        for old, new in self.edits:
            edit = _Edit(old, new)
            edit.visit(node)
            if edit.count != 1:
                raise ValueError(f"{self.name}: {old!r} occurs {edit.count} times in {self.symbol}")
        return ast.unparse(ast.fix_missing_locations(tree))


def _definition(tree: ast.AST, name: str) -> ast.AST:
    """The function, method or constant of a dotted name."""
    first, _, rest = name.partition(".")
    for node in ast.iter_child_nodes(tree):
        targets = [*getattr(node, "targets", ()), getattr(node, "target", None)]
        names = [getattr(node, "name", None), *(getattr(target, "id", None) for target in targets)]
        if first in names:
            return _definition(node, rest) if rest else node
    raise ValueError(f"{name}: no such definition")


def _parsed(code: str) -> ast.expr | list[ast.stmt]:
    body = ast.parse(code).body
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else body


class _Edit(ast.NodeTransformer):
    """Replaces what has the syntax of `old` by `new`, and counts."""

    def __init__(self, old: str, new: str):
        parsed = _parsed(old)
        self.old, self.new, self.count = parsed[0] if isinstance(parsed, list) else parsed, new, 0
        self.pattern = ast.dump(self.old)

    def visit(self, node: ast.AST):
        if type(node) is type(self.old) and ast.dump(node) == self.pattern:
            self.count += 1
            return _parsed(self.new)
        return self.generic_visit(node)


MUTANTS = [
    Mutant(
        "M for M − 1",
        "variance:RowStatistics._unbiased",
        (("terms = squares * size / (size - 1)", "terms = squares * 1.0"),),
        "tests/gradient/test_variance.py",
    ),
    Mutant(
        "what rows share, without the noise of their means",
        "variance:IterationStatistics.between_terms",
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
        "variance:IterationStatistics._of_rows",
        (("means = self._unbiased(shared / self.num_envs**2)", "means = shared / self.num_envs**2"),),
        "tests/gradient/test_between_rows.py",
    ),
    Mutant(
        "positions pooled (one mean for all t)",
        "variance:_centre",
        (
            (
                "np.where(valid[:, :, None], gradients - gradient, 0.0) - means",
                "np.where(valid[:, :, None], gradients - gradient, 0.0) - means.mean(axis=0)",
            ),
        ),
        "tests/gradient/test_variance.py",
    ),
    Mutant(
        "C_k cut at episode ends",
        "moments:Measurer._second_pass",
        (
            ("samples, reference, valid, mean = inputs", "samples, reference, valid, episode, mean = inputs"),
            (
                "lag_sums(centred @ centred.T)",
                "lag_sums((centred @ centred.T) * (episode[:, None] == episode[None, :]))",
            ),
            (
                "(samples, reference, by_row(rows.valid), means if self.by_env else None)",
                "(samples, reference, by_row(rows.valid), by_row(rows.episode), means if self.by_env else None)",
            ),
        ),
        "tests/gradient/test_probe.py::test_lag_covariances_add_up_to_the_variance",
    ),
    Mutant(
        "correlations not cut at episode ends",
        "correlation:_pairs",
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
        "squared_means:SquareErrors._estimate",
        (
            (
                "low, high = percentile(errors / reported)",
                (
                    "mean = self.directions.mean\n"
                    "drawn = mean @ mean + self.under(mean[None])[0][:, 0]\n"
                    "return Estimate(self.value, *map(float, percentile(drawn)))"
                ),
            ),
        ),
        "tests/gradient/test_bias.py tests/gradient/test_squares.py",
    ),
    Mutant(
        "an interval for |G|² that takes the mean's direction as known",
        "squared_means:_plausible_means",
        (("np.where((root <= length)[:, None], shorter, stretched(right))", "shorter"),),
        "tests/gradient/test_squares.py",
    ),
    Mutant(
        "autoreset rows counted",
        "variance:_checked",
        (("return gradients, valid", "return gradients, np.ones_like(valid)"),),
        "tests/gradient/test_variance.py",
    ),
    Mutant(
        "rows pooled under carry",
        "variance:carry_statistics",
        (
            (
                "moments = [row_moments(gradients[:, n], sums[n], valid[:, n], gradient) for n in range(num_envs)]",
                (
                    "pooled = sum(sums[1:], start=sums[0])\n"
                    "moments = [row_moments(gradients[:, n], pooled, valid[:, n], gradient) for n in "
                    "range(num_envs)]"
                ),
            ),
        ),
        "tests/gradient/test_variance.py",
    ),
    Mutant(
        "lag covariances of masked rows by position, not by sample",
        "variance:RowStatistics.lag_terms",
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
        "light_probe:_of_sums",
        (("weight.sum(0)[:, None] * mean[None]", "num_steps * mean[None]"),),
        "tests/test_gradients.py",
    ),
    Mutant(
        "the spread of advantages as E[x²] − mean²",
        "normalize:update_advantage_moments",
        (
            (
                "return AdvantageMoments(*merge(decayed_moments, advantage.reshape(-1), weight.reshape(-1)))",
                (
                    "sums = weight.sum(), (weight * advantage).sum(), (weight * advantage**2).sum()\n"
                    "before = decayed_moments.count, decayed_moments.count * decayed_moments.mean, "
                    "decayed_moments.deviation + decayed_moments.count * decayed_moments.mean**2\n"
                    "count, total, square = (a + b for a, b in zip(before, sums))\n"
                    "return AdvantageMoments(count, total / count, square - total**2 / count)"
                ),
            ),
        ),
        "tests/test_normalize.py",
    ),
    Mutant("GAE without λ", "returns:gae", (("gamma * gae_lambda * keep", "gamma * keep"),), "tests/test_returns.py"),
    Mutant(
        "truncation as termination",
        "returns:gae",
        (("jnp.where(terminated, 0.0, next_value)", "jnp.where(terminated | truncated, 0.0, next_value)"),),
        "tests/test_returns.py",
    ),
    Mutant(
        "what lies behind an end is multiplied by 0",
        "returns:gae",
        (("jnp.where(terminated, 0.0, next_value)", "(1.0 - terminated) * next_value"),),
        "tests/test_returns.py",
    ),
    Mutant(
        "value targets of a probe in units of rewards",
        "row_sampling:rows_of",
        (("algorithm.in_units_of_values(state, target)", "target"),),
        "tests/test_options.py",
    ),
    Mutant(
        "an adaptive step size moved by rounding",
        "update:minibatch_step",
        (("jnp.where(learner.has_moved, steered, adaptive)", "steered"),),
        "tests/test_options.py",
    ),
    Mutant(
        "a critic taken over without its moments",
        "warm_start:_critic",
        (("return agent.rescale_value(value, stats.std, stats.mean), None", "return value, None"),),
        "tests/test_lengths.py",
    ),
    Mutant(
        "the bias of the exact estimator ignores the time limit",
        "exact:expected_gradient_along_rows",
        (("left = np.minimum(left, p.time_limit - np.arange(p.time_limit))", "pass"),),
        "tests/gradient/test_exact.py",
    ),
    Mutant(
        "reference rollouts stop at the time limit",
        "row_sampling:CompiledSampler._reference",
        (("env.without_time_limit()", "env"),),
        "tests/gradient/test_exact.py",
    ),
    Mutant(
        "an outcome is lost",
        "local_workers:Local.run",
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
        "executor:JobRunner.do",
        (("outcome is not None", "False"),),
        "tests/studies/test_executor.py::test_two_studies_that_share_a_store_do_a_job_once",
    ),
    Mutant(
        "a stale program is reused for other static fields",
        "run_config:Config.shape",
        (
            (
                '((f.name, repr(value)) for f, value in values.items() if part_of(f) == "static")',
                (
                    '((f.name, repr(value)) for f, value in values.items() if part_of(f) == "static" and f.name != '
                    '"update_epochs")'
                ),
            ),
        ),
        "tests/studies/test_executor.py::test_programs_are_kept_by_shape_and_by_nothing_less",
    ),
    Mutant(
        "a job starts before what it needs",
        "executor:Queue.ready",
        (("all(need.identity in self.outcomes for need in job.needs)", "True"),),
        "tests/studies/test_executor.py::test_every_outcome_comes_once_after_what_it_needs",
    ),
    Mutant(
        "one effect of many contradicts a claim by chance",
        "claims:_word",
        (("beyond(e, least, len(part))", "beyond(e, least)"),),
        "tests/experiments/test_claims.py",
    ),
    Mutant(
        "half of a claim's parts are enough",
        "claims:_weakest",
        (
            (
                "words = [_word(part, least, matters) for part in parts]",
                "words = [_word([e for part in parts for e in part], least, matters)]",
            ),
        ),
        "tests/experiments/test_notes.py",
    ),
    Mutant(
        "a diverged run keeps its last return",
        "learning_curve:LearningCurve.broken_at",
        (("np.full(len(rest), self.value[0])", "np.full(len(rest), self.value[-1])"),),
        "tests/studies/test_study.py::test_a_run_that_diverged_counts_with_the_return_it_began_with",
    ),
    Mutant(
        "the last observation is the environment's own array",
        "contract_checks:Checked._observed",
        (("return np.array(obs)  #", "return np.asarray(obs)  #"),),
        "tests/envs/test_own.py",
    ),
    Mutant(
        "rows after a lost life are learned from",
        "envpool_backend:PoolEnv._finished",
        (("valid = step.valid & ~self._ended", "valid = step.valid"),),
        "tests/envs/test_pool.py::test_after_a_lost_life_the_row_that_resets_is_not_experience",
    ),
    Mutant(
        "groups of images are summed, not averaged",
        "update:_group_by_group",
        (("g * (size / count)", "g * 1.0"),),
        "tests/test_algos.py::test_a_gradient_group_by_group_is_that_of_the_whole_minibatch",
    ),
    Mutant(
        "samples with a common baseline count as independent",
        "group_baselines:_leave_one_out",
        (("[4 * (sizes - 2) / pairs, 2 / pairs]", "[4 / sizes, 0 / pairs]"),),
        "tests/gradient/test_groups.py",
    ),
    Mutant(
        "pairs with a common sample count as different pairs",
        "group_baselines:leave_one_out_terms",
        (("total_sq * pairs**2 - 4 * square_sums + 2 * pair_squares", "total_sq * pairs**2 - 4 * square_sums"),),
        "tests/gradient/test_groups.py",
    ),
    Mutant(
        "progress of a larger batch ignores how noisy it is now",
        "batch_sentence:BatchWorth.progress",
        (("(1 + scale / self.batch) / (1 + ratio * scale / self.batch)", "1 / ratio"),),
        "tests/gradient/test_meter_report.py",
    ),
    Mutant(
        "twice the environments also halve what rows share",
        "meter_report:MeterReport._envs_ratio",
        (("pair * (2 * self.num_envs - 1) / (2 * self.num_envs)", "pair / 2"),),
        "tests/gradient/test_meter_report.py",
    ),
    Mutant(
        "rows that are needed grow with the width of the interval, not with its square",
        "meter_report:MeterReport.rows_needed",
        (("(1.1 * below / value) ** 2 - 1", "1.1 * below / value - 1"),),
        "tests/gradient/test_meter_report.py",
    ),
    Mutant(
        "what varies within groups also counts as between",
        "groups:_Measured.result",
        (("self.parts.row_terms - np.array([t.excess for t in self.terms])", "self.parts.row_terms"),),
        "tests/gradient/test_groups.py",
    ),
    Mutant(
        "halves of a group are not disjoint",
        "group_baselines:standardized_terms",
        (("weights[:, 1]", "weights[:, 0]"),),
        "tests/gradient/test_groups.py",
    ),
    Mutant(
        "iterations share a direction",
        "streams:Pooled.noise_scale",
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
        (Path(folder) / mutant.file.relative_to(ROOT)).write_text(mutant.source())
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
        lines.append(f"| {name} | `{mutant.symbol}` | {f'`{test}`' if test else '**nothing**'} |")
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
