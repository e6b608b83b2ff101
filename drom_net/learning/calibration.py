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

    __slots__ = ("_state",)

    def __init__(self, state: Iterable[float] = ()) -> None:
        """
        Args:
            state: As `state` of another one; without it nothing was seen.
        """
        self._state = tuple(state) or (SLOPE, 0.0, VARIANCE_OF_SLOPE, 0.0, VARIANCE_OF_INTERCEPT)

    @property
    def state(self) -> tuple[float, ...]:
        """(a, b, the variance of a, their covariance, the variance of b)."""
        return self._state

    def probability(self, z: float) -> float:
        """Of +1."""
        a, b, *_ = self._state
        z = min(_MOST, max(-_MOST, z))
        return sigmoid(min(_MOST, max(-_MOST, a * z + b)))

    def learn(self, z: float, *, positive: bool) -> None:
        """Take the label of an example."""
        a, b, of_a, of_both, of_b = self._state
        p = self.probability(z)
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
    if log_odds is None:
        return [sigmoid(true * score) for true, score in zip(truth, scores, strict=True)]
    calibration, found = Calibration(), []
    for true, score, label in zip(truth, scores, labels, strict=True):
        z = log_odds(score)
        p = calibration.probability(z)
        found.append(p if true > 0.0 else 1.0 - p)
        calibration.learn(z, positive=label > 0.0)
    return found


def probability_of(
    score: float, log_odds: Callable[[float], float] | None, calibration: Iterable[float] | None
) -> float:
    """The same of one score by a model.

    Args:
        calibration: The model's a and b; None where it has none.
    """
    if log_odds is None or calibration is None:
        return sigmoid(score if log_odds is None else log_odds(score))
    return Calibration((*calibration, 0.0, 0.0, 0.0)).probability(log_odds(score))
