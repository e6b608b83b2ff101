"""Learners of other packages beside ours in a comparison: river, and Vowpal Wabbit.

They see the examples that ours see, in the same order, each predicted before it is learned, in the process that runs
the plain loop. They are in no node: a model that learns from several sites is one object here.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple, Protocol

import numpy as np

from drom_net.algorithms.base import Algorithm, Example, Prediction
from drom_net.algorithms.features import Features, SparseVector, Vector, places
from drom_net.algorithms.learner import Learner, Log, Search
from drom_net.algorithms.losses import logistic
from drom_net.core.errors import UsageError
from drom_net.core.fields import Flag, Number, option

PACKAGES = {"river": "river", "vw": "vowpalwabbit"}
"""What is to be installed, by what `--with` takes."""
_LEAST = 1e-15
"""No probability that is asked for its log odds is smaller, nor larger than 1 less it."""


@dataclass(frozen=True, slots=True)
class RiverParameters:
    """Of river's LogisticRegression with its optimizer SGD."""

    lr: float = option(Number(above=0.0), 0.01, doc="The step size; 0.01 is river's own default.")
    pooled: bool = option(Flag(), False, doc="One model of all sites' examples; else each site has its own.")


@dataclass(frozen=True, slots=True)
class VWParameters:
    """Of Vowpal Wabbit, with one set of weights for all sites and another for each."""

    learning_rate: float = option(Number(above=0.0), 0.5, doc="Its --learning_rate; 0.5 is its own default.")


class Model(Protocol):
    """What one site predicts with and learns by; several may share what is behind."""

    def score(self, x: Features) -> float:
        """The log odds of +1."""

    def learn(self, x: Features, y: float) -> None:
        """Take one example, y being -1 or +1."""


def require(tool: str) -> Any:
    """The module of what `--with` takes.

    Raises:
        UsageError: There is no such tool, or it is not installed.
    """
    if tool not in PACKAGES:
        raise UsageError(f'--with: expected some of {", ".join(PACKAGES)}, got "{tool}"')
    package = PACKAGES[tool]
    try:
        return import_module(package)
    except ImportError as error:
        raise UsageError(
            f"--with {tool}: expected the package {package}, which cannot be imported ({error}); pip install {package}"
        ) from None


def versions() -> list[str]:
    """Name and version of those that are installed."""
    found = []
    for package in PACKAGES.values():
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return found


def _features(x: Features) -> list[tuple[int, float]]:
    """(place, value) of what is not zero."""
    at, values = places(x)
    indices = np.arange(len(values)) if isinstance(at, slice) else at
    return [(k, value) for k, value in zip(indices.tolist(), values.tolist(), strict=True) if value]


class _River:
    def __init__(self, model: Any) -> None:
        self._model = model

    def score(self, x: Features) -> float:
        p = min(max(self._model.predict_proba_one(dict(_features(x)))[True], _LEAST), 1.0 - _LEAST)
        return math.log(p / (1.0 - p))

    def learn(self, x: Features, y: float) -> None:
        self._model.learn_one(dict(_features(x)), y > 0.0)


class _VW:
    def __init__(self, workspace: Any, site: int) -> None:
        self._workspace, self._site = workspace, site

    def score(self, x: Features) -> float:
        return float(self._workspace.predict(self._line(x)))

    def learn(self, x: Features, y: float) -> None:
        self._workspace.learn(f"{y:+.0f} {self._line(x)}")

    def _line(self, x: Features) -> str:
        features = " ".join(f"{k}:{value!r}" for k, value in _features(x))
        return f"|all {features} |site{self._site} {features}"


class Site(NamedTuple):
    """The state of one task."""

    model: Model
    dim: int


def river(parameters: RiverParameters | None = None) -> Algorithm:
    """river's LogisticRegression: one for each site, or one for all, which learns in task order within a round."""
    q = parameters or RiverParameters()
    require("river")
    linear_model, optim = import_module("river.linear_model"), import_module("river.optim")

    def make() -> _River:
        return _River(linear_model.LogisticRegression(optimizer=optim.SGD(q.lr)))

    shared = make()
    return _algorithm("river", (lambda: shared) if q.pooled else make)


def vw(parameters: VWParameters | None = None) -> Algorithm:
    """Vowpal Wabbit, logistic loss, each feature twice: once for all sites, and once as the site's own.

    Daumé 2007, Frustratingly Easy Domain Adaptation. The rest is as it comes, but for 2^22 weights.
    """
    q = parameters or VWParameters()
    options = f"--quiet --loss_function logistic --link identity --bit_precision 22 --learning_rate {q.learning_rate!r}"
    workspace, sites = require("vw").Workspace(options), itertools.count()
    return _algorithm("vw", lambda: _VW(workspace, next(sites)))


def _algorithm(name: str, make: Callable[[], Model]) -> Algorithm:
    """The learner of one run.

    Args:
        make: Called for each site, in task order.
    """

    def learn(site: Site, example: Example, t: int) -> tuple[Site, Prediction]:
        score = site.model.score(example.x)
        site.model.learn(example.x, example.y)
        return site, Prediction(score, logistic(example.y * score), 1.0)

    def model(site: Site) -> dict[str, Vector]:
        """Its weights without the constant, by what it says of unit vectors."""
        units = [SparseVector(np.array([k], dtype=np.int32), np.ones(1)) for k in range(site.dim)]
        nothing = site.model.score(SparseVector(np.zeros(0, dtype=np.int32), np.zeros(0)))
        return {"w": np.array([site.model.score(unit) - nothing for unit in units])}

    return Algorithm(
        name=name,
        init_local=lambda dim: Site(make(), dim),
        learn=learn,
        predict=lambda site, x: site.model.score(x),
        model=model,
    )


_REVEALS = "It runs where learners are compared, and never at a site."

RIVER = Learner(
    name="river",
    parameters=RiverParameters,
    build=river,
    reveals=_REVEALS,
    searches=(Search(space={"lr": Log(0.01, 100.0)}),),
)
RIVER_POOLED = dataclasses.replace(
    RIVER, searches=(Search("pooled", {"pooled": True}, {"lr": Log(0.01, 100.0)}),), shares_examples=True
)
VW = Learner(
    name="vw",
    parameters=VWParameters,
    build=vw,
    reveals=_REVEALS,
    searches=(Search(space={"learning_rate": Log(0.01, 10.0)}),),
    shares_examples=True,
)
