"""The best W in hindsight: the least loss over a nuclear ball, between two certified numbers.

Solved is, over W of shape (m, d) with a row w_i a task and z_j = <w_i, y_j x_j> the margin of example j of task i,

    P(W) = sum_j f(z_j) + c |W|_*    dataset to |W|_* <= r

by accelerated proximal gradient steps with backtracking and restarts; the hinge is smoothed meanwhile, less and less.
Both losses are f(z) = max over 0 <= alpha <= 1 of h(alpha) - alpha z (h = alpha for the hinge, the entropy for the
logistic loss), so any alpha in [0, 1]^n gives a lower bound of all P(W) at once, whatever the smoothing was:

    P(W) >= sum_j h(alpha_j) - r max(0, |G|_2 - c),    G_i = sum over j of task i of alpha_j y_j x_j

With alpha = -f'(z) this is P(W) less the Frank-Wolfe gap. Both numbers hold up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from drom_net.algorithms.features import Matrix, Vector
from drom_net.data.stream import SparseRows, TaskStream


@dataclass(frozen=True, slots=True)
class Hindsight:
    """The best W that was found, and what is known of the minimum: lower <= minimum <= value."""

    W: Matrix
    """Shape (m, d), in the ball."""
    value: float
    """P(W), without smoothing."""
    lower: float
    iterations: int


class _Point(NamedTuple):
    """The loss at some margins, and the tangent there: alpha = -slope of the smoothed loss."""

    loss: float
    smoothed: float
    """<= loss."""
    alpha: Vector
    dual: float
    """The sum of h(alpha)."""
    smoothed_dual: float
    """The same for the smoothed loss."""


def _hinge(z: Vector, smoothing: float) -> _Point:
    gap = np.maximum(0.0, 1.0 - z)
    alpha = np.minimum(1.0, gap / smoothing)
    total, bent = float(alpha.sum()), 0.5 * smoothing * float(alpha @ alpha)
    return _Point(float(gap.sum()), float(alpha @ gap) - bent, alpha, total, total - bent)


def _logistic(z: Vector, smoothing: float) -> _Point:
    losses = np.logaddexp(0.0, -z)
    alpha = np.exp(-np.logaddexp(0.0, z))
    loss = float(losses.sum())
    dual = loss + float(alpha @ z)  # f(z) = h(alpha) - alpha z at this alpha
    return _Point(loss, loss, alpha, dual, dual)


LOSSES: dict[str, Callable[[Vector, float], _Point]] = {"hinge": _hinge, "logistic": _logistic}
"""Those that regret is measured in."""


def signed_rows(streams: Sequence[TaskStream]) -> list[Matrix]:
    """Each task's examples y x in the order of learning, once, dense, shape (n_i, d)."""
    return [_dense(stream) * stream.labels[:, np.newaxis] for stream in streams]


def _dense(stream: TaskStream) -> Matrix:
    rows = stream.rows
    if not isinstance(rows, SparseRows):
        return rows
    dense = np.zeros((len(stream.labels), rows.dim))
    dense[np.repeat(np.arange(len(stream.labels)), np.diff(rows.indptr)), rows.indices] = rows.values
    return dense


def nuclear_norm(W: Matrix) -> float:
    """The sum of the singular values."""
    return float(np.linalg.svd(W, compute_uv=False).sum())


def into_ball(W: Matrix, radius: float, shrink: float = 0.0) -> tuple[Matrix, float]:
    """The V with |V|_* <= radius that has the least |V - W|^2 / 2 + shrink |V|_*, and its nuclear norm."""
    left, values, right = np.linalg.svd(W, full_matrices=False)
    if np.maximum(0.0, values - shrink).sum() > radius:
        # Onto the simplex: the threshold at which what is left over sums to the radius.
        thresholds = (np.cumsum(values) - radius) / np.arange(1, len(values) + 1)
        shrink = float(thresholds[np.flatnonzero(values > thresholds)[-1]])
    values = np.maximum(0.0, values - shrink)
    return (left * values) @ right, float(values.sum())


def best_in_hindsight(
    rows: Sequence[Matrix],
    *,
    loss: str,
    radius: float,
    penalty: float = 0.0,
    start: Matrix | None = None,
    tolerance: float = 1e-4,
    iterations: int = 5000,
) -> Hindsight:
    """The least P(W) in the ball, as near as was asked for or as the iterations allow.

    Args:
        rows: Each task's examples y x, shape (n_i, d); n_i may be 0.
        loss: One of `LOSSES`.
        radius: r > 0.
        penalty: c >= 0; lambda T for the objective of T rounds.
        start: Where to start: the best W of a shorter prefix or of another radius.
        tolerance: The width of the bracket at which to stop, an example.
        iterations: At most so many.
    """
    at = LOSSES[loss]
    offsets = np.cumsum([0, *(len(task_rows) for task_rows in rows)])
    wanted = tolerance * max(1, int(offsets[-1]))

    def margins(W: Matrix) -> Vector:
        return np.concatenate([task_rows @ w for task_rows, w in zip(rows, W, strict=True)])

    def pull(alpha: Vector) -> Matrix:
        parts = zip(rows, offsets[:-1], offsets[1:], strict=True)
        return np.stack([alpha[begin:end] @ task_rows for task_rows, begin, end in parts])

    W, norm = into_ball(np.zeros((len(rows), rows[0].shape[1])) if start is None else start, radius)
    z = margins(W)
    best, value, lower = W, at(z, 1.0).loss + penalty * norm, -math.inf
    last_W, last_z = W, z
    momentum = smoothing = curvature = 1.0
    done = 0
    while done < iterations:
        done += 1
        next_momentum = 0.5 + math.sqrt(0.25 + momentum * momentum)
        ahead = (momentum - 1.0) / next_momentum
        Y, z_Y = W + ahead * (W - last_W), z + ahead * (z - last_z)
        point = at(z_Y, smoothing)
        G = pull(point.alpha)
        support = radius * max(0.0, float(np.linalg.norm(G, 2)) - penalty)
        lower = max(lower, point.dual - support)
        while True:
            V, norm = into_ball(Y + G / curvature, radius, penalty / curvature)
            z_V = margins(V)
            new, way = at(z_V, smoothing), V - Y
            model = point.smoothed - float(np.vdot(G, way)) + 0.5 * curvature * float(np.vdot(way, way))
            if new.smoothed <= model + 1e-12 * abs(model):
                break
            curvature *= 2.0
        if new.loss + penalty * norm < value:
            best, value = V, new.loss + penalty * norm
        if value - lower <= wanted:
            break
        # Speed that points uphill is given up (adaptive restart); so it is where the problem changes.
        momentum = 1.0 if np.vdot(Y - V, V - W) > 0.0 else next_momentum
        last_W, last_z, W, z = W, z, V, z_V
        smoothed_gap = new.smoothed + penalty * norm - (point.smoothed_dual - support)
        if smoothed_gap <= new.loss - new.smoothed:  # what is left is the smoothing's own error
            smoothing *= 0.5
            momentum = 1.0
        curvature *= 0.9
    return Hindsight(best, value, lower, done)
