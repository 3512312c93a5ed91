"""Writing a policy for other programs, and checking what was written against the run on observations of its own."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trimtab.config import ConfigError
from trimtab.core.errors import MissingPackage
from trimtab.core.writing import write_atomically, write_json
from trimtab.training import standalone_numpy
from trimtab.training.numpy_policy import Policy, policy_of
from trimtab.training.records import RunDir, RunError

FORMATS = ("numpy", "onnx", "torch")
TOLERANCE = 1e-4  # of the outputs' own size: float32 sums in another order
OBSERVATIONS = 256

Outputs = Callable[[np.ndarray], np.ndarray]  # a batch of observations to what the network says of them


class Original(NamedTuple):
    """Observations met in the environment, and what the run's own network says of them."""

    observations: np.ndarray
    outputs: np.ndarray


def export(run: RunDir, to: str, out: Path, step: int | None = None, force: bool = False) -> dict[str, Any]:
    """Write a checkpoint's policy into `out`, check it, and say how far what was written is from the original."""
    if to not in FORMATS:
        raise ConfigError("to", to, f"no such form; nearest: {', '.join(FORMATS)}")
    _refuse_missing(to)
    if out.exists() and not force and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out} already exists and is not empty; give another --out, or --force")
    policy = policy_of(run, step)
    original = _original(run.path, policy.step)
    file, outputs, checked_by = _WRITERS[to](policy, out, str(original.observations.dtype))
    example = out / "policy.py"
    folder = Path(standalone_numpy.__file__ if to == "numpy" else __file__).parent
    write_atomically(example, (folder / f"standalone_{to}.py").read_bytes())
    largest = float(np.abs(outputs(original.observations) - original.outputs).max())
    scale = float(np.abs(original.outputs).max())
    report = {
        "run": str(run.path),
        "step": policy.step,
        "env_id": policy.env_id,
        "form": to,
        "file": str(file),
        "example": str(example),
        "checked_on": f"{len(original.observations)} observations of {policy.env_id}",
        "checked_by": checked_by,
        "largest_difference": largest,
        "largest_output": scale,
    }
    write_json(out / "check.json", report)
    if not largest <= TOLERANCE * max(scale, 1.0):
        raise RunError(f"{file} differs from the run by {largest:.3g} where outputs reach {scale:.3g}: do not use it")
    return report


def _refuse_missing(to: str) -> None:
    for package in {"onnx": ("onnx", "onnxruntime")}.get(to, ()):
        if importlib.util.find_spec(package) is None:
            raise MissingPackage(f"--to {to} needs {package}: pip install 'trimtab[export]'")


def _write_numpy(policy: Policy, out: Path, obs_dtype: str) -> tuple[Path, Outputs, str]:
    data = io.BytesIO()
    np.savez(data, **policy.weights)  # type: ignore[arg-type]
    write_atomically(out / "policy.npz", data.getvalue())
    weights = standalone_numpy.load(out / "policy.npz")
    return out / "policy.npz", lambda obs: standalone_numpy.outputs(weights, obs), "NumPy"


def _write_onnx(policy: Policy, out: Path, obs_dtype: str) -> tuple[Path, Outputs, str]:
    from trimtab.extras.policy_export.onnx_graph import to_onnx

    write_atomically(out / "policy.onnx", to_onnx(policy.weights, obs_dtype).SerializeToString())
    from trimtab.extras.policy_export import standalone_onnx

    session = standalone_onnx.load(out / "policy.onnx")
    return out / "policy.onnx", lambda obs: session.run(["outputs"], {"observation": obs})[0], "onnxruntime"


def _write_torch(policy: Policy, out: Path, obs_dtype: str) -> tuple[Path, Outputs, str]:
    from safetensors.numpy import load, save

    from trimtab.extras.policy_export.torch_layout import from_torch, to_torch

    tensors, header = to_torch(policy.weights)
    path = out / "policy.safetensors"
    write_atomically(path, save(tensors, metadata=header))
    if importlib.util.find_spec("torch") is None:
        weights = from_torch(load(path.read_bytes()), header)
        return path, lambda obs: standalone_numpy.outputs(weights, obs), "NumPy (PyTorch is not installed)"
    import torch

    from trimtab.extras.policy_export.standalone_torch import Policy as Module

    module = Module.load(path)
    return path, lambda obs: module(torch.from_numpy(np.array(obs))).detach().numpy(), "PyTorch"


_WRITERS = {"numpy": _write_numpy, "onnx": _write_onnx, "torch": _write_torch}


def _original(path: Path, step: int) -> Original:
    """Observations of new episodes played with the run's own network, compiled as in training, and its outputs."""
    import jax

    from trimtab.training import rollout
    from trimtab.training.engine_setup import load_engine

    config, engine, state, _ = load_engine(path, step)
    algorithm, hypers = engine.algorithm, engine.hypers
    envs, key = 4, jax.random.key(config.seed)
    steps = OBSERVATIONS // envs
    try:
        if algorithm.env.spec.compiled:

            def play(params, obs_stats, key):
                policy = algorithm.policy(params, obs_stats, hypers)
                start = rollout.start(algorithm.env, key, envs)
                return rollout.collect(algorithm.env, algorithm.dist, policy, start, key, steps)[1]

            rows = jax.jit(play)(state.params, state.obs_stats, key)
        else:
            env, step_compiled = algorithm.make_env(envs), jax.jit(algorithm.act)
            act = lambda obs, noise: step_compiled(state.params, state.obs_stats, obs, noise, hypers)
            with closing(env):
                carry = rollout.begun(env.reset(config.seed))
                noise = np.asarray(algorithm.dist.noise(key, (steps, envs)))
                rows = rollout.collect_host(env, algorithm.dist, act, noise, carry)[1]
    finally:
        engine.close()
    flat = lambda x: np.asarray(x).reshape(-1, *x.shape[2:])
    return Original(flat(rows.obs), flat(rows.dist)[:, : algorithm.dist.num_outputs])
