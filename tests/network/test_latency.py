"""Hosts that are 20 ms apart: what a delayed exchange hides of it, and blocking does not."""

from __future__ import annotations

import csv
import itertools
import json
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from processes import DEADLINE_S, family

pytestmark = [pytest.mark.network, pytest.mark.process, pytest.mark.slow]

HOSTS = ("a", "b", "c", "d")
LATENCY_MS = 20


@pytest.mark.usefixtures("may_make_networks")
def test_delayed_with_tau_20_waits_for_less_than_5_percent_of_its_time(netlab: ModuleType, tmp_path: Path) -> None:
    """Issue, "must show" 6: a local round of 5 ms, 20 ms one way."""
    delayed = run_on_four_hosts(netlab, tmp_path / "delayed", tau=20, exchange="delayed", examples=2000)
    blocking = run_on_four_hosts(netlab, tmp_path / "blocking", tau=1, exchange="blocking", examples=400)
    told = f"waiting: tau = 20 delayed {delayed:.1%}, tau = 1 blocking {blocking:.1%}"
    print(told)
    assert delayed < 0.05, told
    assert blocking > 0.6, told  # 20 of 25 ms where nothing else takes time


def run_on_four_hosts(netlab: ModuleType, folder: Path, *, tau: int, exchange: str, examples: int) -> float:
    """The share of their time that four peers by hand wait once all are there; their digest is the plain loop's."""
    folder.mkdir()
    with ExitStack() as stack:
        lab = stack.enter_context(netlab.Lab(list(HOSTS)))
        lab.all_links(delay_ms=LATENCY_MS)
        processes = stack.enter_context(family(folder))
        endpoints = ", ".join(f"tcp://{lab.ip(host)}:5580" for host in HOSTS)
        (folder / "cluster.yaml").write_text(
            f"algorithm: {{name: drom-d, tau: {tau}, exchange: {exchange}}}\n"
            f"topology: {{graph: ring}}\npeers: {{endpoints: [{endpoints}]}}\n"
            f"data: {{dataset: synthetic, tasks: 4, examples: {examples}, dim: 100, pace_s: 0.005}}\n"
        )
        peers = [
            processes.start(
                *("peer", "cluster.yaml", "--task", str(task), "--insecure", "--out", "hand"),
                before=("ip", "netns", "exec", lab.ns(host)),
            )
            for task, host in enumerate(HOSTS)
        ]
        errors = [peer.communicate(timeout=DEADLINE_S)[1] for peer in peers]
        assert [peer.returncode for peer in peers] == [0] * 4, errors
        merged = call(processes, "merge", "hand", "--json")
        loop = call(processes, "run", "cluster.yaml", "--driver", "reference", "--out", "loop", "--json")
        assert merged["digest"] == loop["digest"]
    return waiting_share(folder / "hand" / "timeline.csv")


def waiting_share(timeline: Path) -> float:
    """Of the time since the last of all has joined: they are not started at the same time."""
    lanes: dict[str, list[tuple[float, float]]] = {}
    with timeline.open(newline="") as file:
        for row in csv.DictReader(file):
            lanes.setdefault(row["task"], []).append((float(row["idle_s"]), float(row["closed_s"])))
    all_joined_s = max(rows[0][1] for rows in lanes.values())  # the first row is of round 0
    waited_s = learned_s = 0.0
    for rows in lanes.values():
        for (_, begun_s), (idle_s, closed_s) in itertools.pairwise(rows):
            if begun_s >= all_joined_s:
                waited_s += closed_s - idle_s
                learned_s += closed_s - begun_s
    return waited_s / learned_s


def call(processes: Any, *arguments: str) -> dict[str, Any]:
    code, out, err = processes.run(*arguments)
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found
