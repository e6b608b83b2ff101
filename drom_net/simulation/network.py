"""How long messages and rounds take, and what becomes of a message on its way: all drawn from one seed."""

from __future__ import annotations

import math
import random
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from drom_net.core.seeding import stream

_NUMBER = r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?"
_DURATION = re.compile(rf"({_NUMBER})\s*(us|ms|s|min|)")
"""Without a unit 0 only: 20 would be taken for milliseconds by one half of its readers."""
_CALL = re.compile(r"(\w+)\s*\(([^()]*)\)")
_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "min": 60.0}
_EXPECTED = "a time such as 50ms, 20ms..80ms, normal(50ms,10ms), lognormal(50ms,0.5) or exponential(50ms)"
_HELD_BACK_S = 1e-3
"""At least so much later comes a message that is held back: also where there is no latency it can be overtaken."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A time in seconds, drawn anew for each use; make it by `parse`."""

    kind: str = "constant"
    """constant(first), uniform(first, second), normal(mean, deviation) cut at 0, lognormal(median, sigma) or
    exponential(mean)."""
    first: float = 0.0
    second: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Distribution:
        """From ``50ms``, ``20ms..80ms``, or a name with its parameters: ``normal(50ms,10ms)``.

        Raises:
            ValueError: The text is none of these; it says what was expected and what was got.
        """
        found = cls._parse(str(text).strip())
        if found is None:
            raise ValueError(f'expected {_EXPECTED}, got "{text}"')
        return found

    @classmethod
    def _parse(cls, text: str) -> Distribution | None:
        if (constant := _seconds(text)) is not None:
            return cls("constant", constant)
        low, dots, high = text.partition("..")
        if dots:
            first, second = _seconds(low), _seconds(high)
            return None if first is None or second is None or first > second else cls("uniform", first, second)
        call = _CALL.fullmatch(text)
        if call is None:
            return None
        kind, parameters = call[1], [part.strip() for part in call[2].split(",")]
        if (first := _seconds(parameters[0])) is None:
            return None
        if kind == "exponential" and len(parameters) == 1:
            return cls(kind, first)
        if kind not in ("normal", "lognormal") or len(parameters) != 2:
            return None
        if kind == "lognormal" and not re.fullmatch(_NUMBER, parameters[1]):
            return None  # sigma has no unit
        second = float(parameters[1]) if kind == "lognormal" else _seconds(parameters[1])
        return None if second is None else cls(kind, first, second)

    def __str__(self) -> str:
        """As `parse` reads it."""
        first, second = f"{self.first:.12g}s", f"{self.second:.12g}s"
        if self.kind == "constant":
            return first
        if self.kind == "uniform":
            return f"{first}..{second}"
        if self.kind == "exponential":
            return f"exponential({first})"
        return f"{self.kind}({first},{second.rstrip('s') if self.kind == 'lognormal' else second})"

    def draw(self, rng: random.Random) -> float:
        kind = self.kind
        if kind == "constant":
            return self.first
        if kind == "uniform":
            return self.first + (self.second - self.first) * rng.random()
        if kind == "normal":
            return max(0.0, rng.gauss(self.first, self.second))
        if kind == "lognormal":
            return self.first * math.exp(rng.gauss(0.0, self.second))
        return self.first * rng.expovariate(1.0)

    @property
    def mean(self) -> float:
        if self.kind == "uniform":
            return (self.first + self.second) / 2.0
        if self.kind == "lognormal":
            return self.first * math.exp(self.second**2 / 2.0)
        if self.kind == "normal" and self.second > 0.0:
            z = self.first / self.second
            density = math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
            return self.first * (1.0 + math.erf(z / math.sqrt(2.0))) / 2.0 + self.second * density
        return self.first

    @property
    def is_zero(self) -> bool:
        """Nothing is ever drawn but 0."""
        return self.first == 0.0 and (self.second == 0.0 or self.kind == "lognormal")


def _seconds(text: str) -> float | None:
    """A finite duration of at least 0."""
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * _UNITS_S[found[2]] if found else math.inf
    return seconds if math.isfinite(seconds) and (found[2] or not seconds) else None  # type: ignore[index]


@dataclass(frozen=True, slots=True)
class Partition:
    """From `from_s` until `to_s` whatever is sent from one group of nodes to another is lost.

    Nodes that are in none of the groups are one more group.
    """

    groups: tuple[frozenset[int], ...]
    from_s: float
    to_s: float

    def cuts(self, a: int, b: int) -> bool:
        """Whether these two nodes are in different groups."""
        return any((a in group) != (b in group) for group in self.groups)


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """The same for all links."""

    latency: Distribution = Distribution("constant", 1e-3)
    """One way; drawn for each message."""
    bandwidth_bytes_per_s: float = math.inf
    """Of each node's own line, in each direction: its messages leave, and arrive, one after the other."""
    loss: float = 0.0
    """The probability that a message is lost; this and the next two are from 0 to 1."""
    duplicate: float = 0.0
    """That it arrives twice."""
    reorder: float = 0.0
    """That it is held back by one more latency, while later ones pass. Others keep their order, as on TCP."""
    partitions: tuple[Partition, ...] = ()


class Network:
    """Decides when a message arrives, if it does."""

    def __init__(self, settings: NetworkSettings, num_nodes: int, seed: int) -> None:
        self._settings = settings
        self._num_nodes = num_nodes
        self._rng = generator(seed, "network")
        self._last_arrival: dict[int, float] = {}
        """By link (sender * num_nodes + receiver)."""
        self._out_free_at: dict[int, float] = {}
        self._in_lines: dict[int, _Line] = {}

    def deliver(self, sender: int, receiver: int, size_bytes: int, now: float) -> list[float]:
        """When the copies of a message arrive that is sent now: none if it is lost, two if it is doubled.

        Calls come in the order of `now`.
        """
        settings = self._settings
        leaves_at, transfer_s = now, 0.0
        if settings.bandwidth_bytes_per_s != math.inf:
            transfer_s = size_bytes / settings.bandwidth_bytes_per_s
            leaves_at = max(now, self._out_free_at.get(sender, 0.0))
            self._out_free_at[sender] = leaves_at + transfer_s
        for partition in settings.partitions:
            if partition.from_s <= leaves_at < partition.to_s and partition.cuts(sender, receiver):
                return []
        if settings.loss and self._rng.random() < settings.loss:
            return []
        arrives_at = self._arrival(sender, receiver, leaves_at, transfer_s, now)
        if settings.duplicate and self._rng.random() < settings.duplicate:
            return [arrives_at, self._arrival(sender, receiver, leaves_at, transfer_s, now)]
        return [arrives_at]

    def _arrival(self, sender: int, receiver: int, leaves_at: float, transfer_s: float, now: float) -> float:
        settings, rng = self._settings, self._rng
        at = leaves_at + settings.latency.draw(rng)  # of its first byte
        held_back = settings.reorder and rng.random() < settings.reorder
        link = sender * self._num_nodes + receiver
        if held_back:
            at += _HELD_BACK_S + settings.latency.draw(rng)
        else:
            at = max(at, self._last_arrival.get(link, 0.0))
        if transfer_s:
            line = self._in_lines.get(receiver)
            if line is None:
                line = self._in_lines[receiver] = _Line()
            at = line.take(at, transfer_s, now)
        if not held_back:
            self._last_arrival[link] = at
        return at


class _Line:
    """When a node's incoming line is taken: disjoint intervals, ascending, those that touch made one."""

    def __init__(self) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []

    def take(self, earliest: float, duration_s: float, now: float) -> float:
        """Take the first gap of this duration from `earliest` on; when it ends. What ended by `now` is forgotten."""
        starts, ends = self._starts, self._ends
        past = bisect_right(ends, now)
        del starts[:past], ends[:past]
        index = bisect_right(ends, earliest)
        start = earliest
        while index < len(starts) and starts[index] < start + duration_s:
            start = ends[index]
            index += 1
        end = start + duration_s
        if index and ends[index - 1] == start:
            index -= 1
            ends[index] = end
        else:
            starts.insert(index, start)
            ends.insert(index, end)
        if index + 1 < len(starts) and starts[index + 1] == end:
            ends[index] = ends[index + 1]
            del starts[index + 1], ends[index + 1]
        return end


@dataclass(frozen=True, slots=True)
class Stragglers:
    """A share of the tasks' nodes that is slower than the others."""

    share: float
    factor: float
    """How many times as long everything takes there."""


def parse_stragglers(text: str) -> tuple[Stragglers, ...]:
    """From ``10%:5x`` or ``10%:5x, 1%:20x``; an empty text is none.

    Raises:
        ValueError: The text is something else, a number is 0, or the shares are more than 100 % together.
    """
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(rf"({_NUMBER})\s*%\s*:\s*({_NUMBER})\s*x", part)
        if match is None:
            raise ValueError(f'expected shares and how much slower they are, such as 10%:5x, got "{part}"')
        found.append(Stragglers(float(match[1]) / 100.0, float(match[2])))
        if not (found[-1].share > 0.0 and 0.0 < found[-1].factor < math.inf):
            raise ValueError(f'expected a share and a factor above 0, got "{part}"')
    if sum(one.share for one in found) > 1.0 + 1e-9:
        raise ValueError(f'expected shares of at most 100 % together, got "{text}"')
    return tuple(found)


def draw_factors(stragglers: Sequence[Stragglers], num_tasks: int, seed: int) -> list[float]:
    """For each task how many times as long everything takes there."""
    factors = [1.0] * num_tasks
    if stragglers:
        lots = stream(seed, "stragglers").permutation(num_tasks).tolist()
        drawn, share = 0, 0.0
        for some in stragglers:
            share += some.share
            until = min(num_tasks, round(share * num_tasks))
            for lot in lots[drawn:until]:
                factors[lot] = some.factor
            drawn = until
    return factors


def generator(seed: int, *name: str | int) -> random.Random:
    """Python's generator from a named stream: one number from it costs a tenth of one from NumPy's."""
    return random.Random(int(stream(seed, "simulation", *name).integers(2**63)))
