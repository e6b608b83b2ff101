"""Commands for clusters whose nodes are started by hand: declared here, carried out in the modules that they import."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from drom_net.cli import options

Command = Callable[..., Any]

_ENVIRONMENT = """\b
Environment variables, in place of the options:
  DROM_NET_CONFIG (FILE), DROM_NET_TASK, DROM_NET_BIND, DROM_NET_ENDPOINT,
  DROM_NET_OUT, DROM_NET_KEYS, DROM_NET_INSECURE, DROM_NET_LOG_FORMAT,
  DROM_NET_METRICS, DROM_NET_METRICS_INSECURE;
  DROM_NET_DATA: where data files are that are not beside FILE
"""

_out = click.option(
    "--out",
    type=click.Path(path_type=Path),
    envvar="DROM_NET_OUT",
    help="The run directory; by default runs/NAME, NAME being FILE's.",
)
_task = click.option(
    "--task",
    "-k",
    required=True,
    envvar="DROM_NET_TASK",
    help="Which task: its number from 0, its name, or the safe form of that.",
)


def _place_options(bind: str = "") -> Callable[[Command], Command]:
    """What differs from place to place; each may be given by an environment variable as well.

    Args:
        bind: What --bind replaces; empty for a node that does not listen.
    """
    listen = click.option(
        "--bind", metavar="ENDPOINT", envvar="DROM_NET_BIND", help=f"Where to listen, instead of {bind}."
    )
    chosen = (options.keys, options.insecure, options.log_format, options.metrics, options.metrics_insecure, _out)

    def decorate(command: Command) -> Command:
        for option in reversed((listen, *chosen) if bind else chosen):
            command = option(command)
        return command

    return decorate


@click.command(epilog=_ENVIRONMENT)
@options.config_file_of_node
@_place_options("reducer.bind or reducer.endpoint")
def reducer(**given: Any) -> Any:
    """Run the reducer of a star.

    Its workers may come before or after it.

    \b
    Example:
      drom-net reducer star/star.yaml --out runs/star
    """
    from drom_net.cli.nodes import reducer

    return reducer(**given)


@click.command(epilog=_ENVIRONMENT)
@options.config_file_of_node
@_task
@click.option(
    "--endpoint",
    metavar="ENDPOINT",
    envvar="DROM_NET_ENDPOINT",
    help="Where the reducer is, instead of FILE's reducer.endpoint.",
)
@_place_options()
def worker(**given: Any) -> Any:
    """Run one task's worker of a star; it reads its own data only.

    \b
    Example:
      drom-net worker star/star.yaml --task York --out runs/star
    """
    from drom_net.cli.nodes import worker

    return worker(**given)


@click.command(epilog=_ENVIRONMENT)
@options.config_file_of_node
@_task
@_place_options("what FILE's peers section says")
def peer(**given: Any) -> Any:
    """Run one task's peer of a graph; it reads its own data only.

    \b
    Example:
      drom-net peer ring.yaml --task north --out runs/ring
    """
    from drom_net.cli.nodes import peer

    return peer(**given)


@click.group()
def keys() -> None:
    """Make and show keys, by which nodes encrypt and know each other.

    A file turns them on by one line, security: {keys: FOLDER}. Then every connection is encrypted, only nodes with a
    key in FOLDER/public.keys get in, and the key decides which node one is. Every host gets FOLDER/public.keys, and
    FOLDER/NAME.secret of its own node only.
    """


@keys.command()
@options.config_file
@click.option(
    "--task",
    "-k",
    "tasks",
    multiple=True,
    help="Only for this task: its number from 0, its name, or the safe form of that; or reducer. May be repeated.",
)
@options.as_json
def create(**given: Any) -> Any:
    """Make a pair of keys for each node that is not listed yet.

    The nodes are those of FILE's cluster. Nothing is overwritten. To give a node a new key remove its line from
    public.keys and its .secret file, call this again, and bring the new list to all hosts. To shut a node out remove
    its line everywhere; it holds from each node's next start on.

    \b
    Examples:
      drom-net keys create star/star.yaml
      drom-net keys create star/star.yaml --task York
    """
    from drom_net.cli.keys import create

    return create(**given)


@keys.command()
@click.argument("file_or_folder", type=click.Path(path_type=Path), metavar="FILE|FOLDER", envvar="DROM_NET_CONFIG")
@options.as_json
def show(**given: Any) -> Any:
    """Print who may join, and by which public key.

    Secret keys are never shown.

    \b
    Example:
      drom-net keys show star/star.yaml
    """
    from drom_net.cli.keys import show

    return show(**given)


@click.command()
@click.argument("format", type=click.Choice(["compose", "kubernetes", "slurm", "systemd"]))
@options.config_file
@options.overrides
@click.option("--out", "-o", type=click.Path(path_type=Path), required=True, help="The folder to write; a new one.")
@click.option(
    "--per-site",
    is_flag=True,
    help="A folder for each node, with its own secret key (of security.keys) and instructions, to be sent to its site.",
)
def export(**given: Any) -> Any:
    """Write the files with which FORMAT runs FILE's cluster.

    With --per-site each node's folder has what its host needs, and nothing of the other sites: cluster.yaml, its key,
    the files of its service, and README.md, which says what to type. `drom-net keys create FILE` comes first.

    \b
    Examples:
      drom-net export compose star/star.yaml -o deploy
      drom-net export systemd star/star.yaml -o sites --per-site
    """
    from drom_net.cli.export import export

    return export(**given)


@click.command()
@click.argument("dirs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR...")
@click.option("--out", type=click.Path(path_type=Path), help="A new run directory; by default the first DIR itself.")
@options.records_format
@options.as_json
def merge(**given: Any) -> Any:
    """Join the folders of nodes that were started by hand.

    \b
    Example (the --out of the reducer and of workers on two hosts):
      drom-net merge from-host-a from-host-b --out runs/all
    """
    from drom_net.cli.results import merge

    return merge(**given)
