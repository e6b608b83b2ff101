"""The nodes on a virtual clock: the bits of the plain loop, times that can be worked out by hand, and faults."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from helpers import random_streams
from peers_harness import graph_of, make_peer
from star_harness import DIM, make_reducer, make_worker

from drom_net.algorithms.base import Algorithm
from drom_net.algorithms.drom import DromParameters, drom
from drom_net.algorithms.drom_d import DromDParameters, drom_d
from drom_net.data.stream import TaskStream
from drom_net.errors import ClusterError, DivergedError, RejectedError
from drom_net.protocol.messages import Message, Resend
from drom_net.protocol.node import ConnectionChanged, Envelope, Event
from drom_net.protocol.settings import Timeouts
from drom_net.records import TASK_DTYPE, central_dtype, peers_chain, run_digest
from drom_net.reference import run_reference, run_reference_peers
from drom_net.simulation.checks import PeersChecks, StarChecks, check_records
from drom_net.simulation.network import Distribution, NetworkSettings, Partition, SpeedSettings, parse_stragglers
from drom_net.simulation.simulator import (
    Crash,
    Fault,
    Pause,
    Simulator,
    StuckError,
    incoming,
    peers_wiring,
    star_wiring,
)
from drom_net.topology import Graph

PATIENT = Timeouts(join_s=1000.0, linger_s=1000.0)
BAD = NetworkSettings(Distribution.parse("0..400ms"), loss=0.2, duplicate=0.2, reorder=0.2)
LENGTHS = [30, 9, 24, 30, 13, 41]
GRAPHS = {
    "ring": graph_of("ring", 6),
    "full": graph_of("full", 6),
    "grid": graph_of("grid", 6, rows=2, columns=3),
}
ms = Distribution.parse


def star(algorithm: Algorithm, streams: Sequence[TaskStream], *, timeouts: Timeouts = PATIENT, **options) -> Simulator:
    workers = len(streams)

    def make(index: int, incarnation: int, snapshot: object | None):
        if index == workers:
            return make_reducer(algorithm, workers, timeouts=timeouts)
        return make_worker(algorithm, streams[index], task=index, timeouts=timeouts)

    return Simulator(make, star_wiring(workers), dim=DIM, max_vectors=1, **{"seed": 0, **options})


def peers(
    algorithm: Algorithm,
    streams: Sequence[TaskStream],
    graph: Graph,
    *,
    exchange: str = "blocking",
    timeouts: Timeouts = PATIENT,
    **options,
) -> Simulator:
    def make(index: int, incarnation: int, snapshot: object | None):
        return make_peer(algorithm, streams[index], graph, task=index, exchange=exchange, timeouts=timeouts)

    return Simulator(make, peers_wiring(graph.neighbors), dim=DIM, max_vectors=1, **{"seed": 0, **options})


def coupled(tau: int = 1, exchange: str = "blocking") -> Algorithm:
    return drom_d(DromDParameters(eta0=3.0, lam=0.2, rho=0.3, xi=1.0, tau=tau, exchange=exchange))


def central() -> Algorithm:
    return drom(DromParameters(eta0=3.0, lam=0.2, rho=0.3, xi=1.0, p=0.9))


def nodes(simulator: Simulator, count: int) -> list:
    return [simulator.node(index) for index in range(count)]


def digest_of_star(simulator: Simulator, workers: int) -> str:
    chains = [worker.result.chain for worker in nodes(simulator, workers)]
    return run_digest(chains, simulator.node(workers).central_chain)


def digest_of_peers(simulator: Simulator, tasks: int) -> str:
    there = nodes(simulator, tasks)
    return run_digest([peer.result.chain for peer in there], peers_chain([peer.central_chain for peer in there]))


def last_rounds(streams: Sequence[TaskStream]) -> list[int]:
    return [stream.last_round() for stream in streams]


# The bits of the plain loop


@pytest.mark.parametrize("network", [NetworkSettings(), BAD], ids=["perfect", "bad"])
@pytest.mark.parametrize("seed", range(3))
def test_a_star_gives_the_bits_of_the_plain_loop(network: NetworkSettings, seed: int) -> None:
    streams = random_streams([9, 4, 12, 1], flip=0.2)
    simulator = star(central(), streams, network=network, seed=seed)
    simulator.run(most_events=20_000, check=StarChecks(last_rounds(streams)))
    expected = run_reference(central(), streams, seed=0)
    assert digest_of_star(simulator, 4) == expected.digest
    assert [bytes(rows) for rows in simulator.records] == [*expected.task_records, expected.central_records]


@pytest.mark.parametrize("network", [NetworkSettings(), BAD], ids=["perfect", "bad"])
@pytest.mark.parametrize("exchange", ["blocking", "overlap", "delayed"])
@pytest.mark.parametrize("tau", [1, 5])
@pytest.mark.parametrize("graph", GRAPHS)
def test_peers_give_the_bits_of_the_plain_loop(graph: str, tau: int, exchange: str, network: NetworkSettings) -> None:
    streams, algorithm, delayed = random_streams(LENGTHS, flip=0.2), coupled(tau, exchange), exchange == "delayed"
    neighbors = GRAPHS[graph].neighbors
    simulator = peers(algorithm, streams, GRAPHS[graph], exchange=exchange, network=network)
    check = PeersChecks(neighbors, last_rounds(streams), algorithm.is_sync, delayed=delayed)
    simulator.run(most_events=50_000, check=check)
    expected = run_reference_peers(algorithm, streams, GRAPHS[graph], seed=0, delayed=delayed)
    assert digest_of_peers(simulator, 6) == expected.digest
    assert [bytes(rows) for rows in simulator.records] == list(expected.task_records)
    assert [bytes(rows) for rows in simulator.central_records] == list(expected.central_records)
    for task in range(6):
        check_records(simulator.records[task], TASK_DTYPE, every_round=True)
        check_records(simulator.central_records[task], central_dtype(len(neighbors[task]) + 1), every_round=False)


def test_a_seed_is_a_run_and_another_seed_another_with_the_same_bits() -> None:
    streams, speeds = random_streams([8] * 6), SpeedSettings(ms("5ms..50ms"), ms("1ms"), parse_stragglers("20%:5x"))

    def trace(seed: int) -> tuple[list[tuple[float, int]], list[int], str]:
        calls: list[tuple[float, int]] = []
        simulator = peers(coupled(2), streams, GRAPHS["ring"], network=BAD, speeds=speeds, seed=seed)
        simulator.run(check=lambda run, index: calls.append((run.now, index)))
        sizes = [simulator.totals_of(task).bytes_received for task in range(6)]
        return calls, sizes, digest_of_peers(simulator, 6)

    first, again, other = trace(1), trace(1), trace(2)
    assert first == again
    assert [index for _, index in first[0]] != [index for _, index in other[0]]
    assert first[2] == other[2]


def test_nodes_share_no_array_and_their_bytes_are_counted() -> None:
    """A word of 7 float64 has 56 bytes and a header; on a perfect network all that is sent arrives."""
    streams = random_streams([10] * 6)
    simulator = peers(coupled(5), streams, GRAPHS["ring"])
    simulator.run()
    totals = [simulator.totals_of(task) for task in range(6)]
    assert sum(one.lost + one.doubled + one.crashes for one in totals) == 0
    assert all(one.bytes_received > 2 * 2 * 56 for one in totals)
    late = sum(one.messages_sent for one in totals) - sum(one.messages_received for one in totals)
    assert 0 <= late <= 2 * 6  # where two goodbyes cross, both farewells find nobody
    assert sum(one.bytes_sent for one in totals) >= sum(one.bytes_received for one in totals)
    assert all(one.finished_at_s <= simulator.now for one in totals)


def test_what_is_lost_and_doubled_is_counted() -> None:
    simulator = peers(coupled(), random_streams([20] * 6), GRAPHS["full"], network=BAD)
    simulator.run()
    totals = [simulator.totals_of(task) for task in range(6)]
    sent = sum(one.messages_sent for one in totals)
    assert 0.15 < sum(one.lost for one in totals) / sent < 0.25
    assert 0.12 < sum(one.doubled for one in totals) / sent < 0.20  # 0.2 of what was not lost


# Times

ROUND_S, LATENCY_S = 0.25, 0.0625
"""Powers of two: their sums are exact."""
EXACT = {
    "network": NetworkSettings(Distribution("constant", LATENCY_S)),
    "speeds": SpeedSettings(Distribution("constant", ROUND_S)),
    "timelines": True,
}
JOINED_S = 2 * LATENCY_S
"""A Hello, and its Welcome."""


def test_a_blocking_ring_takes_a_round_and_a_latency_for_each_round() -> None:
    """Those to whom all connect start one latency before the last; from the second round on all are in step."""
    rounds = 8
    simulator = peers(coupled(), random_streams([rounds] * 6), GRAPHS["ring"], **EXACT)
    simulator.run()
    totals = [simulator.totals_of(task) for task in range(6)]
    assert [one.busy_s for one in totals] == [rounds * ROUND_S] * 6
    step_s = ROUND_S + LATENCY_S
    closed_s = JOINED_S + rounds * step_s
    assert all(closed_s - LATENCY_S <= one.finished_at_s <= closed_s + 2 * LATENCY_S for one in totals)
    # Task 5 connects to 4 and 0; it, like 1 to 4, begins with its welcome, and then waits a latency in each round.
    busy, waiting = simulator.timelines[5]
    begins = [JOINED_S + number * step_s for number in range(rounds)]
    assert list(busy) == [time for begin in begins for time in (begin, begin + ROUND_S)]
    assert list(waiting) == [time for begin in begins for time in (begin + ROUND_S, begin + step_s)]
    assert totals[5].waiting_s == rounds * LATENCY_S
    # Nobody connects later than task 0 is ready: all neighbors have said Hello. It waits once a latency longer.
    assert simulator.timelines[0].busy[0] == LATENCY_S
    assert totals[0].waiting_s == (rounds + 1) * LATENCY_S


def test_local_rounds_between_two_sync_rounds_are_computed_without_a_pause() -> None:
    simulator = peers(coupled(tau=4), random_streams([8] * 6), GRAPHS["ring"], **EXACT)
    simulator.run()
    busy, waiting = simulator.timelines[5]
    first, second = JOINED_S + 4 * ROUND_S, JOINED_S + 8 * ROUND_S + LATENCY_S
    assert list(busy) == [JOINED_S, first, first + LATENCY_S, second]
    assert list(waiting) == [first, first + LATENCY_S, second, second + LATENCY_S]


def test_central_steps_take_time_too() -> None:
    """A star's round: the workers' round, a latency, the central step, a latency."""
    rounds, central_s = 5, 0.125
    speeds = SpeedSettings(Distribution("constant", ROUND_S), Distribution("constant", central_s))
    simulator = star(central(), random_streams([rounds] * 3), **{**EXACT, "speeds": speeds})
    simulator.run()
    step_s = ROUND_S + central_s + 2 * LATENCY_S
    worker, reducer = simulator.totals_of(0), simulator.totals_of(3)
    assert worker.busy_s == rounds * ROUND_S
    assert reducer.busy_s == rounds * central_s
    assert worker.waiting_s == rounds * (central_s + 2 * LATENCY_S)
    assert worker.finished_at_s == JOINED_S + rounds * step_s + 2 * LATENCY_S  # a goodbye, and its farewell
    assert simulator.timelines[0].busy[2] == JOINED_S + step_s
    assert reducer.waiting_s == reducer.finished_at_s - reducer.busy_s


def test_a_straggler_holds_up_all_of_a_star() -> None:
    rounds = 5
    speeds = SpeedSettings(Distribution("constant", ROUND_S), stragglers=parse_stragglers("25%:4x"))
    simulator = star(central(), random_streams([rounds] * 4), **{**EXACT, "speeds": speeds})
    simulator.run()
    totals = [simulator.totals_of(worker) for worker in range(4)]
    assert sorted(one.busy_s for one in totals) == [rounds * ROUND_S] * 3 + [4 * rounds * ROUND_S]
    fast = max(totals, key=lambda one: one.waiting_s)
    slow = min(totals, key=lambda one: one.waiting_s)
    assert slow.waiting_s == rounds * 2 * LATENCY_S
    assert fast.waiting_s == rounds * (2 * LATENCY_S + 3 * ROUND_S)


def test_a_bandwidth_holds_up_the_reducer_more_than_a_ring() -> None:
    """All words of a round share the reducer's one line; in a ring each line carries two."""
    slow = NetworkSettings(Distribution("constant", LATENCY_S), bandwidth_bytes_per_s=500.0)
    took: dict[int, tuple[float, float]] = {}
    for tasks in (4, 16):
        streams = random_streams([10] * tasks)
        with_reducer = star(central(), streams, network=slow)
        with_reducer.run()
        ring = peers(coupled(), streams, graph_of("ring", tasks), network=slow)
        ring.run()
        took[tasks] = with_reducer.now, ring.now
    assert took[16][0] > 2.0 * took[4][0]
    assert took[16][1] < 1.5 * took[4][1]


def test_timelines_are_kept_only_where_they_are_asked_for() -> None:
    simulator = peers(coupled(), random_streams([3] * 6), GRAPHS["ring"], **{**EXACT, "timelines": False})
    simulator.run()
    assert simulator.timelines == []
    assert simulator.totals_of(0).busy_s == 3 * ROUND_S


# Faults


def test_a_paused_node_gets_nothing_done_and_then_all() -> None:
    """It is stopped in the middle of its third round: that ends so much later, and so does the run."""
    streams = random_streams([8] * 6)
    calm = peers(coupled(), streams, GRAPHS["ring"], **EXACT)
    calm.run()
    pause = Pause(5, JOINED_S + 2 * (ROUND_S + LATENCY_S) + ROUND_S / 2, 2.0)
    calls: list[float] = []
    stopped = peers(coupled(), streams, GRAPHS["ring"], faults=[pause], **EXACT)
    stopped.run(check=lambda run, index: calls.append(run.now) if index == 5 else None)
    assert not [now for now in calls if pause.at_s <= now < pause.at_s + 2.0]
    assert stopped.totals_of(5).busy_s == calm.totals_of(5).busy_s
    assert stopped.now == calm.now + 2.0
    # The words of its neighbors have come: it goes on with the fourth round at once, and then waits for theirs.
    assert stopped.totals_of(5).waiting_s == calm.totals_of(5).waiting_s
    end_of_fourth = pause.at_s + 2.0 + ROUND_S / 2 + ROUND_S
    assert list(stopped.timelines[5].busy[4:8]) == [
        pause.at_s - ROUND_S / 2,
        pause.at_s,
        pause.at_s + 2.0,
        end_of_fourth,
    ]
    assert digest_of_peers(stopped, 6) == digest_of_peers(calm, 6)


def test_pauses_may_overlap() -> None:
    streams = random_streams([8] * 6)
    at_s = JOINED_S + ROUND_S / 2
    faults: list[Fault] = [Pause(5, at_s, 2.0), Pause(5, at_s + 1.0, 3.0), Pause(5, at_s + 1.5, 0.5)]
    stopped = peers(coupled(), streams, GRAPHS["ring"], faults=faults, **EXACT)
    stopped.run()
    assert list(stopped.timelines[5].busy[:4]) == [JOINED_S, at_s, at_s + 4.0, at_s + 4.0 + 1.5 * ROUND_S]


def told(simulator_events: list[tuple[int, float, Event]], kind: type) -> list[tuple[int, float, Event]]:
    return [(index, at, event) for index, at, event in simulator_events if isinstance(event, kind)]


@pytest.mark.parametrize("exchange", ["blocking", "overlap", "delayed"])
def test_a_partition_that_heals_only_costs_time(exchange: str) -> None:
    streams, events = random_streams([30] * 6, flip=0.2), []
    cut = Partition((frozenset({0, 1, 2}),), 1.0, 20.0)
    network = NetworkSettings(Distribution("constant", LATENCY_S), partitions=(cut,))
    simulator = peers(
        coupled(2, exchange),
        streams,
        GRAPHS["ring"],
        exchange=exchange,
        network=network,
        speeds=SpeedSettings(Distribution("constant", ROUND_S)),
        detect_s=5.0,
        on_event=lambda index, now, event: events.append((index, now, event)),
    )
    simulator.run(most_events=20_000)
    expected = run_reference_peers(coupled(2, exchange), streams, GRAPHS["ring"], seed=0, delayed=exchange == "delayed")
    assert digest_of_peers(simulator, 6) == expected.digest
    assert simulator.now > 20.0
    assert sum(simulator.totals_of(task).lost for task in range(6)) > 0
    # In the ring 2 and 3 are cut, and 0 and 5: each hears of it, and of the end of it.
    changes = [(index, now, event.who, event.connected) for index, now, event in told(events, ConnectionChanged)]
    sides = [(2, "site-3"), (3, "site-2"), (0, "site-5"), (5, "site-0")]
    assert sorted(changes) == sorted(
        (index, now, who, up) for index, who in sides for now, up in ((6.0, False), (20.0, True))
    )


def test_a_partition_that_is_too_short_is_not_noticed() -> None:
    events: list[tuple[int, float, Event]] = []
    cut = Partition((frozenset({0}),), 0.2, 3.0)
    network = NetworkSettings(Distribution("constant", LATENCY_S), partitions=(cut,))
    simulator = star(
        central(),
        random_streams([9] * 3),
        network=network,
        speeds=SpeedSettings(Distribution("constant", ROUND_S)),
        on_event=lambda index, now, event: events.append((index, now, event)),
    )
    simulator.run()
    assert simulator.now > 3.0
    assert not told(events, ConnectionChanged)
    assert simulator.totals_of(0).lost + simulator.totals_of(3).lost > 0


def test_a_partition_that_lasts_ends_the_run_with_an_error_that_names_node_and_time() -> None:
    cut = Partition((frozenset({0}),), 0.1, math.inf)
    network = NetworkSettings(Distribution("constant", LATENCY_S), partitions=(cut,))
    simulator = star(central(), random_streams([9] * 3), network=network, timeouts=Timeouts(lost_s=30.0))
    with pytest.raises(ClusterError, match=r"^node [03] at 36\.1 s: .*lost"):
        simulator.run()


def test_other_errors_of_a_node_keep_their_kind() -> None:
    wild = drom(DromParameters(eta0=1e200, lam=0.2, rho=0.3, xi=1.0))
    with pytest.raises(DivergedError, match=r"^node \d at .* s: the learner diverged in round"):
        star(wild, random_streams([9] * 3)).run()
    streams = random_streams([3, 3])

    def make(index: int, incarnation: int, snapshot: object | None):
        if index == 2:
            return make_reducer(central(), 2, feature_digest="another")
        return make_worker(central(), streams[index], task=index)

    with pytest.raises(RejectedError, match=r"^node [01] at 0\.002 s: .*does not let this worker in"):
        Simulator(make, star_wiring(2), dim=DIM, max_vectors=1, seed=0).run()


def test_a_run_without_end_is_stopped() -> None:
    simulator = star(central(), random_streams([9] * 3))
    with pytest.raises(StuckError, match=r"no end after 40 events at .* node 0 is \w+ in round \d+ and waits for "):
        simulator.run(most_events=40)
    assert simulator.events == 41


# Crashes, with a node of our own


class State:
    value = "counting"


class Counting:
    """Sends its number to those it knows, and is done when it has counted to `goal` by its own clock of 1 s."""

    def __init__(self, dialed: Sequence[str], goal: int, snapshot: object | None, log: Callable[..., None]) -> None:
        self.state, self.round, self._dialed, self._goal, self._log = State(), 0, dialed, goal, log
        if isinstance(snapshot, int):
            self.round = snapshot
        self._outbox: list[Envelope] = []
        self._next, self._kept = 0.0, self.round
        self._rows = b""

    @property
    def finished(self) -> bool:
        return self.round >= self._goal

    def start(self, now: float) -> None:
        self._next = now + 1.0
        self._log("start", now, self.round)

    def receive(self, sender: str, message: Message, now: float) -> None:
        assert isinstance(message, Resend)
        self._log("receive", now, sender, message.round)

    def on_timer(self, now: float) -> None:
        self.round += 1
        self._rows += bytes([self.round])
        self._next = now + 1.0
        self._outbox += [Envelope(address, Resend(self.round)) for address in self._dialed]

    def next_timer(self) -> float:
        return self._next

    def on_connection(self, address: str, connected: bool, now: float) -> None:
        self._log("up" if connected else "down", now, address)

    def take_outbox(self) -> list[Envelope]:
        taken, self._outbox = self._outbox, []
        return taken

    def take_events(self) -> list[Event]:
        return []

    def take_records(self) -> bytes:
        taken, self._rows = self._rows, b""
        return taken

    def take_snapshot(self) -> object | None:
        """In every third round."""
        if self.round % 3 or self.round == self._kept:
            return None
        self._kept = self.round
        return self.round


def counting(
    *faults: Fault, goals: Sequence[int], **options
) -> tuple[Simulator, dict[int, list[tuple]], list[tuple[int, int, object]]]:
    """Node 1 connects to node 0 and says its number; 0 says nothing."""
    logs: dict[int, list[tuple]] = {0: [], 1: []}
    made: list[tuple[int, int, object]] = []

    def make(index: int, incarnation: int, snapshot: object | None):
        made.append((index, incarnation, snapshot))
        log = logs[index]
        return Counting(["zero"] if index else [], goals[index], snapshot, lambda *what: log.append(what))

    network = NetworkSettings(Distribution("constant", 0.25))
    options = {"network": network, "detect_s": 0.5, **options}
    simulator = Simulator(make, [{}, {"zero": 0}], dim=1, max_vectors=0, seed=0, faults=faults, **options)
    return simulator, logs, made


def test_a_crashed_node_comes_back_with_its_snapshot_from_a_new_address() -> None:
    simulator, logs, made = counting(Crash(1, 5.1, 3.0), goals=[15, 8])
    simulator.run()
    assert made == [(0, 0, None), (1, 0, None), (1, 1, 3)]
    assert [what for what in logs[1] if what[0] == "start"] == [("start", 0.0, 0), ("start", 8.1, 3)]
    first, second = incoming(1, 0), incoming(1, 1)
    heard = [what for what in logs[0] if what[0] != "start"]
    said_before = [("receive", number + 0.25, first, number) for number in range(1, 6)]
    said_after = [("receive", pytest.approx(5.1 + number + 0.25), second, number) for number in range(4, 9)]
    ended = ("down", pytest.approx(13.6), second)  # it has finished, and is gone
    assert heard == [*said_before, ("down", pytest.approx(5.6), first), *said_after, ended]
    assert list(simulator.records[1]) == [1, 2, 3, 4, 5, 6, 7, 8]  # 4 and 5 only as they were done again
    assert simulator.totals_of(1).crashes == 1


def test_what_is_on_its_way_to_a_crashed_node_or_comes_while_it_is_down_is_lost() -> None:
    """Said at 3, on its way at 3.1; at 4 and 5 it is down; it is back at 5.5."""
    simulator, logs, made = counting(Crash(0, 3.1, 2.4), goals=[9, 9])
    simulator.run()
    assert [what[3] for what in logs[0] if what[0] == "receive"] == [1, 2, 6, 7, 8, 9]
    assert simulator.totals_of(0).lost == 3
    assert made[-1] == (0, 1, 3)
    # Who has opened the connection hears that it is down, and that it is up again, by the address that it knows.
    assert logs[1] == [("start", 0.0, 0), ("down", pytest.approx(3.6), "zero"), ("up", pytest.approx(5.5), "zero")]


def test_a_node_that_is_back_at_once_was_away_nevertheless() -> None:
    simulator, logs, _ = counting(Crash(0, 3.1, 0.125), goals=[9, 9])
    simulator.run()
    assert [what[0] for what in logs[1]] == ["start", "down", "up"]
    assert logs[1][1][1] == logs[1][2][1] == 3.225
    other, logs, _ = counting(Crash(1, 3.1, 0.125), goals=[9, 9])
    other.run()
    downs = [what for what in logs[0] if what[0] == "down"]
    assert downs == [("down", pytest.approx(3.6), incoming(1, 0))]  # its new connection is another one
    assert not [what for what in logs[0] if what[0] == "up"]


def test_what_was_computed_but_not_said_is_lost_with_the_node() -> None:
    """A round begins in every second and takes 0.75 s. The state after the third is kept when that is over."""
    simulator, logs, made = counting(
        Crash(1, 4.5, 1.0), goals=[15, 4], speeds=SpeedSettings(Distribution("constant", 0.75))
    )
    simulator.run()
    assert made[-1] == (1, 1, 3)
    assert [what[3] for what in logs[0] if what[0] == "receive"] == [1, 2, 3, 4]
    simulator, logs, made = counting(
        Crash(1, 3.5, 1.0), goals=[15, 4], speeds=SpeedSettings(Distribution("constant", 0.75))
    )
    simulator.run()
    assert made[-1] == (1, 1, None)
    assert [what[3] for what in logs[0] if what[0] == "receive"] == [1, 2, 1, 2, 3, 4]
    assert simulator.totals_of(1).busy_s == 2 * 0.75 + 0.5 + 4 * 0.75
    assert list(simulator.records[1]) == [1, 2, 3, 4]


def test_a_node_that_has_finished_no_longer_fails() -> None:
    simulator, _, made = counting(Crash(1, 5.0, 1.0), Pause(1, 5.0, 100.0), goals=[8, 3])
    simulator.run()
    assert len(made) == 2
    assert simulator.now == 8.0


def test_nobody_left_to_do_anything_is_an_error_that_names_them() -> None:
    simulator, _, _ = counting(Crash(1, 2.0, math.inf), goals=[4, 8])
    with pytest.raises(StuckError, match=r"^nothing is left to happen at 4 s, but node 1 is down$"):
        simulator.run()


def test_crashes_and_pauses_of_both_leave_each_record_once() -> None:
    faults = [Crash(node, at, back) for node, at, back in ((0, 1.5, 0.2), (1, 2.2, 4.0), (0, 4.4, 2.0), (1, 9.3, 0.1))]
    simulator, _, made = counting(*faults, Pause(1, 8.0, 1.0), Pause(0, 3.0, 1.0), goals=[12, 12])
    simulator.run()
    assert [list(rows) for rows in simulator.records] == [list(range(1, 13))] * 2
    assert Counter(index for index, _, _ in made) == {0: 3, 1: 3}


# The checks


class Still:
    """As much of a simulator as a check looks at."""

    now = 0.0

    def __init__(self, rounds: Sequence[int], closed: int | None = None) -> None:
        self.rounds, self.closed, self.crashed = list(rounds), closed, False

    def node(self, index: int):
        peer = make_peer(coupled(), random_streams([9])[0], graph_of("path", 2), task=0)
        peer.round = self.rounds[index] if index < len(self.rounds) else 0
        peer.closed_rounds = self.closed  # type: ignore[attr-defined]
        return peer

    def totals_of(self, index: int):
        return type("Totals", (), {"crashes": int(self.crashed)})


@pytest.mark.parametrize(
    ("rounds", "closed", "fine"),
    [
        ([1, 1], 0, True),
        ([2, 1], 1, True),
        ([2, 1], 0, False),
        ([1, 3], 2, False),
        ([3, 3], 3, True),
        ([1, 9], 9, True),
    ],
)
def test_the_star_checks_see_who_is_too_far(rounds: list[int], closed: int, fine: bool) -> None:
    check, still = StarChecks([1, 9]), Still(rounds, closed)
    if rounds == [1, 3]:
        check = StarChecks([9, 9])
    for last in range(max(rounds) + 1):  # come there in steps of one
        still.rounds = [min(last, number) for number in rounds]
        still.closed = min(last, closed)
        if last < max(rounds):
            check._order.look(still, 0, still.rounds[0])  # type: ignore[arg-type]
            check._order.look(still, 1, still.rounds[1])  # type: ignore[arg-type]
    if fine:
        check(still, 0)  # type: ignore[arg-type]
        check(still, 1)  # type: ignore[arg-type]
    else:
        with pytest.raises(AssertionError, match=r"^node [01] at 0 s: in round \d; \d are closed"):
            [check(still, index) for index in (0, 1)]  # type: ignore[arg-type]


def test_the_peers_checks_see_who_is_too_far_or_out_of_order() -> None:
    def check(rounds: Sequence[int], before: int, delayed: bool = False, crashed: bool = False) -> None:
        checks = PeersChecks([[1], [0]], [9, 9], lambda t: t % 2 == 0, delayed=delayed)
        checks._order._last[0] = before
        still = Still(rounds)
        still.crashed = crashed
        checks(still, 0)  # type: ignore[arg-type]

    check([4, 3], 3)
    check([5, 2], 4)
    with pytest.raises(AssertionError, match="node 0 at 0 s: 2 sync rounds ahead of node 1"):
        check([4, 1], 3)
    check([4, 1], 3, delayed=True)
    check([9, 9], 8)
    with pytest.raises(AssertionError, match="in round 5 after 3"):
        check([5, 5], 3)
    with pytest.raises(AssertionError, match="in round 2 after 3"):
        check([2, 2], 3)
    check([2, 2], 3, crashed=True)


def test_records_out_of_order_are_seen() -> None:
    streams = random_streams([6, 6])
    rows = run_reference(central(), streams, seed=0).task_records[0]
    size = TASK_DTYPE.itemsize
    check_records(rows, TASK_DTYPE, every_round=True)
    check_records(rows[size:], TASK_DTYPE, every_round=False)
    for wrong in (rows[size:], rows[:size] + rows, rows[: 2 * size] + rows[3 * size :]):
        with pytest.raises(AssertionError, match=r"round \d is recorded after \d"):
            check_records(wrong, TASK_DTYPE, every_round=True)
    with pytest.raises(AssertionError, match="round 1 is recorded after 1"):
        check_records(rows[:size] + rows, TASK_DTYPE, every_round=False)
