"""From a configuration and its data to the nodes that run it: who runs where, and what it costs. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drom_net.algorithms import Algorithm
from drom_net.algorithms.base import Contribution, ContributionKind, Reply, ReplyKind
from drom_net.algorithms.learner import exchange_of, exchanges_of, of_task
from drom_net.config.model import ClusterConfig, config_digest, graph_schedule, what_leaves
from drom_net.core.errors import ConfigError, Problem
from drom_net.core.names import safe_names
from drom_net.data.formats import line_format_of
from drom_net.data.live_rows import live_rows
from drom_net.data.settings import LiveData
from drom_net.graph.graph import Graph, GraphSchedule
from drom_net.graph.neighborhood import Neighborhood, neighborhoods
from drom_net.node.spec import NodeSpec
from drom_net.protocol.codec import encode
from drom_net.protocol.messages import Pull, Push
from drom_net.protocol.node import REDUCER
from drom_net.results.timeline import Lane, Rows, make_lanes, peer_words, star_words
from drom_net.transport.keys import client_of

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
class Roster:
    """What a plan needs to know of the data."""

    tasks: tuple[str, ...]
    dim: int
    feature_digest: str
    """Empty where it is not known."""
    longest: int | None = None
    """The number of examples of the longest stream, in all passes; None where it is not known."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """What the tasks are called in files."""
        return safe_names(self.tasks)

    def spread_over(self, config: ClusterConfig) -> int | None:
        """Over how many rounds streams are spread; None for lockstep."""
        if config.data.alignment != "spread":
            return None
        return config.rounds or self.longest


@dataclass(frozen=True, slots=True)
class PeerGraph:
    """Who talks to whom, and when."""

    schedule: GraphSchedule
    neighborhoods: list[Neighborhood]

    @property
    def union(self) -> Graph:
        """Whoever meets in some round."""
        return self.schedule.union


def peer_graph(config: ClusterConfig, names: Sequence[str]) -> PeerGraph | None:
    """Who talks to whom; None for a star.

    Raises:
        ConfigError: The graph cannot be made for these tasks, or tau does not fit them.
    """
    schedule = graph_schedule(config, names)
    if schedule is None:
        return None
    tau = config.algorithm.parameters.tau
    if config.algorithm.learner.along_tree:
        why = ""
        if len(schedule.graphs) > 1:
            why = "a graph that stays, as sums flow along a tree of it"
        elif schedule.graphs[0].weights is not None:
            why = "mask, as every sum counts once"
        if why:
            settings = config.topology
            assert settings is not None
            got = f'"{settings.graph}"' if len(schedule.graphs) > 1 else f'"{settings.rule}"'
            key = "topology.graph" if len(schedule.graphs) > 1 else "topology.weights"
            raise ConfigError([Problem(f"{config.path}: {key}", f"{why} ({config.algorithm.name})", got)])
    expected = ""
    if isinstance(tau, tuple) and len(tau) != len(names):
        expected = f"{len(names)} numbers, one for each task"
    elif isinstance(tau, tuple) and len(schedule.graphs) > 1 and len(set(tau)) > 1:
        expected = "one number for all tasks, as the graph changes by sync round"
    if expected:
        raise ConfigError([Problem(f"{config.path}: algorithm.tau", expected, f"{len(tau)} numbers")])
    syncs = [algorithm_of(config, task).sync for task in range(len(names))]
    return PeerGraph(schedule, neighborhoods(schedule, syncs, may_miss=config.policy.may_miss))


def node_names(config: ClusterConfig, names: Sequence[str]) -> tuple[str, ...]:
    """What all nodes are called in files: the reducer, where there is one, and the safe forms of the tasks' names."""
    nodes = safe_names(names)
    return nodes if config.topology is not None else (REDUCER, *nodes)


def client_names(config: ClusterConfig, names: Sequence[str]) -> tuple[str, ...]:
    """Of those tasks whose applications connect by TCP, what these are called in files."""
    endpoints = [source_endpoint(config, names, task) for task in range(len(names))]
    return tuple(
        client_of(node) for node, at in zip(safe_names(names), endpoints, strict=True) if at and "tcp" in at[:3]
    )


def parameters_of(config: ClusterConfig, task: int) -> Any:
    """The learner's parameters for one task: they may differ in tau."""
    return of_task(config.algorithm.parameters, task)


def is_delayed(config: ClusterConfig) -> bool:
    """Whether what peers send in a sync round takes effect at the next one."""
    return exchange_of(config.algorithm.parameters) == "delayed"


def algorithm_of(config: ClusterConfig, task: int) -> Algorithm:
    """The configured learner of one task."""
    return config.algorithm.learner.build(parameters_of(config, task))


def check_sharing(config: ClusterConfig) -> bool:
    """Whether the learner sends the examples themselves to other sites.

    Raises:
        ConfigError: It does, and the configuration does not allow it.
    """
    if not config.algorithm.learner.shares_examples:
        return False
    if not config.allow_sharing_examples:
        place = f"{config.path}: allow_sharing_examples"
        expected = f"true, for {config.algorithm.name} sends every example to other sites"
        raise ConfigError(
            [Problem(place, expected, "false", "the plain loop (--driver reference) needs no permission")]
        )
    return True


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
    remove_if_orphaned: tuple[str, ...] = (),
) -> list[NodeSpec]:
    """The reducer's spec, then each worker's.

    Args:
        folder_of: Each node's own folder, by what it is called in files.
        summary: Where the reducer writes its summary; empty for nowhere.
        remove_if_orphaned: Folders that a node removes when its launcher is gone.
    """
    common = _common(config, roster, run_id=run_id, parent=parent, about=about)
    common["remove_if_orphaned"] = remove_if_orphaned
    reducer = NodeSpec(
        role="reducer",
        name=REDUCER,
        task=-1,
        endpoint=bind,
        out=folder_of[REDUCER],
        summary=summary,
        **common,
    )
    workers = [
        NodeSpec(
            role="worker",
            name=name,
            task=task,
            endpoint=endpoint,
            out=folder_of[node],
            **_examples(config, roster.tasks, task, folder_of[node]),
            **common,
        )
        for task, (name, node) in enumerate(zip(roster.tasks, roster.nodes, strict=True))
    ]
    return [reducer, *workers]


def peer_specs(
    config: ClusterConfig,
    roster: Roster,
    graph: PeerGraph,
    *,
    endpoints: Sequence[str],
    binds: Sequence[str],
    run_id: str,
    parent: int,
    folder_of: dict[str, str],
    remove_if_orphaned: tuple[str, ...] = (),
) -> list[NodeSpec]:
    """Each peer's spec; arguments as for `node_specs`, endpoints and binds in task order."""
    common = _common(config, roster, run_id=run_id, parent=parent, about=about_run(config))
    common["remove_if_orphaned"] = remove_if_orphaned
    return [
        NodeSpec(
            role="peer",
            name=name,
            task=task,
            endpoint=binds[task],
            out=folder_of[node],
            **_examples(config, roster.tasks, task, folder_of[node]),
            neighbor_endpoints={str(other): endpoints[other] for other in hood.neighbors},
            taus={str(other): sync.tau for other, sync in hood.syncs.items()},
            cycle=hood.cycle,
            scales=hood.scales,
            tree=hood.tree,
            **common | {"parameters": dataclasses.asdict(parameters_of(config, task))},
        )
        for task, (name, node, hood) in enumerate(zip(roster.tasks, roster.nodes, graph.neighborhoods, strict=True))
    ]


def _common(
    config: ClusterConfig, roster: Roster, *, run_id: str, parent: int, about: dict[str, str]
) -> dict[str, Any]:
    """What the specs of all nodes of a run say."""
    return {
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
        "policy": dataclasses.asdict(config.policy),
        "checkpoints": dataclasses.asdict(config.checkpoint),
        "spread_over": roster.spread_over(config),
        "live": config.source is not None,
        "pace_s": config.data.pace_s if config.source is None else config.source.round_every_s,
        "keys": config.security.keys or "",
        "keep_records": config.keep_records,
        "parent": parent,
        "about": about,
    }


def _examples(config: ClusterConfig, names: Sequence[str], task: int, folder: str) -> dict[str, Any]:
    """Where a task's examples are, or come from."""
    if config.source is None:
        return {"examples": f"{folder}/examples", "remove": (f"{folder}/examples",)}
    assert isinstance(config.data, LiveData)
    settings, source = dataclasses.asdict(config.source), config.source
    file = source.file and source.file.replace("{task}", safe_names(names)[task])
    found = line_format_of(file or "")
    format = source.format or (found.name if found else "jsonl")
    own = {"bind": source_endpoint(config, names, task), "file": file, "format": format}
    return {"source": settings | own | {"rows": live_rows(config.data).to_json()}}


def source_endpoint(config: ClusterConfig, names: Sequence[str], task: int) -> str | None:
    """Where applications find a task; None where its examples come otherwise."""
    bind = None if config.source is None else config.source.bind
    if isinstance(bind, tuple):
        return bind[task]
    return bind and bind.replace("{task}", safe_names(names)[task])


def source_of(config: ClusterConfig, names: Sequence[str], task: int) -> str:
    """The same for people: where a live task's examples come from."""
    assert config.source is not None
    if endpoint := source_endpoint(config, names, task):
        return endpoint
    return config.source.file.replace("{task}", safe_names(names)[task]) if config.source.file else "standard input"


def about_run(config: ClusterConfig) -> dict[str, str]:
    """What a summary says of a run beside its figures."""
    about = {"name": config.name, "algorithm": config.algorithm.name, "dataset": type(config.data).dataset}
    return about | {"what_leaves": what_leaves(config)}


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run asks of its machines. Bytes are headers and vectors, before the transport's own framing."""

    push_bytes: int
    """The most that one task says to its reducer, or to one neighbor, in a sync round; 0 where it never does."""
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


def lanes(
    config: ClusterConfig,
    graph: PeerGraph | None,
    names: Sequence[str],
    rows: Sequence[Rows],
    lost: Sequence[tuple[str, Rows]] = (),
) -> list[Lane]:
    """What each task of a run did when, for a picture.

    Args:
        graph: The configuration's, over these tasks.
        names: All tasks', in order.
        rows: Each task's, as protocol.node.TIMES_DTYPE, by one clock.
        lost: Of a simulation with crashes, as `timeline.make_lanes` takes it.
    """
    if graph is None:
        return make_lanes(names, rows, star_words(rows), lost)
    delayed = is_delayed(config)
    words = peer_words(graph.neighborhoods, rows, rounds=config.rounds, delayed=delayed)
    return make_lanes(names, rows, words, lost)


def _sync_rounds(hood: Neighborhood, last: int) -> range:
    """A task's own, up to its last round."""
    tau = hood.syncs[hood.task].tau
    return range(tau, last + 1, tau)


def _grow(hood: Neighborhood) -> bool:
    """Whether its sync rounds grow apart; they are then those of all."""
    return hood.syncs[hood.task].growing


def _num_contributions(hood: Neighborhood, last: int, limit: int | None) -> int:
    """How many contributions a task sends to its neighbors, its last one included."""
    neighbors, final = hood.neighbors, hood.syncs[hood.task].last_contribution(last, limit)
    told = sum(_told(hood, neighbor, last) for neighbor in neighbors)
    if last and final is not None:
        told += sum(not (final <= last and hood.sends_to(neighbor, final)) for neighbor in neighbors)
    return told


def _told(hood: Neighborhood, neighbor: int, last: int) -> int:
    """How many of its words up to a round the neighbor uses; they repeat themselves, and a run may be long."""
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

    In tau local rounds of `round_s` each the words travel for `latency_s`: blocking nothing goes on meanwhile, with
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
