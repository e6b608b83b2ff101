"""The leading singular pair, by both routes, against numpy's SVD and in the corners."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drom_net.algorithms.features import Matrix, Vector
from drom_net.algorithms.spectral import SingularPair, leading_pair_by_gram, leading_pair_by_power

Solver = Callable[[Matrix, Vector], SingularPair]


def power(A: Matrix, v: Vector) -> SingularPair:
    return leading_pair_by_power(A, v, iterations=2000)


SOLVERS = pytest.mark.parametrize("solver", [power, leading_pair_by_gram])
SHAPES = pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 2), (4, 30), (12, 12), (30, 5)])


def start(m: int, seed: int = 0) -> Vector:
    v = np.random.default_rng(seed).standard_normal(m)
    return v / np.linalg.norm(v)


def with_singular_values(values: list[float], m: int, d: int, seed: int = 0) -> Matrix:
    rng = np.random.default_rng(seed)
    left, _ = np.linalg.qr(rng.standard_normal((m, len(values))))
    right, _ = np.linalg.qr(rng.standard_normal((d, len(values))))
    return np.ascontiguousarray(left * np.array(values) @ right.T)


def assert_valid(A: Matrix, pair: SingularPair, *, tolerance: float = 1e-10) -> None:
    """A leading pair whatever the gap: unit vectors, both equations, sigma_1, the sign rule, a true residual."""
    sigma = float(np.linalg.svd(A, compute_uv=False)[0])
    assert pair.sigma == pytest.approx(sigma, rel=tolerance)
    assert np.linalg.norm(pair.u) == pytest.approx(1.0, abs=1e-14)
    assert np.linalg.norm(pair.v) == pytest.approx(1.0, abs=1e-14)
    assert np.linalg.norm(A @ pair.u - pair.sigma * pair.v) <= 1e-8 * sigma
    assert np.linalg.norm(pair.v @ A - pair.sigma * pair.u) <= 1e-8 * sigma
    assert pair.v[np.argmax(np.abs(pair.v))] > 0.0
    assert math.isfinite(pair.residual)


@SOLVERS
@SHAPES
@pytest.mark.parametrize("seed", range(3))
def test_the_pair_is_that_of_the_svd(solver: Solver, shape: tuple[int, int], seed: int) -> None:
    """Section 8: "leading pair: Gram = power = SVD", 1e-10."""
    m, d = shape
    values = [3.0 * 0.8**k for k in range(min(m, d))]
    A = with_singular_values(values, m, d, seed)
    pair = solver(A, start(m, seed))
    assert_valid(A, pair)
    left, _, right = np.linalg.svd(A)
    np.testing.assert_allclose(np.outer(pair.v, pair.u), np.outer(left[:, 0], right[0]), atol=1e-10)


@pytest.mark.parametrize("seed", range(10))
def test_both_routes_agree_on_random_matrices(seed: int) -> None:
    A = np.random.default_rng(seed).standard_normal((6, 40))
    by_power, by_gram = power(A, start(6)), leading_pair_by_gram(A, start(6))
    assert by_power.sigma == pytest.approx(by_gram.sigma, rel=1e-12)
    np.testing.assert_allclose(by_power.v, by_gram.v, atol=1e-9)
    np.testing.assert_allclose(by_power.u, by_gram.u, atol=1e-9)


@SOLVERS
def test_the_largest_entry_of_v_is_positive_whatever_the_start(solver: Solver) -> None:
    """Section 5: "Sign: largest |v_i| (lowest index) positive"."""
    A = with_singular_values([2.0, 0.5], 4, 9)
    pairs = [solver(A, sign * start(4, seed)) for seed in range(4) for sign in (1.0, -1.0)]
    for pair in pairs:
        assert pair.v[np.argmax(np.abs(pair.v))] > 0.0
        np.testing.assert_allclose(pair.u, pairs[0].u, atol=1e-12)


@SOLVERS
def test_of_equal_entries_the_one_of_lowest_index_is_positive(solver: Solver) -> None:
    A = np.array([[0.0, -2.0], [0.0, 2.0]])
    pair = solver(A, np.array([-1.0, 0.0]))
    np.testing.assert_allclose(np.abs(pair.v), [math.sqrt(0.5)] * 2, rtol=1e-15)
    if abs(pair.v[0]) == abs(pair.v[1]):
        assert pair.v[0] > 0.0 > pair.v[1]
    np.testing.assert_allclose(np.outer(pair.v, pair.u), A / np.linalg.norm(A), atol=1e-15)


@SOLVERS
@SHAPES
def test_of_a_zero_matrix_sigma_is_0_and_v_stays(solver: Solver, shape: tuple[int, int]) -> None:
    """decisions.md: "An all-zero A leaves v as it was, with sigma = 0 and R = 0"."""
    v = start(shape[0])
    pair = solver(np.zeros(shape), v)
    assert pair.sigma == 0.0
    assert pair.residual == 0.0
    assert pair.v.tobytes() == v.tobytes()
    assert pair.u.tobytes() == np.zeros(shape[1]).tobytes()


@SOLVERS
def test_a_matrix_of_rank_one_is_sigma_v_u(solver: Solver) -> None:
    A = np.outer([1.0, 0.0, -2.0], [3.0, 0.0, 4.0, 0.0])
    pair = solver(A, start(3))
    assert pair.sigma == pytest.approx(5.0 * math.sqrt(5.0), rel=1e-14)
    np.testing.assert_allclose(pair.sigma * np.outer(pair.v, pair.u), A, atol=1e-13)


@SOLVERS
def test_one_row_that_is_not_zero_is_its_own_pair(solver: Solver) -> None:
    A = np.zeros((3, 2))
    A[1] = [0.0, -0.5]
    pair = solver(A, start(3))
    assert (pair.sigma, list(pair.v), list(pair.u)) == (0.5, [0.0, 1.0, 0.0], [0.0, -1.0])


@SOLVERS
@pytest.mark.parametrize(
    "A", [np.eye(4), with_singular_values([2.0, 2.0, 1.0], 5, 8), np.array([[0.0, 1.0], [1.0, 0.0]])]
)
def test_of_equal_singular_values_any_pair_will_do_and_it_is_always_the_same(solver: Solver, A: Matrix) -> None:
    """Section 5: "Ties sigma_1 = sigma_2: any leading pair is valid; only determinism needs a rule"."""
    v = start(len(A))
    first, second = solver(A, v), solver(A.copy(), v.copy())
    assert_valid(A, first)
    for one, other in zip(first, second, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("iterations", [1, 2, 50])
def test_a_start_orthogonal_to_the_rows_is_left_for_the_longest_row(iterations: int) -> None:
    A = np.array([[1.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    pair = leading_pair_by_power(A, np.array([0.0, 0.0, 1.0]), iterations=iterations)
    assert_valid(A, pair)


def test_two_tasks_that_pull_in_opposite_directions_do_not_stop_a_start_of_ones() -> None:
    """architecture.md, rule 7: all ones would be orthogonal to the answer."""
    A = np.array([[1.0, 2.0], [-1.0, -2.0]])
    pair = leading_pair_by_power(A, np.array([1.0, 1.0]) / math.sqrt(2.0), iterations=1)
    assert_valid(A, pair)


@SOLVERS
@SHAPES
@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-158, 1e-100, 1e100, 1e150, 1e153, 1e200])
def test_entries_may_be_tiny_or_huge(solver: Solver, shape: tuple[int, int], scale: float) -> None:
    m, d = shape
    A = with_singular_values([3.0 * 0.5**k for k in range(min(m, d))], m, d)
    reference, pair = solver(A, start(m)), solver(A * scale, start(m))
    assert pair.sigma == pytest.approx(reference.sigma * scale, rel=1e-10)
    np.testing.assert_allclose(pair.u, reference.u, atol=1e-10)
    np.testing.assert_allclose(pair.v, reference.v, atol=1e-10)
    assert pair.residual <= 1e-10 * pair.sigma


@SOLVERS
def test_a_tiny_row_that_only_a_scaled_length_sees_is_found(solver: Solver) -> None:
    A = np.zeros((3, 4))
    A[2] = 1e-200
    pair = solver(A, np.array([1.0, 0.0, 0.0]))
    assert pair.sigma == pytest.approx(2e-200, rel=1e-14)
    assert list(pair.v) == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("iterations", [1, 3, 10])
def test_the_residual_of_power_tells_the_truth(iterations: int) -> None:
    A = with_singular_values([2.0, 1.9, 1.5], 6, 20)
    pair = leading_pair_by_power(A, start(6), iterations=iterations)
    np.testing.assert_allclose(A @ pair.u, pair.sigma * pair.v, atol=1e-14)
    assert pair.residual == pytest.approx(float(np.linalg.norm(pair.v @ A - pair.sigma * pair.u)), rel=1e-9)
    assert pair.residual > 1e-3


def test_the_residual_of_gram_is_next_to_nothing() -> None:
    A = with_singular_values([2.0, 1.9, 1.5], 6, 20)
    assert leading_pair_by_gram(A, start(6)).residual < 1e-13


def test_more_iterations_and_a_warm_start_come_nearer() -> None:
    A = with_singular_values([2.0, 1.8, 1.0], 8, 20)
    cold = leading_pair_by_power(A, start(8), iterations=5)
    longer = leading_pair_by_power(A, start(8), iterations=15)
    warm = leading_pair_by_power(A, cold.v, iterations=10)
    assert longer.residual < 0.5 * cold.residual
    assert warm.residual == pytest.approx(longer.residual, rel=1e-6)  # the start is all that an iteration leaves
    assert cold.sigma < longer.sigma < 2.0 * (1.0 + 1e-15)


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 6), d=st.integers(1, 6), iterations=st.integers(1, 12))
def test_a_pair_is_a_subgradient_up_to_what_sigma_lacks(seed: int, m: int, d: int, iterations: int) -> None:
    """Section 5: "with delta = sigma_1 - u^T A v >= 0, u v^T is a delta-subgradient whatever the gap"."""
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((m, d)), rng.standard_normal((m, d))
    pair = leading_pair_by_power(A, start(m, seed), iterations=iterations)

    def norm(M: Matrix) -> float:
        return float(np.linalg.svd(M, compute_uv=False)[0])

    delta = norm(A) - pair.sigma
    assert delta >= -1e-12
    assert norm(B) >= norm(A) + float(np.sum(np.outer(pair.v, pair.u) * (B - A))) - delta - 1e-12


@SOLVERS
def test_what_goes_in_is_not_written_to(solver: Solver) -> None:
    A, v = with_singular_values([2.0, 1.0], 4, 9), start(4)
    before = A.tobytes(), v.tobytes()
    A.flags.writeable = v.flags.writeable = False
    pair = solver(A, v)
    assert (A.tobytes(), v.tobytes()) == before
    assert not np.shares_memory(pair.u, A)
