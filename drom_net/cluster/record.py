"""What others see of a run while it lasts: state.json, history.jsonl and events.jsonl of its run directory."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self

from drom_net.cluster.launcher import this_launcher
from drom_net.cluster.leaving import about_prepared
from drom_net.cluster.local import Interruption
from drom_net.cluster.plan import PeerGraph
from drom_net.cluster.prepare import Prepared
from drom_net.cluster.progress import Progress
from drom_net.learning.metrics import Totals, total
from drom_net.node.reports import Counts
from drom_net.node.spec import NodeSpec
from drom_net.protocol.node import REDUCER
from drom_net.results.evidence import CODES, told_by
from drom_net.results.history import History
from drom_net.results.run_directory import EVENTS, HISTORY, STATE

_EVERY_S, _SHARE = 1.0, 0.01
"""The state is written so often, or more rarely, so that it takes at most this share of the time."""
_EVENTS_LIMIT = 10_000
EDGES_TOLD = 3_000
"""Of more edges only the number is told: state.json is written again and again, and nobody can see them in a picture.
"""
_GOOD = ("joined_again", "returned", "caught_up", "connection_found")
"""Notes of a structured log that tell how a trouble ended."""
P = ParamSpec("P")


def both(one: Callable[P, None], other: Callable[P, None]) -> Callable[P, None]:
    """A function that calls both."""

    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        one(*args, **kwargs)
        other(*args, **kwargs)

    return call


class _Node:
    """What is known of one node."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = "starting"
        """Then learning; gone where it was killed, lost where nobody waits for it any more, ended in the end."""
        self.restarts = self.round = 0
        self.totals: Totals | None = None
        self.counts: Counts = {}
        self.moved_before = [0, 0]
        """Bytes sent and received by processes of this node that have ended."""
        self.waits_for = ""

    def moved(self) -> list[int]:
        """Bytes sent and received so far."""
        now = [int(self.counts.get(f"drom_net_{way}_bytes_total", 0)) for way in ("sent", "received")]
        return [before + its for before, its in zip(self.moved_before, now, strict=True)]

    def to_json(self) -> dict[str, Any]:
        counts = self.counts
        found: dict[str, Any] = {"name": self.name, "state": self.state, "restarts": self.restarts, "round": self.round}
        found |= {"waits_for": self.waits_for, "waiting_s": counts.get("drom_net_waiting_seconds_total")}
        found["bytes_sent"], found["bytes_received"] = self.moved()
        if self.totals is not None:
            found |= figures(self.totals)
        sharing = _sharing(counts)
        return found | ({"sharing": sharing} if sharing else {})


def _lines_of(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return sum(1 for _ in file)
    except OSError:
        return 0


class Record:
    """Writes these files. What cannot be written is left out: a full disk must not end a run here."""

    def __init__(self, out: Path, prepared: Prepared, interruption: Interruption, *, driver: str = "processes") -> None:
        self._out, self._interruption = out, interruption
        names, graph = prepared.roster.tasks, prepared.graph
        self._tasks = [_Node(name) for name in names]
        self._reducer = _Node(REDUCER) if graph is None else None
        self._history = History(out / HISTORY, len(names))
        self._progress: tuple[int, Callable[[], Sequence[Totals]]] | None = None
        """Of a driver without processes: its round, and what gives the counts."""
        self._about = about_prepared(prepared) | this_launcher()
        self._about |= {
            "driver": driver,
            "rounds_limit": prepared.rounds or None,
            "edges": None if graph is None else told_of(edges_of(graph)),
        }
        self._started = time.monotonic()
        self._due = 0.0
        self._events = _lines_of(out / EVENTS)  # those before the run was resumed count

    def __enter__(self) -> Self:
        self._write("running")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        interrupted = self._interruption.exit_code or isinstance(error, KeyboardInterrupt)
        if error is None:
            self._write("interrupted" if interrupted else "finished")
        else:
            self._write("interrupted" if interrupted else "failed", str(error) or type(error).__name__)

    def on_line(self, spec: NodeSpec, line: dict[str, Any]) -> None:
        """As `local.Hooks` has it, and so are the others."""
        node = self._node(spec)
        if "round" in line:
            node.round, node.waits_for = line["round"], ""
            node.state = "learning"
        if "totals" in line:
            node.totals = Totals(*line["totals"])
        elif "counts" in line:
            node.counts = line["counts"]
        told = line.get("log", line)
        event = told.get("event")
        text = told.get("text") or told.get("say")
        if told.get("waiting_for"):
            node.waits_for = str(told["waiting_for"])
        if text and ("say" in line or told.get("level") not in (None, "info") or event in _GOOD):
            self._event(str(event), f"{spec.name}: {text}", spec.name)

    def on_change(self, spec: NodeSpec, event: str, value: int) -> None:
        node = self._node(spec)
        if event == "node_ended":
            node.state = "ended" if value == 0 else "gone"
        else:
            node.state = "starting"
        if event == "node_restarted":
            node.restarts += 1
            node.moved_before = node.moved()
            node.counts = {key: value for key, value in node.counts.items() if not key.endswith("_bytes_total")}
            self._event("restarted", f"{spec.name} was started again", spec.name)
        self._due = 0.0

    def say(self, text: str) -> None:
        self._event("said", text, "")

    def on_progress(self, t: int, totals: Callable[[], Sequence[Totals]]) -> None:
        """Of a driver without processes: round t is done."""
        self._progress = t, totals
        self.look()

    def look(self) -> None:
        if time.monotonic() >= self._due:
            self._write("running")

    def _node(self, spec: NodeSpec) -> _Node:
        if spec.task >= 0:
            return self._tasks[spec.task]
        assert self._reducer is not None
        return self._reducer

    def _event(self, event: str, text: str, name: str) -> None:
        self._events += 1
        if self._events > _EVENTS_LIMIT + 1:
            return
        if self._events > _EVENTS_LIMIT:
            event, text, name = "said", f"more than {_EVENTS_LIMIT:,} events: later ones are not kept", ""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": now, "event": event, "name": name}
        with contextlib.suppress(OSError), (self._out / EVENTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | {"text": text}) + "\n")

    def _write(self, status: str, error: str = "") -> None:
        begun, used = time.monotonic(), time.process_time()
        self._take_progress()
        known = [node.totals for node in self._tasks if node.totals is not None]
        document = self._about | {"status": status, "error": error, "seconds": round(begun - self._started, 3)}
        document |= {"rounds": max((node.round for node in self._tasks), default=0), "events": self._events}
        document |= figures(total(known)) if known else {}
        document["reducer"] = None if self._reducer is None else self._reducer.to_json()
        document["tasks"] = [node.to_json() for node in self._tasks]
        if self._progress is not None:  # nothing is sent, or only the network of the simulation has counted it
            document["tasks"] = [task | {"bytes_sent": None, "bytes_received": None} for task in document["tasks"]]
        path = self._out / STATE
        with contextlib.suppress(OSError):
            part = path.with_name(f"{STATE}.part")
            part.write_text(json.dumps(document), encoding="utf-8")
            part.replace(path)
        self._history.add(document, at_end=status != "running")
        self._due = begun + max(_EVERY_S, (time.process_time() - used) / _SHARE)

    def _take_progress(self) -> None:
        if self._progress is None:
            return
        t, totals = self._progress
        for node, its in zip(self._tasks, totals(), strict=True):
            node.state, node.round, node.totals = "learning", t, its
        if self._reducer is not None:
            self._reducer.state, self._reducer.round = "learning", t


class Recorded:
    """A progress that is also written down: for drivers that have no processes."""

    def __init__(self, progress: Progress, record: Record) -> None:
        self._progress, self._record = progress, record

    def start(self, names: Sequence[str], rounds: int) -> None:
        self._progress.start(names, rounds)

    def update(self, t: int, totals: Callable[[], Sequence[Totals]], sigma: float | None) -> None:
        self._progress.update(t, totals, sigma)
        self._record.on_progress(t, totals)

    def say(self, text: str) -> None:
        both(self._progress.say, self._record.say)(text)


def edges_of(graph: PeerGraph) -> list[list[int]]:
    """Each pair of tasks that talk to each other, once."""
    return [[one, other] for one, own in enumerate(graph.union.neighbors) for other in own if one < other]


def told_of(edges: Sequence[Sequence[int]]) -> Sequence[Sequence[int]] | int:
    """The edges, or how many there are where there are too many."""
    return edges if len(edges) <= EDGES_TOLD else len(edges)


def figures(totals: Totals) -> dict[str, Any]:
    """The figures of a summary that are known while a run lasts."""
    counts = {name: getattr(totals, name) for name in ("examples", "errors", "majority_errors")}
    return counts | totals.rates()


def _sharing(counts: Counts) -> dict[str, Any]:
    """As `results.sharing.sharing_figures`, as far as it is among the counts; empty of who mixes no experts."""
    examples = counts.get("drom_net_examples_total")
    errors, alone = (counts.get(f"drom_net_{name}_errors_total") for name in ("seen", "alone"))
    if not examples or errors is None or alone is None:
        return {}
    found: dict[str, Any] = {"error_rate": errors / examples, "error_rate_alone": alone / examples}
    found |= {"gain_points": 100.0 * (alone - errors) / examples, "noise": counts.get("drom_net_noise")}
    code = counts.get("drom_net_sharing_effect")
    found["effect"] = its = next((effect for effect, its_code in CODES.items() if its_code == code), None)
    for unit in ("points", "nats"):
        bounds = [counts.get(f"drom_net_sharing_gain_{unit}_{side}") for side in ("low", "high")]
        found[f"gain_{unit}_interval"] = None if None in bounds else bounds
    bounds = found["gain_points_interval"]
    found["effect_by"] = told_by(its, (bounds[0], bounds[1])) if its and bounds else None
    low, high = found["gain_nats_interval"] or (None, None)
    found["gain_nats"] = (
        None if low is None or high is None else 0.5 * (low + high)
    )  # the middle, where none is cut off
    return found
