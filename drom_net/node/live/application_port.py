"""A socket for applications, local or by TCP without keys. It speaks ZMTP 3.1 (NULL), and all that may come has bounds.

libzmq's own ends the process where descriptors run out, and keeps a message of many parts however long it is. Here
nothing is read before there is room for it: what is not read stays with who has sent it. All of it runs in the thread
of its caller, and none of it waits.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import socket
import stat
import struct
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import zmq

from drom_net.core.errors import ClusterError
from drom_net.transport.local_sockets import refuse_ipc_in_use
from drom_net.transport.router import connections_for_applications

_MECHANISM = b"NULL".ljust(20, b"\0")
_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + _MECHANISM + bytes(32)
_MORE, _LONG, _COMMAND = 1, 2, 4
_READY = b"\x05READY"
_PEERS = (b"DEALER", b"REQ", b"ROUTER")
_COMMAND_BYTES = 512
_FRAMES = 4
"""Of a message; one is right, and of some more it is said that they are wrong."""
_CHUNK_BYTES = 256 << 10
_STEPS = 64
"""So many pieces are read of a connection before others have their turn."""
_ACCEPTED_AT_ONCE = 16
_UNSENT_BYTES = 1 << 20
"""What waits to be sent on a connection; with more its next request waits."""
_LINGER_S = 1.0
_HANDSHAKE_S = 5.0
"""How long somebody who has connected may take to say who it is."""
_LOOK_S = 0.1
_GONE_AFTER_S = 20
"""On tcp: a machine that says nothing more for so long is gone."""
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_CREDENTIALS = struct.Struct("3i")
_SIOCGIFADDR = 0x8915  # of Linux


class _Connection:
    """Bytes to frames, and frames to messages."""

    def __init__(self, found: socket.socket, address: str) -> None:
        self.socket = found
        self.address = address
        self.unsent = bytearray(_GREETING)
        self.last_received = (False, 0.0)
        """Whether a message has come, and when the last one did, or it has connected."""
        self.events = select.EPOLLIN
        self.begun = 0.0
        """When the message began to come that is not whole yet."""
        self.size = 0
        """Bytes of it that are here."""
        self.stage = "greeting"
        self.buffer = bytearray()
        self.need = len(_GREETING)
        self.frames: list[bytes] = []
        self.asks = False
        """A message of it has not been answered yet."""

    @property
    def is_blocked(self) -> bool:
        """Whether it does not take its answers."""
        return len(self.unsent) > _UNSENT_BYTES


class ApplicationPort:
    """Messages of those who connect, and answers to them: one at a time of each connection."""

    def __init__(self, endpoint: str, *, message_bytes: int) -> None:
        """
        Args:
            endpoint: ipc://PATH, where the socket is for this user alone (mode 600), or tcp://ADDRESS:PORT.
            message_bytes: The longest message.

        Raises:
            zmq.ZMQError: Somebody listens there.
            OSError: It cannot listen there.
        """
        self.endpoint = endpoint
        self.closed = 0
        """How many connections were closed because there were too many, or because of what they sent."""
        self._limit = connections_for_applications()
        self._message_bytes = message_bytes
        self._connections: dict[int, _Connection] = {}
        self._by_address: dict[str, _Connection] = {}
        self._count = 0
        self._events: deque[tuple[int, int]] = deque()
        """Told and not looked at yet: their descriptors stay readable, so they also end a wait."""
        self._warnings: list[str] = []
        self._look_at = 0.0
        self._accepts = True
        """It waits for connections: not while it is short of descriptors and has none to close."""
        self._unread = 0
        """Bytes of messages that are not whole yet."""
        self._path = endpoint.removeprefix("ipc://") if endpoint.startswith("ipc://") else ""
        self._inode = 0
        family, address = (socket.AF_UNIX, None) if self._path else _address_of(endpoint)
        self._listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            if address is None:
                self._bind_path()
            else:
                self._bind(family, address)
            self._listener.listen(64)
        except BaseException:
            self._listener.close()
            raise
        self._epoll = select.epoll()
        self._epoll.register(self._listener, select.EPOLLIN)

    def _bind(self, family: socket.AddressFamily, address: tuple[Any, ...]) -> None:
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            self._listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self._listener.bind(address)
        host, port = self._listener.getsockname()[:2]
        self.endpoint = f"tcp://[{host}]:{port}" if family == socket.AF_INET6 else f"tcp://{host}:{port}"

    def _bind_path(self) -> None:
        refuse_ipc_in_use(self.endpoint)
        if self._path.startswith("@"):
            self._listener.bind("\0" + self._path[1:])
        else:
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISSOCK(os.lstat(self._path).st_mode):
                    raise FileExistsError(errno.EEXIST, "there is a file that is no socket")
                os.unlink(self._path)
            self._listener.bind(self._path)
            os.chmod(self._path, 0o600)  # before anybody can connect
            self._inode = os.stat(self._path).st_ino

    @property
    def waits_for(self) -> int:
        """What becomes readable when there is something to do."""
        return self._epoll.fileno()

    def close(self) -> None:
        """Send what is still to be sent, for at most a second, and let go of everything."""
        until = time.monotonic() + _LINGER_S
        for connection in self._connections.values():
            with contextlib.suppress(OSError):
                if connection.unsent and (left := until - time.monotonic()) > 0.0:
                    connection.socket.settimeout(left)
                    connection.socket.sendall(connection.unsent)
            connection.socket.close()
        self._connections.clear()
        self._listener.close()
        self._epoll.close()
        with contextlib.suppress(OSError):
            if self._inode and os.lstat(self._path).st_ino == self._inode:
                os.unlink(self._path)

    def receive(self) -> tuple[str, list[bytes]] | None:
        """(who asks, the frames of a message), or None where nobody does. It is to be answered."""
        if (now := time.monotonic()) >= self._look_at:
            self._look_at = now + _LOOK_S
            self._look(now)
        if not self._events:
            self._events.extend(self._epoll.poll(0))
        while self._events:
            if (received := self._serve(*self._events.popleft())) is not None:
                return received
        return None

    def _look(self, now: float) -> None:
        if not self._accepts:
            self._accepts = True
            self._epoll.modify(self._listener, select.EPOLLIN)
        for connection in list(self._connections.values()):
            if connection.stage in ("greeting", "ready") and now >= connection.last_received[1] + _HANDSHAKE_S:
                self._turn_away(connection, f"no handshake within {_HANDSHAKE_S:g} s")

    def take_warnings(self) -> list[str]:
        """What a person should know, once."""
        taken, self._warnings = self._warnings, []
        return taken

    def send(self, address: str, frames: Sequence[bytes]) -> None:
        """Answer; who has gone gets none."""
        connection = self._by_address.get(address)
        if connection is None:
            return
        connection.asks = False
        for place, frame in enumerate(frames):
            connection.unsent += _framed(frame, _MORE if place < len(frames) - 1 else 0)
        self._flush(connection)

    def _serve(self, fd: int, events: int) -> tuple[str, list[bytes]] | None:
        if fd == self._listener.fileno():
            self._accept()
            return None
        connection = self._connections.get(fd)
        if connection is None:  # closed meanwhile
            return None
        try:
            if events & select.EPOLLOUT:
                self._flush(connection)
            if events & ~select.EPOLLOUT and (frames := self._read(connection)) is not None:
                return connection.address, frames
            if events & (select.EPOLLHUP | select.EPOLLERR) and connection.is_blocked:
                self._close(connection)
        except _BadBytes:
            self._turn_away(connection, "what it said is no message of ZeroMQ, or too long")
        except OSError:
            self._close(connection)
        return None

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                found, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _SHORT and self._connections:
                    self._close_the_quietest()
                elif error.errno in _SHORT:
                    self._accepts = False
                    self._epoll.modify(self._listener, 0)
                return  # else that one is gone again
            if self._path.startswith("@") and not _is_ours(found):  # such a name has no mode
                found.close()
                continue
            if len(self._connections) >= self._limit:
                self._close_the_quietest()
            found.setblocking(False)
            if not self._path:
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _GONE_AFTER_S // 2)
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _GONE_AFTER_S // 4)
            self._count += 1
            connection = _Connection(found, str(self._count))
            connection.last_received = (False, time.monotonic())
            self._connections[found.fileno()] = self._by_address[connection.address] = connection
            self._epoll.register(found, connection.events)
            self._flush(connection)

    def _close_the_quietest(self) -> None:
        """Of those that never said anything first."""
        if self._connections:
            quietest = min(self._connections.values(), key=lambda connection: connection.last_received)
            self._turn_away(quietest, f"there are more than {self._limit}")

    def _read(self, connection: _Connection) -> list[bytes] | None:
        """The frames of a message, once all of it is here."""
        for _ in range(_STEPS):
            if connection.asks or connection.is_blocked:
                return None
            try:
                data = connection.socket.recv(min(connection.need - len(connection.buffer), _CHUNK_BYTES))
            except BlockingIOError:
                return None
            if not data:
                raise ConnectionResetError
            connection.buffer += data
            if not connection.size:
                connection.begun = time.monotonic()
            connection.size += len(data)
            self._unread += len(data)
            if len(connection.buffer) == connection.need and (frames := self._step(connection)) is not None:
                return frames
            while self._unread > 4 * self._message_bytes:
                oldest = min((one for one in self._connections.values() if one.size), key=lambda one: one.begun)
                self._turn_away(oldest, "more came than can be read")
                if oldest is connection:
                    return None
        return None

    def _step(self, connection: _Connection) -> list[bytes] | None:
        """What follows from what was needed, and is here: the frames of a message if that was the last of it."""
        buffer = connection.buffer
        if connection.stage == "greeting":
            if buffer[0] != 0xFF or buffer[9] != 0x7F or buffer[10] < 3 or buffer[12:32] != _MECHANISM:
                raise _BadBytes
            connection.unsent += _framed(
                _READY + _property(b"Socket-Type", b"ROUTER") + _property(b"Identity", b""), _COMMAND
            )
            self._flush(connection)
            self._begin(connection, "ready")
            return None
        flags = buffer[0]
        head = 9 if flags & _LONG else 2
        if len(buffer) < head:
            connection.need = head
            return None
        size = int.from_bytes(buffer[1:head])
        if len(buffer) == head:
            most = self._message_bytes - sum(map(len, connection.frames))
            if flags & _COMMAND:
                most = _COMMAND_BYTES
            elif connection.stage == "ready":
                raise _BadBytes
            if flags > 7 or size > most:
                raise _BadBytes
            connection.need += size
            if size:
                return None
        frame = bytes(memoryview(buffer)[head:])
        if flags & _COMMAND:
            self._command(connection, frame)
            return None
        connection.frames.append(frame)
        if len(connection.frames) > _FRAMES:
            raise _BadBytes
        if flags & _MORE:
            connection.buffer = bytearray()
            connection.need = 2
            return None
        frames, connection.frames = connection.frames, []
        self._begin(connection, "open")
        connection.last_received = (True, time.monotonic())
        connection.asks = True
        return frames

    def _command(self, connection: _Connection, command: bytes) -> None:
        if connection.stage == "ready":
            if not command.startswith(_READY) or _socket_type(command) not in _PEERS:
                raise _BadBytes
            connection.stage = "open"
        elif command.startswith(b"\x04PING"):
            connection.unsent += _framed(b"\x04PONG" + command[7:23], _COMMAND)
            self._flush(connection)
        size = sum(map(len, connection.frames))  # a command may stand between two of them
        self._unread -= connection.size - size
        connection.size = size
        connection.buffer = bytearray()
        connection.need = 2

    def _begin(self, connection: _Connection, stage: str) -> None:
        self._unread -= connection.size
        connection.size = 0
        connection.stage = stage
        connection.buffer = bytearray()
        connection.need = 2

    def _flush(self, connection: _Connection) -> None:
        try:
            if connection.unsent:
                sent = connection.socket.send(connection.unsent)
                del connection.unsent[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._close(connection)
            return
        events = (select.EPOLLOUT if connection.unsent else 0) | (0 if connection.is_blocked else select.EPOLLIN)
        if events != connection.events:
            connection.events = events
            self._epoll.modify(connection.socket, events)

    def _turn_away(self, connection: _Connection, why: str) -> None:
        self._close(connection)
        if not self.closed:
            self._warnings.append(f"closed a connection to {self.endpoint}: {why}; further ones are not told")
        self.closed += 1

    def _close(self, connection: _Connection) -> None:
        if self._by_address.pop(connection.address, None) is None:
            return
        self._unread -= connection.size
        connection.size = 0
        del self._connections[connection.socket.fileno()]
        connection.socket.close()  # epoll lets go of it by itself


class _BadBytes(Exception):
    """What has come is not ZMTP, or more than is allowed."""


def listen_failed(endpoint: str, error: OSError | zmq.ZMQError) -> ClusterError:
    """What is said where nobody can listen at an endpoint."""
    why = error.strerror or str(error)
    hint = "; another process listens there" if error.errno == errno.EADDRINUSE else ""
    return ClusterError(f"cannot listen for applications on {endpoint}: {why}{hint}")


def _address_of_interface(name: str) -> str:
    """Raises OSError: it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
    return socket.inet_ntoa(answer[20:24])


def _address_of(endpoint: str) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    """Of tcp://ADDRESS:PORT, where the address may be a name, `*`, an interface, or of version 6 in brackets.

    Raises:
        OSError: There is no such address.
    """
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if host in [name for _, name in socket.if_nameindex()]:
        host = _address_of_interface(host)
    wanted = socket.AF_INET if host == "*" else socket.AF_UNSPEC
    name = None if host == "*" else host
    found = socket.getaddrinfo(name, port, wanted, socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # Of a name that has both the older kind, as the client takes it.
    family, _, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    return family, address


def _framed(body: bytes, flags: int) -> bytes:
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | _LONG]) + len(body).to_bytes(8) + body


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + len(value).to_bytes(4) + value


def _socket_type(ready: bytes) -> bytes:
    """Of a peer, as its READY says; empty where it does not."""
    at = len(_READY)
    while at < len(ready):
        name = ready[at + 1 : at + 1 + ready[at]]
        at += 1 + ready[at]
        size = int.from_bytes(ready[at : at + 4])
        if name.lower() == b"socket-type":
            return ready[at + 4 : at + 4 + size]
        at += 4 + size
    return b""


def _is_ours(connection: socket.socket) -> bool:
    """Whether it is of this user, or of root."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(found)[1] in (os.geteuid(), 0)
