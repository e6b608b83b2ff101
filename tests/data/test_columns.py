"""Cells of each kind as numbers; a row alone and whole columns come to the same bits."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drom_net.algorithms.features import SparseVector
from drom_net.core.errors import DataError
from drom_net.data.cells import LARGEST_NUMBER, MISSING, NO, YES, CellError, days_of, hashed, plain_text
from drom_net.data.columns import TEXT_PLACES, Column, ColumnKinds, Schema, places_for
from drom_net.data.encoding import Encoder
from drom_net.data.faults import Faults
from drom_net.data.stream import SparseRows
from drom_net.data.tables import Cells, Numbers, Texts


def encoded(column: Column, cell: object, places: int = 8, **more: Any) -> list[float]:
    """The row of a table that has this column alone."""
    row = Schema((column,), places, **more).encode([cell])
    assert isinstance(row, np.ndarray)
    return row.tolist()


def unit(place: int, sign: float, width: int) -> list[float]:
    row = [0.0] * width
    row[place] = sign
    return row


# --- one cell ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", [3, 3.0, "3", " 3.0 ", "3e0", "+3"])
def test_a_number(cell: object) -> None:
    assert encoded(Column("x", "number"), cell, places=0) == [3.0]


@pytest.mark.parametrize("cell", [*sorted(MISSING), " NA ", None, math.nan, "kaputt"])
def test_a_missing_number_is_no_number_and_an_indicator(cell: object) -> None:
    number, indicator = encoded(Column("x", "number", missing=True), cell, 0, missing_texts=("kaputt",))
    assert math.isnan(number) and indicator == 1.0
    assert encoded(Column("x", "number", missing=True), 3.0, 0) == [3.0, 0.0]


def test_what_is_missing_where_nothing_was_is_hashed() -> None:
    place, sign = hashed("x missing", 8)
    row = encoded(Column("x", "number"), None)
    assert math.isnan(row[0]) and row[1:] == unit(place, sign, 8)
    assert encoded(Column("x", "yes/no"), "") == [0.0, *unit(place, sign, 8)]
    with pytest.raises(CellError, match=r"expected a value, got nothing \(a missing value\)"):
        encoded(Column("x", "number"), None, places=0)


@pytest.mark.parametrize("cell", [True, 1, 1.0, "1", "1.0", " Yes ", *sorted(YES), "WAHR", "Ja", "TRUE"])
def test_yes(cell: object) -> None:
    assert encoded(Column("x", "yes/no"), cell, places=0) == [1.0]


@pytest.mark.parametrize("cell", [False, 0, 0.0, -0.0, "0.0", *sorted(NO), "FALSCH", "Nein", "False"])
def test_no(cell: object) -> None:
    assert encoded(Column("x", "yes/no"), cell, places=0) == [0.0]


TOWNS = Column("town", "category", ("3", "Bonn", "true"), missing=True)


@pytest.mark.parametrize(
    ("cell", "place"),
    [("Bonn", 1), (" Bonn ", 1), (3, 0), (3.0, 0), ("3.0", 0), ("+3.00", None), (True, 2), (None, 3), ("NULL", 3)],
)
def test_a_listed_level_has_a_place_of_its_own(cell: object, place: int | None) -> None:
    row = encoded(TOWNS, cell)
    assert row[:4] == (unit(place, 1.0, 4) if place is not None else [0.0] * 4)


def test_a_level_that_is_not_listed_has_two_hashed_places() -> None:
    first, second = hashed("town=Ulm", 8), hashed("town=Ulm\0", 8)
    assert first[0] != second[0]
    row = encoded(TOWNS, "Ulm")
    assert row[:4] == [0.0] * 4
    assert (row[4 + first[0]], row[4 + second[0]]) == (first[1] * math.sqrt(0.5), second[1] * math.sqrt(0.5))
    assert np.linalg.norm(row) == pytest.approx(1.0), "as long as a listed one"
    assert encoded(TOWNS, "ULM") != row, "levels are not the same where case differs"
    for level in map(str, range(100)):  # also where both places meet
        assert np.linalg.norm(encoded(Column("x", "category"), level, places=2)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("cell", "format", "days"),
    [
        ("1970-01-01", "", 0.0),
        ("1970-01-02T06:00", "", 1.25),
        ("1970-01-02 06:00:00.000", "", 1.25),
        ("1970-01-02T06:00+06:00", "", 1.0),
        ("1970-01-02T00:00Z", "", 1.0),
        ("31.12.1969", "%d.%m.%Y", -1.0),
        ("01/02/1970 12:00 PM", "%m/%d/%Y %I:%M %p", 1.5),
        ("0001-01-01T00:00:00+05:00", "", -719162 - 5 / 24),
        ("9999-12-31T23:59:59-05:00", "", 2932897 + (5 - 1 / 3600) / 24),
        (datetime.date(1970, 1, 3), "", 2.0),
        (datetime.datetime(1970, 1, 3, 12), "", 2.5),
    ],
)
def test_dates_are_days_since_1970(cell: object, format: str, days: float) -> None:
    assert days_of(cell, format) == pytest.approx(days, rel=1e-15)
    assert encoded(Column("x", "date", format=format), cell, places=0) == [days_of(cell, format)]
    number, sine, cosine = encoded(Column("x", "time", format=format), cell, places=0)
    assert number == days_of(cell, format)
    assert (sine, cosine) == pytest.approx((math.sin(math.tau * days), math.cos(math.tau * days)), abs=1e-9)


@pytest.mark.parametrize("format", ["%d.%m.%d", "%Q", "%"])
def test_a_format_that_reads_no_date_is_refused(format: str) -> None:
    with pytest.raises(ValueError, match="as `format` what a date is written and read by"):
        Column.of("seen", {"kind": "date", "format": format})


def test_a_level_of_half_a_character_has_a_place() -> None:
    """JSON has them; no file that is text does."""
    assert hashed("town=\ud800", 8) != hashed("town=\ud801", 2**20)


def test_columns_that_are_all_left_out_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one column of a kind that is learned from"):
        ColumnKinds().parse({"id": "identifier"})


def test_a_missing_time_has_no_time_of_day() -> None:
    row = encoded(Column("x", "time", missing=True), None, places=0)
    assert math.isnan(row[0]) and row[1:] == [0.0, 0.0, 1.0]


def test_text_is_the_hashed_counts_of_its_words_at_unit_norm() -> None:
    row = np.array(encoded(Column("note", "text"), "The pump, THE valve: x", places=50))
    expected = np.zeros(50)
    for word, count in (("the", 2), ("pump", 1), ("valve", 1)):  # a letter alone is no word
        place, sign = hashed(f"note {word}", 50)
        expected[place] += sign * count
    np.testing.assert_allclose(row, expected / np.linalg.norm(expected), rtol=1e-15)
    assert encoded(Column("note", "text"), "? x !", places=50) == [0.0] * 50
    assert encoded(Column("other", "text"), "the pump", 50) != encoded(Column("note", "text"), "the pump", 50)


def test_hashes_never_change() -> None:
    """Models and nodes on other machines count on them."""
    assert [hashed(word, 4096) for word in ("", "town=Ulm", "note the", "größe missing")] == [
        *((3503, -1.0), (567, -1.0), (1446, 1.0), (496, 1.0)),
    ]


@pytest.mark.parametrize(
    ("kind", "cell", "told"),
    [
        ("number", "old", 'expected a number, got "old"'),
        ("number", "1_000", "expected a number"),
        ("number", True, "expected a number, got True"),
        ("number", math.inf, "expected a finite number, got inf"),
        ("number", "1e999", "expected a finite number"),
        ("number", 2 * LARGEST_NUMBER, r"expected a number up to 1e\+100, got 2e\+100"),
        ("number", 10**400, "expected a finite number"),
        ("number", [1], "expected one value, got list of 1"),
        ("category", {"a": 1}, "expected one value, got dict of 1"),
        ("text", b"abc", "expected one value, got bytes of 3"),
        ("yes/no", "maybe", r'expected yes or no \(or true/false, 1/0, ...\), got "maybe"'),
        ("yes/no", 2, "expected yes or no"),
        ("date", "31.12.2024", r'expected a date \(2024-12-31, 2024-12-31T23:59\), got "31.12.2024"'),
        ("date", 20241231, "expected a date .*, got 20241231"),
        ("time", "soon", "expected a date"),
    ],
)
def test_what_a_column_cannot_have(kind: str, cell: object, told: str) -> None:
    with pytest.raises(CellError, match=told) as caught:
        Schema((Column("x", kind),), 8).encode([cell])
    assert caught.value.column == "x"


@pytest.mark.parametrize(
    ("cell", "text"),
    [(" x ", "x"), (3.0, "3"), ("3.0", "3"), ("-3.00", "-3"), (3.5, "3.5"), (-0.0, "0"), (True, "true")],
)
def test_plain_texts(cell: object, text: str) -> None:
    assert plain_text(cell) == text


# --- the layout --------------------------------------------------------------------------------------


def test_numbers_come_first_and_hashed_places_last() -> None:
    schema = Schema(
        (
            *(Column("on", "yes/no", missing=True), Column("age", "number"), Column("id", "identifier")),
            *(Column("town", "category", ("Ulm",)), Column("at", "time"), Column("note", "text")),
        ),
        places=2,
    )
    names = ("age", "at", "on", "on missing", "town=Ulm", "at (time of day, sine)", "at (time of day, cosine)")
    assert schema.names == (*names, "hashed 0", "hashed 1")
    assert (schema.num_numbers, schema.first_hashed, schema.width) == (2, 7, 9)
    assert [column.name for column in schema.used] == ["on", "age", "town", "at", "note"]
    assert not schema.is_sparse and Schema(schema.columns, 100).is_sparse


def test_so_many_places_are_hashed() -> None:
    number, listed, open_ = Column("x", "number"), Column("x", "category", ("a",)), Column("x", "category")
    assert places_for([number]) == 1, "a missing value may still come"
    assert places_for([number, listed]) == 16
    assert places_for([listed], unlisted=100) == 200
    assert (
        places_for([listed], unlisted=10**6) == TEXT_PLACES == places_for([open_]) == places_for([Column("x", "text")])
    )


def test_columns_survive_the_configuration_and_json() -> None:
    columns = (
        *(Column("a", "number"), Column("b", "category", ("x", "no", "3")), Column("c", "date", format="%d.%m.%Y")),
        *(Column("d", "time", missing=True), Column("e", "identifier")),
    )
    spec = ColumnKinds()
    assert spec.parse(json.loads(json.dumps(spec.plain(columns)))) == columns
    schema = Schema(columns, 7, ("kaputt",))
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


@pytest.mark.parametrize(
    ("plain", "told"),
    [
        ("numbr", "a kind (number, yes/no, category"),
        ({"levels": ["a"]}, "a kind"),
        ({"kind": "number", "levels": ["a"]}, "different `levels`, of a category"),
        ({"kind": "category", "levels": ["a", "a"]}, "different `levels`"),
        ({"kind": "category", "levels": [1]}, "a list of texts as `levels`; numbers, true and false need quotes"),
        ({"kind": "category", "format": "%d"}, "as `format` of a date"),
        ({"kind": "number", "missing": "yes"}, "true or false as `missing`"),
        ({"kind": "number", "unit": "kg"}, 'the keys kind, levels, missing and format, not "unit"'),
    ],
)
def test_descriptions_that_are_none(plain: object, told: str) -> None:
    with pytest.raises(ValueError) as caught:
        Column.of("x", plain)
    assert told in str(caught.value)


# --- whole columns -----------------------------------------------------------------------------------

LEVELS = ["Ulm", "Bonn", "3", "3.0", "yes", " x ", "Ulm "]
TEXTS: dict[str, st.SearchStrategy[str | None]] = {
    "number": st.sampled_from(["1", "-2.5", "0", "1e5", "NA", " 7 ", None]),
    "yes/no": st.sampled_from(["yes", "Nein", "1", "0.0", "", None]),
    "category": st.sampled_from([*LEVELS, None, "?"]),
    "date": st.sampled_from(["2024-12-31", "1969-07-20", "2024-12-31T12:00", None]),
    "time": st.sampled_from(["2024-12-31T10:20:30.5", "1969-07-20 23:59:59", None, "nan"]),
    "text": st.sampled_from(["a pump", "the pump the valve", "", "x", None, "valve pump valve pump"]),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, list[list[Any]]]:
    """A schema, and rows of cells as live data has them: texts, or numbers."""
    kinds = draw(st.lists(st.sampled_from(sorted(TEXTS)), min_size=1, max_size=5))
    columns = []
    for index, kind in enumerate(kinds):
        levels = tuple(draw(st.lists(st.sampled_from(["Ulm", "Bonn", "3", "x"]), unique=True)))
        columns.append(Column(f"c{index}", kind, levels if kind == "category" else (), draw(st.booleans())))
    schema = Schema(tuple(columns), draw(st.sampled_from([1, 2, 16, 200])))
    cells: dict[str, st.SearchStrategy[Any]] = dict(TEXTS)
    cells["number"] |= st.floats(-1e100, 1e100) | st.sampled_from([math.nan, 0.0, -0.0])
    cells["category"] |= st.sampled_from([3.0, 0.5, math.nan])
    return schema, draw(st.lists(st.tuples(*(cells[kind] for kind in kinds)).map(list), max_size=12))


def column_of(cells: list[Any]) -> Cells:
    """As a file's reader has a column: numbers, or codes of texts."""
    if cells and all(isinstance(cell, float) for cell in cells):
        return Numbers(np.array(cells))
    values = list(dict.fromkeys(str(cell) for cell in cells if cell is not None and cell == cell))
    codes = [-1 if cell is None or cell != cell else values.index(str(cell)) for cell in cells]
    return Texts(np.array(codes, dtype=np.int64), values)


@given(tables(), st.data())
def test_a_row_and_a_block_are_encoded_to_the_same_bits(
    table: tuple[Schema, list[list[Any]]], data: st.DataObject
) -> None:
    schema, rows = table
    order = np.array(data.draw(st.permutations(range(len(rows)))), dtype=np.int64)
    split = data.draw(st.integers(0, len(rows)))
    parts = [order[:split], order[split:]]
    encoder = Encoder(schema, [len(part) for part in parts])
    faults = Faults()
    for index, column in enumerate(schema.used):
        cells = column_of([row[index] for row in rows])
        for site, part in enumerate(parts):
            encoder.add(column, site, cells, part, lambda row: f"row {row}", faults)
    faults.raise_if_any()
    for part, block in zip(parts, encoder.rows(), strict=True):
        for place, number in enumerate(part.tolist()):
            alone = schema.encode(rows[number])
            if isinstance(block, SparseRows):
                assert isinstance(alone, SparseVector)
                together = block.row(place)
                assert together.indices.tolist() == alone.indices.tolist()
                assert together.values.tobytes() == alone.values.tobytes()
            else:
                assert isinstance(alone, np.ndarray)
                assert (block[place] + 0.0).tobytes() == (alone + 0.0).tobytes()


def test_faults_of_a_block_name_each_text_once() -> None:
    schema = Schema((Column("x", "number"),), 1)
    encoder = Encoder(schema, [5])
    faults = Faults()
    cells = Texts(np.array([0, 1, 0, 2, 0]), ["bad", "1", "worse"])
    encoder.add(schema.used[0], 0, cells, None, lambda row: f"row {row}", faults)
    with pytest.raises(DataError) as caught:
        faults.raise_if_any()
    first, second = str(caught.value).splitlines()
    assert first.startswith('row 0: expected a number, got "bad" (3 rows); data.columns says')
    assert second.startswith('row 3: expected a number, got "worse"; data.columns says')
