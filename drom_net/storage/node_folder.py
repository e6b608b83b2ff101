"""A node's folder: its snapshots, how often it was started, and what it has spent."""

from __future__ import annotations

import fcntl
import json
import os
import re
import struct
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from drom_net.core.closing import Closing
from drom_net.core.errors import CheckpointError, UsageError, naming
from drom_net.learning.records import TASK_DTYPE
from drom_net.storage.files import COPY, PART, write_atomically
from drom_net.storage.journal import FOLDER as JOURNAL
from drom_net.storage.snapshot_codec import Part, decode_snapshot

# A node's folder

MAGIC = b"DROMSNAP"
FORMAT_VERSION = 4
"""Since version 2 a file names classes without their modules; since version 3 no reply waits beside a state; in
version 4 fields have other names."""
_PREAMBLE = struct.Struct("<8sIIQ")
"""The magic, the format version, and the lengths of `about` and of the file. In later versions it stays the same, and
so does the checksum in the last four bytes."""
_PIECE_BYTES = 1 << 20
_CHECKSUM = struct.Struct("<I")
_SNAPSHOT_NAME = re.compile(r"snapshot-(\d{16})\.(?:drom|copy)")
_KEPT = 2
_SHOWS_LIFE_EVERY_S = 5.0


class Loaded(NamedTuple):
    """What a node goes on from."""

    round: int
    snapshot: Any
    skipped: tuple[str, ...]
    """A sentence for each later file that is damaged."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a node has spent in a run, whatever it was started anew."""

    seconds: float = 0.0
    """From when the first had joined, without the time in which it was down."""
    moved: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By task, the bytes of messages that it has sent and received."""

    def __add__(self, other: Spent) -> Spent:
        moved = dict(self.moved)
        for task, (sent, received) in other.moved.items():
            before = moved.get(task, (0, 0))
            moved[task] = before[0] + sent, before[1] + received
        return Spent(self.seconds + other.seconds, moved)

    def to_json(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "moved": [[task, *sizes] for task, sizes in sorted(self.moved.items())]}

    @staticmethod
    def read(document: Any) -> Spent:
        """What `to_json` wrote; nothing where it is something else, or of an earlier version."""
        try:
            seconds, moved = document["seconds"], {task: (sent, got) for task, sent, got in document["moved"]}
        except (TypeError, KeyError, ValueError):
            return Spent()
        numbers = [seconds, *moved, *(size for sizes in moved.values() for size in sizes)]
        fine = all(type(number) in (int, float) and 0 <= number < 2**63 for number in numbers)
        return Spent(float(seconds), moved) if fine else Spent()


class _DamagedError(CheckpointError):
    """A file that is not what was written."""


def has_learned(folder: Path) -> bool:
    """Whether a node has left there what another start of it, in another run, must not replace.

    It has not where it only met others: it may have predicted its first example, and has closed no round.
    """
    if any(_SNAPSHOT_NAME.fullmatch(entry.name) for entry in folder.iterdir()) or any(folder.glob(f"{JOURNAL}/*")):
        return True
    may_have = {"records.bin": TASK_DTYPE.itemsize, "central.bin": 0}
    return any((folder / name).exists() and (folder / name).stat().st_size > size for name, size in may_have.items())


class Kept(NamedTuple):
    """A snapshot, for somebody who only looks."""

    round: int
    snapshot: Any
    spent: Spent


def look_at_kept(folder: Path, classes: Iterable[type]) -> Kept | None:
    """The last snapshot in a node's folder that can be read, whether or not its node runs; None where there is none."""
    allowed = frozenset(classes)
    for path in sorted(folder.glob("snapshot-*.drom"), reverse=True):
        try:
            version, about, body = _read_intact(path)
            document = json.loads(bytes(about))
            number = int(path.stem.partition("-")[2])
            if version == FORMAT_VERSION and document["round"] == number:
                return Kept(number, decode_snapshot(body, allowed), Spent.read(document.get("spent")))
        except (CheckpointError, OSError, ValueError, TypeError, KeyError, RecursionError):
            continue  # it is being replaced, or damaged: the node itself says so when it starts again
    return None


def _with_checksum(parts: Iterable[Part]) -> Iterator[Part]:
    """The same bytes in few pieces, and behind them their checksum.

    A CRC finds what accidents do, if not what a forger does, and costs a fraction of a cryptographic hash. It is made,
    and a piece is written, without the GIL: of many small ones, each would have to wait for it again.
    """
    checksum = 0
    for piece in _pieces(parts):
        checksum = zlib.crc32(piece, checksum)
        yield piece
    yield _CHECKSUM.pack(checksum)


def _pieces(parts: Iterable[Part]) -> Iterator[Part]:
    """Small parts joined to pieces of about a megabyte."""
    together: list[Part] = []
    size = 0
    for part in parts:
        together.append(part)
        size += len(part)
        if size >= _PIECE_BYTES:
            yield b"".join(together) if len(together) > 1 else part
            together, size = [], 0
    yield b"".join(together)


class CheckpointFolder(Closing):
    """The folder of one node, which one process at a time may have.

    Everything in it is for its owner alone. Whatever is written is on the disk, whole, when a call returns, or not
    there at all; an OSError names the file.
    """

    def __init__(self, path: Path, *, node: str, config_digest: str) -> None:
        """Take the folder, which is made where it is missing.

        Raises:
            UsageError: Another process has it.
        """
        self.path = path
        self.incarnation = 0
        self.run_id = ""
        self.before = Spent()
        """What earlier starts had spent at the snapshot that this one goes on from."""
        self.spent = Spent()
        """What all starts have spent, for the next snapshot."""
        self.others_know = False
        """Others have joined this start of the node and keep what they know of it: its id and its count of starts are
        needed at the next one, even where nothing was learned."""
        self.classes: frozenset[type] | None = None
        """Of which its snapshots may hold instances, as `load` was told."""
        self._node = node
        self._config_digest = config_digest
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = self._take_lock()
        self._alive_at = time.monotonic()
        self._intact = sorted(self._numbers())
        """The rounds of the snapshots that may be needed, the one written last at the end."""

    def close(self) -> None:
        """Let others have it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def show_life(self) -> None:
        """Touch the file `lock`, every few seconds however often it is called: who looks at its time sees a node that
        does its work, and not only a process that is there."""
        now = time.monotonic()
        if now >= self._alive_at + _SHOWS_LIFE_EVERY_S:
            self._alive_at = now
            with naming(self.path / "lock"):
                os.utime(self._lock)

    def begin(self, run_id: str) -> tuple[int, str]:
        """Count one more start of this node, on disk before this returns.

        Args:
            run_id: The run that it is started for; empty where nobody knows, and then it is that of its last start.

        Returns:
            (incarnation from 1, run id, empty where it is still unknown)

        Raises:
            CheckpointError: The folder is of another run, or how often the node was started is lost.
        """
        incarnation, kept = self._read_life()
        if run_id and kept and run_id != kept and has_learned(self.path):
            raise CheckpointError(
                f"{self.path} is of run {kept}, and this node is started for run {run_id}: remove the folder, or "
                "give the node another one"
            )
        self.incarnation, self.run_id = incarnation + 1, run_id or kept
        self._write_life()
        return self.incarnation, self.run_id

    def adopt(self, run_id: str) -> None:
        """Keep the id of the run, which was not known when the node began."""
        assert self.incarnation, "begin() comes first"
        if self.run_id not in ("", run_id) and has_learned(self.path):
            raise CheckpointError(
                f"{self.path} is of run {self.run_id}, and this is run {run_id}: remove the folder, or give the node "
                "another one"
            )
        if run_id != self.run_id:
            self.run_id = run_id
            self._write_life()

    def join(self, run_id: str) -> None:
        """Note that others have met this node in the run."""
        self.others_know = True
        self.adopt(run_id)

    def save(self, number: int, header: Part, buffers: Sequence[Part]) -> None:
        """Write the snapshot of a round. Of the older ones only the last stays.

        Args:
            number: The round.
            header, buffers: From `encode_snapshot`.
        """
        about = json.dumps(
            {
                "run_id": self.run_id,
                "node": self._node,
                "config_digest": self._config_digest,
                "round": number,
                "time": time.time(),
                "spent": self.spent.to_json(),
            }
        ).encode()
        size = _PREAMBLE.size + len(about) + len(header) + sum(map(len, buffers)) + _CHECKSUM.size
        parts = [_PREAMBLE.pack(MAGIC, FORMAT_VERSION, len(about), size) + about, header, *buffers]
        write_atomically(self._file(number), _with_checksum(parts))
        self._intact = [*(kept for kept in self._intact if kept != number), number][-_KEPT:]
        self._remove_others()

    def end(self) -> None:
        """Copy the last snapshot: once a node has ended the others forget what it would need to go on from the one
        before."""
        if self._intact:
            last = self._file(self._intact[-1])
            with naming(last):
                write_atomically(last.with_suffix(COPY), [last.read_bytes()])

    def load(self, classes: Iterable[type]) -> Loaded | None:
        """The latest snapshot that is whole; None where there is none at all.

        Raises:
            CheckpointError: All are damaged; or it is of another node, run or configuration, or of a later format.
        """
        assert self.incarnation, "begin() comes first"
        self.classes = frozenset(classes)
        skipped: list[str] = []
        files = [self._file(number) for number in sorted(self._numbers(), reverse=True)]
        for path in (path for file in files for path in (file, file.with_suffix(COPY)) if path.exists()):
            number = int(path.stem.partition("-")[2])
            try:
                body, spent = self._read(path, number)
            except _DamagedError as error:
                skipped.append(str(error))
                continue
            try:
                snapshot = decode_snapshot(body, self.classes)
            except CheckpointError as error:  # nothing has damaged it: this is no matter for an older one
                raise CheckpointError(f"{path} cannot be used: {error}") from None
            if path.suffix == COPY:
                write_atomically(self._file(number), [path.read_bytes()])
            self._intact = sorted(kept for kept in self._numbers() if kept <= number)[-_KEPT:]
            self.before = self.spent = spent
            return Loaded(number, snapshot, tuple(skipped))
        if skipped:
            raise CheckpointError(
                "\n".join([*skipped, "there is no other snapshot: the node cannot go on from where it was"])
            )
        return None

    def _read(self, path: Path, number: int) -> tuple[memoryview, Spent]:
        """The snapshot in a file, once all about it has been found right, and what had been spent by then."""
        version, about, body = _read_intact(path)
        if version > FORMAT_VERSION:
            raise CheckpointError(
                f"{path} has version {version} of the format, and this drom_net knows up to version {FORMAT_VERSION}: "
                "a later drom_net has written it"
            )
        if version < FORMAT_VERSION:
            raise CheckpointError(
                f"{path} has version {version} of the format, and this drom_net goes on from version {FORMAT_VERSION} "
                "alone: finish the run with the drom_net that began it, or start it anew"
            )
        try:
            document = json.loads(bytes(about))
            texts = [document[key] for key in ("node", "run_id", "config_digest")]
            its_round = document["round"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise _DamagedError(f"{path} does not say what it is of: it is passed over") from None
        ours = (self._node, self.run_id, self._config_digest)
        for what, theirs, mine in zip(("node", "run", "configuration"), texts, ours, strict=True):
            if theirs != mine:
                raise CheckpointError(
                    f"{path} is of {what} {theirs or '(unknown)'}, and this is {what} {mine or '(unknown)'}: remove "
                    "the folder, or give the node another one"
                )
        if its_round != number:
            raise _DamagedError(f"{path} is of round {its_round}, not of the one in its name: it is passed over")
        return body, Spent.read(document.get("spent"))

    def _file(self, number: int) -> Path:
        return self.path / f"snapshot-{number:016d}.drom"

    def _numbers(self) -> set[int]:
        found = (_SNAPSHOT_NAME.fullmatch(entry.name) for entry in self.path.iterdir())
        return {int(match[1]) for match in found if match}

    def _remove_others(self) -> None:
        for entry in list(self.path.iterdir()):
            name, part, _ = entry.name.partition(PART)
            found = _SNAPSHOT_NAME.fullmatch(name)
            if found and (part or int(found[1]) not in self._intact):
                entry.unlink(missing_ok=True)

    @property
    def _life(self) -> Path:
        return self.path / "life.json"

    def _read_life(self) -> tuple[int, str]:
        """(how often it was started before, the run id)"""
        try:
            document = json.loads(self._life.read_bytes())
            incarnation, run_id = document["incarnation"], document["run_id"]
            if type(incarnation) is int and 0 < incarnation < 2**53 and type(run_id) is str:
                return incarnation, run_id
            what = "damaged"
        except FileNotFoundError:
            if not self._intact:
                return 0, ""
            what = "missing"
        except (ValueError, TypeError, KeyError, RecursionError):
            what = "damaged"
        raise CheckpointError(
            f"{self._life} is {what}, which counts how often this node was started: write "
            '{"incarnation": N, "run_id": "ID"} into it, with an N above all earlier ones (1000 will do) and the ID '
            "of the run, or remove the folder to begin anew"
        )

    def _write_life(self) -> None:
        document = {"incarnation": self.incarnation, "run_id": self.run_id}
        write_atomically(self._life, [json.dumps(document).encode() + b"\n"])

    def _take_lock(self) -> int:
        """A lock that the kernel gives back when the process is gone, however it ends."""
        path = self.path / "lock"
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with naming(path):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
            os.close(lock)
            raise UsageError(
                f"{self.path} is in use by {f'process {holder}' if holder else 'another process'}: a node runs in it"
            ) from None
        except OSError:
            os.close(lock)
            raise
        return lock


def _read_intact(path: Path) -> tuple[int, memoryview, memoryview]:
    """(format version, about, snapshot) of a file whose bytes are those that were written."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        preamble = file.read(_PREAMBLE.size)
        if len(preamble) < _PREAMBLE.size:
            raise _DamagedError(f"{path} is cut after {size} bytes: it is passed over")
        magic, version, about_size, full_size = _PREAMBLE.unpack(preamble)
        if magic != MAGIC:
            raise _DamagedError(f"{path} is no snapshot of drom_net: it is passed over")
        if full_size != size:
            raise _DamagedError(f"{path} has {size} bytes and was written with {full_size}: it is passed over")
        rest = memoryview(file.read(size))
    about_end, end = about_size, len(rest) - _CHECKSUM.size
    if not about_end <= end:
        raise _DamagedError(f"{path} is too short for what it says of itself: it is passed over")
    if zlib.crc32(rest[:end], zlib.crc32(preamble)) != _CHECKSUM.unpack(rest[end:])[0]:
        raise _DamagedError(f"{path} is damaged, its checksum is another one: it is passed over")
    return version, rest[:about_end], rest[about_end:end]
