"""What any command says on standard error, and as JSON. Light: nothing else is imported before it is needed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from drom_net.node.lines import STDERR

if TYPE_CHECKING:
    from drom_net.node.reports import JsonLog

_log: JsonLog | None = None
"""Where `tell` writes, if not plain lines."""


def log_as(log_format: str, node: str = "") -> None:
    """From now on `tell` writes like this.

    Args:
        log_format: text or json.
        node: Who speaks in a structured log.
    """
    global _log
    _log = None
    if log_format == "json":
        from drom_net.node.reports import JsonLog

        _log = JsonLog(node)


def is_structured() -> bool:
    """Whether `tell` writes lines of JSON."""
    return _log is not None


def tell(text: str, event: str = "said", *, level: str = "warning", **fields: Any) -> None:
    """A line on standard error; where nobody reads it, that must neither end a run nor hold it up.

    Args:
        event: What it is called in a structured log; level and fields likewise. The next "progress" says as much as
            this one: it is left out where nobody reads.
    """
    if _log is not None:
        _log.write(level, event, text, fields)
        return
    STDERR.write(shown(text), droppable=event == "progress")


def shown(text: str) -> str:
    """Lines for a terminal: what would steer it, or turn the direction of writing, becomes an escape that one reads."""
    from drom_net.node.reports import printable

    return "\n".join(map(printable, text.split("\n")))


def print_json(document: object) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(document, indent=2))
