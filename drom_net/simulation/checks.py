"""What must hold after every event, for the node that was called: give one of these to `Simulator.run` as `check`.

They look at one node and those beside it, so that they can be on in runs of any size. A broken one is an
AssertionError that names the node and the time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.base import SyncRounds
from drom_net.graph.neighborhood import Neighborhood
from drom_net.protocol.barrier import KEPT_AHEAD
from drom_net.protocol.peer import Peer
from drom_net.protocol.states import PeerState
from drom_net.protocol.worker import Worker
from drom_net.simulation.simulator import Simulator


class StarChecks:
    """Rounds close once and in order; no worker is ahead of the reducer, nor left behind by it; each side keeps what
    the other would need again after a crash."""

    def __init__(
        self,
        last_rounds: Sequence[int],
        *,
        sync: SyncRounds = SyncRounds(1),  # noqa: B008 - frozen
        in_step: bool = True,
        sampled: bool = False,
    ) -> None:
        """
        Args:
            last_rounds: Each worker's.
            sync: The rounds in which they push.
            in_step: Every round is a sync round, and is closed with all; else they look at each node for itself.
            sampled: They look at some events only, not at each.
        """
        self._in_step = in_step
        self._sync = sync
        self._last_rounds = list(last_rounds)
        self._order = _Order(len(last_rounds) + 1, sampled)

    def __call__(self, simulator: Simulator, index: int) -> None:
        workers = len(self._last_rounds)
        node, reducer = simulator.node(index), simulator.node(workers)
        if index == workers:
            if self._order.look(simulator, index, self._sync.count(node.closed_rounds)):
                for worker in range(workers):
                    self._look(simulator, worker)
        else:
            self._order.look(simulator, index, node.round)
            if reducer is not None:
                self._look(simulator, index)

    def _look(self, simulator: Simulator, index: int) -> None:
        workers = len(self._last_rounds)
        worker, reducer = simulator.node(index), simulator.node(workers)
        if worker is None or not self._in_step:
            return
        closed = reducer.closed_rounds
        # Who comes back after a crash is in an earlier round: the others are ahead of it.
        ahead = worker.round > self._sync.next(closed + 1) and not simulator.totals_of(workers).crashes
        _must(not ahead, simulator, index, f"in round {worker.round}; {closed} are closed")
        ended = worker.round >= self._last_rounds[index]  # the reducer goes on without it
        behind = not ended and closed > worker.round and not simulator.totals_of(index).crashes
        _must(not behind, simulator, index, f"in round {worker.round}; {closed} are closed already")
        kept, gone = worker.durable_round, reducer.history.forgotten
        _must(gone <= kept or ended, simulator, index, f"{gone} rounds are forgotten; it has kept {kept}")
        needed = self._sync.next(reducer.durable_round + 1)
        missing = needed <= worker.round and needed not in worker.history.pushes
        _must(not missing, simulator, index, f"keeping no push of round {needed}")


class PeersChecks:
    """Rounds close once and in order; nobody uses a contribution that was not said; what a peer keeps is bounded."""

    def __init__(
        self,
        neighborhoods: Sequence[Neighborhood],
        *,
        delayed: bool = False,
        in_step: bool = True,
        sampled: bool = False,
    ) -> None:
        """
        Args:
            neighborhoods: Each task's, in order.
            delayed: The exchange is delayed.
            in_step: Nobody goes on without a neighbor's contribution.
            sampled: They look at some events only, not at each.
        """
        self._hoods = neighborhoods
        self._delayed = delayed
        self._in_step = in_step
        self._order = _Order(len(neighborhoods), sampled)

    def __call__(self, simulator: Simulator, index: int) -> None:
        peer, hood = simulator.node(index), self._hoods[index]
        self._order.look(simulator, index, peer.round)
        own = hood.syncs[index]
        # The last sync round that was closed has used a contribution of every neighbor: they have begun that round.
        closed = own.last(peer.round if peer.state is not PeerState.WAITING else peer.round - 1)
        used = own.last(closed - 1) if self._delayed else closed
        for task, contributions, last in kept_by(peer):
            _must(
                contributions <= KEPT_AHEAD + 1,
                simulator,
                index,
                f"keeping {contributions} contributions of node {task}",
            )
            other = simulator.node(task)
            if used <= 0 or last is not None or other is None or not self._in_step or simulator.totals_of(task).crashes:
                continue  # last contributions bind nobody; who has crashed may be in an earlier round again
            needed = hood.round_used(task, used)
            _must(needed <= other.round, simulator, index, f"using node {task}'s contribution of round {needed}")
        said = len(peer.history.contributions)
        most = 2 * (KEPT_AHEAD + 2) * max(1, len(peer.session.members))  # twice what neighbors may ask for
        if peer.durability.active or not self._in_step:
            most += 2 * peer.durability.most
        _must(said <= most, simulator, index, f"keeping {said} contributions of its own")


class Lives:
    """The central steps that a crash takes back: whether they are made again as they were.

    Where a round may be closed without some, a centre that comes back may find others there than before. What it does
    then in the same round is something else, and who has used what it said before has used what no record tells.
    """

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._before: list[tuple[bytearray, bytes, npt.DTypeLike]] = []
        """(where a centre's steps are recorded, those that there were before a crash, their type)"""
        simulator.on_crash = self._note

    def agree(self) -> bool:
        """At the end: whether all that was made twice was made with the same contributions."""
        for records, before, dtype in self._before:
            first, again = np.frombuffer(before, dtype), np.frombuffer(bytes(records), dtype)
            if first.tobytes() != again[np.isin(again["round"], first["round"])].tobytes():
                return False
        return True

    def _note(self, index: int) -> None:
        node = self._simulator.node(index)
        if isinstance(node, Worker):
            return  # it does what the replies say
        name = "central" if isinstance(node, Peer) else "records"
        records = (self._simulator.central_records if isinstance(node, Peer) else self._simulator.records)[index]
        self._before.append((records, bytes(records), node.row_types[name]))


def kept_by(peer: Peer) -> list[tuple[int, int, int | None]]:
    """(neighbor, how many contributions of it are kept, the sync round of its last contribution if that is known)."""
    return [(task, len(entry.contributions), entry.last) for task, entry in peer.session.members.items()]


class _Order:
    """The last round of each node: it grows by one at a time, and goes back only with a crash."""

    def __init__(self, num_nodes: int, sampled: bool) -> None:
        self._sampled = sampled
        self._last = [0] * num_nodes
        self._crashes = [0] * num_nodes

    def look(self, simulator: Simulator, index: int, now_at: int) -> bool:
        """Whether it has grown."""
        last, crashes = self._last[index], simulator.totals_of(index).crashes
        self._last[index] = now_at
        if crashes != self._crashes[index]:
            self._crashes[index] = crashes
            _must(self._sampled or now_at <= last, simulator, index, f"back in round {now_at} after {last}")
            return True
        in_order = last <= now_at if self._sampled else last <= now_at <= last + 1
        _must(in_order, simulator, index, f"in round {now_at} after {last}")
        return now_at > last


def check_records(rows: bytes | bytearray, dtype: npt.DTypeLike, *, every_round: bool) -> None:
    """The rounds of a node's records are each there once and in order; of a task (`every_round`) 1, 2, .. all."""
    rounds = np.frombuffer(rows, dtype)["round"]
    steps = np.diff(rounds, prepend=0)
    wrong = np.flatnonzero(steps != 1 if every_round else steps < 1)
    if len(wrong):
        raise AssertionError(f"round {rounds[wrong[0]]} is recorded after {rounds[wrong[0]] - steps[wrong[0]]}")


def _must(holds: bool, simulator: Simulator, index: int, otherwise: str) -> None:
    if not holds:
        raise AssertionError(f"node {index} at {simulator.now:.6g} s: {otherwise}")
