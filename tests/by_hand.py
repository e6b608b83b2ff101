"""Clusters that a test starts by hand: each node as if on a host of its own, and started again by the same command."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from processes import DEADLINE_S, Family, Told, wait_until

from drom_net.cluster.prepare import prepare
from drom_net.cluster.run import run_loop
from drom_net.config.load import load_config
from drom_net.data.datasets import load_dataset

ALGORITHMS = {"star": "{name: drom}", "ring": "{name: drom-d, tau: 2}\ntopology: {graph: ring}"}
QUICK = {
    "resend_after_s": 0.2,
    "resend_cap_s": 1.0,
    "heartbeat_s": 0.5,
    "duplicate_probe_s": 0.5,
    "stall_s": 1.0,
    "lost_s": DEADLINE_S,
}
"""A short time for whatever production gives longer ones; `lost_s` and `join_s` are long, so that slow is not lost."""


@functools.cache
def _ports() -> Iterator[int]:
    """Below those that the system gives to outgoing connections; another process of tests mostly has others."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = list(range(1024 + os.getpid() % 16, first, 16))
    random.Random().shuffle(ports)  # Hypothesis seeds the shared generator
    return itertools.cycle(ports)


def free_endpoints(count: int) -> list[str]:
    """TCP endpoints of this machine that are free, and that nobody else is given before they are used."""
    found: list[str] = []
    while len(found) < count:
        port = next(_ports())
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as libzmq does
            probe.bind(("127.0.0.1", port))
            found.append(f"tcp://127.0.0.1:{port}")
    return found


def free_endpoint() -> str:
    """One of them."""
    return free_endpoints(1)[0]


def start_star(processes: Family, config: Path, tasks: Sequence[object], *, out: str) -> list[subprocess.Popen[str]]:
    """The reducer, then the worker of each of these tasks, all with one run directory."""
    nodes = [("reducer",), *(("worker", "--task", str(task)) for task in tasks)]
    return [processes.start(role, str(config), *task, "--out", out) for role, *task in nodes]


def write_config(
    folder: Path,
    layout: str,
    *,
    tasks: int = 3,
    examples: int = 300,
    pace_s: float = 0.005,
    endpoints: Sequence[str] | None = None,
    timeouts: Mapping[str, float] | None = None,
    more: str = "",
) -> Path:
    """A small star or ring that takes at least `examples * pace_s` seconds.

    Args:
        endpoints: Where the reducer is reached, or each peer; by default at free ports of this machine. Empty for
            private sockets of `drom-net run`.
    """
    if endpoints is None:
        endpoints = free_endpoints(1 if layout == "star" else tasks)
    meet = f"reducer: {{endpoint: '{endpoints[0]}'}}\n" if endpoints and layout == "star" else ""
    if endpoints and layout == "ring":
        meet = f"peers: {{endpoints: [{', '.join(endpoints)}]}}\n"
    waits = ", ".join(f"{key}: {value}" for key, value in (QUICK | dict(timeouts or {})).items())
    path = folder / "cluster.yaml"
    path.write_text(
        f"algorithm: {ALGORITHMS[layout]}\n{meet}"
        f"data: {{dataset: synthetic, tasks: {tasks}, examples: {examples}, dim: 8, pace_s: {pace_s}}}\n"
        f"timeouts: {{{waits}}}\n"
        f"{more if 'checkpoint:' in more else 'checkpoint: {every_s: 0.1}' + chr(10) + more}"
    )
    return path


def digest_of_loop(path: Path) -> str:
    """What every undisturbed run of this configuration has."""
    config = load_config(path)
    return run_loop(prepare(config, load_dataset(config.data, base=config.base))).digest


@dataclass
class Node:
    """One node of a cluster by hand; `process` is the one that was started last."""

    name: str
    arguments: list[str]
    out: Path
    before: Sequence[str] = ()
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    told: Told = field(init=False)

    @property
    def process(self) -> subprocess.Popen[str]:
        return self.processes[-1]

    @property
    def folder(self) -> Path:
        return self.out / "nodes" / self.name

    @property
    def kept(self) -> int:
        """The round of its last snapshot; -1 without one."""
        return max((int(path.stem.partition("-")[2]) for path in self.folder.glob("snapshot-*.drom")), default=-1)

    def wait_for_snapshot(self, t: int = 1) -> None:
        """Wait until it has kept something of round t or later: it is in the middle of its run."""
        wait_until(lambda: self.kept >= t, f"no snapshot of {self.name} from round {t} on")

    def signal(self, number: int) -> float:
        """Send it; when that was."""
        now = time.monotonic()
        self.process.send_signal(number)
        return now

    def kill(self) -> float:
        """SIGKILL; when that was."""
        at = self.signal(signal.SIGKILL)
        self.process.wait(DEADLINE_S)
        return at

    def ends(self, code: int = 0) -> str:
        """Wait for its end, which must have this exit code; what it said."""
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended, it said:\n{self.told.text}") from None
        said = self.told.all_of_it()
        assert self.process.returncode == code, f"{self.name}: {self.process.returncode}\n{said}"
        assert "Traceback" not in said, said
        return said


class ByHand:
    """A star or ring of `config`, each node with an --out folder of its own, named after it."""

    def __init__(
        self,
        processes: Family,
        config: Path,
        *,
        before: Mapping[str, Sequence[str]] | None = None,
        bind: str | None = None,
    ) -> None:
        """
        Args:
            before: By node, the command that runs it on its host; without one it runs here.
            bind: Where reducer and peers listen, beyond loopback; by default as in the configuration.
        """
        self.processes = processes
        self.config = config
        settings = load_config(config)
        tasks = [f"task-{task:02d}" for task in range(1, settings.data.tasks + 1)]  # type: ignore[attr-defined]
        self.has_reducer = settings.topology is None
        self.names = ["reducer", *tasks] if self.has_reducer else tasks
        self.nodes: dict[str, Node] = {}
        for name in self.names:
            role = "reducer" if name == "reducer" else "worker" if self.has_reducer else "peer"
            out = processes.folder / f"out-{name}"
            which = [] if role == "reducer" else ["--task", name]
            listens = [] if bind is None or role == "worker" else ["--bind", bind, "--insecure"]
            arguments = [role, str(config), *which, *listens]
            self.nodes[name] = Node(name, arguments, out, (before or {}).get(name, ()))

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def start(self, *names: str) -> None:
        """Start these nodes, by default all: the first time or again, by the same command."""
        for name in names or self.names:
            node = self.nodes[name]
            process = self.processes.start(*node.arguments, "--out", str(node.out), before=node.before)
            node.processes.append(process)
            node.told = self.processes.watch(process)

    def start_to_the_middle(self) -> None:
        """Start all, and wait until each has kept a snapshot."""
        self.start()
        for node in self.nodes.values():
            node.wait_for_snapshot()

    def finish(self) -> None:
        """All come to their end, in the state of an undisturbed run."""
        for node in self.nodes.values():
            node.ends()
        assert self.merged_digest() == digest_of_loop(self.config)

    def replays(self) -> None:
        """All come to their end; the result can be computed again from what was noted of who was there when."""
        for node in self.nodes.values():
            node.ends()
        self.merged_digest()
        code, _, err = self.processes.run("replay", str(self.processes.folder / "merged"))
        assert code == 0, err

    def merged_digest(self) -> str:
        """Of what the nodes have left, put together."""
        merged = self.processes.folder / "merged"
        shutil.rmtree(merged, ignore_errors=True)
        folders = [str(node.out) for node in self.nodes.values()]
        code, out, err = self.processes.run("merge", *folders, "--out", str(merged), "--json")
        assert code == 0, err
        return str(json.loads(out)["digest"])
