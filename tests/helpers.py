"""Small streams of examples for tests, made from a seed; graphs, the plain loop, and selections of combinations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from drom_net.algorithms.base import Algorithm
from drom_net.algorithms.features import Matrix, SparseVector, Vector
from drom_net.data.stream import SparseRows, TaskStream
from drom_net.graph.families import make_graph
from drom_net.graph.graph import Graph, GraphSchedule
from drom_net.graph.neighborhood import Neighborhood, neighborhoods
from drom_net.graph.settings import TopologySettings
from drom_net.learning.reference import PeersResult, run_reference_peers


def frozen(array: np.ndarray) -> np.ndarray:
    """The array, from now on read-only."""
    array.flags.writeable = False
    return array


def unit_rows(rows: Matrix) -> Matrix:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def random_streams(
    lengths: Sequence[int], *, dim: int = 7, seed: int = 0, flip: float = 0.0, density: float = 1.0
) -> list[TaskStream]:
    """Related tasks with unit-norm rows: one stream for each length, `flip` of their labels being noise."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal(dim)
    streams = []
    for length in lengths:
        target = shared + 0.5 * rng.standard_normal(dim)
        rows = rng.standard_normal((length, dim))
        mask = rng.random((length, dim)) < density
        mask[:, 0] = True
        rows = unit_rows(rows * mask) if length else rows
        clean = np.where(rows @ target >= 0.0, 1.0, -1.0)
        labels = np.where(rng.random(length) < flip, -clean, clean)
        streams.append(TaskStream(frozen(rows), frozen(labels), frozen(clean)))
    return streams


def spread(streams: Sequence[TaskStream]) -> list[TaskStream]:
    """The same examples, dealt evenly over the rounds of the longest."""
    longest = max(stream.num_examples for stream in streams)
    return [replace(stream, spread_over=longest) for stream in streams]


def sparse_vector(x: Vector) -> SparseVector:
    indices = np.flatnonzero(x).astype(np.int32)
    return SparseVector(indices, x[indices])


def sparse_stream(stream: TaskStream) -> TaskStream:
    """The same examples in CSR form."""
    rows = stream.rows
    assert isinstance(rows, np.ndarray)
    parts = [sparse_vector(row) for row in rows]
    indptr = np.concatenate([[0], np.cumsum([len(part.indices) for part in parts])]).astype(np.int64)
    indices = np.concatenate([part.indices for part in parts] or [np.zeros(0, dtype=np.int32)])
    values = np.concatenate([part.values for part in parts] or [np.zeros(0)])
    return replace(stream, rows=SparseRows(indptr, frozen(indices), frozen(values), rows.shape[1]))


def graph_of(kind: str, num_tasks: int, **settings: object) -> Graph:
    wanted = TopologySettings(graph=kind, **settings)  # type: ignore[arg-type]
    return make_graph(wanted, num_tasks, [f"site-{task}" for task in range(num_tasks)], Path())


def hoods_of(graph: Graph | GraphSchedule, algorithms: Sequence[Algorithm]) -> list[Neighborhood]:
    schedule = GraphSchedule((graph,)) if isinstance(graph, Graph) else graph
    return neighborhoods(schedule, [algorithm.sync for algorithm in algorithms])


def run_loop(
    algorithm: Algorithm | Sequence[Algorithm],
    streams: Sequence[TaskStream],
    graph: Graph | GraphSchedule,
    **options: Any,
) -> PeersResult:
    """The plain loop; one algorithm is for all tasks."""
    algorithms = [algorithm] * len(streams) if isinstance(algorithm, Algorithm) else algorithm
    return run_reference_peers(algorithms, streams, hoods_of(graph, algorithms), **options)


def pairwise(*choices: Sequence) -> list[tuple]:
    """Few combinations, in which any two values of different choices meet (greedy)."""

    def pairs_of(combination: tuple[int, ...]) -> set:
        return set(itertools.combinations(enumerate(combination), 2))

    every = list(itertools.product(*(range(len(values)) for values in choices)))
    left = set().union(*map(pairs_of, every))
    chosen = []
    while left:
        best = max(every, key=lambda combination: len(left & pairs_of(combination)))
        left -= pairs_of(best)
        chosen.append(tuple(values[index] for values, index in zip(choices, best, strict=True)))
    return chosen
