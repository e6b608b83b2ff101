"""What a reader of public data returns, and the steps that several of them share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Matrix, Vector
from drom_net.core.errors import DataError, Problem
from drom_net.data.dataset import TaskData
from drom_net.data.faults import extra
from drom_net.data.preprocessing import Preprocessing, unit_rows
from drom_net.data.stream import SparseRows

Files = dict[str, Path]
"""A set's files by the first name of each."""


class Content(NamedTuple):
    """All tasks of a data set, with what `Dataset` says of their columns."""

    tasks: tuple[TaskData, ...]
    features: tuple[str, ...] | None
    preprocessing: Preprocessing


def wrong(place: object, expected: str, got: object) -> DataError:
    """The error that a file is not laid out as its publisher's."""
    return DataError([Problem(str(place), expected, str(got))])


def signs(positive: npt.NDArray[np.bool_]) -> Vector:
    """+1.0 where it is true, else -1.0."""
    return np.where(positive, 1.0, -1.0)


def prepared(
    names: Sequence[str],
    rows: Sequence[Matrix],
    labels: Sequence[Vector],
    features: tuple[str, ...] | None,
    preprocessing: Preprocessing,
) -> Content:
    """Dense rows as the learner sees them."""
    if features is not None and preprocessing.bias:
        features = (*features, "bias")
    tasks = zip(names, rows, labels, strict=True)
    return Content(
        tuple(TaskData(name, _as_ever(raw, preprocessing), label) for name, raw, label in tasks),
        features,
        preprocessing,
    )


def _as_ever(raw: Matrix, made: Preprocessing) -> Matrix:
    """`made.apply` with the sums of a row in the order of the array in memory: digests of these sets count on it."""
    rows = made.center_and_scale(raw)
    rows = unit_rows(rows) if made.normalize else rows
    if made.bias:
        rows = np.concatenate([rows, np.full((len(rows), 1), made.bias)], axis=1)
    return np.ascontiguousarray(rows)


def standardised(rows: Sequence[Matrix]) -> Preprocessing:
    """Columns of mean 0 and deviation 1 over the rows of all tasks, then unit norm, then a bias of 0.3."""
    every = np.concatenate(rows)
    deviation = every.std(axis=0)
    return Preprocessing(
        raw_dim=every.shape[1],
        numbers=every.shape[1],
        center=tuple(every.mean(axis=0).tolist()),
        scale=tuple(np.where(deviation > 0.0, deviation, 1.0).tolist()),
        normalize=True,
        bias=0.3,
        bias_in_norm=False,
    )


def tf_idf(
    names: Sequence[str],
    counts: Sequence[SparseRows],
    labels: Sequence[Vector],
    columns: npt.NDArray[np.int64],
    features: tuple[str, ...] | None,
) -> Content:
    """(1 + ln tf) idf with idf = ln((1 + n) / (1 + df)) + 1 over the rows of all tasks, then unit norm.

    Args:
        counts: Counts of words of at least 1, a row a document.
        columns: The columns that are kept, increasing.
        features: Their names.
    """
    kept = [_select(rows, columns) for rows in counts]
    num_rows = sum(len(rows.indptr) - 1 for rows in kept)
    idf = np.log((1 + num_rows) / (1 + document_frequency(kept))) + 1.0
    unit = Preprocessing(raw_dim=len(columns), normalize=True)
    tasks = []
    for name, rows, label in zip(names, kept, labels, strict=True):
        weighted = SparseRows(rows.indptr, rows.indices, (1.0 + np.log(rows.values)) * idf[rows.indices], rows.dim)
        tasks.append(TaskData(name, unit.apply(weighted, name), label))
    # Who predicts new mail must weigh its words alike; the rows that `predict` takes are weighted ones.
    return Content(tuple(tasks), features, Preprocessing(raw_dim=len(columns)))


def document_frequency(counts: Sequence[SparseRows]) -> npt.NDArray[np.int64]:
    """In how many rows each column occurs."""
    frequency = np.zeros(counts[0].dim, dtype=np.int64)
    for rows in counts:
        frequency += np.bincount(rows.indices, minlength=rows.dim)
    return frequency


def most_frequent(counts: Sequence[SparseRows], num_words: int) -> npt.NDArray[np.int64]:
    """The columns of highest document frequency (ties: the lower number first), increasing."""
    order = np.argsort(-document_frequency(counts), kind="stable")
    return np.sort(order[:num_words])


def _select(rows: SparseRows, columns: npt.NDArray[np.int64]) -> SparseRows:
    position = np.full(rows.dim, -1, dtype=np.int32)
    position[columns] = np.arange(len(columns), dtype=np.int32)
    kept = position[rows.indices] >= 0
    indptr = np.concatenate([[0], np.cumsum(kept)])[rows.indptr].astype(np.int64)
    return SparseRows(indptr, position[rows.indices[kept]], rows.values[kept], len(columns))


def read_matlab(path: Path, *keys: str) -> list[Any]:
    """The variables of a MATLAB 5 file.

    Raises:
        DataError: The file is damaged, or has no such variable.
        UsageError: SciPy is missing.
    """
    with extra("data", "MATLAB files"):
        import scipy.io
    try:
        variables = scipy.io.loadmat(path)
    except Exception as error:  # SciPy raises nearly anything on damaged bytes, and documents none of it
        raise wrong(path, "a whole MATLAB 5 file", "a damaged one, or another file") from error
    for key in keys:
        if key not in variables:
            raise wrong(path, f"the variable {key}", ", ".join(name for name in variables if name[0] != "_") or "none")
    return [variables[key] for key in keys]


def sparse_counts(matrix: Any, place: str, dim: int) -> SparseRows:
    """A SciPy matrix of counts, of shape (n, dim), as rows; zeros are left out.

    Raises:
        DataError: It is no such matrix.
    """
    from scipy import sparse

    try:
        rows = sparse.csr_matrix(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise wrong(place, "a matrix of counts", type(matrix).__name__) from error
    if rows.shape[1] != dim:
        raise wrong(place, f"{dim} columns", rows.shape[1])
    rows.sum_duplicates()
    rows.eliminate_zeros()
    if rows.nnz and not rows.data.min() >= 1.0:
        raise wrong(place, "counts of at least 1", rows.data.min())
    return SparseRows(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data, dim)


def binary_labels(values: Any, place: str, num_rows: int, positive: int, negative: int) -> Vector:
    """A column of two numbers as -1.0 and +1.0.

    Raises:
        DataError: There are other numbers, or not one a row.
    """
    flat = np.asarray(values).ravel()
    if len(flat) != num_rows:
        raise wrong(place, f"{num_rows} labels", len(flat))
    if not np.isin(flat, (positive, negative)).all():
        raise wrong(place, f"the labels {negative} and {positive}", ", ".join(map(str, np.unique(flat)[:5].tolist())))
    return signs(flat == positive)
