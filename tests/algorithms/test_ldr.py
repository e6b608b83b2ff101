"""LDR against a plain transcription of its update equations, and what it promises."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers import graph_of, hoods_of, random_streams, run_loop, sparse_stream

from drom_net.algorithms.base import Algorithm, Contribution, Example, SyncRounds
from drom_net.algorithms.features import SparseVectors, other_than
from drom_net.algorithms.ldr import EVIDENCE, LDRParameters, ldr, ldr_d, scales_of, totals
from drom_net.algorithms.ridge import ExactRidge, WindowRidge, ridge
from drom_net.data.stream import TaskStream
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import run_reference

D = 7


def schedule(tau: float, rounds: int) -> list[int]:
    """t_(k+1) = t_k + max(1, min(tau, floor(t_k / 4)))."""
    found, t = [], 0
    while t <= rounds:
        t = int(t + max(1, min(tau, t // 4)))
        found.append(t)
    return found


@pytest.mark.parametrize("tau", [1, 2, 5, 20, 2**62])
def test_the_sync_rounds_grow_apart(tau: int) -> None:
    sync, wanted = SyncRounds(tau, growing=True), schedule(tau, 1000)
    assert [t for t in range(1001) if sync.at(t)] == [t for t in wanted if t <= 1000]
    for t in range(1, 900):
        assert sync.next(t) == min(s for s in wanted if s >= t)
        assert sync.last(t) == max((s for s in wanted if s <= t), default=0)
        assert sync.count(t) == sum(s <= t for s in wanted)


def test_without_a_bound_there_are_about_4_and_a_half_ln_t_of_them() -> None:
    sync = SyncRounds(2**62, growing=True)
    for rounds in (100, 1000, 10_000, 10**6):
        assert sync.count(rounds) <= 5 * math.log(rounds)


def s(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z))


def pi(z: float) -> float:
    return 0.1 + 0.8 * s(z)


def slope(z: float, y: float) -> float:
    return -y * 0.8 * s(y * z) * (1.0 - s(y * z)) / pi(y * z)


class Plain:
    """Sections 2 and 3, one task, as they are written: dense vectors, no sharing of code."""

    def __init__(self, m: int, i: int) -> None:
        self.m, self.i, self.kappa = m, i, math.sqrt(m)
        self.W, self.V, self.V2, self.P, self.q = (np.zeros(D) for _ in range(5))
        self.GW, self.GV, self.GV2 = (np.full(D, 1e-8) for _ in range(3))
        self.Z, self.Q = np.zeros(D), np.zeros(D)
        self.U = np.zeros((m, D))
        self.a, self.b = np.full(m, 1.0 / m), np.full(m, 0.01)
        self.w = np.full(7, 1 / 7)
        self.rows: list[np.ndarray] = []
        self.labels: list[float] = []
        self.left: list[float] = []
        self.alone = np.full(2, 0.5)
        self.loss_alone = 0.0

    def fit(self, targets: list[float]) -> np.ndarray:
        """Ridge regression over all examples so far."""
        X = np.array(self.rows).reshape(-1, D)
        return np.linalg.inv(0.1 * np.eye(D) + X.T @ X) @ X.T @ np.array(targets)

    def model(self) -> np.ndarray:
        """What it tells the others."""
        return 4 * self.fit(self.labels)

    def step(self, x: np.ndarray, y: float) -> float:
        """The score of x, after which it is learned."""
        eta = min(0.5, 5.0 / np.abs(x).sum())
        S = -eta * (self.Z + self.kappa * self.P) / np.sqrt(self.Q + self.kappa * self.q + 1e-8)
        h = np.array([self.model() @ x if j == self.i else self.U[j] @ x for j in range(self.m)])
        z = [self.W @ x, S @ x, S @ x + self.V @ x, self.a @ h, self.a @ h + self.V2 @ x]
        prior = float(np.clip(S @ x / 4, -1, 1))
        z += [self.model() @ x, 4 * (prior + self.fit(self.left) @ x)]
        self.rows.append(x)
        self.labels.append(y)
        self.left.append(y - prior)
        p = sum(w * pi(one) for w, one in zip(self.w, z, strict=True))
        c = [slope(one, y) for one in z]
        for w, G, gradient in ((self.W, self.GW, c[0] * x), (self.V, self.GV, c[2] * x), (self.V2, self.GV2, c[4] * x)):
            G += gradient**2
            w -= eta * gradient / np.sqrt(G)
        self.P += c[1] * x
        self.q += (c[1] * x) ** 2
        self.b += (c[3] * h) ** 2
        self.a -= 0.1 * c[3] * h / np.sqrt(self.b)
        weights = np.array([w * pi(y * one) for w, one in zip(self.w, z, strict=True)])  # w exp(-f), f = -log pi
        self.w = 0.99 * weights / weights.sum() + 0.01 / 7
        given = self.alone * np.array([pi(y * z[0]), pi(y * z[5])])
        self.loss_alone -= math.log(given.sum())
        self.alone = 0.99 * given / given.sum() + 0.01 / 2
        return float(p - 0.5)


def plain_scores(streams: list[TaskStream], tau: float) -> list[list[float]]:
    m, rounds = len(streams), streams[0].num_examples
    tasks = [Plain(m, i) for i in range(m)]
    Z, Q = np.zeros(D), np.zeros(D)
    scores: list[list[float]] = [[] for _ in tasks]
    syncs = set(schedule(tau, rounds))
    for t in range(1, rounds + 1):
        for task, stream, found in zip(tasks, streams, scores, strict=True):
            x = stream.features(t - 1)
            assert isinstance(x, np.ndarray)
            found.append(task.step(x, stream.label(t - 1)))
        if t in syncs:
            for task in tasks:
                Z, Q = Z + task.P, Q + task.q
                task.P, task.q = np.zeros(D), np.zeros(D)
            for task in tasks:
                task.Z, task.Q, task.U = Z, Q, np.array([other.model() for other in tasks])
    return scores


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(("tau", "plain_tau"), [(1, 1), (4, 4), (0, math.inf)])
def test_it_is_what_its_equations_say(kind: str, tau: int, plain_tau: float) -> None:
    streams = random_streams([60] * 4, flip=0.1, density=0.6)
    wanted = plain_scores(streams, plain_tau)
    given = [sparse_stream(stream) for stream in streams] if kind == "sparse" else streams
    result = run_reference(ldr(LDRParameters(tau=tau, robust=False)), given, seed=0)
    for rows, scores in zip(result.task_records, wanted, strict=True):
        np.testing.assert_allclose(np.frombuffer(rows, TASK_DTYPE)["score"], scores, atol=1e-9)


def plain_tree_scores(streams: list[TaskStream], edges: list[tuple[int, int]], neighbors: dict[int, set[int]]) -> Any:
    """Sums along a tree, models of neighbors, tau = 1: each edge carries what is behind it, one edge a round."""
    m, rounds = len(streams), streams[0].num_examples
    tasks = [Plain(len(neighbors[i]) + 1, sorted({i, *neighbors[i]}).index(i)) for i in range(m)]
    ways = [*edges, *((j, i) for i, j in edges)]
    behind = {way: np.zeros((2, D)) for way in ways}
    own = np.zeros((m, 2, D))
    scores: list[list[float]] = [[] for _ in tasks]
    for t in range(rounds):
        for i, (task, stream) in enumerate(zip(tasks, streams, strict=True)):
            task.kappa = 1.0
            x = stream.features(t)
            assert isinstance(x, np.ndarray)
            scores[i].append(task.step(x, stream.label(t)))
            own[i] += task.P, task.q
            task.P, task.q = np.zeros(D), np.zeros(D)
        # What is said now is what had come before, and one's own.
        behind = {
            (i, j): own[i] + sum((behind[k, to] for k, to in ways if to == i and k != j), np.zeros((2, D)))
            for i, j in ways
        }
        for i, task in enumerate(tasks):
            task.Z, task.Q = own[i] + sum(behind[k, to] for k, to in ways if to == i)
            task.U = np.array([tasks[j].model() for j in sorted({i, *neighbors[i]})])
    return scores


def test_sums_along_a_tree_are_what_its_equations_say() -> None:
    streams = random_streams([50] * 5, flip=0.1, density=0.6)
    ring = graph_of("ring", 5)
    hoods = hoods_of(ring, [ldr_d()] * 5)
    edges = [(hood.task, other) for hood in hoods for other in hood.tree or () if hood.task < other]
    assert sorted(edges) == [(0, 1), (0, 4), (1, 2), (3, 4)]
    wanted = plain_tree_scores(streams, edges, {hood.task: set(hood.neighbors) for hood in hoods})
    for given in (streams, [sparse_stream(stream) for stream in streams]):
        result = run_loop(ldr_d(LDRParameters(tau=1, robust=False)), given, ring, seed=0)
        for rows, scores in zip(result.task_records, wanted, strict=True):
            np.testing.assert_allclose(np.frombuffer(rows, TASK_DTYPE)["score"], scores, atol=1e-9)


@pytest.mark.parametrize("factor", [1e3, -1e3, 1e150])
@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("robust", [False, True])
def test_a_site_that_sends_garbage_ends_nobody_s_run(factor: float, tree: bool, robust: bool) -> None:
    """Also of squares, which are then below 0; and no task loses more against learning alone than is promised."""
    streams = random_streams([80] * 6, flip=0.1)

    def garbage(contribution: Contribution) -> Contribution:
        vectors = [factor * block / np.abs(block).max() for block in contribution.vectors]
        return contribution._replace(vectors=tuple(vectors))

    def poisoned(algorithm: Algorithm) -> Algorithm:
        def central_step(state: Any, contributions: Any, members: Any = None) -> Any:
            bad = {0: garbage(contributions[0])} if 0 in contributions else {}
            return algorithm.central_step(state, {**contributions, **bad}, members)

        return algorithm._replace(central_step=central_step)

    parameters = LDRParameters(tau=1, robust=robust)
    if tree:
        make = ldr_d(parameters)
        assert make.at is not None
        bad = make._replace(at=lambda *place: poisoned(make.at(*place)))  # type: ignore[misc]
        tasks = run_loop(bad, streams, graph_of("ring", 6), seed=0).tasks
    else:
        tasks = run_reference(poisoned(ldr(parameters)), streams, seed=0).tasks
    for task in tasks[1:]:
        evidence = dict(zip(EVIDENCE, task.model["evidence"], strict=True))
        assert evidence["loss"] <= evidence["loss_alone"] + math.log(3.5) + 80 * -math.log(1 - 0.01 + 0.01 / 7) + 0.5


def test_a_full_graph_computes_what_a_reducer_does() -> None:
    streams = random_streams([40] * 4, flip=0.1)
    for tau in (1, 3):
        star = run_reference(ldr(LDRParameters(tau=tau, robust=True)), streams, seed=0)
        peers = run_loop(ldr_d(LDRParameters(tau=tau, robust=True)), streams, graph_of("full", 4), seed=0)
        assert peers.task_records == star.task_records


def test_what_others_send_costs_a_task_little() -> None:
    """sum -log p <= the loss of any expert that learns alone + ln 7 + about 0.0086 n, whatever comes."""
    (stream,) = random_streams([300], flip=0.1)
    garbage = random_streams([300] * 3, flip=0.5, seed=9)
    result = run_reference(ldr(LDRParameters(tau=1)), [stream, *garbage], seed=0)
    rows = np.frombuffer(result.task_records[0], TASK_DTYPE)
    mixture = float(np.sum(rows["loss"]))
    alone, plain = 0.0, Plain(1, 0)
    for t in range(300):
        x, y = stream.features(t), stream.label(t)
        assert isinstance(x, np.ndarray)
        alone -= math.log(pi(y * float(plain.W @ x)))
        plain.step(x, y)
    assert mixture <= alone + math.log(7) + 300 * -math.log(1 - 0.01 + 0.01 / 7) + 1e-9
    evidence = dict(zip(EVIDENCE, result.tasks[0].model["evidence"], strict=True))
    assert evidence["loss"] == pytest.approx(mixture)
    assert evidence["loss_alone"] == pytest.approx(plain.loss_alone)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_window_of_ridge_regression_is_that_of_its_last_examples(sparse: bool) -> None:
    rng = np.random.default_rng(1)
    ridge = WindowRidge(np.zeros((D, 6)), np.zeros((2, 6)), np.zeros((6, 6)), 0.7)
    X, targets = rng.standard_normal((200, D)), rng.standard_normal((200, 2))
    X[:, 3:] *= rng.random((200, D - 3)) < 0.4
    for t, (x, target) in enumerate(zip(X, targets, strict=True)):
        at = np.flatnonzero(x) if sparse else slice(None)
        seen, wanted = X[max(0, t - 6) : t], targets[max(0, t - 6) : t]
        weights = wanted.T @ np.linalg.inv(0.7 * np.eye(len(seen)) + seen @ seen.T) @ seen
        means, likeness = ridge.means(at, x[at])
        np.testing.assert_allclose(means, weights @ x, atol=1e-9)
        np.testing.assert_allclose(ridge.vectors(), weights, atol=1e-9)
        ridge.learn(at, x[at], likeness, target)


@pytest.mark.parametrize("scale", [255.0, 1e3, 1e7])
@pytest.mark.parametrize("window", [False, True])
def test_rows_far_from_unit_norm_end_no_run(scale: float, window: bool) -> None:
    rng = np.random.default_rng(3)
    few = rng.random((20, D))
    made = ridge(D, 2)
    if window:
        made = WindowRidge(np.zeros((D, 6)), np.zeros((2, 6)), np.zeros((6, 6)), 1.0)
    assert made is not None
    for _ in range(500):
        x = scale * few[rng.integers(20)]
        means, seen = made.means(slice(None), x)
        assert np.isfinite(means).all()
        made.learn(slice(None), x, seen, (1.0, -1.0))
    assert np.isfinite(made.vectors()).all()


def test_whoever_may_miss_a_word_is_told_all_each_time() -> None:
    (stream,) = [sparse_stream(stream) for stream in random_streams([5], density=0.3)]
    make = ldr_d(LDRParameters(tau=1))
    assert make.at is not None
    for tree, blocks in ((None, 1), ((1,), 3)):
        algorithm = make.at(0, (0, 1, 2), tree, True)
        state = algorithm.init_local(D)
        for t in range(1, 4):
            state, _ = algorithm.primal_step(state, Example(stream.features(t - 1), stream.label(t - 1)), t)
            assert algorithm.send is not None
            state, contribution = algorithm.send(state, t)
            assert [block.shape for block in contribution.vectors] == [(3, D)] * blocks


def test_what_was_touched_takes_little_room_however_far_apart_sync_rounds_are() -> None:
    (stream,) = [sparse_stream(stream) for stream in random_streams([300], density=0.3)]
    algorithm = ldr()
    state = algorithm.init_local(D)
    for t in range(1, 301):
        state, _ = algorithm.primal_step(state, Example(stream.features(t - 1), stream.label(t - 1)), t)
        assert len(state.touched) <= 65
    assert set(np.concatenate(state.touched)) == set(range(D))


def test_blocks_are_for_learners_that_send_them() -> None:
    sparse, matrix, vector = SparseVectors(np.array([1]), np.ones((1, 1)), D), np.ones((1, D)), np.ones(D)
    for block in (sparse, matrix):
        assert other_than((1,), [block], D) == "blocks; expected plain vectors"
    assert other_than((1,), [vector], D) == ""
    assert other_than((1, 1), [vector], D) == "1 vectors; expected 2"
    assert (
        other_than((3,), [np.ones((3, D))], D) == other_than((3,), [sparse._replace(values=np.ones((3, 1)))], D) == ""
    )
    assert other_than((3,), [vector] * 3, D) == "3 vectors in blocks of [1, 1, 1]; expected [3]"


def test_exact_ridge_regression_is_for_few_features_and_none_for_many() -> None:
    assert isinstance(ridge(512, 2), ExactRidge)
    assert isinstance(ridge(513, 2), WindowRidge)
    assert ridge(2049, 2) is None


def test_robust_sums_leave_out_one_bad_site() -> None:
    rng = np.random.default_rng(0)
    P, Q, W = rng.standard_normal((8, D)), rng.random((8, D)), rng.standard_normal((8, D))
    bad = P.copy()
    bad[3] *= -1000.0
    Z, _ = totals(np.stack([bad, Q], axis=1), robust=True)
    others = np.delete(P, 3, axis=0)
    assert np.all(others.sum(axis=0) - others.min(axis=0) + 1e-9 >= Z)
    assert np.all(others.sum(axis=0) - others.max(axis=0) - 1e-9 <= Z)
    models = np.vstack([W[:7], 1000.0 * W[7:]])
    scaled = np.linalg.norm(models * scales_of((models**2).sum(axis=1))[:, None], axis=1)
    assert scaled[7] == pytest.approx(2.0 * np.median(np.linalg.norm(models, axis=1)))
    assert np.all(scaled <= scaled[7] + 1e-9)
