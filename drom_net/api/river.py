"""A classifier with the conventions of river: one row at a time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from drom_net.algorithms.features import SparseVector
from drom_net.api.online import Online
from drom_net.api.rows import in_python
from drom_net.config.load import config_of
from drom_net.core.errors import DataError, Problem, UsageError, did_you_mean
from drom_net.data.cells import CellError, hashed, label_text, number_of, plain_text
from drom_net.data.faults import listed, quoted
from drom_net.data.file_settings import ONE_TASK
from drom_net.data.preprocessing import Preprocessing

try:
    from river.base import Classifier
except ImportError as error:
    raise UsageError("RiverClassifier needs river: pip install river") from error

Features = Mapping[Hashable, Any]
Label = bool | str | int


class RiverClassifier(Classifier):
    """Online multi-task learning of two labels, with the conventions of river.

    Features may come and go: each name has a place by a hash, a text counts as a feature of its own ("color=red").
    Numbers are taken as they are: put a StandardScaler before it. Each row is a round in which the other sites are
    idle.

    Args:
        learner: As `algorithm.name` of a YAML file; one that runs on a star.
        parameters: Its parameters, by the keys of that section.
        sites: The names of all sites; None where there is one.
        site_feature: The feature that names the site of a row. None where `site` says it. It counts as no feature.
        labels: The two labels, that of -1 first.
        places: How many places features share, by a hash.
        seed: What random draws are made from.

    >>> model = RiverClassifier(sites=["north", "south"], site_feature="site")
    >>> for _ in range(20):
    ...     model.learn_one({"site": "north", "heat": 1.0}, True)
    ...     model.learn_one({"site": "south", "cold": 1.0}, False)
    >>> model.predict_one({"site": "north", "heat": 1.0}), model.predict_one({"site": "south", "cold": 1.0})
    (True, False)
    """

    def __init__(
        self,
        learner: str = "adadrom",
        parameters: Mapping[str, object] | None = None,
        sites: Sequence[str] | None = None,
        site_feature: str | None = None,
        labels: tuple[Label, Label] = (False, True),
        places: int = 256,
        seed: int = 0,
    ) -> None:
        self.learner = learner
        self.parameters = parameters
        self.sites = sites
        self.site_feature = site_feature
        self.labels = labels
        self.places = places
        self.seed = seed
        mapping = {
            "algorithm": {"name": learner, **(parameters or {})},
            "data": {"dataset": "synthetic"},
            "seed": seed,
        }
        with in_python():
            config = config_of(mapping, name=type(self).__name__)
        names = (ONE_TASK,) if sites is None else tuple(label_text(site) for site in sites)
        self._online = Online(config, names, Preprocessing(places, normalize=True, bias=1.0))

    @property
    def _multiclass(self) -> bool:
        return False

    def learn_one(self, x: Features, y: Label, site: str | None = None) -> None:
        """Predict a row, then learn it.

        Raises:
            DataError: The site is unknown, a value is neither number nor text, or y is none of `labels`.
        """
        if y not in self.labels:
            expected = " or ".join(map(repr, self.labels))
            raise DataError([Problem("y", expected, repr(y), "labels= names both")])
        place, row = self._read(x, site)
        label = 1.0 if y == self.labels[1] else -1.0
        self._online.learn([[(row, label)] if place == one else [] for one in range(len(self._online.names))])

    def predict_one(  # type: ignore[override]
        self, x: Features, site: str | None = None
    ) -> Label:
        """The label of a row; Raises DataError as `learn_one`."""
        place, row = self._read(x, site)
        return self.labels[1] if self._online.score(place, row) >= 0.0 else self.labels[0]

    def predict_proba_one(  # type: ignore[override]
        self, x: Features, site: str | None = None
    ) -> dict[Label, float]:
        """The probabilities of both labels; Raises DataError as `learn_one`."""
        place, row = self._read(x, site)
        p = self._online.probability(place, self._online.score(place, row))
        return {self.labels[0]: 1.0 - p, self.labels[1]: p}

    def _read(self, x: Features, site: str | None) -> tuple[int, SparseVector]:
        """(number of the site, the row)."""
        names = self._online.names
        if self.site_feature is not None:
            site = label_text(x.get(self.site_feature))
        if site is None and len(names) > 1:
            raise DataError([Problem("site=", f"the site of the row: {listed(names)}", "none", "or site_feature=")])
        if site is not None and site not in names:
            hint = did_you_mean(site, names) or "sites= names all of them"
            raise DataError([Problem("site", f"one of {listed(names)}", quoted(site), hint)])
        return 0 if site is None else names.index(site), self._row(x)

    def _row(self, x: Features) -> SparseVector:
        """Sums of what shares a place, in the order of the features' names: that of x is of no effect."""
        found: dict[int, float] = {}
        for name in sorted((name for name in x if name != self.site_feature), key=str):
            value, what = x[name], str(name)
            if isinstance(value, str):
                what, value = f"{name}={plain_text(value)}", 1.0
            elif isinstance(value, np.generic | bool):
                value = float(value)
            try:
                number = number_of(value)
            except CellError as error:
                raise DataError([Problem(f"feature {quoted(str(name))}", error.expected, error.got)]) from None
            place, sign = hashed(what, self.places)
            found[place] = found.get(place, 0.0) + sign * number
        indices = np.array(sorted(place for place, value in found.items() if value), dtype=np.int32)
        return SparseVector(indices, np.array([found[int(place)] for place in indices], dtype=np.float64))
