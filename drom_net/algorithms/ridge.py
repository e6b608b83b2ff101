"""Ridge regression learned from one example at a time, of several targets at once.

Up to `EXACT` features it is over all examples, by the inverse of r I + X^T X; up to `MOST` features over the last
`WINDOW` examples, by the inverse of r I + X X^T.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drom_net.algorithms.features import Matrix, Vector

EXACT, MOST, WINDOW = 512, 2048, 128
RIDGE, RIDGE_OF_WINDOW = 0.1, 1.0
AT_ONCE, TOGETHER = 128, 32
"""Up to so many features the inverse is brought up to date after each example, beyond after so many."""
_SIGNS = np.array([[-1.0], [1.0]])
_LOST = 1e-6
"""The share of a square that is left of it, below which it may be rounding."""


@dataclass(slots=True)
class ExactRidge:
    """Over all examples."""

    table: Matrix
    """The inverse of r I + X^T X and, behind it, the weights of each target as columns; shape (d, d + t)."""
    late: Matrix
    """Vectors v of which v v^T is not taken from the inverse yet, shape (`TOGETHER`, d); (0, d) up to `AT_ONCE`."""
    num_late: int = 0

    def means(self, at: Any, values: Vector) -> tuple[Vector, Vector]:
        """(what it expects of each target, shape (t,); what `learn` wants to have of this example)."""
        seen = values @ (self.table if isinstance(at, slice) else self.table.take(at, 0))
        dim = len(self.table)
        if self.num_late:
            late = self.late[: self.num_late]
            seen[:dim] -= (late[:, at] @ values) @ late
        return seen[dim:], seen

    def learn(self, at: Any, values: Vector, seen: Vector, targets: Any) -> None:
        """Take the example's targets, after `means` of it, whose arrays it may write to."""
        dim = len(self.table)
        own, means = seen[:dim], seen[dim:]
        spread = 1.0 + float(own[at] @ values)
        if not spread >= 1.0:  # lost in rounding, as rows of a norm far beyond 1 do: begin anew
            self.table[:, :dim], self.num_late = np.eye(dim) / RIDGE, 0
            return
        means -= targets
        seen /= math.sqrt(spread)
        if not len(self.late):
            self.table -= np.multiply.outer(own, seen)
            return
        self.table[:, dim:] -= np.multiply.outer(own, seen[dim:])
        self.late[self.num_late] = own
        self.num_late += 1
        if self.num_late == len(self.late):
            self.table[:, :dim] -= self.late.T @ self.late
            self.num_late = 0

    @property
    def weights(self) -> Matrix:
        """Of each target, shape (t, d)."""
        return self.table[:, len(self.table) :].T

    def vectors(self) -> Matrix:
        """The weights as an array of its own."""
        return self.weights.copy()


def exact_ridge(dim: int, num_targets: int) -> ExactRidge:
    """One that has seen nothing."""
    late = np.zeros((TOGETHER if dim > AT_ONCE else 0, dim))
    return ExactRidge(np.concatenate((np.eye(dim) / RIDGE, np.zeros((dim, num_targets))), axis=1), late)


@dataclass(slots=True)
class WindowRidge:
    """Over the last N examples."""

    columns: Matrix
    """The examples, shape (d, N)."""
    targets: Matrix
    """Shape (t, N)."""
    inverse: Matrix
    """Of r I + X X^T where there is an example, shape (N, N); elsewhere 0."""
    ridge: float
    count: int = 0
    places: list[Any] = field(default_factory=list)
    """Where each example is not 0; None is everywhere."""

    def means(self, at: Any, values: Vector) -> tuple[Vector, Vector]:
        """As `ExactRidge.means`."""
        seen = np.empty((2, len(self.inverse)))
        likeness = np.dot(values, self.columns[at], out=seen[0])
        return self.targets @ np.dot(self.inverse, likeness, out=seen[1]), seen

    def learn(self, at: Any, values: Vector, seen: Vector, targets: Any) -> None:
        """As `ExactRidge.learn`."""
        size = len(self.inverse)
        place = self.count % size
        corner = float(self.inverse[place, place])
        (likeness, column), moved = seen, np.zeros((2, size))
        column -= likeness[place] * self.inverse[place]
        likeness[place] = 0.0
        if self.count >= size and corner > 0.0:  # the oldest leaves
            np.divide(self.inverse[place], math.sqrt(corner), out=moved[0])
            column -= float(moved[0] @ likeness) * moved[0]
            column[place] = 0.0
        square = float(values @ values)
        spread = square + self.ridge - float(column @ likeness)
        for old in self.places[place : place + 1]:
            self.columns[slice(None) if old is None else old, place] = 0.0
        self.places[place : place + 1] = [None if isinstance(at, slice) else at]
        self.columns[at, place] = values
        self.targets[:, place] = targets
        self.count += 1
        if spread > _LOST * square and (corner > 0.0 or self.count <= size):
            column[place] = -1.0
            np.divide(column, math.sqrt(spread), out=moved[1])
            # Less the square of the first, and more that of the second; where the oldest was there is the second alone.
            self.inverse += np.dot((moved * _SIGNS).T, moved, out=_scratch(size))
            self.inverse[place] = self.inverse[:, place] = moved[1, place] * moved[1]
            return
        rows = self.columns[:, : min(self.count, size)]  # rows of a norm far beyond 1
        n = rows.shape[1]
        self.inverse[:n, :n] = inverse_of(rows.T @ rows, self.ridge)

    def vectors(self) -> Matrix:
        """The weights, shape (t, d)."""
        result: Matrix = (self.columns @ (self.targets @ self.inverse).T).T
        return result


Ridge = ExactRidge | WindowRidge


def inverse_of(products: Any, r: float) -> Matrix:
    """Of what `with_ridge` makes of these products."""
    found: Any = np.linalg.inv(with_ridge(products, r))
    result: Matrix = found
    return result


def with_ridge(products: Any, r: float) -> Matrix:
    """Products + r I; r is more where that would have no inverse, as with rows of a norm far beyond 1."""
    result: Matrix = products.copy()
    diagonal = result.reshape(-1)[:: len(result) + 1]
    diagonal += max(r, 1e-9 * sum(diagonal.tolist()))
    return result


@functools.cache
def _scratch(size: int) -> Matrix:
    """Memory for one product: new memory for each costs as much as the product."""
    return np.empty((size, size))


def ridge(dim: int, num_targets: int) -> Ridge | None:
    """One that has seen nothing; None for more than `MOST` features."""
    if dim <= EXACT:
        return exact_ridge(dim, num_targets)
    if dim <= MOST:
        shape = (num_targets, WINDOW)
        return WindowRidge(np.zeros((dim, WINDOW)), np.zeros(shape), np.zeros((WINDOW, WINDOW)), RIDGE_OF_WINDOW)
    return None
