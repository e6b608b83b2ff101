"""The topology section: which graph, how it changes, and what a file of it must hold."""

from __future__ import annotations

from dataclasses import dataclass

from drom_net.core.errors import ConfigError, Problem
from drom_net.core.fields import Choice, Integer, Number, Pairs, Text, option

RULES = ("metropolis", "uniform", "lazy")
"""How weights follow from a graph, for `mixing_weights`."""
DRAWS_LIMIT = 1000
"""So often a random graph is drawn until it is connected."""
SHOWN_LIMIT = 8
"""Names, or faults of one kind, in a message."""


@dataclass(frozen=True, slots=True)
class TopologySettings:
    """The graph of peers: who exchanges vectors with whom in a sync round."""

    graph: str = option(
        Choice(
            (
                *("full", "ring", "nearest", "grid", "torus", "hub", "path", "hypercube", "exponential"),
                *("regular", "erdos-renyi", "one-peer-exponential", "edges", "adjacency", "weights"),
            )
        ),
        doc="exponential: task i with i +- 1, 2, 4, ..; one-peer-exponential changes by sync round; regular and "
        "erdos-renyi are random.",
    )
    neighbors: int | None = option(Integer(2), None, doc="nearest: neighbors of each task on the ring, an even number.")
    rows: int | None = option(Integer(1), None, doc="grid, torus: rows. By default of the most square rectangle.")
    columns: int | None = option(Integer(1), None, doc="grid, torus: columns; rows * columns is the number of tasks.")
    degree: int | None = option(Integer(1), None, doc="regular: neighbors of each task.")
    probability: float | None = option(
        Number(above=0.0, at_most=1.0), None, doc="erdos-renyi: the probability of each edge."
    )
    graph_seed: int = option(Integer(0), 0, doc="regular, erdos-renyi: the seed of the graph, apart from the run's.")
    edges: tuple[tuple[str | int, str | int], ...] | None = option(Pairs(), None, doc="edges: each edge once.")
    file: str | None = option(
        Text("a file name, .csv or .npy"),
        None,
        doc="adjacency, weights: a symmetric matrix in task order, CSV without header or .npy, relative to this "
        "file. Adjacency matrices of shape (k, m, m) are the graphs of successive sync rounds.",
    )
    weights: str | None = option(
        Choice(("mask", *RULES, "zeta", "matrix")),
        None,
        doc="A neighbor's vector counts as it is (mask, the default) or times S_ij / S_ii: metropolis 1/(1 + "
        "max(deg_i, deg_j)), uniform 1/(1 + deg_max), lazy (half metropolis, half the task itself), zeta "
        "(equal on all edges, to reach topology.zeta), matrix (of the file; default with graph: weights).",
    )
    zeta: float | None = option(
        Number(at_least=0.0, below=1.0),
        None,
        doc="weights: zeta: the second largest eigenvalue modulus to reach.",
    )

    @property
    def has_tree(self) -> bool:
        """Whether sums can flow along a tree of it: it stays, and has no weights."""
        return self.graph != "one-peer-exponential" and self.rule == "mask"

    @property
    def rule(self) -> str:
        """`weights`, with its default."""
        return self.weights or ("matrix" if self.graph == "weights" else "mask")


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
            problems.append(problem_with(key, f"no such key with graph: {settings.graph}", shown_value(value)))
        elif value is None and settings.graph in graphs and key in _NEEDED:
            problems.append(problem_with(key, f"a value, as graph is {settings.graph}", "nothing"))
    if settings.graph_seed and settings.graph not in RANDOM:
        expected = f"no such key with graph: {settings.graph}"
        problems.append(problem_with("graph_seed", expected, settings.graph_seed))
    if settings.neighbors is not None and settings.neighbors % 2:
        problems.append(problem_with("neighbors", "an even number, half of them on each side", settings.neighbors))
    if settings.zeta is not None and settings.rule != "zeta":
        problems.append(problem_with("zeta", f"no such key with weights: {settings.rule}", settings.zeta))
    if settings.zeta is None and settings.rule == "zeta":
        problems.append(problem_with("zeta", "a value, as weights is zeta", "nothing"))
    if settings.rule == "matrix" and settings.graph != "weights":
        problems.append(problem_with("weights", "another rule; matrix needs graph: weights and its file", "matrix"))
    if settings.graph == "one-peer-exponential" and settings.rule == "zeta":
        problems.append(problem_with("weights", "another rule, as the graph changes by round", "zeta"))
    return problems


def problem_with(key: str, expected: str, got: object, hint: str = "") -> Problem:
    return Problem(f"topology.{key}", expected, str(got), hint)


def refusal(key: str, expected: str, got: object, hint: str = "") -> ConfigError:
    return ConfigError([problem_with(key, expected, got, hint)])


def shown_value(value: object) -> str:
    """A value of the file as people write it, cut where it is long."""
    text = f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
