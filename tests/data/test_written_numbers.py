"""Numbers as people write them, with thousands and currency: read where a column is written so throughout, and said."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from drom_net.api.rows import read_rows
from drom_net.cli import main
from drom_net.core.errors import DataError
from drom_net.data.cells import NUMBER_FORMATS, CellError, number_of, written_number
from drom_net.data.columns import Column, Schema
from drom_net.data.files import load_files, resolved
from drom_net.data.incoming import RowError, RowReader
from drom_net.data.kinds import Found, Part, find_schema
from drom_net.data.preprocessing import Preprocessing
from drom_net.data.settings import FileData
from drom_net.data.tables import Numbers, Texts

POINT, COMMA = NUMBER_FORMATS


def texts(*values: str) -> Texts:
    different = list(dict.fromkeys(values))
    return Texts(np.array([different.index(value) for value in values]), different)


def look(*parts: Texts | Numbers) -> tuple[Column, Found]:
    found = find_schema(["x"], {"x": [Part(cells, None) for cells in parts]}, given={})
    return found.schema.columns[0], found


@pytest.mark.parametrize(
    ("text", "with_point", "with_comma"),
    [
        ("$5,341.25", (5341.25, "$"), None),
        ("5.341,25 €", None, (5341.25, "€")),
        ("1,234", (1234.0, ""), (1.234, "")),
        ("1.234", (1.234, ""), (1234.0, "")),
        ("0,123", None, (0.123, "")),
        ("1,234,567", (1234567.0, ""), None),
        ("CHF 1'234.50", (1234.5, "CHF"), None),
        ("1\u202f234,5", None, (1234.5, "")),
        ("(5,341.25)", (-5341.25, ""), None),
        ("-$3.5", (-3.5, "$"), None),
        ("\u22125", (-5.0, ""), (-5.0, "")),
        ("12%", (12.0, "%"), (12.0, "%")),
        ("86.0 kg", (86.0, "kg"), None),
        ("86,5kg", None, (86.5, "kg")),
        ("138 mmHg", (138.0, "mmHg"), (138.0, "mmHg")),
        ("1,250 mg/dl", (1250.0, "mg/dl"), (1.25, "mg/dl")),
        ("-3.5 °C", (-3.5, "°C"), None),
        ("kg 86", None, None),
        ("12A", None, None),
        ("12 kgs each", None, None),
        ("1,23,4", None, None),
        ("1,234.5.6", None, None),
        ("1,234'567", None, None),
        ("SKU123", None, None),
        ("12.05.2024", None, None),
        ("$", None, None),
        ("$5 USD", None, None),
        ("(5", None, None),
        ("", None, None),
    ],
)
def test_a_written_number(
    text: str, with_point: tuple[float, str] | None, with_comma: tuple[float, str] | None
) -> None:
    assert (written_number(text, POINT), written_number(text, COMMA)) == (with_point, with_comma)


@pytest.mark.parametrize(
    ("cells", "format", "told"),
    [
        (["$1,000.50", "$980", "$12,345.00"], POINT, 'has numbers written as "$1,000.50", which is 1000.5'),
        (["1.000,50 €", "980,00 €", "12.345,75 €"], COMMA, 'has numbers written as "1.000,50 €", which is 1000.5'),
        (["1,234", "12,5", "3,456"], COMMA, 'written as "1,234", which is 1.234'),
        (["1,234", "12.5", "3,456,789"], POINT, 'written as "1,234", which is 1234'),
        (["1,234", "5,678"], POINT, 'which is 1234 (if it is a decimal comma: format: "1.234,5")'),
        (["12,5", "3,75"], COMMA, 'written as "12,5", which is 12.5'),
    ],
)
@pytest.mark.parametrize("repeats", [2, 20])
def test_a_column_that_is_written_in_one_way(cells: list[str], format: str, told: str, repeats: int) -> None:
    column, found = look(texts(*cells * repeats))
    assert column == Column("x", "number", format=format)
    assert len(found.notes) == 1
    assert told in found.notes[0]
    assert ("if it is" in found.notes[0]) == ("if it is" in told)


@pytest.mark.parametrize(
    "cells",
    [
        ["1,000.50", "1.000,50"],
        ["$5.50", "€7.25"],
        ["12%", "0.5"],
        ["SKU001", "SKU002"],
        ["12,5 kg", "3"],
    ],
)
def test_a_column_that_is_not_written_in_one_way_is_no_number(cells: list[str]) -> None:
    assert look(texts(*cells * 20))[0].kind == "category"


def test_several_ways_are_named_where_every_row_differs() -> None:
    cells = [form for n in range(30) for form in (f"{n + 1},000.5", f"{n + 1}.000,5")]
    column, found = look(texts(*cells))
    assert column.kind == "identifier"
    assert 'looks like numbers, but in several ways or units ("1,000.5" and "1.000,5")' in found.notes[0]


def test_some_odd_texts_are_missing_and_large_numbers_are_not() -> None:
    column, found = look(texts(*["12.5", "1,234.5", "7"] * 10, "k. A."))
    assert column == Column("x", "number", missing=True, format=POINT)
    assert found.schema.missing_texts == ("k. A.",)
    assert '"k. A." 1' in found.notes[0]


def test_a_site_whose_file_has_no_thousands_yet() -> None:
    """Of a file with decimal commas all of whose cells are numbers by themselves."""
    assert look(Numbers(np.array([12.5, 3.25])), texts("1.234,5", "7,25"))[0].format == COMMA


def test_plain_numbers_stay_plain() -> None:
    for cells in (Numbers(np.array([1.5, 2.5])), texts("1.5", "2.5", "n/k", *["3.5"] * 20)):
        assert look(cells)[0].format == ""


def test_the_format_of_a_column_is_checked_and_read_back() -> None:
    column = Column("x", "number", format=COMMA)
    assert Column.of("x", column.to_plain()) == column
    assert Schema.from_json(json.loads(json.dumps(Schema((column,), 1).to_json()))).columns == (column,)
    with pytest.raises(ValueError, match=r'as `format` of a number one of "1,234.5", "1.234,5"'):
        Column.of("x", {"kind": "number", "format": "%d"})
    assert (number_of("1.234,5", COMMA), number_of(7, COMMA)) == (1234.5, 7.0)
    with pytest.raises(CellError, match=r'expected a number such as 1234\.5 \(format: "1\.234,5" in data\.columns'):
        number_of("3,5 €")
    with pytest.raises(CellError, match=r'expected a number as 1\.234,5, got "12\.5"'):
        number_of("12.5", COMMA)


@pytest.mark.parametrize("decimal", [".", ","])
def test_live_rows_are_read_in_the_same_way(decimal: str) -> None:
    schema = Schema((Column("x", "number", format=POINT), Column("y", "number")), places=1)
    reader = RowReader(Preprocessing(raw_dim=schema.width, schema=schema, numbers=2))
    row = reader.csv_row(["$1,234.5", "2,5" if decimal == "," else "2.5"], decimal)
    assert isinstance(row, np.ndarray)
    assert row[:2].tolist() == [1234.5, 2.5]
    assert isinstance(named := reader.row({"x": 3, "y": "2.5"}), np.ndarray)
    assert named[:2].tolist() == [3.0, 2.5]
    with pytest.raises(RowError, match=r"a number as 1,234\.5"):
        reader.row(["1.234,5", 1.0])


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_init_run_and_predict_read_them(
    delimiter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The label is whether the price is above 5,000: nothing else tells it."""
    monkeypatch.chdir(tmp_path)
    values = [800.0 + 137.5 * (37 * number % 64) for number in range(200)]
    form = "{:,.2f}" if delimiter == "," else "{:_.2f}"
    written = [form.format(value) for value in values]
    if delimiter == ";":
        written = [text.replace(".", ",").replace("_", ".") for text in written]
    lines = [
        f'{("a", "b")[n % 2]}{delimiter}"{text} USD"{delimiter}{("low", "high")[value > 5000]}'
        for n, (text, value) in enumerate(zip(written, values, strict=True))
    ]
    Path("t.csv").write_text("\n".join([delimiter.join(("site", "price", "level")), *lines]) + "\n")
    assert main(["init", "t.csv", "--site", "site", "--label", "level"]) == 0
    assert f'{written[0]} USD", which is 800' in capsys.readouterr().out
    assert main(["run", "t.yaml", "--driver", "reference", "--out", "run", "-q"]) == 0
    assert json.loads(Path("run/summary.json").read_text())["error_rate"] < 0.2
    rows = [f'a{delimiter}"{text} USD"' for text in (written[3], written[0])]
    text = "\n".join([f"site{delimiter}price", *rows]) + "\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    capsys.readouterr()
    assert main(["predict", "run", "--json"]) == 0
    assert [one["label"] for one in json.loads(capsys.readouterr().out)] == [
        ("low", "high")[values[3] > 5000],
        "low",
    ]


def two_sites(plain: list[str]) -> None:
    label = ("low", "high")
    written = [f'"5.{n + 100},25 EUR",{label[n % 2]}' for n in range(20)]
    Path("a.csv").write_text("\n".join(["price,level", *written]) + "\n")
    others = [f"{plain[n % len(plain)]},{label[n % 2]}" for n in range(20)]
    Path("b.csv").write_text("\n".join(["price,level", *others]) + "\n")


def test_a_format_holds_for_the_texts_of_all_sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded again with the columns that were found, as by a replay or a lone worker, rows are the same."""
    monkeypatch.chdir(tmp_path)
    two_sites(["1.234", "2.500"])
    settings = FileData(files="{task}.csv", tasks=("a", "b"), label="level", positive=("high",), negative=("low",))
    first = load_files(settings, base=tmp_path)
    known = resolved(settings, first)
    assert isinstance(known, FileData) and known.columns == (Column("price", "number", format=COMMA),)
    for found in (first, load_files(known, base=tmp_path), load_files(known, base=tmp_path, only="b")):
        rows = found.tasks[-1].rows
        assert isinstance(rows, np.ndarray)
        assert rows[:2, 0].tolist() == [1234.0, 2500.0]


@pytest.mark.parametrize("odd", ["1.5", "1e-3"])
def test_a_plain_number_that_the_format_cannot_have_is_one_error(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    two_sites(["1.234", odd])
    with pytest.raises(DataError) as raised:
        load_files(FileData(files="{task}.csv", label="level"), base=tmp_path)
    assert str(raised.value) == (
        f'b.csv:3, column "price": expected a number written as 1.234,5, as in a.csv, got "{odd}"; '
        "write the column in one way and unit at all sites"
    )


def test_numbers_by_type_are_read_by_no_format(tmp_path: Path) -> None:
    """Of Parquet files and frames: 5.341 is no text, whatever format texts have."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"price": ["1.234,5", "7,25"], "y": ["a", "b"]}), tmp_path / "t.parquet")
    pq.write_table(pa.table({"price": [5.341, 2.5], "y": ["a", "b"]}), tmp_path / "n.parquet")
    column = Column("price", "number", format=COMMA)
    for columns in (None, (column,)):
        settings = FileData(files="{task}.parquet", tasks=("t", "n"), label="y", positive=("a",), columns=columns)
        found = load_files(settings, base=tmp_path)
        assert [np.asarray(task.rows)[:, 0].tolist() for task in found.tasks] == [[1234.5, 7.25], [5.341, 2.5]]
    schema = Schema((column,), places=1)
    reader = RowReader(Preprocessing(raw_dim=schema.width, schema=schema, numbers=1))
    for cells, number in ((pa.array([5.341]), 5.341), (pa.array(["5.341"]), 5341.0)):
        assert np.asarray(read_rows(pa.table({"price": cells}), reader))[0, 0] == number


@pytest.mark.parametrize(("cells", "code"), [(("2,500", "7,000.5"), 0), (("2.500,5", "7,25"), 2)])
def test_drafts_with_plain_numbers_are_merged_where_the_format_reads_them(
    cells: tuple[str, str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for site, its in (("north", ("1.125", "0.5")), ("south", cells)):
        lines = [f'"{its[n % 2]}",{("low", "high")[n % 2]}' for n in range(20)]
        Path(f"{site}.csv").write_text("\n".join(["price,level", *lines]) + "\n")
        assert main(["init", f"{site}.csv", "--site", "-", "--label", "level"]) == 0
    capsys.readouterr()
    assert main(["init", "--merge", "north.yaml", "south.yaml", "-o", "both.yaml"]) == code
    if code:
        told = 'data.columns: "price": expected one kind at all sites, got north.yaml number, south.yaml number 1.234,5'
        assert told in capsys.readouterr().err


def test_a_column_of_one_unit_is_of_numbers_and_of_codes_a_category() -> None:
    column, found = look(texts(*[f"{number}.5 kg" for number in range(60, 90)]))
    assert (column.kind, column.format) == ("number", POINT)
    assert any("written as" in note for note in found.notes)
    assert look(texts("1A", "2A", "3B", "1A", "2A", "3B"))[0].kind == "category"
