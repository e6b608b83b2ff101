"""Who hears whom along a tree of a graph."""

from __future__ import annotations

import pytest
from helpers import random_streams, run_loop

from drom_net.algorithms.adadrom.learner import AdaDROMParameters, adadrom
from drom_net.graph.graph import Graph
from drom_net.graph.neighborhood import spanning_tree

IN_PARTS = Graph(((1,), (0,), (3,), (2,), ()))
"""Two edges that nothing joins, and a task alone."""


def test_a_graph_in_parts_has_a_tree_for_each() -> None:
    assert spanning_tree(IN_PARTS) == [(1,), (0,), (3,), (2,), ()]


@pytest.mark.parametrize("robust", [False, True])
def test_every_part_shares(robust: bool) -> None:
    streams = random_streams([40] * 5, flip=0.1)
    algorithm = adadrom(AdaDROMParameters(tau=1, robust=robust))
    joined = run_loop(algorithm, streams, IN_PARTS, seed=0)
    apart = run_loop(algorithm, streams, Graph(((1,), (0,), (), (), ())), seed=0)
    differ = [one != other for one, other in zip(joined.task_records, apart.task_records, strict=True)]
    assert differ == [False, False, True, True, False]
