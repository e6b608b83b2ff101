"""AROW (Crammer, Kulesza and Dredze 2009) written down once more, with the whole matrix before its diagonal is kept."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import random_streams, sparse_stream

from drom_net.algorithms.arow import ArowParameters, ArowState, arow
from drom_net.algorithms.base import ContributionKind, Example
from drom_net.learning.reference import run_reference
from drom_net.testing import check_learner


@pytest.mark.parametrize("r", [0.1, 1.0, 5.0])
def test_it_is_its_equations(r: float) -> None:
    streams = random_streams([30, 17], flip=0.1)
    result = run_reference(arow(ArowParameters(r=r)), streams, seed=0)
    for task, stream in zip(result.tasks, streams, strict=True):
        w, S = np.zeros(stream.dim), np.eye(stream.dim)
        for x, y in zip(np.asarray(stream.rows), stream.labels, strict=True):
            margin, beta = y * (w @ x), 1.0 / (x @ S @ x + r)
            if margin < 1.0:
                w = w + (1.0 - margin) * beta * y * S @ x
                S = np.diag(np.diag(S - beta * S @ np.outer(x, x) @ S))
        np.testing.assert_allclose(task.model["w"], w, rtol=1e-10)


def test_two_examples_by_hand() -> None:
    algorithm = arow()
    state: ArowState = algorithm.init_local(2)
    state, first = algorithm.learn(state, Example(np.array([1.0, 0.0]), 1.0), 1)
    assert (first.score, first.loss) == (0.0, 1.0)
    assert state.w.tolist() == [0.5, 0.0]
    assert state.variance.tolist() == [0.5, 1.0]
    state, second = algorithm.learn(state, Example(np.array([1.0, 1.0]), -1.0), 2)
    assert (second.score, second.loss) == (0.5, 2.25)
    np.testing.assert_allclose(state.w, [0.2, -0.6])
    np.testing.assert_allclose(state.variance, [0.4, 0.6])


def test_an_example_beyond_the_margin_changes_nothing() -> None:
    algorithm = arow()
    state = ArowState(np.array([2.0]), np.array([0.5]))
    state, prediction = algorithm.learn(state, Example(np.array([1.0]), 1.0), 1)
    assert (state.w[0], state.variance[0], prediction.loss) == (2.0, 0.5, 0.0)


def test_sparse_rows_give_the_models_of_dense_ones_and_nothing_is_sent() -> None:
    streams = random_streams([20, 20], density=0.6)
    dense, sparse = (run_reference(arow(), some, seed=0) for some in (streams, [*map(sparse_stream, streams)]))
    for one, other in zip(dense.tasks, sparse.tasks, strict=True):
        np.testing.assert_allclose(one.model["w"], other.model["w"], rtol=1e-12)
    assert arow().update(arow().init_local(3), 1)[1].kind is ContributionKind.NONE
    check_learner("arow")
