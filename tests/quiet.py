"""A progress of many runs that says nothing."""

from __future__ import annotations


class Silent:
    def start(self, total: int, reused: int) -> None:
        pass

    def update(self, finished: int, label: str) -> None:
        pass

    def say(self, text: str) -> None:
        pass
