"""What those may take who connect to a socket and are no member: so many connections, bytes and answers."""

from __future__ import annotations

import time
from collections.abc import Callable

from drom_net.transport.base import LOOK_S, UNREAD_BYTES, bytes_received_by

_UNREAD_LIMITS = 4
"""All strangers together may have so many times of what one may."""


class Strangers:
    """The connections that came from outside, but for those found to be a member's, by file descriptor."""

    def __init__(
        self, limit: int, unread_limit: int, *, is_members: Callable[[int], bool], answers_all: bool = False
    ) -> None:
        """
        Args:
            limit: How many connections there may be, and how many strangers are answered in a second.
            unread_limit: How many bytes may have come on a connection and not be read.
            is_members: Whether a member has this connection.
            answers_all: Answers have no limit.
        """
        self.limit = limit
        self.closed = 0
        """How many connections were closed because there were too many, or because they sent without an end."""
        self._unread_limit = unread_limit
        self._is_members = is_members
        self._answers_all = answers_all
        self._answers_left = limit
        """How much strangers may still be answered in this second."""
        self._answers_until = 0.0
        self._look_at = 0.0
        self._accepted = 0
        self._silent: set[int] = set()
        """Connections on which nothing has been said yet; also of members."""
        self._read_at: dict[int, int] = {}
        """How many bytes of messages were read from each, the oldest first."""

    def accepted(self, fd: int) -> None:
        """Somebody has connected."""
        self._accepted += 1
        self._silent.add(fd)
        self._read_at.pop(fd, None)
        self._read_at[fd] = 0

    def spoke(self, fd: int) -> None:
        """The first message of a connection was read."""
        self._silent.discard(fd)

    def read(self, fd: int, size: int) -> None:
        """A message of so many bytes was read."""
        if fd in self._read_at:
            self._read_at[fd] += size

    def gone(self, fd: int) -> None:
        """The connection is closed."""
        self._silent.discard(fd)
        self._read_at.pop(fd, None)

    def closing(self, fd: int) -> None:
        """The connection is being closed for what it took."""
        self._read_at.pop(fd, None)
        self.closed += 1

    def refused(self, let_in: int) -> int:
        """How many have come, of whom so many got through the handshake, and were refused without an event of it."""
        return self._accepted - let_in - len(self._silent)

    def may_be_answered(self) -> bool:
        if self._answers_all:
            return True
        now = time.monotonic()
        if now >= self._answers_until:
            self._answers_until = now + 1.0
            self._answers_left = self.limit
        self._answers_left -= 1
        return self._answers_left >= 0

    def oldest(self, surplus: int) -> list[int]:
        """So many connections to close, if there are so many: else strangers that come and stay could use up all
        descriptors."""
        found: list[int] = []
        while len(found) < surplus and self._read_at:
            fd = next(iter(self._read_at))
            del self._read_at[fd]
            if not self._is_members(fd):
                found.append(fd)
        return found

    def endless(self) -> list[int]:
        """Those to close whose message has no end, or who say more than is read: libzmq keeps all that has come.

        It is looked for them every `LOOK_S` seconds.
        """
        if (now := time.monotonic()) < self._look_at:
            return []
        self._look_at = now + LOOK_S
        unread = {fd: bytes_received_by(fd) - read for fd, read in self._read_at.items() if not self._is_members(fd)}
        total = sum(size for size in unread.values() if size > UNREAD_BYTES)
        found = []
        for fd, size in sorted(unread.items(), key=lambda item: -item[1]):
            if size <= self._unread_limit and total <= _UNREAD_LIMITS * self._unread_limit:
                break
            total -= size
            found.append(fd)
        return found
