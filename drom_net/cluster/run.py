"""Run a whole configuration on this machine, by the driver of choice, and leave a run directory."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import math
import os
import resource
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from drom_net.cluster.local import Interruption, run_children
from drom_net.cluster.machine import this_machine
from drom_net.cluster.plan import START_S, about_run, algorithm_of, check_sharing, node_specs, peer_specs
from drom_net.cluster.prepare import Prepared
from drom_net.cluster.progress import Progress
from drom_net.cluster.simulate import Conditions, build_simulator, look_at, outcomes
from drom_net.config.model import ClusterConfig, peer_endpoints, to_yaml
from drom_net.core.blas import blas_kernel
from drom_net.core.errors import NodeFailedError, StoppedError, UsageError
from drom_net.data.live import LiveStream
from drom_net.data.stream import TaskStream
from drom_net.graph.families import resolve
from drom_net.learning.metrics import Totals
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
from drom_net.node.metrics_page import MetricsPage
from drom_net.node.process import write_result_of_lost
from drom_net.node.reports import Counts, JsonLog
from drom_net.node.spec import NodeSpec
from drom_net.protocol.node import REDUCER
from drom_net.results.outcomes import (
    CentralOutcome,
    TaskOutcome,
    data_facts,
    read_central_outcome,
    read_peer_central_outcome,
    read_task_outcome,
    write_data_facts,
)
from drom_net.results.run_directory import (
    LOGS,
    NODES,
    SIMULATION,
    create_run_directory,
    load_summary,
    node_folder,
    write_environment,
    write_results,
)
from drom_net.results.summary import remove_folder, write_json, write_text
from drom_net.simulation.simulator import Simulator
from drom_net.storage.journal import FOLDER as SPOOL
from drom_net.storage.node_folder import CheckpointFolder

_SAYINGS, _SAYINGS_EVERY_S = 20, 10.0
"""So many lines of nodes are told in so many seconds."""
_SOCKET_PATH_LIMIT = 100  # bytes; the system's own limit for a socket's path is 107


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
        log_format: How processes log, one of reports.LOG_FORMATS; "json" is also passed on to standard error.
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
        if conditions is not None:
            tasks, centrals = _run_as_simulation(prepared, conditions, progress, interruption)
        elif driver == "reference":
            tasks, centrals = _run_as_loop(prepared, progress, interruption)
        else:
            watched = {"log_format": log_format, "metrics": metrics}
            try:
                with _usage(also, out):
                    tasks, centrals = _run_as_processes(prepared, out, progress, interruption, resume=resume, **watched)
            except NodeFailedError as error:
                if error.was_killed:
                    progress.say(f"`drom-net run --resume {out}` goes on with what the nodes have kept")
                raise
    summary = end_run_directory(prepared, out, tasks, centrals, driver=driver, file_format=file_format, also=also)
    del tasks, centrals  # their records are mapped, and not every file system lets go of mapped files
    if summary["status"] == "finished" or driver != "processes":  # else it may be resumed
        _remove_nodes(prepared, out)
    return summary, 0 if summary["status"] == "finished" else interruption.exit_code


def _remove_nodes(prepared: Prepared, out: Path) -> None:
    """The nodes' own folders, but for the examples of a live run that are to be kept."""
    source = prepared.config.source
    if source is None or source.keep != "all":
        remove_folder(out / NODES)
        return
    for path in out.glob(f"{NODES}/*/*"):
        if path.name != SPOOL:
            remove_folder(path) if path.is_dir() else path.unlink()


def begin_run_directory(prepared: Prepared, out: Path, conditions: Conditions | None = None) -> None:
    """Make the run directory, with what is known before the run.

    Args:
        conditions: What a simulation runs on; None for the other drivers.

    Raises:
        UsageError: There is something already.
    """
    create_run_directory(out)
    config = prepared.config
    if config.topology is not None and prepared.graph is not None:  # a random graph is written out as it was drawn
        config = dataclasses.replace(config, topology=resolve(config.topology, prepared.graph.union))
    write_text(out / "config.yaml", to_yaml(config))
    write_environment(out / "environment.json", blas=blas_kernel())
    if conditions is not None:
        write_json(out / SIMULATION, conditions.to_json(prepared))


def end_run_directory(
    prepared: Prepared,
    out: Path,
    tasks: Sequence[TaskOutcome],
    centrals: Sequence[CentralOutcome],
    *,
    driver: str,
    file_format: str = "csv",
    also: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write what came out of the run, and return the summary.

    Args:
        also: What the summary says besides.
    """
    return write_results(
        out,
        tasks,
        centrals,
        data_facts=data_facts(prepared.dataset),
        about=about_run(prepared.config) | (also or {}),
        driver=driver,
        file_format=file_format,
    )


@contextlib.contextmanager
def _usage(also: dict[str, Any], out: Path) -> Iterator[None]:
    """Note what the nodes that ended meanwhile have used."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    results = [json.loads(path.read_text()) for path in (out / NODES).glob("*/result.json")]
    peaks = [result["peak_bytes"] for result in results if result.get("peak_bytes") is not None]
    also["processes"] = {"processor_s": round(seconds, 3), "largest_bytes": max(peaks, default=None)}


def _run_as_simulation(
    prepared: Prepared, conditions: Conditions, progress: Progress, interruption: Interruption
) -> tuple[list[TaskOutcome], list[CentralOutcome]]:
    def look(simulator: Simulator) -> bool:
        return look_at(progress, len(prepared.streams), simulator) and interruption.exit_code == 0

    simulator = build_simulator(prepared, conditions)
    finished = simulator.run(look=look)
    return outcomes(prepared, simulator, finished=finished)


def _run_as_loop(
    prepared: Prepared, progress: Progress, interruption: Interruption
) -> tuple[list[TaskOutcome], list[CentralOutcome]]:
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
        members = [hood.everybody for hood in prepared.graph.neighborhoods]
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
    delayed = config.algorithm.parameters.delayed
    return run_reference_peers(algorithms, streams, prepared.graph.neighborhoods, delayed=delayed, **common)


def require_resumable(out: Path) -> str:
    """The id of a run of processes that did not come to its end; empty where it ended before it had any.

    Raises:
        UsageError: There is none in this directory, or some of its processes still run.
    """
    paths = sorted((out / NODES).glob("*/spec.json"))
    begun = (out / "config.yaml").exists()
    done = (out / "summary.json").exists()
    if done and load_summary(out).get("status") == "finished":  # some of nodes/ is there if its launcher died just then
        raise UsageError(f"{out} is the directory of a run that has finished")
    if begun and not paths and not done and (out / LOGS).exists():  # other drivers have none
        return ""
    if not begun or not paths:
        raise UsageError(
            f"{out} is not the directory of a run of processes that was interrupted: no {NODES}/NAME/spec.json"
        )
    run_ids = set()
    for path in paths:
        spec = NodeSpec.read(path)
        run_ids.add(spec.run_id)
        CheckpointFolder(path.parent, node=spec.node, config_digest=spec.config_digest).close()  # nobody is in it
    if len(run_ids) != 1 or "" in run_ids:
        raise UsageError(f"{out} has nodes that were started by hand: start each of them again by its own command")
    return str(run_ids.pop())


@contextlib.contextmanager
def _the_only_launcher(out: Path) -> Iterator[None]:
    """Keep others from running the same run directory.

    Raises:
        UsageError: Somebody does.
    """
    (out / NODES).mkdir(exist_ok=True)
    with (out / NODES / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{out} is in use: another `drom-net run` has its nodes") from None
        yield


def _run_as_processes(
    prepared: Prepared,
    out: Path,
    progress: Progress,
    interruption: Interruption,
    *,
    resume: bool,
    log_format: str,
    metrics: str,
) -> tuple[list[TaskOutcome], list[CentralOutcome]]:
    names, nodes = prepared.roster.tasks, prepared.roster.nodes
    logs = out / LOGS
    logs.mkdir(exist_ok=resume)
    with ExitStack() as cleanup:
        cleanup.enter_context(_the_only_launcher(out))
        copies = tuple(f"{node_folder(out, node)}/examples" for node in nodes if prepared.config.source is None)
        common: dict[str, Any] = {
            "run_id": (require_resumable(out) if resume else "") or secrets.token_hex(8),
            "parent": os.getpid(),
            "folder_of": {node: str(node_folder(out, node)) for node in (REDUCER, *nodes)},
        }
        if prepared.graph is None:
            endpoint, bind, sockets = _endpoint(prepared.config, out, cleanup)
            about = about_run(prepared.config)
            specs = node_specs(
                prepared.config,
                prepared.roster,
                endpoint=endpoint,
                bind=bind,
                about=about,
                remove_if_orphaned=(*copies, *sockets),
                **common,
            )
        else:
            endpoints, binds, sockets = _peer_endpoints(prepared.config, names, out, cleanup)
            specs = peer_specs(
                prepared.config,
                prepared.roster,
                prepared.graph,
                endpoints=endpoints,
                binds=binds,
                remove_if_orphaned=(*copies, *sockets),
                **common,
            )
        # All of them start together here, and each has to wait for the last.
        start_s = START_S * len(specs) / this_machine().cores
        join_s = max(prepared.config.timeouts.join_s, 3.0 * start_s)
        watched = {"log_format": log_format, "metrics": metrics}
        specs = [
            dataclasses.replace(spec, timeouts=spec.timeouts | {"join_s": join_s}, **watched)  # type: ignore[arg-type]
            for spec in specs
        ]
        specs = [
            spec
            if spec.source or spec.task < 0
            else dataclasses.replace(spec, data_digest=prepared.streams[spec.task].digest())
            for spec in specs
        ]
        for spec in specs:
            spec.require_same_data()
        log = JsonLog("launcher") if log_format == "json" else None
        page = cleanup.enter_context(MetricsPage(metrics)) if metrics else None
        view = _View(progress, len(names), interruption, log=log, page=page)
        paths = [_write_spec(spec) for spec in specs]

        def prepare_node(spec: NodeSpec) -> None:
            # Only now: were the launcher killed in between, no node would be there yet to remove the copy.
            if spec.role != "reducer":
                write_data_facts(Path(spec.out), prepared.dataset)
            if spec.examples:
                remove_folder(Path(spec.examples))  # of the run that is resumed
                prepared.streams[spec.task].save(Path(spec.examples))
                cleanup.callback(remove_folder, Path(spec.examples))

        lost = run_children(
            specs,
            paths,
            logs,
            interruption=interruption,
            restart=prepared.config.restart,
            dispensable=lambda spec: prepared.config.policy.proceeds and spec.role != "reducer",
            prepare=prepare_node,
            on_line=view.on_line,
            on_change=view.on_change,
            on_idle=view.show,
            say=progress.say,
        )
        if not all((Path(spec.out) / "result.json").exists() for spec in specs if spec.node not in lost):
            raise StoppedError("interrupted before every task had begun: there is no result", interruption.exit_code)
        for spec in specs:
            if spec.node in lost:
                write_result_of_lost(spec)
    tasks = [read_task_outcome(node_folder(out, node)) for node in nodes]
    if prepared.graph is None:
        return tasks, [read_central_outcome(node_folder(out, REDUCER), len(names))]
    return tasks, [read_peer_central_outcome(node_folder(out, node)) for node in nodes]


def _endpoint(config: ClusterConfig, out: Path, cleanup: ExitStack) -> tuple[str, str, tuple[str, ...]]:
    """Where workers connect, where the reducer listens, and what nobody needs after the run.

    As configured, or a socket that only this user can open.
    """
    if config.reducer.endpoint is not None:
        return config.reducer.endpoint, config.reducer.listens_at or config.reducer.endpoint, ()
    folder = _socket_folder(out, cleanup)
    return f"ipc://{folder}/reducer", f"ipc://{folder}/reducer", (str(folder),)


def _peer_endpoints(
    config: ClusterConfig, names: Sequence[str], out: Path, cleanup: ExitStack
) -> tuple[Sequence[str], Sequence[str], tuple[str, ...]]:
    """The same for peers, in task order."""
    given = peer_endpoints(config, names)
    if given is not None:
        return given, config.peers.listens_at or given, ()
    folder = _socket_folder(out, cleanup)
    endpoints = [f"ipc://{folder}/{task}" for task in range(len(names))]
    return endpoints, endpoints, (str(folder),)


def _socket_folder(out: Path, cleanup: ExitStack) -> Path:
    """A new folder for sockets that only this user can enter: in the run directory, or, as a socket's path has a
    limit and ZeroMQ wants UTF-8, among the temporary files."""
    folder = out / NODES / ".sockets"
    if len(os.fsencode(folder)) + 10 <= _SOCKET_PATH_LIMIT and _is_utf8(folder):
        shutil.rmtree(folder, ignore_errors=True)  # of the run that is resumed
        folder.mkdir(mode=0o700, parents=True)
    else:
        folder = Path(tempfile.mkdtemp(prefix="drom-net-"))
    cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
    if len(os.fsencode(folder)) + 10 > _SOCKET_PATH_LIMIT:
        raise UsageError(
            f"the run directory and the folder for temporary files both make a socket's path too long ({folder}); "
            "a shorter --out helps"
        )
    return folder


def _is_utf8(path: Path) -> bool:
    try:
        return bool(str(path).encode())
    except UnicodeEncodeError:
        return False


def _write_spec(spec: NodeSpec) -> Path:
    folder = Path(spec.out)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / "spec.json"
    spec.write(path)
    return path


class _View:
    """The nodes' reports put together: the state of the whole cluster."""

    def __init__(
        self,
        progress: Progress,
        num_tasks: int,
        interruption: Interruption,
        *,
        log: JsonLog | None = None,
        page: MetricsPage | None = None,
    ) -> None:
        """
        Args:
            log: Where the nodes' lines and the launcher's own go, where the log is structured.
            page: Where the nodes' counts are shown.
        """
        self._progress = progress
        self._log = log
        self._page = page
        self._counts: dict[str, Counts] = {}
        if page is not None and log is not None:
            log.note(f"metrics at {page.url}", "metrics_served", url=page.url)
        elif page is not None:
            progress.say(f"metrics at {page.url}")
        self._interruption = interruption
        self._said, self._quiet_until = 0, -math.inf
        self._totals = [Totals() for _ in range(num_tasks)]
        self._rounds = [0] * num_tasks
        self._sigma: float | None = None

    def on_line(self, spec: NodeSpec, line: dict[str, Any]) -> None:
        if "totals" in line:
            self._totals[spec.task] = Totals(*line["totals"])
            self._rounds[spec.task] = line["round"]
        elif "sigma_1" in line:
            self._sigma = line["sigma_1"]
        elif "counts" in line:
            self._counts[spec.node] |= line["counts"]
        elif "log" in line and self._log is not None:
            self._log.pass_on(line["log"])
        elif "say" in line and not self._interruption.exit_code:
            self._say(f"{spec.name}: {line['say']}")

    def on_change(self, spec: NodeSpec, event: str, value: int) -> None:
        started = event != "node_ended"
        self._counts.setdefault(spec.node, {})["drom_net_node_up"] = started
        if self._log is not None and started:
            self._log.note(f"{spec.name} was started as process {value}", event, name=spec.name, pid=value)
        elif self._log is not None:
            self._log.note(f"{spec.name} ended with exit code {value}", event, name=spec.name, exit_code=value)

    def _say(self, text: str) -> None:
        """Of many nodes in the same trouble the first ones tell enough."""
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until, self._said = now + _SAYINGS_EVERY_S, 0
        self._said += 1
        if self._said <= _SAYINGS:
            self._progress.say(text)
        elif self._said == _SAYINGS + 1:
            self._progress.say(f"more such lines are left out for {_SAYINGS_EVERY_S:g} s (--log-format json has all)")

    def show(self) -> None:
        if self._page is not None:
            self._page.counts = {name: dict(counts) for name, counts in self._counts.items()}
        self._progress.update(max(self._rounds), lambda: self._totals, self._sigma)
