"""Probabilities that mean what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import random_streams
from hypothesis import given
from hypothesis import strategies as st

from drom_net.algorithms.adadrom.learner import adadrom
from drom_net.algorithms.adadrom.mixing import SCALE, log_odds
from drom_net.algorithms.local import local
from drom_net.data.stream import TaskStream
from drom_net.learning.calibration import (
    SLOPE,
    VARIANCE_OF_INTERCEPT,
    VARIANCE_OF_SLOPE,
    Calibration,
    probabilities_of,
    probability_of,
)
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import run_reference
from drom_net.learning.task import CALIBRATION, TaskLearner


def as_it_is(score: float) -> float:
    return score


def test_it_is_one_step_of_newton_s_method_a_label() -> None:
    """By whole matrices: the precision grows by the curvature, the mean moves against the gradient."""
    rng = np.random.default_rng(1)
    made, mean = Calibration(as_it_is), np.array([SLOPE, 0.0])
    precision = np.diag([1.0 / VARIANCE_OF_SLOPE, 1.0 / VARIANCE_OF_INTERCEPT])
    for z in rng.normal(size=200):
        phi, positive = np.array([z, 1.0]), bool(rng.random() < 0.3)
        p = 1.0 / (1.0 + math.exp(-phi @ mean))
        assert made.probability(z) == pytest.approx(p, rel=1e-9)
        precision += p * (1.0 - p) * np.outer(phi, phi)
        mean += np.linalg.solve(precision, phi) * (positive - p)
        assert made.given(1.0, z, 1.0 if positive else -1.0) == pytest.approx(p, rel=1e-9)
    np.testing.assert_allclose(made.state[:2], mean, rtol=1e-8)
    np.testing.assert_allclose([made.state[2], made.state[4]], np.diag(np.linalg.inv(precision)), rtol=1e-8)


@given(st.lists(st.tuples(st.floats(-1e300, 1e300), st.booleans()), max_size=60))
def test_it_stays_a_probability_whatever_comes(examples: list[tuple[float, bool]]) -> None:
    made = Calibration(as_it_is)
    for z, positive in examples:
        assert 0.0 <= made.probability(z) <= 1.0
        made.given(1.0, z, 1.0 if positive else -1.0)
    assert all(map(math.isfinite, made.state))


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.01, 0.03, 0.08])
def test_where_labels_are_rare_they_are_given_little(share: float) -> None:
    """Calibration error at most 2 %, log loss at most that of the share of labels so far; raw it is up to 9 %."""
    rng = np.random.default_rng(2)
    streams = []
    for _ in range(8):
        labels = np.where(rng.random(1500) < share, 1.0, -1.0)
        rows = rng.normal(size=(1500, 12)) / 4.0
        rows[:, 11] = 0.5
        streams.append(TaskStream(rows, labels, labels))
    result = run_reference(adadrom(), streams, seed=0)
    given, wanted, raw, base = [], [], [], []
    for rows in result.task_records:
        records = np.frombuffer(rows, TASK_DTYPE)
        ones, scores, labels = ([1.0] * len(records), *(records[name].tolist() for name in ("score", "label")))
        given += probabilities_of(ones, scores, labels, log_odds)
        positive = records["label"] > 0.0
        wanted += positive.tolist()
        raw += (0.5 + records["score"]).tolist()
        base += ((np.cumsum(positive) - positive + 0.5) / (np.arange(1500) + 1.0)).tolist()
    p, y = np.array(given), np.array(wanted)

    def loss(of: np.ndarray) -> float:
        return float(-np.log(np.where(y, of, 1.0 - of)).mean())

    assert calibration_error(p, y) < 0.02
    assert loss(p) <= 1.02 * loss(np.array(base))
    assert loss(p) < loss(np.array(raw))
    assert calibration_error(np.array(raw), y) > 0.03
    assert sum(task.totals.log_loss_sum for task in result.tasks) == pytest.approx(len(y) * loss(p), rel=1e-9)


def calibration_error(p: np.ndarray, y: np.ndarray) -> float:
    """Over ten groups of as many examples each, by p."""
    groups = np.array_split(np.argsort(p), 10)
    return float(sum(len(group) * abs(p[group].mean() - y[group].mean()) for group in groups) / len(p))


def test_a_model_says_what_its_site_says() -> None:
    (stream,) = random_streams([80], flip=0.1)
    learner = TaskLearner(adadrom(), stream, rounds=None)
    for t in range(1, 81):
        learner.begin(t)
        learner.end(t)
    model = learner.result().model
    assert learner.probability(0.2) == probability_of(0.2, log_odds, model[CALIBRATION]) != 0.7
    assert learner.probability(0.2) > learner.probability(0.1)
    again = TaskLearner(adadrom(), stream, rounds=None)
    again.restore(learner.snapshot())
    assert again.probability(0.2) == learner.probability(0.2)
    assert CALIBRATION not in run_reference(local(), [stream], seed=0).tasks[0].model


def test_log_odds_are_those_of_p_without_its_floor() -> None:
    for z in (-4.0, -0.3, 0.0, 2.0):
        assert log_odds(SCALE * math.tanh(0.5 * z)) == pytest.approx(z, abs=0.1)
        assert log_odds(-0.1 * z) == pytest.approx(-log_odds(0.1 * z), rel=1e-12)
    assert math.isfinite(log_odds(SCALE)) and math.isfinite(log_odds(-SCALE))
    assert probability_of(0.3, None, None) == 1.0 / (1.0 + math.exp(-0.3))
