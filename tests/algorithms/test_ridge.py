"""Ridge regression from one example at a time against its closed form."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from drom_net.algorithms.adadrom.experts import _solve
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
            assert one.num_late == (t + 1) % TOGETHER  # so many are not in it yet


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


def test_an_inverse_that_rounding_has_taken_is_made_anew() -> None:
    made = window_ridge(D, 1, 3, 1.0)
    X = np.random.default_rng(0).standard_normal((4, D))
    for number, x in enumerate(X):
        _, seen = made.means(slice(None), x)
        if number == 3:
            made.inverse[:], made.late[:] = 0.0, 0.0
        made.learn(slice(None), x, seen, (1.0,))
    weights = np.ones(3) @ np.linalg.inv(np.eye(3) + X[1:] @ X[1:].T) @ X[1:]
    np.testing.assert_allclose(made.vectors()[0], weights, atol=1e-9)


def test_exact_ridge_regression_is_for_few_features_and_none_for_many() -> None:
    assert isinstance(ridge(512, 2), ExactRidge)
    assert isinstance(ridge(513, 2), WindowRidge)
    assert ridge(2049, 2) is None


def test_two_threads_learn_what_one_learns() -> None:
    """What a product is written to is a thread's own: NumPy computes it while the other thread goes on."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((2, 3 * TOGETHER, 200)) / 14.0
    everywhere = slice(None)

    def learned(number: int) -> ExactRidge:
        found = exact_ridge(200, 1)
        for x in rows[number]:
            found.learn(everywhere, x, found.means(everywhere, x)[1], [float(np.sign(x[0]))])
        return found

    expected = [learned(number).table.tobytes() for number in range(2)]
    former = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as pool:
            for _ in range(3):
                assert [found.table.tobytes() for found in pool.map(learned, range(2))] == expected
    finally:
        sys.setswitchinterval(former)


def test_systems_are_solved_with_the_bits_of_numpy() -> None:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((2, 8, 20))
    products, targets = rows @ rows.transpose(0, 2, 1) + np.eye(8), rng.standard_normal((2, 8, 2))
    assert _solve(products, targets).tobytes() == np.linalg.solve(products, targets).tobytes()
