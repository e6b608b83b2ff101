"""What people see: progress while a run goes on, and tables of its result."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import click
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from drom_net.cli.telling import is_structured, shown, tell
from drom_net.cluster.progress import Progress
from drom_net.comparison.runner import RunsProgress
from drom_net.learning.metrics import Totals, total
from drom_net.node.lines import Lines, takes_a_line
from drom_net.results.verdict import effect_of
from drom_net.results.wording import number, percent, size

_PACE_OF_S = 10.0
"""What is left is told from the rounds of so many seconds, and not before there are some."""
_PACE_AFTER_S = 1.0
_PLAIN_EVERY_S = 2.0
_LOG_EVERY_S = 10.0
_RUNS_EVERY_S = 10.0
_LIVE_EVERY_S = 0.25
_LIVE_TASKS = 16
_NAME_WIDTH = 40
"""Of a task's name in a table, which is cut where it is longer."""


def console(*, err: bool = False) -> Console:
    """Rich's console; in a pipe without colour, and wide enough that nothing is cut."""
    plain: dict[str, Any] = {"stderr": err, "highlight": False, "markup": False, "emoji": False}  # a text is a text
    found = Console(**plain)
    return found if found.is_terminal else Console(**plain, width=200, no_color=True)


def _points(value: float | None) -> str:
    """A difference of percentages, with its sign."""
    return "-" if value is None else f"{value:+.2f}"


def count_of(number: int, noun: str, several: str = "") -> str:
    """``1 task``, ``2 tasks``; ``several`` where an s is not enough."""
    return f"{number} {noun}" if number == 1 else f"{number} {several or noun + 's'}"


def duration(seconds: float) -> str:
    """``7.61 s``, or ``4 ms`` where that says more."""
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{1000 * seconds:.0f} ms"


class QuietProgress:
    """Says nothing but what must be said."""

    def start(self, names: Sequence[str], rounds: int) -> None:
        self._names, self._rounds = names, rounds
        self._last = time.monotonic()
        self._seen = deque([(self._last, 0)])

    def update(self, t: int, totals: Callable[[], Sequence[Totals]], sigma: float | None) -> None:
        pass

    def say(self, text: str) -> None:
        tell(text)

    def _due(self, every_s: float) -> bool:
        now = time.monotonic()
        if now < self._last + every_s:
            return False
        self._last = now
        return True

    def _pace(self, t: int) -> tuple[float, float | None]:
        """(rounds per second in the last seconds, seconds left; None where nobody knows)."""
        now = time.monotonic()
        self._seen.append((now, t))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _PACE_OF_S:
            self._seen.popleft()
        since, before = self._seen[0]
        rate = (t - before) / max(now - since, 1e-9)
        known = rate and self._rounds and now - since >= _PACE_AFTER_S
        return rate, (self._rounds - t) / rate if known else None


class JsonProgress(QuietProgress):
    """A JSON object a line on standard error, about every two seconds."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def update(self, t: int, totals: Callable[[], Sequence[Totals]], sigma: float | None) -> None:
        if self._quiet or not self._due(_PLAIN_EVERY_S):
            return
        sums = total(totals())
        rate, left_s = self._pace(t)
        line = {
            "round": t,
            "rounds": self._rounds or None,
            "error_rate": sums.error_rate,
            "majority_error_rate": sums.majority_error_rate,
            "log_loss": sums.log_loss,
            "f1": sums.f1,
            "sigma_1": sigma,
        }
        tell(json.dumps(line | {"rounds_per_s": round(rate, 3), "left_s": left_s and round(left_s, 3)}), "progress")

    def say(self, text: str) -> None:
        tell(json.dumps({"message": text}))


class LogProgress(QuietProgress):
    """A line of a structured log about every ten seconds."""

    def update(self, t: int, totals: Callable[[], Sequence[Totals]], sigma: float | None) -> None:
        if self._due(_LOG_EVERY_S):
            counts = totals()
            rate, left_s = self._pace(t)
            sums = total(counts)
            told = {
                "round": t,
                "rounds": self._rounds or None,
                "error_rate": sums.error_rate,
                "majority_error_rate": sums.majority_error_rate,
                "sigma_1": sigma,
            }
            text = progress_line(t, self._rounds, counts, sigma, rate, left_s)
            tell(text, "progress", level="info", **told, rounds_per_s=rate, left_s=left_s)


class PlainProgress(QuietProgress):
    """A line about every two seconds, for logs and pipes."""

    def update(self, t: int, totals: Callable[[], Sequence[Totals]], sigma: float | None) -> None:
        if self._due(_PLAIN_EVERY_S):
            tell(progress_line(t, self._rounds, totals(), sigma, *self._pace(t)), "progress")


class LiveProgress(QuietProgress):
    """A table that is redrawn in place, in a terminal."""

    def __init__(self) -> None:
        self._live = Live(console=console(err=True), transient=True, auto_refresh=False)
        self._late = _AboveTable(self._live)

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._late.finish()
        self._live.stop()

    def update(self, t: int, totals: Callable[[], Sequence[Totals]], sigma: float | None) -> None:
        if not self._due(_LIVE_EVERY_S) or not takes_a_line(sys.stderr):
            return
        self._late.write_late()
        counts = totals()
        table = Table()
        for column in ("task", "examples", "error rate", "majority", "F1"):
            table.add_column(column, justify="left" if column == "task" else "right", max_width=_NAME_WIDTH)
        for name, figures in list(zip(self._names, counts, strict=True))[:_LIVE_TASKS]:
            rates = percent(figures.error_rate), percent(figures.majority_error_rate)
            table.add_row(shown(name), str(figures.examples), *rates, number(figures.f1))
        if len(self._names) > _LIVE_TASKS:
            table.add_row(f"and {len(self._names) - _LIVE_TASKS} more")
        line = progress_line(t, self._rounds, counts, sigma, *self._pace(t))
        with contextlib.suppress(OSError, ValueError):
            self._live.update(Group(line, table), refresh=True)

    def say(self, text: str) -> None:
        self._late.write(text)


class _AboveTable(Lines):
    """Lines above a table that is redrawn in place."""

    def __init__(self, live: Live) -> None:
        super().__init__("stderr")
        self._live = live

    def _print(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._live.console.print(shown(text.rstrip("\n")), markup=False)


def progress_line(
    t: int, rounds: int, totals: Sequence[Totals], sigma: float | None, rate: float, left_s: float | None
) -> str:
    """One line on the state of a run; of one without an end `rounds` is 0."""
    sums = total(totals)
    parts = [
        f"round {t}/{rounds}" if rounds else f"round {t}",
        f"error rate {percent(sums.error_rate)} (majority {percent(sums.majority_error_rate)})",
        f"F1 {number(sums.f1)}",
    ]
    if sigma is not None:
        parts.append(f"sigma_1 {sigma:.3g}")
    if rate:
        parts.append(f"{rate:.0f} rounds/s")
    if left_s is not None:
        parts.append(f"{left_s:.0f} s left")
    return "  ".join(parts)


@contextlib.contextmanager
def showing_progress(*, as_json: bool, quiet: bool) -> Iterator[Progress]:
    """The progress that fits where it is shown, for as long as it is shown."""
    progress = _choose_progress(as_json=as_json, quiet=quiet)
    with progress if isinstance(progress, LiveProgress) else contextlib.nullcontext():
        yield progress


def _choose_progress(*, as_json: bool, quiet: bool) -> Progress:
    if is_structured():
        return QuietProgress() if quiet else LogProgress()
    if as_json:
        return JsonProgress(quiet=quiet)
    if quiet:
        return QuietProgress()
    return LiveProgress() if sys.stderr.isatty() else PlainProgress()


class PlainRuns:
    """A line about every ten seconds on how many runs go, and after the last."""

    def start(self, total: int, reused: int) -> None:
        self._total, self._reused = total, reused
        self._started = self._last = time.monotonic()
        if reused:
            self.say(f"{reused} of {count_of(total, 'run')} are there already")

    def update(self, finished: int, label: str) -> None:
        now = time.monotonic()
        if now < self._last + _RUNS_EVERY_S and finished < self._total:
            return
        self._last = now
        left_s = (now - self._started) / (finished - self._reused) * (self._total - finished)
        self._show(finished, label, left_s)

    def say(self, text: str) -> None:
        tell(text)

    def _show(self, finished: int, label: str, left_s: float) -> None:
        tell(f"{finished}/{self._total} runs  {left_s:.0f} s left  {label}")


class JsonRuns(PlainRuns):
    """The same as a JSON object a line."""

    def say(self, text: str) -> None:
        tell(json.dumps({"message": text}))

    def _show(self, finished: int, label: str, left_s: float) -> None:
        tell(json.dumps({"finished": finished, "runs": self._total, "left_s": round(left_s, 3), "label": label}))


class LiveRuns(PlainRuns):
    """A bar, in a terminal."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._line = bar.add_task("", total=None)

    def start(self, total: int, reused: int) -> None:
        self._bar.reset(self._line, total=total, completed=reused, description="")

    def update(self, finished: int, label: str) -> None:
        self._bar.update(self._line, completed=finished, description=label)

    def say(self, text: str) -> None:
        self._bar.console.print(text, markup=False)


@contextlib.contextmanager
def choose_runs_progress(*, as_json: bool) -> Iterator[RunsProgress]:
    """The progress of many runs that fits where it is shown."""
    if as_json or not sys.stderr.isatty():
        yield JsonRuns() if as_json else PlainRuns()
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TimeRemainingColumn())
    with Bar(*columns, TextColumn("{task.description}"), console=console(err=True), transient=True) as bar:
        yield LiveRuns(bar)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: int = 1,
    title: str = "",
    spare: Sequence[str] = (),
) -> None:
    """A table on standard output; the first `left` columns are text, the others numbers.

    Args:
        spare: Columns that are left out, the first one first, where the terminal is too narrow.
    """
    cells = [list(columns), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    screen, kept = console(), list(range(len(columns)))
    for name in spare:
        if sum(widths[place] + 2 for place in kept) - 2 > screen.width:
            kept = [place for place in kept if columns[place] != name]
    table = Table(box=None, pad_edge=False, title=title or None, title_justify="left", header_style="bold")
    for place in kept:
        max_width = _NAME_WIDTH if columns[place] in ("task", "name") else None
        justify: Literal["left", "right"] = "left" if place < left else "right"
        table.add_column(columns[place], justify=justify, no_wrap=True, max_width=max_width)
    for row in cells[1:]:
        table.add_row(*(shown(row[place]) for place in kept))
    screen.print(table)


def print_result(summary: dict[str, Any]) -> None:
    """One run: a row for each task, the figures over all, the digest."""
    waiting = summary.get("waiting_share")  # earlier versions did not know it, nor some of the figures
    seen = summary["seen_errors"] != summary["errors"]
    sharing = summary.get("sharing")  # of a learner that mixes experts
    columns = ["task", "examples", "error rate", "majority", *(["on seen labels"] if seen else []), "AUC", "log loss"]
    columns += (
        ["alone", "gain", "sharing", "F1", "shared", "noise"] if sharing else ["F1", "outliers", "sent", "received"]
    )
    rows = []
    for task in [*summary["tasks"], summary | {"name": "all"}]:
        name = task["name"] + (" (lost)" if task.get("lost") else "")
        row = [name, str(task["examples"]), percent(task["error_rate"]), percent(task.get("majority_error_rate"))]
        if seen:
            row.append(percent(task["error_rate_seen"]))
        row += [number(task.get("auc")), number(task.get("log_loss"))]
        if sharing:
            its = task["sharing"]
            row += [percent(its["error_rate_alone"]), _points(its["gain_points"])]
            row += [_effect(its), number(task["f1"])]
            row += [percent(its["weight"], 1), percent(its["noise"], 1)]
        else:
            row += [number(task["f1"]), str(task["outliers"])]
            row += [size(task["bytes_sent"]), size(task["bytes_received"])]
        rows.append(row)
    print_table(columns, rows, spare=("received", "sent", "outliers", "F1", "noise", "shared", "log loss", "AUC"))
    moved = size(summary["bytes_sent"]), size(summary["bytes_received"])
    sentences = summary.get("verdict", [sharing["verdict"]] if sharing and "verdict" in sharing else [])
    text = (
        f"\n{summary['algorithm']} on {summary['dataset']}, driver {summary['driver']}: {summary['status']} after "
        f"{summary['rounds']} rounds, {duration(summary['seconds'])}\n"
        f"error rate {percent(summary['error_rate'])} (mean over tasks {percent(summary['error_rate_macro'])}), "
        f"majority {percent(summary.get('majority_error_rate'))}, F1 {number(summary['f1'])}"
        + (f" (+1 is {summary['positive']})" if "positive" in summary else "")
        + "\n"
        + "".join(f"{sentence}\n" for sentence in sentences)
        + (f"sent {moved[0]}, received {moved[1]}\n" if sharing and summary["bytes_sent"] else "")
        + (f"waited for others {100 * waiting:.1f} % of the time\n" if waiting is not None else "")
        + (
            f"{summary['unlabelled']} rows without a label: predicted, not learned\n"
            if summary.get("unlabelled")
            else ""
        )
        + (f"what leaves: {summary['what_leaves']}\n" if "what_leaves" in summary else "")
        + _usage_line(summary)
        + f"digest {summary['digest']}"
    )
    click.echo(shown(text))


def _effect(its: dict[str, Any]) -> str:
    """What the table says of it."""
    if its.get("effect") is None:
        return "-"
    return "?" if its["effect"] == "cannot tell yet" else effect_of(its)


def _usage_line(summary: dict[str, Any]) -> str:
    used = summary.get("processes")
    if used is None:  # of another driver, or of nodes that were started one by one
        return ""
    largest = used["largest_bytes"]
    memory = "" if largest is None else f"; the largest had {size(largest)} of memory"
    return f"processes: {used['processor_s']:.1f} s of processor time{memory}\n"


def print_comparison(summaries: Sequence[dict[str, Any]], titles: Sequence[str]) -> None:
    """Several runs of the same tasks side by side."""
    columns = ["task", "examples", "majority"]
    for title in titles:
        columns += [f"{title} error", "AUC", "log loss", "F1"]
    by_name: list[dict[str, Any]] = [{task["name"]: task for task in summary["tasks"]} for summary in summaries]
    rows = []
    for name in by_name[0]:
        rows.append(_side_by_side(name, [tasks.get(name) for tasks in by_name]))
    rows.append(_side_by_side("all", list(summaries)))
    print_table(columns, rows, spare=("F1", "log loss", "AUC"))
    click.echo()
    width = max(map(len, titles))
    for title, summary in zip(titles, summaries, strict=True):
        how = "nothing shared" if summary["algorithm"] == "local" else "tasks together"
        error, majority = percent(summary["error_rate"]), percent(summary.get("majority_error_rate"))
        in_process = summary["driver"] == "reference"
        moved = "nothing" if in_process else size(summary["bytes_sent"] + summary["bytes_received"])
        click.echo(
            f"{shown(title):<{width}}  {how:<14}  error rate {error} (majority {majority}), "
            f"F1 {number(summary['f1'])}, {summary['rounds']} rounds in {duration(summary['seconds'])}, "
            f"{moved} moved"
        )
        for sentence in summary.get("verdict", ()):
            click.echo(shown(f"{'':<{width}}  {sentence}"))
    if {"adadrom", "local"} <= {summary["algorithm"] for summary in summaries}:
        click.echo("alone: by those experts of adadrom that use nothing of other sites; local is another learner")


def _side_by_side(name: str, figures: Sequence[dict[str, Any] | None]) -> list[str]:
    known = [entry for entry in figures if entry]
    majorities = dict.fromkeys(percent(entry.get("majority_error_rate")) for entry in known)  # of one order the same
    row = [name, str(known[0]["examples"]) if known else "-", " / ".join(majorities) or "-"]
    for entry in figures:
        if entry is None:
            row += ["-"] * 4
        else:
            row += [percent(entry["error_rate"]), *(number(entry.get(key)) for key in ("auc", "log_loss", "f1"))]
    return row
