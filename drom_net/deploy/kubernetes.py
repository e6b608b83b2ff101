"""An export for Kubernetes: Jobs that end by themselves, for `kubectl apply --server-side -k DIR`.

Every node is a Job of one pod, with its own host name, key, data and folder: they are the same when the pod is made
again, on whatever machine. A StatefulSet would keep them as well, but it starts again whatever has finished, for ever.
The nodes' folders are on one volume, of which each pod sees its own sub-folder alone; so it is with data files.

No manifest has a secret key in it: kustomize makes a Secret for each node of the files in keys/. An init container
copies it into memory, with the mode that our key reader wants and that a mounted Secret beside an fsGroup has not.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drom_net import __version__
from drom_net.cluster.plan import algorithm_of
from drom_net.config.model import ClusterConfig, PeerSettings, ReducerSettings
from drom_net.config.yamlfile import write_yaml
from drom_net.core.errors import ConfigError, Problem
from drom_net.data.datasets import known_dim
from drom_net.data.public.catalog import PUBLIC_SETS
from drom_net.data.settings import Synthetic
from drom_net.deploy.deployment import PORT, Deployment, no_meeting_place, no_peers
from drom_net.deploy.portable import (
    CLUSTER,
    FILE_LIMIT_BYTES,
    KEYS,
    at_places,
    host_name,
    portable_files,
    reads_data,
)
from drom_net.protocol.node import REDUCER
from drom_net.transport.keys import PUBLIC_LIST

HOME = "/srv/drom-net"
USER = 10001
NODE = "drom-net/node"
"""The label with the host name of a pod's node."""
_APPLICATIONS = "tcp://127.0.0.1:5601"
"""Where a live task serves the other containers of its own pod."""
PATIENCE_S = 600.0
"""How long pods wait for each other at the least: one that is made again pulls an image, and may be put off."""
RETRIES = 6
"""How often the pod of a node may fail."""
_HEAD = "The cluster as its pods read it; `drom-net keys create` and `drom-net check` take it, too."
_STARTED = f"test -e {HOME}/run/nodes/*/lock"
_ALIVE = f"cd {HOME}/run; test nodes/*/lock -nt .probed; alive=$?; touch .probed; exit $alive"
"""A node touches its lock every five seconds as long as it does its work, be it learning or waiting: has it, since
this was asked before? By the clock of the volume alone."""
_LONGEST_NAME, _LONGEST_HOST = 30, 32  # a Job's name, NAME-HOST, is a label of its pods, of 63 at the most
_SETTINGS = "settings"
"""The folder with what the manifests and the collecting pod share: namespace, and the image's place."""

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Node:
    task: int
    """-1 for the reducer."""
    name: str
    """In files: its safe form, or reducer."""
    role: str

    @property
    def host(self) -> str:
        return host_name(self.name, longest=_LONGEST_HOST)


@dataclass(frozen=True, slots=True)
class _Site:
    """Where a pod is."""

    name: str
    """Of the ConfigMap and the Service, and before the names of Secrets and claims."""
    deployment: Deployment
    alone: bool = False
    """Whether no other node is there: its volumes are its own, and it is reached from outside."""


def _nodes(deployment: Deployment) -> list[_Node]:
    first = 0 if deployment.graph is not None else -1
    named = enumerate(deployment.nodes, start=first)
    return [_Node(task, name, REDUCER if task < 0 else deployment.role) for task, name in named]


def render(deployment: Deployment) -> Mapping[str, str]:
    """The cluster's file and the manifests; collect/ is for when the Jobs are complete, as wait.sh tells.

    Raises:
        ConfigError: What belongs into the ConfigMap is larger than one can be.
    """
    config, star = deployment.config, deployment.graph is None
    site = _Site(host_name(config.name, longest=_LONGEST_NAME), deployment)
    name, nodes = site.name, _nodes(deployment)
    endpoints = tuple(f"tcp://{node.host}.{name}:{PORT}" for node in nodes)
    if star:
        places = at_places(config, reducer=ReducerSettings(endpoint=endpoints[0]), bind=_APPLICATIONS)
    else:
        places = at_places(config, peers=PeerSettings(endpoints=endpoints), bind=_APPLICATIONS)
    mounted = portable_files(deployment, patient(places), head=_HEAD)
    roles = dict.fromkeys(node.role for node in nodes)
    manifests = {
        "service.yaml": _yaml([_service(name)]),
        "volume.yaml": _volume(site, len(deployment.tasks)),
        **{f"{role}.yaml": _yaml(_job(site, node) for node in nodes if node.role == role) for role in roles},
        "network.yaml": _yaml([_nobody(name), *(_star_policies(name) if star else _peer_policies(name, deployment))]),
    }
    folders = [f"{role}-*" for role in roles]
    return _with_kustomizations(site, nodes, mounted, manifests, _collect(site, folders))


def render_site(deployment: Deployment, name: str) -> Mapping[str, str]:
    """The files of one node in a Kubernetes of its own, which the others reach where the configuration says.

    Args:
        name: As in `deployment.nodes`.

    Raises:
        ConfigError: The file does not say where the nodes meet; as `render`.
    """
    config, star = deployment.config, deployment.graph is None
    (node,) = (node for node in _nodes(deployment) if node.name == name)
    # Of a star there is one place to connect to; of a graph one for each task.
    endpoints = (config.reducer.endpoint,) if star else config.peers.endpoints
    if endpoints is None:
        raise no_peers(config)
    if None in endpoints:
        raise no_meeting_place(config)
    ports = [int(str(endpoint).rpartition(":")[2]) for endpoint in endpoints]
    site = _Site(site_name(config.name, name), deployment, alone=True)
    places = at_places(config, reducer=config.reducer, peers=config.peers, bind=_APPLICATIONS)
    mounted = portable_files(deployment, patient(places), head=_HEAD)
    graph = deployment.graph
    others = [] if node.task < 0 else [0]
    if graph is not None:
        others = [other for other in graph.union.neighbors[node.task] if other < node.task]
    manifests = {
        "volume.yaml": _volume(site, 1),
        f"{node.role}.yaml": _yaml([_job(site, node)]),
        "network.yaml": _yaml(
            [_nobody(site.name), _outside_policy(site.name, node, sorted({ports[at] for at in others}))]
        ),
    }
    if node.role != "worker":
        manifests["service.yaml"] = _OUTSIDE + _yaml([_outside_service(site.name, node.role, ports[max(node.task, 0)])])
    return _with_kustomizations(site, [node], mounted, manifests, _collect(site, []))


def site_name(cluster: str, node: str) -> str:
    """What the Job and all else of `render_site` are called."""
    return f"{host_name(cluster, longest=_LONGEST_NAME)}-{host_name(node, longest=_LONGEST_HOST)}"


def patient(config: ClusterConfig) -> ClusterConfig:
    """With waits that are long enough for pods; those of a policy that goes on without are as they were."""
    if config.policy.proceeds:
        return config
    waits = {key: max(PATIENCE_S, getattr(config.timeouts, key)) for key in ("join_s", "lost_s")}
    return dataclasses.replace(config, timeouts=dataclasses.replace(config.timeouts, **waits))


def _with_kustomizations(
    site: _Site, nodes: Sequence[_Node], mounted: Mapping[str, str], manifests: Mapping[str, str], collect: Manifest
) -> Mapping[str, str]:
    config, name = site.deployment.config, site.name
    size = sum(len(text.encode()) for text in mounted.values())
    if size > FILE_LIMIT_BYTES:
        expected = f"a configuration of at most {FILE_LIMIT_BYTES:,} bytes, which is what a ConfigMap holds"
        raise ConfigError([Problem(str(config.path), expected, f"{size:,} bytes", "fewer tasks, or shorter names")])
    secrets = [
        {"name": _secret(site, node), "files": [f"{KEYS}/{file}" for file in (PUBLIC_LIST, f"{node.name}.secret")]}
        for node in nodes
    ]
    main = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "components": [_SETTINGS],
        "resources": list(manifests),
        "configMapGenerator": [{"name": name, "files": list(mounted)}],
        "secretGenerator": secrets,
        "generatorOptions": {"disableNameSuffixHash": True, "labels": _labels(name)},
    }
    collecting = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "components": [f"../{_SETTINGS}"],
        "resources": ["pod.yaml"],
    }
    proceeds = config.policy.proceeds and len(nodes) > 1
    return {
        **mounted,
        **manifests,
        "kustomization.yaml": _yaml([main]),
        f"{_SETTINGS}/kustomization.yaml": _PLACES + _yaml([_IMAGES]),
        "collect/kustomization.yaml": _yaml([collecting]),
        "collect/pod.yaml": _yaml([collect]),
        "wait.sh": _WAIT.replace("@ENOUGH@", ' && [ "$ended" = "$all" ]' if proceeds else ""),
    }


def _yaml(manifests: Iterable[Manifest]) -> str:
    return "---\n".join(write_yaml(manifest) for manifest in manifests)


_PLACES = """\
# Where all of it goes, and where the machines get the image from; the manifests and collect/ share this.
#namespace: NAME
"""
_IMAGES: Manifest = {
    "apiVersion": "kustomize.config.k8s.io/v1alpha1",
    "kind": "Component",
    "images": [{"name": "drom-net", "newName": "drom-net", "newTag": __version__}],
}

_WAIT = """\
#!/bin/sh
# Waits for the Jobs of this folder: 0 when all are complete, 1 when one has failed.
set -eu
folder=$(dirname "$0")
conditions='{range .status.conditions[?(@.status=="True")]} {.type}{end}'
each='{range .items[?(@.kind=="Job")]}{.metadata.name}'$conditions'{"\\n"}{end}'
while :; do
    jobs=$(kubectl get -k "$folder" -o jsonpath="$each")
    all=$(echo "$jobs" | grep -c . || true)
    failed=$(echo "$jobs" | grep -E ' Failed( |$)' | cut -d' ' -f1 || true)
    ended=$(echo "$jobs" | grep -cE ' (Failed|Complete)( |$)' || true)
    if [ -n "$failed" ]@ENOUGH@; then
        echo "failed:" $failed >&2
        echo "what it said: kubectl logs job/$(echo "$failed" | head -n 1), in the namespace of the Jobs" >&2
        exit 1
    fi
    if [ "$ended" = "$all" ]; then
        echo "complete: $all jobs"
        exit 0
    fi
    sleep 5
done
"""


def _labels(name: str, role: str | None = None, host: str | None = None) -> dict[str, str]:
    labels = {"app.kubernetes.io/name": "drom-net", "app.kubernetes.io/instance": name}
    labels |= {} if role is None else {"app.kubernetes.io/component": role}
    return labels if host is None else labels | {NODE: host}


def _about(name: str, cluster: str, role: str | None = None, host: str | None = None) -> Manifest:
    return {"name": name, "labels": _labels(cluster, role, host)}


def _service(name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _about(name, name),
        "spec": {
            "clusterIP": "None",
            # Nodes look for each other before any of them is ready.
            "publishNotReadyAddresses": True,
            "selector": _labels(name),
            "ports": [{"name": "drom-net", "port": PORT}],
        },
    }


_OUTSIDE = """\
# Where the other sites reach this node. Its address from outside has to be the one that cluster.yaml says.
# Without a load balancer: "type: NodePort", with "nodePort: 30571" beside "port"; then the endpoint in cluster.yaml of
# all sites is a machine of this Kubernetes, at port 30571.
"""


def _outside_service(name: str, role: str, port: int) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _about(name, name),
        "spec": {
            "type": "LoadBalancer",
            "publishNotReadyAddresses": True,
            "selector": _labels(name, role),
            "ports": [{"name": "drom-net", "port": port, "targetPort": PORT}],
        },
    }


# Pods ---------------------------------------------------------------------------------------------


def _job(site: _Site, node: _Node) -> Manifest:
    name = site.name if site.alone else f"{site.name}-{node.host}"
    spec: Manifest = {
        "backoffLimit": RETRIES,
        "podFailurePolicy": {
            "rules": [
                # Usage and rejection: what a node is told is wrong, and it would be as wrong the next time.
                {"action": "FailJob", "onExitCodes": {"containerName": "node", "operator": "In", "values": [2, 3]}},
                # A machine that is emptied or that vanishes is nobody's fault.
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
        "template": {"metadata": {"labels": _labels(site.name, node.role, node.host)}, "spec": _pod(site, node)},
    }
    about = _about(name, site.name, node.role, node.host)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "spec": spec}


def _secret(site: _Site, node: _Node) -> str:
    return f"{site.name}-keys" if site.alone else f"{site.name}-keys-{node.host}"


def _pod(site: _Site, node: _Node) -> Manifest:
    config, name = site.deployment.config, site.name
    environment = {
        "DROM_NET_CONFIG": f"{HOME}/config/{CLUSTER}",
        "DROM_NET_KEYS": f"{HOME}/keys",
        "DROM_NET_OUT": f"{HOME}/run",
        "DROM_NET_LOG_FORMAT": "json",
    }
    if node.task >= 0:
        environment["DROM_NET_TASK"] = node.name
    mounts: list[Manifest] = [
        {"name": "config", "mountPath": f"{HOME}/config", "readOnly": True},
        {"name": "keys", "mountPath": f"{HOME}/keys", "readOnly": True},
        {"name": "run", "mountPath": f"{HOME}/run", "subPath": f"{node.role}-{node.name}"},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    volumes: list[Manifest] = [
        {"name": "config", "configMap": {"name": name}},
        {"name": "own-key", "secret": {"secretName": _secret(site, node), "defaultMode": 0o440}},
        {"name": "keys", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
        {"name": "run", "persistentVolumeClaim": {"claimName": f"{name}-run"}},
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
    ]
    if reads_data(config, reducer=node.task < 0):
        environment["DROM_NET_DATA"] = f"{HOME}/data"
        # Each sees its own folder; a public set is the same folder for all.
        own = {} if site.alone or config.data.dataset in PUBLIC_SETS else {"subPath": node.name}
        mounts.append({"name": "data", "mountPath": f"{HOME}/data", "readOnly": True} | own)
        volumes.append({"name": "data", "persistentVolumeClaim": {"claimName": f"{name}-data", "readOnly": True}})
    start = []
    if node.role != "worker":  # it listens: at all addresses of the pod, of whichever kind this Kubernetes has
        start.append("any=0.0.0.0; if [ -e /proc/net/if_inet6 ]; then any='[::]'; fi")
        start.append(f'export DROM_NET_BIND="tcp://$any:{PORT}"')
    start.append(f"exec drom-net {node.role}")
    take = [f"cd {HOME}/own-key", f"install -m 600 {PUBLIC_LIST} {node.name}.secret {HOME}/keys/"]
    started, alive = ({"exec": {"command": ["sh", "-c", test]}} for test in (_STARTED, _ALIVE))
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _labels(name)},
    }
    return {
        "restartPolicy": "Never",
        "hostname": node.host,
        **({} if site.alone else {"subdomain": name, "topologySpreadConstraints": [spread]}),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "securityContext": _POD_SECURITY,
        "initContainers": [
            {
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
        ],
        "containers": [
            {
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
        ],
        "volumes": volumes,
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
_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


# Sizes --------------------------------------------------------------------------------------------

_MEBI = 1 << 20
_NODE_BYTES = 64 * _MEBI
"""A node without data: 53 MB with 1,000 tasks of 1,458 features."""
_READING_BYTES = 448 * _MEBI
"""What reading data may take for a moment: spam-pu took 312 MB in all."""
_RECORDS_BYTES = 300
"""Of a round of a task, on the volume: records, times, and the tables of the result."""
_ROUNDS = 1_000_000
"""Where nobody knows how many there will be."""
_DIM = 10_000
"""Where the file does not say."""


def _resources(role: str, deployment: Deployment) -> Manifest:
    """What a node needs, and what it takes at the most."""
    config, num_tasks = deployment.config, len(deployment.tasks)
    dim = known_dim(config.data, config.base) or _DIM
    rows = num_tasks if deployment.graph is None else 1 + max(deployment.graph.union.degrees)
    # The vectors at work (state, contributions, replies), and the words that are kept for those who may ask again.
    works = _NODE_BYTES + 8 * dim * (8 if role == "worker" else 8 + 4 * rows)
    most = 2 * works + config.checkpoint.history_rounds * _word_bytes(role, config, dim, num_tasks)
    if role != "reducer":
        most += _READING_BYTES
    return _needs(cpu=100 if role == "worker" else min(1000, 100 + rows * dim // 1000), memory=works, most=most)


def _word_bytes(role: str, config: ClusterConfig, dim: int, num_tasks: int) -> int:
    """What a node keeps of a sync round."""
    if role != "reducer":
        return 8 * dim * max(1, algorithm_of(config, 0).push_vectors)
    return 8 * (dim + num_tasks) if config.algorithm.name == "drom" else 8 * dim * num_tasks


def _needs(*, cpu: int, memory: int, most: int) -> Manifest:
    """Thousandths of a processor, and bytes. No limit of processor time: who is slowed down slows all others down."""
    asked = {"cpu": f"{cpu}m", "memory": f"{math.ceil(memory / _MEBI)}Mi"}
    return {"requests": asked, "limits": {"memory": f"{math.ceil(most / _MEBI)}Mi"}}


def _volume(site: _Site, num_tasks: int) -> str:
    """For the nodes' folders; their snapshots survive pods and machines."""
    config = site.deployment.config
    rounds = config.rounds or _ROUNDS
    if isinstance(config.data, Synthetic):
        rounds = min(rounds, config.data.examples * config.data.passes)
    size = num_tasks * rounds * _RECORDS_BYTES
    claim: Manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _about(f"{site.name}-run", site.name),
        "spec": {
            # Of pods on several machines at once; where there is one machine, ReadWriteOnce does.
            "accessModes": ["ReadWriteOnce" if site.alone else "ReadWriteMany"],
            "resources": {"requests": {"storage": f"{1 + math.ceil(size / (1 << 30))}Gi"}},
        },
    }
    return _yaml([claim]).replace("\nspec:\n", "\nspec:\n" + _STORAGE_CLASS)


_STORAGE_CLASS = "  #storageClassName: NAME  # of `kubectl get storageclass`; without it the default one\n"


# Who may talk to whom -----------------------------------------------------------------------------

_PORTS: list[Manifest] = [{"protocol": "TCP", "port": PORT}]
_DNS: Manifest = {
    "to": [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        }
    ],
    "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
}


def _policy(
    name: str, cluster: str, selector: Manifest, *, ingress: list[Manifest], egress: list[Manifest]
) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _about(name, cluster),
        "spec": {
            "podSelector": selector,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }


def _nobody(name: str) -> Manifest:
    """What no other policy allows is forbidden to all pods of the cluster."""
    return _policy(f"{name}-nobody", name, {"matchLabels": _labels(name)}, ingress=[], egress=[])


def _star_policies(name: str) -> list[Manifest]:
    """A worker connects to the reducer, which connects to nobody."""
    reducer, worker = ({"matchLabels": _labels(name, role)} for role in ("reducer", "worker"))
    heard: Manifest = {"from": [{"podSelector": worker}], "ports": _PORTS}
    told: Manifest = {"to": [{"podSelector": reducer}], "ports": _PORTS}
    return [
        _policy(f"{name}-reducer", name, reducer, ingress=[heard], egress=[]),
        _policy(f"{name}-worker", name, worker, ingress=[], egress=[told, _DNS]),
    ]


def _peer_policies(name: str, deployment: Deployment) -> list[Manifest]:
    """A peer connects to its neighbors of smaller numbers, and those of larger ones connect to it."""
    assert deployment.graph is not None
    labels = _labels(name, "peer")
    hosts = [node.host for node in _nodes(deployment)]
    policies = []
    for task, neighbors in enumerate(deployment.graph.union.neighbors):
        lower = [hosts[other] for other in neighbors if other < task]
        higher = [hosts[other] for other in neighbors if other > task]
        ingress: list[Manifest] = [{"from": [_pods(labels, higher)], "ports": _PORTS}] if higher else []
        egress: list[Manifest] = [{"to": [_pods(labels, lower)], "ports": _PORTS}, _DNS] if lower else []
        own = {"matchLabels": labels | {NODE: hosts[task]}}
        policies.append(_policy(f"{name}-{hosts[task]}", name, own, ingress=ingress, egress=egress))
    return policies


def _pods(labels: dict[str, str], hosts: list[str]) -> Manifest:
    among = {"key": NODE, "operator": "In", "values": hosts}
    return {"podSelector": {"matchLabels": labels, "matchExpressions": [among]}}


def _outside_policy(name: str, node: _Node, ports: Sequence[int]) -> Manifest:
    """Of a node whose others are elsewhere: by ports alone, for nobody knows their addresses here."""
    ingress: list[Manifest] = [{"ports": _PORTS}] if node.role != "worker" else []
    egress: list[Manifest] = [{"ports": [{"protocol": "TCP", "port": port} for port in ports]}, _DNS] if ports else []
    own = {"matchLabels": _labels(name, node.role)}
    return _policy(f"{name}-{node.role}", name, own, ingress=ingress, egress=egress)


# The result ---------------------------------------------------------------------------------------


def _collect(site: _Site, folders: Sequence[str]) -> Manifest:
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
        "metadata": _about(f"{name}-collect", name, "collect"),
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
