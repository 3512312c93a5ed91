"""The third term: the covariance between rows of one iteration."""

import dataclasses
from types import SimpleNamespace

import jax
import naive
import numpy as np
import pytest
import tiny

from trimtab.anatomy import decompose, decompose_rows, iteration_statistics, noise_scale
from trimtab.envs.tabular_backend import TabularEnv
from trimtab.gradient import exact
from trimtab.gradient.calibration import Bench, Cell, clock, coverage
from trimtab.gradient.host_rows import LockstepWalk
from trimtab.gradient.probe_options import ProbeOptions
from trimtab.gradient.prober import Prober
from trimtab.gradient.row_sampling import phases_of
from trimtab.nets.agent import Params
from trimtab.training.algorithm import Algorithm, hypers_of


def iterations(rng, count, rows, steps=3, parameters=4, shared=1.0):
    """Rows of an iteration share a vector; steps of a row share another."""
    common = shared * rng.normal(size=(count, 1, 1, parameters))
    own = rng.normal(size=(count, rows, 1, parameters))
    return common + own + rng.normal(size=(count, rows, steps, parameters)) + np.arange(steps)[:, None]


def test_equals_the_naive_twin():
    gradients = iterations(np.random.default_rng(0), 6, 4)
    for num_envs in (4, 9):
        found = decompose(gradients.reshape(24, 3, 4), num_envs, iterations=6)
        individual, within, between = naive.decompose_iterations(gradients, num_envs)
        assert found.individual.value == pytest.approx(individual)
        assert found.covariance.value == pytest.approx(within)
        assert found.between_rows.value == pytest.approx(between)
        assert found.variance.value == pytest.approx(individual + within + between)
        assert found.variance_floor.value == pytest.approx(between * num_envs / (num_envs - 1))
        assert found.ess.value == pytest.approx(num_envs * 3 * individual / found.variance.value)


def test_the_variance_of_a_batch_as_measured_is_that_of_batch_means():
    gradients = iterations(np.random.default_rng(1), 12, 5)
    found = decompose(gradients.reshape(60, 3, 4), 5, iterations=12)
    means = gradients.mean(axis=(1, 2))
    assert found.variance.value == pytest.approx(np.var(means, axis=0, ddof=1).sum())
    assert found.grad_sq.value == pytest.approx(naive.squared_mean(means))


@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_intervals_hold_the_truth(shared):
    """Individual 4 (1 + 1 + shared²) / (N T), within rows 4 (1 + shared²) (T − 1) / (N T), between rows 4 shared²."""
    rng, held = np.random.default_rng(2), []
    truth = (4 * (2 + shared**2) / 24, 4 * (1 + shared**2) * 2 / 24, 7 / 8 * 4 * shared**2)
    for _ in range(60):
        found = decompose(iterations(rng, 32, 8, shared=shared).reshape(256, 3, 4), 8, iterations=32)
        estimates = (found.individual, found.covariance, found.between_rows, found.variance)
        held.append([e.lo <= value <= e.hi for e, value in zip(estimates, (*truth, sum(truth)))])
    assert (np.mean(held, axis=0) >= 0.85).all(), np.mean(held, axis=0)


def test_independent_rows_are_what_they_were():
    """With one row in an iteration the estimates are those of independent rows, intervals included."""
    gradients = iterations(np.random.default_rng(3), 24, 1)
    alone = decompose(gradients[:, 0], 1)
    found = decompose(gradients[:, 0], 1, iterations=24)
    for name in ("variance", "individual", "covariance", "ess", "grad_sq"):
        a, b = getattr(found, name), getattr(alone, name)
        assert (a.value, a.lo, a.hi) == pytest.approx((b.value, b.lo, b.hi)), name
    np.testing.assert_allclose(found.lag_covariance, alone.lag_covariance)
    assert found.between_rows.value == 0 and not alone.between_rows.known
    with pytest.raises(ValueError, match="one row do not tell"):
        decompose(gradients[:, 0], 2, iterations=24)


def test_samples_that_are_no_experience_do_not_count():
    """A masked sample never enters, whatever stands there."""
    rng = np.random.default_rng(4)
    gradients, mask = iterations(rng, 10, 4), rng.random((10, 4, 3)) < 0.8
    broken = np.where(mask[..., None], gradients, np.nan)
    found = decompose_rows(iteration_statistics(broken, mask), 4)
    sums = np.where(mask[..., None], gradients, 0).sum(axis=2)
    gradient = sums.sum(axis=(0, 1)) / mask.sum()
    residuals = (sums - mask.sum(axis=2)[..., None] * gradient).sum(axis=1)
    assert found.variance.value == pytest.approx(np.sum(residuals**2) / 9 / (mask.sum() / 10) ** 2)
    assert found.num_masked == (~mask).sum()


def test_the_noise_scale_is_that_of_the_measured_number_of_rows():
    gradients = iterations(np.random.default_rng(5), 40, 8) + 3.0
    rows = iteration_statistics(gradients)
    found, parts = noise_scale(rows), decompose_rows(rows, 8)
    assert found.trajectory.value == pytest.approx(24 * parts.variance.value / parts.grad_sq.value)
    assert found.environments.value == pytest.approx(8 * parts.variance.value / parts.grad_sq.value)
    assert found.floor.value == pytest.approx(parts.variance_floor.value / parts.grad_sq.value)
    assert found.floor.lo < found.floor.value < found.floor.hi


def test_phases_of_a_lockstep_are_averaged_over_one_cycle():
    mdp, rng = clock(6), np.random.default_rng(6)
    p = exact.problem(mdp, rng.dirichlet(np.ones(2), 6), 0.9, 6)
    score, critic = rng.normal(size=(6, 2, 3)), rng.normal(size=6)
    for num_steps, phases in ((1, 6), (4, 3), (6, 1), (12, 1)):
        gradients = exact.lockstep_gradients(p, score, critic, 0.8, num_steps)
        assert len(gradients) == phases
        stationary = exact.expected_gradient(p, score, critic, 0.8, num_steps)
        if num_steps == 1:
            np.testing.assert_allclose(gradients.mean(axis=0), stationary, atol=1e-12)
        assert (exact.between_rows(gradients) == pytest.approx(0, abs=1e-12)) == (phases == 1)


# Rows drawn in the phases of training -------------------------------------------------------------------------------


class Clock:
    """A probe of the clock by whole iterations of `num_envs` environments that reset together."""

    def __init__(self, num_envs=16, num_steps=2, **options):
        config = tiny.config(num_envs=2, num_steps=num_steps, gamma=0.9, gae_lambda=0.8)
        env = TabularEnv(clock(6))
        algorithm = Algorithm(config, env)
        state = jax.jit(algorithm.init)(jax.random.key(0), hypers_of(config))
        policy = state.params.policy + 0.3 * jax.random.normal(jax.random.key(1), state.params.policy.shape)
        self.state = dataclasses.replace(state, params=Params(policy, state.params.value))
        chosen = ProbeOptions(num_envs=num_envs, replicates=48, correlations=False, **options)
        self.prober = Prober(config, algorithm, self.state, chosen)


@pytest.fixture(scope="module")
def lockstep():
    return Clock()


def holds(estimate, truth):
    """Whether an interval, half as wide again, holds the truth."""
    slack = (estimate.hi - estimate.lo) / 4
    return estimate.lo - slack <= truth <= estimate.hi + slack


def test_iterations_in_lockstep_have_the_exact_term_between_rows(lockstep):
    found = lockstep.prober.anatomy(0)
    assert found.phases == "lockstep" and found.options.start == "training"
    truth = found.exact.variance_floor
    assert truth > 0.2 * found.variance.value, "large enough for an error in it to show"
    assert holds(found.variance_floor, truth) and found.variance_floor.lo > 0
    assert found.between_rows.value == pytest.approx(15 / 16 * found.variance_floor.value)
    parts = found.individual.value + found.covariance.value + found.between_rows.value
    assert found.variance.value == pytest.approx(parts)
    assert holds(found.grad_sq, found.exact.grad_sq) and holds(found.bias_sq, found.exact.bias_sq)
    assert found.mse.value == pytest.approx(found.variance.value + found.bias_sq.value)
    identity = (found.lag_covariance[0] + found.lag_covariance[1]) / 32
    assert identity == pytest.approx(found.individual.value + found.covariance.value, rel=1e-4)


def test_a_slice_of_the_calibration_in_lockstep():
    """Coverage not far from 95% over a few repetitions; `make calibrate` does the whole."""
    bench = Bench(Cell(clock(), 4, 0.9, limited=True, num_rows=256, iterations=32))
    outcome = bench.run(20)
    _, lo, hi = outcome.mean_error_sq
    assert lo - (hi - lo) <= 0 <= hi + (hi - lo)
    shares = coverage(outcome)
    assert min(shares.values()) >= 0.7, shares
    floors = outcome.estimates[:, -1, 0]
    assert outcome.exact_floor is not None and outcome.exact_floor > 0
    assert abs(floors.mean() - outcome.exact_floor) < 4 * floors.std() / np.sqrt(20)


def test_starts_are_common_to_all_environments_and_at_the_phases_of_training(lockstep):
    times = [np.asarray(lockstep.prober.rows(r, None).rollout.obs)[0].argmax(-1) for r in range(24)]
    assert all(len(set(time)) == 1 for time in times)
    assert {int(time[0]) for time in times} == {0, 2, 4}, "multiples of gcd(T, L)"


def test_the_recorded_ages_decide_how_environments_stand_to_each_other():
    assert phases_of(np.array([3.0, 3.0]), 2) == "recorded"
    assert phases_of(np.array([3.0, 3.0]), 2, restorable=False) == "lockstep"
    assert phases_of(np.array([3.0, 3.0, 3.0, 1.0]), 8) == "lockstep"
    assert phases_of(np.array([3.0, 3.0, 2.0, 1.0]), 8) == "spread"


def test_staggered_environments_share_nothing():
    probe = Clock()
    moved = probe.state.env._replace(episode_length=np.array([1.0, 4.0], np.float32))
    found = probe.prober.at(dataclasses.replace(probe.state, env=moved)).anatomy(0)
    assert found.phases == "spread" and found.exact.variance_floor == 0
    assert holds(found.between_rows, 0) and found.between_rows.hi < 0.3 * found.variance.value


def test_the_own_environments_keep_their_recorded_ages():
    """Two environments half a cycle apart: their gradients are of opposite phases, whatever the shift."""
    probe = Clock(num_envs=2, bias=False)
    ages = np.array([0, 3], np.int32)
    env = probe.state.env
    moved = env._replace(env_state=type(env.env_state)(ages, ages), episode_length=ages.astype(np.float32))
    probe.prober.at(dataclasses.replace(probe.state, env=moved))
    assert probe.prober.sampler.phases == "recorded"
    times = [np.asarray(probe.prober.rows(r, None).rollout.obs)[0].argmax(-1) for r in range(8)]
    assert all((time[1] - time[0]) % 6 == 3 for time in times)


def test_successive_iterations_are_as_alike_as_their_phases(lockstep):
    """A cycle of 3 phases: the covariance of a phase with the next, exactly."""
    found, prober = lockstep.prober.anatomy(0), lockstep.prober
    policy, score = exact.policy_tables(prober.algorithm.agent, lockstep.state.params, prober.algorithm.env.state_obs())
    critic = exact.critic_table(prober.algorithm, lockstep.state, prober.algorithm.env.state_obs())
    p = exact.problem(clock(6), policy, 0.9, 6)
    centred = exact.lockstep_gradients(p, score, critic, 0.8, 2)
    centred = centred - centred.mean(axis=0)
    truth = np.mean([centred[k] @ centred[(k + 1) % 3] for k in range(3)]) / found.variance.value
    assert truth < -0.05, "phases of one cycle cancel"
    assert holds(found.phase_autocorrelation, truth)
    assert [prober.sampler.phase(0, r) in (0, 2, 4) for r in range(5)] == 5 * [True]


def test_what_a_batch_is_worth_includes_what_environments_share(lockstep):
    found = lockstep.prober.anatomy(0)
    doubled = found.variance.value - (found.variance.value - found.variance_floor.value) / 2
    assert found.worth.envs_ratio == pytest.approx(doubled / found.variance.value) and found.worth.envs_ratio > 0.55


def test_stationary_starts_do_not_tell_what_rows_share():
    found = Clock(start="stationary").prober.anatomy(0)
    assert not found.between_rows.known and found.phases is None


def test_shorter_rows_are_predicted_with_what_rows_share():
    """Blocks of 2 of rows of 6: a block of all rows is an iteration of 2 steps."""
    found = Clock(num_envs=8, num_steps=6, bias=False, blocks=(2,)).prober.anatomy(0)
    assert found.exact.variance_floor == pytest.approx(0, abs=1e-9), "one phase only"
    measured = Clock(num_envs=24, num_steps=2, bias=False).prober.anatomy(0)
    predicted = found.predicted[2]
    assert predicted.lo <= measured.variance.hi and measured.variance.lo <= predicted.hi
    assert predicted.value > 1.5 * (measured.individual.value + measured.covariance.value)


def test_replicates_double_until_the_variance_is_as_precise_as_asked_for():
    few = Clock(bias=False, precision=1e-3).prober
    few.options = dataclasses.replace(few.options, replicates=8)
    found = few.anatomy(0)
    assert found.options.replicates == 64, "at most 8 times as many"
    assert few.options.replicates == 8, "the next checkpoint begins with as many as planned"
    few.options = dataclasses.replace(few.options, precision=10.0)
    assert few.anatomy(0).options.replicates == 8


def test_walks_of_host_environments_start_at_the_phases_of_training():
    """Every iteration begins after all episodes ended, at a multiple of gcd(T, L)."""

    class Environments:
        spec = SimpleNamespace(time_limit=6)

    class Sampler:
        num_steps, env = 4, Environments()

        def steps(self, seed, count, carry, num_steps):
            ages = [(int(carry.episode_length[0]) + t) % 6 for t in range(num_steps + 1)]
            walked.append(ages[:-1])
            return carry._replace(episode_length=np.full(3, float(ages[-1]))), ages[:-1]

    walked, starts = [], set()
    walk = LockstepWalk(Sampler(), 0, np.zeros((3, 1)))
    for k in range(40):
        before = len(walked)
        starts.add(walk.rows()[0])
        between = [age for ages in walked[before:-1] for age in ages]
        assert k == 0 or walked[before - 1][-1] == 5 or 5 in between, "an episode ended in between"
    assert starts == {0, 2, 4}
