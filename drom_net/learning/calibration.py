"""Probabilities that mean what they say: a learner's log odds, stretched and moved as its task's labels ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from drom_net.algorithms.base import sigmoid

SLOPE, VARIANCE_OF_SLOPE, VARIANCE_OF_INTERCEPT = 0.7, 0.1, 0.3
"""What is believed before the first label: the slope and how far it, and the intercept around 0, may be from that."""
_MOST = 30.0
"""No log odds are larger."""


class Calibration:
    """p = 1 / (1 + exp(-(a z + b))) of a learner's log odds z, with a and b learned from one label at a time.

    Logistic regression by the extended Kalman filter: a step of Newton's method for each example, from a normal prior
    (Platt 1999, Probabilistic outputs for support vector machines, of which this is the online form).
    """

    __slots__ = ("_log_odds", "_state")

    def __init__(self, log_odds: Callable[[float], float] | None, state: Iterable[float] = ()) -> None:
        """
        Args:
            log_odds: As `Algorithm.log_odds`; where it is None scores are log odds, which are taken as they are.
            state: As `state` of another one; without it nothing was seen.
        """
        self._log_odds = log_odds
        self._state = tuple(state) or (SLOPE, 0.0, VARIANCE_OF_SLOPE, 0.0, VARIANCE_OF_INTERCEPT)

    @property
    def state(self) -> tuple[float, ...]:
        """(a, b, the variance of a, their covariance, the variance of b)."""
        return self._state

    def probability(self, score: float) -> float:
        """Of +1."""
        return sigmoid(score) if self._log_odds is None else self._of(self._log_odds(score))

    def given(self, truth: float, score: float, label: float) -> float:
        """What probability was given to what was true of an example; then its label is learned.

        Args:
            truth: -1.0 or +1.0.
            label: As the learner saw it.
        """
        if self._log_odds is None:
            return sigmoid(truth * score)
        z = self._log_odds(score)
        p = self._of(z)
        self._learn(z, p, positive=label > 0.0)
        return p if truth > 0.0 else 1.0 - p

    def _of(self, z: float) -> float:
        a, b, *_ = self._state
        z = min(_MOST, max(-_MOST, z))
        return sigmoid(min(_MOST, max(-_MOST, a * z + b)))

    def _learn(self, z: float, p: float, *, positive: bool) -> None:
        a, b, of_a, of_both, of_b = self._state
        z = min(_MOST, max(-_MOST, z))
        curvature = max(p * (1.0 - p), 1e-6)
        to_a, to_b = of_a * z + of_both, of_both * z + of_b
        spread = 1.0 + curvature * (z * to_a + to_b)
        wrong, share = (positive - p) / spread, curvature / spread
        self._state = (
            a + wrong * to_a,
            b + wrong * to_b,
            of_a - share * to_a * to_a,
            of_both - share * to_a * to_b,
            of_b - share * to_b * to_b,
        )


def probabilities_of(
    truth: Iterable[float],
    scores: Iterable[float],
    labels: Iterable[float],
    log_odds: Callable[[float], float] | None,
) -> list[float]:
    """What probability one task gave to what was true of each of its examples, before it saw the label.

    Args:
        truth: -1.0 or +1.0.
        scores: In order.
        labels: As the learner saw them, -1.0 or +1.0.
        log_odds: As `Algorithm.log_odds`.
    """
    calibration = Calibration(log_odds)
    return [calibration.given(*example) for example in zip(truth, scores, labels, strict=True)]


def probability_of(
    score: float, log_odds: Callable[[float], float] | None, calibration: Iterable[float] | None
) -> float:
    """The same of one score by a model.

    Args:
        calibration: The model's a and b; None where it has none.
    """
    if log_odds is None or calibration is None:
        return sigmoid(score if log_odds is None else log_odds(score))
    return Calibration(log_odds, (*calibration, 0.0, 0.0, 0.0)).probability(score)
