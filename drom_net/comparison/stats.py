"""Means over orders, and paired differences with Student's interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """What several orders gave."""

    mean: float
    deviation: float | None
    """With n - 1; None for a single value."""


def spread_of(values: Sequence[float | None]) -> Spread | None:
    """Mean and standard deviation; None where a value is missing, or there is none."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return Spread(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None)


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean of paired differences and its confidence interval; the interval is None for a single pair."""

    mean: float
    low: float | None
    high: float | None


def paired_difference(
    ours: Sequence[float | None], theirs: Sequence[float | None], *, confidence: float = 0.95
) -> Difference | None:
    """The mean of ours - theirs, with Student's interval over the pairs; None where a value is missing."""
    found = spread_of([a - b if a is not None and b is not None else None for a, b in zip(ours, theirs, strict=True)])
    if found is None or found.deviation is None:
        return None if found is None else Difference(found.mean, None, None)
    half = t_quantile(0.5 + confidence / 2.0, len(ours) - 1) * found.deviation / math.sqrt(len(ours))
    return Difference(found.mean, found.mean - half, found.mean + half)


def t_quantile(probability: float, freedom: int) -> float:
    """Where Student's distribution reaches this probability, 0.5 <= probability < 1; by bisection."""
    low, high = 0.0, 1.0
    while _t_within(high, freedom) < 2.0 * probability - 1.0:
        low, high = high, 2.0 * high
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _t_within(middle, freedom) < 2.0 * probability - 1.0 else (low, middle)
    return high


def _t_within(t: float, freedom: int) -> float:
    """The probability of [-t, t] (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    theta = math.atan2(t, math.sqrt(freedom))
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * k / (k + 1)
    return 2.0 / math.pi * (theta + sine * total) if odd else sine * total
