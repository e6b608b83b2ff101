"""Lines to a standard stream that may have nobody reading it: a pager at rest, a terminal behind Ctrl-S.

A node that waited there would hold up all others.
"""

from __future__ import annotations

import atexit
import contextlib
import select
import sys
import threading
from collections import deque
from typing import Any

_LATE = 1000
"""So many lines are kept until they can be written; then the oldest go."""
_PIECE = 1000
"""So many characters are written at once: at most 4,000 bytes, for which a pipe has room or waits."""


def takes_a_line(stream: Any) -> bool:
    """Whether 4,000 bytes can be written there without a wait."""
    try:
        poll = select.poll()
        poll.register(stream, select.POLLOUT)
        return bool(poll.poll(0))
    except (OSError, ValueError, TypeError):  # closed, or nothing of the system's, as in a notebook
        return True


class Lines:
    """Lines to one of them, from any thread. None of its methods fails, and only `finish` waits."""

    def __init__(self, name: str) -> None:
        """
        Args:
            name: "stdout" or "stderr".
        """
        self._name = name
        self._late: deque[str] = deque(maxlen=_LATE)
        """Those that could not be written yet."""
        self._rest = ""
        """Of the one that is being written."""
        self._lock = threading.RLock()

    def write(self, line: str, *, droppable: bool = False) -> None:
        """Write a line, now or when somebody reads again.

        Args:
            droppable: The next one says as much: it is left out where it cannot be written now.
        """
        with self._lock:
            if droppable and not (self.write_late() and takes_a_line(getattr(sys, self._name))):
                return
            self._late.append(line)
            self.write_late()

    def write_late(self) -> bool:
        """Write what could not be written before; whether nothing is left."""
        with self._lock:
            while self._rest or self._late:
                if not takes_a_line(getattr(sys, self._name)):
                    return False
                self._write_piece()
            return True

    def finish(self) -> None:
        """Write what is left, however long that takes."""
        with self._lock:
            while self._rest or self._late:
                self._write_piece()

    def _write_piece(self) -> None:
        text = self._rest or self._late.popleft() + "\n"
        self._rest = text[_PIECE:]
        self._print(text[:_PIECE])

    def _print(self, text: str) -> None:
        stream = getattr(sys, self._name)
        # A closed pipe or a full disk under a log must not end a run; and print would take stdout for None.
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                print(text, end="", file=stream, flush=True)


STDOUT, STDERR = Lines("stdout"), Lines("stderr")
atexit.register(STDOUT.finish)
atexit.register(STDERR.finish)


def write_late_lines() -> None:
    """To be called now and then, so that lines come soon after somebody reads again."""
    STDOUT.write_late()
    STDERR.write_late()
