"""Keys on real sockets: who gets in, as whom, and what strangers can do to a node that listens."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zmq
from helpers import random_streams

from drom_net.algorithms.drom import drom
from drom_net.core.errors import RejectedError
from drom_net.learning.task import Centre, TaskLearner
from drom_net.node.loop import Host, drive
from drom_net.protocol.handshake import Identity
from drom_net.protocol.messages import PROTOCOL_VERSION, Hello, Resend
from drom_net.protocol.node import REDUCER, Refused
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.settings import Timeouts
from drom_net.protocol.worker import Worker
from drom_net.transport import base as base_module
from drom_net.transport import router as router_module
from drom_net.transport import strangers as strangers_module
from drom_net.transport.base import SLICE_S
from drom_net.transport.curve import Doorkeeper, key_gate
from drom_net.transport.dealer import DealerTransport
from drom_net.transport.keys import Keyring, create_keys, read_keyring, read_public_keys, secret_file
from drom_net.transport.router import RouterTransport

pytestmark = pytest.mark.process

DIM = 7
TIMES = Timeouts()
ONCE = Timeouts(resend_after_s=60.0, resend_cap_s=60.0)
"""Of who must not ask twice."""
TASKS = ("north", "south")
TRIES = 600
"""Receives that may be empty before a test fails; of SLICE_S each, so a minute."""

Transport = RouterTransport | DealerTransport


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys of the reducer and both tasks."""
    found = tmp_path_factory.mktemp("keys") / "ours"
    create_keys(found, [REDUCER, *TASKS])
    return found


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another cluster's, of the same names."""
    found = tmp_path_factory.mktemp("keys") / "theirs"
    create_keys(found, [REDUCER, *TASKS])
    return found


@pytest.fixture(params=["tcp", "ipc"])
def bind(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where to listen."""
    return "tcp://127.0.0.1:*" if request.param == "tcp" else f"ipc://{tmp_path}/meet"


def listen(
    keys: Keyring | None, bind: str = "tcp://127.0.0.1:*", *, members: tuple[str, ...] = TASKS, max_vectors: int = 1
) -> RouterTransport:
    return RouterTransport(bind, dim=DIM, max_vectors=max_vectors, timeouts=TIMES, members=members, keys=keys)


def connect(endpoint: str, keys: Keyring | None, name: str = "north") -> DealerTransport:
    return DealerTransport(endpoint, name, dim=DIM, max_vectors=1, timeouts=TIMES, keys=keys)


def until(condition: Callable[[], bool], *transports: Transport) -> None:
    """Look at these transports until it is so; no message comes meanwhile."""
    for _ in range(TRIES):
        for transport in transports:
            transport.connection_changes()
        if condition():
            return
        for transport in transports:
            assert transport.receive(0.02) is None
    raise AssertionError("it never came to that")


def get(transport: Transport) -> tuple[str, list[bytes]]:
    for _ in range(TRIES):
        received = transport.receive(SLICE_S)
        if received is not None:
            return received
    raise AssertionError("no message came")


def met(router: RouterTransport, dealer: DealerTransport, word: bytes = b"hello") -> str:
    dealer.send(REDUCER, [word])
    address, frames = get(router)
    assert frames == [word]
    return address


# Who gets in


def test_listed_keys_get_in_and_are_known_by_name(bind: str, folder: Path) -> None:
    vector = bytes(8 * DIM)
    with (
        listen(read_keyring(folder, REDUCER), bind) as router,
        connect(router.endpoint, read_keyring(folder, "north")) as north,
        connect(router.endpoint, read_keyring(folder, "south"), "whatever it says") as south,
    ):
        for dealer, name in ((north, "north"), (south, "south"), (north, "north")):
            address = met(router, dealer)
            assert router.sender == name
            router.send(address, [b"header", vector])
            assert get(dealer) == (REDUCER, [b"header", vector])
        assert router.refused_handshakes == 0
        assert router.take_warnings() == []


def test_the_largest_frame_gets_through_encrypted_as_well(folder: Path) -> None:
    """CURVE makes a frame longer than the limit that is meant for its content."""
    wide = 2000
    with (
        RouterTransport(
            "tcp://127.0.0.1:*",
            dim=wide,
            max_vectors=1,
            timeouts=TIMES,
            members=TASKS,
            keys=read_keyring(folder, REDUCER),
        ) as router,
        DealerTransport(
            router.endpoint, "north", dim=wide, max_vectors=1, timeouts=TIMES, keys=read_keyring(folder, "north")
        ) as dealer,
    ):
        address = met(router, dealer)
        dealer.send(REDUCER, [b"header", bytes(8 * wide)])
        assert get(router) == (address, [b"header", bytes(8 * wide)])
        dealer.send(REDUCER, [b"header", bytes(8 * wide + 1)])
        for _ in range(TRIES):
            if (address, False) in router.connection_changes():
                break
            assert router.receive(SLICE_S) is None
        else:
            raise AssertionError("one byte more was let in")


def test_a_key_that_is_not_listed_is_refused_counted_and_told_soon(bind: str, folder: Path, tmp_path: Path) -> None:
    create_keys(tmp_path / "new", ["north"])
    shutil.copy(secret_file(tmp_path / "new", "north"), tmp_path / "north.secret")
    lines = (folder / "public.keys").read_text().splitlines()
    new = read_public_keys(tmp_path / "new")["north"].decode()
    changed = [f"north {new}" if line.startswith("north ") else line for line in lines]
    (tmp_path / "public.keys").write_text("\n".join(changed))
    with (
        listen(read_keyring(folder, REDUCER), bind) as router,
        connect(router.endpoint, read_keyring(tmp_path, "north")) as dealer,
        connect(router.endpoint, read_keyring(folder, "south")) as south,
    ):
        dealer.send(REDUCER, [b"let me in"])
        until(lambda: bool(dealer.rejected_by and router.refused_handshakes), router, dealer)
        assert dealer.trouble == f"{router.endpoint} does not accept our key: the list there has another one for " + (
            "north, or none"
        )
        (warning,) = router.take_warnings()
        assert "its key is not among those that may join" in warning
        assert new in warning  # which key, so that somebody can compare it with the list
        met(router, south)
        until(lambda: router.refused_handshakes > 1, router, dealer)  # it asks again, as the list may be put right
        assert router.take_warnings() == []  # once is enough


def test_a_node_that_may_not_join_is_refused_although_it_is_listed(folder: Path) -> None:
    """The reducer's own key is in the list for its workers, and is no worker's."""
    with (
        listen(read_keyring(folder, REDUCER), members=("north",)) as router,
        connect(router.endpoint, read_keyring(folder, "south")) as south,
        connect(router.endpoint, read_keyring(folder, REDUCER)) as itself,
    ):
        until(lambda: bool(south.rejected_by and itself.rejected_by), router, south, itself)
        assert router.refused_handshakes >= 2


def test_an_impostor_in_the_reducers_place_hears_nothing(folder: Path, foreign: Path) -> None:
    """It has its own secret key, and accepts whoever comes: the worker pins the reducer's."""
    with (
        listen(replace(read_keyring(foreign, REDUCER), public=read_public_keys(folder))) as impostor,
        connect(impostor.endpoint, read_keyring(folder, "north")) as dealer,
    ):
        dealer.send(REDUCER, [b"private"])
        until(lambda: impostor.refused_handshakes > 2, impostor, dealer)
        assert "the handshake fails" in dealer.trouble
        assert not dealer.rejected_by  # an impostor must not be able to send us away
        assert any("another public key for this node" in text for text in impostor.take_warnings())


@pytest.mark.parametrize("plain", ["client", "server"])
def test_with_keys_on_one_side_only_nobody_gets_in_and_both_say_why(plain: str, folder: Path) -> None:
    with (
        listen(read_keyring(folder, REDUCER) if plain == "client" else None) as router,
        connect(router.endpoint, read_keyring(folder, "north") if plain == "server" else None) as dealer,
    ):
        dealer.send(REDUCER, [b"hello"])
        warnings: list[str] = []

        def told() -> bool:
            warnings.extend(router.take_warnings())
            return any("uses" in text and "keys" in text for text in warnings) and bool(dealer.trouble)

        until(told, router, dealer)
        assert router.refused_handshakes
        assert "does it use keys" in dealer.trouble


def test_a_worker_comes_in_once_the_other_side_has_been_put_right(folder: Path) -> None:
    """libzmq gives up a connection for ever once its handshake was wrong: the transport connects again."""
    with contextlib.ExitStack() as cleanup:
        first = cleanup.enter_context(contextlib.ExitStack())
        wrong = first.enter_context(listen(None))
        endpoint = wrong.endpoint
        dealer = cleanup.enter_context(connect(endpoint, read_keyring(folder, "north")))
        until(lambda: dealer._connect_again_at is not None, wrong, dealer)
        first.close()
        right = cleanup.enter_context(listen(read_keyring(folder, REDUCER), endpoint))
        until(lambda: (REDUCER, True) in dealer.connection_changes(), right)
        met(right, dealer)
        assert dealer.trouble == ""


def test_a_replayed_handshake_gets_nobody_in(folder: Path) -> None:
    """Issue, "replayed": all bytes that a worker with a good key has sent, sent once more by a stranger."""
    with (
        listen(read_keyring(folder, REDUCER)) as router,
        recorder(int(router.endpoint.rpartition(":")[2])) as (port, recorded),
        connect(f"tcp://127.0.0.1:{port}", read_keyring(folder, "north")) as dealer,
    ):
        met(router, dealer, b"a word that nobody else may read")
        assert len(recorded) > 300
        assert b"a word" not in recorded  # encrypted
        assert b"north" not in recorded
        with socket.create_connection(("127.0.0.1", int(router.endpoint.rpartition(":")[2]))) as stranger:
            stranger.sendall(recorded)
            until(lambda: router.refused_handshakes > 0, router)
        met(router, dealer)  # the only one that is heard


@contextlib.contextmanager
def recorder(port: int) -> Iterator[tuple[int, bytearray]]:
    """A port of its own that passes on what comes to this one, and back; (that port, what came)."""
    recorded = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def pump(source: socket.socket, target: socket.socket, keep: bool) -> None:
            with contextlib.suppress(OSError):
                while data := source.recv(65536):
                    if keep:
                        recorded.extend(data)
                    target.sendall(data)

        def serve() -> None:
            near, _ = server.accept()
            far = socket.create_connection(("127.0.0.1", port))
            with near, far:
                back = threading.Thread(target=pump, args=(far, near, False), daemon=True)
                back.start()
                pump(near, far, True)
                far.shutdown(socket.SHUT_RDWR)
                back.join()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1], recorded
    # The dealer has closed its end by now, which ends both directions.


GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "zeros": bytes(4000),
    "a plain greeting": b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL".ljust(64, b"\0") + b"\x04\x19\x05READY",
    "a greeting, then noise": b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0CURVE".ljust(64, b"\0") + b"\x04\xff" * 300,
    "a hello of zeros": b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0CURVE".ljust(64, b"\0")
    + b"\x04\xc8\x05HELLO".ljust(202, b"\0"),
    "an endless command": b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0CURVE".ljust(64, b"\0") + b"\x06" + b"\x7f" * 8,
    "an old peer": b"\x01\0\x05\0hey!" * 10,
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_accident_30_garbage_is_ignored_and_counted(kind: str, folder: Path) -> None:
    with (
        listen(read_keyring(folder, REDUCER)) as router,
        connect(router.endpoint, read_keyring(folder, "north")) as dealer,
    ):
        address = met(router, dealer)
        for _ in range(3):
            port = int(router.endpoint.rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port)) as stranger, contextlib.suppress(ConnectionError):
                stranger.sendall(GARBAGE[kind])
        until(lambda: router.refused_handshakes >= 3, router, dealer)
        assert met(router, dealer) == address
        assert len(router.take_warnings()) <= 2  # each reason once


@pytest.mark.parametrize(
    "request_",
    [
        [],
        [b""] * 6,
        [b"1.0", b"1", b"drom-net", b"127.0.0.1", b"", b"CURVE"],
        [b"1.0", b"1", b"drom-net", b"127.0.0.1", b"", b"CURVE", b"short"],
        [b"1.0", b"1", b"drom-net", b"\xff\xfe", b"", b"CURVE", bytes(32)],
        [b"1.0", b"1", b"drom-net", b"127.0.0.1", b"", b"PLAIN", b"north", b"secret"],
        [b"1.0", b"1", b"drom-net", b"127.0.0.1", b"", b"NULL"],
        [b"2.0", b"1", b"drom-net", b"127.0.0.1", b"", b"CURVE", b"listed"],
        [b"1.0", b"1", b"drom-net", b"127.0.0.1", b"", b"CURVE", b"listed", b"and more"],
    ],
)
def test_the_doorkeeper_refuses_what_is_no_request(request_: list[bytes], folder: Path) -> None:
    from zmq.utils import z85

    keys = read_keyring(folder, REDUCER)
    listed = z85.decode(keys.public["north"])
    context = zmq.Context()
    doorkeeper = Doorkeeper(context, keys, TASKS)
    try:
        whole = [b"1.0", b"7", b"drom-net", b"127.0.0.1", b"", b"CURVE", listed]
        assert doorkeeper.answer(whole) == [b"1.0", b"7", b"200", b"", b"north", b""]
        request = [listed if part == b"listed" else part for part in request_]
        assert doorkeeper.answer(request)[2] == b"400"
        assert doorkeeper.answer(request)[4] == b""
        with context.socket(zmq.REQ) as asking:  # and its thread survives it
            asking.connect("inproc://zeromq.zap.01")
            for parts, code in ((request or [b""], b"400"), (whole, b"200")):
                asking.send_multipart(parts)
                assert asking.recv_multipart()[2] == code
    finally:
        context.term()
        doorkeeper.join()


# As whom


def hello(task: int) -> Hello:
    return Hello(PROTOCOL_VERSION, "run", task, "digest", DIM, "", np.__version__, "blas")


def make_reducer() -> Reducer:
    centre = Centre(drom(), tasks=range(2), dim=DIM, seed=0)
    identity = Identity("run", "digest", DIM, np.__version__, "blas")
    return Reducer(centre, TASKS, identity, push_layout=(1,), timeouts=TIMES)


def test_accident_35_the_key_decides_which_node_one_may_be(folder: Path) -> None:
    """A worker with a valid key speaks for another task: refused by name, and the run goes on."""
    reducer = make_reducer()
    refused: list[Refused] = []

    class Keyed(Host):
        def on_event(self, event: object) -> None:
            if isinstance(event, Refused):
                refused.append(event)

        def on_tick(self) -> bool:
            return bool(rejected)

    rejected: list[RejectedError] = []
    with listen(read_keyring(folder, REDUCER)) as router:
        endpoint = router.endpoint

        def insider() -> None:
            stream = random_streams([5], dim=DIM)[0]
            worker = Worker(
                TaskLearner(drom(), stream, rounds=None), hello(0), timeouts=ONCE, endpoint=endpoint, pull_layout=(1,)
            )
            with connect(endpoint, read_keyring(folder, "south")) as dealer:
                try:
                    drive(worker, dealer, Host())
                except RejectedError as error:
                    rejected.append(error)

        thread = threading.Thread(target=insider, daemon=True)
        thread.start()
        host = Keyed()
        host.gate = key_gate(reducer, lambda: router.sender)
        drive(reducer, router, host)
        thread.join()
    assert "does not let this worker in: its key is that of south, not of north" in str(rejected[0])
    assert [event.reason for event in refused] == ["its key is that of south, not of north"]
    assert reducer.task_at(refused[0].sender) is None


def test_what_a_member_has_said_before_gives_another_key_no_right() -> None:
    """Not only a Hello: whatever comes from the address of a member must come from that member's key."""
    reducer = make_reducer()
    reducer.start(0.0)
    speaker = ["north"]
    gate = key_gate(reducer, lambda: speaker[0])
    assert gate("a", hello(0)) == ""
    reducer.receive("a", hello(0), 0.0)
    assert gate("a", Resend(1)) == ""
    assert gate("b", Resend(1)) == ""  # nobody yet: the reducer asks it who it is
    assert gate("b", hello(99)) == ""  # the reducer's own business
    speaker[0] = "south"
    assert gate("a", Resend(1)) == "its key is that of south, not of north"
    assert gate("a", hello(0)) == "its key is that of south, not of north"
    assert gate("a", hello(1)) == ""


def test_peers_listen_and_connect_with_keys_on_one_socket(folder: Path) -> None:
    """A peer is a server of CURVE where it listens and a client where it connects, each to another key."""
    everybody = (REDUCER, *TASKS)
    with (
        listen(read_keyring(folder, REDUCER), members=everybody) as first,
        listen(read_keyring(folder, "north"), members=everybody) as second,
        listen(read_keyring(folder, "south"), members=everybody) as third,
    ):
        second.connect("peer-0", first.endpoint, REDUCER)
        third.connect("peer-0", first.endpoint, REDUCER)
        third.connect("peer-1", second.endpoint, "north")
        for transport, address, other, name in (
            (third, "peer-0", first, "south"),
            (third, "peer-1", second, "south"),
            (second, "peer-0", first, "north"),
        ):
            transport.send(address, [b"hello"])
            back, frames = get(other)
            assert (frames, other.sender) == ([b"hello"], name)
            other.send(back, [b"welcome"])
            assert get(transport) == (address, [b"welcome"])
            assert transport.sender == {"peer-0": REDUCER, "peer-1": "north"}[address]
        # And it still lets in who comes later.
        with connect(third.endpoint, replace(read_keyring(folder, "north"), public=swapped(folder))) as late:
            met(third, late)
            assert third.sender == "north"


def swapped(folder: Path) -> dict[str, bytes]:
    """The list, where the key of south stands for the reducer's, to whom a dealer connects."""
    public = read_public_keys(folder)
    return public | {REDUCER: public["south"]}


@pytest.mark.parametrize("with_keys", [False, True])
def test_nobody_can_take_the_place_of_a_neighbor_by_its_address(with_keys: bool, folder: Path) -> None:
    """The addresses of neighbors can be guessed; as routing ids they would be handed over, or abort libzmq."""
    everybody = (REDUCER, *TASKS)

    def keys(name: str) -> Keyring | None:
        return read_keyring(folder, name) if with_keys else None

    with zmq.Context() as context, context.socket(zmq.DEALER) as insider, contextlib.ExitStack() as cleanup:
        lower = cleanup.enter_context(listen(keys(REDUCER), members=everybody))
        upper = cleanup.enter_context(listen(keys("north"), members=everybody))
        upper.is_member = lambda address: address == "peer-0"
        insider.setsockopt(zmq.LINGER, 0)
        insider.setsockopt(zmq.ROUTING_ID, b"peer-0")
        if with_keys:
            ring = read_keyring(folder, "south")
            insider.setsockopt(zmq.CURVE_PUBLICKEY, ring.public["south"])
            insider.setsockopt(zmq.CURVE_SECRETKEY, ring.secret)
            insider.setsockopt(zmq.CURVE_SERVERKEY, ring.public["north"])
        insider.connect(upper.endpoint)
        insider.send(b"before")
        address, _ = get(upper)
        assert address != "peer-0" or not upper._endpoint_of  # nobody is called so yet
        upper.connect("peer-0", lower.endpoint, REDUCER)
        upper.send("peer-0", [b"for the neighbor"])
        assert get(lower)[1] == [b"for the neighbor"]
        insider.send(b"after")
        address, frames = get(upper)
        assert (address, frames) == ("?peer-0", [b"after"])
        assert upper.sender == ("south" if with_keys else "")
        upper.send("peer-0", [b"again"])
        assert get(lower)[1] == [b"again"]
        assert not insider.poll(0)


# What strangers can do


def test_a_message_of_many_frames_is_not_kept(folder: Path) -> None:
    with (
        listen(read_keyring(folder, REDUCER), max_vectors=2) as router,
        connect(router.endpoint, read_keyring(folder, "north")) as dealer,
    ):
        met(router, dealer)
        dealer._send([b"."] * 50_000)
        assert len(get(router)[1]) == 1 + 2 + 1  # enough to be refused, and no more
        met(router, dealer)


def test_a_message_without_an_end_is_cut_off() -> None:
    """libzmq gathers its frames without a limit: they would take all memory, and nobody would see a message."""
    greeting = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL".ljust(64, b"\0")
    ready = b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\x01x"
    frame_and_more = b"\x03" + (4000).to_bytes(8, "big") + bytes(4000)
    with listen(None) as router, connect(router.endpoint, None) as north:
        for _ in range(50):
            address = met(router, north, b"an honest word")
        port = int(router.endpoint.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(greeting + bytes([4, len(ready)]) + ready)
            heard = b""
            while b"ROUTER" not in heard:
                heard += stranger.recv(1000)
            stranger.setblocking(False)
            unsent, sent = frame_and_more, 0
            while not router.closed_strangers and sent < 100 * router._unread_limit:
                with contextlib.suppress(BlockingIOError):
                    taken = stranger.send(unsent)
                    sent += taken
                    unsent = unsent[taken:] or frame_and_more
                router._strangers._look_at = 0.0
                router.connection_changes()
            assert router.closed_strangers == 1
            assert router._unread_limit < sent < 100 * router._unread_limit
            until(lambda: len(router._addresses_at) == 1, router)  # libzmq has let go of it
        assert met(router, north) == address
        assert "closed a connection of a stranger: more came on it than can be read" in router.take_warnings()


def test_a_full_queue_does_not_hold_up_a_worker() -> None:
    """Whoever asks again and again where nobody is there would wait for ever, deaf to signals."""
    with DealerTransport("tcp://127.0.0.1:9", "site", dim=DIM, max_vectors=1, timeouts=TIMES) as dealer:
        for _ in range(3 * base_module._SEND_QUEUE):
            dealer.send(REDUCER, [b"anybody?"])
        assert dealer.bytes_sent == base_module._SEND_QUEUE * len(b"anybody?")


def test_accident_40_strangers_do_not_use_up_the_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many connections: the oldest that speak for no task are closed; members stay, and newcomers get in."""
    monkeypatch.setattr(router_module, "_STRANGERS", 20)
    with listen(None) as router, connect(router.endpoint, None) as member, contextlib.ExitStack() as cleanup:
        address = met(router, member)
        router.is_member = lambda known: known == address
        port = int(router.endpoint.rpartition(":")[2])
        strangers = [cleanup.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(100)]
        until(lambda: router.closed_strangers == 101 - 24, router, member)
        assert len(router._connected_fds) == 24  # two for each of the two members, and 20
        for stranger in strangers[:77]:
            stranger.settimeout(60)
            while stranger.recv(100):  # until it is closed
                pass
        assert met(router, member) == address
        with connect(router.endpoint, None, "late") as late:
            met(router, late)
        assert [text for text in router.take_warnings() if "there are more than 24" in text]


def test_the_limit_of_connections_leaves_descriptors_for_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def limit(descriptors: int, members: int) -> int:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
        return router_module._connections_limit(members)

    assert limit(20_000, 12) == 2 * 12 + 256
    assert limit(resource.RLIM_INFINITY, 12) == 2 * 12 + 256
    assert limit(256, 12) == 256 - 64
    assert limit(256, 300) == 301  # `check` has refused such a run before


def test_strangers_get_few_answers_and_members_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_module, "_STRANGERS", 5)
    monkeypatch.setattr(strangers_module.time, "monotonic", lambda: 1.0)
    with listen(None, members=()) as router, connect(router.endpoint, None) as stranger:
        address = met(router, stranger)
        router.is_member = lambda known: False
        for _ in range(50):
            router.send(address, [b"who are you?"])
        assert router.bytes_sent == 5 * len(b"who are you?")
        router.is_member = lambda known: known == address
        router.send(address, [b"welcome"])
        for _ in range(5):
            assert get(stranger)[1] == [b"who are you?"]
        assert get(stranger)[1] == [b"welcome"]


def test_nothing_is_kept_of_strangers_that_left_before_they_were_heard() -> None:
    with listen(None) as router:
        router.is_member = lambda address: False
        for _ in range(20):
            with connect(router.endpoint, None, "brief") as brief:
                brief.send(REDUCER, [b"hello"])
        for _ in range(20):
            get(router)
        until(lambda: not router._connected_fds, router)
        assert (router._bytes, router._fd_of, router._addresses_at, router._strangers._read_at) == ({}, {}, {}, {})


def test_after_close_no_descriptor_and_no_thread_is_left(folder: Path, foreign: Path) -> None:
    def a_life() -> None:
        with (
            listen(read_keyring(folder, REDUCER)) as router,
            connect(router.endpoint, read_keyring(folder, "north")) as dealer,
            connect(router.endpoint, read_keyring(foreign, "north")) as other,
        ):
            router.send(met(router, dealer), [b"unread"])
            other.send(REDUCER, [b"never heard"])

    a_life()  # whatever is opened once and kept
    before = os.listdir("/proc/self/fd"), threading.active_count()
    for _ in range(5):
        a_life()
    assert (os.listdir("/proc/self/fd"), threading.active_count()) == before
