"""The socket for applications takes no more than it can bear, whoever connects and whatever is sent."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest
import zmq

from drom_net.client import REQUEST_BYTES
from drom_net.core.errors import ClusterError, UsageError
from drom_net.data.incoming import RowReader
from drom_net.data.preprocessing import Preprocessing
from drom_net.node import loop
from drom_net.node.live import application_port
from drom_net.node.live.application_port import ApplicationPort
from drom_net.node.live.service import Service
from drom_net.protocol.codec import encode
from drom_net.protocol.messages import GoodbyeAck
from drom_net.protocol.settings import Timeouts
from drom_net.transport.router import RouterTransport

_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
_WITHIN_S = 60.0


class Model:
    round = 3
    mixing = None

    def predict(self, x: Any) -> float:
        return float(x.sum())

    def probability(self, score: float) -> float:
        return 0.5


class Site:
    """A service whose live_input only counts, stepped by hand."""

    def __init__(self, bind: str) -> None:
        self.said: list[str] = []
        self.live_input: Any = SimpleNamespace(bad=0, commit=lambda: None, say=self.said.append)
        rows = RowReader(Preprocessing(raw_dim=2))
        self.service = Service(self.live_input, bind, rows, Model(), unlabelled=100, incarnation=1)

    @property
    def port(self) -> Any:
        return self.service._port

    def serve_until(self, happened: Any) -> None:
        until = time.monotonic() + _WITHIN_S
        while not happened():
            assert time.monotonic() < until
            zmq.zmq_poll([(self.service.waits_for, zmq.POLLIN)], 20)
            self.service.serve()


def _bind(kind: str, folder: Path) -> str:
    return f"ipc://{folder}/s.sock" if kind == "ipc" else "tcp://127.0.0.1:0"


@pytest.fixture(params=["ipc", "tcp"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    found = Site(_bind(request.param, tmp_path))
    yield found
    found.service.close()


def _connected(site: Site) -> socket.socket:
    endpoint: str = site.port.endpoint
    if endpoint.startswith("tcp"):
        return socket.create_connection(("127.0.0.1", int(endpoint.rpartition(":")[2])))
    found = socket.socket(socket.AF_UNIX)
    found.connect(endpoint.removeprefix("ipc://"))
    return found


def _raw(site: Site) -> socket.socket:
    """A connection that has said who it is."""
    found = _connected(site)
    found.settimeout(_WITHIN_S)
    found.sendall(_GREETING)
    body = b"\x05READY" + b"\x0bSocket-Type" + (6).to_bytes(4) + b"DEALER"
    found.sendall(bytes([4, len(body)]) + body)
    return found


def _request(**fields: Any) -> bytes:
    packed: bytes = msgpack.packb({"version": 2, "id": 1, "do": "predict", "rows": [[1.0, 2.0]]} | fields)
    return packed


def _framed(body: bytes, flags: int = 0) -> bytes:
    return bytes([flags | 2]) + len(body).to_bytes(8) + body


def _ask(site: Site, *frames: bytes) -> dict[str, Any]:
    """By libzmq's own client."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as asker:
        asker.linger = 0
        asker.setsockopt(zmq.HEARTBEAT_IVL, 10)
        asker.setsockopt(zmq.HEARTBEAT_TIMEOUT, 5000)
        asker.setsockopt(zmq.IPV6, "[" in site.port.endpoint)
        asker.connect(site.port.endpoint)
        asker.send_multipart(frames or (_request(),))
        site.serve_until(lambda: asker.poll(0))
        return dict(msgpack.unpackb(asker.recv()))


def test_zeromq_speaks_to_it(site: Site) -> None:
    assert _ask(site)["scores"] == [3.0]
    rows = [[1.0, float(n)] for n in range(5000)]
    assert _ask(site, _request(rows=rows))["scores"][-1] == 5000.0
    assert _ask(site, _request(), b"more")["why"] == "expected one frame"
    assert site.port.closed == 0


def test_it_is_for_its_user_alone_and_goes_when_closed(tmp_path: Path) -> None:
    site = Site(f"ipc://{tmp_path}/s.sock")
    assert stat.S_IMODE((tmp_path / "s.sock").stat().st_mode) == 0o600
    with pytest.raises(ClusterError, match="another process listens there"):
        Site(f"ipc://{tmp_path}/s.sock")
    site.service.close()
    assert list(tmp_path.iterdir()) == []


def test_a_socket_of_a_dead_process_is_taken_over_and_a_file_is_not(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{tmp_path}/s.sock")
    Site(f"ipc://{tmp_path}/s.sock").service.close()
    (tmp_path / "s.sock").write_text("mine")
    with pytest.raises(UsageError, match=r"ipc://.*s.sock: expected a free name for a socket"):
        Site(f"ipc://{tmp_path}/s.sock")
    assert (tmp_path / "s.sock").read_text() == "mine"


@pytest.mark.parametrize("kind", ["ipc", "tcp"])
def test_idle_connections_use_up_no_descriptors_and_shut_nobody_out(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application_port, "connections_for_applications", lambda: 5)
    site = Site(_bind(kind, tmp_path))
    asks = _raw(site)
    asks.sendall(_framed(_request()))
    site.serve_until(lambda: site.service._predicted)
    before = len(os.listdir("/proc/self/fd"))
    idle = [_raw(site) for _ in range(20)]
    site.serve_until(lambda: site.port.closed == 16)
    assert len(os.listdir("/proc/self/fd")) == before + 20 + 4
    asks.sendall(_framed(_request()))
    site.serve_until(lambda: site.service._predicted == 2)
    assert site.said == [
        f"closed a connection to {site.port.endpoint}: there are more than 5; further ones are not told"
    ]
    for connection in (*idle, asks):
        connection.close()
    site.service.close()


@pytest.mark.parametrize(
    "data",
    [
        _framed(b"xxx", 1) * 1000,
        b"\x02" + (REQUEST_BYTES + 1).to_bytes(8),
        b"\x06" + (1 << 20).to_bytes(8),
        b"\x08\x00",
        b"\xff" * 100,
    ],
    ids=["no end", "too long", "a command too long", "no such flag", "noise"],
)
def test_a_message_without_an_end_ends_its_connection(site: Site, data: bytes) -> None:
    bad = _raw(site)
    bad.sendall(data)
    site.serve_until(lambda: site.port.closed)
    assert site.port._unread == 0
    assert _ask(site)["is"] == "ok"
    bad.close()


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n" * 4, _GREETING[:10] + b"\x01" + bytes(60)])
def test_another_protocol_is_turned_away(site: Site, data: bytes) -> None:
    other = _connected(site)
    other.sendall(data)
    site.serve_until(lambda: site.port.closed)
    other.close()


def test_all_messages_that_are_not_whole_together_have_a_bound(tmp_path: Path) -> None:
    port = ApplicationPort(f"ipc://{tmp_path}/p", message_bytes=100_000)
    site: Any = SimpleNamespace(port=port)
    senders = []
    for _ in range(6):
        senders.append(_raw(site))
        senders[-1].sendall(_framed(bytes(100_000))[:90_000])
        for _ in range(10):
            assert port.receive() is None
    assert port.closed == 2
    assert port._unread <= 400_000
    senders[-1].sendall(bytes(10_009))
    while (received := port.receive()) is None:
        select.select([port.waits_for], [], [], _WITHIN_S)
    assert len(received[1][0]) == 100_000
    for sender in senders:
        sender.close()
    port.close()


def test_who_reads_no_answers_is_asked_nothing_more(site: Site) -> None:
    silent = _raw(site)
    silent.setblocking(False)
    silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    site.serve_until(lambda: site.port._connections)
    [connection] = site.port._connections.values()
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # not all that the system would buffer
    request = _framed(_request(rows=[[1.0, 2.0]] * 10_000))
    left = b""
    until = time.monotonic() + _WITHIN_S
    while not connection.is_blocked:
        assert time.monotonic() < until
        left = left or request
        with contextlib.suppress(BlockingIOError):
            left = left[silent.send(left) :]
        site.service.serve()
    predicted = site.service._predicted
    for _ in range(10):
        site.service.serve()
    assert site.service._predicted == predicted
    assert _ask(site)["is"] == "ok"
    silent.close()


def test_a_request_of_many_empty_lists_takes_no_memory(site: Site) -> None:
    many = b"\x84\xa7version\x01\xa2id\x01\xa2do\xa7predict\xa4rows" + b"\xdd\x00\x0f\x00\x00" + b"\x90" * 0x0F0000
    assert _ask(site, many)["why"] == "expected a msgpack map"


@pytest.mark.parametrize(
    ("bind", "where"),
    [
        ("tcp://*:0", "tcp://0.0.0.0:"),
        ("tcp://localhost:0", "tcp://127.0.0.1:"),
        ("tcp://lo:0", "tcp://127.0.0.1:"),
        ("tcp://[::1]:0", "tcp://[::1]:"),
    ],
)
def test_every_address_is_listened_on(bind: str, where: str) -> None:
    site = Site(bind)
    assert site.port.endpoint.startswith(where)
    assert _ask(site)["is"] == "ok"
    with pytest.raises(ClusterError, match="another process listens there"):
        Site(site.port.endpoint)
    site.service.close()


def test_who_does_not_say_who_it_is_is_closed_and_who_has_said_it_stays(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = _raw(site)
    site.serve_until(lambda: [one.stage for one in site.port._connections.values()] == ["open"])
    silent = _connected(site)
    site.serve_until(lambda: len(site.port._connections) == 2)
    monkeypatch.setattr(application_port, "_HANDSHAKE_S", 0.0)
    site.serve_until(lambda: site.port.closed == 1)
    assert site.said == [
        f"closed a connection to {site.port.endpoint}: no handshake within 0 s; further ones are not told"
    ]
    quiet.sendall(_framed(_request()))
    site.serve_until(lambda: site.service._predicted)
    silent.close()
    quiet.close()


class _Short:
    """A listener that fails so many times."""

    def __init__(self, listener: socket.socket, error: int, times: float = math.inf) -> None:
        self.times = times
        self._listener, self._error = listener, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)

    def accept(self) -> Any:
        if not self.times:
            return self._listener.accept()
        self.times -= 1
        raise OSError(self._error, "")


@pytest.mark.parametrize(("short", "closed"), [(errno.EMFILE, 1), (errno.ECONNABORTED, 0)])
def test_only_who_is_short_of_descriptors_closes_a_connection(
    site: Site, short: int, closed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = _raw(site)
    site.serve_until(lambda: [one.stage for one in site.port._connections.values()] == ["open"])
    listener = _Short(site.port._listener, short, times=1)
    monkeypatch.setattr(site.port, "_listener", listener)
    late = _raw(site)
    site.serve_until(lambda: len(site.port._connections) == 2 - closed and not listener.times)
    assert site.port.closed == closed
    for connection in (kept, late):
        connection.close()


def test_short_of_descriptors_and_without_connections_it_waits(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its listener would be readable all the time."""
    with monkeypatch.context() as patched:
        patched.setattr(site.port, "_listener", _Short(site.port._listener, errno.EMFILE))
        late = _connected(site)
        site.serve_until(lambda: not site.port._accepts)
        assert site.port._epoll.poll(0) == []
    site.serve_until(lambda: len(site.port._connections) == 1)
    late.close()


def test_behind_keys_a_message_without_an_end_ends_its_connection() -> None:
    """libzmq's socket, which a site's applications reach by their key."""
    with RouterTransport(
        "tcp://127.0.0.1:0",
        dim=REQUEST_BYTES // 8,
        max_vectors=1,
        timeouts=Timeouts(),
        name="site",
        for_applications=True,
    ) as port:
        port.is_member = lambda _: False
        bad = socket.create_connection(("127.0.0.1", int(port.endpoint.rpartition(":")[2])))
        bad.setblocking(False)
        body = b"\x05READY" + b"\x0bSocket-Type" + (6).to_bytes(4) + b"DEALER"
        left = _GREETING + bytes([4, len(body)]) + body
        until = time.monotonic() + _WITHIN_S
        while not port.closed_strangers:
            assert time.monotonic() < until
            try:
                left = left[bad.send(left) :] or _framed(bytes(1 << 20), 1)
            except BlockingIOError:
                select.select([], [bad], [], 0.01)
            except OSError:  # closed; it is told when it is looked for
                pass
            port.connection_changes()
            assert port.receive(0.0) is None
        bad.close()


def test_an_address_that_is_none_is_said() -> None:
    with pytest.raises(ClusterError, match=r"cannot listen for applications on tcp://nowhere\.invalid:1: "):
        Site("tcp://nowhere.invalid:1")


def test_a_node_works_for_as_long_as_it_has_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much applications ask, what comes from the cluster is seen to half of the time."""
    now = [0.0]
    calls: list[str] = []
    monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])

    class Busy(loop.Host):
        has_input = True

        def poll_input(self) -> bool:
            calls.append("serve")
            now[0] += 3.0
            return True

    def receive(*_: Any) -> None:
        calls.append("message")
        now[0] += 1.0
        node.finished = calls.count("message") == 6

    node: Any = SimpleNamespace(
        finished=False,
        start=lambda now: None,
        receive=receive,
        next_timer=lambda: math.inf,
        take_outbox=list,
        take_events=list,
    )
    transport: Any = SimpleNamespace(
        receive=lambda _: ("a", [bytes(frame) for frame in encode(GoodbyeAck())]),
        connection_changes=list,
        take_warnings=list,
        unsettled=False,
        dim=1,
        max_vectors=1,
    )
    assert loop.drive(node, transport, Busy())
    assert calls == ["serve", *["message"] * 3, "serve", *["message"] * 3]
