"""Families of graphs by name: ring, grid, random ones and others; the graph or schedule that a section asks for."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from drom_net.core.errors import ConfigError, UsageError, did_you_mean
from drom_net.core.names import some_of
from drom_net.core.seeding import stream
from drom_net.graph.graph import Graph, GraphSchedule, Neighbors, components_of
from drom_net.graph.matrix_files import from_file
from drom_net.graph.settings import (
    DRAWS_LIMIT,
    RANDOM,
    RULES,
    SHOWN_LIMIT,
    TopologySettings,
    check_settings,
    problem_with,
    refusal,
    shown_value,
)
from drom_net.graph.weights import mixing_weights, weights_for_zeta


def make_graph(settings: TopologySettings, num_tasks: int, names: Sequence[str], base: Path) -> Graph:
    """The graph that the settings describe; of a schedule its union.

    Args:
        num_tasks: m, at least 1.
        names: The tasks' names, m of them, for `edges`.
        base: Where a relative file name starts.

    Raises:
        ConfigError: There is no such graph over so many tasks; each problem's place is ``topology.KEY``.
        DataError: The matrix file is wrong.
        UsageError: networkx, for a random regular graph, is missing.
    """
    return make_schedule(settings, num_tasks, names, base).union


def make_schedule(settings: TopologySettings, num_tasks: int, names: Sequence[str], base: Path) -> GraphSchedule:
    """The graph of each sync round; arguments and errors as for `make_graph`."""
    if problems := check_settings(settings):
        raise ConfigError(problems)
    if settings.graph == "one-peer-exponential":
        graphs = one_peer_exponential(num_tasks)
    elif settings.graph in ("adjacency", "weights"):
        graphs = from_file(settings, num_tasks, base)
    else:
        graphs = (_MAKERS[settings.graph](settings, num_tasks, names),)
    return GraphSchedule(tuple(_weighted(graph, settings) for graph in graphs))


def resolve(settings: TopologySettings, graph: Graph) -> TopologySettings:
    """A random graph written out as its edges, so that nobody has to draw it again; others as they are."""
    if settings.graph not in RANDOM:
        return settings
    return dataclasses.replace(settings, graph="edges", edges=graph.edges, degree=None, probability=None, graph_seed=0)


def _weighted(graph: Graph, settings: TopologySettings) -> Graph:
    if settings.rule in RULES:
        return dataclasses.replace(graph, weights=mixing_weights(graph, settings.rule))
    if settings.rule == "zeta":
        assert settings.zeta is not None
        return dataclasses.replace(graph, weights=weights_for_zeta(graph, settings.zeta))
    return graph if settings.rule == "matrix" else dataclasses.replace(graph, weights=None)


def _from_offsets(num_tasks: int, offsets: Iterable[int], name: str) -> Graph:
    """Task i with i + o and i - o for each offset, around the ring."""
    steps = [step for offset in offsets for step in (offset, -offset)]
    rows = ({(i + step) % num_tasks for step in steps} - {i} for i in range(num_tasks))
    return Graph(tuple(tuple(sorted(row)) for row in rows), name=name)


def _from_edges(num_tasks: int, edges: Iterable[tuple[int, int]], name: str) -> Graph:
    rows: list[set[int]] = [set() for _ in range(num_tasks)]
    for a, b in edges:
        rows[a].add(b)
        rows[b].add(a)
    return Graph(tuple(tuple(sorted(row)) for row in rows), name=name)


def _full(settings: TopologySettings, num_tasks: int, names: Sequence[str]) -> Graph:
    everyone = tuple(range(num_tasks))
    return Graph(tuple(everyone[:i] + everyone[i + 1 :] for i in everyone), name="full")


def _ring(settings: TopologySettings, num_tasks: int, names: Sequence[str]) -> Graph:
    return _from_offsets(num_tasks, (1,), "ring")


def _nearest(settings: TopologySettings, num_tasks: int, names: Sequence[str]) -> Graph:
    assert settings.neighbors is not None
    if settings.neighbors >= num_tasks:
        raise refusal("neighbors", f"fewer neighbors than the {num_tasks} tasks", settings.neighbors)
    return _from_offsets(num_tasks, range(1, settings.neighbors // 2 + 1), f"{settings.neighbors}-nearest ring")


def _exponential(settings: TopologySettings, num_tasks: int, names: Sequence[str]) -> Graph:
    return _from_offsets(num_tasks, _powers_below(num_tasks), "exponential")


def _path(settings: TopologySettings, num_tasks: int, names: Sequence[str]) -> Graph:
    return _from_edges(num_tasks, itertools.pairwise(range(num_tasks)), "path")


def _hub(settings: TopologySettings, num_tasks: int, names: Sequence[str]) -> Graph:
    """Task 0 with all others."""
    return _from_edges(num_tasks, ((0, i) for i in range(1, num_tasks)), "hub")


def _hypercube(settings: TopologySettings, num_tasks: int, names: Sequence[str]) -> Graph:
    if num_tasks.bit_count() != 1:
        raise refusal("graph", "another graph: a hypercube needs 2, 4, 8, ... tasks", f"hypercube of {num_tasks}")
    edges = ((i, i ^ 2**bit) for i in range(num_tasks) for bit in range(num_tasks.bit_length() - 1))
    return _from_edges(num_tasks, edges, "hypercube")


def _grid(settings: TopologySettings, num_tasks: int, names: Sequence[str]) -> Graph:
    rows, columns = _rectangle(settings, num_tasks)
    torus = settings.graph == "torus"
    if torus and min(rows, columns) < 2:
        # Two rows may be: the way around is then the edge that is there already.
        hint = "take another number of tasks, or graph: ring"
        raise refusal("graph", "a torus of at least 2 rows and 2 columns", f"{rows} x {columns}", hint)
    edges = []
    for row, column in itertools.product(range(rows), range(columns)):
        if torus or column + 1 < columns:
            edges.append((row * columns + column, row * columns + (column + 1) % columns))
        if torus or row + 1 < rows:
            edges.append((row * columns + column, (row + 1) % rows * columns + column))
    graph = _from_edges(num_tasks, edges, f"{settings.graph} {rows} x {columns}")
    return dataclasses.replace(graph, shape=(rows, columns))


def _rectangle(settings: TopologySettings, num_tasks: int) -> tuple[int, int]:
    """Rows and columns: what is given, and the rest by the number of tasks."""
    rows, columns = settings.rows, settings.columns
    if rows is None and columns is None:
        rows = next(rows for rows in range(math.isqrt(num_tasks), 0, -1) if num_tasks % rows == 0)
        if rows == 1 and num_tasks > 3:
            hint = f"give topology.rows: 1 if a line is meant, or take graph: {_line(settings.graph)}"
            got = f"{num_tasks}, a prime number"
            raise refusal("graph", f"a number of tasks that fill a {settings.graph}", got, hint)
    rows = num_tasks // (columns or 1) if rows is None else rows
    columns = num_tasks // rows if columns is None and rows else columns
    assert columns is not None
    if rows * columns != num_tasks:
        key = "rows" if settings.columns is None else "columns"
        given = settings.rows if settings.columns is None else settings.columns
        expected = f"rows * columns of {num_tasks}, the number of tasks"
        both = settings.rows is not None and settings.columns is not None
        raise refusal(key, expected, f"{rows} * {columns}" if both else given)
    return rows, columns


def _line(graph: str) -> str:
    return "ring" if graph == "torus" else "path"


def _regular(settings: TopologySettings, num_tasks: int, names: Sequence[str]) -> Graph:
    degree = settings.degree
    assert degree is not None
    if degree >= num_tasks:
        raise refusal("degree", f"fewer neighbors than the {num_tasks} tasks", degree)
    if degree * num_tasks % 2:
        raise refusal("degree", f"an even number, as {num_tasks} tasks are odd in number", degree)
    if degree == 1 and num_tasks > 2:
        raise refusal("degree", "at least 2, for a graph that is connected", degree)
    seeds = stream(settings.graph_seed, "graph", "regular")

    def draw() -> Neighbors:
        return _draw_regular(num_tasks, degree, int(seeds.integers(2**63)))

    neighbors = _draw_connected(draw)
    if neighbors is None:
        raise refusal("degree", f"a degree that connects {num_tasks} tasks, which {DRAWS_LIMIT} draws did not", degree)
    return Graph(neighbors, name=f"random {degree}-regular")


def _draw_regular(num_tasks: int, degree: int, seed: int) -> Neighbors:
    """A random regular graph by pairing of half-edges (Steger and Wormald 1999, as networkx has it)."""
    try:
        import networkx
    except ImportError:
        raise UsageError(
            "topology.graph: regular needs networkx: pip install 'drom-net[graphs]'; "
            "or have the graph written out as edges where it is installed"
        ) from None
    everyone = set(range(num_tasks))
    # Pairing fails nearly always when most edges are there, so then the missing ones are drawn.
    complement = degree > (num_tasks - 1) // 2
    graph = networkx.random_regular_graph(num_tasks - 1 - degree if complement else degree, num_tasks, seed=seed)
    rows = ({int(j) for j in graph.adj[i]} if i in graph else set() for i in range(num_tasks))
    return tuple(tuple(sorted(everyone - row - {i} if complement else row)) for i, row in enumerate(rows))


def _erdos_renyi(settings: TopologySettings, num_tasks: int, names: Sequence[str]) -> Graph:
    probability = settings.probability
    assert probability is not None
    rng = stream(settings.graph_seed, "graph", "erdos-renyi")

    def draw() -> Neighbors:
        rows: list[list[int]] = [[] for _ in range(num_tasks)]
        for a in range(num_tasks):
            for b in (a + 1 + np.flatnonzero(rng.random(num_tasks - 1 - a) < probability)).tolist():
                rows[a].append(b)
                rows[b].append(a)
        return tuple(map(tuple, rows))

    neighbors = _draw_connected(draw)
    if neighbors is None:
        expected = f"a probability that connects {num_tasks} tasks, which {DRAWS_LIMIT} draws did not"
        hint = f"the limit is about ln(m)/m = {math.log(num_tasks) / num_tasks:.2g}"
        raise refusal("probability", expected, probability, hint)
    return Graph(neighbors, name=f"Erdos-Renyi p = {probability:g}")


def _draw_connected(draw: Callable[[], Neighbors]) -> Neighbors | None:
    """The first draw that is connected; None when there is none among the first `DRAWS_LIMIT`."""
    for _ in range(DRAWS_LIMIT):
        neighbors = draw()
        if len(components_of(neighbors)) == 1:
            return neighbors
    return None


def _edges(settings: TopologySettings, num_tasks: int, names: Sequence[str]) -> Graph:
    numbers = {name: number for number, name in enumerate(names)}
    seen: dict[tuple[int, int], int] = {}
    problems = []
    for index, pair in enumerate(settings.edges or ()):
        key = f"edges[{index}]"
        unknown = [end for end in pair if (not 0 <= end < num_tasks if isinstance(end, int) else end not in numbers)]
        for end in unknown:
            if isinstance(end, int):
                problems.append(problem_with(key, f"task numbers from 0 to {num_tasks - 1}", end))
            else:
                expected = "names of tasks, " + some_of(names)
                problems.append(problem_with(key, expected, f'"{end}"', did_you_mean(end, names)))
        if unknown:
            continue
        first, second = (end if isinstance(end, int) else numbers[end] for end in pair)
        a, b = min(first, second), max(first, second)
        if a == b:
            hint = "every task is in its own neighborhood anyway"
            problems.append(problem_with(key, "two different tasks", f"{shown_value(pair)}", hint))
        elif (a, b) in seen:
            expected = f"each edge once, and topology.edges[{seen[a, b]}] is this one"
            problems.append(problem_with(key, expected, shown_value(pair)))
        else:
            seen[a, b] = index
    if problems:
        raise ConfigError(problems[:SHOWN_LIMIT], omitted=max(0, len(problems) - SHOWN_LIMIT))
    return _from_edges(num_tasks, seen, "edges")


_MAKERS: dict[str, Callable[[TopologySettings, int, Sequence[str]], Graph]] = {
    "full": _full,
    "ring": _ring,
    "nearest": _nearest,
    "grid": _grid,
    "torus": _grid,
    "hub": _hub,
    "path": _path,
    "hypercube": _hypercube,
    "exponential": _exponential,
    "regular": _regular,
    "erdos-renyi": _erdos_renyi,
    "edges": _edges,
}


def _powers_below(num_tasks: int) -> list[int]:
    """1, 2, 4, ... below m, as distances on the ring, each once: 1, 2, 4, 8, 14 for 30 tasks."""
    powers = [2**k for k in range(num_tasks.bit_length()) if 2**k < num_tasks]
    return list(dict.fromkeys(min(power, num_tasks - power) for power in powers))


def one_peer_exponential(num_tasks: int) -> tuple[Graph, ...]:
    """Graphs in which each task has at most one neighbor, and all meet within a cycle of them.

    For m a power of two, graph s joins i with i XOR 2^s (Ying et al. 2021; one cycle averages exactly). For other m
    each distance of the exponential graph gives two matchings: the ring of steps of that distance is cut into
    pairs that begin at its even places, then at its odd ones. In a ring of odd length one task stays alone each time.
    """
    name = "one-peer exponential"
    if num_tasks == 1:
        return (_from_edges(1, (), name),)
    if num_tasks.bit_count() == 1:
        bits = range(num_tasks.bit_length() - 1)
        return tuple(_from_edges(num_tasks, ((i, i ^ 2**bit) for i in range(num_tasks)), name) for bit in bits)
    graphs = []
    for distance in _powers_below(num_tasks):
        num_rings = math.gcd(distance, num_tasks)
        length = num_tasks // num_rings
        for start in (0, 1):
            pairs = [
                ((ring + place * distance) % num_tasks, (ring + (place + 1) * distance) % num_tasks)
                for ring in range(num_rings)
                for place in range(start, length if length % 2 == 0 else length - 1, 2)
            ]
            graphs.append(_from_edges(num_tasks, pairs, name))
    return tuple(graphs)
