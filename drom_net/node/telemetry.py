"""Turns what happens in a node into records on disk, progress, counts and the lines of its log."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Protocol

from drom_net.core.errors import naming
from drom_net.node.loop import Transport
from drom_net.node.reports import Counts, Reporter
from drom_net.protocol.node import (
    Absent,
    CaughtUp,
    ConnectionChanged,
    Event,
    Joined,
    Late,
    Refused,
    Returned,
    Stalled,
    Warned,
)
from drom_net.protocol.peer import Peer
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.worker import Worker
from drom_net.results.evidence import CODES, levels
from drom_net.results.sharing import sharing_figures
from drom_net.storage.node_folder import Spent

if TYPE_CHECKING:
    from drom_net.node.live.live_input import LiveInput

_REFUSALS_TOLD = 10
_REFUSALS_TOLD_EVERY_S = 60.0
"""And one of those that follow in so many seconds: a stranger must not fill the log."""
_CHECKPOINTS_TOLD_EVERY_S = 60.0
_PUBLISHED_EVERY_S = 1.0


class _Stop(Protocol):
    def requested(self) -> bool:
        """Whether the node is asked to end."""


class Telemetry:
    """What a driver tells of one node."""

    def __init__(
        self,
        reporter: Reporter,
        saved: Sequence[tuple[IO[bytes] | None, Callable[[], bytes]]],
        stop: _Stop,
        figures: Callable[[], dict[str, Any]],
        *,
        names: tuple[str, ...] = (),
        expected: int = 0,
        on_first_joined: Callable[[], None] = lambda: None,
        moved: Callable[[], Mapping[int, tuple[int, int]]] = dict,
        num_tasks: int = 1,
    ) -> None:
        """
        Args:
            saved: Files, and what takes the bytes that are to be written to each; None for bytes that nobody wants.
            figures: The node's progress: `round`, with `totals` of a task or `sigma_1` of a reducer.
            names: All tasks' names in order; none for a worker, which meets only the reducer.
            expected: How many are to join.
            on_first_joined: Called when the first has joined; for a worker, when it is in.
            moved: By task, the bytes of messages sent and received so far.
            num_tasks: How many there are in the run.
        """
        self.refused = 0
        self.first_joined_at = time.monotonic()
        self._reporter = reporter
        self._saved = saved
        self._stop = stop
        self._figures = figures
        self._names = names
        self._expected = expected
        self._on_first_joined = on_first_joined
        self._moved = moved
        self._level, _ = levels(num_tasks)
        self._joined: set[int] = set()
        self._late = 0
        self._next_late = 0.0
        self._checkpoints = 0
        self._checkpoint_s = 0.0
        self._checkpoint_bytes = 0
        self._next_report = self._next_counts = self._next_refusal = self._next_checkpoint = 0.0
        self._watched: tuple[Worker | Peer | Reducer, Transport] | None = None
        self._live_input: LiveInput | None = None

    def watch(self, node: Worker | Peer | Reducer, transport: Transport, live_input: LiveInput | None = None) -> None:
        """Also count what these have counted."""
        self._watched = (node, transport)
        self._live_input = live_input

    @property
    def files(self) -> list[IO[bytes]]:
        """Those that `save` writes."""
        return [file for file, _ in self._saved if file is not None]

    def spent(self) -> Spent:
        """In this start of the node so far."""
        return Spent(time.monotonic() - self.first_joined_at, self._moved())

    def save(self) -> bool:
        """Write what has been recorded; whether there was anything."""
        news = False
        for file, take in self._saved:
            rows = take()
            news = news or bool(rows)
            if file is not None:
                with naming(file.name):
                    file.write(rows)
        return news

    def look(self) -> bool:
        """Save what has been recorded, tell how it goes, and say whether to stop."""
        news = self.save()
        now = time.monotonic()
        if news and now >= self._next_report:
            self._next_report = now + self._reporter.every_s
            self._reporter.progress(**self._figures())
        if self._reporter.publish is not None and now >= self._next_counts:
            self._next_counts = now + _PUBLISHED_EVERY_S
            self._reporter.publish(self.counts())
        return self._stop.requested()

    def on_event(self, event: Event) -> None:
        """Tell what has happened in the node."""
        if isinstance(event, Refused):
            self.refused += 1
            now = time.monotonic()
            if self.refused > _REFUSALS_TOLD and now < self._next_refusal:
                return
            self._next_refusal = now + _REFUSALS_TOLD_EVERY_S
        elif isinstance(event, Late):
            self._late += 1
            now = time.monotonic()
            if self._late > _REFUSALS_TOLD and now < self._next_late:
                return
            self._next_late = now + _REFUSALS_TOLD_EVERY_S
        elif isinstance(event, Joined):
            again = event.task in self._joined
            self._joined.add(event.task)
            if len(self._joined) == 1 and not again:
                self.first_joined_at = time.monotonic()
                self._on_first_joined()
            if self._names and again:
                text = f"{self._names[event.task]} was started again, and has joined"
                self._reporter.say(text, "joined_again", level="info", **self._fields(event))
            else:
                self._reporter.note(self._sentence(event), event_name(event), **self._fields(event))
            return
        back = isinstance(event, Returned | CaughtUp) or (isinstance(event, ConnectionChanged) and event.connected)
        level = "info" if back else "warning"
        self._reporter.say(self._sentence(event), event_name(event), level=level, **self._fields(event))

    def checkpointed(self, t: int, *, seconds: float, num_bytes: int) -> None:
        """A checkpoint as of round t has been written; the log has at most one of them a minute."""
        self._checkpoints += 1
        self._checkpoint_s += seconds
        self._checkpoint_bytes += num_bytes
        now = time.monotonic()
        if now >= self._next_checkpoint:
            self._next_checkpoint = now + _CHECKPOINTS_TOLD_EVERY_S
            text = f"round {t}: wrote a checkpoint of {num_bytes} bytes in {1000 * seconds:.1f} ms"
            fields = {"round": t, "seconds": seconds, "bytes": num_bytes, "checkpoints": self._checkpoints}
            self._reporter.note(text, "checkpointed", **fields)

    def counts(self) -> Counts:
        """What there is to count of this node, by the names of metrics_page.METRICS."""
        figures = self._figures()
        counts = {
            "drom_net_rounds_total": figures["round"],
            "drom_net_refused_messages_total": self.refused,
            "drom_net_incarnation": self._reporter.incarnation,
            "drom_net_checkpoints_total": self._checkpoints,
            "drom_net_checkpoint_seconds_total": self._checkpoint_s,
            "drom_net_checkpoint_bytes_total": self._checkpoint_bytes,
        }
        if "sigma_1" in figures:
            counts["drom_net_sigma_1"] = figures["sigma_1"]
        if self._watched is None:
            return counts
        node, transport = self._watched
        if isinstance(node, Worker | Peer):
            totals = node.totals
            counts["drom_net_examples_total"] = totals.examples
            counts["drom_net_errors_total"] = totals.errors
            counts["drom_net_majority_errors_total"] = totals.majority_errors
            counts["drom_net_waiting_seconds_total"] = node.waited_s
            if (mixing := node.mixing) is not None:
                counts |= _counts_of_sharing(sharing_figures(*mixing, self._level))
        counts["drom_net_sent_bytes_total"] = transport.bytes_sent
        counts["drom_net_received_bytes_total"] = transport.bytes_received
        counts["drom_net_resends_total"] = node.resends
        counts["drom_net_connected_peers"] = node.num_connected
        counts["drom_net_overdue_peers"] = node.num_overdue
        return counts | (self._live_input.counts if self._live_input is not None else {})

    def _fields(self, event: Event) -> dict[str, Any]:
        """The event's own fields, the round where it has none, and the name of the task that it is about."""
        fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
        fields.pop("text", None)  # it is the sentence
        if self._names and isinstance(task := fields.get("task"), int):
            fields["name"] = self._names[task]
        return {"round": self._figures()["round"]} | fields

    def _sentence(self, event: Event) -> str:
        match event:
            case Joined(task=task) if self._names:
                return f"{self._names[task]} joined ({len(self._joined)} of {self._expected})"
            case Joined():
                return "joined"
            case Stalled(round=t, waiting_for=whom, since_s=since):
                return f"round {t}: waiting for {whom}, since {since:.0f} s"
            case ConnectionChanged(who=who, connected=connected):
                return f"{who} is connected again" if connected else f"lost the connection to {who}"
            case Absent(name=name, round=t):
                return f"round {t}: going on without {name}, with its last vectors"
            case Returned(name=name, round=t):
                return f"round {t}: {name} takes part again"
            case Late(round=t, names=names):
                return f"round {t}: closed at the deadline without {names}"
            case CaughtUp(round=t, rounds=rounds):
                return f"round {t}: with the others again, {rounds} rounds later"
            case Refused(sender=sender, reason=reason):
                of = f" ({self.refused} so far)" if self.refused >= _REFUSALS_TOLD else ""
                return f"refused a message of {sender}: {reason}{of}"
            case Warned(text=text):
                return f"warning: {text}"
            case _:
                fields = ", ".join(f"{name} {value}" for name, value in self._fields(event).items())
                return f"{event_name(event).replace('_', ' ')}: {fields}"


def _counts_of_sharing(figures: dict[str, Any]) -> Counts:
    known = {
        "drom_net_seen_errors_total": figures["errors"],
        "drom_net_alone_errors_total": figures["errors_alone"],
        "drom_net_sharing_weight": figures["weight_at_end"],
        "drom_net_noise": figures["noise"],
        "drom_net_sharing_effect": CODES.get(figures["effect"]),
    }
    for unit in ("points", "nats"):
        low, high = figures[f"gain_{unit}_interval"] or (None, None)
        known |= {f"drom_net_sharing_gain_{unit}_low": low, f"drom_net_sharing_gain_{unit}_high": high}
    return {name: value for name, value in known.items() if value is not None}


def event_name(event: Event) -> str:
    """That of its class: ``joined``, ``late_word``; of a connection whether it was lost or found."""
    if isinstance(event, ConnectionChanged):
        return "connection_found" if event.connected else "connection_lost"
    return re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", type(event).__name__).lower()
