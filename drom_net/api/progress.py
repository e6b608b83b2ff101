"""How a run goes, for scripts and notebooks."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from drom_net.cluster.progress import Progress, Silent
from drom_net.core.errors import ConfigError, Problem
from drom_net.learning.metrics import Totals, total
from drom_net.node.lines import takes_a_line
from drom_net.results.wording import percent

Watch = Callable[[int, int, float | None], object]
"""(round, rounds in all, error rate so far; None before the first label)."""
Wanted = bool | Watch | None
_EVERY_S = 0.25


class Calls(Silent):
    """Calls a function some times a second, and after the last round."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._rounds, self._due = watch, 0, 0.0

    def start(self, names: Sequence[str], rounds: int) -> None:
        self._rounds, self._due = rounds, time.monotonic() + _EVERY_S

    def update(self, t: int, totals: Callable[[], Sequence[Totals]], sigma: float | None) -> None:
        if t >= self._rounds or time.monotonic() >= self._due:
            self._watch(t, self._rounds, total(totals()).error_rate)
            self._due = time.monotonic() + _EVERY_S


class _Line:
    """One line on standard error, that is written anew."""

    def __init__(self) -> None:
        self._width = 0

    def __call__(self, t: int, rounds: int, error_rate: float | None) -> None:
        text = f"round {t:,} of {rounds:,}, error rate {percent(error_rate)}"
        self._write(text)
        self._width = len(text)

    def clear(self) -> None:
        if self._width:
            self._write("")

    def _write(self, text: str) -> None:
        ending = "\r" if not text else ""
        if sys.stderr is not None and takes_a_line(sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # who has gone ends no run
                print(f"\r{text:<{self._width}}{ending}", end="", file=sys.stderr, flush=True)


def require_progress(wanted: object) -> None:
    """Raises ConfigError where `progress=` is nothing that `showing` takes."""
    if not (wanted is None or isinstance(wanted, bool) or callable(wanted)):
        expected = "True, False, None or a function of (round, rounds, error rate so far)"
        raise ConfigError([Problem("progress=", expected, repr(wanted))])


@contextlib.contextmanager
def showing(wanted: Wanted) -> Iterator[Progress]:
    """The progress that a caller wants; by default a line in a terminal or a notebook, and nothing elsewhere."""
    if wanted is None:
        wanted = (sys.stderr is not None and sys.stderr.isatty()) or "ipykernel" in sys.modules
    if isinstance(wanted, bool):
        if not wanted:
            yield Silent()
            return
        line = _Line()
        try:
            yield Calls(line)
        finally:
            line.clear()
        return
    yield Calls(wanted)
