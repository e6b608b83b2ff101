"""What the settings of the user's own rows say before a file is read: the format, the features, the tasks by name."""

from __future__ import annotations

import glob
import re
from pathlib import Path, PurePath

from drom_net.core.names import is_name, tidy
from drom_net.data.columns import Schema
from drom_net.data.faults import Faults, quoted
from drom_net.data.formats import FileFormat, NumberFormat, file_format, file_formats, format_of
from drom_net.data.labels import MEANING, clashes
from drom_net.data.opening import opened, reading, unpacked, utf8_lines
from drom_net.data.preprocessing import NO_SCALING, RUNNING, Preprocessing
from drom_net.data.settings import TASK_NAME, FileData, RowSettings

ONE_TASK = "task-1"
"""The task's name where one file holds one task and data.tasks does not name it."""


def check_settings(settings: FileData, faults: Faults, format: FileFormat | None = None) -> FileFormat | None:
    """The format of the files, and a fault for each setting that does not go with it or with another; None where there
    is no format.

    Args:
        format: Of rows in memory; None finds that of files.
    """
    if format is None:
        format = format_of(settings.files) if settings.format is None else file_format(settings.format)
    if format is None:
        known = ", ".join(suffix for format in file_formats().values() for suffix in format.suffixes)
        faults.add("data.files", f"a name that ends in {known}, or data.format", quoted(settings.files))
        return None
    if format.is_packed and unpacked(settings.files) != PurePath(settings.files).name:
        faults.add("data.files", f"{format.name} files as they are (they are packed already)", quoted(settings.files))
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
    numbers_features = isinstance(format, NumberFormat) and format.numbers_features
    if settings.hash is not None:
        if numbers_features and settings.hash & (settings.hash - 1):
            faults.add("data.hash", "a power of two", str(settings.hash))
        if isinstance(format, NumberFormat) and not numbers_features:
            faults.add("data.hash", "none, for it is for tables and svmlight files", str(settings.hash))
        if numbers_features and settings.dim not in (None, settings.hash):
            faults.add("data.dim", "none, or the same number as data.hash", str(settings.dim))
        if numbers_features and settings.features is not None:
            faults.add("data.features", "none beside data.hash", "some")
    if settings.zero_based and not numbers_features:
        faults.add("data.zero_based", "none, for it is for svmlight files", "true")
    if isinstance(format, NumberFormat):
        named = {"data.ignore": settings.ignore, "data.columns": settings.columns, "data.order": settings.order}
        for place in (place for place, value in named.items() if value):
            faults.add(place, f"none, for {format.name} files have no column names", "some")
    elif settings.dim is not None:
        faults.add("data.dim", "none, for the columns of a table say it", str(settings.dim))
    if numbers_features:
        for place, text in (("data.task_column", settings.task_column), ("data.label", settings.label)):
            if text not in (None, "label"):
                faults.add(place, f"none, for {format.name} files have no such columns", quoted(text or ""))
    for index, number in enumerate(settings.scale or ()):
        if number == 0.0:
            faults.add(f"data.scale[{index}]", "a number other than 0", "0")
    for clash in clashes({key: getattr(settings, key) for key in MEANING}):
        faults.add(f"data.{clash.key}", clash.expected, quoted(clash.text) if clash.text else "none", clash.hint)
    return format


def read_features(settings: RowSettings, base: Path, faults: Faults) -> tuple[str, ...] | None:
    """The names in data.features, or in the file it names: one a line, blank lines left out."""
    names = settings.features
    shown = "data.features"
    if isinstance(names, str):
        shown, found = names, []
        before = faults.count
        with reading(base / shown, shown, faults), opened(base / shown) as file:
            found = [line.strip() for line in utf8_lines(file, shown, faults) if line.strip()]
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


def tasks_by_name(settings: FileData, base: Path, faults: Faults) -> tuple[str, ...]:
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
        check_task_name(match["task"], name, faults)
        found.add(match["task"])
    if not found:
        hint = "relative names start at data.directory, by default the folder of the YAML file"
        faults.add("data.files", f"files like {quoted(settings.files)}", "none", hint)
    return tuple(sorted(found, key=natural_key))


def check_task_name(name: str, place: str, faults: Faults) -> None:
    if not is_name(name):
        got = quoted(name) if name else "nothing (a missing value)"
        hint = "blanks around it, or several side by side, are left out" if is_name(tidy(name)) else ""
        faults.add(place, f"as the name of a task {TASK_NAME.what}", got, hint, kind="task name")


def natural_key(name: str) -> tuple[list[str | int], str]:
    """Sorts site-2 before site-10."""
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if index % 2 else part for index, part in enumerate(parts)], name


def preprocessing_of(
    settings: RowSettings, raw_dim: int, schema: Schema | None, *, is_dense: bool = True
) -> Preprocessing:
    """What is done to each row, but for what a site's own rows decide.

    Args:
        raw_dim: The columns of a row, encoded where there is a schema.
        is_dense: Whether rows without a schema are dense, and so all numbers.
    """
    folds = settings.hash if schema is None else None
    numbers = schema.num_numbers if schema is not None else raw_dim if is_dense and folds is None else 0
    scaling = settings.scaling
    if scaling is None:
        scaling = NO_SCALING if settings.center or settings.scale else RUNNING
    return Preprocessing(
        raw_dim=raw_dim,
        numbers=numbers,
        schema=schema,
        zero_based=settings.zero_based,
        hash=folds,
        center=settings.center,
        scale=settings.scale,
        scaling=scaling,
        normalize=settings.normalize,
        bias=settings.bias,
    )


def with_bias(features: tuple[str, ...] | None, settings: RowSettings) -> tuple[str, ...] | None:
    """The names of the columns that a learner sees, where they have names."""
    return (*features, "bias") if features is not None and settings.bias else features
