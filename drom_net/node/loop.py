"""Drive one node on real sockets: receive, fire timers, send; one thread, and nothing else than waiting."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

from drom_net.core.errors import RemoteError
from drom_net.protocol.codec import Frames, decode, encode
from drom_net.protocol.messages import Hello, Message, Reject
from drom_net.protocol.node import Event, Node, Refused, Warned

_LOOK_EVERY_S = 0.25


class Transport(Protocol):
    """What the loop needs of a socket."""

    bytes_sent: int
    bytes_received: int

    def send(self, address: str, frames: Frames) -> None: ...
    def receive(self, timeout_s: float) -> tuple[str, list[bytes]] | None: ...
    def connection_changes(self) -> list[tuple[str, bool]]: ...
    def take_warnings(self) -> list[str]: ...
    @property
    def unsettled(self) -> bool:
        """Whether the message that came last may be from one whose connection was told as lost, and is up again."""


def let_all_pass(sender: str, message: Message) -> str:
    """The gate where nobody has a key."""
    return ""


def drive(
    node: Node,
    transport: Transport,
    *,
    dim: int,
    max_vectors: int,
    on_event: Callable[[Event], None],
    look: Callable[[], bool],
    keep: Callable[[float], None] = lambda now: None,
    serve: Callable[[], bool] = lambda: False,
    gate: Callable[[str, Message], str] = let_all_pass,
) -> bool:
    """Run a node until it has finished.

    Args:
        dim: How many float64 a vector has.
        max_vectors: How many vectors a message to this node may carry.
        look: Called several times a second, between two rounds; it saves records and tells how it goes. True
            ends the node.
        keep: Called with the time after every call on the node, before what it says is sent: sees to its snapshots.
        serve: Called again and again: takes what has come from elsewhere (`node.live`); whether there was
            anything. What it waits for also ends a wait of the transport.
        gate: Why a sender may not say a message; empty when it may.

    Returns:
        Whether it finished by itself. Whatever the node raises goes through, after its last messages were sent.
    """
    clock = time.monotonic
    now = look_at = clock()
    due = -math.inf
    """A lower bound of the node's next timer."""
    kept = True
    in_vain = False
    """The transport has waited, and nothing came."""
    serve_at = -math.inf
    """Until then the node works, if there is anything to do: as long as it has served before."""
    try:
        node.start(now)
        while True:
            if (in_vain or now >= serve_at or clock() >= serve_at) and serve():
                due = -math.inf
                began, now = now, clock()
                serve_at = now + (now - began)
            elif in_vain:
                look_at = now
            in_vain = False
            if now >= look_at:  # also in a busy stretch, but not in each of its rounds
                look_at = now + _LOOK_EVERY_S
                # Before timers: who was suspended must not give up what has been connected again meanwhile.
                _tell_connections(node, transport, on_event, now)
                if look():
                    node.stop()
                    return False
                due = -math.inf
            if due <= now and node.next_timer() <= now:
                node.on_timer(now)
                now = clock()
                node.took_until(now)
            kept = False
            keep(now)
            kept = True
            flush(node, transport, on_event)
            if node.finished:
                return True
            due = node.next_timer()
            if due <= now:
                now = clock()
                continue
            received = transport.receive(due - now)
            now = clock()
            if received is None:
                in_vain = True
                continue
            sender, frames = received
            try:
                message = decode(frames, dim=dim, max_vectors=max_vectors)
            except RemoteError as error:
                on_event(Refused(sender, str(error)))
                continue
            if why_not := gate(sender, message):
                on_event(Refused(sender, why_not))
                if isinstance(message, Hello):
                    transport.send(sender, encode(Reject(why_not)))
                continue
            if isinstance(message, Hello) or transport.unsettled:
                # A Hello may come from who takes the place of another: that one's connection was lost before. And who
                # speaks again must not be given up because nobody has told yet that it is there.
                _tell_connections(node, transport, on_event, now)
            node.receive(sender, message, now)
            due = -math.inf
    finally:
        if not kept:
            node.take_outbox()  # it follows from what could not be kept
        flush(node, transport, on_event)


def _tell_connections(node: Node, transport: Transport, on_event: Callable[[Event], None], now: float) -> None:
    for address, connected in transport.connection_changes():
        node.on_connection(address, connected, now)
    for text in transport.take_warnings():
        on_event(Warned(text))


def flush(node: Node, transport: Transport, on_event: Callable[[Event], None]) -> None:
    """Send what the node has to say, and pass on what happened in it."""
    encoded, frames = None, []
    for address, message in node.take_outbox():
        if message is not encoded:  # one word goes to several neighbors
            encoded, frames = message, encode(message)
        transport.send(address, frames)
    for event in node.take_events():
        on_event(event)
