"""What kind of column is found by looking at its cells, and what is said of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drom_net.data.columns import Column, Schema
from drom_net.data.kinds import LISTED_LEVELS, Found, Part, find_schema
from drom_net.data.tables import Cells, Days, Numbers, Texts

RNG = np.random.default_rng(0)


def numbers(*values: float) -> Numbers:
    return Numbers(np.array(values, dtype=float))


def texts(*values: str | None) -> Texts:
    found = list(dict.fromkeys(value for value in values if value is not None))
    return Texts(np.array([-1 if value is None else found.index(value) for value in values]), found)


def look(*sites: Cells, name: str = "x", **more: Any) -> tuple[Column, Found]:
    """The one column of these sites' tables."""
    parts = {name: [Part(cells, None) for cells in sites]}
    found = find_schema([name], parts, given={}, **more)
    return found.schema.columns[0], found


def kind(*sites: Cells, name: str = "x") -> str:
    return look(*sites, name=name)[0].kind


def test_numbers() -> None:
    assert look(numbers(1.5, -2, 3))[0] == Column("x", "number")
    assert look(numbers(1.5, np.nan, 3))[0] == Column("x", "number", missing=True)
    assert look(numbers(1.5, 2), numbers(np.nan, 2))[0].missing, "missing at one site is missing at all"


def test_zero_and_one_are_yes_and_no() -> None:
    assert look(numbers(0, 1, 1), numbers(0, 0))[0] == Column("x", "yes/no")
    assert look(numbers(0, 1, np.nan))[0] == Column("x", "yes/no", missing=True)
    assert kind(numbers(0, 1, 2)) == "number" == kind(numbers(0, 1), numbers(0.5, 1))


@pytest.mark.parametrize(
    "values",
    [("yes", "no"), ("True", "False"), ("WAHR", "FALSCH"), ("ja", "Nein"), ("oui", "non"), ("t", "f"), ("Y", "n")],
)
def test_words_for_yes_and_no(values: tuple[str, str]) -> None:
    assert look(texts(*values, *values))[0] == Column("x", "yes/no")
    assert look(texts(*values, None))[0] == Column("x", "yes/no", missing=True)


def test_the_same_word_everywhere_is_yes_or_no_where_it_is_a_word() -> None:
    assert kind(texts("yes", "yes", "yes")) == "yes/no"
    assert kind(texts("t", "t", "t")) == "category", "a letter alone may be anything"
    assert kind(texts("yes", "no", "perhaps")) == "category"


COUNT = np.arange(30.0)


def test_a_pandas_index_is_left_out_and_said() -> None:
    column, found = look(Numbers(COUNT), Numbers(COUNT[:25]), name="column 1")
    assert column == Column("column 1", "counter")
    assert found.notes == ('"column 1" counts the rows: left out',)


def test_counters_over_all_sites_together_or_at_each() -> None:
    assert kind(Numbers(COUNT + 1000)) == "counter"
    assert kind(Numbers(COUNT[::2]), Numbers(COUNT[1::2])) == "counter", "a table dealt to sites"
    assert kind(Numbers(COUNT[:20]), Numbers(COUNT[20:])) == "counter"


def test_what_only_rises_or_is_short_is_no_counter() -> None:
    assert kind(Numbers(COUNT * 2)) == "number", "it may be a time"
    assert kind(Numbers(np.sort(RNG.random(30)))) == "number"
    assert kind(Numbers(RNG.permutation(COUNT))) == "number", "in another order it may be a rank"
    assert kind(Numbers(COUNT[:19])) == "number"
    assert kind(Numbers(np.append(COUNT, np.nan))) == "number"


@pytest.mark.parametrize(
    "name", ["id", "ID", "patient_id", "patientId", "Patient ID", "uuid", "Kunden-Nr", "key", "idx"]
)
def test_numbers_that_differ_and_are_called_an_identifier(name: str) -> None:
    values = Numbers(RNG.permutation(np.arange(1000.0, 1090.0))[:60])
    column, found = look(values, name=name)
    assert column.kind == "identifier"
    assert found.notes == (f'"{name}" differs in every row (an identifier): left out',)


@pytest.mark.parametrize("name", ["dose", "humid", "paid", "keyed", "grid"])
def test_other_names_are_those_of_numbers(name: str) -> None:
    assert kind(Numbers(RNG.permutation(np.arange(1000.0, 1090.0))[:60]), name=name) == "number"


def test_an_identifier_differs_in_every_row_and_is_whole() -> None:
    assert kind(Numbers(np.append(RNG.permutation(COUNT), 3)), name="id") == "number"
    assert kind(Numbers(RNG.permutation(COUNT) + 0.5), name="id") == "number"


def test_texts_that_differ_in_nearly_every_row_are_an_identifier() -> None:
    column, found = look(texts(*(f"P-{number}" for number in range(40)), "P-1"))
    assert column == Column("x", "identifier")
    assert found.notes == ('"x" differs in nearly every row (an identifier): left out',)
    assert kind(texts(*(f"P-{number}" for number in range(10)))) == "category", "ten rows do not tell"


def test_an_empty_column_is_left_out_and_said() -> None:
    for cells in (texts(None, None), numbers(np.nan, np.nan)):
        column, found = look(cells)
        assert column == Column("x", "empty")
        assert found.notes == ('"x" is empty: left out',)


def test_rare_levels_are_not_listed() -> None:
    """ "levels with fewer than 5 rows at a site, which may be names of people"."""
    column, found = look(texts(*["Ulm"] * 5, *["Bonn"] * 4, "Anna"), texts(*["Bonn"] * 4, *["Köln"] * 9, None))
    assert column == Column("x", "category", ("Köln", "Ulm"), missing=True)
    assert found.notes == ('"x" has 4 levels, 2 of them hashed (rare, or many)',)
    assert "Anna" not in str(found)
    assert found.schema.places == 16


def test_levels_are_as_they_are_encoded() -> None:
    column, found = look(texts(*["3.0"] * 3, *["3"] * 3, *[" a "] * 5, *["A"] * 5, *["b"] * 5))
    assert column.levels == ("3", "A", "a", "b")
    assert not found.notes


def test_of_many_levels_the_most_frequent_are_listed() -> None:
    often = [f"often {number}" for number in range(LISTED_LEVELS)]
    column, found = look(texts(*often * 6, *[f"less {number}" for number in range(200)] * 5))
    assert column.levels == tuple(sorted(often))
    assert found.notes == ('"x" has 500 levels, 200 of them hashed (rare, or many)',)
    assert found.schema.places == 400


@pytest.mark.parametrize(
    ("form", "values"),
    [
        ("", ["2024-12-31", "1999-01-02"]),
        ("", ["20241231T10", "19990102T11"]),
        ("%d.%m.%Y", ["31.12.2024", "02.01.1999"]),
        ("%d/%m/%Y", ["31/12/2024", "02/01/1999"]),
        ("%m/%d/%Y", ["12/31/2024", "01/02/1999"]),
        ("%Y/%m/%d", ["2024/12/31", "1999/01/02"]),
        ("%d-%b-%Y", ["31-Dec-2024", "02-Jan-1999"]),
        ("%b %d, %Y", ["Dec 31, 2024", "Jan 02, 1999"]),
        ("%d.%m.%Y %H:%M", ["31.12.2024 10:20", "02.01.1999 00:00"]),
        ("%m/%d/%Y %I:%M %p", ["12/31/2024 10:20 PM", "01/02/1999 12:00 AM"]),
    ],
)
def test_dates_of_several_forms(form: str, values: list[str]) -> None:
    has_time = any(":" in value or "T" in value for value in values)
    expected = Column("x", "time" if has_time else "date", missing=True, format=form)
    assert look(texts(*values * 15, None))[0] == expected


def test_where_day_and_month_are_not_told_apart_the_day_is_first() -> None:
    assert look(texts("01/02/2024", "03/04/2024"))[0].format == "%d/%m/%Y"


@pytest.mark.parametrize(
    ("values", "notes"),
    [
        (
            ["03/04/2024", "04/05/2024", "05/06/2024"],
            '"x" has dates that may have the day or the month first: "03/04/2024" is read as 2024-04-03, '
            'day first (if the month is first: format: "%m/%d/%Y")',
        ),
        (
            ["01-01-2024", "03-04-2024"],
            '"x" has dates that may have the day or the month first: "03-04-2024" is read as 2024-04-03, '
            'day first (if the month is first: format: "%m-%d-%Y")',
        ),
        (
            ["03/04/2024 10:30", "04/05/2024 11:00"],
            '"x" has dates that may have the day or the month first: "03/04/2024 10:30" is read as 2024-04-03, '
            'day first (if the month is first: format: "%m/%d/%Y %H:%M")',
        ),
        (["03/04/2024", "13/05/2024"], ""),  # one day beyond the twelfth tells
        (["03/04/2024", "04/13/2024"], ""),
        (["03.04.2024", "04.05.2024"], ""),  # with points the day is first everywhere
        (["03/03/2024", "05/05/2024"], ""),
    ],
)
def test_dates_with_two_readings_are_told(values: list[str], notes: str) -> None:
    column, found = look(texts(*values))
    assert column.kind in ("date", "time")
    assert "; ".join(found.notes) == notes


def test_what_is_a_date_but_for_one_text_is_none() -> None:
    assert kind(texts(*["2024-12-31", "1999-01-02"] * 5, "soon")) == "category"
    assert kind(texts(*["v1.2.3", "v1.2.4"] * 5)) == "category"


def test_days_of_a_reader_are_dates() -> None:
    assert look(Days(np.array([1.0, np.nan]), False))[0] == Column("x", "date", missing=True)
    assert look(Days(np.array([1.0]), False), Days(np.array([1.5]), True))[0] == Column("x", "time")


def test_numbers_with_odd_texts_are_numbers_and_the_texts_are_missing_and_said() -> None:
    column, found = look(texts(*(str(number / 7) for number in range(40)), *["n.d."] * 2, "<1", None))
    assert column == Column("x", "number", missing=True)
    assert found.schema.missing_texts == ("n.d.", "<1")
    assert found.notes == ('"x" has numbers, but for "n.d." 2, "<1" 1: taken for missing',)
    assert kind(texts(*["1.5", "2.5"] * 5, *["low"] * 5)) == "category", "too many for slips"
    assert kind(texts(*["1.5"] * 100, *"abcdef")) == "category", "too different ones"


def test_numbers_at_one_site_and_texts_at_another() -> None:
    assert kind(numbers(1.5, 2.5), texts("3.5", "4.5")) == "number"
    column, _ = look(numbers(*[7.0] * 5), texts(*["A7"] * 5))
    assert column == Column("x", "category", ("7", "A7"))


def test_texts_of_many_words() -> None:
    words = ["pump", "valve", "leaks", "hot", "again", "north", "fine"]
    lines = [" ".join(RNG.choice(words, 4)) + f" {number}" for number in range(50)]
    column, found = look(texts(*lines, None))
    assert column == Column("x", "text", missing=True)
    assert found.schema.places == 4096
    assert kind(texts(*["the pump leaks again"] * 30, *["all is fine here"] * 30)) == "category", "two sentences"


def test_what_is_given_is_not_looked_at() -> None:
    given = {"x": Column("x", "category", ("1",)), "y": Column("y", "ignored")}
    found = find_schema(["x", "y"], {"x": [Part(numbers(1.5), None)]}, given=given, places=7, missing=("k. A.",))
    assert found.schema == Schema((given["x"], given["y"]), 7, ("k. A.",))
    assert not found.notes


def test_further_texts_that_mean_missing() -> None:
    assert look(texts("a", "k. A.", "a", "b", "b"), missing=("k. A.",))[0].missing


def test_only_a_sites_own_rows_count() -> None:
    cells = texts(*["Ulm"] * 5, *["Bonn"] * 5, *["Anna"] * 1)
    parts = {"x": [Part(cells, np.array([0, 1, 2, 3, 4, 10])), Part(cells, np.array([5, 6, 7, 8]))]}
    found = find_schema(["x"], parts, given={})
    assert found.schema.columns[0].levels == ("Ulm",)
