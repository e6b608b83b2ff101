"""The plain loop in one process: the algorithm without a network, and the oracle of all other drivers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from drom_net.algorithms.base import Algorithm
from drom_net.data.stream import TaskStream
from drom_net.learning import Centre, TaskLearner, TaskResult
from drom_net.records import run_digest


@dataclass(frozen=True, slots=True)
class ReferenceResult:
    """What a run gave, in task order."""

    tasks: tuple[TaskResult, ...]
    central_chain: bytes
    task_records: tuple[bytes, ...]
    """For each task its rows, as records.TASK_DTYPE."""
    central_records: bytes
    rounds: int
    """How many were run."""

    @property
    def digest(self) -> str:
        return run_digest([task.chain for task in self.tasks], self.central_chain)


def run_reference(
    algorithm: Algorithm,
    streams: Sequence[TaskStream],
    *,
    seed: int,
    rounds: int | None = None,
    after_round: Callable[[int, Sequence[TaskLearner], float | None], bool] | None = None,
) -> ReferenceResult:
    """Run all tasks through all rounds.

    Args:
        streams: The tasks' examples, in task order.
        seed: Where the power iteration's first vector comes from.
        rounds: At most so many; by default until the longest stream ends.
        after_round: Called with the round, the tasks and sigma_1 (None outside sync rounds); returns False to
            stop there. (Counts are made when they are asked for: a task's `totals` cost something.)
    """
    learners = [TaskLearner(algorithm, stream, rounds=rounds) for stream in streams]
    centre = Centre(algorithm, num_tasks=len(streams), dim=streams[0].dim, seed=seed)
    last_round = max(learner.last_round for learner in learners)
    t = 0
    with np.errstate(over="ignore", invalid="ignore"):  # one clear error tells of divergence, not NumPy's warnings
        for t in range(1, last_round + 1):
            live = {task: learner for task, learner in enumerate(learners) if t <= learner.last_round}
            contributions = {task: learner.begin(t) for task, learner in live.items()}
            sigma = None
            if algorithm.is_sync(t):
                replies = centre.reduce(t, contributions)
                sigma = centre.last_sigma
                for task, learner in live.items():
                    learner.end(t, replies[task])
            else:
                for learner in live.values():
                    learner.end(t)
            if after_round is not None and not after_round(t, learners, sigma):
                break
        results = tuple(learner.result() for learner in learners)
    return ReferenceResult(
        results, centre.chain, tuple(learner.take_records() for learner in learners), centre.take_records(), t
    )
