"""Rows as a learner sees them: the same bits in blocks and one by one, from every file, live, and after a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drom_net.algorithms.drom import drom
from drom_net.algorithms.features import Features, Matrix, SparseVector
from drom_net.cluster.prepare import Prepared, prepare
from drom_net.cluster.run import run_loop
from drom_net.config.load import load_config
from drom_net.data.columns import Column, Schema
from drom_net.data.dataset import TaskData
from drom_net.data.datasets import load_dataset
from drom_net.data.incoming import RowReader
from drom_net.data.live import LiveStream
from drom_net.data.prepare import make_stream
from drom_net.data.preprocessing import Preprocessing
from drom_net.data.row_lines import LineParser
from drom_net.data.settings import FileData
from drom_net.data.stream import SparseRows, TaskStream
from drom_net.learning.task import TaskLearner


def bits(row: Features) -> tuple[bytes, ...]:
    return (row.indices.tobytes(), row.values.tobytes()) if isinstance(row, SparseVector) else (row.tobytes(),)


def rows_of(rows: Matrix | SparseRows) -> list[Features]:
    if isinstance(rows, SparseRows):
        return [rows.row(index) for index in range(len(rows.indptr) - 1)]
    return list(rows)


def schema_of(places: int) -> Schema:
    columns = (
        *(Column("age", "number", missing=True), Column("on", "yes/no"), Column("dose", "number")),
        *(Column("town", "category", ("Ulm", "Bonn")), Column("at", "time")),
    )
    return Schema(columns, places)


def drawn(number: int, *, seed: int = 0) -> list[list[Any]]:
    """Cells of `schema_of`: raw units, missing values, levels that are not listed."""
    rng = np.random.default_rng(seed)
    return [
        [
            None if rng.random() < 0.1 else 60.0 + 10.0 * rng.standard_normal(),
            bool(rng.random() < 0.5),
            float(1e9 + rng.integers(5)) if rng.random() < 0.9 else None,
            ["Ulm", "Bonn", "Köln", None][rng.integers(4)],
            f"2024-05-{rng.integers(1, 29):02}T{rng.integers(24):02}:30",
        ]
        for _ in range(number)
    ]


def encoded(schema: Schema, cells: list[list[Any]]) -> Matrix | SparseRows:
    rows = [schema.encode(row) for row in cells]
    if not schema.is_sparse:
        return np.array(rows)
    sparse = [row for row in rows if isinstance(row, SparseVector)]
    indptr = np.cumsum([0, *(len(row.indices) for row in sparse)]).astype(np.int64)
    indices, values = (np.concatenate([row[part] for row in sparse]) for part in (0, 1))
    return SparseRows(indptr, indices, values, schema.width)


def preprocessing_of(schema: Schema, **options: Any) -> Preprocessing:
    made: dict[str, Any] = {"scaling": "running", "normalize": True, "bias": 1.0} | options
    return Preprocessing(schema.width, numbers=schema.num_numbers, schema=schema, **made)


BOTH = pytest.mark.parametrize("places", [4, 200], ids=["dense", "sparse"])


@BOTH
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalize": False},
        {"bias": 0.0},
        {"scaling": "none", "scale": (10.0, 1e9, 1e4)},
        {"center": (60.0, 1e9, 2e4)},
    ],
    ids=str,
)
def test_in_blocks_and_one_by_one_they_have_the_same_bits(places: int, options: dict[str, Any]) -> None:
    schema = schema_of(places)
    made = preprocessing_of(schema, **options)
    raw = encoded(schema, drawn(300))
    whole = rows_of(made.apply(raw, "a"))
    alone = made.begin("a")
    assert [bits(alone.take_one(row)) for row in rows_of(raw)] == [bits(row) for row in whole]
    in_blocks = made.begin("a")
    task = TaskStream(raw, np.zeros(300), np.zeros(300))
    parts: list[Features] = []
    for start, stop in ((0, 1), (1, 1), (1, 130), (130, 300)):
        part = task.rows.take(np.arange(start, stop)) if isinstance(task.rows, SparseRows) else task.rows[start:stop]
        parts += rows_of(in_blocks.take(part))
    assert list(map(bits, parts)) == list(map(bits, whole))
    if made.is_running:
        assert in_blocks.state is not None and alone.state is not None
        assert in_blocks.state.tobytes() == alone.state.tobytes()


@BOTH
def test_a_row_and_its_bias_have_unit_norm_together(places: int) -> None:
    """ "then, together with the constant `bias` (.. inside the norm, not after it ..), brought to unit norm"."""
    schema = schema_of(places)
    for row in rows_of(preprocessing_of(schema, bias=0.5).apply(encoded(schema, drawn(50)), "a")):
        values = row.values if isinstance(row, SparseVector) else row
        assert np.linalg.norm(values) == pytest.approx(1.0, rel=1e-12)
        assert 0.0 < values[-1] < 1.0
        numbers = [*row.indices].count(schema.width) if isinstance(row, SparseVector) else 1
        assert numbers == 1, "the bias is last"


def test_only_numbers_are_standardised() -> None:
    """ "One-hot and yes/no columns are not standardised"."""
    schema = schema_of(4)
    raw = encoded(schema, drawn(50))
    assert isinstance(raw, np.ndarray)
    result = preprocessing_of(schema, normalize=False).apply(raw, "a")
    assert isinstance(result, np.ndarray)
    np.testing.assert_array_equal(result[:, 3:-1], raw[:, 3:])
    np.testing.assert_array_equal(result[:, -1], 1.0)
    np.testing.assert_array_equal(result[np.isnan(raw[:, 0]), 0], 0.0), "a missing value is the mean"
    assert np.abs(result[:, :3]).max() <= 5.0


def test_a_row_depends_on_those_before_it_alone() -> None:
    """ "Preparation without looking ahead"."""
    schema = schema_of(4)
    made = preprocessing_of(schema)
    first = made.apply(encoded(schema, drawn(80)), "a")
    other = made.apply(encoded(schema, drawn(40) + drawn(40, seed=9)), "a")
    assert isinstance(first, np.ndarray) and isinstance(other, np.ndarray)
    assert first[:40].tobytes() == other[:40].tobytes() and first[40:].tobytes() != other[40:].tobytes()


@BOTH
@given(rounds=st.integers(0, 45))
def test_a_stream_that_is_cut_short_leaves_the_state_of_what_was_learned(places: int, rounds: int) -> None:
    schema = schema_of(places)
    made = preprocessing_of(schema)
    raw, labels = encoded(schema, drawn(40)), np.ones(40)
    settings = FileData(files="a.csv")
    stream = make_stream(TaskData("a", raw, labels), settings, seed=0, index=0, rounds=rounds, preprocessing=made)
    whole = make_stream(TaskData("a", raw, labels), settings, seed=0, index=0, preprocessing=made)
    assert [bits(row) for row in rows_of(stream.rows)] == [bits(row) for row in rows_of(whole.rows)]
    preparation = made.begin("a")
    for row in rows_of(raw)[:rounds]:
        preparation.take_one(row)
    assert stream.scaling is not None and preparation.state is not None
    assert stream.scaling.tobytes() == preparation.state.tobytes()


@BOTH
@pytest.mark.parametrize("at", [0, 1, 17, 40])
def test_a_restart_in_the_middle_gives_the_same_bits(places: int, at: int) -> None:
    """A live learner that goes on from its snapshot, beside one that never stopped."""
    schema = schema_of(places)
    made = preprocessing_of(schema)
    raw = rows_of(encoded(schema, drawn(40)))
    labels = np.where(np.arange(40) % 3, 1.0, -1.0)
    labels[::11] = 0.0  # predicted, not learned: they count for the means all the same

    def stream() -> LiveStream:
        found = LiveStream(made.dim, preprocessing=made, task="a")
        for row, label in zip(raw, labels.tolist(), strict=True):
            found.add(row, label)
        return found

    def go(learner: TaskLearner, start: int, stop: int) -> None:
        for t in range(start + 1, stop + 1):
            learner.begin(t)
            learner.end(t)

    steady = TaskLearner(drom(None), stream())
    go(steady, 0, 40)
    before = TaskLearner(drom(None), stream())
    go(before, 0, at)
    snapshot = before.snapshot()
    go(before, at, 40)  # what it did after its snapshot is lost
    again = TaskLearner(drom(None), stream())
    again.restore(snapshot)
    go(again, at, 40)
    for learner in (before, again):
        assert learner.result().chain == steady.result().chain
        assert learner.totals == steady.totals
    assert steady.totals.unlabelled == 4 and steady.totals.examples == 36
    stored = make_stream(
        TaskData("a", encoded(schema, drawn(40)), labels), FileData(files="a.csv"), seed=0, index=0, preprocessing=made
    )
    loop = TaskLearner(drom(None), stored)
    go(loop, 0, 40)
    assert loop.result().chain == steady.result().chain


@BOTH
def test_predicting_in_between_changes_nothing(places: int) -> None:
    schema = schema_of(places)
    made = preprocessing_of(schema)
    raw = rows_of(encoded(schema, drawn(30)))
    chains = []
    for looks in (False, True):
        stream = LiveStream(made.dim, preprocessing=made, task="a")
        learner = TaskLearner(drom(None), stream)
        for t, row in enumerate(raw, start=1):
            stream.add(row, 1.0 if t % 2 else -1.0)
            if looks:
                assert np.isfinite([learner.predict(other) for other in raw[:5]]).all()
            learner.begin(t)
            learner.end(t)
        chains.append(learner.result().chain)
    assert chains[0] == chains[1]


# --- one table in every form -------------------------------------------------------------------------

SITES = ("Köln Süd", "north", "s9")


def visits(number: int = 90) -> list[dict[str, Any]]:
    rng = np.random.default_rng(8)
    rows = []
    for index in range(number):
        dose = None if rng.random() < 0.1 else round(float(rng.normal(40, 10)), 2)
        age = float(rng.integers(30, 90))
        smokes = bool(rng.random() < 0.4)
        ward = ["A", "B", "C"][rng.integers(3)]
        ill = (age - 60) / 10 + ((dose or 40) - 40) / 10 + smokes - (ward == "B") > rng.normal()
        day = f"2024-{1 + index // 28:02}-{1 + index % 28:02}"
        label = None if rng.random() < 0.05 else bool(ill)
        rows.append(
            {
                "site": SITES[rng.integers(3)],
                "age": age,
                "dose": dose,
                "smokes": smokes,
                "ward": ward,
                "day": day,
                "ill": label,
            }
        )
    return rows


def write_csv(path: Path, rows: list[dict[str, Any]], *, style: str = "plain") -> None:
    delimiter, point, words, encoding = {
        "plain": (",", ".", ("False", "True"), "utf-8"),
        "tabs": ("\t", ".", ("0", "1"), "utf-8-sig"),
        "spreadsheet": (";", ",", ("FALSCH", "WAHR"), "cp1252"),
        "utf-16": ("|", ".", ("no", "yes"), "utf-16"),
    }[style]

    def cell(value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, bool):
            return words[value]
        return repr(value).removesuffix(".0").replace(".", point) if isinstance(value, float) else str(value)

    lines = [list(rows[0]), *([cell(value) for value in row.values()] for row in rows)]
    path.write_bytes("".join(delimiter.join(line) + "\r\n" for line in lines).encode(encoding))


def table_of(rows: list[dict[str, Any]], *, typed: bool) -> Any:
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    table = pa.table(columns)
    if typed:
        for name, kind in (
            ("site", pa.dictionary(pa.int8(), pa.string())),
            ("ward", pa.dictionary(pa.int32(), pa.string())),
            ("age", pa.int32()),
            ("day", pa.timestamp("ms")),
        ):
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name, table.column(name).cast(kind))
    return table


def without_site(rows: list[dict[str, Any]], site: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "site"} for row in rows if row["site"] == site]


def run(base: Path, data: str, more: str = "") -> Prepared:
    (base / "c.yaml").write_text(f"algorithm: {{name: drom}}\ndata: {{{data}, label: ill}}\n{more}", encoding="utf-8")
    config = load_config(base / "c.yaml")
    return prepare(config, load_dataset(config.data, base=config.base))


FORMS = [
    "plain",
    "tabs",
    "spreadsheet",
    "utf-16",
    "parquet",
    "typed parquet",
    "a file a site",
    "columns in another order",
]


@pytest.mark.parametrize("form", FORMS)
def test_one_table_in_every_form_gives_the_same_digest(tmp_path: Path, form: str) -> None:
    """Issue, "must show" 2: "one CSV, a file a site, TSV, Parquet, and a spreadsheet's CSV give the same digest"."""
    rows = visits()
    data = "files: t.csv, task_column: site"
    if form == "a file a site":
        for site in SITES:
            write_csv(tmp_path / f"of-{site}.csv", without_site(rows, site))
        data = "files: 'of-{task}.csv'"
    elif "parquet" in form:
        pq.write_table(table_of(rows, typed="typed" in form), tmp_path / "t.parquet")
        data = "files: t.parquet, task_column: site"
    elif form == "columns in another order":
        write_csv(tmp_path / "t.csv", [dict(reversed(row.items())) for row in rows])
        kinds = "age: number, dose: {kind: number, missing: true}, smokes: yes/no"
        kinds += ", ward: {kind: category, levels: [A, B, C]}"
        data += f", hash: 16, columns: {{{kinds}, day: date}}"
    else:
        write_csv(tmp_path / "t.csv", rows, style=form)
    prepared = run(tmp_path, data)
    columns = prepared.dataset.preprocessing.schema.columns  # type: ignore[union-attr]
    assert [column.kind for column in columns] == ["number", "number", "yes/no", "category", "date"]
    assert prepared.roster.tasks == SITES
    folder = tmp_path / "plain"
    folder.mkdir()
    write_csv(folder / "t.csv", rows)
    expected = run(folder, "files: t.csv, task_column: site")
    assert run_loop(prepared).digest == run_loop(expected).digest


def test_live_json_lines_give_the_rows_of_the_file(tmp_path: Path) -> None:
    """Issue, "must show" 2: "live JSON lines give the same prepared rows"; CSV lines too."""
    rows = visits()
    write_csv(tmp_path / "t.csv", rows)
    prepared = run(tmp_path, "files: t.csv, task_column: site")
    made, labels = prepared.dataset.preprocessing, prepared.dataset.labels
    assert labels is not None
    reader = RowReader.from_json(json.loads(json.dumps(RowReader(made, "ill", labels).to_json())))
    for site, stream in zip(SITES, prepared.streams, strict=True):
        own = without_site(rows, site)
        write_csv(tmp_path / "own.csv", own)
        texts = {
            "jsonl": [json.dumps(row) for row in own],
            "csv": (tmp_path / "own.csv").read_text("utf-8").splitlines(),
        }
        for format, lines in texts.items():
            source = LineParser(format, reader)
            live = LiveStream(made.dim, preprocessing=made, task=site)
            for line in lines:
                if (example := source.read(line.encode())) is not None:
                    live.add(*example)
            assert live.backlog == stream.num_examples == len(own)
            for t in range(1, len(own) + 1):
                index = live.index_at(t)
                assert index is not None
                assert bits(live.features(index)) == bits(stream.features(index))
                assert live.label(index) == stream.label(index)


def test_what_was_found_is_what_a_lone_node_needs(tmp_path: Path) -> None:
    """A site that sees only its own file comes to the same columns: kinds and levels stand in the configuration."""
    write_csv(tmp_path / "t.csv", visits())
    prepared = run(tmp_path, "files: t.csv, task_column: site, tasks: [s9, north]")
    settings = prepared.config.data
    for index, task in enumerate(prepared.roster.tasks):
        alone = load_dataset(settings, base=tmp_path, only=task)
        assert alone.feature_digest == prepared.dataset.feature_digest
        assert alone.preprocessing == prepared.dataset.preprocessing
        stream = make_stream(alone.tasks[0], settings, seed=0, index=index, preprocessing=alone.preprocessing)
        other = prepared.streams[index]
        assert list(map(bits, rows_of(stream.rows))) == list(map(bits, rows_of(other.rows)))
        assert stream.labels.tobytes() == other.labels.tobytes()


# --- order -------------------------------------------------------------------------------------------


def order(base: Path, data: str, text: str) -> list[float]:
    (base / "t.csv").write_text(text)
    prepared = run(base, f"files: t.csv, {data} normalize: false, scaling: none")
    rows = prepared.streams[0].rows
    assert isinstance(rows, np.ndarray)
    return list(rows[:, 0].tolist())


def test_rows_of_files_are_learned_in_the_files_order(tmp_path: Path) -> None:
    text = "x,ill\n" + "".join(f"{number},{int(number > 4)}\n" for number in (3, 9, 7, 5, 2, 4))
    assert order(tmp_path, "", text) == [3, 9, 7, 5, 2, 4]
    shuffled = order(tmp_path, "shuffle: true,", text)
    assert sorted(shuffled) == [2, 3, 4, 5, 7, 9] and shuffled != [3, 9, 7, 5, 2, 4]


@pytest.mark.parametrize(
    "times",
    [
        ["2024-05-03", "2024-05-01", "2024-05-02", "2024-05-01"],
        ["2024-05-01T10:00", "2024-05-01T08:00", "2024-05-01T09:00Z", "2024-05-01T08:00"],
        ["10", "9", "9.5", "9"],
        ["1e3", "-2", "0", "-2"],
    ],
)
def test_rows_are_ordered_by_a_time_or_number_and_equals_stay_in_order(tmp_path: Path, times: list[str]) -> None:
    text = "x,when,ill\n" + "".join(f"{number + 5},{time},{number % 2}\n" for number, time in enumerate(times))
    assert order(tmp_path, "order: when,", text) == [6, 8, 7, 5]


def test_a_date_with_a_format_orders_too(tmp_path: Path) -> None:
    text = "x,when,ill\n5,03.01.2024,1\n6,01.02.2023,0\n7,02.12.2023,1\n"
    columns = "columns: {x: number, when: {kind: date, format: '%d.%m.%Y'}}, order: when,"
    assert order(tmp_path, columns, text) == [6, 7, 5]
