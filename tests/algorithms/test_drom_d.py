"""DROM-D: Algorithm 2 written down once more, and the invariants of section 8."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from helpers import frozen, graph_of, random_streams, run_loop, sparse_stream, spread

from drom_net.algorithms.base import NO_REPLY, ZERO, Contribution, ContributionKind, Example, Reply, ReplyKind
from drom_net.algorithms.drom import DromState
from drom_net.algorithms.drom_d import DromDParameters, drom_d
from drom_net.algorithms.features import Matrix
from drom_net.algorithms.learner import of_task
from drom_net.algorithms.local import LocalParameters, local
from drom_net.core.seeding import stream as random_stream
from drom_net.data.stream import TaskStream
from drom_net.graph.families import one_peer_exponential
from drom_net.graph.graph import Graph, GraphSchedule
from drom_net.graph.weights import mixing_weights
from drom_net.learning.records import TASK_DTYPE, central_dtype
from drom_net.learning.reference import PeersResult, run_reference
from drom_net.learning.task import TaskLearner

INF = math.inf
PLAIN = DromDParameters(eta0=1.0, lam=1.0, rho=1.0, p=1.0, xi=INF, kappa=INF, loss="hinge")
CAPPED = DromDParameters(eta0=1.5, lam=0.3, rho=0.4, p=0.7, xi=1.1, kappa=2.0, loss="hinge", solver="gram")
X = frozen(np.array([0.6, 0.8, 0.0]))


# Algorithm 2, written down once more


def algorithm_2(
    streams: Sequence[TaskStream], cycle: Sequence[Matrix], q: DromDParameters, *, delayed: bool
) -> tuple[list[list[float]], Matrix, Matrix, list[float], list[float]]:
    """The paper's listing in its own layout (a column a task), with the lambda, rho and eta0 of section 2; hinge.

    `cycle` has S of one sync round after the other, over and over. tau may be one for each task.

    Returns:
        Scores per task, W, A, and every gamma and sigma_1 on the way.
    """
    m, d = len(streams), streams[0].dim
    W, A, R = np.zeros((d, m)), np.zeros((d, m)), np.zeros((d, m))
    tau = [q.tau] * m if isinstance(q.tau, int) else q.tau
    stood = [A.copy()]  # A as it stood after each round
    scores: list[list[float]] = [[] for _ in streams]
    gammas, sigmas = [], []
    for t in range(1, max(stream.num_examples for stream in streams) + 1):
        live = [i for i in range(m) if t <= streams[i].num_examples]
        for i in live:
            eta = q.eta0 / math.sqrt(math.ceil(t / tau[i]))
            x, y = np.asarray(streams[i].rows)[t - 1], streams[i].labels[t - 1]
            scores[i].append(float(W[:, i] @ x))
            f = max(0.0, 1.0 - y * scores[i][-1])
            if f == 0.0:
                gamma, gradient = q.kappa, np.zeros(d)
            else:
                gamma, gradient = (min(q.p * f ** (q.p - 1.0), q.kappa) if f**q.p <= q.xi else 0.0), -y * x
            gammas.append(gamma)
            if gamma == 0.0 and q.outlier == "skip":
                continue
            W[:, i] = W[:, i] - eta * (q.lam * A[:, i] + gamma * gradient)
            A[:, i] = A[:, i] + eta * (q.lam * W[:, i] - q.rho * R[:, i])
        stood.append(A.copy())
        for i in live:
            if t % tau[i] or (delayed and t == tau[i]):
                continue  # nothing was sent before: R = 0
            used = t - tau[i] if delayed else t
            S = cycle[(used // tau[i] - 1) % len(cycle)]
            # Of each task the last column that it had sent by then.
            columns = [stood[used - used % tau[j]][:, j] for j in range(m)]
            own = np.column_stack(columns) @ np.diag(S[i] / S[i, i])
            u, s, vt = np.linalg.svd(own, full_matrices=False)
            sigmas.append(float(s[0]))
            R[:, i] = vt[0, i] * u[:, 0] if s[0] > 1.0 else 0.0
    return scores, W, A, gammas, sigmas


def mask_of(graph: Graph) -> Matrix:
    S = np.eye(graph.num_tasks)
    for i, row in enumerate(graph.neighbors):
        S[i, list(row)] = 1.0
    return S


def rows_of(result: PeersResult, task: int) -> np.ndarray:
    rows = np.frombuffer(result.task_records[task], dtype=TASK_DTYPE)
    return rows[rows["active"] == 1]


def assert_as_written(
    streams: Sequence[TaskStream], graphs: Sequence[Graph], q: DromDParameters, *, delayed: bool
) -> None:
    cycle = [mask_of(graph) if graph.weights is None else graph.weights for graph in graphs]
    scores, W, A, gammas, sigmas = algorithm_2(streams, cycle, q, delayed=delayed)
    algorithms = [drom_d(of_task(q, task)) for task in range(len(streams))]
    result = run_loop(algorithms, streams, GraphSchedule(tuple(graphs)), seed=0, delayed=delayed)
    for i in range(len(streams)):
        np.testing.assert_allclose(rows_of(result, i)["score"], scores[i], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(result.tasks[i].model["w"], W[:, i], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(result.tasks[i].model["a"], A[:, i], rtol=1e-12, atol=1e-12)
    assert 0.0 in gammas  # it has outliers
    assert max(gammas) > 0.0
    if q.tau == 1 and len(cycle) == 1:
        assert min(sigmas) <= 1.0 < max(sigmas)  # rounds with a correction, and without


GRAPHS = {
    "full": graph_of("full", 5),
    "ring": graph_of("ring", 5),
    "path": graph_of("path", 5),
    "metropolis": graph_of("path", 5, weights="metropolis"),
    "lazy": graph_of("ring", 5, weights="lazy"),
}


@pytest.mark.parametrize("lengths", [[40] * 5, [40, 23, 40, 37, 6]], ids=["equal", "unequal"])
@pytest.mark.parametrize("outlier", ["regularise", "skip"])
@pytest.mark.parametrize("delayed", [False, True], ids=["blocking", "delayed"])
@pytest.mark.parametrize("tau", [1, 5, 20])
@pytest.mark.parametrize("graph", GRAPHS)
def test_it_is_algorithm_2(graph: str, tau: int, delayed: bool, outlier: str, lengths: list[int]) -> None:
    streams = random_streams(lengths, flip=0.2, seed=3)
    assert_as_written(streams, [GRAPHS[graph]], replace(CAPPED, tau=tau, outlier=outlier), delayed=delayed)


@pytest.mark.parametrize("lengths", [[40] * 5, [40, 23, 40, 37, 6]], ids=["equal", "unequal"])
@pytest.mark.parametrize("delayed", [False, True], ids=["blocking", "delayed"])
@pytest.mark.parametrize("taus", [(1, 2, 3, 4, 5), (5, 5, 10, 5, 5), (7, 1, 1, 1, 12)], ids=str)
@pytest.mark.parametrize("graph", GRAPHS)
def test_with_a_tau_for_each_task_the_last_column_sent_counts(
    graph: str, taus: tuple[int, ...], delayed: bool, lengths: list[int]
) -> None:
    streams = random_streams(lengths, flip=0.2, seed=3)
    assert_as_written(streams, [GRAPHS[graph]], replace(CAPPED, tau=taus), delayed=delayed)


@pytest.mark.parametrize("lengths", [[40] * 5, [40, 23, 40, 37, 6]], ids=["equal", "unequal"])
@pytest.mark.parametrize("delayed", [False, True], ids=["blocking", "delayed"])
@pytest.mark.parametrize("tau", [1, 3])
@pytest.mark.parametrize("weights", ["mask", "lazy"])
def test_a_cycle_of_graphs_is_one_s_after_the_other(weights: str, tau: int, delayed: bool, lengths: list[int]) -> None:
    """decisions.md: "A^(i) holds this round's members only"."""
    graphs = one_peer_exponential(5)
    if weights == "lazy":
        graphs = tuple(replace(graph, weights=mixing_weights(graph, "lazy")) for graph in graphs)
    streams = random_streams(lengths, flip=0.2, seed=3)
    assert_as_written(streams, graphs, replace(CAPPED, tau=tau), delayed=delayed)


def test_a_correction_is_kept_between_two_sync_rounds_and_delayed_comes_one_later() -> None:
    streams = random_streams([40] * 3, seed=1)
    q = replace(CAPPED, tau=10, eta0=3.0, lam=0.5, xi=INF)

    def first_of(delayed: bool) -> list[int]:
        """Rounds after which the task holds a correction."""
        held = []

        def look(t: int, learners: Sequence[TaskLearner], sigma: float | None) -> bool:
            if learners[0]._state.r is not None:
                held.append(t)
            return True

        run_loop(drom_d(q), streams, graph_of("full", 3), seed=0, delayed=delayed, after_round=look)
        return held

    assert first_of(False) == list(range(10, 41))
    assert first_of(True) == list(range(20, 41))


# The steps by hand


def one_round(
    q: DromDParameters, state: DromState, example: Example, t: int, reply: Reply = NO_REPLY
) -> tuple[DromState, Contribution]:
    algorithm = drom_d(q)
    state, _ = algorithm.learn(state, example, t)
    state = state if reply is NO_REPLY else algorithm.receive(state, reply, t - 1)
    return algorithm.update(state, t)


def test_two_rounds_by_hand() -> None:
    """Algorithm 2, lambda = rho = 1, plain hinge: w with a_t first, then a with w_(t+1)."""
    x = frozen(np.array([1.0, 0.0]))
    # Round 1, eta = 1: w = 0 - (0 - x) = (1, 0); a = 0 + (1, 0) - 0.
    state, contribution = one_round(PLAIN, drom_d(PLAIN).init_local(2), Example(x, 1.0), 1)
    assert (list(state.w), list(state.a)) == ([1.0, 0.0], [1.0, 0.0])
    assert contribution.kind is ContributionKind.VECTORS
    assert list(contribution.vectors[0]) == [1.0, 0.0]
    # Round 2, R = (0, 1), y = -1: w = (1, 0) - eta ((1, 0) + x); a = (1, 0) + eta (w - (0, 1)).
    eta = 1.0 / math.sqrt(2.0)
    reply = Reply(ReplyKind.VECTORS, (frozen(np.array([0.0, 1.0])),))
    state, _ = one_round(PLAIN, state, Example(x, -1.0), 2, reply)
    np.testing.assert_allclose(state.w, [1.0 - 2.0 * eta, 0.0], rtol=1e-15)
    np.testing.assert_allclose(state.a, [1.0 + eta * (1.0 - 2.0 * eta), -eta], rtol=1e-15)
    assert list(contribution.vectors[0]) == [1.0, 0.0]  # what was said is not written to


@pytest.mark.parametrize(("t", "steps"), [(1, 1), (5, 1), (6, 2), (10, 2), (11, 3)])
def test_the_step_falls_once_a_period(t: int, steps: int) -> None:
    """eta_t = eta0 / sqrt(ceil(t/tau)), tau = 5."""
    q = replace(PLAIN, tau=5, eta0=2.0)
    state, _ = one_round(q, drom_d(q).init_local(3), Example(X, 1.0), t)
    np.testing.assert_allclose(state.w, 2.0 / math.sqrt(steps) * X, rtol=1e-15)
    assert [s for s in range(1, 16) if drom_d(q).is_sync(s)] == [5, 10, 15]


def test_an_outlier_moves_w_and_a_as_printed_once_a_is_not_0() -> None:
    """Section 2: "as printed the regularisation step is still done (no condition there)"."""
    q = replace(PLAIN, xi=1.0)
    w, a, r = np.array([1.0, 0.1, 0.3]), np.array([0.1, -0.2, 0.3]), np.array([0.0, 0.6, 0.0])
    state = DromState(w.copy(), a.copy(), frozen(r.copy()))
    state, contribution = one_round(q, state, Example(X, -1.0), 4)
    assert state.gamma == 0.0
    moved = w - 0.5 * a
    np.testing.assert_allclose(state.w, moved, rtol=1e-15)
    np.testing.assert_allclose(state.a, a + 0.5 * (moved - r), rtol=1e-15)
    assert contribution.vectors[0].tobytes() == state.a.tobytes()
    # With w = a = 0 (and so f = 1 > xi) there is nothing to move.
    still, _ = one_round(replace(q, xi=0.5), drom_d(q).init_local(3), Example(X, -1.0), 4)
    assert not still.w.any()
    assert not still.a.any()


def test_an_outlier_that_is_skipped_changes_no_bit_and_says_its_last_a() -> None:
    q = replace(PLAIN, xi=1.0, outlier="skip")
    state = DromState(np.array([1.0, 0.1, 0.3]), np.array([0.1, -0.2, 0.3]), None)
    before = state.w.tobytes(), state.a.tobytes()
    r = frozen(np.array([0.0, 0.6, 0.0]))
    state, contribution = one_round(q, state, Example(X, -1.0), 4, Reply(ReplyKind.VECTORS, (r,)))
    assert (state.w.tobytes(), state.a.tobytes()) == before
    assert contribution.kind is ContributionKind.VECTORS
    assert contribution.vectors[0].tobytes() == before[1]
    assert state.r is r  # the reply in hand is taken all the same


def test_a_zero_takes_the_correction_away() -> None:
    state = DromState(np.zeros(3), np.zeros(3), frozen(np.ones(3)))
    state, _ = one_round(PLAIN, state, Example(X, 1.0), 1, ZERO)
    assert state.r is None
    np.testing.assert_allclose(state.a, X, rtol=1e-15)


@pytest.mark.parametrize(
    ("length", "kind"), [(1.0, ReplyKind.ZERO), (math.nextafter(1.0, 2.0), ReplyKind.VECTORS), (0.0, ReplyKind.ZERO)]
)
@pytest.mark.parametrize("solver", ["power", "gram"])
def test_a_correction_needs_sigma_above_1(length: float, kind: ReplyKind, solver: str) -> None:
    """I(sigma_1 > 1) is strict."""
    algorithm = drom_d(replace(PLAIN, solver=solver))
    central = algorithm.init_central((3, 5), 2, random_stream(0, "power"))
    word = Contribution(ContributionKind.VECTORS, (frozen(np.array([0.0, length])),))
    nothing = Contribution(ContributionKind.VECTORS, (frozen(np.zeros(2)),))
    _, replies, info = algorithm.central_step(central, {3: nothing, 5: word})
    assert replies[5].kind is kind
    assert info.sigma == length


# Invariants


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("alignment", [list, spread])
@pytest.mark.parametrize("graph", ["full", "ring"])
def test_uncoupled_it_is_local_bit_for_bit(loss: str, kind: str, alignment: type, graph: str) -> None:
    """Section 8: "lambda = rho = 0, p = 1, xi = kappa = inf: DROM = DROM-D = Local: bits"."""
    streams = alignment(random_streams([40, 25, 40, 31], density=0.6, flip=0.2))
    if kind == "sparse":
        streams = [sparse_stream(stream) for stream in streams]
    q = replace(PLAIN, lam=0.0, rho=0.0, loss=loss, eta0=0.9)
    ours = run_loop(drom_d(q), streams, graph_of(graph, 4), seed=0)
    alone = run_reference(local(LocalParameters(eta0=0.9, loss=loss)), streams, seed=0)
    for task in range(4):
        theirs = np.frombuffer(alone.task_records[task], dtype=TASK_DTYPE)
        assert rows_of(ours, task)["score"].tobytes() == theirs[theirs["active"] == 1]["score"].tobytes()
        assert ours.tasks[task].model["w"].tobytes() == alone.tasks[task].model["w"].tobytes()
        assert ours.tasks[task].totals.errors == alone.tasks[task].totals.errors


def test_on_a_full_graph_with_tau_1_all_hold_one_pair_at_every_round() -> None:
    """Section 8: "full graph, tau = 1: all workers hold one u v^T: rank <= 1; 1e-9"."""
    streams = random_streams([60] * 4, flip=0.1)
    q = replace(CAPPED, xi=INF)
    found = set()

    def look(t: int, learners: Sequence[TaskLearner], sigma: float | None) -> bool:
        corrections = [learner._state.r for learner in learners]
        (corrected,) = {correction is not None for correction in corrections}  # all, or none
        found.add(corrected)
        if corrected:
            values = np.linalg.svd(np.stack(corrections), compute_uv=False)
            assert values[0] == pytest.approx(1.0, abs=1e-9)  # u and v are of unit length
            assert values[1] <= 1e-9
        return True

    result = run_loop(drom_d(q), streams, graph_of("full", 4), seed=0, after_round=look)
    assert found == {False, True}
    assert len(set(result.central_records)) == 1
    assert len(np.frombuffer(result.central_records[0], dtype=central_dtype(4))) == 60


@pytest.mark.parametrize("tau", [1, 5])
def test_on_a_full_graph_a_reducer_would_give_the_same_bits(tau: int) -> None:
    streams = random_streams([40] * 4, flip=0.1)
    algorithm = drom_d(replace(CAPPED, tau=tau, solver="power"))
    peers = run_loop(algorithm, streams, graph_of("full", 4), seed=5)
    star = run_reference(algorithm, streams, seed=5)
    assert peers.task_records == star.task_records
    assert [task.chain for task in peers.tasks] == [task.chain for task in star.tasks]
    assert set(peers.central_records) == {star.central_records}


@pytest.mark.parametrize("solver", ["power", "gram"])
@pytest.mark.parametrize("delayed", [False, True])
@pytest.mark.parametrize("tau", [1, 5])
def test_without_edges_it_is_m_runs_of_one_task(solver: str, delayed: bool, tau: int) -> None:
    """Section 8: "S = I equals m runs with m = 1"; here bit for bit."""
    streams = random_streams([40, 17, 40], flip=0.1)
    algorithm = drom_d(replace(CAPPED, tau=tau, solver=solver))
    together = run_loop(algorithm, streams, graph_of("edges", 3, edges=()), seed=2, delayed=delayed)
    for task, stream in enumerate(streams):
        alone = run_loop(algorithm, [stream], graph_of("full", 1), seed=2, delayed=delayed)
        assert together.tasks[task].chain == alone.tasks[0].chain
        assert together.task_records[task] == alone.task_records[0]
        assert together.central_records[task] == alone.central_records[0]


def test_only_neighbors_count() -> None:
    """A^(i) has own columns only: what task 3 of a path learns travels one edge in a sync round."""
    streams = random_streams([12] * 4)
    other = [*streams[:3], random_streams([12] * 4, seed=9)[3]]
    graph = graph_of("path", 4)
    algorithm = drom_d(replace(CAPPED, tau=4, eta0=3.0, lam=0.5, xi=INF))
    one, two = (run_loop(algorithm, given, graph, seed=0) for given in (streams, other))
    # 3's word of round 4 reaches 2 in a of round 5, so in w of round 6 and the score of 7; its own of round 8 then 1.
    for task, first in enumerate([13, 11, 7]):
        same = rows_of(one, task)["score"] == rows_of(two, task)["score"]
        assert same.tolist() == [t < first for t in range(1, 13)]
    assert one.tasks[0].chain == two.tasks[0].chain
