"""The peer: a worker that is the centre of its own neighborhood; it talks to its neighbors and to nobody else.

In every sync round of its own a peer says its word to the neighbors that will use it, and waits for the words of
theirs that count then (`Neighborhood` knows which). Its own half of the central step then gives the correction that
it uses from the next round on. Of equal tau, two neighbors that both go on are never more than one sync round apart
(two where the exchange is delayed), which bounds what is kept of either side; past a neighbor that has ended, or
without one that is absent, the other runs ahead freely.

After a crash a peer goes on from its last snapshot, and its neighbors say again what they have said since: so each
keeps its words until those who use them have kept (on disk) what they made of them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy.typing as npt

from drom_net.algorithms.base import IDLE, NO_REPLY, Contribution, ContributionKind, Reply
from drom_net.algorithms.features import Features, Vector, other_than
from drom_net.core.errors import ClusterError, RejectedError
from drom_net.graph.neighborhood import Neighborhood
from drom_net.learning.metrics import Totals
from drom_net.learning.records import TASK_DTYPE, central_dtype
from drom_net.learning.task import Centre, TaskLearner, TaskResult, Word
from drom_net.protocol.handshake import Identity
from drom_net.protocol.messages import (
    Farewell,
    Goodbye,
    Hello,
    Introduce,
    Message,
    Push,
    Reject,
    Resend,
    Welcome,
)
from drom_net.protocol.node import (
    NEAR,
    TIMES_DTYPE,
    Absent,
    Asking,
    CaughtUp,
    ConnectionChanged,
    Envelope,
    Joined,
    Late,
    Pace,
    Refused,
    Returned,
    Rivals,
    Snapshot,
    Stalled,
    Tray,
    Warned,
    at_once,
    earlier_start,
    named,
)
from drom_net.protocol.settings import WAIT, Checkpoints, Policy, Timeouts
from drom_net.protocol.states import PeerState

WORDS_KEPT = 4
"""Of a neighbor, at the most, beside the one that is waited for. With a delayed exchange a peer in sync round k waits
for the words of k - 1, and a neighbor that has its word of k may have said k + 2 already."""


_ENDED = " ended the run: "
_GONE = Contribution(ContributionKind.GONE)


def address_of(task: int) -> str:
    """Where a peer that this one connects to is addressed before it has said a word."""
    return f"peer-{task}"


@dataclass(slots=True)
class _Neighbor:
    """What a peer knows of one neighbor."""

    address: str
    """Where it speaks from; empty until a neighbor that connects to us has joined."""
    joined: bool = False
    spoke_at: float = -math.inf
    """When it was last heard of."""
    was_lost: bool = False
    """Its connection was lost before: it may have been started anew, and not know who we are."""
    down: bool = False
    """Its connection is lost now."""
    incarnation: int = 0
    """That of its Hello."""
    round: int = 0
    """The latest that it is known to have begun."""
    durable: int = 0
    """Up to which round it would be again after a crash."""
    durable_before: int = 0
    """The same, before it last said something new of that: it keeps two snapshots, and one may be damaged."""
    absent: bool = False
    """Nobody waits for it until it is back."""
    words: dict[int, Contribution] = field(default_factory=dict)
    """By sync round: what it said and was not used yet."""
    used: int = 0
    """The sync round of its word that was used last."""
    heard: int = 0
    """The latest of which there was a word."""
    last: int | None = None
    """The sync round of its last word, once that is known."""
    done: bool = False
    """Its goodbye has come: it needs nothing more."""
    is_kept: bool = False
    """And that is kept on disk."""
    confirmed: bool = False
    """It has all of our words that it needs."""
    give_up_at: float = math.inf
    """Its connection is down; if it stays so until then, the run is given up."""


class Peer(Tray):
    """One task as a node of a graph."""

    def __init__(
        self,
        learner: TaskLearner,
        centre: Centre,
        hello: Hello,
        *,
        names: Sequence[str],
        neighborhood: Neighborhood,
        identity: Identity,
        push_layout: tuple[int, ...],
        exchange: str,
        rounds: int | None,
        timeouts: Timeouts,
        policy: Policy = WAIT,
        pace: Pace = at_once,
        checkpoints: Checkpoints | None = None,
        snapshot: Snapshot | None = None,
    ) -> None:
        """
        Args:
            centre: Its own half of the central step, over its neighborhood.
            hello: What this peer says of itself.
            names: All tasks' names, in task order.
            neighborhood: Whom it talks to, and when. It connects to those before it; those behind it connect.
            exchange: "blocking", "overlap" or "delayed".
            rounds: The run's limit, if it has one.
            policy: What becomes of neighbors that do not come.
            pace: How long each example takes to come.
            checkpoints: When to take snapshots; None for never.
            snapshot: What an earlier incarnation has left, to go on from.
        """
        super().__init__(checkpoints, snapshot=snapshot)
        self.state = PeerState.JOINING
        self.result: TaskResult | None = None
        self.round = 0
        """The last round that was begun."""
        self.names = tuple(names)
        self._task = hello.task
        self._learner = learner
        self._centre = centre
        self._hello = hello
        self._identity = identity
        self._push_layout = push_layout
        self._exchange = exchange
        self.neighborhood = neighborhood
        self._sync = learner.algorithm.sync
        self._rounds = rounds
        self._last_word = self._sync.last_word(learner.last_round, rounds)
        self._timeouts = timeouts
        self._policy = policy
        self._pace = pace
        self._next_example_at = -math.inf
        self._neighbors = {
            task: _Neighbor(address_of(task) if task < self._task else "") for task in neighborhood.neighbors
        }
        self._task_at = {entry.address: task for task, entry in self._neighbors.items() if entry.address}
        self._said: dict[int, Word] = {}
        """By sync round: our own last words, to use and to say again."""
        self._untold: set[int] = set()
        """Those that only we use ourselves."""
        self._closed = 0
        """The last sync round whose words were used."""
        self.central_steps = 0
        """How many it has made since it was started."""
        self._wanted = 0
        """The sync round whose words this state waits for."""
        self._counting: dict[int, int] = {}
        """By neighbor: the sync round of its word that counts then."""
        self._missing: dict[int, int] = {}
        """Those of them that have not come."""
        self._predicted = False
        """The next round's first half is done already (exchange: overlap)."""
        self._asking = Asking(timeouts.resend_after_s, timeouts.resend_cap_s)
        self._stall = Asking(timeouts.stall_s, math.inf)
        self._since = self._idle_since = self._asked_at = 0.0
        self._now = 0.0
        self._give_up_at = self._first_lost_at = math.inf
        self._lost_all = ""
        """That it was started anew in the middle of a run, and cannot go on; empty where it was not."""
        self._told_so: set[int] = set()
        """Neighbors that have been told so."""
        self._deadline = math.inf
        self._restored = snapshot is not None
        self._redo_until = 0
        """Rounds that an earlier life may have closed."""
        self._rivals = Rivals(timeouts.duplicate_probe_s)
        self._due = False
        """A snapshot is to be taken, as soon as a round is closed."""
        self._between = True
        """No round is open: a snapshot may be taken."""
        self._ended = False
        self._owed: set[int] = set()
        """Neighbors whose goodbye will be answered once it is kept."""
        self._owed_now: set[int] = set()
        """Those of them that are in the snapshot that is being kept."""
        self._behind_from = self._behind_until = 0
        """Rounds that it makes up for."""
        self._passed: list[int] = []
        """Neighbors without whose word the open sync round is closed."""
        self._hold_until = 0
        """A round that was closed without somebody: nothing that follows from it is said before that is kept, for after
        a crash it might be closed with others."""
        self._forgotten = 0
        """Our latest word that is not kept any more."""
        self._forget_at = 2 * WORDS_KEPT
        """How many may be kept before all of them are looked through."""
        self._opened_until = 0
        """Rounds that neighbors have opened: a live stream without an example is idle in them."""
        if snapshot is not None:
            self._restore(snapshot)

    @property
    def finished(self) -> bool:
        return self.state is PeerState.FINISHED

    @property
    def max_vectors(self) -> int:
        return sum(self._push_layout)

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

    @property
    def num_connected(self) -> int:
        """How many neighbors are here."""
        return sum(neighbor.joined and not neighbor.down for neighbor in self._neighbors.values())

    @property
    def num_overdue(self) -> int:
        """How many neighbors it has waited for for longer than stall_s, or goes on without."""
        waits = self.state is not PeerState.STEPPING and self._stall.has_asked
        absent = [task for task, entry in self._neighbors.items() if entry.absent]
        return len({*absent, *(self._awaited()[0] if waits else ())})

    @property
    def run_id(self) -> str:
        return self._identity.run_id

    @property
    def central_chain(self) -> bytes:
        return self._centre.chain

    def task_at(self, address: str) -> int | None:
        """Which neighbor speaks from this address."""
        return self._task_at.get(address)

    def start(self, now: float) -> None:
        self._now = now
        self._keeper.start(now)
        self._wait(PeerState.JOINING, now)
        self._give_up_at = now + self._timeouts.join_s
        for task in self._neighbors:
            if task < self._task:
                self._say(task, self._introduction(task))
        if self.round == self._learner.last_round and self._keeper.has_end(self.round):
            # An earlier incarnation has said goodbye: some may be gone.
            self._say_goodbye(now)
        self._begin_if_all_are_here()

    def receive(self, sender: str, message: Message, now: float) -> None:
        self._now = now
        if isinstance(message, Hello) and message.answers:
            self._on_alive(sender, message.answers)
        elif isinstance(message, Hello):
            self._on_hello(sender, message)
        else:
            self._on_message(sender, message, now)

    def _on_message(self, sender: str, message: Message, now: float) -> None:
        task = self._task_at.get(sender)
        if task is None:
            self._outbox.append(Envelope(sender, Introduce()))
            self._events.append(Refused(sender, f"a {type(message).__name__} before a Hello"))
            return
        if isinstance(message, Welcome | Push | Resend | Goodbye):
            self._on_joined(task)  # it would not speak to us, had it not let us in: its Welcome may be lost
        self._neighbors[task].spoke_at = now
        match message:
            case Push():
                self._on_push(task, message)
            case Resend(round=t):
                if self._learner.is_live:
                    self._open(t)
                self._say_again(task, t)
                if self.state is PeerState.FINISHING:  # it is there, and not done: it will need more
                    self._give_up_at = now + self._linger_s
                    self._asking.start(now)
            case Introduce(question=question):
                # It was started anew, or somebody else says that it is this task.
                self._say(task, dataclasses.replace(self._introduction(task), answers=question))
            case Welcome(round=t):
                self._note_behind(t)
                self._note_round(task, t)
                self._remind(task)
            case Goodbye(rounds=last):
                self._on_goodbye(task, last)
            case Farewell():
                self._neighbors[task].confirmed = True
                self._finish_if_all_have_confirmed()
            case Reject(reason=reason):
                self._rejected(task, reason)
            case _:
                self._events.append(Refused(self.names[task], f"a {type(message).__name__} is nothing a peer says"))

    def on_timer(self, now: float) -> None:
        self._now = now
        if self.state is PeerState.STEPPING and self._begins_at <= now:
            self._step(now)
            return
        if self._may_go_ahead() and now >= self._next_example_at:
            # The next primal step needs no correction: it hides the exchange, and gives the same bits.
            self._learner.predict_first(self.round + 1)
            self._predicted = True
            self._idle_since = now
            return
        if now >= self._rivals.due:
            self._let_rivals_in()
        if now >= self._give_up_at:
            self._give_up()
            return
        for task, neighbor in self._neighbors.items():
            if now >= neighbor.give_up_at:
                if not self._policy.proceeds:
                    self._end_run(
                        f"lost {self.names[task]} in round {self.round}: "
                        f"disconnected for {self._timeouts.lost_s:g} s (timeouts.lost_s)"
                    )
                neighbor.give_up_at = math.inf
                self._first_lost_at = min(entry.give_up_at for entry in self._neighbors.values())
                self._go_on_without([task])
                if self.state is not PeerState.WAITING:
                    return
        if now >= self._deadline:
            self._events.append(Late(self.round, named(self.names, self._missing)))
            self._pass_over(list(self._missing))
            return
        if self.state is PeerState.STEPPING:
            return
        if self._asking.ask(now):
            self._ask()
            self.resends += 1
        if self._stall.ask(now):
            self._events.append(Stalled(self.round, self._waiting_for(), now - self._since))

    def took_until(self, now: float) -> None:
        if self.state is PeerState.WAITING:
            if self._since == self._now:
                self._since = now
            if self._idle_since == self._now:
                self._idle_since = now
        self._now = now

    def next_timer(self) -> float:
        if self.state is PeerState.STEPPING:
            if self._holds:
                return math.inf
            if (begins_at := self._begins_at) <= self._now:
                return self._now
            return min(begins_at, self._give_up_at, self._first_lost_at, self._rivals.due)
        ready = max(self._now, self._next_example_at) if self._may_go_ahead() else math.inf
        waits = (self._asking.due, self._stall.due, self._give_up_at, self._first_lost_at)
        return min(ready, *waits, self._deadline, self._rivals.due)

    def on_connection(self, address: str, connected: bool, now: float) -> None:
        task = self._task_at.get(address)
        if task is None:
            return
        neighbor = self._neighbors[task]
        neighbor.was_lost = neighbor.was_lost or not connected
        neighbor.down = not connected
        if not connected and task in self._rivals:
            self._let_rivals_in()
            return
        ours_done = self.state in (PeerState.FINISHING, PeerState.FINISHED)  # this wait has a bound of its own
        if ours_done:
            self._give_up_at = max(self._give_up_at, now + self._linger_s)
        if ours_done or not neighbor.joined:
            if connected and task < self._task and not self.finished:
                self._say(task, self._introduction(task))
            return
        if not connected and (
            neighbor.absent or (neighbor.last is not None and not self._not_come(task, neighbor.last))
        ):
            return  # we need nothing more of it, and once it is done it needs nothing more of us
        if connected == math.isinf(neighbor.give_up_at):
            return
        neighbor.give_up_at = math.inf if connected else now + self._timeouts.lost_s
        self._first_lost_at = min(entry.give_up_at for entry in self._neighbors.values())
        self._events.append(ConnectionChanged(self.names[task], connected))
        if connected and task < self._task:
            self._say(task, self._introduction(task))

    def stop(self) -> None:
        if self.state is PeerState.WAITING:
            self._learner.end(self.round)
            if self._predicted:  # the example of the next round has moved w already: it counts
                self.round += 1
                self._learner.then_update(self.round)
                self._learner.end(self.round)
        if self.result is None:
            self.result = self._learner.result()
        self.state = PeerState.FINISHED

    @property
    def row_types(self) -> dict[str, npt.DTypeLike]:
        """What the rows of its `records`, `central` and `times` are."""
        central = central_dtype(len(self.neighborhood.everybody))
        return {"records": TASK_DTYPE, "central": central, "times": TIMES_DTYPE}

    @property
    def recorded(self) -> dict[str, int]:
        """Where a snapshot may be taken, or was: the round of the last row of each."""
        # A central step goes by the round of its words: where the exchange is delayed, an earlier one than its own.
        return {"records": self.round, "central": self._closed, "times": self.round}

    def _introduction(self, task: int) -> Hello:
        first = next((t for t in self._said if self._is_told(task, t)), 0)
        return dataclasses.replace(self._hello, round=self.round, kept_from=first)

    def take_records(self) -> bytes:
        return self._learner.take_records()

    def take_central_records(self) -> bytes:
        """The rows of its own central steps since the last call, as records.central_dtype."""
        return self._centre.take_records()

    def take_snapshot(self) -> Snapshot | None:
        if not self._due or not self._between or self._keeper.busy:
            return None
        self._due = False
        self._keeper.note_due(self.round, self._now)
        self._keeper.taken(self.round, at_end=self._ended)
        self._owed_now, self._owed = self._owed, set()
        return {
            "round": self.round,
            "ended": self._ended,
            "closed": self._closed,
            "predicted": self._predicted,
            "said": dict(self._said),
            "learner": self._learner.snapshot(),
            "centre": self._centre.snapshot(),
            "durable": {task: (entry.durable, entry.durable_before) for task, entry in self._neighbors.items()},
            "neighbors": {
                task: (dict(entry.words), entry.used, entry.heard, entry.last, entry.done, entry.absent)
                for task, entry in self._neighbors.items()
            },
        }

    def snapshot_kept(self, now: float) -> None:
        self._now = now
        super().snapshot_kept(now)
        kept, self._owed_now = self._owed_now, set()
        for task in sorted(kept):
            self._confirm(task)
        self._finish_if_all_have_confirmed()

    def _must_hold(self) -> bool:
        if self._ended:
            return self._keeper.lacks_end(self.round)
        return self._keeper.active and self._keeper.durable < self._hold_until

    def _restore(self, snapshot: Snapshot) -> None:
        self.round, self._closed, self._predicted = snapshot["round"], snapshot["closed"], snapshot["predicted"]
        self._said = dict(snapshot["said"])
        self._learner.restore(snapshot["learner"])
        self._centre.restore(snapshot["centre"])
        for task, (durable, before) in snapshot["durable"].items():
            self._neighbors[task].durable, self._neighbors[task].durable_before = durable, before
        for task, (words, used, heard, last, done, absent) in snapshot["neighbors"].items():
            entry = self._neighbors[task]
            entry.words, entry.used, entry.heard, entry.last = dict(words), used, heard, last
            entry.done = entry.is_kept = done
            # At our own end it may not know yet that it has all of our words: it is told once more.
            entry.confirmed = done and self.round < self._learner.last_round
            entry.absent = absent
        self._forgotten = min(self._said, default=self.round + 1) - 1

    # Joining

    def _on_hello(self, sender: str, hello: Hello) -> None:
        me = self.names[self._task]
        reason = self._identity.disagreement(hello, self.names, me=me, feature_digest=self._identity.feature_digest)
        neighbor = self._neighbors.get(hello.task)
        if not reason and (neighbor is None or hello.task < self._task):
            reason = f"{self.names[hello.task]} is no neighbor that connects to {me}"
        if not reason and self._task_at.get(sender, hello.task) != hello.task:
            reason = f"it has joined as {self.names[self._task_at[sender]]} already"
        who = None
        if not reason and neighbor is not None and neighbor.address != sender:  # else it was said long ago, or again
            if self._is_earlier(hello, neighbor) and neighbor.down:
                reason = earlier_start(self.names[hello.task], neighbor.incarnation, hello.incarnation)
            elif self._is_earlier(hello, neighbor):
                reason = f"{self.names[hello.task]} is already here"
            elif (not neighbor.address or neighbor.down) and (who := self._started_anew(hello)) is not None:
                # Of who would take the place of one that is here nothing is believed before that one was asked.
                reason = (
                    f"{self.names[hello.task]} is in round {hello.round}, {me} in round {self.round}: "
                    f"{self.names[who]} was started anew, and what it had is lost"
                )
        if reason or neighbor is None:
            self._outbox.append(Envelope(sender, Reject(reason)))
            self._events.append(Refused(sender, reason))
            if who is not None:
                self._cannot_go_on(hello.task, reason, ours=who == self._task)
            return
        if neighbor.address not in ("", sender) and not neighbor.down:
            # Somebody is here already: is it alive?
            if (question := self._rivals.add(sender, hello, self._now)) is not None:
                self._say(hello.task, Introduce(question))
            return
        if neighbor.address not in ("", sender):  # the connection of an earlier incarnation
            del self._task_at[neighbor.address]
            neighbor.joined = False
            neighbor.give_up_at = math.inf
            self._first_lost_at = min(entry.give_up_at for entry in self._neighbors.values())
        neighbor.address, neighbor.incarnation, neighbor.down = sender, hello.incarnation, False
        self._task_at[sender] = hello.task
        self._say(hello.task, Welcome(self._identity.run_id, self.round))
        neighbor.round = 0  # it may have gone back; below it is noted anew
        if hello.round < neighbor.durable:  # it has nothing of what it had
            neighbor.durable = neighbor.durable_before = hello.round
        difference = self._identity.difference(hello, self.names[hello.task], me=me)
        if difference and not neighbor.joined:
            self._events.append(Warned(difference))
        self._on_joined(hello.task)
        self._note_behind(hello.round)
        self._note_round(hello.task, hello.round)
        self._remind(hello.task)

    def _on_alive(self, sender: str, question: int) -> None:
        """Who was here first is alive: the other one has to go."""
        task = self._task_at.get(sender)
        if task is not None and (rival := self._rivals.answered(task, question)) is not None:
            reason = f"{self.names[task]} is already here"
            self._outbox.append(Envelope(rival.address, Reject(reason)))
            self._events.append(Refused(rival.address, reason))

    def _let_rivals_in(self) -> None:
        """In the place of those who have not answered, or whose connection is lost."""
        for rival in self._rivals.take_due(self._now, lambda task: self._neighbors[task].down):
            self._neighbors[rival.hello.task].down = True
            self._on_hello(rival.address, rival.hello)

    def _is_earlier(self, hello: Hello, neighbor: _Neighbor) -> bool:
        """Whether a neighbor that says hello from another address has no right to take over from who has joined."""
        if not neighbor.address:
            return False
        if self._keeper.active:
            # Only where nodes come back with what they had may a later one take the place of one that is there.
            return hello.incarnation <= neighbor.incarnation
        return not neighbor.down

    def _comes_back(self, hello: Hello, neighbor: _Neighbor) -> bool:
        return hello.incarnation > neighbor.incarnation and self._keeper.active

    def _started_anew(self, hello: Hello) -> int | None:
        """Which of a neighbor that says hello and this peer has lost what it had; None where they can go on together.

        It was started anew without a snapshot: it would have to know, or to hear again, what is gone.
        """
        hood, neighbor = self.neighborhood, self._neighbors[hello.task]
        if self._policy.proceeds:
            return hello.task if hello.round < neighbor.durable_before else None  # other words are done without
        if (
            neighbor.address
            and not self._comes_back(hello, neighbor)
            and (neighbor.heard or neighbor.done or self._said)
        ):
            return hello.task  # another process, and words were said already
        if self._policy.may_miss:
            return None  # who is far behind does without the words that are no longer kept
        theirs = hood.syncs[hello.task]
        needed = self._first_needed(hello.task)
        if needed and hello.kept_from > needed:
            return self._task
        wanted = theirs.next(hello.round + 1)
        if neighbor.done or (neighbor.last is not None and wanted > neighbor.last):
            return None  # it will need no word of ours
        word = self._sync.last(wanted)  # delayed it needs an earlier one first, and then this one
        if word and word not in self._said and word < max(self._said, default=0) and self._is_told(hello.task, word):
            return hello.task
        return None

    def _first_needed(self, task: int) -> int:
        """The sync round of the first word of a neighbor that we have not got, as far as we know; 0 where there is
        none."""
        neighbor = self._neighbors[task]
        t = self._sync.next(self._closed + 1)
        while t <= self._learner.last_round:
            s = self._counts(task, t, neighbor.last)
            if s and s not in neighbor.words:
                return s
            if neighbor.last is not None and self.neighborhood.heard(task, t) >= neighbor.last:
                return 0
            t = self._sync.next(t + 1)
        return 0

    def _cannot_go_on(self, task: int, why: str, *, ours: bool) -> None:
        """A neighbor that was refused and this peer cannot go on together: one of them has lost what it had."""
        neighbor = self._neighbors[task]
        if ours and self.state is PeerState.JOINING:
            # Not at once: all that connect to us are told why, and need not wait for us until lost_s.
            if not self._lost_all:
                self._lost_all = why
                self._give_up_at = min(self._give_up_at, self._now + self._timeouts.linger_s)
            self._told_so.add(task)
            if all(other in self._told_so for other in self._neighbors if other > self._task):
                self._give_up()
        elif self.state is PeerState.FINISHING:
            neighbor.confirmed = True
            self._finish_if_all_have_confirmed()
        elif not ours and not neighbor.done and not self._policy.proceeds:
            self._end_run(why)

    def _on_joined(self, task: int) -> None:
        if self._neighbors[task].joined:
            return
        self._neighbors[task].joined = True
        self._events.append(Joined(task))
        self._begin_if_all_are_here()

    def _begin_if_all_are_here(self) -> None:
        if self.state is PeerState.JOINING and not self._not_joined():
            self._give_up_at = self._asking.due = math.inf
            self._enter(PeerState.STEPPING)
            self._note_times(self._sync.last(self.round), self._now, self._now, self._now)
            if not self._predicted:
                self._await_example()

    # Rounds

    def _step(self, now: float) -> None:
        if self.round == self._learner.last_round:
            self._say_goodbye(now)
            return
        if self._keeper.is_too_far(self.round + 1):
            self._due = self._due or not self._keeper.busy
            self._holds = True
            return
        self.round += 1
        self._between = False
        if not self._predicted:
            self._learner.predict_first(self.round)
        self._predicted = False
        if self._learner.is_live:  # it may have come to its end
            self._last_word = self._sync.last_word(self._learner.last_round, self._rounds)
        contribution = self._learner.then_update(self.round)
        if not self._sync.at(self.round):
            self._learner.end(self.round)
            self._await_example()
            self._close_round()
            return
        self._say_word(self.round, self._learner.word(contribution, self.round))
        self._wanted = self._sync.last(self.round - 1) if self._exchange == "delayed" else self.round
        self._wait(PeerState.WAITING, now)
        # What was closed before a crash is closed with the same again.
        redone = self.round <= self._redo_until
        self._deadline = math.inf if redone else now + self._policy.deadline_s
        self._look_for_words()
        self._idle_since = now
        if self._exchange == "overlap":
            self._await_example()
            if self._may_go_ahead():
                self._idle_since = math.inf
        self._close_round_if_complete()

    @property
    def _begins_at(self) -> float:
        """When the next round, or the goodbye, may begin; infinite where a live stream has no example yet."""
        t = self.round + 1
        if t <= self._opened_until:
            return -math.inf
        if self._learner.is_ready(t) or self._predicted or self.round == self._learner.last_round:
            return self._next_example_at
        return math.inf

    def _open(self, t: int) -> None:
        """A neighbor is in round t: whoever has no example is idle until then."""
        # Who meets in each sync round is one apart at the most; others as far as until they meet again. One that was
        # done without may be anywhere.
        hood = self.neighborhood
        apart = 4 * len(hood.cycle) * max(sync.tau for sync in hood.syncs.values())
        if self._policy.may_miss or t <= self.round + apart:
            self._opened_until = max(self._opened_until, t)

    def _await_example(self) -> None:
        """From now on the next one may come."""
        self._next_example_at = -math.inf
        if self.round < self._learner.last_round:
            self._next_example_at = self._now + self._pace(self.round + 1)

    def _say_word(self, t: int, word: Word) -> None:
        self._said[t] = word
        if not any(self._is_told(task, t) for task in self._neighbors):
            self._untold.add(t)
        if len(self._said) > WORDS_KEPT:
            self._forget_words(t)
        # News of this very round are news to all.
        to_all = Push(t, word.news, self._keeper.durable) if word.since >= t and not word.listeners else None
        for task, neighbor in self._neighbors.items():
            if (neighbor.last is None or neighbor.last >= t) and self._is_told(task, t):
                self._say(task, to_all or self._push(task, t))

    def _push(self, task: int, t: int) -> Push:
        word = self._said[t].to(task, self.neighborhood.told_before(task, t))
        return Push(t, word, self._keeper.durable)

    def _is_told(self, task: int, t: int) -> bool:
        return t == self._last_word or self.neighborhood.tells(task, t)

    def _say_again(self, task: int, t: int) -> None:
        """A neighbor asks for a word, perhaps for one behind our last, which it does not know to be that."""
        if self._last_word is not None and t > self._last_word:
            t = self._last_word
        self._note_round(task, t)
        if not self._is_told(task, t):
            return
        if t in self._said:
            self._say(task, self._push(task, t))
        elif self._policy.may_miss and t <= self._forgotten:
            self._say(task, Push(t, _GONE, self._keeper.durable))

    def _forget_words(self, t: int) -> None:
        """Keep what we still use ourselves, and what a neighbor may still ask for.

        A neighbor that would be again in its round d after a crash waits for the words that count in its next sync
        round then (where the exchange is delayed: in the one before), and has used all that counted before; after its
        last one it asks for no later ones.
        """
        asked: list[tuple[int, int, float]] = []
        for task, entry in self._neighbors.items():
            if not entry.done:
                syncs = self.neighborhood.syncs[task]
                theirs = syncs.next(entry.durable_before + 1)
                if self._exchange == "delayed":
                    theirs = syncs.last(theirs - 1)
                asked.append((task, self._sync.last(theirs), math.inf if entry.last is None else entry.last))
        ours = self._sync.last(t - 1)
        for old in [old for old in self._untold if old < ours]:
            self._untold.discard(old)
            self._said.pop(old, None)
        too_many = len(self._said) - self._keeper.most if self._policy.may_miss else 0
        look_at_all = len(self._said) >= self._forget_at
        gone: list[int] = []
        for old in self._said:
            if old >= ours:
                break  # they are in order
            if old == self._last_word:
                continue
            if len(gone) >= too_many and any(
                first <= old <= last and self.neighborhood.tells(task, old) for task, first, last in asked
            ):
                if not look_at_all:
                    break  # what is kept is often long, and later ones are seldom kept for nothing
                continue
            gone.append(old)
        for old in gone:
            del self._said[old]
            self._forgotten = max(self._forgotten, old)
        if look_at_all:
            self._forget_at = 2 * max(WORDS_KEPT, len(self._said))

    def _on_push(self, task: int, push: Push) -> None:
        neighbor, t, contribution = self._neighbors[task], push.round, push.contribution
        durable = self._keeper.believed(t, push.durable)
        if durable > neighbor.durable:
            neighbor.durable_before, neighbor.durable = neighbor.durable, durable
        if contribution.kind is ContributionKind.GONE:
            if self._policy.may_miss and self._missing.get(task) == t:
                self._pass_over([task])
            return
        neighbor.round = max(neighbor.round, t)
        if neighbor.absent and t + NEAR * self.neighborhood.syncs[task].tau >= self.round:
            neighbor.absent = False
            self._events.append(Returned(task, self.names[task], self.round))
        if t <= neighbor.used or t in neighbor.words:
            return  # a push that was sent twice, or that came too late
        syncs = self.neighborhood.syncs[task]
        expected = syncs.at(t) and (contribution.last or self.neighborhood.hears(task, t))
        if not expected or (neighbor.last is not None and t > neighbor.last):
            self._events.append(Refused(self.names[task], f"a push for round {t}, in which it has nothing to say"))
            return
        if len(neighbor.words) >= WORDS_KEPT and self._missing.get(task) != t:
            if self._policy.may_miss:
                return  # we are far behind, and will ask for it when we get there
            self._events.append(Refused(self.names[task], f"a push for round {t}; we are at round {self.round}"))
            return
        vectors = contribution.vectors
        if vectors and (wrong := other_than(self._push_layout, vectors, self._identity.dim)):
            self._events.append(Refused(self.names[task], f"a push of {wrong}"))
            return
        neighbor.words[t] = contribution
        neighbor.heard = max(neighbor.heard, t)
        if self._learner.is_live:
            self._open(t)
        if contribution.last:
            neighbor.last = t
            self._look_for_words()
            if self.state is not PeerState.WAITING:
                return
        elif self._missing.get(task) == t:
            del self._missing[task]
        self._close_round_if_complete()

    def _counts(self, task: int, t: int, last: int | None) -> int:
        """The sync round of a neighbor's word that is new, and counts in our sync round t; 0 where none is."""
        s = self.neighborhood.heard(task, t, last)
        return s if s > self._neighbors[task].used else 0

    def _look_for_words(self) -> None:
        """Which words count in the wanted sync round, and which of them have not come."""
        self._counting.clear()
        self._missing.clear()
        if self.state is not PeerState.WAITING or not self._wanted:
            return
        for task, neighbor in self._neighbors.items():
            if s := self._counts(task, self._wanted, neighbor.last):
                self._counting[task] = s
                if s not in neighbor.words:
                    self._missing[task] = s
        for task in [task for task in self._missing if self._neighbors[task].absent]:
            self._leave_out(task)
        for task, s in self._missing.items():
            if s <= self._neighbors[task].round:  # it has said it already, and not to us
                self._say(task, Resend(s))

    def _leave_out(self, task: int) -> None:
        """Go on without the word of a neighbor that counts now."""
        self._passed.append(task)
        neighbor, s = self._neighbors[task], self._counting.pop(task)
        neighbor.used = s
        for old in [t for t in neighbor.words if t <= s]:
            del neighbor.words[old]
        del self._missing[task]

    def _pass_over(self, tasks: list[int]) -> None:
        for task in tasks:
            self._leave_out(task)
        self._close_round_if_complete()

    def _go_on_without(self, tasks: list[int]) -> None:
        """Policy proceed: these are waited for no more, until they are back."""
        for task in tasks:
            neighbor = self._neighbors[task]
            if not neighbor.done:
                neighbor.absent = True
                self._events.append(Absent(task, self.names[task], self.round))
        self._pass_over([task for task in tasks if task in self._missing])

    def _note_behind(self, t: int) -> None:
        """Whoever joins finds that the others are further, as after a crash."""
        if (
            self._restored and t >= self.round
        ):  # we had no word of theirs that they had not said, but for one more round
            self._redo_until = max(self._redo_until, self._sync.next(t + 1))
        if t > self._sync.next(self._sync.next(self.round + 1) + 1):
            if not self._behind_until:
                self._behind_from = self.round
            self._behind_until = max(self._behind_until, t)

    def _note_round(self, task: int, t: int) -> None:
        """A neighbor is known to be in round t at least."""
        neighbor = self._neighbors[task]
        if t <= neighbor.round:
            return
        neighbor.round = t
        s = self._missing.get(task)
        if s is not None and s <= t:
            self._say(task, Resend(s))

    def _not_come(self, task: int, last: int) -> list[int]:
        """A neighbor's sync rounds up to its last one whose words we will use and have not got: the first few."""
        if self.state in (PeerState.FINISHING, PeerState.FINISHED):
            return []
        missing: dict[int, None] = {}
        t = self._sync.next(self._closed + 1)
        while t <= self._learner.last_round and len(missing) <= WORDS_KEPT:
            s = self._counts(task, t, last)
            if s and s not in self._neighbors[task].words:
                missing[s] = None
            if self.neighborhood.heard(task, t) >= last:
                break
            t = self._sync.next(t + 1)
        return list(missing)

    def _close_round_if_complete(self) -> None:
        if self.state is not PeerState.WAITING:
            return
        t = self._wanted
        if not t:  # delayed: nothing has been said before
            self._end_round(NO_REPLY)
            return
        if self._missing:
            return
        heard = {self._task: self._said[t].to(self._task, self.neighborhood.told_before(self._task, t))}
        for task, s in self._counting.items():
            neighbor = self._neighbors[task]
            heard[task] = neighbor.words.pop(s)
            neighbor.used = s
        self._closed = t
        self.central_steps += 1
        absent, self._passed = sorted(self._passed), []
        if absent and self._keeper.active:
            self._hold_until = self.round
            self._due = self._holds = True
        replies = self._centre.reduce(t, dict(sorted(heard.items())), self.neighborhood.members(t), absent)
        self._end_round(replies[self._task])

    def _end_round(self, reply: Reply) -> None:
        self._learner.end(self.round, reply)
        self._note_times(self.round, self._since, min(self._idle_since, self._now), self._now)
        self._enter(PeerState.STEPPING)
        self._deadline = math.inf
        if self._exchange != "overlap":
            self._await_example()
        self._close_round()
        if self.round >= self._behind_until > 0:
            self._events.append(CaughtUp(self.round, self.round - self._behind_from))
            self._behind_until = 0

    def _close_round(self) -> None:
        """From here one may go on after a crash."""
        self._between = True
        if self._keeper.is_due(self.round, self._now):
            self._due = True

    def _may_go_ahead(self) -> bool:
        return (
            self.state is PeerState.WAITING
            and self._exchange == "overlap"
            and not self._predicted
            and self._learner.is_ready(self.round + 1)
            and self.round < self._learner.last_round
        )

    # Finishing

    def _say_goodbye(self, now: float) -> None:
        self.result = self._learner.result()
        self._note_times(self.round, now, now, now)
        if self._last_word is not None and self._last_word > self.round:
            self._say_word(self._last_word, self._learner.word(IDLE._replace(last=True), self._last_word))
        self._ended = self._between = True
        self._due = self._due or self._keeper.lacks_end(self.round)
        self._holds = self._must_hold()
        self._wait(PeerState.FINISHING, now)
        self._give_up_at = now + self._linger_s
        for task, neighbor in self._neighbors.items():
            neighbor.give_up_at = self._first_lost_at = math.inf  # this wait has a bound of its own
            if not neighbor.confirmed:
                self._say(task, self._goodbye())
        self._finish_if_all_have_confirmed()

    @property
    def _linger_s(self) -> float:
        """How long to wait for neighbors once all is done; one that is started again will need our last words."""
        down = any(entry.down and not entry.confirmed and not entry.absent for entry in self._neighbors.values())
        return max(self._timeouts.linger_s, self._timeouts.lost_s) if down else self._timeouts.linger_s

    def _goodbye(self) -> Goodbye:
        assert self.result is not None
        last = self._sync.last(self.round) if self._last_word is None else self._last_word
        return Goodbye(last, self.result.chain, self.result.totals)

    def _remind(self, task: int) -> None:
        """A neighbor that was started anew has not heard our goodbye, nor perhaps the words before it."""
        if self.state is PeerState.FINISHING and not self._neighbors[task].confirmed:
            self._say(task, self._goodbye())

    def _on_goodbye(self, task: int, last: int) -> None:
        neighbor = self._neighbors[task]
        if missing := self._not_come(task, last):
            # Its goodbye was faster than its last words, or they were lost: once we confirm it, it may be gone.
            for t in missing:
                self._say(task, Resend(t))
            return
        if neighbor.last is None:
            neighbor.last = last
            self._look_for_words()
        neighbor.done = neighbor.confirmed = True  # who needs nothing more need not confirm our goodbye: it may be gone
        if self._keeper.active and not neighbor.is_kept:
            if task not in self._owed_now:
                self._owed.add(task)  # once it is gone it cannot be asked again
                self._due = True
        else:
            self._confirm(task)
        self._close_round_if_complete()
        self._finish_if_all_have_confirmed()

    def _confirm(self, task: int) -> None:
        self._neighbors[task].is_kept = True
        self._say(task, Farewell())

    def _finish_if_all_have_confirmed(self) -> None:
        if (
            self.state is PeerState.FINISHING
            and not self._owed
            and not self._owed_now
            and not self._holds
            and all(
                entry.confirmed or (entry.absent and (entry.down or not entry.joined))
                for entry in self._neighbors.values()
            )
        ):
            self._enter(PeerState.FINISHED)

    # Waiting, and trouble

    def _say(self, task: int, message: Message) -> None:
        if address := self._neighbors[task].address:  # else it connects to us, and has not done so again yet
            self._outbox.append(Envelope(address, message))

    def _wait(self, state: PeerState, now: float) -> None:
        self._enter(state)
        self._since = self._asked_at = now
        self._asking.start(now)
        self._stall.start(now)

    def _ask(self) -> None:
        """Ask for what this state waits for."""
        for task, neighbor in self._neighbors.items():
            silent = not neighbor.joined or (neighbor.was_lost and neighbor.spoke_at < self._asked_at)
            if task < self._task and silent and not neighbor.done and self.state is not PeerState.FINISHING:
                self._say(task, self._introduction(task))
            else:
                self._remind(task)
        if self.state is PeerState.WAITING:
            for task, s in self._missing.items():
                self._say(task, Resend(s))
        self._asked_at = self._now

    def _waiting_for(self) -> str:
        tasks, what = self._awaited()
        return named(self.names, tasks) + what

    def _awaited(self) -> tuple[list[int], str]:
        """(neighbors that it waits for now, what they are to do)."""
        if self.state is PeerState.JOINING:
            return self._not_joined(), " to join"
        if self.state is PeerState.WAITING:
            return list(self._missing), ""
        return [task for task, neighbor in self._neighbors.items() if not neighbor.confirmed], " to confirm"

    def _not_joined(self) -> list[int]:
        wanted = {task: entry for task, entry in self._neighbors.items() if not entry.done and not entry.absent}
        return [task for task, entry in wanted.items() if not entry.joined]

    def _rejected(self, task: int, reason: str) -> None:
        if self.state is PeerState.JOINING and not self._neighbors[task].joined:
            raise RejectedError(f"{self.names[task]} does not let this peer in: {reason}")
        if self.state is not PeerState.FINISHING:
            # Of a long way from peer to peer the first one is named.
            self._end_run(reason if _ENDED in reason else f"{self.names[task]}{_ENDED}{reason}")
        self._neighbors[task].confirmed = True
        self._finish_if_all_have_confirmed()

    def _give_up(self) -> None:
        if self._lost_all:
            self._end_run(self._lost_all)
        if self.state is PeerState.JOINING and self._policy.proceeds and not self._lost_all:
            self._go_on_without(self._not_joined())
            self._begin_if_all_are_here()
            return
        if self.state is PeerState.JOINING:
            missing = named(self.names, self._not_joined())
            self._end_run(f"{missing} did not join within {self._timeouts.join_s:g} s (timeouts.join_s)")
        self._events.append(
            Warned(f"no confirmation of the goodbye within {self._linger_s:g} s: {self._waiting_for()}")
        )
        self._enter(PeerState.FINISHED)

    def _end_run(self, why: str) -> None:
        self._tell_all(why)
        raise ClusterError(f"the run is given up: {why}")

    def _tell_all(self, why: str) -> None:
        for task, neighbor in self._neighbors.items():
            if neighbor.joined and not neighbor.confirmed:
                self._say(task, Reject(why))
