"""What an onlooker can compute of rows from what it is told: one class for each learner and point of view.

An attack hears what it is told round by round, and guesses vectors that may be multiples of a row. The label follows
from the sign. Each is a lower bound: a better attack may read more.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from drom_net.algorithms.adadrom.exchange import BITS_OF_G, BITS_OF_Q, BITS_OF_SKETCH, omega
from drom_net.algorithms.adadrom.learner import AdaDROMParameters
from drom_net.algorithms.adadrom.state import LAYOUT, SKETCHED
from drom_net.algorithms.base import Contribution, ContributionKind, Reply, ReplyKind
from drom_net.algorithms.d_ofw import DOFWParameters
from drom_net.algorithms.drom import BITS_OF_SUMS, DromParameters, pair_of_sum, start
from drom_net.algorithms.drom_d import DromDParameters
from drom_net.algorithms.features import Block, Matrix, SparseVectors, Vector, numbers, put
from drom_net.algorithms.fed_avg import FedAvgDParameters, FedAvgParameters
from drom_net.algorithms.losses import LOSSES
from drom_net.algorithms.osmtl import OSMTLParameters
from drom_net.algorithms.pooled import PooledParameters
from drom_net.algorithms.prox_gd import ProxGDParameters
from drom_net.algorithms.ridge import RIDGE, ExactRidge, ridge
from drom_net.algorithms.sums import Whole, nothing, to_floats
from drom_net.core.seeding import stream


class Guess(NamedTuple):
    """A vector that may be a multiple of a row."""

    vector: Vector
    """Shape (d,)."""
    after: int
    """The row was learned in a later round than this,"""
    to: int
    """and in none later than this."""


class OnContributions(Protocol):
    """Of who gets the contributions of one site: the reducer, or a neighbor."""

    def hear(self, t: int, contribution: Contribution, reply: Reply) -> Iterator[Guess]:
        """
        Args:
            contribution: Of sync round t; it has vectors.
            reply: What the site gets for it, or on a graph what it would get if its neighbors were those of the
                listener.
        """

    def model(self) -> Vector | None:
        """The site's model up to a factor, shape (d,); None where it is not known."""


class OnReplies(Protocol):
    """Of a site that gets replies alone, and knows what it has said itself."""

    def hear(self, t: int, own: Contribution, reply: Reply, others: int) -> Iterator[Guess]:
        """
        Args:
            own: Its own contribution of sync round t.
            reply: It has vectors.
            others: How many others said something; the attack may guess it.
        """


class _OfDuals:
    """DROM: w follows from two dual vectors in a row and the reply between them; a row from two models in a row.

    A neighbor that has other neighbors knows replies only nearly; but they change slowly, so that they cancel.
    """

    def __init__(self, q: DromParameters, dim: int) -> None:
        self._q = q
        self._tau = q.tau if isinstance(q, DromDParameters) else 0
        delayed = isinstance(q, DromDParameters) and q.exchange == "delayed"
        self._replies: deque[Vector | float] = deque([0.0] * (1 + delayed), maxlen=1 + delayed)
        """The oldest is the one that was used in the steps behind the next contribution."""
        self._a, self._w, self._t = np.zeros(dim), np.zeros(dim), 0
        """The last contribution; the model that follows from it; its round."""
        self._moved = np.zeros(dim)
        """By what it differed from the one before, over the step."""

    def _step(self, t: int) -> float:
        assert isinstance(self._tau, int)
        return self._q.eta0 / math.sqrt(-(-t // self._tau) if self._tau else t)

    def hear(self, t: int, contribution: Contribution, reply: Reply) -> Iterator[Guess]:
        (a,), last, since, lam = contribution.vectors, self._t, self._a, self._q.lam
        stood = self._tau and np.array_equal(a, since)  # an outlier that was skipped
        if lam and not stood:
            step = self._step(t)
            moved = (a - since) / step
            w = (moved + self._q.rho * self._replies[0]) / lam
            if self._tau:  # primal step first: w is that after the row of this round
                yield Guess((self._w - w) / step - lam * since, last, t)
                yield Guess(moved - self._moved + lam * lam * step * since, last, t)
            elif last:  # dual step first: w is that before it, so that the row of the last contribution follows
                yield Guess((self._w - w) / self._step(last) - lam * since, last - 1, last)
            self._a, self._w, self._t, self._moved = a, w, t, moved
        newest = self._replies[-1]
        if reply.kind is ReplyKind.VECTORS:
            newest = reply.vectors[0]
        elif reply.kind is ReplyKind.ZERO:
            newest = 0.0
        self._replies.append(newest)

    def model(self) -> Vector | None:
        return self._w if self._t else None


class _OfProducts(_OfDuals):
    """DROM by sums: v_i a_i and u show a_i, up to a sign that is one for all rounds; then as from dual vectors."""

    def __init__(self, q: DromParameters, dim: int) -> None:
        super().__init__(q, dim)
        self._u = start(dim)

    def hear(self, t: int, contribution: Contribution, reply: Reply) -> Iterator[Guess]:
        (block,) = contribution.vectors
        product = to_floats(block, BITS_OF_SUMS).ravel()
        v = math.sqrt(max(0.0, float(product @ self._u)))
        a = product / v if v > 0.0 else self._a
        if a @ self._a < 0.0:
            a, v = -a, -v
        if reply.kind is ReplyKind.VECTORS:
            total: Any = numbers(reply.vectors[0])
            sigma, norm, self._u = pair_of_sum(total.ravel(), self._u, least=v * v)
            reply = Reply(ReplyKind.VECTORS, (v / norm * self._u if sigma > 1.0 else np.zeros(len(a)),))
        if np.allclose(a, self._a, rtol=1e-6, atol=1e-9):  # an outlier, or idle
            self._replies.append(reply.vectors[0] if reply.vectors else self._replies[-1])
            return
        yield from super().hear(t, contribution._replace(vectors=(a,)), reply)


class _OfSummands:
    """AdaDROM: what a site's sum of gradients has grown by; of one row it is a multiple. Its sketch shows its model.

    Of two rows it is a combination, and where all rows before are known, and are of length 1, the model shows another
    one: so they follow from both and from the sum of squares.
    """

    def __init__(self, q: AdaDROMParameters, dim: int) -> None:
        self._dim, self._t = dim, 0
        self._blocks: tuple[Whole, ...] = ()
        self._known: list[Vector] | None = [] if isinstance(ridge(dim, 2), ExactRidge) else None
        """All rows so far, as y x; None once there is one that is not known."""

    def hear(self, t: int, contribution: Contribution, reply: Reply) -> Iterator[Guess]:
        if not self._blocks:  # sums; of a robust tree with the largest and the smallest behind them
            rows = [_rows_of(block, self._dim) for block in contribution.vectors]
            self._blocks = tuple([np.zeros((each, self._dim), dtype=np.int64) for each in rows])
        before = self._blocks[0][:2].copy()
        for block, news in zip(self._blocks, contribution.vectors, strict=True):
            put(block, news)
        grown, squares = to_floats(self._blocks[0][:2] - before, np.array([[BITS_OF_G], [BITS_OF_Q]]))
        yield Guess(grown, self._t, t)
        if self._known is not None:
            told_anew = numbers(contribution.vectors[1]).size > 0
            both = self._two(grown, squares, self._count() if told_anew else int(t == self._t + 1))
            for vector in both:
                yield Guess(vector, self._t, t)
        self._t = t

    def _count(self) -> int:
        """How many rows are new, as a sketch tells that has just come."""
        model, known = self.model(), self._known
        assert model is not None and known is not None
        weight = float(np.linalg.norm(omega(self._dim) @ model))  # |Y| is this times the number of examples
        return round(float(np.linalg.norm(self._sketch())) / weight) - len(known) if weight else 0

    def _two(self, grown: Vector, squares: Vector, count: int) -> Sequence[Vector]:
        """The two rows since the last contribution, each times a factor; nothing where there is another number."""
        known = self._known
        assert known is not None
        found: Sequence[Vector] = [grown] if count == 1 else ()
        if count == 2 and known:
            rows, model = np.array(known), self.model()
            assert model is not None
            found = _split(grown, squares, RIDGE * model + (rows @ model) @ rows, rows.sum(axis=0))
        lengths = [float(np.linalg.norm(vector)) for vector in found]
        self._known = (
            [*known, *(-vector / length for vector, length in zip(found, lengths, strict=True))]
            if (found and min(lengths) > 0.0)
            else None
        )
        return found if count == 2 else ()

    def _sketch(self) -> Matrix:
        """Y^T, shape (k, d)."""
        sketch: Matrix = to_floats(self._blocks[1][:SKETCHED], BITS_OF_SKETCH)
        sketch[self._dim :] = 0.0  # where the weights may stand
        return sketch

    def model(self) -> Vector | None:
        if not self._blocks:
            return None
        model: Vector = np.linalg.svd(self._sketch(), full_matrices=False)[2][0]
        return model


def _split(total: Vector, squares: Vector, *others: Vector) -> Sequence[Vector]:
    """The vectors p and q with p + q = total and p^2 + q^2 = squares, where p is a combination of these and others.

    Nothing where there are none. By the method of Levenberg and Marquardt from a few starts.
    """
    basis: Matrix = np.linalg.qr(np.stack([total, *others]).T)[0].T
    draws = stream(0, "audit", len(total))
    scale = float(np.linalg.norm(squares))

    def missed(at: Vector) -> Vector:
        p = at @ basis
        return p * p + (total - p) ** 2 - squares

    for _ in range(20):
        at = draws.normal(size=len(basis)) * float(np.linalg.norm(total))
        off, damping = missed(at), 1e-3
        for _ in range(60):
            slopes = basis * (4.0 * (at @ basis) - 2.0 * total)
            normal = slopes @ slopes.T
            moved = at - np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-18), slopes @ off)
            then = missed(moved)
            if then @ then < off @ off:
                at, off, damping = moved, then, damping / 3.0
            else:
                damping *= 4.0
        if np.linalg.norm(off) < 1e-3 * scale:
            p = at @ basis
            return p, total - p
    return ()


def _rows_of(block: Block, dim: int) -> int:
    return len(block.values) * (block.length // dim) if isinstance(block, SparseVectors) else block.size // dim


class _OfTotals:
    """AdaDROM: the totals without one's own summand are those of a single site, where there is one other or only one
    has something new."""

    def __init__(self, q: AdaDROMParameters, dim: int) -> None:
        self._totals, self._own = ([np.zeros((rows, dim), dtype=np.int64) for rows in LAYOUT] for _ in range(2))
        self._others = _OfSummands(q, dim)

    def hear(self, t: int, own: Contribution, reply: Reply, others: int) -> Iterator[Guess]:
        for kept, news in ((self._own, own.vectors), (self._totals, reply.vectors)):
            for block, its in zip(kept, news, strict=False):  # nothing is new of one's own where one was idle
                put(block, its)
        rest: list[Any] = [total - mine for total, mine in zip(self._totals, self._own, strict=True)]
        if not numbers(reply.vectors[1]).size:
            rest[1] = nothing(*rest[1].shape)
        return self._others.hear(t, Contribution(ContributionKind.VECTORS, tuple(rest)), reply)


class _OfExamples:
    """OSMTL, Pooled and D-OFW: the example itself, or its gradient, which is a multiple of it."""

    def __init__(self, q: object, dim: int) -> None:
        pass

    def hear(self, t: int, contribution: Contribution, reply: Reply) -> Iterator[Guess]:
        yield Guess(contribution.vectors[0], t - 1, t)

    def model(self) -> Vector | None:
        return None


class _OfOthersExamples:
    """OSMTL: each site gets the examples of all others."""

    def __init__(self, q: OSMTLParameters, dim: int) -> None:
        pass

    def hear(self, t: int, own: Contribution, reply: Reply, others: int) -> Iterator[Guess]:
        for vector in reply.vectors:
            yield Guess(vector, t - 1, t)


class _OfCommonModel:
    """Pooled: the step of the common model, without that of one's own example."""

    def __init__(self, q: PooledParameters, dim: int) -> None:
        self._q, self._w, self._t = q, np.zeros(dim), 0

    def hear(self, t: int, own: Contribution, reply: Reply, others: int) -> Iterator[Guess]:
        (w,) = reply.vectors
        gradient = (self._w - w) * (others + len(own.vectors)) * math.sqrt(t) / self._q.eta0
        for yx in own.vectors:
            gradient = gradient - LOSSES[self._q.loss].slope(float(np.dot(self._w, yx))) * yx
        yield Guess(gradient, self._t, t)
        self._w, self._t = w, t


class _OfModels:
    """FedAvg and Prox-GD: a site's model less the one that it went on from."""

    def __init__(self, q: object, dim: int) -> None:
        self._from, self._w, self._t = np.zeros(dim), np.zeros(dim), 0

    def hear(self, t: int, contribution: Contribution, reply: Reply) -> Iterator[Guess]:
        self._w = contribution.vectors[0]
        yield Guess(self._w - self._from, self._t, t)
        self._from, self._t = reply.vectors[0] if reply.vectors else self._w, t

    def model(self) -> Vector | None:
        return self._w if self._t else None


class _OfAverages:
    """FedAvg: what the others have moved the average by."""

    def __init__(self, q: FedAvgParameters, dim: int) -> None:
        self._average, self._t = np.zeros(dim), 0

    def hear(self, t: int, own: Contribution, reply: Reply, others: int) -> Iterator[Guess]:
        (average,) = reply.vectors
        moved = (average - self._average) * (others + len(own.vectors))
        for w in own.vectors:
            moved = moved - (w - self._average)
        yield Guess(moved, self._t, t)
        self._average, self._t = average, t


class Reads(NamedTuple):
    """How many rows an attack reads, as far as it follows from who sends when."""

    rule: str = ""
    """One of those below; empty where it does not follow."""
    bound: str = ""
    """at least, up to, or empty for exactly so many."""


UNKNOWN = Reads()
ALL = Reads("every row that is told")
ALL_LEARNED = ALL._replace(bound="up to")
"""What is not learned from (an outlier, a margin with a loss of 0) is not told."""
BUT_THE_LAST = Reads("a row follows from what is told after it", "up to")
ALONE = Reads("rows that are alone between two contributions", "at least")
ALONE_OR_TWO = Reads("the same, and pairs that AdaDROM's sketch takes apart", "at least")


class Attacks(NamedTuple):
    """Those that are known on a learner; None where none is."""

    on_contributions: Callable[[Any, int], OnContributions] | None = None
    """(parameters, dim) -> one for each site that is listened to."""
    on_replies: Callable[[Any, int], OnReplies] | None = None
    """(parameters, dim) -> one for each site that listens."""
    reads: Reads = UNKNOWN
    """What the first reads, on a star or a full graph."""
    others_read: Reads = UNKNOWN
    """What the second does."""


_KNOWN: dict[type, Attacks] = {
    DromParameters: Attacks(_OfDuals, reads=BUT_THE_LAST),
    DromDParameters: Attacks(_OfDuals),
    AdaDROMParameters: Attacks(_OfSummands, _OfTotals, ALONE_OR_TWO, ALONE_OR_TWO),
    OSMTLParameters: Attacks(_OfExamples, _OfOthersExamples, ALL, ALL),
    PooledParameters: Attacks(_OfExamples, _OfCommonModel, ALL, ALONE),
    FedAvgParameters: Attacks(_OfModels, _OfAverages, ALONE, ALONE),
    FedAvgDParameters: Attacks(_OfModels, reads=ALONE),
    ProxGDParameters: Attacks(_OfModels, reads=ALL_LEARNED),
    DOFWParameters: Attacks(_OfExamples, reads=ALL_LEARNED),
}


def attacks_on(parameters: object) -> Attacks:
    """By the class of a learner's parameters, as one class has one way of sending."""
    found = _KNOWN.get(type(parameters), Attacks())
    if isinstance(parameters, DromParameters):
        if parameters.solver == "sums":
            return Attacks(_OfProducts)
        if not parameters.lam:
            return Attacks(_OfDuals)
        if isinstance(parameters, DromDParameters):
            at_once = parameters.tau == 1 and parameters.exchange != "delayed" and not parameters.postpone_below
            return found._replace(reads=ALL_LEARNED if at_once else UNKNOWN)
    if getattr(parameters, "loss", "logistic") != "logistic" and ALONE in (found.reads, found.others_read):
        # Where a loss is 0 nothing is told: a row is missing, or alone with one that is.
        reads, others_read = (
            each._replace(bound="about") if each == ALONE else each for each in (found.reads, found.others_read)
        )
        return found._replace(reads=reads, others_read=others_read)
    return found
