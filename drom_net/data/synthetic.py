"""`synthetic`: related tasks made from a seed, of a chosen rank.

Task i has w_i = sqrt(1 - noise) shared_i + sqrt(noise) own_i with unit vectors shared_i, in a random
subspace of `rank` dimensions, and own_i, anywhere. Examples are Gaussian directions x of unit norm; the
label is the sign of <w_i, x> (+1 for 0). Label noise is not from here: `flip` is a setting of every stream.

A task's numbers come from streams of its own, so a lone worker makes its own task only.
"""

from __future__ import annotations

import numpy as np

from drom_net.algorithms.features import Matrix, Vector
from drom_net.core.errors import DataError, Problem
from drom_net.core.seeding import stream
from drom_net.data.dataset import Dataset, TaskData, pick_task
from drom_net.data.preprocessing import Preprocessing, unit_rows
from drom_net.data.settings import Synthetic


def task_names(settings: Synthetic) -> tuple[str, ...]:
    """task-01, task-02, ...: numbers of equal length."""
    digits = max(2, len(str(settings.tasks)))
    return tuple(f"task-{number:0{digits}d}" for number in range(1, settings.tasks + 1))


def true_weights(settings: Synthetic, task: int) -> Vector:
    """w_i, shape (dim,), of the task with this number (from 0)."""
    basis = stream(settings.data_seed, "synthetic", "basis").standard_normal((settings.rank, settings.dim))
    draws = stream(settings.data_seed, "synthetic", "weights", task)
    shared = _unit(draws.standard_normal(settings.rank) @ basis)
    own = _unit(draws.standard_normal(settings.dim))
    weights: Vector = np.sqrt(1.0 - settings.noise) * shared + np.sqrt(settings.noise) * own
    return weights


def load_synthetic(settings: Synthetic, *, only: str | int | None = None) -> Dataset:
    """The data set, or one task of it.

    Raises:
        DataError: The rank is above dim, or there is no task `only`.
    """
    if settings.rank > settings.dim:
        raise DataError([Problem("data.rank", f"at most data.dim, {settings.dim}", str(settings.rank))])
    names = task_names(settings)
    numbers = range(len(names)) if only is None else (pick_task(names, only),)
    return Dataset(
        name=settings.dataset,
        tasks=tuple(_task(settings, names[number], number) for number in numbers),
        dim=settings.dim,
        features=None,
        positive="<w, x> >= 0",
        preprocessing=Preprocessing(raw_dim=settings.dim),
        description=f"{settings.tasks} related tasks whose shared part has rank {settings.rank}; "
        f"{settings.noise:g} of each task's weights (squared) is its own.",
        source=f"made from data_seed {settings.data_seed}",
        licence="none needed",
    )


def _task(settings: Synthetic, name: str, number: int) -> TaskData:
    draws = stream(settings.data_seed, "synthetic", "examples", number)
    rows: Matrix = unit_rows(draws.standard_normal((settings.examples, settings.dim)))
    scores = rows @ true_weights(settings, number)
    return TaskData(name, rows, np.where(scores >= 0.0, 1.0, -1.0))


def _unit(vector: Vector) -> Vector:
    unit: Vector = unit_rows(vector[np.newaxis, :])[0]
    return unit
