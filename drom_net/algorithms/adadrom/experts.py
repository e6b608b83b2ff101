"""The experts: what each says of an example, and how it learns.

In this order: L learns alone, by AdaGrad; D is one model for all tasks, by dual averaging with AdaGrad's step; D+ is D
and an offset of the task's own; S is ridge regression on the directions that the tasks' models have in common, and DS
on what D leaves, in the same coordinates; F is ridge regression on the features, alone, and DF on what D leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from drom_net.algorithms.adadrom.mixing import slopes_of, tilts_of, weigh
from drom_net.algorithms.adadrom.state import COMMON, DELTA, KEPT, MODELS, OF_D, SQUARES, TOTALS, AdaState
from drom_net.algorithms.base import Example, Prediction
from drom_net.algorithms.features import Features, Matrix, SparseVector, Vector, places

STEP, MOST_MOVED = 0.5, 5.0
"""AdaGrad's step; and what one example's first step moves its own score by at most: long rows take smaller ones."""
CERTAIN = 4.0
"""The score that ridge regression's answer 1 stands for."""
_MODELS = ("w", "shared", "offset", "common", "shared_common", "ridge", "shared_ridge")


class _Seen(NamedTuple):
    """What a task sees in an example before it learns from it."""

    at: Any
    values: Vector
    """x at these places; elsewhere it is 0."""
    step: float
    own: Matrix
    """`AdaState.own` there."""
    z: list[float]
    """The experts' scores."""
    of_common: tuple[Vector, Vector, Vector]
    """U^T x, what S and DS expect, and what they want to have of the example when they learn."""
    of_ridge: tuple[Vector, Vector] | None
    """The last two of F and DF."""


def look(state: AdaState, x: Features) -> _Seen:
    """What the experts say of x."""
    at, values = places(x)
    step, own, heard = step_of(values), state.own[at], state.heard[at]
    local, offset = (values @ own[:, MODELS]).tolist()
    sums = heard[:, TOTALS] + state.kappa * own[:, OF_D]
    shared = -step * float(values @ (sums[:, 0] / np.sqrt(sums[:, 1] + DELTA)))
    common = values @ heard[:, COMMON]
    of_common = common, *state.common.means(slice(None), common)
    of_ridge = state.ridge.means(at, values) if state.ridge is not None else None
    pairs = [of_common[1].tolist()] if of_ridge is None else [of_common[1].tolist(), of_ridge[0].tolist()]
    return _Seen(at, values, step, own, _scores(local, shared, offset, pairs), of_common, of_ridge)


def _scores(local: float, shared: float, offset: float, pairs: Iterable[Sequence[float]]) -> list[float]:
    """By what L and D say, the offset of D+, and what ridge regressions expect of the label, and of what D leaves."""
    z = [local, shared, shared + offset]
    for alone, left in pairs:
        z += (CERTAIN * alone, CERTAIN * (expected(shared) + left))
    return z


def step_of(values: Vector) -> float:
    """AdaGrad's step for an example with these non-zeros."""
    return min(STEP, MOST_MOVED / max(float(np.abs(values).sum()), DELTA))


def expected(z: float) -> float:
    """What a score says of the label, as a number from -1 to 1."""
    return min(1.0, max(-1.0, z / CERTAIN))


def primal_step(state: AdaState, example: Example, t: int) -> tuple[AdaState, Prediction]:
    """Predict, and learn."""
    x, y = example
    seen = look(state, x)
    tilts, own = tilts_of(seen.z), seen.own
    gradients = np.multiply.outer(seen.values, slopes_of(tilts, y)[[0, 2, 1]])  # of W, V and P
    own[:, SQUARES] += gradients * gradients
    own[:, 2] += gradients[:, 2]
    own[:, MODELS] -= seen.step * gradients[:, MODELS] / np.sqrt(own[:, 3:5])
    if isinstance(x, SparseVector):  # else `own` is no copy
        state.own[seen.at] = own
    state.touched[seen.at] = True
    left = y - expected(seen.z[1])
    state.common.learn(slice(None), *seen.of_common, np.array((y, left)))
    if state.ridge is not None and seen.of_ridge is not None:
        state.ridge.learn(seen.at, seen.values, *seen.of_ridge, np.array((y, left)))
    state.past.append((x, y, left))
    del state.past[:-KEPT]
    score, loss = weigh(state.mixture, tilts, y)
    return state, Prediction(score, loss, 1.0)


def predict(state: AdaState, x: Features) -> float:
    """p - 1/2 of x."""
    return float(state.mixture.effective() @ tilts_of(look(state, x).z))


def model(state: AdaState) -> dict[str, Vector]:
    """What is left of a task at its end."""
    sums = state.heard[:, TOTALS] + state.kappa * state.own[:, OF_D]
    w, offset = state.own[:, MODELS].T.copy()
    shared = -sums[:, 0] / np.sqrt(sums[:, 1] + DELTA)
    common, shared_common = state.common.weights @ state.heard[:, COMMON].T
    ridges = () if state.ridge is None else state.ridge.vectors()
    found = dict(zip(_MODELS, (w, shared, offset, common, shared_common, *ridges), strict=False))
    return found | {"mixture": state.mixture.effective(), "evidence": state.mixture.evidence.copy()}


def score_of_model(model: Mapping[str, Vector], x: Features) -> float:
    """The same as `predict` by what is left of a task at its end."""
    at, values = places(x)
    local, shared, offset, *others = (float(model[name][at] @ values) for name in _MODELS if name in model)
    z = _scores(local, step_of(values) * shared, offset, zip(others[::2], others[1::2], strict=True))
    return float(model["mixture"] @ tilts_of(z))
