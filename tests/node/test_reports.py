"""What a node tells does not depend on who listens, and a stranger's words stay words."""

from __future__ import annotations

import io
import json
import re
import sys
from datetime import datetime

import pytest

from drom_net.learning.metrics import Totals
from drom_net.node.reports import JsonLog, JsonReporter, Reporter, TextReporter, printable


class Closed(io.TextIOBase):
    """A pipe whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.parametrize(
    "reporter", [JsonReporter(), JsonReporter(JsonLog("site")), JsonLog("site"), TextReporter("site")]
)
def test_a_closed_pipe_does_not_end_a_node(reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Closed())
    monkeypatch.setattr(sys, "stderr", Closed())
    reporter.progress(round=1, sigma_1=2.0)
    reporter.note("joined")
    reporter.say("lost")
    reporter.fail("gone")


def test_what_a_stranger_says_cannot_make_lines_or_colours(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b[31mEVIL\nreducer: finished"
    assert printable(evil) == r"\x1b[31mEVIL\nreducer: finished"
    TextReporter("reducer").say(f"refused: {evil}")
    JsonReporter().say(f"refused: {evil}")
    out, err = capsys.readouterr()
    assert err == "reducer: refused: \\x1b[31mEVIL\\nreducer: finished\n"
    assert json.loads(out) == {"say": "refused: \\x1b[31mEVIL\\nreducer: finished", "event": "said"}


def test_progress_for_people_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = TextReporter("site")
    reporter.progress(round=200, totals=Totals(examples=200, errors=52, majority_errors=90).to_list())
    reporter.progress(round=0, totals=Totals().to_list())
    reporter.progress(round=7, sigma_1=1.25)
    assert capsys.readouterr().err == (
        "site: round 200, error rate 26.00 % (majority 45.00 %)\nsite: round 0\nsite: round 7, sigma_1 1.25\n"
    )


def lines(text: str) -> list[dict]:
    """Strict JSON, an object a line."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def test_a_line_of_a_structured_log(capsys: pytest.CaptureFixture[str]) -> None:
    log = JsonLog("site-3")
    log.incarnation = 2
    log.say("round 7: waiting for site-1, since 12 s", "stalled", round=7, waiting_for="site-1", since_s=12.5)
    out, err = capsys.readouterr()
    (line,) = lines(err)
    assert out == ""
    assert list(line) == [
        *("time", "node", "incarnation", "level", "event", "round", "waiting_for", "since_s", "since", "text")
    ]
    assert (line["node"], line["incarnation"], line["level"], line["event"]) == ("site-3", 2, "warning", "stalled")
    times = [datetime.fromisoformat(line[key]) for key in ("since", "time")]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line[key]) for key in ("since", "time"))
    assert abs((times[1] - times[0]).total_seconds() - 12.5) < 0.002


def test_a_strangers_words_in_a_structured_log_are_escaped_and_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    evil = '\x1b[31mEVIL\n{"event": "finished"}' + "\udc80" * 50_000
    JsonLog("reducer").say(f"refused: {evil}", "refused", sender=evil, reason=[evil] * 500, since_s=float("inf"))
    (line,) = lines(capsys.readouterr().err)
    assert line["event"] == "refused"
    assert line["sender"].startswith(r'\x1b[31mEVIL\n{"event": "finished"}\udc80')
    assert len(line["sender"]) == len(line["text"]) == 2002  # and dots
    assert len(line["reason"]) == 100
    assert line["since_s"] is None and "since" not in line


def test_whoever_has_a_launcher_logs_for_itself_and_tells_it(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = JsonReporter(JsonLog("site-1"))
    reporter.incarnation = 3
    reporter.note("joined", "joined", task=1)
    reporter.say("refused", "refused")
    reporter.fail("gone", exit_code=4)
    reporter.progress(round=1, sigma_1=2.0)
    out, err = capsys.readouterr()
    logged, told = lines(err), lines(out)
    assert [(line["level"], line["event"]) for line in logged] == [
        ("info", "joined"),
        ("warning", "refused"),
        ("error", "failed"),
    ]
    assert {line["incarnation"] for line in logged} == {3}
    assert [line["log"] for line in told if "log" in line] == logged
    assert [line for line in told if "log" not in line] == [{"error": "gone"}, {"round": 1, "sigma_1": 2.0}]


def test_progress_in_a_structured_log(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLog("site").progress(round=200, totals=Totals(examples=200, errors=52).to_list())
    JsonLog("reducer").progress(round=7, sigma_1=1.25)
    first, second = lines(capsys.readouterr().err)
    assert (first["event"], first["round"], first["error_rate"], first["examples"]) == ("progress", 200, 0.26, 200)
    assert (second["round"], second["sigma_1"], second["text"]) == (7, 1.25, "round 7, sigma_1 1.25")
