"""DROM with `solver: sums`: the pair from sums of v_i a_i, and every connected site answers each round."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from helpers import frozen, random_streams, sparse_stream, spread

from drom_net.algorithms.base import KEEP, SKIP, Contribution, ContributionKind, Example, Reply, ReplyKind
from drom_net.algorithms.drom import BITS_OF_SUMS, DromParameters, SummingCentral, SummingState, drom, start
from drom_net.algorithms.features import MOST_OF_SUM, SparseVectors
from drom_net.algorithms.losses import capped_weight, loss_limit
from drom_net.core.seeding import stream as random_stream
from drom_net.data.stream import TaskStream
from drom_net.learning.records import central_dtype
from drom_net.learning.reference import Journal, run_reference

Q = DromParameters(eta0=3.0, lam=0.3, rho=0.4, xi=1.5, loss="hinge", solver="sums")
SCALE = 2.0**BITS_OF_SUMS
DIM = 7


def state_of(a: Sequence[float] | np.ndarray) -> SummingState:
    a = np.array(a, dtype=float)
    return SummingState(np.ones(len(a)), a, None, u=start(len(a)))


def exchange(
    algorithm, states: list[SummingState], central: SummingCentral, t: int = 1, *, silent: Sequence[int] = ()
) -> tuple[list[SummingState], SummingCentral, float]:
    """One sync round, in which these tasks say nothing and are told nothing; and its sigma_1."""
    said = {}
    for task, state in enumerate(states):
        if task not in silent:
            states[task], said[task] = algorithm.send(state, t)
    central, replies, info = algorithm.central_step(central, said)
    for task, reply in replies.items():
        if reply.kind is not ReplyKind.KEEP:
            states[task] = algorithm.receive(states[task], reply, t)
    return states, central, info.sigma


def centre(algorithm, m: int, d: int = DIM) -> SummingCentral:
    return algorithm.init_central(tuple(range(m)), d, random_stream(0, "power"))


def transcription(streams: Sequence[TaskStream], q: DromParameters, absent: Callable[[int, int], bool]) -> tuple:
    """(w, a of each task, sigma_1 by round), in floats but for the rounding of what is said."""
    m, d, last = len(streams), streams[0].dim, max(stream.last_round() for stream in streams)
    W, A, R = np.zeros((m, d)), np.zeros((m, d)), np.zeros((m, d))
    U, said, sigmas, u_of_all = np.tile(start(d), (m, 1)), np.zeros((m, d)), [], start(d)
    for t in range(1, last + 1):
        v = np.zeros(m)
        there = [i for i in range(m) if t <= streams[i].last_round() and not absent(t, i)]
        for i in range(m):
            at = streams[i].index_at(t) if t <= streams[i].last_round() else None
            if at is not None:
                x, y = streams[i].rows[at], streams[i].labels[at]
                z = y * (W[i] @ x)
                f = max(0.0, 1.0 - z)
                gamma = capped_weight(f, p=q.p, limit=loss_limit(q.p, q.xi), kappa=q.kappa)
                if gamma > 0.0:
                    eta = q.eta0 / math.sqrt(t)
                    A[i] += eta * (q.lam * W[i] - q.rho * R[i])
                    W[i] -= eta * (q.lam * A[i] - gamma * (f > 0.0) * y * x)
            v[i] = A[i] @ U[i]
            if i in there:
                said[i] = np.rint(v[i] * A[i] * SCALE) / SCALE
        s = said.sum(axis=0)
        length = np.linalg.norm(s)
        sigmas.append(length / math.sqrt(u_of_all @ s) if length else 0.0)
        for i in there:
            if length:
                of_v = math.sqrt(max(U[i] @ s, v[i] ** 2))
                U[i] = s / length
                R[i] = v[i] / of_v * U[i] if length / of_v > 1.0 else 0.0
            else:
                R[i] = 0.0
        u_of_all = s / length if length else u_of_all
        if q.ended == "drop":
            for i in there:
                if t == streams[i].last_round():
                    said[i] = 0.0
    return W, A, sigmas


@pytest.mark.parametrize("ended", ["keep", "drop"])
@pytest.mark.parametrize("alignment", [list, spread])
@pytest.mark.parametrize("away", [False, True])
def test_a_direct_transcription_learns_the_same(ended: str, alignment: Callable, away: bool) -> None:
    """Outliers, idle rounds, streams that end, and a site that is absent for some rounds."""
    q = replace(Q, ended=ended)
    streams = alignment(random_streams([30, 12, 30, 19], flip=0.2))

    def absent(t: int, task: int) -> bool:
        return away and task == 2 and 8 <= t < 15

    journal = Journal([{t: [2] for t in range(1, 31) if absent(t, 2)}])
    for of_kind in (list, lambda dense: [sparse_stream(stream) for stream in dense]):
        result = run_reference(drom(q), of_kind(streams), seed=0, journal=journal)
        W, A, sigmas = transcription(streams, q, absent)
        for task, found in enumerate(result.tasks):
            np.testing.assert_allclose(found.model["w"], W[task], atol=1e-5)
            np.testing.assert_allclose(found.model["a"], A[task], atol=1e-5)
            assert found.totals.outliers > 0
        rows = np.frombuffer(result.central_records, dtype=central_dtype(4))
        np.testing.assert_allclose(rows["sigma_1"], sigmas, atol=1e-5)
        assert max(sigmas) > 1.0


def test_it_comes_to_the_exact_pair_while_nothing_moves() -> None:
    A = np.random.default_rng(3).standard_normal((4, DIM)) * [[3.0], [1.0], [0.5], [0.0]]
    algorithm = drom(Q)
    states, central = [state_of(row) for row in A], centre(algorithm, 4)
    for _ in range(80):
        states, central, sigma = exchange(algorithm, states, central)
    left, values, right = np.linalg.svd(A)
    assert sigma == pytest.approx(values[0], abs=1e-6)
    for task, state in enumerate(states):
        assert abs(float(state.u @ right[0])) == pytest.approx(1.0, abs=1e-9)
        assert state.u.tobytes() == states[0].u.tobytes()
        np.testing.assert_allclose(state.r, np.outer(left[:, 0], right[0])[task], atol=1e-6)


def test_the_residual_is_how_far_the_pair_is_from_being_exact() -> None:
    A = np.random.default_rng(4).standard_normal((3, DIM))
    algorithm = drom(Q)
    states, central = [state_of(row) for row in A], centre(algorithm, 3)
    for _ in range(5):
        u, v = states[0].u, A @ states[0].u
        said = {task: algorithm.send(state, 1)[1] for task, state in enumerate(states)}
        central, replies, info = algorithm.central_step(central, said)
        for task, state in enumerate(states):
            states[task] = algorithm.receive(state, replies[task], 1)
        of_v = np.linalg.norm(v)
        assert info.residual == pytest.approx(float(np.linalg.norm(A.T @ (v / of_v) - of_v * u)), abs=1e-6)


def test_no_correction_up_to_a_sigma_of_1() -> None:
    algorithm = drom(Q)
    for length, corrected in ((0.9, False), (1.1, True)):
        states, _, sigma = exchange(algorithm, [state_of(length * start(DIM))], centre(algorithm, 1))
        assert sigma == pytest.approx(length, abs=1e-6)
        assert (states[0].r is not None) == corrected
        if corrected:
            np.testing.assert_allclose(states[0].r, start(DIM), atol=1e-6)  # R = v u of one task


def test_without_the_coupling_it_has_the_bits_of_the_other_solvers() -> None:
    q = replace(Q, rho=0.0)
    streams = random_streams([25, 20, 25], flip=0.1)
    one, other = (run_reference(drom(replace(q, solver=solver)), streams, seed=0) for solver in ("sums", "power"))
    for ours, theirs in zip(one.tasks, other.tasks, strict=True):
        assert [ours.model[name].tobytes() for name in "wa"] == [theirs.model[name].tobytes() for name in "wa"]


# Who has no new a_i


def test_an_outlier_moves_nothing_but_answers_for_the_new_u_and_is_corrected() -> None:
    algorithm = drom(replace(Q, xi=0.1))
    state = replace(state_of(2.0 * start(DIM) + 0.5), u=frozen(np.eye(DIM)[1]))
    before = state.w.tobytes(), state.a.tobytes()
    state, prediction = algorithm.learn(state, Example(frozen(np.eye(DIM)[0]), -1.0), 3)
    state, contribution = algorithm.update(state, 3)
    assert (prediction.gamma, contribution) == (0.0, SKIP)
    state, contribution = algorithm.send(state, 3)
    assert (state.w.tobytes(), state.a.tobytes()) == before
    assert contribution.kind is ContributionKind.VECTORS
    np.testing.assert_allclose(contribution.vectors[0] / SCALE, state.a[1] * state.a, atol=1e-7)
    states, _, sigma = exchange(algorithm, [state], centre(algorithm, 1), 3)
    assert sigma > 1.0
    assert states[0].r is not None


def test_an_idle_task_answers_each_round() -> None:
    streams = spread(random_streams([20, 5, 20]))
    result = run_reference(drom(Q), streams, seed=0)
    rows = np.frombuffer(result.central_records, dtype=central_dtype(3))
    assert rows["pushed"].tolist() == [3] * 20
    assert rows["idle"].sum() == rows["skipped"].sum() == 0


@pytest.mark.parametrize("ended", ["keep", "drop"])
def test_the_last_summand_of_a_task_that_has_ended_stands_or_goes(ended: str) -> None:
    algorithm = drom(replace(Q, ended=ended))
    states, central = [state_of([5.0, 1.0]), state_of([0.0, 2.0])], centre(algorithm, 2, 2)
    states, said = map(list, zip(*[algorithm.send(state, 1) for state in states], strict=True))
    central, replies, _ = algorithm.central_step(central, {0: said[0]._replace(last=True), 1: said[1]})
    both = said[0].vectors[0] + said[1].vectors[0]
    assert [reply.vectors[0].tolist() for reply in replies.values()] == [[both.tolist()]] * 2  # it counts in its last
    central, replies, _ = algorithm.central_step(central, {1: said[1]})
    assert replies[1].vectors[0][0].tolist() == (both if ended == "keep" else said[1].vectors[0]).tolist()


def test_who_was_away_and_says_something_of_an_old_u_is_corrected_by_at_most_1() -> None:
    rng = np.random.default_rng(5)
    algorithm = drom(Q)
    states, central = [state_of(row) for row in 3.0 * rng.standard_normal((3, DIM))], centre(algorithm, 3)
    for t in range(1, 12):
        states, central, _ = exchange(algorithm, states, central, t, silent=[0] if 2 < t < 9 else [])
        assert (states[0].u.tobytes() == states[1].u.tobytes()) == (not 2 < t < 9)
        lengths = [float(np.linalg.norm(state.r)) for state in states if state.r is not None]
        assert len(lengths) == 3
        assert max(lengths) <= 1.0 + 1e-12


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_whatever_the_total_is_the_correction_is_at_most_1(sign: int, is_sparse: bool) -> None:
    """A reducer, or one task, may say what it likes."""
    algorithm = drom(Q)
    for v in (0.0, 1e-200, 2.0):
        state = replace(state_of(np.ones(DIM)), v=v)
        total = np.full((1, DIM), sign * MOST_OF_SUM)
        block = SparseVectors(np.array([2]), total[:, :1], DIM) if is_sparse else total
        state = algorithm.receive(state, Reply(ReplyKind.VECTORS, (block,)), 4)
        assert np.linalg.norm(state.u) == pytest.approx(1.0)
        assert state.r is None or np.linalg.norm(state.r) <= 1.0 + 1e-12


def test_nobody_has_said_anything_and_nothing_is_said_twice() -> None:
    algorithm = drom(Q)
    central = centre(algorithm, 2)
    central, replies, info = algorithm.central_step(central, {0: SKIP})
    assert (replies, info.sigma, info.residual) == ({0: KEEP}, 0.0, 0.0)


# What it is for


def test_the_order_of_the_tasks_changes_no_bit() -> None:
    """Sums of integers are exact: a relay or a tree may add them as they come."""
    streams, order = random_streams([20, 14, 20, 17], flip=0.1), [2, 0, 3, 1]
    straight = run_reference(drom(Q), streams, seed=0)
    permuted = run_reference(drom(Q), [streams[task] for task in order], seed=9)
    assert [task.chain for task in permuted.tasks] == [straight.tasks[task].chain for task in order]
    assert permuted.central_chain == straight.central_chain


def test_in_the_clear_u_and_a_summand_show_the_dual_vector_up_to_its_sign() -> None:
    """docs/algorithms.md says so: what masks are for."""
    algorithm = drom(Q)
    a = np.random.default_rng(1).standard_normal(DIM)
    state, contribution = algorithm.send(state_of(a), 1)
    said = contribution.vectors[0] / SCALE
    found = said / math.sqrt(float(said @ state.u))
    np.testing.assert_allclose(found * np.sign(found @ a), a, atol=1e-6)


def test_what_travels_is_never_written_to() -> None:
    algorithm = drom(Q)
    states, central = [state_of([5.0, 1.0]), state_of([0.0, 2.0])], centre(algorithm, 2, 2)
    kept: list[tuple[np.ndarray, bytes]] = []
    for t in range(1, 5):
        said: dict[int, Contribution] = {}
        for task, state in enumerate(states):
            states[task], said[task] = algorithm.send(state, t)
        central, replies, _ = algorithm.central_step(central, said)
        for value in (*said.values(), *replies.values()):
            kept += [(frozen(block), block.tobytes()) for block in value.vectors]
        states = [algorithm.receive(state, replies[task], t) for task, state in enumerate(states)]
    assert all(block.tobytes() == before for block, before in kept)
