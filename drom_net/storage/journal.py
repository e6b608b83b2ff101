"""What a live node has accepted and decided, on disk before anything follows from it.

A journal is a folder of segments, each a file that is only ever appended to. What is committed together is one frame: a
length, a checksum and msgpack, there as a whole or not at all. Each segment begins with all that is still true of what
came before it, so that the segments before it can be removed when nobody needs their examples any more.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import numpy as np

from drom_net.algorithms.features import Features, SparseVector
from drom_net.core.closing import Closing
from drom_net.core.errors import CheckpointError, naming
from drom_net.data.live import Decided

FOLDER = "spool"
"""In the node's own folder."""
_VERSION = 2
"""Of version 1 the rows were prepared; these are as they came."""
_FRAME = struct.Struct("<II")
"""The length of what is in a frame, and its CRC-32."""
_SEGMENT_BYTES = 4 << 20
_CLIENTS = 1024
"""Of so many, those that were heard last, it is known what was accepted of them."""
_NAME = re.compile(r"segment-(\d{10})\.drom")
_BEGIN, _EXAMPLES, _DECIDED = range(3)
_BODY = re.compile(rb"(?=(?:[\x91-\x9f]|\xdc..|\xdd....)(?:\x97\x00|\x95\x01|\x93\x02))", re.DOTALL)
"""How what is in a frame begins: msgpack's lists of all entries and of the first, and which of the three it is."""

Example = tuple[Features, float]
"""What came, encoded, and -1.0 or +1.0, or 0.0 for a row without a label."""
Position = list[Any]
"""Where in a file to go on: plain values, which the file's reader knows to read."""


class Sender(NamedTuple):
    """Who has sent examples, and its how manieth sending that is: ascending, so that none is taken twice."""

    client: bytes
    number: int


class Loaded(NamedTuple):
    """What there is to go on from."""

    first: int
    """The number of the first of `examples`."""
    examples: list[Example]
    decided: Decided


class _State:
    """What an entry may change, and a segment begins with."""

    def __init__(self) -> None:
        self.next = 0
        """The number of the next example."""
        self.idle_through = 0
        """No round behind this one was decided to be idle."""
        self.last_round: int | None = None
        self.position: Position | None = None
        self.clients: OrderedDict[bytes, int] = OrderedDict()

    def begin_entry(self) -> list[Any]:
        clients = [list(item) for item in self.clients.items()]
        return [_BEGIN, _VERSION, self.next, self.idle_through, self.last_round, self.position, clients]

    @classmethod
    def of(cls, entry: list[Any]) -> _State:
        state = cls()
        _, _, state.next, state.idle_through, state.last_round, state.position, clients = entry
        state.clients = OrderedDict((client, number) for client, number in clients)
        return state

    def take(self, entry: list[Any]) -> None:
        if entry[0] == _EXAMPLES:
            _, examples, client, number, position = entry
            self.next += len(examples)
            if client is not None:
                self.clients[client] = number
                self.clients.move_to_end(client)
                if len(self.clients) > _CLIENTS:
                    self.clients.popitem(last=False)
            self.position = position if position is not None else self.position
        else:
            _, idle, last = entry
            self.idle_through = max(self.idle_through, *idle) if idle else self.idle_through
            self.last_round = self.last_round if last is None else last


class ExampleJournal(Closing):
    """One task's, which one process at a time may have."""

    def __init__(self, folder: Path, *, keeps_all: bool = False) -> None:
        """
        Args:
            folder: Made with the first entry.
            keeps_all: Nothing is ever removed.
        """
        self.cut_bytes = 0
        """So many at the end were not written whole, and were never said to be accepted."""
        self._folder = folder
        self._keeps_all = keeps_all
        self._state = _State()
        self._waiting: list[list[Any]] = []
        self._file = -1
        self._path = folder
        self._size = 0
        self._segments: list[tuple[int, int, int]] = []
        """(its number, the first example, the last idle round before) of each that is there, ascending."""

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @property
    def num_accepted(self) -> int:
        """Examples, since the very first."""
        return self._state.next

    @property
    def position(self) -> Position | None:
        """Behind the last line that was taken."""
        return self._state.position

    def has(self, sender: Sender) -> bool:
        """Whether this sending was accepted before."""
        return self._state.clients.get(sender.client, 0) >= sender.number

    def load(self, taken: int = 0, t: int = 0) -> Loaded:
        """What is needed to go on behind round t, up to which so many examples were taken.

        Raises:
            CheckpointError: Something in it is missing or damaged.
        """
        paths = [path for path in sorted(self._files()) if _NAME.fullmatch(path.name)]
        begins = [self._begin(path, is_last=path == paths[-1]) for path in paths]
        if begins and begins[-1] is None:  # nothing of it was ever on the disk
            paths.pop().unlink()
            begins.pop()
        needed = 0
        for index, begin in enumerate(begins):
            assert begin is not None
            self._segments.append((_number_of(paths[index]), begin.next, begin.idle_through))
            if begin.next <= taken and begin.idle_through <= t:
                needed = index
        examples: list[Example] = []
        idle: list[int] = []
        first = self._segments[needed][1] if paths else 0
        for path, begin in zip(paths[needed:], begins[needed:], strict=True):
            assert begin is not None
            if path != paths[needed] and begin.next != self._state.next:
                raise CheckpointError(f"{path} does not go on from the segment before it: one is missing or damaged")
            self._state = begin
            for entry in self._read(path, is_last=path == paths[-1])[1:]:
                self._state.take(entry)
                if entry[0] == _EXAMPLES:
                    examples += map(_unpacked, entry[1])
                else:
                    idle += entry[1]
        idle_before = self._segments[needed][2] if paths else 0
        if not first <= taken <= self._state.next or idle_before > t:
            raise CheckpointError(
                f"{self._folder} has the examples from {first} to {self._state.next} and what was decided behind round "
                f"{idle_before}, and the node would go on from example {taken} and round {t}: bring the whole folder "
                "along, or remove it to begin anew"
            )
        return Loaded(first, examples, Decided(tuple(idle), self._state.last_round))

    def add(
        self, examples: Sequence[Example], *, sender: Sender | None = None, position: Position | None = None
    ) -> None:
        """To be kept with the next `commit`, all of them or none."""
        packed = [_packed(x, label) for x, label in examples]
        client, number = sender or (None, 0)
        self._put([_EXAMPLES, packed, client, number, position])

    def decide(self, decided: Decided) -> None:
        """The same for what the stream has decided."""
        self._put([_DECIDED, list(decided.idle), decided.last_round])

    def commit(self) -> None:
        """All that was put in since the last time is on the disk when this returns.

        Raises:
            OSError: It names the file.
        """
        if not self._waiting:
            return
        data, self._waiting = _framed(self._waiting), []
        with naming(self._path):
            left = memoryview(data)
            while left:
                left = left[os.write(self._file, left) :]
            os.fdatasync(self._file)
        self._size += len(data)

    def trim(self, taken: int, t: int) -> None:
        """Remove what nobody needs who goes on behind round t, up to which so many examples were taken."""
        while not self._keeps_all and len(self._segments) > 1:
            number = self._segments[0][0]
            _, first, idle_through = self._segments[1]
            if first > taken or idle_through > t:
                return
            with contextlib.suppress(FileNotFoundError):
                self._segment(number).unlink()
            del self._segments[0]

    def _put(self, entry: list[Any]) -> None:
        if self._file < 0 or (self._size >= _SEGMENT_BYTES and not self._waiting):
            self._begin_segment()
        self._waiting.append(entry)
        self._state.take(entry)

    def _begin_segment(self) -> None:
        self.close()
        number = self._segments[-1][0] + 1 if self._segments else 0
        self._path = self._segment(number)
        with naming(self._path):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            for folder in (self._folder, self._folder.parent):  # the name, too, must be there after a power loss
                handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
        self._size = 0
        self._segments.append((number, self._state.next, self._state.idle_through))
        self._waiting.append(self._state.begin_entry())

    def _segment(self, number: int) -> Path:
        return self._folder / f"segment-{number:010d}.drom"

    def _files(self) -> list[Path]:
        return list(self._folder.iterdir()) if self._folder.is_dir() else []

    def _read(self, path: Path, *, is_last: bool) -> list[list[Any]]:
        """The entries of a segment; of the last one what was not written whole is cut off."""
        data = path.read_bytes()
        entries: list[list[Any]] = []
        at = 0
        for found, end in _frames(data):
            entries += found
            at = end
        if at < len(data):
            if not is_last or not _is_torn(data[at:]):
                raise CheckpointError(
                    f"{path} is damaged at byte {at}: examples that were accepted are lost. To go on without those "
                    "behind it, cut the file there and remove the later ones"
                )
            self.cut_bytes = len(data) - at
            with naming(path), path.open("r+b") as file:
                file.truncate(at)
                os.fsync(file.fileno())
        return entries

    def _begin(self, path: Path, *, is_last: bool) -> _State | None:
        """What was true when a segment began; None where it is the last one, and was not begun as a whole."""
        with path.open("rb") as file:
            head = file.read(_FRAME.size)
            data = head + (file.read(_FRAME.unpack(head)[0]) if len(head) == _FRAME.size else b"")
        found = next(_frames(data), None)
        if found is None and is_last and _is_torn(path.read_bytes()):
            return None
        if found is None:
            raise CheckpointError(f"{path} is damaged: examples that were accepted are lost")
        entry = found[0][0]
        if entry[0] != _BEGIN:
            raise CheckpointError(f"{path} is no segment of a journal")
        if entry[1] > _VERSION:
            raise CheckpointError(f"{path} has version {entry[1]} of the format: a later drom_net has written it")
        if entry[1] < _VERSION:
            raise CheckpointError(
                f"{path} has version {entry[1]} of the format: an earlier drom_net has written it, and can go on from "
                "it; to begin anew, remove the node's folder"
            )
        return _State.of(entry)


def _number_of(path: Path) -> int:
    return int(path.stem.partition("-")[2])


def _framed(entries: list[list[Any]]) -> bytes:
    body: bytes = msgpack.packb(entries)
    return _FRAME.pack(len(body), zlib.crc32(body)) + body


def _frames(data: bytes, at: int = 0) -> Iterator[tuple[list[list[Any]], int]]:
    """What is in each frame, and where it ends, up to the first that is not as it was written."""
    while at + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, at)
        begin, at = at + _FRAME.size, at + _FRAME.size + length
        if not length or at > len(data):
            return
        body = data[begin:at]
        if zlib.crc32(body) != checksum:
            return
        yield msgpack.unpackb(body), at


def _is_torn(rest: bytes) -> bool:
    """Whether this is what a crash leaves of a frame that was being written.

    Each is on the disk before the next, so none is behind it; what its length says need not be true.
    """
    begins = (found.start() - _FRAME.size for found in _BODY.finditer(rest, _FRAME.size + 1))
    return all(next(_frames(rest, at), None) is None for at in begins)


def _packed(x: Features, label: float) -> list[Any]:
    if isinstance(x, SparseVector):
        return [label, x.indices.tobytes(), x.values.tobytes()]
    return [label, x.tobytes()]


def _unpacked(fields: list[Any]) -> Example:
    if len(fields) == 3:
        label, indices, values = fields
        return SparseVector(np.frombuffer(indices, dtype=np.int32), np.frombuffer(values)), label
    return np.frombuffer(fields[1]), fields[0]
