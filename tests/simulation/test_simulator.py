"""The nodes on a virtual clock: the bits of the plain loop, times that can be worked out by hand, and faults."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import graph_of, hoods_of, random_streams, run_loop
from peers_harness import make_peer
from simulated_harness import (
    BAD,
    central,
    coupled,
    digest_of_peers,
    digest_of_star,
    every,
    last_rounds,
    peers,
    star,
    times_of,
    waits_of,
)
from star_harness import DIM, RUN_ID, make_reducer, make_worker

from drom_net.algorithms.base import Contribution, ContributionKind
from drom_net.algorithms.drom import DromParameters, drom
from drom_net.core.errors import ClusterError, DivergedError, RejectedError
from drom_net.learning.records import TASK_DTYPE, central_dtype
from drom_net.learning.reference import run_reference
from drom_net.protocol.codec import encode
from drom_net.protocol.messages import Message, Push, Resend, Welcome
from drom_net.protocol.node import ConnectionChanged, Envelope, Event
from drom_net.protocol.settings import Timeouts
from drom_net.protocol.states import PeerState
from drom_net.simulation.checks import PeersChecks, StarChecks, check_records
from drom_net.simulation.faults import Crash, Fault, Pause
from drom_net.simulation.network import Distribution, NetworkSettings, Partition
from drom_net.simulation.simulator import Simulator, StuckError
from drom_net.simulation.wiring import incoming, star_wiring

LENGTHS = [30, 9, 24, 30, 13, 41]
GRAPHS = {
    "ring": graph_of("ring", 6),
    "full": graph_of("full", 6),
    "grid": graph_of("grid", 6, rows=2, columns=3),
}
EXCHANGES = ("blocking", "overlap", "delayed")
ms = Distribution.parse


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
@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("tau", [1, 5])
@pytest.mark.parametrize("graph", GRAPHS)
def test_peers_give_the_bits_of_the_plain_loop(graph: str, tau: int, exchange: str, network: NetworkSettings) -> None:
    streams, algorithm, delayed = random_streams(LENGTHS, flip=0.2), coupled(tau), exchange == "delayed"
    hoods = hoods_of(GRAPHS[graph], [algorithm] * 6)
    simulator = peers(algorithm, streams, GRAPHS[graph], exchange=exchange, network=network)
    assert simulator.run(most_events=50_000, check=PeersChecks(hoods, delayed=delayed))
    expected = run_loop(algorithm, streams, GRAPHS[graph], seed=0, delayed=delayed)
    assert digest_of_peers(simulator, 6) == expected.digest
    assert [bytes(rows) for rows in simulator.records] == list(expected.task_records)
    assert [bytes(rows) for rows in simulator.central_records] == list(expected.central_records)
    for task in range(6):
        check_records(simulator.records[task], TASK_DTYPE, every_round=True)
        m = len(hoods[task].closed_neighborhood)
        check_records(simulator.central_records[task], central_dtype(m), every_round=False)


def test_a_seed_is_a_run_and_another_seed_another_with_the_same_bits() -> None:
    streams, paces = random_streams([8] * 6), every(0.02, [1, 1, 5, 1, 1, 1])

    def trace(seed: int) -> tuple[list[tuple[float, int]], list[int], str]:
        calls: list[tuple[float, int]] = []
        options = {"paces": paces, "central_s": ms("1ms..3ms"), "seed": seed}
        simulator = peers(coupled(2), streams, GRAPHS["ring"], network=BAD, **options)
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
JOINED_S = 2 * LATENCY_S
"""A Hello, and its Welcome."""


def link(latency_s: float = LATENCY_S, **more: object) -> NetworkSettings:
    return NetworkSettings(Distribution("constant", latency_s), **more)  # type: ignore[arg-type]


EXACT = {"network": link(), "paces": every(ROUND_S, [1.0] * 6)}


def test_a_blocking_ring_takes_a_round_and_a_latency_for_each_round() -> None:
    """Those to whom all connect start one latency before the last; from the second round on all are in step."""
    rounds = 8
    simulator = peers(coupled(), random_streams([rounds] * 6), GRAPHS["ring"], **EXACT)
    simulator.run()
    step_s = ROUND_S + LATENCY_S
    closed_s = JOINED_S + rounds * step_s
    finished = [simulator.totals_of(task).finished_at_s for task in range(6)]
    assert all(closed_s - LATENCY_S <= at <= closed_s + 2 * LATENCY_S for at in finished)
    # Task 5 connects to 4 and 0; it, like 1 to 4, begins with its welcome, and then waits a latency in each round.
    rows = times_of(simulator, 5)
    assert rows["round"].tolist() == list(range(1, rounds + 1))
    said = [JOINED_S + number * step_s + ROUND_S for number in range(rounds)]
    assert rows["sent_s"].tolist() == rows["idle_s"].tolist() == said
    assert rows["closed_s"].tolist() == [at + LATENCY_S for at in said]
    # Nobody connects later than task 0 is ready: all neighbors have said Hello. It waits once a latency longer.
    assert times_of(simulator, 0)["sent_s"][0] == LATENCY_S + ROUND_S
    assert waits_of(simulator, 0) == [2 * LATENCY_S] + [LATENCY_S] * (rounds - 1)


@pytest.mark.parametrize("tau", [1, 4])
@pytest.mark.parametrize("latency_s", [ROUND_S / 4, 1.5 * ROUND_S, 4 * ROUND_S], ids="latency {}".format)
def test_a_blocking_exchange_costs_a_latency_in_each_sync_round(latency_s: float, tau: int) -> None:
    """Local rounds between two sync rounds are computed without a pause."""
    simulator = peers(
        coupled(tau), random_streams([8] * 6), GRAPHS["ring"], network=link(latency_s), paces=EXACT["paces"]
    )
    simulator.run()
    rows, syncs = times_of(simulator, 5), 8 // tau
    assert rows["round"].tolist() == list(range(tau, 9, tau))
    step_s = tau * ROUND_S + latency_s
    assert rows["closed_s"].tolist() == [2 * latency_s + number * step_s for number in range(1, syncs + 1)]
    assert waits_of(simulator, 5) == [latency_s] * syncs


@pytest.mark.parametrize("tau", [1, 4])
@pytest.mark.parametrize("latency_s", [ROUND_S / 4, ROUND_S, 1.5 * ROUND_S, 4 * ROUND_S], ids="latency {}".format)
def test_overlap_hides_a_latency_behind_the_next_round(latency_s: float, tau: int) -> None:
    """From one word to the next it takes the rounds between, or their first one does not wait for the latency."""
    simulator = peers(
        coupled(tau),
        random_streams([8] * 6),
        GRAPHS["ring"],
        exchange="overlap",
        network=link(latency_s),
        paces=EXACT["paces"],
    )
    simulator.run()
    rows, syncs = times_of(simulator, 5), 8 // tau
    step_s = (tau - 1) * ROUND_S + max(ROUND_S, latency_s)
    first_s = 2 * latency_s + tau * ROUND_S
    assert rows["sent_s"].tolist() == [first_s + number * step_s for number in range(syncs)]
    # With the last word there is no next round behind which to wait.
    hidden = max(0.0, latency_s - ROUND_S)
    assert waits_of(simulator, 5) == [hidden] * (syncs - 1) + [latency_s]


@pytest.mark.parametrize("tau", [1, 4])
@pytest.mark.parametrize("latency_s", [ROUND_S / 4, ROUND_S, 1.5 * ROUND_S, 4 * ROUND_S], ids="latency {}".format)
def test_a_delayed_exchange_hides_a_latency_of_up_to_tau_rounds(latency_s: float, tau: int) -> None:
    """Words are used one sync round later: whoever waited for one has the next one in time."""
    rounds = 8 * tau
    simulator = peers(
        coupled(tau),
        random_streams([rounds] * 6),
        GRAPHS["ring"],
        exchange="delayed",
        network=link(latency_s),
        paces=EXACT["paces"],
    )
    simulator.run()
    rows = times_of(simulator, 5)
    said, closed, words = [], [], []
    now = 2 * latency_s
    for _ in range(8):
        said.append(now + tau * ROUND_S)
        now = max(said[-1], words[-1] + latency_s) if words else said[-1]
        words.append(said[-1])
        closed.append(now)
    assert rows["sent_s"].tolist() == said
    assert rows["closed_s"].tolist() == closed
    if latency_s <= tau * ROUND_S:
        assert waits_of(simulator, 5) == [0.0] * 8
        assert closed[-1] == 2 * latency_s + rounds * ROUND_S
    else:
        too_long = latency_s - tau * ROUND_S
        assert waits_of(simulator, 5) == [0.0, too_long] * 4
        assert closed[-1] == 2 * latency_s + rounds * ROUND_S + 4 * too_long


def test_exchanges_are_ever_faster() -> None:
    """And none changes how much is said."""
    took, sent = [], []
    for exchange in EXCHANGES:
        options = {"network": link(4 * ROUND_S), "paces": EXACT["paces"], "timeouts": Timeouts(resend_after_s=100.0)}
        simulator = peers(coupled(4), random_streams([40] * 6), GRAPHS["grid"], exchange=exchange, **options)
        simulator.run()
        took.append(simulator.now)
        sent.append(sum(simulator.totals_of(task).bytes_sent for task in range(6)))
    assert took[0] > took[1] > took[2]
    assert min(sent) > 0.9 * max(sent)


def test_central_steps_take_time_too() -> None:
    """A star's round: the workers' round, a latency, the central step, a latency."""
    rounds, central_s = 5, 0.125
    simulator = star(central(), random_streams([rounds] * 3), central_s=Distribution("constant", central_s), **EXACT)
    simulator.run()
    step_s = ROUND_S + central_s + 2 * LATENCY_S
    worker, reducer = simulator.totals_of(0), simulator.totals_of(3)
    assert (worker.central_s, reducer.central_s) == (0.0, rounds * central_s)
    assert waits_of(simulator, 0) == [central_s + 2 * LATENCY_S] * rounds
    assert times_of(simulator, 0)["sent_s"][1] == JOINED_S + step_s + ROUND_S
    assert worker.finished_at_s == JOINED_S + rounds * step_s + 2 * LATENCY_S  # a goodbye, and its farewell
    assert len(simulator.times[3]) == 0


def test_a_peer_makes_its_central_step_while_its_next_example_comes() -> None:
    rounds, central_s, factor = 6, 0.125, 4.0
    simulator = peers(
        coupled(),
        random_streams([rounds] * 6),
        GRAPHS["full"],
        central_s=Distribution("constant", central_s),
        factors=[1.0] * 5 + [factor],
        **EXACT,
    )
    simulator.run()
    assert [simulator.totals_of(task).central_s for task in range(6)] == [rounds * central_s] * 5 + [
        rounds * central_s * factor
    ]
    # Task 5 is busy with its step for longer than a round takes: words come meanwhile, and it waits once only.
    step_s = factor * central_s
    assert step_s > ROUND_S + 2 * LATENCY_S
    said = times_of(simulator, 5)["sent_s"].tolist()
    assert said == [JOINED_S + ROUND_S, *(JOINED_S + ROUND_S + LATENCY_S + k * step_s for k in range(1, rounds))]


def test_a_straggler_holds_up_all_of_a_star() -> None:
    rounds = 5
    paces = every(ROUND_S, [1.0, 5.0, 1.0, 1.0])
    simulator = star(central(), random_streams([rounds] * 4), network=link(), paces=paces)
    simulator.run()
    assert waits_of(simulator, 1) == [2 * LATENCY_S] * rounds
    for task in (0, 2, 3):
        assert waits_of(simulator, task) == [2 * LATENCY_S + 4 * ROUND_S] * rounds
    assert times_of(simulator, 0)["closed_s"][-1] == JOINED_S + rounds * (5 * ROUND_S + 2 * LATENCY_S)


def test_a_straggler_in_a_ring_is_felt_one_neighbor_further_in_each_round() -> None:
    rounds = 8
    simulator = peers(
        coupled(),
        random_streams([rounds] * 6),
        GRAPHS["ring"],
        network=link(),
        paces=every(ROUND_S, [1, 1, 5, 1, 1, 1]),
    )
    simulator.run()
    waits = [waits_of(simulator, task) for task in range(6)]
    held_up = [next(k for k, wait in enumerate(waits[task]) if wait > 2 * LATENCY_S) for task in (1, 3, 0, 4, 5)]
    assert held_up == [0, 0, 1, 1, 2]  # by how far they are from it
    assert waits[2][1:] == [0.0] * (rounds - 1)  # the words of all others are there before its own


def test_a_bandwidth_holds_up_the_reducer_more_than_a_ring() -> None:
    """All words of a round share the reducer's one line; in a ring each line carries two."""
    slow = link(bandwidth_bytes_per_s=500.0)
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


def test_a_word_takes_its_bytes_at_the_bandwidth_and_a_latency() -> None:
    """A peer begins with a Hello, and its neighbor a Welcome later: it has waited for that and for a word."""
    bytes_per_s = 1024.0
    word = Contribution(ContributionKind.VECTORS, (np.zeros(DIM),), last=True)
    sizes = [sum(len(bytes(frame)) for frame in encode(message)) for message in (Welcome(RUN_ID), Push(1, word))]
    assert sizes[1] > 8 * DIM
    for network, transfer_s in (
        (link(), 0.0),
        (link(bandwidth_bytes_per_s=bytes_per_s), sum(sizes) / bytes_per_s),
    ):
        streams, paces = random_streams([1, 1]), every(ROUND_S, [1, 1])
        simulator = peers(coupled(), streams, graph_of("path", 2), network=network, paces=paces)
        simulator.run()
        assert waits_of(simulator, 0) == [pytest.approx(2 * LATENCY_S + transfer_s)]


# Faults


def test_a_paused_node_gets_nothing_done_and_then_all() -> None:
    """It is stopped in the middle of its third round, and its example comes meanwhile: the run ends so much later."""
    streams = random_streams([8] * 6)
    calm = peers(coupled(), streams, GRAPHS["ring"], **EXACT)
    calm.run()
    pause = Pause(5, JOINED_S + 2 * (ROUND_S + LATENCY_S) + ROUND_S / 2, 2.0)
    calls: list[float] = []
    stopped = peers(coupled(), streams, GRAPHS["ring"], faults=[pause], **EXACT)
    stopped.run(check=lambda run, index: calls.append(run.now) if index == 5 else None)
    back_s = pause.at_s + 2.0
    assert not [now for now in calls if pause.at_s <= now < back_s]
    assert stopped.now == calm.now + 2.0 - ROUND_S / 2
    # The words of its neighbors have come: it closes the round at once, and then waits twice as long
    # for their next ones: from now on it is they who have its words in time.
    rows = times_of(stopped, 5)
    assert rows["sent_s"][2:4].tolist() == [back_s, back_s + ROUND_S]
    assert waits_of(stopped, 5) == [LATENCY_S, LATENCY_S, *[0.0, 2 * LATENCY_S] * 3]
    assert stopped.totals_of(5).central_s == 0.0
    assert digest_of_peers(stopped, 6) == digest_of_peers(calm, 6)


def test_a_pause_holds_up_a_central_step() -> None:
    """It is stopped in the middle of a step: what is left of that is done afterwards."""
    central_s = 0.125
    options = {"central_s": Distribution("constant", central_s), **EXACT}
    streams = random_streams([5] * 3)
    calm = star(central(), streams, **options)
    calm.run()
    pause = Pause(3, JOINED_S + ROUND_S + LATENCY_S + central_s / 2, 2.0)
    stopped = star(central(), streams, faults=[pause], **options)
    stopped.run()
    assert stopped.now == calm.now + 2.0
    assert stopped.totals_of(3).central_s == calm.totals_of(3).central_s == 5 * central_s
    assert waits_of(stopped, 0) == [central_s + 2 * LATENCY_S + 2.0, *[central_s + 2 * LATENCY_S] * 4]


def test_pauses_may_overlap() -> None:
    streams = random_streams([8] * 6)
    at_s = JOINED_S + ROUND_S / 2
    faults: list[Fault] = [Pause(5, at_s, 2.0), Pause(5, at_s + 1.0, 3.0), Pause(5, at_s + 1.5, 0.5)]
    stopped = peers(coupled(), streams, GRAPHS["ring"], faults=faults, **EXACT)
    stopped.run()
    assert times_of(stopped, 5)["sent_s"][:2].tolist() == [at_s + 4.0, at_s + 4.0 + ROUND_S]


def told(simulator_events: list[tuple[int, float, Event]], kind: type) -> list[tuple[int, float, Event]]:
    return [(index, at, event) for index, at, event in simulator_events if isinstance(event, kind)]


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_partition_that_heals_only_costs_time(exchange: str) -> None:
    streams, events = random_streams([30] * 6, flip=0.2), []
    cut = Partition((frozenset({0, 1, 2}),), 1.0, 20.0)
    network = link(partitions=(cut,))
    simulator = peers(
        coupled(2),
        streams,
        GRAPHS["ring"],
        exchange=exchange,
        network=network,
        paces=EXACT["paces"],
        detect_s=5.0,
        on_event=lambda index, now, event: events.append((index, now, event)),
    )
    simulator.run(most_events=20_000)
    expected = run_loop(coupled(2), streams, GRAPHS["ring"], seed=0, delayed=exchange == "delayed")
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
    network = link(partitions=(cut,))
    simulator = star(
        central(),
        random_streams([9] * 3),
        network=network,
        paces=EXACT["paces"],
        on_event=lambda index, now, event: events.append((index, now, event)),
    )
    simulator.run()
    assert simulator.now > 3.0
    assert not told(events, ConnectionChanged)
    assert simulator.totals_of(0).lost + simulator.totals_of(3).lost > 0


def test_a_partition_that_lasts_ends_the_run_with_an_error_that_names_node_and_time() -> None:
    cut = Partition((frozenset({0}),), 0.1, math.inf)
    network = link(partitions=(cut,))
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
        Simulator(make, star_wiring(2), dim=DIM, seed=0).run()


def test_a_run_without_end_is_stopped() -> None:
    simulator = star(central(), random_streams([9] * 3))
    with pytest.raises(StuckError, match=r"no end after 40 events at .* node 0 is \w+ in round \d+ and waits for "):
        simulator.run(most_events=40)
    assert simulator.events == 41


# Crashes, with a node of our own


class State:
    value = "counting"


class Counting:
    """Sends its number to those it knows, and is done when it has counted to `goal` by its own clock of 1 s.

    To the simulator each count is a central step.
    """

    max_vectors = 0

    def __init__(self, dialed: Sequence[str], goal: int, snapshot: object | None, log: Callable[..., None]) -> None:
        self.state, self.round, self._dialed, self._goal, self._log = State(), 0, dialed, goal, log
        if isinstance(snapshot, dict):
            self.round = snapshot["round"]
        self._outbox: list[Envelope] = []
        self._next, self._kept = 0.0, self.round
        self._rows = b""

    @property
    def finished(self) -> bool:
        return self.round >= self._goal

    @property
    def central_steps(self) -> int:
        return self.round

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

    def take_times(self) -> bytes:
        return b""

    @property
    def row_types(self) -> dict[str, object]:
        return {"records": np.dtype([("round", "u1")])}

    @property
    def recorded(self) -> dict[str, int]:
        return {"records": self.round}

    def take_snapshot(self) -> object | None:
        """In every third round."""
        if self.round % 3 or self.round == self._kept:
            return None
        self._kept = self.round
        return {"round": self.round}

    def snapshot_persisted(self, now: float) -> None:
        self._log("kept", now, self._kept)


def counting(
    *faults: Fault, goals: Sequence[int], **options
) -> tuple[Simulator, dict[int, list[tuple]], list[tuple[int, int, object]]]:
    """Node 1 connects to node 0 and says its number; 0 says nothing. `logs` is without what was kept."""
    logs: dict[int, list[tuple]] = {0: [], 1: []}
    kept: list[tuple] = []
    made: list[tuple[int, int, object]] = []

    def make(index: int, incarnation: int, snapshot: object | None):
        made.append((index, incarnation, snapshot))
        log = logs[index]
        tells = lambda *what: (kept if what[0] == "kept" else log).append(what)  # noqa: E731
        return Counting(["zero"] if index else [], goals[index], snapshot, tells)

    network = NetworkSettings(Distribution("constant", 0.25))
    options = {"network": network, "detect_s": 0.5, **options}
    simulator = Simulator(make, [{}, {"zero": 0}], dim=1, seed=0, faults=faults, **options)
    return simulator, logs, made


def test_a_crashed_node_comes_back_with_its_snapshot_from_a_new_address() -> None:
    simulator, logs, made = counting(Crash(1, 5.1, 3.0), goals=[15, 8])
    simulator.run()
    assert made == [(0, 0, None), (1, 0, None), (1, 1, {"round": 3})]
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
    assert made[-1] == (0, 1, {"round": 3})
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
    simulator, logs, made = counting(Crash(1, 4.5, 1.0), goals=[15, 4], central_s=Distribution("constant", 0.75))
    simulator.run()
    assert made[-1] == (1, 1, {"round": 3})
    assert [what[3] for what in logs[0] if what[0] == "receive"] == [1, 2, 3, 4]
    simulator, logs, made = counting(Crash(1, 3.5, 1.0), goals=[15, 4], central_s=Distribution("constant", 0.75))
    simulator.run()
    assert made[-1] == (1, 1, None)
    assert [what[3] for what in logs[0] if what[0] == "receive"] == [1, 2, 1, 2, 3, 4]
    assert simulator.totals_of(1).central_s == 2 * 0.75 + 0.5 + 4 * 0.75
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
    """As much of a simulator as a check looks at: tasks in these rounds, and a reducer that has closed so many."""

    now = 0.0

    def __init__(self, rounds: Sequence[int], closed: int = 0) -> None:
        self.nodes = [
            SimpleNamespace(round=number, durable_round=number - 1, history=SimpleNamespace(pushes={}))
            for number in rounds
        ]
        self.nodes.append(SimpleNamespace(closed_rounds=closed, history=SimpleNamespace(forgotten=0), durable_round=99))
        self.crashed = False

    def node(self, index: int) -> SimpleNamespace:
        return self.nodes[index]

    def totals_of(self, index: int) -> SimpleNamespace:
        return SimpleNamespace(crashes=int(self.crashed))


@pytest.mark.parametrize(
    ("rounds", "closed", "fine"),
    [
        ([1, 1], 0, True),
        ([2, 1], 1, True),
        ([2, 1], 0, False),
        ([3, 3], 3, True),
        ([4, 3], 4, False),
        ([9, 9], 9, True),
        ([9, 3], 9, False),
    ],
)
def test_the_star_checks_see_who_is_too_far(rounds: list[int], closed: int, fine: bool) -> None:
    """No worker is ahead of the reducer, nor left behind by it."""

    def look(check: StarChecks, rounds: Sequence[int], closed: int) -> None:
        check._order._last = [*rounds, closed]
        for index in (0, 1):
            check(Still(rounds, closed), index)  # type: ignore[arg-type]

    if fine:
        look(StarChecks([9, 9]), rounds, closed)
    else:
        with pytest.raises(AssertionError, match=r"^node [01] at 0 s: in round \d; \d are closed"):
            look(StarChecks([9, 9]), rounds, closed)
    look(StarChecks(rounds), rounds, max(closed, *(number - 1 for number in rounds)))  # who has ended is not behind
    look(StarChecks([9, 9], in_step=False), rounds, closed)  # without sync rounds nobody is


def test_the_star_checks_let_one_that_was_away_lose_rounds_that_it_can_hear_again() -> None:
    def look(closed: int, crashed: bool, forgotten: int = 0) -> None:
        check, still = StarChecks([9]), Still([3], closed)
        still.crashed = crashed
        still.nodes[-1].history.forgotten = forgotten
        check._order._last = [3, closed]
        check(still, 0)  # type: ignore[arg-type]

    for closed in (4, 5, 9):
        look(closed, crashed=True)
        with pytest.raises(AssertionError, match=f"node 0 at 0 s: in round 3; {closed} are closed already"):
            look(closed, crashed=False)
    look(5, crashed=True, forgotten=2)
    with pytest.raises(AssertionError, match="node 0 at 0 s: 3 rounds are forgotten; it has kept 2"):
        look(5, crashed=True, forgotten=3)


def test_the_star_checks_see_that_a_worker_keeps_what_its_reducer_would_need() -> None:
    def look(durable: int, kept: Sequence[int]) -> None:
        check, still = StarChecks([9]), Still([4], 3)
        still.nodes[0].history.pushes = dict.fromkeys(kept)
        still.nodes[-1].durable_round = durable
        check._order._last = [4, 3]
        check(still, 0)  # type: ignore[arg-type]

    look(0, [1, 2, 3, 4])
    look(2, [3, 4])
    look(2, [2, 3, 4])
    with pytest.raises(AssertionError, match="node 0 at 0 s: keeping no push of round 3"):
        look(2, [4])


def look_at_peers(
    rounds: tuple[int, int],
    before: int,
    *,
    delayed: bool = False,
    crashed: bool = False,
    state: PeerState = PeerState.STEPPING,
    last: int | None = None,
    words: int = 0,
) -> None:
    """Check the first of two peers (tau 2) in these rounds; it was in round `before`."""
    hoods = hoods_of(graph_of("path", 2), [coupled(2)] * 2)
    peer = make_peer(coupled(2), random_streams([9])[0], hoods[0], num_tasks=2)
    peer.round, peer.state = rounds[0], state
    peer.session.members[1].last = last
    peer.session.members[1].contributions = dict.fromkeys(range(words))  # type: ignore[arg-type]
    still = Still(rounds)
    still.nodes[0], still.crashed = peer, crashed  # type: ignore[call-overload]
    checks = PeersChecks(hoods, delayed=delayed)
    checks._order._last[0] = before
    checks(still, 0)  # type: ignore[arg-type]


def test_the_peers_checks_see_who_uses_a_word_that_was_not_said() -> None:
    look_at_peers((4, 4), 3)
    look_at_peers((5, 4), 4)
    with pytest.raises(AssertionError, match="node 0 at 0 s: using node 1's contribution of round 4"):
        look_at_peers((4, 3), 3)
    look_at_peers((4, 3), 3, state=PeerState.WAITING)  # for that word
    look_at_peers((4, 2), 3, delayed=True)
    with pytest.raises(AssertionError, match="using node 1's contribution of round 2"):
        look_at_peers((4, 1), 3, delayed=True)
    look_at_peers((4, 1), 3, last=1)  # its last word was of round 2, said when its stream had ended


def test_the_peers_checks_see_rounds_out_of_order_and_too_many_words() -> None:
    with pytest.raises(AssertionError, match="in round 5 after 3"):
        look_at_peers((5, 5), 3)
    with pytest.raises(AssertionError, match="in round 2 after 3"):
        look_at_peers((2, 2), 3)
    look_at_peers((2, 2), 3, crashed=True)
    with pytest.raises(AssertionError, match="back in round 5 after 3"):
        look_at_peers((5, 5), 3, crashed=True)
    look_at_peers((4, 4), 3, words=5)
    with pytest.raises(AssertionError, match="keeping 6 contributions of node 1"):
        look_at_peers((4, 4), 3, words=6)


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
