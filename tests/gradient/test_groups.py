"""Samples in groups, against a slow twin and against strings that are enumerated."""

import itertools

import numpy as np
import pytest

from trimtab.anatomy import GroupError, groups
from trimtab.gradient.enumerated_strings import StringTask
from trimtab.gradient.group_baselines import BASELINES, standardized

RNG = np.random.default_rng(0)


def averages(scores, rewards):
    """E|h(1,2)|², E h(1,2)·h(1,3), |E h|² of one group by loops over different samples."""
    size = range(len(rewards))
    pairs = itertools.permutations(size, 2)
    h = {(i, j): 0.5 * (rewards[i] - rewards[j]) * (scores[i] - scores[j]) for i, j in pairs}
    same = np.mean([h[i, j] @ h[i, j] for i, j in itertools.permutations(size, 2)])
    one = np.mean([h[i, j] @ h[i, k] for i, j, k in itertools.permutations(size, 3)])
    apart = np.mean([h[i, j] @ h[k, m] for i, j, k, m in itertools.permutations(size, 4)])
    return same, one, apart


def pooled_within(gradients):
    return sum((g - gradients.mean(axis=0)) @ (g - gradients.mean(axis=0)) for g in gradients) / (len(gradients) - 1)


def drawn(num_groups=6, size=5, parameters=4):
    scores = RNG.normal(size=(num_groups, size, parameters)) + RNG.normal(size=(num_groups, 1, parameters))
    return scores, RNG.normal(size=(num_groups, size))


def numbered(scores):
    return np.repeat(np.arange(len(scores)), scores.shape[1])


def test_leave_one_out_equals_the_slow_twin():
    scores, rewards = drawn()
    found = groups(scores.reshape(-1, 4), numbered(scores), "rloo", rewards=rewards.ravel())
    means, within, mean_sq = [], [], []
    for s, r in zip(scores, rewards):
        same, one, apart = averages(s, r)
        others = np.array([np.delete(r, k).mean() for k in range(5)])
        means.append(((r - others)[:, None] * s).mean(axis=0))
        within.append((4 * 3 * (one - apart) + 2 * (same - apart)) / (5 * 4))
        mean_sq.append(apart)
    pairs = np.mean([means[i] @ means[j] for i, j in itertools.permutations(range(6), 2)])
    assert found.within.value == pytest.approx(max(np.mean(within), 0))
    assert found.between.value == pytest.approx(np.mean(mean_sq) - pairs)
    assert found.variance.value == pytest.approx(np.trace(np.cov(np.array(means).T)) / 6)
    assert found.grad_sq.value == pytest.approx(pairs)


def test_samples_without_a_baseline_equal_the_slow_twin():
    gradients, _ = drawn()
    found = groups(gradients.reshape(-1, 4), numbered(gradients))
    within = np.mean([pooled_within(g) for g in gradients]) / 5
    means = gradients.mean(axis=1)
    assert found.within.value == pytest.approx(within)
    assert found.between.value == pytest.approx(np.trace(np.cov(means.T)) - within)


@pytest.mark.parametrize("advantages", BASELINES)
def test_inner_products_say_the_same_as_gradients(advantages):
    scores, rewards = drawn(num_groups=9, size=6)
    flat = scores.reshape(-1, 4)
    given = {"rewards": rewards.ravel(), "seed": 3}
    by_vectors = groups(flat, numbered(scores), advantages, (1.0, 0.2), **given)
    by_products = groups(flat @ flat.T, numbered(scores), advantages, (1.0, 0.2), gram=True, **given)
    for name in ("between", "within", "grad_sq", "variance", "best_size", "double_samples"):
        a, b = getattr(by_vectors, name), getattr(by_products, name)
        assert (a.value, a.lo, a.hi) == pytest.approx((b.value, b.lo, b.hi), nan_ok=True), name


@pytest.fixture(scope="module")
def task():
    return StringTask.create(prompts=6, tokens=3, length=2, seed=1)


def test_the_oracle_is_a_policy(task):
    assert task.probability.sum(axis=1) == pytest.approx(np.ones(6))
    assert np.einsum("js,jsp->jp", task.probability, task.score) == pytest.approx(np.zeros((6, task.score.shape[2])))
    by_all_pairs = task.exact("rloo", 2)
    p, s, r = task.probability[0], task.score[0], task.reward[0]
    mean, within = task._group_moments(0, "rloo", 2)
    both = [(p[i] * p[j], 0.5 * (r[i] - r[j]) * (s[i] - s[j])) for i in range(9) for j in range(9)]
    assert mean == pytest.approx(sum(chance * h for chance, h in both))
    assert within == pytest.approx(sum(chance * h @ h for chance, h in both) - mean @ mean)
    assert by_all_pairs.within > task.exact("rloo", 4).within > 0


@pytest.mark.parametrize(
    ("advantages", "size"), [("none", 2), ("none", 5), ("rloo", 3), ("rloo", 4), ("rloo", 6), ("grpo", 4), ("grpo", 6)]
)
def test_terms_have_no_bias(task, advantages, size):
    """Means over thousands of groups of what each says, against the enumerated terms."""
    baseline, rng = BASELINES[advantages], np.random.default_rng(2)
    score, _, reward = task.draw(6000, size, seed=5)
    if advantages == "none":
        score = (reward - task.baseline)[:, None] * score
    grams = np.einsum("jkp,jlp->jkl", *2 * [score.reshape(6000, size, -1)])
    terms = [baseline.terms(gram, r, rng) for gram, r in zip(grams, reward.reshape(6000, size))]
    measured = baseline.measured(size)
    at = baseline.basis(np.array([measured]), measured)[0]
    exact = task.exact(advantages, measured)
    squares = np.array([t.part @ gram @ t.part - t.excess for t, gram in zip(terms, grams)])
    for values, truth in (
        (np.array([at @ t.curve for t in terms]), exact.within),
        (squares, exact.between + exact.grad_sq),
    ):
        assert abs(values.mean() - truth) < 4 * values.std() / np.sqrt(6000)
    if not baseline.extrapolates:  # one size predicts another
        other = baseline.basis(np.array([9]), measured)[0]
        values = np.array([other @ t.curve for t in terms])
        assert abs(values.mean() - task.exact(advantages, 9).within) < 4 * values.std() / np.sqrt(6000)
        assert values.std() / np.sqrt(6000) < 0.1 * task.exact(advantages, 9).within


def exact_best(task, advantages, cost, largest=64):
    baseline = BASELINES[advantages]
    terms = {k: task.exact(advantages, k) for k in range(baseline.fewest, largest + 1)}
    return min(terms, key=lambda k: (terms[k].between + terms[k].within) * (cost[0] + k * cost[1]))


def test_intervals_hold_the_enumerated_terms(task):
    """A look at 30 repetitions; `python -m benchmarks.calibrate_groups` is the measurement."""
    cost, held = (4.0, 0.5), []
    exact, best = task.exact("rloo", 4), exact_best(task, "rloo", cost)
    assert 4 < best < 20
    for seed in range(30):
        score, group, reward = task.draw(96, 4, seed)
        found = groups(score, group, "rloo", cost, rewards=reward, seed=seed)
        truths = (exact.between, exact.within, exact.grad_sq, best)
        estimates = (found.between, found.within, found.grad_sq, found.best_size)
        held.append([e.lo <= truth <= e.hi for e, truth in zip(estimates, truths)])
    assert np.all(np.mean(held, axis=0) >= 0.8)


def test_the_best_size_without_a_baseline_is_the_root_of_the_ratio():
    """K* = √(W/B c_g/c_s) for independent samples: W = 16 per sample, B = 1, costs 4 to 1."""
    rng = np.random.default_rng(1)
    gradients = rng.normal(size=(1500, 6, 1)) * 4 + rng.normal(size=(1500, 1, 1))
    found = groups(gradients.reshape(-1, 1), numbered(gradients), cost=(4.0, 1.0))
    assert found.best_size.lo <= 8 <= found.best_size.hi and 6 <= found.best_size.value <= 11
    assert found.double_samples.value == pytest.approx((1 + 16 / 12) / (1 + 16 / 6), rel=0.15)
    assert "best" in found.sentence


def test_samples_that_differ_only_between_groups():
    rng = np.random.default_rng(1)
    gradients = np.repeat(rng.normal(size=(50, 1, 3)), 4, axis=1) + 1e-3 * rng.normal(size=(50, 4, 3))
    found = groups(gradients.reshape(-1, 3), numbered(gradients), cost=(0.1, 1.0))
    assert found.best_size.value == 1 and found.between.lo > 100 * found.within.hi
    assert "fewer" in found.sentence
    gradients = gradients - gradients.mean(axis=1, keepdims=True) + rng.normal(size=(50, 4, 3))
    found = groups(gradients.reshape(-1, 3), numbered(gradients), cost=(1.0, 0.0))
    assert found.best_size.value == 64 and found.between.lo < 0 < found.between.hi


def test_dividing_by_the_standard_deviation_is_what_grpo_does():
    scores, rewards = drawn(num_groups=8, size=4)
    found = groups(scores.reshape(-1, 4), numbered(scores), "grpo", rewards=rewards.ravel())
    means = np.array([(standardized(r)[:, None] * s).mean(axis=0) for s, r in zip(scores, rewards)])
    assert found.variance.value == pytest.approx(np.trace(np.cov(means.T)) / 8)
    assert found.terms_size == 2 and "half the size" in found.notes[0]


def test_groups_of_different_sizes_and_without_signal():
    rng = np.random.default_rng(4)
    sizes = np.array([4, 5, 6, 4, 7, 4, 5, 8, 4])
    group = np.repeat([f"prompt {j}" for j in range(9)], sizes)
    scores, rewards = rng.normal(size=(sizes.sum(), 3)), rng.normal(size=sizes.sum())
    rewards[group == "prompt 2"] = 1.0
    order = rng.permutation(len(group))
    found = groups(scores, group, "rloo", rewards=rewards)
    mixed = groups(scores[order], group[order], "rloo", rewards=rewards[order])
    assert found.no_signal == mixed.no_signal == 1
    assert found.group_size == pytest.approx(sizes.mean()) and "4 to 8 samples" in found.notes[0]
    assert found.between.value == pytest.approx(mixed.between.value)
    at = [BASELINES["rloo"].terms(s @ s.T, r, rng).excess for s, r in split(scores, rewards, sizes)]
    assert found.within.value == pytest.approx(max(np.mean(at), 0))


def split(scores, rewards, sizes):
    ends = np.cumsum(sizes)[:-1]
    return zip(np.split(scores, ends), np.split(rewards, ends))


def test_a_mean_over_the_tokens_of_a_sample_divides_by_its_length():
    scores, rewards = drawn()
    lengths = RNG.integers(1, 9, size=rewards.shape)
    given = {"rewards": rewards.ravel()}
    found = groups(scores.reshape(-1, 4), numbered(scores), "rloo", lengths=lengths.ravel(), **given)
    divided = scores / lengths[:, :, None]
    assert found.between.value == groups(divided.reshape(-1, 4), numbered(scores), "rloo", **given).between.value
    flat = scores.reshape(-1, 4)
    by_gram = groups(flat @ flat.T, numbered(scores), "rloo", lengths=lengths.ravel(), gram=True, **given)
    assert by_gram.between.value == pytest.approx(found.between.value)


def test_progress_of_a_step():
    """|G|² = 1 and Var(G) = 1/2: twice the groups make (1 + 1/2) / (1 + 1/4) of the progress."""
    rng = np.random.default_rng(6)
    gradients = rng.normal(size=(400, 4, 2)) * np.sqrt(400.0) + np.array([1.0, 0.0])
    found = groups(gradients.reshape(-1, 2), numbered(gradients))
    assert found.grad_sq.lo <= 1 <= found.grad_sq.hi and found.grad_sq.resolved
    noise = found.variance.value / found.grad_sq.value
    assert noise == pytest.approx(0.5, rel=0.5)
    gain = found.progress_of_double_groups
    assert gain.value == pytest.approx((1 + noise) / (1 + noise / 2)) and gain.lo <= 1.2 <= gain.hi
    assert found.noise_scale_groups.value == pytest.approx(400 * noise)
    assert found.noise_scale.value == pytest.approx(4 * 400 * noise)
    weak = groups(gradients.reshape(-1, 2) - np.array([1.0, 0.0]), numbered(gradients))
    assert not weak.grad_sq.resolved and not weak.progress_of_double_groups.resolved


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"advantages": "ppo"}, "advantages: 'ppo' given; one of none, rloo, mean, grpo"),
        ({"rewards": None}, "rewards: needed with advantages='rloo'"),
        ({"group": np.arange(12) // 2}, "2 samples in one; 'rloo' needs at least 3"),
        ({"group": np.zeros(12)}, "1 group given"),
        ({"group": np.zeros(5)}, "group: shape (5,) given, (12,) needed"),
        ({"cost": (0, 0)}, "cost: (0, 0) given"),
        ({"gram": True}, "[samples, samples] needed"),
        ({"gradients": np.full((12, 3), np.nan)}, "gradients: not all numbers are finite"),
        ({"lengths": np.zeros(12)}, "lengths: all must be above 0"),
        ({"largest": 1}, "largest: 1 given"),
    ],
)
def test_mistakes_are_one_line(change, said):
    given = {
        "gradients": np.ones((12, 3)),
        "group": np.arange(12) // 4,
        "advantages": "rloo",
        "rewards": np.arange(12.0),
    } | change
    with pytest.raises(GroupError) as refused:
        groups(**given)
    assert said in str(refused.value) and "\n" not in str(refused.value)
