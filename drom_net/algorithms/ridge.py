"""Ridge regression learned from one example at a time, of several targets at once.

Up to `EXACT` features it is over all examples, by the inverse of r I + X^T X; up to `MOST` features over the last
`WINDOW` examples, by the inverse of r I + X X^T.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from drom_net.algorithms.features import Matrix, Vector

EXACT, MOST, WINDOW = 512, 2048, 128


@dataclass(slots=True)
class ExactRidge:
    """Over all examples."""

    inverse: Matrix
    """Of r I + X^T X, shape (d, d)."""
    weights: Matrix
    """Of each target, shape (t, d)."""

    def means(self, at: Any, values: Vector) -> tuple[Vector, Vector]:
        """(what it expects of each target, shape (t,); what `learn` wants to have of this example)."""
        return self.weights[:, at] @ values, values @ self.inverse[at]

    def learn(self, at: Any, values: Vector, means: Vector, seen: Vector, targets: Vector) -> None:
        """Take the example's targets, after `means` of it."""
        spread = 1.0 + float(seen[at] @ values)
        self.weights += ((targets - means) / spread)[:, None] * seen
        seen /= np.sqrt(spread)
        _add_square(self.inverse, seen, -1.0)

    def vectors(self) -> Matrix:
        """The weights, shape (t, d)."""
        return self.weights


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

    def means(self, at: Any, values: Vector) -> tuple[Vector, Vector]:
        """As `ExactRidge.means`."""
        likeness = values @ self.columns[at]
        return self.targets @ (self.inverse @ likeness), likeness

    def learn(self, at: Any, values: Vector, means: Vector, seen: Vector, targets: Vector) -> None:
        """As `ExactRidge.learn`."""
        place = self.count % len(self.inverse)
        if self.count >= len(self.inverse):  # the oldest leaves
            column = self.inverse[:, place] / np.sqrt(self.inverse[place, place])
            _add_square(self.inverse, column, -1.0)
            self.inverse[place] = self.inverse[:, place] = 0.0
        seen[place] = 0.0
        column = self.inverse @ seen
        spread = float(values @ values) + self.ridge - float(column @ seen)
        column[place] = -1.0
        column /= np.sqrt(spread)
        _add_square(self.inverse, column, 1.0)
        self.columns[:, place] = 0.0
        self.columns[at, place] = values
        self.targets[:, place] = targets
        self.count += 1

    def vectors(self) -> Matrix:
        """The weights, shape (t, d)."""
        result: Matrix = (self.columns @ (self.targets @ self.inverse).T).T
        return result


Ridge = ExactRidge | WindowRidge


@functools.cache
def _scratch(size: int) -> Matrix:
    """Memory for one product: new memory for each costs as much as the product."""
    return np.empty((size, size))


def _add_square(target: Matrix, v: Vector, sign: float) -> None:
    """target += sign v v^T, which leaves it symmetric to the last bit."""
    product = np.multiply(v[:, None], v, out=_scratch(len(v)))
    (np.add if sign > 0.0 else np.subtract)(target, product, out=target)


def ridge(dim: int, num_targets: int) -> Ridge | None:
    """One that has seen nothing; None for more than `MOST` features."""
    if dim <= EXACT:
        return ExactRidge(np.eye(dim) / 0.1, np.zeros((num_targets, dim)))
    if dim <= MOST:
        shape = (num_targets, WINDOW)
        return WindowRidge(np.zeros((dim, WINDOW)), np.zeros(shape), np.zeros((WINDOW, WINDOW)), 1.0)
    return None
