"""One row per task and round, one row per central step; the chain of hashes over them, and the digest.

The chain is h_t = SHA256(h_(t-1) | row) over the fields that define a run: those that a loop, a simulation
and real processes must agree on bit for bit. Times, bytes and hosts are not among them.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Vector

CHAIN_START = bytes(32)

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

_CENTRAL_HEAD = struct.Struct("<qddqqqq")
_CENTRAL_CHAINED = struct.Struct("<qd")


def central_dtype(num_tasks: int) -> npt.DTypeLike:
    """The row of a central step as bytes; `v` has a number for each task."""
    return np.dtype(
        [
            ("round", "<i8"),
            ("sigma_1", "<f8"),
            ("residual", "<f8"),
            ("pushed", "<i8"),
            ("skipped", "<i8"),
            ("idle", "<i8"),
            ("corrected", "<i8"),
            ("v", "<f8", (num_tasks,)),
        ]
    )


def task_row(
    t: int,
    active: bool,
    score: float,
    label: float,
    gamma: float,
    reply: int,
    clean: float,
    loss: float,
    contribution: int,
) -> bytes:
    """One round of one task, as TASK_DTYPE."""
    return _TASK_ROW.pack(t, active, score, label, gamma, reply, clean, loss, contribution)


def central_row(
    t: int, sigma: float, residual: float, pushed: int, skipped: int, idle: int, corrected: int, v: Vector
) -> bytes:
    """One central step, as `central_dtype`."""
    return _CENTRAL_HEAD.pack(t, sigma, residual, pushed, skipped, idle, corrected) + v.tobytes()


def extend_task_chain(chain: bytes, row: bytes) -> bytes:
    """h_t of a task from h_(t-1) and its row."""
    return hashlib.sha256(chain + row[:_TASK_CHAINED]).digest()


def close_task_chain(chain: bytes, model: Iterable[Vector]) -> bytes:
    """The task's chain with the vectors it ended with (w, then a)."""
    return hashlib.sha256(chain + b"".join(vector.tobytes() for vector in model)).digest()


def extend_central_chain(chain: bytes, t: int, sigma: float, v: Vector) -> bytes:
    """h_t of the reducer."""
    return hashlib.sha256(chain + _CENTRAL_CHAINED.pack(t, sigma) + v.tobytes()).digest()


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
