"""One node as a process: from its spec to its exit code. Light on purpose: no YAML, no click, no rich."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from drom_net.core.errors import ClusterError, DivergedError, DromNetError, RejectedError, UsageError, naming
from drom_net.data.live import LiveStream
from drom_net.data.stream import TaskStream
from drom_net.learning.records import run_digest
from drom_net.learning.task import TaskResult
from drom_net.node.build import Life, build_peer, build_reducer, build_worker
from drom_net.node.loop import drive, flush, let_all_pass
from drom_net.node.metrics_page import serve_counts
from drom_net.node.reports import Reporter, reporter_of
from drom_net.node.spec import NodeSpec
from drom_net.node.telemetry import Teller
from drom_net.protocol.messages import Message
from drom_net.protocol.node import REDUCER, TIMES_DTYPE, Ended, named
from drom_net.protocol.peer import Peer, PeerState, address_of
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.worker import Worker, WorkerState
from drom_net.results.summary import TaskFigures, remove_folder, summarize, write_json
from drom_net.storage.files import cut_back
from drom_net.storage.node_folder import CheckpointFolder, Spent, has_learned
from drom_net.storage.snapshot_codec import encode_snapshot, snapshot_classes
from drom_net.storage.writer import Writer
from drom_net.transport.curve import key_gate
from drom_net.transport.dealer import DealerTransport
from drom_net.transport.keys import PUBLIC_LIST, Keyring, read_keyring
from drom_net.transport.router import RouterTransport

if TYPE_CHECKING:
    from drom_net.node.live.intake import Intake

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a node in order; its exit code is then 128 and the signal's number."""


ONE_WISH_S = 1.0
"""Signals within this time are one: `timeout` sends its own twice."""


def stop_signals() -> list[signal.Signals]:
    """Those of SIGNALS that are obeyed: all, but SIGHUP where it is ignored (`nohup`)."""
    return [number for number in SIGNALS if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]


class _Stop:
    """SIGTERM and SIGINT: the first asks the node to end in order, a later one ends the process at once."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._asked_at = 0.0
        self.exit_code = 0
        for number in stop_signals():
            signal.signal(number, self._on_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # whoever started us may have held them back until now

    def _on_signal(self, number: int, _: object) -> None:
        now = time.monotonic()
        if not self.exit_code:
            self.exit_code, self._asked_at = 128 + number, now
        elif now >= self._asked_at + ONE_WISH_S:
            os._exit(128 + number)

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
    incarnation = 0
    try:
        with CheckpointFolder(Path(spec.out), node=spec.node, config_digest=spec.config_digest) as folder:
            incarnation, _ = folder.begin(spec.run_id)
            reporter.incarnation = incarnation
            (Path(spec.out) / "result.json").unlink(missing_ok=True)  # what an interrupted life has left
            serve_counts(spec, reporter)
            run = {"worker": _run_worker, "peer": _run_peer, "reducer": _run_reducer}[spec.role]
            finished = run(spec, reporter, stop, folder, _life(spec, folder, reporter))
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


def _life(spec: NodeSpec, folder: CheckpointFolder, reporter: Reporter) -> Life:
    """What an earlier start of this node has left."""
    loaded = folder.load(snapshot_classes())
    if loaded is None:
        if folder.incarnation > 1:
            text = f"start {folder.incarnation}: there is no snapshot yet, beginning anew"
            reporter.say(text, "restored", level="info", round=0)
        return Life(folder.incarnation, folder.run_id, keeps_snapshots=True)
    for sentence in loaded.skipped:
        reporter.say(f"warning: {sentence}", "snapshot_damaged")
    text = f"start {folder.incarnation}: going on from the snapshot of round {loaded.round}"
    reporter.say(text, "restored", level="info", round=loaded.round)
    return Life(folder.incarnation, folder.run_id, keeps_snapshots=True, snapshot=loaded.snapshot)


def _rows_of(
    spec: NodeSpec, node: Worker | Reducer | Peer, life: Life, files: contextlib.ExitStack
) -> list[tuple[IO[bytes] | None, Callable[[], bytes]]]:
    """The node's files of rows, cut back to where it goes on, each with where its rows come from; None for rows that
    are not kept."""
    takes = {"records": node.take_records}
    if isinstance(node, Worker | Peer):
        takes["times"] = _wall(node)
    if isinstance(node, Peer):
        takes["central"] = node.take_central_records
    saved: list[tuple[IO[bytes] | None, Callable[[], bytes]]] = []
    if not spec.keep_records:
        return [(None, take) for take in takes.values()]
    for name, types in node.row_types.items():
        path = Path(spec.out) / f"{name}.bin"
        if life.snapshot is not None:
            t = node.recorded[name]
            cut_back(path, types, t, expect_round=t if name != "times" and t else None)
        file = path.open("wb" if life.snapshot is None else "ab")
        files.callback(_close, file)
        saved.append((file, takes[name]))
    return saved


def _close(file: IO[bytes]) -> None:
    """It may still have to write something, and the disk may be full."""
    with naming(file.name):
        file.close()


def _stream_of(spec: NodeSpec, life: Life, reporter: Reporter) -> tuple[TaskStream | LiveStream, Intake | None]:
    """The task's examples, and where they come from if they come while it runs."""
    if not spec.source:
        return TaskStream.load(Path(spec.examples), spread_over=spec.spread_over), None
    from drom_net.node.live.intake import Intake  # nobody else pays for it

    intake = Intake(spec, life.snapshot, life.incarnation, reporter)
    return intake.stream, intake


class _Disk:
    """Sees to a node's snapshots: they are written beside its work, and it is told when they are safe. What a live
    stream has decided is on the disk before anything is said of it."""

    def __init__(
        self, node: Worker | Reducer | Peer, folder: CheckpointFolder, teller: Teller, intake: Intake | None
    ) -> None:
        self._node = node
        self._folder = folder
        self._intake = intake
        self._teller = teller
        self._writer = Writer(folder)
        self._in_flight = False
        self._round = self._num_bytes = 0
        self._began = 0.0

    def __enter__(self) -> _Disk:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._intake is not None:
            self._intake.close()
        try:
            self._writer.close()
        except OSError:
            if kind is None:
                raise

    def keep(self, now: float) -> None:
        """Take a snapshot where it is time; wait for the disk where the node does."""
        if self._intake is not None:
            self._intake.keep_decided()
        while True:
            if self._in_flight and not self._writer.busy:
                self._settle(now)
            if (snapshot := self._node.take_snapshot()) is not None:
                self._teller.save()
                header, *buffers = encode_snapshot(snapshot)
                self._round, self._num_bytes = snapshot["round"], len(header) + sum(map(len, buffers))
                self._began = time.monotonic()
                self._folder.spent = self._folder.before + self._teller.spent()
                self._writer.submit(self._round, header, buffers, self._teller.files)
                if self._intake is not None:
                    self._intake.snapshot_taken(snapshot)
                self._in_flight = True
            if not self._node.holding or not self._in_flight:
                return
            self._writer.wait()
            self._settle(now)

    def _settle(self, now: float) -> None:
        self._writer.finished()
        self._in_flight = False
        self._teller.checkpointed(self._round, seconds=time.monotonic() - self._began, num_bytes=self._num_bytes)
        self._node.snapshot_kept(now)
        if self._intake is not None:
            self._intake.snapshot_kept()


def _run_worker(spec: NodeSpec, reporter: Reporter, stop: _Stop, folder: CheckpointFolder, life: Life) -> bool:
    out = Path(spec.out)
    stream, intake = _stream_of(spec, life, reporter)
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
        saved = _rows_of(spec, worker, life, files)
        teller = Teller(
            reporter,
            saved,
            stop,
            lambda: _worker_figures(worker),
            on_first_joined=lambda: folder.join(worker.run_id),
            moved=lambda: {spec.task: (transport.bytes_sent, transport.bytes_received)},
        )
        finished, error = _drive(worker, transport, teller, folder, dim=spec.dim, intake=intake)
        spent = folder.before + teller.spent()  # the goodbye is over; to close is no part of the run
        teller.save()
    if error is not None and (worker.round == 0 or worker.result is None):
        raise error
    assert worker.result is not None
    _write_task_result(spec, worker.result, finished, worker.round, spent, run_id=worker.run_id)
    if error is not None:
        raise error
    reporter.progress(**_worker_figures(worker))
    _note_end(reporter, finished, worker.round, f"results in {out}")
    return finished


def _run_peer(spec: NodeSpec, reporter: Reporter, stop: _Stop, folder: CheckpointFolder, life: Life) -> bool:
    out = Path(spec.out)
    stream, intake = _stream_of(spec, life, reporter)
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
        teller = Teller(
            reporter,
            _rows_of(spec, peer, life, files),
            stop,
            lambda: _worker_figures(peer),
            names=spec.tasks,
            expected=len(neighbors),
            on_first_joined=lambda: folder.join(peer.run_id),
            moved=lambda: {spec.task: (transport.bytes_sent, transport.bytes_received)},
        )
        finished, error = _drive(peer, transport, teller, folder, dim=spec.dim, intake=intake)
        spent = folder.before + teller.spent()
        teller.save()
    if error is not None and (peer.round == 0 or peer.result is None):
        raise error
    assert peer.result is not None
    _write_task_result(
        spec,
        peer.result,
        finished,
        peer.round,
        spent,
        refused=teller.refused,
        run_id=peer.run_id,
        central_chain=peer.central_chain.hex(),
        refused_handshakes=transport.refused_handshakes,
        closed_strangers=transport.closed_strangers,
        members=peer.neighborhood.everybody,
    )
    if error is not None:
        raise error
    reporter.progress(**_worker_figures(peer))
    _note_end(reporter, finished, peer.round, f"results in {out}")
    return finished


def _note_end(reporter: Reporter, finished: bool, t: int, where: str) -> None:
    how = "finished" if finished else "stopped"
    where += "" if finished else "; the same command goes on"
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
    spent: Spent,
    **more: object,
) -> None:
    """What a task leaves in its folder: its vectors, and all else in result.json."""
    out = Path(spec.out)
    for name, vector in result.model.items():
        path = out / f"{name}.npy"
        with naming(path):
            np.save(path, vector, allow_pickle=False)
    sent, received = spent.moved.get(spec.task, (0, 0))
    document = {
        "task": spec.task,
        "name": spec.name,
        "finished": finished,
        "rounds": rounds,
        "chain": result.chain.hex(),
        "totals": result.totals.to_list(),
        "vectors": list(result.model),
        "bytes_sent": sent,
        "bytes_received": received,
        "seconds": spent.seconds,
        "peak_bytes": _peak_memory(),
        "keep_records": spec.keep_records,
    }
    write_json(out / "result.json", document | more)


def _peak_memory() -> int | None:
    """The most memory that this process has had (RSS); None where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))
    return None


def write_result_of_lost(spec: NodeSpec) -> None:
    """What a task has left that was killed and did not come back: as of its last snapshot."""
    out, reporter = Path(spec.out), reporter_of(dataclasses.replace(spec, parent=0))
    if not spec.source and not Path(spec.examples).exists():
        raise UsageError(f"{out} has no result and no examples any more: start {spec.name} once more to its end")
    with (
        CheckpointFolder(out, node=spec.node, config_digest=spec.config_digest) as folder,
        contextlib.ExitStack() as files,
    ):
        folder.begin(spec.run_id)
        life = _life(spec, folder, reporter)
        stream, _ = _stream_of(spec, life, reporter)
        node = build_peer(spec, stream, life) if spec.role == "peer" else build_worker(spec, stream, life)
        _rows_of(spec, node, life, files)
    node.stop()
    assert node.result is not None
    more: dict[str, object] = {"run_id": node.run_id, "lost": True}
    if isinstance(node, Peer):
        more |= {"central_chain": node.central_chain.hex(), "members": node.neighborhood.everybody}
    _write_task_result(spec, node.result, False, node.round, folder.before, **more)


def _run_reducer(spec: NodeSpec, reporter: Reporter, stop: _Stop, folder: CheckpointFolder, life: Life) -> bool:
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
        teller = Teller(
            reporter,
            _rows_of(spec, reducer, life, files),
            stop,
            lambda: {"round": reducer.closed_rounds} | ({"sigma_1": reducer.last_sigma} if reducer.last_sigma else {}),
            names=spec.tasks,
            expected=len(spec.tasks),
            on_first_joined=lambda: folder.join(run_id),
            moved=lambda: transport.bytes_by_peer(reducer.has_spoken_from),
        )
        finished, error = _drive(reducer, transport, teller, folder, dim=spec.dim)
        spent = folder.before + teller.spent()
        teller.save()
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
            "refused": teller.refused,
            "refused_handshakes": transport.refused_handshakes,
            "closed_strangers": transport.closed_strangers,
            "peak_bytes": _peak_memory(),
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


def _drive(
    node: Worker | Reducer | Peer,
    transport: DealerTransport | RouterTransport,
    teller: Teller,
    folder: CheckpointFolder,
    *,
    dim: int,
    intake: Intake | None = None,
) -> tuple[bool, DromNetError | OSError | None]:
    """(whether the node finished by itself, the error that ended it): what was learned is not lost with it."""

    def look() -> bool:
        if transport.rejected_by and node.state in (WorkerState.JOINING, PeerState.JOINING):
            raise RejectedError(transport.trouble)
        folder.show_life()
        return teller.look()

    gate: Callable[[str, Message], str] = let_all_pass
    if transport.has_keys and not isinstance(node, Worker):  # a worker speaks to the reducer's key and to no other
        gate = key_gate(node, lambda: transport.speaker)
    teller.watch(node, transport, intake)
    with np.errstate(over="ignore", invalid="ignore"):  # one clear error tells of divergence, not NumPy's warnings
        try:
            with _Disk(node, folder, teller, intake) as disk:
                if intake is not None and not isinstance(node, Reducer):
                    from drom_net.node.live.sources import open_source

                    open_source(intake, node)
                    transport.also_waits_for = lambda: intake.waits_for
                finished = drive(
                    node,
                    transport,
                    dim=dim,
                    max_vectors=node.max_vectors,
                    on_event=teller.on_event,
                    look=look,
                    keep=disk.keep,
                    serve=intake.serve if intake is not None else lambda: False,
                    gate=gate,
                )
            if finished:
                folder.end()
            return finished, None
        except (DromNetError, OSError) as error:
            with contextlib.suppress(DivergedError):  # there is no result, and the first error tells why
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


def summarize_star(
    about: dict[str, str],
    names: tuple[str, ...],
    ended: list[Ended],
    central_chain: bytes,
    spent: Spent,
) -> dict[str, Any]:
    """The summary as the reducer can write it: from the workers' goodbyes and its own chain."""
    figures = [
        TaskFigures(name, end.rounds, end.totals, False, *spent.moved.get(task, (0, 0)))
        for task, (name, end) in enumerate(zip(names, ended, strict=True))
    ]
    return summarize(
        figures,
        about=about,
        driver="processes",
        rounds=max(end.rounds for end in ended),
        seconds=spent.seconds,
        digest=run_digest([end.chain for end in ended], central_chain),
    )


def _worker_figures(node: Worker | Peer) -> dict[str, Any]:
    return {"round": node.round, "totals": node.totals.to_list()}
