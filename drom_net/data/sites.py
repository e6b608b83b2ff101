"""The user's tables by site: which columns and rows each has, in which order, and what their labels are."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Vector
from drom_net.core.errors import did_you_mean
from drom_net.core.names import is_name, some_of, tidy
from drom_net.data.cells import NUMBER_FORMATS, CellError, days_of, number_of, written_number
from drom_net.data.columns import NUMBER, Column, Schema
from drom_net.data.faults import Faults, listed, quoted
from drom_net.data.file_settings import check_task_name, natural_key, tasks_by_name
from drom_net.data.formats import TableFormat
from drom_net.data.kinds import Found, Part, find_schema
from drom_net.data.labels import Labels, means_none, plain_label
from drom_net.data.settings import FileData
from drom_net.data.tables import Cells, Days, FileTable, Numbers, Texts, Wanted, as_texts, counts


class Site(NamedTuple):
    """A task's rows in a table."""

    name: str
    table: FileTable
    rows: npt.NDArray[np.int64] | None
    """Which of the table's, in the order of learning; None is all."""

    @property
    def num_rows(self) -> int:
        return self.table.num_rows if self.rows is None else len(self.rows)

    def row(self, index: int) -> int:
        """Where row `index` of the site is in the table."""
        return index if self.rows is None else int(self.rows[index])


class Opened(NamedTuple):
    """The tables of all tasks, or of one, before their columns are looked at."""

    sites: list[Site]
    names: tuple[str, ...]
    """Of the columns that may be features, in order."""


def open_tables(
    settings: FileData,
    format: TableFormat,
    base: Path,
    features: tuple[str, ...] | None,
    names: tuple[str, ...] | None,
    texts: set[str],
    written: set[str],
    faults: Faults,
) -> Opened:
    """Read the columns that are needed.

    Args:
        features: The settings' features, read from their file.
        names: The one task that is wanted; None for all.
        texts, written: As of `Wanted`.

    Raises:
        DataError: All that is wrong with the files and their columns.
    """
    files = _files(settings, base, names, faults)
    faults.raise_if_any()
    wanted = Wanted(
        written=written,
        missing=settings.missing,
        delimiter=settings.delimiter,
        decimal=settings.decimal,
        encoding=settings.encoding,
    )
    columns: tuple[str, ...] = ()
    tables = []
    for number, (name, shown) in enumerate(files):
        header = format.header(base / shown, shown, wanted, faults)
        if header is None:
            continue
        chosen = _choose_columns(header, settings, features, shown, faults)
        if chosen is None:
            continue
        if not columns:
            columns = chosen
            first = shown
        elif number and {*chosen} != {*columns}:
            _tell_other_columns(columns, chosen, first, shown, faults)
        tables.append((name, shown, _wanted_of(header, chosen, settings, wanted, texts)))
    sites: list[Site] = []
    for name, shown, own in tables:
        table = format.table(base / shown, shown, own, faults)
        if table is None:
            continue
        sites += [Site(name, table, None)] if settings.task_column is None else _split(table, names, settings, faults)
    faults.raise_if_any()
    return Opened(sites, columns)


def _files(settings: FileData, base: Path, names: tuple[str, ...] | None, faults: Faults) -> Sequence[tuple[str, str]]:
    """The files to read, each with its task; one file of all tasks has none."""
    if settings.task_column is not None:
        return [("", settings.files)]
    found = names or tasks_by_name(settings, base, faults)
    return [(name, settings.files.replace("{task}", name)) for name in found]


def _wanted_of(
    header: Sequence[str], chosen: Sequence[str], settings: FileData, wanted: Wanted, texts: set[str]
) -> Wanted:
    """What is read of a file with these columns, of which some were chosen."""
    left_out = {column.name for column in settings.columns or () if not column.is_used} - {settings.order}
    read = {*chosen, settings.label, settings.task_column, settings.order} - left_out
    skip = {name for name in header if name not in read}
    tasks = {settings.task_column or ""}
    return dataclasses.replace(wanted, texts={*texts, settings.label} | tasks, names=tasks, skip=skip)


def _choose_columns(
    header: Sequence[str], settings: FileData, features: tuple[str, ...] | None, shown: str, faults: Faults
) -> tuple[str, ...] | None:
    """The columns that may be features; None after faults."""
    before = faults.count

    def need(name: str, what: str) -> None:
        if name in header:
            return
        hint = did_you_mean(name, header)
        if not hint and len(header) == 1:
            hint = "data.delimiter says what separates columns"
        faults.add(f"{shown}:1", f"{what} {quoted(name)}", listed(header), hint, kind=(shown, what))

    need(settings.label, "a label column")
    for name, what in ((settings.task_column, "a task column"), (settings.order, "a column to order by")):
        if name is not None:
            need(name, what)
    for name in settings.ignore:
        need(name, "a column to ignore called")
    taken = {settings.label, settings.task_column, *settings.ignore}
    known = [column.name for column in settings.columns or ()]
    for name in known:
        if name in taken and name != settings.order:
            faults.add("data.columns", "columns of features", f"{quoted(name)}, the label, task or ignored column")
        elif column_of(settings, name).kind not in ("identifier", "counter", "empty", "ignored"):
            need(name, "a column")
    for name in features or ():
        need(name, "a feature column")
        if name in taken:
            faults.add("data.features", "features only", f"{quoted(name)}, the label, task or ignored column")
    if faults.count > before:
        return None
    if features is not None:
        return features
    own = [name for name in header if name not in taken]
    chosen = [name for name in known if name in own] + [name for name in own if name not in known]
    if not chosen:
        faults.add(f"{shown}:1", "a column for a feature", "none besides the label")
    return tuple(chosen) if faults.count == before else None


def column_of(settings: FileData, name: str) -> Column:
    """A column that data.columns lists."""
    return next(column for column in settings.columns or () if column.name == name)


def _tell_other_columns(columns: Sequence[str], chosen: Sequence[str], first: str, shown: str, faults: Faults) -> None:
    for name in columns:
        if name not in chosen:
            hint = did_you_mean(name, [other for other in chosen if other not in columns])
            faults.add(f"{shown}:1", f"a column {quoted(name)}, as in {first}", "none", hint, kind=(shown, "lacks"))
    for name in chosen:
        if name not in columns:
            hint = "data.ignore leaves it out"
            faults.add(f"{shown}:1", f"the columns of {first}", f"{quoted(name)} as well", hint, kind=(shown, "more"))


def look_at(tables: Opened, known: dict[str, Column], settings: FileData) -> Found:
    """The kinds of the tables' columns."""
    unread = {name: column for name, column in known.items() if not column.is_used}
    parts = {
        name: [Part(site.table.cells[name], site.rows) for site in tables.sites]
        for name in tables.names
        if name not in unread
    }
    return find_schema(tables.names, parts, given=known, missing=settings.missing, places=settings.hash)


def plain_sites(tables: Opened, column: Column) -> list[int]:
    """The numbers of the sites whose cells of a column are plain numbers, where others' have a format."""
    if column.kind != NUMBER or not column.format:
        return []
    return [number for number, site in enumerate(tables.sites) if isinstance(site.table.cells[column.name], Numbers)]


def check_one_way(tables: Opened, column: Column, plain: Sequence[int], found: Schema, faults: Faults) -> None:
    """A fault where plain numbers cannot be read in the format that the column has at other sites.

    Args:
        tables: With the column as texts, where the file has texts.
        column: As it was before.
        plain: As `plain_sites`.
        found: With the column as it is now.
    """
    latest = next(one for one in found.columns if one.name == column.name)
    is_lost = latest.kind != NUMBER or not latest.format
    format = column.format if is_lost else latest.format
    others = [site for number, site in enumerate(tables.sites) if number not in plain]
    for number in plain:
        table = tables.sites[number].table
        cells = table.cells[column.name]
        if not isinstance(cells, Texts) or not cells.values:
            continue
        odd = [code for code, text in enumerate(cells.values) if written_number(text, format) is None]
        if odd or is_lost:
            code = odd[0] if odd else 0
            place = table.place(int(np.flatnonzero(cells.codes == code)[0]), column.name)
            expected = f"a number written as {format}, as in {others[0].table.shown}"
            faults.add(place, expected, quoted(cells.values[code]), "write the column in one way and unit at all sites")
            return


def _split(table: FileTable, names: tuple[str, ...] | None, settings: FileData, faults: Faults) -> list[Site]:
    """The rows of each task; rows of tasks that are not wanted are left out."""
    assert settings.task_column is not None
    texts = as_texts(table.cells[settings.task_column])
    found: dict[str, list[int]] = {}
    for code, value in enumerate(texts.values):
        found.setdefault(tidy(value), []).append(code)
    wanted = names or settings.tasks
    if wanted is None:
        before = faults.count
        wanted = tasks_in_column(table, texts, settings.task_column, faults)
        if faults.count > before:
            return []
    sites = []
    place = f"{table.shown}, column {quoted(settings.task_column)}"
    for name in wanted:
        rows = np.flatnonzero(np.isin(texts.codes, found.get(name, [-2]))).astype(np.int64)
        if not len(rows):
            faults.add(place, f"rows of the task {quoted(name)}", "none", did_you_mean(name, sorted(found)))
            continue
        sites.append(Site(name, table, rows))
    return sites


def notes_on_names(sites: Sequence[Site], task_column: str | None) -> list[str]:
    """Sites that may be one: called nearly alike, or one whose name is written in several ways."""
    alike: dict[str, list[Site]] = {}
    for site in sites:
        plain = unicodedata.normalize("NFKC", site.name).casefold()
        alike.setdefault(re.sub(r"[\s_.-]+", "", plain), []).append(site)
    notes = []
    for group in alike.values():
        if len(group) > 1:
            alike_sites = " and ".join(f"{quoted(site.name)} ({site.num_rows:,} rows)" for site in group)
            notes.append(f"sites {alike_sites} are called nearly alike: if they are one, write their name in one way")
    if task_column is not None and sites:
        spellings: dict[str, list[str]] = {}
        for text in as_texts(sites[0].table.cells[task_column]).values:
            spellings.setdefault(tidy(text), []).append(text)
        for site in sites:
            if len(written := spellings.get(site.name, ())) > 1:
                notes.append(f"site {quoted(site.name)} is written {' and '.join(map(quoted, written))}: taken for one")
    return notes


def notes_on_empty_columns(sites: Sequence[Site], schema: Schema) -> list[str]:
    """Sites without a cell in most of the columns that are learned from."""
    notes = []
    for site in sites:
        empty = [column.name for column in schema.used if _is_empty(site.table.cells[column.name], site.rows)]
        if 2 * len(empty) > len(schema.used):
            told = f"no cell in {len(empty)} of {len(schema.used)} columns ({listed(empty)})"
            notes.append(f"site {quoted(site.name)} has {told}: little can be learned there")
    return notes


def _is_empty(cells: Cells, rows: npt.NDArray[np.int64] | None) -> bool:
    """Whether all are missing."""
    missing = cells.codes < 0 if isinstance(cells, Texts) else np.isnan(cells.values)
    return bool((missing if rows is None else missing[rows]).all())


def in_order(site: Site, settings: FileData, schema: Schema, faults: Faults) -> Site:
    """The site with its rows by data.order; of equals the first in the file comes first."""
    if settings.order is None:
        return site
    cells = site.table.cells[settings.order]
    format = next((column.format for column in schema.columns if column.name == settings.order), "")
    keys = _order_keys(cells, format)
    own = keys if site.rows is None else keys[site.rows]
    bad = np.flatnonzero(np.isnan(own))
    for row in bad[:1].tolist():
        at = site.row(row)
        got = "nothing (a missing value)"
        if isinstance(cells, Texts) and cells.codes[at] >= 0:
            got = quoted(cells.values[cells.codes[at]])
        faults.add(site.table.place(at, settings.order), "a time or number to order by (data.order)", got)
    by_time = np.argsort(own, kind="stable")
    return site._replace(rows=by_time if site.rows is None else site.rows[by_time])


def _order_keys(cells: Cells, format: str) -> Vector:
    """Numbers that rise as the cells do; NaN for what is no time or number."""
    if isinstance(cells, Numbers | Days):
        return cells.values

    def key(text: str) -> float:
        for parse in (number_of, days_of):
            with contextlib.suppress(CellError):
                return parse(text, format if (parse is number_of) is (format in NUMBER_FORMATS) else "")
        return np.nan

    keys: Vector = np.array([*map(key, cells.values), np.nan])[cells.codes]
    return keys


def label_counts(site: Site, label: str) -> Counter[str]:
    """How often each label comes, as the file has it; "" for missing."""
    return counts(as_texts(site.table.cells[label]), site.rows)


def signs_of_site(site: Site, label: str, labels: Labels, faults: Faults) -> Vector:
    texts = as_texts(site.table.cells[label])
    codes = texts.codes if site.rows is None else texts.codes[site.rows]
    return signs_of(texts.values, codes, labels, lambda row: site.table.place(site.row(row), label), faults)


def signs_of(
    values: Sequence[str],
    codes: npt.NDArray[np.int64],
    labels: Labels,
    place: Callable[[int], str],
    faults: Faults,
) -> Vector:
    """-1.0, +1.0 or, where it is missing, 0.0 for each row."""
    signs = np.zeros(len(values) + 1)  # the last is that of code -1
    for code, text in enumerate(values):
        sign = labels.sign(text)
        if sign is not None:
            signs[code] = sign
        elif len(rows := np.flatnonzero(codes == code)):
            faults.add(place(int(rows[0])), labels.expected, quoted(text), kind="label")
    result: Vector = signs[codes]
    return result


def labels_in_words(labels: Labels, why: str, counts: Counter[str]) -> str:
    signs = {text: labels.sign(text) for text in counts}
    total = {sign: sum(count for text, count in counts.items() if signs[text] == sign) for sign in (1.0, -1.0, 0.0)}
    positive = " or ".join(map(quoted, labels.positive)) or "no label"
    negative = (
        "every other label" if labels.rest_is_negative else " or ".join(map(quoted, labels.negative)) or "no label"
    )
    missing = f", {total[0.0]:,} without a label (predicted, not learned)" if total[0.0] else ""
    return f"labels: +1 is {positive} ({total[1.0]:,} rows; {why}), -1 {negative} ({total[-1.0]:,} rows){missing}"


def tasks_in_column(table: FileTable, texts: Texts, column: str, faults: Faults) -> tuple[str, ...]:
    """The different names in the task column."""
    used = {code for code, count in enumerate(np.bincount(texts.codes + 1, minlength=len(texts.values) + 1)) if count}
    names = {tidy(text): code for code, text in enumerate(texts.values) if code + 1 in used}
    if 0 in used:
        names[""] = -1
    for name, code in names.items():
        if not is_name(name):
            row = int(np.flatnonzero(texts.codes == code)[0])
            check_task_name(name, table.place(row, column), faults)
    return tuple(sorted(names, key=natural_key))


def where_odd_labels_are(settings: FileData, found: Mapping[str, Counter[str]]) -> str:
    """``, "unknown" in south.csv``: labels beyond two, and the files that have them; empty where all files are alike.

    Args:
        found: How often each label comes in each file.
    """
    none = settings.no_label
    own = {shown: {plain_label(text) for text in its if not means_none(text, none)} for shown, its in found.items()}
    often = Counter(label for labels in own.values() for label in labels)
    rows: Counter[str] = Counter()
    for its in found.values():
        for text, count in its.items():
            rows[plain_label(text)] += count
    said = {plain_label(text) for text in (*(settings.positive or ()), *(settings.negative or ()))}
    others = sorted(often.keys() - said, key=lambda label: (-often[label], -rows[label], label))
    odd = others[(not settings.positive) + (not settings.negative) :]
    files = [shown for shown, labels in own.items() if labels & {*odd}]
    if not files or len(files) == len(found):
        return ""
    return f", {listed(odd)} in {some_of(files, 3)}"
