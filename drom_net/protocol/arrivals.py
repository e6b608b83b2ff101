"""When a task's next round may begin: with its next example, or as others have begun it."""

from __future__ import annotations

import math

from drom_net.learning.task import TaskLearner
from drom_net.protocol.node import Pace


class Arrivals:
    """The examples of a task as they come."""

    def __init__(self, learner: TaskLearner, pace: Pace) -> None:
        self.next_at = -math.inf
        """When the example of the next round comes, where that is known beforehand."""
        self._learner = learner
        self._pace = pace
        self._opened_until = 0
        self._all_there = not learner.is_live

    def open(self, t: int) -> None:
        """Others have begun round t: a live stream without an example is idle until then."""
        self._opened_until = max(self._opened_until, t)

    def expect(self, t: int, now: float) -> None:
        """From now on the example of round t may come."""
        self.next_at = now + self._pace(t) if t <= self._learner.last_round else -math.inf

    def begins_at(self, t: int, *, has_example: bool = False) -> float:
        """When round t, or the goodbye, may begin; infinite where a live stream has no example yet."""
        if t <= self._opened_until:
            return -math.inf
        if self._all_there or has_example or self._learner.is_ready(t) or t > self._learner.last_round:
            return self.next_at
        return math.inf
