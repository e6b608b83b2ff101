"""Graphs and schedules of graphs as values, without what makes them."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drom_net.algorithms.features import Matrix

ROW_SUM_TOLERANCE = 1e-6
"""How far from 1 the sum of a row of a weight file may be, for decimals that were rounded."""
FULL_MESH_LIMIT = 64
"""Tasks above which a full graph is warned of."""

Neighbors = tuple[tuple[int, ...], ...]


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
        return components_of(both)

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


def components_of(neighbors: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
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
