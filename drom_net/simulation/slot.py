"""What the simulator keeps of one node, and what a node has done in all."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from drom_net.protocol.codec import Frames
from drom_net.protocol.node import Node

MakeNode = Callable[[int, int, object | None], Node]
"""(node, incarnation, snapshot) -> a node that was not started; without a snapshot from the beginning."""


@dataclass(slots=True)
class NodeTotals:
    """What a node did, all incarnations together."""

    central_s: float = 0.0
    """It was busy with central steps."""
    finished_at_s: float = math.inf
    messages_sent: int = 0
    messages_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    lost: int = 0
    """Messages to this node that the network lost, or that came while it was down."""
    doubled: int = 0
    """Messages to this node that the network doubled."""
    crashes: int = 0


@dataclass(slots=True, eq=False)
class Slot:
    """A node's place: it outlives the node."""

    index: int
    node: Any = None
    """The node (of any kind: `round` and `central_steps` are looked up where they exist); None while it is down."""
    finished: bool = False
    incarnation: int = 0
    """Also counted up by a crash, so that what was on its way is not delivered."""
    version: int = 0
    """Of the one alarm in the queue that counts."""
    alarm_at: float = math.inf
    occupied: bool = False
    """It makes a central step, or is paused: until `free_at` no call is made."""
    busy_from: float = 0.0
    free_at: float = 0.0
    inbox: deque[tuple[float, str, Frames | bool]] = field(default_factory=deque)
    """What came while it was occupied, and when."""
    counts_steps: bool = False
    steps: int = 0
    factor: float = 1.0
    snapshot: object | None = None
    keeping: object | None = None
    """A snapshot that is on its way to the disk."""
    routes: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    """By the address it uses: the node, this one's address there, and which incarnation of that node has opened the
    connection (-1: this node has)."""
    totals: NodeTotals = field(default_factory=NodeTotals)


def size_until(rows: bytearray, types: npt.DTypeLike, t: int) -> int:
    """How many bytes the rows up to a round have."""
    table = np.frombuffer(bytes(rows), dtype=types)
    return int(table["round"].searchsorted(t, side="right")) * table.itemsize
