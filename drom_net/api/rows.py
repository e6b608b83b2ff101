"""Rows as scripts have them: a frame, an array, a matrix of SciPy, or dicts; and what messages say of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from drom_net.algorithms.features import Features, Matrix
from drom_net.core.errors import DataError, InputError, Problem, did_you_mean
from drom_net.data.columns import CATEGORY, TEXT, Schema
from drom_net.data.encoding import encode_table
from drom_net.data.faults import Faults, listed, quoted
from drom_net.data.formats import FileFormat
from drom_net.data.formats.frames import Frames
from drom_net.data.formats.npz import Arrays
from drom_net.data.incoming import RowError, RowReader, WrongRows
from drom_net.data.stream import SparseRows, stacked
from drom_net.data.tables import Source, Wanted, check_finite

FRAME = "the frame"
ROWS = "the rows"

_DATA = re.compile(r"\bdata\.([a-z_]+)")
_SETTING = re.compile(r"\bdata\.([a-z_]+): ([a-z]+)\b")
_PARAMETER = re.compile(r"\balgorithm\.([a-z0-9_]+)")
_WRITTEN = {"data.task_column": "site=", "algorithm.name": "learner=", "rest: negative": 'rest="negative"'}


def in_words(text: str) -> str:
    """A text of a message in the words of a call: `positive=` for data.positive."""
    for key, argument in _WRITTEN.items():
        text = text.replace(key, argument)
    text = _SETTING.sub(lambda key: f'{key[1]}="{key[2]}"', text)
    text = _PARAMETER.sub(lambda key: f'parameters["{key[1]}"]', _DATA.sub(lambda key: f"{key[1]}=", text))
    return re.sub(r"write: (positive|unlabelled): ", r"write: \1=", text)


@contextmanager
def in_python() -> Iterator[None]:
    """Errors of what a file says, in the words of a call."""
    try:
        yield
    except InputError as error:
        problems = [
            Problem(in_words(one.place).removesuffix(":1"), in_words(one.expected), one.got, in_words(one.hint))
            for one in error.problems
        ]
        raise type(error)(problems, omitted=error.omitted) from None


def read_in_memory(data: Any) -> tuple[FileFormat, tuple[str, ...] | None]:
    """What reads the rows of `fit`, and the names of the sites where they are keys.

    Args:
        data: A frame; or by site a frame, or (X, y).

    Raises:
        DataError: It is something else.
        UsageError: A package that reads frames is missing.
    """
    if not isinstance(data, Mapping):
        return Frames({FRAME: data}), None
    rows: dict[str, Any] = {}
    for site, one in data.items():
        if str(site) in rows:
            raise DataError([Problem("data", "keys that differ as texts", f"{quoted(str(site))} more than once")])
        rows[str(site)] = one
    arrays = {site: one for site, one in rows.items() if isinstance(one, tuple | list) and len(one) == 2}
    if len(arrays) == len(rows) > 0:
        return Arrays({site: (one[0], one[1]) for site, one in arrays.items()}), tuple(rows)
    faults = Faults()
    if not rows:
        faults.add("data", "at least one site", "an empty mapping")
    for site in arrays:
        faults.add(site, "a frame, as of the other sites", "(X, y)")
    faults.raise_if_any()
    return Frames(rows), tuple(rows)


def read_rows(data: Any, reader: RowReader) -> Matrix | SparseRows:
    """Rows to predict, encoded as a model takes them.

    Args:
        data: A frame with the columns of the features, others are left out; an array or a matrix of SciPy; one row as
            a dict; or a list of rows, each a dict or the cells in order.

    Raises:
        DataError: Columns are missing, or a cell cannot be used.
    """
    schema = reader.preprocessing.schema
    if isinstance(data, Mapping):
        return _one_by_one([data], reader)
    if isinstance(data, list) and isinstance(next(iter(data), ()), Mapping | list | tuple):
        return _one_by_one(data, reader)
    if schema is not None and not isinstance(data, np.ndarray) and not hasattr(data, "tocsr"):
        return _of_frame(data, schema)
    if schema is not None:
        dense = data.toarray() if hasattr(data, "toarray") else data
        return _one_by_one(np.atleast_2d(dense).tolist(), reader)
    return _of_arrays(data, reader)


def _one_by_one(rows: Sequence[object], reader: RowReader) -> Matrix | SparseRows:
    wrong = WrongRows(ROWS)
    found: list[Features] = []
    for number, row in enumerate(rows, start=1):
        try:
            found.append(reader.row(row))
        except RowError as error:
            wrong.add(lambda one, number=number: f"{ROWS}, row {number}, {one.where}", error)  # type: ignore[misc]
    wrong.raise_if_any(len(found))
    return stacked(found, reader.preprocessing.raw_dim)


def _of_frame(data: Any, schema: Schema) -> Matrix | SparseRows:
    faults = Faults()
    frames = Frames({FRAME: data})
    names = frames.header(Path(FRAME), FRAME, Wanted(), faults) or ()
    faults.raise_if_any()
    wanted = {column.name for column in schema.used}
    for name in sorted(wanted - {*names}):
        place = FRAME
        faults.add(place, f"a feature column {quoted(name)}", listed(names), did_you_mean(name, names), kind="column")
    faults.raise_if_any()
    if not len(data):
        return stacked([], schema.width)
    texts = {column.name for column in schema.used if column.kind in (CATEGORY, TEXT)}
    own = Wanted(texts=texts, skip={*names} - wanted, missing=schema.missing_texts)
    table = frames.table(Path(FRAME), FRAME, own, faults)
    faults.raise_if_any()
    assert table is not None
    rows = encode_table(schema, table, faults)
    faults.raise_if_any()
    return rows


def _of_arrays(data: Any, reader: RowReader) -> Matrix | SparseRows:
    made, faults = reader.preprocessing, Faults()
    count = data.shape[0] if hasattr(data, "shape") and len(data.shape) else 1
    if not count:
        return stacked([], made.raw_dim)
    table = Arrays({ROWS: (data, np.zeros(count))}).table(Source(Path(ROWS), ROWS), faults)
    faults.raise_if_any()
    assert table is not None
    check_finite(table, ROWS, faults)
    if table.dim != made.raw_dim and (made.hash is None or not isinstance(table.rows, SparseRows)):
        faults.add(ROWS, f"{made.raw_dim} feature columns, as the model has learned", str(table.dim))
    faults.raise_if_any()
    return table.rows
