"""What a node keeps on disk: everything comes back to the last bit, and whatever is not whole is told and not used."""

from __future__ import annotations

import copy
import dataclasses
import errno
import math
import os
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from helpers import random_streams, sparse_stream
from hypothesis import given
from hypothesis import strategies as st
from test_snapshots import Party, same

from drom_net.algorithms import BUILTIN, Algorithm
from drom_net.algorithms.base import IDLE, KEEP, Contribution, ContributionKind, Example
from drom_net.algorithms.drom import DromState
from drom_net.algorithms.features import SparseVector
from drom_net.core.errors import CheckpointError, UsageError
from drom_net.learning.metrics import Totals
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.task import Centre, Outgoing, TaskLearner
from drom_net.protocol.messages import Pull, Push
from drom_net.protocol.node import Ended
from drom_net.storage import node_folder
from drom_net.storage.files import cut_back
from drom_net.storage.node_folder import CheckpointFolder, Kept, Loaded, Spent, look_at_kept
from drom_net.storage.snapshot_codec import decode_snapshot, encode_snapshot, snapshot_classes
from drom_net.storage.writer import Writer

CLASSES = snapshot_classes()


def decoded(value: Any) -> Any:
    """What comes back of a value that was on disk."""
    return decode_snapshot(b"".join(encode_snapshot(value)), CLASSES)


# Values


def alike(one: Any, other: Any) -> bool:
    """Of the same types and bits, all the way down; an array may have become writable."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, float | np.generic):
        return struct.pack("<d", one) == struct.pack("<d", other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if dataclasses.is_dataclass(one):
        return all(alike(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))
    return bool(one == other)


NAN_WITH_BITS = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_DEAD_BEEF))[0]
VALUES = [
    *(None, True, False, 0, -1, 2**63, 2**64 - 1, -(2**63), "", "Größe\n", b"", b"\x00\xff"),
    *(0.0, -0.0, 5e-324, math.inf, -math.inf, math.nan, NAN_WITH_BITS, 0.1),
    *((), [], {}, set(), (1, [2.0, (None,)]), {"b": 1, "a": {3: "x", -1: ()}}, {1, 5, 2}),
    *(np.zeros(0), np.zeros((3, 0)), np.array(1.5), np.arange(6.0).reshape(1, 2, 3), np.zeros(300), np.ones((20, 30))),
    *(np.arange(5, dtype="i4"), np.arange(5), np.array([1, 255], dtype="u1"), np.array([True, False])),
    np.array([math.nan, NAN_WITH_BITS, -0.0, math.inf]),
    *(np.float64(0.1), np.int64(3), np.bool_(True)),
    *(ContributionKind.SKIP, IDLE, KEEP, Totals(3, 1), Outgoing(IDLE, 4, IDLE), Ended(3, b"chain", Totals())),
    Push(7, Contribution(ContributionKind.VECTORS, (np.ones(3),), True)),
    Pull(7, KEEP),
    DromState(np.ones(2), np.zeros(2), None, SparseVector(np.array([3], "i4"), np.array([0.5])), -0.25, 1.0),
    [Example(np.ones(1), 1.0), Example(np.ones(2), -1.0)],
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}")
def test_a_value_comes_back_with_its_type_and_bits(value: Any) -> None:
    assert alike(decoded(value), value)


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda parts: (
        st.lists(parts)
        | st.lists(parts).map(tuple)
        | st.dictionaries(st.integers(-(2**63), 2**63) | st.text(), parts)
        | st.sets(st.integers(-(2**63), 2**63))
    ),
)


@pytest.mark.slow
@given(TREES)
def test_any_tree_of_plain_values_comes_back(tree: Any) -> None:
    assert alike(decoded(tree), tree)


@pytest.mark.parametrize("size", [3, 3000])
def test_a_decoded_array_can_be_updated_in_place(size: int) -> None:
    """A state's arrays are: whatever they were, they come back owned, writable, aligned and in C order."""
    source = np.arange(2.0 * size).reshape(2, size)
    for array in (source.T, source[:, ::-1], np.asfortranarray(source)):
        array.flags.writeable = False
        (back,) = decoded([array])
        assert np.array_equal(back, array)
        flags = back.flags
        assert (flags.owndata, flags.writeable, flags.aligned, flags.c_contiguous) == (True,) * 4
        back += 1.0


def test_large_arrays_are_not_copied() -> None:
    array = np.zeros((50, 70))
    _, buffer = encode_snapshot({"state": DromState(array[0], array, None)})[:2]
    assert isinstance(buffer, memoryview)
    assert len(buffer) == array.nbytes
    assert np.shares_memory(np.frombuffer(buffer), array)


@dataclasses.dataclass
class Unknown:
    x: int = 1


@pytest.mark.parametrize(
    "value", [object(), 1j, {1.5: 1}, {(1,): 1}, {"a"}, np.zeros(2, "f4"), np.array(["a"]), frozenset(), range(3)]
)
def test_what_a_snapshot_cannot_hold_is_named(value: Any) -> None:
    with pytest.raises(TypeError, match="a snapshot "):
        encode_snapshot([value])


def test_only_the_given_classes_are_made() -> None:
    """failures.md, 33: "no pickle anywhere"; a file does not decide what is made."""
    data = b"".join(encode_snapshot(Unknown()))
    assert decode_snapshot(data, [Unknown]) == Unknown()
    with pytest.raises(CheckpointError, match=r"the class \S*Unknown, which this version of drom_net does not know"):
        decode_snapshot(data, CLASSES)

    other = dataclasses.make_dataclass("Unknown", ["y"])
    other.__module__, other.__qualname__ = Unknown.__module__, Unknown.__qualname__
    with pytest.raises(CheckpointError, match="has other fields for"):
        decode_snapshot(data, [other])


WHOLE = b"".join(encode_snapshot([np.arange(200.0), {"a": IDLE, "b": {1, 2}}, np.array(2.0), np.array([True]), "text"]))


@pytest.mark.parametrize("change", [*(1 << bit for bit in range(8)), 255])
def test_damaged_bytes_are_an_error_or_other_values(change: int) -> None:
    """Nothing else is raised, and nothing larger than the file is made. (The checksum of a file stands before this.)"""
    for place in range(len(WHOLE) - 1600 + 20):
        damaged = bytearray(WHOLE)
        damaged[place] ^= change
        try:
            decode_snapshot(bytes(damaged), CLASSES)
        except CheckpointError as error:
            assert str(error)


def test_bytes_that_are_cut_or_more_are_an_error() -> None:
    for length in range(len(WHOLE)):
        with pytest.raises(CheckpointError):
            decode_snapshot(WHOLE[:length], CLASSES)
    with pytest.raises(CheckpointError, match="more bytes"):
        decode_snapshot(WHOLE + b"\x00", CLASSES)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_error_or_a_value(tokens: bytes) -> None:
    try:
        decode_snapshot(struct.pack("<Q", len(tokens)) + tokens, CLASSES)
    except CheckpointError as error:
        assert str(error)


def tokens(*values: Any) -> bytes:
    """A header of these tokens; a pair stands for an extension."""
    packer = msgpack.Packer(autoreset=False)
    for value in values:
        if isinstance(value, tuple):
            packer.pack_ext_type(value[0], struct.pack("<Q", value[1]))
        else:
            packer.pack(value)
    packed: bytes = packer.bytes()
    return struct.pack("<Q", len(packed)) + packed


@pytest.mark.parametrize(
    "data",
    [
        tokens(*[(0, 1)] * 100_000),  # deep
        tokens((0, 2**64 - 1)),
        tokens((3, 2**62)),
        tokens((2, 1), 1.5, 1),
        tokens((2, 2), 1, 1, 1, 1),
        tokens((4, 1), "<f8", 2**60, None),
        tokens((4, 1), "<f8", -1, b""),
        tokens((4, 2), "<f8", 0, 2**62, b""),
        tokens((4, 70), "<f8", *[1] * 70, bytes(8)),
        tokens((4, 1), "|O8", 1, bytes(8)),
        tokens((4, 1), "|b1", 1, b"\x02"),
        tokens((4, 1), "<f8", 1, bytes(16)),
        tokens((5, 0), 1),
        tokens((7, 0)),
        tokens((6, 1), "ReplyKind", "value", (7, 0), 99),
        tokens((6, 1), "ReplyKind", "value", (7, 0), (1, 0)),
        tokens((8, 0)),
        tokens([1, 2]),
        tokens({"a": 1}),
        struct.pack("<Q", 5) + b"\xdd\xff\xff\xff\xff",  # an array of 2**32 - 1
        struct.pack("<Q", 5) + b"\xc6\xff\xff\xff\xff",  # bytes of as many
        struct.pack("<Q", 2**63),
    ],
)
def test_what_no_encoder_writes_is_an_error(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        decode_snapshot(data, CLASSES)


# Nodes


def rounds_of(name: str, *, sparse: bool, through: Callable[[Any], Any]) -> list[bytes]:
    """Three tasks and a centre that are made anew twice in every round; the bits of all that they leave."""
    parameters = {"delayed": {}, "drom-d": {"tau": 2}, "drom": {"xi": 1.0}}.get(name, {})
    algorithm: Algorithm = BUILTIN[name].make(**parameters)
    streams = random_streams([8, 8, 8], density=0.6, flip=0.2)
    streams = [sparse_stream(stream) for stream in streams] if sparse else streams

    def new_centre() -> Centre:
        return Centre(algorithm, tasks=range(3), dim=7, seed=3)

    learners = [TaskLearner(algorithm, stream) for stream in streams]
    centre = new_centre()
    left = []

    def replaced(task: int) -> TaskLearner:
        left.append(learners[task].take_records())
        again = TaskLearner(algorithm, streams[task])
        again.restore(through(learners[task].snapshot()))
        return again

    for t in range(1, 9):
        for task in range(3):
            learners[task].predict_first(t)
            learners[task] = replaced(task)  # with the example of this round in its state
        contributions = {task: through(learner.then_update(t)) for task, learner in enumerate(learners)}
        if algorithm.is_sync(t):
            replies = centre.reduce(t, contributions)
            left.append(centre.take_records())
            kept, centre = centre.snapshot(), new_centre()
            centre.restore(through(kept))
            for task, learner in enumerate(learners):
                learner.end(t, through(replies[task]))
        else:
            for learner in learners:
                learner.end(t)
        learners = [replaced(task) for task in range(3)]
    results = [learner.result() for learner in learners]
    models = [vector.tobytes() for result in results for vector in result.model.values()]
    return [*left, *models, *(result.chain for result in results), centre.chain]


@pytest.mark.parametrize("name", BUILTIN)
@pytest.mark.parametrize("sparse", [False, True])
def test_every_algorithm_goes_on_with_the_same_bits_from_what_was_on_disk(name: str, sparse: bool) -> None:
    """failures.md, 28: "checkpoint, resume, same bits". Also of an algorithm that is only just listed."""
    assert rounds_of(name, sparse=sparse, through=decoded) == rounds_of(name, sparse=sparse, through=copy.deepcopy)


class OnDisk(Party):
    """Nodes that are made again from bytes."""

    def make(self, index: int) -> Any:
        if self.on_disk[index]:
            self.on_disk[index][-1] = decoded(self.on_disk[index][-1])
        return super().make(index)


@pytest.mark.parametrize(("exchange", "node"), [(None, 0), (None, 3), ("blocking", 1), ("overlap", 0), ("delayed", 2)])
def test_every_node_goes_on_with_the_same_bits_from_what_was_on_disk(exchange: str | None, node: int) -> None:
    party = OnDisk(exchange)
    party.run({at: [node] for at in range(0, 400, 7)})
    assert party.incarnations[node] > 3
    party.check()
    assert all(same(decoded(snapshot), snapshot) for _, snapshot, _ in party.taken)


# The folder


def folder_of(path: Path, *, node: str = "site-1", config_digest: str = "c0ffee") -> CheckpointFolder:
    return CheckpointFolder(path / "node", node=node, config_digest=config_digest)


def save(folder: CheckpointFolder, number: int, value: Any = None) -> Path:
    header, *buffers = encode_snapshot([number, value])
    folder.save(number, header, buffers)
    return folder.path / f"snapshot-{number:016d}.drom"


def saved_rounds(folder: CheckpointFolder) -> list[int]:
    return sorted(int(path.stem[9:]) for path in folder.path.glob("snapshot-*.drom"))


def test_what_was_saved_is_loaded_by_the_next_incarnation(tmp_path: Path) -> None:
    array = np.arange(500.0)
    with folder_of(tmp_path) as folder:
        assert folder.begin("run-1") == (1, "run-1")
        assert folder.load(CLASSES) is None
        for number in (3, 10, 200):
            save(folder, number, array * number)
        assert saved_rounds(folder) == [10, 200]
    with folder_of(tmp_path) as folder:
        assert folder.begin("run-1") == (2, "run-1")
        loaded = folder.load(CLASSES)
    assert loaded is not None
    assert (loaded.round, loaded.skipped, loaded.snapshot[0]) == (200, (), 200)
    assert loaded.snapshot[1].tobytes() == (array * 200).tobytes()


def test_the_last_intact_snapshot_can_be_looked_at_while_the_node_runs(tmp_path: Path) -> None:
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        assert look_at_kept(folder.path, CLASSES) is None
        save(folder, 7, "older")
        last = save(folder, 9, "newer")
        assert look_at_kept(folder.path, CLASSES) == Kept(9, [9, "newer"], Spent())
        last.write_bytes(last.read_bytes()[:-1])
        assert look_at_kept(folder.path, CLASSES) == Kept(7, [7, "older"], Spent())


def test_a_folder_in_which_nothing_was_learned_is_of_any_run_and_counts_its_starts_on(tmp_path: Path) -> None:
    """Of a start that was given up the configuration may be corrected before the next one."""
    with folder_of(tmp_path) as folder:
        assert folder.begin("run-1") == (1, "run-1")
        (folder.path / "records.bin").write_bytes(bytes(TASK_DTYPE.itemsize))  # the first example, predicted
    with folder_of(tmp_path, config_digest="another") as folder:
        assert folder.begin("run-2") == (2, "run-2")
        (folder.path / "records.bin").write_bytes(bytes(2 * TASK_DTYPE.itemsize))
    with folder_of(tmp_path) as folder, pytest.raises(CheckpointError, match="is of run run-2"):
        folder.begin("run-3")


def test_what_was_spent_goes_on_from_the_snapshot(tmp_path: Path) -> None:
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        assert folder.before == Spent()
        folder.spent = folder.before + Spent(2.5, {0: (100, 7), 1: (5, 5)})
        save(folder, 40)
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        assert folder.load(()) is not None
        assert folder.before == Spent(2.5, {0: (100, 7), 1: (5, 5)})
        assert folder.before + Spent(1.0, {1: (1, 2), 3: (9, 9)}) == Spent(3.5, {0: (100, 7), 1: (6, 7), 3: (9, 9)})


@pytest.mark.parametrize(
    "document",
    [None, [], {"seconds": 1.0}, {"seconds": "1", "moved": []}, {"seconds": float("nan"), "moved": []}]
    + [{"seconds": 1.0, "moved": moved} for moved in (3, [3], [[0, 1]], [[0, -1, 2]], [["a", 1, 2]], [[[], 1, 2]])],
    ids=str,
)
def test_what_does_not_say_what_was_spent_counts_for_nothing(document: Any) -> None:
    """A file of an earlier version, for instance."""
    assert Spent.read(document) == Spent()


def test_a_round_may_be_saved_again(tmp_path: Path) -> None:
    """The same round with more in it: a goodbye has come since."""
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        for value in "abc":
            save(folder, 4, value)
            save(folder, 5, value)
        assert saved_rounds(folder) == [4, 5]
        assert folder.load(CLASSES) == Loaded(5, [5, "c"], ())


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        save(folder, 1)
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.path.iterdir()}
    assert modes == dict.fromkeys(("lock", "life.json", "snapshot-0000000000000001.drom"), 0o600)


def test_a_node_at_work_touches_its_lock_every_few_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a health check looks at."""
    clock = Clock(100.0)
    monkeypatch.setattr(node_folder, "time", clock)
    with folder_of(tmp_path) as folder:
        lock = folder.path / "lock"
        touched = []
        for clock.now in (100.1, 104.9, 105.1, 105.2, 110.2):
            os.utime(lock, (1.0, 1.0))
            folder.show_life()
            touched.append(lock.stat().st_mtime != 1.0)
    assert touched == [False, False, True, False, True]


class Clock:
    """In the place of the module `time`."""

    def __init__(self, now: float) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now


def test_a_folder_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    with folder_of(tmp_path) as folder, pytest.raises(UsageError) as caught:
        folder_of(tmp_path)
    assert str(caught.value) == f"{folder.path} is in use by process {os.getpid()}: a node runs in it"
    with folder_of(tmp_path):
        pass


def test_accident_23_every_start_counts_and_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    with folder_of(tmp_path) as folder:
        assert folder.begin("") == (1, "")
        folder.adopt("run-7")
        assert folder.run_id == "run-7"
    with folder_of(tmp_path) as folder:
        assert folder.begin("") == (2, "run-7")
    with folder_of(tmp_path) as folder:
        assert folder.begin("run-7") == (3, "run-7")
        save(folder, 5)
    with folder_of(tmp_path) as folder, pytest.raises(CheckpointError, match=r"is of run run-7, .* for run run-8"):
        folder.begin("run-8")


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b"[]", b"1", b"\xff", b"[" * 10_000, None),
        *(b'{"incarnation": 3}', b'{"incarnation": true, "run_id": ""}'),
        *(b'{"incarnation": 0, "run_id": ""}', b'{"incarnation": 1, "run_id": null}'),
    ],
)
def test_a_lost_count_of_starts_says_what_to_do(tmp_path: Path, text: bytes | None) -> None:
    """With a lower incarnation than before, the others would take the node for an intruder."""
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        save(folder, 1)
    life = folder.path / "life.json"
    if text is None:
        life.unlink()
    else:
        life.write_bytes(text)
    with folder_of(tmp_path) as folder, pytest.raises(CheckpointError) as caught:
        folder.begin("run-1")
    assert str(caught.value).startswith(f"{life} is {'missing' if text is None else 'damaged'}")
    assert 'write {"incarnation": N, "run_id": "ID"} into it' in str(caught.value)
    assert caught.value.exit_code == 2
    life.write_bytes(b'{"incarnation": 1000, "run_id": "run-1"}')
    with folder_of(tmp_path) as folder:
        assert folder.begin("run-1") == (1001, "run-1")


def test_a_snapshot_torn_at_any_byte_is_passed_over_for_the_older(tmp_path: Path) -> None:
    """failures.md, 41: "checkpoint torn by power loss": atomic write, old one kept, clear error."""
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        save(folder, 1)
        path = save(folder, 2, "more")
        whole = path.read_bytes()
        for length in range(len(whole)):
            path.write_bytes(whole[:length])
            loaded = folder.load(CLASSES)
            assert loaded is not None
            assert (loaded.round, len(loaded.skipped)) == (1, 1), length
            assert str(path) in loaded.skipped[0]
        path.write_bytes(whole + b"\x00")
        assert folder.load(CLASSES) == Loaded(
            1, [1, None], (f"{path} has {len(whole) + 1} bytes and was written with {len(whole)}: it is passed over",)
        )
        path.write_bytes(whole)
        assert folder.load(CLASSES) == Loaded(2, [2, "more"], ())


@pytest.mark.slow
def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        save(folder, 1)
        path = save(folder, 2)
        whole = path.read_bytes()
        for place in range(8 * len(whole)):
            damaged = bytearray(whole)
            damaged[place // 8] ^= 1 << place % 8
            path.write_bytes(damaged)
            loaded = folder.load(CLASSES)
            assert loaded is not None
            assert (loaded.round, len(loaded.skipped)) == (1, 1), place


def test_zeros_another_file_and_another_name_are_passed_over(tmp_path: Path) -> None:
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        first = save(folder, 1)
        whole = first.read_bytes()
        path = folder.path / "snapshot-0000000000000009.drom"
        for content, why in ((bytes(len(whole)), "no snapshot"), (b"PK" + whole, "no snapshot"), (whole, "of round 1")):
            path.write_bytes(content)
            loaded = folder.load(CLASSES)
            assert loaded is not None
            assert loaded.round == 1
            assert why in loaded.skipped[0]


def test_without_an_intact_snapshot_a_node_does_not_begin_anew(tmp_path: Path) -> None:
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        for number in (1, 2):
            path = save(folder, number)
            path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(CheckpointError) as caught:
            folder.load(CLASSES)
    assert len(str(caught.value).splitlines()) == 3


def test_a_node_that_has_ended_has_its_last_snapshot_twice(tmp_path: Path) -> None:
    """The others forget what it would need to go on from the one before."""
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        save(folder, 1)
        last = save(folder, 2)
        folder.end()
        whole = last.read_bytes()
        assert last.with_suffix(".copy").read_bytes() == whole
    for content in (whole[:-9], None):
        if content is None:
            last.unlink()
        else:
            last.write_bytes(content)
        with folder_of(tmp_path) as folder:
            folder.begin("run-1")
            loaded = folder.load(CLASSES)
            folder.end()
        assert loaded is not None
        assert (loaded.round, len(loaded.skipped)) == (2, 0 if content is None else 1)
        assert last.read_bytes() == last.with_suffix(".copy").read_bytes() == whole
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        for number in (3, 4):
            save(folder, number)
        assert not last.with_suffix(".copy").exists()


def test_after_a_torn_one_the_older_is_kept_until_two_newer_are_there(tmp_path: Path) -> None:
    """The torn file has the higher round: it must not count among the two."""
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        save(folder, 100)
        torn = save(folder, 200)
        torn.write_bytes(torn.read_bytes()[:50])
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        loaded = folder.load(CLASSES)
        assert loaded is not None
        assert loaded.round == 100
        save(folder, 150)
        assert saved_rounds(folder) == [100, 150]
        save(folder, 160)
        assert saved_rounds(folder) == [150, 160]


@pytest.mark.parametrize(
    ("theirs", "what"),
    [
        ({"node": "site-2"}, "is of node site-2, and this is node site-1"),
        ({"config_digest": "bad"}, "is of configuration bad, and this is configuration c0ffee"),
        ({"run_id": "run-0"}, "is of run run-0, and this is run run-1"),
    ],
)
def test_a_snapshot_of_something_else_is_never_used(tmp_path: Path, theirs: dict[str, str], what: str) -> None:
    """failures.md, 23: a stale file of an earlier run is read (checkpoints): run id checked."""
    run_id = theirs.pop("run_id", "run-1")
    with folder_of(tmp_path / "other", **theirs) as other:
        other.begin(run_id)
        foreign = save(other, 7)
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        save(folder, 1)
        foreign.replace(folder.path / foreign.name)
        with pytest.raises(CheckpointError) as caught:
            folder.load(CLASSES)
    assert what in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_later_format_is_named_and_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        save(folder, 1)
        with monkeypatch.context() as later:
            later.setattr(node_folder, "FORMAT_VERSION", 5)
            save(folder, 2)
        with pytest.raises(CheckpointError, match=r"has version 5 of the format, .* knows up to version 4"):
            folder.load(CLASSES)


def test_an_earlier_format_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 1 called classes by their modules, which have moved since."""
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        with monkeypatch.context() as earlier:
            earlier.setattr(node_folder, "FORMAT_VERSION", 1)
            path = save(folder, 1)
        with pytest.raises(CheckpointError, match=r"has version 1 of the format, .* from version 4 alone: finish"):
            folder.load(CLASSES)
        assert path.exists()


def test_no_two_classes_of_snapshots_have_one_name() -> None:
    names = [cls.__qualname__ for cls in snapshot_classes()]
    assert len(names) > 40
    assert sorted(set(names)) == sorted(names)


def test_a_snapshot_with_unknown_classes_is_not_passed_over(tmp_path: Path) -> None:
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        save(folder, 1)
        path = save(folder, 2, Unknown())
        with pytest.raises(CheckpointError, match=r"cannot be used: .*Unknown"):
            folder.load(CLASSES)
        assert path.exists()


FAULTS = {
    "full": ("write", errno.ENOSPC),
    "failing": ("fsync", errno.EIO),
    "read-only": ("open", errno.EROFS),
    "quota": ("replace", errno.EDQUOT),
}


def break_disk(monkeypatch: pytest.MonkeyPatch, kind: str, calls_before: int = 0) -> None:
    """From now on, after so many calls, the disk is full, or whatever else it may be."""
    name, number = FAULTS[kind]
    original = getattr(os, name)
    calls = iter(range(calls_before))

    def broken(*arguments: Any, **options: Any) -> Any:
        if next(calls, None) is not None:
            return original(*arguments, **options)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, name, broken)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_disk_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """failures.md, 41: "disk full, read-only or vanished run directory": old one kept, clear error."""
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        save(folder, 1)
        save(folder, 2)
        before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
        with monkeypatch.context() as broken, pytest.raises(OSError, match=os.strerror(FAULTS[kind][1])) as caught:
            break_disk(broken, kind, calls_before=1 if kind == "full" else 0)
            save(folder, 3)
        assert caught.value.filename == str(folder.path / "snapshot-0000000000000003.drom")
        assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before
        save(folder, 3)
        assert saved_rounds(folder) == [2, 3]


def run_child(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CHILD + code, *map(str, arguments)], capture_output=True, text=True, check=True
    )


CHILD = """
import resource, sys
from pathlib import Path
from drom_net.storage.node_folder import CheckpointFolder
from drom_net.storage.snapshot_codec import encode_snapshot
folder = CheckpointFolder(Path(sys.argv[1]) / "node", node="site-1", config_digest="c0ffee")
folder.begin("run-1")
def save(number, value=b""):
    header, *buffers = encode_snapshot([number, value])
    folder.save(number, header, buffers)
"""


@pytest.mark.process
def test_a_real_limit_of_the_file_system_leaves_what_was_there(tmp_path: Path) -> None:
    """The kernel writes a part of the file, and refuses the rest."""
    code = """
save(1)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    save(2, bytes(100_000))
except OSError as error:
    print(error.strerror, error.filename)
"""
    done = run_child(code, tmp_path)
    second = tmp_path / "node" / "snapshot-0000000000000002.drom"
    assert done.stdout == f"{os.strerror(errno.EFBIG)} {second}\n"
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        assert saved_rounds(folder) == [1]
        assert not list(folder.path.glob("*.part"))
        assert folder.load(CLASSES) == Loaded(1, [1, b""], ())


@pytest.mark.process
def test_a_process_killed_while_it_saves_leaves_its_last_snapshot_and_no_lock(tmp_path: Path) -> None:
    """failures.md, 28. Whatever it had said to be on the disk is there."""
    code = """
for number in range(1, 1_000_000):
    save(number, bytes(200_000))
    print(number, flush=True)
"""
    for incarnation in range(1, 4):
        child = subprocess.Popen([sys.executable, "-c", CHILD + code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        told = [int(child.stdout.readline()) for _ in range(5 * incarnation)]
        with pytest.raises(UsageError, match=f"in use by process {child.pid}"):
            folder_of(tmp_path)
        child.kill()
        told += [int(line) for line in child.communicate()[0].split()]
        with folder_of(tmp_path) as folder:
            folder.incarnation, folder.run_id = folder._read_life()
            loaded = folder.load(CLASSES)
        assert folder.incarnation == incarnation
        assert loaded is not None
        assert loaded.round >= told[-1]
        assert loaded.skipped == ()
        for path in folder.path.glob("snapshot-*"):
            path.unlink()  # the next one begins again from 1


# Rows


ROWS = np.dtype([("round", "<i8"), ("score", "<f8")])


def rows_of(*rounds: int) -> bytes:
    rows = np.zeros(len(rounds), ROWS)
    rows["round"], rows["score"] = rounds, 0.5
    return rows.tobytes()


@pytest.mark.parametrize("rounds", [[], [5], [1, 2, 3, 4, 5, 6, 7], [0, 2, 2, 2, 4, 4, 9], [3, 3, 3], list(range(100))])
@pytest.mark.parametrize("tail", [b"", b"\x05", rows_of(1)[:-1], bytes(16), bytes(16 * 90 + 3)])
def test_rows_beyond_the_round_are_cut(tmp_path: Path, rounds: list[int], tail: bytes) -> None:
    """A torn row, and zeros that a power loss has left, are cut too."""
    path = tmp_path / "records.bin"
    for last in range(-1, 12):
        path.write_bytes(rows_of(*rounds) + tail)
        kept = [t for t in rounds if t <= last]
        assert cut_back(path, ROWS, last) == len(kept)
        assert path.read_bytes() == rows_of(*kept)


def test_rows_are_found_by_a_few_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million rows need not be read."""
    rows = np.zeros(1_000_000, TASK_DTYPE)
    rows["round"] = np.arange(1, 1_000_001)
    path = tmp_path / "records.bin"
    rows.tofile(path)
    looks, original = [], os.pread
    monkeypatch.setattr(os, "pread", lambda *where: looks.append(where) or original(*where))
    assert cut_back(path, TASK_DTYPE, 765_432, expect_round=765_432) == 765_432
    assert len(looks) <= 22
    assert path.stat().st_size == 765_432 * TASK_DTYPE.itemsize
    assert int(np.fromfile(path, TASK_DTYPE)["round"][-1]) == 765_432


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (rows_of(1, 2), "ends with round 2 where it should have round 3"),
        (rows_of(1, 2) + rows_of(3)[:-1], "ends with round 2 where it should have round 3"),
        (rows_of(1, 2) + bytes(160), "ends with round 2 where it should have round 3"),
        (b"", "has no row up to round 3"),
        (rows_of(5, 6), "has no row up to round 3"),
        (None, "is missing; the snapshot goes on from its row of round 3"),
    ],
)
def test_a_row_that_must_be_there_and_is_not_is_an_error(tmp_path: Path, content: bytes | None, why: str) -> None:
    path = tmp_path / "records.bin"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        cut_back(path, ROWS, 3, expect_round=3)
    assert str(caught.value).startswith(f"{path} {why}")
    assert content is None or path.read_bytes() == content
    assert cut_back(tmp_path / "other.bin", ROWS, 3) == 0


# The thread


class Gate:
    """Holds whoever brings something to the disk until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self.synced: list[str] = []
        original = os.fsync

        def fsync(file: int) -> None:
            self.synced.append(Path(os.readlink(f"/proc/self/fd/{file}")).name)
            self.reached.set()
            assert self.open.wait(60)
            original(file)

        monkeypatch.setattr(os, "fsync", fsync)


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    with folder_of(tmp_path) as folder:
        folder.begin("run-1")
        yield folder


def submit(writer: Writer, number: int, *also: Any) -> None:
    header, *buffers = encode_snapshot([number, np.full(5000, float(number))])
    writer.submit(number, header, buffers, also)


def test_a_snapshot_is_told_when_it_is_on_the_disk(
    folder: CheckpointFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    writer = Writer(folder)
    assert (writer.busy, writer.finished()) == (False, [])
    with (tmp_path / "records.bin").open("wb") as records, (tmp_path / "times.bin").open("wb") as times:
        records.write(b"rows")
        submit(writer, 1, records, times.fileno())
        assert gate.reached.wait(60)
        assert (writer.busy, writer.finished(), saved_rounds(folder)) == (True, [], [])
        assert (tmp_path / "records.bin").read_bytes() == b"rows"  # its buffer was written before
        gate.open.set()
        assert writer.wait() == [1]
        assert (writer.busy, writer.finished(), saved_rounds(folder)) == (False, [], [1])
        assert gate.synced == ["records.bin", "times.bin", "snapshot-0000000000000001.drom.part", "node"]
        submit(writer, 2)
        submit(writer, 3)  # waits for the other
        assert writer.close() == [2, 3]
    assert writer.close() == []
    loaded = folder.load(CLASSES)
    assert loaded is not None
    assert loaded.round == 3
    with pytest.raises(AssertionError, match="closed"):
        submit(writer, 4)


@pytest.mark.parametrize("end", [Writer.wait, Writer.close])
def test_what_fails_in_the_thread_is_raised_once_where_it_is_asked_for(
    folder: CheckpointFolder, monkeypatch: pytest.MonkeyPatch, end: Callable[[Writer], list[int]]
) -> None:
    writer = Writer(folder)
    submit(writer, 1)
    submit(writer, 2)
    writer._idle.wait()
    with monkeypatch.context() as broken:
        break_disk(broken, "full", calls_before=1)
        submit(writer, 3)
        submit(writer, 4)
        writer._idle.wait()
    submit(writer, 5)
    with pytest.raises(OSError, match="No space left") as caught:
        end(writer)
    assert caught.value.filename == str(folder.path / "snapshot-0000000000000003.drom")
    assert end(writer) == [1, 2, 5]
    assert saved_rounds(folder) == [2, 5]
    assert not list(folder.path.glob("*.part"))
    writer.close()


def test_rows_that_do_not_reach_the_disk_keep_the_snapshot_from_it(
    folder: CheckpointFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(folder)
    with (tmp_path / "records.bin").open("wb") as records:
        break_disk(monkeypatch, "failing")
        submit(writer, 1, records)
        with pytest.raises(OSError, match="Input/output error") as caught:
            writer.wait()
    assert caught.value.filename == str(tmp_path / "records.bin")
    assert saved_rounds(folder) == []
    assert writer.close() == []


def test_a_vanished_folder_is_named(folder: CheckpointFolder) -> None:
    writer = Writer(folder)
    for path in folder.path.iterdir():
        path.unlink()
    folder.path.rmdir()
    submit(writer, 1)
    with pytest.raises(FileNotFoundError) as caught:
        writer.close()
    assert caught.value.filename == str(folder.path / "snapshot-0000000000000001.drom")
