"""What should make one look twice at data that is ready to be learned."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from drom_net.algorithms.features import Matrix, Vector
from drom_net.data.dataset import Dataset
from drom_net.data.faults import quoted
from drom_net.data.stream import SparseRows, TaskStream

_SAMPLE = 500
"""Rows of each task that are looked at."""
_SCALES = 100.0
_PARALLEL = 0.99


def advice(dataset: Dataset, streams: Sequence[TaskStream]) -> list[str]:
    """A line for each thing that may spoil what is learned.

    Args:
        streams: The data set's tasks, prepared.
    """
    return [
        line for line in (_scales(dataset, streams), _parallel(dataset, streams), _one_label(dataset, streams)) if line
    ]


def _scales(dataset: Dataset, streams: Sequence[TaskStream]) -> str:
    """Numbers of which some vary far more than others."""
    made = dataset.preprocessing
    numbers = made.raw_dim if dataset.is_prepared else made.numbers
    samples = [stream.rows[:_SAMPLE, :numbers] for stream in streams if not isinstance(stream.rows, SparseRows)]
    rows = np.concatenate(samples) if samples else np.zeros((0, 0))
    if len(rows) < 2 or rows.shape[1] < 2 or not made.numbers:
        return ""
    deviations = rows.std(axis=0)
    deviations[(rows == rows[0]).all(axis=0)] = np.nan
    if not np.nanmax(deviations, initial=0.0) > _SCALES * np.nanmin(deviations, initial=np.inf):
        return ""
    names = dataset.features or tuple(f"column {number}" for number in range(1, dataset.dim + 1))
    most, least = names[int(np.nanargmax(deviations))], names[int(np.nanargmin(deviations))]
    ratio = float(np.nanmax(deviations) / np.nanmin(deviations))
    return (
        f"after preparation {quoted(most)} varies {ratio:,.0f} times as much as {quoted(least)}, which will hardly "
        "count; data.scaling: running makes columns alike"
    )


def _parallel(dataset: Dataset, streams: Sequence[TaskStream]) -> str:
    cosines = [_cosines(stream.rows) for stream in streams if len(stream.labels) > 1]
    found = np.concatenate(cosines) if cosines else np.zeros(0)
    if not len(found) or float(np.median(found)) < _PARALLEL:
        return ""
    return (
        f"after preparation rows are nearly parallel (the median cosine of two in a row is {np.median(found):.3f}): "
        "little is left that tells them apart; data.scaling: running takes out what they have in common"
    )


def _cosines(rows: Matrix | SparseRows) -> Vector:
    """Of each of the first rows with the next one."""
    if isinstance(rows, SparseRows):
        count = min(_SAMPLE, len(rows.indptr) - 1)
        vectors = [rows.row(index) for index in range(count)]
        found = []
        for one, other in itertools.pairwise(vectors):
            _, at, to = np.intersect1d(one.indices, other.indices, assume_unique=True, return_indices=True)
            norms = np.linalg.norm(one.values) * np.linalg.norm(other.values)
            found.append(float(one.values[at] @ other.values[to]) / norms if norms else 0.0)
        return np.array(found)
    sample = rows[:_SAMPLE]
    norms = np.linalg.norm(sample, axis=1)
    products = (sample[:-1] * sample[1:]).sum(axis=1)
    lengths = norms[:-1] * norms[1:]
    cosines: Vector = np.divide(products, lengths, out=np.zeros(len(products)), where=lengths > 0.0)
    return cosines


def _one_label(dataset: Dataset, streams: Sequence[TaskStream]) -> str:
    names = [
        task.name
        for task, stream in zip(dataset.tasks, streams, strict=True)
        if len(stream.labels) and not ((stream.clean > 0.0).any() and (stream.clean < 0.0).any())
    ]
    if not names:
        return ""
    shown = ", ".join(map(quoted, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    have = "has one label only: its error says" if len(names) == 1 else "have one label only: their errors say"
    return f"{shown} {have} little"
