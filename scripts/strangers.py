"""Real runs whose ports strangers attack: each must end with the bits of the plain loop, its processes as they were.

    scripts/strangers                      a million bad messages to the reducer of a star, and to a peer of a ring
    scripts/strangers --layout star --messages 20000

Strangers know all but the keys: the address, the configuration, the run's id and what its members say. They send bytes
that are no ZMTP, handshakes that are none, frames that no message has, messages that are nearly right, and what was
really said, from other connections and in another order; as fast as it goes, and they read no answers.
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
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import click
import msgpack
from siege import RAW, Drawn, Frames, another_life, damaged

from drom_net.cluster.prepare import Prepared, prepare
from drom_net.cluster.run import run_loop
from drom_net.cluster.simulate import Conditions, build_simulator
from drom_net.config import load_config
from drom_net.data.datasets import load_dataset
from drom_net.protocol.codec import HEADER_LIMIT_BYTES
from drom_net.rundir import node_folder

CONFIG = """
name: strangers-{layout}
algorithm: {algorithm}
{where}
data: {{dataset: synthetic, tasks: 4, examples: {examples}, dim: 64, flip: 0.1, pace_s: {pace_s}}}
timeouts: {{join_s: 60.0, lost_s: 60.0, linger_s: 20.0}}
"""
LAYOUTS = {"star": "{name: drom}", "ring": "{name: drom-d, tau: 1}\ntopology: {graph: ring}"}
_PACE_S = 0.01
_MESSAGES_PER_S = 2500
"""A run lasts as long as this rate needs, and half as long again."""
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


def _attack(port: int, recorded: list[Frames], names: list[bytes], seed: int, messages: int, told: Any) -> None:
    os.nice(10)
    stranger = Stranger(port, recorded, names, seed)
    stranger.attack(messages)
    told.send(dict(stranger.sent))


# The run that is attacked


@dataclass
class Watched:
    """A process over time."""

    pid: int
    at_s: list[float] = field(default_factory=list)
    own_kib: list[int] = field(default_factory=list)
    """Memory that no other process shares."""
    descriptors: int = 0

    def look(self) -> bool:
        """Whether it is still there."""
        try:
            rollup = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
            descriptors = len(os.listdir(f"/proc/{self.pid}/fd"))
        except OSError:
            return False
        self.own_kib.append(sum(int(line.split()[1]) for line in rollup if line.startswith("Private_")))
        self.at_s.append(time.monotonic())
        self.descriptors = descriptors
        return True


@dataclass(frozen=True, slots=True)
class Attacked:
    """What became of a run that was attacked."""

    sent: dict[str, int]
    attack_s: float
    rounds: int
    digest: str
    expected: str
    refused: int
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
            "the digest is not that of the plain loop": self.digest != self.expected,
            "no message was refused": not self.refused,
            f"memory grew by more than {_GROWTH_MIB} MiB during the attack": long and late > early + _GROWTH_MIB,
            f"memory was above {_MOST_MIB} MiB": most > _MOST_MIB,
            "descriptors are still open": self.descriptors[1] > self.descriptors[0],
            f"a log of more than {_MOST_LOG_BYTES} bytes": self.log_bytes > _MOST_LOG_BYTES,
            "a traceback in a log": self.tracebacks > 0,
        }
        return [rule for rule, broken in rules.items() if broken]


def attack_run(layout: str, messages: int, folder: Path, *, attackers: int = 2, seed: int = 0) -> Attacked:
    """Start a cluster, send bad messages to its reducer, or to the first peer, while it learns, and see how it ends.

    Args:
        layout: One of LAYOUTS.
        folder: An empty one.

    Raises:
        AssertionError: It ended with an error, or before all was sent.
    """
    ports = _free_ports(4)
    path = folder / "strangers.yaml"
    endpoints = [f"tcp://127.0.0.1:{port}" for port in ports]
    where = f"reducer: {{endpoint: '{endpoints[0]}'}}" if layout == "star" else f"peers: {{endpoints: {endpoints}}}"
    examples = round(max(4.0, 1.5 * messages / _MESSAGES_PER_S) / _PACE_S)
    path.write_text(
        CONFIG.format(layout=layout, algorithm=LAYOUTS[layout], where=where, examples=examples, pace_s=_PACE_S)
    )
    config = load_config(path)
    prepared = prepare(config, load_dataset(config.data, base=config.base))
    expected = run_loop(prepared).digest
    victim = "reducer" if layout == "star" else prepared.roster.tasks[1]
    port = ports[0] if layout == "star" else ports[1]
    out = folder / "run"
    home = node_folder(out, victim)
    nodes = {name: ["peer", "--task", name] for name in prepared.roster.tasks}
    if layout == "star":
        nodes = {"reducer": ["reducer"]} | {name: ["worker", "--task", name] for name in prepared.roster.tasks}
    with contextlib.ExitStack() as cleanup:
        running = {name: _start(path, out, name, how, folder, cleanup) for name, how in nodes.items()}
        watched = Watched(running[victim].pid)
        _wait_until_it_learns(home, list(running.values()))
        run_id = json.loads((home / "life.json").read_text())["run_id"]
        watched.look()
        descriptors = watched.descriptors
        began = time.monotonic()
        sent = _send(_recorded(prepared, run_id), port, messages, attackers, seed, watched)
        attack_s = time.monotonic() - began
        while watched.descriptors > descriptors and watched.look():
            time.sleep(_SAMPLE_S)
        codes = {name: node.wait(_DEADLINE_S + examples * _PACE_S) for name, node in running.items()}
    logs = {name: (folder / f"{name}.log").read_text(errors="replace") for name in running}
    failed = [f"{name} ended with exit code {code}: {logs[name][-1000:]}" for name, code in codes.items() if code]
    assert not failed, "\n".join(failed)
    assert sum(sent.values()) >= messages, f"the run ended when {sum(sent.values())} messages were sent"
    merge = [sys.executable, "-P", "-m", "drom_net", "merge", str(out), "--json"]
    summary = json.loads(subprocess.run(merge, check=True, capture_output=True).stdout)
    during = [own for at, own in zip(watched.at_s, watched.own_kib, strict=True) if at <= began + attack_s]
    fifth = max(1, len(during) // 5)
    early, late = statistics.median(during[fifth : 2 * fifth] or during), statistics.median(during[-fifth:])
    return Attacked(
        sent=sent,
        attack_s=attack_s,
        rounds=summary["rounds"],
        digest=summary["digest"],
        expected=expected,
        refused=json.loads((home / "result.json").read_text())["refused"],
        own_mib=(watched.own_kib[0] / 1024, early / 1024, late / 1024, max(watched.own_kib) / 1024),
        descriptors=(descriptors, watched.descriptors),
        log_bytes=len(logs[victim]),
        tracebacks=sum("Traceback" in log for log in logs.values()),
    )


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as sockets:
        bound = [sockets.enter_context(socket.socket()) for _ in range(count)]
        for one in bound:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in bound]


def _start(
    path: Path, out: Path, name: str, how: list[str], folder: Path, cleanup: contextlib.ExitStack
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "drom_net", *how, str(path), "--out", str(out)]
    with (folder / f"{name}.log").open("wb") as log:
        node = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    cleanup.callback(node.wait)
    cleanup.callback(node.kill)
    return node


def _wait_until_it_learns(home: Path, running: list[subprocess.Popen[bytes]]) -> None:
    """Until a node has kept a first snapshot: all have joined."""
    while not any(home.glob("snapshot-*")):
        assert all(node.poll() is None for node in running), "a node ended before all had joined"
        time.sleep(_SAMPLE_S)


def _recorded(prepared: Prepared, run_id: str) -> list[Frames]:
    """What members say in the first rounds: in a simulation, which has the same bits."""
    simulator = build_simulator(prepared, Conditions())
    recorded: list[Frames] = []
    send = simulator._send

    def listen(slot, route, frames):  # type: ignore[no-untyped-def]
        fields = [run_id if field == "simulation" else field for field in msgpack.unpackb(frames[0])]
        recorded.append([msgpack.packb(fields), *frames[1:]])
        send(slot, route, frames)

    simulator._send = listen  # type: ignore[method-assign]
    simulator.run(look=lambda simulator: simulator.events < _RECORDED_EVENTS)
    return recorded


def _send(
    recorded: list[Frames], port: int, messages: int, attackers: int, seed: int, watched: Watched
) -> dict[str, int]:
    """How many of each kind were sent, by processes of a low priority."""
    names = [b"peer-0", b"peer-2", b"reducer", b"task-01"]
    context = multiprocessing.get_context("fork")
    processes, ends = [], []
    for number in range(attackers):
        ours, theirs = context.Pipe(duplex=False)
        share = -(-messages // attackers)
        arguments = (port, recorded, names, seed + number, share, theirs)
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


def _tell(layout: str, done: Attacked) -> None:
    click.echo(
        f"{layout}: {done.messages} messages in {done.attack_s:.0f} s ({done.messages / done.attack_s:.0f} a second), "
        f"{done.refused} refused by the node; {done.rounds} rounds"
    )
    for name, count in sorted(done.sent.items(), key=lambda item: -item[1]):
        click.echo(f"  {100 * count / done.messages:5.1f} %  {name}")
    before, early, late, most = done.own_mib
    click.echo(f"  memory: {before:.1f} MiB before, {early:.1f} early, {late:.1f} late, at most {most:.1f}")
    first, last = done.descriptors
    click.echo(f"  descriptors: {first} before, {last} after; log: {done.log_bytes} bytes")
    same = "the digest of the plain loop" if done.digest == done.expected else f"NOT the digest {done.expected}"
    click.echo(f"  digest {done.digest}, {same}")


@click.command()
@click.option("--layout", type=click.Choice(tuple(LAYOUTS)), multiple=True, help="Only this one.  [default: both]")
@click.option("--messages", type=click.IntRange(1), default=1_000_000, show_default=True, help="How many to each.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def main(layout: tuple[str, ...], messages: int, seed: int) -> None:
    """Attack the reducer of a star, and a peer of a ring, while they learn."""
    failed = False
    for name in layout or LAYOUTS:
        with tempfile.TemporaryDirectory(prefix="drom-net-") as folder:
            done = attack_run(name, messages, Path(folder), seed=seed)
        _tell(name, done)
        for wrong in done.wrong():
            failed = True
            click.echo(f"  WRONG: {wrong}")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
