"""Sync rounds that grow apart, in a star and between peers: between them tasks go on by themselves."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from helpers import graph_of, hoods_of, random_streams, run_loop, sparse_stream
from simulated_harness import BAD, digest_of_peers, digest_of_star, every, last_rounds, peers, star
from test_live_streams import Live, drawn

from drom_net.algorithms import ridge
from drom_net.algorithms.adadrom.learner import AdaDROMParameters, adadrom
from drom_net.data.stream import TaskStream
from drom_net.learning.records import TASK_DTYPE, central_dtype
from drom_net.learning.reference import run_reference
from drom_net.protocol.settings import Checkpoints
from drom_net.simulation.checks import PeersChecks, StarChecks
from drom_net.simulation.faults import Crash
from drom_net.simulation.network import Distribution, NetworkSettings

LENGTHS = (40, 7, 33, 0)


@pytest.fixture(params=["exact", "window", "none"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How ridge regression is done, as for few, more and many features; but for the first what travels is sparse."""
    if request.param != "exact":
        monkeypatch.setattr(ridge, "EXACT", 0)
    monkeypatch.setattr(ridge, "WINDOW", 8)
    if request.param == "none":
        monkeypatch.setattr(ridge, "MOST", 0)
    return str(request.param)


def streams_for(kind: str, lengths: tuple[int, ...]) -> list[TaskStream]:
    streams = random_streams(lengths, flip=0.2, density=0.3)
    return streams if kind == "exact" else [sparse_stream(stream) for stream in streams]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("tau", [0, 1, 3])
def test_the_bits_of_the_loop_through_crashes(seed: int, tau: int, kind: str) -> None:
    draw = random.Random(seed)
    algorithm = adadrom(AdaDROMParameters(tau=tau))
    streams = streams_for(kind, LENGTHS)
    faults = [
        Crash(draw.randrange(5), draw.uniform(0.1, 2.0), draw.choice([0.0, 0.05, 1.0]))
        for _ in range(draw.randrange(4))
    ]
    options: dict[str, Any] = {
        "network": draw.choice([BAD, NetworkSettings(Distribution.parse("1ms..20ms"))]),
        "paces": every(0.02, [1.0, 2.0, 1.0, 1.0]),
        "detect_s": 0.1,
        "checkpoints": Checkpoints(every_rounds=draw.choice([1, 5, 20]), every_s=1e9),
    }
    simulator = star(algorithm, streams, faults=faults, seed=seed, **options)
    checks = StarChecks(last_rounds(streams), sync=algorithm.sync)
    assert simulator.run(most_events=50_000, check=checks)
    expected = run_reference(algorithm, streams, seed=0)
    assert digest_of_star(simulator, 4) == expected.digest
    assert [bytes(rows) for rows in simulator.records] == [*expected.task_records, expected.central_records]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("graph", ["full", "ring", "grid"])
def test_the_bits_of_the_loop_of_peers_through_crashes(seed: int, graph: str, kind: str) -> None:
    draw = random.Random(seed)
    tau, robust = draw.choice([0, 1, 3]), draw.random() < 0.5
    algorithm = adadrom(AdaDROMParameters(tau=tau, robust=robust))
    streams = streams_for(kind, (40, 7, 33, 4, 21, 30))
    made = graph_of(graph, 6)
    faults = [
        Crash(draw.randrange(6), draw.uniform(0.1, 2.0), draw.choice([0.0, 0.05, 1.0]))
        for _ in range(draw.randrange(4))
    ]
    options: dict[str, Any] = {
        "network": draw.choice([BAD, NetworkSettings(Distribution.parse("1ms..20ms"))]),
        "paces": every(0.02, [1.0, 2.0, 1.0, 1.0, 1.0, 3.0]),
        "detect_s": 0.1,
        "checkpoints": Checkpoints(every_rounds=draw.choice([1, 5, 20]), every_s=1e9),
    }
    simulator = peers(algorithm, streams, made, faults=faults, seed=seed, **options)
    checks = PeersChecks(hoods_of(made, [algorithm] * 6))
    assert simulator.run(most_events=80_000, check=checks)
    expected = run_loop(algorithm, streams, made, seed=0)
    assert digest_of_peers(simulator, 6) == expected.digest
    assert [bytes(rows) for rows in simulator.records] == [*expected.task_records]


@pytest.mark.parametrize("tau", [1, 20])
def test_rounds_between_sync_rounds_wait_for_their_examples(tau: int) -> None:
    algorithm, streams = adadrom(AdaDROMParameters(tau=tau)), random_streams([50] * 3)
    simulator = star(algorithm, streams, paces=every(0.1, [1.0, 2.0, 1.0]))
    simulator.run()
    assert simulator.now == pytest.approx(50 * 0.2, abs=0.3)  # as long as the slowest takes to come


def test_nothing_travels_between_sync_rounds() -> None:
    algorithm = adadrom(AdaDROMParameters(tau=0))
    streams = random_streams([100] * 3)
    simulator = star(algorithm, streams)
    simulator.run()
    rounds = np.frombuffer(bytes(simulator.records[3]), central_dtype(3))["round"]
    assert rounds.tolist() == [t for t in range(1, 101) if algorithm.sync.at(t)]
    rows = np.frombuffer(bytes(simulator.records[0]), TASK_DTYPE)
    assert [int(t) for t in rows["round"][rows["reply"] != 0]] == rounds.tolist()
    assert simulator.totals_of(0).messages_sent < 2 * len(rounds) + 10


@pytest.mark.parametrize("seed", range(10))
def test_live_streams(seed: int) -> None:
    times, ends, draw = drawn(seed)
    algorithm = adadrom(AdaDROMParameters(tau=draw.choice([0, 4])))
    faults = [Crash(draw.randrange(5), draw.uniform(0.1, max(ends)), draw.choice([0.0, 2.0])) for _ in range(2)]
    cluster = Live(times, ends).star(algorithm, network=BAD, faults=faults, seed=seed, detect_s=0.1)
    cluster.check(digest_of_star(cluster.simulator, 4), lambda **rest: run_reference(algorithm, **rest))
