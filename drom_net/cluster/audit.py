"""Attack a run of a configuration: what share of the rows can the reducer, a neighbor and another site compute?"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drom_net.algorithms.base import Algorithm, CentralInfo, Contribution, Reply, SyncRounds
from drom_net.algorithms.features import Features, Vector, dot, places
from drom_net.cluster.plan import algorithm_of, is_delayed, parameters_of
from drom_net.cluster.prepare import Prepared
from drom_net.cluster.progress import Progress
from drom_net.data.stream import TaskStream
from drom_net.graph.neighborhood import Neighborhood
from drom_net.learning.reference import run_reference, run_reference_peers
from drom_net.learning.task import TaskLearner, TaskResult
from drom_net.results.attacks import Attacks, Guess, OnContributions, OnReplies, attacks_on

READ = 0.99
"""A row counts as read where the cosine to what was computed is above this, or below minus this."""
REDUCER, NEIGHBOR, OTHER = "the reducer", "a neighbor", "another site"
NO_ATTACK = "no attack is known to this command"
NOTHING_LEAVES = "nothing leaves a site"

Hear = Callable[[int, Mapping[int, Contribution], Mapping[int, Reply]], None]
"""Called with a sync round, the contributions that a centre was given in it and its replies."""


@dataclass(frozen=True, slots=True)
class Onlooker:
    """What one kind of onlooker can compute: all reducers, neighbors or other sites of a run together."""

    who: str
    read: int | None
    """So many of the rows, at the least; None where no attack is known, or where there is no such onlooker."""
    note: str = ""
    model: float | None = None
    """The cosine between a site's model and what was computed of it, either way, of the site where it is the lowest.
    The model is that of the end of the run."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What an attacked run gave."""

    rows: int
    """How many were learned."""
    alike: int
    """How many of these would count as read by whoever takes the row before it, of the same site, for it."""
    rounds: int
    onlookers: tuple[Onlooker, ...]


class _Site:
    """One site's rows, and who has read which."""

    def __init__(self, stream: TaskStream, last_round: int) -> None:
        self._stream = stream
        found = [(t, index) for t in range(1, last_round + 1) if (index := stream.index_at(t)) is not None]
        learned = [(t, index) for t, index in found if stream.label(index)]
        self._rounds, self._indices = [t for t, _ in learned], [index for _, index in learned]
        self.read = {who: np.zeros(len(stream.labels), dtype=np.bool_) for who in (REDUCER, NEIGHBOR, OTHER)}

    @property
    def rows(self) -> int:
        return len(set(self._indices))

    def alike(self) -> int:
        """Of how many rows the one before is nearly a multiple."""
        order = list(dict.fromkeys(self._indices))
        before = [_dense(self._stream.features(index), self._stream.dim) for index in order[:-1]]
        return sum(
            _cosine(guess, self._stream.features(index)) > READ for guess, index in zip(before, order[1:], strict=True)
        )

    def look(self, who: str, guess: Vector, after: int, to: int) -> None:
        """Mark what this guess is a multiple of, among the rows of the rounds after `after` up to `to`."""
        read = self.read[who]
        for place in range(bisect_right(self._rounds, after), bisect_right(self._rounds, to)):
            index = self._indices[place]
            if not read[index]:
                read[index] = _cosine(guess, self._stream.features(index)) > READ


def _dense(x: Features, dim: int) -> Vector:
    at, values = places(x)
    found = np.zeros(dim)
    found[at] = values
    return found


def _cosine(vector: Vector, x: Features) -> float:
    """Either way; 0 where one of them is 0."""
    _, values = places(x)
    lengths = float(np.linalg.norm(vector)) * float(np.linalg.norm(values))
    return abs(dot(vector, x)) / lengths if 0.0 < lengths < math.inf else 0.0


def tapped(algorithm: Algorithm, hear: Hear) -> Algorithm:
    """The same learner, whose centre also tells what it was given and what it answers."""
    t = 0

    def central_step(
        state: Any, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
    ) -> tuple[Any, dict[int, Reply], CentralInfo]:
        nonlocal t
        t = algorithm.sync.next(t + 1)
        state, replies, info = algorithm.central_step(state, contributions, members)
        hear(t, contributions, replies)
        return state, replies, info

    return algorithm._replace(central_step=central_step)


class _Listening:
    """All onlookers of a run."""

    def __init__(self, prepared: Prepared, attacks: Attacks, sites: Sequence[_Site]) -> None:
        self._attacks, self._sites, self._dim = attacks, sites, prepared.roster.dim
        self._parameters = [parameters_of(prepared.config, task) for task in range(len(sites))]
        self.heard: dict[tuple[int, int], OnContributions] = {}
        """By listener, which is -1 for a reducer, and site."""
        self._told: dict[int, OnReplies] = {}

    def at_reducer(self, t: int, contributions: Mapping[int, Contribution], replies: Mapping[int, Reply]) -> None:
        for task, contribution in contributions.items():
            for guess in self._of_contribution(-1, task, t, contribution, replies[task]):
                self._sites[task].look(REDUCER, *guess)
        if self._attacks.on_replies is None:
            return
        came = {task for task, contribution in contributions.items() if contribution.vectors}
        for task, reply in replies.items():
            if task not in self._told:
                self._told[task] = self._attacks.on_replies(self._parameters[task], self._dim)
            if reply.vectors:
                for guess in self._told[task].hear(t, contributions[task], reply, len(came - {task})):
                    for other, site in enumerate(self._sites):
                        if other != task:
                            site.look(OTHER, *guess)

    def at_peer(self, hood: Neighborhood, behind: Mapping[int, Sequence[tuple[int, int]]], sync: SyncRounds) -> Hear:
        """
        Args:
            behind: By neighbor, of whom its contributions tell: (task, so many sync rounds late).
        """

        def hear(t: int, contributions: Mapping[int, Contribution], replies: Mapping[int, Reply]) -> None:
            for sender in hood.neighbors:
                if sender not in contributions:
                    continue
                reply = replies.get(sender, Reply(replies[hood.task].kind))
                for guess in self._of_contribution(hood.task, sender, t, contributions[sender], reply):
                    for task, late in behind[sender]:
                        span = _earlier(sync, guess.after, late), _earlier(sync, guess.to, late)
                        self._sites[task].look(NEIGHBOR if task == sender else OTHER, guess.vector, *span)

        return hear

    def _of_contribution(
        self, listener: int, task: int, t: int, contribution: Contribution, reply: Reply
    ) -> Iterable[Guess]:
        if not contribution.vectors:
            return ()
        if (listener, task) not in self.heard:
            assert self._attacks.on_contributions is not None
            self.heard[listener, task] = self._attacks.on_contributions(self._parameters[task], self._dim)
        return self.heard[listener, task].hear(t, contribution, reply)


def _earlier(sync: SyncRounds, t: int, late: int) -> int:
    """So many sync rounds before."""
    for _ in range(late):
        t = sync.last(t - 1) if t > 0 else 0
    return t


def _behind(hoods: Sequence[Neighborhood], task: int, along_tree: bool) -> dict[int, list[tuple[int, int]]]:
    """By neighbor of a task, of whom its contributions tell, and how many sync rounds late."""
    if not along_tree or hoods[task].tree is None:
        return {sender: [(sender, 0)] for sender in hoods[task].neighbors}
    found: dict[int, list[tuple[int, int]]] = {sender: [] for sender in hoods[task].neighbors}
    for sender in hoods[task].tree or ():
        waiting = [(sender, task, 0)]
        while waiting:
            here, since, late = waiting.pop()
            found[sender].append((here, late))
            waiting += [(other, here, late + 1) for other in hoods[here].tree or () if other != since]
    return found


def audit(prepared: Prepared, progress: Progress) -> Audit:
    """Run a configuration in the plain loop, and attack what its nodes would send each other."""
    config, streams = prepared.config, prepared.streams
    algorithms = [algorithm_of(config, task) for task in range(len(streams))]
    sites = [_Site(*pair) for pair in zip(streams, prepared.last_rounds, strict=True)]
    attacks = attacks_on(config.algorithm.parameters)
    counts = {"rows": sum(site.rows for site in sites), "alike": sum(site.alike() for site in sites)}
    kinds = (REDUCER, OTHER) if prepared.graph is None else (NEIGHBOR, OTHER)
    silent = not algorithms[0].exchange.contribution
    if silent or attacks.on_contributions is None:
        nothing = (0, NOTHING_LEAVES) if silent else (None, NO_ATTACK)
        return Audit(**counts, rounds=0, onlookers=tuple(Onlooker(who, *nothing) for who in kinds))

    def after_round(t: int, learners: Sequence[TaskLearner], sigma: float | None) -> bool:
        progress.update(t, lambda: [learner.totals for learner in learners], sigma)
        return True

    listening = _Listening(prepared, attacks, sites)
    common: dict[str, Any] = {"seed": config.seed, "rounds": config.rounds, "after_round": after_round}
    alone: set[tuple[int, int]]
    notes = dict.fromkeys(kinds, "")
    known = set(kinds)
    progress.start(prepared.roster.tasks, prepared.rounds)
    if prepared.graph is None:
        result = run_reference(tapped(algorithms[0], listening.at_reducer), streams, **common)
        rounds, results = result.rounds, result.tasks
        alone = {(-1, task) for task in range(len(sites))}
        if attacks.on_replies is None:
            known.remove(OTHER)
    else:
        hoods, along_tree = prepared.graph.neighborhoods, config.algorithm.learner.along_tree
        behind = [_behind(hoods, task, along_tree) for task in range(len(hoods))]
        listeners = [_of_peer(algorithms[task], hood, listening, behind[task]) for task, hood in enumerate(hoods)]
        ended = run_reference_peers(listeners, streams, hoods, delayed=is_delayed(config), **common)
        rounds, results = ended.rounds, ended.tasks
        alone = {(task, sender) for task, those in enumerate(behind) for sender in those if len(those[sender]) == 1}
        if all(len(hood.closed_neighborhood) == len(sites) for hood in hoods):
            known.remove(OTHER)
            notes[OTHER] = "all sites are neighbors"
        elif not along_tree:
            known.remove(OTHER)
    onlookers = []
    for who in kinds:
        read = sum(int(site.read[who].sum()) for site in sites) if who in known else None
        note = notes[who] or ("" if who in known else NO_ATTACK)
        model = None if who == OTHER else _models(listening, alone, results)
        onlookers.append(Onlooker(who, read, note, model))
    return Audit(**counts, rounds=rounds, onlookers=tuple(onlookers))


def _of_peer(
    algorithm: Algorithm, hood: Neighborhood, listening: _Listening, behind: Mapping[int, Sequence[tuple[int, int]]]
) -> Algorithm:
    """A peer's learner, whose centre is listened to; made for its place where it has one."""
    hear = listening.at_peer(hood, behind, algorithm.sync)
    peer = tapped(hood.learner(algorithm), hear)
    return peer._replace(specialize=lambda position: peer)


def _models(listening: _Listening, alone: Iterable[tuple[int, int]], results: Sequence[TaskResult]) -> float | None:
    """The lowest cosine between a site's model and what was computed of it; None where nothing was."""
    found: dict[int, float] = {}
    for listener, task in alone:
        attack = listening.heard.get((listener, task))
        computed = attack.model() if attack is not None else None
        if computed is None:
            continue
        vectors = [results[task].model[name] for name in ("w", "ridge") if name in results[task].model]
        best = max(_cosine(computed, vector) for vector in vectors)
        found[task] = max(found.get(task, 0.0), best)
    return min(found.values(), default=None)
