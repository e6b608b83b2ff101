"""Which tasks a reducer has: they join, are lost and come back, and say goodbye."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drom_net.algorithms.base import SyncRounds
from drom_net.protocol.barrier import StarRound
from drom_net.protocol.handshake import Identity
from drom_net.protocol.history import ReplyHistory
from drom_net.protocol.hub import Hub
from drom_net.protocol.messages import (
    Goodbye,
    GoodbyeAck,
    Hello,
    Reject,
    Resend,
    Welcome,
)
from drom_net.protocol.node import (
    Absent,
    ConnectionChanged,
    Ended,
    Envelope,
    Joined,
    Returned,
    Snapshot,
    Warned,
)
from drom_net.protocol.session import Member, Session
from drom_net.protocol.settings import Checkpoints, Policy, Timeouts
from drom_net.protocol.states import ReducerState
from drom_net.protocol.timers import RetryTimer

ME = "the reducer"


@dataclass(slots=True)
class StarMember(Member):
    """What the reducer knows of one task."""

    ended: Ended | None = None
    confirmed: bool = False
    """Its goodbye was answered."""


class StarMembership(Hub[StarMember]):
    """A reducer, but for its rounds."""

    state: ReducerState

    def __init__(
        self,
        names: Sequence[str],
        identity: Identity,
        *,
        push_layout: tuple[int, ...],
        sync: SyncRounds,
        timeouts: Timeouts,
        policy: Policy,
        live: bool,
        checkpoints: Checkpoints | None,
        snapshot: Snapshot | None,
    ) -> None:
        members = {task: StarMember() for task in range(len(names))}
        session = Session(members, names, identity, me=ME, answer_s=timeouts.duplicate_probe_s)
        super().__init__(session, timeouts=timeouts, policy=policy, checkpoints=checkpoints, snapshot=snapshot)
        self.state = ReducerState.COLLECTING
        self.history = ReplyHistory()
        self._known = identity.feature_digest
        self._former: dict[str, int] = {}
        """Addresses of earlier starts, whose places others have taken."""
        self._push_layout = push_layout
        self._sync = sync
        self._live = live
        self._round = StarRound(sync.next(1), 0.0, set())
        self._stall = RetryTimer(timeouts.stall_s, math.inf)
        self._join_by = math.inf
        self._pushing = set(members)
        """Tasks that take part in sync rounds: all until their last push."""
        self._absent: set[int] = set()
        """Tasks that nobody waits for until they are back."""
        self._unsure: set[int] = set()
        """Tasks that had ended before a crash of ours, and may ask again for the answer to their goodbye."""

    @property
    def _known_features(self) -> str:
        return self._known

    @property
    def _current_round(self) -> int:
        return self._round.number

    @property
    def finished(self) -> bool:
        return self.state is ReducerState.FINISHED

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

    def has_spoken_from(self, address: str) -> int | None:
        """Which task speaks from this address, or has spoken from it before it was started again."""
        return self.session.task_at.get(address, self._former.get(address))

    def on_connection(self, address: str, connected: bool, now: float) -> None:
        self._now = now
        task = self.session.task_at.get(address)
        if task is None:
            return
        member = self.session.members[task]
        member.down = not connected
        if not connected and task in self.session.probe:
            self._let_rivals_in()
            return
        if member.ended is not None or connected == (task not in self.session.lost_until):
            return
        if connected:
            del self.session.lost_until[task]
        elif task not in self._absent:
            self.session.lost_until[task] = now + self._timeouts.lost_s
        else:
            self._finish_if_all_are_done()
        self._events.append(ConnectionChanged(self.session.names[task], connected))

    def snapshot_persisted(self, now: float) -> None:
        self._now = now
        super().snapshot_persisted(now)
        self._finish_if_all_are_done()

    def _let_in(self, sender: str, hello: Hello) -> None:
        member = self.session.members[hello.task]
        self._outbox.append(Envelope(sender, Welcome(self.session.identity.run_id, self._round.number)))
        member.round = hello.round
        self._catch_up.redo(hello.round)
        member.durable.lower_to(hello.round)  # below it, it has nothing of what it had
        before = member.address
        self.session.admit(sender, hello)
        if before == sender:
            return
        if before:
            self._former[before] = hello.task
        self._known = hello.feature_digest
        self._events.append(Joined(hello.task))
        difference = self.session.identity.difference(hello, self.session.names[hello.task], me=ME)
        if difference:
            self._events.append(Warned(difference))
        if math.isfinite(self._join_by) and not self._not_joined():
            self._all_are_here()
            self._close_if_complete()
        self._tell_open([hello.task])
        if hello.round >= self._round.number:
            self._is_behind(hello.task, hello.round)

    def _all_are_here(self) -> None:
        self._join_by = math.inf
        self._round.opened_at = self._now  # the wait of those who came early is over
        if self._round.contributions:
            self._set_deadline()
        self._stall.start(self._now)

    def _lost_what_it_had(self, hello: Hello) -> str | None:
        """Which of the two has lost what it had, as it was started anew without a snapshot; None where they can go on
        together."""
        if not self._push_layout:
            return None
        if hello.round > self._round.number and not 0 < hello.kept_from <= self._round.number:
            return ME
        # Of rounds that were closed without it, it needs nothing.
        if hello.round >= min(self.history.forgotten, self.session.members[hello.task].durable.before):
            return None
        return self.session.names[hello.task]

    def _cannot_go_on(self, task: int, why: str, *, ours: bool) -> None:
        """A worker that was refused and the reducer cannot go on together: one of them has lost what it had."""
        if ours and math.isfinite(self._join_by):
            # Not at once: all are told why, and need not wait for us until lost_s.
            if self.session.tell_lost(task, why):
                self._join_by = min(self._join_by, self._now + self._timeouts.linger_s)
            if all(map(self.session.knows_lost, self.session.members)):
                self._end_run(why)
        elif not ours and self.session.members[task].ended is None and not self._policy.proceeds:
            self._end_run(why)

    def _go_on_without(self, tasks: Sequence[int]) -> None:
        """Policy proceed: these are waited for no more, until they are back."""
        for task in tasks:
            if self.session.members[task].ended is None:
                self._absent.add(task)
                self._round.awaited.discard(task)
                self._events.append(Absent(task, self.session.names[task], self._round.number))
        if all(map(self._is_gone, self.session.members)):
            self._end_run("no task is left")
        self._finish_if_all_are_done()
        if not self.finished:
            self._close_if_complete()

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

    def _on_goodbye(self, task: int, goodbye: Goodbye) -> None:
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
        self._close_if_complete()
        self._finish_if_all_are_done()

    def _confirm(self, task: int) -> None:
        self.session.members[task].confirmed = True
        self._unsure.discard(task)
        self._outbox.append(Envelope(self.session.members[task].address, GoodbyeAck()))

    def _finish_if_all_are_done(self) -> None:
        for task, member in self.session.members.items():
            if not self._is_gone(task) and not (member.ended is not None and member.confirmed):
                return
        if self._unsure or not any(member.ended is not None for member in self.session.members.values()):
            return
        self._stall.stop()
        self._enter(ReducerState.FINISHED)

    def _tell_all(self, why: str) -> None:
        for member in self.session.members.values():
            if member.address and member.ended is None:
                self._outbox.append(Envelope(member.address, Reject(why)))

    def _not_joined(self) -> list[int]:
        return [task for task, member in self.session.members.items() if self._is_missing(task, member)]

    def _is_missing(self, task: int, member: StarMember) -> bool:
        return not member.address and member.ended is None and task not in self._absent

    @property
    def _waits(self) -> bool:
        # Tasks that never push (Local) keep nobody waiting while they learn, nor does one before any has an example.
        begun = bool(self._round.contributions) or not self._live
        return math.isfinite(self._join_by) or (bool(self._push_layout) and begun)

    def _awaited(self) -> tuple[list[int], str]:
        """(tasks that it waits for now, what they are to do)."""
        if missing := self._not_joined():
            return missing, " to join"
        if self._round.awaited:
            return sorted(self._round.awaited), ""
        return [task for task, member in self.session.members.items() if member.ended is None], " to finish"

    # What its rounds say

    def _is_behind(self, task: int, t: int) -> None:
        """A task is in round t already."""
        raise NotImplementedError

    def _tell_open(self, tasks: Iterable[int]) -> None:
        """These may be waiting for an example, while others have one."""
        raise NotImplementedError

    def _set_deadline(self) -> None:
        """Of the open round, from now on."""
        raise NotImplementedError

    def _close_if_complete(self) -> bool:
        """Whether the open round was."""
        raise NotImplementedError
