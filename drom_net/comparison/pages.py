"""A report on disk: its numbers as CSV, its pictures as PNG and SVG, and a page in Markdown."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from drom_net.plots.base import FORMATS
from drom_net.plots.report import draw_picture
from drom_net.results.report import Cell, Report, Table

_NOTHING = 1e-9


def write_report(report: Report, folder: Path, *, page: str = "README.md") -> None:
    """Write all of a report into a folder, which is made where it is missing; what stands there is replaced.

    Raises:
        UsageError: matplotlib is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in report.tables.items():
        write_csv(table, folder / f"{name}.csv")
    for name, picture in report.pictures.items():
        for suffix in FORMATS:
            draw_picture(picture, folder / f"{name}{suffix}")
    (folder / page).write_text(page_of(report), encoding="utf-8")


def write_csv(table: Table, path: Path) -> None:
    """Floats are written so that they are read back bit for bit; None is an empty cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows(["" if cell is None else cell for cell in row] for row in table.rows)


def page_of(report: Report) -> str:
    """The report in Markdown, with links to its files."""
    lines = [f"# {report.title}", "", report.text, ""]
    for name in report.pictures:
        lines += [f"![{name}]({name}.png)", "", f"[{name}.svg]({name}.svg)", ""]
    for name, table in report.tables.items():
        if table.on_page:
            lines += [*markdown_table(table.columns, [[_shown(cell) for cell in row] for row in table.rows]), ""]
        lines += [f"[{name}.csv]({name}.csv)", ""]
    return "\n".join(lines)


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """The lines of a table; the first `left` columns are text, the others numbers."""
    lines = [_row(columns), _row([*["---"] * left, *["---:"] * (len(columns) - left)])]
    return [*lines, *(_row(row) for row in rows)]


def percent_of(value: float) -> str:
    """A fraction as percent, without the sign."""
    return f"{100.0 * value:.2f}"


def percents(fractions: Sequence[float | None] | None, length: int) -> list[Cell]:
    """Fractions as percent, for the cells of a row; so many empty ones where there are none."""
    if fractions is None:
        return [None] * length
    return [None if value is None else 100.0 * value for value in fractions]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _shown(cell: Cell) -> str:
    if cell is None:
        return ""
    # What is left of a difference of equal numbers is no figure.
    return f"{0.0 if abs(cell) < _NOTHING else cell:.4g}" if isinstance(cell, float) else str(cell)
