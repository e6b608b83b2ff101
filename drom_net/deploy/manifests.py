"""What all manifests for Kubernetes share: names, labels, and how they are written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from drom_net.config.yamlfile import write_yaml
from drom_net.deploy.deployment import Deployment
from drom_net.deploy.portable import (
    host_name,
)
from drom_net.protocol.node import REDUCER

HOME = "/srv/drom-net"
USER = 10001
NODE = "drom-net/node"
"""The label with the host name of a pod's node."""
APPLICATIONS = "tcp://127.0.0.1:5601"
"""Where a live task serves the other containers of its own pod."""

LONGEST_NAME, LONGEST_HOST = 30, 32  # a Job's name, NAME-HOST, is a label of its pods, of 63 at the most


def nodes_of(deployment: Deployment) -> list[Node]:
    first = 0 if deployment.graph is not None else -1
    named = enumerate(deployment.nodes, start=first)
    return [Node(task, name, REDUCER if task < 0 else deployment.role) for task, name in named]


def as_yaml(manifests: Iterable[Manifest]) -> str:
    return "---\n".join(write_yaml(manifest) for manifest in manifests)


def secret_of(site: Site, node: Node) -> str:
    return f"{site.name}-keys" if site.alone else f"{site.name}-keys-{node.host}"


Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Node:
    task: int
    """-1 for the reducer."""
    name: str
    """In files: its safe form, or reducer."""
    role: str

    @property
    def host(self) -> str:
        return host_name(self.name, longest=LONGEST_HOST)


@dataclass(frozen=True, slots=True)
class Site:
    """Where a pod is."""

    name: str
    """Of the ConfigMap and the Service, and before the names of Secrets and claims."""
    deployment: Deployment
    alone: bool = False
    """Whether no other node is there: its volumes are its own, and it is reached from outside."""


def labels_of(name: str, role: str | None = None, host: str | None = None) -> dict[str, str]:
    labels = {"app.kubernetes.io/name": "drom-net", "app.kubernetes.io/instance": name}
    labels |= {} if role is None else {"app.kubernetes.io/component": role}
    return labels if host is None else labels | {NODE: host}


def about_of(name: str, cluster: str, role: str | None = None, host: str | None = None) -> Manifest:
    return {"name": name, "labels": labels_of(cluster, role, host)}
