"""One row per task and round, one row per central step; the chain of hashes over them, and the digest.

The chain is h_t = SHA256(h_(t-1) | row) over the fields that define a run: those that a loop, a simulation
and real processes must agree on bit for bit. Times, bytes and hosts are not among them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.base import CentralInfo, ContributionKind, ReplyKind
from drom_net.algorithms.features import Vector
from drom_net.learning.calibration import Calibration
from drom_net.learning.metrics import Totals

CHAIN_START = bytes(32)
IDLE_ROUND, LEARNED, PREDICTED = range(3)
"""`active` in a task's row: no example; one that was learned; one without a label, which was only predicted."""
_BATCH = 256
"""Rounds that wait to be settled, at the most."""

_TASK_ROW = struct.Struct("<qqdddqddq")
_TASK_CHAINED = struct.calcsize("<qqdddq")
TASK_DTYPE = np.dtype(
    [
        ("round", "<i8"),
        ("active", "<i8"),
        ("score", "<f8"),
        ("label", "<f8"),
        ("gamma", "<f8"),
        ("reply", "<i8"),
        # The chain ends here; the rest is for people.
        ("clean_label", "<f8"),
        ("loss", "<f8"),
        ("contribution", "<i8"),
    ]
)
"""A task's row as bytes. `contribution` and `reply` are the numbers of ContributionKind and ReplyKind."""

_CENTRAL_HEAD = struct.Struct("<qddqqqqq")
_COUNTED = (
    ContributionKind.VECTORS,
    ContributionKind.SKIP,
    ContributionKind.IDLE,
    ContributionKind.POSTPONED,
)
_CENTRAL_CHAINED = struct.Struct("<qd")


def central_dtype(num_tasks: int) -> npt.DTypeLike:
    """The row of a central step as bytes; `v` has a number for each task, `absent` 1 for a task that was awaited and
    whose last vectors were used."""
    return np.dtype(
        [
            ("round", "<i8"),
            ("sigma_1", "<f8"),
            ("residual", "<f8"),
            ("pushed", "<i8"),
            ("skipped", "<i8"),
            ("idle", "<i8"),
            ("postponed", "<i8"),
            ("corrected", "<i8"),
            ("v", "<f8", (num_tasks,)),
            ("absent", "u1", (num_tasks,)),
        ]
    )


TaskRow = tuple[int, int, float, float, float, int, float, float, int]
"""(t, active, score, label, gamma, reply kind, clean label, loss, contribution kind): the fields of TASK_DTYPE."""


class TaskLog:
    """The rounds that a task has closed: their rows, the chain over them, the counts.

    Rounds are settled (packed, hashed, counted) in batches: done one by one between two messages, each of these
    steps would find cold caches, and cost several times as much.
    """

    def __init__(self, log_odds: Callable[[float], float] | None = None) -> None:
        """
        Args:
            log_odds: As `Algorithm.log_odds`.
        """
        self._log_odds = log_odds
        self._calibration = Calibration(log_odds)
        self._open: list[TaskRow] = []
        self._chain = CHAIN_START
        self._totals = Totals()
        self._rows = bytearray()

    def add(self, row: TaskRow) -> None:
        self._open.append(row)
        if len(self._open) >= _BATCH:
            self._settle()

    def go_on_from(self, chain: bytes, totals: Totals, calibration: Sequence[float]) -> None:
        """Continue a log whose rows are kept elsewhere."""
        self._chain, self._totals = chain, dataclasses.replace(totals)
        self._calibration = Calibration(self._log_odds, calibration)

    @property
    def chain(self) -> bytes:
        """h_t over all rounds so far."""
        self._settle()
        return self._chain

    @property
    def totals(self) -> Totals:
        """The counts over all rounds so far."""
        self._settle()
        return self._totals

    @property
    def calibration(self) -> tuple[float, ...]:
        """`Calibration.state` after all rounds so far."""
        self._settle()
        return self._calibration.state

    def probability(self, score: float) -> float:
        """Of +1, for a score of the model as it is after all rounds so far."""
        self._settle()
        return self._calibration.probability(score)

    def take(self) -> bytes:
        """The rows since the last call, as TASK_DTYPE."""
        self._settle()
        taken, self._rows = bytes(self._rows), bytearray()
        return taken

    def _settle(self) -> None:
        for fields in self._open:
            row = _TASK_ROW.pack(*fields)
            self._chain = extend_task_chain(self._chain, row)
            self._rows += row
            _, active, score, label, gamma, reply, clean, _, contribution = fields
            if active == PREDICTED:
                self._totals.unlabelled += 1
            elif active:
                self._totals.count(score, clean, label, gamma, self._calibration.given(clean, score, label))
            if reply != ReplyKind.NONE and contribution == ContributionKind.VECTORS:
                self._totals.pushes += 1
            if reply == ReplyKind.VECTORS:
                self._totals.corrections += 1
        self._open.clear()


class CentralLog:
    """The central steps that were made: their rows, and the chain over them; settled in batches as a TaskLog."""

    def __init__(self) -> None:
        self._open: list[tuple[int, CentralInfo, list[ContributionKind], list[ReplyKind], Sequence[int]]] = []
        self._chain = CHAIN_START
        self._rows = bytearray()

    def add(
        self,
        t: int,
        info: CentralInfo,
        came: list[ContributionKind],
        went: list[ReplyKind],
        absent: Sequence[int] = (),
    ) -> None:
        """Round t, what the centre saw in it, and the kinds of what came in and went out.

        Args:
            absent: The rows of tasks that were awaited and did not come.
        """
        self._open.append((t, info, came, went, absent))
        if len(self._open) >= _BATCH:
            self._settle()

    def go_on_from(self, chain: bytes) -> None:
        """Continue a log whose rows are kept elsewhere."""
        self._chain = chain

    @property
    def chain(self) -> bytes:
        """h_t over all rounds so far."""
        self._settle()
        return self._chain

    def take(self) -> bytes:
        """The rows since the last call, as `central_dtype`."""
        self._settle()
        taken, self._rows = bytes(self._rows), bytearray()
        return taken

    def _settle(self) -> None:
        for t, info, came, went, absent in self._open:
            assert info.v is not None  # learning.task.Centre has seen to it
            counts = [came.count(kind) for kind in _COUNTED]
            self._rows += _CENTRAL_HEAD.pack(t, info.sigma, info.residual, *counts, went.count(ReplyKind.VECTORS))
            self._rows += info.v.tobytes()
            missing = bytearray(len(info.v))
            for row in absent:
                missing[row] = 1
            self._rows += missing
            self._chain = extend_central_chain(self._chain, t, info.sigma, info.v)
        self._open.clear()


def absences_of(rows: npt.NDArray[np.void], tasks: Sequence[int]) -> dict[int, list[int]]:
    """By round: the tasks that were awaited in a central step and did not come.

    Args:
        rows: A centre's, as `central_dtype`.
        tasks: Whose vectors it stacks, in task order.
    """
    late = rows[rows["absent"].any(axis=1)]
    return {int(row["round"]): [tasks[int(place)] for place in np.flatnonzero(row["absent"])] for row in late}


def extend_task_chain(chain: bytes, row: bytes) -> bytes:
    """h_t of a task from h_(t-1) and its row."""
    return hashlib.sha256(chain + row[:_TASK_CHAINED]).digest()


def close_task_chain(chain: bytes, model: Iterable[Vector]) -> bytes:
    """The task's chain with the vectors it ended with (w, then a)."""
    return hashlib.sha256(chain + b"".join(vector.tobytes() for vector in model)).digest()


def extend_central_chain(chain: bytes, t: int, sigma: float, v: Vector) -> bytes:
    """h_t of the reducer."""
    return hashlib.sha256(chain + _CENTRAL_CHAINED.pack(t, sigma) + v.tobytes()).digest()


def peers_chain(chains: Sequence[bytes]) -> bytes:
    """What stands for the reducer's chain where each task has its own centre: SHA-256 over theirs in task order."""
    return hashlib.sha256(b"".join(chains)).digest()


def run_digest(task_chains: Sequence[bytes], central_chain: bytes) -> str:
    """The digest of a run: SHA-256 over the tasks' chains in order, then the reducer's, as hex."""
    return hashlib.sha256(b"".join(task_chains) + central_chain).hexdigest()


def task_chain_of(rows: npt.NDArray[np.void], model: Iterable[Vector]) -> bytes:
    """A task's closed chain, computed again from its records and its model."""
    chain = CHAIN_START
    for row in rows:
        chain = extend_task_chain(chain, row.tobytes())
    return close_task_chain(chain, model)


def central_chain_of(rows: npt.NDArray[np.void]) -> bytes:
    """The reducer's chain, computed again from its records."""
    chain = CHAIN_START
    for row in rows:
        chain = extend_central_chain(chain, int(row["round"]), float(row["sigma_1"]), np.ascontiguousarray(row["v"]))
    return chain
