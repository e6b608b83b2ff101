"""The reducer: lets workers in, collects each sync round's pushes, runs the central step, answers everybody.

A worker that comes back after a crash is in an earlier round: it gets the replies of the rounds since then again,
which are kept until it has them safe. A reducer that comes back asks for the pushes since its own last snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy.typing as npt

from drom_net.algorithms.base import KEEP, ContributionKind, SyncRounds
from drom_net.algorithms.features import other_than
from drom_net.core.errors import ClusterError
from drom_net.learning.records import central_dtype
from drom_net.learning.task import Centre
from drom_net.protocol.barrier import StarRound
from drom_net.protocol.catch_up import CatchUp
from drom_net.protocol.handshake import Identity
from drom_net.protocol.history import ReplyHistory, Watermark
from drom_net.protocol.messages import (
    Farewell,
    Goodbye,
    Hello,
    Introduce,
    Message,
    Open,
    Pull,
    Push,
    Reject,
    Resend,
    Welcome,
)
from drom_net.protocol.node import (
    NEAR,
    Absent,
    ConnectionChanged,
    Ended,
    Envelope,
    Joined,
    Late,
    NodeBase,
    Refused,
    Returned,
    Snapshot,
    Stalled,
    Warned,
    named,
)
from drom_net.protocol.session import Member, Session
from drom_net.protocol.settings import WAIT, Checkpoints, Policy, Timeouts
from drom_net.protocol.states import ReducerState
from drom_net.protocol.timers import RetryTimer

_ME = "the reducer"
_EACH = SyncRounds(1)


@dataclass(slots=True)
class _Member(Member):
    """What the reducer knows of one task."""

    ended: Ended | None = None
    confirmed: bool = False
    """Its goodbye was answered."""


class Reducer(NodeBase):
    """The centre of a star as a node."""

    def __init__(
        self,
        centre: Centre,
        names: Sequence[str],
        identity: Identity,
        *,
        push_layout: tuple[int, ...],
        sync: SyncRounds = _EACH,
        timeouts: Timeouts,
        policy: Policy = WAIT,
        live: bool = False,
        checkpoints: Checkpoints | None = None,
        snapshot: Snapshot | None = None,
    ) -> None:
        """
        Args:
            names: The tasks' names, in task order.
            push_layout: How many vectors each block of a contribution has; empty where there are none.
            sync: The rounds in which workers push; a round of the reducer is one of these.
            policy: What becomes of tasks that do not come.
            live: A round begins with the first task that has an example, and the others are told.
            checkpoints: When to take snapshots; None for never.
            snapshot: What an earlier incarnation has left, to go on from.
        """
        super().__init__(checkpoints, snapshot=snapshot)
        self.state = ReducerState.COLLECTING
        members = {task: _Member() for task in range(len(names))}
        self.session: Session[_Member] = Session(members, names, identity, me=_ME, answer_s=timeouts.duplicate_probe_s)
        self._centre = centre
        self._feature_digest = identity.feature_digest
        self._push_layout = push_layout
        self._sync = sync if push_layout else _EACH
        self._timeouts = timeouts
        self._policy = policy
        self._live = live
        self._round = StarRound(self._sync.next(1), 0.0, set())
        self.central_steps = 0
        """How many it has made since it was started."""
        self._stall = RetryTimer(timeouts.stall_s, math.inf)
        self._join_by = math.inf
        self._pushing = set(members)
        """Tasks that take part in sync rounds: all until their last push."""
        self._absent: set[int] = set()
        """Tasks that nobody waits for until they are back."""
        self.history = ReplyHistory()
        self._catch_up = CatchUp(restored=snapshot is not None)
        self._deadline = math.inf
        self._leave_at = math.inf
        """Until then those that had ended before a crash may ask again for the answer to their goodbye."""
        self._unsure: set[int] = set()
        """Those of them that have not asked."""
        if snapshot is not None:
            self._restore(snapshot)

    @property
    def names(self) -> tuple[str, ...]:
        """All tasks', in task order."""
        return self.session.names

    @property
    def finished(self) -> bool:
        return self.state is ReducerState.FINISHED

    @property
    def max_vectors(self) -> int:
        return sum(self._push_layout)

    @property
    def last_sigma(self) -> float:
        """sigma_1 of the last central step; 0 where the learner takes no singular pair."""
        return self._centre.last_sigma

    @property
    def closed_rounds(self) -> int:
        """The last round that is closed."""
        return self._sync.last(self._round.number - 1)

    @property
    def central_chain(self) -> bytes:
        return self._centre.chain

    @property
    def ended(self) -> list[Ended | None]:
        """What each task ended with, in task order; None where its goodbye has not come."""
        return [member.ended for member in self.session.members.values()]

    @property
    def num_connected(self) -> int:
        """How many tasks are here."""
        return sum(bool(member.address) and not member.down for member in self.session.members.values())

    @property
    def num_overdue(self) -> int:
        """How many tasks it has waited for for longer than stall_s, or goes on without."""
        waits = self._stall.has_asked and self._waits
        return len({*self._absent, *(self._awaited()[0] if waits else ())})

    def task_at(self, address: str) -> int | None:
        """Which task speaks from this address."""
        return self.session.task_at.get(address)

    def has_spoken_from(self, address: str) -> int | None:
        """Which task speaks from this address, or has spoken from it before it was started again."""
        return self.session.task_at.get(address, self.session.former.get(address))

    def start(self, now: float) -> None:
        self.durability.start(now)
        self._join_by = now + self._timeouts.join_s
        self._open_round(self._round.number, now)
        if self._unsure:
            self._leave_at = now + self._timeouts.linger_s
        if not self._not_joined():
            self._join_by = math.inf

    def receive(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Hello) and message.answers:
            self._on_alive(sender, message.answers)
        elif isinstance(message, Hello):
            self._on_hello(sender, message, now)
        else:
            self._on_message(sender, message, now)

    def _on_message(self, sender: str, message: Message, now: float) -> None:
        task = self.session.task_at.get(sender)
        if task is None:
            self._outbox.append(Envelope(sender, Introduce()))
            self._events.append(Refused(sender, f"a {type(message).__name__} before a Hello"))
            return
        match message:
            case Push():
                self._on_push(task, message, now)
            case Resend(round=t):
                self._on_resend(task, t)
            case Goodbye():
                self._on_goodbye(task, message, now)
            case _:
                self._refuse(task, f"a {type(message).__name__} is nothing a worker says")

    def on_timer(self, now: float) -> None:
        if now >= self.session.probe.due:
            self._let_rivals_in(now)
        if now >= self._leave_at:
            self._leave_at = math.inf
            self._unsure.clear()
            self._finish_if_all_are_done(now)
        if now >= self._join_by and self.session.cannot_go_on:
            self._give_up(self.session.cannot_go_on)
        if now >= self._join_by:
            absent = self._not_joined()
            if not self._policy.proceeds or len(absent) == len(self.session.members):
                missing = named(self.session.names, absent)
                self._give_up(f"{missing} did not join within {self._timeouts.join_s:g} s (timeouts.join_s)")
            self._all_are_here(now)
            self._go_on_without(absent, now)
        for task in self.session.take_lost(now):
            if not self._policy.proceeds:
                self._give_up(
                    f"lost {self.session.names[task]} in round {self._round.number}: "
                    f"disconnected for {self._timeouts.lost_s:g} s (timeouts.lost_s)"
                )
            self._go_on_without([task], now)
        if now >= self._deadline:
            self._events.append(Late(self._round.number, named(self.session.names, sorted(self._round.awaited))))
            self._close_round(now)
        if self._stall.ask(now) and self._waits:
            self._events.append(Stalled(self._round.number, self._waiting_for(), now - self._round.opened_at))

    def took_until(self, now: float) -> None:
        pass

    def next_timer(self) -> float:
        waits = (self._join_by, self._stall.due, self._deadline, self._leave_at, self.session.probe.due)
        return min(*waits, self.session.first_lost_at)

    def on_connection(self, address: str, connected: bool, now: float) -> None:
        task = self.session.task_at.get(address)
        if task is None:
            return
        member = self.session.members[task]
        member.down = not connected
        if not connected and task in self.session.probe:
            self._let_rivals_in(now)
            return
        if member.ended is not None or connected == (task not in self.session.lost_until):
            return
        if connected:
            del self.session.lost_until[task]
        elif task not in self._absent:
            self.session.lost_until[task] = now + self._timeouts.lost_s
        else:
            self._finish_if_all_are_done(now)
        self._events.append(ConnectionChanged(self.session.names[task], connected))

    def stop(self) -> None:
        self.state = ReducerState.FINISHED

    def take_records(self) -> bytes:
        return self._centre.take_records()

    def take_times(self) -> bytes:
        return b""

    @property
    def row_types(self) -> dict[str, npt.DTypeLike]:
        """What the rows of its `records` are."""
        return {"records": central_dtype(len(self.session.members))}

    @property
    def recorded(self) -> dict[str, int]:
        """The round of the last row."""
        return {"records": self.closed_rounds}

    def take_snapshot(self) -> Snapshot | None:
        if self.durability.busy or not self.durability.due:
            return None
        t = self.closed_rounds
        self.durability.taken(t)
        # Of its two snapshots the other side may have to take the older.
        needed = min((one.durable.before for one in self.session.members.values() if one.ended is None), default=t)
        return {
            "round": t,
            "centre": self._centre.snapshot(),
            "pushing": set(self._pushing),
            "absent": set(self._absent),
            "history": self.history.needed_after(needed),
            "members": [(one.durable.latest, one.durable.before, one.ended) for one in self.session.members.values()],
        }

    def snapshot_kept(self, now: float) -> None:
        super().snapshot_kept(now)
        self._finish_if_all_are_done(now)

    def _must_hold(self) -> bool:
        return self.durability.is_too_far(self.closed_rounds) or self.durability.holds

    def _restore(self, snapshot: Snapshot) -> None:
        self._round.number = self._sync.next(snapshot["round"] + 1)
        self._centre.restore(snapshot["centre"])
        self._pushing = set(snapshot["pushing"])
        self._absent = set(snapshot["absent"])
        self.history.restore(snapshot["history"], self._round.number)
        members = self.session.members
        for member, (durable, before, ended) in zip(members.values(), snapshot["members"], strict=True):
            member.durable = Watermark(durable, before)
            member.ended = ended
            member.confirmed = ended is not None
        self._unsure = {task for task, member in members.items() if member.confirmed}

    # Joining

    def _on_hello(self, sender: str, hello: Hello, now: float) -> None:
        refusal = self.session.refusal(
            sender,
            hello,
            feature_digest=self._feature_digest,
            round=self._round.number,
            come_back=self.durability.active,
            lost=self._lost_what_it_had,
        )
        if refusal is not None:
            self._reject(sender, refusal.reason)
            if refusal.lost:
                self._cannot_go_on(hello.task, refusal.reason, now, ours=refusal.lost == _ME)
        elif (questions := self.session.question(sender, hello, now)) is not None:
            self._outbox += questions  # is the one that is here already alive?
        else:
            self._let_in(sender, hello, now)

    def _reject(self, sender: str, reason: str) -> None:
        self._outbox.append(Envelope(sender, Reject(reason)))
        self._events.append(Refused(sender, reason))

    def _let_in(self, sender: str, hello: Hello, now: float) -> None:
        member = self.session.members[hello.task]
        self._outbox.append(Envelope(sender, Welcome(self.session.identity.run_id, self._round.number)))
        member.round = hello.round
        self._catch_up.redo(hello.round)
        member.durable.lower_to(hello.round)  # below it, it has nothing of what it had
        is_new = member.address != sender
        self.session.admit(sender, hello)
        if not is_new:
            return  # a Hello that was said twice
        self._feature_digest = hello.feature_digest
        self._events.append(Joined(hello.task))
        difference = self.session.identity.difference(hello, self.session.names[hello.task], me=_ME)
        if difference:
            self._events.append(Warned(difference))
        if math.isfinite(self._join_by) and not self._not_joined():
            self._all_are_here(now)
        self._tell_open([hello.task])
        if hello.round >= self._round.number:
            self._is_behind(hello.task, hello.round)

    def _all_are_here(self, now: float) -> None:
        self._join_by = math.inf
        self._round.opened_at = now  # the wait of those who came early is over
        if self._round.contributions:
            self._set_deadline(now)
        self._stall.start(now)

    def _on_alive(self, sender: str, question: int) -> None:
        if (has_to_go := self.session.answered(sender, question)) is not None:
            self._reject(*has_to_go)

    def _let_rivals_in(self, now: float) -> None:
        for sender, hello in self.session.replaced(now):
            self._on_hello(sender, hello, now)

    def _lost_what_it_had(self, hello: Hello) -> str | None:
        """Which of the two has lost what it had, as it was started anew without a snapshot; None where they can go on
        together."""
        if not self._push_layout:
            return None
        if hello.round > self._round.number and not 0 < hello.kept_from <= self._round.number:
            return _ME
        # Of rounds that were closed without it, it needs nothing.
        if hello.round >= min(self.history.forgotten, self.session.members[hello.task].durable.before):
            return None
        return self.session.names[hello.task]

    def _cannot_go_on(self, task: int, why: str, now: float, *, ours: bool) -> None:
        """A worker that was refused and the reducer cannot go on together: one of them has lost what it had."""
        if ours and math.isfinite(self._join_by):
            # Not at once: all are told why, and need not wait for us until lost_s.
            if self.session.tell_lost(task, why):
                self._join_by = min(self._join_by, now + self._timeouts.linger_s)
            if all(map(self.session.knows_lost, self.session.members)):
                self._give_up(why)
        elif not ours and self.session.members[task].ended is None and not self._policy.proceeds:
            self._give_up(why)

    # Rounds

    def _on_push(self, task: int, push: Push, now: float) -> None:
        member, t, contribution = self.session.members[task], push.round, push.contribution
        if contribution.kind is ContributionKind.GONE:
            self._on_gone(task, t, now)
            return
        if member.durable.raise_to(self.durability.believed(t, push.durable)):
            self._forget()
        member.round = max(member.round, t)
        current = self._round
        if t > current.number:
            self._is_behind(task, t)
            return
        if t < current.number:
            self._answer_again(task, t)
            return
        if task in current.contributions:
            return  # a push that was sent twice
        if task not in current.awaited and task not in self._absent:
            self._refuse(task, f"a push for round {t} after its last one")
            return
        vectors = contribution.vectors
        if vectors and (wrong := other_than(self._push_layout, vectors, self.session.identity.dim)):
            self._refuse(task, f"a push of {wrong}")
            return
        if task in self._absent:
            self._take_back(task)
        is_first = not current.contributions
        if is_first and not current.went_without:
            self._set_deadline(now)
        current.contributions[task] = contribution
        current.awaited.discard(task)
        if not self._close_if_complete(now) and is_first and self._live:
            current.opened_at = now
            self._stall.start(now)
            self._tell_open(current.awaited)

    def _tell_open(self, tasks: Iterable[int]) -> None:
        """A live stream without an example waits until it knows that others have one in this round."""
        if self._live and self._round.contributions:
            for task in sorted(self._round.awaited.intersection(tasks)):
                if address := self.session.members[task].address:
                    self._outbox.append(Envelope(address, Open(self._round.number)))

    def _on_gone(self, task: int, t: int, now: float) -> None:
        """A task that was asked for a push went through that round alone: before a crash of ours it was closed so."""
        current = self._round
        if self._policy.may_miss and t == current.number and task in current.awaited:
            if not current.contributions and not current.went_without:
                self._set_deadline(now)
            current.awaited.discard(task)
            current.went_without = True
            self._close_if_complete(now)

    def _close_if_complete(self, now: float) -> bool:
        """Whether the open round was."""
        current = self._round
        if not current.has_begun:
            return False
        if current.awaited:
            # Once all have joined, and not where it was closed before a crash: then with the same again.
            may_close = math.isinf(self._join_by) and not self._catch_up.redoes(current.number)
            if not may_close or not self._policy.closes(len(current.contributions), len(current.awaited)):
                return False
        self._close_round(now)
        return True

    def _close_round(self, now: float) -> None:
        """The central step, with all who have come."""
        current = self._round
        in_order = {task: current.contributions[task] for task in sorted(current.contributions)}
        absent = sorted(task for task in self._pushing if task not in in_order)
        if absent:
            self.durability.hold(current.number)
        replies = self._centre.reduce(current.number, in_order, absent=absent)
        self.history.replies[current.number] = self._centre.last_replies()
        self.durability.close(current.number, now)
        following = self._sync.next(current.number + 1)
        self.central_steps += 1
        for task, reply in replies.items():
            member = self.session.members[task]
            if in_order[task].last:
                self._pushing.discard(task)
            if member.round <= current.number:  # else it has this one
                pull = Pull(current.number, reply, self.durability.durable, following)
                self._outbox.append(Envelope(member.address, pull))
        self._open_round(following, now)
        self._holds = self._must_hold()
        if self._catch_up.until:
            self._ask_those_ahead()

    def _open_round(self, number: int, now: float) -> None:
        self._round = StarRound(number, now, self._pushing - self._absent)
        self._deadline = math.inf
        self._stall.start(now)

    def _set_deadline(self, now: float) -> None:
        """From the first that has come on, once all have joined."""
        if math.isfinite(self._join_by) or self._catch_up.redoes(self._round.number):
            self._deadline = math.inf  # what was closed before a crash is closed with the same again
        else:
            self._deadline = now + self._policy.deadline_s

    def _on_resend(self, task: int, t: int) -> None:
        member = self.session.members[task]
        member.round = max(member.round, t)
        if t < self._round.number:
            self._answer_again(task, t)
            self._tell_open([task])
        elif t > self._round.number:
            self._is_behind(task, t)
        elif task not in self._round.contributions:
            self._outbox.append(Envelope(member.address, Resend(t)))
        else:  # we wait for others
            self._tell_open(self._round.awaited)

    def _answer_again(self, task: int, t: int) -> None:
        """What was answered to a task in a round that is closed, or that it was closed without it."""
        if t <= self.history.forgotten and not self._policy.may_miss:
            return  # it has this one: the question is an old one
        replies = self.history.replies.get(t)
        reply = None if replies is None else replies.to(task)
        if reply is None and not self._policy.may_miss:
            return
        following = self._sync.next(t + 1)
        if self._policy.may_miss:  # the next in which it took part, or may still
            following = self.history.next_with(task, t) or self._round.number
            if following == self._round.number and task in self._absent and following - t <= NEAR:
                self._take_back(task)
        address = self.session.members[task].address
        self._outbox.append(Envelope(address, Pull(t, reply or KEEP, self.durability.durable, following)))

    def _forget(self) -> None:
        going_on = (
            (task, member.durable.before) for task, member in self.session.members.items() if member.ended is None
        )
        self.history.forget(going_on, some_absent=bool(self._absent))

    # Behind the workers, as after a crash

    def _is_behind(self, task: int, t: int) -> None:
        """A task is in round t already: its push of ours is asked for, and so are the next ones as we get there."""
        if not self._push_layout:
            return  # it goes through its rounds alone
        if t > self._round.number:
            self._catch_up.extend(self._round.number, t)
        if task in self._absent:
            self._take_back(task)
        if task in self._round.awaited:
            self._outbox.append(Envelope(self.session.members[task].address, Resend(self._round.number)))

    def _ask_those_ahead(self) -> None:
        number = self._round.number
        if (caught_up := self._catch_up.reached(number)) is not None:
            self._events.append(caught_up)
        for task in sorted(self._round.awaited):
            member = self.session.members[task]
            if member.address and member.round >= number:
                self._outbox.append(Envelope(member.address, Resend(number)))

    # Without some

    def _go_on_without(self, tasks: Sequence[int], now: float) -> None:
        """Policy proceed: these are waited for no more, until they are back."""
        for task in tasks:
            if self.session.members[task].ended is None:
                self._absent.add(task)
                self._round.awaited.discard(task)
                self._events.append(Absent(task, self.session.names[task], self._round.number))
        if all(map(self._is_gone, self.session.members)):
            self._give_up("no task is left")
        self._finish_if_all_are_done(now)
        if not self.finished:
            self._close_if_complete(now)

    def _is_gone(self, task: int) -> bool:
        """Whether a task is neither here nor waited for."""
        member = self.session.members[task]
        return task in self._absent and (member.down or not member.address)

    def _take_back(self, task: int) -> None:
        self._absent.discard(task)
        if task not in self._round.contributions:  # else it was here in this round before it went
            self._round.awaited.add(task)
        self._tell_open([task])
        self._events.append(Returned(task, self.session.names[task], self._round.number))

    # Finishing

    def _on_goodbye(self, task: int, goodbye: Goodbye, now: float) -> None:
        member = self.session.members[task]
        if member.ended is None and self._push_layout and goodbye.rounds >= self._round.number:
            # We are behind, as after a crash: once it is answered it is gone, and nobody could say its pushes again.
            member.round = max(member.round, goodbye.rounds)
            self._is_behind(task, goodbye.rounds)
            if task not in self._round.awaited:  # it is to stay
                self._outbox.append(Envelope(member.address, Resend(self._sync.last(goodbye.rounds))))
            return
        if member.ended is None:
            member.ended = Ended(goodbye.rounds, goodbye.chain, goodbye.totals)
            self.session.lost_until.pop(task, None)
            self._pushing.discard(task)
            self._absent.discard(task)
            self._round.awaited.discard(task)
        if member.confirmed or not self.durability.active:
            self._confirm(task)
        else:
            self.durability.owe(task)
        self._close_if_complete(now)
        self._finish_if_all_are_done(now)

    def _confirm(self, task: int) -> None:
        self.session.members[task].confirmed = True
        self._unsure.discard(task)
        self._outbox.append(Envelope(self.session.members[task].address, Farewell()))

    def _finish_if_all_are_done(self, now: float) -> None:
        for task, member in self.session.members.items():
            if not self._is_gone(task) and not (member.ended is not None and member.confirmed):
                return
        if self._unsure or not any(member.ended is not None for member in self.session.members.values()):
            return
        self._stall.stop()
        self._enter(ReducerState.FINISHED)

    # Trouble

    def _refuse(self, task: int, reason: str) -> None:
        self._events.append(Refused(self.session.names[task], reason))

    def _give_up(self, why: str) -> None:
        self._tell_all(why)
        raise ClusterError(f"the run is given up: {why}")

    def _tell_all(self, why: str) -> None:
        for member in self.session.members.values():
            if member.address and member.ended is None:
                self._outbox.append(Envelope(member.address, Reject(why)))

    def _not_joined(self) -> list[int]:
        return [task for task, member in self.session.members.items() if self._is_missing(task, member)]

    def _is_missing(self, task: int, member: _Member) -> bool:
        return not member.address and member.ended is None and task not in self._absent

    @property
    def _waits(self) -> bool:
        # Tasks that never push (Local) keep nobody waiting while they learn, nor does one before any has an example.
        begun = bool(self._round.contributions) or not self._live
        return math.isfinite(self._join_by) or (bool(self._push_layout) and begun)

    def _waiting_for(self) -> str:
        tasks, what = self._awaited()
        return named(self.session.names, tasks) + what

    def _awaited(self) -> tuple[list[int], str]:
        """(tasks that it waits for now, what they are to do)."""
        if missing := self._not_joined():
            return missing, " to join"
        if self._round.awaited:
            return sorted(self._round.awaited), ""
        return [task for task, member in self.session.members.items() if member.ended is None], " to finish"
