"""Services and network policies: who may speak to whom."""

from __future__ import annotations

from collections.abc import Sequence

from drom_net.deploy.deployment import PORT, Deployment
from drom_net.deploy.manifests import NODE, Manifest, Node, about_of, labels_of, nodes_of

OUTSIDE = """\
# Where the other sites reach this node. Its address from outside has to be the one that cluster.yaml says.
# Without a load balancer: "type: NodePort", with "nodePort: 30571" beside "port"; then the endpoint in cluster.yaml of
# all sites is a machine of this Kubernetes, at port 30571.
"""
_DNS: Manifest = {
    "to": [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        }
    ],
    "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
}


def service_of(name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": about_of(name, name),
        "spec": {
            "clusterIP": "None",
            # Nodes look for each other before any of them is ready.
            "publishNotReadyAddresses": True,
            "selector": labels_of(name),
            "ports": [{"name": "drom-net", "port": PORT}],
        },
    }


def outside_service(name: str, role: str, port: int) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": about_of(name, name),
        "spec": {
            "type": "LoadBalancer",
            "publishNotReadyAddresses": True,
            "selector": labels_of(name, role),
            "ports": [{"name": "drom-net", "port": port, "targetPort": PORT}],
        },
    }


# Who may talk to whom -----------------------------------------------------------------------------

_PORTS: list[Manifest] = [{"protocol": "TCP", "port": PORT}]


def _policy(
    name: str, cluster: str, selector: Manifest, *, ingress: list[Manifest], egress: list[Manifest]
) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": about_of(name, cluster),
        "spec": {
            "podSelector": selector,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }


def nobody_else(name: str) -> Manifest:
    """What no other policy allows is forbidden to all pods of the cluster."""
    return _policy(f"{name}-nobody", name, {"matchLabels": labels_of(name)}, ingress=[], egress=[])


def star_policies(name: str) -> list[Manifest]:
    """A worker connects to the reducer, which connects to nobody."""
    reducer, worker = ({"matchLabels": labels_of(name, role)} for role in ("reducer", "worker"))
    from_workers: Manifest = {"from": [{"podSelector": worker}], "ports": _PORTS}
    to_reducer: Manifest = {"to": [{"podSelector": reducer}], "ports": _PORTS}
    return [
        _policy(f"{name}-reducer", name, reducer, ingress=[from_workers], egress=[]),
        _policy(f"{name}-worker", name, worker, ingress=[], egress=[to_reducer, _DNS]),
    ]


def peer_policies(name: str, deployment: Deployment) -> list[Manifest]:
    """A peer connects to its neighbors of smaller numbers, and those of larger ones connect to it."""
    assert deployment.graph is not None
    labels = labels_of(name, "peer")
    hosts = [node.host for node in nodes_of(deployment)]
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


def outside_policy(name: str, node: Node, ports: Sequence[int]) -> Manifest:
    """Of a node whose others are elsewhere: by ports alone, for nobody knows their addresses here."""
    ingress: list[Manifest] = [{"ports": _PORTS}] if node.role != "worker" else []
    egress: list[Manifest] = [{"ports": [{"protocol": "TCP", "port": port} for port in ports]}, _DNS] if ports else []
    own = {"matchLabels": labels_of(name, node.role)}
    return _policy(f"{name}-{node.role}", name, own, ingress=ingress, egress=egress)
