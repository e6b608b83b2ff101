"""ROUTER to listen, DEALER to connect: frames in, frames out, and which connections are up.

Both classes block in `receive` on one socket, which is the cheapest way to wait. The socket monitor tells of
lost connections; a connection is known by its file descriptor, which libzmq also gives with each message.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import math
import os
import resource
import secrets
import socket
import stat
import struct
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import zmq

from drom_net.core.errors import ClusterError, UsageError
from drom_net.protocol.codec import HEADER_LIMIT_BYTES
from drom_net.protocol.node import REDUCER
from drom_net.protocol.settings import Timeouts
from drom_net.transport import curve
from drom_net.transport.keys import Keyring

Frames = Sequence[bytes | memoryview]
_Result = TypeVar("_Result")

SLICE_S = 0.1
"""The longest a receive blocks, so that signals and lost connections are seen soon."""
_MONITOR_EVENT = struct.Struct("=Hi")  # by hand: pyzmq's own parser would import asyncio and ssl into each node
_LINGER_MS = 1000  # long enough for the last messages on a loaded host, short enough for an exit
_RECONNECT_MS = 50
_RECONNECT_MAX_MS = 250  # also what a start costs where one connects before the other listens
_HEARTBEATS_MISSED = 3
"""So many heartbeats without a sign of the other side are a lost connection."""
_LONGEST_MS = 10**9 // 2  # thrice that is still a number to libzmq
_HANDSHAKE_MS = 5000
"""How long somebody who has connected may take to say who it is: so long a silent stranger holds a descriptor."""
_CONNECT_AGAIN_S = 1.0
_RECEIVE_QUEUE = 4
"""Messages of a stranger that may wait to be read, each of the largest size; with more its connection is closed. Who is
to become a member says a Hello at growing intervals, and nothing else."""
_SEND_QUEUE = 256
"""Messages for one connection that wait to be sent; more are dropped and asked for again."""
_SEND_QUEUE_OF_APPLICATIONS = 16
_STRANGERS = 256
"""How many connections there may be, beside two for each member: that which it has, and one that is dead and not yet
known to be."""
_DESCRIPTORS_KEPT = 64
"""Those that a node may need for itself."""
_UNREAD_BYTES = 64 << 10
"""What may have come from a stranger beside these: handshakes and heartbeats, and what is on its way. An empty frame of
two bytes takes libzmq 64 to keep."""
_UNREAD_LIMITS = 4
"""All strangers together may have so many times of what one may."""
_LOOK_S = 0.1
"""How often it is looked for connections on which too much has come."""
_TCP_BYTES_RECEIVED = struct.Struct("=128xQ")  # of Linux's struct tcp_info
_NO_FD = -1
_SNDMORE, _NOBLOCK = int(zmq.SNDMORE), int(zmq.NOBLOCK)
"""As plain integers: combining members of an enumeration costs as much as sending a frame."""


class _Transport:
    """What both sides have in common: one socket, its monitor, and byte counts."""

    def __init__(self, kind: int, *, dim: int, max_vectors: int, timeouts: Timeouts, keys: Keyring | None) -> None:
        """
        Args:
            max_vectors: How many vectors a message may have; frames behind them are not kept.
            keys: With them every connection is encrypted, and only nodes of the list are spoken to.
        """
        self.bytes_sent = 0
        self.bytes_received = 0
        self.speaker = ""
        """The node whose key the connection has that the last message came from; empty without keys."""
        self.trouble = ""
        """Why the last attempt to connect has failed; empty where it did not."""
        self.rejected_by = ""
        """Where somebody listens who does not accept our key; empty where nobody does that."""
        self.also_waits_for: Callable[[], zmq.Socket[bytes] | int | None] = lambda: None
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
        self._socket: zmq.Socket[bytes] = self._context.socket(kind)
        self._socket.setsockopt(zmq.LINGER, _LINGER_MS)
        self._socket.setsockopt(zmq.RCVTIMEO, round(SLICE_S * 1000))
        overhead = curve.OVERHEAD_BYTES if keys is not None else 0
        frame_limit = max(8 * dim * max_vectors, HEADER_LIMIT_BYTES) + overhead  # a frame may have all of a message
        self._unread_limit = (
            _RECEIVE_QUEUE * (HEADER_LIMIT_BYTES + max_vectors * overhead + frame_limit) + _UNREAD_BYTES
        )
        self._socket.setsockopt(zmq.MAXMSGSIZE, frame_limit)
        # No bound on what waits to be read: libzmq 4.3 ends the process by an assertion (!_io_error) where a connection
        # is lost whose queue is full, and a heartbeat is due. We close connections on which too much waits.
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self._socket.setsockopt(zmq.SNDHWM, _SEND_QUEUE)
        self._socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        self._socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
        heartbeat_ms = max(1, min(round(timeouts.heartbeat_s * 1000), _LONGEST_MS))
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, heartbeat_ms)
        # It runs from the first question that is not answered, which is asked up to a heartbeat after the last sign.
        self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, (_HEARTBEATS_MISSED - 1) * heartbeat_ms)
        # TCP would go on for minutes, ever more rarely, with an address where nobody is: begun anew the name is looked
        # up again, for the other side may be elsewhere now.
        self._socket.setsockopt(zmq.CONNECT_TIMEOUT, _HEARTBEATS_MISSED * heartbeat_ms)
        self._socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        # Not ACCEPT_FAILED: where descriptors are short there are a million of these a second.
        events = zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        for event in curve.FAILED_HANDSHAKES:
            events |= event
        self._socket.monitor("inproc://monitor", events)
        self._monitor: zmq.Socket[bytes] = self._context.socket(zmq.PAIR)
        # Without a limit: libzmq would wait for us to read, in the thread that serves all connections. It is read
        # several times a second.
        self._monitor.setsockopt(zmq.RCVHWM, 0)
        self._monitor.connect("inproc://monitor")

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
        if (other := self.also_waits_for()) is not None:
            milliseconds = min(max(0.0, timeout_s), SLICE_S) * 1000
            both = [(self._socket, zmq.POLLIN), (other, zmq.POLLIN)]
            ready: list[tuple[Any, int]] = zmq.zmq_poll(both, math.ceil(milliseconds))
            return _NOBLOCK if any(one is self._socket for one, _ in ready) else None
        if timeout_s >= SLICE_S:
            return 0
        if timeout_s > 0.0 and not self._socket.poll(max(1, round(timeout_s * 1000))):
            return None
        return _NOBLOCK

    def _rest(self, frame: zmq.Frame) -> list[bytes]:
        """The frames that follow this one in its message; of too many only so many that it can be seen."""
        # A frame says by itself whether more follow; asking the socket costs as much as receiving.
        rest: list[bytes] = []
        taken = 0
        while frame.more:
            frame = self._socket.recv(copy=False)
            size = len(frame)
            taken += size + (2 if size < 256 else 9)
            if len(rest) < self._max_frames:
                rest.append(frame.bytes)
        self._taken = taken
        return rest

    def _send(self, frames: Frames, flags: int = 0) -> None:
        """As send_multipart, at half its cost."""
        send, more = self._socket.send, flags | _SNDMORE
        last = len(frames) - 1
        for index, frame in enumerate(frames):
            send(frame, more if index < last else flags)

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


class DealerTransport(_Transport):
    """A worker's side: connected to the reducer."""

    def __init__(
        self,
        endpoint: str,
        name: str,
        *,
        dim: int,
        max_vectors: int,
        timeouts: Timeouts,
        keys: Keyring | None = None,
    ) -> None:
        """
        Args:
            endpoint: Where the reducer is reached; it need not be there yet.
            name: For the routing id, which also has a random part: no two processes share one.
        """
        super().__init__(zmq.DEALER, dim=dim, max_vectors=max_vectors, timeouts=timeouts, keys=keys)
        self._endpoint = endpoint
        self._name = _routing_id(name)
        self._connections = 0
        self.unsettled = False
        """The connection is down, as far as it was told."""
        self._unread: deque[list[bytes]] = deque()
        """What came on a connection that was lost since."""
        self._socket.setsockopt(zmq.IPV6, _may_be_ipv6(endpoint))
        if keys is not None:
            curve.connect(self._socket, keys, REDUCER)
        try:
            self._connect()
        except zmq.ZMQError as error:
            self.close()
            raise ClusterError(f"cannot connect to {endpoint}: {os.strerror(error.errno or 0)}") from None

    def send(self, address: str, frames: Frames) -> None:
        """Send, or drop what cannot be sent: whoever misses it asks again."""
        with contextlib.suppress(zmq.Again):  # not blocking: where nobody is there the queue is full one day
            self._send(frames, _NOBLOCK)
            self.bytes_sent += _size(frames)

    def receive(self, timeout_s: float) -> tuple[str, list[bytes]] | None:
        """(who sent, frames), or None when nothing came in time (at most SLICE_S)."""
        frames = self._unread.popleft() if self._unread else self._read(self._wait(timeout_s))
        if frames is None:
            return None
        self.bytes_received += _size(frames)
        return REDUCER, frames

    def _read(self, flags: int | None) -> list[bytes] | None:
        if flags is None:
            return None
        try:
            frame = self._socket.recv(flags, copy=False)
        except zmq.Again:
            return None
        return [frame.bytes, *self._rest(frame)]

    def connection_changes(self) -> list[tuple[str, bool]]:
        """(address, whether it is up now) for what changed since the last call."""
        events = [event for event, _, _ in self._monitor_events()]
        if zmq.EVENT_DISCONNECTED in events:
            self._connect_again()
            self.unsettled = True
            return [(REDUCER, False)]
        if zmq.EVENT_HANDSHAKE_SUCCEEDED not in events:
            return []
        self.unsettled = False
        return [(REDUCER, True)]

    def _connect_again(self) -> None:
        # What is not read yet would be gone with the old connection, such as the last word of a reducer that has ended.
        while len(self._unread) < _RECEIVE_QUEUE and (frames := self._read(_NOBLOCK)) is not None:
            self._unread.append(frames)
        with contextlib.suppress(zmq.ZMQError):
            self._socket.disconnect(self._endpoint)
        self._connect()

    def _connect(self) -> None:
        self._connections += 1
        self._socket.setsockopt(zmq.ROUTING_ID, _numbered(self._name, self._connections))
        self._socket.connect(self._endpoint)


class _Message(NamedTuple):
    """As it was read from a ROUTER."""

    routing_id: zmq.Frame
    frames: list[bytes]
    taken: int
    """How many bytes it had on its connection."""
    address: str | None
    """Of whom this one has connected to; None of all others."""


class RouterTransport(_Transport):
    """The reducer's side, or a peer's: listening, and knowing each connection by the sender's routing id."""

    def __init__(
        self,
        bind: str,
        *,
        dim: int,
        max_vectors: int,
        timeouts: Timeouts,
        name: str = REDUCER,
        members: Collection[str] = (),
        keys: Keyring | None = None,
        for_applications: bool = False,
    ) -> None:
        """
        Args:
            members: Those who may join, as their keys call them.
            for_applications: All are strangers, who come and go, and get an answer each time.

        Raises:
            UsageError: There is a file of the socket's name.
            ClusterError: It cannot listen there.
        """
        require_no_file_at(bind)
        super().__init__(zmq.ROUTER, dim=dim, max_vectors=max_vectors, timeouts=timeouts, keys=keys)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # Not ROUTER_HANDOVER: libzmq 4.3 ends the process by an assertion where something comes on a connection that
        # another has taken over from, and a heartbeat is due. So each connection has a routing id of its own.
        self._name = _routing_id(name)
        self._connections = 0
        if "[" in bind:
            self._socket.setsockopt(zmq.IPV6, 1)
        self._fd_of: dict[str, int] = {}
        self._addresses_at: dict[int, set[str]] = {}
        """More than one where messages of a closed connection were read when its descriptor was in use again."""
        self._connected_fds: set[int] = set()
        self._not_known: dict[int, None] = {}
        """Connections that came from outside, oldest first, but for those found to be a member's."""
        self._read_at: dict[int, int] = {}
        """How many bytes of messages were read from each of these."""
        self._look_at = 0.0
        self._accepted = 0
        if for_applications:
            self._socket.setsockopt(zmq.SNDHWM, _SEND_QUEUE_OF_APPLICATIONS)
        self._silent: set[int] = set()
        """Connections from outside on which nothing has been said yet."""
        self.refused_handshakes = 0
        """How many who connected here did not get through the handshake."""
        self._connections_limit = (
            connections_for_applications() if for_applications else _connections_limit(len(members))
        )
        self._answers_all = for_applications
        self._answers_left = self._connections_limit
        """How much strangers may still be answered in this second."""
        self._answers_until = 0.0
        self.closed_strangers = 0
        """How many connections were closed because there were too many, or because they sent without an end."""
        self._changes: list[tuple[str, bool]] = []
        self._endpoint_of: dict[str, tuple[str, str]] = {}
        """Where this one has connected to, and whom it expects there, by address."""
        self._wire_of: dict[str, bytes] = {}
        """The routing id by which libzmq knows an address, of its latest connection."""
        self._address_at: dict[bytes, str] = {}
        """And back, of those that this one has connected to."""
        self._connected_at: dict[str, str] = {}
        """Their addresses by what the monitor calls the other end."""
        self._unread: deque[_Message] = deque()
        """What had come when a connection made from here was lost."""
        self._bytes: dict[str, list[int]] = {}
        self.is_member: Callable[[str], bool] = lambda _: True
        """Who is no stranger: those come and go without end, so little is kept of them and they get few answers."""
        self.was_member: Callable[[str], bool] = lambda _: False
        """Whose bytes count, though others have taken its place."""
        try:
            refuse_ipc_in_use(bind)
            if keys is not None:
                self._doorkeeper = curve.Doorkeeper(self._context, keys, members)
                curve.listen(self._socket, keys)
            self._socket.bind(bind)
            self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
            """Where it listens, with the port that the system chose if it was to choose one."""
            if self.endpoint.startswith("ipc://") and "@" not in self.endpoint[:7]:
                os.chmod(self.endpoint.removeprefix("ipc://"), 0o600)
        except zmq.ZMQError as error:
            self.close()
            hint = ""
            if error.errno == errno.EADDRINUSE:
                hint = "; another process, perhaps a reducer of an earlier run, listens there"
            raise ClusterError(f"cannot listen on {bind}: {os.strerror(error.errno or 0)}{hint}") from None

    def connect(self, address: str, endpoint: str, name: str = "") -> None:
        """Also connect to another listener, which is then spoken to by this address.

        Args:
            name: Whose key it must have, with keys.

        Raises:
            ClusterError: The endpoint is none.
        """
        self._socket.setsockopt(zmq.IPV6, _may_be_ipv6(endpoint))
        # Not the address itself: whoever can guess a routing id can take it over.
        wire = _routing_id(address)
        self._connections += 1
        self._socket.setsockopt(zmq.ROUTING_ID, _numbered(self._name, self._connections))
        if self._keys is not None:
            curve.connect(self._socket, self._keys, name)
        try:
            self._socket.setsockopt(zmq.CONNECT_ROUTING_ID, wire)
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            raise ClusterError(f"cannot connect to {endpoint}: {os.strerror(error.errno or 0)}") from None
        self._endpoint_of[address] = endpoint, name
        self._address_at.pop(self._wire_of.get(address, b""), None)
        self._wire_of[address] = wire
        self._address_at[wire] = address
        self._connected_at[self._socket.getsockopt_string(zmq.LAST_ENDPOINT)] = address

    def _connect_again(self) -> None:
        for address in self._endpoint_of:
            if address not in self._fd_of:
                self._connect_anew(address)

    def _connect_anew(self, address: str) -> None:
        endpoint, name = self._endpoint_of[address]
        # What is not read yet would be gone with the old connection. It may be behind what others have said.
        most = _RECEIVE_QUEUE * max(1, len(self._connected_fds))
        while len(self._unread) < most and (message := self._read(_NOBLOCK)) is not None:
            self._unread.append(message)
        with contextlib.suppress(zmq.ZMQError):
            self._socket.disconnect(endpoint)
        self.connect(address, endpoint, name)

    def close(self) -> None:
        """As above, but what is left for those who have gone, or never spoke, is dropped."""
        # libzmq keeps it for an endpoint that it connects to, and would wait for that one to come back.
        self._follow_connections()
        self._socket.setsockopt(zmq.LINGER, 0)
        for address, (endpoint, _) in self._endpoint_of.items():
            if address not in self._fd_of:
                with contextlib.suppress(zmq.ZMQError):
                    self._socket.disconnect(endpoint)
        self._socket.setsockopt(zmq.LINGER, _LINGER_MS)
        super().close()

    def send(self, address: str, frames: Frames) -> None:
        """Send, or drop what cannot be sent: whoever misses it asks again."""
        if not self.is_member(address) and not self._may_answer_a_stranger():
            return
        wire = self._wire_of.get(address)
        if wire is None:
            return  # its connection is gone
        try:
            # Not blocking: one peer that reads nothing must not hold up the others.
            self._send([wire, *frames], _NOBLOCK)
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
        message = self._unread.popleft() if self._unread else self._read(self._wait(timeout_s))
        if message is None:
            return None
        routing_id, frames, taken, address = message
        wire = routing_id.bytes
        ours = address is not None
        if address is None:
            address = _name_of(wire).decode("utf-8", "surrogateescape")
            if address in self._endpoint_of:
                address = f"?{address}"  # it calls itself as we call a neighbor
        if self._keys is not None:
            # Anew for each message: a descriptor and a routing id may be another's by now.
            self.speaker = self._endpoint_of[address][1] if ours else _property(routing_id, curve.USER_ID)
        try:
            fd = routing_id.get(zmq.SRCFD)
        except zmq.ZMQError:  # a stranger that speaks ZMTP 1 has none
            fd = _NO_FD
        if fd in self._not_known:
            self._read_at[fd] = self._read_at.get(fd, 0) + taken
        if ours and self._wire_of[address] != wire:
            pass  # its connection was lost, and made anew, since it came
        elif self._fd_of.get(address) != fd or self._wire_of[address] != wire:  # a descriptor is soon in use again
            if address in self._fd_of and _number_of(wire) < _number_of(self._wire_of[address]):
                return None  # said on a connection that another has taken the place of
            self._met(address, fd, wire)
        size = _size(frames)
        self.bytes_received += size
        if address in self._fd_of or self.is_member(address):  # what comes of a closed connection is soon forgotten
            self._bytes.setdefault(address, [0, 0])[0] += size
        return address, frames

    def _read(self, flags: int | None) -> _Message | None:
        if flags is None:
            return None
        try:
            routing_id = self._socket.recv(flags, copy=False)
        except zmq.Again:
            return None
        frames = self._rest(routing_id)
        return _Message(routing_id, frames, self._taken, self._address_at.get(routing_id.bytes))

    def bytes_by_peer(self, task_at: Callable[[str], int | None]) -> dict[int, tuple[int, int]]:
        """For each task, the bytes that came from it and the bytes that went to it, from all of its addresses."""
        found: dict[int, tuple[int, int]] = {}
        for address, (came, went) in self._bytes.items():
            if (task := task_at(address)) is not None:
                before = found.get(task, (0, 0))
                found[task] = before[0] + came, before[1] + went
        return found

    def connection_changes(self) -> list[tuple[str, bool]]:
        """(address, whether it is up now) for what changed since the last call."""
        self._follow_connections()
        if (now := time.monotonic()) >= self._look_at:
            self._look_at = now + _LOOK_S
            self._close_the_endless()
        taken, self._changes = self._changes, []
        return taken

    @property
    def unsettled(self) -> bool:
        return bool(self._changes)

    def _met(self, address: str, fd: int, wire: bytes) -> None:
        """A first message on a connection."""
        # The number of a closed descriptor is used again: let go of its former owner before it gets a new one.
        self._follow_connections()
        former = self._fd_of.get(address)
        if former is not None and former != fd and _name_of(wire) != wire:
            _hang_up(former)  # whoever has connected anew needs its old connection no more
        self._leave(address)
        connected = fd in self._connected_fds
        if connected:
            self._fd_of[address] = fd
            self._wire_of[address] = wire
            self._silent.discard(fd)
            self._addresses_at.setdefault(fd, set()).add(address)
        self._changes.append((address, connected))

    def _leave(self, address: str) -> bool:
        """Forget which connection an address has; whether it had one."""
        fd = self._fd_of.pop(address, _NO_FD)
        if fd == _NO_FD:
            return False
        self._addresses_at[fd].discard(address)
        self._forget(address)
        return True

    def _forget(self, address: str) -> None:
        """Let go of what is kept only as long as it has a connection."""
        if address not in self._endpoint_of:
            self._wire_of.pop(address, None)
        if not (self.is_member(address) or self.was_member(address)):
            self._bytes.pop(address, None)

    def _follow_connections(self) -> None:
        again = []
        for event, fd, where in self._monitor_events():
            if event in (zmq.EVENT_ACCEPTED, zmq.EVENT_CONNECTED):
                self._connected_fds.add(fd)
                if event == zmq.EVENT_ACCEPTED:
                    self._accepted += 1
                    self._silent.add(fd)
                    self._not_known.pop(fd, None)
                    self._not_known[fd] = None
                    self._read_at.pop(fd, None)
            elif event == zmq.EVENT_DISCONNECTED:
                self._connected_fds.discard(fd)
                self._silent.discard(fd)
                self._not_known.pop(fd, None)
                self._read_at.pop(fd, None)
                for address in self._addresses_at.pop(fd, ()):
                    del self._fd_of[address]
                    self._forget(address)
                    self._changes.append((address, False))
                if where in self._connected_at:
                    again.append(self._connected_at[where])
        for address in again:
            self._connect_anew(address)
        self._count_refused()
        if len(self._connected_fds) > self._connections_limit:
            self._close_the_oldest()

    def _count_refused(self) -> None:
        # Not all who fail have an event of it: libzmq just closes the connection of who speaks another protocol.
        refused = self._accepted - self._let_in - len(self._silent)
        if refused > self._failed_handshakes:
            self._warn_once("refused a connection: what it says is no handshake of ZeroMQ")
        self.refused_handshakes = max(self.refused_handshakes, self._failed_handshakes, refused)

    def _close_the_oldest(self) -> None:
        """Of those that are no member's: else strangers that come and stay could use up all descriptors."""
        while len(self._connected_fds) > self._connections_limit and self._not_known:
            fd = next(iter(self._not_known))
            del self._not_known[fd]
            if any(self.is_member(address) for address in self._addresses_at.get(fd, ())):
                continue
            self._close(fd, f"closing connections of strangers: there are more than {self._connections_limit}")

    def _close_the_endless(self) -> None:
        """Of strangers whose message has no end, or who say more than is read: libzmq keeps all that has come."""
        unread: dict[int, int] = {}
        for fd in self._not_known:
            if not any(self.is_member(address) for address in self._addresses_at.get(fd, ())):
                unread[fd] = _bytes_received(fd) - self._read_at.get(fd, 0)
        total = sum(size for size in unread.values() if size > _UNREAD_BYTES)
        for fd, size in sorted(unread.items(), key=lambda item: -item[1]):
            if size <= self._unread_limit and total <= _UNREAD_LIMITS * self._unread_limit:
                return
            total -= size
            self._close(fd, "closed a connection of a stranger: more came on it than can be read")

    def _close(self, fd: int, why: str) -> None:
        _hang_up(fd)
        self._not_known.pop(fd, None)
        self._connected_fds.discard(fd)  # its event comes when libzmq has seen it
        self.closed_strangers += 1
        self._warn_once(why)

    def _may_answer_a_stranger(self) -> bool:
        if self._answers_all:
            return True
        now = time.monotonic()
        if now >= self._answers_until:
            self._answers_until = now + 1.0
            self._answers_left = self._connections_limit
        self._answers_left -= 1
        return self._answers_left >= 0


def _routing_id(name: str) -> bytes:
    """No two processes share one."""
    return f"{name[:64]}/{secrets.token_hex(8)}".encode()


def _numbered(name: bytes, connection: int) -> bytes:
    """The routing id of one of the connections of somebody."""
    return b"%b/%d" % (name, connection)


def _name_of(wire: bytes) -> bytes:
    """Whose connection it is, by its routing id; a stranger may have any."""
    name, _, number = wire.rpartition(b"/")
    return name if number.isdigit() else wire


def _number_of(wire: bytes) -> int:
    number = wire.rpartition(b"/")[2]
    return int(number) if number.isdigit() else 0


def connections_for_applications() -> int:
    """How many connections a site's applications may have; not so many that a node has no descriptors left."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _STRANGERS if descriptors == resource.RLIM_INFINITY else max(1, min(_STRANGERS, descriptors // 4))


def _connections_limit(num_members: int) -> int:
    limit = 2 * num_members + _STRANGERS
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return limit
    return min(limit, max(num_members + 1, descriptors - _DESCRIPTORS_KEPT))


def _hang_up(fd: int) -> None:
    """End a connection of libzmq, which then sees that the other side has gone, and closes it."""
    _with_connection(fd, lambda connection: connection.shutdown(socket.SHUT_RDWR))


def _bytes_received(fd: int) -> int:
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


def _property(frame: zmq.Frame, name: str) -> str:
    """What libzmq knows of the connection that a frame came from; empty where it does not."""
    try:
        return str(frame.get(name))
    except zmq.ZMQError:
        return ""


@functools.cache
def _may_be_ipv6(endpoint: str) -> int:
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


def require_no_file_at(endpoint: str) -> None:
    """libzmq removes whatever has the name of a socket that it makes. That may only be a socket.

    Raises:
        UsageError: It is something else.
    """
    path = _socket_path(endpoint)
    if not path or path.startswith("\0"):
        return
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise UsageError(f"{endpoint}: expected a free name for a socket, got {path}, which is a file and stays")


def refuse_ipc_in_use(endpoint: str) -> None:
    """libzmq takes over a path that another process listens on; here that is an error, as it is for a port.

    Raises:
        UsageError: There is a file that is no socket.
        zmq.ZMQError: Somebody listens there (EADDRINUSE).
    """
    path = _socket_path(endpoint)
    if not path:
        return
    require_no_file_at(endpoint)
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # whose queue is full listens, too
        try:
            probe.connect(path)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            return  # nothing, or what a process has left that is gone
        except OSError:
            pass  # of another kind, or of another user: not ours to remove
        raise zmq.ZMQError(errno.EADDRINUSE)


def _socket_path(endpoint: str) -> str:
    """Of an ipc endpoint, as the system takes it; empty of others, and where libzmq chooses."""
    path = endpoint.removeprefix("ipc://") if endpoint.startswith("ipc://") else ""
    if path == "*":
        return ""
    return "\0" + path[1:] if path.startswith("@") else path


def _size(frames: Frames) -> int:
    size = 0
    for frame in frames:
        size += frame.nbytes if isinstance(frame, memoryview) else len(frame)
    return size
