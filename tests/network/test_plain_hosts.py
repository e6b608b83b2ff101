"""The plain way, as docs/deploy.md has it: a node on each host by `drom-net reducer`, `worker` or `peer`, with keys.

One file that names the hosts is the same everywhere; what differs from host to host is in its environment.
"""

from __future__ import annotations

import json
import random
import shutil
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest
from by_hand import digest_of_loop
from processes import DEADLINE_S, family

pytestmark = [pytest.mark.network, pytest.mark.process, pytest.mark.slow, pytest.mark.usefixtures("may_make_networks")]

HOSTS = {"reducer": "The_Hub", "North": "north_1.Site-A", "south_2": "SOUTH_2.site_b", "Harbor-3": "harbor_3.Site-C"}
"""Node -> what its host is called."""
COMMON = """\
data: {files: "{task}.csv", tasks: [North, south_2, Harbor-3], columns: {a: number, b: number}, label: good}
security: {keys: keys}
checkpoint: {every_s: 0.2}
timeouts: {join_s: 600}
"""
STAR = "algorithm: {name: drom}\nreducer: {endpoint: 'tcp://The_Hub:5571'}\n"
RING = """\
algorithm: {name: drom-d, tau: 2}
topology: {graph: ring}
peers: {endpoints: ['tcp://north_1.Site-A:5571', 'tcp://SOUTH_2.site_b:5571', 'tcp://harbor_3.Site-C:5571']}
"""


@pytest.mark.parametrize("layout", ["star", "ring"])
@pytest.mark.parametrize(("addresses", "seed"), [("ipv4", 1), ("ipv6", 2), ("ipv6 literals", 3)])
def test_hosts_with_keys_started_in_any_order(
    addresses: str, seed: int, layout: str, netlab: ModuleType, tmp_path: Path
) -> None:
    nodes = [node for node in HOSTS if layout == "star" or node != "reducer"]
    with ExitStack() as stack:
        lab = stack.enter_context(netlab.Lab(nodes))
        at = {node: lab.ip(node) for node in nodes}
        if addresses != "ipv4":
            at = {node: f"fd00:77::{number}" for number, node in enumerate(nodes, start=1)}
            for node in nodes:
                turn_to_ipv6(lab, node, at[node])
        known = "".join(f"{at[node]} {HOSTS[node]}\n" for node in nodes)
        (tmp_path / "hosts").write_text(f"127.0.0.1 localhost\n{known}")
        text = (STAR if layout == "star" else RING) + COMMON
        if addresses == "ipv6 literals":
            for node in nodes:
                text = text.replace(f"{HOSTS[node]}:", f"[{at[node]}]:")
        processes = stack.enter_context(family(tmp_path))
        prepare(tmp_path, text)
        code, _, err = processes.run("keys", "create", "cluster.yaml")
        assert code == 0, err
        order = random.Random(seed).sample(nodes, len(nodes))
        started = {}
        for node in order:
            home = tmp_path / f"host-{node}"
            bring(tmp_path, home, node)
            script = f'mount --bind "{tmp_path}/hosts" /etc/hosts && cd "{home}" && exec "$@"'
            inside = ("ip", "netns", "exec", lab.ns(node), "sh", "-c", script, "sh")
            everywhere = "0.0.0.0" if addresses == "ipv4" else "[::]"
            role = "reducer" if node == "reducer" else "worker" if layout == "star" else "peer"
            environment = {
                "DROM_NET_CONFIG": "cluster.yaml",
                "DROM_NET_BIND": f"tcp://{everywhere}:5571",
                "DROM_NET_OUT": "run",
                "DROM_NET_KEYS": str(home / "keys"),
                "DROM_NET_LOG_FORMAT": "json",
                "DROM_NET_METRICS": "127.0.0.1:9100",
            }
            if node != "reducer":
                environment["DROM_NET_TASK"] = node
            started[node] = processes.start(role, environment=environment, before=inside)
            processes.watch(started[node]).when("metrics_served")  # it is up before the next one comes
        for node, process in started.items():
            assert process.wait(DEADLINE_S) == 0, f"started in the order {order}, {node} has ended with another code"
        folders = [str(tmp_path / f"host-{node}" / "run") for node in nodes]
        code, out, err = processes.run("merge", *folders, "--out", "all", "--json")
        assert code == 0, err
    assert json.loads(out)["digest"] == digest_of_loop(tmp_path / "cluster.yaml")


def turn_to_ipv6(lab: ModuleType, node: str, address: str) -> None:
    """The host has this address and no other."""
    commands = (
        "echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && ip -4 addr flush dev eth0 && "
        f"ip -6 addr add {address}/64 dev eth0 nodad"
    )
    done = lab.run(node, ["sh", "-c", commands], timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr


def prepare(folder: Path, text: str) -> None:
    """The file, and the data of all sites."""
    (folder / "cluster.yaml").write_text(text)
    drawn = random.Random(7)
    for node in sorted(HOSTS.keys() - {"reducer"}):
        rows = [(drawn.gauss(0.0, 1.0), drawn.gauss(0.0, 1.0)) for _ in range(120)]
        lines = [f"{a:.3f},{b:.3f},{int(a + 0.3 * b > 0)}\n" for a, b in rows]
        (folder / f"{node}.csv").write_text("a,b,good\n" + "".join(lines))


def bring(source: Path, home: Path, node: str) -> None:
    """A host's own files: the cluster's file, the list of keys, its own secret, its own examples."""
    (home / "keys").mkdir(parents=True)
    shutil.copy(source / "cluster.yaml", home)
    for name in ("public.keys", f"{node}.secret"):
        shutil.copy(source / "keys" / name, home / "keys")
    if node != "reducer":
        shutil.copy(source / f"{node}.csv", home)
