"""AROW: every task learns alone, by steps that are smaller for features that it has often seen; nothing is sent.

Crammer, Kulesza and Dredze 2009, Adaptive Regularization of Weight Vectors, with a diagonal covariance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drom_net.algorithms.base import Algorithm, Example, Prediction
from drom_net.algorithms.features import Vector, dot, places
from drom_net.algorithms.learner import Learner, Log, Search
from drom_net.algorithms.losses import squared_hinge
from drom_net.core.fields import Number, option


@dataclass(frozen=True, slots=True)
class ArowParameters:
    """AROW's parameters."""

    r: float = option(Number(above=0.0), 1.0, doc="How slowly it learns: steps have the factor 1 / (v + r).")


@dataclass(slots=True)
class ArowState:
    """One task: the mean w and the variances of the weights, of shape (d,)."""

    w: Vector
    variance: Vector


def arow(parameters: ArowParameters | None = None) -> Algorithm:
    """Where y <w, x> < 1, with v = sum_k s_k x_k^2 and beta = 1 / (v + r):

    w += max(0, 1 - y <w, x>) beta y s x, then s -= beta (s x)^2; s = 1 at first. These are the paper's updates, of
    whose matrix only the diagonal is kept.
    """
    r = (parameters or ArowParameters()).r

    def learn(state: ArowState, example: Example, t: int) -> tuple[ArowState, Prediction]:
        score = dot(state.w, example.x)
        z = example.y * score
        if z < 1.0:
            at, x = places(example.x)
            spread = state.variance[at] * x
            beta = 1.0 / (float(np.dot(spread, x)) + r)
            state.w[at] += ((1.0 - z) * beta * example.y) * spread
            state.variance[at] -= beta * spread * spread
        return state, Prediction(score, squared_hinge(z), 1.0)

    return Algorithm(
        name="arow",
        init_local=lambda dim: ArowState(np.zeros(dim), np.ones(dim)),
        learn=learn,
        predict=lambda state, x: dot(state.w, x),
        model=lambda state: {"w": state.w},
    )


AROW = Learner(
    name="arow",
    parameters=ArowParameters,
    build=arow,
    reveals="Nothing leaves a site.",
    searches=(Search(space={"r": Log(0.01, 100.0)}),),
)
