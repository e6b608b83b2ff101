"""Examples that come one by one while a node runs: lines and requests, to what its learner sees. NumPy only."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drom_net.algorithms.features import Features, Matrix, SparseVector
from drom_net.data.faults import quoted
from drom_net.data.preprocessing import Preprocessing
from drom_net.data.readers import LineFault, expected_label, label_text, parse_cells, parse_svmlight, sign_of
from drom_net.data.stream import SparseRows
from drom_net.errors import DataError, did_you_mean

LINE_FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".svm": "svmlight",
}
"""Formats with an example a line, by suffix."""
_SPARSE = {"indices", "values"}
LARGEST_SQUARE = 1e12
"""The most that the squares of a row's numbers, as its learner sees them, may add up to. A step moves the model by a
multiple of the row: one row that is far beyond it would end the cluster, and again whenever that is started again."""


class RowError(Exception):
    """A row or label that cannot be used."""

    def __init__(self, where: str, expected: str, got: str, hint: str = "") -> None:
        """
        Args:
            where: In the row: `column "age"`, `label`.
        """
        super().__init__(f"{where}: expected {expected}, got {got}" + (f"; {hint}" if hint else ""))


@dataclass(frozen=True, slots=True)
class Understanding:
    """What the site's rows are.

    Attributes:
        preprocessing: What is done to each.
        features: The names of the columns of a raw row; None where they have none.
        label: The label's column or key.
        positive: The label that counts as +1; None for labels that are numbers.
    """

    preprocessing: Preprocessing
    features: tuple[str, ...] | None = None
    label: str = "label"
    positive: str | None = None

    def to_json(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "preprocessing": self.preprocessing.to_json(),
            "features": self.features,
            "label": self.label,
            "positive": self.positive,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Understanding:
        """What `to_json` gave, after JSON."""
        features = value["features"]
        return cls(
            Preprocessing.from_json(value["preprocessing"]),
            None if features is None else tuple(features),
            value["label"],
            value["positive"],
        )

    def sign(self, label: object) -> float:
        """-1.0 or +1.0.

        Raises:
            RowError: It is no label.
        """
        plain = isinstance(label, str | int | float)  # a bool is an int, and true is 1
        if self.positive is not None and not isinstance(label, str) and not _is_number(self.positive):
            plain = False  # every other text is -1, but a number or true beside texts says something else
        sign = sign_of(label_text(label), self.positive) if plain else None
        if sign is None:
            hint = "" if self.positive is not None else "data.positive names the +1 of other labels"
            raise RowError("label", expected_label(self.positive), _shown(label), hint)
        return sign

    def block(self, data: bytes) -> list[Features]:
        """Dense rows, as the bytes of float64 of shape (n, raw_dim), little-endian.

        Raises:
            RowError: They are not that, or not finite.
        """
        width = self._dense_width()
        if not data or len(data) % (8 * width):
            raise RowError("rows", f"n x {width} float64 of {8 * width} bytes a row", f"{len(data)} bytes")
        return self._dense(np.frombuffer(data, dtype="<f8").reshape(-1, width))

    def row(self, row: object) -> Features:
        """One row: a sequence of all numbers; their names with their values; or indices (from 0) and values.

        Raises:
            RowError: It is not that, or not finite.
        """
        if isinstance(row, Mapping):
            if row.keys() == _SPARSE and not isinstance(row["values"], int | float):
                return self._sparse(row["indices"], row["values"])
            return self._dense([self._named(row)])[0]
        width = self._dense_width()
        if not isinstance(row, list | tuple) or len(row) != width:
            got = f"{len(row)} of them" if isinstance(row, list | tuple) else _shown(row)
            raise RowError("row", f"{width} numbers", got)
        return self._dense([[_number(value, f"number {n}") for n, value in enumerate(row, 1)]])[0]

    def sparse(self, indices: Sequence[int], values: Sequence[float]) -> Features:
        """A row of increasing feature numbers from 0, below raw_dim, and their values.

        Raises:
            RowError: It is not finite, or sparse rows cannot be used here.
        """
        filled = np.array(values, dtype=np.float64)
        chosen = np.flatnonzero(filled)
        picked, filled = np.array(indices, dtype=np.int32)[chosen], filled[chosen]
        if not np.isfinite(filled).all():
            raise RowError("values", "finite numbers", "others")
        rows = SparseRows(np.array([0, len(picked)], dtype=np.int64), picked, filled, self.preprocessing.raw_dim)
        try:
            done = self.preprocessing.apply(rows, "")
        except DataError:
            raise RowError("row", "a dense one, for it is centered (data.center)", "a sparse one") from None
        assert isinstance(done, SparseRows)
        return _small_enough(SparseVector(done.indices, done.values))

    def _dense_width(self) -> int:
        if self.preprocessing.hash is not None:
            raise RowError("row", "indices and values, for features are folded (data.hash)", "a dense one")
        return self.preprocessing.raw_dim

    def _dense(self, numbers: Matrix | list[list[float]]) -> list[Features]:
        rows = np.asarray(numbers, dtype=np.float64)
        if not np.isfinite(rows).all():
            raise RowError("row", "finite numbers", "others")
        done = self.preprocessing.apply(rows, "")
        assert not isinstance(done, SparseRows)
        return [_small_enough(row.copy()) for row in done]  # one that is remembered does not keep the others

    def _named(self, row: Mapping[Any, object]) -> list[float]:
        if self.features is None:
            raise RowError("row", "numbers without names, or data.features that has the names", "names")
        numbers = []
        for name in self.features:
            if name not in row:
                hint = did_you_mean(name, [key for key in row if isinstance(key, str)][:100])
                raise RowError(f"feature {quoted(name)}", "a number", "nothing", hint)
            numbers.append(_number(row[name], f"feature {quoted(name)}"))
        return numbers

    def _sparse(self, indices: object, values: object) -> Features:
        if isinstance(indices, bytes) and isinstance(values, bytes) and not (len(indices) % 4 or len(values) % 8):
            indices, values = np.frombuffer(indices, "<i4").tolist(), np.frombuffer(values, "<f8").tolist()
        if not isinstance(indices, list) or not isinstance(values, list) or len(indices) != len(values):
            raise RowError("row", "as many indices as values", f"{_shown(indices)} and {_shown(values)}")
        before = -1
        for index in indices:
            if type(index) is not int or not before < index < self.preprocessing.raw_dim:
                expected = f"increasing whole numbers from 0 to {self.preprocessing.raw_dim - 1}"
                raise RowError("indices", expected, _shown(index))
            before = index
        return self.sparse(indices, [_number(value, "values") for value in values])


class Lines:
    """Lines of one format to examples. CSV has a line of column names first."""

    def __init__(self, format: str, rows: Understanding) -> None:
        self._rows = rows
        self._header: list[str] | None = None
        self._label = 0
        self._columns: list[int] | None = None
        self.has_header = format == "csv"
        self._read = {"jsonl": self._json, "svmlight": self._svmlight, "csv": self._csv}[format]

    def begin(self) -> None:
        """A new file begins."""
        self._header = self._columns = None

    def read(self, line: bytes) -> tuple[Features, float] | None:
        """The example in a line; None where it has none: a blank line, or the column names.

        Raises:
            RowError: It cannot be used.
        """
        try:
            text = line.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise RowError("text", "UTF-8", f"byte 0x{line[error.start]:02x}") from None
        return self._read(text) if text.strip() else None

    def _json(self, text: str) -> tuple[Features, float]:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, ValueError) else "nested too deeply"
            raise RowError("line", "a JSON object", f"{quoted(text.strip())} ({why})") from None
        if not isinstance(found, dict):
            raise RowError("line", "a JSON object", _shown(found))
        if self._rows.label not in found:
            hint = did_you_mean(self._rows.label, found)
            raise RowError("label", f"a key {quoted(self._rows.label)}", "none", hint)
        sign = self._rows.sign(found[self._rows.label])
        if "x" in found and "x" not in (self._rows.features or ()):
            return self._rows.row(found["x"]), sign
        if found.keys() >= _SPARSE and _SPARSE.isdisjoint(self._rows.features or ()):
            found = {key: found[key] for key in _SPARSE}
        elif self._rows.features is None:
            raise RowError("line", 'a key "x" with all numbers, or "indices" and "values"', "neither")
        return self._rows.row(found), sign

    def _svmlight(self, text: str) -> tuple[Features, float] | None:
        if not text.split("#", 1)[0].strip():
            return None
        made = self._rows.preprocessing
        parsed = parse_svmlight(text, zero_based=made.zero_based, dim=made.raw_dim)
        if isinstance(parsed, LineFault):
            raise RowError("line", *parsed)
        label, indices, values = parsed
        return self._rows.sparse(indices, values), self._rows.sign(label)

    def _csv(self, text: str) -> tuple[Features, float] | None:
        try:
            cells = next(csv.reader([text], strict=True))
        except csv.Error as error:
            raise RowError("line", "comma-separated fields", f"a csv error ({error})") from None
        if self._header is None:
            self._header = [cell.strip() for cell in cells]
            self._choose_columns(self._header)
            return None
        if self._columns is None:
            raise RowError("line", "fitting column names above it", "others")
        if len(cells) != len(self._header):
            raise RowError("line", f"{len(self._header)} fields, as in the header", str(len(cells)))
        picked = [cells[index] for index in self._columns]
        numbers = parse_cells(picked)
        if numbers is None:
            bad = next(index for index, cell in zip(self._columns, picked, strict=True) if parse_cells([cell]) is None)
            raise RowError(f"column {quoted(self._header[bad])}", "a number", _shown(cells[bad].strip()))
        return self._rows.row(numbers), self._rows.sign(cells[self._label].strip())

    def _choose_columns(self, header: list[str]) -> None:
        wanted = (self._rows.label, *(self._rows.features or ()))
        for name in wanted:
            if header.count(name) != 1:
                got = "none" if name not in header else f"{header.count(name)}"
                hint = did_you_mean(name, header)
                raise RowError("column names", f"one column {quoted(name)}", got, hint)
        self._label = header.index(self._rows.label)
        names = self._rows.features or [name for name in header if name != self._rows.label]
        if len(names) != self._rows.preprocessing.raw_dim:
            expected = f"{self._rows.preprocessing.raw_dim} feature columns (data.dim)"
            raise RowError("column names", expected, str(len(names)))
        self._columns = [header.index(name) for name in names]


def _small_enough(row: Features) -> Features:
    """The row, not to be written to any more."""
    arrays = row if isinstance(row, SparseVector) else (row,)
    values = arrays[-1]
    with np.errstate(over="ignore", invalid="ignore"):
        square = float(np.dot(values, values))
    if not square <= LARGEST_SQUARE:
        expected = f"numbers whose squares, once preprocessed, add up to at most {LARGEST_SQUARE:g}"
        raise RowError("row", expected, f"{square:.4g}", "data.scale or data.normalize makes them smaller")
    for array in arrays:
        array.flags.writeable = False
    return row


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RowError(where, "a number", _shown(value))
    try:
        return float(value)
    except OverflowError:
        raise RowError(where, "a number that a float64 holds", _shown(value)) from None


def _shown(value: object) -> str:
    if value is None or value == "":
        return "nothing"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list | dict | bytes):
        return f"{'bytes' if isinstance(value, bytes) else type(value).__name__} of {len(value)}"
    return quoted(str(value)) if isinstance(value, float) else str(value)[:60]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
