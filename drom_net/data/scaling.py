"""Running standardisation: each row by the mean and deviation of the rows before it, the same row by row and in blocks.

Sums are of differences to a value near the mean, so that large numbers lose no digits: to a column's first number, and
from the end of each span of rows on to the mean so far. Spans end behind rows 1, 2, 4, .. 1024, 2048, 3072, .. whoever
calls with how many rows at a time.
"""

from __future__ import annotations

import numpy as np

from drom_net.algorithms.features import Matrix, Vector

CLIP = 5.0
"""No standardised number is further from 0: one wild value moves a model only so far."""
_SPAN = 1024
_SUMS = 6
"""Vectors in a state."""


class RunningScaling:
    """Count, mean and deviation of each column of numbers of one task, as far as its rows were seen."""

    def __init__(self, width: int, state: Vector | None = None) -> None:
        """
        Args:
            width: How many columns.
            state: What `state` gave; by default nothing was seen.
        """
        if state is None:
            state = np.zeros(1 + _SUMS * width)
        if state.shape != (1 + _SUMS * width,):
            raise ValueError(f"expected a state of {1 + _SUMS * width} numbers, got shape {state.shape}")
        self._rows = int(state[0])
        sums = np.array(state[1:], dtype=np.float64).reshape(_SUMS, width)
        self._count, self._centre, self._squares = sums[0], sums[1], sums[2]
        """Before this span: how many numbers, their mean (of the first number before it ends), and the sum of squared
        differences to it."""
        self._new = sums[3:]
        """In this span: how many numbers, the sums of their differences to the centre, and of squares; (3, width)."""

    @property
    def state(self) -> Vector:
        """All of it, shape (1 + 6 width,)."""
        parts = [np.array([float(self._rows)]), self._count, self._centre, self._squares, self._new.reshape(-1)]
        state: Vector = np.concatenate(parts)
        return state

    def take(self, rows: Matrix) -> Matrix:
        """Rows standardised in order, each by those before it; they are then seen.

        Args:
            rows: Shape (n, width), finite or NaN for missing.

        Returns:
            Shape (n, width): 0 where a number is missing, and where there were not two different ones before; at
            most `CLIP` from 0.
        """
        return self._go_through(rows)

    def look(self, rows: Matrix) -> Matrix:
        """Rows standardised, each as if it were next; none is seen. Shape (n, width)."""
        count = self._count + self._new[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = self._new[1] / count
            variance = (self._squares + self._new[2] - self._new[1] * mean) / count
            result: Matrix = rows - self._centre
            result -= mean
            result /= np.sqrt(variance)
        np.copyto(result, 0.0, where=~(~np.isnan(rows) & (variance > 0.0)))
        return np.clip(result, -CLIP, CLIP, out=result)

    def _go_through(self, rows: Matrix) -> Matrix:
        result = np.empty(rows.shape)
        start = 0
        while start < len(rows):
            stop = min(len(rows), start + _until_end(self._rows))
            self._span(rows[start:stop], result[start:stop])
            start = stop
        return result

    def _span(self, rows: Matrix, result: Matrix) -> None:
        """As many rows as this span still has, or fewer."""
        present = ~np.isnan(rows)
        centre = self._centre
        unseen = (self._count + self._new[0] == 0.0) & present.any(axis=0)
        if unseen.any():
            first = rows[present.argmax(axis=0), np.arange(rows.shape[1])]
            centre = np.where(unseen, first, centre)
        # The sums before each row and, last, behind all of them.
        sums = np.empty((3, len(rows) + 1, rows.shape[1]))
        sums[:, 0] = self._new
        differences = sums[1, 1:]
        np.subtract(rows, centre, out=differences)
        np.copyto(differences, 0.0, where=~present)
        result[...] = differences
        np.multiply(differences, differences, out=sums[2, 1:])
        np.cumsum(sums[1:], axis=1, out=sums[1:])
        if present.all():  # whole numbers: the same as their cumulative sums
            sums[0] = self._new[0] + np.arange(len(rows) + 1.0)[:, np.newaxis]
        else:
            sums[0, 1:] = present
            np.cumsum(sums[0], axis=0, out=sums[0])
        count = sums[0, :-1] + self._count
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = sums[1, :-1] / count
            variance = (self._squares + sums[2, :-1] - sums[1, :-1] * mean) / count
            result -= mean
            result /= np.sqrt(variance)
        np.copyto(result, 0.0, where=~(present & (variance > 0.0)))
        np.clip(result, -CLIP, CLIP, out=result)
        self._centre = centre
        self._new = sums[:, -1].copy()
        self._rows += len(rows)
        if _until_end(self._rows - 1) == 1:
            self._end_span()

    def _end_span(self) -> None:
        new, total, squares = self._new
        count = self._count + new
        seen = count > 0.0
        offset = np.divide(total, count, out=np.zeros_like(total), where=seen)
        self._squares = np.maximum(self._squares + squares - total * offset, 0.0)
        self._centre = self._centre + offset
        self._count = count
        self._new = np.zeros_like(self._new)


def _until_end(rows: int) -> int:
    """How many rows a span has left after so many in all."""
    if rows < _SPAN:
        return (1 << rows.bit_length()) - rows if rows else 1
    return _SPAN - rows % _SPAN
