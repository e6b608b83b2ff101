"""What each task did when: its own work, waits for contributions on their way, waits for its neighbors. Pure.

A task's time is made of stretches. Each ends with the close of a sync round (the last one with the end of learning)::

    begun_s ......... sent_s ......... idle_s ......... under_way_s ......... closed_s
    |            local                |      idle      |    communication    |

`local` is its own work: its examples, and the wait for them to come; with exchange `overlap` the next one too. Then it
waits: idle as long as a neighbor has not sent the contribution that is waited for, and from then on for messages that
are under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from drom_net.graph.neighborhood import Neighborhood

Rows = npt.NDArray[np.void]
"""As protocol.node.TIMES_DTYPE: round, sent_s, idle_s, closed_s."""

WordsUsed = Callable[[int, int], Sequence[tuple[int, int]]]
"""(task, its sync round) -> whose contributions it waited for: (other task, that one's sync round)."""

KINDS = ("local", "communication", "idle")

STRETCH_DTYPE = np.dtype(
    [(name, "<i8" if name == "round" else "<f8") for name in ("round", "begun_s", "sent_s", "idle_s")]
    + [("under_way_s", "<f8"), ("closed_s", "<f8")]
)


class Spent(NamedTuple):
    """How a task has spent its time."""

    local_s: float
    communication_s: float
    idle_s: float


@dataclass(frozen=True, slots=True)
class Lane:
    """One task's time."""

    name: str
    stretches: Rows
    """As STRETCH_DTYPE, in order of time; seconds by the clock of the rows."""

    def segments(self, kind: str) -> npt.NDArray[np.float64]:
        """(from_s, to_s) of each segment of a kind of KINDS that took any time; shape (n, 2)."""
        begin, end = {
            "local": ("begun_s", "idle_s"),
            "idle": ("idle_s", "under_way_s"),
            "communication": ("under_way_s", "closed_s"),
        }[kind]
        pairs = np.stack([self.stretches[begin], self.stretches[end]], axis=1)
        return np.asarray(pairs[pairs[:, 1] > pairs[:, 0]])

    @property
    def spent(self) -> Spent:
        return Spent(*(float((self.segments(kind) @ [-1.0, 1.0]).sum()) for kind in KINDS))


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A fault of a simulation."""

    what: str
    """crash, pause or partition."""
    where: str
    """The node's name, or network."""
    from_s: float
    to_s: float


def begun_anew(rows: Rows) -> npt.NDArray[np.bool_]:
    """Which rows tell that a task went on after a crash, shape (n,): from the row before until then it was not there.

    They repeat the round of the row before; the last row does so too, and is the end of learning.
    """
    anew = np.zeros(len(rows), dtype=bool)
    anew[1:-1] = (rows["round"][1:-1] == rows["round"][:-2]) & (rows["sent_s"][1:-1] == rows["closed_s"][1:-1])
    return anew


def make_lanes(
    names: Sequence[str], rows: Sequence[Rows], words_used: WordsUsed, lost: Sequence[tuple[str, Rows]] = ()
) -> list[Lane]:
    """Each task's lane.

    A contribution that another host's clock puts behind the close of the round that used it counts as sent then.

    Args:
        rows: Each task's, by one clock.
        words_used: As `star_words` or `peer_words` gives it.
        lost: (task, rows as for `lost_lane`) of each crash: its contributions were sent then, not when it did it again.
    """
    before: dict[str, list[Rows]] = {name: [] for name in names}
    for name, taken_back in reversed(lost):
        before[name].append(taken_back[1:])
    sent = [_Sent(own, before[name]) for name, own in zip(names, rows, strict=True)]
    lanes = []
    for task, (name, own) in enumerate(zip(names, rows, strict=True)):
        ends, stretches = own[1:], _stretches(own)
        stretches["begun_s"] = np.where(begun_anew(own)[1:], ends["closed_s"], stretches["begun_s"])
        stretches["under_way_s"] = ends["idle_s"]
        for index in np.flatnonzero(ends["closed_s"] > ends["idle_s"]).tolist():
            t, _, idle_s, closed_s = ends[index].item()
            latest = max((sent[other].at(s) for other, s in words_used(task, t)), default=idle_s)
            stretches["under_way_s"][index] = min(max(idle_s, latest), closed_s)
        lanes.append(Lane(name, stretches))
    return lanes


def lost_lane(name: str, rows: Rows) -> Lane:
    """What a task did between its last snapshot and a crash, and did again later; all its waiting counts as idle.

    Args:
        rows: Its rows from the one before that snapshot to the crash.
    """
    stretches = _stretches(rows)
    stretches["under_way_s"] = stretches["closed_s"]
    return Lane(name, stretches)


def _stretches(rows: Rows) -> Rows:
    """From each row to the next, as STRETCH_DTYPE; `under_way_s` is still to be found."""
    ends = rows[1:]
    stretches = np.zeros(len(ends), dtype=STRETCH_DTYPE)
    for field in ("round", "sent_s", "idle_s", "closed_s"):
        stretches[field] = ends[field]
    stretches["begun_s"] = rows["closed_s"][:-1]
    return stretches


def star_words(rows: Sequence[Rows]) -> WordsUsed:
    """In a star every task waits for the contributions of all that learn in that round: the reducer waits for them."""
    last_rounds = _last_rounds(rows)

    @cache
    def contributions(t: int) -> list[tuple[int, int]]:
        return [(other, t) for other, last in enumerate(last_rounds) if last >= t]

    return lambda task, t: contributions(t)


def peer_words(
    neighborhoods: Sequence[Neighborhood], rows: Sequence[Rows], *, rounds: int | None, delayed: bool
) -> WordsUsed:
    """Peers wait for the contributions of their neighbors that count in this round, where `delayed` in the one before.

    A neighbor that has ended says one last contribution, in the sync round of its last example or in the next one.
    Of a run that was interrupted the contribution of a round that its sender did not close is taken for sent.

    Args:
        rounds: The run's limit, if it has one.
    """
    last_words = [
        hood.syncs[hood.task].last_contribution(last, rounds)
        for hood, last in zip(neighborhoods, _last_rounds(rows), strict=True)
    ]

    def contributions(task: int, t: int) -> list[tuple[int, int]]:
        hood = neighborhoods[task]
        wanted = hood.syncs[task].last(t - 1) if delayed else t
        if not wanted:
            return []
        counting = ((other, hood.round_used(other, wanted, last_words[other])) for other in hood.members(wanted))
        return [(other, s) for other, s in counting if s and other != task]

    return contributions


class _Sent:
    """When a task sent its contribution of which sync round."""

    def __init__(self, rows: Rows, before: Sequence[Rows] = ()) -> None:
        """
        Args:
            before: Rows that crashes took back, the last crash first.
        """
        pairs: list[Any] = rows[["round", "sent_s"]].tolist()
        self._at = dict(reversed(pairs))  # of a round with two rows the first: the other is the end of learning
        for taken_back in before:
            self._at.update(taken_back[["round", "sent_s"]].tolist())
        self._last_s = pairs[-1][1] if pairs else -np.inf

    def at(self, t: int) -> float:
        """A last contribution behind the last round is sent when learning ends."""
        return float(self._at.get(t, self._last_s))


def _last_rounds(rows: Sequence[Rows]) -> list[int]:
    return [int(own["round"][-1]) if len(own) else 0 for own in rows]
