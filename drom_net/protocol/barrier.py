"""Which contributions an open sync round has, and whose it waits for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from drom_net.algorithms.base import Contribution
from drom_net.graph.neighborhood import Neighborhood

KEPT_AHEAD = 4
"""Contributions of a neighbor, at the most, beside the one that is waited for. With a delayed exchange a peer in sync
round k waits for those of k - 1, and a neighbor that has that of k may have sent that of k + 2 already."""


@dataclass(slots=True)
class StarRound:
    """The sync round that a reducer collects."""

    number: int
    opened_at: float
    awaited: set[int]
    """Tasks that have not answered yet."""
    contributions: dict[int, Contribution] = field(default_factory=dict)
    went_without: bool = False
    """Some task says that this round was closed without it before."""

    @property
    def has_begun(self) -> bool:
        """Whether anybody has answered."""
        return self.went_without or bool(self.contributions)


class Received(Protocol):
    """What a peer has of a neighbor."""

    contributions: dict[int, Contribution]
    """By sync round: what came and was not used yet."""
    used: int
    """The sync round of the contribution that was used last."""
    last: int | None
    """That of its last one, once that is known."""


class Barrier:
    """The sync round that a peer has open: which contribution of each neighbor counts in it, and whose is missing."""

    def __init__(self, neighborhood: Neighborhood, received: Mapping[int, Received]) -> None:
        self.closed = 0
        """The last sync round whose contributions were used."""
        self.num_closed = 0
        """How many were closed since the node was started."""
        self.deadline = math.inf
        """When the open one is closed without those that are missing."""
        self.wanted = 0
        """The sync round that is open; 0 where nothing counts in it."""
        self.missing: dict[int, int] = {}
        """By neighbor: the sync round of its contribution that counts, and has not come."""
        self.without: list[int] = []
        """Neighbors without whose contribution it is closed."""
        self._counting: dict[int, int] = {}
        """By neighbor: the sync round of its contribution that counts."""
        self._neighborhood = neighborhood
        self._sync = neighborhood.syncs[neighborhood.task]
        self._received = received

    def look(self) -> None:
        """Which contributions count, and which of them have not come, as far as is known now."""
        self._counting.clear()
        self.missing.clear()
        if not self.wanted:
            return
        for task, neighbor in self._received.items():
            if s := self._counts(task, self.wanted, neighbor.last):
                self._counting[task] = s
                if s not in neighbor.contributions:
                    self.missing[task] = s

    def came(self, task: int, t: int) -> None:
        """A neighbor's contribution of sync round t has come."""
        if self.missing.get(task) == t:
            del self.missing[task]

    @property
    def num_here(self) -> int:
        """How many contributions that count are here, with its own."""
        return 1 + len(self._counting) - len(self.missing)

    def leave_out(self, task: int) -> None:
        """Go on without the contribution of a neighbor that counts now."""
        self.without.append(task)
        neighbor, s = self._received[task], self._counting.pop(task)
        neighbor.used = s
        for old in [t for t in neighbor.contributions if t <= s]:
            del neighbor.contributions[old]
        del self.missing[task]

    def close(self, own: Contribution) -> tuple[dict[int, Contribution], list[int]]:
        """(what counts, by task, ascending; those that are left out)."""
        found = {self._neighborhood.task: own}
        for task, s in self._counting.items():
            neighbor = self._received[task]
            found[task] = neighbor.contributions.pop(s)
            neighbor.used = s
        self.closed = self.wanted
        self.num_closed += 1
        without, self.without = sorted(self.without), []
        return dict(sorted(found.items())), without

    def first_needed(self, task: int, last_round: float) -> int:
        """The sync round of the first contribution of a neighbor that has not come, as far as is known; 0 where there
        is none up to the last round."""
        neighbor = self._received[task]
        t = self._sync.next(self.closed + 1)
        while t <= last_round:
            s = self._counts(task, t, neighbor.last)
            if s and s not in neighbor.contributions:
                return s
            if neighbor.last is not None and self._neighborhood.round_used(task, t) >= neighbor.last:
                return 0
            t = self._sync.next(t + 1)
        return 0

    def not_come(self, task: int, last: int, last_round: float) -> list[int]:
        """A neighbor's sync rounds up to its last one whose contributions will be used and have not come: the first
        few."""
        missing: dict[int, None] = {}
        t = self._sync.next(self.closed + 1)
        while t <= last_round and len(missing) <= KEPT_AHEAD:
            s = self._counts(task, t, last)
            if s and s not in self._received[task].contributions:
                missing[s] = None
            if self._neighborhood.round_used(task, t) >= last:
                break
            t = self._sync.next(t + 1)
        return list(missing)

    def _counts(self, task: int, t: int, last: int | None) -> int:
        """The sync round of a neighbor's contribution that is new, and counts in sync round t; 0 where none is."""
        s = self._neighborhood.round_used(task, t, last)
        return s if s > self._received[task].used else 0
