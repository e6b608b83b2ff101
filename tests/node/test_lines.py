"""Lines to a stream that nobody reads: nothing waits, and nothing that matters is lost."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from drom_net.node.lines import Lines, takes_a_line


@contextlib.contextmanager
def full_pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Standard error is a pipe without room; what reads it, which does not wait."""
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 8192)
    os.write(writes, b"x" * 8191 + b"\n")
    os.set_blocking(reads, False)
    with os.fdopen(writes, "w") as stream, os.fdopen(reads, "rb"):
        monkeypatch.setattr(sys, "stderr", stream)
        yield reads


def read(reads: int) -> list[str]:
    return os.read(reads, 1 << 16).decode().splitlines()


def test_what_cannot_be_written_comes_later_and_in_order_and_progress_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = Lines("stderr")
    with full_pipe(monkeypatch) as reads:
        assert not takes_a_line(sys.stderr)
        lines.write("first")
        lines.write("half-way", droppable=True)
        lines.write("second")
        read(reads)  # there is room again
        lines.write("nearly there", droppable=True)
        assert read(reads) == ["first", "second", "nearly there"]


def test_late_lines_come_without_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines("stderr")
    with full_pipe(monkeypatch) as reads:
        lines.write("lost the reducer")
        assert not lines.write_late()
        read(reads)
        assert lines.write_late()
        assert read(reads) == ["lost the reducer"]


def test_a_line_that_is_longer_than_the_room_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, long = Lines("stderr"), "".join(map(str, range(5000)))
    with full_pipe(monkeypatch) as reads:
        read(reads)
        lines.write(long)  # 18,890 bytes, and room for 8,192
        lines.write("next")
        found = []
        while not lines.write_late():
            found.append(os.read(reads, 1 << 16))
        found.append(os.read(reads, 1 << 16))
        assert len(found) > 1
        assert b"".join(found).decode() == f"{long}\nnext\n"


def test_any_thread_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "log").open("w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        lines = Lines("stderr")
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(lines.write, f"{number:1500}") for number in range(400)]:
                done.result()
    assert sorted(map(int, (tmp_path / "log").read_text().splitlines())) == list(range(400))


def test_without_a_stream_nothing_is_written_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)  # as with 2>&-
    Lines("stderr").write("a word")
    assert capsys.readouterr().out == ""


def test_at_the_end_all_that_is_left_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines("stderr")
    with full_pipe(monkeypatch) as reads:
        lines.write("first")
        lines.write("second")
        read(reads)
        lines.finish()
        assert read(reads) == ["first", "second"]


def test_who_has_gone_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "wb", buffering=0) as stream, io.TextIOWrapper(stream, write_through=True) as text:
        monkeypatch.setattr(sys, "stderr", text)
        Lines("stderr").write("nobody")
        assert takes_a_line(text)


def test_a_file_takes_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "log").open("w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        lines = Lines("stderr")
        for number in range(5000):
            lines.write(str(number), droppable=number % 2 == 0)
    assert (tmp_path / "log").read_text().split() == [str(number) for number in range(5000)]


def test_a_stream_of_no_descriptor_takes_everything(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines("stderr")
    lines.write("one", droppable=True)
    lines.write("two")
    assert capsys.readouterr().err == "one\ntwo\n"
