"""AdaDROM against a plain transcription of its equations, and what it promises."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from helpers import graph_of, hoods_of, random_streams, run_loop, sparse_stream, sparse_vector, spread

from drom_net.algorithms.adadrom.exchange import (
    AS_A_RULE,
    BITS_OF_Q,
    BITS_OF_SKETCH,
    BITS_OF_WEIGHTS,
    MOST_EXAMPLES,
    admits,
    directions,
    omega,
)
from drom_net.algorithms.adadrom.learner import AdaDROMParameters, adadrom
from drom_net.algorithms.adadrom.mixing import EVIDENCE, first_mixture, prior_of
from drom_net.algorithms.adadrom.state import AGAIN, COMMON, DELTA, DIRECTIONS, KEPT, LAYOUT, SKETCHED, AdaState
from drom_net.algorithms.base import (
    IDLE,
    Algorithm,
    Contribution,
    ContributionKind,
    Example,
    GraphPosition,
    Reply,
    ReplyKind,
    SyncRounds,
)
from drom_net.algorithms.features import MOST_OF_SUM, MOST_OF_SUMMAND, SparseVector, SparseVectors, numbers, other_than
from drom_net.algorithms.sums import MOST_SITES
from drom_net.data.stream import TaskStream
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import run_reference
from drom_net.protocol.codec import encode
from drom_net.protocol.messages import Push
from drom_net.testing import check_learner

D = 7
FIRST = np.array([0.99 / 8] * 6 + [0.01] + [0.99 / 8] * 2)


def s(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z))


def pi(z: float) -> float:
    return 0.1 + 0.8 * s(z)


def slope(z: float, y: float) -> float:
    return -y * 0.8 * s(y * z) * (1.0 - s(y * z)) / pi(y * z)


def rounded(values: np.ndarray, bits: int) -> np.ndarray:
    return np.rint(values * 2.0**bits) / 2.0**bits


class Plain:
    """One task, as the equations are written: dense vectors, every fit from all examples, no sharing of code."""

    def __init__(self) -> None:
        self.kappa = 1.0
        self.W, self.V, self.V2, self.P, self.q, self.own_P, self.own_q = (np.zeros(D) for _ in range(7))
        self.G, self.Q = np.zeros(D), np.zeros(D)
        self.GW, self.GV, self.GV2 = (np.full(D, 1e-8) for _ in range(3))
        self.U = np.zeros((D, D))
        self.w, self.prior, self.alone = FIRST.copy(), np.full(9, 1 / 9), np.full(2, 0.5)
        self.both = np.full(2, 0.5)
        self.sketched, self.sketch, self.said = 0, np.zeros((D, D)), self.w
        self.rows: list[np.ndarray] = []
        self.labels: list[float] = []
        self.left: list[float] = []
        self.loss_alone = self.loss_variance = 0.0
        self.disagreements = 0

    def fit(self, targets: list[float], rows: np.ndarray, kept: float = 1.0) -> np.ndarray:
        """Ridge regression over all examples so far; each counts `kept` times the one after."""
        counted = rows.T * kept ** np.arange(len(rows))[::-1]
        return np.linalg.inv(0.1 * np.eye(rows.shape[1]) + counted @ rows) @ counted @ np.array(targets)

    def ridge(self, targets: list[float]) -> np.ndarray:
        return self.fit(targets, np.array(self.rows).reshape(-1, D))

    def common(self, targets: list[float], kept: float = 1.0) -> np.ndarray:
        """In the coordinates U."""
        return self.fit(targets, np.array(self.rows).reshape(-1, D) @ self.U, kept)

    def step(self, x: np.ndarray, y: float) -> float:
        """The score of x, after which it is learned."""
        eta = min(0.5, 5.0 / np.abs(x).sum())
        d = -eta * x @ ((self.G + self.kappa * self.P) / np.sqrt(self.Q + self.kappa * self.q + 1e-8))
        e = float(np.clip(d / 4, -1, 1))
        z = [self.W @ x, d, d + self.V @ x]
        u = self.U.T @ x
        z += [4 * self.common(self.labels) @ u, 4 * (e + self.common(self.left) @ u)]
        z += [z[4] + self.V2 @ x, 4 * self.common(self.labels, 0.9) @ u]
        z += [4 * self.ridge(self.labels) @ x, 4 * (e + self.ridge(self.left) @ x)]
        self.rows.append(x)
        self.labels.append(y)
        self.left.append(y - e)
        p = np.array([pi(one) for one in z])
        joint = self.w * self.prior / (self.w @ self.prior)
        answer = float(self.both[0] * self.w @ p + self.both[1] * joint @ p)
        c = [slope(one, y) for one in z]
        own_models = ((self.W, self.GW, c[0]), (self.V, self.GV, c[2]), (self.V2, self.GV2, c[5]))
        for w, G, gradient in [(w, G, slope_ * x) for w, G, slope_ in own_models]:
            G += gradient**2
            w -= eta * gradient / np.sqrt(G)
        self.P += c[1] * x
        self.q += (c[1] * x) ** 2
        given = np.array([pi(y * one) for one in z])
        self.both *= self.w @ given, joint @ given
        self.both /= self.both.sum()
        self.w = 0.99 * self.w * given / (self.w @ given) + 0.01 * FIRST
        of_alone = self.alone * given[[0, 7]]
        self.loss_alone -= math.log(of_alone.sum())
        p_alone = of_alone.sum() if y > 0 else 1 - of_alone.sum()
        gains = [math.log(answer / p_alone), math.log((1 - answer) / (1 - p_alone))]  # by the label
        self.loss_variance += ((max(gains) - min(gains)) / 2) ** 2
        self.disagreements += bool(answer > 0.5 - 1e-9) != bool(p_alone > 0.5 - 1e-9)
        self.alone = 0.99 * of_alone / of_alone.sum() + 0.01 / 2
        return answer - 0.5


def summand_of(task: Plain) -> list[np.ndarray]:
    """Its G, Q, Y, weights and 1, for which it counts."""
    task.own_P, task.own_q = task.own_P + task.P, task.own_q + task.q
    task.P, task.q = np.zeros(D), np.zeros(D)
    f = task.ridge(task.labels)
    f *= math.sqrt(len(task.rows)) / np.linalg.norm(f)
    if len(task.rows) >= AGAIN * task.sketched:
        task.sketched = len(task.rows)
        task.sketch, task.said = rounded(np.outer(f, f @ omega(D)[:D].T), 28), task.w
    return [rounded(task.own_P, 28), rounded(task.own_q, 34), task.sketch, task.said, np.ones(1)]


def hear(task: Plain, summands: list[list[np.ndarray]]) -> None:
    """Make of the sums what a task makes of them."""
    G, Q, Y, weights, m = (sum(parts) for parts in zip(*summands, strict=True))
    u, singular, _ = np.linalg.svd(Y - 0.5 * task.sketch)
    task.G, task.Q, task.U = G, Q, u * singular / singular[0]
    if m > 1:
        task.prior = 0.9 * (weights - task.said) / (m - 1) + 0.1 / 9


def exchange(tasks: list[Plain]) -> None:
    """What they say, added, and what each makes of it."""
    summands = [summand_of(task) for task in tasks]
    for task in tasks:
        hear(task, summands)
        task.kappa = math.sqrt(len(tasks))


def plain_scores(streams: list[TaskStream], tau: int) -> tuple[list[list[float]], list[Plain]]:
    tasks, scores = [Plain() for _ in streams], [[] for _ in streams]  # type: ignore[var-annotated]
    sync = SyncRounds(tau, growing=4 if tau > 2**32 else 16)
    for t in range(1, streams[0].num_examples + 1):
        for task, stream, found in zip(tasks, streams, scores, strict=True):
            x = stream.features(t - 1)
            assert isinstance(x, np.ndarray)
            found.append(task.step(x, stream.label(t - 1)))
        if sync.at(t):
            exchange(tasks)
    return scores, tasks


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(("tau", "plain_tau"), [(1, 1), (4, 4), (0, 2**62)])
@pytest.mark.parametrize("m", [1, 4])
def test_it_is_what_its_equations_say(kind: str, tau: int, plain_tau: int, m: int) -> None:
    streams = random_streams([60] * m, flip=0.1, density=0.6)
    wanted, plain = plain_scores(streams, plain_tau)
    given = [sparse_stream(stream) for stream in streams] if kind == "sparse" else streams
    result = run_reference(adadrom(AdaDROMParameters(tau=tau)), given, seed=0)
    for task, rows, scores, one in zip(result.tasks, result.task_records, wanted, plain, strict=True):
        np.testing.assert_allclose(np.frombuffer(rows, TASK_DTYPE)["score"], scores, atol=1e-6)
        counts = dict(zip(EVIDENCE, task.model["evidence"], strict=True))
        assert counts["loss_alone"] == pytest.approx(one.loss_alone, abs=1e-9)
        assert counts["loss_variance"] == pytest.approx(one.loss_variance, abs=1e-5)
        assert counts["disagreements"] == one.disagreements
        assert task.model["mixture"].sum() == pytest.approx(1.0)


def plain_tree_scores(streams: list[TaskStream], distances: np.ndarray, tau: int) -> list[list[float]]:
    """Of one at a distance of n edges it has what that one had said n - 1 sync rounds before, as a neighbor's this."""
    tasks, scores = [Plain() for _ in streams], [[] for _ in streams]  # type: ignore[var-annotated]
    said: list[list[list[np.ndarray]]] = []
    sync = SyncRounds(tau, growing=4 if tau > 2**32 else 16)
    for t in range(1, streams[0].num_examples + 1):
        for task, stream, found in zip(tasks, streams, scores, strict=True):
            x = stream.features(t - 1)
            assert isinstance(x, np.ndarray)
            found.append(task.step(x, stream.label(t - 1)))
        if sync.at(t):
            said.append([summand_of(task) for task in tasks])
            for task, row in zip(tasks, distances, strict=True):
                late = [len(said) - max(1, int(edges)) for edges in row]
                hear(task, [said[when][other] for other, when in enumerate(late) if when >= 0])
    return scores


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("tau", [1, 4])
def test_sums_along_a_tree_are_what_its_equations_say(kind: str, tau: int) -> None:
    streams = random_streams([50] * 5, flip=0.1, density=0.6)
    ring = graph_of("ring", 5)
    edges = {(hood.task, other) for hood in hoods_of(ring, [adadrom()] * 5) for other in hood.tree or ()}
    assert edges == {(0, 1), (1, 0), (0, 4), (4, 0), (1, 2), (2, 1), (3, 4), (4, 3)}
    path = [2, 1, 0, 4, 3]
    distances = np.abs(np.subtract.outer(*[[path.index(task) for task in range(5)]] * 2))
    wanted = plain_tree_scores(streams, distances, tau)
    given = [sparse_stream(stream) for stream in streams] if kind == "sparse" else streams
    result = run_loop(adadrom(AdaDROMParameters(tau=tau)), given, ring, seed=0)
    for rows, scores in zip(result.task_records, wanted, strict=True):
        np.testing.assert_allclose(np.frombuffer(rows, TASK_DTYPE)["score"], scores, atol=1e-6)


@pytest.mark.parametrize("tau", [1, 3])
@pytest.mark.parametrize("density", [0.05, 1.0])
@pytest.mark.parametrize("robust", [False, True])
def test_a_full_graph_computes_what_a_reducer_does(tau: int, density: float, robust: bool) -> None:
    streams, parameters = (
        random_streams([40] * 6, dim=60, flip=0.1, density=density),
        AdaDROMParameters(tau=tau, robust=robust),
    )
    if density < 1.0:
        streams = spread([sparse_stream(stream) for stream in streams])
    star = run_reference(adadrom(parameters), streams, seed=0)
    peers = run_loop(adadrom(parameters), streams, graph_of("full", 6), seed=0)
    assert peers.task_records == star.task_records


def test_sparse_rows_are_learned_along_a_tree_as_dense_ones() -> None:
    streams = spread(random_streams([40, 13, 25, 40, 31], dim=60, flip=0.1, density=0.1))
    dense, sparse = (
        run_loop(adadrom(AdaDROMParameters(tau=1)), given, graph_of("ring", 5), seed=0)
        for given in (streams, [sparse_stream(stream) for stream in streams])
    )
    for one, other in zip(dense.task_records, sparse.task_records, strict=True):
        one_score, other_score = (np.frombuffer(rows, TASK_DTYPE)["score"] for rows in (one, other))
        np.testing.assert_allclose(one_score, other_score, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["star", "full", "ring"])
@pytest.mark.parametrize("lies", [False, True])
def test_what_others_send_costs_a_task_little(graph: str, lies: bool) -> None:
    """sum -log p <= the loss of any expert that learns alone + ln(8 / 0.99) + ln 2 + 0.0088 n, whatever comes."""
    (stream,) = random_streams([300], flip=0.1)
    streams = [stream, *random_streams([300] * 3, flip=0.5, seed=9)]
    rng = np.random.default_rng(3)

    def lying(algorithm: Algorithm) -> Algorithm:
        def central_step(state: Any, contributions: Any, members: Any = None) -> Any:
            said = {task: one if task == 0 else garbage(one, rng) for task, one in contributions.items()}
            return algorithm.central_step(state, said, members)

        return algorithm._replace(central_step=central_step) if lies else algorithm

    parameters = AdaDROMParameters(tau=1)
    if graph == "star":
        records = run_reference(lying(adadrom(parameters)), streams, seed=0).task_records
    else:
        specialize = adadrom(parameters).specialize
        assert specialize is not None
        peer = adadrom(parameters)._replace(specialize=lambda position: lying(specialize(position)))
        records = run_loop(peer, streams, graph_of(graph, 4), seed=0).task_records
    mixture = float(np.sum(np.frombuffer(records[0], TASK_DTYPE)["loss"]))
    local, ridge, plain = 0.0, 0.0, Plain()
    for t in range(300):
        x, y = stream.features(t), stream.label(t)
        assert isinstance(x, np.ndarray)
        local -= math.log(pi(y * float(plain.W @ x)))
        ridge -= math.log(pi(y * 4 * float(plain.ridge(plain.labels) @ x)))
        plain.step(x, y)
    dearer = math.log(8 / 0.99) + math.log(2) + 300 * -math.log(1 - 0.01 + 0.01 * 0.99 / 8)
    assert mixture <= min(local, ridge) + dearer + 1e-6


def garbage(contribution: Contribution, rng: np.random.Generator) -> Contribution:
    """With the largest integers that there are, of any sign."""
    blocks = [
        block._replace(values=MOST_OF_SUM * rng.choice([-1, 1], size=block.values.shape))
        if isinstance(block, SparseVectors)
        else MOST_OF_SUM * rng.choice([-1, 1], size=block.shape)
        for block in contribution.vectors
    ]
    return contribution._replace(vectors=tuple(blocks))


@pytest.mark.parametrize("dim", [1, 2, 6, 11, 12, 13, 600, 2100])
@pytest.mark.parametrize("m", [1, 2])
def test_any_number_of_features_and_sites_runs(dim: int, m: int) -> None:
    streams = random_streams([12] * m, dim=dim, flip=0.1)
    dense = run_reference(adadrom(), streams, seed=0)
    sparse = run_reference(adadrom(), [sparse_stream(stream) for stream in streams], seed=0)
    for one, other in zip(dense.tasks, sparse.tasks, strict=True):
        assert one.totals.examples == 12
        assert len(one.model["mixture"]) == (9 if dim <= 2048 else 7)
        np.testing.assert_allclose(one.model["mixture"], other.model["mixture"], atol=1e-6)


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e3, 1e5])
@pytest.mark.parametrize(("dim", "density"), [(1, 1.0), (5, 1.0), (30, 0.1), (600, 0.1), (2100, 1.0)])
def test_a_site_that_says_what_is_so_is_always_admitted(scale: float, dim: int, density: float) -> None:
    (stream,) = random_streams([12], dim=dim, flip=0.5, density=density)
    algorithm = adadrom(AdaDROMParameters(tau=1))
    state, central = algorithm.init_local(dim), algorithm.init_central((0,), dim, np.random.default_rng(0))
    assert algorithm.send is not None
    for t in range(1, 13):
        row = scale * np.asarray(stream.features(t - 1))
        x = sparse_vector(row) if density < 1.0 else row
        state, _ = algorithm.learn(state, Example(x, stream.label(t - 1)), t)
        state, contribution = algorithm.send(state, t)
        central, replies, _ = algorithm.central_step(central, {0: contribution})
        state = algorithm.receive(state, replies[0], t)
        assert admits([said[0] for said in central.summands], t)
        if scale == 1.0 and t > 1:
            assert not admits([said[0] for said in central.summands], t // 4)


@pytest.mark.parametrize(
    ("row", "value"),
    [((0, 0), 2**51 - 1), ((1, 3), -1), ((0, 1), -(2**36)), ((2, 5), 2**33), ((14, -1), -5), ((14, -1), 2**40)],
)
def test_what_no_site_can_have_come_to_is_not_admitted(row: tuple[int, int], value: int) -> None:
    (stream,) = random_streams([20], dim=30)
    _, contribution = said_by(adadrom().init_local(30), stream, range(20))
    rows = np.concatenate([numbers(block) for block in contribution.vectors])
    assert admits([rows[:2], rows[2:]], 20)
    rows[row] = value
    assert not admits([rows[:2], rows[2:]], 20)


@pytest.mark.parametrize("sites", [1, 5, 12])
def test_the_directions_are_those_of_the_sites_own_models_where_there_are_no_more_than_the_sketch_has_columns(
    sites: int,
) -> None:
    """Those of A = sum_i n_i w_i w_i^T, which nobody has, from Omega A alone."""
    draws = np.random.default_rng(sites)
    w, n = draws.normal(size=(sites, 60)) * draws.uniform(0.1, 1.0, 60), draws.integers(50, 2000, sites)
    w /= np.linalg.norm(w, axis=1)[:, None]
    A = (w.T * n) @ w
    found = directions(np.rint(omega(60)[:SKETCHED] @ A * 2.0**BITS_OF_SKETCH))
    values, vectors = np.linalg.eigh(A)
    values, vectors = values[: -DIRECTIONS - 1 : -1], vectors[:, : -DIRECTIONS - 1 : -1]
    wanted = np.maximum(values, 0.0) / values[0] * vectors
    assert found is not None
    np.testing.assert_allclose(found.T @ found, wanted @ wanted.T, atol=1e-3)


@pytest.mark.parametrize("dim", [1, 3, 8, 12, 40])
def test_a_sketch_that_no_models_have_leaves_finite_directions(dim: int) -> None:
    """Of the total of sites that lie: not symmetric, negative, as large as integers are, or nothing."""
    draws = np.random.default_rng(dim)
    for made in (draws.normal(size=(SKETCHED, dim)), -omega(dim)[:SKETCHED], np.zeros((SKETCHED, dim))):
        found = directions(made * 2.0**52)
        assert found is None or (np.isfinite(found).all() and (found**2).sum(axis=1).max() <= 1.0 + 1e-9)
    assert directions(np.zeros((SKETCHED, dim))) is None
    assert directions(-(2.0**30) * omega(dim)[:SKETCHED]) is None


def test_a_summand_whose_sketch_is_of_no_model_is_not_admitted() -> None:
    (stream,) = random_streams([20], dim=30)
    _, contribution = said_by(adadrom().init_local(30), stream, range(20))
    sums, sketch = map(numbers, contribution.vectors)
    assert admits([sums, sketch], 20)
    turned = sketch.copy()
    turned[:SKETCHED] *= -1  # of the negative of a positive matrix
    assert not admits([sums, turned], 20)
    moved = sketch.copy()
    moved[:SKETCHED] = np.roll(moved[:SKETCHED], 1, axis=0)  # no Omega A of a symmetric A
    assert not admits([sums, moved], 20)


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["star", "full", "ring"])
def test_one_bad_site_costs_the_others_less_where_the_learner_is_robust(graph: str) -> None:
    """Its rows are a hundred times too long, and its labels turned round."""
    streams = random_streams([150] * 8, flip=0.05)
    bad = dataclasses.replace(streams[3], rows=100.0 * streams[3].rows, labels=-streams[3].labels)
    losses = {}
    for robust in (False, True):
        parameters = AdaDROMParameters(tau=1, robust=robust)
        for name, given in (("good", streams), ("bad", [*streams[:3], bad, *streams[4:]])):
            if graph == "star":
                records = run_reference(adadrom(parameters), given, seed=0).task_records
            else:
                records = run_loop(adadrom(parameters), given, graph_of(graph, 8), seed=0).task_records
            found = [np.frombuffer(records[task], TASK_DTYPE)["loss"].mean() for task in range(8) if task != 3]
            losses[robust, name] = float(np.mean(found))
    cost = {robust: losses[robust, "bad"] - losses[robust, "good"] for robust in (False, True)}
    assert cost[True] < 0.5 * cost[False]


@pytest.mark.slow
def test_robust_it_passes_the_battery() -> None:
    check_learner("adadrom", robust=True)


def test_omega_is_orthonormal_and_stays() -> None:
    for dim in (1, 5, 12, 40):
        k = min(dim, 12)
        np.testing.assert_allclose(omega(dim) @ omega(dim).T, np.diag([1.0] * k + [0.0] * (13 - k)), atol=1e-12)
    first = omega(40).tobytes()
    omega.cache_clear()
    assert omega(40).tobytes() == first


def said_by(state: AdaState, stream: TaskStream, rounds: range) -> tuple[AdaState, Contribution]:
    """The state after these examples, and what it then says."""
    algorithm = adadrom(AdaDROMParameters(tau=1))
    assert algorithm.send is not None
    for t in rounds:
        state, _ = algorithm.learn(state, Example(stream.features(t), stream.label(t)), t)
    return algorithm.send(state, rounds.stop)


def test_a_peer_whose_listener_may_miss_a_word_tells_all_each_time() -> None:
    (stream,) = [sparse_stream(one) for one in random_streams([5], dim=60, density=0.05)]
    make = adadrom(AdaDROMParameters(tau=1)).specialize
    assert make is not None
    for tree, parts in ((None, 1), ((1,), 2)):
        algorithm = make(GraphPosition(0, (0, 1), tree=tree, may_miss=True))
        state = algorithm.init_local(60)
        for t in range(1, 4):
            state, _ = algorithm.learn(state, Example(stream.features(t - 1), stream.label(t - 1)), t)
            assert algorithm.send is not None
            state, contribution = algorithm.send(state, t)
            assert [numbers(block).shape for block in contribution.vectors] == [(2, 60), (13, 60)] * parts


def test_a_peer_passes_on_what_comes_when_it_has_nothing_new_itself() -> None:
    """And to nobody what that one has said itself, or has been told."""
    make = adadrom(AdaDROMParameters(tau=1)).specialize
    assert make is not None
    algorithm = make(GraphPosition(1, (0, 1, 2, 3), tree=(0, 2)))  # 3 is a neighbor, but not along the tree
    assert algorithm.send is not None
    state, central = algorithm.init_local(D), algorithm.init_central((0, 1, 2, 3), D, np.random.default_rng(0))
    assert algorithm.send(state, 1)[1].kind is ContributionKind.IDLE
    news = Contribution(ContributionKind.VECTORS, (np.full((2, D), 5), np.full((13, D), 7)))
    central, replies, _ = algorithm.central_step(central, {0: news, 1: IDLE})
    state, said = algorithm.send(algorithm.receive(state, replies[1], 1), 2)
    to = [said.vectors[2 * place : 2 * place + 2] for place in range(4)]
    assert [len(numbers(block).ravel()) for place in (0, 3) for block in to[place]] == [0, 0, 0, 0]
    assert [numbers(block).tolist() for block in to[2]] == [[[5] * D] * 2, [[7] * D] * 13]
    central, replies, _ = algorithm.central_step(central, {1: Contribution(said.kind, to[1])})
    state = algorithm.receive(state, replies[1], 2)
    assert algorithm.send(state, 3)[1].kind is ContributionKind.IDLE


def test_a_summand_is_all_that_a_site_has_come_to() -> None:
    """Whether or not something was said, and lost, before."""
    (stream,) = random_streams([20], density=0.6)
    algorithm = adadrom()
    for given in (stream, sparse_stream(stream)):
        _, all_at_once = said_by(algorithm.init_local(D), given, range(20))
        state, _ = said_by(algorithm.init_local(D), given, range(8))
        again, then = said_by(state, given, range(8, 20))
        for one, other in zip(all_at_once.vectors, then.vectors, strict=True):
            assert numbers(one).tobytes() == numbers(other).tobytes()
        assert algorithm.send is not None
        again = algorithm.receive(again, Reply(ReplyKind.VECTORS, then.vectors), 20)
        assert algorithm.send(again, 21)[1].kind is ContributionKind.IDLE


def test_what_is_said_is_sparse_where_that_is_shorter() -> None:
    (stream,) = [sparse_stream(one) for one in random_streams([10], dim=200, density=0.05)]
    algorithm = adadrom(AdaDROMParameters(tau=1))
    state, first = said_by(algorithm.init_local(200), stream, range(8))
    assert all(isinstance(block, SparseVectors) for block in first.vectors)
    assert other_than(LAYOUT, first.vectors, 200) == ""
    state = algorithm.receive(state, Reply(ReplyKind.VECTORS, first.vectors), 8)
    state, second = said_by(state, stream, range(8, 9))
    x = stream.features(8)
    assert isinstance(x, SparseVector)
    sums, sketch = second.vectors
    assert sums.indices.tolist() == x.indices.tolist()  # sums are as they were elsewhere
    assert sketch.indices.size == 0  # 9 examples are less than 1.25 times 8
    state = algorithm.receive(state, Reply(ReplyKind.VECTORS, second.vectors), 9)
    state, third = said_by(state, stream, range(9, 10))
    sketch = third.vectors[1]
    assert set(x.indices) < set(sketch.indices)
    assert sketch.values[-1].sum() == pytest.approx(2**BITS_OF_WEIGHTS, abs=7)
    size = sum(len(frame) for frame in map(bytes, encode(Push(10, third))))
    assert size < 15 * 8 * 200 / 2


def test_what_travels_as_a_rule_is_foretold_by_the_bytes_of_a_number() -> None:
    """Of 15 rows of 8 bytes: 2 rows of 5 bytes and 13 of 3, each a byte more in a total; without Y the 2 alone."""
    assert AS_A_RULE.part == pytest.approx((2 * 5 / 120, 2 * 6 / 120))
    assert AS_A_RULE.in_full == pytest.approx(((2 * 5 + 13 * 3) / 120, (2 * 6 + 13 * 4) / 120))


def test_who_missed_a_reply_gets_all() -> None:
    """With sparse rows: of the others it hears what has changed since the last round alone."""
    streams = spread([sparse_stream(one) for one in random_streams([40, 13, 25], dim=60, density=0.1)])
    algorithm = adadrom(AdaDROMParameters(tau=1))
    assert algorithm.send is not None
    states = [algorithm.init_local(60) for _ in streams]
    central = algorithm.init_central((0, 1, 2), 60, np.random.default_rng(0))
    for t in range(1, 41):
        said = {}
        for task, stream in enumerate(streams):
            if (index := stream.index_at(t)) is not None:
                example = Example(stream.features(index), stream.label(index))
                states[task], _ = algorithm.learn(states[task], example, t)
            states[task], said[task] = algorithm.send(states[task], t)
        if t % 3 == 0:
            del said[t % 2]  # it is not there, and knows that
        central, replies, _ = algorithm.central_step(central, said)
        for task, reply in replies.items():
            states[task] = algorithm.receive(states[task], reply, t)
        for task in said:
            for ours, total in zip(states[task].totals, central.totals, strict=True):
                assert ours.tobytes() == total.tobytes()
            assert not states[task].touched.any()


def test_labels_that_turn_round_are_learned_anew() -> None:
    """After three quarters of each stream. A learner with constant steps, which forgets by itself, is the yardstick."""
    streams, turned = random_streams([320] * 4, flip=0.02), []
    for stream in streams:
        labels = np.where(np.arange(320) < 240, stream.labels, -stream.labels)
        turned.append(dataclasses.replace(stream, labels=labels, clean=labels))
    result = run_reference(adadrom(), turned, seed=0)
    wrong, of_constant = 0, dict.fromkeys((1.0, 2.0, 4.0, 8.0), 0)
    for stream, records in zip(turned, result.task_records, strict=True):
        rows = np.frombuffer(records, TASK_DTYPE)
        wrong += int(((rows["score"] >= 0.0) != (rows["label"] > 0.0))[240:].sum())
        for step in of_constant:
            w = np.zeros(D)
            for t in range(320):
                x, y = np.asarray(stream.features(t)), stream.label(t)
                z = float(w @ x)
                of_constant[step] += t >= 240 and (z >= 0.0) != (y > 0.0)
                w += step * y * s(-y * z) * x
    assert wrong <= 1.1 * min(of_constant.values())
    weights = np.mean([task.model["mixture"] for task in result.tasks], axis=0)
    assert weights[6] == weights.max()


def test_equal_sites_double_the_totals() -> None:
    streams = random_streams([30], flip=0.1) * 3
    result: dict[int, Any] = {}
    for m in (1, 2, 3):
        algorithm, states = adadrom(AdaDROMParameters(tau=1)), []
        central = algorithm.init_central(tuple(range(m)), D, np.random.default_rng(0))
        said = {task: said_by(algorithm.init_local(D), streams[task], range(30)) for task in range(m)}
        central, replies, _ = algorithm.central_step(central, {task: one[1] for task, one in said.items()})
        states = [algorithm.receive(said[task][0], replies[task], 30) for task in range(m)]
        result[m] = central.totals, states[0]
    for one, two in zip(result[1][0], result[2][0], strict=True):
        assert (2 * one).tobytes() == two.tobytes()
    assert (result[1][1].kappa, result[2][1].kappa) == (1.0, math.sqrt(2.0))
    directions = {m: np.abs(state.table[COMMON]) for m, (_, state) in result.items()}
    for m in (1, 2):
        np.testing.assert_allclose(directions[m][0], directions[m + 1][0], rtol=0.0, atol=1e-8)
        assert directions[m][1:].max() < 1e-6  # of alike models there is one; integers round less of larger sums


def test_the_prior_is_that_of_the_others() -> None:
    assert prior_of([0.0] * 5) == pytest.approx([0.2] * 5)
    assert prior_of([3.0, 1.0]) == pytest.approx([0.9 * 0.75 + 0.05, 0.9 * 0.25 + 0.05])
    assert prior_of([-1e9, 1.0]) == pytest.approx([0.05, 0.95])
    mixture = first_mixture(9)
    assert sum(mixture.weights) == pytest.approx(1.0)
    mixture.weights = [1 / 9] * 9
    mixture.prior = [0.2, *[0.1] * 8]
    assert mixture.effective()[0] == pytest.approx(0.5 / 9 + 0.5 * 0.2)


def test_a_number_beyond_the_range_is_clipped_and_counted() -> None:
    """Rows of norm 10^5 fill Q, whose room ends at 2^17."""
    (stream,) = random_streams([8], flip=0.5)
    state, algorithm = adadrom().init_local(D), adadrom()
    for t in range(8):
        x = 1e5 * np.asarray(stream.features(t))
        state, _ = algorithm.learn(state, Example(x, stream.label(t)), t)
    assert algorithm.send is not None
    state, contribution = algorithm.send(state, 8)
    assert state.clipped > 0
    assert 2.0 ** (51 - BITS_OF_Q) == 2.0**17
    assert contribution.vectors[0].max() == 2**51 - 1


def test_the_last_600_examples_are_kept() -> None:
    (stream,) = random_streams([KEPT + 5])
    algorithm = adadrom()
    state = algorithm.init_local(D)
    for t in range(KEPT + 5):
        state, _ = algorithm.learn(state, Example(stream.features(t), stream.label(t)), t)
    assert len(state.past) == KEPT
    assert {bytes(x) for x in state.past} == {bytes(stream.features(t)) for t in range(5, KEPT + 5)}
    assert sorted(state.targets[:, 0]) == sorted(stream.label(t) for t in range(5, KEPT + 5))


def test_the_resolution_of_squares_is_far_below_what_they_begin_with() -> None:
    assert 2.0**-BITS_OF_Q < DELTA / 100
    assert MOST_SITES == 4096
    assert MOST_EXAMPLES * 2**BITS_OF_SKETCH <= MOST_OF_SUMMAND


def test_whoever_may_miss_a_word_hears_it_again_though_nothing_is_new() -> None:
    """Else the last one would stay unheard until the next example."""
    (stream,) = random_streams([5])
    make = adadrom(AdaDROMParameters(tau=1)).specialize
    assert make is not None
    for tree in (None, (1,)):
        algorithm = make(GraphPosition(0, (0, 1), tree=tree, may_miss=True))
        assert algorithm.send is not None
        assert algorithm.send(algorithm.init_local(D), 1)[1].kind is ContributionKind.IDLE
        state = algorithm.init_local(D)
        for t in range(5):
            state, _ = algorithm.learn(state, Example(stream.features(t), stream.label(t)), t)
        state, said = algorithm.send(state, 6)
        central = algorithm.init_central((0, 1), D, np.random.default_rng(0))
        _, replies, _ = algorithm.central_step(central, {0: Contribution(said.kind, said.vectors[: len(LAYOUT)])})
        again = algorithm.send(algorithm.receive(state, replies[0], 6), 7)[1]
        assert again.kind is ContributionKind.VECTORS
        for one, other in zip(said.vectors, again.vectors, strict=True):
            np.testing.assert_array_equal(numbers(one), numbers(other))


@pytest.mark.parametrize("scale", [1e3, 1e9, 1e30])
def test_rows_far_from_unit_norm_end_no_run(scale: float) -> None:
    streams = [dataclasses.replace(stream, rows=scale * stream.rows) for stream in random_streams([40] * 3, flip=0.1)]
    for task in run_reference(adadrom(), streams, seed=0).tasks:
        assert all(np.isfinite(vector).all() for vector in task.model.values())
