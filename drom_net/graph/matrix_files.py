"""Graphs from the user's files: matrices of weights, as CSV or NPY."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import IO, Any

import numpy as np

from drom_net.algorithms.features import Matrix
from drom_net.core.errors import DataError, Problem
from drom_net.graph.graph import ROW_SUM_TOLERANCE, Graph
from drom_net.graph.settings import TopologySettings


def from_file(settings: TopologySettings, num_tasks: int, base: Path) -> tuple[Graph, ...]:
    assert settings.file is not None
    path = base / settings.file
    weights = settings.graph == "weights"
    matrices = read_matrices(path)
    if len(matrices) > 1 and (weights or settings.rule != "mask"):
        expected = "one matrix, as weights that change by sync round are not supported"
        raise DataError([Problem(str(path), expected, f"{len(matrices)} matrices")])
    graphs = []
    for number, matrix in enumerate(matrices):
        shown = str(path) if len(matrices) == 1 else f"{path}[{number}]"
        if problems := _fault_of_matrix(shown, matrix, num_tasks, weights=weights):
            raise DataError(problems)
        joined = matrix > 0.0
        np.fill_diagonal(joined, False)
        neighbors = tuple(tuple(np.flatnonzero(row).tolist()) for row in joined)
        matrix.flags.writeable = False
        graphs.append(Graph(neighbors, weights=matrix if weights else None, name=f"{settings.graph} of {path.name}"))
    return tuple(graphs)


def read_matrices(path: Path) -> list[Matrix]:
    """Matrices of numbers: one from CSV without header, one or several from .npy of two or three axes.

    Returns:
        Each float64, C order, shape (rows, columns); at least one.

    Raises:
        DataError: The file is missing, or no such matrix.
    """
    try:
        if path.suffix == ".npy":
            with path.open("rb") as file:
                return _read_npy(path, file)
        with path.open(newline="", encoding="utf-8-sig") as lines:
            return [_read_csv(path, csv.reader(lines))]
    except OSError as error:
        raise DataError([Problem(str(path), "a matrix file", error.strerror or str(error))]) from None
    except (csv.Error, UnicodeDecodeError):
        raise DataError([Problem(str(path), "CSV of numbers without header, or .npy", "something else")]) from None


def _read_npy(path: Path, file: IO[bytes]) -> list[Matrix]:
    try:
        array = np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, EOFError):
        raise DataError([Problem(str(path), "an array of numbers in .npy format", "something else")]) from None
    if array.ndim not in (2, 3) or not len(array) or array.dtype.kind not in "biuf":
        expected = "a matrix of numbers, or several of shape (k, m, m)"
        raise DataError([Problem(str(path), expected, f"{array.dtype} of shape {array.shape}")])
    return [np.array(matrix, dtype=np.float64, order="C") for matrix in (array if array.ndim == 3 else [array])]


def _read_csv(path: Path, lines: Any) -> Matrix:
    rows: list[list[float]] = []
    for cells in lines:
        if not cells:
            continue
        place = f"{path}:{lines.line_num}"
        if rows and len(cells) != len(rows[0]):
            raise DataError([Problem(place, f"{len(rows[0])} numbers, as in the first line", str(len(cells)))])
        row = []
        for column, cell in enumerate(cells):
            try:
                row.append(float(cell))
            except ValueError:
                hint = "the file has no header" if not rows else ""
                where = f"{place}, column {column + 1}"
                raise DataError([Problem(where, "a number", f'"{cell[:40]}"', hint)]) from None
        rows.append(row)
    return np.array(rows, dtype=np.float64).reshape(len(rows), -1 if rows else 0)


def _fault_of_matrix(shown: str, matrix: Matrix, num_tasks: int, *, weights: bool) -> list[Problem]:
    """The first thing that is wrong with an adjacency or weight matrix."""
    rows, columns = matrix.shape
    if matrix.shape != (num_tasks, num_tasks):
        kind = "a matrix that is square" if rows != columns else "a row for each task"
        return [Problem(shown, f"{num_tasks} x {num_tasks} numbers, {kind}", f"{rows} x {columns}")]
    for wrong, expected in (
        (~np.isfinite(matrix), "finite numbers"),
        (matrix < 0.0, "no negative number"),
        ((matrix != 0.0) & (matrix != 1.0) & (not weights), "zeros and ones (graph: weights takes others)"),
    ):
        if wrong.any():
            i, j = np.argwhere(wrong)[0].tolist()
            return [Problem(shown, expected, f"entry ({i}, {j}) is {matrix[i, j]:g}")]
    unequal = ~np.isclose(matrix, matrix.T, rtol=0.0, atol=1e-9)
    if unequal.any():
        i, j = np.argwhere(unequal)[0].tolist()
        got = f"asymmetric, entry ({i}, {j}) is {matrix[i, j]:.10g} and ({j}, {i}) is {matrix[j, i]:.10g}"
        return [Problem(shown, "a symmetric matrix", got)]
    if not weights:
        return []
    if not (diagonal := np.diagonal(matrix)).all():
        i = int(np.argmin(diagonal))
        return [Problem(shown, "a positive diagonal, as each task counts itself", f"entry ({i}, {i}) is 0")]
    sums = matrix.sum(axis=1)
    off = np.abs(sums - 1.0) > ROW_SUM_TOLERANCE
    if off.any():
        i = int(np.argmax(off))
        return [Problem(shown, "rows that sum to 1", f"{sums[i]:.8g} in row {i}")]
    return []
