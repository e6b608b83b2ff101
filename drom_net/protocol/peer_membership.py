"""Which of its neighbors a peer has: they join, are lost and come back, and say goodbye."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from drom_net.algorithms.base import Contribution, SyncRounds
from drom_net.core.errors import RejectedError
from drom_net.graph.neighborhood import Neighborhood
from drom_net.learning.task import TaskLearner, TaskResult
from drom_net.protocol.barrier import KEPT_AHEAD, Barrier
from drom_net.protocol.handshake import Identity
from drom_net.protocol.history import ContributionHistory
from drom_net.protocol.hub import Hub
from drom_net.protocol.messages import (
    Goodbye,
    GoodbyeAck,
    Hello,
    Message,
    Reject,
    Resend,
    Welcome,
)
from drom_net.protocol.node import (
    ConnectionChanged,
    Envelope,
    Joined,
    Learns,
    Snapshot,
    Warned,
    named,
)
from drom_net.protocol.session import Member, Session, address_of
from drom_net.protocol.settings import Checkpoints, Policy, Timeouts
from drom_net.protocol.states import PeerState
from drom_net.protocol.timers import Wait

_ENDED = " ended the run: "


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
    latest: int = 0
    """The latest sync round of which one came."""
    last: int | None = None
    """The sync round of its last one, once that is known."""
    done: bool = False
    """Its goodbye has come: it needs nothing more."""
    is_durable: bool = False
    """And that is on disk."""
    confirmed: bool = False
    """It has all of our contributions that it needs."""


class PeerMembership(Learns, Hub[Neighbor]):
    """A peer, but for its rounds."""

    state: PeerState

    def __init__(
        self,
        learner: TaskLearner,
        hello: Hello,
        *,
        names: Sequence[str],
        neighborhood: Neighborhood,
        identity: Identity,
        timeouts: Timeouts,
        policy: Policy,
        checkpoints: Checkpoints | None,
        snapshot: Snapshot | None,
    ) -> None:
        members = {
            task: Neighbor(address_of(task), connects=False) if task < hello.task else Neighbor()
            for task in neighborhood.neighbors
        }
        session = Session(members, names, identity, me=names[hello.task], answer_s=timeouts.duplicate_probe_s)
        super().__init__(session, timeouts=timeouts, policy=policy, checkpoints=checkpoints, snapshot=snapshot)
        self.state = PeerState.JOINING
        self.result: TaskResult | None = None
        self.round = 0
        """The last round that was begun."""
        self.neighborhood = neighborhood
        self.history = ContributionHistory(neighborhood, kept_for_each=KEPT_AHEAD)
        self.barrier = Barrier(neighborhood, members)
        self._learner = learner
        self._hello = hello
        self._waiting = Wait(timeouts)
        self._give_up_at = math.inf
        self._ended = False

    @property
    def _known_features(self) -> str:
        return self.session.identity.feature_digest

    @property
    def _current_round(self) -> int:
        return self.round

    @property
    def _task(self) -> int:
        return self.neighborhood.task

    @property
    def _sync(self) -> SyncRounds:
        return self._learner.algorithm.sync

    @property
    def finished(self) -> bool:
        return self.state is PeerState.FINISHED

    @property
    def num_connected(self) -> int:
        """How many neighbors are here."""
        return sum(neighbor.joined and not neighbor.down for neighbor in self.session.members.values())

    def start(self, now: float) -> None:
        self._now = now
        self.durability.start(now)
        self._wait(PeerState.JOINING, now)
        self._give_up_at = now + self._timeouts.join_s
        for task in self.session.members:
            if task < self._task:
                self._send(task, self._introduction(task))
        if self.round == self._learner.last_round and self.durability.has_end(self.round):
            # An earlier incarnation has said goodbye: some may be gone.
            self._say_goodbye(now)
        self._begin_if_all_are_here()

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
                self._send(task, self._introduction(task))
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
            self._send(task, self._introduction(task))

    def snapshot_persisted(self, now: float) -> None:
        self._now = now
        super().snapshot_persisted(now)
        self._finish_if_all_have_confirmed()

    def _introduction(self, task: int) -> Hello:
        return dataclasses.replace(self._hello, round=self.round, kept_from=self.history.first_for(task))

    def _let_in(self, sender: str, hello: Hello) -> None:
        neighbor, name = self.session.members[hello.task], self.session.names[hello.task]
        if neighbor.address not in ("", sender):  # the connection of an earlier incarnation
            neighbor.joined = False
        self.session.admit(sender, hello)
        self._send(hello.task, Welcome(self.session.identity.run_id, self.round))
        neighbor.round = 0  # it may have gone back; below it is noted anew
        neighbor.durable.lower_to(hello.round)  # below it, it has nothing of what it had
        difference = self.session.identity.difference(hello, name, me=self.session.me)
        if difference and not neighbor.joined:
            self._events.append(Warned(difference))
        self._on_joined(hello.task)
        self._note_behind(hello.round)
        self._note_round(hello.task, hello.round)
        self._remind(hello.task)

    def _lost_what_it_had(self, hello: Hello) -> str | None:
        """Which of a neighbor that says hello and this peer has lost what it had; None where they can go on together.

        It was started anew without a snapshot: it would have to know, or to hear again, what is gone.
        """
        hood, neighbor, name = self.neighborhood, self.session.members[hello.task], self.session.names[hello.task]
        if self._policy.proceeds:
            return name if hello.round < neighbor.durable.before else None  # other contributions are done without
        comes_back = hello.incarnation > neighbor.incarnation and self.durability.active
        has_met = neighbor.latest or neighbor.done or self.history.contributions
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

    def _not_joined(self) -> list[int]:
        wanted = {task: entry for task, entry in self.session.members.items() if not entry.done and not entry.absent}
        return [task for task, entry in wanted.items() if not entry.joined]

    def _say_goodbye(self, now: float) -> None:
        self.result = self._learner.result()
        self._note_times(self.round, now, now, now)
        self._send_last_contribution()
        self._ended = True
        self.durability.due = self.durability.due or self.durability.lacks_end(self.round)
        self.holding = self._must_hold()
        self._wait(PeerState.FINISHING, now)
        self._give_up_at = now + self._linger_s
        self.session.lost_until.clear()  # this wait has a bound of its own
        for task, neighbor in self.session.members.items():
            if not neighbor.confirmed:
                self._send(task, self._goodbye())
        self._finish_if_all_have_confirmed()

    @property
    def _linger_s(self) -> float:
        """How long to wait for neighbors once all is done; one that is started again needs our last contributions."""
        down = any(entry.down and not entry.confirmed and not entry.absent for entry in self.session.members.values())
        return max(self._timeouts.linger_s, self._timeouts.lost_s) if down else self._timeouts.linger_s

    def _goodbye(self) -> Goodbye:
        assert self.result is not None
        last = self._sync.last(self.round) if self.history.last is None else self.history.last
        return Goodbye(last, self.result.chain, self.result.totals)

    def _remind(self, task: int) -> None:
        """A neighbor that was started anew has not heard our goodbye, nor perhaps the contributions before it."""
        if self.state is PeerState.FINISHING and not self.session.members[task].confirmed:
            self._send(task, self._goodbye())

    def _on_goodbye(self, task: int, last: int) -> None:
        neighbor = self.session.members[task]
        if missing := self._not_come(task, last):
            # Its goodbye was faster than its last contributions, or they were lost: once we confirm it, it may be gone.
            for t in missing:
                self._send(task, Resend(t))
            return
        if neighbor.last is None:
            neighbor.last = last
            self._look_for_contributions()
        neighbor.done = neighbor.confirmed = True  # who needs nothing more need not confirm our goodbye: it may be gone
        if self.durability.active and not neighbor.is_durable:
            self.durability.owe(task)
        else:
            self._confirm(task)
        self._close_round_if_complete()
        self._finish_if_all_have_confirmed()

    def _confirm(self, task: int) -> None:
        self.session.members[task].is_durable = True
        self._send(task, GoodbyeAck())

    def _finish_if_all_have_confirmed(self) -> None:
        if (
            self.state is PeerState.FINISHING
            and not self.durability.owes
            and not self.holding
            and all(
                entry.confirmed or (entry.absent and (entry.down or not entry.joined))
                for entry in self.session.members.values()
            )
        ):
            self._enter(PeerState.FINISHED)

    def _send(self, task: int, message: Message) -> None:
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
                self._send(task, self._introduction(task))
            else:
                self._remind(task)
        if self.state is PeerState.WAITING:
            for task, s in self.barrier.missing.items():
                self._send(task, Resend(s))
        self._waiting.asked_at = self._now

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
        if self.state is PeerState.JOINING and self._policy.proceeds:
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

    def _tell_all(self, why: str) -> None:
        for task, neighbor in self.session.members.items():
            if neighbor.joined and not neighbor.confirmed:
                self._send(task, Reject(why))

    def _awaited(self) -> tuple[list[int], str]:
        """(neighbors that it waits for now, what they are to do)."""
        if self.state is PeerState.JOINING:
            return self._not_joined(), " to join"
        if self.state is PeerState.WAITING:
            return list(self.barrier.missing), ""
        return [task for task, neighbor in self.session.members.items() if not neighbor.confirmed], " to confirm"

    @property
    def num_overdue(self) -> int:
        """How many neighbors it has waited for for longer than stall_s, or goes on without."""
        waits = self.state is not PeerState.STEPPING and self._waiting.stall.has_asked
        absent = [task for task, entry in self.session.members.items() if entry.absent]
        return len({*absent, *(self._awaited()[0] if waits else ())})

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
            self._send(task, Resend(s))

    def _not_come(self, task: int, last: int) -> list[int]:
        """A neighbor's sync rounds up to its last one whose contributions will be used and are not here: a few."""
        if self.state in (PeerState.FINISHING, PeerState.FINISHED):
            return []
        return self.barrier.not_come(task, last, self._learner.last_round)

    # What its rounds say

    def _begin_if_all_are_here(self) -> None:
        raise NotImplementedError

    def _look_for_contributions(self) -> None:
        """What was learned of a neighbor's last one may change whose is missing."""
        raise NotImplementedError

    def _close_round_if_complete(self) -> None:
        raise NotImplementedError

    def _send_last_contribution(self) -> None:
        """Behind its last round, where that is not a sync round."""
        raise NotImplementedError
