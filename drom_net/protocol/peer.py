"""The peer: a worker that is the centre of its own neighborhood; it talks to its neighbors and to nobody else.

In every sync round of its own a peer sends its contribution to the neighbors that will use it, and waits for theirs
that count then (`Neighborhood` knows which). Its own half of the central step then gives the correction that
it uses from the next round on. Of equal tau, two neighbors that both go on are never more than one sync round apart
(two where the exchange is delayed), which bounds what is kept of either side; past a neighbor that has ended, or
without one that is absent, the other runs ahead freely.

After a crash a peer goes on from its last snapshot, and its neighbors send again what they have sent since: so each
keeps its contributions until those who use them have kept (on disk) what they made of them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy.typing as npt

from drom_net.algorithms.base import IDLE, NO_LONGER_KEPT, NO_REPLY, ContributionKind, Reply
from drom_net.algorithms.features import other_than
from drom_net.graph.neighborhood import Neighborhood
from drom_net.learning.records import TASK_DTYPE, central_dtype
from drom_net.learning.task import Centre, Outgoing, TaskLearner
from drom_net.protocol.arrivals import Arrivals
from drom_net.protocol.barrier import KEPT_AHEAD
from drom_net.protocol.handshake import Identity
from drom_net.protocol.history import Asker, Watermark
from drom_net.protocol.messages import (
    Goodbye,
    GoodbyeAck,
    Hello,
    Message,
    Push,
    Reject,
    RequestHello,
    Resend,
    Welcome,
)
from drom_net.protocol.node import (
    TIMES_DTYPE,
    Absent,
    Late,
    Pace,
    Returned,
    Snapshot,
    Stalled,
    is_close,
    named,
    no_delay,
)
from drom_net.protocol.peer_membership import PeerMembership
from drom_net.protocol.settings import WAIT, Checkpoints, Policy, Timeouts
from drom_net.protocol.states import PeerState

_NO_LONGER_KEPT = ContributionKind.NO_LONGER_KEPT


class Peer(PeerMembership):
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
        pace: Pace = no_delay,
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
        super().__init__(
            learner,
            hello,
            names=names,
            neighborhood=neighborhood,
            identity=identity,
            timeouts=timeouts,
            policy=policy,
            checkpoints=checkpoints,
            snapshot=snapshot,
        )
        self._centre = centre
        self._push_layout = push_layout
        self._exchange = exchange
        self._rounds = rounds
        self._arrivals = Arrivals(learner, pace)
        self._predicted = False
        """The next round's first half is done already (exchange: overlap)."""
        self.history.last = self._sync.last_contribution(learner.last_round, rounds)
        if snapshot is not None:
            self._restore(snapshot)

    @property
    def max_vectors(self) -> int:
        return sum(self._push_layout)

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

    def _on_message(self, task: int, message: Message) -> None:
        neighbor = self.session.members[task]
        if not neighbor.joined and isinstance(message, Welcome | Push | Resend | Goodbye):
            self._on_joined(task)  # it would not speak to us, had it not let us in: its Welcome may be lost
        neighbor.spoke_at = self._now
        if type(message) is Push:
            self._on_push(task, message)
            return
        match message:
            case Resend(round=t):
                if self._learner.is_live:
                    self._open(t)
                self._send_again(task, t)
                if self.state is PeerState.FINISHING:  # it is there, and not done: it will need more
                    self._give_up_at = self._now + self._linger_s
                    self._waiting.retry.start(self._now)
            case RequestHello(question=question):
                # It was started anew, or somebody else says that it is this task.
                self._send(task, dataclasses.replace(self._introduction(task), answers=question))
            case Welcome(round=t):
                self._note_behind(t)
                self._note_round(task, t)
                self._remind(task)
            case Goodbye(rounds=last):
                self._on_goodbye(task, last)
            case GoodbyeAck():
                neighbor.confirmed = True
                self._finish_if_all_have_confirmed()
            case Reject(reason=reason):
                self._rejected(task, reason)
            case _:
                self._refuse(task, f"a {type(message).__name__} is nothing a peer says")

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
        self._give_up_lost(now)
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

    def busy_until(self, now: float) -> None:
        if self.state is PeerState.WAITING:
            self._waiting.busy_until(self._now, now)
        self._now = now

    def next_timer(self) -> float:
        if self.state is PeerState.STEPPING:
            if self.holding:
                return math.inf
            if (begins_at := self._begins_at) <= self._now:
                return self._now
            return min(begins_at, self._give_up_at, self.session.first_lost_at, self.session.probe.due)
        ready = max(self._now, self._arrivals.next_at) if self._may_go_ahead() else math.inf
        waits = (self._waiting.due, self._give_up_at, self.session.first_lost_at)
        return min(ready, *waits, self.barrier.deadline, self.session.probe.due)

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
        central = central_dtype(len(self.neighborhood.closed_neighborhood))
        return {"records": TASK_DTYPE, "central": central, "times": TIMES_DTYPE}

    @property
    def recorded(self) -> dict[str, int]:
        """Where a snapshot may be taken, or was: the round of the last row of each."""
        # A central step has the round of its contributions: with a delayed exchange an earlier one than its own.
        return {"records": self.round, "central": self.barrier.closed, "times": self.round}

    def take_central_records(self) -> bytes:
        """The rows of its own central steps since the last call, as records.central_dtype."""
        return self._centre.take_records()

    def take_snapshot(self) -> Snapshot | None:
        """Between rounds: not while it waits for the contributions of an open sync round."""
        if not self.durability.due or self.state is PeerState.WAITING or self.durability.busy:
            return None
        self.durability.taken(self.round, at_end=self._ended)
        return {
            "round": self.round,
            "ended": self._ended,
            "closed": self.barrier.closed,
            "predicted": self._predicted,
            "contributions": dict(self.history.contributions),
            "learner": self._learner.snapshot(),
            "centre": self._centre.snapshot(),
            "durable": {
                task: (entry.durable.latest, entry.durable.before) for task, entry in self.session.members.items()
            },
            "neighbors": {
                task: (dict(entry.contributions), entry.used, entry.latest, entry.last, entry.done, entry.absent)
                for task, entry in self.session.members.items()
            },
        }

    def _must_hold(self) -> bool:
        if self._ended:
            return self.durability.lacks_end(self.round)
        return self.durability.must_hold

    def _restore(self, snapshot: Snapshot) -> None:
        self.round, self.barrier.closed, self._predicted = snapshot["round"], snapshot["closed"], snapshot["predicted"]
        self.history.restore(snapshot["contributions"], self.round)
        self._learner.restore(snapshot["learner"])
        self._centre.restore(snapshot["centre"])
        for task, (durable, before) in snapshot["durable"].items():
            self.session.members[task].durable = Watermark(durable, before)
        for task, (contributions, used, latest, last, done, absent) in snapshot["neighbors"].items():
            entry = self.session.members[task]
            entry.contributions, entry.used, entry.latest, entry.last = dict(contributions), used, latest, last
            entry.done = entry.is_durable = done
            # At our own end it may not know yet that it has all of our contributions: it is told once more.
            entry.confirmed = done and self.round < self._learner.last_round
            entry.absent = absent

    def _begin_if_all_are_here(self) -> None:
        if self.state is PeerState.JOINING and not self._not_joined():
            self._give_up_at = self._waiting.retry.due = math.inf
            self._enter(PeerState.STEPPING)
            self._note_times(self._sync.last(self.round), self._now, self._now, self._now)
            if not self._predicted:
                self._await_example()

    def _step(self, now: float) -> None:
        if self.round == self._learner.last_round:
            self._say_goodbye(now)
            return
        if self.durability.is_too_far(self.round + 1):
            self.durability.due = self.durability.due or not self.durability.busy
            self.holding = True
            return
        self.round += 1
        if not self._predicted:
            self._learner.predict_first(self.round)
        self._predicted = False
        if self._learner.is_live:  # it may have come to its end
            self.history.last = self._sync.last_contribution(self._learner.last_round, self._rounds)
        contribution = self._learner.then_update(self.round)
        if not self._sync.at(self.round):
            self._learner.end(self.round)
            self._await_example()
            self.durability.close(self.round, self._now)
            return
        self._send_contribution(self.round, self._learner.outgoing(contribution, self.round))
        self.barrier.wanted = self._sync.last(self.round - 1) if self._exchange == "delayed" else self.round
        self._wait(PeerState.WAITING, now)
        # What was closed before a crash is closed with the same again.
        redone = self._catch_up.redoes(self.round)
        self.barrier.deadline = math.inf if redone else now + self._policy.deadline_s
        self._look_for_contributions()
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

    def _send_contribution(self, t: int, contribution: Outgoing) -> None:
        self.history.add(t, contribution)
        most = self.durability.most if self._policy.may_miss else None
        self.history.forget(self._sync.last(t - 1), self._askers, most)
        # News of this very round are news to all.
        to_all = (
            Push(t, contribution.news, self.durability.durable)
            if contribution.since >= t and not contribution.recipients
            else None
        )
        for task, neighbor in self.session.members.items():
            if (neighbor.last is None or neighbor.last >= t) and self.history.is_for(task, t):
                self._send(task, to_all or self.history.push(task, t, self.durability.durable))

    def _send_last_contribution(self) -> None:
        if self.history.last is not None and self.history.last > self.round:
            self._send_contribution(
                self.history.last, self._learner.outgoing(IDLE._replace(last=True), self.history.last)
            )

    def _send_again(self, task: int, t: int) -> None:
        """A neighbor asks for a contribution, perhaps for one behind our last, which it does not know to be that."""
        if self.history.last is not None and t > self.history.last:
            t = self.history.last
        self._note_round(task, t)
        if not self.history.is_for(task, t):
            return
        if t in self.history.contributions:
            self._send(task, self.history.push(task, t, self.durability.durable))
        elif self._policy.may_miss and t <= self.history.latest_forgotten:
            self._send(task, Push(t, NO_LONGER_KEPT, self.durability.durable))

    def _askers(self) -> list[Asker]:
        delayed = self._exchange == "delayed"
        return [
            self.history.asked_by(task, entry.durable.before, entry.last, delayed=delayed)
            for task, entry in self.session.members.items()
            if not entry.done
        ]

    def _on_push(self, task: int, push: Push) -> None:
        neighbor, (t, contribution, durable) = self.session.members[task], push
        neighbor.durable.raise_to(self.durability.believed(t, durable))
        if contribution.kind is _NO_LONGER_KEPT:
            if self._policy.may_miss and self.barrier.missing.get(task) == t:
                self._pass_over([task])
            return
        if t > neighbor.round:
            neighbor.round = t
        if neighbor.absent and is_close(self.neighborhood.syncs[task], t, self.round):
            neighbor.absent = False
            self._events.append(Returned(task, self.session.names[task], self.round))
        if t <= neighbor.used or t in neighbor.contributions:
            return  # a push that was sent twice, or that came too late
        syncs = self.neighborhood.syncs[task]
        expected = syncs.at(t) and (contribution.last or self.neighborhood.uses(task, t))
        if not expected or (neighbor.last is not None and t > neighbor.last):
            self._refuse(task, f"a push for round {t}, in which it has nothing to say")
            return
        if len(neighbor.contributions) >= KEPT_AHEAD and self.barrier.missing.get(task) != t:
            if self._policy.may_miss:
                return  # we are far behind, and will ask for it when we get there
            self._refuse(task, f"a push for round {t}; we are at round {self.round}")
            return
        vectors = contribution.vectors
        if vectors and (wrong := other_than(self._push_layout, vectors, self.session.identity.dim)):
            self._refuse(task, f"a push of {wrong}")
            return
        neighbor.contributions[t] = contribution
        if t > neighbor.latest:
            neighbor.latest = t
        if self._learner.is_live:
            self._open(t)
        if contribution.last:
            neighbor.last = t
            self._look_for_contributions()
            if self.state is not PeerState.WAITING:
                return
        else:
            self.barrier.came(task, t)
        self._close_round_if_complete()

    def _look_for_contributions(self) -> None:
        """Which contributions count in the open sync round, and which of them have not come."""
        if self.state is not PeerState.WAITING:
            return
        self.barrier.look()
        for task in [task for task in self.barrier.missing if self.session.members[task].absent]:
            self.barrier.leave_out(task)
        for task, s in self.barrier.missing.items():
            if s <= self.session.members[task].round:  # it has said it already, and not to us
                self._send(task, Resend(s))

    def _pass_over(self, tasks: list[int]) -> None:
        for task in tasks:
            self.barrier.leave_out(task)
        self._close_round_if_complete()

    def _go_on_without(self, tasks: Sequence[int]) -> None:
        """Policy proceed: these are waited for no more, until they are back."""
        for task in tasks:
            neighbor = self.session.members[task]
            if not neighbor.done:
                neighbor.absent = True
                self._events.append(Absent(task, self.session.names[task], self.round))
        self._pass_over([task for task in tasks if task in self.barrier.missing])

    def _close_round_if_complete(self) -> None:
        """If nobody is awaited any more, or without somebody if the policy says so (`Policy.closes`)."""
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
        contributions, absent = self.barrier.close(self.history.own(t))
        if absent:
            self.durability.hold(self.round)
            self.holding = self._must_hold()
        replies = self._centre.reduce(t, contributions, self.neighborhood.members(t), absent)
        self._end_round(replies[self._task])

    def _end_round(self, reply: Reply) -> None:
        self._learner.end(self.round, reply)
        self._note_times(self.round, self._waiting.since, min(self._waiting.idle_since, self._now), self._now)
        self._enter(PeerState.STEPPING)
        self.barrier.deadline = math.inf
        if self._exchange != "overlap":
            self._await_example()
        self.durability.close(self.round, self._now)
        if self._catch_up.until and (caught_up := self._catch_up.reached(self.round)) is not None:
            self._events.append(caught_up)

    def _may_go_ahead(self) -> bool:
        return (
            self.state is PeerState.WAITING
            and self._exchange == "overlap"
            and not self._predicted
            and self._learner.is_ready(self.round + 1)
            and self.round < self._learner.last_round
        )
