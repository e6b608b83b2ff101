"""What travels: a site's summands to the reducer, and the totals back.

A contribution has two blocks of integers: the sums of D's gradients and of their squares (G_i and Q_i); and the sketch
Y_i = w_i (w_i^T Omega) of the site's own model, with what its experts weigh. A reply has their totals.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from drom_net.algorithms.adadrom.mixing import prior_of
from drom_net.algorithms.adadrom.state import (
    COMMON,
    DELTA,
    DIRECTIONS,
    EXPERTS,
    LAYOUT,
    OF_D,
    SKETCHED,
    TOTALS,
    AdaState,
)
from drom_net.algorithms.base import IDLE, Contribution, ContributionKind, Reply, ReplyKind
from drom_net.algorithms.features import Matrix, Vector, places, put
from drom_net.algorithms.ridge import RIDGE, ExactRidge, inverse_of
from drom_net.algorithms.sums import MOST_SITES, block_of, some_or_all, to_floats, to_integers
from drom_net.core.seeding import stream

BITS = np.array([[28], [34]], dtype=np.int32)
"""Of G and Q: one step of Q is far below DELTA. A site has room for a G of 2^23 and a Q of 2^17."""
BITS_OF_SKETCH, BITS_OF_WEIGHTS = 28, 30
MOST_EXAMPLES = 2**23 - 1
"""A site counts for no more examples in the sketch, which is then within the range of summands."""


@functools.cache
def omega(dim: int) -> Matrix:
    """Orthonormal columns, the same at all sites and at all times; shape (d, k + 1), with 0 beyond min(k, d)."""
    k = min(SKETCHED, dim)
    found = np.zeros((dim, LAYOUT[1]))
    found[:, :k] = np.linalg.qr(stream(0, "adadrom", dim).normal(size=(dim, k)))[0]
    found.flags.writeable = False
    return found


def send(state: AdaState, t: int) -> tuple[AdaState, Contribution]:
    """All that the task has come to, where the reducer may have something else; idle without new examples."""
    if not state.touched.any():
        return state, IDLE
    dim, ever = len(state.own), state.own[:, 3] > DELTA
    ever[-EXPERTS:] = True
    new, old = some_or_all(state.touched, LAYOUT[0]), some_or_all(ever, LAYOUT[1])
    sums, clipped = to_integers(state.sent[:, new] + state.own[new, OF_D].T, BITS)
    sketch, more = to_integers(_sketch(state, old), BITS_OF_SKETCH)
    weights, _ = to_integers(state.mixture.weights, BITS_OF_WEIGHTS)
    sketch.reshape(-1)[-len(weights) :] = weights
    state.clipped, state.telling = state.clipped + clipped + more, weights
    return state, Contribution(ContributionKind.VECTORS, (block_of(new, sums, dim), block_of(old, sketch, dim)))


def _sketch(state: AdaState, at: Any) -> Matrix:
    """Y_i^T there, shape (k + 1, len(at)): n (Omega^T w) w^T after n examples, w at unit norm: exact F's, or L's."""
    w: Vector = (state.ridge.weights[0] if isinstance(state.ridge, ExactRidge) else state.own[:, 0])[at]
    square = float(w @ w)
    if not square > 0.0:
        return np.zeros((LAYOUT[1], len(w)))
    n = min(float(state.mixture.evidence[0]), MOST_EXAMPLES)
    found: Matrix = np.multiply.outer(n / square * (w @ omega(len(state.own))[at]), w)
    return found


def receive(state: AdaState, reply: Reply, t: int) -> AdaState:
    """Take the totals, and what follows from them."""
    if reply.kind is not ReplyKind.VECTORS:
        return state
    if len(state.telling):  # it has come; without a reply all would be said again
        state.sent += state.own[:, OF_D].T
        state.own[:, OF_D] = 0.0
        state.touched[:] = False
        state.said, state.telling = state.telling, state.telling[:0]
    for total, news in zip(state.totals, reply.vectors, strict=True):
        put(total, news)
    sums, sketch = state.totals
    state.heard[:, TOTALS] = to_floats(sums, BITS).T
    np.maximum(state.heard[:, 1], 0.0, out=state.heard[:, 1])  # a site may say of squares what it likes
    of_all = to_floats(sketch.reshape(-1)[-len(state.said) :], BITS_OF_WEIGHTS)
    state.mixture.prior = prior_of(of_all - to_floats(state.said, BITS_OF_WEIGHTS))
    state.kappa = math.sqrt(min(max(1, round(float(of_all.sum()))), MOST_SITES))  # each site's have the sum 1
    _turn(state, to_floats(sketch[:SKETCHED], BITS_OF_SKETCH))
    return state


def _turn(state: AdaState, sketch: Matrix) -> None:
    """Take from Y^T, shape (k, d), the leading directions u_j s_j / s_1; fit S and DS again in these coordinates."""
    sketch[len(state.own) :] = 0.0  # where the weights may stand
    if not sketch.any():
        return
    squares, vectors = np.linalg.eigh(sketch @ sketch.T)  # s^2, ascending
    state.heard[:, COMMON] = common = sketch.T @ vectors[:, : -DIRECTIONS - 1 : -1] / math.sqrt(squares[-1])
    if not state.past:
        return
    rows = np.array([values @ common[at] for at, values in (places(x) for x, _, _ in state.past)])
    state.common.inverse = np.ascontiguousarray(inverse_of(rows.T @ rows, RIDGE))
    targets = np.array([[y, left] for _, y, left in state.past])
    state.common.weights = np.ascontiguousarray((targets.T @ rows) @ state.common.inverse.T)
