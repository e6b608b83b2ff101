"""Help for tests that start real processes: a deadline for each, and a look at what they leave behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE = float(os.environ.get("DROM_NET_TEST_PATIENCE", "1"))
"""All deadlines of tests times this: more on a loaded machine."""
DEADLINE_S = 60.0 * PATIENCE
"""For whatever a test waits for; far beyond what it takes, so that a hang is a failure and not a wait."""

CONFIGS = Path(__file__).parents[1] / "configs"


class Family:
    """The processes that one test starts, known by a mark in their environment that children inherit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mark = f"DROM_NET_TEST_MARK={uuid.uuid4().hex}"
        self._started: list[subprocess.Popen[str]] = []
        self._told: list[Told] = []

    def watch(self, process: subprocess.Popen[str]) -> Told:
        """From now on read what it says on standard error, as it comes."""
        self._told.append(Told(process))
        return self._told[-1]

    def start(
        self,
        *arguments: str,
        environment: dict[str, str] | None = None,
        before: Sequence[str] = (),
        stderr: int = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        """`drom-net` with these arguments, in the test's folder; `before` is a command that runs it."""
        name, value = self._mark.split("=")
        process = subprocess.Popen(
            [*before, sys.executable, "-m", "drom_net", *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=os.environ | {name: value} | (environment or {}),
        )
        self._started.append(process)
        return process

    def run(self, *arguments: str, deadline_s: float = DEADLINE_S) -> tuple[int, str, str]:
        """Start and wait: (exit code, standard output, standard error)."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=deadline_s)
        return process.returncode, out, err

    def alive(self) -> dict[int, str]:
        """Processes that carry the mark and are no zombies: number -> command line."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if self._mark.encode() not in (entry / "environ").read_bytes().split(b"\0"):
                    continue
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (OSError, IndexError):
                continue  # it has ended meanwhile
            if state not in ("Z", "X"):
                found[int(entry.name)] = command
        return found

    def wait_for_all(self) -> None:
        """Wait until no process of the family is alive; fails at the deadline."""
        for number in self.alive():
            try:
                handle = os.pidfd_open(number)
            except ProcessLookupError:
                continue
            try:
                ended, _, _ = select.select([handle], [], [], DEADLINE_S)
            finally:
                os.close(handle)
            assert ended, f"still alive: {self.alive()}"

    def end(self) -> None:
        for number in self.alive():
            kill(number)
        for process in self._started:
            process.wait(timeout=DEADLINE_S)
        for told in self._told:
            told.join()
        for process in self._started:
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def kill(number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)


@contextmanager
def family(folder: Path) -> Iterator[Family]:
    """A family that is ended with the test, whatever happens in it."""
    found = Family(folder)
    try:
        yield found
    finally:
        found.end()


def read_until(process: subprocess.Popen[str], word: str) -> str:
    """Read a process's standard error up to the line that has `word` in it; fails where it ends before."""
    assert process.stderr is not None
    read = []
    for line in process.stderr:
        read.append(line)
        if word in line:
            return line
    raise AssertionError(f"{word!r} was never said, but: {''.join(read)}")


class Told:
    """What a process says on standard error: each line with the time at which it was read, on the monotonic clock."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: list[tuple[float, str]] = []
        self._ended = False
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        with self._news:
            return "".join(line for _, line in self._lines)

    def all_of_it(self) -> str:
        """What it has said in all, once it has ended."""
        self.join()
        return self.text

    def when(self, *words: str, since: float = 0.0, deadline_s: float = DEADLINE_S) -> float:
        """When it first said a line with all of these words in it, not before `since`: waits for that."""
        give_up_at = time.monotonic() + deadline_s
        seen = 0
        with self._news:
            while True:
                for at, line in self._lines[seen:]:
                    if at >= since and all(word in line for word in words):
                        return at
                seen = len(self._lines)
                left = give_up_at - time.monotonic()
                if self._ended or left <= 0:
                    how = "ended" if self._ended else "was waited for"
                    said = "".join(line for _, line in self._lines)
                    raise AssertionError(f"it {how} and has not said {' .. '.join(words)!r}, but:\n{said}")
                self._news.wait(left)

    def join(self) -> None:
        self._reader.join(DEADLINE_S)
        assert not self._reader.is_alive(), "somebody still holds its standard error"

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._news:
                self._lines.append((time.monotonic(), line))
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


def wait_until(condition: Callable[[], object], what: str, *, deadline_s: float = DEADLINE_S) -> None:
    """Wait for something that nobody tells of, such as a file; fails at the deadline."""
    give_up_at = time.monotonic() + deadline_s
    never = threading.Event()
    while not condition():
        assert time.monotonic() < give_up_at, f"{what}: not within {deadline_s:g} s"
        never.wait(0.01)  # between two looks
