"""The losses of the margin z = y <w, x>, and the capped L_p weight of an example."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from decimal import Context, Decimal
from typing import NamedTuple

FLOAT_MAX = sys.float_info.max


class Loss(NamedTuple):
    """A convex loss f of the margin and its derivative df/dz."""

    value: Callable[[float], float]
    slope: Callable[[float], float]


def hinge(z: float) -> float:
    """max(0, 1 - z)."""
    return max(0.0, 1.0 - z)


def hinge_slope(z: float) -> float:
    """-1 where z < 1, else 0 (also at z = 1)."""
    return -1.0 if z < 1.0 else 0.0


def squared_hinge(z: float) -> float:
    """max(0, 1 - z)^2."""
    gap = max(0.0, 1.0 - z)
    return gap * gap


def squared_hinge_slope(z: float) -> float:
    """-2 max(0, 1 - z)."""
    return -2.0 * max(0.0, 1.0 - z)


def logistic(z: float) -> float:
    """log(1 + e^-z), without overflow for any z."""
    return math.log1p(math.exp(-abs(z))) + max(0.0, -z)


def logistic_slope(z: float) -> float:
    """-1 / (1 + e^z), computed from e^-|z| so that neither tail overflows."""
    e = math.exp(-abs(z))
    return -e / (1.0 + e) if z >= 0.0 else -1.0 / (1.0 + e)


LOSSES: dict[str, Loss] = {
    "hinge": Loss(hinge, hinge_slope),
    "squared_hinge": Loss(squared_hinge, squared_hinge_slope),
    "logistic": Loss(logistic, logistic_slope),
}


def loss_limit(p: float, xi: float) -> float:
    """xi^(1/p): the loss above which an example is an outlier (f^p > xi), computed once.

    In decimal arithmetic, so that it is the float nearest to the true value: 8^(1/0.75) is 16, but `pow` gives
    15.999999999999998 and would discard f = 16, whose f^p is exactly xi.
    """
    if math.isinf(xi):
        return math.inf
    exact = Context(prec=50, traps=[])  # no traps: what overflows is infinite
    return float(exact.power(Decimal(xi), exact.divide(1, Decimal(p))))


def capped_weight(f: float, *, p: float, limit: float, kappa: float) -> float:
    """gamma, the supergradient of min(f^p, xi) at the loss f (capped L_p weight, Lemma 1).

    Args:
        f: The loss, >= 0.
        p: The exponent, 0 < p <= 1.
        limit: `loss_limit(p, xi)`. f = limit is kept, f > limit is an outlier.
        kappa: The bound the paper assumes of gamma; the weight is cut there.

    Returns:
        0.0 for an outlier, else min(p f^(p-1), kappa), which is positive and finite also at f = 0.
    """
    if f > limit:
        return 0.0
    if f == 0.0:
        return min(1.0 if p == 1.0 else FLOAT_MAX, kappa)
    try:
        return min(p * math.pow(f, p - 1.0), kappa, FLOAT_MAX)
    except OverflowError:
        return min(kappa, FLOAT_MAX)
