"""Local: every task learns alone by gradient steps. The yardstick for all sharing; nothing is ever sent."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drom_net.algorithms.base import Algorithm, Example, Prediction
from drom_net.algorithms.features import SparseVector, Vector, add_scaled, dot
from drom_net.algorithms.learner import STEP, Learner, Search
from drom_net.algorithms.losses import LOSSES
from drom_net.core.fields import Choice, Number, option


@dataclass(frozen=True, slots=True)
class LocalParameters:
    """Local's parameters."""

    eta0: float = option(Number(above=0.0), 10.0, doc="The step size of round t is eta0/sqrt(t).")
    loss: str = option(Choice(tuple(LOSSES)), "logistic", doc="The loss of the margin.")
    steps: str = option(
        Choice(("falling", "constant")), "falling", doc="falling: the step size is eta0/sqrt(t); constant: it is eta0."
    )

    def eta(self, t: int) -> float:
        """The step size of round t."""
        return self.eta0 if self.steps == "constant" else self.eta0 / math.sqrt(t)


def local(parameters: LocalParameters | None = None) -> Algorithm:
    """w -= eta0/sqrt(t) g, with g the gradient of the plain loss (section 4 of the specification); or eta0 g."""
    parameters = parameters or LocalParameters()
    loss = LOSSES[parameters.loss]

    def learn(w: Vector, example: Example, t: int) -> tuple[Vector, Prediction]:
        x, y = example
        score = dot(w, x)
        z = y * score
        c = loss.slope(z) * y
        eta = parameters.eta(t)
        # eta * (c * x) and not (eta * c) * x: so that DROM with lambda = rho = 0 has the same bits.
        if isinstance(x, SparseVector):
            add_scaled(w, -eta, SparseVector(x.indices, c * x.values))
        else:
            w -= eta * (c * x)
        return w, Prediction(score, loss.value(z), 1.0)

    return Algorithm(
        name="local",
        init_local=lambda dim: np.zeros(dim),
        learn=learn,
        predict=dot,
        model=lambda w: {"w": w},
    )


LOCAL = Learner(
    name="local",
    parameters=LocalParameters,
    build=local,
    reveals="Nothing leaves a site.",
    searches=(Search(fixed={"steps": "falling"}, space=STEP), Search("constant", {"steps": "constant"}, STEP)),
)
