"""The plain loop in one process: the algorithm without a network, and the oracle of all other drivers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from drom_net.algorithms.base import IDLE, KEEP, NO_REPLY, Algorithm, Reply
from drom_net.data.stream import TaskStream
from drom_net.learning import Centre, TaskLearner, TaskResult, Word
from drom_net.neighborhood import Neighborhood
from drom_net.records import peers_chain, run_digest

AfterRound = Callable[[int, Sequence[TaskLearner], float | None], bool]
"""Called with the round, the tasks and sigma_1 (None outside sync rounds); returns False to stop there."""

Absences = Mapping[int, Collection[int]]
"""By round: the tasks without whose word its central step was made, though they were waited for."""
_NONE: Absences = {}


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
    absences: Absences = _NONE,
    after_round: AfterRound | None = None,
) -> ReferenceResult:
    """Run all tasks through all rounds.

    Args:
        streams: The tasks' examples, in task order.
        seed: Where the power iteration's first vector comes from.
        rounds: At most so many; by default until the longest stream ends.
        absences: Of a run to be gone through again (`records.absences_of`).
        after_round: Called with the round, the tasks and sigma_1 (None outside sync rounds); returns False to
            stop there. (Counts are made when they are asked for: a task's `totals` cost something.)
    """
    learners = [TaskLearner(algorithm, stream, rounds=rounds) for stream in streams]
    centre = Centre(algorithm, tasks=range(len(streams)), dim=streams[0].dim, seed=seed)
    last_round = max(learner.last_round for learner in learners)
    t = 0
    with np.errstate(over="ignore", invalid="ignore"):  # one clear error tells of divergence, not NumPy's warnings
        for t in range(1, last_round + 1):
            live = {task: learner for task, learner in enumerate(learners) if t <= learner.last_round}
            contributions = {task: learner.begin(t) for task, learner in live.items()}
            sigma = None
            if algorithm.is_sync(t):
                absent = absences.get(t, ())
                came = {task: said for task, said in contributions.items() if task not in absent}
                replies = centre.reduce(t, came, absent=absent)
                sigma = centre.last_sigma
                for task, learner in live.items():
                    learner.end(t, replies.get(task, KEEP))
            else:
                for learner in live.values():
                    learner.end(t)
            if after_round is not None and not after_round(t, learners, sigma):
                break
        results = tuple(learner.result() for learner in learners)
    return ReferenceResult(
        results, centre.chain, tuple(learner.take_records() for learner in learners), centre.take_records(), t
    )


@dataclass(frozen=True, slots=True)
class PeersResult:
    """What a run without a centre gave, in task order."""

    tasks: tuple[TaskResult, ...]
    central_chains: tuple[bytes, ...]
    """Each peer's own."""
    task_records: tuple[bytes, ...]
    central_records: tuple[bytes, ...]
    """Each peer's rows, as records.central_dtype of its neighborhood's size."""
    rounds: int

    @property
    def digest(self) -> str:
        return run_digest([task.chain for task in self.tasks], peers_chain(self.central_chains))


def run_reference_peers(
    algorithms: Sequence[Algorithm],
    streams: Sequence[TaskStream],
    neighborhoods: Sequence[Neighborhood],
    *,
    seed: int,
    delayed: bool = False,
    rounds: int | None = None,
    absences: Sequence[Absences] | None = None,
    after_round: AfterRound | None = None,
) -> PeersResult:
    """Run Algorithm 2: each task is the centre of its own neighborhood.

    Args:
        algorithms: Each task's; they may differ in tau.
        neighborhoods: Each task's, of the same sync rounds.
        delayed: What is sent in a sync round takes effect at the next (exchange: delayed); else at once. Blocking
            and overlapping exchange are one sequence.
        absences: Each task's, of a run to be gone through again (`records.absences_of`).
        after_round: As for `run_reference`; sigma_1 is the largest of the peers'.
    """
    learners = [
        TaskLearner(algorithm, stream, rounds=rounds) for algorithm, stream in zip(algorithms, streams, strict=True)
    ]
    centres = [
        Centre(algorithm, tasks=hood.everybody, dim=streams[0].dim, seed=seed, scales=hood.scales)
        for algorithm, hood in zip(algorithms, neighborhoods, strict=True)
    ]
    last_words = [learner.algorithm.sync.last_word(learner.last_round, rounds) for learner in learners]
    words: list[dict[int, Word]] = [{} for _ in learners]
    """By task and sync round: what was said and may still be used."""
    used = [dict.fromkeys(hood.everybody, 0) for hood in neighborhoods]
    """By listener and speaker: the sync round of the word that was used last."""
    longest = max(algorithm.sync.tau for algorithm in algorithms)

    def central_step(task: int, t: int) -> Reply:
        hood = neighborhoods[task]
        heard = {}
        absent = absences[task].get(t, ()) if absences is not None else ()
        for member in hood.members(t):
            if member in absent:  # nobody knew then whether its last word was behind
                used[task][member] = hood.heard(member, t)
                continue
            s = hood.heard(member, t, last_words[member])
            if s > used[task][member]:
                used[task][member] = s
                heard[member] = words[member][s].to(neighborhoods[member].told_before(task, s))
        return centres[task].reduce(t, heard, hood.members(t), absent)[task]

    t = 0
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(1, max(learner.last_round for learner in learners) + 1):
            live = {task: learner for task, learner in enumerate(learners) if t <= learner.last_round}
            contributions = {task: learner.begin(t) for task, learner in live.items()}
            for task, learner in enumerate(learners):
                if task in live and learner.algorithm.is_sync(t):
                    words[task][t] = learner.word(contributions[task], t)
                elif task not in live and last_words[task] == t:
                    words[task][t] = learner.word(IDLE._replace(last=True), t)
            for task, learner in live.items():
                if not learner.algorithm.is_sync(t):
                    learner.end(t)
                    continue
                wanted = learner.algorithm.sync.last(t - 1) if delayed else t
                learner.end(t, central_step(task, wanted) if wanted else NO_REPLY)
            for task, said in enumerate(words):
                for old in [s for s in said if s < t - 3 * longest and s != last_words[task]]:
                    del said[old]
            sigma = max((centre.last_sigma for centre in centres), default=None)
            if after_round is not None and not after_round(t, learners, sigma):
                break
        results = tuple(learner.result() for learner in learners)
    return PeersResult(
        results,
        tuple(centre.chain for centre in centres),
        tuple(learner.take_records() for learner in learners),
        tuple(centre.take_records() for centre in centres),
        t,
    )
