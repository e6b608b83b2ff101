"""The user's own files as a data set: which files, which tasks, what their columns are, and what must agree."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Matrix
from drom_net.core.errors import did_you_mean
from drom_net.data.dataset import Dataset, TaskData, pick_task
from drom_net.data.encoding import Encoder
from drom_net.data.faults import Faults, quoted
from drom_net.data.file_settings import (
    ONE_TASK,
    check_settings,
    check_task_name,
    natural_key,
    preprocessing_of,
    read_features,
    tasks_by_name,
    with_bias,
)
from drom_net.data.formats import FileFormat, NumberFormat, TableFormat
from drom_net.data.kinds import Found
from drom_net.data.labels import Labels, find_labels
from drom_net.data.preprocessing import HASHED_DIM, SITE, Preprocessing
from drom_net.data.settings import FileData, LiveData, RowSettings, StreamSettings
from drom_net.data.sites import (
    Site,
    check_one_way,
    in_order,
    label_counts,
    labels_in_words,
    look_at,
    notes_on_empty_columns,
    notes_on_names,
    open_tables,
    plain_sites,
    signs_of,
    signs_of_site,
    tasks_in_column,
    where_odd_labels_are,
)
from drom_net.data.stream import SparseRows, take
from drom_net.data.tables import NumberTable, Source, Texts, Wanted, as_texts, check_finite


def load_files(
    settings: FileData, *, base: Path, only: str | int | None = None, format: FileFormat | None = None
) -> Dataset:
    """The files as a data set; its rows are encoded, and prepared when they are put in order (`make_stream`).

    Args:
        base: The folder relative file names start at.
        only: Load this task's examples and no others, as a lone worker does.
        format: Of rows in memory (`data/memory.py`); None finds that of the files.

    Raises:
        DataError: All that is wrong with the settings and the files.
        UsageError: A package that reads such files is missing.
    """
    faults = Faults()
    format = check_settings(settings, faults, format)
    features = read_features(settings, base, faults)
    faults.raise_if_any()
    names = None if only is None else _only_name(settings, only, faults)
    if isinstance(format, TableFormat):
        return _load_tables(settings, format, base, features, names, faults)
    assert isinstance(format, NumberFormat)
    return _load_numbers(settings, format, base, features, names, faults)


def _only_name(settings: FileData, only: str | int, faults: Faults) -> tuple[str, ...]:
    if settings.tasks is None and (settings.task_column or "{task}" in settings.files):
        hint = "a node started by hand needs them; `drom-net init` writes them"
        faults.add("data.tasks", "the names of all tasks, in order", "none", hint)
    faults.raise_if_any()
    names = settings.tasks or (ONE_TASK,)
    return (names[pick_task(names, only)],)


# --- tables ------------------------------------------------------------------------------------------


def _load_tables(
    settings: FileData,
    format: TableFormat,
    base: Path,
    features: tuple[str, ...] | None,
    names: tuple[str, ...] | None,
    faults: Faults,
) -> Dataset:
    sees_all = names is None
    opened_sites, found = _open_and_look(settings, format, base, features, names, faults)
    sites = [in_order(site, settings, found.schema, faults) for site in opened_sites]
    faults.raise_if_any()
    site_notes = [*notes_on_names(sites, settings.task_column), *notes_on_empty_columns(sites, found.schema)]
    shown = f"{settings.files}, column {quoted(settings.label)}"
    by_file: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for site in sites:
        by_file[site.table.shown] += label_counts(site, settings.label)
    counts, where = sum(by_file.values(), Counter[str]()), where_odd_labels_are(settings, by_file)
    labels, why = _find_labels(settings, counts, shown + where, faults, sees_all=sees_all)
    signs = [] if labels is None else [signs_of_site(site, settings.label, labels, faults) for site in sites]
    schema = found.schema
    encoder = Encoder(schema, [site.num_rows for site in sites])
    for column in schema.used:
        for number, site in enumerate(sites):
            table = site.table
            encoder.add(
                *(column, number, table.cells[column.name], site.rows),
                lambda row, table=table, name=column.name: table.place(row, name),  # type: ignore[misc]
                faults,
            )
        for site in sites:
            site.table.cells.pop(column.name, None)  # a large table is not kept twice
    if not schema.used:
        faults.add(shown, "a column for a feature", "none besides the label")
    width = schema.num_numbers
    for place, numbers in (("data.center", settings.center), ("data.scale", settings.scale)):
        if numbers is not None and len(numbers) != width:
            faults.add(place, f"{width} numbers, one for each column of numbers", str(len(numbers)))
    faults.raise_if_any()
    assert labels is not None
    tasks = tuple(
        TaskData(site.name, rows, sign) for site, rows, sign in zip(sites, encoder.rows(), signs, strict=True)
    )
    notes = [*found.notes, *site_notes, labels_in_words(labels, why, counts)]
    if settings.shuffle:
        notes.append("rows are learned in a random order (data.shuffle: true), not in that of the file")
    notes += dict.fromkeys(f"{site.table.shown}: {words}" for site in sites if (words := site.table.remark))
    return _dataset(settings, format, tasks, preprocessing_of(settings, schema.width, schema), labels, notes)


def _open_and_look(
    settings: FileData,
    format: TableFormat,
    base: Path,
    features: tuple[str, ...] | None,
    names: tuple[str, ...] | None,
    faults: Faults,
) -> tuple[Sequence[Site], Found]:
    """Each site's table, and the kinds of their columns."""
    texts = {column.name for column in settings.columns or () if column.kind in ("category", "text")}
    written = {column.name for column in settings.columns or () if column.format}
    opened_tables = open_tables(settings, format, base, features, names, texts, written, faults)
    known = {column.name: column for column in settings.columns or ()}
    if names is not None:
        for name in [name for name in opened_tables.names if name not in known]:
            hint = "a node that sees only its own rows cannot tell what others have; `drom-net init` writes all"
            faults.add("data.columns", f"the kind of column {quoted(name)}", "none", hint, kind="unknown column")
        faults.raise_if_any()
    found = look_at(opened_tables, known, settings)
    mixed = {
        column.name
        for column in found.schema.columns
        if column.kind in ("category", "text")
        and any(not isinstance(site.table.cells[column.name], Texts) for site in opened_tables.sites)
    }
    plain = [
        (column, sites)
        for column in found.schema.columns
        if column.name not in known and (sites := plain_sites(opened_tables, column))
    ]
    if mixed or plain:  # what is a code at one site is a text at another: "007" is not 7, and 1.234 may be 1234
        written |= {column.name for column, _ in plain}
        opened_tables = open_tables(settings, format, base, features, names, texts | mixed, written, faults)
        found = look_at(opened_tables, known, settings)
    for column, sites in plain:
        check_one_way(opened_tables, column, sites, found.schema, faults)
    faults.raise_if_any()
    return opened_tables.sites, found


def _find_labels(
    settings: FileData, counts: Counter[str], place: str, faults: Faults, *, sees_all: bool
) -> tuple[Labels | None, str]:
    """What the labels mean by the settings, as `find_labels`."""
    return find_labels(
        counts,
        place,
        faults,
        positive=settings.positive,
        negative=settings.negative,
        rest=settings.rest,
        missing=settings.no_label,
        sees_all=sees_all,
    )


# --- files of numbers --------------------------------------------------------------------------------


def _load_numbers(
    settings: FileData,
    format: NumberFormat,
    base: Path,
    features: tuple[str, ...] | None,
    names: tuple[str, ...] | None,
    faults: Faults,
) -> Dataset:
    """Those of `NumberFormat`s."""
    sees_all = names is None
    tables: dict[str, NumberTable] = {}
    shown_of: dict[str, str] = {}
    if settings.task_column is not None:
        table = format.table(_source(settings, base, settings.files, features, names[0] if names else None), faults)
        if table is not None:
            _check_table(table, settings.files, settings, features, faults)
            names = names or settings.tasks or _tasks_of_table(table, settings, faults)
            tables = _split_numbers(table, names, settings, faults)
            shown_of = dict.fromkeys(tables, settings.files)
    else:
        for name in names or tasks_by_name(settings, base, faults):
            shown = shown_of[name] = settings.files.replace("{task}", name)
            table = format.table(_source(settings, base, shown, features), faults)
            if table is not None:
                _check_table(table, shown, settings, features, faults)
                tables[name] = table
        _check_same_columns(tables, shown_of, faults)
    of_each = {shown_of[name]: Counter(table.labels) for name, table in tables.items()}
    counts = Counter(text for table in tables.values() for text in table.labels)
    labels: Labels | None = None
    why = ""
    if tables:
        place = f"{settings.files}, labels{where_odd_labels_are(settings, of_each)}"
        labels, why = _find_labels(settings, counts, place, faults, sees_all=sees_all)
        _check_widths(tables, settings, format, features, faults)
    signs = {}
    if labels is not None:
        for name, table in tables.items():
            values, codes = np.unique(np.array(table.labels, dtype=str), return_inverse=True)
            signs[name] = signs_of(
                *(values.tolist(), codes.astype(np.int64), labels),
                lambda row, table=table: table.place(row, None),  # type: ignore[misc]
                faults,
            )
    faults.raise_if_any()
    assert labels is not None
    some = next(iter(tables.values()))
    raw_dim = HASHED_DIM if settings.hash is not None else some.dim
    preprocessing = preprocessing_of(settings, raw_dim, None, is_dense=not isinstance(some.rows, SparseRows))
    tasks = tuple(TaskData(name, table.rows, signs[name]) for name, table in tables.items())
    return _dataset(settings, format, tasks, preprocessing, labels, [labels_in_words(labels, why, counts)], features)


def _source(
    settings: FileData, base: Path, shown: str, features: tuple[str, ...] | None, keep: str | None = None
) -> Source:
    dim = settings.dim or len(features or ()) or None
    dim = dim if settings.hash is None else None
    return Source(base / shown, shown, dim, settings.zero_based, settings.label, settings.task_column, keep)


def _dataset(
    settings: FileData,
    format: FileFormat,
    tasks: tuple[TaskData, ...],
    preprocessing: Preprocessing,
    labels: Labels,
    notes: Sequence[str],
    features: tuple[str, ...] | None = None,
) -> Dataset:
    """The data set, once it is known that its rows stay finite."""
    if preprocessing.scaling == SITE:
        numbers = {
            task.name: task.rows[:, : preprocessing.numbers]
            if not isinstance(task.rows, SparseRows)
            else _numbers_of(task.rows, preprocessing.numbers)
            for task in tasks
        }
        preprocessing = preprocessing.with_sites(numbers)
    _check_result(tasks, preprocessing, settings)
    looks_ahead = preprocessing.scaling == SITE
    names = preprocessing.schema.names if preprocessing.schema is not None else features
    return Dataset(
        name=settings.dataset,
        tasks=tasks,
        dim=preprocessing.dim,
        features=with_bias(names, settings),
        positive=f"label {(labels.positive or ('1',))[0]}",
        preprocessing=preprocessing,
        description=f"The user's own files ({format.name})."
        + (" Columns are standardised by the whole of a site's rows: this looks ahead." if looks_ahead else ""),
        source=settings.files,
        licence="the user's own",
        is_prepared=False,
        labels=labels,
        notes=tuple(notes),
    )


def _numbers_of(rows: SparseRows, numbers: int) -> Matrix:
    found: Matrix = rows.values[rows.indptr[:-1, np.newaxis] + np.arange(numbers)]
    return found


def resolved(settings: StreamSettings, dataset: Dataset) -> StreamSettings:
    """The settings with all that was found by looking at the files: columns, hashed places and labels."""
    if not isinstance(settings, FileData) or dataset.labels is None:
        return settings
    schema = dataset.preprocessing.schema
    found: dict[str, Any] = {}
    if schema is not None:
        found = {
            "columns": schema.columns,
            "hash": schema.places,
            "missing": schema.missing_texts,
            "features": None,
        }
    if dataset.labels.positive:
        found |= {"positive": dataset.labels.positive, "negative": dataset.labels.negative or None}
    return dataclasses.replace(settings, **found, scaling=dataset.preprocessing.scaling)


def task_names(settings: FileData, base: Path) -> tuple[str, ...]:
    """The tasks in order: as given, or found in the file names or in the task column (natural order).

    Raises:
        DataError: The settings, the file names, or the file with the task column are wrong.
    """
    faults = Faults()
    format = check_settings(settings, faults)
    features = read_features(settings, base, faults)
    faults.raise_if_any()
    names: tuple[str, ...] = ()
    if settings.tasks is not None or settings.task_column is None:
        names = tasks_by_name(settings, base, faults)
    elif isinstance(format, TableFormat):
        column = settings.task_column
        shown = settings.files
        header = format.header(base / shown, shown, Wanted(encoding=settings.encoding), faults)
        if header is not None and column not in header:
            faults.add(f"{shown}:1", f"a task column {quoted(column)}", "none", did_you_mean(column, header))
        faults.raise_if_any()
        wanted = Wanted(
            texts={column},
            names={column},
            skip={*(header or ())} - {column},
            delimiter=settings.delimiter,
            decimal=settings.decimal,
            encoding=settings.encoding,
        )
        found = format.table(base / shown, shown, wanted, faults)
        names = () if found is None else tasks_in_column(found, as_texts(found.cells[column]), column, faults)
    else:
        assert isinstance(format, NumberFormat)
        table = format.table(_source(settings, base, settings.files, features), faults)
        names = () if table is None else _tasks_of_table(table, settings, faults)
    faults.raise_if_any()
    return names


def known_dim(settings: RowSettings, base: Path) -> int | None:
    """The dim of the data set, bias included, where the settings (and the file of feature names) tell it.

    Raises:
        DataError: The file of feature names is wrong.
    """
    faults = Faults()
    features = read_features(settings, base, faults)
    faults.raise_if_any()
    if isinstance(settings, LiveData):
        settings = dataclasses.replace(settings, features=features)
    if settings.schema is not None:
        width: int | None = settings.schema.width
    elif isinstance(settings, FileData) and isinstance(check_settings(settings, Faults()), TableFormat):
        width = None
    else:
        width = settings.hash or settings.dim or (len(features) if features else None)
    return None if width is None else width + (settings.bias != 0.0)


# --- the roster --------------------------------------------------------------------------------------


def _tasks_of_table(table: NumberTable, settings: FileData, faults: Faults) -> tuple[str, ...]:
    """The same for arrays."""
    first: dict[str, int] = {}
    for row, name in enumerate(table.tasks or ()):
        first.setdefault(name, row)
    for name, row in first.items():
        place = table.place(row, None).rsplit(", column", 1)[0]
        check_task_name(name, f"{place}, column {quoted(settings.task_column or '')}", faults)
    return tuple(sorted(first, key=natural_key))


# --- what must agree ---------------------------------------------------------------------------------


def _check_table(
    table: NumberTable, shown: str, settings: FileData, features: tuple[str, ...] | None, faults: Faults
) -> None:
    check_finite(table, shown, faults)
    wanted = settings.dim or (len(features) if features else None)
    if wanted is not None and settings.hash is None and table.dim != wanted:
        source = "data.dim" if settings.dim else "data.features"
        faults.add(shown, f"{wanted} feature columns ({source})", str(table.dim))


def _split_numbers(
    table: NumberTable, names: Sequence[str], settings: FileData, faults: Faults
) -> dict[str, NumberTable]:
    """One table for each task; rows of tasks that are not in `names` are left out."""
    tables = {}
    column = np.array(table.tasks or (), dtype=object)
    for name in names:
        chosen = np.flatnonzero(column == name)
        if not len(chosen):
            place = f"{settings.files}, column {quoted(settings.task_column or '')}"
            hint = did_you_mean(name, sorted(set(table.tasks or ())))
            faults.add(place, f"rows of the task {quoted(name)}", "none", hint)
            continue
        tables[name] = _rows_of(table, chosen)
    return tables


def _rows_of(table: NumberTable, chosen: npt.NDArray[np.int64]) -> NumberTable:
    return NumberTable(
        rows=take(table.rows, chosen),
        labels=[table.labels[row] for row in chosen.tolist()],
        tasks=None,
        place=lambda row, column: table.place(int(chosen[row]), column),
    )


def _check_same_columns(tables: dict[str, NumberTable], shown_of: dict[str, str], faults: Faults) -> None:
    """Every file like the first one."""
    if not tables:
        return
    first, *others = tables
    model, like = tables[first], f"as in {shown_of[first]}"
    for other in others:
        table, shown = tables[other], shown_of[other]
        if isinstance(table.rows, SparseRows) != isinstance(model.rows, SparseRows):
            words = ("dense rows", "sparse rows")
            expected = words[isinstance(model.rows, SparseRows)]
            faults.add(shown, f"{expected}, {like}", words[isinstance(table.rows, SparseRows)])
        elif table.dim != model.dim:
            faults.add(shown, f"{model.dim} columns, {like}", str(table.dim))


def _check_widths(
    tables: dict[str, NumberTable],
    settings: FileData,
    format: NumberFormat,
    features: tuple[str, ...] | None,
    faults: Faults,
) -> None:
    """Faults of the settings that only the data shows."""
    sparse = [table for table in tables.values() if isinstance(table.rows, SparseRows)]
    width = settings.hash or settings.dim or len(features or ())
    if not width and any(table.dim == HASHED_DIM for table in sparse):
        first = 0 if settings.zero_based else 1
        largest = max(int(table.rows.indices.max(initial=-1)) for table in sparse if isinstance(table.rows, SparseRows))
        hint = f"the largest feature number in these files is {largest + first}: dim: {largest + 1} holds it"
        faults.add("data.dim", f"the number of features, which {format.name} files do not say", "none", hint)
        return
    if sparse:
        for place, given in (
            ("data.center", settings.center is not None),
            ("data.scaling", settings.scaling == "site"),
        ):
            if given:
                faults.add(place, "none for sparse rows, which it would fill", "one" if "center" in place else "site")
    width = width or next(iter(tables.values())).dim
    for place, numbers in (("data.center", settings.center), ("data.scale", settings.scale)):
        if numbers is not None and len(numbers) != width:
            faults.add(place, f"{width} numbers, one a column", str(len(numbers)))


def _check_result(tasks: Sequence[TaskData], preprocessing: Preprocessing, settings: FileData) -> None:
    """Finite numbers may have become infinite by constants.

    Raises:
        DataError: Some have.
    """
    if preprocessing.center is None and preprocessing.scale is None and preprocessing.scaling != SITE:
        return
    faults = Faults()
    for task in tasks:
        rows = preprocessing.apply(task.rows, task.name)
        values = rows.values if isinstance(rows, SparseRows) else rows
        if not np.isfinite(values).all():
            expected = "numbers that stay finite when they are scaled"
            faults.add(settings.files.replace("{task}", task.name), expected, "an overflow")
    faults.raise_if_any()
