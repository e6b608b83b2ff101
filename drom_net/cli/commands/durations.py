"""Options for times, and for a simulation's network, pace and faults. Light: values are read when they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


class Parsed(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no type argument
    """A value that a function reads; its ValueError becomes the message."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _time(text: str) -> Any:
    from drom_net.simulation.network import Distribution

    return Distribution.parse(text)


def _seconds(text: str) -> float:
    from drom_net.cli.durations import seconds

    return seconds(text)


def _probability(text: str) -> float:
    from drom_net.cli.durations import probability

    return probability(text)


def _bytes_per_s(text: str) -> float:
    from drom_net.cli.durations import bytes_per_s

    return bytes_per_s(text)


def _stragglers(text: str) -> Any:
    from drom_net.simulation.network import parse_stragglers

    return parse_stragglers(text)


TIME = Parsed("time", _time)
FIXED_TIME = Parsed("time", _seconds)
PROBABILITY = Parsed("probability", _probability)
BANDWIDTH = Parsed("bandwidth", _bytes_per_s)
STRAGGLERS = Parsed("share:factor", _stragglers)

_CONDITIONS = (
    click.option(
        "--latency",
        type=TIME,
        default="1ms",
        show_default=True,
        help="One way, drawn for each message: 50ms, 20ms..80ms, normal(50ms,10ms), lognormal(50ms,0.5) or "
        "exponential(50ms).",
    ),
    click.option(
        "--bandwidth",
        type=BANDWIDTH,
        help="Of each node's line, in each direction, a second: 100Mbit (bits) or 12.5MB (bytes).",
    ),
    click.option("--loss", type=PROBABILITY, default="0", help="The share of messages that is lost: 0.01 or 1%."),
    click.option("--duplicate", type=PROBABILITY, default="0", help="The share that comes twice."),
    click.option("--reorder", type=PROBABILITY, default="0", help="The share that others overtake."),
    click.option("--round", "round_s", type=TIME, help="How long a local round takes; by default FILE's data.pace_s."),
    click.option("--central", "central_s", type=TIME, default="0", help="How long a central step takes."),
    click.option("--stragglers", type=STRAGGLERS, default="", help="A share of slow tasks: 10%:5x, 1%:20x."),
    click.option(
        "--partition",
        "partitions",
        multiple=True,
        metavar="GROUP|GROUP@FROM..TO",
        help="Groups of nodes that cannot reach each other for a while: 0,1|2,3@10s..20s. A node is a task's name or "
        "number, or reducer; this option and the next two may be repeated.",
    ),
    click.option(
        "--crash", "crashes", multiple=True, metavar="NODE@TIME+DOWN", help="A node dies and comes back: 3@5s+2s"
    ),
    click.option("--pause", "pauses", multiple=True, metavar="NODE@TIME+FOR", help="A node stands still: 3@5s+2s"),
    click.option(
        "--sim-seed",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="What latencies, losses, speeds and stragglers are drawn from.",
    ),
)


def conditions(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a simulation's network, pace and faults, as `cli.durations.gathered` takes them."""
    for option in reversed(_CONDITIONS):
        command = option(command)
    return command
