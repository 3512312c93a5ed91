"""What a run was made with: versions, machine, environment, and how repeatable it is."""

from __future__ import annotations

import math
import os
import platform
import sys
from pathlib import Path

import jax

import trimtab
from trimtab.config import Config
from trimtab.envs.base import ActionSpace, Continuous, MultiDiscrete, Spec, kind_of, outputs_of
from trimtab.nets.families import choose_network
from trimtab.training import device
from trimtab.training.engine import Engine
from trimtab.training.program_cache import package_versions
from trimtab.training.records import (
    ActionRecord,
    Bounds,
    EnvironmentRecord,
    Machine,
    Manifest,
    ObservationRecord,
    Segment,
    StartedFrom,
)


def make_manifest(config: Config, engine: Engine, started_from: StartedFrom | None) -> Manifest:
    """The manifest of a new run.

    Args:
        config: the run.
        engine: what trains it, which knows its environment.
        started_from: where its parameters come from, if they are not random.

    Returns:
        The manifest, to be written into the run directory.
    """
    same_devices = " on as many devices" if config.devices > 1 else ""
    return Manifest(
        trimtab=trimtab.__version__,
        python=platform.python_version(),
        packages=package_versions(),
        machine=Machine(
            platform.platform(), device.processor(), str(jax.devices()[0]), config.devices, jax.process_count()
        ),
        threads=os.environ.get("NPROC", "all"),
        seed=config.seed,
        environment=environment_record(config, engine.algorithm.env.spec),
        determinism=f"a resumed run continues bit for bit{same_devices}"
        if engine.exact
        else "environment states cannot be saved: a resumed run starts new episodes",
        command=" ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        segments=(Segment.of(config),),
        started_from=started_from,
    )


def environment_record(config: Config, spec: Spec) -> EnvironmentRecord:
    """What a policy must know of its environment to be used without it."""
    observation = ObservationRecord(tuple(spec.obs_shape), spec.obs_dtype)
    if spec.parts:
        seen = spec.slices("actor_obs", config.actor_obs)
        observation = ObservationRecord(observation.shape, observation.dtype, tuple(spec.parts), tuple(seen))
    action, choices = spec.action, tuple(spec.action.sizes) if isinstance(spec.action, MultiDiscrete) else None
    return EnvironmentRecord(
        id=spec.env_id,
        backend=spec.backend,
        time_limit=spec.time_limit,
        action=ActionRecord(kind_of(action), outputs_of(action), choices),
        observation=observation,
        network=choose_network(config.network, spec.obs_shape),
        bounds=_bounds(action),
    )


def _bounds(action: ActionSpace) -> Bounds | None:
    """The box of continuous actions."""
    if not isinstance(action, Continuous):
        return None
    low, high = (tuple(x if math.isfinite(x) else None for x in side) for side in (action.low, action.high))
    return Bounds(low, high)
