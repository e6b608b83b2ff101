"""From a task's examples to the stream a node learns: order, what is done to rows, which labels are flipped."""

from __future__ import annotations

import dataclasses

import numpy as np

from drom_net.algorithms.features import Matrix
from drom_net.core.seeding import stream
from drom_net.data.dataset import TaskData
from drom_net.data.preprocessing import Preprocessing
from drom_net.data.settings import StreamSettings
from drom_net.data.stream import SparseRows, TaskStream, take


def make_stream(
    task_data: TaskData,
    settings: StreamSettings,
    *,
    seed: int,
    index: int,
    spread_over: int | None = None,
    rounds: int | None = None,
    preprocessing: Preprocessing | None = None,
) -> TaskStream:
    """The examples in learning order, as copies.

    Args:
        seed: The run's.
        index: The task's number, from 0, which names its random streams.
        spread_over: None for lockstep, else the number of rounds (see `TaskStream`).
        rounds: At most so many are learned.
        preprocessing: What is still to be done to the rows; None for nothing.
    """
    num_examples = len(task_data.labels)
    # Drawn in the data's order: the same examples are flipped whatever the order of learning.
    flipped = stream(seed, "flip", index).random(num_examples) < settings.flip
    order = np.arange(num_examples)
    if settings.shuffle:
        order = stream(seed, "shuffle", index).permutation(num_examples)
    rows = task_data.rows
    if settings.shuffle or preprocessing is None:  # else what is prepared is a copy
        rows = take(rows, order)
    clean = task_data.labels[order]
    labels = np.where(flipped[order], -clean, clean)
    made = TaskStream(rows, labels, clean, spread_over, settings.passes)
    if preprocessing is None:
        return made
    preparation = preprocessing.begin(task_data.name)
    learned = num_examples if rounds is None else min(num_examples, made.taken_by(rounds))
    if learned == num_examples:
        prepared = preparation.take(rows)
        return dataclasses.replace(made, rows=prepared, scaling=preparation.state)
    parts = [preparation.take(_between(rows, 0, learned))]
    state = preparation.state
    parts.append(preparation.take(_between(rows, learned, num_examples)))
    return dataclasses.replace(made, rows=_joined(parts), scaling=state)


def _between(rows: Matrix | SparseRows, start: int, stop: int) -> Matrix | SparseRows:
    return rows.take(np.arange(start, stop)) if isinstance(rows, SparseRows) else rows[start:stop]


def _joined(parts: list[Matrix | SparseRows]) -> Matrix | SparseRows:
    sparse = [part for part in parts if isinstance(part, SparseRows)]
    if not sparse:
        return np.concatenate([part for part in parts if not isinstance(part, SparseRows)])
    first, second = sparse
    return SparseRows(
        np.concatenate([first.indptr, first.indptr[-1] + second.indptr[1:]]),
        np.concatenate([first.indices, second.indices]),
        np.concatenate([first.values, second.values]),
        first.dim,
    )
