"""The socket of a reducer, or of a peer: it listens, and bounds what strangers may take."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import resource
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

import zmq

from drom_net.core.errors import ClusterError
from drom_net.protocol.node import REDUCER
from drom_net.protocol.settings import Timeouts
from drom_net.transport import curve
from drom_net.transport.base import (
    LINGER_MS,
    NO_FD,
    NO_WAIT,
    RECEIVE_QUEUE,
    Frames,
    Transport,
    hang_up,
    may_be_ipv6,
    numbered,
    property_of,
    size_of,
    wire_name,
)
from drom_net.transport.keys import Keyring
from drom_net.transport.local_sockets import refuse_ipc_in_use, require_no_file_at
from drom_net.transport.strangers import Strangers

_SEND_QUEUE_OF_APPLICATIONS = 16
_STRANGERS = 256
"""How many connections there may be, beside two for each member: that which it has, and one that is dead and not yet
known to be."""
_SRCFD = int(zmq.SRCFD)
_DESCRIPTORS_KEPT = 64
"""Those that a node may need for itself."""


class _Message(NamedTuple):
    """As it was read from a ROUTER."""

    routing_id: zmq.Frame
    frames: list[bytes]
    taken: int
    """How many bytes it had on its connection."""
    address: str | None
    """Of whom this one has connected to; None of all others."""


class RouterTransport(Transport):
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
        self._name = wire_name(name)
        self._connections = 0
        if "[" in bind:
            self._socket.setsockopt(zmq.IPV6, 1)
        self._fd_of: dict[str, int] = {}
        self._addresses_at: dict[int, set[str]] = {}
        """More than one where messages of a closed connection were read when its descriptor was in use again."""
        self._connected_fds: set[int] = set()
        limit = connections_for_applications() if for_applications else _connections_limit(len(members))
        self._strangers = Strangers(
            limit, self._unread_limit, is_members=self._is_members, answers_all=for_applications
        )
        if for_applications:
            self._socket.setsockopt(zmq.SNDHWM, _SEND_QUEUE_OF_APPLICATIONS)
        self.refused_handshakes = 0
        """How many who connected here did not get through the handshake."""
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
        self.endpoint = self._listen(bind, members)
        """Where it listens, with the port that the system chose if it was to choose one."""

    def _listen(self, bind: str, members: Collection[str]) -> str:
        try:
            refuse_ipc_in_use(bind)
            if self._keys is not None:
                self._doorkeeper = curve.Doorkeeper(self._context, self._keys, members)
                curve.listen(self._socket, self._keys)
            self._socket.bind(bind)
            endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
            if endpoint.startswith("ipc://") and "@" not in endpoint[:7]:
                os.chmod(endpoint.removeprefix("ipc://"), 0o600)
        except zmq.ZMQError as error:
            self.close()
            hint = ""
            if error.errno == errno.EADDRINUSE:
                hint = "; another process, perhaps a reducer of an earlier run, listens there"
            raise ClusterError(f"cannot listen on {bind}: {os.strerror(error.errno or 0)}{hint}") from None
        return endpoint

    def connect(self, address: str, endpoint: str, name: str = "") -> None:
        """Also connect to another listener, which is then spoken to by this address.

        Args:
            name: Whose key it must have, with keys.

        Raises:
            ClusterError: The endpoint is none.
        """
        self._socket.setsockopt(zmq.IPV6, may_be_ipv6(endpoint))
        # Not the address itself: whoever can guess a routing id can take it over.
        wire = wire_name(address)
        self._connections += 1
        self._socket.setsockopt(zmq.ROUTING_ID, numbered(self._name, self._connections))
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
        most = RECEIVE_QUEUE * max(1, len(self._connected_fds))
        while len(self._unread) < most and (message := self._read(NO_WAIT)) is not None:
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
        self._socket.setsockopt(zmq.LINGER, LINGER_MS)
        super().close()

    def send(self, address: str, frames: Frames) -> None:
        """Send, or drop what cannot be sent: whoever misses it asks again."""
        if not self.is_member(address) and not self._strangers.may_be_answered():
            return
        wire = self._wire_of.get(address)
        if wire is None:
            return  # its connection is gone
        try:
            # Not blocking: one peer that reads nothing must not hold up the others.
            self._send([wire, *frames], NO_WAIT)
        except zmq.ZMQError as error:
            if error.errno not in (errno.EHOSTUNREACH, errno.EAGAIN):
                raise
            if error.errno == errno.EHOSTUNREACH and self._leave(address):
                self._changes.append((address, False))
            return
        size = size_of(frames)
        self.bytes_sent += size
        if (moved := self._bytes.get(address)) is not None:
            moved[1] += size

    def receive(self, timeout_s: float) -> tuple[str, list[bytes]] | None:
        """(address of the sender, frames), or None when nothing came in time (at most SLICE_S)."""
        message = self._unread.popleft() if self._unread else self._read(self._wait(timeout_s))
        if message is None:
            return None
        routing_id, frames, taken, address = message
        wire = routing_id.bytes
        ours = address is not None
        if address is None:
            address = _address_of(wire)
            if address in self._endpoint_of:
                address = f"?{address}"  # it calls itself as we call a neighbor
        if self._keys is not None:
            # Anew for each message: a descriptor and a routing id may be another's by now.
            self.sender = self._endpoint_of[address][1] if ours else property_of(routing_id, curve.USER_ID)
        try:
            fd = routing_id.get(_SRCFD)
        except zmq.ZMQError:  # a stranger that speaks ZMTP 1 has none
            fd = NO_FD
        self._strangers.read(fd, taken)
        if ours and self._wire_of[address] != wire:
            pass  # its connection was lost, and made anew, since it came
        elif self._fd_of.get(address) != fd or self._wire_of[address] != wire:  # a descriptor is soon in use again
            if address in self._fd_of and _number_of(wire) < _number_of(self._wire_of[address]):
                return None  # said on a connection that another has taken the place of
            self._met(address, fd, wire)
        size = sum(map(len, frames))
        self.bytes_received += size
        if (moved := self._bytes.get(address)) is not None:
            moved[0] += size
        elif address in self._fd_of or self.is_member(address):  # what comes of a closed connection is soon forgotten
            self._bytes[address] = [size, 0]
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
        for fd in self._strangers.endless():
            self._close(fd, "closed a connection of a stranger: more came on it than can be read")
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
            hang_up(former)  # whoever has connected anew needs its old connection no more
        self._leave(address)
        connected = fd in self._connected_fds
        if connected:
            self._fd_of[address] = fd
            self._wire_of[address] = wire
            self._strangers.spoke(fd)
            self._addresses_at.setdefault(fd, set()).add(address)
        self._changes.append((address, connected))

    def _leave(self, address: str) -> bool:
        """Forget which connection an address has; whether it had one."""
        fd = self._fd_of.pop(address, NO_FD)
        if fd == NO_FD:
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
                    self._strangers.accepted(fd)
            elif event == zmq.EVENT_DISCONNECTED:
                self._connected_fds.discard(fd)
                self._strangers.gone(fd)
                for address in self._addresses_at.pop(fd, ()):
                    del self._fd_of[address]
                    self._forget(address)
                    self._changes.append((address, False))
                if where in self._connected_at:
                    again.append(self._connected_at[where])
        for address in again:
            self._connect_anew(address)
        self._count_refused()
        limit = self._strangers.limit
        for fd in self._strangers.oldest(len(self._connected_fds) - limit):
            self._close(fd, f"closing connections of strangers: there are more than {limit}")

    def _count_refused(self) -> None:
        # Not all who fail have an event of it: libzmq just closes the connection of who speaks another protocol.
        refused = self._strangers.refused(self._let_in)
        if refused > self._failed_handshakes:
            self._warn_once("refused a connection: what it says is no handshake of ZeroMQ")
        self.refused_handshakes = max(self.refused_handshakes, self._failed_handshakes, refused)

    def _close(self, fd: int, why: str) -> None:
        hang_up(fd)
        self._connected_fds.discard(fd)  # its event comes when libzmq has seen it
        self._strangers.closing(fd)
        self._warn_once(why)

    def _is_members(self, fd: int) -> bool:
        return any(self.is_member(address) for address in self._addresses_at.get(fd, ()))

    @property
    def closed_strangers(self) -> int:
        """How many connections were closed because there were too many, or because they sent without an end."""
        return self._strangers.closed


@functools.lru_cache(maxsize=1024)
def _address_of(wire: bytes) -> str:
    """What we call the one whose connection it is."""
    return _name_of(wire).decode("utf-8", "surrogateescape")


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
