"""Whole tables, CSV and Parquet, read by pyarrow: each column as numbers, as days, or as codes of its different texts.

A CSV file's encoding, delimiter and decimal comma are found by looking at its beginning, where the settings do not say
them. What is wrong with a file is told by its line, in a second, slower pass.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Vector
from drom_net.data.cells import MISSING
from drom_net.data.dialects import Dialect, Wanted, csv_rows, decoded, find_dialect, is_single_byte, named_columns
from drom_net.data.faults import Faults, extra, quoted
from drom_net.data.readers import INDEX_OF_PANDAS, opened, reading

TABLE_FORMATS = ("csv", "parquet")
"""Formats whose columns have names."""
_BLOCK_BYTES = 1 << 20
_LARGEST_BLOCK = 1 << 30
_DAY = 86_400


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
        dialect: Of CSV.
    """

    path: Path
    shown: str
    num_rows: int
    cells: dict[str, Cells]
    dialect: Dialect | None = None

    def place(self, row: int, column: str) -> str:
        """Where a cell stands, for a message."""
        if self.dialect is None:
            return f"{self.shown}, row {row + 1}, column {quoted(column)}"
        with opened(self.path) as file, decoded(file, self.dialect.encoding) as lines:
            rows = csv_rows(lines, self.shown, Faults(), self.dialect.delimiter)
            line, _ = next(itertools.islice(rows, row + 1, None), (0, []))
        return f"{self.shown}:{line}, column {quoted(column)}"


def read_header(path: Path, shown: str, format: str, wanted: Wanted, faults: Faults) -> tuple[str, ...] | None:
    """The names of a table's columns; None after faults."""
    if format == "csv":
        dialect = find_dialect(path, shown, wanted, faults)
        return dialect and dialect.header
    with extra("tables", "Parquet files"):
        import pyarrow.parquet as pq
    with _parquet_faults(path, shown, faults), opened(path) as file:
        return _names_of_parquet(pq.ParquetFile(file), shown, faults)
    return None


def read_file(path: Path, shown: str, format: str, wanted: Wanted, faults: Faults) -> FileTable | None:
    """A table; None after faults.

    Raises:
        UsageError: pyarrow is missing.
    """
    return _read_csv(path, shown, wanted, faults) if format == "csv" else _read_parquet(path, shown, wanted, faults)


def _pyarrow(what: str) -> Any:
    """The package. Its memory goes back to the system: what is kept of a table are arrays of our own."""
    with extra("tables", what):
        import pyarrow as pa
    pa.set_memory_pool(pa.system_memory_pool())
    return pa


def _read_csv(path: Path, shown: str, wanted: Wanted, faults: Faults) -> FileTable | None:
    pa = _pyarrow("CSV files")
    dialect = find_dialect(path, shown, wanted, faults)
    if dialect is None:
        return None
    before = faults.count
    names = dialect.header
    kept = [name for name in names if name not in wanted.skip]
    types: dict[str, Any] = dict.fromkeys((name for name in kept if name in wanted.texts), pa.string())
    block = _BLOCK_BYTES
    with reading(path, shown, faults):
        while True:
            try:
                with _open_csv(path, dialect, kept, types, wanted, block) as reader:
                    types = _types_of(reader.schema, pa)
                with _open_csv(path, dialect, kept, types, wanted, block) as reader:
                    columns, num_rows = _gather(reader, kept, wanted, pa)
                break
            except pa.ArrowInvalid as error:
                text = str(error)
                if "straddl" in text and block < _LARGEST_BLOCK:  # a row that is longer than a block
                    block = min(16 * block, _LARGEST_BLOCK)
                elif "UTF8" in text and dialect.encoding == "utf-8" and not wanted.encoding and is_single_byte(path):
                    dialect = dialect._replace(encoding="cp1252")
                elif "onversion error" in text and any(kind != pa.string() for kind in types.values()):
                    types = dict.fromkeys(kept, pa.string())  # what begins as numbers goes on as something else
                else:
                    _explain(path, dialect, shown, text, faults)
                    return None
            except UnicodeError:
                _explain(path, dialect, shown, "undecodable bytes", faults)
                return None
    if faults.count > before:
        return None
    if not num_rows:
        faults.add(shown, "rows below the column names", "none")
        return None
    cells = {name: columns[name] for name in kept}
    return FileTable(path, shown, num_rows, cells, dialect)


@contextmanager
def _open_csv(
    path: Path, dialect: Dialect, kept: Sequence[str], types: Mapping[str, Any], wanted: Wanted, block: int
) -> Iterator[Any]:
    """A reader of record batches, of the columns that are kept."""
    import pyarrow.csv as pc

    read = pc.ReadOptions(
        block_size=block,
        column_names=list(dialect.header),
        skip_rows=dialect.blank_lines,
        skip_rows_after_names=1,
        encoding="utf-8" if dialect.encoding == "utf-8-sig" else dialect.encoding,
    )
    parse = pc.ParseOptions(
        delimiter=dialect.delimiter,
        newlines_in_values=True,
        invalid_row_handler=lambda row: "error" if row.text.strip() else "skip",  # a line of blanks is no row
    )
    convert = pc.ConvertOptions(
        column_types=dict(types),
        include_columns=list(kept),
        null_values=[*MISSING, *wanted.missing],
        decimal_point=dialect.decimal,
    )
    with (
        opened(path) as file,
        pc.open_csv(file, read_options=read, parse_options=parse, convert_options=convert) as reader,
    ):
        yield reader


def _types_of(schema: Any, pa: Any) -> dict[str, Any]:
    """What each column is read as: whole numbers as all numbers; yes/no, and what is empty at first, as texts."""

    def kind(found: Any) -> Any:
        if pa.types.is_integer(found) or pa.types.is_floating(found):
            return pa.float64()
        return found if pa.types.is_timestamp(found) or pa.types.is_date(found) else pa.string()

    return {field.name: kind(field.type) for field in schema}


def _explain(path: Path, dialect: Dialect, shown: str, error: str, faults: Faults) -> None:
    """What is wrong with a CSV file, by line."""
    before = faults.count
    with opened(path) as file, decoded(file, dialect.encoding) as lines:
        try:
            for line, cells in csv_rows(lines, shown, faults, dialect.delimiter):
                if len(cells) != len(dialect.header):
                    expected = f"{len(dialect.header)} fields, as in the header"
                    faults.add(f"{shown}:{line}", expected, str(len(cells)), kind=(shown, "ragged"))
        except UnicodeDecodeError as found:
            line = _line_of_bad_byte(path, dialect.encoding)
            bad = found.object[found.start]
            names = {"utf-8": "UTF-8", "utf-8-sig": "UTF-8"}
            faults.add(f"{shown}:{line}", f"{names.get(dialect.encoding, dialect.encoding)} text", f"byte 0x{bad:02x}")
    if faults.count == before:
        faults.add(shown, "a table", f"an error ({error.splitlines()[0]})")


def _line_of_bad_byte(path: Path, encoding: str) -> int:
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError:
                return number
    return 0


# --- Parquet -----------------------------------------------------------------------------------------


@contextmanager
def _parquet_faults(path: Path, shown: str, faults: Faults) -> Iterator[None]:
    """What damage raises within becomes a fault, and ends the block."""
    pa = _pyarrow("Parquet files")

    with reading(path, shown, faults):
        try:
            yield
        except (pa.ArrowException, ValueError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the system, not of pyarrow
                raise
            faults.add(shown, "a whole Parquet file", "a damaged one or another file")


def _names_of_parquet(file: Any, shown: str, faults: Faults) -> tuple[str, ...] | None:
    # What pandas writes for an index without a name is no column.
    names = [name.strip() for name in file.schema_arrow.names if not INDEX_OF_PANDAS.match(name)]
    return named_columns(names, shown, faults)


def _read_parquet(path: Path, shown: str, wanted: Wanted, faults: Faults) -> FileTable | None:
    pa = _pyarrow("Parquet files")
    import pyarrow.parquet as pq

    before = faults.count
    columns: dict[str, Cells] = {}
    num_rows = 0
    with _parquet_faults(path, shown, faults), opened(path) as raw:
        file = pq.ParquetFile(raw)
        names = _names_of_parquet(file, shown, faults)
        if names is None:
            return None
        kept = [name for name in names if name not in wanted.skip]
        fields = {field.name.strip(): field for field in file.schema_arrow}
        for name in kept:
            if not _is_readable(fields[name].type, pa):
                expected, got = "numbers, texts, dates or yes/no", f"the type {fields[name].type}"
                faults.add(f"{shown}, column {quoted(name)}", expected, got, "data.ignore leaves it out")
        if faults.count > before:
            return None
        batches = file.iter_batches(batch_size=1 << 16, columns=[fields[name].name for name in kept])
        columns, num_rows = _gather(batches, kept, wanted, pa)
    if faults.count > before:
        return None
    if not num_rows:
        faults.add(shown, "rows", "none")
        return None
    return FileTable(path, shown, num_rows, columns)


def _is_readable(kind: Any, pa: Any) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        (
            *(types.is_integer(kind), types.is_floating(kind), types.is_decimal(kind), types.is_boolean(kind)),
            *(types.is_string(kind), types.is_large_string(kind), types.is_timestamp(kind), types.is_date(kind)),
            *(types.is_null(kind), types.is_time(kind)),
        )
    )


# --- from pyarrow's arrays ---------------------------------------------------------------------------


class _Growing:
    """Numbers that are appended, in one array: many small ones would leave memory in pieces."""

    def __init__(self, dtype: Any) -> None:
        self._values = np.empty(1 << 16, dtype=dtype)
        self._count = 0

    def extend(self, part: npt.NDArray[Any]) -> None:
        count = self._count + len(part)
        if count > len(self._values):
            larger = np.empty(max(count, 2 * len(self._values)), dtype=self._values.dtype)
            larger[: self._count] = self._values[: self._count]
            self._values = larger
        self._values[self._count : count] = part
        self._count = count

    @property
    def values(self) -> npt.NDArray[Any]:
        return self._values[: self._count]


class _Column:
    """A column while its batches come."""

    def __init__(self, missing: Collection[str]) -> None:
        self._missing = missing
        self._numbers: _Growing | None = None
        self._is_days = self._has_time = False
        self._known: dict[str, int] = {}
        self._codes = _Growing(np.int64)

    def extend(self, part: Any) -> None:
        """Take what `_part` made of a batch."""
        if isinstance(part, Days):
            self._is_days, self._has_time, part = True, self._has_time or part.has_time, part.values
        if isinstance(part, np.ndarray):
            self._numbers = self._numbers or _Growing(np.float64)
            self._numbers.extend(part)
            return
        encoded = part.dictionary_encode()
        codes = [self._code(value) for value in encoded.dictionary.to_pylist()]
        self._codes.extend(np.array([*codes, -1])[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)])

    def _code(self, value: str) -> int:
        if value.strip() in self._missing:
            return -1
        return self._known.setdefault(value, len(self._known))

    @property
    def cells(self) -> Cells:
        if self._numbers is None:
            return Texts(self._codes.values, list(self._known))
        return Days(self._numbers.values, self._has_time) if self._is_days else Numbers(self._numbers.values)


def _gather(batches: Iterable[Any], names: Sequence[str], wanted: Wanted, pa: Any) -> tuple[dict[str, Cells], int]:
    """The columns of all batches, and how many rows they have."""
    columns = [_Column({""} if name in wanted.names else MISSING) for name in names]
    num_rows = 0
    for batch in batches:
        num_rows += batch.num_rows
        for name, column, part in zip(names, columns, batch.columns, strict=True):
            column.extend(_part(part, pa, as_text=name in wanted.texts))
    pa.default_memory_pool().release_unused()
    return {name: column.cells for name, column in zip(names, columns, strict=True)}, num_rows


def _part(column: Any, pa: Any, *, as_text: bool) -> Any:
    """One batch of a column: floats, Days, or an array of texts."""
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if types.is_string(kind):
        return column
    if types.is_timestamp(kind) and not as_text:
        return _days(column, pa)
    if types.is_date(kind) and not as_text:
        days = column.cast(pa.date32()).cast(pa.int32()).cast(pa.float64())
        return Days(_floats(days), False)
    if as_text or not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        return _as_text(column, pa)
    return _floats(column.cast(pa.float64(), safe=False))


def _as_text(column: Any, pa: Any) -> Any:
    """Whatever it is, as texts that `plain_text` makes alike."""
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        values = [None if value is None else repr(float(value)) for value in column.to_pylist()]
        return pa.array([None if value == "nan" else value for value in values], pa.string())
    return column.cast(pa.string())


def _floats(column: Any) -> Vector:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _days(column: Any, pa: Any) -> Days:
    """As `columns.days_of` counts them, to the last bit."""
    micro = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    missing = micro.is_null().to_numpy(zero_copy_only=False)
    ticks = micro.fill_null(0).to_numpy(zero_copy_only=False)
    days, rest = np.divmod(ticks, _DAY * 1_000_000)
    seconds, micros = np.divmod(rest, 1_000_000)
    values = days + (seconds + micros / 1e6) / float(_DAY)
    values[missing] = np.nan
    return Days(values, bool(rest[~missing].any()))


# --- columns as other things -------------------------------------------------------------------------


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
