"""Hyperparameters of other libraries: what changes with the name, and what is refused."""

import json

import pytest

from trimtab import cli, presets
from trimtab.config import Config, ConfigError
from trimtab.libraries import LIBRARIES
from trimtab.libraries.common.translation import dictionary_of, translate

ZOO = """
CartPole-v1:
  n_envs: 8
  n_timesteps: !!float 1e5
  policy: 'MlpPolicy'
  n_steps: 32
  batch_size: 256
  learning_rate: lin_0.001
  clip_range: lin_0.2
Pendulum-v1:
  n_envs: 4
  use_sde: True
  policy_kwargs: "dict(log_std_init=-2, activation_fn=nn.ReLU, net_arch=dict(pi=[256, 128], vf=[256]))"
  normalize: "{'norm_obs': True, 'norm_reward': False}"
"""


def test_a_batch_size_is_the_minibatch_in_stable_baselines():
    config = translate("sb3", {"n_envs": 4, "n_steps": 256, "batch_size": 64}).config("Pendulum-v1")
    assert (config.batch, config.minibatch, config.update_epochs, config.norm_adv) == (1024, 64, 10, "minibatch")


def test_cleanrl_gives_what_its_hyperparameters_mean_here():
    given = {"num_envs": 4, "num_steps": 128, "num_minibatches": 4, "update_epochs": 4, "learning_rate": 2.5e-4}
    found = translate("cleanrl", given | {"clip_coef": 0.2, "ent_coef": 0.01, "total_timesteps": 500_000})
    config = found.config("CartPole-v1")
    means = given | {"total_timesteps": 500_000, "clip_coef": 0.2, "ent_coef": 0.01, "vf_coef": 0.25, "clip_vloss": 0.2}
    means |= {"anneal_lr": "linear", "gamma": 0.99, "gae_lambda": 0.95, "max_grad_norm": 0.5}
    assert {name: getattr(config, name) for name in means} == means
    assert any("half of the squared error" in note for note in found.notes)


def test_a_target_kl_of_cleanrl_is_where_updates_stop_here_too():
    assert 1.5 * translate("cleanrl", {"target_kl": 0.03}).fields["target_kl"] == pytest.approx(0.03)


def test_rllib_says_n_times_t():
    found = translate("rllib", {"num_env_runners": 2, "num_envs_per_env_runner": 8, "train_batch_size": 4096})
    config = found.config("CartPole-v1")
    assert (config.num_envs, config.num_steps, config.minibatch, config.gae_lambda) == (16, 256, 128, 1.0)
    assert config.max_grad_norm is None and "kl_coeff" in found.left_out
    assert translate("rllib", {}).fields["minibatch_size"] == 125, "128 does not divide 4000"
    with pytest.raises(ConfigError, match="nearest: 4000"):
        translate("rllib", {"num_envs_per_env_runner": 10, "train_batch_size": 4001})


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_a_library_does_by_default_is_a_configuration_here(library):
    assert isinstance(translate(library, {}).config("CartPole-v1"), Config)
    assert not set(translate(library, {}, defaults=False).fields) - {"num_envs"}


def test_rows_of_brax_are_its_unrolls():
    sizes = {"num_envs": 2048, "batch_size": 1024, "num_minibatches": 32, "unroll_length": 20, "num_timesteps": 1e8}
    found = translate("brax", sizes | {"learning_rate_schedule": "ADAPTIVE_KL", "desired_kl": 0.02})
    config = found.config("Pendulum-v1")
    assert (config.num_envs, config.num_steps, config.minibatch_by) == (32_768, 20, "rows")
    assert config.rows_of_minibatch == 1024 and (config.anneal_lr, config.desired_kl) == ("adaptive", 0.02)
    assert config.activation == "silu" and any("one after the other" in note for note in found.notes)
    with pytest.raises(ConfigError, match="give all"):
        translate("brax", {"batch_size": 4}, defaults=False)


def test_the_papers_code_gives_the_papers_preset():
    found = translate("ppo-ewma", {"num_envs": 256, "aux_mbsize": 16, "kl_ewma_decay": 8 / 9})
    config, preset = found.config("procgen/starpilot-hard"), presets.load("ppg-ewma/procgen")
    own = {name: getattr(config, name) for name in preset}
    own |= {"prox_com": pytest.approx(8), "value_epochs": config.epochs_of_value}
    assert {name: list(v) if isinstance(v, tuple) else v for name, v in own.items()} == preset
    assert config.minibatch_by == "rows"
    phaseless = translate("ppo-ewma", {"n_aux_epochs": 0, "adv_ewma_decay": 0.5})
    assert phaseless.config("procgen/starpilot-hard").algo == "ppo"
    assert phaseless.fields["norm_adv_span"] == pytest.approx(3)


def test_rsl_rl_adapts_its_step_size_here_too():
    config = translate("rsl_rl", {"num_steps_per_env": 24, "init_noise_std": 0.5, "num_envs": 64}).config("Pendulum-v1")
    assert (config.anneal_lr, config.desired_kl, config.activation, config.clip_vloss) == ("adaptive", 0.01, "elu", 0.2)
    assert config.log_std_init == pytest.approx(-0.6931, abs=1e-3) and config.minibatch_by == "samples"


def said(argv, capsys):
    assert cli.main(["translate", *argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_file_of_the_zoo(tmp_path, capsys):
    file = tmp_path / "ppo.yml"
    file.write_text(ZOO)
    cart = said(["sb3", "--file", str(file), "--env-id", "CartPole-v1"], capsys)
    assert cart["fields"]["learning_rate"] == 1e-3 and cart["fields"]["anneal_lr"] == "linear"
    assert cart["fields"]["total_timesteps"] == 100_000 and "policy" in cart["left_out"]
    pole = said(["sb3", "--file", str(file), "--env-id", "Pendulum-v1"], capsys)
    fields = pole["fields"]
    assert fields["hidden_sizes"] == [256, 128] and fields["activation"] == "relu" and fields["log_std_init"] == -2
    assert fields["norm_obs"] is True and fields["norm_reward"] is False and "use_sde" in pole["left_out"]


MERGED = """
PendulumBulletEnv-v0: &bullet
  normalize: true
  n_envs: 8
  n_timesteps: !!float 2e6
  policy: 'MlpPolicy'
  n_steps: 512
  batch_size: 128
  learning_rate: &rate !!float 3e-5
AntBulletEnv-v0:
  <<: *bullet
  n_steps: 256
  batch_size: 64
  learning_rate: *rate
"""
RSL_RL_5 = """
num_steps_per_env: 24
max_iterations: 300
obs_groups: {actor: [policy], critic: [policy]}
actor:
  class_name: MLPModel
  hidden_dims: [128, 64]
  activation: elu
  obs_normalization: true
  distribution_cfg: {class_name: GaussianDistribution, init_std: 0.5}
critic: {class_name: MLPModel, hidden_dims: [128, 64], activation: elu}
algorithm: {class_name: PPO, num_learning_epochs: 5, num_mini_batches: 4, clip_param: 0.2, lam: 0.95, gamma: 0.98,
  learning_rate: 1.0e-3, schedule: adaptive, desired_kl: 0.01, use_clipped_value_loss: true}
"""


def test_merge_keys_and_anchors_of_the_zoo(tmp_path, capsys):
    (tmp_path / "ppo.yml").write_text(MERGED)
    for words in (["sb3", "--file", str(tmp_path / "ppo.yml")], [str(tmp_path / "ppo.yml")]):
        fields = said([*words, "--env-id", "AntBulletEnv-v0"], capsys)["fields"]
        assert (fields["num_envs"], fields["num_steps"], fields["minibatch_size"]) == (8, 256, 64)
        assert fields["learning_rate"] == 3e-5 and fields["norm_obs"] is True


def test_the_tables_of_rsl_rl_5(tmp_path, capsys):
    (tmp_path / "agent.yaml").write_text(RSL_RL_5)
    found = said([str(tmp_path / "agent.yaml"), "num_envs=64"], capsys)
    fields = found["fields"]
    assert found["library"] == "rsl_rl" and fields["hidden_sizes"] == [128, 64] and fields["norm_obs"] is True
    assert (fields["num_envs"], fields["gamma"], fields["clip_vloss"]) == (64, 0.98, 0.2)
    assert fields["log_std_init"] == pytest.approx(-0.6931, abs=1e-3)


def test_hyperparameters_as_users_of_cleanrl_type_them(capsys):
    words = [
        "cleanrl",
        "--num-envs",
        "4",
        "num-steps=64",
        "--no-anneal-lr",
        "--ent-coef",
        "-0.0",
        "--learning-rate=1e-3",
    ]
    fields = said([*words, "--env-id", "CartPole-v1", "--norm-adv"], capsys)["fields"]
    given = {"num_envs": 4, "num_steps": 64, "anneal_lr": "constant", "learning_rate": 1e-3, "norm_adv": "minibatch"}
    assert {name: fields[name] for name in given} == given


def test_what_is_printed_can_be_trained_from(tmp_path, capsys):
    argv = ["sb3", "n_envs=4", "n_steps=64", "batch_size=32", "learning_rate=1e-3", "--env-id", "CartPole-v1"]
    assert cli.main(["translate", *argv]) == 0
    file = tmp_path / "config.yaml"
    file.write_text(capsys.readouterr().out)
    assert cli.main(["plan", "--config", str(file), "--json"]) == 0
    config = json.loads(capsys.readouterr().out)["config"]
    assert (config["num_envs"], config["minibatch_size"], config["learning_rate"]) == (4, 32, 1e-3)


@pytest.mark.parametrize(
    "argv, words",
    [
        (["sb4", "n_steps=3"], "nearest: sb3"),
        (["sb3", "nsteps=3"], "nearest: n_steps"),
        (["sb3", "n_steps"], "must look like n_steps=2048"),
        (["sb3", "learning_rate=fast"], "cannot be read"),
        (["sb3", "n_steps=100", "batch_size=64"], "minibatch_size"),
    ],
)
def test_mistakes_end_in_one_line(argv, words, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["translate", *argv])
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and words in error and len(error.strip().splitlines()) == 1


def test_a_translated_file_trains_what_was_translated(tmp_path, capsys):
    """Whatever preset the environment has: the file says everything."""
    argv = ["sb3", "n_envs=4", "n_steps=256", "batch_size=64", "--env-id", "Pendulum-v1"]
    assert cli.main(["translate", *argv]) == 0
    (tmp_path / "sb3.yaml").write_text(capsys.readouterr().out)
    read = presets.layered(presets.read_file(tmp_path / "sb3.yaml"))
    assert read == translate("sb3", {"n_envs": 4, "n_steps": 256, "batch_size": 64}).config("Pendulum-v1")
    assert read.gamma == 0.99 and not read.norm_obs and read != presets.layered({"env_id": "Pendulum-v1"})
    without = [word for word in argv if word not in ("--env-id", "Pendulum-v1")]
    assert cli.main(["translate", *without]) == 0
    (tmp_path / "any.yaml").write_text(capsys.readouterr().out)
    assert presets.layered(presets.read_file(tmp_path / "any.yaml"), {"env_id": "Pendulum-v1"}) == read


@pytest.mark.parametrize(
    ("kwargs", "widths", "said"),
    [
        ("dict(net_arch=dict(pi=[64], vf=[128]))", [64], "hidden_sizes: [[64], [128]] there"),
        ("dict(net_arch=", None, "cannot be read"),
        ("dict(net_arch=[32, 32], features_extractor_class=Foo)", [32, 32], "policy_kwargs: features_extractor_class"),
        ("{'net_arch': [32, 32], 'use_sde': True}", [32, 32], "policy_kwargs: use_sde"),
    ],
)
def test_what_is_not_read_out_of_policy_kwargs_is_told(kwargs, widths, said):
    found = translate("sb3", {"policy_kwargs": kwargs})
    assert found.fields.get("hidden_sizes") == widths
    assert said in " ".join([*found.notes, *(f"{name} {why}" for name, why in found.left_out.items())])


def test_what_rl_games_and_skrl_ignore_is_left_out():
    fields = translate("rl_games", {"lr_schedule": "linear", "kl_threshold": 0.008, "grad_norm": 1.0}).fields
    assert (fields["anneal_lr"], fields["max_grad_norm"]) == ("linear", None) and "desired_kl" not in fields
    fields = translate("rl_games", {"normalize_value": True, "truncate_grads": True, "grad_norm": 1.0}).fields
    assert (fields["norm_value"], fields["max_grad_norm"]) == ("popart", 1.0)
    fields = translate("skrl", {"learning_rate": [1e-3, 5e-4], "clip_predicted_values": False}).fields
    assert fields["learning_rate"] == 1e-3 and "clip_vloss" not in fields and "value_learning_rate" not in fields
    kwargs = {"learning_rate_scheduler_kwargs": {"kl_threshold": 0.02}}
    assert "desired_kl" not in translate("skrl", kwargs).fields
    adaptive = {"learning_rate_scheduler": "KLAdaptiveLR"}
    assert translate("skrl", adaptive).fields["desired_kl"] == 0.008
    assert translate("skrl", kwargs | adaptive).fields["desired_kl"] == 0.02
    assert translate("skrl", {"value_preprocessor": "RunningStandardScaler"}).fields["norm_value"] == "popart"


@pytest.mark.parametrize(
    ("library", "field", "value", "said"),
    [
        ("sb3", "norm_reward", True, (None, "VecNormalize(norm_reward=True)")),
        ("sb3", "anneal_lr", "linear", (None, "learning_rate=lambda left: 0.001 * left")),
        ("sb3", "learning_rate", 1e-4, ("learning_rate", 1e-4)),
        ("cleanrl", "anneal_lr", "linear", ("anneal_lr", True)),
        ("cleanrl", "vf_coef", 0.5, ("vf_coef", 1.0)),
        ("skrl", "norm_obs", True, ("observation_preprocessor", "RunningStandardScaler")),
        ("skrl", "norm_value", "popart", ("value_preprocessor", "RunningStandardScaler")),
        ("skrl", "anneal_lr", "linear", (None, "learning_rate_scheduler: KLAdaptiveLR")),
        ("rsl_rl", "num_minibatches", 8, ("num_mini_batches", 8)),
        ("rsl_rl", "norm_reward", True, None),
        ("rl_games", "stagger_resets", True, None),
    ],
)
def test_advice_has_the_words_of_the_library_or_none(library, field, value, said):
    config = Config(learning_rate=1e-3, anneal_lr="linear", total_timesteps=10**6)
    wording = dictionary_of(LIBRARIES[library])(field, value, config)
    if said is None:
        assert wording is None
    elif said[0] is None:
        assert wording.phrase == said[1]
    else:
        assert (wording.name, wording.value, wording.phrase) == (*said, "")
