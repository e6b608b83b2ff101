"""drom-net export: the same cluster, as files for the engines that place processes on many machines."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import click

from drom_net.cli import options
from drom_net.cli.output import tell
from drom_net.config.load import load_config
from drom_net.config.model import is_loopback
from drom_net.core.errors import UsageError, naming
from drom_net.deploy.bundles import render_bundles
from drom_net.deploy.deployment import Render, plan_deployment

FORMATS = ("compose", "kubernetes", "slurm", "systemd")
"""Each is a module of drom_net.deploy, with a function render."""


@click.command()
@click.argument("format", type=click.Choice(FORMATS))
@options.config_file
@options.overrides
@click.option("--out", "-o", type=click.Path(path_type=Path), required=True, help="The folder to write; a new one.")
@click.option(
    "--per-site",
    is_flag=True,
    help="A folder for each node, with its own secret key (of security.keys) and instructions, to be sent to its site.",
)
def export(format: str, file: Path, overrides: tuple[str, ...], out: Path, per_site: bool) -> None:
    """Write the files with which FORMAT runs the cluster that FILE describes.

    With --per-site each node's folder has what its host needs, and nothing of the other sites: cluster.yaml, its key,
    the files of its service, and README.md, which says what to type. `drom-net keys create FILE` comes first.

    \b
    Examples:
      drom-net export compose star/star.yaml -o deploy
      drom-net export systemd star/star.yaml -o sites --per-site
    """
    config = load_config(file, overrides)
    deployment = plan_deployment(config)
    if per_site:
        files = render_bundles(format, deployment)
    else:
        render: Render = importlib.import_module(f"drom_net.deploy.{format}").render
        files = render(deployment)
    if per_site or format == "systemd":  # the others give the nodes addresses themselves
        for endpoint in filter(None, (config.reducer.endpoint, *(config.peers.endpoints or ()))):
            if is_loopback(endpoint):
                tell(f"warning: {endpoint} is reached by nodes of the same host alone", "warned")
                break
    try:
        out.mkdir(parents=True, mode=0o700 if per_site else 0o777)
    except FileExistsError:
        raise UsageError(f"{out} exists already and is not overwritten; choose another -o, or remove it") from None
    except OSError as error:
        raise UsageError(f"cannot make the folder {out}: {error.strerror}") from None
    for name, text in files.items():
        path = out / name
        with naming(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith("/"):
                path.mkdir(exist_ok=True)
                continue
            secret = path.suffix == ".secret"
            with open(path, "x", encoding="utf-8", opener=_for_its_owner if secret else None) as written:
                written.write(text)
            if text.startswith("#!"):
                path.chmod(0o755)
    for name in files:
        click.echo(out / name)


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
