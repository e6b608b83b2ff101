"""What a node keeps of what it has sent: others that are started again may ask for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from drom_net.algorithms.base import Contribution, SyncRounds
from drom_net.graph.neighborhood import Neighborhood
from drom_net.learning.task import Outgoing, Replies
from drom_net.protocol.messages import Push


@dataclass(slots=True)
class Watermark:
    """Up to which round another node would be again after a crash."""

    latest: int = 0
    before: int = 0
    """The same, before it last said something new of that: it keeps two snapshots, and one may be damaged."""

    def raise_to(self, t: int) -> bool:
        """Whether that is news."""
        if t <= self.latest:
            return False
        self.before, self.latest = self.latest, t
        return True

    def lower_to(self, t: int) -> None:
        """It has come with less than it had."""
        if t < self.latest:
            self.before = self.latest = t


class PushHistory:
    """A worker's pushes that the reducer may need again, by round, ascending."""

    def __init__(self) -> None:
        self.pushes: dict[int, Push] = {}
        self.forgotten = 0
        """Of no round up to this one is there a push in it any more."""
        self.reducer = Watermark()

    def restore(self, pushes: Mapping[int, Push], durable: tuple[int, int], t: int) -> None:
        """As a snapshot of round t has it."""
        self.pushes = dict(pushes)
        self.reducer = Watermark(*durable)
        self.forgotten = min(self.reducer.before, t)

    def persisted(self, durable: int, t: int) -> None:
        """The reducer would be in round `durable` again; this worker is in round t."""
        if self.reducer.raise_to(durable):
            self.forgotten = max(self.forgotten, min(self.reducer.before, t))
            for old in [s for s in self.pushes if s <= self.forgotten]:
                del self.pushes[old]

    @property
    def last(self) -> int:
        """The round of the last push in it; 0 where there is none."""
        return next(reversed(self.pushes), 0)

    def needed_until(self, t: int) -> dict[int, Push]:
        """Those up to round t that the older of the reducer's two snapshots lacks."""
        return {s: push for s, push in self.pushes.items() if self.reducer.before < s <= t}


class ReplyHistory:
    """What a reducer answered in the rounds that some task may need again, ascending."""

    def __init__(self) -> None:
        self.replies: dict[int, Replies] = {}
        self.forgotten = 0
        """What was answered up to here is not in it any more."""
        self._look_at = 0
        """How long it may grow before it is looked through."""

    def restore(self, replies: Mapping[int, Replies], t: int) -> None:
        """As a snapshot before round t has it."""
        self.replies = dict(replies)
        self.forgotten = next(iter(self.replies), t) - 1

    def needed_after(self, t: int) -> dict[int, Replies]:
        return {s: replies for s, replies in self.replies.items() if s > t}

    def next_with(self, task: int, t: int) -> int | None:
        """The first round after t in which a task took part; None where there is none in it."""
        return next((s for s, replies in self.replies.items() if s > t and replies.has(task)), None)

    def forget(self, durable: Iterable[tuple[int, int]], *, some_absent: bool) -> None:
        """Let go of what nobody needs.

        Args:
            durable: Each task that goes on, and up to which round it would be again at worst.
            some_absent: Some need only those rounds in which they took part.
        """
        if len(self.replies) < self._look_at:
            return
        tasks = list(durable)
        for t in list(self.replies):
            if any(kept < t and self.replies[t].has(task) for task, kept in tasks):
                if not some_absent:
                    break
                continue
            del self.replies[t]
            self.forgotten = t
        self._look_at = 2 * len(self.replies) if some_absent else 0


@dataclass(frozen=True, slots=True)
class Asker:
    """What a neighbor may still ask a peer for."""

    task: int
    first: int
    """From its contribution of this sync round on."""
    last: float
    """Up to that of this one; infinite while it goes on."""


class ContributionHistory:
    """A peer's own contributions, by sync round, ascending: to use, and to send again."""

    def __init__(self, neighborhood: Neighborhood, *, kept_for_each: int) -> None:
        """
        Args:
            kept_for_each: How many a neighbor may be behind.
        """
        self.contributions: dict[int, Outgoing] = {}
        self.latest_forgotten = 0
        """The latest that is not kept any more."""
        self.last: int | None = None
        """The sync round of the last one, once that is known; it is for all neighbors."""
        self._neighborhood = neighborhood
        self._own_only: set[int] = set()
        """Those that no neighbor uses."""
        self._few = kept_for_each
        self._look_at = 2 * kept_for_each
        """How many may be kept before all of them are looked through."""

    def restore(self, contributions: Mapping[int, Outgoing], t: int) -> None:
        """As a snapshot of round t has it."""
        self.contributions = dict(contributions)
        self.latest_forgotten = min(self.contributions, default=t + 1) - 1

    def is_for(self, task: int, t: int) -> bool:
        """Whether a neighbor uses the contribution of sync round t."""
        return t == self.last or self._neighborhood.sends_to(task, t)

    def first_for(self, task: int) -> int:
        """The first in it that a neighbor uses; 0 where there is none."""
        return next((t for t in self.contributions if self.is_for(task, t)), 0)

    def add(self, t: int, contribution: Outgoing) -> None:
        self.contributions[t] = contribution
        if not any(self.is_for(task, t) for task in self._neighborhood.syncs if task != self._neighborhood.task):
            self._own_only.add(t)

    def push(self, task: int, t: int, durable: int) -> Push:
        """That of sync round t as a neighbor gets it."""
        before = self._neighborhood.last_sent_before(task, t)
        return Push(t, self.contributions[t].to(task, before), durable)

    def own(self, t: int) -> Contribution:
        """That of sync round t as this peer uses it itself."""
        task = self._neighborhood.task
        return self.contributions[t].to(task, self._neighborhood.last_sent_before(task, t))

    def asked_by(self, task: int, durable: int, last: int | None, *, delayed: bool) -> Asker:
        """What a neighbor may ask for that would be in its round `durable` again after a crash.

        It waits for the contributions that count in its next sync round then (where the exchange is delayed: in the one
        before), and has used all that counted before; after its last one it asks for no later ones.
        """
        syncs: Mapping[int, SyncRounds] = self._neighborhood.syncs
        theirs = syncs[task].next(durable + 1)
        if delayed:
            theirs = syncs[task].last(theirs - 1)
        return Asker(task, syncs[self._neighborhood.task].last(theirs), math.inf if last is None else last)

    def forget(self, ours: int, askers: Callable[[], list[Asker]], most: int | None) -> None:
        """Let go of what is older than `ours`, which this peer still uses, and no neighbor may ask for.

        Args:
            most: How many may be kept at all; None for as many as are needed.
        """
        if len(self.contributions) <= self._few:
            return
        asked = askers()
        for old in [old for old in self._own_only if old < ours]:
            self._own_only.discard(old)
            self.contributions.pop(old, None)
        too_many = 0 if most is None else len(self.contributions) - most
        look_at_all = len(self.contributions) >= self._look_at
        gone: list[int] = []
        for old in self.contributions:
            if old >= ours:
                break  # they are in order
            if old == self.last:
                continue
            needed = any(one.first <= old <= one.last and self._neighborhood.sends_to(one.task, old) for one in asked)
            if len(gone) >= too_many and needed:
                if not look_at_all:
                    break  # what is kept is often long, and later ones are seldom kept for nothing
                continue
            gone.append(old)
        for old in gone:
            del self.contributions[old]
            self.latest_forgotten = max(self.latest_forgotten, old)
        if look_at_all:
            self._look_at = 2 * max(self._few, len(self.contributions))
