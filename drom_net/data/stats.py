"""What can be measured of a data set before anything learns: sizes, norms, and what the tasks have in common."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Matrix, Vector
from drom_net.data.dataset import Dataset, TaskData
from drom_net.data.stream import SparseRows


def stats(dataset: Dataset) -> dict[str, object]:
    """What `drom-net data stats` tells, as plain values for JSON.

    The *direction* of a task is the mean of its positive rows minus the mean of its negative ones; it has none
    where a class is missing.
    """
    columns = [] if dataset.is_prepared else _numbers(dataset)
    dataset = prepared_dataset(dataset)
    used = [_columns_used(task) for task in dataset.tasks]
    every, some = np.logical_and.reduce(used), np.logical_or.reduce(used)
    cosines = _cosines([_direction(task) for task in dataset.tasks])
    return {
        "name": dataset.name,
        "dim": dataset.dim,
        "examples": sum(len(task.labels) for task in dataset.tasks),
        "features_used": int(some.sum()),
        "features_used_by_all_tasks": int(every.sum()),
        "mean_cosine_of_directions": float(np.mean(cosines)) if len(cosines) else None,
        "lowest_cosine_of_directions": float(np.min(cosines)) if len(cosines) else None,
        "highest_cosine_of_directions": float(np.max(cosines)) if len(cosines) else None,
        "columns": columns,
        "tasks": [_task_stats(task) for task in dataset.tasks],
    }


def prepared_dataset(dataset: Dataset) -> Dataset:
    """The same with its rows as a learner sees them, in the order of the data."""
    if dataset.is_prepared:
        return dataset
    tasks = tuple(
        dataclasses.replace(task, rows=dataset.preprocessing.apply(task.rows, task.name)) for task in dataset.tasks
    )
    return dataclasses.replace(dataset, tasks=tasks, is_prepared=True)


def _numbers(dataset: Dataset) -> list[dict[str, object]]:
    """Each column of numbers before and after preparation, over all tasks; missing ones left out before."""
    count = dataset.preprocessing.numbers
    before = [_first_columns(task.rows, count) for task in dataset.tasks]
    after = [_first_columns(task.rows, count) for task in prepared_dataset(dataset).tasks]
    names = dataset.features or tuple(f"column {number}" for number in range(1, count + 1))
    rows = []
    for index in range(count):
        raw = np.concatenate([rows[:, index] for rows in before])
        made = np.concatenate([rows[:, index] for rows in after])
        known = raw[~np.isnan(raw)]
        facts: dict[str, object] = {"column": names[index], "missing": int(np.isnan(raw).sum())}
        for when, values in (("before", known), ("after", made)):
            facts |= {
                f"mean_{when}": float(values.mean()) if len(values) else None,
                f"deviation_{when}": float(values.std()) if len(values) else None,
            }
        rows.append(facts)
    return rows


def _first_columns(rows: Matrix | SparseRows, count: int) -> Matrix:
    if not isinstance(rows, SparseRows):
        return rows[:, :count]
    dense = np.zeros((len(rows.indptr) - 1, count))
    row_of = np.repeat(np.arange(len(dense)), np.diff(rows.indptr))
    chosen = rows.indices < count
    dense[row_of[chosen], rows.indices[chosen]] = rows.values[chosen]
    return dense


def _task_stats(task: TaskData) -> dict[str, object]:
    norms = _norms(task)
    num_examples = len(task.labels)
    return {
        "name": task.name,
        "examples": num_examples,
        "positives": int(np.count_nonzero(task.labels > 0)),
        "features_used": int(_columns_used(task).sum()),
        "nonzeros_per_row": float(_nonzeros(task) / max(1, num_examples)),
        "empty_rows": int(np.count_nonzero(norms == 0.0)),
        "smallest_norm": float(norms[norms > 0.0].min(initial=np.inf)) if norms.any() else 0.0,
        "largest_norm": float(norms.max(initial=0.0)),
    }


def _nonzeros(task: TaskData) -> int:
    return int(np.count_nonzero(task.rows.values if isinstance(task.rows, SparseRows) else task.rows))


def _norms(task: TaskData) -> Vector:
    squares = _sums_by_row(task.rows) if isinstance(task.rows, SparseRows) else (task.rows**2).sum(axis=1)
    norms: Vector = np.sqrt(squares)
    return norms


def _sums_by_row(rows: SparseRows) -> Vector:
    row_of = np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))
    return np.bincount(row_of, weights=rows.values**2, minlength=len(rows.indptr) - 1).astype(np.float64)


def _columns_used(task: TaskData) -> npt.NDArray[np.bool_]:
    if isinstance(task.rows, SparseRows):
        return np.bincount(task.rows.indices[task.rows.values != 0.0], minlength=task.rows.dim) > 0
    used: npt.NDArray[np.bool_] = (task.rows != 0.0).any(axis=0)
    return used


def _mean_row(rows: Matrix | SparseRows, chosen: npt.NDArray[np.bool_]) -> Vector:
    if not isinstance(rows, SparseRows):
        dense: Vector = rows[chosen].mean(axis=0)
        return dense
    weights = np.where(np.repeat(chosen, np.diff(rows.indptr)), rows.values, 0.0)
    mean: Vector = np.bincount(rows.indices, weights=weights, minlength=rows.dim) / np.count_nonzero(chosen)
    return mean


def _direction(task: TaskData) -> Vector | None:
    positive = task.labels > 0
    if positive.all() or not positive.any():
        return None
    direction = _mean_row(task.rows, positive) - _mean_row(task.rows, ~positive)
    norm = np.linalg.norm(direction)
    return direction / norm if norm else None


def _cosines(directions: list[Vector | None]) -> Vector:
    """Of each pair of tasks."""
    unit = np.array([direction for direction in directions if direction is not None])
    if len(unit) < 2:
        return np.zeros(0)
    cosines: Vector = (unit @ unit.T)[np.triu_indices(len(unit), 1)]
    return cosines
