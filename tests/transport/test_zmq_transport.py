"""Real sockets: what arrives, who is there, who is gone; and that nothing stays behind."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import PATIENCE

from drom_net.core.errors import ClusterError, UsageError
from drom_net.protocol.codec import HEADER_LIMIT_BYTES
from drom_net.protocol.node import REDUCER
from drom_net.protocol.settings import Timeouts
from drom_net.transport import base, router
from drom_net.transport.base import SLICE_S
from drom_net.transport.dealer import DealerTransport
from drom_net.transport.router import RouterTransport

pytestmark = pytest.mark.process

DIM = 7
TIMES = Timeouts()
FEW = Timeouts(heartbeat_s=0.5)
"""So short that some seconds see many heartbeats."""
TRIES = round(600 * PATIENCE)
"""Receives that may be empty before a test fails; of SLICE_S each, so a minute."""

Transport = RouterTransport | DealerTransport


@pytest.fixture(params=["tcp", "ipc"])
def bind(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where to listen."""
    return "tcp://127.0.0.1:*" if request.param == "tcp" else f"ipc://{tmp_path}/meet"


def listen(bind: str, timeouts: Timeouts = TIMES) -> RouterTransport:
    return RouterTransport(bind, dim=DIM, max_vectors=1, timeouts=timeouts)


def connect(router: RouterTransport, name: str = "site", *, timeouts: Timeouts = TIMES) -> DealerTransport:
    return DealerTransport(router.endpoint, name, dim=DIM, max_vectors=1, timeouts=timeouts)


def get(transport: Transport) -> tuple[str, list[bytes]]:
    """The next message."""
    for _ in range(TRIES):
        received = transport.receive(SLICE_S)
        if received is not None:
            return received
    raise AssertionError("no message came")


def changes_until(transport: Transport, *wanted: tuple[str, bool]) -> list[tuple[str, bool]]:
    """All changes of connections up to the one that makes `wanted` complete; no message comes meanwhile."""
    changes: list[tuple[str, bool]] = []
    for _ in range(TRIES):
        changes += transport.connection_changes()
        if all(change in changes for change in wanted):
            return changes
        assert transport.receive(SLICE_S) is None
    raise AssertionError(f"only these changes came: {changes}")


def until(condition: Callable[[], bool]) -> None:
    """Let other threads run until it is so."""
    give_up_at = time.monotonic() + TRIES * SLICE_S
    while not condition():
        assert time.monotonic() < give_up_at
        os.sched_yield()


def met(router: RouterTransport, dealer: DealerTransport) -> str:
    """The address of a dealer that has just come; its first message is read."""
    word = secrets.token_bytes(8)
    dealer.send(REDUCER, [word])
    address, frames = get(router)
    assert frames == [word]
    return address


# Messages


def test_a_message_travels_both_ways_and_its_bytes_are_counted(bind: str) -> None:
    with listen(bind) as router, connect(router, "site-0") as one, connect(router, "site-1") as two:
        one.send(REDUCER, [b"abc", memoryview(bytearray(24)).cast("d")])
        first, frames = get(router)
        assert (first.partition("/")[0], frames) == ("site-0", [b"abc", bytes(24)])
        two.send(REDUCER, [b"hello"])
        second, frames = get(router)
        assert (second.partition("/")[0], frames) == ("site-1", [b"hello"])
        assert all(type(frame) is bytes for frame in frames)

        router.send(first, [b"to one", memoryview(bytearray(8)).cast("d")])
        router.send(second, [b"two"])
        router.send(second, [b"two", b""])
        assert get(one) == (REDUCER, [b"to one", bytes(8)])
        assert get(two) == (REDUCER, [b"two"])
        assert get(two) == (REDUCER, [b"two", b""])
        assert one.receive(0.0) is None

        assert (one.bytes_sent, one.bytes_received) == (27, 14)
        assert (two.bytes_sent, two.bytes_received) == (5, 6)
        assert (router.bytes_sent, router.bytes_received) == (20, 32)
        tasks = {first: 3, second: 4}
        assert router.bytes_by_peer(tasks.get) == {3: (27, 14), 4: (5, 6)}
        assert router.bytes_by_peer(lambda address: {first: 0}.get(address)) == {0: (27, 14)}


def test_messages_of_one_sender_keep_their_order(bind: str) -> None:
    with listen(bind) as router, connect(router) as dealer:
        for number in range(200):
            dealer.send(REDUCER, [b"%d" % number, bytes(number % 50)])
        for number in range(200):
            assert get(router)[1] == [b"%d" % number, bytes(number % 50)]


@pytest.mark.parametrize("timeout_s", [-1.0, 0.0, 0.0001, 0.02, SLICE_S, 1e9])
def test_without_a_message_a_receive_ends_soon(bind: str, timeout_s: float) -> None:
    with listen(bind) as router, connect(router) as dealer:
        met(router, dealer)
        assert router.receive(timeout_s) is None
        assert dealer.receive(timeout_s) is None


def test_two_dealers_of_one_name_are_two(bind: str) -> None:
    with listen(bind) as router, connect(router, "twin") as one, connect(router, "twin") as two:
        addresses = [met(router, dealer) for dealer in (one, two)]
        assert len(set(addresses)) == 2
        router.send(addresses[1], [b"two"])
        assert get(two) == (REDUCER, [b"two"])
        assert one.receive(0.0) is None


def test_to_an_address_that_nobody_has_sending_is_harmless(bind: str) -> None:
    with listen(bind) as router, connect(router) as dealer:
        address = met(router, dealer)
        router.send("nobody/0123456789abcdef", [b"are you there?", bytes(24)])
        router.send("\udcff\udc80 ü", [b"and you?"])
        assert (router.bytes_sent, router.connection_changes()) == (0, [(address, True)])
        router.send(address, [b"you"])
        assert get(dealer) == (REDUCER, [b"you"])


# Connections


def test_a_connection_is_up_as_long_as_it_lives(bind: str) -> None:
    """A handshake's event carries no descriptor: taken for one, it made each connection seem to end at once."""
    with listen(bind, FEW) as router, connect(router, timeouts=FEW) as dealer:
        address = met(router, dealer)
        assert router.connection_changes() == [(address, True)]
        assert changes_until(dealer, (REDUCER, True)) == [(REDUCER, True)]
        for number in range(40):  # four seconds: heartbeats pass, and lost_s of a run might
            dealer.send(REDUCER, [b"%d" % number])
            assert get(router) == (address, [b"%d" % number])
            router.send(address, [b"."])
            assert get(dealer) == (REDUCER, [b"."])
            assert router.receive(SLICE_S) is None
            assert dealer.receive(0.0) is None
            assert (router.connection_changes(), dealer.connection_changes()) == ([], [])


def test_a_silent_connection_is_up_as_well(bind: str) -> None:
    with listen(bind, FEW) as router, connect(router, timeouts=FEW) as dealer:
        address = met(router, dealer)
        for _ in range(40):
            assert router.receive(SLICE_S) is None
        assert router.connection_changes() == [(address, True)]
        assert dealer.connection_changes() == [(REDUCER, True)]


def test_a_dealer_that_is_closed_is_reported_by_its_address(bind: str) -> None:
    with listen(bind) as router, connect(router, "stays") as stays:
        with connect(router, "goes") as goes:
            staying, going = met(router, stays), met(router, goes)
            assert router.connection_changes() == [(staying, True), (going, True)]
        assert changes_until(router, (going, False)) == [(going, False)]
        router.send(going, [b"too late"])
        assert router.connection_changes() == []
        assert met(router, stays) == staying
        assert router.connection_changes() == []


def test_a_dealer_sees_the_router_go_and_another_come(bind: str) -> None:
    with contextlib.ExitStack() as cleanup:
        first = cleanup.enter_context(contextlib.ExitStack())
        router = first.enter_context(listen(bind))
        endpoint = router.endpoint
        dealer = cleanup.enter_context(connect(router))
        address = met(router, dealer)
        assert changes_until(dealer, (REDUCER, True)) == [(REDUCER, True)]
        first.close()
        assert changes_until(dealer, (REDUCER, False)) == [(REDUCER, False)]
        router = cleanup.enter_context(listen(endpoint))
        assert changes_until(dealer, (REDUCER, True)) == [(REDUCER, True)]
        assert router.receive(SLICE_S) is None
        assert router.connection_changes() == []  # who has come is not known until it speaks
        assert met(router, dealer) == address
        assert router.connection_changes() == [(address, True)]
        router.send(address, [b"again"])
        assert get(dealer) == (REDUCER, [b"again"])


def test_accident_26_what_came_before_a_connection_broke_is_read_after_it(bind: str) -> None:
    """Such as the last word of a reducer or a peer that has ended: else it is waited for until lost_s."""
    with contextlib.ExitStack() as cleanup:
        first = cleanup.enter_context(contextlib.ExitStack())
        gone = first.enter_context(listen(bind))
        dealer = cleanup.enter_context(connect(gone))
        peer = cleanup.enter_context(listen("tcp://127.0.0.1:*"))
        peer.connect("neighbor", gone.endpoint)
        addresses = [met(gone, dealer)]
        while (received := gone.receive(SLICE_S)) is None:
            peer.send("neighbor", [b"hello"])  # it is dropped until the connection is there
        addresses.append(received[0])
        gone.send(received[0], [b"hello"])
        assert get(peer) == ("neighbor", [b"hello"])
        for address in addresses:
            gone.send(address, [b"last"])
            gone.send(address, [b"word"])
        first.close()
        for transport, who in ((dealer, REDUCER), (peer, "neighbor")):
            until(lambda transport=transport, who=who: (who, False) in transport.connection_changes())  # type: ignore[misc]
            assert [transport.receive(0.0) for _ in range(2)] == [(who, [b"last"]), (who, [b"word"])]


def test_before_there_is_a_router_a_dealer_waits(tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/later"
    with DealerTransport(endpoint, "early", dim=DIM, max_vectors=1, timeouts=TIMES) as dealer:
        dealer.send(REDUCER, [b"anybody?"])
        assert dealer.receive(SLICE_S) is None
        assert dealer.connection_changes() == []
        with listen(endpoint) as router:
            address, frames = get(router)
            assert frames == [b"anybody?"]
            assert router.connection_changes() == [(address, True)]


def at(router: RouterTransport, address: str) -> int:
    """The descriptor of its connection."""
    return router._fd_of[address]


def test_a_newcomer_on_a_descriptor_that_is_used_again_is_not_taken_for_its_forerunner(bind: str) -> None:
    """All events of both connections are there before the first of them is looked at."""
    numbers = []
    with listen(bind) as router:
        for _ in range(20):
            with connect(router, "old") as old:
                former = met(router, old)
                number = at(router, former)
                changes = router.connection_changes()
            until(lambda number=number: not is_open(number))  # type: ignore[misc]
            with connect(router, "new") as new:
                newcomer = met(router, new)
                numbers.append((number, at(router, newcomer)))
                changes += router.connection_changes()
                assert changes == [(former, True), (former, False), (newcomer, True)]
                assert router.receive(0.001) is None
                assert router.connection_changes() == []
            assert changes_until(router, (newcomer, False)) == [(newcomer, False)]
    assert any(before == after for before, after in numbers)  # or this test has shown nothing


def test_messages_that_outlive_their_connection_take_nothing_from_a_newcomer(bind: str) -> None:
    """Dealers come, speak and go while the router is busy; then one comes to stay on a used descriptor."""
    shared = 0
    with listen(bind) as router:
        for _ in range(10):
            with connect(router, "known") as known:
                gone = [met(router, known)]
                number = at(router, gone[0])
                for word in (b"1", b"2", b"3"):
                    known.send(REDUCER, [word])
            until(lambda number=number: not is_open(number))  # type: ignore[misc]
            for _ in range(2):
                with connect(router, "brief") as brief:
                    for word in (b"1", b"2", b"3"):
                        brief.send(REDUCER, [word])
            with connect(router, "stays") as stays:
                stays.send(REDUCER, [b"4"])
                heard: dict[str, list[bytes]] = {}
                while sum(map(len, heard.values())) < 10:
                    address, (word,) = get(router)
                    heard.setdefault(address, []).append(word)
                (here,) = [address for address in heard if address.startswith("stays/")]
                gone += [address for address in heard if address.startswith("brief/")]
                assert heard == {here: [b"4"]} | {address: [b"1", b"2", b"3"] for address in gone}
                shared += at(router, here) == number
                for address in heard:  # as a reducer answers
                    router.send(address, [b"5"])
                changes = router.connection_changes()
                assert (here, False) not in changes
                last = dict(changes)
                assert last.pop(here)
                assert last == dict.fromkeys(gone, False)
                assert get(stays) == (REDUCER, [b"5"])
                assert met(router, stays) == here
                assert router.connection_changes() == []
            assert changes_until(router, (here, False)) == [(here, False)]
    assert shared > 0  # or this test has shown nothing


def is_open(number: int) -> bool:
    return os.path.exists(f"/proc/self/fd/{number}")


# Strangers


@pytest.mark.parametrize("frames", [[bytes(HEADER_LIMIT_BYTES + 1)], [b"header", bytes(HEADER_LIMIT_BYTES + 1)]])
def test_a_message_over_the_limit_is_not_let_in_and_the_others_are_served(bind: str, frames: list[bytes]) -> None:
    with listen(bind) as router, connect(router, "good") as good, connect(router, "large") as large:
        addresses = met(router, good), met(router, large)
        large.send(REDUCER, [bytes(HEADER_LIMIT_BYTES), bytes(HEADER_LIMIT_BYTES)])
        assert get(router) == (addresses[1], [bytes(HEADER_LIMIT_BYTES)] * 2)  # the limit itself may come
        assert router.connection_changes() == [(address, True) for address in addresses]
        large.send(REDUCER, frames)
        assert changes_until(router, (addresses[1], False)) == [(addresses[1], False)]
        assert met(router, good) == addresses[0]
        assert met(router, large) == addresses[1]  # it has connected again, and its message is gone
        assert router.connection_changes() == [(addresses[1], True)]


def test_a_vector_may_be_larger_than_a_header(bind: str) -> None:
    with (
        RouterTransport(bind, dim=10_000, max_vectors=1, timeouts=TIMES) as router,
        DealerTransport(router.endpoint, "wide", dim=10_000, max_vectors=1, timeouts=TIMES) as dealer,
    ):
        dealer.send(REDUCER, [b"header", bytes(80_000)])
        address, frames = get(router)
        assert frames == [b"header", bytes(80_000)]
        router.send(address, frames)
        assert get(dealer) == (REDUCER, frames)


GARBAGE = {
    "nothing": b"",
    "http": b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "zeros": bytes(4000),
    "ones": b"\xff" * 4000,
    "half a greeting": b"\xff\0\0\0\0\0\0\0\x01\x7f\x03",
    "a greeting, then noise": b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL".ljust(64, b"\0") + b"\x04\xff" * 300,
    "an old peer": b"\x01\0\x05\0hey!" * 10,
    "noise": bytes((37 * i * i + 11 * i) % 251 for i in range(5000)),
}


@pytest.mark.parametrize("stays", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_does_no_harm(kind: str, stays: bool) -> None:
    with listen("tcp://127.0.0.1:*") as router, connect(router) as dealer, contextlib.ExitStack() as cleanup:
        address = met(router, dealer)
        port = int(router.endpoint.rpartition(":")[2])
        for _ in range(3):
            stranger = cleanup.enter_context(socket.create_connection(("127.0.0.1", port)))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                stranger.sendall(GARBAGE[kind])
            if not stays:
                stranger.close()
        for number in range(20):
            dealer.send(REDUCER, [b"%d" % number])
            sender, frames = get(router)
            while sender != address:  # a very old peer may get as far as a message
                router.send(sender, [b"who are you?"])
                sender, frames = get(router)
            assert frames == [b"%d" % number]
            router.send(address, frames)
            assert get(dealer) == (REDUCER, frames)
        changes = router.connection_changes()
        assert [change for change in changes if change[0] == address] == [(address, True)]


# The end


@pytest.mark.parametrize("last", ["router", "dealers"])
def test_after_close_no_descriptor_is_left(bind: str, last: str) -> None:
    def a_life() -> None:
        with contextlib.ExitStack() as earlier, contextlib.ExitStack() as later:
            routers, others = (earlier, later) if last == "router" else (later, earlier)
            router = routers.enter_context(listen(bind))
            dealers = [others.enter_context(connect(router, f"site-{k}")) for k in range(3)]
            for dealer in dealers:
                router.send(met(router, dealer), [b"unread"])
            dealers[0].send(REDUCER, [b"unread"])

    a_life()  # whatever is opened once and kept
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        a_life()
    assert os.listdir("/proc/self/fd") == before


def test_accident_22_what_cannot_be_opened_is_one_clear_error(bind: str, tmp_path: Path) -> None:
    with listen(bind) as router:
        before = os.listdir("/proc/self/fd")
        if bind.startswith("tcp"):
            with pytest.raises(
                ClusterError,
                match=r"cannot listen on tcp://.*: Address already in use.*; another process, perhaps a reducer",
            ):
                listen(router.endpoint)
        with pytest.raises(ClusterError, match=r"cannot listen on ipc://.*: No such file or directory"):
            listen(f"ipc://{tmp_path}/no/folder/here")
        with pytest.raises(ClusterError, match="cannot connect to carrier-pigeon://roof: "):
            DealerTransport("carrier-pigeon://roof", "site", dim=DIM, max_vectors=1, timeouts=TIMES)
        assert os.listdir("/proc/self/fd") == before


def test_what_was_sent_last_arrives_although_its_sender_has_closed(bind: str) -> None:
    with listen(bind) as router:
        for number in range(10):
            with connect(router) as dealer:
                dealer.send(REDUCER, [b"%d" % number])
            assert get(router)[1] == [b"%d" % number]


def test_a_peer_that_reads_nothing_does_not_hold_up_the_others(bind: str) -> None:
    """A send that waited for its full queue would stop the reducer, signals included."""
    with listen(bind) as router, connect(router, "deaf") as deaf, connect(router, "site") as site:
        address = met(router, deaf)
        frames = [bytes(DIM * 8)] * 2
        for _ in range(30_000):  # far more than its queue and its socket's buffers take
            router.send(address, frames)
        other = met(router, site)
        router.send(other, [b"hello"])
        assert get(site) == (REDUCER, [b"hello"])


@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_an_ipc_path_replaces_no_file(what: str, tmp_path: Path) -> None:
    """libzmq removes what has the name of the socket that it makes."""
    path = tmp_path / "mine.csv"
    if what == "folder":
        path.mkdir()
    elif what == "link":
        (tmp_path / "other").touch()
        path.symlink_to(tmp_path / "other")
    else:
        path.write_text("a year of measurements")
    before = path.lstat()
    with pytest.raises(UsageError, match=r"expected a free name for a socket, got .*mine\.csv"):
        listen(f"ipc://{path}")
    assert path.lstat().st_ino == before.st_ino


def test_a_socket_of_another_kind_is_not_taken_over(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(tmp_path / "log"))
        with pytest.raises(ClusterError, match="Address already in use"):
            listen(f"ipc://{tmp_path}/log")
        assert (tmp_path / "log").is_socket()


def test_an_ipc_path_that_another_listens_on_is_not_taken_over(tmp_path: Path) -> None:
    """Accident 22, for sockets without a port: libzmq would unlink the path."""
    endpoint = f"ipc://{tmp_path}/meet"
    with listen(endpoint) as first:
        with pytest.raises(ClusterError, match=r"cannot listen on ipc://.*: Address already in use"):
            listen(endpoint)
        with connect(first) as site:
            met(first, site)  # the first is still reached
    with listen(endpoint):
        pass  # and a stale path is no obstacle


def test_the_bytes_of_strangers_are_not_kept(bind: str) -> None:
    with listen(bind) as router:
        router.is_member = lambda address: address.startswith("member")
        for name in ("member", "stranger-1", "stranger-2"):
            with connect(router, name) as dealer:
                address = met(router, dealer)
            changes_until(router, (address, False))
        assert len(router.bytes_by_peer(lambda address: 0 if "member" in address else 1)) == 1


def test_accident_37_what_is_left_for_a_listener_that_has_gone_holds_up_no_close(
    bind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libzmq keeps it for an endpoint that one connects to, and would wait for it to come back."""
    for module in (base, router):
        monkeypatch.setattr(module, "LINGER_MS", 3_600_000)
    here, there = listen("tcp://127.0.0.1:*"), listen(bind)
    here.connect("peer-0", there.endpoint)
    here.send("peer-0", [b"hello"])
    address, _ = get(there)
    there.send(address, [b"hello"])
    assert get(here)[0] == "peer-0"
    there.close()
    assert changes_until(here, ("peer-0", False)) == [("peer-0", True), ("peer-0", False)]
    here.send("peer-0", [b"farewell"])
    closing = threading.Thread(target=here.close, daemon=True)
    closing.start()
    closing.join(TRIES * SLICE_S)
    assert not closing.is_alive()
