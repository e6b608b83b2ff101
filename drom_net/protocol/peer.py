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

from drom_net.algorithms.base import IDLE, NO_REPLY, Contribution, ContributionKind, Reply, SyncRounds
from drom_net.algorithms.features import Features, Vector, other_than
from drom_net.core.errors import ClusterError, RejectedError
from drom_net.graph.neighborhood import Neighborhood
from drom_net.learning.metrics import Totals
from drom_net.learning.records import TASK_DTYPE, central_dtype
from drom_net.learning.task import Centre, TaskLearner, TaskResult, Word
from drom_net.protocol.arrivals import Arrivals
from drom_net.protocol.barrier import KEPT_AHEAD, Barrier
from drom_net.protocol.catch_up import CatchUp
from drom_net.protocol.handshake import Identity
from drom_net.protocol.history import Asker, ContributionHistory, Watermark
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
    ConnectionChanged,
    Envelope,
    Joined,
    Late,
    NodeBase,
    Pace,
    Refused,
    Returned,
    Snapshot,
    Stalled,
    Warned,
    at_once,
    named,
)
from drom_net.protocol.session import Member, Session
from drom_net.protocol.settings import WAIT, Checkpoints, Policy, Timeouts
from drom_net.protocol.states import PeerState
from drom_net.protocol.timers import Wait

_ENDED = " ended the run: "
_GONE = Contribution(ContributionKind.GONE)


def address_of(task: int) -> str:
    """Where a peer that this one connects to is addressed before it has said a word."""
    return f"peer-{task}"


@dataclass(slots=True)
class Neighbor(Member):
    """What a peer knows of one neighbor."""

    joined: bool = False
    spoke_at: float = -math.inf
    """When it was last heard of."""
    was_lost: bool = False
    """Its connection was lost before: it may have been started anew, and not know who we are."""
    absent: bool = False
    """Nobody waits for it until it is back."""
    contributions: dict[int, Contribution] = field(default_factory=dict)
    """By sync round: what came and was not used yet."""
    used: int = 0
    """The sync round of its contribution that was used last."""
    heard: int = 0
    """The latest of which there was one."""
    last: int | None = None
    """The sync round of its last one, once that is known."""
    done: bool = False
    """Its goodbye has come: it needs nothing more."""
    is_kept: bool = False
    """And that is kept on disk."""
    confirmed: bool = False
    """It has all of our contributions that it needs."""


class Peer(NodeBase):
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
        members = {
            task: Neighbor(address_of(task), connects=False) if task < hello.task else Neighbor()
            for task in neighborhood.neighbors
        }
        self.session: Session[Neighbor] = Session(
            members, names, identity, me=names[hello.task], answer_s=timeouts.duplicate_probe_s
        )
        self._learner = learner
        self._centre = centre
        self._hello = hello
        self._push_layout = push_layout
        self._exchange = exchange
        self.neighborhood = neighborhood
        self._rounds = rounds
        self._timeouts = timeouts
        self._policy = policy
        self._arrivals = Arrivals(learner, pace)
        self.history = ContributionHistory(neighborhood, kept_for_each=KEPT_AHEAD)
        self.history.last = learner.algorithm.sync.last_word(learner.last_round, rounds)
        self.barrier = Barrier(neighborhood, members)
        self._predicted = False
        """The next round's first half is done already (exchange: overlap)."""
        self._waiting = Wait(timeouts)
        self._now = 0.0
        self._give_up_at = math.inf
        self._catch_up = CatchUp(restored=snapshot is not None)
        self._ended = False
        if snapshot is not None:
            self._restore(snapshot)

    @property
    def _task(self) -> int:
        return self.neighborhood.task

    @property
    def _sync(self) -> SyncRounds:
        return self._learner.algorithm.sync

    @property
    def names(self) -> tuple[str, ...]:
        """All tasks', in task order."""
        return self.session.names

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
        return sum(neighbor.joined and not neighbor.down for neighbor in self.session.members.values())

    @property
    def num_overdue(self) -> int:
        """How many neighbors it has waited for for longer than stall_s, or goes on without."""
        waits = self.state is not PeerState.STEPPING and self._waiting.stall.has_asked
        absent = [task for task, entry in self.session.members.items() if entry.absent]
        return len({*absent, *(self._awaited()[0] if waits else ())})

    @property
    def central_steps(self) -> int:
        """How many it has made since it was started."""
        return self.barrier.num_closed

    @property
    def run_id(self) -> str:
        return self.session.identity.run_id

    @property
    def central_chain(self) -> bytes:
        return self._centre.chain

    def task_at(self, address: str) -> int | None:
        """Which neighbor speaks from this address."""
        return self.session.task_at.get(address)

    def start(self, now: float) -> None:
        self._now = now
        self.durability.start(now)
        self._wait(PeerState.JOINING, now)
        self._give_up_at = now + self._timeouts.join_s
        for task in self.session.members:
            if task < self._task:
                self._say(task, self._introduction(task))
        if self.round == self._learner.last_round and self.durability.has_end(self.round):
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
        task = self.session.task_at.get(sender)
        if task is None:
            self._outbox.append(Envelope(sender, Introduce()))
            self._events.append(Refused(sender, f"a {type(message).__name__} before a Hello"))
            return
        if isinstance(message, Welcome | Push | Resend | Goodbye):
            self._on_joined(task)  # it would not speak to us, had it not let us in: its Welcome may be lost
        self.session.members[task].spoke_at = now
        match message:
            case Push():
                self._on_push(task, message)
            case Resend(round=t):
                if self._learner.is_live:
                    self._open(t)
                self._say_again(task, t)
                if self.state is PeerState.FINISHING:  # it is there, and not done: it will need more
                    self._give_up_at = now + self._linger_s
                    self._waiting.retry.start(now)
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
                self.session.members[task].confirmed = True
                self._finish_if_all_have_confirmed()
            case Reject(reason=reason):
                self._rejected(task, reason)
            case _:
                self._events.append(
                    Refused(self.session.names[task], f"a {type(message).__name__} is nothing a peer says")
                )

    def on_timer(self, now: float) -> None:
        self._now = now
        if self.state is PeerState.STEPPING and self._begins_at <= now:
            self._step(now)
            return
        if self._may_go_ahead() and now >= self._arrivals.next_at:
            # The next primal step needs no correction: it hides the exchange, and gives the same bits.
            self._learner.predict_first(self.round + 1)
            self._predicted = True
            self._waiting.idle_since = now
            return
        if now >= self.session.probe.due:
            self._let_rivals_in()
        if now >= self._give_up_at:
            self._give_up()
            return
        for task in self.session.take_lost(now):
            if not self._policy.proceeds:
                self._end_run(
                    f"lost {self.session.names[task]} in round {self.round}: "
                    f"disconnected for {self._timeouts.lost_s:g} s (timeouts.lost_s)"
                )
            self._go_on_without([task])
        if now >= self.barrier.deadline:
            self._events.append(Late(self.round, named(self.session.names, self.barrier.missing)))
            self._pass_over(list(self.barrier.missing))
            return
        if self.state is PeerState.STEPPING:
            return
        if self._waiting.retry.ask(now):
            self._ask()
            self.resends += 1
        if self._waiting.stall.ask(now):
            self._events.append(Stalled(self.round, self._waiting_for(), now - self._waiting.since))

    def took_until(self, now: float) -> None:
        if self.state is PeerState.WAITING:
            self._waiting.busy_until(self._now, now)
        self._now = now

    def next_timer(self) -> float:
        if self.state is PeerState.STEPPING:
            if self._holds:
                return math.inf
            if (begins_at := self._begins_at) <= self._now:
                return self._now
            return min(begins_at, self._give_up_at, self.session.first_lost_at, self.session.probe.due)
        ready = max(self._now, self._arrivals.next_at) if self._may_go_ahead() else math.inf
        waits = (self._waiting.due, self._give_up_at, self.session.first_lost_at)
        return min(ready, *waits, self.barrier.deadline, self.session.probe.due)

    def on_connection(self, address: str, connected: bool, now: float) -> None:
        task = self.session.task_at.get(address)
        if task is None:
            return
        neighbor = self.session.members[task]
        neighbor.was_lost = neighbor.was_lost or not connected
        neighbor.down = not connected
        if not connected and task in self.session.probe:
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
        if connected == (task not in self.session.lost_until):
            return
        if connected:
            del self.session.lost_until[task]
        else:
            self.session.lost_until[task] = now + self._timeouts.lost_s
        self._events.append(ConnectionChanged(self.session.names[task], connected))
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
        return {"records": self.round, "central": self.barrier.closed, "times": self.round}

    def _introduction(self, task: int) -> Hello:
        return dataclasses.replace(self._hello, round=self.round, kept_from=self.history.first_for(task))

    def take_records(self) -> bytes:
        return self._learner.take_records()

    def take_central_records(self) -> bytes:
        """The rows of its own central steps since the last call, as records.central_dtype."""
        return self._centre.take_records()

    def take_snapshot(self) -> Snapshot | None:
        if not self.durability.due or self.state is PeerState.WAITING or self.durability.busy:
            return None
        self.durability.taken(self.round, at_end=self._ended)
        return {
            "round": self.round,
            "ended": self._ended,
            "closed": self.barrier.closed,
            "predicted": self._predicted,
            "said": dict(self.history.contributions),
            "learner": self._learner.snapshot(),
            "centre": self._centre.snapshot(),
            "durable": {
                task: (entry.durable.latest, entry.durable.before) for task, entry in self.session.members.items()
            },
            "neighbors": {
                task: (dict(entry.contributions), entry.used, entry.heard, entry.last, entry.done, entry.absent)
                for task, entry in self.session.members.items()
            },
        }

    def snapshot_kept(self, now: float) -> None:
        self._now = now
        super().snapshot_kept(now)
        self._finish_if_all_have_confirmed()

    def _must_hold(self) -> bool:
        if self._ended:
            return self.durability.lacks_end(self.round)
        return self.durability.holds

    def _restore(self, snapshot: Snapshot) -> None:
        self.round, self.barrier.closed, self._predicted = snapshot["round"], snapshot["closed"], snapshot["predicted"]
        self.history.restore(snapshot["said"], self.round)
        self._learner.restore(snapshot["learner"])
        self._centre.restore(snapshot["centre"])
        for task, (durable, before) in snapshot["durable"].items():
            self.session.members[task].durable = Watermark(durable, before)
        for task, (contributions, used, heard, last, done, absent) in snapshot["neighbors"].items():
            entry = self.session.members[task]
            entry.contributions, entry.used, entry.heard, entry.last = dict(contributions), used, heard, last
            entry.done = entry.is_kept = done
            # At our own end it may not know yet that it has all of our words: it is told once more.
            entry.confirmed = done and self.round < self._learner.last_round
            entry.absent = absent

    # Joining

    def _on_hello(self, sender: str, hello: Hello) -> None:
        refusal = self.session.refusal(
            sender,
            hello,
            feature_digest=self.session.identity.feature_digest,
            round=self.round,
            come_back=self.durability.active,
            lost=self._lost_what_it_had,
        )
        if refusal is not None:
            self._reject(sender, refusal.reason)
            if refusal.lost:
                self._cannot_go_on(hello.task, refusal.reason, ours=refusal.lost == self.session.me)
        elif (questions := self.session.question(sender, hello, self._now)) is not None:
            self._outbox += questions  # is the one that is here already alive?
        else:
            self._let_in(sender, hello)

    def _reject(self, sender: str, reason: str) -> None:
        self._outbox.append(Envelope(sender, Reject(reason)))
        self._events.append(Refused(sender, reason))

    def _let_in(self, sender: str, hello: Hello) -> None:
        neighbor, name = self.session.members[hello.task], self.session.names[hello.task]
        if neighbor.address not in ("", sender):  # the connection of an earlier incarnation
            neighbor.joined = False
        self.session.admit(sender, hello)
        self._say(hello.task, Welcome(self.session.identity.run_id, self.round))
        neighbor.round = 0  # it may have gone back; below it is noted anew
        neighbor.durable.lower_to(hello.round)  # below it, it has nothing of what it had
        difference = self.session.identity.difference(hello, name, me=self.session.me)
        if difference and not neighbor.joined:
            self._events.append(Warned(difference))
        self._on_joined(hello.task)
        self._note_behind(hello.round)
        self._note_round(hello.task, hello.round)
        self._remind(hello.task)

    def _on_alive(self, sender: str, question: int) -> None:
        if (has_to_go := self.session.answered(sender, question)) is not None:
            self._reject(*has_to_go)

    def _let_rivals_in(self) -> None:
        for sender, hello in self.session.replaced(self._now):
            self._on_hello(sender, hello)

    def _lost_what_it_had(self, hello: Hello) -> str | None:
        """Which of a neighbor that says hello and this peer has lost what it had; None where they can go on together.

        It was started anew without a snapshot: it would have to know, or to hear again, what is gone.
        """
        hood, neighbor, name = self.neighborhood, self.session.members[hello.task], self.session.names[hello.task]
        if self._policy.proceeds:
            return name if hello.round < neighbor.durable.before else None  # other contributions are done without
        comes_back = hello.incarnation > neighbor.incarnation and self.durability.active
        has_met = neighbor.heard or neighbor.done or self.history.contributions
        if neighbor.address and not comes_back and has_met:
            return name  # another process, and contributions were sent already
        if self._policy.may_miss:
            return None  # who is far behind does without those that are no longer kept
        theirs = hood.syncs[hello.task]
        needed = self.barrier.first_needed(hello.task, self._learner.last_round)
        if needed and hello.kept_from > needed:
            return self.session.me
        wanted = theirs.next(hello.round + 1)
        if neighbor.done or (neighbor.last is not None and wanted > neighbor.last):
            return None  # it will need none of ours
        t = self._sync.last(wanted)  # delayed it needs an earlier one first, and then this one
        kept = self.history.contributions
        if t and t not in kept and t < max(kept, default=0) and self.history.is_for(hello.task, t):
            return name
        return None

    def _cannot_go_on(self, task: int, why: str, *, ours: bool) -> None:
        """A neighbor that was refused and this peer cannot go on together: one of them has lost what it had."""
        neighbor = self.session.members[task]
        if ours and self.state is PeerState.JOINING:
            # Not at once: all that connect to us are told why, and need not wait for us until lost_s.
            if self.session.tell_lost(task, why):
                self._give_up_at = min(self._give_up_at, self._now + self._timeouts.linger_s)
            if all(map(self.session.knows_lost, (other for other in self.session.members if other > self._task))):
                self._give_up()
        elif self.state is PeerState.FINISHING:
            neighbor.confirmed = True
            self._finish_if_all_have_confirmed()
        elif not ours and not neighbor.done and not self._policy.proceeds:
            self._end_run(why)

    def _on_joined(self, task: int) -> None:
        if self.session.members[task].joined:
            return
        self.session.members[task].joined = True
        self._events.append(Joined(task))
        self._begin_if_all_are_here()

    def _begin_if_all_are_here(self) -> None:
        if self.state is PeerState.JOINING and not self._not_joined():
            self._give_up_at = self._waiting.retry.due = math.inf
            self._enter(PeerState.STEPPING)
            self._note_times(self._sync.last(self.round), self._now, self._now, self._now)
            if not self._predicted:
                self._await_example()

    # Rounds

    def _step(self, now: float) -> None:
        if self.round == self._learner.last_round:
            self._say_goodbye(now)
            return
        if self.durability.is_too_far(self.round + 1):
            self.durability.due = self.durability.due or not self.durability.busy
            self._holds = True
            return
        self.round += 1
        if not self._predicted:
            self._learner.predict_first(self.round)
        self._predicted = False
        if self._learner.is_live:  # it may have come to its end
            self.history.last = self._sync.last_word(self._learner.last_round, self._rounds)
        contribution = self._learner.then_update(self.round)
        if not self._sync.at(self.round):
            self._learner.end(self.round)
            self._await_example()
            self._close_round()
            return
        self._say_word(self.round, self._learner.word(contribution, self.round))
        self.barrier.wanted = self._sync.last(self.round - 1) if self._exchange == "delayed" else self.round
        self._wait(PeerState.WAITING, now)
        # What was closed before a crash is closed with the same again.
        redone = self._catch_up.redoes(self.round)
        self.barrier.deadline = math.inf if redone else now + self._policy.deadline_s
        self._look_for_words()
        self._waiting.idle_since = now
        if self._exchange == "overlap":
            self._await_example()
            if self._may_go_ahead():
                self._waiting.idle_since = math.inf
        self._close_round_if_complete()

    @property
    def _begins_at(self) -> float:
        """When the next round, or the goodbye, may begin; infinite where a live stream has no example yet."""
        return self._arrivals.begins_at(self.round + 1, has_example=self._predicted)

    def _open(self, t: int) -> None:
        """A neighbor is in round t: whoever has no example is idle until then."""
        # Who meets in each sync round is one apart at the most; others as far as until they meet again. One that was
        # done without may be anywhere.
        hood = self.neighborhood
        apart = 4 * len(hood.cycle) * max(sync.tau for sync in hood.syncs.values())
        if self._policy.may_miss or t <= self.round + apart:
            self._arrivals.open(t)

    def _await_example(self) -> None:
        """From now on the next one may come."""
        self._arrivals.expect(self.round + 1, self._now)

    def _say_word(self, t: int, word: Word) -> None:
        self.history.add(t, word)
        most = self.durability.most if self._policy.may_miss else None
        self.history.forget(self._sync.last(t - 1), self._askers, most)
        # News of this very round are news to all.
        to_all = Push(t, word.news, self.durability.durable) if word.since >= t and not word.listeners else None
        for task, neighbor in self.session.members.items():
            if (neighbor.last is None or neighbor.last >= t) and self.history.is_for(task, t):
                self._say(task, to_all or self.history.push(task, t, self.durability.durable))

    def _say_again(self, task: int, t: int) -> None:
        """A neighbor asks for a word, perhaps for one behind our last, which it does not know to be that."""
        if self.history.last is not None and t > self.history.last:
            t = self.history.last
        self._note_round(task, t)
        if not self.history.is_for(task, t):
            return
        if t in self.history.contributions:
            self._say(task, self.history.push(task, t, self.durability.durable))
        elif self._policy.may_miss and t <= self.history.forgotten:
            self._say(task, Push(t, _GONE, self.durability.durable))

    def _askers(self) -> list[Asker]:
        delayed = self._exchange == "delayed"
        return [
            self.history.asked_by(task, entry.durable.before, entry.last, delayed=delayed)
            for task, entry in self.session.members.items()
            if not entry.done
        ]

    def _on_push(self, task: int, push: Push) -> None:
        neighbor, t, contribution = self.session.members[task], push.round, push.contribution
        neighbor.durable.raise_to(self.durability.believed(t, push.durable))
        if contribution.kind is ContributionKind.GONE:
            if self._policy.may_miss and self.barrier.missing.get(task) == t:
                self._pass_over([task])
            return
        neighbor.round = max(neighbor.round, t)
        if neighbor.absent and t + NEAR * self.neighborhood.syncs[task].tau >= self.round:
            neighbor.absent = False
            self._events.append(Returned(task, self.session.names[task], self.round))
        if t <= neighbor.used or t in neighbor.contributions:
            return  # a push that was sent twice, or that came too late
        syncs = self.neighborhood.syncs[task]
        expected = syncs.at(t) and (contribution.last or self.neighborhood.hears(task, t))
        if not expected or (neighbor.last is not None and t > neighbor.last):
            self._events.append(
                Refused(self.session.names[task], f"a push for round {t}, in which it has nothing to say")
            )
            return
        if len(neighbor.contributions) >= KEPT_AHEAD and self.barrier.missing.get(task) != t:
            if self._policy.may_miss:
                return  # we are far behind, and will ask for it when we get there
            self._events.append(
                Refused(self.session.names[task], f"a push for round {t}; we are at round {self.round}")
            )
            return
        vectors = contribution.vectors
        if vectors and (wrong := other_than(self._push_layout, vectors, self.session.identity.dim)):
            self._refuse(task, f"a push of {wrong}")
            return
        neighbor.contributions[t] = contribution
        neighbor.heard = max(neighbor.heard, t)
        if self._learner.is_live:
            self._open(t)
        if contribution.last:
            neighbor.last = t
            self._look_for_words()
            if self.state is not PeerState.WAITING:
                return
        else:
            self.barrier.came(task, t)
        self._close_round_if_complete()

    def _look_for_words(self) -> None:
        """Which contributions count in the open sync round, and which of them have not come."""
        if self.state is not PeerState.WAITING:
            return
        self.barrier.look()
        for task in [task for task in self.barrier.missing if self.session.members[task].absent]:
            self.barrier.leave_out(task)
        for task, s in self.barrier.missing.items():
            if s <= self.session.members[task].round:  # it has said it already, and not to us
                self._say(task, Resend(s))

    def _pass_over(self, tasks: list[int]) -> None:
        for task in tasks:
            self.barrier.leave_out(task)
        self._close_round_if_complete()

    def _go_on_without(self, tasks: list[int]) -> None:
        """Policy proceed: these are waited for no more, until they are back."""
        for task in tasks:
            neighbor = self.session.members[task]
            if not neighbor.done:
                neighbor.absent = True
                self._events.append(Absent(task, self.session.names[task], self.round))
        self._pass_over([task for task in tasks if task in self.barrier.missing])

    def _note_behind(self, t: int) -> None:
        """Whoever joins finds that the others are further, as after a crash."""
        if t >= self.round:  # we had none of theirs that they had not sent, but for one more round
            self._catch_up.redo(self._sync.next(t + 1))
        if t > self._sync.next(self._sync.next(self.round + 1) + 1):
            self._catch_up.extend(self.round, t)

    def _note_round(self, task: int, t: int) -> None:
        """A neighbor is known to be in round t at least."""
        neighbor = self.session.members[task]
        if t <= neighbor.round:
            return
        neighbor.round = t
        s = self.barrier.missing.get(task)
        if s is not None and s <= t:
            self._say(task, Resend(s))

    def _not_come(self, task: int, last: int) -> list[int]:
        """A neighbor's sync rounds up to its last one whose words we will use and have not got: the first few."""
        if self.state in (PeerState.FINISHING, PeerState.FINISHED):
            return []
        return self.barrier.not_come(task, last, self._learner.last_round)

    def _close_round_if_complete(self) -> None:
        if self.state is not PeerState.WAITING:
            return
        t = self.barrier.wanted
        if not t:  # delayed: nothing has been sent before
            self._end_round(NO_REPLY)
            return
        missing = list(self.barrier.missing)
        if missing:
            # Not where it was closed before a crash: then with the same again.
            redone = self._catch_up.redoes(self.round)
            if redone or not self._policy.closes(self.barrier.num_here, len(missing)):
                return
            for task in missing:
                self.barrier.leave_out(task)
        contributions, absent = self.barrier.close(self.history.push(self._task, t, 0).contribution)
        if absent and self.durability.active:
            self.durability.hold(self.round)
            self._holds = True
        replies = self._centre.reduce(t, contributions, self.neighborhood.members(t), absent)
        self._end_round(replies[self._task])

    def _end_round(self, reply: Reply) -> None:
        self._learner.end(self.round, reply)
        self._note_times(self.round, self._waiting.since, min(self._waiting.idle_since, self._now), self._now)
        self._enter(PeerState.STEPPING)
        self.barrier.deadline = math.inf
        if self._exchange != "overlap":
            self._await_example()
        self._close_round()
        if (caught_up := self._catch_up.reached(self.round)) is not None:
            self._events.append(caught_up)

    def _close_round(self) -> None:
        """From here one may go on after a crash."""
        self.durability.close(self.round, self._now)

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
        if self.history.last is not None and self.history.last > self.round:
            self._say_word(self.history.last, self._learner.word(IDLE._replace(last=True), self.history.last))
        self._ended = True
        self.durability.due = self.durability.due or self.durability.lacks_end(self.round)
        self._holds = self._must_hold()
        self._wait(PeerState.FINISHING, now)
        self._give_up_at = now + self._linger_s
        self.session.lost_until.clear()  # this wait has a bound of its own
        for task, neighbor in self.session.members.items():
            if not neighbor.confirmed:
                self._say(task, self._goodbye())
        self._finish_if_all_have_confirmed()

    @property
    def _linger_s(self) -> float:
        """How long to wait for neighbors once all is done; one that is started again will need our last words."""
        down = any(entry.down and not entry.confirmed and not entry.absent for entry in self.session.members.values())
        return max(self._timeouts.linger_s, self._timeouts.lost_s) if down else self._timeouts.linger_s

    def _goodbye(self) -> Goodbye:
        assert self.result is not None
        last = self._sync.last(self.round) if self.history.last is None else self.history.last
        return Goodbye(last, self.result.chain, self.result.totals)

    def _remind(self, task: int) -> None:
        """A neighbor that was started anew has not heard our goodbye, nor perhaps the words before it."""
        if self.state is PeerState.FINISHING and not self.session.members[task].confirmed:
            self._say(task, self._goodbye())

    def _on_goodbye(self, task: int, last: int) -> None:
        neighbor = self.session.members[task]
        if missing := self._not_come(task, last):
            # Its goodbye was faster than its last words, or they were lost: once we confirm it, it may be gone.
            for t in missing:
                self._say(task, Resend(t))
            return
        if neighbor.last is None:
            neighbor.last = last
            self._look_for_words()
        neighbor.done = neighbor.confirmed = True  # who needs nothing more need not confirm our goodbye: it may be gone
        if self.durability.active and not neighbor.is_kept:
            self.durability.owe(task)
        else:
            self._confirm(task)
        self._close_round_if_complete()
        self._finish_if_all_have_confirmed()

    def _confirm(self, task: int) -> None:
        self.session.members[task].is_kept = True
        self._say(task, Farewell())

    def _finish_if_all_have_confirmed(self) -> None:
        if (
            self.state is PeerState.FINISHING
            and not self.durability.owes
            and not self._holds
            and all(
                entry.confirmed or (entry.absent and (entry.down or not entry.joined))
                for entry in self.session.members.values()
            )
        ):
            self._enter(PeerState.FINISHED)

    # Waiting, and trouble

    def _refuse(self, task: int, reason: str) -> None:
        self._events.append(Refused(self.session.names[task], reason))

    def _say(self, task: int, message: Message) -> None:
        if address := self.session.members[task].address:  # else it connects to us, and has not done so again yet
            self._outbox.append(Envelope(address, message))

    def _wait(self, state: PeerState, now: float) -> None:
        self._enter(state)
        self._waiting.start(now)

    def _ask(self) -> None:
        """Ask for what this state waits for."""
        for task, neighbor in self.session.members.items():
            silent = not neighbor.joined or (neighbor.was_lost and neighbor.spoke_at < self._waiting.asked_at)
            if task < self._task and silent and not neighbor.done and self.state is not PeerState.FINISHING:
                self._say(task, self._introduction(task))
            else:
                self._remind(task)
        if self.state is PeerState.WAITING:
            for task, s in self.barrier.missing.items():
                self._say(task, Resend(s))
        self._waiting.asked_at = self._now

    def _waiting_for(self) -> str:
        tasks, what = self._awaited()
        return named(self.session.names, tasks) + what

    def _awaited(self) -> tuple[list[int], str]:
        """(neighbors that it waits for now, what they are to do)."""
        if self.state is PeerState.JOINING:
            return self._not_joined(), " to join"
        if self.state is PeerState.WAITING:
            return list(self.barrier.missing), ""
        return [task for task, neighbor in self.session.members.items() if not neighbor.confirmed], " to confirm"

    def _not_joined(self) -> list[int]:
        wanted = {task: entry for task, entry in self.session.members.items() if not entry.done and not entry.absent}
        return [task for task, entry in wanted.items() if not entry.joined]

    def _rejected(self, task: int, reason: str) -> None:
        if self.state is PeerState.JOINING and not self.session.members[task].joined:
            raise RejectedError(f"{self.session.names[task]} does not let this peer in: {reason}")
        if self.state is not PeerState.FINISHING:
            # Of a long way from peer to peer the first one is named.
            self._end_run(reason if _ENDED in reason else f"{self.session.names[task]}{_ENDED}{reason}")
        self.session.members[task].confirmed = True
        self._finish_if_all_have_confirmed()

    def _give_up(self) -> None:
        if self.session.cannot_go_on:
            self._end_run(self.session.cannot_go_on)
        if self.state is PeerState.JOINING and self._policy.proceeds and not self.session.cannot_go_on:
            self._go_on_without(self._not_joined())
            self._begin_if_all_are_here()
            return
        if self.state is PeerState.JOINING:
            missing = named(self.session.names, self._not_joined())
            self._end_run(f"{missing} did not join within {self._timeouts.join_s:g} s (timeouts.join_s)")
        self._events.append(
            Warned(f"no confirmation of the goodbye within {self._linger_s:g} s: {self._waiting_for()}")
        )
        self._enter(PeerState.FINISHED)

    def _end_run(self, why: str) -> None:
        self._tell_all(why)
        raise ClusterError(f"the run is given up: {why}")

    def _tell_all(self, why: str) -> None:
        for task, neighbor in self.session.members.items():
            if neighbor.joined and not neighbor.confirmed:
                self._say(task, Reject(why))
