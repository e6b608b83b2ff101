"""Running standardisation: by the rows before alone, and the same bits however the rows come."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from drom_net.algorithms.features import Matrix, Vector
from drom_net.data.scaling import CLIP, RunningScaling

NUMBERS = st.one_of(
    st.floats(-1e100, 1e100),
    st.sampled_from([0.0, 1.0, -0.0, 0.1, 1e9, 1e9 + 1e-3, 1e-300, 1e100, math.nan, math.nan]),
)
TABLES = st.integers(1, 3).flatmap(
    lambda width: st.integers(0, 40).flatmap(lambda rows: arrays(np.float64, (rows, width), elements=NUMBERS))
)


def by_blocks(rows: Matrix, sizes: list[int]) -> tuple[Matrix, Vector]:
    """The rows given so many at a time, and the state they leave."""
    scaling = RunningScaling(rows.shape[1])
    parts, start = [np.zeros((0, rows.shape[1]))], 0
    for size in [*sizes, len(rows)]:
        parts.append(scaling.take(rows[start : start + size]))
        start += size
    return np.concatenate(parts), scaling.state


def plainly(rows: Matrix) -> Matrix:
    """Each number by the mean and deviation of those before it in its column, in exact arithmetic."""
    result = np.zeros(rows.shape)
    for column in range(rows.shape[1]):
        before: list[Fraction] = []
        for row, number in enumerate(rows[:, column].tolist()):
            if math.isnan(number):
                continue
            if before:
                mean = sum(before) / len(before)
                variance = sum((other - mean) ** 2 for other in before) / len(before)
                if variance:
                    exact = (Fraction(number) - mean) / Fraction(math.sqrt(variance))
                    result[row, column] = min(CLIP, max(-CLIP, float(exact)))
            before.append(Fraction(number))
    return result


def same_bits(one: Any, other: Any) -> None:
    assert one.tobytes() == other.tobytes()


@given(TABLES, st.lists(st.integers(0, 9), max_size=12))
def test_blocks_of_any_sizes_give_the_same_bits_as_row_by_row(rows: Matrix, sizes: list[int]) -> None:
    before = rows.copy()
    at_once, state = by_blocks(rows, [])
    in_blocks, state_of_blocks = by_blocks(rows, sizes)
    one_by_one, state_of_rows = by_blocks(rows, [1] * len(rows))
    same_bits(in_blocks, at_once)
    same_bits(one_by_one, at_once)
    same_bits(state_of_blocks, state)
    same_bits(state_of_rows, state)
    same_bits(rows, before)
    assert np.isfinite(at_once).all() and (np.abs(at_once) <= CLIP).all()


@pytest.mark.parametrize("sizes", [[1] * 5000, [1024, 1, 1023, 2000], [1500, 1500], [3, 1020, 1, 1, 1]])
def test_long_streams_in_blocks_give_the_same_bits(sizes: list[int]) -> None:
    """Over the ends of spans, behind rows 1, 2, 4, .. 1024, 2048, 3072."""
    rng = np.random.default_rng(5)
    rows = rng.normal([1e9, -3.0, 0.0], [1e-2, 1e5, 1.0], (5000, 3)).cumsum(axis=0) / 100
    rows[rng.random(rows.shape) < 0.05] = np.nan
    at_once, state = by_blocks(rows, [])
    in_blocks, other = by_blocks(rows, sizes)
    same_bits(in_blocks, at_once)
    same_bits(other, state)


@given(arrays(np.float64, (12, 2), elements=st.sampled_from([math.nan, 0.1, -7.0, 3.25, 1e5, 1e-5])))
def test_each_row_is_standardised_by_those_before_it(rows: Matrix) -> None:
    np.testing.assert_allclose(by_blocks(rows, [])[0], plainly(rows), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("mean", "deviation"), [(1e9, 1e-3), (1e9, 1.0), (-1e12, 1.0), (1e60, 1e50)])
def test_large_numbers_lose_no_digits(mean: float, deviation: float) -> None:
    """1e9 with small deviations is as exact as float64 holds such numbers: sums of squares would have nothing left."""
    rows = mean + deviation * np.random.default_rng(1).standard_normal((120, 2))
    spacing = float(np.spacing(abs(mean))) / deviation
    np.testing.assert_allclose(by_blocks(rows, [])[0], plainly(rows), rtol=1e-9 + 16 * spacing, atol=16 * spacing)


def test_digits_are_not_lost_where_the_first_number_is_far_off() -> None:
    rows = np.random.default_rng(2).standard_normal((120, 1)) * 1e-3 + 5.0
    rows[0] = 1e6
    np.testing.assert_allclose(by_blocks(rows, [])[0], plainly(rows), rtol=1e-9)


def test_what_has_not_differed_yet_is_zero_and_is_not_infinite_later() -> None:
    rows = np.array([[0.1, math.nan], [0.1, math.nan], [0.1, 4.0], [0.3, 4.0], [0.1, 5.0], [math.nan, 6.0]])
    found, _ = by_blocks(rows, [])
    assert not found[:4, 0].any(), "equal numbers have no deviation, and what follows them is no outlier"
    assert not found[:5, 1].any()
    assert found[4, 0] < 0 and found[5, 0] == 0.0 and 0 < found[5, 1] <= CLIP


def test_a_wild_number_moves_a_row_only_so_far() -> None:
    rows = np.array([[0.0], [1.0], [1e90], [-1e100]])
    assert by_blocks(rows, [])[0].ravel().tolist()[:3] == [0.0, 0.0, CLIP]
    assert by_blocks(rows, [])[0][3, 0] == -CLIP


def test_looking_at_a_row_leaves_no_trace() -> None:
    rows = np.random.default_rng(3).standard_normal((50, 2))
    scaling = RunningScaling(2)
    for row in rows:
        before = scaling.state
        looked = scaling.look(row)
        same_bits(scaling.look(row), looked)
        same_bits(scaling.state, before)
        same_bits(scaling.take(row[np.newaxis, :])[0], looked)


@pytest.mark.parametrize("at", [0, 1, 2, 700, 1024, 1500, 2048])
def test_a_state_goes_on_with_the_same_bits(at: int) -> None:
    rows = np.random.default_rng(4).standard_normal((2100, 2)) * [1.0, 1e9]
    rows[::7, 1] = np.nan
    whole, last = by_blocks(rows, [])
    first = RunningScaling(2)
    first.take(rows[:at])
    kept = first.state
    first.take(rows[at:])
    again = RunningScaling(2, kept)
    same_bits(again.take(rows[at:]), whole[at:])
    same_bits(again.state, last)


def test_a_state_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a state of 13 numbers, got shape \(7,\)"):
        RunningScaling(2, RunningScaling(1).state)


def test_tables_without_numbers() -> None:
    assert RunningScaling(0).take(np.zeros((5, 0))).shape == (5, 0)


@pytest.mark.parametrize("seen", [0, 1, 2, 5, 1023, 1500])
def test_rows_looked_at_are_what_each_would_be_next(seen: int) -> None:
    """Bit for bit, with missing numbers, a column that never changes and one that was never there."""
    rng = np.random.default_rng(seen)
    rows = 1e3 + rng.standard_normal((seen + 40, 5))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    rows[:, 3] = 7.0
    rows[:seen, 4] = np.nan
    scaling = RunningScaling(5)
    scaling.take(rows[:seen])
    before = scaling.state
    found = scaling.look(rows[seen:])
    assert scaling.state.tobytes() == before.tobytes()
    each = [RunningScaling(5, before).take(row[np.newaxis, :])[0] for row in rows[seen:]]
    assert np.array_equal(found, np.array(each))
