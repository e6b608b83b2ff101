"""D-OFW: online Frank-Wolfe in a ball of the nuclear norm; like DROM it needs only the leading singular pair."""

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
from drom_net.algorithms.learner import LOSS, Learner, Log, Search
from drom_net.algorithms.losses import LOSSES
from drom_net.algorithms.spectral import SOLVERS, leading_pair, random_start
from drom_net.core.fields import Choice, Integer, Number, option


@dataclass(frozen=True, slots=True)
class DOFWParameters:
    """D-OFW's parameters."""

    eta0: float = option(Number(above=0.0), 10.0, doc="The weight of the gradients: eta = eta0 r / T^(3/4).")
    radius: float = option(Number(above=0.0), 60.0, doc="r, the bound on the nuclear norm of all models together.")
    horizon: int | None = option(
        Integer(1),
        None,
        doc="T, the number of rounds, if known; else round t takes t.",
    )
    loss: str = option(Choice(tuple(LOSSES)), "logistic", doc="The loss of the margin.")
    solver: str = option(
        Choice(SOLVERS),
        "power",
        doc="The leading singular pair: power iterates from the last one, O(dm) an iteration; gram is exact, O(dm^2).",
    )
    power_iterations: int = option(Integer(1, 1_000_000), 10, doc="Power iterations a round.")


@dataclass(slots=True)
class DOFWState:
    """One task: w of shape (d,), and the gradient at the example of its round."""

    w: Vector
    gradient: Vector | None = None


@dataclass(slots=True)
class DOFWCentral:
    """The centre: the models W and the sum of gradients Z, a row for each task, the last v, and the round."""

    row_of: dict[int, int]
    W: Matrix
    Z: Matrix
    v: Vector
    t: int = 0


def mixing(t: int) -> float:
    """s_t = min(1, 2/sqrt(t)), how far round t moves to the vertex."""
    return min(1.0, 2.0 / math.sqrt(t))


def _init_central(tasks: tuple[int, ...], dim: int, rng: np.random.Generator) -> DOFWCentral:
    v = random_start(len(tasks), rng)
    shape = (len(tasks), dim)
    return DOFWCentral({task: row for row, task in enumerate(tasks)}, np.zeros(shape), np.zeros(shape), v)


def d_ofw(parameters: DOFWParameters | None = None) -> Algorithm:
    """W <- (1 - s_t) W - s_t r u v^T, the leading pair of eta Z + 2 W (Hazan and Kale 2012; section 4).

    A task sends its gradient and gets v_i u, from which it makes the step by itself. The models of idle tasks move
    too: the ball is that of all models together.
    """
    q = parameters or DOFWParameters()
    loss = LOSSES[q.loss]

    def learn(state: DOFWState, example: Example, t: int) -> tuple[DOFWState, Prediction]:
        x, y = example
        score = dot(state.w, x)
        z = y * score
        state.gradient = scaled(loss.slope(z) * y, x, len(state.w))
        return state, Prediction(score, loss.value(z), 1.0)

    def update(state: DOFWState, t: int) -> tuple[DOFWState, Contribution]:
        assert state.gradient is not None
        gradient, state.gradient = state.gradient, None
        return state, Contribution(ContributionKind.VECTORS, (gradient,))

    def step(W: Matrix, R: Matrix, t: int) -> Matrix:
        s = mixing(t)
        return (1.0 - s) * W - (s * q.radius) * R

    def receive(state: DOFWState, reply: Reply, t: int) -> DOFWState:
        state.w = step(state.w, reply.vectors[0], t)
        return state

    def central_step(
        state: DOFWCentral, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
    ) -> tuple[DOFWCentral, dict[int, Reply], CentralInfo]:
        state.t += 1
        for task, contribution in contributions.items():
            if contribution.kind is ContributionKind.VECTORS:
                state.Z[state.row_of[task]] += contribution.vectors[0]
        eta = q.eta0 * q.radius / (q.horizon or state.t) ** 0.75
        surrogate = eta * state.Z + 2.0 * state.W
        pair = leading_pair(surrogate, state.v, solver=q.solver, iterations=q.power_iterations)
        state.v = pair.v
        R = np.outer(pair.v, pair.u)  # zero where the surrogate is
        state.W = step(state.W, R, state.t)
        replies = {task: Reply(ReplyKind.VECTORS, (R[state.row_of[task]],)) for task in sorted(contributions)}
        return state, replies, CentralInfo(pair.sigma, pair.v, pair.residual, pair.u)

    return Algorithm(
        name="d-ofw",
        init_local=lambda dim: DOFWState(np.zeros(dim)),
        learn=learn,
        update=update,
        init_central=_init_central,
        central_step=central_step,
        exchange=Exchange(SyncRounds(1), contribution=(1,), reply=(1,), same_reply=True),
        predict=lambda state, x: dot(state.w, x),
        model=lambda state: {"w": state.w},
        receive=receive,
    )


D_OFW = Learner(
    name="d-ofw",
    parameters=DOFWParameters,
    build=d_ofw,
    reveals="The reducer gets the gradient of each example, which is a multiple of the example.",
    searches=(Search(space={"eta0": Log(1.0, 100.0), "radius": Log(5.0, 500.0), "loss": LOSS}),),
)
