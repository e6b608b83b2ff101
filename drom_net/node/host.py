"""What surrounds a node in its process: its folder, its log, its live examples, and whose key speaks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from drom_net.core.errors import RejectedError
from drom_net.node.lines import write_late_lines
from drom_net.node.loop import Host
from drom_net.node.telemetry import Telemetry
from drom_net.protocol.node import Event, Snapshot
from drom_net.protocol.peer import Peer
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.states import PeerState, WorkerState
from drom_net.protocol.worker import Worker
from drom_net.storage.node_folder import CheckpointFolder, Spent
from drom_net.storage.snapshot_codec import encode_snapshot
from drom_net.storage.writer import Writer
from drom_net.transport.curve import key_gate
from drom_net.transport.dealer import DealerTransport
from drom_net.transport.router import RouterTransport

if TYPE_CHECKING:
    from drom_net.node.live.live_input import LiveInput


class ProcessHost(Host):
    """Snapshots are written beside the node's work, and it is told when they are safe. What a live stream has decided
    is on the disk before anything is said of it."""

    def __init__(
        self,
        node: Worker | Reducer | Peer,
        transport: DealerTransport | RouterTransport,
        folder: CheckpointFolder,
        telemetry: Telemetry,
        live_input: LiveInput | None,
    ) -> None:
        self._node = node
        self._transport = transport
        self._folder = folder
        self._telemetry = telemetry
        self._live_input = live_input
        self.has_input = live_input is not None
        if transport.has_keys and not isinstance(node, Worker):  # a worker speaks to the reducer's key and to no other
            self.gate = key_gate(node, lambda: transport.sender)
        self._writer = Writer(folder)
        self._in_flight = False
        self._round = self._num_bytes = 0
        self._began = 0.0

    def __enter__(self) -> ProcessHost:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._live_input is not None:
            self._live_input.close()
        try:
            self._writer.close()
        except OSError:
            if kind is None:
                raise

    def spent(self) -> Spent:
        """In all starts of the node so far."""
        return self._folder.before + self._telemetry.spent()

    def on_event(self, event: Event) -> None:
        self._telemetry.on_event(event)

    def on_tick(self) -> bool:
        if self._transport.rejected_by and self._node.state in (WorkerState.JOINING, PeerState.JOINING):
            raise RejectedError(self._transport.trouble)
        self._folder.show_life()
        write_late_lines()
        return self._telemetry.look()

    def persist(self, now: float) -> bool:
        """Take a snapshot where it is time; wait for the disk where the node does."""
        if self._live_input is not None:
            self._live_input.keep_decided()
        changed = False
        while True:
            if self._in_flight and not self._writer.busy:
                self._settle(now)
                changed = True
            if (snapshot := self._node.take_snapshot()) is not None:
                self._submit(snapshot)
                changed = True
            if not self._in_flight or not self._node.holding:
                return changed
            self._writer.wait()
            self._settle(now)
            changed = True

    def poll_input(self) -> bool:
        return self._live_input is not None and self._live_input.serve()

    def _submit(self, snapshot: Snapshot) -> None:
        self._telemetry.save()
        header, *buffers = encode_snapshot(snapshot, self._folder.classes)
        self._round, self._num_bytes = snapshot["round"], len(header) + sum(map(len, buffers))
        self._began = time.monotonic()
        self._folder.spent = self.spent()
        self._writer.submit(self._round, header, buffers, self._telemetry.files)
        if self._live_input is not None:
            self._live_input.snapshot_taken(snapshot)
        self._in_flight = True

    def _settle(self, now: float) -> None:
        self._writer.finished()
        self._in_flight = False
        self._telemetry.checkpointed(self._round, seconds=time.monotonic() - self._began, num_bytes=self._num_bytes)
        self._node.snapshot_persisted(now)
        if self._live_input is not None:
            self._live_input.snapshot_persisted()
