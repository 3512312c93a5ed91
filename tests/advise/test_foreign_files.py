"""Settings of other libraries: written in their words, and rescaled in place, with nothing else touched."""

import inspect
import json
import subprocess
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import trimtab
from trimtab import cli, presets
from trimtab.config import Config, ConfigError
from trimtab.core.reading import parse_yaml
from trimtab.libraries import LIBRARIES
from trimtab.libraries.common.export_settings import export
from trimtab.libraries.common.translation import translate
from trimtab.libraries.common.yaml_edit import YamlFile, number_text
from trimtab.training.records import Manifest
from trimtab.training.run_dir import RunDir

ZOO = """\
# tuned by hand
PendulumBulletEnv-v0: &bullet
  normalize: true
  n_envs: 8   # eight
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
HopperBulletEnv-v0:
  <<: *bullet
  learning_rate: lin_7e-5
"""
RSL_RL = """\
seed: 42
device: !!python/object/apply:os.system [boom]
num_steps_per_env: 24
max_iterations: 300
obs_groups: {actor: [policy], critic: [policy]}
actor:
  class_name: MLPModel
  hidden_dims: [128, 64]  # both layers
  activation: elu
  distribution_cfg: {class_name: GaussianDistribution, init_std: 0.5}
critic: {class_name: MLPModel, hidden_dims: [128, 64], activation: elu}
algorithm:
  class_name: PPO
  num_learning_epochs: 5
  num_mini_batches: 4
  learning_rate: 1.0e-3  # adaptive
  schedule: adaptive
  desired_kl: 0.01
save_interval: 50
"""
RL_GAMES = """\
params:
  seed: 5
  network: {separate: false, mlp: {units: [32, 16], activation: elu}}
  config: {name: ant, num_actors: 64, horizon_length: 16, minibatch_size: 256, mini_epochs: 5, learning_rate: 3.0e-4,
    lr_schedule: adaptive, kl_threshold: 0.008, grad_norm: 1.0, truncate_grads: true}
"""
SKRL = """\
seed: 5
models:
  separate: true
  policy: {class: GaussianMixin, network: [{name: net, input: STATES, layers: [64, 32], activations: elu}]}
agent:
  rollouts: 16
  mini_batches: 4
  learning_rate: 1.0e-4
  learning_rate_scheduler: KLAdaptiveLR
  learning_rate_scheduler_kwargs: {kl_threshold: 0.02}
trainer:
  timesteps: 1600
"""
FILES = {"zoo": ZOO, "rsl_rl": RSL_RL, "rl_games": RL_GAMES, "skrl": SKRL}


def rescaled(tmp_path, text, *words, **options):
    """A file after `trimtab rescale FILE --out`, and what Python returns."""
    file, out = tmp_path / "agent.yaml", tmp_path / "out.yaml"
    file.write_text(text)
    result = trimtab.rescale(file, **options)
    flags = [
        [f"--{name.replace('_', '-')}", str(value)] for name, value in options.items() if name != "hyperparameters"
    ]
    pairs = [f"{name}={value}" for name, value in options.get("hyperparameters", {}).items()]
    assert (
        cli.main(
            [
                "rescale",
                str(file),
                *[word for flag in flags for word in flag],
                *pairs,
                "--out",
                str(out),
                "--force",
                *words,
            ]
        )
        == 0
    )
    assert out.read_text() == result.text
    return result


def changed_lines(before, after):
    old = before.splitlines()
    return [line.strip() for line in after.splitlines() if line not in old]


def test_isaac_labs_agent_yaml_keeps_its_comments_and_everything_else(tmp_path):
    result = rescaled(tmp_path, RSL_RL, num_envs=64)
    assert changed_lines(RSL_RL, result.text) == [
        "max_iterations: 19200",
        "learning_rate: 0.000125  # adaptive",
        "max_grad_norm: 8.0",
    ]
    assert len(result.text.splitlines()) == len(RSL_RL.splitlines()) + 1 and result.library == "rsl_rl"
    assert {change.field for change in result.options} == {
        "num_envs",
        "max_iterations",
        "learning_rate",
        "max_grad_norm",
    }
    said = " ".join(result.notes)
    assert "4096, the default of rsl_rl, is assumed" in said and "start training with --num_envs 64" in said
    assert "norm_adv_span 1 -> 64: rsl_rl has no option for it" in said


def test_the_number_of_environments_is_read_beside_or_given(tmp_path):
    (tmp_path / "env.yaml").write_text("sim: !!python/object:x.Sim {dt: 1}\nscene: {num_envs: 128}\n")
    beside = rescaled(tmp_path, RSL_RL, num_envs=32, skip="norm_adv")
    assert beside.c_iter == 4 and not any("assumed" in note for note in beside.notes)
    given = rescaled(tmp_path, RSL_RL, num_envs=32, hyperparameters={"num_envs": 64})
    assert given.c_iter == 2
    (tmp_path / "env.yaml").unlink()
    (tmp_path / "agent.yaml").write_text(SKRL)
    with pytest.raises(ConfigError, match="does not hold it; add num_envs=…"):
        trimtab.rescale(tmp_path / "agent.yaml", num_envs=32)


def test_counts_of_one_process_stay_per_process(tmp_path):
    """Four processes: each keeps its environments and its minibatch; what depends on the whole batch is adjusted."""
    one = rescaled(tmp_path, RL_GAMES, devices_before=1, devices=4)
    assert changed_lines(RL_GAMES, one.text) and "num_actors: 64" in one.text and "minibatch_size: 256" in one.text
    assert one.c_opt == 0.25 and parse_yaml(one.text)["params"]["config"]["learning_rate"] == pytest.approx(6e-4)
    four = rescaled(tmp_path, RL_GAMES, devices_before=4, num_envs=16)
    config = parse_yaml(four.text)["params"]["config"]
    assert (config["num_actors"], config["minibatch_size"]) == (16, 64) and four.config.num_envs == 64


@pytest.mark.parametrize("env_id", ["PendulumBulletEnv-v0", "AntBulletEnv-v0", "HopperBulletEnv-v0"])
def test_other_environments_of_a_zoo_file_stay_what_they_were(env_id, tmp_path):
    result = rescaled(tmp_path, ZOO, env_id=env_id, num_envs=2)
    before, after = parse_yaml(ZOO), parse_yaml(result.text)
    expected = {"max_grad_norm": 0.5}  # the library's default, where the changed one would be inherited
    for other in before.keys() - {env_id}:
        assert expected | before[other] == expected | after[other]
    ours, theirs = before[env_id], after[env_id]
    assert (theirs["n_envs"], theirs["batch_size"]) == (2, ours["batch_size"] // 4)
    assert "# tuned by hand" in result.text and "n_timesteps: !!float 2e6" in result.text
    if env_id.startswith("Hopper"):
        assert theirs["learning_rate"] == "lin_3.5e-05"


@pytest.mark.parametrize("name", FILES)
def test_there_and_back_gives_the_same_settings(name, tmp_path):
    options = {"env_id": "AntBulletEnv-v0"} if name == "zoo" else {}
    pairs = {"zoo": {}, "rl_games": {}}.get(name, {"num_envs": 64})
    there = rescaled(tmp_path, FILES[name], num_envs=16, skip="norm_adv", hyperparameters=pairs, **options)
    before = 8 if name == "zoo" else 64
    pairs = {name: 16 for name in pairs}
    back = rescaled(tmp_path, there.text, num_envs=before, skip="norm_adv", hyperparameters=pairs, **options)
    added = {"max_grad_norm": 0.5} if name == "zoo" else {}
    defaults = {"rsl_rl": {"max_grad_norm": 1.0}, "skrl": {"grad_norm_clip": 0.5}}.get(name, {})
    first, last = (parse_yaml(text, python_tags=True) for text in (FILES[name], back.text))
    for table in {"rsl_rl": ["algorithm"], "skrl": ["agent"]}.get(name, []):
        first[table] = defaults | first[table]
    if name == "zoo":
        first = {key: added | dict(values) for key, values in first.items()}
        last = {key: added | dict(values) for key, values in last.items()}
    assert last == first


def test_what_no_file_of_another_library_needs_is_refused(tmp_path, capsys):
    (tmp_path / "own.yaml").write_text("num_envs: 8\nnum_steps: 64\nenv_id: CartPole-v1\n")
    with pytest.raises(ConfigError, match="settings files of other libraries"):
        trimtab.rescale(tmp_path / "own.yaml", num_envs=16, hyperparameters={"num_envs": 4})
    (tmp_path / "zoo.yml").write_text(ZOO)
    with pytest.raises(SystemExit):
        cli.main(["rescale", str(tmp_path / "zoo.yml"), "--num-envs", "2"])
    assert "the file holds 3 environments" in capsys.readouterr().err
    assert cli.main(["rescale", str(tmp_path / "own.yaml"), "--num-envs", "16", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["config"]["num_envs"] == 16


# Editing YAML -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, path, value, after",
    [
        ("a: 1 # one\nb: 2\n", ("a",), 3, "a: 3 # one\nb: 2\n"),
        ("a: 1\r\nb: 2\r\n", ("c",), 3, "a: 1\r\nb: 2\r\nc: 3\r\n"),
        ("a: 1", ("c",), True, "a: 1\nc: true"),
        ("x: {a: 1, b: [2, 3],}\n", ("x", "c"), 0.5, "x: {a: 1, b: [2, 3], c: 0.5}\n"),
        ("x: {}\n", ("x", "c"), None, "x: {c: null}\n"),
        ("x:\n  a: !!float 1e5 # much\n", ("x", "a"), 2.5e-5, "x:\n  a: !!float 2.5e-05 # much\n"),
        ("x: {a: 'q'}\n", ("x", "a"), "lin_3e-4", "x: {a: lin_3e-4}\n"),
        ("x:\n  y:\n    z: 1\n", ("x", "w"), 2, "x:\n  w: 2\n  y:\n    z: 1\n"),
        ("a: 1\n", ("x", "b"), 2, "a: 1\nx: {b: 2}\n"),
        ("l:\n- n: 1\n- n: 2\n", ("l", 1, "n"), 5, "l:\n- n: 1\n- n: 5\n"),
        ("a: &k 1\nb: *k\n", ("a",), 2, "a: &k 2\nb: 1\n"),
        ("a: &k 1\nb: *k # k\n", ("b",), 2, "a: &k 1\nb: 2 # k\n"),
        ("a: &k {n: 1}\nb: {<<: *k}\n", ("a", "m"), 2, "a: &k {n: 1, m: 2}\nb: {<<: *k, m: 9}\n"),
    ],
)
def test_one_value_changes_and_no_other_byte(text, path, value, after):
    changed = YamlFile(text).set(path, value, default=9)
    if "{a: 1, b: [2, 3],}" in text:
        after = "x: {a: 1, b: [2, 3], c: 0.5}\n"
    assert changed.text == after


NAMES = st.sampled_from(["a", "b", "lr", "n_envs", "yes", "x y"])
SCALARS = st.one_of(st.integers(-5, 10**6), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none())
SCALARS |= st.sampled_from(["lin_3e-4", "1e-5", "it's: # odd", "", "true"])
TABLES = st.recursive(
    st.dictionaries(NAMES, SCALARS, min_size=1, max_size=4),
    lambda inner: st.dictionaries(NAMES, st.one_of(inner, SCALARS), min_size=1, max_size=4),
    max_leaves=8,
)


def paths(table, before=()):
    """Places of plain values, and one that is new, in every table."""
    yield (*before, "new")
    for name, value in table.items():
        yield from paths(value, (*before, name)) if isinstance(value, dict) else [(*before, name)]


@given(TABLES, SCALARS, st.sampled_from([True, False, None]), st.data())
def test_whatever_is_changed_everything_else_stays(table, value, flow, data):
    text = yaml.safe_dump(table, default_flow_style=flow, sort_keys=False, width=30).replace("\n", "  # kept\n", 1)
    path = data.draw(st.sampled_from(list(paths(table))))
    if parse_yaml(text) != table:
        return  # the comment fell inside a value
    expected = json.loads(json.dumps(table))
    inner = expected
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    changed = YamlFile(text).set(path, value)
    assert changed.values == expected and "# kept" in changed.text


def test_values_on_several_lines_are_left_to_people():
    with pytest.raises(ConfigError, match="spans several lines"):
        YamlFile("a:\n- 1\n- 2\n").set(("a",), 3)


def test_numbers_are_read_as_they_were_meant():
    for value in (1e-5, 3e-4 / 2**0.5, 1.0, 64.0, 1e9, -2.5, 1e22, 0.1 + 0.2):
        assert yaml.safe_load(number_text(value)) == pytest.approx(value, rel=1e-15)
    assert number_text((3e-4 / 2**0.5) * 2**0.5) == "0.0003"


# Writing configurations -------------------------------------------------------------------------------------


WRITTEN = [name for name, library in LIBRARIES.items() if library.forms]
IN_TORCH = {"norm_adv_ddof": 1, "total_timesteps": 512 * 40}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_for_a_library_is_what_it_reads(name):
    """From a library's own defaults, changed wherever it has an option, nothing is lost and nothing noted."""
    library = LIBRARIES[name]
    given = {"clip_coef": 0.15, "gamma": 0.98, "gae_lambda": 0.9, "ent_coef": 0.02, "learning_rate": 1e-3, "seed": 3}
    given |= {"ent_coef": 0.01} if name == "ppo-ewma" else {}  # it has no option there
    config = translate(name, {}).config("Pendulum-v1").replace(**given, total_timesteps=2**24)
    config = config.replace(clip_vloss=config.clip_vloss and config.clip_coef)
    exported = export(config, name)
    back = translate(name, exported.fields).config("Pendulum-v1")
    assert {field: getattr(back, field) for field in given} == given and back.batch == config.batch
    assert back.minibatch == config.minibatch and back.steps == config.steps
    assert not [note for note in exported.notes if note not in (*library.always, *_outside(library, exported))]


def _outside(library, exported):
    return [text.format(value=exported.fields[name]) for name, text in library.outside.items()]


@pytest.mark.parametrize("name", ["rsl_rl", "rl_games", "skrl"])
def test_a_written_file_is_recognized_and_rescaled(name, tmp_path):
    config = presets.layered({"env_id": "Pendulum-v1", "num_envs": 16, "num_steps": 64, "num_minibatches": 4})
    exported = export(config, name)
    assert (
        translate(name, LIBRARIES[name].settings(yaml.safe_load(exported.text))).fields["learning_rate"]
        == config.learning_rate
    )
    pairs = {"num_envs": 16} if LIBRARIES[name].outside else {}
    result = rescaled(tmp_path, exported.text, num_envs=4, hyperparameters=pairs)
    assert result.library == LIBRARIES[name].title and result.c_iter == 4


def test_a_script_for_stable_baselines3_is_python_that_says_everything():
    config = presets.layered({"env_id": "Pendulum-v1"}).replace(hidden_sizes=(32, 16), activation="relu")
    exported = export(config, "sb3")
    compile(exported.text, "train.py", "exec")
    assert "VecNormalize(env, norm_obs=True, norm_reward=True, gamma=0.97)" in exported.text
    assert "learning_rate=lambda left: 0.0005 * left" in exported.text and "activation_fn=nn.ReLU" in exported.text
    assert "norm_adv: batch in trimtab, minibatch in Stable-Baselines3" in exported.notes
    entry = yaml.safe_load(export(config, "sb3", "yaml").text)["Pendulum-v1"]
    assert entry["learning_rate"] == "lin_0.0005" and entry["normalize"] is True and entry["policy"] == "MlpPolicy"
    assert translate("sb3", entry).config("Pendulum-v1").norm_reward_gamma == config.gamma


def test_a_command_for_cleanrl_and_a_call_for_brax():
    from brax.training.agents.ppo import train as ppo

    config = Config(norm_reward=True, anneal_lr="linear", target_kl=0.02, norm_adv="minibatch", norm_adv_ddof=1)
    exported = export(config, "cleanrl")
    words = exported.text.replace("\\\n", " ").split()
    assert words[:2] == ["python", "ppo.py"] and "--anneal-lr" in words and "--no-clip-vloss" in words
    assert words[words.index("--target-kl") + 1] == "0.03"
    assert any("NormalizeReward(env) in make_env" in note for note in exported.notes)
    call = export(config, "brax").text
    assert "activation" not in call, "it belongs to the network factory"
    assert "activation: tanh in trimtab, silu in brax; use network_factory with activation=jax.nn.tanh" in (
        export(config, "brax").notes
    )
    accepted = inspect.signature(ppo.train).parameters.keys()
    assert export(config.replace(anneal_lr="adaptive"), "brax").fields.keys() <= accepted
    assert call.startswith("ppo.train(") and "entropy_cost=0.01," in call and compile(call, "x", "eval")


def test_a_schedule_that_a_library_lacks_is_constant_there():
    """The library's default would be another schedule."""
    config = Config(anneal_lr="cosine")
    assert export(config, "rsl_rl").fields["schedule"] == "fixed" and not export(config, "cleanrl").fields["anneal_lr"]
    assert "anneal_lr: cosine in trimtab, constant in rsl_rl" in export(config, "rsl_rl").notes


def test_an_algorithm_that_a_library_lacks_is_refused():
    with pytest.raises(ConfigError, match="has no such algorithm; nearest: ppo"):
        export(Config(algo="ppg"), "sb3")
    with pytest.raises(ConfigError, match="nearest: python"):
        export(Config(), "sb3", "pyton")
    with pytest.raises(ConfigError, match="reads its files but does not write them"):
        export(Config(), "rllib")
    ewma = Config(algo="ppo-ewma", env_id="procgen/starpilot-hard", prox_com=8.0)
    assert export(ewma, "ppo-ewma").fields["kl_ewma_decay"] == pytest.approx(8 / 9)


def test_writing_settings_does_not_import_jax():
    modules = "rescale_settings, export_settings"
    code = f"import sys; from trimtab.libraries.common import {modules}; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# The command ------------------------------------------------------------------------------------------------


def written(capsys, *words):
    assert cli.main(["translate", *words]) == 0
    return capsys.readouterr().out


def test_the_command_writes_what_the_library_reads(tmp_path, capsys):
    text = written(capsys, "Pendulum-v1", "--to", "rsl_rl")
    assert text.startswith("# num_envs is not part of agent.yaml: start training with --num_envs 8")
    assert yaml.safe_load(text)["algorithm"]["gamma"] == presets.layered({"env_id": "Pendulum-v1"}).gamma
    (tmp_path / "agent.yaml").write_text(text)
    back = json.loads(written(capsys, str(tmp_path / "agent.yaml"), "num_envs=8", "--json"))
    assert back["library"] == "rsl_rl" and back["fields"]["num_steps"] == 256
    between = written(capsys, str(tmp_path / "agent.yaml"), "num_envs=8", "--env-id", "Pendulum-v1", "--to", "skrl")
    assert yaml.safe_load(between)["agent"]["rollouts"] == 256
    assert "--num-envs 4" in written(capsys, "sb3", "n_envs=4", "--env-id", "CartPole-v1", "--to", "cleanrl")
    told = json.loads(written(capsys, "CartPole-v1", "num_envs=2", "--to", "sb3", "--form", "yaml", "--json"))
    assert told["library"] == "sb3" and told["fields"]["n_envs"] == 2 and yaml.safe_load(told["text"])["CartPole-v1"]


def test_runs_configurations_and_python(tmp_path, capsys):
    config = Config(num_envs=2, num_steps=8, total_timesteps=32)
    run = RunDir.create(tmp_path / "run", config, Manifest())
    assert trimtab.translate(config, to="cleanrl") == trimtab.translate(trimtab.load(run.path), to="cleanrl")
    assert trimtab.translate(config, to="cleanrl").text == export(config, "cleanrl").text
    with pytest.raises(ConfigError, match="is translated to a library"):
        trimtab.translate(config)
    for words, message in ((["CartPole-v1", "--to", "sb4"], "nearest: sb3"), (["sb3", "--form", "yaml"], "needs --to")):
        with pytest.raises(SystemExit):
            cli.main(["translate", *words])
        assert message in capsys.readouterr().err
