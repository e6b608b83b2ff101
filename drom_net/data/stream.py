"""The examples of one task, by round: what a node learns from, in memory or mapped from disk.

Whoever prepares a stream has put its rows into the order of learning and flipped the labels that are to
be noise; a stream draws nothing. A node maps the arrays of its own task and imports nothing to do so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Features, Matrix, SparseVector, Vector
from drom_net.core.errors import naming

FEW_ROWS = 20
"""With fewer, of fifty sites, no evidence could tell that sharing helps one, were it right in each row and the site
alone wrong in each (`results.evidence`)."""


@dataclass(frozen=True, slots=True)
class SparseRows:
    """Rows in CSR form: row r has the entries indptr[r] .. indptr[r + 1]; indices strictly increase in a row."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: Vector
    dim: int

    def row(self, index: int) -> SparseVector:
        start, stop = self.indptr[index], self.indptr[index + 1]
        return SparseVector(self.indices[start:stop], self.values[start:stop])

    def take(self, order: npt.NDArray[np.int64]) -> SparseRows:
        """The rows with these numbers, in this order, as copies."""
        lengths = np.diff(self.indptr)[order]
        indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])
        entries = np.arange(indptr[-1]) + np.repeat(self.indptr[:-1][order] - indptr[:-1], lengths)
        return SparseRows(indptr, self.indices[entries], self.values[entries], self.dim)


def take(rows: Matrix | SparseRows, order: npt.NDArray[np.int64]) -> Matrix | SparseRows:
    """The rows with these numbers, in this order, as contiguous copies."""
    return rows.take(order) if isinstance(rows, SparseRows) else np.ascontiguousarray(rows[order])


def each(rows: Matrix | SparseRows) -> Iterator[Features]:
    """One row after the other."""
    return map(rows.row, range(len(rows.indptr) - 1)) if isinstance(rows, SparseRows) else iter(rows)


def stacked(rows: Sequence[Features], dim: int) -> Matrix | SparseRows:
    """Rows of one kind, dense or sparse, as copies."""
    sparse = [row for row in rows if isinstance(row, SparseVector)]
    if not sparse:
        return np.array(rows, dtype=np.float64).reshape(len(rows), dim)
    indptr = np.cumsum([0, *(len(row.indices) for row in sparse)])
    return SparseRows(
        indptr, np.concatenate([row.indices for row in sparse]), np.concatenate([row.values for row in sparse]), dim
    )


@dataclass(frozen=True, slots=True)
class TaskStream:
    """One task's examples in the order of learning.

    Attributes:
        rows: Dense, shape (n, d), float64, C order, or sparse.
        labels: What the learner sees, -1.0 or +1.0, shape (n,); 0.0 where it is unknown: predicted, and not learned.
        clean: The same before label noise.
        spread_over: None for lockstep (round t has example t); else the number of rounds over which the
            examples are spread evenly: round t is active when floor(t n / rounds) steps up, n being the number
            of examples in all passes.
        passes: How many times the rows come, in the same order and with the same labels; they are kept once.
        scaling: What running standardisation has come to with the rows that are learned (`RunningScaling.state`); None
            where there is none.
    """

    rows: Matrix | SparseRows
    labels: Vector
    clean: Vector
    spread_over: int | None = None
    passes: int = 1
    scaling: Vector | None = None

    @property
    def num_examples(self) -> int:
        """Of all passes."""
        return self.passes * len(self.labels)

    @property
    def dim(self) -> int:
        return self.rows.dim if isinstance(self.rows, SparseRows) else self.rows.shape[1]

    def taken_by(self, t: int) -> int:
        """How many examples the rounds up to t bring."""
        if self.spread_over is None:
            return min(t, self.num_examples)
        return min(t, self.spread_over) * self.num_examples // self.spread_over

    def index_at(self, t: int) -> int | None:
        """Which row round t (from 1) brings; None when the task is idle or its stream has ended."""
        if self.spread_over is None:
            length = len(self.labels)
            return (t - 1) % length if t <= self.passes * length else None
        before = (t - 1) * self.num_examples // self.spread_over
        after = t * self.num_examples // self.spread_over
        return before % len(self.labels) if after > before and t <= self.spread_over else None

    def last_round(self) -> int:
        """The round of the last example; 0 for an empty stream."""
        return self.num_examples if self.spread_over is None or not self.num_examples else self.spread_over

    def example_at(self, t: int) -> tuple[Features, float, float] | None:
        """(features, label, label before noise) of the example of round t; None where it has none.

        A label is -1.0 or +1.0, or 0.0 for unknown.
        """
        index = t - 1 if self.spread_over is None and t <= len(self.labels) else self.index_at(t)
        if index is None:
            return None
        rows = self.rows
        x = rows.row(index) if type(rows) is SparseRows else rows[index]  # type: ignore[index]
        return x, float(self.labels[index]), float(self.clean[index])

    def features(self, index: int) -> Features:
        return self.rows.row(index) if isinstance(self.rows, SparseRows) else self.rows[index]

    def label(self, index: int) -> float:
        """What the learner sees, -1.0 or +1.0; 0.0 for unknown."""
        return float(self.labels[index])

    def digest(self) -> str:
        """Of all that is learned: two streams with the same one are the same."""
        found = hashlib.blake2b(f"{self.passes} {self.dim}".encode(), digest_size=16)
        rows = self.rows
        parts = [rows.indptr, rows.indices, rows.values] if isinstance(rows, SparseRows) else [rows]
        for array in (*parts, self.labels, self.clean):
            found.update(f" {array.dtype.str} {array.size} ".encode())
            found.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
        return found.hexdigest()

    def save(self, directory: Path) -> None:
        """Write the arrays as plain .npy files, so that a node can map them, and the number of passes."""
        directory.mkdir(parents=True)
        (directory / "passes").write_text(str(self.passes))
        arrays: dict[str, npt.NDArray[np.generic]]
        if isinstance(self.rows, SparseRows):
            arrays = {"indptr": self.rows.indptr, "indices": self.rows.indices, "values": self.rows.values}
            (directory / "dim").write_text(str(self.rows.dim))
        else:
            arrays = {"rows": self.rows}
        if self.scaling is not None:
            arrays["scaling"] = self.scaling
        for name, array in {**arrays, "labels": self.labels, "clean": self.clean}.items():
            path = directory / f"{name}.npy"
            with naming(path):
                np.save(path, array, allow_pickle=False)

    @classmethod
    def load(cls, directory: Path, *, spread_over: int | None = None) -> TaskStream:
        """Map what `save` wrote."""

        def array(name: str) -> npt.NDArray[np.generic]:
            return np.asarray(np.load(directory / f"{name}.npy", mmap_mode="r", allow_pickle=False))

        rows: Matrix | SparseRows
        if (directory / "dim").exists():
            dim = int((directory / "dim").read_text())
            rows = SparseRows(array("indptr"), array("indices"), array("values"), dim)  # type: ignore[arg-type]
        else:
            rows = array("rows")  # type: ignore[assignment]
        passes = int((directory / "passes").read_text())
        scaling = array("scaling") if (directory / "scaling.npy").exists() else None
        return cls(rows, array("labels"), array("clean"), spread_over, passes, scaling)  # type: ignore[arg-type]
