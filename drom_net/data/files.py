"""The user's own files as a data set: which files, which tasks, and what must agree between them."""

from __future__ import annotations

import dataclasses
import glob
import re
from collections.abc import Sequence
from pathlib import Path, PurePath

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Matrix
from drom_net.data.dataset import Dataset, TaskData, pick_task
from drom_net.data.faults import Faults, quoted
from drom_net.data.incoming import Understanding
from drom_net.data.preprocessing import HASHED_DIM, Preprocessing
from drom_net.data.readers import (
    SUFFIXES,
    Source,
    Table,
    check_finite,
    decoded,
    opened,
    parse_labels,
    plain_label,
    read_table,
    reading,
    take,
)
from drom_net.data.settings import TASK_NAME, FileData, LiveData, RowSettings
from drom_net.data.stream import SparseRows
from drom_net.errors import did_you_mean
from drom_net.names import is_name, tidy

ONE_TASK = "task-1"
"""The task's name where one file holds one task and data.tasks does not name it."""
NAMED_FORMATS = ("csv", "parquet")
"""Formats whose columns have names."""


def load_files(settings: FileData, *, base: Path, only: str | int | None = None) -> Dataset:
    """The files as a data set.

    Args:
        base: The folder relative file names start at.
        only: Load this task's examples and no others, as a lone worker does.

    Raises:
        DataError: All that is wrong with the settings and the files.
        UsageError: A package that reads such files is missing.
    """
    faults = Faults()
    format = check_settings(settings, faults)
    features = read_features(settings, base, faults)
    faults.raise_if_any()
    names: tuple[str, ...] | None = None
    if only is not None:
        if settings.tasks is None and (settings.task_column or "{task}" in settings.files):
            faults.add("data.tasks", "the names of all tasks, in order", "none", "a node started by hand needs them")
        faults.raise_if_any()
        names = settings.tasks or (ONE_TASK,)
        names = (names[pick_task(names, only)],)
    elif settings.task_column is None:
        names = _tasks_by_name(settings, base, faults)
        faults.raise_if_any()

    tables: dict[str, Table] = {}
    shown_of: dict[str, str] = {}
    if settings.task_column is not None:
        keep = names[0] if names and only is not None else None
        source = Source(base / settings.files, settings.files, settings, features, keep)
        table = read_table(source, format, faults)
        if table is not None:
            _check_table(table, settings.files, settings, features, faults)
            names = names or _tasks_in_column(table, settings, settings.files, faults)
            tables = _split(table, names, settings, faults)
            shown_of = dict.fromkeys(tables, settings.files)
    else:
        for name in names or ():
            shown = shown_of[name] = settings.files.replace("{task}", name)
            table = read_table(Source(base / shown, shown, settings, features), format, faults)
            if table is not None:
                _check_table(table, shown, settings, features, faults)
                tables[name] = table
        _check_same_columns(tables, shown_of, faults)
    labels = {name: parse_labels(table, shown_of[name], settings.positive, faults) for name, table in tables.items()}
    if tables:
        _check_widths(tables, settings, features, faults)
    if tables and only is None and settings.positive is not None and not faults.count:
        _check_positive_occurs(tables, settings.positive, faults)
    faults.raise_if_any()

    some = next(iter(tables.values()))
    preprocessing = preprocessing_of(settings, some.dim)
    if settings.scaling == "site":
        dense = {name: table.rows for name, table in tables.items() if not isinstance(table.rows, SparseRows)}
        preprocessing = preprocessing.with_sites(dense)
    tasks = []
    for name, table in tables.items():
        rows = preprocessing.apply(table.rows, name)
        _check_result(rows, table, faults, shown_of[name])
        tasks.append(TaskData(name, rows, labels[name]))
    faults.raise_if_any()
    feature_names = with_bias(some.names or features, settings)
    looks_ahead = settings.scaling == "site"
    return Dataset(
        name=settings.dataset,
        tasks=tuple(tasks),
        dim=preprocessing.dim,
        features=feature_names,
        positive=f"label {settings.positive or '1'}",
        preprocessing=preprocessing,
        description=f"The user's own files ({format})."
        + (" Columns are standardised by the whole of a site's rows: this looks ahead." if looks_ahead else ""),
        source=settings.files,
        licence="the user's own",
    )


def with_names(settings: LiveData, base: Path) -> LiveData:
    """The settings with the names of the features in place of a file of them, so that nodes need no such file.

    Raises:
        DataError: The file is wrong, or the numbers of columns do not agree.
    """
    faults = Faults()
    features = read_features(settings, base, faults)
    faults.raise_if_any()
    width = settings.hash or settings.dim or len(features or ())
    for place, numbers in (("data.center", settings.center), ("data.scale", settings.scale)):
        if numbers is not None and len(numbers) != width:
            faults.add(place, f"{width} numbers, one a column", str(len(numbers)))
    faults.raise_if_any()
    return dataclasses.replace(settings, features=features)


def understanding_of(settings: LiveData) -> Understanding:
    """What live rows are; the settings as `with_names` gives them."""
    features = settings.features
    assert not isinstance(features, str)
    preprocessing = preprocessing_of(settings, settings.dim or len(features or ()))
    return Understanding(preprocessing, features, settings.label, settings.positive)


def describe_live(settings: LiveData, *, only: str | int | None = None) -> Dataset:
    """Live data as a data set that has no rows yet."""
    rows = understanding_of(settings)
    names = settings.tasks if only is None else (settings.tasks[pick_task(settings.tasks, only)],)
    dim = rows.preprocessing.dim
    return Dataset(
        name=settings.dataset,
        tasks=tuple(TaskData(name, np.zeros((0, dim)), np.zeros(0)) for name in names),
        dim=dim,
        features=with_bias(rows.features, settings),
        positive=f"label {settings.positive or '1'}",
        preprocessing=rows.preprocessing,
        description="Examples that come while the cluster runs.",
        source="each site's own (section source)",
        licence="the user's own",
    )


def preprocessing_of(settings: RowSettings, raw_dim: int) -> Preprocessing:
    """What is done to each row, but for what a site's own rows decide.

    Args:
        raw_dim: The columns of a row, unless they are folded.
    """
    return Preprocessing(
        raw_dim=HASHED_DIM if settings.hash is not None else raw_dim,
        zero_based=settings.zero_based,
        hash=settings.hash,
        center=settings.center,
        scale=settings.scale,
        normalize=settings.normalize,
        bias=settings.bias,
    )


def with_bias(features: tuple[str, ...] | None, settings: RowSettings) -> tuple[str, ...] | None:
    """The names of the columns that a learner sees, where they have names."""
    return (*features, "bias") if features is not None and settings.bias else features


def task_names(settings: FileData, base: Path) -> tuple[str, ...]:
    """The tasks in order: as given, or found in the file names or in the task column (natural order).

    Raises:
        DataError: The settings, the file names, or the file with the task column are wrong.
    """
    faults = Faults()
    format = check_settings(settings, faults)
    features = read_features(settings, base, faults)
    faults.raise_if_any()
    if settings.tasks is not None or settings.task_column is None:
        names = _tasks_by_name(settings, base, faults)
    else:
        table = read_table(Source(base / settings.files, settings.files, settings, features), format, faults)
        names = () if table is None else _tasks_in_column(table, settings, settings.files, faults)
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
    width = settings.hash or settings.dim or (len(features) if features else None)
    return None if width is None else width + (settings.bias != 0.0)


def natural_key(name: str) -> tuple[list[str | int], str]:
    """Sorts site-2 before site-10."""
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if index % 2 else part for index, part in enumerate(parts)], name


# --- the settings ------------------------------------------------------------------------------------


def check_settings(settings: FileData, faults: Faults) -> str:
    """The format of the files, and a fault for each setting that does not go with it or with another."""
    name = PurePath(settings.files).name
    packed = name.endswith(".gz")
    format = settings.format or SUFFIXES.get(PurePath(name.removesuffix(".gz")).suffix, "")
    if not format:
        known = ", ".join(SUFFIXES)
        faults.add("data.files", f"a name that ends in {known}, or data.format", quoted(settings.files))
        return ""
    if packed and format in ("npz", "parquet"):
        faults.add("data.files", f"{format} files as they are (they are packed already)", quoted(settings.files))
    several = "{task}" in settings.files
    if several and settings.task_column is not None:
        faults.add(
            "data.task_column", "none beside a file for each task ({task} in data.files)", quoted(settings.task_column)
        )
    if settings.tasks is not None:
        repeated = sorted({task for task in settings.tasks if settings.tasks.count(task) > 1})
        for task in repeated:
            faults.add("data.tasks", "different names", f"{quoted(task)} more than once")
        if not settings.tasks:
            faults.add("data.tasks", "at least one name", "none")
        if len(settings.tasks) > 1 and not several and settings.task_column is None:
            got = f"{quoted(settings.files)} for {len(settings.tasks)} tasks"
            faults.add("data.files", "a pattern with {task}, or data.task_column", got)
    if settings.hash is not None:
        if settings.hash & (settings.hash - 1):
            faults.add("data.hash", "a power of two", str(settings.hash))
        if settings.dim not in (None, settings.hash):
            faults.add("data.dim", "none, or the same number as data.hash", str(settings.dim))
        if settings.features is not None:
            faults.add("data.features", "none beside data.hash", "some")
    svmlight_only = {"data.hash": settings.hash, "data.zero_based": settings.zero_based or None}
    for place, value in svmlight_only.items():
        if value is not None and format != "svmlight":
            faults.add(place, "none, for it is for svmlight files", str(value).lower())
    if format not in NAMED_FORMATS and settings.ignore:
        faults.add("data.ignore", f"none, for {format} files have no column names", quoted(settings.ignore[0]))
    if format == "svmlight":
        for place, text in (("data.task_column", settings.task_column), ("data.label", settings.label)):
            if text not in (None, "label"):
                faults.add(place, "none, for svmlight files have no such columns", quoted(text or ""))
    for index, number in enumerate(settings.scale or ()):
        if number == 0.0:
            faults.add(f"data.scale[{index}]", "a number other than 0", "0")
    return format


def read_features(settings: RowSettings, base: Path, faults: Faults) -> tuple[str, ...] | None:
    """The names in data.features, or in the file it names: one a line, blank lines left out."""
    names = settings.features
    shown = "data.features"
    if isinstance(names, str):
        shown, found = names, []
        before = faults.count
        with reading(base / shown, shown, faults), opened(base / shown) as file:
            found = [line.strip() for line in decoded(file, shown, faults) if line.strip()]
        if faults.count > before:
            return None
        names = tuple(found)
    if names is not None and not names:
        faults.add(shown, "at least one column name", "none")
    for name in sorted({name for name in names or () if (names or ()).count(name) > 1}):
        faults.add(shown, "different column names", f"{quoted(name)} more than once")
    if names and settings.dim not in (None, len(names)):
        faults.add("data.dim", f"{len(names)}, as many as data.features", str(settings.dim))
    return names


# --- the roster --------------------------------------------------------------------------------------


def _tasks_by_name(settings: FileData, base: Path, faults: Faults) -> tuple[str, ...]:
    """The tasks as given, or as the files are called."""
    if settings.tasks is not None:
        return settings.tasks
    if "{task}" not in settings.files:
        return (ONE_TASK,)
    # The first {task} may be anything but a folder; the others must repeat it.
    before, *rest = [re.escape(part) for part in settings.files.split("{task}")]
    expression = re.compile(before + r"(?P<task>[^/\\]+)" + r"(?P=task)".join(rest))
    pattern = "*".join(glob.escape(part) for part in settings.files.split("{task}"))
    found = set()
    for name in glob.glob(pattern, root_dir=base):
        match = expression.fullmatch(PurePath(name).as_posix())
        if match is None:
            continue
        _check_task_name(match["task"], name, faults)
        found.add(match["task"])
    if not found:
        hint = "relative names start at data.directory, by default the folder of the topology file"
        faults.add("data.files", f"files like {quoted(settings.files)}", "none", hint)
    return tuple(sorted(found, key=natural_key))


def _tasks_in_column(table: Table, settings: FileData, shown: str, faults: Faults) -> tuple[str, ...]:
    """The different names in the task column, or the tasks as given."""
    if settings.tasks is not None:
        return settings.tasks
    first: dict[str, int] = {}
    for row, name in enumerate(table.tasks or ()):
        first.setdefault(name, row)
    for name, row in first.items():
        place = table.place(row, None).rsplit(", column", 1)[0]
        _check_task_name(name, f"{place}, column {quoted(settings.task_column or '')}", faults)
    return tuple(sorted(first, key=natural_key))


def _check_task_name(name: str, place: str, faults: Faults) -> None:
    if not is_name(name):
        got = quoted(name) if name else "nothing (a missing value)"
        hint = "blanks around it, or several side by side, are left out" if is_name(tidy(name)) else ""
        faults.add(place, f"as the name of a task {TASK_NAME.what}", got, hint, kind="task name")


# --- what must agree ---------------------------------------------------------------------------------


def _check_table(
    table: Table, shown: str, settings: FileData, features: tuple[str, ...] | None, faults: Faults
) -> None:
    check_finite(table, shown, faults)
    wanted = settings.dim or (len(features) if features else None)
    if wanted is not None and settings.hash is None and table.dim != wanted:
        source = "data.dim" if settings.dim else "data.features"
        faults.add(shown, f"{wanted} feature columns ({source})", str(table.dim))


def _split(table: Table, names: Sequence[str], settings: FileData, faults: Faults) -> dict[str, Table]:
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


def _rows_of(table: Table, chosen: npt.NDArray[np.int64]) -> Table:
    return Table(
        rows=take(table.rows, chosen),
        labels=[table.labels[row] for row in chosen.tolist()],
        tasks=None,
        names=table.names,
        place=lambda row, column: table.place(int(chosen[row]), column),
    )


def _check_same_columns(tables: dict[str, Table], shown_of: dict[str, str], faults: Faults) -> None:
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
        elif model.names is None or table.names is None:
            if table.dim != model.dim:
                faults.add(shown, f"{model.dim} columns, {like}", str(table.dim))
        else:
            _check_same_names(model.names, table.names, like, shown, faults)


def _check_same_names(wanted: tuple[str, ...], names: tuple[str, ...], like: str, shown: str, faults: Faults) -> None:
    for index in range(max(len(wanted), len(names))):
        want = quoted(wanted[index]) if index < len(wanted) else "no further column"
        name = quoted(names[index]) if index < len(names) else "no further column"
        if want != name:
            faults.add(f"{shown}, feature {index + 1}", f"{want}, {like}", name)
            return


def _check_widths(
    tables: dict[str, Table], settings: FileData, features: tuple[str, ...] | None, faults: Faults
) -> None:
    """Faults of the settings that only the data shows."""
    sparse = [table for table in tables.values() if isinstance(table.rows, SparseRows)]
    width = settings.hash or settings.dim or len(features or ())
    svmlight_without_dim = not width and any(table.dim == HASHED_DIM for table in sparse)
    if svmlight_without_dim:
        first = 0 if settings.zero_based else 1
        largest = max(int(table.rows.indices.max(initial=-1)) for table in sparse if isinstance(table.rows, SparseRows))
        hint = f"the largest feature number here is {largest + first}: dim: {largest + 1} holds it"
        faults.add("data.dim", "the number of features, which svmlight files do not say", "none", hint)
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


def _check_positive_occurs(tables: dict[str, Table], positive: str, faults: Faults) -> None:
    """A positive label that no row has is a slip of the pen."""
    labels = {plain_label(text) for table in tables.values() for text in table.labels}
    if plain_label(positive) not in labels:
        shown = ", ".join(quoted(label) for label in sorted(labels)[:8])
        hint = did_you_mean(positive, sorted(labels))
        faults.add("data.positive", "a label that occurs", quoted(positive), hint or f"labels are {shown}")


def _check_result(rows: Matrix | SparseRows, table: Table, faults: Faults, shown: str) -> None:
    """Finite numbers may have become infinite by scaling."""
    values = rows.values if isinstance(rows, SparseRows) else rows
    bad = np.argwhere(~np.isfinite(values))
    if not len(bad):
        return
    if isinstance(rows, SparseRows):
        row, column = int(np.searchsorted(rows.indptr, bad[0][0], side="right") - 1), None
    else:
        row, column = int(bad[0][0]), int(bad[0][1])
    place = shown if column is None or column >= table.dim else table.place(row, column)
    faults.add(place, "numbers that stay finite when they are scaled", "an overflow")
