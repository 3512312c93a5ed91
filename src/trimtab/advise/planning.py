"""`trimtab plan`: what a configuration comes to, and what the rules of thumb say of it, before anything runs."""

from __future__ import annotations

from trimtab import envs
from trimtab.advise.finding import Finding, ordered
from trimtab.advise.size_rules import Action, Length, check_sizes
from trimtab.config import Config
from trimtab.config.device_shares import averaged_gradients
from trimtab.envs.base import Spec, kind_of, outputs_of
from trimtab.envs.id_table import action_in_words, observation_in_words
from trimtab.nets.families import choose_network, parameters
from trimtab.training import resource_estimates
from trimtab.training.resource_estimates import format_bytes


def plan(config: Config) -> list[Finding]:
    """Every rule about sizes, most pressing first; an environment that is not there is refused."""
    spec = look(config)
    resource_estimates.check_memory(config, spec, number_of_parameters(config, spec))
    action = Action(kind_of(spec.action), outputs_of(spec.action))
    limit = config.time_limit or spec.time_limit
    sizes = check_sizes(config, action, Length(limit, is_limit=True) if limit else None)
    return ordered([*sizes, disk_space(config, number_of_parameters(config, spec))])


def disk_space(config: Config, parameters: int) -> Finding:
    """What the run will take on disk, and how many checkpoints it keeps unless told otherwise."""
    size = resource_estimates.checkpoint_bytes(config, parameters)
    count = min(resource_estimates.default_checkpoint_count(size), config.iterations)
    total = resource_estimates.run_bytes(config, size, count)
    each = f"{format_bytes(size)} each ({parameters:,} parameters)"
    statement = f"about {format_bytes(total)}: {count} checkpoints and the start, {each}"
    if count < min(resource_estimates.USUAL_CHECKPOINTS, config.iterations):
        advice = f"fewer than {resource_estimates.USUAL_CHECKPOINTS}, being large; --checkpoints decides"
        return Finding("disk", "note", statement, advice, value=total)
    return Finding("disk", "fine", statement, value=total)


def look(config: Config) -> Spec:
    """What the environment observes and takes; JAX is not loaded for this."""
    return envs.look(config.env_id, config.backend, config.env_kwargs, config.time_limit)


def number_of_parameters(config: Config, spec: Spec) -> int:
    """Numbers in all networks of a run."""
    widths = [sum(b - a for a, b in spec.slices(f, getattr(config, f))) or None for f in ("actor_obs", "critic_obs")]
    return parameters(
        choose_network(config.network, spec.obs_shape),
        spec.obs_shape,
        outputs_of(spec.action),
        config.hidden_sizes,
        config.impala_channels,
        arch=config.arch,
        critic=config.needs_value,
        auxiliary=config.is_ppg,
        free=outputs_of(spec.action) if isinstance(spec.action, envs.Continuous) else 0,
        seen=(widths[0], widths[1]),
    )


def environment_rows(config: Config) -> dict[str, str]:
    """The environment, the network it gets and the memory that takes, in words."""
    spec = look(config)
    network, count = choose_network(config.network, spec.obs_shape), number_of_parameters(config, spec)
    limit = "no time limit" if spec.time_limit is None else f"limit {spec.time_limit:,}"
    return {
        "environment": f"{spec.backend}, {limit}",
        "observation, actions": f"{observation_in_words(spec)}, {action_in_words(spec.action)}",
        "network": f"{network}, {count:,} parameters",
        "memory": f"at least {resource_estimates.estimate_memory(config, spec, count)}",
    } | _each_device(config, spec, count)


def _each_device(config: Config, spec: Spec, parameters: int) -> dict[str, str]:
    """Where several share a run: what one of them holds, and what it sends and receives."""
    if config.devices == 1:
        return {}
    sent, steps = resource_estimates.FLOAT_BYTES * parameters, averaged_gradients(config) / max(1, config.iterations)
    return {
        "each of the devices": f"at least {resource_estimates.estimate_device_memory(config, spec, parameters)}",
        "averaged between them": f"{format_bytes(sent)} per gradient step, {format_bytes(sent * steps)} per iteration",
    }
