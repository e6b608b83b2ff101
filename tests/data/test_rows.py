"""Rows for `predict`, from a text stream."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drom_net.data.datasets import load_dataset
from drom_net.data.rows import read_rows
from drom_net.data.settings import FileData
from drom_net.data.stream import SparseRows
from drom_net.errors import DataError


def read(text: str, **options: Any) -> Any:
    return read_rows(io.StringIO(text), **({"format": "csv", "features": None, "dim": 2} | options))


def message(text: str, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(text, **options)
    return str(caught.value)


def test_csv_with_names() -> None:
    rows = read("\ufeffy,label,x\n1,what,2\n\n3,,4\n", features=("x", "y"))
    np.testing.assert_array_equal(rows, [[2, 1], [4, 3]])
    assert rows.flags.c_contiguous and rows.dtype == np.float64


def test_csv_without_names() -> None:
    np.testing.assert_array_equal(read("1,2\n3,4\n"), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(read("a,b\n3,4\n"), [[3, 4]])
    assert read("").shape == (0, 2)


def test_svmlight_with_and_without_label() -> None:
    rows = read("1 1:5\n2:6 # x\n\n-1\n", format="svmlight")
    assert isinstance(rows, SparseRows) and rows.dim == 2
    np.testing.assert_array_equal(rows.indptr, [0, 1, 2, 2])
    np.testing.assert_array_equal(rows.indices, [0, 1])
    np.testing.assert_array_equal(rows.values, [5, 6])
    np.testing.assert_array_equal(read("0:1 1:2", format="svmlight", zero_based=True).indices, [0, 1])


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (
            "x,yy\n1,2\n",
            {"features": ("x", "y")},
            'standard input:1: expected a column "y", got "x", "yy"; did you mean "yy"?',
        ),
        ("x,x,y\n1,2,3\n", {"features": ("x", "y")}, 'standard input:1: expected one column "x", got 2'),
        ("", {"features": ("x", "y")}, "standard input:1: expected a line of column names, got nothing"),
        ("x,y\n1,old\n", {"features": ("x", "y")}, 'standard input:2, column "y": expected a number, got "old"'),
        ("x,y\n1\n", {"features": ("x", "y")}, "standard input:2: expected 2 fields, got 1"),
        ("1,2,3\n", {}, "standard input:1: expected 2 columns, one a feature, got 3"),
        ("1,old\n", {}, 'standard input:1, column "2": expected a number, got "old"'),
        ("1,2\n\n1,nan\n", {}, 'standard input:3, column "2": expected a finite number, got nan'),
        (
            '1,2\n"3,4\n',
            {},
            "standard input:2: expected a row of comma-separated fields, got a csv error (unexpected end of data)",
        ),
        ("1 3:1\n", {"format": "svmlight"}, "standard input:1: expected feature numbers up to 2, got 3"),
        ("1:1\n1:x\n", {"format": "svmlight"}, 'standard input:2: expected a number after "1:", got "x"'),
        ("\n1:inf\n", {"format": "svmlight"}, "standard input:2, feature 1: expected a finite number, got inf"),
    ],
)
def test_faults(text: str, options: dict[str, Any], expected: str) -> None:
    assert message(text, **options) == expected


def test_not_utf8() -> None:
    stream = io.TextIOWrapper(io.BytesIO(b"1,2\n\xff\n"), encoding="utf-8")
    with pytest.raises(DataError, match=r"^standard input, after line 0: expected UTF-8 text, got byte 0xff$"):
        read_rows(stream, format="csv", features=None, dim=2)


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("a.csv", "x,y,label\n1,2,1\n3,5,0\n4,4,1\n", {"scaling": "site", "bias": 0.5, "center": (1.0, 2.0)}),
        ("a.svm", "1 1:3 2:4\n0 2:1\n1\n", {"dim": 2, "bias": 1.0, "scale": (1.0, 3.0)}),
        ("a.svm", "1 1:3 2:4\n0 70000:1\n1\n", {"hash": 16, "bias": 1.0}),
    ],
)
def test_predict_sees_what_the_learner_saw(tmp_path: Path, name: str, text: str, options: dict[str, Any]) -> None:
    (tmp_path / name).write_text(text)
    data = load_dataset(FileData(files=name, **options), base=tmp_path)
    steps = data.preprocessing
    names = None if data.features is None else data.features[: steps.raw_dim]
    raw = read_rows(
        io.StringIO(text),
        format="csv" if name == "a.csv" else "svmlight",
        features=names,
        dim=steps.raw_dim,
        zero_based=steps.zero_based,
    )
    rows, learned = steps.apply(raw, "task-1"), data.tasks[0].rows
    if isinstance(rows, SparseRows) and isinstance(learned, SparseRows):
        for part in ("indptr", "indices", "values"):
            np.testing.assert_array_equal(getattr(rows, part), getattr(learned, part))
    else:
        np.testing.assert_array_equal(rows, learned)
