"""Singular values of the stacked vectors: the leading triple, by power iteration or exactly, and shrinking them all."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from drom_net.algorithms.features import Matrix, Vector

_SQUARE_LOW, _SQUARE_HIGH = 1e-280, 1e280
"""Outside of these a sum of squares may have lost its digits; then lengths are taken of scaled vectors."""


class SingularPair(NamedTuple):
    """A ~ sigma v u^T in the rows-are-tasks layout (the paper's u v^T, transposed)."""

    sigma: float
    """>= 0."""
    u: Vector
    """Over the features, shape (d,), unit length; zeros where A is zero."""
    v: Vector
    """Over the tasks, shape (m,), unit length; the largest |v_i| (lowest index) is positive."""
    residual: float
    """|A^T v - sigma u| (A u = sigma v holds by construction, or the other way round for the Gram route)."""


SOLVERS = ("power", "gram")


def leading_pair(A: Matrix, v: Vector, *, solver: str, iterations: int) -> SingularPair:
    """The largest singular value of A and its vectors, by one of `SOLVERS`; arguments as for either."""
    if solver == "power":
        return leading_pair_by_power(A, v, iterations=iterations)
    return leading_pair_by_gram(A, v)


def random_start(num_tasks: int, rng: np.random.Generator) -> Vector:
    """Where the power iteration starts in the first round: unit length, shape (m,)."""
    v = rng.standard_normal(num_tasks)
    v /= math.sqrt(float(np.dot(v, v)))
    return v


@np.errstate(over="ignore")  # a square that overflows is found, and taken again of scaled numbers
def leading_pair_by_power(A: Matrix, v: Vector, *, iterations: int) -> SingularPair:
    """The largest singular value of A and its vectors, by a fixed number of power iterations.

    Args:
        A: Dual vectors in task order, a row a task, shape (m, d), C order.
        v: Where to start, unit length, shape (m,): the last round's v. It is not written to.
        iterations: How many times A and A^T are applied, each O(dm).

    Returns:
        The pair. An all-zero A gives sigma = 0, u = 0 and the v that came in.
    """
    start = v
    for _ in range(iterations):
        u = v @ A
        length = _length(u)
        if length == 0.0:  # v is orthogonal to all of A, or A is zero: start from its longest row
            longest = int(np.argmax([_length(row) for row in A]))
            u = A[longest].copy()
            length = _length(u)
            if length == 0.0:
                return SingularPair(0.0, np.zeros(A.shape[1]), start, 0.0)
        u /= length
        v = A @ u
        sigma = _length(v)
        if sigma == 0.0:
            return SingularPair(0.0, np.zeros(A.shape[1]), start, 0.0)
        v /= sigma
    back = v @ A
    back -= sigma * u
    return _with_sign(SingularPair(sigma, u, v, _length(back)))


@np.errstate(over="ignore")
def leading_pair_by_gram(A: Matrix, v: Vector) -> SingularPair:
    """The same, exactly, from the eigenvectors of A A^T: O(d m^2), whatever the gap.

    Args:
        A: As for `leading_pair_by_power`.
        v: What to return as v where A is zero.
    """
    largest = max(float(A.max()), -float(A.min()))
    scaled = A if largest == 0.0 or _SQUARE_LOW < largest * largest < _SQUARE_HIGH else A / largest
    _, vectors = np.linalg.eigh(scaled @ scaled.T)
    leading = np.ascontiguousarray(vectors[:, -1])
    u = leading @ A
    sigma = _length(u)
    if sigma == 0.0:
        return SingularPair(0.0, np.zeros(A.shape[1]), v, 0.0)
    u /= sigma
    return _with_sign(SingularPair(sigma, u, leading, _length(A @ u - sigma * leading)))


def shrink(A: Matrix, c: float) -> tuple[Matrix, SingularPair]:
    """Every singular value of A lowered by c, to 0 at the least: the proximal step of c times the nuclear norm.

    By the eigenvectors of the smaller Gram matrix, O(m d min(m, d)): a singular value s is good to about
    1e-16 sigma_1^2 / s. U max(S - c, 0) V^T.

    Args:
        A: Shape (m, d). It is not written to.
        c: >= 0.

    Returns:
        The new matrix, and the leading triple of A.
    """
    wide = A.shape[0] <= A.shape[1]
    squares, vectors = np.linalg.eigh(A @ A.T if wide else A.T @ A)
    values = np.sqrt(np.maximum(squares, 0.0))
    factors = np.divide(np.maximum(values - c, 0.0), values, out=np.zeros_like(values), where=values > 0.0)
    if wide:
        shrunk = (vectors * factors) @ (vectors.T @ A)
        v = vectors[:, -1]
    else:
        shrunk = ((A @ vectors) * factors) @ vectors.T
        v = A @ vectors[:, -1]
        v /= _length(v) or 1.0
    u = v @ A
    sigma = _length(u)
    if sigma == 0.0:
        return np.zeros_like(A), SingularPair(0.0, u, np.zeros(A.shape[0]), 0.0)
    u /= sigma
    return shrunk, _with_sign(SingularPair(sigma, u, np.ascontiguousarray(v), _length(A @ u - sigma * v)))


def _length(x: Vector) -> float:
    square = float(np.dot(x, x))
    if _SQUARE_LOW < square < _SQUARE_HIGH:
        return math.sqrt(square)
    largest = float(np.max(np.abs(x)))
    if largest == 0.0:
        return 0.0
    x = x / largest
    return largest * math.sqrt(float(np.dot(x, x)))


def _with_sign(pair: SingularPair) -> SingularPair:
    if pair.v[int(np.argmax(np.abs(pair.v)))] < 0.0:
        return pair._replace(u=-pair.u, v=-pair.v)
    return pair
