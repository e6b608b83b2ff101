"""One node as a process: from its spec to its exit code. Light on purpose: no YAML, no click, no rich."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drom_net.core.errors import ClusterError, DivergedError, DromNetError, RejectedError
from drom_net.node.build import Life, build_peer, build_reducer, build_worker
from drom_net.node.disk import Disk
from drom_net.node.loop import drive, flush, let_all_pass
from drom_net.node.metrics_page import serve_counts
from drom_net.node.reports import Reporter, reporter_of
from drom_net.node.results import peak_memory, summarize_star, write_task_result
from drom_net.node.signals import Stop
from drom_net.node.spec import NodeSpec
from drom_net.node.start import life_of, rows_of, stream_of
from drom_net.node.telemetry import Telemetry
from drom_net.protocol.messages import Message
from drom_net.protocol.node import REDUCER, named
from drom_net.protocol.peer import Peer
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.session import address_of
from drom_net.protocol.states import PeerState, WorkerState
from drom_net.protocol.worker import Worker
from drom_net.results.summary import remove_folder, write_json
from drom_net.storage.node_folder import CheckpointFolder, Spent, has_learned
from drom_net.transport.curve import key_gate
from drom_net.transport.dealer import DealerTransport
from drom_net.transport.keys import PUBLIC_LIST, Keyring, read_keyring
from drom_net.transport.router import RouterTransport

if TYPE_CHECKING:
    from drom_net.node.live.intake import Intake


def run_node(spec: NodeSpec) -> int:
    """Run the node to its end and return the exit code; what went wrong is on standard error."""
    reporter = reporter_of(spec)
    stop = Stop(spec.parent)
    incarnation = 0
    try:
        with CheckpointFolder(Path(spec.out), node=spec.node, config_digest=spec.config_digest) as folder:
            incarnation, _ = folder.begin(spec.run_id)
            reporter.incarnation = incarnation
            life = life_of(spec, folder, reporter)
            (Path(spec.out) / "result.json").unlink(missing_ok=True)  # what an interrupted life has left
            serve_counts(spec, reporter)
            run = {"worker": _run_worker, "peer": _run_peer, "reducer": _run_reducer}[spec.role]
            finished = run(spec, reporter, stop, folder, life)
    except DromNetError as error:
        reporter.fail(str(error), exit_code=error.exit_code)
        if incarnation == 1 and not folder.others_know:
            _forget_if_nothing_was_learned(spec)
        return error.exit_code
    except OSError as error:
        reporter.fail(f"{error.strerror}: {error.filename}" if error.filename else str(error), exit_code=1)
        return 1
    finally:
        for gone in (*spec.remove, *(spec.remove_if_orphaned if stop.orphaned else ())):
            remove_folder(Path(gone))
    return 0 if finished else stop.exit_code


def _run_worker(spec: NodeSpec, reporter: Reporter, stop: Stop, folder: CheckpointFolder, life: Life) -> bool:
    stream, intake = stream_of(spec, life, reporter)
    worker = build_worker(spec, stream, life)
    with (
        DealerTransport(
            spec.endpoint,
            spec.node,
            dim=spec.dim,
            max_vectors=worker.max_vectors,
            timeouts=spec.build_timeouts(),
            keys=_read_keys(spec, [REDUCER]),
        ) as transport,
        contextlib.ExitStack() as files,
    ):
        if not spec.parent:
            reporter.note(f"looking for the reducer at {spec.endpoint}", "looking", endpoint=spec.endpoint)
        saved = rows_of(spec, worker, life, files)
        telemetry = Telemetry(
            reporter,
            saved,
            stop,
            lambda: _worker_figures(worker),
            on_first_joined=lambda: folder.join(worker.run_id),
            moved=lambda: {spec.task: (transport.bytes_sent, transport.bytes_received)},
        )
        ended = _drive(worker, transport, telemetry, folder, dim=spec.dim, intake=intake)
    return _end_task(spec, worker, ended, reporter)


def _run_peer(spec: NodeSpec, reporter: Reporter, stop: Stop, folder: CheckpointFolder, life: Life) -> bool:
    stream, intake = stream_of(spec, life, reporter)
    peer = build_peer(spec, stream, life)
    folder.adopt(peer.run_id)
    neighbors = peer.neighborhood.neighbors
    keys = _read_keys(spec, [spec.nodes[task] for task in neighbors if task < spec.task])
    _warn_of_missing_keys(spec, keys, [task for task in neighbors if task > spec.task], reporter)
    with (
        RouterTransport(
            spec.endpoint,
            dim=spec.dim,
            max_vectors=peer.max_vectors,
            timeouts=spec.build_timeouts(),
            name=spec.node,
            members=spec.nodes,
            keys=keys,
        ) as transport,
        contextlib.ExitStack() as files,
    ):
        transport.is_member = lambda address: peer.task_at(address) is not None
        for task in neighbors:
            if task < spec.task:
                transport.connect(address_of(task), spec.neighbor_endpoints[str(task)], spec.nodes[task])
        if not spec.parent:
            text = f"listening on {transport.endpoint}, for {len(neighbors)} neighbors"
            reporter.note(text, "listening", endpoint=transport.endpoint)
        telemetry = Telemetry(
            reporter,
            rows_of(spec, peer, life, files),
            stop,
            lambda: _worker_figures(peer),
            names=spec.tasks,
            expected=len(neighbors),
            on_first_joined=lambda: folder.join(peer.run_id),
            moved=lambda: {spec.task: (transport.bytes_sent, transport.bytes_received)},
        )
        ended = _drive(peer, transport, telemetry, folder, dim=spec.dim, intake=intake)
    return _end_task(
        spec,
        peer,
        ended,
        reporter,
        refused=telemetry.refused,
        central_chain=peer.central_chain.hex(),
        refused_handshakes=transport.refused_handshakes,
        closed_strangers=transport.closed_strangers,
        members=peer.neighborhood.everybody,
    )


def _end_task(spec: NodeSpec, node: Worker | Peer, ended: _Driven, reporter: Reporter, **more: object) -> bool:
    """Leave what was learned, if anything was; whether the node finished by itself."""
    finished, error, spent = ended
    if error is not None and (node.round == 0 or node.result is None):
        raise error
    assert node.result is not None
    write_task_result(spec, node.result, finished, node.round, spent, run_id=node.run_id, **more)
    if error is not None:
        raise error
    reporter.progress(**_worker_figures(node))
    _note_end(reporter, finished, node.round, f"results in {spec.out}")
    return finished


def _note_end(reporter: Reporter, finished: bool, t: int, where: str) -> None:
    how = "finished" if finished else "stopped"
    where += "" if finished else "; the same command goes on"
    reporter.note(f"{how} after round {t}; {where}", how, round=t)


def _run_reducer(spec: NodeSpec, reporter: Reporter, stop: Stop, folder: CheckpointFolder, life: Life) -> bool:
    out = Path(spec.out)
    run_id = folder.run_id or secrets.token_hex(8)
    folder.adopt(run_id)
    reducer = build_reducer(spec, run_id, life)
    keys = _read_keys(spec, [])
    _warn_of_missing_keys(spec, keys, range(len(spec.tasks)), reporter)
    with (
        RouterTransport(
            spec.endpoint,
            dim=spec.dim,
            max_vectors=reducer.max_vectors,
            timeouts=spec.build_timeouts(),
            members=spec.nodes,
            keys=keys,
        ) as transport,
        contextlib.ExitStack() as files,
    ):
        transport.is_member = lambda address: reducer.task_at(address) is not None
        transport.was_member = lambda address: reducer.has_spoken_from(address) is not None
        text = f"listening on {transport.endpoint} for {len(spec.tasks)} workers"
        reporter.note(text, "listening", endpoint=transport.endpoint)
        telemetry = Telemetry(
            reporter,
            rows_of(spec, reducer, life, files),
            stop,
            lambda: {"round": reducer.closed_rounds} | ({"sigma_1": reducer.last_sigma} if reducer.last_sigma else {}),
            names=spec.tasks,
            expected=len(spec.tasks),
            on_first_joined=lambda: folder.join(run_id),
            moved=lambda: transport.bytes_by_peer(reducer.has_spoken_from),
        )
        finished, error, spent = _drive(reducer, transport, telemetry, folder, dim=spec.dim)
    if error is not None and reducer.closed_rounds == 0 and not any(reducer.ended):
        raise error
    summary = None
    if finished and error is None and spec.summary and all(reducer.ended):
        ended = [task for task in reducer.ended if task is not None]
        summary = summarize_star(spec.about, spec.tasks, ended, reducer.central_chain, spent)
        write_json(Path(spec.summary), summary)  # first: a node that says in result.json that it has finished, has
    write_json(
        out / "result.json",
        {
            "finished": finished,
            "rounds": reducer.closed_rounds,
            "chain": reducer.central_chain.hex(),
            "seconds": spent.seconds,
            "refused": telemetry.refused,
            "refused_handshakes": transport.refused_handshakes,
            "closed_strangers": transport.closed_strangers,
            "peak_bytes": peak_memory(),
            "keep_records": spec.keep_records,
            "run_id": run_id,
        },
    )
    if error is not None:
        raise error
    if not finished:
        _note_end(reporter, finished, reducer.closed_rounds, f"results in {out}, `drom-net merge` collects them")
    elif not spec.summary:
        _note_end(reporter, finished, reducer.closed_rounds, f"results in {out}")
    elif not all(reducer.ended):
        gone = ", ".join(name for name, end in zip(spec.tasks, reducer.ended, strict=True) if end is None)
        text = f"results in {out}, without {gone}: `drom-net merge` collects them"
        _note_end(reporter, finished, reducer.closed_rounds, text)
    else:
        assert summary is not None
        error, majority = summary["error_rate"], summary["majority_error_rate"]
        rate = "no examples"
        if error is not None and majority is not None:
            rate = f"error rate {100 * error:.2f} % (majority {100 * majority:.2f} %)"
        reporter.note(
            f"finished: {summary['rounds']} rounds, {rate}, digest {summary['digest']}; summary in {spec.summary}",
            "finished",
            round=summary["rounds"],
            error_rate=error,
            majority_error_rate=majority,
            digest=summary["digest"],
        )
    return finished


class _Driven(NamedTuple):
    """How a node has ended."""

    finished: bool
    """By itself."""
    error: DromNetError | OSError | None
    """What ended it."""
    spent: Spent
    """In all starts, until its goodbye was over: to close is no part of the run."""


def _drive(
    node: Worker | Reducer | Peer,
    transport: DealerTransport | RouterTransport,
    telemetry: Telemetry,
    folder: CheckpointFolder,
    *,
    dim: int,
    intake: Intake | None = None,
) -> _Driven:
    """Drive the node to its end; what was learned is not lost with an error."""

    def look() -> bool:
        if transport.rejected_by and node.state in (WorkerState.JOINING, PeerState.JOINING):
            raise RejectedError(transport.trouble)
        folder.show_life()
        return telemetry.look()

    gate: Callable[[str, Message], str] = let_all_pass
    if transport.has_keys and not isinstance(node, Worker):  # a worker speaks to the reducer's key and to no other
        gate = key_gate(node, lambda: transport.speaker)
    telemetry.watch(node, transport, intake)
    error: DromNetError | OSError | None = None
    with np.errstate(over="ignore", invalid="ignore"):  # one clear error tells of divergence, not NumPy's warnings
        try:
            with Disk(node, folder, telemetry, intake) as disk:
                if intake is not None and not isinstance(node, Reducer):
                    from drom_net.node.live.sources import open_source

                    open_source(intake, node)
                    transport.also_waits_for = lambda: intake.waits_for
                finished = drive(
                    node,
                    transport,
                    dim=dim,
                    max_vectors=node.max_vectors,
                    on_event=telemetry.on_event,
                    look=look,
                    keep=disk.keep,
                    serve=intake.serve if intake is not None else lambda: False,
                    gate=gate,
                )
            if finished:
                folder.end()
        except (DromNetError, OSError) as caught:
            finished, error = False, caught
            with contextlib.suppress(DivergedError):  # there is no result, and the first error tells why
                node.stop()
            flush(node, transport, telemetry.on_event)  # a reducer tells the workers
            if isinstance(error, ClusterError) and transport.trouble:
                said = str(error).removesuffix("; is it running, and is the address right?")
                error = ClusterError(f"{said}; {transport.trouble}")
    spent = folder.before + telemetry.spent()
    telemetry.save()
    return _Driven(finished, error, spent)


def _read_keys(spec: NodeSpec, needed: Sequence[str]) -> Keyring | None:
    """The node's keys, where its cluster has any.

    Args:
        needed: Whom it connects to: without their public keys it cannot.

    Raises:
        ConfigError: A file is missing or wrong.
    """
    if not spec.keys:
        return None
    keys = read_keyring(Path(spec.keys), spec.node)
    keys.require(needed)
    return keys


def _warn_of_missing_keys(spec: NodeSpec, keys: Keyring | None, joining: Sequence[int], reporter: Reporter) -> None:
    nodes = spec.nodes
    missing = [task for task in joining if keys is not None and nodes[task] not in keys.public]
    if keys is not None and missing:
        who = named(spec.tasks, missing)
        text = f"warning: {who} cannot join: {keys.folder / PUBLIC_LIST} has no such public key"
        reporter.say(text, "key_missing", names=[spec.tasks[task] for task in missing])


def _forget_if_nothing_was_learned(spec: NodeSpec) -> None:
    """A node by hand that has met nobody and learned nothing leaves no folder behind."""
    folder = Path(spec.out)
    if spec.parent or has_learned(folder) or (folder / "result.json").exists():
        return
    remove_folder(folder)
    with contextlib.suppress(OSError):  # others may have theirs beside it
        folder.parent.rmdir()
        folder.parent.parent.rmdir()


def _worker_figures(node: Worker | Peer) -> dict[str, Any]:
    return {"round": node.round, "totals": node.totals.to_list()}
