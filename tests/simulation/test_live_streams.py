"""Streams whose examples come while nodes learn, on a bad network, with crashes: each example is learned once, and
what was decided on the way gives the bits of the plain loop."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import graph_of, hoods_of, random_streams
from simulated_harness import BAD, PATIENT, central, coupled, digest_of_peers, digest_of_star, every, peers, star

from drom_net.algorithms.base import Algorithm
from drom_net.algorithms.local import local
from drom_net.core.errors import ClusterError
from drom_net.data.live import Decided, LiveStream
from drom_net.data.stream import TaskStream
from drom_net.graph.families import make_schedule
from drom_net.graph.settings import TopologySettings
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import run_reference, run_reference_peers
from drom_net.protocol.node import TIMES_DTYPE, Stalled
from drom_net.protocol.settings import Policy, Timeouts
from drom_net.simulation.faults import Crash
from drom_net.simulation.network import Distribution, NetworkSettings
from drom_net.simulation.simulator import Simulator

DIM = 7
QUICK = NetworkSettings(Distribution.parse("1ms..5ms"))


class Site:
    """What of one task outlives its process: the examples it has accepted, and what was decided."""

    def __init__(self, source: TaskStream) -> None:
        self.source = source
        self.accepted = 0
        self.ended = False
        self.decided = Decided()
        self.stream: LiveStream | None = None

    def open(self) -> LiveStream:
        """The stream of a new life."""
        stream = LiveStream(DIM, self.decided)
        for number in range(self.accepted):
            stream.add(self.source.features(number), self.source.label(number))
        return stream

    def accept(self) -> None:
        if self.stream is not None:
            self.stream.add(self.source.features(self.accepted), self.source.label(self.accepted))
        self.accepted += 1

    def end(self) -> None:
        self.ended = True
        if self.stream is not None:
            self.stream.end()

    def keep(self) -> None:
        news = self.stream.take_decided() if self.stream is not None else None
        if news is not None:
            self.decided = Decided(self.decided.idle + news.idle, news.last_round or self.decided.last_round)


class Live:
    """A cluster of live streams on the simulator."""

    def __init__(self, times: Sequence[Sequence[float]], ends: Sequence[float], *, flip: float = 0.2) -> None:
        """
        Args:
            times: For each task when its examples come.
            ends: When it is known that no more will.
        """
        self.sites = [Site(stream) for stream in random_streams([len(each) for each in times], flip=flip)]
        self._times, self._ends = times, ends
        self.simulator: Simulator

    def star(self, algorithm: Algorithm, **options: Any) -> Live:
        return self._run(star, algorithm, live=True, **options)

    def peers(self, algorithm: Algorithm, graph: Any, **options: Any) -> Live:
        return self._run(peers, algorithm, graph=graph, **options)

    def _run(self, build: Callable[..., Simulator], algorithm: Algorithm, **options: Any) -> Live:
        self.simulator = build(algorithm, self.sites, prepare=self._prepare, **{"network": QUICK, **options})
        for index, (times, end) in enumerate(zip(self._times, self._ends, strict=True)):
            for at in times:
                self.simulator.call_at(at, lambda index=index: self._happens(index, self.sites[index].accept))
            self.simulator.call_at(end, lambda index=index: self._happens(index, self.sites[index].end))
        assert self.simulator.run(most_events=200_000)
        return self

    def _happens(self, index: int, action: Callable[[], None]) -> None:
        if self.simulator.node(index) is None:
            self.sites[index].stream = None
        action()
        self.simulator.wake(index)

    def _prepare(self, index: int, make: Callable[[Any], Any]) -> Any:
        """A node of a site, whose decisions are kept before anything is said."""
        site = self.sites[index]
        site.stream = site.open()
        node = make(site.stream)
        if site.ended:
            site.stream.end()
        says = node.take_outbox

        def keep_first() -> Any:
            site.keep()
            return says()

        node.take_outbox = keep_first
        return node

    def check(self, digest: str, again: Callable[..., Any], **options: Any) -> None:
        """Each example was learned once, and the loop gives the same with what was decided."""
        streams = [site.open() for site in self.sites]
        result = again(streams=streams, seed=0, **options)
        for index, site in enumerate(self.sites):
            assert result.tasks[index].totals.examples == site.accepted == len(site.source.labels)
            assert bytes(self.simulator.records[index]) == result.task_records[index]
        assert digest == result.digest

    def idle_rounds(self, index: int) -> int:
        rows = np.frombuffer(bytes(self.simulator.records[index]), dtype=TASK_DTYPE)
        return int(np.count_nonzero(rows["active"] == 0))


def drawn(seed: int, tasks: int = 4) -> tuple[list[list[float]], list[float], random.Random]:
    """When examples come: at rates that differ, with gaps; and when each site ends."""
    draw = random.Random(seed)
    times, ends = [], []
    for _ in range(tasks):
        at, rate, mine = draw.uniform(0.0, 2.0), draw.choice([2.0, 10.0, 50.0]), []
        for _ in range(draw.randrange(0, 25)):
            at += draw.expovariate(rate) + (draw.random() < 0.1) * 3.0
            mine.append(at)
        times.append(mine)
        ends.append(at + draw.choice([0.0, 0.5, 5.0]))
    return times, ends, draw


def crashes(draw: random.Random, nodes: int, until: float) -> list[Crash]:
    return [
        Crash(draw.randrange(nodes), draw.uniform(0.1, until), draw.choice([0.0, 0.05, 2.0]))
        for _ in range(draw.randrange(0, 5))
    ]


def check_star(seed: int) -> None:
    times, ends, draw = drawn(seed)
    faults = crashes(draw, 5, max(ends))
    network = draw.choice([QUICK, BAD])
    cluster = Live(times, ends).star(central(), network=network, faults=faults, seed=seed, detect_s=0.1)
    cluster.check(digest_of_star(cluster.simulator, 4), lambda **rest: run_reference(central(), **rest))


def check_peers(seed: int) -> None:
    times, ends, draw = drawn(seed)
    faults = crashes(draw, 4, max(ends))
    network = draw.choice([QUICK, BAD])
    exchange, tau = draw.choice(["blocking", "overlap", "delayed"]), draw.choice([1, 2, 5])
    graph = graph_of(draw.choice(["ring", "path", "full"]), 4)
    algorithm = coupled(tau)
    options = {"network": network, "faults": faults, "seed": seed, "detect_s": 0.1, "exchange": exchange}
    cluster = Live(times, ends).peers(algorithm, graph, **options)
    hoods = hoods_of(graph, [algorithm] * 4)
    cluster.check(
        digest_of_peers(cluster.simulator, 4),
        lambda streams, seed: run_reference_peers(
            [algorithm] * 4, streams, hoods, seed=seed, delayed=exchange == "delayed"
        ),
    )


@pytest.mark.parametrize("seed", range(60))
def test_a_star_of_live_streams(seed: int) -> None:
    check_star(seed)


@pytest.mark.parametrize("seed", range(60))
def test_peers_with_live_streams(seed: int) -> None:
    check_peers(seed)


def test_a_site_without_an_example_is_idle_as_soon_as_another_has_one() -> None:
    cluster = Live([[1.0, 2.0, 3.0], [2.0]], [4.0, 4.0]).star(central(), network=QUICK)
    assert [cluster.idle_rounds(index) for index in range(2)] == [1, 3]  # the last round says that it has ended
    assert cluster.simulator.node(0).round == 4


def test_nobody_is_idle_where_all_have_examples() -> None:
    times = [[1.0 + 0.1 * k for k in range(10)]] * 3
    cluster = Live(times, [1.95] * 3).star(central(), network=NetworkSettings(Distribution.parse("1ms")))
    assert [cluster.idle_rounds(index) for index in range(3)] == [1, 1, 1]


def test_learners_that_exchange_nothing_are_never_idle() -> None:
    cluster = Live([[1.0, 2.0, 3.0], [2.0]], [3.5, 3.5]).star(local(), network=QUICK)
    assert [cluster.simulator.node(index).totals.examples for index in range(2)] == [3, 1]
    assert [cluster.idle_rounds(index) for index in range(2)] == [1, 1]


def test_rounds_open_no_more_often_than_they_may() -> None:
    times = [[1.0 + 0.01 * k for k in range(20)], [1.005 + 0.1 * k for k in range(4)]]
    cluster = Live(times, [9.0, 9.0]).star(central(), paces=every(0.1, [1.0, 1.0]), network=QUICK)
    assert cluster.simulator.node(0).totals.examples == 20
    assert cluster.idle_rounds(1) < 20
    assert cluster.simulator.now >= 1.0 + 19 * 0.1


def test_quiet_sites_are_no_stall() -> None:
    told: list[object] = []
    timeouts = Timeouts(join_s=1000.0, stall_s=5.0)
    Live([[1.0, 100.0], [1.0]], [101.0, 101.0]).star(
        central(), timeouts=timeouts, network=QUICK, on_event=lambda node, now, event: told.append(event)
    )
    assert not [event for event in told if isinstance(event, Stalled)]


@pytest.mark.parametrize("kind", ["star", "peers"])
def test_a_quiet_site_notices_that_the_other_is_gone(kind: str) -> None:
    timeouts = Timeouts(join_s=1000.0, lost_s=5.0)
    live = Live([[1.0], [1.0, 50.0]], [60.0, 60.0])
    lost = Crash(2 if kind == "star" else 1, 10.0, float("inf"))
    options: dict[str, Any] = {"timeouts": timeouts, "network": QUICK, "faults": [lost], "detect_s": 0.1}
    with pytest.raises(ClusterError, match="lost"):
        live.star(central(), **options) if kind == "star" else live.peers(coupled(), graph_of("path", 2), **options)


def test_under_a_deadline_a_slow_site_is_done_without() -> None:
    policy = Policy(absent="proceed", deadline_s=0.05)
    times = [[1.0 + 0.2 * k for k in range(10)], [1.0 + 0.2 * k for k in range(10)]]
    network = NetworkSettings(Distribution.parse("1ms..80ms"))
    cluster = Live(times, [9.0, 9.0]).star(central(), policy=policy, network=network, timeouts=PATIENT)
    assert [cluster.simulator.node(index).totals.examples for index in range(2)] == [10, 10]


def test_quiet_sites_go_along_where_the_graph_changes_by_round() -> None:
    """Who meets only now and then may be many rounds ahead of who is quiet: that was once not believed."""
    tasks = 32
    names = [f"site-{task}" for task in range(tasks)]
    schedule = make_schedule(TopologySettings(graph="one-peer-exponential"), tasks, names, base=Path())
    busy = [[0.5 + 0.01 * k for k in range(20)] if task < tasks // 2 else [] for task in range(tasks)]
    cluster = Live(busy, [5.0] * tasks).peers(coupled(), schedule, network=QUICK)
    assert [site.accepted for site in cluster.sites[: tasks // 2]] == [20] * (tasks // 2)
    rows = np.frombuffer(bytes(cluster.simulator.records[0]), dtype=TASK_DTYPE)
    assert int(np.count_nonzero(rows["active"])) == 20
    times = np.frombuffer(bytes(cluster.simulator.times[0]), dtype=TIMES_DTYPE)
    assert times["closed_s"][times["round"] == 20][0] < 5.0  # long before the quiet ones have ended


@pytest.mark.parametrize("kind", ["star", "peers"])
def test_who_waits_for_the_next_round_notices_that_the_other_is_gone(kind: str) -> None:
    """Also where the next round may begin in ten minutes only."""
    timeouts = Timeouts(join_s=1000.0, lost_s=5.0)
    live = Live([[1.0, 2.0], [1.0, 2.0]], [3.0, 3.0])
    lost = Crash(2 if kind == "star" else 1, 10.0, float("inf"))
    options: dict[str, Any] = {
        "timeouts": timeouts,
        "network": QUICK,
        "faults": [lost],
        "detect_s": 0.1,
        "paces": every(600.0, [1.0, 1.0]),
    }
    with pytest.raises(ClusterError, match="lost") as error:
        live.star(central(), **options) if kind == "star" else live.peers(coupled(), graph_of("path", 2), **options)
    assert " at 15.1 s: " in str(error.value)
