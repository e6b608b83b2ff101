"""One site's model: from a row as it comes to a score and a probability."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drom_net.algorithms import learner_named
from drom_net.algorithms.base import Algorithm
from drom_net.algorithms.features import Features, Matrix, Vector
from drom_net.algorithms.learner import Learner
from drom_net.data.incoming import RowReader
from drom_net.data.preprocessing import RowPreparation
from drom_net.data.stream import SparseRows, each
from drom_net.learning.calibration import probability_of
from drom_net.learning.task import CALIBRATION, SCALING
from drom_net.results.model_file import require_vectors, row_reader_of, vectors_of


@dataclass(frozen=True, slots=True)
class SiteModel:
    """A site's part of a model.

    Attributes:
        learner, algorithm: What made it.
        vectors: By the names of its algorithm, w of shape (d,) first.
        reader: What rows are.
        preparation: What is done to each.
    """

    name: str
    learner: Learner
    algorithm: Algorithm
    vectors: dict[str, Vector]
    reader: RowReader
    preparation: RowPreparation

    @classmethod
    def of(cls, model: dict[str, npt.NDArray[Any]], index: int, shown: Path) -> SiteModel:
        """The part of one site.

        Args:
            model: As `load_model`.
            index: The site's number.
            shown: What messages call the run.

        Raises:
            ConfigError: Its learner is of another package, which is not installed here.
            UsageError: An earlier version has made it, without vectors that are needed now.
        """
        name = str(model["tasks"][index])
        reader = row_reader_of(model)
        state = np.ascontiguousarray(model[SCALING.upper()][index]) if SCALING.upper() in model else None
        made_by = str(model["algorithm"]) if "algorithm" in model else "drom"  # earlier versions did not say
        learner = learner_named(made_by, f"{shown}: algorithm")
        algorithm = learner.make()
        require_vectors(model, algorithm, shown)
        return cls(name, learner, algorithm, vectors_of(model, index), reader, reader.preprocessing.begin(name, state))

    def score(self, row: Features) -> float:
        """Of a row as `reader` reads it; the label is +1 where it is >= 0."""
        return self._score(self.preparation.look(row))

    def scores(self, rows: Matrix | SparseRows) -> Vector:
        """The same of many, shape (n,)."""
        return np.array([self._score(row) for row in each(self.preparation.look_at(rows))], dtype=np.float64)

    def _score(self, prepared: Features) -> float:
        return float(self.learner.score(self.vectors, prepared))

    def probability(self, score: float) -> float:
        """Of +1."""
        return probability_of(score, self.algorithm.log_odds, self.vectors.get(CALIBRATION))
