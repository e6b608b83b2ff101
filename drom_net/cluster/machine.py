"""What this machine has for a cluster's processes, and whether that is enough."""

from __future__ import annotations

import contextlib
import os
import resource
from dataclasses import dataclass
from pathlib import Path

from drom_net.cluster.cost import Cost
from drom_net.core.errors import UsageError

_CGROUPS = ("memory.max", "memory/memory.limit_in_bytes")
_PROCESS_GROUPS = ("pids.max", "pids/pids.max")


@dataclass(frozen=True, slots=True)
class Machine:
    """None where it is not known, or has no limit."""

    memory_bytes: int | None
    """In all; a container's limit where it is lower."""
    file_descriptors: int | None
    """That one process may have, once it has raised its own limit."""
    threads: int | None
    """That this user, or this container, may have."""
    cores: int


def this_machine() -> Machine:
    """What the system says of itself."""
    total = None
    with contextlib.suppress(OSError, ValueError, AttributeError):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    _, threads = resource.getrlimit(resource.RLIMIT_NPROC)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Machine(
        memory_bytes=_least(total, *map(_cgroup_limit, _CGROUPS)),
        file_descriptors=_least(descriptors),
        threads=_least(threads if os.getuid() else None, *map(_cgroup_limit, _PROCESS_GROUPS)),
        cores=cores or 1,
    )


def _least(*limits: int | None) -> int | None:
    known = [limit for limit in limits if limit is not None and limit != resource.RLIM_INFINITY]
    return min(known, default=None)


def _cgroup_limit(name: str) -> int | None:
    try:
        return int((Path("/sys/fs/cgroup") / name).read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return None


def require_room(cost: Cost, machine: Machine, num_tasks: int) -> None:
    """Refuse to start what would run out of something half-way.

    Raises:
        UsageError: Something is too little; all of that is named.
    """
    if found := lacks(cost, machine):
        raise UsageError("\n".join(f"{num_tasks} tasks need {lack}" for lack in found))


def lacks(cost: Cost, machine: Machine) -> list[str]:
    """What all processes of a cluster would need and this machine has not, in words."""
    descriptors = max(cost.reducer_file_descriptors, cost.launcher_file_descriptors, cost.worker_file_descriptors)
    found = []
    if machine.file_descriptors is not None and descriptors > machine.file_descriptors:
        found.append(
            f"about {descriptors} file descriptors in one process, the limit here is {machine.file_descriptors}; "
            f"raise it with `ulimit -n {descriptors}`"
        )
    if machine.memory_bytes is not None and cost.memory_bytes > machine.memory_bytes:
        found.append(
            f"at least {gigabytes(cost.memory_bytes)} of memory for {cost.processes} processes and "
            f"{cost.connections} connections, this machine has {gigabytes(machine.memory_bytes)}; use more machines "
            "(docs/deploy.md), or fewer neighbors"
        )
    if machine.threads is not None and cost.threads > machine.threads:
        found.append(
            f"about {cost.threads} threads, the limit here is {machine.threads} (`ulimit -u`, or a container's)"
        )
    return found


def raise_file_descriptors() -> None:
    """Let this process have as many as it may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def gigabytes(num_bytes: int) -> str:
    """``21.7 GB``."""
    return f"{num_bytes / 1e9:.1f} GB"
