"""Each thing that can be wrong with a data file, and the whole message that says so."""

from __future__ import annotations

import errno
import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drom_net.core.errors import DataError
from drom_net.data.columns import Column
from drom_net.data.datasets import load_dataset, task_names
from drom_net.data.settings import FileData
from drom_net.data.stream import SparseRows


def message(base: Path, files: str, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        load_dataset(FileData(files=files, **options), base=base)
    text = str(caught.value)
    assert str(base) not in text  # names as the user wrote them
    return text


GOOD = "age,height,label\n1,2,1\n3,4,0\n"
AGE: dict[str, Any] = {"columns": (Column("age", "number"),)}
"""What the file does not tell: text in this column is a fault."""
NUMBER = "data.columns says what kind each column is (`drom-net init` writes it), data.ignore leaves columns out"

ONE_CSV: dict[str, tuple[str, dict[str, Any], str]] = {
    "wrong label column": (
        "age,lable\n1,1\n",
        {},
        'site-1.csv:1: expected a label column "label", got "age", "lable"; did you mean "lable"?',
    ),
    "another delimiter than is said": (
        "age;label\n1;1\n",
        {"delimiter": ","},
        'site-1.csv:1: expected a label column "label", got "age;label"; did you mean "age;label"?',
    ),
    "text in a number": (
        "age,label\n1,1\nold,1\n",
        AGE,
        f'site-1.csv:3, column "age": expected a number, got "old"; {NUMBER}',
    ),
    "a line break in the text": (
        'age,label\n1,1\n"o\nld",1\nx,1\nx,1\n',
        AGE,
        f'site-1.csv:3, column "age": expected a number, got "o\\nld"; {NUMBER}\n'
        f'site-1.csv:5, column "age": expected a number, got "x" (2 rows); {NUMBER}',
    ),
    "missing values only": (
        "age,label\n ,1\n",
        {},
        'site-{task}.csv, column "label": expected a column for a feature, got none besides the label',
    ),
    "underscore": (
        "age,label\n1_000,1\n",
        AGE,
        f'site-1.csv:2, column "age": expected a number, got "1_000"; {NUMBER}',
    ),
    "digits of another script": (
        "age,label\n\u0661,1\n",
        AGE,
        f'site-1.csv:2, column "age": expected a number, got "\u0661"; {NUMBER}',
    ),
    "neither yes nor no": (
        "age,label\nyes,1\nmaybe,0\n",
        {"columns": (Column("age", "yes/no"),)},
        f'site-1.csv:3, column "age": expected yes or no (or true/false, 1/0, ...), got "maybe"; {NUMBER}',
    ),
    "a date of another form": (
        "age,label\n31.12.2024,1\n2024-12-31,0\n",
        {"columns": (Column("age", "date", format="%d.%m.%Y"),)},
        f'site-1.csv:3, column "age": expected a date as %d.%m.%Y, got "2024-12-31"; {NUMBER}',
    ),
    "a date that is a number": (
        "age,label\n20241231,1\n",
        {"columns": (Column("age", "date"),)},
        f'site-1.csv:2, column "age": expected a date (2024-12-31, 2024-12-31T23:59), got 20241231.0; {NUMBER}',
    ),
    "infinity": (
        "age,label\n-inf,1\n1e999,1\n",
        {},
        'site-1.csv:2, column "age": expected a finite number, got -inf\n'
        'site-1.csv:3, column "age": expected a finite number, got inf',
    ),
    "missing labels only": ("age,label\n1,\n", {}, 'site-{task}.csv, column "label": expected labels, got none'),
    "positive that does not occur": (
        "age,label\n1,spam\n2,ham\n",
        {"positive": ("spm",)},
        'data.positive: expected a label that occurs, got "spm"; did you mean "spam"?',
    ),
    "0 and -1": (
        "age,label\n1,0\n2,-1\n",
        {},
        'site-{task}.csv, column "label": expected -1 and +1, or 0 and 1, got "-1" 1, "0" 1',
    ),
    "ragged row": (
        "age,label\n1,1\n2\n3,1,4\n",
        {},
        "site-1.csv:3: expected 2 fields, as in the header, got 1\n"
        "site-1.csv:4: expected 2 fields, as in the header, got 3",
    ),
    "empty file": ("", {}, "site-1.csv: expected a line of column names, got an empty file"),
    "blank lines only": ("\n\n", {}, "site-1.csv: expected a line of column names, got an empty file"),
    "header only": ("age,label\n", {}, "site-1.csv: expected rows below the column names, got none"),
    "duplicate header": (
        "age,age,label\n1,2,1\n",
        {},
        'site-1.csv:1, column 2: expected a name of its own, got "age" again',
    ),
    "no features": ("label\n1\n", {}, "site-1.csv:1: expected a column for a feature, got none besides the label"),
    "open quote": (
        'age,label\n1,1\n"2,1\n',
        {},
        "site-1.csv:3: expected a row of separated fields, got a csv error (unexpected end of data)",
    ),
    "missing feature": (
        GOOD,
        {"features": ("age", "hight")},
        'site-1.csv:1: expected a feature column "hight", got "age", "height", "label"; did you mean "height"?',
    ),
    "missing ignored": (
        GOOD,
        {"ignore": ("hight",)},
        'site-1.csv:1: expected a column to ignore called "hight", got "age", "height", "label"; '
        'did you mean "height"?',
    ),
    "label among the features": (
        GOOD,
        {"features": ("age", "label")},
        'data.features: expected features only, got "label", the label, task or ignored column',
    ),
    "dim": (GOOD, {"dim": 3}, "data.dim: expected none, for the columns of a table say it, got 3"),
    "center of another length": (
        GOOD,
        {"center": (1.0,)},
        "data.center: expected 2 numbers, one for each column of numbers, got 1",
    ),
    "scale of another length": (
        GOOD,
        {"scale": (1.0, 1.0, 1.0)},
        "data.scale: expected 2 numbers, one for each column of numbers, got 3",
    ),
    "scale zero": (GOOD, {"scale": (1.0, 0.0)}, "data.scale[1]: expected a number other than 0, got 0"),
    "overflow by scaling": (
        "age,label\n1,1\n1e100,1\n",
        {"scale": (1e-250,)},
        "site-1.csv: expected numbers that stay finite when they are scaled, got an overflow",
    ),
    "a number whose square is infinite": (
        "age,label\n1,1\n1e308,1\n",
        {},
        'site-1.csv:3, column "age": expected a number up to 1e+100, got 1e+308',
    ),
    "order by what is no time": (
        "age,when,label\n1,2024-05-01,1\n2,soon,1\n3,,0\n",
        {"order": "when"},
        'site-1.csv:3, column "when": expected a time or number to order by (data.order), got "soon"',
    ),
    "order by a column that is not there": (
        GOOD,
        {"order": "heigth"},
        'site-1.csv:1: expected a column to order by "heigth", got "age", "height", "label"; did you mean "height"?',
    ),
    "an unknown encoding": (
        GOOD,
        {"encoding": "utf-9"},
        'data.encoding: expected the name of an encoding, got "utf-9"',
    ),
    "zero-based csv": (
        GOOD,
        {"zero_based": True},
        "data.zero_based: expected none, for it is for svmlight files, got true",
    ),
}


@pytest.mark.parametrize("name", ONE_CSV)
def test_one_csv(tmp_path: Path, name: str) -> None:
    text, options, expected = ONE_CSV[name]
    (tmp_path / "site-1.csv").write_text(text, encoding="utf-8")
    assert message(tmp_path, "site-{task}.csv", **options) == expected


@pytest.mark.parametrize("encoding", [None, "utf-8"])
def test_not_utf8(tmp_path: Path, encoding: str | None) -> None:
    """What is UTF-8 elsewhere is damaged here, and not of another encoding."""
    (tmp_path / "a.csv").write_bytes("age,label\ncafé,1\n".encode() + b"\xe9,1\n")
    assert message(tmp_path, "a.csv", encoding=encoding) == "a.csv:3: expected UTF-8 text, got byte 0xe9"


ONE_SVMLIGHT: dict[str, tuple[str, dict[str, Any], str]] = {
    "index 0 in a one-based file": (
        "1 1:1\n\n1 0:1 2:1\n",
        {},
        "a.svm:3: expected feature numbers from 1 (data.zero_based: true takes 0), got 0",
    ),
    "index beyond dim": ("1 1:1 6:1\n", {}, "a.svm:1: expected feature numbers up to 5, got 6"),
    "index beyond dim, zero-based": (
        "1 1:1\n1 5:1\n",
        {"zero_based": True},
        "a.svm:2: expected feature numbers up to 4, got 5",
    ),
    "index beyond 32 bits": (
        "1 1:1 99999999999:1\n",
        {"dim": None, "hash": 8},
        "a.svm:1: expected feature numbers up to 2147483648, got 99999999999",
    ),
    "decreasing indices": ("1 1:1\n1 3:1 2:1\n", {}, "a.svm:2: expected increasing feature numbers, got 2 after 3"),
    "the same index twice": ("1 3:1 3:1\n", {}, "a.svm:1: expected increasing feature numbers, got 3 after 3"),
    "garbage": (
        "1 1:1\n1 2:1 what 3:1\n",
        {},
        'a.svm:2: expected NUMBER:VALUE, got "what"',
    ),
    "negative index": ("1 -1:1\n", {}, 'a.svm:1: expected NUMBER:VALUE, got "-1:1"'),
    "text in a value": ("1 1:big\n", {}, 'a.svm:1: expected a number after "1:", got "big"'),
    "underscore": ("1 1:1_000 # a_b\n", {}, 'a.svm:1: expected a number after "1:", got "1_000"'),
    "no label": ("1:1 2:1\n", {}, 'a.svm:1: expected a number as label, then NUMBER:VALUE, got "1:1"'),
    "a word as label": ("spam 1:1\n", {}, 'a.svm:1: expected a number as label, then NUMBER:VALUE, got "spam"'),
    "NaN": ("1 1:1\n\n1 2:nan\n", {}, "a.svm:3, feature 2: expected a finite number, got nan"),
    "infinity": ("1 2:1e999\n", {}, "a.svm:1, feature 2: expected a finite number, got inf"),
    "NaN as the only label": ("nan 1:1\n", {}, "a.svm, labels: expected labels, got none"),
    "a third label": (
        "# x\n1 1:1\n3 1:1\n-1 1:1\n3 1:1\n",
        {},
        'a.svm, labels: expected two labels, got 3: "3" 2, "-1" 1, "1" 1; '
        'if "1" is +1 and all others -1, write: positive: "1" and rest: negative; '
        'if "3" is no label, write: unlabelled: "3"',
    ),
    "0 and -1": ("0 1:1\n-1 1:1\n", {}, 'a.svm, labels: expected -1 and +1, or 0 and 1, got "-1" 1, "0" 1'),
    "empty file": ("", {}, "a.svm: expected rows, got an empty file"),
    "comments only": ("# nothing\n", {}, "a.svm: expected rows, got none"),
    "no dim": (
        "1 1:1\n1 7:1\n",
        {"dim": None},
        "data.dim: expected the number of features, which svmlight files do not say, got none; "
        "the largest feature number in these files is 7: dim: 7 holds it",
    ),
    "no dim, zero-based": (
        "1 0:1\n1 7:1\n",
        {"dim": None, "zero_based": True},
        "data.dim: expected the number of features, which svmlight files do not say, got none; "
        "the largest feature number in these files is 7: dim: 8 holds it",
    ),
    "center": (
        "1 1:1\n",
        {"center": (1.0,) * 5},
        "data.center: expected none for sparse rows, which it would fill, got one",
    ),
    "site scaling": (
        "1 1:1\n",
        {"scaling": "site"},
        "data.scaling: expected none for sparse rows, which it would fill, got site",
    ),
    "hash that is no power of two": ("1 1:1\n", {"dim": None, "hash": 6}, "data.hash: expected a power of two, got 6"),
    "hash and dim": ("1 1:1\n", {"hash": 8}, "data.dim: expected none, or the same number as data.hash, got 5"),
    "label column": (
        "1 1:1\n",
        {"label": "y"},
        'data.label: expected none, for svmlight files have no such columns, got "y"',
    ),
    "ignored column": (
        "1 1:1\n",
        {"ignore": ("y",)},
        "data.ignore: expected none, for svmlight files have no column names, got some",
    ),
}


@pytest.mark.parametrize("name", ONE_SVMLIGHT)
def test_one_svmlight(tmp_path: Path, name: str) -> None:
    text, options, expected = ONE_SVMLIGHT[name]
    (tmp_path / "a.svm").write_text(text)
    assert message(tmp_path, "a.svm", **({"dim": 5} | options)) == expected


def test_binary_svmlight(tmp_path: Path) -> None:
    # A separator that only text knows; to bytes it is a word.
    (tmp_path / "a.svm").write_bytes(b"1 1:1\n\x1c\n")
    text = message(tmp_path, "a.svm", dim=5)
    assert text == 'a.svm:2: expected a number as label, then NUMBER:VALUE, got "\\u001c"'
    (tmp_path / "a.svm").write_bytes(b"1 1:1\n\xff\xfe\x00 1\n")
    text = message(tmp_path, "a.svm", dim=5)
    assert text.startswith("a.svm:2: expected NUMBER:VALUE, got ")


X = np.ones((2, 2))
Y = np.array([1, 0])
CSR = {
    "data": np.array([1.0, 2.0]),
    "indices": np.array([0, 1]),
    "indptr": np.array([0, 1, 2]),
    "shape": np.array([2, 2]),
    "y": Y,
}

ONE_NPZ: dict[str, tuple[dict[str, Any], str]] = {
    "no X": (
        {"x": X, "y": Y},
        'a.npz: expected an array "X" (the features, or the CSR parts data, indices, indptr and shape), got "x", "y"',
    ),
    "no y": ({"X": X, "z": Y}, 'a.npz: expected an array "y" (the labels), got "X", "z"'),
    "X of one axis": (
        {"X": np.ones(2), "y": Y},
        "a.npz: X: expected numbers of shape (rows, columns), got shape (2,) of float64",
    ),
    "X of text": (
        {"X": np.array([["a"], ["b"]]), "y": Y},
        "a.npz: X: expected numbers of shape (rows, columns), got shape (2, 1) of <U1",
    ),
    "object array": (
        {"X": np.array([[1, "a"]], dtype=object), "y": Y},
        "a.npz: X: expected arrays of numbers or text, got pickled objects, which are not loaded",
    ),
    "lengths differ": (
        {"X": X, "y": np.ones(3)},
        "a.npz: y: expected shape (2,), one item a row of X, got shape (3,)",
    ),
    "no rows": ({"X": np.ones((0, 2)), "y": np.ones(0)}, "a.npz: X: expected at least one row, got none"),
    "NaN": (
        {"X": np.array([[1.0, np.nan]]), "y": Y[:1]},
        "a.npz: X[0, 1]: expected a finite number, got nan",
    ),
    "infinity, sparse": (
        {**CSR, "data": np.array([1.0, np.inf])},
        "a.npz: X[1, 1]: expected a finite number, got inf",
    ),
    "a third label": (
        {"X": np.ones((3, 2)), "y": np.array([1.0, 3.0, 0.0])},
        'a.npz, labels: expected two labels, got 3: "0" 1, "1" 1, "3" 1; '
        'if "1" is +1 and all others -1, write: positive: "1" and rest: negative; '
        'if "3" is no label, write: unlabelled: "3"',
    ),
    "a part missing": (
        {name: part for name, part in CSR.items() if name != "indices"},
        'a.npz: expected an array "indices" (a part of a CSR matrix), got "data", "indptr", "shape", "y"',
    ),
    "not CSR": (
        {**CSR, "format": np.array(b"csc")},
        'a.npz: format: expected "csr", got "csc"; save_npz(file, matrix.tocsr()) writes it',
    ),
    "indices beyond the shape": (
        {**CSR, "indices": np.array([0, 2])},
        "a.npz: X: expected CSR parts that fit together, got an error (column index values must be < 2)",
    ),
    "indptr that is not": (
        {**CSR, "indptr": np.array([0, 1])},
        "a.npz: X: expected CSR parts that fit together, got an error (index pointer size 2 should be 3)",
    ),
    "shape of text": (
        {**CSR, "shape": np.array(["a", "b"])},
        "a.npz: X: expected CSR parts that fit together, got an error "
        "(data must be numbers, the other parts whole numbers)",
    ),
}


@pytest.mark.parametrize("name", ONE_NPZ)
def test_one_npz(tmp_path: Path, name: str) -> None:
    arrays, expected = ONE_NPZ[name]
    np.savez(tmp_path / "a.npz", **arrays)
    text = message(tmp_path, "a.npz")
    # SciPy's own words differ between its versions.
    assert text == expected or ("fit together" in text and text.split("(")[0] == expected.split("(")[0])


def _pickle(path: Path) -> None:
    np.array([{}], dtype=object).dump(path)


def _cut(path: Path) -> None:
    np.savez(path, X=np.ones((100, 10)), y=np.ones(100))
    path.write_bytes(path.read_bytes()[:2000])


def _flipped(path: Path) -> None:
    np.savez_compressed(path, X=np.random.default_rng(0).random((100, 10)), y=np.ones(100))
    data = bytearray(path.read_bytes())
    data[1000] ^= 0xFF
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (_pickle, "a.npz: expected arrays of numbers or text, got pickled objects, which are not loaded"),
        (_cut, "a.npz: expected a whole NPZ archive, got a damaged one or another file"),
        (_flipped, "a.npz: X: expected a whole NPZ archive, got a damaged one or another file"),
        (lambda path: path.write_bytes(b""), "a.npz: expected a whole NPZ archive, got a damaged one or another file"),
        (
            lambda path: np.save(path.open("wb"), X),
            "a.npz: expected an NPZ archive with arrays X and y, got a single array",
        ),
    ],
    ids=["pickle", "cut", "flipped", "empty", "npy"],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_not_an_npz(tmp_path: Path, make: Callable[[Path], object], expected: str) -> None:
    make(tmp_path / "a.npz")
    assert message(tmp_path, "a.npz") == expected


ONE_PARQUET: dict[str, tuple[dict[str, Any], str]] = {
    "wrong label column": (
        {"x": [1.0], "lable": [1]},
        'a.parquet:1: expected a label column "label", got "x", "lable"; did you mean "lable"?',
    ),
    "a column of lists": (
        {"x": [[1.0]], "y": pa.array([b"1"]), "label": [1]},
        'a.parquet, column "x": expected numbers, texts, dates or yes/no, got the type list<element: double>; '
        "data.ignore leaves it out\n"
        'a.parquet, column "y": expected numbers, texts, dates or yes/no, got the type binary; '
        "data.ignore leaves it out",
    ),
    "infinity": (
        {"x": [1.0, float("inf")], "label": [1, 1]},
        'a.parquet, row 2, column "x": expected a finite number, got inf',
    ),
    "missing labels only": (
        {"x": [1.0, 2.0], "label": pa.array([None, None], pa.int64())},
        'a.parquet, column "label": expected labels, got none',
    ),
    "no rows": (
        {"x": pa.array([], pa.float64()), "label": pa.array([], pa.int64())},
        "a.parquet: expected rows, got none",
    ),
}


@pytest.mark.parametrize("name", ONE_PARQUET)
def test_one_parquet(tmp_path: Path, name: str) -> None:
    columns, expected = ONE_PARQUET[name]
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert message(tmp_path, "a.parquet") == expected


@pytest.mark.parametrize("data", [b"", b"PAR1 and no more", b"x,label\n1,1\n"])
def test_not_a_parquet(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(data)
    assert (
        message(tmp_path, "a.parquet") == "a.parquet: expected a whole Parquet file, got a damaged one or another file"
    )


# --- the files themselves ----------------------------------------------------------------------------


SVM: dict[str, dict[str, Any]] = {"csv": {}, "svm": {"dim": 5}, "npz": {}, "parquet": {}}


@pytest.mark.parametrize("suffix", ["csv", "svm", "npz", "parquet"])
def test_missing_file_and_folder(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"site-2.{suffix}").mkdir()
    text = message(tmp_path, f"site-{{task}}.{suffix}", tasks=("1", "2"), **SVM[suffix])
    assert text == (
        f'site-1.{suffix}: expected a file, got none of this name; did you mean "site-2.{suffix}"?\n'
        f"site-2.{suffix}: expected a file, got a folder"
    )


@pytest.mark.parametrize("suffix", ["csv", "svm", "npz", "parquet"])
def test_unreadable(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "open", refuse)  # chmod would not stop a superuser
    assert (
        message(tmp_path, f"a.{suffix}", **SVM[suffix])
        == f"a.{suffix}: expected a file that can be read, got permission denied"
    )


def test_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    hint = "relative names start at data.directory, or at DROM_NET_DATA where it is set"
    assert message(tmp_path, "a\0.csv") == f"a\0.csv: expected a file, got none of this name; {hint}"
    assert "expected a file that can be read, got file name too long" in message(tmp_path, "a" * 300 + ".csv")


@pytest.mark.parametrize("suffix", ["csv", "svm"])
def test_gz_that_is_not(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.{suffix}.gz").write_text(GOOD)
    expected = f"a.{suffix}.gz: expected gzip data, as its name says, got something else"
    assert message(tmp_path, f"a.{suffix}.gz", **SVM[suffix]) == expected


@pytest.mark.parametrize("suffix", ["csv", "svm"])
def test_gz_cut_off_or_damaged(tmp_path: Path, suffix: str) -> None:
    name = f"a.{suffix}.gz"
    packed = gzip.compress(GOOD.encode() if suffix == "csv" else b"1 1:1\n" * 9, mtime=0)
    (tmp_path / name).write_bytes(packed[:-12])
    assert message(tmp_path, name, **SVM[suffix]) == f"{name}: expected a whole gzip file, got one that is cut off"
    (tmp_path / name).write_bytes(packed[:-8] + b"0000" + packed[-4:])
    assert message(tmp_path, name, **SVM[suffix]) == f"{name}: expected gzip data, as its name says, got a damaged one"
    (tmp_path / name).write_bytes(packed[:10] + b"\xff" * 20)
    with pytest.raises(zlib.error):
        gzip.decompress(packed[:10] + b"\xff" * 20)
    assert message(tmp_path, name, **SVM[suffix]) == f"{name}: expected gzip data, as its name says, got a damaged one"


@pytest.mark.parametrize("suffix", ["csv", "svm"])
def test_zstd_that_is_not_or_is_cut_off(tmp_path: Path, suffix: str) -> None:
    name = f"a.{suffix}.zst"
    packed = pa.Codec("zstd").compress(GOOD.encode() if suffix == "csv" else b"1 1:1\n" * 9, asbytes=True)
    for data in (packed[:-5], packed[:3], GOOD.encode()):
        (tmp_path / name).write_bytes(data)
        expected = f"{name}: expected a whole zstd file, as its name says, got a damaged one or another file"
        assert message(tmp_path, name, **SVM[suffix]) == expected


def test_unknown_format(tmp_path: Path) -> None:
    assert message(tmp_path, "a.xls") == (
        "data.files: expected a name that ends in .csv, .tsv, .tab, .txt, .svmlight, .libsvm, .svm, .npz, .parquet, "
        '.pq, or data.format, got "a.xls"'
    )
    assert message(tmp_path, "a.npz.gz") == (
        'data.files: expected npz files as they are (they are packed already), got "a.npz.gz"'
    )


# --- tasks -------------------------------------------------------------------------------------------


def test_other_columns_in_another_task(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y,label\n1,2,1\n")
    (tmp_path / "b.csv").write_text("x,label,yy\n1,1,2\n")
    (tmp_path / "c.csv").write_text("x,label\n1,1\n")
    (tmp_path / "d.csv").write_text("x,y,z,label\n1,1,1,1\n")
    assert message(tmp_path, "{task}.csv") == (
        'b.csv:1: expected a column "y", as in a.csv, got none; did you mean "yy"?\n'
        'b.csv:1: expected the columns of a.csv, got "yy" as well; data.ignore leaves it out\n'
        'c.csv:1: expected a column "y", as in a.csv, got none\n'
        'd.csv:1: expected the columns of a.csv, got "z" as well; data.ignore leaves it out'
    )


def test_two_dims(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.ones((1, 2)), y=np.ones(1))
    np.savez(tmp_path / "b.npz", X=np.ones((1, 3)), y=np.ones(1))
    matrix = scipy.sparse.csr_matrix(np.ones((1, 2)))
    np.savez(
        tmp_path / "c.npz",
        data=matrix.data,
        indices=matrix.indices,
        indptr=matrix.indptr,
        shape=matrix.shape,
        y=np.ones(1),
    )
    assert message(tmp_path, "{task}.npz") == (
        "b.npz: expected 2 columns, as in a.npz, got 3\nc.npz: expected dense rows, as in a.npz, got sparse rows"
    )


def test_pattern_that_matches_nothing(tmp_path: Path) -> None:
    expected = (
        'data.files: expected files like "site-{task}.csv", got none; '
        "relative names start at data.directory, by default the folder of the YAML file"
    )
    assert message(tmp_path, "site-{task}.csv") == expected
    with pytest.raises(DataError) as caught:
        task_names(FileData(files="site-{task}.csv"), tmp_path)
    assert str(caught.value) == expected


def test_file_name_that_names_no_task(tmp_path: Path) -> None:
    (tmp_path / " my  site.csv").write_text(GOOD)
    assert message(tmp_path, "{task}.csv") == (
        " my  site.csv: expected as the name of a task a name of 1 to 200 characters, none of them a control "
        'character, got " my  site"; blanks around it, or several side by side, are left out'
    )


def test_several_tasks_in_one_file_without_a_task_column(tmp_path: Path) -> None:
    assert message(tmp_path, "a.csv", tasks=("a", "b")) == (
        'data.files: expected a pattern with {task}, or data.task_column, got "a.csv" for 2 tasks'
    )


def test_duplicate_task_names(tmp_path: Path) -> None:
    assert message(tmp_path, "{task}.csv", tasks=("a", "b", "a")) == (
        'data.tasks: expected different names, got "a" more than once'
    )


def test_pattern_and_task_column(tmp_path: Path) -> None:
    assert message(tmp_path, "{task}.csv", task_column="site") == (
        'data.task_column: expected none beside a file for each task ({task} in data.files), got "site"'
    )


def test_task_that_does_not_occur_in_the_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,site,label\n1,north,1\n")
    assert message(tmp_path, "a.csv", task_column="site", tasks=("north", "nroth")) == (
        'a.csv, column "site": expected rows of the task "nroth", got none; did you mean "north"?'
    )
    assert message(tmp_path, "a.csv", task_column="sight") == (
        'a.csv:1: expected a task column "sight", got "x", "site", "label"; did you mean "site"?'
    )


def test_row_without_a_task(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,site,label\n1,north,1\n1,,1\n")
    assert message(tmp_path, "a.csv", task_column="site") == (
        'a.csv:3, column "site": expected as the name of a task a name of 1 to 200 characters, '
        "none of them a control character, got nothing (a missing value)"
    )


def test_a_task_with_a_control_character(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,site,label\n1,north,1\n1,so\0uth,1\n1,\x1b[31mred,1\n")
    expected = "expected as the name of a task a name of 1 to 200 characters, none of them a control character"
    assert message(tmp_path, "a.csv", task_column="site") == (
        f'a.csv:3, column "site": {expected}, got "so\\u0000uth"\n'
        f'a.csv:4, column "site": {expected}, got "\\u001b[31mred"'
    )


def test_features_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(GOOD)
    hint = "relative names start at data.directory, or at DROM_NET_DATA where it is set"
    assert message(tmp_path, "a.csv", features="names.txt") == (
        f"names.txt: expected a file, got none of this name; {hint}"
    )
    (tmp_path / "names.txt").write_text("age\nage\n")
    assert message(tmp_path, "a.csv", features="names.txt") == (
        'names.txt: expected different column names, got "age" more than once'
    )
    (tmp_path / "names.txt").write_text("age\nheight\n")
    assert message(tmp_path, "a.svm", features="names.txt", dim=3) == (
        "data.dim: expected 2, as many as data.features, got 3"
    )
    (tmp_path / "names.txt").write_text("\n")
    assert message(tmp_path, "a.csv", features="names.txt") == "names.txt: expected at least one column name, got none"


# --- many at once ------------------------------------------------------------------------------------


def test_all_files_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,label\n1,3,4\n1\n")
    (tmp_path / "b.csv").write_text("")
    assert message(tmp_path, "{task}.csv", tasks=("a", "b", "c")) == (
        "b.csv: expected a line of column names, got an empty file\n"
        'c.csv: expected a file, got none of this name; did you mean "b.csv"?\n'
        "a.csv:2: expected 2 fields, as in the header, got 3\n"
        "a.csv:3: expected 2 fields, as in the header, got 1"
    )


def test_labels_and_cells_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y,label\nbad,1,1\n1,1e200,3\n1,1,0\n")
    (tmp_path / "b.csv").write_text("x,y,label\n1,1,1\n1,off,3\n")
    told = message(tmp_path, "{task}.csv", columns=(Column("x", "number"), Column("y", "number")))
    assert told == (
        '{task}.csv, column "label", "0" in a.csv: expected two labels, got 3: "1" 2, "3" 2, "0" 1; '
        'if "1" is +1 and all others -1, write: positive: "1" and rest: negative; '
        'if "3" is no label, write: unlabelled: "3"\n'
        f'a.csv:2, column "x": expected a number, got "bad"; {NUMBER}\n'
        'a.csv:3, column "y": expected a number up to 1e+100, got 1e+200\n'
        f'b.csv:3, column "y": expected a number, got "off"; {NUMBER}'
    )


def test_a_third_label_is_told_with_its_file(tmp_path: Path) -> None:
    for name, labels in (("north", "ja nein nein"), ("south", "ja nein unbekannt"), ("west", "nein ja ja")):
        (tmp_path / f"{name}.csv").write_text("x,label\n" + "".join(f"1.5,{label}\n" for label in labels.split()))
    place = '{task}.csv, column "label", "unbekannt" in south.csv: expected '
    assert message(tmp_path, "{task}.csv").startswith(place + "two labels, got 3: ")
    assert message(tmp_path, "{task}.csv", positive=("ja",)).startswith(place + '"ja" (data.positive) and one other')
    told = message(tmp_path, "{task}.csv", positive=("ja",), negative=("nein",))
    assert told.startswith(place + "a label of data.positive or data.negative")
    told = message(tmp_path, "{task}.csv", unlabelled=("unbekannt",), positive=("gut",))
    assert told.startswith("data.positive: expected a label that occurs")
    (tmp_path / "south.csv").write_text("x,label\n1.5,vielleicht\n2.5,unbekannt\n")
    told = message(tmp_path, "{task}.csv", tasks=("north", "south", "west"))
    assert told.startswith('{task}.csv, column "label", "unbekannt", "vielleicht" in south.csv: expected two labels')
    for name in ("north", "south", "west"):
        labels = "123" if name == "west" else "12"
        (tmp_path / f"{name}.svm").write_text("".join(f"{label} 1:0.5\n" for label in labels))
    assert message(tmp_path, "{task}.svm").startswith('{task}.svm, labels, "3" in west.svm: expected two labels, got 3')


def test_a_column_of_text_does_not_hide_the_rest(tmp_path: Path) -> None:
    """Each different text of a column is told once, and at most three of them."""
    texts = "".join(f"bad{number},1,1\n" for number in range(1000) for _ in range(2))
    (tmp_path / "a.csv").write_text("x,y,label\n" + texts + "1,bad,1\n")
    told = message(tmp_path, "a.csv", columns=(Column("x", "number"), Column("y", "number")))
    assert told.splitlines() == [
        f'a.csv:{line}, column "x": expected a number, got "bad{(line - 2) // 2}" (2 rows); {NUMBER}'
        for line in (2, 4, 6)
    ] + [f'a.csv:2002, column "y": expected a number, got "bad"; {NUMBER}', "and 997 more"]


def test_at_most_twenty(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",".join(f"x{i}" for i in range(30)) + ",label\n" + "bad," * 30 + "1\n")
    columns = tuple(Column(f"x{i}", "number") for i in range(30))
    lines = message(tmp_path, "a.csv", columns=columns).splitlines()
    assert len(lines) == 21 and lines[-1] == "and 10 more"


# --- no other exception ------------------------------------------------------------------------------


def _whole_files(base: Path) -> dict[str, bytes]:
    rows, labels = np.arange(12.0).reshape(4, 3), np.array([1, 0, 1, 0])
    np.savez(base / "dense.npz", X=rows, y=labels)
    np.savez_compressed(base / "sparse.npz", **{**CSR, "format": np.array(b"csr")})
    columns = {"x": rows[:, 0], "name": ["a", "b", "a", "b"], "label": ["1", "0", "1", "0"]}
    pq.write_table(pa.table(columns), base / "a.parquet")
    csv = b'x,"y z",name,when,label\n1,2,a,2024-05-01,1\n-3e5,"4",b,2024-05-02 10:00,0\n,4.5,a,,1\n'
    svmlight = b"1 1:0.5 3:2 # note\n-1 2:1\n"
    return {
        "a.csv": csv,
        "a.csv.gz": gzip.compress(csv, mtime=0),
        "a.csv.zst": pa.Codec("zstd").compress(csv, asbytes=True),
        "wide.csv": csv.decode().encode("utf-16"),
        "a.svm": svmlight,
        "a.svm.gz": gzip.compress(svmlight, mtime=0),
        "dense.npz": (base / "dense.npz").read_bytes(),
        "sparse.npz": (base / "sparse.npz").read_bytes(),
        "a.parquet": (base / "a.parquet").read_bytes(),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("a.csv", "a.csv.gz", "a.csv.zst", "wide.csv", "a.parquet"),
        *("a.svm", "a.svm.gz", "dense.npz", "sparse.npz"),
    ],
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(data=st.data())
def test_damaged_files_raise_nothing_else(tmp_path: Path, name: str, data: st.DataObject) -> None:
    """Whatever the bytes are: rows that can be learned, or a DataError."""
    if not (tmp_path / "whole").exists():
        (tmp_path / "whole").mkdir()
    whole = _whole_files(tmp_path / "whole")[name]
    start = data.draw(st.integers(0, len(whole)))
    length = data.draw(st.sampled_from([0, 1, 1, 4, len(whole)]))
    new = data.draw(st.binary(max_size=6) | st.sampled_from([b"\n", b'"', b"nan", b":", b",", b"\x00", b"9" * 30]))
    (tmp_path / name).write_bytes(whole[:start] + new + whole[start + length :])
    options: dict[str, Any] = {"dim": 3} if "svm" in name else {}
    try:
        dataset = load_dataset(FileData(files=name, **options), base=tmp_path)
    except DataError as error:
        assert str(error)
    else:
        assert set(dataset.tasks[0].labels) <= {-1.0, 0.0, 1.0}
        rows = dataset.preprocessing.apply(dataset.tasks[0].rows, "task-1")
        assert np.isfinite(rows.values if isinstance(rows, SparseRows) else rows).all()
