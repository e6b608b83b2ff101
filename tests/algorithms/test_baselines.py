"""The baselines against calculations made another way: transcriptions, scikit-learn, and conditions of an optimum."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from helpers import random_streams, sparse_stream, spread

from drom_net.algorithms import BUILTIN, Algorithm
from drom_net.algorithms.base import ContributionKind, Example, ReplyKind
from drom_net.algorithms.d_admm import DADMMParameters, DADMMState, d_admm
from drom_net.algorithms.d_ofw import DOFWParameters, d_ofw, mixing
from drom_net.algorithms.local import LocalParameters, local
from drom_net.algorithms.losses import LOSSES
from drom_net.algorithms.osmtl import OSMTLParameters, osmtl, project_on_simplex
from drom_net.algorithms.pooled import PooledParameters, pooled
from drom_net.algorithms.prox_gd import ProxGDParameters, prox_gd
from drom_net.algorithms.spectral import shrink
from drom_net.data.stream import TaskStream
from drom_net.learning.records import TASK_DTYPE
from drom_net.learning.reference import ReferenceResult, run_reference
from drom_net.learning.task import Centre, TaskLearner

LENGTHS = (25, 14, 25, 9)
ALIGNMENTS = pytest.mark.parametrize("alignment", [list, spread])


def scores(result: ReferenceResult) -> list[np.ndarray]:
    rows = [np.frombuffer(records, dtype=TASK_DTYPE) for records in result.task_records]
    return [task["score"][task["active"] == 1] for task in rows]


def models(result: ReferenceResult) -> np.ndarray:
    return np.stack([task.model["w"] for task in result.tasks])


def same(result: ReferenceResult, expected: tuple[list[list[float]], np.ndarray], tolerance: float = 1e-9) -> None:
    for one, other in zip(scores(result), expected[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(models(result), expected[1], rtol=tolerance, atol=tolerance)


def gradient_slope(loss: str, z: float) -> float:
    if loss == "logistic":
        return -1.0 / (1.0 + math.exp(z))
    return (-1.0 if loss == "hinge" else -2.0 * (1.0 - z)) if z < 1.0 else 0.0


def rounds_of(streams: Sequence[TaskStream]) -> range:
    return range(1, max(stream.last_round() for stream in streams) + 1)


def example_of(stream: TaskStream, t: int) -> tuple[np.ndarray, float] | None:
    index = stream.index_at(t)
    return None if index is None else (stream.rows[index], stream.labels[index])  # type: ignore[index]


# Singular values ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (5, 5), (1, 6), (6, 1)])
@pytest.mark.parametrize("c", [0.0, 0.7, 100.0])
def test_shrinking_lowers_every_singular_value_by_c(shape: tuple[int, int], c: float) -> None:
    """Section 8: "SVT lowers each singular value by c", 1e-9."""
    A = np.random.default_rng(1).standard_normal(shape)
    U, S, Vt = np.linalg.svd(A, full_matrices=False)
    shrunk, pair = shrink(A, c)
    np.testing.assert_allclose(shrunk, U @ np.diag(np.maximum(S - c, 0.0)) @ Vt, atol=1e-9)
    np.testing.assert_allclose(pair.sigma * np.outer(pair.v, pair.u), S[0] * np.outer(U[:, 0], Vt[0]), atol=1e-9)
    assert pair.residual < 1e-9
    assert pair.v[np.argmax(np.abs(pair.v))] > 0.0


def test_shrinking_is_the_proximal_step_of_the_nuclear_norm() -> None:
    """No other matrix does better by 1/2 |X - A|^2 + c |X|_*."""
    rng = np.random.default_rng(2)
    A, c = rng.standard_normal((4, 7)), 0.9
    shrunk, _ = shrink(A, c)

    def value(X: np.ndarray) -> float:
        return 0.5 * float(((X - A) ** 2).sum()) + c * float(np.linalg.norm(X, "nuc"))

    best = value(shrunk)
    for scale in (1e-3, 0.1, 1.0):
        for _ in range(50):
            assert value(shrunk + scale * rng.standard_normal(A.shape)) > best


def test_shrinking_a_zero_matrix_or_a_rank_one_matrix() -> None:
    shrunk, pair = shrink(np.zeros((3, 5)), 0.5)
    assert not shrunk.any()
    assert (pair.sigma, pair.residual) == (0.0, 0.0)
    one = np.outer([1.0, 2.0, 2.0], [0.0, 3.0, 4.0])
    np.testing.assert_allclose(shrink(one, 5.0)[0], one * (10.0 / 15.0), atol=1e-12)


# Local and Pooled -----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_local_and_pooled_of_one_task_are_scikit_learns_gradient_descent(loss: str) -> None:
    sgd = pytest.importorskip("sklearn.linear_model").SGDClassifier(
        loss={"logistic": "log_loss", "hinge": "hinge"}[loss],
        alpha=0.0,
        penalty=None,
        fit_intercept=False,
        learning_rate="invscaling",
        eta0=2.0,
        power_t=0.5,
        shuffle=False,
    )
    (stream,) = random_streams([40], flip=0.1)
    for x, y in zip(stream.rows, stream.labels, strict=True):
        sgd.partial_fit(x[np.newaxis, :], [y], classes=[-1.0, 1.0])
    for algorithm in (local(LocalParameters(eta0=2.0, loss=loss)), pooled(PooledParameters(eta0=2.0, loss=loss))):
        np.testing.assert_allclose(models(run_reference(algorithm, [stream], seed=0))[0], sgd.coef_[0], rtol=1e-9)


@ALIGNMENTS
def test_pooled_makes_one_model_of_all_examples(alignment: Any) -> None:
    streams = alignment(random_streams(list(LENGTHS), flip=0.1))
    w, told = np.zeros(7), [[] for _ in streams]  # type: ignore[var-annotated]
    last = [w] * len(streams)
    for t in rounds_of(streams):
        steps = []
        for task, stream in enumerate(streams):
            if example := example_of(stream, t):
                x, y = example
                told[task].append(w @ x)
                steps.append(gradient_slope("logistic", y * (w @ x)) * y * x)
        w = w - 3.0 / math.sqrt(t) * np.mean(steps, axis=0) if steps else w
        last = [w if t <= stream.last_round() else last[task] for task, stream in enumerate(streams)]
    same(run_reference(pooled(PooledParameters(eta0=3.0)), streams, seed=0), (told, np.stack(last)))


# ProxGD ---------------------------------------------------------------------------------------------


@ALIGNMENTS
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_prox_gd_is_its_equation(alignment: Any, loss: str) -> None:
    """W <- SVT_(eta lambda)(W - eta G); columns are tasks here, and the decomposition is NumPy's."""
    q = ProxGDParameters(eta0=0.9, lam=0.08, loss=loss)
    streams = alignment(random_streams(list(LENGTHS), flip=0.1))
    W, told = np.zeros((7, len(streams))), [[] for _ in streams]  # type: ignore[var-annotated]
    for t in rounds_of(streams):
        eta, moved = q.eta0 / math.sqrt(t), W.copy()
        for task, stream in enumerate(streams):
            if example := example_of(stream, t):
                x, y = example
                told[task].append(W[:, task] @ x)
                moved[:, task] -= eta * gradient_slope(loss, y * (W[:, task] @ x)) * y * x
        U, S, Vt = np.linalg.svd(moved, full_matrices=False)
        shrunk = U @ np.diag(np.maximum(S - eta * q.lam, 0.0)) @ Vt
        live = [task for task, stream in enumerate(streams) if t <= stream.last_round()]
        W[:, live] = shrunk[:, live]
    same(run_reference(prox_gd(q), streams, seed=0), (told, W.T))


@pytest.mark.parametrize("kind", [list, lambda streams: [sparse_stream(stream) for stream in streams]])
@ALIGNMENTS
def test_prox_gd_without_lambda_is_local_to_the_bit(alignment: Any, kind: Any) -> None:
    """Section 8."""
    streams = alignment(kind(random_streams(list(LENGTHS), density=0.6, flip=0.1)))
    one = run_reference(prox_gd(ProxGDParameters(eta0=3.0, lam=0.0)), streams, seed=0)
    other = run_reference(local(LocalParameters(eta0=3.0)), streams, seed=0)
    assert models(one).tobytes() == models(other).tobytes()
    assert [s.tobytes() for s in scores(one)] == [s.tobytes() for s in scores(other)]


# D-OFW ----------------------------------------------------------------------------------------------


@ALIGNMENTS
@pytest.mark.parametrize("horizon", [None, 25])
def test_d_ofw_is_its_equation_and_stays_in_its_ball(alignment: Any, horizon: int | None) -> None:
    """Section 4: W = (1 - s) W - s r u v^T with the leading pair of eta Z + 2 W; section 8: it stays in its ball."""
    q = DOFWParameters(eta0=3.0, radius=8.0, horizon=horizon, solver="gram")
    streams = alignment(random_streams(list(LENGTHS), flip=0.1))
    m = len(streams)
    W, Z, told, last = np.zeros((7, m)), np.zeros((7, m)), [[] for _ in streams], np.zeros((m, 7))  # type: ignore[var-annotated]
    for t in rounds_of(streams):
        for task, stream in enumerate(streams):
            if example := example_of(stream, t):
                x, y = example
                told[task].append(W[:, task] @ x)
                Z[:, task] += gradient_slope("logistic", y * (W[:, task] @ x)) * y * x
        eta = q.eta0 * q.radius / (horizon or t) ** 0.75
        U, _, Vt = np.linalg.svd(eta * Z + 2.0 * W, full_matrices=False)
        s = min(1.0, 2.0 / math.sqrt(t))
        W = (1.0 - s) * W - s * q.radius * np.outer(U[:, 0], Vt[0])
        assert np.linalg.norm(W, "nuc") <= q.radius + 1e-9
        for task, stream in enumerate(streams):
            if t <= stream.last_round():
                last[task] = W[:, task]
    same(run_reference(d_ofw(q), streams, seed=0), (told, last), 1e-7)


def test_the_mixing_of_d_ofw() -> None:
    assert [mixing(t) for t in (1, 4, 16, 100)] == [1.0, 1.0, 0.5, 0.2]


def test_workers_and_centre_of_d_ofw_hold_the_same_models() -> None:
    """The step is made twice, from the same numbers: at the task, and at the centre."""
    algorithm = d_ofw(DOFWParameters(radius=5.0))
    streams = random_streams([12] * 3)
    states = [algorithm.init_local(7) for _ in streams]
    central = algorithm.init_central((0, 1, 2), 7, np.random.default_rng(0))
    for t in range(1, 13):
        sent = {}
        for task, stream in enumerate(streams):
            example = Example(stream.features(t - 1), float(stream.labels[t - 1]))
            states[task], _ = algorithm.learn(states[task], example, t)
            states[task], sent[task] = algorithm.update(states[task], t)
        central, replies, _ = algorithm.central_step(central, sent)
        states = [algorithm.receive(state, replies[task], t) for task, state in enumerate(states)]
        assert np.stack([state.w for state in states]).tobytes() == central.W.tobytes()


# D-ADMM ---------------------------------------------------------------------------------------------


def settled(q: DADMMParameters, streams: list[TaskStream], *, rounds: int, alone: bool = False) -> list[DADMMState]:
    """The states after all examples and many rounds without anything new (an example of zeros adds nothing)."""
    algorithm = d_admm(q)
    states = [algorithm.init_local(7) for _ in streams]
    central = algorithm.init_central(tuple(range(len(streams))), 7, np.random.default_rng(0))
    for t in range(1, rounds + 1):
        sent = {}
        for task, stream in enumerate(streams):
            new = t <= stream.num_examples
            example = Example(stream.features(t - 1), float(stream.labels[t - 1])) if new else Example(np.zeros(7), 1.0)
            states[task], _ = algorithm.learn(states[task], example, t)
            states[task], sent[task] = algorithm.update(states[task], t)
            if not new:  # forget it again
                del states[task].examples[-1], states[task].alpha[-1]
                states[task].cursor %= stream.num_examples
        central, replies, _ = algorithm.central_step(central, sent)
        if not alone:
            states = [algorithm.receive(state, replies[task], t) for task, state in enumerate(states)]
    return states


def test_a_task_of_d_admm_fits_its_examples_as_scikit_learns_svm_does() -> None:
    """argmin C sum hinge + rho/2 |w|^2, while nothing has come back yet."""
    svm = pytest.importorskip("sklearn.svm").LinearSVC(
        C=0.8 / 2.0, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=1_000_000
    )
    (stream,) = random_streams([30], flip=0.2)
    (state,) = settled(DADMMParameters(C=0.8, rho=2.0, replayed=30), [stream], rounds=400, alone=True)
    svm.fit(stream.rows, stream.labels)
    np.testing.assert_allclose(state.w, svm.coef_[0], atol=1e-5)
    assert all(0.0 <= alpha <= 0.8 for alpha in state.alpha)


@pytest.mark.slow
def test_d_admm_settles_at_the_optimum_of_its_objective() -> None:
    """min C sum hinge + lambda |W|_*: the conditions of Karush, Kuhn and Tucker hold, whoever found the point.

    With G = sum_s alpha_s y_s x_s, a row a task: alpha_s is C where the margin is below 1 and 0 where it is above,
    |G|_2 <= lambda, and <G, W> = lambda |W|_*.
    """
    q = DADMMParameters(C=0.5, lam=1.5, rho=1.0, replayed=40)
    streams = random_streams([20, 16, 12], flip=0.15)
    states = settled(q, streams, rounds=3000)
    W = np.stack([state.w for state in states])
    G = np.zeros_like(W)
    for task, state in enumerate(states):
        np.testing.assert_allclose(state.w, state.z, atol=1e-5)
        for alpha, (x, y) in zip(state.alpha, state.examples, strict=True):
            assert isinstance(x, np.ndarray)
            G[task] += alpha * y * x
            margin = y * float(W[task] @ x)
            if margin < 1.0 - 1e-4:
                assert alpha == pytest.approx(q.C, abs=1e-6)
            if margin > 1.0 + 1e-4:
                assert alpha == pytest.approx(0.0, abs=1e-6)
    assert np.linalg.matrix_rank(W, tol=1e-4) < 3  # the norm binds: this is not three fits side by side
    assert np.linalg.norm(G, 2) <= q.lam + 1e-4
    assert float((G * W).sum()) == pytest.approx(q.lam * float(np.linalg.norm(W, "nuc")), abs=1e-3)


# OSMTL ----------------------------------------------------------------------------------------------


def relation_step(relation: str, P: np.ndarray, losses: np.ndarray, s: float) -> np.ndarray:
    if relation == "fixed":
        return P
    if relation == "exponential":
        weighed = P * np.exp(-s * losses)
        return weighed / weighed.sum()
    optimize = pytest.importorskip("scipy.optimize")
    target = P - s * losses
    sums_to_one = {"type": "eq", "fun": lambda p: p.sum() - 1.0}
    found = optimize.minimize(
        lambda p: ((p - target) ** 2).sum(), P, bounds=[(0, 1)] * len(P), constraints=sums_to_one, tol=1e-14
    )
    return np.asarray(found.x)


@ALIGNMENTS
@pytest.mark.parametrize("relation", ["fixed", "exponential", "truncated"])
def test_osmtl_is_its_equation(alignment: Any, relation: str) -> None:
    q = OSMTLParameters(eta0=2.0, alpha=0.6, relation=relation, s=0.3)
    streams = alignment(random_streams(list(LENGTHS), flip=0.1))
    m = len(streams)
    W, told = np.zeros((m, 7)), [[] for _ in streams]  # type: ignore[var-annotated]
    P = (np.ones((m, m)) - np.eye(m)) / (m - 1)
    for t in rounds_of(streams):
        examples = {task: example for task, stream in enumerate(streams) if (example := example_of(stream, t))}
        before = W.copy()
        for k, (x, y) in examples.items():
            told[k].append(before[k] @ x)
            others = [j for j in range(m) if j != k]
            here = [j for j in others if j in examples]
            own = q.alpha if here else 1.0
            step = own * gradient_slope("logistic", y * (before[k] @ x)) * y * x
            losses = np.zeros(m)
            for j in here:
                its_x, its_y = examples[j]
                z = its_y * (before[k] @ its_x)
                step = step + (1.0 - own) * P[k, j] * gradient_slope("logistic", z) * its_y * its_x
                losses[j] = np.log1p(np.exp(-z))
            W[k] = before[k] - q.eta0 / math.sqrt(t) * step
            if here:
                losses[[j for j in others if j not in here]] = losses[here].mean()
                P[k, others] = relation_step(relation, P[k, others], losses[others], q.s)
    same(run_reference(osmtl(q), streams, seed=0), (told, W), 1e-5 if relation == "truncated" else 1e-9)


def test_osmtl_that_looks_at_itself_alone_is_local() -> None:
    """Section 8: "OSMTL alpha = 1 = Local", 1e-12."""
    streams = random_streams(list(LENGTHS), flip=0.1)
    one = run_reference(osmtl(OSMTLParameters(eta0=3.0, alpha=1.0)), streams, seed=0)
    other = run_reference(local(LocalParameters(eta0=3.0)), streams, seed=0)
    np.testing.assert_allclose(models(one), models(other), rtol=1e-12, atol=1e-12)


def test_osmtl_of_one_task_is_local() -> None:
    streams = random_streams([20])
    one = run_reference(osmtl(OSMTLParameters(eta0=3.0, alpha=0.4)), streams, seed=0)
    np.testing.assert_allclose(
        models(one), models(run_reference(local(LocalParameters(eta0=3.0)), streams, seed=0)), rtol=1e-12
    )


@pytest.mark.parametrize(
    "p", [[0.5, 0.5], [2.0, 0.0, 0.0], [-1.0, -2.0], [0.4, 0.3, 0.4], [-5.0, 0.2, 0.1, 0.3], [3.0]]
)
def test_the_projection_on_the_simplex_is_the_nearest_point(p: list[float]) -> None:
    target = np.array(p)
    projected = project_on_simplex(target)
    assert projected.min() >= 0.0
    assert projected.sum() == pytest.approx(1.0, abs=1e-12)
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = rng.dirichlet(np.full(len(p), 0.5))
        assert ((projected - target) ** 2).sum() <= ((other - target) ** 2).sum() + 1e-12


def test_osmtl_trusts_the_tasks_that_its_model_explains() -> None:
    """Task 1 has the labels of task 0, task 2 their opposite: the weight goes to task 1."""
    (stream,) = random_streams([60])
    streams = [stream, stream, dataclasses.replace(stream, labels=-stream.labels, clean=-stream.clean)]
    learners = [TaskLearner(osmtl(OSMTLParameters(eta0=3.0, s=0.5)), stream) for stream in streams]
    centre = Centre(osmtl(None), tasks=range(3), dim=7, seed=0)
    for t in range(1, 61):
        replies = centre.reduce(t, {task: learner.begin(t) for task, learner in enumerate(learners)})
        for task, learner in enumerate(learners):
            learner.end(t, replies[task])
    to_same, to_opposite = learners[0].snapshot()["_state"].P
    assert to_same > 0.95 > 0.05 > to_opposite


# What leaves a site ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILTIN)
def test_who_sends_examples_says_so(name: str) -> None:
    """decisions.md: OSMTL and Pooled carry `shares_examples`; what the others send is not the round's example.

    In the second round: a model after one step is a multiple of the first example, whatever the learner.
    """
    algorithm: Algorithm = BUILTIN[name].make()
    (stream,) = random_streams([2])
    state = algorithm.init_local(7)
    for t in (1, 2):
        example = Example(stream.features(t - 1), float(stream.labels[t - 1]))
        state, _ = algorithm.learn(state, example, t)
        state, sent = algorithm.update(state, t)
    yx = example.y * np.asarray(example.x)
    assert any(np.allclose(vector, yx) for vector in sent.vectors) == BUILTIN[name].shares_examples


def test_a_reply_that_waits_for_nobody_is_taken_at_once() -> None:
    """The next prediction is made with what came back: the score of round 2 is that of the centre's row."""
    algorithm = prox_gd(ProxGDParameters(eta0=1.0, lam=0.2))
    streams = random_streams([2, 2])
    learners = [TaskLearner(algorithm, stream) for stream in streams]
    centre = Centre(algorithm, tasks=range(2), dim=7, seed=0)
    sent = {task: learner.begin(1) for task, learner in enumerate(learners)}
    assert {contribution.kind for contribution in sent.values()} == {ContributionKind.VECTORS}
    replies = centre.reduce(1, sent)
    assert {reply.kind for reply in replies.values()} == {ReplyKind.VECTORS}
    for task, learner in enumerate(learners):
        assert not np.allclose(replies[task].vectors[0], sent[task].vectors[0])
        learner.end(1, replies[task])
        x = streams[task].features(1)
        assert learner.predict(x) == float(np.dot(replies[task].vectors[0], x))


def test_the_losses_of_the_transcriptions_are_those_of_the_product() -> None:
    for name, loss in LOSSES.items():
        for z in (-2.0, 0.0, 0.5, 3.0):
            assert gradient_slope(name, z) == pytest.approx(loss.slope(z), rel=1e-12)


def test_local_with_constant_steps_is_its_equation() -> None:
    streams = random_streams([20, 20], flip=0.1)
    result = run_reference(local(LocalParameters(eta0=0.7, steps="constant")), streams, seed=0)
    for stream, w in zip(streams, models(result), strict=True):
        expected = np.zeros(stream.dim)
        for x, y in zip(np.asarray(stream.rows), stream.labels, strict=True):
            expected -= 0.7 * y * gradient_slope("logistic", y * (expected @ x)) * x
        np.testing.assert_allclose(w, expected, rtol=1e-12)
