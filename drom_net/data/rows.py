"""Rows without labels from a text stream, for `drom-net predict`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from drom_net.algorithms.features import Features
from drom_net.data.faults import Faults
from drom_net.data.incoming import RowError, RowReader
from drom_net.data.row_lines import read_unlabelled

SHOWN = "standard input"


def read_rows(text_stream: Iterable[str], *, format: str, rows: RowReader) -> list[Features]:
    """The rows, encoded, as `RowPreparation` takes them.

    CSV of columns with names needs a line of them; other columns (a label) are left out. CSV without has columns of
    numbers, and a first line that is no numbers is taken for their names. Labels of other formats are not looked at.

    Args:
        format: "csv", "jsonl" or "svmlight".
        rows: What the rows are.

    Raises:
        DataError: All that is wrong; places are "standard input:LINE".
    """
    faults = Faults()

    def tell(line: int, error: RowError) -> None:
        place = f"{SHOWN}:{line}" + ("" if error.where in ("line", "column names") else f", {error.where}")
        faults.add(place, error.expected, error.got, error.hint, kind=error.where)

    found = list(read_unlabelled(_text_lines(text_stream, faults), format, rows, tell))
    faults.raise_if_any()
    return found


def _text_lines(text_stream: Iterable[str], faults: Faults) -> Iterator[str]:
    number = 0
    try:
        for number, line in enumerate(text_stream, start=1):
            yield line.removeprefix("\ufeff") if number == 1 else line
    except UnicodeDecodeError as error:
        # Text is decoded in blocks: the bad byte is somewhere below the last line that came.
        faults.add(f"{SHOWN}, after line {number}", "UTF-8 text", f"byte 0x{error.object[error.start]:02x}")
