"""Columns of a table by kind, and how the cells of a row become numbers. NumPy only: live nodes use it too.

An encoded row has its numbers first, one a column of kind `number`, `date` or `time`, NaN where it is missing; then
what is not standardised: yes/no columns, the time of day, a place for each listed level of a category and for each
column known to have missing values; then the hashed places. Whatever is not listed goes there: words, other levels,
unexpected missing values.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from drom_net.algorithms.features import Features, SparseVector
from drom_net.core.fields import Spec
from drom_net.data.cells import (
    EPOCH,
    HALF,
    MISSING,
    NO,
    NUMBER_FORMATS,
    WORD,
    YES,
    CellError,
    days_of,
    hashed,
    number_of,
    plain_text,
    shown,
)
from drom_net.data.faults import quoted

NUMBER, YES_NO, CATEGORY, DATE, TIME, TEXT = "number", "yes/no", "category", "date", "time", "text"
IDENTIFIER, COUNTER, EMPTY, IGNORED = "identifier", "counter", "empty", "ignored"
KINDS = (NUMBER, YES_NO, CATEGORY, DATE, TIME, TEXT, IDENTIFIER, COUNTER, EMPTY, IGNORED)
LEFT_OUT = (IDENTIFIER, COUNTER, EMPTY, IGNORED)
"""Kinds of columns that no learner sees."""

TEXT_PLACES = 2**12
"""Hashed places where a column is text, or a category without listed levels; the most that are chosen."""
LEVEL_PLACES = 16
"""Hashed places where all levels are listed, for those that turn up later."""
DENSE_LIMIT = 64
"""With more columns than this that are mostly zero, rows are sparse."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column as `data.columns` describes it.

    Attributes:
        kind: One of `KINDS`.
        levels: Of a category, those with a place of their own.
        missing: Whether missing values have a place of their own.
        format: Of a date, as `strptime` takes it; empty for ISO 8601. Of a number one of `NUMBER_FORMATS`; empty for
            1234.5.
    """

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    missing: bool = False
    format: str = ""

    @property
    def is_used(self) -> bool:
        return self.kind not in LEFT_OUT

    @property
    def has_number(self) -> bool:
        """Whether it has a place among the numbers."""
        return self.kind in (NUMBER, DATE, TIME)

    def to_plain(self) -> str | dict[str, Any]:
        """As the configuration has it."""
        more: dict[str, Any] = {}
        if self.kind == CATEGORY and self.levels:
            more["levels"] = list(self.levels)
        if self.missing:
            more["missing"] = True
        if self.format:
            more["format"] = self.format
        return {"kind": self.kind, **more} if more else self.kind

    @classmethod
    def of(cls, name: str, plain: object) -> Column:
        """What `to_plain` gave.

        Raises:
            ValueError: It is something else; the text says what was expected.
        """
        fields: dict[str, Any] = {"kind": plain} if isinstance(plain, str) else {}
        if isinstance(plain, Mapping):
            fields = dict(plain)
        kind = fields.pop("kind", None)
        if kind not in KINDS:
            raise ValueError(f"a kind ({', '.join(KINDS)}), or a mapping with it as `kind`")
        levels = fields.pop("levels", [])
        if not isinstance(levels, list) or not all(isinstance(level, str) for level in levels):
            raise ValueError("a list of texts as `levels`; numbers, true and false need quotes there")
        if len(set(levels)) < len(levels) or (levels and kind != CATEGORY):
            raise ValueError("different `levels`, of a category")
        missing, format = fields.pop("missing", False), fields.pop("format", "")
        if (
            not isinstance(missing, bool)
            or not isinstance(format, str)
            or (format and kind not in (DATE, TIME, NUMBER))
        ):
            raise ValueError("true or false as `missing`, and as `format` of a date a text such as %d.%m.%Y")
        if format and kind == NUMBER and format not in NUMBER_FORMATS:
            raise ValueError(f"as `format` of a number one of {', '.join(map(quoted, NUMBER_FORMATS))}")
        if format and kind != NUMBER:
            try:
                datetime.datetime.strptime(EPOCH.strftime(format), format)
            except (ValueError, re.error) as error:
                raise ValueError(f"as `format` what a date is written and read by: {error}") from None
        if fields:
            raise ValueError(f"the keys kind, levels, missing and format, not {quoted(str(next(iter(fields))))}")
        return cls(name, kind, tuple(levels), missing, format)


@dataclass(frozen=True, slots=True)
class ColumnKinds(Spec):
    """The columns of a table, with the kind of each."""

    def expected(self) -> str:
        return "a mapping from column names to kinds"

    def parse(self, value: object) -> tuple[Column, ...]:
        if not isinstance(value, dict) or not value:
            raise ValueError
        columns = []
        for name, plain in value.items():
            if not isinstance(name, str):
                raise ValueError(f"the column name {name} needs quotes")
            try:
                columns.append(Column.of(name, plain))
            except ValueError as error:
                raise ValueError(f"of column {quoted(name)}: expected {error}") from None
        if not any(column.is_used for column in columns):
            raise ValueError("at least one column of a kind that is learned from: all of these are left out")
        return tuple(columns)

    def schema(self) -> dict[str, object]:
        kind = {"enum": list(KINDS)}
        texts = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
        more = {"kind": kind, "levels": texts, "missing": {"type": "boolean"}, "format": {"type": "string"}}
        described = {"type": "object", "properties": more, "required": ["kind"], "additionalProperties": False}
        return {"type": "object", "minProperties": 1, "additionalProperties": {"anyOf": [kind, described]}}

    def plain(self, value: object) -> object:
        assert isinstance(value, tuple)
        return {column.name: column.to_plain() for column in value}


class Entries(NamedTuple):
    """What a cell puts into the encoded row, as far as it is no number of its own."""

    places: tuple[int, ...]
    values: tuple[float, ...]


NO_ENTRIES = Entries((), ())


@dataclass(frozen=True)
class Schema:
    """The columns of a table in order, and where their cells go.

    Attributes:
        columns: All that are known, those that are left out among them.
        places: How many hashed places there are; 0 for tables of numbers that are all there.
        missing_texts: What means missing beside `MISSING`.
    """

    columns: tuple[Column, ...]
    places: int
    missing_texts: tuple[str, ...] = ()

    @cached_property
    def used(self) -> tuple[Column, ...]:
        """Those that a learner sees something of."""
        return tuple(column for column in self.columns if column.is_used)

    @cached_property
    def num_numbers(self) -> int:
        """So many numbers come first in a row."""
        return sum(column.has_number for column in self.used)

    @cached_property
    def _layout(self) -> tuple[dict[str, int], list[str], dict[tuple[str, str], int]]:
        """By column where its own number is, the names of all features, and where the other places are."""
        numbers = {column.name: index for index, column in enumerate(c for c in self.used if c.has_number)}
        names = list(numbers)
        at: dict[tuple[str, str], int] = {}

        def place(column: Column, what: str, name: str) -> None:
            at[column.name, what] = len(names)
            names.append(name)

        for column in self.used:
            if column.kind == YES_NO:
                place(column, "yes", column.name)
            elif column.kind == TIME:
                place(column, "sin", f"{column.name} (time of day, sine)")
                place(column, "cos", f"{column.name} (time of day, cosine)")
            for level in column.levels:
                place(column, f"={level}", f"{column.name}={level}")
            if column.missing:
                place(column, "missing", f"{column.name} missing")
        return numbers, names, at

    @cached_property
    def first_hashed(self) -> int:
        return len(self._layout[1])

    @cached_property
    def width(self) -> int:
        """The length of an encoded row."""
        return self.first_hashed + self.places

    @cached_property
    def is_sparse(self) -> bool:
        """Whether rows are kept as their non-zeros (and all of their numbers)."""
        return self.width - self.num_numbers > DENSE_LIMIT

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The features' names."""
        return (*self._layout[1], *(f"hashed {place}" for place in range(self.places)))

    def number_place(self, column: Column) -> int:
        """Where the number of a column is that has one."""
        return self._layout[0][column.name]

    def is_missing(self, cell: object) -> bool:
        if cell is None:
            return True
        if isinstance(cell, str):
            text = cell.strip()
            return text in MISSING or text in self.missing_texts
        return isinstance(cell, float) and math.isnan(cell)

    def parse(self, column: Column, cell: object) -> tuple[float, Entries]:
        """(its number, the rest) of a cell: NaN where it is missing, 0 where the column has no number.

        Args:
            cell: A text as in a file, or a value as in JSON or Parquet; None is missing.

        Raises:
            CellError: The column cannot have it.
        """
        if self.is_missing(cell):
            return math.nan if column.has_number else 0.0, self._missing(column)
        if isinstance(cell, list | dict | bytes):
            raise CellError("one value", shown(cell))
        return _PARSERS[column.kind](self, column, cell)

    def _missing(self, column: Column) -> Entries:
        at = self._layout[2].get((column.name, "missing"))
        return Entries((at,), (1.0,)) if at is not None else self._hashed(f"{column.name} missing")

    def _hashed(self, what: str) -> Entries:
        if not self.places:
            raise CellError("a value", shown(None))
        place, sign = hashed(what, self.places)
        return Entries((self.first_hashed + place,), (sign,))

    def _number(self, column: Column, cell: object) -> tuple[float, Entries]:
        return number_of(cell, column.format), NO_ENTRIES

    def _yes_no(self, column: Column, cell: object) -> tuple[float, Entries]:
        text = plain_text(cell).lower()
        if text not in YES and text not in NO:
            raise CellError("yes or no (or true/false, 1/0, ...)", shown(cell))
        return 0.0, Entries((self._layout[2][column.name, "yes"],), (1.0,)) if text in YES else NO_ENTRIES

    def _category(self, column: Column, cell: object) -> tuple[float, Entries]:
        level = plain_text(cell)
        at = self._layout[2].get((column.name, f"={level}"))
        if at is not None:
            return 0.0, Entries((at,), (1.0,))
        # Two places, so that two levels that meet in one differ in the other.
        first, second = (self._hashed(f"{column.name}={level}{mark}") for mark in ("", "\0"))
        if first.places == second.places:
            return 0.0, first
        return 0.0, Entries(first.places + second.places, (first.values[0] * HALF, second.values[0] * HALF))

    def _date(self, column: Column, cell: object) -> tuple[float, Entries]:
        return self.moment(column, days_of(cell, column.format))

    def moment(self, column: Column, days: float) -> tuple[float, Entries]:
        """As `parse`, of a date or time as days since 1970-01-01."""
        if column.kind == DATE:
            return days, NO_ENTRIES
        angle = math.tau * (days - math.floor(days))
        at = self._layout[2][column.name, "sin"]
        return days, Entries((at, at + 1), (math.sin(angle), math.cos(angle)))

    def _text(self, column: Column, cell: object) -> tuple[float, Entries]:
        counts: dict[int, float] = {}
        for word in WORD.findall(str(cell).lower()):
            place, sign = hashed(f"{column.name} {word}", self.places)
            counts[self.first_hashed + place] = counts.get(self.first_hashed + place, 0.0) + sign
        counts = {place: count for place, count in counts.items() if count}
        norm = math.sqrt(sum(count * count for count in counts.values())) or 1.0
        return 0.0, Entries(tuple(counts), tuple(count / norm for count in counts.values()))

    def encode(self, cells: Sequence[object]) -> Features:
        """A row as it goes into `Preprocessing`.

        Args:
            cells: One for each column in `used`.

        Returns:
            Shape (width,): dense, or sparse with all of its numbers.

        Raises:
            CellError: A cell cannot be used; it names the column.
        """
        row = np.zeros(self.num_numbers)
        rest: dict[int, float] = {}
        for column, cell in zip(self.used, cells, strict=True):
            try:
                number, entries = self.parse(column, cell)
            except CellError as error:
                raise CellError(error.expected, error.got, column.name) from None
            if column.has_number:
                row[self.number_place(column)] = number
            for place, value in zip(*entries, strict=True):
                rest[place] = rest.get(place, 0.0) + value
        if not self.is_sparse:
            row = np.concatenate([row, np.zeros(self.width - self.num_numbers)])
            for place, value in rest.items():
                row[place] = value
            return row
        places = sorted(place for place, value in rest.items() if value)
        indices = np.array([*range(self.num_numbers), *places], dtype=np.int32)
        return SparseVector(indices, np.concatenate([row, [rest[place] for place in places]]))

    def to_json(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "columns": [[column.name, column.to_plain()] for column in self.columns],
            "places": self.places,
            "missing_texts": list(self.missing_texts),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Schema:
        """What `to_json` gave, after JSON. Raises ValueError, KeyError or TypeError for anything else."""
        columns = tuple(Column.of(name, plain) for name, plain in value["columns"])
        return cls(columns, int(value["places"]), tuple(value["missing_texts"]))


_PARSERS: dict[str, Callable[[Schema, Column, object], tuple[float, Entries]]] = {
    NUMBER: Schema._number,
    YES_NO: Schema._yes_no,
    CATEGORY: Schema._category,
    DATE: Schema._date,
    TIME: Schema._date,
    TEXT: Schema._text,
}


def places_for(columns: Sequence[Column], unlisted: int | None = None) -> int:
    """How many hashed places a table needs.

    Args:
        unlisted: How many levels have no place of their own: each takes two; None where nobody has looked.
    """
    kinds = {column.kind for column in columns}
    all_hashed = any(column.kind == CATEGORY and not column.levels for column in columns)
    if TEXT in kinds or (all_hashed and unlisted is None):
        return TEXT_PLACES
    if CATEGORY not in kinds:
        return 1
    return min(TEXT_PLACES, max(LEVEL_PLACES, 2 * (unlisted or 0)))
