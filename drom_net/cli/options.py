"""Arguments and options that several commands share. Light: click only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

config_file = click.argument("file", type=click.Path(path_type=Path), envvar="DROM_NET_CONFIG")
config_file_or_none = click.argument("file", type=click.Path(path_type=Path), envvar="DROM_NET_CONFIG", required=False)
_CONFIG = "drom_net.config"


def _note_config(context: click.Context, _: click.Parameter, value: Path | None) -> None:
    context.meta[_CONFIG] = value


def _choose_file(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path:
    named: Path | None = context.meta.get(_CONFIG)
    if named is None and value is None:
        raise click.MissingParameter(ctx=context, param=parameter)
    if named is not None and context.get_parameter_source("file") is ParameterSource.COMMANDLINE:
        raise click.BadParameter(f"expected FILE once, got {value} and --config {named}")
    return named or value  # type: ignore[return-value]


def config_file_of_node(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same as `config_file`, or by an option."""
    argument = click.argument(
        "file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        envvar="DROM_NET_CONFIG",
        required=False,
        callback=_choose_file,
    )
    option = click.option(
        "--config",
        type=click.Path(path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_note_config,
        help="FILE, by an option.",
    )
    return argument(option(command))


overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replace a value of FILE, such as algorithm.eta0=5; may be repeated.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
run_dir = click.argument("run_dir", type=click.Path(path_type=Path))


keys = click.option(
    "--keys",
    type=click.Path(path_type=Path),
    envvar="DROM_NET_KEYS",
    help="The folder of this node's key files, instead of security.keys.",
)
insecure = click.option(
    "--insecure",
    is_flag=True,
    envvar="DROM_NET_INSECURE",
    help="Listen beyond this machine without keys: nothing is encrypted or authenticated.",
)
metrics_insecure = click.option(
    "--metrics-insecure",
    is_flag=True,
    envvar="DROM_NET_METRICS_INSECURE",
    help="Let other machines read the page of --metrics, which has no password.",
)
log_format = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    envvar="DROM_NET_LOG_FORMAT",
    help="What is told on standard error: sentences, or one JSON object a line.",
)
metrics = click.option(
    "--metrics",
    metavar="HOST:PORT",
    default="",
    envvar="DROM_NET_METRICS",
    callback=lambda _, __, value: _host_and_port(value),
    help="Serve metrics for Prometheus at http://HOST:PORT/metrics, such as 127.0.0.1:9100.",
)
jobs = click.option(
    "--jobs", type=click.IntRange(1), help="How many runs at a time, a process each; by default one for each core."
)
report = click.option(
    "--report",
    is_flag=True,
    callback=lambda _, __, value: _can_draw(value),
    help="End with report.html and report.png in the run directory.",
)
records_format = click.option(
    "--records",
    "file_format",
    type=click.Choice(["csv", "parquet"]),
    default="csv",
    show_default=True,
    help="The format of the records.",
)


def _can_draw(value: bool) -> bool:
    """Before anything is computed for a report that could not be written."""
    if value:
        from drom_net.plots.base import require_matplotlib

        require_matplotlib()
    return value


def _host_and_port(value: str) -> str:
    host, _, port = value.rpartition(":")
    fits = host and port.isascii() and port.isdigit() and int(port) < 65536
    if value and not fits:
        raise click.BadParameter(f"expected HOST:PORT, such as 127.0.0.1:9100, got {value!r}")
    return value
