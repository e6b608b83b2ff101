"""drom-net export: the same cluster, as files for the engines that place processes on many machines."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from drom_net.cli import options
from drom_net.cli.output import tell
from drom_net.cluster.deployment import Render, plan_deployment
from drom_net.config import is_loopback, load_config
from drom_net.errors import UsageError, naming

FORMATS = ("compose", "kubernetes", "slurm", "systemd")
"""Each is a module of drom_net.cluster, with a function render."""


@click.command()
@click.argument("format", type=click.Choice(FORMATS))
@options.config_file
@options.overrides
@click.option("--out", "-o", type=click.Path(path_type=Path), required=True, help="The folder to write; a new one.")
def export(format: str, file: Path, overrides: tuple[str, ...], out: Path) -> None:
    """Write the files with which FORMAT runs the cluster that FILE describes.

    \b
    Example:
      drom-net export compose star/star.yaml -o deploy
    """
    render: Render = importlib.import_module(f"drom_net.cluster.{format}").render
    config = load_config(file, overrides)
    files = render(plan_deployment(config))
    if format == "systemd":  # the others give the nodes addresses themselves
        for endpoint in filter(None, (config.reducer.endpoint, *(config.peers.endpoints or ()))):
            if is_loopback(endpoint):
                tell(f"warning: {endpoint} is reached by nodes of the same host alone", "warned")
                break
    try:
        out.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(f"{out} exists already and is not overwritten; choose another -o, or remove it") from None
    except OSError as error:
        raise UsageError(f"cannot make the folder {out}: {error.strerror}") from None
    for name, text in files.items():
        path = out / name
        with naming(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            if text.startswith("#!"):
                path.chmod(0o755)
    for name in files:
        click.echo(out / name)
