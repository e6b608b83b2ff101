"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from drom_net.config import is_loopback
from drom_net.errors import UsageError
from drom_net.runtime.metrics_page import require_prometheus
from drom_net.runtime.reports import LOG_FORMATS

config_file = click.argument("file", type=click.Path(path_type=Path), envvar="DROM_NET_CONFIG")
config_file_or_none = click.argument("file", type=click.Path(path_type=Path), envvar="DROM_NET_CONFIG", required=False)
overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replace a value of FILE, such as algorithm.eta0=5; may be repeated.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
run_dir = click.argument("run_dir", type=click.Path(path_type=Path))


insecure = click.option(
    "--insecure", is_flag=True, help="Listen beyond this machine although nothing is encrypted or authenticated."
)
log_format = click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default="text",
    show_default=True,
    help="What is told on standard error: sentences, or one JSON object a line.",
)
metrics = click.option(
    "--metrics",
    metavar="HOST:PORT",
    default="",
    callback=lambda _, __, value: _host_and_port(value),
    help="Serve metrics for Prometheus at http://HOST:PORT/metrics, such as 127.0.0.1:9100.",
)
records_format = click.option(
    "--records",
    "file_format",
    type=click.Choice(["csv", "parquet"]),
    default="csv",
    show_default=True,
    help="The format of the records.",
)


def require_loopback(listens: str | None, *, insecure: bool) -> None:
    """Refuse to listen where other machines reach us, unless that was asked for.

    Raises:
        UsageError: The endpoint is not of this machine alone.
    """
    if listens is not None and not insecure and not is_loopback(listens):
        raise UsageError(
            f"{listens} can be reached from other machines, and nothing is encrypted or authenticated; "
            "--insecure allows it, in a network where you trust everybody"
        )


def require_metrics(metrics: str, *, insecure: bool) -> None:
    """Refuse metrics that cannot be served, or that other machines could read unless that was asked for.

    Raises:
        UsageError: prometheus-client is missing, or the address is not of this machine alone.
    """
    if metrics:
        require_prometheus()
        require_loopback(metrics, insecure=insecure)


def _host_and_port(value: str) -> str:
    host, _, port = value.rpartition(":")
    fits = host and port.isascii() and port.isdigit() and int(port) < 65536
    if value and not fits:
        raise click.BadParameter(f"expected HOST:PORT, such as 127.0.0.1:9100, got {value!r}")
    return value


def task_index(names: tuple[str, ...] | list[str], wanted: str, *, option: str = "--task") -> int:
    """The number of a task that was named by its name or its number from 0.

    Raises:
        UsageError: There is no such task.
    """
    if wanted in names:
        return list(names).index(wanted)
    if wanted.isascii() and wanted.isdigit() and int(wanted) < len(names):
        return int(wanted)
    shown = ", ".join(names[:20]) + (", .." if len(names) > 20 else "")
    raise UsageError(f'{option}: expected a number from 0 to {len(names) - 1} or one of {shown}; got "{wanted}"')
