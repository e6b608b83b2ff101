"""LDR: each task mixes five small experts, of which four share, so that sharing cannot hurt; nothing to tune.

The experts of task i (notation of docs/algorithms.md): L learns alone; D is one model for all tasks, by dual averaging
with AdaGrad's step; R combines the models of all tasks with coefficients that it learns; D+ and R+ are the same with an
offset of the task's own. Hedge on a floored log loss mixes their probabilities, with a fixed share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drom_net.algorithms.base import (
    Algorithm,
    CentralInfo,
    Contribution,
    ContributionKind,
    Example,
    Prediction,
    Reply,
    ReplyKind,
    SyncRounds,
)
from drom_net.algorithms.features import Features, Matrix, SparseVector, Vector
from drom_net.fields import Flag, Integer, option

ETA = 0.5
EPS = 0.1
SHARE = 0.01
DELTA = 1e-8
A_STEP = 0.1
A_START = 0.01
EXPERTS = ("local", "shared", "shared with offset", "relation", "relation with offset")
EVIDENCE = ("examples", "errors", "errors_alone", "loss", "loss_alone", "weight_of_sharing", "sure", "sure_errors")
"""What a task counts, by the labels that it sees: errors and log loss (nats) of the mixture and of its expert that
learns alone, the sum of the weight of the others, and how sure it was, of all and of what came out contrary. Sure is
(|p - 1/2| / 0.4)^4, at most 1: above all the surest count, and a task of which it is never very sure has some too."""


@dataclass(frozen=True, slots=True)
class LDRParameters:
    """LDR has nothing to tune; these say how much travels, and whom to trust."""

    tau: int = option(Integer(0), 1, doc="The most rounds between two syncs; 0 for no bound: about 4.5 ln T in all.")
    robust: bool = option(
        Flag(),
        False,
        doc="Whether one bad site is stood: sums are trimmed, long models scaled down; six tasks or more.",
    )


@dataclass(slots=True)
class LDRState:
    """One task. Vectors have shape (d,)."""

    W: Vector
    GW: Vector
    P: Vector
    q: Vector
    V: Vector
    GV: Vector
    VR: Vector
    GVR: Vector
    w: Vector
    """The experts' weights, shape (5,), sum 1."""
    Z: Vector
    Q: Vector
    U: Matrix
    """The other tasks' models, shape (m - 1, d), in task order."""
    a: Vector
    """Its own coefficient, then the others'."""
    b: Vector
    evidence: Vector
    """Shape (8,), as `EVIDENCE`."""
    kappa: float = 1.0
    fresh: bool = True


@dataclass(slots=True)
class LDRCentral:
    """The centre: totals and the last models."""

    row_of: dict[int, int]
    P: Matrix
    """Each task's sum of gradients, shape (m, d)."""
    Q: Matrix
    W: Matrix


def floored(z: float) -> float:
    """pi = eps + (1 - 2 eps) s(z), the probability of +1."""
    s = 1.0 / (1.0 + math.exp(-z)) if z >= 0.0 else math.exp(z) / (1.0 + math.exp(z))
    return EPS + (1.0 - 2.0 * EPS) * s


def floored_slope(z: float, y: float) -> float:
    """c(z, y) = df/dz of f = -log pi(y z)."""
    e = math.exp(-abs(z))
    s = 1.0 / (1.0 + e) if y * z >= 0.0 else e / (1.0 + e)
    pi = EPS + (1.0 - 2.0 * EPS) * s
    return -y * (1.0 - 2.0 * EPS) * (e / ((1.0 + e) * (1.0 + e))) / pi


def ldr(parameters: LDRParameters | None = None) -> Algorithm:
    """The mixture of learner.md, sections 2 and 3, central form."""
    parameters = parameters or LDRParameters()
    sync = SyncRounds(parameters.tau or 2**62, growing=True)

    def init_local(dim: int) -> LDRState:
        zeros = [np.zeros(dim) for _ in range(6)]
        deltas = [np.full(dim, DELTA) for _ in range(3)]
        W, P, q, V, VR, Z = zeros
        return LDRState(
            W, deltas[0], P, q, V, deltas[1], VR, deltas[2], np.full(len(EXPERTS), 1.0 / len(EXPERTS)), Z,
            np.zeros(dim),
            np.zeros((0, dim)), np.ones(1), np.full(1, A_START), np.zeros(len(EVIDENCE)),
        )  # fmt: skip

    def scores(state: LDRState, x: Features) -> tuple[Vector, list[float]]:
        """(h: own and the others' models on x, z of the five experts)."""
        at, values = support(x)
        h = np.concatenate([[state.W[at] @ values], state.U[:, at] @ values])
        z2 = float(shared(state, at) @ values)
        z4 = float(state.a @ h)
        return h, [float(h[0]), z2, z2 + float(state.V[at] @ values), z4, z4 + float(state.VR[at] @ values)]

    def ada(w: Vector, G: Vector, c: float, x: Features) -> None:
        if isinstance(x, SparseVector):
            g = c * x.values
            G[x.indices] += g * g
            w[x.indices] -= ETA * g / np.sqrt(G[x.indices])
        else:
            g = c * x
            G += g * g
            w -= ETA * g / np.sqrt(G)

    def primal_step(state: LDRState, example: Example, t: int) -> tuple[LDRState, Prediction]:
        x, y = example
        h, z = scores(state, x)
        score = mixed(state.w, z)
        c = [floored_slope(one, y) for one in z]
        ada(state.W, state.GW, c[0], x)
        if isinstance(x, SparseVector):
            g = c[1] * x.values
            state.P[x.indices] += g
            state.q[x.indices] += g * g
        else:
            g = c[1] * x
            state.P += g
            state.q += g * g
        ada(state.V, state.GV, c[2], x)
        ada(state.VR, state.GVR, c[4], x)
        step = c[3] * h
        state.b += step * step
        state.a -= A_STEP * step / np.sqrt(state.b)
        losses = np.array([-math.log(floored(y * one)) for one in z])
        loss, sure, others = -math.log(0.5 + y * score), (score / (0.5 - EPS)) ** 4, 1.0 - float(state.w[0])
        wrong, wrong_alone = (score >= 0.0) != (y > 0.0), (z[0] >= 0.0) != (y > 0.0)
        state.evidence += (1.0, wrong, wrong_alone, loss, losses[0], others, sure, sure * wrong)
        w = state.w * np.exp(losses.min() - losses)
        w /= w.sum()
        state.w = (1.0 - SHARE) * w + SHARE / len(EXPERTS)
        return state, Prediction(score, loss, 1.0)

    def dual_step(state: LDRState, reply: Reply, t: int) -> tuple[LDRState, Contribution]:
        if not sync.at(t):
            return state, Contribution(ContributionKind.IDLE)
        sent = (state.W.copy(), state.P, state.q)
        state.P, state.q = np.zeros_like(state.P), np.zeros_like(state.q)
        return state, Contribution(ContributionKind.VECTORS, sent)

    def receive(state: LDRState, reply: Reply, t: int) -> LDRState:
        if reply.kind is not ReplyKind.VECTORS:
            return state
        state.Z, state.Q, *models = reply.vectors
        if state.fresh:
            m = len(models) + 1
            state.a, state.b = np.full(m, 1.0 / m), np.full(m, A_START)
            state.kappa, state.fresh = math.sqrt(m), False
        state.U = np.array(models).reshape(len(models), len(state.Z))
        return state

    def central_step(
        state: LDRCentral, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
    ) -> tuple[LDRCentral, dict[int, Reply], CentralInfo]:
        for task, contribution in contributions.items():
            if contribution.kind is ContributionKind.VECTORS:
                row = state.row_of[task]
                W, P, q = contribution.vectors
                state.W[row] = W
                state.P[row] += P
                state.Q[row] += q
        Z, Q, W = totals(state.P, state.Q, state.W, robust=parameters.robust)
        replies = {}
        for task in sorted(contributions):
            row = state.row_of[task]
            replies[task] = Reply(ReplyKind.VECTORS, (Z, Q, *(W[j] for j in range(len(W)) if j != row)))
        return state, replies, CentralInfo(0.0, np.zeros(len(state.W)), 0.0)

    def init_central(tasks: tuple[int, ...], dim: int, rng: np.random.Generator) -> LDRCentral:
        shape = (len(tasks), dim)
        rows = {task: row for row, task in enumerate(tasks)}
        return LDRCentral(rows, np.zeros(shape), np.zeros(shape), np.zeros(shape))

    return Algorithm(
        name="ldr",
        init_local=init_local,
        primal_step=primal_step,
        dual_step=dual_step,
        init_central=init_central,
        central_step=central_step,
        sync=sync,
        predict=lambda state, x: mixed(state.w, scores(state, x)[1]),
        model=lambda state: {
            "w": state.W,
            "shared": shared(state, slice(None)),
            "offset": state.V,
            "relation": state.a[0] * state.W + state.a[1:] @ state.U,
            "relation_offset": state.VR,
            "mixture": state.w,
            "evidence": state.evidence,
        },
        push_vectors=3,
        pull_vectors=lambda num_tasks: 1 + num_tasks,
        score=score_of_model,
        receive=receive,
        mixing=lambda state: (state.w, state.evidence),
    )


def support(x: Features) -> tuple[Any, Vector]:
    """(where x is not zero, as an index of vectors; its values there)."""
    return (x.indices, x.values) if isinstance(x, SparseVector) else (slice(None), x)


def shared(state: LDRState, at: Any) -> Vector:
    """S, the shared model, at some features."""
    step = -ETA * (state.Z[at] + state.kappa * state.P[at])
    result: Vector = step / np.sqrt(state.Q[at] + state.kappa * state.q[at] + DELTA)
    return result


def mixed(w: Vector, z: list[float]) -> float:
    """p - 1/2 of the mixture: its sign is the prediction."""
    return float(np.dot(w, [floored(one) for one in z])) - 0.5


def score_of_model(model: Mapping[str, Vector], x: Features) -> float:
    """The same by what is left of a task at its end."""
    at, values = support(x)
    own, both, offset, relation, relation_offset = (
        float(model[name][at] @ values) for name in ("w", "shared", "offset", "relation", "relation_offset")
    )
    return mixed(model["mixture"], [own, both, both + offset, relation, relation + relation_offset])


def totals(P: Matrix, Q: Matrix, W: Matrix, *, robust: bool) -> tuple[Vector, Vector, Matrix]:
    """(Z, Q, models), with one bad site stood where robust."""
    if not robust or len(P) < 3:
        return P.sum(axis=0), Q.sum(axis=0), W.copy()
    low, high = P.argmin(axis=0), P.argmax(axis=0)
    high = np.where(high == low, (low + 1) % len(P), high)
    column = np.arange(P.shape[1])
    Z = P.sum(axis=0) - P[low, column] - P[high, column]
    total = Q.sum(axis=0) - Q[low, column] - Q[high, column]
    norms = np.linalg.norm(W, axis=1)
    most = 2.0 * np.median(norms)
    factors = np.ones(len(W))
    factors[norms > most] = most / norms[norms > most]
    return Z, np.maximum(total, 0.0), W * factors[:, None]
