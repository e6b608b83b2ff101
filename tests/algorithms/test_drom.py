"""DROM's two local steps and its central step, by hand and in the corners."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers import frozen, random_streams, sparse_stream, sparse_vector

from drom_net.algorithms.base import (
    IDLE,
    KEEP,
    NO_REPLY,
    SKIP,
    ZERO,
    Algorithm,
    Contribution,
    ContributionKind,
    Example,
    Reply,
    ReplyKind,
)
from drom_net.algorithms.drom import PAPER, DromCentral, DromParameters, DromState, drom
from drom_net.core.seeding import stream as random_stream
from drom_net.learning.reference import run_reference

INF = math.inf
PLAIN = DromParameters(eta0=1.0, lam=1.0, rho=1.0, p=1.0, xi=INF, kappa=INF, loss="hinge")
X = frozen(np.array([0.6, 0.8, 0.0]))


def centre(algorithm: Algorithm, m: int = 2, d: int = 3) -> DromCentral:
    return algorithm.init_central(tuple(range(m)), d, random_stream(0, "power"))


def vectors(*rows: list[float], last: bool = False) -> dict[int, Contribution]:
    return {
        task: Contribution(ContributionKind.VECTORS, (frozen(np.array(row)),), last) for task, row in enumerate(rows)
    }


def one_round(
    algorithm: Algorithm, state: DromState, example: Example, t: int, reply: Reply = NO_REPLY
) -> tuple[DromState, Contribution, float]:
    state, prediction = algorithm.learn(state, example, t)
    state = state if reply in (NO_REPLY, KEEP) else algorithm.receive(state, reply, t)
    state, contribution = algorithm.update(state, t)
    return state, contribution, prediction.gamma


def test_two_rounds_by_hand() -> None:
    """Algorithm 1, eq. primal-dual-optim-local, lambda = rho = 1, plain hinge; x = e_1, y = 1, then y = -1."""
    algorithm = drom(PLAIN)
    x = frozen(np.array([1.0, 0.0]))
    # Round 1, eta = 1: a = 0 + (0 - 0) = 0; w = 0 - (0 - x) = (1, 0).
    state, contribution, gamma = one_round(algorithm, algorithm.init_local(2), Example(x, 1.0), 1)
    assert gamma == 1.0
    assert [list(part) for part in contribution.vectors] == [[0.0, 0.0]]
    assert list(state.w) == [1.0, 0.0]
    # Round 2, eta = 1/sqrt(2), R = (0, 1): f = 2; a = eta ((1, 0) - (0, 1)); w = (1, 0) - eta (a + x).
    eta = 1.0 / math.sqrt(2.0)
    reply = Reply(ReplyKind.VECTORS, (frozen(np.array([0.0, 1.0])),))
    state, prediction = algorithm.learn(state, Example(x, -1.0), 2)
    assert (prediction.score, prediction.loss, prediction.gamma) == (1.0, 2.0, 1.0)
    state, contribution = algorithm.update(algorithm.receive(state, reply, 1), 2)
    np.testing.assert_allclose(state.a, [eta, -eta], rtol=1e-15)
    np.testing.assert_allclose(state.w, [1.0 - eta * (eta + 1.0), eta * eta], rtol=1e-15)
    assert contribution.vectors[0].tobytes() == state.a.tobytes()


def test_the_first_step_starts_from_zero() -> None:
    """Section 1: "w_1 = a_1 = 0 and [u v^T] = 0"; so a stays 0 and w is the plain gradient step."""
    algorithm = drom(replace(PLAIN, eta0=3.0, lam=0.25, rho=5.0))
    state, contribution, _ = one_round(algorithm, algorithm.init_local(3), Example(X, -1.0), 1)
    assert list(contribution.vectors[0]) == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(state.w, -3.0 * X, rtol=1e-15)


def test_the_literal_step_of_the_paper() -> None:
    """The set `paper`: eta = 1/sqrt(t), gamma = p f^(p-1) with p = 1/2 and no bound, hinge, xi = 1."""
    algorithm = drom(DromParameters(**PAPER))  # type: ignore[arg-type]
    parameters = DromParameters(**PAPER)  # type: ignore[arg-type]
    assert (parameters.eta0, parameters.lam, parameters.rho, parameters.xi) == (1.0, 1.0, 1.0, 1.0)
    assert (parameters.loss, parameters.p, parameters.kappa) == ("hinge", 0.5, INF)
    w, a, r = np.array([0.5, 0.5, -1.0]), np.array([0.1, -0.2, 0.3]), np.array([0.0, 0.6, 0.0])
    state = DromState(w.copy(), a.copy(), r.copy())
    state, _, gamma = one_round(algorithm, state, Example(X, 1.0), 9)
    f = 1.0 - float(w @ X)
    assert gamma == pytest.approx(0.5 / math.sqrt(f), rel=1e-15)
    expected_a = a + (w - r) / 3.0
    np.testing.assert_allclose(state.a, expected_a, rtol=1e-14)
    np.testing.assert_allclose(state.w, w - (expected_a - gamma * X) / 3.0, rtol=1e-14)


def test_the_defaults_are_those_of_the_decisions() -> None:
    q = DromParameters()
    assert (q.loss, q.eta0, q.lam, q.rho, q.p, q.xi, q.kappa) == ("logistic", 10.0, 0.003, 0.1, 0.9, INF, 2.0)
    assert (q.solver, q.power_iterations, q.f0, q.ended) == ("power", 10, "regularise", "keep")


# Outliers


def test_an_outlier_changes_no_bit_and_sends_nothing() -> None:
    """Algorithm 1: "When gamma > 0, local update"; "synchronization is not allowed if [..] gamma = 0"."""
    algorithm = drom(replace(PLAIN, xi=1.0))
    state = DromState(np.array([1.0, 0.1, 0.3]), np.array([0.1, -0.2, 0.3]), np.array([0.0, 0.6, 0.0]))
    before = state.w.tobytes(), state.a.tobytes(), state.r.tobytes() if state.r is not None else b""
    state, contribution, gamma = one_round(algorithm, state, Example(X, -1.0), 5, KEEP)
    assert gamma == 0.0
    assert contribution == SKIP
    assert (state.w.tobytes(), state.a.tobytes(), state.r.tobytes() if state.r is not None else b"") == before


def test_an_outlier_is_answered_with_keep_and_its_last_row_counts() -> None:
    """Section 2: "R_i stays; the server uses the last column it has"."""
    algorithm = drom(PLAIN)
    state = centre(algorithm)
    state, _, _ = algorithm.central_step(state, vectors([3.0, 0.0, 0.0], [0.0, 2.0, 0.0]))
    state, replies, info = algorithm.central_step(state, {0: SKIP, 1: vectors([0.0, 1.0, 0.0])[0]})
    assert replies[0] == KEEP
    assert replies[1].kind is ReplyKind.VECTORS
    assert info.sigma == pytest.approx(3.0)


def test_the_reply_in_hand_is_taken_also_in_an_outlier_round() -> None:
    algorithm = drom(replace(PLAIN, xi=1.0))
    state = DromState(np.array([1.0, 0.1, 0.3]), np.zeros(3), None)
    r = frozen(np.array([0.0, 0.6, 0.0]))
    state, contribution, _ = one_round(algorithm, state, Example(X, -1.0), 5, Reply(ReplyKind.VECTORS, (r,)))
    assert contribution == SKIP
    state, _, gamma = one_round(algorithm, state, Example(X, 1.0), 6, KEEP)
    assert gamma > 0.0
    np.testing.assert_allclose(state.a, (np.array([1.0, 0.1, 0.3]) - r) / math.sqrt(6.0), rtol=1e-15)


def test_a_keep_leaves_the_correction_and_a_zero_takes_it_away() -> None:
    algorithm = drom(PLAIN)
    r = frozen(np.array([0.0, 0.6, 0.0]))
    kept, _, _ = one_round(algorithm, DromState(np.zeros(3), np.zeros(3), r), Example(X, 1.0), 1, KEEP)
    np.testing.assert_array_equal(kept.a, -r)
    gone, _, _ = one_round(algorithm, DromState(np.zeros(3), np.zeros(3), r), Example(X, 1.0), 1, ZERO)
    np.testing.assert_array_equal(gone.a, np.zeros(3))


# Loss exactly 0


@pytest.mark.parametrize("kappa", [2.0, INF])
def test_a_loss_of_zero_regularises_by_default(kappa: float) -> None:
    """Section 1, f = 0: "the loss term is exactly 0; the regularisation step is still done, since gamma > 0"."""
    algorithm = drom(replace(PLAIN, p=0.5, kappa=kappa, lam=0.5))
    w = np.array([3.0, 0.0, 1.0])
    state, contribution, gamma = one_round(algorithm, DromState(w.copy(), np.zeros(3), None), Example(X, 1.0), 4)
    assert 0.0 < gamma < INF
    assert contribution.kind is ContributionKind.VECTORS
    np.testing.assert_allclose(state.a, 0.25 * w)
    np.testing.assert_allclose(state.w, w - 0.25 * state.a)


def test_a_loss_of_zero_is_skipped_where_that_is_asked_for() -> None:
    algorithm = drom(replace(PLAIN, f0="skip"))
    w = np.array([3.0, 0.0, 1.0])
    state, contribution, gamma = one_round(algorithm, DromState(w.copy(), np.zeros(3), None), Example(X, 1.0), 4)
    assert (gamma, contribution) == (0.0, SKIP)
    assert state.w.tobytes() == w.tobytes()
    _, contribution, gamma = one_round(algorithm, state, Example(X, -1.0), 5)
    assert (gamma, contribution.kind) == (1.0, ContributionKind.VECTORS)  # only f = 0 is skipped


# The central step


def test_a_sigma_of_exactly_1_gives_zero_and_one_above_a_correction() -> None:
    """Section 2: "R = u v^T if sigma_1(A) > 1 (strict), else 0"."""
    for solver in ("power", "gram"):
        algorithm = drom(replace(PLAIN, solver=solver))
        _, replies, info = algorithm.central_step(centre(algorithm), vectors([1.0, 0.0, 0.0], [0.0, 0.0, 0.0]))
        assert info.sigma == 1.0
        assert replies == {0: ZERO, 1: ZERO}
        above = math.nextafter(1.0, 2.0)
        _, replies, info = algorithm.central_step(centre(algorithm), vectors([above, 0.0, 0.0], [0.0, 0.0, 0.0]))
        assert info.sigma == above
        assert [list(replies[task].vectors[0]) for task in (0, 1)] == [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_a_centre_of_zeros_gives_zero_and_keeps_its_v() -> None:
    """decisions.md: "A is exactly zero after DROM's first round: normalising there makes NaN"."""
    algorithm = drom(PLAIN)
    state = centre(algorithm)
    v = state.v.copy()
    state, replies, info = algorithm.central_step(state, vectors([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]))
    assert replies == {0: ZERO, 1: ZERO}
    assert (info.sigma, info.residual) == (0.0, 0.0)
    assert info.v.tobytes() == v.tobytes() == state.v.tobytes()


def test_a_reply_is_the_tasks_row_of_v_u() -> None:
    """decisions.md: "R_i = v_i u"."""
    A = np.random.default_rng(1).standard_normal((4, 6))
    algorithm = drom(replace(PLAIN, solver="gram"))
    _, replies, _ = algorithm.central_step(centre(algorithm, 4, 6), vectors(*A.tolist()))
    left, _, right = np.linalg.svd(A)
    expected = np.outer(left[:, 0], right[0])
    for task in range(4):
        np.testing.assert_allclose(replies[task].vectors[0], expected[task], atol=1e-12)


def test_tasks_that_are_absent_or_idle_are_rows_and_get_no_correction() -> None:
    """Section 1: "a worker never heard from is a zero column"; an idle one keeps its last."""
    algorithm = drom(PLAIN)
    state = centre(algorithm, 3)
    state, replies, info = algorithm.central_step(state, {1: vectors([2.0, 0.0, 0.0])[0]})
    assert list(replies) == [1]
    assert (info.sigma, list(info.v)) == (2.0, [0.0, 1.0, 0.0])
    state, replies, info = algorithm.central_step(state, {0: vectors([0.0, 1.5, 0.0])[0], 1: IDLE})
    assert (info.sigma, replies[1]) == (2.0, KEEP)


@pytest.mark.parametrize(("ended", "sigma"), [("keep", 5.0), ("drop", 2.0)])
@pytest.mark.parametrize("by", ["vectors", "skip", "idle"])
def test_the_row_of_an_ended_task_stays_or_goes_after_its_last_round(ended: str, sigma: float, by: str) -> None:
    """Section 1: "its last column stays in A (`ended = keep`; `drop` zeroes it)"."""
    algorithm = drom(replace(PLAIN, ended=ended))
    state = centre(algorithm)
    other = vectors([0.0, 2.0, 0.0])[0]
    state, _, _ = algorithm.central_step(state, {0: vectors([5.0, 0.0, 0.0])[0], 1: other})
    last = {"vectors": vectors([5.0, 0.0, 0.0])[0], "skip": SKIP, "idle": IDLE}[by]._replace(last=True)
    state, replies, info = algorithm.central_step(state, {0: last, 1: other})
    assert info.sigma == pytest.approx(5.0)  # in its last round it still counts
    assert replies[0].kind is (ReplyKind.VECTORS if by == "vectors" else ReplyKind.KEEP)
    state, replies, info = algorithm.central_step(state, {1: other})
    assert info.sigma == pytest.approx(sigma)
    assert list(replies) == [1]


def test_what_was_sent_is_not_changed_by_later_rounds() -> None:
    """The last push may still be on its way, or be asked for again, while the next round is computed."""
    algorithm = drom(DromParameters())
    state = algorithm.init_local(3)
    sent: list[tuple[np.ndarray, bytes]] = []
    reply = Reply(ReplyKind.VECTORS, (frozen(np.array([0.0, 0.6, 0.0])),))
    for t in range(1, 6):
        state, contribution, _ = one_round(algorithm, state, Example(X, 1.0 if t % 2 else -1.0), t, reply)
        sent.append((contribution.vectors[0], contribution.vectors[0].tobytes()))
    assert all(array.tobytes() == before for array, before in sent)
    assert len({before for _, before in sent}) == 5


# Whole runs


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_sparse_and_dense_examples_learn_the_same(loss: str) -> None:
    streams = random_streams([25, 25, 18], dim=12, density=0.4, flip=0.1)
    algorithm = drom(DromParameters(loss=loss, eta0=2.0, lam=0.1, rho=0.3, xi=2.0))
    dense = run_reference(algorithm, streams, seed=1)
    sparse = run_reference(algorithm, [sparse_stream(stream) for stream in streams], seed=1)
    for one, other in zip(dense.tasks, sparse.tasks, strict=True):
        assert one.totals == other.totals
        for name in ("w", "a"):
            np.testing.assert_allclose(one.model[name], other.model[name], rtol=1e-12, atol=1e-12)


def test_a_sparse_step_is_the_dense_one() -> None:
    algorithm = drom(DromParameters())
    results = []
    for x in (X, sparse_vector(X)):
        state = DromState(np.array([0.3, -0.2, 0.1]), np.array([0.1, 0.2, 0.0]), None)
        state, _, _ = one_round(algorithm, state, Example(x, -1.0), 3)
        results.append(state)
    np.testing.assert_allclose(results[0].w, results[1].w, rtol=1e-15)
    np.testing.assert_allclose(results[0].a, results[1].a, rtol=1e-15)


def test_power_with_many_iterations_learns_what_gram_learns() -> None:
    """Over twenty rounds; later the gap has closed (decisions.md) and no number of iterations is many."""
    streams = random_streams([20] * 5, dim=8, flip=0.1)
    q = DromParameters(eta0=2.0, lam=0.3, rho=0.5)
    power = run_reference(drom(replace(q, power_iterations=3000)), streams, seed=3)
    gram = run_reference(drom(replace(q, solver="gram")), streams, seed=3)
    for one, other in zip(power.tasks, gram.tasks, strict=True):
        *counts, log_loss = one.totals.to_list()
        *other_counts, other_log_loss = other.totals.to_list()
        assert counts == other_counts
        assert log_loss == pytest.approx(other_log_loss, rel=1e-12)  # two ways to the same numbers, rounded differently
        assert one.totals.corrections > 0
        np.testing.assert_allclose(one.model["w"], other.model["w"], atol=1e-7)
        np.testing.assert_allclose(one.model["a"], other.model["a"], atol=1e-7)
