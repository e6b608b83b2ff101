"""The worker: joins, steps through its rounds, waits for the reducer where a round is a sync round, says goodbye.

After a crash it goes on from its last snapshot, and the reducer says again what it has said since. So that the
reducer may do the same, a worker keeps its pushes until the reducer has kept (on disk) what it made of them.
"""

from __future__ import annotations

import dataclasses
import math

import numpy.typing as npt

from drom_net.algorithms.base import KEEP, NO_LONGER_KEPT, NO_REPLY
from drom_net.algorithms.features import other_than
from drom_net.core.errors import ClusterError, RejectedError
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.task import TaskLearner, TaskResult
from drom_net.protocol.arrivals import Arrivals
from drom_net.protocol.catch_up import CatchUp
from drom_net.protocol.history import PushHistory
from drom_net.protocol.messages import (
    Goodbye,
    GoodbyeAck,
    Hello,
    Message,
    Pull,
    Push,
    Reject,
    RequestHello,
    Resend,
    RoundOpened,
    Welcome,
)
from drom_net.protocol.node import (
    REDUCER,
    TIMES_DTYPE,
    ConnectionChanged,
    Envelope,
    Joined,
    Learns,
    NodeBase,
    Pace,
    Refused,
    Snapshot,
    Stalled,
    Warned,
    no_delay,
)
from drom_net.protocol.settings import Checkpoints, Timeouts
from drom_net.protocol.states import WorkerState
from drom_net.protocol.timers import Wait


class Worker(Learns, NodeBase):
    """One task as a node of a star."""

    def __init__(
        self,
        learner: TaskLearner,
        hello: Hello,
        *,
        timeouts: Timeouts,
        endpoint: str,
        pull_layout: tuple[int, ...],
        pace: Pace = no_delay,
        checkpoints: Checkpoints | None = None,
        snapshot: Snapshot | None = None,
    ) -> None:
        """
        Args:
            learner: The task; its `begin` and `end` are called in turn.
            hello: What this worker says of itself.
            endpoint: Where the reducer is looked for; only for messages to people.
            pull_layout: How many vectors each block of a reply has.
            pace: How long each example takes to come.
            checkpoints: When to take snapshots; None for never.
            snapshot: What an earlier incarnation has left, to go on from.
        """
        super().__init__(checkpoints, snapshot=snapshot)
        self.state = WorkerState.JOINING
        self.result: TaskResult | None = None
        self.run_id = hello.run_id
        self.round = 0
        """The last round that was begun."""
        self._learner = learner
        self._hello = hello
        self._timeouts = timeouts
        self._endpoint = endpoint
        self._pull_layout = pull_layout
        self._question: Message = hello
        """The message that this state waits for an answer to."""
        self._waiting = Wait(timeouts)
        self._now = 0.0
        self._give_up_at = math.inf
        self._down_since: float | None = None
        """Since when the connection is down; None while it is up, or was never up."""
        self._arrivals = Arrivals(learner, pace)
        self.history = PushHistory()
        self._round_end: Snapshot | None = None
        """Of a round that is closed: to be kept when the reducer has got as far."""
        self._round_end_pushed = 0
        """The last push up to then."""
        self._ended = False
        self._catch_up = CatchUp()
        self._alone_until = 0
        """Rounds that were closed without it: it goes through them by itself, its correction unchanged."""
        if snapshot is not None:
            self.round = snapshot["round"]
            learner.restore(snapshot["learner"])
            self.history.restore(snapshot["history"], snapshot["reducer_durable"], self.round)

    @property
    def finished(self) -> bool:
        return self.state is WorkerState.FINISHED

    @property
    def max_vectors(self) -> int:
        return sum(self._pull_layout)

    @property
    def num_connected(self) -> int:
        """Whether the reducer is there and has let it in."""
        return int(self.state is not WorkerState.JOINING and self._down_since is None)

    @property
    def num_overdue(self) -> int:
        """Whether it has waited for the reducer for longer than stall_s."""
        return int(self.state is not WorkerState.STEPPING and self._waiting.stall.has_asked)

    def start(self, now: float) -> None:
        self.durability.start(now)
        if self.round == self._learner.last_round and self.durability.has_end(self.round):
            # An earlier incarnation has said goodbye.
            self._outbox.append(Envelope(REDUCER, self._introduction))
            self._say_goodbye(now)
            return
        self._wait(WorkerState.JOINING, self._introduction, now)
        self._give_up_at = now + self._timeouts.join_s

    def receive(self, sender: str, message: Message, now: float) -> None:
        self._now = now
        if type(message) is Pull:
            vectors = message.reply.vectors
            if vectors and (wrong := other_than(self._pull_layout, vectors, self._hello.dim)):
                self._events.append(Refused(sender, f"a pull of {wrong}"))
            elif self.state is WorkerState.WAITING and message.round == self.round:
                self._on_pull(message, now)  # else an answer to a question that was asked twice
            return
        match message:
            case RequestHello(question=question) if self.state is not WorkerState.FINISHED:
                # The reducer was started anew, or somebody else says that it is this task.
                answer = dataclasses.replace(self._introduction, answers=question)
                self._outbox.append(Envelope(REDUCER, answer))
            case Resend(round=t):
                self._on_resend(t, now)
            case Welcome(run_id=run_id, round=t) if self.state is WorkerState.JOINING:
                self._on_welcome(run_id, t, now)
            case Welcome(round=t) if self.round < t and self.state in (WorkerState.WAITING, WorkerState.FINISHING):
                # The reducer was started anew, and did not know who has asked.
                self._ask()
            case RoundOpened(round=t):
                self._arrivals.open(t)
            case GoodbyeAck() if self.state is WorkerState.FINISHING:
                self._finish()
            case Reject(reason=reason):
                self._rejected(reason)
            case Welcome() | RequestHello() | GoodbyeAck():
                pass  # an answer to a question that was asked twice
            case _:
                self._events.append(Refused(sender, f"a {type(message).__name__} is nothing a reducer says"))

    def _on_welcome(self, run_id: str, t: int, now: float) -> None:
        """The reducer has let it in, and is in round t."""
        self.run_id = run_id
        algorithm = self._learner.algorithm
        if algorithm.exchange.contribution and t > algorithm.sync.next(self.round + 1):
            self._catch_up.extend(self.round, t)
        # The connection may be down again by the time that the welcome is read.
        down = self._down_since
        self._give_up_at = math.inf if down is None else down + self._timeouts.lost_s
        self._events.append(Joined(self._hello.task))
        self._note_times(algorithm.sync.last(self.round), now, now, now)
        self._arrivals.open(algorithm.sync.last(t - 1))
        self._go_on(now)

    def _on_resend(self, t: int, now: float) -> None:
        push = self.history.pushes.get(t)
        if push is None and self.history.forgotten < t <= self.round and self._is_sync(t):
            push = Push(t, NO_LONGER_KEPT, self.durability.durable)  # the round was closed without it
        if push is None:
            return  # the reducer has it by now
        self._outbox.append(Envelope(REDUCER, push))
        if self.state is WorkerState.FINISHING:  # the reducer is behind, and will need more
            self._give_up_at = now + self._linger_s
            self._waiting.retry.start(now)

    def on_timer(self, now: float) -> None:
        self._now = now
        stepping = self.state is WorkerState.STEPPING
        if stepping and self._begins_at <= now:
            self._step(now)
            return
        if now >= self._give_up_at and not (stepping and not self._learner.algorithm.exchange.contribution):
            self._give_up()
            return
        if stepping:
            return
        if self._waiting.retry.ask(now):
            self.resends += 1
            self._ask()
        if self._waiting.stall.ask(now):
            self._events.append(Stalled(self.round, f"the reducer at {self._endpoint}", now - self._waiting.since))

    def busy_until(self, now: float) -> None:
        if self.state is WorkerState.WAITING:
            self._waiting.busy_until(self._now, now)
        self._now = now

    def next_timer(self) -> float:
        if self.state is WorkerState.STEPPING:
            if self.holding:
                return math.inf
            if (begins_at := self._begins_at) <= self._now:
                return self._now
            # Who never pushes needs the reducer at its end alone.
            return min(begins_at, self._give_up_at if self._learner.algorithm.exchange.contribution else math.inf)
        return min(self._waiting.due, self._give_up_at)

    def on_connection(self, address: str, connected: bool, now: float) -> None:
        if connected == (self._down_since is None):
            return
        self._down_since = None if connected else now
        if self.state is WorkerState.FINISHED:
            return
        if self.state is WorkerState.JOINING:
            if connected:
                self._outbox.append(Envelope(REDUCER, self._question))
            return
        if self.state is WorkerState.FINISHING:
            self._give_up_at = now + self._linger_s
            if connected:
                self._outbox.append(Envelope(REDUCER, self._question))
            return
        self._events.append(ConnectionChanged(f"the reducer at {self._endpoint}", connected))
        self._give_up_at = math.inf if connected else now + self._timeouts.lost_s
        if connected:
            # The reducer knows a new connection by what is said on it, and a task that never pushes says nothing.
            self._outbox.append(Envelope(REDUCER, Resend(max(self.round, 1))))

    def stop(self) -> None:
        if self.state is WorkerState.WAITING:
            self._learner.end(self.round)
        if self.result is None:
            self.result = self._learner.result()
        self.state = WorkerState.FINISHED

    @property
    def _introduction(self) -> Hello:
        kept_from = self.history.forgotten + 1 if self.round else 0
        return dataclasses.replace(self._hello, run_id=self.run_id, round=self.round, kept_from=kept_from)

    @property
    def row_types(self) -> dict[str, npt.DTypeLike]:
        """What the rows of its `records` and `times` are."""
        return {"records": TASK_DTYPE, "times": TIMES_DTYPE}

    @property
    def recorded(self) -> dict[str, int]:
        """Where a snapshot may be taken, or was: the round of the last row of each."""
        return dict.fromkeys(self.row_types, self.round)

    def take_snapshot(self) -> Snapshot | None:
        """The state at the end of a round, once the reducer has on disk what was pushed by then."""
        if self._round_end is None or self.durability.busy:
            return None
        t = self._round_end["round"]
        # Once the reducer would be as far, none of our pushes need be in it; they would make it large.
        if (
            self._round_end_pushed > self.history.reducer.latest
            and not self._ended
            and not self.durability.is_far(self.round)
        ):
            return None
        taken, self._round_end = self._round_end, None
        self.durability.taken(t, at_end=self._ended)
        # Of its two snapshots the reducer may have to take the older.
        kept, reducer = self.history.needed_until(t), self.history.reducer
        durable = (reducer.latest, reducer.before)
        return taken | {"history": kept, "reducer_durable": durable, "ended": self._ended}

    @property
    def _begins_at(self) -> float:
        """When the next round, or the goodbye, may begin; infinite where a live stream has no example yet."""
        t = self.round + 1
        return -math.inf if t <= self._alone_until else self._arrivals.begins_at(t)

    def _close_round(self, now: float) -> None:
        """The round is closed: from here one may go on after a crash."""
        self.durability.note_closed(self.round)
        if self.durability.is_due(self.round, now) and self._round_end is None:
            self._keep_round_end(now)

    def _keep_round_end(self, now: float) -> None:
        self.durability.note_due(self.round, now)
        self._round_end = {"round": self.round, "learner": self._learner.snapshot()}
        self._round_end_pushed = self.history.last

    def _on_pull(self, pull: Pull, now: float) -> None:
        t, reply, durable, following = pull
        self._learner.end(t, reply)
        self._note_times(t, self._waiting.since, self._waiting.since, now)
        if self.history.reducer.latest < (durable := self.durability.believed(t, durable)):
            self.history.persisted(durable, t)
        self._close_round(now)
        # Sync rounds may have been closed without us.
        if following > t + 1 and following > self._learner.algorithm.sync.next(t + 1):
            self._alone_until = following - 1
        if self._catch_up.until and (caught_up := self._catch_up.reached(t)) is not None:
            self._events.append(caught_up)
        self._go_on(now)

    def _step(self, now: float) -> None:
        learner, durability = self._learner, self.durability
        if self.round == learner.last_round:
            self._say_goodbye(now)
            return
        t = self.round + 1
        if durability.is_too_far(t):
            if self._round_end is None and not durability.busy:
                self._keep_round_end(now)
            self.holding = True
            return
        self.round = t
        contribution = learner.begin(t)
        syncs = self._is_sync(t)
        if syncs and t > self._alone_until:
            self.history.pushes[t] = push = Push(t, contribution, durability.durable)
            self._wait(WorkerState.WAITING, push, now)
        else:
            learner.end(t, KEEP if syncs else NO_REPLY)
            self._close_round(now)
            self._go_on(now)

    def _say_goodbye(self, now: float) -> None:
        self.result = self._learner.result()
        self._note_times(self.round, now, now, now)
        self._ended = True
        if self.durability.lacks_end(self.round):
            self._keep_round_end(now)  # once it has our goodbye the reducer may be gone
        self.holding = self._must_hold()
        self._wait(WorkerState.FINISHING, Goodbye(self.round, self.result.chain, self.result.totals), now)
        self._give_up_at = now + self._linger_s

    @property
    def _linger_s(self) -> float:
        """How long to wait for the reducer once all is done; one that is started again will need our last pushes."""
        if self._down_since is None:
            return self._timeouts.linger_s
        return max(self._timeouts.linger_s, self._timeouts.lost_s)

    def _must_hold(self) -> bool:
        return self._ended and self.durability.lacks_end(self.round)

    def _is_sync(self, t: int) -> bool:
        return self._learner.algorithm.is_sync(t)

    def _go_on(self, now: float) -> None:
        """The last round is closed: wait for the next example."""
        self._enter(WorkerState.STEPPING)
        if self.round >= self._alone_until:
            self._arrivals.expect(self.round + 1, now)

    def _wait(self, state: WorkerState, message: Message, now: float) -> None:
        """Say something, and wait for the answer."""
        self._enter(state)
        self._question = message
        self._outbox.append(Envelope(REDUCER, message))
        self._waiting.start(now)

    def _ask(self) -> None:
        # In the middle of a run a header asks for the pull; it asks back should the push be lost.
        question = Resend(self.round) if self.state is WorkerState.WAITING else self._question
        self._outbox.append(Envelope(REDUCER, question))

    def _rejected(self, reason: str) -> None:
        if self.state is WorkerState.JOINING:
            raise RejectedError(f"the reducer at {self._endpoint} does not let this worker in: {reason}")
        if self.state is WorkerState.FINISHING:
            self._finish()  # the reducer has ended with all it needs from us, or with its own error
            return
        raise ClusterError(f"the reducer at {self._endpoint} ended the run in round {self.round}: {reason}")

    def _give_up(self) -> None:
        if self.state is WorkerState.JOINING:
            raise ClusterError(
                f"no reducer answered at {self._endpoint} within {self._timeouts.join_s:g} s (timeouts.join_s); "
                "is it running, and is the address right?"
            )
        if self.state is WorkerState.FINISHING:
            self._events.append(
                Warned(f"the reducer at {self._endpoint} did not confirm the goodbye within {self._linger_s:g} s")
            )
            self._finish()
            return
        raise ClusterError(
            f"lost the reducer at {self._endpoint} in round {self.round}: disconnected for "
            f"{self._timeouts.lost_s:g} s (timeouts.lost_s)"
        )

    def _finish(self) -> None:
        self._waiting.stop()
        self._give_up_at = math.inf
        self._enter(WorkerState.FINISHED)
