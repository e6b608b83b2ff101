"""Messages as frames and back: the only module that knows the byte layout.

A message is one msgpack array, ``[kind, field, ..]``, followed by one raw frame for each block of vectors: their
numbers as little-endian float64 or int64, and behind them, where they are sparse, their indices. Decoding trusts
nothing: kinds, lengths, types and ranges are checked before a value is made, and whatever is wrong is a `RemoteError`.
Decoded vectors are read-only views of memory that nobody else writes.
"""

from __future__ import annotations

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
_ARRAY_LIMIT = 16  # the longest array is a Hello's; msgpack makes room for what an array says before it is there
_TEXT_LIMIT = 1024
_ROUND_LIMIT = 2**53
_FLOAT64, _INT64 = np.dtype("<f8"), np.dtype("<i8")
_OF_INTEGERS = "i8"
"""What a layout begins with where the numbers of all blocks are int64."""
_SHORT, _LONG = np.dtype("<u2"), np.dtype("<u4")
"""Of indices: which one follows from how long the vectors are."""
_BLOCKS_LIMIT = 8
"""Of a message whose vectors are not all alone."""
_packb: Callable[[Sequence[object]], bytes] = msgpack.Packer().pack
_NUM_TOTALS = len(Totals().to_list())

_HELLO, _WELCOME, _REJECT, _PUSH, _PULL, _RESEND, _GOODBYE, _GOODBYE_ACK, _REQUEST_HELLO, _ROUND_OPENED = range(10)

Frames = Sequence[bytes | memoryview]


def encode(message: Message) -> list[bytes | memoryview]:
    """The frames of a message. Vector frames are views of the message's own arrays."""
    match message:
        case Push(round=t, contribution=contribution):
            layout, frames = _layout(contribution.vectors)
            header = _packb([_PUSH, t, contribution.kind, contribution.last, message.durable, layout])
            return [header, *frames]
        case Pull(round=t, reply=reply):
            layout, frames = _layout(reply.vectors)
            header = _packb([_PULL, t, reply.kind, message.durable, message.next, layout])
            return [header, *frames]
        case Resend(round=t):
            return [_packb([_RESEND, t])]
        case Hello():
            fields = [message.version, message.run_id, message.task, message.config_digest, message.dim]
            also = [message.feature_digest, message.numpy, message.blas, message.incarnation, message.round]
            return [_packb([_HELLO, *fields, *also, message.kept_from, message.answers])]
        case Welcome(run_id=run_id, round=t):
            return [_packb([_WELCOME, run_id, t])]
        case Reject(reason=reason):
            # Cut by bytes: a header has a limit of bytes, and a reason may quote what a stranger said.
            return [_packb([_REJECT, reason.encode(errors="replace")[:_TEXT_LIMIT].decode(errors="ignore")])]
        case Goodbye(rounds=rounds, chain=chain, totals=totals):
            return [_packb([_GOODBYE, rounds, chain, totals.to_list()])]
        case GoodbyeAck():
            return [_packb([_GOODBYE_ACK])]
        case RequestHello(question=question):
            return [_packb([_REQUEST_HELLO, question])]
        case RoundOpened(round=t):
            return [_packb([_ROUND_OPENED, t])]


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
        header = msgpack.unpackb(first, strict_map_key=True, max_ext_len=0, max_map_len=0, max_array_len=_ARRAY_LIMIT)
    except RecursionError:
        raise RemoteError("a header nested too deeply") from None
    except Exception as error:  # msgpack documents no closed list of what it raises
        raise RemoteError(f"a header that is not msgpack ({type(error).__name__})") from None
    if type(header) is not list or not header:
        raise RemoteError("a header that is not a list")
    kind = header[0]
    decoder = _DECODERS[kind] if type(kind) is int and 0 <= kind < len(_DECODERS) else None
    if decoder is None:
        raise RemoteError("a message of unknown kind")
    return decoder(header[1:], frames[1:], dim, max_vectors)


def _decode_push(fields: list[Any], frames: Frames, dim: int, max_vectors: int) -> Push:
    t, kind, last, durable, layout = _exactly(fields, 5, "push")
    if type(last) is not bool:
        raise RemoteError("a push whose mark for the last round is not a boolean")
    vectors = _vectors(frames, layout, dim, max_vectors)
    contribution_kind = _CONTRIBUTION_KINDS.get(kind) if type(kind) is int else None
    if contribution_kind is None:
        raise RemoteError("a push of unknown kind")
    if bool(vectors) != (contribution_kind is ContributionKind.VECTORS):
        raise RemoteError(f"a push of kind {contribution_kind.name} with {len(vectors)} vectors")
    return Push(_round(t), Contribution(contribution_kind, vectors, last), _natural(durable, "round"))


def _decode_pull(fields: list[Any], frames: Frames, dim: int, max_vectors: int) -> Pull:
    t, kind, durable, following, layout = _exactly(fields, 5, "pull")
    vectors = _vectors(frames, layout, dim, max_vectors)
    reply_kind = _REPLY_KINDS.get(kind) if type(kind) is int else None
    if reply_kind is None:
        raise RemoteError("a pull of unknown kind")
    if bool(vectors) != (reply_kind is ReplyKind.VECTORS):
        raise RemoteError(f"a pull of kind {reply_kind.name} with {len(vectors)} vectors")
    reply = Reply(reply_kind, vectors)
    return Pull(_round(t), reply, _natural(durable, "round"), _natural(following, "round"))


def _decode_resend(fields: list[Any], frames: Frames, dim: int, max_vectors: int) -> Resend:
    (t,) = _exactly(fields, 1, "resend")
    _no_vectors(frames)
    return Resend(_round(t))


def _decode_hello(fields: list[Any], frames: Frames, dim: int, max_vectors: int) -> Hello:
    if fields and type(fields[0]) is int and fields[0] != PROTOCOL_VERSION:
        # Only the number can be relied on, whatever else that version says: let the node name it.
        return Hello(_natural(fields[0], "version"), "", 0, "", 0, "", "", "")
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


_DECODERS: tuple[Callable[[list[Any], Frames, int, int], Message], ...] = (
    _decode_hello,
    _decode_welcome,
    _decode_reject,
    _decode_push,
    _decode_pull,
    _decode_resend,
    _decode_goodbye,
    _decode_goodbye_ack,
    _decode_request_hello,
    _decode_round_opened,
)
_CONTRIBUTION_KINDS = {int(kind): kind for kind in ContributionKind if kind is not ContributionKind.NONE}
_REPLY_KINDS = {int(kind): kind for kind in ReplyKind if kind is not ReplyKind.NONE}


def _exactly(fields: list[Any], count: int, name: str) -> list[Any]:
    if len(fields) != count:
        raise RemoteError(f"a {name} of {len(fields)} fields; expected {count}")
    return fields


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
    or 0; before that whether they are integers.

    Raises:
        ValueError: Some blocks are of integers, and others not.
    """
    plain: list[bytes | memoryview] = [
        block.data for block in blocks if isinstance(block, np.ndarray) and block.ndim == 1 and block.dtype == _FLOAT64
    ]
    if len(plain) == len(blocks):
        return len(plain), plain
    dtypes = {numbers(block).dtype for block in blocks}
    if _INT64 in dtypes and len(dtypes) > 1:
        raise ValueError("blocks of integers beside others in one message")
    layout: list[int | str] = [_OF_INTEGERS] if _INT64 in dtypes else []
    frames: list[bytes | memoryview] = []
    for block in blocks:
        if isinstance(block, SparseVectors):
            layout += (len(block.values), block.length)
            frames.append(block.values.tobytes() + block.indices.astype(_index_type(block.length)).tobytes())
        else:
            layout += (block.size // block.shape[-1], 0)
            frames.append(np.ascontiguousarray(block).reshape(-1).data)
    return layout, frames


def _index_type(length: int) -> np.dtype[Any]:
    return _SHORT if length <= 2**16 else _LONG


def _vectors(frames: Frames, layout: object, dim: int, max_vectors: int) -> tuple[Block, ...]:
    if type(layout) is int and layout == len(frames):
        return tuple([_dense(frame, dim, None) for frame in frames])  # a list: half the cost of a generator
    limit = None
    if type(layout) is list and layout and layout[0] == _OF_INTEGERS:
        layout, limit = layout[1:], MOST_OF_SUM
    if type(layout) is not list or not 0 < len(frames) <= _BLOCKS_LIMIT or len(layout) != 2 * len(frames):
        raise RemoteError(f"a message that announces other than its {len(frames)} vectors")
    blocks: list[Block] = []
    count = 0
    for place, frame in enumerate(frames):
        rows, length = layout[2 * place], layout[2 * place + 1]
        if type(rows) is not int or type(length) is not int or not 0 < rows <= _ROUND_LIMIT > length >= 0:
            raise RemoteError("vectors whose number or length is not a whole number")
        if length % dim:
            raise RemoteError(f"sparse vectors of length {length}; expected a multiple of {dim}")
        count += rows * max(1, length // dim)
        if count > max_vectors:
            raise RemoteError(f"{count} vectors; at most {max_vectors} are allowed")
        if length:
            blocks.append(_sparse(frame, rows, length, limit))
        else:
            blocks.append(_dense(frame, rows * dim, limit).reshape(rows, dim))
    return tuple(blocks)


def _dense(frame: bytes | memoryview, expected: int, limit: int | None) -> Vector:
    """So many numbers.

    Args:
        limit: None for float64; else how large an int64 may be.
    """
    frame, size = _sized(frame)
    if size != 8 * expected:
        name = "float64" if limit is None else "int64"
        raise RemoteError(f"a vector of {size} bytes; expected {8 * expected} ({expected} {name})")
    vector: Vector = np.frombuffer(frame, _FLOAT64 if limit is None else _INT64)
    _check(vector, limit)
    return vector


def _sparse(frame: bytes | memoryview, rows: int, length: int, limit: int | None) -> SparseVectors:
    frame, size = _sized(frame)
    dtype = _index_type(length)
    count, rest = divmod(size, 8 * rows + dtype.itemsize)
    if rest or count > length:
        raise RemoteError(f"{rows} sparse vectors of length {length} in {size} bytes")
    values: Any = np.frombuffer(frame, _FLOAT64 if limit is None else _INT64, count=rows * count)
    indices = np.frombuffer(frame, dtype, offset=values.nbytes).astype(np.intp)
    if count and (indices[-1] >= length or not (indices[1:] > indices[:-1]).all()):
        raise RemoteError(f"sparse vectors whose indices do not increase, or are not below {length}")
    _check(values, limit)
    return SparseVectors(indices, values.reshape(rows, count), length)


def _sized(frame: bytes | memoryview) -> tuple[bytes | memoryview, int]:
    """(the frame, read-only; its bytes)."""
    if type(frame) is bytes:
        return frame, len(frame)
    view = memoryview(frame).toreadonly()
    return view, view.nbytes  # len() counts items, whatever they are


def _check(vector: npt.NDArray[Any], limit: int | None) -> None:
    if limit is not None:
        if not within(vector, limit):
            raise RemoteError(f"a vector with integers beyond {limit}")
        return
    # A sum of squares is finite exactly when no entry is NaN, infinite or about to overflow; vdot does not warn.
    if not math.isfinite(np.vdot(vector, vector)):
        raise RemoteError("a vector with NaN, infinity or numbers too large to be squared")
