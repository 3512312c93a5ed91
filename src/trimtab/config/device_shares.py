"""What each of several devices has of a run: as many environments, and as large a share of every minibatch."""

from __future__ import annotations

from typing import Any

from trimtab.core.fields import ConfigError, divisors, nearest_divisors, neighbours


def check_shares(config: Any) -> None:
    """Refuse a Config whose environments or minibatches its devices cannot share equally."""
    count = config.devices
    if config.num_envs % count:
        raise ConfigError("num_envs", config.num_envs, _problem(count, _multiples(config.num_envs, count)))
    each = config.batch // count
    if each % config.minibatches:
        numbers = nearest_divisors(each, min(config.minibatches, each))
        if config.minibatch_size is None:
            raise ConfigError("num_minibatches", config.minibatches, _problem(count, numbers))
        sizes = sorted(config.batch // number for number in numbers)
        raise ConfigError("minibatch_size", config.minibatch_size, _problem(count, sizes))
    if config.is_ppg and config.phase_batch % config.aux_minibatch == 0 and config.aux_minibatch % count:
        whole = [count * part for part in divisors(config.phase_batch // count)]
        sizes = neighbours(whole, config.aux_minibatch)
        raise ConfigError("aux_minibatch_size", config.aux_minibatch, _problem(count, sizes))


def _problem(count: int, near: list[int]) -> str:
    return f"{count} devices cannot share it equally; nearest: {', '.join(map(str, near))}"


def _multiples(number: int, unit: int) -> list[int]:
    """The multiples of `unit` on either side of `number`."""
    below = number // unit * unit
    return [n for n in (below, below + unit) if n]


def describe_shares(config: Any) -> str:
    """What each device has, for a person."""
    share = f"{config.num_envs // config.devices:,} environments and {config.minibatch // config.devices:,} samples"
    return f"{config.devices}, each with {share} of every minibatch, its own shuffled"


def averaged_gradients(config: Any) -> int:
    """Gradients of a whole run that its devices average: of the joint epochs, and of PPG's auxiliary phases."""
    steps = config.iterations * config.minibatches * max(config.update_epochs, config.epochs_of_value)
    if not config.is_ppg:
        return steps
    phases = config.iterations // config.policy_iterations
    return steps + phases * config.aux_epochs * (config.phase_batch // config.aux_minibatch)


def check_move(config: Any, devices: int) -> None:
    """Refuse to go on with a run on a number of devices that its kept batches are not laid out for."""
    if devices != config.devices and config.staleness and config.minibatch_by == "rows":
        raise ConfigError(
            "devices", devices, f"stale batches are kept as each device's rows; nearest: {config.devices}"
        )


def with_devices(config: Any, devices: int) -> Any:
    """The same run, sizes and all, on another number of devices."""
    if config.devices == devices:
        return config
    has_size = config.minibatch_size is not None
    return config.replace(devices=devices, **({} if has_size else {"num_minibatches": config.minibatches}))
