"""The socket of a worker, or of a peer towards a neighbor: it connects."""

from __future__ import annotations

import contextlib
import os
from collections import deque

import zmq

from drom_net.core.errors import ClusterError
from drom_net.protocol.node import REDUCER
from drom_net.protocol.settings import Timeouts
from drom_net.transport import curve
from drom_net.transport.base import NO_WAIT, RECEIVE_QUEUE, Frames, Transport, may_be_ipv6, numbered, size_of, wire_name
from drom_net.transport.keys import Keyring


class DealerTransport(Transport):
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
        self._name = wire_name(name)
        self._connections = 0
        self.unsettled = False
        """The connection is down, as far as it was told."""
        self._unread: deque[list[bytes]] = deque()
        """What came on a connection that was lost since."""
        self._socket.setsockopt(zmq.IPV6, may_be_ipv6(endpoint))
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
            self._send(frames, NO_WAIT)
            self.bytes_sent += size_of(frames)

    def receive(self, timeout_s: float) -> tuple[str, list[bytes]] | None:
        """(who sent, frames), or None when nothing came in time (at most SLICE_S)."""
        frames = self._unread.popleft() if self._unread else self._read(self._wait(timeout_s))
        if frames is None:
            return None
        self.bytes_received += sum(map(len, frames))
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
        while len(self._unread) < RECEIVE_QUEUE and (frames := self._read(NO_WAIT)) is not None:
            self._unread.append(frames)
        with contextlib.suppress(zmq.ZMQError):
            self._socket.disconnect(self._endpoint)
        self._connect()

    def _connect(self) -> None:
        self._connections += 1
        self._socket.setsockopt(zmq.ROUTING_ID, numbered(self._name, self._connections))
        self._socket.connect(self._endpoint)
