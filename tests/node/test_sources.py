"""Where live examples come from: nothing that was accepted is lost or learned twice, nothing bad ends the node."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq
from live_site import FixedModel, Said, learned, live_input_of, node_spec

from drom_net.algorithms.adadrom.mixing import EVIDENCE
from drom_net.algorithms.features import SparseVector
from drom_net.core.errors import CheckpointError, ClusterError
from drom_net.data.columns import Column, Schema
from drom_net.data.incoming import RowError, RowReader
from drom_net.data.labels import Labels
from drom_net.data.preprocessing import HASHED_DIM, Preprocessing
from drom_net.data.row_lines import LineParser
from drom_net.node.live import lines as lines_module
from drom_net.node.live.application_port import ApplicationPort
from drom_net.node.live.lines import FollowedFile, StandardInput
from drom_net.node.live.live_input import LiveInput
from drom_net.node.live.service import Service
from drom_net.node.live.sources import open_source

AGE_AND_DOSE = Schema((Column("age", "number"), Column("dose", "number", missing=True)), places=1)
ILL = Labels(("yes",), ("no",))
NAMED = RowReader(Preprocessing(4, numbers=2, schema=AGE_AND_DOSE, center=(1.0, 0.0), bias=0.5), "ill", ILL)
"""Rows of age, dose, whether the dose is missing, and a hashed place."""
THREE = RowReader(Preprocessing(3))
CENTERED = RowReader(Preprocessing(3, numbers=3, center=(1.0, 0.0, 0.0)))
WITH_WHO = Schema((Column("age", "number"), Column("who", "category", ("Ann",))), places=4)
KINDS = RowReader(Preprocessing(6, numbers=1, schema=WITH_WHO), "ill", ILL)
TINY = RowReader(Preprocessing(3, numbers=3, scale=(1e-200, 1.0, 1.0)))


def rows_of(live_input: LiveInput) -> list[float]:
    """The first number of each example that waits."""
    return [features[0] for features, _ in learned(live_input)]


def line(number: float, label: int = 1) -> str:
    return json.dumps({"x": [number, 0, 0], "label": label}) + "\n"


# Lines


class Piped:
    """A node whose standard input a test writes."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self._reading, self._writing = os.pipe()
        self.said = Said()
        self.live_input = live_input_of(node_spec(folder, stdin=True, **settings), said=self.said)
        open_source(self.live_input, FixedModel())
        source = self.live_input._source
        assert isinstance(source, StandardInput)
        source._poll.unregister(0)
        source._fd = self._reading
        source._poll.register(self._reading, lines_module.select.POLLIN)

    @property
    def waits(self) -> bool:
        """Whether a line would wake the node."""
        return self.live_input.waits_for == self._reading

    def write(self, text: str) -> None:
        os.write(self._writing, text.encode())

    def end(self) -> None:
        if self._writing >= 0:
            os.close(self._writing)
        self._writing = -1

    def close(self) -> None:
        self.live_input.close()
        self.end()
        os.close(self._reading)


def piped(folder: Path, **settings: Any) -> Iterator[Piped]:
    found = Piped(folder, **settings)
    yield found
    found.close()


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Piped]:
    """With room for four examples."""
    yield from piped(tmp_path / "node", backlog=4)


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[Piped]:
    yield from piped(tmp_path / "node")


def test_lines_of_standard_input_are_examples_and_its_end_is_the_end(tmp_path: Path) -> None:
    for node in piped(tmp_path / "node", rows=NAMED, format="csv"):
        assert not node.live_input.serve()
        node.write("dose,ill,who,age\n2,no,x,4\n,,z,5\n3,yes")
        assert node.live_input.serve()
        assert not node.live_input.stream.has_ended
        node.write(",y,7")
        node.end()
        node.live_input.serve()
        node.live_input.serve()
        assert learned(node.live_input) == [
            ([3.0, 2.0, 0.0, 0.0, 0.5], -1.0),
            ([4.0, 0.0, 1.0, 0.0, 0.5], 0.0),
            ([6.0, 3.0, 0.0, 0.0, 0.5], 1.0),
        ]
        assert node.live_input.stream.has_ended and not node.waits
        assert not node.live_input.serve()


def test_a_full_backlog_leaves_lines_where_they_are_until_half_of_it_is_learned(narrow: Piped) -> None:
    narrow.write("".join(line(number) for number in range(7)))
    narrow.live_input.serve()
    assert narrow.live_input.stream.backlog == 4
    assert not narrow.live_input.serve()
    assert not narrow.waits
    narrow.live_input.stream.index_at(1)
    assert not narrow.live_input.serve()
    narrow.live_input.stream.index_at(2)
    narrow.live_input.stream.index_at(3)
    assert narrow.live_input.serve()
    assert narrow.waits
    assert narrow.live_input.num_accepted == 7


def test_bad_lines_are_left_out_and_told_ten_times(wide: Piped) -> None:
    wide.write('nonsense\n{"x": [1, 2], "label": 1}\n{"x": [1, 2, NaN], "label": 1}\n' + line(5) + line(6, label=3))
    wide.live_input.serve()
    assert rows_of(wide.live_input) == [5.0]
    told = wide.said.texts
    assert [text.partition(",")[0] for text in told] == [f"left out standard input:{number}" for number in (1, 2, 3, 5)]
    assert told[1] == "left out standard input:2, row: expected 3 numbers, got 2 of them"
    assert "label: expected -1 or +1 (or 0 and 1), got 3; data.positive names" in told[3]
    wide.write("[]\n" * 30)
    wide.live_input.serve()
    assert wide.live_input.bad == 34 and len(told) == 10
    assert told[-1].endswith("further ones are counted only")


@pytest.mark.parametrize(
    ("format", "rows", "text", "told"),
    [
        ("csv", NAMED, "age,dose,ill\n4,2\n", "line: expected 3 fields, as in the header, got 2"),
        ("csv", NAMED, "age,dose,ill\n4,high,no\n", 'column "dose": expected a number, got "high"'),
        ("csv", NAMED, "age,dos,ill\n", 'column names: expected one column "dose", got "age", "dos", "ill"; did you'),
        ("csv", NAMED, 'age,dose,ill\n"4"x,2,no\n', "line: expected separated fields, got a csv error"),
        ("csv", THREE, "a,b,label\n", "column names: expected 3 feature columns (data.dim), got 2"),
        (
            "jsonl",
            NAMED,
            '{"age": 4, "ill": "no"}\n',
            'feature "dose": expected a value, or null where it is missing, got n',
        ),
        ("csv", NAMED, "age,dose,ill\n4,2,perhaps\n", 'label: expected "yes" or "no", got "perhaps"'),
        ("jsonl", NAMED, '{"age": true, "dose": 1, "ill": "no"}\n', 'feature "age": expected a number, got True'),
        ("jsonl", NAMED, '{"age": 1, "dose": 1}\n', 'label: expected a key "ill", got none'),
        (
            "jsonl",
            NAMED,
            '{"age": 1e999, "dose": 1, "ill": "no"}\n',
            'feature "age": expected a finite number, got inf',
        ),
        ("jsonl", THREE, '{"x": [1, 2, NaN], "label": 1}\n', "row: expected finite numbers, got others"),
        ("jsonl", THREE, '{"label": 1, "a": 3}\n', 'line: expected a key "x" with all numbers, or "indices" and'),
        ("jsonl", THREE, '{"label": 1, "indices": [3], "values": [1]}\n', "indices: expected increasing"),
        ("svmlight", THREE, "1 0:1\n", "expected feature numbers from 1"),
        ("svmlight", THREE, "1 4:1\n", "expected feature numbers up to 3, got 4"),
        ("svmlight", THREE, "2 1:1\n", 'label: expected -1 or +1 (or 0 and 1), got "2"'),
        ("svmlight", THREE, "1 1:1e999\n", "values: expected finite numbers"),
        ("svmlight", CENTERED, "1 1:1\n", "row: expected a dense one, for it is centered"),
        ("svmlight", NAMED, "yes 3:1\n", "line: expected feature numbers up to 2, got 3"),
        ("jsonl", KINDS, '{"indices": [0], "values": [1], "ill": "yes"}\n', "row: expected cells by their names"),
        ("jsonl", KINDS, '{"age": 3, "who": {}, "ill": "yes"}\n', 'feature "who": expected one value, got dict of 0'),
        ("jsonl", NAMED, "[" * 100_000 + "\n", "line: expected a JSON object"),
        ("jsonl", THREE, '{"x": [1e200, 0, 0], "label": 1}\n', "row: expected numbers whose squares, once preproc"),
        ("jsonl", THREE, '{"x": [7e5, 7e5, 7e5], "label": 1}\n', "at most 1e+12, got 1.47e+12; data.scaling, data.s"),
        ("jsonl", TINY, '{"x": [1e200, 0, 0], "label": 1}\n', "row: expected numbers whose squares"),
        ("svmlight", THREE, "1 2:1e7\n", "row: expected numbers whose squares"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_with_its_place(
    tmp_path: Path, format: str, rows: RowReader, text: str, told: str
) -> None:
    for node in piped(tmp_path / "node", rows=rows, format=format):
        for start in range(0, len(text), 50_000):
            node.write(text[start : start + 50_000])
            node.live_input.serve()
        assert node.live_input.stream.backlog == 0
        assert len(node.said.texts) == 1 and told in node.said.texts[0]


def test_text_that_is_not_utf_8_is_left_out(wide: Piped) -> None:
    os.write(wide._writing, b'{"x": \xff}\n')
    wide.live_input.serve()
    assert wide.said.texts == ["left out standard input:1, text: expected UTF-8, got byte 0xff"]


def test_a_line_without_an_end_fills_no_memory(wide: Piped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "_LINE_BYTES", 1000)
    for _ in range(5):
        wide.write("7" * 1001)
        wide.live_input.serve()
        assert isinstance(wide.live_input._source, StandardInput) and wide.live_input._source._splitter.size == 0
    wide.write("\n" + line(3))
    wide.live_input.serve()
    assert rows_of(wide.live_input) == [3.0] and wide.live_input.bad == 5


def test_sparse_lines_are_folded_and_normalised_as_files_are(tmp_path: Path) -> None:
    rows = RowReader(Preprocessing(raw_dim=HASHED_DIM, hash=4, normalize=True))
    for node in piped(tmp_path / "node", rows=rows, format="svmlight"):
        node.write("-1 5:3 900:0 # a comment\n\n+1 7:2\n")
        node.live_input.serve()
        found = learned(node.live_input)
        assert [label for _, label in found] == [-1.0, 1.0]
        assert all(np.linalg.norm(x) == 1.0 for x, _ in found)


# A file that grows


class Log:
    """A file that is followed by one node after another, as after a crash."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "events.jsonl"
        self.said = Said()
        self._folder = folder / "node"
        self._settings: dict[str, Any] = {"file": str(self.path)}
        self.open()

    def open(self, **settings: Any) -> None:
        self._settings |= settings
        self.live_input = live_input_of(node_spec(self._folder, **self._settings), said=self.said)
        open_source(self.live_input, FixedModel())

    def start_again(self, **settings: Any) -> None:
        """As after SIGKILL: what was learned is learned again from the journal."""
        self.live_input.close()
        self.open(**settings)

    def look(self) -> None:
        for _ in range(6):
            assert isinstance(self.live_input._source, FollowedFile)
            self.live_input._source._look_at = 0.0
            self.live_input.serve()

    def write(self, *found: float, mode: str = "a") -> None:
        with self.path.open(mode) as file:
            file.write("".join(map(line, found)))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    found = Log(tmp_path)
    yield found
    found.live_input.close()


def test_a_file_is_followed_from_before_it_is_there(log: Log) -> None:
    log.look()
    assert log.said.texts == [f"waiting for {log.path} to be there"]
    log.write(1, 2)
    log.look()
    with log.path.open("a") as file:
        file.write(line(3)[:9])
        file.flush()
        log.look()
        assert log.live_input.num_accepted == 2
        file.write(line(3)[9:])
    log.look()
    assert rows_of(log.live_input) == [1.0, 2.0, 3.0]


def test_after_a_crash_no_line_is_lost_or_taken_twice(log: Log) -> None:
    log.write(1, 2)
    log.look()
    log.write(3)
    log.start_again()
    log.look()
    log.start_again()
    log.write(4)
    log.look()
    assert rows_of(log.live_input) == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("crash", [False, True])
def test_a_file_that_was_moved_away_is_read_to_its_end_first(log: Log, crash: bool) -> None:
    log.write(1)
    log.look()
    log.write(2)
    log.path.rename(log.path.with_name(log.path.name + ".1"))
    if crash:
        log.start_again()
    log.write(3, 4)
    log.look()
    assert rows_of(log.live_input) == [1.0, 2.0, 3.0, 4.0]


def test_a_file_that_was_moved_away_is_left_only_once_there_is_something_in_the_new_one(log: Log) -> None:
    """Whoever writes it may not have noticed yet."""
    log.write(1)
    log.look()
    old = log.path.rename(log.path.with_name(log.path.name + ".1"))
    log.path.touch()
    log.look()
    with old.open("a") as file:
        file.write(line(2))
    log.look()
    log.write(3)
    log.look()
    assert rows_of(log.live_input) == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("found", [(8.0,), (11.0, 12.0, 13.0)])
def test_a_file_that_was_written_anew_is_read_from_its_start(log: Log, crash: bool, found: tuple[float, ...]) -> None:
    """Also where it is longer by now than what was read of it."""
    log.write(1, 2)
    log.look()
    log.write(*found, mode="w")
    if crash:
        log.start_again()
    log.look()
    assert rows_of(log.live_input) == [1.0, 2.0, *found]
    assert log.said.texts[-1] == f"{log.path} was written anew: reading it from its start"


@pytest.mark.parametrize("after", [line(33), line(33) + line(4), line(2)[:5], ""])
def test_a_line_without_an_end_that_was_written_over_is_read_again(log: Log, after: str) -> None:
    """It is not put together from what it was and what it is, nor are the lines before it taken twice."""
    log.write(1)
    log.look()
    with log.path.open("a") as file:
        file.write('{"x": [2, 0')
    log.look()
    log.path.write_text(line(1) + after)
    log.look()
    if not after.endswith("\n"):
        with log.path.open("a") as file:
            file.write(line(2)[len(after) :])
        log.look()
    expected = {line(33): [33.0], line(33) + line(4): [33.0, 4.0]}.get(after, [2.0])
    assert rows_of(log.live_input) == [1.0, *expected]
    assert log.live_input.bad == 0 and not any("anew" in text for text in log.said.texts)


def turn(log: Log, at_s: int) -> None:
    """Move the file away as logrotate does, as one that was written last at this time."""
    for number in (3, 2, 1):
        old = log.path.with_name(f"{log.path.name}.{number}")
        if old.exists():
            old.rename(log.path.with_name(f"{log.path.name}.{number + 1}"))
    os.utime(log.path, (at_s, at_s))
    log.path.rename(log.path.with_name(f"{log.path.name}.1"))


@pytest.mark.parametrize("crash", [False, True])
def test_a_file_that_came_and_went_while_nobody_looked_is_told(log: Log, crash: bool) -> None:
    log.write(0)
    log.look()
    turn(log, 1000)
    log.write(1)
    log.look()
    log.write(2)
    turn(log, 2000)
    log.write(3)
    turn(log, 3000)
    log.write(4)
    if crash:
        log.start_again()
    log.look()
    assert rows_of(log.live_input) == [0.0, 1.0, 2.0, 4.0]
    [told] = [text for text in log.said.texts if "waiting" not in text]
    assert told == f"between the file that was read last and {log.path} there was events.jsonl.1: not read"


def test_a_file_that_was_moved_away_and_is_gone_after_a_crash_is_told(log: Log) -> None:
    log.write(1)
    log.look()
    log.live_input.close()
    log.path.rename(log.path.with_name("elsewhere"))
    log.write(2)
    log.open()
    log.look()
    assert rows_of(log.live_input) == [1.0, 2.0]
    assert f"{log.path} is another file than the one that was read last, which is gone" in log.said.texts[-1]


def test_a_file_that_does_not_grow_ends_the_stream_and_its_last_line_needs_no_end(log: Log) -> None:
    log.start_again(follow=False)
    log.path.write_text(line(1) + line(2).rstrip())
    log.look()
    assert rows_of(log.live_input) == [1.0, 2.0]
    assert log.live_input.stream.has_ended
    log.start_again()
    log.look()
    assert log.live_input.stream.has_ended and log.live_input.num_accepted == 2


def test_the_column_names_of_a_file_are_known_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("dose,age,ill\n1,2,no\n")
    spec = node_spec(tmp_path / "node", NAMED, file=str(path), format="csv")
    for text in ("3,4,yes\n", "5,6,no\n", ""):
        live_input = live_input_of(spec)
        open_source(live_input, FixedModel())
        live_input.serve()
        with path.open("a") as file:
            file.write(text)
        live_input.close()
    assert learned(live_input) == [
        ([1.0, 1.0, 0.0, 0.0, 0.5], -1.0),
        ([3.0, 3.0, 0.0, 0.0, 0.5], 1.0),
        ([5.0, 5.0, 0.0, 0.0, 0.5], -1.0),
    ]


def test_something_else_than_a_file_is_waited_out(log: Log) -> None:
    log.path.mkdir()
    log.look()
    assert log.said.texts == [f"waiting for {log.path} to be there (not a regular file)"]


# The socket


class Asker:
    """Raw requests to a node's socket, answered step by step in one thread."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.bind = f"ipc://{folder}/live.sock"
        self.model = FixedModel()
        self._spec = node_spec(folder / "node", bind=self.bind, **settings)
        self.live_input = live_input_of(self._spec)
        open_source(self.live_input, self.model)
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.connect(self.bind)
        self._asked = 0

    def start_again(self) -> None:
        self.live_input.close()
        self.live_input = live_input_of(self._spec, incarnation=2)
        open_source(self.live_input, self.model)

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        self._asked += 1
        [answer] = self.ask_together([{"do": do, "version": 2, "id": self._asked, **more}])
        assert answer["id"] == self._asked
        return answer

    def ask_together(self, requests: list[Any]) -> list[dict[str, Any]]:
        for request in requests:
            self.send(msgpack.packb(request))
        return [self.receive() for _ in requests]

    def send(self, *frames: bytes) -> None:
        self._socket.send_multipart(frames)

    def receive(self) -> dict[str, Any]:
        for _ in range(100):
            zmq.zmq_poll([(self.live_input.waits_for, zmq.POLLIN)], 20)
            self.live_input.serve()
            if self._socket.poll(20):
                return dict(msgpack.unpackb(self._socket.recv()))
        raise AssertionError("no answer")

    def close(self) -> None:
        self.live_input.close()
        self._socket.close(linger=0)
        self._context.term()


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    found = Asker(tmp_path, backlog=4, unlabelled=3)
    yield found
    found.close()


ME = {"client": b"m" * 16}


def block(*found: float) -> bytes:
    return np.array([[number, 0.0, 0.0] for number in found]).tobytes()


def test_rows_are_predicted_and_learned_when_their_labels_come(asker: Asker) -> None:
    asker.model.round = 7
    answer = asker.ask("predict", rows=block(1, 2))
    assert (answer["is"], answer["scores"], answer["round"]) == ("ok", [1.0, 2.0], 7)
    assert asker.ask("predict", rows=[[0, 1, 0], {"indices": [2], "values": [3.0]}])["scores"] == [10.0, 300.0]
    assert asker.live_input.stream.backlog == 0
    labelled = asker.ask("label", tickets=answer["tickets"][1:], labels=[-1], number=1, **ME)
    assert (labelled["is"], labelled["accepted"]) == ("ok", 1)
    assert learned(asker.live_input) == [([2.0, 0.0, 0.0], -1.0)]
    status = asker.ask("status")
    assert (status["task"], status["accepted"], status["learned"], status["predicted"]) == ("north", 1, 1, 4)
    assert (status["unlabelled"], status["forgotten"], status["ended"]) == (2, 1, False)
    assert status["sharing"] is None, "this learner mixes no experts"


def test_the_status_says_what_sharing_does(asker: Asker) -> None:
    counts = {"examples": 400, "errors": 10, "errors_alone": 90, "disagreements": 80, "loss_alone": 1, "loss": 2}
    asker.model.mixing = np.full(7, 1 / 7), np.array([float(counts.get(name, 0)) for name in EVIDENCE])
    sharing = asker.ask("status")["sharing"]
    assert (sharing["effect"], sharing["gain_points"], sharing["examples_missing"]) == ("helps", 20.0, None)
    low, high = sharing["gain_points_interval"]
    assert 10 < low < 20 < high < 30
    assert sharing["gain_nats_interval"][0] < sharing["gain_nats"] == -0.0025


def test_the_oldest_row_without_a_label_is_forgotten_and_that_is_said(asker: Asker) -> None:
    tickets = [asker.ask("predict", rows=block(number))["tickets"][0] for number in range(4)]
    answer = asker.ask("label", tickets=tickets[:2], labels=[1, 1], number=1, **ME)
    assert answer["is"] == "unknown" and answer["tickets"] == tickets[:1]
    assert answer["why"] == "label for an example that is no longer remembered: send it with learn"
    assert asker.live_input.num_accepted == 0, "all of a request, or nothing"
    assert asker.ask("learn", rows=block(0, 1), labels=[1, 1], number=1, **ME)["is"] == "ok"
    assert asker.live_input.num_accepted == 2


def test_what_is_asked_twice_is_learned_once_also_after_a_crash(asker: Asker) -> None:
    [ticket] = asker.ask("predict", rows=block(5))["tickets"]
    request = {"tickets": [ticket], "labels": [1], "number": 1, **ME}
    for _ in range(2):
        assert asker.ask("label", **request)["is"] == "ok"
    again = {"do": "learn", "version": 2, "rows": block(6), "labels": [1], "number": 2, **ME}
    assert [answer["is"] for answer in asker.ask_together([again | {"id": 90}, again | {"id": 91}])] == ["ok", "ok"]
    asker.start_again()
    assert asker.ask("label", **request)["is"] == "ok", "though its ticket is not known any more"
    assert asker.ask("learn", rows=block(6), labels=[1], number=2, **ME)["is"] == "ok"
    assert asker.ask("learn", rows=block(7), labels=[1], number=3, **ME)["is"] == "ok"
    assert rows_of(asker.live_input) == [5.0, 6.0, 7.0]


def test_a_row_that_is_remembered_keeps_no_others_and_is_never_changed(asker: Asker) -> None:
    asker.ask("predict", rows=block(*range(500)))
    service = asker.live_input._source
    assert isinstance(service, Service)
    rows = list(service._unlabelled.values())
    assert len(rows) == 3
    for row in rows:
        assert isinstance(row, np.ndarray) and row.base is None
        with pytest.raises(ValueError, match="read-only"):
            row[0] = 7.0


def test_large_numbers_that_are_normalised_are_learned(tmp_path: Path) -> None:
    node = Asker(tmp_path, rows=RowReader(Preprocessing(3, normalize=True)))
    assert node.ask("learn", rows=[[1e200, 0, 0], [0, -1e-200, 0]], labels=[1, 1], number=1, **ME)["is"] == "ok"
    assert learned(node.live_input) == [([1.0, 0.0, 0.0], 1.0), ([0.0, -1.0, 0.0], 1.0)]
    node.close()


@pytest.mark.parametrize("label", [None, "", "NA", float("nan")])
def test_a_row_without_a_label_is_kept_to_be_predicted(asker: Asker, label: object) -> None:
    """ "NA-like or empty: the row is predicted and not learned, and counted .. Live: the same rules"."""
    assert asker.ask("learn", rows=block(1, 2), labels=[label, 1], number=1, **ME)["is"] == "ok"
    assert [sign for _, sign in learned(asker.live_input)] == [0.0, 1.0]


def test_a_ticket_of_an_earlier_life_is_none_of_this_one(asker: Asker) -> None:
    [ticket] = asker.ask("predict", rows=block(5))["tickets"]
    asker.start_again()
    assert asker.ask("predict", rows=block(6))["tickets"] != [ticket]
    assert asker.ask("label", tickets=[ticket], labels=[1], number=1, **ME)["is"] == "unknown"


def test_a_full_backlog_makes_applications_wait_but_predicts(asker: Asker) -> None:
    assert asker.ask("learn", rows=block(1, 2, 3), labels=[1, 1, 1], number=1, **ME)["is"] == "ok"
    more = {"rows": block(4, 5), "labels": [1, 1], "number": 2, **ME}
    answer = asker.ask("learn", **more)
    assert answer["is"] == "full" and answer["again_s"] > 0
    assert asker.ask("predict", rows=block(9))["is"] == "ok"
    asker.live_input.stream.index_at(1)
    assert asker.ask("learn", **more)["is"] == "ok"
    assert rows_of(asker.live_input) == [2.0, 3.0, 4.0, 5.0]
    refused = asker.ask("learn", rows=block(*range(5)), labels=[1] * 5, number=3, **ME)
    assert refused["why"] == "rows: expected at most 4 at a time (source.backlog)"


def test_an_example_is_on_the_disk_before_it_is_said_to_be_accepted(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    add, send, fdatasync = asker.live_input.stream.add, ApplicationPort.send, os.fdatasync

    def noting(what: str, call: Any) -> Any:
        return lambda *its, **more: (order.append(what), call(*its, **more))[1]

    monkeypatch.setattr(os, "fdatasync", noting("on disk", fdatasync))
    monkeypatch.setattr(asker.live_input.stream, "add", noting("to be learned", add))
    monkeypatch.setattr(ApplicationPort, "send", noting("said", send))
    asker.ask("learn", rows=block(1), labels=[1], number=1, **ME)
    assert order == ["on disk", "to be learned", "said"]


def test_finish_ends_the_stream_for_good(asker: Asker) -> None:
    asker.ask("learn", rows=block(1), labels=[1], number=1, **ME)
    assert asker.ask("finish")["is"] == "ok" and asker.ask("finish")["is"] == "ok"
    assert asker.ask("status")["ended"]
    last = asker.live_input.stream.last_round()
    asker.start_again()
    assert asker.live_input.stream.last_round() == last
    assert "has ended" in asker.ask("learn", rows=block(2), labels=[1], number=2, **ME)["why"]
    assert asker.ask("learn", rows=block(1), labels=[1], number=1, **ME)["is"] == "ok"


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"do": "predict"}, "rows: expected a list, or bytes of float64"),
        ({"do": "predict", "rows": b"123"}, "rows: expected n x 3 float64 of 24 bytes a row, got 3 bytes"),
        ({"do": "predict", "rows": []}, "rows: expected 1 to 10000"),
        ({"do": "predict", "rows": [[1, 2]]}, "row: expected 3 numbers, got 2 of them"),
        ({"do": "predict", "rows": [[1, 2, "3"]]}, 'number 3: expected a number, got "3"'),
        ({"do": "predict", "rows": [[1, 2, float("inf")]]}, "row: expected finite numbers"),
        ({"do": "predict", "rows": [7]}, "row: expected 3 numbers, got 7"),
        ({"do": "predict", "rows": [{"a": 1}]}, "row: expected numbers without names"),
        ({"do": "predict", "rows": [{"indices": [2, 1], "values": [1, 1]}]}, "indices: expected increasing"),
        ({"do": "predict", "rows": [{"indices": [3], "values": [1]}]}, "indices: expected increasing"),
        ({"do": "predict", "rows": [{"indices": [1], "values": []}]}, "row: expected as many indices as values"),
        ({"do": "predict", "rows": [{"indices": 1, "values": [2]}]}, "row: expected as many indices as values"),
        ({"do": "predict", "rows": block(float("nan"))}, "row: expected finite numbers"),
        ({"do": "predict", "rows": [{"indices": [1], "values": [1e7]}]}, "row: expected numbers whose squares"),
        ({"do": "learn", "rows": block(1, 1e200), "labels": [1, 1], "number": 1, **ME}, "at most 1e+12, got inf"),
        ({"do": "learn", "rows": block(1), "labels": [1]}, "client: expected 16 bytes of its own"),
        ({"do": "learn", "rows": block(1), "labels": [1], **ME}, "number: expected a whole number from 1"),
        ({"do": "learn", "rows": block(1), "labels": [1], "number": True, **ME}, "number: expected a whole number"),
        ({"do": "learn", "rows": block(1), "labels": [], "number": 1, **ME}, "labels: expected 1, one for each row"),
        ({"do": "learn", "rows": block(1), "labels": ["?!"], "number": 1, **ME}, "label: expected -1 or +1"),
        ({"do": "learn", "rows": block(1), "labels": [[1]], "number": 1, **ME}, "label: expected -1 or +1"),
        ({"do": "label", "tickets": [1, "2"], "labels": [1, 1], "number": 1, **ME}, "tickets: expected a list"),
        ({"do": "label", "tickets": [1, 1], "labels": [1, 1], "number": 1, **ME}, "tickets: expected different ones"),
        ({"do": "drop"}, "do: expected one of predict, label, learn, status, finish"),
        ({"do": ["predict"]}, "do: expected one of"),
        ({"do": "status", "version": 1}, "version: expected 2"),
        ({"do": "status", "id": -1}, "id: expected a whole number"),
        ([1, 2], "expected a msgpack map"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(asker: Asker, request_: Any, why: str) -> None:
    request = {"version": 2, "id": 1} | request_ if isinstance(request_, dict) else request_
    [answer] = asker.ask_together([request])
    assert answer["is"] == "refused" and why in answer["why"]
    assert asker.live_input.num_accepted == 0
    assert asker.ask("status")["is"] == "ok"


@pytest.mark.parametrize("frames", [[b""], [b"\xc1"], [b"\xdd\xff\xff\xff\xff"], [b"\x80", b"\x80"], [b"\x91" * 5000]])
def test_no_bytes_harm_a_node(asker: Asker, frames: list[bytes]) -> None:
    asker.send(*frames)
    assert asker.receive()["is"] == "refused"
    assert asker.ask("status")["is"] == "ok"


def test_two_nodes_cannot_have_one_socket(asker: Asker, tmp_path: Path) -> None:
    other = live_input_of(node_spec(tmp_path / "other", bind=asker.bind))
    with pytest.raises(ClusterError, match=r"cannot listen for applications on ipc://.*another process listens there"):
        open_source(other, FixedModel())


# Snapshots


def snapshot(taken: int, t: int) -> dict[str, Any]:
    return {"round": t, "learner": {"_taken": taken}}


def test_what_the_older_of_two_snapshots_needs_no_more_is_let_go_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drom_net.storage.journal._SEGMENT_BYTES", 1)
    spec = node_spec(tmp_path / "node", stdin=True)
    live_input = live_input_of(spec)
    for t in range(1, 7):
        if t != 3:
            live_input.add([(np.array([t, 0.0, 0.0]), 1.0)])
            live_input.commit()
        live_input.stream.index_at(t)
        live_input.keep_decided()
        live_input.snapshot_taken(snapshot(live_input.stream.next_index, t))
        if t < 6:
            live_input.snapshot_persisted()
    live_input.close()
    # Those of rounds 4 and 5 are kept; that of round 6 was being written.
    for taken, t, expected in ((3, 4, [5.0, 6.0]), (4, 5, [6.0])):
        again = live_input_of(spec, snapshot=snapshot(taken, t))
        again.stream.seek(taken, t)
        assert rows_of(again) == expected
    assert len(list((tmp_path / "node" / "spool").iterdir())) < 6
    with pytest.raises(CheckpointError, match="has the examples from 3 to 5"):
        live_input_of(spec)


def test_rounds_without_an_example_are_the_same_ones_after_a_crash(tmp_path: Path) -> None:
    spec = node_spec(tmp_path / "node", stdin=True)
    live_input = live_input_of(spec)
    assert live_input.stream.index_at(1) is None
    live_input.keep_decided()
    live_input.add([(np.ones(3), 1.0)])
    live_input.commit()
    assert live_input.stream.index_at(2) == 0
    live_input.close()
    again = live_input_of(spec)
    assert [again.stream.index_at(1), again.stream.index_at(2)] == [None, 0]


@pytest.mark.parametrize("label", [1, 0.5, -1])
def test_a_number_beside_labels_that_are_words_is_no_label(label: object) -> None:
    """That 1 was learned as -1, for it is not "yes", helped nobody."""
    rows = RowReader(Preprocessing(3), labels=ILL)
    assert (rows.sign("yes"), rows.sign("no"), rows.sign(None), rows.sign("")) == (1.0, -1.0, 0.0, 0.0)
    with pytest.raises(RowError, match="label: expected"):
        rows.sign(label)
    assert (rows.sign(True), rows.sign(False)) == (1.0, -1.0)  # as JSON has what a table calls yes and no
    with pytest.raises(RowError, match="label: expected"):
        RowReader(Preprocessing(3), labels=Labels(("spam",), ("mail",))).sign(True)
    numbers = RowReader(Preprocessing(3), labels=Labels(("2",), ("1",)))
    assert (numbers.sign(2), numbers.sign(1), numbers.sign("2")) == (1.0, -1.0, 1.0)


def test_a_line_may_have_the_non_zeros_alone_also_where_features_have_names() -> None:
    features, sign = LineParser("jsonl", NAMED).read(b'{"indices": [1], "values": [2.5], "ill": "yes"}')  # type: ignore[misc]
    assert not isinstance(features, SparseVector)
    assert (features.tolist(), sign) == ([0.0, 2.5, 0.0, 0.0], 1.0)
    with pytest.raises(RowError, match="increasing whole numbers from 0 to 1, got 2"):
        LineParser("jsonl", NAMED).read(b'{"indices": [2], "values": [2.5], "ill": "yes"}')
