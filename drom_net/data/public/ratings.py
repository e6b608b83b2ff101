"""People's taste: `jester`, `movielens`, `eachmovie`. A task is a person; a row, what others think of one item."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from drom_net.data.dataset import TaskData
from drom_net.data.preprocessing import Preprocessing
from drom_net.data.public.content import Content, Files, prepared, signs, wrong
from drom_net.data.stream import SparseRows

NUM_TASKS, NUM_OTHERS, NUM_ITEMS = 30, 1783, 200
"""As many as the paper's EachMovie has: tasks, features, examples a task."""
TASKS = tuple(f"user-{number:02d}" for number in range(1, NUM_TASKS + 1))
NUM_JOKES = 100
JESTER_NOT_RATED = 99.0


def read_jester(files: Files) -> Content:
    """Of the users who rated all 100 jokes, in file order: 0 to 29 are tasks, 30 to 1812 are features."""
    path = files["jester-data-1.zip"]
    ratings = _table(zip_member(path, "jester-data-1.csv"), f"{path}, jester-data-1.csv", ",", NUM_JOKES + 1)
    ratings = ratings[(ratings != JESTER_NOT_RATED).all(axis=1), 1:]
    if len(ratings) < NUM_TASKS + NUM_OTHERS:
        raise wrong(path, f"{NUM_TASKS + NUM_OTHERS} people who rated all {NUM_JOKES} jokes", len(ratings))
    jokes = ratings[NUM_TASKS : NUM_TASKS + NUM_OTHERS].T
    labels = [signs(ratings[task] > 0.0) for task in range(NUM_TASKS)]
    return prepared(TASKS, [jokes] * NUM_TASKS, labels, None, Preprocessing(raw_dim=NUM_OTHERS, normalize=True))


def read_movielens(files: Files) -> Content:
    """MovieLens 1M; the middle of the scale, 3 stars, counts as 0."""
    path = files["ml-1m.zip"]
    text = zip_member(path, "ml-1m/ratings.dat").replace(b"::", b",")
    table = _table(text, f"{path}, ml-1m/ratings.dat", ",", 4)
    return _taste(path, table[:, 0], table[:, 1], table[:, 2] - 3.0, table[:, 3])


def read_eachmovie(files: Files) -> Content:
    """EachMovie's Vote.txt: Person_ID, Movie_ID, Score (0 to 1), Weight, Modified, apart by tabs, without a header.

    A weight below 1 marks a film that was not seen: such votes are left out. Modified is not read; the votes of a
    person are taken in the order of the file.
    """
    path = files["Vote.txt"]
    table = _table(path.read_bytes(), str(path), "\t", 5, read=4)
    table = table[table[:, 3] >= 1.0]
    return _taste(path, table[:, 0], table[:, 1], table[:, 2] - 0.5, np.arange(len(table)))


def _taste(
    path: Path,
    people: npt.NDArray[np.float64],
    items: npt.NDArray[np.float64],
    ratings: npt.NDArray[np.float64],
    times: npt.NDArray[np.generic],
) -> Content:
    """Tasks: the first 30 people, by number, of at least 200 ratings, each with its first 200 (ties: by item).

    Features: the 1,783 others with most ratings (ties: by number), in the order of their numbers; 0 is no rating.

    Args:
        ratings: Above 0 is a like.
    """
    numbers, person_of, how_many = np.unique(people, return_inverse=True, return_counts=True)
    tasks = np.flatnonzero(how_many >= NUM_ITEMS)[:NUM_TASKS]
    if len(tasks) < NUM_TASKS:
        raise wrong(path, f"{NUM_TASKS} people with {NUM_ITEMS} ratings", len(tasks))
    others = np.argsort(-how_many, kind="stable")
    others = np.sort(others[~np.isin(others, tasks)][:NUM_OTHERS])
    if len(others) < NUM_OTHERS:
        raise wrong(path, f"{NUM_OTHERS} other people", len(others))
    column_of = np.full(len(numbers), -1)
    column_of[others] = np.arange(NUM_OTHERS)

    item_names, item_of = np.unique(items, return_inverse=True)
    by_item = np.full((len(item_names), NUM_OTHERS), 0.0)
    theirs = column_of[person_of] >= 0
    by_item[item_of[theirs], column_of[person_of[theirs]]] = ratings[theirs]
    unit = Preprocessing(raw_dim=NUM_OTHERS, normalize=True)
    found = []
    for name, task in zip(TASKS, tasks, strict=True):
        mine = np.flatnonzero(person_of == task)
        mine = mine[np.lexsort((item_of[mine], times[mine]))][:NUM_ITEMS]
        rows = unit.apply(_sparse(by_item[item_of[mine]]), name)
        found.append(TaskData(name, rows, signs(ratings[mine] > 0.0)))
    return Content(tuple(found), tuple(f"user-{number:g}" for number in numbers[others].tolist()), unit)


def _sparse(rows: npt.NDArray[np.float64]) -> SparseRows:
    row_of, columns = np.nonzero(rows)
    indptr = np.searchsorted(row_of, np.arange(len(rows) + 1)).astype(np.int64)
    return SparseRows(indptr, columns.astype(np.int32), rows[row_of, columns], rows.shape[1])


def zip_member(path: Path, name: str) -> bytes:
    """The bytes of one file in a zip archive.

    Raises:
        DataError: The archive is damaged, or has no such member.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(name)
    except KeyError:
        raise wrong(path, f"the member {name}", "none of this name") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise wrong(path, "a whole zip archive", "a damaged one, or another file") from error


def _table(text: bytes, place: str, separator: str, width: int, *, read: int | None = None) -> npt.NDArray[np.float64]:
    """A table of numbers without a header, of `width` columns, of which the first `read` are read."""
    file: IO[bytes] = io.BytesIO(text)
    first = text[: text.find(b"\n") + 1 or None]
    if first.count(separator.encode()) != width - 1:
        raise wrong(f"{place}:1", f"{width} fields", first.count(separator.encode()) + 1 if first.strip() else "none")
    try:
        return np.loadtxt(file, delimiter=separator, usecols=range(read or width), ndmin=2, comments=None)
    except ValueError as error:
        raise wrong(place, f"{width} numbers a line", error) from error
