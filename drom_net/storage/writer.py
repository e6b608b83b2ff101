"""Snapshots written beside a node's work, by a thread of their own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import IO, NamedTuple

from drom_net.storage.files import bring_to_disk
from drom_net.storage.node_folder import CheckpointFolder
from drom_net.storage.snapshot_codec import Part

# Saving beside the rounds


class _Job(NamedTuple):
    number: int
    header: Part
    buffers: Sequence[Part]
    also: Sequence[IO[bytes] | int]


class Writer:
    """Saves snapshots in a thread of its own, one at a time."""

    def __init__(self, folder: CheckpointFolder) -> None:
        self._folder = folder
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._finished: list[int] = []
        self._error: Exception | None = None
        self._idle = threading.Event()
        self._idle.set()
        self._thread = threading.Thread(target=self._work, name="checkpoint", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a snapshot is on its way to the disk."""
        return not self._idle.is_set()

    def submit(self, number: int, header: Part, buffers: Sequence[Part], also: Sequence[IO[bytes] | int] = ()) -> None:
        """Begin to save a snapshot; one that is still on its way is waited for.

        Args:
            number, header, buffers: As for `CheckpointFolder.save`.
            also: Files whose rows the snapshot goes on from: these are brought to the disk first.
        """
        assert self._thread.is_alive(), "the writer is closed"
        self._idle.wait()
        self._idle.clear()
        self._jobs.put(_Job(number, header, buffers, also))

    def finished(self) -> list[int]:
        """The rounds whose snapshots are on the disk, in the order they were saved, each told once.

        Raises:
            OSError: One could not be saved, which is told once; what was on the disk is there still.
        """
        with self._lock:
            if (error := self._error) is not None:
                self._error = None
                raise error
            finished, self._finished = self._finished, []
            return finished

    def wait(self) -> list[int]:
        """Wait for the one on its way; then as `finished`."""
        self._idle.wait()
        return self.finished()

    def close(self) -> list[int]:
        """Wait for the one on its way, and end the thread; then as `finished`."""
        if self._thread.is_alive():
            self._idle.wait()
            self._jobs.put(None)
            self._thread.join()
        return self.finished()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                for file in job.also:
                    bring_to_disk(file)
                self._folder.save(job.number, job.header, job.buffers)
                with self._lock:
                    self._finished.append(job.number)
            except Exception as error:  # told by whoever asks next
                with self._lock:
                    self._error = self._error or error
            del job  # its arrays need not wait for the next one
            self._idle.set()
