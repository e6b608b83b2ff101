"""Sums of integers: the same bits in any order and by any tree; nothing wraps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drom_net.algorithms.base import IDLE, Contribution, ContributionKind, ReplyKind
from drom_net.algorithms.features import (
    MOST_OF_SUM,
    MOST_OF_SUMMAND,
    Block,
    Integers,
    SparseVectors,
    Sums,
    bounded,
    other_than,
)
from drom_net.algorithms.sums import (
    MOST_SITES,
    SumsCentral,
    add_up,
    along_tree,
    block_of,
    init_sums,
    to_floats,
    to_integers,
    trimmed,
    with_extremes,
)
from drom_net.core.errors import LearnerError

LAYOUT = (Integers(2), Integers(3))
DIM = 4
summands = st.lists(st.integers(-MOST_OF_SUMMAND, MOST_OF_SUMMAND), min_size=DIM, max_size=DIM)


def made(m: int) -> SumsCentral:
    return init_sums(LAYOUT)(tuple(range(m)), DIM, np.random.default_rng(0))


def said(*blocks: Block) -> Contribution:
    return Contribution(ContributionKind.VECTORS, blocks)


def some(seed: int) -> Contribution:
    rng = np.random.default_rng(seed)
    return said(*(rng.integers(-MOST_OF_SUMMAND, MOST_OF_SUMMAND, (rows, DIM)) for rows in LAYOUT))


@given(st.lists(summands, min_size=2, max_size=12), st.randoms())
def test_any_order_and_any_tree_gives_the_same_bits(rows: list[list[int]], draw: object) -> None:
    left = [np.array(row, dtype=np.int64) for row in rows]
    straight = sum(left[1:], start=left[0]).tobytes()
    while len(left) > 1:
        draw.shuffle(left)  # type: ignore[attr-defined]
        left.append(left.pop() + left.pop())
    assert left[0].tobytes() == straight


@given(st.permutations(range(6)))
def test_the_order_in_which_summands_arrive_changes_no_bit(order: list[int]) -> None:
    together, one_by_one = made(6), made(6)
    together, _, _ = add_up(together, {task: some(task) for task in range(6)})
    for task in order:
        one_by_one, _, _ = add_up(one_by_one, {task: some(100 + task)})
    for task in reversed(order):
        one_by_one, _, _ = add_up(one_by_one, {task: some(task)})
    for ours, theirs in zip(together.totals, one_by_one.totals, strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_a_summand_takes_the_place_of_the_one_before_sparse_or_not() -> None:
    state = made(2)
    first = np.arange(8).reshape(2, 4), np.ones((3, 4), dtype=np.int64)
    news = block_of(np.array([1, 3]), np.array([[10, 30], [50, 70]]), DIM)
    laid_out = block_of(np.array([0, 11]), np.array([[5, 6]]), 3 * DIM)
    state, replies, _ = add_up(state, {0: said(*first), 1: IDLE})
    assert [block.tolist() for block in replies[1].vectors] == [block.tolist() for block in first]
    state, replies, _ = add_up(state, {0: said(news, laid_out), 1: IDLE})
    assert state.totals[0].tolist() == [[0, 10, 2, 30], [4, 50, 6, 70]]
    assert state.totals[1].tolist() == [[5, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 6]]
    sums, laid = replies[1].vectors
    assert isinstance(laid, SparseVectors) and (laid.indices.tolist(), laid.values.tolist()) == ([0, 11], [[5, 6]])
    assert sums.indices.tolist() == [1, 3] and sums.values.tolist() == [[10, 30], [50, 70]]
    state, replies, _ = add_up(state, {0: IDLE, 1: IDLE})
    assert [reply.kind for reply in replies.values()] == [ReplyKind.KEEP] * 2


@pytest.mark.parametrize("length", [DIM, 2 * DIM])
def test_blocks_of_other_shapes_and_the_same_size_are_added_alike(length: int) -> None:
    """A site chooses how it lays its vectors out; others must be able to read the totals."""
    state = made(1)
    rows = 2 * DIM // length
    odd = SparseVectors(np.array([1]), np.full((rows, 1), 7), length)
    state, replies, _ = add_up(state, {0: said(odd, np.zeros((3, DIM), dtype=np.int64))})
    assert state.totals[0].sum() == 7 * rows
    assert other_than(LAYOUT, replies[0].vectors, DIM) == ""


def test_the_most_sites_with_the_most_cannot_wrap() -> None:
    assert MOST_SITES * MOST_OF_SUMMAND <= MOST_OF_SUM
    full = np.full((MOST_SITES, 1), MOST_OF_SUMMAND)
    assert int(full.sum()) == MOST_SITES * MOST_OF_SUMMAND
    with pytest.raises(LearnerError, match="expected at most 4096 sites, got 4097"):
        init_sums(LAYOUT)(tuple(range(MOST_SITES + 1)), 1, np.random.default_rng(0))


def test_a_value_beyond_the_range_is_clipped_and_counted() -> None:
    values = np.array([1.5, -0.25, 1e300, -1e300, np.inf, np.nan, 2.0**23])
    integers, clipped = to_integers(values, 28)
    assert clipped == 5
    assert integers[:2].tolist() == [3 * 2**27, -(2**26)]
    assert integers[2:].tolist() == [MOST_OF_SUMMAND, -MOST_OF_SUMMAND, MOST_OF_SUMMAND, 0, MOST_OF_SUMMAND]
    assert to_floats(integers[:2], 28).tolist() == [1.5, -0.25]


@given(st.lists(st.floats(-(2.0**17), 2.0**17), min_size=1, max_size=20))
def test_integers_stand_for_their_values(values: list[float]) -> None:
    found, clipped = to_integers(np.array(values), 33)
    assert clipped == 0
    np.testing.assert_allclose(to_floats(found, 33), values, rtol=0.0, atol=2.0**-34)


def test_a_summand_that_lies_is_brought_within_the_range() -> None:
    """Of a driver that asks nobody whether it may be."""
    state = made(2)
    high, low = np.array([[MOST_OF_SUM, 5]] * 2), np.array([[np.iinfo(np.int64).min]] * 3)
    lie = SparseVectors(np.array([0, 1]), high, DIM), SparseVectors(np.array([2]), low, DIM)
    assert bounded(lie[0], 1e30) is lie[0]
    state, _, _ = add_up(state, {0: said(*lie)})
    assert state.totals[0].tolist() == [[MOST_OF_SUMMAND, 5, 0, 0]] * 2
    assert state.totals[1].tolist() == [[0, 0, -MOST_OF_SUMMAND, 0]] * 3


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_node_refuses_more_than_a_summand_and_a_peer_more_than_a_sum(sign: int) -> None:
    summand, total = np.array([[sign * MOST_OF_SUMMAND]]), np.array([[sign * MOST_OF_SUM]])
    assert other_than((Integers(1),), [summand], 1) == other_than((Sums(1),), [total], 1) == ""
    assert other_than((Integers(1),), [summand + sign], 1) == f"vectors with integers beyond {MOST_OF_SUMMAND}"


pairs = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 3)), min_size=2, max_size=9)


@given(pairs, st.randoms())
def test_the_largest_and_the_smallest_are_the_same_by_any_tree(found: list[tuple[int, int]], draw: object) -> None:
    left = [with_extremes(np.array([[[g], [q]]])) for g, q in found]
    six = [[sum(g for g, _ in found), sum(q for _, q in found)], max(found), min(found)]
    while len(left) > 1:
        draw.shuffle(left)  # type: ignore[attr-defined]
        left.append(with_extremes(np.stack([left.pop() for _ in range(min(3, len(left)))])))
    assert left[0].ravel().tolist() == [number for pair in six for number in pair]
    g, q = trimmed(left[0]).ravel().tolist()
    kept = sorted(found)[1:-1]
    assert (g, q) == (sum(g for g, _ in kept), sum(q for _, q in kept)) and q >= 0


def test_sums_are_trimmed_from_six_sites_on_and_without_what_cannot_be() -> None:
    for m in (5, 6):
        state = made(m)
        news = {task: said(np.full((2, DIM), 2**task), np.ones((3, DIM), dtype=np.int64)) for task in range(m)}
        state, replies, _ = add_up(state, news, admits=lambda summand: int(summand[0].max()) < 64)
        wanted = {5: 1 + 2 + 4 + 8 + 16, 6: 2 + 4 + 8 + 16}[m]
        assert replies[0].vectors[0].tolist() == [[wanted] * DIM] * 2
        assert replies[0].vectors[1].tolist() == [[m] * DIM] * 3
        lie = said(SparseVectors(np.array([1]), np.array([[64], [0]]), DIM), np.zeros((3, DIM), dtype=np.int64))
        state, replies, _ = add_up(state, {0: lie, 1: news[1]}, admits=lambda summand: int(summand[0].max()) < 64)
        assert replies[0].vectors[0].tolist() == [[wanted] * DIM] * 2
        assert replies[0].vectors[1].tolist() == [[m] * DIM] * 3


@pytest.mark.slow
@pytest.mark.parametrize("robust", [False, True])
@given(rows=st.lists(summands, min_size=7, max_size=7))
def test_along_a_tree_everybody_comes_to_the_sum_of_all(rows: list[list[int]], robust: bool) -> None:
    """Also where all have the most that there may be, and whatever came before."""
    ways = {0: (1, 2), 1: (0, 3, 4), 2: (0,), 3: (1,), 4: (1, 5, 6), 5: (4,), 6: (4,)}
    hoods = {task: tuple(sorted((task, *others))) for task, others in ways.items()}
    steps = {task: along_tree(task, hoods[task], ways[task]) for task in ways}
    layout = (Sums(6), LAYOUT[1]) if robust else LAYOUT
    states = {task: init_sums(layout)(hoods[task], DIM, np.random.default_rng(0)) for task in ways}
    mine = {task: [np.array([row] * count) for count in layout] for task, row in enumerate(rows)}
    relays = {
        (task, other): [np.zeros((count, DIM), dtype=np.int64) for count in layout]
        for task in ways
        for other in ways[task]
    }
    for _ in range(5):  # the longest way has four edges
        told = {}
        for (task, other), relay in relays.items():
            sums, sketch = (np.add(*both) for both in zip(mine[task], relay, strict=True))
            if robust:
                parts = [mine[task][0], relay[0]] if len(ways[task]) > 1 else [mine[task][0]]
                sums = with_extremes(np.stack(parts))
            told[task, other] = said(sums, sketch)
        for task in ways:
            heard = {other: told[other, task] for other in ways[task]} | {task: said(*mine[task])}
            states[task], replies, _ = steps[task](states[task], heard, None)
            for place, (block, count) in enumerate(zip(replies[task].vectors[len(layout) :], layout, strict=True)):
                for other, part in zip(ways[task], block.reshape(-1, count, DIM), strict=True):
                    relays[task, other][place] = part
    ordered = np.sort(rows, axis=0)
    for task in ways:
        _, replies, _ = steps[task](states[task], {task: said(*mine[task])}, None)
        sums, sketch = replies[task].vectors[: len(layout)]
        assert sketch.tolist() == [np.sum(rows, axis=0).tolist()] * LAYOUT[1]
        assert sums[:2].tolist() == [np.sum(rows, axis=0).tolist()] * 2
        if robust:
            assert trimmed(sums).tolist() == [ordered[1:-1].sum(axis=0).tolist()] * 2


@pytest.mark.parametrize("n", [1, 2, 5])
def test_neighbors_that_lie_let_no_sum_wrap(n: int) -> None:
    hood = tuple(range(n + 1))
    state = init_sums(LAYOUT)(hood, DIM, np.random.default_rng(0))
    lies = {task: said(*[np.full((rows, DIM), MOST_OF_SUM) for rows in LAYOUT]) for task in hood}
    state, replies, _ = along_tree(0, hood, hood[1:])(state, lies, None)
    for total, relay, rows in zip(state.totals, replies[0].vectors[len(LAYOUT) :], LAYOUT, strict=True):
        assert (total > MOST_OF_SUM // 2).all()
        assert ((relay > 0) if n > 1 else (relay == 0)).all()
        assert (relay.reshape(n, rows, DIM) + state.summands[0][0, 0, 0] > 0).all()


def test_integers_and_floats_are_told_apart() -> None:
    ints, floats = np.zeros((2, DIM), dtype=np.int64), np.zeros((2, DIM))
    assert other_than((Integers(2),), [ints], DIM) == other_than((2,), [floats], DIM) == ""
    assert other_than((Integers(2),), [floats], DIM) == "vectors of float64; expected int64"
    assert other_than((2,), [ints], DIM) == "vectors of int64; expected float64"


def test_blocks_are_for_learners_that_send_them() -> None:
    sparse, matrix, vector = SparseVectors(np.array([1]), np.ones((1, 1)), DIM), np.ones((1, DIM)), np.ones(DIM)
    for block in (sparse, matrix):
        assert other_than((1,), [block], DIM) == "blocks; expected plain vectors"
    assert other_than((1,), [vector], DIM) == ""
    assert other_than((1, 1), [vector], DIM) == "1 vectors; expected 2"
    assert (
        other_than((3,), [np.ones((3, DIM))], DIM)
        == other_than((3,), [sparse._replace(values=np.ones((3, 1)))], DIM)
        == ""
    )
    assert other_than((3,), [vector] * 3, DIM) == "3 vectors in blocks of [1, 1, 1]; expected [3]"
