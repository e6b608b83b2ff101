"""Real nodes that crash and come back from their snapshots: the bits and the records of the plain loop."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import pytest
from helpers import graph_of, hoods_of, random_streams, run_loop
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
)

from drom_net.core.errors import ClusterError
from drom_net.data.stream import TaskStream
from drom_net.learning.reference import PeersResult, ReferenceResult, run_reference
from drom_net.protocol.settings import Checkpoints, Timeouts
from drom_net.simulation.checks import PeersChecks, StarChecks
from drom_net.simulation.faults import Crash, Fault
from drom_net.simulation.network import Distribution, NetworkSettings
from drom_net.simulation.simulator import Simulator

EXCHANGES = ("blocking", "overlap", "delayed")
LENGTHS = (5, 2, 4, 6)
"""Of the nodes' streams: some end early."""
AWAY_S = (0.0, 0.05, 2.0)
"""Back before anybody has noticed, soon after, and long after."""
OPTIONS: dict[str, Any] = {
    "network": NetworkSettings(Distribution.parse("5ms..60ms")),
    "paces": every(0.02, [1.0, 2.0, 1.0, 1.0]),
    "detect_s": 0.1,
}
REDUCER = len(LENGTHS)
RING = graph_of("ring", len(LENGTHS))
TAU = 2


@cache
def streams() -> list[TaskStream]:
    return random_streams(LENGTHS, flip=0.2)


@cache
def star_of_the_loop() -> ReferenceResult:
    return run_reference(central(), streams(), seed=0)


@cache
def peers_of_the_loop(delayed: bool) -> PeersResult:
    return run_loop(coupled(TAU), streams(), RING, seed=0, delayed=delayed)


def run_star(*faults: Fault, **options: object) -> Simulator:
    """To the end, with the invariants checked after every event, and all that is left compared with the plain loop."""
    simulator = star(central(), streams(), faults=faults, **{**OPTIONS, **options})
    assert simulator.run(most_events=20_000, check=StarChecks(last_rounds(streams()))), faults
    expected = star_of_the_loop()
    assert digest_of_star(simulator, REDUCER) == expected.digest, faults
    assert [bytes(rows) for rows in simulator.records] == [*expected.task_records, expected.central_records], faults
    return simulator


def run_ring(exchange: str, *faults: Fault, **options: object) -> Simulator:
    simulator = peers(coupled(TAU), streams(), RING, exchange=exchange, faults=faults, **{**OPTIONS, **options})
    delayed = exchange == "delayed"
    checks = PeersChecks(hoods_of(RING, [coupled(TAU)] * len(LENGTHS)), delayed=delayed)
    assert simulator.run(most_events=20_000, check=checks), faults
    expected = peers_of_the_loop(delayed)
    assert digest_of_peers(simulator, len(LENGTHS)) == expected.digest, faults
    assert [bytes(rows) for rows in simulator.records] == list(expected.task_records), faults
    assert [bytes(rows) for rows in simulator.central_records] == list(expected.central_records), faults
    return simulator


@cache
def moments(exchange: str) -> tuple[float, ...]:
    """When anything happens in a calm run: of a ring, or of the star."""
    if exchange == "star":
        calm = star(central(), streams(), **OPTIONS)
    else:
        calm = peers(coupled(TAU), streams(), RING, exchange=exchange, **OPTIONS)
    found: list[float] = []
    calm.run(check=lambda run, index: found.append(run.now))
    return tuple(sorted(set(found)))


def just_after(moment: float) -> float:
    """A fault of that very time strikes before what else happens then."""
    return math.nextafter(moment, math.inf)


@pytest.mark.parametrize("node", range(len(LENGTHS) + 1))
def test_a_crash_at_any_event_of_a_star_changes_no_bit(node: int) -> None:
    """decisions.md: a node that comes back from its snapshot goes on with the same bits; node 4 is the reducer."""
    crashed = 0
    for moment, away_s in itertools.product(moments("star"), AWAY_S):
        simulator = run_star(Crash(node, just_after(moment), away_s))
        crashed += simulator.totals_of(node).crashes
    assert crashed > 90


@pytest.mark.parametrize("node", range(len(LENGTHS)))
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_crash_at_any_event_of_a_ring_changes_no_bit(exchange: str, node: int) -> None:
    crashed = 0
    for moment, away_s in itertools.product(moments(exchange), AWAY_S):
        simulator = run_ring(exchange, Crash(node, just_after(moment), away_s))
        crashed += simulator.totals_of(node).crashes
    assert crashed > 90


@pytest.mark.parametrize("node", [1, REDUCER])
def test_two_crashes_of_one_node_of_a_star(node: int) -> None:
    for pair in itertools.combinations(moments("star")[::9], 2):
        run_star(*(Crash(node, just_after(moment), 0.05) for moment in pair))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_two_crashes_of_one_peer(exchange: str) -> None:
    for pair in itertools.combinations(moments(exchange)[::9], 2):
        run_ring(exchange, *(Crash(1, just_after(moment), 0.05) for moment in pair))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_neighbors_and_a_reducer_with_its_worker_may_be_away_together(exchange: str) -> None:
    for first, second in itertools.product(moments(exchange)[::9], repeat=2):
        run_ring(exchange, Crash(0, just_after(first), 0.3), Crash(1, just_after(second), 0.1))
    for first, second in itertools.product(moments("star")[::11], repeat=2):
        run_star(Crash(REDUCER, just_after(first), 0.3), Crash(0, just_after(second), 0.1))


@pytest.mark.parametrize("rounds", [2, 99])
@pytest.mark.parametrize("node", [0, REDUCER])
def test_accident_28_old_snapshots_and_slow_disks_change_no_bit(node: int, rounds: int) -> None:
    """failures.md, 28: the reducer's restart loses nothing, nor does a worker's or a peer's."""
    options = {
        "checkpoints": Checkpoints(every_rounds=rounds, every_s=1e9, history_rounds=8),
        "persist_s": Distribution.parse("0..80ms"),
    }
    for moment in moments("star")[::4]:
        run_star(Crash(node, just_after(moment), 0.05), Crash(1, just_after(moment) + 0.1, 0.05), **options)
    for exchange in EXCHANGES:
        for moment in moments(exchange)[::4]:
            faults = Crash(node % 4, just_after(moment), 0.05), Crash(1, just_after(moment) + 0.1, 0.05)
            run_ring(exchange, *faults, **options)


def test_all_nodes_may_crash_at_once() -> None:
    for moment in moments("star")[::5]:
        run_star(*(Crash(node, just_after(moment), 0.1) for node in range(REDUCER + 1)))
    for moment in moments("overlap")[::5]:
        run_ring("overlap", *(Crash(node, just_after(moment), 0.1) for node in range(len(LENGTHS))))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_crashes_on_a_bad_network(exchange: str) -> None:
    """Lost, doubled and overtaken messages besides."""
    for number, moment in enumerate(moments(exchange)[::6]):
        faults = [Crash(number % 4, just_after(moment), 0.5), Crash((number + 1) % 4, 2.0, 0.0), Crash(0, 3.0, 1.0)]
        run_ring(exchange, *faults, network=BAD, seed=number)
        run_star(Crash(REDUCER, 1.0, 1.0), *faults, network=BAD, seed=number)


def in_state(simulator: Simulator, node: int, state: str) -> list[float]:
    """When a node is in this state, in a run of this simulator."""
    found: list[float] = []

    def look(run: Simulator, index: int) -> None:
        if index == node and run.node(index).state.value == state:
            found.append(run.now)

    simulator.run(check=look)
    return found


@pytest.mark.parametrize("away_s", AWAY_S)
@pytest.mark.parametrize("state", ["joining", "waiting", "finishing"])
def test_a_node_may_crash_while_it_joins_waits_or_finishes(state: str, away_s: float) -> None:
    """Some nodes never wait, as words are there before their own, and the last of a ring finishes at once."""
    crashed = dict.fromkeys(("star", *EXCHANGES), 0)
    for node in range(len(LENGTHS)):
        for moment in in_state(star(central(), streams(), **OPTIONS), node, state)[:1]:
            crashed["star"] += run_star(Crash(node, just_after(moment), away_s)).totals_of(node).crashes
        for exchange in EXCHANGES:
            calm = peers(coupled(TAU), streams(), RING, exchange=exchange, **OPTIONS)
            for moment in in_state(calm, node, state)[:1]:
                simulator = run_ring(exchange, Crash(node, just_after(moment), away_s))
                crashed[exchange] += simulator.totals_of(node).crashes
    assert crashed.pop("star") == len(LENGTHS)
    if state == "waiting":
        crashed.pop("delayed")
    assert min(crashed.values()) > 0


def test_a_node_that_never_comes_back_ends_the_run_of_the_others() -> None:
    """timeouts.lost_s: "How long the other side may be disconnected before the run is given up"."""
    impatient = Timeouts(lost_s=30.0)
    with pytest.raises(ClusterError, match=r"^node 4 at 30\.\d+ s: .*lost site-0 in round \d: disconnected for 30 s"):
        run_star(Crash(0, moments("star")[40], math.inf), timeouts=impatient)
    with pytest.raises(ClusterError, match=r"^node [13] at 30\.\d+ s: .*lost site-0 in round \d"):
        run_ring("blocking", Crash(0, moments("blocking")[20], math.inf), timeouts=impatient)


def test_without_a_snapshot_nothing_is_gone_on_from() -> None:
    """A crash before the first round: the node begins anew, and nobody has missed it."""
    for node in range(len(LENGTHS)):
        run_ring("blocking", Crash(node, 1e-3, 0.0))
        run_star(Crash(node, 1e-3, 0.0))
