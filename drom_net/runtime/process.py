"""One node as a process: from its spec to its exit code. Light on purpose: no YAML, no click, no rich."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from drom_net.data.stream import TaskStream
from drom_net.errors import DromNetError
from drom_net.learning import TaskResult
from drom_net.protocol.node import TIMES_DTYPE, Ended
from drom_net.protocol.peer import Peer, address_of
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.worker import Worker
from drom_net.records import run_digest
from drom_net.runtime.build import build_peer, build_reducer, build_worker
from drom_net.runtime.loop import Transport, drive, flush
from drom_net.runtime.metrics_page import serve_counts
from drom_net.runtime.reports import Reporter, reporter_of
from drom_net.runtime.spec import NodeSpec
from drom_net.runtime.teller import Teller as _Teller
from drom_net.runtime.zmq_transport import DealerTransport, RouterTransport
from drom_net.summary import TaskFigures, summarize, write_json

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a node in order; its exit code is then 128 and the signal's number."""


class _Stop:
    """SIGTERM and SIGINT: the first asks the node to end in order, the second ends the process at once."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self.exit_code = 0
        for number in SIGNALS:
            signal.signal(number, self._on_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # whoever started us may have held them back until now

    def _on_signal(self, number: int, _: object) -> None:
        code = 128 + number
        if self.exit_code:
            os._exit(code)
        self.exit_code = code

    @property
    def orphaned(self) -> bool:
        """Whether the launcher is gone."""
        return bool(self._parent) and os.getppid() != self._parent

    def requested(self) -> bool:
        if self.orphaned and not self.exit_code:
            self.exit_code = 128 + signal.SIGTERM  # the launcher is gone: no orphan is left behind
        return self.exit_code != 0


def run_node(spec: NodeSpec) -> int:
    """Run the node to its end and return the exit code; what went wrong is on standard error."""
    reporter = reporter_of(spec)
    stop = _Stop(spec.parent)
    try:
        serve_counts(spec, reporter)
        if spec.role == "worker":
            _run_worker(spec, reporter, stop)
        elif spec.role == "peer":
            _run_peer(spec, reporter, stop)
        else:
            _run_reducer(spec, reporter, stop)
    except DromNetError as error:
        reporter.fail(str(error), exit_code=error.exit_code)
        _forget_if_nothing_was_learned(spec)
        return error.exit_code
    except OSError as error:
        reporter.fail(f"{error.strerror}: {error.filename}" if error.filename else str(error), exit_code=1)
        return 1
    finally:
        for folder in (*spec.remove, *(spec.remove_if_orphaned if stop.orphaned else ())):
            shutil.rmtree(folder, ignore_errors=True)
    return stop.exit_code


def _run_worker(spec: NodeSpec, reporter: Reporter, stop: _Stop) -> None:
    out = Path(spec.out)
    stream = TaskStream.load(Path(spec.examples), spread_over=spec.spread_over)
    worker = build_worker(spec, stream)
    started = time.monotonic()
    with (
        DealerTransport(spec.endpoint, spec.name, dim=spec.dim, timeouts=spec.build_timeouts()) as transport,
        (out / "records.bin").open("wb") as records,
        (out / "times.bin").open("wb") as times,
    ):
        if not spec.parent:
            reporter.note(f"looking for the reducer at {spec.endpoint}", "looking", endpoint=spec.endpoint)
        saved = [(records, worker.take_records), (times, _wall(worker))]
        teller = _Teller(reporter, saved, stop, lambda: _worker_figures(worker))
        finished, error = _drive(worker, transport, teller, dim=spec.dim)
        seconds = time.monotonic() - started  # the goodbye is over; to close is no part of the run
        teller.save()
        sent, received = transport.bytes_sent, transport.bytes_received
    if error is not None and worker.round == 0:
        raise error
    assert worker.result is not None
    _write_task_result(spec, worker.result, finished, worker.round, (sent, received), seconds, run_id=worker.run_id)
    if error is not None:
        raise error
    reporter.progress(**_worker_figures(worker))
    _note_end(reporter, finished, worker.round, f"results in {out}")


def _run_peer(spec: NodeSpec, reporter: Reporter, stop: _Stop) -> None:
    out = Path(spec.out)
    stream = TaskStream.load(Path(spec.examples), spread_over=spec.spread_over)
    peer = build_peer(spec, stream)
    started = time.monotonic()
    with (
        RouterTransport(spec.endpoint, dim=spec.dim, timeouts=spec.build_timeouts(), name=spec.name) as transport,
        (out / "records.bin").open("wb") as records,
        (out / "central.bin").open("wb") as central,
        (out / "times.bin").open("wb") as times,
    ):
        transport.is_member = lambda address: peer.task_at(address) is not None
        neighbors = peer.neighborhood.neighbors
        for task in neighbors:
            if task < spec.task:
                transport.connect(address_of(task), spec.neighbor_endpoints[str(task)])
        if not spec.parent:
            text = f"listening on {transport.endpoint}, for {len(neighbors)} neighbors"
            reporter.note(text, "listening", endpoint=transport.endpoint)
        saved = [(records, peer.take_records), (central, peer.take_central_records), (times, _wall(peer))]
        teller = _Teller(
            reporter,
            saved,
            stop,
            lambda: _worker_figures(peer),
            names=spec.tasks,
            expected=len(neighbors),
        )
        finished, error = _drive(peer, transport, teller, dim=spec.dim)
        seconds = time.monotonic() - max(started, teller.first_joined_at)
        teller.save()
        sent, received = transport.bytes_sent, transport.bytes_received
    if error is not None and peer.round == 0:
        raise error
    assert peer.result is not None
    _write_task_result(
        spec,
        peer.result,
        finished,
        peer.round,
        (sent, received),
        seconds,
        run_id=peer.run_id,
        central_chain=peer.central_chain.hex(),
        members=peer.neighborhood.everybody,
    )
    if error is not None:
        raise error
    reporter.progress(**_worker_figures(peer))
    _note_end(reporter, finished, peer.round, f"results in {out}")


def _note_end(reporter: Reporter, finished: bool, t: int, where: str) -> None:
    how = "finished" if finished else "stopped"
    reporter.note(f"{how} after round {t}; {where}", how, round=t)


def _wall(node: Worker | Peer) -> Callable[[], bytes]:
    """Its times as seconds since 1970, so that those of several hosts can be put side by side."""
    offset = time.time() - time.monotonic()

    def take() -> bytes:
        rows = np.frombuffer(node.take_times(), dtype=TIMES_DTYPE).copy()
        for name in ("said_s", "idle_s", "closed_s"):
            rows[name] += offset
        return rows.tobytes()

    return take


def _write_task_result(
    spec: NodeSpec,
    result: TaskResult,
    finished: bool,
    rounds: int,
    moved: tuple[int, int],
    seconds: float,
    **more: object,
) -> None:
    """What a task leaves in its folder: its vectors, and all else in result.json."""
    out = Path(spec.out)
    for name, vector in result.model.items():
        np.save(out / f"{name}.npy", vector, allow_pickle=False)
    document = {
        "task": spec.task,
        "name": spec.name,
        "finished": finished,
        "rounds": rounds,
        "chain": result.chain.hex(),
        "totals": result.totals.to_list(),
        "bytes_sent": moved[0],
        "bytes_received": moved[1],
        "seconds": seconds,
    }
    write_json(out / "result.json", document | more)


def _run_reducer(spec: NodeSpec, reporter: Reporter, stop: _Stop) -> None:
    out = Path(spec.out)
    run_id = spec.run_id or secrets.token_hex(8)
    reducer = build_reducer(spec, run_id)
    with (
        RouterTransport(spec.endpoint, dim=spec.dim, timeouts=spec.build_timeouts()) as transport,
        (out / "records.bin").open("wb") as records,
    ):
        transport.is_member = lambda address: reducer.task_at(address) is not None
        text = f"listening on {transport.endpoint} for {len(spec.tasks)} workers"
        reporter.note(text, "listening", endpoint=transport.endpoint)
        teller = _Teller(
            reporter,
            [(records, reducer.take_records)],
            stop,
            lambda: {"round": reducer.closed_rounds, "sigma_1": reducer.last_sigma},
            names=spec.tasks,
            expected=len(spec.tasks),
        )
        finished, error = _drive(reducer, transport, teller, dim=spec.dim)
        seconds = time.monotonic() - teller.first_joined_at
        teller.save()
        bytes_by_task = transport.bytes_by_peer(reducer.task_at)
    if error is not None and reducer.closed_rounds == 0 and not any(reducer.ended):
        raise error
    write_json(
        out / "result.json",
        {
            "finished": finished,
            "rounds": reducer.closed_rounds,
            "chain": reducer.central_chain.hex(),
            "seconds": seconds,
            "refused": teller.refused,
            "run_id": run_id,
        },
    )
    if error is not None:
        raise error
    if not finished:
        _note_end(reporter, finished, reducer.closed_rounds, f"results in {out}, `drom-net merge` collects them")
    elif not spec.summary:
        _note_end(reporter, finished, reducer.closed_rounds, f"results in {out}")
    else:
        ended = [task for task in reducer.ended if task is not None]
        summary = summarize_star(spec.about, spec.tasks, ended, reducer.central_chain, seconds, bytes_by_task)
        write_json(Path(spec.summary), summary)
        reporter.note(
            f"finished: {summary['rounds']} rounds, error rate {100 * summary['error_rate']:.2f} %, "
            f"digest {summary['digest']}; summary in {spec.summary}",
            "finished",
            round=summary["rounds"],
            error_rate=summary["error_rate"],
            digest=summary["digest"],
        )


def _drive(
    node: Worker | Reducer | Peer, transport: Transport, teller: _Teller, *, dim: int
) -> tuple[bool, DromNetError | OSError | None]:
    """(whether the node finished by itself, the error that ended it): what was learned is not lost with it."""
    teller.watch(node, transport)
    with np.errstate(over="ignore", invalid="ignore"):  # one clear error tells of divergence, not NumPy's warnings
        try:
            finished = drive(
                node, transport, dim=dim, max_vectors=node.max_vectors, on_event=teller.on_event, look=teller.look
            )
            return finished, None
        except (DromNetError, OSError) as error:
            node.stop()
            flush(node, transport, teller.on_event)  # a reducer tells the workers
            return False, error


def _forget_if_nothing_was_learned(spec: NodeSpec) -> None:
    """A node by hand that never got to learn leaves no folder that would be in the way of the next try."""
    folder = Path(spec.out)
    if spec.parent or (folder / "result.json").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # others may have theirs beside it
        folder.parent.rmdir()
        folder.parent.parent.rmdir()


def summarize_star(
    about: dict[str, str],
    names: tuple[str, ...],
    ended: list[Ended],
    central_chain: bytes,
    seconds: float,
    bytes_by_task: dict[int, tuple[int, int]],
) -> dict[str, Any]:
    """The summary as the reducer can write it: from the workers' goodbyes and its own chain."""
    figures = [
        TaskFigures(name, end.rounds, end.totals, *bytes_by_task.get(task, (0, 0)))
        for task, (name, end) in enumerate(zip(names, ended, strict=True))
    ]
    return summarize(
        figures,
        about=about,
        driver="processes",
        rounds=max(end.rounds for end in ended),
        seconds=seconds,
        digest=run_digest([end.chain for end in ended], central_chain),
    )


def _worker_figures(node: Worker | Peer) -> dict[str, Any]:
    return {"round": node.round, "totals": node.totals.to_list()}
