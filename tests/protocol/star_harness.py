"""A star in memory: nodes, a queue of encoded frames and a clock that nobody waits for."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from drom_net.algorithms.base import Algorithm
from drom_net.data.stream import TaskStream
from drom_net.learning.records import run_digest
from drom_net.learning.task import Centre, TaskLearner
from drom_net.protocol.codec import decode, encode
from drom_net.protocol.handshake import Identity
from drom_net.protocol.messages import PROTOCOL_VERSION, Hello, Message
from drom_net.protocol.node import REDUCER, Envelope, Event, Node, Snapshot
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.settings import Checkpoints, Timeouts
from drom_net.protocol.worker import Worker

ENDPOINT = "tcp://10.0.0.1:5555"
RUN_ID = "run-1"
CONFIG = "c" * 64
FEATURES = "f" * 64
DIM = 7

Network = Callable[[str, str, Message], list[float]]
"""(sender, receiver, message) -> after how many seconds a copy arrives; empty where it is lost."""


def perfect(sender: str, receiver: str, message: Message) -> list[float]:
    return [0.001]


def faulty(seed: int, *, lost: float = 0.2, doubled: float = 0.2, delay_s: float = 0.4) -> Network:
    """Messages are lost, doubled and, by their delays, overtaken."""
    draw = random.Random(seed)

    def network(sender: str, receiver: str, message: Message) -> list[float]:
        copies = 0 if draw.random() < lost else 2 if draw.random() < doubled else 1
        return [draw.uniform(0.0, delay_s) for _ in range(copies)]

    return network


def hello(task: int, **changes: object) -> Hello:
    fields: dict[str, object] = {
        "version": PROTOCOL_VERSION,
        "run_id": RUN_ID,
        "task": task,
        "config_digest": CONFIG,
        "dim": DIM,
        "feature_digest": FEATURES,
        "numpy": "2.0",
        "blas": "K",
    }
    return Hello(**{**fields, **changes})  # type: ignore[arg-type]


def make_worker(
    algorithm: Algorithm,
    stream: TaskStream,
    *,
    task: int = 0,
    timeouts: Timeouts | None = None,
    rounds: int | None = None,
    incarnation: int = 1,
    num_tasks: int = 2,
    **life: Any,
) -> Worker:
    """
    Args:
        num_tasks: Of the run, which decides how many vectors a reply carries.
        life: pace, checkpoints and snapshot.
    """
    learner = TaskLearner(algorithm, stream, rounds=rounds)
    says = hello(task, incarnation=incarnation)
    return Worker(
        learner,
        says,
        timeouts=timeouts or Timeouts(),
        endpoint=ENDPOINT,
        pull_layout=algorithm.exchange.reply_layout(num_tasks),
        **life,
    )


def make_reducer(
    algorithm: Algorithm,
    num_tasks: int,
    *,
    timeouts: Timeouts | None = None,
    seed: int = 0,
    feature_digest: str = FEATURES,
    push_layout: tuple[int, ...] | None = None,
    **life: Any,
) -> Reducer:
    return Reducer(
        Centre(algorithm, tasks=range(num_tasks), dim=DIM, seed=seed),
        [f"site-{task}" for task in range(num_tasks)],
        Identity(RUN_ID, CONFIG, DIM, "2.0", "K", feature_digest),
        push_layout=algorithm.exchange.contribution if push_layout is None else push_layout,
        sync=algorithm.sync,
        timeouts=timeouts or Timeouts(),
        **life,
    )


EVERY_ROUND = Checkpoints(every_rounds=1, every_s=1e9)
"""A snapshot of each round, as soon as it may be taken."""


def keep_all(node: Node, now: float) -> list[Snapshot]:
    """Keep what a node has to keep, at once, as on a disk that takes no time; what that was."""
    kept = []
    while (snapshot := node.take_snapshot()) is not None:
        kept.append(snapshot)
        node.snapshot_persisted(now)
    return kept


def class_name(value: object) -> str:
    """What a parameter of a test is called."""
    return type(value).__name__


def sent(node: Node) -> list[Message]:
    """What a node says, whoever it is for."""
    return [envelope.message for envelope in node.take_outbox()]


class Star:
    """A reducer and a worker for each stream, on a network of one's choice."""

    def __init__(
        self,
        algorithm: Algorithm,
        streams: Sequence[TaskStream],
        *,
        seed: int = 0,
        network: Network = perfect,
        timeouts: Timeouts | None = None,
        rounds: int | None = None,
    ) -> None:
        timeouts = timeouts or Timeouts(linger_s=120.0, join_s=120.0)
        self.now = 0.0
        self.reducer = make_reducer(algorithm, len(streams), timeouts=timeouts, seed=seed)
        self.workers = [
            make_worker(algorithm, stream, task=task, timeouts=timeouts, rounds=rounds, num_tasks=len(streams))
            for task, stream in enumerate(streams)
        ]
        self.nodes: dict[str, Node] = {REDUCER: self.reducer}
        self.nodes |= {f"w{task}": worker for task, worker in enumerate(self.workers)}
        self.events: dict[str, list[Event]] = {address: [] for address in self.nodes}
        self.records = dict.fromkeys(self.nodes, b"")
        """What each node has recorded, taken after every event."""
        self.said: list[tuple[str, str, Message, list[bytes]]] = []
        """(sender, receiver, message, frames) of all that was sent, also what was lost."""
        self._max_vectors = dict.fromkeys(self.nodes, sum(algorithm.exchange.reply_layout(len(streams))))
        self._max_vectors[REDUCER] = sum(algorithm.exchange.contribution)
        self._network = network
        self._queue: list[tuple[float, int, str, str, list[bytes]]] = []
        self._order = itertools.count()

    @property
    def digest(self) -> str:
        """As the reducer would write it, from goodbyes and its own chain."""
        chains = [ended.chain for ended in self.reducer.ended if ended is not None]
        assert len(chains) == len(self.workers)
        return run_digest(chains, self.reducer.central_chain)

    def start(self) -> None:
        for address, node in self.nodes.items():
            node.start(self.now)
            self._collect(address)

    def run(self, *, most: int = 100_000) -> None:
        """To the end of every node. Fails where there is none: nothing to wait for, or too many events."""
        self.start()
        for _ in range(most):
            if all(node.finished for node in self.nodes.values()):
                return
            self.step()
        raise AssertionError(f"no end after {most} events, at {self.now:.1f} s")

    def step(self) -> None:
        """Whatever is due next: a timer or an arrival."""
        live = {address: node for address, node in self.nodes.items() if not node.finished}
        timer, timed = min((node.next_timer(), address) for address, node in live.items())
        if self._queue and self._queue[0][0] <= timer:
            due, _, sender, receiver, frames = heapq.heappop(self._queue)
            self.now = max(self.now, due)
            if receiver in live:  # whoever has finished is no longer there
                message = decode(frames, dim=DIM, max_vectors=self._max_vectors[receiver])
                live[receiver].receive(sender, message, self.now)
                self._collect(receiver)
            return
        assert timer < math.inf, "everybody waits for ever"
        self.now = max(self.now, timer)
        live[timed].on_timer(self.now)
        self._collect(timed)

    def _collect(self, address: str) -> None:
        node = self.nodes[address]
        self.events[address] += node.take_events()
        self.records[address] += node.take_records()
        for envelope in node.take_outbox():
            self._send(address, envelope)

    def _send(self, sender: str, envelope: Envelope) -> None:
        frames = [bytes(frame) for frame in encode(envelope.message)]
        self.said.append((sender, envelope.to, envelope.message, frames))
        for delay in self._network(sender, envelope.to, envelope.message):
            heapq.heappush(self._queue, (self.now + delay, next(self._order), sender, envelope.to, frames))
