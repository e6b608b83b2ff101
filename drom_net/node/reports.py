"""What a node tells while it runs: lines of JSON for the launcher, sentences or a structured log for people.

A line for the launcher is one JSON object on standard output, one of:

    {"round": 7, "totals": [..]}       a worker's progress: rounds closed, metrics.Totals as a list
    {"round": 7, "sigma_1": 1.5}       a reducer's progress
    {"note": ".."}                     a change of state that was to be expected
    {"say": ".."}                      something that a person should know; both with the name of the `event`, and of
                                       a long wait with whom it is for
    {"log": {..}}                      either of them where the log is structured: a line of `JsonLog`
    {"counts": {..}}                   what metrics_page.METRICS lists, about once a second
    {"error": ".."}                    why the node ends with an error
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Protocol

from drom_net.learning.metrics import Totals
from drom_net.node.lines import STDERR, STDOUT
from drom_net.node.spec import NodeSpec

_TEXT_LIMIT = 2000
_ITEMS_LIMIT = 100
"""Of a text and of a list in a line: what a stranger says must not fill a disk."""

Counts = dict[str, float]
"""What a node has counted, by the names of metrics_page.METRICS."""


class Reporter(Protocol):
    """Where a node tells how it goes. None of its methods fails or waits, whoever has stopped listening.

    What is told is a sentence; a structured log also has the name of the event, its level and its fields. What is
    noted was to be expected; what is said a person should know.
    """

    every_s: float
    """How often it wants progress."""
    incarnation: int
    """Which start of the node this is, from 1."""
    publish: Callable[[Counts], None] | None
    """Where its counts go about once a second; None where nobody wants them."""

    def progress(self, **figures: Any) -> None: ...
    def note(self, text: str, event: str = "noted", **fields: Any) -> None: ...
    def say(self, text: str, event: str = "said", *, level: str = "warning", **fields: Any) -> None: ...
    def fail(self, text: str, event: str = "failed", **fields: Any) -> None: ...


class TextReporter:
    """For people: plain lines on standard error."""

    every_s = 2.0

    def __init__(self, name: str) -> None:
        self.incarnation = 1
        self.publish: Callable[[Counts], None] | None = None
        self._name = name

    def progress(self, **figures: Any) -> None:
        STDERR.write(self._line(progress_text(figures)), droppable=True)

    def note(self, text: str, event: str = "noted", **fields: Any) -> None:
        self.say(text)

    def say(self, text: str, event: str = "said", *, level: str = "warning", **fields: Any) -> None:
        STDERR.write(self._line(text))

    def _line(self, text: str) -> str:
        return printable(f"{self._name}: {text}")

    def fail(self, text: str, event: str = "failed", **fields: Any) -> None:
        self.say(f"error: {text}")


class JsonLog:
    """A structured log: one JSON object a line on standard error, for each transition."""

    every_s = 10.0

    def __init__(self, node: str) -> None:
        """
        Args:
            node: Who speaks: a task's name in its safe form, "reducer" or "launcher".
        """
        self.incarnation = 1
        self.publish: Callable[[Counts], None] | None = None
        self._node = node

    def progress(self, **figures: Any) -> None:
        fields = {key: value for key, value in figures.items() if key != "totals"}
        if "totals" in figures:
            totals = Totals(*figures["totals"])
            fields |= {"examples": totals.examples, "errors": totals.errors, "error_rate": totals.error_rate}
            fields |= {"majority_error_rate": totals.majority_error_rate, "log_loss": totals.log_loss}
        self.note(progress_text(figures), "progress", **fields)

    def note(self, text: str, event: str = "noted", **fields: Any) -> None:
        self.write("info", event, text, fields)

    def say(self, text: str, event: str = "said", *, level: str = "warning", **fields: Any) -> None:
        self.write(level, event, text, fields)

    def fail(self, text: str, event: str = "failed", **fields: Any) -> None:
        self.write("error", event, text, fields)

    def write(self, level: str, event: str, text: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Write a line, and return it. A field `since_s` is also told as `since`, the time itself."""
        now = time.time()
        line = {"time": _rfc_3339(now), "node": self._node, "incarnation": self.incarnation}
        line |= {"level": level, "event": event} | {key: _plain(value) for key, value in fields.items()}
        if isinstance(fields.get("since_s"), float) and math.isfinite(fields["since_s"]):
            line["since"] = _rfc_3339(now - fields["since_s"])
        line["text"] = _plain(text)
        self.pass_on(line)
        return line

    @staticmethod
    def pass_on(line: dict[str, Any]) -> None:
        """Write a line that another log has made."""
        STDERR.write(json.dumps(line), droppable=line["event"] == "progress")


class JsonReporter:
    """For the launcher; standard error is the node's own log file."""

    every_s = 0.25

    def __init__(self, log: JsonLog | None = None) -> None:
        """
        Args:
            log: Where the log is structured: it is written, and its lines are told.
        """
        self.publish: Callable[[Counts], None] | None = None
        self._log = log
        self._incarnation = 1

    @property
    def incarnation(self) -> int:
        return self._incarnation

    @incarnation.setter
    def incarnation(self, number: int) -> None:
        self._incarnation = number
        if self._log is not None:
            self._log.incarnation = number

    def progress(self, **figures: Any) -> None:
        self._write(figures, droppable=True)

    def note(self, text: str, event: str = "noted", **fields: Any) -> None:
        self._tell("note", "info", text, event, fields)

    def say(self, text: str, event: str = "said", *, level: str = "warning", **fields: Any) -> None:
        self._tell("say", level, text, event, fields)

    def fail(self, text: str, event: str = "failed", **fields: Any) -> None:
        if self._log is None:
            STDERR.write(printable(f"error: {text}"))
        else:
            self._tell("", "error", text, event, fields)
        self._write({"error": printable(text)})

    def counts(self, counts: Counts) -> None:
        """Tell the launcher, who serves them."""
        self._write({"counts": counts}, droppable=True)

    def _tell(self, kind: str, level: str, text: str, event: str, fields: dict[str, Any]) -> None:
        if self._log is None:
            waits = {"waiting_for": _plain(fields["waiting_for"])} if "waiting_for" in fields else {}
            self._write({kind: _plain(text), "event": event} | waits)
        else:
            self._write({"log": self._log.write(level, event, text, fields)})

    def _write(self, line: dict[str, Any], *, droppable: bool = False) -> None:
        STDOUT.write(json.dumps(line), droppable=droppable)


def reporter_of(spec: NodeSpec) -> Reporter:
    """What fits whoever has started the node."""
    log = JsonLog(spec.node) if spec.launch.log_format == "json" else None
    if not spec.launch.parent:
        return log or TextReporter(spec.name)
    reporter = JsonReporter(log)
    reporter.publish = reporter.counts
    return reporter


def progress_text(figures: dict[str, Any]) -> str:
    """A node's progress as a sentence."""
    if "totals" in figures:
        totals = Totals(*figures["totals"])
        rate, majority = totals.error_rate, totals.majority_error_rate
        if rate is None or majority is None:
            return f"round {figures['round']}"
        return f"round {figures['round']}, error rate {100 * rate:.2f} % (majority {100 * majority:.2f} %)"
    sigma = figures.get("sigma_1")
    return f"round {figures['round']}" + (f", sigma_1 {sigma:.3g}" if sigma else "")


def printable(text: str) -> str:
    """The text in one line without control characters: part of it may be what a stranger said."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _plain(value: Any) -> Any:
    """A value as strict JSON knows it, without control characters and of a bounded size."""
    if isinstance(value, bool | int | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_plain(one) for one, _ in zip(value, range(_ITEMS_LIMIT), strict=False)]
    text = str(value)
    shown = printable(text[:_TEXT_LIMIT])
    return shown if len(text) <= _TEXT_LIMIT and len(shown) <= _TEXT_LIMIT else shown[:_TEXT_LIMIT] + ".."


def _rfc_3339(seconds: float) -> str:
    """A time in seconds since 1970, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
