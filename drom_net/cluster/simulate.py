"""A whole configuration on a virtual clock: how long it would take on such a network, and the same bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from drom_net.cluster.leaving import about_prepared
from drom_net.cluster.plan import algorithm_of, is_delayed, node_specs, peer_specs
from drom_net.cluster.prepare import Prepared
from drom_net.cluster.progress import Progress
from drom_net.learning.metrics import Totals
from drom_net.learning.records import TASK_DTYPE, central_dtype
from drom_net.node.build import StartContext, build_peer, build_reducer, build_worker
from drom_net.protocol.node import REDUCER, TIMES_DTYPE, Node, Pace
from drom_net.results.outcomes import CentralOutcome, TaskOutcome
from drom_net.results.run_directory import summary_of
from drom_net.results.timeline import Disturbance
from drom_net.simulation.checks import PeersChecks, StarChecks
from drom_net.simulation.faults import Crash, Fault
from drom_net.simulation.network import Distribution, NetworkSettings, Stragglers, draw_factors, generator
from drom_net.simulation.simulator import Simulator
from drom_net.simulation.wiring import peers_wiring, star_wiring

THE_REDUCER = f"the {REDUCER}"
"""What it is called beside a task of its name."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a simulated cluster runs on."""

    network: NetworkSettings = field(default_factory=NetworkSettings)
    round_s: Distribution | None = None
    """How long a local round takes; None is the configuration's data.pace_s."""
    central_s: Distribution = field(default_factory=Distribution)
    """How long a central step takes, the reducer's or a peer's own."""
    stragglers: tuple[Stragglers, ...] = ()
    faults: tuple[Fault, ...] = ()
    detect_s: float = 6.0
    """After how long a dead connection is noticed."""
    persist_s: Distribution = field(default_factory=Distribution)
    """How long it takes until a snapshot is on the disk."""
    seed: int = 0
    """What all of it is drawn from; the run's own seed is another."""

    def local_round_s(self, prepared: Prepared) -> float:
        """How long a local round takes on the average, where there is no straggler."""
        return prepared.config.data.pace_s if self.round_s is None else self.round_s.mean

    def disturbances(self, nodes: Sequence[str]) -> list[Disturbance]:
        """All faults, in order of time; `nodes` are the names, with a star's reducer behind the tasks."""
        found = [Disturbance("partition", "network", cut.from_s, cut.to_s) for cut in self.network.partitions]
        for fault in self.faults:
            what, for_s = ("crash", fault.back_after_s) if isinstance(fault, Crash) else ("pause", fault.for_s)
            found.append(Disturbance(what, nodes[fault.node], fault.at_s, fault.at_s + for_s))
        return sorted(found, key=lambda fault: fault.from_s)

    def to_json(self, prepared: Prepared) -> dict[str, Any]:
        """What a run directory keeps of it; times in seconds are those of the virtual clock."""
        nodes, network = node_names(prepared), self.network
        factors = draw_factors(self.stragglers, len(prepared.roster.tasks), self.seed)
        return {
            "sim_seed": self.seed,
            "latency": str(network.latency),
            "bandwidth_bytes_per_s": network.bandwidth_bytes_per_s
            if math.isfinite(network.bandwidth_bytes_per_s)
            else None,
            "loss": network.loss,
            "duplicate": network.duplicate,
            "reorder": network.reorder,
            "round": str(self.round_s or Distribution("constant", prepared.config.data.pace_s)),
            "central": str(self.central_s),
            "stragglers": [asdict(some) for some in self.stragglers],
            "slow_tasks": {nodes[task]: factor for task, factor in enumerate(factors) if factor != 1.0},
            "detect_s": self.detect_s,
            "partitions": [
                {"groups": [[nodes[node] for node in sorted(group)] for group in cut.groups]}
                | {"from_s": cut.from_s, "to_s": cut.to_s}
                for cut in network.partitions
            ],
            "faults": [
                asdict(fault) | {"to_s": fault.to_s if math.isfinite(fault.to_s) else None}
                for fault in self.disturbances(nodes)
                if fault.what != "partition"
            ],
        }


def node_names(prepared: Prepared) -> tuple[str, ...]:
    """The nodes of a simulation in their order: the tasks, and behind them the reducer of a star."""
    names = prepared.roster.tasks
    return names if prepared.graph is not None else (*names, THE_REDUCER if REDUCER in names else REDUCER)


def build_simulator(prepared: Prepared, conditions: Conditions) -> Simulator:
    """The nodes of a configuration, ready to run; node k is task k, and the last one is the reducer of a star."""
    config, roster, streams = prepared.config, prepared.roster, prepared.streams
    names = roster.tasks
    run_id = "simulation"
    common: dict[str, Any] = {"run_id": run_id, "folder_of": dict.fromkeys((REDUCER, *roster.nodes), "")}
    factors = draw_factors(conditions.stragglers, len(names), conditions.seed)
    round_s = conditions.round_s or Distribution("constant", config.data.pace_s)
    paces = [_pace(round_s, factor, conditions.seed, task) for task, factor in enumerate(factors)]
    keeps = any(isinstance(fault, Crash) for fault in conditions.faults)
    if prepared.graph is None:
        reducer, *specs = node_specs(config, roster, endpoint="the reducer", bind="", **common)
        wiring = star_wiring(len(names))
        factors = [*factors, 1.0]
    else:
        specs = peer_specs(config, roster, prepared.graph, endpoints=names, binds=names, **common)
        wiring = peers_wiring(prepared.graph.union.neighbors)

    def make(index: int, incarnation: int, snapshot: Any) -> Node:
        context = StartContext(1 + incarnation, "", None if index == len(names) else paces[index], keeps, snapshot)
        if index == len(names):
            return build_reducer(reducer, run_id, context)
        return (build_worker if prepared.graph is None else build_peer)(specs[index], streams[index], context)

    return Simulator(
        make,
        wiring,
        dim=roster.dim,
        seed=conditions.seed,
        network=conditions.network,
        central_s=conditions.central_s,
        factors=factors,
        faults=conditions.faults,
        detect_s=conditions.detect_s,
        persist_s=conditions.persist_s,
    )


def checks_of(prepared: Prepared, *, sampled: bool = False) -> Callable[[Simulator, int], None]:
    """What must hold after every event; `sampled` where not every one is looked at."""
    in_step = not prepared.config.policy.may_miss
    if prepared.graph is None:
        sync = algorithm_of(prepared.config, 0).sync
        return StarChecks(prepared.last_rounds, sync=sync, in_step=in_step and sync.tau > 0, sampled=sampled)
    delayed = is_delayed(prepared.config)
    return PeersChecks(prepared.graph.neighborhoods, delayed=delayed, in_step=in_step, sampled=sampled)


def outcomes(
    prepared: Prepared, simulator: Simulator, *, finished: bool
) -> tuple[list[TaskOutcome], list[CentralOutcome]]:
    """What a simulation leaves, as the other drivers have it. Nodes that have not finished must have been stopped."""
    names = prepared.roster.tasks
    tasks = []
    for task, name in enumerate(names):
        node, totals = simulator.node(task), simulator.totals_of(task)
        rows = np.frombuffer(bytes(simulator.records[task]), dtype=TASK_DTYPE)
        result = node.result
        sent = (totals.bytes_sent, totals.bytes_received)
        times = np.frombuffer(bytes(simulator.times[task]), dtype=TIMES_DTYPE)
        figures = (result.chain, result.totals, result.model, rows, *sent)
        tasks.append(TaskOutcome(name, finished, len(rows), *figures, times=times))
    centrals = []
    members: Sequence[tuple[int, ...] | None] = [None]
    if prepared.graph is not None:
        members = [hood.closed_neighborhood for hood in prepared.graph.neighborhoods]
    for index, its_members in enumerate(members):
        node = simulator.node(len(names) if its_members is None else index)
        records = simulator.records[-1] if its_members is None else simulator.central_records[index]
        rows = np.frombuffer(bytes(records), dtype=central_dtype(len(its_members or names)))
        centrals.append(CentralOutcome(finished, node.central_chain, rows, simulator.now, members=its_members))
    return tasks, centrals


@dataclass(frozen=True, slots=True)
class Forecast:
    """A simulated run that has finished."""

    tasks: list[TaskOutcome]
    centrals: list[CentralOutcome]
    figures: dict[str, Any]
    """The summary, and what the network did, as plain JSON types."""
    lost: list[tuple[str, npt.NDArray[np.void]]]
    """(task, its times since the row before its last snapshot) of each crash: what it did before, and did again."""


def forecast(prepared: Prepared, conditions: Conditions, progress: Progress) -> Forecast:
    """Simulate a run to its end. Invariants are checked on every thousandth event.

    Raises:
        ClusterError, DivergedError: It does not come to one.
    """
    simulator = build_simulator(prepared, conditions)
    look = partial(look_at, progress, len(prepared.streams))
    simulator.run(check=checks_of(prepared, sampled=True), check_every=1000, look=look)
    tasks, centrals = outcomes(prepared, simulator, finished=True)
    summary = summary_of(tasks, centrals, about=about_prepared(prepared), driver="simulation")
    nodes = [simulator.totals_of(index) for index in range(simulator.num_nodes)]
    network = {
        "messages": sum(node.messages_sent for node in nodes),
        "bytes_sent": sum(node.bytes_sent for node in nodes),
        "lost": sum(node.lost for node in nodes),
        "doubled": sum(node.doubled for node in nodes),
        "crashes": sum(node.crashes for node in nodes),
        "events": simulator.events,
    }
    names = node_names(prepared)
    lost = [
        (names[index], np.frombuffer(rows, dtype=TIMES_DTYPE))
        for index, rows in simulator.lost_times
        if index < len(tasks)
    ]
    return Forecast(tasks, centrals, summary | network, lost)


def look_at(progress: Progress, num_tasks: int, simulator: Simulator) -> bool:
    """Show how far a simulation is; True, for it is to go on."""
    nodes = [simulator.node(task) for task in range(num_tasks)]
    rounds = max((node.round for node in nodes if node is not None), default=0)
    progress.update(rounds, lambda: [Totals() if node is None else node.totals for node in nodes], None)
    return True


def _pace(round_s: Distribution, factor: float, seed: int, task: int) -> Pace:
    if round_s.is_zero:
        return lambda t: 0.0
    rng = generator(seed, "pace", task)
    return lambda t: factor * round_s.draw(rng)
