"""An export for Kubernetes: Jobs that end by themselves, for `kubectl apply --server-side -k DIR`.

Every task is one index of an Indexed Job, and so is the reducer: an index keeps its host name (NAME-worker-7, by the
headless Service) and its folder when its pod is made again, on whatever machine. A StatefulSet would keep both as well,
but it starts again whatever has finished, for ever. A Job has no volume for each of its pods, so all folders are on one
volume, of which each pod sees its own sub-folder alone.

No manifest has a secret key in it. All of them are in one Secret, which only an init container sees: it copies the
pod's own one into memory, with the mode that our key reader wants and that a mounted Secret beside an fsGroup has not.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from drom_net import __version__
from drom_net.cluster.deployment import PORT, Deployment
from drom_net.cluster.plan import algorithm_of
from drom_net.cluster.portable import (
    CLUSTER,
    FILE_LIMIT_BYTES,
    at_places,
    host_name,
    node_list,
    portable_files,
    reads_data,
)
from drom_net.config import ClusterConfig, PeerSettings, ReducerSettings
from drom_net.data.datasets import known_dim
from drom_net.data.settings import Synthetic
from drom_net.errors import ConfigError, Problem
from drom_net.yamlfile import write_yaml

HOME = "/srv/drom-net"
USER = 10001
INDEX = "batch.kubernetes.io/job-completion-index"
"""The label (and annotation) with which a Job tells its pods apart."""
_APPLICATIONS = "tcp://127.0.0.1:5601"
"""Where a live task serves the other containers of its own pod."""
PATIENCE_S = 600.0
"""How long pods wait for each other at the least: one that is made again pulls an image, and may be put off."""
RETRIES = 6
"""How often the pod of one index may fail."""
_HEAD = "The cluster as its pods read it; `drom-net keys create` and `drom-net check` take it, too."
_STARTED = f"test -e {HOME}/run/nodes/*/lock"
_ALIVE = f"cd {HOME}/run; test nodes/*/lock -nt .probed; alive=$?; touch .probed; exit $alive"
"""A node touches its lock every five seconds as long as it does its work, be it learning or waiting: has it, since
this was asked before? By the clock of the volume alone."""
_LONGEST_NAME = 40  # NAME-reducer-999 is a label of a host name, of 63 at the most

Manifest = dict[str, Any]


def render(deployment: Deployment) -> Mapping[str, str]:
    """The cluster's file and the manifests; collect.yaml is for when the Jobs are complete.

    Raises:
        ConfigError: What belongs into the ConfigMap is larger than one can be.
    """
    config, star = deployment.config, deployment.graph is None
    name = host_name(config.name, longest=_LONGEST_NAME)
    if star:
        meet = ReducerSettings(endpoint=f"tcp://{name}-reducer-0.{name}:{PORT}")
        places = at_places(config, reducer=meet, bind=_APPLICATIONS)
    else:
        endpoints = tuple(f"tcp://{name}-peer-{task}.{name}:{PORT}" for task in range(len(deployment.tasks)))
        places = at_places(config, peers=PeerSettings(endpoints=endpoints), bind=_APPLICATIONS)
    if not config.policy.proceeds:
        waits = {key: max(PATIENCE_S, getattr(config.timeouts, key)) for key in ("join_s", "lost_s")}
        places = dataclasses.replace(places, timeouts=dataclasses.replace(config.timeouts, **waits))
    mounted = portable_files(deployment, places, head=_HEAD) | {"nodes.txt": node_list(deployment)}
    size = sum(len(text.encode()) for text in mounted.values())
    if size > FILE_LIMIT_BYTES:
        expected = f"a configuration of at most {FILE_LIMIT_BYTES:,} bytes, which is what a ConfigMap holds"
        raise ConfigError([Problem(str(config.path), expected, f"{size:,} bytes", "fewer tasks, or shorter names")])
    roles = {"reducer": 1, "worker": len(deployment.tasks)} if star else {"peer": len(deployment.tasks)}
    manifests = {
        "service.yaml": [_service(name)],
        "volume.yaml": [_volume(name, deployment)],
        **{f"{role}.yaml": [_job(name, role, count, deployment)] for role, count in roles.items()},
        "network.yaml": [_nobody(name), *(_star_policies(name) if star else _peer_policies(name, deployment))],
        "disruption.yaml": [_disruption_budget(name, list(roles), sum(roles.values()))],
    }
    return {
        **mounted,
        **{file: _yaml(each) for file, each in manifests.items()},
        "kustomization.yaml": _yaml([_kustomization(name, list(manifests), list(mounted))]),
        "collect.yaml": _yaml([_collect(name, deployment)]),
    }


def _yaml(manifests: Iterable[Manifest]) -> str:
    return "---\n".join(write_yaml(manifest) for manifest in manifests)


def _kustomization(name: str, resources: list[str], files: list[str]) -> Manifest:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
        "configMapGenerator": [{"name": name, "files": files}],
        "generatorOptions": {"disableNameSuffixHash": True, "labels": _labels(name)},
        # Where the machines get the image from is for the user to say here.
        "images": [{"name": "drom-net", "newName": "drom-net", "newTag": __version__}],
    }


def _labels(name: str, role: str | None = None) -> dict[str, str]:
    labels = {"app.kubernetes.io/name": "drom-net", "app.kubernetes.io/instance": name}
    return labels if role is None else labels | {"app.kubernetes.io/component": role}


def _about(name: str, cluster: str, role: str | None = None) -> Manifest:
    return {"name": name, "labels": _labels(cluster, role)}


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


# Pods ---------------------------------------------------------------------------------------------


def _job(name: str, role: str, count: int, deployment: Deployment) -> Manifest:
    proceeds = deployment.config.policy.proceeds
    spec: Manifest = {
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": count,
        "backoffLimitPerIndex": RETRIES,
        "podFailurePolicy": {
            "rules": [
                # Usage and rejection: what a node is told is wrong, and it would be as wrong the next time.
                {
                    "action": "FailIndex" if proceeds else "FailJob",
                    "onExitCodes": {"containerName": "node", "operator": "In", "values": [2, 3]},
                },
                # A machine that is emptied or that vanishes is nobody's fault.
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
        "template": {"metadata": {"labels": _labels(name, role)}, "spec": _pod(name, role, deployment)},
    }
    if not proceeds:
        spec["maxFailedIndexes"] = 0  # without one all others would wait in vain
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _about(f"{name}-{role}", name, role), "spec": spec}


def _pod(name: str, role: str, deployment: Deployment) -> Manifest:
    config = deployment.config
    reducer = role == "reducer"
    environment = {
        "DROM_NET_CONFIG": f"{HOME}/config/{CLUSTER}",
        "DROM_NET_KEYS": f"{HOME}/keys",
        "DROM_NET_OUT": f"{HOME}/run",
        "DROM_NET_LOG_FORMAT": "json",
    }
    mounts: list[Manifest] = [
        {"name": "config", "mountPath": f"{HOME}/config", "readOnly": True},
        {"name": "keys", "mountPath": f"{HOME}/keys", "readOnly": True},
        {"name": "run", "mountPath": f"{HOME}/run", "subPathExpr": f"{role}-$(INDEX)"},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    volumes: list[Manifest] = [
        {"name": "config", "configMap": {"name": name}},
        {"name": "all-keys", "secret": {"secretName": f"{name}-keys", "defaultMode": 0o440}},
        {"name": "keys", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
        {"name": "run", "persistentVolumeClaim": {"claimName": f"{name}-run"}},
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
    ]
    if reads_data(config, reducer=reducer):
        environment["DROM_NET_DATA"] = f"{HOME}/data"
        mounts.append({"name": "data", "mountPath": f"{HOME}/data", "readOnly": True})
        volumes.append({"name": "data", "persistentVolumeClaim": {"claimName": f"{name}-data", "readOnly": True}})
    nth = "INDEX + 2" if role == "worker" else "INDEX + 1"  # in the list, where a reducer is the first
    which = f'export DROM_NET_TASK="$(sed -n "$(({nth}))p" {HOME}/config/nodes.txt)"'
    start = [] if reducer else [which]
    if role != "worker":  # it listens: at all addresses of the pod, of whichever kind this Kubernetes has
        start.append("any=0.0.0.0; if [ -e /proc/net/if_inet6 ]; then any='[::]'; fi")
        start.append(f'export DROM_NET_BIND="tcp://$any:{PORT}"')
    start.append(f"exec drom-net {role}")
    own = "reducer" if reducer else "$DROM_NET_TASK"
    take = [*([] if reducer else [which]), f"cd {HOME}/all-keys"]
    take.append(f'install -m 600 public.keys "{own}.secret" {HOME}/keys/')
    index = {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}}
    started, alive = ({"exec": {"command": ["sh", "-c", test]}} for test in (_STARTED, _ALIVE))
    return {
        "restartPolicy": "Never",
        "subdomain": name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "securityContext": _POD_SECURITY,
        "initContainers": [
            {
                "name": "own-key",
                "image": "drom-net",
                "command": _shell(take),
                "env": [index],
                "resources": _needs(cpu=10, memory=16 * _MEBI, most=32 * _MEBI),
                "securityContext": _SECURITY,
                "volumeMounts": [
                    {"name": "config", "mountPath": f"{HOME}/config", "readOnly": True},
                    {"name": "all-keys", "mountPath": f"{HOME}/all-keys", "readOnly": True},
                    {"name": "keys", "mountPath": f"{HOME}/keys"},
                ],
            }
        ],
        "containers": [
            {
                "name": "node",
                "image": "drom-net",
                "command": _shell(start),
                "env": [index, *({"name": key, "value": value} for key, value in environment.items())],
                "ports": [] if role == "worker" else [{"name": "drom-net", "containerPort": PORT}],
                "startupProbe": started | {"periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 360},
                "livenessProbe": alive | {"periodSeconds": 60, "timeoutSeconds": 20, "failureThreshold": 3},
                "resources": _resources(role, deployment),
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


def _volume(name: str, deployment: Deployment) -> Manifest:
    """For the nodes' folders; their snapshots survive pods and machines."""
    config, num_tasks = deployment.config, len(deployment.tasks)
    rounds = config.rounds or _ROUNDS
    if isinstance(config.data, Synthetic):
        rounds = min(rounds, config.data.examples * config.data.passes)
    size = num_tasks * rounds * _RECORDS_BYTES
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _about(f"{name}-run", name),
        "spec": {
            # Of pods on several machines at once; where there is one machine, ReadWriteOnce does.
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": f"{1 + math.ceil(size / (1 << 30))}Gi"}},
        },
    }


def _disruption_budget(name: str, roles: list[str], count: int) -> Manifest:
    """One node of the cluster at a time: all others wait for it. (For Jobs there is no maxUnavailable.)"""
    component = {"key": "app.kubernetes.io/component", "operator": "In", "values": roles}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _about(name, name),
        "spec": {
            "minAvailable": count - 1,
            "selector": {"matchLabels": _labels(name), "matchExpressions": [component]},
        },
    }


# Who may talk to whom -----------------------------------------------------------------------------

_PORTS: list[Manifest] = [{"protocol": "TCP", "port": PORT}]
_DNS: Manifest = {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}


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
    policies = []
    for task, neighbors in enumerate(deployment.graph.union.neighbors):
        lower = [str(other) for other in neighbors if other < task]
        higher = [str(other) for other in neighbors if other > task]
        ingress: list[Manifest] = [{"from": [_pods(labels, higher)], "ports": _PORTS}] if higher else []
        egress: list[Manifest] = [{"to": [_pods(labels, lower)], "ports": _PORTS}, _DNS] if lower else []
        own = {"matchLabels": labels | {INDEX: str(task)}}
        policies.append(_policy(f"{name}-peer-{task}", name, own, ingress=ingress, egress=egress))
    return policies


def _pods(labels: dict[str, str], tasks: list[str]) -> Manifest:
    among = {"key": INDEX, "operator": "In", "values": tasks}
    return {"podSelector": {"matchLabels": labels, "matchExpressions": [among]}}


# The result ---------------------------------------------------------------------------------------


def _collect(name: str, deployment: Deployment) -> Manifest:
    """A pod that merges what all nodes have written, says the result in its log, and stays for an hour to be copied
    from. It talks to nobody."""
    roles = ["reducer-*", "worker-*"] if deployment.graph is None else ["peer-*"]
    folders = " ".join(f"{HOME}/run/{role}" for role in roles)
    out = f"{HOME}/run/result"
    merge = [
        f"if [ -f {out}/summary.json ]; then exec drom-net show {out}; fi",
        f"rm -rf {out}",
        f"exec drom-net merge {folders} --out {out}",
    ]
    common: Manifest = {
        "image": "drom-net",
        "securityContext": _SECURITY,
        "volumeMounts": [{"name": "run", "mountPath": f"{HOME}/run"}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    merging = _needs(cpu=100, memory=256 * _MEBI, most=2048 * _MEBI)
    waiting = _needs(cpu=10, memory=16 * _MEBI, most=64 * _MEBI)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _about(f"{name}-collect", name, "collect"),
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": _POD_SECURITY,
            "initContainers": [{"name": "merge", "command": _shell(merge), "resources": merging} | common],
            "containers": [{"name": "result", "command": ["sleep", "3600"], "resources": waiting} | common],
            "volumes": [
                {"name": "run", "persistentVolumeClaim": {"claimName": f"{name}-run"}},
                {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            ],
        },
    }
