"""Who is here: the tasks that have joined a node, where they speak from, and which of two of one name it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from drom_net.protocol.duplicates import DuplicateProbe
from drom_net.protocol.handshake import Identity
from drom_net.protocol.history import Watermark
from drom_net.protocol.messages import Hello, RequestHello
from drom_net.protocol.node import Envelope, earlier_start


def address_of(task: int) -> str:
    """Where a peer that this one connects to is addressed before it has said a contribution."""
    return f"peer-{task}"


@dataclass(slots=True)
class Member:
    """What a node knows of another one."""

    address: str = ""
    """Where it speaks from; empty until it has joined."""
    incarnation: int = 0
    """That of its Hello."""
    down: bool = False
    """Its connection is lost now."""
    round: int = 0
    """The latest that it is known to have begun."""
    durable: Watermark = field(default_factory=Watermark)
    connects: bool = True
    """It connects to this node, and not the other way round."""


M = TypeVar("M", bound=Member)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node may not join."""

    reason: str
    lost: str = ""
    """The one of the two that was started anew and has lost what it had; empty where that is not the reason."""


class Session(Generic[M]):
    """The members of a node, by task."""

    def __init__(
        self, members: Mapping[int, M], names: Sequence[str], identity: Identity, *, me: str, answer_s: float
    ) -> None:
        """
        Args:
            names: All tasks' names, in task order.
            me: How this node is called in an answer.
            answer_s: How long a member that is here has to show that it is alive.
        """
        self.members = dict(members)
        self.names = tuple(names)
        self.identity = identity
        self.me = me
        self.task_at = {member.address: task for task, member in self.members.items() if member.address}
        """By address."""
        self.probe = DuplicateProbe(answer_s)
        self.lost_until: dict[int, float] = {}
        """Members whose connection is down, and how long they are waited for."""
        self.cannot_go_on = ""
        """That this node was started anew in the middle of a run, and cannot go on; empty where it was not."""
        self._told: set[int] = set()
        """Members that have been told so."""

    def refusal(
        self,
        sender: str,
        hello: Hello,
        *,
        feature_digest: str,
        round: int,
        come_back: bool,
        lost: Callable[[Hello], str | None],
    ) -> Refusal | None:
        """Why a node may not join; None where it may, or is here already.

        Args:
            sender: Its address.
            feature_digest: The features to agree with; empty where they are not known.
            round: This node's.
            come_back: Nodes that are started again come back with what they had: only a later start may take the place
                of one that is here.
            lost: Who of the two has lost what it had; None where they can go on together.
        """
        if reason := self.identity.disagreement(hello, self.names, me=self.me, feature_digest=feature_digest):
            return Refusal(reason)
        name, member = self.names[hello.task], self.members.get(hello.task)
        if member is None or not member.connects:
            return Refusal(f"{name} is no neighbor that connects to {self.me}")
        if (known := self.task_at.get(sender, hello.task)) != hello.task:
            return Refusal(f"it has joined as {self.names[known]} and cannot be {name} too")
        if member.address == sender:
            return None  # it was said long ago, or again
        if member.address and (hello.incarnation <= member.incarnation if come_back else not member.down):
            if member.down:
                return Refusal(earlier_start(name, member.incarnation, hello.incarnation))
            return Refusal(f"{name} is already here")
        # Of who would take the place of one that is here nothing is believed before that one was asked.
        if (not member.address or member.down) and (who := lost(hello)) is not None:
            rounds = f"{name} is in round {hello.round}, {self.me} in round {round}"
            return Refusal(f"{rounds}: {who} was started anew, and what it had is lost", who)
        return None

    def question(self, sender: str, hello: Hello, now: float) -> list[Envelope] | None:
        """What to ask the member that is here already; None where nobody is."""
        member = self.members[hello.task]
        if member.address in ("", sender) or member.down:
            return None
        question = self.probe.add(sender, hello, now)
        return [] if question is None else [Envelope(member.address, RequestHello(question))]

    def answered(self, sender: str, question: int) -> tuple[str, str] | None:
        """Who was here first is alive: (the address of the one that has to go, why)."""
        task = self.task_at.get(sender)
        rival = None if task is None else self.probe.answered(task, question)
        if task is None or rival is None:
            return None
        return rival.address, f"{self.names[task]} is already here"

    def replaced(self, now: float) -> list[tuple[str, Hello]]:
        """Who takes the place of the first, which has not answered in time, or whose connection is lost."""
        return [
            (rival.address, rival.hello) for rival in self.probe.take_due(now, lambda task: self.members[task].down)
        ]

    def admit(self, sender: str, hello: Hello) -> None:
        """It speaks from here now."""
        member = self.members[hello.task]
        member.incarnation = hello.incarnation
        if member.address == sender:
            return  # a Hello that was said twice: its connection may be lost since
        if member.address:
            del self.task_at[member.address]
            self.lost_until.pop(hello.task, None)
        member.address, member.down = sender, False
        self.task_at[sender] = hello.task

    @property
    def first_lost_at(self) -> float:
        """When the first of those whose connection is down is waited for no more."""
        return min(self.lost_until.values()) if self.lost_until else math.inf

    def take_lost(self, now: float) -> list[int]:
        """Those who are waited for no more, in task order."""
        lost = sorted(task for task, at in self.lost_until.items() if now >= at)
        for task in lost:
            del self.lost_until[task]
        return lost

    def tell_lost(self, task: int, why: str) -> bool:
        """A member learns that this node has lost what it had; whether that is news to all."""
        is_first = not self.cannot_go_on
        self.cannot_go_on = self.cannot_go_on or why
        self._told.add(task)
        return is_first

    def knows_lost(self, task: int) -> bool:
        return task in self._told
