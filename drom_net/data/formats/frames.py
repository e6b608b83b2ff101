"""Frames in memory (pandas, polars, pyarrow, and what else narwhals knows): read as files are, and made."""

from __future__ import annotations

import datetime
import importlib.util
import numbers
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from drom_net.core.errors import DataError, Problem, UsageError
from drom_net.data.cells import plain_text
from drom_net.data.faults import Faults, extra, quoted
from drom_net.data.formats.arrow import gather, pyarrow
from drom_net.data.formats.base import TableFormat
from drom_net.data.formats.parquet import is_readable
from drom_net.data.tables import Cells, FileTable, Wanted, named_columns

KINDS = ("pandas", "pyarrow", "polars")
"""Of frames that are made, the first that is installed by default."""


class Frames(TableFormat):
    """Frames in place of files of these names."""

    name = "frames"
    suffixes = ()
    extra = "tables"

    def __init__(self, frames: Mapping[str, Any]) -> None:
        """
        Args:
            frames: By what messages call them.

        Raises:
            DataError: One is no frame.
            UsageError: narwhals or pyarrow is missing.
        """
        with extra("tables", "frames"):
            import narwhals
        pyarrow("frames")
        self._frames = {}
        for shown, frame in frames.items():
            try:
                self._frames[shown] = narwhals.from_native(frame, eager_only=True)
            except narwhals.exceptions.DuplicateError:
                raise DataError([Problem(shown, "columns with different names", "a name that comes again")]) from None
            except TypeError:
                hint = "a lazy frame needs .collect()" if hasattr(frame, "collect") else ""
                expected, got = "a frame of pandas, polars or pyarrow", f"a {type(frame).__name__}"
                raise DataError([Problem(shown, expected, got, hint)]) from None

    def header(self, path: Path, shown: str, wanted: Wanted, faults: Faults) -> tuple[str, ...] | None:
        names = self._frames[shown].columns
        for name in names:
            if not isinstance(name, str):
                faults.add(shown, "texts as column names", repr(name), "frame.columns = frame.columns.astype(str)")
                return None
        return named_columns([name.strip() for name in names], shown, faults)

    def table(self, path: Path, shown: str, wanted: Wanted, faults: Faults) -> FileTable | None:
        pa = pyarrow("frames")
        frame, before = self._frames[shown], faults.count
        if not len(frame):
            faults.add(shown, "rows", "none")
            return None
        arrays = {}
        for column in frame.columns:
            if (name := column.strip()) not in wanted.skip:
                arrays[name] = _array(frame.get_column(column), f"{shown}, column {quoted(name)}", faults, pa)
        if faults.count > before:
            return None
        columns: dict[str, Cells]
        columns, num_rows = gather(pa.table(arrays).to_batches(), list(arrays), wanted, pa)
        return FileTable(shown, num_rows, columns)


def _array(series: Any, place: str, faults: Faults, pa: Any) -> Any:
    """A column of a frame as pyarrow has it; None after faults."""
    hint = "data.ignore leaves it out"
    try:
        array = series.to_arrow()
    except (pa.ArrowException, TypeError, ValueError):  # a column of objects of several types
        array = _mixed(series, pa)
    if array is None:
        kinds = sorted({type(cell).__name__ for cell in series.drop_nulls().to_list()})
        faults.add(place, "numbers, texts, dates or yes/no", f"values of the types {', '.join(kinds)}", hint)
        return None
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.string())
    if not is_readable(array.type, pa):
        faults.add(place, "numbers, texts, dates or yes/no", f"the type {array.type}", hint)
    return array


def _mixed(series: Any, pa: Any) -> Any:
    """Numbers, dates and texts such as "-" in one column, as texts like those of a CSV file; None of anything else."""
    cells = [None if none else cell for none, cell in zip(series.is_null().to_list(), series.to_list(), strict=True)]
    if not all(isinstance(cell, str | numbers.Number | np.bool_ | datetime.date | None) for cell in cells):
        return None
    return pa.array([None if cell is None else plain_text(cell) for cell in cells], pa.string())


def make_frame(columns: Mapping[str, Any], kind: str | None = None) -> Any:
    """A frame of these columns.

    Args:
        columns: Sequences or arrays of one length.
        kind: One of `KINDS`; None takes the first of them that is installed.

    Raises:
        UsageError: There is no such kind, or its package is missing.
    """
    kinds: Sequence[str] = KINDS if kind is None else (kind,)
    found = [one for one in kinds if one in KINDS and importlib.util.find_spec(one) is not None]
    if not found:
        expected = " or ".join(KINDS)
        raise UsageError(f"frames: expected {expected}, installed, got {quoted(kind) if kind else 'none of them'}")
    with extra("tables", "frames"):
        import narwhals
    return narwhals.from_dict(dict(columns), backend=import_module(found[0])).to_native()
