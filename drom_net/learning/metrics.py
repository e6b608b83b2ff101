"""What is counted of a task while it learns, and the figures that are made of the counts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt

LEAST_PROBABILITY = float(np.finfo(np.float64).eps)
"""A label counts as at least this probable in a log loss, as in scikit-learn: no prediction costs more than 36.05."""


@dataclass(slots=True)
class Totals:
    """One task's counts. Predictions are made before learning; +1 is the positive class.

    Errors, hits, misses and log loss are counted against the clean label; `seen_errors` against the label that
    the learner saw, which differs only under label noise.
    """

    examples: int = 0
    errors: int = 0
    true_positives: int = 0
    false_positives: int = 0
    false_negatives: int = 0
    seen_errors: int = 0
    outliers: int = 0
    """Examples of weight 0: nothing was learned from them."""
    pushes: int = 0
    """Sync rounds in which vectors were sent."""
    corrections: int = 0
    """Sync rounds in which vectors came back."""
    unlabelled: int = 0
    """Examples without a label: predicted, not learned, and not among `examples`."""
    seen_positives: int = 0
    """Examples whose label was +1 as the learner saw it."""
    majority_errors: int = 0
    """Errors of one who always gives the label that this task has seen more often before; +1 where both are equal."""
    log_loss_sum: float = 0.0
    """-ln p(label) over all predictions, in nats."""

    def count(self, score: float, clean: float, seen: float, gamma: float, p: float) -> None:
        """Count one prediction; sign(0) is +1.

        Args:
            p: What probability the prediction gave to the clean label.
        """
        if (2 * self.seen_positives >= self.examples) != (clean > 0.0):
            self.majority_errors += 1
        if seen > 0.0:
            self.seen_positives += 1
        self.log_loss_sum -= math.log(max(p, LEAST_PROBABILITY))
        self.examples += 1
        if score >= 0.0:
            if clean > 0.0:
                self.true_positives += 1
            else:
                self.false_positives += 1
                self.errors += 1
            if seen < 0.0:
                self.seen_errors += 1
        else:
            if clean > 0.0:
                self.false_negatives += 1
                self.errors += 1
            if seen > 0.0:
                self.seen_errors += 1
        if gamma == 0.0:
            self.outliers += 1

    @property
    def error_rate(self) -> float | None:
        """Errors per prediction, in [0, 1]; None before the first."""
        return self.errors / self.examples if self.examples else None

    @property
    def seen_error_rate(self) -> float | None:
        return self.seen_errors / self.examples if self.examples else None

    @property
    def majority_error_rate(self) -> float | None:
        return self.majority_errors / self.examples if self.examples else None

    @property
    def log_loss(self) -> float | None:
        """The mean over the predictions, in nats."""
        return self.log_loss_sum / self.examples if self.examples else None

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall; None with no positive label and no positive prediction."""
        relevant = 2 * self.true_positives + self.false_positives + self.false_negatives
        return 2 * self.true_positives / relevant if relevant else None

    def rates(self) -> dict[str, float | None]:
        """The figures above, by their keys in files."""
        return {
            "error_rate": self.error_rate,
            "majority_error_rate": self.majority_error_rate,
            "f1": self.f1,
            "log_loss": self.log_loss,
            "error_rate_seen": self.seen_error_rate,
        }

    def to_list(self) -> list[int | float]:
        return list(astuple(self))


def total(parts: Iterable[Totals]) -> Totals:
    """The sum over tasks, for the micro figures."""
    columns = zip(*(part.to_list() for part in parts), strict=True)
    return Totals(*(sum(column) for column in columns))


def macro(values: Iterable[float | None]) -> tuple[float | None, int]:
    """The mean over the tasks that have the figure, and how many those are."""
    known = [value for value in values if value is not None]
    return (sum(known) / len(known) if known else None), len(known)


def majority_wrong(seen: npt.NDArray[np.float64], labels: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Where one is wrong who always gives the label seen more often before, as `Totals.majority_errors`; shape (n,).

    Args:
        seen: The labels of one task as the learner saw them, -1.0 or +1.0, in order.
        labels: What counts, as many.
    """
    positive = seen > 0.0
    before: npt.NDArray[np.int64] = np.cumsum(positive) - positive
    wrong: npt.NDArray[np.bool_] = (2 * before >= np.arange(len(seen))) != (labels > 0.0)
    return wrong


def auc(scores: npt.NDArray[np.float64], labels: npt.NDArray[np.float64]) -> float | None:
    """The probability that a positive example has the higher score, ties counting one half; None with one class only.

    Args:
        labels: -1.0 or +1.0, as many as scores.
    """
    is_positive = labels > 0.0
    positive, negative = np.sort(scores[is_positive]), np.sort(scores[~is_positive])
    pairs = len(positive) * len(negative)
    if not pairs:
        return None
    below, up_to = (int(np.searchsorted(negative, positive, side).sum()) for side in ("left", "right"))
    return (below + up_to) / (2 * pairs)
