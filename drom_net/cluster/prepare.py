"""A configuration together with its data, ready for any driver."""

from __future__ import annotations

import dataclasses
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from drom_net.cluster.plan import PeerGraph, Roster, peer_graph
from drom_net.config.model import ClusterConfig
from drom_net.core.errors import UsageError
from drom_net.data.dataset import Dataset
from drom_net.data.files import resolved
from drom_net.data.prepare import make_stream
from drom_net.data.stream import TaskStream

_LONG = 50_000
"""Rows of a task."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Prepared:
    """A configuration with its data, checked, before anything is started. One is equal to itself alone, so that what is
    found out of it can be kept by it."""

    config: ClusterConfig
    dataset: Dataset
    streams: tuple[TaskStream, ...]
    roster: Roster
    graph: PeerGraph | None
    """Who talks to whom; None for a star."""

    @property
    def last_rounds(self) -> list[int]:
        """The last round of each task; 0 for live data without an end."""
        limit = self.config.rounds
        if self.config.source is not None:
            return [limit or 0] * len(self.streams)
        return [stream.last_round() if limit is None else min(stream.last_round(), limit) for stream in self.streams]

    @property
    def rounds(self) -> int:
        return max(self.last_rounds)


def stream_of(index: int, config: ClusterConfig, dataset: Dataset, roster: Roster) -> TaskStream:
    """One task's rows in the order of learning.

    Args:
        index: The task's number in the roster.
        dataset: Of all tasks, or of this one alone.
    """
    return make_stream(
        *(dataset.tasks[index if len(dataset.tasks) == len(roster.tasks) else 0], config.data),
        seed=config.seed,
        index=index,
        spread_over=roster.spread_over(config),
        rounds=config.rounds,
        preprocessing=None if dataset.is_prepared else dataset.preprocessing,
    )


def prepare(config: ClusterConfig, dataset: Dataset) -> Prepared:
    """Put the rows of each task into the order of learning, and flip labels where that is asked for."""
    config = dataclasses.replace(config, data=resolved(config.data, dataset))
    longest = config.data.passes * max(len(task.labels) for task in dataset.tasks)
    roster = Roster(tuple(task.name for task in dataset.tasks), dataset.dim, dataset.feature_digest, longest)

    # Long tables keep NumPy busy without Python: the sites are prepared side by side.
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1) if longest > _LONG else 1) as pool:
        streams = tuple(pool.map(lambda index: stream_of(index, config, dataset, roster), range(len(dataset.tasks))))
    return Prepared(config, dataset, streams, roster, peer_graph(config, roster.tasks))


def require_stored(config: ClusterConfig, what: str) -> None:
    """Refuse live data where the examples must be there before.

    Args:
        what: What needs them.

    Raises:
        UsageError: There are none.
    """
    if config.source is not None:
        raise UsageError(
            f"{config.path}: live data has no examples before its processes run (`drom-net run`, driver processes), "
            f"and {what} needs them"
        )


def with_parameters(prepared: Prepared, **changes: object) -> Prepared:
    """The same with other parameters of the learner."""
    config = prepared.config
    parameters = dataclasses.replace(config.algorithm.parameters, **changes)
    config = dataclasses.replace(config, algorithm=dataclasses.replace(config.algorithm, parameters=parameters))
    return dataclasses.replace(prepared, config=config, graph=peer_graph(config, prepared.roster.tasks))
