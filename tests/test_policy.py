"""Policies outside their runs: in NumPy without JAX, exported and checked, watched."""

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
import tiny

import trimtab
from trimtab import cli
from trimtab.config import Config
from trimtab.core import trust
from trimtab.core.errors import RunError
from trimtab.envs.base import Continuous, Discrete, MultiBinary, MultiDiscrete, Part, Spec
from trimtab.extras import play_episodes
from trimtab.extras.policy_export import export_files, onnx_graph, standalone_onnx
from trimtab.nets.agent import Agent, distribution_for
from trimtab.nets.heads import clip_action
from trimtab.training import loop, standalone_numpy
from trimtab.training import numpy_policy as policies
from trimtab.training.engine_setup import load_engine
from trimtab.training.manifest import environment_record
from trimtab.training.numpy_policy import policy_of
from trimtab.training.records import EnvironmentRecord, Manifest, ObservationRecord
from trimtab.training.run_dir import RunDir

KINDS = {
    "discrete": {"env_id": "CartPole-v1", "arch": "detach"},
    "continuous": {"env_id": "Pendulum-v1", "norm_obs": True, "clip_obs": 1.5, "activation": "relu"},
}


@pytest.fixture(scope="module", params=KINDS)
def run(request, tmp_path_factory):
    """Trained if continuous; the other stops before it compiles a step, with its first checkpoint."""
    config = tiny.config(**KINDS[request.param], hidden_sizes=(8, 6), total_timesteps=32)
    until = 0 if request.param == "discrete" else None
    return loop.train(config, tmp_path_factory.mktemp("runs") / "run", checkpoints=2, until=until)


@pytest.fixture(scope="module")
def original(run):
    """Observations and outputs of the network that was trained."""
    return export_files._original(run.path, run.checkpoints[-1].step)


def test_outputs_and_actions_are_those_of_the_trained_network(run, original):
    policy = run.policy()
    np.testing.assert_allclose(policy.outputs(original.observations), original.outputs, atol=1e-6)
    _, engine, state, _ = load_engine(run.path, None)
    observations = jax.numpy.asarray(original.observations)
    wanted = jax.jit(engine.algorithm.act_greedily)(state.params, state.obs_stats, observations, engine.hypers)
    np.testing.assert_allclose(policy(original.observations), wanted, atol=1e-6)
    one = policy(original.observations[3])
    assert one.shape == np.asarray(wanted)[3].shape and np.allclose(one, wanted[3], atol=1e-6)


def test_an_earlier_checkpoint_is_another_policy(run, original):
    if run.checkpoints[-1].step:
        before = run.policy(step=0).outputs(original.observations)
        assert np.abs(before - original.outputs).max() > 1e-4
    with pytest.raises(RunError, match="nearest"):
        run.policy(step=7)


def test_drawn_actions_have_the_distribution_of_training_and_a_seed(run, original):
    one = np.repeat(original.observations[:1], 20_000, axis=0)
    drawn = run.policy(sample=True, seed=3)(one)
    assert (drawn == run.policy(sample=True, seed=3)(one)).all()
    assert (drawn != run.policy(sample=True, seed=4)(one)).any()
    outputs, weights = original.outputs[0], run.policy().weights
    if run.policy().discrete:
        expected = np.exp(outputs) / np.exp(outputs).sum()
        np.testing.assert_allclose(np.bincount(drawn, minlength=len(outputs)) / len(one), expected, atol=0.02)
    else:
        inside = np.abs(drawn) < 2.0  # what was not clipped to the box
        assert inside.mean() > 0.8 and np.abs(drawn).max() <= 2.0
        assert abs(np.median(drawn) - outputs[0]) < 0.05
        middle = np.mean(np.abs(drawn - outputs[0]) < np.exp(weights["log_std"][0]))
        assert abs(middle - 0.683) < 0.02


def test_observations_of_another_shape_are_refused(run):
    with pytest.raises(ValueError, match="observation: has shape"):
        run.policy()(np.zeros(17))


def test_a_process_with_a_policy_never_imports_jax(run):
    """Nor does anything it needs: only NumPy computes."""
    code = (
        "import sys, numpy, trimtab; p = trimtab.load(sys.argv[1]).policy(); "
        "print(p(numpy.zeros(p.observation_shape))); "
        "print([m for m in ('jax', 'equinox', 'optax') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code, run.path], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[1] == "[]"


@pytest.mark.parametrize("form", export_files.FORMATS)
def test_an_export_is_checked_and_says_by_how_much_it_differs(run, original, form, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(export_files, "_original", lambda path, step: original)
    out = tmp_path / form
    assert cli.main(["export", str(run.path), "--to", form, "--out", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == json.loads((out / "check.json").read_text())
    assert report["largest_difference"] < 1e-6 and report["largest_output"] > 1e-3
    with pytest.raises(SystemExit):
        cli.main(["export", str(run.path), "--to", form, "--out", str(out)])
    assert "already exists" in capsys.readouterr().err
    moved = replace(original, outputs=original.outputs + 0.01)
    monkeypatch.setattr(export_files, "_original", lambda path, step: moved)
    with pytest.raises(RunError, match=r"differs from the run by 0\.0"):
        export_files.export(run.files, form, tmp_path / "moved")


def test_the_numpy_export_needs_numpy_only(run, original, tmp_path, monkeypatch):
    """The standalone file acts like the run, in a process that can find nothing else."""
    monkeypatch.setattr(export_files, "_original", lambda path, step: original)
    trimtab.export(run, "numpy", tmp_path / "out")
    assert zipfile.ZipFile(tmp_path / "out" / "policy.npz").testzip() is None
    np.save(tmp_path / "obs.npy", original.observations)
    code = (
        "import sys, numpy as np; sys.path.insert(0, 'out'); import policy; "
        "w = policy.load('out/policy.npz'); np.save('said.npy', policy.act(w, np.load('obs.npy'))); "
        "assert not any(m.startswith(('trimtab', 'jax', 'safetensors')) for m in sys.modules)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, env=environment)
    assert (np.load(tmp_path / "said.npy") == run.policy()(original.observations)).all()


def test_the_onnx_export_acts_like_the_run(run, original, tmp_path, monkeypatch):
    monkeypatch.setattr(export_files, "_original", lambda path, step: original)
    trimtab.export(run, "onnx", tmp_path)
    session = standalone_onnx.load(tmp_path / "policy.onnx")
    np.testing.assert_allclose(
        standalone_onnx.act(session, original.observations), run.policy()(original.observations), atol=1e-6
    )
    one = standalone_onnx.act(session, original.observations[0])
    np.testing.assert_allclose(one, run.policy()(original.observations[0]), atol=1e-6)


def test_the_torch_export_names_and_turns_every_tensor_as_its_module_does(run, original, tmp_path, monkeypatch):
    """PyTorch is not installed for the tests: the file's tensors are computed with as the module would, in NumPy."""
    from safetensors import safe_open

    monkeypatch.setattr(export_files, "_original", lambda path, step: original)
    trimtab.export(run, "torch", tmp_path)
    with safe_open(tmp_path / "policy.safetensors", "np") as file:
        tensors, about = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    x = original.observations.astype(np.float32)
    if "obs_mean" in tensors:
        x = np.clip((x - tensors["obs_mean"]) / tensors["obs_std"], -tensors["obs_clip"], tensors["obs_clip"])
    activation = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}[about["activation"]]
    for k in range(2):  # nn.Linear: x Wᵀ + b
        x = activation(x @ tensors[f"layers.{k}.weight"].T + tensors[f"layers.{k}.bias"])
    np.testing.assert_allclose(x @ tensors["head.weight"].T + tensors["head.bias"], original.outputs, atol=1e-6)
    computed = {"obs_mean", "obs_std", "obs_clip", "log_std", "low", "high"}
    dense = {f"{layer}.{part}" for layer in ("layers.0", "layers.1", "head") for part in ("weight", "bias")}
    assert dense <= set(tensors) <= dense | computed


MADE = {  # every kind of network, observation and action, made up and never trained
    "impala": ((9, 6, 3), "uint8", Discrete(4), {"network": "impala", "impala_channels": (4, 5), "hidden_sizes": (7,)}),
    "nature": ((36, 40, 2), "uint8", Discrete(3), {"network": "nature", "hidden_sizes": (6,)}),
    "dense on pixels": ((5, 4, 2), "uint8", Discrete(3), {"hidden_sizes": (6,)}),
    "several choices": ((5,), "float32", MultiDiscrete((3, 2, 4)), {"activation": "elu", "hidden_sizes": (8,)}),
    "switches": ((5,), "float32", MultiBinary(4), {"activation": "silu", "hidden_sizes": (8,)}),
    "parts": ((6,), "float32", Continuous((-1.0, -2.0), (1.0, 2.0)), {"activation": "gelu", "hidden_sizes": (8,)}),
}
PARTS = (Part("camera", 0, 3), Part("inner.speed", 3, 4), Part("inner.turn", 4, 6))


@pytest.fixture(scope="module", params=MADE)
def made(request, tmp_path_factory):
    """The files of a run, observations, and what its network and distribution say of them."""
    shape, dtype, space, options = MADE[request.param]
    dist, parts = distribution_for(space), PARTS if request.param == "parts" else ()
    sees = {"actor_obs": ("inner",)} if parts else {}
    spec = Spec("Made-up", "gymnasium", shape, dtype, space, None, compiled=False, parts=parts)
    config = Config(env_id="Made-up", **{"network": "mlp"} | options, **sees)
    agent = Agent(shape, dtype, dist, **options, auxiliary=True, actor_parts=spec.slices("actor_obs", config.actor_obs))
    manifest = Manifest(environment=environment_record(config, spec))
    files = RunDir.create(tmp_path_factory.mktemp("made") / "run", config, manifest)
    params, start, tensors = np.asarray(agent.init(jax.random.key(0)).policy), 0, {}
    params = params + 0.1 * np.random.default_rng(0).standard_normal(params.shape, np.float32)  # biases are not 0
    for name, part in agent.policy_layout.items():
        size = int(np.prod(part))
        tensors[f"params.policy.{name}"], start = params[start : start + size].reshape(part), start + size
    files.write_checkpoint(0, 0, tensors)
    draw = np.random.default_rng(1)
    seen = draw.integers(0, 256, (9, *shape), np.uint8) if dtype == "uint8" else draw.normal(size=(9, *shape))
    seen = seen.astype(dtype)
    said = jax.jit(agent.policy)(params, seen)
    return files, seen, np.asarray(said)[:, : dist.num_outputs], np.asarray(clip_action(dist, dist.mode(said)))


def test_every_network_and_action_is_the_same_in_numpy_onnx_and_torch_layout(made):
    files, seen, wanted, actions = made
    policy = policy_of(files)
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(policy.outputs(seen), wanted, atol=1e-5 * scale)
    np.testing.assert_allclose(policy(seen), actions, atol=1e-5 * scale)
    np.testing.assert_allclose(policy(seen[2]), actions[2], atol=1e-5 * scale)
    model = onnx_graph.to_onnx(policy.weights, str(seen.dtype)).SerializeToString()
    import onnxruntime

    said = onnxruntime.InferenceSession(model).run(["outputs", "action"], {"observation": seen})
    np.testing.assert_allclose(said[0], wanted, atol=1e-5 * scale)
    np.testing.assert_allclose(said[1], actions, atol=1e-5 * scale)
    tensors, header = export_files._to_torch(policy.weights)
    assert all(isinstance(value, str) for value in header.values())
    back = export_files._from_torch(tensors, header)
    assert back.keys() == policy.weights.keys()
    assert (standalone_numpy.act(back, seen) == policy(seen)).all()
    kernels = [tensor.shape[2:] for tensor in tensors.values() if tensor.ndim == 4]
    assert all(rows == columns for rows, columns in kernels)  # [outputs, inputs, k, k]


def test_drawn_choices_and_switches_have_their_probabilities(made):
    files, seen, wanted, _ = made
    policy = policy_of(files, sample=True, seed=1)
    many = np.repeat(seen[:1], 8_000, axis=0)
    if "switches" in policy.weights:
        np.testing.assert_allclose(policy(many).mean(0), 1 / (1 + np.exp(-wanted[0])), atol=0.03)
    elif "choices" in policy.weights:
        drawn, ends = policy(many), np.cumsum(policy.weights["choices"])
        for k, (n, end) in enumerate(zip(policy.weights["choices"], ends)):
            odds = np.exp(wanted[0, end - n : end])
            np.testing.assert_allclose(np.bincount(drawn[:, k], minlength=n) / 8_000, odds / odds.sum(), atol=0.03)


def test_a_dict_may_be_given_as_it_is(made):
    files, seen, _, actions = made
    policy = policy_of(files)
    if not policy.parts:
        return
    asked = {"inner": {"turn": seen[0, 4:], "speed": seen[0, 3:4]}, "camera": seen[0, :3]}
    np.testing.assert_allclose(policy(asked), actions[0], atol=1e-6)
    with pytest.raises(ValueError, match="camera has 2 numbers, not 3"):
        policy(asked | {"camera": seen[0, :2]})


def test_keys_may_have_points_themselves():
    seen = {"observation.state": {"a.b": 1, "a": 2}, "observation": (3, {"x": 4})}
    names = ("observation.state.a.b", "observation.state.a", "observation.0", "observation.1.x")
    assert [policies._inside(seen, name) for name in names] == [1, 2, 3, 4]
    with pytest.raises(ValueError, match=r"has no observation\.y"):
        policies._inside(seen, "observation.y")


@pytest.mark.parametrize("fault, says", {"reset": "reset raised RuntimeError", "": "render raised"}.items())
def test_own_environments_that_cannot_be_drawn_are_told_in_one_line(fault, says, runs, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "envs"))
    monkeypatch.setattr(trust, "_trusted", {"corridors"})
    config = tiny.config(env_id="corridors:Corridor", num_steps=2, total_timesteps=4, num_minibatches=1)
    made = loop.train(config, "run")
    made.files.write_config(config.replace(env_kwargs={"fault": fault}))
    with pytest.raises(RunError, match=f"cannot be watched: {says}"):
        trimtab.watch("run", "play.gif")


def test_a_policy_of_another_observation_is_not_watched(runs):
    """EnvPool's Blackjack observes three numbers, Gymnasium's three indices."""
    loop.train(tiny.config(env_id="Blackjack-v1", num_steps=2, total_timesteps=4, num_minibatches=1), "run")
    with pytest.raises(RunError, match=r"Gymnasium's observes \(45,\), the policy was trained on \(3,\)"):
        trimtab.watch("run", "play.gif")


def test_watching_writes_every_frame_and_the_return(run, tmp_path):
    from PIL import Image

    result = trimtab.watch(run, tmp_path / "play.gif", steps=12, seed=5)
    pictures = Image.open(tmp_path / "play.gif")
    assert pictures.size[0] >= 400 and result["frames"] == 1 + min(12, 12 if result["cut"] else result["frames"] - 1)
    assert 1 < pictures.n_frames <= result["frames"]  # equal neighbours may be joined
    again = trimtab.watch(run, tmp_path / "again.gif", steps=12, seed=5)
    assert again["returns"] == result["returns"] and len(result["returns"]) == 1


@pytest.mark.parametrize(
    "line, says",
    {
        "watch RUN --out film.avi": "must end in .gif or .mp4",
        "watch RUN --episodes 0": "episodes=0",
        "watch RUN --window --out a.gif": "a window writes no file",
        "export RUN --to tensorflow": "numpy, onnx, torch",
        "export RUN --to numpy --at 3": "no checkpoint at step 3",
        "export nowhere --to numpy": "not a run directory",
    }.items(),
)
def test_what_cannot_be_done_is_refused_in_one_line(run, line, says, runs, capsys):
    with pytest.raises(SystemExit):
        cli.main(line.replace("RUN", str(run.path)).split())
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1
    assert not list(runs.iterdir())


def test_a_film_without_ffmpeg_and_a_window_without_a_display_say_what_is_missing(run, tmp_path, monkeypatch):
    monkeypatch.setattr(play_episodes.shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(play_episodes.MissingPackage, match="pip install imageio-ffmpeg"):
        trimtab.watch(run, tmp_path / "film.mp4")
    monkeypatch.setattr(play_episodes, "_has_display", lambda: False)
    with pytest.raises(RunError, match="no display"):
        play_episodes.watch(run, None)


def test_observations_as_pictures():
    marks = np.zeros((10, 10, 4), np.float32)
    marks[2, 3, 0] = marks[5, 5, 2] = 1
    frame = play_episodes._picture(marks)
    assert frame.shape == (260, 260, 3) and frame.dtype == np.uint8
    colours = {tuple(frame[26 * y + 13, 26 * x + 13]) for y, x in ((2, 3), (5, 5), (0, 0))}
    assert len(colours) == 3
    stacked = np.zeros((84, 84, 4), np.uint8)
    stacked[..., 3] = 200
    assert (play_episodes._picture(stacked) == 200).all()


def test_what_no_one_draws_is_refused(tmp_path):
    environment = EnvironmentRecord(backend="native", observation=ObservationRecord((3,), "float32"))
    files = RunDir.create(tmp_path / "run", Config(env_id="Reacher-misc"), Manifest(environment=environment))
    with pytest.raises(RunError, match="cannot be watched: Gymnasium cannot draw it"):
        play_episodes._scene_of(trimtab.Run(files.path))
