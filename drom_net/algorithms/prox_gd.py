"""ProxGD: each task takes a gradient step, and the centre shrinks the singular values of all models together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from drom_net.algorithms.base import (
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
from drom_net.algorithms.features import Matrix, Vector, dot, scaled
from drom_net.algorithms.learner import STEP, Learner, Log, Search
from drom_net.algorithms.losses import LOSSES
from drom_net.algorithms.spectral import shrink
from drom_net.core.fields import Choice, Number, option


@dataclass(frozen=True, slots=True)
class ProxGDParameters:
    """ProxGD's parameters."""

    eta0: float = option(Number(above=0.0), 10.0, doc="The step size of round t is eta0/sqrt(t).")
    lam: float = option(
        Number(at_least=0.0),
        0.01,
        key="lambda",
        doc="The weight of the nuclear norm: round t lowers every singular value by eta0/sqrt(t) times this.",
    )
    loss: str = option(Choice(tuple(LOSSES)), "logistic", doc="The loss of the margin.")


@dataclass(slots=True)
class ProxGDState:
    """One task: w of shape (d,), and the step it takes with the example of its round."""

    w: Vector
    step: Vector | None = None


@dataclass(slots=True)
class ProxGDCentral:
    """The centre: a row of W for each task, and how many steps it has made."""

    row_of: dict[int, int]
    W: Matrix
    t: int = 0


def prox_gd(parameters: ProxGDParameters | None = None) -> Algorithm:
    """W <- SVT_(eta_t lambda)(W - eta_t G), proximal gradient steps (Duchi et al. 2010; section 4).

    G is the gradient of the plain loss, SVT_c lowers singular values by c. A task sends w - eta_t g and gets its row
    back. The row of a task whose stream has ended stays as it was; an idle task's moves with the others.
    """
    q = parameters or ProxGDParameters()
    loss = LOSSES[q.loss]

    def learn(state: ProxGDState, example: Example, t: int) -> tuple[ProxGDState, Prediction]:
        x, y = example
        score = dot(state.w, x)
        z = y * score
        state.step = scaled(loss.slope(z) * y, x, len(state.w))
        return state, Prediction(score, loss.value(z), 1.0)

    def update(state: ProxGDState, t: int) -> tuple[ProxGDState, Contribution]:
        assert state.step is not None
        # A new array: the last one may still be on its way to the centre. The same operations as Local's.
        state.w = state.w - (q.eta0 / math.sqrt(t)) * state.step
        state.step = None
        return state, Contribution(ContributionKind.VECTORS, (state.w,))

    def receive(state: ProxGDState, reply: Reply, t: int) -> ProxGDState:
        (state.w,) = reply.vectors
        return state

    def central_step(
        state: ProxGDCentral, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
    ) -> tuple[ProxGDCentral, dict[int, Reply], CentralInfo]:
        for task, contribution in contributions.items():
            if contribution.kind is ContributionKind.VECTORS:
                state.W[state.row_of[task]] = contribution.vectors[0]
        state.t += 1
        c = q.eta0 / math.sqrt(state.t) * q.lam
        shrunk, pair = shrink(state.W, c)
        replies = {}
        for task in sorted(contributions):
            row = state.row_of[task]
            if c > 0.0:
                state.W[row] = shrunk[row]
            replies[task] = Reply(ReplyKind.VECTORS, (state.W[row].copy(),))
        return state, replies, CentralInfo(pair.sigma, pair.v, pair.residual)

    return Algorithm(
        name="prox-gd",
        init_local=lambda dim: ProxGDState(np.zeros(dim)),
        learn=learn,
        update=update,
        init_central=lambda tasks, dim, rng: ProxGDCentral(
            {task: row for row, task in enumerate(tasks)}, np.zeros((len(tasks), dim))
        ),
        central_step=central_step,
        exchange=Exchange(SyncRounds(1), contribution=(1,), reply=(1,)),
        predict=lambda state, x: dot(state.w, x),
        model=lambda state: {"w": state.w},
        receive=receive,
    )


PROX_GD = Learner(
    name="prox-gd",
    parameters=ProxGDParameters,
    build=prox_gd,
    reveals="The reducer gets each task's model after each example; two in a row give the example away.",
    searches=(Search(space={**STEP, "lam": Log(1e-5, 0.5)}),),
)
