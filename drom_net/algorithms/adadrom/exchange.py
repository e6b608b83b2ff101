"""What travels: a site's summands to the reducer, and the totals back.

A contribution has two blocks of integers: the sums of D's gradients and of their squares (G_i and Q_i); and the sketch
Y_i = w_i (w_i^T Omega) of the site's own model, with what its experts weigh. A reply has their totals.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from drom_net.algorithms.adadrom.mixing import EXPERTS, WITHOUT_RIDGE, prior_of
from drom_net.algorithms.adadrom.state import (
    AGAIN,
    COMMON,
    DELTA,
    DIRECTIONS,
    FORGOTTEN,
    KEPT,
    LAYOUT,
    OWN,
    OWN_PART,
    ROOT,
    SHARED,
    SKETCHED,
    SUM,
    AdaState,
    W,
)
from drom_net.algorithms.base import IDLE, Contribution, ContributionKind, Reply, ReplyKind
from drom_net.algorithms.features import MOST_OF_SUMMAND, Features, Matrix, SparseVector, Vector, numbers, put
from drom_net.algorithms.learner import AsARule
from drom_net.algorithms.ridge import MOST, RIDGE, ExactRidge, with_ridge
from drom_net.algorithms.sums import MOST_SITES, Whole, block_of, nothing, some_or_all, to_integers
from drom_net.core.seeding import stream

BITS_OF_G, BITS_OF_Q = 28, 34
"""Of G and Q: one step of Q is far below DELTA. A site has room for a G of 2^23 and a Q of 2^17."""
BITS_OF_SKETCH, BITS_OF_WEIGHTS = 18, 22
"""Of Y, whose directions are all that is used, and of the weights at its end: most Y then travel in 3 bytes."""
_BITS = np.array([[BITS_OF_G], [BITS_OF_Q]])
ROUNDING = 4.0
"""Times the root of d, in steps of Y: more than what rounding does to the sum of some hundred sites. Of more sites a
weak direction may be rounding; of far more features than 10,000 it is as much as the models of a few examples."""
MOST_EXAMPLES = 2**23 - 1
"""A site counts for no more examples in the sketch, which is then within the range of summands."""


def _shares(sums: int, sketch: int) -> tuple[float, float]:
    """Where a number of these takes so many bytes from one site, and one more in a total: (contribution, reply)."""
    most = sum(LAYOUT) * np.dtype(np.float64).itemsize
    sent = sums * LAYOUT[0] + sketch * LAYOUT[1]
    total = sent + LAYOUT[0] + (LAYOUT[1] if sketch else 0)
    return sent / most, total / most


AS_A_RULE = AsARule(part=_shares(5, 0), in_full=_shares(5, 3), again=AGAIN)
"""After some hundred examples numbers of G and Q travel in 5 bytes, and those of Y in 3."""


@functools.cache
def omega(dim: int) -> Matrix:
    """Orthonormal rows, the same at all sites and at all times; shape (k + 1, d), with 0 beyond min(k, d)."""
    k = min(SKETCHED, dim)
    found = np.zeros((LAYOUT[1], dim))
    found[:k] = np.linalg.qr(stream(0, "adadrom", dim).normal(size=(dim, k)))[0].T
    found.flags.writeable = False
    return found


def send(state: AdaState, t: int, *, whole: bool = False) -> tuple[AdaState, Contribution]:
    """All that the task has come to, where the reducer may have something else; idle without new examples.

    Args:
        whole: Whether everywhere and each time, as a listener may miss a word.
    """
    if not state.touched.any() and not (whole and state.mixture.evidence[0]):
        return state, IDLE
    everywhere: Any = slice(None)
    at = everywhere if whole else some_or_all(state.touched, LAYOUT[0])
    sums, dim = sums_of(state, at), len(state.touched)
    if whole or is_due(state):
        ever = state.table[ROOT + 1] > DELTA
        ever[-len(EXPERTS) :] = True
        old = everywhere if whole else some_or_all(ever, LAYOUT[1])
        sketch = block_of(old, sketch_of(state, old), dim)
    else:
        state.sending, sketch = state.sent, nothing(LAYOUT[1], dim)
    return state, Contribution(ContributionKind.VECTORS, (block_of(at, sums, dim), sketch))


def is_due(state: AdaState) -> bool:
    """Whether the sketch and the weights are to be told again: Y is long, and both change little in the end."""
    return AS_A_RULE.is_due(state.mixture.evidence[0], state.sketched)


def sums_of(state: AdaState, at: Any) -> Whole:
    """G_i and Q_i at these places, as it has come to them."""
    sums, clipped = to_integers(state.table[OWN][:, at], _BITS)
    state.clipped += clipped
    return sums


def sketch_of(state: AdaState, at: Any) -> Whole:
    """Y_i^T at these places, and the weights at its end, which are then on their way; shape (k + 1, len(at))."""
    found = _sketch(state, at)
    weights = [round(weight * 2.0**BITS_OF_WEIGHTS) for weight in state.mixture.weights]
    found.reshape(-1)[-len(weights) :] = weights
    state.sending, state.sketching = np.zeros_like(state.sent), state.mixture.evidence[0]
    state.sending[:, at] = found
    return found


def _sketch(state: AdaState, at: Any) -> Whole:
    """Y_i^T there, shape (k + 1, len(at)): n (Omega^T w) w^T after n examples, w at unit norm: exact F's, or L's."""
    w: Vector = state.ridge.vectors()[0] if isinstance(state.ridge, ExactRidge) else state.table[W].copy()
    square = float(w @ w)
    factor = min(state.mixture.evidence[0], MOST_EXAMPLES) / square * 2.0**BITS_OF_SKETCH if square > 0.0 else 0.0
    if not 0.0 < factor < math.inf:
        return np.zeros((LAYOUT[1], len(w[at])), dtype=np.int64)
    found: Whole = np.rint(np.multiply.outer(factor * (omega(len(w)) @ w), w[at])).astype(np.int64)
    return found


def receive(state: AdaState, reply: Reply, t: int) -> AdaState:
    """Take the totals, and what follows from them."""
    if reply.kind is not ReplyKind.VECTORS:
        return state
    if len(state.sending):  # it has come; without a reply all would be sent again
        state.touched[:] = False
        state.sent, state.sending = state.sending, state.sending[:0]
        state.sketched = state.sketching
    for total, news in zip(state.totals, reply.vectors, strict=True):
        put(total, news)
    (gradients, squares), sketch = state.totals
    gradient = gradients * 0.5**BITS_OF_G
    square = np.maximum(squares, 0) * 0.5**BITS_OF_Q + DELTA  # a site may say of squares what it likes
    state.table[SUM], state.table[ROOT], state.table[SHARED] = gradient, square, gradient / np.sqrt(square)
    if not numbers(reply.vectors[1]).size:
        return state
    state.mixture.prior = prior_of(_weights_in(state, sketch - state.sent))
    if state.tree is None:  # along a tree all is late
        state.kappa = math.sqrt(num_sites(state, sketch))
    _turn(state, (sketch - (1.0 - OWN_PART) * state.sent)[:SKETCHED])
    return state


def num_sites(state: AdaState, sketch: Whole) -> int:
    """How many have said something, by the weights in the total: each site's have the sum 1."""
    weights = sum(_weights_in(state, sketch))
    return int(min(max(1, round(weights / 2**BITS_OF_WEIGHTS)), MOST_SITES))


def _weights_in(state: AdaState, sketch: Whole) -> list[int]:
    """Those at its end, as integers."""
    found: list[int] = sketch.reshape(-1)[-len(state.mixture.weights) :].tolist()
    return found


def admits(summand: Sequence[Whole], t: int) -> bool:
    """Whether a site can have come to this in t rounds, by at most one example each.

    Then q >= 0 and g^2 <= t q, Y_i^T = Omega A_i with eigenvalues of A_i from 0 to t, and its weights have the sum 1;
    up to rounding, and unless q is cut.
    """
    (g, q), sketch = summand
    squares = (np.abs(g) * 0.5**BITS_OF_G - 0.5 ** (BITS_OF_G + 1)).clip(0.0) ** 2
    most = t * (q * 0.5**BITS_OF_Q + 0.5 ** (BITS_OF_Q + 1)) * (1.0 + 1e-9)
    num_experts = len(EXPERTS) if g.size <= MOST else WITHOUT_RIDGE
    rest, weights = np.split(sketch.reshape(-1).astype(np.float64), [-num_experts])
    k = min(SKETCHED, g.size)
    y, rounding = rest[: k * g.size].reshape(k, -1), 0.5 * math.sqrt(g.size)
    core = y @ omega(g.size)[:k].T
    norm = max(0.0, math.sqrt(rest @ rest) - math.sqrt(k) * rounding)
    return bool(
        (q >= 0).all()
        and ((squares <= most) | (q == MOST_OF_SUMMAND)).all()
        and (np.abs(core - core.T) <= 2.0 * rounding).all()
        and np.linalg.eigvalsh(core)[0] >= -k * rounding
        and norm**2 <= t * 2.0**BITS_OF_SKETCH * (core.trace() + k * rounding)  # |Omega A|^2 <= t tr(Omega A Omega^T)
        and norm <= t * 2.0**BITS_OF_SKETCH
        and (weights >= 0.0).all()
        and abs(weights.sum() * 0.5**BITS_OF_WEIGHTS - 1.0) < 1e-5
    )


def directions(sketch: Matrix) -> Matrix | None:
    """U^T, shape (`DIRECTIONS`, d), from Y^T = Omega A, shape (k, d) in steps of 2^-`BITS_OF_SKETCH`; None before there
    is anything.

    A = sum_i n_i w_i w_i^T is about F^T F with F = (Omega A Omega^T)^(-1/2) Omega A, and just that for up to k sites:
    the Nystroem approximation (Tropp, Yurtsever, Udell and Cevher 2017). With A's eigenvalues l_j and vectors u_j the
    rows of U^T are u_j l_j / l_1. Meanwhile a multiple of the identity is added to A, so that rounded sums leave it
    positive; what is negative then has no model, and is left out.
    """
    dim = sketch.shape[1]
    k, shift = min(SKETCHED, dim), ROUNDING * math.sqrt(dim)
    basis = omega(dim)[:k]
    shifted = sketch[:k] + shift * basis
    core = shifted @ basis.T
    values, vectors = np.linalg.eigh(0.5 * (core + core.T))
    root = vectors * np.where(values > 0.5 * shift, np.maximum(values, shift) ** -0.5, 0.0)
    squares, turn = np.linalg.eigh(root.T @ (shifted @ shifted.T) @ root)  # of F F^T, ascending
    squares, turn = squares[: -DIRECTIONS - 1 : -1], turn[:, : -DIRECTIONS - 1 : -1]
    eigenvalues = np.where(squares > 2.0 * shift, squares - shift, 0.0)  # less is rounding
    if not eigenvalues[0] > 0.0:
        return None
    factors = eigenvalues / eigenvalues[0] / np.sqrt(np.maximum(squares, shift))
    common = np.zeros((DIRECTIONS, dim))
    common[: len(eigenvalues)] = (root @ (turn * factors)).T @ shifted
    return common


def _turn(state: AdaState, sketch: Matrix) -> None:
    """Take the directions that the sites' models have in common from Y^T, shape (k, d), in steps of a summand; fit S,
    DS and R again in these."""
    sketch[len(state.touched) :] = 0.0  # where the weights may stand
    common = directions(sketch)
    if common is None:
        return
    state.table[COMMON] = common
    if not state.past:
        return
    rows = _coordinates(state.past, common)
    seen = np.concatenate((rows, state.targets[: len(rows)]), axis=1)
    ages = (int(state.mixture.evidence[0]) - 1 - np.arange(len(rows))) % KEPT
    for fit, counted in zip(state.common, (rows.T, rows.T * FORGOTTEN**ages), strict=True):
        np.dot(counted, seen, out=fit)
        fit[:, COMMON] = with_ridge(fit[:, COMMON], RIDGE)


def _coordinates(examples: Sequence[Features], common: Matrix) -> Matrix:
    """U^T x of each example, shape (n, r); common is U^T."""
    n, dim = len(examples), common.shape[1]
    if not isinstance(examples[0], SparseVector):
        some = max(1, 2**16 // dim)  # what caches hold
        parts = [np.concatenate(examples[k : k + some]).reshape(-1, dim) @ common.T for k in range(0, n, some)]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]
    places, values = map(np.concatenate, zip(*examples, strict=True))
    lengths = np.array([x.values.size for x in examples if isinstance(x, SparseVector)])
    there, found = lengths > 0, np.zeros((n, DIRECTIONS))
    if there.any():
        moved = common.take(places, 1)
        moved *= values
        found[there] = np.add.reduceat(moved, (np.cumsum(lengths) - lengths)[there], axis=1).T
    return found
