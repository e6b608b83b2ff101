"""Rows for `predict`, from a text stream."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drom_net.algorithms.features import SparseVector
from drom_net.core.errors import DataError
from drom_net.data.columns import Column, Schema
from drom_net.data.datasets import load_dataset
from drom_net.data.incoming import RowReader
from drom_net.data.preprocessing import Preprocessing
from drom_net.data.row_lines import read_rows
from drom_net.data.settings import FileData
from drom_net.data.stream import SparseRows

XY = Schema((Column("x", "number"), Column("y", "number")), places=1)
NAMED = RowReader(Preprocessing(3, numbers=2, schema=XY))
PLAIN = RowReader(Preprocessing(2))
RUNNING = RowReader(Preprocessing(2, numbers=2, scaling="running"))
KINDS = (
    *(Column("age", "number", missing=True), Column("smokes", "yes/no"), Column("town", "category", ("Ulm",))),
    *(Column("seen", "date", format="%d.%m.%Y"), Column("note", "text")),
)
TABLE = Schema(KINDS, places=8)


def read(text: str, rows: RowReader = PLAIN, format: str = "csv") -> list[Any]:
    return read_rows(io.StringIO(text), format=format, rows=rows)[0]


def message(text: str, rows: RowReader = PLAIN, format: str = "csv") -> str:
    with pytest.raises(DataError) as caught:
        read(text, rows, format)
    return str(caught.value)


def test_csv_with_names_in_any_order_beside_others() -> None:
    rows = read("\ufeffy,label,x\n1,what,2\n\n3,,4\n", NAMED)
    np.testing.assert_array_equal(rows, [[2, 1, 0], [4, 3, 0]])
    assert all(row.flags.c_contiguous and row.dtype == np.float64 for row in rows)


def test_csv_without_names() -> None:
    np.testing.assert_array_equal(read("1,2\n3,4\n"), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(read("a,b\n3,4\n"), [[3, 4]])
    assert read("") == []


@pytest.mark.parametrize("text", ["x;y\n1,5;-2\n", "x\ty\n1.5\t-2\n", "x|y\n1,5|-2,0\n", 'y,x\n-2,"1.5"\n'])
def test_the_delimiter_is_found_in_the_column_names(text: str) -> None:
    np.testing.assert_array_equal(read(text, NAMED), [[1.5, -2, 0]])


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_cells_of_all_kinds_are_encoded_as_those_of_files(format: str) -> None:
    reader = RowReader(Preprocessing(TABLE.width, numbers=2, schema=TABLE))
    texts = {
        "csv": 'town,note,age,smokes,seen\nUlm,"two\nwords",3.5,ja,31.12.2024\nBonn,,NA,FALSE,\n',
        "jsonl": '{"town": "Ulm", "note": "two\\nwords", "age": 3.5, "smokes": "ja", "seen": "31.12.2024"}\n'
        '{"town": "Bonn", "note": "", "age": null, "smokes": false, "seen": null}\n',
    }
    expected = [[3.5, "ja", "Ulm", "31.12.2024", "two\nwords"], [None, False, "Bonn", None, None]]
    for row, cells in zip(read(texts[format], reader, format), expected, strict=True):
        np.testing.assert_array_equal(row, TABLE.encode(cells))


def test_svmlight_with_and_without_label() -> None:
    rows = read("1 1:5\n2:6 # x\n\n-1\n", format="svmlight")
    assert all(isinstance(row, SparseVector) for row in rows)
    assert [row.indices.tolist() for row in rows] == [[0], [1], []]
    assert [row.values.tolist() for row in rows] == [[5], [6], []]
    zero = RowReader(Preprocessing(2, zero_based=True))
    assert read("0:1 1:2", zero, "svmlight")[0].indices.tolist() == [0, 1]


def test_json_lines() -> None:
    np.testing.assert_array_equal(
        read('{"x": [1, 2], "label": "what"}\n\n{"x": [3, 4]}\n', format="jsonl"), [[1, 2], [3, 4]]
    )
    np.testing.assert_array_equal(read('{"y": 1, "x": 2}\n', NAMED, "jsonl"), [[2, 1, 0]])


@pytest.mark.parametrize(
    ("text", "rows", "format", "expected"),
    [
        (
            "x,yy\n1,2\n",
            NAMED,
            "csv",
            'standard input:1: expected one column "y", got "x", "yy"; did you mean "yy"?',
        ),
        ("x,x,y\n1,2,3\n", NAMED, "csv", 'standard input:1: expected one column "x", got 2'),
        ("", NAMED, "csv", "standard input:1: expected column names, got nothing"),
        ("x,y\n1,old\n", NAMED, "csv", 'standard input:2, column "y": expected a number, got "old"'),
        ("x,y\n1\n", NAMED, "csv", "standard input:2: expected 2 fields, as in the header, got 1"),
        ("1,2,3\n", PLAIN, "csv", "standard input:1: expected 2 feature columns (data.dim), got 3"),
        ("1,old\n", PLAIN, "csv", 'standard input:1, column 2: expected a number, got "old"'),
        ("1,2\n\n1,nan\n", PLAIN, "csv", "standard input:3, row: expected finite numbers, got others"),
        (
            'x,y\n1,2\n"3,4\n',
            NAMED,
            "csv",
            "standard input:3: expected a row of separated fields, got a csv error (unexpected end of data)",
        ),
        ("1e101,2\n", RUNNING, "csv", "standard input:1, row: expected numbers up to 1e+100, got 1e+101"),
        ("1 3:1\n", PLAIN, "svmlight", "standard input:1: expected feature numbers up to 2, got 3"),
        ("1:1\n1:x\n", PLAIN, "svmlight", 'standard input:2: expected a number after "1:", got "x"'),
        ("1:-1.8e308\n", PLAIN, "svmlight", "standard input:1, values: expected finite numbers, got others"),
        ("\n1:inf\n", PLAIN, "svmlight", "standard input:2, values: expected finite numbers, got others"),
        (
            "{}\n[]\n",
            PLAIN,
            "jsonl",
            'standard input:1: expected a key "x" with all numbers, or "indices" and '
            '"values", got neither\nstandard input:2: expected a JSON object, got list of 0',
        ),
        (
            '{"x": [1], "y": 2}\n',
            NAMED,
            "jsonl",
            'standard input:1, feature "x": expected one value, got list of 1',
        ),
        (
            '{"x": 1}\n',
            NAMED,
            "jsonl",
            'standard input:1, feature "y": expected a value, or null where it is missing, got none',
        ),
    ],
)
def test_faults(text: str, rows: RowReader, format: str, expected: str) -> None:
    assert message(text, rows, format) == expected


def test_not_utf8() -> None:
    stream = io.TextIOWrapper(io.BytesIO(b"1,2\n\xff\n"), encoding="utf-8")
    with pytest.raises(DataError, match=r"^standard input, after line 0: expected UTF-8 text, got byte 0xff$"):
        read_rows(stream, format="csv", rows=PLAIN)


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("a.csv", "x,y,label\n1.5,2,1\n3,5,0\n4,4,1\n", {"scaling": "site", "bias": 0.5, "center": (1.0, 2.0)}),
        ("a.csv", "x,y,label\n1.5,2,1\n3,,0\n4,4,1\n5,-3,1\n", {}),
        ("a.csv", "x;town;label\n1,5;Ulm;1\n3;Bonn;0\n4;;1\n5;Ulm;1\n", {}),
        ("a.csv", "x,note,label\n1.5,words of one,1\n3,one of words,0\n4,,1\n", {"columns": (KINDS[4],)}),
        ("a.svm", "1 1:3 2:4\n0 2:1\n1\n", {"dim": 2, "bias": 1.0, "scale": (1.0, 3.0)}),
        ("a.svm", "1 1:3 2:4\n0 70000:1\n1\n", {"hash": 16, "bias": 1.0}),
    ],
)
def test_predict_sees_what_the_learner_saw(tmp_path: Path, name: str, text: str, options: dict[str, Any]) -> None:
    (tmp_path / name).write_text(text)
    data = load_dataset(FileData(files=name, **options), base=tmp_path)
    made = data.preprocessing
    learned = made.apply(data.tasks[0].rows, "task-1")
    preparation = made.begin("task-1")
    for number, row in enumerate(read(text, RowReader(made), "csv" if name == "a.csv" else "svmlight")):
        looked, taken = preparation.look(row), preparation.take_one(row)
        if isinstance(learned, SparseRows):
            for seen in (looked, taken):
                assert isinstance(seen, SparseVector)
                for part, other in zip(seen, learned.row(number), strict=True):
                    np.testing.assert_array_equal(part, other)
        else:
            np.testing.assert_array_equal(looked, learned[number])
            np.testing.assert_array_equal(taken, learned[number])
