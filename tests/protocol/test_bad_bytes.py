"""Bytes that are no message cost little to refuse, and nothing that comes is ever code."""

from __future__ import annotations

import ast
import os
import pickle
import tracemalloc
from pathlib import Path
from random import Random

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from siege import RAW, Drawn, Frames, Written, damaged, decode_anything
from star_harness import hello

import drom_net
from drom_net.algorithms.base import Contribution, ContributionKind, Reply, ReplyKind
from drom_net.core.errors import RemoteError
from drom_net.learning.metrics import Totals
from drom_net.protocol.codec import HEADER_LIMIT_BYTES, decode, encode
from drom_net.protocol.messages import (
    Goodbye,
    GoodbyeAck,
    Message,
    Pull,
    Push,
    Reject,
    RequestHello,
    Resend,
    RoundOpened,
    Welcome,
)

DIM = 3
VECTORS = (np.array([1.0, -2.0, 3.0]),)
MESSAGES: dict[str, Message] = {
    "hello": hello(1, incarnation=2, round=7, kept_from=3, answers=4),
    "welcome": Welcome("run-1", 7),
    "reject": Reject("no"),
    "push": Push(7, Contribution(ContributionKind.VECTORS, VECTORS, True), 5),
    "skip": Push(7, Contribution(ContributionKind.SKIP), 5),
    "pull": Pull(7, Reply(ReplyKind.VECTORS, VECTORS), 5, 9),
    "keep": Pull(7, Reply(ReplyKind.KEEP), 5, 9),
    "resend": Resend(7),
    "goodbye": Goodbye(9, bytes(range(32)), Totals(*range(12), 0.5)),
    "farewell": GoodbyeAck(),
    "introduce": RequestHello(4),
    "open": RoundOpened(7),
}


def wire(message: Message) -> Frames:
    return [bytes(frame) for frame in encode(message)]


def memory_to_decode(frames: Frames) -> int:
    """How many bytes it takes at most while these are decoded."""
    tracemalloc.start()
    try:
        decode(frames, dim=DIM, max_vectors=2)
    except RemoteError:
        pass
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return most


def bound(frames: Frames) -> int:
    """A small multiple of what has come; a byte of a header may be a list, which takes 56 and more."""
    return 100 * sum(map(len, frames[:3])) + 16 * 1024


@pytest.mark.parametrize("name", MESSAGES)
def test_every_field_of_a_message_comes_back(name: str) -> None:
    frames = wire(MESSAGES[name])
    again = decode(frames, dim=DIM, max_vectors=1)
    assert type(again) is type(MESSAGES[name])
    assert wire(again) == frames
    if name not in ("push", "pull"):
        assert again == MESSAGES[name]


@pytest.mark.parametrize("length", [16, 17, 255, 4095, 65535])
@pytest.mark.parametrize("form", ["array", "long array"])
def test_accident_31_a_header_of_lists_in_lists_takes_little_memory(length: int, form: str) -> None:
    """Each of a thousand lists in each other may say that it has thousands of elements; msgpack makes room for them."""
    opening = b"\xdc" + length.to_bytes(2, "big") if form == "array" else b"\xdd" + length.to_bytes(4, "big")
    frame = opening * (HEADER_LIMIT_BYTES // len(opening))
    assert memory_to_decode([frame]) < bound([frame])


@pytest.mark.parametrize("frame", RAW)
def test_accident_31_what_is_no_header_takes_little_memory(frame: bytes) -> None:
    with pytest.raises(RemoteError):
        decode([frame], dim=DIM, max_vectors=2)
    assert memory_to_decode([frame]) < bound([frame])


@given(name=st.sampled_from(sorted(MESSAGES)), seed=st.integers(0, 2**32))
def test_accident_31_a_damaged_message_is_a_message_or_refused_and_takes_little_memory(name: str, seed: int) -> None:
    frames = damaged(wire(MESSAGES[name]), Drawn(Random(seed)))
    assert memory_to_decode(frames) < bound(frames)


@given(st.binary(max_size=300))
def test_accident_31_whatever_bytes_say_comes_back_or_is_refused(data: bytes) -> None:
    decode_anything(data)


def test_choices_come_to_an_end_with_the_bytes() -> None:
    """A fuzzer makes an input shorter as long as it fails."""
    draw = Written(b"\x05\x02ab")
    assert (draw.pick(4), draw.pick(2), draw.take(9), draw.pick(7), draw.take(1)) == (1, 0, b"ab", 0, b"")


class Trap:
    """Unpickled, it makes a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._path),)


@pytest.mark.parametrize("where", ["frame", "field", "vector", "extension"])
def test_accident_33_a_pickle_is_refused_and_not_opened(where: str, tmp_path: Path) -> None:
    trap = tmp_path / "opened"
    bytes_of_it = pickle.dumps(Trap(trap))
    frames = {
        "frame": [bytes_of_it],
        "field": [msgpack.packb([1, bytes_of_it, 0])],
        "vector": [wire(MESSAGES["push"])[0], bytes_of_it],
        "extension": [msgpack.packb([1, msgpack.ExtType(1, bytes_of_it), 0])],
    }[where]
    with pytest.raises(RemoteError):
        decode(frames, dim=DIM, max_vectors=1)
    assert not trap.exists()
    pickle.loads(bytes_of_it)
    assert trap.exists()  # the trap works


def test_accident_33_nothing_in_the_package_unpickles() -> None:
    """failures.md, 33: "no pickle anywhere, allow_pickle=False for files too"."""
    loads = 0
    for path in Path(drom_net.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                assert not names & {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}, path
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.load", "numpy.load"):
                loads += 1
                assert "allow_pickle=False" in ast.unparse(node), f"{path}:{node.lineno}"
    assert loads
