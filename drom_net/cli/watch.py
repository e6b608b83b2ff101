"""drom-net watch: how a run goes, in the terminal or on a page."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drom_net.cluster.launcher import LAUNCHER_KEYS
from drom_net.core.errors import UsageError
from drom_net.reporting.watching import EXIT_CODES, find_run, look

if TYPE_CHECKING:
    from rich.console import Group

    from drom_net.reporting.watching import Seen

_PLAIN_EVERY_S = 2.0
_SHARE = 0.01
"""Of many sites it looks more rarely, so that it takes at most this share of a processor's time."""
_MARGIN_LINES = 8
_EVENTS_SHOWN = 5
_WIDTHS = {"sharing": 36, "node": 17}
"""Of columns, at the most; that of nodes has more where there is room, and wraps."""
_WIDTH = 24
_GAP = 2


def watch(path: Path, web: bool, port: int, once: bool, as_json: bool) -> int:
    """`drom-net watch`."""
    if web and (once or as_json):
        raise UsageError(f"--web shows a page, and leaves no room for {'--once' if once else '--json'}")
    if port and not web:
        raise UsageError("--port is of the page of --web, which is not given")
    run_dir = find_run(path)
    if web:
        return _serve(run_dir, port)
    every_s = 1.0 if as_json or sys.stdout.isatty() else _PLAIN_EVERY_S
    begun = None  # the first look also loads what it needs
    with _screen(run_dir, as_json=as_json) as show:
        while True:
            seen = look(run_dir)
            show(seen)
            if once or seen.is_over:
                return EXIT_CODES.get(seen.status, 0)
            time.sleep(every_s if begun is None else max(every_s, (time.process_time() - begun) / _SHARE))
            begun = time.process_time()


@contextlib.contextmanager
def _screen(run_dir: Path, *, as_json: bool) -> Iterator[Callable[[Seen], None]]:
    """What shows one look at a run, as it fits where it is shown."""
    if as_json:
        yield lambda seen: click.echo(json.dumps({"status": seen.status, "note": seen.note} | _plain(seen.state)))
        return
    if not sys.stdout.isatty():
        yield lambda seen: click.echo(_line(run_dir, seen))
        return
    from rich.live import Live

    from drom_net.cli.output import console

    screen = console()
    with Live(console=screen, auto_refresh=False) as live:
        yield lambda seen: live.update(_table(run_dir, seen, screen.width, screen.height - _MARGIN_LINES), refresh=True)


def _plain(state: Any) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in (*LAUNCHER_KEYS, "status")}


def _line(run_dir: Path, seen: Seen) -> str:
    from drom_net.cli.telling import shown
    from drom_net.reporting.watching import is_in_trouble, state_in_words
    from drom_net.results.wording import percent

    state = seen.state
    if not state:
        return f"{run_dir}: {seen.status}: nothing is known yet"
    rates = f"error rate {percent(state.get('error_rate'))} (majority {percent(state.get('majority_error_rate'))})"
    parts = [f"{seen.status}: round {state.get('rounds', 0)}{_of_limit(state)}", rates]
    told = [(task.get("sharing") or {}).get("effect") for task in state["tasks"]]
    if any(told):
        counts = {effect: told.count(effect) for effect in ("helps", "hurts", "cannot tell yet")}
        parts.append(", ".join(f"{effect}: {count}" for effect, count in counts.items() if count))
    trouble = [task for task in [*state["tasks"], state.get("reducer") or {}] if is_in_trouble(task)]
    parts += [f"{task['name']} {state_in_words(task)}" for task in trouble[:3]]
    if len(trouble) > 3:
        parts.append(f"and {len(trouble) - 3} more")
    if state.get("error"):
        parts.append(state["error"])
    if seen.note:
        parts.append(seen.note)
    return shown("  ".join(parts))


def _of_limit(state: Any) -> str:
    return f"/{state['rounds_limit']}" if state.get("rounds_limit") else ""


def _table(run_dir: Path, seen: Seen, width: int, height: int) -> Group:
    """One screen full."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from drom_net.cli.telling import shown
    from drom_net.reporting.facts import read_events
    from drom_net.reporting.watching import first_shown, kind_of

    state = seen.state
    head = Text(_wrapped(_line(run_dir, seen), width), style="bold")
    if not state:
        return Group(head)
    events = [
        Text(shown(event["text"]), style="dim", no_wrap=True, overflow="ellipsis")
        for event in read_events(run_dir, limit=_EVENTS_SHOWN)
    ]
    rows = first_shown(state["tasks"], max(3, height - len(events)))
    columns = _columns_that_fit(rows, width, lasts=not seen.is_over)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        left = name in ("site", "sharing", "node")
        most = None if name == "node" else _WIDTHS.get(name, _WIDTH)
        table.add_column(name, justify="left" if left else "right", no_wrap=name != "node", max_width=most)
    for task, cells in zip(rows, zip(*columns.values(), strict=True), strict=True):
        style = {"gone": "red", "waits": "yellow"}.get(kind_of(task), "")
        table.add_row(*(Text(cell, style=style) for cell in cells))
    if len(rows) < len(state["tasks"]):
        table.add_row(Text(f"and {len(state['tasks']) - len(rows)} more", style="dim"))
    return Group(head, table, *events)


def _wrapped(line: str, width: int) -> str:
    """A line of parts with two blanks between them, as lines that end between parts where they can."""
    from rich.cells import cell_len

    lines = [""]
    for part in line.split("  "):
        longer = f"{lines[-1]}  {part}" if lines[-1] else part
        if cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return "\n".join(filter(None, lines))


def _columns_that_fit(tasks: Sequence[Mapping[str, Any]], width: int, *, lasts: bool) -> dict[str, list[str]]:
    """The cells of each column; where the terminal is too narrow without intervals, without bytes, without majority.

    Args:
        lasts: Whether the run goes on, and its nodes may have more to say.
    """
    from rich.cells import cell_len

    from drom_net.cli.telling import shown
    from drom_net.reporting.watching import round_of, state_in_words
    from drom_net.results.verdict import effect_in_words, effect_of
    from drom_net.results.wording import percent, size

    columns = {
        "site": [shown(task["name"]) for task in tasks],
        "round": [str(round_of(task)) for task in tasks],
        "error": [percent(task.get("error_rate")) for task in tasks],
        "majority": [percent(task.get("majority_error_rate")) for task in tasks],
        "sharing": [effect_in_words(task.get("sharing")) or "-" for task in tasks],
        "sent": ["-" if task.get("bytes_sent") is None else size(task["bytes_sent"]) for task in tasks],
        "node": [shown(state_in_words(task)) for task in tasks],
    }
    told = [task.get("sharing") or {} for task in tasks]
    if not any(told):
        del columns["sharing"]

    def is_too_wide() -> bool:
        each = [
            _WIDTHS["node"]
            if name == "node" and lasts
            else min(_WIDTHS.get(name, _WIDTH), max(map(cell_len, [name, *cells])))
            for name, cells in columns.items()
        ]
        return sum(each) + _GAP * (len(each) - 1) > width

    if any(told) and is_too_wide():
        columns["sharing"] = [effect_of(its) if its.get("effect") else "-" for its in told]
    for name in ("sent", "majority"):
        if is_too_wide():
            del columns[name]
    return columns


def _serve(run_dir: Path, port: int) -> int:
    from drom_net.reporting.web import serve

    return serve(run_dir, port, lambda url: click.echo(f"{url}\nCtrl-C ends this page, not the run", err=True))
