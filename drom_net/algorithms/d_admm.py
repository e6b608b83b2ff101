"""D-ADMM: each task fits all examples it has kept, and the centre draws the fits to a common low rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from drom_net.algorithms.base import (
    KEEP,
    Algorithm,
    CentralInfo,
    Contribution,
    ContributionKind,
    Example,
    Exchange,
    Prediction,
    Reply,
    ReplyKind,
    SyncRounds,
)
from drom_net.algorithms.features import Matrix, SparseVector, Vector, add_scaled, dot
from drom_net.algorithms.learner import Learner, Log, OneOf, Search
from drom_net.algorithms.losses import hinge
from drom_net.algorithms.spectral import shrink
from drom_net.core.fields import Integer, Number, option


@dataclass(frozen=True, slots=True)
class DADMMParameters:
    """D-ADMM's parameters; its loss is the hinge."""

    C: float = option(Number(above=0.0), 1.0, key="c", doc="The weight of each example's hinge loss.")
    lam: float = option(Number(at_least=0.0), 1.0, key="lambda", doc="The weight of the nuclear norm.")
    rho: float = option(Number(above=0.0), 1.0, doc="The weight that holds a task's fit w to its consensus row z.")
    replayed: int = option(Integer(0, 1_000_000), 5, doc="How many kept examples are fitted again each round, in turn.")


@dataclass(slots=True)
class DADMMState:
    """One task: w, z, q of shape (d,), and the kept examples with their dual variables."""

    w: Vector
    z: Vector
    """The consensus row that came back last."""
    q: Vector
    """The scaled multiplier of w = z."""
    fit: Vector
    """sum_s alpha_s y_s x_s / rho: w = z - q + fit."""
    examples: list[Example] = field(default_factory=list)
    alpha: list[float] = field(default_factory=list)
    """In [0, C], one for each example."""
    cursor: int = 0
    """Which kept example is replayed next."""


@dataclass(slots=True)
class DADMMCentral:
    """The centre: the last w + q of each task, a row each."""

    row_of: dict[int, int]
    WQ: Matrix


def _central_step(
    p: DADMMParameters,
    state: DADMMCentral,
    contributions: Mapping[int, Contribution],
    members: Sequence[int] | None = None,
) -> tuple[DADMMCentral, dict[int, Reply], CentralInfo]:
    for task, contribution in contributions.items():
        if contribution.kind is ContributionKind.VECTORS:
            w, q = contribution.vectors
            state.WQ[state.row_of[task]] = w + q
    Z, pair = shrink(state.WQ, p.lam / p.rho)
    replies = {}
    for task in sorted(contributions):
        sent = contributions[task].kind is ContributionKind.VECTORS
        replies[task] = Reply(ReplyKind.VECTORS, (Z[state.row_of[task]],)) if sent else KEEP
    return state, replies, CentralInfo(pair.sigma, pair.v, pair.residual)


def d_admm(parameters: DADMMParameters | None = None) -> Algorithm:
    """min C sum hinge + lambda |W|_* by ADMM on the examples seen so far (Boyd et al. 2011; section 4).

    w = argmin C sum_(s<=t) hinge_s(w) + rho/2 |w - (z - q)|^2, by dual coordinate ascent from where the last round
    left it, one step on the newest example and one on each of the replayed; Z = SVT_(lambda/rho)(W + Q); q += w - z.
    A task sends w and q and gets z. An idle task does nothing, and its last row counts.
    """
    p = parameters or DADMMParameters()

    def learn(state: DADMMState, example: Example, t: int) -> tuple[DADMMState, Prediction]:
        score = dot(state.w, example.x)
        state.examples.append(example)
        state.alpha.append(0.0)
        return state, Prediction(score, hinge(example.y * score), 1.0)

    def ascend(state: DADMMState, index: int) -> None:
        x, y = state.examples[index]
        square = float(np.dot(x.values, x.values) if isinstance(x, SparseVector) else np.dot(x, x))
        if square == 0.0:
            return
        before = state.alpha[index]
        after = min(p.C, max(0.0, before + (1.0 - y * dot(state.w, x)) * p.rho / square))
        if after != before:
            state.alpha[index] = after
            change = (after - before) * y / p.rho
            add_scaled(state.w, change, x)
            add_scaled(state.fit, change, x)

    def update(state: DADMMState, t: int) -> tuple[DADMMState, Contribution]:
        state.w = state.z - state.q + state.fit  # a new array: the last one may still be on its way
        newest = len(state.examples) - 1
        ascend(state, newest)
        for _ in range(min(p.replayed, newest)):
            ascend(state, state.cursor)
            state.cursor = (state.cursor + 1) % newest
        return state, Contribution(ContributionKind.VECTORS, (state.w, state.q))

    def receive(state: DADMMState, reply: Reply, t: int) -> DADMMState:
        (state.z,) = reply.vectors
        state.q = state.q + state.w - state.z
        return state

    return Algorithm(
        name="d-admm",
        init_local=lambda dim: DADMMState(np.zeros(dim), np.zeros(dim), np.zeros(dim), np.zeros(dim)),
        learn=learn,
        update=update,
        init_central=lambda tasks, dim, rng: DADMMCentral(
            {task: row for row, task in enumerate(tasks)}, np.zeros((len(tasks), dim))
        ),
        central_step=partial(_central_step, p),
        exchange=Exchange(SyncRounds(1), contribution=(1, 1), reply=(1,)),
        predict=lambda state, x: dot(state.w, x),
        model=lambda state: {"w": state.w},
        receive=receive,
    )


D_ADMM = Learner(
    name="d-admm",
    parameters=DADMMParameters,
    build=d_admm,
    reveals="The reducer gets each task's model and dual vector in each round; their changes give examples away.",
    searches=(
        Search(
            space={"C": Log(0.01, 10.0), "lam": Log(1e-3, 10.0), "rho": Log(0.1, 300.0), "replayed": OneOf((5, 20))}
        ),
    ),
)
