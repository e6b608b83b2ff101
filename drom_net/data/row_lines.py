"""Lines of one format: of live data, to examples; and without labels, for `drom-net predict`."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator

from drom_net.algorithms.features import Features
from drom_net.core.errors import DataError, Problem
from drom_net.core.names import tidy
from drom_net.data.cells import label_text
from drom_net.data.faults import Faults, quoted
from drom_net.data.formats import LINE_FORMATS, line_format, line_formats
from drom_net.data.formats.dialects import decode
from drom_net.data.formats.jsonl import once
from drom_net.data.incoming import RowError, RowReader, WrongRows

__all__ = ["STANDARD_INPUT", "LineParser", "decoded_lines", "once", "read_rows"]

STANDARD_INPUT = "standard input"
"""Where rows come from, for messages, where nothing else is said."""


class LineParser:
    """Lines of one format to examples."""

    def __init__(self, format: str, rows: RowReader) -> None:
        self._parser = line_format(format).parser(rows)

    @property
    def header(self) -> bytes:
        """The column names that hold, as they were read; empty where there are none."""
        return self._parser.header.encode()

    def begin(self, header: bytes | None = None) -> None:
        """A new file begins, or the middle of one under these column names.

        Without a header the column names stay as they were where the first line is a row: a file that was cut, while
        its writer goes on.
        """
        text = None if header is None else ""
        if header:
            with contextlib.suppress(RowError):  # told when it was read first
                text = _decoded(header)
        self._parser.begin(text)

    def is_open(self, text: bytes) -> bool:
        """Whether lines end within quotes, so that the next one belongs to them."""
        return self._parser.is_open(text)

    def read(self, line: bytes) -> tuple[Features, float] | None:
        """The example in a line; None where it has none: a blank line, or the column names.

        Raises:
            RowError: It cannot be used.
        """
        text = _decoded(line)
        return self._parser.read(text) if text.strip() else None


def _decoded(line: bytes) -> str:
    line = line.lstrip(b"\0")  # of a file that was cut, and is written on behind where it was
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RowError("text", "UTF-8", f"byte 0x{line[error.start]:02x}") from None


def read_rows(
    text_stream: Iterable[str],
    *,
    format: str,
    rows: RowReader,
    site: str = "",
    needs_site: bool = False,
    shown: str = STANDARD_INPUT,
) -> tuple[list[Features], list[str] | None]:
    """The rows, encoded, as `RowPreparation` takes them; and whose each is, None where they do not say it.

    CSV of columns with names needs a line of them; other columns (a label) are left out. CSV without has columns of
    numbers, and a first line that is no numbers is taken for their names. Labels of other formats are not looked at.

    Args:
        format: As `line_format` takes it.
        rows: What the rows are.
        site: The column that says whose each is.
        needs_site: Whether they must say it.
        shown: Where they come from.

    Raises:
        DataError: All that is wrong; places are "standard input:LINE", or of another `shown`.
    """
    reads, wrong = line_format(format), WrongRows(shown)
    if needs_site and not reads.has_columns:
        formats = LINE_FORMATS.installed() | line_formats()
        named = ", ".join(sorted(name for name, one in formats.items() if one.has_columns))
        expected = f"rows whose sites have a column, in a format whose columns have names ({named})"
        raise DataError([Problem(shown, expected, f"the format {format}")])

    def tell(line: int, error: RowError) -> None:
        wrong.add(
            lambda one: f"{shown}:{line}" + ("" if one.where in ("line", "column names") else f", {one.where}"), error
        )

    lines = _text_lines(text_stream, shown, wrong.faults)
    found = list(reads.unlabelled(lines, rows, tell, site, needs_site=needs_site))
    wrong.raise_if_any(len(found))
    sites = [tidy(label_text(cell)) for _, cell in found]
    if "" in sites:
        if needs_site:
            raise DataError([Problem(f"{shown}, row {sites.index('') + 1}", f"a site in {quoted(site)}", "none")])
        return [row for row, _ in found], None
    return [row for row, _ in found], sites


def decoded_lines(data: bytes, encoding: str | None = None, shown: str = STANDARD_INPUT) -> list[str]:
    """The lines of a file or of standard input, in whichever encoding a table may have.

    Args:
        encoding: As data.encoding says; None is found.
        shown: As for `read_rows`.

    Raises:
        DataError: It is neither UTF-8 or UTF-16 nor of one byte a character.
    """
    try:
        text = data.decode(encoding) if encoding else decode(data)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        expected, got = f"{encoding or 'UTF-8'} text", f"byte 0x{data[error.start]:02x}"
        raise DataError([Problem(f"{shown}:{line}", expected, got)]) from None
    return list(io.StringIO(text.removeprefix("\ufeff"), newline=""))


def _text_lines(text_stream: Iterable[str], shown: str, faults: Faults) -> Iterator[str]:
    number = 0
    try:
        for number, line in enumerate(text_stream, start=1):
            yield line.removeprefix("\ufeff") if number == 1 else line
    except UnicodeDecodeError as error:
        # Text is decoded in blocks: the bad byte is somewhere below the last line that came.
        faults.add(f"{shown}, after line {number}", "UTF-8 text", f"byte 0x{error.object[error.start]:02x}")
