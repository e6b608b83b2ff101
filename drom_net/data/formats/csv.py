"""CSV files, as whole tables and line by line.

What is wrong with a file is told by its line, in a second, slower pass.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from drom_net.algorithms.features import Features
from drom_net.core.errors import did_you_mean
from drom_net.data.cells import MISSING
from drom_net.data.faults import Faults, listed, quoted
from drom_net.data.formats.arrow import gather, pyarrow
from drom_net.data.formats.base import Example, LineFormat, LineParser, TableFormat, Tell
from drom_net.data.formats.dialects import Dialect, csv_rows, decoded, find_dialect, is_single_byte, likely_delimiter
from drom_net.data.incoming import RowError, RowReader, is_number
from drom_net.data.opening import opened, reading
from drom_net.data.tables import FileTable, Wanted

_BLOCK_BYTES = 1 << 20
_LARGEST_BLOCK = 1 << 30


class Csv(TableFormat, LineFormat):
    """Lines of column names first; of a table, by pyarrow."""

    name = "csv"
    suffixes = (".csv", ".tsv", ".tab", ".txt")
    line_suffixes = (".csv", ".tsv")
    extra = "tables"
    has_columns = True

    def header(self, path: Path, shown: str, wanted: Wanted, faults: Faults) -> tuple[str, ...] | None:
        dialect = find_dialect(path, shown, wanted, faults)
        return dialect and dialect.header

    def table(self, path: Path, shown: str, wanted: Wanted, faults: Faults) -> FileTable | None:
        pa = pyarrow("CSV files")
        dialect = find_dialect(path, shown, wanted, faults)
        if dialect is None:
            return None
        before = faults.count
        names = dialect.header
        kept = [name for name in names if name not in wanted.skip]
        as_texts = {*wanted.texts, *wanted.written}
        types: dict[str, Any] = dict.fromkeys((name for name in kept if name in as_texts), pa.string())
        block = _BLOCK_BYTES
        with reading(path, shown, faults):
            while True:
                try:
                    with _open_csv(path, dialect, kept, types, wanted, block) as reader:
                        types = _types_of(reader.schema, pa)
                    with _open_csv(path, dialect, kept, types, wanted, block) as reader:
                        columns, num_rows = gather(reader, kept, wanted, pa)
                    break
                except pa.ArrowInvalid as error:
                    text = str(error)
                    if "straddl" in text and block < _LARGEST_BLOCK:  # a row that is longer than a block
                        block = min(16 * block, _LARGEST_BLOCK)
                    elif (
                        "UTF8" in text and dialect.encoding == "utf-8" and not wanted.encoding and is_single_byte(path)
                    ):
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
        return FileTable(shown, num_rows, cells, dialect.in_words, partial(_line_of, path, dialect))

    def parser(self, rows: RowReader) -> _Parser:
        return _Parser(rows)

    def unlabelled(
        self, lines: Iterable[str], rows: RowReader, tell: Tell, site: str = "", *, needs_site: bool = False
    ) -> Iterator[tuple[Features, object]]:
        """It may do without column names where the schema has none, and fields may have line breaks in quotes."""
        lines = iter(lines)
        first = next((line for line in lines if line.strip()), None)
        if first is None:
            if rows.preprocessing.schema is not None or needs_site:
                with_site = "" if rows.preprocessing.schema is not None else f", with {quoted(site)}"
                tell(1, RowError("line", f"column names{with_site}", "nothing"))
            return
        try:
            header = _Header(rows, first, labelled=False)
            at = header.names.index(site) if site and header.names.count(site) == 1 else None
            if at is None and needs_site:
                hint = did_you_mean(site, header.names)
                raise RowError("column names", f"one column {quoted(site)}", listed(header.names), hint)
        except RowError as error:
            tell(1, error)
            return
        read = 1
        if rows.preprocessing.schema is None and any(map(is_number, header.names)):
            lines, read = itertools.chain([first], lines), 0
        for number, cells in csv_rows(
            lines, header.delimiter, lambda line, *fault: tell(line + read, RowError("line", *fault))
        ):
            try:
                yield header.read(cells)[0], None if at is None else cells[at]
            except RowError as error:
                tell(number + read, error)


@contextlib.contextmanager
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

    def tell(line: int, expected: str, got: str) -> None:
        faults.add(f"{shown}:{line}", expected, got)

    with opened(path) as file, decoded(file, dialect.encoding) as lines:
        try:
            for line, cells in csv_rows(lines, dialect.delimiter, tell):
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


def _line_of(path: Path, dialect: Dialect, row: int) -> int:
    with opened(path) as file, decoded(file, dialect.encoding) as lines:
        rows = csv_rows(lines, dialect.delimiter, lambda *fault: None)
        return next(itertools.islice(rows, row + 1, None), (0, []))[0]


# --- line by line ------------------------------------------------------------------------------------


class _Header:
    """The columns of CSV lines, once their header is known."""

    def __init__(self, reader: RowReader, header: str, *, labelled: bool = True) -> None:
        """
        Args:
            header: The line of column names.

        Raises:
            RowError: It is no such line.
        """
        self._reader = reader
        self.delimiter = reader.delimiter or likely_delimiter(header)
        self._decimal = reader.decimal or ("," if self.delimiter != "," else ".")
        self.names = [cell.strip() for cell in self.split(header)]
        self._columns = reader.csv_columns(self.names, labelled=labelled)
        self._label = reader.label
        schema = reader.preprocessing.schema
        self._known = {reader.label, *self.names, *(column.name for column in (schema.used if schema else ()))}
        self._labelled = labelled

    def is_another(self, line: str) -> bool:
        """Whether a line is one of column names again, fitting or not, and no row: it has no number, and the label's
        name beside another one."""
        if self._label not in line:
            return False
        cells = {cell.strip() for cell in self.split(line)}
        known = cells.intersection(self._known)
        return self._label in known and len(known) > 1 and not any(map(is_number, cells))

    def is_row(self, line: str) -> bool:
        """Whether a line is a row, perhaps a bad one."""
        with contextlib.suppress(RowError):
            cells = self.split(line)
            if any(map(is_number, cells)):
                return True
            self.read(cells)
            return True
        return False

    def split(self, line: str) -> list[str]:
        try:
            return next(csv.reader([line], strict=True, delimiter=self.delimiter))
        except csv.Error as error:
            raise RowError("line", "separated fields", f"a csv error ({error})") from None

    def read(self, cells: Sequence[str]) -> Example:
        """The example in a line's cells.

        Raises:
            RowError: They cannot be used.
        """
        if len(cells) != len(self.names):
            raise RowError("line", f"{len(self.names)} fields, as in the header", str(len(cells)))
        picked = [cells[index] for index in self._columns]
        label = picked.pop() if self._labelled else ""
        row = self._reader.csv_row(picked, self._decimal)
        return row, self._reader.sign(label) if self._labelled else 0.0


class _Parser(LineParser):
    """The lines of CSV files, each with a line of column names first."""

    def __init__(self, rows: RowReader) -> None:
        self._rows = rows
        self._header: _Header | RowError | None = None
        self._begins = True

    def begin(self, header: str | None) -> None:
        self._begins = header is None
        if header is not None:
            self._header, self.header = None, ""
            if header.strip():
                with contextlib.suppress(RowError):  # told when it was read first
                    self.read(header)

    def is_open(self, text: bytes) -> bool:
        if b'"' not in text:
            return False
        found = text.decode("utf-8-sig", "replace")
        delimiter = self._header.delimiter if isinstance(self._header, _Header) else self._rows.delimiter
        try:
            for _ in csv.reader([found], strict=True, delimiter=delimiter or likely_delimiter(found)):
                pass
        except csv.Error as error:
            return "unexpected end of data" in str(error)
        return False

    def read(self, text: str) -> Example | None:
        begins, self._begins = self._begins, False
        if self._names_columns(text, begins):
            self.header = text
            try:
                self._header = _Header(self._rows, text)
            except RowError as error:
                self._header = error
                raise
            return None
        if isinstance(self._header, RowError):
            raise RowError("line", "fitting column names above it", "others")
        assert self._header is not None
        return self._header.read(self._header.split(text))

    def _names_columns(self, text: str, begins: bool) -> bool:
        """Whether a line has column names: the first does, unless others hold, and it has a number."""
        if self._header is None:
            return True
        if isinstance(self._header, RowError):
            return self._rows.label in map(str.strip, text.split(likely_delimiter(text)))
        return self._header.is_another(text) or (begins and not self._header.is_row(text))
