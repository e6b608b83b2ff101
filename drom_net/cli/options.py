"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from drom_net.cli.output import tell
from drom_net.cluster.plan import node_names
from drom_net.config.model import ClusterConfig, is_loopback
from drom_net.core.errors import UsageError
from drom_net.core.names import safe_names, tidy
from drom_net.data.faults import quoted
from drom_net.node.metrics_page import require_prometheus
from drom_net.node.reports import LOG_FORMATS
from drom_net.transport.keys import client_of, read_keyring, read_public_keys, require_listed
from drom_net.transport.local_sockets import require_no_file_at

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
    type=click.Choice(LOG_FORMATS),
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


def require_loopback(listens: str | None, config: ClusterConfig, *, insecure: bool) -> None:
    """Refuse to listen where a file is, or where others reach us, unless there are keys or it was asked for.

    Raises:
        UsageError: The endpoint is not of this machine alone, or the socket would replace a file.
    """
    require_no_file_at(listens or "")
    if listens is None or config.security.keys is not None or is_loopback(listens):
        return
    if insecure:
        _warn_of_open(listens, "nothing is encrypted or authenticated: whoever reaches it can take part in the run")
        return
    raise UsageError(
        f"{listens} can be reached from other machines, and without keys nothing is encrypted or authenticated; "
        "with security.keys and `drom-net keys create` it is; --insecure does without, "
        "in a network where you trust everybody"
    )


def require_local_source(endpoint: str | None, config: ClusterConfig, node: str, *, insecure: bool) -> None:
    """Refuse to take examples from other machines, unless there is a key for who sends them, or it was asked for.

    Raises:
        ConfigError: The list of keys has none, or is missing or damaged.
        UsageError: The endpoint is beyond this machine, and there are no keys; or the socket would replace a file.
    """
    require_no_file_at(endpoint or "")
    if endpoint is None or is_loopback(endpoint):
        return
    if config.security.keys is not None:
        folder = Path(config.security.keys)
        listed = read_public_keys(folder)
        if not insecure:
            require_listed(folder, listed, [client_of(node)])
        if client_of(node) in listed:
            return
    if insecure:
        _warn_of_open(endpoint, f"whoever reaches it can teach {node} and ask its model")
        return
    raise UsageError(
        f"source.bind: whoever reaches {endpoint} could teach this site and ask its model; "
        "with security.keys and `drom-net keys create` only its applications can; --insecure does without"
    )


def require_keys(config: ClusterConfig, names: Sequence[str]) -> None:
    """Where the configuration has keys, those of all nodes must be there.

    Raises:
        ConfigError: A file is missing or wrong.
    """
    if config.security.keys is not None:
        for name in node_names(config, names):
            read_keyring(Path(config.security.keys), name)


def _warn_of_open(endpoint: str, so: str) -> None:
    text = f"warning: {endpoint} can be reached from other machines without keys (--insecure); {so}"
    tell(text, "insecure", endpoint=endpoint)


def require_metrics(metrics: str, *, insecure: bool) -> None:
    """Refuse metrics that cannot be served, or that other machines could read unless that was asked for.

    Args:
        insecure: Of --metrics-insecure, not of --insecure, which is for the ports of the cluster and of applications.

    Raises:
        UsageError: prometheus-client is missing, or the address is not of this machine alone.
    """
    if metrics:
        require_prometheus()
        if is_loopback(metrics):
            return
        if not insecure:
            raise UsageError(
                f"--metrics {metrics} can be read from other machines, with or without keys; --metrics-insecure "
                "(DROM_NET_METRICS_INSECURE=1) allows it"
            )
        text = f"warning: other machines can read the metrics at {metrics} (--metrics-insecure)"
        tell(text, "insecure", endpoint=metrics)


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


def task_index(names: tuple[str, ...] | list[str], wanted: str, *, option: str = "--task") -> int:
    """The number of a task that was named by its name, by the safe form of that, or by its number from 0.

    Raises:
        UsageError: There is no such task.
    """
    for known in (tuple(names), safe_names(names)):
        if tidy(wanted) in known:
            return known.index(tidy(wanted))
    if wanted.isascii() and wanted.isdigit() and int(wanted) < len(names):
        return int(wanted)
    shown = ", ".join(names[:20]) + (", .." if len(names) > 20 else "")
    raise UsageError(f"{option}: expected a number from 0 to {len(names) - 1} or one of {shown}; got {quoted(wanted)}")
