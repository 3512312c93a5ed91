"""Preparing JAX for a run, building its engine, and bringing back the state of one of its checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from trimtab import envs
from trimtab.config import Config, ConfigError
from trimtab.config.device_shares import with_devices
from trimtab.core.errors import RunError
from trimtab.core.wording import plain
from trimtab.envs.base import Spec
from trimtab.envs.own_environments import Constructor
from trimtab.nets.families import FAMILIES, choose_network
from trimtab.training import device, hosts, resource_estimates, sharding, snapshot
from trimtab.training.algorithm import Algorithm
from trimtab.training.engine import CompiledEngine, Engine, HostEngine
from trimtab.training.records import Checkpoint
from trimtab.training.run_dir import LOGS, Damaged, RunDir
from trimtab.training.sharded_engine import ShardedEngine, ShardedHostEngine
from trimtab.training.state import State
from trimtab.training.warm_start import WarmStart, warm_start

if TYPE_CHECKING:
    from trimtab.training.engine_cache import EngineCache


def prepare_jax(config: Config, env: Constructor | None = None, devices: int | None = None) -> None:
    """Set JAX's threads and devices to what a run needs; call before its first computation.

    Args:
        config: the run.
        env: makes its environments, in place of config.env_id.
        devices: of this process; its share of the run's devices if None.
    """
    here = max(1, config.devices // hosts.process_count()) if devices is None else devices
    device.prepare(device.threads_for(device.network_of(config, env), here), here)


def count_all_devices(config: Config) -> int:
    """All accelerators of all processes; without accelerators a device for every core. Starts JAX."""
    prepare_jax(config, devices=device.cores())
    return jax.device_count()


def use_all_devices(config: Config) -> Config:
    """The run on all devices."""
    return with_devices(config, count_all_devices(config))


# Building --------------------------------------------------------------------------------------------------


def build_engine(config: Config, env: Constructor | None = None) -> Engine:
    """The engine of a configuration, with its environments.

    Args:
        config: the run.
        env: makes its environments, in place of config.env_id.

    Returns:
        An engine that has allocated nothing yet. Raises EnvError where the environments cannot be made, and
        ConfigError where they do not suit the configuration.
    """
    single = config.devices == 1
    make_env: Callable[..., Any] = lambda n, streamed=False: envs.make(
        config.env_id,
        num_envs=n,
        backend=config.backend,
        env_kwargs=config.env_kwargs,
        time_limit=config.time_limit,
        seed=config.seed,
        streamed=streamed,
        constructor=env,
    )
    try:
        environments = make_env(config.num_envs if single else sharding.envs_here(config), streamed=single)
    except (TypeError, KeyError) as error:  # the environment's own constructor did not take them
        if not config.env_kwargs:
            raise
        raise ConfigError("env_kwargs", config.env_kwargs, f"{config.env_id} does not take them ({error})") from None
    compiled = environments.spec.compiled
    try:
        check_environment(config, environments.spec, getattr(environments, "resets_some", True))
        algorithm = Algorithm(config, environments, make_env)
        if single:
            return CompiledEngine(algorithm) if compiled else HostEngine(algorithm)
        return ShardedEngine(algorithm) if compiled else ShardedHostEngine(algorithm)
    except BaseException:
        if not compiled:
            environments.close()
        raise


def check_environment(config: Config, spec: Spec, resets_some: bool = True) -> None:
    """Refuse what can only be refused once the environment is known.

    Args:
        config: the run.
        spec: its environment.
        resets_some: whether some of the environments can be reset while the others continue.
    """
    if config.stagger_resets and not resets_some:
        problem = f"{config.env_id} cannot reset some of its environments; nearest: false"
        raise ConfigError("stagger_resets", True, problem)
    if config.log_std_init != Config.log_std_init and not isinstance(spec.action, envs.Continuous):
        raise ConfigError("log_std_init", config.log_std_init, f"{spec.env_id} has discrete actions; nearest: 0.0")
    _check_network(config, spec)
    if config.norm_obs and spec.obs_dtype == "uint8":
        raise ConfigError("norm_obs", True, "images are scaled to [0, 1] by the network already; nearest: false")
    if config.whole_episodes:
        _check_whole_episodes(config, spec)


def _check_network(config: Config, spec: Spec) -> None:
    family = FAMILIES[choose_network(config.network, spec.obs_shape)]
    if not family.fits(spec.obs_shape):
        problem = f"needs {family.needed}, {spec.env_id} has shape {spec.obs_shape}"
        raise ConfigError("network", config.network, f"{problem}; nearest: mlp")
    for name in {name for other in FAMILIES.values() for name in other.fields} - {*family.fields}:
        if (value := getattr(config, name)) != (default := getattr(Config, name)):
            problem = f"the network is {family.name}, which does not use it; nearest: {plain(default)}"
            raise ConfigError(name, value, problem)
    if config.arch != "dual" and set(config.actor_obs) != set(config.critic_obs):
        raise ConfigError("arch", config.arch, "policy and value see different observations; nearest: dual")
    for name in ("actor_obs", "critic_obs"):
        spec.slices(name, getattr(config, name))


def _check_whole_episodes(config: Config, spec: Spec) -> None:
    if spec.time_limit is None:
        raise ConfigError("baseline", False, f"{spec.env_id} has no time limit; nearest: true, or give time_limit")
    if config.num_steps < spec.time_limit:
        problem = f"{config.traits.title} without a baseline needs whole episodes"
        raise ConfigError("num_steps", config.num_steps, f"{problem}; nearest: {spec.time_limit}, or baseline=true")
    if not spec.compiled:
        raise ConfigError("baseline", False, "needs environments that can restart every iteration; nearest: true")


def build_engine_checked(config: Config, env: Constructor | None = None, engines: EngineCache | None = None) -> Engine:
    """The engine of a run, refused where the run cannot fit in memory.

    Args:
        config: the run.
        env: makes its environments, in place of config.env_id.
        engines: engines of earlier runs, one of which may serve.

    Returns:
        An engine that has allocated nothing yet.
    """
    engine = engines.get(config) if engines and env is None else build_engine(config, env)
    try:
        available = resource_estimates.device_memory(jax.local_devices()[0])
        if available is None and jax.process_count() > 1 and (here := resource_estimates.host_memory()):
            available = here // jax.local_device_count()
        resource_estimates.check_memory(config, engine.algorithm.env.spec, count_parameters(engine), available)
    except ConfigError:
        engine.close()
        raise
    return engine


def count_parameters(engine: Engine) -> int:
    """Numbers in the networks."""
    agent = engine.algorithm.agent
    return sum(math.prod(shape) for shape in (*agent.policy_layout.values(), *agent.value_layout.values()))


# Restoring -------------------------------------------------------------------------------------------------


def restore_newest(run: RunDir, config: Config, engine: Engine, say: Callable[[str], None]) -> State:
    """The newest state of a run that can be read, with everything recorded after it removed.

    Args:
        run: the run, held for writing.
        config: what it resumes as.
        engine: built for `config`.
        say: receives a message for each damaged checkpoint, which is skipped.

    Returns:
        The state to continue from.
    """
    template = engine.template(config.seed)
    for checkpoint in reversed(run.checkpoints()):
        try:
            state = snapshot.unpack(engine.algorithm, template, run.read_checkpoint(checkpoint))
            state = snapshot.load_buffers(run, config, state)
        except Damaged as error:
            say(f"{error}; falling back to the one before")
            continue
        run.rewind(checkpoint)
        iteration = int(state.iteration)
        restarts = iteration or (config.stagger_resets and not engine.exact)  # the template was not staggered
        return engine.restart_episodes(state, iteration) if restarts else state
    if run.metrics() or any(checkpoint.step for checkpoint in run.checkpoints()):
        raise RunError(f"no checkpoint of {run.path} can be read, and its records would be lost; train another run")
    run.rewind(Checkpoint(0, run.path, 0, lengths=dict.fromkeys(LOGS, 0)))
    started_from, state = run.manifest().started_from, engine.init(config.seed)
    if started_from is None:
        return state
    if started_from.start is None:
        raise RunError(f"the policy that {run.path} began with is lost with its checkpoint; adopt it again")
    return warm_start(engine, state, WarmStart.from_reference(started_from.start), started_from.taken)


class LoadedEngine(NamedTuple):
    """The engine of a run and the state of its checkpoint at `step`."""

    config: Config
    engine: Engine
    state: State
    step: int


def load_engine(
    run: RunDir | str | PathLike[str], step: int | None, engines: EngineCache | None = None, devices: int = 1
) -> LoadedEngine:
    """Load a checkpoint of a run, to measure it.

    Args:
        run: the run or its directory.
        step: the checkpoint; the last one if None.
        engines: engines of earlier runs, one of which may serve.
        devices: how many JAX is to have; the engine itself has one, whatever the run was trained on.

    Returns:
        Configuration, engine, state and step.
    """
    run = run if isinstance(run, RunDir) else RunDir.open(run)
    config = with_devices(run.config(), 1)
    prepare_jax(config, devices=devices)
    checkpoint = run.checkpoint_at(step)
    engine = engines.get(config) if engines else build_engine(config)
    try:
        state = snapshot.unpack(engine.algorithm, engine.template(config.seed), run.read_checkpoint(checkpoint))
    except BaseException:
        engine.close()
        raise
    return LoadedEngine(config, engine, state, checkpoint.step)
