"""A node's snapshots, written beside its work."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from drom_net.node.telemetry import Telemetry
from drom_net.protocol.peer import Peer
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.worker import Worker
from drom_net.storage.node_folder import CheckpointFolder
from drom_net.storage.snapshot_codec import encode_snapshot
from drom_net.storage.writer import Writer

if TYPE_CHECKING:
    from drom_net.node.live.intake import Intake


class Disk:
    """Sees to a node's snapshots: they are written beside its work, and it is told when they are safe. What a live
    stream has decided is on the disk before anything is said of it."""

    def __init__(
        self, node: Worker | Reducer | Peer, folder: CheckpointFolder, telemetry: Telemetry, intake: Intake | None
    ) -> None:
        self._node = node
        self._folder = folder
        self._intake = intake
        self._telemetry = telemetry
        self._writer = Writer(folder)
        self._in_flight = False
        self._round = self._num_bytes = 0
        self._began = 0.0

    def __enter__(self) -> Disk:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._intake is not None:
            self._intake.close()
        try:
            self._writer.close()
        except OSError:
            if kind is None:
                raise

    def keep(self, now: float) -> None:
        """Take a snapshot where it is time; wait for the disk where the node does."""
        if self._intake is not None:
            self._intake.keep_decided()
        while True:
            if self._in_flight and not self._writer.busy:
                self._settle(now)
            if (snapshot := self._node.take_snapshot()) is not None:
                self._telemetry.save()
                header, *buffers = encode_snapshot(snapshot, self._folder.classes)
                self._round, self._num_bytes = snapshot["round"], len(header) + sum(map(len, buffers))
                self._began = time.monotonic()
                self._folder.spent = self._folder.before + self._telemetry.spent()
                self._writer.submit(self._round, header, buffers, self._telemetry.files)
                if self._intake is not None:
                    self._intake.snapshot_taken(snapshot)
                self._in_flight = True
            if not self._node.holding or not self._in_flight:
                return
            self._writer.wait()
            self._settle(now)

    def _settle(self, now: float) -> None:
        self._writer.finished()
        self._in_flight = False
        self._telemetry.checkpointed(self._round, seconds=time.monotonic() - self._began, num_bytes=self._num_bytes)
        self._node.snapshot_kept(now)
        if self._intake is not None:
            self._intake.snapshot_kept()
