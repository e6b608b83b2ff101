"""Live examples as lines: of a file that grows, and may be moved away for a new one, or of standard input."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from drom_net.data.incoming import RowError
from drom_net.data.row_lines import LineParser
from drom_net.node.live.live_input import LiveInput

_LINE_BYTES = 4 << 20
"""The longest line."""
_CHUNK_BYTES = 256 << 10
_LOOK_EVERY_S = 0.05
"""How soon a file is looked at again; a node that is idle waits longer for its cluster (transport.base.SLICE_S)."""
_LINES_OF_A_ROW = 100
"""So many lines may a field in quotes go over."""
_TAIL_BYTES = 64


class StandardInput:
    """Lines as they come, until there are no more."""

    def __init__(self, live_input: LiveInput, lines: LineParser, fd: int = 0) -> None:
        self._live_input = live_input
        self._lines = lines
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._splitter = _Splitter(lines.is_open)
        self._line = 0
        self._at_end = live_input.stream.has_ended
        self._pauses = False

    def close(self) -> None:
        pass

    @property
    def waits_for(self) -> int | None:
        return None if self._at_end or self._pauses else self._fd

    def serve(self) -> bool:
        if self._live_input.stream.has_ended:
            return False
        self._pauses = _pauses(self._live_input, self._pauses)
        if self._pauses:
            return False
        if not self._splitter.has_lines and not self._at_end:
            if not self._poll.poll(0):
                return False
            data = os.read(self._fd, _CHUNK_BYTES)
            self._splitter.feed(data)
            if not data:
                self._at_end = True
                self._splitter.flush()
        examples = []
        for line in self._splitter.lines(self._live_input.room):
            first, self._line = self._line + 1, self._line + max(1, line.count(b"\n"))
            with _telling(self._live_input, f"standard input:{first}"):
                if (example := self._lines.read(line)) is not None:
                    examples.append(example)
        if examples:
            self._live_input.add(examples)
            self._live_input.commit()
        if self._at_end and not self._splitter.has_lines:
            self._live_input.end()
        return True


class _At(NamedTuple):
    """Where a file was read up to."""

    inode: int
    offset: int
    line: int
    """How many lines there were."""
    tail: bytes
    """What stands just before the offset: another file, or one that was written anew, has something else."""
    header: bytes = b""
    """The column names that hold there."""


class FollowedFile:
    """A file that grows line by line, may be written anew, and may be moved away for a new one.

    It is the same file as long as it has the same inode, and, just before where it was read up to, the same bytes. One
    that was moved away is read to its end first: while it is open, and after a restart where it is still in its folder.
    Files that came and went meanwhile are told of, and not read.
    """

    def __init__(self, live_input: LiveInput, path: Path, lines: LineParser, *, follows: bool) -> None:
        """
        Args:
            follows: Whether it may still grow.
        """
        self._live_input = live_input
        self._path = path
        self._lines = lines
        self._follows = follows
        self._fd = -1
        self._at = _At(0, 0, 0, b"")
        self._splitter = _Splitter(lines.is_open)
        self._look_at = 0.0
        self._pauses = self._waits = False
        self._left_ns: int | None = None
        """When something was written last to a file that was read to its end and moved away."""
        if live_input.position is not None:
            self._at = _At(*live_input.position)
            self._open(self._find(self._at.inode))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def waits_for(self) -> None:
        return None

    def serve(self) -> bool:
        if self._live_input.stream.has_ended:
            return False
        self._pauses = _pauses(self._live_input, self._pauses)
        if self._pauses or (not self._splitter.has_lines and time.monotonic() < self._look_at):
            return False
        if not self._splitter.has_lines and not self._read():
            self._look_at = time.monotonic() + _LOOK_EVERY_S
            return False
        self._take_lines()
        return True

    def _take_lines(self) -> None:
        examples = []
        at = self._at
        for line in self._splitter.lines(self._live_input.room):
            tail = (at.tail + line)[-_TAIL_BYTES:]
            where = f"{self._path}:{at.line + 1}"
            at = _At(at.inode, at.offset + len(line), at.line + max(1, line.count(b"\n")), tail)
            with _telling(self._live_input, where):
                if (example := self._lines.read(line)) is not None:
                    examples.append(example)
            at = at._replace(header=self._lines.header)
        if at != self._at:
            self._at = at
            self._live_input.add(examples, position=list(at))
            self._live_input.commit()

    def _read(self) -> bool:
        """Read on; whether there are whole lines now."""
        if self._fd < 0:
            self._open(self._path)
        if self._fd < 0:
            return False
        tail, rest = self._at.tail, self._splitter.unread
        found = os.pread(self._fd, len(tail) + len(rest), self._at.offset - len(tail))
        if found[: len(tail)] != tail:
            self._live_input.say(f"{self._path} was written anew: reading it from its start")
            self._begin()
            return False
        if found[len(tail) :] != rest:  # its last line was not whole, and is another one now
            self._splitter = _Splitter(self._lines.is_open)
        if data := os.pread(self._fd, _CHUNK_BYTES, self._at.offset + self._splitter.size):
            self._splitter.feed(data)
            return self._splitter.has_lines
        moved = False
        with contextlib.suppress(OSError):  # the new one may not be there yet
            new = os.stat(self._path)
            moved = new.st_ino != self._at.inode and new.st_size > 0
        if not moved and self._follows:
            return False
        if self._splitter.flush():  # a last line without an end, to which nobody will add
            return True
        if moved:
            self._left_ns = os.fstat(self._fd).st_mtime_ns
            self.close()
        else:
            self._live_input.end()
        return False

    def _find(self, inode: int) -> Path:
        """Where the file is now that was read last."""
        with contextlib.suppress(OSError), os.scandir(self._path.parent) as entries:
            for entry in entries:
                if entry.name.startswith(self._path.name) and entry.inode() == inode:
                    return Path(entry.path)
        return self._path

    def _open(self, path: Path) -> None:
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                self.close()
                raise OSError(errno.EINVAL, "not a regular file")
        except OSError as error:
            if not self._waits:  # it may come, or be put right
                why = "" if isinstance(error, FileNotFoundError) else f" ({error.strerror})"
                self._live_input.say(f"waiting for {path} to be there{why}")
            self._waits = True
            return
        self._waits = False
        if os.fstat(self._fd).st_ino != self._at.inode:
            if self._at.inode:
                self._tell_what_is_passed_over()
            self._begin()
            return
        self._splitter = _Splitter(self._lines.is_open)
        if self._at.line:
            # Of a journal of an earlier build they are at the file's start.
            self._lines.begin(self._at.header or os.pread(self._fd, _LINE_BYTES, 0).partition(b"\n")[0])

    def _tell_what_is_passed_over(self) -> None:
        """Files between the one that was read last and the open one: as far as their times of writing tell."""
        left_ns, self._left_ns = self._left_ns, None
        if left_ns is None:
            self._live_input.say(
                f"{self._path} is another file than the one that was read last, which is gone: what came to that since "
                "then is not read, nor what was between the two"
            )
            return
        between = []
        with contextlib.suppress(OSError), os.scandir(self._path.parent) as entries:
            for entry in entries:
                if not entry.name.startswith(self._path.name) or not entry.is_file(follow_symlinks=False):
                    continue
                found = entry.stat(follow_symlinks=False)
                known = found.st_ino in (self._at.inode, os.fstat(self._fd).st_ino)
                if not known and found.st_size and found.st_mtime_ns > left_ns:
                    between.append(entry.name)
        if between:
            self._live_input.say(
                f"between the file that was read last and {self._path} there was {', '.join(sorted(between))}: not read"
            )

    def _begin(self) -> None:
        """The open file is read from its start."""
        self._lines.begin()
        self._splitter = _Splitter(self._lines.is_open)
        self._at = _At(os.fstat(self._fd).st_ino, 0, 0, b"", self._lines.header)


class _Splitter:
    """Bytes to lines, each with its end; those that a field in quotes goes over are one."""

    def __init__(self, is_open: Callable[[bytes], bool] = lambda lines: False) -> None:
        """
        Args:
            is_open: Whether lines need the next one.
        """
        self._is_open = is_open
        self._lines: deque[bytes] = deque()
        self._rest = b""
        """A line that has no end yet."""
        self._waits = False
        """What there is needs another line."""
        self._flushed = False
        self.size = 0
        """Bytes that are in no line that was given out."""

    @property
    def has_lines(self) -> bool:
        return bool(self._lines) and not self._waits

    @property
    def unread(self) -> bytes:
        """All that was not given out."""
        return b"".join((*self._lines, self._rest))

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(line + b"\n" for line in lines)
        self._waits = self._waits and not lines
        self.size += len(data)
        if len(self._rest) > _LINE_BYTES:  # too long for an example: it will be left out, in pieces
            self._take_rest()

    def flush(self) -> bool:
        """What has no end yet is a line, for no more will come; whether there was anything."""
        had = bool(self._rest or self._lines)
        self._flushed = True
        self._take_rest()
        return had

    def _take_rest(self) -> None:
        self._waits = False
        if self._rest:
            self._lines.append(self._rest)
            self._rest = b""

    def lines(self, most: int) -> Iterator[bytes]:
        """At most so many."""
        while self._lines and most > 0:
            line, count = self._lines[0], 1
            while self._is_open(line) and count < _LINES_OF_A_ROW:
                if count < len(self._lines):
                    line += self._lines[count]
                    count += 1
                elif self._flushed:
                    break
                else:
                    self._waits = True
                    return
            if self._is_open(line):  # a quote that nobody closes: its line is bad, the next ones may be good
                line, count = self._lines[0], 1
            for _ in range(count):
                self._lines.popleft()
            most -= 1
            self.size -= len(line)
            yield line


def _pauses(live_input: LiveInput, paused: bool) -> bool:
    """Whether lines wait: from a full backlog until half of it is learned, so that many are taken at a time."""
    return live_input.room <= (live_input.backlog_limit // 2 if paused else 0)


@contextlib.contextmanager
def _telling(live_input: LiveInput, where: str) -> Iterator[None]:
    try:
        yield
    except RowError as error:
        live_input.tell_bad(where, error)
