"""DROM-D, Algorithm 2: each task is the centre of its own neighborhood, and vectors travel every tau rounds."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from drom_net.algorithms.base import (
    Algorithm,
    Contribution,
    ContributionKind,
    Example,
    Exchange,
    Prediction,
    SyncRounds,
)
from drom_net.algorithms.drom import PAPER, SEARCH, DromParameters, DromState, drom, stable
from drom_net.algorithms.features import add_scaled
from drom_net.algorithms.learner import Learner
from drom_net.algorithms.spectral import SOLVERS
from drom_net.core.fields import Choice, Integer, IntegerOrList, option

EXCHANGES = ("blocking", "overlap", "delayed")


@dataclass(frozen=True, slots=True)
class DromDParameters(DromParameters):
    """DROM-D's parameters: those of DROM, and how often vectors travel."""

    solver: str = option(
        Choice(SOLVERS),
        "power",
        doc="The leading singular pair: power iterates from the last one, O(dm) an iteration; gram is exact, O(dm^2).",
    )
    tau: int | tuple[int, ...] = option(
        IntegerOrList(1),
        1,
        doc="Vectors travel in every tau-th round; eta_t = eta0/sqrt(ceil(t/tau)). In between the last ones count.",
    )
    postpone_below: int = option(
        Integer(0),
        0,
        doc="A task with fewer new examples than this sends a header only; its last vector counts.",
    )
    exchange: str = option(
        Choice(EXCHANGES),
        "overlap",
        doc="blocking waits for the neighbors; overlap takes the next primal step meanwhile, with the same bits; "
        "delayed uses vectors from the next sync round on, so that nobody waits.",
    )
    outlier: str = option(
        Choice(("regularise", "skip")),
        "regularise",
        doc="An example of weight 0: regularise takes both steps without its gradient (as printed), skip takes none.",
    )


def drom_d(parameters: DromDParameters | None = None) -> Algorithm:
    """Algorithm 2 with general lambda and rho (section 2 of the specification).

    Prediction and weight are DROM's, and so is the central step, over a task's own neighborhood.

    Raises:
        ValueError: tau is a list; `learner.of_task` picks a task's.
    """
    q = parameters or DromDParameters()
    tau = q.tau
    if isinstance(tau, tuple):
        raise ValueError("drom_d makes the algorithm of one task, of one tau")

    def step(t: int) -> float:
        return q.eta0 / math.sqrt((t + tau - 1) // tau)

    star = drom(DromParameters(**{f.name: getattr(q, f.name) for f in dataclasses.fields(DromParameters)}))

    def primal_step(state: DromState, example: Example, t: int) -> tuple[DromState, Prediction]:
        state, prediction = star.learn(state, example, t)
        if state.gamma == 0.0 and q.outlier == "skip":
            return state, prediction
        # Primal descent with w_t and a_t; the dual ascent follows in the other step, with w_(t+1).
        descent = q.lam * state.a
        if state.gamma != 0.0 and state.slope != 0.0:
            add_scaled(descent, state.gamma * state.slope, example.x)
        descent *= step(t)
        state.w -= descent
        return state, prediction

    def dual_step(state: DromState, t: int) -> tuple[DromState, Contribution]:
        if state.gamma != 0.0 or q.outlier != "skip":
            ascent = q.lam * state.w
            if state.r is not None:
                ascent -= q.rho * state.r
            ascent *= step(t)
            ascent += state.a
            state.a = ascent  # a new array: the last one may still be on its way to a neighbor
        return state, Contribution(ContributionKind.VECTORS, (state.a,))

    return star._replace(
        name="drom-d",
        learn=primal_step,
        update=dual_step,
        exchange=Exchange(SyncRounds(tau), contribution=(1,), reply=(1,), postpone_below=q.postpone_below),
    )


def _reveals(q: DromDParameters, on_graph: bool) -> str:
    if 1 in (q.tau if isinstance(q.tau, tuple) else (q.tau,)):
        rows = (
            "can compute rows with their labels from dual vectors of two rounds in a row, on a full graph all of them"
        )
    else:
        rows = "gets dual vectors in which the rows of several rounds are mixed, and can compute those that are not"
    return f"A neighbor {rows}; how a site that is no neighbor could compute a row is not known."


DROM_D = Learner(
    name="drom-d",
    parameters=DromDParameters,
    build=drom_d,
    reveals="Neighbors get a task's dual vector every tau rounds; with tau 1 two in a row give rows with their "
    "labels, on a full graph all of them.",
    reveals_with=_reveals,
    on=("graph",),
    presets={"paper": PAPER},
    check=stable,
    searches=(SEARCH,),
)
