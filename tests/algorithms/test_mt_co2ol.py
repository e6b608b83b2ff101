"""MT-CO2OL (Achddou et al. 2024) as `mt_co2ol` states it, written down once more with matrices and projections."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from helpers import graph_of, random_streams, run_loop, sparse_stream, spread

from drom_net.algorithms.base import Example
from drom_net.algorithms.learner import of_task
from drom_net.algorithms.mt_co2ol import MTCO2OLDParameters, MTCO2OLParameters, mt_co2ol, mt_co2ol_d
from drom_net.data.stream import TaskStream
from drom_net.graph.weights import mixing_weights
from drom_net.learning.reference import PeersResult, ReferenceResult, run_reference
from drom_net.testing import check_learner


def models(result: ReferenceResult | PeersResult) -> np.ndarray:
    return np.stack([task.model["w"] for task in result.tasks])


def interaction(N: int) -> np.ndarray:
    return (1.0 + N) * np.eye(N) - np.ones((N, N))


def project(X: np.ndarray, xi: float, radius: float) -> np.ndarray:
    """The nearest point, in the norm of A, whose mean has a norm of at most D and whose variance is at most xi D^2."""
    mean = X.mean(axis=0)
    rest, most = X - mean, radius * math.sqrt((len(X) - 1) * xi)
    mean = mean * min(1.0, radius / max(np.linalg.norm(mean), 1e-300))
    return mean + rest * min(1.0, most / max(float(np.linalg.norm(rest)), 1e-300))


class Ftrl:
    """MT-FTRL of N tasks with Hedge over N experts."""

    def __init__(self, N: int, dim: int, radius: float) -> None:
        self.N, self.radius = N, radius
        self.A = interaction(N)
        self.G = np.zeros((N, dim))
        self.experts = [np.zeros((N, dim)) for _ in range(N)]
        self.factors = [0.0] * N
        self.losses = np.zeros(N)
        self.norms, self.ranges = float(N), 0.0

    def learn(self, G: np.ndarray) -> tuple[np.ndarray, float]:
        """X of shape (N, d), and what a task's further gradients count in its own row of -X."""
        N = self.N
        losses = np.array([np.sum(G * X) for X in self.experts])
        self.losses += losses
        self.ranges += (losses.max() - losses.min()) ** 2
        self.G += G
        inverse = np.linalg.inv(self.A)
        self.norms += np.trace(G.T @ inverse @ G)
        for k in range(N):
            xi = (k + 1) / N
            eta = self.radius * math.sqrt(N * (1.0 + xi * (N - 1)) / self.norms)
            X = -eta * inverse @ self.G
            self.experts[k] = project(X, xi, self.radius)
            rest, kept = X - X.mean(axis=0), self.experts[k] - self.experts[k].mean(axis=0)
            ratio = np.linalg.norm(kept) / np.linalg.norm(rest) if rest.any() else 1.0
            self.factors[k] = eta / (1.0 + N) * min(1.0, ratio)
        p = np.exp(-math.sqrt(8.0 * math.log(N) / self.ranges) * self.losses) if self.ranges else np.ones(N)
        p /= p.sum()
        return sum(q * X for q, X in zip(p, self.experts, strict=True)), float(p @ self.factors)


def gradient(w: np.ndarray, stream: TaskStream, t: int) -> np.ndarray:
    k = stream.index_at(t)
    if k is None:
        return np.zeros_like(w)
    x, y = np.asarray(stream.rows)[k], stream.labels[k]
    return -y * x / (1.0 + math.exp(y * (w @ x)))


def at_a_reducer(streams: Sequence[TaskStream], *, radius: float, tau: int) -> np.ndarray:
    ftrl = Ftrl(len(streams), streams[0].dim, radius)
    W, G, c = np.zeros_like(ftrl.G), np.zeros_like(ftrl.G), 0.0
    for t in range(1, max(stream.last_round() for stream in streams) + 1):
        now = np.stack([gradient(w, stream, t) for w, stream in zip(W, streams, strict=True)]) / tau
        W, G = W - c * now, G + now
        if t % tau == 0:
            W, c = ftrl.learn(G)
            G = np.zeros_like(G)
    return W


def at_peers(streams: Sequence[TaskStream], S: np.ndarray, *, radius: float, tau: int) -> np.ndarray:
    """S of shape (m, m), not 0 for neighbors; what they have made of a sync round is heard in the next one."""
    m, dim = S.shape[0], streams[0].dim
    hoods = [np.flatnonzero(row) for row in S]
    each = [Ftrl(len(hood), dim, radius) for hood in hoods]
    W, total, C, last = np.zeros((m, dim)), np.zeros((m, dim)), np.zeros(m), np.zeros((m, dim))
    said: list[tuple[np.ndarray, float] | None] = [None] * m
    for t in range(1, streams[0].last_round() + 1):
        now = np.stack([gradient(w, stream, t) for w, stream in zip(W, streams, strict=True)]) / tau
        W, total = W - C[:, np.newaxis] * now, total + now
        if t % tau:
            continue
        before, said = said, []
        for j, hood in enumerate(hoods):
            X, c = each[j].learn((total - last)[hood])
            said.append((-X[0] - c * total[hood[0]], c))  # v is the same for all of its tasks
        last = total.copy()
        for i, hood in enumerate(hoods):
            heard = {j: said[j] if j == i else before[j] for j in hood}
            known = {j: pair for j, pair in heard.items() if pair is not None}
            weights = np.array([S[i, j] for j in known]) / sum(S[i, j] for j in known)
            v = sum(weight * pair[0] for weight, pair in zip(weights, known.values(), strict=True))
            C[i] = sum(weight * pair[1] for weight, pair in zip(weights, known.values(), strict=True))
            W[i] = -(v + C[i] * total[i])
    return W


@pytest.mark.parametrize("tau", [1, 3])
@pytest.mark.parametrize("radius", [0.5, 10.0])
@pytest.mark.parametrize("alignment", [list, spread])
def test_a_star_is_its_equations(tau: int, radius: float, alignment: Callable) -> None:
    """The small radius projects."""
    streams = alignment(random_streams([16] * 4 if alignment is list else [16, 7, 12, 16], flip=0.1))
    result = run_reference(mt_co2ol(MTCO2OLParameters(radius=radius, tau=tau)), streams, seed=0)
    np.testing.assert_allclose(models(result), at_a_reducer(streams, radius=radius, tau=tau), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("tau", [1, 3])
@pytest.mark.parametrize("weights", ["mask", "metropolis"])
def test_a_graph_is_its_equations(tau: int, weights: str) -> None:
    streams = random_streams([15] * 4, flip=0.1)
    graph = graph_of("path", 4, weights=weights)
    result = run_loop(mt_co2ol_d(MTCO2OLDParameters(radius=2.0, tau=tau)), streams, graph, seed=0)
    S = np.eye(4) + np.eye(4, k=1) + np.eye(4, k=-1) if weights == "mask" else mixing_weights(graph, weights)
    np.testing.assert_allclose(models(result), at_peers(streams, S, radius=2.0, tau=tau), rtol=1e-7, atol=1e-9)


def test_no_point_of_the_domain_is_nearer_than_the_projection() -> None:
    draws = np.random.default_rng(3)
    A = interaction(4)

    def distance(X: np.ndarray, Y: np.ndarray) -> float:
        return float(np.trace((X - Y).T @ A @ (X - Y)))

    for _ in range(20):
        X = draws.normal(size=(4, 3)) * 3.0
        nearest = distance(X, project(X, 0.5, 1.0))
        points = [project(draws.normal(size=(4, 3)) * draws.uniform(0.0, 3.0), 0.5, 1.0) for _ in range(50)]
        assert min(distance(X, Y) for Y in points) >= nearest


def test_one_task_alone_by_hand() -> None:
    """N = 1: A = 1 and one expert. norms = 1 + (1/2)^2, eta = D / sqrt(norms), w = eta / 2."""
    algorithm = mt_co2ol(MTCO2OLParameters(radius=3.0))
    assert algorithm.send is not None
    centre = algorithm.init_central((0,), 1, np.random.default_rng(0))
    state, prediction = algorithm.learn(algorithm.init_local(1), Example(np.array([1.0]), 1.0), 1)
    assert prediction.score == 0.0
    state, said = algorithm.send(state, 1)
    centre, replies, _ = algorithm.central_step(centre, {0: said})
    state = algorithm.receive(state, replies[0], 1)
    assert state.w[0] == pytest.approx(3.0 / math.sqrt(1.25) / 2.0)


def test_alike_tasks_come_to_share_and_opposite_ones_do_not() -> None:
    """What Hedge is for: the expert of the least variance wins among equal tasks, a larger one among opposite ones."""
    (stream,) = random_streams([60])
    opposite = TaskStream(stream.rows, -stream.labels, -stream.clean)
    for other, alike in ((stream, True), (opposite, False)):
        algorithm = mt_co2ol(MTCO2OLParameters())
        streams = [stream, stream, other, other]
        W = models(run_reference(algorithm, streams, seed=0))
        cosine = W[0] @ W[2] / np.linalg.norm(W[0]) / np.linalg.norm(W[2])
        assert cosine > 0.99 if alike else cosine < -0.9


def test_sparse_rows_give_the_models_of_dense_ones() -> None:
    streams = random_streams([15] * 3, density=0.6)
    dense, sparse = (
        models(run_reference(mt_co2ol(), some, seed=0)) for some in (streams, [*map(sparse_stream, streams)])
    )
    np.testing.assert_allclose(sparse, dense, rtol=1e-10, atol=1e-12)


def test_each_task_may_have_a_tau_of_its_own() -> None:
    parameters = MTCO2OLDParameters(tau=(2, 4, 3))
    algorithms = [mt_co2ol_d(of_task(parameters, task)) for task in range(3)]
    result = run_loop(algorithms, random_streams([12] * 3), graph_of("full", 3), seed=0)
    assert np.isfinite(models(result)).all()
    with pytest.raises(ValueError, match="of one tau"):
        mt_co2ol_d(parameters)


@pytest.mark.parametrize("name", ["mt-co2ol", "mt-co2ol-d"])
def test_every_driver_gives_the_same_bits(name: str) -> None:
    check_learner(name, tau=3)
