"""What a reducer and a peer have in common: others join them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from drom_net.core.errors import ClusterError
from drom_net.protocol.catch_up import CatchUp
from drom_net.protocol.messages import Hello, Message, Reject, RequestHello
from drom_net.protocol.node import Envelope, NodeBase, Refused, Snapshot, named
from drom_net.protocol.session import Member, Session
from drom_net.protocol.settings import Checkpoints, Policy, Timeouts

M = TypeVar("M", bound=Member)


class Hub(NodeBase, Generic[M]):
    """A node that others join. What becomes of that is its role's."""

    def __init__(
        self,
        session: Session[M],
        *,
        timeouts: Timeouts,
        policy: Policy,
        checkpoints: Checkpoints | None,
        snapshot: Snapshot | None,
    ) -> None:
        super().__init__(checkpoints, snapshot=snapshot)
        self.session = session
        self._timeouts = timeouts
        self._policy = policy
        self._catch_up = CatchUp(restored=snapshot is not None)
        self._now = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """All tasks', in task order."""
        return self.session.names

    def task_at(self, address: str) -> int | None:
        """Which task speaks from this address."""
        return self.session.task_at.get(address)

    def receive(self, sender: str, message: Message, now: float) -> None:
        self._now = now
        if isinstance(message, Hello):
            if not message.answers:
                self._on_hello(sender, message)
            elif (has_to_go := self.session.answered(sender, message.answers)) is not None:
                self._reject(*has_to_go)
        elif (task := self.session.task_at.get(sender)) is not None:
            self._on_message(task, message)
        else:
            self._outbox.append(Envelope(sender, RequestHello()))
            self._events.append(Refused(sender, f"a {type(message).__name__} before a Hello"))

    def _on_hello(self, sender: str, hello: Hello) -> None:
        """A first Hello is let in or refused; on a second one of a task the node that is here is asked whether it is
        alive, and the second is let in only if it does not answer (`Session.question`, `DuplicateProbe`)."""
        refusal = self.session.refusal(
            sender,
            hello,
            feature_digest=self._known_features,
            round=self._current_round,
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

    def _let_rivals_in(self) -> None:
        for sender, hello in self.session.replaced(self._now):
            first = self.session.members[hello.task]
            was_down, first.down = first.down, True
            self._on_hello(sender, hello)
            if first.address != sender:  # it was refused
                first.down = was_down

    def _reject(self, sender: str, reason: str) -> None:
        self._outbox.append(Envelope(sender, Reject(reason)))
        self._events.append(Refused(sender, reason))

    def _refuse(self, task: int, reason: str) -> None:
        self._events.append(Refused(self.session.names[task], reason))

    def _give_up_lost(self, now: float) -> None:
        """Those whose connection has been down for lost_s: the run ends, or goes on without them."""
        for task in self.session.take_lost(now):
            if not self._policy.proceeds:
                self._end_run(
                    f"lost {self.session.names[task]} in round {self._current_round}: "
                    f"disconnected for {self._timeouts.lost_s:g} s (timeouts.lost_s)"
                )
            self._go_on_without([task])

    def _waiting_for(self) -> str:
        tasks, what = self._awaited()
        return named(self.session.names, tasks) + what

    def _end_run(self, why: str) -> None:
        self._tell_all(why)
        raise ClusterError(f"the run is given up: {why}")

    # What its role says

    @property
    def _known_features(self) -> str:
        """The digest of the features that all must have; empty where it is not known yet."""
        raise NotImplementedError

    @property
    def _current_round(self) -> int:
        raise NotImplementedError

    def _on_message(self, task: int, message: Message) -> None:
        """A member says something."""
        raise NotImplementedError

    def _lost_what_it_had(self, hello: Hello) -> str | None:
        """Which of the two was started anew and has lost what it had; None where they can go on together."""
        raise NotImplementedError

    def _cannot_go_on(self, task: int, why: str, *, ours: bool) -> None:
        """A member that was refused and this node cannot go on together: one of them has lost what it had."""
        raise NotImplementedError

    def _let_in(self, sender: str, hello: Hello) -> None:
        raise NotImplementedError

    def _go_on_without(self, tasks: Sequence[int]) -> None:
        """Policy proceed: these are waited for no more, until they are back."""
        raise NotImplementedError

    def _tell_all(self, why: str) -> None:
        """Why the run is given up."""
        raise NotImplementedError

    def _awaited(self) -> tuple[list[int], str]:
        """(tasks that it waits for now, what they are to do)."""
        raise NotImplementedError
