"""Policies of other libraries as runs: the same outputs from the same observations, and plain refusals."""

import json
import sys
import types
import zipfile
from itertools import pairwise

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

import trimtab
from trimtab import cli
from trimtab.config import ConfigError
from trimtab.core.errors import RunError, UnreadableFile
from trimtab.libraries import LIBRARIES
from trimtab.libraries.common import adoption, policy_networks
from trimtab.training.algorithm import hypers_of
from trimtab.training.engine_setup import load_engine
from trimtab.training.records import StartedFrom

SMALL = {"num_envs": 2, "num_steps": 32, "minibatch_size": 32, "total_timesteps": 128}
RNG = np.random.default_rng(0)
OBS = RNG.normal(size=(20, 3)).astype(np.float32) * np.float32([0.7, 0.7, 3.0])


def layers(prefix, *sizes):
    """Dense layers as PyTorch names and keeps them: [outputs, inputs]."""
    named = {}
    for k, (inputs, outputs) in enumerate(pairwise(sizes)):
        named[f"{prefix}.{2 * k}.weight"] = RNG.normal(size=(outputs, inputs)).astype(np.float32) / inputs
        named[f"{prefix}.{2 * k}.bias"] = RNG.normal(size=outputs).astype(np.float32)
    return named


def renamed(named, before, after):
    return {after + name.removeprefix(before) if name.startswith(before) else name: w for name, w in named.items()}


def sb3(outputs=1, inputs=3):
    """The state_dict of Stable-Baselines3's MlpPolicy."""
    policy = renamed(
        layers("mlp_extractor.policy_net", inputs, 6, 5, outputs), "mlp_extractor.policy_net.4", "action_net"
    )
    value = renamed(layers("mlp_extractor.value_net", inputs, 6, 5, 1), "mlp_extractor.value_net.4", "value_net")
    return policy | value | {"log_std": np.float32([-0.5] * outputs)}


def forward(named, prefixes, x, activation=np.tanh):
    """The slow twin: layer after layer, by their names there."""
    for prefix in prefixes[:-1]:
        x = activation(x @ named[f"{prefix}.weight"].T + named[f"{prefix}.bias"])
    return x @ named[f"{prefixes[-1]}.weight"].T + named[f"{prefixes[-1]}.bias"]


def sb3_outputs(named, network, x, activation=np.tanh):
    head = {"policy": "action_net", "value": "value_net"}[network]
    return forward(named, [f"mlp_extractor.{network}_net.0", f"mlp_extractor.{network}_net.2", head], x, activation)


def said(run, obs=OBS):
    """What a run's policy does and its critic says of observations."""
    config, engine, state, _ = load_engine(run.path, None)
    seen = engine.algorithm.normalized_obs(state.obs_stats, jnp.asarray(obs[:, None]), hypers_of(config))
    value = np.asarray(engine.algorithm.critic(state, seen))[:, 0]
    engine.close()
    return np.asarray(run.policy()(obs)).reshape(len(obs), -1), value


def beginning(run):
    """The tensors of its only checkpoint, by name."""
    (checkpoint,) = run.files.checkpoints()
    assert checkpoint.step == 0
    return run.files.read_checkpoint(checkpoint)


def clipped(action):
    return np.clip(action, -2.0, 2.0)  # Pendulum's


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def test_a_policy_of_stable_baselines3_does_here_what_it_does_there(tmp_path):
    named = sb3()
    run = trimtab.adopt(named, "Pendulum-v1", tmp_path / "run", hidden_sizes=[6, 5], **SMALL)
    action, value = said(run)
    np.testing.assert_allclose(action, clipped(sb3_outputs(named, "policy", OBS)), atol=1e-5)
    np.testing.assert_allclose(value, sb3_outputs(named, "value", OBS)[:, 0], atol=1e-5)
    assert run.config.hidden_sizes == (6, 5) and run.config.update_epochs == 10  # Stable-Baselines3's default
    assert beginning(run)["params.policy.log_std"].tolist() == [-0.5]


def test_vecnormalize_is_what_observations_are_seen_through(tmp_path):
    named, mean, var = sb3(), np.array([0.1, -0.2, 0.5]), np.array([0.4, 0.6, 9.0])
    rms = types.SimpleNamespace(mean=mean, var=var, count=500.0)
    scaling = {"norm_reward": True, "ret_rms": types.SimpleNamespace(var=4.0), "gamma": 0.97, "clip_reward": 5.0}
    live = types.SimpleNamespace(norm_obs=True, obs_rms=rms, clip_obs=1.0, **scaling)
    run = trimtab.adopt(named, "Pendulum-v1", tmp_path / "live", normalizer=live, **SMALL)
    seen = np.clip((OBS - mean) / np.sqrt(var + 1e-8), -1, 1)
    assert (np.abs(seen) == 1).any()
    action, value = said(run)
    np.testing.assert_allclose(action, clipped(sb3_outputs(named, "policy", seen)), atol=1e-5)
    np.testing.assert_allclose(value, sb3_outputs(named, "value", seen)[:, 0], atol=1e-5)
    scale = {part: beginning(run)[f"state.reward_scale.stats.{part}"] for part in ("deviation", "count")}
    assert scale["count"] == 500 and scale["deviation"] == pytest.approx(4.0 * 500)
    assert (run.config.norm_reward_gamma, run.config.clip_reward) == pytest.approx((0.97, 5.0))
    of_rewards = types.SimpleNamespace(norm_obs=False, **scaling)
    observed = policy_networks.observed_by(of_rewards)
    assert observed.fields["norm_reward"] and observed.mean is None
    np.savez(tmp_path / "norm.npz", obs_mean=mean, obs_var=var, reward_var=4.0, clip_obs=1.0)
    saved = trimtab.adopt(named, "Pendulum-v1", tmp_path / "saved", normalizer=tmp_path / "norm.npz", **SMALL)
    np.testing.assert_array_equal(said(saved)[0], action)


@pytest.mark.parametrize("spread", ["std", "log_std"])
@pytest.mark.parametrize("version", [2, 3, 5])
def test_policies_of_rsl_rl_bring_their_statistics_also_where_the_critic_has_others(version, spread, tmp_path):
    actor, critic = layers("mlp", 3, 6, 5, 1), layers("mlp", 3, 6, 5, 1)
    statistics = [(RNG.normal(size=(1, 3)), RNG.uniform(0.5, 2, size=(1, 3))) for _ in range(2)]
    seen = [(OBS - mean) / (std + 1e-2) for mean, std in statistics]
    normal = [{"_mean": mean, "_std": std, "_var": std**2, "count": np.asarray(1000)} for mean, std in statistics]
    deviation = {"std": np.float32([0.3]), "log_std": np.log(np.float32([0.3]))}[spread]
    if version == 5:
        saved = {
            "actor_state_dict": actor
            | {f"distribution.{spread}_param": deviation}
            | {f"obs_normalizer.{k}": v for k, v in normal[0].items()},
            "critic_state_dict": critic | {f"obs_normalizer.{k}": v for k, v in normal[1].items()},
            "iter": 5,
            "infos": None,
        }
    else:
        parts = renamed(actor, "mlp", "actor") | renamed(critic, "mlp", "critic") | {spread: deviation}
        saved = {"model_state_dict": parts, "optimizer_state_dict": {"state": {0: {"exp_avg": np.zeros(3)}}}, "iter": 5}
        if version == 3:
            for who, statistic in zip(("actor", "critic"), normal):
                parts |= {f"{who}_obs_normalizer.{k}": v for k, v in statistic.items()}
        else:
            saved |= {"obs_norm_state_dict": normal[0], "critic_obs_norm_state_dict": normal[1]}
    run = trimtab.adopt(saved, "Pendulum-v1", tmp_path / "run", **SMALL)
    names = ["mlp.0", "mlp.2", "mlp.4"]
    action, value = said(run)
    np.testing.assert_allclose(action, clipped(forward(actor, names, seen[0], elu)), atol=1e-5)
    np.testing.assert_allclose(value, forward(critic, names, seen[1], elu)[:, 0], atol=1e-5)
    assert run.config.activation == "elu" and run.config.anneal_lr == "adaptive"
    assert np.exp(beginning(run)["params.policy.log_std"]) == pytest.approx([0.3])


@pytest.mark.parametrize("seen_through", ["observation_preprocessor", "state_preprocessor", None])
def test_policies_of_skrl_bring_the_units_of_observations_and_values(seen_through, tmp_path):
    policy, value = layers("net_container", 3, 6, 5, 1), layers("net_container", 3, 6, 5, 1)
    mean, variance = np.float64([0.1, -0.2, 0.5]), np.float64([0.4, 0.6, 0.1])
    scaler = {"running_mean": mean, "running_variance": variance, "current_count": np.float64(700)}
    saved = {"policy": policy | {"log_std_parameter": np.float32([-0.3])}, "value": value, "optimizer": {"lr": 1.0}}
    saved["value_preprocessor"] = {"running_mean": np.float64([-3.0]), "running_variance": np.float64([4.0])}
    saved |= {seen_through: scaler} if seen_through else {}
    run = trimtab.adopt(saved, "Pendulum-v1", tmp_path / "run", activation="elu", **SMALL)
    seen = np.clip((OBS - mean) / np.sqrt(variance), -5, 5) if seen_through else OBS
    names = ["net_container.0", "net_container.2", "net_container.4"]
    action, said_value = said(run)
    np.testing.assert_allclose(action, clipped(forward(policy, names, seen, elu)), atol=1e-5)
    np.testing.assert_allclose(said_value, -3 + 2 * forward(value, names, seen, elu)[:, 0], atol=1e-4)
    assert beginning(run)["params.policy.log_std"] == pytest.approx([-0.3]) and run.config.update_epochs == 8
    assert run.config.norm_value == "popart"
    with pytest.raises(ConfigError, match="activation=None: its file does not contain it; add activation"):
        trimtab.adopt(saved, "Pendulum-v1", tmp_path / "other", **SMALL)


@pytest.mark.parametrize("names", [("actor_mean", "Pendulum-v1", 1), ("actor", "CartPole-v1", 2)])
def test_policies_of_cleanrl_with_continuous_and_discrete_actions(names, tmp_path):
    actor, env_id, outputs = names
    inputs = {"Pendulum-v1": 3, "CartPole-v1": 4}[env_id]
    named = layers(actor, inputs, 6, 5, outputs) | layers("critic", inputs, 6, 5, 1)
    named |= {"actor_logstd": np.zeros((1, 1), np.float32)} if env_id == "Pendulum-v1" else {}
    file = tmp_path / "ppo.cleanrl_model.npz"
    np.savez(file, **named)
    run = trimtab.adopt(file, env_id, tmp_path / "run", **SMALL)
    obs = RNG.normal(size=(20, inputs)).astype(np.float32)
    action, value = said(run, obs)
    outputs = forward(named, [f"{actor}.{k}" for k in (0, 2, 4)], obs)
    expected = clipped(outputs) if env_id == "Pendulum-v1" else outputs.argmax(-1)[:, None]
    np.testing.assert_allclose(action, expected, atol=1e-5)
    np.testing.assert_allclose(value, forward(named, ["critic.0", "critic.2", "critic.4"], obs)[:, 0], atol=1e-5)
    assert run.config.total_timesteps == 128
    assert run.files.manifest().started_from == StartedFrom(None, str(file), ("policy", "value function"))


def test_an_adopted_policy_can_be_probed_trained_on_and_repeated(tmp_path):
    run = trimtab.adopt(sb3(), "Pendulum-v1", tmp_path / "run", **SMALL)
    anatomy = trimtab.probe(run, replicates=2, bias=False, correlations=False, quiet=True)
    assert anatomy.variance.value > 0
    assert trimtab.resume(run, quiet=True).files.metrics()[-1].step == 128
    assert trimtab.repeat(run, tmp_path / "again")["identical"]


def test_a_killed_run_whose_policy_is_gone_is_not_begun_with_another(tmp_path):
    run = trimtab.adopt(sb3(), "Pendulum-v1", tmp_path / "run", **SMALL)
    for file in (run.path / "checkpoints" / "000000000000").iterdir():
        file.unlink()
    with pytest.raises(RunError, match="adopt it again"):
        trimtab.resume(run, quiet=True)


@pytest.mark.parametrize(
    "policy, options, message",
    [
        ({"conv.weight": np.zeros((2, 2))}, {}, r"conv.weight.*not the names of a dense policy"),
        ({}, {}, "nothing"),
        (3, {}, "must be a model, a module, a state_dict or a file"),
        ("no.npz", {}, r"no.npz.*No such file"),
        (sb3(), {"normalizer": {"obs_mean": [0.0]}}, "no meaning without the other"),
        (sb3(), {"normalizer": {"mean": [0.0]}}, "must hold some of"),
        (sb3(), {"normalizer": 3}, "must be a VecNormalize"),
        (sb3(), {"normalizer": "vecnormalize.pkl"}, "is pickled, and opening it would run what it holds"),
        (sb3(), {"hyperparameters": {"clip_rang": 0.1}}, "nearest: clip_range"),
        (sb3(), {"hyperparameters": {"policy_kwargs": "dict(activation_fn=nn.LeakyReLU)"}}, "trimtab does not have it"),
        (sb3() | {"log_std": np.zeros((6, 1))}, {}, "depends on the state"),
        (
            sb3() | {"features_extractor.linear.weight": np.zeros((3, 3))},
            {},
            "features_extractor.linear.weight.*is not a dense layer",
        ),
        (sb3() | {"value_net.bias": np.float32([np.nan])}, {}, "value_net.bias.*is not finite"),
        (sb3(), {"normalizer": {"obs_mean": "x", "obs_var": [1.0]}}, "obs_mean='x'.*must be numbers"),
        (sb3(), {"normalizer": {"obs_mean": [0.0] * 3, "obs_var": [-1.0] * 3}}, "variances not negative"),
        (sb3(), {"normalizer": {"reward_var": [1.0, 2.0]}}, "reward_var.*must be one number"),
        (sb3(), {"hyperparameters": {"normalize": True}}, "observations were normalized; add the statistics"),
        (sb3(), {"hyperparameters": {"n_envs": "abc"}}, "n_envs='abc': cannot be read"),
        (sb3(), {"hyperparameters": {"n_steps": 0}}, "num_steps=0.*at least 1"),
        (sb3(), {"hyperparameters": {"batch_size": "abc"}}, "batch_size='abc': cannot be read"),
        (sb3(), {"hidden_sizes": (7,)}, r"hidden_sizes.*the policy has \(6, 5\); leave it out"),
        (sb3(), {"norm_obs": True}, "norm_obs=True: the policy has False"),
        (sb3() | {"mlp_extractor.policy_net.0.weight": np.zeros((2, 3, 4))}, {}, "is not a dense layer"),
        (sb3() | layers("mlp_extractor.value_net", 3, 7, 5), {}, "the critic of"),
    ],
)
def test_what_cannot_be_adopted_is_refused_in_one_line_and_leaves_nothing(policy, options, message, tmp_path):
    with pytest.raises(ConfigError, match=message) as error:
        trimtab.adopt(policy, "Pendulum-v1", tmp_path / "run", **options)
    assert "\n" not in str(error.value) and not (tmp_path / "run").exists()


def test_a_policy_of_another_environment_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(RunError, match="has another shape"):
        trimtab.adopt(sb3(), "CartPole-v1", tmp_path / "run", **SMALL)
    with pytest.raises(RunError, match=r"is for observations \(1,\); the environment has \(3,\)"):
        short = {"obs_mean": [0.0], "obs_var": [1.0]}
        trimtab.adopt(sb3(), "Pendulum-v1", tmp_path / "run", normalizer=short, **SMALL)
    assert not (tmp_path / "run").exists()


def test_files_of_pytorch_say_what_they_need_and_damaged_ones_what_they_are(tmp_path, monkeypatch):
    (tmp_path / "model.pt").write_bytes(b"PK and more")
    for name in ("model.npz", "other.pt", "broken.zip"):  # of nobody: nothing to install helps
        (tmp_path / name).write_bytes(b"nothing")
        with pytest.raises(ConfigError, match="holds no weights that can be read without running"):
            adoption.read_arrays("policy", tmp_path / name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(adoption.MissingPackage, match=r"trimtab\[torch\]"):
        adoption.read_arrays("policy", tmp_path / "model.pt")
    told = []
    loader = types.SimpleNamespace(load=lambda file, **options: told.append(options) or {"name": file.read()})
    monkeypatch.setitem(sys.modules, "torch", loader)
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("policy.pth", b"of the policy")
    assert adoption.read_arrays("policy", tmp_path / "model.zip") == {"name": b"of the policy"}
    assert told == [{"map_location": "cpu", "weights_only": True}]


def test_a_saved_model_says_its_hyperparameters_schedules_and_activation(tmp_path):
    kwargs = {":type:": "<class 'dict'>", "activation_fn": "<class 'torch.nn.modules.activation.ReLU'>"}
    data = {"n_epochs": 7, "n_steps": 64, "n_envs": 3, "batch_size": 96, "gamma": 0.9, "policy_kwargs": kwargs}
    schedules = {"clip_range": "ConstantSchedule(val=0.1)", "clip_range_vf": "ConstantSchedule(val=0.3)"}
    schedules |= {"lr_schedule": "LinearSchedule(start=0.002, end=0.0, end_fraction=1.0)"}
    data |= {name: {":serialized:": "no pickle", "value_schedule": text} for name, text in schedules.items()}
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("data", json.dumps(data | {"_total_timesteps": 9_000}))
    told = adoption.hyperparameters_of(tmp_path / "model.zip", LIBRARIES["sb3"])
    run = trimtab.adopt(sb3(), "Pendulum-v1", tmp_path / "run", hyperparameters=told, quiet=True)
    config = run.config
    assert (config.update_epochs, config.num_envs, config.num_steps, config.minibatch_size) == (7, 3, 64, 96)
    assert (config.gamma, config.activation, config.clip_coef, config.clip_vloss) == (0.9, "relu", 0.1, 0.3)
    assert (config.learning_rate, config.anneal_lr, config.total_timesteps) == (0.002, "linear", 9_000)


def test_what_a_live_model_says(tmp_path):
    named = sb3()
    network = types.SimpleNamespace(activation_fn=type("ReLU", (), {}), state_dict=lambda: named)
    model = types.SimpleNamespace(
        n_steps=64, gamma=0.9, policy=network, clip_range=lambda left: 0.1, lr_schedule=lambda left: 1e-3 * left
    )
    run = trimtab.adopt(model, "Pendulum-v1", tmp_path / "run")
    assert (run.config.num_steps, run.config.gamma, run.config.clip_coef) == (64, 0.9, 0.1)
    assert (run.config.learning_rate, run.config.anneal_lr, run.config.activation) == (1e-3, "linear", "relu")
    assert run.config.total_timesteps > 10_000, "not one batch: it may be trained on"
    with pytest.raises(ConfigError, match="activation='tanh': the policy has relu"):
        trimtab.adopt(network, "Pendulum-v1", tmp_path / "other", activation="tanh")


def test_the_function_between_a_modules_layers_is_read_off_it(tmp_path):
    part = lambda name: type(name, (), {})()
    module = lambda *names: types.SimpleNamespace(modules=lambda: [part("Linear"), *map(part, names)])
    assert adoption.activation_of(module("ELU", "ELU")) == "elu" and adoption.activation_of(module()) is None
    with pytest.raises(ConfigError, match=r"LeakyReLU.*does not have this activation"):
        adoption.activation_of(module("LeakyReLU"))
    with pytest.raises(ConfigError, match="ELU, Tanh"):
        adoption.activation_of(module("ELU", "Tanh"))


@pytest.mark.parametrize(
    "library, text, values",
    [
        (
            "rsl_rl",
            "num_steps_per_env: 48\npolicy: {activation: relu}",
            {"num_steps_per_env": 48, "activation": "relu"},
        ),
        ("rsl_rl", "num_steps_per_env: 48\npolicy: MlpPolicy", {"num_steps_per_env": 48}),
        ("skrl", "agent: {rollouts: 24, other: 3}", {"rollouts": 24}),
    ],
)
def test_hyperparameters_that_isaac_lab_writes_beside_a_file(library, text, values, tmp_path):
    (tmp_path / "params").mkdir()
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "params" / "agent.yaml").write_text(text)
    for place in (tmp_path, tmp_path / "checkpoints"):
        assert adoption.hyperparameters_of(place / "model_5.pt", LIBRARIES[library]) == values
    (tmp_path / "params" / "agent.yaml").write_text("{[")
    with pytest.raises(UnreadableFile, match=r"agent.yaml cannot be read: [^\n]*$"):
        adoption.hyperparameters_of(tmp_path / "model_5.pt", LIBRARIES[library])


def test_images_are_not_taken_for_what_other_libraries_make_of_them(tmp_path):
    class Screen(gymnasium.Env):
        observation_space, action_space = (
            gymnasium.spaces.Box(0, 255, (2, 2, 3), np.uint8),
            gymnasium.spaces.Discrete(2),
        )

        def reset(self, *, seed=None, options=None):
            return np.zeros((2, 2, 3), np.uint8), {}

        def step(self, action):
            return np.zeros((2, 2, 3), np.uint8), 0.0, False, False, {}

    with pytest.raises(RunError, match="sees images"):
        trimtab.adopt(sb3(outputs=2, inputs=12), "Screen", tmp_path / "run", env=Screen, **SMALL)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("field, value, size", [("num_minibatches", 4, 16), ("minibatch_size", 32, 32)])
def test_a_number_or_a_size_of_minibatches_stands_over_what_the_library_does(field, value, size, tmp_path):
    fields = {"num_envs": 2, "num_steps": 32, field: value}
    run = trimtab.adopt(sb3(), "Pendulum-v1", tmp_path / "run", **fields)
    assert run.config.minibatch_size == size


def test_weights_that_lie_deeper_are_found_and_counters_are_not_taken_for_them():
    networks = policy_networks.networks_of({"policy": sb3(), "step": 3, "optimizer": {"lr": 0.1}})
    assert networks.library.title == "Stable-Baselines3" and networks.hidden_sizes == (6, 5)


@pytest.mark.parametrize("place", ["", "Pendulum-v1"])
def test_a_vecnormalize_beside_a_policy_is_said_and_not_opened(place, tmp_path, capsys):
    """RL Zoo keeps it in a folder of the environment's name."""
    np.savez(tmp_path / "Pendulum-v1.npz", **sb3())
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / "vecnormalize.pkl").write_bytes(b"no pickle that would load")
    words = ["adopt", str(tmp_path / "Pendulum-v1.npz"), "Pendulum-v1", "--run-dir", str(tmp_path / "run"), "n_envs=1"]
    assert cli.main([*words, "--json"]) == 0
    said = capsys.readouterr().err
    assert "vecnormalize.pkl is beside the policy" in said and "--normalizer vecnormalize.npz" in said
    assert f"VecNormalize.load({str(tmp_path / place / 'vecnormalize.pkl')!r}" in said


def test_the_command_makes_the_run_that_python_makes(tmp_path, capsys):
    file = tmp_path / "policy.npz"
    np.savez(file, **sb3())
    words = ["n_steps=32", "n_envs=2", "batch_size=32", "--gamma", "0.9"]
    assert cli.main(["adopt", str(file), "Pendulum-v1", *words, "--run-dir", str(tmp_path / "a"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["taken"] == ["policy", "value function"]
    fields = {"n_steps": 32, "n_envs": 2, "batch_size": 32}
    run = trimtab.adopt(file, "Pendulum-v1", tmp_path / "b", hyperparameters=fields, gamma=0.9)
    assert trimtab.load(tmp_path / "a").config == run.config and run.config.gamma == 0.9
    named = ["--env-id", "Pendulum-v1", "--run-dir", str(tmp_path / "c"), "--quiet"]
    capsys.readouterr()
    assert cli.main(["adopt", str(file), *words, *named]) == 0 and not capsys.readouterr().err
    assert trimtab.load(tmp_path / "c").config == run.config
    last = ["--gamma", "0.9", "--run-dir", str(tmp_path / "d"), "n-steps=32", "n_envs=2", "batch_size=32", "--quiet"]
    assert cli.main(["adopt", str(file), "Pendulum-v1", *last]) == 0, "hyperparameters may follow options"
    assert trimtab.load(tmp_path / "d").config == run.config
    for options, message in ((words, "name its environment"), (["CartPole-v1", *named], "given twice")):
        with pytest.raises(SystemExit):
            cli.main(["adopt", str(file), *options])
        assert message in capsys.readouterr().err
