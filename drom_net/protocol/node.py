"""What a driver sees of a worker or a reducer: calls in, messages and events out. A node performs no I/O."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from drom_net.learning.metrics import Totals
from drom_net.protocol.messages import Hello, Message
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
    """A worker is in the cluster (told by both sides)."""

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
    """The run goes on without this task, with its last column."""

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
    """A worker or a reducer as a state machine.

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

    def took_until(self, now: float) -> None:
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
        """When words were said and waited for, of the sync rounds closed since the last call, as TIMES_DTYPE.

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
        """What to go on from after a crash, where it is time to keep that: not before the last one was kept, and never
        of a node that was made without `Checkpoints`."""

    def snapshot_kept(self, now: float) -> None:
        """The last snapshot is safe: it would survive now whatever happens to the node."""

    @property
    def holding(self) -> bool:
        """Whether it has nothing to say until its last snapshot is kept."""

    def stop(self) -> None:
        """End here, at the user's wish: a round that is open is closed without a reply."""


Snapshot = dict[str, Any]
"""What a node goes on from after a crash: plain values and arrays that it never touches again."""

Pace = Callable[[int], float]
"""How many seconds the example of a round takes to come, from when the node is ready for it."""

TIMES_DTYPE = np.dtype([("round", "<i8"), ("said_s", "<f8"), ("idle_s", "<f8"), ("closed_s", "<f8")])
"""A sync round, by the driver's clock: when the word was said, from when on there was nothing else to do than to wait,
and when the round was closed. The first row is of round 0, when learning begins; the last one of the last round, when
it has ended. In between the node was busy with its examples."""
_TIMES_ROW = struct.Struct("<qddd")


def at_once(t: int) -> float:
    """The pace of examples that are all there."""
    return 0.0


NEAR = 3
"""A task that comes back after an absence is awaited again once it is so few sync rounds behind."""


class Rival(NamedTuple):
    """A second process that says it is a node that is here."""

    address: str
    hello: Hello
    until: float
    """Unless the first has answered by then, it is replaced."""
    question: int


class Rivals:
    """Those of all tasks: whoever is here is asked whether it is alive, one question however many want its place."""

    def __init__(self, answer_s: float) -> None:
        """
        Args:
            answer_s: How long the first has for its answer.
        """
        self.due = math.inf
        """When the next one is to be let in."""
        self._answer_s = answer_s
        self._of: dict[int, Rival] = {}
        self._questions = 0

    def __contains__(self, task: int) -> bool:
        return task in self._of

    def add(self, address: str, hello: Hello, now: float) -> int | None:
        """The question for the one that is here; None where it has been asked, and the latest start will be let in."""
        rival = self._of.get(hello.task)
        if rival is None:
            self._questions += 1
            self._of[hello.task] = Rival(address, hello, now + self._answer_s, self._questions)
            self._set_due()
            return self._questions
        if hello.incarnation > rival.hello.incarnation:
            self._of[hello.task] = rival._replace(address=address, hello=hello)
        return None

    def answered(self, task: int, question: int) -> Rival | None:
        """Who has to go, as the one that is here is alive; None where that answers nothing that is open."""
        rival = self._of.get(task)
        if rival is None or rival.question != question:
            return None
        del self._of[task]
        self._set_due()
        return rival

    def take_due(self, now: float, is_down: Callable[[int], bool]) -> list[Rival]:
        """Those to be let in, in task order: where the first has not answered in time, or its connection is lost."""
        tasks = sorted(task for task, rival in self._of.items() if now >= rival.until or is_down(task))
        taken = [self._of.pop(task) for task in tasks]
        self._set_due()
        return taken

    def _set_due(self) -> None:
        self.due = min((rival.until for rival in self._of.values()), default=math.inf)


class Keeper:
    """When a node takes snapshots, and up to which round the last one that was kept goes."""

    def __init__(self, settings: Checkpoints | None, *, durable: int = 0, at_end: bool = False) -> None:
        """
        Args:
            settings: None for a node that keeps none: all that it has closed counts as kept, as it never comes back.
            durable: The round of the snapshot that it goes on from.
            at_end: Whether the node had come to its end by then.
        """
        self.durable = durable
        self._has_end = self._takes_end = at_end
        self.active = settings is not None
        self.busy = False
        """A snapshot was taken and is not kept yet."""
        settings = settings or Checkpoints()
        # The other side learns of it only later, and may take its own turn then: so not at the last moment.
        self._every_rounds = min(settings.every_rounds or settings.history_rounds, max(1, settings.history_rounds // 4))
        self._every_s = settings.every_s
        self.most = settings.history_rounds
        self._last = self._taken = self.durable
        self._last_at = -math.inf

    def start(self, now: float) -> None:
        self._last_at = now

    def is_due(self, t: int, now: float) -> bool:
        """Whether to take one now that round t is closed."""
        if not self.active:
            self.durable = t
            return False
        return t - self._last >= self._every_rounds or now - self._last_at >= self._every_s

    def note_due(self, t: int, now: float) -> None:
        """One of round t is to be taken as soon as may be."""
        self._last, self._last_at = t, now

    def taken(self, t: int, *, at_end: bool = False) -> None:
        self.busy, self._taken, self._takes_end = True, t, at_end

    def kept(self) -> None:
        self.busy, self.durable = False, self._taken
        self._has_end = self._has_end or self._takes_end

    def has_end(self, t: int) -> bool:
        """Whether the end of a node whose last round is t is kept; where t is 0, by a snapshot that was taken there."""
        return self.durable >= t if t else self._has_end

    def lacks_end(self, t: int) -> bool:
        """Whether one is still to be taken of it."""
        return self.active and not self.has_end(t)

    def is_far(self, t: int) -> bool:
        """Whether a snapshot should no longer wait for anything."""
        return t - self.durable >= self.most // 2

    def is_too_far(self, t: int) -> bool:
        """Whether round t may not begin before more is kept."""
        return self.active and t - self.durable > self.most

    def believed(self, t: int, durable: int) -> int:
        """Up to which round another is taken to have kept what it has, that says so in round t.

        No node goes on for more than `history_rounds` without keeping (`is_too_far`): for who says that it does, no
        more than twice as many are kept here.
        """
        return max(durable, t - 2 * self.most)


class Tray:
    """What a node has to say and to tell, until the driver takes it."""

    state: Any
    """A state of its role, of `protocol.states`."""

    def __init__(self, checkpoints: Checkpoints | None = None, *, snapshot: Snapshot | None = None) -> None:
        durable, at_end = (0, False) if snapshot is None else (snapshot["round"], snapshot.get("ended", False))
        self._keeper = Keeper(checkpoints, durable=durable, at_end=at_end)
        self._holds = False
        self._outbox: list[Envelope] = []
        self._events: list[Event] = []
        self._times = bytearray()
        self.resends = 0
        """How often it has asked again."""
        self.waited_s = 0.0
        """For how long there was nothing else to do in the sync rounds closed so far."""

    def _enter(self, state: State) -> None:
        check_step(self.state, state)
        self.state = state

    def take_times(self) -> bytes:
        taken, self._times = bytes(self._times), bytearray()
        return taken

    def _note_times(self, t: int, said_s: float, idle_s: float, closed_s: float) -> None:
        self.waited_s += closed_s - idle_s
        self._times += _TIMES_ROW.pack(t, said_s, idle_s, closed_s)

    @property
    def holding(self) -> bool:
        return self._holds

    @property
    def durable_round(self) -> int:
        """The round up to which it would be again after a crash."""
        return self._keeper.durable

    def snapshot_kept(self, now: float) -> None:
        self._keeper.kept()
        self._holds = self._must_hold()

    def _must_hold(self) -> bool:
        """Whether nothing may be said before more is kept."""
        return False

    def take_outbox(self) -> list[Envelope]:
        if self._holds:
            return []
        taken, self._outbox = self._outbox, []
        return taken

    def take_events(self) -> list[Event]:
        taken, self._events = self._events, []
        return taken


def named(names: Sequence[str], tasks: Iterable[int]) -> str:
    """The tasks' names for a sentence: the first five, and how many more."""
    wanted = [names[task] for task in tasks]
    shown = ", ".join(wanted[:5])
    return f"{shown} and {len(wanted) - 5} more" if len(wanted) > 5 else shown


def earlier_start(name: str, known: int, its: int) -> str:
    """Why a node may not take its own place again: it has come without what it had."""
    return (
        f"{name} was here in its start {known}, and this is its start {its}: "
        "it can go on only in the folder that it had, or with a copy of that"
    )


class Asking:
    """The times at which a waiting node asks again: after `first` seconds, then doubling up to `cap`."""

    def __init__(self, first: float, cap: float) -> None:
        self._first, self._cap = first, cap
        self.due = math.inf
        self._pause = first

    def start(self, now: float) -> None:
        self._pause = self._first
        self.due = now + self._pause

    def ask(self, now: float) -> bool:
        """Whether it is time; if so the next time is set."""
        if now < self.due:
            return False
        self._pause = min(2 * self._pause, self._cap)
        self.due = now + self._pause
        return True

    def stop(self) -> None:
        self.due = math.inf

    @property
    def has_asked(self) -> bool:
        """Whether the wait that goes on has lasted for so long that it was asked."""
        return math.isfinite(self.due) and self._pause > self._first
