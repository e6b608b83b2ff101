"""What a node goes on from: its last snapshot, its rows cut back to it, its stream of examples."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from drom_net.core.errors import naming
from drom_net.data.live import LiveStream
from drom_net.data.stream import TaskStream
from drom_net.node.build import StartContext
from drom_net.node.reports import Reporter
from drom_net.node.spec import NodeSpec
from drom_net.protocol.node import TIMES_DTYPE
from drom_net.protocol.peer import Peer
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.worker import Worker
from drom_net.storage.files import cut_back
from drom_net.storage.node_folder import CheckpointFolder
from drom_net.storage.snapshot_codec import snapshot_classes

if TYPE_CHECKING:
    from drom_net.node.live.live_input import LiveInput


def start_context(spec: NodeSpec, folder: CheckpointFolder, reporter: Reporter) -> StartContext:
    """What an earlier start of this node has left."""
    loaded = folder.load(snapshot_classes(spec.learner))
    if loaded is None:
        if folder.incarnation > 1:
            text = f"start {folder.incarnation}: there is no snapshot yet, beginning anew"
            reporter.say(text, "restored", level="info", round=0)
        return StartContext(folder.incarnation, folder.run_id, keeps_snapshots=True)
    for sentence in loaded.skipped:
        reporter.say(f"warning: {sentence}", "snapshot_damaged")
    text = f"start {folder.incarnation}: going on from the snapshot of round {loaded.round}"
    reporter.say(text, "restored", level="info", round=loaded.round)
    return StartContext(folder.incarnation, folder.run_id, keeps_snapshots=True, snapshot=loaded.snapshot)


def rows_of(
    spec: NodeSpec, node: Worker | Reducer | Peer, context: StartContext, files: contextlib.ExitStack
) -> list[tuple[IO[bytes] | None, Callable[[], bytes]]]:
    """The node's files of rows, cut back to where it goes on, each with where its rows come from; None for rows that
    are not kept."""
    takes = {"records": node.take_records}
    if isinstance(node, Worker | Peer):
        takes["times"] = wall(node)
    if isinstance(node, Peer):
        takes["central"] = node.take_central_records
    saved: list[tuple[IO[bytes] | None, Callable[[], bytes]]] = []
    if not spec.keep_records:
        return [(None, take) for take in takes.values()]
    for name, types in node.row_types.items():
        path = Path(spec.out) / f"{name}.bin"
        if context.snapshot is not None:
            t = node.recorded[name]
            cut_back(path, types, t, expect_round=t if name != "times" and t else None)
        file = path.open("wb" if context.snapshot is None else "ab")
        files.callback(_close, file)
        saved.append((file, takes[name]))
    return saved


def _close(file: IO[bytes]) -> None:
    """It may still have to write something, and the disk may be full."""
    with naming(file.name):
        file.close()


def stream_of(
    spec: NodeSpec, context: StartContext, reporter: Reporter
) -> tuple[TaskStream | LiveStream, LiveInput | None]:
    """The task's examples, and where they come from if they come while it runs."""
    if not spec.stream.source:
        return TaskStream.load(Path(spec.stream.examples), spread_over=spec.stream.spread_over), None
    from drom_net.node.live.live_input import LiveInput  # nobody else pays for it

    live_input = LiveInput(spec, context.snapshot, context.incarnation, reporter)
    return live_input.stream, live_input


def wall(node: Worker | Peer) -> Callable[[], bytes]:
    """Its times as seconds since 1970, so that those of several hosts can be put side by side."""
    offset = time.time() - time.monotonic()

    def take() -> bytes:
        rows = np.frombuffer(node.take_times(), dtype=TIMES_DTYPE).copy()
        for name in ("sent_s", "idle_s", "closed_s"):
            rows[name] += offset
        return rows.tobytes()

    return take
