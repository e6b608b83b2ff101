"""A live node's live_input without the node: the model is a fixed vector, and rounds are what a test says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from drom_net.algorithms.base import sigmoid
from drom_net.algorithms.features import Features, SparseVector, dot
from drom_net.data.incoming import RowReader
from drom_net.data.preprocessing import Preprocessing
from drom_net.data.settings import SourceSettings
from drom_net.node.live.live_input import LiveInput
from drom_net.node.live.sources import open_source
from drom_net.node.spec import NodeSpec, StreamSpec
from drom_net.protocol.node import Snapshot

PLAIN = RowReader(Preprocessing(raw_dim=3))
"""Rows of three numbers, as they are."""


@dataclass
class FixedModel:
    round: int = 0
    w: Any = field(default_factory=lambda: np.array([1.0, 10.0, 100.0]))
    mixing: tuple[Any, Any] | None = None

    def predict(self, x: Features) -> float:
        return dot(self.w, x)

    def probability(self, score: float) -> float:
        return sigmoid(score)


@dataclass
class Said:
    """A reporter that remembers."""

    texts: list[str] = field(default_factory=list)

    def say(self, text: str, event: str = "", **fields: Any) -> None:
        self.texts.append(text)

    note = say


def node_spec(folder: Path, rows: RowReader = PLAIN, **settings: Any) -> NodeSpec:
    """Of a live worker whose folder this is; settings as in SourceSettings."""
    folder.mkdir(exist_ok=True)
    source = {name: getattr(SourceSettings(), name) for name in SourceSettings.__slots__} | {"format": "jsonl"}
    return NodeSpec(
        role="worker",
        name="north",
        task=0,
        tasks=("north", "south"),
        algorithm="local",
        parameters={},
        seed=0,
        rounds=None,
        dim=rows.preprocessing.dim,
        run_id="",
        config_digest="",
        feature_digest="",
        endpoint="",
        timeouts={},
        out=str(folder),
        stream=StreamSpec(live=True, source=source | settings | {"rows": rows.to_json()}),
    )


def live_input_of(
    spec: NodeSpec, *, snapshot: Snapshot | None = None, incarnation: int = 1, said: Said | None = None
) -> LiveInput:
    return LiveInput(spec, snapshot, incarnation, said or Said())  # type: ignore[arg-type]


def learned(live_input: LiveInput) -> list[tuple[list[float], float]]:
    """The examples that wait, taken one by one: their features, dense, and labels."""
    found = []
    stream = live_input.stream
    t = stream._begun
    while stream.backlog:
        t += 1
        index = stream.index_at(t)
        if index is None:
            continue
        x = stream.features(index)
        dense = np.zeros(stream.dim)
        if isinstance(x, SparseVector):
            dense[x.indices] = x.values
        else:
            dense[:] = x
        found.append((dense.tolist(), stream.label(index)))
    return found


@contextmanager
def served(spec: NodeSpec, model: FixedModel | None = None, *, incarnation: int = 1) -> Iterator[None]:
    """The node's source answers, in a thread of its own."""
    ready, stop = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def serve() -> None:
        try:
            live_input = live_input_of(spec, incarnation=incarnation)
            open_source(live_input, model or FixedModel())
            ready.set()
            while not stop.is_set():
                zmq.zmq_poll([(live_input.waits_for, zmq.POLLIN)], 10)
                live_input.serve()
            live_input.close()
        except BaseException as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=serve)
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        assert not failed, failed
