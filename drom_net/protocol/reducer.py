"""The reducer: lets workers in, collects each sync round's pushes, runs the central step, answers everybody."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from drom_net.algorithms.base import Contribution, ContributionKind
from drom_net.errors import ClusterError
from drom_net.learning import Centre
from drom_net.protocol.handshake import Identity
from drom_net.protocol.messages import (
    Farewell,
    Goodbye,
    Hello,
    Introduce,
    Message,
    Pull,
    Push,
    Reject,
    Resend,
    Welcome,
)
from drom_net.protocol.node import (
    Asking,
    ConnectionChanged,
    Ended,
    Envelope,
    Joined,
    Refused,
    Snapshot,
    Stalled,
    Tray,
    Warned,
    named,
)
from drom_net.protocol.settings import Timeouts

_ME = "the reducer"


class ReducerState(enum.Enum):
    COLLECTING = "collecting"
    """Waiting for workers, for their pushes or for their goodbyes."""
    FINISHED = "finished"


@dataclass(slots=True)
class _Member:
    """What the reducer knows of one task."""

    address: str = ""
    """Where it speaks from; empty until it has joined."""
    incarnation: int = 0
    """That of its Hello."""
    down: bool = False
    """Its connection is lost now."""
    pull: Pull | None = None
    """What it was answered last; a task that has ended may ask for it when the round is long over."""
    ended: Ended | None = None


@dataclass(slots=True)
class _Round:
    number: int
    opened_at: float
    awaited: set[int]
    """Tasks that have not answered yet."""
    contributions: dict[int, Contribution] = field(default_factory=dict)


class Reducer(Tray):
    """The centre of a star as a node."""

    def __init__(
        self,
        centre: Centre,
        names: Sequence[str],
        identity: Identity,
        *,
        push_vectors: int,
        timeouts: Timeouts,
        keeps_snapshots: bool = False,
        snapshot: Snapshot | None = None,
    ) -> None:
        """
        Args:
            names: The tasks' names, in task order.
            push_vectors: How many vectors a contribution carries.
            snapshot: What an earlier incarnation has left, to go on from.
        """
        super().__init__()
        self.state = ReducerState.COLLECTING
        self.names = tuple(names)
        self._centre = centre
        self._identity = identity
        self._feature_digest = identity.feature_digest
        self._push_vectors = push_vectors
        self._timeouts = timeouts
        self._members = [_Member() for _ in names]
        self._task_at: dict[str, int] = {}
        self._round = _Round(1, 0.0, set())
        self._stall = Asking(timeouts.stall_s, math.inf)
        self._join_by = math.inf
        self._lost_all = ""
        """That it was started anew in the middle of a run, and cannot go on; empty where it was not."""
        self._told_so: set[int] = set()
        """Tasks that have been told so."""
        self._pushing = set(range(len(self._members)))
        """Tasks that take part in sync rounds: all until their last push."""
        self._lost: dict[int, float] = {}
        """Tasks whose connection is down, and when the run is given up for it."""
        self._round_end: Snapshot | None = None
        """The centre's part of a snapshot, as of the last round that was closed."""
        self._changed = False
        if snapshot is not None:
            self._restore(snapshot)
        if keeps_snapshots:
            self._keep_round_end()

    @property
    def finished(self) -> bool:
        return self.state is ReducerState.FINISHED

    @property
    def max_vectors(self) -> int:
        return self._push_vectors

    @property
    def last_sigma(self) -> float:
        """sigma_1 of the last central step."""
        return self._centre.last_sigma

    @property
    def closed_rounds(self) -> int:
        return self._round.number - 1

    @property
    def central_chain(self) -> bytes:
        return self._centre.chain

    @property
    def ended(self) -> list[Ended | None]:
        """What each task ended with, in task order; None where its goodbye has not come."""
        return [member.ended for member in self._members]

    @property
    def num_connected(self) -> int:
        """How many tasks are here."""
        return sum(bool(member.address) and not member.down for member in self._members)

    @property
    def num_overdue(self) -> int:
        """How many tasks it has waited for for longer than stall_s."""
        return len(self._awaited()[0]) if self._stall.has_asked and self._waits else 0

    def task_at(self, address: str) -> int | None:
        """Which task speaks from this address."""
        return self._task_at.get(address)

    def start(self, now: float) -> None:
        self._join_by = now + self._timeouts.join_s
        self._open_round(self._round.number, now)

    def receive(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Hello):
            self._on_hello(sender, message, now)
            return
        task = self._task_at.get(sender)
        if task is None:
            self._outbox.append(Envelope(sender, Introduce()))
            self._events.append(Refused(sender, f"a {type(message).__name__} before a Hello"))
            return
        match message:
            case Push(round=t, contribution=contribution):
                self._on_push(task, t, contribution, now)
            case Resend(round=t):
                self._on_resend(task, t)
            case Goodbye():
                self._on_goodbye(task, message, now)
            case _:
                self._refuse(task, f"a {type(message).__name__} is nothing a worker says")

    def on_timer(self, now: float) -> None:
        if now >= self._join_by and self._lost_all:
            self._give_up(self._lost_all)
        if now >= self._join_by:
            missing = named(self.names, self._not_joined())
            self._give_up(f"{missing} did not join within {self._timeouts.join_s:g} s (timeouts.join_s)")
        for task, give_up_at in self._lost.items():
            if now >= give_up_at:
                self._give_up(
                    f"lost {self.names[task]} in round {self._round.number}: "
                    f"disconnected for {self._timeouts.lost_s:g} s (timeouts.lost_s)"
                )
        if self._stall.ask(now) and self._waits:
            self._events.append(Stalled(self._round.number, self._waiting_for(), now - self._round.opened_at))

    def took_until(self, now: float) -> None:
        pass

    def next_timer(self) -> float:
        return min(self._join_by, self._stall.due, *self._lost.values())

    def on_connection(self, address: str, connected: bool, now: float) -> None:
        task = self._task_at.get(address)
        if task is None:
            return
        self._members[task].down = not connected
        if self._members[task].ended is not None or connected == (task not in self._lost):
            return
        if connected:
            del self._lost[task]
        else:
            self._lost[task] = now + self._timeouts.lost_s
        self._events.append(ConnectionChanged(self.names[task], connected))

    def stop(self) -> None:
        self._tell_all("it was stopped")
        self.state = ReducerState.FINISHED

    def take_records(self) -> bytes:
        return self._centre.take_records()

    def take_times(self) -> bytes:
        return b""

    def take_snapshot(self) -> Snapshot | None:
        if not self._changed or self._round_end is None:
            return None
        self._changed = False
        members = [(member.pull, member.ended) for member in self._members]
        return self._round_end | {"members": members, "pushing": set(self._pushing)}

    def _keep_round_end(self) -> None:
        self._changed = True
        self._round_end = {"number": self._round.number, "centre": self._centre.snapshot()}

    def _restore(self, snapshot: Snapshot) -> None:
        self._round.number = snapshot["number"]
        self._centre.restore(snapshot["centre"])
        self._pushing = set(snapshot["pushing"])
        for member, (pull, ended) in zip(self._members, snapshot["members"], strict=True):
            member.pull, member.ended = pull, ended

    # Joining

    def _on_hello(self, sender: str, hello: Hello, now: float) -> None:
        reason, who = self._why_not(sender, hello)
        if reason:
            self._outbox.append(Envelope(sender, Reject(reason)))
            self._events.append(Refused(sender, reason))
            if who is not None:
                self._cannot_go_on(hello.task, reason, now, ours=who == _ME)
            return
        self._outbox.append(Envelope(sender, Welcome(self._identity.run_id)))
        member = self._members[hello.task]
        if member.address == sender:
            member.incarnation = hello.incarnation
            return  # a Hello that was said twice
        if member.address:  # the connection of an earlier incarnation
            del self._task_at[member.address]
            self._lost.pop(hello.task, None)
        member.address, member.incarnation, member.down = sender, hello.incarnation, False
        self._task_at[sender] = hello.task
        self._feature_digest = hello.feature_digest
        self._events.append(Joined(hello.task))
        difference = self._identity.difference(hello, self.names[hello.task], me=_ME)
        if difference:
            self._events.append(Warned(difference))
        if math.isfinite(self._join_by) and not self._not_joined():
            self._join_by = math.inf
            self._round.opened_at = now  # the wait of those who came early is over
            self._stall.start(now)

    def _why_not(self, sender: str, hello: Hello) -> tuple[str, str | None]:
        """(why a worker may not join; empty when it may, who of the two was started anew, if it is that)."""
        why_not = self._identity.disagreement(hello, self.names, me=_ME, feature_digest=self._feature_digest)
        if why_not:
            return why_not, None
        name = self.names[hello.task]
        member = self._members[hello.task]
        # Only where nodes come back with what they had may a later one take the place of one that is there.
        comes_back = hello.incarnation > member.incarnation and self._round_end is not None
        if member.address not in ("", sender) and not member.down and not comes_back:
            return f"{name} is already here", None
        if member.address != sender and (who := self._started_anew(hello)):  # else it was said long ago, or again
            rounds = f"{name} is in round {hello.round}, the reducer in round {self._round.number}"
            return f"{rounds}: {who} was started anew, and what it had is lost", who
        known = self._task_at.get(sender, hello.task)
        if known != hello.task:
            return f"it has joined as {self.names[known]} and cannot be {name} too", None
        return "", None

    def _started_anew(self, hello: Hello) -> str | None:
        """Which of the two has lost what it had, as it was started anew without a snapshot; None where they can go on
        together."""
        begun, name = self._round.number, self.names[hello.task]
        if self._push_vectors and hello.round > begun:
            return _ME
        # Who goes on from a snapshot may have lost the round of its last push: of that the pull is kept, or comes.
        pull = self._members[hello.task].pull
        heard = begun if hello.task in self._round.contributions else pull.round if pull else 0
        if self._push_vectors and hello.round + 1 < heard:
            return name
        return None

    def _cannot_go_on(self, task: int, why: str, now: float, *, ours: bool) -> None:
        """A worker that was refused and the reducer cannot go on together: one of them has lost what it had."""
        if ours and math.isfinite(self._join_by):
            # Not at once: all are told why, and need not wait for us until lost_s.
            if not self._lost_all:
                self._lost_all = why
                self._join_by = min(self._join_by, now + self._timeouts.linger_s)
            self._told_so.add(task)
            if len(self._told_so) == len(self._members):
                self._give_up(why)
        elif not ours and self._members[task].ended is None:
            self._give_up(why)

    # Rounds

    def _on_push(self, task: int, t: int, contribution: Contribution, now: float) -> None:
        current = self._round
        if t != current.number or task in current.contributions:
            if t > current.number:
                self._refuse(task, f"a push for round {t}; this is round {current.number}")
            return  # a push that was sent twice
        if task not in current.awaited:
            self._refuse(task, f"a push for round {t} after its last one")
            return
        if contribution.kind is ContributionKind.VECTORS and len(contribution.vectors) != self._push_vectors:
            self._refuse(task, f"a push of {len(contribution.vectors)} vectors; expected {self._push_vectors}")
            return
        current.contributions[task] = contribution
        current.awaited.discard(task)
        self._close_round_if_complete(now)

    def _close_round_if_complete(self, now: float) -> None:
        current = self._round
        if current.awaited or not current.contributions:
            return
        in_order = {task: current.contributions[task] for task in sorted(current.contributions)}
        replies = self._centre.reduce(current.number, in_order)
        for task, reply in replies.items():
            member = self._members[task]
            member.pull = Pull(current.number, reply)
            if in_order[task].last:
                self._pushing.discard(task)
            self._outbox.append(Envelope(member.address, member.pull))
        self._open_round(current.number + 1, now)
        if self._round_end is not None:
            self._keep_round_end()

    def _open_round(self, number: int, now: float) -> None:
        self._round = _Round(number, now, set(self._pushing))
        self._stall.start(now)

    def _on_resend(self, task: int, t: int) -> None:
        member = self._members[task]
        if member.pull is not None and t == member.pull.round:
            self._outbox.append(Envelope(member.address, member.pull))
        elif t == self._round.number and task not in self._round.contributions:
            self._outbox.append(Envelope(member.address, Resend(t)))
        # Otherwise we wait for others, or the question was a late one.

    def _on_goodbye(self, task: int, goodbye: Goodbye, now: float) -> None:
        member = self._members[task]
        if member.ended is None:
            member.ended = Ended(goodbye.rounds, goodbye.chain, goodbye.totals)
            self._changed = True
            self._lost.pop(task, None)
            self._pushing.discard(task)
            self._round.awaited.discard(task)
        self._outbox.append(Envelope(member.address, Farewell()))
        if all(member.ended is not None for member in self._members):
            self._stall.stop()
            self.state = ReducerState.FINISHED
        else:
            self._close_round_if_complete(now)

    # Trouble

    def _refuse(self, task: int, reason: str) -> None:
        self._events.append(Refused(self.names[task], reason))

    def _give_up(self, why: str) -> None:
        self._tell_all(why)
        raise ClusterError(f"the run is given up: {why}")

    def _tell_all(self, why: str) -> None:
        for member in self._members:
            if member.address and member.ended is None:
                self._outbox.append(Envelope(member.address, Reject(why)))

    def _not_joined(self) -> list[int]:
        return [task for task, member in enumerate(self._members) if not member.address and member.ended is None]

    @property
    def _waits(self) -> bool:
        # Tasks that never push (Local) keep nobody waiting while they learn.
        return math.isfinite(self._join_by) or bool(self._push_vectors)

    def _waiting_for(self) -> str:
        tasks, what = self._awaited()
        return named(self.names, tasks) + what

    def _awaited(self) -> tuple[list[int], str]:
        """(tasks that it waits for now, what they are to do)."""
        if missing := self._not_joined():
            return missing, " to join"
        if self._round.awaited:
            return sorted(self._round.awaited), ""
        return [task for task, member in enumerate(self._members) if member.ended is None], " to finish"
