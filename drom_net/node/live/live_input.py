"""A live node's stream with its journal: what is accepted is on disk before it is learned or said to be accepted.

All of it runs in the node's one thread, between two rounds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import zmq

from drom_net.data.incoming import RowError, RowReader
from drom_net.data.live import LiveStream
from drom_net.node.reports import Reporter
from drom_net.node.spec import NodeSpec
from drom_net.protocol.node import Snapshot
from drom_net.storage.journal import FOLDER, Example, ExampleJournal, Position, Sender

_BAD_TOLD = 10


class Source(Protocol):
    """What `LiveInput` asks of each kind."""

    @property
    def waits_for(self) -> zmq.Socket[bytes] | int | None:
        """What becomes readable when something has come; None where it has to be looked at by and by, or not now."""

    def serve(self) -> bool:
        """Take what has come; whether there was anything."""

    def close(self) -> None: ...


class LiveInput:
    """A node's live stream with its journal, and where it comes from."""

    def __init__(self, spec: NodeSpec, snapshot: Snapshot | None, incarnation: int, reporter: Reporter) -> None:
        """
        Args:
            snapshot: What the node goes on from.
            incarnation: Which start of the node this is.

        Raises:
            CheckpointError: The journal is damaged, or is not all there.
        """
        settings = spec.stream.source
        self.task = spec.name
        self.backlog_limit: int = settings["backlog"]
        self.bad = 0
        """Lines and rows that could not be used."""
        self.spec = spec
        self.incarnation = incarnation
        self._reporter = reporter
        self._journal = ExampleJournal(Path(spec.out) / FOLDER, keeps_all=settings["keep"] == "all")
        taken, t = (0, 0) if snapshot is None else _mark(snapshot)
        loaded = self._journal.load(taken, t)
        if self._journal.cut_bytes:
            text = f"the last {self._journal.cut_bytes} bytes of the journal were not written whole, and never accepted"
            reporter.say(text, "spool_cut", level="info")
        self.rows = RowReader.from_json(settings["rows"])
        preprocessing = self.rows.preprocessing
        self.stream = LiveStream(spec.dim, loaded.decided, preprocessing=preprocessing, task=self.task)
        self.stream.begin_at(loaded.first)
        for features, label in loaded.examples:
            self.stream.add(features, label)
        self._idle = list(loaded.decided.idle)
        self._arrived: list[Example] = []
        self._in_flight: tuple[int, int] | None = None
        """(examples taken, round) of the snapshot that is being written."""
        self._persisted: list[tuple[int, int]] = [] if snapshot is None else [(taken, t)]
        """Of those on disk, of which the node may need the last two."""
        self._source: Source | None = None

    def take_from(self, source: Source) -> None:
        """From now on examples come from there."""
        self._source = source

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
        self._journal.close()

    @property
    def waits_for(self) -> zmq.Socket[bytes] | int | None:
        return None if self._source is None else self._source.waits_for

    def serve(self) -> bool:
        """Take what has come; whether there was anything."""
        return self._source is not None and self._source.serve()

    # For the sources

    @property
    def num_accepted(self) -> int:
        return self._journal.num_accepted

    @property
    def position(self) -> Position | None:
        """Where in a file to go on."""
        return self._journal.position

    @property
    def room(self) -> int:
        """How many more may be accepted now."""
        return self.backlog_limit - self.stream.backlog - len(self._arrived)

    def has(self, sender: Sender) -> bool:
        """Whether this sending was accepted before."""
        return self._journal.has(sender)

    def add(self, examples: list[Example], *, sender: Sender | None = None, position: Position | None = None) -> None:
        """To be accepted with the next `commit`, all or none."""
        self._journal.add(examples, sender=sender, position=position)
        self._arrived += examples

    def commit(self) -> None:
        """What was added is on the disk when this returns, and waits to be learned."""
        self._journal.commit()
        for features, label in self._arrived:
            self.stream.add(features, label)
        self._arrived.clear()

    def end(self) -> None:
        """No more will come."""
        self.commit()
        self.stream.end()
        self.keep_decided()

    def note(self, text: str, event: str, **facts: object) -> None:
        self._reporter.note(text, event, **facts)

    def say(self, text: str) -> None:
        self._reporter.say(text, "source", level="info")

    def tell_bad(self, where: str, error: RowError) -> None:
        """What could not be used is left out: the first few times it is told, then it is counted."""
        self.bad += 1
        if self.bad <= _BAD_TOLD:
            more = "; further ones are counted only" if self.bad == _BAD_TOLD else ""
            self._reporter.say(f"left out {where}, {error}{more}", "row_left_out", bad=self.bad)

    # For the node's driver

    def keep_decided(self) -> None:
        """What the stream has decided since the last call is on the disk when this returns."""
        decided = self.stream.take_decided()
        if decided is not None:
            self._idle += decided.idle
            self._journal.decide(decided)
            self._journal.commit()

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        self._in_flight = _mark(snapshot)

    def snapshot_persisted(self) -> None:
        """Let go of what the older of the two snapshots that the node keeps needs no more."""
        assert self._in_flight is not None
        self._persisted = [*self._persisted, self._in_flight][-2:]
        if len(self._persisted) == 2:
            taken, t = self._persisted[0]
            self._journal.trim(taken, t)
            self.stream.forget(taken)
            self.stream.forget_idle([past for past in self._idle if past <= t])
            self._idle = [later for later in self._idle if later > t]

    @property
    def counts(self) -> dict[str, float]:
        """By the names of metrics_page.METRICS."""
        return {
            "drom_net_accepted_examples_total": self.num_accepted,
            "drom_net_backlog_examples": self.stream.backlog,
            "drom_net_left_out_rows_total": self.bad,
        }


def _mark(snapshot: Snapshot) -> tuple[int, int]:
    """(examples taken, round) as of a snapshot."""
    return snapshot["learner"]["_taken"], snapshot["round"]
