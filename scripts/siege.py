"""Small runs under attack, on a virtual clock: bad bytes, bad content and replays, drawn from bytes or from a seed.

What is done to whom, and when, is read from a sequence of bytes, so that a fuzzer can look for the bytes that lead
somewhere new (`scripts/fuzz`); `scripts/strangers` sends the same damage to the ports of real processes.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Protocol

import msgpack
import numpy as np

from drom_net.cluster.prepare import Prepared, prepare
from drom_net.cluster.run import run_loop
from drom_net.cluster.simulate import Conditions, build_simulator, checks_of, outcomes
from drom_net.config.load import load_config
from drom_net.core.errors import ClusterError, DivergedError, RejectedError, RemoteError
from drom_net.data.datasets import load_dataset
from drom_net.protocol.codec import decode, encode
from drom_net.protocol.messages import Hello
from drom_net.protocol.peer import Peer
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.worker import Worker
from drom_net.results.run_directory import summary_of
from drom_net.simulation.faults import Crash
from drom_net.simulation.simulator import Simulator, StuckError

Frames = list[bytes]


class Draw(Protocol):
    """Where choices come from."""

    def pick(self, count: int) -> int:
        """A number below `count`; 0 when no choice is left."""

    def take(self, size: int) -> bytes:
        """At most so many bytes."""


class Written:
    """Choices read from bytes: a fuzzer finds out what each of them does."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def pick(self, count: int) -> int:
        drawn = self.take(1)
        return drawn[0] % count if drawn else 0

    def take(self, size: int) -> bytes:
        taken = self._data[self._place : self._place + size]
        self._place += len(taken)
        return taken


class Drawn:
    """Choices drawn from a seed, without an end."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def pick(self, count: int) -> int:
        return int(self._random.random() * count)

    def take(self, size: int) -> bytes:
        return self._random.randbytes(size)


# Damage

EDGES: tuple[object, ...] = (
    *(0, 1, 2, 3, 4, 5, 8, 255, 2**31, 2**32, 2**53 - 1, 2**53, 2**53 + 1, 2**63, 2**64 - 1, -1, -(2**31), -(2**63)),
    *(0.0, 1.0, -1.5, math.nan, math.inf, True, False, None, b"", bytes(32), bytes(33), b"\xff" * 40),
    *("", "x", "\0", "x" * 1024, "x" * 1025, "\x1b[31m\n", "語" * 400),
    *([], [1], [[[[[]]]]], [0] * 9, [2**53] * 9, [None] * 15),
    *({}, {1: 2}, {"a": {}}, msgpack.ExtType(5, b""), msgpack.Timestamp(1), msgpack.ExtType(1, bytes(300))),
)
"""What a field may be replaced by."""
NUMBERS = (math.nan, math.inf, -math.inf, 1e200, -1.7e308, 5e-324, -0.0, 1e150)
RAW = (
    *(b"", b"\xc1", b"\x90", b"\x91", b"\x07", b"\xc0", b"\x80", b"\x91\x80", b"\xa1a", b"\x91\xa1\xff", b"\x91\x07\0"),
    *(b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x91\xdb\xff\xff\xff\xff", b"\x91\xc6\xff\xff\xff\xff"),
    *(b"\xdc\x0f\xff" * 1365, b"\x91" * 600 + b"\x01", b"\x91" * 4096, b"\x81\0" * 600, b"\xc7\xff\x05", bytes(5000)),
    *(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0\x01\xfc", b"SSH-2.0-x\r\n"),
    b"\x80\x04\x95K\x01.",
)
"""Frames that are no header."""


def _fields(frames: Frames) -> list[object]:
    try:
        fields = msgpack.unpackb(frames[0], strict_map_key=False) if frames else None
    except Exception:  # msgpack documents no closed list of what it raises
        return []
    return fields if isinstance(fields, list) else []


def _with_fields(frames: Frames, fields: list[object]) -> Frames:
    return [msgpack.packb(fields), *frames[1:]]


def _field(frames: Frames, draw: Draw) -> Frames:
    if not (fields := _fields(frames)):
        return frames
    fields[draw.pick(len(fields))] = EDGES[draw.pick(len(EDGES))]
    return _with_fields(frames, fields)


def _near(frames: Frames, draw: Draw) -> Frames:
    """A number that is a little larger or smaller, or a text with another letter."""
    fields = _fields(frames)
    places = [place for place, value in enumerate(fields) if place and type(value) in (int, str)]
    if not places:
        return frames
    place = places[draw.pick(len(places))]
    value = fields[place]
    if isinstance(value, int):
        fields[place] = max(-(2**63), min(2**64 - 1, value + (1, -1, 2, -2, 3, 5, 200, 2001)[draw.pick(8)]))
    else:
        fields[place] = "x" + str(value)[1:]
    return _with_fields(frames, fields)


def _more_or_fewer(frames: Frames, draw: Draw) -> Frames:
    fields = _fields(frames)
    place = draw.pick(len(fields) + 1)
    if draw.pick(2):
        fields.insert(place, EDGES[draw.pick(len(EDGES))])
    else:
        fields[place : place + 1] = []
    return _with_fields(frames, fields)


def _byte(frames: Frames, draw: Draw) -> Frames:
    if not frames or not frames[0]:
        return frames
    which = draw.pick(len(frames))
    changed = bytearray(frames[which] or b"\0")
    changed[draw.pick(min(256, len(changed)))] ^= 1 << draw.pick(8)
    return [*frames[:which], bytes(changed), *frames[which + 1 :]]


def _cut(frames: Frames, draw: Draw) -> Frames:
    if not frames:
        return frames
    which = draw.pick(len(frames))
    short = frames[which][: draw.pick(min(256, len(frames[which]) + 1))]
    return [*frames[:which], short, *frames[which + 1 :]]


def _longer(frames: Frames, draw: Draw) -> Frames:
    which = draw.pick(max(1, len(frames)))
    return [*frames[:which], (frames[which] if frames else b"") + draw.take(1 + draw.pick(16)), *frames[which + 1 :]]


def _frame(frames: Frames, draw: Draw) -> Frames:
    """A frame more, less, twice, or in another place."""
    what = draw.pick(4)
    which = draw.pick(max(1, len(frames)))
    if what == 0:
        return [*frames[:which], *frames[which + 1 :]]
    if what == 1:
        return frames + frames[which : which + 1] * (1 + draw.pick(8))
    if what == 2:
        return frames[which:] + frames[:which]
    return [*frames, RAW[draw.pick(len(RAW))]]


def _number(frames: Frames, draw: Draw) -> Frames:
    """A number of a vector that is none, or far too large."""
    if len(frames) < 2 or len(frames[1]) % 8 or not frames[1]:
        return frames
    vector = np.frombuffer(frames[1]).copy()
    vector[draw.pick(len(vector))] = NUMBERS[draw.pick(len(NUMBERS))]
    return [frames[0], vector.tobytes(), *frames[2:]]


def another_life(frames: Sequence[bytes], draw: Draw) -> Frames:
    """A Hello that is right in all but its incarnation, its rounds, and what it answers; anything else as it is."""
    fields = _fields(list(frames))
    if len(fields) != 13 or fields[0] != 0:
        return list(frames)
    for place in (9, 10, 11, 12):
        fields[place] = (fields[place], 0, 1, 2, 3, 7, 200, 2**53)[draw.pick(8)]
    return [msgpack.packb(fields)]


def _raw(frames: Frames, draw: Draw) -> Frames:
    return [RAW[draw.pick(len(RAW))], *frames[1:]]


def _random(frames: Frames, draw: Draw) -> Frames:
    return [draw.take(draw.pick(64)) for _ in range(draw.pick(5))]


CHANGES: dict[str, Callable[[Frames, Draw], Frames]] = {
    "a field of another type or range": _field,
    "a field slightly other": _near,
    "fields more or fewer": _more_or_fewer,
    "a bit": _byte,
    "a frame cut": _cut,
    "extra data": _longer,
    "frames more, fewer or reordered": _frame,
    "a number that is none": _number,
    "no header": _raw,
    "random frames": _random,
}
_CHANGES = tuple(CHANGES.values())


def damaged(frames: Sequence[bytes], draw: Draw) -> Frames:
    """A message after one to three changes."""
    changed = list(frames)
    for _ in range(1 + draw.pick(3)):
        changed = _CHANGES[draw.pick(len(_CHANGES))](changed, draw)
    return changed


# Runs

_CONFIG = """
algorithm: {algorithm}
data: {{dataset: synthetic, tasks: {tasks}, examples: {examples}, dim: 3, flip: 0.1}}
checkpoint: {{every_rounds: 2, every_s: 1000.0, history_rounds: 4}}
timeouts: {{join_s: 1000.0, lost_s: 1000.0, linger_s: 50.0, stall_s: 1000.0}}
"""
_STEPS = "eta0: 3.0, lambda: 0.2, rho: 0.3, xi: 1.0"
_RING = "\ntopology: {graph: ring}"
_CHANGING = "\ntopology: {graph: one-peer-exponential}"
RUNS = {
    "star": f"{{name: drom, {_STEPS}}}",
    "star, proceed": f"{{name: drom, {_STEPS}}}\npolicy: {{absent: proceed}}",
    "star without words": "{name: local}",
    "ring": f"{{name: drom-d, {_STEPS}, tau: 1, exchange: blocking}}{_RING}",
    "ring, delayed": f"{{name: drom-d, {_STEPS}, tau: 2, exchange: delayed}}{_RING}",
    "ring, taus": f"{{name: drom-d, {_STEPS}, tau: [1, 2, 3, 1], exchange: overlap}}{_RING}",
    "changing graph": f"{{name: drom-d, {_STEPS}, tau: 1, exchange: blocking}}{_CHANGING}",
}
_MOST_EVENTS = 20_000


@cache
def _prepared(name: str) -> tuple[Prepared, str]:
    """(a run, the plain loop's digest)."""
    with tempfile.TemporaryDirectory(prefix="drom-net-") as folder:
        path = Path(folder) / "siege.yaml"
        tasks = 3 if name.startswith("star") else 4
        path.write_text(_CONFIG.format(algorithm=RUNS[name], tasks=tasks, examples=5))
        config = load_config(path)
    prepared = prepare(config, load_dataset(config.data, base=config.base))
    return prepared, str(run_loop(prepared).digest)


class Siege:
    """Attacks every node of a run after each thing that happens to it."""

    def __init__(self, name: str, draw: Draw, *, insiders: bool, snapshots: bool) -> None:
        """
        Args:
            name: One of RUNS.
            insiders: Members say what the draw wants, too: then the run may end with any result or error, but no bug.
            snapshots: Nodes keep snapshots, as processes do.
        """
        self._prepared, self.expected = _prepared(name)
        # A crash that never happens: it is why a simulation keeps snapshots.
        faults = (Crash(0, 1e9, math.inf),) if snapshots else ()
        self._simulator = build_simulator(self._prepared, Conditions(faults=faults, seed=0))
        self.strikes = 0
        """How many messages were given to nodes."""
        self._draw = draw
        self._insiders = insiders
        self._check = checks_of(self._prepared)
        self._said: list[list[tuple[str, Frames]]] = [[] for _ in range(self._simulator.num_nodes)]
        """To each node: all that was said to it, and from which address."""
        self._workers = len(self._prepared.streams) if self._prepared.graph is None else 0
        self._all: list[Frames] = []
        self._hellos: list[Frames] = []
        send = self._simulator._send

        def listen(slot, route, frames):  # type: ignore[no-untyped-def]
            receiver, seen_as, _ = route
            self._said[receiver].append((seen_as, frames))
            self._all.append(frames)
            if frames[0][1] == 0:
                self._hellos.append(frames)
            send(slot, route, frames)

        self._simulator._send = listen  # type: ignore[method-assign]

    def run(self) -> str:
        """The digest of the run; empty where insiders have ended it."""
        try:
            self._simulator.run(most_events=_MOST_EVENTS, check=self._strike)
        except (ClusterError, RejectedError, DivergedError, StuckError):
            if not self._insiders:
                raise
            return ""
        tasks, centrals = outcomes(self._prepared, self._simulator, finished=True)
        return str(summary_of(tasks, centrals, about={}, driver="simulation")["digest"])

    def _strike(self, simulator: Simulator, index: int) -> None:
        if not self._insiders:
            self._check(simulator, index)
        node = simulator.node(index)
        for _ in range(self._draw.pick(4)):
            if node.finished:
                return
            sender, frames = self._attack(index)
            try:
                message = decode(frames, dim=self._prepared.roster.dim, max_vectors=node.max_vectors)
            except RemoteError:
                continue
            if not (isinstance(message, Hello) and self._takes_a_free_place(node, message)):
                self.strikes += 1
                node.receive(sender, message, simulator.now)

    def _attack(self, index: int) -> tuple[str, Frames]:
        """(from which address, what)."""
        draw, said = self._draw, self._said[index]
        what = draw.pick(5)
        nobody_else = index < self._workers and not self._insiders  # a worker has one connection, which it made
        if what == 0 or nobody_else:
            return said[-1 - draw.pick(len(said))] if said else ("stranger", [])  # again what was said before
        frames = self._all[-1 - draw.pick(len(self._all))] if self._all else []
        if what == 1 and self._hellos:
            frames = another_life(self._hellos[draw.pick(len(self._hellos))], draw)
        elif what > 2:
            frames = damaged(frames, draw)
        sender = f"stranger-{draw.pick(3)}"
        if self._insiders and said:
            sender = said[-1 - draw.pick(len(said))][0]
        return sender, frames

    @staticmethod
    def _takes_a_free_place(node: Worker | Reducer | Peer, hello: Hello) -> bool:
        """Who comes first has the place: without keys nothing else tells a member from a stranger that knows all."""
        if isinstance(node, Worker):
            return False
        member = node.session.members.get(hello.task)
        return member is not None and (not member.address or member.down)


def besiege(data: bytes) -> None:
    """Attack a run as the bytes say.

    Raises:
        AssertionError: Strangers or replays have changed the digest of a run, or broken an invariant.
        Exception: Any but those that a node may end with: a bug.
    """
    draw = Written(data)
    names = list(RUNS)
    name, how = names[draw.pick(len(names))], draw.pick(4)
    siege = Siege(name, draw, insiders=bool(how & 1), snapshots=bool(how & 2))
    digest = siege.run()
    assert how & 1 or digest == siege.expected, f"{name}: digest {digest}, the plain loop has {siege.expected}"


def decode_anything(data: bytes) -> None:
    """Decode frames that are cut from the bytes; what they mean must come back as it was.

    Raises:
        AssertionError: A message has other bytes when it is encoded and decoded again.
        Exception: Any but RemoteError: a bug.
    """
    draw = Written(data)
    vectors = [draw.take(8 * (1 + draw.pick(4))) for _ in range(draw.pick(4))]
    header = draw.take(len(data))
    try:
        message = decode([header, *vectors], dim=2, max_vectors=2)
    except RemoteError:
        return
    again = [bytes(frame) for frame in encode(message)]
    assert [bytes(frame) for frame in encode(decode(again, dim=2, max_vectors=2))] == again
    assert again[1:] == vectors or isinstance(message, Hello)  # of another version only that is read
