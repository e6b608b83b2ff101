"""What is compared on: a data set or the user's file, its settings, and what a job of it is."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from drom_net import __version__
from drom_net.algorithms.drom import DromParameters
from drom_net.cluster.prepare import Prepared, prepare
from drom_net.comparison.figures import FIGURE_OF, OUTCOMES, Outcome, run_one
from drom_net.comparison.spaces import line_of
from drom_net.config.model import (
    AlgorithmChoice,
    ClusterConfig,
    PeerSettings,
    ReducerSettings,
    config_digest,
    to_mapping,
)
from drom_net.core.errors import UsageError, did_you_mean
from drom_net.core.fields import settings_of
from drom_net.data.dataset import Dataset
from drom_net.data.datasets import load_dataset
from drom_net.data.public import check_public
from drom_net.data.public.places import DATA_FOLDER_VARIABLE, cache_folder
from drom_net.data.settings import DATA_SECTIONS, RowSettings, StreamSettings
from drom_net.data.stream import SparseRows, TaskStream, take
from drom_net.graph.settings import TopologySettings
from drom_net.protocol.settings import Timeouts

HEAD = 0.3
"""Of rows whose order is kept: the first part of each site's, on which settings are chosen."""
PAPER_TAU = 20
"""Of DROM-D in the paper's experiments, on a full graph."""

# What is learned ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ComparisonData:
    """Data that learners are compared on."""

    name: str
    config: ClusterConfig
    """Its data, rounds and graph count; its learner's parameters only where no search replaces them."""
    tasks: tuple[str, ...]
    num_examples: int
    dim: int
    positives: int
    """So many of the examples are +1."""
    measure: str
    """"error", "auc" or "log_loss"."""
    content: str
    """SHA-256 over all rows and labels."""

    @property
    def figure(self) -> str:
        """The name of the measure among an outcome's figures."""
        return FIGURE_OF[self.measure]

    @property
    def keeps_order(self) -> bool:
        """Whether rows are learned in the order of the data, which may be time, and in no other."""
        return not self.config.data.shuffle

    def with_flip(self, flip: float) -> ComparisonData:
        """The same under another share of flipped labels."""
        config = dataclasses.replace(self.config, data=dataclasses.replace(self.config.data, flip=flip))
        return dataclasses.replace(self, config=config)

    def with_rounds(self, rounds: int | None) -> ComparisonData:
        """The same for at most so many rounds; None leaves them as they are."""
        if rounds is None:
            return self
        limit = min(rounds, self.config.rounds or rounds)
        return dataclasses.replace(self, config=dataclasses.replace(self.config, rounds=limit))


def named_data() -> tuple[str, ...]:
    """The data sets that need no YAML file."""
    return tuple(name for name, section in DATA_SECTIONS.items() if not issubclass(section, RowSettings))


def named_config(name: str) -> ClusterConfig:
    """A configuration of a data set by its name.

    Raises:
        UsageError: There is none.
    """
    if name not in named_data():
        hint = did_you_mean(name, named_data())
        raise UsageError(
            f'expected one of {", ".join(named_data())} or a YAML file, got "{name}"' + (f"; {hint}" if hint else "")
        )
    return ClusterConfig(
        name=name,
        algorithm=AlgorithmChoice("drom", DromParameters()),
        data=DATA_SECTIONS[name](),
        reducer=ReducerSettings(),
        timeouts=Timeouts(),
        path=Path(name),
        base=Path(os.environ.get(DATA_FOLDER_VARIABLE) or cache_folder()),
    )


def comparison_data(config: ClusterConfig) -> ComparisonData:
    """Read the data of a configuration.

    Raises:
        InputError, UsageError: It is wrong, or not there.
    """
    check_public(config.data, config.base)
    loaded = load_data(config)
    return ComparisonData(
        name=config.name,
        config=config,
        tasks=tuple(task.name for task in loaded.tasks),
        num_examples=config.data.passes * sum(len(task.labels) for task in loaded.tasks),
        dim=loaded.dim,
        positives=config.data.passes * sum(int(np.count_nonzero(task.labels > 0.0)) for task in loaded.tasks),
        measure=loaded.measure,
        content=_content_digest(loaded),
    )


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


def _only_data(settings: StreamSettings) -> StreamSettings:
    """The settings without what changes no row: equal for all runs of one data set."""
    return dataclasses.replace(settings, shuffle=True, flip=0.0, alignment="lockstep", passes=1, pace_s=0.0)


def load_data(config: ClusterConfig) -> Dataset:
    """The data of a configuration, which is kept in memory for the next one."""
    return _load(_only_data(config.data), config.base)


@lru_cache(maxsize=2)  # rows that are asked something else half-way are two data sets
def _load(settings: StreamSettings, base: Path) -> Dataset:
    return load_dataset(settings, base=base)


def _content_digest(dataset: Dataset) -> str:
    digest = hashlib.sha256(dataset.feature_digest.encode())
    for task in dataset.tasks:
        rows = task.rows
        arrays = (rows.indptr, rows.indices, rows.values) if isinstance(rows, SparseRows) else (rows,)
        digest.update(repr((task.name, [array.shape for array in arrays])).encode())
        for array in (*arrays, task.labels):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


# Many of them -------------------------------------------------------------------------------------


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
