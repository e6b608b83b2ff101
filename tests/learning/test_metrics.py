"""Counts, error rates, F1, the majority, log loss and AUC."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drom_net.algorithms.base import sigmoid
from drom_net.learning.metrics import Totals, auc, macro, majority_wrong, total

PREDICTIONS = st.lists(
    st.tuples(st.sampled_from([-1.5, -0.0, 0.0, 2.0]), st.sampled_from([-1.0, 1.0]), st.sampled_from([-1.0, 1.0]))
)


def counted(predictions: list[tuple[float, float, float]]) -> Totals:
    totals = Totals()
    for score, clean, seen in predictions:
        totals.count(score, clean, seen, 1.0, sigmoid(clean * score))
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
    found = counted([(score, clean, seen)])
    assert found.to_list()[:7] == expected.to_list()[:7]


@pytest.mark.parametrize("score", [0.0, -0.0])
def test_a_score_of_zero_predicts_plus_one(score: float) -> None:
    """Section 1: "sign(0) = +1"."""
    assert counted([(score, 1.0, 1.0)]).errors == 0
    assert counted([(score, -1.0, -1.0)]).errors == 1


def test_an_example_of_weight_zero_is_an_outlier() -> None:
    totals = Totals()
    for gamma in (0.0, 5e-324, 1.0):
        totals.count(1.0, 1.0, 1.0, gamma, 0.5)
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
    found = total(counted(part) for part in parts)
    assert found.to_list()[:10] == together.to_list()[:10]
    assert found.log_loss == (pytest.approx(together.log_loss) if together.examples else None)
    assert found.majority_errors == sum(counted(part).majority_errors for part in parts)


def test_counts_survive_as_a_list() -> None:
    totals = Totals(*range(1, 13), 0.25)
    assert Totals(*totals.to_list()) == totals  # type: ignore[arg-type]
    assert totals.to_list() == [*range(1, 13), 0.25]


def test_the_macro_mean_leaves_out_who_has_no_figure_and_says_how_many_have_one() -> None:
    """decisions.md: "the macro mean takes the others and says how many"."""
    assert macro([0.5, None, 1.0]) == (0.75, 2)
    assert macro([None, None]) == (None, 0)
    assert macro([0.0]) == (0.0, 1)


def test_the_majority_is_the_label_seen_more_often_before_and_plus_one_where_both_are_equal() -> None:
    # Before each: nothing, +, +-, +--, +---; so it says +, +, +, -, -.
    seen = [1.0, -1.0, -1.0, -1.0, 1.0]
    assert counted([(1.0, label, label) for label in seen]).majority_errors == 3
    assert majority_wrong(np.array(seen), np.array(seen)).tolist() == [False, True, True, False, True]
    assert Totals().majority_error_rate is None


@given(PREDICTIONS)
def test_the_majority_goes_by_the_labels_seen_and_counts_the_clean_ones(
    predictions: list[tuple[float, float, float]],
) -> None:
    seen, clean = (np.array([prediction[place] for prediction in predictions]) for place in (2, 1))
    wrong = 0
    for place, label in enumerate(clean):
        says = 1.0 if seen[:place].sum() >= 0.0 else -1.0
        wrong += says != label
    assert counted(predictions).majority_errors == wrong == majority_wrong(seen, clean).sum()


@pytest.mark.slow
def test_the_log_loss_is_that_of_scikit_learn() -> None:
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(5)
    labels = np.where(rng.random(300) < 0.3, 1.0, -1.0)
    scores = np.concatenate([10.0 * rng.standard_normal(296), [800.0, -800.0, 40.0, 0.0]])
    with np.errstate(over="ignore"):
        given_to_one = 1.0 / (1.0 + np.exp(-scores))
    totals = Totals()
    for score, label in zip(scores.tolist(), labels.tolist(), strict=True):
        totals.count(score, label, label, 1.0, sigmoid(label * score))
    assert totals.log_loss == pytest.approx(sklearn_metrics.log_loss(labels > 0.0, given_to_one), rel=1e-9)


@given(st.lists(st.tuples(st.integers(-3, 3).map(float), st.sampled_from([-1.0, 1.0])), min_size=1))
def test_auc_is_that_of_scikit_learn_with_ties(predictions: list[tuple[float, float]]) -> None:
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    scores, labels = (np.array(column) for column in zip(*predictions, strict=True))
    if len(set(labels.tolist())) < 2:
        assert auc(scores, labels) is None
    else:
        assert auc(scores, labels) == pytest.approx(sklearn_metrics.roc_auc_score(labels, scores), abs=1e-12)


def test_auc_counts_pairs() -> None:
    scores = np.array([0.1, 0.4, 0.4, 0.8])
    labels = np.array([-1.0, 1.0, -1.0, 1.0])
    # Of four pairs three are in order and one is tied.
    assert auc(scores, labels) == 3.5 / 4.0
    assert auc(scores, np.ones(4)) is None


def test_auc_against_all_pairs() -> None:
    rng = np.random.default_rng(3)
    scores, labels = rng.integers(0, 8, 60).astype(float), np.where(rng.random(60) < 0.3, 1.0, -1.0)
    up, down = scores[labels > 0], scores[labels < 0]
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in up for b in down]
    assert auc(scores, labels) == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)
