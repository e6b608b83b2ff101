"""Counts, error rates and F1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drom_net.metrics import Totals, macro, total

PREDICTIONS = st.lists(
    st.tuples(st.sampled_from([-1.5, -0.0, 0.0, 2.0]), st.sampled_from([-1.0, 1.0]), st.sampled_from([-1.0, 1.0]))
)


def counted(predictions: list[tuple[float, float, float]]) -> Totals:
    totals = Totals()
    for score, clean, seen in predictions:
        totals.count(score, clean, seen, 1.0)
    return totals


@pytest.mark.parametrize(
    ("score", "clean", "seen", "expected"),
    [
        (1.0, 1.0, 1.0, Totals(examples=1, true_positives=1)),
        (1.0, -1.0, -1.0, Totals(examples=1, errors=1, false_positives=1, seen_errors=1)),
        (-1.0, 1.0, 1.0, Totals(examples=1, errors=1, false_negatives=1, seen_errors=1)),
        (-1.0, -1.0, -1.0, Totals(examples=1)),
        (1.0, 1.0, -1.0, Totals(examples=1, true_positives=1, seen_errors=1)),
        (-1.0, 1.0, -1.0, Totals(examples=1, errors=1, false_negatives=1)),
    ],
)
def test_a_prediction_is_counted_against_both_labels(score: float, clean: float, seen: float, expected: Totals) -> None:
    assert counted([(score, clean, seen)]) == expected


@pytest.mark.parametrize("score", [0.0, -0.0])
def test_a_score_of_zero_predicts_plus_one(score: float) -> None:
    """Section 1: "sign(0) = +1"."""
    assert counted([(score, 1.0, 1.0)]).errors == 0
    assert counted([(score, -1.0, -1.0)]).errors == 1


def test_an_example_of_weight_zero_is_an_outlier() -> None:
    totals = Totals()
    for gamma in (0.0, 5e-324, 1.0):
        totals.count(1.0, 1.0, 1.0, gamma)
    assert totals.outliers == 1


@given(PREDICTIONS)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(predictions: list[tuple[float, float, float]]) -> None:
    """The paper, measurement 2; decisions.md: null with no positive label and no positive prediction."""
    totals = counted(predictions)
    predicted = np.array([score >= 0.0 for score, _, _ in predictions], dtype=bool)
    positive = np.array([clean > 0.0 for _, clean, _ in predictions], dtype=bool)
    hits = int(np.sum(predicted & positive))
    assert totals.examples == len(predictions)
    assert totals.errors == int(np.sum(predicted != positive)) == totals.false_positives + totals.false_negatives
    if not (predicted.any() or positive.any()):
        assert totals.f1 is None
    elif not hits:
        assert totals.f1 == 0.0
    else:
        precision, recall = hits / predicted.sum(), hits / positive.sum()
        assert totals.f1 == pytest.approx(2.0 * precision * recall / (precision + recall))


def test_before_the_first_prediction_there_are_no_figures() -> None:
    assert (Totals().error_rate, Totals().seen_error_rate, Totals().f1) == (None, None, None)


def test_rates_are_fractions_of_the_predictions() -> None:
    totals = counted([(1.0, 1.0, -1.0), (1.0, -1.0, -1.0), (-1.0, -1.0, -1.0), (-1.0, -1.0, 1.0)])
    assert (totals.error_rate, totals.seen_error_rate) == (0.25, 0.75)


@given(st.lists(PREDICTIONS, min_size=1, max_size=5))
def test_the_total_is_as_if_one_task_had_had_all(parts: list[list[tuple[float, float, float]]]) -> None:
    """Section 6: micro figures are of the sums of counts over all tasks."""
    together = counted([prediction for part in parts for prediction in part])
    assert total(counted(part) for part in parts) == together


def test_counts_survive_as_a_list() -> None:
    totals = Totals(*range(1, 11))
    assert Totals(*totals.to_list()) == totals
    assert totals.to_list() == list(range(1, 11))


def test_the_macro_mean_leaves_out_who_has_no_figure_and_says_how_many_have_one() -> None:
    """decisions.md: "the macro mean takes the others and says how many"."""
    assert macro([0.5, None, 1.0]) == (0.75, 2)
    assert macro([None, None]) == (None, 0)
    assert macro([0.0]) == (0.0, 1)
