"""The cluster's file as it can be read in every place of a cluster, and what exports for many machines share."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Collection
from pathlib import PurePosixPath

from drom_net.algorithms.features import Matrix
from drom_net.config.model import ClusterConfig, PeerSettings, ReducerSettings, SecuritySettings, to_yaml
from drom_net.core.errors import ConfigError, Problem
from drom_net.data.settings import DigitsSites, FileData, Synthetic
from drom_net.deploy.deployment import Deployment
from drom_net.graph.families import resolve
from drom_net.graph.settings import TopologySettings

CLUSTER, WEIGHTS, KEYS = "cluster.yaml", "weights.csv", "keys"
"""Names of files and of a folder beside each other."""
FILE_LIMIT_BYTES = 1 << 20
"""Of a YAML file of ours, and of a ConfigMap."""


def portable_files(
    deployment: Deployment, config: ClusterConfig, *, head: str, without: Collection[str] = ()
) -> dict[str, str]:
    """The cluster's file, and the file of its weights where it has such.

    Args:
        config: The deployment's, with what is different in the export.
        head, without: As for `to_yaml`.

    Raises:
        ConfigError: The graph cannot be written down so that others can read it.
    """
    topology, weights = _portable_topology(deployment, config)
    files = {CLUSTER: to_yaml(dataclasses.replace(config, topology=topology), head=head, without=without)}
    if weights is not None:
        files[WEIGHTS] = "".join(",".join(repr(float(value)) for value in row) + "\n" for row in weights)
    size = sum(len(text.encode()) for text in files.values())
    if size > FILE_LIMIT_BYTES:
        expected = f"a graph that can be written down in {FILE_LIMIT_BYTES:,} bytes"
        hint = "take a graph with a name, or fewer edges"
        raise ConfigError([Problem(f"{config.path}: topology.graph", expected, f"{size:,} bytes", hint)])
    return files


def at_places(
    config: ClusterConfig,
    *,
    reducer: ReducerSettings | None = None,
    peers: PeerSettings | None = None,
    bind: str = "",
    follows_files: bool = False,
) -> ClusterConfig:
    """The configuration with these endpoints; keys and data are beside the file, or where DROM_NET_... says.

    Args:
        bind: Where the applications of a live task find it there; empty where they cannot.
        follows_files: Whether a live task's file can be seen there.

    Raises:
        ConfigError: Live examples cannot come there as the configuration says.
    """
    source = config.source
    if source is not None:
        possible = [key for key, possible in (("bind", bind), ("file", follows_files)) if possible]
        given = "bind" if source.bind is not None else "file" if source.file is not None else "stdin"
        if given not in possible:
            expected = " or ".join(f"source.{key}" for key in possible) or "examples that are there before"
            raise ConfigError([Problem(f"{config.path}: source", f"{expected} in this export", f"source.{given}")])
        if given == "bind":
            source = dataclasses.replace(source, bind=bind)
    data = config.data
    if isinstance(data, FileData):
        data = dataclasses.replace(data, directory=None)
    return dataclasses.replace(
        config,
        data=data,
        source=source,
        reducer=reducer or ReducerSettings(),
        peers=peers or PeerSettings(),
        security=SecuritySettings(keys=KEYS),
    )


def node_list(deployment: Deployment) -> str:
    """The nodes, a line each: the reducer first where there is one, then the tasks in order."""
    return "".join(f"{name}\n" for name in deployment.nodes)


def reads_data(config: ClusterConfig, *, reducer: bool = False) -> bool:
    """Whether workers and peers need files of data; or whether the reducer does, for the list of features."""
    if reducer:
        return isinstance(config.data, FileData) and isinstance(config.data.features, str)
    return not isinstance(config.data, Synthetic | DigitsSites)


def host_name(name: str, *, longest: int) -> str:
    """A name that a host or a service may have (RFC 1123 and 1035), different for different names."""
    found = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    if not found[:1].isalpha():
        found = f"drom-{found}".rstrip("-")
    if found == name and len(found) <= longest:
        return found
    mark = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{found[: longest - len(mark) - 1].rstrip('-')}-{mark}"


def _portable_topology(deployment: Deployment, config: ClusterConfig) -> tuple[TopologySettings | None, Matrix | None]:
    """The section, and the weights that go into a file of their own."""
    settings, graph = config.topology, deployment.graph
    if settings is None or graph is None:
        return None, None
    if settings.file is None:
        return resolve(settings, graph.union), None
    if len(graph.schedule.graphs) > 1:
        name = PurePosixPath(settings.file).name
        expected = "one matrix, for a schedule of several cannot be written into a text file"
        got = f"{len(graph.schedule.graphs)} in {name}"
        raise ConfigError([Problem(f"{config.path}: topology.file", expected, got)])
    if settings.graph == "weights" and settings.rule == "matrix":
        return dataclasses.replace(settings, file=WEIGHTS), graph.union.weights
    return dataclasses.replace(settings, graph="edges", edges=graph.union.edges, file=None), None
