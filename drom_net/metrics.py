"""What is counted of a task while it learns, and the figures that are made of the counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass


@dataclass(slots=True)
class Totals:
    """One task's counts. Predictions are made before learning; +1 is the positive class.

    Errors, hits and misses are counted against the clean label; `seen_errors` against the label that the
    learner saw, which differs only under label noise.
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

    def count(self, score: float, clean: float, seen: float, gamma: float) -> None:
        """Count one prediction; sign(0) is +1."""
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
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall; None with no positive label and no positive prediction."""
        relevant = 2 * self.true_positives + self.false_positives + self.false_negatives
        return 2 * self.true_positives / relevant if relevant else None

    def to_list(self) -> list[int]:
        return list(astuple(self))


def total(parts: Iterable[Totals]) -> Totals:
    """The sum over tasks, for the micro figures."""
    columns = zip(*(part.to_list() for part in parts), strict=True)
    return Totals(*(sum(column) for column in columns))


def macro(values: Iterable[float | None]) -> tuple[float | None, int]:
    """The mean over the tasks that have the figure, and how many those are."""
    known = [value for value in values if value is not None]
    return (sum(known) / len(known) if known else None), len(known)
