"""Whom a task meets in which sync round, and which of their contributions count then: pure functions of the round.

A contribution is what a task sends in a sync round of its own. Sync rounds may differ from task to task (tau per task),
and graphs from sync round to sync round. Who says what to whom, and what is waited for, follows from the round alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drom_net.algorithms.base import (
    Algorithm,
    CentralInfo,
    CentralState,
    Contribution,
    GraphPosition,
    Reply,
    SyncRounds,
)
from drom_net.graph.graph import Graph, GraphSchedule


@dataclass(frozen=True, slots=True)
class Neighborhood:
    """One task and its neighbors."""

    task: int
    syncs: Mapping[int, SyncRounds]
    """The sync rounds of the task and of every task that it ever meets, by task."""
    cycle: tuple[tuple[int, ...], ...]
    """The members of A^(i) in its first sync round, its second and so on, over and over: the task and its neighbors
    then, ascending. One entry where the graph stays; where it changes all tasks have the same sync rounds."""
    scales: tuple[float, ...] | None = None
    """What the vectors of its closed neighborhood are multiplied by (S_ij / S_ii), in task order; None is 1 for all."""
    tree: tuple[int, ...] | None = None
    """Its neighbors along the edges of a spanning tree of the graph; None where all are neighbors of all."""

    may_miss: bool = False
    """Whether one may go on without another's contribution."""

    def learner(self, algorithm: Algorithm) -> Algorithm:
        """The learner as this task runs it."""
        if algorithm.specialize is not None:
            position = GraphPosition(self.task, self.closed_neighborhood, self.scales, self.tree, self.may_miss)
            return algorithm.specialize(position)
        if self.scales is None:
            return algorithm
        return _weighted(algorithm, dict(zip(self.closed_neighborhood, self.scales, strict=True)))

    @property
    def neighbors(self) -> tuple[int, ...]:
        """All tasks that it ever meets, ascending."""
        return tuple(sorted({member for members in self.cycle for member in members} - {self.task}))

    @property
    def closed_neighborhood(self) -> tuple[int, ...]:
        """The same with itself."""
        return tuple(sorted((*self.neighbors, self.task)))

    def members(self, t: int) -> tuple[int, ...]:
        """Whose vectors count in its sync round t."""
        if len(self.cycle) == 1:
            return self.cycle[0]
        return self.cycle[(self.syncs[self.task].count(t) - 1) % len(self.cycle)]

    def round_used(self, neighbor: int, t: int, last: int | None = None) -> int:
        """The sync round of the neighbor's contribution that counts in this task's sync round t; 0 where none does.

        Args:
            last: That of the neighbor's last contribution, where it is known to have one.
        """
        if neighbor not in self.members(t):
            return 0
        s = self.syncs[neighbor].last(t)
        return s if last is None else min(s, last)

    def sends_to(self, neighbor: int, t: int) -> bool:
        """Whether its contribution of its sync round t is one that the neighbor will use. (The last one is for all.)"""
        return self._is_used(self.task, neighbor, t)

    def uses(self, neighbor: int, t: int) -> bool:
        """Whether it will use the neighbor's contribution of that one's sync round t."""
        return self._is_used(neighbor, self.task, t)

    def last_sent_before(self, neighbor: int, t: int) -> int:
        """The sync round of its contribution that the neighbor used last before that of t; 0 where there was none."""
        own, theirs = self.syncs[self.task], self.syncs[neighbor]
        if len(self.cycle) == 1:
            return own.last(theirs.last(theirs.next(t) - 1))
        s = own.last(t - 1)
        while s and neighbor not in self.members(s):
            s = own.last(s - 1)
        return s

    def _is_used(self, sender: int, receiver: int, t: int) -> bool:
        sent, used = self.syncs[sender], self.syncs[receiver]
        if len(self.cycle) > 1:
            return sent.at(t) and {sender, receiver} <= set(self.members(t))
        return sent.at(t) and sent.last(used.next(t)) == t


def _weighted(algorithm: Algorithm, scales: Mapping[int, float]) -> Algorithm:
    """The learner whose central step is given each task's vectors multiplied by its scale."""

    def central_step(
        state: CentralState, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
    ) -> tuple[CentralState, dict[int, Reply], CentralInfo]:
        weighted = {
            task: contribution
            if scales[task] == 1.0
            else contribution._replace(vectors=tuple(scales[task] * vector for vector in contribution.vectors))
            for task, contribution in contributions.items()
        }
        return algorithm.central_step(state, weighted, members)

    return algorithm._replace(central_step=central_step)


def neighborhoods(
    schedule: GraphSchedule, syncs: Sequence[SyncRounds], *, may_miss: bool = False
) -> list[Neighborhood]:
    """Each task's.

    Args:
        schedule: The graph of each sync round.
        syncs: Each task's sync rounds; the same for all where the graph changes.
        may_miss: As in Neighborhood.

    Raises:
        ValueError: The graph changes and sync rounds differ.
    """
    if len(schedule.graphs) > 1 and len(set(syncs)) > 1:
        raise ValueError("a graph that changes by sync round needs the same sync rounds for all tasks")
    union = schedule.union
    tree = None if min(union.degrees, default=0) == union.num_tasks - 1 else spanning_tree(union)
    return [
        Neighborhood(
            task,
            {member: syncs[member] for member in union.members(task)},
            tuple(graph.members(task) for graph in schedule.graphs),
            _scales(schedule, task),
            None if tree is None else tree[task],
            may_miss,
        )
        for task in range(union.num_tasks)
    ]


def spanning_tree(graph: Graph) -> list[tuple[int, ...]]:
    """Each task's neighbors in a tree of shortest ways from the task that has most neighbors; of a graph in parts there
    is a tree for each."""
    edges: list[list[int]] = [[] for _ in range(graph.num_tasks)]
    seen: set[int] = set()
    for first in sorted(range(graph.num_tasks), key=lambda task: -graph.degrees[task]):
        queue = deque([] if first in seen else [first])
        seen.add(first)
        while queue:
            task = queue.popleft()
            for other in graph.neighbors[task]:
                if other not in seen:
                    seen.add(other)
                    queue.append(other)
                    edges[task].append(other)
                    edges[other].append(task)
    return [tuple(sorted(row)) for row in edges]


def _scales(schedule: GraphSchedule, task: int) -> tuple[float, ...] | None:
    """A pair that meets in several rounds of a cycle has one scale: that of the first."""
    if all(graph.weights is None for graph in schedule.graphs):
        return None
    scales: dict[int, float] = {}
    for graph in schedule.graphs:
        for member, scale in zip(graph.members(task), graph.scales(task), strict=True):
            scales.setdefault(member, scale)
    return tuple(scales[member] for member in sorted(scales))
