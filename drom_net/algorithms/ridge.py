"""Ridge regression learned from one example at a time, of several targets at once.

Up to `EXACT` features it is over all examples, by the inverse of r I + X^T X; up to `MOST` features over the last
`WINDOW` examples, by the inverse of r I + X X^T. What changes an inverse is kept as vectors, and put into it for
many examples at once, by one product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drom_net.algorithms.features import Matrix, Vector

EXACT, MOST, WINDOW = 512, 2048, 128
RIDGE, RIDGE_OF_WINDOW = 0.1, 1.0
TOGETHER, TOGETHER_OF_WINDOW = 64, 8
"""So many examples are put into an inverse at once."""
_SIGNS = np.array([-1.0, 1.0] * TOGETHER_OF_WINDOW)
_LOST = 1e-6
"""The share of a square that is left of it, below which it may be rounding."""


@dataclass(slots=True)
class ExactRidge:
    """Over all examples."""

    table: Matrix
    """The inverse of r I + X^T X and, behind it, the weights of each target as columns; shape (d, d + t)."""
    late: Matrix
    """Vectors v, shape (`TOGETHER`, d + t), of which v[:d] v^T is not taken from the table yet."""
    num_late: int = 0

    def means(self, at: Any, values: Vector) -> tuple[Vector, Any]:
        """(what it expects of each target, shape (t,); what `learn` wants to have of this example)."""
        dim, late = len(self.table), self.late[: self.num_late]
        if isinstance(at, slice):
            seen, likeness = values @ self.table, late[:, :dim] @ values
        else:
            seen, likeness = values @ self.table.take(at, 0), late.take(at, 1) @ values
        seen -= likeness @ late
        return seen[dim:], seen

    def learn(self, at: Any, values: Vector, seen: Any, targets: Any) -> None:
        """Take the example's targets, after `means` of it, whose arrays it may write to."""
        dim = len(self.table)
        spread = 1.0 + float(seen[:dim][at] @ values)
        if not spread >= 1.0:  # lost in rounding, as rows of a norm far beyond 1 do: begin anew
            self._fold()
            self.table[:, :dim] = np.eye(dim) / RIDGE
            return
        seen[dim:] -= targets
        np.multiply(seen, 1.0 / math.sqrt(spread), out=self.late[self.num_late])
        self.num_late += 1
        if self.num_late == len(self.late):
            self._fold()

    def _fold(self) -> None:
        dim, late = len(self.table), self.late[: self.num_late]
        self.table -= late[:, :dim].T @ late
        self.num_late = 0

    def vectors(self) -> Matrix:
        """The weights of each target, shape (t, d), as an array of its own."""
        dim, late = len(self.table), self.late[: self.num_late]
        return (self.table[:, dim:] - late[:, :dim].T @ late[:, dim:]).T.copy()


def exact_ridge(dim: int, num_targets: int) -> ExactRidge:
    """One that has seen nothing."""
    table = np.concatenate((np.eye(dim) / RIDGE, np.zeros((dim, num_targets))), axis=1)
    return ExactRidge(table, np.zeros((TOGETHER, dim + num_targets)))


@dataclass(slots=True)
class WindowRidge:
    """Over the last N examples."""

    columns: Matrix
    """The examples, shape (d, N); in the order of memory in which examples of this kind are read."""
    targets: Matrix
    """Shape (t, N)."""
    inverse: Matrix
    """Of r I + X X^T where there is an example, shape (N, N); elsewhere 0."""
    late: Matrix
    """Vectors v, shape (2 `TOGETHER_OF_WINDOW`, N): v v^T is not taken from the inverse yet, or not added, by turns."""
    ridge: float
    num_late: int = 0
    count: int = 0
    places: list[Any] = field(default_factory=list)
    """Where each example is not 0; None is everywhere."""

    def means(self, at: Any, values: Vector) -> tuple[Vector, Any]:
        """As `ExactRidge.means`."""
        dense = isinstance(at, slice)
        self.columns = np.asarray(self.columns, order="F" if dense else "C")
        likeness = values @ (self.columns if dense else self.columns.take(at, 0))
        late = self.late[: self.num_late]
        column = self.inverse @ likeness
        column += (_SIGNS[: self.num_late] * (late @ likeness)) @ late
        return self.targets @ column, (likeness, column)

    def learn(self, at: Any, values: Vector, seen: Any, targets: Any) -> None:
        """As `ExactRidge.learn`."""
        size, n = len(self.inverse), self.num_late
        place = self.count % size
        oldest = self.inverse[place] + (_SIGNS[:n] * self.late[:n, place]) @ self.late[:n]
        corner = float(oldest[place])
        likeness, column = seen
        leaves = self.count >= size and corner > 0.0
        if leaves:
            column -= float(column[place]) / corner * oldest
        likeness[place] = column[place] = 0.0
        square = float(values @ values)
        spread = square + self.ridge - float(column @ likeness)
        for old in self.places[place : place + 1]:
            self.columns[slice(None) if old is None else old, place] = 0.0
        self.places[place : place + 1] = [None if isinstance(at, slice) else at]
        self.columns[at, place] = values
        self.targets[:, place] = targets
        self.count += 1
        if not (spread > _LOST * square and (leaves or self.count <= size)):  # rows of a norm far beyond 1
            rows = self.columns[:, : min(self.count, size)]
            n = rows.shape[1]
            self.inverse[:n, :n], self.num_late = inverse_of(rows.T @ rows, self.ridge), 0
            return
        np.multiply(oldest, 1.0 / math.sqrt(corner) if leaves else 0.0, out=self.late[n])
        self.inverse[place] = self.inverse[:, place] = self.late[: n + 1, place] = 0.0
        column[place] = -1.0
        np.multiply(column, 1.0 / math.sqrt(spread), out=self.late[n + 1])
        self.num_late += 2
        if self.num_late == len(self.late):
            self.inverse += (self.late.T * _SIGNS) @ self.late
            self.num_late = 0

    def vectors(self) -> Matrix:
        """The weights, shape (t, d)."""
        late = self.late[: self.num_late]
        duals = self.targets @ self.inverse + (self.targets @ late.T * _SIGNS[: self.num_late]) @ late
        result: Matrix = (self.columns @ duals.T).T
        return result


Ridge = ExactRidge | WindowRidge


def window_ridge(dim: int, num_targets: int, size: int, ridge: float) -> WindowRidge:
    """One that has seen nothing, over so many examples."""
    columns, targets, inverse, late = (np.zeros((rows, size)) for rows in (dim, num_targets, size, len(_SIGNS)))
    return WindowRidge(columns, targets, inverse, late, ridge)


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


def ridge(dim: int, num_targets: int) -> Ridge | None:
    """One that has seen nothing; None for more than `MOST` features."""
    if dim <= EXACT:
        return exact_ridge(dim, num_targets)
    return window_ridge(dim, num_targets, WINDOW, RIDGE_OF_WINDOW) if dim <= MOST else None
