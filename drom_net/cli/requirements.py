"""What options ask for, and is refused before any work."""

from __future__ import annotations

from pathlib import Path

from drom_net.cli.telling import tell
from drom_net.cluster.requirements import is_open, require_closed
from drom_net.config.model import ClusterConfig, is_loopback
from drom_net.core.errors import UsageError
from drom_net.core.names import safe_names, tidy
from drom_net.data.faults import quoted
from drom_net.node.metrics_page import require_prometheus
from drom_net.transport.keys import client_of, read_public_keys, require_listed
from drom_net.transport.local_sockets import require_no_file_at


def require_loopback(listens: str | None, config: ClusterConfig, *, insecure: bool) -> None:
    """As `require_closed`, unless it was asked for."""
    if not insecure:
        require_closed(listens, config, hint="--insecure does without, in a network where you trust everybody")
    elif listens is not None and is_open(listens, config):
        _warn_of_open(listens, "nothing is encrypted or authenticated: whoever reaches it can take part in the run")


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
