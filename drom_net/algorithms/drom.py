"""DROM, Algorithm 1: a primal-dual learner whose tasks are coupled by the nuclear norm through one vector each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from drom_net.algorithms.base import (
    KEEP,
    SKIP,
    ZERO,
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
from drom_net.algorithms.features import Features, Integers, Matrix, Sums, Vector, add_scaled, dot, put
from drom_net.algorithms.learner import LOSS, Disagreement, Even, Learner, Log, OneOf, Search, Spread, short
from drom_net.algorithms.losses import LOSSES, capped_weight, loss_limit
from drom_net.algorithms.spectral import SOLVERS, leading_pair, random_start
from drom_net.algorithms.sums import SumsCentral, Whole, add_up, init_sums, to_floats, to_integers
from drom_net.core.fields import Choice, Integer, Number, option
from drom_net.core.seeding import stream


@dataclass(frozen=True, slots=True)
class DromParameters:
    """DROM's parameters. The defaults learn; the set `paper` is the printed one and does not."""

    eta0: float = option(Number(above=0.0), 10.0, doc="The step size of round t is eta0/sqrt(t).")
    lam: float = option(
        Number(at_least=0.0),
        0.003,
        key="lambda",
        doc="The weight of the nuclear norm; eta0 * lambda must not exceed 2.",
    )
    rho: float = option(Number(at_least=0.0), 0.1, doc="The weight of the bound on the dual's spectral norm.")
    p: float = option(Number(above=0.0, at_most=1.0), 0.9, doc="The exponent of the capped L_p loss.")
    xi: float = option(
        Number(above=0.0, or_infinity=True),
        math.inf,
        doc="An example with loss^p > xi is an outlier and is skipped.",
    )
    kappa: float = option(Number(above=0.0, or_infinity=True), 2.0, doc="The bound on an example's weight gamma.")
    loss: str = option(Choice(tuple(LOSSES)), "logistic", doc="The loss of the margin.")
    solver: str = option(
        Choice((*SOLVERS, "sums")),
        "power",
        doc="The leading singular pair: power iterates from the last one, O(dm) an iteration; gram is exact, "
        "O(dm^2); sums iterates once a round at the tasks: the reducer only adds.",
    )
    power_iterations: int = option(Integer(1, 1_000_000), 10, doc="Power iterations a round.")
    f0: str = option(
        Choice(("regularise", "skip")),
        "regularise",
        doc="An example of loss 0: regularise steps without its gradient, skip treats it as an outlier.",
    )
    ended: str = option(
        Choice(("keep", "drop")),
        "keep",
        doc="When the stream of a task has ended: keep its dual vector in A, or drop (zero) it.",
    )


BITS_OF_SUMS = 24
"""Summands count 2^-24, and are cut beyond 2^27: there is room for dual vectors of a length up to 11,585."""


PAPER: dict[str, object] = {
    "loss": "hinge",
    "eta0": 1.0,
    "lam": 1.0,
    "rho": 1.0,
    "xi": 1.0,
    "p": 0.5,
    "kappa": math.inf,
}
"""The literal parameters of the paper's experiments (p = 1/2 where it says "tuned"). They predict at chance."""


@dataclass(slots=True)
class DromState:
    """One task: w, a and R_i of shape (d,), and the example between the two steps of its round."""

    w: Vector
    a: Vector
    r: Vector | None
    """R_i = v_i u; None is zero."""
    x: Features | None = None
    slope: float = 0.0
    """df/dz * y at the example, so that the gradient is slope * x."""
    gamma: float = 0.0


@dataclass(slots=True, kw_only=True)
class SummingState(DromState):
    """One task where the centre only adds."""

    u: Vector
    """As the last reply gave it, or the start: shape (d,), unit length; never written to."""
    v: float = 0.0
    """<a, u>, as it was last said."""


@dataclass(slots=True)
class DromCentral:
    """The centre: a row of A for each task, and the last v."""

    row_of: dict[int, int]
    A: Matrix
    v: Vector


@dataclass(slots=True)
class SummingCentral:
    """A centre that only adds; u as the tasks have it, for the records."""

    sums: SumsCentral
    u: Vector


def _central_step(
    q: DromParameters,
    state: DromCentral,
    contributions: Mapping[int, Contribution],
    members: Sequence[int] | None = None,
) -> tuple[DromCentral, dict[int, Reply], CentralInfo]:
    for task in sorted(contributions):
        contribution = contributions[task]
        if contribution.kind is ContributionKind.VECTORS:
            state.A[state.row_of[task]] = contribution.vectors[0]
    A, v, rows = state.A, state.v, None
    if members is not None and len(members) < len(v):  # rows of strangers would change the bits, even as zeros
        rows = [state.row_of[task] for task in members]
        A, v = A[rows], v[rows]
    pair = leading_pair(A, v, solver=q.solver, iterations=q.power_iterations)
    if rows is None:
        state.v = v = pair.v
    else:
        v = np.zeros(len(state.v))
        v[rows] = pair.v
        state.v = state.v.copy()  # the last one is in the records
        state.v[rows] = pair.v
    replies: dict[int, Reply] = {}
    for task in sorted(contributions):
        row = state.row_of[task]
        if contributions[task].kind is not ContributionKind.VECTORS:
            replies[task] = KEEP
        elif pair.sigma > 1.0:
            replies[task] = Reply(ReplyKind.VECTORS, (v[row] * pair.u,))
        else:
            replies[task] = ZERO
        if contributions[task].last and q.ended == "drop":
            state.A[row] = 0.0
    return state, replies, CentralInfo(pair.sigma, v, pair.residual, pair.u)


def _receive(state: DromState, reply: Reply, t: int) -> DromState:
    """The dual step uses the correction from here on; `primal_step` does not look at it."""
    (state.r,) = reply.vectors or (None,)
    return state


def _init_central(tasks: tuple[int, ...], dim: int, rng: np.random.Generator) -> DromCentral:
    v = random_start(len(tasks), rng)
    return DromCentral({task: row for row, task in enumerate(tasks)}, np.zeros((len(tasks), dim)), v)


def drom(parameters: DromParameters | None = None) -> Algorithm:
    """Algorithm 1 with general lambda and rho (section 2 of the specification)."""
    q = parameters or DromParameters()
    loss = LOSSES[q.loss]
    limit = loss_limit(q.p, q.xi)

    def init_local(dim: int) -> DromState:
        return DromState(np.zeros(dim), np.zeros(dim), None)

    def primal_step(state: DromState, example: Example, t: int) -> tuple[DromState, Prediction]:
        x, y = example
        score = dot(state.w, x)
        z = y * score
        f = loss.value(z)
        gamma = capped_weight(f, p=q.p, limit=limit, kappa=q.kappa)
        if f == 0.0 and q.f0 == "skip":
            gamma = 0.0
        state.x = x
        state.slope = loss.slope(z) * y
        state.gamma = gamma
        return state, Prediction(score, f, gamma)

    def dual_step(state: DromState, t: int) -> tuple[DromState, Contribution]:
        if state.gamma == 0.0 or state.x is None:
            return state, SKIP
        eta = q.eta0 / math.sqrt(t)
        # Dual ascent with w_t, then primal descent with a_{t+1}. `a` is a new array each round, for the
        # last one may still be on its way to the centre.
        ascent = q.lam * state.w
        if state.r is not None:
            ascent -= q.rho * state.r
        ascent *= eta
        ascent += state.a
        a = ascent
        descent = q.lam * a
        if state.slope != 0.0:  # gamma may be huge where the gradient is 0: never form the product
            add_scaled(descent, state.gamma * state.slope, state.x)
        descent *= eta
        state.w -= descent
        state.a = a
        state.x = None
        return state, Contribution(ContributionKind.VECTORS, (a,))

    star = Algorithm(
        name="drom",
        init_local=init_local,
        learn=primal_step,
        update=dual_step,
        receive=_receive,
        init_central=_init_central,
        central_step=partial(_central_step, q),
        exchange=Exchange(SyncRounds(1), contribution=(1,), reply=(1,), same_reply=True),
        predict=lambda state, x: dot(state.w, x),
        model=lambda state: {"w": state.w, "a": state.a},
    )
    return _by_sums(q, star) if q.solver == "sums" else star


@cache
def start(dim: int) -> Vector:
    """Where the power iteration by sums starts, at all sites: shape (d,), unit length."""
    u = random_start(dim, stream(0, "drom"))
    u.flags.writeable = False
    return u


def pair_of_sum(total: Whole, u: Vector, *, least: float = 0.0) -> tuple[float, float, Vector]:
    """(sigma_1, |A u|, the next u) from the integers of A^T A u, shape (d,); sigma_1 = 0 where they cannot be that.

    Args:
        least: What |A u|^2 is at least.
    """
    product = to_floats(total, BITS_OF_SUMS)
    length = math.sqrt(float(np.dot(product, product)))
    if length == 0.0:
        return 0.0, 0.0, u
    norm = math.sqrt(max(float(np.dot(u, product)), least))
    return length / norm if norm > 0.0 else 0.0, norm, product / length


def _by_sums(q: DromParameters, star: Algorithm) -> Algorithm:
    """DROM whose tasks make v_i = <a_i, u>: they say v_i a_i, and are told the sum over tasks, which is A^T A u."""
    init = init_sums((1,))

    def send(state: SummingState, t: int) -> tuple[SummingState, Contribution]:
        state.v = float(np.dot(state.a, state.u))
        summand, _ = to_integers(state.v * state.a, BITS_OF_SUMS)
        return state, Contribution(ContributionKind.VECTORS, (summand,))

    def receive(state: SummingState, reply: Reply, t: int) -> SummingState:
        if reply.kind is ReplyKind.VECTORS:
            total = np.zeros((1, len(state.u)), dtype=np.int64)
            put(total, reply.vectors[0])
            sigma, norm, state.u = pair_of_sum(total[0], state.u, least=state.v * state.v)
            state.r = state.v / norm * state.u if sigma > 1.0 else None
        return state

    def central_step(
        state: SummingCentral, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
    ) -> tuple[SummingCentral, dict[int, Reply], CentralInfo]:
        sums, replies, _ = add_up(state.sums, contributions)
        (summands,), (total,) = sums.summands, sums.totals
        sigma, norm, u = pair_of_sum(total[0], state.u)
        rest = sigma * u - norm * state.u
        state.u = u
        for task, contribution in contributions.items():
            if contribution.last and q.ended == "drop":
                total -= summands[sums.row_of[task]]
                summands[sums.row_of[task]] = 0
        return state, replies, CentralInfo(sigma, None, math.sqrt(float(np.dot(rest, rest))))

    return star._replace(
        init_local=lambda dim: SummingState(np.zeros(dim), np.zeros(dim), None, u=start(dim)),
        init_central=lambda tasks, dim, rng: SummingCentral(init(tasks, dim, rng), start(dim)),
        central_step=central_step,
        exchange=Exchange(SyncRounds(1), contribution=(Integers(1),), reply=(Sums(1),), same_reply=True),
        receive=receive,
        send=send,
    )


def stable(values: Mapping[str, Any]) -> Disagreement | None:
    """Beyond it the pair (w, a) grows without bound."""
    eta0, lam = values.get("eta0"), values.get("lam")
    if eta0 is None or lam is None or eta0 * lam <= 2.0:
        return None
    return Disagreement(("eta0", "lam"), "eta0 * lambda of at most 2", f"{eta0:g} * {lam:g} = {eta0 * lam:g}")


def _of_ratios(drawn: dict[str, Any]) -> dict[str, object] | None:
    """rho from rho/lambda, and the cap xi from the loss at which it cuts; None where the pair (w, a) is unstable."""
    if stable(drawn) is not None:
        return None
    ratio, capped_at = drawn.pop("rho / lam"), drawn.pop("loss cap")
    return drawn | {"rho": short(drawn["lam"] * ratio), "xi": short(capped_at ** drawn["p"])}


_SPACE: dict[str, Spread] = {
    "eta0": Log(1.0, 100.0),
    "lam": Log(1e-4, 0.1),
    "rho / lam": Log(1.0, 4000.0),
    "p": Even(0.3, 1.0),
    "loss cap": OneOf((math.inf, math.inf, math.inf, math.inf, 1.0, 2.0, 3.0, 5.0)),
    "loss": LOSS,
}
SEARCH = Search(space=_SPACE, finish=_of_ratios)


def _reveals(q: DromParameters, on_graph: bool) -> str:
    if q.solver != "sums":
        return DROM.reveals
    return (
        "From v_i a_i of two rounds in a row, and u, which it knows, the reducer can compute most rows with their "
        "labels, up to one sign for all of a site, and each site's model; another site gets the sum over all, from "
        "which with two sites it can do the same."
    )


DROM = Learner(
    name="drom",
    parameters=DromParameters,
    build=drom,
    reveals="From dual vectors of two rounds in a row the reducer can compute nearly every row with its label, and "
    "each site's model; how another site could compute a row from its replies is not known.",
    reveals_with=_reveals,
    presets={"paper": PAPER},
    check=stable,
    searches=(SEARCH,),
    constants=(BITS_OF_SUMS,),
)
