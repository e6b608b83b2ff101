"""The reducer: lets workers in, collects each sync round's pushes, runs the central step, answers each.

A worker that comes back after a crash is in an earlier round: it gets the replies of the rounds since then again,
which are kept until it has them safe. A reducer that comes back asks for the pushes since its own last snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy.typing as npt

from drom_net.algorithms.base import KEEP, ContributionKind, SyncRounds
from drom_net.algorithms.features import other_than
from drom_net.learning.records import central_dtype
from drom_net.learning.task import Centre
from drom_net.protocol.barrier import StarRound
from drom_net.protocol.handshake import Identity
from drom_net.protocol.history import Watermark
from drom_net.protocol.messages import (
    Goodbye,
    Message,
    Pull,
    Push,
    Resend,
    RoundOpened,
)
from drom_net.protocol.node import (
    Envelope,
    Late,
    Snapshot,
    Stalled,
    is_close,
    named,
)
from drom_net.protocol.settings import WAIT, Checkpoints, Policy, Timeouts
from drom_net.protocol.star_membership import StarMembership
from drom_net.protocol.states import ReducerState

_EACH = SyncRounds(1)
_NO_LONGER_KEPT = ContributionKind.NO_LONGER_KEPT


class Reducer(StarMembership):
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
        super().__init__(
            names,
            identity,
            push_layout=push_layout,
            sync=sync if push_layout else _EACH,
            timeouts=timeouts,
            policy=policy,
            live=live,
            checkpoints=checkpoints,
            snapshot=snapshot,
        )
        self._centre = centre
        self.central_steps = 0
        """How many it has made since it was started."""
        self._deadline = math.inf
        self._leave_at = math.inf
        """Until then those that had ended before a crash may ask again for the answer to their goodbye."""
        if snapshot is not None:
            self._restore(snapshot)

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

    def start(self, now: float) -> None:
        self._now = now
        self.durability.start(now)
        self._join_by = now + self._timeouts.join_s
        self._open_round(self._round.number)
        if self._unsure:
            self._leave_at = now + self._timeouts.linger_s
        if not self._not_joined():
            self._join_by = math.inf

    def _on_message(self, task: int, message: Message) -> None:
        if type(message) is Push:
            self._on_push(task, message)
            return
        match message:
            case Resend(round=t):
                self._on_resend(task, t)
            case Goodbye():
                self._on_goodbye(task, message)
            case _:
                self._refuse(task, f"a {type(message).__name__} is nothing a worker says")

    def on_timer(self, now: float) -> None:
        self._now = now
        if now >= self.session.probe.due:
            self._let_rivals_in()
        if now >= self._leave_at:
            self._leave_at = math.inf
            self._unsure.clear()
            self._finish_if_all_are_done()
        if now >= self._join_by and self.session.cannot_go_on:
            self._end_run(self.session.cannot_go_on)
        if now >= self._join_by:
            absent = self._not_joined()
            if not self._policy.proceeds or len(absent) == len(self.session.members):
                missing = named(self.session.names, absent)
                self._end_run(f"{missing} did not join within {self._timeouts.join_s:g} s (timeouts.join_s)")
            self._all_are_here()
            self._go_on_without(absent)
        self._give_up_lost(now)
        if now >= self._deadline:
            self._events.append(Late(self._round.number, named(self.session.names, sorted(self._round.awaited))))
            self._close_round()
        if self._stall.ask(now) and self._waits:
            self._events.append(Stalled(self._round.number, self._waiting_for(), now - self._round.opened_at))

    def busy_until(self, now: float) -> None:
        pass

    def next_timer(self) -> float:
        session = self.session
        return min(
            (self._join_by, self._stall.due, self._deadline, self._leave_at, session.probe.due, session.first_lost_at)
        )

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
        """At any time that one is due: an open round is gathered again from its members."""
        if not self.durability.due or self.durability.busy:
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

    def _must_hold(self) -> bool:
        return self.durability.is_too_far(self.closed_rounds) or self.durability.must_hold

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

    def _on_push(self, task: int, push: Push) -> None:
        member, (t, contribution, durable) = self.session.members[task], push
        if contribution.kind is _NO_LONGER_KEPT:
            self._on_gone(task, t)
            return
        if member.durable.raise_to(self.durability.believed(t, durable)):
            self._forget()
        if t > member.round:
            member.round = t
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
            self._set_deadline()
        current.contributions[task] = contribution
        current.awaited.discard(task)
        if not self._close_if_complete() and is_first and self._live:
            current.opened_at = self._now
            self._stall.start(self._now)
            self._tell_open(current.awaited)

    def _tell_open(self, tasks: Iterable[int]) -> None:
        """A live stream without an example waits until it knows that others have one in this round."""
        if self._live and self._round.contributions:
            for task in sorted(self._round.awaited.intersection(tasks)):
                if address := self.session.members[task].address:
                    self._outbox.append(Envelope(address, RoundOpened(self._round.number)))

    def _on_gone(self, task: int, t: int) -> None:
        """A task that was asked for a push went through that round alone: before a crash of ours it was closed so."""
        current = self._round
        if self._policy.may_miss and t == current.number and task in current.awaited:
            if not current.contributions and not current.went_without:
                self._set_deadline()
            current.awaited.discard(task)
            current.went_without = True
            self._close_if_complete()

    def _close_if_complete(self) -> bool:
        """Close the open round if nobody is awaited any more, or without somebody by the policy (`Policy.closes`).

        Returns:
            Whether it was closed.
        """
        current = self._round
        if not current.has_begun:
            return False
        if current.awaited:
            # Once all have joined, and not where it was closed before a crash: then with the same again.
            may_close = math.isinf(self._join_by) and not self._catch_up.redoes(current.number)
            if not may_close or not self._policy.closes(len(current.contributions), len(current.awaited)):
                return False
        self._close_round()
        return True

    def _close_round(self) -> None:
        """The central step, with all who have come."""
        current = self._round
        in_order = {task: current.contributions[task] for task in sorted(current.contributions)}
        absent = sorted(task for task in self._pushing if task not in in_order)
        if absent:
            self.durability.hold(current.number)
        replies = self._centre.reduce(current.number, in_order, absent=absent)
        self.history.replies[current.number] = self._centre.last_replies()
        self.durability.close(current.number, self._now)
        following = self._sync.next(current.number + 1)
        self.central_steps += 1
        for task, reply in replies.items():
            member = self.session.members[task]
            if in_order[task].last:
                self._pushing.discard(task)
            if member.round <= current.number:  # else it has this one
                pull = Pull(current.number, reply, self.durability.durable, following)
                self._outbox.append(Envelope(member.address, pull))
        self._open_round(following)
        self.holding = self._must_hold()
        if self._catch_up.until:
            self._ask_those_ahead()

    def _open_round(self, number: int) -> None:
        self._round = StarRound(number, self._now, self._pushing - self._absent)
        self._deadline = math.inf
        self._stall.start(self._now)

    def _set_deadline(self) -> None:
        """From the first that has come on, once all have joined."""
        if math.isfinite(self._join_by) or self._catch_up.redoes(self._round.number):
            self._deadline = math.inf  # what was closed before a crash is closed with the same again
        else:
            self._deadline = self._now + self._policy.deadline_s

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
            if following == self._round.number and task in self._absent and is_close(self._sync, t, following):
                self._take_back(task)
        address = self.session.members[task].address
        self._outbox.append(Envelope(address, Pull(t, reply or KEEP, self.durability.durable, following)))

    def _forget(self) -> None:
        going_on = (
            (task, member.durable.before) for task, member in self.session.members.items() if member.ended is None
        )
        self.history.forget(going_on, some_absent=bool(self._absent))

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
