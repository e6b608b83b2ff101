"""The examples of a task that come while it learns: which round each is learned in is decided as the rounds begin.

A task without an example in a round that others have opened is idle in it. What was decided so is part of the run: a
node that is started again decides the same, for the examples and its idle rounds are kept (`node.live`) before
anything that follows from them is said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from drom_net.algorithms.features import Features, Vector
from drom_net.data.preprocessing import Preprocessing, RowPreparation

FOREVER = 2**62
"""The last round of a stream that has no end yet."""


class Decided(NamedTuple):
    """What must be kept before it is said."""

    idle: tuple[int, ...] = ()
    """Rounds without an example, ascending."""
    last_round: int | None = None
    """The last round of all, once it is known."""


NOTHING_DECIDED = Decided()


class LiveStream:
    """One task's examples, numbered from 0 in the order in which they were accepted."""

    def __init__(
        self,
        dim: int,
        decided: Decided = NOTHING_DECIDED,
        *,
        preprocessing: Preprocessing | None = None,
        task: str = "",
    ) -> None:
        """
        Args:
            dim: d, of each example as it is learned.
            decided: What an earlier life had decided.
            preprocessing: What is done to a row when it is learned; None for rows that are prepared already.
            task: The task's name.
        """
        self.dim = dim
        self._preprocessing, self._task = preprocessing, task
        self._preparation = self._begin_preparation(None)
        self._examples: deque[tuple[Features, float]] = deque()
        """Those that may still be asked for."""
        self._first = 0
        """The number of the first of them."""
        self._next = 0
        """The number of the one that is learned next."""
        self._begun = 0
        """The last round that was asked for."""
        self._idle = set(decided.idle)
        self._settled = max(decided.idle, default=0)
        """Up to here an earlier life has decided."""
        self._last_round = decided.last_round
        self._news: list[int] = []
        self._told_last = decided.last_round is not None

    def _begin_preparation(self, state: Vector | None) -> RowPreparation | None:
        return None if self._preprocessing is None else self._preprocessing.begin(self._task, state)

    @property
    def scaling(self) -> Vector | None:
        """What running standardisation has come to with the rows learned so far; None where there is none."""
        return None if self._preparation is None else self._preparation.state

    def look(self, row: Features) -> Features:
        """A row as it would be learned now."""
        return row if self._preparation is None else self._preparation.look(row)

    @property
    def backlog(self) -> int:
        """How many examples wait to be learned."""
        return self._first + len(self._examples) - self._next

    @property
    def next_index(self) -> int:
        """The number of the example that is learned next."""
        return self._next

    @property
    def has_ended(self) -> bool:
        return self._last_round is not None

    def add(self, features: Features, label: float) -> None:
        """An example that is kept already.

        Args:
            features: Dense or sparse, not prepared yet.
            label: -1.0 or +1.0; 0.0 for a row that is only predicted.
        """
        self._examples.append((features, label))

    def drop(self) -> None:
        """The examples that wait are not to be learned."""
        for _ in range(self.backlog):
            self._examples.pop()

    def end(self) -> None:
        """No more will come: the round behind the last example's, without one, will say so.

        To be called once its learner has gone on from where an earlier life was.
        """
        if self._last_round is None:
            t = self._begun
            for _ in range(self.backlog):
                t += 1
                while t in self._idle:
                    t += 1
            # An earlier life may have begun all of these, and said of none that it was the last.
            self._last_round = max(t, self._settled) + 1

    def seek(self, taken: int, t: int, scaling: Vector | None = None) -> None:
        """Go on behind round t, up to which so many examples were taken.

        Args:
            scaling: As it was there.
        """
        self._next, self._begun = taken, t
        self._preparation = self._begin_preparation(scaling)

    def begin_at(self, first: int) -> None:
        """The next example that is added has this number; the ones before are no longer kept."""
        assert not self._examples
        self._first = first
        self._next = max(self._next, first)

    def forget(self, before: int) -> None:
        """Nobody will ask again for examples with smaller numbers."""
        while self._examples and self._first < min(before, self._next):
            self._examples.popleft()
            self._first += 1

    def last_round(self) -> int:
        """The round of the last example; `FOREVER` while more may come."""
        return FOREVER if self._last_round is None else self._last_round

    def is_ready(self, t: int) -> bool:
        """Whether round t can begin without that others have opened it."""
        return self.backlog > 0 or self.has_ended or t <= self._settled

    def index_at(self, t: int) -> int | None:
        """The number of the example of round t; None where it has none. Rounds are asked for in order."""
        self._begun = t
        if t in self._idle:
            return None
        if self.backlog:
            self._next += 1
            return self._next - 1
        self._idle.add(t)
        self._news.append(t)
        return None

    def example_at(self, t: int) -> tuple[Features, float, float] | None:
        """(features, label, the label again) of the example of round t, as `TaskStream.example_at`."""
        index = self.index_at(t)
        if index is None:
            return None
        label = self.label(index)
        return self.features(index), label, label

    def features(self, index: int) -> Features:
        """Those of the example that is learned now: each is asked for once, in order."""
        row = self._examples[index - self._first][0]
        return row if self._preparation is None else self._preparation.take_one(row)

    def label(self, index: int) -> float:
        """-1.0 or +1.0; 0.0 for unknown."""
        return self._examples[index - self._first][1]

    def take_decided(self) -> Decided | None:
        """What was decided since the last call; None for nothing."""
        last = None if self._told_last else self._last_round
        if not self._news and last is None:
            return None
        self._told_last = self._told_last or last is not None
        decided, self._news = Decided(tuple(self._news), last), []
        return decided

    def forget_idle(self, through: Iterable[int]) -> None:
        """Nobody will ask again for these rounds."""
        self._idle.difference_update(through)
