"""One example's features, dense or sparse, and the two things a linear learner does with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]


class SparseVector(NamedTuple):
    """The non-zeros of a vector: strictly increasing indices and their values."""

    indices: npt.NDArray[np.int32]
    values: Vector


Features = Vector | SparseVector


class SparseVectors(NamedTuple):
    """What some vectors hold at the same places; elsewhere they are as they were before."""

    indices: npt.NDArray[np.intp]
    """Shape (k,), strictly increasing."""
    values: Matrix
    """Shape (r, k); int64 where they are summands or sums (`sums.py`)."""
    length: int
    """Of each of the r vectors: d, or a multiple, where vectors are laid end to end."""


Block = Vector | SparseVectors
"""One or several vectors, as they travel: shape (d,), shape (r, d), or sparse."""

_FLOAT64, _INT64 = np.dtype(np.float64), np.dtype(np.int64)
MOST_OF_SUM = 2**63 - 1
"""No integer that travels is larger, or smaller than -`MOST_OF_SUM`."""
MOST_OF_SUMMAND = 2**51 - 1
"""The same of what one site adds to a sum: the sum over 2^12 sites is an int64."""


class Integers(int):
    """So many vectors of a block, in a layout: of int64, the summands of one site."""

    most = MOST_OF_SUMMAND


class Sums(Integers):
    """The same of sums over sites."""

    most = MOST_OF_SUM


def other_than(layout: Sequence[int], blocks: Sequence[Block], dim: int) -> str:
    """What these are where they are not so many vectors of shape (d,) in each block; empty where they are.

    Where each block is one vector, it has to be a plain one.
    """
    if layout and sum(layout) == len(layout) and type(layout[0]) is int:  # each is one vector
        for one in blocks:
            if type(one) is not np.ndarray or one.shape != (dim,) or one.dtype != _FLOAT64:
                break
        else:
            if len(blocks) == len(layout):
                return ""
        if any(isinstance(block, SparseVectors) or block.ndim != 1 for block in blocks):
            return "blocks; expected plain vectors"
    found = [
        len(block.values) * (block.length // dim) if isinstance(block, SparseVectors) else block.size // dim
        for block in blocks
    ]
    if found == list(layout):
        for count, block in zip(layout, blocks, strict=True):
            wanted = np.dtype(np.int64 if isinstance(count, Integers) else np.float64)
            if numbers(block).dtype != wanted:
                return f"vectors of {numbers(block).dtype}; expected {wanted}"
            if isinstance(count, Integers) and not within(numbers(block), count.most):
                return f"vectors with integers beyond {count.most}"
        return ""
    if sum(found) != sum(layout):
        return f"{sum(found)} vectors; expected {sum(layout)}"
    return f"{sum(found)} vectors in blocks of {found}; expected {list(layout)}"


def numbers(block: Block) -> Vector:
    """All that it holds."""
    return block.values if isinstance(block, SparseVectors) else block


def bounded(block: Block, most: float) -> Block:
    """The block with every number brought to within -most and most; itself where none is beyond.

    Of integers only who adds them knows what is too much (`sums.py`).
    """
    held: Any = block if type(block) is np.ndarray else numbers(block)
    if held.dtype == _INT64 or np.vdot(held, held) <= most * most:
        return block
    cut = np.clip(held, -most, most)
    return block._replace(values=cut) if isinstance(block, SparseVectors) else cut


def bounded_example(yx: Vector) -> Vector:
    """The example y x of another site, whose numbers count for at most 1e6: who steps by it must not be led away."""
    found: Any = bounded(yx, 1e6)
    result: Vector = found
    return result


def within(integers: npt.NDArray[Any], most: int) -> bool:
    """Whether all are from -most to most."""
    return not integers.size or bool(-most <= integers.min() and integers.max() <= most)


def put(target: npt.NDArray[Any], block: Block) -> None:
    """Write as many vectors into those of shape (r, d), which keep what it does not hold."""
    if isinstance(block, SparseVectors):
        target.reshape(-1, block.length)[:, block.indices] = block.values
    else:
        target[:] = block


def places(x: Features) -> tuple[Any, Vector]:
    """(where x may be other than zero, as an index; x there)."""
    return (x.indices, x.values) if isinstance(x, SparseVector) else (slice(None), x)


def dot(w: Vector, x: Features) -> float:
    """<w, x>, for w of shape (d,)."""
    if isinstance(x, SparseVector):
        return float(np.dot(w[x.indices], x.values))
    return float(np.dot(w, x))


def scaled(c: float, x: Features, dim: int) -> Vector:
    """c * x as a new dense vector of shape (d,)."""
    if isinstance(x, SparseVector):
        dense = np.zeros(dim)
        dense[x.indices] = c * x.values
        return dense
    return c * x


def add_scaled(target: Vector, c: float, x: Features) -> None:
    """target += c * x, in place; a sparse x costs its non-zeros."""
    if isinstance(x, SparseVector):
        target[x.indices] += c * x.values
    else:
        target += c * x
