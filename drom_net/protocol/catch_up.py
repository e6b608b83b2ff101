"""A node that was started again is behind the others: which rounds it makes up for."""

from __future__ import annotations

from drom_net.protocol.node import CaughtUp


class CatchUp:
    """The rounds between where a node is and where the others are."""

    def __init__(self, *, restored: bool = False) -> None:
        """
        Args:
            restored: It goes on from a snapshot.
        """
        self.until = 0
        """The round that the others were in; 0 where it is with them."""
        self._from = 0
        self._restored = restored
        self._redo_until = 0

    def extend(self, at: int, until: int) -> None:
        """The others are in round `until`, this one in round `at`."""
        if not self.until:
            self._from = at
        self.until = max(self.until, until)

    def reached(self, t: int) -> CaughtUp | None:
        """What there is to tell once round t is reached."""
        if not 0 < self.until <= t:
            return None
        self.until = 0
        return CaughtUp(t, t - self._from)

    def redo(self, t: int) -> None:
        """Rounds up to t may have been closed by an earlier start."""
        if self._restored:
            self._redo_until = max(self._redo_until, t)

    def redoes(self, t: int) -> bool:
        """Whether round t is to be closed with the same tasks again."""
        return t <= self._redo_until
