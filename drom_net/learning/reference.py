"""The plain loop in one process: the algorithm without a network, and the oracle of all other drivers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from drom_net.algorithms.base import IDLE, KEEP, NO_REPLY, Algorithm, Contribution, Reply
from drom_net.data.live import LiveStream
from drom_net.data.stream import TaskStream
from drom_net.graph.neighborhood import Neighborhood
from drom_net.learning.records import peers_chain, run_digest
from drom_net.learning.task import Centre, Outgoing, TaskLearner, TaskResult

AfterRound = Callable[[int, Sequence[TaskLearner], float | None], bool]
"""Called with the round, the tasks and sigma_1 (None outside sync rounds); returns False to stop there."""


@dataclass(frozen=True, slots=True)
class Journal:
    """What came about in a run and does not follow from its configuration: who was there when."""

    absent: Sequence[Mapping[int, Collection[int]]] = ()
    """For the reducer, or each peer's own centre: by sync round, who was awaited and did not come
    (`records.absences_of`)."""
    rounds: Sequence[int] = ()
    """How many rounds each task has recorded, where that may be fewer than it has examples."""
    stopped: Collection[tuple[int, int]] = ()
    """(task, sync round) of those that have recorded no reply: the task was stopped while it waited for it."""

    def absent_in(self, centre: int, t: int) -> Collection[int]:
        """Without whom a centre made its step of round t."""
        return self.absent[centre].get(t, ()) if self.absent else ()

    def received(self, task: int, t: int, reply: Reply) -> Reply:
        """What a task has got of the reply of round t: none where it was stopped in the middle of it."""
        return NO_REPLY if (task, t) in self.stopped else reply


AS_CONFIGURED = Journal()
"""Everybody was there all the time."""


class _Results:
    """What the tasks end with: at the end, or after as many rounds as a journal says."""

    def __init__(self, learners: Sequence[TaskLearner], journal: Journal) -> None:
        self._learners, self._rounds = learners, journal.rounds
        self._at: dict[int, TaskResult] = {}

    def look(self, t: int) -> None:
        """Round t is closed."""
        for task, rounds in enumerate(self._rounds):
            if rounds == t:
                result = self._learners[task].result()
                model = {name: vector.copy() for name, vector in result.model.items()}
                totals = dataclasses.replace(result.totals)
                self._at[task] = TaskResult(result.chain, totals, model)

    def take(self) -> tuple[TaskResult, ...]:
        return tuple(self._at.get(task) or learner.result() for task, learner in enumerate(self._learners))


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


class Star:
    """All tasks and their centre, round by round."""

    def __init__(
        self,
        algorithm: Algorithm,
        streams: Sequence[TaskStream | LiveStream],
        *,
        seed: int,
        rounds: int | None = None,
    ) -> None:
        """As `run_reference`."""
        self.algorithm = algorithm
        self.learners = [TaskLearner(algorithm, stream, rounds=rounds) for stream in streams]
        self.centre = Centre(algorithm, tasks=range(len(streams)), dim=streams[0].dim, seed=seed)

    def round(self, t: int, journal: Journal = AS_CONFIGURED) -> float | None:
        """Round t of all tasks whose streams have not ended; they come in order, from 1. Returns sigma_1, or None
        outside sync rounds."""
        live = {task: learner for task, learner in enumerate(self.learners) if t <= learner.last_round}
        contributions = {task: learner.begin(t) for task, learner in live.items()}
        if not self.algorithm.is_sync(t):
            for learner in live.values():
                learner.end(t)
            return None
        absent = journal.absent_in(0, t)
        present = {task: contribution for task, contribution in contributions.items() if task not in absent}
        replies = self.centre.reduce(t, present, absent=absent)
        for task, learner in live.items():
            learner.end(t, journal.received(task, t, KEEP if task in absent else replies[task]))
        return self.centre.last_sigma or None


def run_reference(
    algorithm: Algorithm,
    streams: Sequence[TaskStream | LiveStream],
    *,
    seed: int,
    rounds: int | None = None,
    after_round: AfterRound | None = None,
    journal: Journal = AS_CONFIGURED,
) -> ReferenceResult:
    """Run all tasks through all rounds.

    Args:
        streams: The tasks' examples, in task order.
        seed: Where the power iteration's first vector comes from.
        rounds: At most so many; by default until the longest stream ends.
        after_round: Called with the round, the tasks and sigma_1 (None outside sync rounds); returns False to
            stop there. (Counts are made when they are asked for: a task's `totals` cost something.)
        journal: Who was not there when, of a run that is made again.
    """
    star = Star(algorithm, streams, seed=seed, rounds=rounds)
    results = _Results(star.learners, journal)
    t = 0
    results.look(t)
    with np.errstate(over="ignore", invalid="ignore"):  # one clear error tells of divergence, not NumPy's warnings
        for t in range(1, max(learner.last_round for learner in star.learners) + 1):
            sigma = star.round(t, journal)
            results.look(t)
            if after_round is not None and not after_round(t, star.learners, sigma):
                break
        ended = results.take()
    records = tuple(learner.take_records() for learner in star.learners)
    return ReferenceResult(ended, star.centre.chain, records, star.centre.take_records(), t)


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


class _Exchange:
    """The centre of each neighborhood, and what was said to them and may still be used."""

    def __init__(
        self,
        centres: Sequence[Centre],
        learners: Sequence[TaskLearner],
        neighborhoods: Sequence[Neighborhood],
        rounds: int | None,
    ) -> None:
        self._centres, self._learners, self._neighborhoods = centres, learners, neighborhoods
        self._last = [learner.algorithm.sync.last_contribution(learner.last_round, rounds) for learner in learners]
        self._longest = max(learner.algorithm.sync.tau for learner in learners)
        self._said: list[dict[int, Outgoing]] = [{} for _ in learners]
        """By task and sync round."""
        self._used = [dict.fromkeys(hood.closed_neighborhood, 0) for hood in neighborhoods]
        """By listener and speaker: the sync round of the contribution that was used last."""

    def say(self, t: int, contributions: Mapping[int, Contribution]) -> None:
        """The contributions of round t, of those that learn in it and of those that have ended."""
        for task, learner in enumerate(self._learners):
            if task in contributions and learner.algorithm.is_sync(t):
                self._said[task][t] = learner.outgoing(contributions[task], t)
            elif task not in contributions and self._last[task] == t:
                self._said[task][t] = learner.outgoing(IDLE._replace(last=True), t)

    def step(self, task: int, t: int, absent: Collection[int]) -> Reply:
        """What a task's own centre makes in its step of round t of the contributions that are new to it."""
        hood, used = self._neighborhoods[task], self._used[task]
        heard = {}
        for member in hood.members(t):
            if member in absent:  # nobody knew then whether its last contribution was behind
                used[member] = hood.round_used(member, t)
                continue
            s = hood.round_used(member, t, self._last[member])
            if s > used[member]:
                used[member] = s
                heard[member] = self._said[member][s].to(task, self._neighborhoods[member].last_sent_before(task, s))
        return self._centres[task].reduce(t, heard, hood.members(t), absent)[task]

    def forget(self, t: int) -> None:
        """Drop those that nobody can use after round t."""
        for said, last in zip(self._said, self._last, strict=True):
            for old in [s for s in said if s < t - 3 * self._longest and s != last]:
                del said[old]


def run_reference_peers(
    algorithms: Sequence[Algorithm],
    streams: Sequence[TaskStream | LiveStream],
    neighborhoods: Sequence[Neighborhood],
    *,
    seed: int,
    delayed: bool = False,
    rounds: int | None = None,
    after_round: AfterRound | None = None,
    journal: Journal = AS_CONFIGURED,
) -> PeersResult:
    """Run Algorithm 2: each task is the centre of its own neighborhood.

    Args:
        algorithms: Each task's; they may differ in tau.
        neighborhoods: Each task's, of the same sync rounds.
        delayed: What is sent in a sync round takes effect at the next (exchange: delayed); else at once. Blocking
            and overlapping exchange are one sequence.
        after_round: As for `run_reference`; sigma_1 is the largest of the peers'.
        journal: Likewise.
    """
    algorithms = [hood.learner(algorithm) for algorithm, hood in zip(algorithms, neighborhoods, strict=True)]
    learners = [
        TaskLearner(algorithm, stream, rounds=rounds, neighborhood=hood.closed_neighborhood)
        for algorithm, stream, hood in zip(algorithms, streams, neighborhoods, strict=True)
    ]
    centres = [
        Centre(algorithm, tasks=hood.closed_neighborhood, dim=streams[0].dim, seed=seed)
        for algorithm, hood in zip(algorithms, neighborhoods, strict=True)
    ]
    exchange = _Exchange(centres, learners, neighborhoods, rounds)
    results = _Results(learners, journal)
    t = 0
    results.look(t)
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(1, max(learner.last_round for learner in learners) + 1):
            live = {task: learner for task, learner in enumerate(learners) if t <= learner.last_round}
            contributions = {task: learner.begin(t) for task, learner in live.items()}
            exchange.say(t, contributions)
            for task, learner in live.items():
                if not learner.algorithm.is_sync(t):
                    learner.end(t)
                    continue
                wanted = learner.algorithm.sync.last(t - 1) if delayed else t
                reply = exchange.step(task, wanted, journal.absent_in(task, wanted)) if wanted else NO_REPLY
                learner.end(t, journal.received(task, t, reply))
            exchange.forget(t)
            sigma = max((centre.last_sigma for centre in centres), default=0.0) or None
            results.look(t)
            if after_round is not None and not after_round(t, learners, sigma):
                break
        ended = results.take()
    return PeersResult(
        ended,
        tuple(centre.chain for centre in centres),
        tuple(learner.take_records() for learner in learners),
        tuple(centre.take_records() for centre in centres),
        t,
    )
