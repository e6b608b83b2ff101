"""Commands for data sets: declared here, carried out in `cli/data.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drom_net.cli import options

_from = click.option(
    "--from",
    "home",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="A folder that has the files already, in a sub-folder for each set (spam_pu, mhci, ..).",
)


@click.group()
def data() -> None:
    """List, get and describe data sets."""


@data.command("list")
@_from
@options.as_json
def list_datasets(**given: Any) -> Any:
    """List what the `data` section of a file may name.

    \b
    Example:
      drom-net data list
    """
    from drom_net.cli.data import list_datasets

    return list_datasets(**given)


@data.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_from
@click.option("--accept-licence", is_flag=True, help="Agree to the terms shown, where nobody can be asked.")
@options.as_json
def get(**given: Any) -> Any:
    """Download public data sets into the cache, and check them.

    They come from their publishers, or from a folder (--from). What is here already is checked and left. A download
    that was cut goes on where it stopped. DROM_NET_MIRROR names a mirror, http://host/path, that has each file under
    PUBLISHER/PATH.

    \b
    Examples:
      drom-net data get spam-pu mhci
      drom-net data get jester --accept-licence
      drom-net data get wisdm --from /mnt/datasets
    """
    from drom_net.cli.data import get

    return get(**given)


@data.command()
@click.argument("what")
@_from
@options.overrides
@options.as_json
def describe(**given: Any) -> Any:
    """Describe a table, a data set, or the data of a YAML file.

    Of a table (CSV, Parquet) it says what kind each column is, how much is missing, and what is in it; of a data set
    its licence, its source, what each task has, and which numbers of the paper's Table 2 it meets.

    \b
    Examples:
      drom-net data describe pumps/pump-north.csv
      drom-net data describe spam-pu
      drom-net data describe pumps/pumps.yaml
    """
    from drom_net.cli.data import describe

    return describe(**given)


@data.command()
@click.argument("what")
@_from
@options.overrides
@options.as_json
def stats(**given: Any) -> Any:
    """Measure a data set: norms, features, how alike its tasks are.

    Of the user's own tables it also says how each column of numbers is spread before and after preparation.

    A task's direction is the mean of its positive rows minus the mean of its negative ones. Where the cosines
    between directions are about 0 there is little to share.

    \b
    Example:
      drom-net data stats pumps/pumps.yaml
    """
    from drom_net.cli.data import stats

    return stats(**given)
