"""What should make one look twice at data that is ready to be learned."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from drom_net.algorithms.features import Matrix, Vector
from drom_net.core.names import some_of
from drom_net.data.dataset import Dataset
from drom_net.data.faults import quoted
from drom_net.data.stream import FEW_ROWS, SparseRows, TaskStream

_SAMPLE = 500
"""Rows of each task that are looked at."""
_SCALES = 100.0
_PARALLEL = 0.99
_FEW_OF_A_LABEL, _SHARE_OF_A_LABEL = 5, 0.02
_FAR_MORE = 10
"""Times the rows of the median of the other sites."""


def advice(dataset: Dataset, streams: Sequence[TaskStream]) -> list[str]:
    """A line for each thing that may spoil what is learned.

    Args:
        streams: The data set's tasks, prepared.
    """
    looks = (_scales, _parallel, _one_label, _few_of_a_label, _few_rows, _far_more)
    return [line for look in looks if (line := look(dataset, streams))]


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
    told = [
        quoted(task.name)
        for task, stream in zip(dataset.tasks, streams, strict=True)
        if (counts := _counts(stream)) != (0, 0) and 0 in counts
    ]
    if not told:
        return ""
    have = "has one label only: its error says" if len(told) == 1 else "have one label only: their errors say"
    return f"{some_of(told, 3)} {have} little"


def _few_of_a_label(dataset: Dataset, streams: Sequence[TaskStream]) -> str:
    """Sites with nearly one label only."""
    told = []
    for task, stream in zip(dataset.tasks, streams, strict=True):
        rarer, rows = min(_counts(stream)), sum(_counts(stream))
        if 0 < rarer < _FEW_OF_A_LABEL and rarer < _SHARE_OF_A_LABEL * rows:
            told.append(f"{quoted(task.name)} ({rarer:,} of {rows:,})")
    if not told:
        return ""
    return f"few rows of the rarer label at {some_of(told, 3)}: the error says little, and little can be learned of it"


def _few_rows(dataset: Dataset, streams: Sequence[TaskStream]) -> str:
    """Sites with so few rows that are learned that nothing can be told of them."""
    told = [
        f"{quoted(task.name)} ({rows:,})"
        for task, stream in zip(dataset.tasks, streams, strict=True)
        if len(stream.labels) and (rows := sum(_counts(stream))) < FEW_ROWS
    ]
    if not told:
        return ""
    return (
        f"too few rows with a label at {some_of(told, 3)}: to learn a model, or to tell whether sharing helps, takes "
        f"{FEW_ROWS} at the very least, and mostly some hundreds"
    )


def _far_more(dataset: Dataset, streams: Sequence[TaskStream]) -> str:
    """One site that learns mostly when all others have ended."""
    sizes = [len(stream.labels) for stream in streams]
    most = int(np.argmax(sizes))
    others = [size for site, size in enumerate(sizes) if site != most and size]
    if not others or streams[most].spread_over is not None or sizes[most] < _FAR_MORE * np.median(others):
        return ""
    return (
        f"{quoted(dataset.tasks[most].name)} has {sizes[most]:,} rows, {sizes[most] / np.median(others):,.0f} times as "
        "many as the other sites in the median: most of them come when the others have ended; data.alignment: spread "
        "deals the rows of all sites over the same rounds"
    )


def _counts(stream: TaskStream) -> tuple[int, int]:
    """(rows of +1, rows of -1), before label noise."""
    return int(np.count_nonzero(stream.clean > 0.0)), int(np.count_nonzero(stream.clean < 0.0))
