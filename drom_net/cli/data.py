"""drom-net data: what there is to learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drom_net.cli import options
from drom_net.cli.output import print_json, print_table
from drom_net.config import load_config
from drom_net.data.dataset import describe as describe_dataset
from drom_net.data.datasets import load_dataset
from drom_net.data.settings import DATA_SECTIONS, FileData
from drom_net.errors import UsageError, did_you_mean


@click.group()
def data() -> None:
    """List and describe data sets."""


@data.command("list")
@options.as_json
def list_datasets(as_json: bool) -> None:
    """List what the `data` section of a file may name.

    \b
    Example:
      drom-net data list
    """
    rows = [(name, " ".join((section.__doc__ or "").split())) for name, section in DATA_SECTIONS.items()]
    if as_json:
        print_json([{"dataset": name, "description": text} for name, text in rows])
    else:
        print_table(["dataset", "what it is"], rows, left=2)


@data.command()
@click.argument("what")
@options.overrides
@options.as_json
def describe(what: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Describe a data set by its name, or the data of a topology file.

    \b
    Examples:
      drom-net data describe digits-sites
      drom-net data describe configs/amazon.yaml
    """
    if what in DATA_SECTIONS and DATA_SECTIONS[what] is not FileData and not overrides:
        dataset = load_dataset(DATA_SECTIONS[what](), base=Path())
    elif not Path(what).exists():
        named = [name for name, section in DATA_SECTIONS.items() if section is not FileData]
        hint = did_you_mean(what, named)
        raise UsageError(
            f'expected one of {", ".join(named)} or a topology file, got "{what}"' + (f"; {hint}" if hint else "")
        )
    else:
        config = load_config(Path(what), overrides)
        dataset = load_dataset(config.data, base=config.base)
    facts: dict[str, Any] = describe_dataset(dataset)
    if as_json:
        print_json(facts)
        return
    tasks: list[dict[str, Any]] = facts.pop("tasks")
    width = max(map(len, facts))
    for key, value in facts.items():
        click.echo(f"{key.replace('_', ' '):<{width}}  {value}")
    click.echo()
    columns = list(tasks[0])
    shown = [
        [f"{task[key]:.1f}" if isinstance(task[key], float) else str(task[key]) for key in columns] for task in tasks
    ]
    print_table([column.replace("_", " ") for column in columns], shown)
