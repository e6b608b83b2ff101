"""Run a whole configuration on this machine, by the driver of choice, and leave a run directory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drom_net.cluster.directories import begin_run_directory, end_run_directory, remove_nodes, usage
from drom_net.cluster.local import Interruption
from drom_net.cluster.plan import algorithm_of, check_sharing, is_delayed
from drom_net.cluster.prepare import Prepared
from drom_net.cluster.processes import run_as_processes
from drom_net.cluster.progress import Progress
from drom_net.cluster.record import Record, Recorded
from drom_net.cluster.simulate import Conditions, build_simulator, look_at, outcomes
from drom_net.core.errors import NodeFailedError
from drom_net.data.live import LiveStream
from drom_net.data.stream import TaskStream
from drom_net.learning.records import TASK_DTYPE, central_dtype
from drom_net.learning.reference import (
    AS_CONFIGURED,
    AfterRound,
    Journal,
    PeersResult,
    ReferenceResult,
    run_reference,
    run_reference_peers,
)
from drom_net.learning.task import TaskLearner
from drom_net.results.outcomes import (
    CentralOutcome,
    TaskOutcome,
)
from drom_net.results.run_directory import STATE
from drom_net.simulation.simulator import Simulator


def run(
    prepared: Prepared,
    *,
    driver: str,
    out: Path,
    progress: Progress,
    file_format: str = "csv",
    conditions: Conditions | None = None,
    resume: bool = False,
    log_format: str = "text",
    metrics: str = "",
) -> tuple[dict[str, Any], int]:
    """Run it and write the run directory.

    Args:
        driver: "processes", "reference" or "simulation".
        out: The run directory; it must not exist yet, or be empty.
        file_format: "csv" or "parquet" for the records.
        conditions: What a simulation runs on; by default a network of 1 ms without faults.
        resume: Go on with the processes of `out`, each from its last snapshot.
        log_format: How processes log, text or json; json is also passed on to standard error.
        metrics: Where all processes' counts are served meanwhile, host:port; empty for nowhere.

    Returns:
        The summary, and the exit code: 0, or 130 and 143 for a run that was interrupted in order.

    Raises:
        NodeFailedError: A node ended with an error.
        ConfigError: The learner sends examples to other sites, and the configuration does not allow it.
    """
    conditions = (conditions or Conditions()) if driver == "simulation" else None
    if driver == "processes":
        check_sharing(prepared.config)
    also: dict[str, Any] = {}
    with Interruption() as interruption:
        if not resume:
            begin_run_directory(prepared, out, conditions)
        progress.start(prepared.roster.tasks, prepared.rounds)
        if driver != "processes":
            with Record(out, prepared, interruption, driver=driver) as record:
                recorded = Recorded(progress, record)
                tasks, centrals = _run_here(prepared, conditions, recorded, interruption)
        else:
            watched = {"log_format": log_format, "metrics": metrics}
            try:
                with usage(also, out):
                    tasks, centrals = run_as_processes(prepared, out, progress, interruption, resume=resume, **watched)
            except NodeFailedError as error:
                if error.was_killed:
                    progress.say(f"`drom-net run --resume {out}` goes on with what the nodes have kept")
                raise
    summary = end_run_directory(prepared, out, tasks, centrals, driver=driver, file_format=file_format, also=also)
    (out / STATE).unlink(missing_ok=True)  # from now on the summary says it
    del tasks, centrals  # their records are mapped, and not every file system lets go of mapped files
    if summary["status"] == "finished" or driver != "processes":  # else it may be resumed
        remove_nodes(prepared, out)
    return summary, 0 if summary["status"] == "finished" else interruption.exit_code


def _run_here(
    prepared: Prepared, conditions: Conditions | None, progress: Progress, interruption: Interruption
) -> tuple[list[TaskOutcome], list[CentralOutcome]]:
    """In this process: as a simulation, or without conditions as the plain loop."""
    if conditions is None:
        return run_as_loop(prepared, progress, interruption)

    def look(simulator: Simulator) -> bool:
        return look_at(progress, len(prepared.streams), simulator) and interruption.exit_code == 0

    simulator = build_simulator(prepared, conditions)
    finished = simulator.run(look=look)
    return outcomes(prepared, simulator, finished=finished)


def run_as_loop(
    prepared: Prepared, progress: Progress, interruption: Interruption
) -> tuple[list[TaskOutcome], list[CentralOutcome]]:
    """What comes out of the plain loop, in memory."""

    def after_round(t: int, learners: Sequence[TaskLearner], sigma: float | None) -> bool:
        progress.update(t, lambda: [learner.totals for learner in learners], sigma)
        return interruption.exit_code == 0

    started = time.monotonic()
    result = run_loop(prepared, after_round)
    seconds = time.monotonic() - started
    members: list[tuple[int, ...] | None] = [None]
    if isinstance(result, ReferenceResult):
        chains, central_records = [result.central_chain], [result.central_records]
    else:
        assert prepared.graph is not None
        chains, central_records = list(result.central_chains), list(result.central_records)
        members = [hood.closed_neighborhood for hood in prepared.graph.neighborhoods]
    finished = interruption.exit_code == 0
    tasks = []
    for name, task, its_records in zip(prepared.roster.tasks, result.tasks, result.task_records, strict=True):
        rows = np.frombuffer(its_records, dtype=TASK_DTYPE)
        tasks.append(TaskOutcome(name, finished, len(rows), task.chain, task.totals, task.model, rows))
    centrals = []
    for chain, its_records, its_members in zip(chains, central_records, members, strict=True):
        rows = np.frombuffer(its_records, dtype=central_dtype(len(its_members or tasks)))
        centrals.append(CentralOutcome(finished, chain, rows, seconds, members=its_members))
    return tasks, centrals


def run_loop(
    prepared: Prepared,
    after_round: AfterRound | None = None,
    journal: Journal = AS_CONFIGURED,
    streams: Sequence[TaskStream | LiveStream] | None = None,
) -> ReferenceResult | PeersResult:
    """The plain loop of a configuration; with a graph that of peers; with a journal that of a run made again.

    Args:
        streams: Those of a live run, which the configuration does not have.
    """
    config = prepared.config
    streams = streams or prepared.streams
    common: dict[str, Any] = {
        "seed": config.seed,
        "rounds": config.rounds,
        "after_round": after_round,
        "journal": journal,
    }
    if prepared.graph is None:
        return run_reference(algorithm_of(config, 0), streams, **common)
    algorithms = [algorithm_of(config, task) for task in range(len(streams))]
    delayed = is_delayed(config)
    return run_reference_peers(algorithms, streams, prepared.graph.neighborhoods, delayed=delayed, **common)
