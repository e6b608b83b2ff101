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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

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
    Prediction,
    Reply,
    ReplyKind,
    SyncRounds,
)
from drom_net.algorithms.features import Block, Features, Matrix, SparseVector, SparseVectors, Vector, put
from drom_net.algorithms.ridge import Ridge, ridge
from drom_net.fields import Flag, Integer, option

STEP = 0.5
"""AdaGrad's, of all models."""
MOST_MOVED = 5.0
"""One example's first step moves its own score by at most this: long rows of many non-zeros take smaller steps."""
FLOOR = 0.1
"""No expert gives a label less probability: a confident wrong label costs at most log 10, and its gradient fades."""
SHARE = 0.01
"""What of the weights goes to all experts alike after each example, so that a better one is found again."""
DELTA = 1e-8
"""What sums of squares begin with."""
COEFFICIENT_STEP = 0.1
COEFFICIENT_START = 0.01

CERTAIN = 4.0
"""The score that ridge regression's answer 1 stands for."""

EXPERTS = (
    *("local", "shared", "shared with offset", "relation", "relation with offset"),
    *("local ridge", "shared with ridge"),
)
"""The last two are there up to 2,048 features only."""
ALONE = (0, 5)
"""Those that use nothing of others."""
SURE = 0.3
"""A mixture is sure of a label to which it gives a probability beyond 1/2 by this; it never gives more than 0.4."""
EVIDENCE = ("examples", "errors", "errors_alone", "loss", "loss_alone", "weight_of_sharing", "sure", "sure_errors")
"""What a task counts, by the labels that it sees: errors and log loss (nats) of the mixture, and of one of the experts
alone that use nothing of others, the sum of the weight of those that do, and on how many it was sure, and how often
wrong then."""

UNBOUNDED = 2**62
NOTHING_SEEN = np.zeros(0)
_OWN, _OFFSET, _RELATION_OFFSET = range(3)
_Rows = npt.NDArray[np.float64]
"""Of three axes; the last is that of the features."""


@dataclass(frozen=True, slots=True)
class LDRParameters:
    """LDR has nothing to tune; these say how much travels, and whom to trust."""

    tau: int = option(
        Integer(0),
        20,
        doc="The most rounds between two sync rounds, of which there are many at first: 1, 2, .. 8, 10, 12, 15, ..; 1 "
        "is every round, and 0 has no bound, which gives about 4.5 ln T in all.",
    )
    robust: bool = option(
        Flag(),
        False,
        doc="Whether one bad site is stood: sums are trimmed, long models scaled down; six tasks or more.",
    )
    exchange: ClassVar[str] = "blocking"
    delayed: ClassVar[bool] = False


@dataclass(slots=True)
class LDRState:
    """One task among m whose models it hears of."""

    models: Matrix
    """Its own model W, and the offsets V of D+ and V' of R+; shape (3, d)."""
    squares: Matrix
    """The sums of squared gradients of these."""
    totals: Matrix
    """Z and Q: the sums over all tasks of gradients and their squares, as last heard; shape (2, d)."""
    unsent: Matrix
    """P and q: what its own have added since; shape (2, d)."""
    sent: Matrix
    """The sums of its own before that; shape (2, d)."""
    relay: _Rows
    """What to pass on to each listener of the sums of others, shape (n, 2, d); n = 1 where all are told the same."""
    told: _Rows
    """The model and sums that each listener has been told, shape (n, 3, d)."""
    telling: tuple[Block, ...]
    """What is on its way to them."""
    others: Matrix
    """All tasks' models, as last heard; shape (m, d), m = 0 before the first reply."""
    scales: Vector
    """What these are multiplied by: 1, or less where the learner is robust and a model too long; shape (m,)."""
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
    evidence: Vector
    """Shape (8,), as `EVIDENCE`."""


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


def probability(z: float) -> float:
    """pi(z) = eps + (1 - 2 eps) s(z): what an expert of score z gives to the label +1."""
    s = 1.0 / (1.0 + math.exp(-z)) if z >= 0.0 else math.exp(z) / (1.0 + math.exp(z))
    return FLOOR + (1.0 - 2.0 * FLOOR) * s


def slope(z: float, y: float) -> float:
    """c(z, y), the derivative by z of the loss -log pi(y z)."""
    e = math.exp(-abs(z))
    s = 1.0 / (1.0 + e) if y * z >= 0.0 else e / (1.0 + e)
    pi = FLOOR + (1.0 - 2.0 * FLOOR) * s
    return -y * (1.0 - 2.0 * FLOOR) * (e / ((1.0 + e) * (1.0 + e))) / pi


def ldr(parameters: LDRParameters | None = None) -> Algorithm:
    """LDR with a reducer, which keeps all models and sums and tells each task what has changed of them."""
    parameters = parameters or LDRParameters()
    return _learner(parameters, name="ldr", listeners=1, robust=parameters.robust, central_step=_star(parameters))


def ldr_d(parameters: LDRParameters | None = None) -> Algorithm:
    """LDR as peers.

    On a graph where all are neighbors of all a task hears all models and sums. On another one each edge of a spanning
    tree carries the sum of everything behind it, one edge farther in each sync round: every gradient counts once, and a
    message that is lost or comes twice does no harm, as sums are told anew. Models go to neighbors, and no farther.
    """
    parameters = parameters or LDRParameters()

    def at(task: int, everybody: tuple[int, ...], tree: tuple[int, ...] | None) -> Algorithm:
        if tree is None:
            step = _star(parameters, own=task)
            return _learner(parameters, name="ldr-d", listeners=1, robust=parameters.robust, central_step=step)
        told = tuple(other in tree or other == task for other in everybody)
        place = everybody.index(task)
        algorithm = _learner(
            parameters,
            name="ldr-d",
            listeners=len(everybody),
            robust=parameters.robust,
            central_step=_of_tree(task, place, told),
            told=told,
        )
        return algorithm._replace(tells_each=True)

    return _learner(
        parameters, name="ldr-d", listeners=1, robust=parameters.robust, central_step=_star(parameters)
    )._replace(at=at)


def _learner(
    parameters: LDRParameters,
    *,
    name: str,
    listeners: int,
    robust: bool,
    central_step: Any,
    told: tuple[bool, ...] | None = None,
) -> Algorithm:
    """
    Args:
        listeners: To how many it says something different.
        told: Which of them are told sums, and not its model alone; with it sums reach each task once only.
    """
    sync = SyncRounds(parameters.tau or UNBOUNDED, growing=True)

    def init_local(dim: int) -> LDRState:
        own_ridge = ridge(dim, 2)
        num_experts, num_alone = (5, 1) if own_ridge is None else (len(EXPERTS), len(ALONE))
        return LDRState(
            models=np.zeros((3, dim)),
            squares=np.full((3, dim), DELTA),
            totals=np.zeros((2, dim)),
            unsent=np.zeros((2, dim)),
            sent=np.zeros((2, dim)),
            relay=np.zeros((listeners, 2, dim)),
            told=np.zeros((listeners, 3, dim)),
            telling=(),
            others=np.zeros((0, dim)),
            scales=np.ones(1),
            place=0,
            coefficients=np.ones(1),
            coefficient_squares=np.full(1, COEFFICIENT_START),
            ridge=own_ridge,
            weights=[1.0 / num_experts] * num_experts,
            weights_alone=[1.0 / num_alone] * num_alone,
            evidence=np.zeros(len(EVIDENCE)),
        )

    def kappa(state: LDRState) -> float:
        """How much what is not sent yet counts: others have learned as much meanwhile. Along a tree all is late."""
        return math.sqrt(len(state.coefficients)) if told is None else 1.0

    def look(state: LDRState, x: Features) -> _Look:
        at, values = (x.indices, x.values) if isinstance(x, SparseVector) else (slice(None), x)
        step = min(STEP, MOST_MOVED / max(float(np.abs(values).sum()), DELTA))
        own = state.models[:, at]
        scores = own @ values
        heard = state.others[:, at] @ values if len(state.others) else scores[:1].copy()
        heard *= state.scales
        heard[state.place] = scores[_OWN]
        sums = state.totals[:, at] + kappa(state) * state.unsent[:, at]
        shared = -step * float((sums[0] / np.sqrt(sums[1] + DELTA)) @ values)
        relation = float(state.coefficients @ heard)
        z = [
            float(scores[_OWN]),
            shared,
            shared + float(scores[_OFFSET]),
            relation,
            relation + float(scores[_RELATION_OFFSET]),
        ]
        if state.ridge is None:
            return _Look(at, values, step, own, heard, z)
        means, seen = state.ridge.means(at, values)
        prior = expected(shared)
        z += (CERTAIN * float(means[0]), CERTAIN * (prior + float(means[1])))
        return _Look(at, values, step, own, heard, z, means, seen, prior)

    def primal_step(state: LDRState, example: Example, t: int) -> tuple[LDRState, Prediction]:
        x, y = example
        seen = look(state, x)
        z = seen.z
        score = mixed(state.weights, z)
        slopes = [slope(one, y) for one in z]
        gradients = np.array((slopes[0], slopes[2], slopes[4]))[:, None] * seen.values
        squares = state.squares[:, seen.at] + gradients * gradients
        state.squares[:, seen.at] = squares
        state.models[:, seen.at] = seen.own - seen.step * gradients / np.sqrt(squares)
        gradient = slopes[1] * seen.values
        state.unsent[0, seen.at] += gradient
        state.unsent[1, seen.at] += gradient * gradient
        gradient = slopes[3] * seen.heard
        state.coefficient_squares += gradient * gradient
        state.coefficients -= COEFFICIENT_STEP * gradient / np.sqrt(state.coefficient_squares)
        if state.ridge is not None:
            state.ridge.learn(seen.at, seen.values, seen.means, seen.seen, np.array((y, y - seen.prior)))
        loss = _weigh(state, z, y, score)
        return state, Prediction(score, loss, 1.0)

    def send(state: LDRState, t: int) -> tuple[LDRState, Contribution]:
        news = np.empty((3, state.models.shape[1]))
        blocks: list[Block] = []
        for listener in range(listeners):
            news[0] = state.models[_OWN]
            news[1:] = state.sent + state.unsent + state.relay[listener] if told is None or told[listener] else 0.0
            blocks.append(changes(news, state.told[listener]))
        state.telling = tuple(blocks)
        if all(isinstance(block, SparseVectors) and not len(block.indices) for block in blocks):
            return state, IDLE
        return state, Contribution(ContributionKind.VECTORS, state.telling)

    def receive(state: LDRState, reply: Reply, t: int) -> LDRState:
        if reply.kind is not ReplyKind.VECTORS:
            return state
        for listener, block in enumerate(state.telling):  # what was said has come; without a reply it is said again
            put(state.told[listener], block)
        state.telling = ()
        state.sent = state.sent + state.unsent
        state.unsent = np.zeros_like(state.unsent)
        totals, others, *relay = reply.vectors
        if not len(state.others):
            m = others.length // state.models.shape[1] if isinstance(others, SparseVectors) else len(others)
            state.others = np.zeros((m, state.models.shape[1]))
            state.coefficients, state.scales = np.full(m, 1.0 / m), np.ones(m)
            state.coefficient_squares = np.full(m, COEFFICIENT_START)
        state.place = reply.place
        put(state.totals, totals)
        put(state.others, others)
        if relay:
            put(state.relay.reshape(-1, state.models.shape[1]), relay[0])
        if robust:
            state.scales = scales_of(state.others)
        return state

    def predict(state: LDRState, x: Features) -> float:
        return mixed(state.weights, look(state, x).z)

    def model(state: LDRState) -> dict[str, Vector]:
        sums = state.totals + kappa(state) * state.unsent
        own = state.models[_OWN]
        trust = state.coefficients * state.scales
        trust[state.place] = state.coefficients[state.place]
        relation = trust[state.place] * own
        if len(state.others):
            relation = relation + trust @ state.others - trust[state.place] * state.others[state.place]
        ridges = {}
        if state.ridge is not None:
            ridges = dict(zip(("ridge", "shared_ridge"), state.ridge.vectors(), strict=True))
        return {
            "w": own,
            "shared": -sums[0] / np.sqrt(sums[1] + DELTA),
            "offset": state.models[_OFFSET],
            "relation": relation,
            "relation_offset": state.models[_RELATION_OFFSET],
            **ridges,
            "mixture": np.array(state.weights),
            "evidence": state.evidence,
        }

    return Algorithm(
        name=name,
        init_local=init_local,
        primal_step=primal_step,
        dual_step=lambda state, reply, t: (state, IDLE),
        init_central=init_central,
        central_step=central_step,
        sync=sync,
        predict=predict,
        model=model,
        push_vectors=3,
        pull_vectors=lambda num_tasks: 2 + num_tasks,
        push_layout=(3,),
        pull_layout=lambda num_tasks: (2, num_tasks),
        score=score_of_model,
        receive=receive,
        send=send,
    )


class _Look(NamedTuple):
    """What a task sees in an example before it learns from it."""

    at: Any
    """Where x is not zero, as an index."""
    values: Vector
    """x there."""
    step: float
    own: Matrix
    """The task's own models there, shape (3, k)."""
    heard: Vector
    """The score by each model of all tasks, shape (m,)."""
    z: list[float]
    """The experts' scores."""
    means: Vector = NOTHING_SEEN
    """What ridge regression expects of the label, and of what D leaves of it."""
    seen: Vector = NOTHING_SEEN
    prior: float = 0.0
    """What D expects of the label."""


def expected(z: float) -> float:
    """What a score says of the label, as a number from -1 to 1."""
    return min(1.0, max(-1.0, z / CERTAIN))


def mixed(weights: Sequence[float], z: Sequence[float]) -> float:
    """p - 1/2 of the mixture: its sign is the prediction."""
    return sum(weight * probability(one) for weight, one in zip(weights, z, strict=True)) - 0.5


def _weigh(state: LDRState, z: Sequence[float], y: float, score: float) -> float:
    """Give the experts their new weights, and count; returns the mixture's log loss."""
    given = [probability(y * one) for one in z]
    loss = -math.log(0.5 + y * score)
    alone = ALONE[: len(state.weights_alone)]
    score_alone = mixed(state.weights_alone, [z[expert] for expert in alone])
    others = 1.0 - sum(state.weights[expert] for expert in alone)
    sure, wrong, wrong_alone = abs(score) >= SURE, (score >= 0.0) != (y > 0.0), (score_alone >= 0.0) != (y > 0.0)
    loss_alone = -math.log(0.5 + y * score_alone)
    state.evidence += (1.0, wrong, wrong_alone, loss, loss_alone, others, sure, sure and wrong)
    state.weights = _after(state.weights, given)
    state.weights_alone = _after(state.weights_alone, [given[expert] for expert in alone])
    return loss


def _after(weights: Sequence[float], given: Sequence[float]) -> list[float]:
    """Hedge: the weights by the probability that each expert gave to the label, and a share for all alike."""
    products = [weight * one for weight, one in zip(weights, given, strict=True)]
    total, share = sum(products), SHARE / len(products)
    return [(1.0 - SHARE) * product / total + share for product in products]


def score_of_model(model: Mapping[str, Vector], x: Features) -> float:
    """The same as `predict` by what is left of a task at its end."""
    at, values = (x.indices, x.values) if isinstance(x, SparseVector) else (slice(None), x)
    step = min(STEP, MOST_MOVED / max(float(np.abs(values).sum()), DELTA))
    own, shared, offset, relation, relation_offset = (
        float(model[name][at] @ values) for name in ("w", "shared", "offset", "relation", "relation_offset")
    )
    shared *= step
    z = [own, shared, shared + offset, relation, relation + relation_offset]
    if "ridge" in model:
        alone, left = (float(model[name][at] @ values) for name in ("ridge", "shared_ridge"))
        z += (CERTAIN * alone, CERTAIN * (expected(shared) + left))
    return mixed(model["mixture"].tolist(), z)


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
    if not found:
        return np.zeros(0, dtype=np.intp)
    return np.unique(np.concatenate(found)) if len(found) > 1 else found[0]


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
        robust: In each coordinate without the task whose sum is the largest and that whose sum is the smallest.
    """
    result: Matrix
    if not robust or len(sums) < 3:
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


def scales_of(models: Matrix) -> Vector:
    """What to multiply models by so that none is longer than twice the median of all."""
    norms = np.sqrt(np.einsum("ij,ij->i", models, models))
    most = 2.0 * float(np.median(norms))
    scales = np.ones(len(models))
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
