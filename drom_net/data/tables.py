"""Whole tables, CSV and Parquet, read by pyarrow: each column as numbers, as days, or as codes of its different texts.

A CSV file's encoding, delimiter and decimal comma are found by looking at its beginning, where the settings do not say
them. What is wrong with a file is told by its line, in a second, slower pass.
"""

from __future__ import annotations

import codecs
import csv
import io
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
from drom_net.data.columns import MISSING
from drom_net.data.faults import Faults, extra, parse_number, quoted
from drom_net.data.readers import INDEX_OF_PANDAS, opened, reading

TABLE_FORMATS = ("csv", "parquet")
"""Formats whose columns have names."""
_SAMPLE_BYTES = 1 << 18
_BLOCK_BYTES = 1 << 20
_LARGEST_BLOCK = 1 << 30
_DELIMITERS = ",;\t|"
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_NO_TEXT = {
    b"\x1f\x8b": "gzip data: its name should end with .gz",
    b"\x28\xb5\x2f\xfd": "zstd data: its name should end with .zst",
    b"PK\x03\x04": "a ZIP archive or a workbook: export the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "a workbook of an old Excel: export the sheet as CSV",
    b"PAR1": "Parquet: its name should end with .parquet",
    b"%PDF": "a PDF",
}
"""What files that are no text begin with."""
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


class Dialect(NamedTuple):
    """How a CSV file is written."""

    encoding: str
    delimiter: str
    decimal: str
    header: tuple[str, ...]
    blank_lines: int
    """So many come before the header."""

    @property
    def in_words(self) -> str:
        """What is not usual about it; empty for commas, points and UTF-8."""
        names = {";": "semicolons", "\t": "tabs", "|": "bars"}
        words = [names[self.delimiter]] if self.delimiter in names else []
        words += ["decimal commas"] if self.decimal == "," else []
        words += [self.encoding] if self.encoding not in ("utf-8", "utf-8-sig") else []
        return ", ".join(words)


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
        with opened(self.path) as file, _decoded(file, self.dialect.encoding) as lines:
            rows = csv_rows(lines, self.shown, Faults(), self.dialect.delimiter)
            line, _ = next(itertools.islice(rows, row + 1, None), (0, []))
        return f"{self.shown}:{line}, column {quoted(column)}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read, and how.

    Attributes:
        texts: Columns that are texts, whatever they look like.
        names: Those of them whose texts are names: nothing but an empty one is missing. NA may be a continent.
        skip: Columns that are not read.
        missing: What means missing beside `columns.MISSING`.
        delimiter, decimal, encoding: Of CSV; None is found.
    """

    texts: Collection[str] = ()
    names: Collection[str] = ()
    skip: Collection[str] = ()
    missing: tuple[str, ...] = ()
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None


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


# --- CSV ---------------------------------------------------------------------------------------------


def find_dialect(path: Path, shown: str, wanted: Wanted, faults: Faults) -> Dialect | None:
    """How a CSV file is written, and its header; None after faults."""
    before = faults.count
    data = b""
    with reading(path, shown, faults), opened(path) as file:
        data = file.read(_SAMPLE_BYTES)
    if faults.count > before:
        return None
    if what := next((what for start, what in _NO_TEXT.items() if data.startswith(start)), ""):
        faults.add(shown, "a table as text", what)
        return None
    try:
        encoding = codecs.lookup(wanted.encoding).name if wanted.encoding else _find_encoding(data)
    except LookupError:
        faults.add("data.encoding", "the name of an encoding", quoted(wanted.encoding or ""))
        return None
    if encoding == "utf-8" and data.startswith(codecs.BOM_UTF8):
        encoding = "utf-8-sig"
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(data, final=len(data) < _SAMPLE_BYTES)
    except UnicodeError:
        if wanted.encoding is None and encoding == "utf-8" and _is_single_byte(path):
            encoding = "cp1252"
        text = data.decode(encoding, errors="replace")  # whoever reads all of it tells where it is damaged
    lines = text.splitlines(keepends=True)
    if len(data) == _SAMPLE_BYTES and len(lines) > 1:
        lines.pop()  # it may be cut
    delimiter = wanted.delimiter or _find_delimiter(lines)
    blank = next((index for index, line in enumerate(lines) if line.strip()), len(lines))
    rows = list(itertools.islice(_lenient_rows(lines[blank:], delimiter), 200))
    if not rows:
        faults.add(shown, "a line of column names", "an empty file")
        return None
    header = _named_columns([cell.strip() for cell in rows[0]], f"{shown}:{blank + 1}", faults)
    if header is None:
        return None
    decimal = wanted.decimal or ("," if delimiter != "," and _has_decimal_commas(rows[1:]) else ".")
    return Dialect(encoding, delimiter, decimal, header, blank)


def _find_encoding(data: bytes) -> str:
    for bom, name in _BOMS.items():
        if data.startswith(bom):
            return name
    if len(data) > 3 and data[:200].count(0) * 3 > len(data[:200]):
        return "utf-16-le" if data[1] == 0 else "utf-16-be"
    return "utf-8"


def _lenient_rows(lines: Sequence[str], delimiter: str) -> Iterator[list[str]]:
    """Cells of the rows that are not blank, as far as they can be read."""
    try:
        for cells in csv.reader(lines, delimiter=delimiter):
            if any(cell.strip() for cell in cells):
                yield cells
    except csv.Error:
        return


def _find_delimiter(lines: Sequence[str]) -> str:
    """The one that gives the most columns of which most rows have the same number."""

    def fitness(delimiter: str) -> tuple[float, int]:
        lengths = [len(cells) for cells in itertools.islice(_lenient_rows(lines, delimiter), 50)]
        if not lengths or lengths[0] < 2:
            return 0.0, 0
        same = sum(length == lengths[0] for length in lengths) / len(lengths)
        return round(same, 1), lengths[0]

    best = max(_DELIMITERS, key=fitness)  # of equals the first
    return best if fitness(best)[1] else ","


def _has_decimal_commas(rows: Sequence[Sequence[str]]) -> bool:
    """Whether there are numbers such as 31,7, and none such as 31.7."""
    cells = [cell.strip() for row in rows for cell in row]
    commas = sum(cell.count(",") == 1 and parse_number(cell.replace(",", ".")) is not None for cell in cells)
    points = sum("." in cell and parse_number(cell) is not None for cell in cells)
    return commas > 0 and not points


def _named_columns(header: list[str], place: str, faults: Faults) -> tuple[str, ...] | None:
    """The column names, of those without one as well; None after faults."""
    before = faults.count
    names = [name or f"column {index}" for index, name in enumerate(header, start=1)]
    for index, name in enumerate(names):
        if name in names[:index]:
            faults.add(f"{place}, column {index + 1}", "a name of its own", f"{quoted(name)} again")
    return tuple(names) if faults.count == before else None


def csv_rows(lines: Iterable[str], shown: str, faults: Faults, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Line number (from 1) and cells of each row that is not blank; ends where the quotes do not match."""
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            faults.add(f"{shown}:{line}", "a row of separated fields", f"a csv error ({error})")
            return
        if len(cells) > 1 or (cells and cells[0].strip()):
            yield line, cells


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
                elif "UTF8" in text and dialect.encoding == "utf-8" and not wanted.encoding and _is_single_byte(path):
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


def _is_single_byte(path: Path) -> bool:
    """Whether a file that is not UTF-8 has nothing that is UTF-8 beyond ASCII: it is cp1252 then, and not damaged."""
    with opened(path) as file:
        for line in file:
            if not line.isascii():
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError:
                    continue
                return False
    return True


def _explain(path: Path, dialect: Dialect, shown: str, error: str, faults: Faults) -> None:
    """What is wrong with a CSV file, by line."""
    before = faults.count
    with opened(path) as file, _decoded(file, dialect.encoding) as lines:
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


@contextmanager
def _decoded(file: Any, encoding: str) -> Iterator[Iterator[str]]:
    """The lines of a file; UTF-8 may have a byte order mark."""
    text = io.TextIOWrapper(file, "utf-8-sig" if encoding == "utf-8" else encoding, newline="")
    try:
        yield text
    finally:
        text.detach()  # the file is closed by whoever has opened it


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
    return _named_columns(names, shown, faults)


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
