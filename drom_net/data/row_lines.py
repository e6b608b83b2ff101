"""Rows as lines: CSV with a header or without, JSON, svmlight; of live sources, and of files to predict."""

from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from drom_net.algorithms.features import Features
from drom_net.core.errors import did_you_mean
from drom_net.data.cells import shown
from drom_net.data.faults import quoted
from drom_net.data.incoming import SPARSE, RowError, RowReader, is_number
from drom_net.data.readers import LineFault, parse_svmlight

LINE_FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".svm": "svmlight",
}
"""Formats with an example a line, by suffix."""
_DELIMITERS = ",;\t|"


class CsvHeader:
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

    def read(self, cells: Sequence[str]) -> tuple[Features, float]:
        """(row, label) of a line's cells.

        Raises:
            RowError: They cannot be used.
        """
        if len(cells) != len(self.names):
            raise RowError("line", f"{len(self.names)} fields, as in the header", str(len(cells)))
        picked = [cells[index] for index in self._columns]
        label = picked.pop() if self._labelled else ""
        row = self._reader.csv_row(picked, self._decimal)
        return row, self._reader.sign(label) if self._labelled else 0.0


class Lines:
    """Lines of one format to examples. CSV has a line of column names first."""

    def __init__(self, format: str, rows: RowReader) -> None:
        self._rows = rows
        self._header: CsvHeader | RowError | None = None
        self._begins = True
        self._is_csv = format == "csv"
        self.header = b""
        """The column names that hold, as they were read; empty where there are none."""
        self._read = {"jsonl": self._json, "svmlight": self._svmlight, "csv": self._csv}[format]

    def begin(self, header: bytes | None = None) -> None:
        """A new file begins, or the middle of one under these column names.

        Without a header the column names stay as they were where the first line is a row: a file that was cut, while
        its writer goes on.
        """
        self._begins = header is None
        if header is not None:
            self._header, self.header = None, b""
            with contextlib.suppress(RowError):  # told when it was read first
                if header:
                    self.read(header)

    def is_open(self, text: bytes) -> bool:
        """Whether lines end within quotes, so that the next one belongs to them."""
        if not self._is_csv or b'"' not in text:
            return False
        found = text.decode("utf-8-sig", "replace")
        delimiter = self._header.delimiter if isinstance(self._header, CsvHeader) else self._rows.delimiter
        try:
            for _ in csv.reader([found], strict=True, delimiter=delimiter or likely_delimiter(found)):
                pass
        except csv.Error as error:
            return "unexpected end of data" in str(error)
        return False

    def read(self, line: bytes) -> tuple[Features, float] | None:
        """The example in a line; None where it has none: a blank line, or the column names.

        Raises:
            RowError: It cannot be used.
        """
        line = line.lstrip(b"\0")  # of a file that was cut, and is written on behind where it was
        try:
            text = line.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise RowError("text", "UTF-8", f"byte 0x{line[error.start]:02x}") from None
        return self._read(text) if text.strip() else None

    def _json(self, text: str) -> tuple[Features, float]:
        found = parse_json(text)
        if self._rows.label not in found:
            hint = did_you_mean(self._rows.label, found)
            raise RowError("label", f"a key {quoted(self._rows.label)}", "none", hint)
        return json_row(self._rows, found), self._rows.sign(found[self._rows.label])

    def _svmlight(self, text: str) -> tuple[Features, float] | None:
        if not text.split("#", 1)[0].strip():
            return None
        zero_based = self._rows.preprocessing.zero_based
        parsed = parse_svmlight(text, zero_based=zero_based, dim=self._rows.sparse_dim)
        if isinstance(parsed, LineFault):
            raise RowError("line", *parsed)
        label, indices, values = parsed
        return self._rows.sparse(indices, values), self._rows.sign(label)

    def _csv(self, text: str) -> tuple[Features, float] | None:
        begins, self._begins = self._begins, False
        if self._names_columns(text, begins):
            self.header = text.encode()
            try:
                self._header = CsvHeader(self._rows, text)
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


def likely_delimiter(line: str) -> str:
    """The one of which there are the most."""
    return max(_DELIMITERS, key=line.count)


def parse_json(text: str) -> dict[str, Any]:
    """A JSON object. Raises RowError for anything else."""
    try:
        found = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise RowError("line", "a JSON object", f"{quoted(text.strip())} ({why})") from None
    if not isinstance(found, dict):
        raise RowError("line", "a JSON object", shown(found))
    return found


def once(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """A map of these. Raises RowError where a key is there twice."""
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found:
            raise RowError(f"key {quoted(str(key))}", "it once", "twice")
        found[key] = value
    return found


def json_row(rows: RowReader, found: Mapping[str, Any]) -> Features:
    """The row in a JSON object: its cells by name, all numbers as "x", or "indices" and "values".

    Raises:
        RowError: It has none, or one that cannot be used.
    """
    schema = rows.preprocessing.schema
    names = set() if schema is None else {column.name for column in schema.columns}
    if "x" in found and "x" not in names:
        return rows.row(found["x"])
    if found.keys() >= SPARSE and SPARSE.isdisjoint(names):
        return rows.row({key: found[key] for key in SPARSE})
    if schema is None:
        raise RowError("line", 'a key "x" with all numbers, or "indices" and "values"', "neither")
    return rows.row(found)


def read_unlabelled(
    lines: Iterable[str], format: str, rows: RowReader, tell: Callable[[int, RowError], None]
) -> Iterator[Features]:
    """Rows to be predicted, of lines that may have labels, which are not looked at.

    CSV may do without column names where the schema has none, and its fields may have line breaks in quotes.

    Args:
        tell: Is told of each line that cannot be used: its number, and why.

    Raises:
        DataError: `tell` may raise it.
    """
    if format == "csv":
        yield from _unlabelled_csv(lines, rows, tell)
        return
    zero_based = rows.preprocessing.zero_based
    for number, line in enumerate(lines, start=1):
        text = line.split("#", 1)[0] if format == "svmlight" else line
        if not text.strip():
            continue
        try:
            if format == "jsonl":
                yield json_row(rows, parse_json(line))
                continue
            parsed = parse_svmlight(line, zero_based=zero_based, dim=rows.sparse_dim)
            if isinstance(parsed, LineFault):
                raise RowError("line", *parsed)
            yield rows.sparse(parsed[1], parsed[2])
        except RowError as error:
            tell(number, error)


def _unlabelled_csv(lines: Iterable[str], rows: RowReader, tell: Callable[[int, RowError], None]) -> Iterator[Features]:
    numbered = iter(lines)
    first = next((line for line in numbered if line.strip()), None)
    if first is None:
        if rows.preprocessing.schema is not None:
            tell(1, RowError("line", "column names", "nothing"))
        return
    header: CsvHeader | None = None
    before = [first]
    try:
        header = CsvHeader(rows, first, labelled=False)
        if rows.preprocessing.schema is not None or not any(is_number(cell) for cell in header.names):
            before = []
    except RowError as error:
        tell(1, error)
        return
    reader = csv.reader((line for part in (before, numbered) for line in part), strict=True, delimiter=header.delimiter)
    while True:
        line = reader.line_num + 2 - len(before)
        try:
            cells = next(reader)
            if len(cells) > 1 or (cells and cells[0].strip()):
                yield header.read(cells)[0]
        except StopIteration:
            return
        except csv.Error as error:
            tell(line, RowError("line", "a row of separated fields", f"a csv error ({error})"))
            return
        except RowError as error:
            tell(line, error)
