"""One iteration of every algorithm: first minibatches, frozen statistics, masks, phases, queues, traced numbers."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
import twins

from trimtab.math import minibatch, objectives
from trimtab.nets.agent import Agent
from trimtab.nets.heads import Categorical
from trimtab.training import auxiliary_phase, update
from trimtab.training.algorithm import hypers_of

PPG = {"policy_iterations": 2, "aux_epochs": 2}
KINDS = {
    "ppo": {"algo": "ppo", "update_epochs": 2},
    "ppo-ewma": {"algo": "ppo-ewma"},
    "ppg": {"algo": "ppg", **PPG},
    "ppg-ewma": {"algo": "ppg-ewma", **PPG},
    "reinforce": {"algo": "reinforce"},
    "stale": {"algo": "ppo", "staleness": 2},
    "gaussian": {"env_id": "Pendulum-v1", "norm_obs": True, "norm_reward": True, "update_epochs": 2},
}


def run(kind, iterations=4, seed=0, **changes):
    config = tiny.config(**KINDS[kind], **changes)
    return tiny.bench(config).run(config, iterations, seed)


@pytest.mark.parametrize("kind", ["ppo", "ppo-ewma", "ppg", "ppg-ewma", "gaussian"])
def test_the_first_minibatch_of_every_iteration_sees_the_policy_that_acted(kind):
    _, infos = run(kind)
    assert (tiny.metric(infos, "train/first_ratio_error") <= 1e-5).all()
    assert (tiny.metric(infos, "train/ratio_error")[1:] > 1e-5).all()  # and later ones do not
    kl = tiny.metric(infos, "train/first_kl_prox")
    fresh = kl if kind in ("ppo", "ppg", "gaussian") else kl[:1]  # an average lags behind from then on
    assert (np.abs(fresh) <= 1e-6).all()


@pytest.mark.parametrize("kind", KINDS)
def test_no_parameter_changes_with_learning_rate_zero(kind):
    changes = {"aux_learning_rate": 0.0} if kind.startswith("ppg") else {}
    states, _ = run(kind, learning_rate=0.0, **changes)
    moved, _ = run(kind)
    for network in ("policy", "value"):
        assert np.array_equal(getattr(states[0].params, network), getattr(states[-1].params, network))
        assert not np.array_equal(getattr(states[0].params, network), getattr(moved[-1].params, network))


def test_the_auxiliary_step_size_is_its_own():
    """Policy phases at rate 0 leave the auxiliary phase its rate."""
    states, _ = run("ppg", learning_rate=0.0)
    assert np.array_equal(states[0].params.value, states[1].params.value)
    assert not np.array_equal(states[1].params.value, states[2].params.value)


@pytest.mark.parametrize(
    "kind, changes",
    [
        (
            "ppo",
            {"clip_coef": 0.1, "gamma": 0.9, "gae_lambda": 0.5, "vf_coef": 1.0, "ent_coef": 0.1, "adam_beta1": 0.5},
        ),
        ("ppo-ewma", {"prox_com": 3.0, "learning_rate": 0.1, "max_grad_norm": 0.1, "warmup_steps": 40}),
        ("ppg", {"aux_learning_rate": 0.1, "beta_clone": 0.3, "weight_decay": 0.1, "imp_samp_max": 2.0}),
        ("gaussian", {"clip_obs": 1.0, "clip_reward": 0.1, "norm_reward_gamma": 0.5, "ent_anneal": 1.0}),
    ],
)
def test_changing_traced_numbers_changes_results_without_compiling_again(kind, changes):
    config = tiny.config(**KINDS[kind])
    if kind == "ppo-ewma":
        config = config.replace(clip_coef=0.001)  # tight: the proximal policy acts through the clip alone
    bench = tiny.bench(config)
    reference = bench.run(config, 2)[0][-1].params
    compiled = bench.step._cache_size()
    assert compiled == 1
    for name, value in changes.items():
        changed = bench.run(config.replace(**{name: value}), 2)[0][-1].params
        same = all(np.array_equal(a, b) for a, b in zip(reference, changed))
        assert not same or name in ("imp_samp_max",), name
    assert bench.step._cache_size() == compiled


def test_target_kl_stops_an_iteration_before_the_step_that_would_pass_it():
    config = tiny.config(update_epochs=3, target_kl=1e-4, learning_rate=0.05)
    bench = tiny.bench(config)
    states, infos = bench.run(config, 2)
    free, unbounded = bench.run(config.replace(target_kl=1e9), 2)
    taken = tiny.metric(infos, "train/gradient_steps_taken")
    assert (taken < 6).all() and (taken >= 1).all()
    assert int(states[1].gradient_steps) == taken[0] and int(states[2].gradient_steps) == taken.sum()
    assert (tiny.metric(unbounded, "train/gradient_steps_taken") == 6).all() and int(free[-1].gradient_steps) == 12


# Batches ---------------------------------------------------------------------------------------------------


def collected(kind="ppo", **changes):
    """(config, algorithm, state, rollout, hypers) of a first batch."""
    config = tiny.config(**KINDS[kind], **changes)
    bench, hypers = tiny.bench(config), hypers_of(config)
    state = bench.init(jax.random.key(0), hypers)
    state, rows = bench.collect(state, hypers)
    return config, bench.algorithm, state, rows, hypers


def test_a_batch_holds_the_advantages_of_the_twin_row_by_row():
    _, algorithm, state, rows, hypers = collected()
    batch = jax.jit(algorithm.batch_of)(state, rows, hypers)
    values = jax.jit(algorithm.values)
    value, next_value = (np.asarray(values(state.params, obs)) for obs in (rows.obs, rows.next_obs))
    reward, terminated, truncated = (np.asarray(x) for x in (rows.reward, rows.terminated, rows.truncated))
    advantage, target = twins.gae(reward, value, next_value, terminated, truncated, 0.99, 0.95)
    np.testing.assert_allclose(batch.advantage.reshape(8, 2), advantage, atol=1e-4)
    np.testing.assert_allclose(batch.target.reshape(8, 2), target, atol=1e-4)
    np.testing.assert_allclose(batch.value.reshape(8, 2), value, atol=1e-6)


def test_rollouts_keep_the_true_next_observation_and_the_stored_log_probability():
    _, algorithm, state, rows, _ = collected("ppo")
    going = ~np.asarray(rows.terminated | rows.truncated)[:-1]
    np.testing.assert_allclose(np.asarray(rows.next_obs)[:-1][going], np.asarray(rows.obs)[1:][going], rtol=1e-5)
    flat = rows.obs.reshape(-1, 4)
    dist = algorithm.agent.policy(state.params.policy, flat)
    np.testing.assert_allclose(algorithm.dist.logp(dist, rows.action.reshape(-1)), rows.logp.reshape(-1), atol=1e-6)


@pytest.mark.parametrize("algo", ["ppo", "reinforce"])
def test_the_mean_of_minibatch_gradients_is_the_batch_gradient_under_a_mask(algo):
    config, algorithm, state, rows, hypers = collected(algo)
    rng = np.random.default_rng(0)
    rows = rows._replace(valid=jnp.asarray(rng.random((8, 2)) < 0.6))
    batch = jax.jit(algorithm.batch_of)(state, rows, hypers)
    assert float(batch.weight.mean()) == pytest.approx(1.0, rel=1e-5)
    assert (np.asarray(batch.weight == 0) == ~np.asarray(rows.valid).reshape(-1)).all()

    @jax.jit
    def gradient(index):
        part = jax.tree.map(lambda x: x[index], batch)
        near = update.Proximal(part.dist, part.logp)
        loss = lambda p: update.loss(config, algorithm.agent, hypers, hypers["ent_coef"], (True, True), p, part, near)[
            0
        ]
        return jnp.concatenate(jax.grad(loss)(state.params))

    order = np.asarray(jax.jit(minibatch.epoch, static_argnums=(1, 2))(jax.random.key(1), 16, 4))
    parts = [gradient(index) for index in order]
    np.testing.assert_allclose(np.mean(parts, axis=0), gradient(jnp.arange(16)), rtol=1e-3, atol=1e-6)

    @jax.jit
    def sample(k):
        """Sample k's own policy objective, from the leaves."""

        def objective(policy):
            dist = algorithm.agent.policy(policy, batch.obs[k][None])
            logp = algorithm.dist.logp(dist, batch.action[k][None])
            return objectives.policy_gradient(logp, batch.advantage[k][None])[0]

        return jax.grad(objective)(state.params.policy)

    kept = np.flatnonzero(np.asarray(rows.valid).reshape(-1))
    near = update.Proximal(batch.dist, batch.logp)
    zero = jnp.zeros(())
    loss = lambda p: -update.loss(config, algorithm.agent, hypers, zero, (True, False), p, batch, near)[0]
    whole = jax.jit(jax.grad(loss))(state.params)
    np.testing.assert_allclose(whole.policy, np.mean([sample(k) for k in kept], axis=0), rtol=1e-3, atol=1e-5)


def test_a_gradient_group_by_group_is_that_of_the_whole_minibatch(monkeypatch):
    """With everything that is watched on the way, under weights that differ."""
    config, algorithm, state, rows, hypers = collected(arch="shared", num_minibatches=1)
    rows = rows._replace(valid=jnp.asarray(np.random.default_rng(0).random((8, 2)) < 0.6))
    batch = jax.jit(algorithm.batch_of)(state, rows, hypers)
    batch = batch._replace(logp=batch.logp + 0.1 * jnp.arange(16))
    near = update.Proximal(batch.dist, batch.logp)
    loss = functools.partial(update.loss, config, algorithm.agent, hypers, hypers["ent_coef"], (True, True))
    found = []
    for size in (16, 4):
        monkeypatch.setattr(algorithm.agent, "images_at_a_time", lambda count, size=size: size)
        part = lambda p: update._group_by_group(algorithm.agent, jax.grad(loss, has_aux=True), p, batch, near)
        found.append(jax.jit(part)(state.params))
    (whole, watched), (summed, seen) = found
    np.testing.assert_allclose(jnp.concatenate(summed), jnp.concatenate(whole), rtol=1e-4, atol=1e-6)
    assert watched.keys() == seen.keys() and float(watched["ratio_error"]) > 0.5
    for name, value in watched.items():
        np.testing.assert_allclose(seen[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("count, size", [(256, 32), (40, 20), (37, 37), (24, 24), (8, 8)])
def test_groups_of_images_are_equal_and_few(count, size):
    agent = Agent((40, 40, 4), "uint8", Categorical(2), network="nature", hidden_sizes=(8,))
    assert agent.images_at_a_time(count) == size
    assert Agent((4,), "float32", Categorical(2)).images_at_a_time(count) == count


def test_each_way_of_normalizing_advantages_gives_what_it_says():
    _, algorithm, state, rows, hypers = collected()
    batch = jax.jit(algorithm.batch_of)(state, rows, hypers)
    half = jax.tree.map(lambda x: np.asarray(x)[:8], batch)
    raw = np.asarray(half.advantage)
    for ddof in (0, 1):
        out = np.asarray(jax.jit(lambda batch, ddof=ddof: update._standardize_minibatch(batch, ddof))(half))
        np.testing.assert_allclose(out, (raw - raw.mean()) / raw.std(ddof=ddof), atol=1e-4)
    finals = {}
    for mode in ("none", "batch", "minibatch", "ewma"):
        config = tiny.config(**KINDS["ppo"], norm_adv=mode, **({"norm_adv_span": 5.0} if mode == "ewma" else {}))
        states, infos = tiny.bench(config).run(config, 3)
        finals[mode] = np.asarray(states[-1].params.policy)
        same = np.allclose(tiny.metric(infos, "train/adv_mean"), tiny.metric(infos, "train/adv_mean_ewma"))
        assert same == (mode != "ewma")
        if mode == "ewma":
            span_one, _ = tiny.bench(config).run(config.replace(norm_adv_span=1.0), 3)
    for a in finals:
        assert all(a == b or not np.array_equal(finals[a], finals[b]) for b in finals)
    np.testing.assert_allclose(span_one[-1].params.policy, finals["batch"], rtol=1e-4, atol=1e-6)


def test_statistics_are_frozen_within_an_iteration_and_count_its_data_after():
    config = tiny.config(**KINDS["gaussian"])
    bench, hypers = tiny.bench(config), hypers_of(config)
    states, _ = bench.run(config, 3)
    seen, sums, total = [], [], np.zeros(2)
    for state in states[:-1]:
        _, rows = bench.collect(state, hypers)
        if seen:
            data = np.concatenate(seen)
            np.testing.assert_allclose(state.obs_stats.mean, data.mean(0), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(state.obs_stats.std, data.std(0), rtol=1e-3)
            assert float(state.reward_scale.stats.std) == pytest.approx(np.concatenate(sums).std(), rel=1e-3)
        shown = bench.algorithm.normalized_obs(state.obs_stats, rows.obs, hypers)
        dist = bench.algorithm.agent.policy(state.params.policy, shown.reshape(16, 3))
        np.testing.assert_allclose(dist, rows.dist.reshape(16, 2), atol=1e-5)  # it acted on these statistics
        seen.append(np.asarray(rows.obs, np.float64).reshape(-1, 3))
        done = np.asarray(rows.terminated | rows.truncated)
        new, total = twins.discounted_sums(np.asarray(rows.reward), done, np.ones_like(done), 0.99, total)
        sums.append(new)


@functools.cache
def two_ways(algorithm):
    """The values of next observations as a batch has them, and evaluated one by one."""

    def both(state, rows, hypers):
        value = algorithm.values(state.params, rows.obs)
        return algorithm._next_values(state, rows, value, hypers), algorithm.values(state.params, rows.next_obs)

    return jax.jit(both)


@pytest.mark.parametrize("cuts", [[], [(2, 0)], [(7, 1), (3, 0)], [(2, 0), (5, 0)], [(0, 0), (1, 0), (2, 1), (4, 1)]])
def test_values_of_next_observations_are_those_of_evaluating_each(cuts):
    """Also at the last row, and where one environment, or the same one twice, was truncated."""
    config = tiny.config()
    bench, hypers = tiny.bench(config), hypers_of(config)
    state = bench.init(jax.random.key(0), hypers)
    key = jax.random.key(1)
    cut = np.zeros((8, 2), bool)
    for place in cuts:
        cut[place] = True
    ended = np.zeros((8, 2), bool)
    ended[4, 0] = True
    obs = jax.random.normal(key, (9, 2, 4))
    elsewhere = jax.random.normal(jax.random.fold_in(key, 1), (8, 2, 4))  # where an ended episode really led
    _, rows = bench.collect(state, hypers)
    rows = rows._replace(
        obs=obs[:8],
        next_obs=jnp.where((cut | ended)[..., None], elsewhere, obs[1:]),
        terminated=jnp.asarray(ended),
        truncated=jnp.asarray(cut),
    )
    got, want = two_ways(bench.algorithm)(state, rows, hypers)
    np.testing.assert_allclose(np.where(ended, 0.0, got), np.where(ended, 0.0, want), rtol=1e-5, atol=1e-6)


def test_the_environment_receives_clipped_actions_and_the_stored_ones_are_not():
    config = tiny.config(**KINDS["gaussian"], log_std_init=3.0)
    bench, hypers = tiny.bench(config), hypers_of(config)
    _, rows = bench.collect(bench.init(jax.random.key(0), hypers), hypers)
    assert float(jnp.abs(rows.action).max()) > 2.0
    assert np.isfinite(rows.reward).all() and float(jnp.abs(rows.reward).max()) <= 16.3  # π² + .1·8² + .001·2²


def test_a_gradient_that_is_not_finite_is_seen_though_others_of_its_iteration_are():
    config, algorithm, state, rows, hypers = collected("ppo")
    batch = jax.jit(algorithm.batch_of)(state, rows, hypers)

    @jax.jit
    def norm(batch):
        near, rates = update.Proximal(batch.dist, batch.logp), algorithm.rates(state, hypers)
        key = jax.random.key(0)
        learner = algorithm.learner(state)
        return update.update(config, algorithm.agent, hypers, rates, learner, batch, near, key)[1]["grad_norm"]

    assert np.isfinite(norm(batch))
    for sample in range(16):  # of which some are in the last minibatch of the last epoch
        assert np.isposinf(norm(batch._replace(advantage=batch.advantage.at[sample].set(jnp.nan))))


def test_further_passes_of_the_value_function_leave_the_gradient_norm_alone():
    norms = [tiny.metric(run("ppo", 1, value_epochs=n)[1], "train/grad_norm") for n in (2, 5)]
    assert norms[0] == norms[1] > 0


# PPG -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ppg", "ppg-ewma"])
def test_the_auxiliary_phase_runs_at_the_end_of_each_phase_and_lowers_the_value_error(kind):
    states, infos = run(kind, aux_learning_rate=0.003)
    ran = np.isfinite(tiny.metric(infos, "aux/value_loss"))
    assert ran.tolist() == [False, True, False, True]
    assert tiny.metric(infos, "aux/phase_position").tolist() == [0, 1, 0, 1]
    before, after = (tiny.metric(infos, f"aux/value_error_{when}")[ran] for when in ("before", "after"))
    assert (after < before).all()
    if kind == "ppg-ewma":
        weights = [float(s.prox.weight) for s in states]
        assert weights[0] == weights[2] == weights[4] == 1.0 and weights[1] > 1.0 and weights[3] > 1.0
        assert np.array_equal(states[2].prox.value, states[2].params.policy)
        assert not np.array_equal(states[1].prox.value, states[1].params.policy)


def test_the_value_error_of_a_phase_is_that_of_all_its_environments():
    config = tiny.config(**KINDS["ppg"])
    algorithm, hypers = tiny.bench(config).algorithm, hypers_of(config)
    state = run("ppg")[0][2]
    for environment in range(config.num_envs):  # sample (t, n) of an iteration is at t N + n
        phase = state.phase._replace(target=state.phase.target.at[:, environment :: config.num_envs].set(1e3))
        key, share = jax.random.key(0), jnp.ones(())
        watched = auxiliary_phase.auxiliary_phase(
            config, algorithm.agent, hypers, state.params, state.auxiliary, phase, key, share
        )[2]
        assert float(watched[auxiliary_phase.METRICS.index("value_error_before")]) > 1e5


def test_the_phase_buffer_holds_the_observations_of_its_iterations():
    config = tiny.config(**KINDS["ppg"])
    bench, hypers = tiny.bench(config), hypers_of(config)
    states, _ = bench.run(config, 4)
    for i, state in enumerate(states[:-1]):
        _, rows = bench.collect(state, hypers)
        # Two programs: the same numbers up to rounding.
        np.testing.assert_allclose(states[i + 1].phase.obs[i % 2], rows.obs.reshape(16, 4), rtol=1e-5, atol=1e-6)


# Staleness -------------------------------------------------------------------------------------------------


def test_a_stale_batch_is_used_exactly_that_many_iterations_after_it_was_collected(monkeypatch):
    used = []
    original = update.update

    def spy(config, agent, hypers, rates, learner, batch, proximal, key):
        jax.debug.callback(lambda *x: used.append(tuple(map(np.array, x))), batch.logp, proximal.logp)
        return original(config, agent, hypers, rates, learner, batch, proximal, key)

    monkeypatch.setattr(update, "update", spy)
    config = tiny.config(**KINDS["stale"])
    bench, hypers = tiny.Bench(config), hypers_of(config)
    states, infos = bench.run(config, 5)
    jax.effects_barrier()
    collected = [np.asarray(bench.collect(state, hypers)[1].logp).reshape(-1) for state in states[:-1]]
    assert len(used) == 3
    for i, (behav, prox) in enumerate(used):
        np.testing.assert_allclose(behav, collected[i], atol=1e-6)
        assert (np.abs(behav - prox).max() > 1e-6) == (i > 0)  # the proximal policy is the one just before
    assert np.array_equal(states[0].params.policy, states[2].params.policy)
    assert not np.array_equal(states[2].params.policy, states[3].params.policy)
    assert np.isnan(tiny.metric(infos, "train/grad_norm")).tolist() == [True, True, False, False, False]


def test_the_three_losses_of_stale_data_use_the_policies_they_name():
    config = tiny.config(**KINDS["stale"])
    bench = tiny.bench(config)
    states, _ = bench.run(config, 4)
    state = states[-1]
    batch = jax.tree.map(lambda q: q[0], state.queue)
    now = bench.algorithm.agent.policy(state.params.policy, batch.obs)
    recent = np.asarray(bench.algorithm.dist.logp(now, batch.action))
    expected = {"decoupled": (batch.logp, recent), "behavior": (batch.logp,) * 2, "recent": (recent,) * 2}
    for loss, (behav, prox) in expected.items():
        weighted, proximal = bench.algorithm._proximal(state, batch, hypers_of(config.replace(staleness_loss=loss)))
        np.testing.assert_allclose(weighted.logp, behav, atol=1e-6)
        np.testing.assert_allclose(proximal.logp, prox, atol=1e-6)
    assert np.abs(recent - batch.logp).max() > 1e-4


# Rates -----------------------------------------------------------------------------------------------------


def rates(iteration, **changes):
    config = tiny.config(**changes)
    bench, hypers = tiny.bench(config), hypers_of(config)
    state = jax.eval_shape(bench.init, jax.random.key(0), hypers)
    state = replace(jax.tree.map(lambda x: None, state), iteration=jnp.asarray(iteration, jnp.int32))
    return [float(rate) for rate in bench.algorithm.rates(state, hypers)]


def test_step_size_and_entropy_follow_their_schedules():
    """4 iterations of 16 steps."""
    assert [rates(i, anneal_lr="linear")[0] for i in range(4)] == pytest.approx([0.01, 0.0075, 0.005, 0.0025])
    assert rates(2, anneal_lr="cosine")[0] == pytest.approx(0.005)
    assert [rates(i, warmup_steps=64)[0] for i in range(4)] == pytest.approx([0.0025, 0.005, 0.0075, 0.01])
    assert [rates(i, ent_anneal=0.5)[1] for i in range(4)] == pytest.approx([0.01, 0.01, 0.01, 0.005])
    assert [rates(i)[0] for i in (0, 3)] == pytest.approx([0.01, 0.01])


def test_episodes_in_info_are_the_sums_of_their_rewards():
    config = tiny.config(num_steps=64, total_timesteps=512, **KINDS["ppo"])
    bench, hypers = tiny.bench(config), hypers_of(config)
    states, infos = bench.run(config, 3)
    total, length, finished = np.zeros(2), np.zeros(2), 0
    for state, info in zip(states, infos):
        rows = jax.tree.map(np.asarray, bench.collect(state, hypers)[1])
        for t in range(64):
            total, length = total + rows.reward[t], length + 1
            for n in np.flatnonzero(info.done[t]):
                assert (info.episode_return[t, n], info.episode_length[t, n]) == (total[n], length[n])
                total[n] = length[n] = 0
                finished += 1
    assert finished > 4
