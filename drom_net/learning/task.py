"""A task and a centre as they go through the rounds: the lines that loop, simulation and processes share.

They call the algorithm's functions in the one order that the protocol allows, count, and chain the records.
Nothing here knows of messages or time.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from drom_net.algorithms.base import (
    IDLE,
    NO_REPLY,
    POSTPONED,
    Algorithm,
    CentralInfo,
    Contribution,
    ContributionKind,
    Example,
    Reply,
    ReplyKind,
)
from drom_net.algorithms.features import Block, Features, Vector, bounded, numbers
from drom_net.core.errors import DivergedError, LearnerError
from drom_net.core.seeding import stream as random_stream
from drom_net.data.live import LiveStream
from drom_net.data.stream import TaskStream
from drom_net.learning.metrics import Totals
from drom_net.learning.records import IDLE_ROUND, LEARNED, PREDICTED, CentralLog, TaskLog, close_task_chain

# As plain names: what is looked up in an enumeration costs as much as a call.
_NEW_VECTORS, _NO_REPLY, _KEEP = ContributionKind.VECTORS, ReplyKind.NONE, ReplyKind.KEEP
_NOTHING_SEEN = (0.0, 0.0, 0.0, 0.0, 0.0)
SCALING = "scaling"
"""In a model: what running standardisation has come to, as RunningScaling.state."""
CALIBRATION = "calibration"
"""In a model: a and b of its `Calibration`, for a learner whose scores are no log odds."""
LARGEST = 1e30
"""The most that a number of a contribution counts for: sums, products and squares of squares of such are finite."""
_KEPT = (
    *("_state", "_active", "_row_active", "_seen", "_row", "_kind"),
    *("_vectors", "_since", "_unsent_examples", "_round", "_taken"),
)
"""What changes in a `TaskLearner`, but for its log."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task ends with."""

    chain: bytes
    totals: Totals
    model: dict[str, Vector]


class Outgoing(NamedTuple):
    """What a task sends in a sync round; it differs by what the recipient has received before."""

    news: Contribution
    """Its last vectors, or why there are none."""
    since: int
    """They are news to who has last received its contribution of an earlier round than this."""
    otherwise: Contribution
    """For all others, without vectors."""
    recipients: tuple[int, ...] = ()
    """Whom the vectors are for, as many each, where they differ."""

    def to(self, recipient: int, last_sent_before: int) -> Contribution:
        """What to send to a task that has last received its contribution of this sync round (0: none yet)."""
        if last_sent_before >= self.since:
            return self.otherwise
        if not self.recipients:
            return self.news
        place, each = self.recipients.index(recipient), len(self.news.vectors) // len(self.recipients)
        return self.news._replace(vectors=self.news.vectors[place * each : (place + 1) * each])


class Replies(NamedTuple):
    """What a central step answered, in little room and few values, to be said again."""

    kinds: bytes
    """A byte a task: 1 more than its `ReplyKind`, or 0 where it had no part in the step."""
    common: tuple[Block, ...]
    """The vectors of all who have none of their own."""
    vectors: dict[int, tuple[Block, ...]]
    """Those of others, by task."""
    factors: Vector | None
    """v_i of each task, where the vectors are v_i u."""
    u: Vector | None

    def has(self, task: int) -> bool:
        """Whether a task had a part in the step."""
        return self.kinds[task] != 0

    def to(self, task: int) -> Reply | None:
        """The reply to a task; None where it had no part in the step."""
        if not self.kinds[task]:
            return None
        kind = ReplyKind(self.kinds[task] - 1)
        if kind is not ReplyKind.VECTORS:
            return Reply(kind)
        if self.factors is not None and self.u is not None:
            return Reply(kind, (float(self.factors[task]) * self.u,))
        return Reply(kind, self.vectors.get(task, self.common))


class TaskLearner:
    """One task going through its rounds: `begin(t)`, then `end(t, reply)`, for t = 1, 2, .. `last_round`."""

    def __init__(
        self,
        algorithm: Algorithm,
        stream: TaskStream | LiveStream,
        *,
        rounds: int | None = None,
        neighborhood: tuple[int, ...] = (),
    ) -> None:
        """
        Args:
            rounds: At most so many.
            neighborhood: Of a peer: its closed neighborhood, ascending.
        """
        self.algorithm = algorithm
        self._neighborhood = neighborhood
        self.is_live = isinstance(stream, LiveStream)
        """Whether a round can begin only once there is an example, or others have opened it."""
        self.last_round = 0
        """Of a live stream: as far as `is_ready` has seen."""
        self._rounds = rounds
        self._stream = stream
        self._look_for_end()
        self._state = algorithm.init_local(stream.dim)
        self._log = TaskLog(algorithm.log_odds)
        self._active = self._row_active = IDLE_ROUND
        self._seen = self._row = _NOTHING_SEEN
        """What was predicted in the last round that was begun, and in the last that learned."""
        self._kind = ContributionKind.IDLE
        self._vectors: Contribution | None = None
        """The last one that had any."""
        self._since = 0
        """Of which round it is; later where it was postponed."""
        self._unsent_examples = 0
        """So many were seen since a contribution had vectors."""
        self._round = 0
        self._taken = 0
        """So many examples were learned."""

    def is_ready(self, t: int) -> bool:
        """Whether round t can begin by itself: a live stream may have no example yet."""
        if not isinstance(self._stream, LiveStream):
            return True
        self._look_for_end()
        return self._stream.is_ready(t)

    def _look_for_end(self) -> None:
        last = self._stream.last_round()
        self.last_round = last if self._rounds is None else min(last, self._rounds)

    def begin(self, t: int) -> Contribution:
        """Predict and learn from the example of round t, with the reply of the last sync round.

        Raises:
            DivergedError: The learner's numbers are no longer finite.
        """
        self.predict_first(t)
        return self.then_update(t)

    def predict_first(self, t: int) -> None:
        """The half of `begin` that needs no reply: round t - 1 may still be open."""
        if self.is_live:
            self._look_for_end()
        self._round = t
        found = self._stream.example_at(t)
        if found is None:
            self._seen = _NOTHING_SEEN
            self._active = IDLE_ROUND
            return
        self._taken += 1
        x, label, clean = found
        if not label:  # unknown: predicted, and not learned
            self._seen = (self.algorithm.predict(self._state, x), 0.0, 0.0, 0.0, 0.0)
            self._active = PREDICTED
            return
        self._state, (score, loss, gamma) = self.algorithm.learn(self._state, Example(x, label), t)
        self._seen = (score, label, gamma, clean, loss)
        self._active = LEARNED

    def then_update(self, t: int) -> Contribution:
        """The other half, with the reply of the last sync round; round t - 1 is closed."""
        self._row, self._row_active = self._seen, self._active
        contribution = IDLE
        if self._active == LEARNED:
            self._state, contribution = self.algorithm.update(self._state, t)
            self._check_finite(self._seen[0] + self._seen[4], contribution.vectors, t)
            self._unsent_examples += 1
        if self.algorithm.send is not None and self.algorithm.is_sync(t):
            self._state, contribution = self.algorithm.send(self._state, t)
            self._check_finite(0.0, contribution.vectors, t)
        self._kind = kind = contribution.kind
        if kind is _NEW_VECTORS:
            self._vectors, self._since = contribution, t
        return contribution._replace(last=True) if t == self.last_round else contribution

    def outgoing(self, contribution: Contribution, t: int) -> Outgoing:
        """What a peer says in sync round t: this round's contribution, or what it has not said yet.

        A task that has learned too little since (`Exchange.postpone_below`) postpones it, but not its last one.
        """
        if self._vectors is None:
            return Outgoing(contribution, 0, contribution)
        last = contribution.last
        otherwise = IDLE if contribution.kind is ContributionKind.VECTORS else contribution
        if 0 < self._unsent_examples < self.algorithm.exchange.postpone_below and not last:
            self._since = t + 1  # to whoever receives the next contribution it will still be news
            self._kind = ContributionKind.POSTPONED
            return Outgoing(POSTPONED, 0, POSTPONED)
        self._unsent_examples = 0
        blocks, recipients = len(self.algorithm.exchange.contribution), self._neighborhood
        if not len(self._vectors.vectors) == blocks * len(recipients) > blocks:
            recipients = ()
        return Outgoing(self._vectors._replace(last=last), self._since, otherwise._replace(last=last), recipients)

    def end(self, t: int, reply: Reply = NO_REPLY) -> None:
        """Close round t with what came back."""
        score, label, gamma, clean, loss = self._row
        contribution, kind = self._kind, reply.kind
        if kind is not _NO_REPLY and kind is not _KEEP:
            self._state = self.algorithm.receive(self._state, reply, t)
        self._log.add((t, self._row_active, score, label, gamma, kind, clean, loss, contribution))

    def snapshot(self) -> dict[str, Any]:
        """All that it needs to go on from here, but for its records."""
        kept = {name: copy.deepcopy(getattr(self, name)) for name in _KEPT}
        scaling = self._stream.scaling if isinstance(self._stream, LiveStream) else None
        return kept | {
            "chain": self._log.chain,
            "totals": dataclasses.replace(self._log.totals),
            "calibration": self._log.calibration,
            "scaling": scaling,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot of a learner of the same stream."""
        for name in _KEPT:
            setattr(self, name, copy.deepcopy(snapshot[name]))
        self._log.go_on_from(snapshot["chain"], snapshot["totals"], snapshot["calibration"])
        if isinstance(self._stream, LiveStream):
            self._stream.seek(self._taken, self._round, snapshot.get("scaling"))
        self._look_for_end()

    @property
    def totals(self) -> Totals:
        """The counts over all closed rounds."""
        return self._log.totals

    @property
    def mixing(self) -> tuple[Vector, Vector] | None:
        """(mixture, evidence) of the model so far; None of a learner that mixes no experts."""
        found: tuple[Vector, Vector] | None = getattr(self._state, "mixing", None)
        return found

    def take_records(self) -> bytes:
        """The rows of the rounds closed since the last call, as records.TASK_DTYPE."""
        return self._log.take()

    def predict(self, x: Features) -> float:
        """The score of x by the model as it is now.

        Args:
            x: Of a live stream, as it came; else prepared.
        """
        if isinstance(self._stream, LiveStream):
            x = self._stream.look(x)
        return self.algorithm.predict(self._state, x)

    def probability(self, score: float) -> float:
        """Of +1, for a score of the model as it is now."""
        return self._log.probability(score)

    def result(self) -> TaskResult:
        """The task's model, counts and closed chain, as after the last `end`.

        Raises:
            DivergedError: The last step led out of the finite numbers.
        """
        model = self.algorithm.model(self._state)
        self._check_finite(0.0, model.values(), self._round)
        if self._stream.scaling is not None:
            model = model | {SCALING: np.array(self._stream.scaling)}
        if self.algorithm.log_odds is not None:
            model = model | {CALIBRATION: np.array(self._log.calibration[:2])}
        return TaskResult(close_task_chain(self._log.chain, model.values()), self._log.totals, model)

    @staticmethod
    def _check_finite(number: float, vectors: Iterable[Block], t: int) -> None:
        # A sum of squares is finite exactly when no entry is NaN, infinite or about to overflow; vdot does not warn.
        squares = number
        for vector in vectors:
            held = vector if type(vector) is np.ndarray else numbers(vector)
            squares += float(np.vdot(held, held))
        if math.isfinite(squares):
            return
        raise DivergedError(
            f"the learner diverged in round {t}: its numbers are no longer finite; "
            "smaller algorithm.eta0 or algorithm.lambda, or unit-norm rows (data.normalize), keep it stable"
        )


class Centre:
    """The central half of every sync round: the reducer's, or a peer's own over its neighborhood."""

    def __init__(
        self,
        algorithm: Algorithm,
        *,
        tasks: Sequence[int],
        dim: int,
        seed: int,
    ) -> None:
        """
        Args:
            tasks: Whose vectors it stacks, in task order.
        """
        self.last_sigma = 0.0
        self._last: tuple[dict[int, Reply], CentralInfo] | None = None
        """What the last central step answered, and saw."""
        self._row_of = {task: row for row, task in enumerate(tasks)}
        self._log = CentralLog()
        self._algorithm = algorithm
        self._state = algorithm.init_central(tuple(tasks), dim, random_stream(seed, "power"))

    def reduce(
        self,
        t: int,
        contributions: Mapping[int, Contribution],
        members: Sequence[int] | None = None,
        absent: Iterable[int] = (),
    ) -> dict[int, Reply]:
        """The central step of round t: a reply for each task that contributed.

        Args:
            contributions: What is new, by task in order.
            members: Whose vectors count; None is all.
            absent: Who was awaited and did not come, for the records.
        """
        contributions = {
            task: self._bounded(contribution) if contribution.vectors else contribution
            for task, contribution in contributions.items()
        }
        self._state, replies, info = self._algorithm.central_step(self._state, contributions, members)
        info = self._whole(info)
        self.last_sigma = info.sigma
        self._last = replies, info
        came = [contribution.kind for contribution in contributions.values()]
        went = [reply.kind for reply in replies.values()]
        self._log.add(t, info, came, went, [self._row_of[task] for task in absent])
        return replies

    def _whole(self, info: CentralInfo) -> CentralInfo:
        """With a number for each task, or the records could not be read again.

        Raises:
            LearnerError: Its v is of another shape or kind.
        """
        m = len(self._row_of)
        if info.v is None and info.u is not None:
            raise LearnerError(
                f"learner {self._algorithm.name}, CentralInfo of its central_step: expected v beside u: from both "
                "replies are made again; got u alone"
            )
        if info.v is None:
            return dataclasses.replace(info, v=np.zeros(m))
        if info.v.shape != (m,) or info.v.dtype != np.float64:
            raise LearnerError(
                f"learner {self._algorithm.name}, CentralInfo.v of its central_step: expected float64 of shape ({m},), "
                f"a number for each task, got {info.v.dtype} of shape {info.v.shape}; leave v out where there is none"
            )
        return info

    def last_replies(self) -> Replies:
        """What the last central step answered; of a centre over the tasks 0, 1, .. There must have been one."""
        assert self._last is not None
        replies, info = self._last
        kinds = bytearray(len(self._row_of))
        for task, reply in replies.items():
            kinds[task] = 1 + reply.kind
        if info.u is not None and info.v is not None:
            return Replies(bytes(kinds), (), {}, info.v.copy(), info.u)
        common = next((reply.vectors for reply in replies.values() if reply.vectors), ())
        own = {task: reply.vectors for task, reply in replies.items() if reply.vectors is not common}
        return Replies(bytes(kinds), common, own, None, None)

    def _bounded(self, contribution: Contribution) -> Contribution:
        """Nobody can lead the others out of the finite numbers, whatever it says."""
        for block in contribution.vectors:
            if bounded(block, LARGEST) is not block:
                return contribution._replace(vectors=tuple([bounded(one, LARGEST) for one in contribution.vectors]))
        return contribution

    def snapshot(self) -> dict[str, Any]:
        """All that it needs to go on from here, but for its records."""
        return {"state": copy.deepcopy(self._state), "chain": self._log.chain, "last_sigma": self.last_sigma}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot of a centre of the same tasks."""
        self._state = copy.deepcopy(snapshot["state"])
        self._log.go_on_from(snapshot["chain"])
        self.last_sigma = snapshot["last_sigma"]

    @property
    def chain(self) -> bytes:
        """The chain over all central steps."""
        return self._log.chain

    def take_records(self) -> bytes:
        """The rows of the central steps since the last call, as `records.central_dtype`."""
        return self._log.take()
