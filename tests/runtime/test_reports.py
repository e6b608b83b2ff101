"""What a node tells does not depend on who listens, and a stranger's words stay words."""

from __future__ import annotations

import io
import json
import sys

import pytest

from drom_net.metrics import Totals
from drom_net.runtime.reports import JsonReporter, Reporter, TextReporter, printable


class Closed(io.TextIOBase):
    """A pipe whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.parametrize("reporter", [JsonReporter(), TextReporter("site")])
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
    assert json.loads(out) == {"say": "refused: \\x1b[31mEVIL\\nreducer: finished"}


def test_progress_for_people_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = TextReporter("site")
    reporter.progress(round=200, totals=Totals(examples=200, errors=52).to_list())
    reporter.progress(round=0, totals=Totals().to_list())
    reporter.progress(round=7, sigma_1=1.25)
    assert (
        capsys.readouterr().err == "site: round 200, error rate 26.00 %\nsite: round 0\nsite: round 7, sigma_1 1.25\n"
    )
