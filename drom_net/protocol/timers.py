"""When a node that waits asks again, and when it tells that a wait has grown long."""

from __future__ import annotations

import math

from drom_net.protocol.settings import Timeouts


class RetryTimer:
    """The times at which a waiting node asks again: after `first` seconds, then doubling up to `cap`."""

    def __init__(self, first: float, cap: float) -> None:
        self._first, self._cap = first, cap
        self.due = math.inf
        self._pause = first

    def start(self, now: float) -> None:
        self._pause = self._first
        self.due = now + self._pause

    def ask(self, now: float) -> bool:
        """Whether it is time; if so the next time is set."""
        if now < self.due:
            return False
        self._pause = min(2 * self._pause, self._cap)
        self.due = now + self._pause
        return True

    def stop(self) -> None:
        self.due = math.inf

    @property
    def has_asked(self) -> bool:
        """Whether the wait that goes on has lasted for so long that it was asked."""
        return math.isfinite(self.due) and self._pause > self._first


class Wait:
    """A node's wait for an answer."""

    def __init__(self, timeouts: Timeouts) -> None:
        self.retry = RetryTimer(timeouts.resend_after_s, timeouts.resend_cap_s)
        self.stall = RetryTimer(timeouts.stall_s, math.inf)
        self._timers = (self.retry, self.stall)
        self.since = self.idle_since = 0.0
        """When it began, and from when on there was nothing else to do."""
        self.asked_at = 0.0
        """When it was asked last."""

    def start(self, now: float) -> None:
        self.since = self.asked_at = now
        for timer in self._timers:
            timer._pause = timer._first
            timer.due = now + timer._first

    def stop(self) -> None:
        self.retry.stop()
        self.stall.stop()

    @property
    def due(self) -> float:
        """When to ask again, or to tell."""
        retry, stall = self.retry.due, self.stall.due
        return retry if retry <= stall else stall

    def busy_until(self, began: float, now: float) -> None:
        """What began the wait has computed from `began` until now."""
        if self.since == began:
            self.since = now
        if self.idle_since == began:
            self.idle_since = now
