"""Snapshots as bytes: a tree of plain values, arrays, and instances of known classes.

It is written as a header of msgpack tokens and the raw bytes of its larger arrays behind it, and read without trust:
nothing is unpickled, no class is looked up by its name, and nothing is allocated that the file does not hold.
docs/protocol.md has the layout.
"""

from __future__ import annotations

import enum
import math
import struct
import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from drom_net.algorithms.learner import Learner
from drom_net.core.errors import CheckpointError, LearnerError

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


def encode_snapshot(value: Any, classes: frozenset[type] | None = None) -> list[Part]:
    """The snapshot as bytes: a header, and the bytes of each larger array, which are not copied.

    The arrays must stay as they are until what is returned has been written.

    Args:
        classes: Of which there may be instances: those that it will be read with. None is all.

    Raises:
        LearnerError: There is one of another class, with which nobody could go on.
        TypeError: Something in it is of no type that a snapshot may hold.
        OverflowError: An int is below -2^63 or not below 2^64.
    """
    encoder = _Encoder(classes)
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


def snapshot_classes(learner: Learner | None = None) -> list[type]:
    """All that may stand in a snapshot: the named tuples, dataclasses and IntEnums of these modules, as far as loaded.

    A new algorithm's are among them as soon as `drom_net.algorithms` imports it. A file calls them by their own names,
    whatever module they stand in: code may move without that runs can no longer be resumed.

    Args:
        learner: One of another package: the classes beside its parameters are among them, and its `states`.
    """
    own = {name for name in sys.modules if name.startswith(_OF_SNAPSHOTS)}
    if learner is not None:
        own.add(learner.parameters.__module__)
    found = [
        item
        for name in sorted(own)
        for item in vars(sys.modules[name]).values()
        if _fields(item) is not None and item.__module__ == name
    ]
    return list(dict.fromkeys([*found, *(learner.states if learner is not None else ())]))


def _name(cls: type) -> str:
    """Those of another package with their module, as it may have chosen a name that stands here."""
    ours = cls.__module__.partition(".")[0] == __name__.partition(".")[0]
    return cls.__qualname__ if ours else f"{cls.__module__}:{cls.__qualname__}"


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
    def __init__(self, allowed: frozenset[type] | None) -> None:
        self._allowed = allowed
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
            if self._allowed is not None and cls not in self._allowed:
                raise LearnerError(
                    f"the learner's state holds a {_name(cls)}, which stands in another module than its parameters: a "
                    "snapshot with it could not be read; name it among the learner's `states`"
                )
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
