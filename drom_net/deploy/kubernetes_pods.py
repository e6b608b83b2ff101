"""The pod of a node: its container, its volumes, and what memory and disk it needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from drom_net.cluster.plan import algorithm_of
from drom_net.config.model import ClusterConfig
from drom_net.data.datasets import known_dim
from drom_net.data.public.catalog import PUBLIC_SETS
from drom_net.data.settings import Synthetic
from drom_net.deploy.deployment import PORT, Deployment
from drom_net.deploy.manifests import (
    HOME,
    USER,
    Manifest,
    Node,
    Site,
    about_of,
    as_yaml,
    labels_of,
    secret_of,
)
from drom_net.deploy.portable import (
    CLUSTER,
    reads_data,
)
from drom_net.transport.keys import PUBLIC_LIST

_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_MEBI = 1 << 20
_RECORDS_BYTES = 300
"""Of a round of a task, on the volume: records, times, and the tables of the result."""
_ROUNDS = 1_000_000
"""Where nobody knows how many there will be."""
_DIM = 10_000
"""Where the file does not say."""
_STORAGE_CLASS = "  #storageClassName: NAME  # of `kubectl get storageclass`; without it the default one\n"
_STARTED = f"test -e {HOME}/run/nodes/*/lock"
_ALIVE = f"cd {HOME}/run; test nodes/*/lock -nt .probed; alive=$?; touch .probed; exit $alive"
"""A node touches its lock every five seconds as long as it does its work, be it learning or waiting: has it, since
this was asked before? By the clock of the volume alone."""


def pod_of(site: Site, node: Node) -> Manifest:
    name = site.name
    mounts, volumes = _volumes(site, node)
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels_of(name)},
    }
    return {
        "restartPolicy": "Never",
        "hostname": node.host,
        **({} if site.alone else {"subdomain": name, "topologySpreadConstraints": [spread]}),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "securityContext": _POD_SECURITY,
        "initContainers": [_key_container(node)],
        "containers": [_node_container(site, node, mounts)],
        "volumes": volumes,
    }


def _volumes(site: Site, node: Node) -> tuple[list[Manifest], list[Manifest]]:
    """What the node's container sees of the pod's volumes, and these."""
    config, name = site.deployment.config, site.name
    mounts: list[Manifest] = [
        {"name": "config", "mountPath": f"{HOME}/config", "readOnly": True},
        {"name": "keys", "mountPath": f"{HOME}/keys", "readOnly": True},
        {"name": "run", "mountPath": f"{HOME}/run", "subPath": f"{node.role}-{node.name}"},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    volumes: list[Manifest] = [
        {"name": "config", "configMap": {"name": name}},
        {"name": "own-key", "secret": {"secretName": secret_of(site, node), "defaultMode": 0o440}},
        {"name": "keys", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
        {"name": "run", "persistentVolumeClaim": {"claimName": f"{name}-run"}},
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
    ]
    if reads_data(config, reducer=node.task < 0):
        # Each sees its own folder; a public set is the same folder for all.
        own = {} if site.alone or config.data.dataset in PUBLIC_SETS else {"subPath": node.name}
        mounts.append({"name": "data", "mountPath": f"{HOME}/data", "readOnly": True} | own)
        volumes.append({"name": "data", "persistentVolumeClaim": {"claimName": f"{name}-data", "readOnly": True}})
    return mounts, volumes


def _key_container(node: Node) -> Manifest:
    """It takes the node's own key to where only the node reads it."""
    take = [f"cd {HOME}/own-key", f"install -m 600 {PUBLIC_LIST} {node.name}.secret {HOME}/keys/"]
    return {
        "name": "own-key",
        "image": "drom-net",
        "command": _shell(take),
        "resources": _needs(cpu=10, memory=16 * _MEBI, most=32 * _MEBI),
        "securityContext": _SECURITY,
        "volumeMounts": [
            {"name": "own-key", "mountPath": f"{HOME}/own-key", "readOnly": True},
            {"name": "keys", "mountPath": f"{HOME}/keys"},
        ],
    }


def _node_container(site: Site, node: Node, mounts: Sequence[Manifest]) -> Manifest:
    environment = {
        "DROM_NET_CONFIG": f"{HOME}/config/{CLUSTER}",
        "DROM_NET_KEYS": f"{HOME}/keys",
        "DROM_NET_OUT": f"{HOME}/run",
        "DROM_NET_LOG_FORMAT": "json",
    }
    if node.task >= 0:
        environment["DROM_NET_TASK"] = node.name
    if reads_data(site.deployment.config, reducer=node.task < 0):
        environment["DROM_NET_DATA"] = f"{HOME}/data"
    start = []
    if node.role != "worker":  # it listens: at all addresses of the pod, of whichever kind this Kubernetes has
        start.append("any=0.0.0.0; if [ -e /proc/net/if_inet6 ]; then any='[::]'; fi")
        start.append(f'export DROM_NET_BIND="tcp://$any:{PORT}"')
    start.append(f"exec drom-net {node.role}")
    started, alive = ({"exec": {"command": ["sh", "-c", test]}} for test in (_STARTED, _ALIVE))
    return {
        "name": "node",
        "image": "drom-net",
        "command": _shell(start),
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "ports": [] if node.role == "worker" else [{"name": "drom-net", "containerPort": PORT}],
        "startupProbe": started | {"periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 360},
        "livenessProbe": alive | {"periodSeconds": 60, "timeoutSeconds": 20, "failureThreshold": 3},
        "resources": _resources(node.role, site.deployment),
        "securityContext": _SECURITY,
        "volumeMounts": mounts,
    }


def _shell(lines: list[str]) -> list[str]:
    return ["sh", "-euc", "\n".join(lines)]


_POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}


# Sizes --------------------------------------------------------------------------------------------

_NODE_BYTES = 64 * _MEBI
"""A node without data: 53 MB with 1,000 tasks of 1,458 features."""
_READING_BYTES = 448 * _MEBI
"""What reading data may take for a moment: spam-pu took 312 MB in all."""


def _resources(role: str, deployment: Deployment) -> Manifest:
    """What a node needs, and what it takes at the most."""
    config, num_tasks = deployment.config, len(deployment.tasks)
    dim = known_dim(config.data, config.base) or _DIM
    rows = num_tasks if deployment.graph is None else 1 + max(deployment.graph.union.degrees)
    # The vectors at work (state, contributions, replies), and contributions kept for those who may ask again.
    works = _NODE_BYTES + 8 * dim * (8 if role == "worker" else 8 + 4 * rows)
    kept = algorithm_of(config, 0).exchange.sync.count(config.checkpoint.history_rounds)
    most = 2 * works + kept * _kept_bytes(role, config, dim, num_tasks)
    if role != "reducer":
        most += _READING_BYTES
    return _needs(cpu=100 if role == "worker" else min(1000, 100 + rows * dim // 1000), memory=works, most=most)


def _kept_bytes(role: str, config: ClusterConfig, dim: int, num_tasks: int) -> int:
    """What a node keeps of a sync round."""
    exchange = algorithm_of(config, 0).exchange
    if role != "reducer":
        return 8 * dim * max(1, sum(exchange.contribution))
    reply = dim * sum(exchange.reply_layout(num_tasks))
    return 8 * (reply + num_tasks if exchange.same_reply else reply * num_tasks)


def _needs(*, cpu: int, memory: int, most: int) -> Manifest:
    """Thousandths of a processor, and bytes. No limit of processor time: who is slowed down slows all others down."""
    asked = {"cpu": f"{cpu}m", "memory": f"{math.ceil(memory / _MEBI)}Mi"}
    return {"requests": asked, "limits": {"memory": f"{math.ceil(most / _MEBI)}Mi"}}


def volume_of(site: Site, num_tasks: int) -> str:
    """For the nodes' folders; their snapshots survive pods and machines."""
    config = site.deployment.config
    rounds = config.rounds or _ROUNDS
    if isinstance(config.data, Synthetic):
        rounds = min(rounds, config.data.examples * config.data.passes)
    size = num_tasks * rounds * _RECORDS_BYTES
    claim: Manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": about_of(f"{site.name}-run", site.name),
        "spec": {
            # Of pods on several machines at once; where there is one machine, ReadWriteOnce does.
            "accessModes": ["ReadWriteOnce" if site.alone else "ReadWriteMany"],
            "resources": {"requests": {"storage": f"{1 + math.ceil(size / (1 << 30))}Gi"}},
        },
    }
    return as_yaml([claim]).replace("\nspec:\n", "\nspec:\n" + _STORAGE_CLASS)


# The result ---------------------------------------------------------------------------------------


def collecting_pod(site: Site, folders: Sequence[str]) -> Manifest:
    """A pod that merges what all nodes have written, says the result in its log, and stays for an hour to be copied
    from. It talks to nobody.

    Args:
        folders: Of the nodes, on the volume; without any there is nothing to merge.
    """
    name, out = site.name, f"{HOME}/run/result"
    merge = [
        f"if [ -f {out}/summary.json ]; then exec drom-net show {out}; fi",
        f"rm -rf {out}",
        f"exec drom-net merge {' '.join(f'{HOME}/run/{each}' for each in folders)} --out {out}",
    ]
    common: Manifest = {
        "image": "drom-net",
        "securityContext": _SECURITY,
        "volumeMounts": [{"name": "run", "mountPath": f"{HOME}/run"}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    merging = _needs(cpu=100, memory=256 * _MEBI, most=2048 * _MEBI)
    waiting = _needs(cpu=10, memory=16 * _MEBI, most=64 * _MEBI)
    first = [{"name": "merge", "command": _shell(merge), "resources": merging} | common] if folders else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": about_of(f"{name}-collect", name, "collect"),
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": _POD_SECURITY,
            "initContainers": first,
            "containers": [{"name": "result", "command": ["sleep", "3600"], "resources": waiting} | common],
            "volumes": [
                {"name": "run", "persistentVolumeClaim": {"claimName": f"{name}-run"}},
                {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            ],
        },
    }
