"""One example's features, dense or sparse, and the two things a linear learner does with them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]


class SparseVector(NamedTuple):
    """The non-zeros of a vector: strictly increasing indices and their values."""

    indices: npt.NDArray[np.int32]
    values: Vector


Features = Vector | SparseVector


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
