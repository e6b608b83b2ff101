"""A data set in memory: each task's examples, and what people and programs should know of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drom_net.algorithms.features import Matrix, Vector
from drom_net.core.errors import DataError, Problem, did_you_mean
from drom_net.data.labels import Labels
from drom_net.data.preprocessing import Preprocessing
from drom_net.data.stream import SparseRows


@dataclass(frozen=True, slots=True)
class TaskData:
    """One task's examples in the order of the data.

    Attributes:
        name: The task's name.
        rows: Dense, shape (n, d), float64, C order, or sparse; prepared, or (`Dataset.is_prepared`) as `preprocessing`
            takes them.
        labels: -1.0 or +1.0, shape (n,); 0.0 where it is unknown.
    """

    name: str
    rows: Matrix | SparseRows
    labels: Vector


@dataclass(frozen=True, slots=True)
class Dataset:
    """Tasks over the same features.

    Attributes:
        name: Its key in `DATASETS`.
        tasks: In task order; the one task that was asked for when a lone worker loads its own.
        dim: The number of features d of the preprocessed rows, bias included.
        features: Their names, d of them; None where they have none.
        positive: What +1 means, for people.
        preprocessing: What made the rows of `tasks` from the rows of the source.
        is_prepared: Whether the rows of `tasks` are those that a learner sees.
        labels: What the labels of the source mean; None where it has no texts as labels.
        notes: What people should know of how the source was read, a line each.
        measure: What to compare learners by, as `StreamSettings.measure`: error, or auc where one class is rare.
    """

    name: str
    tasks: tuple[TaskData, ...]
    dim: int
    features: tuple[str, ...] | None
    positive: str
    preprocessing: Preprocessing
    description: str
    source: str
    licence: str
    measure: str = "error"
    is_prepared: bool = True
    labels: Labels | None = None
    notes: tuple[str, ...] = ()

    @property
    def feature_digest(self) -> str:
        """SHA-256 (hex) over dim and the feature names in order: equal where columns mean the same."""
        return hashlib.sha256(json.dumps([self.dim, self.features]).encode()).hexdigest()


def pick_task(names: Sequence[str], only: str | int) -> int:
    """The index of the task that is called `only`, or has that number (from 0).

    Raises:
        DataError: There is no such task.
    """
    if isinstance(only, str) and only in names:
        return names.index(only)
    if isinstance(only, int) and 0 <= only < len(names):
        return only
    shown = f"{', '.join(names[:10])}{', ...' if len(names) > 10 else ''}"
    if isinstance(only, int):
        raise DataError([Problem("task", f"a number from 0 to {len(names) - 1}", str(only))])
    raise DataError([Problem("task", f"one of {shown}", f'"{only}"', did_you_mean(only, names))])


def describe(dataset: Dataset) -> dict[str, object]:
    """What `drom-net data describe` tells, as plain values for JSON."""
    tasks = []
    for task in dataset.tasks:
        nonzeros = len(task.rows.values) if isinstance(task.rows, SparseRows) else np.count_nonzero(task.rows)
        tasks.append(
            {
                "name": task.name,
                "examples": len(task.labels),
                "positives": int(np.count_nonzero(task.labels > 0)),
                "nonzeros_per_row": float(nonzeros / max(1, len(task.labels))),
            }
        )
    return {
        "name": dataset.name,
        "description": dataset.description,
        "source": dataset.source,
        "licence": dataset.licence,
        "dim": dataset.dim,
        "sparse": any(isinstance(task.rows, SparseRows) for task in dataset.tasks),
        "positive": dataset.positive,
        "measure": dataset.measure,
        "examples": sum(len(task.labels) for task in dataset.tasks),
        "tasks": tasks,
    }
