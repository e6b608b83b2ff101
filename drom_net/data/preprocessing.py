"""From the rows of a file to the rows a learner sees; kept with the model, so that `predict` does the same.

In this order: fold (hash), center, scale, standardise by site, unit norm, bias. Each row's result depends
on that row and constants alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Matrix, Vector
from drom_net.data.stream import SparseRows
from drom_net.errors import DataError, Problem, did_you_mean

HASHED_DIM = 2**31
"""The raw_dim of rows that are folded: any feature number that int32 holds."""


@dataclass(frozen=True, slots=True)
class SiteScaling:
    """Mean and standard deviation of each column over one task's own rows (after center and scale)."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    """Positive; 1 for a constant column."""


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """What is done to each row.

    Attributes:
        raw_dim: Columns of the rows that `apply` takes.
        zero_based: Whether svmlight rows of this source count features from 0 (for `read_rows`).
        hash: Fold the columns into so many (a power of two, see `fold`); None does not.
        center: Taken from each column; None is 0.
        scale: What each column is divided by; None is 1.
        sites: By task name; None does not standardise.
        normalize: Whether rows get unit l2 norm; a zero row stays zero.
        bias: The value of a last column; 0 adds none.
    """

    raw_dim: int
    zero_based: bool = False
    hash: int | None = None
    center: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    sites: Mapping[str, SiteScaling] | None = None
    normalize: bool = False
    bias: float = 0.0

    @property
    def width(self) -> int:
        """Columns before the bias: as many as `center` and `scale` have."""
        return self.hash or self.raw_dim

    @property
    def dim(self) -> int:
        """Columns of the rows that `apply` returns."""
        return self.width + (self.bias != 0.0)

    def apply(self, rows: Matrix | SparseRows, task: str) -> Matrix | SparseRows:
        """The rows of `task` as its learner sees them; `rows` is not written to.

        Values may overflow to infinity or NaN by center, scale or deviation; the caller checks.

        Args:
            rows: Shape (n, raw_dim), finite.

        Returns:
            Shape (n, dim), dense or sparse as `rows` is.

        Raises:
            DataError: `task` has no site scaling, or sparse rows would have to be centered.
        """
        with np.errstate(all="ignore"):
            if isinstance(rows, SparseRows):
                return self._apply_sparse(rows)
            scaled = self.center_and_scale(rows)
            if self.sites is not None:
                if task not in self.sites:
                    hint = did_you_mean(task, self.sites)
                    raise DataError([Problem("task", "a task with a site scaling", f'"{task}"', hint)])
                scaled = (scaled - self.sites[task].mean) / self.sites[task].deviation
            if self.normalize:
                scaled = unit_rows(scaled)
            if self.bias:
                scaled = np.concatenate([scaled, np.full((len(scaled), 1), self.bias)], axis=1)
        return np.array(scaled, dtype=np.float64, order="C")

    def center_and_scale(self, rows: Matrix) -> Matrix:
        """The two steps before site scaling."""
        if self.center is not None:
            rows = rows - np.array(self.center)
        return rows if self.scale is None else rows / np.array(self.scale)

    def with_sites(self, raw: Mapping[str, Matrix]) -> Preprocessing:
        """The same, standardising each task by its own rows in `raw`, each of shape (n > 0, raw_dim)."""
        with np.errstate(all="ignore"):
            sites = {task: _site_scaling(self.center_and_scale(rows)) for task, rows in raw.items()}
        return dataclasses.replace(self, sites=sites)

    def _apply_sparse(self, rows: SparseRows) -> SparseRows:
        if self.center is not None or self.sites is not None:
            raise DataError([Problem("data", "dense rows, for these are centered", "sparse rows")])
        if self.hash is not None:
            rows = fold(rows, self.hash)
        indptr, indices, values = rows.indptr, rows.indices, rows.values
        if self.scale is not None:
            values = values / np.array(self.scale)[indices]
        if self.normalize:
            values = _unit_values(indptr, values)
        if self.bias:
            indices = np.insert(indices, indptr[1:], self.width).astype(np.int32)
            values = np.insert(values, indptr[1:], self.bias)
            indptr = indptr + np.arange(len(indptr))
        return SparseRows(indptr, indices, values, self.dim)

    def to_json(self) -> dict[str, object]:
        """Plain values for JSON; floats come back exactly."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, object]) -> Preprocessing:
        """What `to_json` gave, after JSON.

        Raises:
            DataError: It is not that.
        """
        try:
            fields = dict(value)
            for name in ("center", "scale"):
                if fields.get(name) is not None:
                    fields[name] = tuple(map(float, fields[name]))  # type: ignore[call-overload]
            if fields.get("sites") is not None:
                fields["sites"] = {
                    task: SiteScaling(tuple(map(float, site["mean"])), tuple(map(float, site["deviation"])))
                    for task, site in fields["sites"].items()  # type: ignore[attr-defined]
                }
            return cls(**fields)  # type: ignore[arg-type]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError([Problem("preprocessing", "what drom-net wrote", str(error))]) from error


def fold(rows: SparseRows, width: int) -> SparseRows:
    """Feature numbers folded into `width` columns (a power of two); what meets is added.

    The hash is fixed: z = splitmix64's output for state i, i the feature number from 0; the column is
    z mod width, and the sign is minus when z's highest bit is set. Entries that cancel are dropped.
    """
    z = (rows.indices.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    num_rows = len(rows.indptr) - 1
    row_of = np.repeat(np.arange(num_rows), np.diff(rows.indptr))
    columns = (z & np.uint64(width - 1)).astype(np.int64)
    cells, cell_of = np.unique(row_of * width + columns, return_inverse=True)
    values = np.where(z >> np.uint64(63), -rows.values, rows.values)
    sums = np.bincount(cell_of, weights=values, minlength=len(cells))
    cells, sums = cells[sums != 0.0], sums[sums != 0.0]
    indptr = np.searchsorted(cells, np.arange(num_rows + 1) * width).astype(np.int64)
    return SparseRows(indptr, (cells % width).astype(np.int32), sums, width)


def unit_rows(rows: Matrix) -> Matrix:
    """Each row of shape (d,) divided by its l2 norm; a zero row stays zero.

    Powers of two are taken out first, so that the squares of 1e308 or 1e-308 neither overflow nor vanish.
    """
    exponents = np.frexp(np.abs(rows).max(axis=1, initial=0.0))[1]
    small = np.ldexp(rows, -exponents[:, np.newaxis])
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
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    # The mean of equal numbers need not equal them in floats, and then the deviation is tiny, not zero.
    constant = (rows == rows[0]).all(axis=0)
    mean[constant] = rows[0][constant]
    deviation[constant | (deviation == 0.0)] = 1.0
    return SiteScaling(tuple(mean.tolist()), tuple(deviation.tolist()))
