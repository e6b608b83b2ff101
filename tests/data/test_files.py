"""Good files of every format give the numbers they hold; sparse stays sparse."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from drom_net.core.errors import DataError, UsageError
from drom_net.data.columns import Column
from drom_net.data.dataset import Dataset
from drom_net.data.datasets import known_dim, load_dataset, task_names
from drom_net.data.preprocessing import fold, unit_rows
from drom_net.data.settings import FileData
from drom_net.data.stream import SparseRows

same_folder = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)


def load(base: Path, files: str, only: str | int | None = None, **options: Any) -> Dataset:
    """The rows as they are encoded, not yet prepared."""
    return load_dataset(FileData(files=files, **options), base=base, only=only)


def prepared(data: Dataset) -> list[Any]:
    """Each task's rows as its learner sees them."""
    return [data.preprocessing.apply(task.rows, task.name) for task in data.tasks]


def numbers(data: Dataset, task: int = 0) -> np.ndarray[Any, Any]:
    """A task's numbers, without what is hashed behind them: nothing is, in these tables."""
    width = data.preprocessing.numbers
    rows = dense(data.tasks[task].rows)
    assert not rows[:, width:].any()
    return rows[:, :width]


def of_kinds(**kinds: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name, kind in kinds.items())


def dense(rows: Any) -> np.ndarray[Any, Any]:
    if not isinstance(rows, SparseRows):
        return np.asarray(rows)
    return scipy.sparse.csr_array((rows.values, rows.indices, rows.indptr), (len(rows.indptr) - 1, rows.dim)).toarray()


def write(base: Path, **texts: str) -> None:
    for name, text in texts.items():
        (base / name.replace("_", ".")).write_text(text, newline="")


# --- CSV ---------------------------------------------------------------------------------------------


def test_csv_of_two_tasks(tmp_path: Path) -> None:
    write(tmp_path, a_csv="age,label,height\n1,1,2\n3,-1,4\n", b_csv="age,label,height\n5,-1,6\n")
    data = load(tmp_path, "{task}.csv")
    assert [task.name for task in data.tasks] == ["a", "b"]
    assert data.features == ("age", "height", "hashed 0", "bias") and data.dim == 4
    assert not data.is_prepared
    first = data.tasks[0].rows
    assert isinstance(first, np.ndarray) and first.dtype == np.float64 and first.flags.c_contiguous
    np.testing.assert_array_equal(first, [[1, 2, 0], [3, 4, 0]])
    np.testing.assert_array_equal(data.tasks[0].labels, [1.0, -1.0])
    np.testing.assert_array_equal(data.tasks[1].labels, [-1.0])


def test_csv_byte_order_mark_crlf_quotes_blank_lines_and_spaces(tmp_path: Path) -> None:
    text = '\ufeff"the, age",label\r\n\r\n" 1.5 ",+1\r\n   \r\n-2e3, 0 \r\n'
    (tmp_path / "a.csv").write_bytes(text.encode())
    data = load(tmp_path, "a.csv")
    assert [column.name for column in data.preprocessing.schema.columns] == ["the, age"]  # type: ignore[union-attr]
    assert data.tasks[0].name == "task-1"
    np.testing.assert_array_equal(numbers(data), [[1.5], [-2000.0]])
    np.testing.assert_array_equal(data.tasks[0].labels, [1.0, -1.0])


def test_csv_gz(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x,label\n7,1\n"))
    np.testing.assert_array_equal(numbers(load(tmp_path, "{task}.csv.gz")), [[7.0]])


@same_folder
@given(arrays(np.float64, (3, 2), elements=st.floats(-1e100, 1e100)))
def test_csv_round_trip_is_exact(tmp_path: Path, rows: np.ndarray[Any, Any]) -> None:
    lines = [f"{a!r},1,{b!r}" for a, b in rows.tolist()]
    write(tmp_path, a_csv="\n".join(["x,label,y", *lines]))
    data = load(tmp_path, "a.csv", columns=of_kinds(x="number", y="number"))
    np.testing.assert_array_equal(numbers(data), rows)


def test_features_are_taken_in_the_order_asked_for(tmp_path: Path) -> None:
    write(tmp_path, a_csv="x,label,y,z\n1.5,1,2,3\n", names_txt="z\n\nx\n")
    for features in (("z", "x"), "names.txt"):
        data = load(tmp_path, "a.csv", features=features)
        np.testing.assert_array_equal(numbers(data), [[3, 1.5]])
        assert data.features == ("z", "x", "hashed 0", "bias")
        assert known_dim(FileData(files="a.csv", features=features), tmp_path) is None, "their kinds say it"
        assert known_dim(FileData(files="a.svm", features=features), tmp_path) == 3
    columns = of_kinds(z="number", x="number")
    assert (
        known_dim(FileData(files="a.csv", columns=columns), tmp_path)
        == load(tmp_path, "a.csv", columns=columns, ignore=("y",)).dim
        == 4
    )
    assert load(tmp_path, "a.csv", ignore=("y",)).features == ("x", "z", "hashed 0", "bias")


def test_text_in_a_column_that_is_not_used(tmp_path: Path) -> None:
    write(tmp_path, a_csv="who,x,label\nAnn,7,1\n")
    assert load(tmp_path, "a.csv", ignore=("who",)).features == ("x", "hashed 0", "bias")
    left_out = load(tmp_path, "a.csv", columns=of_kinds(who="ignored"))
    assert left_out.features == ("x", "hashed 0", "bias")


def test_task_column_in_natural_order(tmp_path: Path) -> None:
    write(tmp_path, a_csv="x,site,label\n1,s10,1\n2,s9,0\n3,s10,0\n")
    data = load(tmp_path, "a.csv", task_column="site")
    assert [task.name for task in data.tasks] == ["s9", "s10"]
    np.testing.assert_array_equal(numbers(data, 1), [[1], [3]])
    assert data.features == ("x", "hashed 0", "bias")
    assert task_names(FileData(files="a.csv", task_column="site"), tmp_path) == ("s9", "s10")


def test_a_lone_worker_keeps_its_own_rows_only(tmp_path: Path) -> None:
    # The fault in the other task's row is not its business.
    write(tmp_path, a_csv="x,site,label\n1,a,1\nnone,b,7\n3,a,0\n")
    options: dict[str, Any] = {"task_column": "site", "tasks": ("b", "a"), "columns": of_kinds(x="number")}
    for only in ("a", 1):
        data = load(tmp_path, "a.csv", only=only, **options)
        assert [task.name for task in data.tasks] == ["a"]
        np.testing.assert_array_equal(numbers(data), [[1], [3]])
    with pytest.raises(DataError) as caught:
        load(tmp_path, "a.csv", only="a", task_column="site", tasks=("b", "a"))
    assert str(caught.value) == (
        'data.columns: expected the kind of column "x", got none; '
        "a node that sees only its own rows cannot tell what others have; `drom-net init` writes all"
    )


def test_a_lone_worker_reads_its_own_file_only(tmp_path: Path) -> None:
    write(tmp_path, a_csv="x,label\n1,1\n")
    assert len(load(tmp_path, "{task}.csv", tasks=("a", "b"), columns=of_kinds(x="number"), only="a").tasks) == 1
    with pytest.raises(DataError) as caught:
        load(tmp_path, "{task}.csv", only="a")
    assert str(caught.value) == (
        "data.tasks: expected the names of all tasks, in order, got none; "
        "a node started by hand needs them; `drom-net init` writes them"
    )


def test_unknown_task() -> None:
    settings = FileData(files="{task}.csv", tasks=("north", "south"))
    with pytest.raises(DataError) as caught:
        load_dataset(settings, base=Path(), only="nroth")
    assert str(caught.value) == 'task: expected one of north, south, got "nroth"; did you mean "north"?'
    with pytest.raises(DataError) as caught:
        load_dataset(settings, base=Path(), only=2)
    assert str(caught.value) == "task: expected a number from 0 to 1, got 2"


def test_tasks_are_found_in_file_names(tmp_path: Path) -> None:
    for name in ("s10", "s9"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.[x].csv").write_text("x,label\n1,1\n")
    (tmp_path / "s9" / "other.[x].csv").write_text("")
    files = FileData(files="{task}/{task}.[x].csv")
    assert task_names(files, tmp_path) == ("s9", "s10")
    absolute = FileData(files=f"{tmp_path}/{{task}}/{{task}}.[x].csv")
    assert task_names(absolute, Path("elsewhere")) == ("s9", "s10")


def test_constant_labels_are_allowed(tmp_path: Path) -> None:
    write(tmp_path, a_csv="x,label\n1,0\n2,0\n5,0\n")
    np.testing.assert_array_equal(load(tmp_path, "a.csv").tasks[0].labels, [-1.0, -1.0, -1.0])


def test_positive_names_the_label(tmp_path: Path) -> None:
    write(tmp_path, a_csv="x,label\n1,spam\n2,ham\n3,eggs\n")
    data = load(tmp_path, "a.csv", positive=("spam",), rest="negative")
    np.testing.assert_array_equal(data.tasks[0].labels, [1.0, -1.0, -1.0])
    assert data.positive == "label spam"
    write(tmp_path, a_csv="x,label\n1,2.0\n2,1\n")
    np.testing.assert_array_equal(load(tmp_path, "a.csv", positive=("2",)).tasks[0].labels, [1.0, -1.0])


# --- svmlight ----------------------------------------------------------------------------------------


def test_svmlight_is_sparse_and_drops_zeros(tmp_path: Path) -> None:
    text = "# a comment\n+1 1:0.5 3:2 # more\n\n0 2:0 4:-1\r\n1\n"
    write(tmp_path, a_svm=text)
    data = load(tmp_path, "a.svm", dim=5)
    rows = data.tasks[0].rows
    assert isinstance(rows, SparseRows) and rows.dim == 5
    assert (rows.indptr.dtype, rows.indices.dtype, rows.values.dtype) == (np.int64, np.int32, np.float64)
    np.testing.assert_array_equal(rows.indptr, [0, 2, 3, 3])
    np.testing.assert_array_equal(rows.indices, [0, 2, 3])
    np.testing.assert_array_equal(rows.values, [0.5, 2, -1])
    np.testing.assert_array_equal(data.tasks[0].labels, [1, -1, 1])


def test_svmlight_zero_based_and_gz(tmp_path: Path) -> None:
    (tmp_path / "a.svmlight.gz").write_bytes(gzip.compress(b"1 0:1 4:2\n"))
    data = load(tmp_path, "a.svmlight.gz", dim=5, zero_based=True)
    np.testing.assert_array_equal(dense(data.tasks[0].rows), [[1, 0, 0, 0, 2]])


def test_svmlight_names_give_dim(tmp_path: Path) -> None:
    write(tmp_path, a_svm="1 1:1\n", names_txt="good\nbad\n")
    data = load(tmp_path, "a.svm", features="names.txt")
    assert data.dim == 3 and data.features == ("good", "bad", "bias")


@same_folder
@given(
    arrays(np.float64, (4, 3), elements=st.sampled_from([0.0, 1.0, -2.5, 1e100, 3e-310])),
    st.booleans(),
    st.sampled_from([0.0, 1.0, 0.25]),
)
def test_sparse_and_dense_agree(tmp_path: Path, rows: np.ndarray[Any, Any], normalize: bool, bias: float) -> None:
    csv = ["label,x,y,z", *(",".join(["1", *map(repr, row)]) for row in rows.tolist())]
    svm = [" ".join(["1", *(f"{i}:{v!r}" for i, v in enumerate(row, 1) if v)]) for row in rows.tolist()]
    write(tmp_path, a_csv="\n".join(csv), a_svm="\n".join(svm))
    options: dict[str, Any] = {"normalize": normalize, "bias": bias, "scale": (2.0, 1.0, 4.0)}
    columns = of_kinds(x="number", y="number", z="number")
    from_csv = load(tmp_path, "a.csv", columns=columns, **options)
    from_svm = load(tmp_path, "a.svm", dim=3, **options)
    assert from_csv.dim == from_svm.dim + 1 == 4 + (bias > 0), "a place for what is missing"
    assert isinstance(from_svm.tasks[0].rows, SparseRows)
    (one,), (other,) = prepared(from_csv), prepared(from_svm)
    assert not one[:, 3].any()
    one = np.delete(one, 3, axis=1)
    if normalize and bias:  # words are brought to unit norm alone first
        plain = load(tmp_path, "a.csv", columns=columns, **(options | {"normalize": False}))
        one = unit_rows(np.column_stack([unit_rows(prepared(plain)[0][:, :3]), np.full(4, bias)]))
    # The squares of a row are added in another order.
    np.testing.assert_allclose(dense(other), one, rtol=4e-15, atol=1e-322)  # a denormal has few digits


def test_hash_folds_with_signs_and_is_fixed(tmp_path: Path) -> None:
    write(tmp_path, a_svm="1 1:1 2:1 3:1 4:1 2000000000:5\n")
    data = load(tmp_path, "a.svm", hash=8, normalize=False)
    assert data.dim == 9 and known_dim(FileData(files="a.svm", hash=8), tmp_path) == 9
    expected = np.append(np.zeros(8), 1.0)  # the bias is last
    mask = 2**64 - 1
    for number, value in ((1, 1), (2, 1), (3, 1), (4, 1), (2_000_000_000, 5)):
        z = number * 0x9E3779B97F4A7C15 & mask  # the number from 0, plus 1
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        z ^= z >> 31
        expected[z % 8] += -value if z >> 63 else value
    np.testing.assert_array_equal(dense(prepared(data)[0]), [expected])


def test_fold_drops_what_cancels() -> None:
    many = SparseRows(np.array([0, 0, 4096, 4096]), np.arange(4096, dtype=np.int32), np.ones(4096), 4096)
    folded = fold(many, 2)
    assert folded.indptr[0] == folded.indptr[1] == 0 and folded.indptr[2] == folded.indptr[3]
    assert np.all(folded.values != 0.0)
    assert np.all(np.abs(folded.values) < 256)  # signs: 4096 coins, not 4096


# --- NPZ and Parquet ---------------------------------------------------------------------------------


def test_npz_dense(tmp_path: Path) -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "a.npz", X=np.asfortranarray(rows), y=np.array([True, False]))
    task = load(tmp_path, "a.npz").tasks[0]
    assert isinstance(task.rows, np.ndarray) and task.rows.flags.c_contiguous and task.rows.dtype == np.float64
    np.testing.assert_array_equal(task.rows, rows)
    np.testing.assert_array_equal(task.labels, [1.0, -1.0])


def test_npz_with_tasks_and_another_label(tmp_path: Path) -> None:
    X = np.array([[1.0], [np.nan], [3.0]])
    np.savez(tmp_path / "a.npz", X=X, kind=np.array(["a", "b", "a"]), site=np.array([2, 1, 2]))
    options: dict[str, Any] = {"label": "kind", "positive": ("a",), "task_column": "site", "tasks": ("1", "2")}
    data = load(tmp_path, "a.npz", only="2", **options)
    np.testing.assert_array_equal(data.tasks[0].rows, [[1], [3]])
    np.testing.assert_array_equal(data.tasks[0].labels, [1, 1])
    with pytest.raises(DataError) as caught:
        load(tmp_path, "a.npz", **options)
    assert str(caught.value) == "a.npz: X[1, 0]: expected a finite number, got nan"


def test_npz_sparse_parts_of_save_npz(tmp_path: Path) -> None:
    matrix = scipy.sparse.csr_matrix(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]))
    scipy.sparse.save_npz(tmp_path / "plain.npz", matrix)
    with np.load(tmp_path / "plain.npz") as parts:
        np.savez(tmp_path / "a.npz", **parts, y=np.array([1, -1]))
    task = load(tmp_path, "a.npz").tasks[0]
    assert isinstance(task.rows, SparseRows)
    np.testing.assert_array_equal(dense(task.rows), matrix.toarray())


def test_npz_sparse_is_sorted_and_without_duplicates(tmp_path: Path) -> None:
    parts = {"data": [1.0, 2.0, 3.0], "indices": [2, 0, 2], "indptr": [0, 3], "shape": [1, 3]}
    np.savez(tmp_path / "a.npz", y=np.array([1]), **{name: np.array(part) for name, part in parts.items()})
    rows = load(tmp_path, "a.npz").tasks[0].rows
    assert isinstance(rows, SparseRows)
    np.testing.assert_array_equal(rows.indices, [0, 2])
    np.testing.assert_array_equal(rows.values, [2.0, 4.0])


def test_parquet(tmp_path: Path) -> None:
    columns = {"site": ["b", "a", "b"], "x": [1, 2, 3], "label": [1, 0, 0], "on": [True, False, False]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    data = load(tmp_path, "a.parquet", task_column="site")
    assert data.features == ("x", "on", "hashed 0", "bias")
    np.testing.assert_array_equal(data.tasks[1].rows, [[1, 1, 0], [3, 0, 0]])
    np.testing.assert_array_equal(data.tasks[1].labels, [1, -1])
    kinds = of_kinds(x="number", on="yes/no")
    lone = load(tmp_path, "a.parquet", task_column="site", tasks=("a", "b"), columns=kinds, only=1)
    np.testing.assert_array_equal(lone.tasks[0].rows, data.tasks[1].rows)


def test_parquet_index_of_pandas_is_no_feature(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [5], "label": [1], "__index_level_0__": [7]}), tmp_path / "a.parquet")
    assert load(tmp_path, "a.parquet").features == ("x", "hashed 0", "bias")


@pytest.mark.parametrize(
    ("file", "module", "message"),
    [
        ("a.parquet", "pyarrow", "Parquet files need a package that is missing: pip install 'drom-net[tables]'"),
        ("a.csv", "pyarrow", "CSV files need a package that is missing: pip install 'drom-net[tables]'"),
        (
            "a.csv.zst",
            "pyarrow",
            "files that are packed by zstd need a package that is missing: pip install 'drom-net[tables]'",
        ),
        ("a.svm", "sklearn.datasets", "svmlight files need a package that is missing: pip install 'drom-net[data]'"),
    ],
)
def test_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, module: str, message: str) -> None:
    (tmp_path / file).write_text("x,label\n2,1\n")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError) as caught:
        load(tmp_path, file, **({"dim": 1} if file == "a.svm" else {}))
    assert str(caught.value) == message


# --- preprocessing -----------------------------------------------------------------------------------


def test_center_scale_bias_and_unit_norm(tmp_path: Path) -> None:
    """ "together with the constant `bias` (.. inside the norm, not after it ..) brought to unit norm"."""
    write(tmp_path, a_csv="x,y,label\n3,7,1\n1,1,0\n")
    data = load(tmp_path, "a.csv", center=(1.0, 1.0), scale=(1.0, 2.0), bias=6.0)
    assert data.preprocessing.scaling == "none", "who gives constants wants no others"
    np.testing.assert_allclose(
        prepared(data)[0], [[2 / 7, 3 / 7, 0.0, 6 / 7], [0.0, 0.0, 0.0, 1.0]], rtol=1e-15
    )  # a denormal has few digits, and sparse rows are scaled twice
    assert data.features == ("x", "y", "hashed 0", "bias") and data.dim == 4


def test_site_scaling(tmp_path: Path) -> None:
    # 0.1 three times has a mean that is not 0.1 in floats.
    write(tmp_path, a_csv="x,y,label\n1,0.1,1\n3,0.1,0\n5,0.1,0\n", b_csv="x,y,label\n7,2,1\n")
    data = load(tmp_path, "{task}.csv", scaling="site", normalize=False)
    deviation = np.sqrt(8 / 3)
    first, second = prepared(data)
    np.testing.assert_allclose(first, [[-2 / deviation, 0, 0, 1], [0, 0, 0, 1], [2 / deviation, 0, 0, 1]])
    np.testing.assert_array_equal(second, [[0, 0, 0, 1]])
    assert "looks ahead" in data.description
    assert data.preprocessing.sites is not None and set(data.preprocessing.sites) == {"a", "b"}


def test_norms_neither_overflow_nor_vanish(tmp_path: Path) -> None:
    write(tmp_path, a_csv="x,y,label\n3e99,4e99,1\n3e-320,4e-320,1\n", a_svm="1 1:3e307 2:4e307\n")
    options: dict[str, Any] = {"scaling": "none", "bias": 0.0}
    rows = prepared(load(tmp_path, "a.csv", **options))[0]
    np.testing.assert_allclose(rows, [[0.6, 0.8, 0.0]] * 2, rtol=1e-3)
    sparse = prepared(load(tmp_path, "a.svm", dim=2, **options))[0]
    np.testing.assert_allclose(dense(sparse), [[0.6, 0.8]])


# --- real files --------------------------------------------------------------------------------------


def test_amazon_reviews(shared_data: Path) -> None:
    settings = FileData(files="amazon_sentiment/{task}_train.svmlight.gz", zero_based=True, dim=5000)
    data = load_dataset(settings, base=shared_data)
    assert [task.name for task in data.tasks] == ["books", "dvd", "electronics", "kitchen"]
    for task, rows in zip(data.tasks, prepared(data), strict=True):
        assert len(task.labels) == 2000 and np.count_nonzero(task.labels == 1.0) == 1000
        assert isinstance(task.rows, SparseRows) and task.rows.dim == 5000
        assert isinstance(rows, SparseRows) and rows.dim == 5001
        norms = np.add.reduceat(rows.values**2, rows.indptr[:-1])
        np.testing.assert_allclose(norms, 1.0)
        np.testing.assert_allclose(rows.values[rows.indptr[1:] - 1], 2**-0.5)  # words are as long as the bias
    assert len(data.tasks[0].rows.values) == 184_408
