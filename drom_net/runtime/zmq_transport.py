"""ROUTER to listen, DEALER to connect: frames in, frames out, and which connections are up.

Both classes block in `receive` on one socket, which is the cheapest way to wait. The socket monitor tells of
lost connections; a connection is known by its file descriptor, which libzmq also gives with each message.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import socket
import struct
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import zmq

from drom_net.errors import ClusterError
from drom_net.protocol.codec import HEADER_LIMIT_BYTES
from drom_net.protocol.node import REDUCER
from drom_net.protocol.settings import Timeouts

Frames = Sequence[bytes | memoryview]

SLICE_S = 0.1
"""The longest a receive blocks, so that signals and lost connections are seen soon."""
_MONITOR_EVENT = struct.Struct("=Hi")  # by hand: pyzmq's own parser would import asyncio and ssl into each node
_LINGER_MS = 1000  # long enough for the last messages on a loaded host, short enough for an exit
_RECONNECT_MS = 50
_RECONNECT_MAX_MS = 250  # also what a start costs where one connects before the other listens
_HEARTBEATS_MISSED = 3
"""So many heartbeats without a sign of the other side are a lost connection."""
_NO_FD = -1
_SNDMORE, _NOBLOCK = int(zmq.SNDMORE), int(zmq.NOBLOCK)
"""As plain integers: combining members of an enumeration costs as much as sending a frame."""


class _Transport:
    """What both sides have in common: one socket, its monitor, and byte counts."""

    def __init__(self, kind: int, *, dim: int, timeouts: Timeouts) -> None:
        self.bytes_sent = 0
        self.bytes_received = 0
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(kind)
        self._socket.setsockopt(zmq.LINGER, _LINGER_MS)
        self._socket.setsockopt(zmq.RCVTIMEO, round(SLICE_S * 1000))
        self._socket.setsockopt(zmq.MAXMSGSIZE, max(8 * dim, HEADER_LIMIT_BYTES))
        self._socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
        heartbeat_ms = max(1, round(timeouts.heartbeat_s * 1000))
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, heartbeat_ms)
        # It runs from the first question that is not answered, which is asked up to a heartbeat after the last sign.
        self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, (_HEARTBEATS_MISSED - 1) * heartbeat_ms)
        # TCP would go on for minutes, ever more rarely, with an address where nobody is: begun anew the name is looked
        # up again, for the other side may be elsewhere now.
        self._socket.setsockopt(zmq.CONNECT_TIMEOUT, _HEARTBEATS_MISSED * heartbeat_ms)
        self._socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        self._monitor = self._socket.get_monitor_socket(
            zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Flush what is still to be sent, for at most a second, and let go of everything."""
        # The monitor's end must be closed by hand, or the context waits for it for ever.
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close()
        self._context.term()

    def _wait(self, timeout_s: float) -> int | None:
        """Flags for a receive that waits so long, or None when nothing came in a wait too short to block in."""
        if timeout_s >= SLICE_S:
            return 0
        if timeout_s > 0.0 and not self._socket.poll(max(1, round(timeout_s * 1000))):
            return None
        return _NOBLOCK

    def _rest(self, frame: zmq.Frame) -> list[bytes]:
        """The frames that follow this one in its message."""
        # A frame says by itself whether more follow; asking the socket costs as much as receiving.
        rest = []
        while frame.more:
            frame = self._socket.recv(copy=False)
            rest.append(frame.bytes)
        return rest

    def _send(self, frames: Frames, flags: int = 0) -> None:
        """As send_multipart, at half its cost."""
        send, more = self._socket.send, flags | _SNDMORE
        last = len(frames) - 1
        for index, frame in enumerate(frames):
            send(frame, more if index < last else flags)

    def _monitor_events(self) -> list[tuple[int, int]]:
        """(event, value) of what happened to connections since the last call.

        The value is the file descriptor, but for a handshake, which has none.
        """
        events = []
        with contextlib.suppress(zmq.Again):
            while True:
                event, value = _MONITOR_EVENT.unpack(self._monitor.recv_multipart(zmq.NOBLOCK)[0])
                events.append((event, value))
        return events


class DealerTransport(_Transport):
    """A worker's side: connected to the reducer."""

    def __init__(self, endpoint: str, name: str, *, dim: int, timeouts: Timeouts) -> None:
        """
        Args:
            endpoint: Where the reducer is reached; it need not be there yet.
            name: For the routing id, which also has a random part: no two processes share one.
        """
        super().__init__(zmq.DEALER, dim=dim, timeouts=timeouts)
        self._socket.setsockopt(zmq.ROUTING_ID, _routing_id(name))
        if "[" in endpoint:
            self._socket.setsockopt(zmq.IPV6, 1)
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise ClusterError(f"cannot connect to {endpoint}: {os.strerror(error.errno or 0)}") from None

    def send(self, address: str, frames: Frames) -> None:
        self._send(frames)
        self.bytes_sent += _size(frames)

    def receive(self, timeout_s: float) -> tuple[str, list[bytes]] | None:
        """(who sent, frames), or None when nothing came in time (at most SLICE_S)."""
        flags = self._wait(timeout_s)
        if flags is None:
            return None
        try:
            frame = self._socket.recv(flags, copy=False)
        except zmq.Again:
            return None
        frames = [frame.bytes, *self._rest(frame)]
        self.bytes_received += _size(frames)
        return REDUCER, frames

    def connection_changes(self) -> list[tuple[str, bool]]:
        """(address, whether it is up now) for what changed since the last call."""
        wanted = (zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_DISCONNECTED)
        events = [event for event, _ in self._monitor_events() if event in wanted]
        return [(REDUCER, event == zmq.EVENT_HANDSHAKE_SUCCEEDED) for event in events]


class RouterTransport(_Transport):
    """The reducer's side, or a peer's: listening, and knowing each connection by the sender's routing id."""

    def __init__(self, bind: str, *, dim: int, timeouts: Timeouts, name: str = "reducer") -> None:
        super().__init__(zmq.ROUTER, dim=dim, timeouts=timeouts)
        self._socket.setsockopt(zmq.ROUTING_ID, _routing_id(name))
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # A worker that reconnects keeps its random routing id, and takes over from its own dead connection.
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        if "[" in bind:
            self._socket.setsockopt(zmq.IPV6, 1)
        self._fd_of: dict[str, int] = {}
        self._addresses_at: dict[int, set[str]] = {}
        """More than one where messages of a closed connection were read when its descriptor was in use again."""
        self._connected_fds: set[int] = set()
        self._changes: list[tuple[str, bool]] = []
        self._endpoint_of: dict[str, str] = {}
        """Where this one has connected to, by address."""
        self._bytes: dict[str, list[int]] = {}
        self.is_member: Callable[[str], bool] = lambda _: True
        """Whose bytes are still counted after their connection has gone; strangers come and go without end."""
        try:
            _refuse_ipc_in_use(bind)
            self._socket.bind(bind)
            self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
            """Where it listens, with the port that the system chose if it was to choose one."""
        except zmq.ZMQError as error:
            self.close()
            hint = ""
            if error.errno == errno.EADDRINUSE:
                hint = "; another process, perhaps a reducer of an earlier run, listens there"
            raise ClusterError(f"cannot listen on {bind}: {os.strerror(error.errno or 0)}{hint}") from None

    def connect(self, address: str, endpoint: str) -> None:
        """Also connect to another listener, which is then spoken to by this address.

        Raises:
            ClusterError: The endpoint is none.
        """
        if "[" in endpoint:
            self._socket.setsockopt(zmq.IPV6, 1)
        try:
            self._socket.setsockopt(zmq.CONNECT_ROUTING_ID, address.encode())
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            raise ClusterError(f"cannot connect to {endpoint}: {os.strerror(error.errno or 0)}") from None
        self._endpoint_of[address] = endpoint

    def close(self) -> None:
        """As above, but what is left for those who have gone, or never spoke, is dropped."""
        # libzmq keeps it for an endpoint that it connects to, and would wait for that one to come back.
        self._follow_connections()
        self._socket.setsockopt(zmq.LINGER, 0)
        for address, endpoint in self._endpoint_of.items():
            if address not in self._fd_of:
                self._socket.disconnect(endpoint)
        self._socket.setsockopt(zmq.LINGER, _LINGER_MS)
        super().close()

    def send(self, address: str, frames: Frames) -> None:
        """Send, or drop what cannot be sent: whoever misses it asks again."""
        try:
            # Not blocking: one peer that reads nothing must not hold up the others.
            self._send([address.encode("utf-8", "surrogateescape"), *frames], _NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (errno.EHOSTUNREACH, errno.EAGAIN):
                raise
            if error.errno == errno.EHOSTUNREACH and self._leave(address):
                self._changes.append((address, False))
            return
        size = _size(frames)
        self.bytes_sent += size
        if address in self._bytes:
            self._bytes[address][1] += size

    def receive(self, timeout_s: float) -> tuple[str, list[bytes]] | None:
        """(address of the sender, frames), or None when nothing came in time (at most SLICE_S)."""
        flags = self._wait(timeout_s)
        if flags is None:
            return None
        try:
            routing_id = self._socket.recv(flags, copy=False)
        except zmq.Again:
            return None
        frames = self._rest(routing_id)
        address = routing_id.bytes.decode("utf-8", "surrogateescape")
        try:
            fd = routing_id.get(zmq.SRCFD)
        except zmq.ZMQError:  # a stranger that speaks ZMTP 1 has none
            fd = _NO_FD
        if self._fd_of.get(address) != fd:
            self._met(address, fd)
        size = _size(frames)
        self.bytes_received += size
        self._bytes.setdefault(address, [0, 0])[0] += size
        return address, frames

    def bytes_by_peer(self, task_at: Callable[[str], int | None]) -> dict[int, tuple[int, int]]:
        """For each task, the bytes that came from it and the bytes that went to it."""
        found = ((task_at(address), sizes) for address, sizes in self._bytes.items())
        return {task: (sizes[0], sizes[1]) for task, sizes in found if task is not None}

    def connection_changes(self) -> list[tuple[str, bool]]:
        """(address, whether it is up now) for what changed since the last call."""
        self._follow_connections()
        taken, self._changes = self._changes, []
        return taken

    def _met(self, address: str, fd: int) -> None:
        """A first message on a connection."""
        # The number of a closed descriptor is used again: let go of its former owner before it gets a new one.
        self._follow_connections()
        self._leave(address)
        connected = fd in self._connected_fds
        if connected:
            self._fd_of[address] = fd
            self._addresses_at.setdefault(fd, set()).add(address)
        self._changes.append((address, connected))

    def _leave(self, address: str) -> bool:
        """Forget which connection an address has; whether it had one."""
        fd = self._fd_of.pop(address, _NO_FD)
        if fd == _NO_FD:
            return False
        self._addresses_at[fd].discard(address)
        return True

    def _follow_connections(self) -> None:
        for event, fd in self._monitor_events():
            if event in (zmq.EVENT_ACCEPTED, zmq.EVENT_CONNECTED):
                self._connected_fds.add(fd)
            elif event == zmq.EVENT_DISCONNECTED:
                self._connected_fds.discard(fd)
                for address in self._addresses_at.pop(fd, ()):
                    del self._fd_of[address]
                    self._changes.append((address, False))
                    if not self.is_member(address):
                        self._bytes.pop(address, None)


def _routing_id(name: str) -> bytes:
    """No two processes share one."""
    return f"{name[:64]}/{secrets.token_hex(8)}".encode()


def _refuse_ipc_in_use(endpoint: str) -> None:
    """libzmq takes over a path that another process listens on; here that is an error, as it is for a port.

    Raises:
        zmq.ZMQError: Somebody listens there (EADDRINUSE).
    """
    if not endpoint.startswith("ipc://"):
        return
    with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
        probe.connect(endpoint.removeprefix("ipc://"))
        raise zmq.ZMQError(errno.EADDRINUSE)


def _size(frames: Frames) -> int:
    size = 0
    for frame in frames:
        size += frame.nbytes if isinstance(frame, memoryview) else len(frame)
    return size
