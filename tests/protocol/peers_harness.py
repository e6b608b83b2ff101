"""A graph of peers in memory: nodes, a queue of encoded frames, a clock that nobody waits for, and invariants."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from helpers import hoods_of
from star_harness import CONFIG, DIM, FEATURES, RUN_ID, Network, hello, keep_all, perfect

from drom_net.algorithms.base import Algorithm
from drom_net.data.stream import TaskStream
from drom_net.graph.graph import Graph, GraphSchedule
from drom_net.graph.neighborhood import Neighborhood
from drom_net.learning.records import TASK_DTYPE, central_dtype, peers_chain, run_digest
from drom_net.learning.task import Centre, TaskLearner
from drom_net.protocol.codec import decode, encode
from drom_net.protocol.handshake import Identity
from drom_net.protocol.messages import Message
from drom_net.protocol.node import Envelope, Event
from drom_net.protocol.peer import Peer
from drom_net.protocol.session import address_of
from drom_net.protocol.settings import WAIT, Checkpoints, Policy, Timeouts
from drom_net.simulation.checks import PeersChecks
from drom_net.simulation.slot import NodeTotals

PATIENT = Timeouts(linger_s=300.0, join_s=300.0)


def incoming(task: int) -> str:
    """Where a peer that has connected to us speaks from."""
    return f"in-{task}"


def make_peer(
    algorithm: Algorithm,
    stream: TaskStream,
    hood: Neighborhood,
    *,
    num_tasks: int,
    exchange: str = "blocking",
    rounds: int | None = None,
    timeouts: Timeouts | None = None,
    seed: int = 0,
    incarnation: int = 1,
    **life: Any,
) -> Peer:
    """
    Args:
        life: pace, policy, checkpoints and snapshot.
    """
    algorithm = hood.learner(algorithm)
    return Peer(
        TaskLearner(algorithm, stream, rounds=rounds, neighborhood=hood.closed_neighborhood),
        Centre(algorithm, tasks=hood.closed_neighborhood, dim=DIM, seed=seed),
        hello(hood.task, incarnation=incarnation),
        names=[f"site-{other}" for other in range(num_tasks)],
        neighborhood=hood,
        identity=Identity(RUN_ID, CONFIG, DIM, "2.0", "K", FEATURES),
        push_layout=algorithm.exchange.contribution,
        exchange=exchange,
        rounds=rounds,
        timeouts=timeouts or Timeouts(),
        **life,
    )


class Peers:
    """A peer for each stream, on a network of one's choice. Whoever has finished is no longer there."""

    def __init__(
        self,
        algorithms: Sequence[Algorithm],
        streams: Sequence[TaskStream],
        graph: Graph | GraphSchedule,
        *,
        exchange: str,
        seed: int = 0,
        network: Network = perfect,
        timeouts: Timeouts = PATIENT,
        rounds: int | None = None,
        policy: Policy = WAIT,
        checkpoints: Checkpoints | None = None,
        after_event: Callable[[Peers], None] | None = None,
    ) -> None:
        """
        Args:
            after_event: Called after everything that happens; by default `check`.
        """
        self.now = 0.0
        self.hoods = hoods_of(graph, algorithms)
        self.peers = [
            make_peer(
                algorithm,
                stream,
                hood,
                num_tasks=len(streams),
                exchange=exchange,
                rounds=rounds,
                timeouts=timeouts,
                seed=seed,
                policy=policy,
                checkpoints=checkpoints,
            )
            for algorithm, stream, hood in zip(algorithms, streams, self.hoods, strict=True)
        ]
        self.events: list[list[Event]] = [[] for _ in streams]
        self.records = [b""] * len(streams)
        self.central_records = [b""] * len(streams)
        """What each peer has recorded, taken after every event."""
        self.said: list[tuple[int, int, Message]] = []
        """(sender, receiver, message) of all that was sent, also what was lost."""
        self._checks = PeersChecks(self.hoods, delayed=exchange == "delayed")
        self._max_vectors = sum(algorithms[0].exchange.contribution)
        self._network = network
        self._after_event = after_event or Peers.check
        self._queue: list[tuple[float, int, int, str, list[bytes]]] = []
        self._order = itertools.count()
        self._closed = [0] * len(streams)
        self._reduced = [0] * len(streams)

    @property
    def digest(self) -> str:
        chains = [peer.result.chain for peer in self.peers if peer.result is not None]
        assert len(chains) == len(self.peers)
        return run_digest(chains, peers_chain([peer.central_chain for peer in self.peers]))

    def run(self, *, most: int = 60_000) -> int:
        """To the end of every peer; how many events it took. Fails where there is no end."""
        for task, peer in enumerate(self.peers):
            peer.start(self.now)
            self._collect(task)
        for count in range(most):
            if all(peer.finished for peer in self.peers):
                return count
            self.step()
        states = [(peer.state.value, peer.round) for peer in self.peers]
        raise AssertionError(f"no end after {most} events, at {self.now:.1f} s: {states}")

    def step(self) -> None:
        """Whatever is due next: a timer or an arrival."""
        timer, timed = min((peer.next_timer(), task) for task, peer in enumerate(self.peers) if not peer.finished)
        if self._queue and self._queue[0][0] <= max(timer, self.now):
            due, _, receiver, sender, frames = heapq.heappop(self._queue)
            self.now = max(self.now, due)
            if self.peers[receiver].finished:
                return
            message = decode(frames, dim=DIM, max_vectors=self._max_vectors)
            self.peers[receiver].receive(sender, message, self.now)
            self._collect(receiver)
            return
        assert timer < math.inf, "everybody waits for ever"
        self.now = max(self.now, timer)
        self.peers[timed].on_timer(self.now)
        self._collect(timed)

    def check(self) -> None:
        """What holds at every moment of a run, of every peer."""
        for task in range(len(self.peers)):
            self._checks(self, task)  # type: ignore[arg-type]  # it has what they look at

    def node(self, index: int) -> Peer:
        return self.peers[index]

    def totals_of(self, index: int) -> NodeTotals:
        return NodeTotals()

    def _collect(self, task: int) -> None:
        peer = self.peers[task]
        keep_all(peer, self.now)
        self.events[task] += peer.take_events()
        rows, central = peer.take_records(), peer.take_central_records()
        self.records[task] += rows
        self.central_records[task] += central
        for t in np.frombuffer(rows, dtype=TASK_DTYPE)["round"].tolist():
            assert t == self._closed[task] + 1, f"{task} closes round {t} after {self._closed[task]}"
            self._closed[task] = t
        m = len(self.hoods[task].closed_neighborhood)
        for t in np.frombuffer(central, dtype=central_dtype(m))["round"].tolist():
            assert t > self._reduced[task], f"{task} uses the words of round {t} after those of {self._reduced[task]}"
            self._reduced[task] = t
        for envelope in peer.take_outbox():
            self._send(task, envelope)
        self._after_event(self)

    def _send(self, task: int, envelope: Envelope) -> None:
        receiver = next(
            other for other in self.hoods[task].neighbors if envelope.to in (address_of(other), incoming(other))
        )
        sender = incoming(task) if task > receiver else address_of(task)
        frames = [bytes(frame) for frame in encode(envelope.message)]
        self.said.append((task, receiver, envelope.message))
        for delay in self._network(sender, str(receiver), envelope.message):
            heapq.heappush(self._queue, (self.now + delay, next(self._order), receiver, sender, frames))
