"""What both kinds of sockets share: which connections are up, what they may take, and how they wait."""

from __future__ import annotations

import contextlib
import functools
import math
import secrets
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import zmq

from drom_net.core.closing import Closing
from drom_net.protocol.codec import HEADER_LIMIT_BYTES
from drom_net.protocol.settings import Timeouts
from drom_net.transport import curve
from drom_net.transport.keys import Keyring

Frames = Sequence[bytes | memoryview]
_Result = TypeVar("_Result")

SLICE_S = 0.1
"""The longest a receive blocks, so that signals and lost connections are seen soon."""
_MONITOR_EVENT = struct.Struct("=Hi")  # by hand: pyzmq's own parser would import asyncio and ssl into each node
_CONNECT_AGAIN_S = 1.0
UNREAD_BYTES = 64 << 10
"""What may have come from a stranger beside these: handshakes and heartbeats, and what is on its way. An empty frame of
two bytes takes libzmq 64 to keep."""
LINGER_MS = 1000  # long enough for the last messages on a loaded host, short enough for an exit
_RECONNECT_MS = 50
_RECONNECT_MAX_MS = 250  # also what a start costs where one connects before the other listens
_HEARTBEATS_MISSED = 3
"""So many heartbeats without a sign of the other side are a lost connection."""
_LONGEST_MS = 10**9 // 2  # thrice that is still a number to libzmq
_HANDSHAKE_MS = 5000
"""How long somebody who has connected may take to say who it is: so long a silent stranger holds a descriptor."""
RECEIVE_QUEUE = 4
"""Messages of a stranger that may wait to be read, each of the largest size; with more its connection is closed. Who is
to become a member says a Hello at growing intervals, and nothing else."""
_SEND_QUEUE = 256
"""Messages for one connection that wait to be sent; more are dropped and asked for again."""
LOOK_S = 0.1
"""How often it is looked for connections on which too much has come."""
_TCP_BYTES_RECEIVED = struct.Struct("=128xQ")  # of Linux's struct tcp_info
NO_FD = -1
MORE_FOLLOWS, NO_WAIT = int(zmq.SNDMORE), int(zmq.NOBLOCK)
"""As plain integers: combining members of an enumeration costs as much as sending a frame."""


class Transport(Closing):
    """What both sides have in common: one socket, its monitor, and byte counts."""

    def __init__(self, kind: int, *, dim: int, max_vectors: int, timeouts: Timeouts, keys: Keyring | None) -> None:
        """
        Args:
            dim: How many float64 a vector has.
            max_vectors: How many vectors a message may have; frames behind them are not kept.
            keys: With them every connection is encrypted, and only nodes of the list are spoken to.
        """
        self.dim = dim
        self.max_vectors = max_vectors
        self.bytes_sent = 0
        self.bytes_received = 0
        self.sender = ""
        """The node whose key the connection has that the last message came from; empty without keys."""
        self.trouble = ""
        """Why the last attempt to connect has failed; empty where it did not."""
        self.rejected_by = ""
        """Where somebody listens who does not accept our key; empty where nobody does that."""
        self.also_waits_for: Callable[[], zmq.Socket[bytes] | int | None] | None = None
        """What ends a wait as well: a socket or descriptor with something to be read."""
        self._taken = 0
        """How long the frames of the last message were on the wire."""
        self._keys = keys
        self._max_frames = 2 + max_vectors  # one too many is enough to see that it is too much
        self._warnings: list[str] = []
        self._told: set[str] = set()
        self._let_in = 0
        """How many handshakes of those who connected here have succeeded."""
        self._failed_handshakes = 0
        """And how many have failed."""
        self._connected_to: set[str] = set()
        """What the monitor calls the other ends of connections made from here."""
        self._connect_again_at: float | None = None
        self._doorkeeper: curve.Doorkeeper | None = None
        self._context = zmq.Context()
        overhead = curve.OVERHEAD_BYTES if keys is not None else 0
        frame_limit = max(8 * dim * max_vectors, HEADER_LIMIT_BYTES) + overhead  # a frame may have all of a message
        self._unread_limit = RECEIVE_QUEUE * (HEADER_LIMIT_BYTES + max_vectors * overhead + frame_limit) + UNREAD_BYTES
        self._socket = _open_socket(self._context, kind, frame_limit, timeouts)
        self._monitor = _open_monitor(self._context, self._socket)
        self._send_frame = super(zmq.Socket, self._socket).send
        """Its `send` without what it looks at first: a third of the cost of a small frame."""

    def close(self) -> None:
        """Flush what is still to be sent, for at most a second, and let go of everything."""
        # The monitor's end must be closed by hand, or the context waits for it for ever.
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close()
        self._context.term()
        if self._doorkeeper is not None:
            self._doorkeeper.join()

    @property
    def waits_for(self) -> zmq.Socket[bytes]:
        """What becomes readable when a message has come."""
        return self._socket

    @property
    def has_keys(self) -> bool:
        return self._keys is not None

    def take_warnings(self) -> list[str]:
        """What a person should know of those who did not get in: each reason once."""
        taken, self._warnings = self._warnings, []
        return taken

    def _warn_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            detail = f" (key {self._doorkeeper.turned_away})" if self._doorkeeper and "key is not" in text else ""
            self._warnings.append(text + detail)

    def _wait(self, timeout_s: float) -> int | None:
        """Flags for a receive that waits so long, or None when nothing came in a wait too short to block in, or
        something came elsewhere."""
        if self.also_waits_for is not None and (other := self.also_waits_for()) is not None:
            milliseconds = min(max(0.0, timeout_s), SLICE_S) * 1000
            both = [(self._socket, zmq.POLLIN), (other, zmq.POLLIN)]
            ready: list[tuple[Any, int]] = zmq.zmq_poll(both, math.ceil(milliseconds))
            return NO_WAIT if any(one is self._socket for one, _ in ready) else None
        if timeout_s >= SLICE_S:
            return 0
        if timeout_s > 0.0 and not self._socket.poll(max(1, round(timeout_s * 1000))):
            return None
        return NO_WAIT

    def _rest(self, frame: zmq.Frame) -> list[bytes]:
        """The frames that follow this one in its message; of too many only so many that it can be seen."""
        # A frame says by itself whether more follow; asking the socket costs as much as receiving.
        rest: list[bytes] = []
        taken = 0
        receive, most = self._socket.recv, self._max_frames
        while frame.more:
            frame = receive(0, False)
            size = len(frame)
            taken += size + (2 if size < 256 else 9)
            if len(rest) < most:
                rest.append(frame.bytes)
        self._taken = taken
        return rest

    def _send(self, frames: Frames, flags: int = 0) -> None:
        """As send_multipart, at half its cost."""
        send, more = self._send_frame, flags | MORE_FOLLOWS
        for frame in frames[:-1]:
            send(frame, more)
        send(frames[-1], flags)

    def _monitor_events(self) -> list[tuple[int, int, str]]:
        """(event, value, where) of what happened to connections since the last call.

        The value is the file descriptor, but for a handshake, which has none.
        """
        events = []
        with contextlib.suppress(zmq.Again):
            while True:
                what, named = self._monitor.recv_multipart(zmq.NOBLOCK)
                event, value = _MONITOR_EVENT.unpack(what)
                where = named.decode(errors="replace")
                if event in curve.FAILED_HANDSHAKES:
                    self._on_failed_handshake(event, value, where)
                    continue
                if event == zmq.EVENT_CONNECTED:
                    self._connected_to.add(where)
                elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED and where in self._connected_to:
                    self.trouble = self.rejected_by = ""
                elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                    self._let_in += 1
                events.append((event, value, where))
        if self._connect_again_at is not None and time.monotonic() >= self._connect_again_at:
            self._connect_again_at = None
            self._connect_again()
        return events

    def _on_failed_handshake(self, event: int, value: int, where: str) -> None:
        if where not in self._connected_to:
            self._failed_handshakes += 1
            self._warn_once(
                f"refused a connection: {curve.why_refused(event, value, have_keys=self._keys is not None)}"
            )
            return
        self.trouble = curve.why_failed(event, where, self._keys)
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self.rejected_by = where
        if event != zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL and self._connect_again_at is None:
            # libzmq gives up such a connection for ever; who is there may be another tomorrow.
            self._connect_again_at = time.monotonic() + _CONNECT_AGAIN_S

    def _connect_again(self) -> None:
        """Connect anew what libzmq has given up."""
        raise NotImplementedError


def _open_socket(context: zmq.Context[Any], kind: int, frame_limit: int, timeouts: Timeouts) -> zmq.Socket[bytes]:
    """A socket with all limits of what may wait on it, and of how long.

    Args:
        frame_limit: The largest frame, in bytes.
    """
    opened: zmq.Socket[bytes] = context.socket(kind)
    opened.setsockopt(zmq.LINGER, LINGER_MS)
    opened.setsockopt(zmq.RCVTIMEO, round(SLICE_S * 1000))
    opened.setsockopt(zmq.MAXMSGSIZE, frame_limit)
    # No bound on what waits to be read: libzmq 4.3 ends the process by an assertion (!_io_error) where a connection
    # is lost whose queue is full, and a heartbeat is due. We close connections on which too much waits.
    opened.setsockopt(zmq.RCVHWM, 0)
    opened.setsockopt(zmq.SNDHWM, _SEND_QUEUE)
    opened.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
    opened.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
    opened.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
    heartbeat_ms = max(1, min(round(timeouts.heartbeat_s * 1000), _LONGEST_MS))
    opened.setsockopt(zmq.HEARTBEAT_IVL, heartbeat_ms)
    # It runs from the first question that is not answered, which is asked up to a heartbeat after the last sign.
    opened.setsockopt(zmq.HEARTBEAT_TIMEOUT, (_HEARTBEATS_MISSED - 1) * heartbeat_ms)
    # TCP would go on for minutes, ever more rarely, with an address where nobody is: begun anew the name is looked
    # up again, for the other side may be elsewhere now.
    opened.setsockopt(zmq.CONNECT_TIMEOUT, _HEARTBEATS_MISSED * heartbeat_ms)
    opened.setsockopt(zmq.TCP_KEEPALIVE, 1)
    return opened


def _open_monitor(context: zmq.Context[Any], watched: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
    """Where what happens to a socket's connections is read."""
    # Not ACCEPT_FAILED: where descriptors are short there are a million of these a second.
    events = zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
    for event in curve.FAILED_HANDSHAKES:
        events |= event
    watched.monitor("inproc://monitor", events)
    monitor: zmq.Socket[bytes] = context.socket(zmq.PAIR)
    # Without a limit: libzmq would wait for us to read, in the thread that serves all connections. It is read
    # several times a second.
    monitor.setsockopt(zmq.RCVHWM, 0)
    monitor.connect("inproc://monitor")
    return monitor


def hang_up(fd: int) -> None:
    """End a connection of libzmq, which then sees that the other side has gone, and closes it."""
    _with_connection(fd, lambda connection: connection.shutdown(socket.SHUT_RDWR))


def bytes_received_by(fd: int) -> int:
    """All that has come on a connection of TCP; 0 for others."""
    size = _TCP_BYTES_RECEIVED.size
    found = _with_connection(fd, lambda connection: connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, size))
    return _TCP_BYTES_RECEIVED.unpack(found)[0] if found and len(found) == size else 0


def _with_connection(fd: int, act: Callable[[socket.socket], _Result]) -> _Result | None:
    """Do something with a connection that is libzmq's; None where that cannot be, as it is closed meanwhile."""
    try:
        connection = socket.socket(fileno=fd)
    except OSError:
        return None
    try:
        return act(connection)
    except OSError:
        return None
    finally:
        connection.detach()


def property_of(frame: zmq.Frame, name: str) -> str:
    """What libzmq knows of the connection that a frame came from; empty where it does not."""
    try:
        return str(frame.get(name))
    except zmq.ZMQError:
        return ""


@functools.cache
def may_be_ipv6(endpoint: str) -> int:
    """Whether libzmq may look an endpoint up as IPv6, as its option wants it: 1 or 0.

    Where it may, it takes no IPv4 address of a name that has both, and most listen at 0.0.0.0 alone. So a name that
    has one is an IPv4 name; one that has none, or is not known yet, may be either. Names are asked for once: the
    network may be down when a connection is made again, and a node has other things to do than to wait for an answer.
    """
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    if "[" in host or not endpoint.startswith("tcp://"):
        return int("[" in host)
    try:
        return int(not socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM))
    except OSError:
        return 1


def size_of(frames: Frames) -> int:
    size = 0
    for frame in frames:
        size += len(frame) if type(frame) is bytes else memoryview(frame).nbytes
    return size


def wire_name(name: str) -> bytes:
    """No two processes share one."""
    return f"{name[:64]}/{secrets.token_hex(8)}".encode()


def numbered(name: bytes, connection: int) -> bytes:
    """The routing id of one of the connections of somebody."""
    return b"%b/%d" % (name, connection)
