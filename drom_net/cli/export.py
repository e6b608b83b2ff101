"""drom-net export: the same cluster, as files for the engines that place processes on many machines."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import click

from drom_net.cli.telling import tell
from drom_net.config.load import load_config
from drom_net.config.model import is_loopback
from drom_net.core.errors import UsageError, naming
from drom_net.deploy.bundles import render_bundles
from drom_net.deploy.deployment import Render, plan_deployment


def export(format: str, file: Path, overrides: tuple[str, ...], out: Path, per_site: bool) -> None:
    """`drom-net export`."""
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
