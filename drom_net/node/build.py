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
class StartContext:
    """What differs from one start of a node to the next, and from driver to driver."""

    incarnation: int = 1
    run_id: str = ""
    """Where the spec has none: the run of its earlier lives."""
    pace: Pace | None = None
    """None is the spec's."""
    keeps_snapshots: bool = False
    """As the spec says; without it none is taken."""
    snapshot: Snapshot | None = None


FIRST_START = StartContext()


def build_worker(spec: NodeSpec, stream: TaskStream | LiveStream, context: StartContext = FIRST_START) -> Worker:
    """The worker of a task."""
    algorithm = spec.build_algorithm()
    return Worker(
        TaskLearner(algorithm, stream, rounds=spec.rounds),
        _hello(spec, context.run_id or spec.run_id, context),
        timeouts=spec.build_timeouts(),
        endpoint=spec.endpoint,
        pull_layout=algorithm.exchange.reply_layout(len(spec.tasks)),
        pace=context.pace or (lambda t: spec.stream.pace_s),
        **_common(spec, context),
    )


def build_peer(spec: NodeSpec, stream: TaskStream | LiveStream, context: StartContext = FIRST_START) -> Peer:
    """The peer of a task."""
    hood = spec.build_neighborhood()
    algorithm = hood.learner(spec.build_algorithm())
    run_id = spec.run_id or spec.config_digest[:16]  # without a launcher and a centre, the configuration is the run
    return Peer(
        TaskLearner(algorithm, stream, rounds=spec.rounds, neighborhood=hood.closed_neighborhood),
        Centre(algorithm, tasks=hood.closed_neighborhood, dim=spec.dim, seed=spec.seed),
        _hello(spec, run_id, context),
        names=spec.tasks,
        neighborhood=hood,
        identity=_identity(spec, run_id),
        push_layout=algorithm.exchange.contribution,
        exchange=str(spec.parameters.get("exchange", "blocking")),
        rounds=spec.rounds,
        timeouts=spec.build_timeouts(),
        policy=spec.build_policy(),
        pace=context.pace or (lambda t: spec.stream.pace_s),
        **_common(spec, context),
    )


def build_reducer(spec: NodeSpec, run_id: str, context: StartContext = FIRST_START) -> Reducer:
    """The reducer of all tasks."""
    algorithm = spec.build_algorithm()
    return Reducer(
        Centre(algorithm, tasks=range(len(spec.tasks)), dim=spec.dim, seed=spec.seed),
        spec.tasks,
        _identity(spec, run_id),
        push_layout=algorithm.exchange.contribution,
        sync=algorithm.sync,
        timeouts=spec.build_timeouts(),
        policy=spec.build_policy(),
        live=spec.stream.live,
        **_common(spec, context),
    )


def _common(spec: NodeSpec, context: StartContext) -> dict[str, Any]:
    return {"checkpoints": spec.build_checkpoints() if context.keeps_snapshots else None, "snapshot": context.snapshot}


def _hello(spec: NodeSpec, run_id: str, context: StartContext) -> Hello:
    return Hello(
        version=PROTOCOL_VERSION,
        run_id=run_id,
        task=spec.task,
        config_digest=spec.config_digest,
        dim=spec.dim,
        feature_digest=spec.feature_digest,
        numpy=np.__version__,
        blas=blas_kernel(),
        incarnation=context.incarnation,
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
