"""What a node leaves in its folder when it ends."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from drom_net.core.errors import UsageError, naming
from drom_net.learning.records import run_digest
from drom_net.learning.task import TaskResult
from drom_net.node.build import build_peer, build_worker
from drom_net.node.reports import reporter_of
from drom_net.node.spec import NodeSpec
from drom_net.node.start import rows_of, start_context, stream_of
from drom_net.protocol.node import Ended
from drom_net.protocol.peer import Peer
from drom_net.results.summary import TaskFigures, summarize, write_json
from drom_net.storage.node_folder import CheckpointFolder, Spent


def write_task_result(
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
        "peak_bytes": peak_memory(),
        "keep_records": spec.keep_records,
    }
    write_json(out / "result.json", document | more)


def peak_memory() -> int | None:
    """The most memory that this process has had (RSS); None where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))
    return None


def write_result_of_lost(spec: NodeSpec) -> None:
    """What a task has left that was killed and did not come back: as of its last snapshot."""
    out = Path(spec.out)
    reporter = reporter_of(dataclasses.replace(spec, launch=dataclasses.replace(spec.launch, parent=0)))
    if not spec.stream.source and not Path(spec.stream.examples).exists():
        raise UsageError(f"{out} has no result and no examples any more: start {spec.name} once more to its end")
    with (
        CheckpointFolder(out, node=spec.node, config_digest=spec.config_digest) as folder,
        contextlib.ExitStack() as files,
    ):
        folder.begin(spec.run_id)
        context = start_context(spec, folder, reporter)
        stream, _ = stream_of(spec, context, reporter)
        node = build_peer(spec, stream, context) if spec.role == "peer" else build_worker(spec, stream, context)
        rows_of(spec, node, context, files)
    node.stop()
    assert node.result is not None
    more: dict[str, object] = {"run_id": node.run_id, "lost": True}
    if isinstance(node, Peer):
        more |= {"central_chain": node.central_chain.hex(), "members": node.neighborhood.closed_neighborhood}
    write_task_result(spec, node.result, False, node.round, folder.before, **more)


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
