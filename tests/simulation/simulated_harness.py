"""Real nodes on the simulator, and what they leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from helpers import hoods_of
from peers_harness import make_peer
from star_harness import DIM, EVERY_ROUND, make_reducer, make_worker

from drom_net.algorithms.base import Algorithm
from drom_net.algorithms.drom import DromParameters, drom
from drom_net.algorithms.drom_d import DromDParameters, drom_d
from drom_net.data.stream import TaskStream
from drom_net.graph.graph import Graph, GraphSchedule
from drom_net.learning.records import peers_chain, run_digest
from drom_net.protocol.node import TIMES_DTYPE, Pace, no_delay
from drom_net.protocol.settings import WAIT, Checkpoints, Policy, Timeouts
from drom_net.simulation.faults import Crash
from drom_net.simulation.network import Distribution, NetworkSettings
from drom_net.simulation.simulator import Simulator
from drom_net.simulation.wiring import peers_wiring, star_wiring

PATIENT = Timeouts(join_s=1000.0, linger_s=1000.0)
BAD = NetworkSettings(Distribution.parse("0..400ms"), loss=0.2, duplicate=0.2, reorder=0.2)


Prepare = Callable[[int, Callable[[Any], Any]], Any]
"""(task, how its node is made of a stream) -> the node."""


def central() -> Algorithm:
    return drom(DromParameters(eta0=3.0, lam=0.2, rho=0.3, xi=1.0, p=0.9))


def coupled(tau: int = 1) -> Algorithm:
    return drom_d(DromDParameters(eta0=3.0, lam=0.2, rho=0.3, xi=1.0, tau=tau))


def star(
    algorithm: Algorithm,
    streams: Sequence[Any],
    *,
    prepare: Prepare | None = None,
    live: bool = False,
    timeouts: Timeouts = PATIENT,
    worker_timeouts: Timeouts | None = None,
    paces: Sequence[Pace] | None = None,
    policy: Policy = WAIT,
    checkpoints: Checkpoints = EVERY_ROUND,
    **options: Any,
) -> Simulator:
    """Workers are the nodes from 0 on; the reducer is the last."""
    workers = len(streams)
    kept = checkpoints if crashes(options) else None

    def make(index: int, incarnation: int, snapshot: Any) -> Any:
        life = {"checkpoints": kept, "snapshot": snapshot}
        if index == workers:
            return make_reducer(algorithm, workers, timeouts=timeouts, policy=policy, live=live, **life)
        one = partial(
            make_worker,
            algorithm,
            num_tasks=workers,
            task=index,
            timeouts=worker_timeouts or timeouts,
            incarnation=1 + incarnation,
            pace=paces[index] if paces else no_delay,
            **life,
        )
        return prepare(index, one) if prepare else one(streams[index])

    return Simulator(make, star_wiring(workers), dim=DIM, **{"seed": 0, **options})


def peers(
    algorithm: Algorithm,
    streams: Sequence[Any],
    graph: Graph | GraphSchedule,
    *,
    prepare: Prepare | None = None,
    exchange: str = "blocking",
    timeouts: Timeouts = PATIENT,
    paces: Sequence[Pace] | None = None,
    policy: Policy = WAIT,
    checkpoints: Checkpoints = EVERY_ROUND,
    **options: Any,
) -> Simulator:
    hoods = hoods_of(graph, [algorithm] * len(streams))
    kept = checkpoints if crashes(options) else None

    def make(index: int, incarnation: int, snapshot: Any) -> Any:
        one = partial(
            make_peer,
            algorithm,
            hood=hoods[index],
            num_tasks=len(streams),
            exchange=exchange,
            timeouts=timeouts,
            incarnation=1 + incarnation,
            pace=paces[index] if paces else no_delay,
            policy=policy,
            checkpoints=kept,
            snapshot=snapshot,
        )
        return prepare(index, one) if prepare else one(streams[index])

    return Simulator(
        make,
        peers_wiring((graph if isinstance(graph, Graph) else graph.union).neighbors),
        dim=DIM,
        **{"seed": 0, **options},
    )


def crashes(options: dict[str, Any]) -> bool:
    return any(isinstance(fault, Crash) for fault in options.get("faults", ()))


def every(seconds: float, factors: Sequence[float]) -> list[Pace]:
    """For each task a pace of that many seconds, times its factor."""

    def pace(factor: float) -> Callable[[int], float]:
        return lambda t: factor * seconds

    return [pace(factor) for factor in factors]


def digest_of_star(simulator: Simulator, workers: int) -> str:
    chains = [simulator.node(worker).result.chain for worker in range(workers)]
    return run_digest(chains, simulator.node(workers).central_chain)


def digest_of_peers(simulator: Simulator, tasks: int) -> str:
    there = [simulator.node(task) for task in range(tasks)]
    return run_digest([peer.result.chain for peer in there], peers_chain([peer.central_chain for peer in there]))


def times_of(simulator: Simulator, task: int) -> np.ndarray:
    """Of its sync rounds: without the first row and the last one, which are its begin and its end."""
    rows = np.frombuffer(bytes(simulator.times[task]), dtype=TIMES_DTYPE)
    assert rows["round"][0] == 0
    assert rows["round"][-1] == simulator.node(task).round
    return rows[1:-1]


def waits_of(simulator: Simulator, task: int) -> list[float]:
    rows = times_of(simulator, task)
    return (rows["closed_s"] - rows["idle_s"]).tolist()


def last_rounds(streams: Sequence[TaskStream]) -> list[int]:
    return [stream.last_round() for stream in streams]
