"""`--hosts`: one run by several processes that are started with the same command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trimtab.config import ConfigError
from trimtab.operations.shared import filled


@dataclass
class HostFlags:
    """Several processes or machines."""

    hosts: bool = False
    """Share the run with other processes, each started with this; under Slurm and Kubernetes nothing more is needed."""
    coordinator: str | None = None
    """HOST:PORT of process 0, where the processes meet (with --hosts)."""
    num_processes: int | None = None
    """How many processes there are (with --hosts)."""
    process_id: int | None = None
    """Which of them this is, from 0; process 0 writes the run (with --hosts)."""


def asked(arguments) -> HostFlags:
    """The flags; ones that would do nothing are refused."""
    flags = filled(HostFlags, arguments)
    for name in ("coordinator", "num_processes", "process_id"):
        if not flags.hosts and getattr(flags, name) is not None:
            raise ConfigError(name, getattr(flags, name), "needs --hosts; leave it out, or add that")
    return flags


def together(flags: HostFlags, work: Callable[[bool], int]) -> int:
    """Do the work with the other processes; it is told whether this is the one that writes and speaks."""
    from trimtab.training import hosts

    meeting = hosts.Hosts(flags.coordinator, flags.num_processes, flags.process_id)
    ended = hosts.in_child()
    if ended is not None:
        return ended
    with hosts.ending_at_once():
        hosts.join(meeting)
        return work(hosts.is_first())
