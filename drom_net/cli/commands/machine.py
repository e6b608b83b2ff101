"""Commands for this machine: declared here, carried out in the modules that they import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from drom_net.cli import options


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="[FILE|RUN_DIR]", required=False)
@options.as_json
def doctor(**given: Any) -> Any:
    """Check this machine, and whether it can run FILE.

    It looks at versions, BLAS, clock, file descriptors and space; with FILE also at its ports, keys and extras, and at
    what its processes need. Of a run directory it compares the versions of every node with those here. Each thing that
    is wrong comes with what to do. The exit code is 2 if something is wrong.

    \b
    Examples:
      drom-net doctor
      drom-net doctor star/star.yaml
      drom-net doctor runs/star
    """
    from drom_net.cli.doctor import doctor

    return doctor(**given)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--install", is_flag=True, help="Write the script to where SHELL looks for it, and say where that is.")
def completion(**given: Any) -> Any:
    """Print or install the completion of SHELL (the Tab key).

    \b
    Examples:
      drom-net completion bash --install
      eval "$(drom-net completion zsh)"
    """
    from drom_net.cli.completion import completion

    return completion(**given)
