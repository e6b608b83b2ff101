"""Rows without labels from a text stream, for `drom-net predict`."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np

from drom_net.algorithms.features import Matrix
from drom_net.data.faults import Faults, quoted
from drom_net.data.readers import (
    LISTED_LIMIT,
    LineFault,
    Table,
    add_bad_cells,
    check_finite,
    csv_rows,
    parse_cells,
    parse_svmlight,
)
from drom_net.data.stream import SparseRows
from drom_net.errors import did_you_mean

SHOWN = "standard input"


def read_rows(
    text_stream: Iterable[str],
    *,
    format: Literal["csv", "svmlight"],
    features: tuple[str, ...] | None,
    dim: int,
    zero_based: bool = False,
) -> Matrix | SparseRows:
    """The rows, as `Preprocessing.apply` takes them.

    CSV with known feature names needs a line of column names; other columns (a label) are left out. CSV
    without has `dim` columns of numbers, and a first line that is no numbers is taken for their names.
    svmlight lines may have a label, which is not looked at.

    Args:
        features: Names of the `dim` raw features (without the bias), where they have names.
        dim: The `raw_dim` of the preprocessing.
        zero_based: svmlight: whether feature numbers start at 0.

    Returns:
        Shape (n, dim), n >= 0: dense from CSV, sparse from svmlight.

    Raises:
        DataError: All that is wrong; places are "standard input:LINE".
    """
    faults = Faults()
    lines = _text_lines(text_stream, faults)
    if format == "csv":
        table = _read_csv(lines, features, dim, faults)
    else:
        table = _read_svmlight(lines, dim, zero_based, faults)
    if table is not None:
        check_finite(table, SHOWN, faults)
    faults.raise_if_any()
    assert table is not None
    return table.rows


def _text_lines(text_stream: Iterable[str], faults: Faults) -> Iterator[str]:
    number = 0
    try:
        for number, line in enumerate(text_stream, start=1):
            yield line.removeprefix("\ufeff") if number == 1 else line
    except UnicodeDecodeError as error:
        # Text is decoded in blocks: the bad byte is somewhere below the last line that came.
        faults.add(f"{SHOWN}, after line {number}", "UTF-8 text", f"byte 0x{error.object[error.start]:02x}")


def _read_csv(text: Iterable[str], features: tuple[str, ...] | None, dim: int, faults: Faults) -> Table | None:
    values, lines = array("d"), array("q")
    header: list[str] | None = None
    columns = list(range(dim))
    names = features or tuple(str(number) for number in range(1, dim + 1))
    for line, cells in csv_rows(text, SHOWN, faults):
        if header is None:
            header = [cell.strip() for cell in cells]
            if features is not None:
                if not _has_features(header, features, f"{SHOWN}:{line}", faults):
                    return None
                columns = [header.index(name) for name in features]
                continue
            if len(cells) != dim:
                faults.add(f"{SHOWN}:{line}", f"{dim} columns, one a feature", str(len(cells)))
                return None
            if parse_cells(cells) is None and not any(map(parse_cells, ([cell] for cell in cells))):
                continue
        if len(cells) != len(header):
            faults.add(f"{SHOWN}:{line}", f"{len(header)} fields", str(len(cells)), kind="ragged")
            continue
        picked = [cells[index] for index in columns]
        numbers = parse_cells(picked)
        values.extend(add_bad_cells(picked, names, line, SHOWN, faults) if numbers is None else numbers)
        lines.append(line)
    if header is None and features is not None and not faults.count:
        faults.add(f"{SHOWN}:1", "a line of column names", "nothing")

    def place(row: int, column: int | None) -> str:
        return f"{SHOWN}:{lines[row]}, column {quoted(names[column or 0])}"

    return Table(np.array(values, dtype=np.float64).reshape(len(lines), dim), (), None, names, place)


def _has_features(header: list[str], features: tuple[str, ...], place: str, faults: Faults) -> bool:
    before = faults.count
    for name in features:
        if name not in header:
            listed = ", ".join(quoted(other) for other in header[:LISTED_LIMIT])
            more = ", ..." if len(header) > LISTED_LIMIT else ""
            hint = did_you_mean(name, header)
            faults.add(place, f"a column {quoted(name)}", f"{listed}{more}", hint, kind="missing")
        elif header.count(name) > 1:
            faults.add(place, f"one column {quoted(name)}", str(header.count(name)), kind="twice")
    return faults.count == before


def _read_svmlight(text: Iterable[str], dim: int, zero_based: bool, faults: Faults) -> Table:
    indptr, indices, values, lines = array("q", [0]), array("i"), array("d"), array("q")
    for line, content in enumerate(text, start=1):
        if not content.split("#", 1)[0].strip():
            continue
        parsed = parse_svmlight(content, zero_based=zero_based, dim=dim)
        if isinstance(parsed, LineFault):
            faults.add(f"{SHOWN}:{line}", *parsed, kind="line")
            continue
        _, row_indices, row_values = parsed
        indices.extend(row_indices)
        values.extend(row_values)
        indptr.append(len(indices))
        lines.append(line)
    first = 0 if zero_based else 1
    rows = SparseRows(
        np.array(indptr, dtype=np.int64),
        np.array(indices, dtype=np.int32),
        np.array(values, dtype=np.float64),
        dim,
    )
    return Table(rows, (), None, None, lambda row, column: f"{SHOWN}:{lines[row]}, feature {(column or 0) + first}")
