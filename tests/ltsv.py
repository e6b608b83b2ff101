"""Labelled tab-separated values as a file format: all that another format takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from drom_net.algorithms.features import Features
from drom_net.data.faults import Faults, quoted
from drom_net.data.formats import RowALine, TableFormat
from drom_net.data.formats.base import Example
from drom_net.data.incoming import RowError, RowReader
from drom_net.data.opening import opened, reading, utf8_lines
from drom_net.data.tables import FileTable, Texts, Wanted


class Ltsv(TableFormat, RowALine):
    """NAME:VALUE, a tab, NAME:VALUE, and so on: the same names in each line."""

    name = "ltsv"
    suffixes = line_suffixes = (".ltsv",)
    has_columns = True

    def header(self, path: Path, shown: str, wanted: Wanted, faults: Faults) -> tuple[str, ...] | None:
        rows = self._rows(path, shown, faults)
        return tuple(rows[0]) if rows else None

    def table(self, path: Path, shown: str, wanted: Wanted, faults: Faults) -> FileTable | None:
        before = faults.count
        rows = self._rows(path, shown, faults)
        for number, row in enumerate(rows, start=1):
            if row.keys() != rows[0].keys():
                faults.add(f"{shown}:{number}", ", ".join(map(quoted, rows[0])), ", ".join(map(quoted, row)))
        if faults.count > before:
            return None
        names = [name for name in rows[0] if name not in wanted.skip]
        cells = {name: _column([row[name] for row in rows]) for name in names}
        return FileTable(shown, len(rows), {**cells}, line=lambda row: row + 1)

    def row(self, text: str, rows: RowReader, *, labelled: bool) -> Example:
        found = _cells(text)
        if labelled and rows.label not in found:
            raise RowError("label", quoted(rows.label), "none")
        return rows.row(found), rows.sign(found[rows.label]) if labelled else 0.0

    def unlabelled_row(self, text: str, rows: RowReader, site: str) -> tuple[Features, object]:
        found = _cells(text)
        return rows.row(found), found.get(site) if site else None

    def _rows(self, path: Path, shown: str, faults: Faults) -> list[dict[str, str]]:
        with reading(path, shown, faults), opened(path) as file:
            return [_cells(line) for line in utf8_lines(file, shown, faults)]
        return []


def _cells(line: str) -> dict[str, str]:
    return {name: value for name, _, value in (cell.partition(":") for cell in line.rstrip("\n").split("\t"))}


def _column(cells: list[str]) -> Texts:
    values = list(dict.fromkeys(cells))
    return Texts(np.array([values.index(cell) for cell in cells], dtype=np.int64), values)
