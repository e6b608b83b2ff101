"""Whether sharing helps: what can be said at any time of a mean difference that is seen bit by bit (pure).

The differences are those of a mixture to one of its experts that learn alone: of log loss, and of errors. Before a
label is known such a difference can have two values only, and how far they are apart is known. So by Hoeffding's lemma
exp(l S - l^2 V / 2) is a supermartingale for any l, S being the sum of the differences less what was to be expected of
them, and V that of the squares of half the ranges: whatever the examples are, and however they depend on each other.
That is why V is counted, and not squares of differences: an empirical Bernstein sequence (Howard et al., Theorem 4)
pays for the largest difference that there could ever be, ln 9, and is three times as wide after some hundred examples.
"""

from __future__ import annotations

import math
from typing import Literal, TypeVar

import numpy as np

from drom_net.algorithms.features import Vector

Effect = Literal["helps", "hurts", "cannot tell yet"]
Measure = Literal["errors", "log loss"]
LEVEL = 0.05
"""How probable it may be that anything false is ever said of any of a run's tasks, or of all together."""
CODES: dict[str, int] = {"helps": 1, "cannot tell yet": 0, "hurts": -1}
"""An effect as a number, of the metric drom_net_sharing_effect and in history.jsonl."""
SO_FAR = "A verdict is of the examples so far: it is withdrawn where later ones gain too little to bear it out."
"""Why what `effect` says of a run that goes on need not stay."""
HORIZON = 100
"""What would take so many times the examples that there are is not forecast."""

_Numbers = TypeVar("_Numbers", float, Vector)


def levels(num_tasks: int) -> tuple[float | None, float | None]:
    """(of each task, of all together): how probable an error may be; None where there is nobody to share with."""
    return (LEVEL / num_tasks, LEVEL) if num_tasks > 1 else (None, None)


def boundary(variance: _Numbers, level: float) -> _Numbers:
    """What a sum of deviations ever exceeds, up or down, with at most this probability.

    The two-sided normal mixture (Robbins 1970; Howard, Ramdas, McAuliffe and Sekhon, Time-uniform, nonparametric,
    nonasymptotic confidence sequences, Annals of Statistics 49, 2021): over a standard normal l the mean of the
    supermartingale is exp(S^2 / (2 V + 2)) / sqrt(V + 1), which by Ville's inequality ever comes to 1/level with at
    most this probability. It is made to be narrow where V is about 10.

    Args:
        variance: V at any time.
    """
    found: _Numbers = np.sqrt((variance + 1.0) * (np.log(variance + 1.0) - 2.0 * math.log(level)))
    return found


def interval(examples: int, total: float, variance: float, level: float, most: float) -> tuple[float, float]:
    """Where the mean of the expected differences is, at all times at once but for this probability.

    Args:
        examples: At least one.
        total: The sum of the differences, none of which is beyond +-most.
    """
    reach = float(boundary(variance, level))
    return max(-most, (total - reach) / examples), min(most, (total + reach) / examples)


def missing(examples: int, total: float, variance: float, level: float) -> int | None:
    """How many more examples until the interval leaves 0 out, if differences and ranges stay as they are in the mean.

    None where that would be a forecast too far.
    """

    def decided(times: float) -> bool:
        return abs(total) * times > float(boundary(variance * times, level))

    if decided(1.0):
        return 0
    low, high = 1.0, 2.0
    while not decided(high):
        low, high = high, 2.0 * high
        if low > HORIZON:
            return None
    while (high - low) * examples > 0.5:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if decided(middle) else (middle, high)
    return math.ceil((high - 1.0) * examples)


def effect(*intervals: tuple[float, float]) -> Effect:
    """What intervals of gains say; of two that contradict each other the first counts."""
    for low, high in intervals:
        if low > 0.0 or high < 0.0:
            return "helps" if low > 0.0 else "hurts"
    return "cannot tell yet"


def told_by(found: str, of_errors: tuple[float, float]) -> Measure | None:
    """By what the effect was told: by errors where their interval says it as well, else by log loss alone; None where
    it cannot be told."""
    if found == "cannot tell yet":
        return None
    return "errors" if effect(of_errors) == found else "log loss"
