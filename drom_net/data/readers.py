"""One file of examples, in any of four formats, as numbers: CSV, svmlight, NPZ and Parquet.

A reader returns a `Table`, or None when the file's structure leaves nothing to look at; what is wrong it
adds to the `Faults` it is given. It never lets a library's exception through.
"""

from __future__ import annotations

import csv
import errno
import gzip
import io
import itertools
import re
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Matrix, Vector
from drom_net.data.faults import Faults, extra, parse_number, quoted
from drom_net.data.settings import FileData
from drom_net.data.stream import SparseRows
from drom_net.errors import did_you_mean
from drom_net.names import tidy

LISTED_LIMIT = 8
"""Column names in a message."""
LARGEST_FEATURE = 2**31 - 1
INDEX_OF_PANDAS = re.compile(r"__index_level_\d+__$")


@dataclass(frozen=True, slots=True)
class Source:
    """A file, and what to take from it.

    Attributes:
        path: The file.
        shown: Its name in messages.
        settings: What the user said about the columns.
        features: Names of the feature columns in order; None takes all others.
        keep: Only rows whose task column says this; None takes all.
    """

    path: Path
    shown: str
    settings: FileData
    features: tuple[str, ...] | None = None
    keep: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """What a file says, not yet preprocessed.

    Attributes:
        rows: Shape (n, d); the values may be infinite or NaN.
        labels: One text for each row, as in the file.
        tasks: One name for each row; None without a task column.
        names: Names of the d columns; None where the format has none.
        place: Where row `r` (and column `c`, or the label for None) stands, for a message.
    """

    rows: Matrix | SparseRows
    labels: Sequence[str]
    tasks: Sequence[str] | None
    names: tuple[str, ...] | None
    place: Callable[[int, int | None], str]

    @property
    def dim(self) -> int:
        return self.rows.dim if isinstance(self.rows, SparseRows) else self.rows.shape[1]


def read_table(source: Source, format: str, faults: Faults) -> Table | None:
    """The file as a table; None after faults that leave none.

    Raises:
        UsageError: A package for this format is missing.
    """
    return READERS[format](source, faults)


def label_text(value: object) -> str:
    """A label or task name of any type as text: 3.0 and True are "3" and "1", a missing one is ""."""
    if isinstance(value, str):
        return value.strip()
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace").strip()
    if isinstance(value, bool | int | np.integer | np.bool_):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return repr(float(value) + 0.0).removesuffix(".0")
    return str(value)


# --- bytes -------------------------------------------------------------------------------------------


@contextmanager
def reading(path: Path, shown: str, faults: Faults) -> Iterator[None]:
    """Faults instead of the exceptions of reading `path`."""
    try:
        yield
    except FileNotFoundError:
        hint = _near_file(path, shown) or (
            "" if path == Path(shown) else "relative names start at data.directory, or at DROM_NET_DATA where it is set"
        )
        faults.add(shown, "a file", "none of this name", hint)
    except IsADirectoryError:
        faults.add(shown, "a file", "a folder")
    except gzip.BadGzipFile as error:
        got = "a damaged one" if "CRC" in str(error) or "length" in str(error) else "something else"
        faults.add(shown, "gzip data, as its name says", got)
    except EOFError:
        faults.add(shown, "a whole gzip file", "one that is cut off")
    except zlib.error:
        faults.add(shown, "gzip data, as its name says", "a damaged one")
    except OSError as error:
        faults.add(shown, "a file that can be read", (error.strerror or type(error).__name__).lower())


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedIOBase]:
    """The bytes of a file, unpacked when it is called .gz. Raises what `reading` expects."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "not a regular file")  # a pipe could keep us waiting for ever
    try:
        raw = path.open("rb")
    except ValueError as error:  # a null byte in the name
        raise FileNotFoundError(str(error)) from None
    with raw:
        if not path.name.endswith(".gz"):
            yield raw
            return
        with gzip.open(raw) as unpacked:
            yield unpacked


def decoded(file: Iterable[bytes], shown: str, faults: Faults) -> Iterator[str]:
    """The lines of a UTF-8 file, with or without a byte order mark; ends at the first that is not UTF-8."""
    for number, line in enumerate(file, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            faults.add(f"{shown}:{number}", "UTF-8 text", f"byte 0x{line[error.start]:02x}")
            return


def _near_file(path: Path, shown: str) -> str:
    try:
        siblings = [entry.name for entry in itertools.islice(path.parent.iterdir(), 10_000)]
    except (OSError, ValueError):
        return ""
    return did_you_mean(Path(shown).name, sorted(siblings))


# --- columns by name ---------------------------------------------------------------------------------


class Columns(NamedTuple):
    """Which of a file's columns are what, as indices."""

    label: int
    task: int | None
    features: list[int]
    names: tuple[str, ...]


def choose_columns(header: Sequence[str], source: Source, place: str, faults: Faults) -> Columns | None:
    """The columns that `source` wants; None after faults.

    Args:
        header: The file's column names.
        place: Where the header stands, such as ``site-1.csv:1``.
    """
    settings, before = source.settings, faults.count
    for index, name in enumerate(header):
        if not name:
            hint = "pandas writes one for its index; index=False leaves it out"
            faults.add(f"{place}, column {index + 1}", "a column name", "an empty one", hint)
        elif name in header[:index]:
            faults.add(f"{place}, column {index + 1}", "a name of its own", f"{quoted(name)} again")

    def find(name: str, what: str = "a column") -> int:
        if name in header:
            return header.index(name)
        listed = ", ".join(quoted(other) for other in header[:LISTED_LIMIT])
        hint = did_you_mean(name, header)
        separator = next((mark for mark in ";\t|" if len(header) == 1 and mark in header[0]), None)
        if separator:
            hint = f"columns are separated by commas, not by {quoted(separator)}"
        more = ", ..." if len(header) > LISTED_LIMIT else ""
        faults.add(place, f"{what} {quoted(name)}", f"{listed}{more}", hint, kind=(place, what))
        return -1

    label = find(settings.label, "a label column")
    task = None if settings.task_column is None else find(settings.task_column, "a task column")
    ignored = {find(name, "a column to ignore called") for name in settings.ignore}
    taken = {label, task} | ignored
    if source.features is None:
        features = [index for index in range(len(header)) if index not in taken]
    else:
        features = [find(name, "a feature column") for name in source.features]
        for name, index in zip(source.features, features, strict=True):
            if index in taken and index >= 0:
                faults.add("data.features", "features only", f"{quoted(name)}, the label, task or ignored column")
    if faults.count == before and not features:
        faults.add(place, "a column for a feature", "none besides the label")
    if faults.count > before:
        return None
    return Columns(label, task, features, tuple(header[index] for index in features))


# --- CSV ---------------------------------------------------------------------------------------------


def csv_rows(lines: Iterable[str], shown: str, faults: Faults) -> Iterator[tuple[int, list[str]]]:
    """Line number (from 1) and cells of each row that is not blank; ends where the quotes do not match."""
    reader = csv.reader(lines, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            faults.add(f"{shown}:{line}", "a row of comma-separated fields", f"a csv error ({error})")
            return
        if len(cells) > 1 or (cells and cells[0].strip()):
            yield line, cells


def parse_cells(cells: Sequence[str]) -> list[float] | None:
    """The cells as numbers, or None when one of them is not."""
    text = "".join(cells)
    if "_" in text or not text.isascii():
        return None
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        return None


def add_bad_cells(cells: Sequence[str], names: Sequence[str], line: int, shown: str, faults: Faults) -> list[float]:
    """Faults for the cells that are no numbers; returns zeros in their place."""
    numbers = []
    for cell, name in zip(cells, names, strict=True):
        number = parse_number(cell)
        if number is None:
            got = quoted(cell) if cell.strip() else "nothing (a missing value)"
            faults.add(f"{shown}:{line}, column {quoted(name)}", "a number", got, kind=(shown, name))
        numbers.append(number or 0.0)
    return numbers


def _read_csv(source: Source, faults: Faults) -> Table | None:
    shown = source.shown
    values, lines = array("d"), array("q")
    labels: list[str] = []
    tasks: list[str] = []
    before = faults.count
    names: tuple[str, ...] = ()
    columns: Columns | None = None
    header: list[str] = []
    num_rows = 0
    with reading(source.path, shown, faults), opened(source.path) as file:
        for line, cells in csv_rows(decoded(file, shown, faults), shown, faults):
            if columns is None:
                header = [cell.strip() for cell in cells]
                columns = choose_columns(header, source, f"{shown}:{line}", faults)
                if columns is None:
                    return None
                names = columns.names
                continue
            num_rows += 1
            if len(cells) != len(header):
                got = str(len(cells))
                faults.add(f"{shown}:{line}", f"{len(header)} fields, as in the header", got, kind=(shown, "ragged"))
                continue
            if columns.task is not None:
                task = tidy(cells[columns.task])
                if source.keep is not None and task != source.keep:
                    continue
                tasks.append(task)
            picked = [cells[index] for index in columns.features]
            numbers = parse_cells(picked)
            values.extend(add_bad_cells(picked, names, line, shown, faults) if numbers is None else numbers)
            labels.append(cells[columns.label].strip())
            lines.append(line)
    if columns is None:
        if faults.count == before:
            faults.add(shown, "a line of column names", "an empty file")
        return None
    if not num_rows and faults.count == before:
        faults.add(shown, "rows below the column names", "none")

    def place(row: int, column: int | None) -> str:
        name = source.settings.label if column is None else names[column]
        return f"{shown}:{lines[row]}, column {quoted(name)}"

    rows = np.array(values, dtype=np.float64).reshape(len(lines), len(names))
    return Table(rows, labels, None if columns.task is None else tasks, names, place)


# --- svmlight ----------------------------------------------------------------------------------------


class LineFault(NamedTuple):
    """What is wrong with a line: the words of a message."""

    expected: str
    got: str


def parse_svmlight(line: str, *, zero_based: bool, dim: int) -> tuple[str, list[int], list[float]] | LineFault:
    """The label (or ""), feature numbers from 0 and values of a line; or what is wrong with it.

    The label may be missing, and is not looked at. Feature numbers are below `dim` when counted from 0.
    """
    words = line.split("#", 1)[0].split()
    label = words.pop(0) if words and ":" not in words[0] else ""
    if words and words[0].startswith("qid:"):
        words.pop(0)
    first = 0 if zero_based else 1
    indices: list[int] = []
    values: list[float] = []
    for word in words:
        number, colon, text = word.partition(":")
        # Twenty digits hold any number that could be meant; int() refuses some thousands of them.
        if not (colon and number.isascii() and number.isdigit() and len(number) <= 20):
            return LineFault("NUMBER:VALUE", quoted(word))
        index = int(number) - first
        value = parse_number(text)
        if value is None:
            return LineFault(f"a number after {quoted(number + ':')}", quoted(text))
        if index < 0:
            return LineFault("feature numbers from 1 (data.zero_based: true takes 0)", "0")
        if index >= dim:
            return LineFault(f"feature numbers up to {dim - 1 + first}", str(int(number)))
        if indices and index <= indices[-1]:
            return LineFault("increasing feature numbers", f"{int(number)} after {indices[-1] + first}")
        indices.append(index)
        values.append(value)
    return label, indices, values


def _read_svmlight(source: Source, faults: Faults) -> Table | None:
    shown, zero_based = source.shown, source.settings.zero_based
    dim = LARGEST_FEATURE + 1
    if source.settings.hash is None and (source.settings.dim or source.features):
        dim = source.settings.dim or len(source.features or ())
    with extra("data", "svmlight files"):
        from sklearn.datasets import load_svmlight_file
    data = b""
    before = faults.count
    with reading(source.path, shown, faults), opened(source.path) as file:
        data = file.read()
    if faults.count > before:
        return None
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    try:
        # Underscores (1_000) are numbers to Python; our own parser decides whether one matters.
        suspect = b"_" in data
        matrix, numbers = load_svmlight_file(io.BytesIO(data), dtype=np.float64, zero_based=True)
    except (ValueError, OverflowError) as error:
        suspect, reason = True, str(error)
    else:
        reason = ""
    if suspect:
        _add_svmlight_faults(data, source, dim, faults)
        if reason and faults.count == before:
            faults.add(shown, "svmlight lines", f"an error ({reason})")
        if faults.count > before:
            return None
    if matrix.shape[0] == 0:
        faults.add(shown, "rows", "none" if data.strip() else "an empty file")
        return None
    first = 0 if zero_based else 1
    indices = matrix.indices.astype(np.int64) - first
    indptr = matrix.indptr.astype(np.int64)
    if len(indices) and (indices.min() < 0 or indices.max() >= dim):
        _add_svmlight_faults(data, source, dim, faults)
        return None
    filled = matrix.data != 0.0
    indptr = np.concatenate([[0], np.cumsum(filled)])[indptr].astype(np.int64)
    rows = SparseRows(indptr, indices[filled].astype(np.int32), matrix.data[filled], dim)
    lines: list[int] = []

    def place(row: int, column: int | None) -> str:
        if not lines:
            lines.extend(number for number, _ in _svmlight_lines(data))
        return f"{shown}:{lines[row]}, " + ("label" if column is None else f"feature {column + first}")

    return Table(rows, [label_text(number) for number in numbers.tolist()], None, None, place)


def _svmlight_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Line numbers (from 1) and text of the lines that hold an example."""
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.split(b"#", 1)[0].split():
            yield number, line


def _add_svmlight_faults(data: bytes, source: Source, dim: int, faults: Faults) -> None:
    """The fast parser has stopped, or its numbers are wrong: go through the lines one by one."""
    for number, line in _svmlight_lines(data):
        place, kind = f"{source.shown}:{number}", (source.shown, "line")
        text = line.split(b"#", 1)[0].decode("utf-8", errors="replace")
        parsed = parse_svmlight(text, zero_based=source.settings.zero_based, dim=dim)
        if isinstance(parsed, LineFault):
            faults.add(place, *parsed, kind=kind)
        elif parse_number(parsed[0]) is None:
            got = quoted((text.split() or [text])[0])
            faults.add(place, "a number as label, then NUMBER:VALUE", got, kind=kind)


# --- NPZ ---------------------------------------------------------------------------------------------


def _read_npz(source: Source, faults: Faults) -> Table | None:
    import struct
    import zipfile

    shown, settings = source.shown, source.settings
    arrays: dict[str, npt.NDArray[Any]] = {}
    name = ""
    before = faults.count
    # NumPy's default for settings.label is a word that fits CSV; archives have y.
    label = "y" if settings.label == "label" else settings.label
    wanted = {"X", "data", "indices", "indptr", "shape", "format", label, settings.task_column}
    broken = (ValueError, EOFError, KeyError, TypeError, NotImplementedError, MemoryError, RuntimeError)
    with reading(source.path, shown, faults), opened(source.path) as file:
        try:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                faults.add(shown, "an NPZ archive with arrays X and y", "a single array")
                return None
            with archive:
                for name in archive.files:
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
    if faults.count > before:
        return None

    def need(name: str, what: str) -> npt.NDArray[Any] | None:
        if name in arrays:
            return arrays[name]
        listed = ", ".join(quoted(other) for other in archive.files[:LISTED_LIMIT]) or "none"
        faults.add(shown, f"an array {quoted(name)} ({what})", listed, did_you_mean(name, archive.files))
        return None

    rows = _npz_rows(arrays, need, shown, faults)
    labels = need(label, "the labels")
    tasks = None if settings.task_column is None else need(settings.task_column, "the task of each row")
    if rows is None or faults.count > before:
        return None
    num_rows = len(rows.indptr) - 1 if isinstance(rows, SparseRows) else len(rows)
    for key, column in ((label, labels), (settings.task_column, tasks)):
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
    return Table(rows, label_texts, task_texts, None, place)


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
        if max(shape) > LARGEST_FEATURE or min(shape) < 0:
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


def take(rows: Matrix | SparseRows, order: npt.NDArray[np.int64]) -> Matrix | SparseRows:
    """The rows with these numbers, in this order, as contiguous copies."""
    return rows.take(order) if isinstance(rows, SparseRows) else np.ascontiguousarray(rows[order])


# --- Parquet -----------------------------------------------------------------------------------------


def _read_parquet(source: Source, faults: Faults) -> Table | None:
    with extra("parquet", "Parquet files"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    shown = source.shown
    before = faults.count
    with reading(source.path, shown, faults), opened(source.path) as file:
        try:
            table = pq.read_table(file)
            # What pandas writes for an index without a name is no feature.
            table = table.select([i for i, name in enumerate(table.column_names) if not INDEX_OF_PANDAS.match(name)])
            table.validate(full=True)
        except (pa.ArrowException, ValueError, OSError) as error:
            if isinstance(error, IsADirectoryError | PermissionError):
                raise
            faults.add(shown, "a whole Parquet file", "a damaged one or another file")
    if faults.count > before:
        return None
    columns = choose_columns(table.column_names, source, shown, faults)
    if columns is None:
        return None
    if not table.num_rows:
        faults.add(shown, "rows", "none")
        return None
    row_of = np.arange(table.num_rows)
    tasks = None
    if columns.task is not None:
        tasks = [tidy(label_text(item)) for item in table.column(columns.task).to_pylist()]
        if source.keep is not None:
            row_of = np.array([row for row, task in enumerate(tasks) if task == source.keep], dtype=np.int64)
            table = table.take(row_of)
            tasks = [source.keep] * len(row_of)

    def place(row: int, column: int | None) -> str:
        name = source.settings.label if column is None else columns.names[column]
        return f"{shown}, row {row_of[row] + 1}, column {quoted(name)}"

    rows = np.empty((len(row_of), len(columns.features)))
    for position, index in enumerate(columns.features):
        column, name = table.column(index), columns.names[position]
        if not (
            pa.types.is_integer(column.type)
            or pa.types.is_floating(column.type)
            or pa.types.is_boolean(column.type)
            or pa.types.is_decimal(column.type)
        ):
            faults.add(f"{shown}, column {quoted(name)}", "numbers", f"the type {column.type}")
            rows[:, position] = 0.0
            continue
        for row in np.flatnonzero(column.is_null().to_numpy()):
            got = "nothing (a missing value)"
            faults.add(place(int(row), position), "a number", got, kind=(shown, name))
        rows[:, position] = column.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy()
    labels = [label_text(item) for item in table.column(columns.label).to_pylist()]
    return Table(rows, labels, tasks, columns.names, place)


READERS: dict[str, Callable[[Source, Faults], Table | None]] = {
    "csv": _read_csv,
    "svmlight": _read_svmlight,
    "npz": _read_npz,
    "parquet": _read_parquet,
}

SUFFIXES = {
    ".csv": "csv",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".svm": "svmlight",
    ".npz": "npz",
    ".parquet": "parquet",
}


# --- what every format's numbers and labels must be --------------------------------------------------


def check_finite(table: Table, shown: str, faults: Faults) -> None:
    """A fault for each NaN and infinity."""
    rows = table.rows
    if isinstance(rows, SparseRows):
        entries = np.flatnonzero(~np.isfinite(rows.values))
        places = np.searchsorted(rows.indptr, entries, side="right") - 1
        bad = zip(places, rows.indices[entries], rows.values[entries], strict=True)
    else:
        where = np.nonzero(~np.isfinite(rows))
        bad = zip(*where, rows[where], strict=True)
    for row, column, value in bad:
        place = table.place(int(row), int(column))
        faults.add(place, "a finite number", str(float(value)), kind=(shown, "finite", int(column)))


def parse_labels(table: Table, shown: str, positive: str | None, faults: Faults) -> Vector:
    """-1.0 or +1.0 for each row.

    Without `positive` labels are -1 and +1, or 0 and 1, in any way of writing numbers. With it that label
    is +1 and every other one -1.
    """
    known: dict[str, float | None] = {}
    labels = np.zeros(len(table.labels))
    for row, text in enumerate(table.labels):
        if text not in known:
            known[text] = sign_of(text, positive)
        sign = known[text]
        if sign is None:
            expected = expected_label(positive)
            hint = "" if positive is not None or not text else "data.positive names the +1 of other labels"
            got = quoted(text) if text else "nothing (a missing label)"
            faults.add(table.place(row, None), expected, got, hint, kind=(shown, "label"))
        else:
            labels[row] = sign
    plain_labels = {plain_label(text) for text in known}
    if positive is None and {"0", "-1"} <= plain_labels:
        faults.add(f"{shown}, labels", "-1 and +1, or 0 and 1", "both 0 and -1")
    return labels


def sign_of(text: str, positive: str | None) -> float | None:
    """-1.0 or +1.0; None for what is no label. `positive` as for `parse_labels`."""
    plain = plain_label(text)
    if positive is None:
        return {"1": 1.0, "-1": -1.0, "0": -1.0}.get(plain)
    return None if plain in ("", "nan") else -1.0 + 2.0 * (plain == plain_label(positive))


def expected_label(positive: str | None) -> str:
    """What a label may be, for a message."""
    return "-1 or +1 (or 0 and 1)" if positive is None else "a label"


def plain_label(text: str) -> str:
    """One way to write a label: "+1", "1.0" and " 1 " are "1"."""
    number = parse_number(text)
    return text.strip() if number is None else label_text(number)
