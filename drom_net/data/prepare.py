"""From a task's examples to the stream a node learns: the order, and the labels that are flipped."""

from __future__ import annotations

import numpy as np

from drom_net.data.dataset import TaskData
from drom_net.data.readers import take
from drom_net.data.settings import StreamSettings
from drom_net.data.stream import TaskStream
from drom_net.seeding import stream


def make_stream(
    task_data: TaskData, settings: StreamSettings, *, seed: int, index: int, spread_over: int | None = None
) -> TaskStream:
    """The examples in learning order, as copies.

    Args:
        seed: The run's.
        index: The task's number, from 0, which names its random streams.
        spread_over: None for lockstep, else the number of rounds (see `TaskStream`).
    """
    num_examples = len(task_data.labels)
    # Drawn in the data's order: the same examples are flipped whatever the order of learning.
    flipped = stream(seed, "flip", index).random(num_examples) < settings.flip
    order = np.arange(num_examples)
    if settings.shuffle:
        order = stream(seed, "shuffle", index).permutation(num_examples)
    clean = task_data.labels[order]
    labels = np.where(flipped[order], -clean, clean)
    return TaskStream(take(task_data.rows, order), labels, clean, spread_over, settings.passes)
