"""The public data sets: what each must hold, and what a reader says of a file that is not as it should be."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import shutil
import tarfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drom_net.cli.data import table_2
from drom_net.comparison.comparison_data import comparison_data, named_config
from drom_net.core.errors import DataError
from drom_net.data.dataset import Dataset, TaskData
from drom_net.data.datasets import known_dim, load_dataset, task_names
from drom_net.data.preprocessing import Preprocessing, unit_rows
from drom_net.data.public.catalog import PUBLIC_SETS, PublicFile
from drom_net.data.public.content import prepared
from drom_net.data.public.others import MOLECULES
from drom_net.data.public.places import check_file, digest_of, files_in, find
from drom_net.data.settings import (
    DATA_SECTIONS,
    Amazon,
    EachMovie,
    FileData,
    Jester,
    Landmine,
    Mhci,
    MovieLens,
    Newsgroups,
    SpamEcml2006,
    SpamEnron,
    SpamPu,
    StreamSettings,
    Wisdm,
)
from drom_net.data.stats import stats
from drom_net.data.stream import SparseRows

SharedSet = Callable[[str], Path]

# As the SOURCE.md of each set, or its publisher, states: settings, examples and positives of each task, dim.
WISDM_COUNTS = (
    "152 64 118 59 179 65 60 30 146 61 153 61 157 55 168 85 64 64 178 65 161 60 168 54 183 65 191 69 136 57 102 62 "
    "113 48 161 64 229 87 273 65 122 32 113 35 129 33 131 31 66 34 165 66 170 62 107 70 190 62 129 62 223 84 171 62 "
    "151 74 183 67 113 36 163 31"
)
LANDMINE_COUNTS = (
    "690 40 690 48 689 39 508 19 509 22 509 29 510 29 511 26 508 31 509 15 689 38 688 35 508 27 510 31 507 17 445 32 "
    "449 27 448 31 449 30 449 37 451 33 454 39 447 17 449 41 445 31 448 36 448 36 454 26 449 42"
)


def _pairs(text: str) -> list[tuple[int, int]]:
    numbers = list(map(int, text.split()))
    return list(zip(numbers[::2], numbers[1::2], strict=True))


SPAM_PU = _pairs("1090 480 710 140 4129 1819 1139 569")
MHCI = _pairs(
    "2765 1419 1627 890 1610 811 1609 600 1466 765 1447 883 1424 713 1397 338 1393 558 1390 728 806 211 768 208"
)
HELD: dict[str, tuple[StreamSettings, list[tuple[int, int]], int]] = {
    "spam-pu": (SpamPu(), SPAM_PU, 1458),
    "spam-pu weka": (SpamPu(features="weka"), SPAM_PU, 1450),
    "mhci": (Mhci(), MHCI, 400),
    "mhci one-hot": (Mhci(features="one-hot"), MHCI, 180),
    "spam-ecml2006": (SpamEcml2006(), [(400, 200)] * 15, 1458),
    "spam-enron": (SpamEnron(), _pairs("5172 1500 5857 1496 5512 1500 5999 4499 5175 3675 6000 4500"), 1458),
    "amazon": (Amazon(), [(2000, 1000)] * 4, 5000),
    "newsgroups": (Newsgroups(), _pairs("1875 908 1827 956"), 2000),
    "newsgroups rec-talk": (Newsgroups(pair="rec-talk"), _pairs("1844 869 1545 685"), 2000),
    "landmine": (Landmine(), _pairs(LANDMINE_COUNTS), 10),
    "wisdm": (Wisdm(), _pairs(WISDM_COUNTS), 43),
}


@pytest.fixture(autouse=True)
def _an_empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))


@pytest.fixture(scope="module")
def loaded(shared_set: SharedSet) -> Callable[[StreamSettings], Dataset]:
    """The whole of a set, read once for all tests."""
    return cache(lambda settings: load_dataset(settings, base=shared_set(PUBLIC_SETS[settings.dataset].folder)))


def dense(rows: np.ndarray | SparseRows) -> np.ndarray:
    if not isinstance(rows, SparseRows):
        return rows
    found = np.zeros((len(rows.indptr) - 1, rows.dim))
    found[np.repeat(np.arange(len(found)), np.diff(rows.indptr)), rows.indices] = rows.values
    return found


# --- the real sets -----------------------------------------------------------------------------------


Loaded = Callable[[StreamSettings], Dataset]


@pytest.mark.parametrize("name", HELD)
def test_counts_are_those_of_the_publisher(name: str, loaded: Loaded) -> None:
    settings, counts, dim = HELD[name]
    data = loaded(settings)
    assert [(len(task.labels), int((task.labels > 0).sum())) for task in data.tasks] == counts
    assert data.dim == data.preprocessing.dim == known_dim(settings, Path()) == dim
    assert tuple(task.name for task in data.tasks) == task_names(settings, Path())
    assert data.features is None or len(set(data.features)) == dim
    assert data.measure == ("auc" if name == "landmine" else "error")


def test_jester_counts(loaded: Loaded) -> None:
    data = loaded(Jester())
    assert [len(task.labels) for task in data.tasks] == [100] * 30 and data.dim == 1783
    assert sum(int((task.labels > 0).sum()) for task in data.tasks) == 1744  # 58.1 % likes
    assert all(np.array_equal(np.asarray(task.rows), data.tasks[0].rows) for task in data.tasks)


ALL = [settings for settings, _, _ in HELD.values()] + [Jester()]


@pytest.mark.parametrize("settings", ALL, ids=repr)
def test_form_norms_and_one_task_alone(settings: StreamSettings, loaded: Loaded, shared_set: SharedSet) -> None:
    data = loaded(settings)
    bias = 0.3 if settings.dataset in ("landmine", "wisdm") else 0.0
    empty = 0
    for task in data.tasks:
        assert task.labels.dtype == np.float64 and set(task.labels) <= {-1.0, 1.0}
        if isinstance(task.rows, SparseRows):
            within = np.ones(len(task.rows.indices), dtype=bool)
            within[task.rows.indptr[:-1][np.diff(task.rows.indptr) > 0]] = False
            assert (np.diff(task.rows.indices)[within[1:]] > 0).all()
            assert task.rows.indices.dtype == np.int32 and task.rows.indptr.dtype == np.int64
        else:
            assert task.rows.dtype == np.float64 and task.rows.flags.c_contiguous
        norms = np.linalg.norm(dense(task.rows), axis=1)
        empty += int((norms == 0.0).sum())
        np.testing.assert_allclose(norms[norms > 0.0], math.sqrt(1.0 + bias**2))
    # Mails without one of the 1,458 words.
    assert empty == {"spam-pu": 3, "spam-ecml2006": 5}.get(settings.dataset, 0) or settings == SpamPu(features="weka")
    only = len(data.tasks) - 1
    alone = load_dataset(settings, base=shared_set(PUBLIC_SETS[settings.dataset].folder), only=data.tasks[only].name)
    assert len(alone.tasks) == 1 and alone.feature_digest == data.feature_digest
    np.testing.assert_array_equal(dense(alone.tasks[0].rows), dense(data.tasks[only].rows))
    np.testing.assert_array_equal(alone.tasks[0].labels, data.tasks[only].labels)


def test_the_features_of_the_first_mails_by_hand(loaded: Loaded, shared_set: SharedSet) -> None:
    """(1 + ln tf) (ln((1 + n) / (1 + df)) + 1) over the words of highest document frequency, then unit norm."""
    data = loaded(SpamPu())
    mails = {}
    with tarfile.open(shared_set("spam_pu") / "spam_pu" / "pu_corpora_public.tar.xz") as archive:
        for member in archive:
            if member.isfile() and "/part" in member.name:
                content = archive.extractfile(member)
                assert content is not None
                words = content.read().decode().removeprefix("Subject:").split()
                if len(words) > 1:
                    mails[member.name] = Counter(words)
    assert len(mails) == 7068
    frequency = Counter(word for words in mails.values() for word in words)
    least = sorted(frequency.values())[-1458]
    assert data.features is not None and len(data.features) == len(set(data.features)) == 1458
    kept = set(data.features)
    assert (
        {word for word in frequency if frequency[word] > least}
        <= kept
        <= {word for word in frequency if frequency[word] >= least}
    )
    first = min(name for name in mails if name.startswith("pu_corpora_public/pu1/part1/"))
    weights = {
        word: (1 + math.log(count)) * (math.log(7069 / (1 + frequency[word])) + 1)
        for word, count in mails[first].items()
        if word in kept
    }
    norm = math.sqrt(sum(weight**2 for weight in weights.values()))
    expected = [weights.get(word, 0.0) / norm for word in data.features]
    np.testing.assert_allclose(dense(data.tasks[0].rows)[0], expected)


def test_enron_comes_in_the_order_of_arrival(loaded: Loaded, shared_set: SharedSet) -> None:
    with tarfile.open(shared_set("spam_enron") / "spam_enron" / "enron_spam.tar.xz") as archive:
        names = [name for name in archive.getnames() if name.startswith("enron4/") and name.count("/") == 2]
    names = [name for name in names if name.endswith(".txt")]
    names.sort(key=lambda name: int(name.split("/")[2].split(".")[0]))
    labels = [1.0 if "/spam/" in name else -1.0 for name in names]
    np.testing.assert_array_equal(loaded(SpamEnron()).tasks[3].labels, labels)


def test_mhci_rows_by_hand(loaded: Loaded) -> None:
    data, one_hot = loaded(Mhci()), loaded(Mhci(features="one-hot"))
    assert data.features is not None and one_hot.features is not None
    for pair_row, position_row in zip(np.asarray(data.tasks[4].rows), np.asarray(one_hot.tasks[4].rows), strict=True):
        named = [one_hot.features[column] for column in np.flatnonzero(position_row)]
        assert [name[0] for name in named] == list("123456789")
        peptide = "".join(name[1] for name in named)
        counts = Counter(first + second for first, second in pairwise(peptide))
        expected = np.array([counts[pair] for pair in data.features], dtype=float)
        np.testing.assert_allclose(pair_row, expected / np.linalg.norm(expected))


def test_amazon_is_the_same_as_its_files(loaded: Loaded, shared_set: SharedSet) -> None:
    files = FileData(
        files="amazon_sentiment/{task}_train.svmlight.gz",
        tasks=("books", "dvd", "electronics", "kitchen"),
        format="svmlight",
        dim=5000,
        zero_based=True,
        scaling="none",
        bias=0.0,
    )
    plain = load_dataset(files, base=shared_set("amazon_sentiment"))
    data = loaded(Amazon())
    assert data.feature_digest == plain.feature_digest and data.preprocessing == plain.preprocessing
    assert data.is_prepared and not plain.is_prepared
    for task, other in zip(data.tasks, plain.tasks, strict=True):
        assert task.name == other.name
        np.testing.assert_array_equal(dense(task.rows), dense(plain.preprocessing.apply(other.rows, other.name)))
        np.testing.assert_array_equal(task.labels, other.labels)


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_sums_of_a_row_are_in_the_order_of_its_memory(order: Any) -> None:
    """jester and landmine come column by column: another order moved their last bits, and with them their digests."""
    raw = np.asarray(np.random.default_rng(0).random((50, 1783)), order=order)
    unit = Preprocessing(raw_dim=1783, normalize=True)
    made = prepared(["a"], [raw], [np.ones(50)], None, unit).tasks[0].rows
    assert isinstance(made, np.ndarray) and made.flags.c_contiguous
    np.testing.assert_array_equal(made, unit_rows(raw))
    others = unit_rows(np.asarray(raw, order="F" if order == "C" else "C"))
    assert (made != others).any(), "there is a difference"
    np.testing.assert_allclose(made, others, rtol=1e-12)


def test_wisdm_activities_and_preprocessing(loaded: Loaded) -> None:
    walking, stairs = loaded(Wisdm()), loaded(Wisdm(activity="stairs"))
    assert sum(int((task.labels > 0).sum()) for task in stairs.tasks) == 632 + 528
    for one, other in zip(walking.tasks, stairs.tasks, strict=True):
        np.testing.assert_array_equal(one.rows, other.rows)
        assert not ((one.labels > 0) & (other.labels > 0)).any()
    raw = np.array(walking.preprocessing.center)  # a row of means has nothing left but the bias
    np.testing.assert_allclose(walking.preprocessing.apply(raw[np.newaxis], "user-01"), [[*[0.0] * 42, 0.3]])


@pytest.mark.parametrize(
    ("settings", "missed"),
    [(SpamPu(), {}), (SpamPu(features="weka"), {"dims": -8}), (Jester(), {"samples": -3000, "largest": -100,
      "smallest": -100}), (Mhci(), {"samples": -962, "largest": -1028, "smallest": 353})],
    ids=repr,
)  # fmt: skip
def test_table_2(settings: StreamSettings, missed: dict[str, int], loaded: Loaded) -> None:
    paper = PUBLIC_SETS[settings.dataset].paper
    assert paper is not None
    told = table_2(paper, loaded(settings))
    assert {row["number"]: row["here"] - row["paper"] for row in told if not row["met"]} == missed
    assert all((row["verdict"] == "met") is row["met"] for row in told)


def test_the_shared_files_are_the_publishers(shared_set: SharedSet) -> None:
    for entry in PUBLIC_SETS.values():
        if entry.name not in ("movielens", "eachmovie"):
            found = files_in(entry, shared_set(entry.folder))
            assert len(found) == len(entry.files), entry.name
            for file in entry.files:
                assert len(file.sha256) == 64
                check_file(found[file.names[0]], file)


def test_pu_tasks_have_nothing_in_common_and_amazon_has(loaded: Loaded) -> None:
    apart, alike = stats(loaded(SpamPu())), stats(loaded(Amazon()))
    assert abs(apart["mean_cosine_of_directions"]) < 0.05 < 0.5 < alike["mean_cosine_of_directions"]  # type: ignore[arg-type, operator]


def test_stats_by_hand() -> None:
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    sparse = SparseRows(np.array([0, 1, 2, 2]), np.array([0, 1], dtype=np.int32), np.array([1.0, 2.0]), 3)
    labels = np.array([1.0, -1.0, -1.0])
    tasks = (TaskData("dense", rows, labels), TaskData("sparse", sparse, labels), TaskData("one", rows, np.ones(3)))
    told = json.loads(json.dumps(stats(Dataset("x", tasks, 3, None, "", Preprocessing(3), "", "", ""))))
    assert told["tasks"][0] == told["tasks"][1] | {"name": "dense"}
    assert told["tasks"][0] == {
        "name": "dense",
        "examples": 3,
        "positives": 1,
        "features_used": 2,
        "nonzeros_per_row": pytest.approx(2 / 3),
        "empty_rows": 1,
        "smallest_norm": 1.0,
        "largest_norm": 2.0,
    }
    assert (told["features_used"], told["features_used_by_all_tasks"]) == (2, 2)
    assert told["mean_cosine_of_directions"] == pytest.approx(1.0)  # of one pair: the third has one class


# --- files of the same layout, made here ---------------------------------------------------------------


def write_zip(path: Path, **texts: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in texts.items():
            archive.writestr(name, text)


def write_tar(path: Path, texts: dict[str, str], mode: str = "w:gz") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, text in texts.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


def some_ratings() -> list[tuple[int, int, int, int]]:
    """(user, film, stars, time): 40 users with 200 to 204 ratings, 1,800 with three."""
    rng = np.random.default_rng(0)
    found = []
    for user in range(1, 1841):
        num = 200 + user % 5 if user <= 40 else 3
        for film in rng.choice(300, num, replace=False).tolist():
            found.append((user, film + 1, int(rng.integers(1, 6)), int(rng.integers(1, 50))))
    return found


def make_movielens(folder: Path, ratings: list[tuple[int, int, int, int]]) -> None:
    text = "".join("::".join(map(str, row)) + "\n" for row in ratings)
    write_zip(folder / "movielens" / "ml-1m.zip", **{"ml-1m/ratings.dat": text, "ml-1m/README": "terms"})


def make_eachmovie(folder: Path, ratings: list[tuple[int, int, int, int]]) -> None:
    """Its columns; a vote of weight 0.2 on a film nobody else knows comes before each user's others."""
    (folder / "eachmovie").mkdir()
    lines = [f"{user}\t999\t0\t0.2\t1/2/97 10:11:12" for user in range(1, 50)]
    ordered = sorted(ratings, key=lambda row: (row[3], row[1]))
    lines += [f"{user}\t{film}\t{(stars - 0.5) / 5:g}\t1\t1/2/97 10:11:12" for user, film, stars, _ in ordered]
    (folder / "eachmovie" / "Vote.txt").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("settings", "make"), [(MovieLens(), make_movielens), (EachMovie(), make_eachmovie)], ids=["movielens", "eachmovie"]
)
def test_tastes_by_hand(settings: StreamSettings, make: Callable[..., None], tmp_path: Path) -> None:
    ratings = some_ratings()
    make(tmp_path, ratings)
    data = load_dataset(settings, base=tmp_path)
    assert data.dim == known_dim(settings, tmp_path) == 1783
    assert [len(task.labels) for task in data.tasks] == [200] * 30
    paper = PUBLIC_SETS[settings.dataset].paper
    assert paper is not None and all(row["met"] for row in table_2(paper, data))
    stars: dict[int, dict[int, int]] = defaultdict(dict)
    for user, film, given, _ in ratings:
        stars[film][user] = given
    others = [*range(31, 41), *range(41, 41 + 1773)]  # those with most ratings, then by number
    assert data.features == tuple(f"user-{user}" for user in others)
    mine = sorted((time, film) for user, film, _, time in ratings if user == 3)[:200]
    for (_, film), row, label in zip(mine, dense(data.tasks[2].rows), data.tasks[2].labels, strict=True):
        assert label == (1.0 if stars[film][3] > 3 else -1.0)
        expected = np.array([stars[film].get(user, 3) - 3.0 for user in others])
        np.testing.assert_allclose(row, expected / (np.linalg.norm(expected) or 1.0), atol=1e-12)


def test_too_few_people(tmp_path: Path) -> None:
    ratings = some_ratings()
    make_movielens(tmp_path, [row for row in ratings if row[0] > 11])
    with pytest.raises(DataError, match=r"ml-1m\.zip: expected 30 people with 200 ratings, got 29$"):
        load_dataset(MovieLens(), base=tmp_path)
    make_movielens(tmp_path, [row for row in ratings if row[0] < 1800])
    with pytest.raises(DataError, match=r"ml-1m\.zip: expected 1783 other people, got 1769$"):
        load_dataset(MovieLens(), base=tmp_path)


def make_pu(folder: Path, mode: str = "w:xz") -> dict[str, str]:
    texts = {}
    for task in ("pu1", "pu2", "pu3", "pua"):
        for part, number, kind in ((1, 5, "legit"), (1, 40, "spmsg"), (10, 1, "legit"), (2, 1, "spmsg")):
            # 1,500 words, so that 1,458 are chosen.
            words = " ".join(str(word) for word in range(number, 1500 + number))
            texts[f"pu_corpora_public/{task}/part{part}/{number}{kind}3.txt"] = f"Subject: 7 7\n\n{words}\n"
        texts[f"pu_corpora_public/{task}/unused/1legit1.txt"] = "Subject: 1 2\n\n3\n"
        texts[f"pu_corpora_public/{task}/part1/2legit1.txt"] = "Subject: 1\n\n"
    write_tar(folder / "spam_pu" / f"pu_corpora_public.tar.{mode[2:]}", texts, mode)
    return texts


def test_pu_leaves_out_unused_mails_and_those_of_one_word(tmp_path: Path) -> None:
    make_pu(tmp_path)
    data = load_dataset(SpamPu(), base=tmp_path)
    assert [task.labels.tolist() for task in data.tasks] == [[1.0, -1.0, 1.0, -1.0]] * 4  # part, then name
    assert data.features is not None and "7" in data.features


def test_too_few_words(tmp_path: Path) -> None:
    write_tar(
        tmp_path / "spam_pu" / "pu_corpora_public.tar.gz",
        {f"x/pu_corpora_public/{task}/part1/1legit1.txt": "Subject: 1 2" for task in ("pu1", "pu2", "pu3", "pua")},
    )
    with pytest.raises(DataError) as caught:
        load_dataset(SpamPu(), base=tmp_path)
    assert str(caught.value) == "data.dataset: spam-pu: expected 1458 columns from its files, got 2"


def test_the_digest_of_an_archive_is_that_of_its_content(tmp_path: Path) -> None:
    file = PublicFile(("a.tar.gz",), "", "", members="pu_corpora_public/")
    texts = make_pu(tmp_path)
    digests = {digest_of(tmp_path / "spam_pu" / "pu_corpora_public.tar.xz", file)}
    moved = {f"A.I.2-5de4/src/{name}": text for name, text in reversed(texts.items())} | {"A.I.2-5de4/README": "hi"}
    write_tar(tmp_path / "a.tar.gz", moved)
    digests.add(digest_of(tmp_path / "a.tar.gz", file))
    assert len(digests) == 1
    moved[next(iter(moved))] += " "
    write_tar(tmp_path / "b.tar.gz", moved)
    assert digest_of(tmp_path / "b.tar.gz", file) not in digests


CSV_HEADER = "allele,peptide,ic50,measurement_inequality,measurement_type,measurement_source,original_allele"


def make_mhci(folder: Path, *rows: str, header: str = CSV_HEADER) -> None:
    every = [f"{molecule},AAAAAAAAA,10,=,q,Sette - x,y" for molecule in MOLECULES]
    text = "\n".join([header, *every, *rows]) + "\n"
    name = "curated_training_data.no_mass_spec"
    write_zip(folder / "mhci" / f"{name}.zip", **{f"{name}.csv": text})


def test_mhci_takes_the_geometric_mean_of_one_laboratory(tmp_path: Path) -> None:
    make_mhci(
        tmp_path,
        "HLA-A*02:01,CCCCCCCCC,500,=,q,Sette - x,y",  # a binder at 500
        "HLA-A*02:01,DDDDDDDDD,100,=,q,Sette - x,y",
        "HLA-A*02:01,DDDDDDDDD,3600,=,q,Sette - z,y",  # the geometric mean is 600
        "HLA-A*02:01,CCCCCCCCC,90000,=,q,Buus - x,y",  # another laboratory
        "HLA-A*02:01,CCCCCCCC,90000,=,q,Sette - x,y",  # 8 residues
        "HLA-A*02:01,CCCCXCCCC,90000,=,q,Sette - x,y",  # no residue
        "HLA-B*02:01,CCCCCCCCC,90000,=,q,Sette - x,y",  # another molecule
    )
    data = load_dataset(Mhci(), base=tmp_path)
    assert data.tasks[0].labels.tolist() == [1.0, 1.0, -1.0]
    assert [len(task.labels) for task in data.tasks[1:]] == [1] * 11


def make_jester(folder: Path, rows: list[str]) -> None:
    write_zip(folder / "jester" / "jester-data-1.zip", **{"jester-data-1.csv": "\n".join(rows) + "\n"})


def make_wisdm(folder: Path, *rows: str) -> None:
    (folder / "wisdm").mkdir()
    lines = ["@relation x", "@data", *rows]
    (folder / "wisdm" / "WISDM_ar_v1.1_transformed.arff").write_text("\n".join(lines) + "\n")


def make_matlab(path: Path, **variables: object) -> None:
    from scipy.io import savemat

    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, variables)


def cells(*contents: object) -> np.ndarray:
    found = np.empty((1, len(contents)), dtype=object)
    for index, content in enumerate(contents):
        found[0, index] = content
    return found


def windows(person: int, value: str = "1") -> str:
    return ",".join(["1", str(person), *[value] * 43, "Walking"])


Make = Callable[[Path], None]
PU, ZIP = "pu_corpora_public.tar.gz", "curated_training_data.no_mass_spec.zip"
BAD: list[tuple[str, StreamSettings, Make, str]] = [
    (
        "pu: no mails",
        SpamPu(),
        lambda at: write_tar(at / "spam_pu" / PU, {"readme": "x"}),
        "expected mails of pu1, got none",
    ),
    (
        "enron: no mails",
        SpamEnron(),
        lambda at: write_tar(at / "spam_enron" / "enron_spam.tar.gz", {"enron1/ham/x": "y"}),
        "expected mails of enron1, got none",
    ),
    (
        "mhci: no member",
        Mhci(),
        lambda at: write_zip(at / "mhci" / ZIP, other="x"),
        f"{ZIP}: expected the member curated_training_data.no_mass_spec.csv, got none of this name",
    ),
    (
        "mhci: no column",
        Mhci(),
        lambda at: make_mhci(at, header=CSV_HEADER.replace("ic50", "kd")),
        "no_mass_spec.csv:1: expected the column ic50, got allele, peptide, kd, ",
    ),
    ("mhci: ragged", Mhci(), lambda at: make_mhci(at, "a,b"), "no_mass_spec.csv:14: expected 7 fields, got 2"),
    (
        "mhci: no number",
        Mhci(),
        lambda at: make_mhci(at, "HLA-A*02:01,CCCCCCCCC,?,=,q,Sette,y"),
        'no_mass_spec.csv:14, column ic50: expected a number above 0, got "?"',
    ),
    (
        "jester: columns",
        Jester(),
        lambda at: make_jester(at, ["1,2,3"]),
        "jester-data-1.csv:1: expected 101 fields, got 3",
    ),
    (
        "jester: people",
        Jester(),
        lambda at: make_jester(at, [",".join(["1"] * 101)] * 3),
        "jester-data-1.zip: expected 1813 people who rated all 100 jokes, got 3",
    ),
    (
        "jester: text",
        Jester(),
        lambda at: make_jester(at, [",".join(["x"] * 101)]),
        "expected 101 numbers a line, got ",
    ),
    (
        "movielens: member",
        MovieLens(),
        lambda at: write_zip(at / "movielens" / "ml-1m.zip", x="y"),
        "expected the member ml-1m/ratings.dat, got none of this name",
    ),
    (
        "movielens: columns",
        MovieLens(),
        lambda at: write_zip(at / "movielens" / "ml-1m.zip", **{"ml-1m/ratings.dat": "1::2"}),
        "ratings.dat:1: expected 4 fields, got 2",
    ),
    (
        "ecml: variable",
        SpamEcml2006(),
        lambda at: make_matlab(at / "spam_ecml2006" / "emails.mat", X=1),
        "emails.mat: expected the variable Y, got X",
    ),
    (
        "ecml: cells",
        SpamEcml2006(),
        lambda at: make_matlab(at / "spam_ecml2006" / "emails.mat", X=cells(1), Y=cells(1)),
        "emails.mat, X: expected 1 x 15 cells, got (1, 1)",
    ),
    (
        "ecml: width",
        SpamEcml2006(),
        lambda at: make_matlab(at / "spam_ecml2006" / "emails.mat", X=cells(*[[[1.0, 2.0]]] * 15), Y=cells(*[1] * 15)),
        "emails.mat, X{1}: expected 152543 columns, got 2",
    ),
    (
        "landmine: width",
        Landmine(),
        lambda at: make_matlab(
            at / "landmine" / "LandmineData.mat", feature=cells(*[[[1.0, 2.0]]] * 29), label=cells(*[1] * 29)
        ),
        "feature{1}: expected N x 9 finite numbers, got (1, 2)",
    ),
    (
        "landmine: labels",
        Landmine(),
        lambda at: make_matlab(
            at / "landmine" / "LandmineData.mat",
            feature=cells(*[np.ones((2, 9))] * 29),
            label=cells(*[[[0], [7]]] * 29),
        ),
        "label{1}: expected the labels 0 and 1, got 0, 7",
    ),
    ("wisdm: fields", Wisdm(), lambda at: make_wisdm(at, "1,2,3"), "arff:3: expected 46 fields, got 3"),
    (
        "wisdm: text",
        Wisdm(),
        lambda at: make_wisdm(at, windows(1, "x")),
        "arff:3: expected a person's number, then 43 numbers or ?",
    ),
    ("wisdm: people", Wisdm(), lambda at: make_wisdm(at, windows(1)), "expected windows of user-02, got none"),
    ("wisdm: empty", Wisdm(), lambda at: make_wisdm(at), "expected rows after @data, got none"),
]


@pytest.mark.parametrize(("settings", "make", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_another_layout_is_one_clear_error(settings: StreamSettings, make: Make, message: str, tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(DataError) as caught:
        load_dataset(settings, base=tmp_path)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", PUBLIC_SETS)
def test_damaged_files_are_one_clear_error(name: str, tmp_path: Path) -> None:
    """Garbage, nothing at all, and a gzip or archive that is cut off."""
    entry = PUBLIC_SETS[name]
    (tmp_path / entry.folder).mkdir()
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("pu_corpora_public/pu1/part1/1legit.txt"))
    for content in (b"\x00garbage\xff" * 50, b"", whole.getvalue()[:-20]):
        for file in entry.files:
            (tmp_path / entry.folder / file.names[0]).write_bytes(content)
        with pytest.raises(DataError) as caught:
            load_dataset(DATA_SECTIONS[name](), base=tmp_path)
        assert "expected" in str(caught.value) and entry.folder in str(caught.value)


@pytest.mark.parametrize("name", PUBLIC_SETS)
def test_a_missing_set_says_how_to_get_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DROM_NET_DATA", raising=False)
    with pytest.raises(DataError) as caught:
        load_dataset(DATA_SECTIONS[name](), base=tmp_path)
    [problem] = caught.value.problems
    assert problem.place == f"data.dataset: {name}"
    assert ("it cannot be downloaded" if name == "eachmovie" else f"drom-net data get {name}") in problem.hint


def test_where_files_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder named first, then DROM_NET_DATA, then the cache; a folder with a part of a set does not count."""
    entry = PUBLIC_SETS["amazon"]
    for home in ("given", "named", "home/drom-net"):
        for file in entry.files:
            path = tmp_path / home / entry.folder / file.names[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    monkeypatch.setenv("DROM_NET_DATA", str(tmp_path / "named"))
    monkeypatch.setattr("sys.platform", "linux")
    for home in ("given", "named", "home/drom-net"):
        found = find(entry, tmp_path / "given")
        assert found is not None and {path.parent.parent for path in found.values()} == {tmp_path / home}
        found["dvd_train.svmlight"].unlink()
    assert find(entry, tmp_path / "given") is None and find(entry) is None


def test_the_header_of_the_real_csv(shared_set: SharedSet) -> None:
    """The layout that the tests make is the publisher's."""
    path = shared_set("mhci") / "mhci" / ZIP
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        assert next(csv.reader(io.TextIOWrapper(file))) == CSV_HEADER.split(",")


def test_a_file_that_was_changed_is_not_taken_for_the_publishers(
    shared_set: SharedSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a folder of this name where one happens to stand is not looked into."""
    folder = shared_set("wisdm")
    changed = tmp_path / "wisdm"
    shutil.copytree(folder / "wisdm", changed)
    packed = changed / "WISDM_ar_v1.1_transformed.arff.gz"
    packed.write_bytes(gzip.compress(gzip.decompress(packed.read_bytes()).replace(b"Walking", b"Jogging", 1)))
    monkeypatch.setenv("DROM_NET_DATA", str(tmp_path))
    with pytest.raises(DataError, match="expected the SHA-256"):
        comparison_data(named_config("wisdm"))
    monkeypatch.setenv("DROM_NET_DATA", str(folder))
    monkeypatch.chdir(tmp_path)
    assert comparison_data(named_config("wisdm")).num_examples == 5418
