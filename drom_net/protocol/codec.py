"""Messages as frames and back: the only module that knows the byte layout.

A message is one msgpack array, ``[kind, field, ..]``, followed by one raw frame for each block of vectors: their
numbers as little-endian float64, or integers of as few bytes as hold them, and behind them, where they are sparse,
their indices. Decoding trusts nothing: kinds, lengths, types and ranges are checked before a value is made, and
whatever is wrong is a `RemoteError`.
Decoded vectors are read-only views of memory that nobody else writes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from drom_net.algorithms.base import Contribution, ContributionKind, Reply, ReplyKind
from drom_net.algorithms.features import MOST_OF_SUM, Block, SparseVectors, Vector, numbers, within
from drom_net.core.errors import RemoteError
from drom_net.learning.metrics import Totals
from drom_net.protocol.messages import (
    PROTOCOL_VERSION,
    Goodbye,
    GoodbyeAck,
    Hello,
    Message,
    Pull,
    Push,
    Reject,
    RequestHello,
    Resend,
    RoundOpened,
    Welcome,
)

HEADER_LIMIT_BYTES = 4096
_BLOCKS_LIMIT = 8
"""Of a message whose vectors are not all alone."""
_ARRAY_LIMIT = 1 + 3 * _BLOCKS_LIMIT  # of a layout; msgpack makes room for what an array says before it is there
_TEXT_LIMIT = 1024
_ROUND_LIMIT = 2**53
_FLOAT64, _INT64 = np.dtype("<f8"), np.dtype("<i8")
_OF_INTEGERS = "int"
"""What a layout begins with where the numbers of all blocks are integers."""
_SHORT, _LONG = np.dtype("<u2"), np.dtype("<u4")
"""Of indices: which one follows from how long the vectors are."""
_NOT_FINITE = "a vector with NaN, infinity or numbers too large to be squared"
_packb: Callable[[Sequence[object]], bytes] = msgpack.Packer().pack
_unpackb: Callable[[bytes | memoryview], Any] = functools.partial(
    msgpack.unpackb, strict_map_key=True, max_ext_len=0, max_map_len=0, max_array_len=_ARRAY_LIMIT
)
_NUM_TOTALS = len(Totals().to_list())

_HELLO, _WELCOME, _REJECT, _PUSH, _PULL, _RESEND, _GOODBYE, _GOODBYE_ACK, _REQUEST_HELLO, _ROUND_OPENED = range(10)

Frames = Sequence[bytes | memoryview]


def encode(message: Message) -> list[bytes | memoryview]:
    """The frames of a message. Vector frames are views of the message's own arrays."""
    if type(message) is Push:
        t, (kind, vectors, last), durable = message
        layout, frames = _layout(vectors)
        return [_packb((_PUSH, t, kind, last, durable, layout)), *frames]
    if type(message) is Pull:
        t, (answer, vectors), durable, following = message
        layout, frames = _layout(vectors)
        return [_packb((_PULL, t, answer, durable, following, layout)), *frames]
    return [_packb(_header(message))]


def _header(message: Message) -> list[object]:
    """The only frame of a message without vectors."""
    match message:
        case Resend(round=t):
            return [_RESEND, t]
        case Hello():
            fields = [message.version, message.run_id, message.task, message.config_digest, message.dim]
            also = [message.feature_digest, message.numpy, message.blas, message.incarnation, message.round]
            return [_HELLO, *fields, *also, message.kept_from, message.answers]
        case Welcome(run_id=run_id, round=t):
            return [_WELCOME, run_id, t]
        case Reject(reason=reason):
            # Cut by bytes: a header has a limit of bytes, and a reason may quote what a stranger said.
            return [_REJECT, reason.encode(errors="replace")[:_TEXT_LIMIT].decode(errors="ignore")]
        case Goodbye(rounds=rounds, chain=chain, totals=totals):
            return [_GOODBYE, rounds, chain, totals.to_list()]
        case GoodbyeAck():
            return [_GOODBYE_ACK]
        case RequestHello(question=question):
            return [_REQUEST_HELLO, question]
        case RoundOpened(round=t):
            return [_ROUND_OPENED, t]
        case _:
            raise AssertionError(f"a {type(message).__name__} has vectors")


def decode(frames: Frames, *, dim: int, max_vectors: int) -> Message:
    """The message in these frames.

    Args:
        dim: How many float64 a vector has.
        max_vectors: How many vectors the algorithm sends in a message.

    Raises:
        RemoteError: The frames are not a message of this protocol; the text says what is wrong.
    """
    if not frames:
        raise RemoteError("a message without frames")
    first = frames[0]
    size = len(first) if type(first) is bytes else memoryview(first).nbytes
    if size > HEADER_LIMIT_BYTES:
        raise RemoteError(f"a header of {size} bytes; at most {HEADER_LIMIT_BYTES} are allowed")
    if len(frames) > 1 + max_vectors:
        raise RemoteError(f"{len(frames) - 1} vectors; at most {max_vectors} are allowed")
    try:
        header = _unpackb(first)
    except RecursionError:
        raise RemoteError("a header nested too deeply") from None
    except Exception as error:  # msgpack documents no closed list of what it raises
        raise RemoteError(f"a header that is not msgpack ({type(error).__name__})") from None
    if type(header) is not list or not header:
        raise RemoteError("a header that is not a list")
    if type(kind := header[0]) is not int or (decoder := _DECODERS.get(kind)) is None:
        raise RemoteError("a message of unknown kind")
    return decoder(header, frames[1:], dim, max_vectors)


def _decode_push(fields: list[Any], frames: Frames, dim: int, max_vectors: int) -> Push:
    if len(fields) != 6:
        _exactly(fields, 5, "push")
    _, t, kind, last, durable, layout = fields
    if type(last) is not bool:
        raise RemoteError("a push whose mark for the last round is not a boolean")
    vectors = _vectors(frames, layout, dim, max_vectors)
    contribution_kind = _CONTRIBUTION_KINDS.get(kind) if type(kind) is int else None
    if contribution_kind is None:
        raise RemoteError("a push of unknown kind")
    if bool(vectors) is not (contribution_kind is _NEW_VECTORS):
        raise RemoteError(f"a push of kind {contribution_kind.name} with {len(vectors)} vectors")
    if type(t) is not int or type(durable) is not int or not 0 < t <= _ROUND_LIMIT or not 0 <= durable <= _ROUND_LIMIT:
        _round(t), _natural(durable, "round")  # tell which
    return Push(t, Contribution(contribution_kind, vectors, last), durable)


def _decode_pull(fields: list[Any], frames: Frames, dim: int, max_vectors: int) -> Pull:
    if len(fields) != 6:
        _exactly(fields, 5, "pull")
    _, t, kind, durable, following, layout = fields
    vectors = _vectors(frames, layout, dim, max_vectors)
    reply_kind = _REPLY_KINDS.get(kind) if type(kind) is int else None
    if reply_kind is None:
        raise RemoteError("a pull of unknown kind")
    if bool(vectors) is not (reply_kind is _REPLY_VECTORS):
        raise RemoteError(f"a pull of kind {reply_kind.name} with {len(vectors)} vectors")
    if type(t) is not int or type(durable) is not int or not 0 < t <= _ROUND_LIMIT or not 0 <= durable <= _ROUND_LIMIT:
        _round(t), _natural(durable, "round")
    if type(following) is not int or not 0 <= following <= _ROUND_LIMIT:
        _natural(following, "round")
    return Pull(t, Reply(reply_kind, vectors), durable, following)


def _decode_resend(fields: list[Any], frames: Frames, dim: int, max_vectors: int) -> Resend:
    (t,) = _exactly(fields, 1, "resend")
    _no_vectors(frames)
    return Resend(_round(t))


def _decode_hello(fields: list[Any], frames: Frames, dim: int, max_vectors: int) -> Hello:
    if len(fields) > 1 and type(fields[1]) is int and fields[1] != PROTOCOL_VERSION:
        # Only the number can be relied on, whatever else that version says: let the node name it.
        return Hello(_natural(fields[1], "version"), "", 0, "", 0, "", "", "")
    version, run_id, task, config_digest, its_dim, *more = _exactly(fields, 12, "hello")
    feature_digest, numpy, blas, incarnation, t, kept_from, answers = more
    _no_vectors(frames)
    return Hello(
        _natural(version, "version"),
        _text(run_id),
        _natural(task, "task"),
        _text(config_digest),
        _natural(its_dim, "dim"),
        _text(feature_digest),
        _text(numpy),
        _text(blas),
        _natural(incarnation, "incarnation"),
        _natural(t, "round"),
        _natural(kept_from, "round"),
        _natural(answers, "question"),
    )


def _decode_welcome(fields: list[Any], frames: Frames, dim: int, max_vectors: int) -> Welcome:
    run_id, t = _exactly(fields, 2, "welcome")
    _no_vectors(frames)
    return Welcome(_text(run_id), _natural(t, "round"))


def _decode_reject(fields: list[Any], frames: Frames, dim: int, max_vectors: int) -> Reject:
    (reason,) = _exactly(fields, 1, "reject")
    _no_vectors(frames)
    return Reject(_text(reason))


def _decode_goodbye(fields: list[Any], frames: Frames, dim: int, max_vectors: int) -> Goodbye:
    rounds, chain, totals = _exactly(fields, 3, "goodbye")
    _no_vectors(frames)
    if type(chain) is not bytes or len(chain) != 32:
        raise RemoteError("a goodbye whose chain is not 32 bytes")
    if type(totals) is not list or len(totals) != _NUM_TOTALS:
        raise RemoteError(f"a goodbye without its {_NUM_TOTALS} numbers")
    log_loss = totals[-1]
    if type(log_loss) is not float or not 0.0 <= log_loss < math.inf:
        raise RemoteError("a goodbye whose log loss is not a number of at least 0")
    counts = [_natural(count, "count") for count in totals[:-1]]
    return Goodbye(_natural(rounds, "round"), chain, Totals(*[*counts, log_loss]))  # type: ignore[arg-type]


def _decode_request_hello(fields: list[Any], frames: Frames, dim: int, max_vectors: int) -> RequestHello:
    (question,) = _exactly(fields, 1, "request hello")
    _no_vectors(frames)
    return RequestHello(_natural(question, "question"))


def _decode_round_opened(fields: list[Any], frames: Frames, dim: int, max_vectors: int) -> RoundOpened:
    (t,) = _exactly(fields, 1, "round opened")
    _no_vectors(frames)
    return RoundOpened(_round(t))


def _decode_goodbye_ack(fields: list[Any], frames: Frames, dim: int, max_vectors: int) -> GoodbyeAck:
    _exactly(fields, 0, "goodbye ack")
    _no_vectors(frames)
    return GoodbyeAck()


_DECODERS: dict[int, Callable[[list[Any], Frames, int, int], Message]] = {
    _HELLO: _decode_hello,
    _WELCOME: _decode_welcome,
    _REJECT: _decode_reject,
    _PUSH: _decode_push,
    _PULL: _decode_pull,
    _RESEND: _decode_resend,
    _GOODBYE: _decode_goodbye,
    _GOODBYE_ACK: _decode_goodbye_ack,
    _REQUEST_HELLO: _decode_request_hello,
    _ROUND_OPENED: _decode_round_opened,
}
_NEW_VECTORS, _REPLY_VECTORS = ContributionKind.VECTORS, ReplyKind.VECTORS
_CONTRIBUTION_KINDS = {int(kind): kind for kind in ContributionKind if kind is not ContributionKind.NONE}
_REPLY_KINDS = {int(kind): kind for kind in ReplyKind if kind is not ReplyKind.NONE}


def _exactly(fields: list[Any], count: int, name: str) -> list[Any]:
    """Those behind the kind."""
    if len(fields) != 1 + count:
        raise RemoteError(f"a {name} of {len(fields) - 1} fields; expected {count}")
    return fields[1:]


def _natural(value: object, name: str) -> int:
    if type(value) is not int or not 0 <= value <= _ROUND_LIMIT:
        raise RemoteError(f"a {name} that is not a whole number of at least 0")
    return value


def _round(value: object) -> int:
    if type(value) is not int or not 1 <= value <= _ROUND_LIMIT:
        raise RemoteError("a round that is not a whole number of at least 1")
    return value


def _text(value: object) -> str:
    if type(value) is not str or len(value) > _TEXT_LIMIT:
        raise RemoteError(f"a text field that is not a text of at most {_TEXT_LIMIT} characters")
    return value


def _no_vectors(frames: Frames) -> None:
    if frames:
        raise RemoteError("vectors behind a message that has none")


def _layout(blocks: Sequence[Block]) -> tuple[int | list[int | str], list[bytes | memoryview]]:
    """(what the header says of the frames, the frames).

    Of vectors it says how many; else of each block how many vectors it has, and how long they are where it is sparse,
    or 0. Of integers it says so before that, and behind each block's numbers how many bytes an integer has: the least
    that hold all of the block.

    Raises:
        ValueError: Some blocks are of integers, and others not.
    """
    plain: list[bytes | memoryview] = []
    for block in blocks:  # most messages have one vector
        if type(block) is not np.ndarray or block.ndim != 1 or block.dtype != _FLOAT64:
            return _layout_of_blocks(blocks)
        plain.append(block.data)
    return len(plain), plain


def _layout_of_blocks(blocks: Sequence[Block]) -> tuple[list[int | str], list[bytes | memoryview]]:
    """The same of others than vectors one by one."""
    dtypes = {numbers(block).dtype for block in blocks}
    if _INT64 in dtypes and len(dtypes) > 1:
        raise ValueError("blocks of integers beside others in one message")
    of_integers = _INT64 in dtypes
    layout: list[int | str] = [_OF_INTEGERS] if of_integers else []
    frames: list[bytes | memoryview] = []
    for block in blocks:
        held: bytes | memoryview = np.ascontiguousarray(numbers(block)).reshape(-1).data
        width = 8
        if of_integers:
            width, held = _narrowed(np.frombuffer(held, _INT64))
        if isinstance(block, SparseVectors):
            layout += (len(block.values), block.length)
            frames.append(bytes(held) + block.indices.astype(_index_type(block.length)).tobytes())
        else:
            layout += (block.size // block.shape[-1], 0)
            frames.append(held)
        if of_integers:
            layout.append(width)
    return layout, frames


def _narrowed(integers: npt.NDArray[np.int64]) -> tuple[int, bytes]:
    """(the fewest bytes that hold any of them, in two's complement; all of them in so many, the lowest first)."""
    most = max(int(integers.max()), -1 - int(integers.min())) if integers.size else 0
    width = most.bit_length() // 8 + 1
    return width, integers.view(np.uint8).reshape(-1, 8)[:, :width].tobytes()


def _widened(held: bytes | memoryview, width: int) -> npt.NDArray[np.int64]:
    """The integers of so many bytes each."""
    if width == 8:
        return np.frombuffer(held, _INT64)
    found = np.zeros((len(held) // width, 8), dtype=np.uint8)
    found[:, 8 - width :] = np.frombuffer(held, np.uint8).reshape(-1, width)
    integers: npt.NDArray[np.int64] = found.view(_INT64).reshape(-1) >> 8 * (8 - width)  # the sign comes down
    integers.flags.writeable = False
    return integers


def _index_type(length: int) -> np.dtype[Any]:
    return _SHORT if length <= 2**16 else _LONG


def _vectors(frames: Frames, layout: object, dim: int, max_vectors: int) -> tuple[Block, ...]:
    if type(layout) is int and layout == len(frames):
        if layout == 1:
            return (_dense(frames[0], dim, None),)
        return tuple([_dense(frame, dim, None) for frame in frames])  # a list: half the cost of a generator
    each = 2
    if type(layout) is list and layout and layout[0] == _OF_INTEGERS:
        layout, each = layout[1:], 3
    if type(layout) is not list or not 0 < len(frames) <= _BLOCKS_LIMIT or len(layout) != each * len(frames):
        raise RemoteError(f"a message that announces other than its {len(frames)} vectors")
    blocks: list[Block] = []
    count = 0
    for place, frame in enumerate(frames):
        rows, length, *widths = layout[each * place : each * (place + 1)]
        if type(rows) is not int or type(length) is not int or not 0 < rows <= _ROUND_LIMIT > length >= 0:
            raise RemoteError("vectors whose number or length is not a whole number")
        if widths and (type(widths[0]) is not int or not 1 <= widths[0] <= 8):
            raise RemoteError("integers whose number of bytes is not from 1 to 8")
        if length % dim:
            raise RemoteError(f"sparse vectors of length {length}; expected a multiple of {dim}")
        count += rows * max(1, length // dim)
        if count > max_vectors:
            raise RemoteError(f"{count} vectors; at most {max_vectors} are allowed")
        width = widths[0] if widths else None
        if length:
            blocks.append(_sparse(frame, rows, length, width))
        else:
            blocks.append(_dense(frame, rows * dim, width).reshape(rows, dim))
    return tuple(blocks)


def _dense(frame: bytes | memoryview, expected: int, width: int | None) -> Vector:
    """So many numbers.

    Args:
        width: None for float64; else how many bytes an integer has.
    """
    frame, size = (frame, len(frame)) if type(frame) is bytes else _sized(frame)
    if size != (width or 8) * expected:
        name = "float64" if width is None else f"integers of {width} bytes"
        raise RemoteError(f"a vector of {size} bytes; expected {(width or 8) * expected} ({expected} {name})")
    if width is not None:
        return _checked(_widened(frame, width))
    return _checked(np.frombuffer(frame, _FLOAT64))


def _sparse(frame: bytes | memoryview, rows: int, length: int, width: int | None) -> SparseVectors:
    frame, size = _sized(frame)
    dtype = _index_type(length)
    count, rest = divmod(size, (width or 8) * rows + dtype.itemsize)
    if rest or count > length:
        raise RemoteError(f"{rows} sparse vectors of length {length} in {size} bytes")
    end = (width or 8) * rows * count
    held: Any = np.frombuffer(frame[:end], _FLOAT64) if width is None else _widened(frame[:end], width)
    indices = np.frombuffer(frame, dtype, offset=end).astype(np.intp)
    if count and (indices[-1] >= length or not (indices[1:] > indices[:-1]).all()):
        raise RemoteError(f"sparse vectors whose indices do not increase, or are not below {length}")
    return SparseVectors(indices, _checked(held).reshape(rows, count), length)


def _sized(frame: bytes | memoryview) -> tuple[bytes | memoryview, int]:
    """(the frame, read-only; its bytes)."""
    if type(frame) is bytes:
        return frame, len(frame)
    view = memoryview(frame).toreadonly()
    return view, view.nbytes  # len() counts items, whatever they are


def _checked(held: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers. Raises RemoteError for one that is too large."""
    if held.dtype == _INT64:
        if not within(held, MOST_OF_SUM):
            raise RemoteError(f"a vector with integers beyond {MOST_OF_SUM}")
    # A sum of squares is finite exactly when no entry is NaN, infinite or about to overflow; vdot does not warn.
    elif not math.isfinite(np.vdot(held, held)):
        raise RemoteError(_NOT_FINITE)
    return held
