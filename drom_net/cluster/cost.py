"""What a run asks of its machines, and how much of a latency an exchange hides. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drom_net.algorithms.base import Contribution, ContributionKind, Reply, ReplyKind
from drom_net.algorithms.learner import exchanges_of
from drom_net.cluster.plan import PeerGraph, Roster, algorithm_of
from drom_net.config.model import ClusterConfig
from drom_net.graph.neighborhood import Neighborhood
from drom_net.protocol.codec import encode
from drom_net.protocol.messages import Pull, Push

ALMOST = 0.05
"""The share of its time that a task may wait where a latency counts as almost hidden."""

_NODE_FDS = 20  # standard streams, records, and libzmq's own: epoll, event and signal descriptors
_LAUNCHER_FDS = 16
_NODE_THREADS = 4  # its own, the writer of snapshots, and two of libzmq
_NODE_BYTES = 22_000_000  # private memory of a node: measured with Python 3.11, NumPy 2.4, pyzmq 27
_CONNECTION_BYTES = 27_000  # and of each end of a connection
_NODE_VECTORS = 10  # w, a, the last reply, what is on its way
START_S = 0.35
"""Of a processor, until a node is ready: most of that is to import NumPy and pyzmq."""
_LATE_ROUND = 10**9


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run asks of its machines. Bytes are headers and vectors, before the transport's own framing."""

    push_bytes: int
    """The most that one task sends its reducer, or one neighbor, in a sync round; 0 where it never sends."""
    pull_bytes: int
    """The most that a worker gets in a sync round; 0 where there is no reducer."""
    bytes_per_sync_round: int
    """Of all tasks, both ways, at the most: in a sync round of every task."""
    sync_rounds: int
    """How many of the rounds are sync rounds of some task."""
    bytes_in_all: int
    """Of the whole run, at the most: streams that end early send less."""
    worker_file_descriptors: int
    """Of a worker, or of the peer with most neighbors."""
    reducer_file_descriptors: int
    """0 where there is none."""
    launcher_file_descriptors: int
    processes: int
    """Nodes, where all run on one machine."""
    connections: int
    threads: int
    """Of all nodes."""
    memory_bytes: int
    """At least, of all nodes together: what they do not share, without data and snapshots."""
    start_s: float
    """Of one processor, until all nodes are ready."""


def cost(config: ClusterConfig, roster: Roster, graph: PeerGraph | None, *, last_rounds: Sequence[int]) -> Cost:
    """What the plan costs; sizes are those of the real encoding, for a late round with full vectors.

    Args:
        last_rounds: The last round of each task.
    """
    algorithm = algorithm_of(config, 0)
    num_tasks = len(roster.tasks)
    push = pull = 0
    if layout := algorithm.exchange.contribution:
        vector = np.zeros(roster.dim)
        contribution = Contribution(ContributionKind.VECTORS, (vector,) * sum(layout), last=True)
        push = _size(Push(_LATE_ROUND, contribution))
        if graph is None:
            back = sum(algorithm.exchange.reply_layout(num_tasks))
            pull = _size(Pull(_LATE_ROUND, Reply(ReplyKind.VECTORS, (vector,) * back)))
    if graph is None:
        sync_rounds = algorithm.sync.count(max(last_rounds))
        per_sync_round = num_tasks * (push + pull)
        in_all = sum(algorithm.sync.count(last) * (push + pull) for last in last_rounds)
        most_neighbors = 1
    else:
        sync_rounds = (
            algorithm.sync.count(max(last_rounds))
            if _grow(graph.neighborhoods[0])
            else _count_union(
                [_sync_rounds(hood, last) for hood, last in zip(graph.neighborhoods, last_rounds, strict=True)]
            )
        )
        per_sync_round = max(sum(each.degrees) for each in graph.schedule.graphs) * push
        in_all = push * sum(
            _num_contributions(hood, last, config.rounds)
            for hood, last in zip(graph.neighborhoods, last_rounds, strict=True)
        )
        most_neighbors = max(graph.union.degrees)
    processes = num_tasks + (graph is None)
    connections = num_tasks if graph is None else len(graph.union.edges)
    stacked = num_tasks if graph is None else sum(graph.union.degrees) + num_tasks
    vectors = 2 * stacked + _NODE_VECTORS * num_tasks
    memory = processes * _NODE_BYTES + 2 * connections * _CONNECTION_BYTES + vectors * 8 * roster.dim
    return Cost(
        push_bytes=push,
        pull_bytes=pull,
        bytes_per_sync_round=per_sync_round,
        sync_rounds=sync_rounds,
        bytes_in_all=in_all,
        worker_file_descriptors=_NODE_FDS + most_neighbors,
        reducer_file_descriptors=_NODE_FDS + num_tasks if graph is None else 0,
        launcher_file_descriptors=_LAUNCHER_FDS + num_tasks + 1,
        processes=processes,
        connections=connections,
        threads=processes * _NODE_THREADS,
        memory_bytes=memory,
        start_s=processes * START_S,
    )


def _sync_rounds(hood: Neighborhood, last: int) -> range:
    """A task's own, up to its last round."""
    tau = hood.syncs[hood.task].tau
    return range(tau, last + 1, tau)


def _grow(hood: Neighborhood) -> bool:
    """Whether its sync rounds grow apart; they are then those of all."""
    return hood.syncs[hood.task].growing > 0


def _num_contributions(hood: Neighborhood, last: int, limit: int | None) -> int:
    """How many contributions a task sends to its neighbors, its last one included."""
    neighbors, final = hood.neighbors, hood.syncs[hood.task].last_contribution(last, limit)
    used = sum(_num_used(hood, neighbor, last) for neighbor in neighbors)
    if last and final is not None:
        used += sum(not (final <= last and hood.sends_to(neighbor, final)) for neighbor in neighbors)
    return used


def _num_used(hood: Neighborhood, neighbor: int, last: int) -> int:
    """How many of its contributions up to a round the neighbor uses, counted by period: a run may be long."""
    if _grow(hood):
        return hood.syncs[hood.task].count(last)
    period = math.lcm(hood.syncs[hood.task].tau, hood.syncs[neighbor].tau) * len(hood.cycle)
    periods, rest = divmod(last, period)
    within = [hood.sends_to(neighbor, t) for t in _sync_rounds(hood, min(last, period))]
    return periods * sum(within) + sum(within[: len(_sync_rounds(hood, rest))])


def _count_union(ranges: Sequence[range]) -> int:
    """How many numbers are in some of these; each begins with its step."""
    longest = {each.step: each for each in sorted(ranges, key=len)}
    if len(longest) == 1:
        return max(map(len, ranges))
    found = np.zeros(max(each.stop for each in longest.values()), dtype=bool)
    for each in longest.values():
        found[each.start : each.stop : each.step] = True
    return int(np.count_nonzero(found))


def _size(message: Push | Pull) -> int:
    return sum(memoryview(frame).nbytes for frame in encode(message))


def waiting_share(exchange: str, tau: int, *, latency_s: float, round_s: float) -> float:
    """The share of its time that a peer waits where all have the same speed.

    In tau local rounds of `round_s` each, messages travel for `latency_s`: blocking nothing goes on meanwhile, with
    overlap one round does, delayed all tau do, and one wait serves two sync rounds.
    """
    hidden = {"blocking": 0.0, "overlap": round_s, "delayed": tau * round_s}[exchange]
    waits = max(0.0, latency_s - hidden) / (2.0 if exchange == "delayed" else 1.0)
    period = tau * round_s + waits
    return waits / period if period else 0.0


def least_tau(exchange: str, *, latency_s: float, round_s: float, at_most: float = 0.0) -> int | None:
    """The least tau with which a peer waits for at most this share of its time; None where there is none."""
    if exchange == "delayed":
        # w = (latency - tau r) / 2 is at most the share of tau r + w.
        tau = max(1, math.ceil((1.0 - at_most) / (1.0 + at_most) * latency_s / round_s - 1e-9))
    else:
        waits = max(0.0, latency_s - (round_s if exchange == "overlap" else 0.0))
        if waits and not at_most:
            return None
        tau = max(1, math.ceil(waits * (1.0 - at_most) / (at_most * round_s) - 1e-9)) if waits else 1
    return tau


def hiding_table(config: ClusterConfig, latency_s: float, round_s: float) -> list[dict[str, Any]]:
    """For each exchange of peers which tau hides a latency, and how much the configured tau waits.

    Empty where sync rounds grow apart: there is no one interval.
    """
    tau = config.algorithm.parameters.tau
    if algorithm_of(config, 0).sync.growing:
        return []
    speeds = {"latency_s": latency_s, "round_s": round_s}
    return [
        {
            "exchange": exchange,
            "least_tau": least_tau(exchange, **speeds),
            "least_tau_almost": least_tau(exchange, at_most=ALMOST, **speeds),
            "waiting_share": waiting_share(exchange, tau, **speeds) if isinstance(tau, int) else None,
        }
        for exchange in exchanges_of(type(config.algorithm.parameters))
    ]
