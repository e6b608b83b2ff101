"""Pooled: one model for all tasks, made where all their examples come together. A yardstick; nothing stays private."""

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
from drom_net.algorithms.features import Vector, bounded_example, dot, scaled
from drom_net.algorithms.learner import STEP, Learner, Search
from drom_net.algorithms.losses import LOSSES
from drom_net.core.fields import Choice, Number, option


@dataclass(frozen=True, slots=True)
class PooledParameters:
    """Pooled's parameters."""

    eta0: float = option(Number(above=0.0), 10.0, doc="The step size of round t is eta0/sqrt(t).")
    loss: str = option(Choice(tuple(LOSSES)), "logistic", doc="The loss of the margin.")


@dataclass(slots=True)
class PooledState:
    """One task: the common w of shape (d,), and the example of its round as y x."""

    w: Vector
    yx: Vector | None = None


@dataclass(slots=True)
class PooledCentral:
    """The centre: the common model, and how many rounds it has seen."""

    w: Vector
    t: int = 0


def pooled(parameters: PooledParameters | None = None) -> Algorithm:
    """w -= eta0/sqrt(t) times the mean gradient of the examples of round t, of whichever task.

    A task sends its example as y x, which is all that a loss of the margin needs, and gets w.
    """
    q = parameters or PooledParameters()
    loss = LOSSES[q.loss]

    def learn(state: PooledState, example: Example, t: int) -> tuple[PooledState, Prediction]:
        x, y = example
        score = dot(state.w, x)
        state.yx = scaled(y, x, len(state.w))
        return state, Prediction(score, loss.value(y * score), 1.0)

    def update(state: PooledState, t: int) -> tuple[PooledState, Contribution]:
        assert state.yx is not None
        yx, state.yx = state.yx, None
        return state, Contribution(ContributionKind.VECTORS, (yx,))

    def receive(state: PooledState, reply: Reply, t: int) -> PooledState:
        (state.w,) = reply.vectors
        return state

    def central_step(
        state: PooledCentral, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
    ) -> tuple[PooledCentral, dict[int, Reply], CentralInfo]:
        state.t += 1
        tasks = sorted(contributions)
        came = [bounded_example(contributions[task].vectors[0]) for task in tasks if contributions[task].vectors]
        step = np.zeros(len(state.w))
        for yx in came:
            step += loss.slope(float(np.dot(state.w, yx))) * yx
        if came:
            state.w = state.w - q.eta0 / math.sqrt(state.t) / len(came) * step
        return state, dict.fromkeys(tasks, Reply(ReplyKind.VECTORS, (state.w,))), CentralInfo()

    return Algorithm(
        name="pooled",
        init_local=lambda dim: PooledState(np.zeros(dim)),
        learn=learn,
        update=update,
        init_central=lambda tasks, dim, rng: PooledCentral(np.zeros(dim)),
        central_step=central_step,
        exchange=Exchange(SyncRounds(1), contribution=(1,), reply=(1,), same_reply=True),
        predict=lambda state, x: dot(state.w, x),
        model=lambda state: {"w": state.w},
        receive=receive,
    )


POOLED = Learner(
    name="pooled",
    parameters=PooledParameters,
    build=pooled,
    reveals="Every example leaves its site: the reducer gets it as y x; from the common model another site can compute "
    "the rows of a site that no third one learned beside, so with two sites all.",
    shares_examples=True,
    searches=(Search(space=STEP),),
)
