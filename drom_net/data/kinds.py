"""What kind of column each column of some tables is, found by looking at all of its cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from drom_net.data.cells import MEASURES, MISSING, NO, NUMBER_FORMATS, YES, days_of, plain_text, written_number
from drom_net.data.columns import (
    CATEGORY,
    COUNTER,
    DATE,
    EMPTY,
    IDENTIFIER,
    NUMBER,
    TEXT,
    TIME,
    YES_NO,
    Column,
    Schema,
    places_for,
)
from drom_net.data.faults import parse_number, quoted
from drom_net.data.tables import Cells, Days, Numbers, Texts, counts

LISTED_LEVELS = 300
"""Levels of one category with a place of their own, at the most."""
ROWS_OF_A_LEVEL = 5
"""A level with fewer rows at every site is not listed: it may be the name of a person."""
_DISTINCT_FROM = 20
"""With fewer rows nothing is taken for an identifier or a counter."""
_WORDS_OF_TEXT = 3.0
_ALMOST_ALL = 0.9
_ODD_TEXTS = 5
_IDENTIFIER = re.compile(r"(?i:(^|[^a-z])(id|uuid|guid|nr|key|index|idx)$)|[a-z]I[Dd]$")
_DATE_FORMATS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d-%b-%Y", "%d %b %Y", "%b %d, %Y"),
    *("%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M"),
    *("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %I:%M %p", "%m/%d/%Y %I:%M:%S %p", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S"),
)
_HAS_DATE = re.compile(r"\d.*\d.*\d")


class Part(NamedTuple):
    """A site's cells of one column."""

    cells: Cells
    rows: npt.NDArray[np.int64] | None
    """Which of them are the site's; None is all."""


class Found(NamedTuple):
    """What looking has found."""

    schema: Schema
    notes: tuple[str, ...]
    """What people should know of it, a line each."""


def find_schema(
    names: Sequence[str],
    parts: Mapping[str, Sequence[Part]],
    *,
    given: Mapping[str, Column],
    missing: tuple[str, ...] = (),
    places: int | None = None,
) -> Found:
    """The kinds of all columns.

    Args:
        names: The columns in order.
        parts: By column: each site's cells; none are needed of a column that is given.
        given: Those that are known already.
        missing: What means missing beside `MISSING`.
        places: How many hashed places; by default as many as are needed.
    """
    columns, notes, odd_texts, unlisted = [], [], dict.fromkeys(missing), 0
    for name in names:
        column, why, odd, rare = _look(name, parts.get(name, ()), given.get(name), missing)
        columns.append(column)
        notes += [why] if why else []
        odd_texts |= dict.fromkeys(odd)
        unlisted += rare
    if places is None:
        all_hashed = any(column.kind == CATEGORY and not column.levels for column in given.values())
        places = places_for(columns, None if all_hashed else unlisted)
    return Found(Schema(tuple(columns), places, tuple(odd_texts)), tuple(notes))


def _look(
    name: str, parts: Sequence[Part], given: Column | None, missing: tuple[str, ...]
) -> tuple[Column, str, Sequence[str], int]:
    """A column, what to say of it, texts that mean missing, and how many levels are not listed."""
    if given is not None:
        return given, "", (), 0
    if all(isinstance(part.cells, Days) for part in parts):
        return _days(name, parts), "", (), 0
    if all(isinstance(part.cells, Numbers) for part in parts):
        return *_numbers(name, parts), (), 0
    counts = [_counts(part, missing) for part in parts]
    total = sum(counts, Counter[str]())
    written = [count for count, part in zip(counts, parts, strict=True) if isinstance(part.cells, Texts)]
    has_missing = bool(total.pop("", 0))
    return _texts(name, counts, total, sum(written, Counter[str]()), has_missing=has_missing)


def _values(part: Part) -> npt.NDArray[np.float64]:
    assert not isinstance(part.cells, Texts)
    return part.cells.values if part.rows is None else part.cells.values[part.rows]


def _days(name: str, parts: Sequence[Part]) -> Column:
    has_time = any(isinstance(part.cells, Days) and part.cells.has_time for part in parts)
    has_missing = any(bool(np.isnan(_values(part)).any()) for part in parts)
    return Column(name, TIME if has_time else DATE, missing=has_missing)


def _numbers(name: str, parts: Sequence[Part]) -> tuple[Column, str]:
    values = [_values(part) for part in parts]
    num_rows = sum(map(len, values))
    present = [found[~np.isnan(found)] for found in values]
    num_present = sum(map(len, present))
    has_missing = num_present < num_rows
    if not num_present:
        return Column(name, EMPTY), f"{quoted(name)} is empty: left out"
    if all(bool(((found == 0.0) | (found == 1.0)).all()) for found in present):
        return Column(name, YES_NO, missing=has_missing), ""
    if not has_missing and num_rows >= _DISTINCT_FROM and _is_counter(present):
        return Column(name, COUNTER), f"{quoted(name)} counts the rows: left out"
    if _IDENTIFIER.search(name) and num_present >= _DISTINCT_FROM and _are_distinct_wholes(present):
        return Column(name, IDENTIFIER), f"{quoted(name)} differs in every row (an identifier): left out"
    return Column(name, NUMBER, missing=has_missing), ""


def _is_counter(values: Sequence[npt.NDArray[np.float64]]) -> bool:
    """Whether each site's numbers rise by one, or all of them together do."""
    if not all(len(found) < 2 or found[1] - found[0] >= 1.0 for found in values):
        return False
    if not all(bool((np.diff(found) >= 1.0).all()) for found in values):
        return False
    if all(bool((np.diff(found) == 1.0).all()) for found in values):
        return True
    every = np.sort(np.concatenate(list(values)))
    return bool((np.diff(every) == 1.0).all())


def _are_distinct_wholes(values: Sequence[npt.NDArray[np.float64]]) -> bool:
    every = np.concatenate(list(values))
    return bool((every == np.floor(every)).all()) and len(np.unique(every)) == len(every)


def _counts(part: Part, missing: tuple[str, ...]) -> Counter[str]:
    """How often each text comes at a site, "" for missing; numbers and days as the texts that they would be."""
    if not isinstance(part.cells, Texts):
        found, times = np.unique(_values(part), return_counts=True)
        pairs = zip(found.tolist(), times.tolist(), strict=True)
        return Counter({"" if value != value else plain_text(value): count for value, count in pairs})
    plain: Counter[str] = Counter()
    for value, count in counts(part.cells, part.rows).items():
        text = value.strip()
        plain["" if text in MISSING or text in missing else text] += count
    return plain


def _texts(
    name: str, counts: Sequence[Counter[str]], total: Counter[str], written: Counter[str], *, has_missing: bool
) -> tuple[Column, str, Sequence[str], int]:
    """As `_look`.

    Args:
        total: Over all sites, without missing ones.
        written: Of them, those that were read as texts.
    """
    num_rows = total.total()
    if not num_rows:
        return Column(name, EMPTY), f"{quoted(name)} is empty: left out", (), 0
    lower = {text.lower() for text in total}
    if lower <= YES | NO and ((lower & YES and lower & NO) or all(len(text) > 1 for text in lower)):
        return Column(name, YES_NO, missing=has_missing), "", (), 0
    odd = [text for text in total if parse_number(text) is None]
    del written[""]
    if (numbers := _written(written, odd)) is not None:
        format, odd, why = numbers
        return Column(name, NUMBER, missing=has_missing or bool(odd), format=format), f"{quoted(name)} {why}", odd, 0
    if len(odd) <= _ODD_TEXTS and sum(total[text] for text in odd) <= (1.0 - _ALMOST_ALL) * num_rows:
        why = ""
        if odd:
            listed = ", ".join(f"{quoted(text)} {total[text]:,}" for text in odd)
            why = f"{quoted(name)} has numbers, but for {listed}: taken for missing"
        return Column(name, NUMBER, missing=has_missing or bool(odd)), why, odd, 0
    date = _date(name, total, has_missing=has_missing)
    if date is not None:
        return *date, (), 0
    dates = _dates_in_words(name, list(total))
    words = sum(len(text.split()) * count for text, count in total.items()) / num_rows
    if words >= _WORDS_OF_TEXT and len(total) > _DISTINCT_FROM and len(total) * 20 > num_rows:
        return Column(name, TEXT, missing=has_missing), dates.removesuffix("; "), (), 0
    if len(total) >= 0.95 * num_rows and num_rows >= _DISTINCT_FROM:
        why = f"{quoted(name)} differs in nearly every row (an identifier): left out"
        forms = {format: [text for text in total if written_number(text, format)] for format in NUMBER_FORMATS}
        if sum(map(len, forms.values())) >= _ALMOST_ALL * len(total):
            shown = " and ".join(quoted(form[0]) for form in forms.values() if form)
            why = (
                f"{quoted(name)} looks like numbers, but in several ways or units ({shown}): left out; "
                "write them in one"
            )
        return Column(name, IDENTIFIER), f"{dates}{why}", (), 0
    column, why, rare = _category(name, counts, has_missing=has_missing)
    return column, f"{dates}{why}".removesuffix("; "), (), rare


def _written(total: Counter[str], odd: Sequence[str]) -> tuple[str, list[str], str] | None:
    """How a column's numbers are written, texts that are none, and what to say of it; None for no or plain numbers.

    1,234 alone has two meanings: whatever other cell of the column has one only decides, else comma means thousands.

    Args:
        odd: Those that are no plain number.
    """
    some = odd[:100]
    if not some or 2 * sum(any(written_number(text, format) for format in NUMBER_FORMATS) for text in some) < len(some):
        return None
    best: tuple[str, list[str], str] | None = None
    for format in NUMBER_FORMATS:
        found = {text: written_number(text, format) for text in total}
        none = [text for text, number in found.items() if number is None]
        units = {number[1] for number in found.values() if number}
        if len(units - {""}) > 1 or (len(units) > 1 and units & MEASURES):
            continue
        if len(none) > _ODD_TEXTS or sum(total[text] for text in none) > (1.0 - _ALMOST_ALL) * total.total():
            continue
        if best is None or len(none) < len(best[1]):
            example = next(text for text in odd if found[text])
            value = found[example]
            assert value is not None
            why = f"has numbers written as {quoted(example)}, which is {value[0]:.15g}"
            if none:
                why += f"; taken for missing: {', '.join(f'{quoted(text)} {total[text]:,}' for text in none)}"
            best = format, none, why
    if best is not None and best[0] == NUMBER_FORMATS[0]:
        other = NUMBER_FORMATS[1]
        readings = [(written_number(text, best[0]), written_number(text, other)) for text in total]
        if all(two for _, two in readings) and any(one != two for one, two in readings):
            best = best[0], best[1], f'{best[2]} (if it is a decimal comma: format: "{other}")'
    return best


def _category(name: str, counts: Sequence[Counter[str]], *, has_missing: bool) -> tuple[Column, str, int]:
    """Levels with some rows at a site are listed, of many the most frequent."""
    total: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for site in counts:
        levels: Counter[str] = Counter()
        for text, count in site.items():
            if text:
                levels[plain_text(text)] += count
        total += levels
        most |= levels
    often = [level for level in total if most[level] >= ROWS_OF_A_LEVEL]
    listed = sorted(sorted(often, key=lambda level: (-total[level], level))[:LISTED_LEVELS])
    rare = len(total) - len(listed)
    why = f"{quoted(name)} has {len(total):,} levels, {rare:,} of them hashed (rare, or many)" if rare else ""
    return Column(name, CATEGORY, tuple(listed), missing=has_missing), why, rare


def _date(name: str, total: Counter[str], *, has_missing: bool) -> tuple[Column, str] | None:
    """The column where all of its texts are dates of one form, and what to say of it."""
    texts = list(total)
    if not all(_HAS_DATE.search(text) for text in texts[:100]):
        return None
    for format in ("", *_DATE_FORMATS):
        if all(_is_date(text, format) for text in texts[:100]) and all(_is_date(text, format) for text in texts):
            has_time = any(days_of(text, format) % 1.0 for text in texts)
            column = Column(name, TIME if has_time else DATE, missing=has_missing, format=format)
            return column, _other_reading(name, texts, format)
    return None


def _other_reading(name: str, texts: Sequence[str], format: str) -> str:
    """What to say of dates that have a meaning with day and month the other way round as well; empty for others."""
    other = re.sub("%([dm])(.)%([dm])", r"%\3\2%\1", format)
    if other == format or other not in _DATE_FORMATS or not all(_is_date(text, other) for text in texts):
        return ""
    example = next((text for text in texts if days_of(text, format) != days_of(text, other)), None)
    if example is None:
        return ""
    day = datetime.strptime(example, format).date().isoformat()
    first, second = ("day", "month") if format.startswith("%d") else ("month", "day")
    return (
        f"{quoted(name)} has dates that may have the day or the month first: {quoted(example)} is read as {day}, "
        f'{first} first (if the {second} is first: format: "{other}")'
    )


def _dates_in_words(name: str, texts: Sequence[str]) -> str:
    """What to say where all texts are dates, but in two or three forms, before something else; empty for others."""
    if not all(_HAS_DATE.search(text) for text in texts[:100]):
        return ""
    examples, left = [], texts
    for format in ("", *_DATE_FORMATS):
        if any(_is_date(text, format) for text in left[:100]):
            examples.append(quoted(next(text for text in left if _is_date(text, format))))
            left = [text for text in left if not _is_date(text, format)]
    if left or not 2 <= len(examples) <= 3:
        return ""
    return f"{quoted(name)} has dates in several forms ({', '.join(examples)}) and is not read as one: write one form; "


def _is_date(text: str, format: str) -> bool:
    try:
        datetime.strptime(text, format) if format else datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
