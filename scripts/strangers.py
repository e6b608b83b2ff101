"""Real runs whose ports strangers attack: each must end with the bits of the plain loop, its processes as they were.

    scripts/strangers                      a million bad messages to each target: the reducer of a star, a peer of a
                                           ring, a site's socket for applications, a page of metrics
    scripts/strangers --target star --messages 20000

Strangers know all but the keys: the address, the configuration, the run's id and what its members say. They send bytes
that are no ZMTP, handshakes that are none, frames that no message has, messages that are nearly right, and what was
really said, from other connections and in another order; as fast as it goes, and they read no answers. Whoever reaches
a socket for applications that has no keys may teach its site: there they ask for predictions, small and large, and send
requests that are none. To a page of metrics they send bad HTTP, and good, a connection each.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import multiprocessing.connection
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, Self

import click
import msgpack
import numpy as np
from siege import EDGES, RAW, Drawn, Frames, another_life, damaged
from soak import look_at

from drom_net.client import WIRE_VERSION, Site
from drom_net.cluster.prepare import Prepared, prepare
from drom_net.cluster.run import run_loop
from drom_net.cluster.simulate import Conditions, build_simulator
from drom_net.config.load import load_config
from drom_net.data.datasets import load_dataset
from drom_net.protocol.codec import HEADER_LIMIT_BYTES
from drom_net.results.run_directory import node_folder
from drom_net.storage.journal import FOLDER, ExampleJournal

CONFIG = """
name: strangers-{layout}
algorithm: {algorithm}
{where}
data: {{dataset: synthetic, tasks: 4, examples: {examples}, dim: 64, flip: 0.1, pace_s: {pace_s}}}
timeouts: {{join_s: 60.0, lost_s: 60.0, linger_s: 20.0}}
"""
LAYOUTS = {"star": "{name: drom}", "ring": "{name: drom-d, tau: 1}\ntopology: {graph: ring}"}
LIVE_CONFIG = """
name: strangers-application
algorithm: {{name: drom}}
reducer: {{endpoint: '{reducer}'}}
data: {{dataset: live, tasks: [site], dim: 64, normalize: false}}
source: {{bind: '{application}', keep: all}}
checkpoint: {{every_s: 2}}
timeouts: {{join_s: 60.0, lost_s: 60.0, linger_s: 20.0}}
"""
TARGETS = (*LAYOUTS, "application", "metrics")
_PACE_S = 0.01
_MESSAGES_PER_S = {"star": 2500, "ring": 2500, "metrics": 100}
"""A run lasts as long as this rate needs, and half as long again."""
_AT_LEAST_S = {"star": 15.0, "ring": 15.0, "metrics": 30.0}
_SHORT = [frame for frame in RAW if len(frame) <= HEADER_LIMIT_BYTES]
_LINES = 6
_SLOW = 20
_ENDLESS_BYTES = 256 * 1024
_DEADLINE_S = 120.0
_SAMPLE_S = 0.2
_RECORDED_EVENTS = 5000
_LONG = 100_000
_GROWTH_MIB = 8
_MOST_MIB = 256
_MOST_LOG_BYTES = 64 * 1024


# What they send


def _frame(body: bytes, flags: int = 0) -> bytes:
    if len(body) > 255:
        return bytes([flags | 2]) + len(body).to_bytes(8, "big") + body
    return bytes([flags, len(body)]) + body


def message(frames: Frames) -> bytes:
    return b"".join(_frame(body, int(place < len(frames) - 1)) for place, body in enumerate(frames))


def greeting(version: bytes = b"\3\1", mechanism: bytes = b"NULL") -> bytes:
    return b"\xff" + bytes(8) + b"\x7f" + version + mechanism.ljust(20, b"\0") + bytes(32)


def ready(routing_id: bytes, kind: bytes = b"DEALER") -> bytes:
    pairs = {b"Socket-Type": kind, b"Identity": routing_id}
    body = b"".join(bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value for name, value in pairs.items())
    return _frame(b"\5READY" + body, 4)


class Stranger:
    """One attacking process: some connections that speak ZMTP, some that are slow, and many that are neither."""

    def __init__(self, port: int, recorded: list[Frames], names: list[bytes], seed: int) -> None:
        """
        Args:
            recorded: What members say, in its order.
            names: Routing ids that others might have.
        """
        self.sent: Counter[str] = Counter()
        self._port = port
        self._recorded = recorded
        self._hellos = [frames for frames in recorded if frames[0][1] == 0]
        self._names = names
        self._random = Random(seed)
        self._draw = Drawn(self._random)
        self._lines: list[socket.socket | None] = [None] * _LINES
        self._slow: list[socket.socket | None] = [None] * _SLOW
        self._without_end: list[socket.socket | None] = [None] * _LINES
        self._messages: dict[str, Callable[[], bytes]] = {
            "messages that are nearly right": self._nearly_right,
            "what members said, again and in another order": lambda: message(self._any()),
            "a Hello of another run, version, configuration or life": self._hello,
            "random frames": self._random_frames,
            "many frames, or empty ones": self._many_frames,
            "pings": self._ping,
            "no header": lambda: message([self._random.choice(_SHORT)]),
        }
        self._weights = (38, 20, 10, 10, 5, 5, 10)
        self._connections: dict[str, Callable[[], None]] = {
            "connections opened and closed": lambda: self._once(b""),
            "no ZMTP": lambda: self._once(RAW[self._pick(len(RAW))] + self._random.randbytes(self._pick(200))),
            "half a handshake": lambda: self._once((greeting() + ready(b"x"))[: self._pick(100)]),
            "another ZMTP version or mechanism": self._other_version,
            "frames above the limit": self._too_large,
            "ZMTP commands that are none": self._bad_command,
            "messages without an end": self._endless,
            "a routing id of others": self._other_routing_id,
            "slow connections": self._a_byte,
        }

    def attack(self, messages: int) -> None:
        """Send so many; ends early where nobody listens any more."""
        batch = max(1, min(200, messages // (2 * len(self._connections))))
        with contextlib.suppress(ConnectionRefusedError):
            for name in itertools.cycle(self._connections):
                self._batch(batch)
                self._connections[name]()
                self.sent[name] += 1
                if self.sent.total() >= messages:
                    break
        for line in (*self._lines, *self._slow, *self._without_end):
            if line is not None:
                line.close()

    def _pick(self, count: int) -> int:
        return self._draw.pick(count)

    def _any(self) -> Frames:
        return self._recorded[self._pick(len(self._recorded))]

    def _open(self) -> socket.socket:
        line = socket.create_connection(("127.0.0.1", self._port), timeout=_DEADLINE_S)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return line

    def _speak(self, *, kind: bytes = b"DEALER", routing_id: bytes | None = None) -> socket.socket:
        """A connection after its handshake."""
        line = self._open()
        line.sendall(greeting() + ready(self._random.randbytes(8) if routing_id is None else routing_id, kind))
        return line

    def _batch(self, count: int) -> None:
        """Messages on one connection, which the other side may have closed."""
        chosen = self._random.choices(tuple(self._messages), self._weights, k=count)
        data = b"".join([self._messages[name]() for name in chosen])
        kind = self._random.choice((b"DEALER", b"ROUTER", b"REQ"))
        if self._go_on(self._lines, lambda: self._speak(kind=kind), data):
            self.sent.update(chosen)

    def _nearly_right(self) -> bytes:
        return message([frame[:HEADER_LIMIT_BYTES] for frame in damaged(self._any(), self._draw)] or [b""])

    def _hello(self) -> bytes:
        frames = self._random.choice(self._hellos)
        what = self._pick(6)
        if what < 2:
            return message(another_life(frames, self._draw))
        fields = msgpack.unpackb(frames[0])
        place, value = ((1, 2), (2, "another run"), (4, "0" * 64), (5, 65))[what - 2]
        fields[place] = value
        return message([msgpack.packb(fields)])

    def _random_frames(self) -> bytes:
        return message([self._random.randbytes(self._pick(80)) for _ in range(self._pick(5) + 1)])

    def _many_frames(self) -> bytes:
        count = self._random.choice((2, 5, 20, 200, 5000) if self._pick(20) == 0 else (2, 5, 20))
        body = self._random.choice((b"", b"", self._any()[0], bytes(512)))
        return message([body] * count)

    def _ping(self) -> bytes:
        return _frame(b"\4PING\0\1" + self._random.randbytes(self._pick(17)), 4)

    def _bad_command(self) -> None:
        """A listener that gets one closes the connection."""
        name = self._random.choice((b"PING", b"READY", b"SUBSCRIBE", b"ERROR", b"UNKNOWN", b""))
        size = self._random.choice((len(name), 0, 255))
        with contextlib.suppress(ConnectionResetError, BrokenPipeError), self._speak() as line:
            line.sendall(_frame(bytes([size]) + name + bytes(self._pick(300)), 4))

    def _once(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError), self._open() as line:
            line.sendall(data)

    def _other_version(self) -> None:
        said = message(self._any())
        first = self._random.choice(
            (
                greeting(b"\0\0"),
                greeting(b"\xff\xff"),
                greeting(mechanism=b"CURVE"),
                greeting(mechanism=b"PLAIN") + _frame(b"\5HELLO\1x\1x", 4),
                greeting(mechanism=b"\xff" * 20),
                b"\xff" + bytes(8) + b"\x7f\1\5" + _frame(b"old") + said,  # ZMTP 2
                b"\4\0old" + b"".join(bytes([1 + len(body), 0]) + body for body in self._any() if len(body) < 250),  # 1
            )
        )
        self._once(first + said)

    def _too_large(self) -> None:
        size = self._random.choice((4097, 100_000, 2**31, 2**40, 2**63, 2**64 - 1))
        with contextlib.suppress(ConnectionResetError, BrokenPipeError), self._speak() as line:
            line.sendall(b"\2" + size.to_bytes(8, "big") + bytes(min(size, 100_000)))

    def _endless(self) -> None:
        """More frames of a message whose last one never comes: a listener cannot give them to anybody."""
        body = self._random.choice((b"", b"", bytes(200), bytes(4000)))
        data = _frame(body, 1) * (_ENDLESS_BYTES // (len(body) + 2))
        self._go_on(self._without_end, self._speak, data)

    def _other_routing_id(self) -> None:
        routing_id = self._random.choice((*self._names, b"", b"\0" * 5, b"\xff" * 255))
        with contextlib.suppress(ConnectionResetError, BrokenPipeError), self._speak(routing_id=routing_id) as line:
            line.sendall(b"".join(message(self._any()) for _ in range(20)))

    def _a_byte(self) -> None:
        """One more byte of a handshake that is never done."""
        self._go_on(self._slow, self._open, greeting()[:1])

    def _go_on(self, lines: list[socket.socket | None], begin: Callable[[], socket.socket], data: bytes) -> bool:
        """Send on one of these connections; where the other side has closed it, it is begun again next time."""
        place = self._pick(len(lines))
        try:
            line = lines[place]
            if line is None:
                line = lines[place] = begin()
            line.sendall(data)
        except (ConnectionResetError, BrokenPipeError):
            if line is not None:
                line.close()
            lines[place] = None
            return False
        return True


class Application(Stranger):
    """An application that nobody has asked for."""

    def __init__(self, port: int, recorded: list[Frames], names: list[bytes], seed: int) -> None:
        super().__init__(port, recorded, names, seed)
        self._messages = {
            "requests that are nearly right": lambda: message(damaged(self._any(), self._draw) or [b""]),
            "requests that are right, again and in another order": lambda: message(self._any()),
            "requests with a field that is wrong": self._wrong_field,
            "random frames": self._random_frames,
            "many frames, or empty ones": self._many_frames,
            "pings": self._ping,
            "no request": lambda: message([self._random.choice(RAW)]),
        }

    def _wrong_field(self) -> bytes:
        request = msgpack.unpackb(self._any()[0])
        request[self._random.choice(list(request))] = EDGES[self._pick(len(EDGES))]
        return message([msgpack.packb(request)])


def _requests() -> list[Frames]:
    """What applications say that changes nothing: predictions, labels of no prediction, rows of nobody, questions."""
    rows = [[float(place == number) for place in range(64)] for number in range(3)]
    nobody = {"client": bytes(16), "number": 1, "labels": [1]}
    said: list[dict[str, Any]] = [
        *({"do": "predict", "rows": rows[:count]} for count in (1, 2, 3)),
        {"do": "predict", "rows": bytes(64 * 8 * 200)},
        {"do": "label", "tickets": [2**62]} | nobody,
        {"do": "learn", "rows": rows[:1], "labels": [1]},
        {"do": "status"},
    ]
    return [[msgpack.packb(request | {"version": WIRE_VERSION, "id": number})] for number, request in enumerate(said)]


class Visitor(Stranger):
    """Of a page of metrics."""

    def attack(self, messages: int) -> None:
        kinds = {
            "the page, which is read": self._read,
            "the page, which is not read": lambda: self._once(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
            "other pages, methods and versions": self._other,
            "no HTTP": lambda: self._once(self._random.choice(RAW) + self._random.randbytes(self._pick(200))),
            "headers without an end": self._endless_headers,
            "connections opened and closed": lambda: self._once(b""),
            "a byte of a request that is never done": lambda: self._go_on(self._slow, self._open, b"G"),
        }
        with contextlib.suppress(ConnectionRefusedError):
            for name in itertools.cycle(kinds):
                with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                    kinds[name]()
                self.sent[name] += 1
                if self.sent.total() >= messages:
                    break

    def _read(self) -> None:
        with self._open() as line:
            line.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            while line.recv(65536):
                pass

    def _other(self) -> None:
        words = (b"GET", b"POST", b"PUT", b"x" * 500, b""), (b"/", b"/metrics?name[]=x", b"/" + b"a" * 3000, b"*", b"")
        method, page = (self._random.choice(some) for some in words)
        version = self._random.choice((b"HTTP/1.1", b"HTTP/0.9", b"HTTP/9.9", b"HTTP/x", b""))
        self._once(method + b" " + page + b" " + version + b"\r\nContent-Length: 99999999999\r\n\r\n")

    def _endless_headers(self) -> None:
        line = self._random.choice((b"x: y\r\n" * 1000, b"x" * 100_000))
        self._once(b"GET /metrics HTTP/1.1\r\n" + line)


_STRANGERS = {"application": Application, "metrics": Visitor}


def _attack(
    target: str, port: int, recorded: list[Frames], names: list[bytes], seed: int, messages: int, told: Any
) -> None:
    os.nice(10)
    stranger = _STRANGERS.get(target, Stranger)(port, recorded, names, seed)
    stranger.attack(messages)
    told.send(dict(stranger.sent))


# The run that is attacked


@dataclass
class Watched:
    """A process over time."""

    pid: int
    at_s: list[float] = field(default_factory=list)
    own_kib: list[int] = field(default_factory=list)
    """Memory that is of no file: a task maps its examples, and has more of them in memory the more it has learned."""
    descriptors: int = 0

    def look(self) -> bool:
        """Whether it is still there."""
        sample = look_at(self.pid, time.monotonic())
        if sample is None:
            return False
        self.own_kib.append(sample.anonymous // 1024)
        self.at_s.append(sample.seconds)
        self.descriptors = sample.descriptors
        return True


@dataclass(frozen=True, slots=True)
class Attacked:
    """What became of a run that was attacked."""

    sent: dict[str, int]
    attack_s: float
    rounds: int
    digest: str
    expected: str
    refused: int | None
    """Messages that the node counted as such; None where it counts none."""
    own_mib: tuple[float, float, float, float]
    """Memory of the process: before, after the first fifth of the attack, in its last fifth (medians), and at most."""
    descriptors: tuple[int, int]
    """Before and after."""
    log_bytes: int
    """Of the process that was attacked; it tells how it goes every two seconds."""
    tracebacks: int

    @property
    def messages(self) -> int:
        return sum(self.sent.values())

    def wrong(self) -> list[str]:
        """What an attack must not do, and has done."""
        _, early, late, most = self.own_mib
        long = self.messages >= _LONG  # a short attack only warms up
        rules = {
            "the digest is not that of a run without strangers": self.digest != self.expected,
            "no message was refused": self.refused == 0,
            f"memory grew by more than {_GROWTH_MIB} MiB during the attack": long and late > early + _GROWTH_MIB,
            f"memory was above {_MOST_MIB} MiB": most > _MOST_MIB,
            "descriptors are still open": self.descriptors[1] > self.descriptors[0],
            f"a log of more than {_MOST_LOG_BYTES} bytes": self.log_bytes > _MOST_LOG_BYTES,
            "a traceback in a log": self.tracebacks > 0,
        }
        return [rule for rule, broken in rules.items() if broken]


def attack_run(target: str, messages: int, folder: Path, *, attackers: int = 2, seed: int = 0) -> Attacked:
    """Start a cluster, send bad messages to one of its ports while it learns, and see how it ends.

    Args:
        target: One of TARGETS: the reducer, or the first peer of a ring, the socket for applications of the only site,
            or the reducer's page of metrics.
        folder: An empty one.

    Raises:
        AssertionError: It ended with an error, or before all was sent.
    """
    if target == "application":
        return _attack_application(messages, folder, attackers, seed)
    layout = "ring" if target == "ring" else "star"
    *ports, page = _free_ports(5)
    path = folder / "strangers.yaml"
    endpoints = [f"tcp://127.0.0.1:{port}" for port in ports]
    where = f"reducer: {{endpoint: '{endpoints[0]}'}}" if layout == "star" else f"peers: {{endpoints: {endpoints}}}"
    examples = round(max(_AT_LEAST_S[target], 1.5 * messages / _MESSAGES_PER_S[target]) / _PACE_S)
    path.write_text(
        CONFIG.format(layout=layout, algorithm=LAYOUTS[layout], where=where, examples=examples, pace_s=_PACE_S)
    )
    config = load_config(path)
    prepared = prepare(config, load_dataset(config.data, base=config.base))
    expected = run_loop(prepared).digest
    victim = "reducer" if layout == "star" else prepared.roster.tasks[1]
    nodes = {name: ["peer", "--task", name] for name in prepared.roster.tasks}
    if layout == "star":
        nodes = {"reducer": ["reducer"]} | {name: ["worker", "--task", name] for name in prepared.roster.tasks}
    port = {"star": ports[0], "ring": ports[1], "metrics": page}[target]
    if target == "metrics":
        nodes["reducer"] += ["--metrics", f"127.0.0.1:{page}"]
    recorded = _recorded(prepared)
    with _Run(path, nodes, victim, folder) as run:
        run.wait_until_it_learns()
        run_id = json.loads((run.home / "life.json").read_text())["run_id"]
        run.attack(target, port, _of_run(run_id, recorded), messages, attackers, seed)
        run.wait(_DEADLINE_S + examples * _PACE_S)
    merge = [sys.executable, "-P", "-m", "drom_net", "merge", str(run.out), "--json"]
    summary = json.loads(subprocess.run(merge, check=True, capture_output=True).stdout)
    refused = json.loads((run.home / "result.json").read_text())["refused"]
    return run.attacked(summary, expected, refused if target != "metrics" else None)


def _attack_application(messages: int, folder: Path, attackers: int, seed: int) -> Attacked:
    """Its own application goes on teaching the site meanwhile: of all that comes only its examples may be learned."""
    port, reducer = _free_ports(2)
    bind = f"tcp://127.0.0.1:{port}"
    path = folder / "strangers.yaml"
    path.write_text(LIVE_CONFIG.format(reducer=f"tcp://127.0.0.1:{reducer}", application=bind))
    nodes = {"reducer": ["reducer"], "site": ["worker", "--task", "site"]}
    rng = np.random.default_rng(seed)
    taught: list[np.ndarray] = []
    over = threading.Event()

    def teach() -> None:
        with Site(bind, timeout_s=_DEADLINE_S) as site:
            while not over.wait(_PACE_S):
                taught.append(rng.standard_normal(64))
                site.learn([taught[-1]], [1 if taught[-1].sum() > 0.0 else -1])
            told.append(site.status()["bad"])
            site.finish()

    told: list[int] = []
    with _Run(path, nodes, "site", folder) as run, ThreadPoolExecutor(1) as pool:
        teaching = pool.submit(teach)
        try:
            run.wait_until_it_learns()
            run.attack("application", port, _requests(), messages, attackers, seed)
        finally:
            over.set()
        teaching.result(_DEADLINE_S)
        run.wait(_DEADLINE_S)
    merge = [sys.executable, "-P", "-m", "drom_net", "merge", str(run.out), "--json"]
    summary = json.loads(subprocess.run(merge, check=True, capture_output=True).stdout)
    examples = ExampleJournal(run.home / FOLDER).load().examples
    assert len(examples) == len(taught), f"{len(examples)} examples were learned, and {len(taught)} were taught"
    assert all(np.array_equal(x, own) for (x, _), own in zip(examples, taught, strict=True)), "other rows were learned"
    replay = [sys.executable, "-P", "-m", "drom_net", "replay", str(run.out), "--json"]
    again = json.loads(subprocess.run(replay, capture_output=True, check=False).stdout)
    assert again.get("same"), f"the replay is not the same: {again}"
    return run.attacked(summary, summary["digest"], told[0])


class _Run:
    """A cluster whose nodes are started by hand; one of them is attacked, and watched."""

    def __init__(self, path: Path, nodes: dict[str, list[str]], victim: str, folder: Path) -> None:
        self.out = folder / "run"
        self.home = node_folder(self.out, victim)
        self._path, self._nodes, self._victim, self._folder = path, nodes, victim, folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: dict[str, str] = {}

    def __enter__(self) -> Self:
        for name, how in self._nodes.items():
            command = [sys.executable, "-P", "-m", "drom_net", *how, str(self._path), "--out", str(self.out)]
            with (self._folder / f"{name}.log").open("wb") as log:
                node = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self._running[name] = node
        return self

    def __exit__(self, *_: object) -> None:
        for node in self._running.values():
            node.kill()
            node.wait()

    def wait_until_it_learns(self) -> None:
        """Until the node has kept a first snapshot: all have joined."""
        while not any(self.home.glob("snapshot-*")):
            assert all(node.poll() is None for node in self._running.values()), "a node ended before all had joined"
            time.sleep(_SAMPLE_S)

    def attack(self, target: str, port: int, recorded: list[Frames], messages: int, attackers: int, seed: int) -> None:
        self.watched = watched = Watched(self._running[self._victim].pid)
        watched.look()
        self.descriptors = watched.descriptors
        self.began = time.monotonic()
        self.sent = _send(target, recorded, port, messages, attackers, seed, watched)
        self.attack_s = time.monotonic() - self.began
        until = time.monotonic() + _DEADLINE_S
        while watched.descriptors > self.descriptors and watched.look() and time.monotonic() < until:
            time.sleep(_SAMPLE_S)
        assert sum(self.sent.values()) >= messages, f"the run ended when {sum(self.sent.values())} messages were sent"

    def wait(self, within_s: float) -> None:
        codes = {name: node.wait(within_s) for name, node in self._running.items()}
        self._logs = {name: (self._folder / f"{name}.log").read_text(errors="replace") for name in codes}
        failed = [
            f"{name} ended with exit code {code}: {self._logs[name][-1000:]}" for name, code in codes.items() if code
        ]
        assert not failed, "\n".join(failed)

    def attacked(self, summary: dict[str, Any], expected: str, refused: int | None) -> Attacked:
        own = self.watched.own_kib
        within = self.began + self.attack_s
        during = [size for at, size in zip(self.watched.at_s, own, strict=True) if at <= within]
        fifth = max(1, len(during) // 5)
        early, late = statistics.median(during[fifth : 2 * fifth] or during), statistics.median(during[-fifth:])
        return Attacked(
            sent=self.sent,
            attack_s=self.attack_s,
            rounds=summary["rounds"],
            digest=summary["digest"],
            expected=expected,
            refused=refused,
            own_mib=(own[0] / 1024, early / 1024, late / 1024, max(own) / 1024),
            descriptors=(self.descriptors, self.watched.descriptors),
            log_bytes=len(self._logs[self._victim]),
            tracebacks=sum("Traceback" in log for log in self._logs.values()),
        )


def _free_ports(count: int) -> list[int]:
    """Below those that the system gives to outgoing connections, so that nobody is given them before they are used."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found: set[int] = set()
    while len(found) < count:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", SystemRandom().randrange(1024, first)))
            found.add(probe.getsockname()[1])
    return list(found)


def _recorded(prepared: Prepared) -> list[Frames]:
    """What members say in the first rounds: in a simulation, which has the same bits."""
    simulator = build_simulator(prepared, Conditions())
    recorded: list[Frames] = []
    send = simulator._send

    def listen(slot, route, frames):  # type: ignore[no-untyped-def]
        recorded.append(list(frames))
        send(slot, route, frames)

    simulator._send = listen  # type: ignore[method-assign]
    simulator.run(look=lambda simulator: simulator.events < _RECORDED_EVENTS)
    return recorded


def _of_run(run_id: str, recorded: list[Frames]) -> list[Frames]:
    """What the members of that run would say."""
    said = []
    for head, *vectors in recorded:
        fields = [run_id if field == "simulation" else field for field in msgpack.unpackb(head)]
        said.append([msgpack.packb(fields), *vectors])
    return said


def _send(
    target: str,
    recorded: list[Frames],
    port: int,
    messages: int,
    attackers: int,
    seed: int,
    watched: Watched,
) -> dict[str, int]:
    """How many of each kind were sent, by processes of a low priority."""
    names = [b"peer-0", b"peer-2", b"reducer", b"task-01"]
    context = multiprocessing.get_context("fork")
    processes, ends = [], []
    for number in range(attackers):
        ours, theirs = context.Pipe(duplex=False)
        share = -(-messages // attackers)
        arguments = (target, port, recorded, names, seed + number, share, theirs)
        process = context.Process(target=_attack, args=arguments, daemon=True)
        process.start()
        theirs.close()
        processes.append(process)
        ends.append(ours)
    while any(process.is_alive() for process in processes):
        watched.look()
        multiprocessing.connection.wait([process.sentinel for process in processes if process.is_alive()], _SAMPLE_S)
    sent: Counter[str] = Counter()
    for process, end in zip(processes, ends, strict=True):
        assert process.exitcode == 0, f"an attacking process ended with exit code {process.exitcode}"
        sent.update(end.recv())
    return dict(sent)


def _tell(target: str, done: Attacked) -> None:
    refused = "" if done.refused is None else f"{done.refused} refused by the node; "
    click.echo(
        f"{target}: {done.messages} messages in {done.attack_s:.0f} s ({done.messages / done.attack_s:.0f} a second), "
        f"{refused}{done.rounds} rounds"
    )
    for name, count in sorted(done.sent.items(), key=lambda item: -item[1]):
        click.echo(f"  {100 * count / done.messages:5.1f} %  {name}")
    before, early, late, most = done.own_mib
    click.echo(f"  memory: {before:.1f} MiB before, {early:.1f} early, {late:.1f} late, at most {most:.1f}")
    first, last = done.descriptors
    click.echo(f"  descriptors: {first} before, {last} after; log: {done.log_bytes} bytes")
    same = "as without strangers" if done.digest == done.expected else f"NOT the digest {done.expected}"
    click.echo(f"  digest {done.digest}, {same}")


@click.command()
@click.option("--target", type=click.Choice(TARGETS), multiple=True, help="Only this one.  [default: all]")
@click.option("--messages", type=click.IntRange(1), help="How many to each; by default a million, to the page 20,000.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def main(target: tuple[str, ...], messages: int | None, seed: int) -> None:
    """Attack a reducer, a peer, a socket for applications and a page of metrics while they learn."""
    failed = False
    for name in target or TARGETS:
        with tempfile.TemporaryDirectory(prefix="drom-net-") as folder:
            count = messages or (20_000 if name == "metrics" else 1_000_000)
            done = attack_run(name, count, Path(folder), seed=seed)
        _tell(name, done)
        for wrong in done.wrong():
            failed = True
            click.echo(f"  WRONG: {wrong}")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
