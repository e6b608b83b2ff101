"""Who is whose neighbor: graphs over tasks, their schedules, their weights, and what zeta they have."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from drom_net.algorithms.features import Matrix
from drom_net.core.errors import ConfigError, DataError, Problem, UsageError, did_you_mean
from drom_net.core.fields import Choice, Integer, Number, Pairs, Text, option
from drom_net.core.seeding import stream

RULES = ("metropolis", "uniform", "lazy")
"""How weights follow from a graph, for `mixing_weights`."""
DRAWS_LIMIT = 1000
"""So often a random graph is drawn until it is connected."""
SHOWN_LIMIT = 8
"""Names, or faults of one kind, in a message."""
ROW_SUM_TOLERANCE = 1e-6
"""How far from 1 the sum of a row of a weight file may be, for decimals that were rounded."""
FULL_MESH_LIMIT = 64
"""Tasks above which a full graph is warned of."""
EXACT_LIMIT = 2000
"""Tasks above which `topology_facts` computes neither zeta nor diameter: they take minutes and gigabytes."""

Neighbors = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class TopologySettings:
    """The graph of peers in DROM-D: who exchanges vectors with whom in a sync round."""

    graph: str = option(
        Choice(
            (
                *("full", "ring", "nearest", "grid", "torus", "hub", "path", "hypercube", "exponential"),
                *("regular", "erdos-renyi", "one-peer-exponential", "edges", "adjacency", "weights"),
            )
        ),
        doc="The kind of graph. exponential: task i with i +- 1, 2, 4, ...; regular and erdos-renyi are random; "
        "one-peer-exponential changes by sync round; edges, adjacency and weights are given.",
    )
    neighbors: int | None = option(
        Integer(2), None, doc="nearest: the number of neighbors of each task on the ring, an even number."
    )
    rows: int | None = option(
        Integer(1), None, doc="grid, torus: rows; by default those of the most square rectangle of all tasks."
    )
    columns: int | None = option(Integer(1), None, doc="grid, torus: columns; rows * columns is the number of tasks.")
    degree: int | None = option(Integer(1), None, doc="regular: the number of neighbors of each task.")
    probability: float | None = option(
        Number(above=0.0, at_most=1.0), None, doc="erdos-renyi: the probability of each edge."
    )
    graph_seed: int = option(
        Integer(0), 0, doc="regular, erdos-renyi: what the graph is drawn from; the run's seed does not change it."
    )
    edges: tuple[tuple[str | int, str | int], ...] | None = option(
        Pairs(), None, doc="edges: each edge once, as [a, b] of task names or of numbers from 0."
    )
    file: str | None = option(
        Text("a file name, .csv or .npy"),
        None,
        doc="adjacency, weights: a symmetric square matrix in task order, CSV without header or .npy. An .npy of "
        "several adjacency matrices, shape (k, m, m), is a schedule: the graph of one sync round after the other. "
        "A relative name starts at the folder of the topology file.",
    )
    weights: str | None = option(
        Choice(("mask", *RULES, "zeta", "matrix")),
        None,
        doc="How a neighbor's vector counts beside the task's own. mask: as it is (the paper; the default). Otherwise "
        "scaled by S_ij / S_ii, S being metropolis 1/(1 + max(deg_i, deg_j)), uniform 1/(1 + deg_max), lazy "
        "(half of metropolis, half the task itself), zeta (equal on all edges, to reach topology.zeta), or matrix "
        "(the file; the default with graph: weights).",
    )
    zeta: float | None = option(
        Number(at_least=0.0, below=1.0),
        None,
        doc="weights: zeta: the second largest eigenvalue modulus of the weights to reach.",
    )

    @property
    def rule(self) -> str:
        """`weights`, with its default."""
        return self.weights or ("matrix" if self.graph == "weights" else "mask")


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Tasks and their neighbors; compare two by their `digest`.

    Attributes:
        neighbors: For each task its neighbors, ascending, without itself: every algorithm adds the self-loop.
        weights: The doubly stochastic S, shape (m, m), read-only, with a positive diagonal; None for `mask`.
        name: For people: ``grid 3 x 4``.
        shape: (rows, columns) of a grid or torus, whose task r * columns + c stands in row r and column c.
    """

    neighbors: Neighbors
    weights: Matrix | None = None
    name: str = "graph"
    shape: tuple[int, int] | None = None

    @property
    def num_tasks(self) -> int:
        return len(self.neighbors)

    @property
    def degrees(self) -> tuple[int, ...]:
        """For each task the number of its neighbors, itself not counted."""
        return tuple(map(len, self.neighbors))

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Every pair (a, b) with a < b that is joined, in either direction or both, ascending."""
        pairs = {(min(i, j), max(i, j)) for i, row in enumerate(self.neighbors) for j in row}
        return tuple(sorted(pairs))

    @property
    def one_way(self) -> tuple[tuple[int, int], ...]:
        """Every (i, j) where j is a neighbor of i, but i none of j; `make_graph` makes no such graph."""
        sets = [set(row) for row in self.neighbors]
        return tuple((i, j) for i, row in enumerate(self.neighbors) for j in row if i not in sets[j])

    @property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The tasks that are connected, in ascending order, by their first one; directions do not count."""
        both: list[list[int]] = [list(row) for row in self.neighbors]
        for i, j in self.one_way:
            both[j].append(i)
        return _components(both)

    @property
    def diameter(self) -> int | None:
        """The longest of the shortest ways between two tasks, in edges; None when some way is missing."""
        # Whom each task reaches, as the bits of one number: a step for all tasks costs one `or` for each edge.
        everyone = (1 << self.num_tasks) - 1
        reached = [1 << i for i in range(self.num_tasks)]
        for steps in itertools.count():
            if all(bits == everyone for bits in reached):
                return steps
            further = []
            for i, row in enumerate(self.neighbors):
                bits = reached[i]
                for j in row:
                    bits |= reached[j]
                further.append(bits)
            if further == reached:
                return None
            reached = further
        raise AssertionError("count ended")

    def members(self, task: int) -> tuple[int, ...]:
        """The task and its neighbors, in task order: the rows of its A^(i)."""
        return tuple(sorted((*self.neighbors[task], task)))

    def scales(self, task: int) -> tuple[float, ...]:
        """What each of the `members` is multiplied with: S_ij / S_ii, or 1.0 for all where there are no weights."""
        members = self.members(task)
        if self.weights is None:
            return (1.0,) * len(members)
        row = self.weights[task]
        return tuple(float(row[j] / row[task]) for j in members)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of neighbors and weights; the name does not count."""
        hashed = hashlib.sha256(json.dumps(self.neighbors).encode())
        if self.weights is not None:
            hashed.update(np.ascontiguousarray(self.weights, dtype="<f8").tobytes())
        return hashed.hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class GraphSchedule:
    """A graph for each sync round, in a cycle; a graph that stays is a cycle of one."""

    graphs: tuple[Graph, ...]

    def at(self, sync_index: int) -> Graph:
        """The graph of a sync round, which count from 0."""
        return self.graphs[sync_index % len(self.graphs)]

    @property
    def union(self) -> Graph:
        """Whoever meets in some round: the connections to open. It has weights only where one graph stays."""
        if len(self.graphs) == 1:
            return self.graphs[0]
        met: list[set[int]] = [set() for _ in self.graphs[0].neighbors]
        for graph in self.graphs:
            for i, row in enumerate(graph.neighbors):
                met[i].update(row)
        return Graph(tuple(tuple(sorted(row)) for row in met), name=self.graphs[0].name)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of all the graphs in order, for the digest of the configuration."""
        return hashlib.sha256("".join(graph.digest for graph in self.graphs).encode()).hexdigest()


# From settings to a graph -------------------------------------------------------------------------

_BELONGS = {
    "neighbors": ("nearest",),
    "rows": ("grid", "torus"),
    "columns": ("grid", "torus"),
    "degree": ("regular",),
    "probability": ("erdos-renyi",),
    "edges": ("edges",),
    "file": ("adjacency", "weights"),
}
"""The keys that only some graphs have."""
_NEEDED = ("neighbors", "degree", "probability", "edges", "file")
RANDOM = ("regular", "erdos-renyi")


def check_settings(settings: TopologySettings) -> list[Problem]:
    """What is wrong with the keys among each other, whatever the tasks; each place is ``topology.KEY``."""
    problems = []
    for key, graphs in _BELONGS.items():
        value = getattr(settings, key)
        if value is not None and settings.graph not in graphs:
            problems.append(_problem(key, f"no such key with graph: {settings.graph}", _text(value)))
        elif value is None and settings.graph in graphs and key in _NEEDED:
            problems.append(_problem(key, f"a value, as graph is {settings.graph}", "nothing"))
    if settings.graph_seed and settings.graph not in RANDOM:
        expected = f"no such key with graph: {settings.graph}"
        problems.append(_problem("graph_seed", expected, settings.graph_seed))
    if settings.neighbors is not None and settings.neighbors % 2:
        problems.append(_problem("neighbors", "an even number, half of them on each side", settings.neighbors))
    if settings.zeta is not None and settings.rule != "zeta":
        problems.append(_problem("zeta", f"no such key with weights: {settings.rule}", settings.zeta))
    if settings.zeta is None and settings.rule == "zeta":
        problems.append(_problem("zeta", "a value, as weights is zeta", "nothing"))
    if settings.rule == "matrix" and settings.graph != "weights":
        problems.append(_problem("weights", "another rule; matrix needs graph: weights and its file", "matrix"))
    if settings.graph == "one-peer-exponential" and settings.rule == "zeta":
        problems.append(_problem("weights", "another rule, as the graph changes by round", "zeta"))
    return problems


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
        graphs = _from_file(settings, num_tasks, base)
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
        raise _refusal("neighbors", f"fewer neighbors than the {num_tasks} tasks", settings.neighbors)
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
        raise _refusal("graph", "another graph: a hypercube needs 2, 4, 8, ... tasks", f"hypercube of {num_tasks}")
    edges = ((i, i ^ 2**bit) for i in range(num_tasks) for bit in range(num_tasks.bit_length() - 1))
    return _from_edges(num_tasks, edges, "hypercube")


def _grid(settings: TopologySettings, num_tasks: int, names: Sequence[str]) -> Graph:
    rows, columns = _rectangle(settings, num_tasks)
    torus = settings.graph == "torus"
    if torus and min(rows, columns) < 2:
        # Two rows may be: the way around is then the edge that is there already.
        hint = "take another number of tasks, or graph: ring"
        raise _refusal("graph", "a torus of at least 2 rows and 2 columns", f"{rows} x {columns}", hint)
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
            raise _refusal("graph", f"a number of tasks that fill a {settings.graph}", got, hint)
    rows = num_tasks // (columns or 1) if rows is None else rows
    columns = num_tasks // rows if columns is None and rows else columns
    assert columns is not None
    if rows * columns != num_tasks:
        key = "rows" if settings.columns is None else "columns"
        given = settings.rows if settings.columns is None else settings.columns
        expected = f"rows * columns of {num_tasks}, the number of tasks"
        both = settings.rows is not None and settings.columns is not None
        raise _refusal(key, expected, f"{rows} * {columns}" if both else given)
    return rows, columns


def _line(graph: str) -> str:
    return "ring" if graph == "torus" else "path"


def _regular(settings: TopologySettings, num_tasks: int, names: Sequence[str]) -> Graph:
    degree = settings.degree
    assert degree is not None
    if degree >= num_tasks:
        raise _refusal("degree", f"fewer neighbors than the {num_tasks} tasks", degree)
    if degree * num_tasks % 2:
        raise _refusal("degree", f"an even number, as {num_tasks} tasks are odd in number", degree)
    if degree == 1 and num_tasks > 2:
        raise _refusal("degree", "at least 2, for a graph that is connected", degree)
    seeds = stream(settings.graph_seed, "graph", "regular")

    def draw() -> Neighbors:
        return _draw_regular(num_tasks, degree, int(seeds.integers(2**63)))

    neighbors = _draw_connected(draw)
    if neighbors is None:
        raise _refusal("degree", f"a degree that connects {num_tasks} tasks, which {DRAWS_LIMIT} draws did not", degree)
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
        raise _refusal("probability", expected, probability, hint)
    return Graph(neighbors, name=f"Erdos-Renyi p = {probability:g}")


def _draw_connected(draw: Callable[[], Neighbors]) -> Neighbors | None:
    """The first draw that is connected; None when there is none among the first `DRAWS_LIMIT`."""
    for _ in range(DRAWS_LIMIT):
        neighbors = draw()
        if len(_components(neighbors)) == 1:
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
                problems.append(_problem(key, f"task numbers from 0 to {num_tasks - 1}", end))
            else:
                expected = "names of tasks, " + _some(names)
                problems.append(_problem(key, expected, f'"{end}"', did_you_mean(end, names)))
        if unknown:
            continue
        first, second = (end if isinstance(end, int) else numbers[end] for end in pair)
        a, b = min(first, second), max(first, second)
        if a == b:
            hint = "every task is in its own neighborhood anyway"
            problems.append(_problem(key, "two different tasks", f"{_text(pair)}", hint))
        elif (a, b) in seen:
            expected = f"each edge once, and topology.edges[{seen[a, b]}] is this one"
            problems.append(_problem(key, expected, _text(pair)))
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


def _components(neighbors: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    found = []
    left = dict.fromkeys(range(len(neighbors)))
    while left:
        first = next(iter(left))
        del left[first]
        component = [first]
        for task in component:  # it grows meanwhile
            for other in neighbors[task]:
                if other in left:
                    del left[other]
                    component.append(other)
        found.append(tuple(sorted(component)))
    return tuple(found)


def _problem(key: str, expected: str, got: object, hint: str = "") -> Problem:
    return Problem(f"topology.{key}", expected, str(got), hint)


def _refusal(key: str, expected: str, got: object, hint: str = "") -> ConfigError:
    return ConfigError([_problem(key, expected, got, hint)])


def _text(value: object) -> str:
    """A value of the file as people write it, cut where it is long."""
    text = f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _some(names: Sequence[str], limit: int = SHOWN_LIMIT) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


# Matrix files -------------------------------------------------------------------------------------


def _from_file(settings: TopologySettings, num_tasks: int, base: Path) -> tuple[Graph, ...]:
    assert settings.file is not None
    path = base / settings.file
    weights = settings.graph == "weights"
    matrices = read_matrices(path)
    if len(matrices) > 1 and (weights or settings.rule != "mask"):
        expected = "one matrix, as weights that change by sync round are not supported"
        raise DataError([Problem(str(path), expected, f"{len(matrices)} matrices")])
    graphs = []
    for number, matrix in enumerate(matrices):
        if problem := _fault_of_matrix(matrix, num_tasks, weights=weights):
            place = str(path) if len(matrices) == 1 else f"{path}[{number}]"
            raise DataError([Problem(place, *problem)])
        joined = matrix > 0.0
        np.fill_diagonal(joined, False)
        neighbors = tuple(tuple(np.flatnonzero(row).tolist()) for row in joined)
        matrix.flags.writeable = False
        graphs.append(Graph(neighbors, weights=matrix if weights else None, name=f"{settings.graph} of {path.name}"))
    return tuple(graphs)


def read_matrices(path: Path) -> list[Matrix]:
    """Matrices of numbers: one from CSV without header, one or several from .npy of two or three axes.

    Returns:
        Each float64, C order, shape (rows, columns); at least one.

    Raises:
        DataError: The file is missing, or no such matrix.
    """
    try:
        if path.suffix == ".npy":
            with path.open("rb") as file:
                return _read_npy(path, file)
        with path.open(newline="", encoding="utf-8-sig") as lines:
            return [_read_csv(path, csv.reader(lines))]
    except OSError as error:
        raise DataError([Problem(str(path), "a matrix file", error.strerror or str(error))]) from None
    except (csv.Error, UnicodeDecodeError):
        raise DataError([Problem(str(path), "CSV of numbers without header, or .npy", "something else")]) from None


def _read_npy(path: Path, file: IO[bytes]) -> list[Matrix]:
    try:
        array = np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, EOFError):
        raise DataError([Problem(str(path), "an array of numbers in .npy format", "something else")]) from None
    if array.ndim not in (2, 3) or not len(array) or array.dtype.kind not in "biuf":
        expected = "a matrix of numbers, or several of shape (k, m, m)"
        raise DataError([Problem(str(path), expected, f"{array.dtype} of shape {array.shape}")])
    return [np.array(matrix, dtype=np.float64, order="C") for matrix in (array if array.ndim == 3 else [array])]


def _read_csv(path: Path, lines: Any) -> Matrix:
    rows: list[list[float]] = []
    for cells in lines:
        if not cells:
            continue
        place = f"{path}:{lines.line_num}"
        if rows and len(cells) != len(rows[0]):
            raise DataError([Problem(place, f"{len(rows[0])} numbers, as in the first line", str(len(cells)))])
        row = []
        for column, cell in enumerate(cells):
            try:
                row.append(float(cell))
            except ValueError:
                hint = "the file has no header" if not rows else ""
                where = f"{place}, column {column + 1}"
                raise DataError([Problem(where, "a number", f'"{cell[:40]}"', hint)]) from None
        rows.append(row)
    return np.array(rows, dtype=np.float64).reshape(len(rows), -1 if rows else 0)


def _fault_of_matrix(matrix: Matrix, num_tasks: int, *, weights: bool) -> tuple[str, str] | None:
    """(expected, got) for the first thing that is wrong with an adjacency or weight matrix."""
    rows, columns = matrix.shape
    if matrix.shape != (num_tasks, num_tasks):
        kind = "a matrix that is square" if rows != columns else "a row for each task"
        return f"{num_tasks} x {num_tasks} numbers, {kind}", f"{rows} x {columns}"
    for wrong, expected in (
        (~np.isfinite(matrix), "finite numbers"),
        (matrix < 0.0, "no negative number"),
        ((matrix != 0.0) & (matrix != 1.0) & (not weights), "zeros and ones (graph: weights takes others)"),
    ):
        if wrong.any():
            i, j = np.argwhere(wrong)[0].tolist()
            return expected, f"entry ({i}, {j}) is {matrix[i, j]:g}"
    unequal = ~np.isclose(matrix, matrix.T, rtol=0.0, atol=1e-9)
    if unequal.any():
        i, j = np.argwhere(unequal)[0].tolist()
        got = f"asymmetric, entry ({i}, {j}) is {matrix[i, j]:.10g} and ({j}, {i}) is {matrix[j, i]:.10g}"
        return "a symmetric matrix", got
    if not weights:
        return None
    if not (diagonal := np.diagonal(matrix)).all():
        i = int(np.argmin(diagonal))
        return "a positive diagonal, as each task counts itself", f"entry ({i}, {i}) is 0"
    sums = matrix.sum(axis=1)
    off = np.abs(sums - 1.0) > ROW_SUM_TOLERANCE
    if off.any():
        i = int(np.argmax(off))
        return "rows that sum to 1", f"{sums[i]:.8g} in row {i}"
    return None


# Weights and zeta ---------------------------------------------------------------------------------


def mixing_weights(graph: Graph, rule: str) -> Matrix:
    """A symmetric, doubly stochastic S with the graph's edges and a positive diagonal (algorithms.md, zeta).

    Args:
        rule: ``metropolis``: S_ij = 1/(1 + max(deg_i, deg_j)). ``uniform``: S_ij = 1/(1 + deg_max); this is also what
            we call the 0/1 adjacency normalised: with self-loops, divided by its largest row sum, and on the diagonal
            what the rows then lack (a plain division by row sums would not be symmetric). ``lazy``: half the
            Metropolis weights and half the identity.

    Returns:
        Shape (m, m), float64, read-only; the same bits on every machine.
    """
    degrees = graph.degrees
    largest = max(degrees)
    weights = np.zeros((graph.num_tasks, graph.num_tasks))
    for i, row in enumerate(graph.neighbors):
        for j in row:
            weights[i, j] = 1.0 / (1.0 + (largest if rule == "uniform" else max(degrees[i], degrees[j])))
            if rule == "lazy":
                weights[i, j] /= 2.0
    _fill_diagonal(weights, graph)
    return weights


def weights_for_zeta(graph: Graph, target: float) -> Matrix:
    """One weight w on all edges, chosen so that zeta is `target`: S = I - w L, L being the Laplacian.

    zeta(w) = max(|1 - w l_2|, |1 - w l_m|), l_2 and l_m the smallest but one and the largest eigenvalue of L: it falls
    from 1 at w = 0 as 1 - w l_2, until w = 2/(l_2 + l_m). So w = (1 - target)/l_2 (on the ring of 4: 0.25 for 0.5,
    0.05 for 0.9). w is rounded to 12 decimals, for equal weights where the eigenvalues' last bits differ.

    Raises:
        ConfigError: The graph is not connected, or its edges cannot reach so small a zeta with S_ii > 0.
    """
    degrees = graph.degrees
    laplacian = np.diag(np.array(degrees, dtype=np.float64))
    for i, row in enumerate(graph.neighbors):
        laplacian[i, list(row)] = -1.0
    values = np.linalg.eigvalsh(laplacian)
    weight = 0.0
    if graph.num_tasks > 1:
        if len(graph.components) > 1:
            raise _refusal("zeta", "a connected graph for weights: zeta", "one that is not")
        least_weight_of_worse = 2.0 / (values[1] + values[-1])
        weight = round((1.0 - target) / values[1], 12)
        if weight > least_weight_of_worse * (1.0 + 1e-9) or weight * max(degrees) >= 1.0:
            limit = min(least_weight_of_worse, 1.0 / max(degrees))
            raise _refusal("zeta", f"at least {1.0 - limit * values[1]:.4g} on this graph", f"{target:g}")
    weights = np.zeros_like(laplacian)
    for i, row in enumerate(graph.neighbors):
        weights[i, list(row)] = weight
    _fill_diagonal(weights, graph)
    return weights


def _fill_diagonal(weights: Matrix, graph: Graph) -> None:
    """Give each task itself what its neighbors leave; added in task order, for the same bits everywhere."""
    for i, row in enumerate(graph.neighbors):
        weights[i, i] = 1.0 - sum(weights[i, j] for j in row)
    weights.flags.writeable = False


def zeta(weights: Matrix) -> float:
    """max(|sigma_2(S)|, |sigma_m(S)|) of a symmetric, doubly stochastic S, shape (m, m): 0 mixes at once, 1 never.

    The eigenvalue 1 of the constant vector is left out once; of a graph in parts it is there again. One task has 0.
    """
    if len(weights) == 1:
        return 0.0
    values = np.linalg.eigvalsh(weights)
    return float(min(1.0, max(abs(values[0]), abs(values[-2]))))


def schedule_zeta(schedule: GraphSchedule, rule: str) -> float:
    """zeta of one graph; of a cycle of k, the k-th root of the largest singular value but one of the product."""
    if len(schedule.graphs) == 1:
        return zeta(mixing_weights(schedule.graphs[0], rule))
    product = np.eye(schedule.graphs[0].num_tasks)
    for graph in schedule.graphs:
        product = mixing_weights(graph, rule) @ product
    values = np.linalg.svd(product, compute_uv=False)
    # The root would make 0.1 of a rounding error.
    return 0.0 if values[1] < 1e-12 else float(min(1.0, values[1]) ** (1.0 / len(schedule.graphs)))


# For people ---------------------------------------------------------------------------------------


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
    return [f"{longest} is longer than the stream of {_some(short)}: such a task ends before its first sync round"]


def _warnings(
    graph: Graph, tau: int | Sequence[int], stream_lengths: Sequence[int], names: Sequence[str]
) -> Iterator[str]:
    num_tasks = graph.num_tasks
    components = graph.components
    if len(components) > 1:
        sizes = _some([str(len(component)) for component in components])
        yield f"the graph is disconnected: {len(components)} parts, of {sizes} tasks, that learn nothing of each other"
    if one_way := graph.one_way:
        shown = _some([f"{names[i]} has {names[j]}" for i, j in one_way])
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
            yield f"{_some(hubs)} {has} all {num_tasks - 1} others for neighbors, and all wait when it is late"


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
