"""The cells of whole tables as encoded rows: what `Schema.encode` makes of each row, column by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Matrix, Vector
from drom_net.data.cells import LARGEST_NUMBER, CellError
from drom_net.data.columns import DATE, NO_ENTRIES, NUMBER, TIME, Column, Entries, Schema
from drom_net.data.faults import Faults
from drom_net.data.preprocessing import add_up
from drom_net.data.stream import SparseRows
from drom_net.data.tables import Cells, Days, FileTable, Numbers, Texts

Rows = npt.NDArray[np.int64]
_HINT = "data.columns says what kind each column is (`drom-net init` writes it), data.ignore leaves columns out"


_AT_ONCE = 4096
"""Rows."""


class _Numbers(NamedTuple):
    """A site's numbers of one column."""

    column: int
    values: Vector
    rows: Rows | None
    """Which of the values are the site's; None is all."""


def encode_table(schema: Schema, table: FileTable, faults: Faults) -> Matrix | SparseRows:
    """All rows of a table that has the columns of the schema, shape (n, schema.width)."""
    encoder = Encoder(schema, [table.num_rows])
    for column in schema.used:
        name = column.name
        encoder.add(column, 0, table.cells[name], None, lambda row, name=name: table.place(row, name), faults)  # type: ignore[misc]
    return encoder.rows()[0]


class Encoder:
    """Collects the rows of several sites, a column at a time, so that a column can be let go of once it is encoded."""

    def __init__(self, schema: Schema, lengths: Sequence[int]) -> None:
        """
        Args:
            lengths: How many rows each site has.
        """
        self._schema = schema
        width = schema.num_numbers if schema.is_sparse else schema.width
        self._dense = [np.zeros((length, width)) for length in lengths]
        self._entries: list[list[tuple[Rows, Rows, Vector]]] = [[] for _ in lengths]
        self._numbers: list[list[_Numbers]] = [[] for _ in lengths]

    def add(
        self, column: Column, site: int, cells: Cells, rows: Rows | None, place: Callable[[int], str], faults: Faults
    ) -> None:
        """A site's cells of a column; columns come in the order of the schema.

        Args:
            rows: Which of `cells` are the site's, in its order; None for all.
            place: Where the cell of a row of `cells` stands.
        """
        if column.kind == NUMBER and isinstance(cells, Numbers):
            self._numbers[site].append(_Numbers(self._schema.number_place(column), cells.values, rows))
            if not (np.fmax.reduce(cells.values) <= LARGEST_NUMBER and np.fmin.reduce(cells.values) >= -LARGEST_NUMBER):
                self._tell_large(cells.values if rows is None else cells.values[rows], rows, place, faults)
            if np.isnan(cells.values).any():
                self._missing(column, site, cells.values if rows is None else cells.values[rows], rows, place, faults)
            return
        if isinstance(cells, Texts):
            codes = cells.codes if rows is None else cells.codes[rows]
            used, codes = np.unique(codes, return_inverse=True)
            values: list[object] = [None if code < 0 else cells.values[code] for code in used.tolist()]
        else:
            numbers = cells.values if rows is None else cells.values[rows]
            used, codes = np.unique(numbers, return_inverse=True)
            values = [None if value != value else value for value in used.tolist()]
        parsed = []
        for value in values:  # each different one is parsed once
            try:
                parsed.append(self._parse(column, value, is_day=isinstance(cells, Days)))
            except CellError as error:
                found = np.flatnonzero(codes == len(parsed))
                got = f"{error.got} ({len(found):,} rows)" if len(found) > 1 else error.got
                at = int(found[0]) if rows is None else int(rows[found[0]])
                faults.add(place(at), error.expected, got, _HINT, kind=("cell", column.name))
                parsed.append((0.0, NO_ENTRIES))
        if column.has_number:
            self._dense[site][:, self._schema.number_place(column)] = np.array([number for number, _ in parsed])[codes]
        self._put(site, np.arange(len(codes)), codes.astype(np.int64), [entries for _, entries in parsed])

    def _parse(self, column: Column, value: object, *, is_day: bool) -> tuple[float, Entries]:
        if not is_day or value is None:
            return self._schema.parse(column, value)
        if column.kind not in (DATE, TIME):
            raise CellError(f"a cell of the kind {column.kind}", "a date")
        assert isinstance(value, float)
        return self._schema.moment(column, value)

    def _missing(
        self, column: Column, site: int, values: Vector, rows: Rows | None, place: Callable[[int], str], faults: Faults
    ) -> None:
        missing = np.flatnonzero(np.isnan(values))
        if len(missing):
            try:
                self._put(site, missing, np.zeros(len(missing), np.int64), [self._schema.parse(column, None)[1]])
            except CellError as error:
                at = int(missing[0]) if rows is None else int(rows[missing[0]])
                faults.add(place(at), error.expected, error.got, _HINT)

    def _put(self, site: int, rows: Rows, codes: Rows, entries: Sequence[Entries]) -> None:
        """Add the entries of each row's code."""
        lengths = np.array([len(places) for places, _ in entries])
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.array([place for found, _ in entries for place in found], dtype=np.int64)
        values = np.array([value for _, found in entries for value in found], dtype=np.float64)
        of_row = lengths[codes]
        if not of_row.any():
            return
        at = np.arange(of_row.sum()) + np.repeat(starts[codes] - (np.cumsum(of_row) - of_row), of_row)
        row_of = np.repeat(rows, of_row)
        if self._schema.is_sparse:
            self._entries[site].append((row_of, places[at], values[at]))
        else:
            self._dense[site][row_of, places[at]] += values[at]

    def _fill(self, site: int) -> None:
        """Put the columns of numbers into the site's rows, some rows of all columns at a time: caches are small."""
        dense = self._dense[site]
        for start in range(0, len(dense), _AT_ONCE):
            block = dense[start : start + _AT_ONCE]
            for column, values, rows in self._numbers[site]:
                stop = start + len(block)
                block[:, column] = values[start:stop] if rows is None else values[rows[start:stop]]
        self._numbers[site].clear()

    def _tell_large(self, values: Vector, rows: Rows | None, place: Callable[[int], str], faults: Faults) -> None:
        """Faults for numbers that are too large: NaN is none."""
        with np.errstate(invalid="ignore"):
            bad = np.flatnonzero(np.abs(values) > LARGEST_NUMBER)
        for row in bad[:3].tolist():
            expected = "a finite number" if np.isinf(values[row]) else f"a number up to {LARGEST_NUMBER:g}"
            faults.add(place(row if rows is None else int(rows[row])), expected, str(float(values[row])))

    def rows(self) -> list[Matrix | SparseRows]:
        """Each site's rows, shape (n, schema.width)."""
        for site in range(len(self._dense)):
            self._fill(site)
        if not self._schema.is_sparse:
            return list(self._dense)
        return [self._sparse(site) for site in range(len(self._dense))]

    def _sparse(self, site: int) -> SparseRows:
        numbers = self._dense[site]
        num_rows, num_numbers = numbers.shape
        nothing = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
        row_of, places, filled = zip(*[nothing, *self._entries[site]], strict=True)
        rest = add_up(
            np.concatenate(row_of), np.concatenate(places), np.concatenate(filled), num_rows, self._schema.width
        )
        lengths = np.diff(rest.indptr) + num_numbers
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        front = indptr[:-1, np.newaxis] + np.arange(num_numbers)
        is_front = np.zeros(int(indptr[-1]), dtype=bool)
        is_front[front] = True
        indices = np.empty(len(is_front), dtype=np.int32)
        values = np.empty(len(is_front))
        indices[front], values[front] = np.arange(num_numbers), numbers
        indices[~is_front], values[~is_front] = rest.indices, rest.values
        return SparseRows(indptr, indices, values, self._schema.width)
