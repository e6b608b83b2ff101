"""MT-CO2OL: experts for how alike neighboring tasks are, mixed by Hedge, at the reducer or at each peer of a graph.

Achddou, Cesa-Bianchi and Laforgue 2024, Multitask Online Learning: Listen to the Neighborhood Buzz (AISTATS). Each
agent j runs the multi-task learner MT-FTRL for its closed neighborhood; agent i predicts with the weighted mean of what
its neighbors' instances have for i, and tells all of them its gradient. So much is from the paper, whose full text was
not at hand: the grid of variances, A with b = N and the steps are as in multi-task online mirror descent (`mt_omd`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from drom_net.algorithms.base import (
    IDLE,
    KEEP,
    Algorithm,
    CentralInfo,
    CentralStep,
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
from drom_net.algorithms.features import Matrix, Vector, add_scaled, dot
from drom_net.algorithms.learner import LOSS, Learner, Log, OneOf, Search, Spread
from drom_net.algorithms.losses import LOSSES
from drom_net.core.fields import Choice, Integer, IntegerOrList, Number, option

_RADIUS = "D, the bound on a model's norm; experts allow the models variances of D^2 / N, 2 D^2 / N, .. D^2."
_LOSS = "The loss of the margin."


@dataclass(frozen=True, slots=True)
class MTCO2OLParameters:
    """MT-CO2OL's parameters with a reducer."""

    radius: float = option(Number(above=0.0), 10.0, doc=_RADIUS)
    loss: str = option(Choice(tuple(LOSSES)), "logistic", doc=_LOSS)
    tau: int = option(Integer(1), 1, doc="Gradients travel in every tau-th round.")


@dataclass(frozen=True, slots=True)
class MTCO2OLDParameters:
    """The same on a graph, where a peer waits for its neighbors in each sync round (blocking)."""

    radius: float = option(Number(above=0.0), 10.0, doc=_RADIUS)
    loss: str = option(Choice(tuple(LOSSES)), "logistic", doc=_LOSS)
    tau: int | tuple[int, ...] = option(IntegerOrList(1), 1, doc="Gradients travel in every tau-th round.")


@dataclass(slots=True)
class MTCO2OLState:
    """One task. All vectors have shape (d,)."""

    gradients: Vector
    """The sum of its own, divided by tau."""
    w: Vector
    c: float = 0.0
    """What its own gradients count in w: w = -(v + c gradients), with v as it came."""
    told: tuple[Vector, ...] = ()
    """What its own instance has for all of its neighborhood, for the neighbors: v, and c in every coordinate."""
    learned: bool = False
    """Whether it has learned from an example: before, it has nothing to say."""


@dataclass(slots=True)
class MTCO2OLCentral:
    """MT-FTRL for a neighborhood of N tasks, and what came from the neighbors' instances."""

    row_of: dict[int, int]
    gradients: Matrix
    """The sum of each task's, shape (N, d)."""
    total: Vector
    """Their sum."""
    squares: float
    """sum_i |gradients_i|^2."""
    norms: float
    """N, and the sum over sync rounds of tr(G^T A^-1 G), for the new gradients G."""
    losses: Vector
    """Of each expert so far, shape (N,)."""
    ranges: float
    """The sum of (largest - smallest)^2 of an expert's loss in a sync round."""
    a: Vector
    """Of each expert: its models' mean is -a times the mean of the gradients, shape (N,)."""
    c: Vector
    """Their deviation from it is -c times that of the gradients."""
    received: Matrix
    """v of each neighbor's instance, shape (N, d)."""
    received_c: Vector
    """Its c; NaN before it has sent one."""
    weights: Vector
    """What each instance counts, shape (N,)."""


def mt_co2ol(parameters: MTCO2OLParameters | None = None) -> Algorithm:
    """MT-FTRL at the reducer: on a complete graph all instances of the paper are this one.

    For each xi in {1/N, 2/N, .. 1} an expert follows the regularised leader: with G the gradients,

        W = argmin eta <sum G, W> + tr(W^T A W) / 2, A = (1 + N) I - 1 1^T,
            over models with |mean| <= D, sum_i |w_i - mean|^2 <= (N - 1) xi D^2
        eta = D sqrt(N (1 + (N - 1) xi) / (N + sum tr(G^T A^-1 G)))

    Hedge mixes these N experts by weights proportional to exp(-rate L(xi)), L being the sum of <G, W> and rate
    sqrt(8 ln N / sum (largest - smallest loss)^2). A rendition: of the paper we could read the first pages, and of
    MT-OMD's those, which say as much. It differs in this:

    - in the paper one task is active in a round; here a round is a sync round, with each task's mean gradient since the
      last one (0 for a round in which it was idle);
    - steps and Hedge's rate go by the norms (and one more round of the largest norm) and ranges that were seen, and not
      by bounds on them;
    - a domain bounds the norm of the models' mean by D, and not of each model: the projection is then two factors;
    - between two sync rounds a task's own gradients count in its own model, with the factor c of the last one.
    """
    q = parameters or MTCO2OLParameters()
    return _learner("mt-co2ol", q.loss, q.tau, central_step=partial(_at_reducer, q.radius), on_graph=False)


def mt_co2ol_d(parameters: MTCO2OLDParameters | None = None) -> Algorithm:
    """MT-FTRL at each peer, over its closed neighborhood; w is the mean of its neighbors' models for it.

    The weights w_ij are uniform, or those of the graph, normalised. As `mt_co2ol`; and a peer hears of what a
    neighbor's instance has made of a sync round in the next one.

    Raises:
        ValueError: tau is a list; `learner.of_task` picks a task's.
    """
    q = parameters or MTCO2OLDParameters()
    if isinstance(q.tau, tuple):
        raise ValueError("mt_co2ol_d makes the algorithm of one task, of one tau")
    peer = _learner("mt-co2ol-d", q.loss, q.tau, central_step=partial(_at_peer, q.radius, None), on_graph=True)

    def specialize(position: GraphPosition) -> Algorithm:
        return peer._replace(
            init_central=partial(_init_central, weights=position.weights),
            central_step=partial(_at_peer, q.radius, position.task),
        )

    return peer._replace(specialize=specialize)


def _init_central(
    tasks: tuple[int, ...], dim: int, rng: np.random.Generator, *, weights: Sequence[float] | None = None
) -> MTCO2OLCentral:
    n = len(tasks)
    return MTCO2OLCentral(
        row_of={task: row for row, task in enumerate(tasks)},
        gradients=np.zeros((n, dim)),
        total=np.zeros(dim),
        squares=0.0,
        norms=float(n),
        losses=np.zeros(n),
        ranges=0.0,
        a=np.zeros(n),
        c=np.zeros(n),
        received=np.zeros((n, dim)),
        received_c=np.full(n, np.nan),
        weights=np.array(weights or [1.0] * n),
    )


def _learn(state: MTCO2OLCentral, contributions: Mapping[int, Contribution], radius: float) -> tuple[Vector, float]:
    """MT-FTRL's round: v of shape (d,) and c; the model of task i is then -(v + c gradients_i).

    With the mean s of the gradients, expert xi has the models -(a s + c (gradients_i - s)): the leader has a = eta and
    c = eta / (1 + N), and as A weighs mean and deviation apart, the projection shrinks each by itself.
    """
    n = len(state.losses)
    new = np.zeros_like(state.total)
    own, square = 0.0, 0.0
    for task in sorted(contributions):
        if contributions[task].kind is ContributionKind.VECTORS:
            row, gradients = state.row_of[task], contributions[task].vectors[0]
            change = gradients - state.gradients[row]
            own += float(np.dot(change, state.gradients[row]))
            square += float(np.dot(change, change))
            new += change
            state.gradients[row] = gradients
    along_mean = float(np.dot(new, state.total)) / n
    losses = -state.a * along_mean - state.c * (own - along_mean)
    state.losses = state.losses + losses
    state.ranges += float(np.ptp(losses)) ** 2
    state.total = state.total + new
    state.squares += 2.0 * own + square
    state.norms += (square + float(np.dot(new, new))) / (1.0 + n)

    xi = np.arange(1, n + 1) / n
    eta = radius * np.sqrt(n * (1.0 + xi * (n - 1)) / state.norms)
    of_mean = math.sqrt(np.dot(state.total, state.total)) / n
    deviation = math.sqrt(max(0.0, state.squares - n * of_mean * of_mean))
    state.a = np.minimum(eta, radius / of_mean) if of_mean > 0.0 else eta
    state.c = eta / (1.0 + n)
    if deviation > 0.0:
        state.c = np.minimum(state.c, radius * np.sqrt((n - 1) * xi) / deviation)
    rate = math.sqrt(8.0 * math.log(n) / state.ranges) if state.ranges > 0.0 else 0.0
    p = np.exp(-rate * (state.losses - state.losses.min()))
    p /= p.sum()
    a, c = float(np.dot(p, state.a)), float(np.dot(p, state.c))
    return (a - c) / n * state.total, c


def _at_reducer(
    radius: float,
    state: MTCO2OLCentral,
    contributions: Mapping[int, Contribution],
    members: Sequence[int] | None = None,
) -> tuple[MTCO2OLCentral, dict[int, Reply], CentralInfo]:
    v, c = _learn(state, contributions, radius)
    reply = Reply(ReplyKind.VECTORS, (v, np.full(len(v), c)))
    return state, dict.fromkeys(sorted(contributions), reply), CentralInfo()


def _at_peer(
    radius: float,
    own: int | None,
    state: MTCO2OLCentral,
    contributions: Mapping[int, Contribution],
    members: Sequence[int] | None = None,
) -> tuple[MTCO2OLCentral, dict[int, Reply], CentralInfo]:
    """The reply to a peer is v and c for its own model, then those of its own instance, which is this one.

    Args:
        own: The peer; without one all are answered, each as if the instance were its own.
    """
    for task, contribution in contributions.items():
        if contribution.kind is ContributionKind.VECTORS:
            row, (_, v, c_each) = state.row_of[task], contribution.vectors
            state.received[row], state.received_c[row] = v, c_each[0] if c_each[0] > 0.0 else math.nan
    v, c = _learn(state, contributions, radius)
    rows = [state.row_of[task] for task in state.row_of if members is None or task in members]
    replies = dict.fromkeys(sorted(contributions), KEEP)
    for task in replies if own is None else [own]:
        mean, mean_c, weight = np.zeros_like(v), 0.0, 0.0
        for row in rows:
            its_v, its_c = (v, c) if row == state.row_of[task] else (state.received[row], state.received_c[row])
            if not math.isnan(its_c):
                mean += state.weights[row] * its_v
                mean_c += float(state.weights[row] * its_c)
                weight += float(state.weights[row])
        replies[task] = Reply(
            ReplyKind.VECTORS, (mean / weight, np.full(len(v), mean_c / weight), v, np.full(len(v), c))
        )
    return state, replies, CentralInfo()


def _learner(name: str, loss_name: str, tau: int, *, central_step: CentralStep, on_graph: bool) -> Algorithm:
    loss = LOSSES[loss_name]

    def learn(state: MTCO2OLState, example: Example, t: int) -> tuple[MTCO2OLState, Prediction]:
        x, y = example
        score = dot(state.w, x)
        z = y * score
        slope = loss.slope(z) * y / tau
        add_scaled(state.gradients, slope, x)
        add_scaled(state.w, -state.c * slope, x)
        state.learned = True
        return state, Prediction(score, loss.value(z), 1.0)

    def send(state: MTCO2OLState, t: int) -> tuple[MTCO2OLState, Contribution]:
        if not state.learned and not state.told:
            return state, IDLE
        told = state.told or (np.zeros_like(state.w),) * 2 if on_graph else ()
        return state, Contribution(ContributionKind.VECTORS, (state.gradients.copy(), *told))

    def receive(state: MTCO2OLState, reply: Reply, t: int) -> MTCO2OLState:
        v, c, *told = reply.vectors
        state.c = float(c[0])
        state.w = -(v + state.c * state.gradients)
        state.told = tuple(told)
        return state

    return Algorithm(
        name=name,
        init_local=lambda dim: MTCO2OLState(np.zeros(dim), np.zeros(dim)),
        learn=learn,
        init_central=_init_central,
        central_step=central_step,
        exchange=Exchange(
            SyncRounds(tau),
            contribution=(1, 1, 1) if on_graph else (1,),
            reply=(1, 1, 1, 1) if on_graph else (1, 1),
            same_reply=not on_graph,
        ),
        predict=lambda state, x: dot(state.w, x),
        model=lambda state: {"w": state.w},
        receive=receive,
        send=send,
    )


_SPACE: dict[str, Spread] = {"radius": Log(0.3, 100.0), "loss": LOSS}

MT_CO2OL = Learner(
    name="mt-co2ol",
    parameters=MTCO2OLParameters,
    build=mt_co2ol,
    reveals="The reducer gets the sum of each task's gradients every tau rounds, every task that of all; with tau 1 "
    "two in a row give the example away.",
    searches=(Search(space={**_SPACE, "tau": OneOf((1, 5, 20))}),),
)
MT_CO2OL_D = Learner(
    name="mt-co2ol-d",
    parameters=MTCO2OLDParameters,
    build=mt_co2ol_d,
    reveals="Neighbors get the sum of a task's gradients every tau rounds, and that of its own neighborhood; with tau "
    "1 two in a row give the example away.",
    on=("graph",),
    searches=(Search(space=_SPACE),),
)
