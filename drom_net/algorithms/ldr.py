"""LDR: each task mixes a few small experts, of which two learn alone and the others share; nothing to tune.

The letters are those of docs/algorithms.md: L learns alone; D is one model for all tasks, by dual averaging with
AdaGrad's step; R combines the models of all tasks with coefficients that it learns; D+ and R+ are the same with an
offset of the task's own. F learns alone by ridge regression, and DF so what D leaves. Hedge on a floored log loss mixes
their probabilities, with a fixed share.

`ldr` has a reducer; `ldr_d` are peers: on a full graph each hears all others and sums as the reducer does; on another
graph sums flow along a spanning tree, and models go to neighbors only.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.adadrom.experts import CERTAIN, expected, step_of
from drom_net.algorithms.adadrom.learner import AdaDROMParameters, sync_of
from drom_net.algorithms.adadrom.mixing import ALONE, SCALE, SHARE
from drom_net.algorithms.adadrom.state import DELTA
from drom_net.algorithms.base import (
    IDLE,
    KEEP,
    Algorithm,
    CentralInfo,
    Contribution,
    ContributionKind,
    Example,
    Prediction,
    Reply,
    ReplyKind,
)
from drom_net.algorithms.features import (
    Block,
    Features,
    Matrix,
    SparseVector,
    SparseVectors,
    Vector,
    places,
    put,
    put_columns,
)
from drom_net.algorithms.learner import Learner
from drom_net.algorithms.ridge import ExactRidge, Ridge, ridge
from drom_net.core.fields import Flag, option

COEFFICIENT_STEP = 0.1
COEFFICIENT_START = 0.01

EXPERTS = (
    *("local", "shared", "shared with offset", "relation", "relation with offset"),
    *("local ridge", "shared with ridge"),
)
"""The last two are there up to 2,048 features only."""
EVIDENCE = ("examples", "errors", "errors_alone", "loss", "loss_alone", "weight_of_sharing", "sure", "sure_errors")
"""What a task counts, by the labels that it sees: errors and log loss (nats) of the mixture, and of one of the experts
alone that use nothing of others, the sum of the weight of those that do, and how sure it was, of all and of what came
out contrary. Sure is (|p - 1/2| / 0.4)^4, at most 1: above all the surest count, and a task of which it is never very
sure has some too."""

TRIMMED_FROM = 6
"""Tasks. Of four, two would be left."""
MOST_SAID = 1e100
"""No entry of a vector of the result is larger, whatever others have sent."""
MANY_TOUCHED = 64
"""Sync rounds may be far apart: of more sets of indices only their union is kept."""
NOTHING = np.zeros(0)
_MODELS, _SQUARES, _UNSENT = slice(0, 3), slice(4, 8), slice(3, 8, 4)
"""Columns of `LDRState.own`."""
_Rows = npt.NDArray[np.float64]
"""Of three axes; the last is that of the features."""


@dataclass(frozen=True, slots=True)
class LDRParameters(AdaDROMParameters):
    """LDR has nothing to tune; these say how much travels, and whom to trust."""

    robust: bool = option(
        Flag(),
        True,
        doc="Whether one bad site is stood: models longer than twice the median are scaled down and, among six tasks "
        "or more, sums are made without the largest and the smallest in each coordinate.",
    )


@dataclass(slots=True)
class LDRState:
    """One task among m whose models it hears of."""

    own: Matrix
    """By feature what is learned here, shape (d, 8): the model W, the offsets V of D+ and V' of R+, and P, what was
    added to the sums below since a word was heard; then the sums of squared gradients of these four, q the last."""
    totals: Matrix
    """Z and Q: the sums over all tasks of gradients and their squares, as last heard; shape (d, 2)."""
    sent: Matrix
    """The task's own part of them, shape (2, d)."""
    relay: _Rows
    """What to pass on to each listener of the sums of others, shape (n, 2, d); n = 0 where all are told the same."""
    touched: list[npt.NDArray[np.intp]] | None
    """Where examples were not zero since a word was heard, which is what has changed; None for everywhere."""
    told: _Rows
    """The model and sums that each listener has been told, shape (n, 3, d); n = 0 where all are told the same."""
    telling: tuple[Block, ...]
    """What is on its way to them."""
    others: Matrix
    """All tasks' models, as last heard; shape (d, m), m = 0 before the first reply."""
    lengths: Vector
    """Their squared norms, shape (m,)."""
    scales: Vector
    """What they are multiplied by: 1, or less where the learner is robust and a model too long; shape (m,)."""
    place: int
    """Where its own model stands among them, which is not used."""
    coefficients: Vector
    """a: how much the relation trusts each model, its own among them; shape (m,)."""
    coefficient_squares: Vector
    ridge: Ridge | None
    """What F and DF learn by; None where there are too many features."""
    weights: list[float]
    """Of the experts, sum 1."""
    weights_alone: list[float]
    """The same in a mixture of those that use nothing of others."""
    evidence: list[float]
    """As `EVIDENCE`."""


@dataclass(slots=True)
class LDRCentral:
    """What a centre knows of its tasks."""

    row_of: dict[int, int]
    told: _Rows
    """By task its model, and its sums of gradients and of their squares; shape (m, 3, d)."""
    totals: Matrix
    """The sums over tasks, shape (2, d)."""
    behind: set[int]
    """Rows of tasks that have missed a reply: the next one has all."""


def ldr(parameters: LDRParameters | None = None) -> Algorithm:
    """LDR with a reducer, which keeps all models and sums and tells each task what has changed of them."""
    parameters = parameters or LDRParameters()
    return _learner(parameters, name="ldr", central_step=_star(parameters))


def ldr_d(parameters: LDRParameters | None = None) -> Algorithm:
    """LDR as peers.

    On a graph where all are neighbors of all a task hears all models and sums. On another one each edge of a spanning
    tree carries the sum of everything behind it, one edge farther in each sync round: every gradient counts once, and
    as sums are told anew, one that comes late does no harm. Models go to neighbors, and no farther.
    """
    parameters = parameters or LDRParameters()

    def at(task: int, everybody: tuple[int, ...], tree: tuple[int, ...] | None, whole: bool) -> Algorithm:
        if tree is None:
            return _learner(parameters, name="ldr-d", central_step=_star(parameters, own=task), whole=whole)
        told = tuple(other in tree or other == task for other in everybody)
        place = everybody.index(task)
        algorithm = _learner(
            parameters,
            name="ldr-d",
            listeners=len(everybody),
            central_step=_of_tree(task, place, told),
            told=told,
            whole=whole,
        )
        return algorithm._replace(tells_each=True)

    return _learner(parameters, name="ldr-d", central_step=_star(parameters))._replace(at=at)


def _learner(
    parameters: LDRParameters,
    *,
    name: str,
    central_step: Any,
    listeners: int = 0,
    told: tuple[bool, ...] | None = None,
    whole: bool = False,
) -> Algorithm:
    """
    Args:
        listeners: To how many it says something different; 0 where all are told the same.
        told: Which of them are told sums, and not its model alone; with it sums reach each task once only.
        whole: Whether all is told each time and not what has changed, as a listener may miss a word.
    """

    def init_local(dim: int) -> LDRState:
        own_ridge = ridge(dim, 2)
        num_experts, num_alone = (5, 1) if own_ridge is None else (len(EXPERTS), len(ALONE))
        return LDRState(
            own=np.repeat([[0.0, 0.0, 0.0, 0.0, DELTA, DELTA, DELTA, 0.0]], dim, axis=0),
            totals=np.zeros((dim, 2)),
            sent=np.zeros((2, dim)),
            relay=np.zeros((listeners, 2, dim)),
            touched=[],
            told=np.zeros((listeners, 3, dim)),
            telling=(),
            others=np.zeros((dim, 0)),
            lengths=np.zeros(0),
            scales=np.ones(1),
            place=0,
            coefficients=np.ones(1),
            coefficient_squares=np.full(1, COEFFICIENT_START),
            ridge=own_ridge,
            weights=[1.0 / num_experts] * num_experts,
            weights_alone=[1.0 / num_alone] * num_alone,
            evidence=[0.0] * len(EVIDENCE),
        )

    def kappa(state: LDRState) -> float:
        """How much what is not sent yet counts: others have learned as much meanwhile. Along a tree all is late."""
        return math.sqrt(len(state.coefficients)) if told is None else 1.0

    def look(state: LDRState, x: Features) -> _Look:
        at, values = places(x)
        step = step_of(values)
        own = state.own[at]
        alone, offset, relation_offset = (values @ own[:, _MODELS]).tolist()
        sums = state.totals[at] + kappa(state) * own[:, _UNSENT]
        shared = -step * float(values @ (sums[:, 0] / np.sqrt(sums[:, 1] + DELTA)))
        heard = values @ state.others[at] if state.others.shape[1] else np.zeros(1)
        if parameters.robust:
            heard *= state.scales
        if state.ridge is None:
            heard[state.place] = alone
            relation = float(state.coefficients @ heard)
            few = (alone, shared, shared + offset, relation, relation + relation_offset)
            return _Look(at, values, step, own, heard, few)
        means, seen = state.ridge.means(at, values)
        certain, left = means.tolist()
        prior, certain = expected(shared), CERTAIN * certain
        heard[state.place] = certain if isinstance(state.ridge, ExactRidge) else alone
        relation = float(state.coefficients @ heard)
        by_ridge = CERTAIN * (prior + left)
        z = (alone, shared, shared + offset, relation, relation + relation_offset, certain, by_ridge)
        return _Look(at, values, step, own, heard, z, seen, prior)

    def primal_step(state: LDRState, example: Example, t: int) -> tuple[LDRState, Prediction]:
        x, y = example
        seen = look(state, x)
        tilts = tilts_of(seen.z)
        given = [0.5 + y * tilt for tilt in tilts]
        slopes = slopes_of(tilts, given, y)
        gradients = np.multiply.outer(seen.values, (slopes[0], slopes[2], slopes[4], slopes[1]))
        own = seen.own
        own[:, _SQUARES] += gradients * gradients
        own[:, 3] += gradients[:, 3]
        gradients *= seen.step
        own[:, _MODELS] -= gradients[:, _MODELS] / np.sqrt(own[:, 4:7])
        if not isinstance(x, SparseVector):
            state.touched = None  # and `own` is no copy
        else:
            state.own[seen.at] = own
            if state.touched is not None:
                state.touched.append(seen.at)
                if len(state.touched) > MANY_TOUCHED:
                    state.touched = [union(state.touched, len(state.own))]
        gradient = slopes[3] * seen.heard
        state.coefficient_squares += gradient * gradient
        state.coefficients -= COEFFICIENT_STEP * gradient / np.sqrt(state.coefficient_squares)
        if state.ridge is not None:
            state.ridge.learn(seen.at, seen.values, seen.seen, (y, y - seen.prior))
        score = mixed(state.weights, tilts)
        loss = _weigh(state, tilts, given, y, score)
        return state, Prediction(score, loss, 1.0)

    def send(state: LDRState, t: int) -> tuple[LDRState, Contribution]:
        exact = isinstance(state.ridge, ExactRidge)
        at: Any = slice(None) if exact or whole or state.touched is None else union(state.touched, len(state.own))
        if listeners:
            news = _news(state, slice(None))
            blocks = []
            for listener in range(listeners):
                its = news.copy()
                its[1:] = news[1:] + state.relay[listener] if told is None or told[listener] else 0.0
                blocks.append(its if whole else changes(its, state.told[listener]))
            state.telling = tuple(blocks)
        elif not isinstance(at, slice) and 28 * len(at) < 24 * len(state.own):
            state.telling = (SparseVectors(at, _news(state, at), len(state.own)),)
        elif exact and state.touched == []:
            return state, IDLE
        else:
            state.telling = (_news(state, slice(None)),)
        if all(isinstance(block, SparseVectors) and not len(block.indices) for block in state.telling):
            return state, IDLE
        return state, Contribution(ContributionKind.VECTORS, state.telling)

    def receive(state: LDRState, reply: Reply, t: int) -> LDRState:
        if reply.kind is not ReplyKind.VECTORS:
            return state
        if state.telling:  # it has come; without a reply it would be said again
            for listener in range(listeners):
                put(state.told[listener], state.telling[listener])
            at: Any = slice(None) if state.touched is None else union(state.touched, len(state.own))
            state.sent[:, at] += state.own[at, _UNSENT].T
            state.own[at, _UNSENT] = 0.0
            state.touched, state.telling = [], ()
        totals, others, *relay = reply.vectors
        dim = len(state.own)
        if not state.others.shape[1]:
            m = len(others) if isinstance(others, np.ndarray) else len(others.values) * others.length // dim
            state.others, state.lengths = np.zeros((dim, m)), np.zeros(m)
            state.coefficients, state.scales = np.full(m, 1.0 / m), np.ones(m)
            state.coefficient_squares = np.full(m, COEFFICIENT_START)
        state.place = reply.place
        put_columns(state.totals, totals)
        np.maximum(state.totals[:, 1], 0.0, out=state.totals[:, 1])
        _put_models(state, others)
        if relay:
            put(state.relay.reshape(-1, dim), relay[0])
        if parameters.robust:
            state.scales = scales_of(state.lengths)
        return state

    def predict(state: LDRState, x: Features) -> float:
        return mixed(state.weights, tilts_of(look(state, x).z))

    def model(state: LDRState) -> dict[str, Vector]:
        sums = state.totals + kappa(state) * state.own[:, _UNSENT]
        w, offset, relation_offset = (state.own[:, column].copy() for column in range(3))
        told_of = CERTAIN * state.ridge.weights[0] if isinstance(state.ridge, ExactRidge) else w
        trust = state.coefficients * state.scales
        trust[state.place] = state.coefficients[state.place]
        relation = trust[state.place] * told_of
        if state.others.shape[1]:
            relation += state.others @ trust - trust[state.place] * state.others[:, state.place]
        ridges = {}
        if state.ridge is not None:
            ridges = dict(zip(("ridge", "shared_ridge"), state.ridge.vectors(), strict=True))
        return {
            "w": w,
            "shared": np.clip(-sums[:, 0] / np.sqrt(sums[:, 1] + DELTA), -MOST_SAID, MOST_SAID),
            "offset": offset,
            "relation": np.clip(relation, -MOST_SAID, MOST_SAID),
            "relation_offset": relation_offset,
            **ridges,
            "mixture": np.array(state.weights),
            "evidence": np.array(state.evidence),
        }

    return Algorithm(
        name=name,
        init_local=init_local,
        primal_step=primal_step,
        dual_step=lambda state, reply, t: (state, IDLE),
        init_central=init_central,
        central_step=central_step,
        sync=sync_of(parameters),
        predict=predict,
        model=model,
        push_vectors=3,
        pull_vectors=lambda num_tasks: 2 + num_tasks,
        push_layout=(3,),
        pull_layout=lambda num_tasks: (2, num_tasks),
        score=score_of_model,
        probability=lambda score: 0.5 + score,
        receive=receive,
        send=send,
        mixing=lambda state: (np.array(state.weights), np.array(state.evidence)),
    )


class _Look(NamedTuple):
    """What a task sees in an example before it learns from it."""

    at: Any
    """Where x is not zero, as an index."""
    values: Vector
    """x there."""
    step: float
    own: Matrix
    """`LDRState.own` there, shape (k, 8)."""
    heard: Vector
    """The score by each model of all tasks, shape (m,)."""
    z: Sequence[float]
    """The experts' scores."""
    seen: Vector = NOTHING
    """What ridge regression wants to have of the example when it learns."""
    prior: float = 0.0
    """What D expects of the label."""


def tilts_of(z: Sequence[float]) -> list[float]:
    """By how much experts of these scores find the label +1 more probable than 1/2: pi(z) - 1/2."""
    return [SCALE * math.tanh(0.5 * one) for one in z]  # s(z) - 1/2 = tanh(z/2) / 2


def slopes_of(tilts: Sequence[float], given: Sequence[float], y: float) -> list[float]:
    """The derivatives by z of the losses -log pi(y z)."""
    half, square = y / (2.0 * SCALE), SCALE * SCALE
    return [half * (tilt * tilt - square) / one for tilt, one in zip(tilts, given, strict=True)]


def mixed(weights: Sequence[float], tilts: Sequence[float]) -> float:
    """p - 1/2 of a mixture: its sign is the prediction."""
    return float(sum(map(operator.mul, weights, tilts)))


def _weigh(state: LDRState, tilts: Sequence[float], given: Sequence[float], y: float, score: float) -> float:
    """Give the experts their new weights, and count; returns the mixture's log loss."""
    alone = ALONE[: len(state.weights_alone)]
    score_alone = mixed(state.weights_alone, [tilts[expert] for expert in alone])
    sharing = 1.0 - sum([state.weights[expert] for expert in alone])
    loss, loss_alone = -math.log(0.5 + y * score), -math.log(0.5 + y * score_alone)
    wrong, wrong_alone = (score >= 0.0) != (y > 0.0), (score_alone >= 0.0) != (y > 0.0)
    sure = (score / SCALE) ** 4
    counts = (1.0, wrong, wrong_alone, loss, loss_alone, sharing, sure, sure * wrong)
    state.evidence = list(map(operator.add, state.evidence, counts))
    state.weights = _after(state.weights, given)
    state.weights_alone = _after(state.weights_alone, [given[expert] for expert in alone])
    return loss


def _after(weights: Sequence[float], given: Sequence[float]) -> list[float]:
    """Hedge: the weights by the probability that each expert gave to the label, and a share for all alike."""
    products = list(map(operator.mul, weights, given))
    factor, share = (1.0 - SHARE) / sum(products), SHARE / len(products)
    return [factor * product + share for product in products]


def score_of_model(model: Mapping[str, Vector], x: Features) -> float:
    """The same as `predict` by what is left of a task at its end."""
    at, values = places(x)
    step = step_of(values)
    own, shared, offset, relation, relation_offset = (
        float(model[name][at] @ values) for name in ("w", "shared", "offset", "relation", "relation_offset")
    )
    shared *= step
    z = [own, shared, shared + offset, relation, relation + relation_offset]
    if "ridge" in model:
        alone, left = (float(model[name][at] @ values) for name in ("ridge", "shared_ridge"))
        z += (CERTAIN * alone, CERTAIN * (expected(shared) + left))
    return mixed(model["mixture"].tolist(), tilts_of(z))


def union(found: Sequence[npt.NDArray[np.intp]], dim: int) -> npt.NDArray[np.intp]:
    """All indices that are in some of these, ascending."""
    if len(found) == 1:
        return found[0].astype(np.intp)
    there = np.zeros(dim, dtype=bool)
    for indices in found:
        there[indices] = True
    return np.flatnonzero(there)


def _put_models(state: LDRState, block: Block) -> None:
    """Write what is new of the others' models, and keep their lengths."""
    dim, m = state.others.shape
    if not isinstance(block, SparseVectors) or len(block.values) > 1:
        put_columns(state.others, block)
        state.lengths = np.einsum("ij,ij->j", state.others, state.others)
        return
    task, at = np.divmod(block.indices, dim)
    (values,) = block.values
    former = state.others[at, task]
    state.others[at, task] = values
    added = state.lengths + np.bincount(task, values * values - former * former, m)
    for shorter in np.flatnonzero(added < 0.5 * state.lengths):  # what is left of a difference may be rounding
        added[shorter] = state.others[:, shorter] @ state.others[:, shorter]
    state.lengths = added


def _news(state: LDRState, at: Any) -> Matrix:
    """What a task says of itself: the model that others use, and its sums; shape (3, k)."""
    model = CERTAIN * state.ridge.weights[0, at] if isinstance(state.ridge, ExactRidge) else state.own[at, 0]
    return np.concatenate((model[None], state.sent[:, at] + state.own[at, _UNSENT].T))


def changes(news: Matrix, told: Matrix) -> Block:
    """What of some vectors, shape (r, d), is new: sparse, or all where that is shorter."""
    rows, dim = news.shape
    at = np.flatnonzero((news != told).any(axis=0))
    if len(at) * (8 * rows + 4) >= 8 * rows * dim:
        return news.copy()
    return SparseVectors(at, news[:, at], dim)


# The centre ---------------------------------------------------------------------------------------


def init_central(tasks: tuple[int, ...], dim: int, rng: np.random.Generator) -> LDRCentral:
    """Before the first contribution."""
    rows = {task: row for row, task in enumerate(tasks)}
    return LDRCentral(rows, np.zeros((len(tasks), 3, dim)), np.zeros((2, dim)), set())


def _take(state: LDRCentral, contributions: Mapping[int, Contribution]) -> list[tuple[int, Block]]:
    """Write down what tasks tell; returns (row, block) of those that tell something."""
    news = []
    for task, contribution in contributions.items():
        if contribution.kind is ContributionKind.VECTORS:
            row, (block,) = state.row_of[task], contribution.vectors
            put(state.told[row], block)
            np.maximum(state.told[row, 2], 0.0, out=state.told[row, 2])  # a site may say of squares what it likes
            news.append((row, block))
    return news


def _star(parameters: LDRParameters, own: int | None = None) -> Any:
    """The central step over all tasks; a peer answers itself only."""

    def central_step(
        state: LDRCentral, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
    ) -> tuple[LDRCentral, dict[int, Reply], CentralInfo]:
        news = _take(state, contributions)
        m, _, dim = state.told.shape
        info = CentralInfo(0.0, np.zeros(m), 0.0)
        replies = dict.fromkeys(sorted(contributions), KEEP)
        if not news and not state.behind:
            return state, replies, info
        at: Any = changed_in([block for _, block in news], dim)
        state.totals[:, at] = totals(state.told[:, 1:, at], robust=parameters.robust)
        vectors = (_part(state.totals, at), _models(state.told, news))
        whole: tuple[Block, ...] = ()
        for task in replies:
            row = state.row_of[task]
            if own is not None and task != own:
                continue
            if not news and row not in state.behind:
                continue
            if row in state.behind:
                whole = whole or (state.totals.copy(), state.told[:, 0].copy())
            replies[task] = Reply(ReplyKind.VECTORS, whole if row in state.behind else vectors, row)
        if own is None:
            rows = {state.row_of[task] for task in replies}
            state.behind = set(range(m)) - rows if news else state.behind - rows
        return state, replies, info

    return central_step


def changed_in(blocks: Sequence[Block], dim: int) -> Any:
    """Where some of these blocks of three vectors hold something, as an index."""
    found = []
    for block in blocks:
        if not isinstance(block, SparseVectors) or block.length != dim:
            return slice(None)
        found.append(block.indices)
    return union(found, dim)


def _part(rows: Matrix, at: Any) -> Block:
    return rows.copy() if isinstance(at, slice) else SparseVectors(at, rows[:, at], rows.shape[1])


def _models(told: _Rows, news: Sequence[tuple[int, Block]]) -> Block:
    """What is new of the models of all tasks, shape (m, d), laid end to end where that is sparse."""
    m, _, dim = told.shape
    sparse = [(row, block) for row, block in news if isinstance(block, SparseVectors) and block.length == dim]
    if len(sparse) < len(news) or 12 * sum(len(block.indices) for _, block in sparse) >= 8 * m * dim:
        return told[:, 0].copy()
    if not sparse:
        return SparseVectors(np.zeros(0, dtype=np.intp), np.zeros((1, 0)), m * dim)
    indices = np.concatenate([row * dim + block.indices for row, block in sparse])
    values = np.concatenate([block.values[0] for _, block in sparse])
    return SparseVectors(indices, values[None, :], m * dim)


def totals(sums: _Rows, *, robust: bool) -> Matrix:
    """The sums over tasks, shape (m, 2, k), of gradients and of squares; shape (2, k).

    Args:
        robust: In each coordinate without the task whose sum is the largest and that whose sum is the smallest, where
            there are `TRIMMED_FROM`.
    """
    result: Matrix
    if not robust or len(sums) < TRIMMED_FROM:
        result = sums.sum(axis=0)
        return result
    gradients = sums[:, 0]
    low, high = gradients.argmin(axis=0), gradients.argmax(axis=0)
    high = np.where(high == low, (low + 1) % len(sums), high)
    kept = np.ones(gradients.shape)
    column = np.arange(gradients.shape[1])
    kept[low, column] = kept[high, column] = 0.0
    result = (sums * kept[:, None]).sum(axis=0)
    return result


def scales_of(lengths: Vector) -> Vector:
    """What to multiply models of these squared norms by so that none is longer than twice the median of all."""
    norms = np.sqrt(lengths)
    ordered = np.sort(norms)
    most = float(ordered[(len(norms) - 1) // 2] + ordered[len(norms) // 2])  # twice the median
    scales = np.ones(len(norms))
    if ordered[-1] > most:
        long = norms > most
        scales[long] = most / norms[long]
    return scales


def _of_tree(own: int, place: int, told: tuple[bool, ...]) -> Any:
    """The central step of a peer whose neighbors tell it the sum of everything behind them.

    Args:
        place: Where it stands itself in its neighborhood.
        told: Who of that is a neighbor along the tree, or itself.
    """

    def central_step(
        state: LDRCentral, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
    ) -> tuple[LDRCentral, dict[int, Reply], CentralInfo]:
        _take(state, contributions)
        sums = state.told[:, 1:]
        # Sums of all others but one, without subtraction, which would give other low bits where nothing has changed.
        before, after = np.zeros_like(sums), np.zeros_like(sums)
        for row in range(1, len(sums)):
            before[row] = before[row - 1] + (sums[row - 1] if row - 1 != place else 0.0)
        for row in range(len(sums) - 2, -1, -1):
            after[row] = after[row + 1] + (sums[row + 1] if row + 1 != place else 0.0)
        relay = before + after
        relay[place] = 0.0
        state.totals = sums.sum(axis=0)
        replies = dict.fromkeys(sorted(contributions), KEEP)
        blocks = (state.totals.copy(), state.told[:, 0].copy(), relay.reshape(-1, relay.shape[-1]))
        replies[own] = Reply(ReplyKind.VECTORS, blocks, place)
        return state, replies, CentralInfo(0.0, np.zeros(len(sums)), 0.0)

    return central_step


_REVEALS = (
    "models, and sums of gradients and of their squares: no example, but few examples can be told from their sum."
)

LDR = Learner(
    name="ldr", parameters=LDRParameters, build=ldr, reveals=f"The reducer, and through it every site, gets {_REVEALS}"
)
LDR_D = Learner(name="ldr-d", parameters=LDRParameters, build=ldr_d, reveals=f"Neighbors get {_REVEALS}", on_graph=True)
