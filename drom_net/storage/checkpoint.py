"""What a node keeps on disk for the time after a crash: its snapshots, how often it was started, its rows cut back.

A snapshot is a tree of plain values, arrays, and instances of known classes. It is written as a header of msgpack
tokens and the raw bytes of its larger arrays behind it, and read without trust: nothing is unpickled, no class is
looked up by its name, and nothing is allocated that the file does not hold. docs/protocol.md has the layout.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import json
import math
import os
import queue
import re
import struct
import sys
import threading
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import msgpack
import numpy as np
import numpy.typing as npt

from drom_net.core.errors import CheckpointError, UsageError, naming
from drom_net.learning.records import TASK_DTYPE
from drom_net.storage.journal import FOLDER as SPOOL

Part = bytes | memoryview
"""A piece of a file; a memoryview is of bytes."""

# Snapshots as bytes

_HEADER_LENGTH = struct.Struct("<Q")
_COUNT = struct.Struct("<Q")
_INLINE_BYTES = 1024
"""Arrays up to this size are copied into the header: thousands of small ones would be thousands of writes."""

_PLAIN = (type(None), bool, int, float, str, bytes)
_DTYPES = {dtype.str: dtype for dtype in map(np.dtype, ("<f8", "<i8", "<i4", "|u1", "|b1"))}
_OF_SNAPSHOTS = ("drom_net.algorithms.", "drom_net.protocol.", "drom_net.learning.task", "drom_net.learning.metrics")
"""The modules whose classes may stand in a snapshot."""


def encode_snapshot(value: Any) -> list[Part]:
    """The snapshot as bytes: a header, and the bytes of each larger array, which are not copied.

    The arrays must stay as they are until what is returned has been written.

    Raises:
        TypeError: Something in it is of no type that a snapshot may hold.
        OverflowError: An int is below -2^63 or not below 2^64.
    """
    encoder = _Encoder()
    encoder.put(value)
    tokens = encoder.packer.bytes()
    return [_HEADER_LENGTH.pack(len(tokens)) + tokens, *encoder.buffers]


def decode_snapshot(data: Part, classes: Iterable[type]) -> Any:
    """What `encode_snapshot` was given; its arrays are owned, writable, aligned and in C order.

    Args:
        data: The parts, joined.
        classes: Of which instances are made, and of no others.

    Raises:
        CheckpointError: These bytes are no snapshot, or one with other classes.
    """
    view = memoryview(data)
    if len(view) < _HEADER_LENGTH.size:
        raise CheckpointError("a snapshot without a header")
    (length,) = _HEADER_LENGTH.unpack_from(view)
    arrays = view[_HEADER_LENGTH.size :]
    if not 0 < length <= len(arrays):
        raise CheckpointError(f"a header of {length} bytes in a snapshot of {len(view)}")
    # Tokens are flat, and an array or map among them is an error: msgpack would allocate whatever it announces.
    unpacker = msgpack.Unpacker(max_buffer_size=length, max_array_len=0, max_map_len=0, max_ext_len=_COUNT.size)
    try:
        unpacker.feed(arrays[:length])
        tokens = list(unpacker)
    except Exception as error:  # msgpack documents no closed list of what it raises
        raise CheckpointError(f"a header that is not msgpack ({type(error).__name__})") from None
    if unpacker.tell() != length:
        raise CheckpointError("a header whose last token is cut")
    decoder = _Decoder(tokens, arrays[length:], classes)
    try:
        value = decoder.value()
    except RecursionError:
        raise CheckpointError("a snapshot nested too deeply") from None
    decoder.end()
    return value


def snapshot_classes() -> list[type]:
    """All that may stand in a snapshot: the named tuples, dataclasses and IntEnums of these modules, as far as loaded.

    A new algorithm's are among them as soon as `drom_net.algorithms` imports it. A file calls them by their own names,
    whatever module they stand in: code may move without that runs can no longer be resumed.
    """
    return [
        item
        for name, module in sorted(sys.modules.items())
        if name.startswith(_OF_SNAPSHOTS)
        for item in vars(module).values()
        if _fields(item) is not None and item.__module__ == name
    ]


def _name(cls: type) -> str:
    return cls.__qualname__


def _fields(cls: object) -> tuple[str, ...] | None:
    """The names of what an instance consists of; None for what is no such class."""
    if not isinstance(cls, type):
        return None
    if issubclass(cls, enum.IntEnum):
        return ("value",)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return tuple(cls._fields)
    return tuple(field.name for field in fields(cls)) if is_dataclass(cls) else None


class _Begins(enum.IntEnum):
    """What a msgpack extension token of this code begins."""

    TUPLE = 0
    LIST = 1
    DICT = 2
    SET = 3
    ARRAY = 4
    SCALAR = 5
    CLASS = 6
    INSTANCE = 7


class _Encoder:
    def __init__(self) -> None:
        self.packer = msgpack.Packer(autoreset=False)
        self.buffers: list[Part] = []
        self._classes: dict[type, tuple[int, tuple[str, ...]]] = {}
        """(its number, its fields) of each class that has occurred."""

    def put(self, value: Any) -> None:
        kind = type(value)
        if kind in _PLAIN:
            self.packer.pack(value)
        elif kind is tuple or kind is list:
            self._begin(_Begins.TUPLE if kind is tuple else _Begins.LIST, len(value))
            for item in value:
                self.put(item)
        elif kind is dict:
            self._begin(_Begins.DICT, len(value))
            for key, item in value.items():
                if type(key) is not int and type(key) is not str:
                    raise TypeError(f"a snapshot cannot hold a key of type {type(key).__name__}")
                self.packer.pack(key)
                self.put(item)
        elif kind is set:
            if not all(type(item) is int for item in value):
                raise TypeError("a snapshot holds only sets of ints")
            self._begin(_Begins.SET, len(value))
            for item in sorted(value):
                self.packer.pack(item)
        elif isinstance(value, np.ndarray):
            self._put_array(value)
        elif isinstance(value, np.generic):  # not as a plain number: its powers and its division by zero are others
            self._begin(_Begins.SCALAR, 0)
            self._put_array(np.asarray(value))
        else:
            self._put_instance(value)

    def _begin(self, code: int, count: int) -> None:
        self.packer.pack_ext_type(code, _COUNT.pack(count))

    def _put_array(self, array: npt.NDArray[Any]) -> None:
        if array.dtype.str not in _DTYPES:
            raise TypeError(f"a snapshot cannot hold an array of {array.dtype}")
        self._begin(_Begins.ARRAY, array.ndim)
        self.packer.pack(array.dtype.str)
        for length in array.shape:
            self.packer.pack(length)
        if array.nbytes <= _INLINE_BYTES:
            self.packer.pack(array.tobytes())
        else:
            self.packer.pack(None)
            self.buffers.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def _put_instance(self, value: Any) -> None:
        cls = type(value)
        if cls not in self._classes:
            names = _fields(cls)
            if names is None:
                raise TypeError(f"a snapshot cannot hold a {_name(cls)}")
            self._classes[cls] = len(self._classes), names
            self._begin(_Begins.CLASS, len(names))
            for text in (_name(cls), *names):
                self.packer.pack(text)
        number, names = self._classes[cls]
        self._begin(_Begins.INSTANCE, number)
        for name in names:
            self.put(getattr(value, name))


class _Decoder:
    def __init__(self, tokens: list[Any], arrays: memoryview, classes: Iterable[type]) -> None:
        self._tokens = iter(tokens)
        self._arrays = arrays
        self._allowed: dict[str, type] = {}
        for cls in classes:
            assert self._allowed.setdefault(_name(cls), cls) is cls, f"two classes of snapshots are named {_name(cls)}"
        self._classes: list[tuple[type, tuple[str, ...]]] = []

    def value(self) -> Any:
        token = self._next()
        while type(token) is msgpack.ExtType and token.code == _Begins.CLASS:
            self._note_class(self._count(token))
            token = self._next()
        if type(token) in _PLAIN:
            return token
        count = self._count(token)
        match token.code:
            case _Begins.TUPLE:
                return tuple([self.value() for _ in range(count)])
            case _Begins.LIST:
                return [self.value() for _ in range(count)]
            case _Begins.DICT:
                return self._dict(count)
            case _Begins.SET:
                return {self._exactly(int) for _ in range(count)}
            case _Begins.ARRAY:
                return self._array(count)
            case _Begins.SCALAR:
                array = self.value()
                if not isinstance(array, np.ndarray) or array.shape:
                    raise CheckpointError("a number that is no array of one")
                return array[()]
            case _Begins.INSTANCE:
                return self._instance(count)
        raise CheckpointError(f"a value of unknown kind {token.code}")

    def end(self) -> None:
        """There must be nothing more."""
        if next(self._tokens, self) is not self or len(self._arrays):
            raise CheckpointError("a snapshot with more bytes than it says")

    def _next(self) -> Any:
        try:
            return next(self._tokens)
        except StopIteration:
            raise CheckpointError("a snapshot that ends in the middle") from None

    def _count(self, token: Any) -> int:
        if type(token) is not msgpack.ExtType or len(token.data) != _COUNT.size:
            raise CheckpointError(f"a value of unknown kind {type(token).__name__}")
        count: int = _COUNT.unpack(token.data)[0]
        return count if count < 2**63 else 2**63 - 1  # the most that range() takes; the tokens end before

    def _exactly(self, *types: type) -> Any:
        token = self._next()
        if type(token) not in types:
            raise CheckpointError(f"a {type(token).__name__} where {types[0].__name__} was expected")
        return token

    def _dict(self, count: int) -> dict[int | str, Any]:
        found: dict[int | str, Any] = {}
        for _ in range(count):
            key = self._exactly(int, str)
            if key in found:
                raise CheckpointError(f"the key {key!r} twice")
            found[key] = self.value()
        return found

    def _array(self, ndim: int) -> npt.NDArray[Any]:
        dtype = _DTYPES.get(self._exactly(str))
        if dtype is None:
            raise CheckpointError("an array of unknown type")
        shape = tuple([self._exactly(int) for _ in range(ndim)])
        inline = self._exactly(bytes, type(None))
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or size > len(self._arrays if inline is None else inline):
            raise CheckpointError(f"an array of shape {shape[:8]} that is not all there")
        if inline is None:
            raw, self._arrays = self._arrays[:size], self._arrays[size:]
        elif size == len(inline):
            raw = memoryview(inline)
        else:
            raise CheckpointError(f"an array of shape {shape[:8]} in {len(inline)} bytes")
        if dtype.kind == "b" and size and np.frombuffer(raw, np.uint8).max() > 1:
            raise CheckpointError("a truth value that is neither 0 nor 1")
        try:
            return np.frombuffer(raw, dtype).reshape(shape).copy()
        except ValueError as error:  # more axes than NumPy has, or lengths beyond it beside a 0
            raise CheckpointError(f"an array that cannot be: {error}") from None

    def _note_class(self, count: int) -> None:
        name = self._exactly(str)
        names = tuple([self._exactly(str) for _ in range(count)])
        cls = self._allowed.get(name)
        if cls is None or _fields(cls) != names:
            here = "does not know" if cls is None else "has other fields for"
            raise CheckpointError(f"it holds the class {name}, which this version of drom_net {here}")
        self._classes.append((cls, names))

    def _instance(self, number: int) -> Any:
        if number >= len(self._classes):
            raise CheckpointError("an instance of no class")
        cls, names = self._classes[number]
        values = [self.value() for _ in names]
        if issubclass(cls, enum.IntEnum):
            if type(values[0]) is not int or values[0] not in set(cls):
                raise CheckpointError(f"a {_name(cls)} without a member of this value")
            return cls(values[0])
        if issubclass(cls, tuple):
            return cls._make(values)  # type: ignore[attr-defined]
        instance = object.__new__(cls)  # restored, not constructed: also what is frozen, or not among the arguments
        for name, value in zip(names, values, strict=True):
            object.__setattr__(instance, name, value)
        return instance


# A node's folder

MAGIC = b"DROMSNAP"
FORMAT_VERSION = 2
"""Since version 2 a file names classes without their modules."""
_PREAMBLE = struct.Struct("<8sIIQ")
"""The magic, the format version, and the lengths of `about` and of the file. In later versions it stays the same, and
so does the checksum in the last four bytes."""
_CHECKSUM = struct.Struct("<I")
_SNAPSHOT_NAME = re.compile(r"snapshot-(\d{16})\.(?:drom|copy)")
_PART, _COPY = ".part", ".copy"
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
    if any(_SNAPSHOT_NAME.fullmatch(entry.name) for entry in folder.iterdir()) or any(folder.glob(f"{SPOOL}/*")):
        return True
    may_have = {"records.bin": TASK_DTYPE.itemsize, "central.bin": 0}
    return any((folder / name).exists() and (folder / name).stat().st_size > size for name, size in may_have.items())


class CheckpointFolder:
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
        self._node = node
        self._config_digest = config_digest
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = self._take_lock()
        self._alive_at = time.monotonic()
        self._intact = sorted(self._numbers())
        """The rounds of the snapshots that may be needed, the one written last at the end."""

    def __enter__(self) -> CheckpointFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        # A CRC finds what accidents do, if not what a forger does, and costs a fraction of a cryptographic hash. Over
        # pieces beyond 5 kB zlib computes it without the GIL.
        checksum = 0
        for part in parts:
            checksum = zlib.crc32(part, checksum)
        _write_atomically(self._file(number), [*parts, _CHECKSUM.pack(checksum)])
        self._intact = [*(kept for kept in self._intact if kept != number), number][-_KEPT:]
        self._remove_others()

    def end(self) -> None:
        """Copy the last snapshot: once a node has ended the others forget what it would need to go on from the one
        before."""
        if self._intact:
            last = self._file(self._intact[-1])
            with naming(last):
                _write_atomically(last.with_suffix(_COPY), [last.read_bytes()])

    def load(self, classes: Iterable[type]) -> Loaded | None:
        """The latest snapshot that is whole; None where there is none at all.

        Raises:
            CheckpointError: All are damaged; or it is of another node, run or configuration, or of a later format.
        """
        assert self.incarnation, "begin() comes first"
        skipped: list[str] = []
        files = [self._file(number) for number in sorted(self._numbers(), reverse=True)]
        for path in (path for file in files for path in (file, file.with_suffix(_COPY)) if path.exists()):
            number = int(path.stem.partition("-")[2])
            try:
                body, spent = self._read(path, number)
            except _DamagedError as error:
                skipped.append(str(error))
                continue
            try:
                snapshot = decode_snapshot(body, classes)
            except CheckpointError as error:  # nothing has damaged it: this is no matter for an older one
                raise CheckpointError(f"{path} cannot be used: {error}") from None
            if path.suffix == _COPY:
                _write_atomically(self._file(number), [path.read_bytes()])
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
            name, part, _ = entry.name.partition(_PART)
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
        _write_atomically(self._life, [json.dumps(document).encode() + b"\n"])

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


def _write_atomically(path: Path, parts: Iterable[Part]) -> None:
    """The file with this content, on disk; or, with an OSError that names it, what was there before."""
    temporary = path.with_name(path.name + _PART)
    with naming(path):
        try:
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                for part in parts:
                    left = memoryview(part)
                    while left:
                        left = left[os.write(file, left) :]
                os.fsync(file)
            finally:
                os.close(file)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)  # the name, too
        finally:
            os.close(folder)


def cut_back(path: Path, dtype: npt.DTypeLike, round: int, *, expect_round: int | None = None) -> int:
    """Cut a file of rows back to those of rounds up to this one, and say how many these are.

    Args:
        path: Rows that were only ever appended, ascending in their field `round`. The last one may be torn. Rows of
            nothing but zero bytes count as not written: after a power loss a file may end with such. A file that is
            missing has no rows.
        expect_round: The round of the last row that must be there; None where there may be none.

    Raises:
        CheckpointError: That row is missing.
    """
    row = np.dtype(dtype)
    assert row.fields is not None
    where, offset = row.fields["round"][:2]
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        if expect_round is None:
            return 0
        raise CheckpointError(f"{path} is missing; the snapshot goes on from its row of round {expect_round}") from None
    try:
        with naming(path):
            size = os.fstat(file).st_size

            def round_at(index: int) -> int | None:
                """None for a row that was not written."""
                data = os.pread(file, row.itemsize, index * row.itemsize)
                return int(np.frombuffer(data, where, 1, offset)[0]) if any(data) else None

            kept, beyond = 0, size // row.itemsize
            while kept < beyond:
                middle = (kept + beyond) // 2
                found = round_at(middle)
                if found is not None and found <= round:
                    kept = middle + 1
                else:
                    beyond = middle
            last = round_at(kept - 1) if kept else None
            if expect_round is not None and (last is None or last < expect_round):
                there = "has no row up to" if last is None else f"ends with round {last} where it should have"
                raise CheckpointError(
                    f"{path} {there} round {expect_round}: it is not the file that the snapshot was made beside"
                )
            if size != kept * row.itemsize:
                os.ftruncate(file, kept * row.itemsize)
    finally:
        os.close(file)
    return kept


# Saving beside the rounds


class _Job(NamedTuple):
    number: int
    header: Part
    buffers: Sequence[Part]
    also: Sequence[IO[bytes] | int]


class Writer:
    """Saves snapshots in a thread of its own, one at a time."""

    def __init__(self, folder: CheckpointFolder) -> None:
        self._folder = folder
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._finished: list[int] = []
        self._error: Exception | None = None
        self._idle = threading.Event()
        self._idle.set()
        self._thread = threading.Thread(target=self._work, name="checkpoint", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a snapshot is on its way to the disk."""
        return not self._idle.is_set()

    def submit(self, number: int, header: Part, buffers: Sequence[Part], also: Sequence[IO[bytes] | int] = ()) -> None:
        """Begin to save a snapshot; one that is still on its way is waited for.

        Args:
            number, header, buffers: As for `CheckpointFolder.save`.
            also: Files whose rows the snapshot goes on from: these are brought to the disk first.
        """
        assert self._thread.is_alive(), "the writer is closed"
        self._idle.wait()
        self._idle.clear()
        self._jobs.put(_Job(number, header, buffers, also))

    def finished(self) -> list[int]:
        """The rounds whose snapshots are on the disk, in the order they were saved, each told once.

        Raises:
            OSError: One could not be saved, which is told once; what was on the disk is there still.
        """
        with self._lock:
            if (error := self._error) is not None:
                self._error = None
                raise error
            finished, self._finished = self._finished, []
            return finished

    def wait(self) -> list[int]:
        """Wait for the one on its way; then as `finished`."""
        self._idle.wait()
        return self.finished()

    def close(self) -> list[int]:
        """Wait for the one on its way, and end the thread; then as `finished`."""
        if self._thread.is_alive():
            self._idle.wait()
            self._jobs.put(None)
            self._thread.join()
        return self.finished()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                for file in job.also:
                    _bring_to_disk(file)
                self._folder.save(job.number, job.header, job.buffers)
                with self._lock:
                    self._finished.append(job.number)
            except Exception as error:  # told by whoever asks next
                with self._lock:
                    self._error = self._error or error
            del job  # its arrays need not wait for the next one
            self._idle.set()


def _bring_to_disk(file: IO[bytes] | int) -> None:
    if isinstance(file, int):
        os.fsync(file)
        return
    with naming(cast("object", file.name)):
        file.flush()
        os.fsync(file.fileno())
