"""The experts: what each says of an example, and how it learns.

In this order: L learns alone, by AdaGrad; D is one model for all tasks, by dual averaging with AdaGrad's step; D+ is D
and an offset of the task's own; S is ridge regression on the directions that the tasks' models have in common, DS the
same on what D leaves, and DS+ is DS and an offset of the task's own; R is S that forgets; F is ridge regression on the
features, alone, and DF on what D leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from drom_net.algorithms.adadrom.mixing import dot, slope_of, tilts_of, weigh
from drom_net.algorithms.adadrom.state import (
    COMMON,
    DELTA,
    DIRECTIONS,
    FORGOTTEN,
    KEPT,
    LEARNED,
    LINEAR,
    MODELS,
    ROOTS,
    SCORED,
    SHARED,
    SQUARES,
    AdaState,
)
from drom_net.algorithms.base import Example, Prediction
from drom_net.algorithms.features import Features, Matrix, Vector, places
from drom_net.algorithms.ridge import RIDGE, with_ridge

STEP, MOST_MOVED = 0.5, 5.0
"""AdaGrad's step; and what one example's first step moves its own score by at most: long rows take smaller ones."""
CERTAIN = 4.0
"""The score that ridge regression's answer 1 stands for."""
_MODELS = (
    "w",
    "shared",
    "offset",
    "shared_common_offset",
    "recent",
    "common",
    "shared_common",
    "ridge",
    "shared_ridge",
)


class _Seen(NamedTuple):
    """What a task sees in an example before it learns from it."""

    at: Any
    values: Vector
    """x at these places; elsewhere it is 0."""
    step: float
    table: Matrix
    """`AdaState.table` there."""
    z: list[float]
    """The experts' scores."""
    common: Vector
    """U^T x."""
    of_common: Vector
    """What S and DS want to have of the example when they learn."""
    of_ridge: Vector | None
    """The same of F and DF."""


def look(state: AdaState, x: Features) -> _Seen:
    """What the experts say of x."""
    at, values = places(x)
    step, table = step_of(values), state.table if isinstance(at, slice) else state.table.take(at, 1)
    scores = table[SCORED] @ values
    shared, local, *offsets = scores[DIRECTIONS:].tolist()
    common, of_ridge = scores[COMMON], None
    means, of_common = state.common.means(slice(None), common)
    pairs = [means.tolist()]
    if state.ridge is not None:
        means, of_ridge = state.ridge.means(at, values)
        pairs.append(means.tolist())
    z = _scores(local, -step * shared, offsets, float(_recent(state) @ common), pairs)
    return _Seen(at, values, step, table, z, common, of_common, of_ridge)


def _recent(state: AdaState) -> Vector:
    """The model of R, in U's coordinates."""
    products = with_ridge(state.recent[:, :DIRECTIONS], RIDGE)
    found: Any = np.linalg.solve(products, state.recent[:, DIRECTIONS])
    result: Vector = found
    return result


def _scores(
    local: float, shared: float, offsets: Sequence[float], recent: float, pairs: Iterable[Sequence[float]]
) -> list[float]:
    """By what L and D say, the offsets of D+ and DS+, what R expects of the label, and what other ridge regressions
    expect of it, and of what D leaves."""
    z = [local, shared, shared + offsets[0]]
    prior = expected(shared)
    for alone, left in pairs:
        z += (CERTAIN * alone, CERTAIN * (prior + left))
    z[5:5] = z[4] + offsets[1], CERTAIN * recent
    return z


def step_of(values: Vector) -> float:
    """AdaGrad's step for an example with these non-zeros."""
    return min(STEP, MOST_MOVED / max(float(np.add.reduce(np.abs(values))), DELTA))


def expected(z: float) -> float:
    """What a score says of the label, as a number from -1 to 1."""
    return min(1.0, max(-1.0, z / CERTAIN))


def primal_step(state: AdaState, example: Example, t: int) -> tuple[AdaState, Prediction]:
    """Predict, and learn."""
    x, y = example
    seen = look(state, x)
    tilts = tilts_of(seen.z)
    _descend(state, seen, *[slope_of(tilts[expert], y) for expert in (0, 1, 2, 5)])
    place = int(state.mixture.evidence[0]) % KEPT
    state.past[place : place + 1] = [x]
    targets = state.targets[place]
    targets[0], targets[1] = y, y - expected(seen.z[1])
    state.recent *= FORGOTTEN
    state.recent += np.multiply.outer(seen.common, np.append(seen.common, y))
    state.common.learn(slice(None), seen.common, seen.of_common, targets)
    if state.ridge is not None and seen.of_ridge is not None:
        state.ridge.learn(seen.at, seen.values, seen.of_ridge, targets)
    score, loss = weigh(state.mixture, tilts, y)
    return state, Prediction(score, loss, 1.0)


def _descend(state: AdaState, seen: _Seen, local: float, shared: float, *offsets: float) -> None:
    """A step of L, D, D+ and DS+.

    Args:
        local: The derivative of its loss by its score; shared, offsets: those of D, D+ and DS+.
    """
    values, table, unsent = seen.values, seen.table, state.kappa * shared
    own_slopes = (local, *offsets)
    moves = np.multiply.outer((unsent, shared, *[seen.step * slope for slope in own_slopes]), values)
    of_own = [slope * slope for slope in own_slopes]
    squares = np.multiply.outer((shared * shared, unsent * shared, *of_own), values * values)
    linear, quadratic, models, own = table[LINEAR], table[SQUARES], table[MODELS], moves[2:]
    linear += moves[:2]  # not table[LINEAR] += .., which would then copy them to where they are
    quadratic += squares
    roots = np.sqrt(table[ROOTS])
    np.divide(linear[0], roots[0], out=table[SHARED])
    own /= roots[1:]
    models -= own
    state.touched[seen.at] = True
    if table is not state.table:
        state.table[LEARNED, seen.at] = table[LEARNED]


def predict(state: AdaState, x: Features) -> float:
    """p - 1/2 of x."""
    return state.mixture.score(tilts_of(look(state, x).z))


def model(state: AdaState) -> dict[str, Vector]:
    """What is left of a task at its end."""
    w, offset, shared_common_offset = state.table[MODELS].copy()
    in_common = np.stack((_recent(state), *state.common.weights)) @ state.table[COMMON]
    ridges = () if state.ridge is None else state.ridge.vectors()
    vectors = (w, -state.table[SHARED], offset, shared_common_offset, *in_common, *ridges)
    found = dict(zip(_MODELS, vectors, strict=False))
    return found | {"mixture": np.array(state.mixture.effective()), "evidence": np.array(state.mixture.evidence)}


def score_of_model(model: Mapping[str, Vector], x: Features) -> float:
    """The same as `predict` by what is left of a task at its end."""
    at, values = places(x)
    local, shared, offset, other, recent, *others = (
        float(model[name][at] @ values) for name in _MODELS if name in model
    )
    z = _scores(local, step_of(values) * shared, (offset, other), recent, zip(others[::2], others[1::2], strict=True))
    return dot(model["mixture"].tolist(), tilts_of(z))
