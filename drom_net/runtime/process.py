"""One node as a process: from its spec to its exit code. Light on purpose: no YAML, no click, no rich."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from drom_net.data.stream import TaskStream
from drom_net.errors import ClusterError, DromNetError, RejectedError
from drom_net.learning import TaskResult
from drom_net.protocol.messages import Message
from drom_net.protocol.node import (
    REDUCER,
    TIMES_DTYPE,
    ConnectionChanged,
    Ended,
    Event,
    Joined,
    Refused,
    Stalled,
    Warned,
    named,
)
from drom_net.protocol.peer import Peer, PeerState, address_of
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.worker import Worker, WorkerState
from drom_net.records import run_digest
from drom_net.runtime.build import build_peer, build_reducer, build_worker
from drom_net.runtime.curve import key_gate
from drom_net.runtime.keys import PUBLIC_LIST, Keyring, read_keyring
from drom_net.runtime.loop import drive, flush, let_all_pass
from drom_net.runtime.reports import JsonReporter, Reporter, TextReporter
from drom_net.runtime.spec import NodeSpec
from drom_net.runtime.zmq_transport import DealerTransport, RouterTransport
from drom_net.summary import TaskFigures, summarize, write_json

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a node in order; its exit code is then 128 and the signal's number."""
_REFUSALS_TOLD = 10


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
    reporter: Reporter = JsonReporter() if spec.parent else TextReporter(spec.name)
    stop = _Stop(spec.parent)
    try:
        if spec.role == "worker":
            _run_worker(spec, reporter, stop)
        elif spec.role == "peer":
            _run_peer(spec, reporter, stop)
        else:
            _run_reducer(spec, reporter, stop)
    except DromNetError as error:
        reporter.fail(str(error))
        _forget_if_nothing_was_learned(spec)
        return error.exit_code
    except OSError as error:
        reporter.fail(f"{error.strerror}: {error.filename}" if error.filename else str(error))
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
        DealerTransport(
            spec.endpoint,
            spec.name,
            dim=spec.dim,
            max_vectors=worker.max_vectors,
            timeouts=spec.build_timeouts(),
            keys=_read_keys(spec, [REDUCER]),
        ) as transport,
        (out / "records.bin").open("wb") as records,
        (out / "times.bin").open("wb") as times,
    ):
        if not spec.parent:
            reporter.note(f"looking for the reducer at {spec.endpoint}")
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
    reporter.note(("finished" if finished else "stopped") + f" after round {worker.round}; results in {out}")


def _run_peer(spec: NodeSpec, reporter: Reporter, stop: _Stop) -> None:
    out = Path(spec.out)
    stream = TaskStream.load(Path(spec.examples), spread_over=spec.spread_over)
    peer = build_peer(spec, stream)
    neighbors = peer.neighborhood.neighbors
    keys = _read_keys(spec, [spec.tasks[task] for task in neighbors if task < spec.task])
    _warn_of_missing_keys(keys, [spec.tasks[task] for task in neighbors if task > spec.task], reporter)
    started = time.monotonic()
    with (
        RouterTransport(
            spec.endpoint,
            dim=spec.dim,
            max_vectors=peer.max_vectors,
            timeouts=spec.build_timeouts(),
            name=spec.name,
            members=spec.tasks,
            keys=keys,
        ) as transport,
        (out / "records.bin").open("wb") as records,
        (out / "central.bin").open("wb") as central,
        (out / "times.bin").open("wb") as times,
    ):
        transport.is_member = lambda address: peer.task_at(address) is not None
        for task in neighbors:
            if task < spec.task:
                transport.connect(address_of(task), spec.neighbor_endpoints[str(task)], spec.tasks[task])
        if not spec.parent:
            reporter.note(f"listening on {transport.endpoint}, for {len(neighbors)} neighbors")
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
        refused_handshakes=transport.refused_handshakes,
        closed_strangers=transport.closed_strangers,
        members=peer.neighborhood.everybody,
    )
    if error is not None:
        raise error
    reporter.progress(**_worker_figures(peer))
    reporter.note(("finished" if finished else "stopped") + f" after round {peer.round}; results in {out}")


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
    keys = _read_keys(spec, [])
    _warn_of_missing_keys(keys, spec.tasks, reporter)
    with (
        RouterTransport(
            spec.endpoint,
            dim=spec.dim,
            max_vectors=reducer.max_vectors,
            timeouts=spec.build_timeouts(),
            members=spec.tasks,
            keys=keys,
        ) as transport,
        (out / "records.bin").open("wb") as records,
    ):
        transport.is_member = lambda address: reducer.task_at(address) is not None
        reporter.note(f"listening on {transport.endpoint} for {len(spec.tasks)} workers")
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
            "refused_handshakes": transport.refused_handshakes,
            "closed_strangers": transport.closed_strangers,
            "run_id": run_id,
        },
    )
    if error is not None:
        raise error
    if not finished:
        reporter.note(f"stopped after round {reducer.closed_rounds}; results in {out}, `drom-net merge` collects them")
    if finished and spec.summary:
        ended = [task for task in reducer.ended if task is not None]
        summary = summarize_star(spec.about, spec.tasks, ended, reducer.central_chain, seconds, bytes_by_task)
        write_json(Path(spec.summary), summary)
        reporter.note(
            f"finished: {summary['rounds']} rounds, error rate {100 * summary['error_rate']:.2f} %, "
            f"digest {summary['digest']}; summary in {spec.summary}"
        )


def _drive(
    node: Worker | Reducer | Peer, transport: DealerTransport | RouterTransport, teller: _Teller, *, dim: int
) -> tuple[bool, DromNetError | OSError | None]:
    """(whether the node finished by itself, the error that ended it): what was learned is not lost with it."""

    def look() -> bool:
        if transport.rejected_by and node.state in (WorkerState.JOINING, PeerState.JOINING):
            raise RejectedError(transport.trouble)
        return teller.look()

    gate: Callable[[str, Message], str] = let_all_pass
    if transport.has_keys and not isinstance(node, Worker):  # a worker speaks to the reducer's key and to no other
        gate = key_gate(node, lambda: transport.speaker)
    with np.errstate(over="ignore", invalid="ignore"):  # one clear error tells of divergence, not NumPy's warnings
        try:
            finished = drive(
                node,
                transport,
                dim=dim,
                max_vectors=node.max_vectors,
                on_event=teller.on_event,
                look=look,
                gate=gate,
            )
            return finished, None
        except (DromNetError, OSError) as error:
            node.stop()
            flush(node, transport, teller.on_event)  # a reducer tells the workers
            if isinstance(error, ClusterError) and transport.trouble:
                said = str(error).removesuffix("; is it running, and is the address right?")
                error = ClusterError(f"{said}; {transport.trouble}")
            return False, error


def _read_keys(spec: NodeSpec, needed: Sequence[str]) -> Keyring | None:
    """The node's keys, where its cluster has any.

    Args:
        needed: Whom it connects to: without their public keys it cannot.

    Raises:
        ConfigError: A file is missing or wrong.
    """
    if not spec.keys:
        return None
    keys = read_keyring(Path(spec.keys), spec.name)
    keys.require(needed)
    return keys


def _warn_of_missing_keys(keys: Keyring | None, joining: Sequence[str], reporter: Reporter) -> None:
    missing = [name for name in joining if keys is not None and name not in keys.public]
    if keys is not None and missing:
        who = named(missing, range(len(missing)))
        reporter.say(f"warning: {who} cannot join: {keys.folder / PUBLIC_LIST} has no such public key")


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


class _Teller:
    """Turns a node's events into records, progress and sentences."""

    def __init__(
        self,
        reporter: Reporter,
        saved: Sequence[tuple[IO[bytes], Callable[[], bytes]]],
        stop: _Stop,
        figures: Callable[[], dict[str, Any]],
        *,
        names: tuple[str, ...] = (),
        expected: int = 0,
    ) -> None:
        self.refused = 0
        self.first_joined_at = time.monotonic()
        self._reporter = reporter
        self._saved = saved
        self._stop = stop
        self._figures = figures
        self._names = names
        self._expected = expected
        self._joined = 0
        self._next_report = 0.0

    def save(self) -> bool:
        """Write what has been recorded; whether there was anything."""
        news = False
        for file, take in self._saved:
            rows = take()
            file.write(rows)
            news = news or bool(rows)
        return news

    def look(self) -> bool:
        """Save what has been recorded, tell how it goes, and say whether to stop."""
        news = self.save()
        now = time.monotonic()
        if news and now >= self._next_report:
            self._next_report = now + self._reporter.every_s
            self._reporter.progress(**self._figures())
        return self._stop.requested()

    def on_event(self, event: Event) -> None:
        match event:
            case Joined(task=task):
                self._on_joined(task)
            case Stalled(round=t, waiting_for=whom, since_s=since):
                self._reporter.say(f"round {t}: waiting for {whom}, since {since:.0f} s")
            case ConnectionChanged(who=who, connected=connected):
                self._reporter.say(f"{who} is connected again" if connected else f"lost the connection to {who}")
            case Refused(sender=sender, reason=reason):
                self.refused += 1
                if self.refused <= _REFUSALS_TOLD:  # a stranger must not fill the log
                    self._reporter.say(f"refused a message of {sender}: {reason}")
            case Warned(text=text):
                self._reporter.say(f"warning: {text}")

    def _on_joined(self, task: int) -> None:
        self._joined += 1
        if not self._names:
            self._reporter.note("joined")
            return
        if self._joined == 1:
            self.first_joined_at = time.monotonic()
        self._reporter.note(f"{self._names[task]} joined ({self._joined} of {self._expected})")
