"""When a node takes snapshots, and what may not be sent before they are on disk."""

from __future__ import annotations

import math

from drom_net.protocol.settings import Checkpoints


class Durability:
    """When a node takes snapshots, up to which round the last one that is on disk goes, and what waits for the next."""

    def __init__(self, settings: Checkpoints | None, *, durable: int = 0, at_end: bool = False) -> None:
        """
        Args:
            settings: None for a node that takes none: all that it has closed counts as durable, as it never comes back.
            durable: The round of the snapshot that it goes on from.
            at_end: Whether the node had come to its end by then.
        """
        self.durable = durable
        self._has_end = self._takes_end = at_end
        self.active = settings is not None
        self.busy = False
        """A snapshot was taken and is not on disk yet."""
        settings = settings or Checkpoints()
        # The other side learns of it only later, and may take its own turn then: so not at the last moment.
        self._every_rounds = min(settings.every_rounds or settings.history_rounds, max(1, settings.history_rounds // 4))
        self._every_s = settings.every_s
        self.most = settings.history_rounds
        self._last = self._taken = self.durable
        self.due = False
        """A snapshot is to be taken."""
        self._owed: list[int] = []
        """Tasks whose goodbye is answered once it is durable."""
        self._owed_now: list[int] = []
        """Those of them that are in the snapshot that is being written."""
        self._hold_until = 0
        self._last_at = -math.inf

    def start(self, now: float) -> None:
        self._last_at = now

    def is_due(self, t: int, now: float) -> bool:
        """Whether to take one now that round t is closed."""
        return self.active and (t - self._last >= self._every_rounds or now - self._last_at >= self._every_s)

    def note_closed(self, t: int) -> None:
        """Round t is closed."""
        if not self.active:
            self.durable = t

    def close(self, t: int, now: float) -> None:
        """Round t is closed: from here one may go on after a crash."""
        self.note_closed(t)
        if self.is_due(t, now):
            self.note_due(t, now)
            self.due = True

    def note_due(self, t: int, now: float) -> None:
        """One of round t is to be taken as soon as may be."""
        self._last, self._last_at = t, now

    def taken(self, t: int, *, at_end: bool = False) -> None:
        self.due = False
        self.busy, self._taken, self._takes_end = True, t, at_end
        self._owed_now, self._owed = self._owed, []

    def persisted(self) -> list[int]:
        """The last snapshot is on disk; the tasks whose goodbye can be answered now."""
        self.busy, self.durable = False, self._taken
        self._has_end = self._has_end or self._takes_end
        answered, self._owed_now = self._owed_now, []
        return answered

    def owe(self, task: int) -> None:
        """Once its goodbye is answered a task is gone, and says it to nobody else: so that is made durable before."""
        if task not in self._owed and task not in self._owed_now:
            self._owed.append(task)
            self.due = True

    @property
    def owes(self) -> bool:
        """Whether a goodbye is still to be answered."""
        return bool(self._owed or self._owed_now)

    def hold(self, t: int) -> None:
        """Round t was closed without somebody: nothing that follows from it is sent before that is durable, for after a
        crash it might be closed with others."""
        if self.active:
            self._hold_until = t
            self.due = True

    @property
    def must_hold(self) -> bool:
        """Whether such a round is not durable yet."""
        return self.durable < self._hold_until

    def has_end(self, t: int) -> bool:
        """Whether the end of a node with this last round is durable; where t is 0, by a snapshot taken there."""
        return self.durable >= t if t else self._has_end

    def lacks_end(self, t: int) -> bool:
        """Whether one is still to be taken of it."""
        return self.active and not self.has_end(t)

    def is_far(self, t: int) -> bool:
        """Whether a snapshot should no longer wait for anything."""
        return t - self.durable >= self.most // 2

    def is_too_far(self, t: int) -> bool:
        """Whether round t may not begin before more is durable."""
        return self.active and t - self.durable > self.most

    def believed(self, t: int, durable: int) -> int:
        """Up to which round another is taken to have made durable what it has, that says so in round t.

        No node goes more than `history_rounds` beyond its snapshot (`is_too_far`): for one that says that it does, no
        more than twice as many are remembered here.
        """
        least = t - 2 * self.most
        return durable if durable >= least else least
