"""Who is connected to whom: a star, or the edges of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drom_net.protocol.node import REDUCER
from drom_net.protocol.session import address_of

Wiring = Sequence[Mapping[str, int]]
"""For each node those that it connects to: by the address that it uses, the node's number."""


def star_wiring(num_workers: int) -> list[dict[str, int]]:
    """Workers are the nodes from 0 on; the reducer is the last."""
    return [{REDUCER: num_workers} for _ in range(num_workers)] + [{}]


def peers_wiring(neighbors: Sequence[Sequence[int]]) -> list[dict[str, int]]:
    """Peers are the nodes in task order; each connects to its neighbors before it."""
    return [{address_of(other): other for other in row if other < task} for task, row in enumerate(neighbors)]


def incoming(node: int, incarnation: int) -> str:
    """Where a node that has connected speaks from; it connects anew when it is restarted."""
    return f"in-{node}/{incarnation}"
