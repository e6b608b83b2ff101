"""Two processes that say they are one task: whoever was here first is asked whether it is alive."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from drom_net.protocol.messages import Hello


class Rival(NamedTuple):
    """A second process that says it is a node that is here."""

    address: str
    hello: Hello
    until: float
    """Unless the first has answered by then, it is replaced."""
    question: int


class DuplicateProbe:
    """Those of all tasks: whoever is here is asked whether it is alive, one question however many want its place."""

    def __init__(self, answer_s: float) -> None:
        """
        Args:
            answer_s: How long the first has for its answer.
        """
        self.due = math.inf
        """When the next one is to be let in."""
        self._answer_s = answer_s
        self._of: dict[int, Rival] = {}
        self._questions = 0

    def __contains__(self, task: int) -> bool:
        return task in self._of

    def add(self, address: str, hello: Hello, now: float) -> int | None:
        """The question for the one that is here; None where it has been asked, and the latest start will be let in."""
        rival = self._of.get(hello.task)
        if rival is None:
            self._questions += 1
            self._of[hello.task] = Rival(address, hello, now + self._answer_s, self._questions)
            self._set_due()
            return self._questions
        if hello.incarnation > rival.hello.incarnation:
            self._of[hello.task] = rival._replace(address=address, hello=hello)
        return None

    def answered(self, task: int, question: int) -> Rival | None:
        """Who has to go, as the one that is here is alive; None where that answers nothing that is open."""
        rival = self._of.get(task)
        if rival is None or rival.question != question:
            return None
        del self._of[task]
        self._set_due()
        return rival

    def take_due(self, now: float, is_down: Callable[[int], bool]) -> list[Rival]:
        """Those to be let in, in task order: where the first has not answered in time, or its connection is lost."""
        tasks = sorted(task for task, rival in self._of.items() if now >= rival.until or is_down(task))
        taken = [self._of.pop(task) for task in tasks]
        self._set_due()
        return taken

    def _set_due(self) -> None:
        self.due = min((rival.until for rival in self._of.values()), default=math.inf)
