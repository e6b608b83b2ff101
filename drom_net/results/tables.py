"""Records, rounds and timeline of a run directory, as CSV or Parquet: written, and read back."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.base import ContributionKind, ReplyKind
from drom_net.core.errors import UsageError, naming
from drom_net.core.names import safe_names
from drom_net.learning.records import (
    TASK_DTYPE,
    central_dtype,
)
from drom_net.protocol.node import TIMES_DTYPE
from drom_net.results.outcomes import CentralOutcome, Rows, TaskOutcome

_AT_ONCE = 10_000
"""Rows that are tuples at a time."""
_TIMELINE = TIMES_DTYPE.names or ()


def require_format(file_format: str) -> None:
    """Refuse a format of tables that cannot be written, before anything is computed for it.

    Raises:
        UsageError: A package is missing.
    """
    if file_format == "parquet":
        _pyarrow()


def write_records(
    run_dir: Path, tasks: Sequence[TaskOutcome], centrals: Sequence[CentralOutcome], *, file_format: str = "csv"
) -> None:
    """Write records.* and rounds.* as CSV or Parquet. Floats are written so that they are read back bit for bit."""
    names = [task.name for task in tasks]
    per_task = _Table(  # rows are made as they are written: of a long run they would not fit into memory at once
        ["task", "name", "round", "active", "score", "label", "gamma", "reply", "clean_label", "loss", "contribution"],
        ([index, task.name, *_in_words(row)] for index, task in enumerate(tasks) for row in rows_as_tuples(task.rows)),
    )
    columns = [
        "round",
        "sigma_1",
        "residual",
        "pushed",
        "skipped",
        "idle",
        "postponed",
        "corrected",
        "absent",
        *(f"v_{name}" for name in names),
    ]
    if centrals[0].members is None:
        all_tasks = range(len(names))
        per_round = _Table(
            columns,
            ([*row.item()[:-2], _absent(names, all_tasks, row), *row["v"].tolist()] for row in centrals[0].rows),
        )
    else:
        per_round = _Table(["task", "name", *columns], _peers_rounds(names, centrals))
    per_task.write(run_dir / f"records.{file_format}")
    per_round.write(run_dir / f"rounds.{file_format}")


def write_timeline(
    run_dir: Path, tasks: Sequence[TaskOutcome], *, file_format: str = "csv", start_s: float | None = None
) -> None:
    """Write timeline.* as CSV or Parquet; nothing where a task has no times.

    Args:
        start_s: The time from which seconds are counted; None for that of the earliest row.
    """
    times = [task.times for task in tasks if task.times is not None]
    if len(times) < len(tasks):
        return
    if start_s is None:
        start_s = min((float(rows["sent_s"].min()) for rows in times if len(rows)), default=0.0)
    table = _Table(
        ["task", "name", *_TIMELINE],
        (
            [index, task.name, t, *(round(second - start_s, 6) for second in seconds)]
            for index, (task, rows) in enumerate(zip(tasks, times, strict=True))
            for t, *seconds in rows_as_tuples(rows)
        ),
    )
    table.write(run_dir / f"timeline.{file_format}")


def read_timeline(run_dir: Path, summary: dict[str, Any]) -> list[Rows]:
    """Each task's rows as protocol.node.TIMES_DTYPE, in seconds by the clock of `write_timeline`.

    Args:
        summary: That of the run.

    Raises:
        UsageError: There is no timeline, or it is damaged.
    """
    if not any((run_dir / f"timeline.{suffix}").exists() for suffix in ("csv", "parquet")):
        if summary.get("driver") == "reference":
            raise UsageError(f"{run_dir} has no timeline: the plain loop (--driver reference) has no clock")
        raise UsageError(
            f"{run_dir} has no timeline: timeline.csv is missing, which a run by driver {summary.get('driver')} writes"
        )
    tasks = summary["tasks"]
    per_task: list[list[tuple[int, float, float, float]]] = [[] for _ in tasks]
    try:
        columns, table = _read_table(run_dir, "timeline")
        columns = ["sent_s" if column == "said_s" else column for column in columns]  # as earlier versions called it
        if columns != ["task", "name", *_TIMELINE]:
            raise ValueError(
                f"expected the columns task, name, {', '.join(_TIMELINE)}, got {', '.join(columns)[:80]!r}"
            )
        for number, (task, name, *times) in enumerate(table, start=2):
            _add_times(per_task, [task["name"] for task in tasks], number, task, name, times)
        for task, rows in zip(tasks, per_task, strict=True):
            last = rows[-1][0] if rows else 0
            if summary["status"] == "finished" and (not rows or last != task["rounds"]):
                raise ValueError(
                    f"expected rows of {task['name']} up to round {task['rounds']}, got up to round {last}"
                )
        return [np.array(rows, dtype=TIMES_DTYPE) for rows in per_task]
    except (ValueError, TypeError, csv.Error) as error:
        raise UsageError(f"the timeline in {run_dir} is damaged: {error}") from None


def _add_times(
    per_task: list[list[tuple[int, float, float, float]]],
    names: Sequence[str],
    number: int,
    task: Any,
    name: Any,
    times: Sequence[Any],
) -> None:
    """A row of a timeline to those of its task.

    Raises:
        ValueError: It cannot be one.
    """
    try:
        index, t, (sent_s, idle_s, closed_s) = int(task), int(times[0]), map(float, times[1:])
    except (ValueError, TypeError):
        raise ValueError(f"row {number}: expected numbers, got {task}, {', '.join(map(str, times))}") from None
    if not (0 <= index < len(names) and names[index] == name):
        raise ValueError(f"row {number}: expected a task of the run with its name, got {task}, {name}")
    rows = per_task[index]
    before_t, before_s = (rows[-1][0], rows[-1][-1]) if rows else (0, 0.0)
    if not (t >= before_t and before_s <= sent_s <= idle_s <= closed_s < math.inf):
        raise ValueError(
            f"row {number}: expected times that go on from round {before_t} at {before_s:g} s, got round {t} at "
            f"{sent_s:g}, {idle_s:g} and {closed_s:g} s"
        )
    rows.append((t, sent_s, idle_s, closed_s))


def read_records(run_dir: Path, names: Sequence[str]) -> tuple[list[Rows], list[Rows], bool]:
    """(each task's rows, each centre's rows, whether each task has a centre of its own), as they were written.

    Raises:
        UsageError: A file is missing or damaged.
    """
    per_task = [_Packed(TASK_DTYPE) for _ in names]
    index_of = {name: index for index, name in enumerate(names)}
    try:
        for row in _read_table(run_dir, "records")[1]:
            _, name, t, active, score, label, gamma, reply, clean, loss, contribution = row
            fields = (
                int(t),
                int(active),
                float(score),
                float(label),
                float(gamma),
                ReplyKind[reply.upper()],
                float(clean),
                float(loss),
                ContributionKind[contribution.upper()],
            )
            per_task[index_of[name]].add(fields)
        return [packed.rows() for packed in per_task], *_read_rounds(run_dir, names)
    except (ValueError, TypeError, KeyError, IndexError, csv.Error) as error:
        raise UsageError(f"the records in {run_dir} are damaged: {error}") from None


def require_records(run_dir: Path, summary: dict[str, Any]) -> None:
    """Refuse to compare a run that was to keep no rows.

    Raises:
        UsageError: It has none.
    """
    if summary.get("keep_records") is False:
        raise UsageError(f"{run_dir} has no records to compare with: its file says keep_records: false")


def _peers_rounds(names: Sequence[str], centrals: Sequence[CentralOutcome]) -> Iterable[list[object]]:
    """A row for each peer's central step; v of tasks outside its neighborhood is empty."""
    for index, central in enumerate(centrals):
        for row in central.rows:
            v = dict(zip(central.members or (), row["v"].tolist(), strict=True))
            absent = _absent(names, central.members or (), row)
            yield [index, names[index], *row.item()[:-2], absent, *(v.get(task) for task in range(len(names)))]


def _absent(names: Sequence[str], members: Sequence[int], row: np.void) -> str:
    """Who was awaited in a central step and did not come, by the safe forms of their names with spaces between."""
    missing = [task for task, missing in zip(members, row["absent"].tolist(), strict=True) if missing]
    nodes = safe_names(names) if missing else ()
    return " ".join(nodes[task] for task in missing)


def _read_rounds(run_dir: Path, names: Sequence[str]) -> tuple[list[Rows], bool]:
    """Each centre's rows, and whether the centres are peers' own."""
    columns, rows = _read_table(run_dir, "rounds")
    peers = columns[:1] == ["task"]  # each peer's own central steps, in task order
    by_centre: list[_Packed | None] = [None] * (len(names) if peers else 1)
    nodes = safe_names(names)
    for row in rows:
        index = int(row[0]) if peers else 0
        head = row[2:] if peers else row
        v = [None if value in ("", None) else float(value) for value in head[9:]]
        gone = set(str(head[8] or "").split())
        absent = tuple(node in gone for node, value in zip(nodes, v, strict=True) if value is not None)
        known = tuple(value for value in v if value is not None)
        packed = by_centre[index] or _Packed(central_dtype(len(known)))
        packed.add((int(head[0]), float(head[1]), float(head[2]), *map(int, head[3:8]), known, absent))
        by_centre[index] = packed
    return [(packed or _Packed(central_dtype(len(names)))).rows() for packed in by_centre], peers


class _Packed:
    """Rows that are packed as they come: as tuples those of a long run would not fit into memory."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._dtype = dtype
        self._open: list[tuple[object, ...]] = []
        self._parts: list[Rows] = []

    def add(self, row: tuple[object, ...]) -> None:
        self._open.append(row)
        if len(self._open) >= _AT_ONCE:
            self._pack()

    def rows(self) -> Rows:
        self._pack()
        return np.concatenate(self._parts)

    def _pack(self) -> None:
        self._parts.append(np.array(self._open, dtype=self._dtype))
        self._open.clear()


def rows_as_tuples(rows: Rows) -> Iterator[tuple[Any, ...]]:
    """The rows as tuples, made as they are used."""
    for start in range(0, len(rows), _AT_ONCE):
        yield from rows[start : start + _AT_ONCE].tolist()


def _in_words(row: tuple[Any, ...]) -> Iterable[object]:
    t, active, score, label, gamma, reply, clean, loss, contribution = row
    words = ReplyKind(reply).name.lower(), ContributionKind(contribution).name.lower()
    return t, active, score, label, gamma, words[0], clean, loss, words[1]


@dataclass(frozen=True, slots=True)
class _Table:
    columns: list[str]
    rows: Iterable[list[Any]]

    def write(self, path: Path) -> None:
        if path.suffix == ".parquet":
            self._write_parquet(path)
            return
        with naming(path), path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows(self.rows)

    def _write_parquet(self, path: Path) -> None:
        pa, pq = _pyarrow()
        columns = list(zip(*self.rows, strict=True)) or [()] * len(self.columns)
        pq.write_table(pa.table({name: list(column) for name, column in zip(self.columns, columns, strict=True)}), path)


def _read_table(run_dir: Path, stem: str) -> tuple[list[str], Iterable[list[Any]]]:
    """(names of the columns, rows) of STEM.csv or STEM.parquet."""
    path = run_dir / f"{stem}.csv"
    if path.exists():
        rows = _csv_rows(path)
        columns = next(rows, [])
        return columns, _whole(rows, len(columns))
    path = run_dir / f"{stem}.parquet"
    if not path.exists():
        raise UsageError(f"{run_dir} has neither {stem}.csv nor {stem}.parquet")
    _, pq = _pyarrow()
    table = pq.read_table(path).to_pydict()
    return list(table), map(list, zip(*table.values(), strict=True))


def _whole(rows: Iterable[list[str]], num_columns: int) -> Iterator[list[str]]:
    """Raises ValueError where a row has another number of values than there are columns."""
    for number, row in enumerate(rows, start=2):
        if len(row) != num_columns:
            raise ValueError(f"row {number}: expected {num_columns} values, got {len(row)}")
        yield row


def _csv_rows(path: Path) -> Iterator[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        yield from csv.reader(file)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError("Parquet needs pyarrow: pip install 'drom-net[tables]'") from None
    return pyarrow, pyarrow.parquet
