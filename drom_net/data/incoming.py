"""Rows that come one by one, lines and requests of live data or rows to be predicted, as encoded rows. NumPy only."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from drom_net.algorithms.features import Features, Matrix, SparseVector
from drom_net.core.errors import Problem, did_you_mean
from drom_net.data.cells import LARGEST_NUMBER, CellError, shown
from drom_net.data.columns import NUMBER, Schema
from drom_net.data.faults import Faults, listed, parse_number, quoted
from drom_net.data.labels import NUMERIC, Labels
from drom_net.data.preprocessing import NO_SCALING, Preprocessing

SPARSE = {"indices", "values"}
LARGEST_SQUARE = 1e12
"""The most that the squares of a row's numbers, as its learner sees them, may add up to. A step moves the model by a
multiple of the row: one row that is far beyond it would end the cluster, and again whenever that is started again."""


class RowError(Exception):
    """A row or label that cannot be used."""

    def __init__(self, where: str, expected: str, got: str, hint: str = "") -> None:
        """
        Args:
            where: In the row: `column "age"`, `label`.
        """
        self.where, self.expected, self.got, self.hint = where, expected, got, hint
        self.more: list[RowError] = []
        """What else is wrong with the row."""
        super().__init__(f"{where}: expected {expected}, got {got}" + (f"; {hint}" if hint else ""))


class WrongRows:
    """What is wrong with many rows: how much in all, and the first of each column."""

    def __init__(self, shown: str) -> None:
        """
        Args:
            shown: What the rows are called in messages.
        """
        self._shown, self._faults, self._rows = shown, Faults(), 0

    @property
    def faults(self) -> Faults:
        """For what is wrong with no row by itself."""
        return self._faults

    def add(self, place: Callable[[RowError], str], error: RowError) -> None:
        """One more row.

        Args:
            place: Where one of its faults is.
        """
        self._rows += 1
        for one in (error, *error.more):
            self._faults.add(place(one), one.expected, one.got, one.hint, kind=one.where)

    def raise_if_any(self, good: int) -> None:
        """Raises DataError.

        Args:
            good: How many rows there are with which nothing is wrong.
        """
        got = f"{self._faults.count:,} faults in {self._rows:,} of {good + self._rows:,} rows"
        self._faults.raise_if_any(Problem(self._shown, "rows that can be used", got))


def raise_all(errors: Sequence[RowError]) -> None:
    """Raise the first, with the others."""
    if errors:
        errors[0].more = list(errors[1:])
        raise errors[0]


@dataclass(frozen=True)
class RowReader:
    """What the site's rows are.

    Attributes:
        preprocessing: What is done to each, with the schema of rows that have names.
        label: The label's column or key.
        labels: What labels mean.
        delimiter, decimal: Of CSV; None is found from the header, and follows from the delimiter.
    """

    preprocessing: Preprocessing
    label: str = "label"
    labels: Labels = NUMERIC
    delimiter: str | None = None
    decimal: str | None = None

    def to_json(self) -> dict[str, object]:
        """Plain values for JSON."""
        made, labels = self.preprocessing.to_json(), self.labels.to_json()
        more = {"label": self.label, "delimiter": self.delimiter, "decimal": self.decimal}
        return {"preprocessing": made, "labels": labels, **more}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RowReader:
        """What `to_json` gave, after JSON."""
        made, labels = Preprocessing.from_json(value["preprocessing"]), Labels.from_json(value["labels"])
        return cls(made, value["label"], labels, value["delimiter"], value["decimal"])

    @cached_property
    def sparse_dim(self) -> int:
        """Feature numbers of sparse rows, counted from 0, are below it."""
        schema = self.preprocessing.schema
        return self.preprocessing.raw_dim if schema is None else len(schema.used)

    @cached_property
    def _takes_all_numbers(self) -> bool:
        schema = self.preprocessing.schema
        return schema is not None and not schema.is_sparse and all(column.kind == NUMBER for column in schema.used)

    def sign(self, label: object) -> float:
        """-1.0 or +1.0; 0.0 where it is missing.

        Raises:
            RowError: It is no label.
        """
        sign = self.labels.sign(label) if label is None or isinstance(label, str | int | float) else None
        if sign is None:
            hint = "data.positive names the +1 of other labels" if self.labels.are_numbers else ""
            raise RowError("label", self.labels.expected, shown(label), hint)
        return sign

    def block(self, data: bytes) -> list[Features]:
        """Rows of numbers, as the bytes of float64 of shape (n, columns), little-endian; NaN is missing.

        Raises:
            RowError: They are not that, or infinite.
        """
        schema = self.preprocessing.schema
        width = self._dense_width() if schema is None else len(schema.used)
        if not data or len(data) % (8 * width):
            raise RowError("rows", f"n x {width} float64 of {8 * width} bytes a row", f"{len(data)} bytes")
        rows = np.frombuffer(data, dtype="<f8").reshape(-1, width)
        return self._dense(rows) if schema is None else [self._cells(row.tolist(), "feature") for row in rows]

    def row(self, row: object) -> Features:
        """One row: a sequence of all its cells; their names with their values; or indices (from 0) and values.

        Raises:
            RowError: It is not that, or a cell is not of its column's kind.
        """
        schema = self.preprocessing.schema
        if isinstance(row, Mapping):
            if row.keys() == SPARSE and not isinstance(row["values"], int | float):
                return self._sparse(row["indices"], row["values"])
            return self._named(row)
        width = self._dense_width() if schema is None else len(schema.used)
        if not isinstance(row, list | tuple) or len(row) != width:
            got = f"{len(row)} of them" if isinstance(row, list | tuple) else shown(row)
            raise RowError("row", f"{width} {'numbers' if schema is None else 'cells'}", got)
        if schema is not None:
            return self._cells(row, "feature")
        return self._dense([_numbers(row, lambda value, n: _number(value, f"number {n}"))])[0]

    def sparse(self, indices: Sequence[int], values: Sequence[float]) -> Features:
        """A row of increasing feature numbers from 0, below `sparse_dim`, and their values; the others are 0.

        Raises:
            RowError: It is not finite, or sparse rows cannot be used here.
        """
        made = self.preprocessing
        if made.schema is not None:
            if not self._takes_all_numbers:
                raise RowError("row", "cells by their names, for the columns have kinds", "a sparse one")
            cells = np.zeros(self.sparse_dim)
            cells[np.array(indices, dtype=np.int64)] = values
            return self._cells(cells.tolist(), "feature")
        if made.center is not None:
            raise RowError("row", "a dense one, for it is centered (data.center)", "a sparse one")
        filled = np.array(values, dtype=np.float64)
        chosen = np.flatnonzero(filled)
        picked, filled = np.array(indices, dtype=np.int32)[chosen], filled[chosen]
        if not np.isfinite(filled).all():
            raise RowError("values", "finite numbers", "others")
        return self._small_enough(SparseVector(picked, filled))

    def csv_columns(self, header: Sequence[str], *, labelled: bool = True) -> list[int]:
        """Where the cells of a row are in a line of CSV, in order; last, the label.

        Args:
            labelled: Whether there must be a label; without one the list ends before it.

        Raises:
            RowError: A column is missing, or there twice.
        """
        made = self.preprocessing
        label = [self.label] if labelled else []
        if made.schema is None:
            names = [name for name in header if name != self.label or not labelled]
            if len(names) != made.raw_dim:
                raise RowError("column names", f"{made.raw_dim} feature columns (data.dim)", str(len(names)))
            wanted = names + label
        else:
            wanted = [column.name for column in made.schema.used] + label
        for name in wanted:
            if header.count(name) != 1:
                got, hint = listed(header), did_you_mean(name, header)
                if name in header:
                    got, hint = str(header.count(name)), ""
                raise RowError("column names", f"one column {quoted(name)}", got, hint)
        return [header.index(name) for name in wanted]

    def csv_row(self, cells: Sequence[str], decimal: str = ".") -> Features:
        """A row from its cells, in the order of `csv_columns`.

        Raises:
            RowError: A cell is not of its column's kind; it names the column.
        """
        schema = self.preprocessing.schema
        if decimal == ",":
            used = schema.used if schema is not None else ()
            numbers = [column.kind == NUMBER and not column.format for column in used] or [True] * len(cells)
            cells = [cell.replace(",", ".") if of else cell for cell, of in zip(cells, numbers, strict=True)]
        if schema is not None:
            return self._cells(cells, "column")
        return self._dense([_numbers(cells, _number_of)])[0]

    def _dense_width(self) -> int:
        if self.preprocessing.hash is not None:
            raise RowError("row", "indices and values, for features are folded (data.hash)", "a dense one")
        return self.preprocessing.raw_dim

    def _cells(self, cells: Sequence[object], what: str) -> Features:
        schema = self.preprocessing.schema
        assert schema is not None
        try:
            if self._takes_all_numbers and all(type(cell) is float for cell in cells):
                row = np.zeros(schema.width)
                row[: len(cells)] = np.array(cells, dtype=np.float64)
                if np.abs(row).max(initial=0.0) <= 1e100:  # false for NaN, too
                    return self._small_enough(row)
            return self._small_enough(schema.encode(cells))
        except CellError:
            raise_all(list(_wrong_cells(schema, cells, what)))
            raise

    def _dense(self, numbers: Matrix | list[list[float]]) -> list[Features]:
        rows = np.asarray(numbers, dtype=np.float64)
        if not np.isfinite(rows).all():
            raise RowError("row", "finite numbers", "others")
        return [self._small_enough(row.copy()) for row in rows]  # one that is remembered does not keep the others

    def _named(self, row: Mapping[Any, object]) -> Features:
        schema = self.preprocessing.schema
        if schema is None:
            raise RowError("row", "numbers without names, or data.columns that has the names", "names")
        absent = [column.name for column in schema.used if column.name not in row]
        known = [key for key in row if isinstance(key, str)][:100]
        expected = "a value, or null where it is missing"
        raise_all([RowError(f"feature {quoted(name)}", expected, "none", did_you_mean(name, known)) for name in absent])
        return self._cells([row[column.name] for column in schema.used], "feature")

    def _sparse(self, indices: object, values: object) -> Features:
        if isinstance(indices, bytes) and isinstance(values, bytes) and not (len(indices) % 4 or len(values) % 8):
            indices, values = np.frombuffer(indices, "<i4").tolist(), np.frombuffer(values, "<f8").tolist()
        if not isinstance(indices, list) or not isinstance(values, list) or len(indices) != len(values):
            raise RowError("row", "as many indices as values", f"{shown(indices)} and {shown(values)}")
        before = -1
        for index in indices:
            if type(index) is not int or not before < index < self.sparse_dim:
                expected = f"increasing whole numbers from 0 to {self.sparse_dim - 1}"
                raise RowError("indices", expected, shown(index))
            before = index
        return self.sparse(indices, [_number(value, "values") for value in values])

    @cached_property
    def _by_constants(self) -> Preprocessing | None:
        """What shows how long a row becomes; None where it has unit norm."""
        made = self.preprocessing
        return None if made.normalize else dataclasses.replace(made, scaling=NO_SCALING, sites=None)

    def _small_enough(self, row: Features) -> Features:
        """The row, not to be written to any more."""
        made = self.preprocessing
        is_standardised = made.is_running and (made.schema is not None or isinstance(row, np.ndarray))
        if is_standardised and isinstance(row, np.ndarray) and (np.abs(row) > LARGEST_NUMBER).any():
            # One such number would be all that its column's mean and deviation ever see.
            raise RowError("row", f"numbers up to {LARGEST_NUMBER:g}", f"{np.abs(row).max():.4g}")
        if self._by_constants is not None and not is_standardised:
            prepared = self._by_constants.begin("").look(row)
            values = prepared.values if isinstance(prepared, SparseVector) else prepared
            with np.errstate(over="ignore", invalid="ignore"):
                square = float(np.dot(values, values))
            if not square <= LARGEST_SQUARE:
                expected = f"numbers whose squares, once preprocessed, add up to at most {LARGEST_SQUARE:g}"
                hint = "data.scaling, data.scale or data.normalize makes them smaller"
                raise RowError("row", expected, f"{square:.4g}", hint)
        for array in row if isinstance(row, SparseVector) else (row,):
            array.flags.writeable = False
        return row


def _wrong_cells(schema: Schema, cells: Sequence[object], what: str) -> Iterator[RowError]:
    for column, cell in zip(schema.used, cells, strict=True):
        try:
            schema.parse(column, cell)
        except CellError as error:
            yield RowError(f"{what} {quoted(column.name)}", error.expected, error.got)


def _numbers(cells: Sequence[Any], number_of: Callable[[Any, int], float]) -> list[float]:
    """All of a row's, each with its number from 1. Raises RowError of all that are none."""
    found, errors = [], []
    for n, cell in enumerate(cells, start=1):
        try:
            found.append(number_of(cell, n))
        except RowError as error:
            errors.append(error)
    raise_all(errors)
    return found


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RowError(where, "a number", shown(value))
    try:
        return float(value)
    except OverflowError:
        raise RowError(where, "a number that a float64 holds", shown(value)) from None


def _number_of(cell: str, number: int) -> float:
    value = parse_number(cell)
    return _number(cell, f"column {number}") if value is None else value


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
