"""The first draft of a cluster's file: what tables say, and what several sites' drafts have in common."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from drom_net.config.model import ClusterConfig
from drom_net.config.yamlfile import write_flow
from drom_net.core.errors import DataError, Problem, UsageError
from drom_net.data import columns as kinds
from drom_net.data.cells import GROUPED, plain_text
from drom_net.data.columns import LEVEL_PLACES, TEXT_PLACES, Column, places_for
from drom_net.data.describing import describe_columns
from drom_net.data.faults import Faults, quoted
from drom_net.data.files import load_files, resolved
from drom_net.data.formats import TableFormat, file_formats, format_of
from drom_net.data.kinds import Part, find_schema
from drom_net.data.labels import clashes, plain_label
from drom_net.data.settings import FileData
from drom_net.data.tables import FileTable, Wanted

ONE_SITE = "-"
"""In place of a column: all rows are of one site."""
_CUT = re.compile(r"[^A-Za-z0-9]")
_WIDTH = 46
"""Where comments begin."""


@dataclass(frozen=True)
class Tables:
    """The tables that were named, read whole.

    Attributes:
        names: Of the columns, in the first file's order.
    """

    paths: tuple[Path, ...]
    tables: tuple[FileTable, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.tables[0].cells)


def read_tables(paths: Sequence[Path], *, missing: tuple[str, ...] = ()) -> Tables:
    """Read files as tables.

    Raises:
        DataError: All that is wrong with them.
    """
    faults = Faults()
    tables = []
    for path in paths:
        format = table_format(path, faults)
        table = format and format.table(path, str(path), Wanted(missing=missing), faults)
        if table:
            tables.append(table)
    faults.raise_if_any()
    return Tables(tuple(paths), tuple(tables))


def table_format(path: Path, faults: Faults) -> TableFormat | None:
    """The format of a table by its name; None after a fault."""
    format = format_of(path.name)
    if isinstance(format, TableFormat):
        return format
    tables = (format for format in file_formats().values() if isinstance(format, TableFormat))
    known = ", ".join(suffix for format in tables for suffix in format.suffixes)
    hint = "svmlight and NPZ files need no columns: docs/data.md" if format else ""
    faults.add(str(path), f"a table ({known})", "another file", hint)
    return None


def describe_file(path: Path) -> list[dict[str, Any]]:
    """The columns of a table, as `describe_columns`.

    Raises:
        DataError: It cannot be read.
    """
    found = read_tables([path])
    table = found.tables[0]
    parts = {name: [Part(cells, None)] for name, cells in table.cells.items()}
    return describe_columns([table], find_schema(found.names, parts, given={}).schema)


# --- drafting ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Meant:
    """What somebody says of the labels, each as the settings of the same name."""

    positive: tuple[str, ...] | None = None
    negative: tuple[str, ...] | None = None
    rest: str | None = None
    unlabelled: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Draft:
    """A file that is still to be written.

    Attributes:
        text: The whole file.
        notes: What people should know of it.
        columns: As `describe_columns`.
    """

    text: str
    notes: tuple[str, ...]
    columns: list[dict[str, Any]]
    settings: FileData


def draft(found: Tables, out: Path, *, site: str, label: str, meant: Meant, missing: tuple[str, ...] = ()) -> Draft:
    """The file of a cluster that learns from these tables.

    Args:
        out: Where it will be written.
        site: The column of the sites; `ONE_SITE` where there is none, or "" for a file a site.
        label: The column of labels.

    Raises:
        DataError: The tables do not go together, or the labels must be explained.
    """
    folder = out.absolute().parent
    shown = [_from(path, folder) for path in found.paths]
    settings = FileData(files=shown[0], label=label, missing=missing, **dataclasses.asdict(meant))
    if len(shown) > 1 or site == ONE_SITE:
        pattern, tasks = file_pattern(shown)
        settings = dataclasses.replace(settings, files=pattern, tasks=tasks)
    else:
        settings = dataclasses.replace(settings, task_column=site)
    try:
        dataset = load_files(settings, base=folder)
    except DataError as error:
        raise DataError([_by_option(problem) for problem in error.problems]) from None
    written = resolved(settings, dataset)
    assert isinstance(written, FileData)
    sizes = {task.name: len(task.labels) for task in dataset.tasks}
    described = describe_columns(found.tables, dataset.preprocessing.schema or find_schema((), {}, given={}).schema)
    text = _render(written, sizes, described, dataset.notes, out, shown)
    return Draft(text, dataset.notes, described, written)


def _by_option(problem: Problem) -> Problem:
    """The same for `init`, whose options say what a file would."""
    hint = problem.hint.replace("write: ", "add ").replace(" and rest: negative", " --rest negative")
    hint = hint.replace("rest: negative", "--rest negative").replace("list it there", "add --negative TEXT")
    hint = hint.replace("data.positive says", "--positive says")
    for key in ("positive", "unlabelled"):
        if found := re.search(key + r": \[([^]]*)\]", hint):
            hint = hint.replace(found[0], " ".join(f"--{key} {text}" for text in found[1].split(", ")))
        hint = hint.replace(f"{key}: ", f"--{key} ")
    return dataclasses.replace(problem, hint=hint)


def _from(path: Path, folder: Path) -> str:
    """A file's name as seen from a folder, where it is in or near it."""
    relative = os.path.relpath(path.absolute(), folder)
    return relative if not relative.startswith(os.path.join("..", "..")) else str(path.absolute())


def file_pattern(shown: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The names with {task} for what differs, and what that is in each.

    Raises:
        UsageError: They differ in more than one place.
    """
    if len(shown) == 1:
        stem = PurePath(shown[0]).name.partition(".")[0]
        head = shown[0][: len(shown[0]) - len(PurePath(shown[0]).name)]
        return head + "{task}" + PurePath(shown[0]).name[len(stem) :], (stem,)
    before = _common_start(shown)
    after = _common_start([name[len(before) :][::-1] for name in shown])[::-1]
    # Names are cut where a word ends: of site-1 and site-10 it is 1 and 10 that differ.
    before = before[: max((match.end() for match in _CUT.finditer(before)), default=0)]
    after = after[min((match.start() for match in _CUT.finditer(after)), default=len(after)) :]
    tasks = tuple(name[len(before) : len(name) - len(after)] for name in shown)
    if len({*tasks}) < len(tasks) or not all(tasks) or any("/" in task for task in tasks) or "{" in before + after:
        raise UsageError(
            f"expected names of files that differ in one place, the site's name, got {', '.join(shown[:3])}; rename "
            "them, or put all rows into one table with a column for the site"
        )
    return before + "{task}" + after, tasks


def _common_start(texts: Sequence[str]) -> str:
    alike = itertools.takewhile(lambda chars: len({*chars}) == 1, zip(*texts, strict=False))
    return "".join(chars[0] for chars in alike)


def _render(
    settings: FileData,
    sizes: dict[str, int],
    described: Sequence[dict[str, Any]],
    notes: Sequence[str],
    out: Path,
    shown: Sequence[str],
) -> str:
    labels = next((note.removeprefix("labels: ") for note in notes if note.startswith("labels: ")), "")
    total = sum(sizes.values())
    source = shown[0] if len(shown) == 1 else f"{len(shown)} files"
    sites = "1 site" if len(sizes) == 1 else f"{len(sizes)} sites"
    lines = [
        f"# Written by `drom-net init` from {source}: {total:,} rows of {sites}. All keys: docs/configuration.md",
        f"# Next: drom-net check {out.name}, then drom-net run {out.name}",
        "",
        "data:",
        f"  files: {write_flow(settings.files)}",
    ]
    if settings.task_column is not None:
        lines.append(_commented(f"  task_column: {write_flow(settings.task_column)}", "whose row it is"))
    tasks = settings.tasks or tuple(sizes)
    rows = ", ".join(f"{sizes[task]:,}" for task in tasks[:8]) + (", .." if len(tasks) > 8 else "")
    lines.append(_commented(f"  tasks: {write_flow(list(tasks))}", f"rows: {rows}"))
    lines.append(f"  label: {write_flow(settings.label)}")
    lines.append(_commented(f"  positive: {_one_or_list(settings.positive or ())}", labels))
    if settings.negative:
        lines.append(f"  negative: {_one_or_list(settings.negative)}")
    if settings.rest:
        lines.append(f"  rest: {settings.rest}")
    if settings.unlabelled:
        lines.append(_commented(f"  unlabelled: {_one_or_list(settings.unlabelled)}", "predicted, not learned"))
    if settings.missing:
        lines.append(_commented(f"  missing: {write_flow(list(settings.missing))}", "texts that mean a missing value"))
    dates = [column.name for column in settings.columns or () if column.kind in (kinds.DATE, kinds.TIME)]
    by = dates[0] if dates else "COLUMN"
    lines.append(_commented(f"  # order: {write_flow(by)}", "by default rows are learned in the file's order"))
    lines.append("  columns:")
    facts = {told["column"]: told for told in described}
    for column in settings.columns or ():
        written = f"    {write_flow(column.name)}: {write_flow(column.to_plain())}"
        lines.append(_commented(written, _in_words(column, facts.get(column.name))))
    lines.append(_commented(f"  hash: {settings.hash}", "columns for words, and levels that are not listed"))
    lines.append(_commented(f"  scaling: {settings.scaling}", "numbers by mean and deviation of the rows before"))
    return "\n".join(lines) + "\n"


def _one_or_list(texts: Sequence[str]) -> str:
    return write_flow(texts[0] if len(texts) == 1 else list(texts))


def _commented(text: str, comment: str) -> str:
    return f"{text:<{_WIDTH}} # {comment}" if comment else text


def _in_words(column: Column, told: dict[str, Any] | None) -> str:
    """What a comment says of a column."""
    if not column.is_used or told is None:
        return "left out"
    # No value of a row: the file may go to all sites.
    words = [f"{told['different']:,} {'levels' if column.kind == kinds.CATEGORY else 'different'}"]
    if told["missing"]:
        words.append(f"{told['missing']:,} missing")
    return ", ".join(words)


# --- merging -----------------------------------------------------------------------------------------


def merge_drafts(configs: Sequence[ClusterConfig], out: Path, meant: Meant) -> str:
    """One file for all sites, from the file that each of them has drafted from its own table.

    Args:
        out: Where it will be written.
        meant: What is said of the labels; by default it is as in the files.

    Raises:
        DataError: They do not go together.
    """
    found = _drafts(configs)
    problems: list[Problem] = []
    first = configs[0].path
    for config, data in zip(configs[1:], found[1:], strict=True):
        if data.label != found[0].label:
            problems.append(
                Problem(f"{config.path}: data.label", f"{quoted(found[0].label)}, as in {first}", quoted(data.label))
            )
    columns = _merged_columns(configs, found, problems)
    missing = tuple(dict.fromkeys(text for data in found for text in data.missing))
    labels = _merged_labels(configs, found, meant, missing, problems)
    tasks = [task for data in found for task in data.tasks or ()]
    for task in sorted({task for task in tasks if tasks.count(task) > 1}):
        problems.append(Problem("data.tasks", "different sites", f"{quoted(task)} more than once"))
    patterns = {PurePath(data.files).name for data in found}
    if len(patterns) > 1:
        hint = "name each site's file alike, with the site's name in it"
        problems.append(Problem("data.files", "one pattern for all sites", ", ".join(sorted(patterns)[:5]), hint))
    if problems:
        raise DataError(problems)
    places = sum(max(0, (data.hash or 0) - LEVEL_PLACES) for data in found)
    merged = FileData(
        files=patterns.pop(),
        task_column=found[0].task_column,
        tasks=tuple(tasks),
        label=found[0].label,
        **dataclasses.asdict(labels),
        missing=missing,
        columns=tuple(columns),
        hash=max(places_for(columns), min(TEXT_PLACES, places + LEVEL_PLACES if places else 0)),
        scaling=found[0].scaling,
    )
    head = [
        f"# Written by `drom-net init --merge` from the files of {len(tasks)} sites. All keys: docs/configuration.md",
        "# Every site gets this file; each keeps its own table beside it. Next, where they meet:",
        "# reducer: {endpoint: tcp://HOST:5571, bind: tcp://0.0.0.0:5571}",
        "# security: {keys: keys}                    # drom-net keys create makes them",
        "",
    ]
    body = _render(merged, dict.fromkeys(tasks, 0), [], (), out, ())
    kept = [line for line in body.splitlines() if not line.startswith("#")][1:]
    kept = [re.sub(r" +# (rows: .*|left out)$", "", line) for line in kept]
    return "\n".join(head + kept) + "\n"


def _drafts(configs: Sequence[ClusterConfig]) -> list[FileData]:
    """What each file says of its table.

    Raises:
        DataError: One was not drafted from a table.
    """
    found: list[FileData] = []
    problems: list[Problem] = []
    for config in configs:
        if isinstance(config.data, FileData) and config.data.columns is not None and config.data.tasks:
            found.append(config.data)
        else:
            problems.append(Problem(str(config.path), "a file that `drom-net init` has written", "another one"))
    if problems:
        raise DataError(problems)
    return found


def _merged_columns(
    configs: Sequence[ClusterConfig], found: Sequence[FileData], problems: list[Problem]
) -> list[Column]:
    """All columns, each of which all sites must have."""
    merged = []
    for name in dict.fromkeys(column.name for data in found for column in data.columns or ()):
        its = [(config, _column(data, name)) for config, data in zip(configs, found, strict=True)]
        lacking = [config for config, column in its if column is None]
        if lacking:
            has = next(config.path for config, column in its if column is not None)
            hint = "data.ignore, or the kind ignored, leaves it out"
            problems.append(
                Problem(f"{lacking[0].path}: data.columns", f"a column {quoted(name)}, as in {has}", "none", hint)
            )
        elif column := _merged_column(name, [(config, column) for config, column in its if column], problems):
            merged.append(column)
    return merged


def _column(data: FileData, name: str) -> Column | None:
    return next((column for column in data.columns or () if column.name == name), None)


_Said = tuple[Path, dict[str, list[str]]]
"""A file, and what it says of labels."""


def _merged_labels(
    configs: Sequence[ClusterConfig],
    found: Sequence[FileData],
    meant: Meant,
    missing: tuple[str, ...],
    problems: list[Problem],
) -> Meant:
    """What all sites' labels mean; of a label that `meant` names, it does not matter what the files say."""
    named = {plain_label(text) for key in ("positive", "negative", "unlabelled") for text in getattr(meant, key) or ()}
    files: list[_Said] = []
    for config, data in zip(configs, found, strict=True):
        said = {"positive": data.positive, "negative": data.negative, "unlabelled": data.unlabelled}
        kept = {key: [text for text in texts or () if plain_label(text) not in named] for key, texts in said.items()}
        files.append((config.path, kept | {"missing": [*data.missing]}))
    rest = meant.rest or next((data.rest for data in found if data.rest), None)
    negative = meant.negative
    if negative is None and not rest:
        negative = _agreed("negative", files, problems)
    unlabelled = meant.unlabelled or tuple(dict.fromkeys(text for _, said in files for text in said["unlabelled"]))
    labels = Meant(meant.positive or _agreed("positive", files, problems), negative, rest, unlabelled or None)
    for clash in clashes(dataclasses.asdict(labels) | {"missing": missing}):
        here, there = (_where(clash.text, key, files) for key in (clash.key, clash.other))
        expected = clash.expected + (f", as in {there}" if there else "")
        hint = clash.hint or "--positive, --negative and --unlabelled say what a label is"
        got = quoted(clash.text) if clash.text else "none"
        problems.append(Problem(f"{here}: data.{clash.key}" if here else f"data.{clash.key}", expected, got, hint))
    return labels


def _where(text: str, key: str, files: Sequence[_Said]) -> str:
    """The first file that says it of a label; empty for none."""
    return next((str(path) for path, said in files if plain_label(text) in map(plain_label, said.get(key, ()))), "")


def _agreed(key: str, files: Sequence[_Said], problems: list[Problem]) -> tuple[str, ...] | None:
    """What those say of a label that say something."""
    said = [(path, texts[key]) for path, texts in files if texts[key]]
    for path, value in said[1:]:
        if {*map(plain_label, value)} != {*map(plain_label, said[0][1])}:
            expected = f"{', '.join(map(quoted, said[0][1]))}, as in {said[0][0]}"
            hint = f"--{key} says which label is {'+1' if key == 'positive' else '-1'}"
            problems.append(Problem(f"{path}: data.{key}", expected, ", ".join(map(quoted, value)), hint))
            break
    return tuple(said[0][1]) if said else None


_STRONGER = {
    frozenset([kinds.CATEGORY, kinds.TEXT]): kinds.TEXT,
    frozenset([kinds.YES_NO, kinds.CATEGORY]): kinds.CATEGORY,
    frozenset([kinds.YES_NO, kinds.NUMBER]): kinds.NUMBER,
    frozenset([kinds.DATE, kinds.TIME]): kinds.TIME,
}
"""What a column is where sites differ."""


def _merged_column(name: str, its: Sequence[tuple[ClusterConfig, Column]], problems: list[Problem]) -> Column | None:
    found = [column for _, column in its if column.kind != kinds.EMPTY]
    if not found:
        return its[0][1]
    left_out = [column for column in found if not column.is_used]
    if left_out:  # an identifier is one wherever many rows show it
        return Column(name, left_out[0].kind)
    its_kinds = frozenset(column.kind for column in found)
    kind = found[0].kind if len(its_kinds) == 1 else _STRONGER.get(its_kinds)
    formats = {column.format for column in found}
    if kind == kinds.NUMBER and GROUPED in formats:
        formats.discard("")  # plain numbers mean the same in it; in the other one 1.125 is 1125
    if kind is None or len(formats) > 1:
        told = ", ".join(f"{config.path} {column.kind} {column.format}".strip() for config, column in its)
        problems.append(Problem(f"data.columns: {quoted(name)}", "one kind at all sites", told, "change it in a file"))
        return None
    levels = tuple(sorted({plain_text(level) for column in found for level in column.levels}))
    missing = any(column.missing for column in found) or len(found) < len(its)
    return Column(name, kind, levels if kind == kinds.CATEGORY else (), missing, formats.pop())
