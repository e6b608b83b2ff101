"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from drom_net.cluster.plan import node_names
from drom_net.config import ClusterConfig, is_loopback
from drom_net.errors import UsageError
from drom_net.runtime.keys import read_keyring

config_file = click.argument("file", type=click.Path(path_type=Path), envvar="DROM_NET_CONFIG")
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
    "--insecure", is_flag=True, help="Listen beyond this machine without keys: nothing is encrypted or authenticated."
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
    """Refuse to listen where other machines reach us, unless there are keys or it was asked for.

    Raises:
        UsageError: The endpoint is not of this machine alone.
    """
    if listens is None or insecure or config.security.keys is not None or is_loopback(listens):
        return
    raise UsageError(
        f"{listens} can be reached from other machines, and without keys nothing is encrypted or authenticated; "
        "with security.keys and `drom-net keys create` it is; --insecure does without, "
        "in a network where you trust everybody"
    )


def require_keys(config: ClusterConfig, names: Sequence[str]) -> None:
    """Where the configuration has keys, those of all nodes must be there.

    Raises:
        ConfigError: A file is missing or wrong.
    """
    if config.security.keys is not None:
        for name in node_names(config, names):
            read_keyring(Path(config.security.keys), name)


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
