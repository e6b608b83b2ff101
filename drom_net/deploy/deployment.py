"""A cluster that others place: what an export has to know, and the formats that there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from drom_net.cluster.plan import PeerGraph, node_names, peer_graph
from drom_net.config.model import ClusterConfig
from drom_net.core.errors import ConfigError, Problem
from drom_net.data.datasets import known_dim, task_names
from drom_net.data.faults import Faults
from drom_net.data.file_settings import check_settings
from drom_net.data.formats import TableFormat
from drom_net.data.opening import unpacked
from drom_net.data.public.catalog import PUBLIC_SETS
from drom_net.data.settings import DigitsSites, FileData, Synthetic

PORT = 5571
"""Where whoever listens does so, on a host of its own."""
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Deployment:
    """A cluster whose processes are started by somebody else, each by its own command."""

    config: ClusterConfig
    tasks: tuple[str, ...]
    """All names, in order."""
    graph: PeerGraph | None
    """None for a star."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """What they are called in files: the reducer, where there is one, and the tasks."""
        return node_names(self.config, self.tasks)

    @property
    def role(self) -> str:
        """What each task's process is: a worker or a peer."""
        return "worker" if self.graph is None else "peer"

    @property
    def extras(self) -> tuple[str, ...]:
        """The extras of drom-net without which a task's data cannot be read."""
        data = self.config.data
        if isinstance(data, FileData):
            format = check_settings(data, Faults())
            needed = format.extra if format else ""
        else:
            needed = "data" if isinstance(data, DigitsSites) or data.dataset in PUBLIC_SETS else ""
        return (needed,) if needed else ()


Render = Callable[[Deployment], Mapping[str, str]]
"""The files of an export by their relative names; what begins with #! is to be executable."""


def plan_deployment(config: ClusterConfig) -> Deployment:
    """From the file alone.

    Raises:
        InputError, UsageError: A node on its own would not know enough, or there is no such graph.
    """
    tasks = roster_names(config)
    if known_dim(config.data, config.base) is None and (config.topology is None or _reads_tables(config)):
        raise no_dim(config)
    return Deployment(config, tasks, peer_graph(config, tasks))


def roster_names(config: ClusterConfig) -> tuple[str, ...]:
    """The roster, from the file alone: no node sees all data.

    Raises:
        ConfigError: It is not in the file.
    """
    if isinstance(config.data, FileData) and config.data.tasks is None:
        raise missing(config, "data.tasks", "the names of all tasks, for no node sees the others' files")
    if config.data.alignment == "spread" and config.rounds is None:
        raise missing(config, "rounds", "a number of rounds, for no node knows how long the others' streams are")
    return task_names(config.data, config.base)


def missing(config: ClusterConfig, key: str, expected: str) -> ConfigError:
    """That the file lacks a key which a node on its own needs."""
    return ConfigError([Problem(f"{config.path}: {key}", expected, "nothing")])


def no_meeting_place(config: ClusterConfig) -> ConfigError:
    """That the file lacks the address of the reducer."""
    return missing(config, "reducer.endpoint", "an address where the reducer and its workers meet")


def no_peers(config: ClusterConfig) -> ConfigError:
    """That the file lacks the addresses of the peers."""
    return missing(config, "peers.endpoints", "where each task's peer is reached")


def _reads_tables(config: ClusterConfig) -> bool:
    return isinstance(config.data, FileData) and isinstance(check_settings(config.data, Faults()), TableFormat)


def no_dim(config: ClusterConfig) -> ConfigError:
    """That the file lacks what tells the number of features."""
    if _reads_tables(config):
        expected = "the kind of each column, in order (`drom-net init` writes them): a reducer reads no data"
        return missing(config, "data.columns", expected)
    return missing(config, "data.dim", "the number of features (or data.features): a reducer reads no data")


def host_names(names: Sequence[str], *, taken: Collection[str] = ()) -> tuple[str, ...]:
    """A host name for each, all different: lower-case letters, digits and '-', a letter first, 63 characters at most.

    Args:
        names: Of tasks, in their safe forms: they may have upper case, '.' and '_'.
        taken: What no host may be called.
    """
    found: list[str] = []
    used = set(taken)
    for name in names:
        plain = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:50].rstrip("-")
        plain = plain if plain[0].isalpha() else f"t-{plain}"
        host, number = plain, 1
        while host in used:
            number += 1
            host = f"{plain}-{number}"
        used.add(host)
        found.append(host)
    return tuple(found)


def memory_mib(deployment: Deployment, task: int) -> int:
    """How much memory a node may use, with room to spare; 0 where nobody knows how much data it reads.

    Measured: 52 MiB of a node without much data, 6 times the vectors of a reducer's tasks (10 of 800 kB each), and 3
    times the examples of a task.

    Args:
        task: Its number; -1 for the reducer.
    """
    config = deployment.config
    dim = known_dim(config.data, config.base) or 0
    num_tasks = len(deployment.tasks)
    need = 10 * 8 * dim * num_tasks
    if task >= 0:
        neighbors = 1 if deployment.graph is None else deployment.graph.union.degrees[task]
        examples = _examples_bytes(config, deployment.tasks[task])
        if examples is None:
            return 0
        need = 10 * 8 * dim * (neighbors + 2) + examples
    return 32 * (5 + -(-need // (32 * _MIB)))


def _examples_bytes(config: ClusterConfig, task: str) -> int | None:
    """What reading a task's examples takes, generously; None where that is not known here."""
    if isinstance(config.data, Synthetic):
        return 5 * 8 * config.data.dim * config.data.examples
    if isinstance(config.data, FileData):
        path = config.base / config.data.files.replace("{task}", task)
        format = check_settings(config.data, Faults())
        packed = 10 if unpacked(path.name) != path.name or (format and format.is_packed) else 1
        return 20 * packed * path.stat().st_size if path.is_file() else None
    return None
