"""NPZ archives of NumPy: dense arrays X and y, or the parts of a CSR matrix and y."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Matrix
from drom_net.core.errors import did_you_mean
from drom_net.core.names import tidy
from drom_net.data.cells import label_text
from drom_net.data.faults import Faults, extra, listed, quoted
from drom_net.data.formats.base import NumberFormat
from drom_net.data.opening import opened, reading
from drom_net.data.preprocessing import HASHED_DIM
from drom_net.data.stream import SparseRows, take
from drom_net.data.tables import NumberTable, Source


class Npz(NumberFormat):
    name = "npz"
    suffixes: ClassVar[tuple[str, ...]] = (".npz",)
    is_packed = True

    def table(self, source: Source, faults: Faults) -> NumberTable | None:
        wanted = {"X", "data", "indices", "indptr", "shape", "format", _label_of(source), source.task_column}
        before = faults.count
        arrays, names = _npz_arrays(source, wanted, faults)
        return None if faults.count > before else self._table_of(arrays, names, source, faults)

    @staticmethod
    def _table_of(
        arrays: dict[str, npt.NDArray[Any]], names: list[str], source: Source, faults: Faults
    ) -> NumberTable | None:
        """What the arrays say; None after faults.

        Args:
            names: Of all that are there.
        """
        shown, label, before = source.shown, _label_of(source), faults.count

        def need(name: str, what: str) -> npt.NDArray[Any] | None:
            if name in arrays:
                return arrays[name]
            got = listed(names) or "none"
            faults.add(shown, f"an array {quoted(name)} ({what})", got, did_you_mean(name, names))
            return None

        rows = _npz_rows(arrays, need, shown, faults)
        labels = need(label, "the labels")
        tasks = None if source.task_column is None else need(source.task_column, "the task of each row")
        if rows is None or faults.count > before:
            return None
        num_rows = len(rows.indptr) - 1 if isinstance(rows, SparseRows) else len(rows)
        for key, column in ((label, labels), (source.task_column, tasks)):
            if column is not None and column.shape != (num_rows,):
                expected = f"shape ({num_rows},), one item a row of X"
                faults.add(f"{shown}: {key}", expected, f"shape {column.shape}")
        if num_rows == 0:
            faults.add(f"{shown}: X", "at least one row", "none")
        if labels is None or faults.count > before:
            return None
        row_of = np.arange(num_rows)
        task_texts = None if tasks is None else [tidy(label_text(item)) for item in tasks.tolist()]
        label_texts = [label_text(item) for item in labels.tolist()]

        def place(row: int, column: int | None) -> str:
            row = int(row_of[row])
            return f"{shown}: {label}[{row}]" if column is None else f"{shown}: X[{row}, {column}]"

        if task_texts is not None and source.keep is not None:
            row_of = np.array([row for row, task in enumerate(task_texts) if task == source.keep], dtype=np.int64)
            rows = take(rows, row_of)
            label_texts = [label_texts[row] for row in row_of]
            task_texts = [source.keep] * len(row_of)
        return NumberTable(rows, label_texts, task_texts, place)


class Arrays(Npz):
    """The same of arrays in memory, in place of files of these names: dense (or what NumPy makes an array of), or
    matrices of SciPy."""

    name = "arrays"
    suffixes = ()

    def __init__(self, arrays: Mapping[str, tuple[Any, Any]]) -> None:
        """
        Args:
            arrays: X and y by what messages call them.
        """
        self._arrays = arrays

    def table(self, source: Source, faults: Faults) -> NumberTable | None:
        X, y = self._arrays[source.shown]
        found = {"y": np.asarray(y)}
        if hasattr(X, "tocsr"):
            X = X.tocsr()
            shape = np.array(X.shape, dtype=np.int64)
            found |= {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": shape}
        else:
            found["X"] = np.asarray(X)
        return self._table_of(found, ["X", "y"], source, faults)


def _label_of(source: Source) -> str:
    """The default of data.label is a word that fits CSV; archives have y."""
    return "y" if source.label == "label" else source.label


def _npz_arrays(
    source: Source, wanted: Collection[str | None], faults: Faults
) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
    """The arrays of an archive that are wanted, and the names of all; not all of them after a fault."""
    import struct
    import zipfile

    shown = source.shown
    arrays: dict[str, npt.NDArray[Any]] = {}
    names: list[str] = []
    name = ""
    broken = (ValueError, EOFError, KeyError, TypeError, NotImplementedError, MemoryError, RuntimeError)
    with reading(source.path, shown, faults), opened(source.path) as file:
        try:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                faults.add(shown, "an NPZ archive with arrays X and y", "a single array")
                return {}, []
            with archive:
                names = archive.files
                for name in names:
                    if name in wanted:
                        arrays[name] = archive[name]
        except (*broken, zipfile.BadZipFile, zlib.error, struct.error, OSError) as error:
            if isinstance(error, IsADirectoryError | PermissionError):
                raise
            where = f"{shown}: {name}" if name else shown
            if "pickle" in str(error) and (name or source.path.read_bytes()[:1] == b"\x80"):
                faults.add(where, "arrays of numbers or text", "pickled objects, which are not loaded")
            else:
                faults.add(where, "a whole NPZ archive", "a damaged one or another file")
    return arrays, names


def _npz_rows(
    arrays: dict[str, npt.NDArray[Any]],
    need: Callable[[str, str], npt.NDArray[Any] | None],
    shown: str,
    faults: Faults,
) -> Matrix | SparseRows | None:
    if "X" in arrays or "indptr" not in arrays:
        X = need("X", "the features, or the CSR parts data, indices, indptr and shape")
        if X is None:
            return None
        if X.ndim != 2 or X.dtype.kind not in "biuf" or X.shape[1] == 0:
            got = f"shape {X.shape} of {X.dtype}"
            faults.add(f"{shown}: X", "numbers of shape (rows, columns)", got)
            return None
        return np.ascontiguousarray(X, dtype=np.float64)
    parts = [need(name, "a part of a CSR matrix") for name in ("data", "indices", "indptr", "shape")]
    data, indices, indptr, shape = parts
    if data is None or indices is None or indptr is None or shape is None:
        return None
    kind = arrays.get("format")
    if kind is not None and label_text(kind.item() if kind.ndim == 0 else kind) != "csr":
        got = quoted(label_text(kind.item() if kind.ndim == 0 else kind))
        faults.add(f"{shown}: format", '"csr"', got, "save_npz(file, matrix.tocsr()) writes it")
        return None
    with extra("data", "sparse NPZ files"):
        from scipy.sparse import csr_matrix
    try:
        if data.dtype.kind not in "biuf" or any(part.dtype.kind not in "iu" for part in (indices, indptr, shape)):
            raise ValueError("data must be numbers, the other parts whole numbers")
        if max(shape) >= HASHED_DIM or min(shape) < 0:
            raise ValueError(f"shape {tuple(shape.tolist())} is too large or negative")
        matrix = csr_matrix((data.astype(np.float64), indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
        with np.errstate(all="ignore"):
            matrix.sum_duplicates()
        matrix.eliminate_zeros()
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        faults.add(f"{shown}: X", "CSR parts that fit together", f"an error ({error})")
        return None
    if matrix.shape[1] == 0:
        faults.add(f"{shown}: X", "numbers of shape (rows, columns)", f"shape {matrix.shape}")
        return None
    width = int(matrix.shape[1])
    return SparseRows(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data, width)
