"""The best W in hindsight: against independent optima, and a lower bound that really is one."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import random_streams, sparse_stream
from scipy.optimize import linprog, minimize
from sklearn.linear_model import LogisticRegression

from drom_net.algorithms.features import Matrix
from reproduction.hindsight import LOSSES, best_in_hindsight, into_ball, nuclear_norm, signed_rows

LENGTHS = (60, 45, 80)
DIM = 5


def rows_of(seed: int = 0, lengths: tuple[int, ...] = LENGTHS) -> list[Matrix]:
    return signed_rows(random_streams(lengths, dim=DIM, seed=seed, flip=0.2))


def loss_at(rows: list[Matrix], W: Matrix, loss: str) -> float:
    z = np.concatenate([task_rows @ w for task_rows, w in zip(rows, W, strict=True)])
    return float(np.maximum(0.0, 1.0 - z).sum() if loss == "hinge" else np.log1p(np.exp(-z)).sum())


def test_hinge_without_a_binding_ball_is_the_linear_program() -> None:
    rows = rows_of()
    exact = 0.0
    for task_rows in rows:
        n = len(task_rows)
        # min sum s  with  s >= 1 - z,  s >= 0
        program = linprog(
            np.r_[np.zeros(DIM), np.ones(n)],
            A_ub=np.c_[-task_rows, -np.eye(n)],
            b_ub=-np.ones(n),
            bounds=[(None, None)] * DIM + [(0.0, None)] * n,
        )
        exact += program.fun
    found = best_in_hindsight(rows, loss="hinge", radius=1e3, tolerance=1e-4)
    assert found.lower <= exact + 1e-9
    assert found.value >= exact - 1e-9
    assert found.value - found.lower <= 1e-4 * sum(LENGTHS)


def test_logistic_without_a_binding_ball_is_scikit_learns_fit() -> None:
    rows = rows_of()
    W = []
    for task_rows in rows:
        # Half of the rows turned over, so that there are two classes; the margins are the same.
        y = np.where(np.arange(len(task_rows)) % 2 == 0, 1.0, -1.0)
        fit = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=10_000)
        W.append(fit.fit(task_rows * y[:, np.newaxis], y).coef_[0])
    exact = loss_at(rows, np.stack(W), "logistic")
    found = best_in_hindsight(rows, loss="logistic", radius=1e3, tolerance=1e-6)
    assert found.lower <= exact + 1e-9
    assert found.value == pytest.approx(exact, abs=2e-6 * sum(LENGTHS))


@pytest.mark.parametrize("radius", [0.5, 1.5])
def test_one_task_in_the_ball_is_a_constrained_problem_of_scipy(radius: float) -> None:
    """With one task the nuclear norm is the length of w."""
    rows = rows_of(lengths=(70,))
    other = minimize(
        lambda w: loss_at(rows, w[np.newaxis], "logistic"),
        np.zeros(DIM),
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda w: radius**2 - w @ w},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    found = best_in_hindsight(rows, loss="logistic", radius=radius, tolerance=1e-7)
    assert np.linalg.norm(found.W) == pytest.approx(radius)  # it binds
    assert found.value == pytest.approx(other.fun, abs=1e-4)
    assert found.lower <= other.fun + 1e-6


def test_many_tasks_in_the_ball_are_the_factored_problem() -> None:
    """|W|_* is the least (|U|^2 + |V|^2) / 2 with W = U V, so a smooth problem without any SVD has the same minimum."""
    rows, penalty, m = rows_of(), 4.0, len(LENGTHS)

    def objective(x: np.ndarray) -> float:
        U, V = x[: m * m].reshape(m, m), x[m * m :].reshape(m, DIM)
        return loss_at(rows, U @ V, "logistic") + 0.5 * penalty * float(x @ x)

    start = np.random.default_rng(1).standard_normal(m * m + m * DIM)
    other = minimize(objective, start, method="BFGS", options={"gtol": 1e-5, "maxiter": 5000})
    W = other.x[: m * m].reshape(m, m) @ other.x[m * m :].reshape(m, DIM)
    radius = nuclear_norm(W)
    assert radius > 0.5
    penalised = best_in_hindsight(rows, loss="logistic", radius=100.0, penalty=penalty, tolerance=1e-7)
    assert penalised.value == pytest.approx(other.fun, rel=1e-5)
    assert penalised.lower <= other.fun + 1e-6
    # The same W is the best in the ball that it just reaches (the penalty is the multiplier of that constraint).
    inside = best_in_hindsight(rows, loss="logistic", radius=radius, tolerance=1e-7)
    assert inside.value == pytest.approx(loss_at(rows, W, "logistic"), rel=1e-5)


@pytest.mark.slow
def test_the_hinge_in_the_ball_is_what_projected_subgradients_come_to() -> None:
    rows, radius = rows_of(), 2.0
    found = best_in_hindsight(rows, loss="hinge", radius=radius, tolerance=1e-5)
    assert nuclear_norm(found.W) == pytest.approx(radius)
    W, best = np.zeros((len(rows), DIM)), np.inf
    for t in range(1, 8001):
        gradient = np.stack([-task_rows[task_rows @ w < 1.0].sum(axis=0) for task_rows, w in zip(rows, W, strict=True)])
        left, values, right = np.linalg.svd(W - 0.05 / np.sqrt(t) * gradient, full_matrices=False)
        low, high = 0.0, values[0]
        for _ in range(60):  # the threshold by bisection
            middle = 0.5 * (low + high)
            low, high = (middle, high) if np.maximum(0.0, values - middle).sum() > radius else (low, middle)
        W = (left * np.maximum(0.0, values - high)) @ right
        best = min(best, loss_at(rows, W, "hinge"))
    assert found.lower <= best + 1e-9
    assert best == pytest.approx(found.value, rel=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", [0.0, 1.5, 50.0])
@pytest.mark.parametrize("iterations", [1, 7, 2000])
def test_no_point_of_the_ball_is_below_the_lower_bound(loss: str, penalty: float, iterations: int) -> None:
    """However early it stops, at random points and at points near the best."""
    rng, rows, radius = np.random.default_rng(3), rows_of(4), 3.0
    found = best_in_hindsight(rows, loss=loss, radius=radius, penalty=penalty, iterations=iterations, tolerance=1e-7)
    assert nuclear_norm(found.W) <= radius * (1.0 + 1e-9)
    assert found.value == pytest.approx(loss_at(rows, found.W, loss) + penalty * nuclear_norm(found.W))
    assert found.lower <= found.value
    for _ in range(300):
        step = rng.standard_normal(found.W.shape) * rng.choice([1e-3, 0.1, 1.0])
        centre = found.W if rng.random() < 0.5 else 0.0
        V = (centre + step) * rng.choice([0.0, 0.5, 1.0])
        V *= min(1.0, radius / max(nuclear_norm(V), 1e-300))
        assert loss_at(rows, V, loss) + penalty * nuclear_norm(V) >= found.lower - 1e-9


@pytest.mark.parametrize("loss", LOSSES)
def test_the_bracket_is_as_narrow_as_asked_for(loss: str) -> None:
    rows = rows_of(5)
    for radius in (0.1, 2.0, 20.0):
        found = best_in_hindsight(rows, loss=loss, radius=radius, tolerance=1e-5)
        assert found.value - found.lower <= 1e-5 * sum(LENGTHS)


@pytest.mark.parametrize("radius", [0.5, 1.0, 4.0])
def test_one_example_by_hand(radius: float) -> None:
    """The best w points along y x: the margin is r |x|."""
    rows = [np.array([[0.6, 0.0]]), np.zeros((0, 2))]  # the second task has no example yet
    found = best_in_hindsight(rows, loss="hinge", radius=radius, tolerance=1e-6)
    assert found.value == pytest.approx(max(0.0, 1.0 - 0.6 * radius), abs=2e-6)
    assert np.all(found.W[1] == 0.0)


def test_a_start_changes_the_way_and_not_the_answer() -> None:
    rows = rows_of(6)
    first = best_in_hindsight([task_rows[:30] for task_rows in rows], loss="hinge", radius=9.0)
    cold = best_in_hindsight(rows, loss="hinge", radius=2.0)
    warm = best_in_hindsight(rows, loss="hinge", radius=2.0, start=first.W)  # it lies outside of this ball
    assert max(cold.lower, warm.lower) <= min(cold.value, warm.value)
    assert nuclear_norm(warm.W) <= 2.0 + 1e-9


@pytest.mark.parametrize("shrink", [0.0, 0.7])
@pytest.mark.parametrize("radius", [1.0, 5.0, 100.0])
def test_into_the_ball_is_the_nearest(radius: float, shrink: float) -> None:
    rng = np.random.default_rng(7)
    W = 2.0 * rng.standard_normal((4, 6))
    P, norm = into_ball(W, radius, shrink)
    assert norm == pytest.approx(nuclear_norm(P))
    assert norm <= radius + 1e-9

    def distance(V: Matrix) -> float:
        return 0.5 * float(np.sum((V - W) ** 2)) + shrink * nuclear_norm(V)

    for _ in range(300):
        V = P + rng.standard_normal(W.shape) * rng.choice([1e-3, 0.1, 1.0])
        V *= min(1.0, radius / nuclear_norm(V))
        assert distance(V) >= distance(P) - 1e-9


def test_sparse_rows_are_the_dense_ones() -> None:
    streams = random_streams((9, 0, 4), dim=6, density=0.4)
    for dense, sparse in zip(signed_rows(streams), signed_rows([sparse_stream(s) for s in streams]), strict=True):
        np.testing.assert_array_equal(dense, sparse)
    rows = streams[0].rows
    assert isinstance(rows, np.ndarray)
    np.testing.assert_array_equal(signed_rows(streams)[0][3], streams[0].labels[3] * rows[3])
