"""What a node tells while it runs: lines of JSON for the launcher, sentences for people.

A line for the launcher is one JSON object on standard output, one of:

    {"round": 7, "totals": [..]}       a worker's progress: rounds closed, metrics.Totals as a list
    {"round": 7, "sigma_1": 1.5}       a reducer's progress
    {"note": ".."}                     a change of state that was to be expected
    {"say": ".."}                      something that a person should know
    {"error": ".."}                    why the node ends with an error
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any, Protocol

from drom_net.metrics import Totals


class Reporter(Protocol):
    """Where a node tells how it goes. None of its methods fails, whoever has stopped listening."""

    every_s: float
    """How often it wants progress."""

    def progress(self, **figures: Any) -> None: ...
    def note(self, text: str) -> None: ...
    def say(self, text: str) -> None: ...
    def fail(self, text: str) -> None: ...


class JsonReporter:
    """For the launcher."""

    every_s = 0.25

    def progress(self, **figures: Any) -> None:
        self._write(figures)

    def note(self, text: str) -> None:
        self._write({"note": printable(text)})

    def say(self, text: str) -> None:
        self._write({"say": printable(text)})

    def fail(self, text: str) -> None:
        self._write({"error": printable(text)})
        _print(f"error: {text}", sys.stderr)

    def _write(self, line: dict[str, Any]) -> None:
        _print(json.dumps(line), sys.stdout)


class TextReporter:
    """For people: plain lines on standard error."""

    every_s = 2.0

    def __init__(self, name: str) -> None:
        self._name = name

    def progress(self, **figures: Any) -> None:
        if "totals" in figures:
            rate = Totals(*figures["totals"]).error_rate
            self.say(f"round {figures['round']}" + ("" if rate is None else f", error rate {100 * rate:.2f} %"))
        else:
            self.say(f"round {figures['round']}, sigma_1 {figures['sigma_1']:.3g}")

    def note(self, text: str) -> None:
        self.say(text)

    def say(self, text: str) -> None:
        _print(f"{self._name}: {text}", sys.stderr)

    def fail(self, text: str) -> None:
        self.say(f"error: {text}")


def printable(text: str) -> str:
    """The text in one line without control characters: part of it may be what a stranger said."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _print(line: str, file: Any) -> None:
    # A closed pipe or a full disk under a log must not end a node.
    with contextlib.suppress(OSError, ValueError):
        print(printable(line), file=file, flush=True)
