"""What a driver sees of a node: calls in, messages and events out. A node performs no I/O."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.base import SyncRounds
from drom_net.algorithms.features import Features, Vector
from drom_net.core.names import some_of
from drom_net.learning.metrics import Totals
from drom_net.learning.task import TaskLearner
from drom_net.protocol.durability import Durability
from drom_net.protocol.messages import Message
from drom_net.protocol.settings import Checkpoints
from drom_net.protocol.states import State, check_step

REDUCER = "reducer"
"""The address of the reducer, as a worker sees it."""


class Envelope(NamedTuple):
    """A message to be sent."""

    to: str
    """An address: where an earlier message came from, or REDUCER."""
    message: Message


@dataclass(frozen=True, slots=True)
class Joined:
    """A task is in the cluster; both sides tell."""

    task: int


@dataclass(frozen=True, slots=True)
class Stalled:
    """A wait has grown long; whom it is for, and since how many seconds."""

    round: int
    waiting_for: str
    since_s: float


@dataclass(frozen=True, slots=True)
class ConnectionChanged:
    """The transport has lost, or found again, the other side."""

    who: str
    connected: bool


@dataclass(frozen=True, slots=True)
class Absent:
    """The run goes on without this task, with its last vectors."""

    task: int
    name: str
    round: int


@dataclass(frozen=True, slots=True)
class Returned:
    """A task that was absent takes part again from this round on."""

    task: int
    name: str
    round: int


@dataclass(frozen=True, slots=True)
class Late:
    """A round was closed at its deadline without these."""

    round: int
    names: str


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """A node that was behind the others, as after a crash, is with them again."""

    round: int
    rounds: int
    """How many it has made up for."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A message was refused; the run goes on without it."""

    sender: str
    reason: str


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that a person should know and that stops nothing."""

    text: str


Event = Joined | Stalled | ConnectionChanged | Absent | Returned | Late | CaughtUp | Refused | Warned


class Ended(NamedTuple):
    """What the reducer knows of a task that is done."""

    rounds: int
    chain: bytes
    totals: Totals


class Node(Protocol):
    """A worker, a reducer or a peer as a state machine.

    `now` is seconds on any monotonic clock; a node only compares and adds. After each call the driver takes
    the outbox and the events. Calls raise RejectedError or ClusterError when the node cannot go on.
    """

    @property
    def finished(self) -> bool: ...
    @property
    def max_vectors(self) -> int:
        """How many vectors a message to this node may carry."""

    def start(self, now: float) -> None: ...
    def receive(self, sender: str, message: Message, now: float) -> None: ...
    def on_timer(self, now: float) -> None:
        """Do what is due; called when `next_timer()` has come (or later)."""

    def busy_until(self, now: float) -> None:
        """The last call on a timer has computed until now; a driver without such times need not tell."""

    def next_timer(self) -> float:
        """When to call `on_timer`; a time in the past means at once, infinity never."""

    def on_connection(self, address: str, connected: bool, now: float) -> None: ...
    def take_outbox(self) -> list[Envelope]: ...
    def take_events(self) -> list[Event]: ...
    def take_records(self) -> bytes:
        """The rows of the rounds closed since the last call: a worker's as records.TASK_DTYPE, a reducer's as
        records.central_dtype."""

    def take_times(self) -> bytes:
        """When contributions were said and waited for, of the sync rounds closed since the last call, as TIMES_DTYPE.

        A reducer has none.
        """

    @property
    def row_types(self) -> Mapping[str, npt.DTypeLike]:
        """What the rows of its `records`, `central` and `times` are, as far as it has such; each with a `round`."""

    @property
    def recorded(self) -> Mapping[str, int]:
        """By the same names: the round of the last row that was made. One that goes on from a snapshot makes all later
        ones again."""

    def take_snapshot(self) -> Snapshot | None:
        """What to go on from after a crash, where it is time for that: not before the last one was on disk, and never
        of a node that was made without `Checkpoints`."""

    def snapshot_persisted(self, now: float) -> None:
        """The last snapshot is safe: it would survive now whatever happens to the node."""

    @property
    def holding(self) -> bool:
        """Whether it has nothing to say until its last snapshot is on disk."""

    def stop(self) -> None:
        """End here, at the user's wish: a round that is open is closed without a reply."""


Snapshot = dict[str, Any]
"""What a node goes on from after a crash: plain values and arrays that it never touches again."""

Pace = Callable[[int], float]
"""How many seconds the example of a round takes to come, from when the node is ready for it."""

TIMES_DTYPE = np.dtype([("round", "<i8"), ("sent_s", "<f8"), ("idle_s", "<f8"), ("closed_s", "<f8")])
"""A sync round, by the driver's clock: when the contribution was sent, from when on there was nothing to do but wait,
and when the round was closed. The first row is of round 0, when learning begins; the last one of the last round, when
it has ended. In between the node was busy with its examples."""
_TIMES_ROW = struct.Struct("<qddd")


def no_delay(t: int) -> float:
    """The pace of examples that are all there."""
    return 0.0


_REJOIN_WINDOW = 3


def is_close(sync: SyncRounds, t: int, open_round: int) -> bool:
    """Whether a task that comes back after an absence, and is in round t, is awaited again: once it is at most three
    sync rounds behind the open one."""
    return sync.count(open_round) - sync.count(t) <= _REJOIN_WINDOW


class NodeBase:
    """What all roles have: what is to be sent and told until the driver takes it, and how far it is on disk."""

    state: Any
    """A state of its role, of `protocol.states`."""

    def __init__(self, checkpoints: Checkpoints | None = None, *, snapshot: Snapshot | None = None) -> None:
        durable, at_end = (0, False) if snapshot is None else (snapshot["round"], snapshot.get("ended", False))
        self.durability = Durability(checkpoints, durable=durable, at_end=at_end)
        self.holding = False
        self._outbox: list[Envelope] = []
        self._events: list[Event] = []
        self._times: list[tuple[int, float, float, float]] = []
        self.resends = 0
        """How often it has asked again."""
        self.waited_s = 0.0
        """For how long there was nothing else to do in the sync rounds closed so far."""

    def _enter(self, state: State) -> None:
        if state is not self.state:
            check_step(self.state, state)
            self.state = state

    def take_times(self) -> bytes:
        taken, self._times = b"".join([_TIMES_ROW.pack(*row) for row in self._times]), []
        return taken

    def _note_times(self, t: int, sent_s: float, idle_s: float, closed_s: float) -> None:
        self.waited_s += closed_s - idle_s
        self._times.append((t, sent_s, idle_s, closed_s))

    @property
    def durable_round(self) -> int:
        """The round up to which it would be again after a crash."""
        return self.durability.durable

    def snapshot_persisted(self, now: float) -> None:
        answered = self.durability.persisted()
        self.holding = self._must_hold()
        for task in answered:
            self._confirm(task)

    def _must_hold(self) -> bool:
        """Whether nothing may be sent before more is on disk."""
        return False

    def _confirm(self, task: int) -> None:
        """Answer a goodbye, which is on disk now."""

    def take_outbox(self) -> list[Envelope]:
        if self.holding or not self._outbox:
            return []
        taken, self._outbox = self._outbox, []
        return taken

    def take_events(self) -> list[Event]:
        if not self._events:
            return []
        taken, self._events = self._events, []
        return taken


class Learns:
    """What a worker and a peer have in common: one task."""

    _learner: TaskLearner

    @property
    def totals(self) -> Totals:
        """The counts over all rounds closed so far."""
        return self._learner.totals

    @property
    def mixing(self) -> tuple[Vector, Vector] | None:
        """As TaskLearner.mixing."""
        return self._learner.mixing

    def predict(self, x: Features) -> float:
        """The score of x by the model as it is now."""
        return self._learner.predict(x)

    def probability(self, score: float) -> float:
        """Of +1, for a score of the model as it is now."""
        return self._learner.probability(score)

    def take_records(self) -> bytes:
        return self._learner.take_records()


def named(names: Sequence[str], tasks: Iterable[int]) -> str:
    """The tasks' names for a sentence: the first five, and how many more."""
    return some_of([names[task] for task in tasks], 5)


def earlier_start(name: str, known: int, its: int) -> str:
    """Why a node may not take its own place again: it has come without what it had."""
    return (
        f"{name} was here in its start {known}, and this is its start {its}: "
        "it can go on only in the folder that it had, or with a copy of that"
    )
