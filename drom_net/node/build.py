"""From a spec to its node: the same for a process and for a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drom_net.core.blas import blas_kernel
from drom_net.data.live import LiveStream
from drom_net.data.stream import TaskStream
from drom_net.learning.task import Centre, TaskLearner
from drom_net.node.spec import NodeSpec
from drom_net.protocol.handshake import Identity
from drom_net.protocol.messages import PROTOCOL_VERSION, Hello
from drom_net.protocol.node import Pace, Snapshot
from drom_net.protocol.peer import Peer
from drom_net.protocol.reducer import Reducer
from drom_net.protocol.worker import Worker


@dataclass(frozen=True, slots=True)
class Life:
    """What differs from one start of a node to the next, and from driver to driver."""

    incarnation: int = 1
    run_id: str = ""
    """Where the spec has none: the run of its earlier lives."""
    pace: Pace | None = None
    """None is the spec's."""
    keeps_snapshots: bool = False
    """As the spec says; without it none is taken."""
    snapshot: Snapshot | None = None


ONLY_ONE = Life()


def build_worker(spec: NodeSpec, stream: TaskStream | LiveStream, life: Life = ONLY_ONE) -> Worker:
    """The worker of a task."""
    algorithm = spec.build_algorithm()
    return Worker(
        TaskLearner(algorithm, stream, rounds=spec.rounds),
        _hello(spec, life.run_id or spec.run_id, life),
        timeouts=spec.build_timeouts(),
        endpoint=spec.endpoint,
        pull_layout=algorithm.reply_layout(len(spec.tasks)),
        pace=life.pace or (lambda t: spec.pace_s),
        **_common(spec, life),
    )


def build_peer(spec: NodeSpec, stream: TaskStream | LiveStream, life: Life = ONLY_ONE) -> Peer:
    """The peer of a task."""
    hood = spec.build_neighborhood()
    algorithm = hood.learner(spec.build_algorithm())
    run_id = spec.run_id or spec.config_digest[:16]  # without a launcher and a centre, the configuration is the run
    return Peer(
        TaskLearner(algorithm, stream, rounds=spec.rounds, everybody=hood.everybody),
        Centre(algorithm, tasks=hood.everybody, dim=spec.dim, seed=spec.seed, scales=hood.scales),
        _hello(spec, run_id, life),
        names=spec.tasks,
        neighborhood=hood,
        identity=_identity(spec, run_id),
        push_layout=algorithm.contribution_layout(),
        exchange=str(spec.parameters.get("exchange", "blocking")),
        rounds=spec.rounds,
        timeouts=spec.build_timeouts(),
        policy=spec.build_policy(),
        pace=life.pace or (lambda t: spec.pace_s),
        **_common(spec, life),
    )


def build_reducer(spec: NodeSpec, run_id: str, life: Life = ONLY_ONE) -> Reducer:
    """The reducer of all tasks."""
    algorithm = spec.build_algorithm()
    return Reducer(
        Centre(algorithm, tasks=range(len(spec.tasks)), dim=spec.dim, seed=spec.seed),
        spec.tasks,
        _identity(spec, run_id),
        push_layout=algorithm.contribution_layout(),
        sync=algorithm.sync,
        timeouts=spec.build_timeouts(),
        policy=spec.build_policy(),
        live=spec.live,
        **_common(spec, life),
    )


def _common(spec: NodeSpec, life: Life) -> dict[str, Any]:
    return {"checkpoints": spec.build_checkpoints() if life.keeps_snapshots else None, "snapshot": life.snapshot}


def _hello(spec: NodeSpec, run_id: str, life: Life) -> Hello:
    return Hello(
        version=PROTOCOL_VERSION,
        run_id=run_id,
        task=spec.task,
        config_digest=spec.config_digest,
        dim=spec.dim,
        feature_digest=spec.feature_digest,
        numpy=np.__version__,
        blas=blas_kernel(),
        incarnation=life.incarnation,
    )


def _identity(spec: NodeSpec, run_id: str) -> Identity:
    return Identity(
        run_id=run_id,
        config_digest=spec.config_digest,
        dim=spec.dim,
        numpy=np.__version__,
        blas=blas_kernel(),
        feature_digest=spec.feature_digest,
    )
