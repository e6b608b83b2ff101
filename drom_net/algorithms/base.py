"""What an algorithm is: a few pure functions, and the values that pass between a task and the centre."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Features, Vector

LocalState = Any
"""One task's state; its type is the algorithm's own affair. That of a learner that mixes experts has `mixing`: the
vectors "mixture" and "evidence" of its `Algorithm.model`, for who wants no more of it."""
CentralState = Any


class Example(NamedTuple):
    """One labelled example as the learner sees it."""

    x: Features
    """Shape (d,), dense or sparse; never written to."""
    y: float
    """-1.0 or +1.0."""


class Prediction(NamedTuple):
    """What a task said of an example before it learned from it."""

    score: float
    """<w, x>; the predicted label is +1 when it is >= 0."""
    loss: float
    gamma: float
    """The weight of the example, 0 for an outlier (capped L_p weight)."""


def sigmoid(score: float) -> float:
    """The probability of +1 whose log odds are this score."""
    if score >= 0.0:
        return 1.0 / (1.0 + math.exp(-score))
    power = math.exp(score)
    return power / (1.0 + power)


@dataclass(frozen=True, slots=True)
class SyncRounds:
    """The rounds in which vectors travel: each tau-th, or at growing intervals up to tau; none for tau = 0."""

    tau: int
    growing: int = 0
    """With n they are the first 8 rounds, and then intervals grow from 3 rounds up to tau, as an n-th of the time; 0:
    each tau-th from the start. With tau above 2 none is of 2 rounds: of two examples the sums say too much."""

    def at(self, t: int) -> bool:
        """Whether round t is one."""
        if self.growing:
            return 0 < t == self.last(t)
        return self.tau > 0 and t % self.tau == 0

    def last(self, t: int) -> int:
        """The last one up to round t; 0 where there is none."""
        if self.growing:
            begin = _growing(self.tau, self.growing)
            if t < begin[-1]:
                return begin[bisect_right(begin, t) - 1]
            return t - (t - begin[-1]) % self.tau
        return t - t % self.tau if self.tau else 0

    def next(self, t: int) -> int:
        """The first one from round t on. Raises ValueError where there is none."""
        if not self.tau:
            raise ValueError("there are no sync rounds")
        if self.growing:
            begin = _growing(self.tau, self.growing)
            if t <= begin[-1]:
                return begin[bisect_left(begin, t)]
            return t + (begin[-1] - t) % self.tau
        return t + -t % self.tau

    def last_contribution(self, last_round: int, limit: int | None) -> int | None:
        """The one in which a task sends its last contribution: that of its last example, or the next one after it.

        None where the run, whose limit this is, ends before. Raises ValueError where there is none.
        """
        t = self.next(last_round)
        return t if limit is None or t <= limit else None

    def count(self, t: int) -> int:
        """How many there are up to round t."""
        if self.growing:
            begin = _growing(self.tau, self.growing)
            if t < begin[-1]:
                return bisect_right(begin, t) - 1
            return len(begin) - 1 + (t - begin[-1]) // self.tau
        return t // self.tau if self.tau else 0

    def up_to(self, t: int) -> npt.NDArray[np.int64]:
        """All up to round t, ascending; shape (`count(t)`,)."""
        if not self.tau:
            return np.zeros(0, dtype=np.int64)
        begin = _growing(self.tau, self.growing) if self.growing else [0]
        first = np.array(begin[1 : bisect_right(begin, t)], dtype=np.int64)
        return np.append(first, np.arange(begin[-1] + self.tau, t + 1, self.tau)) if begin[-1] < t else first


@cache
def _growing(tau: int, n: int) -> list[int]:
    """0 and the sync rounds until each interval is tau: t_(k+1) = t_k + min(tau, interval after t_k)."""
    rounds = [0]
    while (interval := _interval(rounds[-1], n)) < tau:
        rounds.append(rounds[-1] + interval)
    return rounds


def _interval(t: int, n: int) -> int:
    """Of the time t, up to the next one: 1 before t = 8, then max(3, floor(t / n))."""
    return 1 if t < 8 else max(3, t // n)


class ContributionKind(IntEnum):
    """What a task answers to a sync round."""

    NONE = 0
    """Of an algorithm that never sends anything."""
    VECTORS = 1
    SKIP = 2
    """An outlier: nothing was learned, nothing is sent; the last contribution stands."""
    IDLE = 3
    """No example in this round, nor one since the last vector."""
    POSTPONED = 4
    """There is something new, but too little yet: the last contribution stands."""
    NO_LONGER_KEPT = 5
    """An answer to who asks for what is no longer kept, or was never said as the round was closed without it."""


class ReplyKind(IntEnum):
    """What a task gets back; the numbers are part of the digest."""

    NONE = 0
    """No reply belongs to this round: it was no sync round, or the run was stopped in it."""
    KEEP = 1
    """Nothing new for this task; its correction stays."""
    ZERO = 2
    """No correction: sigma_1 <= 1."""
    VECTORS = 3


class Contribution(NamedTuple):
    """A task's part in one sync round. Its vectors are never written to."""

    kind: ContributionKind
    vectors: tuple[Any, ...] = ()
    """Of shape (d,), or other blocks of vectors (`features.Block`)."""
    last: bool = False
    """This is the task's last round; what it sent stays (or is dropped) from here on."""


class Reply(NamedTuple):
    """What one task gets from the central step. Its vectors are never written to."""

    kind: ReplyKind
    vectors: tuple[Any, ...] = ()
    """As a contribution's."""


IDLE = Contribution(ContributionKind.IDLE)
NOTHING = Contribution(ContributionKind.NONE)
SKIP = Contribution(ContributionKind.SKIP)
POSTPONED = Contribution(ContributionKind.POSTPONED)
NO_LONGER_KEPT = Contribution(ContributionKind.NO_LONGER_KEPT)
NO_REPLY = Reply(ReplyKind.NONE)
KEEP = Reply(ReplyKind.KEEP)
ZERO = Reply(ReplyKind.ZERO)


@dataclass(frozen=True, slots=True)
class CentralInfo:
    """What the centre saw in one round; part of the records. Without arguments that of a centre without such a pair."""

    sigma: float = 0.0
    """The largest singular value of A."""
    v: Vector | None = None
    """Its vector over the tasks, shape (m,), float64; None is zeros."""
    residual: float = 0.0
    """|A^T v - sigma u|, how far the pair is from being exact."""
    u: Vector | None = None
    """Where each reply with a vector is v_i u: this u, from which they can be made again."""


class CentralStep(Protocol):
    """The centre's half of a sync round."""

    def __call__(
        self,
        state: CentralState,
        contributions: Mapping[int, Contribution],
        members: Sequence[int] | None = None,
    ) -> tuple[CentralState, dict[int, Reply], CentralInfo]:
        """
        Args:
            contributions: What is new, by task.
            members: Whose vectors count in this round, ascending; None is all that the state was made for.
        """


class Exchange(NamedTuple):
    """What travels between a task and the centre, and when; without arguments nothing does."""

    sync: SyncRounds = SyncRounds(0)
    """The rounds in which vectors travel."""
    contribution: tuple[int, ...] = ()
    """How many vectors each block of a contribution has. On a graph one may also hold such blocks for each task of the
    closed neighborhood, in task order: then each gets its own."""
    reply: tuple[int, ...] | Callable[[int], tuple[int, ...]] = ()
    """The same of a reply; or made of the number of tasks."""
    postpone_below: int = 0
    """A task that has seen fewer examples since its last vectors answers a sync round with `POSTPONED`."""
    same_reply: bool = False
    """Whether all tasks get the same vectors, or v_i times one (`CentralInfo.u`), which a reducer finds out and keeps
    once. This is for who estimates its memory before a run."""

    def reply_layout(self, num_tasks: int) -> tuple[int, ...]:
        """How many vectors each block of a reply has, in a run of so many tasks."""
        return self.reply(num_tasks) if callable(self.reply) else self.reply


class GraphPosition(NamedTuple):
    """Where a peer stands on its graph."""

    task: int
    neighborhood: tuple[int, ...]
    """Closed: all tasks that it ever meets and itself, ascending."""
    weights: tuple[float, ...] | None = None
    """What each of their vectors counts (S_ij / S_ii), in task order; None is 1 for all."""
    tree: tuple[int, ...] | None = None
    """Its neighbors along the edges of a spanning tree; None where all are neighbors of all."""
    may_miss: bool = False
    """Whether one may go on without another's contribution."""


def no_update(state: LocalState, t: int) -> tuple[LocalState, Contribution]:
    """`Algorithm.update` of a learner that has done all in `learn`."""
    return state, NOTHING


def no_receive(state: LocalState, reply: Reply, t: int) -> LocalState:
    """`Algorithm.receive` of a learner to which nothing is sent."""
    return state


def no_central(tasks: tuple[int, ...], dim: int, rng: np.random.Generator) -> CentralState:
    """`Algorithm.init_central` of a centre that knows nothing."""
    return None


def no_central_step(
    state: CentralState, contributions: Mapping[int, Contribution], members: Sequence[int] | None = None
) -> tuple[CentralState, dict[int, Reply], CentralInfo]:
    """`Algorithm.central_step` of a centre that has nothing to say."""
    return state, dict.fromkeys(sorted(contributions), KEEP), CentralInfo()


class Algorithm(NamedTuple):
    """One multi-task learner as pure functions: state goes in and comes out.

    One that learns alone needs the first five.
    The state that goes in is given up: its arrays may be reused, and the caller never looks at it again.
    Examples, contributions and replies are never written to.
    """

    name: str
    init_local: Callable[[int], LocalState]
    """dim -> a task's state before its first example."""
    learn: Callable[[LocalState, Example, int], tuple[LocalState, Prediction]]
    """(state, example, t): predicts, and does what needs no reply."""
    predict: Callable[[LocalState, Features], float]
    """The score <w, x> of a state, at any time."""
    model: Callable[[LocalState], dict[str, Vector]]
    """The vectors that are the task's result, in the order of the digest: w first. Of a learner that mixes experts they
    include "mixture" and "evidence"."""
    exchange: Exchange = Exchange()
    """What travels, and when."""
    update: Callable[[LocalState, int], tuple[LocalState, Contribution]] = no_update
    """(state, t): does the rest of a round t with an example, and yields the contribution."""
    send: Callable[[LocalState, int], tuple[LocalState, Contribution]] | None = None
    """(state, t): the contribution of sync round t, also where the task was idle; None where it is that of `update`."""
    receive: Callable[[LocalState, Reply, int], LocalState] = no_receive
    """(state, reply, t): what a task does with the reply of round t, of kind ZERO or VECTORS, also where it was idle.

    Where an exchange overlaps the next round, as DROM-D's, it comes between `learn` and `update` of that one: then it
    must change nothing that `learn` looks at.
    """
    init_central: Callable[[tuple[int, ...], int, np.random.Generator], CentralState] = no_central
    """(tasks in order, dim, random numbers for a start) -> the centre's state."""
    central_step: CentralStep = no_central_step
    """The centre's half of a sync round, one reply for each contribution."""
    log_odds: Callable[[float], float] | None = None
    """The log odds of +1 that a score stands for, from which probabilities are made (`learning.calibration`); of -score
    they have the other sign. None where a score is log odds itself, and is taken as it is."""
    specialize: Callable[[GraphPosition], Algorithm] | None = None
    """The learner as the peer of this position runs it. None where peers differ in nothing; vectors are then multiplied
    by their weights before the central step."""

    @property
    def sync(self) -> SyncRounds:
        """The rounds in which vectors travel."""
        return self.exchange.sync

    def is_sync(self, t: int) -> bool:
        """Whether round t is a sync round."""
        return self.exchange.sync.at(t)
