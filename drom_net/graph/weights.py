"""Mixing weights of a graph, and zeta, by which they average."""

from __future__ import annotations

import numpy as np

from drom_net.algorithms.features import Matrix
from drom_net.graph.graph import Graph, GraphSchedule
from drom_net.graph.settings import refusal

EXACT_LIMIT = 2000
"""Tasks above which `topology_facts` computes neither zeta nor diameter: they take minutes and gigabytes."""


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
            raise refusal("zeta", "a connected graph for weights: zeta", "one that is not")
        least_weight_of_worse = 2.0 / (values[1] + values[-1])
        weight = round((1.0 - target) / values[1], 12)
        if weight > least_weight_of_worse * (1.0 + 1e-9) or weight * max(degrees) >= 1.0:
            limit = min(least_weight_of_worse, 1.0 / max(degrees))
            raise refusal("zeta", f"at least {1.0 - limit * values[1]:.4g} on this graph", f"{target:g}")
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
