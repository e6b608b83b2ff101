"""From examples to streams: order, label noise, and arrays on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drom_net.algorithms.features import SparseVector
from drom_net.data.dataset import TaskData
from drom_net.data.prepare import make_stream
from drom_net.data.settings import DigitsSites
from drom_net.data.stream import SparseRows, TaskStream

ROWS = np.arange(40.0).reshape(20, 2)
LABELS = np.where(np.arange(20) % 3 == 0, 1.0, -1.0)
DENSE = TaskData("a", ROWS, LABELS)
# Row r has r % 4 entries.
LENGTHS = np.arange(20) % 4
SPARSE = TaskData(
    "a",
    SparseRows(
        np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int64),
        np.concatenate([np.arange(length) for length in LENGTHS]).astype(np.int32),
        np.arange(float(LENGTHS.sum())),
        4,
    ),
    LABELS,
)


def same(one: object, other: object) -> bool:
    if isinstance(one, SparseVector) and isinstance(other, SparseVector):
        return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    return bool(np.array_equal(one, other))


def test_the_order_of_the_data() -> None:
    stream = make_stream(DENSE, DigitsSites(shuffle=False), seed=1, index=0, spread_over=None)
    np.testing.assert_array_equal(stream.rows, ROWS)
    np.testing.assert_array_equal(stream.labels, LABELS)
    assert not np.shares_memory(stream.rows, ROWS)
    assert not np.shares_memory(stream.labels, LABELS)


@pytest.mark.parametrize("task", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_shuffled_rows_keep_their_labels(task: TaskData) -> None:
    plain = make_stream(task, DigitsSites(shuffle=False), seed=1, index=0, spread_over=None)
    stream = make_stream(task, DigitsSites(), seed=1, index=0, spread_over=None)
    left = list(range(20))
    order = []
    for index in range(20):
        origin = next(
            row
            for row in left
            if same(stream.features(index), plain.features(row)) and stream.labels[index] == plain.labels[row]
        )
        left.remove(origin)
        order.append(origin)
    assert order != sorted(order) and not left
    other_task = make_stream(task, DigitsSites(), seed=1, index=1, spread_over=None)
    other_seed = make_stream(task, DigitsSites(), seed=2, index=0, spread_over=None)
    again = make_stream(task, DigitsSites(), seed=1, index=0, spread_over=None)
    assert not np.array_equal(other_task.labels, stream.labels)
    assert not np.array_equal(other_seed.labels, stream.labels)
    assert all(same(stream.features(index), again.features(index)) for index in range(20))
    if isinstance(stream.rows, SparseRows):
        assert (stream.rows.indptr.dtype, stream.rows.indices.dtype) == (np.int64, np.int32)
    else:
        assert stream.rows.flags.c_contiguous


def test_the_same_examples_are_flipped_whatever_the_order() -> None:
    plain = make_stream(DENSE, DigitsSites(shuffle=False, flip=0.4), seed=5, index=2, spread_over=None)
    mixed = make_stream(DENSE, DigitsSites(shuffle=True, flip=0.4), seed=5, index=2, spread_over=None)
    flipped = {float(row[0]) for row in np.asarray(plain.rows)[plain.labels != plain.clean]}
    assert 0 < len(flipped) < 20
    assert flipped == {float(row[0]) for row in np.asarray(mixed.rows)[mixed.labels != mixed.clean]}
    np.testing.assert_array_equal(plain.clean, LABELS)


def test_flip_none_and_all() -> None:
    never = make_stream(DENSE, DigitsSites(flip=0.0), seed=0, index=0, spread_over=None)
    always = make_stream(DENSE, DigitsSites(flip=1.0), seed=0, index=0, spread_over=None)
    np.testing.assert_array_equal(never.labels, never.clean)
    np.testing.assert_array_equal(always.labels, -always.clean)


def test_share_of_flipped_labels() -> None:
    many = TaskData("a", np.zeros((20_000, 1)), np.ones(20_000))
    stream = make_stream(many, DigitsSites(flip=0.2), seed=7, index=0, spread_over=None)
    assert abs(np.mean(stream.labels != stream.clean) - 0.2) < 0.015  # five deviations


@pytest.mark.parametrize("task", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("num_rows", [20, 1, 0])
def test_save_and_load(tmp_path: Path, task: TaskData, num_rows: int) -> None:
    if isinstance(task.rows, SparseRows):
        task = TaskData("a", task.rows.take(np.arange(num_rows)), task.labels[:num_rows])
    else:
        task = TaskData("a", task.rows[:num_rows], task.labels[:num_rows])
    stream = make_stream(task, DigitsSites(flip=0.5), seed=1, index=0, spread_over=30)
    stream.save(tmp_path / "stream")
    loaded = TaskStream.load(tmp_path / "stream", spread_over=30)
    assert loaded.num_examples == num_rows and loaded.dim == stream.dim
    assert loaded.last_round() == (30 if num_rows else 0)
    np.testing.assert_array_equal(loaded.labels, stream.labels)
    np.testing.assert_array_equal(loaded.clean, stream.clean)
    for index in range(num_rows):
        assert same(loaded.features(index), stream.features(index))
    for array in (loaded.labels, loaded.clean):
        assert not array.flags.writeable or not array.size


def test_rounds_of_a_spread_stream() -> None:
    stream = TaskStream(ROWS[:3], LABELS[:3], LABELS[:3], spread_over=7)
    assert [stream.index_at(t) for t in range(1, 9)] == [None, None, 0, None, 1, None, 2, None]
    assert stream.last_round() == 7
    lockstep = TaskStream(ROWS[:3], LABELS[:3], LABELS[:3])
    assert [lockstep.index_at(t) for t in range(1, 6)] == [0, 1, 2, None, None]
    assert lockstep.last_round() == 3


def test_the_rows_come_again_in_each_pass_and_are_kept_once(tmp_path: Path) -> None:
    once = make_stream(DENSE, DigitsSites(flip=0.4), seed=3, index=1)
    thrice = make_stream(DENSE, DigitsSites(flip=0.4, passes=3), seed=3, index=1)
    thrice.save(tmp_path / "stream")
    for stream in (thrice, TaskStream.load(tmp_path / "stream")):
        assert (stream.num_examples, stream.last_round(), len(stream.rows), stream.passes) == (60, 60, 20, 3)  # type: ignore[arg-type]
        assert [stream.index_at(t) for t in range(1, 62)] == [*range(20)] * 3 + [None]
        np.testing.assert_array_equal(stream.rows, once.rows)
        np.testing.assert_array_equal(stream.labels, once.labels)


@pytest.mark.parametrize("rounds", [9, 6, 4, 20])
def test_all_passes_of_a_spread_stream_are_dealt_over_the_rounds(rounds: int) -> None:
    """As a stream that has its rows written out so many times."""
    stream = TaskStream(ROWS[:3], LABELS[:3], LABELS[:3], rounds, passes=2)
    written_out = TaskStream(np.tile(ROWS[:3], (2, 1)), np.tile(LABELS[:3], 2), np.tile(LABELS[:3], 2), rounds)
    expected = [written_out.index_at(t) for t in range(1, rounds + 2)]
    assert [stream.index_at(t) for t in range(1, rounds + 2)] == [None if i is None else i % 3 for i in expected]
    assert stream.last_round() == written_out.last_round() == rounds
    assert stream.num_examples == 6


def test_an_empty_stream_has_no_pass() -> None:
    for spread_over in (None, 5):
        stream = TaskStream(ROWS[:0], LABELS[:0], LABELS[:0], spread_over, passes=4)
        assert [stream.index_at(t) for t in (1, 2, 5)] == [None] * 3
        assert stream.last_round() == 0
