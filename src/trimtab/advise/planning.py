"""`trimtab plan`: what follows from a configuration, and what the rules of thumb say of it, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trimtab import envs
from trimtab.advise.diagnosis import find
from trimtab.advise.evidence import Action, DiskNeed, Evidence, Length
from trimtab.advise.rules import RULES, observe
from trimtab.config import Config
from trimtab.config.device_shares import averaged_gradients
from trimtab.core.finding import Finding
from trimtab.envs.base import Spec, kind_of, outputs_of
from trimtab.envs.id_table import action_in_words, observation_in_words
from trimtab.nets.families import choose_network, parameters
from trimtab.training import resource_estimates
from trimtab.training.resource_estimates import format_bytes

PLANNED = ("settings", "sizes", "disk")  # what rules can read before a run


@dataclass(frozen=True)
class Plan:
    """A configuration, its environment in words, and its findings, the most pressing first."""

    config: Config
    environment: dict[str, str]
    findings: list[Finding]

    @property
    def derived(self) -> dict[str, Any]:
        """Everything that follows from the configuration, in words."""
        return self.environment | self.config.derived()

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, index: int) -> Finding:
        return self.findings[index]


def plan(config: Config) -> Plan:
    """Judge a configuration before it runs.

    Args:
        config: the configuration; an environment that is not available is refused, and so is a run that does not fit
            into memory.

    Returns:
        Its findings, the most pressing first, and what follows from its sizes.
    """
    spec = _look(config)
    count = _number_of_parameters(config, spec)
    resource_estimates.check_memory(config, spec, count)
    limit = config.time_limit or spec.time_limit
    evidence = Evidence(
        config,
        action=Action(kind_of(spec.action), outputs_of(spec.action)),
        length=Length(limit, is_limit=True) if limit else None,
        disk=_disk_need(config, count),
    )
    findings = find(evidence, observe(evidence, [rule for rule in RULES if rule.reads in PLANNED]))
    return Plan(config, dict(_environment_rows(config, spec, count)), findings)


def _look(config: Config) -> Spec:
    """What the environment observes and takes; JAX is not loaded for this."""
    return envs.look(config.env_id, config.backend, config.env_kwargs, config.time_limit)


def _number_of_parameters(config: Config, spec: Spec) -> int:
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


def _disk_need(config: Config, count: int) -> DiskNeed:
    size = resource_estimates.checkpoint_bytes(config, count)
    checkpoints = min(resource_estimates.default_checkpoint_count(size), config.iterations)
    total = resource_estimates.run_bytes(config, size, checkpoints)
    return DiskNeed(total, checkpoints, size, count, resource_estimates.USUAL_CHECKPOINTS)


def _environment_rows(config: Config, spec: Spec, count: int) -> Iterator[tuple[str, str]]:
    """The environment, the network it gets and the memory that takes, in words."""
    network = choose_network(config.network, spec.obs_shape)
    limit = "no time limit" if spec.time_limit is None else f"limit {spec.time_limit:,}"
    yield "environment", f"{spec.backend}, {limit}"
    yield "observation, actions", f"{observation_in_words(spec)}, {action_in_words(spec.action)}"
    yield "network", f"{network}, {count:,} parameters"
    yield "memory", f"at least {resource_estimates.estimate_memory(config, spec, count)}"
    if config.devices > 1:
        sent, steps = resource_estimates.FLOAT_BYTES * count, averaged_gradients(config) / max(1, config.iterations)
        yield "each of the devices", f"at least {resource_estimates.estimate_device_memory(config, spec, count)}"
        yield (
            "averaged between them",
            f"{format_bytes(sent)} per gradient step, {format_bytes(sent * steps)} per iteration",
        )
