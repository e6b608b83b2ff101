"""What every kind of data satisfies that needs no download, and what the two built-in ones hold."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from drom_net.core.errors import DataError
from drom_net.data.columns import Column
from drom_net.data.datasets import DATASETS, describe, known_dim, load_dataset, task_names
from drom_net.data.digits_sites import scan, scanner
from drom_net.data.preprocessing import Preprocessing
from drom_net.data.public.catalog import PUBLIC_SETS
from drom_net.data.settings import DATA_SECTIONS, DigitsSites, FileData, LiveData, StreamSettings, Synthetic
from drom_net.data.stream import SparseRows
from drom_net.data.synthetic import true_weights


@pytest.fixture(params=[name for name in DATASETS if name not in PUBLIC_SETS])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> StreamSettings:
    if request.param == "files":
        for task in ("a", "b"):
            (tmp_path / f"{task}.csv").write_text("x,y,label\n1,2,1\n3,5,0\n")
        columns = (Column("x", "number"), Column("y", "number"))
        return FileData(files="{task}.csv", tasks=("a", "b"), columns=columns, bias=0.5, scaling="site")
    if request.param == "live":
        return LiveData(tasks=("a", "b"), features=("x", "y"), bias=0.5)
    return {"digits-sites": DigitsSites(), "synthetic": Synthetic(tasks=3, examples=20, dim=5)}[request.param]


def test_every_section_has_a_loader() -> None:
    assert list(DATASETS) == list(DATA_SECTIONS)


def test_form(settings: StreamSettings, tmp_path: Path) -> None:
    data = load_dataset(settings, base=tmp_path)
    assert data.name == settings.dataset
    assert tuple(task.name for task in data.tasks) == task_names(settings, tmp_path)
    assert data.dim == data.preprocessing.dim == known_dim(settings, tmp_path)
    assert data.features is None or len(data.features) == data.dim
    for task in data.tasks:
        assert isinstance(task.rows, np.ndarray)
        assert task.rows.dtype == np.float64 and task.rows.flags.c_contiguous
        width = data.dim if data.is_prepared else data.preprocessing.raw_dim
        assert task.rows.shape == (len(task.labels), width)
        assert task.labels.dtype == np.float64 and set(task.labels) <= {-1.0, 1.0}


def test_a_task_alone_is_the_same(settings: StreamSettings, tmp_path: Path) -> None:
    data = load_dataset(settings, base=tmp_path)
    for number, task in enumerate(data.tasks):
        for only in (number, task.name):
            alone = load_dataset(settings, base=tmp_path, only=only)
            assert len(alone.tasks) == 1 and alone.tasks[0].name == task.name
            np.testing.assert_array_equal(alone.tasks[0].rows, task.rows)
            np.testing.assert_array_equal(alone.tasks[0].labels, task.labels)
            assert alone.feature_digest == data.feature_digest
            prepared = [made.preprocessing.apply(task.rows, task.name) for made in (alone, data)]
            np.testing.assert_array_equal(*prepared)  # type: ignore[arg-type]


def test_unknown_task(settings: StreamSettings, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r'^task: expected one of .*, got "nobody"$'):
        load_dataset(settings, base=tmp_path, only="nobody")
    with pytest.raises(DataError, match=r"^task: expected a number from 0 to "):
        load_dataset(settings, base=tmp_path, only=-1)


def test_describe_is_json(settings: StreamSettings, tmp_path: Path) -> None:
    data = load_dataset(settings, base=tmp_path)
    told = json.loads(json.dumps(describe(data)))
    assert told["dim"] == data.dim and told["sparse"] is False
    assert told["examples"] == sum(len(task.labels) for task in data.tasks)
    assert all(told[key] for key in ("name", "description", "source", "licence", "positive"))


def test_preprocessing_survives_json(settings: StreamSettings, tmp_path: Path) -> None:
    preprocessing = load_dataset(settings, base=tmp_path).preprocessing
    assert Preprocessing.from_json(json.loads(json.dumps(preprocessing.to_json()))) == preprocessing


def test_feature_digest_tells_names_and_dims_apart(tmp_path: Path) -> None:
    data = load_dataset(Synthetic(tasks=1, examples=1, dim=2), base=tmp_path)
    digests = {
        dataclasses.replace(data, dim=dim, features=names).feature_digest
        for dim, names in ((2, None), (3, None), (2, ("a", "b")), (2, ("b", "a")), (1, ("a,b",)))
    }
    assert len(digests) == 5
    # Hello carries it between hosts, so it must not change.
    assert data.feature_digest == "e3a74676b3821db41e1b9a2fc03729eb45362b61147c5161c27137e70b58e4c0"


# --- digits-sites ------------------------------------------------------------------------------------


def test_digits_sites_are_the_real_images(tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    data = load_dataset(DigitsSites(), base=tmp_path)
    sizes = [len(task.labels) for task in data.tasks]
    assert sum(sizes) == 1797 and set(sizes) == {149, 150} and data.dim == 65
    pixels, digits = load_digits(return_X_y=True)
    # Each scan belongs to one image: undone, every row is found among them.
    images = {image.tobytes(): digit for image, digit in zip(pixels, digits, strict=True)}
    assert len(images) == 1797
    found = 0
    for site, task in enumerate(data.tasks):
        by = scanner(site)
        assert 0.6 <= by.gamma <= 1.6 and 0.7 <= by.gain <= 1.3 and 0 <= by.dead_row < 8
        rows = np.asarray(task.rows)
        np.testing.assert_allclose((rows**2).sum(axis=1), 1.0)
        plain = rows[:, :64] / rows[:, 64:] + 0.3
        dead = np.zeros(64, dtype=bool)
        dead[8 * by.dead_row : 8 * by.dead_row + 8] = True
        np.testing.assert_allclose(plain[:, dead], 0.0, atol=1e-12)
        undone = np.rint(16.0 * (np.maximum(plain, 0.0) / by.gain) ** (1.0 / by.gamma))
        for row, label in zip(undone, task.labels, strict=True):
            same = np.flatnonzero((pixels[:, ~dead] == row[~dead]).all(axis=1))
            assert len(same) and label in {1.0 if digits[image] % 2 else -1.0 for image in same}
            found += 1
    assert found == 1797


def test_digits_sites_never_change(tmp_path: Path) -> None:
    by = scanner(0)
    assert (round(by.gamma, 6), round(by.gain, 6), by.dead_row) == (1.410245, 1.186769, 3)
    data = load_dataset(DigitsSites(), base=tmp_path)
    positives = [np.count_nonzero(task.labels > 0) for task in data.tasks]
    assert positives == [77, 75, 75, 76, 84, 67, 84, 66, 84, 76, 66, 76]


def test_scan_by_hand() -> None:
    from drom_net.data.digits_sites import Scanner

    pixels = np.zeros((1, 64))
    pixels[0, 0], pixels[0, 8] = 16.0, 4.0
    expected = np.full(65, -0.3)
    expected[8], expected[64] = 1.2 * 0.5 - 0.3, 1.0  # the first row is dead
    np.testing.assert_allclose(scan(pixels, Scanner(0.5, 1.2, 0))[0], expected / np.linalg.norm(expected))


# --- synthetic ---------------------------------------------------------------------------------------


def test_synthetic_labels_and_norms(tmp_path: Path) -> None:
    settings = Synthetic(tasks=3, examples=50, dim=7, rank=2, noise=0.3)
    data = load_dataset(settings, base=tmp_path)
    assert [task.name for task in data.tasks] == ["task-01", "task-02", "task-03"]
    for number, task in enumerate(data.tasks):
        rows = np.asarray(task.rows)
        np.testing.assert_allclose((rows**2).sum(axis=1), 1.0)
        np.testing.assert_array_equal(task.labels, np.sign(rows @ true_weights(settings, number)))


def test_synthetic_rank_and_share(tmp_path: Path) -> None:
    shared = np.array([true_weights(Synthetic(tasks=9, dim=20, rank=3, noise=0.0), task) for task in range(9)])
    assert np.linalg.matrix_rank(shared) == 3
    np.testing.assert_allclose((shared**2).sum(axis=1), 1.0)
    own = np.array([true_weights(Synthetic(tasks=9, dim=20, rank=3, noise=1.0), task) for task in range(9)])
    assert np.linalg.matrix_rank(own) == 9
    both = np.array([true_weights(Synthetic(tasks=9, dim=20, rank=3, noise=0.19), task) for task in range(9)])
    np.testing.assert_allclose(both, 0.9 * shared + np.sqrt(0.19) * own)


def test_synthetic_seed_and_rank_above_dim(tmp_path: Path) -> None:
    one, other = (load_dataset(Synthetic(tasks=1, data_seed=seed), base=tmp_path) for seed in (0, 1))
    assert not np.array_equal(one.tasks[0].rows, other.tasks[0].rows)
    with pytest.raises(DataError) as caught:
        load_dataset(Synthetic(dim=3, rank=4), base=tmp_path)
    assert str(caught.value) == "data.rank: expected at most data.dim, 3, got 4"


# --- preprocessing -----------------------------------------------------------------------------------


def test_one_row_at_a_time_gives_the_same_bits(tmp_path: Path) -> None:
    """`predict` sees rows one by one; the learner saw them all."""
    raw = np.random.default_rng(3).standard_normal((40, 37)) * 100
    steps = Preprocessing(37, numbers=37, center=(0.3,) * 37, scale=(1.7,) * 37, normalize=True, bias=1.0)
    steps = steps.with_sites({"a": raw})
    at_once = steps.apply(raw, "a")
    for row in range(40):
        np.testing.assert_array_equal(steps.apply(raw[row : row + 1], "a"), at_once[row : row + 1])


def test_apply_leaves_its_input_alone() -> None:
    for steps in (Preprocessing(2), Preprocessing(2, numbers=2, scale=(2.0, 2.0), normalize=True, bias=1.0)):
        raw = np.array([[1.0, 2.0]])
        result = steps.apply(raw, "a")
        assert isinstance(result, np.ndarray) and not np.shares_memory(raw, result)
        np.testing.assert_array_equal(raw, [[1.0, 2.0]])


def test_bias_behind_sparse_rows() -> None:
    rows = SparseRows(np.array([0, 0, 2, 2]), np.array([0, 2], dtype=np.int32), np.array([3.0, 4.0]), 3)
    for inside in (True, False):  # as models of before version 0.2 have it
        result = Preprocessing(3, normalize=True, bias=0.5, bias_in_norm=inside).apply(rows, "a")
        assert isinstance(result, SparseRows) and result.dim == 4
        np.testing.assert_array_equal(result.indptr, [0, 1, 4, 5])
        np.testing.assert_array_equal(result.indices, [3, 0, 2, 3, 3])
        behind = np.array([0.5, 0.6, 0.8, 0.5, 0.5])
        norms = np.array([0.5, *[1.25**0.5] * 3, 0.5])
        np.testing.assert_allclose(result.values, behind / norms if inside else behind, rtol=1e-15)
    assert result.indices.dtype == np.int32 and result.indptr.dtype == np.int64


def test_sparse_rows_without_a_bias_are_brought_to_unit_norm_once() -> None:
    """Twice moved the last bit of some, and with it the digests of public sets."""
    rng = np.random.default_rng(0)
    values = rng.random(4000)
    rows = SparseRows(np.arange(0, 4001, 40), np.tile(np.arange(40, dtype=np.int32), 100), values, 40)
    small = np.ldexp(values.reshape(100, 40), -np.frexp(values.reshape(100, 40).max(axis=1))[1][:, np.newaxis])
    norms = [float(np.bincount(np.zeros(40, dtype=int), row * row)[0]) ** 0.5 for row in small]
    result = Preprocessing(40, normalize=True).apply(rows, "a")
    assert isinstance(result, SparseRows)
    np.testing.assert_array_equal(result.values.reshape(100, 40), small / np.array(norms)[:, np.newaxis])


def test_preprocessing_faults() -> None:
    steps = Preprocessing(1, numbers=1).with_sites({"north": np.ones((1, 1))})
    with pytest.raises(DataError) as caught:
        steps.apply(np.ones((1, 1)), "nort")
    assert str(caught.value) == 'task: expected a task with a site scaling, got "nort"; did you mean "north"?'
    rows = SparseRows(np.array([0, 0]), np.array([], dtype=np.int32), np.array([]), 1)
    with pytest.raises(DataError, match=r"^data: expected dense rows, for these are centered, got sparse rows$"):
        steps.apply(rows, "north")
    for broken in ({}, {"raw_dim": 1, "what": 2}, {"raw_dim": 1, "sites": {"a": {}}}, {"raw_dim": 1, "scale": "x"}):
        with pytest.raises(DataError, match=r"^preprocessing: expected what drom-net wrote, got "):
            Preprocessing.from_json(broken)


def test_a_node_imports_nothing_heavy() -> None:
    """architecture.md: a worker maps its stream and imports NumPy, nothing heavier."""
    heavy = ("scipy", "sklearn", "pyarrow", "yaml", "csv")
    code = f"import sys, drom_net.data.stream; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
