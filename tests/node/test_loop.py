"""The loop around a node: in which order it tells it what has happened."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from drom_net.node.loop import Host, drive
from drom_net.protocol.codec import encode
from drom_net.protocol.messages import GoodbyeAck
from drom_net.protocol.node import Envelope


def test_who_speaks_again_is_told_of_before_its_message() -> None:
    """Else a node whose bound for a lost connection is over just then would give up one that is there."""
    calls: list[str] = []

    def note(what: str) -> Any:
        return lambda *_: calls.append(what)

    def receive(*_: Any) -> None:
        calls.append("message")
        node.finished = True

    node: Any = SimpleNamespace(
        finished=False,
        start=note("start"),
        receive=receive,
        on_timer=note("timer"),
        busy_until=lambda now: None,
        next_timer=lambda: math.inf,
        on_connection=lambda address, connected, now: calls.append(f"{address} {connected}"),
        take_outbox=list,
        take_events=list,
    )
    changes: list[tuple[str, bool]] = []

    def frames(_: float) -> tuple[str, list[bytes]]:
        changes.append(("a", True))
        return "a", [bytes(frame) for frame in encode(GoodbyeAck())]

    class Transport:
        dim = max_vectors = 1
        bytes_sent = bytes_received = 0
        receive = staticmethod(frames)
        send = staticmethod(note("send"))
        take_warnings = staticmethod(list)

        @property
        def unsettled(self) -> bool:
            return bool(changes)

        def connection_changes(self) -> list[tuple[str, bool]]:
            taken, changes[:] = list(changes), []
            return taken

    assert drive(node, Transport(), Host())
    assert calls == ["start", "a True", "message"]


def test_what_comes_from_elsewhere_is_taken_before_the_node_waits_and_lets_it_begin() -> None:
    """A live source: an example that has come is learned at once, though the node had nothing to do before."""
    calls: list[str] = []
    ready = [math.inf]

    class Live(Host):
        has_input = True

        def poll_input(self) -> bool:
            if calls.count("wait") == 1 and ready[0] == math.inf:
                calls.append("example")
                ready[0] = -math.inf
                return True
            return False

        def on_tick(self) -> bool:
            ticks.append(len(calls))
            return False

    def on_timer(now: float) -> None:
        calls.append("round")
        node.finished = True

    node: Any = SimpleNamespace(
        finished=False,
        start=lambda now: None,
        on_timer=on_timer,
        busy_until=lambda now: None,
        next_timer=lambda: ready[0],
        take_outbox=list,
        take_events=list,
    )
    ticks: list[int] = []

    class Transport:
        dim = max_vectors = 1
        bytes_sent = bytes_received = 0
        unsettled = False
        take_warnings = staticmethod(list)
        connection_changes = staticmethod(list)

        def receive(self, timeout_s: float) -> None:
            calls.append("wait")

        def send(self, address: str, frames: Any) -> None:
            raise AssertionError("it has nothing to say")

    assert drive(node, Transport(), Live())
    assert calls == ["wait", "example", "round"]
    assert ticks == [0], "a wait that something has ended is no reason to look around"


def test_what_follows_from_what_could_not_be_kept_is_not_said() -> None:
    """A decision that is not on the disk may be another one after a restart: nobody must have heard of it."""
    said: list[str] = []
    outbox = [Envelope("a", GoodbyeAck())]

    class Full(Host):
        def persist(self, now: float) -> bool:
            raise OSError(28, "No space left on device")

    def take_outbox() -> list[Envelope]:
        taken, outbox[:] = list(outbox), []
        return taken

    node: Any = SimpleNamespace(
        finished=False,
        start=lambda now: None,
        next_timer=lambda: math.inf,
        take_outbox=take_outbox,
        take_events=list,
    )
    transport: Any = SimpleNamespace(
        send=lambda address, frames: said.append(address), connection_changes=list, take_warnings=list, unsettled=False
    )
    with pytest.raises(OSError, match="No space left"):
        drive(node, transport, Full())
    assert not said and not outbox


def test_a_node_that_has_held_until_its_snapshot_is_safe_goes_on_at_once() -> None:
    """Its timers are others then: it must not wait for a message first."""
    due = [math.inf]

    class Disk(Host):
        def persist(self, now: float) -> bool:
            kept, due[0] = due[0] == math.inf, -math.inf
            return kept

    def on_timer(now: float) -> None:
        node.finished = True

    def receive(timeout_s: float) -> None:
        raise AssertionError("it has something to do")

    node: Any = SimpleNamespace(
        finished=False,
        start=lambda now: None,
        on_timer=on_timer,
        busy_until=lambda now: None,
        next_timer=lambda: due[0],
        take_outbox=list,
        take_events=list,
    )
    transport: Any = SimpleNamespace(receive=receive, connection_changes=list, take_warnings=list)
    assert drive(node, transport, Disk())


def test_a_node_is_asked_once_a_message_for_its_timer() -> None:
    """The loop is run through for each message: what did not change is not asked for again."""
    calls: list[str] = []

    def receive(*_: Any) -> None:
        calls.append("message")
        node.finished = calls.count("message") == 5

    def next_timer() -> float:
        calls.append("timer")
        return math.inf

    node: Any = SimpleNamespace(
        finished=False,
        start=lambda now: None,
        receive=receive,
        next_timer=next_timer,
        take_outbox=list,
        take_events=list,
    )
    frames = [bytes(frame) for frame in encode(GoodbyeAck())]
    transport: Any = SimpleNamespace(
        dim=1,
        max_vectors=1,
        receive=lambda _: ("a", frames),
        connection_changes=list,
        take_warnings=list,
        unsettled=False,
    )
    assert drive(node, transport, Host())
    assert calls == ["timer", "message"] * 5 + ["timer"]
