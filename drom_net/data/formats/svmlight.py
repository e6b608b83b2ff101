"""svmlight (libsvm): a label, then NUMBER:VALUE for each feature that is not 0."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np

from drom_net.data.cells import label_text
from drom_net.data.faults import Faults, extra, parse_number, quoted
from drom_net.data.formats.base import Example, NumberFormat, RowALine
from drom_net.data.incoming import RowError, RowReader
from drom_net.data.opening import opened, reading
from drom_net.data.preprocessing import HASHED_DIM
from drom_net.data.stream import SparseRows
from drom_net.data.tables import NumberTable, Source


class Svmlight(NumberFormat, RowALine):
    """Comments begin with #."""

    name = "svmlight"
    suffixes = line_suffixes = (".svmlight", ".libsvm", ".svm")
    extra = "data"
    numbers_features = True

    def table(self, source: Source, faults: Faults) -> NumberTable | None:
        shown, zero_based, dim = source.shown, source.zero_based, source.dim or HASHED_DIM
        with extra("data", "svmlight files"):
            from sklearn.datasets import load_svmlight_file
        data = b""
        before = faults.count
        with reading(source.path, shown, faults), opened(source.path) as file:
            data = file.read()
        if faults.count > before:
            return None
        if data.startswith(b"\xef\xbb\xbf"):
            data = data[3:]
        try:
            # Underscores (1_000) are numbers to Python; our own parser decides whether one matters.
            suspect = b"_" in data
            matrix, numbers = load_svmlight_file(io.BytesIO(data), dtype=np.float64, zero_based=True)
        except (ValueError, OverflowError) as error:
            suspect, reason = True, str(error)
        else:
            reason = ""
        if suspect:
            _add_faults(data, source, dim, faults)
            if reason and faults.count == before:
                faults.add(shown, "svmlight lines", f"an error ({reason})")
            if faults.count > before:
                return None
        if matrix.shape[0] == 0:
            faults.add(shown, "rows", "none" if data.strip() else "an empty file")
            return None
        first = 0 if zero_based else 1
        indices = matrix.indices.astype(np.int64) - first
        indptr = matrix.indptr.astype(np.int64)
        if len(indices) and (indices.min() < 0 or indices.max() >= dim):
            _add_faults(data, source, dim, faults)
            return None
        filled = matrix.data != 0.0
        indptr = np.concatenate([[0], np.cumsum(filled)])[indptr].astype(np.int64)
        rows = SparseRows(indptr, indices[filled].astype(np.int32), matrix.data[filled], dim)
        lines: list[int] = []

        def place(row: int, column: int | None) -> str:
            if not lines:
                lines.extend(number for number, _ in _lines_with_rows(data))
            return f"{shown}:{lines[row]}, " + ("label" if column is None else f"feature {column + first}")

        return NumberTable(rows, [label_text(number) for number in numbers.tolist()], None, place)

    def row(self, text: str, rows: RowReader, *, labelled: bool) -> Example | None:
        if not text.split("#", 1)[0].strip():
            return None
        zero_based = rows.preprocessing.zero_based
        label, indices, values = parse_svmlight(text, zero_based=zero_based, dim=rows.sparse_dim)
        return rows.sparse(indices, values), rows.sign(label) if labelled else 0.0


def parse_svmlight(line: str, *, zero_based: bool, dim: int) -> tuple[str, list[int], list[float]]:
    """The label (or ""), feature numbers from 0 and values of a line.

    The label may be missing, and is not looked at. Feature numbers are below `dim` when counted from 0.

    Raises:
        RowError: It is no such line.
    """
    words = line.split("#", 1)[0].split()
    label = words.pop(0) if words and ":" not in words[0] else ""
    if words and words[0].startswith("qid:"):
        words.pop(0)
    first = 0 if zero_based else 1
    indices: list[int] = []
    values: list[float] = []
    for word in words:
        number, colon, text = word.partition(":")
        # Twenty digits hold any number that could be meant; int() refuses some thousands of them.
        if not (colon and number.isascii() and number.isdigit() and len(number) <= 20):
            raise RowError("line", "NUMBER:VALUE", quoted(word))
        index = int(number) - first
        value = parse_number(text)
        if value is None:
            raise RowError("line", f"a number after {quoted(number + ':')}", quoted(text))
        if index < 0:
            raise RowError("line", "feature numbers from 1 (data.zero_based: true takes 0)", "0")
        if index >= dim:
            raise RowError("line", f"feature numbers up to {dim - 1 + first}", str(int(number)))
        if indices and index <= indices[-1]:
            raise RowError("line", "increasing feature numbers", f"{int(number)} after {indices[-1] + first}")
        indices.append(index)
        values.append(value)
    return label, indices, values


def _lines_with_rows(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Line numbers (from 1) and text of the lines that hold an example."""
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.split(b"#", 1)[0].split():
            yield number, line


def _add_faults(data: bytes, source: Source, dim: int, faults: Faults) -> None:
    """The fast parser has stopped, or its numbers are wrong: go through the lines one by one."""
    for number, line in _lines_with_rows(data):
        place, kind = f"{source.shown}:{number}", (source.shown, "line")
        text = line.split(b"#", 1)[0].decode("utf-8", errors="replace")
        got = quoted((text.split() or [text])[0])
        try:
            label, _, _ = parse_svmlight(text, zero_based=source.zero_based, dim=dim)
        except RowError as error:
            faults.add(place, error.expected, error.got, kind=kind)
        else:
            if parse_number(label) is None:
                faults.add(place, "a number as label, then NUMBER:VALUE", got, kind=kind)
