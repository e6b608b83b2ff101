"""OSMTL: each task also learns from the examples of the others, by how well its own model explains them.

It sends the examples themselves to all other sites. Label and features travel as one vector y x, which is all that
a loss of the margin needs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from drom_net.algorithms.features import Features, Vector, bounded_example, dot, scaled
from drom_net.algorithms.learner import STEP, Even, Learner, Log, Search, Spread
from drom_net.algorithms.losses import LOSSES
from drom_net.core.fields import Choice, Number, option

RELATIONS = ("fixed", "exponential", "truncated")


@dataclass(frozen=True, slots=True)
class OSMTLParameters:
    """OSMTL's parameters."""

    eta0: float = option(Number(above=0.0), 10.0, doc="The step size of round t is eta0/sqrt(t).")
    alpha: float = option(
        Number(at_least=0.0, at_most=1.0), 0.5, doc="The weight of a task's own example; the others share the rest."
    )
    relation: str = option(
        Choice(RELATIONS),
        "exponential",
        doc="The weights of the other tasks: fixed and uniform, exponential (OSMTL-e), or truncated gradient "
        "steps (OSMTL-t).",
    )
    s: float = option(Number(above=0.0), 0.1, doc="The step size of these weights.")
    loss: str = option(Choice(tuple(LOSSES)), "logistic", doc="The loss of the margin.")


@dataclass(slots=True)
class OSMTLState:
    """One task: w of shape (d,), its weights of the others, and the example of its round."""

    w: Vector
    P: Vector | None = None
    """Shape (m - 1,), >= 0, sums to 1: the others in task order; None before the first exchange."""
    x: Features | None = None
    slope: float = 0.0
    """df/dz * y at the example."""
    y: float = 0.0


@dataclass(slots=True)
class OSMTLCentral:
    """The centre: it only passes on."""

    tasks: tuple[int, ...]
    nothing: Vector
    """What stands for a task without an example, shape (d,)."""


def project_on_simplex(p: Vector) -> Vector:
    """The nearest point, in the Euclidean sense, with entries >= 0 that sum to 1."""
    falling = np.sort(p)[::-1]
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, len(p) + 1)
    kept = int(np.count_nonzero(falling > excess))
    projected: Vector = np.maximum(p - excess[kept - 1], 0.0)
    return projected


def _central_step(
    state: OSMTLCentral, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
) -> tuple[OSMTLCentral, dict[int, Reply], CentralInfo]:
    came = {
        task: bounded_example(contribution.vectors[0])
        for task, contribution in contributions.items()
        if contribution.kind is ContributionKind.VECTORS
    }
    replies = {}
    for task in sorted(contributions):
        others = tuple([came.get(other, state.nothing) for other in state.tasks if other != task])
        # The step waits for a reply, also where there are no others.
        replies[task] = Reply(ReplyKind.VECTORS, others or (state.nothing,)) if task in came else KEEP
    return state, replies, CentralInfo()


def _receive(q: OSMTLParameters, state: OSMTLState, reply: Reply, t: int) -> OSMTLState:
    loss, others = LOSSES[q.loss], reply.vectors
    w, eta = state.w, q.eta0 / math.sqrt(t)
    P = np.full(len(others), 1.0 / len(others)) if state.P is None else state.P
    margins = [float(np.dot(w, other)) for other in others]
    present = [z != 0.0 or bool(other.any()) for z, other in zip(margins, others, strict=True)]
    assert state.x is not None
    own = q.alpha if any(present) else 1.0
    step = scaled(eta * own * state.slope, state.x, len(w))
    for j, other in enumerate(others):
        c = eta * (1.0 - own) * P[j] * loss.slope(margins[j])
        if present[j] and c != 0.0:
            step += c * other
    state.w = w - step
    state.x = None
    state.P = P
    if q.relation != "fixed" and any(present):
        losses = np.array([loss.value(z) for z in margins])
        losses[~np.array(present)] = np.mean(losses[present])
        if q.relation == "exponential":
            state.P = P * np.exp(-q.s * (losses - losses.min()))
            total = state.P.sum()  # 0 where what had all of the weight explains nothing any more
            state.P = state.P / total if total else np.full(len(others), 1.0 / len(others))
        else:
            state.P = project_on_simplex(P - q.s * losses)
    return state


def osmtl(parameters: OSMTLParameters | None = None) -> Algorithm:
    """Smoothed online multi-task learning (Murugesan et al. 2016; our rendition of section 4).

    w^k -= eta_t (alpha g(k's example) + (1 - alpha) sum_j P_kj g(j's example)), all gradients at w^k_t. Then P_kj is
    multiplied by exp(-s f_kj), or lowered by s f_kj, with f_kj the loss of w^k_t on j's example, and normalised. A task
    without an example in this round counts with the mean loss of the others, so that its weight stays; a task that is
    alone in a round takes its whole step from its own example.
    """
    q = parameters or OSMTLParameters()
    loss = LOSSES[q.loss]

    def learn(state: OSMTLState, example: Example, t: int) -> tuple[OSMTLState, Prediction]:
        x, y = example
        score = dot(state.w, x)
        z = y * score
        state.x, state.y, state.slope = x, y, loss.slope(z) * y
        return state, Prediction(score, loss.value(z), 1.0)

    def update(state: OSMTLState, t: int) -> tuple[OSMTLState, Contribution]:
        assert state.x is not None
        return state, Contribution(ContributionKind.VECTORS, (scaled(state.y, state.x, len(state.w)),))

    return Algorithm(
        name="osmtl",
        init_local=lambda dim: OSMTLState(np.zeros(dim)),
        learn=learn,
        update=update,
        init_central=lambda tasks, dim, rng: OSMTLCentral(tasks, np.zeros(dim)),
        central_step=_central_step,
        exchange=Exchange(SyncRounds(1), contribution=(1,), reply=lambda num_tasks: (1,) * max(1, num_tasks - 1)),
        predict=lambda state, x: dot(state.w, x),
        model=lambda state: {"w": state.w},
        receive=partial(_receive, q),
    )


_SPACE: dict[str, Spread] = {**STEP, "alpha": Even(0.1, 1.0), "s": Log(0.01, 1.0)}

OSMTL = Learner(
    name="osmtl",
    parameters=OSMTLParameters,
    build=osmtl,
    reveals="Every example leaves its site: the reducer and all other sites get it as y x.",
    shares_examples=True,
    searches=(
        Search("f", {"relation": "fixed"}, {**STEP, "alpha": Even(0.1, 1.0)}),
        Search("e", {"relation": "exponential"}, _SPACE),
        Search("t", {"relation": "truncated"}, _SPACE),
    ),
)
