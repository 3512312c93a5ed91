"""Undamaged files of every type, made in a moment, without training: runs, a store, a study, foreign logs."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from benchmarks.fuzz.jobs import Square
from trimtab.config import Config
from trimtab.core import trust
from trimtab.core.writing import write_json, write_parquet
from trimtab.studies.executor import Inline
from trimtab.studies.job import Train
from trimtab.studies.seeds_study import Seeds
from trimtab.studies.store import Store
from trimtab.training.records import (
    ActionRecord,
    EnvironmentRecord,
    Evaluation,
    Manifest,
    MetricsRow,
    ObservationRecord,
    Segment,
)
from trimtab.training.run_dir import RunDir

ITERATIONS, BATCH, WIDTH = 16, 64, 8
CONFIG = Config(
    env_id="CartPole-v1", num_envs=4, num_steps=16, total_timesteps=ITERATIONS * BATCH, hidden_sizes=(WIDTH,)
)
JOBS = [Square(number) for number in range(3)]
TRAINED = ("train/approx_kl", "train/clip_fraction", "train/entropy_loss", "train/explained_variance")
TRAINED += ("train/grad_norm", "train/learning_rate", "train/policy_gradient_loss", "train/value_loss", "time/fps")
MEASURED = ("variance", "individual", "covariance", "ess", "noise_scale", "grad_sq")
COLUMNS = "time/iterations,time/total_timesteps,rollout/ep_rew_mean,time/fps,train/value_loss,train/n_updates,"
COLUMNS += "train/entropy_loss,train/approx_kl,train/clip_fraction,train/explained_variance,train/learning_rate"
ZOO = """CartPole-v1:
  n_envs: 8
  n_timesteps: !!float 1e5
  policy: 'MlpPolicy'
  n_steps: 32
  batch_size: 256
  gae_lambda: 0.8
  gamma: 0.98
  n_epochs: 20
  ent_coef: 0.0
  learning_rate: lin_0.001
  clip_range: lin_0.2
  policy_kwargs: "dict(net_arch=[64, 64], activation_fn=nn.ReLU)"
"""


def make(root: Path) -> Path:
    """Make the files; returns their directory."""
    root.mkdir(parents=True, exist_ok=True)
    for name, seed in (("run", 1), ("other", 2)):
        make_run(root / name, seed)
    trust.trust("benchmarks.fuzz.jobs")
    list(Inline().run(JOBS, Store(root / "store")))
    make_study(root / "study")
    _log(root / "log")
    _events(root / "events")
    (root / "zoo.yaml").write_text(ZOO)
    (root / "own.yaml").write_text(yaml.safe_dump(CONFIG.as_dict()))
    return root


def make_run(path: Path, seed: int) -> RunDir:
    """A run directory as training leaves it, with made-up numbers."""
    rng = np.random.default_rng(seed)
    environment = EnvironmentRecord(
        "CartPole-v1", "native", 500, ActionRecord("discrete", 2), ObservationRecord((4,), "float32"), "mlp"
    )
    manifest = Manifest(seed=seed, environment=environment, segments=(Segment.of(CONFIG),), command="trimtab train")
    run = RunDir.create(path, CONFIG.replace(seed=seed), manifest)
    for k in range(1, ITERATIONS + 1):
        numbers = {name: float(value) for name, value in zip(TRAINED, rng.normal(size=len(TRAINED)))}
        run.append_metrics([MetricsRow(k, k * BATCH, {"rollout/ep_rew_mean": 20.0 + k} | numbers)])
        if k % 4 == 0:
            run.append_evaluation(_evaluation(k, rng))
        if k % 8 == 0:
            run.write_episodes(k - 8, _episodes(k - 8, rng))
            run.write_checkpoint(k * BATCH, k, _tensors(rng))
    run.keep_evaluation(_evaluation(ITERATIONS, rng))
    for name in ("step512", "step1024"):
        write_parquet(path / "probes" / f"{name}.parquet", _measurements(int(name[4:]), rng), trimtab_schema="1")
    return run


def _evaluation(iteration: int, rng: np.random.Generator) -> Evaluation:
    low, middle, high = sorted(map(float, rng.normal(30, 5, 3)))
    return Evaluation(iteration * BATCH, middle, middle, low, high, 2.0, middle, 10, middle, 2.0, iteration=iteration)


def _episodes(first: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    steps = np.sort(rng.integers(first * BATCH, (first + 8) * BATCH, 24))
    returns = rng.integers(10, 40, 24)
    return {"step": steps, "env": rng.integers(0, 4, 24), "return": returns * 1.0, "length": returns}


def _tensors(rng: np.random.Generator) -> dict[str, np.ndarray]:
    shapes = {"trunk.layers[0].weight": (4, WIDTH), "trunk.layers[0].bias": (WIDTH,)}
    heads = {network: {"head.weight": (WIDTH, n), "head.bias": (n,)} for network, n in (("policy", 2), ("value", 1))}
    named = {
        f"params.{network}.{name}": shape for network in heads for name, shape in (shapes | heads[network]).items()
    }
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in named.items()}
    return tensors | {"state.key": np.arange(2, dtype=np.uint32), "state.iteration": np.int32(1)}


def _measurements(step: int, rng: np.random.Generator) -> pl.DataFrame:
    count = len(MEASURED)
    values = rng.normal(5, 1, count)
    text = {
        "quantity": list(MEASURED),
        "split": ["4x16"] * count,
        "unit": ["gradient²"] * count,
        "note": [None] * count,
    }
    whole = {"num_envs": [4] * count, "num_steps": [16] * count, "step": [step] * count}
    real = {"gamma": [0.99] * count, "gae_lambda": [0.95] * count, "value": values, "lo": values - 1, "hi": values + 1}
    strings = {"note": pl.String, "lag": pl.Int64}
    lags = {"lag": [None] * count}
    return pl.DataFrame(text | whole | real | lags | {"resolved": [True] * count}, schema_overrides=strings)


def make_study(path: Path) -> None:
    """Two seeds of a configuration, finished; their runs are made up."""
    study = Seeds(CONFIG, 2)
    spec = {
        "schema": 1,
        "kind": study.kind,
        "asked": study.asked(),
        "store": None,
        "command": "trimtab train --seeds 2",
    }
    write_json(path / "study.json", {"id": trust.enlist(json.loads(json.dumps(spec))), **spec})
    store = Store(path / "store")
    summaries = []
    for job in study.jobs():
        place = store.place(job)
        make_run(place, job.config.seed)
        summaries.append(store.keep(job, _summary(job), 1.5).result | {"run": place.name, "aggregate_fps": 1000.0})
    write_json(path / "result.json", {"runs": summaries, "failed": [], "command": "trimtab train --seeds 2"})
    write_json(path / "time.json", {"work": 3.0, "clock": 2.0})


def _summary(job: Train) -> dict[str, Any]:
    names = {"env_id": job.config.env_id, "algo": job.config.algo, "seed": job.config.seed, "ep_rew_mean": 30.0}
    times = {
        "total_timesteps": ITERATIONS * BATCH,
        "fps": 1000.0,
        "seconds": 1.0,
        "compile_seconds": 1.0,
        "interval": [1.0, 2.0],
    }
    return names | times | {"area": 25.0, "measure": "evaluated"}


def _log(folder: Path) -> None:
    """What Stable-Baselines3 leaves: a table, episodes, evaluations and a saved model."""
    folder.mkdir()
    rows = [f"{k},{512 * k},{20 + k}.5,900,1.25,{6 * k},-0.5,0.01,0.05,0.8,0.003" for k in range(1, 21)]
    (folder / "progress.csv").write_text("\n".join([COLUMNS, *rows, ""]))
    episodes = "".join(f"{10 + k}.5,{10 + k},{k}.25\n" for k in range(30))
    (folder / "0.monitor.csv").write_text('#{"t_start": 1.0, "env_id": "CartPole-v1"}\nr,l,t\n' + episodes)
    saved = io.BytesIO()
    np.savez(saved, timesteps=np.arange(5), results=np.arange(20.0).reshape(5, 4), ep_lengths=np.ones((5, 4)))
    (folder / "evaluations.npz").write_bytes(saved.getvalue())
    space = {":type:": "Discrete", ":serialized:": "none", "n": "2"}
    data = {"n_envs": 8, "n_steps": 64, "batch_size": 128, "n_epochs": 6, "gamma": 0.98, "action_space": space}
    data |= {"_total_timesteps": 20480, "policy_kwargs": {"activation_fn": "torch.nn.ReLU"}}
    with zipfile.ZipFile(folder / "model.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data", json.dumps(data))


def _events(folder: Path) -> None:
    """TensorBoard's events, as CleanRL writes them."""
    from tensorboardX import SummaryWriter

    with SummaryWriter(str(folder)) as writer:
        writer.add_text("hyperparameters", "|param|value|\n|-|-|\n|num_envs|4|\n|num_steps|128|\n|env_id|CartPole-v1|")
        for k in range(1, 25):
            for name in ("losses/value_loss", "losses/clipfrac", "charts/learning_rate", "losses/explained_variance"):
                writer.add_scalar(name, 1.0 / k, k * 512)
            writer.add_scalar("charts/episodic_return", 20.0 + k, k * 512)
    (folder / next(folder.glob("*tfevents*")).name).rename(folder / "events.out.tfevents.1")
