"""The plain loop, fed as rows come: what the classifiers of this package learn with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drom_net import __version__
from drom_net.algorithms.features import Features
from drom_net.api.threads import one_thread
from drom_net.cluster.plan import algorithm_of
from drom_net.config.model import ClusterConfig
from drom_net.core.errors import UsageError
from drom_net.data.incoming import RowReader
from drom_net.data.live import LiveStream
from drom_net.data.preprocessing import Preprocessing
from drom_net.data.stream import TaskStream
from drom_net.learning.records import run_digest
from drom_net.learning.reference import Star
from drom_net.learning.task import SCALING
from drom_net.results.site_model import SiteModel
from drom_net.storage.node_folder import FORMAT_VERSION

Row = tuple[Features, float]
"""As it comes, and its label: -1.0 or +1.0."""
_KEEP = 256
"""Rounds whose records are held, at the most."""


class Online:
    """All sites' learners and their centre, which learn rows as they come. It can be pickled."""

    def __init__(self, config: ClusterConfig, names: Sequence[str], preprocessing: Preprocessing) -> None:
        """
        Args:
            config: Its learner, parameters and seed.
            names: The sites', in order.
            preprocessing: What is done to each row.
        """
        self.names, self.preprocessing = tuple(names), preprocessing
        self._config = config
        self._t = 0
        self._begin()

    def _begin(self) -> None:
        made = self.preprocessing
        self._streams = [LiveStream(made.dim, preprocessing=made, task=name) for name in self.names]
        self._star = Star(algorithm_of(self._config, 0), self._streams, seed=self._config.seed)

    def learn_all(self, streams: Sequence[TaskStream]) -> None:
        """Learn whole streams from the beginning, as `run_reference` does; then go on with what comes.

        Args:
            streams: Each site's, prepared.
        """
        star = Star(self._star.algorithm, streams, seed=self._config.seed)
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):
            for self._t in range(1, max(learner.last_round for learner in star.learners) + 1):
                star.round(self._t)
        learners = [
            learner.snapshot() | {"scaling": stream.scaling}
            for learner, stream in zip(star.learners, streams, strict=True)
        ]
        self._go_on({"learners": learners, "centre": star.centre.snapshot()})

    def learn(self, rows: Sequence[Sequence[Row]]) -> None:
        """Learn some rows of each site: in each round the next of all who have one left; the others are idle.

        What ends it early (Ctrl-C, an error) drops the rows that are left.

        Args:
            rows: Each site's, in its order.
        """
        try:
            for stream, its in zip(self._streams, rows, strict=True):
                for features, label in its:
                    stream.add(features, label)
            with one_thread(), np.errstate(over="ignore", invalid="ignore"):
                for _ in range(max(map(len, rows), default=0)):
                    self._t += 1
                    self._star.round(self._t)
                    if self._t % _KEEP == 0:
                        self._forget()
        finally:
            for stream in self._streams:
                stream.drop()

    def _forget(self) -> None:
        """Drop what nobody asks for again: examples, idle rounds, records."""
        for stream, learner in zip(self._streams, self._star.learners, strict=True):
            stream.forget(stream.next_index)
            decided = stream.take_decided()
            stream.forget_idle(decided.idle if decided else ())
            learner.take_records()
        self._star.centre.take_records()

    def score(self, site: int, row: Features) -> float:
        """Of a row as it comes, as it would be predicted in the next round."""
        return self._star.learners[site].predict(row)

    def probability(self, site: int, score: float) -> float:
        """Of +1."""
        return self._star.learners[site].probability(score)

    @property
    def digest(self) -> str:
        """That of the reference loop over the same rows."""
        return run_digest([learner.result().chain for learner in self._star.learners], self._star.centre.chain)

    def model(self, site: int) -> SiteModel:
        """A site's model as it is now, with the bits of the same in a run directory."""
        vectors, made, name = self._star.learners[site].result().model, self.preprocessing, self.names[site]
        preparation = made.begin(name, vectors.get(SCALING))
        return SiteModel(
            name, self._config.algorithm.learner, self._star.algorithm, vectors, RowReader(made), preparation
        )

    def _go_on(self, state: Mapping[str, Any]) -> None:
        self._begin()
        for learner, kept in zip(self._star.learners, state["learners"], strict=True):
            learner.restore(kept)
        for stream in self._streams:
            stream.begin_at(stream.next_index)
        self._star.centre.restore(state["centre"])

    def __getstate__(self) -> dict[str, Any]:
        """Without functions, which are made again."""
        star = self._star
        kept = {name: value for name, value in vars(self).items() if name not in ("_star", "_streams")}
        learners = [learner.snapshot() for learner in star.learners]
        state = {"learners": learners, "centre": star.centre.snapshot()}
        return kept | {"state": state, "format": FORMAT_VERSION, "version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Raises UsageError where another version of drom_net has another format."""
        kept = dict(state)
        format, version = kept.pop("format", None), kept.pop("version", "an earlier version")
        if format != FORMAT_VERSION:
            raise UsageError(
                f"the pickle: expected format {FORMAT_VERSION}, of drom_net {__version__}, got "
                f"{'none' if format is None else format}, of {version}; load it with that version, or learn anew"
            )
        snapshots = kept.pop("state")
        vars(self).update(kept)
        self._go_on(snapshots)
