"""Graphs, their weights and zeta against algorithms.md section 3, and what is said of graphs that cannot be."""

from __future__ import annotations

import itertools
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drom_net.cli.commands.study import topology
from drom_net.cli.topology import picture_title, print_topology
from drom_net.core.errors import ConfigError, DataError, InputError, UsageError
from drom_net.core.fields import ItemError, Pairs, settings_of
from drom_net.graph.facts import scheme, topology_facts, warnings_for
from drom_net.graph.families import make_graph, make_schedule, resolve
from drom_net.graph.graph import Graph, GraphSchedule
from drom_net.graph.settings import RULES, TopologySettings, check_settings
from drom_net.graph.weights import EXACT_LIMIT, mixing_weights, schedule_zeta, weights_for_zeta, zeta
from drom_net.plots.graph import draw_graph

HERE = Path("/nowhere")


def names_of(num_tasks: int) -> list[str]:
    return [f"site-{task}" for task in range(num_tasks)]


def graph_of(graph: str, num_tasks: int, base: Path = HERE, **settings: Any) -> Graph:
    return make_graph(TopologySettings(graph=graph, **settings), num_tasks, names_of(num_tasks), base)


def zeta_of(graph: str, num_tasks: int, rule: str = "metropolis", **settings: Any) -> float:
    return zeta(mixing_weights(graph_of(graph, num_tasks, **settings), rule))


def refusal(graph: str, num_tasks: int, base: Path = HERE, **settings: Any) -> str:
    with pytest.raises(InputError) as error:
        graph_of(graph, num_tasks, base, **settings)
    return str(error.value)


# The table of algorithms.md, section 3 --------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "rule", "by_num_tasks"),
    [
        ("full", "metropolis", {4: 0.0, 12: 0.0, 30: 0.0}),
        ("full", "lazy", {4: 0.5, 12: 0.5, 30: 0.5}),
        ("exponential", "metropolis", {4: 0.0, 12: 0.429, 30: 0.636}),
        ("torus", "metropolis", {4: 0.333, 12: 0.600, 30: 0.800}),
        ("grid", "metropolis", {4: 0.333, 12: 0.864, 30: 0.941}),
        ("grid", "uniform", {12: 0.883, 30: 0.946}),
        ("ring", "metropolis", {4: 0.333, 12: 0.911, 30: 0.985}),
        ("hub", "metropolis", {4: 0.750, 12: 0.917, 30: 0.967}),
        ("path", "metropolis", {4: 0.805, 12: 0.977, 30: 0.996}),
        ("hypercube", "metropolis", {4: 0.333, 32: 0.667}),
    ],
)
def test_zeta_is_that_of_the_table(graph: str, rule: str, by_num_tasks: dict[int, float]) -> None:
    assert {m: round(zeta_of(graph, m, rule), 3) for m in by_num_tasks} == pytest.approx(by_num_tasks, abs=1e-12)


@pytest.mark.parametrize(
    ("num_tasks", "probability", "expected"), [(12, 0.3, 0.879), (12, 0.6, 0.609), (30, 0.3, 0.716), (30, 0.6, 0.433)]
)
def test_zeta_of_random_graphs_has_the_median_of_the_table(num_tasks: int, probability: float, expected: float) -> None:
    """Its own sample: the medians of 300 draws scatter with a standard deviation of 0.004 to 0.007."""
    found = [zeta_of("erdos-renyi", num_tasks, probability=probability, graph_seed=seed) for seed in range(300)]
    assert statistics.median(found) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(("probability", "expected"), [(0.3, 0.805), (0.6, 0.750)])
def test_zeta_of_four_random_tasks_exactly(probability: float, expected: float) -> None:
    """All 64 graphs. At p = 0.3 the path has 50.8 % of the connected draws: 0.805; the table's 0.750 is a sample's."""
    pairs = list(itertools.combinations(range(4), 2))
    shares: list[tuple[float, float]] = []
    for chosen in itertools.product([False, True], repeat=6):
        edges = tuple(itertools.compress(pairs, chosen))
        graph = graph_of("edges", 4, edges=edges)
        if len(graph.components) == 1:
            share = probability ** len(edges) * (1.0 - probability) ** (6 - len(edges))
            shares.append((zeta(mixing_weights(graph, "metropolis")), share))
    shares.sort()
    total = list(itertools.accumulate(share for _, share in shares))
    median = next(value for (value, _), so_far in zip(shares, total, strict=True) if so_far >= total[-1] / 2.0)
    assert round(median, 3) == expected


def test_the_graphs_named_by_zeta_have_it() -> None:
    """decisions.md, zeta: the family by zeta."""
    assert round(zeta_of("nearest", 12, neighbors=6), 3) == 0.533
    assert round(zeta_of("nearest", 30, neighbors=6), 3) == 0.914
    assert round(zeta_of("nearest", 30, neighbors=16), 2) == 0.55
    assert 0.45 < zeta_of("regular", 30, degree=9) < 0.56


@pytest.mark.parametrize(("target", "weight"), [(0.5, 0.25), (0.9, 0.05)])
def test_equal_edge_weights_reach_a_zeta_on_the_ring_of_four(target: float, weight: float) -> None:
    """algorithms.md, 3: "edge weights 0.25 and 0.05 give 0.5 and 0.9 on the same graph"."""
    graph = graph_of("ring", 4, weights="zeta", zeta=target)
    assert graph.weights is not None
    assert zeta(graph.weights) == pytest.approx(target, abs=1e-12)
    assert graph.weights[0, 1] == weight
    assert graph.scales(0) == pytest.approx((1.0, weight / (1 - 2 * weight), weight / (1 - 2 * weight)))
    assert zeta(weights_for_zeta(graph_of("grid", 12), target=0.9)) == pytest.approx(0.9)


def test_a_zeta_out_of_reach_is_refused_with_the_least() -> None:
    assert refusal("ring", 12, weights="zeta", zeta=0.5) == (
        "topology.zeta: expected at least 0.8744 on this graph, got 0.5"
    )
    assert zeta(weights_for_zeta(graph_of("ring", 12), 0.875)) == pytest.approx(0.875)
    assert "at least 0.9091 on" in refusal("hub", 12, weights="zeta", zeta=0.5)
    assert "a connected graph" in refusal("edges", 4, edges=((0, 1),), weights="zeta", zeta=0.9)
    assert zeta(weights_for_zeta(graph_of("full", 5), 0.0)) == pytest.approx(0.0, abs=1e-11)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("graph", ["full", "ring", "hub", "path", "exponential", "grid"])
def test_weights_are_symmetric_and_doubly_stochastic(graph: str, rule: str) -> None:
    made = graph_of(graph, 12, weights=rule)
    S = made.weights
    assert S is not None
    assert (S == S.T).all()
    assert S.sum(axis=0) == pytest.approx(np.ones(12))
    assert (np.diagonal(S) > 0.0).all()
    assert {(i, j) for i, j in np.argwhere(S > 0.0).tolist() if i < j} == set(made.edges)
    assert not S.flags.writeable


def test_weights_of_the_path_by_hand() -> None:
    graph = graph_of("path", 3)
    assert mixing_weights(graph, "metropolis") * 3 == pytest.approx(np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]))
    assert zeta(mixing_weights(graph, "lazy")) == pytest.approx((1 + 2 / 3) / 2)
    assert graph.scales(1) == (1.0, 1.0, 1.0)
    assert graph.members(1) == (0, 1, 2)


def test_zeta_of_one_task_and_of_two_parts() -> None:
    assert zeta_of("full", 1) == 0.0
    assert zeta_of("edges", 4, edges=((0, 1), (2, 3))) == 1.0


# Graphs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "num_tasks", "settings", "edges", "diameter", "degrees"),
    [
        ("full", 5, {}, 10, 1, {4}),
        ("ring", 5, {}, 5, 2, {2}),
        ("ring", 2, {}, 1, 1, {1}),
        ("ring", 1, {}, 0, 0, {0}),
        ("nearest", 12, {"neighbors": 4}, 24, 3, {4}),
        ("nearest", 5, {"neighbors": 4}, 10, 1, {4}),
        ("grid", 12, {}, 17, 5, {2, 3, 4}),
        ("grid", 12, {"rows": 2}, 16, 6, {2, 3}),
        ("grid", 5, {"rows": 1}, 4, 4, {1, 2}),
        ("torus", 12, {}, 24, 3, {4}),
        ("torus", 12, {"columns": 2}, 18, 4, {3}),
        ("torus", 4, {}, 4, 2, {2}),
        ("hub", 12, {}, 11, 2, {1, 11}),
        ("path", 12, {}, 11, 11, {1, 2}),
        ("hypercube", 8, {}, 12, 3, {3}),
        ("hypercube", 1, {}, 0, 0, {0}),
        ("exponential", 12, {}, 36, 2, {6}),
        ("exponential", 30, {}, 150, 3, {10}),
        ("regular", 30, {"degree": 4}, 60, None, {4}),
        ("regular", 10, {"degree": 9}, 45, 1, {9}),
        ("regular", 10, {"degree": 8}, 40, 2, {8}),
        ("edges", 4, {"edges": ()}, 0, None, {0}),
        ("edges", 3, {"edges": (("site-2", "site-0"), (1, 2))}, 2, 2, {1, 2}),
    ],
)
def test_a_graph_is_what_its_name_says(
    graph: str, num_tasks: int, settings: dict[str, Any], edges: int, diameter: int | None, degrees: set[int]
) -> None:
    made = graph_of(graph, num_tasks, **settings)
    assert len(made.edges) == edges == sum(made.degrees) / 2
    assert set(made.degrees) == degrees
    assert made.one_way == ()
    assert all(list(row) == sorted(set(row) - {i}) for i, row in enumerate(made.neighbors))
    assert diameter is None or made.diameter == diameter
    assert made.weights is None


def test_neighbors_in_a_grid_and_a_torus() -> None:
    grid, torus = graph_of("grid", 12), graph_of("torus", 12)
    assert (grid.shape, grid.name) == ((3, 4), "grid 3 x 4")
    assert grid.neighbors[0] == (1, 4)
    assert grid.neighbors[5] == (1, 4, 6, 9)
    assert torus.neighbors[0] == (1, 3, 4, 8)


def test_parts_and_directions_of_a_graph_made_by_hand() -> None:
    graph = Graph(((1,), (), (3,), (2,)))
    assert graph.one_way == ((0, 1),)
    assert graph.edges == ((0, 1), (2, 3))
    assert graph.components == ((0, 1), (2, 3))
    assert graph.diameter is None
    assert Graph(((1,), (2,), (0,))).diameter == 2
    assert Graph(((1,), ())).diameter is None


@pytest.mark.parametrize("settings", [{"graph": "regular", "degree": 4}, {"graph": "erdos-renyi", "probability": 0.2}])
def test_a_random_graph_is_a_function_of_its_seed_alone(settings: dict[str, Any]) -> None:
    np.random.seed(1)
    first = make_graph(TopologySettings(**settings), 30, [], HERE)
    np.random.seed(2)
    assert make_graph(TopologySettings(**settings), 30, names_of(30), Path()).digest == first.digest
    assert make_graph(TopologySettings(**settings, graph_seed=1), 30, [], HERE).digest != first.digest
    assert len(first.components) == 1
    written = resolve(TopologySettings(**settings), first)
    assert (written.graph, written.edges) == ("edges", first.edges)
    assert make_graph(written, 30, names_of(30), HERE).digest == first.digest


def test_the_drawn_graphs_are_pinned() -> None:
    """A saved configuration must mean the same graph with tomorrow's networkx; if this fails, say so loudly."""
    assert graph_of("regular", 8, degree=3).edges == (
        (0, 1),
        (0, 2),
        (0, 6),
        (1, 3),
        (1, 4),
        (2, 4),
        (2, 7),
        (3, 5),
        (3, 7),
        (4, 6),
        (5, 6),
        (5, 7),
    )
    assert graph_of("erdos-renyi", 6, probability=0.5).edges == (
        (0, 1),
        (0, 2),
        (1, 3),
        (1, 4),
        (1, 5),
        (2, 3),
        (2, 4),
        (3, 4),
    )


def test_many_tasks() -> None:
    graph = graph_of("regular", 3000, degree=4)
    assert set(graph.degrees) == {4}
    assert len(graph.components) == 1


@pytest.mark.parametrize(
    ("graph", "num_tasks", "settings", "message"),
    [
        ("regular", 7, {"degree": 3}, "topology.degree: expected an even number, as 7 tasks are odd in number, got 3"),
        ("regular", 4, {"degree": 4}, "topology.degree: expected fewer neighbors than the 4 tasks, got 4"),
        ("regular", 4, {"degree": 1}, "topology.degree: expected at least 2, for a graph that is connected, got 1"),
        ("nearest", 4, {"neighbors": 4}, "topology.neighbors: expected fewer neighbors than the 4 tasks, got 4"),
        ("nearest", 9, {"neighbors": 3}, "topology.neighbors: expected an even number, half of them on each side"),
        ("hypercube", 12, {}, "topology.graph: expected another graph: a hypercube needs 2, 4, 8, ... tasks"),
        ("torus", 7, {}, "topology.graph: expected a number of tasks that fill a torus, got 7, a prime number"),
        ("grid", 7, {}, "take graph: path"),
        ("torus", 6, {"rows": 1}, "topology.graph: expected a torus of at least 2 rows and 2 columns, got 1 x 6"),
        ("torus", 3, {}, "got 1 x 3; take another number of tasks, or graph: ring"),
        ("grid", 12, {"rows": 5}, "topology.rows: expected rows * columns of 12, the number of tasks, got 5"),
        ("grid", 12, {"rows": 50}, "topology.rows: expected rows * columns of 12, the number of tasks, got 50"),
        ("grid", 12, {"columns": 50}, "topology.columns: expected rows * columns of 12"),
        ("grid", 12, {"rows": 2, "columns": 5}, "topology.columns: expected rows * columns of 12, the number of tasks"),
        ("ring", 4, {"degree": 3}, "topology.degree: expected no such key with graph: ring, got 3"),
        ("ring", 4, {"graph_seed": 3}, "topology.graph_seed: expected no such key with graph: ring, got 3"),
        ("regular", 4, {}, "topology.degree: expected a value, as graph is regular, got nothing"),
        ("ring", 4, {"weights": "matrix"}, "topology.weights: expected another rule; matrix needs graph: weights"),
        ("ring", 4, {"weights": "zeta"}, "topology.zeta: expected a value, as weights is zeta, got nothing"),
        ("ring", 4, {"zeta": 0.5}, "topology.zeta: expected no such key with weights: mask, got 0.5"),
        ("one-peer-exponential", 4, {"weights": "zeta", "zeta": 0.5}, "topology.weights: expected another rule"),
        ("erdos-renyi", 40, {"probability": 0.001}, "topology.probability: expected a probability that connects 40"),
    ],
)
def test_the_impossible_is_refused(graph: str, num_tasks: int, settings: dict[str, Any], message: str) -> None:
    assert message in refusal(graph, num_tasks, **settings)


def test_all_faults_of_an_edge_list_are_reported_together() -> None:
    edges = ((0, 1), ("site-1", "site-0"), (2, "site-2"), ("side-3", 0), (0, 4))
    assert refusal("edges", 4, edges=edges).splitlines() == [
        "topology.edges[1]: expected each edge once, and topology.edges[0] is this one, got [site-1, site-0]",
        "topology.edges[2]: expected two different tasks, got [2, site-2]; "
        "every task is in its own neighborhood anyway",
        'topology.edges[3]: expected names of tasks, site-0, site-1, site-2, site-3, got "side-3"; '
        'did you mean "site-3"?',
        "topology.edges[4]: expected task numbers from 0 to 3, got 4",
    ]
    assert refusal("edges", 4, edges=((0, 0),) * 11).splitlines()[-1] == "and 3 more"


def test_pairs_are_read_from_lists() -> None:
    assert Pairs().parse([["a", "b"], [0, 1]]) == (("a", "b"), (0, 1))
    assert Pairs().parse([]) == ()
    for wrong in ([["a"]], [["a", "b", "c"]], [["a", 1.5]], [["a", True]], [["a", -1]], [["", "a"]], ["ab"]):
        with pytest.raises(ItemError):
            Pairs().parse(wrong)
    with pytest.raises(ValueError):
        Pairs().parse("a-b")


def test_settings_have_specs_and_the_keys_stand_alone() -> None:
    assert next(iter(settings_of(TopologySettings))) == "graph"
    assert check_settings(TopologySettings(graph="full")) == []
    assert [problem.place for problem in check_settings(TopologySettings(graph="hub", rows=2, file="a.csv"))] == [
        "topology.rows",
        "topology.file",
    ]


# Matrix files ---------------------------------------------------------------------------------------

RING_4 = "0,1,0,1\n1,0,1,0\n0,1,0,1\n1,0,1,0\n"


def test_an_adjacency_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(RING_4)
    np.save(tmp_path / "a.npy", np.loadtxt(tmp_path / "a.csv", delimiter=",", dtype=bool), allow_pickle=False)
    wanted = graph_of("ring", 4).digest
    assert graph_of("adjacency", 4, tmp_path, file="a.csv").digest == wanted
    assert graph_of("adjacency", 4, tmp_path, file="a.npy").digest == wanted
    assert graph_of("adjacency", 4, file=str(tmp_path / "a.csv")).digest == wanted


def test_a_weight_file(tmp_path: Path) -> None:
    S = mixing_weights(graph_of("path", 5), "metropolis")
    np.savetxt(tmp_path / "s.csv", S, delimiter=",", fmt="%.9f")
    graph = graph_of("weights", 5, tmp_path, file="s.csv")
    assert graph.neighbors == graph_of("path", 5).neighbors
    assert graph.weights == pytest.approx(S, abs=1e-8)
    assert graph_of("weights", 5, tmp_path, file="s.csv", weights="mask").digest == graph_of("path", 5).digest


@pytest.mark.parametrize(
    ("graph", "text", "message"),
    [
        ("adjacency", "0,1,0\n1,0,1\n", "m.csv: expected 3 x 3 numbers, a matrix that is square, got 2 x 3"),
        ("adjacency", "0,1\n1,0\n", "m.csv: expected 3 x 3 numbers, a row for each task, got 2 x 2"),
        ("adjacency", "", "m.csv: expected 3 x 3 numbers, a row for each task, got 0 x 0"),
        ("adjacency", "0,1,0\n1,0\n", "m.csv:2: expected 3 numbers, as in the first line, got 2"),
        ("adjacency", "a,b,c\n0,1,0\n", 'm.csv:1, column 1: expected a number, got "a"; the file has no header'),
        ("adjacency", "0,1,1\n1,0,0\n0,0,0\n", "asymmetric, entry (0, 2) is 1 and (2, 0) is 0"),
        ("adjacency", "0,nan,0\n1,0,0\n0,0,0\n", "m.csv: expected finite numbers, got entry (0, 1) is nan"),
        ("adjacency", "0,1,0\n1,0,-1\n0,-1,0\n", "m.csv: expected no negative number, got entry (1, 2) is -1"),
        ("adjacency", "0,.5,0\n.5,0,1\n0,1,0\n", "expected zeros and ones (graph: weights takes others)"),
        ("weights", ".5,.5,0\n.5,0,.5\n0,.5,.5\n", "expected a positive diagonal, as each task counts itself"),
        ("weights", ".5,.5,0\n.5,.2,.2\n0,.2,.8\n", "m.csv: expected rows that sum to 1, got 0.9 in row 1"),
        ("weights", ".5,.5,0\n.4,.2,.4\n0,.4,.6\n", "asymmetric, entry (0, 1) is 0.5 and (1, 0) is 0.4"),
    ],
)
def test_a_matrix_that_cannot_be_a_graph_is_refused(tmp_path: Path, graph: str, text: str, message: str) -> None:
    (tmp_path / "m.csv").write_text(text)
    with pytest.raises(DataError) as error:
        graph_of(graph, 3, tmp_path, file="m.csv")
    assert message in str(error.value)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"\x93NUMPY", b"\xff\xfe\x00"])
@pytest.mark.parametrize("name", ["m.npy", "m.csv"])
def test_a_file_that_is_no_matrix_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError):
        graph_of("adjacency", 3, tmp_path, file=name)


def test_other_arrays_and_missing_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.zeros(3), allow_pickle=False)
    said = refusal("adjacency", 3, tmp_path, file="m.npy")
    assert "expected a matrix of numbers, or several of shape (k, m, m), got float64 of shape (3,)" in said
    assert "expected a matrix file, got No such file" in refusal("adjacency", 3, tmp_path, file="n.csv")


# Schedules ------------------------------------------------------------------------------------------


def one_peer(num_tasks: int, **settings: Any) -> GraphSchedule:
    return make_schedule(TopologySettings(graph="one-peer-exponential", **settings), num_tasks, [], HERE)


def test_one_peer_exponential_on_powers_of_two() -> None:
    """Ying et al. 2021: one cycle of the hypercube's matchings averages exactly."""
    schedule = one_peer(8)
    assert [schedule.at(s).neighbors[5] for s in range(4)] == [(4,), (7,), (1,), (4,)]
    assert schedule.union.edges == graph_of("hypercube", 8).edges
    assert schedule_zeta(schedule, "metropolis") == 0.0


@pytest.mark.parametrize("num_tasks", [1, 2, 3, 5, 6, 7, 12, 30, 31])
def test_one_peer_exponential_has_one_peer_and_joins_all(num_tasks: int) -> None:
    schedule = one_peer(num_tasks)
    assert all(max(graph.degrees) <= 1 and graph.one_way == () for graph in schedule.graphs)
    assert len(schedule.union.components) == 1
    assert set(schedule.union.edges) <= set(graph_of("exponential", num_tasks).edges)
    if num_tasks > 1:
        assert all(graph.edges for graph in schedule.graphs)
        assert schedule_zeta(schedule, "metropolis") < 1.0


def test_one_peer_exponential_for_six_tasks_by_hand() -> None:
    assert [graph.edges for graph in one_peer(6).graphs] == [
        ((0, 1), (2, 3), (4, 5)),
        ((0, 5), (1, 2), (3, 4)),
        ((0, 2), (1, 3)),
        ((2, 4), (3, 5)),
    ]


def test_a_graph_that_stays_is_a_cycle_of_one() -> None:
    schedule = make_schedule(TopologySettings(graph="ring", weights="metropolis"), 5, [], HERE)
    assert schedule.at(0) is schedule.at(17) is schedule.union
    assert schedule.digest != make_schedule(TopologySettings(graph="ring"), 5, [], HERE).digest
    assert [graph.weights is not None for graph in one_peer(4, weights="uniform").graphs] == [True, True]


# Warnings, facts and pictures -----------------------------------------------------------------------


def test_warnings_name_what_will_hurt() -> None:
    parts = graph_of("edges", 5, edges=((0, 1), (2, 3)))
    assert warnings_for(parts, 1, [9] * 5) == [
        "the graph is disconnected: 3 parts, of 2, 2, 1 tasks, that learn nothing of each other"
    ]
    ring = graph_of("ring", 5)
    assert warnings_for(ring, 9, [9] * 5) == []
    assert warnings_for(ring, 10, [9, 10, 11, 3, 10], names_of(5)) == [
        "tau = 10 is longer than the stream of site-0 (9), site-3 (3): such a task ends before its first sync round"
    ]
    assert warnings_for(ring, [1, 1, 1, 4, 1], [3] * 5)[0].startswith("tau is longer than the stream of 3 (3): ")
    assert warnings_for(graph_of("full", 64), 1, [9] * 64) == []
    assert warnings_for(graph_of("full", 65), 1, [9] * 65) == [
        "a full graph of 65 tasks has 2080 connections, 64 sockets in each peer"
    ]
    assert warnings_for(graph_of("hub", 5), 1, [9] * 5, names_of(5)) == [
        "site-0 is a hub: it has all 4 others for neighbors, and all wait when it is late"
    ]
    assert warnings_for(graph_of("path", 3), 1, [9] * 3) == []
    assert warnings_for(Graph(((1,), ())), 1, [9] * 2, ["a", "b"]) == [
        "the graph is asymmetric: a has b for a neighbor, but not the other way round"
    ]


def facts_of(graph: str, num_tasks: int, tau: Any = 5, **settings: Any) -> dict[str, Any]:
    schedule = make_schedule(TopologySettings(graph=graph, **settings), num_tasks, names_of(num_tasks), HERE)
    return topology_facts(schedule, names=names_of(num_tasks), dim=100, tau=tau, stream_lengths=[50] * num_tasks)


def test_facts_of_a_hub_by_hand() -> None:
    facts = json.loads(json.dumps(facts_of("hub", 5)))
    assert facts["bytes_per_sync_round"] == {"min": 800, "mean": 1280, "max": 3200, "total": 6400}
    assert facts["bytes_per_round"] == {"min": 160, "mean": 256, "max": 640, "total": 1280}
    assert facts["degrees"] == {"min": 1, "mean": 1.6, "max": 4}
    assert (facts["edges"], facts["diameter"], facts["zeta_weights"]) == (4, 2, None)
    assert facts["zeta_metropolis"] == pytest.approx(0.8)


def test_facts_with_tau_by_task_and_by_cycle() -> None:
    # A pair exchanges words as often as the one with the larger tau uses them, both ways.
    assert facts_of("ring", 4, [1, 2, 4, 8])["bytes_per_round"]["total"] == 1600 * (1 / 2 + 1 / 4 + 1 / 8 + 1 / 8)
    facts = facts_of("one-peer-exponential", 6)
    assert (facts["graphs_in_cycle"], facts["edges"]) == (4, 10)
    assert facts["bytes_per_sync_round"]["total"] == 800 * (6 + 6 + 4 + 4) / 4


def test_many_tasks_have_no_zeta() -> None:
    facts = facts_of("ring", EXACT_LIMIT + 1)
    assert (facts["exact"], facts["zeta_metropolis"], facts["diameter"]) == (False, None, None)


def test_the_printed_topology(capsys: pytest.CaptureFixture[str]) -> None:
    print_topology(facts_of("hub", 5, weights="lazy"))
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "graph                   hub",
        "scheme                  periodic decentralized, P(S,5)",
        "tasks                   5",
        "edges                   4",
        "degrees                 1 to 4, mean 1.6",
        "diameter                2",
        "zeta, adjacency         0.800 (0/1 with self-loops, normalised)",
        "zeta, Metropolis        0.800",
        "zeta, in use            0.900",
        "tau                     5",
        "d                       100",
        "sent a sync round       800 B to 3.2 kB, mean 1.3 kB by a node; 6.4 kB in all",
        "sent a round, averaged  160 B to 640 B, mean 256 B by a node; 1.3 kB in all",
    ]
    assert err == "warning: site-0 is a hub: it has all 4 others for neighbors, and all wait when it is late\n"


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (facts_of("edges", 3, edges=((0, 1),)), "diameter                none: disconnected"),
        (facts_of("ring", 4, [1, 2, 3, 4]), "tau                     1 to 4, by task"),
        (facts_of("ring", EXACT_LIMIT + 1), "zeta, diameter          not computed for so many tasks"),
        (
            facts_of("one-peer-exponential", 6),
            "graph                   one-peer exponential, a cycle of 4 sync rounds; ",
        ),
    ],
    ids=["disconnected", "tau-by-task", "many", "cycle"],
)
def test_the_printed_topology_of_others(facts: dict[str, Any], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_topology(facts)
    assert line in capsys.readouterr().out


def test_the_title_of_a_picture() -> None:
    assert picture_title("ring-12", facts_of("ring", 12)) == "ring-12: ring, 12 tasks, zeta 0.911"
    assert picture_title("r", facts_of("ring", 12, weights="lazy")) == "r: ring, 12 tasks, zeta 0.955"


@pytest.mark.parametrize(
    ("graph", "num_tasks"),
    [("ring", 1), ("ring", 2), ("hub", 12), ("torus", 12), ("torus", 4), ("full", 30), ("nearest", 61)],
)
def test_a_graph_is_drawn_the_same_each_time(tmp_path: Path, graph: str, num_tasks: int) -> None:
    pytest.importorskip("matplotlib")
    made = graph_of(graph, num_tasks, **({"neighbors": 4} if graph == "nearest" else {}))
    for name in ("a.svg", "b.svg"):
        draw_graph(made, names_of(num_tasks), tmp_path / name, "a $title$")
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert ("site-0" in text) == (num_tasks <= 60)
    assert "a $title$" in text


def test_a_picture_as_png_and_with_weights(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw_graph(graph_of("path", 4, weights="metropolis"), list("0123"), tmp_path / "a.PNG", "")
    assert (tmp_path / "a.PNG").read_bytes().startswith(b"\x89PNG")


def test_pictures_and_random_graphs_say_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"graph\.jpg: expected a name that ends in \.png or \.svg"):
        draw_graph(graph_of("ring", 4), names_of(4), tmp_path / "graph.jpg", "")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"pip install 'drom-net\[plots\]'"):
        draw_graph(graph_of("ring", 4), names_of(4), tmp_path / "graph.png", "")
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(UsageError, match=r"pip install 'drom-net\[graphs\]'"):
        graph_of("regular", 8, degree=3)
    assert graph_of("erdos-renyi", 8, probability=0.5).num_tasks == 8


FILE = """algorithm: {name: drom}
data: {dataset: synthetic}
"""


def test_the_command_needs_a_topology_section(tmp_path: Path) -> None:
    (tmp_path / "star.yaml").write_text(FILE)
    with pytest.raises(UsageError, match=r"star\.yaml has no topology section"):
        topology.main([str(tmp_path / "star.yaml")], standalone_mode=False)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ring.yaml").write_text(
        "algorithm: {name: drom-d, tau: 2}\ntopology: {graph: adjacency, file: a.csv}\n"
        "data: {dataset: synthetic, tasks: 4}\n"
    )
    (tmp_path / "a.csv").write_text(RING_4)
    picture = tmp_path / "ring.svg"
    topology.main([str(tmp_path / "ring.yaml"), "--json", "--draw", str(picture)], standalone_mode=False)
    facts = json.loads(capsys.readouterr().out)
    assert (facts["tasks"], facts["graph"], facts["tau"]) == (4, "adjacency of a.csv", 2)
    assert facts["neighbors"] == [[1, 3], [0, 2], [1, 3], [0, 2]]
    assert facts["bytes_per_round"]["total"] == 8 * 2 * 4 * facts["dim"] / 2
    assert "ring: adjacency of a.csv, 4 tasks, zeta 0.333" in picture.read_text()
    topology.main([str(tmp_path / "ring.yaml")], standalone_mode=False)
    assert capsys.readouterr().out.startswith("graph                   adjacency of a.csv\n")


def test_a_config_error_is_one_of_the_user() -> None:
    with pytest.raises(ConfigError):
        graph_of("hypercube", 3)


def test_several_matrices_in_one_file_are_a_schedule(tmp_path: Path) -> None:
    ring = np.roll(np.eye(4), 1, axis=0) + np.roll(np.eye(4), -1, axis=0)
    pairs = np.kron(np.eye(2), 1.0 - np.eye(2))
    np.save(tmp_path / "m.npy", np.stack([ring, pairs]), allow_pickle=False)
    settings = TopologySettings(graph="adjacency", file="m.npy")
    schedule = make_schedule(settings, 4, ["a", "b", "c", "d"], tmp_path)
    assert [graph.neighbors for graph in schedule.graphs] == [
        ((1, 3), (0, 2), (1, 3), (0, 2)),
        ((1,), (0,), (3,), (2,)),
    ]
    assert schedule.union.neighbors == ((1, 3), (0, 2), (1, 3), (0, 2))
    said = refusal("adjacency", 4, tmp_path, file="m.npy", weights="lazy")
    assert "expected one matrix, as weights that change by sync round are not supported, got 2 matrices" in said
    np.save(tmp_path / "m.npy", np.stack([ring, np.triu(ring)]), allow_pickle=False)
    assert "m.npy[1]: expected a symmetric matrix" in refusal("adjacency", 4, tmp_path, file="m.npy")
    np.save(tmp_path / "m.npy", np.zeros((0, 4, 4)), allow_pickle=False)
    assert "shape (0, 4, 4)" in refusal("adjacency", 4, tmp_path, file="m.npy")


@pytest.mark.parametrize(
    ("graph", "tau", "name"),
    [
        ("full", 1, "fully synchronous, P(J,1)"),
        ("full", 20, "periodic, P(J,20)"),
        ("ring", 5, "periodic decentralized, P(S,5)"),
        ("ring", 1, "decentralized, P(S,1)"),
        ("ring", (1, 2, 3, 4), "periodic decentralized, P(S,tau by task)"),
        ("one-peer-exponential", 2, "periodic decentralized, P(S,2)"),
    ],
)
def test_the_special_cases_have_the_names_of_the_paper(graph: str, tau: int | tuple[int, ...], name: str) -> None:
    schedule = make_schedule(TopologySettings(graph=graph), 4, [], HERE)
    assert scheme(schedule, tau) == name
    nobody = make_schedule(TopologySettings(graph="edges", edges=()), 4, [], HERE)
    assert scheme(nobody, 1) == "independent tasks, P(I,1)"


def test_of_unequal_taus_bytes_are_those_of_the_words_that_are_used() -> None:
    facts = topology_facts(
        make_schedule(TopologySettings(graph="path"), 3, [], HERE),
        names=["a", "b", "c"],
        dim=10,
        tau=(1, 4, 2),
        stream_lengths=[40] * 3,
    )
    assert facts["bytes_per_round"]["total"] == 4 * 80.0 / 4  # each pair at the slower one's interval
