"""Linear-quadratic systems: the environment, the exact moments of its policy gradient, and a probe beside them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trimtab
from trimtab import envs
from trimtab.core.errors import EnvError
from trimtab.envs.lqr_system import SYSTEMS
from trimtab.gradient.exact_lqr import LQRGradient
from trimtab.gradient.variance import decompose


def gradient_of(name, horizon=6, gain=0.3, **options):
    system = SYSTEMS[name].with_options({"horizon": horizon})
    return LQRGradient(system, gain * system.optimal_gains()[0], **options)


def simulated(exact, rows, seed=0):
    """The slow twin: per-sample gradients [rows, T, P] by playing the system and differentiating by hand."""
    rng, system, gain, std = np.random.default_rng(seed), exact.system, exact.gain, exact.std
    n, m = system.num_states, system.num_controls
    A, B, Q, R = map(system.matrix, "ABQR")
    quadratic = lambda x, matrix: np.einsum("bi,ij,bj->b", x, matrix, x)
    P, p = exact.critic if exact.critic else (np.zeros((n, n)), 0.0)
    x = system.start * rng.normal(size=(rows, n))
    states, explorations, rewards = [x], [], []
    for _ in range(exact.steps):
        e = rng.normal(size=(rows, m))
        u = x @ gain.T + std * e
        rewards.append(-quadratic(x, Q) - quadratic(u, R))
        x = x @ A.T + u @ B.T + system.noise * rng.normal(size=(rows, n))
        states.append(x)
        explorations.append(e)
    values = [quadratic(x, P) + p for x in states]
    if exact.steps == system.horizon:
        values[-1] = np.zeros(rows)
    advantage, gradients = 0.0, []
    for t in reversed(range(exact.steps)):
        delta = rewards[t] + exact.gamma * values[t + 1] - values[t]
        advantage = delta + exact.gamma * exact.gae_lambda * advantage
        e = explorations[t]
        gains = (e[:, :, None] * states[t][:, None, :] / std).reshape(rows, -1)
        gradients.append(np.concatenate([gains, e**2 - 1, e / std], axis=1) * advantage[:, None])
    return np.stack(gradients[::-1], axis=1)


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_mean_of_whole_episodes_is_the_derivative_of_the_expected_return(name):
    exact = gradient_of(name, std=0.7)
    for k in np.ndindex(exact.gain.shape):
        step = np.zeros_like(exact.gain)
        step[k] = 1e-5
        ends = (LQRGradient(exact.system, exact.gain + sign * step, 0.7).expected_return for sign in (1, -1))
        up, down = ends
        index = np.ravel_multi_index(k, exact.gain.shape)
        assert exact.mean[index] * exact.steps == pytest.approx((up - down) / 2e-5, rel=1e-6)


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("options", [{"gamma": 0.95, "gae_lambda": 0.9, "num_steps": 4}, {"gamma": 1.0}])
def test_moments_agree_with_simulation(name, options):
    size = SYSTEMS[name].num_states
    exact = gradient_of(name, std=0.5, critic=(-0.8 * np.eye(size), -0.3), **options)
    row_means = simulated(exact, 200_000).mean(axis=1)
    error = row_means.std(axis=0) / len(row_means) ** 0.5
    assert (np.abs(row_means.mean(axis=0) - exact.mean) < 4 * error).all()
    squares = ((row_means - row_means.mean(axis=0)) ** 2).sum(axis=1)
    variance, individual, within = exact.variance()
    assert abs(squares.mean() - variance) < 4 * squares.std() / len(squares) ** 0.5
    assert variance == pytest.approx(individual + within) and individual > 0


def test_decompose_covers_the_exact_terms():
    """Products of many normals have heavy tails: with 4,096 rows about nine in ten intervals hold the truth."""
    exact = gradient_of("LQR-scalar-v0", std=0.3, critic=(-np.eye(1), 0.0), gamma=0.95, gae_lambda=0.9)
    truth = dict(zip(("variance", "individual", "covariance"), exact.variance(num_envs=16)))
    inside = dict.fromkeys(truth, 0)
    for seed in range(30):
        terms = decompose(simulated(exact, 4096, seed), num_envs=16, seed=seed)
        for name, value in truth.items():
            estimate = getattr(terms, name)
            inside[name] += estimate.lo <= value <= estimate.hi
    assert all(count >= 24 for count in inside.values()), inside


def test_the_environment_follows_the_system():
    env = envs.make("LQR-v0", num_envs=1, env_kwargs={"noise": 0.0, "horizon": 3})
    state, obs = env.reset(jax.random.key(0))
    A, B = env.system.matrix("A"), env.system.matrix("B")
    for t in range(3):
        expected = A @ np.asarray(obs) + B @ np.array([0.5])
        reward = -(obs @ jnp.diag(jnp.array([1.0, 0.1])) @ obs + 0.1 * 0.25)
        state, step = env.step(jax.random.key(t), state, jnp.array([0.5]))
        np.testing.assert_allclose(step.next_obs, expected, rtol=1e-5)
        assert step.reward == pytest.approx(float(reward), rel=1e-5)
        assert (bool(step.terminated), bool(step.truncated)) == (t == 2, False)
        obs = step.next_obs


def test_wrong_systems_are_refused():
    with pytest.raises(EnvError, match="B has shape"):
        envs.make("LQR-v0", num_envs=1, env_kwargs={"A": [[1.0]]})
    with pytest.raises(EnvError, match="no option 'q'"):
        envs.make("LQR-v0", num_envs=1, env_kwargs={"q": [[1.0]]})


@pytest.mark.learning
def test_a_probe_measures_the_exact_variance(tmp_path):
    """The whole pipeline: a linear policy, REINFORCE on whole episodes, per-sample gradients by JAX."""
    horizon = 8
    run = trimtab.train(
        "LQR-scalar-v0",
        tmp_path / "run",
        preset="none",
        algo="reinforce",
        baseline=False,
        hidden_sizes=[],
        num_envs=8,
        num_steps=horizon,
        total_timesteps=8 * horizon,
        gamma=1.0,
        norm_adv="none",
        ent_coef=0.0,
        log_std_init=-1.0,
        env_kwargs={"horizon": horizon},
        quiet=True,
    )
    weights = run.policy(0).weights
    system = SYSTEMS["LQR-scalar-v0"].with_options({"horizon": horizon})
    exact = LQRGradient(system, np.asarray(weights["head.weight"], float).T, float(np.exp(weights["log_std"][0])))
    anatomy = trimtab.probe(run, at=0, replicates=256, correlations=False, quiet=True)
    for name, value in zip(("variance", "individual", "covariance"), exact.variance(num_envs=8)):
        estimate = getattr(anatomy, name)
        width = estimate.hi - estimate.lo
        assert estimate.lo - width / 4 <= value <= estimate.hi + width / 4, (name, estimate, value)
        assert width < 0.8 * exact.variance(num_envs=8)[0]


def test_a_policy_learns_the_optimal_gain(tmp_path):
    options = {"horizon": 10}
    run = trimtab.train(
        "LQR-scalar-v0",
        tmp_path / "run",
        preset="none",
        hidden_sizes=[],
        num_envs=64,
        num_steps=10,
        total_timesteps=64 * 10 * 60,
        gamma=1.0,
        learning_rate=0.03,
        log_std_init=-1.0,
        ent_coef=0.0,
        env_kwargs=options,
        quiet=True,
    )
    gain = float(run.policy().weights["head.weight"][0, 0])
    best = SYSTEMS["LQR-scalar-v0"].with_options(options).optimal_gains()[0, 0, 0]
    assert abs(gain - best) < 0.25 * abs(best)
