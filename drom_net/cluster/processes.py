"""A run as real processes of this machine."""

from __future__ import annotations

import dataclasses
import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from drom_net.cluster.cost import START_S
from drom_net.cluster.directories import require_resumable, the_only_launcher
from drom_net.cluster.local import Hooks, Interruption, run_children
from drom_net.cluster.machine import this_machine
from drom_net.cluster.plan import node_specs, peer_specs
from drom_net.cluster.prepare import Prepared
from drom_net.cluster.progress import Progress
from drom_net.cluster.record import Record, both
from drom_net.cluster.view import View
from drom_net.config.model import ClusterConfig, peer_endpoints
from drom_net.core.errors import StoppedError, UsageError
from drom_net.node.metrics_page import MetricsPage
from drom_net.node.reports import JsonLog
from drom_net.node.results import write_result_of_lost
from drom_net.node.spec import LaunchSpec, NodeSpec
from drom_net.protocol.node import REDUCER
from drom_net.results.outcomes import (
    CentralOutcome,
    TaskOutcome,
    read_central_outcome,
    read_peer_central_outcome,
    read_task_outcome,
    write_data_facts,
)
from drom_net.results.run_directory import (
    LOGS,
    NODES,
    node_folder,
)
from drom_net.results.summary import remove_folder

_SOCKET_PATH_LIMIT = 100  # bytes; the system's own limit for a socket's path is 107


def run_as_processes(
    prepared: Prepared,
    out: Path,
    progress: Progress,
    interruption: Interruption,
    *,
    resume: bool,
    log_format: str,
    metrics: str,
) -> tuple[list[TaskOutcome], list[CentralOutcome]]:
    nodes = prepared.roster.nodes
    logs = out / LOGS
    logs.mkdir(exist_ok=resume)
    with ExitStack() as cleanup:
        cleanup.enter_context(the_only_launcher(out))
        run_id = (require_resumable(out) if resume else "") or secrets.token_hex(8)
        launch = LaunchSpec(parent=os.getpid(), log_format=log_format, metrics=metrics)
        specs = _as_launched(_specs(prepared, out, run_id, launch, cleanup), prepared)
        for spec in specs:
            spec.require_same_data()
        log = JsonLog("launcher") if log_format == "json" else None
        page = cleanup.enter_context(MetricsPage(metrics)) if metrics else None
        view = View(progress, len(nodes), interruption, log=log, page=page)
        record = cleanup.enter_context(Record(out, prepared, interruption))
        hooks = Hooks(
            dispensable=lambda spec: prepared.config.policy.proceeds and spec.role != "reducer",
            prepare=lambda spec: _write_data(spec, prepared, cleanup),
            on_line=both(view.on_line, record.on_line),
            on_change=both(view.on_change, record.on_change),
            on_idle=both(view.show, record.look),
            say=both(progress.say, record.say),
        )
        paths = [_write_spec(spec) for spec in specs]
        restart = prepared.config.restart
        lost = run_children(specs, paths, logs, interruption=interruption, restart=restart, hooks=hooks)
        if not all((Path(spec.out) / "result.json").exists() for spec in specs if spec.node not in lost):
            raise StoppedError("interrupted before every task had begun: there is no result", interruption.exit_code)
        for spec in specs:
            if spec.node in lost:
                write_result_of_lost(spec)
    tasks = [read_task_outcome(node_folder(out, node)) for node in nodes]
    if prepared.graph is None:
        return tasks, [read_central_outcome(node_folder(out, REDUCER), len(nodes))]
    return tasks, [read_peer_central_outcome(node_folder(out, node)) for node in nodes]


def _specs(prepared: Prepared, out: Path, run_id: str, launch: LaunchSpec, cleanup: ExitStack) -> list[NodeSpec]:
    """What each node is to do in its folder below `out`, wherever it runs."""
    config, roster = prepared.config, prepared.roster
    copies = tuple(f"{node_folder(out, node)}/examples" for node in roster.nodes if config.source is None)
    common: dict[str, Any] = {
        "run_id": run_id,
        "folder_of": {node: str(node_folder(out, node)) for node in (REDUCER, *roster.nodes)},
    }
    if prepared.graph is None:
        endpoint, bind, sockets = _endpoint(config, out, cleanup)
        launch = dataclasses.replace(launch, remove_if_orphaned=(*copies, *sockets))
        return node_specs(config, roster, endpoint=endpoint, bind=bind, launch=launch, **common)
    endpoints, binds, sockets = _peer_endpoints(config, roster.tasks, out, cleanup)
    launch = dataclasses.replace(launch, remove_if_orphaned=(*copies, *sockets))
    return peer_specs(config, roster, prepared.graph, endpoints=endpoints, binds=binds, launch=launch, **common)


def _as_launched(specs: Sequence[NodeSpec], prepared: Prepared) -> list[NodeSpec]:
    """The same with what only their launcher knows: the rows, and how long all take to start."""
    # All of them start together here, and each has to wait for the last.
    start_s = START_S * len(specs) / this_machine().cores
    join_s = max(prepared.config.timeouts.join_s, 3.0 * start_s)
    launched = []
    for spec in specs:
        own_rows = not spec.stream.source and spec.task >= 0
        digest = prepared.streams[spec.task].digest() if own_rows else spec.stream.data_digest
        stream = dataclasses.replace(spec.stream, data_digest=digest)
        launched.append(dataclasses.replace(spec, timeouts=spec.timeouts | {"join_s": join_s}, stream=stream))
    return launched


def _write_data(spec: NodeSpec, prepared: Prepared, cleanup: ExitStack) -> None:
    """Its rows for a node that is about to start, until the end of the run."""
    # Not before: were the launcher killed in between, no node would be there yet to remove the copy.
    if spec.role != "reducer":
        write_data_facts(Path(spec.out), prepared.dataset)
    if spec.stream.examples:
        remove_folder(Path(spec.stream.examples))  # of the run that is resumed
        prepared.streams[spec.task].save(Path(spec.stream.examples))
        cleanup.callback(remove_folder, Path(spec.stream.examples))


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
