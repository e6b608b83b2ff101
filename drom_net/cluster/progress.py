"""Where a run shows how it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from drom_net.learning.metrics import Totals


class Progress(Protocol):
    """Where a run shows how it goes."""

    def start(self, names: Sequence[str], rounds: int) -> None:
        """The run begins; it will take so many rounds, or, if 0, until it is ended."""

    def update(self, t: int, totals: Callable[[], Sequence[Totals]], sigma: float | None) -> None:
        """Round t is done. Called often; it is for the progress to be rare, and only then to ask for the counts."""

    def say(self, text: str) -> None:
        """Something happened that a person should know."""


class Silent:
    """The progress of a run that nobody watches."""

    def start(self, names: Sequence[str], rounds: int) -> None:
        pass

    def update(self, t: int, totals: Callable[[], Sequence[Totals]], sigma: float | None) -> None:
        pass

    def say(self, text: str) -> None:
        pass
