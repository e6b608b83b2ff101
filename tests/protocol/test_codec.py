"""Messages as frames and back; whatever is not a message is a RemoteError, and nothing else."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drom_net.algorithms.base import Contribution, ContributionKind, Reply, ReplyKind
from drom_net.algorithms.features import Block, SparseVectors
from drom_net.core.errors import RemoteError
from drom_net.learning.metrics import Totals
from drom_net.protocol.codec import HEADER_LIMIT_BYTES, decode, encode
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
    Welcome,
)

DIM = 3
VECTORS = 2
KINDS = (Hello, Welcome, Reject, Push, Pull, Resend, Goodbye, GoodbyeAck, RequestHello)
HELLO, WELCOME, REJECT, PUSH, PULL, RESEND, GOODBYE, FAREWELL, INTRODUCE = range(9)
ONE = np.array([1.0, 2.0, 3.0]).tobytes()


def wire(message: Message) -> list[bytes]:
    """The frames as the other side gets them: bytes."""
    return [bytes(frame) for frame in encode(message)]


def read(frames: list[Any], *, dim: int = DIM, max_vectors: int = VECTORS) -> Message:
    return decode(frames, dim=dim, max_vectors=max_vectors)


def plain(message: Message) -> object:
    """A message without arrays, so that it can be compared."""
    match message:
        case Push(round=t, contribution=contribution):
            kind, vectors, last = contribution
            return Push, t, kind, [vector.tobytes() for vector in vectors], last, message.durable
        case Pull(round=t, reply=reply):
            vectors = [vector.tobytes() for vector in reply.vectors]
            return Pull, t, reply.kind, vectors, message.durable, message.next
    return message


def vectors_of(message: Message) -> tuple[np.ndarray, ...]:
    match message:
        case Push(contribution=contribution):
            return contribution.vectors
        case Pull(reply=reply):
            return reply.vectors
    return ()


def refused(*frames: Any, match: str | None = None) -> None:
    with pytest.raises(RemoteError, match=match):
        read(list(frames))


def header(*fields: object) -> bytes:
    return msgpack.packb(list(fields))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=100)
naturals = st.integers(0, 2**53)
rounds = st.integers(1, 2**53)
numbers = st.floats(min_value=-1e150, max_value=1e150)
arrays = st.lists(numbers, min_size=DIM, max_size=DIM).map(np.array)
some_arrays = st.lists(arrays, min_size=1, max_size=VECTORS).map(tuple)
contributions = st.one_of(
    st.builds(Contribution, st.just(ContributionKind.VECTORS), some_arrays, st.booleans()),
    st.builds(
        Contribution,
        st.sampled_from(sorted(set(ContributionKind) - {ContributionKind.NONE, ContributionKind.VECTORS})),
        st.just(()),
        st.booleans(),
    ),
)
replies = st.one_of(
    st.builds(Reply, st.just(ReplyKind.VECTORS), some_arrays),
    st.builds(Reply, st.sampled_from([ReplyKind.KEEP, ReplyKind.ZERO]), st.just(())),
)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        Hello,
        *(st.just(PROTOCOL_VERSION), texts, naturals, texts, naturals, texts, texts, texts),
        *(naturals, naturals, naturals, naturals),
    ),
    st.builds(Welcome, texts, naturals),
    st.builds(Reject, texts),
    st.builds(Push, rounds, contributions, naturals),
    st.builds(Pull, rounds, replies, naturals, naturals),
    st.builds(Resend, rounds),
    st.builds(
        Goodbye,
        naturals,
        st.binary(min_size=32, max_size=32),
        st.builds(Totals, *[naturals] * 12, st.floats(0.0, 1e300)),
    ),
    st.just(GoodbyeAck()),
    st.builds(RequestHello, naturals),
)

EXAMPLES: dict[str, Message] = {
    "hello": Hello(PROTOCOL_VERSION, "run", 3, "c" * 64, DIM, "f" * 64, "2.4.6", "Haswell", 2, 7, 5, 1),
    "welcome": Welcome("run", 7),
    "reject": Reject("no"),
    "push": Push(7, Contribution(ContributionKind.VECTORS, (np.array([1.0, -2.0, 3.0]),), True), 5),
    "skip": Push(7, Contribution(ContributionKind.SKIP)),
    "idle": Push(7, Contribution(ContributionKind.IDLE)),
    "gone": Push(7, Contribution(ContributionKind.NO_LONGER_KEPT)),
    "pull": Pull(7, Reply(ReplyKind.VECTORS, (np.array([0.0, -0.0, 5e-324]), np.ones(3))), 5, 8),
    "zero": Pull(7, Reply(ReplyKind.ZERO)),
    "keep": Pull(7, Reply(ReplyKind.KEEP)),
    "resend": Resend(7),
    "goodbye": Goodbye(9, bytes(range(32)), Totals(*range(12), 0.5)),
    "farewell": GoodbyeAck(),
    "introduce": RequestHello(1),
}
NAMES = pytest.mark.parametrize("name", EXAMPLES)


@given(messages)
def test_every_message_comes_back_as_it_was(message: Message) -> None:
    assert plain(read(wire(message))) == plain(message)


@given(messages)
def test_the_frames_of_a_message_are_read_without_a_copy(message: Message) -> None:
    """A view of float64 counts eight bytes as one item."""
    frames = encode(message)
    again = read(frames)
    assert plain(again) == plain(message)
    for ours, theirs in zip(vectors_of(message), vectors_of(again), strict=True):
        assert np.shares_memory(ours, theirs)
        assert not theirs.flags.writeable


@pytest.mark.parametrize("items", ["B", "d", "f", "h"])
def test_a_view_is_measured_in_bytes(items: str) -> None:
    frame = memoryview(ONE).cast(items)
    message = read([memoryview(header(PUSH, 1, 1, False, 0, 1)), frame])
    assert plain(message) == (Push, 1, ContributionKind.VECTORS, [ONE], False, 0)
    for wrong in (memoryview(ONE * 8).cast(items), memoryview(ONE[:8]).cast(items)):
        refused(header(PUSH, 1, 1, False, 0, 1), wrong, match=f"a vector of {wrong.nbytes} bytes; expected 24")
    refused(memoryview(bytes(HEADER_LIMIT_BYTES + 8)).cast(items), match="a header of 4104 bytes; at most 4096")


@st.composite
def sparse_vectors(draw: st.DrawFn) -> SparseVectors:
    """Up to two rows of 3 or 6 places, or of so many that an index has four bytes."""
    length = draw(st.sampled_from([DIM, 2 * DIM, 2**16 + 2]))
    at = sorted(draw(st.sets(st.integers(0, length - 1), max_size=5)))
    rows = draw(st.integers(1, 2))
    values = draw(st.lists(numbers, min_size=rows * len(at), max_size=rows * len(at)))
    return SparseVectors(np.array(at, dtype=np.intp), np.array(values, dtype=float).reshape(rows, len(at)), length)


dense_blocks = st.lists(arrays, min_size=1, max_size=3).map(np.array)


@given(st.lists(st.one_of(dense_blocks, sparse_vectors()), min_size=1, max_size=4))
def test_blocks_come_back_as_they_were(blocks: list[Block]) -> None:
    push = Push(1, Contribution(ContributionKind.VECTORS, tuple(blocks)))
    message = decode(wire(push), dim=1 if any(is_long(block) for block in blocks) else DIM, max_vectors=10**6)
    assert isinstance(message, Push)
    for block, again in zip(blocks, message.contribution.vectors, strict=True):
        if isinstance(block, SparseVectors):
            assert again.length == block.length
            np.testing.assert_array_equal(again.indices, block.indices)
            np.testing.assert_array_equal(again.values, block.values)
        else:
            np.testing.assert_array_equal(again.reshape(block.shape), block)


integers = st.integers(-(2**51 - 1), 2**51 - 1)


@given(
    st.lists(integers, min_size=2 * DIM, max_size=2 * DIM),
    st.dictionaries(st.integers(0, 2 * DIM - 1), integers, max_size=5),
)
def test_blocks_of_integers_come_back_as_they_were(dense: list[int], sparse: dict[int, int]) -> None:
    at = np.array(sorted(sparse), dtype=np.intp)
    laid_out = SparseVectors(at, np.array([[sparse[place] for place in at]], dtype=np.int64), 2 * DIM)
    blocks = (np.array(dense, dtype=np.int64).reshape(2, DIM), laid_out)
    frames = encode(Push(1, Contribution(ContributionKind.VECTORS, blocks)))
    message = read(frames, max_vectors=4)
    assert isinstance(message, Push)
    rows, again = message.contribution.vectors
    assert rows.dtype == again.values.dtype == np.int64
    assert rows.tolist() == blocks[0].tolist()
    assert (again.indices.tolist(), again.values.tolist(), again.length) == (at.tolist(), laid_out.values.tolist(), 6)
    assert not rows.flags.writeable and not again.values.flags.writeable


def test_the_layout_of_integers_is_this() -> None:
    block = np.array([[1, -2, 3]])
    frames = wire(Push(7, Contribution(ContributionKind.VECTORS, (block,))))
    assert frames == [b"\x96\x03\x07\x01\xc2\x00\x94\xa3int\x01\x00\x01", b"\x01\xfe\x03"]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("width", range(1, 9))
def test_integers_travel_in_as_few_bytes_as_hold_them(width: int, sparse: bool) -> None:
    least = -(2**63 - 1) if width == 8 else -(2 ** (8 * width - 1))
    for numbers in ([least, 0, 1], [2 ** (8 * width - 1) - 1, -1, 0]):
        sent: Block = np.array([numbers])
        if sparse:
            sent = SparseVectors(np.arange(3), np.array([numbers]), DIM)
        frames = wire(Push(7, Contribution(ContributionKind.VECTORS, (sent,))))
        assert len(frames[1]) == 3 * (width + 2 * sparse)
        (came,) = vectors_of(read(frames))
        assert values_of(came).tolist() == [numbers] and values_of(came).dtype == np.int64
        assert not values_of(came).flags.writeable


def test_a_message_has_up_to_eight_blocks_of_integers() -> None:
    blocks = tuple(np.array([[number, 0, -number]]) for number in range(8))
    message = read(wire(Push(7, Contribution(ContributionKind.VECTORS, blocks))), max_vectors=8)
    assert [values_of(block).tolist() for block in vectors_of(message)] == [block.tolist() for block in blocks]


def test_no_integers_travel_in_no_bytes() -> None:
    empty = SparseVectors(np.zeros(0, dtype=np.intp), np.zeros((2, 0), dtype=np.int64), DIM)
    (came,) = vectors_of(read(wire(Push(7, Contribution(ContributionKind.VECTORS, (empty,))))))
    assert values_of(came).shape == (2, 0)


def test_a_single_vector_of_integers_is_marked_too() -> None:
    message = read(wire(Push(7, Contribution(ContributionKind.VECTORS, (np.array([1, 2, 3]),)))))
    assert vectors_of(message)[0].tolist() == [[1, 2, 3]]
    assert vectors_of(message)[0].dtype == np.int64
    mixed = Contribution(ContributionKind.VECTORS, (np.array([1, 2, 3]), np.array([1.0, 2.0, 3.0])))
    with pytest.raises(ValueError, match="integers beside others"):
        encode(Push(7, mixed))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("sign", [-1, 1])
def test_an_integer_that_has_no_opposite_is_refused(sign: int, sparse: bool) -> None:
    """Nothing is -2^63, which has no opposite; how much less a summand has is for a node to say (`other_than`)."""

    def frames(kind: int, value: int) -> list[bytes]:
        numbers = [value] if sparse else [0, value, 0]
        frame = np.array(numbers, dtype="<i8").tobytes() + (np.array([1], dtype="<u2").tobytes() if sparse else b"")
        layout = ["int", 1, DIM if sparse else 0, 8]
        fields = (PUSH, 1, 1, False, 0, layout) if kind == PUSH else (PULL, 1, 3, 0, 2, layout)
        return [header(*fields), frame]

    most = 2**63 - 1
    for kind in (PUSH, PULL):
        assert np.abs(sum(map(np.sum, map(values_of, vectors_of(read(frames(kind, sign * most))))))) == most
        if sign < 0:
            refused(*frames(kind, sign * (most + 1)), match=f"integers beyond {most}")


def values_of(block: Block) -> np.ndarray:
    return block.values if isinstance(block, SparseVectors) else block


def is_long(block: Block) -> bool:
    return isinstance(block, SparseVectors) and block.length % DIM != 0


def sparse_frame(values: list[float], indices: list[int]) -> bytes:
    return np.array(values, dtype="<f8").tobytes() + np.array(indices, dtype="<u2").tobytes()


@pytest.mark.parametrize(
    ("layout", "frame", "match"),
    [
        ([1, 3], sparse_frame([1.0, 2.0], [1, 1]), "indices do not increase"),
        ([1, 3], sparse_frame([1.0, 2.0], [2, 0]), "indices do not increase"),
        ([1, 3], sparse_frame([1.0], [3]), "not below 3"),
        ([1, 3], sparse_frame([float("nan")], [0]), "NaN"),
        ([1, 3], sparse_frame([1.0], [0])[:-1], "1 sparse vectors of length 3 in 9 bytes"),
        ([1, 3], sparse_frame([1.0] * 4, [0, 1, 2, 3]), "1 sparse vectors of length 3 in 40 bytes"),
        ([2, 3], sparse_frame([1.0] * 2, [0]) + b"0", "2 sparse vectors"),
        ([1, 4], sparse_frame([1.0], [0]), "length 4; expected a multiple of 3"),
        ([3, 0], bytes(72), "3 vectors; at most 2 are allowed"),
        ([1, 9], sparse_frame([1.0], [0]), "3 vectors; at most 2 are allowed"),
        ([2, 0], bytes(40), "a vector of 40 bytes; expected 48"),
        ([0, 0], b"", "not a whole number"),
        ([-1, 3], b"", "not a whole number"),
        ([1, -3], b"", "not a whole number"),
        ([True, 3], sparse_frame([1.0], [0]), "not a whole number"),
        ([1, 2**60], b"", "not a whole number"),
        ([1], sparse_frame([1.0], [0]), "announces other than its 1 vectors"),
        ([1, 3, 1, 3], sparse_frame([1.0], [0]), "announces other than its 1 vectors"),
        ({}, sparse_frame([1.0], [0]), "announces other than its 1 vectors"),
        (["int"], sparse_frame([1.0], [0]), "announces other than its 1 vectors"),
        (["int", 1, 0], bytes(24), "announces other than its 1 vectors"),
        (["int", "int", 1, 8], sparse_frame([1.0], [0]), "not a whole number"),
        (["i4", 1, 0, 8], bytes(24), "announces other than its 1 vectors"),
        (["int", 1, 0, 0], bytes(24), "bytes is not from 1 to 8"),
        (["int", 1, 0, 9], bytes(27), "bytes is not from 1 to 8"),
        (["int", 1, 0, True], bytes(3), "bytes is not from 1 to 8"),
        (["int", 1, 0, 8], bytes(16), r"a vector of 16 bytes; expected 24 \(3 integers of 8 bytes\)"),
        (["int", 1, 0, 2], bytes(7), r"a vector of 7 bytes; expected 6 \(3 integers of 2 bytes\)"),
        (["int", 1, 3, 8], bytes(9), "1 sparse vectors of length 3 in 9 bytes"),
        (["int", 3, 0, 8], bytes(72), "3 vectors; at most 2 are allowed"),
        ("int", bytes(24), "announces other than its 1 vectors"),
    ],
)
def test_blocks_that_are_none_are_refused(layout: object, frame: bytes, match: str) -> None:
    refused(header(PUSH, 1, 1, False, 0, layout), frame, match=match)


def test_there_is_an_example_of_every_kind() -> None:
    assert {type(message) for message in EXAMPLES.values()} == set(KINDS)


@NAMES
def test_an_outlier_and_an_empty_answer_cost_a_header_and_no_vector(name: str) -> None:
    """Section 2: "send an explicit "no correction"", a header only; vectors are raw float64."""
    frames = wire(EXAMPLES[name])
    assert len(frames) == {"push": 2, "pull": 3}.get(name, 1)
    assert all(len(frame) == 8 * DIM for frame in frames[1:])
    assert len(frames[0]) < (400 if name in ("hello", "goodbye") else 16)


def test_vectors_that_were_decoded_are_read_only_float64_in_c_order() -> None:
    """style.md, 5: "One kind of array crosses a border: float64, C order, owned, read-only"."""
    memory = bytearray(ONE)
    for frame in (ONE, memory, memoryview(memory)):
        message = read([header(PUSH, 1, 1, False, 0, 1), frame])
        assert isinstance(message, Push)
        (vector,) = message.contribution.vectors
        assert vector.dtype == np.float64
        assert vector.dtype.isnative
        assert vector.flags.c_contiguous
        assert not vector.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            vector[0] = 9.0


def test_the_layout_of_a_push_is_this() -> None:
    """The bytes are the protocol: whoever changes them changes PROTOCOL_VERSION."""
    assert PROTOCOL_VERSION == 8
    assert wire(EXAMPLES["push"]) == [
        b"\x96\x03\x07\x01\xc3\x05\x01",
        np.array([1.0, -2.0, 3.0], dtype="<f8").tobytes(),
    ]
    assert wire(EXAMPLES["zero"]) == [b"\x96\x04\x07\x02\x00\x00\x00"]
    assert wire(EXAMPLES["farewell"]) == [b"\x91\x07"]
    assert wire(EXAMPLES["hello"])[0][:3] == b"\x9d\x00\x08"


# Versions


@pytest.mark.parametrize("version", [0, 1, 2, 77])
@pytest.mark.parametrize("rest", [[], ["new"], [1, 2, 3, 4, 5, 6, 7, 8], ["x", 0, "c", 3, "f", "n", "b", 1, "more"]])
def test_a_hello_of_another_version_is_read_as_far_as_its_version(version: int, rest: list[object]) -> None:
    """failures.md, 16: "protocol version in the handshake; refused, both versions named"."""
    message = read([header(HELLO, version, *rest)])
    assert isinstance(message, Hello)
    assert message.version == version


@pytest.mark.parametrize("rest", [[], ["new"], [1, 2, 3, 4, 5, 6, 7, 8], ["x", 0, "c", 3, "f", "n", "b", 1, "more"]])
def test_a_hello_of_this_version_must_be_one(rest: list[object]) -> None:
    refused(header(HELLO, PROTOCOL_VERSION, *rest))


@pytest.mark.parametrize("version", [-1, 2**53 + 1, 2**64 - 1, True, 1.0, "1", None, b"1"])
def test_a_version_is_a_whole_number(version: object) -> None:
    refused(header(HELLO, version, "", 0, "", 0, "", "", ""))


# What is wrong with a header


def nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\x01"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xc1",  # never used by msgpack
        b"\x91",  # a list that is cut off
        b"\x91\x07\x00",  # bytes after it
        b"\x90",  # an empty list
        b"\x07",
        b"\xc0",
        b"\xa1a",
        b"\x81\x00\x07",  # a map
        b"\x91\x81\x00\x07",
        b"\x91\xa1\xff",  # text that is not UTF-8
        b"\x92\x00\xd4\x05\x00",  # an extension type
        b"\xd6\xff\x00\x00\x00\x00",  # a timestamp
        b"\x92\x05\xd6\xff\x00\x00\x00\x00",
        b"\xdd\xff\xff\xff\xff",  # four thousand million elements, it says
        b"\xdf\xff\xff\xff\xff",
        b"\x91\xc6\xff\xff\xff\xff",
        b"\x91\xdb\xff\xff\xff\xff",
        nested(600),
        nested(4000),
        b"\x00" * 10,
        b"GET / HTTP/1.1\r\n\r\n",
        header(PUSH, *range(1000)),
        header(PUSH, nested(100), 1, False, 0, 0),
        header(PUSH, [[[[1]]]], 1, False, 0, 0),
    ],
)
def test_a_header_that_is_none_is_refused(frame: bytes) -> None:
    """failures.md, 31: bad msgpack: extra data, wrong shape, huge length, deep nesting."""
    refused(frame)


def test_a_message_without_frames_is_refused() -> None:
    refused(match="without frames")


def test_a_header_over_the_limit_is_refused_unread() -> None:
    assert HEADER_LIMIT_BYTES == 4096
    refused(header(REJECT, "x" * 5000), match="5005 bytes; at most 4096")
    refused(b"\xc1" * (HEADER_LIMIT_BYTES + 1), match="at most 4096")


@pytest.mark.parametrize("kind", [-1, 10, 255, 2**63, True, False, 3.0, "push", None, b"\x03", [3]])
def test_an_unknown_kind_is_refused(kind: object) -> None:
    refused(header(kind, 1), match="unknown kind")


@NAMES
def test_fields_that_are_missing_or_too_many_are_refused(name: str) -> None:
    first, *vectors = wire(EXAMPLES[name])
    fields = msgpack.unpackb(first)
    refused(header(*fields, 0), *vectors, match="fields; expected")
    if len(fields) > 1:
        refused(header(*fields[:-1]), *vectors, match="fields; expected")


@NAMES
def test_every_header_that_is_cut_off_is_refused(name: str) -> None:
    first, *vectors = wire(EXAMPLES[name])
    for length in range(len(first)):
        refused(first[:length], *vectors)
    refused(first + b"\x00", *vectors)


STRANGE = [True, False, None, -1, 2**53 + 1, 2**64 - 1, -(2**63), 1.0, float("nan"), "1", b"1", [1], [], "x" * 1025]


@NAMES
@pytest.mark.parametrize("value", STRANGE, ids=lambda value: repr(value)[:20])
def test_a_field_of_another_type_or_range_is_refused(name: str, value: object) -> None:
    """Each field of each message in turn; a bool is not a number, and bytes are not a text."""
    first, *vectors = wire(EXAMPLES[name])
    fields = msgpack.unpackb(first)
    for place in range(1, len(fields)):
        if (
            type(value) is type(fields[place])
            and not (isinstance(value, str) and len(value) > 1024)
            and (isinstance(value, bool | str) or (isinstance(value, int) and 0 <= value <= 2**53))
        ):
            continue  # a value of the right type and range
        changed = copy.copy(fields)
        changed[place] = value
        refused(header(*changed), *vectors)


@pytest.mark.parametrize("chain", [b"", bytes(31), bytes(33), "0" * 32])
def test_a_chain_that_is_not_32_bytes_is_refused(chain: object) -> None:
    refused(header(GOODBYE, 1, chain, list(range(9))), match="32 bytes")


@pytest.mark.parametrize(
    "counts",
    [
        *([], list(range(9)), [*range(13), 0.5], [*range(11), -1, 0.5], [*range(11), True, 0.5], {}, 12),
        *([*range(12), loss] for loss in (3, -0.5, math.inf, math.nan)),
    ],
)
def test_counts_that_are_not_twelve_naturals_and_a_loss_are_refused(counts: object) -> None:
    refused(header(GOODBYE, 1, bytes(32), counts))


@pytest.mark.parametrize("kind", [PUSH, PULL, RESEND])
def test_there_is_no_round_zero(kind: int) -> None:
    fields = {PUSH: (0, 2, False, 0, 0), PULL: (0, 2, 0, 0, 0), RESEND: (0,)}[kind]
    refused(header(kind, *fields), match="round that is not a whole number of at least 1")


def test_a_reply_of_kind_none_is_not_for_the_wire() -> None:
    refused(header(PULL, 1, int(ReplyKind.NONE), 0, 0, 0), match="unknown kind")


def test_a_reason_is_cut_so_that_its_header_can_be_read() -> None:
    """A reason may quote what a stranger said; cut in the middle of a letter it must still be text."""
    for letter in "x", "é", "語", "😀":
        for start in "", "a", "ab", "abc":
            message = read(wire(Reject(start + letter * 5000)))
            assert isinstance(message, Reject)
            assert (start + letter * 5000).startswith(message.reason)
            assert len(message.reason) > 250


# What is wrong with vectors


@pytest.mark.parametrize("length", [0, 1, 8, 23, 25, 32, 24_000])
def test_a_vector_of_another_length_is_refused(length: int) -> None:
    refused(header(PUSH, 1, 1, False, 0, 1), bytes(length), match=f"a vector of {length} bytes; expected 24")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e160, -1.7e308])
@pytest.mark.parametrize("place", range(DIM))
def test_a_vector_that_is_not_finite_is_refused(value: float, place: int) -> None:
    """failures.md, 31: "NaN or infinity never enters A"; nor what would overflow when it is squared."""
    vector = np.ones(DIM)
    vector[place] = value
    refused(header(PUSH, 1, 1, False, 0, 1), vector.tobytes(), match="NaN, infinity or numbers too large")
    refused(header(PULL, 1, 3, 0, 0, 1), vector.tobytes(), match="NaN, infinity or numbers too large")


@pytest.mark.parametrize(
    ("fields", "frames"),
    [
        ((PUSH, 1, 1, False, 0, 0), []),  # VECTORS without one
        ((PUSH, 1, 2, False, 0, 1), [ONE]),  # SKIP with one
        ((PUSH, 1, 3, False, 0, 1), [ONE]),  # IDLE with one
        ((PUSH, 1, 5, False, 0, 1), [ONE]),  # GONE with one
        ((PULL, 1, 3, 0, 0, 0), []),
        ((PULL, 1, 1, 0, 0, 1), [ONE]),  # KEEP with one
        ((PULL, 1, 2, 0, 0, 1), [ONE]),  # ZERO with one
    ],
)
def test_a_kind_that_does_not_match_its_vectors_is_refused(fields: tuple[object, ...], frames: list[bytes]) -> None:
    refused(header(*fields), *frames, match="of kind")


@pytest.mark.parametrize("announced", [0, 1, 3, -1, True, 1.0, 2**40])
def test_more_or_fewer_vectors_than_announced_are_refused(announced: object) -> None:
    refused(header(PUSH, 1, 1, False, 0, announced), ONE, ONE, match="announces")


def test_more_vectors_than_the_algorithm_sends_are_refused() -> None:
    refused(header(PUSH, 1, 1, False, 0, 3), ONE, ONE, ONE, match="3 vectors; at most 2 are allowed")
    with pytest.raises(RemoteError, match="1 vectors; at most 0"):
        read([header(PUSH, 1, 1, False, 0, 1), ONE], max_vectors=0)


@NAMES
def test_vectors_behind_a_message_that_has_none_are_refused(name: str) -> None:
    if name not in ("push", "pull"):
        refused(*wire(EXAMPLES[name]), ONE)
        refused(*wire(EXAMPLES[name]), b"")


# Anything at all


def message_or_remote_error(frames: list[bytes]) -> None:
    try:
        message = read(frames)
    except RemoteError as error:
        assert str(error)
        assert len(str(error)) < 200
    else:
        assert isinstance(message, KINDS)
        if not isinstance(message, Hello):  # one of another version is read in part
            assert plain(read(wire(message))) == plain(message)


@given(st.lists(st.binary(max_size=64), max_size=4))
def test_any_bytes_are_a_message_or_a_remote_error(frames: list[bytes]) -> None:
    message_or_remote_error(frames)


values: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.binary(max_size=33),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2),
    max_leaves=12,
)


@pytest.mark.slow
@given(
    kind=st.integers(0, 8),
    fields=st.lists(values, max_size=12),
    vectors=st.lists(st.sampled_from([ONE, b"", bytes(24), b"\xff" * 24]), max_size=2),
)
def test_any_fields_are_a_message_or_a_remote_error(kind: int, fields: list[object], vectors: list[bytes]) -> None:
    message_or_remote_error([header(kind, *fields), *vectors])


def overwrite(frame: bytes, place: int, new: bytes) -> bytes:
    return frame[:place] + new + frame[place + len(new) :]


def insert(frame: bytes, place: int, new: bytes) -> bytes:
    return frame[:place] + new + frame[place:]


def cut(frame: bytes, place: int, new: bytes) -> bytes:
    return frame[:place]


@given(
    name=st.sampled_from(sorted(EXAMPLES)),
    which=st.integers(0, 2),
    place=st.integers(0, 200),
    new=st.binary(min_size=1, max_size=4),
    change=st.sampled_from([overwrite, insert, cut]),
)
def test_a_damaged_message_is_a_message_or_a_remote_error(
    name: str, which: int, place: int, new: bytes, change: Callable[[bytes, int, bytes], bytes]
) -> None:
    frames = wire(EXAMPLES[name])
    which %= len(frames)
    frames[which] = change(frames[which], place % (len(frames[which]) + 1), new)
    message_or_remote_error(frames)


@given(order=st.permutations(range(3)), name=st.sampled_from(sorted(EXAMPLES)))
def test_frames_in_another_order_are_a_message_or_a_remote_error(order: list[int], name: str) -> None:
    frames = [*wire(EXAMPLES[name]), ONE, ONE][:3]
    message_or_remote_error([frames[place] for place in order])
