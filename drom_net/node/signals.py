"""Signals that end a node in order."""

from __future__ import annotations

import os
import signal
import time

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a node in order; its exit code is then 128 and the signal's number."""


ONE_WISH_S = 1.0
"""Signals within this time are one: `timeout` sends its own twice."""


def stop_signals() -> list[signal.Signals]:
    """Those of SIGNALS that are obeyed: all, but SIGHUP where it is ignored (`nohup`)."""
    return [number for number in SIGNALS if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]


class Stop:
    """SIGTERM and SIGINT: the first asks the node to end in order, a later one ends the process at once."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._asked_at = 0.0
        self.exit_code = 0
        for number in stop_signals():
            signal.signal(number, self._on_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # whoever started us may have held them back until now

    def _on_signal(self, number: int, _: object) -> None:
        now = time.monotonic()
        if not self.exit_code:
            self.exit_code, self._asked_at = 128 + number, now
        elif now >= self._asked_at + ONE_WISH_S:
            os._exit(128 + number)

    @property
    def orphaned(self) -> bool:
        """Whether the launcher is gone."""
        return bool(self._parent) and os.getppid() != self._parent

    def requested(self) -> bool:
        if self.orphaned and not self.exit_code:
            self.exit_code = 128 + signal.SIGTERM  # the launcher is gone: no orphan is left behind
        return self.exit_code != 0
