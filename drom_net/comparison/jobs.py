"""The configuration of one run of a comparison, and the run as a job: its key, and how it is run."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drom_net import __version__
from drom_net.cluster.prepare import Prepared, prepare
from drom_net.comparison.comparison_data import ComparisonData, load_data
from drom_net.comparison.figures import OUTCOMES, Outcome, run_one
from drom_net.comparison.spaces import line_of
from drom_net.config.model import (
    AlgorithmChoice,
    ClusterConfig,
    PeerSettings,
    ReducerSettings,
    config_digest,
    to_mapping,
)
from drom_net.core.fields import settings_of
from drom_net.data.stream import TaskStream, take
from drom_net.graph.settings import TopologySettings

HEAD = 0.3
"""Of rows whose order is kept: the first part of each site's, on which settings are chosen."""
PAPER_TAU = 20
"""Of DROM-D in the paper's experiments, on a full graph."""


def configure(dataset: ComparisonData, name: str, drawn: Mapping[str, object], *, seed: int) -> ClusterConfig:
    """The configuration of one run.

    Args:
        name: Of the learner. Peers whose graph and tau the dataset does not give are the paper's: full, tau 20.
        drawn: The searched parameters by field name, as `spaces.draw` gives them.
    """
    line = line_of(name)
    given = dataset.config.algorithm
    changes = dict(line.search.fixed) | dict(drawn)
    topology = None
    parameters = given.parameters if given.name == line.algorithm else line.learner.parameters()
    if "graph" in line.learner.on:
        topology = dataset.config.topology
        if topology is not None and line.learner.along_tree and not topology.has_tree and "star" in line.learner.on:
            topology = None
        if topology is None and "star" not in line.learner.on:
            topology = TopologySettings(graph="full")
            changes["tau"] = PAPER_TAU
    return dataclasses.replace(
        dataset.config,
        algorithm=AlgorithmChoice(line.algorithm, dataclasses.replace(parameters, **changes)),
        topology=topology,
        data=dataclasses.replace(dataset.config.data, pace_s=0.0),
        seed=seed,
        reducer=ReducerSettings(),  # on private sockets, where it is run as processes
        peers=PeerSettings(),
    )


def written_parameters(config: ClusterConfig, fields: Sequence[str]) -> dict[str, Any]:
    """Some parameters by the keys of a YAML file, as JSON knows them."""
    written = to_mapping(config)["algorithm"]
    settings = settings_of(config.algorithm.learner.parameters)
    return {key: written[key] for key, setting in settings.items() if setting.field in fields}


@dataclass(frozen=True, slots=True)
class Job:
    """One run that is wanted."""

    dataset: ComparisonData
    config: ClusterConfig
    label: str
    """For people: which learner on which data."""
    part: str = dataclasses.field(default="", kw_only=True)
    """What counts of rows whose order is kept: "head", and no others are learned; "rest", after the head was learned;
    or all."""

    @property
    def key(self) -> str:
        """SHA-256 over all that determines the outcome."""
        parts = (__version__, OUTCOMES, config_digest(self.config, self.dataset.tasks), self.dataset.content)
        return hashlib.sha256("\n".join((*parts, self.part)).encode()).hexdigest()

    def prepare(self) -> Prepared:
        """With its data, which is kept in memory for the next one."""
        prepared = prepare(self.config, load_data(self.config))
        if self.part == "head":
            streams = tuple(head_of(stream, self.config.rounds) for stream in prepared.streams)
            prepared = dataclasses.replace(prepared, streams=streams)
        return prepared

    def run(self, stopped: Callable[[], bool]) -> Outcome:
        """Run it; as `run_one`."""
        prepared = self.prepare()
        heads = None
        if self.part == "rest":
            heads = [head_of(stream, self.config.rounds).num_examples for stream in prepared.streams]
        return run_one(prepared, stopped, heads=heads)


def head_of(stream: TaskStream, rounds: int | None) -> TaskStream:
    """The first examples of a stream, a share of `HEAD`, and of several passes whole ones where it is more than one.

    Args:
        rounds: The run has at most so many.
    """
    last = stream.last_round() if rounds is None else min(rounds, stream.last_round())
    spread_over = stream.spread_over
    num_examples = last if spread_over is None else last * stream.num_examples // spread_over
    head = math.floor(HEAD * num_examples)
    passes = max(1, head // max(1, len(stream.labels)))
    kept = np.arange(min(head, len(stream.labels)))
    rows = take(stream.rows, kept)
    over = None if spread_over is None else math.ceil(HEAD * last)
    return TaskStream(rows, stream.labels[kept], stream.clean[kept], over, passes)
