"""The peer: a worker that is the centre of its own neighborhood; it talks to its neighbors and to nobody else.

In every sync round a peer says its word to each neighbor and waits for theirs. Its own half of the central step
then gives the correction that it uses from the next round on. Two neighbors that both go on are never more
than one sync round apart (two where the exchange is delayed), which bounds what is kept of either side; past a
neighbor that has ended the other runs ahead freely.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from drom_net.algorithms.base import IDLE, NO_REPLY, Contribution, ContributionKind
from drom_net.errors import ClusterError, RejectedError
from drom_net.learning import Centre, TaskLearner, TaskResult, final_sync
from drom_net.protocol.handshake import Identity
from drom_net.protocol.messages import (
    Farewell,
    Goodbye,
    Hello,
    Message,
    Push,
    Reject,
    Resend,
    Welcome,
)
from drom_net.protocol.node import (
    Asking,
    ConnectionChanged,
    Envelope,
    Joined,
    Refused,
    Stalled,
    Tray,
    Warned,
    named,
)
from drom_net.protocol.settings import Timeouts

_WORDS_KEPT = 4
"""Of either side. With a delayed exchange a peer in sync round k waits for the words of k - 1, and a neighbor that
has its word of k may have said k + 2 already."""


class PeerState(enum.Enum):
    JOINING = "joining"
    """Not every neighbor is there yet."""
    STEPPING = "stepping"
    """Between two rounds."""
    WAITING = "waiting"
    """In a sync round, for the words of neighbors."""
    FINISHING = "finishing"
    """All rounds are done; neighbors have not confirmed the goodbye yet."""
    FINISHED = "finished"


def address_of(task: int) -> str:
    """Where a peer that this one connects to is addressed before it has said a word."""
    return f"peer-{task}"


@dataclass(slots=True)
class _Neighbor:
    """What a peer knows of one neighbor."""

    address: str
    """Where it speaks from; empty until a neighbor that connects to us has joined."""
    joined: bool = False
    words: dict[int, Contribution] = field(default_factory=dict)
    """By sync round: what it said and was not used yet."""
    last: int | None = None
    """The sync round of its last word, once that is known."""
    done: bool = False
    """Its goodbye has come: it needs nothing more."""
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
        neighbors: Sequence[int],
        identity: Identity,
        push_vectors: int,
        exchange: str,
        rounds: int | None,
        timeouts: Timeouts,
    ) -> None:
        """
        Args:
            centre: Its own half of the central step, over its neighborhood.
            hello: What this peer says of itself.
            names: All tasks' names, in task order.
            neighbors: The tasks it talks to, ascending. It connects to those before it; those behind it connect.
            exchange: "blocking", "overlap" or "delayed".
            rounds: The run's limit, if it has one.
        """
        super().__init__()
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
        self._push_vectors = push_vectors
        self._exchange = exchange
        self._last_word = final_sync(learner, rounds=rounds)
        self._timeouts = timeouts
        self._neighbors = {task: _Neighbor(address_of(task) if task < self._task else "") for task in neighbors}
        self._task_at = {entry.address: task for task, entry in self._neighbors.items() if entry.address}
        self._said: dict[int, Contribution] = {}
        """By sync round: our own last words, to use and to say again."""
        self._used = 0
        """The last sync round whose words were used."""
        self._wanted = 0
        """The sync round whose words this state waits for."""
        self._predicted = False
        """The next round's first half is done already (exchange: overlap)."""
        self._asking = Asking(timeouts.resend_after_s, timeouts.resend_cap_s)
        self._stall = Asking(timeouts.stall_s, math.inf)
        self._since = 0.0
        self._now = 0.0
        self._give_up_at = math.inf

    @property
    def finished(self) -> bool:
        return self.state is PeerState.FINISHED

    @property
    def central_chain(self) -> bytes:
        return self._centre.chain

    def task_at(self, address: str) -> int | None:
        """Which neighbor speaks from this address."""
        return self._task_at.get(address)

    def start(self, now: float) -> None:
        self._wait(PeerState.JOINING, now)
        self._give_up_at = now + self._timeouts.join_s
        for task in self._neighbors:
            if task < self._task:
                self._say(task, self._hello)
        self._begin_if_all_are_here()

    def receive(self, sender: str, message: Message, now: float) -> None:
        self._now = now
        if isinstance(message, Hello):
            self._on_hello(sender, message)
            return
        task = self._task_at.get(sender)
        if task is None:
            self._outbox.append(Envelope(sender, Reject("this peer does not know you: its run is another one")))
            self._events.append(Refused(sender, f"a {type(message).__name__} before a Hello"))
            return
        if isinstance(message, Welcome | Push | Resend | Goodbye):
            self._on_joined(task)  # it would not speak to us, had it not let us in: its Welcome may be lost
        match message:
            case Push(round=t, contribution=contribution):
                self._on_push(task, t, contribution)
            case Resend(round=t):
                if t in self._said:
                    self._say(task, Push(t, self._said[t]))
            case Welcome():
                pass
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
        if self.state is PeerState.STEPPING:
            self._step(now)
            return
        if self._may_go_ahead():
            # The next primal step needs no correction: it hides the exchange, and gives the same bits.
            self._learner.predict_first(self.round + 1)
            self._predicted = True
            return
        if now >= self._give_up_at:
            self._give_up()
            return
        for task, neighbor in self._neighbors.items():
            if now >= neighbor.give_up_at:
                self._end_run(
                    f"lost {self.names[task]} in round {self.round}: "
                    f"disconnected for {self._timeouts.lost_s:g} s (timeouts.lost_s)"
                )
        if self._asking.ask(now):
            self._ask()
        if self._stall.ask(now):
            self._events.append(Stalled(self.round, self._waiting_for(), now - self._since))

    def next_timer(self) -> float:
        if self.state is PeerState.STEPPING or self._may_go_ahead():
            return self._now
        lost = (neighbor.give_up_at for neighbor in self._neighbors.values())
        return min(self._asking.due, self._stall.due, self._give_up_at, *lost)

    def on_connection(self, address: str, connected: bool, now: float) -> None:
        task = self._task_at.get(address)
        if task is None or not self._neighbors[task].joined:
            return
        neighbor = self._neighbors[task]
        ours_done = self.state in (PeerState.FINISHING, PeerState.FINISHED)  # this wait has a bound of its own
        if not connected and (ours_done or (neighbor.last is not None and not self._not_come(task, neighbor.last))):
            return  # we need nothing more of it, and once it is done it needs nothing more of us
        if connected == math.isinf(neighbor.give_up_at):
            return
        neighbor.give_up_at = math.inf if connected else now + self._timeouts.lost_s
        self._events.append(ConnectionChanged(self.names[task], connected))

    def stop(self) -> None:
        if self.state is PeerState.WAITING:
            self._learner.end(self.round)
            if self._predicted:  # the example of the next round has moved w already: it counts
                self.round += 1
                self._learner.then_update(self.round)
                self._learner.end(self.round)
        if self.result is None:
            self.result = self._learner.result()
        if self.state is not PeerState.FINISHED:
            self._tell_all("it was stopped")
        self.state = PeerState.FINISHED

    def take_records(self) -> bytes:
        return self._learner.take_records()

    def take_central_records(self) -> bytes:
        """The rows of its own central steps since the last call, as records.central_dtype."""
        return self._centre.take_records()

    # Joining

    def _on_hello(self, sender: str, hello: Hello) -> None:
        me = self.names[self._task]
        reason = self._identity.disagreement(hello, self.names, me=me, feature_digest=self._identity.feature_digest)
        neighbor = self._neighbors.get(hello.task)
        if not reason and (neighbor is None or hello.task < self._task):
            reason = f"{self.names[hello.task]} is no neighbor that connects to {me}"
        if not reason and neighbor is not None and neighbor.address not in ("", sender):
            reason = f"{self.names[hello.task]} is already here"
        if not reason and self._task_at.get(sender, hello.task) != hello.task:
            reason = f"it has joined as {self.names[self._task_at[sender]]} already"
        if reason or neighbor is None:
            self._outbox.append(Envelope(sender, Reject(reason)))
            self._events.append(Refused(sender, reason))
            return
        neighbor.address = sender
        self._task_at[sender] = hello.task
        self._say(hello.task, Welcome(self._identity.run_id))
        difference = self._identity.difference(hello, self.names[hello.task], me=me)
        if difference and not neighbor.joined:
            self._events.append(Warned(difference))
        self._on_joined(hello.task)

    def _on_joined(self, task: int) -> None:
        if self._neighbors[task].joined:
            return
        self._neighbors[task].joined = True
        self._events.append(Joined(task))
        self._begin_if_all_are_here()

    def _begin_if_all_are_here(self) -> None:
        if self.state is PeerState.JOINING and all(neighbor.joined for neighbor in self._neighbors.values()):
            self._give_up_at = math.inf
            self.state = PeerState.STEPPING

    # Rounds

    def _step(self, now: float) -> None:
        if self.round == self._learner.last_round:
            self._say_goodbye(now)
            return
        self.round += 1
        if not self._predicted:
            self._learner.predict_first(self.round)
        self._predicted = False
        contribution = self._learner.then_update(self.round)
        if not self._learner.algorithm.is_sync(self.round):
            self._learner.end(self.round)
            return
        before = max(self._said, default=0)
        self._say_word(self.round, self._learner.contribute(contribution))
        self._wanted = before if self._exchange == "delayed" else self.round
        if not self._wanted:  # delayed: nothing has been said before
            self._learner.end(self.round, NO_REPLY)
            return
        self._wait(PeerState.WAITING, now)
        self._close_round_if_complete()

    def _say_word(self, t: int, contribution: Contribution) -> None:
        self._said[t] = contribution
        # A neighbor that has ended no longer bounds how far we are ahead, and may still ask for what it missed.
        asked_for = max((entry.last for entry in self._neighbors.values() if entry.last and not entry.done), default=0)
        for old in sorted(self._said)[:-_WORDS_KEPT]:
            if old > asked_for:
                del self._said[old]
        for task, neighbor in self._neighbors.items():
            if neighbor.last is None or neighbor.last >= t:
                self._say(task, Push(t, contribution))

    def _on_push(self, task: int, t: int, contribution: Contribution) -> None:
        neighbor = self._neighbors[task]
        if t <= self._used or t in neighbor.words:
            return  # a push that was sent twice
        if not self._learner.algorithm.is_sync(t) or (neighbor.last is not None and t > neighbor.last):
            self._events.append(Refused(self.names[task], f"a push for round {t}, in which it has nothing to say"))
            return
        if len(neighbor.words) >= _WORDS_KEPT:
            self._events.append(Refused(self.names[task], f"a push for round {t}; we are at round {self.round}"))
            return
        if contribution.kind is ContributionKind.VECTORS and len(contribution.vectors) != self._push_vectors:
            reason = f"a push of {len(contribution.vectors)} vectors; expected {self._push_vectors}"
            self._events.append(Refused(self.names[task], reason))
            return
        neighbor.words[t] = contribution
        if contribution.last:
            neighbor.last = t
        self._close_round_if_complete()

    def _missing(self) -> list[int]:
        """Whose words of the wanted sync round have not come."""
        t = self._wanted
        return [
            task
            for task, neighbor in self._neighbors.items()
            if t not in neighbor.words and (neighbor.last is None or neighbor.last >= t)
        ]

    def _not_come(self, task: int, last: int) -> list[int]:
        """The sync rounds up to its last one, and ours, whose words of a neighbor have not come."""
        if self.state in (PeerState.FINISHING, PeerState.FINISHED):
            return []
        missing: list[int] = []
        for t in range(self._used + 1, min(last, self._learner.last_round) + 1):
            if len(missing) > _WORDS_KEPT:
                break
            if self._learner.algorithm.is_sync(t) and t not in self._neighbors[task].words:
                missing.append(t)
        return missing

    def _close_round_if_complete(self) -> None:
        if self.state is not PeerState.WAITING or self._missing():
            return
        t = self._wanted
        heard = {self._task: self._said[t]}
        for task, neighbor in self._neighbors.items():
            if t in neighbor.words:
                heard[task] = neighbor.words.pop(t)
            for old in [old for old in neighbor.words if old < t]:
                del neighbor.words[old]
        self._used = t
        replies = self._centre.reduce(t, dict(sorted(heard.items())))
        self._learner.end(self.round, replies[self._task])
        self.state = PeerState.STEPPING

    def _may_go_ahead(self) -> bool:
        return (
            self.state is PeerState.WAITING
            and self._exchange == "overlap"
            and not self._predicted
            and self.round < self._learner.last_round
        )

    # Finishing

    def _say_goodbye(self, now: float) -> None:
        self.result = self._learner.result()
        if self._last_word is not None and self._last_word > self.round:
            self._say_word(self._last_word, self._learner.contribute(IDLE._replace(last=True)))
        self._wait(PeerState.FINISHING, now)
        self._give_up_at = now + self._timeouts.linger_s
        for task, neighbor in self._neighbors.items():
            neighbor.confirmed = neighbor.confirmed or not math.isinf(neighbor.give_up_at)
            neighbor.give_up_at = math.inf
            if not neighbor.confirmed:
                self._say(task, self._goodbye())
        self._finish_if_all_have_confirmed()

    def _goodbye(self) -> Goodbye:
        assert self.result is not None
        return Goodbye(max(self._said, default=0), self.result.chain, self.result.totals)

    def _on_goodbye(self, task: int, last: int) -> None:
        neighbor = self._neighbors[task]
        if missing := self._not_come(task, last):
            # Its goodbye was faster than its last words, or they were lost: once we confirm it, it may be gone.
            for t in missing:
                self._say(task, Resend(t))
            return
        neighbor.last = last
        neighbor.done = neighbor.confirmed = True  # who needs nothing more need not confirm our goodbye: it may be gone
        self._say(task, Farewell())
        self._close_round_if_complete()
        self._finish_if_all_have_confirmed()

    def _finish_if_all_have_confirmed(self) -> None:
        if self.state is PeerState.FINISHING and all(entry.confirmed for entry in self._neighbors.values()):
            self.state = PeerState.FINISHED

    # Waiting, and trouble

    def _say(self, task: int, message: Message) -> None:
        self._outbox.append(Envelope(self._neighbors[task].address, message))

    def _wait(self, state: PeerState, now: float) -> None:
        self.state = state
        self._since = now
        self._asking.start(now)
        self._stall.start(now)

    def _ask(self) -> None:
        """Ask for what this state waits for."""
        for task, neighbor in self._neighbors.items():
            if self.state is PeerState.JOINING and not neighbor.joined and task < self._task:
                self._say(task, self._hello)
            elif self.state is PeerState.FINISHING and not neighbor.confirmed:
                self._say(task, self._goodbye())
        if self.state is PeerState.WAITING:
            for task in self._missing():
                self._say(task, Resend(self._wanted))

    def _waiting_for(self) -> str:
        if self.state is PeerState.JOINING:
            return named(self.names, self._not_joined()) + " to join"
        if self.state is PeerState.WAITING:
            return named(self.names, self._missing())
        unconfirmed = [task for task, neighbor in self._neighbors.items() if not neighbor.confirmed]
        return named(self.names, unconfirmed) + " to confirm"

    def _not_joined(self) -> list[int]:
        return [task for task, neighbor in self._neighbors.items() if not neighbor.joined]

    def _rejected(self, task: int, reason: str) -> None:
        if self.state is PeerState.JOINING:
            raise RejectedError(f"{self.names[task]} does not let this peer in: {reason}")
        if self.state is not PeerState.FINISHING:
            self._end_run(f"{self.names[task]} ended the run: {reason}")
        self._neighbors[task].confirmed = True
        self._finish_if_all_have_confirmed()

    def _give_up(self) -> None:
        if self.state is PeerState.JOINING:
            missing = named(self.names, self._not_joined())
            self._end_run(f"{missing} did not join within {self._timeouts.join_s:g} s (timeouts.join_s)")
        self._events.append(
            Warned(f"no confirmation of the goodbye within {self._timeouts.linger_s:g} s: {self._waiting_for()}")
        )
        self.state = PeerState.FINISHED

    def _end_run(self, why: str) -> None:
        self._tell_all(why)
        raise ClusterError(f"the run is given up: {why}")

    def _tell_all(self, why: str) -> None:
        for task, neighbor in self._neighbors.items():
            if neighbor.joined and not neighbor.confirmed:
                self._say(task, Reject(why))
