"""What is read of a file: columns by their names, or rows of numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Matrix, Vector
from drom_net.data.faults import Faults, quoted
from drom_net.data.stream import SparseRows


class Numbers(NamedTuple):
    """A column of numbers."""

    values: Vector
    """NaN for missing."""


class Days(NamedTuple):
    """A column of dates or times, as days since 1970-01-01."""

    values: Vector
    has_time: bool


class Texts(NamedTuple):
    """A column of texts."""

    codes: npt.NDArray[np.int64]
    """Which of `values` a row has; -1 for missing."""
    values: list[str]
    """The different ones, as the file has them, in order of appearance."""


Cells = Numbers | Days | Texts


@dataclass(frozen=True)
class FileTable:
    """A file's columns.

    Attributes:
        shown: The file's name in messages.
        cells: By column name, in the file's order.
        remark: What people should know of how it is written; empty for nothing.
        line: Where a row (from 0) begins, as the line's number from 1; None where a file has no lines.
    """

    shown: str
    num_rows: int
    cells: dict[str, Cells]
    remark: str = ""
    line: Callable[[int], int] | None = None

    def place(self, row: int, column: str) -> str:
        """Where a cell stands, for a message."""
        where = f", row {row + 1}" if self.line is None else f":{self.line(row)}"
        return f"{self.shown}{where}, column {quoted(column)}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read, and how.

    Attributes:
        texts: Columns that are texts, whatever they look like.
        written: Columns whose numbers or dates are read by a format: texts where a file has nothing but text (CSV);
            elsewhere what is a number or a date stays one.
        names: Those of them whose texts are names: nothing but an empty one is missing. NA may be a continent.
        skip: Columns that are not read.
        missing: What means missing beside `columns.MISSING`.
        delimiter, decimal, encoding: Of CSV; None is found.
    """

    texts: Collection[str] = ()
    written: Collection[str] = ()
    names: Collection[str] = ()
    skip: Collection[str] = ()
    missing: tuple[str, ...] = ()
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None


def named_columns(header: list[str], place: str, faults: Faults) -> tuple[str, ...] | None:
    """The column names, of those without one as well; None after faults."""
    before = faults.count
    names = [name or f"column {index}" for index, name in enumerate(header, start=1)]
    for index, name in enumerate(names):
        if name in names[:index]:
            faults.add(f"{place}, column {index + 1}", "a name of its own", f"{quoted(name)} again")
    return tuple(names) if faults.count == before else None


def as_texts(cells: Cells) -> Texts:
    """A column as codes of its different values."""
    if isinstance(cells, Texts):
        return cells
    present = ~np.isnan(cells.values)
    found, codes_of = np.unique(cells.values[present], return_inverse=True)
    codes = np.full(len(cells.values), -1, dtype=np.int64)
    codes[present] = codes_of
    return Texts(codes, [repr(value).removesuffix(".0") for value in found.tolist()])


def counts(texts: Texts, rows: npt.NDArray[np.int64] | None = None) -> Counter[str]:
    """How often each text comes in some rows (by default all); "" for missing."""
    found: Counter[str] = Counter()
    codes = texts.codes if rows is None else texts.codes[rows]
    numbers = np.bincount(codes + 1, minlength=len(texts.values) + 1).tolist()
    for value, number in zip(["", *texts.values], numbers, strict=True):
        if number:
            found[value] += number
    return found


# --- rows of numbers ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """A file of numbers, and what to take from it.

    Attributes:
        shown: Its name in messages.
        dim: Features are numbered below it, where that is known.
        zero_based: Whether feature numbers start at 0.
        label, task_column: Where they are, in a file that has names for them.
        keep: Only rows whose task column says this; None takes all.
    """

    path: Path
    shown: str
    dim: int | None = None
    zero_based: bool = False
    label: str = "label"
    task_column: str | None = None
    keep: str | None = None


@dataclass(frozen=True, slots=True)
class NumberTable:
    """What a file of numbers says, not yet preprocessed.

    Attributes:
        rows: Shape (n, d); the values may be infinite or NaN.
        labels: One text for each row, as in the file.
        tasks: One name for each row; None without a task column.
        place: Where row `r` (and column `c`, or the label for None) stands, for a message.
    """

    rows: Matrix | SparseRows
    labels: Sequence[str]
    tasks: Sequence[str] | None
    place: Callable[[int, int | None], str]

    @property
    def dim(self) -> int:
        return self.rows.dim if isinstance(self.rows, SparseRows) else self.rows.shape[1]


def check_finite(table: NumberTable, shown: str, faults: Faults) -> None:
    """A fault for each NaN and infinity."""
    rows = table.rows
    if isinstance(rows, SparseRows):
        entries = np.flatnonzero(~np.isfinite(rows.values))
        places = np.searchsorted(rows.indptr, entries, side="right") - 1
        bad = zip(places, rows.indices[entries], rows.values[entries], strict=True)
    else:
        where = np.nonzero(~np.isfinite(rows))
        bad = zip(*where, rows[where], strict=True)
    for row, column, value in bad:
        place = table.place(int(row), int(column))
        faults.add(place, "a finite number", str(float(value)), kind=(shown, "finite", int(column)))
