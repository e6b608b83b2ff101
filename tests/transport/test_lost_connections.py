"""Connections that are lost, doubled and taken over: on real sockets, some in a process of their own, as it may die."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest
from processes import DEADLINE_S, PATIENCE
from strangers import greeting, message, ready

from drom_net.protocol.node import REDUCER
from drom_net.protocol.settings import Timeouts
from drom_net.transport.base import SLICE_S, hang_up
from drom_net.transport.dealer import DealerTransport
from drom_net.transport.router import RouterTransport

pytestmark = pytest.mark.process

DIM = 7
SELDOM = Timeouts()
OFTEN = Timeouts(heartbeat_s=0.05)
TRIES = round(600 * PATIENCE)
"""Receives that may be empty before a test fails; of SLICE_S each, so a minute."""
PING = b"\4\7\4PING\0\0"


def listen(timeouts: Timeouts = SELDOM) -> RouterTransport:
    return RouterTransport("tcp://127.0.0.1:*", dim=DIM, max_vectors=1, timeouts=timeouts)


def connect(router: RouterTransport) -> DealerTransport:
    return DealerTransport(router.endpoint, "site", dim=DIM, max_vectors=1, timeouts=SELDOM)


def raw(router: RouterTransport, routing_id: bytes) -> socket.socket:
    """A connection of a stranger, after the handshake."""
    connection = socket.create_connection(("127.0.0.1", int(router.endpoint.rpartition(":")[2])), timeout=DEADLINE_S)
    connection.sendall(greeting() + ready(routing_id))
    heard = b""
    while b"READY" not in heard:
        heard += connection.recv(1000)
    return connection


def get(router: RouterTransport) -> tuple[str, list[bytes]]:
    for _ in range(TRIES):
        if (received := router.receive(SLICE_S)) is not None:
            return received
    raise AssertionError("no message came")


def until(condition: Callable[[], bool], *transports: RouterTransport | DealerTransport) -> None:
    for _ in range(TRIES):
        for transport in transports:
            transport.receive(SLICE_S)
        if condition():
            return
    raise AssertionError("it did not come to that")


# Where libzmq 4.3 would end the process: "Assertion failed: !_io_error"


def full_queue(router: RouterTransport) -> None:
    """More than anybody reads, with pings between; then the connection is lost."""
    with raw(router, b"x") as stranger:
        stranger.sendall((message([b"word"]) + PING) * 20_000)


def taken_over(router: RouterTransport) -> None:
    """A second connection of the same name; then something more on the first, and that is lost."""
    with raw(router, b"x") as first, raw(router, b"x") as second:
        first.sendall(message([b"1"]))
        get(router)
        second.sendall(message([b"2"]) * 3)
        until(lambda: True, router)
        first.sendall(message([b"3"]) * 3)
        until(lambda: True, router)


ATTACKS = {"full queue": full_queue, "taken over": taken_over}


@pytest.mark.parametrize("attack", ATTACKS)
def test_accident_32_a_lost_connection_ends_no_process(attack: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, attack]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE_S)
    assert (done.returncode, done.stderr) == (0, "")
    before, after = map(int, done.stdout.split())
    assert after == before, "descriptors are still open"


def under(attack: Callable[[RouterTransport], None]) -> None:
    """What that process does: live through an attack and many heartbeats, and still hear who was there before."""
    with listen(OFTEN) as router, connect(router) as dealer:
        router.is_member = lambda address: address.startswith("site")
        dealer.send(REDUCER, [b"here"])
        get(router)
        before = len(os.listdir("/proc/self/fd"))
        attack(router)
        heartbeats = 0
        while heartbeats < 10:
            heartbeats += router.receive(SLICE_S) is None
        dealer.send(REDUCER, [b"still here"])
        while get(router)[1] != [b"still here"]:
            pass
        print(before, len(os.listdir("/proc/self/fd")))


# Each connection has a routing id of its own


def test_whoever_connects_anew_keeps_its_address() -> None:
    with listen() as router, connect(router) as dealer:
        dealer.send(REDUCER, [b"1"])
        address, _ = get(router)
        for word in (b"2", b"3"):
            hang_up(router._fd_of[address])
            changes: list[tuple[str, bool]] = []
            until(lambda changes=changes: changes.extend(dealer.connection_changes()) or len(changes) > 1, dealer)
            assert changes == [(REDUCER, False), (REDUCER, True)]
            dealer.send(REDUCER, [word])
            assert get(router) == (address, [word])
            router.send(address, [b"answer"])
            until(lambda: dealer.receive(SLICE_S) == (REDUCER, [b"answer"]))
        assert [up for who, up in router.connection_changes() if who == address][-1] is True


def test_a_connection_that_another_took_the_place_of_is_closed_and_heard_no_more() -> None:
    """As when a network that was cut delivers at last what was said on the old connection."""
    token = secrets.token_hex(8)
    with listen() as router:
        router.is_member = lambda address: address == f"site/{token}"
        with raw(router, f"site/{token}/1".encode()) as first, raw(router, f"site/{token}/2".encode()) as second:
            first.sendall(message([b"1"]))
            assert get(router) == (f"site/{token}", [b"1"])
            second.sendall(message([b"2"]))
            assert get(router) == (f"site/{token}", [b"2"])
            with contextlib.suppress(ConnectionError):
                while first.recv(1000):  # it is closed
                    pass
            router.connection_changes()
            router.send(f"site/{token}", [b"answer"])
            heard = b""
            while b"answer" not in heard:
                heard += second.recv(1000)
            second.sendall(message([b"3"]))
            assert get(router) == (f"site/{token}", [b"3"])
        until(lambda: (f"site/{token}", False) in router.connection_changes(), router)


def test_a_stranger_does_not_get_the_place_of_another_by_its_name() -> None:
    """A name without a number is a connection of its own; without the random part nobody can be taken for a member."""
    with listen() as router, connect(router) as dealer:
        dealer.send(REDUCER, [b"1"])
        address, _ = get(router)
        with raw(router, b"site/9") as stranger, raw(router, b"peer-0") as another:
            stranger.sendall(message([b"2"]))
            assert get(router) == ("site", [b"2"])
            another.sendall(message([b"3"]))
            assert get(router) == ("peer-0", [b"3"])
        dealer.send(REDUCER, [b"4"])
        assert get(router) == (address, [b"4"])


def test_peers_connect_anew_too() -> None:
    with listen() as lower, listen() as higher:
        higher.connect("peer-0", lower.endpoint)
        until(lambda: "peer-0" not in higher._fd_of, higher)
        higher.send("peer-0", [b"1"])
        address, words = get(lower)
        assert words == [b"1"]
        lower.send(address, [b"2"])
        assert get(higher) == ("peer-0", [b"2"])
        hang_up(lower._fd_of[address])
        changes: list[tuple[str, bool]] = []
        until(lambda: changes.extend(higher.connection_changes()) or ("peer-0", False) in changes, higher)
        for _ in range(TRIES):
            higher.send("peer-0", [b"3"])  # until the connection is there again
            if (received := lower.receive(SLICE_S)) is not None:
                break
        assert received == (address, [b"3"])
        lower.send(address, [b"4"])
        assert get(higher) == ("peer-0", [b"4"])


if __name__ == "__main__":
    under(ATTACKS[sys.argv[1]])
