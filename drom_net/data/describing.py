"""What is in the columns of some tables, for people: kind, missing cells, spread, examples."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np

from drom_net.data.cells import EPOCH, CellError, number_of
from drom_net.data.columns import NUMBER, Column, Schema
from drom_net.data.tables import Cells, Days, FileTable, Numbers, Texts, as_texts

_EXAMPLES = 3
_LONGEST_EXAMPLE = 24


def describe_columns(tables: Sequence[FileTable], schema: Schema) -> list[dict[str, Any]]:
    """Each column that was read, in order, as plain values for JSON.

    `least`, `mean`, `deviation` and `most` are numbers, or of dates ISO 8601 texts (and days); None where there are
    none.
    """
    kinds = {column.name: column for column in schema.columns}
    return [
        _describe(kinds[name], [table.cells[name] for table in tables]) for name in tables[0].cells if name in kinds
    ]


def _describe(column: Column, parts: Sequence[Cells]) -> dict[str, Any]:
    values = _numbers(column, parts)
    texts = [as_texts(part) for part in parts]
    different = {value for part in texts for value in part.values}
    facts: dict[str, Any] = {
        "column": column.name,
        "kind": column.kind,
        "missing": sum(int(np.count_nonzero(part.codes < 0)) for part in texts),
        "different": len(different),
        **dict.fromkeys(("least", "mean", "deviation", "most")),
        "examples": _examples(parts, texts),
    }
    if len(values):
        numbers = {"least": values.min(), "mean": values.mean(), "most": values.max()}
        is_day = all(isinstance(part, Days) for part in parts)
        facts |= {key: _date(float(value)) if is_day else float(value) for key, value in numbers.items()}
        facts["deviation"] = float(values.std())
    return facts


def _numbers(column: Column, parts: Sequence[Cells]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """All numbers of a column that has such."""
    found = [part.values for part in parts if not isinstance(part, Texts)]
    if column.kind == NUMBER:
        for part in parts:
            if isinstance(part, Texts):
                known = np.array([*(_number(value, column.format) for value in part.values), np.nan])
                found.append(known[part.codes])
    values = np.concatenate(found) if len(found) == len(parts) else np.zeros(0)
    return values[np.isfinite(values)]


def _number(text: str, format: str) -> float:
    try:
        return number_of(text, format)
    except CellError:
        return np.nan


def _examples(parts: Sequence[Cells], texts: Sequence[Texts]) -> list[str]:
    """The first different ones that are not missing."""
    found: dict[str, None] = {}
    for part, text in zip(parts, texts, strict=True):
        for code in text.codes[:1000].tolist():
            if code < 0:
                continue
            value = text.values[code]
            if isinstance(part, Days):
                value = _date(float(value))
            elif isinstance(part, Numbers):
                value = f"{float(value):.6g}"
            value = " ".join(value.split())
            found[value if len(value) <= _LONGEST_EXAMPLE else value[: _LONGEST_EXAMPLE - 1] + "…"] = None
            if len(found) == _EXAMPLES:
                return list(found)
    return list(found)


def _date(days: float) -> str:
    try:
        moment = EPOCH + datetime.timedelta(days=days)
    except OverflowError:  # by its zone it is a little before or after the calendar
        return f"{days:.6g} days"
    return moment.isoformat(timespec="seconds") if days % 1.0 else moment.date().isoformat()
