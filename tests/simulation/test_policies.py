"""Runs that go on without some: nobody waits for ever, and what is recorded gives the same model again."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from helpers import graph_of, hoods_of, random_streams
from simulated_harness import central, coupled, every, peers, star

from drom_net.core.errors import ClusterError
from drom_net.data.stream import TaskStream
from drom_net.learning.records import absences_of, central_dtype
from drom_net.learning.reference import Journal, run_reference, run_reference_peers
from drom_net.protocol.settings import Checkpoints, Policy, Timeouts
from drom_net.simulation.checks import Lives
from drom_net.simulation.faults import Crash, Fault, Pause
from drom_net.simulation.network import Distribution, NetworkSettings, Partition
from drom_net.simulation.simulator import Simulator, StuckError

TIMES = Timeouts(join_s=5.0, lost_s=2.0, linger_s=20.0, resend_after_s=0.2, resend_cap_s=1.0)
PATIENT = replace(TIMES, join_s=100.0, lost_s=100.0)


def run(simulator: Simulator) -> set[int]:
    """To the end of all that come back in time; the numbers of those that do not."""
    try:
        assert simulator.run(most_events=100_000)
    except ClusterError as error:
        if not isinstance(error, StuckError):
            assert re.search("no reducer answered|lost the reducer", str(error)), str(error)
            nodes = [simulator.node(index) for index in range(simulator.num_nodes)]
            assert nodes[-1].finished, str(error)  # it came back when all the others had ended
            return {index for index, node in enumerate(nodes) if node is None or not node.finished}
        down = {index for index in range(simulator.num_nodes) if simulator.node(index) is None}
        there = [simulator.node(index) for index in range(simulator.num_nodes) if index not in down]
        assert down
        assert all(node.finished for node in there), str(error)
        return down
    return set()


def rows_of(records: bytearray, tasks: int) -> np.ndarray:
    return np.frombuffer(bytes(records), dtype=central_dtype(tasks))


def same_model(simulator: Simulator, task: int, again: Any) -> None:
    result = simulator.node(task).result
    assert result.totals == again.totals, task
    assert result.chain == again.chain, task
    for name, vector in again.model.items():
        assert result.model[name].tobytes() == vector.tobytes(), (task, name)


def replay_star(simulator: Simulator, streams: list[TaskStream], gone: set[int]) -> np.ndarray:
    """The same run by the plain loop, from the records alone: the same bits. The reducer's rows."""
    rows = rows_of(simulator.records[-1], len(streams))
    again = run_reference(central(), streams, seed=0, journal=Journal([absences_of(rows, range(len(streams)))]))
    steps = bytes(simulator.records[-1])
    assert again.central_records.startswith(steps)  # there are more where those that are gone would have gone on
    assert gone or steps == again.central_records
    for task in range(len(streams)):
        recorded = bytes(simulator.records[task])
        if task in gone:
            assert again.task_records[task].startswith(recorded)
        else:
            assert recorded == again.task_records[task], task
            same_model(simulator, task, again.tasks[task])
    return rows


def replay_peers(
    simulator: Simulator, streams: list[TaskStream], graph: Any, algorithm: Any, exchange: str, gone: set[int]
) -> list[np.ndarray]:
    hoods = hoods_of(graph, [algorithm] * len(streams))
    tables = [
        rows_of(simulator.central_records[task], len(hood.closed_neighborhood)) for task, hood in enumerate(hoods)
    ]
    absences = [absences_of(rows, hood.closed_neighborhood) for rows, hood in zip(tables, hoods, strict=True)]
    options = {"seed": 0, "delayed": exchange == "delayed", "journal": Journal(absences)}
    again = run_reference_peers([algorithm] * len(streams), streams, hoods, **options)
    for task in range(len(streams)):
        recorded = bytes(simulator.records[task])
        steps = bytes(simulator.central_records[task])
        if task in gone:
            assert again.task_records[task].startswith(recorded), task
            assert again.central_records[task].startswith(steps), task
        else:
            assert recorded == again.task_records[task], task
            assert steps == again.central_records[task], task
            same_model(simulator, task, again.tasks[task])
    return tables


def draw_policy(draw: Random) -> Policy:
    return Policy(absent=draw.choice(("proceed", "proceed", "wait")), deadline_s=draw.choice((math.inf, 0.05, 0.5)))


def draw_faults(draw: Random, nodes: int, policy: Policy) -> list[Fault]:
    faults: list[Fault] = []
    for _ in range(draw.choice((1, 2, 4))):
        node, at_s = draw.randrange(nodes), draw.uniform(0.0, 6.0)
        back_after_s = draw.choice((0.1, 1.0, 3.0, 6.0, math.inf) if policy.proceeds else (0.1, 1.0, 3.0))
        pause = Pause(node, at_s, draw.uniform(0.0, 4.0))
        faults.append(draw.choice((Crash(node, at_s, back_after_s), pause)))
    return faults


def draw_options(draw: Random, tasks: int, policy: Policy, seed: int) -> dict[str, Any]:
    latency = Distribution.parse(draw.choice(("1ms..30ms", "exponential(50ms)")))
    cut_off = Partition((frozenset({draw.randrange(tasks)}),), 1.0, 5.0)
    partitions = (cut_off,) if policy.proceeds and draw.random() < 0.3 else ()
    return {
        "seed": seed,
        "network": NetworkSettings(latency, loss=draw.choice((0.0, 0.1)), partitions=partitions),
        "timeouts": TIMES if policy.proceeds else PATIENT,
        "policy": policy,
        "checkpoints": Checkpoints(every_rounds=draw.choice((1, 3, 9)), every_s=0.5, history_rounds=50),
        "paces": every(0.1, [draw.choice((1.0, 1.0, 3.0)) for _ in range(tasks)]),
        "detect_s": 0.3,
        "persist_s": Distribution.parse(draw.choice(("0", "20ms"))),
    }


def star_is_the_same_again(seed: int, *, with_reducer: bool) -> bool:
    """Whether it could be gone through again."""
    draw = Random(f"policies of a star {seed} {with_reducer}")
    tasks = draw.choice((2, 3, 5))
    streams = random_streams([draw.randint(1, 25) for _ in range(tasks)], seed=seed, flip=0.2)
    policy = draw_policy(draw)
    faults = draw_faults(draw, tasks, policy)
    if with_reducer:
        faults += [Crash(tasks, draw.uniform(0.0, 6.0), draw.choice((0.05, 1.0))) for _ in range(draw.choice((1, 3)))]
    options = draw_options(draw, tasks, policy, seed)
    simulator = star(central(), streams, faults=faults, worker_timeouts=PATIENT, **options)
    lives = Lives(simulator)
    try:
        gone = run(simulator)
    except AssertionError as error:
        if not re.search("no task is left|did not join", str(error)):
            raise
        return False
    if not lives.agree():
        return False
    replay_star(simulator, streams, gone)
    return True


def peers_are_the_same_again(seed: int) -> bool:
    draw = Random(f"policies of peers {seed}")
    tasks = draw.choice((2, 3, 5))
    streams = random_streams([draw.randint(1, 25) for _ in range(tasks)], seed=seed, flip=0.2)
    policy = draw_policy(draw)
    exchange = draw.choice(("blocking", "overlap", "delayed"))
    graph = graph_of(draw.choice(("path", "full", "hub")), tasks)
    algorithm = coupled(draw.choice((1, 2, 5)))
    faults = draw_faults(draw, tasks, policy)
    options = draw_options(draw, tasks, policy, seed)
    simulator = peers(algorithm, streams, graph, exchange=exchange, faults=faults, **options)
    lives = Lives(simulator)
    gone = run(simulator)
    if not lives.agree():
        return False
    replay_peers(simulator, streams, graph, algorithm, exchange, gone)
    return True


BLOCK = 20
BLOCKS = pytest.mark.parametrize("start", range(0, 100, BLOCK))


@BLOCKS
def test_a_star_that_goes_on_without_some_ends_and_gives_the_same_again(start: int) -> None:
    """decisions.md: "`replay` recomputes the very same W afterwards, whatever the accidents", of workers."""
    again = [star_is_the_same_again(seed, with_reducer=False) for seed in range(start, start + BLOCK)]
    assert sum(again) > 0.8 * BLOCK  # but where no task is left


@BLOCKS
def test_so_does_one_whose_reducer_crashes_as_far_as_it_does_the_same_again(start: int) -> None:
    again = [star_is_the_same_again(seed, with_reducer=True) for seed in range(start, start + BLOCK)]
    assert sum(again) > 0.3 * BLOCK


@BLOCKS
def test_peers_that_go_on_without_some_end_and_give_the_same_again(start: int) -> None:
    again = [peers_are_the_same_again(seed) for seed in range(start, start + BLOCK)]
    assert sum(again) > 0.3 * BLOCK
