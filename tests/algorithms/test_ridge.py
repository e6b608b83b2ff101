"""Ridge regression from one example at a time against its closed form."""

from __future__ import annotations

import numpy as np
import pytest

from drom_net.algorithms.ridge import RIDGE, TOGETHER, ExactRidge, WindowRidge, exact_ridge, ridge, window_ridge

D = 7


def test_ridge_with_late_updates_is_that_of_all_examples() -> None:
    """The inverse is brought up to date after several examples."""
    rng, dim = np.random.default_rng(4), 137
    X, targets = rng.standard_normal((2 * TOGETHER + 5, dim)), rng.standard_normal((2 * TOGETHER + 5, 2))
    X[:, 5:] *= rng.random((len(X), dim - 5)) < 0.3
    dense, sparse = exact_ridge(dim, 2), exact_ridge(dim, 2)
    for t, (x, target) in enumerate(zip(X, targets, strict=True)):
        weights = targets[:t].T @ X[:t] @ np.linalg.inv(RIDGE * np.eye(dim) + X[:t].T @ X[:t])
        for one, at in ((dense, slice(None)), (sparse, np.flatnonzero(x))):
            means, seen = one.means(at, x[at])
            np.testing.assert_allclose(means, weights @ x, atol=1e-8)
            np.testing.assert_allclose(one.vectors(), weights, atol=1e-8)
            one.learn(at, x[at], seen, target)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_window_of_ridge_regression_is_that_of_its_last_examples(sparse: bool) -> None:
    rng = np.random.default_rng(1)
    made = window_ridge(D, 2, 6, 0.7)
    X, targets = rng.standard_normal((200, D)), rng.standard_normal((200, 2))
    X[:, 3:] *= rng.random((200, D - 3)) < 0.4
    for t, (x, target) in enumerate(zip(X, targets, strict=True)):
        at = np.flatnonzero(x) if sparse else slice(None)
        seen, wanted = X[max(0, t - 6) : t], targets[max(0, t - 6) : t]
        weights = wanted.T @ np.linalg.inv(0.7 * np.eye(len(seen)) + seen @ seen.T) @ seen
        means, likeness = made.means(at, x[at])
        np.testing.assert_allclose(means, weights @ x, atol=1e-9)
        np.testing.assert_allclose(made.vectors(), weights, atol=1e-9)
        made.learn(at, x[at], likeness, target)


@pytest.mark.parametrize("scale", [255.0, 1e3, 1e7])
@pytest.mark.parametrize("window", [False, True])
def test_rows_far_from_unit_norm_end_no_run(scale: float, window: bool) -> None:
    rng = np.random.default_rng(3)
    few = rng.random((20, D))
    made = ridge(D, 2)
    if window:
        made = window_ridge(D, 2, 6, 1.0)
    assert made is not None
    for _ in range(500):
        x = scale * few[rng.integers(20)]
        means, seen = made.means(slice(None), x)
        assert np.isfinite(means).all()
        made.learn(slice(None), x, seen, (1.0, -1.0))
    assert np.isfinite(made.vectors()).all()


def test_exact_ridge_regression_is_for_few_features_and_none_for_many() -> None:
    assert isinstance(ridge(512, 2), ExactRidge)
    assert isinstance(ridge(513, 2), WindowRidge)
    assert ridge(2049, 2) is None
