"""An export for Kubernetes: Jobs that end by themselves, for `kubectl apply --server-side -k DIR`.

Every node is a Job of one pod, with its own host name, key, data and folder: they are the same when the pod is made
again, on whatever machine. A StatefulSet would keep them as well, but it starts again whatever has finished, for ever.
The nodes' folders are on one volume, of which each pod sees its own sub-folder alone; so it is with data files.

No manifest has a secret key in it: kustomize makes a Secret for each node of the files in keys/. An init container
copies it into memory, with the mode that our key reader wants and that a mounted Secret beside an fsGroup has not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from drom_net import __version__
from drom_net.config.model import ClusterConfig, PeerSettings, ReducerSettings
from drom_net.core.errors import ConfigError, Problem
from drom_net.deploy.deployment import PORT, Deployment, no_meeting_place, no_peers
from drom_net.deploy.kubernetes_network import (
    OUTSIDE,
    nobody_else,
    outside_policy,
    outside_service,
    peer_policies,
    service_of,
    star_policies,
)
from drom_net.deploy.kubernetes_pods import collecting_pod, pod_of, volume_of
from drom_net.deploy.manifests import (
    APPLICATIONS,
    LONGEST_HOST,
    LONGEST_NAME,
    Manifest,
    Node,
    Site,
    about_of,
    as_yaml,
    labels_of,
    nodes_of,
    secret_of,
)
from drom_net.deploy.portable import (
    FILE_LIMIT_BYTES,
    KEYS,
    at_places,
    host_name,
    portable_files,
)
from drom_net.transport.keys import PUBLIC_LIST

_PLACES = """\
# Where all of it goes, and where the machines get the image from; the manifests and collect/ share this.
#namespace: NAME
"""
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

PATIENCE_S = 600.0
"""How long pods wait for each other at the least: one that is made again pulls an image, and may be put off."""
RETRIES = 6
"""How often the pod of a node may fail."""
_HEAD = "The cluster as its pods read it; `drom-net keys create` and `drom-net check` take it, too."
_SETTINGS = "settings"
"""The folder with what the manifests and the collecting pod share: namespace, and the image's place."""


def render(deployment: Deployment) -> Mapping[str, str]:
    """The cluster's file and the manifests; collect/ is for when the Jobs are complete, as wait.sh tells.

    Raises:
        ConfigError: What belongs into the ConfigMap is larger than one can be.
    """
    config, star = deployment.config, deployment.graph is None
    site = Site(host_name(config.name, longest=LONGEST_NAME), deployment)
    name, nodes = site.name, nodes_of(deployment)
    endpoints = tuple(f"tcp://{node.host}.{name}:{PORT}" for node in nodes)
    if star:
        places = at_places(config, reducer=ReducerSettings(endpoint=endpoints[0]), bind=APPLICATIONS)
    else:
        places = at_places(config, peers=PeerSettings(endpoints=endpoints), bind=APPLICATIONS)
    mounted = portable_files(deployment, patient(places), head=_HEAD)
    roles = dict.fromkeys(node.role for node in nodes)
    manifests = {
        "service.yaml": as_yaml([service_of(name)]),
        "volume.yaml": volume_of(site, len(deployment.tasks)),
        **{f"{role}.yaml": as_yaml(_job(site, node) for node in nodes if node.role == role) for role in roles},
        "network.yaml": as_yaml(
            [nobody_else(name), *(star_policies(name) if star else peer_policies(name, deployment))]
        ),
    }
    folders = [f"{role}-*" for role in roles]
    return _with_kustomizations(site, nodes, mounted, manifests, collecting_pod(site, folders))


def render_site(deployment: Deployment, name: str) -> Mapping[str, str]:
    """The files of one node in a Kubernetes of its own, which the others reach where the configuration says.

    Args:
        name: As in `deployment.nodes`.

    Raises:
        ConfigError: The file does not say where the nodes meet; as `render`.
    """
    config, star = deployment.config, deployment.graph is None
    (node,) = (node for node in nodes_of(deployment) if node.name == name)
    # Of a star there is one place to connect to; of a graph one for each task.
    endpoints = (config.reducer.endpoint,) if star else config.peers.endpoints
    if endpoints is None:
        raise no_peers(config)
    if None in endpoints:
        raise no_meeting_place(config)
    ports = [int(str(endpoint).rpartition(":")[2]) for endpoint in endpoints]
    site = Site(site_name(config.name, name), deployment, alone=True)
    places = at_places(config, reducer=config.reducer, peers=config.peers, bind=APPLICATIONS)
    mounted = portable_files(deployment, patient(places), head=_HEAD)
    graph = deployment.graph
    others = [] if node.task < 0 else [0]
    if graph is not None:
        others = [other for other in graph.union.neighbors[node.task] if other < node.task]
    manifests = {
        "volume.yaml": volume_of(site, 1),
        f"{node.role}.yaml": as_yaml([_job(site, node)]),
        "network.yaml": as_yaml(
            [nobody_else(site.name), outside_policy(site.name, node, sorted({ports[at] for at in others}))]
        ),
    }
    if node.role != "worker":
        manifests["service.yaml"] = OUTSIDE + as_yaml([outside_service(site.name, node.role, ports[max(node.task, 0)])])
    return _with_kustomizations(site, [node], mounted, manifests, collecting_pod(site, []))


def site_name(cluster: str, node: str) -> str:
    """What the Job and all else of `render_site` are called."""
    return f"{host_name(cluster, longest=LONGEST_NAME)}-{host_name(node, longest=LONGEST_HOST)}"


def patient(config: ClusterConfig) -> ClusterConfig:
    """With waits that are long enough for pods; those of a policy that goes on without are as they were."""
    if config.policy.proceeds:
        return config
    waits = {key: max(PATIENCE_S, getattr(config.timeouts, key)) for key in ("join_s", "lost_s")}
    return dataclasses.replace(config, timeouts=dataclasses.replace(config.timeouts, **waits))


def _with_kustomizations(
    site: Site, nodes: Sequence[Node], mounted: Mapping[str, str], manifests: Mapping[str, str], collect: Manifest
) -> Mapping[str, str]:
    config, name = site.deployment.config, site.name
    size = sum(len(text.encode()) for text in mounted.values())
    if size > FILE_LIMIT_BYTES:
        expected = f"a configuration of at most {FILE_LIMIT_BYTES:,} bytes, which is what a ConfigMap holds"
        raise ConfigError([Problem(str(config.path), expected, f"{size:,} bytes", "fewer tasks, or shorter names")])
    secrets = [
        {"name": secret_of(site, node), "files": [f"{KEYS}/{file}" for file in (PUBLIC_LIST, f"{node.name}.secret")]}
        for node in nodes
    ]
    main = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "components": [_SETTINGS],
        "resources": list(manifests),
        "configMapGenerator": [{"name": name, "files": list(mounted)}],
        "secretGenerator": secrets,
        "generatorOptions": {"disableNameSuffixHash": True, "labels": labels_of(name)},
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
        "kustomization.yaml": as_yaml([main]),
        f"{_SETTINGS}/kustomization.yaml": _PLACES + as_yaml([_IMAGES]),
        "collect/kustomization.yaml": as_yaml([collecting]),
        "collect/pod.yaml": as_yaml([collect]),
        "wait.sh": _WAIT.replace("@ENOUGH@", ' && [ "$ended" = "$all" ]' if proceeds else ""),
    }


_IMAGES: Manifest = {
    "apiVersion": "kustomize.config.k8s.io/v1alpha1",
    "kind": "Component",
    "images": [{"name": "drom-net", "newName": "drom-net", "newTag": __version__}],
}


# Pods ---------------------------------------------------------------------------------------------


def _job(site: Site, node: Node) -> Manifest:
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
        "template": {"metadata": {"labels": labels_of(site.name, node.role, node.host)}, "spec": pod_of(site, node)},
    }
    about = about_of(name, site.name, node.role, node.host)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "spec": spec}
