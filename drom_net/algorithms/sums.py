"""Sums over sites that are exact: numbers are rounded to integers before they are added.

So a sum has the same bits in any order of its summands, and by any tree of partial sums. A summand is what a site has
come to in all, and takes the place of the one that it sent before: nothing counts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.base import KEEP, CentralInfo, CentralStep, Contribution, ContributionKind, Reply, ReplyKind
from drom_net.algorithms.features import (
    MOST_OF_SUM,
    MOST_OF_SUMMAND,
    Block,
    Matrix,
    SparseVectors,
    numbers,
    within,
)
from drom_net.core.errors import LearnerError

Whole = npt.NDArray[np.int64]
MOST_SITES = (MOST_OF_SUM + 1) // (MOST_OF_SUMMAND + 1)
"""The sum over so many sites cannot wrap."""
TRIMMED_FROM = 6
"""Tasks. Of four, two would be left."""
WITH_EXTREMES = 6


def to_integers(values: npt.NDArray[np.float64], bits: Any) -> tuple[Whole, int]:
    """(values times 2^bits, rounded to int64; how many were NaN or beyond `MOST_OF_SUMMAND`, and were clipped).

    Args:
        bits: An int, or an array of ints that goes with the values.
    """
    scale = np.ldexp(1.0, bits)
    most = MOST_OF_SUMMAND / scale
    kept = np.maximum(np.minimum(values, most), -most)
    clipped = int(np.count_nonzero(kept != values))
    if clipped:
        kept = np.nan_to_num(kept)
    kept *= scale
    return np.rint(kept, out=kept).astype(np.int64), clipped


def to_floats(integers: Whole, bits: Any) -> Matrix:
    """The values that they stand for.

    Args:
        bits: As for `to_integers`.
    """
    result: Matrix = integers * np.ldexp(1.0, -bits)
    return result


def some_or_all(there: npt.NDArray[np.bool_], rows: int) -> Any:
    """Where it is true, as an index of so many vectors; all where that takes fewer bytes to send."""
    at = np.flatnonzero(there)
    return at if len(at) * (8 * rows + 4) < 8 * rows * len(there) else slice(None)


def block_of(at: Any, values: Whole, length: int) -> Block:
    """Vectors of this length that hold these values at these places, as `some_or_all` gives them; values (r, k)."""
    found: Any = values
    return found if isinstance(at, slice) else SparseVectors(at, found, length)


def nothing(rows: int, length: int) -> Block:
    """Vectors of this length of which nothing is new."""
    return block_of(np.zeros(0, dtype=np.intp), np.zeros((rows, 0), dtype=np.int64), length)


@dataclass(slots=True)
class SumsCentral:
    """What a centre knows that adds. Of each block of a contribution:"""

    row_of: dict[int, int]
    summands: tuple[Whole, ...]
    """The summand of each task, shape (m, r, d)."""
    totals: tuple[Whole, ...]
    """Their sum, shape (r, d)."""
    behind: set[int]
    """Rows of tasks that have missed a reply: the next one has all."""
    round: int = 0
    """The last sync round, where somebody asks for it."""


def init_sums(layout: Sequence[int]) -> Callable[[tuple[int, ...], int, np.random.Generator], SumsCentral]:
    """`Algorithm.init_central` of one whose contributions are summands in blocks of so many vectors."""

    def init_central(tasks: tuple[int, ...], dim: int, rng: np.random.Generator) -> SumsCentral:
        if len(tasks) > MOST_SITES:
            raise LearnerError(f"sums over sites: expected at most {MOST_SITES} sites, got {len(tasks)}")
        return SumsCentral(
            {task: row for row, task in enumerate(tasks)},
            tuple([np.zeros((len(tasks), rows, dim), dtype=np.int64) for rows in layout]),
            tuple([np.zeros((rows, dim), dtype=np.int64) for rows in layout]),
            set(),
        )

    return init_central


def add_up(
    state: SumsCentral,
    contributions: Mapping[int, Contribution],
    members: Sequence[int] | None = None,
    *,
    only: int | None = None,
    most: int = MOST_OF_SUMMAND,
    admits: Callable[[Sequence[Whole]], bool] | None = None,
) -> tuple[SumsCentral, dict[int, Reply], CentralInfo]:
    """`Algorithm.central_step` that answers with the totals, where they have changed.

    Args:
        only: The task that is answered; None is all.
        most: What a contribution may add; what is beyond is cut, so that nothing wraps.
        admits: Whether a summand, in blocks of shape (r, d), may be true; else the one before stands. With it the first
            block is trimmed, as `trimmed`, where there are `TRIMMED_FROM` tasks.
    """
    news = {
        state.row_of[task]: contribution.vectors
        for task, contribution in contributions.items()
        if contribution.kind is ContributionKind.VECTORS
    }
    for row, blocks in list(news.items()):
        if admits is not None:
            before = [summands[row].copy() for summands in state.summands]
        for summands, total, block in zip(state.summands, state.totals, blocks, strict=True):
            _put(summands[row], total, block, most)
        if admits is not None and not admits([summands[row] for summands in state.summands]):
            del news[row]
            for summands, total, summand in zip(state.summands, state.totals, before, strict=True):
                _put(summands[row], total, summand, most)
    if admits is not None and len(state.row_of) >= TRIMMED_FROM and news:
        state.totals = trimmed(with_extremes(state.summands[0])), *state.totals[1:]
    changed = _changed(state.totals, list(news.values()))
    told = [task for task in sorted(contributions) if only in (None, task)]
    rows, replies, whole = {state.row_of[task] for task in told}, dict.fromkeys(sorted(contributions), KEEP), changed
    if state.behind & rows:
        whole = tuple([block_of(slice(None), total.copy(), 0) for total in state.totals])
    for task in told:
        blocks = whole if state.row_of[task] in state.behind else changed
        replies[task] = Reply(ReplyKind.VECTORS, blocks) if blocks else KEEP
    state.behind = set(range(len(state.row_of))) - rows if news else state.behind - rows
    return state, replies, CentralInfo()


def with_extremes(pairs: Whole) -> Whole:
    """Of pairs (g, q), shape (n, 2, d), the sum, the largest and the smallest, shape (6, d); g counts first.

    Pairs may also be the six of some of them each, shape (n, 6, d): so it is the same by any tree.
    """
    high, low = (pairs[:, 2:4], pairs[:, 4:6]) if pairs.shape[1] > 2 else (pairs, pairs)
    return np.concatenate((pairs[:, :2].sum(axis=0), _largest(high), -_largest(-low)))


def _largest(pairs: Whole) -> Whole:
    """Shape (2, d)."""
    top = pairs[:, 0].max(axis=0)
    return np.stack((top, np.where(pairs[:, 0] == top, pairs[:, 1], -MOST_OF_SUM).max(axis=0)))


def trimmed(six: Whole) -> Whole:
    """The sum of pairs without the largest and the smallest, shape (2, d)."""
    result: Whole = six[:2] - six[2:4] - six[4:]
    return result


def along_tree(own: int, neighborhood: Sequence[int], tree: Sequence[int]) -> CentralStep:
    """The central step of a peer to whom each neighbor along a tree tells the sum of everything behind it.

    Its reply has, behind the totals, what others have sent that such a neighbor does not know, by neighbor: as sums are
    exact, the total without the neighbor's part and its own.

    A first block of six vectors is `with_extremes` of all behind; the rest is by sums alone.

    Args:
        neighborhood: Its closed neighborhood, ascending.
    """
    most = MOST_OF_SUM // (len(tree) + 1)
    at, others = neighborhood.index(own), [neighborhood.index(task) for task in tree]

    def central_step(
        state: SumsCentral, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
    ) -> tuple[SumsCentral, dict[int, Reply], CentralInfo]:
        state, replies, info = add_up(state, contributions, only=own, most=most)
        if replies.get(own, KEEP).kind is ReplyKind.VECTORS:
            totals, relays = zip(*map(parts, state.summands), strict=True)
            replies[own] = Reply(ReplyKind.VECTORS, (*totals, *relays))
        return state, replies, info

    def parts(summands: Whole) -> tuple[Whole, Whole]:
        """(all together, what each of the others does not know)."""
        dim = summands.shape[2]
        if summands.shape[1] != WITH_EXTREMES:
            total = summands.sum(axis=0)
            return total, (total - summands[at] - summands[others]).reshape(-1, dim)
        unknown = [[row for row in others if row != other] for other in others]
        relays = [with_extremes(summands[rows]) if rows else np.zeros_like(summands[0]) for rows in unknown]
        return with_extremes(summands[[at, *others]]), np.concatenate([summands[:0].reshape(-1, dim), *relays])

    return central_step


def _put(summand: Whole, total: Whole, block: Any, most: int) -> None:
    """Let a summand take the place of the one before, in the total as well."""
    values: Any = numbers(block)
    if not within(values, most):
        values = np.clip(values, -most, most)
    if not isinstance(block, SparseVectors):
        values = values.reshape(summand.shape)
        total += values - summand
        summand[:] = values
        return
    summand, total = summand.reshape(-1, block.length), total.reshape(-1, block.length)
    total[:, block.indices] += values - summand[:, block.indices]
    summand[:, block.indices] = values


def _changed(totals: Sequence[Whole], news: Sequence[Sequence[Block]]) -> tuple[Block, ...]:
    """Of each total what is not as it was before these contributions; nothing without any."""
    found: list[Block] = []
    for total, blocks in zip(totals, zip(*news, strict=True), strict=bool(news)):
        sparse = [block for block in blocks if isinstance(block, SparseVectors)]
        lengths = {block.length for block in sparse}
        length, at = max(lengths, default=0), slice(None)
        if len(sparse) == len(blocks) and len(lengths) == 1:
            there = np.zeros(length, dtype=np.bool_)
            for block in sparse:
                there[block.indices] = True
            at = some_or_all(there, total.size // length)
        whole: Any = total.copy()
        found.append(whole if isinstance(at, slice) else block_of(at, total.reshape(-1, length)[:, at], length))
    return tuple(found)
