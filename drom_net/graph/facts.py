"""What a graph means for a run, as warnings and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from drom_net.core.names import some_of
from drom_net.graph.graph import FULL_MESH_LIMIT, Graph, GraphSchedule
from drom_net.graph.weights import EXACT_LIMIT, schedule_zeta, zeta


def warnings_for(
    graph: Graph, tau: int | Sequence[int], stream_lengths: Sequence[int], names: Sequence[str] = ()
) -> list[str]:
    """What will hurt, a sentence each.

    Args:
        graph: Of a schedule its union.
        tau: The sync interval in rounds, for all tasks or for each.
        stream_lengths: Each task's number of examples.
        names: The tasks' names; their numbers where there are none.
    """
    return list(_warnings(graph, tau, stream_lengths, names or [str(i) for i in range(graph.num_tasks)]))


def tau_warnings(tau: int | Sequence[int], stream_lengths: Sequence[int], names: Sequence[str]) -> list[str]:
    """Whose stream is too short for its tau: at most one sentence; arguments as for `warnings_for`."""
    taus = [tau] * len(names) if isinstance(tau, int) else list(tau)
    short = [
        f"{name} ({length})"
        for name, length, interval in zip(names, stream_lengths, taus, strict=True)
        if interval > length
    ]
    if not short:
        return []
    longest = f"tau = {tau}" if isinstance(tau, int) else "tau"
    return [f"{longest} is longer than the stream of {some_of(short)}: such a task ends before its first sync round"]


def _warnings(
    graph: Graph, tau: int | Sequence[int], stream_lengths: Sequence[int], names: Sequence[str]
) -> Iterator[str]:
    num_tasks = graph.num_tasks
    components = graph.components
    if len(components) > 1:
        sizes = some_of([str(len(component)) for component in components])
        yield f"the graph is disconnected: {len(components)} parts, of {sizes} tasks, that learn nothing of each other"
    if one_way := graph.one_way:
        shown = some_of([f"{names[i]} has {names[j]}" for i, j in one_way])
        yield f"the graph is asymmetric: {shown} for a neighbor, but not the other way round"
    yield from tau_warnings(tau, stream_lengths, names)
    degrees = graph.degrees
    full = min(degrees) == num_tasks - 1
    if full and num_tasks > FULL_MESH_LIMIT:
        yield (
            f"a full graph of {num_tasks} tasks has {num_tasks * (num_tasks - 1) // 2} connections, "
            f"{num_tasks - 1} sockets in each peer"
        )
    if not full and num_tasks > 3:
        hubs = [name for name, degree in zip(names, degrees, strict=True) if degree == num_tasks - 1]
        if hubs:
            has = "is a hub: it has" if len(hubs) == 1 else "are hubs: each has"
            yield f"{some_of(hubs)} {has} all {num_tasks - 1} others for neighbors, and all wait when it is late"


def scheme(schedule: GraphSchedule, tau: int | str | Sequence[int]) -> str:
    """The paper's name for the special case: P(S, tau) with the graph S, J being the full one."""
    graph = schedule.union
    interval = str(tau) if isinstance(tau, int | str) else "tau by task"
    if not graph.edges:
        return f"independent tasks, P(I,{interval})"
    full = min(graph.degrees) == graph.num_tasks - 1 and len(schedule.graphs) == 1
    if full and tau == 1:
        return "fully synchronous, P(J,1)"
    if full:
        return f"periodic, P(J,{interval})"
    return f"{'decentralized' if tau == 1 else 'periodic decentralized'}, P(S,{interval})"


def topology_facts(
    schedule: GraphSchedule,
    *,
    names: Sequence[str],
    dim: int,
    tau: int | Sequence[int],
    stream_lengths: Sequence[int],
    vectors: int = 1,
    growing: float | None = None,
) -> dict[str, Any]:
    """What `drom-net topology` tells, as plain values for JSON.

    Degrees and bytes of a schedule are means over its cycle; the graph and its diameter are those of its union.
    Bytes are those of the vectors, 8 * dim * degree of each, sent by each node; what it receives is as much again. Of
    two neighbors the one with the smaller tau sends only what the other will use.
    zeta and diameter are None above `EXACT_LIMIT` tasks; a diameter is also None for a disconnected graph.

    Args:
        vectors: How many a node tells a neighbor in a sync round.
        growing: Where sync rounds grow apart up to tau (0: without bound), how many rounds there are to one of them.
    """
    graph, num_graphs = schedule.union, len(schedule.graphs)
    degrees = [sum(column) / num_graphs for column in zip(*(each.degrees for each in schedule.graphs), strict=True)]
    taus = [tau] * graph.num_tasks if isinstance(tau, int) else list(tau)
    per_sync = [8.0 * dim * degree * vectors for degree in degrees]
    if growing is not None:
        per_round = [sent / growing for sent in per_sync]
    elif num_graphs > 1:
        per_round = [sent / interval for sent, interval in zip(per_sync, taus, strict=True)]
    else:
        per_round = [
            sum(8.0 * dim * vectors / max(taus[i], taus[j]) for j in row) for i, row in enumerate(graph.neighbors)
        ]
    exact = graph.num_tasks <= EXACT_LIMIT
    facts: dict[str, Any] = {
        "graph": graph.name,
        "scheme": scheme(schedule, tau if growing is None or tau else "growing"),
        "tasks": graph.num_tasks,
        "edges": len(graph.edges),
        "graphs_in_cycle": num_graphs,
        "degrees": _spread(degrees),
        "components": [len(component) for component in graph.components],
        "exact": exact,
        "diameter": graph.diameter if exact else None,
        "zeta_adjacency": schedule_zeta(schedule, "uniform") if exact else None,
        "zeta_metropolis": schedule_zeta(schedule, "metropolis") if exact else None,
        "zeta_weights": zeta(graph.weights) if exact and num_graphs == 1 and graph.weights is not None else None,
        "dim": dim,
        "tau": tau if isinstance(tau, int) else taus,
        "bytes_per_sync_round": _spread(per_sync) | {"total": sum(per_sync)},
        "bytes_per_round": _spread(per_round) | {"total": sum(per_round)},
        "neighbors": [list(row) for row in graph.neighbors],
        "names": list(names),
        "warnings": warnings_for(graph, tau if growing is None else 1, stream_lengths, names),
    }
    return facts


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"min": min(values), "mean": sum(values) / len(values), "max": max(values)}
