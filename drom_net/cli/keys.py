"""drom-net keys: the pairs of keys by which the nodes of a cluster know each other."""

from __future__ import annotations

from pathlib import Path

import click

from drom_net.cli.output import count_of
from drom_net.cli.requirements import task_index
from drom_net.cli.telling import print_json
from drom_net.cluster.plan import client_names, node_names
from drom_net.config.load import load_config
from drom_net.config.model import ClusterConfig
from drom_net.core.errors import ConfigError, Problem
from drom_net.core.names import safe_names
from drom_net.data.datasets import task_names
from drom_net.data.faults import quoted
from drom_net.transport.keys import PUBLIC_LIST, client_of, create_keys, read_public_keys, secret_file


def create(file: Path, tasks: tuple[str, ...], as_json: bool) -> None:
    """`drom-net keys create`."""
    config = load_config(file)
    folder = _folder(config)
    names = task_names(config.data, config.base)
    everybody, nodes = node_names(config, names), safe_names(names)
    wanted = [task if task in everybody else nodes[task_index(names, task)] for task in tasks]
    if clients := client_names(config, names):
        everybody = (*everybody, *clients)
        wanted += [client_of(node) for node in wanted if client_of(node) in clients]
    made = create_keys(folder, list(dict.fromkeys(wanted)) or everybody)
    if as_json:
        print_json(_facts(folder) | {"created": made})
        return
    if not made:
        click.echo(f"nothing to make: {count_of(len(wanted or everybody), 'node')} of {len(everybody)} in the list")
        return
    _print(folder, made, dict(zip(nodes, names, strict=True)))
    click.echo(f"\n{folder / PUBLIC_LIST}  for every host; nothing in it is secret")
    for name in made if len(made) == 1 else ["NAME"]:
        click.echo(f"{secret_file(folder, name)}  for the host of {name} alone, readable by its owner alone (mode 600)")


def show(file_or_folder: Path, as_json: bool) -> None:
    """`drom-net keys show`."""
    folder = file_or_folder if file_or_folder.is_dir() else _folder(load_config(file_or_folder))
    if as_json:
        print_json(_facts(folder))
        return
    _print(folder, list(read_public_keys(folder)), {})


def _folder(config: ClusterConfig) -> Path:
    if config.security.keys is None:
        hint = "such as security: {keys: keys}"
        raise ConfigError([Problem(f"{config.path}: security.keys", "the folder of the keys", "nothing", hint)])
    return Path(config.security.keys)


def _facts(folder: Path) -> dict[str, object]:
    public = read_public_keys(folder)
    nodes = [
        {"name": name, "public_key": key.decode(), "secret_is_here": secret_file(folder, name).exists()}
        for name, key in public.items()
    ]
    return {"folder": str(folder), "list": str(folder / PUBLIC_LIST), "nodes": nodes}


def _print(folder: Path, nodes: list[str], names: dict[str, str]) -> None:
    """A table that is never cut to a terminal's width: a key is compared whole. `names` are tasks', by node."""
    public = read_public_keys(folder)
    width = max(len(node) for node in ["node", *nodes])
    click.echo(f"{'node':<{width}}  {'public key':<40}  secret key")
    for node in nodes:
        secret = secret_file(folder, node)
        name = names.get(node, node)
        click.echo(
            f"{node:<{width}}  {public[node].decode()}  {secret.name if secret.exists() else 'not here'}"
            + (f"  {quoted(name)}" if name != node else "")
        )
