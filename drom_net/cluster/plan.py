"""From a configuration and its data to the nodes that run it: who runs where, and what it costs. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from drom_net.algorithms import ALGORITHMS, Algorithm
from drom_net.algorithms.base import Contribution, ContributionKind, Reply, ReplyKind
from drom_net.config import ClusterConfig, config_digest
from drom_net.protocol.codec import encode
from drom_net.protocol.messages import Pull, Push
from drom_net.runtime.spec import NodeSpec

_NODE_FDS = 16  # standard streams, records, and libzmq's own: epoll, event and signal descriptors
_LAUNCHER_FDS = 16
_LATE_ROUND = 10**9


@dataclass(frozen=True, slots=True)
class Roster:
    """What a plan needs to know of the data."""

    tasks: tuple[str, ...]
    dim: int
    feature_digest: str
    """Empty where it is not known."""
    longest: int | None = None
    """The number of examples of the longest stream; None where it is not known."""

    def spread_over(self, config: ClusterConfig) -> int | None:
        """Over how many rounds streams are spread; None for lockstep."""
        if config.data.alignment != "spread":
            return None
        return config.rounds or self.longest


def build_algorithm(config: ClusterConfig) -> Algorithm:
    """The configured learner."""
    return ALGORITHMS[config.algorithm.name](config.algorithm.parameters)


def node_specs(
    config: ClusterConfig,
    roster: Roster,
    *,
    endpoint: str,
    bind: str,
    run_id: str,
    parent: int,
    folder_of: dict[str, str],
    about: dict[str, str],
    summary: str = "",
    remove: tuple[str, ...] = (),
) -> list[NodeSpec]:
    """The reducer's spec, then each worker's.

    Args:
        folder_of: Each node's own folder, by name.
        summary: Where the reducer writes its summary; empty for nowhere.
        remove: Folders that the reducer removes when it ends.
    """
    common: dict[str, Any] = {
        "tasks": roster.tasks,
        "algorithm": config.algorithm.name,
        "parameters": dataclasses.asdict(config.algorithm.parameters),
        "seed": config.seed,
        "rounds": config.rounds,
        "dim": roster.dim,
        "run_id": run_id,
        "config_digest": config_digest(config, roster.tasks),
        "feature_digest": roster.feature_digest,
        "timeouts": dataclasses.asdict(config.timeouts),
        "spread_over": roster.spread_over(config),
        "parent": parent,
        "about": about,
    }
    reducer = NodeSpec(
        role="reducer",
        name="reducer",
        task=-1,
        endpoint=bind,
        out=folder_of["reducer"],
        summary=summary,
        remove=remove,
        **common,
    )
    workers = [
        NodeSpec(
            role="worker",
            name=name,
            task=task,
            endpoint=endpoint,
            out=folder_of[name],
            examples=f"{folder_of[name]}/examples",
            remove=(f"{folder_of[name]}/examples",),
            **common,
        )
        for task, name in enumerate(roster.tasks)
    ]
    return [reducer, *workers]


def about_run(config: ClusterConfig) -> dict[str, str]:
    """What a summary says of a run beside its figures."""
    return {
        "name": config.name,
        "algorithm": config.algorithm.name,
        "dataset": type(config.data).dataset,
    }


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run asks of its machines. Bytes are headers and vectors, before the transport's own framing."""

    push_bytes: int
    """The most that one worker sends in a sync round; 0 where the algorithm never sends."""
    pull_bytes: int
    """The most that one worker gets in a sync round."""
    bytes_per_round: int
    """Of all workers, both ways, at the most."""
    worker_file_descriptors: int
    reducer_file_descriptors: int
    launcher_file_descriptors: int


def cost(config: ClusterConfig, roster: Roster) -> Cost:
    """What the plan costs; sizes are those of the real encoding, for a late round with full vectors."""
    algorithm = build_algorithm(config)
    push = pull = 0
    if algorithm.push_vectors:
        vector = np.zeros(roster.dim)
        contribution = Contribution(ContributionKind.VECTORS, (vector,) * algorithm.push_vectors, last=True)
        push = _size(Push(_LATE_ROUND, contribution))
        pull = _size(Pull(_LATE_ROUND, Reply(ReplyKind.VECTORS, (vector,) * algorithm.pull_vectors)))
    num_tasks = len(roster.tasks)
    return Cost(
        push_bytes=push,
        pull_bytes=pull,
        bytes_per_round=num_tasks * (push + pull),
        worker_file_descriptors=_NODE_FDS + 1,
        reducer_file_descriptors=_NODE_FDS + num_tasks,
        launcher_file_descriptors=_LAUNCHER_FDS + num_tasks + 1,
    )


def _size(message: Push | Pull) -> int:
    return sum(memoryview(frame).nbytes for frame in encode(message))
