"""From the rows of a file to the rows a learner sees; kept with the model, so that `predict` does the same.

In this order: the columns are encoded (`columns`), folded (hash), centered, scaled and standardised; then the bias is
put behind them, and each row brought to unit norm. With `scaling: running` a row is standardised by those before it at
its site; with all others its result depends on that row and constants alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Features, Matrix, SparseVector, Vector
from drom_net.core.errors import DataError, Problem, did_you_mean
from drom_net.data.columns import Schema
from drom_net.data.scaling import RunningScaling
from drom_net.data.stream import SparseRows

HASHED_DIM = 2**31
"""The raw_dim of rows that are folded: any feature number that int32 holds."""
_AT_ONCE = 4096
"""Rows."""
NO_SCALING, SITE, RUNNING = "none", "site", "running"


@dataclass(frozen=True, slots=True)
class SiteScaling:
    """Mean and standard deviation of each number over one task's own rows (after center and scale)."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    """Positive; 1 for a constant column."""


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """What is done to each row.

    Attributes:
        raw_dim: Columns of the rows that come in, encoded where there is a schema.
        numbers: So many of them, the first, are numbers that are centered, scaled and standardised; all that are sparse
            rows without a schema are only scaled.
        schema: How a table's cells become such rows; None for rows that are numbers already.
        zero_based: Whether svmlight rows of this source count features from 0.
        hash: Fold the columns into so many (a power of two, see `fold`); None does not.
        center: Taken from each number; None is 0.
        scale: What each number is divided by; None is 1.
        scaling: "none", "site" (constants in `sites`) or "running" (the state is the task's).
        sites: By task name.
        normalize: Whether rows get unit l2 norm; a zero row stays zero.
        bias: The value of a last column; 0 adds none.
        bias_in_norm: Whether the unit norm is that of the row with its bias; rows of earlier versions had it behind.
    """

    raw_dim: int
    numbers: int = 0
    schema: Schema | None = None
    zero_based: bool = False
    hash: int | None = None
    center: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    scaling: str = NO_SCALING
    sites: Mapping[str, SiteScaling] | None = None
    normalize: bool = False
    bias: float = 0.0
    bias_in_norm: bool = True

    @property
    def width(self) -> int:
        """Columns before the bias."""
        return self.hash or self.raw_dim

    @property
    def dim(self) -> int:
        """Columns of the rows that a learner sees."""
        return self.width + (self.bias != 0.0)

    @property
    def is_running(self) -> bool:
        """Whether a row depends on those before it."""
        return self.scaling == RUNNING and self.numbers > 0

    def begin(self, task: str, state: Vector | None = None) -> RowPreparation:
        """What prepares the rows of a task in order.

        Args:
            state: Of `scaling: running`, what an earlier one ended with; by default it has seen nothing.

        Raises:
            DataError: `task` has no site scaling.
        """
        return RowPreparation(self, task, state)

    def apply(self, rows: Matrix | SparseRows, task: str) -> Matrix | SparseRows:
        """All rows of `task` as its learner sees them, in this order from the first on; as `RowPreparation.take`."""
        return self.begin(task).take(rows)

    def center_and_scale(self, numbers: Matrix) -> Matrix:
        """The two steps before standardisation."""
        if self.center is not None:
            numbers = numbers - np.array(self.center)
        return numbers if self.scale is None else numbers / np.array(self.scale)

    def with_sites(self, raw: Mapping[str, Matrix]) -> Preprocessing:
        """The same, standardising each task by its own rows in `raw`: their numbers, shape (n > 0, numbers)."""
        with np.errstate(all="ignore"):
            sites = {task: _site_scaling(self.center_and_scale(rows)) for task, rows in raw.items()}
        return dataclasses.replace(self, scaling=SITE, sites=sites)

    def to_json(self) -> dict[str, object]:
        """Plain values for JSON; floats come back exactly."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain["schema"] = self.schema and self.schema.to_json()
        if self.sites is not None:
            plain["sites"] = {task: dataclasses.asdict(site) for task, site in self.sites.items()}
        return plain

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Preprocessing:
        """What `to_json` gave, after JSON, also that of earlier versions.

        Raises:
            DataError: It is not that.
        """
        try:
            fields = dict(value)
            if "bias_in_norm" not in fields:  # of an earlier version
                fields |= {"bias_in_norm": False, "numbers": fields["raw_dim"] if fields["hash"] is None else 0}
                fields["scaling"] = SITE if fields["sites"] is not None else NO_SCALING
            for name in ("center", "scale"):
                if fields.get(name) is not None:
                    fields[name] = tuple(map(float, fields[name]))
            if fields.get("sites") is not None:
                fields["sites"] = {
                    task: SiteScaling(tuple(map(float, site["mean"])), tuple(map(float, site["deviation"])))
                    for task, site in fields["sites"].items()
                }
            if fields.get("schema") is not None:
                fields["schema"] = Schema.from_json(fields["schema"])
            return cls(**fields)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError([Problem("preprocessing", "what drom-net wrote", str(error))]) from error


class RowPreparation:
    """Prepares the rows of one task, one by one or many at a time, in the order in which they are learned."""

    def __init__(self, preprocessing: Preprocessing, task: str, state: Vector | None = None) -> None:
        """As `Preprocessing.begin`."""
        self._made = preprocessing
        self._running = RunningScaling(preprocessing.numbers, state) if preprocessing.is_running else None
        self._site: SiteScaling | None = None
        if preprocessing.scaling == SITE and preprocessing.sites is not None:
            if task not in preprocessing.sites:
                hint = did_you_mean(task, preprocessing.sites)
                raise DataError([Problem("task", "a task with a site scaling", f'"{task}"', hint)])
            self._site = preprocessing.sites[task]

    @property
    def state(self) -> Vector | None:
        """What the rows so far have left, shape (1 + 6 numbers,); None unless scaling is running."""
        return None if self._running is None else self._running.state

    def take(self, rows: Matrix | SparseRows) -> Matrix | SparseRows:
        """The next rows as the learner sees them; `rows` is not written to.

        Values may overflow to infinity or NaN by center, scale or deviation; the caller checks.

        Args:
            rows: Shape (n, raw_dim), finite, NaN for numbers that are missing; sparse ones of a schema have all of
                their numbers, in front.

        Returns:
            Shape (n, dim), dense or sparse as `rows` is.

        Raises:
            DataError: Sparse rows would have to be centered.
        """
        return self._prepare(rows, keep=True)

    def take_one(self, row: Features) -> Features:
        """The same for one row, shape (raw_dim,)."""
        return _first(self.take(_alone(row, self._made.raw_dim)))

    def look(self, row: Features) -> Features:
        """One row as it would be next; of no effect on later ones."""
        return _first(self.look_at(_alone(row, self._made.raw_dim)))

    def look_at(self, rows: Matrix | SparseRows) -> Matrix | SparseRows:
        """The same of many rows, each as if it were next; as `take`."""
        return self._prepare(rows, keep=False)

    def _prepare(self, rows: Matrix | SparseRows, *, keep: bool) -> Matrix | SparseRows:
        with np.errstate(all="ignore"):
            if isinstance(rows, SparseRows):
                return self._sparse(rows, keep=keep)
            result = np.empty((len(rows), self._made.dim))
            for start in range(0, len(rows), _AT_ONCE):  # a large table is not held several times
                self._dense(rows[start : start + _AT_ONCE], result[start : start + _AT_ONCE], keep=keep)
            return result

    def _numbers(self, numbers: Matrix, *, keep: bool) -> Matrix:
        scaled = self._made.center_and_scale(numbers)
        if self._running is not None:
            return self._running.take(scaled) if keep else self._running.look(scaled)
        if self._site is not None:
            scaled = (scaled - self._site.mean) / self._site.deviation
        missing = np.isnan(numbers)
        return np.where(missing, 0.0, scaled) if missing.any() else scaled

    def _dense(self, rows: Matrix, result: Matrix, *, keep: bool) -> None:
        made = self._made
        result[:, : made.numbers] = self._numbers(rows[:, : made.numbers], keep=keep)
        result[:, made.numbers : made.width] = rows[:, made.numbers :]
        if made.bias:
            result[:, -1] = made.bias
        if made.normalize:
            inside = result if made.bias_in_norm else result[:, : made.width]
            inside[...] = unit_rows(inside)

    def _sparse(self, rows: SparseRows, *, keep: bool) -> SparseRows:
        made = self._made
        if made.hash is not None:
            rows = fold(rows, made.hash)
        indptr, indices, values = rows.indptr, rows.indices, rows.values
        if made.schema is not None:
            places = indptr[:-1, np.newaxis] + np.arange(made.numbers)
            values = values.copy()
            values[places] = self._numbers(values[places], keep=keep)
            indptr, indices, values = _without_zeros(indptr, indices, values)
        elif made.center is not None or self._site is not None:
            raise DataError([Problem("data", "dense rows, for these are centered", "sparse rows")])
        elif made.scale is not None:
            values = values / np.array(made.scale)[indices]
        words_alone = made.schema is None or not made.bias_in_norm
        if made.normalize and words_alone:
            # A row of words is as long as its bias: long texts do not drown it.
            values = _unit_values(indptr, values)
        if made.bias:
            indices = np.insert(indices, indptr[1:], made.width).astype(np.int32)
            values = np.insert(values, indptr[1:], made.bias)
            indptr = indptr + np.arange(len(indptr))
        if made.normalize and made.bias_in_norm and (made.bias or not words_alone):
            values = _unit_values(indptr, values)
        return SparseRows(indptr, indices, values, made.dim)


def _alone(row: Features, raw_dim: int) -> Matrix | SparseRows:
    if isinstance(row, SparseVector):
        return SparseRows(np.array([0, len(row.indices)], dtype=np.int64), row.indices, row.values, raw_dim)
    return row[np.newaxis, :]


def _first(rows: Matrix | SparseRows) -> Features:
    return SparseVector(rows.indices, rows.values) if isinstance(rows, SparseRows) else rows[0]


def _without_zeros(
    indptr: npt.NDArray[np.int64], indices: npt.NDArray[np.int32], values: Vector
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], Vector]:
    filled = values != 0.0
    return np.concatenate([[0], np.cumsum(filled)])[indptr].astype(np.int64), indices[filled], values[filled]


def fold(rows: SparseRows, width: int) -> SparseRows:
    """Feature numbers folded into `width` columns (a power of two); what meets is added.

    The hash is fixed: z = splitmix64's output for state i, i the feature number from 0; the column is
    z mod width, and the sign is minus when z's highest bit is set. Entries that cancel are dropped.
    """
    z = (rows.indices.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    row_of = np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))
    columns = (z & np.uint64(width - 1)).astype(np.int64)
    return add_up(row_of, columns, np.where(z >> np.uint64(63), -rows.values, rows.values), len(rows.indptr) - 1, width)


def add_up(
    row_of: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], values: Vector, num_rows: int, width: int
) -> SparseRows:
    """Sparse rows from entries in any order; those that meet are added in the order given, and zeros dropped."""
    cells, cell_of = np.unique(row_of * width + columns, return_inverse=True)
    sums = np.bincount(cell_of, weights=values, minlength=len(cells))
    cells, sums = cells[sums != 0.0], sums[sums != 0.0]
    indptr = np.searchsorted(cells, np.arange(num_rows + 1) * width).astype(np.int64)
    return SparseRows(indptr, (cells % width).astype(np.int32), sums, width)


def unit_rows(rows: Matrix) -> Matrix:
    """Each row of shape (d,) divided by its l2 norm; a zero row stays zero.

    Powers of two are taken out first, so that the squares of 1e308 or 1e-308 neither overflow nor vanish.
    """
    largest = np.abs(rows).max(axis=1, initial=0.0)
    small = rows
    if not ((largest == 0.0) | ((largest > 1e-100) & (largest < 1e100))).all():  # else it changes no bit
        small = np.ldexp(rows, -np.frexp(largest)[1][:, np.newaxis])
    norms = np.sqrt((small * small).sum(axis=1, keepdims=True))
    norms[norms == 0.0] = 1.0
    result: Matrix = small / norms
    return result


def _unit_values(indptr: npt.NDArray[np.int64], values: Vector) -> Vector:
    """The same as `unit_rows` for the values of sparse rows."""
    num_rows = len(indptr) - 1
    row_of = np.repeat(np.arange(num_rows), np.diff(indptr))
    largest = np.zeros(num_rows)
    np.maximum.at(largest, row_of, np.abs(values))
    small = np.ldexp(values, -np.frexp(largest)[1][row_of])
    norms = np.sqrt(np.bincount(row_of, weights=small * small, minlength=num_rows))
    norms[norms == 0.0] = 1.0
    result: Vector = small / norms[row_of]
    return result


def _site_scaling(rows: Matrix) -> SiteScaling:
    """Of numbers that may be missing (NaN)."""
    present = ~np.isnan(rows)
    count = np.maximum(present.sum(axis=0), 1)
    filled = np.where(present, rows, 0.0)
    mean = filled.sum(axis=0) / count
    deviation = np.sqrt((np.where(present, rows - mean, 0.0) ** 2).sum(axis=0) / count)
    # The mean of equal numbers need not equal them in floats, and then the deviation is tiny, not zero.
    first = rows[present.argmax(axis=0), np.arange(rows.shape[1])]
    constant = (~present | (rows == first)).all(axis=0)
    mean[constant] = np.where(np.isnan(first), 0.0, first)[constant]
    deviation[constant | (deviation == 0.0)] = 1.0
    return SiteScaling(tuple(mean.tolist()), tuple(deviation.tolist()))
