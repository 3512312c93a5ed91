"""Write a policy for other programs, and check what was written against the run on observations of its environment."""

from __future__ import annotations

import importlib.util
import io
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Shaped

from trimtab.config import ConfigError
from trimtab.core.errors import MissingPackage, RunError
from trimtab.core.json_values import JsonMapping, to_json
from trimtab.core.writing import write_atomically, write_json
from trimtab.training import standalone_numpy
from trimtab.training.numpy_policy import Policy, policy_of
from trimtab.training.run_dir import RunDir

TOLERANCE = 1e-4  # relative to the largest output: float32 sums in another order
OBSERVATIONS = 256

Weights = dict[str, np.ndarray]
Outputs = Callable[[Shaped[np.ndarray, "B ..."]], Float[np.ndarray, "B outputs"]]


@dataclass(frozen=True)
class _Original:
    """Observations of the environment, the outputs of the run's network, and the type that observations have."""

    observations: Shaped[np.ndarray, "B ..."]
    outputs: Float[np.ndarray, "B outputs"]


@dataclass(frozen=True)
class _Written:
    """A file, the function that it holds, and the package that this function was computed with."""

    file: Path
    outputs: Outputs
    checked_by: str


@dataclass(frozen=True)
class _ExportFormat:
    """A format: how a policy is written (the last argument is the type of observations), a program that uses it, and
    the packages that writing needs."""

    write: Callable[[Policy, Path, str], _Written]
    example: Path
    packages: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ExportReport(JsonMapping):
    """What was written, and how far it is from the original."""

    run: str
    step: int
    env_id: str
    form: str
    file: str
    example: str
    checked_on: str
    checked_by: str
    largest_difference: float
    largest_output: float


def export(run: RunDir, to: str, out: Path, step: int | None = None, force: bool = False) -> ExportReport:
    """Write the policy of a checkpoint and check it.

    Args:
        run: the run.
        to: a format of FORMATS.
        out: the directory to write into.
        step: the step of the checkpoint; None for the last.
        force: write into a directory that is not empty.

    Returns:
        The report that is also written to check.json. Raises RunError where the outputs differ by more than TOLERANCE.
    """
    if to not in FORMATS:
        raise ConfigError("to", to, f"no such format; nearest: {', '.join(FORMATS)}")
    for package in FORMATS[to].packages:
        if importlib.util.find_spec(package) is None:
            raise MissingPackage(f"--to {to} needs {package}: pip install 'trimtab[export]'")
    if out.exists() and not force and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out} already exists and is not empty; give another --out, or --force")
    policy = policy_of(run, step)
    original = _original(run.path, policy.step)
    written = FORMATS[to].write(policy, out, str(original.observations.dtype))
    example = out / "policy.py"
    write_atomically(example, FORMATS[to].example.read_bytes())
    report = ExportReport(
        run=str(run.path),
        step=policy.step,
        env_id=policy.env_id,
        form=to,
        file=str(written.file),
        example=str(example),
        checked_on=f"{len(original.observations)} observations of {policy.env_id}",
        checked_by=written.checked_by,
        largest_difference=float(np.abs(written.outputs(original.observations) - original.outputs).max()),
        largest_output=float(np.abs(original.outputs).max()),
    )
    write_json(out / "check.json", to_json(report))
    if not report.largest_difference <= TOLERANCE * max(report.largest_output, 1.0):
        difference, largest = report.largest_difference, report.largest_output
        raise RunError(
            f"{written.file} differs from the run by {difference:.3g} where outputs reach {largest:.3g}: do not use it"
        )
    return report


# NumPy and ONNX --------------------------------------------------------------------------------------------


def _write_numpy(policy: Policy, out: Path, obs_dtype: str) -> _Written:
    data = io.BytesIO()
    np.savez(data, **policy.weights)  # type: ignore[arg-type]  # a name could be that of another parameter
    write_atomically(out / "policy.npz", data.getvalue())
    weights = standalone_numpy.load(out / "policy.npz")
    return _Written(out / "policy.npz", lambda obs: standalone_numpy.outputs(weights, obs), "NumPy")


def _write_onnx(policy: Policy, out: Path, obs_dtype: str) -> _Written:
    from trimtab.extras.policy_export import standalone_onnx
    from trimtab.extras.policy_export.onnx_graph import to_onnx

    write_atomically(out / "policy.onnx", to_onnx(policy.weights, obs_dtype).SerializeToString())
    session = standalone_onnx.load(out / "policy.onnx")
    outputs = lambda obs: session.run(["outputs"], {"observation": obs})[0]
    return _Written(out / "policy.onnx", outputs, "onnxruntime")


# PyTorch: dense weights are [outputs, inputs], convolutions [outputs, inputs, height, width] ---------------

_HEADER = ("obs.shape", "obs.parts", "strides", "choices", "switches")  # whole numbers that describe the module


def _write_torch(policy: Policy, out: Path, obs_dtype: str) -> _Written:
    from safetensors.numpy import load, save

    tensors, header = _to_torch(policy.weights)
    path = out / "policy.safetensors"
    write_atomically(path, save(tensors, metadata=header))
    if importlib.util.find_spec("torch") is None:
        weights = _from_torch(load(path.read_bytes()), header)
        return _Written(path, lambda obs: standalone_numpy.outputs(weights, obs), "NumPy (PyTorch is not installed)")
    import torch

    from trimtab.extras.policy_export.standalone_torch import Policy as Module

    module = Module.load(path)
    return _Written(path, lambda obs: module(torch.from_numpy(np.array(obs))).detach().numpy(), "PyTorch")


def _to_torch(weights: Weights) -> tuple[Weights, dict[str, str]]:
    """Tensors under the names of standalone_torch.Policy's state_dict, and the header of the file."""
    tensors = {
        name.replace("obs.", "obs_"): _transposed(value, {2: (1, 0), 4: (3, 2, 0, 1)})
        for name, value in weights.items()
        if name not in (*_HEADER, "activation")
    }
    numbers = {name: weights[name].tolist() for name in _HEADER if name in weights}
    header = {name.replace("obs.", "obs_"): json.dumps(value) for name, value in numbers.items()}
    return tensors, {"activation": str(weights["activation"]), **header}


def _from_torch(tensors: Weights, header: dict[str, str]) -> Weights:
    """The inverse of `_to_torch`, to check a file where PyTorch is not installed."""
    weights = {
        name.replace("obs_", "obs."): _transposed(value, {2: (1, 0), 4: (2, 3, 1, 0)})
        for name, value in tensors.items()
    }
    for name in _HEADER:
        if (text := header.get(name.replace("obs.", "obs_"))) is not None:
            weights[name] = np.array(json.loads(text), np.int64)
    return weights | {"activation": np.asarray(header["activation"])}


def _transposed(value: np.ndarray, axes: dict[int, tuple[int, ...]]) -> np.ndarray:
    """An array with the axes for its number of dimensions; others stay as they are."""
    return np.ascontiguousarray(value.transpose(axes[value.ndim])) if value.ndim in axes else np.asarray(value)


_HERE = Path(__file__).parent
FORMATS = {
    "numpy": _ExportFormat(_write_numpy, Path(standalone_numpy.__file__)),
    "onnx": _ExportFormat(_write_onnx, _HERE / "standalone_onnx.py", ("onnx", "onnxruntime")),
    "torch": _ExportFormat(_write_torch, _HERE / "standalone_torch.py"),
}

# The original ----------------------------------------------------------------------------------------------


def _original(path: Path, step: int) -> _Original:
    """Observations of new episodes that the run's own network plays, compiled as in training, and its outputs."""
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
    return _Original(flat(rows.obs), flat(rows.dist)[:, : algorithm.dist.num_outputs])
