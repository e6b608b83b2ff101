"""One file of examples that are numbers already: svmlight and NPZ; and how the bytes of any file are read.

A reader returns a `Table`, or None when the file's structure leaves nothing to look at; what is wrong it
adds to the `Faults` it is given. It never lets a library's exception through.
"""

from __future__ import annotations

import errno
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from drom_net.algorithms.features import Matrix
from drom_net.core.errors import did_you_mean
from drom_net.core.names import tidy
from drom_net.data.faults import Faults, extra, parse_number, quoted
from drom_net.data.settings import FileData
from drom_net.data.stream import SparseRows, take

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".txt": "csv",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".svm": "svmlight",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
}

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


def read_numbers(source: Source, format: str, faults: Faults) -> Table | None:
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
        if error.errno is None and path.name.endswith(".zst"):  # of pyarrow, not of the system
            faults.add(shown, "a whole zstd file, as its name says", "a damaged one or another file")
            return
        faults.add(shown, "a file that can be read", (error.strerror or type(error).__name__).lower())


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedIOBase]:
    """The bytes of a file, unpacked when it is called .gz or .zst. Raises what `reading` expects."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "not a regular file")  # a pipe could keep us waiting for ever
    try:
        raw = path.open("rb")
    except ValueError as error:  # a null byte in the name
        raise FileNotFoundError(str(error)) from None
    with raw:
        if path.name.endswith(".zst"):
            with extra("tables", "files that are packed by zstd"):
                import pyarrow as pa
            with pa.CompressedInputStream(pa.PythonFile(raw), "zstd") as unpacked:
                yield io.BufferedReader(unpacked)
        elif path.name.endswith(".gz"):
            with gzip.open(raw) as unpacked:
                yield unpacked
        else:
            yield raw


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
    shown, settings = source.shown, source.settings
    # NumPy's default for settings.label is a word that fits CSV; archives have y.
    label = "y" if settings.label == "label" else settings.label
    wanted = {"X", "data", "indices", "indptr", "shape", "format", label, settings.task_column}
    before = faults.count
    arrays, names = _npz_arrays(source, wanted, faults)
    if faults.count > before:
        return None

    def need(name: str, what: str) -> npt.NDArray[Any] | None:
        if name in arrays:
            return arrays[name]
        listed = ", ".join(quoted(other) for other in names[:LISTED_LIMIT]) or "none"
        faults.add(shown, f"an array {quoted(name)} ({what})", listed, did_you_mean(name, names))
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


READERS: dict[str, Callable[[Source, Faults], Table | None]] = {
    "svmlight": _read_svmlight,
    "npz": _read_npz,
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
