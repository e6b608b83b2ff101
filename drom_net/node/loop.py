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

_TICK_EVERY_S = 0.25


class Transport(Protocol):
    """What the loop needs of a socket."""

    dim: int
    """How many float64 a vector has."""
    max_vectors: int
    """How many vectors a message may have."""
    bytes_sent: int
    bytes_received: int

    def send(self, address: str, frames: Frames) -> None: ...
    def receive(self, timeout_s: float) -> tuple[str, list[bytes]] | None: ...
    def connection_changes(self) -> list[tuple[str, bool]]: ...
    def take_warnings(self) -> list[str]: ...
    @property
    def unsettled(self) -> bool:
        """Whether the message that came last may be from one whose connection was told as lost, and is up again."""


class Host:
    """What surrounds a node. This one has no disk, no log, no other input, and nobody has a key."""

    gate: Callable[[str, Message], str] | None = None
    """(sender, message) -> why the sender may not say this, empty when it may; None where all may."""
    has_input = False
    """Whether there is anything for `poll_input` to take."""

    def on_event(self, event: Event) -> None:
        """Something has happened in the node or at its socket."""

    def on_tick(self) -> bool:
        """Save records and tell how it goes: called several times a second, between two rounds. True ends the node."""
        return False

    def persist(self, now: float) -> bool:
        """See to the node's snapshots: called after every call on the node, before what it says is sent.

        Returns:
            Whether the node was asked for one, or told that one is safe: its timers may be others then.
        """
        return False

    def poll_input(self) -> bool:
        """Take what has come from elsewhere (`node.live`); whether there was anything.

        Called again and again. What it waits for also ends a wait of the transport.
        """
        return False


def drive(node: Node, transport: Transport, host: Host) -> bool:
    """Run a node until it has finished, or its host ends it.

    Returns:
        Whether it finished by itself. Whatever the node raises goes through, after its last messages were sent.
    """
    clock, has_input = time.monotonic, host.has_input
    now = tick_at = clock()
    due: float | None = None
    """The node's next timer; None where it has to be asked for it."""
    waited = False
    """The transport has waited, and nothing came."""
    persisted = True
    """What the node says follows from what is on the disk."""
    poll_at = -math.inf
    """Until then the node works, if there is anything to do: as long as input was taken before."""
    try:
        node.start(now)
        while True:
            if has_input and (waited or now >= poll_at or clock() >= poll_at) and host.poll_input():
                due = None
                began, now = now, clock()
                poll_at = now + (now - began)
            elif waited:
                tick_at = now
            if now >= tick_at:  # also in a busy stretch, but not in each of its rounds
                due, tick_at = None, now + _TICK_EVERY_S
                # Before timers: who was suspended must not give up what has been connected again meanwhile.
                _tell_connections(node, transport, host, now)
                if host.on_tick():
                    node.stop()
                    return False
            if due is None:
                due = node.next_timer()
            if due <= now:
                node.on_timer(now)
                due, now = None, clock()
                node.busy_until(now)
            persisted = False
            if host.persist(now):
                due = None
            persisted = True
            flush(node, transport, host)
            if node.finished:
                return True
            if due is None:
                due = node.next_timer()
            may_wait = due > now
            received = transport.receive(due - now) if may_wait else None
            waited = may_wait and received is None
            now = clock()
            if received is not None:
                _pass_on(received, node, transport, host, now)
                due = None
    finally:
        if not persisted:
            node.take_outbox()  # it follows from what could not be persisted
        flush(node, transport, host)


def _pass_on(received: tuple[str, list[bytes]], node: Node, transport: Transport, host: Host, now: float) -> None:
    """Give the node a message, unless its sender may not say that."""
    sender, frames = received
    try:
        message = decode(frames, dim=transport.dim, max_vectors=transport.max_vectors)
    except RemoteError as error:
        host.on_event(Refused(sender, str(error)))
        return
    if host.gate is not None and (why_not := host.gate(sender, message)):
        host.on_event(Refused(sender, why_not))
        if isinstance(message, Hello):
            transport.send(sender, encode(Reject(why_not)))
        return
    if isinstance(message, Hello) or transport.unsettled:
        # A Hello may come from who takes the place of another: that one's connection was lost before. And who speaks
        # again must not be given up because nobody has told yet that it is there.
        _tell_connections(node, transport, host, now)
    node.receive(sender, message, now)


def _tell_connections(node: Node, transport: Transport, host: Host, now: float) -> None:
    for address, connected in transport.connection_changes():
        node.on_connection(address, connected, now)
    for text in transport.take_warnings():
        host.on_event(Warned(text))


def flush(node: Node, transport: Transport, host: Host) -> None:
    """Send what the node has to say, and pass on what happened in it."""
    outbox = node.take_outbox()
    if outbox:
        encoded, frames = None, []
        ready = []  # all are sent at once: the thread that moves the bytes is woken less often
        for address, message in outbox:
            if message is not encoded:  # one contribution goes to several neighbors
                encoded, frames = message, encode(message)
            ready.append((address, frames))
        for address, frames in ready:
            transport.send(address, frames)
    for event in node.take_events():
        host.on_event(event)
