"""MT-OMD: gradient steps that are shared, a part of each with every other task.

Cesa-Bianchi, Laforgue, Paudice and Pontil 2022, Multitask Online Mirror Descent (TMLR): its instance MT-OGD.

It differs from the paper in this:

- there one task is active in a round; here all that have an example are, and their updates are added;
- eta_t is Local's, and t counts rounds; the paper's b = N and eta come from the horizon and the tasks' variance;
- there is no projection on a set of alike models;
- with tau > 1 the part for the others, and for the mean in the own model, waits for the next sync round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from drom_net.algorithms.base import (
    IDLE,
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
from drom_net.algorithms.features import Matrix, Vector, add_scaled, dot
from drom_net.algorithms.learner import STEP, Learner, Log, OneOf, Search
from drom_net.algorithms.local import LocalParameters
from drom_net.algorithms.losses import LOSSES
from drom_net.core.fields import Integer, Number, option


@dataclass(frozen=True, slots=True)
class MTOMDParameters(LocalParameters):
    """MT-OMD's parameters: those of Local, and how much is shared."""

    b: float = option(
        Number(at_least=0.0),
        4.0,
        doc="How alike the tasks are: all tasks' mean step counts b / (1 + b), a task's own 1 / (1 + b).",
    )
    tau: int = option(Integer(1), 1, doc="Steps are shared in every tau-th round.")


@dataclass(slots=True)
class MTOMDState:
    """One task."""

    own: Vector
    """The sum of its steps eta_t g, shape (d,)."""
    mean: Vector
    """The mean of all tasks' sums, as of the last sync round, shape (d,)."""
    w: Vector
    """-(own + b mean) / (1 + b)."""
    learned: bool = False
    """Whether it has learned from an example: before, it has nothing to say."""


@dataclass(slots=True)
class MTOMDCentral:
    """The reducer: the sum of each task's steps, shape (m, d)."""

    row_of: dict[int, int]
    sums: Matrix


def mt_omd(parameters: MTOMDParameters | None = None) -> Algorithm:
    """W -= eta_t A^-1 G_t, with A = (1 + b) I - (b / N) 1 1^T: mirror descent with the potential tr(W^T A W) / 2.

    As A^-1 = (I + (b / N) 1 1^T) / (1 + b), a task's gradient g takes eta_t (1 + b / N) / (1 + b) g from its own model,
    and eta_t (b / N) / (1 + b) g from each other. The geometry, the weights of the update and its closed form are the
    paper's, with tau 1 to the letter; what differs is said above.
    """
    q = parameters or MTOMDParameters()
    loss = LOSSES[q.loss]

    def learn(state: MTOMDState, example: Example, t: int) -> tuple[MTOMDState, Prediction]:
        x, y = example
        score = dot(state.w, x)
        z = y * score
        step = q.eta(t) * loss.slope(z) * y
        add_scaled(state.own, step, x)
        add_scaled(state.w, -step / (1.0 + q.b), x)
        state.learned = True
        return state, Prediction(score, loss.value(z), 1.0)

    def send(state: MTOMDState, t: int) -> tuple[MTOMDState, Contribution]:
        if not state.learned:
            return state, IDLE
        return state, Contribution(ContributionKind.VECTORS, (state.own.copy(),))

    def receive(state: MTOMDState, reply: Reply, t: int) -> MTOMDState:
        (state.mean,) = reply.vectors
        state.w = (state.own + q.b * state.mean) / -(1.0 + q.b)
        return state

    def central_step(
        state: MTOMDCentral, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
    ) -> tuple[MTOMDCentral, dict[int, Reply], CentralInfo]:
        said = {task: c.vectors[0] for task, c in contributions.items() if c.kind is ContributionKind.VECTORS}
        for task, own in said.items():
            state.sums[state.row_of[task]] = own
        reply = Reply(ReplyKind.VECTORS, (state.sums.mean(axis=0),)) if state.sums.any() else KEEP
        return state, dict.fromkeys(sorted(contributions), reply), CentralInfo()

    return Algorithm(
        name="mt-omd",
        init_local=lambda dim: MTOMDState(np.zeros(dim), np.zeros(dim), np.zeros(dim)),
        learn=learn,
        init_central=lambda tasks, dim, rng: MTOMDCentral(
            {task: row for row, task in enumerate(tasks)}, np.zeros((len(tasks), dim))
        ),
        central_step=central_step,
        exchange=Exchange(SyncRounds(q.tau), contribution=(1,), reply=(1,), same_reply=True),
        predict=lambda state, x: dot(state.w, x),
        model=lambda state: {"w": state.w},
        receive=receive,
        send=send,
    )


MT_OMD = Learner(
    name="mt-omd",
    parameters=MTOMDParameters,
    build=mt_omd,
    reveals="The reducer gets the sum of each task's gradient steps every tau rounds, every task the mean of all; with "
    "tau 1 two in a row give the example away.",
    searches=(Search(space={**STEP, "b": Log(0.3, 100.0), "tau": OneOf((1, 5, 20))}),),
)
