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

from drom_net.algorithms.adadrom.mixing import dot, margins_of, slope_of, weigh
from drom_net.algorithms.adadrom.state import (
    COMMON,
    DIRECTIONS,
    FORGOTTEN,
    IN_COMMON,
    KEPT,
    MODELS,
    SCORED,
    SHARED,
    SUMS,
    AdaState,
)
from drom_net.algorithms.base import Example, Prediction
from drom_net.algorithms.features import Features, Matrix, Vector, places
from drom_net.algorithms.ridge import RIDGE

STEP, MOST_MOVED = 0.5, 5.0
"""AdaGrad's step; and what one example's first step moves its own score by at most: long rows take smaller ones."""
CERTAIN = 4.0
"""The score that ridge regression's answer 1 stands for."""
_KEPT = np.full((2, DIRECTIONS, IN_COMMON), [[[1.0]], [[FORGOTTEN]]])
_DIAGONAL = np.arange(DIRECTIONS)
_GIVEN = (1.0 - _KEPT) * RIDGE * np.eye(DIRECTIONS, IN_COMMON)
"""What of `AdaState.common` is left with each example, and what is added, so that no ridge is forgotten."""
_LONG = (MOST_MOVED / STEP) ** 2
"""Of rows with a larger square some is added to the ridge: else rows far beyond norm 1 could leave no inverse."""
try:
    from numpy.linalg._umath_linalg import solve as _solve  # takes less time to find out what it was given
except ImportError:
    _solve: Any = np.linalg.solve  # type: ignore[no-redef]
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
    """U^T x, and room for two targets."""
    of_ridge: Any
    """What F and DF want to have of the example when they learn."""


def look(state: AdaState, x: Features) -> _Seen:
    """What the experts say of x."""
    at, values = places(x)
    if isinstance(at, slice):
        table = state.table = np.asarray(state.table, order="C")
    else:  # what is known of a feature is side by side, and so is read and written at once
        state.table = np.asarray(state.table, order="F")
        table = state.table.T.take(at, 0).T
    step, scores = step_of(values), table[SCORED] @ values
    shared, local, *offsets = scores[DIRECTIONS:].tolist()
    means, (recent, _) = (scores[COMMON] @ models_in_common(state)).tolist()
    of_ridge: Any = None
    pairs = [means]
    if state.ridge is not None:
        means, of_ridge = state.ridge.means(at, values)
        pairs.append(means.tolist())
    z = _scores(local, -step * shared, offsets, recent, pairs)
    return _Seen(at, values, step, table, z, scores[:IN_COMMON], of_ridge)


def models_in_common(state: AdaState) -> Any:
    """Those of S and DS, and that of R and another one, in U's coordinates, shape (2, r, 2)."""
    return _solve(state.common[:, :, COMMON], state.common[:, :, DIRECTIONS:])


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
    length = float(np.add.reduce(np.abs(values)))
    return STEP if length <= MOST_MOVED / STEP else MOST_MOVED / length


def expected(z: float) -> float:
    """What a score says of the label, as a number from -1 to 1."""
    return min(1.0, max(-1.0, z / CERTAIN))


def primal_step(state: AdaState, example: Example, t: int) -> tuple[AdaState, Prediction]:
    """Predict, and learn."""
    x, y = example
    seen = look(state, x)
    margins = margins_of(seen.z)
    _descend(state, seen, *[slope_of(margins[expert], y) for expert in (0, 1, 2, 5)])
    place, targets = int(state.mixture.evidence[0]) % KEPT, seen.common[DIRECTIONS:]
    targets[:] = y, y - expected(seen.z[1])
    state.past[place : place + 1], state.targets[place] = [x], targets
    _learn_in_common(state, seen)
    if state.ridge is not None:
        state.ridge.learn(seen.at, seen.values, seen.of_ridge, targets)
    score, loss = weigh(state.mixture, margins, y)
    return state, Prediction(score, loss, 1.0)


def _learn_in_common(state: AdaState, seen: _Seen) -> None:
    """S, DS and R take an example."""
    state.common *= _KEPT
    state.common += _GIVEN
    state.common += seen.common[COMMON, None] * seen.common
    if seen.step < STEP and (square := float(seen.values @ seen.values)) > _LONG:
        state.common[:, _DIAGONAL, _DIAGONAL] += 1e-9 * square


def _descend(state: AdaState, seen: _Seen, local: float, shared: float, own: float, other: float) -> None:
    """A step of L, D, D+ and DS+: by each, the derivative of its loss by its score."""
    values, table, step, unsent = seen.values, seen.table, seen.step, state.kappa * shared
    factors = np.array(
        (
            (step * local, step * own, step * other, unsent, shared, 0.0, 0.0, 0.0, 0.0, 0.0),
            (0.0, 0.0, 0.0, 0.0, 0.0, shared * shared, unsent * shared, local * local, own * own, other * other),
        )
    )
    moves, models, sums = factors.T @ np.array((values, values * values)), table[MODELS], table[SUMS]
    sums += moves[3:]  # not table[SUMS] += .., which would then copy them to where they are
    roots, steps = np.sqrt(sums[3:]), moves[:3]
    np.divide(sums[0], roots[0], out=table[SHARED])
    steps /= roots[1:]
    models -= steps
    state.touched[seen.at] = True
    if table is not state.table:
        state.table.T[seen.at] = table.T


def predict(state: AdaState, x: Features) -> float:
    """p - 1/2 of x."""
    return state.mixture.score(margins_of(look(state, x).z))


def model(state: AdaState) -> dict[str, Vector]:
    """What is left of a task at its end."""
    w, offset, shared_common_offset = state.table[MODELS].copy()
    in_common = models_in_common(state).transpose(0, 2, 1).reshape(4, -1)[[2, 0, 1]] @ state.table[COMMON]
    ridges = () if state.ridge is None else state.ridge.vectors()
    vectors = (w, -state.table[SHARED], offset, shared_common_offset, *in_common, *ridges)
    found = dict(zip(_MODELS, vectors, strict=False))
    mixture, evidence = state.mixing
    return found | {"mixture": mixture, "evidence": evidence}


def score_of_model(model: Mapping[str, Vector], x: Features) -> float:
    """The same as `predict` by what is left of a task at its end."""
    at, values = places(x)
    local, shared, offset, other, recent, *others = (
        float(model[name][at] @ values) for name in _MODELS if name in model
    )
    z = _scores(local, step_of(values) * shared, (offset, other), recent, zip(others[::2], others[1::2], strict=True))
    return dot(model["mixture"].tolist(), margins_of(z))
