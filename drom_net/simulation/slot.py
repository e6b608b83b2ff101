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
from drom_net.protocol.node import REDUCER, Node

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
    records: bytearray = field(default_factory=bytearray)
    """What the node recorded, complete when it has finished: as `take_records` gives it."""
    central_records: bytearray = field(default_factory=bytearray)
    """A peer's own central steps."""
    times: bytearray = field(default_factory=bytearray)
    """When it said its words and waited, as `take_times` gives it."""

    def take_records(self) -> None:
        """Keep what the node has recorded."""
        self.records += self.node.take_records()
        self.times += self.node.take_times()
        if hasattr(self.node, "take_central_records"):
            self.central_records += self.node.take_central_records()

    def take_back(self) -> bytes:
        """Cut off what was recorded after the snapshot, as the node, made again, will make it again.

        Returns:
            Its times since the row before.
        """
        taken_back = b""
        kept = {"records": self.records, "central": self.central_records, "times": self.times}
        for name, types in self.node.row_types.items():
            t = -1 if self.snapshot is None else self.node.recorded[name]
            kept_bytes = size_until(kept[name], types, t)
            if name == "times":
                taken_back = bytes(kept[name][max(0, kept_bytes - types.itemsize) :])
            del kept[name][kept_bytes:]
        return taken_back

    def in_words(self) -> str:
        """What the node does, for a message."""
        if self.node is None:
            return "is down"
        whom = self.node._waiting_for() if hasattr(self.node, "_waiting_for") else REDUCER
        return f"is {self.node.state.value} in round {getattr(self.node, 'round', '-')} and waits for {whom}"


def size_until(rows: bytearray, types: npt.DTypeLike, t: int) -> int:
    """How many bytes the rows up to a round have."""
    table = np.frombuffer(bytes(rows), dtype=types)
    return int(table["round"].searchsorted(t, side="right")) * table.itemsize
