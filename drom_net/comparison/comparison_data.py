"""The data sets and the user's files that learners are compared on."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from drom_net.algorithms import learner_named
from drom_net.comparison.figures import FIGURE_OF
from drom_net.config.model import AlgorithmChoice, ClusterConfig, ReducerSettings
from drom_net.core.errors import UsageError, did_you_mean
from drom_net.data.dataset import Dataset
from drom_net.data.datasets import load_dataset
from drom_net.data.public import check_public
from drom_net.data.public.places import DATA_FOLDER_VARIABLE, cache_folder
from drom_net.data.settings import DATA_SECTIONS, RowSettings, StreamSettings
from drom_net.data.stream import SparseRows
from drom_net.protocol.settings import Timeouts


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
        algorithm=AlgorithmChoice("drom", learner_named("drom").parameters()),
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
