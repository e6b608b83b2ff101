"""The paper in its order, and section 8 of the specification, where DROM and Local are concerned.

The transcription below is written from the paper's Algorithm 1 alone: columns are tasks, as it has them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers import random_streams, sparse_stream, spread

from drom_net.algorithms.base import ContributionKind, ReplyKind
from drom_net.algorithms.drom import PAPER, DromParameters, drom
from drom_net.algorithms.local import LocalParameters, local
from drom_net.data.stream import TaskStream
from drom_net.learning.records import TASK_DTYPE, central_dtype
from drom_net.learning.reference import ReferenceResult, run_reference

INF = math.inf


class Transcription:
    """Algorithm 1 with step eta0/sqrt(t), general lambda and rho, a bound kappa, for tasks that may be idle."""

    def __init__(self, streams: list[TaskStream], q: DromParameters) -> None:
        self.q, self.streams = q, streams
        d, m = streams[0].dim, len(streams)
        self.W, self.A, self.R = np.zeros((d, m)), np.zeros((d, m)), np.zeros((d, m))
        self.A_server = np.zeros((d, m))
        self.scores: list[dict[int, float]] = []
        self.gammas: list[dict[int, float]] = []
        self.sigmas: list[float] = []

    def loss(self, z: float) -> tuple[float, float]:
        if self.q.loss == "hinge":
            return (1.0 - z, -1.0) if z < 1.0 else (0.0, 0.0)
        if self.q.loss == "squared_hinge":
            return ((1.0 - z) ** 2, -2.0 * (1.0 - z)) if z < 1.0 else (0.0, 0.0)
        return float(np.log1p(np.exp(-z))), float(-1.0 / (1.0 + np.exp(z)))

    def round(self, t: int) -> None:
        q, eta = self.q, self.q.eta0 / np.sqrt(t)
        self.scores.append({})
        self.gammas.append({})
        pushed = []
        for i, stream in enumerate(self.streams):
            n, T = stream.num_examples, stream.spread_over
            if T is None:
                index = t - 1 if t <= n else None
            else:
                stepped = math.floor(t * n / T + 1e-9) > math.floor((t - 1) * n / T + 1e-9)
                index = math.floor((t - 1) * n / T + 1e-9) if stepped else None
            if index is None:
                continue
            x = stream.rows[index]  # type: ignore[index]
            y, w, a = stream.labels[index], self.W[:, i].copy(), self.A[:, i].copy()
            score = float(w @ x)
            f, slope = self.loss(y * score)
            if f > 0.0:
                gamma = min(q.p * f ** (q.p - 1.0), q.kappa) if f**q.p <= q.xi else 0.0
            else:
                gamma = min(1.0 if q.p == 1.0 else np.finfo(float).max, q.kappa)
            self.scores[-1][i], self.gammas[-1][i] = score, gamma
            if gamma > 0.0:
                gradient = slope * y * x
                weighted = gamma * gradient if slope else np.zeros_like(x)
                self.A[:, i] = a + eta * (q.lam * w - q.rho * self.R[:, i])
                self.W[:, i] = w - eta * (q.lam * self.A[:, i] + weighted)
                self.A_server[:, i] = self.A[:, i]
                pushed.append(i)
        left, singular, right = np.linalg.svd(self.A_server, full_matrices=False)
        self.sigmas.append(float(singular[0]))
        u, v = left[:, 0], right[0]
        for i in pushed:
            self.R[:, i] = u * v[i] if singular[0] > 1.0 else 0.0


def task_rows(result: ReferenceResult, task: int) -> np.ndarray:
    return np.frombuffer(result.task_records[task], dtype=TASK_DTYPE)


def central_rows(result: ReferenceResult) -> np.ndarray:
    return np.frombuffer(result.central_records, dtype=central_dtype(len(result.tasks)))


SETTINGS: dict[str, dict[str, Any]] = {
    "nearly the paper": {**PAPER, "eta0": 1.4, "xi": 1.1},
    "hinge": {"loss": "hinge", "eta0": 1.5, "lam": 0.4, "rho": 0.7, "p": 0.7, "xi": 1.4, "kappa": 3.0},
    "squared": {"loss": "squared_hinge", "eta0": 0.6, "lam": 0.5, "rho": 0.3, "p": 0.5, "xi": 1.2, "kappa": 2.0},
    "logistic": {"loss": "logistic", "eta0": 3.0, "lam": 0.2, "rho": 0.4, "p": 0.9, "xi": 0.9, "kappa": 2.0},
    "no cap": {"loss": "logistic", "eta0": 3.0, "lam": 0.2, "rho": 0.4, "p": 0.9},
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("alignment", [list, spread])
@pytest.mark.parametrize("setting", SETTINGS)
def test_thirty_rounds_are_those_of_algorithm_1(setting: str, alignment: Any, seed: int) -> None:
    """Algorithm 1 (DROM): scores, weights, w, a and sigma_1 agree to 1e-12."""
    q = DromParameters(**SETTINGS[setting], solver="gram")
    streams = alignment(random_streams([30, 23, 30, 11], dim=6, seed=seed, flip=0.2))
    ours = run_reference(drom(q), streams, seed=0)
    theirs = Transcription(streams, q)
    for t in range(1, 31):
        theirs.round(t)
    outliers, tolerance = 0, {"rtol": 1e-12, "atol": 1e-12}
    for task in range(4):
        rows = task_rows(ours, task)
        active = rows[rows["active"] == 1]
        expected = [(s[task], g[task]) for s, g in zip(theirs.scores, theirs.gammas, strict=True) if task in s]
        np.testing.assert_allclose(active["score"], [score for score, _ in expected], **tolerance)
        np.testing.assert_allclose(active["gamma"], [gamma for _, gamma in expected], **tolerance)
        np.testing.assert_allclose(ours.tasks[task].model["w"], theirs.W[:, task], **tolerance)
        np.testing.assert_allclose(ours.tasks[task].model["a"], theirs.A[:, task], **tolerance)
        outliers += int(np.sum(active["gamma"] == 0.0))
    sigmas = central_rows(ours)["sigma_1"]
    np.testing.assert_allclose(sigmas, theirs.sigmas, **tolerance)
    # What makes this a test of the branches: outliers, rounds below and above sigma_1 = 1.
    assert (outliers > 0) == (q.xi < INF)
    assert sigmas.min() <= 1.0 < sigmas.max()


def test_the_first_rounds_of_the_printed_set_by_hand() -> None:
    """Algorithm 1 with lambda = rho = xi = 1, p = 1/2, hinge; one task, x = (1, 0), labels 1, 1, -1."""
    rows = np.array([[1.0, 0.0]] * 3)
    stream = TaskStream(rows, np.array([1.0, 1.0, -1.0]), np.array([1.0, 1.0, -1.0]))
    result = run_reference(drom(DromParameters(**PAPER)), [stream], seed=0)  # type: ignore[arg-type]
    records = task_rows(result, 0)
    # t = 1: f = 1, f^p = xi is kept, gamma = 1/2; a = 0; w = (1/2, 0).
    # t = 2: f = 1/2, gamma = 1/2 (1/2)^(-1/2) = 1/sqrt(2); eta = 1/sqrt(2); a = eta/2;
    #        w = 1/2 - eta (a - gamma) = 1/2 - 1/4 + 1/2 = 3/4.
    # t = 3: z = -3/4, f = 7/4 > 1: an outlier.
    np.testing.assert_allclose(records["score"], [0.0, 0.5, 0.75], rtol=1e-15)
    np.testing.assert_allclose(records["gamma"], [0.5, math.sqrt(0.5), 0.0], rtol=1e-15)
    np.testing.assert_allclose(result.tasks[0].model["w"], [0.75, 0.0], rtol=1e-15)
    np.testing.assert_allclose(result.tasks[0].model["a"], [math.sqrt(0.125), 0.0], rtol=1e-15)
    assert list(records["reply"]) == [ReplyKind.ZERO, ReplyKind.ZERO, ReplyKind.KEEP]


def test_the_server_answers_only_when_sigma_1_is_above_1() -> None:
    """Algorithm 1, line "Server sends back {u, v} when sigma_1(A) > 1"; every other reply is an explicit nothing."""
    result = run_reference(drom(DromParameters(eta0=2.0, lam=0.2)), random_streams([30] * 3, seed=5), seed=0)
    sigmas = central_rows(result)["sigma_1"]
    assert 0 < np.sum(sigmas > 1.0) < 30
    for task in range(3):
        np.testing.assert_array_equal(task_rows(result, task)["reply"] == ReplyKind.VECTORS, sigmas > 1.0)


def test_an_outlier_round_moves_nothing_and_synchronizes_nothing() -> None:
    """ "synchronization with the server is not allowed if noise or outlier is identified, i.e., gamma = 0"."""
    streams = random_streams([40] * 3, flip=0.3, seed=2)
    result = run_reference(drom(DromParameters(**PAPER)), streams, seed=0)  # type: ignore[arg-type]
    for task, stream in enumerate(streams):
        rows = task_rows(result, task)
        outlier = rows["gamma"] == 0.0
        assert outlier.sum() == result.tasks[task].totals.outliers > 5
        assert (rows["contribution"][outlier] == ContributionKind.SKIP).all()
        assert (rows["reply"][outlier] == ReplyKind.KEEP).all()
        assert (rows["contribution"][~outlier] == ContributionKind.VECTORS).all()
        assert result.tasks[task].totals.pushes == 40 - outlier.sum()
        # hinge with xi = 1: exactly the examples that were seen on the wrong side.
        np.testing.assert_array_equal(outlier, rows["score"] * stream.labels < 0.0)


def test_predictions_come_before_learning() -> None:
    """Section 1: "predict with w_t, count the error, then compute the loss and update. sign(0) = +1"."""
    stream = TaskStream(np.array([[1.0], [1.0]]), np.array([-1.0, -1.0]), np.array([-1.0, -1.0]))
    result = run_reference(local(), [stream], seed=0)
    assert list(task_rows(result, 0)["score"]) == [0.0, -5.0]
    assert result.tasks[0].totals.errors == 1


# Section 8: invariants


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("alignment", [list, spread])
@pytest.mark.parametrize(("loss", "eta0"), [("hinge", 2.0), ("squared_hinge", 0.4), ("logistic", 10.0)])
def test_drom_without_its_parts_is_local_bit_for_bit(loss: str, eta0: float, alignment: Any, kind: str) -> None:
    """Section 8: "lambda = rho = 0, p = 1, xi = kappa = inf: DROM = DROM-D = Local: bits"."""
    streams = alignment(random_streams([50, 31, 50], dim=9, density=0.5, flip=0.1))
    if kind == "sparse":
        streams = [sparse_stream(stream) for stream in streams]
    bare = DromParameters(eta0=eta0, lam=0.0, rho=0.0, p=1.0, xi=INF, kappa=INF, loss=loss)
    ours, alone = (
        run_reference(drom(bare), streams, seed=0),
        run_reference(local(LocalParameters(eta0=eta0, loss=loss)), streams, seed=0),
    )
    for task in range(3):
        assert ours.tasks[task].model["w"].tobytes() == alone.tasks[task].model["w"].tobytes()
        assert not ours.tasks[task].model["a"].any()
        for column in ("active", "score", "label", "gamma", "loss"):
            np.testing.assert_array_equal(
                task_rows(ours, task)[column].view(np.int64), task_rows(alone, task)[column].view(np.int64)
            )


def test_with_one_of_its_parts_drom_is_not_local() -> None:
    streams = random_streams([20] * 3)
    bare = DromParameters(eta0=2.0, lam=0.0, rho=0.0, p=1.0, xi=INF, kappa=INF)
    alone = run_reference(drom(bare), streams, seed=0)
    for other in (replace(bare, lam=0.1), replace(bare, p=0.9), replace(bare, kappa=0.5), replace(bare, xi=0.5)):
        assert run_reference(drom(other), streams, seed=0).digest != alone.digest


def test_the_correction_couples_the_tasks() -> None:
    """Without R a task's model is its own affair; with it another task's labels reach it."""
    streams = random_streams([40] * 3)
    changed = [*streams[:2], replace(streams[2], labels=-streams[2].labels)]

    def w(q: DromParameters, given: list[TaskStream]) -> bytes:
        return run_reference(drom(q), given, seed=0).tasks[0].model["w"].tobytes()

    coupled = DromParameters(eta0=2.0, lam=0.2, rho=0.5)
    assert w(coupled, streams) != w(coupled, changed)
    single = replace(coupled, rho=0.0)
    assert w(single, streams) == w(single, changed)


def test_the_step_is_bounded_where_the_specification_says_so() -> None:
    """Section 9, stability: "stable while eta_t lambda <= 2"; beyond it the alternating step grows."""

    def size(eta0_lambda: float) -> float:
        q = DromParameters(eta0=eta0_lambda, lam=1.0, rho=0.0, p=1.0, xi=INF, kappa=INF, loss="hinge")
        result = run_reference(drom(q), random_streams([60], seed=1), seed=0)
        return float(np.linalg.norm(result.tasks[0].model["w"]))

    assert size(2.0) < 1e2
    assert size(10.0) > 1e6
