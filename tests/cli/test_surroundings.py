"""The command line in odd surroundings: files in the way, closed streams, names that no terminal shows."""

from __future__ import annotations

import gzip
import json
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from drom_net.cli import main, output
from drom_net.cli.output import QuietProgress
from drom_net.cluster.local import Interruption
from drom_net.core.errors import StoppedError, did_you_mean
from drom_net.data.stream import TaskStream
from drom_net.learning.metrics import Totals
from drom_net.node.signals import stop_signals
from drom_net.results.summary import remove_folder

DATA = "data: {dataset: synthetic, tasks: 2, examples: 25, dim: 3}\n"
STAR = f"algorithm: {{name: drom}}\n{DATA}reducer: {{endpoint: 'ipc://mine.csv'}}\n"
RING = f"algorithm: {{name: drom-d}}\ntopology: {{graph: ring}}\n{DATA}peers: {{endpoints: ['ipc://mine.csv', 'ipc://b']}}\n"
LIVE = """
algorithm: {name: drom}
data: {dataset: live, tasks: [north], features: [x]}
source: {bind: 'ipc://mine.csv'}
reducer: {endpoint: 'ipc://meet'}
"""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("text", [STAR, RING, LIVE])
@pytest.mark.parametrize("by_hand", [[], ["--out", "o"], ["--out", "o", "--task", "0"]])
def test_a_socket_replaces_no_file(text: str, by_hand: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """`check` tells; `run` and the node that would listen there refuse."""
    Path("mine.csv").write_text("a year of measurements")
    Path("c.yaml").write_text(text)
    role = "peer" if "ring" in text else "worker"
    commands = {0: ["check", "c.yaml"], 2: ["run", "c.yaml", *by_hand], 4: [role, "c.yaml", *by_hand]}
    if text == STAR and len(by_hand) == 4:
        commands[4] = ["reducer", "c.yaml", "--out", "o"]
    assert main(commands[len(by_hand)]) == 2
    assert capsys.readouterr().err == (
        "error: ipc://mine.csv: expected a free name for a socket, got mine.csv, which is a file and stays\n"
    )
    assert Path("mine.csv").read_text() == "a year of measurements"
    assert not Path("o").exists()


def test_a_finished_run_is_never_gone_on_with(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where its launcher died while it removed the nodes' folders."""
    Path("c.yaml").write_text(f"algorithm: {{name: drom}}\n{DATA}")
    assert main(["run", "c.yaml", "--driver", "reference", "--out", "o", "--quiet"]) == 0
    (Path("o") / "nodes" / "task-01").mkdir(parents=True)
    (Path("o") / "nodes" / "task-01" / "spec.json").write_text("{}")
    before = {path.name: path.read_bytes() for path in Path("o").iterdir() if path.is_file()}
    assert json.loads(before["summary.json"])["status"] == "finished"
    assert main(["run", "--resume", "o"]) == 2
    assert capsys.readouterr().err == "error: o is the directory of a run that has finished\n"
    assert {path.name: path.read_bytes() for path in Path("o").iterdir() if path.is_file()} == before


def test_a_folder_is_removed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is killed while it goes leaves nothing of its name behind; what is left goes the next time."""
    folder = Path("nodes")
    (folder / "task-01").mkdir(parents=True)
    with monkeypatch.context() as killed:
        killed.setattr("shutil.rmtree", lambda path, **_: None)
        remove_folder(folder)
    assert not folder.exists()
    assert list(Path().iterdir()) == [Path(".nodes.part")]
    folder.mkdir()
    remove_folder(folder)
    assert list(Path().iterdir()) == []
    remove_folder(folder)


def test_a_node_does_not_go_on_with_other_data(capsys: pytest.CaptureFixture[str]) -> None:
    """operations.md, going on: "Data that has changed since is refused"."""
    Path("c.yaml").write_text(f"algorithm: {{name: drom}}\n{DATA}reducer: {{endpoint: 'tcp://127.0.0.1:1'}}\n")
    folder = Path("o") / "nodes" / "task-01"
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text('{"data_digest": "c0ffee"}')
    (folder / "life.json").write_text('{"incarnation": 1, "run_id": "a"}')
    assert main(["worker", "c.yaml", "--task", "0", "--out", "o"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(
        "error: the data of task-01: expected the examples that the run began with (digest c0ffee), got others (digest "
    )
    assert said.count("\n") == 1
    assert json.loads((folder / "spec.json").read_text()) == {"data_digest": "c0ffee"}


def test_the_digest_of_a_stream_is_that_of_all_that_is_learned() -> None:
    rows, labels = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0])
    stream = TaskStream(rows, labels, labels)
    others = [
        TaskStream(rows[::-1].copy(), labels, labels),
        TaskStream(rows, -labels, labels),
        TaskStream(rows, labels, -labels),
        TaskStream(rows, labels, labels, passes=2),
        TaskStream(rows[:1], labels[:1], labels[:1]),
        TaskStream(rows.reshape(1, 4), labels, labels),
    ]
    assert len({stream.digest(), *(other.digest() for other in others)}) == 7
    assert TaskStream(rows.copy(), labels.copy(), labels.copy()).digest() == stream.digest()


def test_signals_within_a_second_are_one_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    """`timeout` sends its own twice. After the second wish the launcher ends by itself, whoever asks a third time."""
    before = {number: signal.getsignal(number) for number in stop_signals()}
    try:
        with suppress(StoppedError), Interruption() as interruption:
            for now, again in ((100.0, False), (100.02, False), (100.9, False), (101.1, True)):
                monkeypatch.setattr("time.monotonic", partial(float, now))
                signal.raise_signal(signal.SIGTERM)
                assert (interruption.exit_code, interruption.again) == (143, again)
            raise StoppedError("ended at once", 143)
        signal.raise_signal(signal.SIGTERM)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_hangup_that_is_ignored_stays_ignored(handler: signal.Handlers) -> None:
    """`nohup drom-net run` goes on when its terminal is closed."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        with Interruption() as interruption:
            signal.raise_signal(signal.SIGHUP)
        assert interruption.exit_code == (0 if handler is signal.SIG_IGN else 129)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (gzip.compress(b"a,label\n1,1\n"), ".gz"),
        (b"PK\x03\x04 sheet", "export the sheet as CSV"),
        (b"PAR1", ".parquet"),
    ],
    ids=["gzip", "zip", "Parquet"],
)
def test_a_file_that_is_no_text_is_called_what_it_is(
    content: bytes, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s-x.csv").write_bytes(content)
    Path("q.yaml").write_text('data: {files: "s-{task}.csv"}')
    assert main(["check", "q.yaml"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: s-x.csv: expected a table as text, got ")
    assert what in err


def test_of_names_that_look_alike_the_characters_are_shown() -> None:
    for word, name in (("caf\u00e9", "cafe\u0301"), ("age", "age\u200b"), ("an age", "an\u00a0age")):
        hint = did_you_mean(word, ["b", name])
        assert "looks alike in other Unicode characters" in hint
        assert name.encode("unicode_escape").decode() in hint
    assert did_you_mean("lable", ["label"]) == 'did you mean "label"?'


@pytest.mark.parametrize("quiet", [False, True])
def test_quiet_is_quiet_in_json_too(
    quiet: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "_PLAIN_EVERY_S", 0.0)
    with output.showing_progress(as_json=True, quiet=quiet) as progress:
        progress.start(["a"], 9)
        progress.update(1, lambda: [Totals()], None)
        progress.say("what must be said")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [next(iter(line)) for line in lines] == [*(() if quiet else ("round",)), "message"]


def test_what_is_left_is_told_from_the_last_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten slow seconds at the start are forgotten after ten fast ones."""
    monkeypatch.setattr("time.monotonic", partial(float, 100.0))
    progress = QuietProgress()
    progress.start(["a"], 1000)
    for now, t in ((110.0, 10), (115.0, 60), (120.0, 110), (125.0, 160)):
        monkeypatch.setattr("time.monotonic", partial(float, now))
        rate, left_s = progress._pace(t)
    assert (rate, left_s) == (10.0, 84.0)
