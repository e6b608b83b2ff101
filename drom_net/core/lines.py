"""Lines to a standard stream that may have nobody reading it: a pager at rest, a terminal behind Ctrl-S.

A node that waited there would hold up all others.
"""

from __future__ import annotations

import atexit
import contextlib
import select
import sys
from collections import deque
from typing import Any

_LATE = 1000
"""So many lines are kept until they can be written; then the oldest go."""


def takes_a_line(stream: Any) -> bool:
    """Whether a line can be written there without a wait: a pipe then has room for 4,096 bytes."""
    try:
        poll = select.poll()
        poll.register(stream, select.POLLOUT)
        return bool(poll.poll(0))
    except (OSError, ValueError, TypeError):  # closed, or nothing of the system's, as in a notebook
        return True


class Lines:
    """Lines to one of them. None of its methods fails, and only `finish` waits."""

    def __init__(self, name: str) -> None:
        """
        Args:
            name: "stdout" or "stderr".
        """
        self._name = name
        self._late: deque[str] = deque(maxlen=_LATE)
        """Those that nobody could be told yet."""

    def write(self, line: str, *, droppable: bool = False) -> None:
        """Write a line, now or when somebody reads again.

        Args:
            droppable: The next one says as much: it is left out where it cannot be written now.
        """
        if not droppable:
            self._late.append(line)
        while self._late and takes_a_line(getattr(sys, self._name)):
            self._print(self._late.popleft())
        if droppable and not self._late and takes_a_line(getattr(sys, self._name)):
            self._print(line)

    def finish(self) -> None:
        """Write what is left, however long that takes."""
        while self._late:
            self._print(self._late.popleft())

    def _print(self, line: str) -> None:
        # A closed pipe or a full disk under a log must not end a run.
        with contextlib.suppress(OSError, ValueError):
            print(line, file=getattr(sys, self._name), flush=True)


STDOUT, STDERR = Lines("stdout"), Lines("stderr")
atexit.register(STDOUT.finish)
atexit.register(STDERR.finish)
