"""Events of a node become lines of its log, by name and with their fields; what it counts becomes metrics."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from helpers import random_streams
from star_harness import Star, hello, make_reducer, make_worker

from drom_net.algorithms.adadrom.learner import adadrom
from drom_net.algorithms.drom import drom
from drom_net.node import telemetry as module
from drom_net.node.metrics_page import METRICS
from drom_net.node.reports import Counts, JsonLog
from drom_net.node.telemetry import Telemetry, event_name
from drom_net.protocol.node import ConnectionChanged, Joined, Refused, Stalled, Warned


class Stop:
    asked = False

    def requested(self) -> bool:
        return self.asked


def make_telemetry(reporter: Any = None, **options: Any) -> Telemetry:
    figures = {"round": 41, "sigma_1": 1.5}
    names = ("north", "south")
    return Telemetry(reporter or JsonLog("reducer"), [], Stop(), lambda: figures, names=names, expected=2, **options)


@dataclass(frozen=True, slots=True)
class LateWord:
    """An event that the telemetry has never heard of."""

    round: int
    task: int


def told(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return [{key: value for key, value in line.items() if key not in ("time", "node", "incarnation")} for line in lines]


def test_events_are_told_by_name_with_their_fields(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry = make_telemetry()
    events = [
        Joined(1),
        ConnectionChanged("south", False),
        ConnectionChanged("south", True),
        Refused("10.0.0.9", "a Push before a Hello"),
        Warned("NumPy differs"),
        LateWord(7, 0),
    ]
    for event in events:
        telemetry.on_event(event)  # type: ignore[arg-type]
    at = {"round": 41}
    assert told(capsys) == [
        {"level": "info", "event": "joined", **at, "task": 1, "name": "south", "text": "south joined (1 of 2)"},
        {
            "level": "warning",
            "event": "connection_lost",
            **at,
            "who": "south",
            "connected": False,
            "text": "lost the connection to south",
        },
        {
            "level": "info",
            "event": "connection_found",
            **at,
            "who": "south",
            "connected": True,
            "text": "south is connected again",
        },
        {
            "level": "warning",
            "event": "refused",
            **at,
            "sender": "10.0.0.9",
            "reason": "a Push before a Hello",
            "text": "refused a message of 10.0.0.9: a Push before a Hello",
        },
        {"level": "warning", "event": "warned", **at, "text": "warning: NumPy differs"},
        {
            "level": "warning",
            "event": "late_word",
            "round": 7,
            "task": 0,
            "name": "north",
            "text": "late word: round 7, task 0, name north",
        },
    ]


def test_a_stall_says_whom_it_waits_for_and_since_when(capsys: pytest.CaptureFixture[str]) -> None:
    make_telemetry().on_event(Stalled(42, "north, south", 30.2))
    (line,) = told(capsys)
    assert (line["event"], line["round"], line["waiting_for"], line["since_s"]) == ("stalled", 42, "north, south", 30.2)
    assert line["text"] == "round 42: waiting for north, south, since 30 s"
    assert line["since"].endswith("Z")


def test_all_refusals_are_counted_and_few_are_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger must not fill the log, nor silence it for ever."""
    clock = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    telemetry = make_telemetry()
    for _ in range(1000):
        telemetry.on_event(Refused("stranger", "bad bytes"))
    assert (telemetry.refused, len(told(capsys))) == (1000, 10)
    clock[0] += 60.0
    for _ in range(1000):
        telemetry.on_event(Refused("stranger", "bad bytes"))
    (line,) = told(capsys)
    assert line["text"] == "refused a message of stranger: bad bytes (1001 so far)"
    assert telemetry.counts()["drom_net_refused_messages_total"] == 2000


def test_checkpoints_are_counted_and_told_once_a_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    telemetry = make_telemetry()
    for t in range(100, 400, 100):
        telemetry.checkpointed(t, seconds=0.25, num_bytes=5000)
    clock[0] += 60.0
    telemetry.checkpointed(400, seconds=0.25, num_bytes=5000)
    assert [(line["event"], line["round"], line["checkpoints"]) for line in told(capsys)] == [
        ("checkpointed", 100, 1),
        ("checkpointed", 400, 4),
    ]
    counts = telemetry.counts()
    assert counts["drom_net_checkpoints_total"] == 4
    assert counts["drom_net_checkpoint_seconds_total"] == 1.0
    assert counts["drom_net_checkpoint_bytes_total"] == 20000


@dataclass
class Moved:
    bytes_sent: int = 10
    bytes_received: int = 20


def test_counts_are_published_about_once_a_second_and_name_known_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    published: list[Counts] = []
    reporter = JsonLog("reducer")
    reporter.publish = published.append
    telemetry = make_telemetry(reporter)
    reducer = make_reducer(drom(), 2)
    reducer.start(0.0)
    reducer.receive("w1", hello(1), 1.0)
    telemetry.watch(reducer, Moved())  # type: ignore[arg-type]
    for _ in range(5):
        telemetry.look()
    clock[0] += 1.0
    telemetry.look()
    assert len(published) == 2
    assert published[0].keys() <= METRICS.keys()
    assert published[0]["drom_net_connected_peers"] == 1
    assert published[0]["drom_net_received_bytes_total"] == 20
    assert (published[0]["drom_net_rounds_total"], published[0]["drom_net_sigma_1"]) == (41, 1.5)


def test_a_task_that_mixes_experts_counts_what_sharing_does() -> None:
    (stream,) = random_streams([40])
    worker = make_worker(adadrom(), stream, num_tasks=1)
    telemetry = make_telemetry(JsonLog("site"))
    telemetry.watch(worker, Moved())  # type: ignore[arg-type]
    named = ("drom_net_seen_errors_total", "drom_net_alone_errors_total", "drom_net_sharing_weight", "drom_net_noise")
    before = telemetry.counts()
    assert [before.get(name) for name in named] == [0, 0, pytest.approx(1 - 2 * 0.99 / 8), None]
    star = Star(adadrom(), [stream])
    star.run()
    telemetry.watch(star.workers[0], Moved())  # type: ignore[arg-type]
    after = telemetry.counts()
    assert after.keys() <= METRICS.keys()
    assert after["drom_net_seen_errors_total"] == star.workers[0].totals.errors > 0
    assert after["drom_net_alone_errors_total"] > 0
    assert 0.0 <= after["drom_net_noise"] < 0.5
    assert not [name for name in after if "gain" in name or "effect" in name], "there is nobody to share with"
    telemetry = make_telemetry(JsonLog("site"), num_tasks=12)
    telemetry.watch(star.workers[0], Moved())  # type: ignore[arg-type]
    of_twelve = telemetry.counts()
    assert of_twelve.keys() <= METRICS.keys()
    assert of_twelve["drom_net_sharing_effect"] == 0
    for unit in ("points", "nats"):
        low, high = (of_twelve[f"drom_net_sharing_gain_{unit}_{end}"] for end in ("low", "high"))
        assert -100.0 <= low < 0.0 < high <= 100.0
    telemetry.watch(make_worker(drom(), stream), Moved())  # type: ignore[arg-type]
    assert not set(named) & telemetry.counts().keys()


def test_records_are_saved_at_each_look_and_the_wish_to_end_is_passed_on(tmp_path: Path) -> None:
    file, stop = (tmp_path / "rows").open("wb"), Stop()
    rows = [b"", b"two", b"", b"one"]
    telemetry = Telemetry(JsonLog("site"), [(file, rows.pop)], stop, lambda: {"round": 0, "sigma_1": 0.0})
    assert not telemetry.look()
    stop.asked = True
    assert telemetry.look()
    telemetry.save()
    file.close()
    assert (tmp_path / "rows").read_bytes() == b"onetwo"


def test_names_of_events_are_those_of_their_classes() -> None:
    assert event_name(Joined(0)) == "joined"
    assert event_name(LateWord(1, 2)) == "late_word"  # type: ignore[arg-type]
    assert event_name(ConnectionChanged("reducer", False)) == "connection_lost"
