"""A cluster that others place: what an export has to know, and the formats that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from drom_net.cluster.plan import PeerGraph, node_names, peer_graph
from drom_net.config import ClusterConfig
from drom_net.data.datasets import task_names
from drom_net.data.settings import FileData
from drom_net.errors import ConfigError, Problem


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
        """The reducer, where there is one, and the tasks."""
        return node_names(self.config, self.tasks)


Render = Callable[[Deployment], Mapping[str, str]]
"""The files of an export by their relative names; what begins with #! is to be executable."""


def plan_deployment(config: ClusterConfig) -> Deployment:
    """From the file alone.

    Raises:
        InputError, UsageError: A node on its own would not know enough, or there is no such graph.
    """
    tasks = roster_names(config)
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
