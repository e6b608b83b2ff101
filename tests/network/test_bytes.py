"""What the plan says a run moves is what the network's interfaces count."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest
from processes import DEADLINE_S, Family, family

pytestmark = [pytest.mark.network, pytest.mark.process, pytest.mark.slow]

RING = "algorithm: {name: drom-d, tau: 5}\ntopology: {graph: ring}\n"
# Steps so large that sigma_1 is above 1 from the second round on: nearly every reply then is a whole vector.
STAR = "algorithm: {name: drom, eta0: 100}\nreducer: {endpoint: tcp://127.0.0.1:5571}\n"
DATA = "data: {dataset: synthetic, tasks: 4, examples: 500, dim: 1458}\n"

TCP_IP_BYTES = 20 + 20 + 12
"""Headers of a packet: IPv4, TCP, and TCP's timestamps. All that `lo` counts beside payload."""
ETHERNET_BYTES = 14
"""What any other interface counts as well."""
ZMTP_BYTES = 2 + 9
"""ZeroMQ's own headers of a message: a short frame and one of more than 255 bytes."""

COUNTED = 'ip link set lo up && "$@" >&2 && ip -s -j link show lo'
"""Run a command in a network of its own, and say what went over its loopback."""


@pytest.mark.usefixtures("may_make_networks")
@pytest.mark.parametrize("kind", ["ring", "star"])
def test_loopback_counts_what_the_plan_says(kind: str, tmp_path: Path) -> None:
    ports = ", ".join(f"tcp://127.0.0.1:{5581 + task}" for task in range(4))
    text = RING + f"peers: {{endpoints: [{ports}]}}\n" if kind == "ring" else STAR
    (tmp_path / "cluster.yaml").write_text(text + DATA)
    with family(tmp_path) as processes:
        planned = plan_of(processes)
        inside = ("unshare", "--net", "sh", "-c", COUNTED, "sh")
        run = processes.start("run", "cluster.yaml", "--out", "run", "--quiet", before=inside)
        out, err = run.communicate(timeout=DEADLINE_S)
        assert run.returncode == 0, err
        assert not processes.alive()
    counted = json.loads(out)[0]["stats64"]["rx"]
    assert_as_planned(planned, counted["bytes"], counted["packets"], TCP_IP_BYTES)


@pytest.mark.usefixtures("may_make_networks")
def test_the_interfaces_of_four_hosts_count_what_the_plan_says(netlab: ModuleType, tmp_path: Path) -> None:
    hosts = ["a", "b", "c", "d"]
    with ExitStack() as stack:
        lab = stack.enter_context(netlab.Lab(hosts))
        processes = stack.enter_context(family(tmp_path))
        endpoints = ", ".join(f"tcp://{lab.ip(host)}:5580" for host in hosts)
        (tmp_path / "cluster.yaml").write_text(RING + f"peers: {{endpoints: [{endpoints}]}}\n" + DATA)
        planned = plan_of(processes)
        peers = []
        for task, host in enumerate(hosts):
            inside = ("ip", "netns", "exec", lab.ns(host))
            arguments = ["cluster.yaml", "--task", str(task), "--insecure", "--out", "hand"]
            peers.append(processes.start("peer", *arguments, before=inside))
        errors = [peer.communicate(timeout=DEADLINE_S)[1] for peer in peers]
        assert [peer.returncode for peer in peers] == [0] * 4, errors
        sent = []
        for host in hosts:
            shown = lab.run(host, ["ip", "-s", "-j", "link", "show", "eth0"], timeout=DEADLINE_S)
            sent.append(json.loads(shown.stdout)[0]["stats64"]["tx"])
    wire, packets = (sum(one[what] for one in sent) for what in ("bytes", "packets"))
    assert_as_planned(planned, wire, packets, ETHERNET_BYTES + TCP_IP_BYTES)


def plan_of(processes: Family) -> dict[str, int]:
    code, out, err = processes.run("check", "cluster.yaml", "--json")
    assert code == 0, err
    found: dict[str, int] = json.loads(out)
    return found


def assert_as_planned(planned: dict[str, int], wire: int, packets: int, packet_bytes: int) -> None:
    """Both differ by 3 % at the most, once the headers of packets and of ZeroMQ's frames are taken off.

    What is left on the wire beside messages is small: handshakes, heartbeats, a packet's rarer options.
    """
    expected = planned["bytes_in_all"]
    messages = expected // (planned["pull_bytes"] or planned["push_bytes"])
    payload = wire - packets * packet_bytes - messages * ZMTP_BYTES
    told = (
        f"{wire} bytes in {packets} packets on the wire; without {packets} x {packet_bytes} of packet headers and "
        f"{messages} x {ZMTP_BYTES} of frame headers {payload}; planned {expected}: {payload / expected - 1:+.2%}"
    )
    print(told)
    assert abs(payload / expected - 1) <= 0.03, told
