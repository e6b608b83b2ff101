"""FedAvg: each task learns alone by gradient steps, and every tau rounds all go on from the average of their models.

McMahan et al. 2017, with every task taking part in each sync round and each task counting the same. `fed_avg` averages
at a reducer, `fed_avg_d` over each peer's closed neighborhood, by the weights of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.base import (
    IDLE,
    KEEP,
    Algorithm,
    CentralInfo,
    Contribution,
    ContributionKind,
    Example,
    Exchange,
    GraphPosition,
    Prediction,
    Reply,
    ReplyKind,
    SyncRounds,
)
from drom_net.algorithms.features import Matrix, Vector, dot
from drom_net.algorithms.learner import STEP, Learner, OneOf, Search
from drom_net.algorithms.local import LocalParameters, local
from drom_net.core.fields import Integer, IntegerOrList, option


@dataclass(frozen=True, slots=True)
class FedAvgParameters(LocalParameters):
    """FedAvg's parameters: those of Local, and how often models are averaged."""

    tau: int = option(Integer(1), 20, doc="Models are averaged in every tau-th round.")


@dataclass(frozen=True, slots=True)
class FedAvgDParameters(LocalParameters):
    """FedAvg's parameters on a graph, where a peer waits for its neighbors in each sync round (blocking)."""

    tau: int | tuple[int, ...] = option(
        IntegerOrList(1),
        20,
        doc="Models are averaged in every tau-th round. In between each task's last one counts.",
    )


@dataclass(slots=True)
class FedAvgState:
    """One task."""

    w: Vector
    """Shape (d,)."""
    learned: bool = False
    """Whether it has learned from an example: before, it has nothing to say."""


@dataclass(slots=True)
class FedAvgCentral:
    """The centre: the last model of each task."""

    row_of: dict[int, int]
    W: Matrix
    """Shape (m, d)."""
    counts: npt.NDArray[np.bool_]
    """Shape (m,): who has said a model and goes on."""
    weights: Vector
    """Shape (m,): what each counts."""


def fed_avg(parameters: FedAvgParameters | None = None) -> Algorithm:
    """w <- the mean of all w, every tau rounds; in between Local's steps.

    The model of a task counts from its first example on, while it takes part: a task that has ended no longer does. A
    task without an example of its own gets the average as well.
    """
    parameters = parameters or FedAvgParameters()
    return _learner(parameters, parameters.tau, name="fed-avg", stays=False)


def fed_avg_d(parameters: FedAvgDParameters | None = None) -> Algorithm:
    """w_i <- sum_j S_ij w_j / sum_j S_ij over the closed neighborhood of i, every tau rounds.

    Raises:
        ValueError: tau is a list; `learner.of_task` picks a task's.
    """
    parameters = parameters or FedAvgDParameters()
    if isinstance(parameters.tau, tuple):
        raise ValueError("fed_avg_d makes the algorithm of one task, of one tau")
    peer = _learner(parameters, parameters.tau, name="fed-avg-d", stays=True)

    def specialize(position: GraphPosition) -> Algorithm:
        return peer._replace(init_central=partial(_init_central, weights=position.weights))

    return peer._replace(specialize=specialize)


def _init_central(
    tasks: tuple[int, ...], dim: int, rng: np.random.Generator, *, weights: Sequence[float] | None = None
) -> FedAvgCentral:
    m = len(tasks)
    row_of = {task: row for row, task in enumerate(tasks)}
    return FedAvgCentral(row_of, np.zeros((m, dim)), np.zeros(m, dtype=np.bool_), np.array(weights or [1.0] * m))


def _receive(state: FedAvgState, reply: Reply, t: int) -> FedAvgState:
    state.w = reply.vectors[0].copy()
    return state


def _learner(parameters: LocalParameters, tau: int, *, name: str, stays: bool) -> Algorithm:
    """
    Args:
        stays: Whether the last model of a task counts where nothing new came of it.
    """
    alone = local(parameters)

    def learn(state: FedAvgState, example: Example, t: int) -> tuple[FedAvgState, Prediction]:
        state.w, prediction = alone.learn(state.w, example, t)
        state.learned = True
        return state, prediction

    def send(state: FedAvgState, t: int) -> tuple[FedAvgState, Contribution]:
        if not state.learned:
            return state, IDLE
        return state, Contribution(ContributionKind.VECTORS, (state.w.copy(),))  # Local's steps write into w

    def central_step(
        state: FedAvgCentral, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
    ) -> tuple[FedAvgCentral, dict[int, Reply], CentralInfo]:
        if not stays:
            state.counts[:] = False
        for task in sorted(contributions):
            if contributions[task].kind is ContributionKind.VECTORS:
                state.W[state.row_of[task]] = contributions[task].vectors[0]
                state.counts[state.row_of[task]] = True
        average, total = np.zeros(state.W.shape[1]), 0.0
        for row in state.row_of.values() if members is None else [state.row_of[task] for task in members]:
            if state.counts[row]:
                average += state.weights[row] * state.W[row]
                total += float(state.weights[row])
        reply = KEEP
        if total > 0.0:
            average /= total
            reply = Reply(ReplyKind.VECTORS, (average,))
        for task, contribution in contributions.items():
            if contribution.last:
                state.counts[state.row_of[task]] = False
        return state, dict.fromkeys(sorted(contributions), reply), CentralInfo()

    return Algorithm(
        name=name,
        init_local=lambda dim: FedAvgState(np.zeros(dim)),
        learn=learn,
        init_central=_init_central,
        central_step=central_step,
        exchange=Exchange(SyncRounds(tau), contribution=(1,), reply=(1,), same_reply=True),
        predict=lambda state, x: dot(state.w, x),
        model=lambda state: {"w": state.w},
        receive=_receive,
        send=send,
    )


def _reveals(q: Any, on_graph: bool) -> str:
    each = "every row" if 1 in np.atleast_1d(q.tau) else "any row that is a site's only one between two sync rounds"
    if on_graph:
        return (
            f"A neighbor gets each site's model; from two averages of its own it can compute {each} with its label "
            "where the site's neighbors are its own, as on a full graph; how a site that is no neighbor could, is not "
            "known."
        )
    return (
        f"The reducer gets each site's model, and can compute {each} with its label; from two averages another site "
        "can where no third one learned meanwhile, so with two sites all the same."
    )


_SEARCH = Search(space={**STEP, "tau": OneOf((1, 5, 20, 50))})

FED_AVG = Learner(
    name="fed-avg",
    parameters=FedAvgParameters,
    build=fed_avg,
    reveals="The reducer gets each task's model every tau rounds, every task the average; with tau 1 two models in a "
    "row give the example away.",
    reveals_with=_reveals,
    searches=(_SEARCH,),
)
FED_AVG_D = Learner(
    name="fed-avg-d",
    parameters=FedAvgDParameters,
    build=fed_avg_d,
    reveals="Neighbors get a task's model every tau rounds; with tau 1 two in a row give the example away.",
    reveals_with=_reveals,
    on=("graph",),
    searches=(Search(space=STEP),),
)
