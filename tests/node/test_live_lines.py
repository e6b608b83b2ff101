"""Lines of live data as people's programs write them: more than one header, breaks in quotes, files cut or damaged."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import numpy as np
import pytest

from drom_net.data.columns import Column, Schema
from drom_net.data.formats.jsonl import parse_json
from drom_net.data.incoming import RowError, RowReader
from drom_net.data.preprocessing import Preprocessing
from drom_net.data.row_lines import LineParser
from drom_net.node.live.lines import FollowedFile, StandardInput
from drom_net.node.live.service import Service

NAMED = RowReader(Preprocessing(raw_dim=2, schema=Schema((Column("a", "number"), Column("b", "number")), 0)), label="y")


class LiveInput:
    """Takes all that comes, and remembers where it was."""

    def __init__(self, position: Any = None) -> None:
        self.stream = SimpleNamespace(has_ended=False, end=lambda: None)
        self.rows: list[list[float]] = []
        self.bad = 0
        self.texts: list[str] = []
        self.position = position
        self.backlog_limit = self.room = 1000

    def add(self, examples: Any, *, position: Any = None, sender: Any = None) -> None:
        self.rows += [[*map(float, row[:2]), label] for row, label in examples]
        self.position = position or self.position

    def commit(self) -> None:
        pass

    def end(self) -> None:
        self.stream.has_ended = True

    def say(self, text: str) -> None:
        self.texts.append(text)

    def tell_bad(self, where: str, error: RowError) -> None:
        self.texts.append(f"{where.rpartition(':')[2]}: {error}")


class Log:
    """A followed file, and who reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.live_input = LiveInput()
        self._open()

    def _open(self, follows: bool = True) -> None:
        self.source = FollowedFile(self.live_input, self.path, LineParser("csv", NAMED), follows=follows)  # type: ignore[arg-type]

    def append(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)
        self.look()

    def look(self) -> None:
        for _ in range(10):
            self.source._look_at = 0.0
            self.source.serve()

    def crash(self, follows: bool = True) -> None:
        rows, self.live_input = self.live_input.rows, LiveInput(self.live_input.position)
        self.live_input.rows = rows
        self.source.close()
        self._open(follows)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "l.csv")


@pytest.mark.parametrize("crash", [False, True])
def test_column_names_that_come_again_hold_from_there(log: Log, crash: bool) -> None:
    log.append("a,b,y\n1,100,1\na,b,y\n1,100,1\nb,a,y\n100,1,0\n")
    if crash:
        log.crash()
    log.append("100,1,1\ny,note,b,a\n0,x,100,1\n")
    if crash:
        log.crash()
    log.append("1,x,100,1\n")
    assert log.live_input.rows == [[1, 100, sign] for sign in (1, 1, -1, 1, -1, 1)]
    assert log.live_input.texts == []


def test_column_names_that_no_longer_fit_leave_their_rows_out(log: Log) -> None:
    log.append("a,b,y\n1,2,1\nb,c,y\n3,4,1\na,b,y\n5,6,1\n")
    assert log.live_input.rows == [[1, 2, 1], [5, 6, 1]]
    assert [text.partition(",")[0] for text in log.live_input.texts] == [
        '3: column names: expected one column "a"',
        "4: line: expected fitting column names above it",
    ]


@pytest.mark.parametrize("at", range(6, 34, 3))
def test_a_break_in_quotes_ends_no_row(log: Log, at: int) -> None:
    """However it comes, and wherever the node crashes."""
    text = 'a,b,y,note\n1,2,1,"first\n9,9,0,second"\n1,3,1,x\n'
    log.append(text[:at])
    log.crash()
    log.append(text[at:])
    assert log.live_input.rows == [[1, 2, 1], [1, 3, 1]]
    log.append("oops\n")
    assert log.live_input.texts[-1].startswith("5: line: expected 4 fields")


def test_a_quote_that_nobody_closes_costs_its_own_line(log: Log) -> None:
    log.append('a,b,y,note\n1,2,1,"open\n' + "1,3,1,x\n" * 200)
    assert log.live_input.rows == [[1, 3, 1]] * 200
    assert log.live_input.texts == ["2: line: expected separated fields, got a csv error (unexpected end of data)"]
    log.append('1,2,1,5" pipe\n')
    assert len(log.live_input.rows) == 201


def test_a_quote_that_is_open_at_the_end_of_a_file_does_not_keep_it_from_its_end(log: Log) -> None:
    log.path.write_text('a,b,y,note\n1,3,1,x\n1,2,1,"open\n1,3,1,x\n')
    log.crash(follows=False)
    log.look()
    assert log.live_input.stream.has_ended
    assert log.live_input.rows == [[1, 3, 1]] * 2


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize(
    ("after", "rows"),
    [
        ("4,5,1\n6,7,0\n", [[4, 5, 1], [6, 7, -1]]),
        ("oops,5,1\n6,7,0\n", [[6, 7, -1]]),
        ("b,a,y\n4,5,1\n", [[5, 4, 1]]),
        ("\0" * 70 + "4,5,1\n", [[4, 5, 1]]),
    ],
    ids=["rows", "a bad row first", "other column names", "written on behind where it was"],
)
def test_a_file_that_was_cut_keeps_its_column_names(log: Log, after: str, rows: list[list[float]], crash: bool) -> None:
    log.append("a,b,y\n1,2,1\n" + "1,2,1\n" * 10)
    del log.live_input.rows[:]
    log.path.write_text("")
    log.look()
    if crash:
        log.crash()
    log.append(after)
    assert log.live_input.rows == rows


def test_standard_input_has_breaks_in_quotes_too() -> None:
    read, write = os.pipe()
    os.write(write, b'a,b,y,note\n1,2,1,"first\n9,9,0,second"\n1,3,1,x\noops\n')
    os.close(write)
    live_input = LiveInput()
    source = StandardInput(live_input, LineParser("csv", NAMED), fd=read)  # type: ignore[arg-type]
    while not live_input.stream.has_ended:
        source.serve()
    os.close(read)
    assert live_input.rows == [[1, 2, 1], [1, 3, 1]]
    assert live_input.texts[0].startswith("5: ")


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', '{"a":{"b":1,"b":1}}'])
def test_a_key_twice_is_no_object(text: str) -> None:
    with pytest.raises(RowError, match="expected it once, got twice"):
        parse_json(text)


# One prediction, two labels


@pytest.fixture
def service(tmp_path: Path) -> Any:
    live_input: Any = LiveInput()
    live_input.has = lambda sender: False
    live_input.backlog_limit = 100
    model: Any = SimpleNamespace(round=0, predict=lambda x: float(np.sum(x)), probability=lambda score: 0.5)
    found = Service(live_input, f"ipc://{tmp_path}/s", NAMED, model, unlabelled=2, incarnation=1)
    yield found
    found.close()


def _ask(service: Service, **fields: Any) -> dict[str, Any]:
    sending = {"client": bytes(16), "number": 1}
    return service._answer([msgpack.packb({"version": 2, "id": 1} | sending | fields)])


def test_a_prediction_has_one_label(service: Service) -> None:
    tickets = _ask(service, do="predict", rows=[[1.0, 2.0]])["tickets"]
    assert _ask(service, do="label", tickets=tickets, labels=[1])["is"] == "ok"
    for label in (0, 1):
        again = _ask(service, do="label", tickets=tickets, labels=[label])
        assert again["why"].startswith(f"tickets: labelled already: {tickets[0]}")
    assert service._live_input.rows == [[1, 2, 1]]  # type: ignore[attr-defined]
    assert service._labelled_again == 2


def test_a_second_label_is_learned_where_it_is_wanted(service: Service) -> None:
    tickets = _ask(service, do="predict", rows=[[1.0, 2.0]])["tickets"]
    _ask(service, do="label", tickets=tickets, labels=[1])
    assert _ask(service, do="label", tickets=tickets, labels=[0], relabel=True)["is"] == "unknown"  # sent with its row


def test_a_request_with_a_key_twice_is_refused(service: Service) -> None:
    request = b"\x82\xa2do\xa6status\xa2do\xa6finish"
    assert service._answer([request])["why"] == 'key "do": expected it once, got twice'
