"""How a CSV file is written: its encoding, delimiter, decimal commas and header, found by looking at its beginning."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from drom_net.data.faults import Faults, parse_number, quoted
from drom_net.data.opening import opened, reading
from drom_net.data.tables import Wanted, named_columns

_SAMPLE_BYTES = 1 << 18
DELIMITERS = ",;\t|"
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
        if wanted.encoding is None and encoding == "utf-8" and is_single_byte(path):
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
    header = named_columns([cell.strip() for cell in rows[0]], f"{shown}:{blank + 1}", faults)
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

    best = max(DELIMITERS, key=fitness)  # of equals the first
    return best if fitness(best)[1] else ","


def _has_decimal_commas(rows: Sequence[Sequence[str]]) -> bool:
    """Whether there are numbers such as 31,7, and none such as 31.7."""
    cells = [cell.strip() for row in rows for cell in row]
    commas = sum(cell.count(",") == 1 and parse_number(cell.replace(",", ".")) is not None for cell in cells)
    points = sum("." in cell and parse_number(cell) is not None for cell in cells)
    return commas > 0 and not points


def csv_rows(
    lines: Iterable[str], delimiter: str, tell: Callable[[int, str, str], object]
) -> Iterator[tuple[int, list[str]]]:
    """Line number (from 1) and cells of each row that is not blank; ends where the quotes do not match.

    Args:
        tell: Is told of that: the line's number, what was expected, and what came.
    """
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            tell(line, "a row of separated fields", f"a csv error ({error})")
            return
        if len(cells) > 1 or (cells and cells[0].strip()):
            yield line, cells


def is_single_byte(path: Path) -> bool:
    """Whether a file that is not UTF-8 has nothing that is UTF-8 beyond ASCII: it is cp1252 then, and not damaged."""
    with opened(path) as file:
        return _are_single_bytes(file)


def _are_single_bytes(lines: Iterable[bytes]) -> bool:
    for line in lines:
        if not line.isascii():
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                continue
            return False
    return True


def decode(data: bytes) -> str:
    """A whole table as text, by the rules of `find_dialect`. Raises UnicodeDecodeError where it is damaged."""
    encoding = _find_encoding(data)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        if encoding == "utf-8" and _are_single_bytes(data.splitlines()):
            with contextlib.suppress(UnicodeDecodeError):
                return data.decode("cp1252")
        raise


def likely_delimiter(line: str) -> str:
    """The one of which there are the most."""
    return max(DELIMITERS, key=line.count)


@contextmanager
def decoded(file: Any, encoding: str) -> Iterator[Iterator[str]]:
    """The lines of a file; UTF-8 may have a byte order mark."""
    text = io.TextIOWrapper(file, "utf-8-sig" if encoding == "utf-8" else encoding, newline="")
    try:
        yield text
    finally:
        text.detach()  # the file is closed by whoever has opened it
